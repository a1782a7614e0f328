/* The judge of pipelines: what is in flight, how long steps are, what ranks hold, what is refused.
 * Times are multiples of 1/8: sums are exact wherever "exactly" stands. */
#include "unit/core_support.h"

#include "remat/pipeline.h"

#include "property/core_random.h"

enum { MOST_STAGES = 32 };

static remat_pipeline_play *judged(const remat_pipeline *p, const remat_pipeline_stage *stages)
{
    remat_pipeline_play *play = NULL;
    remat_error error = {0};
    if (remat_pipeline_judge(p, stages, &play, &error))
        fail_msg("%s: %s", error.field, error.message);
    return play;
}

static remat_pipeline pipeline(remat_pipeline_order order, uint32_t ranks, uint32_t microbatches)
{
    return (remat_pipeline){.order = order,
                            .ranks = ranks,
                            .microbatches = microbatches,
                            .chunks = 1,
                            .bandwidth = INFINITY};
}

static void fill(remat_pipeline_stage *stages, uint32_t n, double forward, double backward)
{
    for (uint32_t i = 0; i < n; i++)
        stages[i] = (remat_pipeline_stage){
            .forward = forward, .backward = backward, .held = 3, .peak = 5, .fixed = 7};
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* 512 cases; the memory of a rank is what it holds so many times and one working set. */
static void orders_have_their_numbers_in_flight(void **state)
{
    (void)state;
    remat_pipeline_stage stages[MOST_STAGES];
    fill(stages, 8, 1, 2);
    for (uint32_t ranks = 1; ranks <= 8; ranks++)
        for (uint32_t m = 1; m <= 32; m++)
            for (uint32_t k = 0; k < 2; k++) {
                const remat_pipeline p = pipeline(k ? REMAT_1F1B : REMAT_GPIPE, ranks, m);
                remat_pipeline_play *play = judged(&p, stages);
                for (uint32_t i = 0; i < ranks; i++) {
                    const uint32_t n = k ? smaller(m, ranks - i) : m;
                    assert_int_equal(play->ranks[i].in_flight, n);
                    assert_int_equal(play->ranks[i].peak, 7 + 3 * n + 2);
                    assert_true(play->ranks[i].busy == 3.0 * m);
                }
                assert_true(play->step == 3.0 * (m + ranks - 1));
                assert_true(fabs(play->bubble - (ranks - 1.0) / (m + ranks - 1)) < 1e-12);
                remat_pipeline_play_free(play);
            }
}

/* 112 cases. */
static void interleaving_has_its_numbers_in_flight(void **state)
{
    (void)state;
    remat_pipeline_stage stages[MOST_STAGES];
    fill(stages, MOST_STAGES, 1, 2);
    for (uint32_t ranks = 2; ranks <= 8; ranks++)
        for (uint32_t chunks = 1; chunks <= 4; chunks++)
            for (uint32_t m = ranks; m <= 4 * ranks; m += ranks) {
                remat_pipeline p = pipeline(REMAT_INTERLEAVED, ranks, m);
                p.chunks = chunks;
                remat_pipeline_play *play = judged(&p, stages);
                for (uint32_t i = 0; i < ranks; i++)
                    assert_int_equal(
                        play->ranks[i].in_flight,
                        smaller(m * chunks, 2 * (ranks - i - 1) + (chunks - 1) * ranks + 1));
                remat_pipeline_play_free(play);
            }
    remat_pipeline p = pipeline(REMAT_INTERLEAVED, 4, 16);
    p.chunks = 2;
    remat_pipeline_play *play = judged(&p, stages);
    assert_int_equal(play->ranks[0].in_flight_of[0], 7);
    assert_int_equal(play->ranks[0].in_flight_of[1], 4);
    assert_int_equal(play->ranks[0].peak, 2 * 7 + 3 * 11 + 2);
    remat_pipeline_play_free(play);
}

/* Of as many micro-batches as ranks a chunk's last backward comes before the first of the chunk
 * before it; of twice as many two chunks are under way. */
static void gradients_are_summed_from_first_to_last_backward(void **state)
{
    (void)state;
    remat_pipeline_stage stages[MOST_STAGES];
    fill(stages, MOST_STAGES, 1, 2);
    for (uint32_t i = 0; i < MOST_STAGES; i++)
        stages[i].summed = 10000; /* all else is less */
    for (uint32_t ranks = 2; ranks <= 8; ranks++)
        for (uint32_t chunks = 2; chunks <= 4; chunks++)
            for (uint32_t m = ranks; m <= 2 * ranks; m += ranks) {
                remat_pipeline p = pipeline(REMAT_INTERLEAVED, ranks, m);
                p.chunks = chunks;
                remat_pipeline_play *play = judged(&p, stages);
                const uint64_t whole = play->ranks[0].peak / 10000;
                assert_int_equal(whole, m == ranks ? 1 : chunks);
                remat_pipeline_play_free(play);
            }
}

/* ---- steps ---- */

static remat_pipeline random_pipeline(dice *d, remat_pipeline_order order,
                                      remat_pipeline_stage *stages)
{
    remat_pipeline p = pipeline(order, 1 + below(d, 6), 1 + below(d, 16));
    if (order == REMAT_INTERLEAVED) {
        p.chunks = 1 + below(d, 3);
        p.microbatches = p.ranks * (1 + below(d, 3));
    }
    for (uint32_t i = 0; i < p.ranks * p.chunks; i++)
        stages[i] = (remat_pipeline_stage){.forward = below(d, 80) * 0.125,
                                           .backward = below(d, 160) * 0.125,
                                           .held = 9 + below(d, 9),
                                           .peak = 20 + below(d, 9),
                                           .input = below(d, 9),
                                           .output = below(d, 9)};
    return p;
}

/* No rank works before what comes to it has gone through those before, nor do they stop before what
 * it sends back has gone through them. */
static void no_step_is_below_any_ranks_work_and_way(void **state)
{
    (void)state;
    remat_pipeline_stage stages[MOST_STAGES];
    dice d = {1};
    for (uint32_t k = 0; k < 3000; k++) {
        const remat_pipeline p = random_pipeline(&d, REMAT_1F1B, stages);
        remat_pipeline_play *play = judged(&p, stages);
        double before = 0, least = 0;
        for (uint32_t i = 0; i < p.ranks; i++) {
            const double time = stages[i].forward + stages[i].backward;
            least = fmax(least, before + p.microbatches * time);
            before += time;
        }
        assert_true(play->step >= least);
        remat_pipeline_play_free(play);
    }
}

static void gpipe_takes_exactly_its_formula(void **state)
{
    (void)state;
    remat_pipeline_stage stages[MOST_STAGES];
    dice d = {2};
    for (uint32_t k = 0; k < 3000; k++) {
        const remat_pipeline p = random_pipeline(&d, REMAT_GPIPE, stages);
        remat_pipeline_play *play = judged(&p, stages);
        double forward = 0, backward = 0, sum = 0;
        for (uint32_t i = 0; i < p.ranks; i++) {
            forward = fmax(forward, stages[i].forward);
            backward = fmax(backward, stages[i].backward);
            sum += stages[i].forward + stages[i].backward;
        }
        assert_true(play->step == (p.microbatches - 1) * (forward + backward) + sum);
        remat_pipeline_play_free(play);
    }
}

static void one_more_in_flight_hides_a_send(void **state)
{
    (void)state;
    remat_pipeline_stage stages[4];
    fill(stages, 4, 1, 2);
    static const uint32_t more[] = {7, 5, 3, 1};
    static const struct {
        uint32_t microbatches;
        const uint32_t *in_flight;
        double step;
    } cases[] = {{8, NULL, 37.8}, {32, NULL, 120.6}, {8, more, 34.8}, {32, more, 106.8}};
    for (size_t k = 0; k < COUNT(cases); k++) {
        remat_pipeline p = pipeline(REMAT_1F1B, 4, cases[k].microbatches);
        p.latency = 0.3;
        p.in_flight = cases[k].in_flight;
        remat_pipeline_play *play = judged(&p, stages);
        if (fabs(play->step - cases[k].step) > 1e-9)
            fail_msg("case %zu: %.17g, not %g", k, play->step, cases[k].step);
        for (uint32_t i = 0; i < 4 && cases[k].in_flight; i++)
            assert_int_equal(play->ranks[i].in_flight, more[i]);
        remat_pipeline_play_free(play);
    }
}

/* Sends of one link wait for each other: ten bytes at one a unit, while a pass takes one. */
static void a_link_carries_one_send_at_a_time(void **state)
{
    (void)state;
    remat_pipeline_stage stages[2];
    fill(stages, 2, 1, 1);
    stages[0].output = 10;
    remat_pipeline p = pipeline(REMAT_GPIPE, 2, 3);
    p.bandwidth = 1;
    p.latency = 0.5;
    remat_pipeline_play *play = judged(&p, stages);
    /* Forwards end at 1, 2, 3; arrive at 11.5, 22, 32.5; the last goes back at 0.5 each. */
    assert_true(play->ranks[1].passes[2].start == 32.5);
    assert_true(play->ranks[0].passes[5].start == 37);
    assert_true(play->step == 38);
    /* At its third forward rank 0 holds 3, works with 2 and has two outputs on the way. */
    assert_int_equal(play->ranks[0].passes[2].memory, 7 + 9 + 2 + 20);
    assert_int_equal(play->ranks[0].peak, 7 + 9 + 2 + 20);
    /* After it it holds them and has three on the way, which are gone when the first comes back. */
    assert_int_equal(play->ranks[0].passes[2].after, 7 + 9 + 30);
    assert_int_equal(play->ranks[0].passes[3].after, 7 + 6);
    remat_pipeline_play_free(play);
}

/* ---- every moment ---- */

typedef struct moment {
    double start, end;
    uint32_t times;
} moment;

static moment (*moments(const remat_pipeline *p, const remat_pipeline_play *play))[2]
{
    moment(*of)[2] = calloc((size_t)p->ranks * p->chunks * p->microbatches, sizeof *of);
    assert_non_null(of);
    for (uint32_t r = 0; r < play->n_ranks; r++)
        for (size_t i = 0; i < play->ranks[r].n_passes; i++) {
            const remat_pipeline_pass *pass = &play->ranks[r].passes[i];
            moment *x = &of[pass->stage * p->microbatches + pass->microbatch][pass->backward];
            *x = (moment){pass->start, pass->end, x->times + 1};
            assert_int_equal(pass->stage % p->ranks, r);
            assert_true(i == 0 || play->ranks[r].passes[i - 1].end <= pass->start);
            assert_true(pass->memory <= play->ranks[r].peak);
        }
    return of;
}

/* Each pass once, after what it reads, and none later than it could be. */
static void every_pass_begins_as_soon_as_it_can(void **state)
{
    (void)state;
    remat_pipeline_stage stages[MOST_STAGES];
    dice d = {3};
    for (uint32_t k = 0; k < 600; k++) {
        remat_pipeline p =
            random_pipeline(&d, (remat_pipeline_order)(k % REMAT_PIPELINE_ORDERS), stages);
        const uint32_t n = p.ranks * p.chunks, m = p.microbatches;
        remat_pipeline_play *play = judged(&p, stages);
        moment(*of)[2] = moments(&p, play);
        double last = 0;
        for (uint32_t r = 0; r < p.ranks; r++)
            for (size_t i = 0; i < play->ranks[r].n_passes; i++) {
                const remat_pipeline_pass *x = &play->ranks[r].passes[i];
                const uint32_t at = x->stage * m + x->microbatch;
                double soonest = i > 0 ? play->ranks[r].passes[i - 1].end : 0;
                if (!x->backward && x->stage > 0)
                    soonest = fmax(soonest, of[at - m][0].end);
                if (x->backward)
                    soonest = fmax(soonest, x->stage + 1 < n ? of[at + m][1].end : of[at][0].end);
                assert_int_equal(of[at][x->backward].times, 1);
                assert_true(x->start == soonest);
                last = fmax(last, x->end);
            }
        assert_true(play->step == last);
        free(of);
        remat_pipeline_play_free(play);
    }
}

/* ---- runtimes ---- */

static void runtimes_keep_what_they_keep(void **state)
{
    (void)state;
    remat_error error;
    remat_pipeline_stage stages[3];
    fill(stages, 3, 1, 2);
    for (uint32_t i = 0; i < 3; i++)
        stages[i].input = stages[i].output = 2;
    remat_pipeline p = pipeline(REMAT_1F1B, 3, 8);
    static const struct {
        const char *name;
        uint64_t peak[3];
    } runtimes[] = {
        /* fixed 7, working 2; 3 held and 2 sent each; inputs of those not in flight; gradients but
         * the one at work */
        {"pytorch", {7 + 2 + 3 * 5 + 7 * 2, 7 + 2 + 2 * 5 + 6 * 2 + 7 * 2, 7 + 2 + 3 + 7 * 2}},
        /* an input and a gradient posted ahead */
        {"megatron", {7 + 2 + 3 * 3 + 2, 7 + 2 + 2 * 3 + 2 + 2, 7 + 2 + 3 + 2}}};
    for (size_t k = 0; k < COUNT(runtimes); k++) {
        assert_int_equal(remat_runtime_find(runtimes[k].name, &p.runtime, &error), REMAT_OK);
        remat_pipeline_play *play = judged(&p, stages);
        for (uint32_t i = 0; i < 3; i++)
            assert_int_equal(play->ranks[i].peak, runtimes[k].peak[i]);
        remat_pipeline_play_free(play);
    }
    assert_int_equal(remat_runtime_find("guess", &p.runtime, &error), REMAT_INVALID);
    assert_string_equal(error.message,
                        "there is no runtime \"guess\"; known are pytorch, megatron and none");
}

/* ---- refusals ---- */

static void what_cannot_be_played_is_refused(void **state)
{
    (void)state;
    static const uint32_t growing[] = {1, 2};
    static const uint32_t many[] = {9, 1};
    const remat_pipeline good = {REMAT_1F1B, 2, 8, 1, NULL, {.ahead = 0}, 0, INFINITY};
    const struct {
        remat_pipeline p;
        remat_pipeline_stage stage;
        remat_status status;
        const char *field;
    } bad[] = {
        {{REMAT_INTERLEAVED, 2, 7, 2, NULL, {.ahead = 0}, 0, 1},
         {.held = 0},
         REMAT_INVALID,
         "microbatches"},
        {{REMAT_1F1B, 2, 8, 2, NULL, {.ahead = 0}, 0, 1}, {.held = 0}, REMAT_INVALID, "chunks"},
        {{REMAT_1F1B, 0, 8, 1, NULL, {.ahead = 0}, 0, 1}, {.held = 0}, REMAT_INVALID, "ranks"},
        {{REMAT_1F1B, 2, 0, 1, NULL, {.ahead = 0}, 0, 1},
         {.held = 0},
         REMAT_INVALID,
         "microbatches"},
        {{REMAT_1F1B, 256, 4096, 1, NULL, {.ahead = 0}, 0, 1},
         {.held = 0},
         REMAT_TOO_LARGE,
         "microbatches"},
        {{REMAT_1F1B, 2, 8, 1, growing, {.ahead = 0}, 0, 1},
         {.held = 0},
         REMAT_INVALID,
         "in_flight"},
        {{REMAT_1F1B, 2, 8, 1, many, {.ahead = 0}, 0, 1}, {.held = 0}, REMAT_INVALID, "in_flight"},
        {{REMAT_GPIPE, 2, 8, 1, many, {.ahead = 0}, 0, 1}, {.held = 0}, REMAT_INVALID, "in_flight"},
        {{REMAT_1F1B, 2, 8, 1, NULL, {.ahead = 0}, -1, 1},
         {.held = 0},
         REMAT_INVALID,
         "link.latency"},
        {{REMAT_1F1B, 2, 8, 1, NULL, {.ahead = 0}, 0, NAN},
         {.held = 0},
         REMAT_INVALID,
         "link.bandwidth"},
        {good, {.forward = NAN}, REMAT_INVALID, "stages[1]"},
        {good, {.backward = INFINITY}, REMAT_INVALID, "stages[1]"},
        {good, {.held = 2, .peak = 1}, REMAT_INVALID, "stages[1]"},
        {good, {.input = 1}, REMAT_INVALID, "stages[1]"},
        {good, {.fixed = UINT64_MAX}, REMAT_INVALID, "stages[1]"}};
    for (size_t i = 0; i < COUNT(bad); i++) {
        const remat_pipeline_stage stages[256] = {{.held = 0}, bad[i].stage};
        remat_pipeline_play *play = NULL;
        remat_error error = {0};
        assert_int_equal(remat_pipeline_judge(&bad[i].p, stages, &play, &error), bad[i].status);
        assert_string_equal(error.field, bad[i].field);
        assert_null(play);
    }
    remat_pipeline_play_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders_have_their_numbers_in_flight),
        cmocka_unit_test(interleaving_has_its_numbers_in_flight),
        cmocka_unit_test(gradients_are_summed_from_first_to_last_backward),
        cmocka_unit_test(no_step_is_below_any_ranks_work_and_way),
        cmocka_unit_test(gpipe_takes_exactly_its_formula),
        cmocka_unit_test(one_more_in_flight_hides_a_send),
        cmocka_unit_test(a_link_carries_one_send_at_a_time),
        cmocka_unit_test(every_pass_begins_as_soon_as_it_can),
        cmocka_unit_test(runtimes_keep_what_they_keep),
        cmocka_unit_test(what_cannot_be_played_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
