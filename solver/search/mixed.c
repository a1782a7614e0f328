/* A list is a row of items: runs (F, A or B of a node), copies out (O) and fetches (P). D, X and
 * whether a forward saves follow from it. One pass from the end finds the last use of everything
 * and with it the bytes during each item; one pass from the start plays the compute stream and the
 * two of the link. What dies while its copy is under way stays until the copy has ended or, where
 * the budget needs the room earlier, compute waits for it: a D as late as memory allows is never
 * worse than an earlier one, so it has no place of its own in the search.
 *
 * Moves take away a rerun or a fetch, put one before a use, turn one into the other, or give a
 * fetch another lead. They may make a list invalid or too large: the first is refused, the second
 * costs a price for each byte, which follows how often lists fit. Most moves look at the bytes:
 * what is alive where a list is too large, or becomes so where something is brought back no more,
 * is sent away up to its next use.
 *
 * A copy that delays nothing is free, and the link would fill up with whatever was sent first; so a
 * search begins with a toll on the time of copies, by which it makes again what is cheap for its
 * bytes and moves what is dear, and which falls to nothing. What is right depends on how scarce the
 * link is, so seeds begin with different ones. Mean of 13 questions over three links: looking takes
 * 0.45 points of overhead off, the toll 0.25 more.
 *
 * Simulated annealing, from several seeds; the best list that fits is kept. Between a list that
 * makes the attention of one more layer again and one that makes two dozen norms again instead lie
 * as many moves that each cost: a thorough seed leaves a whole stretch of reruns out of its best
 * list, anneals what that leaves too large for a while, and does so again and again. */
#include "search/mixed.h"

#include "search/mixed_row.h"

#include <math.h>

/* Parts of a seed's work. Then it goes on from its best list; a thorough one in excursions from it,
 * each so long and so hot when it begins. */
#define LAST_PART 0.8
#define FIRST_EXCURSION 0.3
#define EXCURSION 0.02
#define WARM 0.1
enum {
    SEEDS = 8,
    LOOK = 256,
    PRICE_STEP = 235,
    FAR = 30,
    FEW = 60,
    FEWER = 24,
    TINY = 12,
    TINY_WORK = 4000, /* of the first round, by operations */
    SHORT = 300,
    LONG = 500,
    LONGEST = 3500
};

/* ---- annealing ---- */

static void keep(mixer *m, const worth *w)
{
    if (w->excess > 0 || w->time >= m->best_time)
        return;
    m->best_time = w->time;
    row_copy(&m->now, &m->best);
    memcpy(m->best_ways, m->t->backward_way, m->t->n * sizeof *m->best_ways);
}

/* What the last move changed beside the row is as it was. */
static void turn_back(mixer *m)
{
    if (m->turned != NONE)
        mixed_set_way(m->t, m->turned, m->old_way);
}

/* The seeds are told of as if one came after the other, each in hundredths. */
static void tell(mixer *m)
{
    const uint32_t now = (uint32_t)(100 * m->work / m->limit);
    if (now > m->told)
        remat_host_progress(m->host, m->begin + m->share * fmin(1, now / 100.0));
    m->told = now;
}

/* Copies that nobody needs cost nothing, and would fill the row. What is left is listed. */
static void sweep(mixer *m)
{
    row *r = &m->now;
    uint32_t n = 0;
    memset(m->n_free, 0, sizeof m->n_free);
    for (uint32_t i = 0; i < r->length; i++) {
        const item *it = &r->items[i];
        if (m->marks[i] & SKIPPED)
            continue;
        if (!it->always)
            m->free_items[it->kind * m->room + m->n_free[it->kind]++] = n;
        r->items[n] = *it;
        m->level[n++] = m->level[i];
    }
    r->length = n;
}

/* What was evaluated last is the list now. */
static void settle(mixer *m, const worth *w)
{
    sweep(m);
    double *level = m->now_level;
    m->now_level = m->level;
    m->level = level;
    m->over = w->excess > 0;
    keep(m, w);
}

static double cost_of(const mixer *m, const worth *w)
{
    return w->time + m->toll * w->copying + m->price * w->excess;
}

static double progress_of(const mixer *m)
{
    return (double)m->work / (double)m->limit;
}

/* Goes on from the best list that was found. */
static worth return_to_best(mixer *m)
{
    row_copy(&m->best, &m->now);
    for (uint32_t v = 0; v < m->t->n; v++)
        mixed_set_way(m->t, v, m->best_ways[v]);
    const worth now = mixed_evaluate(m, &m->now, INFINITY);
    settle(m, &now);
    return now;
}

