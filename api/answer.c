/* The bodies of answers. */
#include "fields.h"

#include "remat/answer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void remat_time_text(int64_t milliseconds, char ret_text[32])
{
    time_t seconds = (time_t)(milliseconds / 1000);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    size_t length = strftime(ret_text, 32, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(ret_text + length, 32 - length, ".%03dZ", (int)(milliseconds % 1000));
}

/* a / b - 1, and 0 where the network takes no time at all. */
static double excess(double a, double b)
{
    return b > 0 ? a / b - 1 : 0;
}

static json_t *bytes(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *node_ids_encode(const remat_profile *profile)
{
    json_t *list = json_array();
    for (uint32_t v = 0; v < profile->n_nodes; v++)
        remat_json_append(&list, json_string(profile->nodes[v].id));
    return list;
}

/* The best that n tables of one solver have at the budget. */
static json_t *candidate_encode(const remat_table *const *tables, size_t n, uint64_t budget)
{
    size_t n_points;
    uint64_t least;
    ptrdiff_t best = remat_best_table(tables, n, budget, &least);
    json_t *item = json_pack("{s:s, s:b}", "solver", remat_table_solver(tables[0])->name,
                             "feasible", best >= 0);
    if (best >= 0) {
        const remat_point *point =
            remat_table_frontier(tables[best], &n_points) + remat_table_point(tables[best], budget);
        remat_json_set(&item, "makespan", json_real(point->makespan));
        remat_json_set(&item, "peak", bytes(point->peak));
    } else if (least > 0) {
        remat_json_set(&item, "minimum_budget", bytes(least));
    }
    return item;
}

/* How each solver that auto asked did at the budget. */
static json_t *candidates_encode(const remat_schedule_answer *answer)
{
    const remat_table *const *tables = answer->answered->portfolio.tables;
    const size_t n_tables = answer->answered->portfolio.n;
    json_t *list = json_array();
    for (size_t i = 0, n; i < n_tables; i += n) {
        for (n = 1; i + n < n_tables &&
                    remat_table_solver(tables[i + n]) == remat_table_solver(tables[i]);)
            n++;
        remat_json_append(&list, candidate_encode(&tables[i], n, answer->question->budget));
    }
    return list;
}

static json_t *neighbour_encode(const remat_neighbour *one, bool budget)
{
    json_t *json = json_pack("{s:s, s:f, s:I}", "solver", one->solver->name, "makespan",
                             one->makespan, "peak", (json_int_t)one->peak);
    if (budget)
        remat_json_set(&json, "budget", bytes(one->budget));
    return json;
}

/* What the tables hold beside this schedule, which may itself be the smallest. */
static json_t *frontier_encode(const remat_schedule *schedule)
{
    const remat_simulation *own = &schedule->simulation;
    const bool smaller = schedule->operations.length > 0 && own->peak < schedule->least.peak;
    const remat_neighbour this = {schedule->solver, own->peak, own->peak, own->makespan};
    json_t *json = json_object();
    remat_json_set(&json, "smallest", neighbour_encode(smaller ? &this : &schedule->least, false));
    if (schedule->next.solver)
        remat_json_set(&json, "larger", neighbour_encode(&schedule->next, true));
    return json;
}

/* What an answer is compared with: storing everything. */
typedef struct baseline {
    uint64_t peak;
    double makespan;
} baseline;

static json_t *encode_answer(const remat_schedule_answer *answer, json_t *nodes, json_t *operations,
                             const baseline *all, double *ret_overhead)
{
    const remat_question *q = answer->question;
    const remat_schedule *schedule = &answer->answered->schedule;
    const remat_simulation *simulation = &schedule->simulation;
    char created[32];
    *ret_overhead = excess(simulation->makespan, all->makespan);
    remat_time_text(answer->created, created);
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:I, s:s, s:f, s:f, s:f, s:I, s:I, s:I, s:f, s:s, s:s, s:f, s:s, "
        "s:f, s:b, s:o, s:o, s:f, s:s}",
        "schedule_id", q->id, "profile_id", q->profile_id, "solver", schedule->solver->name,
        "requested_solver", remat_question_solver(q), "budget", (json_int_t)q->budget, "time_unit",
        remat_time_unit_name(answer->profile->time_unit), "makespan", simulation->makespan,
        "store_all_makespan", all->makespan, "overhead", *ret_overhead, "peak",
        (json_int_t)simulation->peak, "model_peak", (json_int_t)schedule->model_peak,
        "store_all_peak", (json_int_t)all->peak, "recomputed_time", simulation->recomputed_time,
        "optimality", remat_optimality_name(schedule->optimality), "class", schedule->class_name,
        "lower_bound", schedule->lower_bound, "bound_class", schedule->bound_class, "gap",
        excess(simulation->makespan, schedule->lower_bound), "verified", (int)simulation->valid,
        "nodes", nodes, "operations", operations, "solve_seconds", answer->solve_seconds, "created",
        created);
}

/* What each micro-batch holds at the turn, and what the stage sends then. */
static void set_in_flight(json_t **json, const remat_profile *profile,
                          const remat_simulation *simulation, uint32_t in_flight)
{
    remat_json_set(json, "in_flight", json_integer(in_flight));
    remat_json_set(json, "held", bytes(simulation->held));
    if (profile->joint)
        return;
    remat_json_set(json, "output_bytes", bytes(profile->nodes[profile->n_nodes - 1].output_bytes));
    remat_json_set(json, "output", json_string(simulation->output_held ? "kept" : "freed"));
}

/* A schedule of another machine: its list, and which nodes its branches run. */
static json_t *encode_steps(const remat_machine *machine, const remat_schedule_answer *answer,
                            double *ret_overhead)
{
    remat_machine_facts facts;
    if (machine->facts(answer->profile, &answer->question->options, &facts, NULL))
        return NULL;
    const baseline all = {facts.most, facts.store_all_makespan};
    json_t *json = encode_answer(answer, node_ids_encode(answer->profile),
                                 api_steps_encode(machine, &answer->answered->schedule.steps), &all,
                                 ret_overhead);
    remat_json_set(&json, "model", json_string(machine->name));
    remat_json_set(&json, "branches", api_branches_encode(&facts));
    remat_machine_facts_clear(&facts);
    return json;
}

/* Without its lists, which stand as null where whole is false, and not that of another machine. */
static json_t *encode_schedule(const remat_schedule_answer *answer, bool whole,
                               double *ret_overhead)
{
    const remat_question *q = answer->question;
    const remat_schedule *schedule = &answer->answered->schedule;
    const remat_profile *profile = answer->profile;
    baseline all = {0, remat_store_all_makespan(profile)};
    if (api_store_all(profile, q->in_flight, answer->store_all_peak, &all.peak, NULL))
        return NULL;
    json_t *nodes = whole ? node_ids_encode(profile) : json_null();
    json_t *operations =
        whole ? remat_operations_encode(&schedule->operations, profile) : json_null();
    json_t *json = encode_answer(answer, nodes, operations, &all, ret_overhead);
    if (q->in_flight > 1)
        set_in_flight(&json, profile, &schedule->simulation, q->in_flight);
    if (schedule->cut_short)
        remat_json_set(&json, "cut_short", json_true());
    if (schedule->reordered_peak)
        remat_json_set(&json, "reordered_peak", bytes(schedule->reordered_peak));
    if (schedule->least.solver)
        remat_json_set(&json, "frontier", frontier_encode(schedule));
    if (q->linked)
        remat_json_set(&json, "link", remat_link_encode(&q->link));
    if (q->alignment) {
        remat_json_set(&json, "arena", bytes(schedule->layout.arena));
        if (q->in_flight > 1)
            remat_json_set(&json, "held_arena", bytes(schedule->layout.held_arena));
        remat_json_set(&json, "alignment", json_integer((json_int_t)q->alignment));
        remat_json_set(&json, "allocations",
                       whole ? remat_allocations_encode(&schedule->layout) : json_null());
    }
    if (!q->solver)
        remat_json_set(&json, "candidates", candidates_encode(answer));
    return json;
}

json_t *remat_schedule_encode(const remat_schedule_answer *answer, double *ret_overhead)
{
    const remat_question *q = answer->question;
    const remat_machine *machine = remat_machine_of(q->solver, &q->options);
    return machine ? encode_steps(machine, answer, ret_overhead)
                   : encode_schedule(answer, true, ret_overhead);
}

/* ---- long lists as text ---- */

static json_t *node_item(const remat_schedule_answer *answer, size_t i)
{
    return json_string(answer->profile->nodes[i].id);
}

static json_t *operation_item(const remat_schedule_answer *answer, size_t i)
{
    return api_operation_encode(&answer->answered->schedule.operations.items[i], answer->profile);
}

static json_t *allocation_item(const remat_schedule_answer *answer, size_t i)
{
    return api_allocation_encode(&answer->answered->schedule.layout.items[i]);
}

typedef struct long_list {
    const char *name;
    json_t *(*item)(const remat_schedule_answer *answer, size_t i);
    size_t n;
} long_list;

/* One item at a time: as a tree the list would take some twenty times its text. */
static bool put_list(remat_buffer *text, const remat_schedule_answer *answer, const long_list *list)
{
    bool good = !remat_buffer_put(text, "[", 1);
    for (size_t i = 0; i < list->n && good; i++) {
        json_t *item = list->item(answer, i);
        good = item && (i == 0 || !remat_buffer_put(text, ",", 1)) && api_text_put(text, item);
        json_decref(item);
    }
    return good && !remat_buffer_put(text, "]", 1);
}

static bool put_member(remat_buffer *text, const remat_schedule_answer *answer, const char *name,
                       const json_t *value)
{
    const remat_schedule *schedule = &answer->answered->schedule;
    const long_list lists[] = {{"nodes", node_item, answer->profile->n_nodes},
                               {"operations", operation_item, schedule->operations.length},
                               {"allocations", allocation_item, schedule->layout.n}};
    if (remat_buffer_put(text, "\"", 1) || remat_buffer_put(text, name, strlen(name)) ||
        remat_buffer_put(text, "\":", 2))
        return false;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (json_is_null(value) && strcmp(name, lists[i].name) == 0)
            return put_list(text, answer, &lists[i]);
    return api_text_put(text, value);
}

static bool put_schedule(remat_buffer *text, const remat_schedule_answer *answer, json_t *json)
{
    const char *name, *before = "{";
    json_t *value;
    json_object_foreach(json, name, value)
    {
        if (remat_buffer_put(text, before, 1) || !put_member(text, answer, name, value))
            return false;
        before = ",";
    }
    return !remat_buffer_put(text, "}", 2); /* and NUL */
}

char *remat_schedule_text(const remat_schedule_answer *answer, double *ret_overhead)
{
    const remat_question *q = answer->question;
    bool machine = remat_machine_of(q->solver, &q->options) != NULL;
    json_t *json = machine ? remat_schedule_encode(answer, ret_overhead)
                           : encode_schedule(answer, false, ret_overhead);
    remat_buffer text = {0};
    bool good = json && put_schedule(&text, answer, json);
    json_decref(json);
    if (!good) {
        remat_buffer_clear(&text);
        return NULL;
    }
    char *fitted = realloc(text.data, text.length);
    return fitted ? fitted : (char *)text.data;
}

/* One member of every moment: a time, or else bytes. */
static json_t *moments_encode(const remat_moment *moments, size_t n, size_t offset, bool time)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        const void *member = (const char *)&moments[i] + offset;
        remat_json_append(&list, time ? json_real(*(const double *)member)
                                      : bytes(*(const uint64_t *)member));
    }
    return list;
}

