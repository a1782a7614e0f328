/* Every kind of node by itself. Gradients: along random directions the slope of the loss is the
 * difference of two losses over their distance (central differences, computed from forwards alone).
 * Forwards: against the definition, summed in double; every implementation of it. */
#include "unit/exec_support.h"

enum { DIRECTIONS = 3, DISTANCES = 9 };

/* ---- gradients ---- */

static double loss_at(bench *b, const remat_plan *plan)
{
    remat_error error;
    remat_runner *runner;
    model_begin(&b->model);
    assert_ok(remat_runner_new(plan, &b->model.calls, b->backend.memory, REMAT_EXEC_GUARD, &runner,
                               &error),
              error);
    assert_ok(remat_runner_step(runner, &error), error);
    remat_runner_free(runner);
    return *b->model.loss;
}

static float normal(uint64_t seed, size_t i)
{
    double sum = 0;
    for (uint64_t k = 0; k < 4; k++)
        sum += (double)(model_random(seed, 4 * i + k) >> 11) * 0x1p-53 - 0.5;
    return (float)(sum * sqrt(3.0));
}

/* Of one parameter along one direction; the generator of dropout starts anew for each loss. */
static double difference(bench *b, const remat_plan *plan, const net_parameter *p, uint64_t seed,
                         float distance)
{
    double losses[2];
    uint64_t zero = 0;
    float *kept = malloc(p->count * sizeof *kept), *w = b->model.weights + p->offset;
    memcpy(kept, w, p->count * sizeof *w);
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < p->count; i++)
            w[i] = kept[i] + (side ? distance : -distance) * normal(seed, i);
        if (b->net.generator != NET_NONE)
            memcpy((uint8_t *)b->model.states[b->net.generator] + 8, &zero, 8);
        losses[side] = loss_at(b, plan);
    }
    memcpy(w, kept, p->count * sizeof *w);
    free(kept);
    return (losses[1] - losses[0]) / (2 * (double)distance);
}

/* The mean over some distances: a loss is rounded to 2e-7, which over 2e-3 is a fifth of the
 * tolerance, and several roundings may fall the same way, by the BLAS that is there; over twice the
 * distance the third derivative is as large as that. */
static double mean_difference(bench *b, const remat_plan *plan, const net_parameter *p,
                              uint64_t seed)
{
    double sum = 0;
    for (int k = 0; k < DISTANCES; k++)
        sum += difference(b, plan, p, seed, 8e-4f + 5e-5f * (float)(k - DISTANCES / 2));
    return sum / DISTANCES;
}

static double slope(const bench *b, const float *slopes, const net_parameter *p, uint64_t seed)
{
    double sum = 0;
    for (size_t i = 0; i < p->count; i++)
        for (uint32_t lane = 0; lane < p->lanes; lane++)
            sum += (double)slopes[p->slope + lane * p->count + i] * (double)normal(seed, i);
    (void)b;
    return sum;
}

/* Every parameter of the network. They are moved first, so that none is at a special place. */
static void check_gradients(bench *b)
{
    remat_error error;
    remat_plan plan;
    assert_ok(remat_plan_solve(b->profile, "store-all", 2 * b->peak, NULL, 256, &plan, &error),
              error);
    assert_ok(model_reset(&b->model, 3, &error), error);
    model_fill(&b->model, NULL, 5, 0);
    size_t number = 0;
    for (uint32_t i = 0; i < b->net.n_parameters; i++)
        for (size_t j = 0; j < b->net.parameters[i].count; j++)
            b->model.weights[b->net.parameters[i].offset + j] += 0.1f * normal(11, number++);
    (void)loss_at(b, &plan);
    float *slopes = malloc(b->net.slopes * sizeof *slopes);
    memcpy(slopes, b->model.slopes, b->net.slopes * sizeof *slopes);
    for (uint32_t i = 0; i < b->net.n_parameters; i++)
        for (uint64_t k = 0; k < DIRECTIONS; k++) {
            const net_parameter *p = &b->net.parameters[i];
            double exact = slope(b, slopes, p, 100 * i + k);
            double measured = mean_difference(b, &plan, p, 100 * i + k);
            /* rounding of the two losses, and the third derivative */
            if (fabs(exact - measured) > 4e-4 + 0.02 * fabs(exact))
                fail_msg("%s: parameter %u: slope %g, by differences %g", b->net.name, i, exact,
                         measured);
        }
    free(slopes);
    remat_plan_clear(&plan);
}

