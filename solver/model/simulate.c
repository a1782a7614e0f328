/* The judge: remat/simulate.h states the rules, this file replays them. It trusts the profile and
 * nothing else; it shares no code with any solver. */
#include "remat/simulate.h"

#include "model/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One place where bytes can be: out(v) is v, saved(v) is n + v, graph input k is 2n + k, and
 * further results of nodes stand behind those. */
typedef struct place {
    uint64_t bytes;
    double ready;     /* when a copy to the device arrives; 0 for what was computed */
    double copied;    /* end of the copy to the host under way or done */
    bool alive;       /* there for the operations */
    bool overwritten; /* its bytes were taken over in place; a D is still to come */
    bool on_host;
    uint16_t maker, host_maker; /* of saved values: the implementation that made them */
} place;

typedef struct replay {
    const remat_profile *profile;
    const remat_operations *operations;
    const remat_link *link;
    remat_simulation *result;
    uint32_t n;
    place *places;
    bool *gradient;         /* by value (node, then graph input): alive */
    bool *done;             /* by node: B has run */
    uint32_t *waiting;      /* by node: consumers whose B has not run */
    uint32_t *runs;         /* by node: forwards so far */
    bool *overwrites;       /* by operation: this F or A takes over its first input's place */
    uint32_t *state;        /* by state: version it holds */
    uint32_t *first_key;    /* by state: key of its version 0 */
    uint32_t *pending;      /* by key: R still to come */
    bool *saved;            /* by key: version saved */
    uint32_t *read_first;   /* by node: where its entries in read_version begin */
    uint32_t *read_version; /* version each reader sees in the plain forward pass */
    uint32_t *write_first, *write_version;
    double *node_recomputed;
    uint64_t memory;
    double now, to_host_free, to_device_free;
    size_t at;
    bool turning; /* the last node has just run: D still belong to the turn */
    remat_moment moment;
} replay;

/* ---- setting up ---- */

static uint32_t out_of(const replay *r, const remat_operation *operation)
{
    return remat_result_value(r->profile, operation->index, operation->version);
}

static uint32_t place_of_value(const replay *r, uint32_t value)
{
    return value < r->n ? value : r->n + value;
}

static uint32_t place_of(const replay *r, const remat_operation *operation)
{
    return operation->target == REMAT_OUT     ? place_of_value(r, out_of(r, operation))
           : operation->target == REMAT_SAVED ? r->n + operation->index
                                              : 2 * r->n + operation->index;
}

static bool well_formed(const replay *r, const remat_operation *operation)
{
    if (operation->kind > REMAT_R || operation->target > REMAT_INPUT)
        return false;
    if (operation->kind == REMAT_S || operation->kind == REMAT_R)
        return operation->index < r->profile->n_states && operation->alternative == 0 &&
               operation->version <= r->profile->states[operation->index].n_writers;
    bool targeted =
        operation->kind == REMAT_D || operation->kind == REMAT_O || operation->kind == REMAT_P;
    if (targeted && operation->target == REMAT_INPUT)
        return operation->index < r->profile->n_inputs && operation->alternative == 0;
    if (operation->index >= r->n)
        return false;
    if (r->profile->joint && (operation->kind == REMAT_A || operation->kind == REMAT_B ||
                              operation->target == REMAT_SAVED))
        return false;
    if (targeted)
        return operation->alternative == 0 &&
               (operation->target == REMAT_SAVED ||
                operation->version < r->profile->nodes[operation->index].n_outputs);
    return operation->target == REMAT_OUT &&
           operation->alternative <= r->profile->nodes[operation->index].n_alternatives;
}

/* Whether something reads out(u) between here and its next making: known at every in-place forward
 * after a walk from the end of the list. */
