#include "model/lists.h"

#include "model/arrays.h"

remat_status model_copy_list(const remat_operations *from, remat_operations *to)
{
    if (!model_reserve(&to->items, &to->capacity, from->length, sizeof *to->items))
        return REMAT_NO_MEMORY;
    if (from->length > 0)
        memcpy(to->items, from->items, from->length * sizeof *to->items);
    to->length = from->length;
    return REMAT_OK;
}

bool model_same_list(const remat_operations *one, const remat_operations *other)
{
    _Static_assert(sizeof(remat_operation) == 12, "memcmp compares members alone");
    return one->length == other->length &&
           (one->length == 0 ||
            memcmp(one->items, other->items, one->length * sizeof *one->items) == 0);
}

void model_swap_lists(remat_operations *one, remat_operations *other)
{
    remat_operations old = *one;
    *one = *other;
    *other = old;
}

remat_status model_complete_list(const remat_profile *profile, const remat_operations *list,
                                 remat_operations *ret_list, remat_error *error)
{
    remat_operations live = {0};
    if (profile->n_states == 0)
        return remat_liveness(profile, list, ret_list, error);
    remat_status status = remat_liveness(profile, list, &live, error);
    if (!status)
        status = remat_insert_states(profile, &live, ret_list, error);
    remat_operations_clear(&live);
    return status;
}

static uint16_t fastest_implementation(const remat_node *node)
{
    uint16_t fastest = 0;
    double least = node->forward_time + node->backward_time;
    for (uint32_t k = 1; k <= node->n_alternatives; k++) {
        const remat_alternative cost = remat_implementation(node, k);
        if (cost.forward_time + cost.backward_time < least) {
            least = cost.forward_time + cost.backward_time;
            fastest = (uint16_t)k;
        }
    }
    return fastest;
}

remat_status model_store_everything(const remat_profile *profile, remat_operations *list)
{
    uint32_t n = profile->n_nodes, runs = profile->joint ? n : 2 * n;
    remat_status status = REMAT_OK;
    for (uint32_t i = 0; i < runs && !status; i++) {
        uint32_t v = i < n ? i : 2 * n - 1 - i;
        uint16_t way = fastest_implementation(&profile->nodes[v]);
        bool saves = remat_implementation(&profile->nodes[v], way).saved_bytes > 0;
        status = remat_operations_push(list, (remat_operation){.kind = i >= n  ? REMAT_B
                                                                       : saves ? REMAT_A
                                                                               : REMAT_F,
                                                               .index = v,
                                                               .alternative = way});
    }
    return status;
}
