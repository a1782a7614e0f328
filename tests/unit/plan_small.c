/* Plans: published counts, tables of a step, the roofline, requests. */
#include "unit/plan_support.h"

#include <math.h>

/* ---- counts ---- */

/* Papers and model cards; ResNets, ViT-B/32, -L/16: torchvision.models; ViT-S/16: timm; MPT: of
 * mpt-7b 6,649,286,656 without positions, of 50,432 words, here 50,368 and 2,048; U-Net: by
 * hand, convolutions without bias, a scale and a shift of each channel; Gemma: keras-hub; DeepSeek,
 * published as 15.7 and 671 billion: by hand, without the biases of V3's routers; DiT, published as
 * 33, 130, 458 and 675 million: by hand. */
static void parameters_are_the_published_counts(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t parameters;
    } published[] = {{"gpt2", 124439808},
                     {"gpt2-medium", 354823168},
                     {"gpt2-large", 774030080},
                     {"gpt2-xl", 1557611200},
                     {"llama2-7b", 6738415616},
                     {"llama2-13b", 13015864320},
                     {"llama2-70b", 68976648192},
                     {"llama3-8b", 8030261248},
                     {"llama3-70b", 70553706496},
                     {"llama3.2-1b", 1235814400},
                     {"tinyllama-1.1b", 1100048384},
                     {"bert-base", 109482240},
                     {"bert-large", 335141888},
                     {"vit-s16", 22050664},
                     {"vit-b16", 86567656},
                     {"vit-b32", 88224232},
                     {"vit-l16", 304326632},
                     {"vit-h14", 632045800},
                     {"resnet18", 11689512},
                     {"resnet34", 21797672},
                     {"resnet50", 25557032},
                     {"resnet101", 44549160},
                     {"resnet152", 60192808},
                     {"unet", 31037698},
                     {"llama3.2-3b", 3212749824},
                     {"mistral-7b", 7241732096},
                     {"mpt-125m", 125209344},
                     {"mpt-350m", 355714048},
                     {"mpt-760m", 760063488},
                     {"mpt-1b", 1315407872},
                     {"mpt-3b", 2650933760},
                     {"mpt-7b", 6657413120},
                     {"mpt-13b", 12851696640},
                     {"mpt-30b", 29971422208},
                     {"mpt-70b", 64855220224},
                     {"bloom-7b1", 7069016064},
                     {"llama3.1-8b", 8030261248},
                     {"llama3.1-70b", 70553706496},
                     {"llama3.1-405b", 405853388800},
                     {"qwen2.5-0.5b", 494032768},
                     {"qwen2.5-1.5b", 1543714304},
                     {"qwen2.5-3b", 3085938688},
                     {"qwen2.5-7b", 7615616512},
                     {"qwen2.5-14b", 14770033664},
                     {"qwen2.5-32b", 32763876352},
                     {"qwen2.5-72b", 72706203648},
                     {"qwen3-0.6b", 596049920},
                     {"qwen3-1.7b", 1720574976},
                     {"qwen3-4b", 4022468096},
                     {"qwen3-8b", 8190735360},
                     {"qwen3-14b", 14768307200},
                     {"qwen3-32b", 32762123264},
                     {"qwen3-30b-a3b", 30532122624},
                     {"qwen3-235b-a22b", 235093634560},
                     {"mistral-7b-v0.3", 7248023552},
                     {"mixtral-8x7b", 46702792704},
                     {"mixtral-8x22b", 140630071296},
                     {"phi3-mini", 3821079552},
                     {"gemma-2b", 2506172416},
                     {"gemma-7b", 8537680896},
                     {"gemma2-2b", 2614341888},
                     {"gemma2-9b", 9241705984},
                     {"gemma2-27b", 27227128320},
                     {"gemma3-1b", 999885952},
                     {"gemma3-4b", 3880099328},
                     {"gemma3-12b", 11765788416},
                     {"gemma3-27b", 27009002240},
                     {"dit-s2", 32963360},
                     {"dit-b2", 130512416},
                     {"dit-l2", 458102816},
                     {"dit-xl2", 675129632},
                     {"deepseek-v2-lite", 15706484224},
                     {"deepseek-v3", 671026404352}};
    size_t n;
    const remat_network *models = remat_networks(&n);
    assert_int_equal(n, COUNT(published));
    for (size_t i = 0; i < COUNT(published); i++) {
        const remat_network *model;
        remat_error error;
        uint64_t sum = 0;
        remat_network_graph *graph = plan_network(published[i].name, 1, REMAT_FLOAT32, 0, false);
        for (size_t k = 0; k < graph->n_tensors; k++)
            sum += graph->tensors[k].rows * graph->tensors[k].columns;
        if (graph->parameters != published[i].parameters || sum != published[i].parameters)
            fail_msg("%s has %llu", published[i].name, (unsigned long long)graph->parameters);
        assert_int_equal(remat_network_find(published[i].name, &model, &error), REMAT_OK);
        assert_int_equal(model->parameters, published[i].parameters);
        remat_network_graph_free(graph);
    }
    (void)models;
    remat_network_graph_free(NULL);
}

