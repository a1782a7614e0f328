/* What a link cannot save.
 *
 * At the beginning of B b let H bytes be on the host that are fetched later. They went out before
 * it and come back after it, so that as much time passes on either side; for the rest the moment
 * has H bytes more of room, and R(M + H) is the time that it proves to be run again then. Before it
 * run all forwards and the backwards of the descendants of b, after it B b, those of its strict
 * ancestors and what runs again, in any order:
 *
 *     T >= min over H of max(total + R(M + H), max(before, H / out) + max(after + R(M + H), H /
 * in))
 *
 * R does not grow with room, so that between two points of a grid R is taken at the upper one and H
 * at the lower one. Past the last point nothing need run again. Graph inputs may leave too: their
 * bytes are room. */
#include "bound/private.h"

#include <math.h>

enum { POINTS = 24 };

typedef struct halves {
    double before, after;
} halves;

/* By the roles that bound_look_at has found. */
static halves split(const bound_moments *m, uint32_t b)
{
    const remat_profile *p = m->profile;
    halves h = {0};
    for (uint32_t v = 0; v < m->n; v++) {
        const remat_node *node = &p->nodes[v];
        double backward = node->backward_time;
        h.before += m->time[v];
        for (uint32_t k = 1; k <= node->n_alternatives; k++)
            backward = fmin(backward, remat_implementation(node, k).backward_time);
        if (v == b || (m->role[v] & BOUND_ANCESTOR))
            h.after += backward;
        else if (m->role[v] & BOUND_DESCENDANT)
            h.before += backward;
    }
    return h;
}

/* With H bytes on the host at least, and again time run again at least. */
static double least_time(const bound_moments *m, const remat_link *link, halves h, double parked,
                         double again)
{
    const double out = parked > 0 ? parked / link->to_host : 0;
    const double in = parked > 0 ? parked / link->to_device : 0;
    return fmax(m->store_all + again, fmax(h.before, out) + fmax(h.after + again, in));
}

static double look_at(bound_moments *m, const remat_link *link, uint32_t b, uint64_t budget)
{
    double ignored;
    budget += m->profile->input_bytes;
    bound_look_at(m, b, false, budget);
    const halves h = split(m, b);
    const double passing = bound_passing(m);
    double least = least_time(m, link, h, passing, 0);
    for (uint32_t i = 0; i < POINTS; i++) {
        const double low = passing * i / POINTS, high = passing * (i + 1) / POINTS;
        bound_look_at(m, b, false, budget + (uint64_t)ceil(high));
        least = fmin(least, least_time(m, link, h, low, bound_best_price(m, &ignored)));
    }
    return least;
}

double bound_moments_over_link(bound_moments *m, const remat_link *link, uint64_t budget)
{
    if (m->profile->joint || !(link->to_host > 0) || !(link->to_device > 0))
        return 0;
    double bound = look_at(m, link, m->n - 1, budget);
    if (m->first != m->n - 1)
        bound = fmax(bound, look_at(m, link, m->first, budget));
    return bound * (1 - BOUND_MARGIN);
}

/* Whether a node's input i is the first place of its value. */
static bool is_first_place(const remat_node *node, uint32_t i)
{
    uint32_t k = 0;
    while (node->inputs[k] != node->inputs[i])
        k++;
    return k == i;
}

/* Bytes that are on the device during A b, or during B b, wherever all else is: what it reads,
 * makes and works in, and gradients, which never leave. Graph inputs are left out. */
static double needed(const bound_moments *m, uint32_t b, bool backward)
{
    const remat_profile *p = m->profile;
    const remat_node *node = &p->nodes[b];
    const bool reads = !backward || node->backward_uses_inputs;
    double bytes =
        m->saved[b] + (backward ? m->workspace[b] + (double)node->gradient_bytes : m->running[b]);
    if (!backward || node->backward_uses_output)
        bytes += m->out[b];
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const uint32_t value = node->inputs[i];
        if (!is_first_place(node, i))
            continue;
        bytes += reads && value < m->n ? m->out[value] : 0;
        bytes += backward ? (double)remat_gradient_bytes(p, value) : 0;
    }
    if (!node->in_place || node->n_inputs == 0)
        return bytes;
    const uint32_t input = node->inputs[0];
    return bytes - (backward
                        ? fmin((double)node->gradient_bytes, (double)remat_gradient_bytes(p, input))
                        : fmin(m->out[b], (double)remat_value_bytes(p, input)));
}

/* The same of a node of a joint graph. */
static double needed_jointly(const remat_profile *p, uint32_t b)
{
    const remat_node *node = &p->nodes[b];
    double bytes = (double)node->forward_workspace_bytes;
    for (uint16_t k = 1; k <= node->n_alternatives; k++)
        bytes = fmin(bytes, (double)remat_implementation(node, k).forward_workspace_bytes);
    for (uint32_t k = 0; k < node->n_outputs; k++)
        bytes += (double)remat_value_bytes(p, remat_result_value(p, b, k));
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (is_first_place(node, i) && remat_is_result(p, node->inputs[i]))
            bytes += (double)remat_value_bytes(p, node->inputs[i]);
    if (!node->in_place || node->n_inputs == 0)
        return bytes;
    return bytes - fmin((double)node->output_bytes, (double)remat_value_bytes(p, node->inputs[0]));
}

double bound_moments_least_room(const bound_moments *m)
{
    double most = 0;
    for (uint32_t b = 0; b < m->n; b++)
        most = fmax(most, m->profile->joint ? needed_jointly(m->profile, b)
                                            : fmax(needed(m, b, false), needed(m, b, true)));
    return most;
}
