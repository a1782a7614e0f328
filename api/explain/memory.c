/* What is recomputed, what makes the peak, and what less memory and more would cost. */
#include "explain/groups.h"
#include "explain/story.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOLD_GROUPS = 20, SAID_GROUPS = 3 };

/* ---- what is recomputed ---- */

/* Says the heaviest groups; weigh says a weight. */
static void say_groups(story *s, const group *groups, size_t n, const char *const *kinds,
                       const char *things, void (*weigh)(story *s, double weight))
{
    size_t shown = n <= SAID_GROUPS + 1 ? n : SAID_GROUPS, left = 0;
    double rest = 0;
    for (size_t i = 0; i < n; i++) {
        const group *g = &groups[i];
        if (i >= shown) {
            left += g->count;
            rest += g->weight;
            continue;
        }
        explain_say(s, "%s%s%s (",
                    i == 0       ? ""
                    : i + 1 == n ? " and "
                                 : ", ",
                    kinds ? kinds[g->kind] : "", g->name);
        if (g->count > 1)
            explain_say(s, "%zu %s, ", g->count, things);
        weigh(s, g->weight);
        explain_say(s, ")");
    }
    if (left > 0) {
        explain_say(s, " and %zu other %s (", left, things);
        weigh(s, rest);
        explain_say(s, ")");
    }
}

static group *group_recomputed(const story *s, size_t *ret_items, size_t *ret_n)
{
    const remat_profile *profile = s->profile;
    group_item *items = calloc(profile->n_nodes, sizeof *items);
    size_t n = 0;
    for (uint32_t v = 0; items && v < profile->n_nodes; v++)
        if (s->e->recomputed[v] > 0)
            items[n++] = (group_item){.id = profile->nodes[v].id, .weight = s->e->recomputed[v]};
    group *groups = items ? explain_groups_make(items, n, ret_n) : NULL;
    free(items);
    *ret_items = n;
    return groups;
}

/* What takes no time is not counted where it runs again. */
static bool any_takes_no_time(const remat_profile *profile)
{
    for (uint32_t v = 0; v < profile->n_nodes; v++)
        if (profile->nodes[v].forward_time == 0)
            return true;
    return false;
}

void explain_recomputed(story *s)
{
    const remat_simulation *replay = &s->e->simulation;
    size_t n_groups = 0, n = 0;
    group *groups = group_recomputed(s, &n, &n_groups);
    json_t *list = json_array();
    s->failed |= !groups;
    explain_begin(s);
    if (n == 0) {
        explain_say(s, "Of %u node%s none%s runs twice, so that the step takes ",
                    s->profile->n_nodes, s->profile->n_nodes == 1 ? "" : "s",
                    any_takes_no_time(s->profile) ? " that takes time" : "");
        explain_time(s, s->makespan);
        explain_say(s, " within ");
        explain_bytes(s, s->budget);
    } else {
        explain_say(s, "%zu of %u nodes run%s again, for ", n, s->profile->n_nodes,
                    n == 1 ? "s" : "");
        explain_time(s, replay->recomputed_time);
        explain_say(s, " or ");
        explain_percent(s, replay->recomputed_time / s->makespan);
        explain_say(s, " of the step: ");
        say_groups(s, groups, groups ? n_groups : 0, NULL, "nodes", explain_time);
    }
    explain_say(s, ".");
    explain_finish(s, "recomputed");
    for (size_t i = 0; groups && i < n_groups && i < TOLD_GROUPS; i++)
        remat_json_append(&list, json_pack("{s:s, s:I, s:f}", "name", groups[i].name, "count",
                                           (json_int_t)groups[i].count, "time", groups[i].weight));
    explain_groups_free(groups, n_groups);
    explain_set(s, "recomputed",
                json_pack("{s:I, s:f, s:f, s:o}", "count", (json_int_t)n, "time",
                          replay->recomputed_time, "fraction",
                          s->makespan > 0 ? replay->recomputed_time / s->makespan : 0.0, "groups",
                          list));
}

/* ---- what makes the peak ---- */

