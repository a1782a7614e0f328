#include "plan/nearest.h"

#include "fields.h"
#include "plan/config.h"
#include "plan/pipeline.h"
#include "plan/ranks.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* By per-block checkpointing, or of a pipeline by the fastest way that people use, what is changed.
 */
typedef struct trial {
    remat_plan_request q;
    bool offloads;
    bool fits;
    uint32_t n_nodes;
    double seconds; /* of the step */
    uint64_t driver;
    char way[16];
} trial;

static remat_status measure(trial *t, const remat_network_graph *graph,
                            const remat_step_table *table, remat_error *error)
{
    const remat_device *d = &t->q.device;
    const uint64_t room = remat_step_room(table, d->memory) / 20 * 19;
    const double rate = d->link * 1e-6;
    const remat_link link = {.to_host = rate, .to_device = rate, .latency = 10};
    /* of a large graph dozens of lists take long */
    const remat_way way = graph->spec.n_nodes <= 400 ? REMAT_WAY_REMAT : REMAT_WAY_BLOCKS;
    remat_profile *profile = NULL;
    remat_way_result r = {.fits = false};
    api_ranks *ranks = NULL;
    remat_status status = room > 0 ? remat_profile_new(&graph->spec, &profile, error) : REMAT_OK;
    if (profile)
        status = remat_way_solve(profile, graph->unit, graph->kept, way, t->offloads ? &link : NULL,
                                 room, &r, error);
    if (!status && r.fits) {
        ranks = api_ranks_of_graph(&t->q, graph, 1e-6 * remat_store_all_makespan(profile));
        status = ranks ? REMAT_OK : remat_fail_memory(error);
    }
    if (ranks) {
        const double device = 1e-6 * r.makespan;
        t->fits = true;
        snprintf(t->way, sizeof t->way, "%s", remat_way_name(REMAT_WAY_BLOCKS));
        t->n_nodes = profile->n_nodes * (t->offloads ? 4 : 1); /* so much longer over a link */
        t->driver = remat_step_memory(table, r.peak).driver;
        t->seconds = api_ranks_makespan(ranks, device, r.again) +
                     api_ranks_exchange(ranks, device, r.again).exposed +
                     api_update_seconds(d, table);
    }
    free(ranks);
    remat_profile_free(profile);
    return status;
}

/* The fastest of its ways that fits. */
static remat_status measure_pipeline(trial *t, const remat_network_graph *graph, remat_error *error)
{
    remat_plan_request q = t->q;
    api_pipeline *p = NULL;
    size_t i;
    const json_t *way;
    q.alone = true;
    json_t *document = remat_network_document(graph, &q.device, &q.settings);
    remat_status status =
        document ? api_pipeline_new(&q, graph, document, &p, error) : remat_fail_memory(error);
    json_array_foreach(p ? p->ways : NULL, i, way)
    {
        const double seconds = remat_json_number(way, "step_seconds");
        if (!json_is_true(json_object_get(way, "fits")) || (t->fits && seconds >= t->seconds))
            continue;
        t->fits = true;
        t->seconds = seconds;
        t->driver = (uint64_t)remat_json_number(json_object_get(way, "memory_use"), "driver_bytes");
        snprintf(t->way, sizeof t->way, "%s", remat_json_string(way, "way"));
    }
    api_pipeline_free(p);
    json_decref(document);
    return status;
}

/* What cannot be planned at all does not fit. */
static remat_status try(trial *t, remat_error *error)
{
    remat_network_graph *graph = NULL;
    remat_step_table table;
    t->fits = false;
    remat_status status = api_plan_graph(&t->q, t->q.settings.batch, &graph, error);
    if (!status)
        status = remat_step_bytes(graph->tensors, graph->n_tensors, &t->q.step, &t->q.device,
                                  &table, error);
    if (!status)
        table.hole = graph->hole;
    if (!status && t->q.pipeline.ranks > 0)
        status = measure_pipeline(t, graph, error);
    else if (!status)
        status = measure(t, graph, &table, error);
    remat_network_graph_free(graph);
    return status == REMAT_INVALID || status == REMAT_TOO_LARGE ? REMAT_OK : status;
}

/* ---- what was changed ---- */

typedef struct words {
    char options[120]; /* of the command */
    json_t *with;      /* members of a request */
} words;

