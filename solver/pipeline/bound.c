/* What no step is below: the recurrence of plan.c, out of what is known of every schedule of a
 * stage in place of lists. Its time may lie before the turn or after it; each of the two waits is
 * taken where it is least. With more in flight less is waited for and more runs again: of each
 * number as many as may be on the rank are looked at, past the usual of ranges of them, until what
 * runs again alone takes longer. */
#include "pipeline/private.h"

#include <math.h>
#include <stdlib.h>

/* By rank and first unit: the largest wait, the sum of times, and the most that is beside the
 * passes, of the ranks from there on. */
typedef struct rest {
    double wait, sum, beside;
} rest;

typedef struct stage_at {
    uint32_t first, end;
    remat_stage_least free; /* if all fitted */
} stage_at;

/* With at most n in flight: a micro-batch begins once the n-th before it has gone to the last rank
 * and come back. */
static rest with_stage(const remat_pipeline *p, uint32_t rank, uint32_t n,
                       const remat_stage_least *x, const rest *behind)
{
    const double m = p->microbatches, rounds = 1 + (p->microbatches - 1) / n;
    const double back = rank > 0 ? p->latency + (double)x->input / p->bandwidth : 0;
    const double out = rank + 1 < p->ranks ? p->latency + (double)x->output / p->bandwidth : 0;
    const double there = out + behind->sum; /* and back */
    /* m - n + 1 forwards or backwards stand beside all m of the others */
    const double first = (m - n + 1) * (x->total - x->backward) + m * x->backward;
    const double last = m * x->forward + (m - n + 1) * (x->total - x->forward);
    const double sends = x->forward + x->backward + (m - 1) * out; /* one after the other */
    const double alone = fmax(m * x->total, rounds * (x->total + there));
    const double own = fmax(alone, fmax(fmax(first, last), sends) + there);
    return (rest){back + fmax(own, x->total + out + behind->wait), x->total + back + there,
                  fmax(x->beside, behind->beside)};
}

/* Sums of the same times in another order differ by less. */
#define SAME_SUM 1e-13

/* More in flight takes no less time, so that the first number alone says what the sum is; of the
 * others those are looked at that may wait less. */
static remat_status bound_stage(const remat_pipeline_question *q, const remat_least_host *host,
                                uint32_t rank, const stage_at *at, const rest *behind, rest *here,
                                remat_error *error)
{
    const remat_pipeline *p = &q->pipeline;
    const uint32_t m = p->microbatches, usual = p->ranks - rank;
    const uint32_t least_n = p->order == REMAT_GPIPE ? m : 1;
    for (uint32_t n = least_n, most; n <= m; n = most + 1) {
        remat_stage_least least;
        most = n <= usual ? n : n < m / 2 ? 2 * n : m;
        const rest hope = with_stage(p, rank, most, &at->free, behind);
        if (hope.wait >= here->wait && (n > least_n || hope.sum >= here->sum * (1 - SAME_SUM)))
            continue;
        remat_status status = host->least(host->data, rank, n, at->first, at->end, &least, error);
        if (status)
            return status;
        const rest all = with_stage(p, rank, most, &least, behind);
        here->sum = fmin(here->sum, all.sum);
        if (m * least.total >= here->wait)
            return REMAT_OK;
        here->wait = fmin(here->wait, all.wait);
    }
    return REMAT_OK;
}

/* All stages of a rank that begin at a unit; the one that promises most first, which spares most of
 * the others. at: room for them. */
static remat_status bound_first(const remat_pipeline_question *q, const remat_least_host *host,
                                uint32_t rank, uint32_t first, const rest *behind, stage_at *at,
                                rest *here, remat_error *error)
{
    const uint32_t left = q->pipeline.ranks - rank - 1;
    uint32_t n = 0, best = 0;
    double promised = INFINITY;
    remat_status status = REMAT_OK;
    for (uint32_t end = first + 1; end + left <= q->n_units && !status; end++) {
        stage_at *one = &at[n];
        *one = (stage_at){.first = first, .end = end};
        if (behind[end].wait == INFINITY)
            continue;
        status = host->least(host->data, rank, 0, first, end, &one->free, error);
        const rest hope =
            with_stage(&q->pipeline, rank, q->pipeline.microbatches, &one->free, &behind[end]);
        here->beside = fmin(here->beside, hope.beside);
        if (hope.wait < promised) {
            promised = hope.wait;
            best = n;
        }
        n++;
    }
    if (!status && n > 0)
        status = bound_stage(q, host, rank, &at[best], &behind[at[best].end], here, error);
    for (uint32_t i = 0; i < n && !status; i++)
        if (i != best)
            status = bound_stage(q, host, rank, &at[i], &behind[at[i].end], here, error);
    return status;
}

static remat_status bound_rank(const remat_pipeline_question *q, const remat_least_host *host,
                               uint32_t rank, const rest *behind, stage_at *at, rest *here,
                               remat_error *error)
{
    const uint32_t left = q->pipeline.ranks - rank - 1;
    remat_status status = REMAT_OK;
    for (uint32_t first = rank; first + left < q->n_units && !status; first++)
        status = bound_first(q, host, rank, first, behind, at, &here[first], error);
    return status;
}

remat_status remat_pipeline_bound(const remat_pipeline_question *q, const remat_least_host *host,
                                  double *ret_bound, remat_error *error)
{
    const size_t width = q->n_units + 1;
    remat_status status = pipeline_check_question(q, error);
    if (status)
        return status;
    rest *both = malloc(2 * width * sizeof *both);
    stage_at *at = malloc(width * sizeof *at);
    if (!both || !at) {
        free(both);
        free(at);
        return remat_fail_memory(error);
    }
    for (size_t i = 0; i < 2 * width; i++)
        both[i] = (rest){INFINITY, INFINITY, INFINITY};
    both[width - 1] = (rest){0, 0, 0};
    rest *behind = both, *here = both + width;
    for (uint32_t rank = q->pipeline.ranks; rank-- > 0 && !status;) {
        status = bound_rank(q, host, rank, behind, at, here, error);
        rest *old = behind;
        behind = here;
        here = old;
        for (size_t i = 0; i < width; i++)
            here[i] = (rest){INFINITY, INFINITY, INFINITY};
    }
    if (!status)
        *ret_bound = (behind[0].wait + behind[0].beside) * (1 - 1e-12); /* other sums */
    free(both);
    free(at);
    return status;
}
