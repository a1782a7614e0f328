/* The moves of the mixed search. */
#include "search/mixed_row.h"

#include <math.h>

/* In hundredths: of the moves, those; of what goes by its bytes, what comes back over the link. */
enum { EXCHANGES = 50, RELIEFS = 30, FETCHED = 50 };
enum { LONGEST_LEAD = 200, PLAIN = 8 };

static uint32_t draw_lead(mixer *m, double mean)
{
    const double lead = 1 - mean * log(draw_unit(m));
    return lead < LONGEST_LEAD ? (uint32_t)lead : (uint32_t)LONGEST_LEAD;
}

static bool makes(const things *t, const item *it, uint32_t x)
{
    if (it->kind != RUN)
        return it->kind == FETCH && it->id == x;
    if (is_backward(t, it->id))
        return false;
    return x >= t->n_values
               ? it->id == x - t->n_values
               : remat_is_result(t->profile, x) && it->id == remat_value_node(t->profile, x);
}

static bool reads(const things *t, const item *it, uint32_t x)
{
    for (uint32_t k = it->kind == RUN ? t->tasks[it->id].reads : 0;
         it->kind == RUN && k < t->tasks[it->id].end; k++)
        if (t->list[k] == x)
            return true;
    return false;
}

static bool touches(const things *t, const item *it, uint32_t x)
{
    return makes(t, it, x) || reads(t, it, x) || (it->kind == OUT && it->id == x);
}

/* So many items before `at`, or as many as do not touch x. */
static uint32_t lead_from(mixer *m, const row *r, uint32_t x, uint32_t at, uint32_t lead)
{
    uint32_t from = at;
    while (from > 0 && at - from < lead && !touches(m->t, &r->items[from - 1], x))
        from--;
    m->work += (at - from) / 4; /* a look costs less than an evaluation */
    return from;
}

/* Of the items of `now` that may go, one of a kind; NONE: there is none. */
static uint32_t draw_item(mixer *m, item_kind kind)
{
    const uint32_t n = m->n_free[kind];
    return n > 0 ? m->free_items[kind * m->room + draw(m, n)] : NONE;
}

static uint32_t find(const row *r, item_kind kind, uint32_t id)
{
    for (uint32_t i = 0; i < r->length; i++)
        if (r->items[i].kind == kind && r->items[i].id == id)
            return i;
    return NONE;
}

/* The copy out that a fetch at `at` needs, right after the thing is first made; false: it is not.
 */
static bool ensure_copy(mixer *m, row *r, uint32_t x, uint32_t *at)
{
    uint32_t i = find(r, OUT, x);
    if (i != NONE)
        return i < *at;
    const uint32_t maker = x >= m->t->n_values ? x - m->t->n_values
                           : is_input(m->t, x) ? NONE
                                               : remat_value_node(m->t->profile, x);
    i = maker == NONE ? 0 : find(r, RUN, maker) + 1;
    if (i > *at)
        return false;
    row_insert(m, r, i, (item){.id = x, .kind = OUT});
    ++*at;
    return true;
}

static uint32_t node_that_makes(const things *t, uint32_t x)
{
    return x >= t->n_values ? x - t->n_values : remat_value_node(t->profile, x);
}

static bool put_fetch(mixer *m, row *r, uint32_t x, uint32_t use)
{
    if (!m->t->movable[x])
        return false;
    uint32_t at = lead_from(m, r, x, use, draw_lead(m, draw(m, 2) ? 6 : 60));
    if (at == use || !ensure_copy(m, r, x, &at))
        return false;
    row_insert(m, r, at, (item){.id = x, .kind = FETCH});
    return true;
}

static void drop_item(row *r, uint32_t i)
{
    const item gone = r->items[i];
    row_delete(r, i);
    const uint32_t copy =
        gone.kind == FETCH && find(r, FETCH, gone.id) == NONE ? find(r, OUT, gone.id) : NONE;
    if (copy != NONE)
        row_delete(r, copy);
}

