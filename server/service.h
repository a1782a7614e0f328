/* The daemon: everything that lives as long as it does. */
#ifndef REMAT_SERVER_SERVICE_H
#define REMAT_SERVER_SERVICE_H

#include "config.h"
#include "engine/engine.h"
#include "fleet/fleet.h"
#include "fleet/retention.h"
#include "host/team.h"
#include "http/http.h"
#include "http/streams.h"
#include "jobs/jobs.h"
#include "jobs/queue.h"
#include "memory.h"
#include "metrics.h"
#include "security/limits.h"
#include "security/tokens.h"
#include "storage.h"

#include <uv.h>

typedef struct service {
    config config;
    uv_loop_t *loop;
    remat_store *store;
    metrics metrics;
    team *team;
    engine *engine;
    queue *queue;
    memory *memory;
    jobs *jobs;
    fleet *fleet;
    http *http;
    tokens tokens; /* of config.tokens */
    limits *limits;
    streams *streams;
    retention *retention;
    body *openapi, *devices; /* documents, once they were asked for; owned */
    uint64_t started;        /* uv_hrtime */
    unsigned plans;          /* being drafted, or waiting to be */
    bool stopping;
} service;

/* Serves until SIGTERM or SIGINT; at SIGHUP reads tokens, certificate and configuration again (argc
 * and argv as config_read got them). Returns the exit status of the process. */
int service_run(const config *settings, int argc, char **argv);

/* Whether the configured store could be opened to serve it; nothing is opened or made. */
remat_status service_check_store(const config *settings, remat_error *error);

/* READS: beside a daemon that may be serving it. */
typedef enum service_use { SERVICE_WRITES, SERVICE_READS, SERVICE_PRUNES } service_use;

/* Opens the configured store; to change it, making its folder if it is not there. f hears of its
 * events, unless NULL. */
remat_status service_open_store(const config *settings, service_use use, fleet *f,
                                remat_store **ret_store, remat_error *error);

#endif
