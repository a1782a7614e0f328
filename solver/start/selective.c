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
 * there.
 *
 * Equal units need most at the last one, beside what all those before it hand on; the backwards of
 * the first come when little else is held. So each threshold has units as large as there is room,
 * too (rooms.h), and, where that is still too much, groups of them, of which each runs again twice:
 * two levels of the multi-level checkpointing of chains. */
#include "remat/solver.h"
#include "start/rooms.h"
#include "start/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t shares[] = {4, 8, 16, 32, 64, 128};
enum {
    SHARES = sizeof shares / sizeof *shares,
    PARTS = 4, /* of units as large as there is room: alone and in groups, and both for several
                  micro-batches in flight */
    MIXTURES = 4
};

/* By node. */
typedef struct measures {
    double *kept;     /* bytes that its backward needs of it */
    double *crossing; /* of those made so far, bytes that later nodes read */
    double *during;   /* bytes beside all that during its backward: gradients, workspace */
    double *spared;   /* time that does not run again where a unit ends with it */
    double *ratio;    /* plan_ratios, of one unit */
    double *sorted;   /* room */
} measures;
enum { MEASURES = 6 };

static double kept_bytes(const remat_profile *p, uint32_t v)
{
    const remat_node *node = &p->nodes[v];
    return (double)node->saved_bytes +
           (remat_output_is_needed(p, v) ? (double)node->output_bytes : 0);
}

/* Returns what is kept in all. */
static double measure(const remat_profile *p, const measures *m)
{
    double total = 0, open = 0;
    for (uint32_t v = 0; v < p->n_nodes; v++) {
        const remat_node *node = &p->nodes[v];
        m->kept[v] = kept_bytes(p, v);
        m->during[v] = (double)(node->gradient_bytes + node->backward_workspace_bytes);
        m->spared[v] = node->forward_time;
        total += m->kept[v];
        open += node->n_consumers > 0 ? (double)node->output_bytes : 0;
        for (uint32_t i = 0; i < node->n_inputs; i++) {
            const uint32_t w = node->inputs[i];
            if (w >= p->n_nodes)
                continue;
            const remat_node *input = &p->nodes[w];
            m->during[v] += (double)input->gradient_bytes;
            m->spared[v] += m->kept[w] == 0 && input->n_consumers == 1 ? input->forward_time : 0;
            if (input->consumers[input->n_consumers - 1] == v)
                open -= (double)input->output_bytes;
        }
        m->crossing[v] = open;
    }
    return total;
}

/* ---- units of equal shares ---- */

/* A unit holds its share and at most twice that; in between it ends where least crosses, and of
 * such places at the first where most is spared. */
static void cut(const remat_profile *p, const measures *m, double share, uint32_t *unit)
{
    for (uint32_t first = 0, at = 0, end; first < p->n_nodes; first = end, at++) {
        double held = 0;
        end = p->n_nodes;
        for (uint32_t v = first; v < p->n_nodes && (held < 2 * share || end == p->n_nodes); v++) {
            held += m->kept[v];
            const double more = m->crossing[v] - m->crossing[end - 1];
            const bool better = more < 0 || (more == 0 && m->spared[v] > m->spared[end - 1]);
            if (held >= share && (end == p->n_nodes || better))
                end = v + 1;
        }
        for (uint32_t v = first; v < end; v++)
            unit[v] = at;
    }
}

