/* Tables: the frontier answers every budget, what is saved comes back, and whatever happens to the
 * bytes in between is found: a table is never trusted by accident. */
#include "unit/core_support.h"

#include "answer/compact.h"

/* x -> a -> b -> c -> loss, all different. */
static remat_profile *chain(double first_time)
{
#define STAGE(name, uf, bytes, ...)                                                                \
    {.id = name,                                                                                   \
     .forward_time = {uf, true},                                                                   \
     .backward_time = {2, true},                                                                   \
     .output_bytes = {bytes, true},                                                                \
     .backward_uses_inputs = true,                                                                 \
     __VA_ARGS__}
    remat_profile_spec spec = {HEADER, GRAPH_INPUTS({.id = "x", .bytes = NUMBER(3)}),
                               NODES(STAGE("a", first_time, 40, INPUTS("x")),
                                     STAGE("b", 2, 60, INPUTS("a")), STAGE("c", 3, 50, INPUTS("b")),
                                     STAGE("loss", 1, 0, INPUTS("c")))};
    return make_profile(&spec);
}

static remat_problem problem_of(const char *solver, const remat_profile *p)
{
    return (remat_problem){.profile = p,
                           .options = remat_options_default(remat_solver_find(solver)),
                           .max_budget = 1000};
}

static remat_table *tabulated(const char *solver, const remat_problem *problem)
{
    remat_table *table = NULL;
    remat_error error;
    if (remat_tabulate(remat_solver_find(solver), problem, NULL, &table, &error))
        fail_msg("%s: %s", solver, error.message);
    return table;
}

/* ---- the frontier ---- */

static void check_budgets(const remat_table *table, const remat_problem *problem)
{
    size_t n;
    const remat_point *points = remat_table_frontier(table, &n);
    assert_true(n > 0);
    for (uint64_t budget = 0; budget <= 400; budget++) {
        ptrdiff_t expected = -1;
        for (size_t i = 0; i < n; i++)
            expected = points[i].peak <= budget ? (ptrdiff_t)i : expected;
        assert_int_equal(remat_table_point(table, budget), expected);
        remat_schedule schedule = {.nominal_budget = 77};
        remat_error error;
        remat_status status = remat_table_schedule(table, problem, budget, &schedule, &error);
        if (expected < 0) {
            assert_int_equal(status, REMAT_INFEASIBLE);
            assert_true(error.number == points[0].peak);
            assert_true(schedule.nominal_budget == 77);
            continue;
        }
        assert_int_equal(status, REMAT_OK);
        assert_true(schedule.simulation.valid && schedule.simulation.peak <= budget);
        assert_true(schedule.simulation.peak == points[expected].peak);
        assert_true(schedule.simulation.makespan == points[expected].makespan);
        assert_true(schedule.lower_bound <= schedule.simulation.makespan);
        remat_schedule_clear(&schedule);
        remat_schedule_clear(&schedule);
    }
}

static void every_budget_has_its_answer(void **state)
{
    (void)state;
    size_t n_solvers;
    const remat_solver *const *solvers = remat_solvers(&n_solvers);
    for (size_t i = 0; i < n_solvers; i++) {
        remat_profile *p = chain(1);
        remat_problem problem = problem_of(solvers[i]->name, p);
        if (remat_solver_accepts(solvers[i], &problem, NULL) == REMAT_OK) {
            remat_table *table = tabulated(solvers[i]->name, &problem);
            size_t n;
            const remat_point *points = remat_table_frontier(table, &n);
            for (size_t k = 1; k < n; k++) {
                assert_true(points[k].peak > points[k - 1].peak);
                assert_true(points[k].makespan < points[k - 1].makespan);
            }
            assert_ptr_equal(remat_table_solver(table), solvers[i]);
            assert_true(remat_table_bytes(table) > 0);
            assert_true(remat_table_serves(table, &problem));
            check_budgets(table, &problem);
            remat_table_free(table);
        }
        remat_profile_free(p);
    }
    remat_table_free(NULL);
}

