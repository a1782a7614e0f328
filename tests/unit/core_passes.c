/* The liveness pass and the states pass by examples worked out by hand from remat/schedule.h and
 * Dauvergne and Hascoet (2006), equation (3). */
#include "unit/core_support.h"

/* a -> b -> loss. B b reads a and saved(b); B a reads nothing, B loss reads b. */
static remat_profile *three_nodes(void)
{
    remat_profile_spec spec = {
        HEADER, NODES({.id = "a", .forward_time = NUMBER(1), .output_bytes = NUMBER(8)},
                      {.id = "b",
                       .forward_time = NUMBER(1),
                       .output_bytes = NUMBER(8),
                       .saved_bytes = NUMBER(8),
                       .backward_uses_inputs = true,
                       INPUTS("a")},
                      {.id = "loss",
                       .forward_time = NUMBER(1),
                       .output_bytes = NUMBER(8),
                       .backward_uses_inputs = true,
                       INPUTS("b")})};
    return make_profile(&spec);
}

#define LIVENESS(p, list, ...)                                                                     \
    do {                                                                                           \
        remat_operations live_ = {0};                                                              \
        assert_int_equal(remat_liveness(p, list, &live_, NULL), REMAT_OK);                         \
        ASSERT_OPERATIONS(&live_, __VA_ARGS__);                                                    \
        remat_operations_clear(&live_);                                                            \
    } while (0)

static void values_are_freed_after_their_last_use(void **state)
{
    (void)state;
    remat_profile *p = three_nodes();
    remat_operations list = OPERATIONS(OP_F(0), OP_A(1), OP_F(2), OP_B(2), OP_B(1), OP_B(0));
    /* The loss is read by nothing, b by B loss, a by B b; saved(b) is freed by B b itself. */
    LIVENESS(p, &list, OP_F(0), OP_A(1), OP_F(2), OP_D(2), OP_B(2), OP_D(1), OP_B(1), OP_D(0),
             OP_B(0));
    remat_profile_free(p);
}

static void late_drops_move_forward(void **state)
{
    (void)state;
    remat_profile *p = three_nodes();
    /* F b, then b made anew with A: two lives of b, each dropped at its end. */
    remat_operations list = OPERATIONS(OP_F(0), OP_F(1), OP_F(2), OP_B(2), OP_D(2), OP_D(1),
                                       OP_A(1), OP_B(1), OP_B(0), OP_D(1), OP_D(0));
    LIVENESS(p, &list, OP_F(0), OP_F(1), OP_F(2), OP_D(2), OP_B(2), OP_D(1), OP_A(1), OP_D(1),
             OP_B(1), OP_D(0), OP_B(0));
    remat_profile_free(p);
}

static void saved_values_without_a_backward_are_dropped(void **state)
{
    (void)state;
    remat_profile *p = three_nodes();
    remat_operations list =
        OPERATIONS(OP_F(0), OP_A(1), OP_F(2), OP_B(2), OP_D(1), OP_X(1), OP_A(1), OP_B(1), OP_B(0));
    LIVENESS(p, &list, OP_F(0), OP_A(1), OP_X(1), OP_F(2), OP_D(2), OP_B(2), OP_D(1), OP_A(1),
             OP_D(1), OP_B(1), OP_D(0), OP_B(0));
    remat_profile_free(p);
}

/* A D waits for a copy, so that of a copied value stays where it is, and none is added. */
static void copied_values_keep_their_own_drop(void **state)
{
    (void)state;
    remat_profile *p = three_nodes();
    remat_operations list =
        OPERATIONS(OP_F(0), OP_O(0), OP_A(1), OP_F(2), OP_D(0), OP_B(2), OP_P(0), OP_B(1), OP_B(0));
    LIVENESS(p, &list, OP_F(0), OP_O(0), OP_A(1), OP_F(2), OP_D(2), OP_D(0), OP_B(2), OP_D(1),
             OP_P(0), OP_B(1), OP_D(0), OP_B(0));
    remat_operations kept =
        OPERATIONS(OP_F(0), OP_A(1), OP_O(1), OP_F(2), OP_B(2), OP_B(1), OP_B(0));
    LIVENESS(p, &kept, OP_F(0), OP_A(1), OP_O(1), OP_F(2), OP_D(2), OP_B(2), OP_B(1), OP_D(0),
             OP_B(0));
    /* Fetched and then read by nothing: a D right after P a would wait for it to arrive. */
    remat_operations fetched = OPERATIONS(OP_F(0), OP_O(0), OP_A(1), OP_D(0), OP_P(0), OP_F(2),
                                          OP_D(0), OP_B(2), OP_F(0), OP_B(1), OP_B(0));
    LIVENESS(p, &fetched, OP_F(0), OP_O(0), OP_A(1), OP_D(0), OP_P(0), OP_F(2), OP_D(2), OP_D(0),
             OP_B(2), OP_D(1), OP_F(0), OP_B(1), OP_D(0), OP_B(0));
    remat_profile_free(p);
}