/* Of each model: weights p or 2 p bytes, states as the specification has them. */
static void states_are_the_published_bytes(void **state)
{
    (void)state;
    static const struct {
        remat_optimizer optimizer;
        uint64_t bytes; /* of a parameter, in float32 */
    } known[] = {{REMAT_SGD, 0}, {REMAT_MOMENTUM, 4}, {REMAT_ADAM, 8}, {REMAT_ADAMW, 8}};
    size_t n;
    const remat_network *models = remat_networks(&n);
    const remat_device d = plan_device("a100-80gb");
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < COUNT(known); k++)
            for (unsigned precision = 0; precision < REMAT_PRECISIONS; precision++) {
                const bool half = precision >= REMAT_BFLOAT16;
                remat_network_graph *graph =
                    plan_network(models[i].name, 1, REMAT_FLOAT32, 0, false);
                const uint64_t p = graph->trained, fixed = models[i].parameters - p;
                assert_true(fixed == 0 || strncmp(models[i].name, "dit", 3) == 0);
                remat_step_settings s = {.optimizer = known[k].optimizer,
                                         .precision = (remat_precision)precision,
                                         .ranks = 1};
                remat_step_table t;
                assert_int_equal(
                    remat_step_bytes(graph->tensors, graph->n_tensors, &s, &d, &t, NULL), REMAT_OK);
                assert_true(t.gradients == (half ? 2 : 4) * p);
                assert_true(t.weights == (half ? 2 : 4) * (p + fixed));
                assert_true(t.master_weights == (half ? 4 * p : 0));
                assert_true(t.states == known[k].bytes * p);
                assert_true(t.buckets == 0 && t.gathered == 0);
                assert_true(t.allocated ==
                            t.weights + t.gradients + t.master_weights + t.states + d.workspace);
                s.no_master = half;
                assert_int_equal(
                    remat_step_bytes(graph->tensors, graph->n_tensors, &s, &d, &t, NULL), REMAT_OK);
                assert_true(t.master_weights == 0);
                assert_true(t.states == known[k].bytes * p / (half ? 2 : 1));
                remat_network_graph_free(graph);
            }
}

/* Adafactor: rows and columns of matrices, all of vectors; 8 bits: a byte for each moment and a
 * float for each 256 of them, but 32 bits below 4096 numbers. */
static void factored_and_8_bit_states_by_hand(void **state)
{
    (void)state;
    const remat_tensor tensors[] = {{100, 300, 0, 0, REMAT_TRAINED, false},
                                    {1, 300, 0, 0, REMAT_TRAINED, false},
                                    {1, 5000, 1, 0, REMAT_TRAINED, false}};
    remat_step_settings s = {.optimizer = REMAT_ADAFACTOR, .ranks = 1};
    assert_int_equal(plan_table_of(tensors, 3, &s).states, 4 * (400 + 300 + 5000));
    s.optimizer = REMAT_ADAM8BIT;
    /* 30000 numbers are 118 blocks, 5000 are 20 */
    assert_int_equal(plan_table_of(tensors, 3, &s).states,
                     2 * (30000 + 4 * 118) + 2 * 4 * 300 + 2 * (5000 + 4 * 20));
}

