/* A layout from the list: replay, lives, packing. */
#include "model/layout_pack.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLACE_WORK UINT64_C(1000000000) /* of buffers alone, for which nobody waits so often */

/* The peak of a valid list. It depends on the order alone, so any link will do. */
static remat_status replay(const remat_profile *profile, const remat_operations *operations,
                           remat_simulation *ret_simulation, remat_error *error)
{
    const remat_link link = {.to_host = INFINITY, .to_device = INFINITY};
    remat_status status =
        remat_simulate(profile, operations, &link, NULL, NULL, ret_simulation, error);
    if (status || ret_simulation->valid)
        return status;
    char field[48] = "operations";
    if (ret_simulation->bad_operation < operations->length)
        snprintf(field, sizeof field, "operations[%zu]", ret_simulation->bad_operation);
    return remat_fail(error, REMAT_INVALID, field, "%s", ret_simulation->reason);
}

static remat_status pack(const model_lives *lives, const model_goal *goal, uint64_t *ret_held_arena,
                         uint64_t *ret_arena, uint64_t *ret_peak)
{
    *ret_held_arena = 0;
    return goal->in_flight > 1
               ? model_layout_pack_in_flight(lives, goal, ret_held_arena, ret_arena, ret_peak)
               : model_layout_pack(lives, goal, ret_arena, ret_peak);
}

/* With several in flight the blocks of the others may be what is too large: everywhere, then. */
void model_layout_over(const remat_layout *layout, uint64_t capacity, size_t length, uint64_t *over)
{
    const bool others = layout->in_flight > 1;
    for (size_t at = 0; at < length && others && layout->arena > capacity; at++)
        over[at] = layout->arena - capacity;
    for (size_t i = 0; i < layout->n && !others; i++) {
        const remat_allocation *a = &layout->items[i];
        const uint64_t end = a->offset + a->bytes;
        for (int32_t at = a->first < 0 ? 0 : a->first; end > capacity && at <= a->last; at++)
            over[at] = end - capacity > over[at] ? end - capacity : over[at];
    }
}

remat_status model_layout_arena(const remat_profile *profile, const remat_operations *operations,
                                const model_goal *goal, uint64_t *ret_arena, uint64_t *over,
                                remat_error *error)
{
    model_lives lives;
    uint64_t peak, held;
    remat_status status = model_layout_lives(profile, operations, &lives, error);
    if (status)
        return status;
    status = pack(&lives, goal, &held, ret_arena, &peak);
    const remat_layout layout = {
        .items = lives.items, .n = lives.n, .in_flight = goal->in_flight, .arena = *ret_arena};
    if (!status && over && goal->work > 0)
        model_layout_over(&layout, goal->capacity, operations->length, over);
    free(lives.items);
    free(lives.next);
    return status == REMAT_NO_MEMORY ? remat_fail_memory(error) : status;
}

static remat_status check_alignment(uint64_t alignment, remat_error *error)
{
    if (alignment > 0 && !(alignment & (alignment - 1)) && alignment <= REMAT_MAX_ALIGNMENT)
        return REMAT_OK;
    return remat_fail(error, REMAT_INVALID, "alignment",
                      "an alignment of %llu is not a power of two from 1 to %llu",
                      (unsigned long long)alignment, (unsigned long long)REMAT_MAX_ALIGNMENT);
}

/* The allocations without offsets; ret_next is the caller's to free. */
static remat_status begin(const remat_profile *profile, const remat_operations *operations,
                          uint64_t alignment, uint32_t in_flight, remat_layout *ret_layout,
                          size_t *ret_turn, uint32_t **ret_next, remat_error *error)
{
    remat_simulation simulation;
    model_lives lives;
    remat_status status = check_alignment(alignment, error);
    if (!status)
        status = replay(profile, operations, &simulation, error);
    if (!status)
        status = model_layout_lives(profile, operations, &lives, error);
    if (status)
        return status;
    remat_put_in_flight(&simulation, in_flight);
    *ret_turn = simulation.turn;
    *ret_layout = (remat_layout){.items = lives.items,
                                 .n = lives.n,
                                 .alignment = alignment,
                                 .in_flight = in_flight,
                                 .peak = simulation.peak};
    *ret_next = lives.next;
    return REMAT_OK;
}

remat_status remat_layout_unplaced(const remat_profile *profile, const remat_operations *operations,
                                   uint64_t alignment, remat_layout *ret_layout, remat_error *error)
{
    uint32_t *next = NULL;
    size_t turn;
    remat_status status = begin(profile, operations, alignment, 1, ret_layout, &turn, &next, error);
    free(next);
    return status;
}

remat_status model_layout_new(const remat_profile *profile, const remat_operations *operations,
                              const model_goal *asked, remat_layout *ret_layout, remat_error *error)
{
    remat_layout layout = {0};
    model_goal goal = *asked;
    uint32_t *next = NULL;
    remat_status status = begin(profile, operations, goal.alignment, goal.in_flight, &layout,
                                &goal.turn, &next, error);
    if (status)
        return status;
    const model_lives lives = {layout.items, next, (uint32_t)layout.n};
    status = pack(&lives, &goal, &layout.held_arena, &layout.arena, &layout.aligned_peak);
    free(next);
    if (!status) {
        *ret_layout = layout;
        return REMAT_OK;
    }
    remat_layout_clear(&layout);
    return status == REMAT_CANCELLED ? remat_fail(error, status, NULL, "cancelled")
                                     : remat_fail_memory(error);
}

