/* Plans: what layers keep, by kernels and precisions. */
#include "unit/plan_support.h"

#include <math.h>

/* Bytes that a layer more takes of a step. */
static double layer_of(const char *name, remat_network_settings s, remat_way way)
{
    const remat_device d = plan_device("a100-80gb");
    uint64_t peak[2];
    for (uint32_t i = 0; i < 2; i++) {
        remat_network_graph *graph = NULL;
        remat_way_result r;
        remat_error error;
        s.layers = 5 + i;
        if (remat_network_graph_new(name, &s, &d, &graph, &error))
            fail_msg("%s: %s", name, error.message);
        remat_profile *p = plan_checked(graph);
        assert_int_equal(
            remat_way_solve(p, graph->unit, graph->kept, way, NULL, UINT64_MAX, &r, &error),
            REMAT_OK);
        peak[i] = r.peak;
        remat_profile_free(p);
        remat_network_graph_free(graph);
    }
    return (double)(peak[1] - peak[0]);
}

/* By token of Hugging Face's GPT-2, h 768, 12 heads, as torch.autograd.graph.saved_tensors_hooks
 * sees it: in 16 bits 58 h (two sums, two norms, q, k, v, attention's output, two masks of a byte,
 * and of the MLP, 4 h each, its input's product, a half of that, tanh, 1 more, and the result);
 * autocast, two sums, tanh, 1 more and what is cubed in float32, 86 h. With a number of 32 bits a
 * head and two a norm. */
static void layers_keep_what_eager_modules_need(void **state)
{
    (void)state;
    const double h = 768, tokens = 2 * 256, few = 4 * 12 + 2 * 8;
    remat_network_settings s = {.batch = 2, .sequence = 256, .precision = REMAT_BFLOAT16};
    assert_true(layer_of("gpt2", s, REMAT_WAY_STORE_ALL) == tokens * (58 * h + few));
    s.autocast = true;
    assert_true(layer_of("gpt2", s, REMAT_WAY_STORE_ALL) == tokens * (86 * h + few));
    /* and copies of four matrices, and gradients in float32 that are not there yet */
    s.weights = true;
    s.gradient = 4;
    assert_true(layer_of("gpt2", s, REMAT_WAY_STORE_ALL) ==
                tokens * (86 * h + few) + 2 * 12 * h * h);
}

/* Gradients of all tensors are inputs' of the graph, of no bytes; tied ones are one's. The end of
 * the backward has them all, storing less does not change that. */
static void gradients_come_as_the_backward_goes(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt2", "llama3.2-1b", "bert-base", "vit-b16", "resnet50"};
    const remat_device d = plan_device("a100-80gb");
    for (size_t i = 0; i < COUNT(names); i++) {
        remat_network_settings s = {
            .batch = 1, .precision = REMAT_FLOAT32, .weights = true, .gradient = 4};
        remat_network_graph *graph = NULL;
        remat_way_result all, blocks;
        uint64_t bytes = 0;
        assert_int_equal(remat_network_graph_new(names[i], &s, &d, &graph, NULL), REMAT_OK);
        remat_profile *p = plan_checked(graph);
        for (uint32_t k = 0; k < p->n_inputs; k++) {
            assert_true(p->inputs[k].gradient_bytes == 0 || p->inputs[k].bytes == 0);
            bytes += p->inputs[k].gradient_bytes;
        }
        assert_int_equal(bytes, 4 * graph->parameters);
        assert_int_equal(remat_way_solve(p, graph->unit, graph->kept, REMAT_WAY_STORE_ALL, NULL,
                                         UINT64_MAX, &all, NULL),
                         REMAT_OK);
        assert_int_equal(remat_way_solve(p, graph->unit, graph->kept, REMAT_WAY_BLOCKS, NULL,
                                         UINT64_MAX, &blocks, NULL),
                         REMAT_OK);
        assert_true(bytes < blocks.peak && blocks.peak <= all.peak);
        remat_profile_free(p);
        remat_network_graph_free(graph);
        s.gradient = 0; /* they are there before */
        assert_int_equal(remat_network_graph_new(names[i], &s, &d, &graph, NULL), REMAT_OK);
        p = plan_checked(graph);
        uint64_t without;
        assert_int_equal(remat_store_all_peak(p, &without, NULL), REMAT_OK);
        assert_true(all.peak >= without && all.peak < without + bytes);
        remat_profile_free(p);
        remat_network_graph_free(graph);
    }
}

