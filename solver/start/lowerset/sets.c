/* Families of lower sets.
 *
 * Source: Kusumoto et al. 2019, section 4.2 (all lower sets) and 4.3 (the pruned family {L^v}).
 * Enumeration: a set is extended only by ready nodes with an index above the last one added. The
 * increasing order of a lower set's members is one of its linear extensions, so every set appears
 * once and no hash is needed. Corrected: the pruned family must also hold the empty set and V.
 * Beyond the paper: the prefixes of topological orders, without which the pruned family cannot
 * combine branches (specification, 8); two orders are taken, the profile's own and depth first from
 * the loss. */
#include "start/lowerset/sets.h"

#include "model/arrays.h"

/* ---- enumeration ---- */

typedef struct walk {
    const graph_order *order;
    uint32_t n, words;
    uint64_t *bits, *ready;
    uint32_t *missing; /* by node: predecessors not in the set yet */
    uint32_t *stack;
    uint32_t depth, cursor;
    model_arena arena;
} walk;

static bool walk_init(walk *w, const graph_order *order)
{
    uint32_t n = order->n, words = (n + 63) / 64;
    *w = (walk){.order = order, .n = n, .words = words};
    w->bits = model_arena_array(&w->arena, words, sizeof *w->bits);
    w->ready = model_arena_array(&w->arena, words, sizeof *w->ready);
    w->missing = model_arena_array(&w->arena, n, sizeof *w->missing);
    w->stack = model_arena_array(&w->arena, n, sizeof *w->stack);
    if (!w->bits || !w->ready || !w->missing || !w->stack)
        return false;
    for (uint32_t v = 0; v < n; v++) {
        w->missing[v] = order->first_before[v + 1] - order->first_before[v];
        if (!w->missing[v])
            graph_bit_set(w->ready, v);
    }
    return true;
}

static void walk_add(walk *w, uint32_t v)
{
    const graph_order *order = w->order;
    graph_bit_set(w->bits, v);
    graph_bit_clear(w->ready, v);
    for (uint32_t i = order->first_after[v]; i < order->first_after[v + 1]; i++)
        if (--w->missing[order->after[i]] == 0)
            graph_bit_set(w->ready, order->after[i]);
    w->stack[w->depth++] = v;
    w->cursor = v + 1;
}

static void walk_undo(walk *w)
{
    uint32_t v = w->stack[--w->depth];
    const graph_order *order = w->order;
    for (uint32_t i = order->first_after[v]; i < order->first_after[v + 1]; i++)
        if (w->missing[order->after[i]]++ == 0)
            graph_bit_clear(w->ready, order->after[i]);
    graph_bit_clear(w->bits, v);
    graph_bit_set(w->ready, v);
    w->cursor = v + 1;
}

/* Goes to the next lower set; false after the last. The walk starts at the empty set. */
static bool walk_next(walk *w)
{
    for (;;) {
        uint32_t v = graph_bit_next(w->ready, w->n, w->cursor);
        if (v < w->n) {
            walk_add(w, v);
            return true;
        }
        if (w->depth == 0)
            return false;
        walk_undo(w);
    }
}

size_t graph_sets_count(const remat_profile *profile, size_t limit)
{
    graph_order order;
    walk w = {0};
    size_t count = 1;
    if (profile->n_nodes >= limit) /* the prefixes alone are more */
        return limit + 1;
    if (graph_order_init(&order, profile, NULL) || !walk_init(&w, &order))
        count = SIZE_MAX;
    else
        while (count <= limit && walk_next(&w))
            count++;
    model_arena_clear(&w.arena);
    graph_order_clear(&order);
    return count;
}

size_t graph_sets_most(const remat_profile *profile, graph_lowerset_family family, size_t limit)
{
    size_t n = profile->n_nodes;
    if (family == GRAPH_FAMILY_EXACT)
        return graph_sets_count(profile, limit);
    return family == GRAPH_FAMILY_PAPER ? n + 2 : 3 * n + 2;
}

