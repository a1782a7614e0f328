/* What a plan of a pipeline says, and what is usual beside it. */
#include "plan/pipeline.h"

#include <math.h>
#include <stdlib.h>

/* ---- ways that people use ---- */

/* Of the planner's menu: the stage's last unit runs again wherever it is, or nowhere. */
enum { WAY_STORE_ALL, WAY_BLOCKS, WAY_ATTENTION, WAYS, WAY_LEAST_HELD, WAY_LAST_KEPT };

static const char *const way_names[WAYS] = {"store-all", "blocks", "attention"};

/* Whether a node runs again where its unit does: others read of it what stays. */
static bool is_inner(const remat_profile *profile, const uint32_t *unit, uint32_t v)
{
    const remat_node *node = &profile->nodes[v];
    bool inner = !node->once;
    for (uint32_t i = 0; i < node->n_consumers && inner; i++)
        inner = unit[node->consumers[i]] == unit[v];
    return inner;
}

/* together: units that count as one. */
static remat_status way_list(const api_pipeline *p, size_t shape, uint32_t first, uint32_t end,
                             unsigned way, uint32_t together, remat_stage_list *ret_list,
                             remat_error *error)
{
    const remat_profile *profile = p->shapes[shape].profile;
    const uint32_t start = api_unit_start(&p->units, first);
    uint32_t *unit = malloc(profile->n_nodes * sizeof *unit);
    bool *inner = malloc(profile->n_nodes * sizeof *inner);
    if (!unit || !inner) {
        free(unit);
        free(inner);
        return remat_fail_memory(error);
    }
    for (uint32_t u = first; u < end; u++)
        for (uint32_t v = api_unit_start(&p->units, u); v < p->units.end[u]; v++)
            unit[v - start] = (u - first) / together;
    for (uint32_t v = 0; v < profile->n_nodes; v++)
        inner[v] = way == WAY_LEAST_HELD && is_inner(profile, unit, v);
    const uint32_t n = ret_list->in_flight;
    uint64_t most = 0;
    remat_status status = n > 0 ? remat_store_all_in_flight(profile, n, &most, error) : REMAT_OK;
    const uint64_t alignment = n > 0 ? remat_default_alignment(most) : 0;
    const bool *again = way == WAY_ATTENTION ? p->again + start : inner;
    const bool keeps_last = way == WAY_LAST_KEPT || end == p->units.n;
    if (!status)
        status = way == WAY_BLOCKS || way == WAY_LAST_KEPT
                     ? remat_stage_by_blocks(profile, unit, keeps_last, alignment, ret_list, error)
                     : remat_stage_by_nodes(profile, unit, again, alignment, ret_list, error);
    free(unit);
    free(inner);
    return status;
}

remat_status api_pipeline_blocks(const api_pipeline *p, size_t shape, uint32_t first, uint32_t end,
                                 uint32_t together, bool last, remat_stage_list *ret_list,
                                 remat_error *error)
{
    return way_list(p, shape, first, end, last ? WAY_LEAST_HELD : WAY_LAST_KEPT, together, ret_list,
                    error);
}

static json_t *way_encode(const api_pipeline *p, unsigned way, const remat_pipeline_play *play,
                          const api_beside *b, const remat_step_table *tables,
                          const uint64_t *fixed)
{
    uint32_t worst = 0;
    for (uint32_t r = 1; r < play->n_ranks; r++)
        if (play->ranks[r].peak > play->ranks[worst].peak)
            worst = r;
    const uint64_t most = play->ranks[worst].peak, memory = p->question.memory;
    json_t *json = json_pack(
        "{s:s, s:b, s:f, s:I, s:o}", "way", way_names[way], "fits", most <= memory, "step_seconds",
        play->step * p->unit + b->exchange + b->update, "memory", (json_int_t)most, "memory_use",
        api_memory_encode(&tables[worst], most - fixed[worst], memory));
    if (most > memory) {
        remat_json_set(&json, "rank", json_integer(worst));
        remat_json_set(&json, "lacks", json_integer((json_int_t)(most - memory)));
    }
    return json;
}

