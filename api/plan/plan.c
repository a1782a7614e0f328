/* Plans: the table of a step, what is left for activations, and what became of the rest. */
#include "plan/plan.h"

#include "fields.h"
#include "plan/config.h"
#include "plan/nearest.h"
#include "plan/pipeline.h"
#include "plan/ranks.h"
#include "plan/rescale.h"
#include "plan/sweep.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void remat_plan_draft_clear(remat_plan_draft *draft)
{
    json_decref(draft->answer);
    json_decref(draft->document);
    json_decref(draft->question);
    api_changes_free(draft->changes);
    api_sweep_free(draft->sweep);
    api_pipeline_free(draft->pipeline);
    free(draft->ranks);
    *draft = (remat_plan_draft){.answer = NULL};
}

/* ---- the table ---- */

/* What the allocator's gaps take of a device that is filled. */
static json_t *table_encode(const remat_step_table *t, const remat_step_settings *step,
                            uint64_t memory, uint64_t inputs)
{
    const bool in_graph = step->in_graph, come = remat_step_gradient(step) > 0;
    const uint64_t room = remat_step_room(t, memory);
    const uint64_t taken = room > 0 ? memory - room : remat_step_memory(t, 0).driver;
    const uint64_t gaps = taken - t->allocated - t->context - t->communicator;
    const struct {
        const char *name;
        uint64_t bytes;
    } lines[] = {{"weights", t->weights},
                 {"master_weight_bytes", t->master_weights},
                 {"gradients", come ? 0 : t->gradients},
                 {"optimizer_states", t->states},
                 {"cached_weights", in_graph ? 0 : t->cached},
                 {"fp8_copies", t->float8},
                 {"buckets", t->buckets},
                 {"gathered", t->gathered},
                 {"workspaces", t->workspace},
                 {"context", t->context},
                 {"communicator", t->communicator},
                 {"fragmentation", gaps},
                 {"taken_bytes", taken},
                 {"memory", memory},
                 {"activations", room},
                 {"input_bytes", inputs}, /* these are part of the activations */
                 {"gradient_bytes", come ? t->gradients : 0},
                 {"cached_bytes", in_graph ? t->cached : 0}};
    json_t *json = json_object();
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        remat_json_set(&json, lines[i].name, json_integer((json_int_t)lines[i].bytes));
    return json;
}

/* What a step with so many bytes of activations is seen to take. */
json_t *api_memory_encode(const remat_step_table *t, uint64_t activations, uint64_t device)
{
    const remat_memory m = remat_step_memory(t, activations);
    return json_pack("{s:I, s:I, s:I, s:I}", "allocated_bytes", (json_int_t)m.allocated,
                     "reserved_bytes", (json_int_t)m.reserved, "driver_bytes", (json_int_t)m.driver,
                     "device_bytes", (json_int_t)device);
}

/* ---- what is assumed ---- */

static void assume(json_t **list, const char *format, ...)
{
    char text[240];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    remat_json_append(list, json_string(text));
}

#define FUSED_BLOCKS "norms, rotary positions, SwiGLU, dropout with its sum"

/* Of several ranks. */
static void assume_network(const remat_plan_request *q, const remat_network_graph *graph,
                           json_t **list)
{
    const remat_interconnect *way = &q->device.interconnect;
    const bool leaves = remat_step_ranks(&q->step) > way->node;
    if (q->usual_network)
        assume(list, "network: %s, as nodes of this device are sold", q->device.interconnect.name);
    if (leaves && q->usual_between)
        assume(list, "network: between nodes %.2f GB/s a rank, as nodes of this device are sold",
               1e-9 * way->between);
    if (q->usual_latency)
        assume(list, "network: a collective takes 40 us beside its bytes where no latency is "
                     "given, as over NVLink");
    if (leaves && q->usual_node)
        assume(list, "network: %u ranks to a node, as they are sold", way->node);
    if (!graph && q->pipeline.ranks == 0)
        assume(list, "network: the parameters are spread evenly over the profile");
}

