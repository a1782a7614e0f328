/* The daemon: everything that lives as long as it does. */
#ifndef REMAT_SERVER_SERVICE_H
#define REMAT_SERVER_SERVICE_H

#include "config.h"
#include "engine.h"
#include "http.h"
#include "jobs.h"
#include "metrics.h"
#include "queue.h"
#include "storage.h"
#include "team.h"

#include <uv.h>

typedef struct service {
    config config;
    uv_loop_t *loop;
    remat_store *store;
    metrics metrics;
    team *team;
    engine *engine;
    queue *queue;
    jobs *jobs;
    http *http;
    uint64_t started; /* uv_hrtime */
    bool stopping;
} service;

/* Serves until SIGTERM or SIGINT. Returns the exit status of the process. */
int service_run(const config *settings);

/* Opens the configured store. To serve, making its folder if it is not there; read_only beside a
 * daemon that may be serving it. */
remat_status service_open_store(const config *settings, bool read_only, remat_store **ret_store,
                                remat_error *error);

#endif
