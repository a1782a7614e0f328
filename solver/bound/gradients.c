/* Gradients that are alive during B b in every order of backwards, in bytes.
 *
 * Let n_w say that B w is to come: 1 for the ancestors of b, 0 for b and its descendants, either
 * for the others, and n_c <= n_u for u -> c. Let a_u say that u and all its consumers are to come,
 * so that nothing has begun grad(u): a_u <= n_u, a_u <= n_c. The gradient of u is alive where n_u =
 * 1 and a_u = 0, that of a graph input where a = 0. The least sum of those bytes is a closure
 * problem, as in moments.h: a minimum cut. */
#include "bound/private.h"

#include <math.h>

/* Nodes of the flow: n_w is w, a of node u is n + u, a of graph input k is 2 n + k. */
static void join_arcs(bound_moments *m)
{
    bound_flow *f = &m->orders;
    const remat_profile *p = m->profile;
    for (uint32_t u = 0; u < m->n; u++) {
        bound_flow_join(f, m->n + u, u);
        for (uint32_t c = 0; c < p->nodes[u].n_consumers; c++) {
            bound_flow_join(f, p->nodes[u].consumers[c], u);
            bound_flow_join(f, m->n + u, p->nodes[u].consumers[c]);
        }
    }
    for (uint32_t k = 0; k < p->n_inputs; k++)
        for (uint32_t c = 0; c < p->inputs[k].n_consumers; c++)
            bound_flow_join(f, 2 * m->n + k, p->inputs[k].consumers[c]);
    for (uint32_t y = 0; y < f->source; y++) {
        m->order_source[y] = bound_flow_join(f, f->source, y);
        m->order_sink[y] = bound_flow_join(f, y, f->sink);
    }
}

static bool build(bound_moments *m)
{
    const uint32_t choices = 2 * m->n + m->profile->n_inputs;
    m->order_source = model_arena_array(&m->arena, choices, sizeof *m->order_source);
    m->order_sink = model_arena_array(&m->arena, choices, sizeof *m->order_sink);
    if (!m->order_source || !m->order_sink || !bound_flow_new(&m->orders, choices + 2, &m->arena))
        return false;
    join_arcs(m);
    if (!bound_flow_open(&m->orders, &m->arena))
        return false;
    join_arcs(m);
    return true;
}

/* Where cost is what y = 1 costs, what it adds to the least sum if nothing ties it to others. */
static double weigh(bound_moments *m, uint32_t y, double cost)
{
    m->orders.arcs[m->order_source[y]].left = fmax(-cost, 0);
    m->orders.arcs[m->order_sink[y]].left = fmax(cost, 0);
    return fmin(cost, 0);
}

static double weigh_node(bound_moments *m, uint32_t u, uint32_t b)
{
    const double gradient = (double)m->profile->nodes[u].gradient_bytes;
    const bool after = m->role[u] & BOUND_ANCESTOR, before = m->role[u] & BOUND_DESCENDANT;
    double sum = weigh(m, u, after ? 0 : gradient) + weigh(m, m->n + u, -gradient);
    if (after)
        m->orders.arcs[m->order_source[u]].left = INFINITY;
    else if (u == b || before)
        m->orders.arcs[m->order_sink[u]].left = INFINITY;
    return after ? sum + gradient : sum;
}

double bound_gradients(bound_moments *m, uint32_t b)
{
    const remat_profile *p = m->profile;
    bound_flow *f = &m->orders;
    if (m->gradients[b] >= 0)
        return m->gradients[b];
    if (!f->arcs && !build(m))
        return 0; /* nothing is counted: the bound is weaker, and holds */
    for (uint32_t v = 0; v < f->source; v++) /* all implications lead to smaller numbers */
        for (uint32_t a = f->first[v]; a < f->first[v + 1]; a++)
            f->arcs[a].left = f->arcs[a].to < v ? INFINITY : 0;
    double sum = 0;
    for (uint32_t u = 0; u < m->n; u++)
        sum += weigh_node(m, u, b);
    for (uint32_t k = 0; k < p->n_inputs; k++) {
        const double gradient = (double)p->inputs[k].gradient_bytes;
        sum += gradient + weigh(m, 2 * m->n + k, -gradient);
    }
    sum += bound_flow_run(f, 0.5); /* bytes are whole */
    m->gradients[b] = fmax(sum, 0);
    return m->gradients[b];
}
