/* Why a schedule is as it is: facts, and sentences of them. What solvers gave is read from the
 * stored schedule; all else is replayed. Nothing is said without a number of this very schedule. */
#include "fields.h"
#include "groups.h"

#include "remat/explain.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOLD_GROUPS = 20, SAID_GROUPS = 3, SAID_NAMES = 4 };

/* Sums of the same times in another order differ by less. */
#define SAME_TIME 1e-9

typedef struct story {
    const json_t *schedule;
    const remat_profile *profile;
    const remat_explanation *e;
    const char *unit;
    double makespan, store_all; /* times */
    double budget, room;        /* bytes; room is what must fit: the arena, or the peak */
    FILE *out;                  /* the sentence under way */
    char *sentence;
    size_t length;
    json_t *answer, *sentences;
    bool failed;
} story;

/* ---- writing ---- */

static void begin(story *s)
{
    s->sentence = NULL;
    s->out = open_memstream(&s->sentence, &s->length);
    s->failed |= !s->out;
}

__attribute__((format(printf, 2, 3))) static void say(story *s, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (s->out && vfprintf(s->out, format, arguments) < 0)
        s->failed = true;
    va_end(arguments);
}

static void finish(story *s, const char *topic)
{
    s->failed |= !s->out || fclose(s->out);
    s->out = NULL;
    if (!s->failed)
        api_append(&s->sentences, json_pack("{s:s, s:s}", "topic", topic, "text", s->sentence));
    free(s->sentence);
    s->sentence = NULL;
}

static void say_bytes(story *s, double bytes)
{
    char text[REMAT_TEXT_SIZE];
    say(s, "%s", remat_text_bytes(bytes, text));
}

static void say_time(story *s, double time)
{
    char text[REMAT_TEXT_SIZE];
    say(s, "%s", remat_text_time(time, s->unit, text));
}

static void say_percent(story *s, double fraction)
{
    char text[REMAT_TEXT_SIZE];
    say(s, "%s", remat_text_percent(fraction, text));
}

static void set(story *s, const char *name, json_t *value)
{
    api_set(s->answer, name, value, &s->failed);
}

static json_t *whole(double value)
{
    return json_integer((json_int_t)value);
}

/* ---- why this solver ---- */

/* What the solvers that were asked gave. */
typedef struct asked {
    size_t n, fit, equal;
    double best, next;  /* makespans: the least, and the least of those that are slower */
    double equals_peak; /* the least of the others that are as fast */
    const char *best_solver, *next_solver;
} asked;

static asked look_at_candidates(const story *s, const json_t *candidates)
{
    const char *own = remat_json_string(s->schedule, "solver");
    asked a = {.n = json_array_size(candidates),
               .best = INFINITY,
               .next = INFINITY,
               .equals_peak = INFINITY};
    size_t i;
    json_t *one;
    json_array_foreach(candidates, i, one)
    {
        double makespan = remat_json_number(one, "makespan");
        if (isnan(makespan))
            continue;
        a.fit++;
        bool equal = makespan <= s->makespan * (1 + SAME_TIME);
        a.equal += equal;
        if (equal && strcmp(remat_json_string(one, "solver"), own) != 0)
            a.equals_peak = fmin(a.equals_peak, remat_json_number(one, "peak"));
        if (makespan < a.best) {
            a.best = makespan;
            a.best_solver = remat_json_string(one, "solver");
        }
        if (makespan > s->makespan * (1 + SAME_TIME) && makespan < a.next) {
            a.next = makespan;
            a.next_solver = remat_json_string(one, "solver");
        }
    }
    return a;
}

/* Names of those that are as fast. */
static void say_equals(story *s, const json_t *candidates, const asked *a)
{
    const char *own = remat_json_string(s->schedule, "solver");
    size_t i, said = 0, others = a->equal - 1;
    json_t *one;
    json_array_foreach(candidates, i, one)
    {
        double makespan = remat_json_number(one, "makespan");
        const char *name = remat_json_string(one, "solver");
        if (!(makespan <= s->makespan * (1 + SAME_TIME)) || strcmp(name, own) == 0)
            continue;
        if (said == SAID_NAMES && others > SAID_NAMES + 1) {
            say(s, " and %zu more", others - said);
            break;
        }
        say(s, "%s%s", said == 0 ? "" : said + 1 == others ? " and " : ", ", name);
        said++;
    }
}

