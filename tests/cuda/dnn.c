/* cuDNN: convolutions by loops. Algorithms give the same numbers; they differ in the workspace they
 * want and in the shapes they take, roughly as the real ones do. */
#include "emulated.h"

#include <cudnn.h>
#include <stdlib.h>
#include <string.h>

struct cudnnContext {
    cudaStream_t stream;
};

struct cudnnTensorStruct {
    size_t size[4], stride[4]; /* n, c, h, w */
};

struct cudnnFilterStruct {
    size_t size[4]; /* k, c, r, s */
};

struct cudnnConvolutionStruct {
    size_t padding[2], stride[2], groups;
};

/* ---- descriptors ---- */

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    switch (status) {
    case CUDNN_STATUS_SUCCESS:
        return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_NOT_INITIALIZED:
        return "CUDNN_STATUS_NOT_INITIALIZED";
    case CUDNN_STATUS_BAD_PARAM:
        return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_NOT_SUPPORTED:
        return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED:
        return "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED";
    case CUDNN_STATUS_EXECUTION_FAILED:
        return "CUDNN_STATUS_EXECUTION_FAILED";
    }
    return "CUDNN_UNKNOWN_STATUS";
}

static cudnnStatus_t make(void *to, size_t size)
{
    if (emulated_fault())
        return CUDNN_STATUS_NOT_INITIALIZED;
    void *made = calloc(1, size);
    emulated_count(made != NULL);
    memcpy(to, &made, sizeof made);
    return made ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
}

static cudnnStatus_t destroy(void *made)
{
    bool broken = emulated_fault();
    emulated_count(made ? -1 : 0);
    free(made);
    return broken ? CUDNN_STATUS_EXECUTION_FAILED : CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    return make(handle, sizeof **handle);
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    return destroy(handle);
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t streamId)
{
    if (emulated_fault())
        return CUDNN_STATUS_EXECUTION_FAILED;
    handle->stream = streamId;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *tensorDesc)
{
    return make(tensorDesc, sizeof **tensorDesc);
}

cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensorDesc)
{
    return destroy(tensorDesc);
}

cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t tensorDesc,
                                           cudnnDataType_t dataType, int n, int c, int h, int w,
                                           int nStride, int cStride, int hStride, int wStride)
{
    if (emulated_fault())
        return CUDNN_STATUS_EXECUTION_FAILED;
    if (dataType != CUDNN_DATA_FLOAT || n <= 0 || c <= 0 || h <= 0 || w <= 0 || wStride != 1 ||
        hStride < w || cStride < 1 || nStride < 1)
        return CUDNN_STATUS_BAD_PARAM;
    *tensorDesc = (struct cudnnTensorStruct){
        {(size_t)n, (size_t)c, (size_t)h, (size_t)w},
        {(size_t)nStride, (size_t)cStride, (size_t)hStride, (size_t)wStride}};
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *filterDesc)
{
    return make(filterDesc, sizeof **filterDesc);
}

cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filterDesc)
{
    return destroy(filterDesc);
}

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filterDesc,
                                         cudnnDataType_t dataType, cudnnTensorFormat_t format,
                                         int k, int c, int h, int w)
{
    if (emulated_fault())
        return CUDNN_STATUS_EXECUTION_FAILED;
    if (dataType != CUDNN_DATA_FLOAT || format != CUDNN_TENSOR_NCHW || k <= 0 || c <= 0 || h <= 0 ||
        w <= 0)
        return CUDNN_STATUS_BAD_PARAM;
    *filterDesc = (struct cudnnFilterStruct){{(size_t)k, (size_t)c, (size_t)h, (size_t)w}};
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *convDesc)
{
    return make(convDesc, sizeof **convDesc);
}

cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t convDesc)
{
    return destroy(convDesc);
}

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t convDesc, int pad_h,
                                              int pad_w, int u, int v, int dilation_h,
                                              int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t computeType)
{
    if (emulated_fault())
        return CUDNN_STATUS_EXECUTION_FAILED;
    if (pad_h < 0 || pad_w < 0 || u <= 0 || v <= 0 || dilation_h != 1 || dilation_w != 1 ||
        mode != CUDNN_CROSS_CORRELATION || computeType != CUDNN_DATA_FLOAT)
        return CUDNN_STATUS_BAD_PARAM;
    *convDesc =
        (struct cudnnConvolutionStruct){{(size_t)pad_h, (size_t)pad_w}, {(size_t)u, (size_t)v}, 1};
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t convDesc, int groupCount)
{
    if (emulated_fault())
        return CUDNN_STATUS_EXECUTION_FAILED;
    if (groupCount <= 0)
        return CUDNN_STATUS_BAD_PARAM;
    convDesc->groups = (size_t)groupCount;
    return CUDNN_STATUS_SUCCESS;
}

/* Only what multiplies float32 as it is: no tensor cores. */
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t convDesc,
                                          cudnnMathType_t mathType)
{
    (void)convDesc;
    if (emulated_fault())
        return CUDNN_STATUS_EXECUTION_FAILED;
    return mathType == CUDNN_FMA_MATH ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

/* ---- convolutions ---- */

typedef enum direction { FORWARD, DATA, FILTER } direction;

/* Of the image x, the filter w and the result y; one of them is written. */
typedef struct convolution {
    direction which;
    struct cudnnTensorStruct x, y;
    struct cudnnFilterStruct w;
    struct cudnnConvolutionStruct how;
    const float *in_x, *in_y, *in_w;
    float *result;
    float alpha, beta;
    void *workspace;
    size_t workspace_bytes;
} convolution;

static bool shapes_fit(const convolution *c)
{
    for (int i = 0; i < 2; i++) {
        size_t padded = c->x.size[2 + i] + 2 * c->how.padding[i];
        if (padded < c->w.size[2 + i] ||
            c->y.size[2 + i] != (padded - c->w.size[2 + i]) / c->how.stride[i] + 1)
            return false;
    }
    return c->x.size[0] == c->y.size[0] && c->x.size[1] == c->w.size[1] * c->how.groups &&
           c->y.size[1] == c->w.size[0] && c->w.size[0] % c->how.groups == 0;
}

static size_t filter_numbers(const convolution *c)
{
    return c->w.size[0] * c->w.size[1] * c->w.size[2] * c->w.size[3];
}

static size_t tensor_extent(const struct cudnnTensorStruct *t)
{
    size_t last = 0;
    for (int i = 0; i < 4; i++)
        last += (t->size[i] - 1) * t->stride[i];
    return last + 1;
}

static float *row_of(const struct cudnnTensorStruct *t, const float *base, size_t n, size_t c,
                     size_t h)
{
    return (float *)(uintptr_t)(base + n * t->stride[0] + c * t->stride[1] + h * t->stride[2]);
}

/* What meets in one filter number of one row of the output: outputs from .. to - 1 and the first
 * of the images' numbers, which follow at distances of the stride. */
typedef struct meeting {
    float *x, *y;
    size_t from, to, stride;
} meeting;

static float meet(direction which, const meeting *m, float weight)
{
    float sum = 0;
    for (size_t q = m->from; q < m->to; q++) {
        float *x = m->x + (q - m->from) * m->stride;
        if (which == FORWARD)
            m->y[q] += weight * *x;
        else if (which == DATA)
            *x += weight * m->y[q];
        else
            sum += *x * m->y[q];
    }
    return sum;
}

/* Filter number (r, s) between an image plane and an output plane. */
static float meet_planes(const convolution *c, const float *x, const float *y, size_t n,
                         const size_t channels[2], const size_t at[2], float weight)
{
    const size_t padding = c->how.padding[1], stride = c->how.stride[1], width = c->x.size[3];
    size_t from = at[1] >= padding ? 0 : (padding - at[1] + stride - 1) / stride;
    size_t to = width + padding > at[1] ? (width + padding - at[1] - 1) / stride + 1 : 0;
    float sum = 0;
    to = to < c->y.size[3] ? to : c->y.size[3];
    for (size_t p = 0; p < c->y.size[2] && from < to; p++) {
        size_t row = p * c->how.stride[0] + at[0];
        if (row < c->how.padding[0] || row - c->how.padding[0] >= c->x.size[2])
            continue;
        const meeting m = {row_of(&c->x, x, n, channels[0], row - c->how.padding[0]) +
                               from * stride + at[1] - padding,
                           row_of(&c->y, y, n, channels[1], p), from, to, stride};
        sum += meet(c->which, &m, weight);
    }
    return sum;
}

/* Every pair of planes that meet, in order. */
static void convolve(const convolution *c, const float *x, const float *y, float *w)
{
    const size_t *f = c->w.size, outputs = f[0] / c->how.groups;
    for (size_t n = 0; n < c->x.size[0]; n++)
        for (size_t k = 0; k < f[0]; k++)
            for (size_t i = 0; i < f[1]; i++)
                for (size_t j = 0; j < f[2] * f[3]; j++) {
                    const size_t channels[2] = {k / outputs * f[1] + i, k};
                    const size_t at[2] = {j / f[3], j % f[3]};
                    float *weight = w + (k * f[1] + i) * f[2] * f[3] + j;
                    float sum =
                        meet_planes(c, x, y, n, channels, at, c->which == FILTER ? 0 : *weight);
                    if (c->which == FILTER)
                        *weight += sum;
                }
}

static void blend(const convolution *c, float *to, const float *made, size_t numbers)
{
    for (size_t i = 0; i < numbers; i++)
        to[i] = c->alpha * made[i] + (c->beta == 0 ? 0 : c->beta * to[i]);
}

static void blend_tensor(const convolution *c, const struct cudnnTensorStruct *t, const float *made)
{
    for (size_t n = 0; n < t->size[0]; n++)
        for (size_t i = 0; i < t->size[1]; i++)
            for (size_t h = 0; h < t->size[2]; h++)
                blend(c, row_of(t, c->result, n, i, h), row_of(t, made, n, i, h), t->size[3]);
}

static void run_convolution(void *data)
{
    const convolution *c = data;
    const struct cudnnTensorStruct *t = c->which == FORWARD ? &c->y : &c->x;
    size_t numbers = c->which == FILTER ? filter_numbers(c) : tensor_extent(t);
    float *made = calloc(numbers, sizeof *made);
    if (!made)
        emulated_die("out of memory");
    if (c->workspace_bytes > 0)
        memset(c->workspace, EMULATED_GARBAGE, c->workspace_bytes);
    convolve(c, c->which == DATA ? made : c->in_x, c->which == FORWARD ? made : c->in_y,
             c->which == FILTER ? made : (float *)(uintptr_t)c->in_w);
    if (c->which == FILTER)
        blend(c, c->result, made, numbers);
    else
        blend_tensor(c, t, made);
    free(made);
}

/* ---- algorithms ---- */

/* What algorithms of the three kinds are like. */
typedef enum style { PLAIN, PRECOMPUTED, COLUMNS, WINOGRAD, FFT, ABSENT } style;

static style style_of(direction which, int algorithm)
{
    static const style forward[] = {PLAIN, PRECOMPUTED, COLUMNS,  ABSENT,
                                    FFT,   FFT,         WINOGRAD, WINOGRAD};
    static const style data[] = {ABSENT, PRECOMPUTED, FFT, FFT, WINOGRAD, WINOGRAD};
    static const style filter[] = {ABSENT, PRECOMPUTED, FFT, ABSENT, ABSENT, WINOGRAD, FFT};
    const style *of = which == FORWARD ? forward : which == DATA ? data : filter;
    const int n = which == FORWARD ? 8 : which == DATA ? 6 : 7;
    return algorithm >= 0 && algorithm < n ? of[algorithm] : ABSENT;
}

/* Those that are not deterministic are absent. */
static cudnnStatus_t workspace_of(const convolution *c, int algorithm, size_t *ret_bytes)
{
    const bool small = c->how.stride[0] == 1 && c->how.stride[1] == 1;
    const size_t columns = c->w.size[1] * c->w.size[2] * c->w.size[3] * c->y.size[2] * c->y.size[3];
    if (!shapes_fit(c))
        return CUDNN_STATUS_BAD_PARAM;
    switch (style_of(c->which, algorithm)) {
    case PLAIN:
        *ret_bytes = 0;
        return CUDNN_STATUS_SUCCESS;
    case PRECOMPUTED:
        *ret_bytes = filter_numbers(c) * sizeof(float) + 100;
        return CUDNN_STATUS_SUCCESS;
    case COLUMNS:
        *ret_bytes = columns * sizeof(float);
        return c->how.groups == 1 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
    case WINOGRAD:
        *ret_bytes = 2 * (tensor_extent(&c->x) + tensor_extent(&c->y)) * sizeof(float);
        return small && c->w.size[2] == 3 && c->w.size[3] == 3 && c->how.groups == 1
                   ? CUDNN_STATUS_SUCCESS
                   : CUDNN_STATUS_NOT_SUPPORTED;
    case FFT:
        *ret_bytes = 8 * (tensor_extent(&c->x) + tensor_extent(&c->y)) * sizeof(float);
        return small && c->how.groups == 1 && c->w.size[2] < 32 ? CUDNN_STATUS_SUCCESS
                                                                : CUDNN_STATUS_NOT_SUPPORTED;
    case ABSENT:
        break;
    }
    return CUDNN_STATUS_NOT_SUPPORTED;
}

static convolution shape_of(direction which, const struct cudnnTensorStruct *x,
                            const struct cudnnFilterStruct *w,
                            const struct cudnnConvolutionStruct *how,
                            const struct cudnnTensorStruct *y)
{
    return (convolution){.which = which, .x = *x, .y = *y, .w = *w, .how = *how};
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc, const cudnnFilterDescriptor_t wDesc,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnTensorDescriptor_t yDesc,
    cudnnConvolutionFwdAlgo_t algo, size_t *sizeInBytes)
{
    const convolution c = shape_of(FORWARD, xDesc, wDesc, convDesc, yDesc);
    (void)handle;
    return emulated_fault() ? CUDNN_STATUS_EXECUTION_FAILED
                            : workspace_of(&c, (int)algo, sizeInBytes);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t wDesc, const cudnnTensorDescriptor_t dyDesc,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnTensorDescriptor_t dxDesc,
    cudnnConvolutionBwdDataAlgo_t algo, size_t *sizeInBytes)
{
    const convolution c = shape_of(DATA, dxDesc, wDesc, convDesc, dyDesc);
    (void)handle;
    return emulated_fault() ? CUDNN_STATUS_EXECUTION_FAILED
                            : workspace_of(&c, (int)algo, sizeInBytes);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc, const cudnnTensorDescriptor_t dyDesc,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnFilterDescriptor_t gradDesc,
    cudnnConvolutionBwdFilterAlgo_t algo, size_t *sizeInBytes)
{
    const convolution c = shape_of(FILTER, xDesc, gradDesc, convDesc, dyDesc);
    (void)handle;
    return emulated_fault() ? CUDNN_STATUS_EXECUTION_FAILED
                            : workspace_of(&c, (int)algo, sizeInBytes);
}

/* ---- the calls ---- */

typedef struct range {
    const void *at;
    size_t bytes;
} range;

static bool overlap(range a, range b)
{
    return (uintptr_t)a.at < (uintptr_t)b.at + b.bytes &&
           (uintptr_t)b.at < (uintptr_t)a.at + a.bytes;
}

/* Operands lie on the device, and the result and the workspace on none of them. */
static bool operands_fit(const convolution *c)
{
    const size_t x = tensor_extent(&c->x) * sizeof(float), y = tensor_extent(&c->y) * sizeof(float);
    const size_t w = filter_numbers(c) * sizeof(float);
    const range result = {c->result, c->which == FORWARD ? y : c->which == DATA ? x : w};
    const range read[2] = {c->which == DATA ? (range){c->in_y, y} : (range){c->in_x, x},
                           c->which == FILTER ? (range){c->in_y, y} : (range){c->in_w, w}};
    const range workspace = {c->workspace, c->workspace_bytes};
    for (int i = 0; i < 2; i++)
        if (!emulated_on_device(read[i].at, read[i].bytes) || overlap(read[i], result) ||
            overlap(read[i], workspace))
            return false;
    return emulated_on_device(result.at, result.bytes) && !overlap(result, workspace) &&
           (workspace.bytes == 0 || emulated_on_device(workspace.at, workspace.bytes));
}

/* Writes over all the workspace that it was given. */
static cudnnStatus_t call(cudnnHandle_t handle, convolution *c, int algorithm, const void *alpha,
                          const void *beta, void *workspace, size_t workspace_bytes)
{
    size_t wanted = 0;
    if (emulated_fault())
        return CUDNN_STATUS_EXECUTION_FAILED;
    cudnnStatus_t status = workspace_of(c, algorithm, &wanted);
    if (status)
        return status;
    c->alpha = *(const float *)alpha;
    c->beta = *(const float *)beta;
    c->workspace = workspace;
    c->workspace_bytes = workspace_bytes;
    if (workspace_bytes < wanted || !operands_fit(c))
        return CUDNN_STATUS_BAD_PARAM;
    emulated_queue(handle->stream, run_convolution, c, sizeof *c);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha,
                                      const cudnnTensorDescriptor_t xDesc, const void *x,
                                      const cudnnFilterDescriptor_t wDesc, const void *w,
                                      const cudnnConvolutionDescriptor_t convDesc,
                                      cudnnConvolutionFwdAlgo_t algo, void *workSpace,
                                      size_t workSpaceSizeInBytes, const void *beta,
                                      const cudnnTensorDescriptor_t yDesc, void *y)
{
    convolution c = shape_of(FORWARD, xDesc, wDesc, convDesc, yDesc);
    c.in_x = x;
    c.in_w = w;
    c.result = y;
    return call(handle, &c, (int)algo, alpha, beta, workSpace, workSpaceSizeInBytes);
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void *alpha,
                                           const cudnnFilterDescriptor_t wDesc, const void *w,
                                           const cudnnTensorDescriptor_t dyDesc, const void *dy,
                                           const cudnnConvolutionDescriptor_t convDesc,
                                           cudnnConvolutionBwdDataAlgo_t algo, void *workSpace,
                                           size_t workSpaceSizeInBytes, const void *beta,
                                           const cudnnTensorDescriptor_t dxDesc, void *dx)
{
    convolution c = shape_of(DATA, dxDesc, wDesc, convDesc, dyDesc);
    c.in_y = dy;
    c.in_w = w;
    c.result = dx;
    return call(handle, &c, (int)algo, alpha, beta, workSpace, workSpaceSizeInBytes);
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void *alpha,
                                             const cudnnTensorDescriptor_t xDesc, const void *x,
                                             const cudnnTensorDescriptor_t dyDesc, const void *dy,
                                             const cudnnConvolutionDescriptor_t convDesc,
                                             cudnnConvolutionBwdFilterAlgo_t algo, void *workSpace,
                                             size_t workSpaceSizeInBytes, const void *beta,
                                             const cudnnFilterDescriptor_t dwDesc, void *dw)
{
    convolution c = shape_of(FILTER, xDesc, dwDesc, convDesc, dyDesc);
    c.in_x = x;
    c.in_y = dy;
    c.result = dw;
    return call(handle, &c, (int)algo, alpha, beta, workSpace, workSpaceSizeInBytes);
}
