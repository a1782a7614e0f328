#include "plan/ranks.h"

#include "fields.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- networks ---- */

/* "40us", "0.1ms" */
static bool read_latency(const char *text, double *ret_seconds)
{
    char *end;
    *ret_seconds = strtod(text, &end);
    if (end == text)
        return false;
    *ret_seconds *= strcmp(end, "us") == 0 ? 1e-6 : strcmp(end, "ms") == 0 ? 1e-3 : NAN;
    return !isnan(*ret_seconds);
}

/* "235GB/s@40us"; false: it is no rate. */
static bool read_rate(const char *text, double *ret_rate, double *ret_latency)
{
    char word[64];
    double unit = 0;
    snprintf(word, sizeof word, "%s", text);
    char *at = strchr(word, '@');
    if (at && !read_latency(at + 1, ret_latency))
        return false;
    if (at)
        *at = '\0';
    const bool known = api_split_rate(word, ret_rate, &unit) && unit > 0;
    *ret_rate *= known ? unit : 1;
    return known;
}

bool api_network_lacks_latency(const char *text)
{
    char word[64];
    double rate, latency = NAN;
    const size_t length = strcspn(text, "+");
    snprintf(word, sizeof word, "%.*s", (int)length, text);
    if (read_rate(word, &rate, &latency) && isnan(latency))
        return true;
    return text[length] && api_network_lacks_latency(text + length + 1);
}

static remat_status read_way(const char *text, const json_t *list, double *ret_rate,
                             double *ret_latency, remat_error *error)
{
    enum { MOST_WAYS = 32 };
    const char *known[MOST_WAYS];
    size_t i, n = 0;
    const json_t *one;
    if (read_rate(text, ret_rate, ret_latency))
        return REMAT_OK;
    json_array_foreach(list, i, one)
    {
        const char *name = json_string_value(json_object_get(one, "name"));
        if (strcmp(name, text) == 0) {
            *ret_rate = json_number_value(json_object_get(one, "bytes_per_second"));
            *ret_latency = json_number_value(json_object_get(one, "latency_seconds"));
            return REMAT_OK;
        }
        if (n < MOST_WAYS)
            known[n++] = name;
    }
    return remat_fail_unknown("network", "network", text, known, n, error);
}

remat_status api_network_decode(const char *text, const json_t *file, remat_interconnect *way,
                                remat_error *error)
{
    const json_t *networks = json_object_get(file, "networks");
    remat_interconnect found = *way;
    char word[64];
    const char *plus = strchr(text, '+');
    const size_t length = plus ? (size_t)(plus - text) : strlen(text);
    if (strlen(text) >= sizeof found.name)
        return remat_fail(error, REMAT_INVALID, "network", "network is longer than %zu bytes",
                          sizeof found.name - 1);
    snprintf(word, sizeof word, "%.*s", (int)length, text);
    found.within_latency = found.between_latency = 40e-6; /* of rates without: as NVLink's */
    remat_status status = read_way(word, json_object_get(networks, "within"), &found.within,
                                   &found.within_latency, error);
    if (!status && plus)
        status = read_way(plus + 1, json_object_get(networks, "between"), &found.between,
                          &found.between_latency, error);
    else
        found.between_latency = way->between_latency;
    if (found.node == 0)
        found.node = (uint32_t)json_integer_value(json_object_get(networks, "node_ranks"));
    if (status)
        return status;
    const char *rest = strchr(way->name, '+');
    if (plus || !rest)
        snprintf(found.name, sizeof found.name, "%s", text);
    else
        snprintf(found.name, sizeof found.name, "%.30s%.30s", word, rest);
    status = remat_interconnect_check(&found, error);
    if (!status)
        *way = found;
    return status;
}

/* ---- parallel ---- */

/* How many ranks do what; 0: not said. */
typedef struct mesh {
    uint32_t data, shard, tensor, sequence, context, pipeline, expert;
} mesh;

