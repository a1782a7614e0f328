/* The backend that is this process. */
#include "remat_exec.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 4096 };

static void *allocate(void *data, uint64_t bytes)
{
    (void)data;
    uint64_t whole = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return whole <= SIZE_MAX ? aligned_alloc(ALIGNMENT, whole ? (size_t)whole : ALIGNMENT) : NULL;
}

static void release(void *data, void *memory)
{
    (void)data;
    free(memory);
}

static int copy_in(void *data, void *device, const void *host, uint64_t bytes)
{
    (void)data;
    memcpy(device, host, (size_t)bytes);
    return 0;
}

static int copy_out(void *data, void *host, const void *device, uint64_t bytes)
{
    return copy_in(data, host, device, bytes);
}

static int start_copy(void *data, void *to, const void *from, uint64_t bytes, uint32_t ticket)
{
    (void)data;
    (void)ticket;
    memcpy(to, from, (size_t)bytes);
    return 0;
}

static int wait_for(void *data, uint32_t ticket)
{
    (void)data;
    (void)ticket;
    return 0;
}

static int fill(void *data, void *device, int byte, uint64_t bytes)
{
    (void)data;
    memset(device, byte, (size_t)bytes);
    return 0;
}

static int copy(void *data, void *device, const void *from, uint64_t bytes)
{
    return copy_in(data, device, from, bytes);
}

static int finish(void *data)
{
    (void)data;
    return 0;
}

const remat_exec_backend *remat_exec_memory_backend(void)
{
    static const remat_exec_backend backend = {.name = "memory",
                                               .allocate = allocate,
                                               .release = release,
                                               .allocate_host = allocate,
                                               .release_host = release,
                                               .copy_in = copy_in,
                                               .copy_out = copy_out,
                                               .start_out = start_copy,
                                               .start_in = start_copy,
                                               .wait = wait_for,
                                               .fill = fill,
                                               .copy = copy,
                                               .finish = finish};
    return &backend;
}
