/* Models: the list, and a graph as a profile. */
#include "fields.h"
#include "plan/plan.h"

json_t *remat_networks_encode(void)
{
    size_t n;
    const remat_network *models = remat_networks(&n);
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        const remat_network *m = &models[i];
        json_t *one = json_pack("{s:s, s:s, s:I}", "name", m->name, "title", m->title, "parameters",
                                (json_int_t)m->parameters);
        if (m->sequence)
            remat_json_set(&one, "sequence", json_integer(m->sequence));
        if (m->image)
            remat_json_set(&one, "image", json_integer(m->image));
        if (m->layers)
            remat_json_set(&one, "layers", json_integer(m->layers));
        remat_json_append(&list, one);
    }
    return json_pack("{s:o}", "models", list);
}

/* ---- the document ---- */

static json_t *strings(const char *const *items, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        remat_json_append(&list, json_string(items[i]));
    return list;
}

static json_t *bytes_encode(remat_number bytes)
{
    return json_integer((json_int_t)bytes.value);
}

static json_t *node_encode(const remat_node_spec *node)
{
    json_t *json = json_object();
    remat_json_set(&json, "id", json_string(node->id));
    remat_json_set(&json, "op", json_string(node->op));
    remat_json_set(&json, "inputs", strings(node->inputs, node->n_inputs));
    remat_json_set(&json, "forward_time", json_real(node->forward_time.value));
    remat_json_set(&json, "backward_time", json_real(node->backward_time.value));
    remat_json_set(&json, "output_bytes", bytes_encode(node->output_bytes));
    if (node->saved_bytes.given)
        remat_json_set(&json, "saved_bytes", bytes_encode(node->saved_bytes));
    if (node->forward_workspace_bytes.given)
        remat_json_set(&json, "forward_workspace_bytes",
                       bytes_encode(node->forward_workspace_bytes));
    if (node->backward_workspace_bytes.given)
        remat_json_set(&json, "backward_workspace_bytes",
                       bytes_encode(node->backward_workspace_bytes));
    remat_json_set(&json, "backward_uses_inputs", json_boolean(node->backward_uses_inputs));
    remat_json_set(&json, "backward_uses_output", json_boolean(node->backward_uses_output));
    if (node->in_place)
        remat_json_set(&json, "in_place", json_true());
    return json;
}

json_t *remat_network_document(const remat_network_graph *graph, const remat_device *device,
                               const remat_network_settings *settings)
{
    const remat_profile_spec *spec = &graph->spec;
    json_t *nodes = json_array(), *inputs = json_array();
    for (size_t v = 0; v < spec->n_nodes; v++)
        remat_json_append(&nodes, node_encode(&spec->nodes[v]));
    for (size_t k = 0; k < spec->n_inputs; k++) {
        json_t *input = json_pack("{s:s, s:o}", "id", spec->inputs[k].id, "bytes",
                                  bytes_encode(spec->inputs[k].bytes));
        if (spec->inputs[k].gradient_bytes.given)
            remat_json_set(&input, "gradient_bytes", bytes_encode(spec->inputs[k].gradient_bytes));
        remat_json_append(&inputs, input);
    }
    return json_pack(
        "{s:s, s:s, s:{s:s, s:s, s:I, s:s, s:I, s:I, s:s}, s:s, s:o, s:o}", "format", spec->format,
        "name", spec->name, "source", "framework", "remat " REMAT_VERSION, "device", device->title,
        "batch", (json_int_t)settings->batch, "dtype", remat_precision_name(settings->precision),
        "parameters", (json_int_t)graph->parameters, "parameter_bytes",
        (json_int_t)(graph->parameters * remat_precision_bytes(settings->precision)), "note",
        "a model, no measurement: sizes from shapes, times from a roofline of the device",
        "time_unit", spec->time_unit, "inputs", inputs, "nodes", nodes);
}
