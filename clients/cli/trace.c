/* A schedule and its timeline as one list of steps. Files are anybody's, so everything is checked.
 */
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct reading {
    const json_t *nodes;
    const json_t *branches; /* of another machine; NULL: of bytes */
    bool *ran;              /* per node: had its F or A */
    size_t n_nodes;
    size_t position;
    remat_error *error;
} reading;

static remat_status bad_operation(const reading *r, const char *what)
{
    return remat_fail(r->error, REMAT_INVALID, "operations", "operations[%zu] %s", r->position,
                      what);
}

static bool is_index(const json_t *json)
{
    return json_is_integer(json) && json_integer_value(json) >= 0 &&
           json_integer_value(json) <= UINT32_MAX;
}

/* Letter, target and numbers: ["F", 0], ["B", 2, "winograd"], ["D", "saved", 3], ["S", 1, 4],
 * ["D", "output", 3, 1]. */
static remat_status read_shape(const reading *r, const json_t *json, trace_step *step)
{
    const char *letter = json_string_value(json_array_get(json, 0));
    const char *target = json_string_value(json_array_get(json, 1));
    size_t size = json_array_size(json), first = target ? 2 : 1;
    bool result = target && strcmp(target, "output") == 0;
    if (!letter || strlen(letter) != 1 || !strchr("FABDXOPSR", letter[0]) || size < 2 ||
        size > (result ? 4u : 3u))
        return bad_operation(r, "is not an operation");
    step->letter = letter[0];
    step->saved = step->letter == 'X' || (target && strcmp(target, "saved") == 0);
    step->input = target && strcmp(target, "input") == 0;
    if (!is_index(json_array_get(json, first)))
        return bad_operation(r, "has no index");
    step->index = (uint32_t)json_integer_value(json_array_get(json, first));
    const json_t *alternative = json_array_get(json, 2);
    if (strchr("FAB", step->letter) && alternative) {
        if (!json_is_string(alternative))
            return bad_operation(r, "names no implementation");
        step->alternative = json_string_value(alternative);
    }
    if (step->letter != 'S' && step->letter != 'R' && !result)
        return REMAT_OK;
    const json_t *number = json_array_get(json, result ? 3 : 2);
    if (!is_index(number))
        return bad_operation(r, result ? "has no result" : "has no version");
    step->version = (uint32_t)json_integer_value(number);
    return REMAT_OK;
}

/* ["F", j, i], ["T"], ["Db", j]: the node that the step runs, or that x_i is the input of. */
static remat_status read_other(const reading *r, const json_t *json, trace_step *step)
{
    const char *name = json_string_value(json_array_get(json, 0));
    const json_t *branch = json_array_get(json, 1), *index = json_array_get(json, 2);
    if (!name || !name[0] || !strchr("FSTBD", name[0]) || strlen(name) > 2)
        return bad_operation(r, "is not an operation of its model");
    step->other = true;
    step->letter = name[1] ? 'b' : name[0];
    step->index = (uint32_t)r->n_nodes - 1;
    if (step->letter == 'T')
        return REMAT_OK;
    if (!is_index(branch) || (step->letter != 'b' && !is_index(index)))
        return bad_operation(r, "has no index");
    const json_t *nodes = json_array_get(r->branches, (size_t)json_integer_value(branch));
    const json_t *node = json_array_get(nodes, (size_t)json_integer_value(index));
    if (is_index(node))
        step->index = (uint32_t)json_integer_value(node);
    return REMAT_OK;
}

static remat_status read_step(const reading *r, const json_t *json, trace_step *step)
{
    *step = (trace_step){.id = "", .alternative = ""};
    remat_status status = r->branches ? read_other(r, json, step) : read_shape(r, json, step);
    if (status || step->input || (!step->other && (step->letter == 'S' || step->letter == 'R')))
        return status;
    if (step->index >= r->n_nodes)
        return bad_operation(r, "names a node that is not there");
    const char *id = json_string_value(json_array_get(r->nodes, step->index));
    step->id = id ? id : "";
    if (step->letter == 'F' || step->letter == 'A') {
        step->again = r->ran[step->index];
        r->ran[step->index] = true;
    }
    return REMAT_OK;
}

static remat_status read_steps(const json_t *schedule, trace *t, remat_error *error)
{
    const json_t *operations = json_object_get(schedule, "operations");
    reading r = {.nodes = json_object_get(schedule, "nodes"),
                 .branches = json_object_get(schedule, "branches"),
                 .error = error};
    r.n_nodes = json_array_size(r.nodes);
    if (!json_is_array(operations) || !json_is_array(r.nodes))
        return remat_fail(error, REMAT_INVALID, "operations",
                          "this is not a schedule: it needs the arrays operations and nodes");
    t->length = json_array_size(operations);
    t->steps = calloc(t->length + 1, sizeof *t->steps);
    r.ran = calloc(r.n_nodes + 1, sizeof *r.ran);
    remat_status status = t->steps && r.ran ? REMAT_OK : remat_fail_memory(error);
    for (size_t i = 0; i < t->length && !status; i++) {
        r.position = i;
        status = read_step(&r, json_array_get(operations, i), &t->steps[i]);
    }
    free(r.ran);
    return status;
}

/* One number per operation; false: the array is not that. */
static bool read_column(const json_t *timeline, const char *name, trace *t, size_t offset)
{
    const json_t *list = json_object_get(timeline, name);
    if (json_array_size(list) != t->length)
        return false;
    for (size_t i = 0; i < t->length; i++) {
        const json_t *item = json_array_get(list, i);
        double value = json_number_value(item);
        if (!json_is_number(item) || !(value >= 0))
            return false;
        memcpy((char *)&t->steps[i] + offset, &value, sizeof value);
    }
    return true;
}

static remat_status read_times(const json_t *timeline, trace *t, remat_error *error)
{
    if (!read_column(timeline, "start", t, offsetof(trace_step, start)) ||
        !read_column(timeline, "end", t, offsetof(trace_step, end)) ||
        !read_column(timeline, "memory_during", t, offsetof(trace_step, during)) ||
        !read_column(timeline, "memory_after", t, offsetof(trace_step, after)))
        return remat_fail(
            error, REMAT_INVALID, NULL,
            "the timeline needs start, end, memory_during and memory_after, each with "
            "one number per operation");
    t->timed = true;
    return REMAT_OK;
}

remat_status trace_read(const json_t *schedule, const json_t *timeline, trace *ret_trace,
                        remat_error *error)
{
    trace t = {.makespan = json_get_number(schedule, "makespan"),
               .budget = json_get_number(schedule, "budget"),
               .peak = json_get_number(schedule, "peak"),
               .unit = json_get_text(schedule, "time_unit")};
    if (!timeline && json_object_get(schedule, "memory_during"))
        timeline = schedule;
    remat_status status = read_steps(schedule, &t, error);
    if (!status && timeline)
        status = read_times(timeline, &t, error);
    if (status) {
        trace_clear(&t);
        return status;
    }
    *ret_trace = t;
    return REMAT_OK;
}

void trace_clear(trace *t)
{
    free(t->steps);
    *t = (trace){0};
}
