/* The text of the kernel; see kernel.h. The including file defines
 *   KERNEL_NAME, KERNEL_TARGET   the function and its attribute
 *   VEC, WIDTH                   a vector of WIDTH int32_t
 *   LOAD(p), STORE(p, v)         unaligned
 *   SPLAT(x), ADD(a, b), SUB(a, b), MIN(a, b)
 *   BELOW(a, b)                  bits of the lanes where a < b
 *   LOAD_FROM(p, first)          as LOAD, infinite in the lanes before `first`
 *   FIRST(v)                     lane 0
 *   PUT_BELOW(list, n, a, b, i)  list[n ..] := i + lane for the lanes where a < b, n counts them;
 * may write WIDTH entries */

#define LANES (REMAT_KERNEL_BLOCK / WIDTH)
/* The vectors of a block stay in registers only if the loops over them are gone. */
#define UNROLL _Pragma("GCC unroll 32")
#define INLINE static inline __attribute__((always_inline))

/* The same for candidates that begin inside the block, at slot from + first: what right holds
 * before is not theirs. left is the left part, or NULL where the constant cost stands for it. */
KERNEL_TARGET INLINE void update_from(VEC *best, const int32_t *left, int32_t cost,
                                      const int32_t *right, uint32_t first)
{
    UNROLL for (uint32_t i = 0; i < LANES; i++)
    {
        VEC value = LOAD_FROM(right + i * WIDTH, (int32_t)first - (int32_t)(i * WIDTH));
        best[i] = MIN(best[i], ADD(value, left ? LOAD(left + i * WIDTH) : SPLAT(cost)));
    }
}

KERNEL_TARGET INLINE void add_save(const remat_kernel_cell *cell, uint32_t from, VEC *best)
{
    uint32_t first = cell->save_shift > cell->save_from ? cell->save_shift : cell->save_from;
    if (first >= from + REMAT_KERNEL_BLOCK)
        return;
    const int32_t *row = cell->save_row + ((ptrdiff_t)from - (ptrdiff_t)cell->save_shift);
    if (first > from) {
        update_from(best, NULL, cell->save_cost, row, first - from);
        return;
    }
    VEC cost = SPLAT(cell->save_cost);
    UNROLL for (uint32_t i = 0; i < LANES; i++) best[i] =
        MIN(best[i], ADD(LOAD(row + i * WIDTH), cost));
}

/* best := min(best, the pass up to one position, which may begin inside the block or after it). */
KERNEL_TARGET INLINE void add_late_pass(const remat_kernel_cell *cell, uint32_t from,
                                        uint32_t index, VEC *best)
{
    uint32_t first = cell->shift[index];
    if (cell->pass_from && cell->pass_from[index] > first)
        first = cell->pass_from[index];
    if (first >= from + REMAT_KERNEL_BLOCK)
        return;
    first = first > from ? first - from : 0;
    const int32_t *left = cell->left + (size_t)index * cell->stride + from;
    update_from(best, left, 0, cell->table + (cell->right[index] + (ptrdiff_t)from), first);
}

/* best := min(best, the passes up to the listed positions). */
KERNEL_TARGET INLINE void add_passes(const remat_kernel_cell *cell, uint32_t from,
                                     const int32_t *list, uint32_t count, VEC *best)
{
    if (cell->pass_from || cell->largest_shift > from) {
        for (uint32_t i = 0; i < count; i++)
            add_late_pass(cell, from, (uint32_t)list[i], best);
        return;
    }
    const int32_t *lefts = cell->left + from, *rights = cell->table + from;
    for (uint32_t i = 0; i < count; i++) {
        size_t index = (size_t)list[i];
        const int32_t *left = lefts + index * cell->stride, *right = rights + cell->right[index];
        UNROLL for (uint32_t j = 0; j < LANES; j++) best[j] =
            MIN(best[j], ADD(LOAD(left + j * WIDTH), LOAD(right + j * WIDTH)));
    }
}

