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
    bool joint; /* as the document says; remat_profile_new judges the word */
    remat_error *error;
} draft;

static void draft_clear(draft *d)
{
    for (size_t v = 0; d->nodes && v < d->spec.n_nodes; v++) {
        free((void *)d->nodes[v].inputs);
        free((void *)d->nodes[v].reads);
        free((void *)d->nodes[v].writes);
        free((void *)d->nodes[v].alternatives);
        free((void *)d->nodes[v].outputs);
    }
    free((void *)d->spec.outputs);
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
        const field_rule rules[] = {{"id", FIELD_STRING, true, &input->id},
                                    {"bytes", FIELD_NUMBER, true, &input->bytes},
                                    {"gradient_bytes", FIELD_NUMBER, false, &input->gradient_bytes},
                                    {"late", FIELD_BOOLEAN, false, &input->late}};
        const field_rule of_joint[] = {rules[0], rules[1], rules[3]};
        remat_status status =
            api_read(json_array_get(json, k), path, d->joint ? of_joint : rules, 3, d->error);
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
        remat_status status = api_read(json_array_get(json, k), path, rules, 2, d->error);
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
            {d->joint ? "time" : "forward_time", FIELD_NUMBER, false, &a->forward_time},
            {d->joint ? "workspace_bytes" : "forward_workspace_bytes", FIELD_NUMBER, false,
             &a->forward_workspace_bytes},
            {"backward_time", FIELD_NUMBER, false, &a->backward_time}, /* from here on: forward */
            {"saved_bytes", FIELD_NUMBER, false, &a->saved_bytes},
            {"backward_workspace_bytes", FIELD_NUMBER, false, &a->backward_workspace_bytes},
            {"save_workspace_bytes", FIELD_NUMBER, false, &a->save_workspace_bytes}};
        size_t n_rules = d->joint ? 3 : sizeof rules / sizeof *rules;
        remat_status status = api_read(json_array_get(json, i), path, rules, n_rules, d->error);
        if (status)
            return status;
    }
    return REMAT_OK;
}

static remat_status read_outputs(draft *d, remat_node_spec *node, size_t v, const json_t *json)
{
    size_t n = json_array_size(json);
    remat_number *outputs = calloc(n + 1, sizeof *outputs);
    if (!outputs)
        return remat_fail_memory(d->error);
    node->outputs = outputs;
    node->n_outputs = n;
    node->has_outputs = true;
    for (size_t k = 0; k < n; k++) {
        char path[96];
        snprintf(path, sizeof path, "%snodes[%zu].outputs[%zu].", d->prefix, v, k);
        const field_rule rules[] = {{"bytes", FIELD_NUMBER, true, &outputs[k]}};
        remat_status status = api_read(json_array_get(json, k), path, rules, 1, d->error);
        if (status)
            return status;
    }
    return REMAT_OK;
}

