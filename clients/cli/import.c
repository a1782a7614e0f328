/* remat profile import: graphs of others as profiles.
 *
 *   networkx    node_link_data as JSON, as the MOCCASIN repository has it: cost_cpu and cost_ram,
 *               or duration and out_cost; links from source to target, or from "0" to "1"
 *   msr-fiddle  JSON of dnn-partitioning: fpgaLatency, edges with sourceId, destId and (of the
 *               value that goes along) size; else the node's size
 *   PipeDream   graph.txt of its profiler: one line a layer, one line an edge: a forward graph
 *   DOT         digraph with time, bytes and workspace of nodes
 *
 * All but PipeDream's become joint graphs. What nobody reads is there while it is made and not
 * after, as in these formats: an output of 0 bytes with a workspace. */
#include "cli.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct vertex {
    char *id, *op;
    double time, backward, bytes, workspace;
    bool read, told; /* somebody reads it; its own line or object was there */
} vertex;

typedef struct edge {
    uint32_t from, to;
    double bytes; /* NAN: unknown */
} edge;

typedef struct graph {
    vertex *vertices;
    edge *edges;
    size_t n, n_edges;
    json_t *by_id; /* index of a vertex */
    char name[201];
    const char *unit;
    bool forward, sized_edges; /* the format; sizes are of edges, so that a sink may have none */
    remat_error *error;
} graph;

static void graph_clear(graph *g)
{
    for (size_t v = 0; v < g->n; v++) {
        free(g->vertices[v].id);
        free(g->vertices[v].op);
    }
    free(g->vertices);
    free(g->edges);
    json_decref(g->by_id);
}

/* ---- building ---- */

/* An array of n items with room for one more, which doubles at the powers of two. NULL: out of
 * memory. */
static void *grown(void *items, size_t n, size_t size)
{
    return n & (n - 1) ? items : realloc(items, (n ? 2 * n : 1) * size);
}

/* The vertex of that id, made if it is not there. */
static remat_status take_vertex(graph *g, const char *id, uint32_t *ret_index)
{
    const json_t *there = json_object_get(g->by_id, id);
    if (there) {
        *ret_index = (uint32_t)json_integer_value(there);
        return REMAT_OK;
    }
    vertex *vertices = grown(g->vertices, g->n, sizeof *vertices);
    if (!vertices)
        return remat_fail_memory(g->error);
    g->vertices = vertices;
    vertex *v = &g->vertices[g->n];
    *v = (vertex){.id = strdup(id), .op = strdup(""), .time = NAN, .bytes = NAN};
    *ret_index = (uint32_t)g->n++;
    if (!v->id || !v->op || json_object_set_new(g->by_id, id, json_integer(*ret_index)))
        return remat_fail_memory(g->error);
    return REMAT_OK;
}

static remat_status add_edge(graph *g, uint32_t from, uint32_t to, double bytes)
{
    edge *edges = grown(g->edges, g->n_edges, sizeof *edges);
    if (!edges)
        return remat_fail_memory(g->error);
    g->edges = edges;
    g->edges[g->n_edges++] = (edge){from, to, bytes};
    g->vertices[from].read = true;
    return REMAT_OK;
}

static remat_status set_op(graph *g, uint32_t v, const char *op)
{
    char *copy = strdup(op);
    if (!copy)
        return remat_fail_memory(g->error);
    free(g->vertices[v].op);
    g->vertices[v].op = copy;
    return REMAT_OK;
}

/* All of the text, or NAN. */
static double whole_number(const char *text)
{
    char *end;
    double number = strtod(text, &end);
    return end == text || *end ? NAN : number;
}

static remat_status told_once(graph *g, uint32_t v)
{
    if (g->vertices[v].told)
        return remat_fail(g->error, REMAT_INVALID, NULL, "node \"%.200s\" is there twice",
                          g->vertices[v].id);
    g->vertices[v].told = true;
    return REMAT_OK;
}

/* ---- JSON ---- */

/* A number or a string of at most 200 bytes as the text of an id. */
static bool id_text(const json_t *json, char text[201])
{
    if (json_is_string(json) && json_string_length(json) > 200)
        return false;
    if (json_is_integer(json))
        snprintf(text, 201, "%" JSON_INTEGER_FORMAT, json_integer_value(json));
    else if (json_is_string(json))
        snprintf(text, 201, "%.200s", json_string_value(json));
    return json_is_integer(json) || json_is_string(json);
}