json_t *remat_timeline_encode(const char *schedule_id, uint64_t budget,
                              const remat_profile *profile, json_t *operations,
                              const remat_moment *moments, const remat_simulation *simulation)
{
    size_t n = json_array_size(operations);
    const size_t start = offsetof(remat_moment, start), end = offsetof(remat_moment, end);
    const size_t during = offsetof(remat_moment, memory_during);
    const size_t after = offsetof(remat_moment, memory_after);
    return json_pack("{s:s, s:s, s:I, s:f, s:I, s:I, s:o, s:O, s:o, s:o, s:o, s:o}", "schedule_id",
                     schedule_id, "time_unit", remat_time_unit_name(profile->time_unit), "budget",
                     (json_int_t)budget, "makespan", simulation->makespan, "peak",
                     (json_int_t)simulation->peak, "peak_operation",
                     (json_int_t)simulation->peak_operation, "nodes", node_ids_encode(profile),
                     "operations", operations, "start", moments_encode(moments, n, start, true),
                     "end", moments_encode(moments, n, end, true), "memory_during",
                     moments_encode(moments, n, during, false), "memory_after",
                     moments_encode(moments, n, after, false));
}

json_t *remat_values_encode(const remat_layout *layout)
{
    json_t *list = json_array();
    for (size_t i = 0; i < layout->n; i++) {
        const remat_allocation *a = &layout->items[i];
        json_t *item =
            json_pack("[s, I, I, i, i]", remat_allocation_kind_name((remat_allocation_kind)a->kind),
                      (json_int_t)a->index, (json_int_t)a->bytes, (int)a->first, (int)a->last);
        if (a->result > 0)
            remat_json_append(&item, json_integer(a->result));
        remat_json_append(&list, item);
    }
    return list;
}

