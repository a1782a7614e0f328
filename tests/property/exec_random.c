/* The runner of schedules on networks whose values are bytes: sums modulo 256 do not depend on
 * their order, so every valid schedule of a profile gives the same bits. Each node's output is a
 * digest of all bytes of its inputs and of the states it reads, and so is what it writes to states;
 * a backward digests all it may read. So a value
 * that was dropped too early, put in the wrong place or overwritten changes the result. Compared
 * with an evaluation that keeps everything apart. */
#include "property/joint_random.h"

#include "api.h"
#include "remat/table.h"
#include "remat_exec.h"

enum { PROFILES = 600, SEED = 8 };

/* ---- the network ---- */

typedef struct network {
    const remat_profile *profile;
    uint8_t *inputs[16], *states[16];
    uint64_t results[64]; /* by node: what its parameters would learn */
    uint32_t backwards;
    uint32_t spoil; /* node whose forward writes a byte too many; UINT32_MAX: none */
    uint32_t fail;  /* node whose backward fails; UINT32_MAX: none */
} network;

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0xd6e8feb86659fd93);
    return hash ^ hash >> 29;
}

static uint64_t digest(uint64_t hash, const void *bytes, uint64_t length)
{
    for (uint64_t i = 0; bytes && i < length; i++)
        hash = mix(hash, ((const uint8_t *)bytes)[i] + 1u);
    return mix(hash, length);
}

static uint64_t value_bytes(const remat_profile *p, uint32_t value)
{
    return value < p->n_nodes ? p->nodes[value].output_bytes : p->inputs[value - p->n_nodes].bytes;
}

static uint64_t gradient_bytes(const remat_profile *p, uint32_t value)
{
    return value < p->n_nodes ? p->nodes[value].gradient_bytes
                              : p->inputs[value - p->n_nodes].gradient_bytes;
}

static uint64_t digest_inputs(const network *net, const remat_exec_call *call)
{
    const remat_node *node = &net->profile->nodes[call->node];
    uint64_t hash = call->node;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        hash = digest(hash, call->inputs[i], value_bytes(net->profile, node->inputs[i]));
    return hash;
}

static void use_workspace(const remat_exec_call *call)
{
    if (call->workspace_bytes > 0)
        memset(call->workspace, 0x5a, call->workspace_bytes);
}

static int run_forward(void *data, const remat_exec_call *call)
{
    network *net = data;
    const remat_node *node = &net->profile->nodes[call->node];
    uint64_t hash = digest_inputs(net, call);
    use_workspace(call);
    for (uint32_t i = 0; i < node->n_reads; i++)
        hash =
            digest(hash, net->states[node->reads[i]], net->profile->states[node->reads[i]].bytes);
    for (uint32_t i = 0; i < node->n_writes; i++)
        for (uint64_t k = 0; k < net->profile->states[node->writes[i]].bytes; k++)
            net->states[node->writes[i]][k] = (uint8_t)mix(hash, k + i);
    for (uint64_t k = 0; k < node->output_bytes; k++)
        ((uint8_t *)call->output)[k] = (uint8_t)mix(hash, k);
    for (uint64_t k = 0; call->save && k < node->saved_bytes; k++)
        ((uint8_t *)call->saved)[k] = (uint8_t)mix(hash, ~k);
    if (call->node == net->spoil)
        ((uint8_t *)call->output)[node->output_bytes]++;
    return 0;
}

static int run_backward(void *data, const remat_exec_call *call)
{
    network *net = data;
    const remat_node *node = &net->profile->nodes[call->node];
    if (call->node == net->fail)
        return 7;
    if (node->n_consumers == 0 && node->gradient_bytes > 0)
        memset(call->gradient, 1, node->gradient_bytes);
    uint64_t hash = digest_inputs(net, call);
    hash = digest(hash, call->output, call->output ? node->output_bytes : 0);
    hash = digest(hash, call->saved, call->saved ? node->saved_bytes : 0);
    uint8_t sum = 1;
    for (uint64_t k = 0; k < node->gradient_bytes; k++)
        sum = (uint8_t)(sum + (k + 1) * ((const uint8_t *)call->gradient)[k]);
    net->results[call->node] = mix(hash, sum);
    net->backwards++;
    use_workspace(call);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        uint8_t *to = call->input_gradients[i];
        for (uint64_t k = 0; to && k < gradient_bytes(net->profile, node->inputs[i]); k++)
            to[k] = (uint8_t)((call->accumulate[i] ? to[k] : 0) + sum * (uint8_t)mix(hash + i, k));
    }
    return 0;
}

