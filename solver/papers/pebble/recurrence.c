/* Joins in pebbles (Beaumont, Herrmann, Pallez, Shilova, "Optimal Memory-aware Backpropagation of
 * Deep Join Networks", RR-9273, 2019): Opt_0, c_min and the recurrence of Theorem 3.
 *
 *     t0(n, c) = least forwards for n + 1 backwards below the turn (Theorem 1)
 *     T(0, b, c) = 0                                                          c >= k
 *     T(l, b, c) = min over branches m with l_m >= 1, and 1 <= i <= l_m, of
 *                  i + T(l[m <- l_m - i], b[m <- 1], c - 1) + t0(i - 1, c - sum_{j != m} b_j)
 *
 * (m, i): branch m finishes last; x_0 of it stays, the branch is advanced i steps, the rest is
 * solved with one slot less and the gradient at x_i kept, then the i backwards left have what the
 * kept gradients of the others leave.
 *
 * Corrected. Theorem 1 (3) says 1 <= i < l; with i <= l the case l = 1 has a term, and the infinite
 * cases (c <= 1; c = 2 with forwards to do) are stated. Theorem 3's first line and its case e_i
 * follow from the rest. Lemma 4 is a function of l and b (c_min below), its proof's "l_i > 1" is
 * l_i = 1. The first choice printed for the toy example (lengths 4, 10, 12, nine slots) belongs to
 * a makespan of 75; the optimum is 74. All of it agrees with exhaustive search over pebble states
 * (tests/property/join_pebble.c).
 *
 * Tables. The value depends on the multiset of pairs (l_j, b_j) only: k + 1 tables, one for each
 * number t of kept gradients, of rows over c. Table t holds sorted lengths only; sorted tuples are
 * numbered by rank(u) = sum_p C(u_p + p - 1, p), which neither wastes a row nor depends on the
 * edge. Table t reads table t + 1 (m without a kept gradient before) or its own rows of smaller
 * sum. */
#include "papers/pebble/pebble.h"
#include "papers/pebble/rows.h"
#include "papers/pebble/table.h"

#include <stdlib.h>
#include <string.h>

/* ---- one chain below the turn ---- */

/* s = c - 2, N = n + 1, r the least integer with C(s + r, s) >= N: t0 = r N - C(s + r, s + 1). */
uint32_t remat_pebble_chain(uint32_t n, uint32_t slots)
{
    if (slots <= 1 || (slots == 2 && n >= 1))
        return REMAT_PEBBLE_INFINITE;
    if (n == 0)
        return 0;
    uint64_t s = slots - 2, count = (uint64_t)n + 1;
    if (s >= n)
        return n;
    if (s == 1)
        return (uint32_t)((uint64_t)n * (n + 1) / 2);
    uint64_t r = 0, reached = 1;
    while (reached < count) {
        r++;
        reached = reached * (s + r) / r;
    }
    return (uint32_t)(r * count - reached * r / (s + 1));
}

/* ---- least and most memory ---- */

uint32_t remat_pebble_least_slots(const remat_pebble_join *join)
{
    uint32_t branches = 0;
    bool spare = false;
    for (uint32_t j = 0; j < join->k; j++) {
        branches += join->length[j] > 0;
        spare = spare || join->length[j] == 1 || (join->length[j] == 0 && !join->keep[j]);
    }
    if (branches == 0)
        return join->k;
    return join->k + branches + (spare ? 0 : 1);
}

uint32_t remat_pebble_most_slots(const remat_pebble_join *join)
{
    uint32_t slots = join->k;
    for (uint32_t j = 0; j < join->k; j++)
        slots += join->length[j];
    return slots;
}

/* ---- sorted tuples ---- */

/* C(edge + size, size), the number of sorted tuples; saturates. */
static uint64_t n_tuples(uint32_t size, uint32_t edge)
{
    uint64_t count = 1;
    for (uint32_t p = 1; p <= size; p++) {
        uint64_t factor = (uint64_t)edge + p;
        if (count > UINT64_MAX / factor)
            return UINT64_MAX;
        count = count * factor / p;
    }
    return count;
}

static bool add_product(uint64_t *sum, uint64_t a, uint64_t b)
{
    if (b > 0 && a > (UINT64_MAX - *sum) / b)
        return false;
    *sum += a * b;
    return true;
}

/* Largest finite value of any table: every branch advanced to its end at once, with ever fewer
 * slots for what is left below. */
