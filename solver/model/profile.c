/* The profile: every claim of a specification checked once, then laid out for reading. */
#include "remat/profile.h"

#include "model/profile_private.h"
#include "model/text.h"
#include "model/views.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- text ---- */

static bool printable(uint32_t point)
{
    return point >= 0x20 && (point < 0x7F || point >= 0xA0);
}

remat_status model_check_text(const char *text, const char *field, remat_error *error)
{
    if (!text)
        return remat_fail(error, REMAT_INVALID, field, "%s is missing", field);
    size_t characters = 0;
    for (const char *s = text; *s; characters++) {
        uint32_t point;
        size_t length = model_utf8_character(s, &point);
        if (length == 0 || !printable(point))
            return remat_fail(error, REMAT_INVALID, field,
                              "%s is not printable UTF-8 at its character %zu", field, characters);
        s += length;
    }
    if (characters < 1 || characters > REMAT_MAX_ID_CHARACTERS)
        return remat_fail(error, REMAT_INVALID, field, "%s has %zu characters; 1 to %u are allowed",
                          field, characters, REMAT_MAX_ID_CHARACTERS);
    return REMAT_OK;
}

/* ---- ids ---- */

static int compare_ids(const void *a, const void *b)
{
    return strcmp(((const model_id *)a)->id, ((const model_id *)b)->id);
}

const model_id *model_find_id(const model_id *entries, size_t n, const char *id)
{
    model_id key = {.id = id};
    return n && id ? bsearch(&key, entries, n, sizeof *entries, compare_ids) : NULL;
}

static int compare_entries(const void *a, const void *b)
{
    const model_id *p = a, *q = b;
    const int ids = strcmp(p->id, q->id);
    return ids ? ids : (p->index > q->index) - (p->index < q->index);
}

const model_id *model_sort_ids(model_id *entries, size_t n)
{
    if (n > 0)
        qsort(entries, n, sizeof *entries, compare_entries);
    for (size_t i = 1; i < n; i++)
        if (strcmp(entries[i - 1].id, entries[i].id) == 0)
            return &entries[i - 1];
    return NULL;
}

/* Of the first n_first entries one name, of those behind them another. */
static remat_status fail_twins(const model_id *twins, const char *first, size_t n_first,
                               const char *behind, remat_error *error)
{
    char places[2][48];
    for (int k = 0; k < 2; k++) {
        const size_t i = twins[k].index;
        snprintf(places[k], sizeof places[k], "%s[%zu]", i < n_first ? first : behind,
                 i < n_first ? i : i - n_first);
    }
    char field[64];
    snprintf(field, sizeof field, "%s.id", places[1]);
    return remat_fail(error, REMAT_INVALID, field, "%s: the id \"%s\" is used twice, by %s too",
                      field, twins->id, places[0]);
}

static size_t count_results(const remat_node_spec *node)
{
    return node->has_outputs ? node->n_outputs : 1;
}

const model_id *model_find_numbered(const model_builder *b, const char *text, uint32_t *ret_number)
{
    char id[4 * REMAT_MAX_ID_CHARACTERS + 1];
    const char *colon = strrchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : 0, digits = colon ? strlen(colon + 1) : 0;
    if (length == 0 || length >= sizeof id || digits == 0 || digits > 9 ||
        strspn(colon + 1, "0123456789") != digits || (digits > 1 && colon[1] == '0'))
        return NULL;
    memcpy(id, text, length);
    id[length] = '\0';
    *ret_number = (uint32_t)strtoul(colon + 1, NULL, 10);
    const model_id *entry = model_find_id(b->values, b->n_ids, id);
    return entry && entry->index < b->spec->n_nodes ? entry : NULL;
}

/* An id that could also mean a result of a node. */
static remat_status check_ambiguous(const model_builder *b)
{
    for (size_t i = 0; i < b->n_ids; i++) {
        uint32_t k;
        const model_id *entry = model_find_numbered(b, b->values[i].id, &k);
        if (entry && k < count_results(&b->spec->nodes[entry->index]))
            return remat_fail(b->error, REMAT_INVALID, "nodes",
                              "the id \"%.200s\" is also result %u of node \"%.200s\"",
                              b->values[i].id, k, entry->id);
    }
    return REMAT_OK;
}