static int save_state(void *data, uint32_t state, void *to)
{
    network *net = data;
    if (net->profile->states[state].bytes > 0)
        memcpy(to, net->states[state], net->profile->states[state].bytes);
    return 0;
}

static int restore_state(void *data, uint32_t state, const void *from)
{
    network *net = data;
    if (net->profile->states[state].bytes > 0)
        memcpy(net->states[state], from, net->profile->states[state].bytes);
    return 0;
}

static void fill_pattern(uint8_t *bytes, uint64_t length, uint64_t seed)
{
    for (uint64_t k = 0; k < length; k++)
        bytes[k] = (uint8_t)mix(seed, k);
}

static network network_new(const remat_profile *p)
{
    network net = {.profile = p, .spoil = UINT32_MAX, .fail = UINT32_MAX};
    assert_true(p->n_inputs <= 16 && p->n_states <= 16 && p->n_nodes <= 64);
    for (uint32_t k = 0; k < p->n_inputs; k++) {
        net.inputs[k] = malloc(p->inputs[k].bytes + 1);
        fill_pattern(net.inputs[k], p->inputs[k].bytes, k);
    }
    for (uint32_t k = 0; k < p->n_states; k++) {
        net.states[k] = malloc(p->states[k].bytes + 1);
        fill_pattern(net.states[k], p->states[k].bytes, ~k);
    }
    return net;
}

static void network_clear(network *net)
{
    for (uint32_t k = 0; k < 16; k++) {
        free(net->inputs[k]);
        free(net->states[k]);
    }
}

/* ---- everything kept apart ---- */

typedef struct reference {
    uint64_t results[64], gradients, states;
} reference;

static uint64_t digest_states(const network *net)
{
    uint64_t hash = 0;
    for (uint32_t k = 0; k < net->profile->n_states; k++)
        hash = digest(hash, net->states[k], net->profile->states[k].bytes);
    return hash;
}

static reference evaluate(const remat_profile *p)
{
    network net = network_new(p);
    uint32_t values = p->n_nodes + p->n_inputs;
    uint8_t *outputs[80], *saved[64], *gradients[80];
    bool started[80] = {false};
    for (uint32_t v = 0; v < values; v++) {
        outputs[v] =
            v < p->n_nodes ? calloc(1, p->nodes[v].output_bytes + 1) : net.inputs[v - p->n_nodes];
        gradients[v] = calloc(1, gradient_bytes(p, v) + 1);
    }
    for (uint32_t v = 0; v < p->n_nodes; v++)
        saved[v] = calloc(1, p->nodes[v].saved_bytes + 1);
    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < p->n_nodes; i++) {
            uint32_t v = pass ? p->n_nodes - 1 - i : i;
            const remat_node *node = &p->nodes[v];
            const void *inputs[64];
            void *wanted[64];
            bool accumulate[64];
            bool reads = !pass || node->backward_uses_inputs;
            for (uint32_t k = 0; k < node->n_inputs; k++) {
                uint32_t w = node->inputs[k];
                inputs[k] = reads && value_bytes(p, w) > 0 ? outputs[w] : NULL;
                wanted[k] = gradient_bytes(p, w) > 0 ? gradients[w] : NULL;
                accumulate[k] = started[w];
                started[w] = started[w] || pass;
            }
            bool sees_output = (!pass || node->backward_uses_output) && node->output_bytes > 0;
            const remat_exec_call call = {.node = v,
                                          .save = true,
                                          .inputs = inputs,
                                          .output = sees_output ? outputs[v] : NULL,
                                          .saved = node->saved_bytes ? saved[v] : NULL,
                                          .gradient = gradients[v],
                                          .input_gradients = wanted,
                                          .accumulate = accumulate};
            assert_int_equal((pass ? run_backward : run_forward)(&net, &call), 0);
        }
    reference r = {.states = digest_states(&net)};
    memcpy(r.results, net.results, sizeof r.results);
    for (uint32_t k = 0; k < p->n_inputs; k++)
        if (p->inputs[k].gradient_bytes > 0 && p->inputs[k].n_consumers > 0)
            r.gradients =
                digest(r.gradients, gradients[p->n_nodes + k], p->inputs[k].gradient_bytes);
    for (uint32_t v = 0; v < values; v++) {
        free(gradients[v]);
        if (v < p->n_nodes)
            free(outputs[v]);
        if (v < p->n_nodes)
            free(saved[v]);
    }
    network_clear(&net);
    return r;
}

/* ---- schedules against it ---- */