/* Tensors: 2 MiB blocks up to 1 MiB, 20 MiB below 10 MiB, else steps of 2 MiB. */
static void rounding_by_hand(void **state)
{
    (void)state;
    const remat_tensor tensors[] = {{1, 100, 0, 0, REMAT_TRAINED, false},
                                    {1, 1000000, 0, 0, REMAT_TRAINED, false},
                                    {1, 3000000, 0, 0, REMAT_TRAINED, false}};
    const remat_step_settings s = {.optimizer = REMAT_SGD, .ranks = 1};
    const uint64_t mebibyte = 1 << 20, asked = 2 * 4 * 4000100;
    /* weights and gradients: 400 bytes in one block of 2 MiB; 4,000,000 in one of 20; 12,000,000
     * in 12 MiB each */
    assert_int_equal(plan_table_of(tensors, 3, &s).rounding, (2 + 20 + 2 * 12) * mebibyte - asked);
}

/* Allocated is 1.022 of what is asked, 9,568,256 bytes of cuBLAS among it; reserved 1.12, 1.05
 * where it is compiled, but at least what blocks of the allocator take; the driver shows context
 * and, of several ranks, NCCL beside. */
static void three_numbers_by_hand(void **state)
{
    (void)state;
    const remat_tensor tensor = {1000, 250000,        0,
                                 0,    REMAT_TRAINED, false}; /* with its gradient 2e9 bytes */
    remat_step_settings s = {.optimizer = REMAT_SGD, .ranks = 1};
    remat_step_table t = plan_table_of(&tensor, 1, &s);
    remat_memory m = remat_step_memory(&t, 1000000000);
    assert_int_equal(m.allocated, 3075778758); /* 1.022 of 3,009,568,256 */
    assert_int_equal(m.reserved, 3370716447);
    assert_int_equal(m.driver - m.reserved, 987842478); /* 0.92 GiB */
    s.compiled = true;
    s.parallel = REMAT_DDP;
    s.bucket_view = true;
    s.ranks = 2;
    t = plan_table_of(&tensor, 1, &s);
    m = remat_step_memory(&t, 1000000000);
    assert_int_equal(m.reserved, 3160046669);
    assert_int_equal(m.driver - m.reserved, UINT64_C(987842478) + 1556925644); /* and 1.45 GiB */
    const remat_tensor small = {1, 100, 0, 0, REMAT_TRAINED, false};
    t = plan_table_of(&small, 1, &(remat_step_settings){.optimizer = REMAT_SGD, .ranks = 1});
    assert_int_equal(remat_step_memory(&t, 0).reserved, t.workspace + (2 << 20));
    /* what there is room for fits, a byte more does not */
    for (uint64_t memory = UINT64_C(1) << 30; memory < UINT64_C(1) << 37; memory += memory / 7) {
        const uint64_t room = remat_step_room(&t, memory);
        assert_true(remat_step_memory(&t, room).driver <= memory);
        assert_true(remat_step_memory(&t, room + 1).driver > memory);
    }
    assert_int_equal(remat_step_room(&t, t.context + t.workspace + (2 << 20)), 0);
}

/* No entry has more than drivers were seen to offer, by card: the least of what
 * torch.cuda.get_device_properties showed, or what nvidia-smi did. A plan that fills less is one
 * that can be booked. */
static void memory_is_what_drivers_offer(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double gibibytes;
    } seen[] = {{"a100-40gb", 39.50},
                {"a100-80gb", 79.15},
                {"h100", 79.10},
                {"h100-96gb", 94.99},
                {"h100-nvl", 95830 / 1024.0},
                {"h200", 143771 / 1024.0},
                {"b200", 178.35},
                {"l4", 23034 / 1024.0},
                {"l40s", 46068 / 1024.0},
                {"a10g", 23028 / 1024.0},
                {"a6000", 49140 / 1024.0},
                {"rtx3090", 23.68},
                {"rtx4090", 23.52},
                {"rtx5090", 32607 / 1024.0},
                {"t4", 14.56},
                {"v100-16gb", 16160 / 1024.0},
                {"v100-32gb", 31.75},
                {"mi300x", 206141652992 / 1073741824.0}};
    for (size_t i = 0; i < COUNT(seen); i++) {
        const double has = (double)plan_device(seen[i].name).memory / (1 << 30);
        if (!(has <= seen[i].gibibytes && has > 0.979 * seen[i].gibibytes))
            fail_msg("%s has %.2f GiB", seen[i].name, has);
    }
}

