/* The simulator, by examples small enough to be worked out by hand from remat/simulate.h. The
 * comment beside each number is the sum it comes from. */
#include "unit/core_support.h"

enum { MOST = 32 };

static remat_moment moments[MOST];

static remat_simulation replay(const remat_profile *p, const remat_operations *list,
                               const remat_link *link)
{
    remat_simulation simulation;
    remat_error error;
    assert_true(list->length <= MOST);
    assert_int_equal(remat_simulate(p, list, link, moments, NULL, &simulation, &error), REMAT_OK);
    return simulation;
}

static remat_simulation replay_valid(const remat_profile *p, const remat_operations *list,
                                     const remat_link *link)
{
    remat_simulation simulation = replay(p, list, link);
    if (!simulation.valid)
        fail_msg("operation %zu: %s", simulation.bad_operation, simulation.reason);
    return simulation;
}

static void assert_memory(const uint64_t (*expected)[2], size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (moments[i].memory_during != expected[i][0] || moments[i].memory_after != expected[i][1])
            fail_msg("operation %zu: %llu then %llu, not %llu then %llu", i,
                     (unsigned long long)moments[i].memory_during,
                     (unsigned long long)moments[i].memory_after,
                     (unsigned long long)expected[i][0], (unsigned long long)expected[i][1]);
}

#define ASSERT_MEMORY(...)                                                                         \
    assert_memory((const uint64_t[][2]){__VA_ARGS__}, COUNT(((const uint64_t[][2]){__VA_ARGS__})))

static void assert_times(const double (*expected)[2], size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (moments[i].start != expected[i][0] || moments[i].end != expected[i][1])
            fail_msg("operation %zu: from %g to %g, not from %g to %g", i, moments[i].start,
                     moments[i].end, expected[i][0], expected[i][1]);
}

#define ASSERT_TIMES(...)                                                                          \
    assert_times((const double[][2]){__VA_ARGS__}, COUNT(((const double[][2]){__VA_ARGS__})))

static void assert_rejected(const remat_profile *p, const remat_operations *list,
                            const remat_link *link, size_t at, const char *word)
{
    remat_simulation simulation = replay(p, list, link);
    assert_false(simulation.valid);
    if (simulation.bad_operation != at || !strstr(simulation.reason, word))
        fail_msg("operation %zu: %s; expected %zu: %s", simulation.bad_operation, simulation.reason,
                 at, word);
}

#define REJECTED(p, link, at, word, ...)                                                           \
    do {                                                                                           \
        remat_operations list_ = OPERATIONS(__VA_ARGS__);                                          \
        assert_rejected(p, &list_, link, at, word);                                                \
    } while (0)

/* ---- the profiles ---- */

/* x (10 bytes, gradient 3) -> a -> loss. Distinct powers of ten tell every part of a sum. */
static remat_profile *two_nodes(void)
{
    remat_profile_spec spec = {
        HEADER, GRAPH_INPUTS({.id = "x", .bytes = NUMBER(10), .gradient_bytes = NUMBER(3)}),
        NODES({.id = "a",
               .forward_time = NUMBER(2),
               .backward_time = NUMBER(5),
               .output_bytes = NUMBER(100),
               .saved_bytes = NUMBER(1000),
               .gradient_bytes = NUMBER(10000),
               .forward_workspace_bytes = NUMBER(100000),
               .save_workspace_bytes = NUMBER(200000),
               .backward_workspace_bytes = NUMBER(1000000),
               .backward_uses_inputs = true,
               .backward_uses_output = true,
               INPUTS("x")},
              {.id = "loss",
               .forward_time = NUMBER(1),
               .backward_time = NUMBER(0.5),
               .output_bytes = NUMBER(7),
               .gradient_bytes = NUMBER(30000000),
               .backward_uses_inputs = true,
               INPUTS("a")})};
    return make_profile(&spec);
}