/* What stands whole of the gradients is the largest of one stage, the others' are sent before or
 * begun behind it; it is each stage's own (torch.distributed.pipelining: a stage's last backward is
 * that with which FSDP reduces). */
static remat_status sum_apart(const api_pipeline *p, const api_part *parts, uint32_t rank,
                              remat_pipeline_stage *stages, remat_step_table *table,
                              uint64_t *ret_largest, remat_error *error)
{
    const remat_pipeline *pipeline = &p->question.pipeline;
    remat_status status = REMAT_OK;
    *ret_largest = 0;
    for (uint32_t k = 0; k < pipeline->chunks && pipeline->chunks > 1 && !status; k++) {
        remat_step_table own;
        status = api_pipeline_table(p, &parts[k], 1, &own, error);
        const uint64_t summed = status ? 0 : own.summed;
        stages[k * pipeline->ranks + rank].summed = summed;
        *ret_largest = summed > *ret_largest ? summed : *ret_largest;
    }
    const uint64_t taken = pipeline->chunks > 1 ? table->summed : 0;
    table->gradients -= taken;
    table->allocated -= taken;
    return status;
}

/* A rank with all its stages, weights counted at the first of them. largest: whole gradients of one
 * stage, that the table does not have. */
static remat_status way_rank(api_pipeline *p, const uint32_t *cuts, uint32_t rank, unsigned way,
                             remat_pipeline_stage *stages, remat_step_table *ret_table,
                             uint64_t *ret_largest, api_beside *b, remat_error *error)
{
    const remat_pipeline *pipeline = &p->question.pipeline;
    api_part parts[REMAT_MOST_CHUNKS];
    remat_status status = REMAT_OK;
    double backward = 0;
    for (uint32_t k = 0; k < pipeline->chunks && !status; k++) {
        const uint32_t at = k * pipeline->ranks + rank;
        remat_stage_menu m = {0};
        remat_stage_list list = {0};
        size_t shape = 0;
        parts[k] = (api_part){cuts[at], cuts[at + 1]};
        status = api_pipeline_bytes(p, cuts[at], cuts[at + 1], &m, error);
        if (!status)
            status = api_pipeline_shape(p, cuts[at], cuts[at + 1], &shape, error);
        if (!status)
            status = way_list(p, shape, cuts[at], cuts[at + 1], way, 1, &list, error);
        backward += list.backward;
        stages[at] = (remat_pipeline_stage){.forward = list.forward,
                                            .backward = list.backward,
                                            .held = list.held,
                                            .peak = list.peak,
                                            .input = m.input,
                                            .output = m.output};
    }
    if (!status)
        status = api_pipeline_table(p, parts, pipeline->chunks, ret_table, error);
    if (!status)
        api_pipeline_beside(p, parts, pipeline->chunks, ret_table, backward, b);
    if (!status)
        status = sum_apart(p, parts, rank, stages, ret_table, ret_largest, error);
    if (!status)
        stages[rank].fixed = api_pipeline_fixed(ret_table, p->question.memory);
    return status;
}

/* Of an interleaved schedule the plan is the fastest of the ways that fit; others are not to be
 * slower than it. */
static void take_way(api_pipeline *p, unsigned way, const api_beside *b, remat_pipeline_play *play)
{
    const double whole = play->step + (b->exchange + b->update) / p->unit;
    bool better = p->question.pipeline.order == REMAT_INTERLEAVED &&
                  (!p->best.play || play->step < p->best.play->step);
    bool fits = true;
    for (uint32_t r = 0; r < play->n_ranks; r++)
        fits &= play->ranks[r].peak <= p->question.memory;
    p->equal = fits ? fmin(p->equal, whole) : p->equal;
    if (!better || !fits) {
        remat_pipeline_play_free(play);
        return;
    }
    remat_pipeline_play_free(p->best.play);
    p->best.play = play;
    p->best_way = way_names[way];
    p->best.beside = *b;
}