static remat_status collect_ids(model_builder *b)
{
    const remat_profile_spec *spec = b->spec;
    char field[64];
    remat_status status;
    for (size_t i = 0; i < spec->n_nodes; i++) {
        snprintf(field, sizeof field, "nodes[%zu].id", i);
        if ((status = model_check_text(spec->nodes[i].id, field, b->error)))
            return status;
        b->values[i] = (model_id){spec->nodes[i].id, (uint32_t)i};
    }
    for (size_t k = 0; k < spec->n_inputs; k++) {
        snprintf(field, sizeof field, "inputs[%zu].id", k);
        if ((status = model_check_text(spec->inputs[k].id, field, b->error)))
            return status;
        b->values[spec->n_nodes + k] =
            (model_id){spec->inputs[k].id, (uint32_t)(spec->n_nodes + k)};
    }
    for (size_t k = 0; k < spec->n_states; k++) {
        snprintf(field, sizeof field, "states[%zu].id", k);
        if ((status = model_check_text(spec->states[k].id, field, b->error)))
            return status;
        b->state_ids[k] = (model_id){spec->states[k].id, (uint32_t)k};
    }
    const model_id *twins = model_sort_ids(b->values, b->n_ids);
    if (twins)
        return fail_twins(twins, "nodes", spec->n_nodes, "inputs", b->error);
    if ((twins = model_sort_ids(b->state_ids, spec->n_states)))
        return fail_twins(twins, "states", spec->n_states, "states", b->error);
    return b->joint ? check_ambiguous(b) : REMAT_OK;
}

/* ---- values by name ---- */

static remat_status fail_value(const model_builder *b, const char *field, const char *owner,
                               const char *text)
{
    char of[REMAT_MAX_ID_CHARACTERS + 64] = "";
    if (owner)
        snprintf(of, sizeof of, " of node \"%.200s\"", owner);
    uint32_t k;
    const model_id *entry = b->joint && text ? model_find_numbered(b, text, &k) : NULL;
    if (!entry)
        return remat_fail(b->error, REMAT_INVALID, field,
                          "%s%s: there is no node or input \"%.200s\"", field, of,
                          text ? text : "");
    return remat_fail(
        b->error, REMAT_INVALID, field,
        "%s%s: there is no result %u of node \"%.200s\", which has %zu (0 is the first)", field, of,
        k, entry->id, count_results(&b->spec->nodes[entry->index]));
}

remat_status model_take_value(const model_builder *b, const char *field, const char *owner,
                              const char *text, uint32_t *ret_index, uint32_t *ret_number)
{
    const model_id *entry = model_find_id(b->values, b->n_ids, text);
    *ret_number = 0;
    if (!entry && b->joint && text) {
        entry = model_find_numbered(b, text, ret_number);
        if (entry && *ret_number >= count_results(&b->spec->nodes[entry->index]))
            entry = NULL;
    }
    *ret_index = entry ? entry->index : 0;
    return entry ? REMAT_OK : fail_value(b, field, owner, text);
}

/* ---- inputs and states ---- */

static remat_status take_inputs(model_builder *b)
{
    for (size_t k = 0; k < b->spec->n_inputs; k++) {
        const remat_input_spec *from = &b->spec->inputs[k];
        remat_input *to = &b->inputs[k];
        char path[64];
        snprintf(path, sizeof path, "inputs[%zu]", k);
        remat_status status;
        if ((status = model_take_bytes(b, (model_place){path, from->id, "bytes"}, from->bytes, 0,
                                       true, &to->bytes)) ||
            (status = model_refuse_given(b, (model_place){path, from->id, "gradient_bytes"},
                                         from->gradient_bytes)) ||
            (status = model_take_bytes(b, (model_place){path, from->id, "gradient_bytes"},
                                       from->gradient_bytes, 0, false, &to->gradient_bytes)))
            return status;
        if (from->late && !b->joint)
            return remat_fail(
                b->error, REMAT_INVALID, "inputs",
                "inputs[%zu].late of \"%.200s\": only inputs of joint graphs come late", k,
                from->id);
        to->late = from->late;
        if (!(to->id = model_arena_string(&b->owned->arena, from->id)))
            return remat_fail_memory(b->error);
    }
    return REMAT_OK;
}

static remat_status take_states(model_builder *b)
{
    for (size_t k = 0; k < b->spec->n_states; k++) {
        const remat_state_spec *from = &b->spec->states[k];
        char path[64];
        snprintf(path, sizeof path, "states[%zu]", k);
        remat_status status = model_take_bytes(b, (model_place){path, from->id, "bytes"},
                                               from->bytes, 0, true, &b->states[k].bytes);
        if (status)
            return status;
        if (!(b->states[k].id = model_arena_string(&b->owned->arena, from->id)))
            return remat_fail_memory(b->error);
    }
    return REMAT_OK;
}

