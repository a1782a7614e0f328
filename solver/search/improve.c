/* The improver: independent searches (chains), each from its own start with its own seed, in epochs
 * between which those that lag behind take over the best list. A chain anneals, searches
 * neighbourhoods of its best list and then makes that one fit with its layout (improve_settle.c).
 */
#include "remat/improve.h"

#include "model/lists.h"
#include "search/improve_private.h"

#include <math.h>
#include <stdlib.h>

enum {
    FEW_NODES = 24,
    MANY_NODES = 600,
    MANY_JOINT_NODES = 1000,
    TOO_MANY_NODES = 2400,
    SURE_EPOCHS = 2, /* before what comes no nearer is hopeless */
    DEAREST = 10,    /* powers of 4 */
    ROOMY_SHARE = 3  /* one chain of so many begins with room for the versions of states */
};

#define QUICK_SHARE 0.15 /* of a thorough search's moves */
#define NEAR 5e-4        /* of the bound */
#define LITTLE_LESS 1e-3 /* of the least peak */
#define NEAR_FIT 0.1     /* of the budget, above it: worth all epochs */
#define NEAR_JOINT_FIT 1e-2
#define LEAST_HOPE 0.25 /* of the budget, above it: less falls to it yet */

/* By remat_effort. A brief one raises no price: what it finds begins a search over the link, which
 * ends better without a list than with one that barely fits. */
static const strength EFFORTS[] = {
    {"quick", 4, 8, 0, 4, NEAR, 15000, 15000, 0, false, true, true},
    {"thorough", 8, 24, 0, 10, 0, 24000, 24000, 0, false, false, true},
    {"patient", 8, 2, 3, 3, 0, 60000, 15000, 0, false, true, true},
    {"brief", 3, 5, 0, 4, NEAR, 15000, 15000, 0, false, true, false},
    {"finish", 2, 2, 0, 1, NEAR, 15000, 15000, 0, false, true, true},
    {"slow", 4, 1, 0, 4, NEAR, 60000, 15000, 0, false, true, true}};

/* The same of joint graphs: ramp is the work of the first one; later ones do half of it. Every
 * second chain does all three. Of 44 questions the others bettered 2, by 0.03 % together, after
 * their first epoch. */
static const strength JOINT_EFFORTS[] = {
    {"quick", 4, 6, 0, 3, NEAR, 40000, 40000, 160000, true, true, false},
    {"thorough", 4, 4, 0, 3, 0, 250000, 250000, 1500000, false, false, false},
    {"patient", 4, 4, 0, 3, 0, 250000, 250000, 1500000, false, false, false},
    {"brief", 4, 1, 0, 3, NEAR, 40000, 40000, 160000, true, true, false},
    {"finish", 4, 1, 0, 1, NEAR, 15000, 15000, 40000, false, true, false},
    {"slow", 4, 1, 0, 3, NEAR, 40000, 40000, 160000, true, true, false}};

/* Of a ramp, temperatures in times of a node and prices in those of improvement: of one that finds
 * everything and of one that betters what there is. */
static const interval_ramp FULL = {.hot = 3, .cold = 0.1, .cheap = 300, .dear = 30000},
                           AGAIN = {.hot = 0.5, .cold = 0.05, .cheap = 3000, .dear = 30000};

const char *remat_effort_name(remat_effort effort)
{
    return EFFORTS[effort].name;
}

/* What work is given by. Of few nodes a list is soon as good as any; with one in flight they are
 * mostly searched exactly before. */
static uint32_t counted_nodes(const improvement *m)
{
    uint32_t n = m->profile->n_nodes, most = m->profile->joint ? MANY_JOINT_NODES : MANY_NODES;
    if (m->in_flight > 1 && n < FEW_NODES)
        return n * n / FEW_NODES + 1;
    return n < most ? n : most;
}

/* ---- a chain ---- */

/* Room for a version of every state, of which the search knows nothing, until a list fits. */
static void leave_room(const improvement *m, interval_timeline *t)
{
    for (uint32_t k = 0; k < m->profile->n_states; k++)
        for (uint32_t task = 0; task < m->tasks->n_tasks; task++)
            t->pads[task] += (double)m->profile->states[k].bytes;
}

