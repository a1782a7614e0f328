/* What a solver is, for those who write one, and the list of those there are.
 *
 * To add a solver: write one file under solver/ that ends in one `const remat_solver`, add its name
 * to the list in answer/registry.c and the file to solver/meson.build. That is all: storage, api,
 * server and clients serve it with frontier, curve and restarts. papers/chain/chen_sqrt.c is the
 * one to copy.
 *
 * A solver offers operation lists, as many as it likes, for as many budgets as it likes, up to
 * problem->max_budget. The rest is done for every solver alike (remat/table.h): each list is passed
 * through liveness and the states pass, given implementations where nodes have alternatives, and
 * replayed by the simulator; the table keeps those that no other beats in replayed peak and
 * makespan. So a solver's model may count values longer than they are needed and no list is lost by
 * it, and no table promises what the simulator does not confirm.
 *
 * Lists are kept packed, some hundred bytes each, those of a homogeneous chain of any length too.
 * Only where a recurrence answers what no list can is it kept raw (remat/machine.h).
 *
 * A solver uses libc and libm, starts no thread, keeps no global state, prints nothing. Its
 * functions are called with a profile that remat_solver_accepts has accepted. What it computes on
 * the way is its own and is freed when solve returns. */
#ifndef REMAT_SOLVER_H
#define REMAT_SOLVER_H

#include "remat/schedule.h"
#include "remat/simulate.h"

/* ---- what the host lends ---- */

/* A NULL host, or a NULL member, means: no workers, no limit, nobody listening. Members are called
 * from the thread that called the library, where nothing else is said; parallel_for may run body on
 * other threads of the host. */
typedef struct remat_host {
    void *data; /* handed to each function below */
    /* Runs body(context, index, worker) for every index < count, in any order, and returns when all
     * are done. worker < workers says which of the simultaneous callers this is. */
    void (*parallel_for)(void *data, size_t count,
                         void (*body)(void *context, size_t index, unsigned worker), void *context);
    unsigned workers; /* of parallel_for, at least 1 */
    /* 0 to 1, at most some thousand times. Any thread; of searches side by side the largest counts.
     */
    void (*progress)(void *data, double fraction);
    bool (*cancelled)(void *data); /* polled at least every 10 ms; any thread */
    /* Time is up, once and for all: who has found something hands it out, who has not is cancelled.
     * Polled likewise. */
    bool (*late)(void *data);
    uint64_t memory_limit; /* bytes of one solve, the table included; 0: none */
    /* What is begun now: a solver's name, or "improving"; static. Any thread. */
    void (*doing)(void *data, const char *what);
    /* While an answer is searched: the makespan of a list within its budget, and what none beats;
     * 0: nothing new. A list may be slower than one that was told before. */
    void (*found)(void *data, double makespan, double bound);
} remat_host;

/* Convenience for solvers; all accept a NULL host. */
void remat_host_parallel_for(const remat_host *host, size_t count,
                             void (*body)(void *context, size_t index, unsigned worker),
                             void *context);
unsigned remat_host_workers(const remat_host *host);
void remat_host_progress(const remat_host *host, double fraction);
bool remat_host_cancelled(const remat_host *host); /* or late */
bool remat_host_late(const remat_host *host);      /* and not cancelled */
void remat_host_doing(const remat_host *host, const char *what);
void remat_host_found(const remat_host *host, double makespan, double bound);
/* The same host, which hears nothing of progress and of what is found: for parts of a solve. */
remat_host remat_host_quiet(const remat_host *host);
/* The same host, for which it is never late: to finish what was found. */
remat_host remat_host_unhurried(const remat_host *host);

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
    bool silent; /* not in a question where it has its default: older questions keep their names */
} remat_option;

#define REMAT_MAX_OPTIONS 8

/* One value per option of a solver, in its order. */
typedef struct remat_options {
    double values[REMAT_MAX_OPTIONS];
} remat_options;

/* ---- the problem ---- */

/* What is to be solved. The members outlive every call they are passed to. */
typedef struct remat_problem {
    const remat_profile *profile;
    const remat_link *link; /* NULL: no offloading */
    remat_options options;  /* of the solver at hand */
    uint64_t max_budget;    /* bytes; lists are wanted for every budget up to this one */
    uint32_t in_flight;     /* micro-batches (remat/simulate.h); 0 or 1: one. No matter of a solver:
                               a table's lists serve every number */
} remat_problem;

typedef struct remat_estimate {
    uint64_t table_bytes; /* most memory that solve holds at once, within 10 % where it can be
                             known */
    uint64_t least_bytes; /* with which solve can do by counting more coarsely; 0: table_bytes */
    double updates;       /* inner updates of the recurrence */
} remat_estimate;

typedef enum remat_optimality {
    REMAT_OPTIMAL,          /* no valid operation list within the budget is faster, by more than a
                               billionth: times of less than that may be lost in the sums */
    REMAT_OPTIMAL_IN_CLASS, /* none of the solver's class is */
    REMAT_HEURISTIC
} remat_optimality;

enum {
    REMAT_ACCEPTS_CHAIN = 1,
    REMAT_ACCEPTS_JOIN = 2,  /* joins that are not chains */
    REMAT_ACCEPTS_GRAPH = 4, /* graphs that are neither */
    REMAT_ACCEPTS_ANY_SHAPE = 7,
    REMAT_HOMOGENEOUS_ONLY = 8,
    REMAT_NEEDS_LINK = 16,
    REMAT_BASELINE = 32,           /* for comparison: auto leaves it out; others serve it better */
    REMAT_BASELINE_ON_CHAINS = 64, /* the same, of chains only */
    REMAT_ACCEPTS_JOINT = 128,     /* joint graphs, of any shape */
    REMAT_ACCEPTS_PINS = 256       /* nodes that run once */
};