/* What a config says that is not planned as it says it. */
static void assume_config(const json_t *config, json_t **list)
{
    const char *class =
        json_string_value(json_array_get(json_object_get(config, "architectures"), 0));
    if (json_is_object(json_object_get(config, "quantization_config")))
        assume(list, "config: quantization_config is not read: weights are as precision, fp8 and "
                     "adapters are asked for");
    if (class && !strstr(class, "LM") && !strstr(class, "PreTraining"))
        assume(list, "config: the head is that of a language model, where architectures says "
                     "another");
}

/* Figures of this plan that nobody measured for it. */
static json_t *assumptions_encode(const remat_plan_request *q, const remat_network_graph *graph)
{
    static const char *const kernels[REMAT_KERNEL_SETS] = {
        "one kernel an operation, as modules are written", FUSED_BLOCKS " are one kernel each",
        FUSED_BLOCKS " and the loss are one kernel each",
        FUSED_BLOCKS " are one kernel each, the loss one for each chunk of logits",
        FUSED_BLOCKS " are one kernel each; logits in chunks"};
    static const char *const float8[REMAT_FLOAT8_KINDS] = {
        "", "torchao, a scale a tensor, made anew each time; inputs are kept in 16 bits",
        "torchao, a scale a tensor; inputs are kept in 16 bits, weights gathered in 8",
        "Transformer Engine, delayed scales; inputs in 8 bits, weights beside by rows and columns",
        "Transformer Engine, delayed scales; inputs and weights in 8 bits, by rows and by columns"};
    json_t *list = json_array();
    const double gaps = 100 * q->device.fragmentation[q->step.compiled];
    if (gaps > 0)
        assume(&list,
               "gaps: of a filled device the allocator reserves %g %% beyond what is asked of it",
               gaps);
    assume_config(q->config, &list);
    if (graph && q->settings.kernels != REMAT_EAGER)
        assume(&list, "kernels: %s", kernels[q->settings.kernels]);
    if (q->step.float8)
        assume(&list,
               "fp8: %s; of 13 published runs memory is planned 20 %% too low to 1 %% too high",
               float8[q->step.float8]);
    if (q->settings.lora.rank > 0)
        assume(&list, "adapters: each of one matrix, in the weights' precision; norms, tables and "
                      "the last product are frozen as they are");
    if (q->settings.lora.base >= REMAT_NF4)
        assume(&list, "4 bits: inputs of matrices are not kept, as by bitsandbytes from 0.43.2 on");
    if (q->settings.sizes.attention_dropout == REMAT_YES && !q->settings.eager_attention)
        assume(&list, "dropout: attention drops within its kernel, at no bytes and no time of its "
                      "own");
    if (q->settings.sizes.window > 0 && q->settings.eager_attention)
        assume(&list, "window: scores that are written out are of all tokens, masked");
    if (remat_step_ranks(&q->step) > 1)
        assume_network(q, graph, &list);
    if (q->pipeline.ranks > 0 && q->usual_runtime)
        assume(&list, "runtime: pytorch's, which keeps outputs and has room for all it receives");
    if (q->pipeline.ranks > 0 && q->pipeline.order == REMAT_1F1B)
        assume(&list, "in flight: as said of each rank; Schedule1F1B of PyTorch has ranks - rank");
    if (q->pipeline.chunks > 1)
        assume(&list,
               "stages: equal cuts, stage s on rank s modulo %u; the plan is the fastest of "
               "the ways that fit",
               q->pipeline.ranks);
    if (q->pipeline.ranks > 0 && q->step.parallel != REMAT_SINGLE)
        assume(&list,
               "replicas: gradients are summed whole and sent behind the last backward; zero3 "
               "gathers once");
    if (q->pipeline.ranks > 0 && !graph)
        assume(&list, "weights: of a profile none are counted, nor gradients nor optimizer states");
    if (q->pipeline.ranks > 0 && !graph)
        assume(&list, "attention: a profile does not say what it is; that column is left out");
    if (q->settings.routing.capacity > 0)
        assume(&list, "experts: each has %g of an even share; more is dropped, less is filled up",
               q->settings.routing.capacity);
    else if (q->settings.expert > 1)
        assume(&list, q->settings.routing.worst
                          ? "experts: all tokens of all ranks that share them go to this one"
                          : "experts: as many tokens to each; routing.load worst plans the rank "
                            "that all go to");
    return list;
}