static remat_status read_ranks(const json_t *json, const char *field, uint32_t *ret_ranks,
                               remat_error *error)
{
    const remat_number number = {json_number_value(json), true};
    uint64_t value = 0;
    if (!json_is_number(json))
        return remat_fail(error, REMAT_INVALID, field, "%s must be a number", field);
    remat_status status = api_whole(&number, field, 1, 1 << 20, &value, error);
    *ret_ranks = (uint32_t)value;
    return status;
}

static remat_status read_mesh(const json_t *json, mesh *m, remat_error *error)
{
    const struct {
        const char *name;
        uint32_t *ranks;
    } axes[] = {{"dp", &m->data},    {"shard", &m->shard}, {"tp", &m->tensor}, {"sp", &m->sequence},
                {"cp", &m->context}, {"pp", &m->pipeline}, {"ep", &m->expert}};
    enum { AXES = sizeof axes / sizeof *axes };
    const char *name, *names[AXES];
    json_t *value;
    for (size_t i = 0; i < AXES; i++)
        names[i] = axes[i].name;
    json_object_foreach((json_t *)json, name, value)
    {
        char field[REMAT_FIELD_SIZE];
        size_t i = 0;
        snprintf(field, sizeof field, "parallel.mesh.%.60s", name);
        while (i < AXES && strcmp(names[i], name) != 0)
            i++;
        if (i == AXES)
            return remat_fail_unknown(field, "axis of a mesh", name, names, AXES, error);
        remat_status status = read_ranks(value, field, axes[i].ranks, error);
        if (status)
            return status;
    }
    return REMAT_OK;
}

/* How ranks share, and by a kind that is an axis of its own which all ranks are on: *ret_axis; else
 * NULL. */
static remat_status find_kind(const char *kind, mesh *m, uint32_t **ret_axis,
                              remat_parallel *ret_parallel, remat_error *error)
{
    enum { AXES = 5, FIRST = REMAT_PARALLELS + 1, KINDS = FIRST + AXES };
    uint32_t *axes[AXES] = {&m->tensor, &m->sequence, &m->context, &m->expert, &m->pipeline};
    const char *names[KINDS] = {
        [REMAT_PARALLELS] = "fsdp", "tensor", "sequence", "context", "expert", "pipeline"};
    *ret_axis = NULL;
    for (unsigned i = 0; i < AXES; i++)
        if (strcmp(kind, names[FIRST + i]) == 0)
            *ret_axis = axes[i];
    if (*ret_axis || remat_parallel_find(kind, ret_parallel, NULL) == REMAT_OK)
        return REMAT_OK;
    for (unsigned i = 0; i < REMAT_PARALLELS; i++)
        names[i] = remat_parallel_name((remat_parallel)i);
    return remat_fail_unknown("parallel.kind", "parallel", kind, names, KINDS, error);
}

static uint32_t some(uint32_t ranks)
{
    return ranks ? ranks : 1;
}

static remat_status check_mesh(const mesh *m, remat_error *error)
{
    if (m->pipeline > 1 && m->expert > 1)
        return remat_fail(error, REMAT_INVALID, "parallel.mesh.ep",
                          "stages of a pipeline are planned with all experts: beside pp ep must be "
                          "1");
    if (m->expert && some(m->data) % m->expert != 0)
        return remat_fail(error, REMAT_INVALID, "parallel.mesh.ep",
                          "ep is %u; it must divide dp, which is %u: each of its ranks has "
                          "examples of its own",
                          m->expert, some(m->data));
    if (m->shard && m->expert && m->shard % m->expert != 0)
        return remat_fail(error, REMAT_INVALID, "parallel.mesh.ep",
                          "ep is %u; it must divide shard, which is %u", m->expert, m->shard);
    if (m->tensor > 1 && m->sequence > 1)
        return remat_fail(error, REMAT_INVALID, "parallel.mesh.sp",
                          "give tp or sp: sp is tp that cuts tokens between the matrices too");
    if (m->shard && some(m->data) % m->shard != 0)
        return remat_fail(error, REMAT_INVALID, "parallel.mesh.shard",
                          "shard is %u; it must divide dp, which is %u", m->shard, some(m->data));
    return REMAT_OK;
}

