/* Pareto frontiers over lower sets.
 *
 * Source: Kusumoto, Inoue, Watanabe, Akiba, Koyama: A graph theoretic framework of recomputation
 * algorithms for memory-efficient backpropagation (2019), Algorithm 1 with equations (1) and (2).
 *
 * The paper goes forward, for one budget B: opt[L] = pairs (overhead t, cached bytes m). What can
 * follow L depends on B and m only through B - m, the bytes that are left. So here the recurrence
 * goes backward and answers every budget at once: g(L, b) = least overhead of the segments beyond L
 * when b bytes are left beside what is cached,
 *
 *   g(V, b) = 0
 *   g(L, b) = min over L' > L of  T(V' \ boundary(L')) + g(L', b - M(boundary(L') \ L))
 *             such that the bytes of the segment V' = L' \ L fit b,
 *
 * a staircase kept as the list of its corners; g({}, b) is the whole trade-off curve, its first
 * corner the least feasible budget. Times are real numbers, no table is quantised. M(boundary) and
 * the time that the boundary takes off T(V') are what the graph caches and spares. Beyond the
 * paper: where the rules say so, each step from L to L' is taken twice, with the full boundary of
 * L' and with the lean one (graph_boundary), which caches and spares less.
 *
 * Corrected: "replace min with max at line 15" (memory-centric) means line 17, and the skip rule of
 * section 4.2 holds for time-centric only: memory-centric needs its mirror, a larger t with no more
 * bytes dominates. Both are had by minimising -t. Equation (1) counts the last segment although
 * nothing of it need be run again: that reading is a rule, the default keeps it. The bytes of a
 * segment are those of graph_model.
 *
 * Pairs far apart go through the shared front (front.h); pairs close to each other are visited. */
#include "start/lowerset/frontier.h"

#include "model/arrays.h"
#include "start/lowerset/front.h"

#include <math.h>

/* Classes of bytes: 64 (thinned) or 256 per factor of two, over the 16 octaves below everything;
 * smaller budgets share the lowest class. Thinned lists keep one corner in every two classes. */
enum {
    THIN_BITS = 6,
    EXACT_BITS = 8,
    OCTAVES = 16,
    MOST_CLASSES = OCTAVES << EXACT_BITS,
    BLOCK = 8,            /* entries tried one by one */
    FEWEST = 1024,        /* candidates there is room for at first */
    COMPACT_FROM = 65536, /* candidates */
    PARALLEL_FROM = 8     /* sets of one group worth spreading over workers */
};

/* The cheapest candidate of one class of bytes so far. */
typedef struct champion {
    double bytes, cost;
    size_t index; /* in the front, while that is walked */
} champion;

/* Candidates for the corners of one set's staircase. below[k] is the least cost among those of the
 * classes under k: a candidate of class k that does not beat it is no corner. Nor is one that has
 * no fewer bytes than the champion of its own class and costs no less. */
typedef struct scratch {
    champion champions[MOST_CLASSES];
    double below[MOST_CLASSES + 1];
    uint32_t start[MOST_CLASSES + 2];
    graph_entry *candidates, *sorted;
    size_t count, capacity, compact_at;
} scratch;

typedef struct solving {
    const graph_view *graph;
    const graph_sets *sets;
    const graph_frontier_rules *rules;
    const remat_host *host;
    graph_frontier frontier;
    graph_front **fronts;    /* by level: of the sets of this level and above; NULL where unused */
    uint32_t *front_level;   /* by level: the lowest level at or above it that has sets */
    uint32_t *users;         /* by level: sets still to come that use its front */
    uint32_t *first;         /* by level: its first set; [n + 1] is count */
    scratch *scratches;      /* by worker */
    remat_status *statuses;  /* by worker */
    size_t group;            /* first set of the group under way */
    uint32_t classes, shift; /* of the bits of a double */
    int64_t lowest_class;
    double sign;  /* -1 when memory-centric */
    double noise; /* costs that differ by less are the same times summed in another order */
} solving;

