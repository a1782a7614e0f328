/* Plans with adapters: published counts, what is held in 4 bits, what is kept no more, ranks, and
 * requests. */
#include "unit/plan_support.h"

#include <math.h>

enum { QV = REMAT_ADAPT_QUERIES | REMAT_ADAPT_VALUES };

static remat_network_graph *network(const char *name, const remat_network_settings *settings)
{
    remat_network_graph *graph = NULL;
    remat_error error;
    const remat_device d = plan_device("h100");
    remat_network_settings s = *settings;
    s.batch = 1;
    s.precision = REMAT_BFLOAT16;
    s.interconnect = &d.interconnect;
    if (remat_network_graph_new(name, &s, &d, &graph, &error))
        fail_msg("%s: %s", name, error.message);
    return graph;
}

static remat_network_settings adapted(uint32_t rank, uint32_t targets, remat_base base)
{
    return (remat_network_settings){.lora = {.rank = rank, .targets = targets, .base = base}};
}

static remat_step_table table_of(const remat_tensor *tensors, size_t n,
                                 const remat_step_settings *step)
{
    const remat_device d = plan_device("h100");
    remat_step_table t;
    remat_error error;
    if (remat_step_bytes(tensors, n, step, &d, &t, &error))
        fail_msg("%s", error.message);
    return t;
}

/* ---- counts ---- */

/* litgpt, tutorials/resource-tables.md: trainable parameters; PEFT's print_trainable_parameters of
 * Llama 3 8B and of GPT-2, whose c_attn is one matrix; of Mixtral by hand: 8 MLPs of three
 * matrices. */
static void trained_are_the_published_counts(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t rank, targets;
        uint64_t trained;
    } known[] = {{"llama2-7b", 8, QV, 4194304},
                 {"llama2-13b", 8, QV, 6553600},
                 {"llama3-8b", 8, QV, 3407872},
                 {"llama3-8b", 16, REMAT_ADAPT_ALL, 41943040},
                 {"gpt2", 8, QV, 294912},
                 {"bert-base", 8, QV, 294912},
                 {"mixtral-8x7b", 4, REMAT_ADAPT_MLP, 32ull * 8 * 3 * 4 * (4096 + 14336)}};
    for (size_t i = 0; i < COUNT(known); i++) {
        const remat_network_settings s = adapted(known[i].rank, known[i].targets, REMAT_NF4);
        const remat_network *model = NULL;
        uint64_t trained = 0, all = 0;
        remat_network_graph *graph = network(known[i].name, &s);
        for (size_t k = 0; k < graph->n_tensors; k++) {
            const uint64_t count = graph->tensors[k].rows * graph->tensors[k].columns;
            all += count;
            trained += graph->tensors[k].base == REMAT_TRAINED ? count : 0;
        }
        assert_int_equal(remat_network_find(known[i].name, &model, NULL), REMAT_OK);
        if (graph->trained != known[i].trained || trained != known[i].trained)
            fail_msg("%s has %llu", known[i].name, (unsigned long long)graph->trained);
        assert_int_equal(graph->parameters, model->parameters + known[i].trained);
        assert_int_equal(all, graph->parameters);
        remat_network_graph_free(graph);
    }
}

/* ---- bytes ---- */

/* 4 bits a number, 32 for each 64; or 8 for each 64 and 32 for each 256 of those. Of frozen ones
 * nothing but the weights is there, whatever the optimizer and however many ranks. */
