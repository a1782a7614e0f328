/* Plans over ranks: what is sent and what of it a step waits for, models cut among ranks, and what
 * has to be monotone. */
#include "unit/plan_support.h"

#include <math.h>

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

/* ---- collectives ---- */

/* nccl-tests, doc/PERFORMANCE.md: all-reduce S / B 2 (n - 1) / n, the others S / B (n - 1) / n. Two
 * nodes of 8 with ways out of 20: rings have 8 x 20, those of ranks 4 apart two of a node, 2 x 20.
 */
static void collectives_by_hand(void **state)
{
    (void)state;
    const remat_interconnect w = {.within = 200, .between = 20, .node = 8};
    const remat_interconnect l = {
        .within = 200, .between = 20, .within_latency = 1, .between_latency = 0.25, .node = 8};
    assert_true(near(remat_collective_seconds(&w, REMAT_ALL_REDUCE, 8, 1, 800), 7));
    assert_true(near(remat_collective_seconds(&w, REMAT_ALL_GATHER, 8, 1, 800), 3.5));
    assert_true(near(remat_collective_seconds(&w, REMAT_REDUCE_SCATTER, 2, 4, 800), 2));
    assert_true(near(remat_collective_seconds(&w, REMAT_ALL_GATHER, 16, 1, 1600), 1500.0 / 160));
    assert_true(near(remat_collective_seconds(&w, REMAT_ALL_GATHER, 4, 4, 400), 300.0 / 40));
    /* of 1600 bytes half go to the other node */
    assert_true(near(remat_collective_seconds(&w, REMAT_ALL_TO_ALL, 16, 1, 1600), 800.0 / 20));
    assert_true(near(remat_collective_seconds(&w, REMAT_ALL_TO_ALL, 8, 1, 1600), 1400.0 / 200));
    assert_true(remat_collective_seconds(&l, REMAT_ALL_REDUCE, 1, 1, 800) == 0);
    assert_true(near(remat_collective_seconds(&l, REMAT_ALL_REDUCE, 8, 1, 0), 1));
    assert_true(near(remat_collective_seconds(&l, REMAT_ALL_REDUCE, 64, 1, 0), 1.75));
    /* 8 H200, all-reduce: 1 MiB at 40 GB/s of bus bandwidth, 32 KiB at 1.44 (stas00/ml-engineering,
     * network/README.md) */
    const remat_device h = plan_device("h200");
    const double mebibyte = 1048576 * 1.75;
    assert_true(fabs(remat_collective_seconds(&h.interconnect, REMAT_ALL_REDUCE, 8, 1, 1048576) /
                         (mebibyte / 40e9) -
                     1) < 0.05);
    assert_true(fabs(remat_collective_seconds(&h.interconnect, REMAT_ALL_REDUCE, 8, 1, 32768) /
                         (mebibyte / 32 / 1.44e9) -
                     1) < 0.05);
}

/* ---- a step ---- */

/* Two ranks, a way of 1 byte a second: gathering p numbers of 16 bits takes p seconds, so does
 * scattering their gradient of 16 bits; of all-reduce it is 2 p. */
