/* What a solver is, for those who write one, and the list of those there are.
 *
 * To add a solver: write one file under solver/ that ends in one `const remat_solver`, and add its
 * name to the list in solver/core/registry.c. Storage, api and server need no change.
 *
 * A solver computes a *table* once and traces schedules out of it. A table holds a finite family of
 * schedules, its *steps* 0 .. n_steps-1, in increasing order of nominal budget (the bytes the
 * solver's own model says a step needs); where the model is exact, with strictly decreasing predicted
 * makespan, elsewhere with makespans in any order, as the replay decides. The rest is
 * done for every solver alike (remat/table.h): each step is traced, passed through liveness and the
 * states pass, and replayed by the simulator; what counts afterwards is its replayed peak and
 * makespan. So a solver's model may count values longer than they are needed and no schedule is
 * lost by it, and no table promises what the simulator does not confirm.
 *
 * A solver uses libc and libm, starts no thread, keeps no global state, prints nothing. Its
 * functions are called with a profile that remat_solver_accepts has accepted. Tables are read-only
 * after tabulate and may be traced by any number of threads at once. */
#ifndef REMAT_SOLVER_H
#define REMAT_SOLVER_H

#include "remat/schedule.h"
#include "remat/simulate.h"

/* ---- what the host lends ---- */

/* A NULL host, or a NULL member, means: no workers, no limit, nobody listening. Members are called
 * from the thread that called the library; parallel_for may run body on other threads of the host.
 */
typedef struct remat_host {
    void *data; /* handed to each function below */
    /* Runs body(context, index, worker) for every index < count, in any order, and returns when all
     * are done. worker < workers says which of the simultaneous callers this is. */
    void (*parallel_for)(void *data, size_t count,
                         void (*body)(void *context, size_t index, unsigned worker), void *context);
    unsigned workers; /* of parallel_for, at least 1 */
    void (*progress)(void *data,
                     double fraction); /* 0 to 1, not decreasing, at most some hundred */
    bool (*cancelled)(void *data);     /* polled at least every 10 ms; any thread */
    uint64_t memory_limit;             /* bytes of one table; 0: none */
} remat_host;

/* Convenience for solvers; all accept a NULL host. */
void remat_host_parallel_for(const remat_host *host, size_t count,
                             void (*body)(void *context, size_t index, unsigned worker),
                             void *context);
unsigned remat_host_workers(const remat_host *host);
void remat_host_progress(const remat_host *host, double fraction);
bool remat_host_cancelled(const remat_host *host);

/* ---- options ---- */

typedef enum remat_option_type {
    REMAT_OPTION_INTEGER,
    REMAT_OPTION_NUMBER,
    REMAT_OPTION_BOOLEAN,
    REMAT_OPTION_CHOICE
} remat_option_type;

typedef struct remat_option {
    const char *name;
    const char *summary;
    remat_option_type type;
    double minimum, maximum;    /* inclusive; of INTEGER and NUMBER */
    double default_value;       /* CHOICE: index into choices; BOOLEAN: 0 or 1 */
    const char *const *choices; /* CHOICE: NULL-terminated */
} remat_option;

#define REMAT_MAX_OPTIONS 8

/* One value per option of a solver, in its order. */
typedef struct remat_options {
    double values[REMAT_MAX_OPTIONS];
} remat_options;

/* ---- the solver ---- */

/* What is to be solved. The members outlive every call they are passed to. */
typedef struct remat_problem {
    const remat_profile *profile;
    const remat_link *link; /* NULL: no offloading */
    remat_options options;  /* of the solver at hand */
    uint64_t max_budget;    /* bytes; a table must serve every budget up to this one */
} remat_problem;

typedef struct remat_estimate {
    uint64_t table_bytes; /* most memory that tabulate holds at once, within 10 % where it can be
                             known */
    uint64_t least_bytes; /* with which tabulate can do by making a coarser table; 0: table_bytes */
    double updates;       /* inner updates of the recurrence */
} remat_estimate;

typedef enum remat_optimality {
    REMAT_OPTIMAL,          /* no valid operation list within the budget is faster */
    REMAT_OPTIMAL_IN_CLASS, /* none of the solver's class is */
    REMAT_HEURISTIC
} remat_optimality;

/* Bytes under construction; {0} is empty. Numbers are written little endian. Owns data. */
typedef struct remat_buffer {
    uint8_t *data;
    size_t length, capacity;
} remat_buffer;

remat_status remat_buffer_put(remat_buffer *buffer, const void *bytes, size_t length);
remat_status remat_buffer_put_u32(remat_buffer *buffer, uint32_t value);
remat_status remat_buffer_put_u64(remat_buffer *buffer, uint64_t value);
remat_status remat_buffer_put_f64(remat_buffer *buffer, double value);
void remat_buffer_clear(remat_buffer *buffer);

/* A cursor over bytes somebody else owns. A read past the end sets failed, yields 0 and stays
 * failed. */
