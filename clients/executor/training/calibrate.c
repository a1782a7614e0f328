/* What the kernels of a CPU reach, by class and size: small networks train on it, every node is
 * timed where it runs, and what each class took becomes its curve. */
#include "training.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_SAMPLES = 256, BINS = 6, ROUNDS = 5 };

/* What a class did: so many operations or bytes in so many seconds. */
typedef struct sample {
    double size, seconds;
} sample;

typedef struct samples {
    sample list[REMAT_KERNEL_CLASSES][2][MOST_SAMPLES]; /* forward, backward */
    unsigned n[REMAT_KERNEL_CLASSES][2];
} samples;

static void add(samples *s, remat_kernel_class kind, bool backward, double size, double seconds)
{
    unsigned *n = &s->n[kind][backward];
    if (*n < MOST_SAMPLES && size > 0 && seconds > 0)
        s->list[kind][backward][(*n)++] = (sample){size, seconds};
}

/* ---- networks ---- */

/* Images: every kind of node at four sizes. */
static void build_images(net_graph *net, uint32_t batch, uint32_t channels, uint32_t side)
{
    net_tensor x = net_image(net, "image", batch, 3, side, side);
    x = net_conv(net, x, channels, 3, 1, 1, 1, false);
    for (uint32_t i = 0; i < 4; i++) {
        net_scope(net, "stage%u", i);
        net_tensor y = net_batch_norm(net, net_conv(net, x, x.c, 1, 1, 0, 1, false), true);
        y = net_relu(net, net_conv(net, y, x.c, 3, 1, 1, 1, false));
        y = net_add(net, net_batch_norm(net, y, false), x, true);
        y = net_conv(net, y, 2 * x.c, 1, 1, 0, 1, false);
        x = net_max_pool(net, y, 3, 2, 1);
    }
    net_scope(net, "head");
    x = net_linear(net, net_global_pool(net, x), 100, true);
    net_cross_entropy(net, x, net_ids(net, "label", batch, 100));
}

static void build_sequences(net_graph *net, uint32_t batch, uint32_t time, uint32_t width)
{
    net_scope(net, "stem");
    net_tensor x = net_embedding(net, net_ids(net, "tokens", batch * time, 256), width, time);
    for (uint32_t i = 0; i < 2; i++) {
        net_scope(net, "block%u", i);
        net_tensor y = net_linear(net, net_layer_norm(net, x), 3 * width, true);
        y = net_linear(net, net_attention(net, y, width / 32, time, true), width, true);
        x = net_add(net, net_dropout(net, y, 0.1f), x, false);
        y = net_gelu(net, net_linear(net, net_layer_norm(net, x), 4 * width, true));
        x = net_add(net, net_dropout(net, net_linear(net, y, width, true), 0.1f), x, false);
    }
    net_scope(net, "head");
    net_cross_entropy(net, net_linear(net, x, 256, false), net_ids(net, "next", batch * time, 256));
}

/* ---- what a node did ---- */

static double numbers(net_tensor x)
{
    return (double)net_numbers(x);
}

/* Of convolutions the products alone where the image is its own columns; of others what is left
 * when those are taken away: gathering, and backward scattering too. */
static void add_conv(samples *s, const remat_device *partly, const net_node *node,
                     const node_times *t)
{
    const net_tensor x = node->inputs[0], y = node->output;
    const double inner = (double)x.c * node->kernel * node->kernel, pixels = (double)y.h * y.w;
    const double flops = 2 * inner * pixels * y.c, calls = x.n;
    if (node->kernel == 1 && node->stride == 1) {
        add(s, REMAT_CONVOLUTION, false, flops, t->forward[0] / calls);
        add(s, REMAT_CONVOLUTION, true, flops, t->backward[0] / calls / 2);
        return;
    }
    if (!partly || x.value & NET_INPUT || pixels < 200) /* small ones are bound by packing */
        return;
    const double columns = sizeof(float) * inner * pixels;
    const double bytes = sizeof(float) * (inner * pixels + inner * y.c + pixels * y.c);
    const remat_kernel product = {
        .kind = REMAT_CONVOLUTION, .precision = REMAT_FLOAT32, .flops = flops, .bytes = bytes};
    const double gathered = t->forward[0] / calls - remat_kernel_seconds(partly, &product);
    add(s, REMAT_GATHER, false, 2 * columns, gathered);
    const double both = t->backward[0] / calls - 2 * remat_kernel_seconds(partly, &product);
    add(s, REMAT_GATHER, true, 3 * columns, both - gathered);
}

