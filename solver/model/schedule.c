#include "remat/schedule.h"

#include "model/arrays.h"

/* Out of the way of the pushes that find room. */
static __attribute__((noinline)) bool grow(remat_operations *operations)
{
    size_t need = operations->length < 64 ? 64 : operations->length + 1;
    return model_reserve(&operations->items, &operations->capacity, need, sizeof(remat_operation));
}

remat_status remat_operations_push(remat_operations *operations, remat_operation operation)
{
    if (operations->length == operations->capacity && !grow(operations))
        return REMAT_NO_MEMORY;
    operations->items[operations->length++] = operation;
    return REMAT_OK;
}

remat_status remat_push(remat_operations *operations, remat_operation_kind kind, uint32_t node)
{
    return remat_operations_push(
        operations, (remat_operation){.kind = (uint8_t)kind, .target = REMAT_OUT, .index = node});
}

remat_status remat_push_drop_saved(remat_operations *operations, uint32_t node)
{
    return remat_operations_push(
        operations, (remat_operation){.kind = REMAT_D, .target = REMAT_SAVED, .index = node});
}

remat_status remat_push_drop(remat_operations *operations, const remat_profile *profile,
                             uint32_t value)
{
    return remat_operations_push(operations,
                                 (remat_operation){.kind = REMAT_D,
                                                   .target = REMAT_OUT,
                                                   .index = remat_value_node(profile, value),
                                                   .version = remat_value_number(profile, value)});
}

void remat_operations_clear(remat_operations *operations)
{
    free(operations->items);
    *operations = (remat_operations){0};
}

const char *remat_operation_name(remat_operation_kind kind)
{
    static const char *const names[] = {"F", "A", "B", "D", "O", "P", "S", "R"};
    return (unsigned)kind < sizeof names / sizeof *names ? names[kind] : "?";
}

void remat_steps_clear(remat_steps *steps)
{
    free(steps->items);
    *steps = (remat_steps){0};
}
