/* Streams, events and copies: queues that do nothing before they must. */
#include "emulated.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct operation {
    struct operation *next;
    struct CUevent_st *awaited; /* must have been done up to this record; NULL: nothing */
    uint64_t record;
    void (*run)(void *data);
    max_align_t data[];
} operation;

struct CUstream_st {
    struct CUstream_st *next;
    operation *first, **end;
};

struct CUevent_st {
    uint64_t recorded, done; /* records that were asked for, that have been reached */
    double at;               /* milliseconds */
};

static struct CUstream_st usual = {NULL, NULL, &usual.first}; /* and first in the list of all */

struct CUstream_st *emulated_stream(cudaStream_t stream)
{
    return stream ? stream : &usual;
}

/* ---- queues ---- */

static operation *append(struct CUstream_st *stream, size_t size)
{
    operation *made = calloc(1, sizeof *made + size);
    if (!made)
        emulated_die("out of memory");
    *stream->end = made;
    stream->end = &made->next;
    return made;
}

cudaError_t emulated_queue(cudaStream_t stream, void (*run)(void *data), const void *data,
                           size_t size)
{
    operation *made = append(emulated_stream(stream), size);
    made->run = run;
    memcpy(made->data, data, size);
    return cudaSuccess;
}

static bool ready(const struct CUstream_st *stream)
{
    return stream->first &&
           (!stream->first->awaited || stream->first->awaited->done >= stream->first->record);
}

static void take_first(struct CUstream_st *stream)
{
    operation *old = stream->first;
    stream->first = old->next;
    if (!stream->first)
        stream->end = &stream->first;
    free(old);
}

void emulated_drop_all(void)
{
    for (struct CUstream_st *stream = &usual; stream; stream = stream->next)
        while (stream->first)
            take_first(stream);
}

/* One of those that can go on, other than `but`; NULL: there is none. */
static struct CUstream_st *any_ready(const struct CUstream_st *but)
{
    uint64_t n = 0;
    struct CUstream_st *chosen = NULL;
    for (struct CUstream_st *stream = &usual; stream; stream = stream->next)
        if (stream != but && ready(stream) && emulated_random() % ++n == 0)
            chosen = stream;
    return chosen;
}

static bool pending(const struct CUstream_st *stream)
{
    if (stream)
        return stream->first != NULL;
    for (stream = &usual; stream && !stream->first;)
        stream = stream->next;
    return stream != NULL;
}

/* Those that are waited for go first, last, or in between, as is drawn for each wait. */
void emulated_drain(struct CUstream_st *target)
{
    enum { TARGET_FIRST, OTHERS_FIRST, ANY, MANNERS };
    const uint64_t manner = target ? emulated_random() % MANNERS : ANY;
    if (!pending(target))
        return;
    emulated_open();
    while (pending(target)) {
        struct CUstream_st *next = NULL;
        if (manner == TARGET_FIRST && ready(target))
            next = target;
        else if (manner == OTHERS_FIRST)
            next = any_ready(target);
        if (!next)
            next = any_ready(NULL);
        if (!next)
            emulated_die("streams wait for one another");
        if (next->first->run)
            next->first->run(next->first->data);
        take_first(next);
    }
    emulated_close();
    emulated_check_gaps();
}

/* ---- streams ---- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *pStream, unsigned int flags)
{
    if (emulated_fault())
        return cudaErrorLaunchFailure;
    if (flags != cudaStreamNonBlocking)
        return cudaErrorInvalidValue;
    struct CUstream_st *made = calloc(1, sizeof *made);
    if (!made)
        return cudaErrorMemoryAllocation;
    made->end = &made->first;
    made->next = usual.next;
    usual.next = made;
    emulated_count(1);
    *pStream = made;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    bool broken = emulated_fault();
    struct CUstream_st *before = &usual;
    while (before->next != stream)
        before = before->next;
    emulated_drain(stream);
    before->next = stream->next;
    free(stream);
    emulated_count(-1);
    return broken ? cudaErrorLaunchFailure : cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    if (emulated_fault())
        return cudaErrorLaunchFailure;
    emulated_drain(emulated_stream(stream));
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    if (emulated_fault())
        return cudaErrorLaunchFailure;
    emulated_drain(NULL);
    return cudaSuccess;
}

/* ---- events ---- */

static double milliseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