/* The same without a stretch of reruns, where nothing else needs them. */
static worth go_out(mixer *m)
{
    const worth best = return_to_best(m);
    row_copy(&m->now, &m->next);
    if (!mixed_leave_out(m, &m->next))
        return best;
    const worth out = mixed_evaluate(m, &m->next, INFINITY);
    if (!out.valid)
        return best;
    row_copy(&m->next, &m->now);
    settle(m, &out);
    return out;
}

/* Falls to a hundredth, from further up where the start does not fit and is not to be mended; in
 * each excursion to a fiftieth of what it begins with. */
static double temperature_of(const mixer *m, double far, double progress, double out_since)
{
    return out_since > 0 ? m->temperature * WARM * pow(0.02, (progress - out_since) / EXCURSION)
                         : m->temperature * far * pow(0.01 / far, progress);
}

static void anneal(mixer *m)
{
    worth now = mixed_evaluate(m, &m->now, INFINITY);
    const double far = now.excess > 0 && !m->t->pads ? FAR : 1;
    double turn = m->thorough ? FIRST_EXCURSION : LAST_PART, out_since = 0; /* of the progress */
    uint32_t tried = 0, fitted = 0;
    settle(m, &now);
    for (uint64_t k = 0; m->work < m->limit && m->best_time > m->enough && now.valid; k++) {
        if (k % LOOK == 0 && remat_host_cancelled(m->host))
            break;
        if (k % LOOK == 0)
            tell(m);
        m->work += 1 + m->now.length / 16;
        const double progress = progress_of(m);
        if (progress > turn && m->best_time < INFINITY) {
            now = m->thorough ? go_out(m) : return_to_best(m);
            out_since = m->thorough ? progress : 0;
            turn = m->thorough ? progress + EXCURSION : 1;
        }
        row_copy(&m->now, &m->next);
        m->toll = m->first_toll * (1 - progress);
        const double chance = draw_unit(m);
        double most = 0; /* that it may cost */
        worth next = {.valid = false};
        if (mixed_propose(m, &m->next) && m->next.length + 2 * MOST_REMADE <= m->room) {
            most = cost_of(m, &now) - temperature_of(m, far, progress, out_since) * log(chance);
            next = mixed_evaluate(m, &m->next, most);
        }
        if (next.valid && !next.hopeless && cost_of(m, &next) <= most) {
            row old = m->now;
            m->now = m->next;
            m->next = old;
            now = next;
            settle(m, &now);
        } else {
            turn_back(m);
        }
        fitted += now.excess == 0;
        if (++tried == PRICE_STEP) {
            m->price *= fitted < tried / 3 ? 1.25 : fitted > tried * 2 / 3 ? 0.8 : 1;
            tried = fitted = 0;
        }
    }
}

static bool mixer_init(mixer *m, const things *t, uint32_t length)
{
    const size_t things_n = t->n_things, room = 3 * (size_t)length + 2 * (size_t)t->n_things + 64;
    m->room = (uint32_t)room;
    m->free_items = malloc(KINDS * room * sizeof *m->free_items);
    m->now_level = malloc(room * sizeof *m->now_level);
    m->seen = calloc(things_n, sizeof *m->seen);
    m->idle = malloc(things_n * sizeof *m->idle);
    m->last = malloc(things_n * sizeof *m->last);
    m->wanted = malloc(things_n);
    m->leaves = malloc(things_n);
    m->touches = malloc(things_n * sizeof *m->touches);
    m->copy_end = malloc(things_n * sizeof *m->copy_end);
    m->ready = malloc(things_n * sizeof *m->ready);
    m->pending = malloc(room * sizeof *m->pending);
    m->change = malloc((room + 2) * sizeof *m->change);
    m->extra = malloc(room * sizeof *m->extra);
    m->freed = malloc((room + 1) * sizeof *m->freed);
    m->level = malloc(room * sizeof *m->level);
    m->takes = malloc(room * sizeof *m->takes);
    m->marks = malloc(room + 1);
    m->best_ways = malloc(t->n * sizeof *m->best_ways);
    m->dies = malloc((room + 1) * sizeof *m->dies);
    m->death_thing = malloc(room * sizeof *m->death_thing);
    m->death_next = malloc(room * sizeof *m->death_next);
    return row_new(&m->now, m->room) && row_new(&m->next, m->room) && row_new(&m->best, m->room) &&
           m->free_items && m->now_level && m->seen && m->idle && m->last && m->wanted &&
           m->leaves && m->touches && m->copy_end && m->ready && m->pending && m->change &&
           m->extra && m->freed && m->level && m->takes && m->marks && m->best_ways && m->dies &&
           m->death_thing && m->death_next;
}

