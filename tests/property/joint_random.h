/* Random joint graphs: small ones for exhaustive search, layered ones of any size for benches. */
#ifndef TESTS_PROPERTY_JOINT_RANDOM_H
#define TESTS_PROPERTY_JOINT_RANDOM_H

#include "property/core_random.h"

enum { JOINT_NODES = 8, JOINT_FURTHER = 2, JOINT_TEXT = 24 };

/* Text that a specification of a small graph points to. */
typedef struct joint_names {
    char node[JOINT_NODES][JOINT_TEXT], result[JOINT_NODES][4][JOINT_TEXT];
    remat_number outputs[JOINT_NODES][4];
    const char *inputs[JOINT_NODES][4 * JOINT_NODES];
    const char *ends[4 * JOINT_NODES];
    bool read[JOINT_NODES];
} joint_names;

/* Results 0 .. n - 1 of node v as inputs name them; of one alone its id. */
static inline const char *joint_result(joint_names *names, uint32_t v, uint32_t k)
{
    return k == 0 ? names->node[v] : names->result[v][k];
}

/* A node with one result or some: further ones are taken from *further. */
static inline remat_node_spec joint_node(dice *d, const shape *s, joint_names *names, uint32_t v,
                                         uint32_t *further)
{
    remat_node_spec node = {.id = names->node[v],
                            .forward_time = random_time(d, s),
                            .forward_workspace_bytes =
                                chance(d, 30) ? random_bytes(d) : (remat_number){0},
                            .in_place = chance(d, 15)};
    snprintf(names->node[v], JOINT_TEXT, "v%u", v);
    uint32_t results = *further > 0 && chance(d, 25) ? 2 + below(d, *further) : 1;
    for (uint32_t k = 0; k < results; k++) {
        snprintf(names->result[v][k], JOINT_TEXT, "v%u:%u", v, k);
        names->outputs[v][k] = random_bytes(d);
    }
    if (results == 1) {
        node.output_bytes = names->outputs[v][0];
        return node;
    }
    *further -= results - 1;
    node.has_outputs = true;
    node.outputs = names->outputs[v];
    node.n_outputs = results;
    return node;
}

static inline void joint_edges(dice *d, joint_names *names, remat_node_spec *nodes, uint32_t v,
                               uint32_t density)
{
    size_t count = 0;
    for (uint32_t u = 0; u < v; u++)
        for (uint32_t k = 0; k < (nodes[u].has_outputs ? nodes[u].n_outputs : 1); k++)
            if (chance(d, u + 1 == v ? 60 : density)) {
                names->inputs[v][count++] = joint_result(names, u, k);
                names->read[u] = true;
            }
    for (size_t i = count; i > 1; i--) { /* any order: the first may be overwritten */
        size_t j = below(d, (uint32_t)i);
        const char *other = names->inputs[v][j];
        names->inputs[v][j] = names->inputs[v][i - 1];
        names->inputs[v][i - 1] = other;
    }
    nodes[v].inputs = names->inputs[v];
    nodes[v].n_inputs = count;
}

/* Marks what depends on the late input; what nobody reads and comes after the first that reads it
 * reads it too. Returns that first one. */
static inline uint32_t joint_late(joint_names *names, remat_node_spec *nodes, uint32_t n,
                                  bool depends[JOINT_NODES])
{
    uint32_t first = n;
    for (uint32_t v = 0; v < n; v++) {
        for (size_t i = 0; i < nodes[v].n_inputs; i++) {
            const char *name = names->inputs[v][i];
            depends[v] |= name[0] == 'l' || (name[0] == 'v' && depends[atoi(name + 1)]);
            first = name[0] == 'l' && v < first ? v : first;
        }
        if (v > first && !names->read[v] && !depends[v])
            names->inputs[v][nodes[v].n_inputs++] = "late";
        depends[v] |= v > first && !names->read[v];
    }
    return first;
}

/* One state, and nodes by bits. */
typedef struct joint_touches {
    uint32_t reads, writes;
    double bytes;
} joint_touches;

/* Outputs: what nobody reads, and now and then another one. late: the last node and now and then
 * others read an input that comes late, and now and then one that is there from the start. touches:
 * NULL: there is no state. */
static inline remat_profile *random_joint_touching(dice *d, uint32_t most_nodes, bool pins,
                                                   bool late, const joint_touches *touches)
{
    const remat_input_spec inputs[] = {{.id = "late", .bytes = {5, true}, .late = true},
                                       {.id = "early", .bytes = {3, true}}};
    const shape s = {0};
    joint_names names = {0};
    remat_node_spec nodes[JOINT_NODES];
    uint32_t n = 1 + below(d, most_nodes), further = JOINT_FURTHER, density = 10 + below(d, 40);
    size_t n_ends = 0;
    for (uint32_t v = 0; v < n; v++) {
        nodes[v] = joint_node(d, &s, &names, v, &further);
        nodes[v].recompute = pins && chance(d, 15) ? "never" : NULL;
        nodes[v].keep = pins && chance(d, 10);
        joint_edges(d, &names, nodes, v, density);
        if (late && (v + 1 == n || chance(d, 30)))
            names.inputs[v][nodes[v].n_inputs++] = "late";
        if (late && chance(d, 20))
            names.inputs[v][nodes[v].n_inputs++] = "early";
    }
    bool depends[JOINT_NODES] = {false};
    const uint32_t first = late ? joint_late(&names, nodes, n, depends) : n;
    for (uint32_t v = 0; v < n; v++)
        if (!names.read[v] || (chance(d, 10) && (v < first || depends[v])))
            names.ends[n_ends++] = names.node[v];
    static const char *const state_names[] = {"state"};
    const remat_state_spec state = {.id = state_names[0],
                                    .bytes = {touches ? touches->bytes : 0, true}};
    for (uint32_t v = 0; v < n && touches; v++) {
        nodes[v].reads = nodes[v].writes = state_names;
        nodes[v].n_reads = touches->reads >> v & 1;
        nodes[v].n_writes = touches->writes >> v & 1;
    }
    const remat_profile_spec spec = {.format = "remat-profile/1",
                                     .name = "joint",
                                     .graph = "joint",
                                     .inputs = inputs,
                                     .n_inputs = late ? 2 : 0,
                                     .states = &state,
                                     .n_states = touches != NULL,
                                     .nodes = nodes,
                                     .n_nodes = n,
                                     .outputs = names.ends,
                                     .n_outputs = n_ends};
    remat_profile *profile = NULL;
    remat_error error;
    if (remat_profile_new(&spec, &profile, &error))
        fail_msg("random joint graph: %s: %s", error.field, error.message);
    return profile;
}

static inline remat_profile *random_joint_graph(dice *d, uint32_t most_nodes, bool pins, bool late)
{
    return random_joint_touching(d, most_nodes, pins, late, NULL);
}

static inline remat_profile *random_joint(dice *d, uint32_t most_nodes, bool pins)
{
    return random_joint_graph(d, most_nodes, pins, false);
}

#endif
