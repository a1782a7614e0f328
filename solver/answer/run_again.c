#include "answer/run_again.h"

#include <stdlib.h>

typedef struct runner {
    const remat_profile *profile;
    const answer_again *choice;
    bool *done;      /* by node: it has run again */
    uint32_t *nodes; /* that run next */
    uint32_t n;
    remat_operations *list;
} runner;

/* A value's node, where it is none of the graph's inputs. */
static void want(runner *r, uint32_t value)
{
    if (!remat_is_result(r->profile, value))
        return;
    const uint32_t v = remat_value_node(r->profile, value);
    if (!r->choice->again[v] || r->done[v])
        return;
    r->done[v] = true;
    r->nodes[r->n++] = v;
}

static int compare_nodes(const void *left, const void *right)
{
    const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return a < b ? -1 : a > b;
}

static remat_status push(const runner *r, uint32_t v, bool saves)
{
    saves &= r->profile->nodes[v].saved_bytes > 0;
    return remat_push(r->list, saves ? REMAT_A : REMAT_F, v);
}

/* What is wanted and what it reads. in_group: what runs once more saves nothing yet. */
static remat_status run(runner *r, bool in_group)
{
    const remat_node *nodes = r->profile->nodes;
    remat_status status = REMAT_OK;
    for (uint32_t k = 0; k < r->n; k++)
        for (uint32_t i = 0; i < nodes[r->nodes[k]].n_inputs; i++)
            want(r, nodes[r->nodes[k]].inputs[i]);
    qsort(r->nodes, r->n, sizeof *r->nodes, compare_nodes);
    for (uint32_t k = 0; k < r->n && !status; k++) {
        const uint32_t v = r->nodes[k];
        r->done[v] = !in_group || !r->choice->twice[v];
        status = push(r, v, r->done[v]);
    }
    r->n = 0;
    return status;
}

/* What stays of a group while it goes back, if of some of it nothing does. */
static remat_status run_group(runner *r, uint32_t last)
{
    const answer_again *c = r->choice;
    uint32_t most = 0, first = last + 1;
    for (; first > 0 && c->group[first - 1] == c->group[last]; first--)
        if (c->twice[first - 1] && most == 0)
            most = first;
    for (uint32_t v = first; v < most; v++)
        if (!c->twice[v])
            want(r, v);
    return run(r, true);
}

/* B v, and before it what it needs. */
static remat_status go_back(runner *r, uint32_t v)
{
    const remat_profile *p = r->profile;
    const remat_node *node = &p->nodes[v];
    remat_status status = REMAT_OK;
    if (v + 1 == p->n_nodes || r->choice->group[v + 1] != r->choice->group[v])
        status = run_group(r, v);
    if (node->backward_uses_output || node->saved_bytes > 0)
        want(r, v);
    for (uint32_t i = 0; node->backward_uses_inputs && i < node->n_inputs; i++)
        want(r, node->inputs[i]);
    if (!status)
        status = run(r, false);
    return status ? status : remat_push(r->list, REMAT_B, v);
}

/* F v of a joint graph, and before it what it needs. */
static remat_status go_on(runner *r, uint32_t v)
{
    const remat_node *node = &r->profile->nodes[v];
    for (uint32_t i = 0; i < node->n_inputs; i++)
        want(r, node->inputs[i]);
    const remat_status status = run(r, false);
    return status ? status : push(r, v, false);
}

remat_status answer_run_again(const remat_profile *profile, const answer_again *choice,
                              remat_operations *list)
{
    const uint32_t n = profile->n_nodes, first = profile->joint ? choice->turn : n;
    runner r = {.profile = profile, .choice = choice, .list = list};
    r.done = calloc(n, sizeof *r.done);
    r.nodes = malloc(n * sizeof *r.nodes);
    remat_status status = r.done && r.nodes ? REMAT_OK : REMAT_NO_MEMORY;
    for (uint32_t v = 0; v < first && !status; v++)
        status = push(&r, v, !choice->again[v]);
    for (uint32_t v = first; v < n && !status; v++)
        status = go_on(&r, v);
    for (uint32_t v = n; v-- > 0 && !profile->joint && !status;)
        status = go_back(&r, v);
    free(r.done);
    free(r.nodes);
    return status;
}
