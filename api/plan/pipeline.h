/* Plans of pipelines: where to cut, and which question each stage is asked. Private to api/plan.
 *
 * Cuts are chosen by what no schedule of a stage beats, which a millisecond tells and schedules
 * come close to; then the stages are asked their questions, and cuts are chosen again with what
 * they answered, a few times. What is handed out is the best that the judge (remat/pipeline.h) has
 * played with the answers themselves. */
#ifndef REMAT_API_PLAN_PIPELINE_H
#define REMAT_API_PLAN_PIPELINE_H

#include "plan/plan.h"
#include "plan/stages.h"

/* Of the units of a stage: 1024 are the most. */
enum { API_MOST_DOUBLINGS = 11 };

/* A list that runs blocks of a stage again, once it is known: of one that ends the pipeline or
 * does not, to be laid out with so many in flight. It is the same for all memory and wherever such
 * a stage lies. */
typedef struct api_blocks_list {
    bool known, ends;
    uint32_t in_flight;
    remat_stage_list list;
} api_blocks_list;

/* What no schedule of a shape beats. */
typedef struct api_least {
    uint32_t in_flight;
    uint64_t budget;
    double total;
} api_least;

/* Units of some kinds one after another: all stages of them are this one but for names. */
typedef struct api_shape {
    uint32_t first, end; /* such a stage */
    remat_profile *profile;
    remat_moments *moments; /* of it, once they are asked for */
    api_least *leasts;      /* that were asked for */
    size_t n_leasts;
    double forward, all;         /* time of its forward; and of its backward too */
    remat_stage_list everything; /* stored: takes so long if its backward does */
    api_blocks_list blocks[API_MOST_DOUBLINGS][2]; /* so many together; the last of them too */
} api_shape;

/* Units of a stage: first to end - 1. */
typedef struct api_part {
    uint32_t first, end;
} api_part;

/* A question to a stage, and what became of it. */
typedef struct api_asked {
    uint32_t first, end, in_flight;
    size_t shape;
    uint64_t budget;
    const char *solver;
    bool done, fits;
    remat_stage_list list; /* if it fits, with what follows */
    json_t *schedule;      /* a part of it */
    char profile_id[REMAT_ID_SIZE];
} api_asked;

/* Of stages that were not asked: that they lie as far above what no schedule beats as usual, and
 * take all of their budget; that they lie at it; and take nothing, so that what is on its way is
 * beside them. */
enum { API_USUAL, API_FAST, API_FAST_AND_SMALL };
/* Another plan is asked for where it promises so much. */
#define API_WORTH_A_ROUND 1e-3
/* At most so many sends are left room for, each way; and how many such rooms there are. */
enum { API_MOST_SENDS = 3, API_ROOMS = (API_MOST_SENDS + 1) * (API_MOST_SENDS + 1) };

/* What a step is longer for than its passes: seconds of the rank that takes longest for both. */
typedef struct api_beside {
    double update;   /* the optimizer's */
    double exchange; /* of what data-parallel ranks send */
} api_beside;

/* A plan; once all its stages are answered, played. */
typedef struct api_candidate {
    remat_pipeline_plan plan;
    uint32_t in_flight[REMAT_MOST_RANKS];
    size_t asked[REMAT_MOST_RANKS]; /* the answer of each rank */
    remat_pipeline_play *play;
    api_beside beside;
} api_candidate;

