/* The profile as lists of things, for the mixed search. */
#include "search/mixed_row.h"

static bool allocate_things(things *t)
{
    const uint32_t n = t->n, tasks = 2 * n;
    model_arena *a = &t->arena;
    t->first_read = model_arena_array(a, (size_t)tasks + 1, sizeof *t->first_read);
    size_t reads = 0;
    for (uint32_t v = 0; v < n; v++)
        reads += 2 * (size_t)t->profile->nodes[v].n_inputs + 2;
    t->reads = model_arena_array(a, reads + 1, sizeof *t->reads);
    t->unread = model_arena_array(a, tasks, sizeof *t->unread);
    t->bytes = model_arena_array(a, t->n_things, sizeof *t->bytes);
    t->copied = model_arena_array(a, t->n_things, sizeof *t->copied);
    t->gradient = model_arena_array(a, t->n_values, sizeof *t->gradient);
    t->backward_way = model_arena_array(a, n, sizeof *t->backward_way);
    t->movable = model_arena_array(a, t->n_things, sizeof *t->movable);
    t->own = model_arena_array(a, tasks, sizeof *t->own);
    t->saving = model_arena_array(a, n, sizeof *t->saving);
    t->over = model_arena_array(a, n, sizeof *t->over);
    return t->unread && t->own && t->saving && t->over && t->first_read && t->reads && t->bytes &&
           t->copied && t->gradient && t->backward_way && t->movable;
}

static bool may_save(const remat_node *node)
{
    for (uint32_t k = 0; k <= node->n_alternatives; k++)
        if (remat_implementation(node, k).saved_bytes > 0)
            return true;
    return false;
}

static void list_task_reads(things *t)
{
    uint32_t at = 0;
    for (uint32_t task = 0; task < 2 * t->n; task++) {
        const remat_node *node = node_of(t, task);
        const bool backward = is_backward(t, task);
        t->first_read[task] = at;
        for (uint32_t i = 0; i < node->n_inputs && (!backward || node->backward_uses_inputs); i++)
            t->reads[at++] = node->inputs[i];
        if (backward && node->backward_uses_output)
            t->reads[at++] = task - t->n;
        if (backward && !t->profile->joint && may_save(node))
            t->reads[at++] = saved_thing(t, task - t->n);
    }
    t->first_read[2 * t->n] = at;
}

void mixed_set_way(things *t, uint32_t v, uint16_t way)
{
    const remat_alternative back = remat_implementation(&t->profile->nodes[v], way);
    const uint64_t saved = t->profile->joint ? 0 : back.saved_bytes;
    const uint32_t x = saved_thing(t, v);
    t->backward_way[v] = way;
    t->own[t->n + v] = (run_cost){back.backward_time, rounded(t, back.backward_workspace_bytes)};
    t->saving[v] = (run_cost){back.forward_time, rounded(t, back.save_workspace_bytes)};
    t->bytes[x] = rounded(t, saved);
    t->copied[x] = (double)saved;
    t->movable[x] = saved > 0;
    t->unread[t->n + v] = saved == 0 && may_save(&t->profile->nodes[v]);
}

static void list_costs(things *t)
{
    for (uint32_t v = 0; v < t->n; v++) {
        const remat_node *node = &t->profile->nodes[v];
        t->own[v] = forward_cost(t, v, 0);
        t->over[v] = node->in_place && node->n_inputs > 0 ? node->inputs[0] : NONE;
    }
}

static void list_sizes(things *t)
{
    const remat_profile *p = t->profile;
    for (uint32_t x = 0; x < t->n_values; x++) {
        t->bytes[x] = rounded(t, remat_value_bytes(p, x));
        t->copied[x] = (double)remat_value_bytes(p, x);
        t->movable[x] =
            t->copied[x] > 0 && !(remat_is_result(p, x) && p->nodes[remat_value_node(p, x)].keep);
    }
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
                               const remat_operations *start, uint64_t budget, uint32_t alignment)
{
    *t = (things){.profile = profile,
                  .link = link,
                  .n = profile->n_nodes,
                  .n_values = remat_n_values(profile),
                  .n_things = remat_n_values(profile) + profile->n_nodes,
                  .alignment = alignment ? alignment : 1,
                  .budget = (double)budget};
    if (!allocate_things(t))
        return REMAT_NO_MEMORY;
    list_task_reads(t);
    list_sizes(t);
    list_costs(t);
    for (size_t i = 0; i < start->length; i++)
        if (start->items[i].kind == REMAT_B)
            mixed_set_way(t, start->items[i].index, start->items[i].alternative);
    return REMAT_OK;
}
