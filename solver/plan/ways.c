/* The fastest step by units within a budget: thresholds by bisection, then as many units as must
 * take the larger of two neighbouring ones. */
#include "model/lists.h"
#include "plan/build.h"
#include "start/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *remat_way_name(remat_way way)
{
    static const char *const names[REMAT_WAYS] = {"store-all", "blocks", "remat", "selective-op",
                                                  "offloaded"};
    return names[way];
}

typedef struct search {
    const remat_profile *profile;
    const uint32_t *unit;
    uint32_t n_units;
    const remat_link *link;
    const bool *kept;
    uint64_t budget;
    double *threshold; /* by unit: of the list at hand */
    double level[PLAN_LEVELS];
    uint32_t n_levels;
    remat_way_result best;
} search;

/* ---- one list ---- */

/* The peak with what is still held of autocast's copies though nothing reads them: until the
 * forward is over it has one of each. */
static uint64_t peak_with_copies(const remat_profile *p, const remat_operations *list,
                                 const remat_moment *moments, uint64_t peak)
{
    uint64_t idle = 0;
    for (size_t i = 0; i < list->length && list->items[i].kind != REMAT_B; i++) {
        const remat_operation *o = &list->items[i];
        const bool drops = o->kind == REMAT_D && o->target == REMAT_OUT;
        if (drops && strcmp(p->nodes[o->index].op, PLAN_AUTOCAST) == 0)
            idle += p->nodes[o->index].output_bytes;
        if (moments[i].memory_during + idle > peak)
            peak = moments[i].memory_during + idle;
    }
    return peak;
}

static remat_status replay(const remat_profile *p, const remat_operations *list,
                           const remat_link *link, remat_simulation *ret, remat_error *error)
{
    remat_operations whole = {0};
    remat_status status = model_complete_list(p, list, &whole, error);
    remat_moment *moments = status ? NULL : malloc(whole.length * sizeof *moments);
    if (!status && !moments)
        status = remat_fail_memory(error);
    if (!status)
        status = remat_simulate(p, &whole, link, moments, NULL, ret, error);
    if (!status && ret->valid)
        ret->peak = peak_with_copies(p, &whole, moments, ret->peak);
    if (!status && !ret->valid)
        status = remat_fail(error, REMAT_INTERNAL, NULL,
                            "a step by units is not valid: operation %zu: %.400s",
                            ret->bad_operation, ret->reason);
    free(moments);
    remat_operations_clear(&whole);
    return status;
}

/* Takes it if it is the best. */
static void judge(search *s, const remat_simulation *r)
{
    const bool fits = r->peak <= s->budget;
    remat_way_result *best = &s->best;
    const bool better =
        fits ? !best->fits || r->makespan < best->makespan : !best->fits && r->peak < best->peak;
    if (better)
        *best = (remat_way_result){fits, r->makespan, r->peak, r->recomputed};
}

/* Units below `more` take the next level. */
static remat_status attempt(search *s, uint32_t level, uint32_t more, uint32_t offloaded,
                            bool *ret_fits, remat_error *error)
{
    remat_operations list = {0};
    remat_simulation result;
    for (uint32_t u = 0; u < s->n_units; u++)
        s->threshold[u] = s->level[u < more ? level + 1 : level];
    s->threshold[s->n_units - 1] = -1; /* its backward begins at once */
    remat_status status = remat_unit_list_keeping(s->profile, s->unit, s->threshold, s->kept,
                                                  offloaded, &list, error);
    if (!status)
        status = replay(s->profile, &list, offloaded ? s->link : NULL, &result, error);
    remat_operations_clear(&list);
    if (status)
        return status;
    judge(s, &result);
    *ret_fits = result.peak <= s->budget;
    return REMAT_OK;
}

/* ---- bisections ---- */

/* The first level for all units that fits: a larger one takes longer. All are tried: it may take
 * more memory too, where what is made again is large at once. n_levels: none fits. */