static uint32_t class_of(const solving *s, double bytes)
{
    uint64_t bits;
    memcpy(&bits, &bytes, sizeof bits);
    int64_t class = (int64_t)(bits >> s->shift) - s->lowest_class;
    return class < 0 ? 0 : class >= s->classes ? s->classes - 1 : (uint32_t) class;
}

/* Out of the way of the pushes that find room. */
static __attribute__((noinline)) bool grow(scratch *to)
{
    size_t need = to->count < FEWEST ? FEWEST : to->count + 1, capacity = to->capacity;
    return model_reserve(&to->sorted, &capacity, need, sizeof *to->sorted) &&
           model_reserve(&to->candidates, &to->capacity, need, sizeof *to->candidates);
}

static remat_status push(scratch *to, graph_entry entry)
{
    if (to->count == to->capacity && !grow(to))
        return REMAT_NO_MEMORY;
    to->candidates[to->count++] = entry;
    return REMAT_OK;
}

/* Pushes a candidate that may be a corner and tells the classes above. */
static remat_status offer(const solving *s, scratch *to, graph_entry entry)
{
    uint32_t class = class_of(s, entry.bytes);
    champion *best = &to->champions[class];
    if (!(entry.cost + s->noise < to->below[class]) ||
        (entry.bytes >= best->bytes && !(entry.cost + s->noise < best->cost)))
        return REMAT_OK;
    if (entry.cost < best->cost)
        *best = (champion){.bytes = entry.bytes, .cost = entry.cost};
    for (uint32_t k = class + 1; k <= s->classes && to->below[k] > entry.cost; k++)
        to->below[k] = entry.cost;
    return push(to, entry);
}

/* ---- corners ---- */

static bool before(const graph_entry *a, const graph_entry *b)
{
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes;
    if (a->cost != b->cost)
        return a->cost < b->cost;
    return a->step != b->step ? a->step < b->step : a->entry < b->entry;
}

static int compare_entries(const void *left, const void *right)
{
    return before(left, right) ? -1 : before(right, left) ? 1 : 0;
}

static void insertion_sort(graph_entry *entries, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        graph_entry entry = entries[i];
        size_t k = i;
        for (; k > 0 && before(&entry, &entries[k - 1]); k--)
            entries[k] = entries[k - 1];
        entries[k] = entry;
    }
}

/* Drops the candidates that a later one of a lower class has beaten. */
static void drop_beaten(const solving *s, scratch *from)
{
    size_t kept = 0;
    for (size_t i = 0; i < from->count; i++) {
        graph_entry entry = from->candidates[i];
        from->candidates[kept] = entry;
        kept += entry.cost + s->noise < from->below[class_of(s, entry.bytes)];
    }
    from->count = kept;
}

/* Sorts the candidates: by class, then within each class. */
static void sort_candidates(const solving *s, scratch *from)
{
    enum { FEW = 24 };
    drop_beaten(s, from);
    memset(from->start, 0, (s->classes + 2) * sizeof *from->start);
    for (size_t i = 0; i < from->count; i++)
        from->start[class_of(s, from->candidates[i].bytes) + 2]++;
    for (uint32_t k = 2; k <= s->classes + 1; k++)
        from->start[k] += from->start[k - 1];
    for (size_t i = 0; i < from->count; i++)
        from->sorted[from->start[class_of(s, from->candidates[i].bytes) + 1]++] =
            from->candidates[i];
    for (uint32_t k = 0; k < s->classes; k++) {
        graph_entry *first = from->sorted + from->start[k];
        size_t count = from->start[k + 1] - from->start[k];
        if (count <= FEW)
            insertion_sort(first, count);
        else
            qsort(first, count, sizeof *first, compare_entries);
    }
}

/* Keeps of the sorted candidates the corners. Thinned, the first of all stays, for the least
 * feasible budget, and the last of every class. */