static remat_status use_mesh(const mesh *m, remat_network_settings *settings,
                             remat_step_settings *step, remat_error *error)
{
    const uint32_t tensor = some(m->tensor) * some(m->sequence), context = some(m->context);
    const uint32_t data = some(m->data), shard = m->shard ? m->shard : data;
    const uint64_t all = (uint64_t)tensor * context * data * some(m->pipeline);
    if (all > 1 << 20)
        return remat_fail(error, REMAT_INVALID, "parallel.mesh",
                          "%llu ranks in all; there may be 1048576", (unsigned long long)all);
    if (m->shard && m->shard < data && step->parallel != REMAT_ZERO3)
        return remat_fail(error, REMAT_INVALID, "parallel.mesh.shard", "shard is for zero3 (fsdp)");
    settings->tensor = tensor;
    settings->context = context;
    settings->expert = some(m->expert);
    settings->sequence_parallel = m->sequence > 1;
    step->ranks = shard * context;
    step->replicas = data / shard;
    step->model_ranks = tensor;
    step->stages = some(m->pipeline);
    return REMAT_OK;
}

/* What only a pipeline has. */
typedef struct pipeline_words {
    remat_number microbatches, chunks;
    const char *schedule, *runtime;
    bool play;
} pipeline_words;

enum { MOST_PASSES_TOLD = 1 << 16 };

static remat_status check_passes(const remat_pipeline *p, remat_error *error)
{
    const uint64_t passes = UINT64_C(2) * p->ranks * p->microbatches;
    if (passes <= MOST_PASSES_TOLD)
        return REMAT_OK;
    return remat_fail(error, REMAT_INVALID, "play",
                      "%u ranks of %u micro-batches make %llu passes; at most %d are told",
                      p->ranks, p->microbatches, (unsigned long long)passes, MOST_PASSES_TOLD);
}

/* Of interleaved; 2 is torchtitan's number. */
static remat_status use_chunks(const pipeline_words *w, remat_pipeline *p, remat_error *error)
{
    uint64_t chunks = 2;
    remat_status status =
        w->chunks.given ? api_whole(&w->chunks, "chunks", 2, REMAT_MOST_CHUNKS, &chunks, error)
                        : REMAT_OK;
    p->chunks = (uint32_t)chunks;
    if (!status && w->play)
        status = remat_fail(error, REMAT_INVALID, "play",
                            "passes are told of gpipe and 1f1b, not of interleaved");
    return status;
}

static remat_status use_pipeline(uint32_t ranks, const pipeline_words *w,
                                 remat_plan_request *request, remat_error *error)
{
    remat_pipeline *p = &request->pipeline;
    uint64_t microbatches = 0;
    if (ranks <= 1 &&
        (w->microbatches.given || w->chunks.given || w->schedule || w->runtime || w->play))
        return remat_fail(error, REMAT_INVALID, "parallel.kind",
                          "microbatches, chunks, schedule, runtime and play are of a pipeline: "
                          "kind pipeline, or pp of a mesh, of at least 2 ranks");
    if (ranks <= 1)
        return REMAT_OK;
    *p = (remat_pipeline){.order = REMAT_1F1B, .ranks = ranks, .chunks = 1, .bandwidth = INFINITY};
    if (!w->microbatches.given)
        return remat_fail(error, REMAT_INVALID, "parallel.microbatches",
                          "parallel.microbatches is missing: of how many a step of the pipeline "
                          "is");
    request->usual_runtime = !w->runtime;
    snprintf(request->runtime, sizeof request->runtime, "%s", w->runtime ? w->runtime : "pytorch");
    remat_status status = api_whole(&w->microbatches, "microbatches", 1, REMAT_MOST_MICROBATCHES,
                                    &microbatches, error);
    p->microbatches = (uint32_t)microbatches;
    if (!status && w->schedule)
        status = remat_pipeline_order_find(w->schedule, &p->order, error);
    if (!status && p->order == REMAT_INTERLEAVED)
        status = use_chunks(w, p, error);
    else if (!status && w->chunks.given)
        status = remat_fail(error, REMAT_INVALID, "chunks",
                            "chunks are of the schedule interleaved; of others a rank has one");
    if (!status)
        status = remat_runtime_find(request->runtime, &p->runtime, error);
    if (!status)
        status = remat_pipeline_check(p, error);
    if (!status && w->play)
        status = check_passes(p, error);
    request->play = w->play;
    return api_within(status, "parallel", error);
}