static remat_status begin(const improvement *m, chain *c)
{
    interval_search *s = &c->search;
    const remat_operations *list = c->from_start ? m->start : &m->everything;
    interval_forget_best(s);
    c->fitting_time = INFINITY;
    c->fitting_runs = SIZE_MAX;
    s->random = UINT64_C(0x9E3779B97F4A7C15) * (2 * (uint64_t)c->seed + 1);
    s->host = m->host;
    s->found = improve_look_at;
    s->context = c;
    remat_status status =
        interval_timeline_new(m->tasks, list, (double)m->budget, &s->timeline, NULL);
    if (!status && m->profile->n_states > 0 && c->seed % ROOMY_SHARE == ROOMY_SHARE - 1) {
        leave_room(m, s->timeline);
        status = interval_timeline_load(s->timeline, list, NULL);
    }
    if (status)
        return status;
    s->enough = m->enough;
    interval_greedy(s, c->seed < 2 ? 0 : 1.0);
    s->price = m->price;
    return s->timeline->failed ? REMAT_NO_MEMORY : improve_settle(m, c);
}

/* Of a joint graph. */
static void ramp(const improvement *m, chain *c)
{
    interval_search *s = &c->search;
    bool full = s->best.length == 0 || (!c->from_start && c->ramps == 0);
    interval_ramp r = full ? FULL : AGAIN;
    double time = m->tasks->total_time / m->profile->n_nodes;
    r.hot *= time;
    r.cold *= time;
    r.cheap *= m->price;
    r.dear *= m->price * (1 << (full ? c->ramps : 0)); /* nothing fitted the last time */
    c->ramps++;
    interval_anneal_joint(s, m->effort->ramp * counted_nodes(m) / (full ? 1 : 2), &r);
    if (s->best.length == 0)
        interval_greedy(s, 0);
}

static remat_status go_on(const improvement *m, chain *c)
{
    interval_search *s = &c->search;
    uint64_t nodes = counted_nodes(m);
    interval_timeline *t = s->timeline;
    const bool found = s->best.length > 0;
    c->passing.length = 0;
    if (!found && c->unfit && interval_timeline_list(t, &c->passing))
        return REMAT_NO_MEMORY;
    if ((found || c->unfit) && interval_timeline_load(t, found ? &s->best : &c->passing, NULL))
        return REMAT_NO_MEMORY;
    if (m->effort->raises && !m->profile->joint && !found && !c->unfit)
        c->dear += c->dear < DEAREST;
    else
        c->dear = 0;
    s->price = ldexp(m->price, 2 * (int)c->dear);
    s->wanted = c->unfit ? fmin(c->fitting_time, m->served) * (1 - 1e-12) : 0;
    if (m->effort->ramp > 0)
        ramp(m, c);
    if (m->effort->ramp == 0 || c->seed % 2 == 1) {
        interval_anneal(s, m->effort->anneal * nodes, s->best.length > 0 ? m->hot : 10 * m->hot,
                        m->cold);
    }
    if (m->profile->n_nodes <= REMAT_LARGE_NODES) /* one would take as long as all the annealing */
        interval_neighbourhoods(s, m->effort->neighbourhoods * nodes);
    return t->failed ? REMAT_NO_MEMORY : improve_settle(m, c);
}

static void run_chain(void *context, size_t index, unsigned worker)
{
    improvement *m = context;
    chain *c = &m->chains[index];
    c->fresh = &m->fresh[worker];
    if (m->narrow && index % 2 == 0)
        return;
    remat_status status = c->search.timeline ? go_on(m, c) : begin(m, c);
    c->status = c->status ? c->status : status;
}

/* ---- all of them ---- */

static const chain *best_chain(const improvement *m)
{
    const chain *best = NULL;
    for (uint32_t i = 0; i < m->n_chains; i++) {
        const chain *c = &m->chains[i];
        if (c->fitting.length > 0 &&
            (!best || c->fitting_time < best->fitting_time ||
             (c->fitting_time == best->fitting_time && c->fitting_runs < best->fitting_runs)))
            best = c;
    }
    return best;
}

