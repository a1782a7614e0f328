/* Profiles in pebbles, and schedules in pebbles that have been replayed. */
#include "papers/join/branches.h"
#include "papers/join/solve.h"
#include "papers/pebble/pebble.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is accepted ---- */

static remat_status refuse_size(const char *what, const char *id, const char *field, uint64_t bytes,
                                remat_error *error)
{
    return remat_fail(error, REMAT_NOT_ACCEPTED, "options.model",
                      "in the pebble model every value is one slot: %s of %s \"%.100s\" must be 1, "
                      "not %llu",
                      field, what, id, (unsigned long long)bytes);
}

static remat_status check_input(const remat_profile *profile, uint32_t k, remat_error *error)
{
    const remat_input *input = &profile->inputs[k];
    if (input->bytes != 1)
        return refuse_size("graph input", input->id, "bytes", input->bytes, error);
    if (input->gradient_bytes != 1)
        return refuse_size("graph input", input->id, "gradient_bytes", input->gradient_bytes,
                           error);
    if (input->n_consumers != 1)
        return remat_fail(error, REMAT_NOT_ACCEPTED, "options.model",
                          "in the pebble model a graph input belongs to one branch; \"%.100s\" is "
                          "read by %u nodes",
                          input->id, input->n_consumers);
    return REMAT_OK;
}

/* Node v of a branch: its first one reads one graph input, the others read the node before. */
static remat_status check_node(const remat_profile *profile, uint32_t v, remat_error *error)
{
    const remat_node *node = &profile->nodes[v];
    if (node->once)
        return remat_fail(
            error, REMAT_NOT_ACCEPTED, "options.model",
            "the pebble model does not honour pins, and node \"%.100s\" (index %u) is "
            "pinned by %s",
            node->id, v, node->keep ? "keep" : "recompute");
    if (node->output_bytes != 1)
        return refuse_size("node", node->id, "output_bytes", node->output_bytes, error);
    if (node->gradient_bytes != 1)
        return refuse_size("node", node->id, "gradient_bytes", node->gradient_bytes, error);
    if (node->n_inputs != 1)
        return remat_fail(error, REMAT_NOT_ACCEPTED, "options.model",
                          "in the pebble model a node reads one value; \"%.100s\" (index %u) reads "
                          "%u",
                          node->id, v, node->n_inputs);
    return REMAT_OK;
}

static remat_status check_profile(const remat_profile *profile, remat_error *error)
{
    if (profile->kind == REMAT_GRAPH)
        return remat_fail(error, REMAT_NOT_ACCEPTED, "solver",
                          "the pebble model takes chains and joins; node \"%.100s\" (index %u) "
                          "breaks the join",
                          profile->nodes[profile->not_join].id, profile->not_join);
    if (!profile->homogeneous)
        return remat_fail(error, REMAT_NOT_ACCEPTED, "options.model",
                          "the pebble model takes homogeneous profiles; the costs of node "
                          "\"%.100s\" (index %u) differ from those of the first node, or it has "
                          "saved bytes or workspaces",
                          profile->nodes[profile->not_homogeneous].id, profile->not_homogeneous);
    remat_status status = REMAT_OK;
    for (uint32_t k = 0; k < profile->n_inputs && !status; k++)
        status = check_input(profile, k, error);
    for (uint32_t v = 0; v + 1 < profile->n_nodes && !status; v++)
        status = check_node(profile, v, error);
    return status;
}

/* ---- branches ---- */

static uint32_t length_of(const remat_profile *profile, uint32_t last)
{
    uint32_t length = 0;
    for (uint32_t v = last; v < profile->n_nodes; v = profile->nodes[v].inputs[0])
        length++;
    return length;
}

