/* remat-train, the command. Private to clients/executor/command. */
#ifndef REMAT_EXECUTOR_TRAIN_H
#define REMAT_EXECUTOR_TRAIN_H

#include "networks.h"
#include "remat_client.h"
#include "terminal.h"
#include "training.h"

/* The command line. */
typedef struct train_options {
    const char *model, *budget, *server, *schedule, *profile, *solver, *link, *data, *backend,
        *output, *device;
    network_settings settings;
    uint32_t steps, rounds, threads;
    double rate, momentum, seed, timeout;
    bool local, profile_only, compare, exact, guard, json, quiet, list, help, version, plan, check,
        calibrate, overhead;
} train_options;

/* Parses; false: wrong usage, which has been said. */
bool train_options_parse(int argc, char **argv, train_options *ret_options);
void train_help(void);

/* A network on a device, ready to train. */
typedef struct train {
    const train_options *options;
    net_graph net;
    kernel_backend backend;
    model model;
    training_text text;
    char device[128];
    json_t *document; /* the profile, and what it says */
    remat_profile *profile;
    bool measured;      /* its times were measured, here or where it was made */
    uint64_t store_all; /* peak, bytes */
    uint64_t budget;    /* bytes */
    json_t *link;       /* the way to the host as a request has it; NULL: not given */
    bool show_progress; /* stderr is a terminal */
    remat_client *client;
    remat_error error;
} train;

/* Reads and measures whatever the options ask for. */
remat_status train_prepare(train *t);
/* The network and what is known of it without its memory. */
remat_status train_describe(train *t);
/* Takes both in place of those before; the bytes of --budget are of the new profile from then on.
 */
remat_status train_replace_profile(train *t, json_t *document, remat_profile *profile);
void train_clear(train *t);

/* ---- plans.c: where schedules come from ---- */

typedef struct train_plan {
    remat_plan plan;
    char solver[64];
    char schedule_id[REMAT_ID_SIZE]; /* "": no server knows it */
    double predicted;                /* seconds of a step; NAN: not known */
} train_plan;

/* From --schedule, from this process with --local, or from the server. solver: NULL: as the options
 * say. least: where nothing fits the budget, take the least that does. */
remat_status train_plan_get(train *t, const char *solver, bool least, train_plan *ret_plan);

/* The answer of a server, or what `remat solve -o` wrote of it; laid out anew where its values do
 * not lie at multiples of REMAT_DEFAULT_ALIGNMENT, which kernels of devices need. */
remat_status train_schedule_read(train *t, const json_t *json, train_plan *plan);

/* ---- server.c, or no_server.c in a build without libcurl ---- */

/* REMAT_NOT_FOUND: this build knows no server. */
remat_status train_can_ask(train *t);
remat_status train_ask_server(train *t, const char *solver, uint64_t budget, train_plan *plan);
/* Tells the server what was measured; nothing where the schedule is not its own. */
remat_status train_post(train *t, const train_plan *plan, const training_outcome *outcome);
void train_disconnect(train *t);
/* As a server knows the profile; "" in a build that knows none. */
void train_profile_id(const train *t, char ret_id[REMAT_ID_SIZE]);

/* One training, as it went. */
typedef struct train_run {
    train_plan plan;
    training_outcome outcome;
    bool compared;
    bool faithful;                  /* the difference is what it may be */
    training_difference difference; /* from the first of a comparison */
} train_run;

/* ---- main.c ---- */

/* Says t->error; the exit code that goes with it. */
int train_fail(const train *t);
/* To stdout or --output; takes json over. The exit code. */
int train_write_json(train *t, json_t *json);

/* Trains from the start; the caller frees the outcome's losses. */
remat_status train_run_plan(train *t, const remat_plan *plan, uint32_t steps,
                            training_outcome *ret_outcome);
/* Gets a plan and trains; the caller clears the run, on failure too. */
remat_status train_run_solver(train *t, const char *solver, bool least, train_run *run);
void train_run_clear(train_run *run);

/* ---- compare.c ---- */

int train_compare(train *t);

/* ---- foresee.c ---- */

/* --plan: what a training will take, from shapes; with --check beside what it takes. */
int train_foresee(train *t);
/* --calibrate. */
int train_calibrate(train *t);

/* ---- report.c ---- */

/* Whose time a step of the backend is told in, for people. */
const char *train_clock(const train *t);
void train_print_network(const train *t);
void train_print_run(const train *t, const train_run *run);
void train_print_comparison(const train *t, const train_run *runs, size_t n);
/* NULL: out of memory. */
json_t *train_run_json(const train *t, const train_run *run);

#endif
