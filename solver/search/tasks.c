#include "search/tasks.h"

#include <stdlib.h>

#define LARGEST 0x1p51

static bool index_new(interval_tasks *t, interval_index *index, uint32_t n, size_t items)
{
    index->first = model_arena_array(&t->arena, (size_t)n + 1, sizeof *index->first);
    index->items = model_arena_array(&t->arena, items, sizeof *index->items);
    return index->first && index->items;
}

static double round_up(uint64_t bytes, uint64_t alignment)
{
    return (double)((bytes + alignment - 1) / alignment * alignment);
}

/* The reverse of a relation: for each of n targets, who has it among its items. */
static bool index_reverse(interval_tasks *t, const interval_index *from, uint32_t n_from,
                          interval_index *to, uint32_t n_to)
{
    uint32_t items = from->first[n_from];
    if (!index_new(t, to, n_to, items))
        return false;
    for (uint32_t i = 0; i < items; i++)
        to->first[from->items[i] + 1]++;
    for (uint32_t i = 0; i < n_to; i++)
        to->first[i + 1] += to->first[i];
    for (uint32_t i = 0; i < n_from; i++)
        for (uint32_t k = from->first[i]; k < from->first[i + 1]; k++)
            to->items[to->first[from->items[k]]++] = i;
    for (uint32_t i = n_to; i > 0; i--)
        to->first[i] = to->first[i - 1];
    to->first[0] = 0;
    return true;
}

static void push(interval_index *index, uint32_t *n, uint32_t item)
{
    index->items[(*n)++] = item;
}

static interval_way forward_way(const remat_alternative *cost, uint64_t alignment)
{
    interval_way way = {.time = cost->forward_time,
                        .workspace = round_up(cost->forward_workspace_bytes, alignment),
                        .saving = round_up(cost->save_workspace_bytes, alignment),
                        .saved = round_up(cost->saved_bytes, alignment)};
    way.passing = way.saving + way.saved;
    way.passing = way.passing < way.workspace ? way.passing : way.workspace;
    return way;
}

static interval_way backward_way(const remat_alternative *cost, uint64_t alignment)
{
    return (interval_way){.time = cost->backward_time,
                          .workspace = round_up(cost->backward_workspace_bytes, alignment),
                          .saved = round_up(cost->saved_bytes, alignment)};
}

static bool list_ways(interval_tasks *t, uint64_t alignment)
{
    const remat_profile *p = t->profile;
    uint32_t n = p->n_nodes, at = 0;
    size_t ways = 2 * ((size_t)n + p->n_alternatives) + 1;
    t->ways = model_arena_array(&t->arena, ways, sizeof *t->ways);
    t->first_way = model_arena_array(&t->arena, (size_t)t->n_tasks + 1, sizeof *t->first_way);
    if (!t->ways || !t->first_way)
        return false;
    for (uint32_t task = 0; task < t->n_tasks; task++) {
        t->first_way[task] = at;
        if (task == interval_end_task(t)) {
            t->ways[at++] = (interval_way){0};
            continue;
        }
        const remat_node *node = &p->nodes[task < n ? task : task - n];
        for (uint32_t k = 0; k <= node->n_alternatives; k++, at++) {
            const remat_alternative cost = remat_implementation(node, k);
            t->ways[at] = task < n ? forward_way(&cost, alignment) : backward_way(&cost, alignment);
        }
    }
    t->first_way[t->n_tasks] = at;
    return true;
}

/* The value that result number of a node, or the only one, is here. */
static uint32_t value_here(const interval_tasks *t, uint32_t value)
{
    return t->first_made[remat_value_node(t->profile, value)] +
           remat_value_number(t->profile, value);
}

static bool list_reads(interval_tasks *t)
{
    const remat_profile *p = t->profile;
    uint32_t n = p->n_nodes, at = 0;
    if (!index_new(t, &t->reads, t->n_tasks, 2 * (size_t)p->n_edges + n + p->n_outputs))
        return false;
    for (uint32_t task = 0; task < t->n_tasks; task++) {
        t->reads.first[task] = at;
        bool end = task == interval_end_task(t);
        for (uint32_t i = 0; end && i < p->n_outputs; i++) /* of a joint graph */
            if (remat_is_result(p, p->outputs[i]))
                push(&t->reads, &at, value_here(t, p->outputs[i]));
        if (end)
            continue;
        uint32_t v = task < n ? task : task - n;
        const remat_node *node = &p->nodes[v];
        for (uint32_t i = 0; i < node->n_inputs; i++)
            if (remat_is_result(p, node->inputs[i]) && (task < n || node->backward_uses_inputs))
                push(&t->reads, &at, value_here(t, node->inputs[i]));
        if (task >= n && node->backward_uses_output)
            push(&t->reads, &at, v);
    }
    t->reads.first[t->n_tasks] = at;
    return true;
}

