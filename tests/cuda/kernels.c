/* Every kernel of the CUDA backend, on the emulated device or a real one, beside that of the CPU:
 * the same numbers within rounding. And against itself, to the last bit: again, in place, without
 * saving, without wanting gradients of inputs, under other orders of threads; a share that is added
 * is the share that is written, added with one rounding. */
#include "kernels.h"
#include "trial.h"

#ifdef REMAT_CUDA_EMULATED
#include "emulated.h"
#endif

/* ---- one node, every way ---- */

#ifdef REMAT_CUDA_EMULATED

static void open_device(trial *t, uint64_t seed)
{
    remat_error error;
    emulated_start(&(emulated_settings){.memory = UINT64_C(4) << 30, .seed = seed, .devices = 1});
    assert_int_equal(cuda_backend(&t->cuda, &error), REMAT_OK);
}

static void close_device(trial *t)
{
    t->cuda.close();
    assert_int_equal(emulated_left(), 0);
}

#else

/* A device has no seed and takes long to open: it stays open. */
static void open_device(trial *t, uint64_t seed)
{
    static kernel_backend open;
    remat_error error;
    (void)seed;
    if (!open.name && cuda_backend(&open, &error))
        fail_msg("%s", error.message);
    t->cuda = open;
}

static void close_device(trial *t)
{
    (void)t;
}

#endif

/* Transforms of tiles round several times more than direct sums (Lavin, Gray 2016); twenty times is
 * allowed. Of a norm of rows of one number nothing is left, times 1 / sqrt(epsilon), but what a
 * fused multiply and add rounds. The emulation sums directly under every name, and fuses nothing.
 */
static double coarseness(const trial *t, uint32_t alternative)
{
#ifdef REMAT_CUDA_EMULATED
    (void)t;
    (void)alternative;
    return 1;
#else
    if (t->node->kind == NET_LAYER_NORM && t->node->inputs[0].c == 1)
        return 1 / sqrt(CUDA_NORM_EPSILON);
    const char *name = t->cuda.kernels[t->node->kind]->implementation(t->node, alternative);
    return strcmp(name, "winograd_nonfused") == 0 || strcmp(name, "fft_tiling") == 0 ? 20 : 1;
#endif
}

static void compare_run(const trial *t, const char *what, manner how, const made *wanted)
{
    made r = run(t, how);
    compare_bits(t, what, &r, wanted);
    forget(&r);
}

static void set_summed(const trial *t, bool summed)
{
    for (uint32_t k = 0; k < t->node->n_inputs; k++)
        t->node->summed[k] = summed;
}

static void check_added(const trial *t, manner how)
{
    set_summed(t, true);
    made written = run(t, how);
    how.accumulate = true;
    made added = run(t, how);
    compare_added(t, &added, &written);
    forget(&written);
    forget(&added);
    set_summed(t, false);
}

static void check_alternative(trial *t, uint32_t alternative, const made *wanted)
{
    const manner how = {.device = true, .alternative = alternative};
    open_device(t, 1 + alternative);
    t->coarse = coarseness(t, alternative);
    made r = run(t, how);
    compare_sides(t, &r, wanted);
    compare_run(t, "again", how, &r);
    compare_run(t, "not saving",
                (manner){.device = true, .alternative = alternative, .forward_only = true}, &r);
    compare_run(t, "not wanting gradients",
                (manner){.device = true, .alternative = alternative, .unwanted = true}, &r);
    if (net_in_place(t->node))
        compare_run(t, "in place",
                    (manner){.device = true, .alternative = alternative, .in_place = true}, &r);
    check_added(t, how);
    close_device(t);
    open_device(t, 1000 + alternative);
    compare_run(t, "in another order", how, &r);
    close_device(t);
    forget(&r);
}

/* Returns how many implementations there were. */
static uint32_t check(void (*build)(net_graph *net, const uint32_t *s), const uint32_t *s,
                      float offset)
{
    trial t = {.offset = offset};
    uint32_t n = 0;
    net_begin(&t.net, "one node");
    build(&t.net, s);
    if (t.net.error.status)
        fail_msg("%s", t.net.error.message);
    t.node = &t.net.nodes[t.net.n_nodes - 1];
    assert_int_equal(cpu_backend(1, &t.cpu, NULL), REMAT_OK);
    made wanted = run(&t, (manner){0});
    do {
        check_alternative(&t, n++, &wanted);
        open_device(&t, 1);
        if (!t.cuda.kernels[t.node->kind]->implementation(t.node, n)) {
            close_device(&t);
            break;
        }
        close_device(&t);
    } while (true);
    forget(&wanted);
    net_clear(&t.net);
    return n;
}

#define CHECK(build, ...)                                                                          \
    do {                                                                                           \
        static const uint32_t shapes[][12] = {__VA_ARGS__};                                        \
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)                                \
            (void)check(build, shapes[i], 0);                                                      \
    } while (0)