static void tell_asked(story *s, const asked *a, const json_t *candidates)
{
    const char *solver = remat_json_string(s->schedule, "solver");
    char name[REMAT_TEXT_SIZE];
    remat_text_bytes(s->budget, name);
    say(s, "auto asked %zu solvers, and %zu of them ha%s a schedule within %s: ", a->n, a->fit,
        a->fit == 1 ? "s" : "ve", name);
    if (a->fit == 0) {
        say(s, "%s searched on and found one of ", solver);
        say_time(s, s->makespan);
    } else if (s->makespan < a->best * (1 - SAME_TIME)) {
        say(s, "the fastest, of %s, takes ", a->best_solver);
        say_time(s, a->best);
        say(s, ", and searching on from there %s came ", solver);
        say_percent(s, 1 - s->makespan / a->best);
        say(s, " lower, to ");
        say_time(s, s->makespan);
    } else {
        say(s, "%s takes ", solver);
        say_time(s, s->makespan);
        if (a->equal > 1) {
            say(s, ", as ");
            say_equals(s, candidates, a);
            say(s, "%s%s", a->equal == 2 ? " does" : " do",
                a->equals_peak > (double)s->e->simulation.peak ? " in more memory" : "");
        } else if (a->next_solver) {
            say(s, ", the next, %s, ", a->next_solver);
            say_percent(s, a->next / s->makespan - 1);
            say(s, " longer");
        }
    }
}

static void tell_solver(story *s)
{
    const json_t *candidates = json_object_get(s->schedule, "candidates");
    asked a = look_at_candidates(s, candidates);
    const char *solver = remat_json_string(s->schedule, "solver");
    const char *requested = remat_json_string(s->schedule, "requested_solver");
    begin(s);
    if (a.n > 0) {
        tell_asked(s, &a, candidates);
    } else {
        say(s, "%s was asked, and its fastest schedule within ", requested[0] ? requested : solver);
        say_bytes(s, s->budget);
        if (strcmp(requested, solver) != 0 && requested[0])
            say(s, " is of %s and", solver);
        say(s, " takes ");
        say_time(s, s->makespan);
    }
    say(s, "; storing everything would take ");
    say_time(s, s->store_all);
    say(s, " in ");
    say_bytes(s, remat_json_number(s->schedule, "store_all_peak"));
    say(s, ".");
    finish(s, "solver");
    json_t *fact =
        json_pack("{s:s, s:s, s:I, s:I, s:f}", "solver", solver, "requested_solver",
                  requested[0] ? requested : solver, "asked", (json_int_t)(a.n > 0 ? a.n : 1),
                  "fitting", (json_int_t)(a.n > 0 ? a.fit : 1), "makespan", s->makespan);
    if (a.best_solver)
        api_set(fact, "best", json_pack("{s:s, s:f}", "solver", a.best_solver, "makespan", a.best),
                &s->failed);
    set(s, "choice", fact);
}

/* How far from the best it may be. */
static void tell_proof(story *s)
{
    const char *optimality = remat_json_string(s->schedule, "optimality");
    const char *of = remat_json_string(s->schedule, "bound_class");
    double bound = remat_json_number(s->schedule, "lower_bound");
    if (!of[0]) /* of an older version: its bound is its class's */
        of = remat_json_string(s->schedule, "class");
    if (isnan(bound))
        return;
    begin(s);
    say(s, "Within ");
    say_bytes(s, s->budget);
    if (strcmp(optimality, "optimal") == 0) {
        say(s, " no schedule of %s is faster: ", s->profile->name);
        say_time(s, s->makespan);
        say(s, "%s.",
            s->makespan <= s->store_all * (1 + SAME_TIME) ? " is what every node takes once"
                                                          : " is proven to be the least");
    } else if (strcmp(optimality, "optimal-in-class") == 0) {
        say(s, " none of the %s is faster than ", remat_json_string(s->schedule, "class"));
        say_time(s, s->makespan);
        say(s, "; of others nothing is proven.");
    } else {
        say(s,
            strcmp(of, "all schedules") == 0 ? " no schedule is faster than "
                                             : " none of the %s is faster than ",
            of);
        say_time(s, bound);
        say(s, ", which leaves at most ");
        say_percent(s, bound > 0 ? s->makespan / bound - 1 : 0);
        say(s, " to be found.");
    }
    finish(s, "proof");
}

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
        say(s, "%s%s%s (",
            i == 0       ? ""
            : i + 1 == n ? " and "
                         : ", ",
            kinds ? kinds[g->kind] : "", g->name);
        if (g->count > 1)
            say(s, "%zu %s, ", g->count, things);
        weigh(s, g->weight);
        say(s, ")");
    }
    if (left > 0) {
        say(s, " and %zu other %s (", left, things);
        weigh(s, rest);
        say(s, ")");
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
    group *groups = items ? api_groups_make(items, n, ret_n) : NULL;
    free(items);
    *ret_items = n;
    return groups;
}

