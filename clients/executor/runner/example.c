/* A network of one's own under a schedule: a perceptron of 24 layers learns to imitate another one,
 * first keeping everything, then in 40 % of that memory. The losses are the same, to the last bit.
 * ninja -C build clients/executor/example && build/clients/executor/example */
#include "remat/table.h"
#include "remat_exec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LAYERS = 24, BATCH = 64, WIDTH = 48, CELLS = BATCH * WIDTH, LOSS = LAYERS, STEPS = 5 };

typedef struct perceptron {
    float weights[LAYERS][WIDTH][WIDTH],
        learnt[LAYERS][WIDTH][WIDTH]; /* parameters, their gradients */
    float wanted[CELLS];
    double loss;
} perceptron;

/* y = tanh(x W); the loss is the mean square of the distance from what is wanted. */
static int forward(void *data, const remat_exec_call *call)
{
    perceptron *net = data;
    const float *x = call->inputs[0];
    float *y = call->output;
    if (call->node == LOSS) {
        net->loss = 0;
        for (int i = 0; i < CELLS; i++)
            net->loss += (double)(x[i] - net->wanted[i]) * (x[i] - net->wanted[i]) / CELLS;
        return 0;
    }
    for (int b = 0; b < BATCH; b++)
        for (int j = 0; j < WIDTH; j++) {
            float sum = 0;
            for (int i = 0; i < WIDTH; i++)
                sum += x[b * WIDTH + i] * net->weights[call->node][i][j];
            y[b * WIDTH + j] = tanhf(sum);
        }
    return 0;
}

static int backward(void *data, const remat_exec_call *call)
{
    perceptron *net = data;
    const float *x = call->inputs[0], *y = call->output, *dy = call->gradient;
    float *dx = call->input_gradients[0];
    if (call->node == LOSS) {
        for (int i = 0; i < CELLS; i++)
            dx[i] = 2 * (x[i] - net->wanted[i]) / CELLS;
        return 0;
    }
    float *slope = call->workspace;
    for (int i = 0; i < CELLS; i++) /* dy times the slope of tanh */
        slope[i] = dy[i] * (1 - y[i] * y[i]);
    memset(net->learnt[call->node], 0, sizeof net->learnt[call->node]);
    for (int b = 0; b < BATCH; b++)
        for (int i = 0; i < WIDTH; i++) {
            float sum = 0;
            for (int j = 0; j < WIDTH; j++) {
                net->learnt[call->node][i][j] += x[b * WIDTH + i] * slope[b * WIDTH + j];
                sum += slope[b * WIDTH + j] * net->weights[call->node][i][j];
            }
            if (dx)
                dx[b * WIDTH + i] = sum;
        }
    return 0;
}

/* The same facts a profile file would state; times need only be right relative to each other. */
static remat_status make_profile(remat_profile **ret_profile, remat_error *error)
{
    static char ids[LAYERS + 1][16];
    static const char *inputs[LAYERS + 1];
    static remat_node_spec nodes[LAYERS + 1];
    const remat_number bytes = {CELLS * sizeof(float), true}, none = {0, true}, one = {1, true};
    const remat_input_spec input = {.id = "x", .bytes = bytes};
    for (int v = 0; v <= LAYERS; v++) {
        snprintf(ids[v], sizeof ids[v], v < LAYERS ? "layer %d" : "loss", v);
        inputs[v] = v ? ids[v - 1] : "x";
        nodes[v] = (remat_node_spec){.id = ids[v],
                                     .inputs = &inputs[v],
                                     .n_inputs = 1,
                                     .forward_time = one,
                                     .output_bytes = v < LAYERS ? bytes : none,
                                     .backward_workspace_bytes = v < LAYERS ? bytes : none,
                                     .backward_uses_inputs = true,
                                     .backward_uses_output = v < LAYERS};
    }
    const remat_profile_spec spec = {.format = "remat-profile/1",
                                     .name = "perceptron",
                                     .inputs = &input,
                                     .n_inputs = 1,
                                     .nodes = nodes,
                                     .n_nodes = LAYERS + 1};
    return remat_profile_new(&spec, ret_profile, error);
}

static remat_status train(const remat_profile *profile, uint64_t budget, remat_error *error)
{
    static perceptron net;
    static float x[CELLS], *weights = &net.weights[0][0][0], *learnt = &net.learnt[0][0][0];
    const void *graph_inputs[] = {x};
    const remat_exec_network network = {&net, forward, backward, NULL, NULL, graph_inputs};
    remat_plan plan = {0};
    remat_runner *runner = NULL;
    remat_status status =
        remat_plan_solve(profile, NULL, budget, NULL, REMAT_DEFAULT_ALIGNMENT, &plan, error);
    status =
        status ? status
               : remat_runner_new(&plan, &network, remat_exec_memory_backend(), 0, &runner, error);
    for (int i = 0; i < CELLS; i++) {
        x[i] = sinf((float)i);
        net.wanted[i] = sinf(3 * x[i]);
    }
    for (int i = 0; i < LAYERS * WIDTH * WIDTH; i++)
        weights[i] = 0.22f * cosf((float)i * (float)i);
    if (!status)
        printf("arena %llu bytes, %zu operations, losses", (unsigned long long)plan.layout.arena,
               plan.operations.length);
    for (int step = 0; step < STEPS && !status; step++) {
        status = remat_runner_step(runner, error);
        for (int i = 0; i < LAYERS * WIDTH * WIDTH; i++) /* gradient descent */
            weights[i] -= 0.1f * learnt[i];
        printf(" %.9g", net.loss);
    }
    putchar('\n');
    remat_runner_free(runner);
    remat_plan_clear(&plan);
    return status;
}

int main(void)
{
    remat_profile *profile = NULL;
    remat_error error = {0};
    uint64_t peak = 0;
    remat_status status = make_profile(&profile, &error);
    status = status ? status : remat_store_all_peak(profile, &peak, &error);
    status = status ? status : train(profile, peak, &error);
    status = status ? status : train(profile, peak * 2 / 5, &error);
    remat_profile_free(profile);
    if (status)
        fprintf(stderr, "example: %s\n", error.message);
    return status ? 1 : 0;
}
