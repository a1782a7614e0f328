/* Pipelines: a model cut into stages, one after another on several ranks, through which
 * micro-batches go forward and back. Played by a judge, and planned: where to cut, and which list
 * of each stage to run, so that every rank fits and the step is shortest.
 *
 * Stage s is chunk s / ranks of rank s % ranks. What one micro-batch of a stage holds at its turn
 * counts for each that is in flight, what it needs besides counts once (remat/simulate.h). Nothing
 * here does I/O or keeps state; all of it may be called from any thread. */
#ifndef REMAT_PIPELINE_H
#define REMAT_PIPELINE_H

#include "remat/schedule.h"

#define REMAT_MOST_RANKS 256u
#define REMAT_MOST_CHUNKS 16u
#define REMAT_MOST_MICROBATCHES 4096u
/* ranks x chunks x microbatches: a forward and a backward of each are played */
#define REMAT_MOST_PASSES (1u << 19)

typedef enum remat_pipeline_order {
    REMAT_GPIPE,       /* all forwards, then all backwards (Huang et al. 2019) */
    REMAT_1F1B,        /* in turns once the pipeline is full (Narayanan et al. 2019) */
    REMAT_INTERLEAVED, /* the same with several chunks a rank (Narayanan et al. 2021) */
    REMAT_PIPELINE_ORDERS
} remat_pipeline_order;

const char *remat_pipeline_order_name(remat_pipeline_order order); /* "gpipe", .. */
/* REMAT_INVALID: there is none; known are .. */
remat_status remat_pipeline_order_find(const char *name, remat_pipeline_order *ret_order,
                                       remat_error *error);

/* What the program that runs the stages keeps beside what their lists hold. */
typedef struct remat_runtime {
    bool keeps_outputs; /* what a stage sent stays until its backward; else while it is sent */
    bool all_inputs;    /* room for what a stage receives, inputs and gradients, is there for every
                           micro-batch from the beginning of the step; else for those in flight */
    uint32_t ahead;     /* receives posted ahead of those, each of an input and of a gradient */
} remat_runtime;

/* "pytorch": torch.distributed.pipelining. "megatron": with deallocate_pipeline_outputs. "none":
 * keeps nothing beside.
 * REMAT_INVALID: there is none; known are .. */
remat_status remat_runtime_find(const char *name, remat_runtime *ret_runtime, remat_error *error);

typedef struct remat_pipeline {
    remat_pipeline_order order;
    uint32_t ranks, microbatches;
    uint32_t chunks; /* of a rank: 1 unless interleaved */
    /* [ranks], of 1F1B: micro-batches that a rank may have in flight, not increasing from rank to
     * rank; more than usual hide sends. NULL: min(microbatches, ranks - rank). */
    const uint32_t *in_flight;
    remat_runtime runtime;
    /* Of each send between two ranks; those of one rank to another go one after the other. */
    double latency;   /* in time units */
    double bandwidth; /* bytes per time unit; INFINITY: sends take the latency alone */
} remat_pipeline;

/* What a stage takes. */
typedef struct remat_pipeline_stage {
    double forward, backward; /* of one micro-batch; backward with all that is made again */
    uint64_t held, peak;      /* of one micro-batch: at its turn, and at most; held <= peak */
    uint64_t fixed;           /* weights, gradients, optimizer states */
    uint64_t input, output;   /* received and sent forward; as much comes back as gradients. The
                                 input is part of held. */
    uint64_t summed; /* gradients, from its first backward to the end of its last: beyond fixed */
} remat_pipeline_stage;

/* ---- the judge ---- */

typedef struct remat_pipeline_pass {
    double start, end;
    uint64_t memory; /* at most on the rank while it runs */
    uint64_t after;  /* at most from then until the next begins */
    uint32_t microbatch, stage;
    bool backward;
} remat_pipeline_pass;

typedef struct remat_pipeline_rank {
    uint64_t peak;
    double busy;
    uint32_t in_flight;                       /* most at one time, over all chunks */
    uint32_t in_flight_of[REMAT_MOST_CHUNKS]; /* of each chunk when that is so */
    const remat_pipeline_pass *passes;        /* in their order */
    size_t n_passes;
} remat_pipeline_rank;

typedef struct remat_pipeline_play {
    double step;
    double bubble; /* part of ranks x step in which ranks wait */
    uint32_t n_ranks;
    const remat_pipeline_rank *ranks;
    void *memory; /* its own */
} remat_pipeline_play;

/* Whether there is such a pipeline; REMAT_INVALID names the field: counts out of range, chunks of
 * an order that has none, micro-batches that interleaving cannot take (no multiple of the ranks),
 * numbers in flight with which no rank could begin; REMAT_TOO_LARGE: past REMAT_MOST_PASSES. */
remat_status remat_pipeline_check(const remat_pipeline *pipeline, remat_error *error);

/* Plays every pass and send of a step by a clock. stages: [ranks x chunks]. REMAT_INVALID as above,
 * and for a stage's times that are no numbers >= 0, or bytes past 2^53. The caller frees. */
remat_status remat_pipeline_judge(const remat_pipeline *pipeline,
                                  const remat_pipeline_stage *stages,
                                  remat_pipeline_play **ret_play, remat_error *error);
void remat_pipeline_play_free(remat_pipeline_play *play); /* accepts NULL */

/* ---- the planner ---- */

/* One list of a stage. */
typedef struct remat_stage_list {
    double forward, backward;
    uint64_t held, peak;
    uint64_t tag;       /* the host's own */
    uint32_t in_flight; /* no list for ranks with more; 0: for all */
} remat_stage_list;

/* Times and bytes of a list that is replayed on the profile of its stage, whose forward ends at the
 * turn (remat/simulate.h). REMAT_INVALID: the list is not valid. */