static void add_linear(samples *s, const net_node *node, const node_times *t)
{
    const net_tensor x = node->inputs[0];
    const double flops = 2 * numbers(x) * node->output.c;
    if (x.n < 64) /* few rows: bound by memory */
        return;
    add(s, REMAT_MATRIX, false, flops, t->forward[0]);
    add(s, REMAT_MATRIX, true, flops, t->backward[0] / 2);
}

/* partly: what is known of the products already; NULL: nothing. */
static void add_node(samples *s, const remat_device *partly, const net_node *node,
                     const node_times *t)
{
    const double in = sizeof(float) * numbers(node->inputs[0]);
    const double out = sizeof(float) * numbers(node->output);
    remat_kernel_class kind = REMAT_POINTWISE;
    double forward = 2 * in, backward = 2 * in;
    switch (node->kind) {
    case NET_CONV:
        add_conv(s, partly, node, t);
        return;
    case NET_LINEAR:
        add_linear(s, node, t);
        return;
    case NET_BATCH_NORM:
        kind = REMAT_NORMALISATION;
        forward = 4 * in;
        backward = 5 * in;
        break;
    case NET_GELU:
    case NET_DROPOUT:
        kind = REMAT_ACTIVATION;
        break;
    case NET_ADD: /* behind a rectifier its backward picks */
        forward = 3 * in;
        backward = node->relu ? 4 * in : 0;
        break;
    case NET_RELU:
        break;
    case NET_MAX_POOL:
        kind = REMAT_POOLING;
        forward = backward = in + out * node->kernel * node->kernel;
        break;
    default: /* what is no class of its own */
        return;
    }
    add(s, kind, false, forward, t->forward[0]);
    add(s, kind, true, backward, t->backward[0]);
}

/* ---- running ---- */

static remat_status run_network(net_graph *net, const kernel_backend *backend, node_times *times,
                                remat_error *error)
{
    model m;
    const training_settings settings = {.seed = 1};
    remat_status status = model_init(&m, net, backend, error);
    if (status)
        return status;
    status =
        training_measure(&m, UINT64_C(1) << 50, ROUNDS, true, &settings, NULL, NULL, times, error);
    model_clear(&m);
    return status;
}

/* Copies of some sizes, each many times: seconds of one. */
static void time_copies(samples *s, const kernel_backend *backend, char *room, size_t most)
{
    for (size_t bytes = 1 << 12; bytes <= most; bytes *= 4) {
        const unsigned times = (unsigned)((most >> 1) / bytes) + 4;
        kernel_mark from = {0}, to = {0};
        double seconds = 0;
        (void)backend->memory->copy(backend->memory->data, room + most, room, bytes);
        (void)backend->mark(&from);
        for (unsigned i = 0; i < times; i++)
            (void)backend->memory->copy(backend->memory->data, room + most, room, bytes);
        (void)backend->mark(&to);
        (void)backend->between(&from, &to, &seconds);
        add(s, REMAT_COPY, false, 2 * (double)bytes, seconds / times);
    }
}

/* ---- curves ---- */