/* F 1 + 2 + 3 + 1, B 4 x 2; x, a, b, c, then grad(c) while c, b and a wait for their readers. */
static void store_all_by_hand(void **state)
{
    (void)state;
    remat_profile *p = chain(1);
    remat_problem problem = problem_of("store-all", p);
    remat_table *table = tabulated("store-all", &problem);
    size_t n;
    const remat_point *points = remat_table_frontier(table, &n);
    assert_int_equal(n, 1);
    assert_true(points[0].makespan == 15 && remat_store_all_makespan(p) == 15);
    /* B loss: 3 + 40 + 60 + 50 + grad(c) 50 = 203; B c: c is gone, 3 + 40 + 60 + 50 + 60 = 213 */
    assert_true(points[0].peak == 213);
    remat_table_free(table);
    remat_profile_free(p);
}

static void limits_are_kept_before_anything_is_allocated(void **state)
{
    (void)state;
    remat_profile *p = chain(1);
    remat_problem problem = problem_of("rotor", p);
    remat_host host = {.memory_limit = 1};
    remat_table *table = (remat_table *)&host;
    remat_error error;
    const remat_solver *rotor = remat_solver_find("rotor");
    assert_int_equal(remat_tabulate(rotor, &problem, &host, &table, &error), REMAT_TOO_LARGE);
    assert_ptr_equal(table, &host);
    assert_non_null(strstr(error.message, "limit is 1 bytes"));
    remat_profile_free(p);
}

static bool always(void *data)
{
    return data == NULL;
}

static void cancelled_work_stops(void **state)
{
    (void)state;
    remat_profile *p = chain(1);
    size_t n_solvers;
    const remat_solver *const *solvers = remat_solvers(&n_solvers);
    for (size_t i = 0; i < n_solvers; i++) {
        remat_problem problem = problem_of(solvers[i]->name, p);
        remat_host host = {.cancelled = always};
        remat_table *table = NULL;
        if (remat_solver_accepts(solvers[i], &problem, NULL))
            continue;
        assert_int_equal(remat_tabulate(solvers[i], &problem, &host, &table, NULL),
                         REMAT_CANCELLED);
        assert_null(table);
    }
    remat_profile_free(p);
}

/* ---- save and load ---- */

static void check_round_trip(const char *solver)
{
    static const remat_link link = {4, 3, 0.5, false};
    remat_profile *p = chain(1);
    remat_problem problem = problem_of(solver, p);
    if (remat_solver_find(solver)->accepts & REMAT_NEEDS_LINK)
        problem.link = &link;
    if (remat_solver_accepts(remat_solver_find(solver), &problem, NULL)) {
        remat_profile_free(p);
        return;
    }
    remat_table *table = tabulated(solver, &problem), *back = NULL;
    remat_buffer saved = {0}, again = {0};
    remat_error error;
    assert_int_equal(remat_table_save(table, &saved, &error), REMAT_OK);
    if (remat_table_load(remat_solver_find(solver), &problem, saved.data, saved.length, &back,
                         &error))
        fail_msg("%s: %s", solver, error.message);
    assert_int_equal(remat_table_save(back, &again, &error), REMAT_OK);
    assert_int_equal(again.length, saved.length);
    assert_memory_equal(again.data, saved.data, saved.length);
    assert_true(remat_table_serves(back, &problem));
    check_budgets(back, &problem);
    remat_buffer_clear(&saved);
    remat_buffer_clear(&again);
    remat_table_free(table);
    remat_table_free(back);
    remat_profile_free(p);
}

static void what_is_saved_comes_back(void **state)
{
    (void)state;
    size_t n;
    const remat_solver *const *solvers = remat_solvers(&n);
    for (size_t i = 0; i < n; i++)
        check_round_trip(solvers[i]->name);
}

/* A table of a solver, saved; what a test needs to load it. */
typedef struct shelf {
    remat_profile *profile;
    remat_problem problem;
    const remat_solver *solver;
    remat_buffer saved;
} shelf;