remat_status remat_stage_replay(const remat_profile *profile, const remat_operations *operations,
                                remat_stage_list *ret_list, remat_error *error);

/* The same of per-block checkpointing (remat_unit_list): unit by node of the profile. keeps_last:
 * the last unit runs once, as that of a network does, whose backward begins at once; of a stage
 * that others follow each micro-batch in flight holds it then. alignment > 0: laid out for
 * ret_list->in_flight, which is what it takes then. */
remat_status remat_stage_by_blocks(const remat_profile *profile, const uint32_t *unit,
                                   bool keeps_last, uint64_t alignment, remat_stage_list *ret_list,
                                   remat_error *error);
/* The same where some nodes of each unit run again right before the first of their backwards, and
 * all else stays; again: by node, NULL: none. */
remat_status remat_stage_by_nodes(const remat_profile *profile, const uint32_t *unit,
                                  const bool *again, uint64_t alignment, remat_stage_list *ret_list,
                                  remat_error *error);

/* What is known of the stage of some units. */
typedef struct remat_stage_menu {
    uint64_t fixed, input, output;
    double beside; /* time its rank takes beside its passes, as of the optimizer; a step ends after
                      the longest of all ranks */
    const remat_stage_list *lists; /* stay until the plan is made */
    size_t n_lists;
} remat_stage_menu;

/* A stage that runs that list. */
remat_pipeline_stage remat_stage_of(const remat_stage_menu *menu, const remat_stage_list *list);

/* Who knows the stages. A stage is the units first to end - 1. */
typedef struct remat_stage_host {
    void *data;
    remat_status (*menu)(void *data, uint32_t first, uint32_t end, remat_stage_menu *ret_menu,
                         remat_error *error);
    /* The same without its lists, which are then asked for where they may matter; NULL: nobody
     * knows them without. */
    remat_status (*bytes)(void *data, uint32_t first, uint32_t end, remat_stage_menu *ret_menu,
                          remat_error *error);
    bool (*cancelled)(void *data); /* asked before each play; NULL: never */
} remat_stage_host;

typedef struct remat_pipeline_question {
    remat_pipeline pipeline; /* one chunk a rank: gpipe or 1f1b */
    uint64_t memory;         /* of every rank, bytes */
    uint32_t n_units;        /* at least one for every rank */
    const double *least;     /* [n_units]: no list runs a unit forward and back in less; of a stage
                                their sum */
    double limit;            /* slower plans are not looked for; 0: there is none */
    uint32_t passes;         /* ranks x microbatches that are played in all, about; 0: 2^25 */
} remat_pipeline_question;

typedef struct remat_planned_stage {
    uint32_t first, end; /* units */
    uint32_t in_flight;  /* micro-batches */
    remat_stage_list list;
    remat_pipeline_stage stage;
} remat_planned_stage;

typedef struct remat_pipeline_plan {
    double step;   /* of all passes */
    double whole;  /* with what the ranks do beside them: what is least */
    double bound;  /* no plan of this order out of lists of these menus takes less, wherever it is
                      cut */
    bool all_cuts; /* none was left out: no cuts are faster */
    remat_planned_stage stages[REMAT_MOST_RANKS];
} remat_pipeline_plan;

/* Micro-batches that a rank has in flight. */
uint32_t remat_pipeline_in_flight(const remat_pipeline *pipeline, uint32_t rank);
/* What is left of the memory of a rank for the lists of its stage, peak + (n - 1) held of so many
 * micro-batches in flight: without what is on its way between ranks. */
uint64_t remat_pipeline_room(const remat_pipeline_question *question, uint32_t rank,
                             uint32_t in_flight, const remat_stage_menu *menu);

/* Who knows what no schedule of the units first to end - 1 on a rank with so many in flight beats:
 * the times of their forward and backward, once each, and of both with what has to run again, which
 * is not less with more in flight; INFINITY: none fits. With 0 in flight: as if all fitted. */
typedef struct remat_stage_least {
    double forward, backward, total;
    uint64_t input, output; /* as in a menu */
    double beside;
} remat_stage_least;

typedef struct remat_least_host {
    void *data;
    remat_status (*least)(void *data, uint32_t rank, uint32_t in_flight, uint32_t first,
                          uint32_t end, remat_stage_least *ret_least, remat_error *error);
} remat_least_host;

/* No step of this order, with what is beside its passes, is shorter, wherever units are cut,
 * whatever runs again where and, of 1F1B, however many are in flight; question as for a plan.
 * INFINITY: nothing fits. */
remat_status remat_pipeline_bound(const remat_pipeline_question *question,
                                  const remat_least_host *host, double *ret_bound,
                                  remat_error *error);

/* Cuts units into stages and chooses a list for each so that every rank fits and the whole is
 * shortest; its step is to the last bit what the judge makes of these stages. REMAT_INVALID names
 * the field; REMAT_INFEASIBLE, where there is no limit, says which rank lacks memory, and carries
 * in error->number the memory with which some cuts fit (sends left out); REMAT_CANCELLED. */
remat_status remat_pipeline_plan_make(const remat_pipeline_question *question,
                                      const remat_stage_host *host, remat_pipeline_plan *ret_plan,
                                      remat_error *error);

/* Where steps are long or follow one another without a pause, the slowest rank alone counts: cuts
 * and lists of at most so many ranks of which the longest time per micro-batch is least. Sends take
 * neither time nor memory, and nothing is beside passes. *ret_ranks: of the plan; its step and its
 * bound are that time. Refuses as above, but for what would do. */
remat_status remat_pipeline_plan_steady(const remat_pipeline_question *question,
                                        const remat_stage_host *host, uint32_t *ret_ranks,
                                        remat_pipeline_plan *ret_plan, remat_error *error);

#endif
