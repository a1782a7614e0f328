/* The profile: every claim of a specification checked once, then laid out for reading. */
#include "remat/profile.h"

#include "core/arena.h"
#include "core/text.h"
#include "core/views.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The public structure is the first member of what is really allocated. */
typedef struct owned_profile {
    remat_profile profile;
    core_arena arena;
} owned_profile;

typedef struct id_entry {
    const char *id;
    uint32_t index;
} id_entry;

/* What the checks share. */
typedef struct builder {
    const remat_profile_spec *spec;
    owned_profile *owned;
    remat_node *nodes;
    remat_input *inputs;
    remat_state *states;
    remat_result *results; /* further results of nodes */
    bool joint;
    id_entry *values, *state_ids;             /* sorted by id */
    uint32_t *value_stamp, *state_stamp, tag; /* which list an index was last put in */
    uint32_t n_ids, n_values, n_results;      /* nodes and inputs; those and further results */
    double bytes_total;                       /* exact below 2^53, and past it still past it */
    double time_total;
    remat_error *error;
} builder;

/* ---- text ---- */

static bool printable(uint32_t point)
{
    return point >= 0x20 && (point < 0x7F || point >= 0xA0);
}

static remat_status check_text(const char *text, const char *field, remat_error *error)
{
    if (!text)
        return remat_fail(error, REMAT_INVALID, field, "%s is missing", field);
    size_t characters = 0;
    for (const char *s = text; *s; characters++) {
        uint32_t point;
        size_t length = core_utf8_character(s, &point);
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

/* ---- numbers ---- */

/* Where a number stands: "nodes[3]", the id there (NULL if unknown) and the field's own name. */
typedef struct place {
    const char *path, *id, *name;
} place;

static remat_status fail_number(const builder *b, place at, const char *what, double value)
{
    char field[REMAT_FIELD_SIZE];
    snprintf(field, sizeof field, "%.150s.%s", at.path, at.name);
    if (isnan(value))
        return remat_fail(b->error, REMAT_INVALID, field, "%s of \"%s\" %s", field,
                          at.id ? at.id : "?", what);
    return remat_fail(b->error, REMAT_INVALID, field, "%s of \"%s\" is %.17g; it %s", field,
                      at.id ? at.id : "?", value, what);
}

static remat_status take_bytes(builder *b, place at, remat_number number, uint64_t fallback,
                               bool required, uint64_t *ret_bytes)
{
    if (!number.given) {
        if (required)
            return fail_number(b, at, "is missing", NAN);
        *ret_bytes = fallback;
    } else {
        double value = number.value;
        if (!(value >= 0 && value < (double)REMAT_MAX_BYTES) || value != floor(value))
            return fail_number(b, at, "must be an integer from 0 to 2^53 - 1", value);
        *ret_bytes = (uint64_t)value;
    }
    b->bytes_total += (double)*ret_bytes;
    return REMAT_OK;
}

static remat_status take_time(builder *b, place at, remat_number number, double fallback,
                              bool required, double *ret_time)
{
    if (!number.given && required)
        return fail_number(b, at, "is missing", NAN);
    double value = number.given ? number.value : fallback;
    if (!(value >= 0) || isinf(value))
        return fail_number(b, at, "must be finite and not negative", value);
    *ret_time = value + 0.0; /* -0 becomes 0: one number, one encoding */
    b->time_total += value;
    return REMAT_OK;
}

/* What a joint graph calls a field of a forward one. */
static const char *called(const builder *b, const char *field)
{
    if (b->joint && strcmp(field, "forward_time") == 0)
        return "time";
    return b->joint && strcmp(field, "forward_workspace_bytes") == 0 ? "workspace_bytes" : field;
}

/* A number of forward graphs. */
static remat_status refuse_given(const builder *b, place at, remat_number number)
{
    if (!b->joint || !number.given)
        return REMAT_OK;
    return fail_number(b, at, "is of forward graphs; this one is joint", NAN);
}

/* ---- ids ---- */

static int compare_ids(const void *a, const void *b)
{
    return strcmp(((const id_entry *)a)->id, ((const id_entry *)b)->id);
}

static const id_entry *find_id(const id_entry *entries, size_t n, const char *id)
{
    id_entry key = {.id = id};
    return n && id ? bsearch(&key, entries, n, sizeof *entries, compare_ids) : NULL;
}

static remat_status sort_ids(id_entry *entries, size_t n, const char *what, remat_error *error)
{
    if (n > 0)
        qsort(entries, n, sizeof *entries, compare_ids);
    for (size_t i = 1; i < n; i++)
        if (strcmp(entries[i - 1].id, entries[i].id) == 0)
            return remat_fail(error, REMAT_INVALID, what, "%s: the id \"%s\" is used twice", what,
                              entries[i].id);
    return REMAT_OK;
}

static size_t count_results(const remat_node_spec *node)
{
    return node->has_outputs ? node->n_outputs : 1;
}

/* The node of a text "id:k", and k; NULL if it is no such text or there is no such node. */
static const id_entry *find_numbered(const builder *b, const char *text, uint32_t *ret_number)
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
    const id_entry *entry = find_id(b->values, b->n_ids, id);
    return entry && entry->index < b->spec->n_nodes ? entry : NULL;
}

/* An id that could also mean a result of a node. */
static remat_status check_ambiguous(const builder *b)
{
    for (size_t i = 0; i < b->n_ids; i++) {
        uint32_t k;
        const id_entry *entry = find_numbered(b, b->values[i].id, &k);
        if (entry && k < count_results(&b->spec->nodes[entry->index]))
            return remat_fail(b->error, REMAT_INVALID, "nodes",
                              "the id \"%.200s\" is also result %u of node \"%.200s\"",
                              b->values[i].id, k, entry->id);
    }
    return REMAT_OK;
}

static remat_status collect_ids(builder *b)
{
    const remat_profile_spec *spec = b->spec;
    char field[64];
    remat_status status;
    for (size_t i = 0; i < spec->n_nodes; i++) {
        snprintf(field, sizeof field, "nodes[%zu].id", i);
        if ((status = check_text(spec->nodes[i].id, field, b->error)))
            return status;
        b->values[i] = (id_entry){spec->nodes[i].id, (uint32_t)i};
    }
    for (size_t k = 0; k < spec->n_inputs; k++) {
        snprintf(field, sizeof field, "inputs[%zu].id", k);
        if ((status = check_text(spec->inputs[k].id, field, b->error)))
            return status;
        b->values[spec->n_nodes + k] =
            (id_entry){spec->inputs[k].id, (uint32_t)(spec->n_nodes + k)};
    }
    for (size_t k = 0; k < spec->n_states; k++) {
        snprintf(field, sizeof field, "states[%zu].id", k);
        if ((status = check_text(spec->states[k].id, field, b->error)))
            return status;
        b->state_ids[k] = (id_entry){spec->states[k].id, (uint32_t)k};
    }
    if ((status = sort_ids(b->values, b->n_ids, "nodes and inputs", b->error)) ||
        (status = sort_ids(b->state_ids, spec->n_states, "states", b->error)))
        return status;
    return b->joint ? check_ambiguous(b) : REMAT_OK;
}

/* ---- values by name ---- */

static remat_status fail_value(const builder *b, const char *field, const char *owner,
                               const char *text)
{
    char of[REMAT_MAX_ID_CHARACTERS + 64] = "";
    if (owner)
        snprintf(of, sizeof of, " of node \"%.200s\"", owner);
    uint32_t k;
    const id_entry *entry = b->joint && text ? find_numbered(b, text, &k) : NULL;
    if (!entry)
        return remat_fail(b->error, REMAT_INVALID, field,
                          "%s%s: there is no node or input \"%.200s\"", field, of,
                          text ? text : "");
    return remat_fail(
        b->error, REMAT_INVALID, field,
        "%s%s: there is no result %u of node \"%.200s\", which has %zu (0 is the first)", field, of,
        k, entry->id, count_results(&b->spec->nodes[entry->index]));
}

/* The node, or past the nodes the graph input, that a text names, and which of its results. */
static remat_status take_value(const builder *b, const char *field, const char *owner,
                               const char *text, uint32_t *ret_index, uint32_t *ret_number)
{
    const id_entry *entry = find_id(b->values, b->n_ids, text);
    *ret_number = 0;
    if (!entry && b->joint && text) {
        entry = find_numbered(b, text, ret_number);
        if (entry && *ret_number >= count_results(&b->spec->nodes[entry->index]))
            entry = NULL;
    }
    *ret_index = entry ? entry->index : 0;
    return entry ? REMAT_OK : fail_value(b, field, owner, text);
}

/* ---- inputs and states ---- */

static remat_status take_inputs(builder *b)
{
    for (size_t k = 0; k < b->spec->n_inputs; k++) {
        const remat_input_spec *from = &b->spec->inputs[k];
        remat_input *to = &b->inputs[k];
        char path[64];
        snprintf(path, sizeof path, "inputs[%zu]", k);
        remat_status status;
        if ((status = take_bytes(b, (place){path, from->id, "bytes"}, from->bytes, 0, true,
                                 &to->bytes)) ||
            (status = refuse_given(b, (place){path, from->id, "gradient_bytes"},
                                   from->gradient_bytes)) ||
            (status = take_bytes(b, (place){path, from->id, "gradient_bytes"}, from->gradient_bytes,
                                 0, false, &to->gradient_bytes)))
            return status;
        if (!(to->id = core_arena_string(&b->owned->arena, from->id)))
            return remat_fail_memory(b->error);
    }
    return REMAT_OK;
}

static remat_status take_states(builder *b)
{
    for (size_t k = 0; k < b->spec->n_states; k++) {
        const remat_state_spec *from = &b->spec->states[k];
        char path[64];
        snprintf(path, sizeof path, "states[%zu]", k);
        remat_status status = take_bytes(b, (place){path, from->id, "bytes"}, from->bytes, 0, true,
                                         &b->states[k].bytes);
        if (status)
            return status;
        if (!(b->states[k].id = core_arena_string(&b->owned->arena, from->id)))
            return remat_fail_memory(b->error);
    }
    return REMAT_OK;
}

/* ---- nodes ---- */

static remat_status take_results(builder *b, size_t v, const char *path)
{
    const remat_node_spec *from = &b->spec->nodes[v];
    remat_node *to = &b->nodes[v];
    char name[48];
    place at = {path, from->id, "outputs"};
    remat_status status = REMAT_OK;
    to->n_outputs = 1;
    to->first_result = b->n_ids + b->n_results;
    if (!from->has_outputs)
        return take_bytes(b, (place){path, from->id, "output_bytes"}, from->output_bytes, 0, true,
                          &to->output_bytes);
    if (!b->joint)
        return fail_number(b, at, "is of joint graphs; this one is forward", NAN);
    if (from->output_bytes.given)
        return fail_number(b, at, "stands beside output_bytes; one of them says the sizes", NAN);
    if (from->n_outputs == 0)
        return fail_number(b, at, "is empty", NAN);
    to->n_outputs = (uint32_t)from->n_outputs;
    for (uint32_t k = 0; k < to->n_outputs && !status; k++) {
        snprintf(name, sizeof name, "outputs[%u].bytes", k);
        uint64_t bytes = 0;
        status = take_bytes(b, (place){path, from->id, name}, from->outputs[k], 0, true, &bytes);
        if (k == 0)
            to->output_bytes = bytes;
        else
            b->results[b->n_results++] =
                (remat_result){.bytes = bytes, .node = (uint32_t)v, .number = k};
    }
    return status;
}

static remat_status take_pins(builder *b, size_t v, const char *path)
{
    const remat_node_spec *from = &b->spec->nodes[v];
    const char *recompute = from->recompute ? from->recompute : "free";
    bool never = strcmp(recompute, "never") == 0;
    if (!never && strcmp(recompute, "free") != 0) {
        char field[96];
        snprintf(field, sizeof field, "%s.recompute", path);
        return remat_fail(b->error, REMAT_INVALID, field,
                          "%s of \"%.200s\" is \"%.60s\"; free and never are known", field,
                          from->id, recompute);
    }
    b->nodes[v].keep = from->keep;
    b->nodes[v].once = never || from->keep;
    return REMAT_OK;
}

static remat_status take_costs(builder *b, size_t v, const char *path)
{
    const remat_node_spec *from = &b->spec->nodes[v];
    remat_node *to = &b->nodes[v];
    remat_status status;
#define AT(field) ((place){path, from->id, called(b, #field)})
    if ((status = refuse_given(b, AT(backward_time), from->backward_time)) ||
        (status = refuse_given(b, AT(saved_bytes), from->saved_bytes)) ||
        (status = refuse_given(b, AT(gradient_bytes), from->gradient_bytes)) ||
        (status = refuse_given(b, AT(backward_workspace_bytes), from->backward_workspace_bytes)) ||
        (status = refuse_given(b, AT(save_workspace_bytes), from->save_workspace_bytes)) ||
        (status = take_time(b, AT(forward_time), from->forward_time, 0, true, &to->forward_time)) ||
        (status = take_time(b, AT(backward_time), from->backward_time,
                            b->joint ? 0 : 2 * to->forward_time, false, &to->backward_time)) ||
        (status = take_results(b, v, path)) ||
        (status = take_bytes(b, AT(saved_bytes), from->saved_bytes, 0, false, &to->saved_bytes)) ||
        (status = take_bytes(b, AT(gradient_bytes), from->gradient_bytes,
                             b->joint ? 0 : to->output_bytes, false, &to->gradient_bytes)) ||
        (status = take_bytes(b, AT(forward_workspace_bytes), from->forward_workspace_bytes, 0,
                             false, &to->forward_workspace_bytes)) ||
        (status = take_bytes(b, AT(backward_workspace_bytes), from->backward_workspace_bytes, 0,
                             false, &to->backward_workspace_bytes)) ||
        (status = take_bytes(b, AT(save_workspace_bytes), from->save_workspace_bytes,
                             to->forward_workspace_bytes, false, &to->save_workspace_bytes)))
        return status;
#undef AT
    to->backward_uses_inputs = from->backward_uses_inputs && !b->joint;
    to->backward_uses_output = from->backward_uses_output && !b->joint;
    to->in_place = from->in_place;
    return take_pins(b, v, path);
}

static remat_status take_alternative(builder *b, size_t v, size_t a, remat_alternative *to)
{
    const remat_alternative_spec *from = &b->spec->nodes[v].alternatives[a];
    const remat_node *node = &b->nodes[v];
    char path[96], field[112];
    snprintf(path, sizeof path, "nodes[%zu].alternatives[%zu]", v, a);
    snprintf(field, sizeof field, "%s.name", path);
    remat_status status = check_text(from->name, field, b->error);
    if (status)
        return status;
    uint64_t save_default =
        from->forward_workspace_bytes.given && !b->spec->nodes[v].save_workspace_bytes.given
            ? UINT64_MAX
            : node->save_workspace_bytes;
#define AT(field) ((place){path, from->name, called(b, #field)})
    if ((status = refuse_given(b, AT(backward_time), from->backward_time)) ||
        (status = refuse_given(b, AT(saved_bytes), from->saved_bytes)) ||
        (status = refuse_given(b, AT(backward_workspace_bytes), from->backward_workspace_bytes)) ||
        (status = refuse_given(b, AT(save_workspace_bytes), from->save_workspace_bytes)) ||
        (status = take_time(b, AT(forward_time), from->forward_time, node->forward_time, false,
                            &to->forward_time)) ||
        (status = take_time(b, AT(backward_time), from->backward_time, node->backward_time, false,
                            &to->backward_time)) ||
        (status = take_bytes(b, AT(saved_bytes), from->saved_bytes, node->saved_bytes, false,
                             &to->saved_bytes)) ||
        (status = take_bytes(b, AT(forward_workspace_bytes), from->forward_workspace_bytes,
                             node->forward_workspace_bytes, false, &to->forward_workspace_bytes)) ||
        (status =
             take_bytes(b, AT(backward_workspace_bytes), from->backward_workspace_bytes,
                        node->backward_workspace_bytes, false, &to->backward_workspace_bytes)) ||
        (status =
             take_bytes(b, AT(save_workspace_bytes), from->save_workspace_bytes,
                        save_default == UINT64_MAX ? to->forward_workspace_bytes : save_default,
                        false, &to->save_workspace_bytes)))
        return status;
#undef AT
    to->name = core_arena_string(&b->owned->arena, from->name);
    return to->name ? REMAT_OK : remat_fail_memory(b->error);
}

static remat_status take_alternatives(builder *b, size_t v)
{
    const remat_node_spec *from = &b->spec->nodes[v];
    remat_node *to = &b->nodes[v];
    char field[64];
    snprintf(field, sizeof field, "nodes[%zu].alternatives", v);
    if (from->n_alternatives > REMAT_MAX_ALTERNATIVES)
        return remat_fail(b->error, REMAT_INVALID, field,
                          "%s: node \"%s\" has %zu alternatives; at most %u", field, from->id,
                          from->n_alternatives, REMAT_MAX_ALTERNATIVES);
    remat_alternative *alternatives =
        core_arena_array(&b->owned->arena, from->n_alternatives, sizeof *alternatives);
    id_entry *names = malloc((from->n_alternatives + 1) * sizeof *names);
    if (!alternatives || !names) {
        free(names);
        return remat_fail_memory(b->error);
    }
    remat_status status = REMAT_OK;
    for (size_t a = 0; a < from->n_alternatives && !status; a++) {
        status = take_alternative(b, v, a, &alternatives[a]);
        names[a] = (id_entry){alternatives[a].name, (uint32_t)a};
    }
    if (!status)
        status = sort_ids(names, from->n_alternatives, field, b->error);
    free(names);
    to->alternatives = alternatives;
    to->n_alternatives = (uint32_t)from->n_alternatives;
    return status;
}

/* Appends index to list unless stamp says that this list has it. */
static void add_once(uint32_t *list, uint32_t *n, uint32_t index, uint32_t *stamp, uint32_t tag)
{
    if (stamp[index] == tag)
        return;
    stamp[index] = tag;
    list[(*n)++] = index;
}

static remat_status take_state_list(builder *b, size_t v, const char *name, const char *const *ids,
                                    size_t n_ids, const uint32_t **ret_list, uint32_t *ret_n)
{
    uint32_t *list = core_arena_array(&b->owned->arena, n_ids, sizeof *list), n = 0;
    if (!list)
        return remat_fail_memory(b->error);
    b->tag++;
    for (size_t i = 0; i < n_ids; i++) {
        const id_entry *entry = find_id(b->state_ids, b->spec->n_states, ids[i]);
        if (!entry) {
            char field[96];
            snprintf(field, sizeof field, "nodes[%zu].%s[%zu]", v, name, i);
            return remat_fail(b->error, REMAT_INVALID, field,
                              "%s of node \"%s\": there is no state \"%.200s\"", field,
                              b->spec->nodes[v].id, ids[i] ? ids[i] : "");
        }
        add_once(list, &n, entry->index, b->state_stamp, b->tag);
    }
    *ret_list = list;
    *ret_n = n;
    return REMAT_OK;
}

/* The node that a text names, one of its results or all; UINT32_MAX for what is none. */
static uint32_t named_node(const builder *b, const char *text)
{
    uint32_t number;
    const id_entry *entry = find_id(b->values, b->n_ids, text);
    if (!entry && b->joint && text)
        entry = find_numbered(b, text, &number);
    return entry ? entry->index : UINT32_MAX;
}

/* Whether the edges of the specification, in whatever order its nodes stand, hold a cycle: Kahn's
 * algorithm. Only asked to word an error. Returns false when out of memory. */
static bool has_cycle(const builder *b)
{
    size_t n = b->spec->n_nodes, edges = 0, done = 0, head = 0;
    for (size_t v = 0; v < n; v++)
        edges += b->spec->nodes[v].n_inputs;
    uint32_t *missing = calloc(n, sizeof *missing), *queue = calloc(n, sizeof *queue);
    uint32_t *first = calloc(n + 2, sizeof *first), *to = calloc(edges + 1, sizeof *to);
    bool cycle = false;
    if (!missing || !queue || !first || !to)
        goto out;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t v = 0; v < n; v++)
            for (size_t i = 0; i < b->spec->nodes[v].n_inputs; i++) {
                uint32_t u = named_node(b, b->spec->nodes[v].inputs[i]);
                if (u >= n)
                    continue;
                if (pass == 0) {
                    first[u + 1]++;
                    missing[v]++;
                } else {
                    to[--first[u + 1]] = (uint32_t)v;
                }
            }
        for (size_t v = 0; pass == 0 && v < n; v++)
            first[v + 1] += first[v];
        first[n + 1] = pass == 0 ? first[n] : first[n + 1];
    }
    /* Now the consumers of u stand from first[u + 1] up to first[u + 2]. */
    for (size_t v = 0; v < n; v++)
        if (missing[v] == 0)
            queue[done++] = (uint32_t)v;
    while (head < done) {
        uint32_t u = queue[head++];
        for (size_t e = first[u + 1]; e < first[u + 2]; e++)
            if (to[e] != u && --missing[to[e]] == 0)
                queue[done++] = to[e];
    }
    cycle = done < n;