static json_t *recomputed_encode(const remat_profile *profile, const double *node_recomputed)
{
    json_t *json = json_object();
    for (uint32_t v = 0; v < profile->n_nodes; v++)
        if (node_recomputed[v] > 0)
            remat_json_set(&json, profile->nodes[v].id, json_real(node_recomputed[v]));
    return json;
}

json_t *remat_simulation_encode(const remat_profile *profile, const remat_simulation *simulation,
                                uint32_t in_flight, const double *node_recomputed)
{
    json_t *json = json_object();
    remat_json_set(&json, "valid", json_boolean(simulation->valid));
    if (!simulation->valid) {
        remat_json_set(&json, "bad_operation", json_integer((json_int_t)simulation->bad_operation));
        remat_json_set(&json, "reason", json_string(simulation->reason));
        return json;
    }
    double store_all = remat_store_all_makespan(profile);
    remat_json_set(&json, "time_unit", json_string(remat_time_unit_name(profile->time_unit)));
    remat_json_set(&json, "makespan", json_real(simulation->makespan));
    remat_json_set(&json, "store_all_makespan", json_real(store_all));
    remat_json_set(&json, "overhead", json_real(excess(simulation->makespan, store_all)));
    remat_json_set(&json, "compute_time", json_real(simulation->compute_time));
    remat_json_set(&json, "idle_time", json_real(simulation->idle_time));
    remat_json_set(&json, "recomputed_time", json_real(simulation->recomputed_time));
    remat_json_set(&json, "recomputed", recomputed_encode(profile, node_recomputed));
    remat_json_set(&json, "peak", bytes(simulation->peak));
    remat_json_set(&json, "peak_operation", json_integer((json_int_t)simulation->peak_operation));
    if (in_flight > 1)
        set_in_flight(&json, profile, simulation, in_flight);
    remat_json_set(&json, "host_peak", bytes(simulation->host_peak));
    remat_json_set(&json, "bytes_to_host", bytes(simulation->bytes_to_host));
    remat_json_set(&json, "bytes_to_device", bytes(simulation->bytes_to_device));
    return json;
}

