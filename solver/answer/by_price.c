/* The cuts of the bound's closure at the turn, from that of a price of nothing to that of bytes
 * alone, are nested: a higher price runs more again. Where a network repeats a layer all of its
 * layers change at the same few prices, so that between two neighbours some nodes take the dearer
 * cut, as many as the budget asks for.
 *
 * The cut knows the turn alone: at a high price it holds so little that all of the network is made
 * again at once. So every so many places where one value is all that is read of what came before,
 * that value is not made again. What lies between two of them is a group, of which the same is
 * asked once more: what it holds while it goes back, and what it runs a third time. Of some such
 * distances the fastest list is taken. Whether a list fits says a replay.
 *
 * Of a joint graph what stands behind the turn triggers what runs again, and there are no groups.
 */
#include "answer/by_price.h"

#include "answer/run_again.h"
#include "model/layout.h"
#include "model/lists.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    TRIES = 4,       /* with ever less for the peak, until the layout fits */
    LEFT_FREE = 250, /* that is a part of the budget */
    NARROW = 64,     /* what is read beside the one value is a smaller part of it; of a joint */
    NARROW_JOINT = 4 /* graph are so masks and the like, too, that every layer reads */
};

#define NOBODY UINT32_MAX

enum { AGAIN, TWICE, LEVELS };

/* Places from one value that stays to the next; 0: none stays. */
static const uint32_t distances[] = {0, 24, 16, 12, 8, 6, 4, 3, 2, 1};
enum {
    DISTANCES = sizeof distances / sizeof *distances,
    GROUPS = 16,
    PHASES = 4,
    MANY_NODES = 1400,
    JOINT_WORK = 300000 /* looks, for each node */
};
#define FAR 1.01   /* of the bound: groups are looked at too */
#define SPREAD 100 /* of prices around their mean */
#define WORTH 1e-4 /* of the makespan: less is not looked for */

typedef struct priced_cut {
    double time, held; /* what it runs again takes; bytes at the turn */
    bool *again;       /* by node */
} priced_cut;

typedef struct pricing {
    const answer_wish *wish;
    bound_moments *moments;
    uint64_t budget;
    double all; /* makespan of storing everything */
    uint32_t n_nodes, n_places, turn;
    uint32_t *places, *unit;
    bool *stays;                  /* by node */
    priced_cut low, high, middle; /* with room */
    priced_cut chosen[LEVELS];
    answer_again now;
    uint32_t looks; /* that are left for a joint graph */
    double fastest; /* of the lists that were found */
    remat_operations best;
} pricing;

/* ---- places ---- */

/* Of a joint graph: what it returns is there from then on. */
static bool returns(const remat_profile *profile, uint32_t v)
{
    for (uint32_t i = 0; i < profile->n_outputs; i++)
        if (profile->outputs[i] == v)
            return true;
    return false;
}

/* Up to the turn. */
static uint32_t last_reader(const remat_node *node, uint32_t turn)
{
    uint32_t k = node->n_consumers;
    while (k > 0 && node->consumers[k - 1] > turn)
        k--;
    return k > 0 ? node->consumers[k - 1] : NOBODY;
}

static double bytes_of(const remat_profile *profile, uint32_t v)
{
    double sum = 0;
    for (uint32_t k = 0; k < profile->nodes[v].n_outputs; k++)
        sum += (double)remat_value_bytes(profile, remat_result_value(profile, v, k));
    return sum;
}

static remat_status find_places(pricing *p, remat_error *error)
{
    const remat_profile *profile = p->wish->problem->profile;
    const double narrow = profile->joint ? NARROW_JOINT : NARROW;
    double crossing = 0; /* bytes of what came before that is read after */
    double *ends = calloc(p->n_nodes + 1, sizeof *ends);
    if (!ends)
        return remat_fail_memory(error);
    for (uint32_t v = 0; v < p->turn; v++) {
        const double own = bytes_of(profile, v);
        const uint32_t reader = last_reader(&profile->nodes[v], p->turn);
        crossing -= ends[v];
        if (reader == NOBODY || returns(profile, v))
            continue;
        if (crossing * narrow <= own && own > 0)
            p->places[p->n_places++] = v;
        crossing += own;
        ends[reader] += own;
    }
    free(ends);
    return REMAT_OK;
}