static void every_byte_of_a_plain_step(void **state)
{
    (void)state;
    remat_profile *p = two_nodes();
    remat_operations list = OPERATIONS(OP_A(0), OP_F(1), OP_D(1), OP_B(1), OP_B(0), OP_D(0));
    double recomputed[2] = {7, 7};
    remat_simulation s;
    assert_int_equal(remat_simulate(p, &list, NULL, moments, recomputed, &s, NULL), REMAT_OK);
    assert_true(s.valid);
    ASSERT_MEMORY(
        {201110, 1110},    /* 10 x + 100 out + 1000 saved, 200000 to save */
        {1117, 1117},      /* + 7 out(loss) */
        {1117, 1110},      /* what stood before the drop; - 7 */
        {30011110, 11110}, /* + 30000000 seed + 10000 grad(a); then the seed is gone */
        {1011113, 113},    /* + 3 grad(x) + 1000000 workspace; grad(a) and saved(a) are gone */
        {113, 13});        /* - 100: x and its gradient stay */
    ASSERT_TIMES({0, 2}, {2, 3}, {3, 3}, {3, 3.5}, {3.5, 8.5}, {8.5, 8.5});
    assert_true(s.makespan == 8.5 && s.compute_time == 8.5 && s.idle_time == 0);
    assert_true(s.recomputed_time == 0 && recomputed[0] == 0 && recomputed[1] == 0);
    assert_true(s.peak == 30011110 && s.peak_operation == 3);
    assert_true(s.host_peak == 0 && s.bytes_to_host == 0 && s.bytes_to_device == 0);
    remat_profile_free(p);
}

static void recomputation_takes_time_and_other_workspaces(void **state)
{
    (void)state;
    remat_profile *p = two_nodes();
    remat_operations list =
        OPERATIONS(OP_F(0), OP_F(1), OP_D(0), OP_F(0), OP_B(1), OP_D(0), OP_A(0), OP_B(0));
    double recomputed[2];
    remat_simulation s;
    assert_int_equal(remat_simulate(p, &list, NULL, moments, recomputed, &s, NULL), REMAT_OK);
    assert_true(s.valid);
    assert_true(moments[0].memory_during == 100110); /* 10 + 100 + 100000: F, not A */
    assert_true(moments[6].memory_during == 211117); /* 10 + 7 + 100 + 1000 + 10000 + 200000 */
    assert_true(s.makespan == 12.5);                 /* 8.5 and a twice more: 2 x 2 */
    assert_true(s.recomputed_time == 4 && recomputed[0] == 4 && recomputed[1] == 0);
    assert_true(s.peak == 30010117 && s.peak_operation == 4); /* 10 + 100 + 7 + 10000 + seed */
    remat_profile_free(p);
}

/* x -> a -> b and c -> loss: grad(a) is made by the first B and added to by the second. */
static void gradients_accumulate(void **state)
{
    (void)state;
    remat_profile_spec spec = {
        HEADER, GRAPH_INPUTS({.id = "x", .bytes = NUMBER(0), .gradient_bytes = NUMBER(5000)}),
#define GRADIENT(name, bytes, ...)                                                                 \
    {.id = name,                                                                                   \
     .forward_time = {1, true},                                                                    \
     .output_bytes = {0, true},                                                                    \
     .gradient_bytes = {bytes, true},                                                              \
     __VA_ARGS__}
        NODES(GRADIENT("a", 1, INPUTS("x")), GRADIENT("b", 20, INPUTS("a", "x")),
              GRADIENT("c", 300, INPUTS("a")), GRADIENT("loss", 0, INPUTS("b", "c")))};
    remat_profile *p = make_profile(&spec);
    remat_operations list =
        OPERATIONS(OP_F(0), OP_F(1), OP_F(2), OP_F(3), OP_B(3), OP_B(1), OP_B(2), OP_B(0));
    replay_valid(p, &list, NULL);
    ASSERT_MEMORY({0, 0}, {0, 0}, {0, 0}, {0, 0}, {320, 320}, /* grad(b), grad(c) */
                  {5321, 5301},                               /* + grad(a) + grad(x); - grad(b) */
                  {5301, 5001},  /* grad(a) is there: nothing new; - grad(c) */
                  {5001, 5000}); /* grad(x) is there; - grad(a) */
    remat_profile_free(p);
}

/* ---- in place ---- */

