/* What a pipeline asks of its stages, and what becomes of the answers. */
#include "plan/pipeline.h"

#include "fields.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of what no schedule beats. */
static const double NEAR_ENOUGH = 5e-3;
/* More rounds than these are for what is small: questions of so many nodes in all. */
enum { MOST_ROUNDS = 4, MOST_NODES_ASKED = 300, ROUNDS_AT_LAST = 200 };
/* Stages of at most so many are asked of auto, quickly too. */
enum { FEW_NODES = 150, MANY_NODES = 400 };

/* ---- questions ---- */

/* What a solver's table says of a stage. */
typedef struct stage_fit {
    bool fits, near; /* with a fiftieth for its layout; and is as good as any */
    bool nearly;     /* with an eighth more memory */
} stage_fit;

static remat_status look_at_solver(const api_pipeline *p, const remat_solver *solver,
                                   const remat_problem *problem, uint32_t n, double least,
                                   stage_fit *ret_fit, remat_error *error)
{
    const uint64_t budget = problem->max_budget;
    remat_table *table = NULL, *several = NULL;
    size_t count;
    remat_status status = remat_tabulate(solver, problem, p->q.host, &table, error);
    if (!status)
        status = remat_table_in_flight(table, n, &several, error);
    const ptrdiff_t at = several ? remat_table_point(several, budget / 50 * 49) : -1;
    ret_fit->fits = at >= 0;
    ret_fit->near =
        at >= 0 && remat_table_frontier(several, &count)[at].makespan <= least * (1 + NEAR_ENOUGH);
    ret_fit->nearly = several && remat_table_point(several, budget + budget / 8) >= 0;
    remat_table_free(several);
    remat_table_free(table);
    return status;
}

/* Whether running blocks again fits, with an eighth more memory. */
static remat_status are_blocks_near(api_pipeline *p, const api_asked *x, bool *ret_near,
                                    remat_error *error)
{
    remat_status status = REMAT_OK;
    for (unsigned d = 0; 1U << d < 2 * (x->end - x->first) && !*ret_near && !status; d++) {
        remat_stage_list list;
        status =
            api_pipeline_blocks_of(p, x->shape, x->first, x->end, d, 0, x->in_flight, &list, error);
        *ret_near = !status && list.peak + (x->in_flight - 1) * list.held <= x->budget / 8 * 9;
    }
    return status;
}

/* The quickest solver that is as good as any, or, quickly, that searches on from a list that fits:
 * of hundreds of nodes auto takes its time. *ret_name NULL: quickly, and none
 * has a list that is near to fitting. */
static remat_status quick_solver(api_pipeline *p, const api_asked *x, double least,
                                 const char **ret_name, remat_error *error)
{
    enum { STORE_ALL, SELECTIVE, LOWERSET, SOLVERS };
    static const char *const names[SOLVERS] = {"store-all", "selective", "lowerset"};
    const remat_profile *profile = p->shapes[x->shape].profile;
    const uint64_t budget = x->budget;
    const uint32_t n = x->in_flight;
    const bool quick = p->quick && profile->n_nodes > FEW_NODES;
    bool nearly = !quick;
    remat_status status = REMAT_OK;
    *ret_name = "auto";
    if (quick && profile->n_nodes > MANY_NODES)
        status = are_blocks_near(p, x, &nearly, error);
    for (size_t i = 0; i < SOLVERS && !status; i++) {
        const remat_solver *solver = remat_solver_find(names[i]);
        remat_problem problem = {.profile = profile, .max_budget = budget, .in_flight = n};
        stage_fit fit = {false, false, false};
        problem.options = remat_options_default(solver);
        if (remat_solver_accepts(solver, &problem, NULL) ||
            (quick && i == LOWERSET && profile->n_nodes > MANY_NODES))
            continue;
        if (quick && i == SELECTIVE) /* mostly that is all there is to know */
            status = remat_reaches(solver, &problem, budget / 50 * 49, p->q.host, &fit.fits, error);
        problem.in_flight = 1;
        if (!status && !fit.fits)
            status = look_at_solver(p, solver, &problem, n, least, &fit, error);
        nearly |= fit.nearly;
        if (!status && (fit.near || (quick && fit.fits && solver->improved))) {
            *ret_name = names[i];
            return REMAT_OK;
        }
    }
    if (!nearly)
        *ret_name = NULL;
    return status;
}