uint64_t graph_sets_bytes(uint32_t n, size_t count)
{
    /* Twice the bit sets while they are sorted; a boundary has some nodes. */
    uint64_t words = (n + 63) / 64;
    return count * (2 * words * sizeof(uint64_t) + sizeof(graph_set) + 64);
}

static remat_status add_all(graph_sets *sets, const graph_view *graph, size_t most,
                            const remat_host *host, remat_error *error)
{
    walk w;
    remat_status status = REMAT_OK;
    if (!walk_init(&w, &graph->order))
        status = remat_fail_memory(error);
    bool more = true;
    while (!status && more && sets->count < most) {
        memcpy(sets->bits + sets->count++ * sets->words, w.bits, sets->words * sizeof *w.bits);
        if (sets->count % 1024 == 0 && remat_host_cancelled(host))
            status = remat_fail(error, REMAT_CANCELLED, NULL, "cancelled");
        more = walk_next(&w);
    }
    model_arena_clear(&w.arena);
    return status;
}

/* ---- the pruned family ---- */

static uint64_t *add_set(graph_sets *sets)
{
    return sets->bits + sets->count++ * sets->words; /* zeroed when allocated */
}

/* The empty set and L^v for every v; L^loss is V. */
static void add_ancestor_sets(graph_sets *sets, const graph_view *graph)
{
    (void)add_set(sets);
    const uint64_t *first = sets->bits + sets->count * sets->words;
    for (uint32_t v = 0; v < graph->n; v++) {
        const graph_order *order = &graph->order;
        uint64_t *set = add_set(sets);
        graph_bit_set(set, v);
        for (uint32_t i = order->first_before[v]; i < order->first_before[v + 1]; i++) {
            const uint64_t *input = first + (size_t)order->before[i] * sets->words;
            for (uint32_t w = 0; w < sets->words; w++)
                set[w] |= input[w];
        }
    }
}

/* A topological order that finishes one branch before it begins the next: depth first from the
 * loss. */
static remat_status order_by_depth(const graph_view *graph, uint32_t *order)
{
    uint32_t n = graph->n, depth = 0, placed = 0;
    uint32_t *stack = calloc(n, sizeof *stack), *next = calloc(n, sizeof *next);
    bool *seen = calloc(n, sizeof *seen);
    bool enough = stack && next && seen;
    if (enough) {
        stack[depth++] = n - 1;
        seen[n - 1] = true;
    }
    while (depth > 0) {
        uint32_t v = stack[depth - 1];
        uint32_t edge = graph->order.first_before[v] + next[v]++;
        if (edge == graph->order.first_before[v + 1]) {
            order[placed++] = v;
            depth--;
            continue;
        }
        uint32_t input = graph->order.before[edge];
        if (!seen[input]) {
            seen[input] = true;
            stack[depth++] = input;
        }
    }
    free(stack);
    free(next);
    free(seen);
    return enough ? REMAT_OK : REMAT_NO_MEMORY;
}

static void add_prefixes(graph_sets *sets, uint32_t n, const uint32_t *order)
{
    const uint64_t *before = NULL;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t *set = add_set(sets);
        if (before)
            memcpy(set, before, sets->words * sizeof *set);
        graph_bit_set(set, order[i]);
        before = set;
    }
}

static remat_status add_pruned(graph_sets *sets, const graph_view *graph,
                               graph_lowerset_family family, remat_error *error)
{
    add_ancestor_sets(sets, graph);
    if (family == GRAPH_FAMILY_PAPER)
        return REMAT_OK;
    uint32_t *order = malloc(graph->n * sizeof *order);
    if (!order)
        return remat_fail_memory(error);
    for (uint32_t v = 0; v < graph->n; v++)
        order[v] = v;
    add_prefixes(sets, graph->n, order);
    remat_status status = order_by_depth(graph, order);
    if (!status)
        add_prefixes(sets, graph->n, order);
    free(order);
    return status ? remat_fail_memory(error) : REMAT_OK;
}