static void find_overwrites(replay *r, bool *read_later)
{
    for (size_t i = r->operations->length; i-- > 0;) {
        const remat_operation *operation = &r->operations->items[i];
        if (!well_formed(r, operation) || operation->target == REMAT_INPUT ||
            operation->kind == REMAT_S || operation->kind == REMAT_R)
            continue;
        uint32_t v = operation->index;
        const remat_node *node = &r->profile->nodes[v];
        bool forward = operation->kind == REMAT_F || operation->kind == REMAT_A;
        if (forward) {
            for (uint32_t k = 0; k < node->n_outputs; k++)
                read_later[remat_result_value(r->profile, v, k)] = false;
            if (node->in_place && node->n_inputs > 0 &&
                remat_is_result(r->profile, node->inputs[0]))
                r->overwrites[i] = !read_later[node->inputs[0]];
        }
        if (forward || (operation->kind == REMAT_B && node->backward_uses_inputs))
            for (uint32_t k = 0; k < node->n_inputs; k++)
                read_later[node->inputs[k]] = true;
        if (operation->kind == REMAT_B && node->backward_uses_output)
            read_later[v] = true;
        if (operation->kind == REMAT_O && operation->target == REMAT_OUT)
            read_later[out_of(r, operation)] = true;
        if (operation->kind == REMAT_P && operation->target == REMAT_OUT)
            read_later[out_of(r, operation)] = false;
    }
}

static bool allocate(replay *r)
{
    const remat_profile *p = r->profile;
    size_t reads = 0, writes = 0, keys = 0;
    for (uint32_t v = 0; v < r->n; v++) {
        reads += p->nodes[v].n_reads;
        writes += p->nodes[v].n_writes;
    }
    for (uint32_t k = 0; k < p->n_states; k++)
        keys += (size_t)p->states[k].n_writers + 1;
    r->places = calloc((size_t)r->n + remat_n_values(p), sizeof *r->places);
    r->gradient = calloc((size_t)r->n + p->n_inputs, sizeof *r->gradient);
    r->done = calloc(r->n, sizeof *r->done);
    r->waiting = calloc(r->n, sizeof *r->waiting);
    r->runs = calloc(r->n, sizeof *r->runs);
    r->overwrites = calloc(r->operations->length + 1, sizeof *r->overwrites);
    r->state = calloc((size_t)p->n_states + 1, sizeof *r->state);
    r->first_key = calloc((size_t)p->n_states + 1, sizeof *r->first_key);
    r->pending = calloc(keys + 1, sizeof *r->pending);
    r->saved = calloc(keys + 1, sizeof *r->saved);
    r->read_first = calloc((size_t)r->n + 1, sizeof *r->read_first);
    r->read_version = calloc(reads + 1, sizeof *r->read_version);
    r->write_first = calloc((size_t)r->n + 1, sizeof *r->write_first);
    r->write_version = calloc(writes + 1, sizeof *r->write_version);
    return r->places && r->gradient && r->done && r->waiting && r->runs && r->overwrites &&
           r->state && r->first_key && r->pending && r->saved && r->read_first && r->read_version &&
           r->write_first && r->write_version;
}

static void release(replay *r)
{
    free(r->places);
    free(r->gradient);
    free(r->done);
    free(r->waiting);
    free(r->runs);
    free(r->overwrites);
    free(r->state);
    free(r->first_key);
    free(r->pending);
    free(r->saved);
    free(r->read_first);
    free(r->read_version);
    free(r->write_first);
    free(r->write_version);
}

/* The versions of the plain forward pass: node by node in order, each writer adds one. */
static void number_versions(replay *r)
{
    const remat_profile *p = r->profile;
    for (uint32_t v = 0; v < r->n; v++) {
        const remat_node *node = &p->nodes[v];
        for (uint32_t i = 0; i < node->n_reads; i++)
            r->read_version[r->read_first[v] + i] = r->state[node->reads[i]];
        for (uint32_t i = 0; i < node->n_writes; i++)
            r->write_version[r->write_first[v] + i] = ++r->state[node->writes[i]];
        r->read_first[v + 1] = r->read_first[v] + node->n_reads;
        r->write_first[v + 1] = r->write_first[v] + node->n_writes;
    }
    for (uint32_t k = 0; k < p->n_states; k++) {
        r->first_key[k + 1] = r->first_key[k] + p->states[k].n_writers + 1;
        r->state[k] = 0;
    }
}