static void tell_recomputed(story *s)
{
    const remat_simulation *replay = &s->e->simulation;
    size_t n_groups = 0, n = 0;
    group *groups = group_recomputed(s, &n, &n_groups);
    json_t *list = json_array();
    s->failed |= !groups;
    begin(s);
    if (n == 0) {
        say(s, "Of %u node%s none runs twice, so that the step takes ", s->profile->n_nodes,
            s->profile->n_nodes == 1 ? "" : "s");
        say_time(s, s->makespan);
        say(s, " within ");
        say_bytes(s, s->budget);
    } else {
        say(s, "%zu of %u nodes run%s again, for ", n, s->profile->n_nodes, n == 1 ? "s" : "");
        say_time(s, replay->recomputed_time);
        say(s, " or ");
        say_percent(s, replay->recomputed_time / s->makespan);
        say(s, " of the step: ");
        say_groups(s, groups, groups ? n_groups : 0, NULL, "nodes", say_time);
    }
    say(s, ".");
    finish(s, "recomputed");
    for (size_t i = 0; groups && i < n_groups && i < TOLD_GROUPS; i++)
        api_append(&list, json_pack("{s:s, s:I, s:f}", "name", groups[i].name, "count",
                                    (json_int_t)groups[i].count, "time", groups[i].weight));
    api_groups_free(groups, n_groups);
    set(s, "recomputed",
        json_pack("{s:I, s:f, s:f, s:o}", "count", (json_int_t)n, "time", replay->recomputed_time,
                  "fraction", s->makespan > 0 ? replay->recomputed_time / s->makespan : 0.0,
                  "groups", list));
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
    group *groups = items ? api_groups_make(items, e->n_at_peak, ret_n) : NULL;
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

static void tell_peak(story *s, const remat_operations *operations)
{
    const remat_simulation *replay = &s->e->simulation;
    const remat_operation *at = &operations->items[replay->peak_operation];
    size_t n = 0;
    group *groups = group_peak(s, &n);
    json_t *list = json_array();
    s->failed |= !groups;
    begin(s);
    say(s, "The peak, ");
    say_bytes(s, (double)replay->peak);
    say(s, ", is at operation %zu of %zu, %s %s%s", replay->peak_operation, operations->length,
        pass_of(at, s->profile), subject_of(at, s->profile), n > 0 ? ": " : "");
    say_groups(s, groups, groups ? n : 0, kinds_said, "values", say_bytes);
    say(s, "; ");
    if (s->room > (double)replay->peak) {
        say(s, "with its addresses it takes ");
        say_bytes(s, s->room);
        say(s, ", and ");
    }
    if (s->budget > s->room) {
        say_bytes(s, s->budget - s->room);
        say(s, " of the budget stay free.");
    } else {
        say(s, "that is all of the budget.");
    }
    finish(s, "peak");
    for (size_t i = 0; groups && i < n && i < TOLD_GROUPS; i++)
        api_append(&list,
                   json_pack("{s:s, s:s, s:I, s:I}", "kind",
                             remat_allocation_kind_name((remat_allocation_kind)groups[i].kind),
                             "name", groups[i].name, "count", (json_int_t)groups[i].count, "bytes",
                             (json_int_t)groups[i].weight));
    api_groups_free(groups, n);
    set(s, "at_peak",
        json_pack("{s:I, s:I, s:s, s:I, s:I, s:o}", "bytes", (json_int_t)replay->peak, "operation",
                  (json_int_t)replay->peak_operation, "node", subject_of(at, s->profile), "count",
                  (json_int_t)s->e->n_at_peak, "free", (json_int_t)fmax(0, s->budget - s->room),
                  "groups", list));
}

/* ---- less memory, and more ---- */

static void tell_least(story *s)
{
    const json_t *least = json_object_get(json_object_get(s->schedule, "frontier"), "smallest");
    const remat_floor *floor = &s->e->floor;
    double peak = remat_json_number(least, "peak");
    const remat_node *node = &s->profile->nodes[floor->node];
    bool linked = json_object_get(s->schedule, "link");
    bool proven = !linked && peak <= (double)floor->bytes;
    if (isnan(peak) && floor->bytes == 0)
        return;
    begin(s);
    if (!isnan(peak)) {
        bool alone = !json_object_get(s->schedule, "candidates");
        say(s, "The smallest schedule %s %s, ", alone ? "known here is of" : "of all solvers is of",
            remat_json_string(least, "solver"));
        say_bytes(s, peak);
        say(s, " and ");
        say_time(s, remat_json_number(least, "makespan"));
        if (s->budget > peak) {
            say(s, ", ");
            say_bytes(s, s->budget - peak);
            say(s, " below this budget");
        }
    }
    if (floor->bytes > 0) {
        say(s,
            isnan(peak) ? "No schedule%s does with less than "
            : proven    ? "; none%s can do with less than "
                        : "; none%s does with less than ",
            linked ? " without offloading" : "");
        say_bytes(s, (double)floor->bytes);
        say(s, ", for the %s of %s needs that",
            s->profile->joint ? "run"
            : floor->forward  ? "forward"
                              : "backward",
            node->id);
    }
    say(s, ".");
    finish(s, "least");
    json_t *fact = json_pack("{s:b}", "proven", (int)proven);
    if (!isnan(peak)) {
        api_set(fact, "solver", json_string(remat_json_string(least, "solver")), &s->failed);
        api_set(fact, "peak", whole(peak), &s->failed);
        api_set(fact, "makespan", json_real(remat_json_number(least, "makespan")), &s->failed);
    }
    if (floor->bytes > 0) {
        api_set(fact, "floor", whole((double)floor->bytes), &s->failed);
        api_set(fact, "node", json_string(node->id), &s->failed);
        api_set(fact, "pass", json_string(floor->forward ? "forward" : "backward"), &s->failed);
    }
    set(s, "less", fact);
}

static void tell_next(story *s)
{
    const json_t *frontier = json_object_get(s->schedule, "frontier");
    const json_t *next = json_object_get(frontier, "larger");
    double budget = remat_json_number(next, "budget"),
           makespan = remat_json_number(next, "makespan");
    begin(s);
    if (next) {
        say_bytes(s, budget - s->budget);
        say(s, " more, a budget of ");
        say_bytes(s, budget);
        say(s, ", saves ");
        say_time(s, s->makespan - makespan);
        say(s, ": a step of ");
        say_time(s, makespan);
        say(s, " by %s.", remat_json_string(next, "solver"));
        set(s, "more",
            json_pack("{s:I, s:I, s:f, s:f, s:s}", "budget", (json_int_t)budget, "bytes",
                      (json_int_t)(budget - s->budget), "makespan", makespan, "saves",
                      s->makespan - makespan, "solver", remat_json_string(next, "solver")));
    } else if (s->makespan <= s->store_all * (1 + SAME_TIME)) {
        say(s, "More than ");
        say_bytes(s, s->room);
        say(s, " saves nothing: ");
        say_time(s, s->makespan);
        say(s, " is the time of storing everything.");
    } else if (frontier) {
        say(s, "What more than ");
        say_bytes(s, s->budget);
        say(s, " would save of the ");
        say_time(s, s->makespan - s->store_all);
        say(s, " of overhead %s cannot tell, whose table is of one budget.",
            remat_json_string(s->schedule, "solver"));
    } else {
        say(s, "What more than ");
        say_bytes(s, s->budget);
        say(s, " would save was not kept with this schedule.");
    }
    finish(s, "next");
}

/* ---- the link ---- */

/* What a copy each way would take of the node that is worth most to move. */
static void say_detour(story *s, const remat_link *link)
{
    const remat_detour *d = &s->e->detour;
    say(s, "%s, of what runs again worth most to move, has ", s->profile->nodes[d->node].id);
    say_bytes(s, (double)d->bytes);
    say(s, ": ");
    say_time(s, d->out);
    say(s, " out and ");
    say_time(s, d->back);
    say(s, " back, against ");
    say_time(s, d->again);
    say(s, " to run it again, and until the %s, ", s->profile->joint ? "peak" : "loss's backward");
    say_time(s, s->e->until);
    say(s, " into the step, the link takes out at most ");
    say_bytes(s, s->e->until * link->to_host);
}

static void tell_link(story *s, const remat_link *link)
{
    const remat_simulation *replay = &s->e->simulation;
    const remat_detour *d = &s->e->detour;
    begin(s);
    if (s->e->n_moved > 0) {
        say(s, "The link takes %zu value%s out, ", s->e->n_moved, s->e->n_moved == 1 ? "" : "s");
        say_bytes(s, (double)replay->bytes_to_host);
        say(s, ", and ");
        say_bytes(s, (double)replay->bytes_to_device);
        say(s, " back, and compute ");
        if (replay->idle_time > 0) {
            say(s, "waits for it ");
            say_time(s, replay->idle_time);
        } else {
            say(s, "never waits for it in");
        }
        say(s, replay->idle_time > 0 ? " of " : " ");
        say_time(s, s->makespan);
    } else {
        say(s, "The link is idle");
    }
    if (d->node < s->profile->n_nodes) {
        say(s, "; ");
        say_detour(s, link);
    } else if (s->e->n_moved == 0 && replay->recomputed_time > 0) {
        say(s, ": nothing goes over it in the ");
        say_time(s, s->makespan);
        say(s, " of this step");
    } else if (s->e->n_moved == 0) {
        say(s, ", for nothing runs twice in the ");
        say_time(s, s->makespan);
        say(s, " of this step");
    }
    say(s, ".");
    finish(s, "link");
    json_t *fact =
        json_pack("{s:b, s:I, s:I, s:I, s:f, s:f}", "idle", s->e->n_moved == 0, "moved",
                  (json_int_t)s->e->n_moved, "bytes_to_host", (json_int_t)replay->bytes_to_host,
                  "bytes_to_device", (json_int_t)replay->bytes_to_device, "waiting",
                  replay->idle_time, "until", s->e->until);
    if (d->node < s->profile->n_nodes)
        api_set(fact, "detour",
                json_pack("{s:s, s:I, s:f, s:f, s:f}", "node", s->profile->nodes[d->node].id,
                          "bytes", (json_int_t)d->bytes, "to_host_time", d->out, "to_device_time",
                          d->back, "forward_time", d->again),
                &s->failed);
    set(s, "transfers", fact);
}

/* ---- the pebble model ---- */

static void tell_pebbles(story *s, const remat_pebble_replay *replay,
                         const remat_pebble_problem *problem, size_t length)
{
    uint32_t steps = 0;
    double slots = remat_json_number(s->schedule, "budget");
    for (uint32_t j = 0; j < problem->join.k; j++)
        steps += problem->join.length[j];
    begin(s);
    say(s,
        "%s in the pebble model: no schedule within %.0f slot%s takes fewer forwards than its "
        "%u, for %u steps on %u branches, ",
        remat_json_string(s->schedule, "solver"), slots, slots == 1 ? "" : "s", replay->forwards,
        steps, problem->join.k);
    say_time(s, s->makespan);
    say(s, " in all.");
    finish(s, "solver");
    begin(s);
    say(s, "%u forwards are run again, which takes ", replay->forwards - steps);
    say_time(s, s->makespan - s->store_all);
    say(s, " or ");
    say_percent(s, s->makespan > 0 ? 1 - s->store_all / s->makespan : 0);
    say(s, " of the step.");
    finish(s, "recomputed");
    begin(s);
    say(s,
        "The peak, %u slots, is at operation %zu of %zu; storing everything takes %u, and %u are "
        "the least.",
        replay->peak, replay->peak_operation, length, remat_pebble_most_slots(&problem->join),
        remat_pebble_least_slots(&problem->join));
    finish(s, "peak");
}

static remat_status explain_pebbles(story *s, remat_error *error)
{
    remat_pebble_operations list = {0};
    remat_pebble_problem problem = {.node_list = NULL};
    remat_pebble_replay replay;
    remat_status status = api_pebbles_of_schedule(s->schedule, s->profile, &problem, &list, error);
    if (!status)
        status = remat_pebble_simulate(&problem.join, &list, NULL, &replay, error);
    if (!status && !replay.valid)
        status = remat_fail(error, REMAT_INFEASIBLE, "operations", "operation %zu: %s",
                            replay.bad_operation, replay.reason);
    if (!status)
        tell_pebbles(s, &replay, &problem, list.length);
    remat_pebble_problem_clear(&problem);
    remat_pebble_operations_clear(&list);
    return status;
}

/* ---- the whole ---- */

static remat_status explain_bytes(story *s, remat_error *error)
{
    const json_t *way = json_object_get(s->schedule, "link");
    remat_operations list = {0};
    remat_explanation e = {.recomputed = NULL};
    remat_link link;
    remat_status status = way ? remat_link_decode(way, s->profile, &link, error) : REMAT_OK;
    if (!status)
        status = remat_operations_decode(json_object_get(s->schedule, "operations"), s->profile,
                                         "operations", &list, error);
    if (!status)
        status = remat_explain(s->profile, &list, way ? &link : NULL, &e, error);
    if (!status && !e.simulation.valid)
        status = remat_fail(error, REMAT_INFEASIBLE, "operations",
                            "the schedule is not valid for \"%.100s\": operation %zu: %.300s",
                            s->profile->name, e.simulation.bad_operation, e.simulation.reason);
    if (!status) {
        double arena = remat_json_number(s->schedule, "arena");
        s->e = &e;
        s->makespan = e.simulation.makespan;
        s->room = isnan(arena) ? (double)e.simulation.peak : arena;
        tell_solver(s);
        tell_proof(s);
        tell_recomputed(s);
        tell_peak(s, &list);
        tell_least(s);
        tell_next(s);
        if (way)
            tell_link(s, &link);
    }
    remat_explanation_clear(&e);
    remat_operations_clear(&list);
    return status;
}

/* All sentences, a space between two. */
static json_t *join_sentences(const json_t *sentences)
{
    char *text = NULL;
    size_t length, i;
    json_t *one, *joined = NULL;
    FILE *out = open_memstream(&text, &length);
    if (!out)
        return NULL;
    json_array_foreach(sentences, i, one)
    {
        fprintf(out, "%s%s", i > 0 ? " " : "", remat_json_string(one, "text"));
    }
    if (fclose(out) == 0)
        joined = json_string(text);
    free(text);
    return joined;
}

remat_status remat_answer_explanation(const json_t *schedule, const remat_profile *profile,
                                      json_t **ret_answer, remat_error *error)
{
    story s = {.schedule = schedule,
               .profile = profile,
               .unit = remat_time_unit_name(profile->time_unit),
               .makespan = remat_json_number(schedule, "makespan"),
               .store_all = remat_json_number(schedule, "store_all_makespan"),
               .budget = remat_json_number(schedule, "budget"),
               .answer = json_object(),
               .sentences = json_array()};
    s.failed = !s.answer;
    set(&s, "schedule_id", json_string(remat_json_string(schedule, "schedule_id")));
    set(&s, "text", json_string("")); /* stands first */
    set(&s, "time_unit", json_string(s.unit));
    remat_status status =
        json_object_get(schedule, "model") ? explain_pebbles(&s, error) : explain_bytes(&s, error);
    if (!status)
        set(&s, "text", join_sentences(s.sentences));
    set(&s, "sentences", s.sentences);
    json_t *answer = api_finish(s.answer, s.failed || status);
    if (status)
        return status;
    if (!answer)
        return remat_fail_memory(error);
    *ret_answer = answer;
    return REMAT_OK;
}
