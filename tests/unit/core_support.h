/* Small profiles written out by hand, for the tests of solver/core and api. */
#ifndef TESTS_UNIT_CORE_SUPPORT_H
#define TESTS_UNIT_CORE_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "remat/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER(x) ((remat_number){.value = (x), .given = true})
#define COUNT(array) (sizeof(array) / sizeof *(array))
/* The ids that a list names, and their number: .inputs = LIST("a", "b") sets both. */
#define IDS(...)                                                                                   \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define INPUTS(...) .inputs = IDS(__VA_ARGS__), .n_inputs = COUNT(IDS(__VA_ARGS__))
#define READS(...) .reads = IDS(__VA_ARGS__), .n_reads = COUNT(IDS(__VA_ARGS__))
#define WRITES(...) .writes = IDS(__VA_ARGS__), .n_writes = COUNT(IDS(__VA_ARGS__))
/* A list of nodes, inputs or states of a specification. */
#define NODES(...)                                                                                 \
    .nodes = (const remat_node_spec[]){__VA_ARGS__},                                               \
    .n_nodes = COUNT(((const remat_node_spec[]){__VA_ARGS__}))
#define GRAPH_INPUTS(...)                                                                          \
    .inputs = (const remat_input_spec[]){__VA_ARGS__},                                             \
    .n_inputs = COUNT(((const remat_input_spec[]){__VA_ARGS__}))
#define STATES(...)                                                                                \
    .states = (const remat_state_spec[]){__VA_ARGS__},                                             \
    .n_states = COUNT(((const remat_state_spec[]){__VA_ARGS__}))
#define HEADER .format = "remat-profile/1", .name = "test"

static inline remat_profile *make_profile(const remat_profile_spec *spec)
{
    remat_profile *profile = NULL;
    remat_error error = {0};
    if (remat_profile_new(spec, &profile, &error))
        fail_msg("profile: %s: %s", error.field, error.message);
    return profile;
}

/* draw reads and writes rng (16 bytes), mix writes it without reading, look reads it. */
static inline remat_profile *drawing(void)
{
    remat_profile_spec spec = {HEADER, STATES({.id = "rng", .bytes = NUMBER(16)}),
                               NODES({.id = "draw",
                                      .forward_time = NUMBER(1),
                                      .output_bytes = NUMBER(0),
                                      READS("rng"),
                                      WRITES("rng")},
                                     {.id = "mix",
                                      .forward_time = NUMBER(1),
                                      .output_bytes = NUMBER(0),
                                      INPUTS("draw"),
                                      WRITES("rng")},
                                     {.id = "look",
                                      .forward_time = NUMBER(1),
                                      .output_bytes = NUMBER(0),
                                      INPUTS("mix"),
                                      READS("rng")})};
    return make_profile(&spec);
}

/* Operations in one line each. */
#define OP_F(v) ((remat_operation){.kind = REMAT_F, .index = (v)})
#define OP_A(v) ((remat_operation){.kind = REMAT_A, .index = (v)})
#define OP_B(v) ((remat_operation){.kind = REMAT_B, .index = (v)})
#define OP_D(v) ((remat_operation){.kind = REMAT_D, .index = (v)})
#define OP_X(v) ((remat_operation){.kind = REMAT_D, .target = REMAT_SAVED, .index = (v)})
#define OP_O(v) ((remat_operation){.kind = REMAT_O, .index = (v)})
#define OP_P(v) ((remat_operation){.kind = REMAT_P, .index = (v)})
#define OP_OX(v) ((remat_operation){.kind = REMAT_O, .target = REMAT_SAVED, .index = (v)})
#define OP_PX(v) ((remat_operation){.kind = REMAT_P, .target = REMAT_SAVED, .index = (v)})
#define OP_DI(k) ((remat_operation){.kind = REMAT_D, .target = REMAT_INPUT, .index = (k)})
#define OP_OI(k) ((remat_operation){.kind = REMAT_O, .target = REMAT_INPUT, .index = (k)})
#define OP_PI(k) ((remat_operation){.kind = REMAT_P, .target = REMAT_INPUT, .index = (k)})
#define OP_S(k, n) ((remat_operation){.kind = REMAT_S, .index = (k), .version = (n)})
#define OP_R(k, n) ((remat_operation){.kind = REMAT_R, .index = (k), .version = (n)})

static inline bool same_operation(const remat_operation *a, const remat_operation *b)
{
    return a->kind == b->kind && a->target == b->target && a->index == b->index &&
           a->version == b->version && a->alternative == b->alternative;
}

/* What must be so: list[i] are exactly these. */
static inline void assert_operations(const remat_operations *list, const remat_operation *expected,
                                     size_t n)
{
    for (size_t i = 0; i < list->length && i < n; i++)
        if (!same_operation(&list->items[i], &expected[i]))
            fail_msg("operation %zu is %s %u (target %u, version %u), not %s %u", i,
                     remat_operation_name((remat_operation_kind)list->items[i].kind),
                     list->items[i].index, list->items[i].target, list->items[i].version,
                     remat_operation_name((remat_operation_kind)expected[i].kind),
                     expected[i].index);
    assert_int_equal(list->length, n);
}

#define ASSERT_OPERATIONS(list, ...)                                                               \
    assert_operations(list, (const remat_operation[]){__VA_ARGS__},                                \
                      COUNT(((const remat_operation[]){__VA_ARGS__})))

/* A list that borrows its operations: not to be cleared. */
#define OPERATIONS(...)                                                                            \
    ((remat_operations){.items = (remat_operation[]){__VA_ARGS__},                                 \
                        .length = COUNT(((remat_operation[]){__VA_ARGS__}))})

#endif
