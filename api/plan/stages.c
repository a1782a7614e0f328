#include "plan/stages.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

uint32_t api_unit_start(const api_units *units, uint32_t unit)
{
    return unit > 0 ? units->end[unit - 1] : 0;
}

void api_units_clear(api_units *units)
{
    free(units->end);
    free(units->kind);
    free(units->least);
    *units = (api_units){0};
}

/* ---- where ---- */

static double least_time(const remat_node *node)
{
    double forward = node->forward_time, backward = node->backward_time;
    for (uint32_t k = 1; k <= node->n_alternatives; k++) {
        forward = fmin(forward, remat_implementation(node, k).forward_time);
        backward = fmin(backward, remat_implementation(node, k).backward_time);
    }
    return forward + backward;
}

/* A value that is overwritten by who receives it is no place to cut. */
static bool is_overwritten(const remat_profile *p, uint32_t v)
{
    const remat_node *node = &p->nodes[v];
    for (uint32_t i = 0; i < node->n_consumers; i++) {
        const remat_node *reader = &p->nodes[node->consumers[i]];
        if (reader->in_place && reader->inputs[0] == v)
            return true;
    }
    return false;
}

/* The last node that touches a state of this one, or adds to the gradient of a graph input that it
 * reads: one rank has both. last: by state. */
static uint32_t shared_until(const remat_profile *p, uint32_t v, const uint32_t *last)
{
    const remat_node *node = &p->nodes[v];
    uint32_t until = v;
    for (uint32_t i = 0; i < node->n_reads; i++)
        until = last[node->reads[i]] > until ? last[node->reads[i]] : until;
    for (uint32_t i = 0; i < node->n_writes; i++)
        until = last[node->writes[i]] > until ? last[node->writes[i]] : until;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const uint32_t k = node->inputs[i] - p->n_nodes; /* of a graph input */
        const remat_input *x = k < p->n_inputs ? &p->inputs[k] : NULL;
        if (x && x->gradient_bytes > 0 && x->consumers[x->n_consumers - 1] > until)
            until = x->consumers[x->n_consumers - 1];
    }
    return until;
}

/* Nodes after which the profile may be cut, the last one too; returns how many; 0: out of memory.
 */
static uint32_t find_cuts(const remat_profile *p, const uint32_t *block, uint32_t *cuts)
{
    uint32_t n = 0, reach = 0;
    uint32_t *last = calloc(p->n_states + 1, sizeof *last);
    if (!last)
        return 0;
    for (uint32_t v = 0; v < p->n_nodes; v++) {
        for (uint32_t i = 0; i < p->nodes[v].n_reads; i++)
            last[p->nodes[v].reads[i]] = v;
        for (uint32_t i = 0; i < p->nodes[v].n_writes; i++)
            last[p->nodes[v].writes[i]] = v;
    }
    for (uint32_t v = 0; v < p->n_nodes; v++) {
        const remat_node *node = &p->nodes[v];
        const uint32_t until = shared_until(p, v, last);
        const bool is_last = v + 1 == p->n_nodes;
        reach = until > reach ? until : reach;
        if (reach <= v &&
            (is_last || ((!block || block[v] != block[v + 1]) && !is_overwritten(p, v))))
            cuts[n++] = v + 1;
        if (node->n_consumers > 0 && node->consumers[node->n_consumers - 1] > reach)
            reach = node->consumers[node->n_consumers - 1];
    }
    free(last);
    return n;
}

/* Leaves out cuts that end a unit of less time. */
static uint32_t merge(const remat_profile *p, double time, const uint32_t *cuts, uint32_t n,
                      uint32_t *ret_cuts)
{
    uint32_t kept = 0, v = 0;
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        for (; v < cuts[i]; v++)
            sum += least_time(&p->nodes[v]);
        if (sum >= time || i + 1 == n) {
            ret_cuts[kept++] = cuts[i];
            sum = 0;
        }
    }
    return kept;
}