static bool set_up(replay *r)
{
    const remat_profile *p = r->profile;
    if (!allocate(r))
        return false;
    for (uint32_t v = 0; v < r->n; v++) {
        r->places[v].bytes = p->nodes[v].output_bytes;
        r->places[r->n + v].bytes = p->nodes[v].saved_bytes;
        r->waiting[v] = p->nodes[v].n_consumers;
    }
    for (uint32_t k = 0; k < p->n_inputs; k++)
        r->places[2 * (size_t)r->n + k] =
            (place){.bytes = p->inputs[k].bytes, .alive = !p->inputs[k].late};
    for (uint32_t j = 0; j < p->n_results; j++)
        r->places[2 * (size_t)r->n + p->n_inputs + j].bytes = p->results[j].bytes;
    r->memory = p->input_bytes - p->late_bytes;
    number_versions(r);
    for (size_t i = 0; i < r->operations->length; i++) {
        const remat_operation *operation = &r->operations->items[i];
        if (operation->kind == REMAT_R && well_formed(r, operation))
            r->pending[r->first_key[operation->index] + operation->version]++;
    }
    bool *read_later = calloc(remat_n_values(p), sizeof *read_later);
    if (!read_later)
        return false;
    for (uint32_t i = 0; i < p->n_outputs; i++)
        read_later[p->outputs[i]] = true;
    find_overwrites(r, read_later);
    free(read_later);
    return true;
}

/* ---- judging one operation ---- */

/* Records the first fault; always returns false. */
__attribute__((format(printf, 2, 3))) static bool reject(replay *r, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(r->result->reason, sizeof r->result->reason, format, arguments);
    va_end(arguments);
    model_utf8_clean(r->result->reason);
    r->result->bad_operation = r->at;
    return false;
}

static const char *implementation_name(const remat_node *node, uint16_t alternative)
{
    return alternative ? node->alternatives[alternative - 1].name : "its own implementation";
}

static const char *node_id(const replay *r, uint32_t v)
{
    return r->profile->nodes[v].id;
}

/* Later of *start and the time at which a place can be read; false if it is not there at all. */
static bool wait_for(const replay *r, uint32_t index, double *start)
{
    const place *p = &r->places[index];
    if (!p->alive)
        return false;
    if (p->ready > *start)
        *start = p->ready;
    return true;
}

static bool wait_for_inputs(replay *r, const remat_node *node, double *start)
{
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (!wait_for(r, place_of_value(r, node->inputs[i]), start))
            return reject(r, "the output of \"%.100s\", which \"%.100s\" reads, is not in memory",
                          remat_value_id(r->profile, node->inputs[i]), node->id);
    return true;
}

static void set_peak(replay *r, uint64_t during)
{
    r->moment.memory_during = during;
    if (during > r->result->peak) {
        r->result->peak = during;
        r->result->peak_operation = r->at;
    }
}

/* Lets a compute operation run from start for its time. */
static void run(replay *r, double start, double time)
{
    r->result->idle_time += start - r->now;
    r->result->compute_time += time;
    r->moment.start = start;
    r->moment.end = r->now = start + time;
}

static void make(replay *r, uint32_t index)
{
    place *p = &r->places[index];
    p->alive = true;
    p->overwritten = false;
    p->ready = p->copied = 0;
    r->memory += p->bytes;
}

/* saved(v) is what this implementation of v saves. */
static void set_maker(replay *r, uint32_t v, uint16_t alternative)
{
    place *saved = &r->places[r->n + v];
    saved->maker = alternative;
    saved->bytes = remat_implementation(&r->profile->nodes[v], alternative).saved_bytes;
}

static bool judge_states(replay *r, uint32_t v)
{
    const remat_node *node = &r->profile->nodes[v];
    for (uint32_t i = 0; i < node->n_reads; i++) {
        uint32_t k = node->reads[i], expected = r->read_version[r->read_first[v] + i];
        if (r->state[k] != expected)
            return reject(r,
                          "\"%.100s\" would see version %u of state \"%.100s\"; the plain forward "
                          "pass shows it version %u",
                          node->id, r->state[k], r->profile->states[k].id, expected);
    }
    for (uint32_t i = 0; i < node->n_writes; i++)
        r->state[node->writes[i]] = r->write_version[r->write_first[v] + i];
    return true;
}