static bool list_values(interval_tasks *t, uint64_t alignment)
{
    const remat_profile *p = t->profile;
    uint32_t n = p->n_nodes, at = 0;
    t->maker = model_arena_array(&t->arena, t->n_values, sizeof *t->maker);
    t->bytes = model_arena_array(&t->arena, t->n_values, sizeof *t->bytes);
    t->first_made = model_arena_array(&t->arena, (size_t)t->n_tasks + 1, sizeof *t->first_made);
    if (!t->maker || !t->bytes || !t->first_made)
        return false;
    for (uint32_t v = 0; v < n; v++) {
        t->first_made[v] = at;
        for (uint32_t k = 0; k < p->nodes[v].n_outputs; k++, at++) {
            t->maker[at] = v;
            t->bytes[at] = round_up(remat_value_bytes(p, remat_result_value(p, v, k)), alignment);
        }
    }
    for (uint32_t task = n; task <= t->n_tasks; task++)
        t->first_made[task] = at;
    return true;
}

static void list_overwrites(interval_tasks *t)
{
    const remat_profile *p = t->profile;
    for (uint32_t task = 0; task < t->n_tasks; task++) {
        const remat_node *node = task < p->n_nodes ? &p->nodes[task] : NULL;
        bool overlap =
            node && node->in_place && node->n_inputs > 0 && remat_is_result(p, node->inputs[0]);
        t->overwrites[task] = overlap ? value_here(t, node->inputs[0]) : INTERVAL_NONE;
        t->overlaps[task] = INTERVAL_NONE;
    }
}

static bool reads_late(const remat_profile *p, const remat_node *node)
{
    for (uint32_t i = 0; i < node->n_inputs && p->n_late > 0; i++)
        if (!remat_is_result(p, node->inputs[i]) && p->inputs[node->inputs[i] - p->n_nodes].late)
            return true;
    return false;
}

/* Whether an output of a joint graph depends on no late input. */
static bool is_sent(const remat_profile *p, uint32_t i)
{
    return remat_is_result(p, p->outputs[i]) && !p->nodes[remat_value_node(p, p->outputs[i])].late;
}

/* Gradients: of v, from the first backward of a consumer to B v; of a graph input, to the end. */
static bool list_spans(interval_tasks *t, uint64_t alignment)
{
    const remat_profile *p = t->profile;
    uint32_t n = p->n_nodes, at = 0;
    size_t touches = n;
    for (uint32_t v = 0; v < n; v++)
        touches += p->nodes[v].n_consumers;
    for (uint32_t k = 0; k < p->n_inputs; k++)
        touches += p->inputs[k].n_consumers;
    t->span_bytes = model_arena_array(&t->arena, t->n_spans, sizeof *t->span_bytes);
    t->overlaps = model_arena_array(&t->arena, t->n_tasks, sizeof *t->overlaps);
    t->overwrites = model_arena_array(&t->arena, t->n_tasks, sizeof *t->overwrites);
    if (!t->span_bytes || !t->overlaps || !t->overwrites ||
        !index_new(t, &t->touches, t->n_spans, touches))
        return false;
    if (p->joint)
        list_overwrites(t);
    t->overwrites[interval_end_task(t)] = t->overlaps[interval_end_task(t)] = INTERVAL_NONE;
    for (uint32_t v = 0; v < n && !p->joint; v++) {
        const remat_node *node = &p->nodes[v];
        t->touches.first[v] = at;
        t->span_bytes[v] = round_up(node->gradient_bytes, alignment);
        for (uint32_t c = 0; c < node->n_consumers; c++)
            push(&t->touches, &at, n + node->consumers[c]);
        push(&t->touches, &at, n + v);
        bool overlap = node->in_place && node->n_inputs > 0;
        uint32_t input = overlap ? node->inputs[0] : 0;
        t->overwrites[v] = overlap && input < n ? input : INTERVAL_NONE;
        t->overwrites[n + v] = t->overlaps[v] = INTERVAL_NONE;
        t->overlaps[n + v] = overlap ? (input < n ? input : n + input) : INTERVAL_NONE;
    }
    for (uint32_t v = 0; v < n && !p->joint; v++)
        t->touches.first[n + v] = at;
    for (uint32_t k = 0; k < p->n_inputs && !p->joint; k++) {
        t->touches.first[2 * n + k] = at;
        t->span_bytes[2 * n + k] = round_up(p->inputs[k].gradient_bytes, alignment);
        for (uint32_t c = 0; p->inputs[k].gradient_bytes && c < p->inputs[k].n_consumers; c++)
            push(&t->touches, &at, n + p->inputs[k].consumers[c]);
    }
    for (uint32_t v = 0; v < n && p->joint && t->n_spans > 0; v++)
        if (reads_late(p, &p->nodes[v]))
            push(&t->touches, &at, v);
    if (p->joint && t->n_spans > 0)
        t->span_bytes[0] = t->late;
    t->touches.first[t->n_spans] = at;
    return index_reverse(t, &t->touches, t->n_spans, &t->spans_of, t->n_tasks);
}

/* Whoever sees a state or changes it comes after who made it what it is. */
static void order_states(interval_tasks *t, uint32_t v, uint32_t *writers, uint32_t *at)
{
    const remat_node *node = &t->profile->nodes[v];
    for (uint32_t i = 0; i < node->n_reads + node->n_writes; i++) {
        uint32_t k = i < node->n_reads ? node->reads[i] : node->writes[i - node->n_reads];
        if (writers[k] != INTERVAL_NONE)
            push(&t->after, at, writers[k]);
    }
    for (uint32_t i = 0; i < node->n_writes; i++)
        writers[node->writes[i]] = v;
}