static shelf put_away(const char *solver)
{
    shelf s = {.profile = chain(1), .solver = remat_solver_find(solver)};
    s.problem = problem_of(solver, s.profile);
    remat_table *table = tabulated(solver, &s.problem);
    assert_int_equal(remat_table_save(table, &s.saved, NULL), REMAT_OK);
    remat_table_free(table);
    return s;
}

static void clear(shelf *s)
{
    remat_buffer_clear(&s->saved);
    remat_profile_free(s->profile);
}

/* Loads from a block of exactly that size, so that a read past it shows under ASan. */
static remat_status load(const shelf *s, const uint8_t *bytes, size_t length,
                         remat_table **ret_table)
{
    uint8_t *copy = malloc(length + (length == 0));
    memcpy(copy, bytes, length);
    remat_error error = {0};
    remat_status status = remat_table_load(s->solver, &s->problem, copy, length, ret_table, &error);
    assert_true(status == REMAT_OK || error.message[0]);
    free(copy);
    return status;
}

static void every_flipped_bit_is_found(void **state)
{
    (void)state;
    static const char *const solvers[] = {"store-all", "rotor"};
    for (size_t k = 0; k < COUNT(solvers); k++) {
        shelf s = put_away(solvers[k]);
        remat_table *table = NULL;
        for (size_t i = 0; i < s.saved.length; i++)
            for (unsigned bit = 0; bit < 8; bit++) {
                s.saved.data[i] ^= (uint8_t)(1u << bit);
                assert_int_equal(load(&s, s.saved.data, s.saved.length, &table), REMAT_CORRUPT);
                assert_null(table);
                s.saved.data[i] ^= (uint8_t)(1u << bit);
            }
        for (size_t length = 0; length < s.saved.length; length++)
            assert_int_equal(load(&s, s.saved.data, length, &table), REMAT_CORRUPT);
        assert_int_equal(remat_buffer_put(&s.saved, "", 1), REMAT_OK); /* one byte more */
        assert_int_equal(load(&s, s.saved.data, s.saved.length, &table), REMAT_CORRUPT);
        clear(&s);
    }
}

/* ---- damage that the checksum does not show ---- */

/* The checksum of the format, written again here: eight bytes a step, little endian, the rest
 * filled up with zeros. */
static void seal(remat_buffer *b)
{
    size_t length = b->length - 8;
    uint64_t hash = UINT64_C(0x9E3779B97F4A7C15) ^ length;
    for (size_t i = 0; i < length; i += 8) {
        uint64_t word = 0;
        for (size_t k = 0; k < 8 && i + k < length; k++)
            word |= (uint64_t)b->data[i + k] << (8 * k);
        hash = (hash ^ word) * UINT64_C(0xD6E8FEB86659FD93);
        hash ^= hash >> 32;
    }
    for (size_t k = 0; k < 8; k++)
        b->data[length + k] = (uint8_t)(hash >> (8 * k));
}

/* A sealed table of false contents may load; then its schedules are replayed and nothing is
 * believed that the replay does not say. */
static void use(const shelf *s, remat_table *table)
{
    static const uint64_t budgets[] = {0, 150, 213, 400, UINT64_MAX};
    for (size_t i = 0; i < COUNT(budgets); i++) {
        remat_schedule schedule;
        remat_error error;
        remat_status status =
            remat_table_schedule(table, &s->problem, budgets[i], &schedule, &error);
        if (status != REMAT_OK)
            continue;
        assert_true(schedule.simulation.valid && schedule.simulation.peak <= budgets[i]);
        remat_schedule_clear(&schedule);
    }
    remat_table_free(table);
}

static void check_sealed(shelf *s, unsigned *ret_kinds)
{
    remat_table *table = NULL;
    seal(&s->saved);
    remat_status status = load(s, s->saved.data, s->saved.length, &table);
    if (status == REMAT_OK)
        use(s, table);
    else if (status != REMAT_CORRUPT && status != REMAT_NEWER && status != REMAT_INVALID)
        fail_msg("%s", remat_status_name(status));
    *ret_kinds |= 1u << status;
}