static bool forward(replay *r, uint32_t v, uint16_t alternative, bool save)
{
    const remat_node *node = &r->profile->nodes[v];
    const remat_alternative cost = remat_implementation(node, alternative);
    double start = r->now;
    if (node->once && r->runs[v] > 0)
        return reject(r, "\"%.100s\" has run already and is pinned: it runs once", node->id);
    for (uint32_t k = 0; k < node->n_outputs; k++)
        if (r->places[place_of_value(r, remat_result_value(r->profile, v, k))].alive)
            return reject(r, "the output of \"%.100s\" is in memory already", node->id);
    if (save && r->places[r->n + v].alive)
        return reject(r, "the saved values of \"%.100s\" are in memory already", node->id);
    if (!wait_for_inputs(r, node, &start) || !judge_states(r, v))
        return false;
    uint64_t freed = 0;
    if (r->overwrites[r->at]) {
        place *first = &r->places[place_of_value(r, node->inputs[0])];
        if (first->copied > start)
            start = first->copied;
        first->alive = false;
        first->overwritten = true;
        freed = first->bytes;
    }
    uint64_t shared = freed < node->output_bytes ? freed : node->output_bytes;
    for (uint32_t k = 0; k < node->n_outputs; k++)
        make(r, place_of_value(r, remat_result_value(r->profile, v, k)));
    if (save) {
        set_maker(r, v, alternative);
        make(r, r->n + v);
    }
    set_peak(r, r->memory - shared +
                    (save ? cost.save_workspace_bytes : cost.forward_workspace_bytes));
    r->memory -= freed;
    run(r, start, cost.forward_time);
    if (r->runs[v]++ > 0) {
        r->result->recomputed_time += cost.forward_time;
        r->result->recomputed++;
        if (r->node_recomputed)
            r->node_recomputed[v] += cost.forward_time;
    }
    return true;
}

/* Whether saved(v) is there and made by the implementation that is to read it. */
static bool judge_saved(replay *r, uint32_t v, uint16_t alternative, double *start)
{
    const remat_node *node = &r->profile->nodes[v];
    if (!wait_for(r, r->n + v, start))
        return reject(r, "the saved values of \"%.100s\" are not in memory", node->id);
    uint16_t maker = r->places[r->n + v].maker;
    if (maker != alternative)
        return reject(
            r, "the saved values of \"%.100s\" were made by %.100s and are read by %.100s",
            node->id, implementation_name(node, maker), implementation_name(node, alternative));
    return true;
}

static bool backward_may_run(replay *r, uint32_t v, uint16_t alternative, double *start)
{
    const remat_node *node = &r->profile->nodes[v];
    bool saves = remat_implementation(node, alternative).saved_bytes > 0;
    if (r->done[v])
        return reject(r, "B of \"%.100s\" has run already", node->id);
    if (r->runs[v] == 0)
        return reject(r, "B of \"%.100s\" comes before any forward of it", node->id);
    for (uint32_t i = 0; r->waiting[v] > 0 && i < node->n_consumers; i++)
        if (!r->done[node->consumers[i]])
            return reject(r, "B of \"%.100s\" comes before B of its consumer \"%.100s\"", node->id,
                          node_id(r, node->consumers[i]));
    if (saves && !judge_saved(r, v, alternative, start))
        return false;
    if (node->backward_uses_output && !wait_for(r, v, start))
        return reject(r, "the output of \"%.100s\", which its backward reads, is not in memory",
                      node->id);
    return !node->backward_uses_inputs || wait_for_inputs(r, node, start);
}

/* Allocates the gradients of v's inputs that are not there yet. Returns how many bytes of the first
 * one may lie where grad(v) lies now. */
static uint64_t make_gradients(replay *r, const remat_node *node)
{
    uint64_t overlap = 0;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        uint32_t value = node->inputs[i];
        bool input = value >= r->n;
        uint64_t bytes = input ? r->profile->inputs[value - r->n].gradient_bytes
                               : r->profile->nodes[value].gradient_bytes;
        if (!input)
            r->waiting[value]--;
        if (r->gradient[value])
            continue;
        r->gradient[value] = true;
        r->memory += bytes;
        if (i == 0 && node->in_place)
            overlap = bytes < node->gradient_bytes ? bytes : node->gradient_bytes;
    }
    return overlap;
}