static uint32_t keep_corners(const solving *s, scratch *from, bool thin)
{
    uint32_t kept = 0;
    double best = INFINITY;
    graph_entry *sorted = from->sorted;
    for (size_t i = 0; i < from->count; i++) {
        if (!(sorted[i].cost + s->noise < best))
            continue;
        best = sorted[i].cost;
        bool replaces = thin && kept > 1 &&
                        class_of(s, sorted[kept - 1].bytes) / 2 == class_of(s, sorted[i].bytes) / 2;
        if (replaces)
            kept--;
        sorted[kept++] = sorted[i];
    }
    return kept;
}

/* Drops the candidates that are no corners already. */
static void compact(const solving *s, scratch *work)
{
    sort_candidates(s, work);
    work->count = keep_corners(s, work, false);
    graph_entry *sorted = work->sorted;
    work->sorted = work->candidates;
    work->candidates = sorted;
    work->compact_at = 2 * work->count + COMPACT_FROM;
}

/* ---- candidates ---- */

/* One segment from the set to V. */
static remat_status offer_last(const solving *s, scratch *to, const graph_set *from)
{
    const graph_set *all = &s->sets->sets[s->sets->count - 1];
    double cost = s->rules->last_recomputed ? s->sign * (all->time - from->time) : 0;
    return offer(s, to,
                 (graph_entry){.bytes = (double)(all->bytes + from->entry - from->bytes),
                               .cost = cost,
                               .step = graph_step(s->sets->count - 1, GRAPH_BOUNDARY_FULL)});
}

static double front_bytes(const graph_front_point *point, double offset)
{
    double bytes = point->x - offset;
    return bytes > point->y ? bytes : point->y;
}

static double least_of(double a, double b, double c)
{
    double least = a < b ? a : b;
    return least < c ? least : c;
}

/* Two walks: the first finds what each class has to beat, the second collects. */
static remat_status offer_far(const solving *s, scratch *to, const graph_set *from)
{
    const graph_front *front = s->fronts[s->front_level[from->far]];
    if (!front)
        return REMAT_OK;
    double offset = (double)(from->bytes - from->entry), time = s->sign * from->time;
    for (size_t i = 0; i < front->count; i++) {
        double bytes = front_bytes(&front->points[i], offset), cost = front->points[i].z - time;
        champion *best = &to->champions[class_of(s, bytes)];
        if (cost < best->cost || (cost <= best->cost && bytes < best->bytes))
            *best = (champion){.bytes = bytes, .cost = cost, .index = i};
    }
    for (uint32_t k = 1; k <= s->classes; k++)
        to->below[k] = least_of(to->below[k], to->below[k - 1], to->champions[k - 1].cost);
    for (size_t i = 0; i < front->count; i++) {
        const graph_front_point *point = &front->points[i];
        double bytes = front_bytes(point, offset), cost = point->z - time;
        uint32_t class = class_of(s, bytes);
        const champion *best = &to->champions[class];
        bool beaten = bytes >= best->bytes && !(cost + s->noise < best->cost) && i != best->index;
        if (beaten || !(cost + s->noise < to->below[class]))
            continue;
        if (push(to, (graph_entry){
                         .bytes = bytes, .cost = cost, .step = point->step, .entry = point->entry}))
            return REMAT_NO_MEMORY;
    }
    return REMAT_OK;
}

/* The boundary of `next` as far as it is in `from`: those nodes are cached already. */
static void shared_boundary(const solving *s, const uint64_t *from, const graph_set *next,
                            graph_boundary kind, uint64_t *ret_cached, double *ret_spared)
{
    const uint32_t *boundary = s->sets->boundary + next->first;
    *ret_cached = 0;
    *ret_spared = 0;
    for (uint32_t i = 0; i < next->n_boundary; i++)
        if (graph_bit(from, boundary[i])) {
            *ret_cached += s->graph->cached[kind][boundary[i]];
            *ret_spared += s->graph->spared[kind][boundary[i]];
        }
}