static void exchanges_by_hand(void **state)
{
    (void)state;
    const remat_interconnect way = {.within = 1, .between = 1, .node = 8};
    const remat_unit_load loads[] = {{1, 2, 4, 0, 0, 0}, {3, 2, 4, 0, 0, 0}, {1, 2, 4, 0, 0, 0}};
    static const struct {
        remat_parallel parallel;
        bool no_prefetch;
        double stretch, sent, exposed;
    } known[] = {
        /* backwards end at 10, 14, 18; gradients go 10 to 12, 14 to 20, 20 to 22 */
        {REMAT_DDP, false, 1, 10, 4},
        /* half of that goes, 10 to 11, 14 to 17, 18 to 19, then all 5 weights */
        {REMAT_ZERO1, false, 1, 10, 6},
        /* forward: unit 0 is there at 1, runs to 3; 1 there at 4, runs to 6; 2 there at 5, runs to
         * 8. Backward: 2 from 8 to 12 while 1 is gathered till 11; its gradient goes till 13; 1
         * from 12 to 16, gradient till 19; 0 from 16 to 20, gradient till 21. Alone it is 18. */
        {REMAT_ZERO3, false, 1, 13, 3},
        /* there at 1, to 3; at 6, to 8; at 9, to 11; backward to 15, gathered till 18, gradient
         * till 19; 1 from 18 to 22, gradient till 25; 0 from 22 to 26, gradient till 27 */
        {REMAT_ZERO3, true, 1, 13, 9},
        /* backwards of 8: from 6 14, 22, 30; gradients 14 to 16, 22 to 28, 30 to 32 */
        {REMAT_DDP, false, 2, 10, 2},
        {REMAT_SINGLE, false, 1, 0, 0},
    };
    for (size_t i = 0; i < COUNT(known); i++) {
        const remat_step_settings s = {.precision = REMAT_BFLOAT16,
                                       .no_master = true,
                                       .parallel = known[i].parallel,
                                       .ranks = 2,
                                       .no_prefetch = known[i].no_prefetch};
        const remat_exchange x = remat_step_exchange(loads, 3, &s, &way, known[i].stretch);
        if (!near(x.sent, known[i].sent) || !near(x.exposed, known[i].exposed))
            fail_msg("%zu: sent %g, exposed %g", i, x.sent, x.exposed);
    }
}

/* ---- models that are cut ---- */

static uint64_t store_all(const char *name, remat_network_settings s, uint32_t layers,
                          uint64_t *ret_parameters)
{
    remat_network_graph *graph = NULL;
    remat_profile *profile = NULL;
    remat_error error;
    uint64_t peak = 0;
    const remat_device d = plan_device("a100-80gb");
    s.precision = REMAT_BFLOAT16;
    s.layers = layers;
    s.interconnect = &d.interconnect;
    if (remat_network_graph_new(name, &s, &d, &graph, &error) ||
        remat_profile_new(&graph->spec, &profile, &error) ||
        remat_store_all_peak(profile, &peak, &error))
        fail_msg("%s: %s", name, error.message);
    *ret_parameters = graph->parameters;
    remat_profile_free(profile);
    remat_network_graph_free(graph);
    return peak;
}

/* Korthikanti et al. 2022, table 2: of a layer s b h (10 + 24 / t + 5 a s / h t) with tensor
 * parallelism, s b h / t (34 + 5 a s / h) with sequence parallelism too. What is kept beside is two
 * numbers of 32 bits a row of each norm, and 24 / t by Hugging Face's gelu_new: x / 2, its tanh and
 * 1 more than that. */
static void layers_keep_the_published_bytes(void **state)
{
    (void)state;
    static const uint32_t ranks[] = {1, 2, 3, 4, 6, 12};
    const double s = 768, b = 2, h = 768, a = 12;
    for (size_t i = 0; i < 2 * COUNT(ranks); i++) {
        const double t = ranks[i / 2], scores = 5 * a * s / h;
        const bool cut = i % 2;
        const remat_network_settings set = {.batch = 2,
                                            .sequence = 768,
                                            .eager_attention = true,
                                            .tensor = ranks[i / 2],
                                            .sequence_parallel = cut};
        uint64_t parameters, more;
        const uint64_t four = store_all("gpt2", set, 4, &parameters);
        const double layer = (double)(store_all("gpt2", set, 5, &more) - four);
        const double known =
            cut ? s * b * h / t * (58 + scores) : s * b * h * (10 + 48 / t + scores / t);
        if (!(fabs(layer - known - 16 * s * b / (cut ? t : 1)) < 1e-6 * known))
            fail_msg("t %g, %d: %g bytes, not %g", t, cut, layer, known);
        assert_int_equal(more - parameters, 12 * 768 * 768 + 13 * 768); /* of all ranks */
    }
}

