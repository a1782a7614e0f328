/* The CUDA backend: memory, copies and moments of the device. Streams compute, out and in know of
 * one another by events alone. */
#include "cuda.h"

#include "kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

static void *allocate(void *data, uint64_t bytes)
{
    (void)data;
    return cuda_allocate(bytes);
}

/* Waits for all that has been enqueued. */
static void release(void *data, void *memory)
{
    (void)data;
    (void)cuda_check(cudaFree(memory));
}

static void *allocate_host(void *data, uint64_t bytes)
{
    (void)data;
    void *memory = NULL;
    return cuda_check(cudaMallocHost(&memory, bytes ? (size_t)bytes : 1)) ? NULL : memory;
}

static void release_host(void *data, void *memory)
{
    (void)data;
    if (memory)
        (void)cuda_check(cudaFreeHost(memory));
}

static int fill(void *data, void *device, int byte, uint64_t bytes)
{
    (void)data;
    return bytes == 0
               ? 0
               : cuda_check(cudaMemsetAsync(device, byte, (size_t)bytes, cuda_the_device.compute));
}

/* ---- copies that are done on return ---- */

/* Bytes of pageable memory may still be on their way when the runtime has taken them: the default
 * stream, which nothing else uses, is waited for. */
static int copy_now(void *to, const void *from, uint64_t bytes, enum cudaMemcpyKind kind)
{
    int code = cuda_check(cudaStreamSynchronize(cuda_the_device.compute));
    if (!code)
        code = cuda_check(cudaMemcpy(to, from, (size_t)bytes, kind));
    return code ? code : cuda_check(cudaStreamSynchronize(NULL));
}

static int copy_in(void *data, void *device, const void *host, uint64_t bytes)
{
    (void)data;
    return copy_now(device, host, bytes, cudaMemcpyHostToDevice);
}

static int copy_out(void *data, void *host, const void *device, uint64_t bytes)
{
    (void)data;
    return copy_now(host, device, bytes, cudaMemcpyDeviceToHost);
}

static int copy(void *data, void *device, const void *from, uint64_t bytes)
{
    (void)data;
    return bytes == 0
               ? 0
               : cuda_check(cudaMemcpyAsync(device, from, (size_t)bytes, cudaMemcpyDeviceToDevice,
                                            cuda_the_device.compute));
}

/* ---- copies beside the computation ---- */

/* The events of tickets 0 .. n - 1: made in the first step, used again in the others. */
static struct {
    cudaEvent_t *events;
    uint32_t n, room;
} tickets;

void cuda_tickets_clear(void)
{
    for (uint32_t i = 0; i < tickets.n; i++)
        (void)cudaEventDestroy(tickets.events[i]);
    free(tickets.events);
    memset(&tickets, 0, sizeof tickets);
}

static int make_tickets(uint32_t ticket)
{
    if (ticket >= tickets.room) {
        uint32_t room = 2 * ticket + 64;
        cudaEvent_t *events = realloc(tickets.events, room * sizeof *events);
        if (!events)
            return cuda_check(cudaErrorMemoryAllocation);
        tickets.events = events;
        tickets.room = room;
    }
    for (; tickets.n <= ticket; tickets.n++) {
        int code = cuda_check(
            cudaEventCreateWithFlags(&tickets.events[tickets.n], cudaEventDisableTiming));
        if (code)
            return code;
    }
    return 0;
}

static int start_copy(cudaStream_t stream, void *to, const void *from, uint64_t bytes,
                      enum cudaMemcpyKind kind, uint32_t ticket)
{
    const cuda_device *d = &cuda_the_device;
    int code = make_tickets(ticket);
    if (!code)
        code = cuda_check(cudaEventRecord(d->reached, d->compute));
    if (!code)
        code = cuda_check(cudaStreamWaitEvent(stream, d->reached, 0));
    if (!code)
        code = cuda_check(cudaMemcpyAsync(to, from, (size_t)bytes, kind, stream));
    return code ? code : cuda_check(cudaEventRecord(tickets.events[ticket], stream));
}

static int start_out(void *data, void *host, const void *device, uint64_t bytes, uint32_t ticket)
{
    (void)data;
    return start_copy(cuda_the_device.out, host, device, bytes, cudaMemcpyDeviceToHost, ticket);
}

static int start_in(void *data, void *device, const void *host, uint64_t bytes, uint32_t ticket)
{
    (void)data;
    return start_copy(cuda_the_device.in, device, host, bytes, cudaMemcpyHostToDevice, ticket);
}

static int wait_for(void *data, uint32_t ticket)
{
    (void)data;
    return cuda_check(cudaStreamWaitEvent(cuda_the_device.compute, tickets.events[ticket], 0));
}

