/* The facts of an explanation. The judge says when and how much; the lives of a layout, which share
 * no code with it, say what is there at the peak. */
#include "remat/explain.h"

#include "model/layout.h"

#include <math.h>
#include <stdlib.h>

static int by_bytes(const void *left, const void *right)
{
    const remat_allocation *a = left, *b = right;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->index != b->index)
        return a->index < b->index ? -1 : 1;
    return (a->result > b->result) - (a->result < b->result);
}

/* Two that share their place meet at the operation that overwrites one of them. */
static void leave_shared_out(model_lives *lives, int32_t peak)
{
    for (uint32_t i = 0; i < lives->n; i++) {
        uint32_t made = lives->next[i];
        if (made == UINT32_MAX || lives->items[made].first != peak)
            continue;
        bool smaller = lives->items[i].bytes < lives->items[made].bytes;
        lives->items[smaller ? i : made].first = INT32_MAX;
    }
}

static remat_status find_peak(const remat_profile *profile, const remat_operations *operations,
                              remat_explanation *e, remat_error *error)
{
    model_lives lives = {0};
    int32_t peak = (int32_t)e->simulation.peak_operation;
    remat_status status = model_layout_lives(profile, operations, &lives, error);
    if (status)
        return status;
    leave_shared_out(&lives, peak);
    for (uint32_t i = 0; i < lives.n; i++)
        if (lives.items[i].first <= peak && peak <= lives.items[i].last)
            lives.items[e->n_at_peak++] = lives.items[i];
    if (e->n_at_peak > 0)
        qsort(lives.items, e->n_at_peak, sizeof *lives.items, by_bytes);
    e->at_peak = lives.items;
    free(lives.next);
    return REMAT_OK;
}

static void look_at_link(const remat_profile *profile, const remat_operations *operations,
                         const remat_link *link, const remat_moment *moments, remat_explanation *e)
{
    double best = INFINITY;
    e->until = moments[e->simulation.peak_operation].start;
    for (size_t i = 0; i < operations->length; i++) {
        const remat_operation *operation = &operations->items[i];
        e->n_moved += operation->kind == REMAT_O;
        if (operation->kind == REMAT_B && operation->index + 1 == profile->n_nodes)
            e->until = moments[i].start;
    }
    for (uint32_t v = 0; v < profile->n_nodes; v++) {
        const remat_node *node = &profile->nodes[v];
        double again = e->recomputed[v];
        uint64_t bytes = node->saved_bytes ? node->saved_bytes : node->output_bytes;
        double out = link->latency + (double)bytes / link->to_host;
        double back = link->latency + (double)bytes / link->to_device;
        if (again <= 0 || bytes == 0 || !((out + back) / again < best))
            continue;
        best = (out + back) / again;
        e->detour = (remat_detour){v, bytes, out, back, again};
    }
}

remat_status remat_explain(const remat_profile *profile, const remat_operations *operations,
                           const remat_link *link, remat_explanation *ret_explanation,
                           remat_error *error)
{
    remat_explanation e = {.detour.node = profile->n_nodes};
    remat_moment *moments = calloc(operations->length + 1, sizeof *moments);
    e.recomputed = calloc(profile->n_nodes, sizeof *e.recomputed);
    remat_status status = moments && e.recomputed ? REMAT_OK : remat_fail_memory(error);
    if (!status)
        status =
            remat_simulate(profile, operations, link, moments, e.recomputed, &e.simulation, error);
    if (!status && e.simulation.valid)
        status = find_peak(profile, operations, &e, error);
    if (!status && e.simulation.valid)
        status = remat_find_floor(profile, &e.floor, error);
    if (!status && e.simulation.valid && link)
        look_at_link(profile, operations, link, moments, &e);
    free(moments);
    if (status)
        remat_explanation_clear(&e);
    else
        *ret_explanation = e;
    return status;
}

void remat_explanation_clear(remat_explanation *explanation)
{
    free(explanation->recomputed);
    free(explanation->at_peak);
    *explanation = (remat_explanation){0};
}