/* Autocast has a copy of every matrix that is multiplied by, with any kernels; only tables of
 * words, positions and vectors have none. */
static void autocast_copies_what_is_multiplied_by(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt2",    "llama3-8b", "mixtral-8x7b",
                                        "vit-b16", "bert-base", "resnet50"};
    const remat_device d = plan_device("h200");
    for (size_t i = 0; i < COUNT(names) * REMAT_KERNEL_SETS; i++) {
        remat_network_settings s = {.batch = 1,
                                    .precision = REMAT_BFLOAT16,
                                    .autocast = true,
                                    .kernels = (remat_kernels)(i % REMAT_KERNEL_SETS),
                                    .weights = true,
                                    .gradient = 4};
        const char *name = names[i / REMAT_KERNEL_SETS];
        remat_network_graph *graph = NULL;
        double bytes = 0;
        if (s.kernels != REMAT_EAGER && strcmp(name, "resnet50") == 0)
            continue;
        assert_int_equal(remat_network_graph_new(name, &s, &d, &graph, NULL), REMAT_OK);
        for (size_t v = 0; v < graph->spec.n_nodes; v++)
            if (strcmp(graph->spec.nodes[v].op, "autocast") == 0)
                bytes += graph->spec.nodes[v].output_bytes.value;
        const double all = 2.0 * (double)graph->parameters;
        if (!(bytes > 0.75 * all && bytes < all))
            fail_msg("%s: copies of %g bytes, of %g", name, bytes, all);
        remat_network_graph_free(graph);
    }
}

/* By token, h 4096, f 14336, keys and values 1024 each, 32 heads, numbers of 16 bits. Selective-op
 * as torchtitan has it: what comes into a block, attention's output (with a number a head), and of
 * q, k, v, o, w1, w3, w2 every other one. Fused: inputs of norms with a number, of products; q and
 * k turned, v, attention's output; SwiGLU's inputs and its output. */
static void layers_keep_what_kernels_need(void **state)
{
    (void)state;
    const double h = 4096, f = 14336, keys = 1024, tokens = 2 * 512;
    remat_network_settings s = {.batch = 2, .sequence = 512, .precision = REMAT_BFLOAT16};
    const double selective = 2 * (h + (h + keys + f + h) + h) + 4 * 32;
    assert_true(layer_of("llama3-8b", s, REMAT_WAY_SELECTIVE_OP) == tokens * selective);
    assert_true(layer_of("llama3-8b", s, REMAT_WAY_BLOCKS) == tokens * 2 * h);
    s.kernels = REMAT_COMPILED;
    /* Gemma 2: and what attention and MLP give, which norms read; of Gemma 3 queries and keys too
     */
    assert_true(layer_of("gemma2-2b", s, REMAT_WAY_STORE_ALL) ==
                tokens * (2 * (6 * 2304 + 2 * 2048 + 2 * 1024 + 3 * 9216) + 4 * 8 + 4 * 4));
    assert_true(layer_of("gemma3-1b", s, REMAT_WAY_STORE_ALL) ==
                tokens * (2 * (6 * 1152 + 3 * 1024 + 3 * 256 + 3 * 6912) + 4 * 4 + 4 * 4 + 4 * 5));
    /* DiT: what comes in, both norms' results, q, k, v, what attention, proj, the first product,
     * gelu and the second give; a number a head, two a norm; of each of two examples six rows and
     * what they are made of */
    remat_network_settings image = s;
    image.sequence = 0;
    assert_true(layer_of("dit-b2", image, REMAT_WAY_STORE_ALL) ==
                2 * 256 * (2 * 18 * 768 + 4 * 12 + 2 * 8) + 2 * 2 * 7 * 768);
    /* DeepSeek: what queries, and keys with values, come from, all of those by heads of 192, 192
     * and 256 (of which values are 128); of 6 experts what goes in, gate, up, product and what
     * comes out, of 2 shared ones the three; what was chosen, in float32 */
    assert_true(layer_of("deepseek-v2-lite", s, REMAT_WAY_STORE_ALL) ==
                tokens * (2 * (4 * 2048 + 576 + 512 + 16 * (192 + 192 + 256 + 128) +
                               6 * (2 * 2048 + 3 * 1408) + 2 * 3 * 1408) +
                          4 * 64 + 4 * 16 + 4 * 3));
    assert_true(layer_of("llama3-8b", s, REMAT_WAY_SELECTIVE_OP) == tokens * selective);
    assert_true(layer_of("llama3-8b", s, REMAT_WAY_STORE_ALL) ==
                tokens * (2 * (6 * h + 2 * keys + 3 * f) + 4 * 32 + 2 * 4));
}