/* A rank among t has a t-th of the matrices, all norms, and at least one head of keys and values.
 */
static void tensors_are_shared(void **state)
{
    (void)state;
    const remat_device d = plan_device("h100");
    const uint64_t h = 4096, f = 14336, v = 128256;
    static const uint32_t ranks[] = {1, 2, 4, 8, 16, 32};
    for (size_t i = 0; i < COUNT(ranks); i++) {
        const uint64_t t = ranks[i], keys = 128 * (t < 8 ? 8 / t : 1);
        const remat_network_settings s = {.batch = 1,
                                          .sequence = 512,
                                          .precision = REMAT_BFLOAT16,
                                          .tensor = ranks[i],
                                          .interconnect = &d.interconnect};
        remat_network_graph *graph = NULL;
        uint64_t sum = 0;
        assert_int_equal(remat_network_graph_new("llama3-8b", &s, &d, &graph, NULL), REMAT_OK);
        for (size_t k = 0; k < graph->n_tensors; k++)
            sum += graph->tensors[k].rows * graph->tensors[k].columns;
        const uint64_t layer = 2 * h * h / t + 2 * h * keys + 3 * h * f / t + 2 * h;
        assert_int_equal(sum, 32 * layer + 2 * v / t * h + h);
        assert_int_equal(graph->parameters, 8030261248);
        remat_network_graph_free(graph);
    }
}

/* What PyTorch's DTensor has whole on each of 4 ranks, U a value of all rows in 16 bits: what it
 * gathers or scatters beside its copy, of the gate's and up's gradient the sum beside the one at
 * hand, and what the head gathered, until its backward. */
static void ranks_have_whole_rows(void **state)
{
    (void)state;
    const remat_device d = plan_device("h100");
    const double u = 2.0 * 2 * 512 * 4096;
    const struct {
        const char *id;
        double forward, backward, saved; /* of u */
    } known[] = {{"layer0.gate", 2, 3, 0}, {"layer0.up", 1, 2, 0}, {"layer0.down", 2, 2, 0},
                 {"layer0.q", 2, 3, 0},    {"layer0.k", 1, 2, 0},  {"layer0.o", 2, 2, 0},
                 {"lm_head", 1, 2, 1},     {"embed", 2, 2, 0}};
    for (unsigned cut = 0; cut < 2; cut++) {
        const remat_network_settings s = {.batch = 2,
                                          .sequence = 512,
                                          .layers = 1,
                                          .precision = REMAT_BFLOAT16,
                                          .tensor = 4,
                                          .sequence_parallel = cut,
                                          .interconnect = &d.interconnect};
        remat_network_graph *graph = NULL;
        size_t found = 0;
        assert_int_equal(remat_network_graph_new("llama3-8b", &s, &d, &graph, NULL), REMAT_OK);
        for (size_t v = 0; v < graph->spec.n_nodes; v++)
            for (size_t i = 0; i < COUNT(known); i++) {
                const remat_node_spec *node = &graph->spec.nodes[v];
                if (strcmp(node->id, known[i].id) != 0)
                    continue;
                found++;
                assert_true(node->forward_workspace_bytes.value ==
                            (cut ? u * known[i].forward : 0));
                assert_true(node->backward_workspace_bytes.value ==
                            (cut ? u * known[i].backward : 0));
                assert_true(node->saved_bytes.value == (cut ? u * known[i].saved : 0));
            }
        assert_int_equal(found, COUNT(known));
        remat_network_graph_free(graph);
    }
}

/* Rows of one rank's experts. */
static double dispatched(remat_network_settings s, double width)
{
    const remat_device d = plan_device("h100");
    remat_network_graph *graph = NULL;
    remat_error error;
    double rows = 0;
    s.batch = 1;
    s.layers = 1;
    s.precision = REMAT_BFLOAT16;
    s.interconnect = &d.interconnect;
    if (remat_network_graph_new("mixtral-8x7b", &s, &d, &graph, &error))
        fail_msg("%s", error.message);
    for (size_t v = 0; v < graph->spec.n_nodes; v++)
        if (strcmp(graph->spec.nodes[v].op, "gather") == 0)
            rows = graph->spec.nodes[v].output_bytes.value / 2 / width;
    remat_network_graph_free(graph);
    return rows;
}