static void say(words *w, const char *member, json_t *value, const char *format, ...)
{
    const size_t at = strlen(w->options);
    va_list list;
    va_start(list, format);
    snprintf(w->options + at, sizeof w->options - at, at ? " " : "");
    vsnprintf(w->options + at + (at > 0), sizeof w->options - at - (at > 0), format, list);
    va_end(list);
    remat_json_set(&w->with, member, value);
}

/* More stages: what else the request says of its pipeline stays. */
static void say_stages(words *w, const remat_plan_request *q)
{
    const char *axis, *const members[] = {"microbatches", "schedule", "chunks"};
    char text[80] = "";
    json_t *ranks, *all = api_parallel_encode(q), *mesh = json_object_get(all, "mesh");
    json_t *with = json_pack("{s:O}", "mesh", mesh);
    if (q->step.parallel != REMAT_SINGLE)
        remat_json_set(&with, "kind", json_string(remat_parallel_name(q->step.parallel)));
    if (!q->usual_runtime)
        remat_json_set(&with, "runtime", json_string(q->runtime));
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (json_object_get(all, members[i]))
            remat_json_set(&with, members[i], json_incref(json_object_get(all, members[i])));
    json_object_foreach(mesh, axis, ranks)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s=%d", text[0] ? "," : "",
                 axis, (int)json_integer_value(ranks));
    json_decref(all);
    if (!q->meshed)
        say(w, "parallel", with, "--parallel pipeline --ranks %u", q->pipeline.ranks);
    else
        say(w, "parallel", with, "--mesh %s", text);
}

static words describe(const remat_plan_request *q, const trial *t)
{
    words w = {.with = json_object()};
    const remat_plan_request *now = &t->q;
    if (now->settings.kernels != q->settings.kernels)
        say(&w, "kernels", json_string("fused"), "--kernels fused");
    if (now->step.optimizer != q->step.optimizer)
        say(&w, "optimizer", json_string("adam8bit"), "--optimizer adam8bit");
    if (now->step.in_backward != q->step.in_backward)
        say(&w, "optimizer_in_backward", json_true(), "--optimizer-in-backward");
    if (now->settings.batch != q->settings.batch)
        say(&w, "batch", json_integer((json_int_t)now->settings.batch), "--batch %llu",
            (unsigned long long)now->settings.batch);
    if (now->settings.sequence != q->settings.sequence)
        say(&w, "sequence", json_integer(now->settings.sequence), "--sequence %u",
            now->settings.sequence);
    if (now->pipeline.ranks != q->pipeline.ranks)
        say_stages(&w, now);
    if (now->step.ranks != q->step.ranks || now->step.parallel != q->step.parallel)
        say(&w, "parallel",
            json_pack("{s:s, s:I}", "kind", "fsdp", "ranks", (json_int_t)now->step.ranks),
            q->meshed ? "--mesh dp=%u --parallel fsdp" : "--parallel fsdp --ranks %u",
            now->step.ranks);
    const remat_lora *lora = &now->settings.lora;
    const bool packed = lora->base == REMAT_NF4 && q->settings.lora.base != REMAT_NF4;
    if (lora->rank != q->settings.lora.rank) {
        json_t *new = json_pack("{s:I}", "rank", (json_int_t)lora->rank);
        if (packed)
            remat_json_set(&new, "base", json_string(remat_base_name(lora->base)));
        say(&w, "lora", new, "--lora %u%s", lora->rank, packed ? " --lora-base nf4" : "");
    } else if (packed) {
        say(&w, "lora", api_lora_encode(lora), "--lora-base nf4");
    }
    if (t->offloads && !q->offload)
        say(&w, "offload", json_true(), "--offload");
    return w;
}

/* ---- plans of what was changed ---- */

/* Changes whose plans have more nodes, all together, are told by per-block checkpointing: a plan of
 * 80 blocks takes a second. */
enum { KINDS = 8, MOST_NODES_ASKED = 2000 };

struct api_changes {
    size_t n, at; /* at: the next that is asked */
    uint32_t n_nodes;
    struct {
        json_t *json;           /* what it is and takes; NULL: its plan fits nowhere */
        remat_plan_draft draft; /* of what is asked; else {0} */
    } of[KINDS];
};

void api_changes_free(api_changes *c)
{
    for (size_t i = 0; c && i < c->n; i++) {
        json_decref(c->of[i].json);
        remat_plan_draft_clear(&c->of[i].draft);
    }
    free(c);
}