/* What the plan is of. */
static json_t *head_encode(const remat_plan_request *q, const remat_network_graph *graph,
                           uint64_t parameters, const remat_profile *profile)
{
    char id[REMAT_ID_SIZE];
    json_t *json = json_object();
    remat_profile_id(profile, id);
    if (q->model) {
        remat_json_set(&json, "model", json_string(q->model));
        remat_json_set(&json, "batch", json_integer((json_int_t)q->settings.batch));
    }
    remat_json_set(&json, "profile_id", json_string(id));
    remat_json_set(&json, "name", json_string(profile->name));
    remat_json_set(&json, "nodes", json_integer(profile->n_nodes));
    remat_json_set(&json, "parameters", json_integer((json_int_t)parameters));
    if (graph)
        remat_json_set(&json, "trained_parameters", json_integer((json_int_t)graph->trained));
    remat_json_set(&json, "device", json_string(q->device.name));
    remat_json_set(&json, "optimizer", json_string(remat_optimizer_name(q->step.optimizer)));
    remat_json_set(&json, "precision", json_string(remat_precision_name(q->step.precision)));
    if (q->step.in_backward)
        remat_json_set(&json, "optimizer_in_backward", json_true());
    if (q->model)
        remat_json_set(&json, "kernels", json_string(remat_kernels_name(q->settings.kernels)));
    remat_json_set(&json, "autocast", json_boolean(q->step.autocast));
    if (q->step.float8)
        remat_json_set(&json, "fp8", json_string(remat_float8_name(q->step.float8)));
    if (q->settings.lora.rank > 0)
        remat_json_set(&json, "lora", api_lora_encode(&q->settings.lora));
    remat_json_set(&json, "parallel", api_parallel_encode(q));
    if (remat_step_ranks(&q->step) > 1) {
        remat_json_set(&json, "network", json_string(q->device.interconnect.name));
        remat_json_set(&json, "node_ranks", json_integer(q->device.interconnect.node));
    }
    return json;
}

/* ---- the question ---- */

enum {
    FEW_NODES = 1000, /* over a link */
    ADDRESSES = 20    /* a part of the budget that they may need */
};

/* The quickest that is as good as any at thousands of nodes; auto where it does not go, or where
 * its lists leave an arena little room beside their peak. */
static remat_status usual_solver(const remat_profile *profile, uint64_t budget,
                                 const remat_link *link, const char **ret_name, remat_error *error)
{
    const remat_solver *selective = remat_solver_find(link ? "offload-selective" : "selective");
    remat_problem problem = {.profile = profile, .max_budget = budget, .link = link};
    bool reaches = false;
    *ret_name = "auto";
    if (profile->joint || profile->n_pinned > 0 || (link && profile->n_nodes < FEW_NODES))
        return REMAT_OK;
    problem.options = remat_options_default(selective);
    remat_status status =
        remat_reaches(selective, &problem, budget - budget / ADDRESSES, NULL, &reaches, error);
    if (!status && reaches)
        *ret_name = selective->name;
    return status == REMAT_TOO_LARGE ? REMAT_OK : status;
}

/* moves: over the link. */
static json_t *question_encode(const remat_plan_request *q, const remat_profile *profile,
                               const char *usual, bool moves, uint64_t budget)
{
    json_t *json = json_object();
    remat_json_set(&json, "budget", json_integer((json_int_t)budget));
    if (q->solver)
        remat_json_set(&json, "solver", json_deep_copy(q->solver));
    else
        remat_json_set(&json, "solver", json_string(usual));
    if (q->options)
        remat_json_set(&json, "options", json_deep_copy(q->options));
    if (q->effort)
        remat_json_set(&json, "effort", json_deep_copy(q->effort));
    if (moves) {
        const double seconds = remat_time_unit_seconds(profile->time_unit);
        remat_json_set(&json, "link",
                       json_pack("{s:f, s:f}", "bytes_per_time_unit", q->device.link * seconds,
                                 "latency", 10e-6 / seconds));
    }
    return json;
}