/* ---- the whole ---- */

/* The node or graph input that a value comes from. */
static uint32_t source_of(const model_builder *b, uint32_t value)
{
    return value < b->n_ids ? value : b->results[value - b->n_ids].node;
}

/* Turns the input lists around into consumer lists. */
static remat_status link_consumers(model_builder *b)
{
    size_t n = b->spec->n_nodes, edges = 0;
    uint32_t *count = calloc(b->n_values + 1, sizeof *count);
    for (size_t v = 0; v < n; v++)
        edges += b->nodes[v].n_inputs;
    uint32_t *pool = model_arena_array(&b->owned->arena, edges, sizeof *pool);
    if (!count || !pool) {
        free(count);
        return remat_fail_memory(b->error);
    }
    for (size_t v = 0; v < n; v++)
        for (uint32_t i = 0; i < b->nodes[v].n_inputs; i++)
            count[source_of(b, b->nodes[v].inputs[i])]++;
    uint32_t *next = pool;
    for (uint32_t w = 0; w < b->n_ids; w++) {
        if (w < n)
            b->nodes[w].consumers = next;
        else
            b->inputs[w - n].consumers = next;
        next += count[w];
    }
    for (size_t v = 0; v < n; v++)
        for (uint32_t i = 0; i < b->nodes[v].n_inputs; i++) {
            uint32_t w = source_of(b, b->nodes[v].inputs[i]);
            remat_input *input = w < n ? NULL : &b->inputs[w - n];
            uint32_t *list = (uint32_t *)(input ? input->consumers : b->nodes[w].consumers);
            uint32_t *filled = input ? &input->n_consumers : &b->nodes[w].n_consumers;
            if (*filled == 0 || list[*filled - 1] != v) /* once, however many results */
                list[(*filled)++] = (uint32_t)v;
            b->owned->profile.n_edges += input == NULL;
        }
    free(count);
    for (size_t v = 0; v < n; v++)
        for (uint32_t i = 0; i < b->nodes[v].n_writes; i++)
            b->states[b->nodes[v].writes[i]].n_writers++;
    return REMAT_OK;
}

/* The values that must be there at the end, each once. */
static remat_status take_outputs(model_builder *b)
{
    const remat_profile_spec *spec = b->spec;
    if (spec->n_outputs > 0 && !b->joint)
        return remat_fail(b->error, REMAT_INVALID, "outputs",
                          "outputs is of joint graphs; this one is forward");
    if (!b->joint)
        return REMAT_OK;
    if (spec->n_outputs == 0)
        return remat_fail(b->error, REMAT_INVALID, "outputs",
                          "outputs is empty; a joint graph names what must be there at the end");
    uint32_t *list = model_arena_array(&b->owned->arena, spec->n_outputs, sizeof *list);
    if (!list)
        return remat_fail_memory(b->error);
    uint32_t n = 0, tag = (uint32_t)spec->n_nodes + 1;
    for (size_t i = 0; i < spec->n_outputs; i++) {
        uint32_t index, number;
        char field[48];
        snprintf(field, sizeof field, "outputs[%zu]", i);
        remat_status status = model_take_value(b, field, NULL, spec->outputs[i], &index, &number);
        if (status)
            return status;
        uint32_t value = model_value_of(b, index, number);
        if (b->value_stamp[value] == tag)
            return remat_fail(b->error, REMAT_INVALID, field, "%s: \"%.200s\" is there twice",
                              field, spec->outputs[i]);
        model_add_once(list, &n, value, b->value_stamp, tag);
    }
    b->owned->profile.outputs = list;
    b->owned->profile.n_outputs = n;
    return REMAT_OK;
}

/* Of a joint graph: a node that no output depends on. */
static remat_status check_dead(model_builder *b)
{
    const remat_profile *profile = &b->owned->profile;
    uint32_t n = (uint32_t)b->spec->n_nodes, tag = n + 2;
    for (uint32_t i = 0; i < profile->n_outputs; i++)
        b->value_stamp[source_of(b, profile->outputs[i])] = tag;
    for (uint32_t v = n; v-- > 0;) {
        if (b->value_stamp[v] != tag)
            return remat_fail(b->error, REMAT_INVALID, "nodes",
                              "nodes[%u] \"%s\": no output depends on it", v, b->nodes[v].id);
        for (uint32_t i = 0; i < b->nodes[v].n_inputs; i++)
            b->value_stamp[source_of(b, b->nodes[v].inputs[i])] = tag;
    }
    return REMAT_OK;
}

