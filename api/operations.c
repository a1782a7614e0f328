/* Operation lists on the wire. */
#include "fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reading {
    const remat_profile *profile;
    char field[128]; /* of the operation being read */
    remat_error *error;
} reading;

static remat_status bad(const reading *r, const char *what)
{
    return remat_fail(r->error, REMAT_INVALID, r->field, "%s: %s", r->field, what);
}

static remat_status read_index(const reading *r, const json_t *json, uint32_t limit,
                               const char *what, uint32_t *ret_index)
{
    const json_int_t index = json_is_integer(json) ? json_integer_value(json) : -1;
    if (index >= 0 && index < (json_int_t)limit) {
        *ret_index = (uint32_t)index;
        return REMAT_OK;
    }
    if (limit == 0)
        return remat_fail(r->error, REMAT_INVALID, r->field, "%s: the profile has no %s", r->field,
                          what);
    char *given = json ? remat_json_text(json) : NULL;
    remat_fail(r->error, REMAT_INVALID, r->field,
               "%s: the index of a %s must be an integer from 0 to %lld, not %.40s", r->field, what,
               (long long)limit - 1, given ? given : "absent");
    free(given);
    return REMAT_INVALID;
}

static remat_status read_state(const reading *r, const json_t *json, remat_operation *operation)
{
    if (json_array_size(json) != 3)
        return bad(r, "S and R have two numbers: the state and the version");
    remat_status status =
        read_index(r, json_array_get(json, 1), r->profile->n_states, "state", &operation->index);
    if (status)
        return status;
    return read_index(r, json_array_get(json, 2),
                      r->profile->states[operation->index].n_writers + 1, "version",
                      &operation->version);
}

static remat_status read_result(const reading *r, const json_t *json, remat_operation *operation)
{
    remat_status status =
        read_index(r, json_array_get(json, 2), r->profile->n_nodes, "node", &operation->index);
    if (status)
        return status;
    return read_index(r, json_array_get(json, 3), r->profile->nodes[operation->index].n_outputs,
                      "result", &operation->version);
}

/* ["D", v], ["D", "output", v, k], ["D", "saved", v], ["D", "input", k]; likewise O and P. */
static remat_status read_target(const reading *r, const json_t *json, remat_operation *operation)
{
    if (json_array_size(json) == 2)
        return read_index(r, json_array_get(json, 1), r->profile->n_nodes, "node",
                          &operation->index);
    const char *target = json_string_value(json_array_get(json, 1));
    bool output = target && strcmp(target, "output") == 0;
    if (!target || json_array_size(json) != (output ? 4u : 3u))
        return bad(r, "it must be [letter, node], [letter, \"saved\" or \"input\", index] or "
                      "[letter, \"output\", node, result]");
    if (output)
        return read_result(r, json, operation);
    bool input = strcmp(target, "input") == 0;
    if (!input && strcmp(target, "saved") != 0 && strcmp(target, "out") != 0)
        return bad(r, "its target must be \"out\", \"saved\" or \"input\"");
    operation->target = input ? REMAT_INPUT : target[0] == 's' ? REMAT_SAVED : REMAT_OUT;
    return read_index(r, json_array_get(json, 2),
                      input ? r->profile->n_inputs : r->profile->n_nodes,
                      input ? "graph input" : "node", &operation->index);
}

/* ["F", v], ["F", v, "winograd"]; likewise A and B. */
static remat_status read_computation(const reading *r, const json_t *json,
                                     remat_operation *operation)
{
    remat_status status =
        read_index(r, json_array_get(json, 1), r->profile->n_nodes, "node", &operation->index);
    if (status || json_array_size(json) == 2)
        return status;
    const char *name = json_string_value(json_array_get(json, 2));
    if (json_array_size(json) != 3 || !name)
        return bad(r, "F, A and B have the node's number, then the name of one of its alternatives "
                      "or nothing");
    const remat_node *node = &r->profile->nodes[operation->index];
    for (uint32_t k = 1; k <= node->n_alternatives; k++)
        if (strcmp(remat_implementation(node, k).name, name) == 0) {
            operation->alternative = (uint16_t)k;
            return REMAT_OK;
        }
    return remat_fail(r->error, REMAT_INVALID, r->field,
                      "%s: node \"%.100s\" has no alternative \"%.100s\"", r->field, node->id,
                      name);
}

