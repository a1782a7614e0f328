/* The solvers there are, and what they have in common: acceptance and options. */
#include "remat/machine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A build may bring solvers of its own, named like those below. */
#ifndef REMAT_MORE_SOLVERS
#define REMAT_MORE_SOLVERS(X)
#endif

/* The registry, cheapest first. A new solver is one file and one line here. */
#define SOLVERS(X)                                                                                 \
    X(store_all)                                                                                   \
    X(chen_sqrt)                                                                                   \
    X(chen_greedy)                                                                                 \
    X(revolve)                                                                                     \
    X(bptt_hsm)                                                                                    \
    X(bptt_ism)                                                                                    \
    X(bptt_msm)                                                                                    \
    X(butt)                                                                                        \
    X(rotor)                                                                                       \
    X(offload_all)                                                                                 \
    X(offload_conv)                                                                                \
    X(offload_greedy)                                                                              \
    X(pofo)                                                                                        \
    X(equiv_chain)                                                                                 \
    X(join)                                                                                        \
    X(chen_graph)                                                                                  \
    X(selective)                                                                                   \
    X(offload_selective)                                                                           \
    X(lowerset_approx)                                                                             \
    X(lowerset)                                                                                    \
    X(interval)                                                                                    \
    X(lowerset_exact)                                                                              \
    REMAT_MORE_SOLVERS(X)

#define X(name) extern const remat_solver remat_solver_##name;
SOLVERS(X)
#undef X

static const remat_solver *const solvers[] = {
#define X(name) &remat_solver_##name,
    SOLVERS(X)
#undef X
};

const remat_solver *const *remat_solvers(size_t *ret_count)
{
    *ret_count = sizeof solvers / sizeof *solvers;
    return solvers;
}

const remat_solver *remat_solver_find(const char *name)
{
    for (size_t i = 0; i < sizeof solvers / sizeof *solvers; i++)
        if (strcmp(solvers[i]->name, name) == 0)
            return solvers[i];
    return NULL;
}

/* ---- machines of their own ---- */

const remat_machine *remat_machine_of(const remat_solver *solver, const remat_options *options)
{
    const bool asked = solver && solver->machine && options->values[solver->machine_option] != 0;
    return asked ? solver->machine : NULL;
}

const remat_machine *remat_machine_find(const char *name)
{
    for (size_t i = 0; i < sizeof solvers / sizeof *solvers; i++)
        if (solvers[i]->machine && strcmp(solvers[i]->machine->name, name) == 0)
            return solvers[i]->machine;
    return NULL;
}

void remat_machine_facts_clear(remat_machine_facts *facts)
{
    free(facts->lengths);
    free(facts->nodes);
    *facts = (remat_machine_facts){0};
}

static remat_status machine_accepts(const remat_machine *machine, const remat_problem *problem,
                                    remat_error *error)
{
    remat_machine_facts facts = {0};
    remat_status status = machine->facts(problem->profile, &problem->options, &facts, error);
    remat_machine_facts_clear(&facts);
    return status;
}

/* ---- acceptance ---- */

static unsigned shape_flag(remat_kind kind)
{
    return kind == REMAT_CHAIN  ? REMAT_ACCEPTS_CHAIN
           : kind == REMAT_JOIN ? REMAT_ACCEPTS_JOIN
                                : REMAT_ACCEPTS_GRAPH;
}

static remat_status refuse_pins(const remat_solver *solver, const remat_profile *profile,
                                remat_error *error)
{
    uint32_t v = 0;
    while (!profile->nodes[v].once)
        v++;
    return remat_fail(error, REMAT_NOT_ACCEPTED, "solver",
                      "%s does not honour pins, and node \"%s\" (index %u) is pinned by %s; auto, "
                      "interval and store-all do",
                      solver->name, profile->nodes[v].id, v,
                      profile->nodes[v].keep ? "keep" : "recompute");
}