/* The first of two members that is a number; NAN if none is. */
static double number_of(const json_t *object, const char *name, const char *other)
{
    const json_t *value = json_object_get(object, name);
    value = value || !other ? value : json_object_get(object, other);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static remat_status read_nodes(graph *g, const json_t *nodes, bool moccasin)
{
    for (size_t i = 0; i < json_array_size(nodes); i++) {
        const json_t *node = json_array_get(nodes, i);
        char id[201];
        uint32_t v;
        if (!id_text(json_object_get(node, "id"), id))
            return remat_fail(g->error, REMAT_INVALID, NULL,
                              "nodes[%zu] has no id of at most 200 bytes", i);
        remat_status status = take_vertex(g, id, &v);
        if (!status)
            status = told_once(g, v);
        const char *op = json_string_value(json_object_get(node, "name"));
        if (!status && op)
            status = set_op(g, v, op);
        if (status)
            return status;
        g->vertices[v].time = moccasin ? number_of(node, "cost_cpu", "duration")
                                       : number_of(node, "fpgaLatency", "cpuLatency");
        g->vertices[v].bytes =
            moccasin ? number_of(node, "cost_ram", "out_cost") : number_of(node, "size", NULL);
    }
    return REMAT_OK;
}

static remat_status read_links(graph *g, const json_t *links, const char *source,
                               const char *target, bool moccasin)
{
    for (size_t i = 0; i < json_array_size(links); i++) {
        const json_t *link = json_array_get(links, i);
        char ids[2][201];
        uint32_t ends[2];
        const json_t *from = json_object_get(link, source), *to = json_object_get(link, target);
        if (moccasin && !from && !to) {
            from = json_object_get(link, "0");
            to = json_object_get(link, "1");
        }
        if (!id_text(from, ids[0]) || !id_text(to, ids[1]))
            return remat_fail(g->error, REMAT_INVALID, NULL, "edge %zu has no two ends", i);
        for (int k = 0; k < 2; k++) {
            if (!json_object_get(g->by_id, ids[k]))
                return remat_fail(g->error, REMAT_INVALID, NULL,
                                  "edge %zu: there is no node %.200s", i, ids[k]);
            (void)take_vertex(g, ids[k], &ends[k]);
        }
        remat_status status =
            add_edge(g, ends[0], ends[1], moccasin ? NAN : number_of(link, "size", NULL));
        if (status)
            return status;
    }
    return REMAT_OK;
}

/* Nodes in the order that a MOCCASIN graph says it was measured in: by position. */
static remat_status read_order(graph *g, const json_t *order)
{
    if (json_array_size(order) == 0)
        return REMAT_OK;
    for (size_t i = 0; i < json_array_size(order); i++) {
        char id[201];
        uint32_t v;
        if (!id_text(json_array_get(order, i), id))
            return remat_fail(g->error, REMAT_INVALID, NULL, "graph.order[%zu] is no id", i);
        remat_status status = take_vertex(g, id, &v);
        if (status)
            return status;
    }
    return REMAT_OK;
}

static remat_status read_json(graph *g, const json_t *json)
{
    const json_t *nodes = json_object_get(json, "nodes"), *links = json_object_get(json, "links");
    const json_t *edges = json_object_get(json, "edges");
    bool msr = json_object_get(json_array_get(edges, 0), "sourceId") != NULL ||
               json_object_get(json_array_get(nodes, 0), "fpgaLatency") != NULL;
    const json_t *about = json_object_get(json, "graph");
    const char *name = json_string_value(json_object_get(about, "name"));
    if (name && name[0])
        snprintf(g->name, sizeof g->name, "%.200s", name);
    if (!json_is_array(nodes) || !(json_is_array(links) || json_is_array(edges)))
        return remat_fail(g->error, REMAT_INVALID, NULL,
                          "this JSON has no nodes with links or edges");
    if (json_is_false(json_object_get(json, "directed")))
        return remat_fail(g->error, REMAT_INVALID, NULL, "the graph is not directed");
    g->sized_edges = msr;
    remat_status status = read_order(g, msr ? NULL : json_object_get(about, "order"));
    if (!status)
        status = read_nodes(g, nodes, !msr);
    if (!status)
        status = read_links(g, links ? links : edges, msr ? "sourceId" : "source",
                            msr ? "destId" : "target", !msr);
    return status;
}

/* ---- PipeDream ---- */

static double value_after(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    if (!at)
        return NAN;
    at += strlen(name);
    double sum = 0;
    bool several = *at == '['; /* [1.0; 2.0]: several results */
    for (at += several;; at++) {
        char *end;
        sum += strtod(at, &end);
        if (end == at || !*end ? several || end == at : !strchr(several ? ";]" : ", \t", *end))
            return NAN;
        at = end;
        if (!several || *at == ']')
            return sum;
    }
}

/* "node1 -- Conv2d(...) -- forward_compute_time=.., .." or "node1 -- node2". */
static remat_status read_pipedream(graph *g, char *text)
{
    g->forward = true;
    g->unit = "ms";
    remat_status status = REMAT_OK;
    for (char *save, *line = strtok_r(text, "\r\n", &save); line && !status;
         line = strtok_r(NULL, "\r\n", &save)) {
        line += strspn(line, " \t");
        char *second = strstr(line, " -- "), *third = second ? strstr(second + 4, " -- ") : NULL;
        uint32_t from, to;
        if (!second)
            return remat_fail(g->error, REMAT_INVALID, NULL,
                              "\"%.60s\" is no line of PipeDream's graph.txt", line);
        *second = '\0';
        if (third)
            *third = '\0';
        status = take_vertex(g, line, &from);
        if (third && !status) {
            status = told_once(g, from);
            if (!status)
                status = set_op(g, from, second + 4);
            vertex *v = &g->vertices[from];
            v->time = value_after(third + 4, "forward_compute_time=");
            v->backward = value_after(third + 4, "backward_compute_time=");
            v->bytes = value_after(third + 4, "activation_size=");
        } else if (!status && !(status = take_vertex(g, second + 4, &to))) {
            status = add_edge(g, from, to, NAN);
        }
    }
    return status;
}

/* ---- DOT ---- */

/* The next token: a word, a quoted string, "->" or one character; false at the end. */
static bool next_token(const char **at, char token[201])
{
    const char *s = *at;
    size_t n = 0;
    for (;;) {
        s += strspn(s, " \t\r\n,");
        if (strncmp(s, "//", 2) == 0 || *s == '#')
            s += strcspn(s, "\n");
        else if (strncmp(s, "/*", 2) == 0 && strstr(s, "*/"))
            s = strstr(s, "*/") + 2;
        else
            break;
    }
    if (*s == '"') {
        for (s++; *s && *s != '"'; s++) {
            s += *s == '\\' && s[1];
            if (n < 200)
                token[n++] = *s;
        }
        s += *s == '"';
    } else if (strncmp(s, "->", 2) == 0) {
        token[n++] = *s++;
        token[n++] = *s++;
    } else if (isalnum((unsigned char)*s) || *s == '_' || *s == '.' || *s == '-') {
        while (n < 200 && (isalnum((unsigned char)*s) || (*s && strchr("_.+", *s)) ||
                           (*s == '-' && s[1] != '>')))
            token[n++] = *s++;
    } else if (*s) {
        token[n++] = *s++;
    }
    token[n] = '\0';
    bool more = s != *at && (n > 0 || s[-1] == '"');
    *at = s;
    return more;
}

static remat_status bad_dot(graph *g, const char *what)
{
    return remat_fail(g->error, REMAT_INVALID, NULL, "the DOT file: %s", what);
}

/* [a=1 b=2] behind a node; v NONE: of an edge or of everything, left out. */
static remat_status read_attributes(graph *g, const char **at, uint32_t v, bool defaults)
{
    char name[201], value[201];
    remat_status status = REMAT_OK;
    while (!status) {
        if (!next_token(at, name))
            return bad_dot(g, "it ends within [..]");
        if (strcmp(name, "]") == 0)
            break;
        if (strcmp(name, ";") == 0)
            continue;
        const char *back = *at;
        if (!next_token(at, value) || strcmp(value, "=") != 0) {
            *at = back;
            continue;
        }
        if (!next_token(at, value))
            continue;
        if (strcmp(value, "<") == 0)
            return bad_dot(g, "labels in HTML are not read");
        double number = whole_number(value);
        if (defaults && (strcmp(name, "time") == 0 || strcmp(name, "bytes") == 0))
            return bad_dot(g, "times and bytes of all nodes at once are not read");
        if (v == UINT32_MAX)
            continue;
        if (strcmp(name, "time") == 0)
            g->vertices[v].time = number;
        else if (strcmp(name, "bytes") == 0)
            g->vertices[v].bytes = number;
        else if (strcmp(name, "workspace") == 0)
            g->vertices[v].workspace = number;
        else if (strcmp(name, "label") == 0)
            status = set_op(g, v, value);
    }
    return status;
}

/* "strict digraph name {": what is behind it; NULL if this is no DOT. */
static const char *after_head(const char *text)
{
    char token[201];
    bool more = next_token(&text, token);
    if (more && strcasecmp(token, "strict") == 0)
        more = next_token(&text, token);
    if (!more || strcasecmp(token, "digraph") != 0)
        return NULL;
    while ((more = next_token(&text, token)) && strcmp(token, "{") != 0)
        ;
    return text;
}

/* at is behind the head. */
static remat_status read_dot(graph *g, const char *at)
{
    char token[201];
    uint32_t last = UINT32_MAX, v;
    bool arrow = false, joined = false, defaults = false;
    remat_status status = REMAT_OK;
    while (!status) {
        if (!next_token(&at, token))
            return bad_dot(g, "it ends before its }");
        bool ends = strcmp(token, "}") == 0 || strcmp(token, ";") == 0;
        if (arrow && (ends || strcmp(token, "->") == 0))
            return bad_dot(g, "an edge leads nowhere");
        if (strcmp(token, "}") == 0)
            break;
        if (strlen(token) == 200)
            return bad_dot(g, "ids of 200 bytes or more are not read");
        if (strchr("{:<", token[0]) || strcmp(token, "subgraph") == 0)
            return bad_dot(g, "subgraphs, ports and HTML are not read");
        if (ends) {
            last = UINT32_MAX;
        } else if (strcmp(token, "->") == 0) {
            arrow = true;
        } else if (strcmp(token, "[") == 0) {
            status = read_attributes(g, &at, joined ? UINT32_MAX : last, defaults);
        } else if (strcmp(token, "=") == 0) { /* of the graph: its name was no node, see below */
            next_token(&at, token);
        } else if (strcmp(token, "node") == 0 || strcmp(token, "edge") == 0 ||
                   strcmp(token, "graph") == 0 || strcmp(token, "rankdir") == 0) {
            last = UINT32_MAX;
            joined = true;
            defaults = strcmp(token, "node") == 0;
        } else if (!(status = take_vertex(g, token, &v))) {
            if (arrow && last != UINT32_MAX)
                status = add_edge(g, last, v, NAN);
            joined = arrow;
            last = v;
            arrow = defaults = false;
        }
    }
    return !status && next_token(&at, token) ? bad_dot(g, "there is more behind its }") : status;
}

/* ---- the profile ---- */

/* A topological order: that of the file where it is one. */
static remat_status sort_vertices(const graph *g, uint32_t *order)
{
    bool sorted = true;
    uint32_t *missing = calloc(g->n + 1, sizeof *missing), head = 0, done = 0;
    uint32_t *first = calloc(g->n + 2, sizeof *first), *to = calloc(g->n_edges + 1, sizeof *to);
    remat_status status = missing && first && to ? REMAT_OK : remat_fail_memory(g->error);
    for (size_t e = 0; e < g->n_edges && !status; e++) {
        sorted &= g->edges[e].from < g->edges[e].to;
        missing[g->edges[e].to]++;
        first[g->edges[e].from + 1]++;
    }
    for (size_t v = 0; v < g->n && !status; v++)
        first[v + 1] += first[v];
    for (size_t e = g->n_edges; e-- > 0 && !status;)
        to[--first[g->edges[e].from + 1]] = g->edges[e].to;
    /* who follows v stands from first[v + 1] up to where the next begins */
    for (uint32_t v = 0; v < g->n && !status; v++)
        if (sorted || missing[v] == 0)
            order[done++] = v;
    while (!status && !sorted && head < done) {
        uint32_t v = order[head++];
        size_t end = v + 2 <= g->n ? first[v + 2] : g->n_edges;
        for (size_t e = first[v + 1]; e < end; e++)
            if (--missing[to[e]] == 0)
                order[done++] = to[e];
    }
    if (!status && done < g->n)
        status = remat_fail(g->error, REMAT_INVALID, NULL, "the graph has a cycle");
    free(missing);
    free(first);
    free(to);
    return status;
}

static remat_status check_vertex(const graph *g, const vertex *v)
{
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"time", v->time}, {"bytes", v->bytes}, {"workspace", v->workspace}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!(numbers[i].value >= 0) || isinf(numbers[i].value))
            return remat_fail(g->error, REMAT_INVALID, NULL,
                              "node \"%.200s\" has no %s that is a number of 0 or more", v->id,
                              numbers[i].name);
    return REMAT_OK;
}

