/* Schedules and trade-offs in the caller's own process, without a store: what libremat-local.so and
 * remat --local share. */
#ifndef REMAT_LOCAL_SOLVE_H
#define REMAT_LOCAL_SOLVE_H

#include "api.h"

typedef struct local_watch {
    void *data;
    /* label: what is at work; true cancels */
    bool (*look)(void *data, const char *label, double fraction);
} local_watch;

/* What the server would answer to a request of either kind, for its profile. Solves may take every
 * core and three quarters of the memory that the process may use; the answer is the same on any
 * number of cores. The watch is called from the calling thread alone, every few milliseconds.
 * REMAT_NO_MEMORY also where no thread can be started beside the caller's. */
remat_status local_solve(const remat_request *request, const char *profile_id,
                         const remat_profile *profile, uint64_t store_all_peak,
                         const local_watch *watch, json_t **ret_answer, remat_error *error);

#endif