static json_t *question_encode(const api_pipeline *p, const api_asked *x)
{
    json_t *json = json_copy(p->terms);
    remat_json_set(&json, "budget", json_integer((json_int_t)x->budget));
    if (x->in_flight > 1)
        remat_json_set(&json, "in_flight", json_integer(x->in_flight));
    if (!json_object_get(json, "solver")) {
        remat_json_set(&json, "solver", json_string(x->solver));
        const remat_solver *solver = remat_solver_find(x->solver); /* NULL: auto */
        if (json && solver && !solver->improved)
            json_object_del(json, "effort"); /* it is for the other stages */
    }
    return json;
}

static bool is_refused(const api_pipeline *p, const api_asked *x, uint64_t budget)
{
    for (size_t i = 0; i < p->n_asked; i++)
        if (p->asked[i].done && !p->asked[i].fits && p->asked[i].shape == x->shape &&
            p->asked[i].in_flight == x->in_flight && p->asked[i].budget >= budget)
            return true;
    return false;
}

/* Asks for that budget, where it is less, was not refused, and serves as well as its own. */
static remat_status offer_budget(api_pipeline *p, api_asked *x, uint64_t own, uint64_t budget,
                                 remat_error *error)
{
    bool serves = false;
    if (budget >= x->budget || is_refused(p, x, budget))
        return REMAT_OK;
    remat_status status =
        api_pipeline_serves(p, x->shape, x->in_flight, budget, own, &serves, error);
    x->budget = serves ? budget : x->budget;
    return status;
}

/* The least budget with room for more that is on its way, or of such a stage of the plan, that
 * serves: one question does for all of them. */
static remat_status share_budget(api_pipeline *p, uint32_t rank, api_asked *x, remat_error *error)
{
    enum { SENDS = API_MOST_SENDS + 1 };
    const uint64_t own = x->budget;
    remat_stage_menu menu;
    remat_status status = api_pipeline_bytes(p, x->first, x->end, &menu, error);
    for (unsigned i = 0; i < API_ROOMS && !status; i++) {
        const uint64_t budget =
            api_pipeline_budget(p, rank, x->in_flight, &menu, i / SENDS, i % SENDS);
        status = offer_budget(p, x, own, budget, error);
    }
    for (uint32_t r = 0; r < p->question.pipeline.ranks && !status; r++) {
        const remat_planned_stage *other = &p->now.plan.stages[r];
        size_t shape = 0;
        if (!(other->list.tag & API_UNASKED) || other->list.in_flight != x->in_flight)
            continue;
        status = api_pipeline_shape(p, other->first, other->end, &shape, error);
        if (!status && shape == x->shape)
            status = offer_budget(p, x, own, other->list.tag & ~API_UNASKED, error);
    }
    return status;
}

/* What a list of the plan stands for: an answer, or a question of its stage. */
static remat_status find_terms(api_pipeline *p, uint32_t rank, api_asked *x, remat_error *error)
{
    const remat_planned_stage *stage = &p->now.plan.stages[rank];
    const remat_stage_list *list = &stage->list;
    remat_status status = api_pipeline_shape(p, x->first, x->end, &x->shape, error);
    if (status)
        return status;
    x->in_flight = list->in_flight;
    x->budget = list->tag & ~API_UNASKED;
    if (list->tag == API_BLOCKS) {
        x->in_flight = remat_pipeline_in_flight(&p->question.pipeline, rank);
        x->budget = list->peak + (x->in_flight - 1) * list->held;
    } else if (!(list->tag & API_UNASKED)) {
        x->in_flight = p->asked[list->tag].in_flight;
        x->budget = p->asked[list->tag].budget;
    } else {
        status = share_budget(p, rank, x, error);
    }
    return status;
}

