#include "chains.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STAGES = 4096, ID_SIZE = 64 };

uint64_t bench_random(uint64_t *state) /* splitmix64 */
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static remat_number given(double value)
{
    return (remat_number){.value = value, .given = true};
}

typedef struct draft {
    remat_node_spec nodes[MAX_STAGES];
    char ids[MAX_STAGES][ID_SIZE];
    const char *inputs[MAX_STAGES][1];
    uint32_t n;
    double input_bytes;
} draft;

static remat_node_spec *draft_add(draft *d, const char *id)
{
    if (d->n == MAX_STAGES)
        return NULL;
    uint32_t i = d->n++;
    snprintf(d->ids[i], ID_SIZE, "%.40s#%u", id, i);
    d->inputs[i][0] = i ? d->ids[i - 1] : "x";
    d->nodes[i] = (remat_node_spec){.id = d->ids[i],
                                    .inputs = d->inputs[i],
                                    .n_inputs = 1,
                                    .backward_uses_inputs = true,
                                    .backward_uses_output = true};
    return &d->nodes[i];
}

static remat_profile *draft_finish(const draft *d, const char *name)
{
    remat_input_spec input = {.id = "x", .bytes = given(d->input_bytes)};
    remat_profile_spec spec = {.format = "remat-profile/1",
                               .name = name,
                               .inputs = &input,
                               .n_inputs = 1,
                               .nodes = d->nodes,
                               .n_nodes = d->n};
    remat_profile *profile = NULL;
    remat_error error = {0};
    if (remat_profile_new(&spec, &profile, &error))
        fprintf(stderr, "%s: %s: %s\n", name, error.field, error.message);
    return profile;
}

static double between(uint64_t *seed, double low, double high)
{
    return floor(low + (high - low) * (double)(bench_random(seed) >> 11) / 9007199254740992.0);
}

remat_profile *bench_random_chain(uint32_t n, uint64_t seed)
{
    draft *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->input_bytes = between(&seed, 1e6, 1e8);
    for (uint32_t i = 0; i < n; i++) {
        remat_node_spec *node = draft_add(d, "random");
        if (!node)
            break;
        bool loss = i + 1 == n;
        double a = loss ? 0 : between(&seed, 1e6, 1e8);
        node->output_bytes = given(a);
        node->saved_bytes = given(between(&seed, 0, 2e8));
        node->gradient_bytes = given(a);
        node->forward_workspace_bytes = given(between(&seed, 0, 2e7));
        node->backward_workspace_bytes = given(between(&seed, 0, 2e7));
        node->forward_time = given(between(&seed, 100, 3000));
        node->backward_time = given(between(&seed, 200, 6000));
    }
    remat_profile *profile = draft_finish(d, "random");
    free(d);
    return profile;
}

static remat_number json_amount(const json_t *node, const char *key)
{
    const json_t *value = json_object_get(node, key);
    return (remat_number){.value = json_number_value(value), .given = value != NULL};
}

static bool json_flag(const json_t *node, const char *key)
{
    const json_t *value = json_object_get(node, key);
    return !value || json_is_true(value);
}

static remat_number jittered(remat_number time, double jitter, uint64_t *seed)
{
    if (jitter > 0 && time.given)
        time.value =
            round(time.value * (1 + jitter * (between(seed, 0, 2001) / 1000 - 1)) * 1000) / 1000;
    return time;
}

static bool add_json_node(draft *d, const json_t *json, double jitter, uint64_t *seed)
{
    remat_node_spec *node = draft_add(d, json_string_value(json_object_get(json, "id")));
    if (!node)
        return false;
    node->forward_time = jittered(json_amount(json, "forward_time"), jitter, seed);
    node->backward_time = jittered(json_amount(json, "backward_time"), jitter, seed);
    node->output_bytes = json_amount(json, "output_bytes");
    node->saved_bytes = json_amount(json, "saved_bytes");
    node->gradient_bytes = json_amount(json, "gradient_bytes");
    node->forward_workspace_bytes = json_amount(json, "forward_workspace_bytes");
    node->backward_workspace_bytes = json_amount(json, "backward_workspace_bytes");
    node->save_workspace_bytes = json_amount(json, "save_workspace_bytes");
    node->backward_uses_inputs = json_flag(json, "backward_uses_inputs");
    node->backward_uses_output = json_flag(json, "backward_uses_output");
    return true;
}

static int copies_of(const char *id, int repeat)
{
    if (!repeat)
        return 1;
    return strcmp(id, "layer2_1") == 0 ? 5 : strcmp(id, "layer3_1") == 0 ? 31 : 1;
}

remat_profile *bench_real_chain(const char *name, int repeat, double jitter)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.chain.json", BENCH_PROFILES, name);
    json_error_t problem;
    json_t *root = json_load_file(path, 0, &problem);
    draft *d = calloc(1, sizeof *d);
    uint64_t seed = 152;
    size_t index;
    json_t *json;
    if (!root)
        fprintf(stderr, "%s: %s\n", path, problem.text);
    if (d)
        json_array_foreach(json_object_get(root, "inputs"), index, json) d->input_bytes +=
            json_number_value(json_object_get(json, "bytes"));
    bool complete = root && d;
    if (complete)
        json_array_foreach(json_object_get(root, "nodes"), index, json)
        {
            int copies = copies_of(json_string_value(json_object_get(json, "id")), repeat);
            for (int k = 0; k < copies; k++)
                complete = complete && add_json_node(d, json, jitter, &seed);
        }
    remat_profile *profile = complete ? draft_finish(d, name) : NULL;
    json_decref(root);
    free(d);
    return profile;
}