/* By trial of all choices: of `tokens` of each rank, each of `chosen` of the experts, the most that
 * those of rank 0 get. */
static unsigned most_by_trial(unsigned ranks, unsigned tokens, unsigned experts, unsigned chosen)
{
    unsigned best = 0;
    for (unsigned set = 0; set < 1u << experts; set++) { /* tokens choose alike, each its best */
        unsigned all = 0, own = 0;
        for (unsigned e = 0; e < experts; e++) {
            all += set >> e & 1;
            own += e < experts / ranks && set >> e & 1;
        }
        if (all == chosen && own > best)
            best = own;
    }
    return ranks * tokens * best;
}

/* ceil(k T / E c) of each expert (megatron moe_utils.get_capacity), whoever shares them; without a
 * capacity k T, at worst what trial finds. */
static void experts_take_their_rows(void **state)
{
    (void)state;
    static const double capacities[] = {0.5, 1, 1.25, 2};
    static const uint32_t ranks[] = {1, 2, 4, 8};
    const double width = 4096;
    for (uint32_t tokens = 1; tokens < 40; tokens += 7)
        for (uint32_t chosen = 1; chosen <= 4; chosen++)
            for (size_t i = 0; i < COUNT(ranks); i++) {
                remat_network_settings s = {.sequence = tokens, .expert = ranks[i]};
                s.sizes.experts = 8;
                s.sizes.experts_per_token = chosen;
                assert_true(dispatched(s, width) == tokens * chosen);
                s.routing.worst = true;
                assert_true(dispatched(s, width) == most_by_trial(ranks[i], tokens, 8, chosen));
                s.routing.worst = false;
                for (size_t k = 0; k < COUNT(capacities); k++) {
                    s.routing.capacity = capacities[k];
                    assert_true(dispatched(s, width) ==
                                8 * ceil(tokens * chosen * capacities[k] / 8));
                }
            }
}

/* Of Mixtral's 8 experts each of 4 ranks has 2 and the rest of a layer; zero3 over 8 ranks shares
 * experts between 2 and the rest between 8. What goes to other ranks takes time both ways, twice.
 */
static void experts_are_shared(void **state)
{
    (void)state;
    const remat_device d = plan_device("h100");
    const double expert = 3.0 * 4096 * 14336;
    const double rest = 2.0 * 32000 * 4096 + 4096 +
                        2 * (2.0 * 4096 * 4096 + 2.0 * 4096 * 1024 + 8.0 * 4096 + 2 * 4096);
    double compute[2];
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t ranks = i ? 4 : 1;
        const remat_network_settings s = {.batch = 1,
                                          .sequence = 2048,
                                          .layers = 2,
                                          .precision = REMAT_BFLOAT16,
                                          .expert = ranks,
                                          .interconnect = &d.interconnect};
        const remat_step_settings step = {.optimizer = REMAT_SGD,
                                          .precision = REMAT_BFLOAT16,
                                          .no_master = true,
                                          .parallel = REMAT_ZERO3,
                                          .ranks = 8};
        remat_network_graph *graph = NULL;
        remat_step_table t;
        double sent = 0;
        assert_int_equal(remat_network_graph_new("mixtral-8x7b", &s, &d, &graph, NULL), REMAT_OK);
        assert_int_equal(remat_step_bytes(graph->tensors, graph->n_tensors, &step, &d, &t, NULL),
                         REMAT_OK);
        assert_true(near((double)t.weights, 2 * (2 * 8 / ranks * expert / (8 / ranks) + rest / 8)));
        assert_true((double)graph->parameters == 16 * expert + rest);
        for (size_t v = 0; v < graph->spec.n_nodes; v++)
            sent += graph->sent[v];
        const double once = 1e6 * remat_collective_seconds(&d.interconnect, REMAT_ALL_TO_ALL, ranks,
                                                           1, 2.0 * 2 * 2048 * 4096);
        assert_true(near(sent, 2 * 2 * 2 * once));
        compute[i] = -sent;
        for (size_t v = 0; v < graph->spec.n_nodes; v++)
            compute[i] += graph->spec.nodes[v].forward_time.value;
        remat_network_graph_free(graph);
    }
    assert_true(compute[1] < compute[0]); /* of fewer, larger products */
}