/* Of a block's attention in a window the pairs of rows are counted one by one; every sixth block of
 * Gemma 3 sees all. */
static void windows_by_hand(void **state)
{
    (void)state;
    const remat_device d = plan_device("a100-80gb");
    const uint32_t time = 4096;
    for (uint32_t window = 64; window <= 8192; window *= 4) {
        remat_network_settings s = {
            .batch = 8, .sequence = time, .layers = 6, .precision = REMAT_BFLOAT16};
        remat_network_graph *graph = NULL;
        double pairs = 0, all = 0, seconds[6] = {0};
        s.sizes.window = window;
        assert_int_equal(remat_network_graph_new("gemma3-1b", &s, &d, &graph, NULL), REMAT_OK);
        for (size_t v = 0, i = 0; v < graph->spec.n_nodes; v++)
            if (strcmp(graph->spec.nodes[v].op, "attention") == 0)
                seconds[i++] = 1e-6 * graph->spec.nodes[v].forward_time.value;
        for (uint32_t row = 0; row < time; row++) {
            pairs += row + 1 < window ? row + 1 : window;
            all += row + 1;
        }
        const double own = 4 * 256, keys = 256; /* 4 heads of queries, one of keys */
        for (uint32_t i = 0; i < 6; i++) {
            const remat_kernel kernel = {.kind = REMAT_ATTENTION,
                                         .precision = REMAT_BFLOAT16,
                                         .flops = 8 * 4 * own * (i == 5 ? all : pairs),
                                         .bytes = 8 * 2 * (double)time * (2 * own + 2 * keys)};
            assert_true(fabs(seconds[i] / remat_kernel_seconds(&d, &kernel) - 1) < 0.01);
        }
        remat_network_graph_free(graph);
    }
}

/* The fused loss keeps the gradients of its input and of its weights (Liger), in place of 12 bytes
 * a logit; compiled blocks alone leave it as it is. In chunks, all logits stay in 16 bits, and of
 * eight gradients there is one, or that of the weights beside the sum (torchtune). */
static void losses_in_chunks_keep_gradients(void **state)
{
    (void)state;
    const remat_device d = plan_device("a100-80gb");
    remat_network_settings s = {
        .batch = 1, .sequence = 4096, .layers = 1, .precision = REMAT_BFLOAT16};
    uint64_t peak[REMAT_KERNEL_SETS];
    double seconds[REMAT_KERNEL_SETS];
    for (unsigned k = 0; k < REMAT_KERNEL_SETS; k++) {
        remat_network_graph *graph = NULL;
        s.kernels = (remat_kernels)k;
        assert_int_equal(remat_network_graph_new("llama3-8b", &s, &d, &graph, NULL), REMAT_OK);
        assert_int_equal(graph->parameters, 2 * 128256 * 4096ull + 4096 + 218112000);
        remat_profile *p = plan_checked(graph);
        assert_int_equal(remat_store_all_peak(p, &peak[k], NULL), REMAT_OK);
        seconds[k] = remat_store_all_makespan(p);
        if (k == REMAT_FUSED) {
            const remat_node_spec *loss = &graph->spec.nodes[graph->spec.n_nodes - 1];
            assert_true(loss->saved_bytes.value == 2.0 * (4096.0 * 4096 + 128256.0 * 4096));
            assert_true(loss->forward_workspace_bytes.value == 6.0 * 128 * 128256);
        }
        if (k == REMAT_CHUNKED_LOSS) {
            const remat_node_spec *loss = &graph->spec.nodes[graph->spec.n_nodes - 1];
            assert_true(loss->saved_bytes.value == (2.0 * 128256 + 8) * 4096);
            assert_true(loss->forward_workspace_bytes.value == 0);
            assert_true(loss->backward_workspace_bytes.value == 2.0 * 4096 * 128256);
            assert_true(loss->backward_uses_inputs);
        }
        remat_profile_free(p);
        remat_network_graph_free(graph);
    }
    assert_true((double)peak[REMAT_EAGER] > 12.0 * 4096 * 128256 &&
                (double)peak[REMAT_FUSED] < 2e9);
    assert_true((double)peak[REMAT_COMPILED] < (double)peak[REMAT_EAGER] &&
                (double)peak[REMAT_COMPILED] > 6e9);
    assert_true(seconds[REMAT_COMPILED] < seconds[REMAT_EAGER]);
    /* logits and their gradient in 16 bits, in place of three times 4 bytes */
    assert_true(seconds[REMAT_COMPILED_LOSS] < seconds[REMAT_COMPILED]);
    assert_true(peak[REMAT_CHUNKED_LOSS] > peak[REMAT_FUSED] &&
                peak[REMAT_CHUNKED_LOSS] < peak[REMAT_COMPILED]);
    assert_true((double)(peak[REMAT_COMPILED] - peak[REMAT_COMPILED_LOSS]) ==
                8.0 * 4096 * 128256 - 2 * 4.0 * 4096);
}