static bool backward(replay *r, uint32_t v, uint16_t alternative)
{
    const remat_node *node = &r->profile->nodes[v];
    const remat_alternative cost = remat_implementation(node, alternative);
    double start = r->now;
    if (!backward_may_run(r, v, alternative, &start))
        return false;
    if (node->n_consumers == 0) /* the loss: its gradient, the seed, appears now */
        r->memory += node->gradient_bytes;
    uint64_t overlap = make_gradients(r, node);
    set_peak(r, r->memory - overlap + cost.backward_workspace_bytes);
    r->memory -= node->gradient_bytes;
    place *saved = &r->places[r->n + v];
    if (saved->alive) {
        if (saved->copied > start)
            start = saved->copied;
        saved->alive = false;
        r->memory -= saved->bytes;
    }
    r->done[v] = true;
    run(r, start, cost.backward_time);
    return true;
}

static const char *describe(const replay *r, const remat_operation *operation, char *text,
                            size_t size)
{
    const char *id = operation->target == REMAT_INPUT ? r->profile->inputs[operation->index].id
                                                      : node_id(r, operation->index);
    static const char *const whats[] = {"the output of", "what is saved of", "graph input"};
    snprintf(text, size, "%s \"%.100s\"", whats[operation->target], id);
    return text;
}

static bool drop(replay *r, const remat_operation *operation)
{
    place *p = &r->places[place_of(r, operation)];
    char text[160];
    if (!p->alive && !p->overwritten)
        return reject(r, "%s is not in memory", describe(r, operation, text, sizeof text));
    if (operation->target == REMAT_INPUT && !p->on_host)
        return reject(r, "%s may be dropped only after an O of it",
                      describe(r, operation, text, sizeof text));
    double start = r->now;
    if (p->copied > start)
        start = p->copied;
    if (p->alive && p->ready > start)
        start = p->ready;
    if (p->alive)
        r->memory -= p->bytes;
    p->alive = p->overwritten = false;
    run(r, start, 0);
    return true;
}

/* Queues a transfer of bytes at rate, not before earliest, on the stream that is free at *free. */
static double transfer(replay *r, double earliest, uint64_t bytes, double rate, double *stream_free)
{
    double start = earliest > *stream_free ? earliest : *stream_free;
    double end = start + r->link->latency + (bytes ? (double)bytes / rate : 0);
    *stream_free = end;
    if (r->link->shared)
        r->to_host_free = r->to_device_free = end;
    r->moment.start = start;
    r->moment.end = end;
    return end;
}

static bool is_held(const remat_profile *p, const remat_operation *operation)
{
    if (!p->held_elsewhere || operation->target == REMAT_INPUT)
        return p->held_elsewhere;
    for (uint32_t i = 0; i < p->n_outputs; i++)
        if (p->outputs[i] == remat_operation_value(p, operation))
            return true;
    return false;
}

static bool offload(replay *r, const remat_operation *operation)
{
    place *p = &r->places[place_of(r, operation)];
    char text[160];
    if (!r->link)
        return reject(r, "O needs a link to the host, and there is none");
    if (!p->alive)
        return reject(r, "%s is not in memory", describe(r, operation, text, sizeof text));
    if (is_held(r->profile, operation))
        return reject(r, "%s stays: others hold it too", describe(r, operation, text, sizeof text));
    if (p->bytes > 0 && !(r->link->to_host > 0))
        return reject(r, "%s cannot be copied: the link to the host has no bandwidth",
                      describe(r, operation, text, sizeof text));
    double earliest = p->ready > r->now ? p->ready : r->now;
    p->copied = transfer(r, earliest, p->bytes, r->link->to_host, &r->to_host_free);
    if (!p->on_host || p->host_maker != p->maker)
        r->result->host_peak += p->bytes;
    p->on_host = true;
    p->host_maker = p->maker;
    r->result->bytes_to_host += p->bytes;
    return true;
}