/* ---- convolutions ---- */

static net_tensor part(net_graph *net, uint32_t n, uint32_t of, uint32_t from, uint32_t c,
                       uint32_t size)
{
    return net_slice(net, net_image(net, "x", n, of, size, size), from, c);
}

/* images, channels in memory, from, channels, size, out, kernel, stride, padding, groups, bias */
static void build_conv(net_graph *net, const uint32_t *s)
{
    net_conv(net, part(net, s[0], s[1], s[2], s[3], s[4]), s[5], s[6], s[7], s[8], s[9],
             s[10] != 0);
}

static void test_conv(void **state)
{
    (void)state;
    CHECK(build_conv, {3, 4, 0, 4, 7, 6, 3, 1, 1, 1, 1}, /* */
          {2, 6, 1, 4, 9, 6, 3, 2, 1, 2, 1},             /* groups of a part */
          {4, 4, 0, 4, 8, 4, 3, 1, 1, 1, 0},             /* in place */
          {5, 3, 0, 3, 7, 3, 3, 1, 1, 1, 1},             /* in place, odd */
          {6, 16, 0, 16, 16, 16, 3, 1, 1, 1, 1},         /* in place, in pieces */
          {4, 20, 2, 16, 16, 4, 3, 1, 1, 1, 1},          /* of a part, in pieces */
          {2, 8, 0, 8, 12, 8, 3, 1, 1, 8, 0},            /* one channel a group */
          {3, 5, 0, 5, 6, 7, 1, 1, 0, 1, 1}, {3, 5, 2, 3, 6, 7, 1, 2, 0, 1, 0},
          {2, 3, 0, 3, 23, 2, 7, 2, 3, 1, 1}, {1, 1, 0, 1, 5, 1, 3, 1, 1, 1, 1},
          {2, 2, 0, 2, 70, 3, 1, 1, 0, 1, 1} /* several chunks of a channel */);
}

static void test_conv_alternatives(void **state)
{
    static const uint32_t all[] = {2, 3, 0, 3, 9, 4, 3, 1, 1, 1, 1};
    static const uint32_t strided[] = {2, 3, 0, 3, 9, 4, 3, 2, 1, 1, 1};
    (void)state;
    const uint32_t n_all = check(build_conv, all, 0), n_strided = check(build_conv, strided, 0);
#ifdef REMAT_CUDA_EMULATED
    assert_int_equal(n_all, 4);
    assert_int_equal(n_strided, 2);
#else
    assert_true(n_all > 1 && n_strided > 0);
#endif
}

/* images, channels, size, out, kernel, stride */
static void build_up_conv(net_graph *net, const uint32_t *s)
{
    net_up_conv(net, net_image(net, "x", s[0], s[1], s[2], s[2]), s[3], s[4], s[5]);
}

static void test_up_conv(void **state)
{
    (void)state;
    CHECK(build_up_conv, {2, 3, 5, 4, 2, 2}, {3, 4, 4, 3, 3, 2}, {6, 16, 16, 4, 2, 2},
          {1, 1, 1, 1, 3, 1});
}

/* ---- products ---- */

/* rows, channels in memory, from, channels, size, out, bias */
static void build_linear(net_graph *net, const uint32_t *s)
{
    net_linear(net, part(net, s[0], s[1], s[2], s[3], s[4]), s[5], s[6] != 0);
}

static void test_linear(void **state)
{
    (void)state;
    CHECK(build_linear, {5, 7, 0, 7, 1, 3, 1}, {4, 3, 1, 2, 3, 5, 1},
          {300, 40, 0, 40, 1, 64, 0} /* shares in pieces */, {200, 50, 3, 41, 1, 10, 1},
          {70000, 3, 0, 3, 1, 2, 1}, {3, 600, 0, 600, 1, 700, 1}, {1, 1, 0, 1, 1, 1, 1});
}

/* sequences, time, heads, columns of a head, causal */
static void build_attention(net_graph *net, const uint32_t *s)
{
    net_tensor x = net_image(net, "x", s[0] * s[1], 3 * s[2] * s[3], 1, 1);
    net_attention(net, x, s[2], s[1], s[4] != 0);
}

static void test_attention(void **state)
{
    (void)state;
    CHECK(build_attention, {2, 6, 2, 4, 1}, {3, 33, 4, 5, 0}, {2, 8, 3, 4, 1}, {2, 1, 1, 1, 1},
          {9, 20, 2, 7, 1},  /* some sequences at a time */
          {3, 30, 6, 4, 1},  /* some heads at a time */
          {2, 100, 3, 8, 0}, /* one head at a time */
          {1, 300, 1, 3, 1} /* rows longer than a block */);
}

