/* remat-profile/1 documents. The codec only carries values over; remat_profile_new judges them. */
#include "fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A specification under construction and what must be freed with it. */
typedef struct draft {
    remat_profile_spec spec;
    remat_input_spec *inputs;
    remat_state_spec *states;
    remat_node_spec *nodes;
    const char *prefix;
    remat_error *error;
} draft;

static void draft_clear(draft *d)
{
    for (size_t v = 0; d->nodes && v < d->spec.n_nodes; v++) {
        free((void *)d->nodes[v].inputs);
        free((void *)d->nodes[v].reads);
        free((void *)d->nodes[v].writes);
        free((void *)d->nodes[v].alternatives);
    }
    free(d->inputs);
    free(d->states);
    free(d->nodes);
}

static remat_status read_inputs(draft *d, const json_t *json)
{
    d->spec.n_inputs = json_array_size(json);
    if (!(d->inputs = calloc(d->spec.n_inputs + 1, sizeof *d->inputs)))
        return remat_fail_memory(d->error);
    d->spec.inputs = d->inputs;
    for (size_t k = 0; k < d->spec.n_inputs; k++) {
        remat_input_spec *input = &d->inputs[k];
        char path[64];
        snprintf(path, sizeof path, "%sinputs[%zu].", d->prefix, k);
        const field_rule rules[] = {
            {"id", FIELD_STRING, true, &input->id},
            {"bytes", FIELD_NUMBER, true, &input->bytes},
            {"gradient_bytes", FIELD_NUMBER, false, &input->gradient_bytes}};
        remat_status status = fields_read(json_array_get(json, k), path, rules, 3, d->error);
        if (status)
            return status;
    }
    return REMAT_OK;
}

static remat_status read_states(draft *d, const json_t *json)
{
    d->spec.n_states = json_array_size(json);
    if (!(d->states = calloc(d->spec.n_states + 1, sizeof *d->states)))
        return remat_fail_memory(d->error);
    d->spec.states = d->states;
    for (size_t k = 0; k < d->spec.n_states; k++) {
        char path[64];
        snprintf(path, sizeof path, "%sstates[%zu].", d->prefix, k);
        const field_rule rules[] = {{"id", FIELD_STRING, true, &d->states[k].id},
                                    {"bytes", FIELD_NUMBER, true, &d->states[k].bytes}};
        remat_status status = fields_read(json_array_get(json, k), path, rules, 2, d->error);
        if (status)
            return status;
    }
    return REMAT_OK;
}

static remat_status read_alternatives(draft *d, remat_node_spec *node, size_t v, const json_t *json)
{
    size_t n = json_array_size(json);
    remat_alternative_spec *alternatives = calloc(n + 1, sizeof *alternatives);
    if (!alternatives)
        return remat_fail_memory(d->error);
    node->alternatives = alternatives;
    node->n_alternatives = n;
    for (size_t i = 0; i < n; i++) {
        remat_alternative_spec *a = &alternatives[i];
        char path[96];
        snprintf(path, sizeof path, "%snodes[%zu].alternatives[%zu].", d->prefix, v, i);
        const field_rule rules[] = {
            {"name", FIELD_STRING, true, &a->name},
            {"forward_time", FIELD_NUMBER, false, &a->forward_time},
            {"backward_time", FIELD_NUMBER, false, &a->backward_time},
            {"saved_bytes", FIELD_NUMBER, false, &a->saved_bytes},
            {"forward_workspace_bytes", FIELD_NUMBER, false, &a->forward_workspace_bytes},
            {"backward_workspace_bytes", FIELD_NUMBER, false, &a->backward_workspace_bytes},
            {"save_workspace_bytes", FIELD_NUMBER, false, &a->save_workspace_bytes}};
        remat_status status = fields_read(json_array_get(json, i), path, rules,
                                          sizeof rules / sizeof *rules, d->error);
        if (status)
            return status;
    }
    return REMAT_OK;
}