static bool prefetch(replay *r, const remat_operation *operation)
{
    place *p = &r->places[place_of(r, operation)];
    char text[160];
    if (!r->link)
        return reject(r, "P needs a link to the host, and there is none");
    if (p->alive)
        return reject(r, "%s is in memory already", describe(r, operation, text, sizeof text));
    if (!p->on_host)
        return reject(r, "%s has no copy on the host", describe(r, operation, text, sizeof text));
    if (operation->target == REMAT_OUT && r->profile->nodes[operation->index].keep)
        return reject(r, "%s is pinned: it stays in memory to its last use",
                      describe(r, operation, text, sizeof text));
    if (p->bytes > 0 && !(r->link->to_device > 0))
        return reject(r, "%s cannot be copied: the link to the device has no bandwidth",
                      describe(r, operation, text, sizeof text));
    double copied = p->copied;
    if (operation->target == REMAT_SAVED)
        set_maker(r, operation->index, p->host_maker);
    make(r, place_of(r, operation));
    p->copied = copied;
    double earliest = copied > r->now ? copied : r->now;
    p->ready = transfer(r, earliest, p->bytes, r->link->to_device, &r->to_device_free);
    r->result->bytes_to_device += p->bytes;
    return true;
}

static bool save_state(replay *r, uint32_t k, uint32_t version)
{
    uint32_t key = r->first_key[k] + version;
    const remat_state *state = &r->profile->states[k];
    if (r->state[k] != version)
        return reject(r, "state \"%.100s\" holds version %u, not %u", state->id, r->state[k],
                      version);
    if (r->saved[key])
        return reject(r, "version %u of state \"%.100s\" is saved already", version, state->id);
    r->saved[key] = true;
    r->memory += state->bytes;
    return true;
}

static bool restore_state(replay *r, uint32_t k, uint32_t version)
{
    uint32_t key = r->first_key[k] + version;
    const remat_state *state = &r->profile->states[k];
    if (!r->saved[key])
        return reject(r, "version %u of state \"%.100s\" is not saved", version, state->id);
    r->state[k] = version;
    if (--r->pending[key] == 0) {
        r->saved[key] = false;
        r->memory -= state->bytes;
    }
    return true;
}

static bool judge(replay *r, const remat_operation *operation)
{
    uint32_t index = operation->index;
    if (!well_formed(r, operation) && r->profile->joint &&
        (operation->kind == REMAT_A || operation->kind == REMAT_B ||
         operation->target == REMAT_SAVED))
        return reject(
            r, "joint graphs have no A, B and X: operation %" PRIu32 " of node %" PRIu32 " is one",
            (uint32_t)r->at, index);
    if (!well_formed(r, operation))
        return reject(r, "operation %s %" PRIu32 " names nothing of this profile",
                      remat_operation_name((remat_operation_kind)operation->kind), index);
    r->moment = (remat_moment){.start = r->now, .end = r->now};
    uint64_t before = r->memory;
    bool good = false;
    switch ((remat_operation_kind)operation->kind) {
    case REMAT_F:
        good = forward(r, index, operation->alternative, false);
        break;
    case REMAT_A:
        good = forward(r, index, operation->alternative, true);
        break;
    case REMAT_B:
        good = backward(r, index, operation->alternative);
        break;
    case REMAT_D:
        good = drop(r, operation);
        break;
    case REMAT_O:
        good = offload(r, operation);
        break;
    case REMAT_P:
        good = prefetch(r, operation);
        break;
    case REMAT_S:
        good = save_state(r, index, operation->version);
        break;
    case REMAT_R:
        good = restore_state(r, index, operation->version);
        break;
    }
    if (good && r->moment.memory_during == 0)
        set_peak(r, before > r->memory ? before : r->memory);
    r->moment.memory_after = r->memory;
    return good;
}

/* ---- the turn ---- */

static void hold(replay *r, size_t turn)
{
    r->result->held = r->memory;
    r->result->turn = turn;
    r->result->output_held = !r->profile->joint && r->places[r->n - 1].alive;
}

static bool reads_late(const replay *r, const remat_operation *operation)
{
    if (operation->kind != REMAT_F || !well_formed(r, operation))
        return false;
    const remat_node *node = &r->profile->nodes[operation->index];
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (!remat_is_result(r->profile, node->inputs[i]) &&
            r->profile->inputs[node->inputs[i] - r->n].late)
            return true;
    return false;
}