/* A run of node v before `at`; of what it reads, what was not near comes back too, by chance. */
static void remake(mixer *m, row *r, uint32_t v, uint32_t at, int *left)
{
    const things *t = m->t;
    if (t->profile->nodes[v].once || --*left < 0)
        return;
    const bool plain = m->few && t->bytes[saved_thing(t, v)] > 0 && draw(m, PLAIN) == 0;
    row_insert(m, r, at, (item){.id = v, .kind = RUN, .plain = plain});
    const uint32_t window = draw_lead(m, 24);
    for (uint32_t k = t->tasks[v].reads; k < t->tasks[v].end; k++) {
        const uint32_t u = t->list[k];
        const uint32_t from = lead_from(m, r, u, at, window);
        if (at - from < window || draw(m, 3) == 0)
            continue;
        const uint32_t length = r->length;
        if (draw(m, 3) == 0)
            put_fetch(m, r, u, at);
        else if (remat_is_result(t->profile, u))
            remake(m, r, remat_value_node(t->profile, u), at, left);
        at += r->length - length;
    }
}

static uint32_t first_use(const mixer *m, const row *r, uint32_t x, uint32_t from)
{
    for (uint32_t i = from; i < r->length; i++)
        if (reads(m->t, &r->items[i], x))
            return i;
    return NONE;
}

/* Before a use comes a fetch, or another run. */
static bool bring_back(mixer *m, row *r, bool fetch)
{
    const things *t = m->t;
    const uint32_t i = draw(m, r->length);
    const item *it = &r->items[i];
    const uint32_t n_reads = it->kind == RUN ? t->tasks[it->id].end - t->tasks[it->id].reads : 0;
    if (n_reads == 0)
        return false;
    const uint32_t x = t->list[t->tasks[it->id].reads + draw(m, n_reads)];
    if (fetch)
        return put_fetch(m, r, x, i);
    if (is_input(t, x))
        return false;
    const uint32_t at = lead_from(m, r, x, i, draw_lead(m, 2));
    int left = MOST_REMADE;
    if (at == 0 || touches(t, &r->items[at - 1], x))
        return false;
    remake(m, r, node_that_makes(t, x), at, &left);
    return true;
}

static bool take_away(mixer *m, row *r)
{
    const uint32_t kind = draw(m, 24);
    const uint32_t i = draw_item(m, kind == 0 ? OUT : kind < 8 ? FETCH : RUN);
    if (i == NONE)
        return false;
    drop_item(r, i);
    return true;
}

/* A graph input leaves for good, or until it is fetched. */
static bool send_away(mixer *m, row *r, uint32_t x, uint32_t at)
{
    if (!m->t->movable[x] || find(r, OUT, x) != NONE)
        return false;
    row_insert(m, r, at, (item){.id = x, .kind = OUT});
    return true;
}

static bool send_input(mixer *m, row *r)
{
    const uint32_t inputs = m->t->profile->n_inputs;
    return inputs > 0 &&
           send_away(m, r, m->t->n + draw(m, inputs), draw(m, 2) ? 0 : draw(m, r->length));
}

/* A rerun becomes fetches of what it made. */
static bool run_to_fetch(mixer *m, row *r)
{
    const things *t = m->t;
    const uint32_t i = draw_item(m, RUN), which = 1 + draw(m, 3);
    if (i == NONE)
        return false;
    const uint32_t v = r->items[i].id;
    row_delete(r, i);
    for (uint32_t k = 0; k <= t->profile->nodes[v].n_outputs; k++) {
        const bool saved = k == t->profile->nodes[v].n_outputs;
        const uint32_t x = saved ? saved_thing(t, v) : remat_result_value(t->profile, v, k);
        const uint32_t use = which & (saved ? 1u : 2u) ? first_use(m, r, x, i) : NONE;
        if (use != NONE)
            put_fetch(m, r, x, use);
    }
    return true;
}

static bool fetch_to_run(mixer *m, row *r)
{
    const things *t = m->t;
    const uint32_t i = draw_item(m, FETCH);
    if (i == NONE || is_input(t, r->items[i].id))
        return false;
    const uint32_t x = r->items[i].id, length = r->length;
    drop_item(r, i);
    const uint32_t use = first_use(m, r, x, i - (length - r->length - 1));
    int left = MOST_REMADE;
    if (use != NONE)
        remake(m, r, node_that_makes(t, x), use, &left);
    return true;
}

static bool move_fetch(mixer *m, row *r)
{
    const uint32_t i = draw_item(m, FETCH);
    if (i == NONE)
        return false;
    const item it = r->items[i];
    row_delete(r, i);
    const uint32_t use = first_use(m, r, it.id, i);
    if (use == NONE)
        return false;
    const uint32_t lead = draw_lead(m, draw(m, 2) ? 6 : 60);
    row_insert(m, r, lead_from(m, r, it.id, use, lead), it);
    return true;
}