/* solver NULL: nothing fits. */
static json_t *point_encode(uint64_t budget, const remat_solver *solver, double makespan,
                            uint64_t peak, double store_all, double lower_bound)
{
    if (!solver)
        return json_pack("{s:I, s:b, s:n, s:n, s:n}", "budget", (json_int_t)budget, "feasible", 0,
                         "makespan", "overhead", "peak");
    return json_pack("{s:I, s:b, s:f, s:f, s:I, s:s, s:f}", "budget", (json_int_t)budget,
                     "feasible", 1, "makespan", makespan, "overhead", excess(makespan, store_all),
                     "peak", (json_int_t)peak, "solver", solver->name, "lower_bound",
                     fmin(lower_bound, makespan));
}

static json_t *tradeoff_point(const remat_profile *profile, uint64_t budget,
                              const remat_table *const *tables, size_t n, double lower_bound)
{
    uint64_t ignored;
    size_t n_points;
    ptrdiff_t best = remat_best_table(tables, n, budget, &ignored);
    if (best < 0)
        return point_encode(budget, NULL, 0, 0, 0, 0);
    const remat_table *table = tables[best];
    const remat_point *point =
        &remat_table_frontier(table, &n_points)[remat_table_point(table, budget)];
    return point_encode(budget, remat_table_solver(table), point->makespan, point->peak,
                        remat_store_all_makespan(profile), lower_bound);
}

