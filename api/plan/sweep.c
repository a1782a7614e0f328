#include "plan/sweep.h"

#include "fields.h"
#include "plan/ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BATCH = 1 << 20, MOST_ROWS = 256, SWEPT = REMAT_WAY_REMAT + 1, COLUMNS = 2 * SWEPT };

/* What the columns of a row are made of. */
typedef struct model {
    remat_network_graph *graph;
    remat_profile *profile;
    api_ranks *ranks;
} model;

/* Column c is way c / 2, with offloading where c is odd. */
typedef struct row {
    uint64_t batch;
    bool built;  /* false: sizes past every limit */
    bool shown;  /* in the answer */
    model model; /* of rows that several columns come to, while there are more */
    bool done[COLUMNS];
    remat_way_result result[COLUMNS];
    double beside[COLUMNS]; /* seconds of the step beside the makespan */
} row;

struct api_sweep {
    const remat_plan_request *request; /* while rows are made */
    uint64_t batch;                    /* that is asked for */
    double update;                     /* seconds */
    bool linked;
    remat_link link;
    remat_step_table table; /* but for the graph's hole */
    uint64_t largest[COLUMNS];
    row rows[MOST_ROWS];
    size_t n;
};

/* ---- one row ---- */

static row *row_of(api_sweep *s, uint64_t batch)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->rows[i].batch == batch)
            return &s->rows[i];
    if (s->n == MOST_ROWS)
        return NULL;
    s->rows[s->n] = (row){.batch = batch};
    return &s->rows[s->n++];
}

static void model_clear(model *m)
{
    free(m->ranks);
    remat_profile_free(m->profile);
    remat_network_graph_free(m->graph);
    *m = (model){.graph = NULL};
}

static remat_status model_make(const remat_plan_request *q, uint64_t batch, model *m,
                               remat_error *error)
{
    remat_status status = api_plan_graph(q, batch, &m->graph, error);
    if (!status)
        status = remat_profile_new(&m->graph->spec, &m->profile, error);
    if (!status) {
        m->ranks = api_ranks_of_graph(q, m->graph, 1e-6 * remat_store_all_makespan(m->profile));
        status = m->ranks ? REMAT_OK : remat_fail_memory(error);
    }
    return status;
}

static remat_status fill_column(api_sweep *s, row *r, unsigned c, remat_error *error)
{
    const model *m = &r->model;
    remat_way_result *result = &r->result[c];
    remat_step_table table = s->table;
    table.hole = m->graph->hole;
    const uint64_t budget = remat_step_room(&table, s->request->device.memory);
    remat_status status =
        remat_way_solve(m->profile, m->graph->unit, m->graph->kept, (remat_way)(c / 2),
                        c % 2 ? &s->link : NULL, budget, result, error);
    if (status)
        return status;
    const double device = 1e-6 * result->makespan;
    result->makespan = 1e6 * api_ranks_makespan(m->ranks, device, result->again);
    r->beside[c] = s->update + api_ranks_exchange(m->ranks, device, result->again).exposed;
    r->done[c] = true;
    return REMAT_OK;
}

/* A column of a row, if it is not there yet. A batch whose sizes are past 2^53 does not fit. */
static remat_status fill(api_sweep *s, row *r, unsigned c, remat_error *error)
{
    remat_status status = REMAT_OK;
    if (r->done[c])
        return REMAT_OK;
    if (!r->model.ranks)
        status = model_make(s->request, r->batch, &r->model, error);
    if (!status)
        status = fill_column(s, r, c, error);
    r->built |= !status;
    if (status == REMAT_TOO_LARGE || status == REMAT_INVALID) {
        for (c = 0; c < COLUMNS; c++)
            r->done[c] = true;
        status = REMAT_OK;
    }
    const bool again = (r->batch & (r->batch - 1)) == 0 || r->batch == s->batch;
    if (!again || !r->built)
        model_clear(&r->model);
    return status;
}

static bool skips(const api_sweep *s, unsigned column)
{
    return column % 2 == 1 && !s->linked;
}

static remat_status fits(api_sweep *s, uint64_t batch, unsigned column, bool *ret_fits,
                         remat_error *error)
{
    row *r = row_of(s, batch);
    if (!r)
        return remat_fail(error, REMAT_INTERNAL, NULL, "too many batches are tried");
    remat_status status = fill(s, r, column, error);
    *ret_fits = r->result[column].fits;
    return status;
}

/* ---- the largest ---- */

/* The largest batch of a column, 0 if none: doubling, then bisection; what a step takes grows with
 * its batch. */
static remat_status find_largest(api_sweep *s, unsigned column, uint64_t *ret_batch,
                                 remat_error *error)
{
    uint64_t good = 0, bad = 1;
    bool fit = true;
    remat_status status = REMAT_OK;
    while (!status && fit && bad <= MOST_BATCH) {
        status = fits(s, bad, column, &fit, error);
        if (fit) {
            good = bad;
            bad *= 2;
        }
    }
    /* Within a 64th the rest is a matter of taste. */
    while (!status && bad - good > 1 + good / 64) {
        const uint64_t middle = good + (bad - good) / 2;
        status = fits(s, middle, column, &fit, error);
        if (fit)
            good = middle;
        else
            bad = middle;
    }
    *ret_batch = good;
    return status;
}

/* ---- the rows ---- */

static int compare_rows(const void *a, const void *b)
{
    const row *x = a, *y = b;
    return (x->batch > y->batch) - (x->batch < y->batch);
}

/* Rows at powers of two, at the batch asked for, and where ways end. */
static bool is_shown(const api_sweep *s, const row *r)
{
    uint64_t most = 0;
    bool shown = (r->batch & (r->batch - 1)) == 0;
    for (unsigned c = 0; c < COLUMNS; c++) {
        shown |= r->batch == s->largest[c];
        most = s->largest[c] > most ? s->largest[c] : most;
    }
    return r->batch == s->batch || (shown && r->batch <= most);
}

