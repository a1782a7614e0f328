/* Where to cut, by what is known of stages: the best plan with more and with fewer in flight. */
#include "plan/pipeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Played for plans with other numbers in flight than the first. */
enum { PASSES_OF_OTHERS = 1 << 18 };
/* The first is looked for with these before it is with more, quickly with so many: mostly it is the
 * best of all, or none fits as long as hopes are low. */
enum { FIRST_PASSES = 1 << 20, MORE_PASSES = 1 << 22 };
/* Of at most so many the numbers in flight of several are changed at once too. */
enum { FEW_RANKS = 8 };
/* Stages of more than so many times what the longest of any plan takes at least are in no plan that
 * is looked at first, or quickly. */
enum { LONGEST = 2 };

void api_pipeline_menus_clear(api_pipeline *p)
{
    const size_t width = p->units.n + 1;
    for (size_t i = 0; p->lists && i < width * width; i++) {
        free(p->lists[i]);
        p->lists[i] = NULL;
    }
}

static bool is_cancelled(void *data)
{
    return remat_host_cancelled(((const api_pipeline *)data)->q.host);
}

static remat_status plan_once(api_pipeline *p, remat_pipeline_plan *ret_plan, remat_error *error)
{
    const remat_stage_host host = {p, api_pipeline_menu, api_pipeline_bytes, is_cancelled};
    remat_status status = remat_pipeline_plan_make(&p->question, &host, ret_plan, error);
    api_pipeline_menus_clear(p);
    return status;
}

void api_pipeline_equal(const api_pipeline *p, uint32_t stages, uint32_t *cuts)
{
    const uint32_t n = p->units.n;
    cuts[0] = 0;
    for (uint32_t s = 1; s <= stages; s++) {
        const double aim = (double)p->profile->n_nodes * s / stages;
        uint32_t u = cuts[s - 1] + 1;
        while (u + (stages - s) < n &&
               fabs(p->units.end[u] - aim) <= fabs(p->units.end[u - 1] - aim))
            u++;
        cuts[s] = s == stages ? n : u;
    }
}

/* A step that is likely with equal cuts; INFINITY: they do not fit. Their stages stand in the plan
 * at hand. */
static remat_status equal_step(api_pipeline *p, double *ret_whole, remat_error *error)
{
    const uint32_t ranks = p->question.pipeline.ranks;
    uint32_t cuts[REMAT_MOST_RANKS + 1];
    remat_pipeline_stage stages[REMAT_MOST_RANKS] = {{.held = 0}};
    remat_pipeline_play *play = NULL;
    remat_status status = REMAT_OK;
    double beside = 0;
    bool fits = true;
    api_pipeline_equal(p, ranks, cuts);
    for (uint32_t r = 0; r < ranks && !status && fits; r++) {
        remat_stage_menu m = {0};
        remat_stage_list list = {0};
        size_t shape = 0, count = 0;
        const uint32_t n = remat_pipeline_in_flight(&p->question.pipeline, r);
        status = api_pipeline_bytes(p, cuts[r], cuts[r + 1], &m, error);
        if (!status)
            status = api_pipeline_shape(p, cuts[r], cuts[r + 1], &shape, error);
        if (status)
            return status;
        const uint64_t budget = api_pipeline_budget(p, r, n, &m, p->sends, p->sends);
        status = api_pipeline_likely(p, shape, n, budget, &list, &count, error);
        fits = count > 0;
        beside = fmax(beside, m.beside);
        stages[r] = (remat_pipeline_stage){.forward = list.forward,
                                           .backward = list.backward,
                                           .held = m.input,
                                           .peak = m.input,
                                           .fixed = m.fixed,
                                           .input = m.input,
                                           .output = m.output};
        p->now.plan.stages[r] = (remat_planned_stage){cuts[r], cuts[r + 1], n, list, stages[r]};
    }
    *ret_whole = INFINITY;
    if (status || !fits)
        return status;
    status = remat_pipeline_judge(&p->question.pipeline, stages, &play, error);
    for (uint32_t r = 0; r < ranks && !status && fits; r++)
        fits = play->ranks[r].peak <= p->question.memory;
    if (!status && fits)
        *ret_whole = play->step + beside;
    remat_pipeline_play_free(play);
    return status;
}