remat_status remat_check_in_flight(const remat_problem *problem, const remat_machine *machine,
                                   remat_error *error)
{
    const remat_profile *profile = problem->profile;
    if (profile->n_late > 0 && problem->link)
        return remat_fail(error, REMAT_NOT_ACCEPTED, "link",
                          "with inputs that come late nothing moves to a host: ask without a link");
    if (problem->in_flight <= 1)
        return REMAT_OK;
    if (problem->in_flight > REMAT_MOST_IN_FLIGHT)
        return remat_fail(error, REMAT_INVALID, "in_flight",
                          "in_flight is %u micro-batches; 1 to %u are understood",
                          problem->in_flight, REMAT_MOST_IN_FLIGHT);
    if (machine)
        return remat_fail(error, REMAT_NOT_ACCEPTED, "in_flight",
                          "the %s model knows one micro-batch at a time, not %u in flight",
                          machine->name, problem->in_flight);
    if (problem->link)
        return remat_fail(error, REMAT_NOT_ACCEPTED, "in_flight",
                          "with %u micro-batches in flight nothing moves to a host: ask without a "
                          "link",
                          problem->in_flight);
    if (profile->joint && profile->n_late == 0)
        return remat_fail(error, REMAT_NOT_ACCEPTED, "in_flight",
                          "\"%.100s\" is a joint graph without an input that is \"late\": nothing "
                          "says what is held when %u micro-batches are in flight",
                          profile->name, problem->in_flight);
    return REMAT_OK;
}

remat_status remat_solver_accepts(const remat_solver *solver, const remat_problem *problem,
                                  remat_error *error)
{
    const remat_profile *profile = problem->profile;
    remat_status status =
        remat_check_in_flight(problem, remat_machine_of(solver, &problem->options), error);
    if (status)
        return status;
    if (profile->joint && !(solver->accepts & REMAT_ACCEPTS_JOINT))
        return remat_fail(error, REMAT_NOT_ACCEPTED, "solver",
                          "%s does not accept joint graphs; auto, interval and store-all do",
                          solver->name);
    const remat_machine *machine = remat_machine_of(solver, &problem->options);
    if (machine)
        return machine_accepts(machine, problem, error);
    if (profile->n_pinned > 0 && !(solver->accepts & REMAT_ACCEPTS_PINS))
        return refuse_pins(solver, profile, error);
    if (!(solver->accepts & shape_flag(profile->kind))) {
        bool joins = (solver->accepts & REMAT_ACCEPTS_JOIN) != 0;
        uint32_t node = joins ? profile->not_join : profile->not_chain;
        if (node >= profile->n_nodes)
            return remat_fail(error, REMAT_NOT_ACCEPTED, "solver", "%s does not accept a %s",
                              solver->name, remat_kind_name(profile->kind));
        return remat_fail(error, REMAT_NOT_ACCEPTED, "solver",
                          "%s accepts %s only; node \"%s\" (index %u) has %u inputs from nodes or "
                          "graph inputs and %u consumers",
                          solver->name, joins ? "chains and joins" : "chains",
                          profile->nodes[node].id, node, profile->nodes[node].n_inputs,
                          profile->nodes[node].n_consumers);
    }
    if ((solver->accepts & REMAT_HOMOGENEOUS_ONLY) && !profile->homogeneous) {
        uint32_t node = profile->not_homogeneous;
        return remat_fail(
            error, REMAT_NOT_ACCEPTED, "solver",
            "%s accepts homogeneous profiles only; the costs of node \"%s\" (index %u) "
            "differ from those of the first node, or it has saved bytes or workspaces",
            solver->name, profile->nodes[node].id, node);
    }
    if ((solver->accepts & REMAT_NEEDS_LINK) && !problem->link)
        return remat_fail(error, REMAT_NOT_ACCEPTED, "link", "%s needs a link to the host",
                          solver->name);
    return solver->check ? solver->check(problem, error) : REMAT_OK;
}