/* A network that ends in classes, or as it says itself. */
static void check_network(void (*build)(net_graph *net), const char *implementation)
{
    remat_error error;
    bench b;
    net_begin(&b.net, "operator");
    build(&b.net);
    assert_ok(net_finish(&b.net, &error), error);
    bench_open(&b, implementation);
    check_gradients(&b);
    bench_close(&b);
}

static net_tensor start(net_graph *net, uint32_t channels)
{
    net_tensor x = net_image(net, "image", 4, 2, 9, 9);
    return net_conv(net, x, channels, 1, 1, 0, 1, true);
}

static void end(net_graph *net, net_tensor x)
{
    net_cross_entropy(net, net_linear(net, x, 5, true), net_ids(net, "label", x.n, 5));
}

static void build_conv(net_graph *net)
{
    net_tensor x = start(net, 4);
    net_tensor y = net_conv(net, x, 6, 3, 2, 1, 2, true);  /* groups, stride */
    net_tensor z = net_conv(net, x, 4, 3, 1, 1, 1, false); /* in place; x is shared */
    z = net_conv(net, net_slice(net, z, 1, 2), 6, 5, 2, 2, 1, true);
    end(net, net_add(net, y, z, false));
}

static void build_wide(net_graph *net)
{
    net_tensor x = net_image(net, "image", 2, 2, 24, 24);
    x = net_conv(net, x, 3, 1, 1, 0, 1, true);
    x = net_conv(net, x, 3, 3, 1, 1, 1, true);
    net_tensor y = net_conv(net, x, 3, 5, 1, 2, 3, true);
    end(net, net_average_pool(net, net_add(net, x, y, false), 4, 4));
}

static void build_up_conv(net_graph *net)
{
    net_tensor x = start(net, 3);
    net_tensor y = net_up_conv(net, x, 2, 2, 2), z = net_up_conv(net, x, 2, 3, 2);
    y = net_average_pool(net, y, 3, 3);
    z = net_average_pool(net, z, 3, 3);
    end(net, net_add(net, y, z, false));
}

static void build_norms(net_graph *net)
{
    net_tensor x = net_batch_norm(net, start(net, 4), true);
    x = net_add(net, net_batch_norm(net, x, false), x, true);
    end(net, net_batch_norm(net, x, false));
}

static void build_pools(net_graph *net)
{
    net_tensor x = start(net, 4);
    net_tensor y = net_max_pool(net, x, 3, 2, 1), z = net_average_pool(net, x, 3, 2);
    y = net_relu(net, net_conv(net, y, 4, 2, 1, 0, 1, true));
    end(net, net_add(net, y, z, false));
}

static void build_concat(net_graph *net)
{
    net_tensor x = start(net, 6), y = net_gelu(net, x);
    net_tensor z = net_conv(net, net_slice(net, y, 4, 2), 3, 3, 1, 1, 1, true);
    net_tensor parts[] = {net_slice(net, y, 0, 4), z, x};
    end(net, net_concat(net, parts, 3));
}

static void build_transformer(net_graph *net)
{
    net_tensor x = net_embedding(net, net_ids(net, "tokens", 2 * 6, 20), 8, 6);
    x = network_blocks(net, x, 1, 2, 6, true);
    x = net_add(net, net_attention(net, net_linear(net, x, 24, true), 2, 6, false), x, false);
    net_cross_entropy(net, net_linear(net, x, 20, false), net_ids(net, "next", 12, 20));
}

static void build_lstm(net_graph *net)
{
    net_tensor ids = net_ids(net, "tokens", 5 * 3, 30), x = {.value = NET_NONE};
    uint32_t mark = net_mark(net);
    for (uint32_t t = 0; t < 5; t++) {
        net_reuse(net, mark, 0);
        x = net_lstm(net, x, ids, 6, 3, t);
    }
    x = net_linear(net, net_slice(net, x, 0, 6), 30, true);
    net_cross_entropy(net, x, net_ids(net, "following", 3, 30));
}

