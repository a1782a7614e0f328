/* Products in 8 bits: what is kept, what stands beside, what is sent, by hand; and against the same
 * in 16 bits. */
#include "unit/plan_support.h"

#include <math.h>
#include <string.h>

static remat_network_settings settings_of(remat_float8 kind)
{
    return (remat_network_settings){
        .batch = 2, .precision = REMAT_BFLOAT16, .kernels = REMAT_COMPILED, .float8 = kind};
}

static remat_network_graph *graph_of(const char *name, remat_network_settings s)
{
    const remat_device d = plan_device("h100");
    remat_network_graph *graph = NULL;
    remat_error error = {.status = REMAT_OK};
    if (remat_network_graph_new(name, &s, &d, &graph, &error))
        fail_msg("%s: %s", name, error.message);
    return graph;
}

static const remat_node_spec *node(const remat_network_graph *graph, const char *id)
{
    for (size_t v = 0; v < graph->spec.n_nodes; v++)
        if (strcmp(graph->spec.nodes[v].id, id) == 0)
            return &graph->spec.nodes[v];
    fail_msg("no node %s", id);
    return NULL;
}

static remat_step_table table_of(const remat_network_graph *graph, remat_step_settings s)
{
    const remat_device d = plan_device("h100");
    remat_step_table t;
    s.precision = REMAT_BFLOAT16;
    assert_int_equal(remat_step_bytes(graph->tensors, graph->n_tensors, &s, &d, &t, NULL),
                     REMAT_OK);
    return t;
}

/* Llama 3 8B: a block has h, kv and f of 4096, 1024 and 14336 columns. */
enum { H = 4096, KV = 1024, F = 14336, ROWS = 2 * 8192 };
static const double MATRICES = 32.0 * (2.0 * H * H + 2.0 * H * KV + 3.0 * H * F);

static void matrices_of_blocks_are_in_8_bits(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        double numbers;
    } known[] = {{"llama3-8b", 32.0 * (2.0 * H * H + 2.0 * H * KV + 3.0 * H * F)},
                 {"gpt2", 12 * 12.0 * 768 * 768},
                 {"bert-base", 12 * 12.0 * 768 * 768},
                 {"vit-b16", 12 * 12.0 * 768 * 768},
                 {"dit-b2", 12 * 12.0 * 768 * 768},
                 {"mixtral-8x7b", 32 * (2.0 * H * H + 2.0 * H * KV + 8 * 3.0 * H * F)}};
    for (size_t i = 0; i < COUNT(known); i++) {
        remat_network_graph *graph = graph_of(known[i].model, settings_of(REMAT_FLOAT8_TORCHAO));
        double numbers = 0;
        for (size_t k = 0; k < graph->n_tensors; k++)
            if (graph->tensors[k].float8)
                numbers += (double)graph->tensors[k].rows * (double)graph->tensors[k].columns;
        assert_true(numbers == known[i].numbers);
        remat_network_graph_free(graph);
    }
}

/* torchao keeps what is kept in 16 bits; Transformer Engine a byte a number of what each product
 * reads, once where several read it. */
static void inputs_that_are_kept(void **state)
{
    (void)state;
    remat_network_graph *plain = graph_of("llama3-8b", settings_of(REMAT_FLOAT8_NONE)),
                        *torchao = graph_of("llama3-8b", settings_of(REMAT_FLOAT8_TORCHAO)),
                        *engine = graph_of("llama3-8b", settings_of(REMAT_FLOAT8_TE));
    static const struct {
        const char *id;
        double saved;
    } known[] = {{"layer0.q", ROWS * (double)H},
                 {"layer0.k", 0},
                 {"layer0.v", 0},
                 {"layer0.o", ROWS * (double)H},
                 {"layer0.gate", ROWS * (double)H},
                 {"layer0.up", 0},
                 {"layer0.down", ROWS * (double)F}};
    for (size_t i = 0; i < COUNT(known); i++) {
        assert_true(node(plain, known[i].id)->backward_uses_inputs);
        assert_true(node(torchao, known[i].id)->backward_uses_inputs);
        assert_true(node(torchao, known[i].id)->saved_bytes.value == 0);
        assert_false(node(engine, known[i].id)->backward_uses_inputs);
        assert_true(node(engine, known[i].id)->saved_bytes.value == known[i].saved);
    }
    assert_true(node(engine, "lm_head")->backward_uses_inputs);
    remat_network_graph_free(plain);
    remat_network_graph_free(torchao);
    remat_network_graph_free(engine);
}

/* As torchao's roofline has it (torchao/testing/float8/roofline_utils.py): a product reads bytes
 * and writes 16 bits at twice the rate; beside are the passes that cast. */
static void times_by_hand(void **state)
{
    (void)state;
    const remat_device d = plan_device("h100");
    const double in = ROWS * (double)H, w = (double)H * F, out = ROWS * (double)F;
    const double flops = 2 * in * F;
    const remat_kernel product = {
        .kind = REMAT_MATRIX, .precision = REMAT_FLOAT8, .flops = flops, .bytes = in + w + 2 * out};
    const double casts[] = {2 * in, 4 * in, 2 * w, 3 * w};
    double seconds = remat_kernel_seconds(&d, &product);
    for (size_t i = 0; i < COUNT(casts); i++) {
        const remat_kernel cast = {.kind = REMAT_POINTWISE, .bytes = casts[i]};
        seconds += remat_kernel_seconds(&d, &cast);
    }
    remat_network_graph *graph = graph_of("llama3-8b", settings_of(REMAT_FLOAT8_TORCHAO)),
                        *plain = graph_of("llama3-8b", settings_of(REMAT_FLOAT8_NONE));
    const double known = node(graph, "layer0.gate")->forward_time.value;
    assert_true(fabs(known - 1e6 * seconds) < 1e-6 * known);
    /* the same input is cast once, and both are faster than in 16 bits */
    assert_true(node(graph, "layer0.up")->forward_time.value < known);
    assert_true(known < node(plain, "layer0.gate")->forward_time.value);
    remat_network_graph_free(graph);
    remat_network_graph_free(plain);
}