static int compare_samples(const void *a, const void *b)
{
    const sample *x = a, *y = b;
    return (x->size > y->size) - (x->size < y->size);
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A point behind those of a curve, lowered where it would let a larger kernel take less time. */
static void put_point(remat_efficiency *curve, double size, double fraction)
{
    const unsigned k = curve->n;
    if (k > 0 && size <= curve->size[k - 1])
        return;
    double most = 4;
    if (k > 0)
        most = fmin(most, curve->fraction[k - 1] * size / curve->size[k - 1] * (1 - 1e-9));
    curve->size[k] = size;
    curve->fraction[k] = fmin(fraction, most);
    curve->n++;
}

/* The medians of samples of like sizes. rate: of the whole class. */
static void take_curve(sample *list, unsigned n, double rate, remat_efficiency *curve)
{
    double fractions[MOST_SAMPLES];
    const unsigned share = (n + BINS - 1) / BINS;
    curve->n = 0;
    qsort(list, n, sizeof *list, compare_samples);
    for (unsigned from = 0, end; from < n; from = end) {
        double size = 0;
        for (end = from;
             end < n && (end < from + share || list[end].size <= list[from].size * 1.01); end++) {
            fractions[end - from] = list[end].size / (list[end].seconds * rate);
            size += log(list[end].size);
        }
        qsort(fractions, end - from, sizeof *fractions, compare_doubles);
        put_point(curve, floor(exp(size / (end - from))), fractions[(end - from) / 2]);
    }
}

static void take_curves(samples *s, remat_device *device, unsigned first, unsigned end)
{
    for (unsigned k = first; k < end; k++)
        for (unsigned back = 0; back < 2; back++)
            if (s->n[k][back] > 0)
                take_curve(s->list[k][back], s->n[k][back],
                           k <= REMAT_ATTENTION ? device->rate[REMAT_FLOAT32] : device->bandwidth,
                           back ? &device->backward[k] : &device->forward[k]);
}

/* The largest rate of some classes. */
static double best_rate(const samples *s, unsigned first, unsigned end)
{
    double best = 0;
    for (unsigned k = first; k < end; k++)
        for (unsigned i = 0; i < s->n[k][0]; i++)
            best = fmax(best, s->list[k][0][i].size / s->list[k][0][i].seconds);
    return best;
}

/* ---- everything ---- */

static const struct {
    uint32_t batch, a, b; /* channels and side, or time and width */
    bool sequences;
} trials[] = {{4, 16, 48, false}, {4, 48, 40, false}, {8, 32, 24, false}, {2, 64, 64, false},
              {2, 32, 64, true},  {4, 64, 192, true}, {4, 96, 512, true}};
enum { TRIALS = sizeof trials / sizeof *trials };

typedef struct trial {
    net_graph net;
    node_times *times;
} trial;

static remat_status run_trial(trial *t, size_t i, const kernel_backend *backend, remat_error *error)
{
    net_begin(&t->net, "calibration");
    (trials[i].sequences ? build_sequences : build_images)(&t->net, trials[i].batch, trials[i].a,
                                                           trials[i].b);
    remat_status status = net_finish(&t->net, error);
    if (status)
        return status;
    t->times = calloc(t->net.n_nodes, sizeof *t->times);
    return t->times ? run_network(&t->net, backend, t->times, error) : remat_fail_memory(error);
}

static void collect(samples *s, const remat_device *partly, const trial *t)
{
    for (size_t i = 0; i < TRIALS; i++)
        for (uint32_t v = 0; v < t[i].net.n_nodes; v++)
            add_node(s, partly, &t[i].net.nodes[v], &t[i].times[v]);
}

/* First the rates and what products reach, then, with that, the rest. */
static void conclude(samples *s, const trial *t, remat_device *device)
{
    collect(s, NULL, t);
    device->rate[REMAT_FLOAT32] = best_rate(s, REMAT_MATRIX, REMAT_ATTENTION);
    const unsigned copies = s->n[REMAT_COPY][0];
    const sample *largest = &s->list[REMAT_COPY][0][copies - 1];
    device->bandwidth = largest->size / largest->seconds;
    take_curves(s, device, 0, REMAT_KERNEL_CLASSES);
    device->forward[REMAT_ATTENTION] = device->forward[REMAT_MATRIX];
    remat_device products = *device;
    memset(s->n, 0, sizeof s->n);
    collect(s, &products, t);
    take_curves(s, device, REMAT_GATHER, REMAT_GATHER + 1);
}

remat_status training_calibrate(const kernel_backend *backend, remat_device *ret_device,
                                void (*progress)(void *data, double fraction), void *data,
                                remat_error *error)
{
    enum { MOST = 32 << 20 };
    remat_device device = {.name = "calibrated", .launch = 2e-7};
    trial runs[TRIALS] = {0};
    samples *s = calloc(1, sizeof *s);
    char *room = calloc(2, MOST);
    remat_status status = s && room ? REMAT_OK : remat_fail_memory(error);
    for (size_t i = 0; i < TRIALS && !status; i++) {
        status = run_trial(&runs[i], i, backend, error);
        if (progress)
            progress(data, ((double)i + 1) / (TRIALS + 1));
    }
    if (!status) {
        const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
        time_copies(s, backend, room, MOST);
        device.memory = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
        backend->describe(device.title, sizeof device.title);
        conclude(s, runs, &device);
        status = remat_device_check(&device, error);
    }
    for (size_t i = 0; i < TRIALS; i++) {
        net_clear(&runs[i].net);
        free(runs[i].times);
    }
    free(s);
    free(room);
    if (!status)
        *ret_device = device;
    return status;
}