static uint64_t largest_value(uint32_t k, uint32_t edge)
{
    uint64_t sum = (uint64_t)k * edge;
    for (uint32_t j = 0; j < k && edge > 0; j++)
        sum += remat_pebble_chain(edge - 1, j < 2 ? 3 : j + 2);
    return sum;
}

static uint32_t cells_of(uint32_t slots)
{
    return 1 + (slots + PEBBLE_ROWS_BLOCK - 1) / PEBBLE_ROWS_BLOCK * PEBBLE_ROWS_BLOCK;
}

uint64_t remat_pebble_table_bytes(uint32_t k, uint32_t edge, uint32_t slots)
{
    uint64_t rows = 0, bytes = sizeof(remat_pebble_table);
    for (uint32_t t = 0; t <= k; t++) {
        uint64_t ones = n_tuples(t, edge), zeros = n_tuples(k - t, edge);
        if (ones > UINT32_MAX || zeros > UINT32_MAX || !add_product(&rows, ones, zeros) ||
            !add_product(&bytes, ones, t * sizeof(uint16_t) + sizeof(uint32_t)))
            return UINT64_MAX;
    }
    uint64_t cell = largest_value(k, edge) < PEBBLE_ROWS_INFINITE_16 ? 2 : 4;
    uint64_t row = cells_of(slots) * cell;
    uint64_t chain = (uint64_t)edge * (cells_of(slots) + k) * cell;
    if (!add_product(&bytes, rows, row) || !add_product(&bytes, 1, chain) || bytes > SIZE_MAX / 4)
        return UINT64_MAX;
    return bytes;
}

static uint32_t rank_of(const remat_pebble_table *table, const uint16_t *tuple, uint32_t size)
{
    uint32_t rank = 0;
    for (uint32_t p = 0; p < size; p++)
        rank += table->choose[p][tuple[p]];
    return rank;
}

/* All sorted tuples of one size in the order of their ranks. */
static void list_tuples(uint32_t size, uint16_t *tuples, uint64_t count)
{
    if (size == 0)
        return;
    memset(tuples, 0, size * sizeof *tuples);
    for (uint64_t r = 1; r < count; r++) {
        uint16_t *tuple = tuples + r * size;
        memcpy(tuple, tuple - size, size * sizeof *tuple);
        uint32_t p = 0;
        while (p + 1 < size && tuple[p] == tuple[p + 1])
            p++;
        tuple[p]++;
        memset(tuple, 0, p * sizeof *tuple);
    }
}

/* ---- filling ---- */

typedef struct filling {
    remat_pebble_table *table;
    const remat_host *host;
    pebble_rows_min_16 *min_16;
    void *pairs;           /* by worker: room for k edge pairs */
    const uint32_t *order; /* tuples of ones by sum */
    uint32_t t;
    uint64_t first, count; /* positions in order of the level at hand */
    bool cancelled;
} filling;

/* rank(base with x inserted) for falling x, at constant cost. */
typedef struct inserter {
    const remat_pebble_table *table;
    uint16_t base[REMAT_PEBBLE_BRANCHES];
    uint32_t before[REMAT_PEBBLE_BRANCHES + 1]; /* ranks of the first q, in place */
    uint32_t after[REMAT_PEBBLE_BRANCHES + 1];  /* of those from q on, one place up */
    uint32_t at;
} inserter;

static void inserter_start(inserter *in, const remat_pebble_table *table, const uint16_t *tuple,
                           uint32_t size, uint32_t without)
{
    uint32_t n = 0;
    in->table = table;
    for (uint32_t p = 0; p < size; p++)
        if (p != without)
            in->base[n++] = tuple[p];
    in->before[0] = 0;
    for (uint32_t q = 0; q < n; q++)
        in->before[q + 1] = in->before[q] + table->choose[q][in->base[q]];
    in->after[n] = 0;
    for (uint32_t q = n; q-- > 0;)
        in->after[q] = in->after[q + 1] + table->choose[q + 1][in->base[q]];
    in->at = n;
}

static uint32_t inserter_rank(inserter *in, uint32_t x)
{
    while (in->at > 0 && in->base[in->at - 1] > x)
        in->at--;
    return in->before[in->at] + in->table->choose[in->at][x] + in->after[in->at];
}