static json_t *whole(double bytes)
{
    return json_integer((json_int_t)ceil(bytes < 9e15 ? bytes : 9e15));
}

static json_t *vertex_json(const graph *g, const vertex *v, json_t *inputs)
{
    json_t *node = json_pack("{s:s, s:o}", "id", v->id, "inputs", inputs);
    bool sink = !v->read && !g->forward;
    if (v->op[0])
        remat_json_set(&node, "op", json_string(v->op));
    remat_json_set(&node, g->forward ? "forward_time" : "time", json_real(v->time));
    if (v->backward >= 0 && g->forward)
        remat_json_set(&node, "backward_time", json_real(v->backward));
    remat_json_set(&node, "output_bytes", sink ? json_integer(0) : whole(v->bytes));
    if (sink || v->workspace > 0)
        remat_json_set(&node, "workspace_bytes", whole(v->workspace + (sink ? v->bytes : 0)));
    return node;
}

/* Lists of inputs by vertex, in the order of the edges. */
static json_t *list_inputs(const graph *g)
{
    json_t *lists = json_array();
    for (size_t v = 0; v < g->n; v++)
        if (json_array_append_new(lists, json_array()))
            return lists;
    for (size_t e = 0; e < g->n_edges; e++)
        json_array_append_new(json_array_get(lists, g->edges[e].to),
                              json_string(g->vertices[g->edges[e].from].id));
    return lists;
}