/* Every second chain takes the best list over, where its own is behind. */
static remat_status share(improvement *m)
{
    const chain *best = best_chain(m);
    for (uint32_t i = 1; best && i < m->n_chains; i += 2) {
        chain *c = &m->chains[i];
        if (c->fitting_time <= best->fitting_time)
            continue;
        if (model_copy_list(&best->fitting, &c->fitting) || model_copy_list(&best->runs, &c->runs))
            return REMAT_NO_MEMORY;
        c->fitting_time = best->fitting_time;
        c->fitting_runs = best->fitting_runs;
        improve_resume(c, &c->runs);
    }
    return REMAT_OK;
}

/* How far the search is, which may end earlier, and what it has. */
static void tell(const improvement *m, double done, const chain *best)
{
    remat_host_progress(m->host, m->begin + m->share * fmin(1, done));
    if (best)
        remat_host_found(m->host, best->fitting_time, 0);
}

/* Where nothing fits. */
static uint32_t most_epochs(const improvement *m)
{
    return m->profile->joint ? m->effort->epochs + 1 : 3 * m->effort->epochs;
}

static bool goes_on(const improvement *m, uint32_t epoch, uint32_t stale)
{
    const strength *s = m->effort;
    bool unfit = false;
    for (uint32_t i = 0; i < m->n_chains; i++)
        unfit |= m->chains[i].unfit;
    if (epoch <= s->epochs)
        return true;
    if (!best_chain(m))
        return epoch <= most_epochs(m);
    return unfit && stale == 0 && epoch <= s->epochs + s->mending;
}

/* Of the chains; 0 where a list fits, if not with its layout. */
static double least_peak(const improvement *m)
{
    double least = INFINITY;
    for (uint32_t i = 0; i < m->n_chains; i++) {
        const interval_search *s = &m->chains[i].search;
        least = fmin(least, s->best.length > 0 ? 0 : interval_peak(s->timeline));
    }
    return least;
}

/* Whether nothing will be found to fit, which a thorough search does not ask. Of many nodes a chain
 * walks so few that it ends near where it began. Of others a list fits within a few epochs or,
 * mostly, never: once one of them brings the least peak no lower, and that is not near; of a joint
 * graph, whose memory falls late, it has to be very near. Of 183 searches of forward graphs that
 * began with nothing, at one price, 131 never had a list, and none of the others would have ended
 * too soon. */
static bool is_hopeless(improvement *m, uint32_t epoch)
{
    const double before = m->least, least = least_peak(m);
    m->least = fmin(before, least);
    if (epoch == 0 || !m->effort->gives_up)
        return false;
    const double above = (m->profile->joint ? least : m->least) / (double)m->budget - 1;
    if (!m->profile->joint && m->profile->n_nodes > MANY_NODES)
        return least > (1 + fmax(1.0 / epoch, LEAST_HOPE)) * (double)m->budget;
    if (epoch < SURE_EPOCHS)
        return !m->profile->joint && above > LEAST_HOPE;
    return least >= before * (1 - LITTLE_LESS) &&
           above > (m->profile->joint ? NEAR_JOINT_FIT : NEAR_FIT);
}

static remat_status search(improvement *m)
{
    uint32_t stale = 0;
    double fastest = INFINITY;
    for (uint32_t epoch = 0; goes_on(m, epoch, stale); epoch++) {
        remat_host_parallel_for(m->host, m->n_chains, run_chain, m);
        for (uint32_t i = 0; i < m->n_chains; i++)
            if (m->chains[i].status)
                return m->chains[i].status;
        if (remat_host_cancelled(m->host))
            return REMAT_CANCELLED;
        improve_tell_misfits(m);
        const chain *best = best_chain(m);
        tell(m, (double)(epoch + 1) / ((best ? m->effort->epochs : most_epochs(m)) + 1), best);
        m->narrow = m->effort->narrows && best && epoch > 0;
        stale = best && best->fitting_time >= fastest ? stale + 1 : 0;
        fastest = m->served = best ? best->fitting_time : INFINITY;
        const bool near = best && best->fitting_time <= m->enough * (1 + m->effort->near);
        if (best && (best->fitting_time <= m->enough || stale == (near ? 1 : m->effort->stale)))
            return REMAT_OK;
        if (!best && is_hopeless(m, epoch))
            return REMAT_OK;
        remat_status status = epoch > 0 ? share(m) : REMAT_OK;
        if (status)
            return status;
    }
    return REMAT_OK;
}

