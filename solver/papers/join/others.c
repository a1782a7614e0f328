#include "papers/join/others.h"

#include <stdio.h>

extern const remat_solver remat_solver_lowerset_approx, remat_solver_rotor;

/* ---- the sequentialised join ---- */

enum { ID_SIZE = 12 };

/* What the chain's profile is made of. */
typedef struct sequence {
    remat_node_spec *nodes;
    char (*ids)[ID_SIZE];
    const char **inputs; /* of each node, one */
} sequence;

static remat_number number(double value)
{
    return (remat_number){.value = value, .given = true};
}

/* Stage v hands on out(v) and the ends of the branches that are complete; likewise its gradient. */
static void fill_stage(const remat_profile *profile, uint32_t v, uint64_t ends, uint64_t gradients,
                       sequence *s)
{
    const remat_node *node = &profile->nodes[v];
    snprintf(s->ids[v], ID_SIZE, "%u", v);
    s->inputs[v] = v > 0 ? s->ids[v - 1] : NULL;
    s->nodes[v] = (remat_node_spec){
        .id = s->ids[v],
        .inputs = &s->inputs[v],
        .n_inputs = v > 0,
        .forward_time = number(node->forward_time),
        .backward_time = number(node->backward_time),
        .output_bytes = number((double)(node->output_bytes + ends)),
        .saved_bytes = number((double)node->saved_bytes),
        .gradient_bytes = number((double)(node->gradient_bytes + gradients)),
        .forward_workspace_bytes = number((double)node->forward_workspace_bytes),
        .backward_workspace_bytes = number((double)node->backward_workspace_bytes),
        .save_workspace_bytes = number((double)node->save_workspace_bytes),
        .backward_uses_inputs = true,
        .backward_uses_output = node->backward_uses_output};
}

/* Branches need not stand one after the other: what is alive behind v are the outputs up to v that
 * a node behind v reads. */
static void fill_stages(const remat_profile *profile, sequence *s)
{
    uint64_t alive = 0, gradients = 0;
    for (uint32_t v = 0; v < profile->n_nodes; v++) {
        const remat_node *node = &profile->nodes[v];
        for (uint32_t i = 0; i < node->n_inputs; i++) {
            uint32_t w = node->inputs[i];
            if (w >= profile->n_nodes)
                continue;
            alive -= profile->nodes[w].output_bytes;
            gradients -= profile->nodes[w].gradient_bytes;
        }
        fill_stage(profile, v, alive, gradients, s);
        alive += node->output_bytes;
        gradients += node->gradient_bytes;
    }
}

static remat_status sequentialise(const remat_profile *profile, remat_profile **ret_chain,
                                  remat_error *error)
{
    size_t n = profile->n_nodes;
    model_arena arena = {0};
    sequence s = {.nodes = model_arena_array(&arena, n, sizeof *s.nodes),
                  .ids = model_arena_array(&arena, n, sizeof *s.ids),
                  .inputs = model_arena_array(&arena, n, sizeof *s.inputs)};
    remat_status status = REMAT_NO_MEMORY;
    if (s.nodes && s.ids && s.inputs) {
        fill_stages(profile, &s);
        const remat_profile_spec spec = {.format = "remat-profile/1",
                                         .name = "sequentialised join",
                                         .nodes = s.nodes,
                                         .n_nodes = n};
        status = remat_profile_new(&spec, ret_chain, error);
    }
    model_arena_clear(&arena);
    return status == REMAT_NO_MEMORY ? remat_fail_memory(error) : status;
}

/* ---- schedules of the chain as schedules of the join ---- */

/* out(v) is there while a stage that hands it on is: stages v .. consumer(v) - 1. */
typedef struct translation {
    const remat_profile *profile;
    uint32_t *holders; /* of out(v): how many such stages are there */
    uint32_t *far;     /* nodes whose consumer is not the next one */
    uint32_t n_far;
    remat_operations list;
    model_arena arena;
} translation;

static uint32_t consumer(const remat_profile *profile, uint32_t v)
{
    return profile->nodes[v].n_consumers ? profile->nodes[v].consumers[0] : v + 1;
}

static remat_status let_go(translation *t, uint32_t v)
{
    return --t->holders[v] == 0 ? remat_push(&t->list, REMAT_D, v) : REMAT_OK;
}

static remat_status drop_stage(translation *t, uint32_t w)
{
    remat_status status = let_go(t, w);
    for (uint32_t i = 0; i < t->n_far && t->far[i] < w && !status; i++)
        if (consumer(t->profile, t->far[i]) > w)
            status = let_go(t, t->far[i]);
    return status;
}

/* What is still there is not made again, but an A needs it gone. */
static remat_status run_stage(translation *t, uint32_t w, remat_operation_kind kind)
{
    remat_status status = REMAT_OK;
    if (t->holders[w] > 0 && kind == REMAT_A)
        status = remat_push(&t->list, REMAT_D, w);
    if (!status && (t->holders[w] == 0 || kind == REMAT_A))
        status = remat_push(&t->list, kind, w);
    t->holders[w]++;
    for (uint32_t i = 0; i < t->n_far && t->far[i] < w; i++)
        if (consumer(t->profile, t->far[i]) > w)
            t->holders[t->far[i]]++;
    return status;
}

static remat_status translate_list(translation *t, const remat_operations *traced)
{
    remat_status status = REMAT_OK;
    for (size_t i = 0; i < traced->length && !status; i++) {
        const remat_operation *operation = &traced->items[i];
        if (operation->kind == REMAT_B)
            status = remat_push(&t->list, REMAT_B, operation->index);
        else if (operation->kind == REMAT_D)
            status = drop_stage(t, operation->index);
        else
            status = run_stage(t, operation->index, operation->kind);
    }
    return status;
}

