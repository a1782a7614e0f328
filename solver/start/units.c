/* Steps by units: what is dropped in the forward pass is made again just before the backward of its
 * unit. Per-block checkpointing drops all that a unit need not hand on (Chen et al. 2016);
 * selective ones only what costs little time for its bytes (Korthikanti et al. 2022, section 5).
 * Units may come in groups: the forward keeps what a group hands on, which is run again up to its
 * last unit before its backward, and then each unit once more before its own. */
#include "start/units.h"

#include "model/numbers.h"

#include <math.h>
#include <stdlib.h>

/* What becomes of the nodes of a profile. */
typedef struct walk {
    const remat_profile *profile;
    const uint32_t *unit, *group;
    bool *leaves;      /* read by another group: stays */
    bool *leaves_unit; /* or another unit: stays in the backward of its group */
    bool *needed;      /* its output is read by a backward of its unit */
    bool *drop;        /* neither output nor saved values stay */
    bool *again;       /* runs again before the backward of its unit */
    bool *before;      /* runs again before the backward of its group */
    uint32_t offloaded;
    remat_operations *list;
} walk;

static bool leaves_unit(const remat_profile *p, const uint32_t *unit, uint32_t v)
{
    const remat_node *node = &p->nodes[v];
    for (uint32_t i = 0; i < node->n_consumers; i++)
        if (unit[node->consumers[i]] != unit[v])
            return true;
    return false;
}

/* With the node itself those before it in its unit that run for its sake alone. */
static double time_again(const remat_profile *p, const uint32_t *unit, uint32_t v)
{
    const remat_node *node = &p->nodes[v];
    double time = node->forward_time;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const uint32_t w = node->inputs[i];
        if (w < p->n_nodes && unit[w] == unit[v] && !remat_output_is_needed(p, w) &&
            !leaves_unit(p, unit, w))
            time += p->nodes[w].forward_time;
    }
    return time;
}

void plan_ratios(const remat_profile *p, const uint32_t *unit, double *ratio)
{
    for (uint32_t v = 0; v < p->n_nodes; v++) {
        const remat_node *node = &p->nodes[v];
        const double bytes = (double)node->saved_bytes +
                             (remat_output_is_needed(p, v) ? (double)node->output_bytes : 0);
        const bool stays = bytes == 0 || leaves_unit(p, unit, v) || node->once;
        ratio[v] = stays ? -1 : time_again(p, unit, v) / bytes;
    }
}

static int compare_doubles(const void *a, const void *b)
{
    return model_compare(*(const double *)a, *(const double *)b);
}

uint32_t plan_levels(const remat_profile *p, const uint32_t *unit, double *ratio,
                     double level[PLAN_LEVELS])
{
    uint32_t distinct = 0, n = 0;
    plan_ratios(p, unit, ratio);
    qsort(ratio, p->n_nodes, sizeof *ratio, compare_doubles);
    for (uint32_t v = 0; v < p->n_nodes; v++)
        if (ratio[v] >= 0 && (distinct == 0 || ratio[v] > ratio[distinct - 1] * (1 + 1e-9)))
            ratio[distinct++] = ratio[v];
    level[n++] = -1;
    const uint32_t step = distinct / (PLAN_LEVELS - 2) + 1;
    for (uint32_t i = 0; i + 1 < distinct; i += step)
        level[n++] = ratio[i];
    level[n++] = INFINITY;
    return n;
}

/* ---- one unit ---- */

/* Whether what stays of it since the forward is what a run reads. What is kept for its backward is
 * there; what is not needed by any is not. */
static bool is_there(const walk *w, uint32_t v)
{
    return w->leaves[v] || (!w->drop[v] && w->needed[v]);
}

