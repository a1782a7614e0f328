/* Opening and closing: which engine a place is for. And leases, which only shared stores have. */
#include "private.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

enum { LEASE_SECONDS = 10, CONNECTIONS = 16 };

bool remat_store_is_url(const char *place)
{
    return strncmp(place, "postgresql://", 13) == 0 || strncmp(place, "postgres://", 11) == 0;
}

static remat_status backend_of(const char *place, const storage_backend **ret_backend,
                               remat_error *error)
{
    *ret_backend = &storage_sqlite;
    if (!remat_store_is_url(place))
        return REMAT_OK;
#ifdef STORAGE_POSTGRES
    *ret_backend = &storage_postgres;
    return REMAT_OK;
#else
    return remat_fail(error, REMAT_INVALID, "store",
                      "this build has no PostgreSQL: build it where libpq is, or give the path of "
                      "a SQLite store");
#endif
}

static remat_status make_owner(char owner[33], remat_error *error)
{
    uint64_t words[2];
    if (getrandom(words, sizeof words, 0) != sizeof words)
        return remat_fail(error, REMAT_IO, NULL, "cannot get random bytes");
    snprintf(owner, 33, "%016llx%016llx", (unsigned long long)words[0],
             (unsigned long long)words[1]);
    return REMAT_OK;
}

remat_status storage_init(remat_store *store, const storage_backend *backend, const char *place,
                          const remat_store_options *options, remat_error *error)
{
    *store = (remat_store){.backend = backend};
    if (options)
        store->options = *options;
    if (!store->options.lease_seconds)
        store->options.lease_seconds = LEASE_SECONDS;
    if (!store->options.connections)
        store->options.connections = CONNECTIONS;
    remat_status status = make_owner(store->owner, error);
    return status != REMAT_OK ? status : backend->name(place, &store->name, error);
}

remat_status remat_store_open(const char *place, const remat_store_options *options,
                              remat_store **ret_store, remat_error *error)
{
    const storage_backend *backend;
    remat_status status = backend_of(place, &backend, error);
    return status != REMAT_OK ? status : backend->open(place, options, ret_store, error);
}

void remat_store_close(remat_store *store)
{
    if (store)
        store->backend->close(store);
}

const char *remat_store_name(const remat_store *store)
{
    return store->name;
}

remat_status remat_store_place_name(const char *place, char **ret_name, remat_error *error)
{
    const storage_backend *backend;
    remat_status status = backend_of(place, &backend, error);
    return status != REMAT_OK ? status : backend->name(place, ret_name, error);
}

bool remat_store_is_shared(const remat_store *store)
{
    return store->backend->shared;
}

remat_status storage_submit(remat_store *store, storage_write_run *run, void *argument,
                            remat_error *error)
{
    if (store->options.read_only)
        return remat_fail(error, REMAT_INVALID, NULL, "%s was opened for reading only",
                          store->name);
    return store->backend->submit(store, run, argument, error);
}

void remat_store_touch(remat_store *store, const char *profile_id, const char *schedule_id,
                       const char *solver, const char *options)
{
    if (store->options.read_only || !profile_id)
        return;
    const char *const texts[4] = {profile_id, schedule_id, solver, options};
    store->backend->touch(store, texts);
}

/* ---- leases ---- */

remat_status remat_store_take_lease(remat_store *store, const char *name, bool *ret_taken,
                                    remat_error *error)
{
    *ret_taken = true;
    return store->backend->shared ? store->backend->take_lease(store, name, ret_taken, error)
                                  : REMAT_OK;
}

remat_status remat_store_release_lease(remat_store *store, const char *name, remat_error *error)
{
    return store->backend->shared ? store->backend->release_lease(store, name, error) : REMAT_OK;
}

/* ---- the log, the time ---- */

void storage_log(const remat_store *store, const char *format, ...)
{
    if (!store->options.log)
        return;
    char message[REMAT_MESSAGE_SIZE + 256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    store->options.log(store->options.data, message);
}

int64_t remat_store_now(void)
{
    static _Atomic int64_t latest;
    struct timespec clock;
    clock_gettime(CLOCK_REALTIME, &clock);
    const int64_t now = (int64_t)clock.tv_sec * 1000 + clock.tv_nsec / 1000000;
    int64_t seen = atomic_load(&latest);
    while (seen < now && !atomic_compare_exchange_weak(&latest, &seen, now))
        ;
    return seen < now ? now : seen;
}