remat_options remat_options_default(const remat_solver *solver)
{
    remat_options options = {{0}};
    for (size_t i = 0; i < solver->n_options; i++)
        options.values[i] = solver->options[i].default_value;
    return options;
}

static remat_status set_choice(const remat_option *option, double *value, const char *text,
                               const char *field, remat_error *error)
{
    for (size_t i = 0; text && option->choices[i]; i++)
        if (strcmp(option->choices[i], text) == 0) {
            *value = (double)i;
            return REMAT_OK;
        }
    return remat_fail(error, REMAT_INVALID, field, "%s does not know the choice \"%.60s\"", field,
                      text ? text : "");
}

remat_status remat_options_set(const remat_solver *solver, remat_options *options, const char *name,
                               double number, const char *text, remat_error *error)
{
    char field[96];
    snprintf(field, sizeof field, "options.%.60s", name);
    for (size_t i = 0; i < solver->n_options; i++) {
        const remat_option *option = &solver->options[i];
        if (strcmp(option->name, name) != 0)
            continue;
        if (option->type == REMAT_OPTION_CHOICE)
            return set_choice(option, &options->values[i], text, field, error);
        double low = option->type == REMAT_OPTION_BOOLEAN ? 0 : option->minimum;
        double high = option->type == REMAT_OPTION_BOOLEAN ? 1 : option->maximum;
        if (text || !(number >= low && number <= high))
            return remat_fail(error, REMAT_INVALID, field, "%s must be a %s from %g to %g", field,
                              option->type == REMAT_OPTION_BOOLEAN ? "boolean" : "number", low,
                              high);
        if (option->type != REMAT_OPTION_NUMBER && number != floor(number))
            return remat_fail(error, REMAT_INVALID, field, "%s must be an integer, not %g", field,
                              number);
        options->values[i] = number;
        return REMAT_OK;
    }
    return remat_fail(error, REMAT_INVALID, field, "%s has no option \"%.60s\"", solver->name,
                      name);
}

const char *remat_optimality_name(remat_optimality optimality)
{
    static const char *const names[] = {"optimal", "optimal-in-class", "heuristic"};
    return names[optimality];
}

void remat_host_parallel_for(const remat_host *host, size_t count,
                             void (*body)(void *context, size_t index, unsigned worker),
                             void *context)
{
    if (host && host->parallel_for && host->workers > 1 && count > 1) {
        host->parallel_for(host->data, count, body, context);
        return;
    }
    for (size_t i = 0; i < count; i++)
        body(context, i, 0);
}

unsigned remat_host_workers(const remat_host *host)
{
    return host && host->parallel_for && host->workers > 1 ? host->workers : 1;
}

void remat_host_progress(const remat_host *host, double fraction)
{
    if (host && host->progress)
        host->progress(host->data, fraction);
}

remat_host remat_host_quiet(const remat_host *host)
{
    remat_host quiet = host ? *host : (remat_host){.workers = 1};
    quiet.progress = NULL;
    quiet.found = NULL;
    return quiet;
}

remat_host remat_host_unhurried(const remat_host *host)
{
    remat_host unhurried = host ? *host : (remat_host){.workers = 1};
    unhurried.late = NULL;
    return unhurried;
}

void remat_host_found(const remat_host *host, double makespan, double bound)
{
    if (host && host->found)
        host->found(host->data, makespan, bound);
}

void remat_host_doing(const remat_host *host, const char *what)
{
    if (host && host->doing)
        host->doing(host->data, what);
}

static bool is_cancelled(const remat_host *host)
{
    return host && host->cancelled && host->cancelled(host->data);
}

static bool is_late(const remat_host *host)
{
    return host && host->late && host->late(host->data);
}

bool remat_host_cancelled(const remat_host *host)
{
    return is_cancelled(host) || is_late(host);
}

bool remat_host_late(const remat_host *host)
{
    return is_late(host) && !is_cancelled(host);
}