/* The ids that the answer of a stage's question would have. */
static remat_status identify(api_pipeline *p, api_asked *x, json_t **schedule, remat_error *error)
{
    json_t *json = question_encode(p, x);
    remat_profile *profile = NULL;
    remat_question question = {.text = NULL};
    remat_request request;
    uint64_t all = 0;
    remat_status status =
        api_stage_profile(p->profile, &p->units, x->first, x->end, &profile, error);
    if (!status)
        status = remat_store_all_peak(profile, &all, error);
    if (!status) {
        remat_profile_id(profile, x->profile_id);
        remat_json_set(&json, "profile_id", json_string(x->profile_id));
        status = json ? remat_request_decode(json, REMAT_ASK_SCHEDULE, &request, error)
                      : remat_fail_memory(error);
    }
    if (!status)
        status = remat_question_resolve(&request, x->profile_id, profile, all, &question, error);
    if (!status)
        remat_json_set(schedule, "schedule_id", json_string(question.id));
    remat_question_clear(&question);
    remat_profile_free(profile);
    json_decref(json);
    return status;
}

/* What an equal stage answered is what this one would, under other ids. */
static remat_status take_over(api_pipeline *p, const api_asked *equal, api_asked *x,
                              remat_error *error)
{
    json_t *schedule = json_copy(equal->schedule);
    remat_status status = identify(p, x, &schedule, error);
    if (!status && !schedule)
        status = remat_fail_memory(error);
    if (status) {
        json_decref(schedule);
        return status;
    }
    x->schedule = schedule;
    x->list = equal->list;
    x->done = x->fits = true;
    return REMAT_OK;
}

static bool is_equal(const api_asked *one, const api_asked *other)
{
    return one != other && one->shape == other->shape && one->in_flight == other->in_flight &&
           one->budget == other->budget;
}

/* The refusal of an equal stage, or its answer where nobody keeps it. */
static remat_status look_at_equals(api_pipeline *p, api_asked *x, remat_error *error)
{
    for (size_t i = 0; i < p->n_asked; i++) {
        const api_asked *equal = &p->asked[i];
        if (!is_equal(equal, x) || !equal->done)
            continue;
        x->done = !equal->fits;
        return equal->fits && !p->q.keeps ? take_over(p, equal, x, error) : REMAT_OK;
    }
    return REMAT_OK;
}

/* The solver of an equal stage; else the one that is good and quickest. */
static remat_status find_solver(api_pipeline *p, api_asked *x, remat_error *error)
{
    double least = 0;
    for (size_t i = 0; i < p->n_asked; i++)
        if (is_equal(&p->asked[i], x)) {
            x->solver = p->asked[i].solver;
            return look_at_equals(p, x, error);
        }
    const remat_profile *profile = p->shapes[x->shape].profile;
    remat_status status = api_pipeline_total(p, x->shape, x->in_flight, x->budget, &least, error);
    p->nodes_asked += profile->n_nodes;
    if (!status)
        status = quick_solver(p, x, least, &x->solver, error);
    x->done = !status && !x->solver; /* refused */
    return status;
}

/* The answer of a rank's stage, asked already or to be asked. */
static remat_status asked_of(api_pipeline *p, uint32_t rank, size_t *ret_index, remat_error *error)
{
    const remat_planned_stage *stage = &p->now.plan.stages[rank];
    api_asked x = {.first = stage->first, .end = stage->end};
    remat_status status = find_terms(p, rank, &x, error);
    if (status)
        return status;
    for (size_t i = 0; i < p->n_asked; i++)
        if (p->asked[i].first == x.first && p->asked[i].end == x.end &&
            is_equal(&p->asked[i], &x)) {
            *ret_index = i;
            return p->asked[i].done ? REMAT_OK : look_at_equals(p, &p->asked[i], error);
        }
    status = find_solver(p, &x, error);
    api_asked *more = status ? NULL : api_pipeline_grow(p->asked, p->n_asked, sizeof *more);
    if (!more) {
        json_decref(x.schedule);
        return status ? status : remat_fail_memory(error);
    }
    p->asked = more;
    *ret_index = p->n_asked;
    more[p->n_asked++] = x;
    return REMAT_OK;
}

/* The first of the plan's stages that has not answered; ranks: all have, or, quickly, one does not
 * fit. Quickly all are looked at before one is asked: a refusal makes the others not matter. */
