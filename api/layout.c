/* POST /v1/layouts: addresses for buffers of any origin. */
#include "fields.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- the request ---- */

/* A number of the request, exactly: nanoseconds since 1970 are more than a double tells apart. */
typedef struct moment {
    bool whole;
    json_int_t integer; /* where it is */
    double real;        /* where it is not */
} moment;

static moment moment_of(const json_t *json)
{
    return (moment){json_is_integer(json), json_integer_value(json), json_real_value(json)};
}

static int compare_mixed(json_int_t whole, double real)
{
    if (real >= 0x1p63 || real < -0x1p63)
        return real > 0 ? -1 : 1;
    const json_int_t floored = (json_int_t)floor(real);
    return whole != floored ? (whole > floored) - (whole < floored) : -(real > floor(real));
}

static int compare_moments(const void *a, const void *b)
{
    const moment *p = a, *q = b;
    if (p->whole && q->whole)
        return (p->integer > q->integer) - (p->integer < q->integer);
    if (p->whole)
        return compare_mixed(p->integer, q->real);
    if (q->whole)
        return -compare_mixed(q->integer, p->real);
    return (p->real > q->real) - (p->real < q->real);
}

/* When a buffer lives: from lower to upper, which is not included. */
typedef struct span {
    moment lower, upper;
} span;

static remat_status read_span(const json_t *lower, const json_t *upper, const char *place,
                              span *ret_span, remat_error *error)
{
    char field[REMAT_FIELD_SIZE];
    *ret_span = (span){moment_of(lower), moment_of(upper)};
    if (compare_moments(&ret_span->lower, &ret_span->upper) < 0)
        return REMAT_OK;
    char *low = remat_json_text(lower), *high = remat_json_text(upper);
    snprintf(field, sizeof field, "%supper", place);
    remat_status status =
        low && high ? remat_fail(error, REMAT_INVALID, field,
                                 "%s is %.40s; it must be above %.40s, its lower: upper is the "
                                 "first moment at which the buffer is not alive any more",
                                 field, high, low)
                    : remat_fail_memory(error);
    free(low);
    free(high);
    return status;
}

/* ids: an object with those that there were. */
static remat_status read_id(const char *id, const char *place, json_t *ids, remat_error *error)
{
    char field[REMAT_FIELD_SIZE];
    if (!id)
        return REMAT_OK;
    snprintf(field, sizeof field, "%sid", place);
    if (json_object_get(ids, id))
        return remat_fail(error, REMAT_INVALID, field, "%s is \"%.100s\", which another buffer is",
                          field, id);
    return json_object_set_new(ids, id, json_true()) ? remat_fail_memory(error) : REMAT_OK;
}

static remat_status read_buffer(const json_t *json, size_t i, json_t *ids, span *ret_span,
                                remat_allocation *ret_item, remat_error *error)
{
    const char *id = NULL;
    char place[40], field[48];
    remat_number lower = {0}, upper = {0}, size = {0};
    const field_rule rules[] = {{"id", FIELD_STRING, false, &id},
                                {"lower", FIELD_NUMBER, true, &lower},
                                {"upper", FIELD_NUMBER, true, &upper},
                                {"size", FIELD_NUMBER, true, &size}};
    snprintf(place, sizeof place, "buffers[%zu].", i);
    snprintf(field, sizeof field, "%ssize", place);
    remat_status status = api_read(json, place, rules, sizeof rules / sizeof *rules, error);
    if (!status)
        status = read_id(id, place, ids, error);
    if (!status)
        status = read_span(json_object_get(json, "lower"), json_object_get(json, "upper"), place,
                           ret_span, error);
    if (!status)
        status = api_whole(&size, field, 1, REMAT_MAX_BYTES - 1, &ret_item->bytes, error);
    return status;
}

static int32_t rank_of(const moment *times, size_t n, const moment *time)
{
    const moment *found = bsearch(time, times, n, sizeof *times, compare_moments);
    return (int32_t)(found - times);
}

/* Only the order of the moments counts: they become numbers from 0 on. */
static bool rank_times(const span *spans, remat_allocation *items, size_t n)
{
    moment *times = malloc((2 * n + 1) * sizeof *times);
    size_t kept = 0;
    if (!times)
        return false;
    for (size_t i = 0; i < n; i++) {
        times[2 * i] = spans[i].lower;
        times[2 * i + 1] = spans[i].upper;
    }
    qsort(times, 2 * n, sizeof *times, compare_moments);
    for (size_t i = 0; i < 2 * n; i++)
        if (kept == 0 || compare_moments(&times[kept - 1], &times[i]) < 0)
            times[kept++] = times[i];
    for (size_t i = 0; i < n; i++) {
        items[i].first = rank_of(times, kept, &spans[i].lower);
        items[i].last = rank_of(times, kept, &spans[i].upper) - 1;
    }
    free(times);
    return true;
}