static remat_status play_way(api_pipeline *p, const uint32_t *cuts, unsigned way, json_t **ways,
                             remat_error *error)
{
    const remat_pipeline *pipeline = &p->question.pipeline;
    remat_pipeline_play *play = NULL;
    remat_step_table tables[REMAT_MOST_RANKS];
    uint64_t fixed[REMAT_MOST_RANKS], summed[REMAT_MOST_RANKS];
    api_beside b = {0, 0};
    remat_pipeline_stage *stages =
        calloc((size_t)pipeline->ranks * pipeline->chunks, sizeof *stages);
    remat_status status = stages ? REMAT_OK : remat_fail_memory(error);
    for (uint32_t r = 0; r < pipeline->ranks && !status; r++) {
        status = way_rank(p, cuts, r, way, stages, &tables[r], &summed[r], &b, error);
        fixed[r] = stages[r].fixed + summed[r];
        tables[r].gradients += summed[r];
        tables[r].allocated += summed[r];
    }
    if (!status)
        status = remat_pipeline_judge(pipeline, stages, &play, error);
    if (!status) {
        remat_json_append(ways, way_encode(p, way, play, &b, tables, fixed));
        take_way(p, way, &b, play);
    }
    free(stages);
    return status;
}

remat_status api_pipeline_ways(api_pipeline *p, json_t **ret_ways, remat_error *error)
{
    const uint32_t n = p->question.pipeline.ranks * p->question.pipeline.chunks;
    uint32_t *cuts = malloc((n + 1) * sizeof *cuts);
    json_t *ways = json_array();
    remat_status status = cuts && ways ? REMAT_OK : remat_fail_memory(error);
    if (!status)
        api_pipeline_equal(p, n, cuts);
    for (unsigned way = 0; way < WAYS && !status; way++)
        if (way != WAY_ATTENTION || p->again)
            status = play_way(p, cuts, way, &ways, error);
    if (!status && !ways)
        status = remat_fail_memory(error);
    if (status)
        json_decref(ways);
    else
        *ret_ways = ways;
    free(cuts);
    return status;
}

bool api_pipeline_has_way(const api_pipeline *p)
{
    bool fits = false;
    for (size_t i = 0; i < json_array_size(p->ways); i++)
        fits |= json_is_true(json_object_get(json_array_get(p->ways, i), "fits"));
    return fits;
}

/* ---- ranks ---- */

/* What the judge saw a rank do. */
static json_t *passes_encode(const remat_pipeline_rank *rank, double unit)
{
    json_t *json = json_array();
    for (size_t i = 0; i < rank->n_passes; i++) {
        const remat_pipeline_pass *pass = &rank->passes[i];
        remat_json_append(&json,
                          json_pack("[s, i, f, f, I, I]", pass->backward ? "B" : "F",
                                    (int)pass->microbatch, pass->start * unit, pass->end * unit,
                                    (json_int_t)pass->memory, (json_int_t)pass->after));
    }
    return json;
}

static json_t *rank_encode(const api_pipeline *p, uint32_t rank, const remat_step_table *table)
{
    const remat_planned_stage *s = &p->best.plan.stages[rank];
    const remat_pipeline_rank *played = &p->best.play->ranks[rank];
    const api_asked *x = &p->asked[p->best.asked[rank]];
    const uint32_t n = played->in_flight;
    const uint64_t own = s->stage.fixed + (s->stage.peak - s->stage.held) + n * s->stage.held;
    const uint32_t first = api_unit_start(&p->units, s->first), last = p->units.end[s->end - 1] - 1;
    json_t *json = json_pack(
        "{s:i, s:s, s:i, s:i, s:s, s:s, s:I, s:f, s:f, s:i}", "rank", (int)rank, "profile_id",
        x->profile_id, "first_unit", (int)s->first, "last_unit", (int)(s->end - 1), "first_node",
        p->profile->nodes[first].id, "last_node", p->profile->nodes[last].id, "nodes",
        (json_int_t)(last + 1 - first), "forward_seconds", s->stage.forward * p->unit,
        "backward_seconds", s->stage.backward * p->unit, "in_flight", (int)n);
    const struct {
        const char *name;
        uint64_t bytes;
    } lines[] = {{"weights", table->weights + table->master_weights + table->cached},
                 {"gradients", table->gradients},
                 {"optimizer_states", table->states},
                 {"held_bytes", n * s->stage.held},
                 {"working_bytes", s->stage.peak - s->stage.held},
                 {"buffer_bytes", played->peak > own ? played->peak - own : 0},
                 {"memory", played->peak}};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        remat_json_set(&json, lines[i].name, json_integer((json_int_t)lines[i].bytes));
    remat_json_set(&json, "memory_use",
                   api_memory_encode(table, played->peak - s->stage.fixed, p->question.memory));
    remat_json_set(&json, "budget", json_integer((json_int_t)x->budget));
    remat_json_set(&json, "schedule", json_incref(x->schedule));
    if (p->q.play)
        remat_json_set(&json, "passes", passes_encode(played, p->unit));
    return json;
}

