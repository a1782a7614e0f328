/* The text of the kernel; see kernel.h. The including file defines
 *   KERNEL_NAME, KERNEL_TARGET   the function and its attribute
 *   VEC, WIDTH                   a vector of WIDTH int32_t
 *   LOAD(p), STORE(p, v)         unaligned
 *   SPLAT(x), ADD(a, b), SUB(a, b), MIN(a, b)
 *   BELOW(a, b)                  bits of the lanes where a < b
 *   TURN(a, b, n)                lanes before n of a, the others of b
 *   OR(a, b)                     bit by bit
 *   LOAD_SOME(p, from, to)       the lanes from <= lane < to of p, 0 in the others, which are not
 *                                read
 *   FIRST(v)                     lane 0
 *   NUMBERS                      0, 1, .. WIDTH - 1
 *   PICK(a, b, x, y)             lanes where a < b of x, the others of y
 *   PUT(list, lanes, i)          list[0 ..] := i + lane for the set of lanes; may write WIDTH
 *                                entries */

#include <string.h>

#define LANES (CHAIN_KERNEL_BLOCK / WIDTH)
/* The vectors of a block stay in registers only if the loops over them are gone. */
#define UNROLL _Pragma("GCC unroll 32")
#define INLINE static inline __attribute__((always_inline))

/* Vector i of the view. Not an entry beyond the two blocks is touched: another worker may be
 * writing there. */
KERNEL_TARGET INLINE VEC view_load(const chain_kernel_view *view, uint32_t width, uint32_t i)
{
    int32_t at = (int32_t)(i * WIDTH), until = (int32_t)width - at;
    int32_t turn = CHAIN_KERNEL_BLOCK - (int32_t)view->turn - at;
    const int32_t *low = view->low + view->turn + at, *high = view->high - turn;
    if (until >= WIDTH && turn >= WIDTH)
        return LOAD(low);
    if (until >= WIDTH && turn <= 0)
        return LOAD(high);
    return OR(LOAD_SOME(low, 0, turn < until ? turn : until),
              LOAD_SOME(high, turn > 0 ? turn : 0, until));
}

KERNEL_TARGET INLINE void add_save(const chain_kernel_block *b, VEC *best)
{
    if (b->save_from >= b->from + CHAIN_KERNEL_BLOCK)
        return;
    VEC cost = SPLAT(b->save_cost), none = SPLAT(CHAIN_KERNEL_INFINITE);
    if (b->save_from > b->from) {
        int32_t first = (int32_t)(b->save_from - b->from);
        UNROLL for (uint32_t i = 0; i < LANES; i++) best[i] = MIN(
            best[i],
            ADD(TURN(none, view_load(&b->save, b->width, i), first - (int32_t)(i * WIDTH)), cost));
        return;
    }
    UNROLL for (uint32_t i = 0; i < LANES; i++) best[i] =
        MIN(best[i], ADD(view_load(&b->save, b->width, i), cost));
}

KERNEL_TARGET INLINE void add_pass(const chain_kernel_block *b, uint32_t index, VEC *best)
{
    const int32_t *left = b->left + (size_t)index * b->width;
    const int32_t *right = b->right + (size_t)index * CHAIN_KERNEL_BLOCK;
    UNROLL for (uint32_t i = 0; i < LANES; i++) best[i] =
        MIN(best[i], ADD(LOAD(left + i * WIDTH), LOAD(right + i * WIDTH)));
}

/* The same where the pass may begin inside the block or after it. */
KERNEL_TARGET INLINE void add_late_pass(const chain_kernel_block *b, uint32_t index, VEC *best)
{
    const int32_t *left = b->left + (size_t)index * b->width;
    const int32_t *right = b->right + (size_t)index * CHAIN_KERNEL_BLOCK;
    int32_t first = (int32_t)b->pass_from[index] - (int32_t)b->from;
    VEC none = SPLAT(CHAIN_KERNEL_INFINITE);
    UNROLL for (uint32_t i = 0; i < LANES; i++)
    {
        VEC value = TURN(none, LOAD(right + i * WIDTH), first - (int32_t)(i * WIDTH));
        best[i] = MIN(best[i], ADD(value, LOAD(left + i * WIDTH)));
    }
}

