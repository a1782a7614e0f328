/* Time that is up: an answer is the best list until then and says so, and where nothing was found
 * yet, or nobody wants it any more, there is none. */
#include "unit/core_support.h"

#include "answer/best.h"
#include "api.h"
#include "model/layout.h"
#include "remat/answer.h"

#include <limits.h>

/* Polls until it is late, or cancelled. */
typedef struct patience {
    long left, polls;
} patience;

static bool ends(void *data)
{
    patience *p = data;
    p->polls++;
    return --p->left < 0;
}

typedef struct subject {
    const char *name;
    unsigned percent;
    uint32_t alignment;
    bool linked;
} subject;

static const subject subjects[] = {{"vgg19.flops", 80, 256, false},
                                   {"vgg19.flops", 60, 0, false},
                                   {"vgg19.flops", 75, 0, false},
                                   {"a row", 70, 0, true}};

/* Sixteen nodes in a row, each of whose values is read once more, in turn from its end. */
static remat_profile *row(void)
{
    enum { N = 16 };
    static char ids[N][4];
    static const char *reads[N][2];
    remat_node_spec nodes[N] = {{.id = NULL}};
    for (size_t i = 0; i < N; i++) {
        snprintf(ids[i], sizeof ids[i], "n%zu", i);
        reads[i][0] = ids[i > 0 ? i - 1 : 0];
        reads[i][1] = ids[N - 1 - i];
        nodes[i] = (remat_node_spec){.id = ids[i],
                                     .inputs = reads[i],
                                     .n_inputs = i == 0      ? 0
                                                 : i > N / 2 ? 2
                                                             : 1,
                                     .forward_time = NUMBER((double)(1 + i * 5 % 7)),
                                     .output_bytes = NUMBER((double)(1 + i * 3 % 5) * 60000),
                                     .backward_uses_inputs = true};
    }
    return make_profile(&(remat_profile_spec){HEADER, .nodes = nodes, .n_nodes = N});
}

static remat_profile *load(const char *name)
{
    if (strchr(name, ' '))
        return row();
    char path[512];
    json_error_t wrong;
    remat_profile *profile = NULL;
    remat_error error = {0};
    snprintf(path, sizeof path, TEST_PROFILES "/%s.json", name);
    json_t *json = json_load_file(path, 0, &wrong);
    if (remat_profile_decode(json, "", &profile, &error))
        fail_msg("%s: %s", name, error.message);
    json_decref(json);
    return profile;
}

static const remat_link link_of_all = {12e3, 12e3, 10, false}; /* bytes a microsecond */

static remat_query query_of(const subject *s, const remat_profile *profile)
{
    uint64_t peak;
    assert_int_equal(remat_store_all_peak(profile, &peak, NULL), REMAT_OK);
    const uint64_t budget = peak / 100 * s->percent;
    return (remat_query){.problem = {.profile = profile,
                                     .max_budget = budget,
                                     .link = s->linked ? &link_of_all : NULL},
                         .budget = budget,
                         .alignment = s->alignment,
                         .effort = REMAT_QUICK};
}

static remat_status ask(const subject *s, const remat_profile *profile, const remat_host *host,
                        remat_answered *ret_answered)
{
    remat_error error;
    const remat_query query = query_of(s, profile);
    *ret_answered = (remat_answered){.portfolio = {.n = 0}};
    const remat_status status = remat_answer(&query, host, NULL, ret_answered, &error);
    if (status && status != REMAT_CANCELLED)
        fail_msg("%s: %s", s->name, error.message);
    return status;
}

static long polls_of_tables(const subject *s, const remat_profile *profile)
{
    patience p = {.left = LONG_MAX};
    const remat_host host = {.data = &p, .workers = 1, .late = ends};
    remat_query query = query_of(s, profile);
    remat_portfolio portfolio;
    remat_error error;
    assert_int_equal(remat_portfolio_gather(NULL, &query.problem, &host, NULL, &portfolio, &error),
                     REMAT_OK);
    remat_portfolio_release(&portfolio);
    return p.polls;
}

