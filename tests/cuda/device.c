/* The device: settings, its memory, pinned memory, faults. */
#include "emulated.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { GRAIN = 256, CANARY = 0xc5, LEFT_BEHIND = 96 };

typedef struct allocation {
    struct allocation *next; /* on the device: at a higher address */
    uint8_t *at;
    size_t bytes;
} allocation;

static struct {
    bool started, watched; /* watched: what is left at the end is looked at */
    emulated_settings settings;
    uint64_t calls, random;
    int64_t things;
    bool broken;
    cudaError_t last;
    uint8_t *memory;
    size_t reserved, used;
    allocation *on_device, *pinned;
    uint32_t open;
} device;

/* ---- failing ---- */

void emulated_die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("emulated device: ", stderr);
    vfprintf(stderr, format, arguments);
    putc('\n', stderr);
    va_end(arguments);
    abort();
}

static cudaError_t answer(cudaError_t error)
{
    if (error)
        device.last = error;
    return error;
}

/* ---- starting ---- */

static uint64_t setting(const char *name, uint64_t usual)
{
    const char *text = getenv(name);
    return text ? (uint64_t)strtoll(text, NULL, 10) : usual;
}

static void look_for_leaks(void)
{
    if (!device.watched || device.things == 0)
        return;
    fflush(NULL);
    fprintf(stderr, "emulated device: %lld things were not given back\n", (long long)device.things);
    _exit(LEFT_BEHIND);
}

