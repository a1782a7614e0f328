/* Training under a plan, measuring, and comparing what two trainings made. */
#ifndef REMAT_EXECUTOR_TRAINING_H
#define REMAT_EXECUTOR_TRAINING_H

#include "model.h"
#include "remat/plan.h"

typedef struct training_settings {
    uint32_t steps;
    float rate, momentum;
    uint64_t seed;             /* of parameters, masks and data */
    unsigned flags;            /* REMAT_EXEC_.. */
    const training_text *text; /* NULL: made up */
    bool timed;                /* the calls of each step, too */
    /* Called after each step; false ends the training with REMAT_CANCELLED. */
    bool (*progress)(void *data, uint32_t done, double loss);
    void *data;
} training_settings;

typedef struct training_outcome {
    double *losses; /* [steps], the caller frees */
    double step;    /* seconds of the backend's clock: median over all steps but the first */
    double wall;    /* the same by the clock on the wall */
    uint64_t arena; /* bytes taken from the device for the steps */
    /* What the device had less of, in its pages; 0 where that is not known: after the arena was
     * taken, and beside it after the steps, by libraries, which load kernels at their first use. */
    uint64_t taken, libraries;
    /* Where the calls were timed, medians likewise, else NAN: seconds between the moments around
     * each call, summed; seconds on the wall until the host had enqueued them all. While that is
     * less than the step, the device waits for no call. */
    double calls, enqueued;
} training_outcome;

/* Starts from the model's beginning (model_reset). REMAT_INTERNAL: the runner's, or a loss that is
 * not finite. *ret_outcome is written on success only. */
remat_status training_run(model *model, const remat_plan *plan, const training_settings *settings,
                          training_outcome *ret_outcome, remat_error *error);

/* Measures every node while the network trains under a schedule of its own: each implementation in
 * `rounds` steps after one that does not count; medians. In `budget` bytes, or where that is not
 * enough for an implementation, in as many as it needs. exact: the first implementation alone.
 * progress: NULL, or gets the fraction done. ret_times: [n_nodes]. */
remat_status training_measure(model *model, uint64_t budget, uint32_t rounds, bool exact,
                              const training_settings *settings,
                              void (*progress)(void *data, double fraction), void *data,
                              node_times *ret_times, remat_error *error);

/* Bytes a second each way between host and device when copies go both ways at once: what an
 * executor that copies beside its kernels can rely on. */
remat_status training_measure_link(const kernel_backend *backend, double *ret_rate,
                                   remat_error *error);

/* The profile as a document and checked. */
remat_status training_profile(const net_graph *net, const kernel_backend *backend,
                              const node_times *times, const uint32_t *chosen,
                              json_t **ret_document, remat_profile **ret_profile,
                              remat_error *error);

/* ---- predicting ---- */

/* What every node will take on the CPU backend with one thread, by its first implementation, from
 * shapes alone. ret_times: [n_nodes]. */
void training_predict(const net_graph *net, const remat_device *device, node_times *ret_times);

/* Measures what kernels of each class reach on the CPU backend, which must be open: a device for
 * training_predict and for plans. progress: NULL, or gets the fraction done. Takes some ten
 * seconds. */
remat_status training_calibrate(const kernel_backend *backend, remat_device *ret_device,
                                void (*progress)(void *data, double fraction), void *data,
                                remat_error *error);

/* ---- comparing ---- */

/* What a training made: parameters, momenta, last gradients, states. */
typedef struct training_result {
    float *numbers; /* [count] */
    size_t count;
    uint8_t *states;
    size_t state_bytes;
} training_result;

remat_status training_result_take(const model *model, training_result *ret_result,
                                  remat_error *error);
void training_result_clear(training_result *result);

typedef struct training_difference {
    bool equal;      /* all bits are the same, those of the states too */
    double largest;  /* of two numbers; NAN where one is not a number */
    double relative; /* norm of the difference over norm of the first; NAN likewise */
} training_difference;

training_difference training_compare(const training_result *a, const training_result *b);

/* What training_difference.relative may be after one step where other implementations of nodes were
 * used, which round differently: 1e-3. With the same ones the bits must be the same after any
 * number of steps. */
extern const double training_tolerance;

/* Whether a plan uses another implementation than a node's own one. */
bool training_uses_alternatives(const remat_plan *plan);

#endif
