/* Random small profiles and random operation lists for the property tests: the same on every
 * machine (splitmix64). Times and bandwidths are small multiples of powers of two, so that every
 * sum and quotient of a test is exact and two judges can be compared bit for bit. */
#ifndef TESTS_PROPERTY_CORE_RANDOM_H
#define TESTS_PROPERTY_CORE_RANDOM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "remat/table.h"

#include "property/core_naive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_NODES = 7,
    MOST_INPUTS = 2,
    MOST_STATES = 2,
    MOST_ALTERNATIVES = 3,
    MOST_OPERATIONS = 400
};

typedef struct dice {
    uint64_t state;
} dice;

static inline uint64_t roll(dice *d)
{
    uint64_t z = (d->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline uint32_t below(dice *d, uint32_t bound)
{
    return (uint32_t)(roll(d) % bound);
}

static inline bool chance(dice *d, uint32_t percent)
{
    return below(d, 100) < percent;
}

/* ---- profiles ---- */

typedef struct shape {
    uint32_t most_nodes;
    bool states, any_times; /* any_times: doubles of full precision */
    bool alternatives, chain;
    bool apart; /* nothing is in place */
    bool pins;
} shape;

static inline remat_number random_bytes(dice *d)
{
    return (remat_number){.value = chance(d, 25) ? 0 : below(d, 20), .given = true};
}

static inline remat_number random_time(dice *d, const shape *s)
{
    if (chance(d, 20))
        return (remat_number){.value = 0, .given = true};
    if (s->any_times)
        return (remat_number){.value = (double)(roll(d) >> 11) * 0x1p-40, .given = true};
    return (remat_number){.value = below(d, 40) * 0.25, .given = true};
}

/* Text that a specification points to. */
typedef struct random_names {
    char node[MOST_NODES][16], input[MOST_INPUTS][16], state[MOST_STATES][16];
    const char *inputs[MOST_NODES][MOST_NODES + MOST_INPUTS];
    const char *reads[MOST_NODES][MOST_STATES], *writes[MOST_NODES][MOST_STATES];
    remat_alternative_spec alternatives[MOST_NODES][MOST_ALTERNATIVES];
} random_names;

static inline size_t random_states(dice *d, random_names *names, size_t n_states, const char **list)
{
    size_t n = 0;
    for (size_t k = 0; k < n_states; k++)
        if (chance(d, 35))
            list[n++] = names->state[k];
    return n;
}

static inline void random_edges(dice *d, const shape *s, random_names *names,
                                remat_node_spec *nodes, uint32_t n, uint32_t n_inputs)
{
    bool consumed[MOST_NODES] = {false};
    uint32_t density = 20 + below(d, 60);
    for (uint32_t v = 0; v < n; v++) {
        size_t count = 0;
        for (uint32_t u = 0; u < v; u++) {
            bool must = (v + 1 == n && !consumed[u]) || (s->chain && v == u + 1);
            if (!must && s->chain)
                continue;
            if (!must && !chance(d, u + 1 == v ? 70 : density / 2))
                continue;
            names->inputs[v][count++] = names->node[u];
            consumed[u] = true;
        }
        for (uint32_t k = 0; k < n_inputs; k++)
            if (chance(d, v == 0 ? 80 : 25))
                names->inputs[v][count++] = names->input[k];
        for (size_t i = count; i > 1; i--) { /* any order: the first may be overwritten */
            size_t j = below(d, (uint32_t)i);
            const char *other = names->inputs[v][j];
            names->inputs[v][j] = names->inputs[v][i - 1];
            names->inputs[v][i - 1] = other;
        }
        nodes[v].inputs = names->inputs[v];
        nodes[v].n_inputs = count;
    }
}

static inline remat_node_spec random_node(dice *d, const shape *s)
{
    return (remat_node_spec){.forward_time = random_time(d, s),
                             .backward_time = random_time(d, s),
                             .output_bytes = random_bytes(d),
                             .saved_bytes = chance(d, 50) ? random_bytes(d) : (remat_number){0},
                             .gradient_bytes = chance(d, 50) ? random_bytes(d) : (remat_number){0},
                             .forward_workspace_bytes = random_bytes(d),
                             .backward_workspace_bytes = random_bytes(d),
                             .save_workspace_bytes = random_bytes(d),
                             .backward_uses_inputs = chance(d, 50),
                             .backward_uses_output = chance(d, 50),
                             .in_place = chance(d, 40) && !s->apart,
                             .recompute = s->pins && chance(d, 20) ? "never" : NULL,
                             .keep = s->pins && chance(d, 10)};
}

static inline remat_number random_field(dice *d, remat_number number)
{
    return chance(d, 50) ? number : (remat_number){0};
}

/* Up to MOST_ALTERNATIVES, each with some fields of its own. */
static inline void random_alternatives(dice *d, const shape *s, random_names *names, uint32_t v,
                                       remat_node_spec *node)
{
    static const char *const called[] = {"gemm", "fft", "winograd"};
    node->alternatives = names->alternatives[v];
    node->n_alternatives = chance(d, 60) ? below(d, MOST_ALTERNATIVES + 1) : 0;
    for (size_t a = 0; a < node->n_alternatives; a++)
        names->alternatives[v][a] = (remat_alternative_spec){
            .name = called[a],
            .forward_time = random_field(d, random_time(d, s)),
            .backward_time = random_field(d, random_time(d, s)),
            .saved_bytes = chance(d, 60) ? (remat_number){0} : random_bytes(d),
            .forward_workspace_bytes = random_field(d, random_bytes(d)),
            .backward_workspace_bytes = random_field(d, random_bytes(d)),
            .save_workspace_bytes = random_field(d, random_bytes(d))};
}

static inline remat_profile *random_profile(dice *d, const shape *s)
{
    random_names names;
    remat_node_spec nodes[MOST_NODES];
    remat_input_spec inputs[MOST_INPUTS];
    remat_state_spec states[MOST_STATES];
    uint32_t n = 1 + below(d, s->most_nodes), n_inputs = below(d, MOST_INPUTS + 1);
    uint32_t n_states = s->states ? below(d, MOST_STATES + 1) : 0;
    for (uint32_t k = 0; k < n_inputs; k++) {
        snprintf(names.input[k], sizeof names.input[k], "x%u", k);
        inputs[k] = (remat_input_spec){
            .id = names.input[k], .bytes = random_bytes(d), .gradient_bytes = random_bytes(d)};
    }
    for (uint32_t k = 0; k < n_states; k++) {
        snprintf(names.state[k], sizeof names.state[k], "s%u", k);
        states[k] = (remat_state_spec){.id = names.state[k], .bytes = random_bytes(d)};
    }
    for (uint32_t v = 0; v < n; v++) {
        snprintf(names.node[v], sizeof names.node[v], "v%u", v);
        nodes[v] = random_node(d, s);
        if (s->alternatives)
            random_alternatives(d, s, &names, v, &nodes[v]);
        nodes[v].id = names.node[v];
        nodes[v].reads = names.reads[v];
        nodes[v].writes = names.writes[v];
        nodes[v].n_reads = random_states(d, &names, n_states, names.reads[v]);
        nodes[v].n_writes = random_states(d, &names, n_states, names.writes[v]);
    }
    random_edges(d, s, &names, nodes, n, n_inputs);
    remat_profile_spec spec = {.format = "remat-profile/1",
                               .name = "random",
                               .inputs = inputs,
                               .n_inputs = n_inputs,
                               .states = states,
                               .n_states = n_states,
                               .nodes = nodes,
                               .n_nodes = n};
    remat_profile *profile = NULL;
    remat_error error;
    if (remat_profile_new(&spec, &profile, &error))
        fail_msg("random profile: %s: %s", error.field, error.message);
    return profile;
}

static inline remat_link random_link(dice *d)
{
    static const double rates[] = {0.25, 0.5, 1, 2, 4, 16};
    return (remat_link){.to_host = rates[below(d, 6)],
                        .to_device = rates[below(d, 6)],
                        .latency = chance(d, 50) ? below(d, 8) * 0.25 : 0,
                        .shared = chance(d, 40)};
}

/* ---- valid lists ---- */

/* A walk that knows what is alive and makes what is missing; between whiles it drops, copies and
 * fetches at random. Values marked held are not dropped. */
typedef struct walker {
    const remat_profile *p;
    dice *d;
    remat_operations list;
    bool link;          /* O and P may be used */
    uint32_t drop_rate; /* percent */
    bool alive[3][NAIVE_MOST], on_host[3][NAIVE_MOST];
    unsigned held[3][NAIVE_MOST];
    uint16_t maker[NAIVE_MOST], host_maker[NAIVE_MOST]; /* of saved values, of their host copies */
    bool done[NAIVE_MOST];
} walker;

static inline void emit(walker *w, unsigned kind, unsigned target, uint32_t index)
{
    remat_operation operation = {.kind = (uint8_t)kind, .target = (uint8_t)target, .index = index};
    if (w->list.length >= MOST_OPERATIONS || remat_operations_push(&w->list, operation))
        fail_msg("the random list grew past %d operations", MOST_OPERATIONS);
}

/* Any implementation of the node; with `bare` one that saves nothing (node UINT16_MAX: none
 * does). */
static inline uint16_t any_way(walker *w, uint32_t v, bool bare)
{
    const remat_node *node = &w->p->nodes[v];
    uint32_t n = node->n_alternatives + 1, from = n > 1 ? below(w->d, n) : 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = (from + i) % n;
        if (!bare || remat_implementation(node, k).saved_bytes == 0)
            return (uint16_t)k;
    }
    return UINT16_MAX;
}

/* The implementation of the operation just emitted. */
static inline void run_with(walker *w, uint16_t way)
{
    w->list.items[w->list.length - 1].alternative = way;
}

static inline void wander(walker *w)
{
    for (unsigned t = REMAT_OUT; t <= REMAT_INPUT; t++)
        for (uint32_t i = 0; i < naive_count(w->p, t); i++) {
            if (w->link && w->alive[t][i] && chance(w->d, 12)) {
                emit(w, REMAT_O, t, i);
                w->on_host[t][i] = true;
                if (t == REMAT_SAVED)
                    w->host_maker[i] = w->maker[i];
            }
            bool may = t != REMAT_INPUT || w->on_host[t][i];
            if (w->alive[t][i] && !w->held[t][i] && may && chance(w->d, w->drop_rate)) {
                emit(w, REMAT_D, t, i);
                w->alive[t][i] = false;
            }
            if (w->link && !w->alive[t][i] && w->on_host[t][i] && chance(w->d, 8)) {
                emit(w, REMAT_P, t, i);
                w->alive[t][i] = true;
                if (t == REMAT_SAVED)
                    w->maker[i] = w->host_maker[i];
            }
        }
}

static inline void provide(walker *w, uint32_t value);

/* Makes the inputs of a node alive and holds them. */
static inline void provide_inputs(walker *w, const remat_node *node)
{
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        provide(w, node->inputs[i]);
        bool input = node->inputs[i] >= w->p->n_nodes;
        w->held[input ? REMAT_INPUT : REMAT_OUT]
               [input ? node->inputs[i] - w->p->n_nodes : node->inputs[i]]++;
    }
}