/* Rajbhandari et al. 2020, Figure 1: 2 p + 2 p + 12 p bytes, of which ZeRO-1, -2 and -3 keep 12 p,
 * then 2 p + 12 p, then all by N; DDP all. Ranks divide these sizes. */
static void shards_by_hand(void **state)
{
    (void)state;
    const uint64_t p = 4096000, n = 64;
    const remat_tensor tensors[] = {{1000, 1024, 0, 0, REMAT_TRAINED, false},
                                    {2000, 1024, 1, 0, REMAT_TRAINED, false},
                                    {1000, 1024, 2, 0, REMAT_TRAINED, false}};
    static const uint64_t kept[REMAT_PARALLELS][3] = {
        {0}, {2, 2, 12}, {2, 2, 0}, {2, 0, 0}, {0, 0, 0}};
    for (unsigned k = REMAT_DDP; k < REMAT_PARALLELS; k++) {
        remat_step_settings s = {.optimizer = REMAT_ADAMW,
                                 .precision = REMAT_BFLOAT16,
                                 .parallel = (remat_parallel)k,
                                 .ranks = (uint32_t)n};
        const remat_step_table t = plan_table_of(tensors, 3, &s);
        assert_int_equal(t.weights, kept[k][0] ? 2 * p : 2 * p / n);
        assert_int_equal(t.gradients, kept[k][1] ? 2 * p : 2 * p / n);
        assert_int_equal(t.master_weights + t.states, kept[k][2] ? 12 * p : 12 * p / n);
        assert_int_equal(t.buckets, k <= REMAT_ZERO1 ? 2 * p : 2 * 2048000);
        assert_int_equal(t.gathered, k == REMAT_ZERO3 ? 2 * 2 * 2048000 : 0);
        s.bucket_view = s.no_prefetch = true;
        const remat_step_table less = plan_table_of(tensors, 3, &s);
        assert_int_equal(less.buckets, k <= REMAT_ZERO1 ? 0 : 2 * 2048000);
        assert_int_equal(less.gathered, k == REMAT_ZERO3 ? 2 * 2048000 : 0);
    }
}

/* In the backward the largest gradient is there alone, or its shard; all of them are made and read,
 * and nothing else changes. Where ranks sum whole gradients they are refused. */
static void gradients_of_a_backward_that_updates(void **state)
{
    (void)state;
    const remat_device d = plan_device("a100-80gb");
    const remat_tensor tensors[] = {{1000, 1024, 0, 0, REMAT_TRAINED, false},
                                    {2000, 1024, 1, 0, REMAT_TRAINED, false},
                                    {4000, 1024, 2, 0, REMAT_FROZEN, false}};
    for (unsigned k = 0; k < REMAT_PARALLELS; k++) {
        remat_step_settings s = {.optimizer = REMAT_ADAMW,
                                 .precision = REMAT_BFLOAT16,
                                 .parallel = (remat_parallel)k,
                                 .ranks = k ? 8 : 1};
        remat_step_table t = plan_table_of(tensors, 3, &s), less;
        remat_error error;
        s.in_backward = true;
        if (k != REMAT_SINGLE && k != REMAT_ZERO3) {
            assert_int_equal(remat_step_bytes(tensors, 3, &s, &d, &less, &error), REMAT_INVALID);
            assert_string_equal(error.field, "optimizer_in_backward");
            continue;
        }
        less = plan_table_of(tensors, 3, &s);
        assert_int_equal(t.gradients, 2 * 3072000 / s.ranks);
        assert_int_equal(less.gradients, 2 * 2048000 / s.ranks);
        assert_int_equal(t.allocated - less.allocated, 2 * 1024000 / s.ranks);
        t.gradients = less.gradients;
        t.allocated = less.allocated;
        t.rounding = less.rounding;
        assert_memory_equal(&t, &less, sizeof t);
    }
}

/* ---- the roofline ---- */