static remat_status find_level(search *s, uint32_t *ret_level, remat_error *error)
{
    remat_status status = REMAT_OK;
    bool fits = false;
    for (*ret_level = 0; *ret_level < s->n_levels; ++*ret_level) {
        status = attempt(s, *ret_level, 0, 0, &fits, error);
        if (status || fits)
            break;
    }
    return status;
}

/* As few units as must, found by bisection: of level - 1 those at level, or those offloaded. */
static remat_status find_fewest(search *s, uint32_t level, bool offloads, remat_error *error)
{
    uint32_t low = 0, high = s->n_units;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        bool fits;
        remat_status status = offloads ? attempt(s, level, 0, middle, &fits, error)
                                       : attempt(s, level - 1, middle, 0, &fits, error);
        if (status)
            return status;
        if (fits)
            high = middle;
        else
            low = middle + 1;
    }
    return REMAT_OK;
}

/* ---- ways ---- */

static remat_status solve_remat(search *s, remat_error *error)
{
    uint32_t level = 0;
    remat_status status = find_level(s, &level, error);
    if (!status && level > 0 && level < s->n_levels)
        status = find_fewest(s, level, false, error);
    for (uint32_t i = 0; i < 5 && !status && s->link && level > 0; i++)
        status = find_fewest(s, (s->n_levels - 1) * i / 4, true, error);
    return status;
}

static remat_status solve_plain(search *s, uint32_t level, remat_error *error)
{
    bool fits;
    remat_status status = attempt(s, level, 0, 0, &fits, error);
    return status || fits || !s->link ? status : find_fewest(s, level, true, error);
}

static remat_status solve_way(search *s, remat_way way, remat_error *error)
{
    bool fits;
    if (way == REMAT_WAY_REMAT)
        return solve_remat(s, error);
    if (way == REMAT_WAY_OFFLOADED)
        return attempt(s, s->n_levels - 1, 0, s->link ? s->n_units : 0, &fits, error);
    return solve_plain(s, way == REMAT_WAY_STORE_ALL ? 0 : s->n_levels - 1, error);
}

/* What torch's selective checkpointing holds to no use: results it was told to keep that only what
 * leaves a block read, so that nothing computed again does. A list drops them; they count. */
static uint64_t idle_bytes(const remat_profile *p, const uint32_t *unit, const bool *kept)
{
    uint64_t bytes = 0;
    for (uint32_t v = 0; kept && v < p->n_nodes; v++) {
        const remat_node *node = &p->nodes[v];
        bool idle = kept[v] && node->n_consumers == 1 && unit[v] != unit[p->n_nodes - 1];
        if (!idle)
            continue;
        const remat_node *reader = &p->nodes[node->consumers[0]];
        for (uint32_t i = 0; i < reader->n_consumers && idle; i++)
            idle = unit[reader->consumers[i]] != unit[v];
        bytes += idle && !remat_output_is_needed(p, v) ? node->output_bytes : 0;
    }
    return bytes;
}

remat_status remat_way_solve(const remat_profile *profile, const uint32_t *unit, const bool *kept,
                             remat_way way, const remat_link *link, uint64_t budget,
                             remat_way_result *ret_result, remat_error *error)
{
    const uint64_t idle = way == REMAT_WAY_SELECTIVE_OP ? idle_bytes(profile, unit, kept) : 0;
    search s = {.profile = profile,
                .unit = unit,
                .n_units = unit[profile->n_nodes - 1] + 1,
                .link = link,
                .kept = way == REMAT_WAY_SELECTIVE_OP ? kept : NULL,
                .budget = budget > idle ? budget - idle : 0,
                .best = {.peak = UINT64_MAX, .makespan = INFINITY}};
    double *ratio = malloc(profile->n_nodes * sizeof *ratio);
    s.threshold = malloc(s.n_units * sizeof *s.threshold);
    remat_status status = ratio && s.threshold ? REMAT_OK : remat_fail_memory(error);
    if (!status) {
        s.n_levels = plan_levels(profile, unit, ratio, s.level);
        status = solve_way(&s, way, error);
    }
    free(ratio);
    free(s.threshold);
    s.best.peak += idle;
    if (!status)
        *ret_result = s.best;
    return status;
}