static const void *row_at(const remat_pebble_table *table, uint32_t t, uint64_t ones,
                          uint64_t zeros)
{
    return (const char *)table->rows[t] +
           (ones * table->n_tuples[table->k - t] + zeros) * table->cells * table->cell_bytes;
}

static void add_pair(const remat_pebble_table *table, void *pairs, size_t n, const void *row,
                     uint32_t i, uint32_t kept)
{
    size_t at = (size_t)(i - 1) * (table->cells + table->k) + table->k + 1 - kept;
    if (table->cell_bytes == 2)
        ((pebble_rows_16 *)pairs)[n] =
            (pebble_rows_16){row, (const uint16_t *)table->chain_rows + at};
    else
        ((pebble_rows_32 *)pairs)[n] =
            (pebble_rows_32){row, (const uint32_t *)table->chain_rows + at};
}

/* The choices (m, i) of a state, equal branches once. */
static size_t list_pairs(const remat_pebble_table *table, uint32_t t, const uint16_t *ones,
                         const uint16_t *zeros, uint64_t zeros_rank, void *pairs)
{
    uint32_t n_zeros = table->k - t;
    size_t n = 0;
    inserter in;
    for (uint32_t m = 0; m < t; m++) {
        if (ones[m] == 0 || (m + 1 < t && ones[m] == ones[m + 1]))
            continue;
        inserter_start(&in, table, ones, t, m);
        for (uint32_t i = 1; i <= ones[m]; i++)
            add_pair(table, pairs, n++,
                     row_at(table, t, inserter_rank(&in, ones[m] - i), zeros_rank), i, t - 1);
    }
    for (uint32_t m = 0; m < n_zeros; m++) {
        if (zeros[m] == 0 || (m + 1 < n_zeros && zeros[m] == zeros[m + 1]))
            continue;
        uint16_t rest[REMAT_PEBBLE_BRANCHES];
        memcpy(rest, zeros, m * sizeof *rest);
        memcpy(rest + m, zeros + m + 1, (n_zeros - m - 1) * sizeof *rest);
        uint32_t rest_rank = rank_of(table, rest, n_zeros - 1);
        inserter_start(&in, table, ones, t, UINT32_MAX);
        for (uint32_t i = 1; i <= zeros[m]; i++)
            add_pair(table, pairs, n++,
                     row_at(table, t + 1, inserter_rank(&in, zeros[m] - i), rest_rank), i, t);
    }
    return n;
}

static uint32_t cell_at(const remat_pebble_table *table, const void *row, uint64_t c)
{
    return table->cell_bytes == 2 ? ((const uint16_t *)row)[c] : ((const uint32_t *)row)[c];
}

static void set_cell(const remat_pebble_table *table, void *row, uint64_t c, uint32_t value)
{
    if (table->cell_bytes == 2)
        ((uint16_t *)row)[c] = (uint16_t)value;
    else
        ((uint32_t *)row)[c] = value;
}

static void set_cells(const remat_pebble_table *table, void *row, uint32_t from, uint32_t to,
                      uint32_t value)
{
    for (uint32_t c = from; c < to; c++)
        set_cell(table, row, c, value);
}

static void fill_row(const filling *f, uint64_t ones_rank, uint64_t zeros_rank, void *pairs)
{
    const remat_pebble_table *table = f->table;
    uint32_t t = f->t, k = table->k, cells = table->cells, sum = 0;
    const uint16_t *ones = table->tuples[t] + ones_rank * t;
    const uint16_t *zeros = table->tuples[k - t] + zeros_rank * (k - t);
    for (uint32_t m = 0; m < t; m++)
        sum += ones[m];
    for (uint32_t m = 0; m < k - t; m++)
        sum += zeros[m];
    void *row = (void *)(uintptr_t)row_at(table, t, ones_rank, zeros_rank);
    uint32_t open = sum + k < cells ? cells_of(sum + k) : cells; /* later cells hold sum */
    set_cells(table, row, 0, open, table->infinite);
    if (sum == 0)
        set_cells(table, row, k < cells ? k : cells, cells, 0);
    else
        set_cells(table, row, open, cells, sum);
    size_t n = list_pairs(table, t, ones, zeros, zeros_rank, pairs);
    if (table->cell_bytes == 2)
        f->min_16((uint16_t *)row + 1, pairs, n, open - 1);
    else
        pebble_rows_min_32((uint32_t *)row + 1, pairs, n, open - 1);
}

