/* Schedules in pebbles on the wire. */
#include "api.h"

static bool append(json_t *list, json_t *item)
{
    return list && item && json_array_append_new(list, item) == 0;
}

/* ["F", j, i], ["T"], ["Db", j] */
static json_t *operation_encode(const remat_pebble_operation *operation)
{
    const char *name = remat_pebble_kind_name((remat_pebble_kind)operation->kind);
    if (operation->kind == REMAT_PEBBLE_T)
        return json_pack("[s]", name);
    if (operation->kind == REMAT_PEBBLE_DB)
        return json_pack("[s, i]", name, (int)operation->branch);
    return json_pack("[s, i, i]", name, (int)operation->branch, (int)operation->index);
}

static json_t *operations_encode(const remat_pebble_operations *operations)
{
    json_t *list = json_array();
    for (size_t i = 0; i < operations->length; i++)
        if (!append(list, operation_encode(&operations->items[i]))) {
            json_decref(list);
            return NULL;
        }
    return list;
}

/* For each branch, the nodes its steps run. */
static json_t *branches_encode(const remat_pebble_problem *problem)
{
    json_t *list = json_array();
    bool whole = list != NULL;
    for (uint32_t j = 0; j < problem->join.k && whole; j++) {
        json_t *nodes = json_array();
        for (uint32_t i = 0; i < problem->join.length[j] && whole; i++)
            whole = append(nodes, json_integer(problem->nodes[j][i]));
        whole = append(list, nodes) && whole;
    }
    if (whole)
        return list;
    json_decref(list);
    return NULL;
}

json_t *remat_pebble_schedule_encode(const remat_pebble_answer *answer)
{
    const remat_pebble_schedule *schedule = answer->schedule;
    double store_all = schedule->store_all_makespan;
    double overhead = store_all > 0 ? schedule->makespan / store_all - 1 : 0;
    uint32_t most = remat_pebble_most_slots(&answer->problem->join);
    char created[32];
    remat_time_text(answer->created, created);
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:I, s:s, s:f, s:f, s:f, s:I, s:I, s:I, s:f, s:s, s:s, s:f, "
        "s:f, s:b, s:o, s:o, s:o, s:f, s:s}",
        "schedule_id", answer->question->id, "profile_id", answer->question->profile_id, "solver",
        "join", "requested_solver", "join", "model", "pebble", "budget",
        (json_int_t)answer->question->budget, "time_unit",
        remat_time_unit_name(answer->profile->time_unit), "makespan", schedule->makespan,
        "store_all_makespan", store_all, "overhead", overhead, "peak",
        (json_int_t)schedule->replay.peak, "model_peak", (json_int_t)schedule->replay.peak,
        "store_all_peak", (json_int_t)most, "recomputed_time", schedule->makespan - store_all,
        "optimality", "optimal", "class", "all schedules in pebbles", "lower_bound",
        schedule->makespan, "gap", 0.0, "verified", (int)schedule->replay.valid, "nodes",
        remat_node_ids_encode(answer->profile), "branches", branches_encode(answer->problem),
        "operations", operations_encode(&schedule->operations), "solve_seconds",
        answer->solve_seconds, "created", created);
}

/* ---- timelines ---- */

/* Slots taken after an operation, by what it does to the memory. */
static int slots_of(const char *name)
{
    return name[0] == 'S' ? 1 : name[0] == 'B' || name[0] == 'D' ? -1 : 0;
}

static double time_of(const char *name, const remat_pebble_problem *problem)
{
    return name[0] == 'F'   ? problem->forward_time
           : name[0] == 'B' ? problem->backward_time
           : name[0] == 'T' ? problem->turn_time
                            : 0;
}

/* The stored list is trusted as far as it was verified when it was made. */
remat_status remat_pebble_timeline(const json_t *schedule, const remat_profile *profile,
                                   json_t **ret_answer, remat_error *error)
{
    remat_pebble_problem problem;
    const remat_options options = {{0}};
    remat_status status = remat_pebble_problem_of(profile, &options, &problem, error);
    if (status)
        return status;
    json_t *starts = json_array(), *ends = json_array(), *during = json_array();
    json_t *after = json_array(), *operations = json_object_get(schedule, "operations"), *item;
    size_t i, peak_operation = 0;
    json_int_t slots = problem.join.k, peak = slots;
    double clock = 0;
    bool whole = true;
    json_array_foreach(operations, i, item)
    {
        const char *name = json_string_value(json_array_get(item, 0));
        json_int_t before = slots;
        slots += name ? slots_of(name) : 0;
        json_int_t most = slots > before ? slots : before;
        if (most > peak) {
            peak = most;
            peak_operation = i;
        }
        whole = append(starts, json_real(clock)) && whole;
        clock += name ? time_of(name, &problem) : 0;
        whole = append(ends, json_real(clock)) && append(during, json_integer(most)) &&
                append(after, json_integer(slots)) && whole;
    }
    remat_pebble_problem_clear(&problem);
    json_t *answer = json_pack("{s:O, s:s, s:O, s:f, s:I, s:I, s:o, s:O, s:o, s:o, s:o, s:o}",
                               "schedule_id", json_object_get(schedule, "schedule_id"), "time_unit",
                               remat_time_unit_name(profile->time_unit), "budget",
                               json_object_get(schedule, "budget"), "makespan", clock, "peak", peak,
                               "peak_operation", (json_int_t)peak_operation, "nodes",
                               remat_node_ids_encode(profile), "operations", operations, "start",
                               starts, "end", ends, "memory_during", during, "memory_after", after);
    if (!answer || !whole) {
        json_decref(answer);
        return remat_fail_memory(error);
    }
    *ret_answer = answer;
    return REMAT_OK;
}
