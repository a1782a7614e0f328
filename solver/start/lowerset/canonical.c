/* The canonical strategy as an operation list.
 *
 * Source: Kusumoto et al. 2019, section 3. A node is cached when it is in the boundary of its own
 * lower set, that is, when a consumer is in a later segment; what liveness finds unneeded earlier
 * it frees. Beyond the paper: `B v` may read neither input nor output, so only those values are
 * computed again that something reads; saved(v) exists only after `A v`, so a node with saved bytes
 * runs as A the time its values are kept for the backward: the first time in the last segment and
 * in a boundary, the second time elsewhere.
 *
 * Of a lean node the boundary keeps the output alone: its first run is F, and it runs again, as A,
 * with its segment. Then nothing needs the output of the first run any more: its consumers are in
 * later segments, which are done, or in this one, and come after it. So the two outputs are never
 * there together, and in no segment is more alive than the graph's model counts. */
#include "start/lowerset/canonical.h"

/* Whether a node is in the boundary of its own lower set. */
static bool in_boundary(const remat_profile *profile, const graph_plan *plan, uint32_t v)
{
    const remat_node *node = &profile->nodes[v];
    for (uint32_t c = 0; c < node->n_consumers; c++)
        if (plan->segment[node->consumers[c]] > plan->segment[v])
            return true;
    return false;
}

static bool may_be_lean(const remat_profile *profile, const graph_plan *plan, uint32_t v)
{
    return graph_can_be_lean(&profile->nodes[v]) && in_boundary(profile, plan, v);
}

void graph_plan_trim(const remat_profile *profile, const graph_plan *plan)
{
    for (uint32_t v = 0; v < profile->n_nodes; v++)
        plan->lean[v] = plan->lean[v] && may_be_lean(profile, plan, v);
}

/* ---- measuring ---- */

typedef struct measuring {
    const graph_view *graph;
    const graph_plan *plan;
    uint32_t last;
    uint64_t *inside;  /* by segment: kept and gradients of its nodes */
    uint64_t *caching; /* by segment: what its boundary keeps */
    uint64_t *beside;  /* by segment: bytes held for what lies outside, as differences */
} measuring;

/* Adds bytes to `beside` of the segments from .. to - 1; differences wrap around and back. */
static void add_beside(measuring *m, uint32_t from, uint32_t to, uint64_t bytes)
{
    if (from >= to)
        return;
    m->beside[from] += bytes;
    m->beside[to] -= bytes;
}

static uint32_t last_consumer(const measuring *m, uint32_t v)
{
    const remat_node *node = &m->graph->profile->nodes[v];
    const uint32_t *segment = m->plan->segment;
    uint32_t last = segment[v];
    for (uint32_t c = 0; c < node->n_consumers; c++)
        if (segment[node->consumers[c]] > last)
            last = segment[node->consumers[c]];
    return last;
}

/* First segment from whose end a node is reached by an edge. */
static uint32_t first_input(const measuring *m, uint32_t v)
{
    const remat_node *node = &m->graph->profile->nodes[v];
    const uint32_t *segment = m->plan->segment;
    uint32_t first = segment[v];
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (node->inputs[i] < m->graph->n && segment[node->inputs[i]] < first)
            first = segment[node->inputs[i]];
    return first;
}

static void add_node(measuring *m, uint32_t v)
{
    const graph_view *graph = m->graph;
    uint32_t own = m->plan->segment[v], last = last_consumer(m, v);
    graph_boundary kind = m->plan->lean[v] ? GRAPH_BOUNDARY_LEAN : GRAPH_BOUNDARY_FULL;
    m->inside[own] += graph->kept[v] + graph->gradient[v];
    if (last > own)
        m->caching[own] += graph->cached[kind][v];
    if (graph->model == GRAPH_MODEL_SAFE) { /* its gradient, while consumers run */
        add_beside(m, own + 1, last + 1, graph->gradient[v]);
        return;
    }
    const remat_node *node = &graph->profile->nodes[v];
    uint32_t first = own; /* first set with a consumer that v also feeds */
    for (uint32_t c = 0; c < node->n_consumers; c++) {
        uint32_t reached = first_input(m, node->consumers[c]);
        if (reached < first)
            first = reached;
    }
    add_beside(m, first_input(m, v), own, graph->kept[v]);
    add_beside(m, first, own, graph->kept[v]);
}

static uint64_t largest(const measuring *m)
{
    uint64_t cached = 0, beside = 0, most = 0;
    for (uint32_t g = 0; g <= m->last; g++) {
        beside += m->beside[g];
        most = model_larger(most, cached + m->inside[g] + beside);
        cached += m->caching[g];
    }
    return most;
}

