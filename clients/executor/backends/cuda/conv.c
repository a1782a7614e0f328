/* Convolutions by cuDNN, and transposed ones, which are their adjoints: by CUDNN_FMA_MATH, and by
 * none of the algorithms that cudnn_ops.h marks as not deterministic.
 *
 * A share that is added, or goes to part of the channels, or in place, is computed in the workspace
 * first, some images at a time; so is a forward in place, from a copy of the images. All calls of a
 * node have the same shapes and alignments wherever the numbers lie, and give the same bits. */
#include "call.h"

#include <stdlib.h>
#include <string.h>

typedef enum method { IMPLICIT, PRECOMPUTED, WINOGRAD, TILES, METHODS } method;

static const struct {
    const char *name;
    cudnnConvolutionFwdAlgo_t forward;
    cudnnConvolutionBwdDataAlgo_t data;
    cudnnConvolutionBwdFilterAlgo_t filter;
} methods[METHODS] = {{"implicit_gemm", CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
                       CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1},
                      {"implicit_precomp_gemm", CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
                       CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1},
                      {"winograd_nonfused", CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED,
                       CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED,
                       CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED},
                      {"fft_tiling", CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING,
                       CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING,
                       CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING}};

/* ---- shapes and their descriptors ---- */

/* Of a convolution from x to y; of: channels of x as they lie in memory. */
typedef struct shape {
    uint32_t images, in, of, h, w, out, out_h, out_w, kernel, stride, padding, groups;
} shape;

typedef struct convolution {
    shape shape;
    cudnnTensorDescriptor_t x, dx, y; /* dx: of its channels alone */
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t map;
    bool offered[METHODS];
    size_t forward[METHODS], data[METHODS], filter[METHODS]; /* workspaces, bytes */
    struct convolution *next;
} convolution;

static convolution *kept;
static bool failed; /* some shape could not be described: none is until all are forgotten */

static shape shape_of(const net_node *node, uint32_t images)
{
    const bool up = node->kind == NET_UP_CONV;
    const net_tensor x = up ? node->output : node->inputs[0],
                     y = up ? node->inputs[0] : node->output;
    return (shape){images, x.c, x.of,         x.h,          x.w,           y.c,
                   y.h,    y.w, node->kernel, node->stride, node->padding, node->groups};
}

static int describe_tensor(cudnnTensorDescriptor_t *to, const shape *s, uint32_t c, uint32_t of,
                           uint32_t h, uint32_t w)
{
    int code = cuda_check_dnn(cudnnCreateTensorDescriptor(to));
    return code ? code
                : cuda_check_dnn(cudnnSetTensor4dDescriptorEx(
                      *to, CUDNN_DATA_FLOAT, (int)s->images, (int)c, (int)h, (int)w,
                      (int)(of * h * w), (int)(h * w), (int)w, 1));
}

static int describe_map(convolution *c)
{
    const shape *s = &c->shape;
    const int k = (int)s->kernel, stride = (int)s->stride, padding = (int)s->padding;
    int code = cuda_check_dnn(cudnnCreateFilterDescriptor(&c->w));
    if (!code)
        code =
            cuda_check_dnn(cudnnSetFilter4dDescriptor(c->w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW,
                                                      (int)s->out, (int)(s->in / s->groups), k, k));
    if (!code)
        code = cuda_check_dnn(cudnnCreateConvolutionDescriptor(&c->map));
    if (!code)
        code = cuda_check_dnn(cudnnSetConvolution2dDescriptor(c->map, padding, padding, stride,
                                                              stride, 1, 1, CUDNN_CROSS_CORRELATION,
                                                              CUDNN_DATA_FLOAT));
    if (!code)
        code = cuda_check_dnn(cudnnSetConvolutionGroupCount(c->map, (int)s->groups));
    return code ? code : cuda_check_dnn(cudnnSetConvolutionMathType(c->map, CUDNN_FMA_MATH));
}