/* ---- requests ---- */

static remat_status make(const char *text, remat_plan_draft *draft, remat_error *error)
{
    json_t *json = NULL;
    remat_plan_request request;
    remat_status status = remat_json_parse(text, strlen(text), &json, error);
    if (!status)
        status = remat_plan_request_decode(json, &request, error);
    if (!status)
        status = remat_plan_draft_make(&request, NULL, NULL, draft, error);
    json_decref(json);
    return status;
}

static void bad_ranks_name_their_field(void **state)
{
    (void)state;
    static const struct {
        const char *more, *field, *says;
    } bad[] = {
        {"{\"mesh\": {\"dp\": 0}}", "parallel.mesh.dp", "from 1 to 1048576"},
        {"{\"mesh\": {\"dp\": \"x\"}}", "parallel.mesh.dp", "number"},
        {"{\"mesh\": {\"dq\": 2}}", "parallel.mesh.dq", "did you mean dp?"},
        {"{\"mesh\": {\"tp\": 5}}", "parallel.mesh.tp", "5 ranks cannot share 12 heads"},
        {"{\"mesh\": {\"sp\": 12, \"cp\": 256}}", "parallel.mesh.sp", "cannot share 4 tokens"},
        {"{\"mesh\": {\"cp\": 3}}", "parallel.mesh.cp", "3 ranks cannot share 1024 tokens"},
        {"{\"mesh\": {\"tp\": 2, \"sp\": 2}}", "parallel.mesh.sp", "tp or sp"},
        {"{\"mesh\": {\"dp\": 8, \"shard\": 3}}", "parallel.mesh.shard", "divide dp"},
        {"{\"kind\": \"ddp\", \"mesh\": {\"dp\": 8, \"shard\": 4}}", "parallel.mesh.shard",
         "zero3"},
        {"{\"mesh\": {\"dp\": 1048576, \"tp\": 2}}", "parallel.mesh", "2097152 ranks"},
        {"{\"mesh\": {\"dp\": 8, \"ep\": 4, \"pp\": 2}, \"microbatches\": 2}", "parallel.mesh.ep",
         "with all experts"},
        {"{\"kind\": \"pipeline\", \"ranks\": 2}", "parallel.microbatches", "missing"},
        {"{\"kind\": \"pipeline\", \"ranks\": 2, \"microbatches\": 4097}", "parallel.microbatches",
         "1 to 4096"},
        {"{\"kind\": \"pipeline\", \"ranks\": 2, \"microbatches\": 0}", "parallel.microbatches",
         "1 to 4096"},
        {"{\"kind\": \"pipeline\", \"ranks\": 257, \"microbatches\": 2}", "parallel.ranks",
         "1 to 256"},
        {"{\"kind\": \"pipeline\", \"ranks\": 15, \"microbatches\": 2}", "parallel.ranks",
         "falls into 14 units"},
        {"{\"kind\": \"pipeline\", \"ranks\": 2, \"microbatches\": 2000, \"schedule\": "
         "\"gpipe\"}",
         "parallel.microbatches", "there may be 1000"},
        {"{\"kind\": \"pipeline\", \"ranks\": 2, \"microbatches\": 3, \"schedule\": "
         "\"interleaved\"}",
         "parallel.microbatches", "multiple of the 2 ranks"},
        {"{\"kind\": \"pipeline\", \"ranks\": 4, \"microbatches\": 4, \"schedule\": "
         "\"interleaved\", \"chunks\": 4}",
         "parallel.chunks", "16 stages, but the profile falls into 14 units"},
        {"{\"kind\": \"pipeline\", \"ranks\": 2, \"microbatches\": 4, \"schedule\": "
         "\"interleaved\", \"chunks\": 17}",
         "parallel.chunks", "2 to 16"},
        {"{\"kind\": \"pipeline\", \"ranks\": 2, \"microbatches\": 4, \"schedule\": "
         "\"interleaved\", \"play\": true}",
         "parallel.play", "not of interleaved"},
        {"{\"kind\": \"pipeline\", \"ranks\": 2, \"microbatches\": 4, \"chunks\": 2}",
         "parallel.chunks", "of the schedule interleaved"},
        {"{\"kind\": \"ddp\", \"ranks\": 2, \"chunks\": 2}", "parallel.kind", "of a pipeline"},
        {"{\"kind\": \"pipeline\", \"ranks\": 2, \"microbatches\": 3, \"schedule\": \"zb\"}",
         "parallel.schedule", "known are gpipe"},
        {"{\"kind\": \"pipeline\", \"ranks\": 2, \"microbatches\": 3, \"runtime\": \"jax\"}",
         "parallel.runtime", "known are pytorch"},
        {"{\"kind\": \"pipeline\", \"ranks\": 2, \"microbatches\": 3}, \"offload\": true",
         "offload", "without a way to the host"},
        {"{\"kind\": \"ddp\", \"ranks\": 2, \"microbatches\": 3}", "parallel.kind",
         "of a pipeline"},
        {"{\"kind\": \"expert\", \"ranks\": 2}", "parallel.mesh.ep", "gpt2 has no experts"},
        {"{\"mesh\": {\"dp\": 8, \"ep\": 3}}", "parallel.mesh.ep", "divide dp"},
        {"{\"mesh\": {\"dp\": 8, \"shard\": 2, \"ep\": 4}}", "parallel.mesh.ep", "divide shard"},
        {"{\"kind\": \"tensor\", \"mesh\": {\"dp\": 8}}", "parallel.kind", "beside a mesh"},
        {"{\"kind\": \"ddp\", \"ranks\": 8, \"mesh\": {\"dp\": 8}}", "parallel.ranks",
         "ranks or a mesh"},
        {"{\"ranks\": 8}", "parallel.kind", "missing"},
        {"{\"kind\": \"ddp\", \"ranks\": 8}, \"network\": \"nvlink9\"", "network",
         "did you mean nvlink"},
        {"{\"kind\": \"ddp\", \"ranks\": 8}, \"network\": \"0GB/s\"", "network", "from 1"},
        {"{\"kind\": \"ddp\", \"ranks\": 8}, \"network\": \"1GB/s@2s\"", "network", "there is no"},
        {"{\"kind\": \"ddp\", \"ranks\": 8}, \"node_ranks\": 0", "node_ranks", "from 1"},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        char text[300];
        remat_error error = {.status = REMAT_OK};
        remat_plan_draft draft = {.answer = NULL};
        snprintf(text, sizeof text,
                 "{\"model\": \"gpt2\", \"batch\": 1, \"device\": \"h100\", \"parallel\": %s}",
                 bad[i].more);
        const remat_status status = make(text, &draft, &error);
        if (status != REMAT_INVALID || strcmp(error.field, bad[i].field) != 0 ||
            !strstr(error.message, bad[i].says))
            fail_msg("%s: %s, %s", text, error.field, error.message);
        remat_plan_draft_clear(&draft);
    }
}