/* x (1) -> a (100, gradient 40) -> r (in place, 60, gradient 90) -> loss. */
static remat_profile *overwriting(bool r_reads_input)
{
    remat_profile_spec spec = {HEADER, GRAPH_INPUTS({.id = "x", .bytes = NUMBER(1)}),
                               NODES({.id = "a",
                                      .forward_time = NUMBER(1),
                                      .output_bytes = NUMBER(100),
                                      .gradient_bytes = NUMBER(40),
                                      INPUTS("x")},
                                     {.id = "r",
                                      .forward_time = NUMBER(1),
                                      .output_bytes = NUMBER(60),
                                      .gradient_bytes = NUMBER(90),
                                      .forward_workspace_bytes = NUMBER(1000),
                                      .backward_workspace_bytes = NUMBER(2000),
                                      .backward_uses_inputs = r_reads_input,
                                      .in_place = true,
                                      INPUTS("a")},
                                     {.id = "loss",
                                      .forward_time = NUMBER(1),
                                      .output_bytes = NUMBER(0),
                                      .backward_uses_inputs = true,
                                      INPUTS("r")})};
    return make_profile(&spec);
}

static void forward_in_place(void **state)
{
    (void)state;
    remat_profile *p = overwriting(false);
    remat_operations list =
        OPERATIONS(OP_F(0), OP_F(1), OP_D(0), OP_F(2), OP_B(2), OP_D(1), OP_B(1), OP_B(0));
    replay_valid(p, &list, NULL);
    ASSERT_MEMORY({101, 101}, /* x + a */
                  {1101, 61}, /* x + the larger of 100 and 60 + workspace; a's bytes are gone */
                  {61, 61},   /* the D of a frees nothing more */
                  {61, 61}, {151, 151}, /* + grad(r) 90; the seed has 0 */
                  {151, 91},            /* - r */
                  {2091, 41}, /* x + the larger of grad(r) 90 and grad(a) 40 + workspace */
                  {41, 1});
    remat_profile_free(p);
}

static void nothing_is_overwritten_that_is_read_later(void **state)
{
    (void)state;
    remat_profile *p = overwriting(true); /* B r reads a */
    remat_operations list =
        OPERATIONS(OP_F(0), OP_F(1), OP_F(2), OP_B(2), OP_D(1), OP_B(1), OP_D(0), OP_B(0));
    replay_valid(p, &list, NULL);
    ASSERT_MEMORY({101, 101}, {1161, 161}, /* x + a + r + workspace: both stay */
                  {161, 161}, {251, 251}, {251, 191}, {2191, 141}, {141, 41}, {41, 1});
    /* Made anew for B r: the a that r overwrote is another one, so both F r are in place. */
    remat_operations again =
        OPERATIONS(OP_F(0), OP_F(1), OP_D(0), OP_F(2), OP_B(2), OP_D(1), OP_F(0), OP_B(1), OP_B(0));
    replay_valid(p, &again, NULL);
    ASSERT_MEMORY({101, 101}, {1101, 61}, {61, 61}, {61, 61}, {151, 151}, {151, 91},
                  {191, 191}, /* x + grad(r) 90 + a 100 */
                  {2191, 141}, {141, 101});
    remat_profile_free(p);
}

static void an_overwritten_value_is_gone(void **state)
{
    (void)state;
    remat_profile *p = overwriting(false);
    /* It was dropped and is dropped once more. */
    REJECTED(p, NULL, 3, "\"a\" is not in memory", OP_F(0), OP_F(1), OP_D(0), OP_D(0));
    /* Without a D between, it can be made anew: its bytes are not there. */
    remat_operations list =
        OPERATIONS(OP_F(0), OP_F(1), OP_F(0), OP_D(0), OP_F(2), OP_B(2), OP_B(1), OP_B(0), OP_D(1));
    replay_valid(p, &list, NULL);
    assert_true(moments[2].memory_after == 161); /* x + r + a */
    REJECTED(p, NULL, 4, "\"a\" is not in memory", OP_F(0), OP_F(1), OP_F(0), OP_D(0), OP_D(0));
    remat_profile_free(p);
}

