/* All plans of the class on a small chain, each timed by two sweeps over exact bytes: an
 * independent judge of the programs of solver/offload, with which it shares nothing but the chain.
 *
 * A plan is a nesting of passes and a set of inputs that are offloaded. Forward sweep: transfers
 * run first in, first out, each from the end of its producer on; an operation whose bytes exceed
 * the budget starts when the excess has left, counting only tensors whose reader is over. The phase
 * ends with the last operation and the last transfer. The backward sweep is the same in reversed
 * time: a prefetch is an offload that is ready once its first reader has been passed. */
#ifndef TESTS_PROPERTY_OFFLOAD_SWEEPS_H
#define TESTS_PROPERTY_OFFLOAD_SWEEPS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { SWEEP_STAGES = 5, SWEEP_OPERATIONS = 64 };

/* Stages 1 .. n; index 0 is the input. */
typedef struct sweep_chain {
    int n;
    double budget, bandwidth;
    double a[SWEEP_STAGES + 1], abar[SWEEP_STAGES + 1], delta[SWEEP_STAGES + 1];
    double of[SWEEP_STAGES + 1], os[SWEEP_STAGES + 1], ob[SWEEP_STAGES + 1];
    double uf[SWEEP_STAGES + 1], ub[SWEEP_STAGES + 1];
} sweep_chain;

typedef enum sweep_kind { SWEEP_ALL, SWEEP_CHECK, SWEEP_NONE, SWEEP_BACKWARD } sweep_kind;

typedef struct sweep_operation {
    sweep_kind kind;
    int stage;
} sweep_operation;

/* One offloaded input Z_{i-1}: made by operation `made` (-1: there from the start), read in the
 * forward phase by `read`, wanted by `wanted`. */
typedef struct sweep_tensor {
    double bytes;
    int made, read, wanted;
} sweep_tensor;

typedef struct sweep_plan {
    const sweep_chain *chain;
    sweep_operation operations[SWEEP_OPERATIONS];
    int n_operations, turn; /* turn: the first operation of the backward phase, B^n */
    sweep_tensor tensors[SWEEP_STAGES + 1];
    int n_tensors;
    /* of the forward phase, to be closed by the backward: */
    struct {
        int i, j;
        bool all, offload;
    } steps[SWEEP_STAGES + 1];
    int n_steps;
    double best; /* of all plans */
    long count;
} sweep_plan;

/* ---- one plan ---- */

static inline double sweep_time(const sweep_chain *c, sweep_operation o)
{
    return o.kind == SWEEP_BACKWARD ? c->ub[o.stage] : c->uf[o.stage];
}

/* Bytes during each operation when nothing is offloaded, by the table of operations of the model:
 * stored[i] says in which form the output of stage i is kept (0 not, 1 plain, 2 with all). */
static inline void sweep_needs(const sweep_plan *p, double *needs)
{
    const sweep_chain *c = p->chain;
    int stored[SWEEP_STAGES + 1] = {1};
    double bytes = c->a[0] + c->delta[c->n];
    for (int k = 0; k < p->n_operations; k++) {
        int i = p->operations[k].stage;
        switch (p->operations[k].kind) {
        case SWEEP_ALL:
            needs[k] = bytes + c->abar[i] + c->os[i];
            bytes += c->abar[i];
            stored[i] = 2;
            break;
        case SWEEP_CHECK:
            needs[k] = bytes + c->a[i] + c->of[i];
            bytes += c->a[i];
            stored[i] = 1;
            break;
        case SWEEP_NONE:
            needs[k] = bytes + c->a[i] + c->of[i];
            bytes += c->a[i] - c->a[i - 1];
            stored[i] = 1;
            stored[i - 1] = 0;
            break;
        case SWEEP_BACKWARD:
            needs[k] = bytes + c->delta[i - 1] + c->ob[i];
            bytes += c->delta[i - 1] - c->delta[i] - c->abar[i];
            stored[i] = 0;
            if (i > 1 && stored[i - 1] == 1) {
                bytes -= c->a[i - 1];
                stored[i - 1] = 0;
            }
        }
    }
}

/* Ends of operations from, from + step, .. (count of them); ready[t] is the position in that order
 * after which tensor t may be sent, over[t] the one after which its bytes count. INFINITY when the
 * bytes never suffice. */
static inline double sweep(const sweep_plan *p, const double *needs, int from, int step, int count,
                           const int *ready, const int *over)
{
    double ends[SWEEP_OPERATIONS], now = 0, link;
    const sweep_chain *c = p->chain;
    for (int k = 0; k < count; k++) {
        int o = from + step * k;
        double excess = needs[o] - c->budget, start = now;
        link = 0;
        for (int t = 0; t < p->n_tensors && excess > 0; t++) {
            if (ready[t] >= k)
                break;
            double produced = ready[t] < 0 ? 0 : ends[ready[t]];
            double begin = produced > link ? produced : link;
            link = begin + p->tensors[t].bytes / c->bandwidth;
            if (over[t] >= k)
                continue;
            double part = excess < p->tensors[t].bytes ? excess : p->tensors[t].bytes;
            double left = begin + part / c->bandwidth;
            start = left > start ? left : start;
            excess -= part;
        }
        if (excess > 0)
            return INFINITY;
        now = ends[k] = start + sweep_time(c, p->operations[o]);
    }
    link = 0;
    for (int t = 0; t < p->n_tensors; t++) {
        double produced = ready[t] < 0 ? 0 : ends[ready[t]];
        link = (produced > link ? produced : link) + p->tensors[t].bytes / c->bandwidth;
    }
    return now > link ? now : link;
}