static void put_places(pricing *p, uint32_t distance, uint32_t phase, uint32_t *part)
{
    uint32_t n = 0;
    memset(p->stays, 0, p->n_nodes * sizeof *p->stays);
    for (uint32_t i = phase; distance > 0 && i < p->n_places; i += distance)
        p->stays[p->places[i]] = true;
    for (uint32_t v = 0; v < p->n_nodes; v++) {
        part[v] = n;
        n += p->stays[v];
    }
}

/* ---- lists ---- */

static void cut_at(pricing *p, double price, priced_cut *cut)
{
    cut->time = bound_moments_again(p->moments, price, p->stays, cut->again, &cut->held);
}

static void copy_cut(const pricing *p, const priced_cut *from, priced_cut *to)
{
    bool *again = to->again;
    memcpy(again, from->again, p->n_nodes * sizeof *again);
    *to = *from;
    to->again = again;
}

static void swap_cuts(priced_cut *a, priced_cut *b)
{
    const priced_cut old = *a;
    *a = *b;
    *b = old;
}

/* Of a level so many nodes take the dearer cut: at the turn the first ones, whose backward comes
 * when the others hold nothing any more, of a group the last. */
static void mix(pricing *p, unsigned level, uint32_t many)
{
    bool *again = p->chosen[level].again;
    for (uint32_t v = 0; v < p->n_nodes; v++) {
        const bool dear = level == AGAIN ? v < many : v >= p->n_nodes - many;
        again[v] = dear ? p->high.again[v] : p->low.again[v];
    }
}

/* The last unit of a group runs again right before its backward anyway. */
static void put_choice(pricing *p)
{
    const answer_again *c = &p->now;
    uint32_t last = p->n_nodes - 1;
    for (uint32_t v = p->n_nodes; v-- > 0;) {
        if (c->group[v] != c->group[last])
            last = v;
        c->again[v] = p->chosen[AGAIN].again[v];
        c->twice[v] = c->again[v] && p->chosen[TWICE].again[v] && p->unit[v] != p->unit[last];
    }
}

/* Whether the list of what is chosen fits; it is kept if it is the fastest. */
static remat_status look(pricing *p, bool *ret_fits, remat_error *error)
{
    const remat_problem *problem = p->wish->problem;
    remat_operations runs = {0}, list = {0};
    remat_simulation s;
    if (remat_host_cancelled(p->wish->host))
        return remat_fail(error, REMAT_CANCELLED, NULL, "cancelled");
    p->looks -= p->looks > 0;
    put_choice(p);
    remat_status status = answer_run_again(problem->profile, &p->now, &runs);
    if (status)
        remat_fail_memory(error);
    else
        status = model_complete_list(problem->profile, &runs, &list, error);
    if (!status)
        status = remat_simulate(problem->profile, &list, NULL, NULL, NULL, &s, error);
    if (!status) {
        remat_put_in_flight(&s, problem->in_flight);
        *ret_fits = s.valid && s.peak <= p->budget;
        if (*ret_fits && s.makespan < p->fastest) {
            p->fastest = s.makespan;
            model_swap_lists(&list, &p->best);
        }
    }
    remat_operations_clear(&runs);
    remat_operations_clear(&list);
    return status;
}

/* A cut between the two, of the price at which both cost the same. False: they are neighbours. */
static bool split(pricing *p)
{
    const double price = (p->high.time - p->low.time) / (p->low.held - p->high.held);
    if (!(price > 0) || price == INFINITY)
        return false;
    cut_at(p, price, &p->middle);
    const double meet = p->low.time + price * p->low.held;
    return p->middle.time + price * p->middle.held < meet * (1 - 1e-9) &&
           p->middle.held < p->low.held && p->middle.held > p->high.held;
}

/* Whether what is cheaper than all that fits may be the fastest yet. */
static bool may_be_faster(const pricing *p, unsigned level)
{
    const double least = p->all + (level == AGAIN ? p->low.time : p->chosen[AGAIN].time);
    return least < p->fastest * (1 - WORTH);
}