static inline void release_inputs(walker *w, const remat_node *node)
{
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        bool input = node->inputs[i] >= w->p->n_nodes;
        w->held[input ? REMAT_INPUT : REMAT_OUT]
               [input ? node->inputs[i] - w->p->n_nodes : node->inputs[i]]--;
    }
}

static inline void compute(walker *w, uint32_t v, bool save)
{
    provide_inputs(w, &w->p->nodes[v]);
    wander(w);
    if (w->alive[REMAT_OUT][v]) {
        emit(w, REMAT_D, REMAT_OUT, v);
        w->alive[REMAT_OUT][v] = false;
    }
    save = save && !w->alive[REMAT_SAVED][v];
    emit(w, save ? REMAT_A : REMAT_F, REMAT_OUT, v);
    run_with(w, any_way(w, v, false));
    if (save)
        w->maker[v] = w->list.items[w->list.length - 1].alternative;
    w->alive[REMAT_OUT][v] = true;
    w->alive[REMAT_SAVED][v] |= save;
    release_inputs(w, &w->p->nodes[v]);
}

static inline void provide(walker *w, uint32_t value)
{
    bool input = value >= w->p->n_nodes;
    unsigned t = input ? REMAT_INPUT : REMAT_OUT;
    uint32_t i = input ? value - w->p->n_nodes : value;
    if (w->alive[t][i])
        return;
    if (input || (w->link && w->on_host[t][i] && chance(w->d, 60))) {
        emit(w, REMAT_P, t, i);
        w->alive[t][i] = true;
        return;
    }
    compute(w, i, chance(w->d, 40));
}

