/* A pipeline as it is asked for: its units, what they have, the way between its ranks, and its
 * end. */
#include "plan/pipeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void api_pipeline_free(api_pipeline *p)
{
    if (!p)
        return;
    api_pipeline_menus_clear(p);
    for (size_t i = 0; i < p->n_shapes; i++) {
        remat_moments_free(p->shapes[i].moments);
        free(p->shapes[i].leasts);
        remat_profile_free(p->shapes[i].profile);
    }
    for (size_t i = 0; i < p->n_asked; i++)
        json_decref(p->asked[i].schedule);
    remat_pipeline_play_free(p->best.play);
    api_units_clear(&p->units);
    remat_profile_free(p->profile);
    json_decref(p->document);
    json_decref(p->terms);
    json_decref(p->ways);
    free(p->tensors);
    free(p->again);
    free(p->loads);
    free(p->menus);
    free(p->updates);
    free(p->lists);
    free(p->shapes);
    free(p->asked);
    free(p);
}

static bool same_tensors(const api_pipeline *p, uint32_t a, uint32_t b)
{
    const size_t n = p->n_tensors;
    for (size_t i = 0, k = 0;; i++, k++) {
        while (i < n && p->tensors[i].unit != a)
            i++;
        while (k < n && p->tensors[k].unit != b)
            k++;
        const remat_tensor *x = &p->tensors[i], *y = &p->tensors[k];
        if (i == n || k == n)
            return i == k;
        if (x->rows != y->rows || x->columns != y->columns || x->parts != y->parts ||
            x->base != y->base || x->float8 != y->float8)
            return false;
    }
}

/* Units of one kind whose tensors differ become two. */
static void split_kinds(api_pipeline *p)
{
    uint32_t *kind = p->units.kind;
    for (uint32_t u = p->units.n; u-- > 1;) {
        uint32_t first = kind[u];
        while (first < u && (kind[first] != kind[u] || !same_tensors(p, first, u)))
            first++;
        kind[u] = first;
    }
}

/* Of a model: its tensors by units, and whether the last product has the weights of the first. */
static remat_status take_graph(api_pipeline *p, const remat_network_graph *graph,
                               remat_error *error)
{
    const remat_tensor *t = graph->tensors;
    const uint32_t last = graph->unit[graph->spec.n_nodes - 1];
    p->tensors = malloc((graph->n_tensors + 1) * sizeof *p->tensors);
    p->again = calloc(graph->spec.n_nodes, sizeof *p->again);
    if (!p->tensors || !p->again)
        return remat_fail_memory(error);
    p->n_tensors = graph->n_tensors;
    p->hole = graph->hole;
    p->tied = p->n_tensors > 0 && strstr(graph->spec.nodes[0].op, "embedding") != NULL;
    for (size_t i = 0; i < p->n_tensors; i++) {
        if (t[i].unit == last && t[i].rows * t[i].columns == t[0].rows * t[0].columns)
            p->tied = false;
        p->tensors[i] = t[i];
        /* the unit whose nodes are those of the block */
        uint32_t u = 0;
        while (u + 1 < p->units.n && graph->unit[p->units.end[u] - 1] < t[i].unit)
            u++;
        p->tensors[i].unit = u;
    }
    split_kinds(p);
    for (size_t v = 0; v < graph->spec.n_nodes; v++) {
        static const char *const names[] = {
            "scores", "mask", "softmax", "attention_dropout", "probabilities", "attention"};
        const char *id = graph->spec.nodes[v].id, *dot = strrchr(id, '.');
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            p->again[v] |= strcmp(dot ? dot + 1 : id, names[i]) == 0;
    }
    return REMAT_OK;
}

/* What each unit has, and how long it runs. */
static remat_status take_loads(api_pipeline *p, remat_error *error)
{
    p->loads = calloc(2 * (size_t)p->units.n, sizeof *p->loads);
    if (!p->loads)
        return remat_fail_memory(error);
    for (size_t i = 0; i < p->n_tensors; i++)
        remat_unit_load_add(&p->loads[p->tensors[i].unit], &p->tensors[i]);
    for (uint32_t u = 0; u < p->units.n; u++)
        for (uint32_t v = api_unit_start(&p->units, u); v < p->units.end[u]; v++) {
            p->loads[u].forward += p->unit * p->profile->nodes[v].forward_time;
            p->loads[u].backward += p->unit * p->profile->nodes[v].backward_time;
        }
    return REMAT_OK;
}

