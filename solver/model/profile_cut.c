/* A run of nodes of a profile as a profile of its own: nothing is checked again but the cut. */
#include "model/profile_private.h"
#include "model/views.h"

#include <stdlib.h>
#include <string.h>

/* Where values and states of the whole stand in the cut; what it does not touch is ABSENT. */
typedef struct cut {
    const remat_profile *whole;
    uint32_t first, end;
    uint32_t *input, *state;
    model_arena *arena;
    remat_input *inputs;
    remat_state *states;
    uint32_t n_inputs, n_states;
} cut;

static const uint32_t ABSENT = UINT32_MAX;

static remat_status fail_cut(const cut *c, uint32_t reader, uint32_t value, remat_error *error)
{
    return remat_fail(error, REMAT_INVALID, "nodes",
                      "nodes[%u] \"%.200s\" reads \"%.200s\", from across a cut at node %u or %u",
                      reader, c->whole->nodes[reader].id, remat_value_id(c->whole, value), c->first,
                      c->end);
}

static void mark_states(cut *c, const uint32_t *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        c->state[list[i]] = 0;
}

/* Numbers those that are marked, in the order that they have in the whole. */
static uint32_t number(uint32_t *places, uint32_t n, uint32_t next)
{
    for (uint32_t k = 0; k < n; k++)
        if (places[k] != ABSENT)
            places[k] = next++;
    return next;
}

/* What the nodes touch. */
static remat_status find_used(cut *c, remat_error *error)
{
    const remat_profile *p = c->whole;
    for (uint32_t v = c->first; v < c->end; v++) {
        const remat_node *node = &p->nodes[v];
        for (uint32_t i = 0; i < node->n_inputs; i++) {
            const uint32_t u = node->inputs[i];
            if (u >= p->n_nodes)
                c->input[u - p->n_nodes] = 0;
            else if (u + 1 < c->first)
                return fail_cut(c, v, u, error);
        }
        mark_states(c, node->reads, node->n_reads);
        mark_states(c, node->writes, node->n_writes);
        if (v + 1 < c->end && node->n_consumers > 0 &&
            node->consumers[node->n_consumers - 1] >= c->end)
            return fail_cut(c, node->consumers[node->n_consumers - 1], v, error);
    }
    c->n_inputs = number(c->input, p->n_inputs, c->first > 0);
    c->n_states = number(c->state, p->n_states, 0);
    return REMAT_OK;
}

/* Of all consumers, which are in increasing order, those in the cut. */
static uint32_t *take_consumers(cut *c, const uint32_t *all, uint32_t n, uint32_t *ret_n)
{
    uint32_t *list = model_arena_array(c->arena, n, sizeof *list);
    *ret_n = 0;
    for (uint32_t i = 0; list && i < n; i++)
        if (all[i] >= c->first && all[i] < c->end)
            list[(*ret_n)++] = all[i] - c->first;
    return list;
}

static bool take_inputs(cut *c)
{
    const remat_profile *p = c->whole;
    c->inputs = model_arena_array(c->arena, c->n_inputs, sizeof *c->inputs);
    if (c->inputs && c->first > 0) {
        const remat_node *sent = &p->nodes[c->first - 1];
        remat_input *to = &c->inputs[0];
        *to = (remat_input){sent->id, sent->output_bytes, sent->gradient_bytes, NULL, 0, false};
        to->consumers = take_consumers(c, sent->consumers, sent->n_consumers, &to->n_consumers);
        if (!to->consumers)
            return false;
    }
    for (uint32_t k = 0; c->inputs && k < p->n_inputs; k++) {
        if (c->input[k] == ABSENT)
            continue;
        remat_input *to = &c->inputs[c->input[k]];
        *to = p->inputs[k];
        to->consumers = take_consumers(c, to->consumers, to->n_consumers, &to->n_consumers);
        if (!to->consumers)
            return false;
    }
    return c->inputs != NULL;
}

