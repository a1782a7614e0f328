#include "search/memory_range.h"

#include <math.h>
#include <stdlib.h>

#define LANES 8

/* ---- kernels ---- */

/* Of a slot, whose larger value is above the budget by what it is above `below` now: that, at most
 * all of the delta. One instruction for each of the two bounds, where zero would take two. */
static inline double change_of(double slot, double below, double most)
{
    const double excess = (slot > below ? slot : below) - below;
    return excess < most ? excess : most;
}

/* Eight sums at once, which the compiler puts into vectors; WRITE is what becomes of memory[at], in
 * lane k. */
#define SUM_OF_RANGE(WRITE)                                                                        \
    const double below = delta > 0 ? budget - delta : budget, most = fabs(delta);                  \
    double sums[LANES] = {0};                                                                      \
    size_t i = 0;                                                                                  \
    for (; i + LANES <= n; i += LANES)                                                             \
        for (size_t k = 0; k < LANES; k++) {                                                       \
            sums[k] += change_of(memory[i + k], below, most);                                      \
            WRITE(memory[i + k], k);                                                               \
        }                                                                                          \
    for (; i < n; i++) {                                                                           \
        sums[0] += change_of(memory[i], below, most);                                              \
        WRITE(memory[i], 0);                                                                       \
    }                                                                                              \
    double sum =                                                                                   \
        ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7])); \
    sum = delta > 0 ? sum : -sum

#define ADDED(slot, k) (slot) += delta
#define LEFT_ALONE(slot, k) (void)(slot)
#define BOUNDED(slot, k)                                                                           \
    double run = (slot) < floor ? INFINITY : (slot);                                               \
    lows[k] = run < lows[k] ? run : lows[k];                                                       \
    highs[k] = (slot) > highs[k] ? (slot) : highs[k]

#define KERNEL(NAME, TARGET)                                                                       \
    TARGET static double add_##NAME(double *memory, size_t n, double delta, double budget)         \
    {                                                                                              \
        SUM_OF_RANGE(ADDED);                                                                       \
        return sum;                                                                                \
    }                                                                                              \
    TARGET static double probe_##NAME(const double *memory, size_t n, double delta, double budget) \
    {                                                                                              \
        SUM_OF_RANGE(LEFT_ALONE);                                                                  \
        return sum;                                                                                \
    }                                                                                              \
    TARGET static double scan_##NAME(const double *memory, size_t n, double delta, double budget,  \
                                     double floor, double *ret_low, double *ret_high)              \
    {                                                                                              \
        double lows[LANES], highs[LANES];                                                          \
        for (size_t k = 0; k < LANES; k++) {                                                       \
            lows[k] = INFINITY;                                                                    \
            highs[k] = -INFINITY;                                                                  \
        }                                                                                          \
        SUM_OF_RANGE(BOUNDED);                                                                     \
        for (size_t k = 1; k < LANES; k++) {                                                       \
            lows[0] = lows[k] < lows[0] ? lows[k] : lows[0];                                       \
            highs[0] = highs[k] > highs[0] ? highs[k] : highs[0];                                  \
        }                                                                                          \
        *ret_low = lows[0];                                                                        \
        *ret_high = highs[0];                                                                      \
        return sum;                                                                                \
    }

KERNEL(plain, )
#ifdef __x86_64__
KERNEL(avx2, __attribute__((target("avx2"))))
KERNEL(avx512, __attribute__((target("avx512f"))))
#endif

size_t interval_range_kernels(interval_range_kernel ret_kernels[3])
{
    size_t n = 0;
    ret_kernels[n++] = (interval_range_kernel){"plain", add_plain, probe_plain, scan_plain};
#ifdef __x86_64__
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2"))
        ret_kernels[n++] = (interval_range_kernel){"avx2", add_avx2, probe_avx2, scan_avx2};
    if (__builtin_cpu_supports("avx512f"))
        ret_kernels[n++] = (interval_range_kernel){"avx512", add_avx512, probe_avx512, scan_avx512};
#endif
    return n;
}

/* ---- blocks ---- */

static double *slots_of(const interval_memory *m, uint32_t block)
{
    return m->slots + (size_t)block * INTERVAL_BLOCK;
}

/* Finds the bounds of a block, and what the excess would grow by on the way. */
static double scan(interval_memory *m, uint32_t block, double delta, double budget)
{
    interval_block *b = &m->blocks[block];
    b->tight = true;
    return m->kernel.scan(slots_of(m, block), INTERVAL_BLOCK, delta, budget - b->pending,
                          INTERVAL_NO_RUN - b->pending, &b->low, &b->high);
}