/* Where logits in 16 bits were nothing in float32 goes: it is reserved, beside what is asked. */
static void holes_are_reserved(void **state)
{
    (void)state;
    const remat_device d = plan_device("h100");
    remat_network_settings s = {
        .batch = 1, .sequence = 4096, .layers = 1, .precision = REMAT_BFLOAT16};
    static const double known[REMAT_KERNEL_SETS] = {2.0 * 4096 * 128256, 2.0 * 4096 * 128256};
    for (unsigned k = 0; k < REMAT_KERNEL_SETS; k++) {
        remat_network_graph *graph = NULL;
        s.kernels = (remat_kernels)k;
        assert_int_equal(remat_network_graph_new("llama3-8b", &s, &d, &graph, NULL), REMAT_OK);
        assert_true((double)graph->hole == known[k]);
        remat_network_graph_free(graph);
    }
    const remat_step_table table = {
        .allocated = 1000, .rounding = 10, .hole = 300, .fragmentation = 0.05};
    assert_int_equal(remat_step_memory(&table, 0).reserved, 1050);
    assert_int_equal(remat_step_memory(&table, 600).reserved, 1710); /* a sixth at most */
    assert_int_equal(remat_step_memory(&table, 1800).reserved, 3110);
    assert_int_equal(remat_step_memory(&table, 9000).reserved, 10500); /* of the usual gaps */
    assert_int_equal(remat_step_room(&table, 10500), 9000);
}

/* Autocast: 4 bytes of a weight, 4 of its gradient, 8 of states, 2 of the cached copy; layers keep
 * less than in float32 and more than in 16 bits. */
static void autocast_keeps_both(void **state)
{
    (void)state;
    const remat_tensor tensor = {1024, 4096, 0, 0, REMAT_TRAINED, false};
    remat_step_settings step = {
        .optimizer = REMAT_ADAMW, .precision = REMAT_FLOAT16, .ranks = 1, .autocast = true};
    const remat_step_table t = plan_table_of(&tensor, 1, &step);
    assert_int_equal(t.allocated, 18 * 1024 * 4096 + t.workspace);
    remat_network_settings s = {
        .batch = 2, .sequence = 256, .precision = REMAT_FLOAT16, .eager_attention = true};
    const double narrow = layer_of("bert-base", s, REMAT_WAY_STORE_ALL);
    s.autocast = true;
    const double mixed = layer_of("bert-base", s, REMAT_WAY_STORE_ALL);
    s.autocast = false;
    s.precision = REMAT_FLOAT32;
    assert_true(narrow < mixed && mixed < layer_of("bert-base", s, REMAT_WAY_STORE_ALL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_keep_what_eager_modules_need),
        cmocka_unit_test(gradients_come_as_the_backward_goes),
        cmocka_unit_test(autocast_copies_what_is_multiplied_by),
        cmocka_unit_test(layers_keep_what_kernels_need),
        cmocka_unit_test(windows_by_hand),
        cmocka_unit_test(losses_in_chunks_keep_gradients),
        cmocka_unit_test(holes_are_reserved),
        cmocka_unit_test(autocast_keeps_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