static inline void backward(walker *w, uint32_t v)
{
    const remat_node *node = &w->p->nodes[v];
    if (node->backward_uses_inputs)
        provide_inputs(w, node);
    bool bare =
        any_way(w, v, true) != UINT16_MAX && (node->n_alternatives == 0 || chance(w->d, 30));
    if (!bare && !w->alive[REMAT_SAVED][v]) {
        if (w->link && w->on_host[REMAT_SAVED][v] && chance(w->d, 60)) {
            emit(w, REMAT_P, REMAT_SAVED, v);
            w->alive[REMAT_SAVED][v] = true;
            w->maker[v] = w->host_maker[v];
        } else {
            compute(w, v, true);
        }
    }
    w->held[REMAT_SAVED][v]++;
    if (node->backward_uses_output)
        provide(w, v);
    w->held[REMAT_OUT][v]++;
    if (!node->backward_uses_output && chance(w->d, 50))
        w->held[REMAT_OUT][v]--;
    else
        wander(w);
    emit(w, REMAT_B, REMAT_OUT, v);
    run_with(w, bare ? any_way(w, v, true) : w->maker[v]);
    w->held[REMAT_OUT][v] = 0;
    w->held[REMAT_SAVED][v] = 0;
    w->alive[REMAT_SAVED][v] = false;
    w->done[v] = true;
    if (node->backward_uses_inputs)
        release_inputs(w, node);
}

