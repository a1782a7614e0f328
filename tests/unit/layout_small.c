/* Layouts worked out by hand from remat/simulate.h and remat/layout.h. Where an arena is said to be
 * the least there is, it equals the peak, below which no layout can be. */
#include "unit/core_support.h"

#include "remat/layout.h"

/* A node of one time unit whose backward reads nothing unless said. */
#define NODE(name, bytes, gradient, ...)                                                           \
    {                                                                                              \
        .id = name, .forward_time = NUMBER(1), .output_bytes = NUMBER(bytes),                      \
        .gradient_bytes = NUMBER(gradient), __VA_ARGS__                                            \
    }

static remat_layout lay_out(const remat_profile *p, const remat_operations *list,
                            uint64_t alignment)
{
    remat_layout layout = {0};
    remat_error error = {0};
    if (remat_layout_new(p, list, alignment, &layout, &error) ||
        remat_layout_check(p, list, &layout, &error))
        fail_msg("%s: %s", error.field, error.message);
    assert_true(layout.arena >= layout.peak && layout.alignment == alignment);
    return layout;
}

/* All but the offset. */
static void assert_item(const remat_layout *layout, size_t i, remat_allocation_kind kind,
                        uint32_t index, uint64_t bytes, int32_t first, int32_t last)
{
    assert_true(i < layout->n);
    const remat_allocation *item = &layout->items[i];
    if (item->kind != kind || item->index != index || item->bytes != bytes ||
        item->first != first || item->last != last)
        fail_msg("allocation %zu is %s %u, %llu bytes, life %d to %d", i,
                 remat_allocation_kind_name((remat_allocation_kind)item->kind), item->index,
                 (unsigned long long)item->bytes, item->first, item->last);
}

static bool apart(const remat_allocation *a, const remat_allocation *b)
{
    return a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset;
}

static void a_value_takes_the_place_of_a_dead_one(void **state)
{
    (void)state;
    remat_profile_spec spec = {HEADER, NODES(NODE("a", 40, 0), NODE("b", 60, 0, INPUTS("a")),
                                             NODE("c", 40, 0, INPUTS("b")),
                                             NODE("loss", 0, 0, INPUTS("c")))};
    remat_profile *p = make_profile(&spec);
    remat_operations list = OPERATIONS(OP_F(0), OP_F(1), OP_D(0), OP_F(2), OP_D(1), OP_F(3),
                                       OP_B(3), OP_B(2), OP_B(1), OP_B(0));
    remat_layout layout = lay_out(p, &list, 1);
    assert_int_equal(layout.n, 3); /* the loss has no bytes, and no place */
    assert_item(&layout, 0, REMAT_ALLOCATION_OUT, 0, 40, 0, 2);
    assert_item(&layout, 1, REMAT_ALLOCATION_OUT, 1, 60, 1, 4);
    assert_item(&layout, 2, REMAT_ALLOCATION_OUT, 2, 40, 3, 9); /* nothing drops it */
    assert_int_equal(layout.peak, 100);
    assert_int_equal(layout.arena, 100);
    assert_int_equal(layout.items[0].offset, layout.items[2].offset);
    remat_layout_clear(&layout);
    assert_true(layout.n == 0 && !layout.items);
    remat_profile_free(p);
}