/* Of a joint graph: which nodes depend on what comes late. In the order of the nodes what is sent
 * comes before the first of them. */
static remat_status find_late(model_builder *b)
{
    const remat_profile *profile = &b->owned->profile;
    const uint32_t n = (uint32_t)b->spec->n_nodes;
    uint32_t first = n;
    for (uint32_t v = 0; v < n; v++)
        for (uint32_t i = 0; i < b->nodes[v].n_inputs; i++) {
            const uint32_t w = source_of(b, b->nodes[v].inputs[i]);
            const bool comes = w >= n && b->inputs[w - n].late;
            b->nodes[v].late |= comes || (w < n && b->nodes[w].late);
            first = comes && v < first ? v : first;
        }
    for (uint32_t i = 0; i < profile->n_outputs; i++) {
        const uint32_t w = source_of(b, profile->outputs[i]);
        if (w < n && w > first && !b->nodes[w].late)
            return remat_fail(
                b->error, REMAT_INVALID, "nodes",
                "nodes[%u] \"%.200s\" reads an input that is late, and the output of "
                "nodes[%u] \"%.200s\", which depends on none, comes after it: what is "
                "sent comes before what is received",
                first, b->nodes[first].id, w, b->nodes[w].id);
    }
    return REMAT_OK;
}

static remat_status check_whole(model_builder *b)
{
    uint32_t n = (uint32_t)b->spec->n_nodes;
    remat_status status = b->joint ? check_dead(b) : REMAT_OK;
    if (!status && b->joint)
        status = find_late(b);
    if (status)
        return status;
    for (uint32_t v = 0; v + 1 < n && !b->joint; v++)
        if (b->nodes[v].n_consumers == 0)
            return remat_fail(
                b->error, REMAT_INVALID, "nodes",
                "nodes[%u] \"%s\" has no consumer, so the loss \"%s\" (the last node) "
                "does not depend on it; a profile has exactly one sink",
                v, b->nodes[v].id, b->nodes[n - 1].id);
    for (uint32_t k = 0; k < b->spec->n_inputs; k++)
        if (b->inputs[k].late && b->inputs[k].n_consumers == 0)
            return remat_fail(b->error, REMAT_INVALID, "inputs",
                              "inputs[%u].late of \"%.200s\": no node reads it, so nothing says "
                              "when it comes",
                              k, b->inputs[k].id);
    for (uint32_t k = 0; k < b->spec->n_states; k++)
        b->bytes_total += (double)b->states[k].bytes * (double)b->states[k].n_writers;
    if (!(b->bytes_total < (double)REMAT_MAX_BYTES))
        return remat_fail(b->error, REMAT_INVALID, "nodes",
                          "the sizes of the profile add up to %.17g bytes, past 2^53",
                          b->bytes_total);
    if (!isfinite(b->time_total * (n + 1.0)))
        return remat_fail(b->error, REMAT_INVALID, "nodes",
                          "the times of the profile add up to %g, too much to compute with",
                          b->time_total);
    return REMAT_OK;
}

/* How many values there will be; before anything is allocated for them. */
static remat_status count_all_results(model_builder *b)
{
    const remat_profile_spec *spec = b->spec;
    size_t further = 0;
    for (size_t v = 0; v < spec->n_nodes; v++) {
        size_t n = count_results(&spec->nodes[v]);
        further += n > 1 ? n - 1 : 0;
        if (n > REMAT_MAX_OUTPUTS || further > REMAT_MAX_NODES)
            return remat_fail(
                b->error, REMAT_INVALID, "nodes",
                "nodes[%zu].outputs: %zu results, %zu beyond the first of all nodes so "
                "far; at most %u and %u",
                v, n, further, REMAT_MAX_OUTPUTS, REMAT_MAX_NODES);
    }
    b->n_ids = (uint32_t)(spec->n_nodes + spec->n_inputs);
    b->n_values = b->n_ids + (uint32_t)further;
    return REMAT_OK;
}