static remat_status read_node(draft *d, size_t v, const json_t *json)
{
    remat_node_spec *node = &d->nodes[v];
    const json_t *inputs = NULL, *reads = NULL, *writes = NULL, *alternatives = NULL;
    const json_t *outputs = NULL;
    char path[64], field[96];
    snprintf(path, sizeof path, "%snodes[%zu].", d->prefix, v);
    node->backward_uses_inputs = node->backward_uses_output = true;
    const field_rule both[] = {{"id", FIELD_STRING, true, &node->id},
                               {"op", FIELD_STRING, false, &node->op},
                               {"inputs", FIELD_ARRAY, false, &inputs},
                               {"in_place", FIELD_BOOLEAN, false, &node->in_place},
                               {"reads", FIELD_ARRAY, false, &reads},
                               {"writes", FIELD_ARRAY, false, &writes},
                               {"recompute", FIELD_STRING, false, &node->recompute},
                               {"keep", FIELD_BOOLEAN, false, &node->keep},
                               {"alternatives", FIELD_ARRAY, false, &alternatives}};
    const field_rule forward[] = {
        {"forward_time", FIELD_NUMBER, true, &node->forward_time},
        {"backward_time", FIELD_NUMBER, false, &node->backward_time},
        {"output_bytes", FIELD_NUMBER, true, &node->output_bytes},
        {"saved_bytes", FIELD_NUMBER, false, &node->saved_bytes},
        {"gradient_bytes", FIELD_NUMBER, false, &node->gradient_bytes},
        {"forward_workspace_bytes", FIELD_NUMBER, false, &node->forward_workspace_bytes},
        {"backward_workspace_bytes", FIELD_NUMBER, false, &node->backward_workspace_bytes},
        {"save_workspace_bytes", FIELD_NUMBER, false, &node->save_workspace_bytes},
        {"backward_uses_inputs", FIELD_BOOLEAN, false, &node->backward_uses_inputs},
        {"backward_uses_output", FIELD_BOOLEAN, false, &node->backward_uses_output}};
    const field_rule joint[] = {
        {"time", FIELD_NUMBER, true, &node->forward_time},
        {"output_bytes", FIELD_NUMBER, false, &node->output_bytes},
        {"outputs", FIELD_ARRAY, false, &outputs},
        {"workspace_bytes", FIELD_NUMBER, false, &node->forward_workspace_bytes}};
    enum { BOTH = sizeof both / sizeof *both, FORWARD = sizeof forward / sizeof *forward };
    field_rule rules[BOTH + FORWARD];
    size_t own = d->joint ? sizeof joint / sizeof *joint : FORWARD;
    memcpy(rules, both, sizeof both);
    memcpy(rules + BOTH, d->joint ? joint : forward, own * sizeof *rules);
    remat_status status = api_read(json, path, rules, BOTH + own, d->error);
    if (!status && outputs)
        status = read_outputs(d, node, v, outputs);
    if (status)
        return status;
    snprintf(field, sizeof field, "%sinputs", path);
    if ((status =
             api_strings(inputs, field, (const char ***)&node->inputs, &node->n_inputs, d->error)))
        return status;
    snprintf(field, sizeof field, "%sreads", path);
    if ((status =
             api_strings(reads, field, (const char ***)&node->reads, &node->n_reads, d->error)))
        return status;
    snprintf(field, sizeof field, "%swrites", path);
    if ((status =
             api_strings(writes, field, (const char ***)&node->writes, &node->n_writes, d->error)))
        return status;
    return alternatives ? read_alternatives(d, node, v, alternatives) : REMAT_OK;
}

static remat_status read_profile(draft *d, const json_t *json)
{
    const json_t *inputs = NULL, *states = NULL, *nodes = NULL, *source = NULL, *outputs = NULL;
    const field_rule rules[] = {{"format", FIELD_STRING, true, &d->spec.format},
                                {"name", FIELD_STRING, true, &d->spec.name},
                                {"source", FIELD_OBJECT, false, &source},
                                {"time_unit", FIELD_STRING, false, &d->spec.time_unit},
                                {"graph", FIELD_STRING, false, &d->spec.graph},
                                {"held_elsewhere", FIELD_BOOLEAN, false, &d->spec.held_elsewhere},
                                {"outputs", FIELD_ARRAY, false, &outputs},
                                {"inputs", FIELD_ARRAY, false, &inputs},
                                {"states", FIELD_ARRAY, false, &states},
                                {"nodes", FIELD_ARRAY, true, &nodes}};
    remat_status status = api_read(json, d->prefix, rules, sizeof rules / sizeof *rules, d->error);
    d->joint = !status && d->spec.graph && strcmp(d->spec.graph, "forward") != 0;
    char field[64];
    snprintf(field, sizeof field, "%soutputs", d->prefix);
    if (!status)
        status = api_strings(outputs, field, (const char ***)&d->spec.outputs, &d->spec.n_outputs,
                             d->error);
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