/* What reads a late input comes after what makes an output that depends on none. */
static void order_late(interval_tasks *t, uint32_t v, uint32_t *at)
{
    const remat_profile *p = t->profile;
    for (uint32_t i = 0; i < p->n_outputs && reads_late(p, &p->nodes[v]); i++)
        if (is_sent(p, i))
            push(&t->after, at, remat_value_node(p, p->outputs[i]));
}

/* The first backward comes after the loss; another one after those of its consumers. given: each
 * node comes after the one before it. */
static bool list_order(interval_tasks *t, bool given)
{
    const remat_profile *p = t->profile;
    uint32_t n = p->n_nodes, at = 0;
    size_t touches = 0;
    for (uint32_t v = 0; v < n; v++)
        touches += p->nodes[v].n_reads + p->nodes[v].n_writes +
                   (reads_late(p, &p->nodes[v]) ? p->n_outputs : 0);
    uint32_t *writers = model_arena_array(&t->arena, p->n_states, sizeof *writers);
    if (!writers || !index_new(t, &t->after, t->n_tasks, (size_t)p->n_edges + n + 1 + touches))
        return false;
    for (uint32_t k = 0; k < p->n_states; k++)
        writers[k] = INTERVAL_NONE;
    for (uint32_t v = 0; v < n; v++) {
        t->after.first[v] = at;
        order_states(t, v, writers, &at);
        order_late(t, v, &at);
        if (given && v > 0)
            push(&t->after, &at, v - 1);
    }
    for (uint32_t task = n; task < interval_end_task(t); task++) {
        const remat_node *node = &p->nodes[task - n];
        t->after.first[task] = at;
        for (uint32_t c = 0; c < node->n_consumers; c++)
            push(&t->after, &at, n + node->consumers[c]);
        if (node->n_consumers == 0)
            push(&t->after, &at, task - n);
    }
    t->after.first[interval_end_task(t)] = t->after.first[t->n_tasks] = at;
    return index_reverse(t, &t->after, t->n_tasks, &t->before, t->n_tasks);
}

static remat_status check_sizes(const interval_tasks *t, remat_error *error)
{
    double bytes = t->resident + t->late;
    for (uint32_t v = 0; v < t->n_values; v++)
        bytes += t->bytes[v];
    for (uint32_t s = 0; s < t->n_spans; s++)
        bytes += t->span_bytes[s];
    for (uint32_t w = 0; w < t->first_way[t->n_tasks]; w++)
        bytes += t->ways[w].workspace + t->ways[w].saving + t->ways[w].saved;
    if (bytes * (1.0 + t->others) < LARGEST)
        return REMAT_OK;
    return remat_fail(error, REMAT_TOO_LARGE, NULL, "the sizes of \"%.100s\" add up to 2^51 bytes",
                      t->profile->name);
}

remat_status interval_tasks_new(const remat_profile *profile, uint64_t alignment, bool given,
                                uint32_t in_flight, interval_tasks **ret_tasks, remat_error *error)
{
    interval_tasks *t = calloc(1, sizeof *t);
    if (!t)
        return remat_fail_memory(error);
    uint32_t n = profile->n_nodes;
    t->profile = profile;
    t->n_nodes = n;
    t->n_values = n + profile->n_results;
    t->n_saving = profile->joint ? 0 : n;
    t->n_tasks = profile->joint ? n + 1 : 2 * n + 1;
    t->n_spans = profile->joint ? profile->n_late > 0 : 2 * n + profile->n_inputs;
    t->turn_task = profile->joint ? INTERVAL_NONE : n - 1;
    t->others = in_flight - 1;
    t->total_time = profile->forward_time + profile->backward_time;
    for (uint32_t k = 0; k < profile->n_inputs; k++)
        *(profile->inputs[k].late ? &t->late : &t->resident) +=
            round_up(profile->inputs[k].bytes, alignment);
    t->resident *= in_flight;
    t->once = model_arena_array(&t->arena, t->n_tasks, sizeof *t->once);
    remat_status status = REMAT_OK;
    if (!t->once || !list_ways(t, alignment) || !list_values(t, alignment) || !list_reads(t) ||
        !index_reverse(t, &t->reads, t->n_tasks, &t->uses, t->n_values) ||
        !list_spans(t, alignment) || !list_order(t, given && profile->joint))
        status = remat_fail_memory(error);
    for (uint32_t task = 0; !status && task < t->n_tasks; task++)
        t->once[task] = task >= n || profile->nodes[task].once;
    if (!status)
        status = check_sizes(t, error);
    if (status)
        interval_tasks_free(t);
    else
        *ret_tasks = t;
    return status;
}

void interval_tasks_free(interval_tasks *tasks)
{
    if (!tasks)
        return;
    model_arena_clear(&tasks->arena);
    free(tasks);
}