static remat_status make_profile(graph *g, json_t **ret_profile)
{
    uint32_t *order = calloc(g->n + 1, sizeof *order);
    remat_status status = order ? sort_vertices(g, order) : remat_fail_memory(g->error);
    for (size_t e = 0; e < g->n_edges; e++) /* the value that goes along, where an edge knows it */
        if (g->edges[e].bytes >= 0)
            g->vertices[g->edges[e].from].bytes = g->edges[e].bytes;
    json_t *nodes = json_array(), *outputs = json_array(), *inputs = list_inputs(g);
    for (size_t i = 0; i < g->n && !status; i++) {
        vertex *v = &g->vertices[order[i]];
        if (g->sized_edges && !v->read && isnan(v->bytes))
            v->bytes = 0;
        status = check_vertex(g, v);
        if (status)
            break;
        remat_json_append(&nodes, vertex_json(g, v, json_incref(json_array_get(inputs, order[i]))));
        if (!v->read)
            remat_json_append(&outputs, json_string(v->id));
    }
    free(order);
    json_decref(inputs);
    json_t *profile =
        status ? NULL
               : json_pack("{s:s, s:s*, s:s, s:s, s:O, s:O*}", "format", "remat-profile/1", "graph",
                           g->forward ? NULL : "joint", "name", g->name, "time_unit", g->unit,
                           "nodes", nodes, "outputs", g->forward ? NULL : outputs);
    json_decref(nodes);
    json_decref(outputs);
    if (!status && !profile)
        status = remat_fail_memory(g->error);
    *ret_profile = profile;
    return status;
}

remat_status import_profile(char *text, const char *name, json_t **ret_profile, remat_error *error)
{
    graph g = {.by_id = json_object(), .unit = "units", .error = error};
    json_t *json = NULL;
    snprintf(g.name, sizeof g.name, "%.200s", name);
    text += strncmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* a byte order mark */
    const char *start = text + strspn(text, " \t\r\n"), *dot = after_head(text);
    remat_status status = g.by_id ? REMAT_OK : remat_fail_memory(error);
    json_t *utf8 = json_string(text);
    if (!status && !utf8)
        status = remat_fail(error, REMAT_INVALID, NULL, "the file is not UTF-8");
    json_decref(utf8);
    if (!status && *start == '{')
        status = remat_json_parse(text, strlen(text), &json, error);
    if (!status && json)
        status = read_json(&g, json);
    else if (!status && dot)
        status = read_dot(&g, dot);
    else if (!status)
        status = read_pipedream(&g, text);
    if (!status)
        status = make_profile(&g, ret_profile);
    json_decref(json);
    graph_clear(&g);
    return status;
}