/* ---- pipelines of several replicas ---- */

/* Gradients are summed whole, in float32 where zero3 reduces so; weights are gathered once. */
static void stages_sum_their_gradients(void **state)
{
    (void)state;
    const remat_device d = plan_device("h100");
    const remat_tensor tensors[] = {{1024, 1024, 0, 0, REMAT_TRAINED, false},
                                    {1024, 3072, 1, 0, REMAT_TRAINED, false}};
    enum { N = 4 << 20 };
    static const double whole[REMAT_PARALLELS] = {0, 0, 0, 2 * N, 4 * N};
    for (unsigned kind = REMAT_DDP; kind < REMAT_PARALLELS; kind++) {
        remat_step_settings s = {.optimizer = REMAT_ADAMW,
                                 .precision = REMAT_BFLOAT16,
                                 .parallel = (remat_parallel)kind,
                                 .ranks = 8,
                                 .stages = 1};
        remat_step_table one, staged;
        assert_int_equal(remat_step_bytes(tensors, 2, &s, &d, &one, NULL), REMAT_OK);
        s.stages = 4;
        assert_int_equal(remat_step_bytes(tensors, 2, &s, &d, &staged, NULL), REMAT_OK);
        assert_int_equal(remat_step_ranks(&s), 32);
        assert_true((double)(staged.gradients - one.gradients) == whole[kind]);
        assert_int_equal(staged.gathered, kind == REMAT_ZERO3 ? 2 * N : 0);
        assert_int_equal(staged.update_traffic, one.update_traffic);
    }
}