static remat_status read_buffers(const json_t *list, remat_layout *layout, remat_error *error)
{
    const size_t n = json_array_size(list);
    if (n > REMAT_MOST_LAID_OUT)
        return remat_fail(error, REMAT_TOO_LARGE, "buffers", "%zu buffers are past the limit of %u",
                          n, REMAT_MOST_LAID_OUT);
    span *spans = malloc((n + 1) * sizeof *spans);
    layout->items = calloc(n + 1, sizeof *layout->items);
    json_t *ids = json_object();
    remat_status status = spans && layout->items && ids ? REMAT_OK : remat_fail_memory(error);
    for (size_t i = 0; i < n && !status; i++)
        status = read_buffer(json_array_get(list, i), i, ids, &spans[i], &layout->items[i], error);
    layout->n = n;
    if (!status && !rank_times(spans, layout->items, n))
        status = remat_fail_memory(error);
    free(spans);
    json_decref(ids);
    return status;
}

remat_status remat_layout_decode(const json_t *json, remat_layout_request *ret_request,
                                 remat_error *error)
{
    const json_t *buffers = NULL, *capacity = NULL;
    remat_number alignment = {0};
    remat_amount bytes = {0};
    remat_layout_request request = {.layout.alignment = 1};
    const field_rule rules[] = {{"buffers", FIELD_ARRAY, true, &buffers},
                                {"alignment", FIELD_NUMBER, false, &alignment},
                                {"capacity", FIELD_ANY, false, &capacity}};
    remat_status status = api_read(json, "", rules, sizeof rules / sizeof *rules, error);
    if (!status)
        status = api_alignment(&alignment, "alignment", &request.layout.alignment, error);
    if (!status && capacity)
        status = remat_amount_decode(capacity, "capacity", false, &bytes, error);
    if (!status)
        status = read_buffers(buffers, &request.layout, error);
    request.bounded = capacity != NULL;
    request.capacity = (uint64_t)bytes.value;
    if (status)
        remat_layout_request_clear(&request);
    else
        *ret_request = request;
    return status;
}

void remat_layout_request_clear(remat_layout_request *request)
{
    remat_layout_clear(&request->layout);
}

/* Measured: 270 bytes for each of a million; the search up to 50 MB. */
uint64_t remat_layout_memory(const remat_layout_request *request)
{
    enum { OF_BUFFER = 512, OF_PAIR = 16, MOST_SEARCHED = 5000, MOST_PAIRS = 4000000 };
    const uint64_t n = request->layout.n, pairs = n * n < MOST_PAIRS ? n * n : MOST_PAIRS;
    return OF_BUFFER * n + (n <= MOST_SEARCHED ? OF_PAIR * pairs : 0);
}

/* ---- the answer ---- */

/* No arena is smaller: what is alive together, of which the highest need not be rounded up. */
static uint64_t lower_bound(const remat_layout *layout)
{
    uint64_t spare = 0;
    for (size_t i = 0; i < layout->n; i++) {
        const uint64_t one = (0 - layout->items[i].bytes) & (layout->alignment - 1);
        spare = one > spare ? one : spare;
    }
    const uint64_t rounded = layout->aligned_peak > spare ? layout->aligned_peak - spare : 0;
    return rounded > layout->peak ? rounded : layout->peak;
}

static const char *verdict(const remat_layout_request *request, uint64_t bound)
{
    return request->layout.arena <= request->capacity ? "fits"
           : request->capacity < bound                ? "impossible"
                                                      : "not found";
}

static json_t *encode(const remat_layout_request *request)
{
    const remat_layout *layout = &request->layout;
    const uint64_t bound = lower_bound(layout);
    json_t *offsets = json_array();
    for (size_t i = 0; i < layout->n; i++)
        remat_json_append(&offsets, json_integer((json_int_t)layout->items[i].offset));
    json_t *json = json_pack("{s:I, s:I, s:b, s:I}", "arena", (json_int_t)layout->arena,
                             "lower_bound_bytes", (json_int_t)bound, "optimal",
                             layout->arena == bound, "alignment", (json_int_t)layout->alignment);
    if (request->bounded) {
        remat_json_set(&json, "capacity", json_integer((json_int_t)request->capacity));
        remat_json_set(&json, "verdict", json_string(verdict(request, bound)));
    }
    remat_json_set(&json, "offsets", offsets);
    return json;
}

remat_status remat_answer_layout(remat_layout_request *request, const remat_host *host,
                                 json_t **ret_answer, remat_error *error)
{
    remat_layout *layout = &request->layout;
    remat_status status = remat_layout_place(layout, request->capacity, host, error);
    if (status)
        return status;
    remat_error fault;
    if (remat_layout_check_places(layout, &fault))
        return fault.status == REMAT_NO_MEMORY
                   ? remat_fail_memory(error)
                   : remat_fail(error, REMAT_INTERNAL, NULL, "a layout was refused: %.400s",
                                fault.message);
    json_t *answer = encode(request);
    if (!answer)
        return remat_fail_memory(error);
    *ret_answer = answer;
    return REMAT_OK;
}
