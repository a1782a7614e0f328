/* The canonical encoding of a profile, and the names of its enumerations. */
#include "remat/profile.h"

#include <string.h>

typedef struct encoder {
    void (*write)(void *context, const void *bytes, size_t length);
    void *context;
} encoder;

static void encode_u64(const encoder *e, uint64_t value)
{
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(value >> (8 * i));
    e->write(e->context, bytes, sizeof bytes);
}

static void encode_f64(const encoder *e, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    encode_u64(e, bits);
}

static void encode_text(const encoder *e, const char *text)
{
    size_t length = strlen(text);
    encode_u64(e, length);
    e->write(e->context, text, length);
}

static void encode_list(const encoder *e, const uint32_t *list, uint32_t n)
{
    encode_u64(e, n);
    for (uint32_t i = 0; i < n; i++)
        encode_u64(e, list[i]);
}

static void encode_node(const encoder *e, const remat_node *node)
{
    encode_text(e, node->id);
    encode_text(e, node->op);
    encode_list(e, node->inputs, node->n_inputs);
    encode_f64(e, node->forward_time);
    encode_f64(e, node->backward_time);
    encode_u64(e, node->output_bytes);
    encode_u64(e, node->saved_bytes);
    encode_u64(e, node->gradient_bytes);
    encode_u64(e, node->forward_workspace_bytes);
    encode_u64(e, node->backward_workspace_bytes);
    encode_u64(e, node->save_workspace_bytes);
    encode_u64(e, (uint64_t)node->backward_uses_inputs | (uint64_t)node->backward_uses_output << 1 |
                      (uint64_t)node->in_place << 2 | (uint64_t)node->once << 3 |
                      (uint64_t)node->keep << 4);
    encode_list(e, node->reads, node->n_reads);
    encode_list(e, node->writes, node->n_writes);
    encode_u64(e, node->n_alternatives);
    for (uint32_t a = 0; a < node->n_alternatives; a++) {
        const remat_alternative *alternative = &node->alternatives[a];
        encode_text(e, alternative->name);
        encode_f64(e, alternative->forward_time);
        encode_f64(e, alternative->backward_time);
        encode_u64(e, alternative->saved_bytes);
        encode_u64(e, alternative->forward_workspace_bytes);
        encode_u64(e, alternative->backward_workspace_bytes);
        encode_u64(e, alternative->save_workspace_bytes);
    }
}

void remat_profile_encode(const remat_profile *profile,
                          void (*write)(void *context, const void *bytes, size_t length),
                          void *context)
{
    const encoder e = {write, context};
    encode_text(&e, profile->joint ? "remat-profile/1 joint" : "remat-profile/1");
    encode_u64(&e, (uint64_t)profile->time_unit);
    encode_u64(&e, profile->n_inputs);
    for (uint32_t k = 0; k < profile->n_inputs; k++) {
        encode_text(&e, profile->inputs[k].id);
        encode_u64(&e, profile->inputs[k].bytes);
        encode_u64(&e, profile->inputs[k].gradient_bytes);
    }
    encode_u64(&e, profile->n_states);
    for (uint32_t k = 0; k < profile->n_states; k++) {
        encode_text(&e, profile->states[k].id);
        encode_u64(&e, profile->states[k].bytes);
    }
    encode_u64(&e, profile->n_nodes);
    for (uint32_t v = 0; v < profile->n_nodes; v++)
        encode_node(&e, &profile->nodes[v]);
    if (!profile->joint)
        return;
    encode_u64(&e, profile->n_results);
    for (uint32_t j = 0; j < profile->n_results; j++) {
        encode_u64(&e, profile->results[j].node);
        encode_u64(&e, profile->results[j].bytes);
    }
    encode_list(&e, profile->outputs, profile->n_outputs);
    for (uint32_t k = 0; k < profile->n_inputs; k++) /* nothing, where none is: older identities */
        if (profile->inputs[k].late)
            encode_u64(&e, k);
    if (profile->held_elsewhere)
        encode_u64(&e, UINT64_MAX);
}

/* ---- names ---- */

const char *remat_kind_name(remat_kind kind)
{
    static const char *const names[] = {"chain", "join", "graph"};
    return names[kind];
}

const char *remat_time_unit_name(remat_time_unit unit)
{
    static const char *const names[] = {"s", "ms", "us", "ns", "units"};
    return names[unit];
}

double remat_time_unit_seconds(remat_time_unit unit)
{
    static const double seconds[] = {1, 1e-3, 1e-6, 1e-9, 0};
    return seconds[unit];
}

const char *remat_value_id(const remat_profile *profile, uint32_t value)
{
    return remat_is_result(profile, value) ? profile->nodes[remat_value_node(profile, value)].id
                                           : profile->inputs[value - profile->n_nodes].id;
}
