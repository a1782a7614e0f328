/* Operations of other machines (remat/machine.h) on the wire. */
#include "fields.h"

#include <stdlib.h>
#include <string.h>

static bool read_number(const json_t *json, uint32_t *ret_number)
{
    json_int_t number = json_is_integer(json) ? json_integer_value(json) : -1;
    *ret_number = (uint32_t)number;
    return number >= 0 && number <= UINT32_MAX;
}

static bool read_step(const remat_machine *machine, const json_t *json, remat_step *step)
{
    const char *name = json_string_value(json_array_get(json, 0));
    *step = (remat_step){.kind = 0};
    while (step->kind < machine->n_kinds && name &&
           strcmp(machine->kinds[step->kind].name, name) != 0)
        step->kind++;
    if (!name || step->kind == machine->n_kinds)
        return false;
    const unsigned numbers = machine->kinds[step->kind].numbers;
    return json_array_size(json) == 1 + numbers &&
           (numbers < 1 || read_number(json_array_get(json, 1), &step->branch)) &&
           (numbers < 2 || read_number(json_array_get(json, 2), &step->index));
}

static remat_status decode_list(const remat_machine *machine, const json_t *json,
                                remat_steps *ret_steps, remat_error *error)
{
    size_t n = json_array_size(json);
    remat_steps list = {.items = calloc(n + 1, sizeof *list.items), .capacity = n + 1};
    if (!list.items)
        return remat_fail_memory(error);
    while (list.length < n &&
           read_step(machine, json_array_get(json, list.length), &list.items[list.length]))
        list.length++;
    if (list.length < n) {
        free(list.items);
        return remat_fail(error, REMAT_INVALID, "operations",
                          "operations[%zu] is not an operation of the %s model", list.length,
                          machine->name);
    }
    *ret_steps = list;
    return REMAT_OK;
}

remat_status api_steps_of_schedule(const json_t *schedule, const remat_machine **ret_machine,
                                   remat_steps *ret_steps, remat_error *error)
{
    const char *name = json_string_value(json_object_get(schedule, "model"));
    *ret_machine = name ? remat_machine_find(name) : NULL;
    if (!*ret_machine)
        return remat_fail(error, REMAT_INVALID, "model", "there is no model \"%.60s\"",
                          name ? name : "");
    return decode_list(*ret_machine, json_object_get(schedule, "operations"), ret_steps, error);
}

static json_t *encode(const remat_machine *machine, const remat_step *step)
{
    static const char *const shapes[] = {"[s]", "[s, i]", "[s, i, i]"};
    const remat_step_kind *kind = &machine->kinds[step->kind];
    return json_pack(shapes[kind->numbers], kind->name, (int)step->branch, (int)step->index);
}

json_t *api_steps_encode(const remat_machine *machine, const remat_steps *steps)
{
    json_t *list = json_array();
    for (size_t i = 0; i < steps->length; i++)
        remat_json_append(&list, encode(machine, &steps->items[i]));
    return list;
}

json_t *api_branches_encode(const remat_machine_facts *facts)
{
    json_t *list = json_array();
    const uint32_t *node = facts->nodes;
    for (uint32_t j = 0; j < facts->n_branches; j++) {
        json_t *nodes = json_array();
        for (uint32_t i = 0; i < facts->lengths[j]; i++)
            remat_json_append(&nodes, json_integer(*node++));
        remat_json_append(&list, nodes);
    }
    return list;
}
