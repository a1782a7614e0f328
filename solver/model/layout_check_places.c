/* The judge of places alone, whatever they hold: no two that are alive together overlap, and the
 * peaks are what they are said to be. */
#include "remat/layout.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Two are alive together exactly where the later born one is born: so only births are looked at.
 * Items come in the order of their offsets, each with the births within its life, and must not
 * begin below the end of any before it there. A tree over the births says where that is. */
typedef struct roofs {
    const remat_layout *layout;
    const remat_allocation **order; /* by offset */
    int32_t *births;                /* sorted */
    uint64_t *highest, *whole;      /* by node, leaves behind: largest end below it; of all of it */
} roofs;

static int compare_numbers(const void *a, const void *b)
{
    const int32_t p = *(const int32_t *)a, q = *(const int32_t *)b;
    return (p > q) - (p < q);
}

static int compare_offsets(const void *a, const void *b)
{
    const remat_allocation *p = *(const remat_allocation *const *)a,
                           *q = *(const remat_allocation *const *)b;
    return (p->offset > q->offset) - (p->offset < q->offset);
}

/* Births before a moment. */
static size_t births_before(const roofs *r, int64_t moment)
{
    size_t low = 0, high = r->layout->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (r->births[middle] < moment)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Of births from to until (not included), which are not none: the largest end so far, which becomes
 * at least this. node covers width births from start on. */
static uint64_t raise_roof(roofs *r, size_t node, size_t start, size_t width, size_t from,
                           size_t until, uint64_t end)
{
    if (until <= start || start + width <= from)
        return 0;
    uint64_t before = r->whole[node];
    if (from <= start && start + width <= until) {
        before = r->highest[node];
        r->whole[node] = end > r->whole[node] ? end : r->whole[node];
    } else {
        uint64_t left = raise_roof(r, 2 * node, start, width / 2, from, until, end);
        uint64_t right =
            raise_roof(r, 2 * node + 1, start + width / 2, width / 2, from, until, end);
        before = left > before ? left : before;
        before = right > before ? right : before;
    }
    r->highest[node] = end > r->highest[node] ? end : r->highest[node];
    return before;
}

/* Of the first places in order, one that meets the one behind them. */
static remat_status refuse_places(const roofs *r, size_t place, remat_error *error)
{
    const remat_allocation *a = r->order[place], *b = NULL;
    for (size_t i = 0; i < place && !b; i++) {
        const remat_allocation *one = r->order[i];
        if (one->first <= a->last && a->first <= one->last && one->offset + one->bytes > a->offset)
            b = one;
    }
    char field[48];
    size_t i = (size_t)(a - r->layout->items), k = b ? (size_t)(b - r->layout->items) : i;
    snprintf(field, sizeof field, "buffers[%zu]", i);
    return remat_fail(error, REMAT_INVALID, field,
                      "buffers[%zu] (bytes %" PRIu64 " to %" PRIu64
                      ") and buffers[%zu] (bytes %" PRIu64 " to %" PRIu64 ") overlap",
                      i, a->offset, a->offset + a->bytes, k, r->layout->items[k].offset,
                      r->layout->items[k].offset + r->layout->items[k].bytes);
}

static remat_status check_overlaps(roofs *r, size_t width, remat_error *error)
{
    const size_t n = r->layout->n;
    for (size_t i = 0; i < n; i++) {
        r->order[i] = &r->layout->items[i];
        r->births[i] = r->layout->items[i].first;
    }
    qsort(r->order, n, sizeof *r->order, compare_offsets);
    qsort(r->births, n, sizeof *r->births, compare_numbers);
    for (size_t i = 0; i < n; i++) {
        const remat_allocation *one = r->order[i];
        size_t from = births_before(r, one->first),
               until = births_before(r, one->last + INT64_C(1));
        if (raise_roof(r, 1, 0, width, from, until, one->offset + one->bytes) > one->offset)
            return refuse_places(r, i, error);
    }
    return REMAT_OK;
}

static remat_status check_place(const remat_layout *layout, size_t i, remat_error *error)
{
    const remat_allocation *one = &layout->items[i];
    char field[48];
    snprintf(field, sizeof field, "buffers[%zu]", i);
    if (one->offset & (layout->alignment - 1))
        return remat_fail(error, REMAT_INVALID, field, "%s is not aligned", field);
    if (one->offset > layout->arena || one->bytes > layout->arena - one->offset)
        return remat_fail(error, REMAT_INVALID, field, "%s is not within the arena", field);
    return REMAT_OK;
}

static int compare_places_births(const void *a, const void *b)
{
    const remat_allocation *p = *(const remat_allocation *const *)a,
                           *q = *(const remat_allocation *const *)b;
    return (p->first > q->first) - (p->first < q->first);
}

static int compare_places_deaths(const void *a, const void *b)
{
    const remat_allocation *p = *(const remat_allocation *const *)a,
                           *q = *(const remat_allocation *const *)b;
    return (p->last > q->last) - (p->last < q->last);
}

/* Both peaks are what the lives add up to. by_birth and by_death: room for all. */
static remat_status check_peaks(const remat_layout *layout, const remat_allocation **by_birth,
                                const remat_allocation **by_death, remat_error *error)
{
    const size_t n = layout->n;
    const uint64_t rounding = layout->alignment - 1;
    uint64_t alive = 0, peak = 0, aligned = 0, aligned_peak = 0;
    for (size_t i = 0; i < n; i++)
        by_birth[i] = by_death[i] = &layout->items[i];
    qsort(by_birth, n, sizeof *by_birth, compare_places_births);
    qsort(by_death, n, sizeof *by_death, compare_places_deaths);
    for (size_t i = 0, dead = 0; i < n; i++) {
        for (; by_death[dead]->last < by_birth[i]->first; dead++) {
            alive -= by_death[dead]->bytes;
            aligned -= (by_death[dead]->bytes + rounding) & ~rounding;
        }
        alive += by_birth[i]->bytes;
        aligned += (by_birth[i]->bytes + rounding) & ~rounding;
        peak = alive > peak ? alive : peak;
        aligned_peak = aligned > aligned_peak ? aligned : aligned_peak;
    }
    if (peak == layout->peak && aligned_peak == layout->aligned_peak)
        return REMAT_OK;
    return remat_fail(error, REMAT_INVALID, "peak",
                      "the buffers alive together take %" PRIu64 " bytes, %" PRIu64
                      " aligned, not %" PRIu64 " and %" PRIu64,
                      peak, aligned_peak, layout->peak, layout->aligned_peak);
}

remat_status remat_layout_check_places(const remat_layout *layout, remat_error *error)
{
    size_t width = 1;
    remat_status status = REMAT_OK;
    for (size_t i = 0; i < layout->n && !status; i++)
        status = check_place(layout, i, error);
    if (status)
        return status;
    while (width < layout->n)
        width *= 2;
    roofs r = {.layout = layout,
               .order = malloc((2 * layout->n + 1) * sizeof *r.order),
               .births = malloc((layout->n + 1) * sizeof *r.births),
               .highest = calloc(4 * width, sizeof *r.highest)};
    r.whole = r.highest ? r.highest + 2 * width : NULL;
    if (!r.order || !r.births || !r.highest)
        status = remat_fail_memory(error);
    if (!status)
        status = check_overlaps(&r, width, error);
    if (!status)
        status = check_peaks(layout, r.order, r.order + layout->n, error);
    free(r.order);
    free(r.births);
    free(r.highest);
    return status;
}
