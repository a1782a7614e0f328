/* Pebbles as a machine of their own (remat/machine.h). Their tables depend on the number of
 * branches alone: one is kept of each, and grows with what is asked. */
#include "remat/machine.h"
#include "papers/join/solve.h"
#include "papers/pebble/pebble.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const remat_step_kind kinds[] = {
    [REMAT_PEBBLE_F] = {"F", 2}, [REMAT_PEBBLE_S] = {"S", 2}, [REMAT_PEBBLE_T] = {"T", 0},
    [REMAT_PEBBLE_B] = {"B", 2}, [REMAT_PEBBLE_D] = {"D", 2}, [REMAT_PEBBLE_DB] = {"Db", 1}};

/* ---- profiles and lists ---- */

static remat_status facts_of(const remat_pebble_problem *problem, remat_machine_facts *ret_facts,
                             remat_error *error)
{
    const remat_pebble_join *join = &problem->join;
    const uint32_t n_nodes = remat_pebble_most_slots(join) - join->k;
    remat_machine_facts facts = {.least = remat_pebble_least_slots(join),
                                 .most = remat_pebble_most_slots(join),
                                 .store_all_makespan = remat_pebble_store_all(problem),
                                 .n_branches = join->k,
                                 .lengths = calloc(join->k, sizeof *facts.lengths),
                                 .nodes = calloc((size_t)n_nodes + 1, sizeof *facts.nodes)};
    if (!facts.lengths || !facts.nodes) {
        remat_machine_facts_clear(&facts);
        return remat_fail_memory(error);
    }
    memcpy(facts.lengths, join->length, join->k * sizeof *facts.lengths);
    memcpy(facts.nodes, problem->node_list, n_nodes * sizeof *facts.nodes);
    *ret_facts = facts;
    return REMAT_OK;
}

static remat_status pebble_facts(const remat_profile *profile, const remat_options *options,
                                 remat_machine_facts *ret_facts, remat_error *error)
{
    remat_pebble_problem problem;
    remat_status status = remat_pebble_problem_of(profile, options, &problem, error);
    if (status)
        return status;
    status = facts_of(&problem, ret_facts, error);
    remat_pebble_problem_clear(&problem);
    return status;
}

/* The gradients that are kept are those that the list does not drop. */
static remat_status pebble_replay(const remat_profile *profile, const remat_steps *steps,
                                  remat_moment *moments, remat_simulation *ret_simulation,
                                  remat_error *error)
{
    const remat_options none = {{0}};
    remat_pebble_problem problem;
    remat_status status = remat_pebble_problem_of(profile, &none, &problem, error);
    if (status)
        return status;
    for (uint32_t j = 0; j < problem.join.k; j++)
        problem.join.keep[j] = true;
    for (size_t i = 0; i < steps->length; i++)
        if (steps->items[i].kind == REMAT_PEBBLE_DB && steps->items[i].branch < problem.join.k)
            problem.join.keep[steps->items[i].branch] = false;
    status = remat_pebble_judge(&problem, steps, moments, ret_simulation, error);
    remat_pebble_problem_clear(&problem);
    return status;
}

/* ---- tables ---- */

/* What is asked: the join, and no more slots than any schedule of it uses. */
static remat_status read_problem(const remat_problem *problem, remat_pebble_problem *ret_pebbles,
                                 uint32_t *ret_slots, remat_error *error)
{
    *ret_slots = problem->max_budget < REMAT_PEBBLE_SLOTS ? (uint32_t)problem->max_budget
                                                          : (uint32_t)REMAT_PEBBLE_SLOTS;
    return remat_pebble_problem_of(problem->profile, &problem->options, ret_pebbles, error);
}

static remat_status pebble_name(const remat_problem *problem, char ret_name[REMAT_TABLE_NAME_SIZE],
                                remat_error *error)
{
    uint32_t slots;
    remat_pebble_problem pebbles;
    remat_status status = read_problem(problem, &pebbles, &slots, error);
    if (status)
        return status;
    snprintf(ret_name, REMAT_TABLE_NAME_SIZE, "{\"branches\":%u,\"model\":\"pebble\"}",
             pebbles.join.k);
    remat_pebble_problem_clear(&pebbles);
    return REMAT_OK;
}