/* best := min(best, the passes up to the listed positions). */
KERNEL_TARGET INLINE void add_passes(const chain_kernel_block *b, const int32_t *list,
                                     uint32_t count, VEC *best)
{
    if (b->pass_from) {
        for (uint32_t i = 0; i < count; i++)
            add_late_pass(b, (uint32_t)list[i], best);
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        add_pass(b, (uint32_t)list[i], best);
}

/* list := the positions below limit at the block's last slot; returns how many. likely := the least
 * of all there. */
KERNEL_TARGET INLINE uint32_t list_below(chain_kernel_block *b, int32_t limit)
{
    uint32_t count = 0;
    VEC limits = SPLAT(limit), least = SPLAT(INT32_MAX), where = SPLAT(0), at = NUMBERS;
    for (uint32_t i = 0; i < b->n_k; i += WIDTH) {
        VEC sum = ADD(LOAD(b->ends_left + i), LOAD(b->ends_right + i));
        where = PICK(sum, least, at, where);
        least = MIN(least, sum);
        at = ADD(at, SPLAT(WIDTH));
        uint32_t below = BELOW(sum, limits);
        if (b->n_k - i < WIDTH) /* beyond n_k are sub-chains not yet solved */
            below &= (1u << (b->n_k - i)) - 1;
        if (below) {
            PUT(b->list + count, below, i);
            count += (uint32_t)__builtin_popcount(below);
        }
    }
    int32_t values[WIDTH], positions[WIDTH];
    STORE(values, least);
    STORE(positions, where);
    uint32_t best = 0;
    for (uint32_t i = 1; i < WIDTH; i++)
        best = values[i] < values[best] ? i : best;
    b->likely = (uint32_t)positions[best];
    return count;
}

/* Positions whose sum at the block's end is not below this improve nothing: the best known value at
 * the first slot that is feasible. */
KERNEL_TARGET INLINE int32_t limit_of(const chain_kernel_block *b, const VEC *best)
{
    int32_t limit = FIRST(best[0]);
    if (b->first > b->from) {
        int32_t values[CHAIN_KERNEL_BLOCK];
        UNROLL for (uint32_t i = 0; i < LANES; i++) STORE(values + i * WIDTH, best[i]);
        limit = values[b->first - b->from];
    }
    return limit < CHAIN_KERNEL_INFINITE ? limit : CHAIN_KERNEL_INFINITE;
}

KERNEL_TARGET INLINE void improve(chain_kernel_block *b, VEC *best)
{
    int32_t likely = (int32_t)b->likely;
    if (b->likely < b->n_k)
        add_passes(b, &likely, 1, best);
    uint32_t count = list_below(b, limit_of(b, best));
    add_passes(b, b->list, count, best);
}

/* Slots before the first feasible one hold sums with an infinite part: mark them. */
KERNEL_TARGET INLINE void finish(const chain_kernel_block *b, VEC *best)
{
    VEC prefix = SPLAT(b->prefix), none = SPLAT(CHAIN_KERNEL_INFINITE);
    UNROLL for (uint32_t i = 0; i < LANES; i++) best[i] = SUB(best[i], prefix);
    if (b->first > b->from) {
        int32_t first = (int32_t)(b->first - b->from);
        UNROLL for (uint32_t i = 0; i < LANES; i++) best[i] =
            TURN(none, best[i], first - (int32_t)(i * WIDTH));
    }
    if (b->width == CHAIN_KERNEL_BLOCK) {
        UNROLL for (uint32_t i = 0; i < LANES; i++) STORE(b->out + i * WIDTH, best[i]);
    } else {
        int32_t values[CHAIN_KERNEL_BLOCK];
        UNROLL for (uint32_t i = 0; i < LANES; i++) STORE(values + i * WIDTH, best[i]);
        memcpy(b->out, values, b->width * sizeof *values);
    }
}

KERNEL_TARGET void KERNEL_NAME(chain_kernel_block *b)
{
    VEC best[LANES];
    UNROLL for (uint32_t i = 0; i < LANES; i++) best[i] = SPLAT(b->before + b->prefix);
    add_save(b, best);
    if (b->n_k > 0)
        improve(b, best);
    finish(b, best);
}
