/* The nodes of a profile: their costs, results, alternatives, edges and states. */
#include "model/profile_private.h"
#include "model/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers ---- */

static remat_status fail_number(const model_builder *b, model_place at, const char *what,
                                double value)
{
    char field[REMAT_FIELD_SIZE];
    snprintf(field, sizeof field, "%.150s.%s", at.path, at.name);
    if (isnan(value))
        return remat_fail(b->error, REMAT_INVALID, field, "%s of \"%s\" %s", field,
                          at.id ? at.id : "?", what);
    return remat_fail(b->error, REMAT_INVALID, field, "%s of \"%s\" is %.17g; it %s", field,
                      at.id ? at.id : "?", value, what);
}

remat_status model_take_bytes(model_builder *b, model_place at, remat_number number,
                              uint64_t fallback, bool required, uint64_t *ret_bytes)
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

static remat_status take_time(model_builder *b, model_place at, remat_number number,
                              double fallback, bool required, double *ret_time)
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
static const char *called(const model_builder *b, const char *field)
{
    if (b->joint && strcmp(field, "forward_time") == 0)
        return "time";
    return b->joint && strcmp(field, "forward_workspace_bytes") == 0 ? "workspace_bytes" : field;
}

remat_status model_refuse_given(const model_builder *b, model_place at, remat_number number)
{
    if (!b->joint || !number.given)
        return REMAT_OK;
    return fail_number(b, at, "is of forward graphs; this one is joint", NAN);
}

/* ---- nodes ---- */

static remat_status take_results(model_builder *b, size_t v, const char *path)
{
    const remat_node_spec *from = &b->spec->nodes[v];
    remat_node *to = &b->nodes[v];
    char name[48];
    model_place at = {path, from->id, "outputs"};
    remat_status status = REMAT_OK;
    to->n_outputs = 1;
    to->first_result = b->n_ids + b->n_results;
    if (!from->has_outputs)
        return model_take_bytes(b, (model_place){path, from->id, "output_bytes"},
                                from->output_bytes, 0, true, &to->output_bytes);
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
        status = model_take_bytes(b, (model_place){path, from->id, name}, from->outputs[k], 0, true,
                                  &bytes);
        if (k == 0)
            to->output_bytes = bytes;
        else
            b->results[b->n_results++] =
                (remat_result){.bytes = bytes, .node = (uint32_t)v, .number = k};
    }
    return status;
}

static remat_status take_pins(model_builder *b, size_t v, const char *path)
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

static remat_status take_costs(model_builder *b, size_t v, const char *path)
{
    const remat_node_spec *from = &b->spec->nodes[v];
    remat_node *to = &b->nodes[v];
    remat_status status;
#define AT(field) ((model_place){path, from->id, called(b, #field)})
    if ((status = model_refuse_given(b, AT(backward_time), from->backward_time)) ||
        (status = model_refuse_given(b, AT(saved_bytes), from->saved_bytes)) ||
        (status = model_refuse_given(b, AT(gradient_bytes), from->gradient_bytes)) ||
        (status =
             model_refuse_given(b, AT(backward_workspace_bytes), from->backward_workspace_bytes)) ||
        (status = model_refuse_given(b, AT(save_workspace_bytes), from->save_workspace_bytes)) ||
        (status = take_time(b, AT(forward_time), from->forward_time, 0, true, &to->forward_time)) ||
        (status = take_time(b, AT(backward_time), from->backward_time,
                            b->joint ? 0 : 2 * to->forward_time, false, &to->backward_time)) ||
        (status = take_results(b, v, path)) ||
        (status =
             model_take_bytes(b, AT(saved_bytes), from->saved_bytes, 0, false, &to->saved_bytes)) ||
        (status = model_take_bytes(b, AT(gradient_bytes), from->gradient_bytes,
                                   b->joint ? 0 : to->output_bytes, false, &to->gradient_bytes)) ||
        (status = model_take_bytes(b, AT(forward_workspace_bytes), from->forward_workspace_bytes, 0,
                                   false, &to->forward_workspace_bytes)) ||
        (status = model_take_bytes(b, AT(backward_workspace_bytes), from->backward_workspace_bytes,
                                   0, false, &to->backward_workspace_bytes)) ||
        (status = model_take_bytes(b, AT(save_workspace_bytes), from->save_workspace_bytes,
                                   to->forward_workspace_bytes, false, &to->save_workspace_bytes)))
        return status;
#undef AT
    to->backward_uses_inputs = from->backward_uses_inputs && !b->joint;
    to->backward_uses_output = from->backward_uses_output && !b->joint;
    to->in_place = from->in_place;
    return take_pins(b, v, path);
}