static void sealed_damage_does_no_harm(void **state)
{
    (void)state;
    static const char *const solvers[] = {"store-all", "chen-sqrt", "rotor"};
    static const uint8_t masks[] = {0x01, 0x80, 0xff};
    unsigned kinds = 0;
    for (size_t k = 0; k < COUNT(solvers); k++) {
        shelf s = put_away(solvers[k]);
        for (size_t i = 0; i + 8 < s.saved.length; i++)
            for (size_t m = 0; m < COUNT(masks); m++) {
                uint8_t own = s.saved.data[i];
                s.saved.data[i] = (uint8_t)(own ^ masks[m]);
                check_sealed(&s, &kinds);
                s.saved.data[i] = own;
            }
        size_t whole = s.saved.length;
        for (size_t length = whole; length-- > 8;) {
            s.saved.length = length;
            check_sealed(&s, &kinds);
            s.saved.length = whole;
        }
        clear(&s);
    }
    assert_true(kinds & 1u << REMAT_CORRUPT && kinds & 1u << REMAT_NEWER &&
                kinds & 1u << REMAT_INVALID);
}

/* Byte 8 is the version of the format, 12 that of the solver's tables, 16 the fingerprint. */
static void headers_say_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        remat_status status;
    } bytes[] = {{0, REMAT_CORRUPT},
                 {8, REMAT_NEWER},
                 {12, REMAT_NEWER},
                 {16, REMAT_INVALID},
                 {28, REMAT_INVALID}}; /* 28: the first letter of the solver's name */
    for (size_t i = 0; i < COUNT(bytes); i++) {
        shelf s = put_away("rotor");
        remat_table *table = NULL;
        s.saved.data[bytes[i].at]++;
        seal(&s.saved);
        assert_int_equal(load(&s, s.saved.data, s.saved.length, &table), bytes[i].status);
        clear(&s);
    }
}

static void tables_of_others_are_refused(void **state)
{
    (void)state;
    shelf s = put_away("rotor");
    remat_table *table = NULL;
    remat_profile *other = chain(1.5);
    remat_problem problem = problem_of("rotor", other);
    assert_int_equal(
        remat_table_load(s.solver, &problem, s.saved.data, s.saved.length, &table, NULL),
        REMAT_INVALID);
    problem = problem_of("store-all", s.profile);
    assert_int_equal(remat_table_load(remat_solver_find("store-all"), &problem, s.saved.data,
                                      s.saved.length, &table, NULL),
                     REMAT_INVALID);
    assert_null(table);
    remat_profile_free(other);
    clear(&s);
}

/* ---- workers ---- */

/* Three workers take turns, the last index first. */
static void backwards(void *data, size_t count,
                      void (*body)(void *context, size_t index, unsigned worker), void *context)
{
    (void)data;
    while (count-- > 0)
        body(context, count, (unsigned)(count % 3));
}

/* To the byte: of equal lists the same one stays. */
static void workers_change_nothing(void **state)
{
    (void)state;
    static const remat_link link = {4, 3, 0.5, false};
    const remat_host host = {.parallel_for = backwards, .workers = 3};
    size_t n;
    const remat_solver *const *solvers = remat_solvers(&n);
    remat_profile *p = chain(1);
    for (size_t i = 0; i < n; i++) {
        remat_problem problem = problem_of(solvers[i]->name, p);
        remat_table *alone = NULL, *shared = NULL;
        remat_buffer one = {0}, other = {0};
        problem.link = &link;
        if (remat_solver_accepts(solvers[i], &problem, NULL))
            continue;
        assert_int_equal(remat_tabulate(solvers[i], &problem, NULL, &alone, NULL), REMAT_OK);
        assert_int_equal(remat_tabulate(solvers[i], &problem, &host, &shared, NULL), REMAT_OK);
        assert_int_equal(remat_table_save(alone, &one, NULL), REMAT_OK);
        assert_int_equal(remat_table_save(shared, &other, NULL), REMAT_OK);
        assert_int_equal(one.length, other.length);
        assert_memory_equal(one.data, other.data, one.length);
        remat_buffer_clear(&one);
        remat_buffer_clear(&other);
        remat_table_free(alone);
        remat_table_free(shared);
    }
    remat_profile_free(p);
}