static remat_status put_ranks(const api_pipeline *p, json_t **pipeline, remat_error *error)
{
    json_t *ranks = json_array();
    remat_status status = REMAT_OK;
    for (uint32_t r = 0; r < p->question.pipeline.ranks && !status; r++) {
        const remat_planned_stage *s = &p->best.plan.stages[r];
        remat_step_table table;
        const api_part part = {s->first, s->end};
        status = api_pipeline_table(p, &part, 1, &table, error);
        if (!status)
            remat_json_append(&ranks, rank_encode(p, r, &table));
    }
    if (status)
        json_decref(ranks);
    else
        remat_json_set(pipeline, "stages", ranks);
    return status;
}

/* What is there of a plan whether anything fits or not. */
static json_t *begin_encode(const api_pipeline *p)
{
    json_t *json = json_pack("{s:I, s:i, s:O}", "memory", (json_int_t)p->question.memory, "units",
                             (int)p->units.n, "ways", p->ways);
    if (!p->best.play && p->refusal.number > 0)
        remat_json_set(&json, "least_memory", json_integer((json_int_t)p->refusal.number));
    return json;
}

static remat_status put_step(const api_pipeline *p, json_t **answer, json_t **pipeline,
                             remat_error *error)
{
    const api_beside *b = &p->best.beside;
    const double step = p->best.play->step, bound = fmin(p->bound, p->best.plan.whole);
    const double batch = remat_json_number(*answer, "batch");
    const double examples = batch * p->question.pipeline.microbatches;
    remat_status status = p->best_way ? REMAT_OK : put_ranks(p, pipeline, error);
    if (status)
        return status;
    const double seconds = step * p->unit + b->exchange + b->update;
    remat_json_set(answer, "step_seconds", json_real(seconds));
    remat_json_set(answer, "update_seconds", json_real(b->update));
    if (batch > 0)
        remat_json_set(answer, "samples_per_second", json_real(examples / seconds));
    remat_json_set(pipeline, "seconds", json_real(step * p->unit));
    remat_json_set(pipeline, "exchange_seconds", json_real(b->exchange));
    remat_json_set(pipeline, "bubble", json_real(p->best.play->bubble));
    if (p->best_way) {
        remat_json_set(pipeline, "way", json_string(p->best_way));
        return REMAT_OK;
    }
    remat_json_set(pipeline, "lower_bound_seconds", json_real(bound * p->unit));
    remat_json_set(pipeline, "gap", json_real(bound > 0 ? p->best.plan.whole / bound - 1 : 0));
    return REMAT_OK;
}

remat_status api_pipeline_encode(const api_pipeline *p, json_t **answer, remat_error *error)
{
    json_t *pipeline = begin_encode(p);
    remat_status status = REMAT_OK;
    remat_json_set(answer, "fits", json_boolean(p->best.play != NULL));
    if (p->best.play)
        status = put_step(p, answer, &pipeline, error);
    else
        remat_json_set(answer, "refusal", json_string(p->refusal.message));
    remat_json_set(answer, "pipeline", pipeline);
    return status || *answer ? status : remat_fail_memory(error);
}
