/* A layout from the list: replay, lives, lower bound, packing. */
#include "model/layout.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Past so many allocations one pass over pairs of them takes longer than it may. */
enum { MANY = 20000 };

/* Largest sum of sizes, rounded up, alive at once; of one that overwrites another the larger. The
 * highest of those alive then need not be rounded up: what no arena is below. */
static remat_status find_aligned_peak(const model_lives *lives, size_t length, uint64_t alignment,
                                      uint64_t *ret_peak, uint64_t *ret_least)
{
    uint64_t *change = calloc(length + 3, sizeof *change); /* of operation i - 1; modulo 2^64 */
    if (!change)
        return REMAT_NO_MEMORY;
    for (uint32_t i = 0; i < lives->n; i++) {
        const remat_allocation *item = &lives->items[i];
        uint64_t size = remat_layout_align(item->bytes, alignment);
        change[item->first + 1] += size;
        change[item->last + 2] -= size;
        if (lives->next[i] == REMAT_LAYOUT_NONE)
            continue;
        uint64_t other = remat_layout_align(lives->items[lives->next[i]].bytes, alignment);
        uint64_t shared = size < other ? size : other;
        change[item->last + 1] -= shared;
        change[item->last + 2] += shared;
    }
    uint64_t sum = 0, peak = 0, spare = 0;
    int64_t at = 0;
    for (size_t i = 0; i < length + 1; i++) {
        sum += change[i];
        if (sum > peak) {
            peak = sum;
            at = (int64_t)i - 1;
        }
    }
    free(change);
    for (uint32_t i = 0; i < lives->n; i++) {
        const remat_allocation *item = &lives->items[i];
        uint64_t rounding = remat_layout_align(item->bytes, alignment) - item->bytes;
        if (item->first <= at && at <= item->last && rounding > spare)
            spare = rounding;
    }
    *ret_peak = peak;
    *ret_least = peak - spare;
    return REMAT_OK;
}

/* The peak of a valid list. It depends on the order alone, so any link will do. */
static remat_status replay(const remat_profile *profile, const remat_operations *operations,
                           uint64_t *ret_peak, remat_error *error)
{
    const remat_link link = {.to_host = INFINITY, .to_device = INFINITY};
    remat_simulation simulation;
    remat_status status =
        remat_simulate(profile, operations, &link, NULL, NULL, &simulation, error);
    if (status)
        return status;
    *ret_peak = simulation.peak;
    if (simulation.valid)
        return REMAT_OK;
    char field[48] = "operations";
    if (simulation.bad_operation < operations->length)
        snprintf(field, sizeof field, "operations[%zu]", simulation.bad_operation);
    return remat_fail(error, REMAT_INVALID, field, "%s", simulation.reason);
}

static remat_status lay_out(const model_lives *lives, size_t length, remat_layout *layout)
{
    uint64_t arena = 0, least = 0;
    remat_status status =
        find_aligned_peak(lives, length, layout->alignment, &layout->aligned_peak, &least);
    if (!status)
        status = model_layout_pack_online(lives, layout->alignment, &arena);
    if (!status && arena > least && lives->n <= MANY)
        status = model_layout_pack(lives, layout->alignment, layout->aligned_peak, least, arena,
                                   REMAT_LAYOUT_WORK);
    for (uint32_t i = 0; i < lives->n && !status; i++) {
        uint64_t end = lives->items[i].offset + lives->items[i].bytes;
        layout->arena = end > layout->arena ? end : layout->arena;
    }
    return status;
}

remat_status model_layout_arena(const remat_profile *profile, const remat_operations *operations,
                                uint64_t alignment, uint64_t enough, uint64_t work,
                                uint64_t *ret_arena, remat_error *error)
{
    model_lives lives;
    uint64_t peak = 0, least = 0, arena = 0;
    remat_status status = model_layout_lives(profile, operations, &lives, error);
    if (status)
        return status;
    status = find_aligned_peak(&lives, operations->length, alignment, &peak, &least);
    if (!status)
        status = model_layout_pack_online(&lives, alignment, &arena);
    uint64_t target = peak > enough ? peak : enough;
    if (!status && arena > target && lives.n <= MANY)
        status = model_layout_pack(&lives, alignment, target, UINT64_MAX, arena, work);
    arena = 0;
    for (uint32_t i = 0; i < lives.n; i++) {
        uint64_t end = lives.items[i].offset + remat_layout_align(lives.items[i].bytes, alignment);
        arena = end > arena ? end : arena;
    }
    free(lives.items);
    free(lives.next);
    if (status)
        return remat_fail_memory(error);
    *ret_arena = arena;
    return REMAT_OK;
}

/* The allocations without offsets; ret_next is the caller's to free. */
static remat_status begin(const remat_profile *profile, const remat_operations *operations,
                          uint64_t alignment, remat_layout *ret_layout, uint32_t **ret_next,
                          remat_error *error)
{
    if (alignment == 0 || (alignment & (alignment - 1)) || alignment > REMAT_MAX_ALIGNMENT)
        return remat_fail(error, REMAT_INVALID, "alignment",
                          "an alignment of %llu is not a power of two from 1 to %llu",
                          (unsigned long long)alignment, (unsigned long long)REMAT_MAX_ALIGNMENT);
    uint64_t peak;
    model_lives lives;
    remat_status status = replay(profile, operations, &peak, error);
    if (!status)
        status = model_layout_lives(profile, operations, &lives, error);
    if (status)
        return status;
    *ret_layout =
        (remat_layout){.items = lives.items, .n = lives.n, .alignment = alignment, .peak = peak};
    *ret_next = lives.next;
    return REMAT_OK;
}

remat_status remat_layout_unplaced(const remat_profile *profile, const remat_operations *operations,
                                   uint64_t alignment, remat_layout *ret_layout, remat_error *error)
{
    uint32_t *next = NULL;
    remat_status status = begin(profile, operations, alignment, ret_layout, &next, error);
    free(next);
    return status;
}

remat_status remat_layout_new(const remat_profile *profile, const remat_operations *operations,
                              uint64_t alignment, remat_layout *ret_layout, remat_error *error)
{
    remat_layout layout = {0};
    uint32_t *next = NULL;
    remat_status status = begin(profile, operations, alignment, &layout, &next, error);
    if (status)
        return status;
    const model_lives lives = {layout.items, next, (uint32_t)layout.n};
    status = lay_out(&lives, operations->length, &layout);
    free(next);
    if (status) {
        remat_layout_clear(&layout);
        return remat_fail_memory(error);
    }
    *ret_layout = layout;
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
