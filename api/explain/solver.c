/* Why this solver, and how good its schedule is. */
#include "explain/story.h"

#include <math.h>
#include <string.h>

enum { SAID_NAMES = 4 };

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
            explain_say(s, " and %zu more", others - said);
            break;
        }
        explain_say(s, "%s%s", said == 0 ? "" : said + 1 == others ? " and " : ", ", name);
        said++;
    }
}

static void tell_asked(story *s, const asked *a, const json_t *candidates)
{
    const char *solver = remat_json_string(s->schedule, "solver");
    char name[REMAT_TEXT_SIZE];
    remat_text_bytes(s->budget, name);
    explain_say(s, "auto asked %zu solvers, and %zu of them ha%s a schedule within %s: ", a->n,
                a->fit, a->fit == 1 ? "s" : "ve", name);
    if (a->fit == 0) {
        explain_say(s, "%s searched on and found one of ", solver);
        explain_time(s, s->makespan);
    } else if (s->makespan < a->best * (1 - SAME_TIME)) {
        explain_say(s, "the fastest, of %s, takes ", a->best_solver);
        explain_time(s, a->best);
        explain_say(s, ", and searching on from there %s came ", solver);
        explain_percent(s, 1 - s->makespan / a->best);
        explain_say(s, " lower, to ");
        explain_time(s, s->makespan);
    } else {
        explain_say(s, "%s takes ", solver);
        explain_time(s, s->makespan);
        if (a->equal > 1) {
            explain_say(s, ", as ");
            say_equals(s, candidates, a);
            explain_say(s, "%s%s", a->equal == 2 ? " does" : " do",
                        a->equals_peak > (double)s->e->simulation.peak ? " in more memory" : "");
        } else if (a->next_solver) {
            explain_say(s, ", the next, %s, ", a->next_solver);
            explain_percent(s, a->next / s->makespan - 1);
            explain_say(s, " longer");
        }
    }
}

void explain_solver(story *s)
{
    const json_t *candidates = json_object_get(s->schedule, "candidates");
    asked a = look_at_candidates(s, candidates);
    const char *solver = remat_json_string(s->schedule, "solver");
    const char *requested = remat_json_string(s->schedule, "requested_solver");
    explain_begin(s);
    if (a.n > 0) {
        tell_asked(s, &a, candidates);
    } else {
        explain_say(s, "%s was asked, and its fastest schedule within ",
                    requested[0] ? requested : solver);
        explain_bytes(s, s->budget);
        if (strcmp(requested, solver) != 0 && requested[0])
            explain_say(s, " is of %s and", solver);
        explain_say(s, " takes ");
        explain_time(s, s->makespan);
    }
    explain_say(s, "; storing everything would take ");
    explain_time(s, s->store_all);
    explain_say(s, " in ");
    explain_bytes(s, remat_json_number(s->schedule, "store_all_peak"));
    explain_say(s, ".");
    explain_finish(s, "solver");
    json_t *fact =
        json_pack("{s:s, s:s, s:I, s:I, s:f}", "solver", solver, "requested_solver",
                  requested[0] ? requested : solver, "asked", (json_int_t)(a.n > 0 ? a.n : 1),
                  "fitting", (json_int_t)(a.n > 0 ? a.fit : 1), "makespan", s->makespan);
    if (a.best_solver)
        remat_json_set(&fact, "best",
                       json_pack("{s:s, s:f}", "solver", a.best_solver, "makespan", a.best));
    explain_set(s, "choice", fact);
}

/* How far from the best it may be. */
void explain_proof(story *s)
{
    const char *optimality = remat_json_string(s->schedule, "optimality");
    const char *of = remat_json_string(s->schedule, "bound_class");
    double bound = remat_json_number(s->schedule, "lower_bound");
    if (!of[0]) /* of an older version: its bound is its class's */
        of = remat_json_string(s->schedule, "class");
    if (isnan(bound))
        return;
    explain_begin(s);
    explain_say(s, "Within ");
    explain_bytes(s, s->budget);
    if (strcmp(optimality, "optimal") == 0) {
        explain_say(s, " no schedule of %s is faster: ", s->profile->name);
        explain_time(s, s->makespan);
        explain_say(s, "%s.",
                    s->makespan <= s->store_all * (1 + SAME_TIME) ? " is what every node takes once"
                                                                  : " is proven to be the least");
    } else if (strcmp(optimality, "optimal-in-class") == 0) {
        explain_say(s, " none of the %s is faster than ", remat_json_string(s->schedule, "class"));
        explain_time(s, s->makespan);
        explain_say(s, "; of others nothing is proven.");
    } else {
        explain_say(s,
                    strcmp(of, "all schedules") == 0 ? " no schedule is faster than "
                                                     : " none of the %s is faster than ",
                    of);
        explain_time(s, bound);
        explain_say(s, ", which leaves at most ");
        explain_percent(s, bound > 0 ? s->makespan / bound - 1 : 0);
        explain_say(s, " to be found.");
    }
    explain_finish(s, "proof");
}
