/* Two arguments that hold for every valid operation list without O and P.
 *
 * 1. During B v the values it reads, its gradient, those it adds to and its workspace are alive
 *    (simulate.h). No budget under the largest of these sums is feasible.
 * 2. The loss depends on every node, so at the first backward, B loss, every node has run at least
 *    once. Of each node v the remaining operations need w(v) bytes: saved(v), and out(v) if its own
 *    backward or that of a consumer reads it. A node whose w(v) bytes are not all there is run
 *    again, which takes its forward time. What is there fits the budget beside the graph inputs and
 *    the seed gradient; so the least time run again is at least the sum of all times less the value
 *    of the knapsack problem with weights w, values forward time and that capacity, and this is at
 *    least the sum less its fractional relaxation (Dantzig 1957). */
#include "start/lowerset/bound.h"

#include "remat/table.h"

#include <math.h>
#include <stdlib.h>

typedef struct item {
    double bytes, time; /* of a node; then of it and all before it */
} item;

typedef struct graph_bound {
    double store_all, total; /* total: forward time of the items */
    uint64_t least, resident;
    size_t count;
    item items[]; /* most time per byte first */
} graph_bound;

/* Bytes alive during B v whatever the rest of the schedule does. */
static uint64_t backward_bytes(const remat_profile *profile, uint32_t v)
{
    const remat_node *node = &profile->nodes[v];
    uint64_t bytes = profile->input_bytes + node->saved_bytes + node->backward_workspace_bytes;
    if (node->backward_uses_output)
        bytes += node->output_bytes;
    uint64_t gradients = node->gradient_bytes;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        uint32_t input = node->inputs[i];
        bool graph_input = input >= profile->n_nodes;
        uint64_t gradient = remat_gradient_bytes(profile, input);
        bool in_place = i == 0 && node->in_place; /* may lie where grad(v) lies */
        if (in_place && gradient > node->gradient_bytes)
            gradients = gradient;
        else if (!in_place)
            gradients += gradient;
        if (node->backward_uses_inputs && !graph_input)
            bytes += profile->nodes[input].output_bytes;
    }
    return bytes + gradients;
}

static uint64_t needed_bytes(const remat_profile *profile, uint32_t v)
{
    const remat_node *node = &profile->nodes[v];
    return node->saved_bytes + (remat_output_is_needed(profile, v) ? node->output_bytes : 0);
}

static int by_density(const void *left, const void *right)
{
    const item *a = left, *b = right;
    double one = a->time * b->bytes, other = b->time * a->bytes;
    if (one != other)
        return one > other ? -1 : 1;
    return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static remat_status bound_new(const remat_profile *profile, graph_bound **ret_bound,
                              remat_error *error)
{
    graph_bound *bound = malloc(sizeof *bound + profile->n_nodes * sizeof *bound->items);
    if (!bound)
        return remat_fail_memory(error);
    *bound = (graph_bound){.store_all = remat_store_all_makespan(profile),
                           .resident = profile->input_bytes +
                                       profile->nodes[profile->n_nodes - 1].gradient_bytes};
    for (uint32_t v = 0; v < profile->n_nodes; v++) {
        uint64_t bytes = needed_bytes(profile, v), backward = backward_bytes(profile, v);
        if (backward > bound->least)
            bound->least = backward;
        if (bytes == 0 || profile->nodes[v].forward_time == 0)
            continue; /* costs nothing to hold, or nothing to run again */
        bound->total += profile->nodes[v].forward_time;
        bound->items[bound->count++] =
            (item){.bytes = (double)bytes, .time = profile->nodes[v].forward_time};
    }
    if (bound->count > 0)
        qsort(bound->items, bound->count, sizeof *bound->items, by_density);
    for (size_t i = 1; i < bound->count; i++) {
        bound->items[i].bytes += bound->items[i - 1].bytes;
        bound->items[i].time += bound->items[i - 1].time;
    }
    *ret_bound = bound;
    return REMAT_OK;
}

/* Most forward time whose values fit the capacity, fractions allowed. */
static double held_time(const graph_bound *bound, double capacity)
{
    size_t low = 0, high = bound->count;
    while (low < high) { /* items that fit whole */
        size_t middle = low + (high - low) / 2;
        if (bound->items[middle].bytes <= capacity)
            low = middle + 1;
        else
            high = middle;
    }
    item whole = low > 0 ? bound->items[low - 1] : (item){0};
    if (low == bound->count)
        return whole.time;
    item next = bound->items[low];
    return whole.time +
           (next.time - whole.time) * (capacity - whole.bytes) / (next.bytes - whole.bytes);
}

/* INFINITY when some backward alone does not fit. Decreasing in the budget, never below the
 * makespan of storing everything. */
static double makespan_at(const graph_bound *bound, uint64_t budget)
{
    if (budget < bound->least || budget < bound->resident)
        return INFINITY;
    double again = bound->total - held_time(bound, (double)(budget - bound->resident));
    again -= 1e-12 * bound->total; /* sums in another order */
    return bound->store_all + (again > 0 ? again : 0);
}

/* Least capacity, about, that holds so much forward time; *at: the item looked at first. */
static double capacity_of(const graph_bound *bound, double time, size_t *at)
{
    while (*at + 1 < bound->count && bound->items[*at].time < time)
        ++*at;
    item next = bound->items[*at], whole = *at > 0 ? bound->items[*at - 1] : (item){0};
    double share = (time - whole.time) / (next.time - whole.time);
    return whole.bytes + (next.bytes - whole.bytes) * (share < 1 ? share : 1);
}

/* Steps of equal height: the bound itself at the budgets in which so much is still to be run again.
 */
remat_status graph_bound_offer(const remat_profile *profile, const remat_sink *sink,
                               remat_error *error)
{
    enum { STEPS = 1000 };
    graph_bound *bound = NULL;
    remat_status status = bound_new(profile, &bound, error);
    if (status)
        return status;
    uint64_t first = bound->least > bound->resident ? bound->least : bound->resident;
    double held = held_time(bound, (double)(first - bound->resident));
    size_t at = 0;
    if (first > 0)
        status = remat_offer_bound(sink, first - 1, INFINITY, error);
    for (int k = 1; k < STEPS && held < bound->total && !status; k++) {
        double time = held + (bound->total - held) * k / STEPS;
        uint64_t budget = bound->resident + (uint64_t)capacity_of(bound, time, &at);
        status = remat_offer_bound(sink, budget, makespan_at(bound, budget), error);
    }
    if (!status)
        status = remat_offer_bound(sink, UINT64_MAX, bound->store_all, error);
    free(bound);
    return status;
}