/* Of all cuts the least of what their longest stage takes at least, within a thousandth. */
static double least_longest(const api_pipeline *p)
{
    double low = 0, high = 0;
    for (uint32_t u = 0; u < p->units.n; u++) {
        low = fmax(low, p->units.least[u]);
        high += p->units.least[u];
    }
    while (high > low * 1.001) {
        const double middle = (low + high) / 2;
        uint32_t stages = 1;
        double sum = 0;
        for (uint32_t u = 0; u < p->units.n; u++) {
            stages += sum + p->units.least[u] > middle;
            sum = sum + p->units.least[u] > middle ? p->units.least[u] : sum + p->units.least[u];
        }
        if (stages > p->question.pipeline.ranks)
            low = middle;
        else
            high = middle;
    }
    return high;
}

static double mean_stage(const api_pipeline *p)
{
    double all = 0;
    for (uint32_t u = 0; u < p->units.n; u++)
        all += p->units.least[u];
    return all / p->question.pipeline.ranks;
}

/* Stages longer than that are in no plan that is faster than one that is known. */
static remat_status limit_stages(api_pipeline *p, remat_error *error)
{
    const uint32_t m = p->question.pipeline.microbatches;
    remat_pipeline_plan plan;
    double whole = INFINITY;
    remat_status status = equal_step(p, &whole, error);
    p->longest = LONGEST * least_longest(p);
    if (!status && whole == INFINITY) {
        status = plan_once(p, &plan, error);
        whole = status ? INFINITY : plan.whole;
        status = status == REMAT_INFEASIBLE ? REMAT_OK : status;
    }
    p->longest = fmin((p->quick ? 1 : 2) * p->longest, whole / m * (1 + 1e-9));
    return status;
}

remat_status api_pipeline_find_bound(api_pipeline *p, remat_error *error)
{
    const remat_least_host host = {p, api_pipeline_least};
    return p->bound < INFINITY ? REMAT_OK
                               : remat_pipeline_bound(&p->question, &host, &p->bound, error);
}

/* As many as usual, or so many times as many behind the last: twice hide sends that take half of a
 * pass there and back (Narayanan et al. 2021 have them interleaved). And at most so many, where
 * memory is short. */
static void put_in_flight(api_pipeline *p, unsigned times, uint32_t most)
{
    const remat_pipeline *pipeline = &p->question.pipeline;
    most = most < pipeline->microbatches ? most : pipeline->microbatches;
    for (uint32_t r = 0; r < pipeline->ranks; r++) {
        const uint64_t n = (uint64_t)(pipeline->ranks - 1 - r) * times + 1;
        p->now.in_flight[r] = n < most ? (uint32_t)n : most;
    }
    p->question.pipeline.in_flight = pipeline->order == REMAT_1F1B ? p->now.in_flight : NULL;
}

/* A micro-batch that goes to the next rank and back takes its time there and both sends; so many
 * times as many as usual are on their way meanwhile. */
unsigned api_pipeline_most_in_flight(const api_pipeline *p)
{
    const remat_pipeline *pipeline = &p->question.pipeline;
    const uint32_t cuts = p->units.n - 1;
    double send = pipeline->latency;
    if (pipeline->order != REMAT_1F1B || pipeline->ranks == 1)
        return 1;
    for (uint32_t u = 0; u < cuts; u++)
        send += (double)p->profile->nodes[p->units.end[u] - 1].output_bytes / cuts /
                pipeline->bandwidth;
    const double times = 2 + ceil(2 * send / mean_stage(p));
    const unsigned most = pipeline->microbatches > 2 ? pipeline->microbatches - 1 : 2;
    return times < most ? (unsigned)times : most;
}