remat_status api_parallel_decode(const json_t *json, remat_plan_request *request,
                                 remat_error *error)
{
    remat_network_settings *settings = &request->settings;
    remat_step_settings *step = &request->step;
    pipeline_words words = {.schedule = NULL};
    const char *kind = NULL;
    const json_t *axes = NULL;
    remat_number ranks = {0};
    uint32_t all = 0;
    bool prefetch = true;
    mesh m = {0};
    const field_rule rules[] = {{"kind", FIELD_STRING, false, &kind},
                                {"ranks", FIELD_NUMBER, false, &ranks},
                                {"mesh", FIELD_OBJECT, false, &axes},
                                {"microbatches", FIELD_NUMBER, false, &words.microbatches},
                                {"chunks", FIELD_NUMBER, false, &words.chunks},
                                {"schedule", FIELD_STRING, false, &words.schedule},
                                {"runtime", FIELD_STRING, false, &words.runtime},
                                {"play", FIELD_BOOLEAN, false, &words.play},
                                {"bucket_view", FIELD_BOOLEAN, false, &step->bucket_view},
                                {"prefetch", FIELD_BOOLEAN, false, &prefetch}};
    remat_status status = api_read(json, "parallel.", rules, sizeof rules / sizeof *rules, error);
    request->meshed = axes != NULL;
    step->no_prefetch = !prefetch;
    step->parallel = REMAT_ZERO3;
    if (!status && !axes && (!kind || !ranks.given))
        return remat_fail(error, REMAT_INVALID, kind ? "parallel.ranks" : "parallel.kind",
                          "%s is missing: give kind and ranks, or a mesh",
                          kind ? "parallel.ranks" : "parallel.kind");
    if (!status && axes && ranks.given)
        return remat_fail(error, REMAT_INVALID, "parallel.ranks",
                          "give ranks or a mesh, which says how many there are");
    uint32_t *axis = NULL;
    if (!status && kind)
        status = find_kind(kind, &m, &axis, &step->parallel, error);
    if (!status && axis && axes)
        return remat_fail(error, REMAT_INVALID, "parallel.kind",
                          "beside a mesh kind says how its dp ranks share: none, ddp, zero1, zero2 "
                          "or zero3 (fsdp)");
    if (!status && ranks.given)
        status = read_ranks(json_object_get(json, "ranks"), "parallel.ranks", &all, error);
    if (ranks.given)
        *(axis ? axis : &m.data) = all;
    if (ranks.given && axis == &m.expert)
        m.data = all;
    if (!status && axes)
        status = read_mesh(axes, &m, error);
    if (!status)
        status = check_mesh(&m, error);
    if (!status)
        status = use_mesh(&m, settings, step, error);
    if (!status)
        status = use_pipeline(m.pipeline, &words, request, error);
    if (!status && (!kind || axis) && step->ranks * step->replicas == 1)
        step->parallel = REMAT_SINGLE; /* nobody has the same weights */
    return status;
}