typedef struct family {
    const remat_profile *profile;
    const measures *measures;
    uint32_t *unit;
    double level[PLAN_LEVELS];
    uint32_t n_levels;
    bool in_groups;   /* of units as large as there is room, as what follows */
    bool holds_least; /* at the turn: the last unit runs again like the others */
    double most;
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

/* ---- units as large as there is room ---- */

/* So up to a quarter of the nodes or more, behind that equal ones; in groups up to all. */
static remat_status fill(const family *f, size_t index, uint32_t *unit, uint32_t *group,
                         bool *dropped, double *threshold, remat_operations *operations,
                         remat_error *error)
{
    const measures *m = f->measures;
    const uint32_t n = f->profile->n_nodes;
    const double level = f->level[index / MIXTURES];
    const start_rooms rooms = {n, m->kept, m->during, m->crossing, m->spared, dropped};
    const uint32_t until = (uint32_t)(n * (index % MIXTURES + f->in_groups) / MIXTURES);
    for (uint32_t v = 0; v < n; v++)
        dropped[v] = m->ratio[v] >= 0 && m->ratio[v] <= level;
    const uint32_t units =
        start_fill_rooms(&rooms, until, f->in_groups, f->holds_least, f->most, unit, group);
    if (units == 0)
        return REMAT_INFEASIBLE;
    for (uint32_t u = 0; u < units; u++)
        threshold[u] = level;
    if (!f->holds_least)
        threshold[units - 1] = -1;
    return plan_grouped_list(f->profile, unit, group, threshold, operations, error);
}

static remat_status trace_rooms(void *context, size_t index, remat_operations *operations,
                                remat_model *model, remat_error *error)
{
    const family *f = context;
    const size_t n = f->profile->n_nodes;
    uint32_t *unit = malloc(2 * n * sizeof *unit);
    double *threshold = malloc(n * sizeof *threshold);
    bool *dropped = malloc(n * sizeof *dropped);
    (void)model;
    remat_status status = unit && threshold && dropped ? fill(f, index, unit, unit + n, dropped,
                                                              threshold, operations, error)
                                                       : remat_fail_memory(error);
    free(unit);
    free(threshold);
    free(dropped);
    return status;
}

typedef struct ends {
    double n, good, crossing, spared; /* how many, and of them; sums */
} ends;

/* Of units of such a size; good are those at which no more crosses, and no less is spared. */
static ends look_at_ends(const family *f, double size, double crossing, double spared)
{
    const measures *m = f->measures;
    ends e = {0};
    cut(f->profile, m, size / 2, f->unit);
    for (uint32_t v = 0; v + 1 < f->profile->n_nodes; v++) {
        if (f->unit[v] == f->unit[v + 1])
            continue;
        e.n++;
        e.good += m->crossing[v] <= crossing && m->spared[v] >= spared;
        e.crossing += m->crossing[v];
        e.spared += m->spared[v];
    }
    return e;
}

/* The size of what a network repeats: of some the smallest at most of whose ends about as little
 * crosses, and as much is spared, as at the best. */
static double repeated(const family *f, double total)
{
    enum { SIZES = 4 };
    static const double sizes[SIZES] = {128, 64, 32, 16};
    double crossing = INFINITY, spared = 0;
    for (int i = 0; i < SIZES; i++) {
        const ends e = look_at_ends(f, total / sizes[i], 0, 0);
        crossing = e.n > 0 ? fmin(crossing, e.crossing / e.n) : crossing;
        spared = e.n > 0 ? fmax(spared, e.spared / e.n) : spared;
    }
    for (int i = 0; i < SIZES; i++) {
        const ends e = look_at_ends(f, total / sizes[i], 1.1 * crossing, 0.9 * spared);
        if (e.good > 0.8 * e.n)
            return total / sizes[i];
    }
    return total / sizes[1];
}

static remat_status offer_rooms(family *f, const remat_host *host, const remat_sink *sink,
                                double total, remat_error *error)
{
    const measures *m = f->measures;
    remat_status status = REMAT_OK;
    f->most = repeated(f, total);
    memset(f->unit, 0, f->profile->n_nodes * sizeof *f->unit);
    plan_ratios(f->profile, f->unit, m->ratio);
    f->n_levels = plan_levels(f->profile, f->unit, m->sorted, f->level);
    for (unsigned i = 0; i < PARTS && !status; i++) {
        if (remat_host_cancelled(host))
            return remat_fail(error, REMAT_CANCELLED, NULL, "cancelled");
        f->in_groups = i % 2;
        f->holds_least = i / 2;
        if (f->holds_least && i % 2 == 0 && f->n_levels > 0) { /* of those the last level alone */
            f->level[0] = f->level[f->n_levels - 1];
            f->n_levels = 1;
        }
        status = remat_offer_lists(sink, MIXTURES * f->n_levels, trace_rooms, f, error);
        remat_host_progress(host, 0.5 + (i + 1.0) / (2 * PARTS));
    }
    return status;
}

/* ---- what is kept goes over the link ---- */

/* Of units that a network repeats: the first of them, an eighth or more; and all, of which the
 * first take the next threshold. */
enum { LINK_PARTS = 8, LINK_LISTS = 2 * LINK_PARTS - 1 };

static remat_status trace_offloaded(void *context, size_t index, remat_operations *operations,
                                    remat_model *model, remat_error *error)
{
    const family *f = context;
    const uint32_t units = f->unit[f->profile->n_nodes - 1] + 1;
    const size_t level = index / LINK_LISTS, part = index % LINK_LISTS;
    const bool all = part >= LINK_PARTS;
    const uint32_t first = (uint32_t)(units * (part % LINK_PARTS) / LINK_PARTS);
    double *threshold = malloc(units * sizeof *threshold);
    (void)model;
    if (!threshold)
        return remat_fail_memory(error);
    for (uint32_t u = 0; u < units; u++)
        threshold[u] = f->level[all && u < first && level + 1 < f->n_levels ? level + 1 : level];
    threshold[units - 1] = -1;
    remat_status status =
        remat_unit_list(f->profile, f->unit, threshold, all ? units : first, operations, error);
    free(threshold);
    return status;
}

static remat_status offer_offloaded(const remat_problem *problem, const remat_host *host,
                                    const remat_sink *sink, const measures *m, uint32_t *unit,
                                    remat_error *error)
{
    const remat_profile *p = problem->profile;
    const double total = measure(p, m);
    family f = {.profile = p, .measures = m, .unit = unit};
    if (remat_host_cancelled(host))
        return remat_fail(error, REMAT_CANCELLED, NULL, "cancelled");
    cut(p, m, repeated(&f, total) / 2, unit);
    f.n_levels = plan_levels(p, unit, m->sorted, f.level);
    return remat_offer_lists(sink, LINK_LISTS * f.n_levels, trace_offloaded, &f, error);
}

/* ---- all lists ---- */

static remat_status offer_all(const remat_problem *problem, const remat_host *host,
                              const remat_sink *sink, const measures *m, uint32_t *unit,
                              remat_error *error)
{
    const remat_profile *p = problem->profile;
    const double total = measure(p, m);
    family f = {.profile = p, .measures = m, .unit = unit};
    remat_status status = REMAT_OK;
    for (unsigned i = 0; i < SHARES && !status; i++) {
        if (remat_host_cancelled(host))
            return remat_fail(error, REMAT_CANCELLED, NULL, "cancelled");
        cut(p, m, total / shares[i], unit);
        f.n_levels = plan_levels(p, unit, m->sorted, f.level);
        status = remat_offer_lists(sink, MIXTURES * (f.n_levels - 1) + 1, trace, &f, error);
        remat_host_progress(host, (i + 1.0) / (2 * SHARES));
    }
    return status ? status : offer_rooms(&f, host, sink, total, error);
}

typedef remat_status offerer(const remat_problem *problem, const remat_host *host,
                             const remat_sink *sink, const measures *m, uint32_t *unit,
                             remat_error *error);

static remat_status solve_by(offerer *offer, const remat_problem *problem, const remat_host *host,
                             const remat_sink *sink, remat_error *error)
{
    const size_t n = problem->profile->n_nodes;
    double *room = malloc(MEASURES * n * sizeof *room);
    uint32_t *unit = malloc(n * sizeof *unit);
    const measures m = {room, room + n, room + 2 * n, room + 3 * n, room + 4 * n, room + 5 * n};
    remat_status status =
        room && unit ? offer(problem, host, sink, &m, unit, error) : remat_fail_memory(error);
    free(room);
    free(unit);
    return status;
}

static remat_status solve(const remat_problem *problem, const remat_host *host,
                          const remat_sink *sink, remat_error *error)
{
    return solve_by(offer_all, problem, host, sink, error);
}

static remat_status solve_offloaded(const remat_problem *problem, const remat_host *host,
                                    const remat_sink *sink, remat_error *error)
{
    const bool moves =
        problem->link->to_host > 0 && problem->link->to_device > 0; /* else as without */
    return solve_by(moves ? offer_offloaded : offer_all, problem, host, sink, error);
}

static remat_status estimate(const remat_problem *problem, remat_estimate *ret_estimate,
                             remat_error *error)
{
    (void)error;
    const double lists = (SHARES + PARTS) * MIXTURES * PLAN_LEVELS, n = problem->profile->n_nodes;
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
    .version = 7,
    .improved = true,
    .estimate = estimate,
    .solve = solve,
};

const remat_solver remat_solver_offload_selective = {
    .name = "offload-selective",
    .summary = "Makes again what costs little time for its bytes and sends the rest to the host, "
               "unit by unit; thousands of nodes in a second.",
    .source = "selective's thresholds; units come back one ahead, as in Rhu et al.: vDNN, 2016",
    .optimal_for = "",
    .accepts = REMAT_ACCEPTS_ANY_SHAPE | REMAT_NEEDS_LINK,
    .version = 5,
    .improved = true,
    .estimate = estimate,
    .solve = solve_offloaded,
};
