/* The least makespan of any operation list of a small forward profile, without O and P: Dijkstra's
 * algorithm over what is alive. It shares no code with the solvers and follows remat/simulate.h
 * alone. */
#ifndef TESTS_PROPERTY_EXHAUSTIVE_H
#define TESTS_PROPERTY_EXHAUSTIVE_H

#include "property/core_random.h"
#include "property/state_queue.h"

#include <math.h>

/* A state: outputs alive, for each node which implementation's saved values are alive (0: none; its
 * own, 1), backwards done and above them the forwards of pinned nodes, and where the turn is: the
 * loss has not run, it has just run and D may follow at once, or it has turned. */
enum { BEFORE, TURNED, TURNING };

typedef struct machine {
    const remat_profile *p;
    uint32_t n, width;     /* bits of a node's saved values */
    uint64_t budget, held; /* what the turn may hold at most */
    state_queue queue;
} machine;

static inline uint64_t gradient_of(const machine *m, uint32_t value)
{
    return value < m->n ? m->p->nodes[value].gradient_bytes
                        : m->p->inputs[value - m->n].gradient_bytes;
}

static inline bool begun(const machine *m, const uint32_t *consumers, uint32_t count, uint32_t done)
{
    (void)m;
    for (uint32_t c = 0; c < count; c++)
        if (done >> consumers[c] & 1)
            return true;
    return false;
}

/* Whose saved values of a node are alive, by number; another one there. */
static inline uint32_t saved_by(const machine *m, uint32_t saved, uint32_t v)
{
    return saved >> v * m->width & ((1u << m->width) - 1);
}

static inline uint32_t save(const machine *m, uint32_t saved, uint32_t v, uint32_t by)
{
    return (saved & ~(((1u << m->width) - 1) << v * m->width)) | by << v * m->width;
}

static inline uint64_t alive_bytes(const machine *m, uint32_t out, uint32_t saved, uint32_t done)
{
    uint64_t bytes = m->p->input_bytes;
    for (uint32_t v = 0; v < m->n; v++) {
        const remat_node *node = &m->p->nodes[v];
        bytes += out >> v & 1 ? node->output_bytes : 0;
        const uint32_t by = saved_by(m, saved, v);
        bytes += by > 0 ? remat_implementation(node, by - 1).saved_bytes : 0;
        if (!(done >> v & 1) && begun(m, node->consumers, node->n_consumers, done))
            bytes += node->gradient_bytes;
    }
    for (uint32_t k = 0; k < m->p->n_inputs; k++)
        if (begun(m, m->p->inputs[k].consumers, m->p->inputs[k].n_consumers, done))
            bytes += m->p->inputs[k].gradient_bytes;
    return bytes;
}

static inline bool inputs_there(const machine *m, uint32_t v, uint32_t out)
{
    for (uint32_t i = 0; i < m->p->nodes[v].n_inputs; i++)
        if (m->p->nodes[v].inputs[i] < m->n && !(out >> m->p->nodes[v].inputs[i] & 1))
            return false;
    return true;
}

static inline void reach(machine *m, uint32_t out, uint32_t saved, uint32_t done, uint32_t ran,
                         double time)
{
    const uint32_t saves = m->width * m->n, dones = m->p->n_pinned > 0 ? 2 * m->n : m->n;
    uint32_t state = ((ran << dones | done) << saves | saved) << m->n | out;
    state_queue_reach(&m->queue, state, time);
}

/* The run of any forward: the first one of the loss begins the turn. */
static inline void reach_by(machine *m, uint32_t v, uint32_t out, uint32_t saved, uint32_t done,
                            uint32_t ran, double time)
{
    bool turns = v + 1 == m->n && ran == BEFORE;
    reach(m, out, saved, done, !turns ? ran : m->held < UINT64_MAX ? TURNING : TURNED, time);
}

static inline void run_forward(machine *m, uint32_t v, uint32_t out, uint32_t saved, uint32_t done,
                               uint32_t ran, double time)
{
    const remat_node *node = &m->p->nodes[v];
    uint32_t bit = 1u << v;
    if (ran == TURNING || (out & bit) || !inputs_there(m, v, out) ||
        (node->once && (done >> m->n & bit)))
        return;
    uint32_t over = node->in_place && node->n_inputs > 0 && node->inputs[0] < m->n ? node->inputs[0]
                                                                                   : UINT32_MAX;
    const uint32_t after = done | (node->once ? bit << m->n : 0);
    for (uint32_t way = 0; way < 2 * (node->n_alternatives + 1); way++) {
        const bool saves = way % 2 == 1;
        const remat_alternative cost = remat_implementation(node, way / 2);
        if (saves && (saved_by(m, saved, v) > 0 || (done & bit)))
            continue;
        const uint32_t kept = saves ? save(m, saved, v, way / 2 + 1) : saved;
        uint64_t during = alive_bytes(m, out | bit, kept, done) +
                          (saves ? cost.save_workspace_bytes : cost.forward_workspace_bytes);
        if (during <= m->budget)
            reach_by(m, v, out | bit, kept, after, ran, time + cost.forward_time);
        if (over == UINT32_MAX)
            continue;
        uint64_t in = m->p->nodes[over].output_bytes;
        during -= in < node->output_bytes ? in : node->output_bytes;
        if (during <= m->budget)
            reach_by(m, v, (out | bit) & ~(1u << over), kept, after, ran, time + cost.forward_time);
    }
}

