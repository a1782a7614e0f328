/* Names of orders and runtimes, and which pipelines there are. */
#include "remat/pipeline.h"

#include <math.h>
#include <string.h>

static const char *const orders[REMAT_PIPELINE_ORDERS] = {"gpipe", "1f1b", "interleaved"};

const char *remat_pipeline_order_name(remat_pipeline_order order)
{
    return orders[order];
}

remat_status remat_pipeline_order_find(const char *name, remat_pipeline_order *ret_order,
                                       remat_error *error)
{
    for (unsigned i = 0; i < REMAT_PIPELINE_ORDERS; i++)
        if (strcmp(name, orders[i]) == 0) {
            *ret_order = (remat_pipeline_order)i;
            return REMAT_OK;
        }
    return remat_fail(error, REMAT_INVALID, "schedule",
                      "there is no schedule \"%.60s\"; known are gpipe, 1f1b and interleaved",
                      name);
}

remat_status remat_runtime_find(const char *name, remat_runtime *ret_runtime, remat_error *error)
{
    /* stage.py (PyTorch 2.6): fwd_cache; args_recv_info and grad_recv_info of every micro-batch */
    if (strcmp(name, "pytorch") == 0)
        *ret_runtime = (remat_runtime){.keeps_outputs = true, .all_inputs = true, .ahead = 1};
    else if (strcmp(name, "megatron") == 0)
        *ret_runtime = (remat_runtime){.ahead = 1};
    else if (strcmp(name, "none") == 0)
        *ret_runtime = (remat_runtime){.ahead = 0};
    else
        return remat_fail(error, REMAT_INVALID, "runtime",
                          "there is no runtime \"%.60s\"; known are pytorch, megatron and none",
                          name);
    return REMAT_OK;
}

static remat_status check_in_flight(const remat_pipeline *p, remat_error *error)
{
    if (p->order != REMAT_1F1B)
        return remat_fail(error, REMAT_INVALID, "in_flight", "%s has its own numbers in flight",
                          orders[p->order]);
    for (uint32_t r = 0; r < p->ranks; r++) {
        if (p->in_flight[r] < 1 || p->in_flight[r] > p->microbatches)
            return remat_fail(error, REMAT_INVALID, "in_flight",
                              "in_flight[%u] is %u; it must be 1 to %u, the micro-batches", r,
                              p->in_flight[r], p->microbatches);
        if (r > 0 && p->in_flight[r] > p->in_flight[r - 1])
            return remat_fail(error, REMAT_INVALID, "in_flight",
                              "in_flight[%u] is %u, more than the %u of rank %u, which would wait "
                              "for it for ever",
                              r, p->in_flight[r], p->in_flight[r - 1], r - 1);
    }
    return REMAT_OK;
}

static remat_status check_counts(const remat_pipeline *p, remat_error *error)
{
    if (p->ranks < 1 || p->ranks > REMAT_MOST_RANKS)
        return remat_fail(error, REMAT_INVALID, "ranks", "ranks is %u; it must be 1 to %u",
                          p->ranks, REMAT_MOST_RANKS);
    if (p->microbatches < 1 || p->microbatches > REMAT_MOST_MICROBATCHES)
        return remat_fail(error, REMAT_INVALID, "microbatches",
                          "microbatches is %u; it must be 1 to %u", p->microbatches,
                          REMAT_MOST_MICROBATCHES);
    if (p->chunks < 1 || p->chunks > REMAT_MOST_CHUNKS ||
        (p->chunks > 1 && p->order != REMAT_INTERLEAVED))
        return remat_fail(error, REMAT_INVALID, "chunks",
                          "chunks is %u; it must be 1 to %u when interleaved, else 1", p->chunks,
                          REMAT_MOST_CHUNKS);
    if ((uint64_t)p->ranks * p->chunks * p->microbatches > REMAT_MOST_PASSES)
        return remat_fail(error, REMAT_TOO_LARGE, "microbatches",
                          "ranks x chunks x microbatches is past %u", REMAT_MOST_PASSES);
    return REMAT_OK;
}

remat_status remat_pipeline_check(const remat_pipeline *p, remat_error *error)
{
    remat_status status = check_counts(p, error);
    if (status)
        return status;
    if (p->order == REMAT_INTERLEAVED && p->microbatches % p->ranks != 0)
        return remat_fail(error, REMAT_INVALID, "microbatches",
                          "microbatches is %u; interleaved takes a multiple of the %u ranks",
                          p->microbatches, p->ranks);
    if (!(p->latency >= 0 && p->latency < INFINITY))
        return remat_fail(error, REMAT_INVALID, "link.latency", "latency must be a number >= 0");
    if (!(p->bandwidth > 0))
        return remat_fail(error, REMAT_INVALID, "link.bandwidth", "bandwidth must be above 0");
    return p->in_flight ? check_in_flight(p, error) : REMAT_OK;
}