/* ---- the draft ---- */

/* Of the optimizer's pass over all that it reads and writes. */
double api_update_seconds(const remat_device *device, const remat_step_table *table)
{
    const remat_kernel kernel = {.kind = REMAT_POINTWISE, .bytes = (double)table->update_traffic};
    return table->update_traffic > 0 ? remat_kernel_seconds(device, &kernel) : 0;
}

/* Where the time of a step goes that takes so many seconds of the device, and runs so many forwards
 * again. */
static void put_times(remat_plan_draft *draft, double device, size_t again)
{
    const api_ranks *r = draft->ranks;
    const remat_exchange exchange = api_ranks_exchange(r, device, again);
    const double makespan = api_ranks_makespan(r, device, again);
    json_t **answer = &draft->answer;
    remat_json_set(answer, "compute_seconds", json_real(r->store_all - r->waited));
    remat_json_set(answer, "recomputation_seconds", json_real(makespan - r->store_all));
    remat_json_set(answer, "communication_seconds", json_real(r->waited + exchange.exposed));
    remat_json_set(answer, "sent_seconds", json_real(r->waited + exchange.sent));
    remat_json_set(answer, "update_seconds", json_real(draft->update));
}

/* The batch asked for by the ways that training is usually run, whether they fit or not. */
static remat_status put_ways(remat_plan_draft *draft, const remat_network_graph *graph,
                             const remat_profile *profile, const remat_link *link, uint64_t budget,
                             remat_error *error)
{
    static const remat_way ways[] = {REMAT_WAY_STORE_ALL, REMAT_WAY_BLOCKS, REMAT_WAY_SELECTIVE_OP,
                                     REMAT_WAY_OFFLOADED};
    const size_t n = sizeof ways / sizeof *ways - (link ? 0 : 1);
    json_t *list = json_array();
    remat_status status = REMAT_OK;
    for (size_t i = 0; i < n && !status; i++) {
        remat_way_result r;
        status = remat_way_solve(profile, graph->unit, graph->kept, ways[i],
                                 ways[i] == REMAT_WAY_OFFLOADED ? link : NULL, budget, &r, error);
        if (status)
            break;
        const double device = r.makespan * draft->unit;
        const double step = api_ranks_makespan(draft->ranks, device, r.again) +
                            api_ranks_exchange(draft->ranks, device, r.again).exposed +
                            draft->update;
        remat_json_append(
            &list, json_pack("{s:s, s:b, s:I, s:f, s:o}", "way", remat_way_name(ways[i]), "fits",
                             r.fits, "peak", (json_int_t)r.peak, "step_seconds", step, "memory_use",
                             api_memory_encode(&draft->table, r.peak, draft->memory)));
    }
    if (status)
        json_decref(list);
    else
        remat_json_set(&draft->answer, "ways", list);
    return status;
}

/* The answer's beginning, and what its stages are to be asked. */
static remat_status complete_pipeline(const remat_plan_request *q, const remat_profile *profile,
                                      const json_t *document, const remat_network_graph *graph,
                                      remat_plan_draft *draft, remat_error *error)
{
    if (remat_time_unit_seconds(profile->time_unit) == 0)
        return remat_fail(error, REMAT_INVALID, "time_unit",
                          "a plan needs a profile in real time, not in units");
    draft->memory = q->device.memory;
    draft->answer = head_encode(q, graph, graph ? graph->parameters : 0, profile);
    remat_json_set(&draft->answer, "assumptions", assumptions_encode(q, graph));
    if (!draft->answer)
        return remat_fail_memory(error);
    remat_status status = api_pipeline_new(q, graph, document, &draft->pipeline, error);
    if (!status)
        status = api_pipeline_ask(draft->pipeline, &draft->document, &draft->question, error);
    if (!status && graph && !api_pipeline_has_way(draft->pipeline))
        status = api_nearest(q, &draft->changes, error);
    return status;
}