static const char *const kinds_said[] = {
    [REMAT_ALLOCATION_INPUT] = "input ",
    [REMAT_ALLOCATION_OUT] = "output of ",
    [REMAT_ALLOCATION_SAVED] = "what is saved of ",
    [REMAT_ALLOCATION_GRADIENT] = "gradient of ",
    [REMAT_ALLOCATION_INPUT_GRADIENT] = "gradient of input ",
    [REMAT_ALLOCATION_WORKSPACE] = "workspace of ",
    [REMAT_ALLOCATION_STATE] = "saved state ",
};

static group *group_peak(const story *s, size_t *ret_n)
{
    const remat_explanation *e = s->e;
    group_item *items = calloc(e->n_at_peak + 1, sizeof *items);
    for (size_t i = 0; items && i < e->n_at_peak; i++)
        items[i] = (group_item){.id = remat_allocation_id(s->profile, &e->at_peak[i]),
                                .kind = e->at_peak[i].kind,
                                .weight = (double)e->at_peak[i].bytes};
    group *groups = items ? explain_groups_make(items, e->n_at_peak, ret_n) : NULL;
    free(items);
    return groups;
}

static const char *pass_of(const remat_operation *operation, const remat_profile *profile)
{
    switch ((remat_operation_kind)operation->kind) {
    case REMAT_F:
    case REMAT_A:
        return profile->joint ? "the run of" : "the forward of";
    case REMAT_B:
        return "the backward of";
    case REMAT_P:
        return "the copy back of";
    case REMAT_S:
    case REMAT_R:
        return "the saving of state";
    case REMAT_D:
    case REMAT_O:
        break;
    }
    return "the copy out of";
}

static const char *subject_of(const remat_operation *operation, const remat_profile *profile)
{
    if (operation->kind == REMAT_S || operation->kind == REMAT_R)
        return profile->states[operation->index].id;
    return operation->target == REMAT_INPUT ? profile->inputs[operation->index].id
                                            : profile->nodes[operation->index].id;
}

void explain_peak(story *s, const remat_operations *operations)
{
    const remat_simulation *replay = &s->e->simulation;
    const remat_operation *at = &operations->items[replay->peak_operation];
    const double held = (double)replay->held, peak = (double)replay->peak + s->others * held;
    size_t n = 0;
    group *groups = group_peak(s, &n);
    json_t *list = json_array();
    s->failed |= !groups;
    explain_begin(s);
    explain_say(s, "The peak, ");
    explain_bytes(s, peak);
    if (s->others > 0)
        explain_say(s, " with %.0f micro-batches in flight", s->others + 1);
    explain_say(s, ", is at operation %zu of %zu, %s %s%s", replay->peak_operation,
                operations->length, pass_of(at, s->profile), subject_of(at, s->profile),
                n > 0 ? ": " : "");
    say_groups(s, groups, groups ? n : 0, kinds_said, "values", explain_bytes);
    if (s->others > 0) {
        explain_say(s, ", and ");
        explain_bytes(s, held);
        explain_say(s, " that %s at the turn",
                    s->others == 1 ? "the other one holds" : "each of the others holds");
    }
    explain_say(s, "; ");
    if (s->room > peak) {
        explain_say(s, "with its addresses it takes ");
        explain_bytes(s, s->room);
        explain_say(s, ", and ");
    }
    if (s->budget > s->room) {
        explain_bytes(s, s->budget - s->room);
        explain_say(s, " of the budget stay free.");
    } else {
        explain_say(s, "that is all of the budget.");
    }
    explain_finish(s, "peak");
    for (size_t i = 0; groups && i < n && i < TOLD_GROUPS; i++)
        remat_json_append(
            &list, json_pack("{s:s, s:s, s:I, s:I}", "kind",
                             remat_allocation_kind_name((remat_allocation_kind)groups[i].kind),
                             "name", groups[i].name, "count", (json_int_t)groups[i].count, "bytes",
                             (json_int_t)groups[i].weight));
    explain_groups_free(groups, n);
    explain_set(s, "at_peak",
                json_pack("{s:I, s:I, s:s, s:I, s:I, s:o}", "bytes", (json_int_t)peak, "operation",
                          (json_int_t)replay->peak_operation, "node", subject_of(at, s->profile),
                          "count", (json_int_t)s->e->n_at_peak, "free",
                          (json_int_t)fmax(0, s->budget - s->room), "groups", list));
}