static remat_status translate(const remat_profile *profile, const remat_operations *traced,
                              remat_operations *ret_list, remat_error *error)
{
    translation t = {.profile = profile};
    t.holders = model_arena_array(&t.arena, profile->n_nodes, sizeof *t.holders);
    t.far = model_arena_array(&t.arena, profile->n_nodes, sizeof *t.far);
    remat_status status = t.holders && t.far ? REMAT_OK : REMAT_NO_MEMORY;
    for (uint32_t v = 0; v < profile->n_nodes && !status; v++)
        if (consumer(profile, v) > v + 1)
            t.far[t.n_far++] = v;
    if (!status)
        status = translate_list(&t, traced);
    if (!status)
        status = remat_liveness(profile, &t.list, ret_list, error);
    else
        remat_fail_memory(error);
    model_arena_clear(&t.arena);
    remat_operations_clear(&t.list);
    return status;
}

/* ---- another solver's lists ---- */

/* A sink that offers what it is offered to another, as lists of the join. */
typedef struct passing {
    const remat_sink *sink;
    const remat_profile *profile; /* of the join */
    bool translates;              /* the lists are of its chain */
} passing;

typedef struct passed {
    const passing *to;
    remat_tracer *trace;
    void *context;
} passed;

static remat_status trace_passed(void *context, size_t index, remat_operations *operations,
                                 remat_model *model, remat_error *error)
{
    const passed *from = context;
    const remat_profile *profile = from->to->profile;
    remat_operations traced = {0};
    remat_model theirs = {0};
    remat_status status = from->trace(from->context, index, &traced, &theirs, error);
    if (!status)
        status = from->to->translates ? translate(profile, &traced, operations, error)
                                      : remat_liveness(profile, &traced, operations, error);
    if (!status)
        status = join_measure(profile, operations, &model->budget, &model->makespan, error);
    model->tentative =
        profile->n_states > 0; /* branches in another order may see another version */
    remat_operations_clear(&traced);
    return status;
}

static remat_status pass_lists(void *data, size_t count, remat_tracer *trace, void *context,
                               remat_error *error)
{
    passed from = {.to = data, .trace = trace, .context = context};
    return remat_offer_lists(from.to->sink, count, trace_passed, &from, error);
}

/* What bounds the chain or the other solver's class is no bound of this one's. */
static remat_status pass_bound(void *data, uint64_t budget, double makespan, remat_error *error)
{
    (void)data;
    (void)budget;
    (void)makespan;
    (void)error;
    return REMAT_OK;
}

static remat_status pass_hold(void *data, uint64_t bytes, remat_error *error)
{
    return remat_sink_hold(((const passing *)data)->sink, bytes, error);
}

static double pass_best(void *data, uint64_t budget)
{
    return remat_sink_best(((const passing *)data)->sink, budget);
}

static void pass_bind(void *data, uint64_t low, uint64_t high)
{
    remat_sink_bind(((const passing *)data)->sink, low, high);
}

/* The lists of a solver on own (the join itself, or its chain), as lists of the join. */
static remat_status ask(const remat_solver *solver, const remat_problem *problem,
                        const remat_profile *own, const remat_sink *sink, const remat_host *host,
                        remat_error *error)
{
    passing to = {.sink = sink, .profile = problem->profile, .translates = own != problem->profile};
    const remat_sink pass = {.data = &to,
                             .offer = pass_lists,
                             .bound = pass_bound,
                             .hold = pass_hold,
                             .best = pass_best,
                             .bind = pass_bind};
    remat_problem theirs = *problem;
    theirs.profile = own;
    theirs.options = remat_options_default(solver);
    remat_status status = solver->solve(&theirs, host, &pass, error);
    return status ? status : remat_sink_hold(sink, 0, error);
}

remat_status join_offer_lower_sets(const remat_problem *problem, const remat_sink *sink,
                                   const remat_host *host, remat_error *error)
{
    return ask(&remat_solver_lowerset_approx, problem, problem->profile, sink, host, error);
}

remat_status join_offer_sequential(const remat_problem *problem, const remat_sink *sink,
                                   const remat_host *host, remat_error *error)
{
    remat_profile *chain = NULL;
    remat_status status = sequentialise(problem->profile, &chain, error);
    if (!status)
        status = ask(&remat_solver_rotor, problem, chain, sink, host, error);
    remat_profile_free(chain);
    return status;
}

remat_status join_others_estimate(const remat_problem *problem, remat_estimate *ret_estimate,
                                  remat_error *error)
{
    remat_estimate sets, sequential;
    remat_profile *chain = NULL;
    remat_problem theirs = *problem;
    theirs.options = remat_options_default(&remat_solver_lowerset_approx);
    remat_status status = remat_solver_lowerset_approx.estimate(&theirs, &sets, error);
    if (!status)
        status = sequentialise(problem->profile, &chain, error);
    theirs.profile = chain;
    theirs.options = remat_options_default(&remat_solver_rotor);
    if (!status)
        status = remat_solver_rotor.estimate(&theirs, &sequential, error);
    remat_profile_free(chain);
    if (status)
        return status;
    uint64_t bytes =
        sets.table_bytes > sequential.table_bytes ? sets.table_bytes : sequential.table_bytes;
    *ret_estimate =
        (remat_estimate){.table_bytes = bytes, .updates = sets.updates + sequential.updates};
    return REMAT_OK;
}