/* A gradient that is there already is added to, not put in the place of another. */
static void backward_in_place_only_where_the_gradient_starts(void **state)
{
    (void)state;
    remat_profile_spec spec = {HEADER, NODES({.id = "a",
                                              .forward_time = NUMBER(1),
                                              .output_bytes = NUMBER(0),
                                              .gradient_bytes = NUMBER(4)},
                                             {.id = "r",
                                              .forward_time = NUMBER(1),
                                              .output_bytes = NUMBER(0),
                                              .gradient_bytes = NUMBER(30),
                                              .in_place = true,
                                              INPUTS("a")},
                                             {.id = "loss",
                                              .forward_time = NUMBER(1),
                                              .output_bytes = NUMBER(0),
                                              INPUTS("a", "r")})};
    remat_profile *p = make_profile(&spec);
    remat_operations list = OPERATIONS(OP_F(0), OP_F(1), OP_F(2), OP_B(2), OP_B(1), OP_B(0));
    replay_valid(p, &list, NULL);
    ASSERT_MEMORY({0, 0}, {0, 0}, {0, 0}, {34, 34}, {34, 4}, {4, 0}); /* 4 + 30, both stay */
    remat_profile_free(p);
}

/* ---- the link ---- */

/* a (12 bytes, saved 6) -> b -> loss, every time 1. */
static remat_profile *offloading(void)
{
    remat_profile_spec spec = {HEADER, GRAPH_INPUTS({.id = "x", .bytes = NUMBER(8)}),
                               NODES({.id = "a",
                                      .forward_time = NUMBER(1),
                                      .backward_time = NUMBER(1),
                                      .output_bytes = NUMBER(12),
                                      .gradient_bytes = NUMBER(0),
                                      .saved_bytes = NUMBER(6),
                                      INPUTS("x")},
                                     {.id = "b",
                                      .forward_time = NUMBER(1),
                                      .backward_time = NUMBER(1),
                                      .output_bytes = NUMBER(0),
                                      .backward_uses_inputs = true,
                                      INPUTS("a")},
                                     {.id = "loss",
                                      .forward_time = NUMBER(1),
                                      .backward_time = NUMBER(1),
                                      .output_bytes = NUMBER(0),
                                      INPUTS("b")})};
    return make_profile(&spec);
}

static void copies_run_beside_the_computation(void **state)
{
    (void)state;
    remat_profile *p = offloading();
    const remat_link link = {.to_host = 4, .to_device = 3, .latency = 0.5};
    remat_operations list = OPERATIONS(OP_A(0), OP_O(0), OP_OX(0), OP_F(1), OP_D(0), OP_X(0),
                                       OP_F(2), OP_P(0), OP_PX(0), OP_B(2), OP_B(1), OP_B(0));
    remat_simulation s = replay_valid(p, &list, &link);
    ASSERT_TIMES({0, 1}, {1, 4.5},               /* 0.5 + 12/4 */
                 {4.5, 6.5},                     /* after the first; 0.5 + 6/4 */
                 {1, 2}, {4.5, 4.5}, {6.5, 6.5}, /* D and X wait for their copies */
                 {6.5, 7.5}, {7.5, 12},          /* 0.5 + 12/3 */
                 {12, 14.5},                     /* 0.5 + 6/3 */
                 {7.5, 8.5}, {12, 13},           /* B b waits for a */
                 {14.5, 15.5});                  /* B a waits for its saved values */
    ASSERT_MEMORY({26, 26}, {26, 26}, {26, 26}, {26, 26}, {26, 14}, {14, 8}, {8, 8},
                  {20, 20}, /* + 12 from the moment the copy is queued */
                  {26, 26}, {26, 26}, {26, 26}, {26, 20});
    assert_true(s.makespan == 15.5 && s.compute_time == 6 && s.idle_time == 9.5);
    assert_true(s.host_peak == 18 && s.bytes_to_host == 18 && s.bytes_to_device == 18);
    remat_profile_free(p);
}

static void a_shared_link_carries_one_copy_at_a_time(void **state)
{
    (void)state;
    remat_profile *p = offloading();
    remat_link link = {.to_host = 4, .to_device = 4};
    remat_operations list = OPERATIONS(OP_A(0), OP_OI(0), OP_DI(0), OP_O(0), OP_PI(0), OP_F(1),
                                       OP_F(2), OP_B(2), OP_B(1), OP_B(0));
    replay_valid(p, &list, &link);
    ASSERT_TIMES({0, 1}, {1, 3}, {3, 3}, /* x: 8/4; its D waits */
                 {3, 6},                 /* a: 12/4 */
                 {3, 5});                /* x back, at the same time */
    link.shared = true;
    replay_valid(p, &list, &link);
    ASSERT_TIMES({0, 1}, {1, 3}, {3, 3}, {3, 6}, {6, 8}); /* x back after a */
    remat_profile_free(p);
}

