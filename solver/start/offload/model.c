#include "start/offload/model.h"

#include <math.h>

/* Times and sizes in units stay below 2^UNIT_BITS, where doubles are integers exactly. */
enum { UNIT_BITS = 50 };

bool offload_possible(const remat_link *link)
{
    return link && link->to_host > 0 && link->to_device > 0;
}

static void split_inputs(offload_model *m)
{
    for (uint32_t k = 0; k < m->profile->n_inputs; k++) {
        const remat_input *input = &m->profile->inputs[k];
        bool first_only = input->n_consumers == 1 && input->consumers[0] == 0;
        *(first_only ? &m->movable : &m->resident) += input->bytes;
        m->n_movable += first_only && input->bytes > 0;
    }
}

static uint32_t n_transfers(const offload_model *m, uint32_t i, int x)
{
    if (i == 1)
        return m->n_movable;
    const remat_node *node = &m->profile->nodes[i - 2];
    return (uint32_t)(node->output_bytes > 0) + (uint32_t)(x == 1 && node->saved_bytes > 0);
}

uint64_t offload_input_bytes(const offload_model *m, uint32_t i, int x)
{
    return i == 1 ? m->movable : x ? m->chain->kept[i - 1] : m->chain->output[i - 1];
}

double offload_send_time(const offload_model *m, uint32_t i, int x)
{
    return (double)offload_input_bytes(m, i, x) * m->out_per_byte +
           n_transfers(m, i, x) * m->latency;
}

double offload_fetch_time(const offload_model *m, uint32_t i, int x)
{
    return (double)offload_input_bytes(m, i, x) * m->in_per_byte +
           n_transfers(m, i, x) * m->latency;
}

static uint64_t largest_input(const offload_model *m)
{
    uint64_t largest = m->movable;
    for (uint32_t i = 2; i <= m->n; i++)
        largest = model_larger(largest, m->chain->kept[i - 1]);
    return largest;
}

/* Time a byte takes. With a latency it is never 0, for the programs know time on the link by its
 * bytes: then the largest tensor takes at least as long as the latency. */
static double time_per_byte(const offload_model *m, double bandwidth, double latency)
{
    double time = 1 / bandwidth;
    return latency > 0 ? fmax(time, latency / fmax(1, (double)largest_input(m))) : time;
}

/* The power of two by which the unit is made as fine as doubles allow. */
static double refine(double longest, double largest)
{
    int of_time = 0, of_size = 0;
    (void)frexp(longest, &of_time);
    (void)frexp(largest, &of_size);
    int room = UNIT_BITS - (of_time > of_size ? of_time : of_size);
    return ldexp(1, room > 500 ? 500 : room);
}

static void choose_unit(offload_model *m, const remat_link *link, double grain, double bytes,
                        bool latency)
{
    double delay = latency ? link->latency : 0;
    double out = time_per_byte(m, link->to_host, delay);
    double in = time_per_byte(m, link->to_device, delay);
    double base = in > 0 ? in : out;
    double time = (double)m->chain->total_sum[m->n] * m->n / m->chain->ticks_per_time;
    double units = base > 0 ? grain / base : m->chain->ticks_per_time;
    double factor = refine(time * units, base > 0 ? bytes * grain * fmax(1, out / base) : 1);
    m->units_per_time = units * factor;
    m->in_per_byte = in > 0 ? grain * factor : 0;
    m->out_per_byte = out == base ? grain * factor * (base > 0) : out * m->units_per_time;
    m->latency = delay * m->units_per_time;
}

/* One multiplication before the division: where both are exact, so is the quotient. */
static double units_of(const offload_model *m, int64_t ticks)
{
    return floor((double)ticks * m->units_per_time / m->chain->ticks_per_time);
}

remat_status offload_model_init(offload_model *ret_model, const remat_profile *profile,
                                const chain_costs *chain, const remat_link *link, uint32_t grain,
                                uint64_t bytes, bool latency, remat_error *error)
{
    offload_model m = {.chain = chain, .n = chain->n, .profile = profile};
    size_t length = (size_t)chain->n + 2;
    m.forward = model_arena_array(&m.arena, length, sizeof *m.forward);
    m.backward = model_arena_array(&m.arena, length, sizeof *m.backward);
    m.leaves = model_arena_array(&m.arena, length, sizeof *m.leaves);
    m.rest = model_arena_array(&m.arena, length, sizeof *m.rest);
    if (!m.forward || !m.backward || !m.leaves || !m.rest) {
        model_arena_clear(&m.arena);
        return remat_fail_memory(error);
    }
    split_inputs(&m);
    choose_unit(&m, link, grain, (double)bytes, latency);
    for (uint32_t i = m.n; i > 0; i--) {
        m.forward[i] = units_of(&m, chain->forward[i]);
        m.backward[i] = units_of(&m, chain->backward[i]);
        m.rest[i] = m.rest[i + 1] + m.forward[i] + m.backward[i];
    }
    for (uint32_t i = 1; i <= m.n; i++)
        m.leaves[i] = m.leaves[i - 1] + m.backward[i] + (chain->direct[i] ? 0 : m.forward[i]);
    *ret_model = m;
    return REMAT_OK;
}

void offload_model_clear(offload_model *model)
{
    model_arena_clear(&model->arena);
    *model = (offload_model){0};
}