/* A rerun or a copy out stands elsewhere, some items away. */
static bool shift(mixer *m, row *r, item_kind kind)
{
    const uint32_t i = draw_item(m, kind);
    if (i == NONE)
        return false;
    const item it = r->items[i];
    const uint32_t lead = draw_lead(m, 12);
    row_delete(r, i);
    const uint32_t to = draw(m, 2) ? i + lead : i > lead ? i - lead : 0;
    row_insert(m, r, to < r->length ? to : r->length - 1, it);
    return true;
}

/* Whether the two, backwards of neighbours or a node's forward and backward, may not change places.
 */
static bool are_in_order(const things *t, const item *a, const item *b)
{
    if (a->kind != RUN || b->kind != RUN)
        return false;
    if (!is_backward(t, a->id) || !is_backward(t, b->id))
        return a->id + t->n == b->id || b->id + t->n == a->id;
    const uint32_t v = a->id - t->n, w = b->id - t->n;
    const remat_node *later = &t->profile->nodes[v > w ? v : w];
    for (uint32_t k = 0; k < later->n_inputs; k++)
        if (remat_is_result(t->profile, later->inputs[k]) &&
            remat_value_node(t->profile, later->inputs[k]) == (v > w ? w : v))
            return true;
    return false;
}

/* A first run or a backward stands elsewhere. That what it reads is there the evaluation sees. */
static bool reorder(mixer *m, row *r)
{
    const uint32_t i = draw(m, r->length), lead = draw_lead(m, 6);
    const bool later = draw(m, 2);
    const item it = r->items[i];
    uint32_t to = i;
    if (!it.always || m->given)
        return false;
    for (uint32_t k = 0; k < lead && (later ? to + 1 < r->length : to > 0); k++) {
        const uint32_t next = later ? to + 1 : to - 1;
        if (are_in_order(m->t, &it, &r->items[next]))
            break;
        to = next;
    }
    if (to == i)
        return false;
    row_delete(r, i);
    row_insert(m, r, to, it);
    return true;
}

static bool flip_plain(mixer *m, row *r)
{
    const uint32_t i = draw_item(m, RUN);
    if (i == NONE)
        return false;
    r->items[i].plain = !r->items[i].plain;
    return true;
}

static bool change_backward_way(mixer *m)
{
    const uint32_t v = draw(m, m->t->n), n = m->t->profile->nodes[v].n_alternatives;
    if (n == 0)
        return false;
    m->turned = v;
    m->old_way = m->t->backward_way[v];
    mixed_set_way(m->t, v, (uint16_t)draw(m, n + 1));
    return true;
}

/* Of a forward in the list, or of a backward with what is saved for it. */
static bool change_way(mixer *m, row *r)
{
    if (!m->t->profile->joint && draw(m, 2))
        return change_backward_way(m);
    const uint32_t i = draw(m, r->length);
    item *it = &r->items[i];
    const uint32_t n = it->kind == RUN && !is_backward(m->t, it->id)
                           ? m->t->profile->nodes[it->id].n_alternatives
                           : 0;
    if (n == 0)
        return false;
    it->way = (uint16_t)draw(m, n + 1);
    return true;
}

/* ---- moves that look at the bytes ---- */

/* Only the first time in a look it counts. */
static void meet(mixer *m, uint32_t x, uint32_t use, double weight, uint32_t *n)
{
    if (m->seen[x] != m->look && weight > 0)
        m->idle[(*n)++] = (idle){x, use, weight};
    m->seen[x] = m->look;
}

/* What is alive across an item and read after it, with its next use; of graph inputs also those
 * that are read no more. Returns how many. */
static uint32_t find_idle(mixer *m, const row *r, uint32_t at)
{
    const things *t = m->t;
    uint32_t n = 0;
    m->look++;
    for (uint32_t i = at; i < r->length; i++) {
        const item *it = &r->items[i];
        const double far = sqrt((double)(i - at));
        if (it->kind != RUN) {
            meet(m, it->id, i, 0, &n);
            continue;
        }
        for (uint32_t k = t->tasks[it->id].reads; k < t->tasks[it->id].end; k++)
            meet(m, t->list[k], i, far * t->bytes[t->list[k]], &n);
        for (uint32_t k = 0; !is_backward(t, it->id) && k < node_of(t, it->id)->n_outputs; k++)
            meet(m, remat_result_value(t->profile, it->id, k), i, 0, &n);
        if (!is_backward(t, it->id))
            meet(m, saved_thing(t, it->id), i, 0, &n);
    }
    for (uint32_t x = t->n; x < t->n + t->profile->n_inputs; x++)
        if (t->movable[x])
            meet(m, x, NONE, sqrt((double)(r->length - at)) * t->bytes[x], &n);
    m->work += (r->length - at) / 4;
    return n;
}