static remat_status run_plan(const remat_plan *plan, network *net, unsigned flags,
                             remat_runner **ret_runner, remat_error *error)
{
    const remat_exec_network calls = {.data = net,
                                      .forward = run_forward,
                                      .backward = run_backward,
                                      .save_state = save_state,
                                      .restore_state = restore_state,
                                      .graph_inputs = (const void *const *)net->inputs};
    static remat_exec_network kept; /* outlives the runner, as it must */
    kept = calls;
    remat_status status =
        remat_runner_new(plan, &kept, remat_exec_memory_backend(), flags, ret_runner, error);
    return status ? status : remat_runner_step(*ret_runner, error);
}

static void compare(const remat_plan *plan, const reference *expected)
{
    const remat_profile *p = plan->profile;
    network net = network_new(p);
    remat_runner *runner = NULL;
    remat_error error = {0};
    if (run_plan(plan, &net, REMAT_EXEC_GUARD, &runner, &error)) {
        print_list(&plan->operations);
        fail_msg("%s", error.message);
    }
    assert_int_equal(remat_runner_arena(runner), plan->layout.arena);
    assert_int_equal(net.backwards, p->n_nodes);
    assert_true(digest_states(&net) == expected->states);
    uint64_t gradients = 0;
    for (uint32_t k = 0; k < p->n_inputs; k++)
        if (p->inputs[k].gradient_bytes > 0 && p->inputs[k].n_consumers > 0)
            gradients = digest(gradients, remat_runner_input_gradient(runner, k),
                               p->inputs[k].gradient_bytes);
    bool same = gradients == expected->gradients &&
                memcmp(net.results, expected->results, p->n_nodes * sizeof *net.results) == 0;
    if (!same) {
        print_list(&plan->operations);
        fail_msg("the schedule gives other gradients");
    }
    remat_runner_free(runner);
    network_clear(&net);
}

static const shape small = {.most_nodes = 7, .states = true};

static void random_lists(void **state)
{
    (void)state;
    dice d = {SEED};
    for (int n = 0; n < PROFILES; n++) {
        remat_profile *p = random_profile(&d, &small);
        reference expected = evaluate(p);
        for (int k = 0; k < 6; k++) {
            bool linked = k % 2;
            remat_link link = random_link(&d);
            remat_operations list = random_whole_list(&d, p, linked);
            remat_plan plan;
            remat_error error = {0};
            if (remat_plan_make(p, &list, linked ? &link : NULL, k < 3 ? 1 : 16, &plan, &error))
                fail_msg("%s", error.message);
            compare(&plan, &expected);
            remat_plan_clear(&plan);
            remat_operations_clear(&list);
        }
        remat_profile_free(p);
    }
}

/* Every solver that accepts the profile, at each of its budgets. */
static void every_solver(void **state)
{
    (void)state;
    dice d = {SEED + 1};
    size_t n_solvers, ran = 0;
    const remat_solver *const *solvers = remat_solvers(&n_solvers);
    for (int n = 0; n < 150; n++) {
        remat_profile *p = random_profile(&d, &small);
        reference expected = evaluate(p);
        remat_link link = random_link(&d);
        for (size_t i = 0; i < n_solvers; i++) {
            remat_problem problem = {.profile = p, .max_budget = 4000};
            problem.options = remat_options_default(solvers[i]);
            problem.link = solvers[i]->accepts & REMAT_NEEDS_LINK ? &link : NULL;
            remat_table *table = NULL;
            size_t points;
            if (remat_solver_accepts(solvers[i], &problem, NULL) ||
                remat_tabulate(solvers[i], &problem, NULL, &table, NULL))
                continue;
            const remat_point *frontier = remat_table_frontier(table, &points);
            for (size_t k = 0; k < points && k < 5; k++, ran++) {
                remat_schedule schedule;
                remat_plan plan;
                remat_error error = {0};
                assert_int_equal(
                    remat_table_trace(table, &problem, k, frontier[k].peak, &schedule, NULL),
                    REMAT_OK);
                if (remat_plan_make(p, &schedule.operations, problem.link, 1, &plan, &error))
                    fail_msg("%s", error.message);
                assert_true(plan.peak == frontier[k].peak);
                compare(&plan, &expected);
                remat_plan_clear(&plan);
                remat_schedule_clear(&schedule);
            }
            remat_table_free(table);
        }
        remat_profile_free(p);
    }
    assert_true(ran > 1000);
}

static json_t *encode(const remat_profile *p, const remat_plan *plan)
{
    json_t *json = json_pack("{s:o, s:i, s:o}", "operations",
                             remat_operations_encode(&plan->operations, plan->profile), "alignment",
                             (int)plan->layout.alignment, "allocations",
                             remat_allocations_encode(&plan->layout));
    assert_non_null(json);
    (void)p;
    return json;
}