static void build_triplet(net_graph *net)
{
    static const char *const names[] = {"anchor", "positive", "negative"};
    net_tensor ends[3];
    for (uint32_t i = 0; i < 3; i++) {
        net_reuse(net, 0, i);
        ends[i] = net_linear(net, net_image(net, names[i], 4, 1, 4, 4), 3, true);
    }
    net_triplet(net, ends[0], ends[1], ends[2], 5.0f);
}

static void build_contrastive(net_graph *net)
{
    net_tensor a = net_linear(net, net_image(net, "image", 4, 1, 4, 4), 5, true);
    net_tensor b = net_embedding(net, net_ids(net, "caption", 4 * 3, 40), 4, 3);
    net_contrastive(net, a, net_linear(net, net_rows(net, b, 4), 5, true), 0.3f);
}

static void build_mask(net_graph *net)
{
    net_tensor x = net_conv(net, start(net, 3), 4, 1, 1, 0, 1, true);
    net_cross_entropy(net, x, net_ids(net, "mask", 4 * 81, 4));
}

#define GRADIENT(name)                                                                             \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        check_network(build_##name, NULL);                                                         \
    }

GRADIENT(up_conv)
GRADIENT(norms)
GRADIENT(pools)
GRADIENT(concat)
GRADIENT(transformer)
GRADIENT(lstm)
GRADIENT(triplet)
GRADIENT(contrastive)
GRADIENT(mask)

static void test_conv(void **state)
{
    (void)state;
    check_network(build_conv, NULL);
    check_network(build_conv, "im2col-batch");
    check_network(build_wide, NULL);
    check_network(build_wide, "im2col-rows");
}

/* ---- forwards, by definition ---- */

typedef struct numbers {
    float *x, *w, *bias, *y;
} numbers;

static double conv_by_definition(const net_node *node, const numbers *n, uint32_t image, uint32_t m,
                                 uint32_t row, uint32_t column)
{
    const net_tensor x = node->inputs[0];
    const uint32_t k = node->kernel, in = x.c / node->groups, out = node->output.c / node->groups;
    double sum = node->bias ? (double)n->bias[m] : 0;
    for (uint32_t c = 0; c < in; c++)
        for (uint32_t ky = 0; ky < k; ky++)
            for (uint32_t kx = 0; kx < k; kx++) {
                int64_t i = (int64_t)row * node->stride + ky - node->padding;
                int64_t j = (int64_t)column * node->stride + kx - node->padding;
                if (i < 0 || j < 0 || i >= x.h || j >= x.w)
                    continue;
                uint64_t channel = x.from + m / out * in + c;
                sum +=
                    (double)
                        n->x[((image * x.of + channel) * x.h + (uint64_t)i) * x.w + (uint64_t)j] *
                    (double)n->w[((m * in + c) * k + ky) * k + kx];
            }
    return sum;
}