/* ---- order ---- */

typedef struct sort_key {
    uint32_t level, size, words;
    const uint64_t *bits;
} sort_key;

static int compare_bits(const sort_key *a, const sort_key *b)
{
    for (uint32_t w = a->words; w-- > 0;)
        if (a->bits[w] != b->bits[w])
            return a->bits[w] < b->bits[w] ? -1 : 1;
    return 0;
}

static int compare_keys(const void *left, const void *right)
{
    const sort_key *a = left, *b = right;
    if (a->level != b->level)
        return a->level < b->level ? -1 : 1;
    if (a->size != b->size)
        return a->size < b->size ? -1 : 1;
    return compare_bits(a, b);
}

static sort_key key_of(const uint64_t *bits, uint32_t n, uint32_t words)
{
    sort_key key = {.words = words, .bits = bits};
    while (key.level / 64 < words && bits[key.level / 64] == UINT64_MAX)
        key.level += 64;
    if (key.level < n)
        key.level += (uint32_t)__builtin_ctzll(~bits[key.level / 64]);
    if (key.level > n)
        key.level = n;
    for (uint32_t w = 0; w < words; w++)
        key.size += (uint32_t)__builtin_popcountll(bits[w]);
    return key;
}

/* Sorts the sets, drops doubles and begins their records. */
static remat_status sort_sets(graph_sets *sets, remat_error *error)
{
    sort_key *keys = malloc(sets->count * sizeof *keys);
    uint64_t *bits = malloc(sets->count * sets->words * sizeof *bits);
    sets->sets = calloc(sets->count, sizeof *sets->sets);
    if (!keys || !bits || !sets->sets) {
        free(keys);
        free(bits);
        return remat_fail_memory(error);
    }
    for (size_t i = 0; i < sets->count; i++)
        keys[i] = key_of(graph_sets_bits(sets, i), sets->n, sets->words);
    qsort(keys, sets->count, sizeof *keys, compare_keys);
    size_t kept = 0;
    for (size_t i = 0; i < sets->count; i++) {
        if (i > 0 && compare_bits(&keys[i - 1], &keys[i]) == 0)
            continue;
        memcpy(bits + kept * sets->words, keys[i].bits, sets->words * sizeof *bits);
        sets->sets[kept++] = (graph_set){.level = keys[i].level, .size = keys[i].size};
    }
    free(keys);
    free(sets->bits);
    sets->bits = bits;
    sets->count = kept;
    return REMAT_OK;
}

/* ---- boundaries and sums ---- */

/* The last two terms of equation (2) for the set: its consumers outside and their other inputs. */
static uint64_t leaving_bytes(const graph_view *graph, const uint64_t *bits, const graph_set *set,
                              const uint32_t *boundary, uint64_t *consumers, uint64_t *others)
{
    const remat_profile *profile = graph->profile;
    uint64_t bytes = 0;
    memset(consumers, 0, graph->words * sizeof *consumers);
    memset(others, 0, graph->words * sizeof *others);
    for (uint32_t i = 0; i < set->n_boundary; i++) {
        const remat_node *node = &profile->nodes[boundary[i]];
        for (uint32_t c = 0; c < node->n_consumers; c++)
            if (!graph_bit(bits, node->consumers[c]))
                graph_bit_set(consumers, node->consumers[c]);
    }
    for (uint32_t v = graph_bit_next(consumers, graph->n, 0); v < graph->n;
         v = graph_bit_next(consumers, graph->n, v + 1)) {
        const remat_node *node = &profile->nodes[v];
        bytes += graph->kept[v];
        for (uint32_t i = 0; i < node->n_inputs; i++)
            if (node->inputs[i] < graph->n && !graph_bit(bits, node->inputs[i]))
                graph_bit_set(others, node->inputs[i]);
    }
    for (uint32_t v = graph_bit_next(others, graph->n, 0); v < graph->n;
         v = graph_bit_next(others, graph->n, v + 1))
        bytes += graph->kept[v];
    return bytes;
}