/* ---- joint graphs ---- */

static void fill_result(const remat_profile *p, uint32_t v, uint32_t k, uint64_t hash, uint8_t *to)
{
    fill_pattern(to, remat_value_bytes(p, remat_result_value(p, v, k)), mix(hash, k));
}

static int run_joint(void *data, const remat_exec_call *call)
{
    const network *net = data;
    const remat_node *node = &net->profile->nodes[call->node];
    uint64_t hash = call->node;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        hash = digest(hash, call->inputs[i], remat_value_bytes(net->profile, node->inputs[i]));
    use_workspace(call);
    assert_ptr_equal(call->output, call->outputs[0]);
    for (uint32_t k = 0; k < node->n_outputs; k++)
        fill_result(net->profile, call->node, k, hash, call->outputs[k]);
    return 0;
}

/* By output of the profile, everything kept apart. */
static void evaluate_joint(const remat_profile *p, uint64_t *ret_digests)
{
    network net = network_new(p);
    uint8_t *values[64];
    for (uint32_t value = 0; value < p->n_nodes + p->n_results; value++)
        values[value] = calloc(1, remat_value_bytes(p, value) + 1);
    for (uint32_t v = 0; v < p->n_nodes; v++) {
        const void *inputs[64];
        void *outputs[8];
        for (uint32_t i = 0; i < p->nodes[v].n_inputs; i++)
            inputs[i] = values[p->nodes[v].inputs[i]];
        for (uint32_t k = 0; k < p->nodes[v].n_outputs; k++)
            outputs[k] = values[remat_result_value(p, v, k)];
        const remat_exec_call call = {
            .node = v, .inputs = inputs, .outputs = outputs, .output = outputs[0]};
        assert_int_equal(run_joint(&net, &call), 0);
    }
    for (uint32_t k = 0; k < p->n_outputs; k++)
        ret_digests[k] = digest(0, values[p->outputs[k]], remat_value_bytes(p, p->outputs[k]));
    for (uint32_t value = 0; value < p->n_nodes + p->n_results; value++)
        free(values[value]);
    network_clear(&net);
}

/* Runs in an order that their inputs allow; further runs of any that may, anywhere after. */
static void random_runs(dice *d, const remat_profile *p, remat_operations *runs)
{
    bool ran[JOINT_NODES] = {false};
    for (uint32_t left = p->n_nodes; left > 0;) {
        uint32_t v = below(d, p->n_nodes);
        bool ready = !ran[v] || (!p->nodes[v].once && chance(d, 30));
        for (uint32_t i = 0; i < p->nodes[v].n_inputs; i++)
            ready = ready && ran[remat_value_node(p, p->nodes[v].inputs[i])];
        if (!ready)
            continue;
        assert_int_equal(remat_push(runs, REMAT_F, v), REMAT_OK);
        left -= !ran[v];
        ran[v] = true;
    }
}

static void joint_plans(void **state)
{
    (void)state;
    dice d = {SEED + 9};
    size_t several = 0, again = 0;
    for (int n = 0; n < 400; n++) {
        remat_profile *p = random_joint(&d, JOINT_NODES, n % 2);
        uint64_t expected[4 * JOINT_NODES];
        evaluate_joint(p, expected);
        several += p->n_results > 0;
        for (int k = 0; k < 4; k++) {
            remat_operations runs = {0}, list = {0};
            remat_plan made, plan;
            remat_error error = {0};
            random_runs(&d, p, &runs);
            again += runs.length > p->n_nodes;
            if (remat_liveness(p, &runs, &list, &error) ||
                remat_plan_make(p, &list, NULL, k % 2 ? 16 : 1, &made, &error))
                fail_msg("%s", error.message);
            json_t *json = encode(p, &made);
            if (remat_plan_read(p, json, &plan, &error))
                fail_msg("%s", error.message);
            assert_true(plan.layout.arena == made.layout.arena);
            network net = network_new(p);
            const remat_exec_network calls = {.data = &net,
                                              .forward = run_joint,
                                              .graph_inputs = (const void *const *)net.inputs};
            remat_runner *runner = NULL;
            if (remat_runner_new(&plan, &calls, remat_exec_memory_backend(), REMAT_EXEC_GUARD,
                                 &runner, &error) ||
                remat_runner_step(runner, &error))
                fail_msg("%s", error.message);
            for (uint32_t i = 0; i < p->n_outputs; i++)
                assert_true(digest(0, remat_runner_output(runner, i),
                                   remat_value_bytes(p, p->outputs[i])) == expected[i]);
            remat_runner_free(runner);
            network_clear(&net);
            json_decref(json);
            remat_plan_clear(&plan);
            remat_plan_clear(&made);
            remat_operations_clear(&list);
            remat_operations_clear(&runs);
        }
        remat_profile_free(p);
    }
    assert_true(several > 100 && again > 400);
}