static remat_status complete(const remat_plan_request *q, const remat_profile *profile,
                             const remat_network_graph *graph, const remat_step_table *table,
                             remat_plan_draft *draft, remat_error *error)
{
    const uint64_t memory = q->device.memory;
    const uint64_t budget = remat_step_room(table, memory);
    uint64_t all = 0;
    const char *usual = NULL;
    draft->unit = remat_time_unit_seconds(profile->time_unit);
    if (draft->unit == 0)
        return remat_fail(error, REMAT_INVALID, "time_unit",
                          "a plan needs a profile in real time, not in units");
    const double rate = q->device.link * draft->unit;
    const remat_link link = {.to_host = rate, .to_device = rate, .latency = 10e-6 / draft->unit};
    const double store_all = remat_store_all_makespan(profile) * draft->unit;
    draft->ranks = graph ? api_ranks_of_graph(q, graph, store_all)
                         : api_ranks_of_profile(q, profile, store_all);
    if (!draft->ranks)
        return remat_fail_memory(error);
    remat_status status = remat_store_all_peak(profile, &all, error);
    /* nothing needs to move where all fits as it is */
    const bool moves = q->offload && (q->solver || all > budget - budget / ADDRESSES);
    if (!status && budget > 0 && !q->solver)
        status = usual_solver(profile, budget, moves ? &link : NULL, &usual, error);
    if (status)
        return status;
    draft->update = api_update_seconds(&q->device, table);
    draft->table = *table;
    draft->memory = memory;
    draft->answer = head_encode(q, graph, graph ? graph->parameters : q->parameters, profile);
    remat_json_set(&draft->answer, "table",
                   table_encode(table, &q->step, memory, profile->input_bytes));
    remat_json_set(&draft->answer, "store_all_peak", json_integer((json_int_t)all));
    remat_json_set(&draft->answer, "store_all_fits", json_boolean(all <= budget));
    remat_json_set(&draft->answer, "store_all_memory", api_memory_encode(table, all, memory));
    const remat_exchange exchange = api_ranks_exchange(draft->ranks, draft->ranks->device, 0);
    remat_json_set(&draft->answer, "store_all_seconds",
                   json_real(draft->ranks->store_all + exchange.exposed + draft->update));
    put_times(draft, draft->ranks->device, 0);
    remat_json_set(&draft->answer, "assumptions", assumptions_encode(q, graph));
    if (budget > 0)
        draft->question = question_encode(q, profile, usual, moves, budget);
    if (!draft->answer || (budget > 0 && !draft->question))
        return remat_fail_memory(error);
    if (q->alone)
        return REMAT_OK;
    if (graph)
        status = put_ways(draft, graph, profile, q->offload ? &link : NULL, budget, error);
    if (graph && !status)
        status = api_nearest(q, &draft->changes, error);
    if (status)
        return status;
    return q->sweep && budget > 0 ? api_sweep_new(q, table, draft->update, &draft->sweep, error)
                                  : REMAT_OK;
}

remat_status api_plan_graph(const remat_plan_request *q, uint64_t batch,
                            remat_network_graph **ret_graph, remat_error *error)
{
    remat_network_settings settings = q->settings;
    remat_device device = q->device;
    const bool several = remat_step_ranks(&q->step) > 1 || q->pipeline.ranks > 1;
    for (unsigned p = 0; p < REMAT_RATES && several && device.several > 0; p++)
        device.rate[p] *= device.several;
    settings.batch = batch;
    settings.interconnect = &q->device.interconnect;
    settings.weights = q->step.in_graph;
    settings.gradient = remat_step_gradient(&q->step);
    remat_status status = remat_network_graph_new(q->model, &settings, &device, ret_graph, error);
    if (status == REMAT_INVALID && q->config && error)
        api_config_blame(q->config, q->usual_layers, error);
    return status;
}