static void what_stands_beside(void **state)
{
    (void)state;
    remat_network_graph *graph = graph_of("llama3-8b", settings_of(REMAT_FLOAT8_TE));
    const remat_step_settings one = {.optimizer = REMAT_ADAMW, .ranks = 1};
    remat_step_settings s = one;
    const remat_step_table plain = table_of(graph, s);
    const uint64_t history = 32ull * 7 * 1024 * 5 * 4;
    s.float8 = REMAT_FLOAT8_TORCHAO;
    assert_int_equal(table_of(graph, s).float8, 0);
    assert_int_equal(table_of(graph, s).allocated, plain.allocated);
    s.float8 = REMAT_FLOAT8_TE;
    assert_int_equal(table_of(graph, s).float8, (uint64_t)(2 * MATRICES) + history);
    assert_int_equal(table_of(graph, s).allocated - plain.allocated, table_of(graph, s).float8);
    s.float8 = REMAT_FLOAT8_TE_WEIGHTS; /* two of 8 bits for one of 16 */
    assert_int_equal(table_of(graph, s).float8, history);
    assert_int_equal(table_of(graph, s).weights, plain.weights);
    /* of zero3 the shards are by rows alone; torchao's unit is gathered in half the bytes */
    s = (remat_step_settings){
        .optimizer = REMAT_ADAMW, .ranks = 8, .parallel = REMAT_ZERO3, .no_prefetch = true};
    const remat_step_table sharded = table_of(graph, s);
    s.float8 = REMAT_FLOAT8_TE_WEIGHTS;
    assert_int_equal(sharded.weights - table_of(graph, s).weights, (uint64_t)(MATRICES / 8));
    s.float8 = REMAT_FLOAT8_TORCHAO_GATHER;
    assert_int_equal(table_of(graph, s).weights, sharded.weights);
    assert_true(table_of(graph, s).gathered <= sharded.gathered);
    remat_network_graph_free(graph);
}

static void weights_are_sent_in_bytes(void **state)
{
    (void)state;
    const remat_interconnect way = {.within = 1, .between = 1, .node = 8};
    const remat_unit_load loads[] = {{.parameters = 4, .forward = 9, .backward = 9, .float8 = 3},
                                     {.parameters = 4, .forward = 9, .backward = 9, .float8 = 3}};
    remat_step_settings s = {
        .precision = REMAT_BFLOAT16, .no_master = true, .ranks = 2, .parallel = REMAT_ZERO3};
    static const double sent[] = {16, 16, 13, 16,
                                  13}; /* of 2 x 8 / 2 out and back; 3 / 2 less each */
    for (unsigned kind = 0; kind < REMAT_FLOAT8_KINDS; kind++) {
        s.float8 = (remat_float8)kind;
        assert_true(fabs(remat_step_exchange(loads, 2, &s, &way, 1).sent - sent[kind]) < 1e-9);
    }
}

static void what_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *model, *device;
        remat_network_settings s;
        const char *says;
    } known[] = {
        {"resnet50", "h100", {.precision = REMAT_BFLOAT16}, "no fp8 to choose"},
        {"gpt2", "a100-80gb", {.precision = REMAT_BFLOAT16}, "a100-80gb has no float8"},
        {"gpt2",
         "h100",
         {.precision = REMAT_BFLOAT16, .lora = {.rank = 8, .targets = 1, .base = REMAT_FROZEN}},
         "without lora"}};
    for (size_t i = 0; i < COUNT(known); i++) {
        const remat_device d = plan_device(known[i].device);
        remat_network_settings s = known[i].s;
        remat_network_graph *graph = NULL;
        remat_error error;
        s.batch = 1;
        s.float8 = REMAT_FLOAT8_TE;
        assert_int_equal(remat_network_graph_new(known[i].model, &s, &d, &graph, &error),
                         REMAT_INVALID);
        assert_string_equal(error.field, "fp8");
        assert_non_null(strstr(error.message, known[i].says));
    }
    const remat_device d = plan_device("h100");
    const remat_tensor tensor = {16, 16, 0, 0, REMAT_TRAINED, true};
    const remat_step_settings steps[] = {
        {.ranks = 1, .precision = REMAT_FLOAT16, .float8 = REMAT_FLOAT8_TE},
        {.ranks = 1, .precision = REMAT_BFLOAT16, .float8 = REMAT_FLOAT8_TE, .autocast = true},
        {.ranks = 1, .precision = REMAT_BFLOAT16, .float8 = REMAT_FLOAT8_TORCHAO_GATHER},
        {.ranks = 1,
         .precision = REMAT_BFLOAT16,
         .float8 = REMAT_FLOAT8_TE_WEIGHTS,
         .no_master = true}};
    for (size_t i = 0; i < COUNT(steps); i++) {
        remat_step_table t;
        remat_error error;
        assert_int_equal(remat_step_bytes(&tensor, 1, &steps[i], &d, &t, &error), REMAT_INVALID);
        assert_string_equal(error.field, "fp8");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrices_of_blocks_are_in_8_bits),
        cmocka_unit_test(inputs_that_are_kept),
        cmocka_unit_test(times_by_hand),
        cmocka_unit_test(what_stands_beside),
        cmocka_unit_test(weights_are_sent_in_bytes),
        cmocka_unit_test(what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