/* The budgets asked for, or so many evenly spaced. */
static uint64_t budget_at(const remat_question *question, double low, double high, size_t points,
                          size_t i)
{
    if (question->budgets)
        return question->budgets[i];
    return (uint64_t)(i > 0 ? low + (high - low) * (double)i / (double)(points - 1) : low);
}

static json_t *curve_encode(const remat_question *question, const remat_profile *profile,
                            uint64_t store_all_peak, const remat_portfolio *p)
{
    uint64_t least;
    if (api_store_all(profile, question->in_flight, store_all_peak, &store_all_peak, NULL))
        return NULL;
    remat_best_table(p->tables, p->n, 0, &least);
    double low = fmin((double)least, (double)store_all_peak);
    uint64_t *budgets = calloc(question->points, sizeof *budgets);
    double *bounds = calloc(question->points, sizeof *bounds);
    json_t *list = NULL;
    for (size_t i = 0; budgets && i < question->points; i++)
        budgets[i] = budget_at(question, low, (double)store_all_peak, question->points, i);
    if (budgets && bounds &&
        !remat_lower_bounds(p->tables, p->n, profile, budgets, question->points, bounds, NULL))
        list = json_array();
    for (size_t i = 0; list && i < question->points; i++)
        remat_json_append(&list, tradeoff_point(profile, budgets[i], p->tables, p->n, bounds[i]));
    free(budgets);
    free(bounds);
    return list;
}

/* The row of one budget of another machine; none where no schedule fits. */
static remat_status append_row(json_t **list, const remat_table *table, const remat_query *query,
                               uint64_t budget, double store_all, remat_error *error)
{
    remat_schedule schedule = {.solver = NULL};
    remat_status status = remat_table_schedule(table, &query->problem, budget, &schedule, error);
    if (status && status != REMAT_INFEASIBLE)
        return status;
    const remat_simulation *simulation = &schedule.simulation;
    remat_json_append(list, point_encode(budget, schedule.solver, simulation->makespan,
                                         simulation->peak, store_all, simulation->makespan));
    remat_schedule_clear(&schedule);
    return REMAT_OK;
}

static remat_status answer_rows(const remat_machine *machine, const remat_question *question,
                                const remat_query *query, const remat_table *table,
                                const remat_host *host, json_t **ret_answer, remat_error *error)
{
    remat_machine_facts facts;
    remat_status status = machine->facts(query->problem.profile, &question->options, &facts, error);
    if (status)
        return status;
    size_t points = question->points;
    if (!question->budgets && points > facts.most - facts.least + 1)
        points = (size_t)(facts.most - facts.least + 1);
    json_t *list = json_array();
    for (size_t i = 0; i < points && !status; i++) {
        const uint64_t budget =
            budget_at(question, (double)facts.least, (double)facts.most, points, i);
        status = remat_host_cancelled(host)
                     ? remat_fail(error, REMAT_CANCELLED, NULL, "cancelled")
                     : append_row(&list, table, query, budget, facts.store_all_makespan, error);
        remat_host_progress(host, (double)(i + 1) / (double)points);
    }
    remat_machine_facts_clear(&facts);
    if (status)
        json_decref(list);
    else
        *ret_answer = list;
    return status;
}