/* Of low, which does not fit, and high, which does: what is chosen of a level becomes the cheapest
 * that does; of two neighbours as few nodes as there can be take the dearer one. */
static remat_status cheapen(pricing *p, unsigned level, remat_error *error)
{
    remat_status status = REMAT_OK;
    bool fits = false;
    while (!status && may_be_faster(p, level) && split(p)) {
        copy_cut(p, &p->middle, &p->chosen[level]);
        status = look(p, &fits, error);
        swap_cuts(&p->middle, fits ? &p->high : &p->low);
    }
    uint32_t low = 0, high = p->n_nodes;
    const double each = (p->high.time - p->low.time) / p->n_nodes;
    while (high - low > 1 && (high - low) * each > WORTH * p->fastest && !status &&
           may_be_faster(p, level)) {
        const uint32_t middle = low + (high - low) / 2;
        mix(p, level, middle);
        status = look(p, &fits, error);
        *(fits ? &high : &low) = middle;
    }
    copy_cut(p, &p->high, &p->chosen[level]);
    mix(p, level, high);
    return status;
}

/* What is chosen fits; whether what costs least does, too. */
static remat_status cheapen_all(pricing *p, unsigned level, remat_error *error)
{
    bool fits = false;
    copy_cut(p, &p->chosen[level], &p->high);
    cut_at(p, 0, &p->low);
    copy_cut(p, &p->low, &p->chosen[level]);
    const remat_status status = look(p, &fits, error);
    return status || fits ? status : cheapen(p, level, error);
}

/* Of a joint graph a dearer cut holds less at the turn, but what it runs again then may need more
 * at once than a cheaper one does: the first price, from below, at which the list fits. */
static remat_status cheapen_joint(pricing *p, remat_error *error)
{
    enum { PRICES = 16 };
    bool fits = false;
    cut_at(p, INFINITY, &p->high);
    cut_at(p, 0, &p->low);
    copy_cut(p, &p->low, &p->chosen[AGAIN]);
    remat_status status = look(p, &fits, error);
    if (status || fits || !(p->low.held > p->high.held))
        return status;
    const double mean = (p->high.time - p->low.time) / (p->low.held - p->high.held);
    for (int k = 0; k < PRICES && !fits && !status && p->looks > 0 && may_be_faster(p, AGAIN);
         k++) {
        cut_at(p, mean * pow(SPREAD, 2.0 * k / (PRICES - 1) - 1), &p->chosen[AGAIN]);
        status = look(p, &fits, error);
        copy_cut(p, &p->chosen[AGAIN], fits ? &p->high : &p->low);
    }
    return status || !fits ? status : cheapen(p, AGAIN, error);
}

/* With that distance at the turn, and in groups within them 1. */
static remat_status look_at_distance(pricing *p, uint32_t distance, uint32_t phase, bool in_groups,
                                     remat_error *error)
{
    bool fits = false;
    put_places(p, in_groups, 0, p->unit);
    cut_at(p, in_groups ? INFINITY : 0, &p->chosen[TWICE]);
    put_places(p, distance, phase, p->now.group);
    if (p->wish->problem->profile->joint)
        return cheapen_joint(p, error);
    cut_at(p, INFINITY, &p->chosen[AGAIN]);
    remat_status status = look(p, &fits, error);
    if (status || !fits)
        return status;
    if (in_groups) {
        put_places(p, 1, 0, p->unit);
        status = cheapen_all(p, TWICE, error);
        put_places(p, distance, phase, p->now.group);
    }
    return status ? status : cheapen_all(p, AGAIN, error);
}

/* Farther ones first: where all that lies between them is made again within the budget, nearer ones
 * are mostly worse. */