/* ---- packed lists ---- */

static uint32_t draw(uint64_t *state, uint32_t bound)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*state >> 33) % bound);
}

/* Runs, repetitions and noise, of every kind, target, version and alternative. */
static void draw_list(uint64_t *state, remat_operations *list)
{
    uint32_t runs = draw(state, 12);
    for (uint32_t r = 0; r < runs; r++) {
        remat_operation one = {.kind = (uint8_t)draw(state, 8), .target = (uint8_t)draw(state, 3)};
        uint32_t length = draw(state, draw(state, 2) ? 3 : 200), step = draw(state, 3) - 1;
        bool computes = one.kind <= REMAT_B;
        one.index = draw(state, 4) ? draw(state, 1000) : UINT32_MAX - draw(state, 2);
        for (uint32_t i = 0; i < length; i++, one.index += step) {
            one.alternative = !computes || draw(state, 9) ? 0 : (uint16_t)draw(state, 65536);
            one.version = computes ? 0 : draw(state, 70000);
            assert_int_equal(remat_operations_push(list, one), REMAT_OK);
        }
    }
}

static void packed_lists_come_back(void **state)
{
    (void)state;
    uint64_t seed = 8;
    for (int round = 0; round < 2000; round++) {
        remat_operations list = {0}, back = {0};
        remat_buffer packed = {0};
        draw_list(&seed, &list);
        assert_int_equal(answer_compact_list(&list, &packed, NULL), REMAT_OK);
        assert_int_equal(answer_expand_list(packed.data, packed.length, &back, NULL), REMAT_OK);
        assert_int_equal(back.length, list.length);
        for (size_t i = 0; i < list.length; i++)
            assert_memory_equal(&back.items[i], &list.items[i], sizeof list.items[i]);
        remat_operations_clear(&back);
        for (int damage = 0; damage < 20; damage++) {
            size_t at = draw(&seed, (uint32_t)packed.length), cut = damage % 3 ? packed.length : at;
            uint8_t own = packed.data[at];
            packed.data[at] = (uint8_t)draw(&seed, 256);
            uint8_t *copy = malloc(cut + 1);
            memcpy(copy, packed.data, cut);
            remat_status status = answer_expand_list(copy, cut, &back, NULL);
            assert_true(status == REMAT_OK || status == REMAT_CORRUPT);
            if (!status)
                remat_operations_clear(&back);
            free(copy);
            packed.data[at] = own;
        }
        remat_buffer_clear(&packed);
        remat_operations_clear(&list);
    }
}

/* A chain's forward pass, D after D, and its backward: some bytes whatever its length. */
static void runs_are_short(void **state)
{
    (void)state;
    remat_operations list = {0};
    remat_buffer packed = {0};
    for (uint32_t v = 0; v < 100000; v++) {
        assert_int_equal(remat_push(&list, REMAT_F, v), REMAT_OK);
        if (v > 0)
            assert_int_equal(remat_push(&list, REMAT_D, v - 1), REMAT_OK);
    }
    for (uint32_t v = 100000; v-- > 0;)
        assert_int_equal(remat_push(&list, REMAT_B, v), REMAT_OK);
    assert_int_equal(answer_compact_list(&list, &packed, NULL), REMAT_OK);
    assert_true(packed.length < 64);
    remat_buffer_clear(&packed);
    remat_operations_clear(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_budget_has_its_answer),
        cmocka_unit_test(store_all_by_hand),
        cmocka_unit_test(limits_are_kept_before_anything_is_allocated),
        cmocka_unit_test(cancelled_work_stops),
        cmocka_unit_test(what_is_saved_comes_back),
        cmocka_unit_test(every_flipped_bit_is_found),
        cmocka_unit_test(sealed_damage_does_no_harm),
        cmocka_unit_test(headers_say_what_is_wrong),
        cmocka_unit_test(tables_of_others_are_refused),
        cmocka_unit_test(workers_change_nothing),
        cmocka_unit_test(packed_lists_come_back),
        cmocka_unit_test(runs_are_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