static void mixer_clear(mixer *m)
{
    void *const owned[] = {m->now_level,  m->seen,      m->idle,    m->now.items, m->next.items,
                           m->best.items, m->last,      m->wanted,  m->leaves,    m->touches,
                           m->copy_end,   m->ready,     m->pending, m->level,     m->takes,
                           m->change,     m->extra,     m->marks,   m->dies,      m->death_thing,
                           m->death_next, m->best_ways, m->freed,   m->free_items};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        free(owned[i]);
    model_arena_clear(&m->own.arena);
}

/* ---- all seeds ---- */

static uint32_t thing_of(const things *t, const remat_operation *o)
{
    return o->target == REMAT_SAVED   ? t->n_values + o->index
           : o->target == REMAT_INPUT ? t->n + o->index
                                      : remat_operation_value(t->profile, o);
}

/* Of the reruns that save nothing those stay plain that come while something saved is waited for.
 */
static void find_plain(const things *t, bool *waited_for, row *r)
{
    memset(waited_for, 0, t->n * sizeof *waited_for);
    for (uint32_t i = r->length; i-- > 0;) {
        item *it = &r->items[i];
        const bool copy = it->kind != RUN;
        if (copy && it->id >= t->n_values) {
            waited_for[it->id - t->n_values] = it->kind == OUT;
        } else if (!copy && is_backward(t, it->id)) {
            waited_for[it->id - t->n] = t->bytes[saved_thing(t, it->id - t->n)] > 0;
        } else if (!copy) {
            it->plain = it->plain && waited_for[it->id];
            waited_for[it->id] = it->plain;
        }
    }
}

static void read_list(const things *t, const remat_operations *list, bool *ran, row *ret_row)
{
    for (size_t i = 0; i < list->length; i++) {
        const remat_operation *o = &list->items[i];
        item it = {.id = o->index, .way = o->alternative, .kind = RUN};
        if (o->kind == REMAT_B) {
            it.id = t->n + o->index;
            it.always = true;
        } else if (o->kind == REMAT_F || o->kind == REMAT_A) {
            it.always = !ran[o->index];
            it.plain = o->kind == REMAT_F && ran[o->index];
            ran[o->index] = true;
        } else if (o->kind == REMAT_O || o->kind == REMAT_P) {
            it = (item){.id = thing_of(t, o), .kind = o->kind == REMAT_O ? OUT : FETCH};
        } else {
            continue;
        }
        ret_row->items[ret_row->length++] = it;
    }
    find_plain(t, ran, ret_row);
}

typedef struct mixing {
    const remat_profile *profile;
    const remat_link *link;
    const remat_host *host;
    const remat_operations *start;
    double enough; /* no list takes less */
    uint64_t budget, limit;
    const uint64_t *pads;
    size_t seeds;
    uint32_t alignment;
    bool given, thorough;
    uint32_t round;
    bool agreed; /* all seeds of the last round ended with lists of the same time */
    mixer mixers[SEEDS];
} mixing;

static remat_status set_up(mixing *x, mixer *m, size_t index)
{
    static const double heat[SEEDS] = {4e-4, 8e-4, 1.2e-3, 3e-4, 6e-4, 1e-3, 5e-4, 2e-4};
    static const double tolls[SEEDS] = {0.015, 0.03, 0.06, 0.1, 0, 0.022, 0.045, 0.08};
    const uint32_t n = x->profile->n_nodes;
    static const double of_fewer[SEEDS] = {1, 4, 1, 40, 1, 4, 1, 40};
    const double hotter = (n <= FEWER ? of_fewer[index] : 1) * fmax(1, (double)FEW / n);
    bool *ran = calloc(n, sizeof *ran);
    *m = (mixer){.t = &m->own,
                 .host = x->host,
                 .random = UINT64_C(0x9E3779B97F4A7C15) * (x->round * SEEDS + index + 1),
                 .turned = NONE,
                 .best_time = INFINITY,
                 .enough = x->enough,
                 .few = n <= FEWER,
                 .given = x->given,
                 .thorough = x->thorough,
                 .begin = (double)index / (double)x->seeds,
                 .share = 1 / (double)x->seeds,
                 .limit = x->limit};
    remat_status status =
        mixed_things_init(&m->own, x->profile, x->link, x->start, x->budget, x->pads, x->alignment);
    if (!status && (!ran || !mixer_init(m, &m->own, (uint32_t)x->start->length)))
        status = REMAT_NO_MEMORY;
    if (!status) {
        m->first_toll = tolls[index];
        m->price = m->own.total_time / (100 * m->own.budget + 1);
        m->temperature = heat[index] * hotter * m->own.total_time;
        read_list(&m->own, x->start, ran, &m->now);
    }
    free(ran);
    return status;
}

static void run_seed(void *context, size_t index, unsigned worker)
{
    (void)worker;
    mixing *x = context;
    mixer *m = &x->mixers[index];
    m->status = set_up(x, m, index);
    if (!m->status)
        anneal(m);
}