/* What is pending goes into the slots. */
static void settle(interval_memory *m, uint32_t block)
{
    interval_block *b = &m->blocks[block];
    m->kernel.add(slots_of(m, block), INTERVAL_BLOCK, b->pending, INFINITY);
    b->pending = 0;
    scan(m, block, 0, 0);
}

/* Adding to a part of a block moves one of its bounds at most so far. Parts and wholes that cancel
 * each other could let bounds and pending grow without end: they are brought back long before sums
 * with the memory of a slot are no longer exact. */
static double add_part(interval_memory *m, uint32_t low, uint32_t high, double delta, double budget)
{
    uint32_t block = low / INTERVAL_BLOCK;
    interval_block *b = &m->blocks[block];
    double grown = m->kernel.add(m->slots + low, high - low, delta, budget - b->pending);
    *(delta > 0 ? &b->high : &b->low) += delta;
    b->tight = false;
    if (fabs(b->pending) > 0x1p49 || b->high - b->low > 0x1p52)
        settle(m, block);
    return grown;
}

static double probe_part(interval_memory *m, uint32_t low, uint32_t high, double delta,
                         double budget)
{
    return m->kernel.probe(m->slots + low, high - low, delta,
                           budget - m->blocks[low / INTERVAL_BLOCK].pending);
}

/* What the excess would grow by if delta went to a whole block. */
static inline double probe_block(interval_memory *m, uint32_t block, double delta, double budget)
{
    const interval_block *b = &m->blocks[block];
    double under = budget - b->pending;
    if ((delta > 0 ? b->high + delta : b->high) <= under)
        return 0;
    if ((delta > 0 ? b->low : b->low + delta) >= under)
        return b->n_runs * delta;
    return b->tight ? m->kernel.probe(slots_of(m, block), INTERVAL_BLOCK, delta, under)
                    : scan(m, block, delta, budget);
}

typedef double memory_step(interval_memory *m, uint32_t low, uint32_t high, double delta,
                           double budget);
typedef double memory_probe(interval_memory *m, uint32_t unit, double delta, double budget);

/* Over units of so many slots: the ends by part, what is covered whole by whole, to which the delta
 * is then added where units are to be written. Each caller says what, so that it is compiled for
 * each. */
static inline __attribute__((always_inline)) double
walk(interval_memory *m, uint32_t low, uint32_t high, double delta, double budget, uint32_t size,
     memory_step *part, memory_probe *whole, interval_block *written)
{
    uint32_t first = low / size, last = high / size;
    if (first == last)
        return part(m, low, high, delta, budget);
    double grown = 0;
    if (low % size)
        grown += part(m, low, ++first * size, delta, budget);
    for (uint32_t unit = first; unit < last; unit++) {
        grown += whole(m, unit, delta, budget);
        if (written)
            written[unit].pending += delta;
    }
    return high % size ? grown + part(m, last * size, high, delta, budget) : grown;
}

/* ---- sections ---- */

enum { BLOCKS_OF_SECTION = INTERVAL_SECTION / INTERVAL_BLOCK };

static uint32_t blocks_end(const interval_memory *m, uint32_t section)
{
    const uint32_t end = (section + 1) * BLOCKS_OF_SECTION;
    return end < m->n_blocks ? end : m->n_blocks;
}

/* Finds the bounds of a section from those of its blocks. */
static void bound_section(interval_memory *m, uint32_t section)
{
    interval_block *s = &m->sections[section];
    s->low = INFINITY;
    s->high = -INFINITY;
    s->tight = true;
    for (uint32_t i = section * BLOCKS_OF_SECTION; i < blocks_end(m, section); i++) {
        const interval_block *b = &m->blocks[i];
        s->low = b->low + b->pending < s->low ? b->low + b->pending : s->low;
        s->high = b->high + b->pending > s->high ? b->high + b->pending : s->high;
    }
}

/* What is pending goes into the blocks. */
static void settle_section(interval_memory *m, uint32_t section)
{
    interval_block *s = &m->sections[section];
    for (uint32_t i = section * BLOCKS_OF_SECTION; i < blocks_end(m, section); i++) {
        m->blocks[i].pending += s->pending;
        settle(m, i);
    }
    s->pending = 0;
    bound_section(m, section);
}

static double add_in_section(interval_memory *m, uint32_t low, uint32_t high, double delta,
                             double budget)
{
    const uint32_t section = low / INTERVAL_SECTION;
    interval_block *s = &m->sections[section];
    const double grown = walk(m, low, high, delta, budget - s->pending, INTERVAL_BLOCK, add_part,
                              probe_block, m->blocks);
    *(delta > 0 ? &s->high : &s->low) += delta;
    s->tight = false;
    if (fabs(s->pending) > 0x1p49 || s->high - s->low > 0x1p52)
        settle_section(m, section);
    return grown;
}

