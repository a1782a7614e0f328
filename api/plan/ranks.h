/* How ranks share a step, on the wire and in time. Private to api/plan. */
#ifndef REMAT_API_PLAN_RANKS_H
#define REMAT_API_PLAN_RANKS_H

#include "plan/plan.h"

/* "nvlink4+ndr": the way within a node and, behind a plus, the one between nodes; each a name of
 * the file (devices.json) or a rate that collectives reach, "235GB/s" or with its latency
 * "235GB/s@40us". Without a second the one that *way has stays. */
remat_status api_network_decode(const char *text, const json_t *file, remat_interconnect *way,
                                remat_error *error);

/* In errors the fields of an entry stand behind that of the request. */
remat_status api_within(remat_status status, const char *field, remat_error *error);

/* The member parallel of a request; of which settings, step and pipeline take what belongs to
 * them. */
remat_status api_parallel_decode(const json_t *json, remat_plan_request *request,
                                 remat_error *error);
json_t *api_parallel_encode(const remat_plan_request *request);

/* The graph of a request's model at a batch. */
remat_status api_plan_graph(const remat_plan_request *request, uint64_t batch,
                            remat_network_graph **ret_graph, remat_error *error);

/* What of a step between data-parallel ranks is needed once its graph is gone. */
typedef struct api_ranks {
    remat_step_settings step;
    remat_interconnect way;
    double store_all, backward; /* seconds of the step that keeps everything; of its backward */
    double device;              /* of these the device's */
    double host, again;         /* and what the host takes, and takes for another forward */
    size_t n_nodes;             /* that such a forward runs */
    double waited;              /* seconds of it that ranks which share a model wait */
    uint32_t n_loads;
    remat_unit_load loads[];
} api_ranks;

/* Of a model's graph, whose profile stores everything in so many seconds of the device; NULL: out
 * of memory. */
api_ranks *api_ranks_of_graph(const remat_plan_request *request, const remat_network_graph *graph,
                              double store_all);
/* Of a profile: its parameters are assumed to be spread over it evenly. */
api_ranks *api_ranks_of_profile(const remat_plan_request *request, const remat_profile *profile,
                                double store_all);

/* Seconds of a schedule that takes so many of the device and runs so many forwards again: the host
 * may take longer. */
double api_ranks_makespan(const api_ranks *ranks, double device, size_t again);

/* Of the same; what it computes again is spread over the backward. What is sent hides behind the
 * host, too. */
remat_exchange api_ranks_exchange(const api_ranks *ranks, double device, size_t again);

/* Whether a network's text has a rate without a latency, whose is taken for NVLink's. */
bool api_network_lacks_latency(const char *text);

#endif