/* What the segment from one set to a near one needs and costs. */
typedef struct pair {
    double segment, cached, cost;
    uint32_t step;
} pair;

static pair pair_between(const solving *s, size_t from, size_t next, graph_boundary kind)
{
    const graph_set *a = &s->sets->sets[from], *b = &s->sets->sets[next];
    uint64_t shared;
    double shared_spared;
    shared_boundary(s, graph_sets_bits(s->sets, from), b, kind, &shared, &shared_spared);
    return (pair){.segment = (double)(b->bytes + b->leave + a->entry - a->bytes),
                  .cached = (double)(b->boundary_cached[kind] - shared),
                  .cost = s->sign * (b->time - b->boundary_spared[kind] + shared_spared - a->time),
                  .step = graph_step(next, kind)};
}

static double pair_bytes(const pair *one, const graph_entry *entry)
{
    double bytes = one->cached + entry->bytes;
    return bytes > one->segment ? bytes : one->segment;
}

/* First entry that the step brings past the bytes of its own segment, less one: of those before it
 * only the last, the cheapest, can be a corner. */
static uint32_t first_of_use(const pair *one, const graph_entry *entries, uint32_t count)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (one->cached + entries[middle].bytes <= one->segment)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? low - 1 : 0;
}

/* Whether entries first .. last are all beaten: the cheapest of them with the bytes of the least.
 */
static bool all_beaten(const solving *s, const scratch *work, const pair *one,
                       const graph_entry *entries, uint32_t first, uint32_t last)
{
    return !(one->cost + entries[last].cost + s->noise <
             work->below[class_of(s, pair_bytes(one, &entries[first]))]);
}

/* Entries first .. last of the next set, halved until they are beaten or few. */
static remat_status offer_range(const solving *s, scratch *to, const pair *one,
                                const graph_entry *entries, uint32_t first, uint32_t last)
{
    if (all_beaten(s, to, one, entries, first, last))
        return REMAT_OK;
    if (last - first >= BLOCK) {
        uint32_t middle = first + (last - first) / 2;
        remat_status status = offer_range(s, to, one, entries, first, middle);
        return status ? status : offer_range(s, to, one, entries, middle + 1, last);
    }
    for (uint32_t i = first; i <= last; i++)
        if (offer(s, to,
                  (graph_entry){.bytes = pair_bytes(one, &entries[i]),
                                .cost = one->cost + entries[i].cost,
                                .step = one->step,
                                .entry = i}))
            return REMAT_NO_MEMORY;
    return REMAT_OK;
}

/* Kinds of boundary worth trying for a set: the lean one only where it is another. */
static int kinds_of(const solving *s, const graph_set *set)
{
    bool lean = s->rules->lean && set->boundary_cached[GRAPH_BOUNDARY_LEAN] <
                                      set->boundary_cached[GRAPH_BOUNDARY_FULL];
    return lean ? GRAPH_BOUNDARIES : 1;
}

static remat_status offer_pair(const solving *s, scratch *to, size_t from, size_t next)
{
    const graph_entry *entries = s->frontier.entries[next];
    uint32_t count = s->frontier.counts[next];
    remat_status status = REMAT_OK;
    for (int kind = 0; kind < kinds_of(s, &s->sets->sets[next]) && !status; kind++) {
        pair one = pair_between(s, from, next, (graph_boundary)kind);
        if (!all_beaten(s, to, &one, entries, 0, count - 1))
            status =
                offer_range(s, to, &one, entries, first_of_use(&one, entries, count), count - 1);
    }
    return status;
}