/* Graph input, saved values, workspaces, gradients, and a value that is made twice. */
static void every_kind_is_listed_in_order(void **state)
{
    (void)state;
    remat_profile_spec spec = {
        HEADER, GRAPH_INPUTS({.id = "x", .bytes = NUMBER(7), .gradient_bytes = NUMBER(5)}),
        NODES({.id = "a",
               .forward_time = NUMBER(1),
               .output_bytes = NUMBER(10),
               .saved_bytes = NUMBER(20),
               .gradient_bytes = NUMBER(11),
               .forward_workspace_bytes = NUMBER(3),
               .save_workspace_bytes = NUMBER(4),
               .backward_workspace_bytes = NUMBER(6),
               INPUTS("x")},
              NODE("loss", 2, 1, INPUTS("a")))};
    remat_profile *p = make_profile(&spec);
    remat_operations list =
        OPERATIONS(OP_F(0), OP_F(1), OP_D(0), OP_B(1), OP_A(0), OP_D(0), OP_B(0));
    remat_layout layout = lay_out(p, &list, 1);
    assert_int_equal(layout.n, 11);
    assert_item(&layout, 0, REMAT_ALLOCATION_INPUT, 0, 7, -1, 6);
    assert_item(&layout, 1, REMAT_ALLOCATION_OUT, 0, 10, 0, 2);
    assert_item(&layout, 2, REMAT_ALLOCATION_WORKSPACE, 0, 3, 0, 0);
    assert_item(&layout, 3, REMAT_ALLOCATION_OUT, 1, 2, 1, 6);
    assert_item(&layout, 4, REMAT_ALLOCATION_GRADIENT, 1, 1, 3, 3);
    assert_item(&layout, 5, REMAT_ALLOCATION_GRADIENT, 0, 11, 3, 6);
    assert_item(&layout, 6, REMAT_ALLOCATION_OUT, 0, 10, 4, 5);
    assert_item(&layout, 7, REMAT_ALLOCATION_SAVED, 0, 20, 4, 6);
    assert_item(&layout, 8, REMAT_ALLOCATION_WORKSPACE, 0, 4, 4, 4);
    assert_item(&layout, 9, REMAT_ALLOCATION_INPUT_GRADIENT, 0, 5, 6, 6);
    assert_item(&layout, 10, REMAT_ALLOCATION_WORKSPACE, 0, 6, 6, 6);
    assert_int_equal(layout.peak, 54); /* A a: 7 + 2 + 11 + 10 + 20 + 4 */
    assert_int_equal(layout.arena, 54);
    remat_layout_clear(&layout);
    remat_profile_free(p);
}

/* ---- in place ---- */

/* b (30), c (20) and d (30) overwrite one after the other what a (20) made; w lives beside them. */
static void a_row_of_overwriting_nodes_has_one_offset(void **state)
{
    (void)state;
    remat_profile_spec spec = {
        HEADER,
        NODES(NODE("w", 8, 0), NODE("a", 20, 0),
              NODE("b", 30, 0, .in_place = true, INPUTS("a", "w")),
              NODE("c", 20, 0, .in_place = true, INPUTS("b")),
              NODE("d", 30, 0, .in_place = true, .forward_workspace_bytes = NUMBER(5), INPUTS("c")),
              NODE("loss", 0, 0, INPUTS("d")))};
    remat_profile *p = make_profile(&spec);
    remat_operations list =
        OPERATIONS(OP_F(0), OP_F(1), OP_F(2), OP_D(0), OP_D(1), OP_F(3), OP_D(2), OP_F(4), OP_F(5),
                   OP_B(5), OP_B(4), OP_B(3), OP_B(2), OP_D(4), OP_B(1), OP_B(0));
    remat_layout layout = lay_out(p, &list, 1);
    assert_int_equal(layout.n, 6);
    assert_item(&layout, 1, REMAT_ALLOCATION_OUT, 1, 20, 1,
                2); /* the later D of it frees nothing */
    assert_item(&layout, 2, REMAT_ALLOCATION_OUT, 2, 30, 2, 5);
    assert_item(&layout, 3, REMAT_ALLOCATION_OUT, 3, 20, 5, 7);
    assert_item(&layout, 4, REMAT_ALLOCATION_OUT, 4, 30, 7, 13);
    for (size_t i = 2; i <= 4; i++)
        assert_int_equal(layout.items[i].offset, layout.items[1].offset);
    assert_true(apart(&layout.items[0], &layout.items[2]));
    assert_true(apart(&layout.items[5], &layout.items[3]) &&
                apart(&layout.items[5], &layout.items[4]));
    assert_int_equal(layout.peak, 38); /* F b: w and the larger of a and b */
    assert_int_equal(layout.arena, 38);
    remat_layout_clear(&layout);
    remat_profile_free(p);
}