static void a_copy_back_waits_for_the_copy_out(void **state)
{
    (void)state;
    remat_profile *p = overwriting(false);
    const remat_link link = {.to_host = 20, .to_device = 100};
    /* r overwrites a, but a is on its way out: F r waits for the copy (1 + 100/20). */
    remat_operations list = OPERATIONS(OP_F(0), OP_O(0), OP_F(1), OP_P(0), OP_D(0), OP_F(2),
                                       OP_B(2), OP_B(1), OP_B(0), OP_O(1));
    remat_simulation s = replay_valid(p, &list, &link);
    ASSERT_TIMES({0, 1}, {1, 6}, {6, 7}, {7, 8}, /* 100/100 */
                 {8, 8});                        /* a D waits for a copy back, too */
    assert_true(moments[9].start == 15);         /* 8 + F loss 1 + B 2 + 2 + 2 */
    assert_true(moments[9].end == 18);           /* + 60/20 */
    assert_true(s.makespan == 15);               /* nobody waits for the last copy */
    remat_profile_free(p);
}

/* Two copies out of one value count twice on the link, once on the host. */
static void the_host_keeps_one_copy(void **state)
{
    (void)state;
    remat_profile *p = offloading();
    const remat_link link = {.to_host = 12, .to_device = 12};
    remat_operations list =
        OPERATIONS(OP_A(0), OP_O(0), OP_O(0), OP_F(1), OP_F(2), OP_B(2), OP_B(1), OP_B(0));
    remat_simulation s = replay_valid(p, &list, &link);
    assert_true(s.bytes_to_host == 24 && s.host_peak == 12 && s.bytes_to_device == 0);
    remat_profile_free(p);
}

static void copies_need_a_link_with_bandwidth(void **state)
{
    (void)state;
    remat_profile *p = offloading();
    const remat_link none = {.to_host = 0, .to_device = 1}, one_way = {.to_host = 1};
    REJECTED(p, NULL, 1, "link", OP_A(0), OP_O(0));
    REJECTED(p, NULL, 0, "link", OP_P(0));
    REJECTED(p, &none, 1, "no bandwidth", OP_A(0), OP_O(0));
    REJECTED(p, &one_way, 3, "no bandwidth", OP_A(0), OP_O(0), OP_D(0), OP_P(0));
    /* A value of no bytes takes the latency only, bandwidth or not. */
    const remat_link late = {.latency = 2};
    remat_operations list =
        OPERATIONS(OP_A(0), OP_F(1), OP_O(1), OP_D(1), OP_P(1), OP_F(2), OP_B(2), OP_B(1), OP_B(0));
    remat_simulation s = replay_valid(p, &list, &late);
    assert_true(s.makespan == 10); /* six operations of 1, out 2 and back 2, waited for */
    remat_profile_free(p);
}

/* ---- states ---- */

static void states_are_saved_and_restored(void **state)
{
    (void)state;
    remat_profile *p = drawing();
    remat_operations list =
        OPERATIONS(OP_S(0, 0), OP_F(0), OP_D(0), OP_R(0, 0), OP_F(0), OP_F(1), OP_S(0, 2), OP_D(0),
                   OP_R(0, 0), OP_F(0), OP_R(0, 2), OP_F(2), OP_B(2), OP_B(1), OP_B(0));
    replay_valid(p, &list, NULL);
    ASSERT_MEMORY({16, 16}, {16, 16}, {16, 16}, {16, 16}, /* not the last R of version 0 */
                  {16, 16}, {16, 16}, {32, 32}, {32, 32}, {32, 16}, /* the last one */
                  {16, 16}, {16, 0});
    remat_profile_free(p);
}

