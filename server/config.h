/* Configuration: flags over REMATD_* variables over a file over defaults. */
#ifndef REMAT_SERVER_CONFIG_H
#define REMAT_SERVER_CONFIG_H

#include "log.h"
#include "remat/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct config {
    char listen[256];      /* ADDRESS:PORT; port 0 lets the system choose */
    char hosts[1024];      /* names that requests may be for beside the usual ones, by commas */
    char store[1024];      /* path, or URL of PostgreSQL */
    unsigned workers;      /* solves at a time */
    uint64_t memory_limit; /* bytes of one table */
    uint64_t cache_bytes;  /* of answers in memory; tables get as much again */
    uint64_t max_body;     /* bytes of a request body, also after decoding */
    uint64_t body_memory;  /* bytes of all request bodies and of what is read out of them */
    unsigned max_nodes;    /* of one profile */
    unsigned max_edges;
    unsigned queue_limit; /* solves that may wait */
    unsigned max_connections;
    unsigned idle_seconds;    /* before a silent connection is closed */
    unsigned receive_seconds; /* to send a request, beyond that */
    unsigned solve_seconds;   /* limit of one solve */
    unsigned lease_seconds;   /* that a dead process keeps what it held, on a shared store */
    unsigned stop_seconds;    /* within which SIGTERM ends the daemon */
    log_level log_level;
    char config[1024];   /* file that was read; "": none */
    char tokens[1024];   /* file of bearer tokens; "": nobody needs one */
    char tls_cert[1024]; /* PEM, with its chain; "": plain HTTP */
    char tls_key[1024];
    unsigned address_rate;        /* requests a second of one address; 0: no limit */
    unsigned address_jobs;        /* its unfinished solves */
    unsigned address_connections; /* its connections */
    uint64_t store_bytes;         /* that the store is kept below; 0: no limit */
    bool check_only;              /* --check-config */
} config;

typedef enum config_outcome { CONFIG_RUN, CONFIG_DONE, CONFIG_BAD } config_outcome;

/* Reads the file of --config, variables and flags (argv as main got it, from its first argument
 * on). CONFIG_DONE: --help or --version was printed. CONFIG_BAD: a message was printed on
 * stderr. */
config_outcome config_read(config *ret_config, int argc, char **argv);

/* A size as settings have it, "64MiB"; false: a message about `where` was printed. */
bool config_bytes(const char *where, const char *text, uint64_t *ret_bytes);

/* The settings that may change while the daemon runs: from fresh into c. Names that changed and
 * need a restart are logged. */
void config_take(config *c, const config *fresh);

#endif
