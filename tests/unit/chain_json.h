/* Chains of the files in tests/data. */
#ifndef TESTS_UNIT_CHAIN_JSON_H
#define TESTS_UNIT_CHAIN_JSON_H

#include "../unit/chain_support.h"

#include <jansson.h>
#include <math.h>

enum { MAX_STAGES = 24 };

static inline uint64_t integer(const json_t *object, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(object, key));
}

/* null: INFINITY. */
static inline double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    assert_non_null(value);
    return json_is_null(value) ? INFINITY : json_number_value(value);
}

/* The profile of an instance; stages has room for MAX_STAGES and outlives *ret_chain. */
static inline remat_profile *read_chain(const json_t *instance, support_chain *ret_chain,
                                        support_stage *stages)
{
    const json_t *list = json_object_get(instance, "stages");
    support_chain chain = {.n = (uint32_t)json_array_size(list), .n_inputs = 1, .stages = stages};
    chain.input_bytes[0] = integer(instance, "input_bytes");
    chain.input_gradient[0] = integer(instance, "input_grad_bytes");
    assert_true(chain.n <= MAX_STAGES);
    for (uint32_t i = 0; i < chain.n; i++) {
        const json_t *stage = json_array_get(list, i);
        uint64_t a = i + 1 < chain.n ? integer(stage, "a") : 0;
        stages[i] = (support_stage){
            .a = a,
            .saved = integer(stage, "abar") - a,
            .delta = integer(stage, "delta"),
            .of = integer(stage, "of"),
            .os = integer(stage, json_object_get(stage, "os") ? "os" : "of"),
            .ob = integer(stage, "ob"),
            .uf = number(stage, "uf"),
            .ub = number(stage, "ub"),
            .uses_output = true,
        };
    }
    *ret_chain = chain;
    return support_profile(&chain);
}

#endif