static void states_must_hold_the_right_version(void **state)
{
    (void)state;
    remat_profile *p = drawing();
    REJECTED(p, NULL, 2, "version 1 of state \"rng\"", OP_F(0), OP_D(0), OP_F(0));
    REJECTED(p, NULL, 0, "is not saved", OP_R(0, 0));
    REJECTED(p, NULL, 0, "holds version 0, not 1", OP_S(0, 1));
    REJECTED(p, NULL, 1, "saved already", OP_S(0, 0), OP_S(0, 0), OP_R(0, 0), OP_R(0, 0));
    /* look must see what mix left, version 2; mix itself does not look */
    REJECTED(p, NULL, 4, "version 0", OP_S(0, 0), OP_F(0), OP_F(1), OP_R(0, 0), OP_F(2));
    remat_profile_free(p);
}

static void the_step_leaves_every_state_as_a_plain_pass_does(void **state)
{
    (void)state;
    remat_profile *p = drawing();
    remat_operations good = OPERATIONS(OP_F(0), OP_F(1), OP_F(2), OP_B(2), OP_B(1), OP_B(0));
    replay_valid(p, &good, NULL);
    /* draw runs again at the end and leaves version 1 */
    REJECTED(p, NULL, 10, "state \"rng\" at version 1; a plain step leaves 2", OP_S(0, 0), OP_F(0),
             OP_F(1), OP_F(2), OP_B(2), OP_B(1), OP_D(0), OP_R(0, 0), OP_F(0), OP_B(0));
    remat_profile_free(p);
}

static void a_backward_runs_once(void **state)
{
    (void)state;
    remat_profile *p = drawing();
    REJECTED(p, NULL, 4, "of \"look\" has run already", OP_F(0), OP_F(1), OP_F(2), OP_B(2),
             OP_B(2));
    remat_profile_free(p);
}

/* ---- every other reason ---- */

static void what_must_be_in_memory(void **state)
{
    (void)state;
    remat_profile *p = two_nodes();
    REJECTED(p, NULL, 0, "output of \"a\", which \"loss\" reads", OP_F(1));
    REJECTED(p, NULL, 1, "output of \"a\" is in memory already", OP_F(0), OP_F(0));
    REJECTED(p, NULL, 2, "saved values of \"a\" are in memory already", OP_A(0), OP_D(0), OP_A(0));
    REJECTED(p, NULL, 3, "saved values of \"a\"", OP_F(0), OP_F(1), OP_B(1), OP_B(0));
    REJECTED(p, NULL, 4, "which its backward reads", OP_A(0), OP_F(1), OP_B(1), OP_D(0), OP_B(0));
    REJECTED(p, NULL, 3, "output of \"a\", which \"loss\" reads", OP_A(0), OP_F(1), OP_D(0),
             OP_B(1));
    REJECTED(p, NULL, 0, "what is saved of \"a\" is not in memory", OP_X(0));
    REJECTED(p, NULL, 0, "output of \"a\" is not in memory", OP_D(0));
    remat_profile_free(p);
}

static void what_must_come_before(void **state)
{
    (void)state;
    remat_profile *p = two_nodes();
    REJECTED(p, NULL, 2, "before B of its consumer \"loss\"", OP_A(0), OP_F(1), OP_B(0));
    REJECTED(p, NULL, 1, "B of \"loss\" comes before any forward of it", OP_A(0), OP_B(1));
    remat_profile_free(p);
}

static void what_the_list_leaves_undone(void **state)
{
    (void)state;
    remat_profile *p = two_nodes();
    const remat_operations empty = {0};
    assert_rejected(p, &empty, NULL, 0, "without B of \"a\"");
    REJECTED(p, NULL, 3, "without B of \"a\"", OP_A(0), OP_F(1), OP_B(1));
    remat_profile_free(p);
}

static void inputs_and_the_host(void **state)
{
    (void)state;
    remat_profile *p = two_nodes();
    const remat_link link = {.to_host = 1, .to_device = 1};
    REJECTED(p, &link, 0, "only after an O", OP_DI(0));
    REJECTED(p, &link, 2, "graph input \"x\" is not in memory", OP_OI(0), OP_DI(0), OP_DI(0));
    REJECTED(p, &link, 2, "output of \"x\", which \"a\" reads", OP_OI(0), OP_DI(0), OP_F(0));
    REJECTED(p, &link, 0, "in memory already", OP_PI(0));
    REJECTED(p, &link, 0, "no copy on the host", OP_P(0));
    REJECTED(p, &link, 0, "is not in memory", OP_O(0));
    REJECTED(p, &link, 2, "in memory already", OP_A(0), OP_OX(0), OP_PX(0));
    remat_profile_free(p);
}