out:
    free(missing);
    free(queue);
    free(first);
    free(to);
    return cycle;
}

static remat_status fail_order(builder *b, size_t v, size_t i, uint32_t later)
{
    const char *id = b->spec->nodes[v].id, *other = b->spec->nodes[later].id;
    char field[96];
    snprintf(field, sizeof field, "nodes[%zu].inputs[%zu]", v, i);
    if (later == v || has_cycle(b))
        return remat_fail(
            b->error, REMAT_INVALID, field,
            "%s: the graph has a cycle; node \"%s\" needs \"%s\", which comes after it", field, id,
            other);
    return remat_fail(b->error, REMAT_INVALID, field,
                      "%s: nodes must stand in a topological order; node \"%s\" (index %zu) needs "
                      "\"%s\" (index %u)",
                      field, id, v, other, later);
}

static uint32_t value_of(const builder *b, uint32_t index, uint32_t number)
{
    return number == 0 ? index : b->nodes[index].first_result + number - 1;
}

static remat_status take_edges(builder *b, size_t v)
{
    const remat_node_spec *from = &b->spec->nodes[v];
    uint32_t *list = core_arena_array(&b->owned->arena, from->n_inputs, sizeof *list);
    uint32_t n = 0;
    if (!list)
        return remat_fail_memory(b->error);
    for (size_t i = 0; i < from->n_inputs; i++) {
        uint32_t index, number;
        char field[96];
        snprintf(field, sizeof field, "nodes[%zu].inputs[%zu]", v, i);
        remat_status status = take_value(b, field, from->id, from->inputs[i], &index, &number);
        if (status)
            return status;
        if (index < b->spec->n_nodes && index >= v)
            return fail_order(b, v, i, index);
        add_once(list, &n, value_of(b, index, number), b->value_stamp, (uint32_t)v + 1);
    }
    b->nodes[v].inputs = list;
    b->nodes[v].n_inputs = n;
    return REMAT_OK;
}