/* From the last node to the first: what has to run again, and for its sake what it reads. */
static void mark_again(const walk *w)
{
    const remat_profile *p = w->profile;
    for (uint32_t v = p->n_nodes; v-- > 0;) {
        if (w->drop[v] && (w->needed[v] || p->nodes[v].saved_bytes > 0))
            *(w->leaves_unit[v] ? &w->before[v] : &w->again[v]) = true;
        for (uint32_t i = 0; i < p->nodes[v].n_inputs && (w->again[v] || w->before[v]); i++) {
            const uint32_t x = p->nodes[v].inputs[i];
            if (x >= p->n_nodes || w->group[x] != w->group[v] || is_there(w, x))
                continue;
            w->before[x] |= w->before[v] || w->leaves_unit[x];
            w->again[x] |= w->again[v] && !w->leaves_unit[x];
        }
    }
}

/* Whether the host holds out(v), or saved(v). */
static bool goes_out(const walk *w, uint32_t v)
{
    return w->unit[v] < w->offloaded && !w->drop[v] && (w->leaves[v] || w->needed[v]) &&
           w->profile->nodes[v].output_bytes > 0;
}

static bool goes_saved(const walk *w, uint32_t v)
{
    return w->unit[v] < w->offloaded && !w->drop[v] && w->profile->nodes[v].saved_bytes > 0;
}

static remat_status push(const walk *w, remat_operation_kind kind, remat_target target, uint32_t v)
{
    return remat_operations_push(
        w->list, (remat_operation){.kind = (uint8_t)kind, .target = (uint8_t)target, .index = v});
}

/* O, P or D of what a unit has at the host: of what the next reads, of the rest, or of both. */
enum { HANDED_ON = 1, OWN = 2 };
static remat_status move(const walk *w, remat_operation_kind kind, int what, uint32_t first,
                         uint32_t end)
{
    remat_status status = REMAT_OK;
    for (uint32_t v = first; v < end && !status; v++) {
        if (goes_out(w, v) && what & (w->leaves[v] ? HANDED_ON : OWN))
            status = push(w, kind, REMAT_OUT, v);
        if (!status && goes_saved(w, v) && what & OWN)
            status = push(w, kind, REMAT_SAVED, v);
    }
    return status;
}

static uint32_t first_of(const uint32_t *unit, uint32_t end)
{
    uint32_t first = end;
    while (first > 0 && unit[first - 1] == unit[end - 1])
        first--;
    return first;
}

static uint32_t end_of(const walk *w, uint32_t first)
{
    uint32_t end = first;
    while (end < w->profile->n_nodes && w->unit[end] == w->unit[first])
        end++;
    return end;
}

/* A unit's copies run while the next unit computes. What a unit behind that reads comes back
 * before it. */
static remat_status go_forward(const walk *w)
{
    remat_status status = REMAT_OK;
    const uint32_t n = w->profile->n_nodes;
    for (uint32_t first = 0, before = 0, end; first < n && !status; before = first, first = end) {
        end = end_of(w, first);
        for (uint32_t v = first; v < end && !status; v++)
            status = remat_push(
                w->list, w->profile->nodes[v].saved_bytes > 0 && !w->drop[v] ? REMAT_A : REMAT_F,
                v);
        if (!status)
            status = move(w, REMAT_O, HANDED_ON | OWN, first, end);
        if (!status && before < first)
            status = move(w, REMAT_D, HANDED_ON | OWN, before, first);
    }
    return status;
}

/* What is marked of the nodes runs again; it saves what stays for their backward then. */
static remat_status run_again(const walk *w, const bool *again, uint32_t first, uint32_t end)
{
    remat_status status = REMAT_OK;
    for (uint32_t v = first; v < end && !status; v++) {
        const bool last = again == w->again || w->leaves_unit[v];
        const bool saves = last && w->drop[v] && w->profile->nodes[v].saved_bytes > 0;
        if (again[v])
            status = remat_push(w->list, saves ? REMAT_A : REMAT_F, v);
    }
    return status;
}

static remat_status go_back_one(const walk *w, uint32_t first, uint32_t end)
{
    remat_status status = run_again(w, w->again, first, end);
    for (uint32_t v = end; v-- > first && !status;) {
        status = remat_push(w->list, REMAT_B, v);
        if (!status && goes_out(w, v))
            status = push(w, REMAT_D, REMAT_OUT, v);
    }
    return status;
}