/* What names nothing is refused, not followed out of bounds. */
static void operations_that_name_nothing(void **state)
{
    (void)state;
    remat_profile *p = drawing();
    const remat_operation bad[] = {OP_F(3),
                                   OP_A(UINT32_MAX),
                                   OP_B(3),
                                   OP_D(3),
                                   OP_X(3),
                                   OP_O(3),
                                   OP_DI(0),
                                   OP_S(1, 0),
                                   OP_S(0, 3),
                                   OP_R(0, UINT32_MAX),
                                   OP_R(7, 0),
                                   {.kind = 8},
                                   {.kind = 255, .target = 255},
                                   {.kind = REMAT_D, .target = 3},
                                   {.kind = REMAT_F, .target = REMAT_SAVED}};
    for (size_t i = 0; i < COUNT(bad); i++) {
        remat_operations list = OPERATIONS(OP_F(0), bad[i]);
        assert_rejected(p, &list, NULL, 1, "names nothing");
    }
    remat_profile_free(p);
}

/* ---- alternatives ---- */

/* conv -> loss; conv keeps 4 bytes by itself and 6 with fft, direct keeps none; B conv reads
 * nothing else. */
static remat_profile *convolution(void)
{
    remat_profile_spec spec = {
        HEADER,
        NODES({.id = "conv",
               .forward_time = NUMBER(8),
               .backward_time = NUMBER(16),
               .output_bytes = NUMBER(10),
               .saved_bytes = NUMBER(4),
               .forward_workspace_bytes = NUMBER(1),
               .backward_workspace_bytes = NUMBER(2),
               .alternatives =
                   (const remat_alternative_spec[]){{.name = "fft",
                                                     .forward_time = NUMBER(3),
                                                     .backward_time = NUMBER(5),
                                                     .saved_bytes = NUMBER(6),
                                                     .forward_workspace_bytes = NUMBER(20),
                                                     .backward_workspace_bytes = NUMBER(30)},
                                                    {.name = "direct", .saved_bytes = NUMBER(0)}},
               .n_alternatives = 2},
              {.id = "loss",
               .forward_time = NUMBER(1),
               .backward_time = NUMBER(1),
               .output_bytes = NUMBER(0),
               .gradient_bytes = NUMBER(0),
               INPUTS("conv")})};
    return make_profile(&spec);
}

#define WITH(operation, k)                                                                         \
    ((remat_operation){.kind = (operation).kind, .index = (operation).index, .alternative = (k)})

static void implementations_have_their_own_costs(void **state)
{
    (void)state;
    remat_profile *p = convolution();
    remat_operations fast =
        OPERATIONS(WITH(OP_A(0), 1), OP_F(1), OP_D(0), OP_B(1), WITH(OP_B(0), 1));
    remat_simulation simulation = replay_valid(p, &fast, NULL);
    assert_true(simulation.makespan == 3 + 1 + 1 + 5);
    /* A: 10 + 6 and 20 (save_workspace_bytes is that of fft's forward); B conv: 6, its gradient 10,
     * 30 */
    ASSERT_MEMORY({36, 16}, {16, 16}, {16, 6}, {16, 16}, {46, 0});
    remat_operations mixed = OPERATIONS(WITH(OP_F(0), 1), OP_D(0), WITH(OP_F(0), 2), OP_F(1),
                                        OP_D(0), OP_B(1), WITH(OP_B(0), 2));
    simulation = replay_valid(p, &mixed, NULL);
    assert_true(simulation.makespan == 3 + 8 + 1 + 1 + 16);
    assert_true(simulation.recomputed_time == 8); /* the second forward's own time */
    ASSERT_MEMORY({30, 10}, {10, 0}, {11, 10}, {10, 10}, {10, 0}, {10, 10}, {12, 0});
    remat_profile_free(p);
}