static remat_status take_alternative(model_builder *b, size_t v, size_t a, remat_alternative *to)
{
    const remat_alternative_spec *from = &b->spec->nodes[v].alternatives[a];
    const remat_node *node = &b->nodes[v];
    char path[96], field[112];
    snprintf(path, sizeof path, "nodes[%zu].alternatives[%zu]", v, a);
    snprintf(field, sizeof field, "%s.name", path);
    remat_status status = model_check_text(from->name, field, b->error);
    if (status)
        return status;
    uint64_t save_default =
        from->forward_workspace_bytes.given && !b->spec->nodes[v].save_workspace_bytes.given
            ? UINT64_MAX
            : node->save_workspace_bytes;
#define AT(field) ((model_place){path, from->name, called(b, #field)})
    if ((status = model_refuse_given(b, AT(backward_time), from->backward_time)) ||
        (status = model_refuse_given(b, AT(saved_bytes), from->saved_bytes)) ||
        (status =
             model_refuse_given(b, AT(backward_workspace_bytes), from->backward_workspace_bytes)) ||
        (status = model_refuse_given(b, AT(save_workspace_bytes), from->save_workspace_bytes)) ||
        (status = take_time(b, AT(forward_time), from->forward_time, node->forward_time, false,
                            &to->forward_time)) ||
        (status = take_time(b, AT(backward_time), from->backward_time, node->backward_time, false,
                            &to->backward_time)) ||
        (status = model_take_bytes(b, AT(saved_bytes), from->saved_bytes, node->saved_bytes, false,
                                   &to->saved_bytes)) ||
        (status = model_take_bytes(b, AT(forward_workspace_bytes), from->forward_workspace_bytes,
                                   node->forward_workspace_bytes, false,
                                   &to->forward_workspace_bytes)) ||
        (status = model_take_bytes(b, AT(backward_workspace_bytes), from->backward_workspace_bytes,
                                   node->backward_workspace_bytes, false,
                                   &to->backward_workspace_bytes)) ||
        (status = model_take_bytes(b, AT(save_workspace_bytes), from->save_workspace_bytes,
                                   save_default == UINT64_MAX ? to->forward_workspace_bytes
                                                              : save_default,
                                   false, &to->save_workspace_bytes)))
        return status;
#undef AT
    to->name = model_arena_string(&b->owned->arena, from->name);
    return to->name ? REMAT_OK : remat_fail_memory(b->error);
}

static remat_status take_alternatives(model_builder *b, size_t v)
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
        model_arena_array(&b->owned->arena, from->n_alternatives, sizeof *alternatives);
    model_id *names = malloc((from->n_alternatives + 1) * sizeof *names);
    if (!alternatives || !names) {
        free(names);
        return remat_fail_memory(b->error);
    }
    remat_status status = REMAT_OK;
    for (size_t a = 0; a < from->n_alternatives && !status; a++) {
        status = take_alternative(b, v, a, &alternatives[a]);
        names[a] = (model_id){alternatives[a].name, (uint32_t)a};
    }
    const model_id *twins = status ? NULL : model_sort_ids(names, from->n_alternatives);
    if (twins)
        status = remat_fail(b->error, REMAT_INVALID, field,
                            "%s: node \"%s\" has two alternatives \"%s\", %u and %u", field,
                            from->id, twins->id, twins[0].index, twins[1].index);
    free(names);
    to->alternatives = alternatives;
    to->n_alternatives = (uint32_t)from->n_alternatives;
    return status;
}

void model_add_once(uint32_t *list, uint32_t *n, uint32_t index, uint32_t *stamp, uint32_t tag)
{
    if (stamp[index] == tag)
        return;
    stamp[index] = tag;
    list[(*n)++] = index;
}

static remat_status take_state_list(model_builder *b, size_t v, const char *name,
                                    const char *const *ids, size_t n_ids, const uint32_t **ret_list,
                                    uint32_t *ret_n)
{
    uint32_t *list = model_arena_array(&b->owned->arena, n_ids, sizeof *list), n = 0;
    if (!list)
        return remat_fail_memory(b->error);
    b->tag++;
    for (size_t i = 0; i < n_ids; i++) {
        const model_id *entry = model_find_id(b->state_ids, b->spec->n_states, ids[i]);
        if (!entry) {
            char field[96];
            snprintf(field, sizeof field, "nodes[%zu].%s[%zu]", v, name, i);
            return remat_fail(b->error, REMAT_INVALID, field,
                              "%s of node \"%s\": there is no state \"%.200s\"", field,
                              b->spec->nodes[v].id, ids[i] ? ids[i] : "");
        }
        model_add_once(list, &n, entry->index, b->state_stamp, b->tag);
    }
    *ret_list = list;
    *ret_n = n;
    return REMAT_OK;
}

/* The node that a text names, one of its results or all; UINT32_MAX for what is none. */
static uint32_t named_node(const model_builder *b, const char *text)
{
    uint32_t number;
    const model_id *entry = model_find_id(b->values, b->n_ids, text);
    if (!entry && b->joint && text)
        entry = model_find_numbered(b, text, &number);
    return entry ? entry->index : UINT32_MAX;
}

/* Whether the edges of the specification, in whatever order its nodes stand, hold a cycle: Kahn's
 * algorithm. Only asked to word an error. Returns false when out of memory. */
static bool has_cycle(const model_builder *b)
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

static remat_status fail_order(model_builder *b, size_t v, size_t i, uint32_t later)
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

uint32_t model_value_of(const model_builder *b, uint32_t index, uint32_t number)
{
    return number == 0 ? index : b->nodes[index].first_result + number - 1;
}

static remat_status take_edges(model_builder *b, size_t v)
{
    const remat_node_spec *from = &b->spec->nodes[v];
    uint32_t *list = model_arena_array(&b->owned->arena, from->n_inputs, sizeof *list);
    uint32_t n = 0;
    if (!list)
        return remat_fail_memory(b->error);
    for (size_t i = 0; i < from->n_inputs; i++) {
        uint32_t index, number;
        char field[96];
        snprintf(field, sizeof field, "nodes[%zu].inputs[%zu]", v, i);
        remat_status status =
            model_take_value(b, field, from->id, from->inputs[i], &index, &number);
        if (status)
            return status;
        if (index < b->spec->n_nodes && index >= v)
            return fail_order(b, v, i, index);
        model_add_once(list, &n, model_value_of(b, index, number), b->value_stamp, (uint32_t)v + 1);
    }
    b->nodes[v].inputs = list;
    b->nodes[v].n_inputs = n;
    return REMAT_OK;
}

remat_status model_take_node(model_builder *b, size_t v)
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
    to->id = model_arena_string(&b->owned->arena, from->id);
    to->op = model_arena_string(&b->owned->arena, from->op ? from->op : "");
    return to->id && to->op ? REMAT_OK : remat_fail_memory(b->error);
}
