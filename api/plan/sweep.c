/* Samples per second over batches, by every way through a step: the largest batch, the best one. */
#include "plan/sweep.h"

#include "fields.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BATCH = 1 << 20, MOST_ROWS = 256, COLUMNS = 2 * REMAT_WAYS };

/* Column c is way c / 2, with offloading where c is odd. */
typedef struct row {
    uint64_t batch;
    bool built; /* false: sizes past every limit */
    bool done[COLUMNS];
    remat_way_result result[COLUMNS];
} row;

typedef struct sweep {
    const remat_plan_request *request;
    remat_link link;
    uint64_t budget;
    row rows[MOST_ROWS];
    size_t n;
    bool shown[MOST_ROWS];
} sweep;

remat_link plan_link(const remat_device *device)
{
    return (remat_link){
        .to_host = device->link * 1e-6, .to_device = device->link * 1e-6, .latency = 10};
}

/* ---- one row ---- */

static row *row_of(sweep *s, uint64_t batch)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->rows[i].batch == batch)
            return &s->rows[i];
    if (s->n == MOST_ROWS)
        return NULL;
    s->rows[s->n] = (row){.batch = batch};
    return &s->rows[s->n++];
}

/* The columns of a row that are wanted and not there yet. A batch whose sizes are past 2^53 does not
 * fit. */
static remat_status fill(sweep *s, row *r, unsigned first, unsigned end, remat_error *error)
{
    const remat_plan_request *q = s->request;
    remat_network_settings settings = q->settings;
    remat_network_graph *graph = NULL;
    remat_profile *profile = NULL;
    bool missing = false;
    for (unsigned c = first; c < end; c++)
        missing |= !r->done[c];
    if (!missing)
        return REMAT_OK;
    settings.batch = r->batch;
    remat_status status = remat_network_graph_new(q->model, &settings, &q->device, &graph, error);
    if (!status)
        status = remat_profile_new(&graph->spec, &profile, error);
    const bool too_large = status == REMAT_TOO_LARGE || status == REMAT_INVALID;
    for (unsigned c = first; c < end && (!status || too_large); c++) {
        r->done[c] = true;
        r->result[c] = (remat_way_result){.fits = false};
        if (!status)
            status = remat_way_solve(profile, graph->unit, (remat_way)(c / 2),
                                     c % 2 ? &s->link : NULL, s->budget, &r->result[c], error);
    }
    r->built = !status;
    remat_profile_free(profile);
    remat_network_graph_free(graph);
    return too_large ? REMAT_OK : status;
}

static bool skips(const sweep *s, unsigned column)
{
    return column % 2 == 1 && s->request->device.link == 0;
}

static remat_status fits(sweep *s, uint64_t batch, unsigned column, bool *ret_fits,
                         remat_error *error)
{
    row *r = row_of(s, batch);
    if (!r)
        return remat_fail(error, REMAT_INTERNAL, NULL, "too many batches are tried");
    remat_status status = fill(s, r, column, column + 1, error);
    *ret_fits = r->result[column].fits;
    return status;
}

/* ---- the largest ---- */

/* The largest batch of a column, 0 if none: doubling, then bisection; what a step takes grows with
 * its batch. */
static remat_status find_largest(sweep *s, unsigned column, uint64_t *ret_batch, remat_error *error)
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

/* ---- the answer ---- */

static double seconds_of(const remat_way_result *result, double update)
{
    return result->makespan * 1e-6 + update;
}

static json_t *cell_encode(const row *r, unsigned column, double update)
{
    const remat_way_result *result = &r->result[column];
    if (!r->built || !r->done[column])
        return json_pack("{s:s, s:b, s:b}", "way", remat_way_name((remat_way)(column / 2)),
                         "offload", (int)(column % 2), "fits", 0);
    json_t *json =
        json_pack("{s:s, s:b, s:b, s:I}", "way", remat_way_name((remat_way)(column / 2)), "offload",
                  (int)(column % 2), "fits", (int)result->fits, "peak", (json_int_t)result->peak);
    bool failed = !json;
    if (result->fits) {
        const double seconds = seconds_of(result, update);
        fields_set(json, "step_seconds", json_real(seconds), &failed);
        fields_set(json, "samples_per_second", json_real((double)r->batch / seconds), &failed);
    }
    return fields_finish(json, failed);
}