enum { ROWS_AT_ONCE = 64 };

static void fill_some(void *context, size_t index, unsigned worker)
{
    filling *f = context;
    const remat_pebble_table *table = f->table;
    uint64_t zeros = table->n_tuples[table->k - f->t], end = f->count * zeros;
    uint64_t from = (uint64_t)index * ROWS_AT_ONCE, to = from + ROWS_AT_ONCE;
    char *pairs = (char *)f->pairs +
                  (size_t)worker * (table->k * (size_t)table->edge + 1) * sizeof(pebble_rows_16);
    if (remat_host_cancelled(f->host))
        return;
    for (uint64_t r = from; r < to && r < end; r++)
        fill_row(f, f->order[f->first + r / zeros], r % zeros, pairs);
}

static uint32_t sum_of(const remat_pebble_table *table, uint32_t size, uint64_t rank)
{
    uint32_t sum = 0;
    for (uint32_t p = 0; p < size; p++)
        sum += table->tuples[size][rank * size + p];
    return sum;
}

/* The tuples of t by their sum (counting sort); starts[s] is where those of sum s begin. */
static void order_by_sum(const remat_pebble_table *table, uint32_t t, uint32_t *order,
                         uint32_t *starts)
{
    uint32_t sums = t * table->edge + 1;
    memset(starts, 0, (sums + 1) * sizeof *starts);
    for (uint64_t r = 0; r < table->n_tuples[t]; r++)
        starts[sum_of(table, t, r) + 1]++;
    for (uint32_t s = 0; s < sums; s++)
        starts[s + 1] += starts[s];
    for (uint64_t r = 0; r < table->n_tuples[t]; r++)
        order[starts[sum_of(table, t, r)]++] = (uint32_t)r;
    memmove(starts + 1, starts, sums * sizeof *starts);
    starts[0] = 0;
}