/* The gradients of relu and of its input share; where the input is read later nothing is shared. */
static void gradients_share_too_and_values_read_later_do_not(void **state)
{
    (void)state;
    remat_profile_spec spec = {HEADER, NODES(NODE("a", 20, 12),
                                             NODE("relu", 20, 16, .in_place = true,
                                                  .backward_uses_inputs = true, INPUTS("a")),
                                             NODE("loss", 0, 0, INPUTS("relu")))};
    remat_profile *p = make_profile(&spec);
    remat_operations list =
        OPERATIONS(OP_F(0), OP_F(1), OP_F(2), OP_B(2), OP_B(1), OP_D(0), OP_D(1), OP_B(0));
    remat_layout layout = lay_out(p, &list, 1);
    assert_int_equal(layout.n, 4);
    assert_item(&layout, 0, REMAT_ALLOCATION_OUT, 0, 20, 0, 5);
    assert_item(&layout, 1, REMAT_ALLOCATION_OUT, 1, 20, 1, 6);
    assert_item(&layout, 2, REMAT_ALLOCATION_GRADIENT, 1, 16, 3, 4);
    assert_item(&layout, 3, REMAT_ALLOCATION_GRADIENT, 0, 12, 4, 7);
    assert_true(apart(&layout.items[0], &layout.items[1]));
    assert_int_equal(layout.items[2].offset, layout.items[3].offset);
    assert_int_equal(layout.arena, 56);
    remat_layout_clear(&layout);
    remat_profile_free(p);
}

/* ---- states and copies ---- */

static void a_saved_version_lives_to_its_last_restore(void **state)
{
    (void)state;
    remat_profile_spec spec = {HEADER, STATES({.id = "rng", .bytes = NUMBER(16)}),
                               NODES(NODE("draw", 10, 0, READS("rng"), WRITES("rng")),
                                     NODE("loss", 0, 0, INPUTS("draw")))};
    remat_profile *p = make_profile(&spec);
    remat_operations list =
        OPERATIONS(OP_S(0, 0), OP_F(0), OP_F(1), OP_D(0), OP_S(0, 1), OP_R(0, 0), OP_F(0), OP_D(0),
                   OP_R(0, 0), OP_F(0), OP_B(1), OP_B(0), OP_R(0, 1));
    remat_layout layout = lay_out(p, &list, 1);
    assert_int_equal(layout.n, 5);
    assert_item(&layout, 0, REMAT_ALLOCATION_STATE, 0, 16, 0, 8);
    assert_item(&layout, 2, REMAT_ALLOCATION_STATE, 0, 16, 4, 12);
    assert_string_equal(remat_allocation_id(p, &layout.items[0]), "rng");
    assert_int_equal(layout.arena, 42);
    remat_layout_clear(&layout);
    remat_profile_free(p);
}

/* A value that was copied out, dropped and fetched back has two lives, perhaps two addresses. */
static void offloaded_values_live_twice(void **state)
{
    (void)state;
    remat_profile_spec spec = {
        HEADER, GRAPH_INPUTS({.id = "x", .bytes = NUMBER(9)}),
        NODES(NODE("a", 50, 0, .backward_uses_inputs = true, INPUTS("x")),
              NODE("b", 50, 0, INPUTS("a")),
              NODE("loss", 0, 0, .backward_uses_inputs = true, INPUTS("b")))};
    remat_profile *p = make_profile(&spec);
    remat_operations list =
        OPERATIONS(OP_OI(0), OP_F(0), OP_DI(0), OP_O(0), OP_F(1), OP_D(0), OP_F(2), OP_B(2),
                   OP_D(1), OP_P(0), OP_B(1), OP_D(0), OP_PI(0), OP_B(0));
    remat_layout layout = lay_out(p, &list, 1);
    assert_int_equal(layout.n, 5);
    assert_item(&layout, 0, REMAT_ALLOCATION_INPUT, 0, 9, -1, 2);
    assert_item(&layout, 1, REMAT_ALLOCATION_OUT, 0, 50, 1, 5); /* its D waits for the copy */
    assert_item(&layout, 2, REMAT_ALLOCATION_OUT, 1, 50, 4, 8);
    assert_item(&layout, 3, REMAT_ALLOCATION_OUT, 0, 50, 9, 11);
    assert_item(&layout, 4, REMAT_ALLOCATION_INPUT, 0, 9, 12, 13);
    assert_int_equal(layout.arena, 100);
    remat_layout_clear(&layout);
    remat_profile_free(p);
}