static remat_status look_at_distances(pricing *p, remat_error *error)
{
    enum { FAILURES = 2 };
    unsigned failures = 0;
    remat_status status = REMAT_OK;
    for (size_t i = 0; i < DISTANCES && !status && failures < FAILURES; i++) {
        const double before = p->fastest;
        for (uint32_t phase = 0; phase < 2 && phase <= distances[i] / 2 && !status; phase++)
            status = look_at_distance(p, distances[i], phase, false, error);
        if (p->fastest < INFINITY)
            failures = p->fastest < before * (1 - WORTH) ? 0 : failures + 1;
        if (p->fastest <= p->wish->bound * (1 + WORTH))
            break;
    }
    return status;
}

/* Of many nodes fewer distances and places to begin from: one list takes long. */
static remat_status look_at_groups(pricing *p, remat_error *error)
{
    const uint32_t many = p->n_nodes / MANY_NODES;
    remat_status status = REMAT_OK;
    for (uint32_t distance = 0; distance <= GROUPS && !status; distance += 1 + 2 * many)
        for (uint32_t phase = 0; phase == 0 || (phase < distance && !status);
             phase += 1 + distance * (1 + 3 * many) / PHASES)
            if (distance != 1)
                status = look_at_distance(p, distance, phase, true, error);
    return status;
}

static remat_status find_list(pricing *p, remat_error *error)
{
    p->fastest = INFINITY;
    p->best.length = 0;
    p->looks = JOINT_WORK / p->n_nodes;
    remat_status status = look_at_distances(p, error);
    if (!status && !p->wish->problem->profile->joint && p->fastest > p->wish->bound * FAR)
        status = look_at_groups(p, error);
    return status;
}

static remat_status keep(answer_priced *priced, remat_schedule *found, remat_schedule *best,
                         remat_error *error)
{
    priced->makespan = found->simulation.makespan;
    priced->fastest = !best->solver || !answer_faster(best, found);
    if (model_copy_list(&found->operations, &priced->list))
        return remat_fail_memory(error);
    answer_keep_faster(found, best);
    return REMAT_OK;
}

static remat_status take_list(pricing *p, answer_priced *ret_priced, remat_schedule *best,
                              remat_error *error)
{
    const answer_wish *w = p->wish;
    remat_status status = REMAT_INFEASIBLE;
    for (uint64_t k = 0; k < TRIES && status == REMAT_INFEASIBLE; k++) {
        remat_schedule found = {0};
        p->budget = w->budget - w->budget / LEFT_FREE * k;
        status = find_list(p, error);
        if (status || p->best.length == 0)
            return status;
        status = answer_take(w, &p->best, NULL, &found, error);
        if (!status)
            status = keep(ret_priced, &found, best, error);
        remat_schedule_clear(&found);
    }
    return status == REMAT_INFEASIBLE ? REMAT_OK : status;
}

remat_status answer_by_price(const answer_wish *wish, bound_moments *moments,
                             answer_priced *ret_priced, remat_schedule *best, remat_error *error)
{
    enum { FLAGS = 8, NUMBERS = 3 };
    const remat_profile *profile = wish->problem->profile;
    if (!moments || profile->n_nodes > REMAT_LARGE_NODES || answer_reaches(best, wish->bound))
        return REMAT_OK;
    const size_t n = profile->n_nodes;
    bool *flags = malloc(FLAGS * n * sizeof *flags);
    uint32_t *numbers = malloc(NUMBERS * n * sizeof *numbers);
    pricing p = {.wish = wish,
                 .moments = moments,
                 .all = remat_store_all_makespan(profile),
                 .n_nodes = profile->n_nodes};
    remat_status status = flags && numbers ? REMAT_OK : remat_fail_memory(error);
    if (!status) {
        p.places = numbers;
        p.unit = numbers + n;
        p.stays = flags;
        p.low.again = flags + n;
        p.high.again = flags + 2 * n;
        p.middle.again = flags + 3 * n;
        p.chosen[AGAIN].again = flags + 4 * n;
        p.chosen[TWICE].again = flags + 5 * n;
        p.turn = bound_moments_turn(moments);
        p.now = (answer_again){flags + 6 * n, flags + 7 * n, numbers + 2 * n, p.turn};
        status = find_places(&p, error);
    }
    if (!status)
        status = take_list(&p, ret_priced, best, error);
    remat_operations_clear(&p.best);
    free(flags);
    free(numbers);
    return status;
}