/* Three units of 8 seconds to send, of 1 forward and 2 back: zero3 gathers them once, where it
 * gathers all but the first and the last again without stages. */
static void stages_gather_once(void **state)
{
    (void)state;
    const remat_interconnect way = {.within = 1, .between = 1, .node = 8};
    const remat_unit_load loads[] = {{.parameters = 8, .forward = 1, .backward = 2},
                                     {.parameters = 8, .forward = 1, .backward = 2},
                                     {.parameters = 8, .forward = 1, .backward = 2}};
    remat_step_settings s = {
        .precision = REMAT_BFLOAT16, .no_master = true, .ranks = 2, .parallel = REMAT_ZERO3};
    const remat_exchange again = remat_step_exchange(loads, 3, &s, &way, 1);
    s.stages = 2;
    const remat_exchange once = remat_step_exchange(loads, 3, &s, &way, 1);
    assert_true(fabs(again.sent - 7 * 8) < 1e-9 && fabs(once.sent - 6 * 8) < 1e-9);
    /* all are there after 24, the last forward ends at 25, the last backward but two at 27 */
    assert_true(fabs(once.exposed - (27 + 3 * 8 - 9)) < 1e-9);
}

/* ---- what has to be monotone ---- */

static const char *const models[] = {"gpt2", "llama3.2-1b", "bert-base", "resnet50"};
static const char *const devices[] = {"a100-80gb", "h100", "rtx4090", "v100-32gb", "a100-40gb"};
static const char *const kinds[] = {"ddp", "zero1", "zero2", "zero3"};

typedef struct question {
    unsigned model, device, kind;
    uint32_t batch, ranks, tensor;
    double rate; /* GB/s in a node */
} question;

typedef struct seen {
    double driver, seconds, communication, room;
} seen;

