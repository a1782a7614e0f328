/* Operations of the pebble model on the wire. */
#include "fields.h"

#include <stdlib.h>
#include <string.h>

/* Numbers behind the letter: branch and step. */
static size_t numbers_of(uint8_t kind)
{
    return kind == REMAT_PEBBLE_T ? 0 : kind == REMAT_PEBBLE_DB ? 1 : 2;
}

static bool read_number(const json_t *json, uint32_t *ret_number)
{
    json_int_t number = json_is_integer(json) ? json_integer_value(json) : -1;
    *ret_number = (uint32_t)number;
    return number >= 0 && number <= UINT32_MAX;
}

static bool read_operation(const json_t *json, remat_pebble_operation *operation)
{
    const char *name = json_string_value(json_array_get(json, 0));
    *operation = (remat_pebble_operation){.kind = 0};
    while (operation->kind <= REMAT_PEBBLE_DB && name &&
           strcmp(remat_pebble_kind_name((remat_pebble_kind)operation->kind), name) != 0)
        operation->kind++;
    if (!name || operation->kind > REMAT_PEBBLE_DB)
        return false;
    size_t numbers = numbers_of(operation->kind);
    return json_array_size(json) == 1 + numbers &&
           (numbers < 1 || read_number(json_array_get(json, 1), &operation->branch)) &&
           (numbers < 2 || read_number(json_array_get(json, 2), &operation->index));
}

static remat_status decode_list(const json_t *json, const char *field,
                                remat_pebble_operations *ret_operations, remat_error *error)
{
    size_t n = json_array_size(json);
    remat_pebble_operations list = {.items = calloc(n + 1, sizeof *list.items), .capacity = n + 1};
    if (!list.items)
        return remat_fail_memory(error);
    while (list.length < n &&
           read_operation(json_array_get(json, list.length), &list.items[list.length]))
        list.length++;
    if (list.length < n) {
        free(list.items);
        return remat_fail(error, REMAT_INVALID, field,
                          "%s[%zu] is not an operation of the pebble model", field, list.length);
    }
    *ret_operations = list;
    return REMAT_OK;
}

static json_t *encode(const remat_pebble_operation *operation)
{
    static const char *const shapes[] = {"[s]", "[s, i]", "[s, i, i]"};
    return json_pack(shapes[numbers_of(operation->kind)],
                     remat_pebble_kind_name((remat_pebble_kind)operation->kind),
                     (int)operation->branch, (int)operation->index);
}

json_t *remat_pebbles_encode(const remat_pebble_operations *operations)
{
    json_t *list = json_array();
    for (size_t i = 0; i < operations->length; i++)
        remat_json_append(&list, encode(&operations->items[i]));
    return list;
}

json_t *remat_branches_encode(const remat_pebble_problem *problem)
{
    json_t *list = json_array();
    for (uint32_t j = 0; j < problem->join.k; j++) {
        json_t *nodes = json_array();
        for (uint32_t i = 0; i < problem->join.length[j]; i++)
            remat_json_append(&nodes, json_integer(problem->nodes[j][i]));
        remat_json_append(&list, nodes);
    }
    return list;
}

remat_status api_pebbles_of_schedule(const json_t *schedule, const remat_profile *profile,
                                     remat_pebble_problem *ret_problem,
                                     remat_pebble_operations *ret_list, remat_error *error)
{
    const remat_options none = {{0}};
    remat_status status = remat_pebble_problem_of(profile, &none, ret_problem, error);
    if (!status)
        status =
            decode_list(json_object_get(schedule, "operations"), "operations", ret_list, error);
    for (uint32_t j = 0; j < ret_problem->join.k; j++)
        ret_problem->join.keep[j] = true;
    for (size_t i = 0; i < ret_list->length; i++)
        if (ret_list->items[i].kind == REMAT_PEBBLE_DB &&
            ret_list->items[i].branch < ret_problem->join.k)
            ret_problem->join.keep[ret_list->items[i].branch] = false;
    return status;
}