static remat_status add_branch(const remat_profile *profile, uint32_t last, uint32_t *room,
                               remat_pebble_problem *problem, remat_error *error)
{
    remat_pebble_join *join = &problem->join;
    uint32_t length = length_of(profile, last);
    if (join->k == REMAT_PEBBLE_BRANCHES || length > REMAT_PEBBLE_EDGE)
        return remat_fail(error, REMAT_TOO_LARGE, "options.model",
                          "the pebble model takes up to %d branches of up to %d nodes",
                          REMAT_PEBBLE_BRANCHES, REMAT_PEBBLE_EDGE);
    for (uint32_t v = last, i = length; i > 0; v = profile->nodes[v].inputs[0])
        room[--i] = v;
    problem->nodes[join->k] = room;
    join->length[join->k++] = length;
    return REMAT_OK;
}

remat_status remat_pebble_problem_of(const remat_profile *profile, const remat_options *options,
                                     remat_pebble_problem *ret_problem, remat_error *error)
{
    const remat_node *loss = &profile->nodes[profile->n_nodes - 1];
    remat_status status = check_profile(profile, error);
    if (status)
        return status;
    remat_pebble_problem problem = {.turn_time = loss->forward_time + loss->backward_time};
    problem.node_list = malloc(((size_t)profile->n_nodes + 1) * sizeof *problem.node_list);
    if (!problem.node_list)
        return remat_fail_memory(error);
    if (profile->n_nodes > 1) {
        problem.forward_time = profile->nodes[0].forward_time;
        problem.backward_time = profile->nodes[0].backward_time;
    }
    uint32_t *room = problem.node_list;
    for (uint32_t i = 0; i < loss->n_inputs && !status; i++) {
        status = add_branch(profile, loss->inputs[i], room, &problem, error);
        if (!status)
            room += problem.join.length[problem.join.k - 1];
    }
    for (uint32_t j = 0; j < problem.join.k; j++)
        problem.join.keep[j] = options->values[JOIN_OPTION_KEEP] != 0;
    if (!status && problem.join.k == 0)
        status = remat_fail(error, REMAT_NOT_ACCEPTED, "options.model",
                            "in the pebble model the loss reads at least one branch");
    if (status)
        remat_pebble_problem_clear(&problem);
    else
        *ret_problem = problem;
    return status;
}

void remat_pebble_problem_clear(remat_pebble_problem *problem)
{
    free(problem->node_list);
    *problem = (remat_pebble_problem){0};
}

/* ---- growing tables ---- */

static uint32_t doubled(uint32_t size, uint32_t most)
{
    uint32_t power = 8;
    while (power < size)
        power *= 2;
    return power < most ? power : most;
}

static bool fits(uint32_t k, uint32_t edge, uint32_t slots, uint64_t limit)
{
    uint64_t bytes = remat_pebble_table_bytes(k, edge, slots);
    return bytes != UINT64_MAX && (limit == 0 || bytes <= limit);
}

static double updates_of(uint32_t k, uint32_t edge, uint32_t slots)
{
    /* every cell of every row looks at up to k branches and edge steps */
    return (double)remat_pebble_table_bytes(k, edge, slots) / 2 * k * edge;
}

void remat_pebble_table_plan(const remat_pebble_table *known, const remat_pebble_join *join,
                             uint32_t slots, uint64_t memory_limit, uint32_t *ret_edge,
                             uint32_t *ret_slots, double *ret_updates)
{
    uint32_t most = remat_pebble_most_slots(join), edge = 0;
    uint32_t need = slots < most ? slots : most;
    for (uint32_t j = 0; j < join->k; j++)
        edge = join->length[j] > edge ? join->length[j] : edge;
    uint32_t wide = 0, deep = 0;
    if (known)
        remat_pebble_table_size(known, &wide, &deep);
    wide = wide > edge ? wide : edge;
    deep = deep > need ? deep : need;
    uint32_t wider = doubled(wide, REMAT_PEBBLE_EDGE), deeper = doubled(deep, REMAT_PEBBLE_SLOTS);
    if (fits(join->k, wider, deeper, memory_limit / 4)) {
        wide = wider;
        deep = deeper;
    } else if (!fits(join->k, wide, deep, memory_limit)) {
        wide = edge;
        deep = need;
    }
    *ret_edge = wide;
    *ret_slots = deep;
    *ret_updates = updates_of(join->k, wide, deep);
}