static json_t *row_encode(const sweep *s, const row *r, double update)
{
    json_t *ways = json_array();
    for (unsigned c = 0; c < COLUMNS; c++)
        if (!skips(s, c))
            fields_append(&ways, cell_encode(r, c, update));
    return json_pack("{s:I, s:o}", "batch", (json_int_t)r->batch, "ways", ways);
}

static int compare_rows(const void *a, const void *b)
{
    const row *x = a, *y = b;
    return (x->batch > y->batch) - (x->batch < y->batch);
}

/* Rows at powers of two, at the batch asked for, and where ways end. */
static bool is_shown(const sweep *s, const row *r, const uint64_t *largest)
{
    uint64_t most = 0;
    bool shown = (r->batch & (r->batch - 1)) == 0 || r->batch == s->request->settings.batch;
    for (unsigned c = 0; c < COLUMNS; c++) {
        shown |= r->batch == largest[c];
        most = largest[c] > most ? largest[c] : most;
    }
    return shown && (r->batch <= most || r->batch == s->request->settings.batch);
}

static json_t *largest_encode(const sweep *s, const uint64_t *largest)
{
    json_t *list = json_array();
    for (unsigned c = 0; c < COLUMNS; c++)
        if (!skips(s, c))
            fields_append(&list,
                          json_pack("{s:s, s:b, s:I}", "way", remat_way_name((remat_way)(c / 2)),
                                    "offload", (int)(c % 2), "batch", (json_int_t)largest[c]));
    return list;
}

static json_t *rows_encode(sweep *s, const uint64_t *largest, double update, json_t **ret_best)
{
    json_t *list = json_array();
    double most = 0;
    for (size_t i = 0; i < s->n; i++) {
        const row *r = &s->rows[i];
        if (!is_shown(s, r, largest))
            continue;
        fields_append(&list, row_encode(s, r, update));
        for (unsigned c = 0; c < COLUMNS; c++) {
            const double rate =
                r->result[c].fits ? (double)r->batch / seconds_of(&r->result[c], update) : 0;
            if (!r->done[c] || rate <= most * (1 + 1e-9))
                continue;
            most = rate;
            json_decref(*ret_best);
            *ret_best = json_pack("{s:s, s:b, s:I, s:f}", "way", remat_way_name((remat_way)(c / 2)),
                                  "offload", (int)(c % 2), "batch", (json_int_t)r->batch,
                                  "samples_per_second", rate);
        }
    }
    return list;
}

remat_status plan_sweep(const remat_plan_request *request, uint64_t budget, double update,
                        json_t *answer, remat_error *error)
{
    uint64_t largest[COLUMNS] = {0};
    bool failed = false;
    json_t *best = NULL;
    sweep *s = calloc(1, sizeof *s);
    if (!s)
        return remat_fail_memory(error);
    s->request = request;
    s->budget = budget;
    s->link = plan_link(&request->device);
    remat_status status = row_of(s, request->settings.batch) ? REMAT_OK : REMAT_INTERNAL;
    for (unsigned c = 0; c < COLUMNS && !status; c++)
        if (!skips(s, c))
            status = find_largest(s, c, &largest[c], error);
    for (size_t i = 0; i < s->n && !status; i++)
        if (is_shown(s, &s->rows[i], largest))
            for (unsigned c = 0; c < COLUMNS && !status; c++)
                if (!skips(s, c))
                    status = fill(s, &s->rows[i], c, c + 1, error);
    if (!status) {
        qsort(s->rows, s->n, sizeof *s->rows, compare_rows);
        fields_set(answer, "rows", rows_encode(s, largest, update, &best), &failed);
        fields_set(answer, "largest", largest_encode(s, largest), &failed);
        fields_set(answer, "best", best ? best : json_null(), &failed);
        if (failed)
            status = remat_fail_memory(error);
    }
    free(s);
    return status;
}