/* What it takes by that way: the whole of its plan, or the plan's row of blocks. */
static void put_figures(json_t **json, const char *way, json_int_t driver, double seconds,
                        uint64_t batch)
{
    remat_json_set(json, "way", json_string(way));
    remat_json_set(json, "driver_bytes", json_integer(driver));
    remat_json_set(json, "step_seconds", json_real(seconds));
    remat_json_set(json, "samples_per_second", json_real((double)batch / seconds));
}

static remat_status put(api_changes *c, const remat_plan_request *q, trial *t, remat_error *error)
{
    const bool pipeline = q->pipeline.ranks > 0;
    if (!t->fits)
        return REMAT_OK;
    const words w = describe(q, t);
    json_t **json = &c->of[c->n].json;
    remat_plan_draft *draft = &c->of[c->n++].draft;
    *json = json_pack("{s:s, s:o}", "arguments", w.options, "with", w.with);
    put_figures(json, t->way, (json_int_t)t->driver, t->seconds,
                t->q.settings.batch * (pipeline ? t->q.pipeline.microbatches : 1));
    if (pipeline || c->n_nodes + t->n_nodes > MOST_NODES_ASKED)
        return REMAT_OK;
    c->n_nodes += t->n_nodes;
    t->q.offload = t->offloads;
    t->q.alone = true;
    return remat_plan_draft_make(&t->q, NULL, NULL, draft, error);
}

bool api_changes_ask(api_changes *c, json_t **ret_document, json_t **ret_question)
{
    while (c->at < c->n && !c->of[c->at].draft.question)
        c->at++;
    if (c->at == c->n)
        return false;
    *ret_document = json_incref(c->of[c->at].draft.document);
    *ret_question = json_incref(c->of[c->at].draft.question);
    return true;
}

void api_changes_take(api_changes *c, const json_t *schedule)
{
    remat_plan_draft *draft = &c->of[c->at].draft;
    json_t **json = &c->of[c->at++].json;
    if (schedule) {
        api_plan_settle(draft, schedule, NULL);
        const json_t *use = json_object_get(draft->answer, "memory_use");
        put_figures(json, remat_way_name(REMAT_WAY_REMAT),
                    json_integer_value(json_object_get(use, "driver_bytes")),
                    remat_json_number(draft->answer, "step_seconds"),
                    (uint64_t)remat_json_number(draft->answer, "batch"));
    } else {
        json_decref(*json);
        *json = NULL;
    }
}

json_t *api_changes_encode(const api_changes *c)
{
    json_t *list = json_array();
    for (size_t i = 0; i < c->n; i++)
        if (c->of[i].json)
            remat_json_append(&list, json_incref(c->of[i].json));
    return list;
}

/* ---- what may be changed ---- */

/* These change a trial until it fits. Those of two changes find nothing where one of them does. */
static remat_status fuse(trial *t, remat_error *error)
{
    const bool has = t->q.settings.kernels != REMAT_FUSED;
    t->q.settings.kernels = REMAT_FUSED;
    t->q.step.compiled = true;
    return has ? try(t, error) : REMAT_OK;
}

static remat_status narrow(trial *t, remat_error *error)
{
    const bool has = t->q.step.optimizer == REMAT_ADAM || t->q.step.optimizer == REMAT_ADAMW;
    t->q.step.optimizer = has ? REMAT_ADAM8BIT : t->q.step.optimizer;
    return has ? try(t, error) : REMAT_OK;
}

static remat_status step_in_backward(trial *t, remat_error *error)
{
    const bool has = !t->q.step.in_backward && t->q.pipeline.ranks == 0;
    t->q.step.in_backward = true;
    return has ? try(t, error) : REMAT_OK;
}

static remat_status fuse_and_narrow(trial *t, remat_error *error)
{
    remat_status status = fuse(t, error);
    const bool alone = t->fits;
    t->fits = false;
    return status || alone ? status : narrow(t, error);
}

/* The largest batch below that fits. */
static remat_status take_fewer(trial *t, remat_error *error)
{
    uint64_t low = 0, high = t->q.settings.batch;
    remat_status status = REMAT_OK;
    trial best = *t;
    while (high - low > 1 && !status) {
        /* one first: where it does not fit nothing does */
        t->q.settings.batch = low == 0 ? 1 : low + (high - low) / 2;
        status = try(t, error);
        if (!t->fits && low == 0)
            break;
        if (t->fits)
            best = *t;
        *(t->fits ? &low : &high) = t->q.settings.batch;
    }
    *t = best;
    return status;
}

