#include "chain/ways.h"

/* Puts one into a list that increases in bytes and decreases in ticks, unless another is as
 * good. */
static void put_single(chain_single_way *list, uint32_t *n, chain_single_way one)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < *n; i++)
        if (list[i].bytes <= one.bytes && list[i].ticks <= one.ticks)
            return;
    for (uint32_t i = 0; i < *n; i++)
        if (list[i].bytes < one.bytes || list[i].ticks < one.ticks)
            list[kept++] = list[i];
    uint32_t at = kept;
    for (; at > 0 && list[at - 1].bytes > one.bytes; at--)
        list[at] = list[at - 1];
    list[at] = one;
    *n = kept + 1;
}

static bool as_good(const chain_double_way *a, const chain_double_way *b)
{
    return a->kept <= b->kept && a->save_workspace <= b->save_workspace &&
           a->backward_bytes <= b->backward_bytes && a->ticks <= b->ticks;
}

static void put_double(chain_double_way *list, uint32_t *n, chain_double_way one)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < *n; i++)
        if (as_good(&list[i], &one))
            return;
    for (uint32_t i = 0; i < *n; i++)
        if (!as_good(&one, &list[i]))
            list[kept++] = list[i];
    list[kept++] = one;
    *n = kept;
}

/* F_all with way f, B with way b. */
static chain_double_way pair_of(const chain_way *ways, uint32_t f, uint32_t b)
{
    return (chain_double_way){.kept = ways[f].kept,
                              .save_workspace = ways[f].save_workspace,
                              .backward_bytes = ways[b].backward_bytes,
                              .ticks = ways[f].forward + ways[b].backward,
                              .forward = f,
                              .backward = b};
}

/* passes, directs and saves out of ways. */
static remat_status sift(core_arena *arena, chain_stage_ways *stage)
{
    uint32_t n = stage->n_ways;
    chain_single_way *passes = core_arena_array(arena, n, sizeof *passes);
    chain_single_way *directs = core_arena_array(arena, n, sizeof *directs);
    chain_double_way *saves = core_arena_array(arena, (size_t)n * n, sizeof *saves);
    if (!passes || !directs || !saves)
        return REMAT_NO_MEMORY;
    for (uint32_t f = 0; f < n; f++) {
        const chain_way *way = &stage->ways[f];
        put_single(passes, &stage->n_passes,
                   (chain_single_way){way->forward_workspace, way->forward, f});
        if (stage->reads_input_only && !way->keeps)
            put_single(directs, &stage->n_directs,
                       (chain_single_way){way->backward_bytes, way->backward, f});
        for (uint32_t b = 0; b < n; b++)
            if (f == b || (!way->keeps && !stage->ways[b].keeps))
                put_double(saves, &stage->n_saves, pair_of(stage->ways, f, b));
    }
    stage->passes = passes;
    stage->directs = directs;
    stage->saves = saves;
    return REMAT_OK;
}

remat_status chain_ways_find(const remat_profile *profile, chain_costs *chain)
{
    for (uint32_t i = 1; i <= chain->n; i++) {
        const remat_node *node = &profile->nodes[i - 1];
        chain_stage_ways *stage = &chain->stages[i];
        uint32_t n = node->n_alternatives + 1;
        chain_way *ways = core_arena_array(&chain->arena, n, sizeof *ways);
        if (!ways)
            return REMAT_NO_MEMORY;
        for (uint32_t k = 0; k < n; k++) {
            const remat_alternative cost = remat_implementation(node, k);
            ways[k] = (chain_way){.kept = node->output_bytes + cost.saved_bytes,
                                  .keeps = cost.saved_bytes > 0,
                                  .forward_workspace = cost.forward_workspace_bytes,
                                  .save_workspace = cost.save_workspace_bytes,
                                  .backward_bytes = chain->backward_bytes[i] -
                                                    node->backward_workspace_bytes +
                                                    cost.backward_workspace_bytes,
                                  .forward = chain_ticks(chain, cost.forward_time),
                                  .backward = chain_ticks(chain, cost.backward_time)};
        }
        stage->ways = ways;
        stage->n_ways = n;
        stage->reads_input_only = i < chain->n && !node->backward_uses_output;
        if (sift(&chain->arena, stage))
            return REMAT_NO_MEMORY;
    }
    return REMAT_OK;
}