static void start(const emulated_settings *settings)
{
    const size_t huge = (size_t)2 << 20;
    if (device.memory)
        munmap(device.memory, device.reserved);
    memset(&device, 0, sizeof device);
    device.started = true;
    device.settings = *settings;
    device.random = settings->seed;
    device.reserved =
        ((size_t)settings->memory + (size_t)settings->memory / 4 + 8 * huge) & ~(huge - 1);
    device.memory =
        mmap(NULL, device.reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (device.memory == MAP_FAILED)
        emulated_die("no %zu bytes of address space", device.reserved);
    madvise(device.memory, device.reserved, MADV_HUGEPAGE); /* opening and closing takes less */
}

void emulated_start(const emulated_settings *settings)
{
    if (device.things != 0)
        emulated_die("%lld things were not given back", (long long)device.things);
    emulated_drop_all();
    start(settings);
}

static void start_by_environment(void)
{
    const emulated_settings settings = {.memory =
                                            setting("REMAT_EMULATED_MEMORY", UINT64_C(4) << 30),
                                        .seed = setting("REMAT_EMULATED_SEED", 1),
                                        .fault = setting("REMAT_EMULATED_FAULT", 0),
                                        .devices = (int)setting("REMAT_EMULATED_DEVICES", 1)};
    start(&settings);
    device.watched = true;
    atexit(look_for_leaks);
}

bool emulated_fault(void)
{
    if (!device.started)
        start_by_environment();
    if (++device.calls == device.settings.fault) {
        device.broken = true;
        emulated_drop_all();
    }
    if (device.broken)
        device.last = cudaErrorLaunchFailure;
    return device.broken;
}

uint64_t emulated_calls(void)
{
    return device.calls;
}

uint32_t emulated_left(void)
{
    return (uint32_t)device.things;
}

void emulated_count(int things)
{
    device.things += things;
}

/* Steele et al. 2014: SplitMix. */
uint64_t emulated_random(void)
{
    uint64_t z = device.random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* ---- its memory ---- */

void emulated_open(void)
{
    if (device.open++ == 0 && mprotect(device.memory, device.reserved, PROT_READ | PROT_WRITE))
        emulated_die("mprotect failed");
}

void emulated_close(void)
{
    if (--device.open == 0 && mprotect(device.memory, device.reserved, PROT_NONE))
        emulated_die("mprotect failed");
}

/* From one allocation's end to where the next may begin. */
static size_t gap_of(size_t bytes)
{
    return (bytes + GRAIN - 1) / GRAIN * GRAIN + GRAIN - bytes;
}

static void check_gap(const allocation *a)
{
    for (size_t i = 0; i < gap_of(a->bytes); i++)
        if (a->at[a->bytes + i] != CANARY)
            emulated_die("byte %zu past the end of an allocation of %zu bytes was written", i,
                         a->bytes);
}

void emulated_check_gaps(void)
{
    emulated_open();
    for (const allocation *a = device.on_device; a; a = a->next)
        check_gap(a);
    emulated_close();
}

static bool within(const allocation *list, const void *at, size_t bytes)
{
    const uintptr_t from = (uintptr_t)at;
    for (const allocation *a = list; a; a = a->next)
        if (from >= (uintptr_t)a->at && from - (uintptr_t)a->at <= a->bytes &&
            bytes <= a->bytes - (from - (uintptr_t)a->at))
            return true;
    return false;
}

bool emulated_on_device(const void *at, size_t bytes)
{
    return within(device.on_device, at, bytes);
}

bool emulated_pinned(const void *at, size_t bytes)
{
    return within(device.pinned, at, bytes);
}

/* The link after which `whole` bytes are free; NULL: nowhere. */
static allocation **find_room(size_t whole, uint8_t **ret_at)
{
    uint8_t *at = device.memory + GRAIN; /* no better aligned than is promised */
    allocation **link = &device.on_device;
    for (; *link && (size_t)((*link)->at - at) < whole; link = &(*link)->next)
        at = (*link)->at + (*link)->bytes + gap_of((*link)->bytes);
    *ret_at = at;
    return *link || (size_t)(device.memory + device.reserved - at) >= whole ? link : NULL;
}

cudaError_t cudaMalloc(void **devPtr, size_t size)
{
    uint8_t *at;
    if (emulated_fault())
        return cudaErrorLaunchFailure;
    *devPtr = NULL;
    if (size == 0)
        return cudaSuccess;
    if (size > device.settings.memory - device.used)
        return answer(cudaErrorMemoryAllocation);
    allocation **link = find_room(size + gap_of(size), &at), *made = malloc(sizeof *made);
    if (!link || !made)
        emulated_die("no room for %zu bytes", size);
    *made = (allocation){*link, at, size};
    *link = made;
    device.used += size;
    emulated_count(1);
    emulated_open();
    memset(at, EMULATED_GARBAGE, size);
    memset(at + size, CANARY, gap_of(size));
    emulated_close();
    *devPtr = at;
    return cudaSuccess;
}

static cudaError_t give_back(allocation **link, const void *at, bool on_device, bool broken)
{
    while (*link && (*link)->at != at)
        link = &(*link)->next;
    if (!*link)
        return broken ? cudaErrorLaunchFailure : answer(cudaErrorInvalidValue);
    allocation *old = *link;
    *link = old->next;
    if (on_device)
        device.used -= old->bytes;
    else
        free(old->at);
    free(old);
    emulated_count(-1);
    return broken ? cudaErrorLaunchFailure : cudaSuccess;
}

/* Waits for everything, as the runtime does; gives back even where the device is broken. */
cudaError_t cudaFree(void *devPtr)
{
    bool broken = emulated_fault();
    if (!devPtr)
        return broken ? cudaErrorLaunchFailure : cudaSuccess;
    emulated_drain(NULL);
    return give_back(&device.on_device, devPtr, true, broken);
}

cudaError_t cudaMallocHost(void **ptr, size_t size)
{
    if (emulated_fault())
        return cudaErrorLaunchFailure;
    allocation *made = malloc(sizeof *made);
    uint8_t *at = malloc(size ? size : 1);
    if (!made || !at)
        emulated_die("out of memory");
    *made = (allocation){device.pinned, at, size};
    device.pinned = made;
    emulated_count(1);
    *ptr = memset(at, EMULATED_GARBAGE, size);
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *ptr)
{
    bool broken = emulated_fault();
    if (!ptr)
        return broken ? cudaErrorLaunchFailure : cudaSuccess;
    emulated_drain(NULL);
    return give_back(&device.pinned, ptr, false, broken);
}

/* ---- what it is ---- */

const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return "no error";
    case cudaErrorInvalidValue:
        return "invalid argument";
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorInvalidConfiguration:
        return "invalid configuration argument";
    case cudaErrorInsufficientDriver:
        return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
        return "no CUDA-capable device is detected";
    case cudaErrorNotReady:
        return "device not ready";
    case cudaErrorLaunchFailure:
        return "unspecified launch failure";
    }
    return "unrecognized error code";
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t last = device.last;
    device.last = device.broken ? cudaErrorLaunchFailure : cudaSuccess;
    return last;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    if (emulated_fault())
        return cudaErrorLaunchFailure;
    *count = device.settings.devices > 0 ? device.settings.devices : 0;
    return device.settings.devices > 0    ? cudaSuccess
           : device.settings.devices == 0 ? answer(cudaErrorNoDevice)
                                          : answer(cudaErrorInsufficientDriver);
}

cudaError_t cudaSetDevice(int number)
{
    if (emulated_fault())
        return cudaErrorLaunchFailure;
    return number < device.settings.devices ? cudaSuccess : answer(cudaErrorInvalidValue);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int number)
{
    (void)number;
    if (emulated_fault())
        return cudaErrorLaunchFailure;
    *prop = (struct cudaDeviceProp){.name = "emulated device",
                                    .totalGlobalMem = (size_t)device.settings.memory,
                                    .major = 9,
                                    .multiProcessorCount = 4};
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *driverVersion)
{
    *driverVersion = 13000;
    return emulated_fault() ? cudaErrorLaunchFailure : cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
    if (emulated_fault())
        return cudaErrorLaunchFailure;
    *total = (size_t)device.settings.memory;
    *free = *total - device.used;
    return cudaSuccess;
}