/* ---- schedules ---- */

static double time_of(const remat_pebble_problem *problem, uint8_t kind)
{
    return kind == REMAT_PEBBLE_F   ? problem->forward_time
           : kind == REMAT_PEBBLE_B ? problem->backward_time
           : kind == REMAT_PEBBLE_T ? problem->turn_time
                                    : 0;
}

static double makespan_of(const remat_pebble_problem *problem, double forwards)
{
    double steps = remat_pebble_most_slots(&problem->join) - problem->join.k;
    return forwards * problem->forward_time + steps * problem->backward_time + problem->turn_time;
}

double remat_pebble_store_all(const remat_pebble_problem *problem)
{
    return makespan_of(problem, remat_pebble_most_slots(&problem->join) - problem->join.k);
}

static remat_simulation simulation_of(const remat_pebble_problem *problem,
                                      const remat_pebble_replay *replay)
{
    double makespan = makespan_of(problem, replay->forwards);
    remat_simulation simulation = {.valid = replay->valid,
                                   .bad_operation = replay->bad_operation,
                                   .makespan = makespan,
                                   .compute_time = makespan,
                                   .recomputed_time = makespan - remat_pebble_store_all(problem),
                                   .peak = replay->peak,
                                   .peak_operation = replay->peak_operation};
    if (!replay->valid)
        snprintf(simulation.reason, sizeof simulation.reason, "%s", replay->reason);
    return simulation;
}

remat_status remat_pebble_judge(const remat_pebble_problem *problem, const remat_steps *operations,
                                remat_moment *moments, remat_simulation *ret_simulation,
                                remat_error *error)
{
    remat_pebble_replay replay;
    remat_status status =
        remat_pebble_simulate(&problem->join, operations, moments, &replay, error);
    if (status)
        return status;
    double clock = 0;
    for (size_t i = 0; moments && replay.valid && i < operations->length; i++) {
        moments[i].start = clock;
        clock += time_of(problem, operations->items[i].kind);
        moments[i].end = clock;
    }
    *ret_simulation = simulation_of(problem, &replay);
    return REMAT_OK;
}

static remat_status confirm(const remat_pebble_table *table, const remat_pebble_join *join,
                            uint32_t slots, const remat_pebble_replay *replay, remat_error *error)
{
    if (!replay->valid)
        return remat_fail(error, REMAT_INTERNAL, NULL, "join, pebbles: operation %zu: %s",
                          replay->bad_operation, replay->reason);
    uint32_t forwards = remat_pebble_forwards(table, join, slots);
    if (replay->forwards != forwards || replay->peak > slots)
        return remat_fail(error, REMAT_INTERNAL, NULL,
                          "join, pebbles: predicted %u forwards in %u slots, replayed %u in %u",
                          forwards, slots, replay->forwards, replay->peak);
    return REMAT_OK;
}

remat_status remat_pebble_solve(const remat_pebble_table *table,
                                const remat_pebble_problem *problem, uint32_t slots,
                                remat_schedule *ret_schedule, remat_error *error)
{
    const remat_pebble_join *join = &problem->join;
    remat_schedule schedule = {.solver = &remat_solver_join,
                               .nominal_budget = slots,
                               .optimality = REMAT_OPTIMAL,
                               .class_name = "all schedules in pebbles",
                               .bound_class = "all schedules in pebbles"};
    remat_pebble_replay replay;
    remat_status status = remat_pebble_trace(table, join, slots, &schedule.steps, error);
    if (!status)
        status = remat_pebble_simulate(join, &schedule.steps, NULL, &replay, error);
    if (!status)
        status = confirm(table, join, slots, &replay, error);
    if (status) {
        remat_schedule_clear(&schedule);
        return status;
    }
    schedule.simulation = simulation_of(problem, &replay);
    schedule.model_peak = replay.peak;
    schedule.lower_bound = schedule.simulation.makespan;
    *ret_schedule = schedule;
    return REMAT_OK;
}