struct api_pipeline {
    remat_plan_request q; /* its model is not kept, its JSON is in terms */
    json_t *document, *terms;
    remat_profile *profile;
    double unit; /* seconds of its time */
    api_units units;
    remat_tensor *tensors; /* of a model; unit: of units */
    size_t n_tensors;
    remat_unit_load *loads; /* of units; behind them room for those of a rank */
    uint64_t hole;          /* of the last unit */
    bool tied;              /* the last unit has the first tensor too */
    bool *again;            /* by node: what attention runs; NULL: not known */
    unsigned most; /* times as many in flight as usual may be chosen: where sends take long */
    remat_pipeline_question question;
    remat_stage_menu *menus;  /* [n + 1][n + 1]: without lists; fixed UINT64_MAX: not yet known */
    double *updates;          /* the same: the optimizer's part, time units */
    remat_stage_list **lists; /* the same: of the menus of the plan at hand */
    api_shape *shapes;
    api_asked *asked;
    size_t n_shapes, n_asked;
    double longest;     /* stages of more, forward and back, are in no plan that is looked for */
    unsigned hopes;     /* for stages that were not asked: API_USUAL, .. */
    unsigned sends;     /* room is left for none to so many on their way, of each way */
    unsigned rounds;    /* plans that were answered */
    size_t nodes_asked; /* of all questions */
    size_t pending;     /* the question under way */
    bool over;          /* nothing is asked any more */
    bool quick;         /* one plan is answered, with as many in flight as usual if that fits, and
                           equal cuts where a way with them is faster */
    bool last;          /* running every block again was the last that was tried */
    bool real;          /* menus are of lists that run each block again */
    double equal;       /* time of the fastest way that fits, with equal cuts; INFINITY: none, or
                           those cuts were planned */
    double bound;       /* on every plan; INFINITY: not yet known, as nothing fits yet */
    api_candidate now, best; /* best.play NULL: none yet */
    const char *best_way; /* of an interleaved schedule, which nothing is solved for; else NULL */
    json_t *ways;
    remat_error refusal; /* status 0: there is none */
};

/* graph: of a model, whose document it is; else NULL. */
remat_status api_pipeline_new(const remat_plan_request *request, const remat_network_graph *graph,
                              const json_t *document, api_pipeline **ret_pipeline,
                              remat_error *error);
void api_pipeline_free(api_pipeline *pipeline); /* accepts NULL */

/* Whether one of the ways that people use fits. */
bool api_pipeline_has_way(const api_pipeline *pipeline);

/* The next question and the profile that it is asked of, both new; NULL: there is none. */
remat_status api_pipeline_ask(api_pipeline *pipeline, json_t **ret_document, json_t **ret_question,
                              remat_error *error);
/* What became of it: the schedule's document, NULL: nothing fits. */
remat_status api_pipeline_take(api_pipeline *pipeline, const json_t *schedule, remat_error *error);

/* Puts what was found into the answer. */
remat_status api_pipeline_encode(const api_pipeline *pipeline, json_t **answer, remat_error *error);

/* ---- between the files of pipelines ---- */

/* The shape of a stage; its menu without lists. */
remat_status api_pipeline_shape(api_pipeline *pipeline, uint32_t first, uint32_t end,
                                size_t *ret_shape, remat_error *error);
remat_status api_pipeline_bytes(void *pipeline, uint32_t first, uint32_t end,
                                remat_stage_menu *ret_menu, remat_error *error);
/* Weights and what goes with them of the stages of a rank, in their order; what that leaves
 * activations nothing of. */
remat_status api_pipeline_table(const api_pipeline *pipeline, const api_part *parts,
                                uint32_t n_parts, remat_step_table *ret_table, remat_error *error);
uint64_t api_pipeline_fixed(const remat_step_table *table, uint64_t memory);
/* That rank's, if one of these parts and that table takes longer; backward: time of its units',
 * with what runs again, 0: where nothing does. */
void api_pipeline_beside(const api_pipeline *pipeline, const api_part *parts, uint32_t n_parts,
                         const remat_step_table *table, double backward, api_beside *beside);
/* What a schedule may take on a rank with so many in flight, beside all that is there and so many
 * sends on their way: outputs, and gradients back. */
uint64_t api_pipeline_budget(const api_pipeline *p, uint32_t rank, uint32_t in_flight,
                             const remat_stage_menu *menu, unsigned out, unsigned back);
/* What no schedule of a shape within a budget beats. */
remat_status api_pipeline_total(api_pipeline *p, size_t shape, uint32_t in_flight, uint64_t budget,
                                double *ret_total, remat_error *error);
