/* The least makespan of any operation list of a small forward profile, without O and P: Dijkstra's
 * algorithm over what is alive. It shares no code with the solvers and follows remat/simulate.h
 * alone. */
#ifndef TESTS_PROPERTY_EXHAUSTIVE_H
#define TESTS_PROPERTY_EXHAUSTIVE_H

#include "property/core_random.h"
#include "property/state_queue.h"

#include <math.h>

/* A state: outputs alive, saved values alive, backwards done, and where the turn is: the loss has
 * not run, it has just run and D may follow at once, or it has turned. */
enum { BEFORE, TURNED, TURNING };

typedef struct machine {
    const remat_profile *p;
    uint32_t n;
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

static inline uint64_t alive_bytes(const machine *m, uint32_t out, uint32_t saved, uint32_t done)
{
    uint64_t bytes = m->p->input_bytes;
    for (uint32_t v = 0; v < m->n; v++) {
        const remat_node *node = &m->p->nodes[v];
        bytes += out >> v & 1 ? node->output_bytes : 0;
        bytes += saved >> v & 1 ? node->saved_bytes : 0;
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
    uint32_t state = ((ran << m->n | done) << m->n | saved) << m->n | out;
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
    if (ran == TURNING || (out & bit) || !inputs_there(m, v, out))
        return;
    uint32_t over = node->in_place && node->n_inputs > 0 && node->inputs[0] < m->n ? node->inputs[0]
                                                                                   : UINT32_MAX;
    for (int saves = 0; saves <= 1; saves++) {
        if (saves && ((saved & bit) || (done & bit)))
            continue;
        uint64_t during = alive_bytes(m, out | bit, saves ? saved | bit : saved, done) +
                          (saves ? node->save_workspace_bytes : node->forward_workspace_bytes);
        if (during <= m->budget)
            reach_by(m, v, out | bit, saves ? saved | bit : saved, done, ran,
                     time + node->forward_time);
        if (over == UINT32_MAX)
            continue;
        uint64_t in = m->p->nodes[over].output_bytes;
        during -= in < node->output_bytes ? in : node->output_bytes;
        if (during <= m->budget)
            reach_by(m, v, (out | bit) & ~(1u << over), saves ? saved | bit : saved, done, ran,
                     time + node->forward_time);
    }
}

static inline void run_backward(machine *m, uint32_t v, uint32_t out, uint32_t saved, uint32_t done,
                                uint32_t ran, double time)
{
    const remat_node *node = &m->p->nodes[v];
    uint32_t bit = 1u << v;
    if ((done & bit) || ran != TURNED || (node->saved_bytes > 0 && !(saved & bit)) ||
        (node->backward_uses_output && !(out & bit)) ||
        (node->backward_uses_inputs && !inputs_there(m, v, out)))
        return;
    for (uint32_t c = 0; c < node->n_consumers; c++)
        if (!(done >> node->consumers[c] & 1))
            return;
    uint64_t during = alive_bytes(m, out, saved, done) + node->backward_workspace_bytes +
                      (node->n_consumers == 0 ? node->gradient_bytes : 0);
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
    if (during <= m->budget)
        reach(m, out, saved & ~bit, done | bit, ran, time + node->backward_time);
}

/* Within a budget, what is held at the turn within another one; only what takes less than enough
 * counts. */
static inline double least_within(const remat_profile *p, uint64_t budget, uint64_t held,
                                  double enough)
{
    uint32_t n = p->n_nodes, states = 1u << (3 * n + 1 + (held < UINT64_MAX)),
             every = (1u << n) - 1;
    machine m = {.p = p, .n = n, .budget = budget, .held = held};
    m.queue = state_queue_new(states);
    double least = INFINITY;
    if (p->input_bytes <= budget)
        reach(&m, 0, 0, 0, 0, 0);
    while (m.queue.size > 0 && least == INFINITY) {
        uint32_t state = state_queue_take(&m.queue), out = state & every,
                 saved = state >> n & every;
        uint32_t done = state >> 2 * n & every, ran = state >> 3 * n;
        double time = m.queue.least[state];
        if (time >= enough)
            break;
        if (done == every)
            least = time;
        if (ran == TURNING && alive_bytes(&m, out, saved, done) <= held)
            reach(&m, out, saved, done, TURNED, time);
        for (uint32_t v = 0; v < n; v++) {
            run_forward(&m, v, out, saved, done, ran, time);
            run_backward(&m, v, out, saved, done, ran, time);
            if (out >> v & 1)
                reach(&m, out & ~(1u << v), saved, done, ran, time);
            if (saved >> v & 1)
                reach(&m, out, saved & ~(1u << v), done, ran, time);
        }
    }
    state_queue_free(&m.queue);
    return least;
}

static inline double least_makespan(const remat_profile *p, uint64_t budget)
{
    return least_within(p, budget, UINT64_MAX, INFINITY);
}

/* With several micro-batches in flight: for everything that the turn can hold, exactly so much
 * taken away from the budget by each of the others. */
static inline double least_in_flight(const remat_profile *p, uint64_t budget, uint32_t in_flight)
{
    const machine m = {.p = p, .n = p->n_nodes};
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