static void saved_values_are_read_by_their_own_implementation(void **state)
{
    (void)state;
    remat_profile *p = convolution();
    REJECTED(p, NULL, 4, "made by fft and are read by its own implementation", WITH(OP_A(0), 1),
             OP_F(1), OP_D(0), OP_B(1), OP_B(0));
    REJECTED(p, NULL, 4, "made by its own implementation and are read by fft", OP_A(0), OP_F(1),
             OP_D(0), OP_B(1), WITH(OP_B(0), 1));
    REJECTED(p, NULL, 3, "saved values of \"conv\" are not in memory", WITH(OP_F(0), 1), OP_F(1),
             OP_B(1), WITH(OP_B(0), 1));
    REJECTED(p, NULL, 0, "names nothing", WITH(OP_F(0), 3));
    REJECTED(p, NULL, 0, "names nothing", WITH(OP_F(1), 1));
    /* direct reads nothing that was saved: any A will do */
    remat_operations list = OPERATIONS(OP_A(0), OP_F(1), OP_D(0), OP_B(1), WITH(OP_B(0), 2));
    replay_valid(p, &list, NULL);
    remat_profile_free(p);
}

/* What comes back from the host is what went there. */
static void copies_remember_their_implementation(void **state)
{
    (void)state;
    const remat_link link = {.to_host = 1, .to_device = 1};
    remat_profile *p = convolution();
    remat_operations list =
        OPERATIONS(WITH(OP_A(0), 1), OP_OX(0), OP_X(0), OP_D(0), OP_A(0), OP_X(0), OP_PX(0),
                   OP_F(1), OP_D(0), OP_B(1), WITH(OP_B(0), 1));
    remat_simulation simulation = replay_valid(p, &list, &link);
    assert_true(simulation.bytes_to_host == 6 && simulation.bytes_to_device == 6);
    assert_true(moments[6].memory_after == 16);
    remat_profile_free(p);
}

/* Reasons name ids of 200 four-byte characters: cut at a character, never in one. */
static void reasons_stay_well_formed(void **state)
{
    (void)state;
    char odd[802] = "a"; /* shifted by one byte, so that a cut falls inside a character */
    for (size_t i = 0; i < 199; i++)
        memcpy(odd + 1 + 4 * i, "\U0001F600", 5);
    remat_profile_spec spec = {HEADER, NODES({.id = odd,
                                              .forward_time = NUMBER(1),
                                              .output_bytes = NUMBER(0),
                                              .backward_uses_output = true})};
    remat_profile *p = make_profile(&spec);
    remat_operations list = OPERATIONS(OP_B(0));
    remat_simulation s = replay(p, &list, NULL);
    remat_profile_spec named = {
        .format = "remat-profile/1",
        .name = "n",
        NODES({.id = s.reason, .forward_time = NUMBER(1), .output_bytes = NUMBER(0)})};
    remat_profile *same = make_profile(&named); /* accepts only well-formed UTF-8 */
    remat_profile_free(same);
    remat_profile_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_of_a_plain_step),
        cmocka_unit_test(recomputation_takes_time_and_other_workspaces),
        cmocka_unit_test(gradients_accumulate),
        cmocka_unit_test(forward_in_place),
        cmocka_unit_test(nothing_is_overwritten_that_is_read_later),
        cmocka_unit_test(an_overwritten_value_is_gone),
        cmocka_unit_test(backward_in_place_only_where_the_gradient_starts),
        cmocka_unit_test(copies_run_beside_the_computation),
        cmocka_unit_test(a_shared_link_carries_one_copy_at_a_time),
        cmocka_unit_test(a_copy_back_waits_for_the_copy_out),
        cmocka_unit_test(the_host_keeps_one_copy),
        cmocka_unit_test(copies_need_a_link_with_bandwidth),
        cmocka_unit_test(states_are_saved_and_restored),
        cmocka_unit_test(states_must_hold_the_right_version),
        cmocka_unit_test(the_step_leaves_every_state_as_a_plain_pass_does),
        cmocka_unit_test(a_backward_runs_once),
        cmocka_unit_test(what_must_be_in_memory),
        cmocka_unit_test(what_must_come_before),
        cmocka_unit_test(what_the_list_leaves_undone),
        cmocka_unit_test(inputs_and_the_host),
        cmocka_unit_test(operations_that_name_nothing),
        cmocka_unit_test(implementations_have_their_own_costs),
        cmocka_unit_test(saved_values_are_read_by_their_own_implementation),
        cmocka_unit_test(copies_remember_their_implementation),
        cmocka_unit_test(reasons_stay_well_formed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