static int describe(convolution *c)
{
    const shape *s = &c->shape;
    int code = describe_tensor(&c->x, s, s->in, s->of, s->h, s->w);
    if (!code)
        code = describe_tensor(&c->dx, s, s->in, s->in, s->h, s->w);
    if (!code)
        code = describe_tensor(&c->y, s, s->out, s->out, s->out_h, s->out_w);
    return code ? code : describe_map(c);
}

/* What cuDNN does not have for a shape it calls bad or not supported, by numbers of these
 * thousands. Other faults are faults. */
static int ask(convolution *c, method how)
{
    const cudnnHandle_t dnn = cuda_the_device.dnn;
    cudnnStatus_t status = cudnnGetConvolutionForwardWorkspaceSize(
        dnn, c->x, c->w, c->map, c->y, methods[how].forward, &c->forward[how]);
    if (!status)
        status = cudnnGetConvolutionBackwardDataWorkspaceSize(dnn, c->w, c->y, c->map, c->dx,
                                                              methods[how].data, &c->data[how]);
    if (!status)
        status = cudnnGetConvolutionBackwardFilterWorkspaceSize(
            dnn, c->x, c->y, c->map, c->w, methods[how].filter, &c->filter[how]);
    c->offered[how] = status == CUDNN_STATUS_SUCCESS;
    const int group = (int)status / 1000 * 1000;
    return group == CUDNN_STATUS_BAD_PARAM || group == CUDNN_STATUS_NOT_SUPPORTED
               ? 0
               : cuda_check_dnn(status);
}

static void drop(convolution *c)
{
    (void)cudnnDestroyTensorDescriptor(c->x);
    (void)cudnnDestroyTensorDescriptor(c->dx);
    (void)cudnnDestroyTensorDescriptor(c->y);
    (void)cudnnDestroyFilterDescriptor(c->w);
    (void)cudnnDestroyConvolutionDescriptor(c->map);
    free(c);
}

void cuda_conv_forget(void)
{
    while (kept) {
        convolution *next = kept->next;
        drop(kept);
        kept = next;
    }
    failed = false;
}