static remat_status narrow_and_take_fewer(trial *t, remat_error *error)
{
    remat_status status = narrow(t, error);
    const bool alone = t->fits;
    t->fits = false;
    return status || alone ? status : take_fewer(t, error);
}

/* Half of the tokens, and half of those. */
static remat_status shorten(trial *t, remat_error *error)
{
    const remat_network *model;
    remat_status status = remat_network_find(t->q.model, &model, error);
    uint32_t tokens = status                   ? 0
                      : t->q.settings.sequence ? t->q.settings.sequence
                                               : model->sequence;
    while (!status && !t->fits && tokens >= 256) {
        tokens /= 2;
        t->q.settings.sequence = tokens;
        status = try(t, error);
    }
    return status;
}

static remat_status take_more_stages(trial *t, remat_error *error)
{
    enum { MOST_DOUBLINGS = 3 };
    remat_status status = REMAT_OK;
    for (unsigned i = 0;
         i < MOST_DOUBLINGS && !status && !t->fits && t->q.pipeline.ranks <= REMAT_MOST_RANKS / 2;
         i++) {
        t->q.pipeline.ranks *= 2;
        t->q.step.stages *= 2;
        status = try(t, error);
    }
    return status;
}

static remat_status shard(trial *t, remat_error *error)
{
    enum { MOST_RANKS = 1024 };
    if (t->q.pipeline.ranks > 0)
        return take_more_stages(t, error);
    const remat_step_settings was = t->q.step;
    const bool cut =
        t->q.settings.tensor > 1 || t->q.settings.context > 1 || t->q.settings.expert > 1;
    uint32_t ranks = was.ranks > 1 && was.parallel != REMAT_ZERO3 ? was.ranks : 2 * was.ranks;
    remat_status status = REMAT_OK;
    t->q.step.parallel = REMAT_ZERO3;
    t->q.step.replicas = 1;
    t->q.step.bucket_view = false;
    for (; !status && !t->fits && !cut && ranks <= MOST_RANKS; ranks *= 2) {
        t->q.step.ranks = ranks;
        status = try(t, error);
    }
    return status;
}

static remat_status adapt_to(trial *t, remat_base base, remat_error *error)
{
    enum { USUAL_RANK = 16 };
    remat_lora *lora = &t->q.settings.lora;
    if (lora->rank > 0 && (lora->base != REMAT_FROZEN || base == REMAT_FROZEN))
        return REMAT_OK;
    if (lora->rank == 0)
        *lora = (remat_lora){.rank = USUAL_RANK, .targets = REMAT_ADAPT_ALL};
    lora->base = base;
    return try(t, error);
}

static remat_status adapt(trial *t, remat_error *error)
{
    return adapt_to(t, REMAT_FROZEN, error);
}

static remat_status adapt_in_4_bits(trial *t, remat_error *error)
{
    return adapt_to(t, REMAT_NF4, error);
}

static remat_status offload(trial *t, remat_error *error)
{
    const bool has = !t->offloads && t->q.device.link > 0 && t->q.pipeline.ranks == 0;
    t->offloads = true;
    return has ? try(t, error) : REMAT_OK;
}

/* By what they cost, cheapest first; the second where the first of two does not do. */
static remat_status (*const kinds[KINDS][2])(trial *,
                                             remat_error *) = {{fuse, NULL},
                                                               {narrow, fuse_and_narrow},
                                                               {step_in_backward, NULL},
                                                               {take_fewer, narrow_and_take_fewer},
                                                               {shorten, NULL},
                                                               {shard, NULL},
                                                               {adapt, adapt_in_4_bits},
                                                               {offload, NULL}};

remat_status api_nearest(const remat_plan_request *q, api_changes **ret_changes, remat_error *error)
{
    trial as_it_is = {.q = *q, .offloads = q->offload};
    remat_status status = try(&as_it_is, error);
    if (status || as_it_is.fits)
        return status;
    api_changes *changes = calloc(1, sizeof *changes);
    if (!changes)
        return remat_fail_memory(error);
    for (size_t i = 0; i < KINDS && !status; i++) {
        trial t = {.q = *q, .offloads = q->offload};
        status = kinds[i][0](&t, error);
        if (!status && !t.fits && kinds[i][1]) {
            t = (trial){.q = *q, .offloads = q->offload};
            status = kinds[i][1](&t, error);
        }
        if (!status)
            status = put(changes, q, &t, error);
    }
    if (status)
        api_changes_free(changes);
    else
        *ret_changes = changes;
    return status;
}