static bool take_states(cut *c)
{
    c->states = model_arena_array(c->arena, c->n_states, sizeof *c->states);
    for (uint32_t k = 0; c->states && k < c->whole->n_states; k++)
        if (c->state[k] != ABSENT)
            c->states[c->state[k]] =
                (remat_state){c->whole->states[k].id, c->whole->states[k].bytes, 0};
    return c->states != NULL;
}

static uint32_t *renumber(cut *c, const uint32_t *from, uint32_t n, const uint32_t *places)
{
    uint32_t *list = model_arena_array(c->arena, n, sizeof *list);
    for (uint32_t i = 0; list && i < n; i++)
        list[i] = places[from[i]];
    return list;
}

static uint32_t *take_edges(cut *c, const remat_node *node)
{
    const uint32_t all = c->whole->n_nodes, own = c->end - c->first;
    uint32_t *list = model_arena_array(c->arena, node->n_inputs, sizeof *list);
    for (uint32_t i = 0; list && i < node->n_inputs; i++) {
        const uint32_t u = node->inputs[i];
        list[i] = u >= all ? own + c->input[u - all] : u < c->first ? own : u - c->first;
    }
    return list;
}

static bool take_node(cut *c, remat_node *to)
{
    to->inputs = take_edges(c, to);
    to->consumers = take_consumers(c, to->consumers, to->n_consumers, &to->n_consumers);
    to->reads = renumber(c, to->reads, to->n_reads, c->state);
    to->writes = renumber(c, to->writes, to->n_writes, c->state);
    to->first_result = c->end - c->first + c->n_inputs;
    for (uint32_t i = 0; to->writes && i < to->n_writes; i++)
        c->states[to->writes[i]].n_writers++;
    return to->inputs && to->consumers && to->reads && to->writes;
}

static remat_status make(cut *c, remat_profile *to, remat_error *error)
{
    const uint32_t n = c->end - c->first;
    remat_status status = find_used(c, error);
    if (status)
        return status;
    remat_node *nodes = model_arena_array(c->arena, n, sizeof *nodes);
    bool enough = nodes && take_inputs(c) && take_states(c);
    for (uint32_t v = 0; v < n && enough; v++) {
        nodes[v] = c->whole->nodes[c->first + v];
        enough = take_node(c, &nodes[v]);
    }
    if (!enough)
        return remat_fail_memory(error);
    *to = (remat_profile){.name = c->whole->name,
                          .time_unit = c->whole->time_unit,
                          .nodes = nodes,
                          .inputs = c->inputs,
                          .states = c->states,
                          .n_nodes = n,
                          .n_inputs = c->n_inputs,
                          .n_states = c->n_states};
    for (uint32_t v = 0; v < n; v++)
        for (uint32_t i = 0; i < nodes[v].n_inputs; i++)
            to->n_edges += nodes[v].inputs[i] < n;
    model_profile_classify(to);
    return REMAT_OK;
}

remat_status remat_profile_cut(const remat_profile *profile, uint32_t first, uint32_t end,
                               remat_profile **ret_cut, remat_error *error)
{
    if (profile->joint || first >= end || end > profile->n_nodes)
        return remat_fail(error, REMAT_INVALID, "nodes",
                          "nodes %u to %u are no run of the %u nodes of a forward graph", first,
                          end, profile->n_nodes);
    model_owned_profile *owned = calloc(1, sizeof *owned);
    uint32_t *places = malloc(((size_t)profile->n_inputs + profile->n_states + 1) * sizeof *places);
    if (!owned || !places) {
        free(owned);
        free(places);
        return remat_fail_memory(error);
    }
    memset(places, 0xFF, ((size_t)profile->n_inputs + profile->n_states) * sizeof *places);
    cut c = {.whole = profile,
             .first = first,
             .end = end,
             .input = places,
             .state = places + profile->n_inputs,
             .arena = &owned->arena};
    remat_status status = make(&c, &owned->profile, error);
    free(places);
    if (status)
        remat_profile_free(&owned->profile);
    else
        *ret_cut = &owned->profile;
    return status;
}