static remat_status next_rank(api_pipeline *p, uint32_t *ret_rank, bool *ret_fits,
                              remat_error *error)
{
    const uint32_t ranks = p->question.pipeline.ranks;
    uint32_t next = ranks;
    *ret_fits = true;
    p->question.pipeline.in_flight =
        p->question.pipeline.order == REMAT_1F1B ? p->now.in_flight : NULL;
    for (uint32_t r = 0; r < ranks && (next == ranks || p->quick) && (*ret_fits || !p->quick);
         r++) {
        size_t i = 0;
        remat_status status = asked_of(p, r, &i, error);
        if (status)
            return status;
        p->now.asked[r] = i;
        if (!p->asked[i].done && next == ranks)
            next = r;
        *ret_fits &= !p->asked[i].done || p->asked[i].fits;
    }
    *ret_rank = *ret_fits || !p->quick ? next : ranks;
    return REMAT_OK;
}

/* Plays the answers; *ret_fits: beside what is on its way too. */
static remat_status play_now(api_pipeline *p, bool *ret_fits, remat_error *error)
{
    const uint32_t ranks = p->question.pipeline.ranks;
    remat_pipeline_stage stages[REMAT_MOST_RANKS] = {{.held = 0}};
    *ret_fits = true;
    p->now.beside = (api_beside){0, 0};
    for (uint32_t r = 0; r < ranks; r++) {
        remat_planned_stage *stage = &p->now.plan.stages[r];
        const remat_stage_list *list = &p->asked[p->now.asked[r]].list;
        const api_part part = {stage->first, stage->end};
        remat_stage_menu m;
        remat_step_table table;
        remat_status status = api_pipeline_bytes(p, stage->first, stage->end, &m, error);
        if (!status)
            status = api_pipeline_table(p, &part, 1, &table, error);
        if (status)
            return status;
        api_pipeline_beside(p, &part, 1, &table, list->backward, &p->now.beside);
        stages[r] = remat_stage_of(&m, list);
        stage->list = *list;
        stage->stage = stages[r];
    }
    remat_status status = remat_pipeline_judge(&p->question.pipeline, stages, &p->now.play, error);
    for (uint32_t r = 0; r < ranks && !status; r++)
        *ret_fits &= p->now.play->ranks[r].peak <= p->question.memory;
    if (!status) {
        p->now.plan.step = p->now.play->step;
        p->now.plan.whole =
            p->now.plan.step + (p->now.beside.update + p->now.beside.exchange) / p->unit;
    }
    return status;
}

/* Keeps the plan at hand if it is the best. */
static remat_status keep_best(api_pipeline *p, bool fits, remat_error *error)
{
    bool beside = true;
    remat_status status = fits ? play_now(p, &beside, error) : REMAT_OK;
    if (status)
        return status;
    if (!beside && p->sends < API_MOST_SENDS)
        p->sends++;
    if (fits && beside && (!p->best.play || p->now.plan.whole < p->best.plan.whole)) {
        remat_pipeline_play_free(p->best.play);
        p->best = p->now;
        p->now.play = NULL;
    }
    remat_pipeline_play_free(p->now.play);
    p->now.play = NULL;
    return REMAT_OK;
}

/* Whether another plan promises more than the best, of which no stage takes longer than it. */
static remat_status plan_again(api_pipeline *p, bool *ret_better, remat_error *error)
{
    const double whole = p->best.play ? p->best.plan.whole : (double)INFINITY;
    if (p->best.play)
        p->longest = whole / p->question.pipeline.microbatches * (1 + 1e-9);
    remat_status status = api_pipeline_plan_best(p, error);
    *ret_better = !status && p->now.plan.whole < whole * (1 - API_WORTH_A_ROUND);
    return status == REMAT_INFEASIBLE ? REMAT_OK : status;
}

/* All stages have answered: plans anew where that may be better, with more and more hopes for those
 * that were not asked and then with room for more that is on its way, until no plan promises more;
 * where nothing has fitted, and not quickly, with longer stages too. */