/* ---- long lists ---- */

enum { LONG = 11000 };

/* A chain that stores everything, output and gradient of sizes[i % n]. */
static remat_profile *long_chain(const double *sizes, size_t n)
{
    static char ids[LONG][8];
    static const char *inputs[LONG];
    static remat_node_spec nodes[LONG];
    for (size_t i = 0; i < LONG; i++) {
        snprintf(ids[i], sizeof ids[i], "%zu", i);
        inputs[i] = ids[i];
        nodes[i] = (remat_node_spec){.id = ids[i],
                                     .inputs = i > 0 ? &inputs[i - 1] : NULL,
                                     .n_inputs = i > 0,
                                     .forward_time = NUMBER(1),
                                     .output_bytes = NUMBER(sizes[i % n]),
                                     .backward_uses_inputs = true};
    }
    remat_profile_spec spec = {HEADER, .nodes = nodes, .n_nodes = LONG};
    return make_profile(&spec);
}

static remat_layout lay_out_long(const double *sizes, size_t n)
{
    remat_profile *p = long_chain(sizes, n);
    remat_operations list = {0}, live = {0};
    for (uint32_t v = 0; v < LONG; v++)
        remat_push(&list, REMAT_F, v);
    for (uint32_t v = LONG; v-- > 0;)
        remat_push(&list, REMAT_B, v);
    assert_int_equal(remat_liveness(p, &list, &live, NULL), REMAT_OK);
    remat_layout layout = lay_out(p, &live, 1);
    assert_int_equal(layout.n, 2 * LONG);
    remat_operations_clear(&list);
    remat_operations_clear(&live);
    remat_profile_free(p);
    return layout;
}

/* Equal sizes: first fit in order of time is optimal, the peak is reached. */
static void long_lists_are_laid_out_too(void **state)
{
    (void)state;
    static const double equal[] = {64}, mixed[] = {1, 70, 3, 64, 9};
    remat_layout layout = lay_out_long(equal, COUNT(equal));
    assert_int_equal(layout.arena, layout.peak);
    remat_layout_clear(&layout);
    layout = lay_out_long(mixed, COUNT(mixed));
    remat_layout_clear(&layout);
}

/* ---- alignment, errors ---- */

static remat_profile *two_bytes(void)
{
    remat_profile_spec spec = {HEADER, NODES(NODE("a", 1, 0), NODE("b", 1, 0, INPUTS("a")),
                                             NODE("loss", 0, 0, INPUTS("b")))};
    return make_profile(&spec);
}

static void offsets_are_aligned(void **state)
{
    (void)state;
    remat_profile *p = two_bytes();
    remat_operations list = OPERATIONS(OP_F(0), OP_F(1), OP_F(2), OP_B(2), OP_B(1), OP_B(0));
    static const uint64_t alignments[] = {1, 2, 256, REMAT_MAX_ALIGNMENT};
    for (size_t i = 0; i < COUNT(alignments); i++) {
        remat_layout layout = lay_out(p, &list, alignments[i]);
        assert_true(layout.items[0].offset + layout.items[1].offset == alignments[i]);
        assert_true(layout.peak == 2 && layout.arena == alignments[i] + 1);
        assert_true(layout.aligned_peak == 2 * alignments[i]);
        remat_layout_clear(&layout);
    }
    remat_profile_free(p);
}