static inline void run_backward(machine *m, uint32_t v, uint32_t out, uint32_t saved, uint32_t done,
                                uint32_t ran, double time)
{
    const remat_node *node = &m->p->nodes[v];
    uint32_t bit = 1u << v;
    if ((done & bit) || ran != TURNED || (node->backward_uses_output && !(out & bit)) ||
        (node->backward_uses_inputs && !inputs_there(m, v, out)))
        return;
    for (uint32_t c = 0; c < node->n_consumers; c++)
        if (!(done >> node->consumers[c] & 1))
            return;
    uint64_t during =
        alive_bytes(m, out, saved, done) + (node->n_consumers == 0 ? node->gradient_bytes : 0);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        uint32_t value = node->inputs[i];
        bool there = value < m->n ? begun(m, m->p->nodes[value].consumers,
                                          m->p->nodes[value].n_consumers, done)
                                  : begun(m, m->p->inputs[value - m->n].consumers,
                                          m->p->inputs[value - m->n].n_consumers, done);
        uint64_t bytes = there ? 0 : gradient_of(m, value);
        during += bytes;
        if (i == 0 && node->in_place)
            during -= bytes < node->gradient_bytes ? bytes : node->gradient_bytes;
    }
    for (uint32_t k = 0; k <= node->n_alternatives; k++) {
        const remat_alternative cost = remat_implementation(node, k);
        if ((cost.saved_bytes == 0 || saved_by(m, saved, v) == k + 1) &&
            during + cost.backward_workspace_bytes <= m->budget)
            reach(m, out, save(m, saved, v, 0), done | bit, ran, time + cost.backward_time);
    }
}

/* Bits that say which implementation saved. */
static inline uint32_t saved_width(const remat_profile *p)
{
    uint32_t most = 1, width = 1;
    for (uint32_t v = 0; v < p->n_nodes; v++)
        most = p->nodes[v].n_alternatives + 1 > most ? p->nodes[v].n_alternatives + 1 : most;
    while (most >> width > 0)
        width++;
    return width;
}

/* Within a budget, what is held at the turn within another one; only what takes less than enough
 * counts. */
static inline double least_within(const remat_profile *p, uint64_t budget, uint64_t held,
                                  double enough)
{
    uint32_t n = p->n_nodes, every = (1u << n) - 1;
    machine m = {.p = p, .n = n, .width = saved_width(p), .budget = budget, .held = held};
    const uint32_t saves = m.width * n, dones = p->n_pinned > 0 ? 2 * n : n,
                   states = 1u << (n + saves + dones + 1 + (held < UINT64_MAX));
    m.queue = state_queue_new(states);
    double least = INFINITY;
    if (p->input_bytes <= budget)
        reach(&m, 0, 0, 0, 0, 0);
    while (m.queue.size > 0 && least == INFINITY) {
        uint32_t state = state_queue_take(&m.queue), out = state & every,
                 saved = state >> n & ((1u << saves) - 1);
        uint32_t done = state >> (n + saves) & ((1u << dones) - 1),
                 ran = state >> (n + saves + dones);
        double time = m.queue.least[state];
        if (time >= enough)
            break;
        if ((done & every) == every)
            least = time;
        if (ran == TURNING && alive_bytes(&m, out, saved, done) <= held)
            reach(&m, out, saved, done, TURNED, time);
        for (uint32_t v = 0; v < n; v++) {
            run_forward(&m, v, out, saved, done, ran, time);
            run_backward(&m, v, out, saved, done, ran, time);
            if (out >> v & 1)
                reach(&m, out & ~(1u << v), saved, done, ran, time);
            if (saved_by(&m, saved, v) > 0)
                reach(&m, out, save(&m, saved, v, 0), done, ran, time);
        }
    }
    state_queue_free(&m.queue);
    return least;
}

static inline double least_makespan(const remat_profile *p, uint64_t budget)
{
    return least_within(p, budget, UINT64_MAX, INFINITY);
}

/* With several micro-batches in flight, of a profile without alternatives: for everything that the
 * turn can hold, exactly so much taken away from the budget by each of the others. */
static inline double least_in_flight(const remat_profile *p, uint64_t budget, uint32_t in_flight)
{
    const machine m = {.p = p, .n = p->n_nodes, .width = 1};
    double least = INFINITY;
    if (in_flight == 1)
        return least_makespan(p, budget);
    uint32_t every = (1u << p->n_nodes) - 1;
    uint64_t tried[1u << 2 * MOST_NODES];
    size_t n_tried = 0;
    for (uint32_t kept = 0; kept < 1u << 2 * p->n_nodes; kept++) {
        uint64_t held = alive_bytes(&m, kept & every, kept >> p->n_nodes, 0);
        bool known = held * in_flight > budget;
        for (size_t i = 0; i < n_tried && !known; i++)
            known = tried[i] == held;
        if (known)
            continue;
        tried[n_tried++] = held;
        least = fmin(least, least_within(p, budget - (in_flight - 1) * held, held, least));
    }
    return least;
}

#endif