static double number(const json_t *json, const char *name)
{
    const json_t *value = json_object_get(json, name);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

/* Sums add up in every plan that is made. */
static seen look(const question *q)
{
    char text[400];
    remat_error error;
    remat_plan_draft draft = {.answer = NULL};
    const bool cut = q->tensor > 1;
    snprintf(text, sizeof text,
             "{\"model\": \"%s\", \"batch\": %u, \"device\": \"%s\", \"sweep\": false, "
             "\"solver\": \"auto\", \"network\": \"%gGB/s\", \"parallel\": {\"kind\": \"%s\", "
             "\"mesh\": {\"dp\": %u, \"tp\": %u}}%s}",
             models[q->model], q->batch, devices[q->device], q->rate, kinds[q->kind], q->ranks,
             cut ? q->tensor : 1, q->model < 3 ? ", \"layers\": 2" : "");
    if (make(text, &draft, &error))
        fail_msg("%s: %s", text, error.message);
    const json_t *a = draft.answer, *memory = json_object_get(a, "store_all_memory");
    const seen s = {number(memory, "driver_bytes"), number(a, "store_all_seconds"),
                    number(a, "communication_seconds"),
                    number(json_object_get(a, "table"), "activations")};
    const double parts = number(a, "compute_seconds") + number(a, "recomputation_seconds") +
                         s.communication + number(a, "update_seconds");
    assert_true(fabs(parts - s.seconds) < 1e-9 * s.seconds);
    assert_true(number(a, "recomputation_seconds") == 0 && number(a, "compute_seconds") > 0);
    assert_true(number(a, "sent_seconds") >= s.communication * (1 - 1e-9));
    assert_true(number(memory, "allocated_bytes") <= number(memory, "reserved_bytes"));
    remat_plan_draft_clear(&draft);
    return s;
}

static uint32_t draw(uint32_t *state, uint32_t n)
{
    *state = *state * 1664525 + 1013904223;
    return (*state >> 8) % n;
}

/* More of a batch takes more memory and time; more ranks wait no less for one another and, where
 * they share something, hold no more each; a faster network is never slower. */
static void plans_are_monotone(void **state)
{
    (void)state;
    enum { PLANS = 200 };
    uint32_t random = 35;
    for (unsigned i = 0; i < PLANS / 4; i++) {
        const question q = {.model = draw(&random, COUNT(models)),
                            .device = draw(&random, COUNT(devices)),
                            .kind = draw(&random, COUNT(kinds)),
                            .batch = 1 + draw(&random, 16),
                            .ranks = 2 + draw(&random, 30),
                            .tensor = 0,
                            .rate = 1 + draw(&random, 300)};
        question batch = q, ranks = q, rate = q;
        batch.batch += 1 + draw(&random, 8);
        ranks.ranks *= 2 + draw(&random, 4);
        rate.rate *= 2;
        const seen one = look(&q), larger = look(&batch), more = look(&ranks), faster = look(&rate);
        assert_true(larger.driver > one.driver && larger.seconds >= one.seconds);
        assert_true(larger.room <= one.room); /* by the hole that larger logits leave */
        assert_true(more.communication >= one.communication * (1 - 1e-9));
        assert_true(more.driver <= one.driver && more.room >= one.room);
        assert_true(faster.seconds <= one.seconds && faster.driver == one.driver);
    }
}

/* Less memory leaves less room. A rank among more has less of everything but norms. */
static void cuts_are_monotone(void **state)
{
    (void)state;
    for (unsigned m = 0; m < COUNT(models); m++) {
        const question q = {.model = m, .kind = 3, .batch = 2, .ranks = 4, .tensor = 1, .rate = 9};
        question tighter = q;
        tighter.device = 4; /* of the same chip */
        assert_true(look(&tighter).room < look(&q).room);
    }
    for (unsigned m = 0; m < 3; m++) {
        question q = {.model = m, .kind = 3, .batch = 2, .ranks = 4, .tensor = 1, .rate = 200};
        seen last = look(&q);
        for (q.tensor = 2; q.tensor <= 4; q.tensor *= 2) {
            const seen now = look(&q);
            assert_true(now.driver < last.driver && now.room > last.room);
            last = now;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collectives_by_hand),
        cmocka_unit_test(exchanges_by_hand),
        cmocka_unit_test(layers_keep_the_published_bytes),
        cmocka_unit_test(tensors_are_shared),
        cmocka_unit_test(ranks_have_whole_rows),
        cmocka_unit_test(experts_take_their_rows),
        cmocka_unit_test(experts_are_shared),
        cmocka_unit_test(bad_ranks_name_their_field),
        cmocka_unit_test(stages_sum_their_gradients),
        cmocka_unit_test(stages_gather_once),
        cmocka_unit_test(plans_are_monotone),
        cmocka_unit_test(cuts_are_monotone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