/* The best list of all seeds instead of *list where it takes less than *time. */
static remat_status take_best(mixing *x, double *time, remat_operations *list, remat_error *error)
{
    mixer *best = NULL;
    for (size_t i = 0; i < x->seeds; i++)
        if (x->mixers[i].best_time < (best ? best->best_time : *time))
            best = &x->mixers[i];
    if (remat_host_cancelled(x->host) && !((best || *time < INFINITY) && remat_host_late(x->host)))
        return remat_fail(error, REMAT_CANCELLED, NULL, "cancelled");
    for (size_t i = 0; i < x->seeds; i++)
        if (x->mixers[i].status)
            return remat_fail_memory(error);
    if (!best)
        return REMAT_OK;
    *time = best->best_time;
    remat_operations_clear(list);
    for (uint32_t v = 0; v < best->t->n; v++)
        mixed_set_way(best->t, v, best->best_ways[v]);
    return mixed_write_list(best, &best->best, list, error);
}

static remat_status run_round(mixing *x, double *time, remat_operations *list, remat_error *error)
{
    remat_host_parallel_for(x->host, x->seeds, run_seed, x);
    const remat_status status = take_best(x, time, list, error);
    x->agreed = *time < INFINITY;
    for (size_t i = 0; i < x->seeds; i++) {
        x->agreed &= x->mixers[i].best_time <= *time * (1 + 1e-9);
        mixer_clear(&x->mixers[i]);
    }
    x->round++;
    return status;
}

/* Of a tiny graph in rounds of ever more work: a thorough search, which comes after quick and
 * patient ones that found all there is, as a rule, until one finds nothing better; quick and
 * patient ones, which then end 3 and 5 % above an optimum now and then, until all seeds agree. */
static remat_status run_rounds(mixing *x, remat_operations *list, remat_error *error)
{
    const uint64_t most = x->limit, first = (uint64_t)TINY_WORK * x->start->length;
    double time = INFINITY, before;
    bool last;
    remat_status status;
    x->limit = x->profile->n_nodes <= TINY && first < most ? first : most;
    do {
        before = time;
        last = x->limit == most;
        status = run_round(x, &time, list, error);
        x->limit = 4 * x->limit < most ? 4 * x->limit : most;
    } while (!status && !last && time > x->enough &&
             (x->thorough ? x->round < 2 || time < before * (1 - 1e-9) : !x->agreed));
    return status;
}

/* Items passed over by one seed: at least these, and so many for each operation of the list. */
static const struct {
    double least, of_item;
    size_t seeds;
} efforts[] = {[REMAT_QUICK] = {600000, 16000, 4},
               [REMAT_THOROUGH] = {4000000, 450000, SEEDS},
               [REMAT_PATIENT] = {2400000, 64000, 4},
               [REMAT_BRIEF] = {300000, 8000, 4}};

/* Past LONG operations it grows with their root. Past LONGEST a quick one does less and less: such
 * lists come from units that are all alike, and are good when it begins. */
static uint64_t work_of(remat_effort effort, size_t length)
{
    double items = length <= LONG ? (double)length : sqrt(LONG * (double)length);
    if ((effort == REMAT_QUICK || effort == REMAT_BRIEF) && length > LONGEST)
        items *= pow(LONGEST / (double)length, 2);
    return (uint64_t)(efforts[effort].least + efforts[effort].of_item * items);
}

remat_status remat_mix(const remat_profile *profile, const remat_link *link,
                       const remat_operations *start, uint64_t budget, const uint64_t *pads,
                       bool given, uint32_t alignment, remat_effort effort, double lower_bound,
                       const remat_host *host, remat_operations *ret_list, remat_error *error)
{
    /* several short ones find more than a few long ones; of short lists all may be long */
    const bool share = profile->n_nodes <= FEWER || start->length > SHORT;
    const size_t seeds = start->length <= LONG ? SEEDS : efforts[effort].seeds;
    mixing *x = calloc(1, sizeof *x);
    if (!x)
        return remat_fail_memory(error);
    *x = (mixing){.profile = profile,
                  .link = link,
                  .host = host,
                  .start = start,
                  .enough = lower_bound * (1 + 1e-9),
                  .budget = budget,
                  .pads = pads,
                  .given = given && profile->joint,
                  .seeds = seeds,
                  .limit = work_of(effort, start->length) *
                           (share ? efforts[effort].seeds : seeds) / seeds / (pads ? 2 : 1),
                  .alignment = alignment,
                  .thorough = effort == REMAT_THOROUGH};
    const remat_status status = run_rounds(x, ret_list, error);
    free(x);
    return status;
}