/* The plan with the numbers in flight at hand, if it is better, and there may be a better one. */
static remat_status plan_with(api_pipeline *p, api_candidate *found, remat_error *error)
{
    remat_pipeline_plan plan;
    const bool some = found->plan.whole < INFINITY;
    remat_status status = some ? api_pipeline_find_bound(p, error) : REMAT_OK;
    if (status || (some && found->plan.whole <= p->bound * (1 + API_WORTH_A_ROUND)))
        return status;
    p->question.limit = some ? found->plan.whole * (1 - API_WORTH_A_ROUND) : 0;
    p->question.passes = some ? PASSES_OF_OTHERS : FIRST_PASSES;
    status = plan_once(p, &plan, error);
    const bool open =
        status ? status == REMAT_INFEASIBLE && p->hopes == API_FAST_AND_SMALL : !plan.all_cuts;
    if (!some && open) {
        p->question.passes = p->quick ? MORE_PASSES : 0;
        status = plan_once(p, &plan, error);
    }
    p->question.limit = p->question.passes = 0;
    if (!status && plan.whole < found->plan.whole) {
        found->plan = plan;
        memcpy(found->in_flight, p->now.in_flight, sizeof found->in_flight);
    }
    return status == REMAT_INFEASIBLE ? REMAT_OK : status;
}

/* One more or one fewer on a rank, and on those that may not have fewer or more than it; or on all
 * up to it. */
static void move_in_flight(api_pipeline *p, const uint32_t *old, uint32_t rank, int by, bool all)
{
    const uint32_t m = p->question.pipeline.microbatches, n = old[rank] + (uint32_t)by;
    for (uint32_t k = 0; k < p->question.pipeline.ranks; k++) {
        const uint32_t moved = by > 0 && old[k] == m ? m : old[k] + (uint32_t)by;
        const uint32_t as = all && k < rank ? moved : old[k];
        p->now.in_flight[k] = k == rank || (k < rank ? as < n : as > n) ? n : as;
    }
}

/* As long as that is better: of single ranks first, then of several, which takes as long again. */
static remat_status climb_in_flight(api_pipeline *p, api_candidate *found, remat_error *error)
{
    const uint32_t ranks = p->question.pipeline.ranks, m = p->question.pipeline.microbatches;
    const uint32_t moves = ranks <= FEW_RANKS ? 4 * ranks : 2 * ranks;
    remat_status status = REMAT_OK;
    for (bool better = found->plan.whole < INFINITY; better && !status;) {
        better = false;
        for (uint32_t i = 0; i < moves && !status; i++) {
            const uint32_t r = i / 2 % ranks, old = found->in_flight[r];
            const bool more = i % 2, all = i >= 2 * ranks;
            const double whole = found->plan.whole;
            if ((more ? old == m : old == 1) || (all && (r == 0 || better)))
                continue;
            move_in_flight(p, found->in_flight, r, more ? 1 : -1, all);
            status = plan_with(p, found, error);
            better |= found->plan.whole < whole;
        }
    }
    return status;
}

/* The best of the plans with more and with fewer in flight. */
remat_status api_pipeline_plan_best(api_pipeline *p, remat_error *error)
{
    const uint32_t ranks = p->question.pipeline.ranks;
    const bool fixed = p->question.pipeline.order != REMAT_1F1B;
    api_candidate found = {.plan = {.whole = INFINITY}};
    remat_error refusal = {0};
    remat_status status = REMAT_OK;
    put_in_flight(p, 1, UINT32_MAX);
    if (p->longest == 0)
        status = limit_stages(p, &refusal);
    for (unsigned times = 1; times <= p->most && !status; times += (times + 2) / 3) {
        put_in_flight(p, times, UINT32_MAX);
        status = plan_with(p, &found, &refusal);
    }
    /* quickly fewer only where as many as usual do not fit whatever is hoped of them */
    const bool as_usual =
        p->quick && (found.plan.whole < INFINITY || p->hopes < API_FAST_AND_SMALL);
    for (uint32_t n = ranks - 1; n > 0 && !status && !fixed && !as_usual; n -= (n + 3) / 4) {
        put_in_flight(p, 1, n);
        status = plan_with(p, &found, &refusal);
    }
    if (!status && !fixed && !p->quick)
        status = climb_in_flight(p, &found, &refusal);
    if (error && (status || found.plan.whole == INFINITY))
        *error = refusal;
    if (status || found.plan.whole == INFINITY)
        return status ? status : REMAT_INFEASIBLE;
    p->now = found;
    return REMAT_OK;
}

void api_pipeline_put_memory(api_pipeline *p, uint64_t memory)
{
    const size_t width = p->units.n + 1;
    p->question.memory = memory;
    for (size_t i = 0; i < width * width; i++)
        p->menus[i].fixed = UINT64_MAX;
}