/* Something that is alive across the item goes, and comes back before its next use. */
static bool relieve(mixer *m, row *r, uint32_t at)
{
    const uint32_t n = find_idle(m, r, at);
    double sum = 0;
    for (uint32_t k = 0; k < n; k++)
        sum += m->idle[k].weight;
    double left = draw_unit(m) * sum;
    uint32_t pick = 0;
    while (pick + 1 < n && (left -= m->idle[pick].weight) > 0)
        pick++;
    if (n == 0)
        return false;
    const idle *one = &m->idle[pick];
    if (one->use == NONE)
        return send_away(m, r, one->thing, draw(m, 2) ? 0 : draw(m, at + 1));
    if (draw(m, 100) < FETCHED || is_input(m->t, one->thing))
        return put_fetch(m, r, one->thing, one->use);
    int runs = MOST_REMADE;
    remake(m, r, node_that_makes(m->t, one->thing), one->use, &runs);
    return runs < MOST_REMADE;
}

static bool relieve_excess(mixer *m, row *r)
{
    uint32_t at = NONE, n = 0;
    for (uint32_t i = 0; i < r->length; i++)
        if (m->now_level[i] > m->t->budget && draw(m, ++n) == 0)
            at = i;
    return at != NONE && relieve(m, r, at);
}

/* A rerun or a fetch goes, and where what it brought back then lives longer something else does.
 */
static bool exchange(mixer *m, row *r)
{
    const things *t = m->t;
    const uint32_t i = draw_item(m, draw(m, 3) == 0 ? FETCH : RUN);
    if (i == NONE)
        return false;
    const item gone = r->items[i];
    const uint32_t length = r->length;
    const uint32_t x = gone.kind == RUN ? remat_result_value(t->profile, gone.id, 0) : gone.id;
    uint32_t from = i, fullest = i;
    for (; from > 0 && !touches(t, &r->items[from - 1], x); from--)
        if (fullest == i || m->now_level[from - 1] > m->now_level[fullest])
            fullest = from - 1;
    m->work += (i - from) / 4;
    if (fullest == i)
        return false;
    const bool fits = m->now_level[fullest] + t->bytes[x] <= t->budget;
    drop_item(r, i);
    fullest -= length - r->length - 1; /* its copy out, which came before */
    return fits || relieve(m, r, fullest);
}

bool mixed_propose(mixer *m, row *r)
{
    const uint32_t by_bytes = draw(m, 100), kind = draw(m, 100);
    m->turned = NONE;
    if (by_bytes < EXCHANGES)
        return exchange(m, r);
    if (by_bytes < EXCHANGES + RELIEFS && m->over)
        return m->best_time == INFINITY && kind >= 70 ? reorder(m, r) : relieve_excess(m, r);
    if (kind < 2)
        return send_input(m, r);
    if (kind < 22)
        return bring_back(m, r, true);
    if (kind < 32)
        return bring_back(m, r, false);
    if (kind < 54)
        return take_away(m, r);
    if (kind < 70)
        return run_to_fetch(m, r);
    if (kind < 78)
        return fetch_to_run(m, r);
    if (kind < 88)
        return move_fetch(m, r);
    if (kind < 91)
        return shift(m, r, OUT);
    if (kind < 92 && !m->t->profile->joint)
        return flip_plain(m, r);
    if (kind < 94)
        return reorder(m, r);
    if (kind < 97 || m->t->profile->n_alternatives == 0)
        return shift(m, r, RUN);
    return change_way(m, r);
}

static bool may_go(const row *r, uint32_t i)
{
    return r->items[i].kind == RUN && !r->items[i].always;
}

bool mixed_leave_out(mixer *m, row *r)
{
    for (int k = 0; k < 32; k++) {
        const uint32_t i = draw(m, r->length);
        if (!may_go(r, i))
            continue;
        uint32_t low = i, high = i + 1;
        while (low > 0 && may_go(r, low - 1))
            low--;
        while (high < r->length && may_go(r, high))
            high++;
        if (high - low < 2)
            continue;
        memmove(&r->items[low], &r->items[high], (r->length - high) * sizeof *r->items);
        r->length -= high - low;
        return true;
    }
    return false;
}