static remat_status take_node(builder *b, size_t v)
{
    const remat_node_spec *from = &b->spec->nodes[v];
    remat_node *to = &b->nodes[v];
    char path[64];
    snprintf(path, sizeof path, "nodes[%zu]", v);
    remat_status status;
    if ((status = take_costs(b, v, path)) || (status = take_alternatives(b, v)) ||
        (status = take_edges(b, v)) ||
        (status = take_state_list(b, v, "reads", from->reads, from->n_reads, &to->reads,
                                  &to->n_reads)) ||
        (status = take_state_list(b, v, "writes", from->writes, from->n_writes, &to->writes,
                                  &to->n_writes)))
        return status;
    to->id = core_arena_string(&b->owned->arena, from->id);
    to->op = core_arena_string(&b->owned->arena, from->op ? from->op : "");
    return to->id && to->op ? REMAT_OK : remat_fail_memory(b->error);
}

/* ---- the whole ---- */

/* The node or graph input that a value comes from. */
static uint32_t source_of(const builder *b, uint32_t value)
{
    return value < b->n_ids ? value : b->results[value - b->n_ids].node;
}

/* Turns the input lists around into consumer lists. */
static remat_status link_consumers(builder *b)
{
    size_t n = b->spec->n_nodes, edges = 0;
    uint32_t *count = calloc(b->n_values + 1, sizeof *count);
    for (size_t v = 0; v < n; v++)
        edges += b->nodes[v].n_inputs;
    uint32_t *pool = core_arena_array(&b->owned->arena, edges, sizeof *pool);
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
static remat_status take_outputs(builder *b)
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
    uint32_t *list = core_arena_array(&b->owned->arena, spec->n_outputs, sizeof *list);
    if (!list)
        return remat_fail_memory(b->error);
    uint32_t n = 0, tag = (uint32_t)spec->n_nodes + 1;
    for (size_t i = 0; i < spec->n_outputs; i++) {
        uint32_t index, number;
        char field[48];
        snprintf(field, sizeof field, "outputs[%zu]", i);
        remat_status status = take_value(b, field, NULL, spec->outputs[i], &index, &number);
        if (status)
            return status;
        uint32_t value = value_of(b, index, number);
        if (b->value_stamp[value] == tag)
            return remat_fail(b->error, REMAT_INVALID, field, "%s: \"%.200s\" is there twice",
                              field, spec->outputs[i]);
        add_once(list, &n, value, b->value_stamp, tag);
    }
    b->owned->profile.outputs = list;
    b->owned->profile.n_outputs = n;
    return REMAT_OK;
}

