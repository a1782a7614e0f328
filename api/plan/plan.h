/* Plans on the wire: devices, models, and what a step of one on the other takes. What they mean
 * says remat/plan.h. */
#ifndef REMAT_API_PLAN_H
#define REMAT_API_PLAN_H

#include "api.h"
#include "remat/pipeline.h"
#include "remat/plan.h"

/* ---- devices ---- */

/* The device of a name out of the data file (devices.json), or of an entry as calibrate writes it:
 * an object with the file's members of a device, where efficiency may be left out. field stands in
 * errors. REMAT_INVALID: there is none; known are ... */
remat_status remat_device_decode(const json_t *json, const char *field, remat_device *ret_device,
                                 remat_error *error);
/* Its network in place of the usual one: text as api/plan/ranks.h says, NULL: as it is; node: ranks
 * of a node, 0: as it is. */
remat_status remat_network_decode(const char *text, uint32_t node, remat_device *device,
                                  remat_error *error);
/* GET /v1/devices: the data file as it is. Static, NUL-terminated. */
const char *remat_devices_document(size_t *ret_length);
/* An entry of the file without its sources. NULL: out of memory; so with all that follow. */
json_t *remat_device_encode(const remat_device *device);

/* GET /v1/models. */
json_t *remat_networks_encode(void);

/* The remat-profile/1 document of a model's graph; note stands in its source. */
json_t *remat_network_document(const remat_network_graph *graph, const remat_device *device,
                               const remat_network_settings *settings);

/* ---- plans ---- */

/* The body of POST /v1/plans. JSON is borrowed from the body. */
typedef struct remat_plan_request {
    const char *model; /* NULL: of a profile */
    char profile_id[REMAT_ID_SIZE];
    const json_t *profile;
    const json_t *measured_on; /* of a profile: whose its times are; NULL: as it says itself */
    uint64_t parameters;       /* of a profile: numbers in its weights */
    const json_t *config;      /* that the model is of; NULL: none */
    bool usual_layers;         /* none were asked for */
    remat_network_settings settings; /* of a model; its interconnect is the device's, in graphs */
    remat_device device;
    remat_step_settings step;
    bool usual_precision;    /* none was asked for: the device's, until a profile says its own */
    bool usual_network;      /* none was asked for; and of one that was: */
    bool usual_between;      /* no way between nodes */
    bool usual_latency;      /* a rate without a latency */
    bool usual_node;         /* and not how many ranks a node has */
    remat_pipeline pipeline; /* ranks 0: there is none. Its link is the device's network */
    char runtime[16];        /* of it */
    bool usual_runtime;      /* none was asked for */
    bool meshed;             /* its ranks are those of a mesh */
    bool play;               /* of it: the play is told, pass by pass */
    bool offload;            /* the schedule may use the device's link */
    bool sweep;              /* rows over batches are wanted; of a model */
    bool alone;              /* not decoded: the schedule's figures alone are wanted; of a pipeline
                                its ways */
    bool keeps;              /* of the caller, not decoded: schedules are kept under their ids, so
                                that every stage is asked; else what equals another but for names
                                is not */
    const json_t *solver;    /* these three as POST /v1/schedules takes them; or NULL */
    const json_t *effort, *options;
    double wait;            /* seconds */
    const remat_host *host; /* of the caller, not decoded: cancels the draft of a pipeline,
                               REMAT_CANCELLED; NULL: nobody does. Lives as long as the draft */
} remat_plan_request;

remat_status remat_plan_request_decode(const json_t *json, remat_plan_request *ret_request,
                                       remat_error *error);

typedef struct api_sweep api_sweep;
typedef struct api_pipeline api_pipeline;
struct api_ranks;
struct api_changes;

/* Of a profile, where no precision was asked for: that of its numbers, if the document says one
 * that the device has and the step can be in. */
void remat_plan_take_precision(remat_plan_request *request, const json_t *document);

/* What is known of a plan without its schedule. */
typedef struct remat_plan_draft {
    json_t *answer;   /* owned: the answer to be, but for its schedule */
    json_t *document; /* owned: the profile of a model, or with other times than were given; NULL:
                         as given */
    json_t *question; /* owned: what POST /v1/schedules is to be asked, without its subject; NULL:
                         nothing is left of the device's memory for a step */
    api_sweep *sweep; /* owned: rows over batches; NULL: none are wanted */
    struct api_ranks *ranks;     /* owned */
    api_pipeline *pipeline;      /* owned: of a pipeline, whose stages are asked one after another:
                                    document and question are those of the next one */
    struct api_changes *changes; /* owned: what would fit, if nothing does, whose plans are asked
                                    then in the same way; NULL: not looked for */
    bool settled;                /* its own question was answered */
    remat_step_table table;
    uint64_t memory; /* bytes of the device */
    double update;   /* seconds of the optimizer's part of a step */
    double unit;     /* seconds of the profile's time unit */
} remat_plan_draft;

/* profile, and the document that it is: of a request that has no model; else NULL. Cleared by the
 * caller. */
remat_status remat_plan_draft_make(const remat_plan_request *request, const remat_profile *profile,
                                   const json_t *document, remat_plan_draft *ret_draft,
                                   remat_error *error);
void remat_plan_draft_clear(remat_plan_draft *draft); /* accepts {0} */

/* What became of the draft's question: the schedule's document, or NULL, and why there is none
 * (REMAT_INFEASIBLE; NULL: nothing was asked). Where *ret_asks, document and question are the next
 * ones, of a pipeline's stage or of what would fit; else the draft is to be finished. */
remat_status remat_plan_draft_next(remat_plan_draft *draft, const json_t *schedule,
                                   const remat_error *refusal, bool *ret_asks, remat_error *error);

/* Completes the draft's answer, which the draft keeps. REMAT_NO_MEMORY. */
remat_status remat_plan_draft_finish(remat_plan_draft *draft, remat_error *error);

#endif