/* NULL: out of memory, or the fault is kept. */
static convolution *make(const shape *wanted)
{
    convolution *made = calloc(1, sizeof *made);
    if (!made) {
        (void)cuda_check_dnn(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
        return NULL;
    }
    made->shape = *wanted;
    int code = describe(made);
    for (int how = 0; how < METHODS && !code; how++)
        code = ask(made, (method)how);
    if (!code)
        return made;
    drop(made);
    return NULL;
}

/* NULL: a fault, now or before; a node whose cost could not be told must not run. */
static const convolution *find(const net_node *node, uint32_t images)
{
    const shape wanted = shape_of(node, images);
    for (const convolution *c = kept; c && !failed; c = c->next)
        if (memcmp(&c->shape, &wanted, sizeof wanted) == 0)
            return c;
    convolution *made = failed ? NULL : make(&wanted);
    failed = !made;
    if (!made)
        return NULL;
    made->next = kept;
    kept = made;
    return made;
}

/* ---- nodes ---- */

/* Images at a time where room is needed: a divisor of the batch, such that every piece begins at a
 * multiple of 256 bytes. */
static uint32_t piece_of(const net_node *node)
{
    const net_tensor x = node->inputs[0], y = node->output;
    const uint64_t in = (uint64_t)x.c * x.h * x.w, out = (uint64_t)y.c * y.h * y.w;
    uint32_t best = x.n;
    for (uint32_t pieces = 2; pieces <= x.n && best * in * sizeof(float) > CUDA_PIECE; pieces++) {
        const uint32_t images = x.n / pieces;
        if (x.n % pieces == 0 && images * in % 64 == 0 && images * out % 64 == 0)
            best = images;
    }
    return best;
}

/* Whether some backward puts the share together in the workspace. */
static bool puts_aside(const net_node *node)
{
    return node->summed[0] || node->inputs[0].c != node->inputs[0].of || net_in_place(node);
}

typedef struct work {
    const convolution *forward, *share, *filter; /* forward and share: of some images */
    size_t in, out;      /* numbers of an image: of the channels that are read; written */
    size_t stride, from; /* of images in x, numbers; first number read */
    uint32_t images, forward_images, share_images;
    method how;
    bool up;
} work;

/* The alternatives are those methods that cuDNN has for all shapes of the node; the first is one
 * that it has for every shape. METHODS: there is no such alternative. */
static method method_of(const work *k, uint32_t alternative)
{
    for (int how = 0; how < METHODS; how++)
        if ((how == IMPLICIT ||
             (k->forward->offered[how] && k->share->offered[how] && k->filter->offered[how])) &&
            alternative-- == 0)
            return (method)how;
    return METHODS;
}

static int work_of(const net_node *node, uint32_t alternative, work *ret_work)
{
    const net_tensor x = node->inputs[0], y = node->output;
    const size_t plane = (size_t)x.h * x.w;
    work k = {.in = x.c * plane,
              .out = (size_t)y.c * y.h * y.w,
              .stride = x.of * plane,
              .from = x.from * plane,
              .images = x.n,
              .up = node->kind == NET_UP_CONV};
    k.forward_images = net_in_place(node) ? piece_of(node) : x.n;
    k.share_images = puts_aside(node) ? piece_of(node) : x.n;
    k.filter = find(node, x.n);
    k.forward = find(node, k.forward_images);
    k.share = find(node, k.share_images);
    if (!k.filter || !k.forward || !k.share)
        return 1;
    k.how = method_of(&k, alternative);
    *ret_work = k;
    return 0;
}

static const char *implementation(const net_node *node, uint32_t alternative)
{
    work k;
    return !work_of(node, alternative, &k) && k.how < METHODS ? methods[k.how].name : NULL;
}

/* Of cuDNN alone, for the forward and the share. */
static size_t forward_room(const work *k)
{
    return k->up ? k->forward->data[k->how] : k->forward->forward[k->how];
}

static size_t share_room(const work *k)
{
    return k->up ? k->share->forward[k->how] : k->share->data[k->how];
}

/* The workspace: cuDNN's, then images put aside; before and after them, sums of channels. */
static kernel_cost cost(const net_node *node, uint32_t alternative)
{
    const net_tensor y = node->output;
    work k;
    if (work_of(node, alternative, &k) || k.how == METHODS)
        return (kernel_cost){0};
    uint64_t forward = forward_room(&k), share = share_room(&k);
    if (net_in_place(node))
        forward = cuda_align(forward) + k.forward_images * k.in * sizeof(float);
    if (puts_aside(node))
        share = cuda_align(share) + k.share_images * k.in * sizeof(float);
    uint64_t sums =
        node->bias ? cuda_channels_room(cuda_channels_of(y.n, y.c, (size_t)y.h * y.w)) : 0;
    return (kernel_cost){.forward_workspace = forward,
                         .save_workspace = forward,
                         .backward_workspace =
                             cuda_most(cuda_most(share, k.filter->filter[k.how]), sums)};
}

/* ---- calls of cuDNN ---- */

static const float one = 1, none = 0;

/* y of x. */
static int map(const convolution *c, method how, const float *x, const float *w, float *y,
               void *room)
{
    return cuda_check_dnn(cudnnConvolutionForward(cuda_the_device.dnn, &one, c->x, x, c->w, w,
                                                  c->map, methods[how].forward, room,
                                                  c->forward[how], &none, c->y, y));
}

/* x of y, by the adjoint. */
static int map_back(const convolution *c, method how, const float *y, const float *w, float *x,
                    void *room)
{
    return cuda_check_dnn(cudnnConvolutionBackwardData(cuda_the_device.dnn, &one, c->w, w, c->y, y,
                                                       c->map, methods[how].data, room,
                                                       c->data[how], &none, c->dx, x));
}

static int add_filter(const convolution *c, method how, const float *x, const float *y,
                      float *slope, void *room)
{
    return cuda_check_dnn(cudnnConvolutionBackwardFilter(cuda_the_device.dnn, &one, c->x, x, c->y,
                                                         y, c->map, methods[how].filter, room,
                                                         c->filter[how], &one, c->w, slope));
}

/* ---- forward ---- */

static int forward_images(const work *k, const kernel_call *call, size_t first)
{
    const float *x = (const float *)call->inputs[0] + first * k->stride + k->from;
    float *y = (float *)call->output + first * k->out;
    if (y == x) {
        float *copy = (float *)((uint8_t *)call->workspace + cuda_align(forward_room(k)));
        int code = cuda_check(cudaMemcpyAsync(copy, x, k->forward_images * k->in * sizeof *x,
                                              cudaMemcpyDeviceToDevice, cuda_the_device.compute));
        if (code)
            return code;
        x = copy;
    }
    return k->up ? map_back(k->forward, k->how, x, call->weights[0], y, call->workspace)
                 : map(k->forward, k->how, x, call->weights[0], y, call->workspace);
}

static int forward(const kernel_call *call)
{
    const net_tensor y = call->node->output;
    work k;
    int code = work_of(call->node, call->alternative, &k);
    if (!code && k.how == METHODS)
        code = cuda_check_dnn(CUDNN_STATUS_NOT_SUPPORTED);
    for (size_t first = 0; first < k.images && !code; first += k.forward_images)
        code = forward_images(&k, call, first);
    if (code || !call->node->bias)
        return code;
    return cuda_launched(cuda_add_channel_bias(cuda_the_device.compute, call->output,
                                               call->weights[1],
                                               cuda_channels_of(y.n, y.c, (size_t)y.h * y.w)));
}

/* ---- backward ---- */

static int share_images(const work *k, const kernel_call *call, size_t first)
{
    float *dx = call->input_gradients[0] + first * k->stride, *share = dx;
    const float *dy = call->gradient + first * k->out;
    const bool aside = call->accumulate[0] || k->in != k->stride || dx == dy;
    if (aside)
        share = (float *)((uint8_t *)call->workspace + cuda_align(share_room(k)));
    int code = k->up ? map(k->share, k->how, dy, call->weights[0], share, call->workspace)
                     : map_back(k->share, k->how, dy, call->weights[0], share, call->workspace);
    return code || !aside
               ? code
               : cuda_launched(cuda_put_share(cuda_the_device.compute, dx, k->stride, k->from,
                                              share, k->in, k->share_images, call->accumulate[0]));
}

/* The parameters' gradients first: dx may lie where dy lies. */
static int slopes(const work *k, const kernel_call *call)
{
    const net_tensor y = call->node->output;
    const float *x = (const float *)call->inputs[0] + k->from, *dy = call->gradient;
    int code = add_filter(k->filter, k->how, k->up ? dy : x, k->up ? x : dy, call->slopes[0],
                          call->workspace);
    if (code || !call->node->bias)
        return code;
    return cuda_launched(cuda_channel_sums(cuda_the_device.compute, dy,
                                           cuda_channels_of(y.n, y.c, (size_t)y.h * y.w),
                                           call->workspace, call->slopes[1]));
}

static int backward(const kernel_call *call)
{
    work k;
    int code = work_of(call->node, call->alternative, &k);
    if (!code && k.how == METHODS)
        code = cuda_check_dnn(CUDNN_STATUS_NOT_SUPPORTED);
    if (!code)
        code = slopes(&k, call);
    for (size_t first = 0; first < k.images && call->input_gradients[0] && !code;
         first += k.share_images)
        code = share_images(&k, call, first);
    return code;
}

const kernel cuda_conv = {implementation, cost, forward, backward};
const kernel cuda_up_conv = {implementation, cost, forward, backward};