/* Of a joint graph: a node that no output depends on. */
static remat_status check_dead(builder *b)
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

static remat_status check_whole(builder *b)
{
    uint32_t n = (uint32_t)b->spec->n_nodes;
    remat_status status = b->joint ? check_dead(b) : REMAT_OK;
    if (status)
        return status;
    for (uint32_t v = 0; v + 1 < n && !b->joint; v++)
        if (b->nodes[v].n_consumers == 0)
            return remat_fail(
                b->error, REMAT_INVALID, "nodes",
                "nodes[%u] \"%s\" has no consumer, so the loss \"%s\" (the last node) "
                "does not depend on it; a profile has exactly one sink",
                v, b->nodes[v].id, b->nodes[n - 1].id);
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
static remat_status count_all_results(builder *b)
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

static remat_status take_header(builder *b)
{
    static const char *const units[] = {"s", "ms", "us", "ns", "units"};
    const remat_profile_spec *spec = b->spec;
    if (!spec->format || strcmp(spec->format, "remat-profile/1") != 0)
        return remat_fail(b->error, REMAT_INVALID, "format",
                          "format is \"%.60s\"; this service reads \"remat-profile/1\"",
                          spec->format ? spec->format : "");
    remat_status status = check_text(spec->name, "name", b->error);
    if (status)
        return status;
    const char *unit = spec->time_unit ? spec->time_unit : "us";
    size_t i = 0;
    while (i < 5 && strcmp(units[i], unit) != 0)
        i++;
    if (i == 5)
        return remat_fail(b->error, REMAT_INVALID, "time_unit",
                          "time_unit is \"%.60s\"; s, ms, us, ns and units are known", unit);
    b->owned->profile.time_unit = (remat_time_unit)i;
    const char *graph = spec->graph ? spec->graph : "forward";
    b->joint = strcmp(graph, "joint") == 0;
    if (!b->joint && strcmp(graph, "forward") != 0)
        return remat_fail(b->error, REMAT_INVALID, "graph",
                          "graph is \"%.60s\"; forward and joint are known", graph);
    if (spec->n_nodes == 0)
        return remat_fail(b->error, REMAT_INVALID, "nodes", "nodes is empty");
    if (spec->n_nodes > REMAT_MAX_NODES || spec->n_inputs > REMAT_MAX_NODES ||
        spec->n_states > REMAT_MAX_NODES)
        return remat_fail(b->error, REMAT_INVALID, "nodes",
                          "%zu nodes, %zu inputs and %zu states; at most %u of each", spec->n_nodes,
                          spec->n_inputs, spec->n_states, REMAT_MAX_NODES);
    return count_all_results(b);
}

static remat_status allocate(builder *b)
{
    core_arena *arena = &b->owned->arena;
    const remat_profile_spec *spec = b->spec;
    b->nodes = core_arena_array(arena, spec->n_nodes, sizeof *b->nodes);
    b->inputs = core_arena_array(arena, spec->n_inputs, sizeof *b->inputs);
    b->states = core_arena_array(arena, spec->n_states, sizeof *b->states);
    b->results = core_arena_array(arena, b->n_values - b->n_ids, sizeof *b->results);
    b->values = calloc(b->n_ids, sizeof *b->values);
    b->state_ids = calloc(spec->n_states + 1, sizeof *b->state_ids);
    b->value_stamp = calloc(b->n_values, sizeof *b->value_stamp);
    b->state_stamp = calloc(spec->n_states + 1, sizeof *b->state_stamp);
    b->owned->profile.name = core_arena_string(arena, spec->name);
    if (!b->nodes || !b->inputs || !b->states || !b->results || !b->values || !b->state_ids ||
        !b->value_stamp || !b->state_stamp || !b->owned->profile.name)
        return remat_fail_memory(b->error);
    return REMAT_OK;
}

static remat_status build(builder *b)
{
    remat_status status;
    if ((status = take_header(b)) || (status = allocate(b)) || (status = collect_ids(b)) ||
        (status = take_inputs(b)) || (status = take_states(b)))
        return status;
    for (size_t v = 0; v < b->spec->n_nodes; v++)
        if ((status = take_node(b, v)))
            return status;
    remat_profile *profile = &b->owned->profile;
    profile->results = b->results;
    profile->n_results = b->n_results;
    profile->joint = b->joint;
    if ((status = link_consumers(b)) || (status = take_outputs(b)) || (status = check_whole(b)))
        return status;
    profile->nodes = b->nodes;
    profile->inputs = b->inputs;
    profile->states = b->states;
    profile->n_nodes = (uint32_t)b->spec->n_nodes;
    profile->n_inputs = (uint32_t)b->spec->n_inputs;
    profile->n_states = (uint32_t)b->spec->n_states;
    core_profile_classify(profile);
    return REMAT_OK;
}

remat_status remat_profile_new(const remat_profile_spec *spec, remat_profile **ret_profile,
                               remat_error *error)
{
    owned_profile *owned = calloc(1, sizeof *owned);
    if (!owned)
        return remat_fail_memory(error);
    builder b = {.spec = spec, .owned = owned, .error = error};
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
    owned_profile *owned = (owned_profile *)profile;
    core_arena_clear(&owned->arena);
    free(owned);
}