remat_status remat_answer_tradeoff(const remat_question *question, const remat_query *query,
                                   uint64_t store_all_peak, const remat_portfolio *portfolio,
                                   const remat_host *host, json_t **ret_answer, remat_error *error)
{
    const remat_machine *machine = remat_machine_of(question->solver, &question->options);
    json_t *answer = NULL;
    remat_status status = REMAT_OK;
    if (machine)
        status = answer_rows(machine, question, query, portfolio->tables[0], host, &answer, error);
    else
        answer = curve_encode(question, query->problem.profile, store_all_peak, portfolio);
    if (!status && !answer)
        status = remat_fail_memory(error);
    if (!status)
        *ret_answer = answer;
    return status;
}

/* ---- solvers ---- */

static json_t *option_encode(const remat_option *option)
{
    static const char *const types[] = {"integer", "number", "boolean", "choice"};
    json_t *json = json_pack("{s:s, s:s, s:s}", "name", option->name, "summary", option->summary,
                             "type", types[option->type]);
    if (option->type == REMAT_OPTION_BOOLEAN) {
        remat_json_set(&json, "default", json_boolean(option->default_value != 0));
    } else if (option->type == REMAT_OPTION_CHOICE) {
        json_t *choices = json_array();
        for (size_t i = 0; option->choices[i]; i++)
            remat_json_append(&choices, json_string(option->choices[i]));
        remat_json_set(&json, "choices", choices);
        remat_json_set(&json, "default",
                       json_string(option->choices[(size_t)option->default_value]));
    } else {
        bool whole = option->type == REMAT_OPTION_INTEGER;
        remat_json_set(&json, "minimum",
                       whole ? json_integer((json_int_t)option->minimum)
                             : json_real(option->minimum));
        remat_json_set(&json, "maximum",
                       whole ? json_integer((json_int_t)option->maximum)
                             : json_real(option->maximum));
        remat_json_set(&json, "default",
                       whole ? json_integer((json_int_t)option->default_value)
                             : json_real(option->default_value));
    }
    return json;
}

static json_t *solver_encode(const remat_solver *solver)
{
    static const struct {
        unsigned flag;
        const char *name;
    } shapes[] = {{REMAT_ACCEPTS_CHAIN, "chain"},
                  {REMAT_ACCEPTS_JOIN, "join"},
                  {REMAT_ACCEPTS_GRAPH, "graph"},
                  {REMAT_ACCEPTS_JOINT, "joint"}};
    json_t *accepts = json_array(), *options = json_array();
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (solver->accepts & shapes[i].flag)
            remat_json_append(&accepts, json_string(shapes[i].name));
    for (size_t i = 0; i < solver->n_options; i++)
        remat_json_append(&options, option_encode(&solver->options[i]));
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:b, s:b, s:b, s:o}", "name", solver->name,
                     "summary", solver->summary, "source", solver->source, "optimal_for",
                     solver->optimal_for, "accepts", accepts, "homogeneous_only",
                     (solver->accepts & REMAT_HOMOGENEOUS_ONLY) != 0, "needs_link",
                     (solver->accepts & REMAT_NEEDS_LINK) != 0, "pins",
                     (solver->accepts & REMAT_ACCEPTS_PINS) != 0, "options", options);
}

json_t *remat_solvers_encode(void)
{
    size_t n;
    const remat_solver *const *solvers = remat_solvers(&n);
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        remat_json_append(&list, solver_encode(solvers[i]));
    return json_pack("{s:o, s:o}", "solvers", list, "links", remat_link_presets_encode());
}