static remat_status check(const api_pipeline *p, remat_error *error)
{
    const remat_pipeline *pipeline = &p->question.pipeline;
    const uint32_t ranks = pipeline->ranks, stages = ranks * pipeline->chunks;
    if (p->profile->joint)
        return remat_fail(error, REMAT_INVALID, "profile",
                          "pipelines are planned of forward profiles; this one is a joint graph");
    if (stages > p->units.n)
        return remat_fail(error, REMAT_INVALID,
                          pipeline->chunks > 1 ? "parallel.chunks" : "parallel.ranks",
                          "there are %u %s, but the profile falls into %u units only: places "
                          "where all that comes later reads what came before through one value "
                          "and has no state in common with it, nor a graph input with a gradient",
                          stages, pipeline->chunks > 1 ? "stages" : "ranks", p->units.n);
    if (pipeline->order == REMAT_GPIPE && pipeline->microbatches > REMAT_MOST_IN_FLIGHT)
        return remat_fail(error, REMAT_INVALID, "parallel.microbatches",
                          "gpipe has all %u micro-batches in flight; there may be %u",
                          pipeline->microbatches, REMAT_MOST_IN_FLIGHT);
    return REMAT_OK;
}

/* What of the way between ranks sends take: that of the slowest pair. */
static void take_network(api_pipeline *p)
{
    const remat_interconnect *way = &p->q.device.interconnect;
    remat_pipeline *pipeline = &p->question.pipeline;
    const uint64_t all = remat_step_ranks(&p->q.step);
    const bool between = all > way->node && way->node > 0;
    const double rate = between && way->between < way->within ? way->between : way->within;
    const double latency = way->within_latency + (between ? way->between_latency : 0);
    pipeline->latency = latency / p->unit;
    pipeline->bandwidth = rate * p->unit;
}

static remat_status begin(api_pipeline *p, const remat_network_graph *graph, remat_error *error)
{
    const remat_pipeline *pipeline = &p->question.pipeline;
    const uint32_t stages = pipeline->ranks * pipeline->chunks;
    p->unit = remat_time_unit_seconds(p->profile->time_unit);
    take_network(p);
    remat_status status = api_units_find(p->profile, p->document, graph ? graph->unit : NULL,
                                         stages, &p->units, error);
    if (!status)
        status = check(p, error);
    if (!status && graph)
        status = take_graph(p, graph, error);
    if (!status)
        status = take_loads(p, error);
    if (status)
        return status;
    const size_t cells = (size_t)(p->units.n + 1) * (p->units.n + 1);
    p->question.n_units = p->units.n;
    p->question.least = p->units.least;
    p->menus = malloc(cells * sizeof *p->menus);
    p->updates = malloc(cells * sizeof *p->updates);
    p->lists = calloc(cells, sizeof *p->lists);
    if (!p->menus || !p->updates || !p->lists)
        return remat_fail_memory(error);
    api_pipeline_put_memory(p, p->q.device.memory);
    p->sends = 1;
    p->quick = p->q.effort && strcmp(json_string_value(p->q.effort), "quick") == 0;
    p->bound = p->equal = INFINITY;
    status = api_pipeline_ways(p, &p->ways, error);
    if (p->q.alone || pipeline->order == REMAT_INTERLEAVED) {
        p->over = true; /* its ways are all */
        if (!status && !p->best.play)
            remat_fail(&p->refusal, REMAT_INFEASIBLE, "memory",
                       "no way fits every rank; plans with schedules of their own are made for "
                       "gpipe and 1f1b");
        return status;
    }
    p->most = p->quick ? 1 : api_pipeline_most_in_flight(p);
    if (!status)
        status = api_pipeline_plan_now(p, &p->refusal);
    if (status && status != REMAT_INFEASIBLE && error)
        *error = p->refusal;
    if (status != REMAT_INFEASIBLE)
        p->refusal.status = REMAT_OK;
    return status == REMAT_INFEASIBLE ? REMAT_OK : status;
}

remat_status api_pipeline_new(const remat_plan_request *q, const remat_network_graph *graph,
                              const json_t *document, api_pipeline **ret_pipeline,
                              remat_error *error)
{
    api_pipeline *p = calloc(1, sizeof *p);
    if (!p)
        return remat_fail_memory(error);
    p->q = *q;
    p->question.pipeline = q->pipeline;
    p->document = json_incref((json_t *)document);
    p->terms = json_object();
    if (q->solver)
        remat_json_set(&p->terms, "solver", json_deep_copy(q->solver));
    if (q->options)
        remat_json_set(&p->terms, "options", json_deep_copy(q->options));
    if (q->effort)
        remat_json_set(&p->terms, "effort", json_deep_copy(q->effort));
    remat_status status = p->terms ? remat_profile_decode(document, "", &p->profile, error)
                                   : remat_fail_memory(error);
    if (!status)
        status = begin(p, graph, error);
    if (status)
        api_pipeline_free(p);
    else
        *ret_pipeline = p;
    return status;
}