static remat_status offer_near(const solving *s, scratch *to, size_t from)
{
    const uint64_t *bits = graph_sets_bits(s->sets, from);
    size_t end = s->first[s->sets->sets[from].far];
    if (end > s->sets->count - 1)
        end = s->sets->count - 1;
    for (size_t next = from + 1; next < end; next++) {
        if (!graph_subset(bits, graph_sets_bits(s->sets, next), s->sets->words))
            continue;
        if (offer_pair(s, to, from, next))
            return REMAT_NO_MEMORY;
        if (to->count > to->compact_at)
            compact(s, to);
        if (remat_host_cancelled(s->host))
            return REMAT_CANCELLED;
    }
    return REMAT_OK;
}

/* ---- the staircase of one set ---- */

static remat_status solve_set(solving *s, size_t index, scratch *work)
{
    const graph_set *set = &s->sets->sets[index];
    work->count = 0;
    work->compact_at = COMPACT_FROM;
    for (uint32_t k = 0; k <= s->classes; k++)
        work->below[k] = INFINITY;
    for (uint32_t k = 0; k < s->classes; k++)
        work->champions[k] = (champion){.bytes = INFINITY, .cost = INFINITY};
    remat_status status = offer_last(s, work, set);
    if (!status)
        status = offer_far(s, work, set);
    if (!status)
        status = offer_near(s, work, index);
    if (status)
        return status;
    sort_candidates(s, work);
    uint32_t count = keep_corners(s, work, s->rules->thinned);
    graph_entry *entries = malloc(count * sizeof *entries);
    if (!entries)
        return REMAT_NO_MEMORY;
    memcpy(entries, work->sorted, count * sizeof *entries);
    s->frontier.entries[index] = entries;
    s->frontier.counts[index] = count;
    return REMAT_OK;
}

static void solve_one(void *context, size_t i, unsigned worker)
{
    solving *s = context;
    if (s->statuses[worker])
        return;
    if (remat_host_cancelled(s->host))
        s->statuses[worker] = REMAT_CANCELLED;
    else
        s->statuses[worker] = solve_set(s, s->group + i, &s->scratches[worker]);
}

/* ---- level by level ---- */

static remat_status note_statuses(const solving *s, remat_error *error)
{
    for (unsigned w = 0; w < remat_host_workers(s->host); w++) {
        if (s->statuses[w] == REMAT_CANCELLED)
            return remat_fail(error, REMAT_CANCELLED, NULL, "cancelled");
        if (s->statuses[w])
            return remat_fail_memory(error);
    }
    return REMAT_OK;
}

/* Solves the sets first .. end - 1 of one level and one size, none of which contains another. */
static remat_status solve_group(solving *s, size_t first, size_t end, remat_error *error)
{
    s->group = first;
    if (end - first >= PARALLEL_FROM)
        remat_host_parallel_for(s->host, end - first, solve_one, s);
    else
        for (size_t i = 0; i < end - first; i++)
            solve_one(s, i, 0);
    for (size_t i = first; i < end; i++)
        s->frontier.table_bytes += s->frontier.counts[i] * sizeof(graph_entry);
    return note_statuses(s, error);
}

/* The points of one set; returns how many. */
static size_t points_of(const solving *s, size_t index, graph_boundary kind,
                        graph_front_point *points)
{
    const graph_set *set = &s->sets->sets[index];
    const graph_entry *entries = s->frontier.entries[index];
    double x = (double)(set->bytes + set->leave), y = (double)set->boundary_cached[kind];
    double z = s->sign * (set->time - set->boundary_spared[kind]);
    for (uint32_t e = 0; e < s->frontier.counts[index]; e++)
        points[e] = (graph_front_point){.x = x,
                                        .y = y + entries[e].bytes,
                                        .z = z + entries[e].cost,
                                        .step = graph_step(index, kind),
                                        .entry = e};
    return s->frontier.counts[index];
}