typedef struct remat_reader {
    const uint8_t *data;
    size_t length, position;
    bool failed;
} remat_reader;

uint32_t remat_reader_u32(remat_reader *reader);
uint64_t remat_reader_u64(remat_reader *reader);
double remat_reader_f64(remat_reader *reader);
/* The next length bytes, or NULL. */
const uint8_t *remat_reader_bytes(remat_reader *reader, size_t length);

enum {
    REMAT_ACCEPTS_CHAIN = 1,
    REMAT_ACCEPTS_JOIN = 2,  /* joins that are not chains */
    REMAT_ACCEPTS_GRAPH = 4, /* graphs that are neither */
    REMAT_ACCEPTS_ANY_SHAPE = 7,
    REMAT_HOMOGENEOUS_ONLY = 8,
    REMAT_NEEDS_LINK = 16,
    REMAT_BASELINE = 32,          /* for comparison: auto leaves it out; others serve it better */
    REMAT_BASELINE_ON_CHAINS = 64 /* the same, of chains only */
};

typedef struct remat_solver {
    const char *name;        /* "rotor" */
    const char *summary;     /* one sentence */
    const char *source;      /* the paper */
    const char *optimal_for; /* what it is optimal for; "" for a heuristic */
    unsigned accepts;        /* REMAT_ACCEPTS_..., REMAT_HOMOGENEOUS_ONLY, REMAT_NEEDS_LINK */
    unsigned table_version;  /* counts up when saved tables change their meaning */
    const remat_option *options;
    size_t n_options;

    /* NULL, or a check beyond the shape: REMAT_NOT_ACCEPTED naming the node. */
    remat_status (*check)(const remat_problem *problem, remat_error *error);

    /* Whether tabulate chooses among the alternatives of nodes by itself; otherwise (NULL: never) it
     * is shown profiles without alternatives only (remat/table.h). */
    bool (*chooses)(const remat_problem *problem);

    /* Allocates nothing that grows with the table. */
    remat_status (*estimate)(const remat_problem *problem, remat_estimate *ret_estimate,
                             remat_error *error);

    /* The expensive part. A profile that no budget up to max_budget can serve gives a table of no
     * steps, not an error. REMAT_CANCELLED within 50 ms of the host's wish; REMAT_TOO_LARGE when
     * the table would pass the host's memory limit. */
    remat_status (*tabulate)(const remat_problem *problem, const remat_host *host, void **ret_table,
                             remat_error *error);
    void (*table_free)(void *table); /* accepts NULL */
    uint64_t (*table_bytes)(const void *table);
    /* Every larger budget is served by the last step up to this one: UINT64_MAX if there is no
     * limit. */
    uint64_t (*table_max_budget)(const void *table);

    size_t (*n_steps)(const void *table);
    uint64_t (*step_budget)(const void *table, size_t step); /* nominal, bytes */
    double (*step_makespan)(const void *table, size_t step); /* predicted */
    /* Peak by the paper's own equations, in bytes, where step_budget is another number; else NULL. */
    uint64_t (*model_peak)(const void *table, size_t step);
    /* predicted */
    /* Appends the operations of a step to an empty list; D may be left to the liveness pass, S and
     * R to the states pass. The caller clears the list, on failure too. */
    remat_status (*trace)(const void *table, const remat_problem *problem, size_t step,
                          remat_operations *operations, remat_error *error);

    /* Least makespan that any schedule of the solver's class can have in budget bytes, INFINITY
     * when none fits; NULL when the method gives no bound. */
    double (*lower_bound)(const void *table, uint64_t budget);
    const char *class_name; /* of lower_bound: "persistent schedules"; "" without one */
    bool bounds_all;        /* lower_bound holds for every schedule without O and P */

    /* The table without header or checksum (remat/table.h adds them). load must survive any bytes:
     * REMAT_CORRUPT. */
    remat_status (*save)(const void *table, remat_buffer *buffer, remat_error *error);
    remat_status (*load)(const remat_problem *problem, remat_reader *reader, void **ret_table,
                         remat_error *error);
} remat_solver;

/* All solvers, cheapest first; static, *ret_count of them. */
const remat_solver *const *remat_solvers(size_t *ret_count);

/* NULL when there is none of that name. */
const remat_solver *remat_solver_find(const char *name);

/* REMAT_NOT_ACCEPTED naming the node that breaks the shape, or what the profile or request lacks.
 */
remat_status remat_solver_accepts(const remat_solver *solver, const remat_problem *problem,
                                  remat_error *error);

/* The defaults of a solver. */
remat_options remat_options_default(const remat_solver *solver);

/* Sets one option by name; text is for a CHOICE, number for the others (BOOLEAN: 0 or 1).
 * REMAT_INVALID names the option, the number and the range. */
remat_status remat_options_set(const remat_solver *solver, remat_options *options, const char *name,
                               double number, const char *text, remat_error *error);

const char *
remat_optimality_name(remat_optimality optimality); /* "optimal", "optimal-in-class", .. */

#endif