/* sums[i] := what position i costs at the block's last slot; returns the least. */
KERNEL_TARGET INLINE int32_t sum_ends(uint32_t n_k, const int32_t *ends_left,
                                      const int32_t *ends_right, int32_t *sums)
{
    VEC least = SPLAT(INT32_MAX);
    for (uint32_t i = 0; i < n_k; i += WIDTH) {
        VEC sum = ADD(LOAD(ends_left + i), LOAD(ends_right + i));
        STORE(sums + i, sum);
        least = MIN(least, sum);
    }
    int32_t values[WIDTH], result = INT32_MAX;
    STORE(values, least);
    for (uint32_t i = 0; i < WIDTH; i++)
        result = values[i] < result ? values[i] : result;
    return result;
}

KERNEL_TARGET INLINE uint32_t index_of(const int32_t *sums, int32_t value)
{
    uint32_t i = 0, found;
    while ((found = BELOW(LOAD(sums + i), SPLAT(value + 1))) == 0)
        i += WIDTH;
    return i + (uint32_t)__builtin_ctz(found);
}

/* list := the positions below limit; returns how many. */
KERNEL_TARGET INLINE uint32_t list_below(const int32_t *sums, uint32_t n_k, int32_t limit,
                                         int32_t *list)
{
    uint32_t count = 0;
    VEC limits = SPLAT(limit);
    for (uint32_t i = 0; i < n_k; i += WIDTH)
        PUT_BELOW(list, count, LOAD(sums + i), limits, i);
    return count;
}

/* Positions whose sum at the block's end is not below this improve nothing: the best known value at
 * the first slot that can be feasible. */
KERNEL_TARGET INLINE int32_t limit_of(const remat_kernel_cell *cell, uint32_t from, const VEC *best)
{
    int32_t limit = FIRST(best[0]);
    if (cell->first > from) {
        int32_t values[REMAT_KERNEL_BLOCK];
        UNROLL for (uint32_t i = 0; i < LANES; i++) STORE(values + i * WIDTH, best[i]);
        limit = values[cell->first - from];
    }
    return limit < REMAT_KERNEL_INFINITE ? limit : REMAT_KERNEL_INFINITE;
}

/* One position, which is then out of the way. */
KERNEL_TARGET INLINE void take(const remat_kernel_cell *cell, uint32_t from, uint32_t index,
                               VEC *best)
{
    int32_t position = (int32_t)index;
    add_passes(cell, from, &position, 1, best);
    cell->sums[index] = REMAT_KERNEL_INFINITE;
}

KERNEL_TARGET uint32_t KERNEL_NAME(const remat_kernel_cell *cell, uint32_t from, uint32_t n_k,
                                   const int32_t *ends_left, const int32_t *ends_right)
{
    VEC best[LANES], prefix = SPLAT(cell->prefix);
    UNROLL for (uint32_t i = 0; i < LANES; i++) best[i] =
        SPLAT(REMAT_KERNEL_INFINITE + cell->prefix);
    if (cell->save_row)
        add_save(cell, from, best);
    uint32_t looked_at = 0;
    int32_t least = sum_ends(n_k, ends_left, ends_right, cell->sums);
    if (least < REMAT_KERNEL_INFINITE && least < FIRST(best[0])) {
        uint32_t likely = index_of(cell->sums, least);
        take(cell, from, likely, best);
        if (cell->first > from && cell->first_index < n_k)
            take(cell, from, cell->first_index, best); /* makes the first feasible slot finite */
        uint32_t count = list_below(cell->sums, n_k, limit_of(cell, from, best), cell->list);
        add_passes(cell, from, cell->list, count, best);
        looked_at = count + 1;
    }
    int32_t *out = cell->out + from;
    UNROLL for (uint32_t i = 0; i < LANES; i++) STORE(out + i * WIDTH, SUB(best[i], prefix));
    return looked_at;
}