static float *random_numbers(size_t n, uint64_t seed)
{
    float *x = malloc((n + 1) * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = normal(seed, i);
    return x;
}

static void check_conv(const net_node *node, const kernel *conv, uint32_t alternative)
{
    const net_tensor x = node->inputs[0], y = node->output;
    const size_t inner = (size_t)x.c / node->groups * node->kernel * node->kernel;
    numbers n = {random_numbers((size_t)x.n * x.of * x.h * x.w, 1), random_numbers(y.c * inner, 2),
                 random_numbers(y.c, 3), random_numbers(net_numbers(y), 4)};
    const void *inputs[] = {n.x};
    const kernel_call call = {.node = node,
                              .alternative = alternative,
                              .inputs = inputs,
                              .output = n.y,
                              .weights = {n.w, n.bias},
                              .workspace =
                                  malloc(conv->cost(node, alternative).forward_workspace + 1)};
    assert_int_equal(conv->forward(&call), 0);
    size_t at = 0;
    for (uint32_t image = 0; image < y.n; image++)
        for (uint32_t m = 0; m < y.c; m++)
            for (uint32_t row = 0; row < y.h; row++)
                for (uint32_t column = 0; column < y.w; column++)
                    assert_true(fabs((double)n.y[at++] -
                                     conv_by_definition(node, &n, image, m, row, column)) < 1e-4);
    free(call.workspace);
    free(n.x);
    free(n.w);
    free(n.bias);
    free(n.y);
}

static void test_conv_forward(void **state)
{
    static const uint32_t shapes[][6] = {
        /* channels, size, kernel, stride, padding, groups */
        {4, 7, 3, 1, 1, 1},  {4, 8, 3, 2, 1, 2}, {3, 24, 5, 1, 2, 1}, {4, 40, 3, 1, 1, 4},
        {2, 23, 7, 2, 3, 1}, {6, 5, 1, 1, 0, 1}, {6, 5, 1, 2, 0, 2},  {2, 6, 5, 1, 4, 1}};
    kernel_backend backend;
    remat_error error;
    size_t checked = 0;
    (void)state;
    assert_ok(backend_find("cpu", 1, &backend, &error), error);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const uint32_t *s = shapes[i];
        net_graph net;
        net_begin(&net, "conv");
        net_tensor x = net_image(&net, "image", 3, s[0] + 2, s[1], s[1]);
        net_conv(&net, net_slice(&net, x, 1, s[0]), 8, s[2], s[3], s[4], s[5], i % 2 == 0);
        const kernel *conv = backend.kernels[NET_CONV];
        for (uint32_t a = 0; a < model_implementations(&backend, &net.nodes[0]); a++, checked++)
            check_conv(&net.nodes[0], conv, a);
        net_clear(&net);
    }
    assert_true(checked > sizeof shapes / sizeof *shapes);
}

/* ---- what a network may not be ---- */

static void test_refused(void **state)
{
    net_graph net;
    remat_error error;
    (void)state;
    net_begin(&net, "sums in any order");
    net_tensor x = start(&net, 4);
    net_tensor a = net_gelu(&net, x), b = net_gelu(&net, x), c = net_gelu(&net, x);
    end(&net, net_concat(&net, (const net_tensor[]){a, b, c}, 3));
    assert_int_equal(net_finish(&net, &error), REMAT_INVALID);
    assert_non_null(strstr(error.message, "in any order"));
    net_begin(&net, "no loss");
    start(&net, 4);
    assert_int_equal(net_finish(&net, &error), REMAT_INVALID);
    const network_settings tiny = {.image = 1}, many = {.batch = UINT32_MAX};
    assert_int_equal(network_build("vgg19", &tiny, &net, &error), REMAT_INVALID);
    assert_int_equal(network_build("vgg19", &many, &net, &error), REMAT_INVALID);
    assert_string_equal(error.field, "batch");
    const network_settings long_rows = {.batch = 1u << 20, .time = 1u << 16};
    assert_int_equal(network_build("gpt", &long_rows, &net, &error), REMAT_TOO_LARGE);
    const network_settings parts = {.batch = 4, .parts = 5}, no_parts = {.parts = 2};
    assert_int_equal(network_build("vgg19", &parts, &net, &error), REMAT_INVALID);
    assert_string_equal(error.message, "parts is 5; at most 4");
    assert_int_equal(network_build("resnet18", &no_parts, &net, &error), REMAT_INVALID);
    assert_string_equal(error.field, "parts");
    net_begin(&net, "parts of two shapes");
    net_tensor whole = net_image_part(&net, 0, 0, 2, 3, 4);
    end(&net, net_stack(&net, (const net_tensor[]){whole, net_image_part(&net, 1, 2, 2, 3, 5)}, 2));
    assert_int_equal(net_finish(&net, &error), REMAT_INVALID);
    assert_string_equal(error.message, "part 1 of a batch has another shape than the first");
    assert_int_equal(network_build("vgg20", &many, &net, &error), REMAT_NOT_FOUND);
    kernel_backend backend;
    assert_int_equal(backend_find("abacus", 1, &backend, &error), REMAT_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv),         cmocka_unit_test(test_up_conv),
        cmocka_unit_test(test_norms),        cmocka_unit_test(test_pools),
        cmocka_unit_test(test_concat),       cmocka_unit_test(test_transformer),
        cmocka_unit_test(test_lstm),         cmocka_unit_test(test_triplet),
        cmocka_unit_test(test_contrastive),  cmocka_unit_test(test_mask),
        cmocka_unit_test(test_conv_forward), cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("exec-operators", tests, NULL, NULL);
}