static bool moves_to_host(const remat_operations *list)
{
    for (size_t i = 0; i < list->length; i++)
        if (list->items[i].kind == REMAT_O || list->items[i].kind == REMAT_P)
            return true;
    return false;
}

/* What a byte past the budget during one run is worth, to begin with: the time of a typical run for
 * what it typically removes. */
static double first_price(const improvement *m)
{
    const interval_tasks *t = m->tasks;
    double bytes = 1;
    for (uint32_t v = 0; v < t->n_values; v++)
        bytes += t->bytes[v];
    return t->total_time / (3 * bytes * t->n_nodes);
}

static void release(improvement *m)
{
    for (uint32_t i = 0; i < m->n_chains; i++) {
        interval_timeline_free(m->chains[i].search.timeline);
        remat_operations_clear(&m->chains[i].search.best);
        remat_operations_clear(&m->chains[i].fitting);
        remat_operations_clear(&m->chains[i].runs);
        remat_operations_clear(&m->chains[i].passing);
        improve_clear_misfits(m->chains[i].long_one);
    }
    if (m->fresh)
        improve_tell_misfits(m);
    improve_clear_misfits(m->known);
    free(m->fresh);
    remat_operations_clear(&m->everything);
}

/* The best chain's list if there is one that beats the start; else the start, where that fits. */
static remat_status choose(const improvement *m, chain *best, const remat_operations *start,
                           remat_operations *ret_list, remat_error *error)
{
    remat_simulation old = {.peak = UINT64_MAX};
    remat_status status =
        start ? remat_simulate(m->profile, start, NULL, NULL, NULL, &old, error) : REMAT_OK;
    if (status)
        return status;
    remat_put_in_flight(&old, m->in_flight);
    const bool fits = start && old.peak <= m->budget;
    if (best && (!fits || best->fitting_time < old.makespan * (1 - 1e-12))) {
        *ret_list = best->fitting;
        best->fitting = (remat_operations){0};
        return REMAT_OK;
    }
    if (!fits)
        return remat_fail(error, REMAT_INFEASIBLE, "budget",
                          "no schedule of \"%.100s\" within %llu bytes was found", m->profile->name,
                          (unsigned long long)m->budget);
    return model_copy_list(start, ret_list) ? remat_fail_memory(error) : REMAT_OK;
}

static void set_up(improvement *m, const remat_operations *start, remat_effort effort)
{
    const remat_profile *p = m->profile;
    double mean = m->tasks->total_time / (3.0 * p->n_nodes);
    m->start = start && !moves_to_host(start) ? start : NULL;
    m->effort = p->joint && !m->given ? &JOINT_EFFORTS[effort] : &EFFORTS[effort];
    m->n_chains = p->n_nodes <= FEW_NODES        ? IMPROVE_MOST_CHAINS
                  : p->n_nodes <= TOO_MANY_NODES ? m->effort->chains
                                                 : m->effort->chains / 2;
    m->hot = 0.1 * mean;
    m->cold = 0.003 * mean;
    m->price = first_price(m);
    m->served = m->least = INFINITY;
    for (uint32_t i = 0; i < m->n_chains; i++) {
        /* of patient ones the first are as they would be without a start */
        const bool from_start = effort == REMAT_PATIENT  ? i >= m->n_chains / 2
                                : effort == REMAT_FINISH ? true
                                                         : i % 2 == 1;
        m->chains[i] = (chain){
            .of = m, .seed = i + m->series * m->n_chains, .from_start = m->start && from_start};
    }
}