static double probe_in_section(interval_memory *m, uint32_t low, uint32_t high, double delta,
                               double budget)
{
    return walk(m, low, high, delta, budget - m->sections[low / INTERVAL_SECTION].pending,
                INTERVAL_BLOCK, probe_part, probe_block, NULL);
}

/* What the excess would grow by if delta went to a whole section. */
static inline double probe_section(interval_memory *m, uint32_t section, double delta,
                                   double budget)
{
    const interval_block *s = &m->sections[section];
    const double under = budget - s->pending;
    double grown = 0;
    for (int tries = 0; tries < 2; tries++) {
        if ((delta > 0 ? s->high + delta : s->high) <= under)
            return 0;
        if ((delta > 0 ? s->low : s->low + delta) >= under)
            return s->n_runs * delta;
        if (s->tight)
            break;
        bound_section(m, section);
    }
    for (uint32_t i = section * BLOCKS_OF_SECTION; i < blocks_end(m, section); i++)
        grown += probe_block(m, i, delta, under);
    return grown;
}

double interval_blocks_add(interval_memory *m, uint32_t low, uint32_t high, double delta,
                           double budget)
{
    return walk(m, low, high, delta, budget, INTERVAL_SECTION, add_in_section, probe_section,
                m->sections);
}

double interval_blocks_probe(interval_memory *m, uint32_t low, uint32_t high, double delta,
                             double budget)
{
    return walk(m, low, high, delta, budget, INTERVAL_SECTION, probe_in_section, probe_section,
                NULL);
}

static void widen(interval_block *b, double bytes)
{
    b->low = bytes < b->low ? bytes : b->low;
    b->high = bytes > b->high ? bytes : b->high;
}

void interval_blocks_set(interval_memory *m, uint32_t slot, double bytes)
{
    interval_block *s = &m->sections[slot / INTERVAL_SECTION],
                   *b = &m->blocks[slot / INTERVAL_BLOCK];
    const double in_section = bytes - s->pending, base = in_section - b->pending;
    const uint32_t had = interval_memory_at(m, slot) >= INTERVAL_NO_RUN;
    b->n_runs -= had;
    s->n_runs -= had;
    m->slots[slot] = base;
    b->tight = s->tight = false;
    if (bytes < INTERVAL_NO_RUN)
        return;
    b->n_runs++;
    s->n_runs++;
    widen(b, base);
    widen(s, in_section);
}

/* ---- all of it ---- */

bool interval_memory_clear(interval_memory *m, uint32_t n)
{
    uint32_t n_blocks = n / INTERVAL_BLOCK + 1, padded = n_blocks * INTERVAL_BLOCK;
    if (padded > m->capacity) {
        double *slots = realloc(m->slots, padded * sizeof *slots);
        m->slots = slots ? slots : m->slots;
        interval_block *blocks = realloc(m->blocks, n_blocks * sizeof *blocks);
        m->blocks = blocks ? blocks : m->blocks;
        interval_block *sections =
            realloc(m->sections, (n / INTERVAL_SECTION + 1) * sizeof *sections);
        m->sections = sections ? sections : m->sections;
        if (!slots || !blocks || !sections)
            return false;
        m->capacity = padded;
    }
    if (!m->kernel.name) {
        interval_range_kernel kernels[3];
        m->kernel = kernels[interval_range_kernels(kernels) - 1];
    }
    m->n_blocks = n < INTERVAL_FEW_SLOTS ? 0 : n_blocks;
    for (uint32_t slot = 0; slot < padded; slot++)
        m->slots[slot] = -INTERVAL_EMPTY_SLOT;
    return true;
}

void interval_memory_index(interval_memory *m)
{
    for (uint32_t block = 0; block < m->n_blocks; block++) {
        interval_block *b = &m->blocks[block];
        *b = (interval_block){0};
        for (uint32_t i = 0; i < INTERVAL_BLOCK; i++)
            b->n_runs += slots_of(m, block)[i] >= INTERVAL_NO_RUN;
        scan(m, block, 0, 0);
    }
    for (uint32_t section = 0; section * BLOCKS_OF_SECTION < m->n_blocks; section++) {
        m->sections[section] = (interval_block){0};
        for (uint32_t i = section * BLOCKS_OF_SECTION; i < blocks_end(m, section); i++)
            m->sections[section].n_runs += m->blocks[i].n_runs;
        bound_section(m, section);
    }
}

void interval_memory_free(interval_memory *m)
{
    free(m->slots);
    free(m->blocks);
    free(m->sections);
}
