/* Which moment that is not in a row what its relaxation found breaks: where more is held than fits,
 * whatever the runs of the stage that the moment falls into come before it and after. */
#include "bound/several.h"

#include <math.h>
#include <string.h>

/* Runs of the stage that come before the moment of B b in it: what the backwards before it and its
 * own read, and what those runs read. */
static void find_before(const bound_several *s, uint32_t b, uint32_t stage, bool *before)
{
    const bound_moments *m = s->m;
    const remat_node *nodes = m->profile->nodes;
    memset(before, 0, m->n);
    for (uint32_t v = m->n; v-- > 0;) {
        const bool backward = v == b || ((m->role[v] & BOUND_DESCENDANT) && s->begin[v] == stage);
        const bool saves = backward && m->saved[v] > 0, held = s->held[v] >> stage & 1;
        before[v] |= saves || (backward && nodes[v].backward_uses_output);
        before[v] &= (s->runs[v] >> stage & 1) && (saves || !held);
        const bool reads = before[v] || (backward && nodes[v].backward_uses_inputs);
        for (uint32_t i = 0; i < nodes[v].n_inputs && reads; i++)
            if (nodes[v].inputs[i] < m->n)
                before[nodes[v].inputs[i]] = true;
    }
}

/* Bytes that are held there at least past the capacity of the moment of B b, which is the one
 * looked at. A node of which nothing runs after it in the stage, or behind, is held if it is read.
 */
static double past_capacity(bound_several *s, uint32_t b, uint32_t stage, bool *before)
{
    const bound_moments *m = s->m;
    double held = -m->capacity;
    find_before(s, b, stage, before);
    for (uint32_t v = 0; v < m->n; v++) {
        const bool later = s->runs[v] >> (stage + 1), next = s->held[v] >> (stage + 1) & 1;
        const bool may_run = (s->runs[v] >> stage & 1) && !before[v];
        if ((m->role[v] & BOUND_READ) ||
            (!may_run && (next || (!later && (m->role[v] & BOUND_NEEDED)))))
            held += m->out[v];
        if ((m->role[v] & BOUND_ANCESTOR) && !later && !may_run)
            held += m->saved[v];
    }
    return held;
}

uint32_t bound_most_broken(bound_several *s, bool *before, uint32_t *ret_place)
{
    double most = 0;
    uint32_t broken = UINT32_MAX;
    for (uint32_t b = 0; b < s->m->n; b++) {
        const uint32_t place = bound_place_of(s, b);
        const double bytes = place == UINT32_MAX ? -INFINITY : past_capacity(s, b, place, before);
        if (bytes <= most)
            continue;
        most = bytes;
        broken = b;
        *ret_place = place;
    }
    return broken;
}