static remat_status take_header(model_builder *b)
{
    const remat_profile_spec *spec = b->spec;
    if (!spec->format || strcmp(spec->format, "remat-profile/1") != 0)
        return remat_fail(b->error, REMAT_INVALID, "format",
                          "format is \"%.60s\"; this service reads \"remat-profile/1\"",
                          spec->format ? spec->format : "");
    remat_status status = model_check_text(spec->name, "name", b->error);
    if (status)
        return status;
    const char *unit = spec->time_unit ? spec->time_unit : "us";
    remat_time_unit i = REMAT_SECONDS;
    while (i <= REMAT_UNITS && strcmp(remat_time_unit_name(i), unit) != 0)
        i++;
    if (i > REMAT_UNITS)
        return remat_fail(b->error, REMAT_INVALID, "time_unit",
                          "time_unit is \"%.60s\"; s, ms, us, ns and units are known", unit);
    b->owned->profile.time_unit = i;
    const char *graph = spec->graph ? spec->graph : "forward";
    b->joint = strcmp(graph, "joint") == 0;
    if (!b->joint && strcmp(graph, "forward") != 0)
        return remat_fail(b->error, REMAT_INVALID, "graph",
                          "graph is \"%.60s\"; forward and joint are known", graph);
    if (spec->held_elsewhere && !b->joint)
        return remat_fail(b->error, REMAT_INVALID, "held_elsewhere",
                          "held_elsewhere is of joint graphs; this one is forward");
    if (spec->n_nodes == 0)
        return remat_fail(b->error, REMAT_INVALID, "nodes", "nodes is empty");
    if (spec->n_nodes > REMAT_MAX_NODES || spec->n_inputs > REMAT_MAX_NODES ||
        spec->n_states > REMAT_MAX_NODES)
        return remat_fail(b->error, REMAT_INVALID, "nodes",
                          "%zu nodes, %zu inputs and %zu states; at most %u of each", spec->n_nodes,
                          spec->n_inputs, spec->n_states, REMAT_MAX_NODES);
    return count_all_results(b);
}

static remat_status allocate(model_builder *b)
{
    model_arena *arena = &b->owned->arena;
    const remat_profile_spec *spec = b->spec;
    b->nodes = model_arena_array(arena, spec->n_nodes, sizeof *b->nodes);
    b->inputs = model_arena_array(arena, spec->n_inputs, sizeof *b->inputs);
    b->states = model_arena_array(arena, spec->n_states, sizeof *b->states);
    b->results = model_arena_array(arena, b->n_values - b->n_ids, sizeof *b->results);
    b->values = calloc(b->n_ids, sizeof *b->values);
    b->state_ids = calloc(spec->n_states + 1, sizeof *b->state_ids);
    b->value_stamp = calloc(b->n_values, sizeof *b->value_stamp);
    b->state_stamp = calloc(spec->n_states + 1, sizeof *b->state_stamp);
    b->owned->profile.name = model_arena_string(arena, spec->name);
    if (!b->nodes || !b->inputs || !b->states || !b->results || !b->values || !b->state_ids ||
        !b->value_stamp || !b->state_stamp || !b->owned->profile.name)
        return remat_fail_memory(b->error);
    return REMAT_OK;
}

static remat_status build(model_builder *b)
{
    remat_status status;
    if ((status = take_header(b)) || (status = allocate(b)) || (status = collect_ids(b)) ||
        (status = take_inputs(b)) || (status = take_states(b)))
        return status;
    for (size_t v = 0; v < b->spec->n_nodes; v++)
        if ((status = model_take_node(b, v)))
            return status;
    remat_profile *profile = &b->owned->profile;
    profile->results = b->results;
    profile->n_results = b->n_results;
    profile->joint = b->joint;
    profile->held_elsewhere = b->spec->held_elsewhere;
    if ((status = link_consumers(b)) || (status = take_outputs(b)) || (status = check_whole(b)))
        return status;
    profile->nodes = b->nodes;
    profile->inputs = b->inputs;
    profile->states = b->states;
    profile->n_nodes = (uint32_t)b->spec->n_nodes;
    profile->n_inputs = (uint32_t)b->spec->n_inputs;
    profile->n_states = (uint32_t)b->spec->n_states;
    model_profile_classify(profile);
    return REMAT_OK;
}

remat_status remat_profile_new(const remat_profile_spec *spec, remat_profile **ret_profile,
                               remat_error *error)
{
    model_owned_profile *owned = calloc(1, sizeof *owned);
    if (!owned)
        return remat_fail_memory(error);
    model_builder b = {.spec = spec, .owned = owned, .error = error};
    remat_status status = build(&b);
    free(b.values);
    free(b.state_ids);
    free(b.value_stamp);
    free(b.state_stamp);
    if (status) {
        remat_profile_free(&owned->profile);
        return status;
    }
    *ret_profile = &owned->profile;
    return REMAT_OK;
}

void remat_profile_free(remat_profile *profile)
{
    if (!profile)
        return;
    model_owned_profile *owned = (model_owned_profile *)profile;
    model_arena_clear(&owned->arena);
    free(owned);
}