/* ---- kinds ---- */

/* A unit as text without names of its own: what it reads of itself by distance, what it receives as
 * "^" and by its bytes, graph inputs by name. */
static char *describe(const remat_profile *p, const json_t *nodes, uint32_t first, uint32_t end)
{
    json_t *list = json_array();
    for (uint32_t v = first; v < end; v++) {
        const remat_node *node = &p->nodes[v];
        json_t *one = json_copy(json_array_get(nodes, v)), *inputs = json_array();
        for (uint32_t i = 0; i < node->n_inputs; i++) {
            const uint32_t u = node->inputs[i];
            remat_json_append(&inputs, u >= p->n_nodes ? json_string(remat_value_id(p, u))
                                       : u < first     ? json_string("^")
                                                       : json_integer(v - u));
        }
        if (one)
            json_object_del(one, "id");
        remat_json_set(&one, "inputs", inputs);
        remat_json_append(&list, one);
    }
    if (first > 0)
        remat_json_append(&list, json_pack("[I, I]", (json_int_t)p->nodes[first - 1].output_bytes,
                                           (json_int_t)p->nodes[first - 1].gradient_bytes));
    char *text = list ? json_dumps(list, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(list);
    return text;
}

static remat_status find_kinds(const remat_profile *p, const json_t *document, api_units *u,
                               remat_error *error)
{
    const json_t *nodes = json_object_get(document, "nodes");
    char **texts = calloc(u->n, sizeof *texts);
    bool enough = texts != NULL;
    for (uint32_t i = 0; i < u->n && enough; i++) {
        const uint32_t first = api_unit_start(u, i);
        texts[i] = describe(p, nodes, first, u->end[i]);
        enough = texts[i] != NULL;
        u->kind[i] = i;
        for (uint32_t k = 0; k < i && enough && u->kind[i] == i; k++)
            if (strcmp(texts[k], texts[i]) == 0)
                u->kind[i] = u->kind[k];
        for (uint32_t v = first; v < u->end[i]; v++)
            u->least[i] += least_time(&p->nodes[v]);
    }
    for (uint32_t i = 0; texts && i < u->n; i++)
        free(texts[i]);
    free(texts);
    return enough ? REMAT_OK : remat_fail_memory(error);
}

/* Of a profile without blocks a rank is cut no finer than into about so many. */
enum { UNITS_OF_RANK = 32, MOST_UNITS = 128 };

remat_status api_units_find(const remat_profile *p, const json_t *document, const uint32_t *block,
                            uint32_t fewest, api_units *ret_units, remat_error *error)
{
    uint32_t *cuts = malloc(2 * p->n_nodes * sizeof *cuts);
    api_units u = {0};
    u.n = cuts ? find_cuts(p, block, cuts) : 0;
    u.end = cuts;
    if (u.n == 0) {
        api_units_clear(&u);
        return remat_fail_memory(error);
    }
    double all = 0;
    for (uint32_t v = 0; v < p->n_nodes; v++)
        all += least_time(&p->nodes[v]);
    for (uint32_t parts = fewest * UNITS_OF_RANK; !block && parts >= fewest; parts /= 2) {
        uint32_t *merged = cuts + p->n_nodes;
        const uint32_t n = merge(p, all / parts, cuts, u.n, merged);
        if (n < fewest || u.n <= fewest)
            break;
        if (n <= MOST_UNITS || n <= 2 * fewest) {
            memmove(cuts, merged, n * sizeof *cuts);
            u.n = n;
            break;
        }
    }
    u.kind = calloc(u.n, sizeof *u.kind);
    u.least = calloc(u.n, sizeof *u.least);
    remat_status status =
        u.kind && u.least ? find_kinds(p, document, &u, error) : remat_fail_memory(error);
    if (status)
        api_units_clear(&u);
    else
        *ret_units = u;
    return status;
}

/* ---- stages ---- */

static json_t *received(const remat_profile *p, uint32_t v)
{
    const remat_node *node = &p->nodes[v];
    json_t *json = json_pack("{s:s, s:I}", "id", node->id, "bytes", (json_int_t)node->output_bytes);
    if (node->gradient_bytes > 0)
        remat_json_set(&json, "gradient_bytes", json_integer((json_int_t)node->gradient_bytes));
    return json;
}

/* The graph inputs or states, which a node of the stage reads or writes. */
static json_t *those_used(const json_t *list, const uint32_t *const *used, const uint32_t *n_used,
                          uint32_t n_lists, uint32_t offset)
{
    json_t *kept = json_array();
    for (uint32_t k = 0; k < json_array_size(list); k++) {
        bool found = false;
        for (uint32_t i = 0; i < n_lists && !found; i++)
            for (uint32_t j = 0; j < n_used[i] && !found; j++)
                found = used[i][j] == offset + k;
        if (found)
            remat_json_append(&kept, json_incref(json_array_get(list, k)));
    }
    return kept;
}

static bool put_lists(json_t **json, const remat_profile *p, const json_t *document, uint32_t a,
                      uint32_t b)
{
    const uint32_t n = b - a;
    const uint32_t **used = malloc(2 * n * sizeof *used);
    uint32_t *n_used = malloc(2 * n * sizeof *n_used);
    const bool enough = used && n_used;
    for (uint32_t i = 0; i < n && enough; i++) {
        used[i] = p->nodes[a + i].inputs;
        n_used[i] = p->nodes[a + i].n_inputs;
    }
    json_t *inputs =
        enough ? those_used(json_object_get(document, "inputs"), used, n_used, n, p->n_nodes)
               : NULL;
    if (a > 0 && inputs && json_array_insert_new(inputs, 0, received(p, a - 1))) {
        json_decref(inputs);
        inputs = NULL;
    }
    remat_json_set(json, "inputs", inputs);
    for (uint32_t i = 0; i < n && enough; i++) {
        const remat_node *node = &p->nodes[a + i];
        used[2 * i] = node->reads;
        n_used[2 * i] = node->n_reads;
        used[2 * i + 1] = node->writes;
        n_used[2 * i + 1] = node->n_writes;
    }
    if (p->n_states > 0 && enough)
        remat_json_set(json, "states",
                       those_used(json_object_get(document, "states"), used, n_used, 2 * n, 0));
    free(used);
    free(n_used);
    return enough;
}

json_t *api_stage_document(const remat_profile *p, const json_t *document, const api_units *units,
                           uint32_t first, uint32_t end)
{
    const uint32_t a = api_unit_start(units, first), b = units->end[end - 1];
    const json_t *source = json_object_get(document, "source");
    json_t *json = json_object(), *nodes = json_array();
    remat_json_set(&json, "format", json_string("remat-profile/1"));
    remat_json_set(
        &json, "name",
        json_sprintf("%s, nodes %u to %u", strlen(p->name) <= 140 ? p->name : "stage", a, b - 1));
    if (source) {
        json_t *own = json_copy((json_t *)source); /* what is said there of parameters is of all */
        json_object_del(own, "parameters");
        json_object_del(own, "parameter_bytes");
        remat_json_set(&json, "source", own);
    }
    remat_json_set(&json, "time_unit", json_string(remat_time_unit_name(p->time_unit)));
    if (!put_lists(&json, p, document, a, b)) {
        json_decref(json);
        json = NULL;
    }
    for (uint32_t v = a; v < b; v++)
        remat_json_append(&nodes,
                          json_incref(json_array_get(json_object_get(document, "nodes"), v)));
    remat_json_set(&json, "nodes", nodes);
    return json;
}

remat_status api_stage_profile(const remat_profile *p, const api_units *units, uint32_t first,
                               uint32_t end, remat_profile **ret_stage, remat_error *error)
{
    return remat_profile_cut(p, api_unit_start(units, first), units->end[end - 1], ret_stage,
                             error);
}
