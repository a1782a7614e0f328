/* selective: steps by units on any graph (remat/plan.h), the units found where little crosses.
 *
 * Source: Korthikanti, Casper, Lym, McAfee, Andersch, Shoeybi, Catanzaro: Reducing activation
 * recomputation in large transformer models, 2022, section 5: what costs little time for its bytes
 * is made again, the rest stays. They say by hand which is which for one network; here the ratio of
 * every value decides, under a threshold that the budget sets.
 *
 * A unit ends where the bytes that later nodes read are least, between one and two shares of all
 * that backwards need. For each of some numbers of units and each threshold there are four lists,
 * in which none, a quarter, half and three quarters of the units take the next threshold. So the
 * work is linear in the graph: thousands of nodes take milliseconds, and the improver starts from
 * there. */
#include "remat/solver.h"
#include "start/units.h"

#include <math.h>
#include <stdlib.h>

static const uint32_t shares[] = {4, 8, 16, 32, 64, 128};
enum { SHARES = sizeof shares / sizeof *shares, MIXTURES = 4 };

/* Kept bytes by node, and of those made so far the bytes that later nodes read. */
static double measure(const remat_profile *p, double *kept, double *crossing)
{
    double total = 0, open = 0;
    for (uint32_t v = 0; v < p->n_nodes; v++) {
        const remat_node *node = &p->nodes[v];
        kept[v] = (double)node->saved_bytes +
                  (remat_output_is_needed(p, v) ? (double)node->output_bytes : 0);
        total += kept[v];
        open += node->n_consumers > 0 ? (double)node->output_bytes : 0;
        for (uint32_t i = 0; i < node->n_inputs; i++) {
            const uint32_t w = node->inputs[i];
            if (w < p->n_nodes && p->nodes[w].consumers[p->nodes[w].n_consumers - 1] == v)
                open -= (double)p->nodes[w].output_bytes;
        }
        crossing[v] = open;
    }
    return total;
}

/* A unit holds its share and at most twice that; in between it ends where least crosses. */
static void cut(const remat_profile *p, const double *kept, const double *crossing, double share,
                uint32_t *unit)
{
    for (uint32_t first = 0, at = 0, end; first < p->n_nodes; first = end, at++) {
        double held = 0, least = INFINITY;
        end = p->n_nodes;
        for (uint32_t v = first; v < p->n_nodes && (held < 2 * share || end == p->n_nodes); v++) {
            held += kept[v];
            if (held >= share && crossing[v] < least) {
                least = crossing[v];
                end = v + 1;
            }
        }
        for (uint32_t v = first; v < end; v++)
            unit[v] = at;
    }
}

typedef struct family {
    const remat_profile *profile;
    uint32_t *unit;
    double level[PLAN_LEVELS];
    uint32_t n_levels;
} family;

static remat_status trace(void *context, size_t index, remat_operations *operations,
                          remat_model *model, remat_error *error)
{
    const family *f = context;
    const uint32_t units = f->unit[f->profile->n_nodes - 1] + 1;
    double *threshold = malloc(units * sizeof *threshold);
    (void)model;
    if (!threshold)
        return remat_fail_memory(error);
    const size_t level = index / MIXTURES;
    const uint32_t more = (uint32_t)(units * (index % MIXTURES) / MIXTURES);
    for (uint32_t u = 0; u < units; u++)
        threshold[u] = f->level[u < more ? level + 1 : level];
    threshold[units - 1] = -1; /* its backward begins at once */
    remat_status status = remat_unit_list(f->profile, f->unit, threshold, 0, operations, error);
    free(threshold);
    return status;
}

static remat_status offer_all(const remat_problem *problem, const remat_host *host,
                              const remat_sink *sink, double *room, uint32_t *unit,
                              remat_error *error)
{
    const remat_profile *p = problem->profile;
    double *kept = room, *crossing = room + p->n_nodes, *ratio = crossing + p->n_nodes;
    const double total = measure(p, kept, crossing);
    remat_status status = REMAT_OK;
    for (unsigned i = 0; i < SHARES && !status; i++) {
        family f = {.profile = p, .unit = unit};
        if (remat_host_cancelled(host))
            return remat_fail(error, REMAT_CANCELLED, NULL, "cancelled");
        cut(p, kept, crossing, total / shares[i], unit);
        f.n_levels = plan_levels(p, unit, ratio, f.level);
        if (f.n_levels > 0)
            status = remat_offer_lists(sink, MIXTURES * (f.n_levels - 1) + 1, trace, &f, error);
        remat_host_progress(host, (i + 1.0) / SHARES);
    }
    return status;
}

static remat_status solve(const remat_problem *problem, const remat_host *host,
                          const remat_sink *sink, remat_error *error)
{
    const uint32_t n = problem->profile->n_nodes;
    double *room = malloc(3 * (size_t)n * sizeof *room);
    uint32_t *unit = malloc(n * sizeof *unit);
    remat_status status =
        room && unit ? offer_all(problem, host, sink, room, unit, error) : remat_fail_memory(error);
    free(room);
    free(unit);
    return status;
}

static remat_status estimate(const remat_problem *problem, remat_estimate *ret_estimate,
                             remat_error *error)
{
    (void)error;
    const double lists = SHARES * MIXTURES * PLAN_LEVELS, n = problem->profile->n_nodes;
    *ret_estimate = (remat_estimate){.table_bytes = (uint64_t)(lists * n * 8) + 65536,
                                     .updates = lists * n * 8};
    return REMAT_OK;
}

const remat_solver remat_solver_selective = {
    .name = "selective",
    .summary = "Makes again what costs little time for its bytes, unit by unit; thousands of nodes "
               "in a second.",
    .source = "Korthikanti et al.: Reducing activation recomputation in large transformer models, "
              "2022, section 5; a threshold on time per byte in place of a choice by hand",
    .optimal_for = "",
    .accepts = REMAT_ACCEPTS_ANY_SHAPE,
    .version = 1,
    .improved = true,
    .estimate = estimate,
    .solve = solve,
};