static remat_status settle(api_pipeline *p, bool fits, bool *ret_over, remat_error *error)
{
    remat_status status = keep_best(p, fits, error);
    if (!status && p->best.play)
        status = api_pipeline_find_bound(p, error);
    const double whole = p->best.play ? p->best.plan.whole : (double)INFINITY;
    const unsigned rounds = p->best.play ? MOST_ROUNDS : 3 * MOST_ROUNDS;
    bool better = false;
    *ret_over = true;
    if (status || (p->quick && p->best.play) ||
        (p->rounds++ >= rounds && p->nodes_asked >= MOST_NODES_ASKED) ||
        p->rounds > ROUNDS_AT_LAST || (p->best.play && whole <= p->bound * (1 + API_WORTH_A_ROUND)))
        return status;
    status = plan_again(p, &better, error);
    while (!status && !better && (p->hopes < API_FAST_AND_SMALL || p->sends < API_MOST_SENDS)) {
        if (p->hopes < API_FAST_AND_SMALL)
            p->hopes++;
        else
            p->sends++;
        status = plan_again(p, &better, error);
    }
    if (!status && !better && !p->best.play && p->longest < INFINITY && !p->quick) {
        p->longest = INFINITY;
        status = plan_again(p, &better, error);
    }
    *ret_over = status || !better;
    return status;
}

/* Nothing that was planned has fitted: the last is to run every block again. */
static remat_status try_blocks(api_pipeline *p, bool *ret_over, remat_error *error)
{
    remat_status status = api_pipeline_plan_blocks(p, &p->refusal);
    p->last = true;
    *ret_over = status == REMAT_INFEASIBLE;
    if (status && !*ret_over && error)
        *error = p->refusal;
    if (!*ret_over)
        p->refusal.status = REMAT_OK;
    return *ret_over ? REMAT_OK : status;
}

remat_status api_pipeline_ask(api_pipeline *p, json_t **ret_document, json_t **ret_question,
                              remat_error *error)
{
    const uint32_t ranks = p->question.pipeline.ranks;
    uint32_t rank = 0;
    bool fits = true, over = p->refusal.status != REMAT_OK || p->over;
    remat_status status = REMAT_OK;
    *ret_document = *ret_question = NULL;
    while (!over && !status) {
        status = next_rank(p, &rank, &fits, error);
        if (status || rank < ranks)
            break;
        status = settle(p, fits, &over, error);
        bool planned = false;
        if (!status && over)
            status = api_pipeline_plan_equal(
                p, p->best.play ? p->best.plan.whole : (double)INFINITY, &planned, error);
        over = over && !planned;
        if (!status && over && !p->best.play && !p->last)
            status = try_blocks(p, &over, error);
    }
    p->over = over;
    if (status || over) {
        if (over && !p->best.play && !p->refusal.status)
            remat_fail(&p->refusal, REMAT_INFEASIBLE, "memory",
                       "by what no schedule beats it may fit, but no schedules were found that do");
        return status;
    }
    p->pending = p->now.asked[rank];
    const api_asked *x = &p->asked[p->pending];
    *ret_document = api_stage_document(p->profile, p->document, &p->units, x->first, x->end);
    *ret_question = question_encode(p, x);
    if (*ret_document && *ret_question)
        return REMAT_OK;
    json_decref(*ret_document);
    json_decref(*ret_question);
    *ret_document = *ret_question = NULL;
    return remat_fail_memory(error);
}

remat_status api_pipeline_take(api_pipeline *p, const json_t *schedule, remat_error *error)
{
    api_asked *x = &p->asked[p->pending];
    const remat_profile *profile = p->shapes[x->shape].profile;
    remat_operations operations = {0};
    x->done = true;
    if (!schedule)
        return REMAT_OK;
    remat_status status = remat_operations_decode(json_object_get(schedule, "operations"), profile,
                                                  "operations", &operations, error);
    if (!status)
        status = remat_stage_replay(profile, &operations, &x->list, error);
    remat_operations_clear(&operations);
    if (status)
        return status;
    /* The arena is what it takes, n blocks of what is held and one of the rest. */
    const uint64_t others = (x->in_flight - 1) * x->list.held;
    const double arena = remat_json_number(schedule, "arena");
    if (arena > (double)(others + x->list.peak))
        x->list.peak = (uint64_t)arena - others;
    x->schedule = api_schedule_part(schedule);
    snprintf(x->profile_id, sizeof x->profile_id, "%s", remat_json_string(schedule, "profile_id"));
    x->fits = true;
    return x->schedule ? REMAT_OK : remat_fail_memory(error);
}