/* The front of a level: that of the level above and the points of its own sets. */
static remat_status add_front(solving *s, uint32_t level, remat_error *error)
{
    size_t first = s->first[level], end = s->first[level + 1], count = 0;
    for (size_t i = first; i < end; i++)
        count += s->frontier.counts[i] * (size_t)kinds_of(s, &s->sets->sets[i]);
    graph_front_point *points = malloc((count + 1) * sizeof *points);
    if (!points)
        return remat_fail_memory(error);
    size_t k = 0;
    for (size_t i = first; i < end; i++)
        for (int kind = 0; kind < kinds_of(s, &s->sets->sets[i]); kind++)
            k += points_of(s, i, (graph_boundary)kind, points + k);
    s->fronts[level] = graph_front_merge(s->fronts[s->front_level[level + 1]], points, count);
    free(points);
    if (!s->fronts[level])
        return remat_fail_memory(error);
    s->frontier.table_bytes += s->fronts[level]->count * sizeof(graph_front_point);
    return REMAT_OK;
}

/* Frees the fronts that no set to come uses; the one of `level` is still to be built on. */
static void release_fronts(solving *s, uint32_t level)
{
    for (size_t i = s->first[level]; i < s->first[level + 1]; i++)
        s->users[s->front_level[s->sets->sets[i].far]]--;
    for (uint32_t l = level + 1; l <= s->graph->n; l++)
        if (s->fronts[l] && s->users[l] == 0) {
            s->frontier.table_bytes -= s->fronts[l]->count * sizeof(graph_front_point);
            free(s->fronts[l]);
            s->fronts[l] = NULL;
        }
}

static remat_status solve_level(solving *s, uint32_t level, remat_error *error)
{
    size_t first = s->first[level], end = s->first[level + 1];
    for (size_t high = end; high > first;) {
        size_t low = high - 1;
        while (low > first && s->sets->sets[low - 1].size == s->sets->sets[high - 1].size)
            low--;
        remat_status status = solve_group(s, low, high, error);
        if (status)
            return status;
        high = low;
    }
    remat_status status = add_front(s, level, error);
    if (status)
        return status;
    release_fronts(s, level);
    if (s->rules->memory_limit && s->frontier.table_bytes > s->rules->memory_limit)
        return remat_fail(error, REMAT_TOO_LARGE, NULL,
                          "the Pareto lists of %zu lower sets pass the limit of %llu bytes",
                          s->sets->count, (unsigned long long)s->rules->memory_limit);
    remat_host_progress(s->host, 0.9 * (double)(s->sets->count - first) / (double)s->sets->count);
    return REMAT_OK;
}

/* V itself continues with nothing. */
static remat_status solve_all(solving *s, remat_error *error)
{
    size_t all = s->sets->count - 1;
    s->frontier.entries[all] = calloc(1, sizeof(graph_entry));
    if (!s->frontier.entries[all])
        return remat_fail_memory(error);
    s->frontier.counts[all] = 1;
    remat_status status = REMAT_OK;
    for (uint32_t level = s->graph->n; level-- > 0 && !status;)
        if (s->first[level] < s->first[level + 1])
            status = solve_level(s, level, error);
    return status;
}

/* ---- set up and release ---- */

static void index_levels(solving *s)
{
    uint32_t n = s->graph->n;
    size_t i = 0;
    for (uint32_t level = 0; level <= n + 1; level++) {
        while (i < s->sets->count && s->sets->sets[i].level < level)
            i++;
        s->first[level] = (uint32_t)i;
    }
    s->front_level[n + 1] = s->front_level[n] = n; /* V is never part of a front */
    for (uint32_t level = n; level-- > 0;)
        s->front_level[level] =
            s->first[level] < s->first[level + 1] ? level : s->front_level[level + 1];
    for (i = 0; i + 1 < s->sets->count; i++)
        s->users[s->front_level[s->sets->sets[i].far]]++;
    s->noise = s->sets->sets[s->sets->count - 1].time * 1e-13;
    double everything = (double)s->sets->sets[s->sets->count - 1].bytes + 1;
    uint32_t octave = s->rules->thinned ? THIN_BITS : EXACT_BITS;
    s->shift = 52 - octave;
    s->classes = (uint32_t)OCTAVES << octave;
    uint64_t bits;
    memcpy(&bits, &everything, sizeof bits);
    s->lowest_class = (int64_t)(bits >> s->shift) + (1 << octave) - s->classes;
}