static remat_status fill_table(filling *f, uint32_t *order, uint32_t *starts, remat_error *error)
{
    const remat_pebble_table *table = f->table;
    f->order = order;
    for (f->t = table->k + 1; f->t-- > 0;) {
        order_by_sum(table, f->t, order, starts);
        for (uint32_t s = 0; s <= f->t * table->edge; s++) {
            f->first = starts[s];
            f->count = starts[s + 1] - starts[s];
            uint64_t rows = f->count * table->n_tuples[table->k - f->t];
            remat_host_parallel_for(f->host, (size_t)((rows + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE),
                                    fill_some, f);
            if (remat_host_cancelled(f->host))
                return remat_fail(error, REMAT_CANCELLED, NULL, "cancelled");
        }
        remat_host_progress(f->host, (double)(table->k + 1 - f->t) / (table->k + 1));
    }
    return REMAT_OK;
}

static remat_status fill(remat_pebble_table *table, const remat_host *host, remat_error *error)
{
    size_t pairs = ((size_t)table->k * table->edge + 1) * sizeof(pebble_rows_16);
    filling f = {.table = table, .host = host, .min_16 = pebble_rows_best_16()};
    f.pairs = malloc(pairs * remat_host_workers(host));
    uint32_t *order = malloc(table->n_tuples[table->k] * sizeof *order);
    uint32_t *starts = malloc(((size_t)table->k * table->edge + 2) * sizeof *starts);
    remat_status status = f.pairs && order && starts ? fill_table(&f, order, starts, error)
                                                     : remat_fail_memory(error);
    free(f.pairs);
    free(order);
    free(starts);
    return status;
}

/* ---- the table ---- */

void remat_pebble_table_free(remat_pebble_table *table)
{
    if (!table)
        return;
    for (uint32_t t = 0; t <= REMAT_PEBBLE_BRANCHES; t++) {
        free(table->rows[t]);
        free(table->tuples[t]);
        free(table->choose[t]);
    }
    free(table->chain_rows);
    free(table);
}

/* Row i - 1: i + t0(i - 1, c), after k cells of infinity. */
static void fill_chain_rows(remat_pebble_table *table)
{
    size_t length = table->cells + table->k;
    for (uint32_t i = 1; i <= table->edge; i++) {
        char *row = (char *)table->chain_rows + (i - 1) * length * table->cell_bytes;
        set_cells(table, row, 0, table->k, table->infinite);
        for (uint32_t c = 0; c < table->cells; c++) {
            uint32_t value = remat_pebble_chain(i - 1, c);
            if (value >= table->infinite - i)
                value = table->infinite - i;
            set_cells(table, row, table->k + c, table->k + c + 1, value + i);
        }
    }
}

static remat_status allocate(remat_pebble_table *table, remat_error *error)
{
    uint32_t k = table->k, edge = table->edge;
    size_t row = (size_t)table->cells * table->cell_bytes;
    for (uint32_t t = 0; t <= k; t++) {
        table->n_tuples[t] = n_tuples(t, edge);
        if (table->n_tuples[t] > UINT32_MAX) /* refused before */
            return remat_fail_memory(error);
        table->tuples[t] = calloc(table->n_tuples[t], (t + 1) * sizeof(uint16_t));
        table->choose[t] = calloc((size_t)edge + 1, sizeof(uint32_t));
        if (!table->tuples[t] || !table->choose[t])
            return remat_fail_memory(error);
        list_tuples(t, table->tuples[t], table->n_tuples[t]);
        for (uint32_t v = 0; v <= edge; v++)
            table->choose[t][v] = (uint32_t)(v > 0 ? n_tuples(t + 1, v - 1) : 0);
    }
    for (uint32_t t = 0; t <= k; t++)
        if (!(table->rows[t] = malloc(table->n_tuples[t] * table->n_tuples[k - t] * row)))
            return remat_fail_memory(error);
    table->chain_rows = malloc((size_t)edge * (table->cells + k) * table->cell_bytes + 1);
    return table->chain_rows ? REMAT_OK : remat_fail_memory(error);
}

/* The table without its rows' contents. */
static remat_status table_start(uint32_t k, uint32_t edge, uint32_t slots, const remat_host *host,
                                remat_pebble_table **ret_table, remat_error *error)
{
    if (k == 0 || k > REMAT_PEBBLE_BRANCHES || edge > REMAT_PEBBLE_EDGE ||
        slots > REMAT_PEBBLE_SLOTS)
        return remat_fail(error, REMAT_INVALID, NULL,
                          "a pebble table has 1 to %d branches of length at most %d and at most %d "
                          "slots, not %u branches, length %u and %u slots",
                          REMAT_PEBBLE_BRANCHES, REMAT_PEBBLE_EDGE, REMAT_PEBBLE_SLOTS, k, edge,
                          slots);
    uint64_t bytes = remat_pebble_table_bytes(k, edge, slots);
    bool limited = host && host->memory_limit && bytes > host->memory_limit;
    if (bytes == UINT64_MAX || limited)
        return remat_fail(
            error, REMAT_TOO_LARGE, NULL,
            "the table of %u branches of length %u and %u slots would take %llu bytes", k, edge,
            slots, (unsigned long long)bytes);
    remat_pebble_table *table = calloc(1, sizeof *table);
    if (!table)
        return remat_fail_memory(error);
    bool narrow = largest_value(k, edge) < PEBBLE_ROWS_INFINITE_16;
    table->k = k;
    table->edge = edge;
    table->slots = slots;
    table->cells = cells_of(slots);
    table->cell_bytes = narrow ? 2 : 4;
    table->infinite = narrow ? PEBBLE_ROWS_INFINITE_16 : PEBBLE_ROWS_INFINITE_32;
    remat_status status = allocate(table, error);
    if (status) {
        remat_pebble_table_free(table);
        return status;
    }
    fill_chain_rows(table);
    *ret_table = table;
    return REMAT_OK;
}

remat_status remat_pebble_table_new(uint32_t k, uint32_t edge, uint32_t slots,
                                    const remat_host *host, remat_pebble_table **ret_table,
                                    remat_error *error)
{
    remat_pebble_table *table = NULL;
    remat_status status = table_start(k, edge, slots, host, &table, error);
    if (!status)
        status = fill(table, host, error);
    if (status) {
        remat_pebble_table_free(table);
        return status;
    }
    *ret_table = table;
    return REMAT_OK;
}

uint32_t remat_pebble_table_branches(const remat_pebble_table *table)
{
    return table->k;
}

void remat_pebble_table_size(const remat_pebble_table *table, uint32_t *ret_edge,
                             uint32_t *ret_slots)
{
    *ret_edge = table->edge;
    *ret_slots = table->slots;
}

bool remat_pebble_table_covers(const remat_pebble_table *table, const remat_pebble_join *join,
                               uint32_t slots)
{
    uint32_t most = remat_pebble_most_slots(join);
    if (join->k != table->k || (slots < most ? slots : most) > table->slots)
        return false;
    for (uint32_t j = 0; j < join->k; j++)
        if (join->length[j] > table->edge)
            return false;
    return true;
}

static uint32_t insert_sorted(uint16_t *tuple, uint32_t size, uint32_t value)
{
    uint32_t p = size;
    while (p > 0 && tuple[p - 1] > value) {
        tuple[p] = tuple[p - 1];
        p--;
    }
    tuple[p] = (uint16_t)value;
    return size + 1;
}

uint32_t remat_pebble_forwards(const remat_pebble_table *table, const remat_pebble_join *join,
                               uint32_t slots)
{
    uint16_t ones[REMAT_PEBBLE_BRANCHES], zeros[REMAT_PEBBLE_BRANCHES];
    uint32_t t = 0, n_zeros = 0, most = remat_pebble_most_slots(join);
    for (uint32_t j = 0; j < join->k; j++)
        if (join->keep[j])
            t = insert_sorted(ones, t, join->length[j]);
        else
            n_zeros = insert_sorted(zeros, n_zeros, join->length[j]);
    const void *row = row_at(table, t, rank_of(table, ones, t), rank_of(table, zeros, n_zeros));
    uint32_t value = cell_at(table, row, slots < most ? slots : most);
    return value >= table->infinite ? REMAT_PEBBLE_INFINITE : value;
}

/* ---- save and load ---- */

static uint64_t row_cells(const remat_pebble_table *table, uint32_t t)
{
    return table->n_tuples[t] * table->n_tuples[table->k - t] * table->cells;
}

remat_status remat_pebble_table_save(const remat_pebble_table *table, remat_buffer *buffer,
                                     remat_error *error)
{
    if (remat_buffer_put_u32(buffer, table->k) || remat_buffer_put_u32(buffer, table->edge) ||
        remat_buffer_put_u32(buffer, table->slots))
        return remat_fail_memory(error);
    for (uint32_t t = 0; t <= table->k; t++)
        for (uint64_t i = 0; i < row_cells(table, t); i++) {
            uint32_t value = cell_at(table, table->rows[t], i);
            uint8_t bytes[4] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16),
                                (uint8_t)(value >> 24)};
            if (remat_buffer_put(buffer, bytes, table->cell_bytes))
                return remat_fail_memory(error);
        }
    return REMAT_OK;
}