/* ---- what must not pass ---- */

static remat_plan store_all_plan(const remat_profile *p)
{
    const remat_problem problem = {.profile = p, .max_budget = UINT64_MAX};
    const remat_solver *solver = remat_solver_find("store-all");
    remat_table *table = NULL;
    remat_schedule schedule;
    remat_plan plan;
    assert_int_equal(remat_tabulate(solver, &problem, NULL, &table, NULL), REMAT_OK);
    assert_int_equal(remat_table_trace(table, &problem, 0, UINT64_MAX, &schedule, NULL), REMAT_OK);
    assert_int_equal(remat_plan_make(p, &schedule.operations, NULL, 64, &plan, NULL), REMAT_OK);
    remat_schedule_clear(&schedule);
    remat_table_free(table);
    return plan;
}

static void faults_are_named(void **state)
{
    (void)state;
    dice d = {SEED + 2};
    int spoiled = 0;
    for (int n = 0; n < 100; n++) {
        remat_profile *p = random_profile(&d, &small);
        remat_plan plan = store_all_plan(p);
        network net = network_new(p);
        remat_runner *runner = NULL;
        remat_error error = {0};
        net.fail = p->n_nodes - 1;
        assert_int_equal(run_plan(&plan, &net, 0, &runner, &error), REMAT_INTERNAL);
        assert_non_null(strstr(error.message, p->nodes[net.fail].id));
        assert_non_null(strstr(error.message, "returned 7"));
        remat_runner_free(runner);
        net.fail = UINT32_MAX;
        net.spoil = 0;
        /* with an alignment of 64 the byte behind a value belongs to nothing, mostly */
        if (p->nodes[0].output_bytes % 64 != 0) {
            remat_status status = run_plan(&plan, &net, REMAT_EXEC_GUARD, &runner, &error);
            spoiled += status == REMAT_INTERNAL && strstr(error.message, "belongs to nothing");
            remat_runner_free(runner);
        }
        network_clear(&net);
        remat_plan_clear(&plan);
        remat_profile_free(p);
    }
    assert_true(spoiled > 50);
}

/* ---- schedules as the service sends them ---- */

static void check_refused(const remat_profile *p, json_t *json, const char *field)
{
    remat_plan plan;
    remat_error error = {0};
    assert_int_equal(remat_plan_read(p, json, &plan, &error), REMAT_INVALID);
    if (strncmp(error.field, field, strlen(field)) != 0)
        fail_msg("field %s, not %s: %s", error.field, field, error.message);
    json_decref(json);
}

static void plans_are_read(void **state)
{
    (void)state;
    dice d = {SEED + 3};
    for (int n = 0; n < 60; n++) {
        remat_profile *p = random_profile(&d, &small);
        remat_plan made = store_all_plan(p), read;
        reference expected = evaluate(p);
        json_t *json = encode(p, &made);
        remat_error error = {0};
        if (remat_plan_read(p, json, &read, &error))
            fail_msg("%s", error.message);
        assert_true(read.layout.arena == made.layout.arena && read.peak == made.peak);
        compare(&read, &expected);
        remat_plan_clear(&read);

        json_t *broken = json_deep_copy(json);
        json_array_remove(json_object_get(broken, "operations"), 0);
        check_refused(p, broken, "operations");
        broken = json_deep_copy(json);
        json_array_remove(json_object_get(broken, "allocations"), 0);
        check_refused(p, broken, "allocations");
        broken = json_deep_copy(json);
        json_object_del(broken, "operations");
        check_refused(p, broken, "operations");
        if (made.layout.n > 1 && made.layout.items[1].first == -1) {
            broken = json_deep_copy(json); /* two resident inputs in one place */
            json_t *second = json_array_get(json_object_get(broken, "allocations"), 1);
            json_array_set_new(second, 3, json_integer((json_int_t)made.layout.items[0].offset));
            check_refused(p, broken, "");
        }
        json_decref(json);
        remat_plan_clear(&made);
        remat_profile_free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_lists), cmocka_unit_test(every_solver),
        cmocka_unit_test(joint_plans), cmocka_unit_test(faults_are_named),
        cmocka_unit_test(plans_are_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