/* Whether blocks run again fit that memory: by cuts that are likely, and then by any. */
static remat_status try_memory(api_pipeline *p, uint64_t memory, remat_error *error)
{
    remat_pipeline_plan plan;
    api_pipeline_put_memory(p, memory);
    p->longest = LONGEST * least_longest(p);
    const remat_status status = plan_once(p, &plan, error);
    p->longest = INFINITY;
    return status == REMAT_INFEASIBLE ? plan_once(p, &plan, error) : status;
}

/* Memory of every rank with which the plan at hand fits, to a 256th; more than those bytes. */
static remat_status find_enough(api_pipeline *p, uint64_t bytes, uint64_t *ret_memory,
                                remat_error *error)
{
    const uint64_t memory = p->question.memory;
    uint64_t low = memory, high = bytes > memory ? bytes : memory + memory / 64 + 1;
    remat_status status = REMAT_INFEASIBLE;
    p->question.passes = PASSES_OF_OTHERS;
    while (status == REMAT_INFEASIBLE && high < UINT64_C(1) << 52) {
        status = try_memory(p, high, error);
        if (status == REMAT_INFEASIBLE) {
            low = high;
            high += high / 4;
        }
    }
    while (!status && high - low > high / 256) {
        const uint64_t middle = low + (high - low) / 2;
        status = try_memory(p, middle, error);
        if (status == REMAT_INFEASIBLE)
            low = middle;
        else
            high = middle;
        status = status == REMAT_INFEASIBLE ? REMAT_OK : status;
    }
    p->question.passes = 0;
    api_pipeline_put_memory(p, memory);
    *ret_memory = high;
    return status;
}

/* Running every block again with one in flight, of gpipe with all, which needs least;
 * REMAT_INFEASIBLE says who misses, and what would do. */
remat_status api_pipeline_plan_blocks(api_pipeline *p, remat_error *error)
{
    remat_error refusal = {0}, other;
    uint64_t enough = 0;
    const double longest = p->longest;
    put_in_flight(p, 1, 1);
    p->longest = INFINITY; /* a refusal is of all cuts */
    p->real = true;
    remat_status status = plan_once(p, &p->now.plan, &refusal);
    if (status == REMAT_INFEASIBLE) {
        const remat_status found = find_enough(p, (uint64_t)refusal.number, &enough, &other);
        if (found == REMAT_OK) {
            remat_fail(error, status, "memory",
                       "%s; %llu bytes on every rank would do, %llu more than there are",
                       refusal.message, (unsigned long long)enough,
                       (unsigned long long)(enough - p->question.memory));
            error->number = enough;
        } else {
            status = found;
            *error = found == REMAT_INFEASIBLE ? refusal : other;
        }
    } else if (status) {
        *error = refusal;
    }
    p->real = false;
    p->longest = longest;
    return status;
}

remat_status api_pipeline_plan_equal(api_pipeline *p, double than, bool *ret_planned,
                                     remat_error *error)
{
    double whole = INFINITY;
    remat_status status = REMAT_OK;
    if (p->equal < than * (1 - API_WORTH_A_ROUND)) {
        put_in_flight(p, 1, UINT32_MAX);
        status = equal_step(p, &whole, error);
    }
    *ret_planned = whole < INFINITY;
    if (*ret_planned)
        p->now.plan.whole = p->equal;
    p->equal = INFINITY;
    return status;
}

/* A plan to ask the stages of; REMAT_INFEASIBLE says by how much running every block again misses.
 */
remat_status api_pipeline_plan_now(api_pipeline *p, remat_error *error)
{
    remat_status status = api_pipeline_plan_best(p, error);
    while (status == REMAT_INFEASIBLE && p->hopes < API_FAST_AND_SMALL) {
        p->hopes++;
        status = api_pipeline_plan_best(p, error);
    }
    bool planned = false;
    if (status == REMAT_INFEASIBLE) {
        const remat_status equal = api_pipeline_plan_equal(p, INFINITY, &planned, error);
        status = equal || planned ? equal : status;
    }
    return status == REMAT_INFEASIBLE ? api_pipeline_plan_blocks(p, error) : status;
}