static void every_device_is_sound_and_its_times_grow(void **state)
{
    (void)state;
    size_t length, i, n_devices = 0;
    json_t *file = NULL, *one;
    remat_error error;
    const char *text = remat_devices_document(&length);
    assert_int_equal(remat_json_parse(text, length, &file, &error), REMAT_OK);
    json_array_foreach(json_object_get(file, "devices"), i, one)
    {
        const char *name = json_string_value(json_object_get(one, "name"));
        const remat_device d = plan_device(name);
        const json_t *sources = json_object_get(one, "sources");
        const char *member;
        json_t *value;
        json_object_foreach(one, member, value)
        {
            if (json_is_number(value) || strcmp(member, "flops_per_second") == 0)
                assert_true(json_is_string(json_object_get(sources, member)));
        }
        for (unsigned k = 0; k < 2 * REMAT_KERNEL_CLASSES; k++)
            for (unsigned p = 0; p < REMAT_PRECISIONS; p++) {
                double last = 0;
                for (double size = 1; d.rate[p] > 0 && size < 1e16; size *= 1.7) {
                    const remat_kernel kernel = {
                        (remat_kernel_class)(k / 2), (remat_precision)p, k % 2 == 1, size, size, 0};
                    const double seconds = remat_kernel_seconds(&d, &kernel);
                    assert_true(seconds >= last && seconds >= d.launch && isfinite(seconds));
                    last = seconds;
                }
            }
        n_devices++;
    }
    assert_int_equal(n_devices, 19);
    json_decref(file);
}

/* 4e9 operations at half of 1e12 a second; 3e8 bytes at a tenth of 1e10; between points of size 1e6
 * and 1e10 at 0.1 and 0.4 the middle of the logarithms is 1e8 at 0.2. */
static void the_roofline_by_hand(void **state)
{
    (void)state;
    remat_device d = {.memory = 1 << 30, .bandwidth = 1e10, .rate = {1e12}, .launch = 1e-3};
    for (unsigned k = 0; k < REMAT_KERNEL_CLASSES; k++)
        d.forward[k] = (remat_efficiency){1, {1}, {0.1}, 0, 0};
    d.forward[REMAT_MATRIX] = (remat_efficiency){1, {1}, {0.5}, 0, 0};
    d.backward[REMAT_POINTWISE] = (remat_efficiency){2, {1e6, 1e10}, {0.1, 0.4}, 0, 0};
    assert_int_equal(remat_device_check(&d, NULL), REMAT_OK);
    const remat_kernel product = {REMAT_MATRIX, REMAT_FLOAT32, false, 4e9, 1e3, 0};
    const remat_kernel traffic = {REMAT_MATRIX, REMAT_FLOAT32, false, 1, 3e8, 0};
    const remat_kernel back = {REMAT_POINTWISE, REMAT_FLOAT32, true, 0, 1e8, 0};
    assert_true(fabs(remat_kernel_seconds(&d, &product) - (1e-3 + 8e-3)) < 1e-12);
    assert_true(fabs(remat_kernel_seconds(&d, &traffic) - (1e-3 + 0.3)) < 1e-12);
    assert_true(fabs(remat_kernel_seconds(&d, &back) - (1e-3 + 1e8 / (1e10 * 0.2))) < 1e-12);
    /* a curve for 1e13 a second: 1e8 bytes at 1e10 are as full as 1e11 there, past its end */
    d.backward[REMAT_POINTWISE].peak = 1e13;
    assert_true(fabs(remat_kernel_seconds(&d, &back) - (1e-3 + 1e8 / (1e10 * 0.4))) < 1e-12);
    /* rows of 2, 4, 8 bytes, and of 16 and more */
    static const double rows[] = {2, 50257 * 4, 24, 48, 0}, parts[] = {0.2, 0.5, 0.8, 1, 1};
    memcpy(d.alignment, (const double[]){0.2, 0.5, 0.8}, sizeof d.alignment);
    remat_kernel odd = product;
    for (size_t i = 0; i < COUNT(rows); i++) {
        odd.row = rows[i];
        assert_true(fabs(remat_kernel_seconds(&d, &odd) - (1e-3 + 8e-3 / parts[i])) < 1e-12);
    }
    d.rate[REMAT_TF32] = 1e12;
    d.forward[REMAT_MATRIX].tf32 = 0.25;
    assert_true(fabs(remat_kernel_seconds(&d, &odd) - (1e-3 + 8e-3)) < 1e-12);
    odd.precision = REMAT_TF32;
    assert_true(fabs(remat_kernel_seconds(&d, &odd) - (1e-3 + 32e-3)) < 1e-12);
}