/* rows, range of the ids, width, time */
static void build_embedding(net_graph *net, const uint32_t *s)
{
    net_embedding(net, net_ids(net, "ids", s[0], s[1]), s[2], s[3]);
}

static void test_embedding(void **state)
{
    (void)state;
    CHECK(build_embedding, {12, 20, 8, 6}, {301, 5, 300, 7}, {40, 100, 257, 10}, {3, 2, 1, 5},
          {1500, 3, 2, 20});
}

/* batch, width, range of the ids, step */
static void build_lstm(net_graph *net, const uint32_t *s)
{
    net_tensor x = {.value = NET_NONE};
    if (s[3] > 0)
        x = net_image(net, "x", s[0], 2 * s[1], 1, 1);
    net_lstm(net, x, net_ids(net, "ids", (s[3] + 2) * s[0], s[2]), s[1], s[0], s[3]);
}

static void test_lstm(void **state)
{
    (void)state;
    CHECK(build_lstm, {3, 6, 30, 0}, {3, 6, 30, 2}, {300, 5, 4, 1}, {70, 33, 10, 3}, {1, 1, 1, 1});
}

/* ---- normalisation ---- */

/* images, channels, size, rectifier */
static void build_batch_norm(net_graph *net, const uint32_t *s)
{
    net_batch_norm(net, net_image(net, "x", s[0], s[1], s[2], s[2]), s[3] != 0);
}

static void test_batch_norm(void **state)
{
    (void)state;
    CHECK(build_batch_norm, {4, 3, 5, 1}, {4, 3, 5, 0}, {2, 2, 1, 0},
          {5, 7, 45, 1},   /* several chunks */
          {2, 300, 3, 1},  /* */
          {4200, 2, 1, 1}, /* planes of one pixel */
          {2, 2100, 1, 0} /* more channels than blocks are aimed at */);
}

/* Moments of numbers far from 0: a mean of squares less the square of the mean would be off by more
 * than 1e-3. */
static void test_batch_norm_far(void **state)
{
    static const uint32_t odd[] = {5, 3, 45, 0}, even[] = {5, 3, 44, 1};
    (void)state;
    (void)check(build_batch_norm, odd, 300);
    (void)check(build_batch_norm, even, 300);
}

/* rows, columns */
static void build_layer_norm(net_graph *net, const uint32_t *s)
{
    net_layer_norm(net, net_image(net, "x", s[0], s[1], 1, 1));
}

static void test_layer_norm(void **state)
{
    (void)state;
    CHECK(build_layer_norm, {5, 7}, {700, 30}, {3, 1000}, {2, 1}, {4200, 2});
}

/* ---- number by number, windows ---- */

/* images, channels, size, then what the node asks for */
static net_tensor image(net_graph *net, const uint32_t *s, const char *id)
{
    return net_image(net, id, s[0], s[1], s[2], s[2]);
}

static void build_relu(net_graph *net, const uint32_t *s)
{
    net_relu(net, image(net, s, "x"));
}

static void build_gelu(net_graph *net, const uint32_t *s)
{
    net_gelu(net, image(net, s, "x"));
}

static void build_dropout(net_graph *net, const uint32_t *s)
{
    net_dropout(net, image(net, s, "x"), (float)s[3] / 100);
}

static void build_add(net_graph *net, const uint32_t *s)
{
    net_add(net, image(net, s, "a"), image(net, s, "b"), s[3] != 0);
}

/* The last goes past one round of all blocks. */
static void test_elementwise(void **state)
{
    (void)state;
    CHECK(build_relu, {1, 1, 1}, {3, 5, 3}, {2, 64, 33}, {47, 91, 32});
    CHECK(build_gelu, {1, 1, 1}, {3, 5, 3}, {2, 64, 33});
    CHECK(build_dropout, {1, 1, 1, 50}, {3, 5, 3, 10}, {2, 64, 33, 40});
    CHECK(build_add, {1, 1, 1, 0}, {3, 5, 3, 1}, {2, 64, 33, 0}, {23, 93, 32, 1});
}

static void build_max_pool(net_graph *net, const uint32_t *s)
{
    net_max_pool(net, image(net, s, "x"), s[3], s[4], s[5]);
}

static void build_average_pool(net_graph *net, const uint32_t *s)
{
    net_average_pool(net, image(net, s, "x"), s[3], s[4]);
}

static void test_pools(void **state)
{
    (void)state;
    CHECK(build_max_pool, {2, 3, 7, 3, 2, 1}, {1, 2, 8, 2, 2, 0}, {1, 1, 5, 3, 1, 1},
          {2, 2, 20, 16, 4, 8}, {1, 3, 8, 2, 3, 0}, {20, 31, 30, 3, 2, 1});
    CHECK(build_average_pool, {2, 3, 7, 3, 2}, {3, 4, 6, 6, 1}, {1, 1, 9, 2, 3});
}