static remat_status allocate(solving *s, remat_error *error)
{
    size_t levels = (size_t)s->graph->n + 2, workers = remat_host_workers(s->host);
    s->frontier.n_sets = s->sets->count;
    s->frontier.entries = calloc(s->sets->count, sizeof *s->frontier.entries);
    s->frontier.counts = calloc(s->sets->count, sizeof *s->frontier.counts);
    s->fronts = calloc(levels, sizeof(graph_front *));
    s->front_level = calloc(levels, sizeof *s->front_level);
    s->users = calloc(levels, sizeof *s->users);
    s->first = calloc(levels, sizeof *s->first);
    s->scratches = calloc(workers, sizeof *s->scratches);
    s->statuses = calloc(workers, sizeof *s->statuses);
    if (!s->frontier.entries || !s->frontier.counts || !s->fronts || !s->front_level || !s->users ||
        !s->first || !s->scratches || !s->statuses)
        return remat_fail_memory(error);
    return REMAT_OK;
}

static void release(solving *s)
{
    for (size_t l = 0; s->fronts && l < (size_t)s->graph->n + 2; l++)
        free(s->fronts[l]);
    for (unsigned w = 0; s->scratches && w < remat_host_workers(s->host); w++) {
        free(s->scratches[w].candidates);
        free(s->scratches[w].sorted);
    }
    free(s->fronts);
    free(s->front_level);
    free(s->users);
    free(s->first);
    free(s->scratches);
    free(s->statuses);
}

remat_status graph_frontier_init(graph_frontier *ret_frontier, const graph_view *graph,
                                 const graph_sets *sets, const graph_frontier_rules *rules,
                                 const remat_host *host, remat_error *error)
{
    solving s = {.graph = graph,
                 .sets = sets,
                 .rules = rules,
                 .host = host,
                 .sign = rules->memory_centric ? -1 : 1};
    remat_status status = allocate(&s, error);
    if (!status) {
        index_levels(&s);
        status = solve_all(&s, error);
    }
    release(&s);
    if (status) {
        graph_frontier_clear(&s.frontier);
        return status;
    }
    *ret_frontier = s.frontier;
    return REMAT_OK;
}

uint64_t graph_frontier_bytes(size_t n_sets)
{
    uint64_t entries = (uint64_t)n_sets * GRAPH_FRONTIER_LIST + 2 * FEWEST;
    return entries * sizeof(graph_entry) + sizeof(scratch);
}

void graph_frontier_clear(graph_frontier *frontier)
{
    for (size_t i = 0; frontier->entries && i < frontier->n_sets; i++)
        free(frontier->entries[i]);
    free(frontier->entries);
    free(frontier->counts);
    *frontier = (graph_frontier){0};
}

void graph_frontier_path(const graph_frontier *frontier, const graph_sets *sets, uint32_t entry,
                         const graph_plan *plan)
{
    size_t set = 0;
    for (uint32_t g = 0; set != sets->count - 1; g++) {
        const graph_entry *one = &frontier->entries[set][entry];
        size_t next = one->step / GRAPH_BOUNDARIES;
        const uint64_t *from = graph_sets_bits(sets, set), *to = graph_sets_bits(sets, next);
        for (uint32_t w = 0; w < sets->words; w++)
            for (uint64_t added = to[w] & ~from[w]; added; added &= added - 1) {
                uint32_t v = w * 64 + (uint32_t)__builtin_ctzll(added);
                plan->segment[v] = g;
                plan->lean[v] = one->step % GRAPH_BOUNDARIES == GRAPH_BOUNDARY_LEAN;
            }
        set = next;
        entry = one->entry;
    }
}