typedef struct remat_machine remat_machine;

/* ---- where lists go ---- */

/* What the solver's own model says of a list; every member may be 0: it says nothing. */
typedef struct remat_model {
    uint64_t budget;     /* nominal bytes; 0: the replayed peak */
    uint64_t model_peak; /* peak by the paper's own equations; 0: budget */
    double makespan;     /* predicted: a replay that is slower is a bug of the solver */
    bool tentative;      /* the simulator may reject the list, which is then left out; of any other
                            list that is a bug of the solver */
} remat_model;

/* Writes list number index into an empty list: F, A, B, O, P and D, where D may be left to the
 * liveness pass; S and R are left to the states pass. REMAT_INFEASIBLE, without a message, where
 * there is no such list. Runs on several workers of the host at once. */
typedef remat_status remat_tracer(void *context, size_t index, remat_operations *operations,
                                  remat_model *model, remat_error *error);

/* The core's, or that of a solver that asks another one (papers/join/others.c). */
typedef struct remat_sink {
    void *data; /* handed to each function below */
    remat_status (*offer)(void *data, size_t count, remat_tracer *trace, void *context,
                          remat_error *error);
    remat_status (*bound)(void *data, uint64_t budget, double makespan, remat_error *error);
    remat_status (*hold)(void *data, uint64_t bytes, remat_error *error);
    double (*best)(void *data, uint64_t budget);
    void (*bind)(void *data, uint64_t low, uint64_t high);
} remat_sink;

/* Offers count lists, traced and judged in parallel; of equal ones the first stays. On failure, and
 * at the host's wish REMAT_CANCELLED, solve ends with that status. */
remat_status remat_offer_lists(const remat_sink *sink, size_t count, remat_tracer *trace,
                               void *context, remat_error *error);

/* Offers one. model may be NULL: it says nothing. */
remat_status remat_offer(const remat_sink *sink, const remat_operations *operations,
                         const remat_model *model, remat_error *error);

/* No schedule of the solver's class within budget bytes is faster than makespan (INFINITY: none is
 * within it). What is said of a budget holds of every smaller one. */
remat_status remat_offer_bound(const remat_sink *sink, uint64_t budget, double makespan,
                               remat_error *error);

/* The solver holds so many bytes beside the table from now on: REMAT_TOO_LARGE when both pass the
 * host's limit. */
remat_status remat_sink_hold(const remat_sink *sink, uint64_t bytes, remat_error *error);

/* Replayed makespan of the best list so far that fits budget; INFINITY when there is none. */
double remat_sink_best(const remat_sink *sink, uint64_t budget);

/* For solvers whose lists depend on problem->max_budget (slots of memory are cut from it): they are
 * the same for every max_budget from low to high, the problem's among them, and the table answers
 * questions of those only, so that an answer never depends on what was asked before. Whoever reads
 * max_budget calls this. What several calls say holds together. */
void remat_sink_bind(const remat_sink *sink, uint64_t low, uint64_t high);

/* ---- the solver ---- */

typedef struct remat_solver {
    const char *name;        /* "rotor" */
    const char *summary;     /* one sentence */
    const char *source;      /* the paper */
    const char *optimal_for; /* what it is optimal for; "" for a heuristic */
    unsigned accepts;        /* REMAT_ACCEPTS_..., REMAT_HOMOGENEOUS_ONLY, REMAT_NEEDS_LINK.
                                Most solvers know neither joint graphs nor pins */
    unsigned version;        /* counts up when its lists or bounds change */
    const remat_option *options;
    size_t n_options;
    const char *class_name; /* of its bounds: "persistent schedules"; NULL where it offers none */
    bool bounds_all;        /* they hold for every schedule without O and P */
    bool improved; /* its answers go through the improver (remat/improve.h), as auto's do */
    const remat_machine *machine; /* NULL, or whose schedules it has too (remat/machine.h)... */
    size_t machine_option;        /* ...where this option is not 0 */

    /* NULL, or a check beyond the shape: REMAT_NOT_ACCEPTED naming the node. */
    remat_status (*check)(const remat_problem *problem, remat_error *error);

    /* Whether solve chooses among the alternatives of nodes by itself; otherwise (NULL: never) it
     * is shown profiles without alternatives only (remat/table.h). */
    bool (*chooses)(const remat_problem *problem);

    /* Allocates nothing that grows with the work. NULL: it offers a list or two, in no time. */
    remat_status (*estimate)(const remat_problem *problem, remat_estimate *ret_estimate,
                             remat_error *error);

    /* The expensive part. A profile that no budget up to max_budget can serve gives no lists, not
     * an error. REMAT_CANCELLED within 50 ms of the host's wish; REMAT_TOO_LARGE when it would pass
     * the host's memory limit. */
    remat_status (*solve)(const remat_problem *problem, const remat_host *host,
                          const remat_sink *sink, remat_error *error);
} remat_solver;

/* All solvers, cheapest first; static, *ret_count of them. */
const remat_solver *const *remat_solvers(size_t *ret_count);

/* NULL when there is none of that name. */
const remat_solver *remat_solver_find(const char *name);

/* REMAT_NOT_ACCEPTED where several micro-batches in flight are more than the problem can have: with
 * a link, of another machine than the simulator's (machine), of a joint graph without late inputs.
 */
remat_status remat_check_in_flight(const remat_problem *problem, const remat_machine *machine,
                                   remat_error *error);

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