static void unsound_devices_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *entry, *field;
    } bad[] = {
        {"\"memory_bytes\": 0", "device.memory_bytes"},
        {"\"memory_bytes\": 1e17", "device.memory_bytes"},
        {"\"context_bytes\": 1e10", "device.memory_bytes"},
        {"\"bandwidth_bytes_per_second\": 0", "device.bandwidth_bytes_per_second"},
        {"\"flops_per_second\": {\"tf32\": 1e12}", "device.flops_per_second.float32"},
        {"\"flops_per_second\": {\"float32\": -1}", "device.flops_per_second.float32"},
        {"\"launch_seconds\": 2", "device.launch_seconds"},
        {"\"communicator_bytes\": -1", "device.communicator_bytes"},
        {"\"eager_fragmentation\": 2", "device.eager_fragmentation"},
        {"\"allocator_rounding\": 2", "device.allocator_rounding"},
        {"\"cublas_bytes\": 1e10", "device.cublas_bytes"},
        {"\"host_seconds\": -1", "device.host_seconds"},
        {"\"several_ranks\": 1.5", "device.several_ranks"},
        {"\"row_alignment\": [1, 1]", "device.row_alignment"},
        {"\"row_alignment\": [1, 2, 1]", "device.row_alignment[1]"},
        {"\"efficiency\": {\"matrix\": {\"forward\": [[1, 0.1]], \"tf32\": 5}}",
         "device.efficiency"},
        {"\"compiled_fragmentation\": -1", "device.compiled_fragmentation"},
        {"\"link_bytes_per_second\": -1", "device.link_bytes_per_second"},
        {"\"colour\": 1", "device.colour"},
        {"\"efficiency\": {\"matrix\": {\"forward\": []}}", "device.efficiency.matrix.forward"},
        {"\"efficiency\": {\"matrix\": {\"forward\": [[1, 0]]}}",
         "device.efficiency.matrix.forward[0]"},
        {"\"efficiency\": {\"matrix\": {\"forward\": [[1, 0.1], [1, 0.2]]}}",
         "device.efficiency.matrix.forward[1]"},
        {"\"efficiency\": {\"copy\": {\"forward\": [[1, 0.1], [2, 0.9]]}}",
         "device.efficiency.copy.forward[1]"},
    };
    static const char *const usual[] = {"\"memory_bytes\": 8e9",
                                        "\"bandwidth_bytes_per_second\": 1e11",
                                        "\"flops_per_second\": {\"float32\": 1e12}", NULL};
    for (size_t i = 0; i < COUNT(bad); i++) {
        char text[512];
        json_t *json = NULL;
        remat_device d;
        remat_error error;
        int at = snprintf(text, sizeof text, "{\"name\": \"mine\", %s", bad[i].entry);
        for (size_t k = 0; usual[k]; k++)
            if (strncmp(usual[k], bad[i].entry, 12) != 0)
                at += snprintf(text + at, sizeof text - (size_t)at, ", %s", usual[k]);
        snprintf(text + at, sizeof text - (size_t)at, "}");
        assert_int_equal(remat_json_parse(text, strlen(text), &json, &error), REMAT_OK);
        assert_int_equal(remat_device_decode(json, "device", &d, &error), REMAT_INVALID);
        if (strcmp(error.field, bad[i].field) != 0)
            fail_msg("%s: %s, %s", text, error.field, error.message);
        json_decref(json);
    }
}

/* What is encoded is read back as it was. */
static void an_entry_goes_and_comes(void **state)
{
    (void)state;
    const remat_device d = plan_device("cpu");
    remat_device again;
    json_t *json = remat_device_encode(&d);
    assert_int_equal(remat_device_decode(json, "device", &again, NULL), REMAT_OK);
    json_t *twice = remat_device_encode(&again);
    assert_true(json_equal(json, twice));
    json_decref(json);
    json_decref(twice);
}

/* ---- graphs ---- */