/* Sums over the members of one set; its boundary goes to the end of the list. */
static void describe(const graph_view *graph, const uint64_t *bits, graph_set *set,
                     uint32_t *boundary)
{
    uint32_t last = 0;
    for (uint32_t v = graph_bit_next(bits, graph->n, 0); v < graph->n;
         v = graph_bit_next(bits, graph->n, v + 1)) {
        const remat_node *node = &graph->profile->nodes[v];
        set->bytes += graph->kept[v] + graph->gradient[v];
        set->time += graph->time[v];
        last = v + 1;
        uint32_t c = node->n_consumers;
        while (c > 0 && graph_bit(bits, node->consumers[c - 1]))
            c--;
        if (c == 0)
            continue;
        boundary[set->n_boundary++] = v;
        for (int kind = 0; kind < GRAPH_BOUNDARIES; kind++) {
            set->boundary_cached[kind] += graph->cached[kind][v];
            set->boundary_spared[kind] += graph->spared[kind][v];
        }
        if (graph->model == GRAPH_MODEL_SAFE)
            set->entry += graph->gradient[v];
        if (set->far < node->consumers[node->n_consumers - 1] + 1)
            set->far = node->consumers[node->n_consumers - 1] + 1;
    }
    if (set->far < last)
        set->far = last;
    if (set->far < set->level + 1)
        set->far = set->level + 1;
}

static remat_status describe_all(graph_sets *sets, const graph_view *graph, const remat_host *host,
                                 remat_error *error)
{
    uint64_t *scratch = calloc(2 * (size_t)sets->words, sizeof *scratch);
    size_t capacity = 0, used = 0;
    remat_status status = scratch ? REMAT_OK : remat_fail_memory(error);
    for (size_t i = 0; i < sets->count && !status; i++) {
        graph_set *set = &sets->sets[i];
        if (!model_reserve(&sets->boundary, &capacity, used + graph->n, sizeof *sets->boundary)) {
            status = remat_fail_memory(error);
            break;
        }
        set->first = (uint32_t)used;
        describe(graph, graph_sets_bits(sets, i), set, sets->boundary + used);
        if (graph->model == GRAPH_MODEL_EQUATION_2)
            set->leave = leaving_bytes(graph, graph_sets_bits(sets, i), set, sets->boundary + used,
                                       scratch, scratch + sets->words);
        used += set->n_boundary;
        if (i % 256 == 0 && remat_host_cancelled(host))
            status = remat_fail(error, REMAT_CANCELLED, NULL, "cancelled");
    }
    free(scratch);
    return status;
}

remat_status graph_sets_init(graph_sets *ret_sets, const graph_view *graph,
                             graph_lowerset_family family, size_t most, const remat_host *host,
                             remat_error *error)
{
    graph_sets sets = {.n = graph->n, .words = graph->words};
    if (most >= UINT32_MAX / GRAPH_BOUNDARIES) /* see graph_step */
        return remat_fail(error, REMAT_TOO_LARGE, NULL, "%zu lower sets are too many", most);
    sets.bits = calloc(most * sets.words, sizeof *sets.bits);
    remat_status status = sets.bits ? REMAT_OK : remat_fail_memory(error);
    if (!status)
        status = family == GRAPH_FAMILY_EXACT ? add_all(&sets, graph, most, host, error)
                                              : add_pruned(&sets, graph, family, error);
    if (!status)
        status = sort_sets(&sets, error);
    if (!status)
        status = describe_all(&sets, graph, host, error);
    if (status) {
        graph_sets_clear(&sets);
        return status;
    }
    *ret_sets = sets;
    return REMAT_OK;
}

void graph_sets_clear(graph_sets *sets)
{
    free(sets->bits);
    free(sets->sets);
    free(sets->boundary);
    *sets = (graph_sets){0};
}