static remat_status improve(improvement *m, const remat_operations *start, remat_effort effort,
                            remat_operations *ret_list, remat_error *error)
{
    set_up(m, start, effort);
    m->known = NULL;
    m->fresh = calloc(remat_host_workers(m->host), sizeof *m->fresh);
    remat_status status =
        m->fresh ? model_store_everything(m->profile, &m->everything) : REMAT_NO_MEMORY;
    if (!status)
        status = search(m);
    if (status == REMAT_CANCELLED && remat_host_late(m->host) && (start || best_chain(m)))
        status = REMAT_OK; /* what there is */
    if (status == REMAT_CANCELLED)
        remat_fail(error, REMAT_CANCELLED, NULL, "cancelled");
    else if (status)
        remat_fail(error, status, NULL, "the improver failed on \"%.100s\": %s", m->profile->name,
                   remat_status_text(status));
    else
        status = choose(m, (chain *)best_chain(m), start, ret_list, error);
    release(m);
    return status;
}

/* A thorough search goes on from what the quick one finds, so it is never slower. */
static remat_status improve_by(improvement *m, const remat_operations *start, remat_effort effort,
                               remat_operations *ret_list, remat_error *error)
{
    remat_operations quick = {0};
    remat_status status = REMAT_OK;
    if (effort == REMAT_THOROUGH) {
        m->share = QUICK_SHARE;
        status = improve(m, start, REMAT_QUICK, &quick, error);
        start = status ? start : &quick;
        m->begin = QUICK_SHARE;
    }
    m->share = 1 - m->begin;
    if (!status || status == REMAT_INFEASIBLE)
        status = improve(m, start, effort, ret_list, error);
    remat_operations_clear(&quick);
    return status;
}

/* Who reads a value is looked through whenever one of them moves. */
static bool is_crowded(const remat_profile *profile)
{
    enum { MOST_LOOKS = 400 }; /* for each node */
    uint64_t looks = 0;
    for (uint32_t v = 0; v < profile->n_nodes; v++)
        looks += (uint64_t)profile->nodes[v].n_consumers * profile->nodes[v].n_consumers;
    return looks > (uint64_t)MOST_LOOKS * profile->n_nodes;
}

uint32_t remat_improved_nodes(const remat_profile *profile)
{
    return profile->joint || is_crowded(profile) ? REMAT_LARGE_NODES : REMAT_IMPROVED_NODES;
}

/* Measured of 5,000 to 100,000 nodes: tables, two chains, bounds. */
uint64_t remat_improve_bytes(const remat_profile *profile)
{
    return UINT64_C(2500) *
           ((uint64_t)profile->n_nodes + profile->n_edges + profile->n_alternatives);
}

remat_status remat_improve(const remat_profile *profile, const remat_operations *start,
                           uint64_t budget, uint32_t in_flight, uint32_t alignment, bool given,
                           remat_effort effort, uint32_t series, double lower_bound,
                           const remat_host *host, remat_operations *ret_list, remat_error *error)
{
    interval_tasks *tasks = NULL;
    remat_status status = profile->n_nodes > remat_improved_nodes(profile)
                              ? remat_fail(error, REMAT_TOO_LARGE, NULL,
                                           "%u nodes are too many to search", profile->n_nodes)
                              : interval_tasks_new(profile, alignment ? alignment : 1, given,
                                                   in_flight, &tasks, error);
    if (status == REMAT_TOO_LARGE && start)
        return choose(&(improvement){.profile = profile, .budget = budget, .in_flight = in_flight},
                      NULL, start, ret_list, error);
    if (status)
        return status;
    improvement *m = calloc(1, sizeof *m);
    if (m) {
        *m = (improvement){.profile = profile,
                           .tasks = tasks,
                           .host = host,
                           .budget = budget,
                           .alignment = alignment,
                           .in_flight = in_flight,
                           .given = given,
                           .series = series,
                           .enough =
                               lower_bound * (1 + (profile->n_nodes > MANY_NODES ? 2e-4 : 1e-9))};
        status = improve_by(m, start, effort, ret_list, error);
    } else {
        status = remat_fail_memory(error);
    }
    free(m);
    interval_tasks_free(tasks);
    return status;
}