static void an_empty_list_stays_empty(void **state)
{
    (void)state;
    remat_profile *p = three_nodes();
    remat_operations empty = {0}, live = {0}, whole = {0};
    assert_int_equal(remat_liveness(p, &empty, &live, NULL), REMAT_OK);
    assert_int_equal(live.length, 0);
    assert_int_equal(remat_insert_states(p, &empty, &whole, NULL), REMAT_OK);
    assert_int_equal(whole.length, 0);
    remat_operations_clear(&live);
    remat_operations_clear(&whole);
    remat_profile_free(p);
}

/* ---- states ---- */

#define WITH_STATES(p, list, ...)                                                                  \
    do {                                                                                           \
        remat_operations whole_ = {0};                                                             \
        assert_int_equal(remat_insert_states(p, list, &whole_, NULL), REMAT_OK);                   \
        ASSERT_OPERATIONS(&whole_, __VA_ARGS__);                                                   \
        remat_operations_clear(&whole_);                                                           \
    } while (0)

static void a_plain_step_saves_nothing(void **state)
{
    (void)state;
    remat_profile *p = drawing();
    remat_operations list = OPERATIONS(OP_F(0), OP_F(1), OP_F(2), OP_B(2), OP_B(1), OP_B(0));
    WITH_STATES(p, &list, OP_F(0), OP_F(1), OP_F(2), OP_B(2), OP_B(1), OP_B(0));
    remat_profile_free(p);
}

static void what_is_read_again_is_saved_before_it_is_left(void **state)
{
    (void)state;
    remat_profile *p = drawing();
    /* draw runs again at the end: it must see version 0, saved just before draw first leaves it.
     * The step must end at version 2, saved just before the restore of 0 leaves it. */
    remat_operations list =
        OPERATIONS(OP_F(0), OP_F(1), OP_F(2), OP_B(2), OP_B(1), OP_D(0), OP_F(0), OP_B(0));
    WITH_STATES(p, &list, OP_S(0, 0), OP_F(0), OP_F(1), OP_F(2), OP_B(2), OP_B(1), OP_D(0),
                OP_S(0, 2), OP_R(0, 0), OP_F(0), OP_B(0), OP_R(0, 2));
    /* mix runs again: it writes without reading, so nothing is restored, before or after. */
    remat_operations mixed =
        OPERATIONS(OP_F(0), OP_F(1), OP_D(1), OP_F(1), OP_F(2), OP_B(2), OP_B(1), OP_B(0));
    WITH_STATES(p, &mixed, OP_F(0), OP_F(1), OP_D(1), OP_F(1), OP_F(2), OP_B(2), OP_B(1), OP_B(0));
    remat_profile_free(p);
}

static void old_saves_are_replaced(void **state)
{
    (void)state;
    remat_profile *p = drawing();
    remat_operations list = OPERATIONS(OP_S(0, 0), OP_R(0, 0), OP_F(0), OP_S(0, 1), OP_F(1),
                                       OP_R(0, 1), OP_F(2), OP_B(2), OP_B(1), OP_B(0));
    WITH_STATES(p, &list, OP_F(0), OP_F(1), OP_F(2), OP_B(2), OP_B(1), OP_B(0));
    remat_profile_free(p);
}

/* ---- lists ---- */

static void lists_grow_and_clear(void **state)
{
    (void)state;
    remat_operations list = {0};
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(remat_push(&list, i % 2 ? REMAT_B : REMAT_F, i), REMAT_OK);
    assert_int_equal(remat_push_drop_saved(&list, 7), REMAT_OK);
    assert_int_equal(remat_operations_push(&list, OP_R(3, 4)), REMAT_OK);
    assert_int_equal(list.length, 1002);
    for (uint32_t i = 0; i < 1000; i++) {
        assert_int_equal(list.items[i].kind, i % 2 ? REMAT_B : REMAT_F);
        assert_int_equal(list.items[i].index, i);
    }
    assert_true(same_operation(&list.items[1000], &OP_X(7)));
    assert_true(same_operation(&list.items[1001], &OP_R(3, 4)));
    remat_operations_clear(&list);
    assert_null(list.items);
    assert_int_equal(list.length, 0);
    remat_operations_clear(&list);
}

static void operations_have_letters(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 8; kind++) {
        char letter[2] = {"FABDOPSR"[kind], '\0'}; /* DESIGN.md, contract 2 */
        assert_string_equal(remat_operation_name((remat_operation_kind)kind), letter);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_freed_after_their_last_use),
        cmocka_unit_test(late_drops_move_forward),
        cmocka_unit_test(saved_values_without_a_backward_are_dropped),
        cmocka_unit_test(copied_values_keep_their_own_drop),
        cmocka_unit_test(an_empty_list_stays_empty),
        cmocka_unit_test(a_plain_step_saves_nothing),
        cmocka_unit_test(what_is_read_again_is_saved_before_it_is_left),
        cmocka_unit_test(old_saves_are_replaced),
        cmocka_unit_test(lists_grow_and_clear),
        cmocka_unit_test(operations_have_letters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