json_t *api_parallel_encode(const remat_plan_request *q)
{
    const remat_step_settings *s = &q->step;
    const remat_network_settings *model = &q->settings;
    const uint32_t context = some(model->context), replicas = some(s->replicas);
    json_t *axes = json_object();
    remat_json_set(&axes, "dp", json_integer((json_int_t)s->ranks / context * replicas));
    if (replicas > 1)
        remat_json_set(&axes, "shard", json_integer((json_int_t)(s->ranks / context)));
    if (some(model->tensor) > 1)
        remat_json_set(&axes, model->sequence_parallel ? "sp" : "tp", json_integer(model->tensor));
    if (context > 1)
        remat_json_set(&axes, "cp", json_integer(context));
    if (model->expert > 1)
        remat_json_set(&axes, "ep", json_integer(model->expert));
    if (q->pipeline.ranks > 0)
        remat_json_set(&axes, "pp", json_integer(q->pipeline.ranks));
    json_t *json = json_pack("{s:s, s:I, s:o}", "kind",
                             q->pipeline.ranks > 0 ? "pipeline" : remat_parallel_name(s->parallel),
                             "ranks", (json_int_t)remat_step_ranks(s), "mesh", axes);
    if (q->pipeline.ranks > 0) {
        if (s->parallel != REMAT_SINGLE)
            remat_json_set(&json, "data", json_string(remat_parallel_name(s->parallel)));
        remat_json_set(&json, "microbatches", json_integer(q->pipeline.microbatches));
        remat_json_set(&json, "schedule",
                       json_string(remat_pipeline_order_name(q->pipeline.order)));
        if (q->pipeline.chunks > 1)
            remat_json_set(&json, "chunks", json_integer(q->pipeline.chunks));
        remat_json_set(&json, "runtime", json_string(q->runtime));
    }
    return json;
}

/* ---- time ---- */

static api_ranks *ranks_new(const remat_plan_request *q, uint32_t n_loads, double store_all)
{
    api_ranks *r = calloc(1, sizeof *r + n_loads * sizeof *r->loads);
    if (!r)
        return NULL;
    r->step = q->step;
    r->way = q->device.interconnect;
    r->store_all = r->device = store_all;
    r->n_loads = n_loads;
    return r;
}

api_ranks *api_ranks_of_graph(const remat_plan_request *q, const remat_network_graph *graph,
                              double store_all)
{
    api_ranks *r = ranks_new(q, graph->n_units, store_all);
    if (!r)
        return NULL;
    remat_unit_loads(graph, r->loads);
    for (uint32_t u = 0; u < r->n_loads; u++)
        r->backward += r->loads[u].backward;
    r->n_nodes = graph->spec.n_nodes;
    for (size_t v = 0; v < r->n_nodes; v++)
        r->waited += 1e-6 * graph->sent[v];
    r->host = 1e-6 * graph->host;
    r->again = 1e-6 * graph->again;
    r->store_all = api_ranks_makespan(r, store_all, 0);
    return r;
}

double api_ranks_makespan(const api_ranks *r, double device, size_t again)
{
    const double forwards = r->n_nodes > 0 ? (double)again / (double)r->n_nodes : 0;
    return fmax(device, r->host + forwards * r->again);
}

/* A backward of twice the forward, as products have. */
api_ranks *api_ranks_of_profile(const remat_plan_request *q, const remat_profile *profile,
                                double store_all)
{
    enum { PARTS = 32 };
    const uint32_t n = profile->n_nodes < PARTS ? profile->n_nodes : PARTS;
    api_ranks *r = ranks_new(q, n, store_all);
    for (uint32_t u = 0; r && u < n; u++)
        r->loads[u] = (remat_unit_load){.parameters = (double)q->parameters / n,
                                        .forward = store_all / 3 / n,
                                        .backward = store_all * 2 / 3 / n};
    if (r)
        r->backward = store_all * 2 / 3;
    return r;
}

remat_exchange api_ranks_exchange(const api_ranks *r, double device, size_t again)
{
    const double more = fmax(0, device - r->device);
    const double stretch = r->backward > 0 ? 1 + more / r->backward : 1;
    remat_exchange e = remat_step_exchange(r->loads, r->n_loads, &r->step, &r->way, stretch);
    e.exposed = fmax(0, e.exposed - (api_ranks_makespan(r, device, again) - device));
    return e;
}