static void wrong_alignments_are_named(void **state)
{
    (void)state;
    remat_profile *p = two_bytes();
    remat_operations list = OPERATIONS(OP_F(0), OP_F(1), OP_F(2), OP_B(2), OP_B(1), OP_B(0));
    static const uint64_t wrong[] = {0, 3, 255, 2 * REMAT_MAX_ALIGNMENT, UINT64_MAX};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        remat_layout layout = {.arena = 77};
        remat_error error = {0};
        char number[32];
        snprintf(number, sizeof number, "%llu", (unsigned long long)wrong[i]);
        assert_int_equal(remat_layout_new(p, &list, wrong[i], &layout, &error), REMAT_INVALID);
        assert_string_equal(error.field, "alignment");
        assert_non_null(strstr(error.message, number));
        assert_true(layout.arena == 77);
    }
    remat_profile_free(p);
}

static void invalid_lists_are_refused(void **state)
{
    (void)state;
    remat_profile *p = two_bytes();
    remat_layout layout = {.arena = 77};
    remat_error error = {0};
    remat_operations early = OPERATIONS(OP_F(0), OP_F(2));
    assert_int_equal(remat_layout_new(p, &early, 1, &layout, &error), REMAT_INVALID);
    assert_string_equal(error.field, "operations[1]");
    assert_non_null(strstr(error.message, "\"b\""));
    remat_operations empty = {0};
    assert_int_equal(remat_layout_new(p, &empty, 1, &layout, &error), REMAT_INVALID);
    assert_string_equal(error.field, "operations");
    assert_true(layout.arena == 77);
    remat_profile_free(p);
}

/* ---- the judge ---- */

static void the_judge_names_what_overlaps(void **state)
{
    (void)state;
    remat_profile_spec spec = {HEADER, NODES(NODE("a", 256, 0), NODE("b", 256, 0, INPUTS("a")),
                                             NODE("loss", 0, 0, INPUTS("b")))};
    remat_profile *p = make_profile(&spec);
    remat_operations list = OPERATIONS(OP_F(0), OP_F(1), OP_F(2), OP_B(2), OP_B(1), OP_B(0));
    remat_layout layout = lay_out(p, &list, 128);
    remat_error error = {0};
    layout.items[0].offset = 0;
    layout.items[1].offset = 128;
    assert_int_equal(remat_layout_check(p, &list, &layout, &error), REMAT_INVALID);
    assert_string_equal(error.message,
                        "operation 1: out of \"b\" (made by operation 1, bytes 128 to 384) and out "
                        "of \"a\" (made by operation 0, bytes 0 to 256) overlap");
    layout.items[1].offset = 320;
    assert_int_equal(remat_layout_check(p, &list, &layout, &error), REMAT_INVALID);
    assert_non_null(strstr(error.message, "aligned"));
    layout.items[1].offset = 384;
    assert_int_equal(remat_layout_check(p, &list, &layout, &error), REMAT_INVALID);
    assert_non_null(strstr(error.message, "arena"));
    layout.arena = 640;
    assert_int_equal(remat_layout_check(p, &list, &layout, &error), REMAT_OK);
    layout.alignment = 3;
    assert_int_equal(remat_layout_check(p, &list, &layout, &error), REMAT_INVALID);
    remat_layout_clear(&layout);
    remat_profile_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_takes_the_place_of_a_dead_one),
        cmocka_unit_test(every_kind_is_listed_in_order),
        cmocka_unit_test(a_row_of_overwriting_nodes_has_one_offset),
        cmocka_unit_test(gradients_share_too_and_values_read_later_do_not),
        cmocka_unit_test(a_saved_version_lives_to_its_last_restore),
        cmocka_unit_test(offloaded_values_live_twice),
        cmocka_unit_test(long_lists_are_laid_out_too),
        cmocka_unit_test(offsets_are_aligned),
        cmocka_unit_test(wrong_alignments_are_named),
        cmocka_unit_test(invalid_lists_are_refused),
        cmocka_unit_test(the_judge_names_what_overlaps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