remat_status graph_plan_measure(const graph_view *graph, const graph_plan *plan,
                                uint64_t *ret_bytes, remat_error *error)
{
    measuring m = {.graph = graph, .plan = plan, .last = plan->segment[graph->n - 1]};
    model_arena arena = {0};
    size_t count = (size_t)m.last + 2;
    m.inside = model_arena_array(&arena, count, sizeof *m.inside);
    m.caching = model_arena_array(&arena, count, sizeof *m.caching);
    m.beside = model_arena_array(&arena, count, sizeof *m.beside);
    bool enough = m.inside && m.caching && m.beside;
    for (uint32_t v = 0; v < graph->n && enough; v++)
        add_node(&m, v);
    if (enough)
        *ret_bytes = largest(&m) + graph->constant;
    model_arena_clear(&arena);
    return enough ? REMAT_OK : remat_fail_memory(error);
}

/* ---- operations ---- */

typedef struct emitting {
    const remat_profile *profile;
    const graph_plan *plan;
    uint32_t last;
    uint32_t *start; /* by segment: where its nodes begin in order[] */
    uint32_t *order; /* nodes by segment, then index */
    bool *cached;    /* by node: a boundary keeps all that its backward needs of it */
    bool *again;
    remat_operations *operations;
} emitting;

static remat_status arrange(emitting *e, model_arena *arena)
{
    uint32_t n = e->profile->n_nodes;
    e->start = model_arena_array(arena, (size_t)e->last + 3, sizeof *e->start);
    e->order = model_arena_array(arena, n, sizeof *e->order);
    e->cached = model_arena_array(arena, n, sizeof *e->cached);
    e->again = model_arena_array(arena, n, sizeof *e->again);
    if (!e->start || !e->order || !e->cached || !e->again)
        return REMAT_NO_MEMORY;
    for (uint32_t v = 0; v < n; v++)
        e->start[e->plan->segment[v] + 2]++;
    for (uint32_t g = 2; g <= e->last + 1; g++)
        e->start[g] += e->start[g - 1];
    for (uint32_t v = 0; v < n; v++) {
        e->order[e->start[e->plan->segment[v] + 1]++] = v;
        e->cached[v] = in_boundary(e->profile, e->plan, v) && !e->plan->lean[v];
    }
    return REMAT_OK;
}

static bool saves(const emitting *e, uint32_t v)
{
    return e->profile->nodes[v].saved_bytes > 0;
}

/* A node of an earlier segment that is not cached: it saves, or all its consumers are in the
 * segment and come after it, so they have been looked at. */
static bool needed_again(const emitting *e, uint32_t v)
{
    const remat_node *node = &e->profile->nodes[v];
    if (node->backward_uses_output || saves(e, v))
        return true;
    for (uint32_t c = 0; c < node->n_consumers; c++)
        if (e->again[node->consumers[c]] ||
            e->profile->nodes[node->consumers[c]].backward_uses_inputs)
            return true;
    return false;
}

static remat_status emit_forwards(emitting *e)
{
    remat_status status = REMAT_OK;
    for (uint32_t i = 0; i < e->profile->n_nodes && !status; i++) {
        uint32_t v = e->order[i];
        bool keeps = e->cached[v] || e->plan->segment[v] == e->last;
        status = remat_push(e->operations, keeps && saves(e, v) ? REMAT_A : REMAT_F, v);
    }
    return status;
}

static remat_status emit_again(emitting *e, uint32_t first, uint32_t end)
{
    remat_status status = REMAT_OK;
    for (uint32_t i = end; i-- > first;)
        e->again[e->order[i]] = !e->cached[e->order[i]] && needed_again(e, e->order[i]);
    for (uint32_t i = first; i < end && !status; i++)
        if (e->again[e->order[i]])
            status =
                remat_push(e->operations, saves(e, e->order[i]) ? REMAT_A : REMAT_F, e->order[i]);
    return status;
}

static remat_status emit_backwards(emitting *e)
{
    remat_status status = REMAT_OK;
    for (uint32_t g = e->last + 1; g-- > 0 && !status;) {
        uint32_t first = e->start[g], end = e->start[g + 1];
        if (g < e->last)
            status = emit_again(e, first, end);
        for (uint32_t i = end; i-- > first && !status;)
            status = remat_push(e->operations, REMAT_B, e->order[i]);
    }
    return status;
}

remat_status graph_plan_emit(const remat_profile *profile, const graph_plan *plan,
                             remat_operations *operations, remat_error *error)
{
    emitting e = {.profile = profile,
                  .plan = plan,
                  .last = plan->segment[profile->n_nodes - 1],
                  .operations = operations};
    model_arena arena = {0};
    remat_status status = arrange(&e, &arena);
    if (!status)
        status = emit_forwards(&e);
    if (!status)
        status = emit_backwards(&e);
    model_arena_clear(&arena);
    return status ? remat_fail_memory(error) : REMAT_OK;
}
