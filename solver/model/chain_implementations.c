#include "model/chain_implementations.h"

/* Puts one into a list that increases in bytes and decreases in ticks, unless another is as
 * good. */
static void put_single(chain_single *list, uint32_t *n, chain_single one)
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

static bool as_good(const chain_double *a, const chain_double *b)
{
    return a->kept <= b->kept && a->save_workspace <= b->save_workspace &&
           a->backward_bytes <= b->backward_bytes && a->ticks <= b->ticks;
}

static void put_double(chain_double *list, uint32_t *n, chain_double one)
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

/* F_all with implementation f, B with implementation b. */
static chain_double pair_of(const chain_implementation *implementations, uint32_t f, uint32_t b)
{
    return (chain_double){.kept = implementations[f].kept,
                          .save_workspace = implementations[f].save_workspace,
                          .backward_bytes = implementations[b].backward_bytes,
                          .ticks = implementations[f].forward + implementations[b].backward,
                          .forward = f,
                          .backward = b};
}

/* passes, directs and saves out of implementations. */
static remat_status sift(model_arena *arena, chain_stage *stage)
{
    uint32_t n = stage->n_implementations;
    chain_single *passes = model_arena_array(arena, n, sizeof *passes);
    chain_single *directs = model_arena_array(arena, n, sizeof *directs);
    chain_double *saves = model_arena_array(arena, (size_t)n * n, sizeof *saves);
    if (!passes || !directs || !saves)
        return REMAT_NO_MEMORY;
    for (uint32_t f = 0; f < n; f++) {
        const chain_implementation *implementation = &stage->implementations[f];
        put_single(passes, &stage->n_passes,
                   (chain_single){implementation->forward_workspace, implementation->forward, f});
        if (stage->reads_input_only && !implementation->keeps)
            put_single(directs, &stage->n_directs,
                       (chain_single){implementation->backward_bytes, implementation->backward, f});
        for (uint32_t b = 0; b < n; b++)
            if (f == b || (!implementation->keeps && !stage->implementations[b].keeps))
                put_double(saves, &stage->n_saves, pair_of(stage->implementations, f, b));
    }
    stage->passes = passes;
    stage->directs = directs;
    stage->saves = saves;
    return REMAT_OK;
}

remat_status chain_implementations_find(const remat_profile *profile, chain_costs *chain)
{
    for (uint32_t i = 1; i <= chain->n; i++) {
        const remat_node *node = &profile->nodes[i - 1];
        chain_stage *stage = &chain->stages[i];
        uint32_t n = node->n_alternatives + 1;
        chain_implementation *implementations =
            model_arena_array(&chain->arena, n, sizeof *implementations);
        if (!implementations)
            return REMAT_NO_MEMORY;
        for (uint32_t k = 0; k < n; k++) {
            const remat_alternative cost = remat_implementation(node, k);
            implementations[k] = (chain_implementation){
                .kept = node->output_bytes + cost.saved_bytes,
                .keeps = cost.saved_bytes > 0,
                .forward_workspace = cost.forward_workspace_bytes,
                .save_workspace = cost.save_workspace_bytes,
                .backward_bytes = chain->backward_bytes[i] - node->backward_workspace_bytes +
                                  cost.backward_workspace_bytes,
                .forward = chain_ticks(chain, cost.forward_time),
                .backward = chain_ticks(chain, cost.backward_time)};
        }
        stage->implementations = implementations;
        stage->n_implementations = n;
        stage->reads_input_only = i < chain->n && !node->backward_uses_output;
        if (sift(&chain->arena, stage))
            return REMAT_NO_MEMORY;
    }
    return REMAT_OK;
}