/* images, size, then channels in memory, from and channels of three parts */
static void build_concat(net_graph *net, const uint32_t *s)
{
    net_tensor parts[3];
    for (uint32_t k = 0; k < 3; k++)
        parts[k] = part(net, s[0], s[2 + 3 * k], s[3 + 3 * k], s[4 + 3 * k], s[1]);
    net_concat(net, parts, 3);
}

/* images, channels, size; more parts than one launch takes */
static void build_many(net_graph *net, const uint32_t *s)
{
    net_tensor parts[CUDA_PARTS + 5];
    for (uint32_t k = 0; k < CUDA_PARTS + 5; k++)
        parts[k] = part(net, s[0], s[1] + k % 3, k % 3 / 2, s[1], s[2]);
    net_concat(net, parts, CUDA_PARTS + 5);
}

static void test_concat(void **state)
{
    (void)state;
    CHECK(build_concat, {3, 5, 4, 0, 4, 6, 2, 3, 1, 0, 1}, {1, 1, 1, 0, 1, 2, 1, 1, 300, 20, 260});
    CHECK(build_many, {2, 3, 4});
}

/* ---- losses ---- */

/* images, classes, size */
static void build_cross_entropy(net_graph *net, const uint32_t *s)
{
    net_cross_entropy(net, image(net, s, "x"), net_ids(net, "label", s[0] * s[2] * s[2], s[1]));
}

/* rows, columns, tenths of margin or temperature */
static void build_triplet(net_graph *net, const uint32_t *s)
{
    net_tensor a = net_image(net, "a", s[0], s[1], 1, 1), p = net_image(net, "p", s[0], s[1], 1, 1);
    net_triplet(net, a, p, net_image(net, "n", s[0], s[1], 1, 1), (float)s[2] / 10);
}

static void build_contrastive(net_graph *net, const uint32_t *s)
{
    net_tensor a = net_image(net, "a", s[0], s[1], 1, 1);
    net_contrastive(net, a, net_image(net, "b", s[0], s[1], 1, 1), (float)s[2] / 10);
}

static void test_losses(void **state)
{
    (void)state;
    CHECK(build_cross_entropy, {5, 10, 1}, {2, 4, 9}, {3, 1000, 1}, {1, 1, 1}, {1100, 3, 1},
          {2, 3, 515});
    CHECK(build_triplet, {4, 3, 10}, {1100, 5, 1}, {2, 300, 50}, {1, 1, 1});
    CHECK(build_contrastive, {4, 5, 3}, {300, 7, 10}, {1, 3, 1}, {20, 300, 1});
}

/* ---- the update ---- */

static void test_update(void **state)
{
    enum { COUNT = 530001, LANES = 3 };
    const size_t bytes = COUNT * sizeof(float);
    trial t = {.coarse = 1};
    (void)state;
    assert_int_equal(cpu_backend(1, &t.cpu, NULL), REMAT_OK);
    open_device(&t, 3);
    memory m = {.device = true};
    float *w = numbers(COUNT, 1), *v = numbers(COUNT, 2), *slopes = numbers(COUNT * LANES, 3);
    float *weights = take(&m, w, bytes), *velocity = take(&m, v, bytes);
    const float *own = take(&m, slopes, LANES * bytes);
    assert_int_equal(t.cpu.update(w, v, slopes, COUNT, LANES, 0.1f, 0.9f), 0);
    assert_int_equal(cudaDeviceSynchronize(), 0);
    assert_int_equal(t.cuda.update(weights, velocity, own, COUNT, LANES, 0.1f, 0.9f), 0);
    assert_int_equal(cudaDeviceSynchronize(), 0);
    uint8_t *got_w = fetch(&m, weights, bytes), *got_v = fetch(&m, velocity, bytes);
    net_node node = {.id = "update"};
    t.node = &node;
    near(&t, "weights", got_w, (const uint8_t *)w, bytes, 1);
    near(&t, "velocity", got_v, (const uint8_t *)v, bytes, 1);
    give_back(&m);
    close_device(&t);
    free(w);
    free(v);
    free(slopes);
    free(got_w);
    free(got_v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv),           cmocka_unit_test(test_conv_alternatives),
        cmocka_unit_test(test_up_conv),        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_attention),      cmocka_unit_test(test_embedding),
        cmocka_unit_test(test_lstm),           cmocka_unit_test(test_batch_norm),
        cmocka_unit_test(test_batch_norm_far), cmocka_unit_test(test_layer_norm),
        cmocka_unit_test(test_elementwise),    cmocka_unit_test(test_pools),
        cmocka_unit_test(test_concat),         cmocka_unit_test(test_losses),
        cmocka_unit_test(test_update),
    };
    return cmocka_run_group_tests_name("cuda-kernels", tests, NULL, NULL);
}