static void check(const subject *s, const remat_profile *profile, const remat_schedule *found)
{
    remat_simulation replay;
    const remat_query query = query_of(s, profile);
    const uint64_t budget = query.budget;
    assert_int_equal(
        remat_simulate(profile, &found->operations, query.problem.link, NULL, NULL, &replay, NULL),
        REMAT_OK);
    assert_true(replay.valid && replay.peak <= budget && found->layout.arena <= budget);
    assert_true(replay.makespan == found->simulation.makespan &&
                found->lower_bound <= replay.makespan);
}

/* Asks with so much patience; returns how often was polled. */
static long ask_for(const subject *s, const remat_profile *profile, long left, double *makespan)
{
    remat_answered late;
    patience p = {.left = left};
    const remat_host host = {.data = &p, .workers = 1, .late = ends};
    const remat_status status = ask(s, profile, &host, &late);
    *makespan = INFINITY;
    if (!status) {
        check(s, profile, &late.schedule);
        assert_int_equal(late.schedule.cut_short, p.left < 0);
        *makespan = late.schedule.simulation.makespan;
    } else {
        assert_int_equal(status, REMAT_CANCELLED);
        assert_true(p.left < 0);
    }
    remat_answered_clear(&late);
    return p.polls;
}

/* What is not late is the answer; a fiftieth of the search gives a list that is no faster. */
static void what_was_found_is_handed_out(void **state)
{
    (void)state;
    unsigned slower = 0;
    for (size_t k = 0; k < COUNT(subjects); k++) {
        const subject *s = &subjects[k];
        remat_profile *profile = load(s->name);
        double whole, some;
        const long tables = polls_of_tables(s, profile);
        const long polls = ask_for(s, profile, LONG_MAX, &whole);
        ask_for(s, profile, tables + (polls - tables) / 50, &some);
        assert_true(some < INFINITY && some >= whole);
        slower += some > whole;
        ask_for(s, profile, tables / 2, &some);
        assert_true(some == INFINITY);
        remat_profile_free(profile);
    }
    assert_int_equal(slower, 2); /* one is at its bound before, one finds at once what it finds */
}

/* Cancelled while it is late: nobody waits for what was found. */
static void a_cancelled_question_has_no_answer(void **state)
{
    (void)state;
    remat_profile *profile = load(subjects[0].name);
    const long tables = polls_of_tables(&subjects[0], profile);
    patience p = {.left = tables + 100};
    const remat_host host = {.data = &p, .workers = 1, .cancelled = ends, .late = ends};
    remat_answered none;
    assert_int_equal(ask(&subjects[0], profile, &host, &none), REMAT_CANCELLED);
    remat_answered_clear(&none);
    remat_profile_free(profile);
}

/* A search for addresses ends as well: with those that are there at once, or with none. */
static void addresses_are_not_waited_for(void **state)
{
    (void)state;
    const subject *s = &subjects[1];
    remat_profile *profile = load(s->name);
    const remat_query query = query_of(s, profile);
    remat_answered answered;
    assert_int_equal(ask(s, profile, NULL, &answered), REMAT_OK);
    remat_schedule *schedule = &answered.schedule;
    model_goal goal = {.alignment = 256, .capacity = 1, .work = REMAT_LAYOUT_WORK};
    uint64_t arenas[2];
    for (int late = 0; late < 2; late++) {
        patience p = {.left = late ? 0 : LONG_MAX};
        const remat_host host = {.data = &p, .workers = 1, .late = ends};
        goal.host = &host;
        assert_int_equal(answer_lay_out(&query.problem, &goal, schedule, NULL), REMAT_OK);
        assert_true(schedule->layout.arena >= schedule->simulation.peak && p.polls > 0);
        arenas[late] = schedule->layout.arena;
        remat_layout_clear(&schedule->layout);
    }
    assert_true(arenas[1] > arenas[0]);
    patience p = {.left = 0};
    const remat_host host = {.data = &p, .workers = 1, .cancelled = ends};
    goal.host = &host;
    assert_int_equal(answer_lay_out(&query.problem, &goal, schedule, NULL), REMAT_CANCELLED);
    remat_answered_clear(&answered);
    remat_profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_was_found_is_handed_out),
                                       cmocka_unit_test(a_cancelled_question_has_no_answer),
                                       cmocka_unit_test(addresses_are_not_waited_for)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