static remat_status pebble_estimate(const remat_problem *problem, remat_estimate *ret_estimate,
                                    remat_error *error)
{
    uint32_t slots, edge, depth;
    remat_pebble_problem pebbles;
    remat_status status = read_problem(problem, &pebbles, &slots, error);
    if (status)
        return status;
    *ret_estimate = (remat_estimate){0};
    remat_pebble_table_plan(NULL, &pebbles.join, slots, 0, &edge, &depth, &ret_estimate->updates);
    ret_estimate->table_bytes = remat_pebble_table_bytes(pebbles.join.k, edge, depth);
    remat_pebble_problem_clear(&pebbles);
    return REMAT_OK;
}

static remat_status pebble_tabulate(const remat_problem *problem, const void *known,
                                    const remat_host *host, void **ret_raw, remat_error *error)
{
    uint32_t slots, edge, depth;
    double updates;
    remat_pebble_problem pebbles;
    remat_pebble_table *table = NULL;
    remat_status status = read_problem(problem, &pebbles, &slots, error);
    if (status)
        return status;
    remat_pebble_table_plan(known, &pebbles.join, slots, host ? host->memory_limit : 0, &edge,
                            &depth, &updates);
    status = remat_pebble_table_new(pebbles.join.k, edge, depth, host, &table, error);
    remat_pebble_problem_clear(&pebbles);
    *ret_raw = table;
    return status;
}

static bool pebble_serves(const void *raw, const remat_problem *problem)
{
    uint32_t slots;
    remat_pebble_problem pebbles;
    if (read_problem(problem, &pebbles, &slots, NULL))
        return false;
    bool serves = remat_pebble_table_branches(raw) == pebbles.join.k &&
                  remat_pebble_table_covers(raw, &pebbles.join, slots);
    remat_pebble_problem_clear(&pebbles);
    return serves;
}

static uint64_t pebble_bytes(const void *raw)
{
    uint32_t edge, slots;
    remat_pebble_table_size(raw, &edge, &slots);
    return remat_pebble_table_bytes(remat_pebble_table_branches(raw), edge, slots);
}

static remat_status pebble_save(const void *raw, remat_buffer *buffer, remat_error *error)
{
    return remat_pebble_table_save(raw, buffer, error);
}

static remat_status pebble_load(remat_reader *reader, void **ret_raw, remat_error *error)
{
    remat_pebble_table *table = NULL;
    remat_status status = remat_pebble_table_load(reader, NULL, &table, error);
    *ret_raw = table;
    return status;
}

static void pebble_free(void *raw)
{
    remat_pebble_table_free(raw);
}

static remat_status pebble_schedule(const void *raw, const remat_problem *problem, uint64_t budget,
                                    remat_schedule *ret_schedule, remat_error *error)
{
    remat_pebble_problem pebbles;
    remat_status status =
        remat_pebble_problem_of(problem->profile, &problem->options, &pebbles, error);
    if (status)
        return status;
    status = remat_pebble_solve(raw, &pebbles, (uint32_t)budget, ret_schedule, error);
    remat_pebble_problem_clear(&pebbles);
    return status;
}

const remat_machine remat_pebbles = {
    .name = "pebble",
    .unit = "slot",
    .work = "forwards",
    .most_budget = REMAT_PEBBLE_SLOTS,
    .kinds = kinds,
    .n_kinds = sizeof kinds / sizeof *kinds,
    .facts = pebble_facts,
    .replay = pebble_replay,
    .name_table = pebble_name,
    .estimate = pebble_estimate,
    .tabulate = pebble_tabulate,
    .serves = pebble_serves,
    .bytes = pebble_bytes,
    .save = pebble_save,
    .load = pebble_load,
    .free = pebble_free,
    .schedule = pebble_schedule,
};