/* ---- less memory, and more ---- */

void explain_least(story *s)
{
    const json_t *least = json_object_get(json_object_get(s->schedule, "frontier"), "smallest");
    const remat_floor *floor = &s->e->floor;
    double peak = remat_json_number(least, "peak");
    const remat_node *node = &s->profile->nodes[floor->node];
    bool linked = json_object_get(s->schedule, "link");
    bool proven = !linked && peak <= (double)floor->bytes;
    if (isnan(peak) && floor->bytes == 0)
        return;
    explain_begin(s);
    if (!isnan(peak)) {
        bool alone = !json_object_get(s->schedule, "candidates");
        explain_say(s, "The smallest schedule %s %s, ",
                    alone ? "known here is of" : "of all solvers is of",
                    remat_json_string(least, "solver"));
        explain_bytes(s, peak);
        explain_say(s, " and ");
        explain_time(s, remat_json_number(least, "makespan"));
        if (s->budget > peak) {
            explain_say(s, ", ");
            explain_bytes(s, s->budget - peak);
            explain_say(s, " below this budget");
        }
    }
    if (floor->bytes > 0) {
        explain_say(s,
                    isnan(peak) ? "No schedule%s does with less than "
                    : proven    ? "; none%s can do with less than "
                                : "; none%s does with less than ",
                    linked ? " without offloading" : "");
        explain_bytes(s, (double)floor->bytes);
        explain_say(s,
                    floor->last ? ", for the %s of %s, where it is the last, needs that"
                                : ", for the %s of %s needs that",
                    s->profile->joint ? "run"
                    : floor->forward  ? "forward"
                                      : "backward",
                    node->id);
    }
    explain_say(s, ".");
    explain_finish(s, "least");
    json_t *fact = json_pack("{s:b}", "proven", (int)proven);
    if (!isnan(peak)) {
        remat_json_set(&fact, "solver", json_string(remat_json_string(least, "solver")));
        remat_json_set(&fact, "peak", explain_whole(peak));
        remat_json_set(&fact, "makespan", json_real(remat_json_number(least, "makespan")));
    }
    if (floor->bytes > 0) {
        remat_json_set(&fact, "floor", explain_whole((double)floor->bytes));
        remat_json_set(&fact, "node", json_string(node->id));
        remat_json_set(&fact, "pass", json_string(floor->forward ? "forward" : "backward"));
    }
    explain_set(s, "less", fact);
}

void explain_next(story *s)
{
    const json_t *frontier = json_object_get(s->schedule, "frontier");
    const json_t *next = json_object_get(frontier, "larger");
    double budget = remat_json_number(next, "budget"),
           makespan = remat_json_number(next, "makespan");
    explain_begin(s);
    if (next) {
        explain_bytes(s, budget - s->budget);
        explain_say(s, " more, a budget of ");
        explain_bytes(s, budget);
        explain_say(s, ", saves ");
        explain_time(s, s->makespan - makespan);
        explain_say(s, ": a step of ");
        explain_time(s, makespan);
        explain_say(s, " by %s.", remat_json_string(next, "solver"));
        explain_set(s, "more",
                    json_pack("{s:I, s:I, s:f, s:f, s:s}", "budget", (json_int_t)budget, "bytes",
                              (json_int_t)(budget - s->budget), "makespan", makespan, "saves",
                              s->makespan - makespan, "solver", remat_json_string(next, "solver")));
    } else if (s->makespan <= s->store_all * (1 + SAME_TIME)) {
        explain_say(s, "More than ");
        explain_bytes(s, s->room);
        explain_say(s, " saves nothing: ");
        explain_time(s, s->makespan);
        explain_say(s, " is the time of storing everything.");
    } else if (frontier) {
        explain_say(s, "What more than ");
        explain_bytes(s, s->budget);
        explain_say(s, " would save of the ");
        explain_time(s, s->makespan - s->store_all);
        explain_say(s, " of overhead %s cannot tell, whose table is of one budget.",
                    remat_json_string(s->schedule, "solver"));
    } else {
        explain_say(s, "What more than ");
        explain_bytes(s, s->budget);
        explain_say(s, " would save was not kept with this schedule.");
    }
    explain_finish(s, "next");
}