/* What comes back does so while the unit before computes: of the next one its own, and what it
 * reads of the one behind it. */
static remat_status go_back(const walk *w)
{
    const uint32_t n = w->profile->n_nodes;
    remat_status status = REMAT_OK;
    for (uint32_t end = n, first; end > 0 && !status; end = first) {
        first = first_of(w->unit, end);
        if (end == n || w->group[end] != w->group[end - 1])
            status = run_again(w, w->before, first_of(w->group, end), end);
        const uint32_t next = first_of(w->unit, first);
        if (!status)
            status = move(w, REMAT_P, HANDED_ON, first_of(w->unit, next), next);
        if (!status)
            status = move(w, REMAT_P, OWN, next, first);
        if (!status)
            status = go_back_one(w, first, end);
    }
    return status;
}

/* A value that units behind the next one read stays on the device: it would have to come back in
 * the forward pass. So does what the last two units keep, whose backward begins at once. */
static bool reaches_far(const remat_profile *p, const uint32_t *unit, uint32_t v)
{
    const remat_node *node = &p->nodes[v];
    for (uint32_t i = 0; i < node->n_consumers; i++)
        if (unit[node->consumers[i]] > unit[v] + 1)
            return true;
    return false;
}

static uint32_t most_offloaded(const remat_profile *p, const uint32_t *unit, uint32_t wanted)
{
    const uint32_t last = unit[p->n_nodes - 1];
    uint32_t most = last > 1 ? last - 1 : 0;
    for (uint32_t v = 0; v < p->n_nodes; v++)
        if (unit[v] < most && reaches_far(p, unit, v))
            most = unit[v];
    return wanted < most ? wanted : most;
}

static remat_status make_list(const remat_profile *p, const uint32_t *unit, const uint32_t *group,
                              const double *threshold, const bool *kept, uint32_t offloaded,
                              remat_operations *ret_list, remat_error *error)
{
    const uint32_t n = p->n_nodes;
    double *ratio = malloc(n * sizeof *ratio);
    bool *flags = calloc(n, 6 * sizeof *flags);
    const walk w = {.profile = p,
                    .unit = unit,
                    .group = group,
                    .leaves = flags,
                    .leaves_unit = flags + n,
                    .needed = flags + 2 * n,
                    .drop = flags + 3 * n,
                    .again = flags + 4 * n,
                    .before = flags + 5 * n,
                    .offloaded = most_offloaded(p, unit, offloaded),
                    .list = ret_list};
    remat_status status = ratio && flags ? REMAT_OK : remat_fail_memory(error);
    if (!status) {
        plan_ratios(p, group, ratio);
        for (uint32_t v = 0; v < n; v++) {
            w.leaves[v] = leaves_unit(p, group, v);
            w.leaves_unit[v] = leaves_unit(p, unit, v);
            w.needed[v] = remat_output_is_needed(p, v) || (kept && kept[v]);
            w.drop[v] = ratio[v] >= 0 && ratio[v] <= threshold[unit[v]] && !(kept && kept[v]);
        }
        mark_again(&w);
        status = go_forward(&w);
        if (!status)
            status = go_back(&w);
        if (status)
            status = remat_fail_memory(error);
    }
    free(ratio);
    free(flags);
    return status;
}

remat_status remat_unit_list(const remat_profile *p, const uint32_t *unit, const double *threshold,
                             uint32_t offloaded, remat_operations *ret_list, remat_error *error)
{
    return make_list(p, unit, unit, threshold, NULL, offloaded, ret_list, error);
}

remat_status remat_unit_list_keeping(const remat_profile *p, const uint32_t *unit,
                                     const double *threshold, const bool *kept, uint32_t offloaded,
                                     remat_operations *ret_list, remat_error *error)
{
    return make_list(p, unit, unit, threshold, kept, offloaded, ret_list, error);
}

remat_status plan_grouped_list(const remat_profile *p, const uint32_t *unit, const uint32_t *group,
                               const double *threshold, remat_operations *ret_list,
                               remat_error *error)
{
    return make_list(p, unit, group, threshold, NULL, 0, ret_list, error);
}
