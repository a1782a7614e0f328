/* The profile as lists of things, for the mixed search. */
#include "search/mixed_row.h"

#include <math.h>

static bool allocate_things(things *t)
{
    const uint32_t n = t->n;
    size_t reads = 0;
    for (uint32_t v = 0; v < n; v++)
        reads += t->profile->nodes[v].n_inputs;
    model_arena *a = &t->arena;
    t->tasks = model_arena_array(a, 2 * (size_t)n, sizeof *t->tasks);
    t->list = model_arena_array(a, 2 * reads + 3 * (size_t)n + t->n_values, sizeof *t->list);
    t->gradients = model_arena_array(a, reads + n, sizeof *t->gradients);
    t->gradient_touches = model_arena_array(a, t->n_values, sizeof *t->gradient_touches);
    t->bytes = model_arena_array(a, t->n_things, sizeof *t->bytes);
    t->copied = model_arena_array(a, t->n_things, sizeof *t->copied);
    t->gradient = model_arena_array(a, t->n_values, sizeof *t->gradient);
    t->backward_way = model_arena_array(a, n, sizeof *t->backward_way);
    t->movable = model_arena_array(a, t->n_things, sizeof *t->movable);
    t->saving = model_arena_array(a, n, sizeof *t->saving);
    return t->tasks && t->list && t->gradients && t->gradient_touches && t->saving && t->bytes &&
           t->copied && t->gradient && t->backward_way && t->movable;
}

static bool may_save(const remat_node *node)
{
    for (uint32_t k = 0; k <= node->n_alternatives; k++)
        if (remat_implementation(node, k).saved_bytes > 0)
            return true;
    return false;
}

static uint32_t list_made(things *t, uint32_t v, uint32_t at)
{
    for (uint32_t k = 0; k < t->profile->nodes[v].n_outputs; k++)
        t->list[at++] = remat_result_value(t->profile, v, k);
    t->list[at++] = saved_thing(t, v);
    return at;
}

/* What is saved comes last: it is not read where nothing is. */
static uint32_t list_reads(things *t, uint32_t id, uint32_t at)
{
    const remat_node *node = node_of(t, id);
    const bool backward = is_backward(t, id);
    for (uint32_t i = 0; i < node->n_inputs && (!backward || node->backward_uses_inputs); i++)
        t->list[at++] = node->inputs[i];
    if (backward && node->backward_uses_output)
        t->list[at++] = id - t->n;
    if (backward && !t->profile->joint && may_save(node))
        t->list[at++] = saved_thing(t, id - t->n);
    return at;
}

static void list_tasks(things *t)
{
    uint32_t at = 0;
    for (uint32_t id = 0; id < 2 * t->n; id++) {
        const remat_node *node = node_of(t, id);
        task *one = &t->tasks[id];
        one->made = at;
        one->reads = at = is_backward(t, id) ? at : list_made(t, id, at);
        one->end = at = list_reads(t, id, at);
        one->over = node->in_place && node->n_inputs > 0 ? node->inputs[0] : NONE;
        if (is_backward(t, id))
            continue;
        one->own = forward_cost(t, id, 0);
        one->passing = passing_bytes(t, id, 0);
        if (one->over != NONE && !remat_is_result(t->profile, one->over))
            one->over = NONE; /* a graph input stays */
    }
    t->end_list = at;
}

static void touch_gradient(things *t, uint32_t u, uint32_t *at)
{
    if (t->gradient_touches[u]++ == 0 && u >= t->n)
        t->first_gradients += t->gradient[u];
    t->gradients[(*at)++] = u;
}

static void list_gradients(things *t)
{
    uint32_t at = 0;
    for (uint32_t v = 0; v < t->n; v++) {
        task *one = &t->tasks[t->n + v];
        one->gradients = at;
        touch_gradient(t, v, &at);
        for (uint32_t k = 0; k < t->profile->nodes[v].n_inputs; k++)
            touch_gradient(t, t->profile->nodes[v].inputs[k], &at);
        one->end_gradients = at;
    }
}

void mixed_set_way(things *t, uint32_t v, uint16_t way)
{
    const remat_alternative back = remat_implementation(&t->profile->nodes[v], way);
    const uint64_t saved = t->profile->joint ? 0 : back.saved_bytes;
    const uint32_t x = saved_thing(t, v);
    t->backward_way[v] = way;
    task *forward = &t->tasks[v], *backward = &t->tasks[t->n + v];
    backward->own = (run_cost){back.backward_time,
                               rounded(t, back.backward_workspace_bytes) + pad(t, t->n + v)};
    backward->least = back.backward_time;
    t->saving[v] = (run_cost){back.forward_time, rounded(t, back.save_workspace_bytes) + pad(t, v)};
    t->bytes[x] = rounded(t, saved);
    t->copied[x] = (double)saved;
    t->movable[x] = saved > 0;
    forward->least = fmin(forward->own.time, back.forward_time);
    if (!t->profile->joint && may_save(&t->profile->nodes[v]))
        backward->end = (v + 1 < t->n ? backward[1].made : t->end_list) - (saved == 0);
}

static void list_sizes(things *t)
{
    const remat_profile *p = t->profile;
    for (uint32_t x = 0; x < t->n_values; x++) {
        t->bytes[x] = rounded(t, remat_value_bytes(p, x));
        t->copied[x] = (double)remat_value_bytes(p, x);
        t->movable[x] = t->copied[x] > 0 &&
                        !(remat_is_result(p, x) && p->nodes[remat_value_node(p, x)].keep) &&
                        !(p->held_elsewhere && !remat_is_result(p, x));
    }
    for (uint32_t i = 0; i < p->n_outputs && p->held_elsewhere; i++)
        t->movable[p->outputs[i]] = false;
    for (uint32_t v = 0; v < t->n; v++) {
        mixed_set_way(t, v, 0);
        t->gradient[v] = rounded(t, p->nodes[v].gradient_bytes);
    }
    for (uint32_t k = 0; k < p->n_inputs; k++)
        t->gradient[t->n + k] = rounded(t, p->inputs[k].gradient_bytes);
    t->total_time = p->forward_time + p->backward_time;
    for (uint32_t x = 0; x < t->n_values && !(p->forward_time + p->backward_time > 0); x++)
        t->total_time += t->copied[x] / t->link->to_host; /* only copies take time */
}

remat_status mixed_things_init(things *t, const remat_profile *profile, const remat_link *link,
                               const remat_operations *start, uint64_t budget, const uint64_t *pads,
                               uint32_t alignment)
{
    *t = (things){.profile = profile,
                  .link = link,
                  .n = profile->n_nodes,
                  .n_values = remat_n_values(profile),
                  .n_things = remat_n_values(profile) + profile->n_nodes,
                  .alignment = alignment ? alignment : 1,
                  .budget = (double)budget,
                  .pads = pads};
    if (!allocate_things(t) || (profile->n_states > 0 && !mixed_states_init(t)))
        return REMAT_NO_MEMORY;
    list_tasks(t);
    list_sizes(t);
    if (!profile->joint)
        list_gradients(t);
    for (size_t i = 0; i < start->length; i++)
        if (start->items[i].kind == REMAT_B)
            mixed_set_way(t, start->items[i].index, start->items[i].alternative);
    return REMAT_OK;
}
