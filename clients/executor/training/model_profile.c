/* The profile of a network: shapes from it, workspaces from the kernels, times as measured. */
#include "model.h"

#include <string.h>

uint32_t model_implementations(const kernel_backend *backend, const net_node *node)
{
    uint32_t n = 0;
    while (n < MODEL_ALTERNATIVES && backend->kernels[node->kind]->implementation(node, n))
        n++;
    return n;
}

/* ---- times ---- */

/* As if a device did 20 thousand million multiply-adds and moved 8 GB a second. */
static node_times guess(const net_node *node)
{
    double bytes = (double)net_output_bytes(node), work = net_forward_work(node);
    for (uint32_t i = 0; i < node->n_inputs; i++)
        bytes += (double)net_numbers(node->inputs[i]) * sizeof(float);
    double seconds = work / 20e9 + bytes / 8e9 + 1e-6;
    node_times times;
    for (uint32_t a = 0; a < MODEL_ALTERNATIVES; a++) {
        times.forward[a] = seconds;
        times.backward[a] = 2 * seconds;
    }
    return times;
}

/* Nanoseconds are enough, and keep documents short. */
static double microseconds(double seconds)
{
    return (double)(int64_t)(seconds * 1e9 + 0.5) / 1e3;
}

/* ---- nodes ---- */

static json_t *input_ids(const net_graph *net, const net_node *node)
{
    json_t *ids = json_array();
    for (uint32_t i = 0; ids && i < node->n_inputs; i++) {
        uint32_t value = node->inputs[i].value;
        const char *id =
            value & NET_INPUT ? net->inputs[value & ~NET_INPUT].id : net->nodes[value].id;
        if (json_array_append_new(ids, json_string(id))) {
            json_decref(ids);
            return NULL;
        }
    }
    return ids;
}

/* The numbers that differ between implementations. */
static json_t *costs(const net_node *node, const kernel_backend *backend, const node_times *times,
                     uint32_t which)
{
    kernel_cost cost = backend->kernels[node->kind]->cost(node, which);
    return json_pack("{s:f, s:f, s:I, s:I, s:I, s:I}", "forward_time",
                     microseconds(times->forward[which]), "backward_time",
                     microseconds(times->backward[which]), "saved_bytes", (json_int_t)cost.saved,
                     "forward_workspace_bytes", (json_int_t)cost.forward_workspace,
                     "save_workspace_bytes", (json_int_t)cost.save_workspace,
                     "backward_workspace_bytes", (json_int_t)cost.backward_workspace);
}

static json_t *alternatives(const net_node *node, const kernel_backend *backend,
                            const node_times *times)
{
    json_t *list = json_array();
    for (uint32_t a = 1; list && a < model_implementations(backend, node); a++) {
        json_t *one = costs(node, backend, times, a);
        const char *name = backend->kernels[node->kind]->implementation(node, a);
        int failed = !one || json_object_set_new(one, "name", json_string(name));
        if (json_array_append_new(list, one) || failed) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *node_document(const net_graph *net, uint32_t v, const kernel_backend *backend,
                             const node_times *times, const uint32_t *chosen)
{
    const net_node *node = &net->nodes[v];
    const node_times roughly = guess(node), *own = times ? &times[v] : &roughly;
    json_t *made = costs(node, backend, own, chosen ? chosen[v] : 0);
    json_t *ids = input_ids(net, node);
    int failed = !made || !ids;
    failed =
        failed || json_object_set_new(made, "id", json_string(node->id)) ||
        json_object_set_new(made, "op", json_string(net_kind_name(node->kind))) ||
        json_object_set(made, "inputs", ids) ||
        json_object_set_new(made, "output_bytes",
                            json_integer((json_int_t)net_output_bytes(node))) ||
        json_object_set_new(made, "backward_uses_inputs", json_boolean(net_uses_inputs(node))) ||
        json_object_set_new(made, "backward_uses_output", json_boolean(net_uses_output(node))) ||
        json_object_set_new(made, "in_place", json_boolean(net_in_place(node)));
    if (!failed && node->state != NET_NONE) {
        const char *id = net->states[node->state].id;
        failed = json_object_set_new(made, "reads", json_pack("[s]", id)) ||
                 json_object_set_new(made, "writes", json_pack("[s]", id));
    }
    if (!failed && !chosen && model_implementations(backend, node) > 1)
        failed = json_object_set_new(made, "alternatives", alternatives(node, backend, own));
    json_decref(ids);
    if (!failed)
        return made;
    json_decref(made);
    return NULL;
}

/* ---- the document ---- */

static json_t *nodes(const net_graph *net, const kernel_backend *backend, const node_times *times,
                     const uint32_t *chosen)
{
    json_t *list = json_array();
    for (uint32_t v = 0; list && v < net->n_nodes; v++)
        if (json_array_append_new(list, node_document(net, v, backend, times, chosen))) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *inputs_and_states(const net_graph *net, bool states)
{
    json_t *list = json_array();
    for (uint32_t k = 0; list && k < (states ? net->n_states : net->n_inputs); k++) {
        const char *id = states ? net->states[k].id : net->inputs[k].id;
        uint64_t bytes = states ? net->states[k].bytes : net_input_bytes(&net->inputs[k]);
        if (json_array_append_new(list,
                                  json_pack("{s:s, s:I}", "id", id, "bytes", (json_int_t)bytes))) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

json_t *model_profile(const net_graph *net, const kernel_backend *backend, const node_times *times,
                      const uint32_t *chosen)
{
    char device[128];
    backend->describe(device, sizeof device);
    return json_pack("{s:s, s:s, s:s, s:{s:s, s:s, s:s, s:I, s:s}, s:o, s:o, s:o}", "format",
                     "remat-profile/1", "name", net->name, "time_unit", "us", "source", "framework",
                     "remat-train " REMAT_VERSION, "device", device, "dtype", "float32",
                     "parameter_bytes", (json_int_t)(net->weights * sizeof(float)), "note",
                     times ? "measured: medians of whole steps"
                           : "guessed from operations and bytes",
                     "inputs", inputs_and_states(net, false), "states",
                     inputs_and_states(net, true), "nodes", nodes(net, backend, times, chosen));
}