/* Of a joint graph, before an operation: the late inputs come, once everything is sent. */
static bool turn_before(replay *r, const remat_operation *operation)
{
    const remat_profile *p = r->profile;
    if (p->n_late == 0 || r->result->turn != SIZE_MAX || !reads_late(r, operation))
        return true;
    for (uint32_t i = 0; i < p->n_outputs; i++) {
        const uint32_t v =
            remat_is_result(p, p->outputs[i]) ? remat_value_node(p, p->outputs[i]) : 0;
        if (remat_is_result(p, p->outputs[i]) && !p->nodes[v].late && r->runs[v] == 0)
            return reject(r,
                          "\"%.100s\" needs an input that is late before \"%.100s\" has made an "
                          "output that needs none",
                          node_id(r, operation->index), node_id(r, v));
    }
    hold(r, r->at);
    for (uint32_t k = 0; k < r->profile->n_inputs; k++)
        if (r->profile->inputs[k].late)
            make(r, 2 * r->n + k);
    return true;
}

/* Of a forward graph, after an operation. */
static void turn_after(replay *r, const remat_operation *operation)
{
    const bool forward = operation->kind == REMAT_F || operation->kind == REMAT_A;
    if (r->profile->joint)
        return;
    if (forward && operation->index + 1 == r->n && r->result->turn == SIZE_MAX)
        r->turning = true;
    else if (operation->kind != REMAT_D)
        r->turning = false;
    if (r->turning)
        hold(r, r->at + 1);
}

static bool judge_end(replay *r)
{
    bool joint = r->profile->joint;
    for (uint32_t v = 0; v < r->n; v++)
        if (joint ? r->runs[v] == 0 : !r->done[v])
            return reject(r, "the list ends without %s of \"%.100s\"", joint ? "F" : "B",
                          node_id(r, v));
    for (uint32_t i = 0; i < r->profile->n_outputs; i++)
        if (!r->places[place_of_value(r, r->profile->outputs[i])].alive)
            return reject(r,
                          "the list ends without output %" PRIu32 " of the profile, of \"%.100s\"",
                          i, remat_value_id(r->profile, r->profile->outputs[i]));
    double end = r->now; /* an output may be on its way back still */
    for (uint32_t i = 0; i < r->profile->n_outputs; i++)
        wait_for(r, place_of_value(r, r->profile->outputs[i]), &end);
    r->result->idle_time += end - r->now;
    r->now = end;
    for (uint32_t k = 0; k < r->profile->n_states; k++)
        if (r->state[k] != r->profile->states[k].n_writers)
            return reject(r,
                          "the list leaves state \"%.100s\" at version %u; a plain step leaves %u",
                          r->profile->states[k].id, r->state[k], r->profile->states[k].n_writers);
    return true;
}

remat_status remat_simulate(const remat_profile *profile, const remat_operations *operations,
                            const remat_link *link, remat_moment *moments, double *node_recomputed,
                            remat_simulation *ret_simulation, remat_error *error)
{
    remat_simulation result = {.peak = profile->input_bytes - profile->late_bytes,
                               .turn = SIZE_MAX};
    replay r = {.profile = profile,
                .operations = operations,
                .link = link,
                .result = &result,
                .n = profile->n_nodes,
                .node_recomputed = node_recomputed};
    if (!set_up(&r)) {
        release(&r);
        return remat_fail_memory(error);
    }
    if (node_recomputed)
        memset(node_recomputed, 0, profile->n_nodes * sizeof *node_recomputed);
    bool good = true;
    for (r.at = 0; good && r.at < operations->length; r.at++) {
        good = turn_before(&r, &operations->items[r.at]) && judge(&r, &operations->items[r.at]);
        if (good)
            turn_after(&r, &operations->items[r.at]);
        if (good && moments)
            moments[r.at] = r.moment;
    }
    result.valid = good && judge_end(&r);
    result.makespan = r.now;
    release(&r);
    *ret_simulation = result;
    return REMAT_OK;
}

void remat_put_in_flight(remat_simulation *simulation, uint32_t in_flight)
{
    if (in_flight > 1)
        simulation->peak += (in_flight - 1) * simulation->held;
}