/* A node whose consumers' backward is done, at random. */
static inline uint32_t next_backward(walker *w)
{
    uint32_t ready[MOST_NODES], n = 0;
    for (uint32_t v = 0; v < w->p->n_nodes; v++) {
        bool good = !w->done[v];
        for (uint32_t i = 0; i < w->p->nodes[v].n_consumers; i++)
            good = good && w->done[w->p->nodes[v].consumers[i]];
        if (good)
            ready[n++] = v;
    }
    return ready[below(w->d, n)];
}

/* A valid list, states left out. The caller clears it. */
static inline remat_operations random_list(dice *d, const remat_profile *p, bool link)
{
    walker w = {.p = p, .d = d, .link = link, .drop_rate = below(d, 4) * 10};
    for (uint32_t k = 0; k < p->n_inputs; k++)
        w.alive[REMAT_INPUT][k] = true;
    for (uint32_t v = 0; v < p->n_nodes; v++) {
        if (!w.alive[REMAT_OUT][v])
            compute(&w, v, chance(d, 50));
        wander(&w);
    }
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        backward(&w, next_backward(&w));
        wander(&w);
    }
    return w.list;
}

/* The same with S and R, which the states pass puts in. */
static inline remat_operations random_whole_list(dice *d, const remat_profile *p, bool link)
{
    remat_operations bare = random_list(d, p, link), whole = {0};
    if (remat_insert_states(p, &bare, &whole, NULL))
        fail_msg("states pass");
    remat_operations_clear(&bare);
    return whole;
}

/* ---- mutations ---- */

static inline remat_operation random_operation(dice *d, const remat_profile *p)
{
    remat_operation o = {.kind = (uint8_t)below(d, 8)};
    bool moves = o.kind == REMAT_D || o.kind == REMAT_O || o.kind == REMAT_P;
    if ((o.kind == REMAT_S || o.kind == REMAT_R) && p->n_states > 0) {
        o.index = below(d, p->n_states);
        o.version = below(d, p->states[o.index].n_writers + 1);
        return o;
    }
    if (o.kind == REMAT_S || o.kind == REMAT_R)
        o.kind = REMAT_F;
    if (moves)
        o.target = (uint8_t)below(d, p->n_inputs > 0 ? 3 : 2);
    o.index = below(d, naive_count(p, o.target));
    if (!moves && p->nodes[o.index].n_alternatives > 0)
        o.alternative = (uint16_t)below(d, p->nodes[o.index].n_alternatives + 2);
    return o;
}

static inline void remove_operation(remat_operations *list, size_t at)
{
    memmove(&list->items[at], &list->items[at + 1], (list->length - at - 1) * sizeof *list->items);
    list->length--;
}

static inline void insert_operation(remat_operations *list, size_t at, remat_operation operation)
{
    assert_int_equal(remat_operations_push(list, operation), REMAT_OK);
    memmove(&list->items[at + 1], &list->items[at], (list->length - 1 - at) * sizeof *list->items);
    list->items[at] = operation;
}

static inline remat_operations copy_list(const remat_operations *list)
{
    remat_operations copy = {0};
    for (size_t i = 0; i < list->length; i++)
        assert_int_equal(remat_operations_push(&copy, list->items[i]), REMAT_OK);
    return copy;
}

static inline void mutate(dice *d, const remat_profile *p, remat_operations *list)
{
    size_t n = list->length, i = n ? below(d, (uint32_t)n) : 0, j = n ? below(d, (uint32_t)n) : 0;
    unsigned how = n ? below(d, 6) : 2;
    remat_operation one = n ? list->items[i] : (remat_operation){0};
    if (how == 0) {
        remove_operation(list, i);
    } else if (how == 1) {
        insert_operation(list, j, one);
    } else if (how == 2) {
        insert_operation(list, i, random_operation(d, p));
    } else if (how == 3) {
        list->items[i] = list->items[j];
        list->items[j] = one;
    } else if (how == 4) {
        remove_operation(list, i);
        insert_operation(list, j < list->length ? j : list->length, one);
    } else {
        list->items[i] = random_operation(d, p);
    }
}

static inline void print_list(const remat_operations *list)
{
    for (size_t i = 0; i < list->length; i++) {
        const remat_operation *o = &list->items[i];
        bool state = o->kind == REMAT_S || o->kind == REMAT_R;
        fprintf(stderr, "# %zu: %s %s%u", i, remat_operation_name((remat_operation_kind)o->kind),
                o->target == REMAT_SAVED   ? "saved "
                : o->target == REMAT_INPUT ? "input "
                                           : "",
                o->index);
        fprintf(stderr, state ? " %u\n" : " with %u\n", state ? o->version : o->alternative);
    }
}

#endif