static remat_status make_of_model(const remat_plan_request *q, remat_plan_draft *draft,
                                  remat_error *error)
{
    remat_network_graph *graph = NULL;
    remat_profile *profile = NULL;
    remat_step_table table = {0};
    remat_status status = api_plan_graph(q, q->settings.batch, &graph, error);
    if (status)
        return status;
    status =
        remat_step_bytes(graph->tensors, graph->n_tensors, &q->step, &q->device, &table, error);
    table.hole = graph->hole;
    /* The document is what is known of it elsewhere: what stands there is what is solved. */
    draft->document = status ? NULL : remat_network_document(graph, &q->device, &q->settings);
    if (!status && !draft->document)
        status = remat_fail_memory(error);
    if (!status)
        status = remat_profile_decode(draft->document, "", &profile, error);
    if (!status && q->pipeline.ranks > 0) {
        json_t *document = draft->document;
        draft->document = NULL;
        status = complete_pipeline(q, profile, document, graph, draft, error);
        json_decref(document);
    } else if (!status) {
        status = complete(q, profile, graph, &table, draft, error);
    }
    remat_profile_free(profile);
    remat_network_graph_free(graph);
    return status;
}

static remat_status make_of_profile(const remat_plan_request *q, const remat_profile *profile,
                                    const json_t *document, remat_plan_draft *draft,
                                    remat_error *error)
{
    const remat_tensor whole = {1, q->parameters, 0, 0, REMAT_TRAINED, false};
    remat_step_table table = {0};
    remat_device from;
    remat_profile *other = NULL;
    bool rescale = false;
    remat_status status = remat_step_bytes(&whole, 1, &q->step, &q->device, &table, error);
    if (!status)
        status = api_profile_origin(q, document, &from, &rescale, error);
    if (!status && rescale)
        status = api_profile_rescale(document, &from, &q->device, q->step.precision,
                                     &draft->document, error);
    if (!status && rescale)
        status = remat_profile_decode(draft->document, "", &other, error);
    if (!status && q->pipeline.ranks > 0) {
        json_t *own = rescale ? draft->document : json_incref((json_t *)document);
        draft->document = NULL;
        status = complete_pipeline(q, other ? other : profile, own, NULL, draft, error);
        json_decref(own);
    } else if (!status) {
        status = complete(q, other ? other : profile, NULL, &table, draft, error);
    }
    if (!status) { /* a profile that is known already may be so by another name */
        remat_json_set(&draft->answer, "name", json_string(remat_json_string(document, "name")));
        remat_json_set(&draft->answer, "times_of", json_string(from.name));
        remat_json_set(&draft->answer, "rescaled", json_boolean(rescale));
    }
    remat_profile_free(other);
    return status;
}

remat_status remat_plan_draft_make(const remat_plan_request *q, const remat_profile *profile,
                                   const json_t *document, remat_plan_draft *ret_draft,
                                   remat_error *error)
{
    remat_plan_draft draft = {.answer = NULL};
    remat_plan_request own = *q;
    remat_plan_take_precision(&own, document);
    remat_status status = q->model ? make_of_model(q, &draft, error)
                                   : make_of_profile(&own, profile, document, &draft, error);
    if (status)
        remat_plan_draft_clear(&draft);
    else
        *ret_draft = draft;
    return status;
}

/* ---- the end ---- */

json_t *api_schedule_part(const json_t *schedule)
{
    static const char *const members[] = {"schedule_id", "solver",     "makespan",    "overhead",
                                          "peak",        "arena",      "lower_bound", "gap",
                                          "verified",    "optimality", "time_unit"};
    json_t *json = json_object();
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        json_t *value = json_object_get(schedule, members[i]);
        if (value)
            remat_json_set(&json, members[i], json_incref(value));
    }
    return json;
}

/* Of a graph of so many nodes. */
static size_t forwards_again(const json_t *schedule, size_t n_nodes)
{
    const json_t *operation;
    size_t i, forwards = 0;
    json_array_foreach(json_object_get(schedule, "operations"), i, operation)
    {
        const char *kind = json_string_value(json_array_get(operation, 0));
        forwards += strcmp(kind, "F") == 0 || strcmp(kind, "A") == 0;
    }
    return forwards > n_nodes ? forwards - n_nodes : 0;
}