/* Whether what a shape answers with less is as good as what it would with the budget, but for what
 * is not worth a round. */
remat_status api_pipeline_serves(api_pipeline *p, size_t shape, uint32_t n, uint64_t less,
                                 uint64_t budget, bool *ret_serves, remat_error *error);
/* Adds the list that a stage answered, or is likely to; none where nothing fits. Its tag is the
 * index of who answered, or the budget, marked as what was not asked. */
#define API_UNASKED (UINT64_C(1) << 63)
#define API_BLOCKS (UINT64_C(1) << 62) /* of lists that run each block again */
remat_status api_pipeline_likely(api_pipeline *p, size_t shape, uint32_t n, uint64_t budget,
                                 remat_stage_list *lists, size_t *count, remat_error *error);
/* For the bound, remat_least_host, and for the planner, remat_stage_host. */
remat_status api_pipeline_least(void *data, uint32_t rank, uint32_t in_flight, uint32_t first,
                                uint32_t end, remat_stage_least *ret_least, remat_error *error);
remat_status api_pipeline_menu(void *data, uint32_t first, uint32_t end, remat_stage_menu *ret_menu,
                               remat_error *error);
/* Memory of every rank from here on. */
void api_pipeline_put_memory(api_pipeline *p, uint64_t memory);
/* The best of the plans with more and with fewer in flight; one to ask the stages of, where none is
 * REMAT_INFEASIBLE says by how much running every block again misses; that one, which needs least.
 */
remat_status api_pipeline_plan_best(api_pipeline *p, remat_error *error);
remat_status api_pipeline_plan_now(api_pipeline *p, remat_error *error);
remat_status api_pipeline_plan_blocks(api_pipeline *p, remat_error *error);
/* The bound on every plan, once: it costs more than to refuse. */
remat_status api_pipeline_find_bound(api_pipeline *p, remat_error *error);
/* Equal cuts, with as many in flight as usual, once where a way with them takes less time than that
 * and fits: a plan is not to be slower, nor refused. Their stages are asked within what leaves room
 * for a send each way, so a way that fits without may be lost. *ret_planned: they are. */
remat_status api_pipeline_plan_equal(api_pipeline *p, double than, bool *ret_planned,
                                     remat_error *error);
/* So many times as many in flight as usual may be worth it. */
unsigned api_pipeline_most_in_flight(const api_pipeline *p);
void api_pipeline_menus_clear(api_pipeline *p);
/* The array with room for one more behind n; NULL: out of memory, and the old one stays. */
void *api_pipeline_grow(void *array, size_t n, size_t size);
/* As many nodes in every stage as can be: the first unit of each, and the end. */
void api_pipeline_equal(const api_pipeline *pipeline, uint32_t stages, uint32_t *cuts);
/* The ways people use, with equal cuts. */
remat_status api_pipeline_ways(api_pipeline *pipeline, json_t **ret_ways, remat_error *error);
/* So many doublings of one block together, laid out with n in flight; 0: not laid out. */
remat_status api_pipeline_blocks_of(api_pipeline *pipeline, size_t shape, uint32_t first,
                                    uint32_t end, unsigned doubling, int last, uint32_t n,
                                    remat_stage_list *ret_list, remat_error *error);
/* The list of a stage of the shape that runs so many blocks together again; last: the last of them
 * too, whose backward may have to wait. */
remat_status api_pipeline_blocks(const api_pipeline *pipeline, size_t shape, uint32_t first,
                                 uint32_t end, uint32_t together, bool last,
                                 remat_stage_list *ret_list, remat_error *error);
/* What an answer tells of a schedule. */
json_t *api_schedule_part(const json_t *schedule);
double api_update_seconds(const remat_device *device, const remat_step_table *table);
json_t *api_memory_encode(const remat_step_table *table, uint64_t activations, uint64_t device);

#endif