static remat_status load_rows(remat_pebble_table *table, remat_reader *reader, remat_error *error)
{
    for (uint32_t t = 0; t <= table->k; t++)
        for (uint64_t i = 0; i < row_cells(table, t); i++) {
            const uint8_t *bytes = remat_reader_bytes(reader, table->cell_bytes);
            uint32_t value = bytes ? (uint32_t)(bytes[0] | bytes[1] << 8) : 0;
            if (bytes && table->cell_bytes == 4)
                value |= (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
            if (!bytes || value > table->infinite)
                return remat_fail(error, REMAT_CORRUPT, NULL, "the pebble table is damaged");
            set_cell(table, table->rows[t], i, value);
        }
    return REMAT_OK;
}

remat_status remat_pebble_table_load(remat_reader *reader, const remat_host *host,
                                     remat_pebble_table **ret_table, remat_error *error)
{
    uint32_t k = remat_reader_u32(reader), edge = remat_reader_u32(reader);
    uint32_t slots = remat_reader_u32(reader);
    bool possible = !reader->failed && k > 0 && k <= REMAT_PEBBLE_BRANCHES &&
                    edge <= REMAT_PEBBLE_EDGE && slots <= REMAT_PEBBLE_SLOTS;
    uint64_t rows = 0;
    for (uint32_t t = 0; t <= k && possible; t++)
        possible = add_product(&rows, n_tuples(t, edge), n_tuples(k - t, edge));
    /* the rows must be there before memory is taken for them */
    if (!possible || rows > (reader->length - reader->position) / 2 / cells_of(slots))
        return remat_fail(error, REMAT_CORRUPT, NULL, "the pebble table is damaged");
    remat_pebble_table *table = NULL;
    remat_status status = table_start(k, edge, slots, host, &table, error);
    if (!status)
        status = load_rows(table, reader, error);
    if (status) {
        remat_pebble_table_free(table);
        return status;
    }
    *ret_table = table;
    return REMAT_OK;
}