static void put_schedule(remat_plan_draft *draft, const json_t *schedule)
{
    json_t **answer = &draft->answer;
    const double batch = remat_json_number(*answer, "batch");
    const double device = json_number_value(json_object_get(schedule, "makespan")) * draft->unit;
    const size_t again = forwards_again(schedule, draft->ranks->n_nodes);
    const double makespan = api_ranks_makespan(draft->ranks, device, again);
    const remat_way_result result = {
        .fits = true,
        .makespan = makespan / draft->unit,
        .peak = (uint64_t)json_integer_value(json_object_get(schedule, "peak"))};
    const json_t *arena = json_object_get(schedule, "arena");
    const uint64_t held = arena ? (uint64_t)json_integer_value(arena) : result.peak;
    const double beside = api_ranks_exchange(draft->ranks, device, again).exposed + draft->update;
    const double step = makespan + beside;
    remat_json_set(answer, "step_seconds", json_real(step));
    put_times(draft, device, again);
    remat_json_set(answer, "schedule", api_schedule_part(schedule));
    remat_json_set(answer, "memory_use", api_memory_encode(&draft->table, held, draft->memory));
    if (batch > 0)
        remat_json_set(answer, "samples_per_second", json_real(batch / step));
    if (draft->sweep)
        api_sweep_settle(draft->sweep, &result, beside, json_object_get(schedule, "link") != NULL);
}

/* Why there is no schedule, and what the sweep says of that. */
static json_t *refusal_encode(const remat_plan_draft *draft, const remat_error *refusal)
{
    api_sweep *s = draft->sweep;
    if (!refusal)
        return json_string("weights, gradients, optimizer states and what goes with them take the "
                           "whole device");
    const char *row = !s                         ? ""
                      : api_sweep_fits(s, false) ? "; the row of this batch fits, without addresses"
                      : api_sweep_fits(s, true)
                          ? "; with offloading the row of this batch fits, without addresses"
                          : "";
    return json_sprintf("%s%s", refusal->message, row);
}

void api_plan_settle(remat_plan_draft *draft, const json_t *schedule, const remat_error *refusal)
{
    json_t **answer = &draft->answer;
    draft->settled = true;
    remat_json_set(answer, "fits", json_boolean(schedule != NULL));
    if (schedule) {
        put_schedule(draft, schedule);
        api_changes_free(draft->changes);
        draft->changes = NULL;
        return;
    }
    remat_json_set(answer, "refusal", refusal_encode(draft, refusal));
    if (refusal && refusal->number > 0)
        remat_json_set(answer, "least_activations", json_integer((json_int_t)refusal->number));
}

/* Of a pipeline's stage. */
static remat_status next_stage(remat_plan_draft *draft, const json_t *schedule, bool asked,
                               remat_error *error)
{
    remat_status status = asked ? api_pipeline_take(draft->pipeline, schedule, error) : REMAT_OK;
    if (!status && asked)
        status = api_pipeline_ask(draft->pipeline, &draft->document, &draft->question, error);
    return status;
}

remat_status remat_plan_draft_next(remat_plan_draft *draft, const json_t *schedule,
                                   const remat_error *refusal, bool *ret_asks, remat_error *error)
{
    const bool asked = draft->question != NULL;
    remat_status status = REMAT_OK;
    json_decref(draft->document);
    json_decref(draft->question);
    draft->document = draft->question = NULL;
    if (draft->pipeline)
        status = next_stage(draft, schedule, asked, error);
    else if (draft->settled)
        api_changes_take(draft->changes, schedule);
    else
        api_plan_settle(draft, schedule, refusal);
    if (!status && draft->changes)
        (void)api_changes_ask(draft->changes, &draft->document, &draft->question);
    *ret_asks = draft->question != NULL;
    return status;
}

remat_status remat_plan_draft_finish(remat_plan_draft *draft, remat_error *error)
{
    json_t **answer = &draft->answer;
    remat_status status =
        draft->pipeline ? api_pipeline_encode(draft->pipeline, answer, error) : REMAT_OK;
    if (status)
        return status;
    if (draft->sweep)
        api_sweep_encode(draft->sweep, answer);
    if (draft->changes && !json_is_true(json_object_get(*answer, "fits")))
        remat_json_set(answer, "changes", api_changes_encode(draft->changes));
    return *answer ? REMAT_OK : remat_fail_memory(error);
}