static remat_status read_node(draft *d, size_t v, const json_t *json)
{
    remat_node_spec *node = &d->nodes[v];
    const json_t *inputs = NULL, *reads = NULL, *writes = NULL, *alternatives = NULL;
    char path[64], field[96];
    snprintf(path, sizeof path, "%snodes[%zu].", d->prefix, v);
    node->backward_uses_inputs = node->backward_uses_output = true;
    const field_rule rules[] = {
        {"id", FIELD_STRING, true, &node->id},
        {"op", FIELD_STRING, false, &node->op},
        {"inputs", FIELD_ARRAY, false, &inputs},
        {"forward_time", FIELD_NUMBER, true, &node->forward_time},
        {"backward_time", FIELD_NUMBER, false, &node->backward_time},
        {"output_bytes", FIELD_NUMBER, true, &node->output_bytes},
        {"saved_bytes", FIELD_NUMBER, false, &node->saved_bytes},
        {"gradient_bytes", FIELD_NUMBER, false, &node->gradient_bytes},
        {"forward_workspace_bytes", FIELD_NUMBER, false, &node->forward_workspace_bytes},
        {"backward_workspace_bytes", FIELD_NUMBER, false, &node->backward_workspace_bytes},
        {"save_workspace_bytes", FIELD_NUMBER, false, &node->save_workspace_bytes},
        {"backward_uses_inputs", FIELD_BOOLEAN, false, &node->backward_uses_inputs},
        {"backward_uses_output", FIELD_BOOLEAN, false, &node->backward_uses_output},
        {"in_place", FIELD_BOOLEAN, false, &node->in_place},
        {"reads", FIELD_ARRAY, false, &reads},
        {"writes", FIELD_ARRAY, false, &writes},
        {"alternatives", FIELD_ARRAY, false, &alternatives}};
    remat_status status = fields_read(json, path, rules, sizeof rules / sizeof *rules, d->error);
    if (status)
        return status;
    snprintf(field, sizeof field, "%sinputs", path);
    if ((status = fields_strings(inputs, field, (const char ***)&node->inputs, &node->n_inputs,
                                 d->error)))
        return status;
    snprintf(field, sizeof field, "%sreads", path);
    if ((status =
             fields_strings(reads, field, (const char ***)&node->reads, &node->n_reads, d->error)))
        return status;
    snprintf(field, sizeof field, "%swrites", path);
    if ((status = fields_strings(writes, field, (const char ***)&node->writes, &node->n_writes,
                                 d->error)))
        return status;
    return alternatives ? read_alternatives(d, node, v, alternatives) : REMAT_OK;
}

static remat_status read_profile(draft *d, const json_t *json)
{
    const json_t *inputs = NULL, *states = NULL, *nodes = NULL, *source = NULL;
    const field_rule rules[] = {{"format", FIELD_STRING, true, &d->spec.format},
                                {"name", FIELD_STRING, true, &d->spec.name},
                                {"source", FIELD_OBJECT, false, &source},
                                {"time_unit", FIELD_STRING, false, &d->spec.time_unit},
                                {"inputs", FIELD_ARRAY, false, &inputs},
                                {"states", FIELD_ARRAY, false, &states},
                                {"nodes", FIELD_ARRAY, true, &nodes}};
    remat_status status =
        fields_read(json, d->prefix, rules, sizeof rules / sizeof *rules, d->error);
    if (!status)
        status = read_inputs(d, inputs);
    if (!status)
        status = read_states(d, states);
    if (status)
        return status;
    size_t n = json_array_size(nodes);
    if (!(d->nodes = calloc(n + 1, sizeof *d->nodes)))
        return remat_fail_memory(d->error);
    d->spec.nodes = d->nodes;
    d->spec.n_nodes = n;
    for (size_t v = 0; v < n && !status; v++)
        status = read_node(d, v, json_array_get(nodes, v));
    return status;
}

remat_status remat_profile_decode(const json_t *json, const char *prefix,
                                  remat_profile **ret_profile, remat_error *error)
{
    draft d = {.prefix = prefix, .error = error};
    remat_status status = read_profile(&d, json);
    if (!status) {
        status = remat_profile_new(&d.spec, ret_profile, error);
        if (status == REMAT_INVALID && error && prefix[0]) {
            char field[REMAT_FIELD_SIZE];
            snprintf(field, sizeof field, "%s%.240s", prefix, error->field);
            memcpy(error->field, field, sizeof field);
        }
    }
    draft_clear(&d);
    return status;
}
