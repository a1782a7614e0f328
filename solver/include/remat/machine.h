/* Schedules of another machine than the simulator's.
 *
 * A solver's lists are judged by remat/simulate.h, in bytes. Some papers count otherwise: values of
 * one size that operations overwrite. A solver with such a recurrence names, beside its own
 * questions, one option that asks for schedules of a machine of its own: with other operations,
 * budgets in units of its own, a judge of its own, and tables that depend on less than a profile.
 * Whoever answers questions asks remat_machine_of whether there is one, and needs to know no more
 * of it than what stands here. */
#ifndef REMAT_MACHINE_H
#define REMAT_MACHINE_H

#include "remat/bytes.h"
#include "remat/table.h"

/* What one kind of step is called, "Db", and how many numbers it has: 0, branch, branch and index.
 */
typedef struct remat_step_kind {
    const char *name;
    unsigned numbers;
} remat_step_kind;

/* What a profile is to the machine. */
typedef struct remat_machine_facts {
    uint64_t least, most;      /* budgets: of any schedule; of storing everything */
    double store_all_makespan; /* in the profile's unit of time */
    uint32_t n_branches;
    uint32_t *lengths; /* owned: of each branch */
    uint32_t *nodes;   /* owned: those that the steps of a branch run, branch after branch */
} remat_machine_facts;

void remat_machine_facts_clear(remat_machine_facts *facts);

enum { REMAT_TABLE_NAME_SIZE = 48 };

struct remat_machine {
    const char *name;     /* what its schedules call their model */
    const char *unit;     /* of budgets, one of them: "slot" */
    const char *work;     /* steps of kind 0, several of them: "forwards" */
    uint64_t most_budget; /* the largest that may be asked for */
    const remat_step_kind *kinds;
    uint8_t n_kinds;

    /* REMAT_NOT_ACCEPTED names the node or graph input and the number. Cleared by the caller. */
    remat_status (*facts)(const remat_profile *profile, const remat_options *options,
                          remat_machine_facts *ret_facts, remat_error *error);

    /* The judge: plays the steps as they stand. moments: NULL or room for all of them. */
    remat_status (*replay)(const remat_profile *profile, const remat_steps *steps,
                           remat_moment *moments, remat_simulation *ret_simulation,
                           remat_error *error);

    /* ---- tables, raw: remat/table.h wraps them ---- */

    /* What the table depends on; one is kept of each name, whatever the profile. */
    remat_status (*name_table)(const remat_problem *problem, char ret_name[REMAT_TABLE_NAME_SIZE],
                               remat_error *error);
    remat_status (*estimate)(const remat_problem *problem, remat_estimate *ret_estimate,
                             remat_error *error);
    /* known: NULL, or one of that name whose problems the new one answers as well, as far as the
     * host's limit of memory lets it. */
    remat_status (*tabulate)(const remat_problem *problem, const void *known,
                             const remat_host *host, void **ret_raw, remat_error *error);
    bool (*serves)(const void *raw, const remat_problem *problem);
    uint64_t (*bytes)(const void *raw);
    remat_status (*save)(const void *raw, remat_buffer *buffer, remat_error *error);
    remat_status (*load)(remat_reader *reader, void **ret_raw, remat_error *error);
    void (*free)(void *raw); /* accepts NULL */

    /* Traced and judged. REMAT_INFEASIBLE carries the least budget in error->number. */
    remat_status (*schedule)(const void *raw, const remat_problem *problem, uint64_t budget,
                             remat_schedule *ret_schedule, remat_error *error);
};

/* The machine whose schedules these options of the solver (NULL: auto) ask for; NULL: the
 * simulator's. */
const remat_machine *remat_machine_of(const remat_solver *solver, const remat_options *options);

/* By name; NULL where there is none. */
const remat_machine *remat_machine_find(const char *name);

#endif