static void frozen_weights_by_hand(void **state)
{
    (void)state;
    static const struct {
        remat_base base;
        uint64_t bytes; /* of 4096 x 4096 */
    } known[] = {{REMAT_FROZEN, 2 << 24},
                 {REMAT_NF4, (1 << 23) + 4 * (1 << 18)},
                 {REMAT_NF4_DOUBLE, (1 << 23) + (1 << 18) + 4 * (1 << 10)}};
    for (size_t i = 0; i < COUNT(known); i++)
        for (unsigned optimizer = 0; optimizer < REMAT_OPTIMIZERS; optimizer++)
            for (unsigned parallel = 0; parallel < REMAT_PARALLELS; parallel++) {
                const remat_tensor tensors[] = {{4096, 4096, 0, 0, known[i].base, false},
                                                {4096, 4096, 1, 0, REMAT_TRAINED, false}};
                const remat_step_settings step = {.optimizer = (remat_optimizer)optimizer,
                                                  .precision = REMAT_BFLOAT16,
                                                  .parallel = (remat_parallel)parallel,
                                                  .ranks = parallel ? 8 : 1};
                const remat_step_table both = table_of(tensors, 2, &step);
                const remat_step_table alone = table_of(&tensors[1], 1, &step);
                const uint64_t held = known[i].bytes / (parallel == REMAT_ZERO3 ? 8 : 1);
                assert_int_equal(both.weights, alone.weights + held);
                assert_int_equal(both.gradients, alone.gradients);
                assert_int_equal(both.master_weights, alone.master_weights);
                assert_int_equal(both.states, alone.states);
                assert_int_equal(both.buckets, alone.buckets);
                assert_int_equal(both.update_traffic, alone.update_traffic);
                assert_int_equal(both.gathered, alone.gathered); /* the larger of two units */
            }
    const remat_tensor frozen = {4096, 4096, 0, 0, REMAT_NF4, false};
    const remat_step_settings sharded = {
        .precision = REMAT_BFLOAT16, .parallel = REMAT_ZERO3, .ranks = 8};
    assert_int_equal(table_of(&frozen, 1, &sharded).gathered, 2 * known[1].bytes);
}

/* What double quantisation saves: litgpt, tutorials/resource-tables.md, Llama 2 of 7 and 13
 * billion, 0.30 and 0.59 GB as printed in hundredths. */
static void double_quantisation_saves_what_is_published(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double saved;
    } known[] = {{"llama2-7b", 0.30}, {"llama2-13b", 0.59}};
    const remat_step_settings step = {.precision = REMAT_BFLOAT16, .ranks = 1, .no_master = true};
    for (size_t i = 0; i < COUNT(known); i++) {
        double bytes[2];
        for (unsigned k = 0; k < 2; k++) {
            const remat_network_settings s = adapted(8, QV, k ? REMAT_NF4_DOUBLE : REMAT_NF4);
            remat_network_graph *graph = network(known[i].name, &s);
            bytes[k] = (double)table_of(graph->tensors, graph->n_tensors, &step).weights;
            remat_network_graph_free(graph);
        }
        assert_true(fabs((bytes[0] - bytes[1]) / 1e9 - known[i].saved) < 0.02);
    }
}

/* ---- activations ---- */

static uint64_t peak_of(const char *name, const remat_network_settings *s)
{
    remat_network_graph *graph = network(name, s);
    remat_profile *profile = make_profile(&graph->spec);
    uint64_t peak = 0;
    assert_int_equal(remat_store_all_peak(profile, &peak, NULL), REMAT_OK);
    remat_profile_free(profile);
    remat_network_graph_free(graph);
    return peak;
}

/* What one more layer keeps. */
static double layer_of(const char *name, remat_network_settings s)
{
    uint64_t peak[2];
    s.sequence = 512;
    for (uint32_t i = 0; i < 2; i++) {
        s.layers = 6 + i;
        peak[i] = peak_of(name, &s);
    }
    return (double)(peak[1] - peak[0]);
}

/* Of a compiled layer of Llama 3 8B all is kept that follows: the inputs of both norms, what they
 * give, q, k, v, what attention gives, gate, up, their product, two numbers of 32 bits a row and
 * one for each head. What only frozen matrices read is not, but what their adapters read. */
