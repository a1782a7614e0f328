/* Plans by the slowest rank alone, as Tarnawski et al., Piper (NeurIPS 2021), section 3, have them:
 * with k ranks from a unit on, the least of the largest time is, over the ends of the first stage,
 * the larger of its own time with k in flight and of what is best with k - 1 ranks behind it. */
#include "pipeline/private.h"

#include <math.h>
#include <stdlib.h>

typedef struct steady {
    const remat_pipeline_question *q;
    const remat_stage_host *host;
    double *sums; /* [n_units + 1]: of least times */
    remat_stage_menu *menus;
    bool *known;  /* both [n_units][n_units + 1] */
    double *best; /* [ranks + 1][n_units + 1]: by how many ranks are left, and from which unit on */
    uint32_t *end;
    size_t *list; /* the same: of the first stage */
    double limit; /* what some plan of all units takes */
    remat_error *error;
} steady;

/* The fastest list of a stage with k ranks from it on; NULL: none fits. */
static const remat_stage_list *fastest(const steady *a, uint32_t k, const remat_stage_menu *menu)
{
    const uint32_t rank = a->q->pipeline.ranks - k,
                   n = remat_pipeline_in_flight(&a->q->pipeline, rank);
    const remat_stage_list *best = NULL;
    for (size_t i = 0; i < menu->n_lists; i++) {
        const remat_stage_list *x = &menu->lists[i];
        const uint64_t bytes = menu->fixed + (x->peak - x->held) + n * x->held;
        if (bytes <= a->q->memory && (x->in_flight == 0 || n <= x->in_flight) &&
            (!best || x->forward + x->backward < best->forward + best->backward))
            best = x;
    }
    return best;
}

static remat_status best_from(steady *a, uint32_t k, uint32_t first)
{
    const uint32_t width = a->q->n_units + 1;
    const size_t here = (size_t)k * width + first;
    for (uint32_t end = k == 1 ? width - 1 : first + 1; end < width; end++) {
        const double behind = a->best[(k - 1) * width + end];
        const size_t i = (size_t)first * width + end;
        if (fmax(a->sums[end] - a->sums[first], 0) >= fmin(a->best[here], a->limit))
            break;
        if (behind >= a->best[here])
            continue;
        remat_status status =
            a->known[i] ? REMAT_OK
                        : a->host->menu(a->host->data, first, end, &a->menus[i], a->error);
        if (status)
            return status;
        a->known[i] = true;
        const remat_stage_list *x = fastest(a, k, &a->menus[i]);
        const double value = x ? fmax(x->forward + x->backward, behind) : INFINITY;
        if (value < a->best[here]) {
            a->best[here] = value;
            a->end[here] = end;
            a->list[here] = (size_t)(x - a->menus[i].lists);
        }
    }
    return REMAT_OK;
}

static remat_status best_of_all(steady *a, uint32_t *ret_ranks)
{
    const uint32_t width = a->q->n_units + 1, ranks = a->q->pipeline.ranks;
    remat_status status = REMAT_OK;
    for (uint32_t u = 0; u + 1 < width; u++)
        a->sums[u + 1] = a->sums[u] + a->q->least[u];
    for (size_t i = 0; i < (size_t)(ranks + 1) * width; i++)
        a->best[i] = INFINITY;
    a->best[width - 1] = 0;
    for (uint32_t k = 1; k <= ranks && !status; k++) {
        for (uint32_t first = width - 1; first-- > 0 && !status;)
            status = best_from(a, k, first);
        if (a->best[(size_t)k * width] < a->limit) {
            a->limit = a->best[(size_t)k * width];
            *ret_ranks = k;
        }
    }
    return status;
}

static void trace(const steady *a, uint32_t k, remat_pipeline_plan *ret_plan)
{
    const uint32_t width = a->q->n_units + 1, ranks = a->q->pipeline.ranks;
    *ret_plan = (remat_pipeline_plan){
        .step = a->limit, .whole = a->limit, .bound = a->limit, .all_cuts = true};
    for (uint32_t first = 0, rank = 0; k > 0; k--, rank++) {
        const size_t here = (size_t)k * width + first;
        const uint32_t end = a->end[here];
        const remat_stage_menu *menu = &a->menus[(size_t)first * width + end];
        const remat_stage_list *x = &menu->lists[a->list[here]];
        ret_plan->stages[rank] =
            (remat_planned_stage){first, end, remat_pipeline_in_flight(&a->q->pipeline, ranks - k),
                                  *x, remat_stage_of(menu, x)};
        first = end;
    }
}

remat_status remat_pipeline_plan_steady(const remat_pipeline_question *q,
                                        const remat_stage_host *host, uint32_t *ret_ranks,
                                        remat_pipeline_plan *ret_plan, remat_error *error)
{
    const size_t width = q->n_units + 1, ranks = q->pipeline.ranks + 1;
    uint32_t used = 0;
    remat_status status = pipeline_check_question(q, error);
    if (status)
        return status;
    steady a = {.q = q,
                .host = host,
                .sums = calloc(width, sizeof *a.sums),
                .menus = calloc(width * width, sizeof *a.menus),
                .known = calloc(width * width, sizeof *a.known),
                .best = calloc(ranks * width, sizeof *a.best),
                .end = calloc(ranks * width, sizeof *a.end),
                .list = calloc(ranks * width, sizeof *a.list),
                .limit = INFINITY,
                .error = error};
    status = a.sums && a.menus && a.known && a.best && a.end && a.list ? best_of_all(&a, &used)
                                                                       : remat_fail_memory(error);
    if (!status && used == 0)
        status = remat_fail(error, REMAT_INFEASIBLE, "memory",
                            "wherever it is cut, a rank does not fit into %llu bytes",
                            (unsigned long long)q->memory);
    if (!status) {
        trace(&a, used, ret_plan);
        *ret_ranks = used;
    }
    free(a.sums);
    free(a.menus);
    free(a.known);
    free(a.best);
    free(a.end);
    free(a.list);
    return status;
}