remat_status remat_layout_in_flight(const remat_profile *profile,
                                    const remat_operations *operations, uint32_t in_flight,
                                    uint64_t alignment, uint64_t capacity, const remat_host *host,
                                    remat_layout *ret_layout, remat_error *error)
{
    const model_goal goal = {.alignment = alignment,
                             .capacity = capacity,
                             .work = REMAT_LAYOUT_WORK,
                             .host = host,
                             .in_flight = in_flight};
    return model_layout_new(profile, operations, &goal, ret_layout, error);
}

remat_status remat_layout_within(const remat_profile *profile, const remat_operations *operations,
                                 uint64_t alignment, uint64_t capacity, const remat_host *host,
                                 remat_layout *ret_layout, remat_error *error)
{
    return remat_layout_in_flight(profile, operations, 1, alignment, capacity, host, ret_layout,
                                  error);
}

remat_status remat_layout_new(const remat_profile *profile, const remat_operations *operations,
                              uint64_t alignment, remat_layout *ret_layout, remat_error *error)
{
    return remat_layout_within(profile, operations, alignment, 0, NULL, ret_layout, error);
}

/* ---- buffers of other origin ---- */

static remat_status check_buffers(const remat_layout *layout, remat_error *error)
{
    uint64_t sum = 0;
    if (layout->n > REMAT_MOST_BUFFERS)
        return remat_fail(error, REMAT_TOO_LARGE, "buffers", "%zu buffers are past the limit of %u",
                          layout->n, REMAT_MOST_BUFFERS);
    for (size_t i = 0; i < layout->n; i++) {
        const remat_allocation *b = &layout->items[i];
        char field[48];
        snprintf(field, sizeof field, "buffers[%zu]", i);
        if (b->bytes == 0 || b->bytes > REMAT_MAX_BYTES)
            return remat_fail(error, REMAT_INVALID, field,
                              "%s has %llu bytes: 1 to 2^53 - 1 will do", field,
                              (unsigned long long)b->bytes);
        if (b->first > b->last || b->last == INT32_MAX)
            return remat_fail(error, REMAT_INVALID, field, "%s lives from %d to %d", field,
                              (int)b->first, (int)b->last);
        sum += remat_layout_align(b->bytes, layout->alignment);
        if (sum > UINT64_C(1) << 62)
            return remat_fail(error, REMAT_TOO_LARGE, field,
                              "with %s the sizes add up to more than 2^62 bytes", field);
    }
    return REMAT_OK;
}

/* Of the bytes as they are: largest sum of what is alive together. */
static remat_status find_peak(const model_lives *lives, uint64_t *ret_peak)
{
    packing k;
    remat_status status = pack_new(lives, 1, &k);
    *ret_peak = k.peak;
    pack_clear(&k);
    return status;
}

static int compare_births(const void *a, const void *b)
{
    const remat_allocation *p = a, *q = b;
    if (p->first != q->first)
        return p->first < q->first ? -1 : 1;
    return p->index < q->index ? -1 : 1;
}

/* The buffers in the order in which they are made, as the packer wants them; index says which of
 * the layout's each is. */
static bool sort_buffers(const remat_layout *layout, model_lives *ret_lives)
{
    const size_t n = layout->n;
    *ret_lives = (model_lives){malloc((n + 1) * sizeof *ret_lives->items),
                               malloc((n + 1) * sizeof *ret_lives->next), (uint32_t)n};
    if (!ret_lives->items || !ret_lives->next)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        ret_lives->items[i] = layout->items[i];
        ret_lives->items[i].index = i;
        ret_lives->next[i] = REMAT_LAYOUT_NONE;
    }
    qsort(ret_lives->items, n, sizeof *ret_lives->items, compare_births);
    return true;
}

remat_status remat_layout_place(remat_layout *layout, uint64_t capacity, const remat_host *host,
                                remat_error *error)
{
    remat_status status = check_alignment(layout->alignment, error);
    if (!status)
        status = check_buffers(layout, error);
    if (status)
        return status;
    model_lives lives;
    const model_goal goal = {
        .alignment = layout->alignment, .capacity = capacity, .work = PLACE_WORK, .host = host};
    uint64_t arena = 0, aligned_peak = 0, peak = 0;
    if (!sort_buffers(layout, &lives))
        status = REMAT_NO_MEMORY;
    if (!status)
        status = model_layout_pack(&lives, &goal, &arena, &aligned_peak);
    if (!status)
        status = find_peak(&lives, &peak);
    for (uint32_t i = 0; i < lives.n && !status; i++)
        layout->items[lives.items[i].index].offset = lives.items[i].offset;
    free(lives.items);
    free(lives.next);
    if (status)
        return status == REMAT_CANCELLED ? remat_fail(error, status, NULL, "cancelled")
                                         : remat_fail_memory(error);
    layout->arena = arena;
    layout->aligned_peak = aligned_peak;
    layout->peak = peak;
    return REMAT_OK;
}

void remat_layout_clear(remat_layout *layout)
{
    free(layout->items);
    *layout = (remat_layout){0};
}

const char *remat_allocation_kind_name(remat_allocation_kind kind)
{
    static const char *const names[] = {"input",      "out",       "saved", "grad",
                                        "input_grad", "workspace", "state"};
    return names[kind];
}

const char *remat_allocation_id(const remat_profile *profile, const remat_allocation *allocation)
{
    if (allocation->kind == REMAT_ALLOCATION_STATE)
        return profile->states[allocation->index].id;
    bool input = allocation->kind == REMAT_ALLOCATION_INPUT ||
                 allocation->kind == REMAT_ALLOCATION_INPUT_GRADIENT;
    return input ? profile->inputs[allocation->index].id : profile->nodes[allocation->index].id;
}