static void inputs_of_frozen_matrices_are_not_kept(void **state)
{
    (void)state;
    const double h = 4096, f = 14336, k = 1024, beside = 4 * 32 + 2 * 4, tokens = 512, r = 8;
    remat_network_settings s = {.kernels = REMAT_COMPILED};
    assert_true(layer_of("llama3-8b", s) == tokens * (2 * (6 * h + 2 * k + 3 * f) + beside));
    s.lora = (remat_lora){.rank = 8, .targets = QV, .base = REMAT_FROZEN};
    const double few = tokens * (2 * (5 * h + 2 * k + 2 * f + 2 * r) + beside);
    assert_true(layer_of("llama3-8b", s) == few);
    s.lora.base = REMAT_NF4;
    assert_true(layer_of("llama3-8b", s) == few);
    s.lora.targets = REMAT_ADAPT_ALL;
    assert_true(layer_of("llama3-8b", s) ==
                tokens * (2 * (6 * h + 2 * k + 3 * f + 7 * r) + beside));
    /* each adapter of its own copy, with a byte for each number; nobody keeps what the norm gives
     */
    s.lora.targets = QV;
    s.lora.dropout = true;
    assert_true(layer_of("llama3-8b", s) ==
                tokens * (2 * (6 * h + 2 * k + 2 * f + 2 * r) + 2 * h + beside));
}

/* Of every transformer, by modules and compiled: matrices of blocks keep their inputs if they are
 * trained, a step takes less than one that trains everything, more with a larger rank, and 4 bits
 * take time and room for one matrix. */
static void adapters_take_less(void **state)
{
    (void)state;
    size_t n;
    const remat_network *models = remat_networks(&n);
    for (size_t i = 0; i < n; i++)
        for (unsigned kernels = 0; models[i].layers && kernels < REMAT_KERNEL_SETS; kernels++) {
            remat_network_settings s = {.layers = 2, .kernels = (remat_kernels)kernels};
            s.sequence = models[i].sequence ? 128 : 0;
            const uint64_t full = peak_of(models[i].name, &s);
            s.lora = (remat_lora){.rank = 4, .targets = QV, .base = REMAT_FROZEN};
            const uint64_t few = peak_of(models[i].name, &s);
            s.lora.rank = 64;
            const uint64_t more = peak_of(models[i].name, &s);
            if (few >= full || more <= few)
                fail_msg("%s: %llu, %llu, %llu", models[i].name, (unsigned long long)full,
                         (unsigned long long)few, (unsigned long long)more);
            double seconds[2] = {0, 0};
            for (unsigned k = 0; k < 2; k++) {
                s.lora.base = k ? REMAT_NF4 : REMAT_FROZEN;
                remat_network_graph *graph = network(models[i].name, &s);
                for (size_t v = 0; v < graph->spec.n_nodes; v++) {
                    const remat_node_spec *node = &graph->spec.nodes[v];
                    const bool narrow = strstr(node->id, "_lora_") != NULL;
                    seconds[k] += node->forward_time.value + node->backward_time.value;
                    if (strcmp(node->op, "linear") == 0)
                        assert_int_equal(node->backward_uses_inputs, narrow);
                }
                remat_network_graph_free(graph);
            }
            assert_true(seconds[0] < seconds[1]);
        }
}

/* ---- ranks ---- */

/* Matrices by columns have all rows of the first product on each rank and a t-th of the second's
 * columns; those by rows the other way round. */
static void adapters_are_shared(void **state)
{
    (void)state;
    const uint64_t h = 4096, f = 14336, k = 1024, r = 16;
    static const uint32_t ranks[] = {1, 2, 4, 8};
    for (size_t i = 0; i < COUNT(ranks); i++)
        for (unsigned sequence = 0; sequence < 2; sequence++) {
            const uint64_t t = ranks[i];
            remat_network_settings s = adapted(r, REMAT_ADAPT_ALL, REMAT_FROZEN);
            s.tensor = ranks[i];
            s.sequence = 512;
            s.sequence_parallel = sequence && t > 1;
            uint64_t sum = 0;
            remat_network_graph *graph = network("llama3-8b", &s);
            for (size_t j = 0; j < graph->n_tensors; j++)
                if (graph->tensors[j].base == REMAT_TRAINED)
                    sum += graph->tensors[j].rows * graph->tensors[j].columns;
            const uint64_t columns = 5 * h + (h + 2 * k + 2 * f) / t, rows = (h + f) / t + 2 * h;
            assert_int_equal(sum, 32 * r * (columns + rows));
            assert_int_equal(graph->trained, 41943040);
            remat_profile_free(make_profile(&graph->spec));
            remat_network_graph_free(graph);
        }
}