typedef struct record {
    struct CUevent_st *event;
    uint64_t number;
} record;

static void run_record(void *data)
{
    const record *r = data;
    r->event->done = r->number;
    r->event->at = milliseconds();
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
    (void)flags;
    if (emulated_fault())
        return cudaErrorLaunchFailure;
    *event = calloc(1, sizeof **event);
    emulated_count(*event != NULL);
    return *event ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    bool broken = emulated_fault();
    emulated_drain(NULL);
    free(event);
    emulated_count(-1);
    return broken ? cudaErrorLaunchFailure : cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    if (emulated_fault())
        return cudaErrorLaunchFailure;
    const record r = {event, ++event->recorded};
    return emulated_queue(stream, run_record, &r, sizeof r);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    if (emulated_fault())
        return cudaErrorLaunchFailure;
    if (flags != 0)
        return cudaErrorInvalidValue;
    operation *made = append(emulated_stream(stream), 0);
    made->awaited = event;
    made->record = event->recorded;
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    if (emulated_fault())
        return cudaErrorLaunchFailure;
    if (start->done < start->recorded || end->done < end->recorded)
        return cudaErrorNotReady;
    if (start->recorded == 0 || end->recorded == 0)
        return cudaErrorInvalidValue;
    *ms = (float)(end->at - start->at);
    return cudaSuccess;
}

/* ---- copies ---- */

typedef struct move {
    uint8_t *to;
    const uint8_t *from;
    size_t bytes;
} move;

static void run_move(void *data)
{
    const move *m = data;
    memcpy(m->to, m->from, m->bytes);
}

typedef struct filling {
    void *at;
    int value;
    size_t bytes;
} filling;

static void run_filling(void *data)
{
    const filling *f = data;
    memset(f->at, f->value, f->bytes);
}

static bool apart(const void *a, const void *b, size_t bytes)
{
    const uintptr_t p = (uintptr_t)a, q = (uintptr_t)b;
    return p >= q ? p - q >= bytes : q - p >= bytes;
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    if (emulated_fault())
        return cudaErrorLaunchFailure;
    if (count == 0)
        return cudaSuccess;
    bool to = kind == cudaMemcpyDeviceToHost ? emulated_pinned(dst, count)
                                             : emulated_on_device(dst, count);
    bool from = kind == cudaMemcpyHostToDevice ? emulated_pinned(src, count)
                                               : emulated_on_device(src, count);
    if (!to || !from || !apart(dst, src, count))
        return cudaErrorInvalidValue;
    const move m = {dst, src, count};
    return emulated_queue(stream, run_move, &m, sizeof m);
}

cudaError_t cudaMemsetAsync(void *devPtr, int value, size_t count, cudaStream_t stream)
{
    if (emulated_fault())
        return cudaErrorLaunchFailure;
    if (!emulated_on_device(devPtr, count))
        return cudaErrorInvalidValue;
    const filling f = {devPtr, value, count};
    return emulated_queue(stream, run_filling, &f, sizeof f);
}

typedef struct staged {
    void *to;
    size_t count;
    uint8_t bytes[];
} staged;

static void run_staged(void *data)
{
    const staged *s = data;
    memcpy(s->to, s->bytes, s->count);
}

/* From pageable memory: on return the bytes have been taken, and arrive when the default stream is
 * waited for. */
static cudaError_t stage(void *dst, const void *src, size_t count)
{
    staged *s = malloc(sizeof *s + count);
    if (!s)
        return cudaErrorMemoryAllocation;
    s->to = dst;
    s->count = count;
    memcpy(s->bytes, src, count);
    cudaError_t queued = emulated_queue(NULL, run_staged, s, sizeof *s + count);
    free(s);
    return queued;
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind)
{
    if (emulated_fault())
        return cudaErrorLaunchFailure;
    if (count == 0)
        return cudaSuccess;
    if ((kind != cudaMemcpyDeviceToHost && !emulated_on_device(dst, count)) ||
        (kind != cudaMemcpyHostToDevice && !emulated_on_device(src, count)))
        return cudaErrorInvalidValue;
    if (kind == cudaMemcpyHostToDevice && !emulated_pinned(src, count))
        return stage(dst, src, count);
    emulated_drain(&usual);
    emulated_open();
    memcpy(dst, src, count);
    emulated_close();
    return cudaSuccess;
}