/* Sizes are those of the shapes: twice the batch, twice of everything but nothing more. */
static void sizes_grow_with_the_batch(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt2",    "llama3.2-1b", "bert-base",
                                        "vit-b16", "resnet18",    "unet"};
    for (size_t i = 0; i < COUNT(names); i++) {
        remat_network_graph *one =
            plan_network(names[i], 1, REMAT_BFLOAT16, 0, i % 2 == 1 && i < 4);
        remat_network_graph *two =
            plan_network(names[i], 2, REMAT_BFLOAT16, 0, i % 2 == 1 && i < 4);
        assert_int_equal(one->spec.n_nodes, two->spec.n_nodes);
        for (size_t v = 0; v < one->spec.n_nodes; v++) {
            const remat_node_spec *a = &one->spec.nodes[v], *b = &two->spec.nodes[v];
            assert_true(2 * a->output_bytes.value == b->output_bytes.value);
            assert_true(a->forward_time.value <= b->forward_time.value);
            assert_true(a->backward_time.value <= b->backward_time.value);
            if (strcmp(a->op, "batch_norm") != 0) /* whose statistics are by channel */
                assert_true(2 * a->saved_bytes.value == b->saved_bytes.value);
        }
        remat_network_graph_free(one);
        remat_network_graph_free(two);
    }
}

/* 80 layers at operation level: the depth of the largest Llama. */
static void deep_models_have_thousands_of_nodes(void **state)
{
    (void)state;
    remat_network_graph *graph = plan_network("llama3-70b", 1, REMAT_BFLOAT16, 0, false);
    assert_true(graph->spec.n_nodes > 2700 && graph->n_units == 82);
    remat_profile *p = plan_checked(graph);
    for (uint32_t v = 1; v < p->n_nodes; v++)
        assert_true(graph->unit[v] >= graph->unit[v - 1]);
    remat_profile_free(p);
    remat_network_graph_free(graph);
}

static void settings_out_of_range_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        remat_network_settings settings;
        const char *field;
    } bad[] = {{"gpt3", {.batch = 1}, "model"},
               {"gpt2", {.batch = 0}, "batch"},
               {"gpt2", {.batch = UINT64_C(1) << 60}, "batch"},
               {"gpt2", {.batch = 1, .sequence = 1025}, "sequence"},
               {"gpt2", {.batch = 1, .image = 64}, "image"},
               {"resnet50", {.batch = 1, .layers = 3}, "layers"},
               {"unet", {.batch = 1, .eager_attention = true}, "attention"},
               {"resnet50", {.batch = 1, .sequence = 3}, "sequence"},
               {"llama2-7b", {.batch = 1, .layers = 201}, "layers"},
               {"vit-b16", {.batch = 1, .image = 225}, "image"},
               {"unet", {.batch = 1, .image = 100}, "image"},
               {"gpt2", {.batch = 1, .precision = REMAT_BFLOAT16}, "precision"},
               {"llama2-7b", {.batch = 1 << 20, .sequence = 1 << 20}, "batch"}};
    const remat_device d = plan_device("t4");
    for (size_t i = 0; i < COUNT(bad); i++) {
        remat_network_graph *graph = NULL;
        remat_error error = {.status = REMAT_OK};
        const remat_status status =
            remat_network_graph_new(bad[i].name, &bad[i].settings, &d, &graph, &error);
        if (!status || strcmp(error.field, bad[i].field) != 0)
            fail_msg("%s %zu: %s, %s", bad[i].name, i, error.field, error.message);
        assert_null(graph);
    }
}

/* ---- requests ---- */