static remat_status make_rows(api_sweep *s, remat_error *error)
{
    remat_status status = row_of(s, s->batch) ? REMAT_OK : REMAT_INTERNAL;
    for (unsigned c = 0; c < COLUMNS && !status; c++)
        if (!skips(s, c))
            status = find_largest(s, c, &s->largest[c], error);
    for (size_t i = 0; i < s->n && !status; i++) {
        row *r = &s->rows[i];
        r->shown = is_shown(s, r);
        for (unsigned c = 0; c < COLUMNS && !status && r->shown; c++)
            if (!skips(s, c))
                status = fill(s, r, c, error);
    }
    for (size_t i = 0; i < s->n; i++)
        model_clear(&s->rows[i].model);
    qsort(s->rows, s->n, sizeof *s->rows, compare_rows);
    return status;
}

remat_status api_sweep_new(const remat_plan_request *request, const remat_step_table *table,
                           double update, api_sweep **ret_sweep, remat_error *error)
{
    const double link = request->device.link * 1e-6;
    api_sweep *s = calloc(1, sizeof *s);
    if (!s)
        return remat_fail_memory(error);
    s->request = request;
    s->batch = request->settings.batch;
    s->update = update;
    s->linked = link > 0;
    s->link = (remat_link){.to_host = link, .to_device = link, .latency = 10};
    s->table = *table;
    remat_status status = make_rows(s, error);
    s->request = NULL;
    if (status)
        api_sweep_free(s);
    else
        *ret_sweep = s;
    return status;
}

void api_sweep_free(api_sweep *s)
{
    free(s);
}

/* ---- the schedule ---- */

static double seconds_of(const row *r, unsigned column)
{
    return r->result[column].makespan * 1e-6 + r->beside[column];
}

/* Samples per second, 0 where the step does not fit. */
static double rate_of(const row *r, unsigned column)
{
    const bool fits = r->done[column] && r->result[column].fits;
    return fits ? (double)r->batch / seconds_of(r, column) : 0;
}

void api_sweep_settle(api_sweep *s, const remat_way_result *result, double beside, bool offloaded)
{
    const unsigned own = 2 * REMAT_WAY_REMAT + offloaded;
    row *r = row_of(s, s->batch);
    const double rate = (double)s->batch / (result->makespan * 1e-6 + beside);
    for (unsigned c = own; c <= 2 * REMAT_WAY_REMAT + 1; c++) {
        /* With a link remat may do what it does without one. */
        if (skips(s, c) || (c != own && rate_of(r, c) >= rate))
            continue;
        r->result[c] = *result;
        r->beside[c] = beside;
        if (s->largest[c] < s->batch)
            s->largest[c] = s->batch;
    }
}

bool api_sweep_fits(api_sweep *s, bool offloaded)
{
    const row *r = row_of(s, s->batch);
    bool fit = false;
    for (unsigned c = offloaded; c < COLUMNS; c += 2)
        fit |= r->result[c].fits;
    return fit;
}

/* ---- the answer ---- */

static json_t *way_encode(unsigned column)
{
    return json_pack("{s:s, s:b}", "way", remat_way_name((remat_way)(column / 2)), "offload",
                     (int)(column % 2));
}

static json_t *cell_encode(const row *r, unsigned column)
{
    const remat_way_result *result = &r->result[column];
    json_t *json = way_encode(column);
    remat_json_set(&json, "fits", json_boolean(result->fits));
    if (r->built && r->done[column])
        remat_json_set(&json, "peak", json_integer((json_int_t)result->peak));
    if (result->fits) {
        remat_json_set(&json, "step_seconds", json_real(seconds_of(r, column)));
        remat_json_set(&json, "samples_per_second", json_real(rate_of(r, column)));
    }
    return json;
}

static json_t *row_encode(const api_sweep *s, const row *r)
{
    json_t *ways = json_array();
    for (unsigned c = 0; c < COLUMNS; c++)
        if (!skips(s, c))
            remat_json_append(&ways, cell_encode(r, c));
    return json_pack("{s:I, s:o}", "batch", (json_int_t)r->batch, "ways", ways);
}

static json_t *largest_encode(const api_sweep *s)
{
    json_t *list = json_array();
    for (unsigned c = 0; c < COLUMNS; c++) {
        if (skips(s, c))
            continue;
        json_t *json = way_encode(c);
        remat_json_set(&json, "batch", json_integer((json_int_t)s->largest[c]));
        remat_json_append(&list, json);
    }
    return list;
}

/* The first of the largest rates, null where nothing fits. */
static json_t *best_encode(const api_sweep *s)
{
    const row *best = NULL;
    unsigned column = 0;
    double most = 0;
    for (size_t i = 0; i < s->n; i++)
        for (unsigned c = 0; c < COLUMNS && s->rows[i].shown; c++)
            if (rate_of(&s->rows[i], c) > most * (1 + 1e-9)) {
                best = &s->rows[i];
                column = c;
                most = rate_of(best, c);
            }
    if (!best)
        return json_null();
    json_t *json = way_encode(column);
    remat_json_set(&json, "batch", json_integer((json_int_t)best->batch));
    remat_json_set(&json, "samples_per_second", json_real(most));
    return json;
}

void api_sweep_encode(const api_sweep *s, json_t **answer)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->n; i++)
        if (s->rows[i].shown)
            remat_json_append(&list, row_encode(s, &s->rows[i]));
    remat_json_set(answer, "rows", list);
    remat_json_set(answer, "largest", largest_encode(s));
    remat_json_set(answer, "best_batch", best_encode(s));
}
