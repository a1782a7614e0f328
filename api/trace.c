/* A timeline as a trace in the JSON format of Chrome's trace viewer, which Perfetto reads: the
 * compute stream and the two copy streams are tracks, the memory alive is a counter. */
#include "api.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In the order in which they are shown. */
enum { COMPUTE = 1, TO_HOST, TO_DEVICE };

typedef struct tracing {
    const json_t *timeline;
    const json_t *nodes; /* NULL: operations are not of nodes */
    double scale;        /* microseconds of the timeline's unit; 1 where it is no time */
    double now;          /* that the compute stream has come to */
    bool *ran;           /* by node */
    json_t *events;
} tracing;

static double column(const tracing *t, const char *name, size_t i)
{
    return json_number_value(json_array_get(json_object_get(t->timeline, name), i));
}

static void add_memory(tracing *t, double time, double bytes)
{
    json_t *event = json_pack("{s:s, s:s, s:i, s:f, s:{s:I}}", "ph", "C", "name", "memory", "pid",
                              1, "ts", time, "args", "alive", (json_int_t)bytes);
    remat_json_append(&t->events, event);
}

/* "F conv1", "D saved conv1", "S 2 1": nodes by their ids. Returns the node's number; SIZE_MAX: it
 * is of none. */
static size_t name_operation(const tracing *t, const json_t *operation, char *text, size_t size)
{
    const size_t n = json_array_size(operation);
    const char *letter = json_string_value(json_array_get(operation, 0));
    const bool state = letter && (*letter == 'S' || *letter == 'R');
    size_t length = (size_t)snprintf(text, size, "%.8s", letter ? letter : ""), node = SIZE_MAX;
    bool named = state || !t->nodes;
    for (size_t i = 1; i < n && length < size; i++) {
        const json_t *one = json_array_get(operation, i);
        const char *word = json_string_value(one);
        const char *id =
            named ? NULL
                  : json_string_value(json_array_get(t->nodes, (size_t)json_integer_value(one)));
        named |= word && strcmp(word, "input") == 0;
        if (word || id)
            length += (size_t)snprintf(text + length, size - length, " %.200s", word ? word : id);
        else
            length += (size_t)snprintf(text + length, size - length, " %lld",
                                       (long long)json_integer_value(one));
        if (!word && id) {
            node = (size_t)json_integer_value(one);
            named = true;
        }
    }
    return node;
}

/* What the viewer's colours tell apart. */
static const char *category(char letter, bool again)
{
    switch (letter) {
    case 'F':
    case 'A':
        return again ? "recompute" : "forward";
    case 'B':
        return "backward";
    case 'O':
        return "offload";
    case 'P':
        return "prefetch";
    case 'S':
    case 'R':
        return "state";
    default:
        return "drop";
    }
}

/* One that takes no time is a moment. */
static void add_operation(tracing *t, size_t i)
{
    char name[320];
    const json_t *operation = json_array_get(json_object_get(t->timeline, "operations"), i);
    const size_t node = name_operation(t, operation, name, sizeof name);
    const bool forward = name[0] == 'F' || name[0] == 'A', known = forward && node != SIZE_MAX;
    const int track = name[0] == 'O' ? TO_HOST : name[0] == 'P' ? TO_DEVICE : COMPUTE;
    const double start = column(t, "start", i) * t->scale, end = column(t, "end", i) * t->scale;
    json_t *event =
        json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:{s:I}}", "ph", end > start ? "X" : "i", "name",
                  name, "cat", category(name[0], known && t->ran[node]), "pid", 1, "tid", track,
                  "ts", start, "args", "operation", (json_int_t)i);
    if (end > start)
        remat_json_set(&event, "dur", json_real(end - start));
    else
        remat_json_set(&event, "s", json_string("t"));
    remat_json_append(&t->events, event);
    /* a copy allocates when the compute stream has come to it */
    t->now = track == COMPUTE ? fmax(t->now, start) : t->now;
    add_memory(t, t->now, column(t, "memory_during", i));
    t->now = track == COMPUTE ? fmax(t->now, end) : t->now;
    add_memory(t, t->now, column(t, "memory_after", i));
    if (known)
        t->ran[node] = true;
}

static void add_name(tracing *t, const char *what, int track, const char *name)
{
    json_t *event = json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "ph", "M", "name", what, "pid", 1,
                              "tid", track, "args", "name", name);
    remat_json_append(&t->events, event);
}

static double microseconds(const char *unit)
{
    for (remat_time_unit i = REMAT_SECONDS; i < REMAT_UNITS; i++)
        if (strcmp(unit, remat_time_unit_name(i)) == 0)
            return 1e6 * remat_time_unit_seconds(i);
    return 1;
}

json_t *remat_trace_encode(const json_t *schedule, const json_t *timeline)
{
    static const char *const tracks[] = {"compute", "copies to the host", "copies to the device"};
    const json_t *nodes = json_object_get(timeline, "nodes");
    tracing t = {.timeline = timeline,
                 .nodes = json_object_get(schedule, "model") ? NULL : nodes,
                 .scale = microseconds(remat_json_string(timeline, "time_unit")),
                 .ran = calloc(json_array_size(nodes) + 1, sizeof *t.ran),
                 .events = json_array()};
    if (!t.ran)
        remat_json_append(&t.events, NULL);
    add_name(&t, "process_name", 0, "remat");
    for (int k = COMPUTE; k <= TO_DEVICE; k++)
        add_name(&t, "thread_name", k, tracks[k - 1]);
    for (size_t i = 0; t.events && i < json_array_size(json_object_get(timeline, "operations"));
         i++)
        add_operation(&t, i);
    free(t.ran);
    return json_pack(
        "{s:o, s:s, s:{s:s, s:s, s:O*, s:O*}}", "traceEvents", t.events, "displayTimeUnit", "ms",
        "otherData", "schedule_id", remat_json_string(timeline, "schedule_id"), "time_unit",
        remat_json_string(timeline, "time_unit"), "peak", json_object_get(timeline, "peak"),
        "budget", json_object_get(timeline, "budget"));
}

remat_status remat_answer_trace(const json_t *schedule, const remat_profile *profile,
                                json_t **ret_answer, remat_error *error)
{
    json_t *timeline = NULL;
    remat_status status = remat_answer_timeline(schedule, profile, &timeline, error);
    if (status)
        return status;
    json_t *answer = remat_trace_encode(schedule, timeline);
    json_decref(timeline);
    if (!answer)
        return remat_fail_memory(error);
    *ret_answer = answer;
    return REMAT_OK;
}