static void bad_requests_name_their_field(void **state)
{
    (void)state;
    static const struct {
        const char *text, *field, *says;
    } bad[] = {
        {"{}", "device", "missing"},
        {"{\"device\": 3, \"model\": \"gpt2\", \"batch\": 1}", "device", "name of a device"},
        {"{\"device\": \"gtx\", \"model\": \"gpt2\", \"batch\": 1}", "device", "known are a100"},
        {"{\"device\": \"t4\"}", "model", "one of"},
        {"{\"device\": \"t4\", \"model\": \"gpt2\"}", "batch", "required"},
        {"{\"device\": \"t4\", \"model\": \"gpt2\", \"batch\": 0}", "batch", "from 1 to 1048576"},
        {"{\"device\": \"t4\", \"model\": \"gpt2\", \"batch\": 1.5}", "batch", "whole number"},
        {"{\"device\": \"t4\", \"model\": \"gpt2\", \"batch\": 1e400}", "batch", ""},
        {"{\"device\": \"t4\", \"model\": \"gpt2\", \"batch\": 1152921504606846976}", "batch",
         "from 1 to 1048576"},
        {"{\"device\": \"t4\", \"model\": \"gpt2\", \"batch\": 1, \"optimizer\": \"adm\"}",
         "optimizer", "did you mean adam?"},
        {"{\"device\": \"t4\", \"model\": \"gpt2\", \"batch\": 1, \"precision\": \"fp8\"}",
         "precision", "known are float32"},
        {"{\"device\": \"t4\", \"model\": \"gpt2\", \"batch\": 1, \"attention\": \"x\"}",
         "attention", "known are fused"},
        {"{\"device\": \"t4\", \"model\": \"gpt2\", \"batch\": 1, \"parallel\": {\"kind\": \"x\", "
         "\"ranks\": 2}}",
         "parallel.kind", "known are none"},
        {"{\"device\": \"t4\", \"model\": \"gpt2\", \"batch\": 1, \"parallel\": {\"kind\": "
         "\"ddp\", "
         "\"ranks\": 0}}",
         "parallel.ranks", "from 1"},
        {"{\"device\": \"t4\", \"model\": \"gpt2\", \"batch\": 1, \"parallel\": {\"kind\": "
         "\"ddp\"}}",
         "parallel.ranks", "missing"},
        {"{\"device\": \"t4\", \"model\": \"gpt2\", \"batch\": 1, \"parameters\": 3}", "parameters",
         "known"},
        {"{\"device\": \"cpu\", \"model\": \"gpt2\", \"batch\": 1, \"offload\": true}", "offload",
         "no way"},
        {"{\"device\": \"t4\", \"model\": \"gpt2\", \"batch\": 1, \"btach\": 2}", "btach", ""},
        {"{\"device\": \"t4\", \"model\": \"gpt2\", \"batch\": 1, \"wait\": -1}", "wait", "from 0"},
        {"{\"device\": \"t4\", \"profile\": {}}", "parameters", "required"},
        {"{\"device\": \"t4\", \"profile\": {}, \"parameters\": 1, \"kernels\": \"fused\"}",
         "kernels", "for a model"},
        {"{\"device\": \"t4\", \"model\": \"gpt2\", \"batch\": 1, \"kernels\": \"fusde\"}",
         "kernels", "did you mean fused?"},
        {"{\"device\": \"t4\", \"profile\": {}, \"parameters\": 1, \"batch\": 2}", "batch",
         "for a model"},
        {"{\"device\": \"t4\", \"profile\": {}, \"parameters\": -1}", "parameters", "from 0"},
        {"{\"device\": \"t4\", \"profile\": {}, \"parameters\": 9, \"optimizer\": \"adafactor\"}",
         "optimizer", "shapes"},
        {"{\"device\": \"t4\", \"profile_id\": \"x\", \"parameters\": 9}", "profile_id", "64"},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        json_t *json = NULL;
        remat_plan_request request;
        remat_error error = {.status = REMAT_OK};
        remat_status status = remat_json_parse(bad[i].text, strlen(bad[i].text), &json, &error);
        if (!status)
            status = remat_plan_request_decode(json, &request, &error);
        if (status != REMAT_INVALID || strcmp(error.field, bad[i].field) != 0 ||
            !strstr(error.message, bad[i].says))
            fail_msg("%s: %s, %s", bad[i].text, error.field, error.message);
        json_decref(json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_the_published_counts),
        cmocka_unit_test(states_are_the_published_bytes),
        cmocka_unit_test(factored_and_8_bit_states_by_hand),
        cmocka_unit_test(rounding_by_hand),
        cmocka_unit_test(three_numbers_by_hand),
        cmocka_unit_test(memory_is_what_drivers_offer),
        cmocka_unit_test(shards_by_hand),
        cmocka_unit_test(gradients_of_a_backward_that_updates),
        cmocka_unit_test(every_device_is_sound_and_its_times_grow),
        cmocka_unit_test(the_roofline_by_hand),
        cmocka_unit_test(unsound_devices_are_refused),
        cmocka_unit_test(an_entry_goes_and_comes),
        cmocka_unit_test(sizes_grow_with_the_batch),
        cmocka_unit_test(deep_models_have_thousands_of_nodes),
        cmocka_unit_test(settings_out_of_range_are_refused),
        cmocka_unit_test(bad_requests_name_their_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