static int finish(void *data)
{
    const cudaStream_t streams[] = {cuda_the_device.compute, cuda_the_device.out,
                                    cuda_the_device.in};
    int code = 0;
    (void)data;
    for (size_t i = 0; i < sizeof streams / sizeof *streams && !code; i++)
        code = cuda_check(cudaStreamSynchronize(streams[i]));
    return code;
}

static const char *fault(void *data)
{
    (void)data;
    return cuda_last_fault();
}

static const remat_exec_backend memory = {.name = "cuda",
                                          .allocate = allocate,
                                          .release = release,
                                          .allocate_host = allocate_host,
                                          .release_host = release_host,
                                          .copy_in = copy_in,
                                          .copy_out = copy_out,
                                          .start_out = start_out,
                                          .start_in = start_in,
                                          .wait = wait_for,
                                          .fill = fill,
                                          .copy = copy,
                                          .finish = finish,
                                          .fault = fault};

/* ---- moments ---- */

static int mark(kernel_mark *m)
{
    cudaEvent_t event = m->event;
    int code = event ? 0 : cuda_check(cudaEventCreateWithFlags(&event, cudaEventDefault));
    if (code)
        return code;
    m->event = event;
    return cuda_check(cudaEventRecord(event, cuda_the_device.compute));
}

static int between(const kernel_mark *from, const kernel_mark *to, double *ret_seconds)
{
    float milliseconds = 0;
    int code = cuda_check(cudaEventElapsedTime(&milliseconds, from->event, to->event));
    *ret_seconds = (double)milliseconds * 1e-3;
    return code;
}

static void unmark(kernel_mark *m)
{
    if (m->event)
        (void)cuda_check(cudaEventDestroy(m->event));
    m->event = NULL;
}

/* ---- the rest ---- */

static int left(uint64_t *ret_bytes)
{
    size_t free_bytes = 0, all = 0;
    int code = cuda_check(cudaMemGetInfo(&free_bytes, &all));
    *ret_bytes = free_bytes;
    return code;
}

static int update(float *weights, float *velocity, const float *slopes, size_t count,
                  uint32_t lanes, float rate, float momentum)
{
    return cuda_check((cudaError_t)cuda_update(cuda_the_device.compute, weights, velocity, slopes,
                                               count, lanes, rate, momentum));
}

static void describe(char *text, size_t size)
{
    struct cudaDeviceProp properties;
    int driver = 0;
    snprintf(text, size, "CUDA device");
    if (cudaGetDeviceProperties(&properties, 0) || cudaDriverGetVersion(&driver))
        return;
    snprintf(text, size, "%.64s, compute capability %d.%d, driver of CUDA %d.%d", properties.name,
             properties.major, properties.minor, driver / 1000, driver % 1000 / 10);
}

static const kernel *const kernels[NET_KINDS] = {[NET_CONV] = &cuda_conv,
                                                 [NET_UP_CONV] = &cuda_up_conv,
                                                 [NET_LINEAR] = &cuda_linear,
                                                 [NET_BATCH_NORM] = &cuda_batch_norm,
                                                 [NET_LAYER_NORM] = &cuda_layer_norm,
                                                 [NET_RELU] = &cuda_relu,
                                                 [NET_GELU] = &cuda_gelu,
                                                 [NET_MAX_POOL] = &cuda_max_pool,
                                                 [NET_AVERAGE_POOL] = &cuda_average_pool,
                                                 [NET_ADD] = &cuda_add,
                                                 [NET_CONCAT] = &cuda_concat,
                                                 [NET_EMBEDDING] = &cuda_embedding,
                                                 [NET_ATTENTION] = &cuda_attention,
                                                 [NET_DROPOUT] = &cuda_dropout,
                                                 [NET_LSTM] = &cuda_lstm,
                                                 [NET_CROSS_ENTROPY] = &cuda_cross_entropy,
                                                 [NET_TRIPLET] = &cuda_triplet,
                                                 [NET_CONTRASTIVE] = &cuda_contrastive};

remat_status cuda_backend(kernel_backend *ret_backend, remat_error *error)
{
    remat_status status = cuda_device_open(error);
    if (status)
        return status;
    *ret_backend = (kernel_backend){.name = "cuda",
                                    .memory = &memory,
                                    .kernels = kernels,
                                    .mark = mark,
                                    .between = between,
                                    .clock = "device",
                                    .unmark = unmark,
                                    .left = left,
                                    .update = update,
                                    .describe = describe,
                                    .close = cuda_device_close};
    return REMAT_OK;
}