static remat_status read_operation(const reading *r, const json_t *json, remat_operation *operation)
{
    static const char letters[] = "FABDOPSR";
    const char *name = json_string_value(json_array_get(json, 0));
    if (!name || strlen(name) != 1 || !(strchr(letters, name[0]) || name[0] == 'X'))
        return bad(r, "it must be an array that starts with one of F, A, B, D, X, O, P, S, R");
    if (name[0] == 'X') {
        *operation = (remat_operation){.kind = REMAT_D, .target = REMAT_SAVED};
        if (json_array_size(json) != 2)
            return bad(r, "X has one number: the node");
        return read_index(r, json_array_get(json, 1), r->profile->n_nodes, "node",
                          &operation->index);
    }
    *operation = (remat_operation){.kind = (uint8_t)(strchr(letters, name[0]) - letters)};
    if (operation->kind == REMAT_S || operation->kind == REMAT_R)
        return read_state(r, json, operation);
    if (operation->kind == REMAT_D || operation->kind == REMAT_O || operation->kind == REMAT_P)
        return read_target(r, json, operation);
    return read_computation(r, json, operation);
}

remat_status remat_operations_decode(const json_t *json, const remat_profile *profile,
                                     const char *field, remat_operations *ret_operations,
                                     remat_error *error)
{
    if (!json_is_array(json))
        return remat_fail(error, REMAT_INVALID, field, "%s must be an array", field);
    remat_operations operations = {0};
    for (size_t i = 0; i < json_array_size(json); i++) {
        reading r = {.profile = profile, .error = error};
        snprintf(r.field, sizeof r.field, "%.80s[%zu]", field, i);
        remat_operation operation;
        remat_status status = read_operation(&r, json_array_get(json, i), &operation);
        if (!status && remat_operations_push(&operations, operation))
            status = remat_fail_memory(error);
        if (status) {
            remat_operations_clear(&operations);
            return status;
        }
    }
    *ret_operations = operations;
    return REMAT_OK;
}

json_t *api_operation_encode(const remat_operation *operation, const remat_profile *profile)
{
    const char *name = remat_operation_name((remat_operation_kind)operation->kind);
    int index = (int)operation->index;
    if (operation->kind == REMAT_S || operation->kind == REMAT_R)
        return json_pack("[s, i, i]", name, index, (int)operation->version);
    if (operation->target == REMAT_INPUT)
        return json_pack("[s, s, i]", name, "input", index);
    if (operation->target == REMAT_SAVED && operation->kind == REMAT_D)
        return json_pack("[s, i]", "X", index);
    if (operation->target == REMAT_SAVED)
        return json_pack("[s, s, i]", name, "saved", index);
    if (operation->version > 0)
        return json_pack("[s, s, i, i]", name, "output", index, (int)operation->version);
    if (operation->alternative > 0)
        return json_pack("[s, i, s]", name, index,
                         remat_implementation(&profile->nodes[index], operation->alternative).name);
    return json_pack("[s, i]", name, index);
}

json_t *remat_operations_encode(const remat_operations *operations, const remat_profile *profile)
{
    json_t *list = json_array();
    for (size_t i = 0; i < operations->length; i++)
        remat_json_append(&list, api_operation_encode(&operations->items[i], profile));
    return list;
}

json_t *api_allocation_encode(const remat_allocation *a)
{
    json_t *item = json_pack("[i, s, I, I]", (int)a->first,
                             remat_allocation_kind_name((remat_allocation_kind)a->kind),
                             (json_int_t)a->index, (json_int_t)a->offset);
    if (a->result > 0)
        remat_json_append(&item, json_integer(a->result));
    return item;
}

json_t *remat_allocations_encode(const remat_layout *layout)
{
    json_t *list = json_array();
    for (size_t i = 0; i < layout->n; i++)
        remat_json_append(&list, api_allocation_encode(&layout->items[i]));
    return list;
}