/* Two ranks, a way of 1 byte a second, 16 bits a number: of 5 numbers and 3 bytes in 4 bits
 * gathering takes 6.5 seconds, the gradient of the one that has one 1, or all-reduced 2. */
static void frozen_weights_are_gathered_alone(void **state)
{
    (void)state;
    const remat_interconnect way = {.within = 1, .between = 1, .node = 8};
    const remat_unit_load load = {5, 2, 4, 4, 3, 0};
    remat_step_settings s = {
        .precision = REMAT_BFLOAT16, .no_master = true, .parallel = REMAT_ZERO3, .ranks = 2};
    assert_true(remat_step_exchange(&load, 1, &s, &way, 1).sent == 6.5 + 1);
    s.parallel = REMAT_DDP;
    assert_true(remat_step_exchange(&load, 1, &s, &way, 1).sent == 2);
    s.parallel = REMAT_ZERO2; /* scattered, then the one is gathered */
    assert_true(remat_step_exchange(&load, 1, &s, &way, 1).sent == 1 + 1);
}

/* ---- requests ---- */

static void bad_adapters_name_their_field(void **state)
{
    (void)state;
    static const struct {
        const char *model, *lora, *more, *field, *says;
    } bad[] = {
        {"gpt2", "{}", "", "lora.rank", "missing"},
        {"gpt2", "{\"rank\": 0}", "", "lora.rank", "from 1 to 65536"},
        {"gpt2", "{\"rank\": 65537}", "", "lora.rank", "from 1 to 65536"},
        {"gpt2", "{\"rank\": 8, \"targets\": []}", "", "lora.targets", "nothing would be trained"},
        {"gpt2", "{\"rank\": 8, \"targets\": [\"all-liner\"]}", "", "lora.targets",
         "did you mean all-linear?"},
        {"gpt2", "{\"rank\": 8, \"targets\": [3]}", "", "lora.targets[0]", "string"},
        {"gpt2", "{\"rank\": 8, \"base\": \"fp4\"}", "", "lora.base", "known are frozen, nf4"},
        {"gpt2", "{\"rank\": 8, \"base\": \"trained\"}", "", "lora.base", "known are frozen, nf4"},
        {"gpt2", "{\"rank\": 8, \"alpha\": 16}", "", "lora.alpha", "not a known field"},
        {"gpt2", "{\"rank\": 8}", ", \"autocast\": true", "lora", "without autocast"},
        {"resnet50", "{\"rank\": 8}", "", "lora", "no lora to choose"},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        char text[300];
        json_t *json = NULL;
        remat_plan_request request;
        remat_plan_draft draft = {.answer = NULL};
        remat_error error = {.status = REMAT_OK};
        snprintf(text, sizeof text,
                 "{\"model\": \"%s\", \"batch\": 1, \"device\": \"h100\", \"lora\": %s%s}",
                 bad[i].model, bad[i].lora, bad[i].more);
        assert_int_equal(remat_json_parse(text, strlen(text), &json, &error), REMAT_OK);
        remat_status status = remat_plan_request_decode(json, &request, &error);
        if (!status)
            status = remat_plan_draft_make(&request, NULL, NULL, &draft, &error);
        if (status != REMAT_INVALID || strcmp(error.field, bad[i].field) != 0 ||
            !strstr(error.message, bad[i].says))
            fail_msg("%s: %s, %s", text, error.field, error.message);
        remat_plan_draft_clear(&draft);
        json_decref(json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trained_are_the_published_counts),
        cmocka_unit_test(frozen_weights_by_hand),
        cmocka_unit_test(double_quantisation_saves_what_is_published),
        cmocka_unit_test(inputs_of_frozen_matrices_are_not_kept),
        cmocka_unit_test(adapters_take_less),
        cmocka_unit_test(adapters_are_shared),
        cmocka_unit_test(frozen_weights_are_gathered_alone),
        cmocka_unit_test(bad_adapters_name_their_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
