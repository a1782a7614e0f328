/* How fast the way to the host is. */
#include "training.h"

#include <string.h>

enum { BYTES = 64 << 20, ROUNDS = 7, PLACES = 2 };

/* Out of the first place and into the second, at once. */
static int copy_both(const kernel_backend *backend, void *const *host, void *const *device,
                     kernel_mark *from, kernel_mark *to)
{
    const remat_exec_backend *memory = backend->memory;
    int code = backend->mark(from);
    if (!code)
        code = memory->start_out(memory->data, host[0], device[0], BYTES, 0);
    if (!code)
        code = memory->start_in(memory->data, device[1], host[1], BYTES, 1);
    for (uint32_t ticket = 0; ticket < PLACES && !code; ticket++)
        code = memory->wait(memory->data, ticket);
    if (!code)
        code = backend->mark(to);
    return code ? code : memory->finish(memory->data);
}

/* The rate of the fastest round: the first ones pay for what is done once. */
static int time_copies(const kernel_backend *backend, void *const *host, void *const *device,
                       double *ret_rate)
{
    kernel_mark from = {0}, to = {0};
    int code = backend->memory->fill(backend->memory->data, device[0], 0, BYTES);
    *ret_rate = 0;
    for (int round = 0; round < ROUNDS && !code; round++) {
        double seconds = 0;
        code = copy_both(backend, host, device, &from, &to);
        if (!code)
            code = backend->between(&from, &to, &seconds);
        if (!code && seconds > 0 && BYTES / seconds > *ret_rate)
            *ret_rate = BYTES / seconds;
    }
    backend->unmark(&from);
    backend->unmark(&to);
    return code;
}

remat_status training_measure_link(const kernel_backend *backend, double *ret_rate,
                                   remat_error *error)
{
    const remat_exec_backend *memory = backend->memory;
    void *host[PLACES] = {0}, *device[PLACES] = {0};
    bool room = true;
    double rate = 0;
    for (int k = 0; k < PLACES; k++) {
        host[k] = memory->allocate_host(memory->data, BYTES);
        device[k] = memory->allocate(memory->data, BYTES);
        room = room && host[k] && device[k];
        if (host[k])
            memset(host[k], 0, BYTES);
    }
    const int code = room ? time_copies(backend, host, device, &rate) : 0;
    for (int k = 0; k < PLACES; k++) {
        memory->release(memory->data, device[k]);
        memory->release_host(memory->data, host[k]);
    }
    if (!room)
        return remat_fail(error, REMAT_TOO_LARGE, "link",
                          "there are no %d bytes twice on the host and the device to copy%s", BYTES,
                          remat_exec_fault(memory));
    if (code || rate <= 0)
        return remat_fail(error, REMAT_INTERNAL, "link", "copies could not be timed: %d%s", code,
                          remat_exec_fault(memory));
    *ret_rate = rate;
    return REMAT_OK;
}