static inline double sweep_makespan(sweep_plan *p)
{
    double needs[SWEEP_OPERATIONS];
    int ready[SWEEP_STAGES + 1], over[SWEEP_STAGES + 1], last = p->n_operations - 1;
    sweep_needs(p, needs);
    for (int t = 0; t < p->n_tensors; t++) {
        ready[t] = p->tensors[t].made;
        over[t] = p->tensors[t].read;
    }
    double forward = sweep(p, needs, 0, 1, p->turn, ready, over);
    /* Backwards the tensors go in the order of their first readers, the last one first: as made. */
    for (int t = 0; t < p->n_tensors; t++)
        ready[t] = over[t] = last - p->tensors[t].wanted;
    return forward + sweep(p, needs, last, -1, p->n_operations - p->turn, ready, over);
}

/* ---- all plans: each choice is made, the rest of the plan follows, the choice is undone ---- */

typedef struct sweep_todo {
    int kind; /* 0: sub-chain i..j, 1: B^i */
    int i, j;
    const struct sweep_todo *next;
} sweep_todo;

static inline void sweep_put(sweep_plan *p, sweep_kind kind, int stage)
{
    p->operations[p->n_operations++] = (sweep_operation){kind, stage};
}

static inline void sweep_follow(sweep_plan *p, const sweep_todo *todo);

/* The plan is whole: find the readers of the offloaded inputs and time it. */
static inline void sweep_finish(sweep_plan *p)
{
    p->n_tensors = 0;
    for (int s = 0; s < p->n_steps; s++) {
        int i = p->steps[s].i, made = -1, read = -1, wanted = -1;
        if (!p->steps[s].offload)
            continue;
        for (int k = 0; k < p->turn; k++) {
            if (p->operations[k].stage == i - 1)
                made = k;
            if (p->operations[k].stage == i)
                read = k;
        }
        for (int k = p->turn; k < p->n_operations && wanted < 0; k++)
            if (p->operations[k].stage == i)
                wanted = k;
        bool bar = s > 0 && p->steps[s - 1].all;
        const sweep_chain *c = p->chain;
        p->tensors[p->n_tensors++] =
            (sweep_tensor){bar ? c->abar[i - 1] : c->a[i - 1], made, read, wanted};
    }
    double makespan = sweep_makespan(p);
    p->count++;
    if (makespan < p->best)
        p->best = makespan;
}

static inline void sweep_subchain(sweep_plan *p, int i, int j, const sweep_todo *next)
{
    int before = p->n_operations;
    sweep_put(p, SWEEP_ALL, i);
    sweep_todo back = {1, i, i, next}, child = {0, i + 1, j, &back};
    sweep_follow(p, i == j ? &back : &child);
    p->n_operations = before;
    for (int k = i; k < j; k++) {
        sweep_todo left = {0, i, k, next}, right = {0, k + 1, j, &left};
        sweep_put(p, SWEEP_CHECK, i);
        for (int l = i + 1; l <= k; l++)
            sweep_put(p, SWEEP_NONE, l);
        sweep_follow(p, &right);
        p->n_operations = before;
    }
}

/* The backward phase: the steps from the last to the first. */
static inline void sweep_turn(sweep_plan *p)
{
    sweep_todo todo[SWEEP_STAGES + 1];
    for (int s = 0; s < p->n_steps; s++)
        todo[s] = (sweep_todo){p->steps[s].all ? 1 : 0, p->steps[s].i, p->steps[s].j,
                               s > 0 ? &todo[s - 1] : NULL};
    sweep_follow(p, &todo[p->n_steps - 1]);
}

static inline void sweep_forward(sweep_plan *p, int i)
{
    int before = p->n_operations, n = p->chain->n, step = p->n_steps++;
    for (int offload = 0; offload < (i < n ? 2 : 1); offload++)
        for (int j = i - 1; j < n; j++) { /* i - 1: F_all^i */
            bool all = j < i;
            p->steps[step].i = i;
            p->steps[step].j = all ? i : j;
            p->steps[step].all = all;
            p->steps[step].offload = offload;
            sweep_put(p, all ? SWEEP_ALL : SWEEP_CHECK, i);
            for (int l = i + 1; l <= j; l++)
                sweep_put(p, SWEEP_NONE, l);
            if (i == n) {
                p->turn = p->n_operations;
                sweep_turn(p);
                p->n_operations = before;
                break;
            }
            sweep_forward(p, p->steps[step].j + 1);
            p->n_operations = before;
        }
    p->n_steps = step;
}

static inline void sweep_follow(sweep_plan *p, const sweep_todo *todo)
{
    int before = p->n_operations;
    if (!todo) {
        sweep_finish(p);
    } else if (todo->kind == 0) {
        sweep_subchain(p, todo->i, todo->j, todo->next);
    } else {
        sweep_put(p, SWEEP_BACKWARD, todo->i);
        sweep_follow(p, todo->next);
    }
    p->n_operations = before;
}

/* Least makespan of all plans within the budget. */
static inline double sweep_search(const sweep_chain *chain, long *ret_count)
{
    sweep_plan p = {.chain = chain, .best = INFINITY};
    sweep_forward(&p, 1);
    *ret_count = p.count;
    return p.best;
}

#endif
