#include "start/offload/place.h"

#include "model/lists.h"

#include <stdlib.h>
#include <string.h>

#define NOWHERE UINT32_MAX

/* ---- the list without transfers ---- */

/* Liveness, states, replay: base and during. */
static remat_status settle(offload_placing *p, const remat_profile *profile,
                           const remat_operations *compute, remat_error *error)
{
    remat_simulation simulation;
    remat_status status = model_complete_list(profile, compute, &p->base, error);
    if (status)
        return status;
    remat_moment *moments = malloc((p->base.length + 1) * sizeof *moments);
    p->during = malloc((p->base.length + 1) * sizeof *p->during);
    p->at = malloc((p->base.length + 1) * sizeof *p->at);
    if (!moments || !p->during || !p->at)
        status = remat_fail_memory(error);
    if (!status)
        status = remat_simulate(profile, &p->base, NULL, moments, NULL, &simulation, error);
    if (!status && !simulation.valid)
        status = remat_fail(error, REMAT_INTERNAL, NULL, "a plan is no schedule: %.300s",
                            simulation.reason);
    for (size_t i = 0; i < p->base.length && !status; i++) {
        p->during[i] = moments[i].memory_during;
        p->at[i] = moments[i].start;
    }
    free(moments);
    return status;
}

/* Position of the making, the last reader before the turn and the first one from it on. */
typedef struct life {
    uint32_t made, read, wanted;
} life;

static void note_read(life *one, uint32_t at, uint32_t turn)
{
    if (at < turn)
        one->read = at;
    else if (one->wanted == NOWHERE)
        one->wanted = at;
}

/* Made anew at or after the turn: what nothing wanted before need not be moved. */
static void forget(life *one)
{
    if (one->wanted == NOWHERE)
        one->made = NOWHERE;
}

static void note(life *lives, const remat_profile *profile, const remat_operation *operation,
                 uint32_t at, uint32_t turn)
{
    uint32_t n = profile->n_nodes, v = operation->index;
    if (operation->kind != REMAT_F && operation->kind != REMAT_A && operation->kind != REMAT_B)
        return;
    const remat_node *node = &profile->nodes[v];
    if (operation->kind != REMAT_B || node->backward_uses_inputs)
        for (uint32_t k = 0; k < node->n_inputs; k++)
            note_read(&lives[node->inputs[k] < n ? node->inputs[k] : n + node->inputs[k]], at,
                      turn);
    if (operation->kind == REMAT_B) {
        if (node->backward_uses_output)
            note_read(&lives[v], at, turn);
        note_read(&lives[n + v], at, turn);
        return;
    }
    if (at < turn) { /* made again, it is another instance */
        lives[v] = (life){at, at, NOWHERE};
        if (operation->kind == REMAT_A)
            lives[n + v] = (life){at, at, NOWHERE};
    } else {
        forget(&lives[v]);
        if (operation->kind == REMAT_A)
            forget(&lives[n + v]);
    }
}

static uint64_t bytes_of(const remat_profile *profile, uint32_t place)
{
    uint32_t n = profile->n_nodes;
    return place < n       ? profile->nodes[place].output_bytes
           : place < 2 * n ? profile->nodes[place - n].saved_bytes
                           : profile->inputs[place - 2 * n].bytes;
}

static int by_making(const void *a, const void *b)
{
    const offload_span *p = a, *q = b;
    uint32_t x = p->made + 1, y = q->made + 1; /* graph inputs first */
    if (x != y)
        return x < y ? -1 : 1;
    return (p->value.target > q->value.target) - (p->value.target < q->value.target);
}

static void add_span(offload_placing *p, const remat_profile *profile, uint32_t place,
                     const life *one)
{
    uint32_t n = profile->n_nodes;
    uint64_t bytes = bytes_of(profile, place);
    bool input = place >= 2 * n, absent = !input && one->made == NOWHERE;
    if (bytes == 0 || absent || one->wanted == NOWHERE || one->wanted <= p->turn)
        return;
    remat_target target = input ? REMAT_INPUT : place < n ? REMAT_OUT : REMAT_SAVED;
    remat_operation value = {.kind = REMAT_O, .target = (uint8_t)target};
    value.index = input ? place - 2 * n : place < n ? place : place - n;
    p->spans[p->n_spans++] = (offload_span){value, bytes, one->made, one->read, one->wanted};
}

/* Insertion sort: spans made earlier are mostly wanted later. */
static void sort_by_reader(offload_placing *p)
{
    for (uint32_t k = 0; k < p->n_spans; k++)
        p->order[k] = p->n_spans - 1 - k;
    for (uint32_t k = 1; k < p->n_spans; k++) {
        uint32_t one = p->order[k], at = k;
        for (; at > 0 && p->spans[p->order[at - 1]].wanted > p->spans[one].wanted; at--)
            p->order[at] = p->order[at - 1];
        p->order[at] = one;
    }
}

static remat_status find_spans(offload_placing *p, const remat_profile *profile, const bool *moved,
                               remat_error *error)
{
    uint32_t n = profile->n_nodes, places = 2 * n + profile->n_inputs;
    life *lives = malloc((size_t)places * sizeof *lives);
    p->spans = malloc((size_t)places * sizeof *p->spans);
    p->order = malloc((size_t)places * sizeof *p->order);
    if (!lives || !p->spans || !p->order) {
        free(lives);
        return remat_fail_memory(error);
    }
    while (p->base.items[p->turn].kind != REMAT_B)
        p->turn++;
    for (uint32_t k = 0; k < places; k++)
        lives[k] = (life){NOWHERE, 0, NOWHERE};
    for (uint32_t i = 0; i < p->base.length; i++)
        note(lives, profile, &p->base.items[i], i, p->turn);
    for (uint32_t k = 0; k < places; k++)
        if (!moved || moved[k])
            add_span(p, profile, k, &lives[k]);
    free(lives);
    if (p->n_spans > 0)
        qsort(p->spans, p->n_spans, sizeof *p->spans, by_making);
    sort_by_reader(p);
    return REMAT_OK;
}

remat_status offload_placing_init(offload_placing *ret_placing, const remat_profile *profile,
                                  const remat_operations *compute, const bool *moved,
                                  remat_error *error)
{
    offload_placing p = {0};
    remat_status status = settle(&p, profile, compute, error);
    if (!status)
        status = find_spans(&p, profile, moved, error);
    if (status)
        offload_placing_clear(&p);
    else
        *ret_placing = p;
    return status;
}

void offload_placing_clear(offload_placing *placing)
{
    remat_operations_clear(&placing->base);
    free(placing->during);
    free(placing->at);
    free(placing->spans);
    free(placing->order);
    *placing = (offload_placing){0};
}

/* ---- placing ---- */

/* Positions before which each span's D and P stand, and the bytes at every position. */
typedef struct layout {
    const offload_placing *p;
    const bool *chosen;
    uint64_t budget;
    uint32_t *drop, *fetch; /* by span */
    uint64_t *bytes;        /* by position */
} layout;

/* Spans by position: those of one are linked. */
typedef struct buckets {
    uint32_t *first, *next;
} buckets;

static bool is_moved(const layout *l, uint32_t span)
{
    return !l->chosen || l->chosen[span];
}

/* First span that may be dropped before position i: its forward readers are over. */
static uint32_t droppable(const layout *l, uint32_t from, uint32_t i)
{
    const offload_placing *p = l->p;
    for (uint32_t k = from; k < p->n_spans; k++) {
        const offload_span *one = &p->spans[k];
        if (one->made != NOWHERE && one->made >= i)
            break;
        if (is_moved(l, k) && l->drop[k] == NOWHERE && one->read < i)
            return k;
    }
    return NOWHERE;
}

static bool place_drops(layout *l)
{
    const offload_placing *p = l->p;
    uint64_t gone = 0;
    uint32_t from = 0;
    for (uint32_t i = 0; i < p->turn; i++) {
        while (p->during[i] - gone > l->budget) {
            uint32_t k = droppable(l, from, i);
            if (k == NOWHERE)
                return false;
            l->drop[k] = i;
            gone += p->spans[k].bytes;
            while (from < p->n_spans && (!is_moved(l, from) || l->drop[from] != NOWHERE))
                from++;
        }
        l->bytes[i] = p->during[i] - gone;
    }
    for (uint32_t k = 0; k < p->n_spans; k++)
        if (is_moved(l, k) && l->drop[k] == NOWHERE)
            l->drop[k] = p->turn;
    return true;
}

/* Bytes from the turn on with every moved value away until its first reader. */
static bool empty_backward(layout *l)
{
    const offload_placing *p = l->p;
    uint64_t away = 0;
    for (uint32_t k = 0; k < p->n_spans; k++)
        away += is_moved(l, k) ? p->spans[k].bytes : 0;
    uint32_t back = 0;
    for (uint32_t i = p->turn; i < p->base.length; i++) {
        for (; back < p->n_spans && p->spans[p->order[back]].wanted <= i; back++)
            away -= is_moved(l, p->order[back]) ? p->spans[p->order[back]].bytes : 0;
        l->bytes[i] = p->during[i] - away;
        if (l->bytes[i] > l->budget)
            return false;
    }
    return true;
}

static void place_fetches(layout *l)
{
    const offload_placing *p = l->p;
    for (uint32_t k = 0; k < p->n_spans; k++) {
        uint32_t span = p->order[k];
        const offload_span *one = &p->spans[span];
        uint32_t at = one->wanted;
        if (!is_moved(l, span))
            continue;
        while (at > p->turn && l->bytes[at - 1] + one->bytes <= l->budget)
            l->bytes[--at] += one->bytes;
        l->fetch[span] = at;
    }
}

/* ---- writing ---- */

/* Puts the spans into buckets by where[span] (a span not moved, into none), each bucket in the
 * order given (NULL: of production). */
static void fill_buckets(const layout *l, const uint32_t *where, const uint32_t *order, buckets *b)
{
    const offload_placing *p = l->p;
    for (uint32_t i = 0; i <= p->base.length; i++)
        b->first[i] = NOWHERE;
    for (uint32_t k = p->n_spans; k-- > 0;) {
        uint32_t span = order ? order[k] : k;
        if (!is_moved(l, span))
            continue;
        b->next[span] = b->first[where[span]];
        b->first[where[span]] = span;
    }
}

static remat_status write_bucket(const offload_placing *p, const buckets *b, uint32_t at,
                                 remat_operation_kind kind, remat_operations *operations)
{
    remat_status status = REMAT_OK;
    for (uint32_t k = b->first[at]; k != NOWHERE && !status; k = b->next[k]) {
        remat_operation operation = p->spans[k].value;
        operation.kind = (uint8_t)kind;
        status = remat_operations_push(operations, operation);
    }
    return status;
}

/* O after the operation before a position; so for graph inputs the first of all. */
static void offload_positions(const layout *l, uint32_t *where)
{
    for (uint32_t k = 0; k < l->p->n_spans; k++)
        where[k] = l->p->spans[k].made + 1;
}

/* Before each operation: the copies that its predecessor allows, then D, then P. */
static remat_status write(const layout *l, uint32_t *room, remat_operations *operations)
{
    const offload_placing *p = l->p;
    size_t length = p->base.length;
    uint32_t *where = room;
    buckets of[3];
    room += p->n_spans;
    for (int k = 0; k < 3; k++, room += length + 1 + p->n_spans)
        of[k] = (buckets){.first = room, .next = room + length + 1};
    offload_positions(l, where);
    fill_buckets(l, where, NULL, &of[0]);
    fill_buckets(l, l->drop, NULL, &of[1]);
    fill_buckets(l, l->fetch, p->order, &of[2]);
    remat_status status = REMAT_OK;
    for (uint32_t i = 0; i < length && !status; i++) {
        status = write_bucket(p, &of[0], i, REMAT_O, operations);
        if (!status)
            status = write_bucket(p, &of[1], i, REMAT_D, operations);
        if (!status)
            status = write_bucket(p, &of[2], i, REMAT_P, operations);
        if (!status)
            status = remat_operations_push(operations, p->base.items[i]);
    }
    return status;
}

remat_status offload_place(const offload_placing *placing, const bool *chosen, uint64_t budget,
                           remat_operations *operations)
{
    size_t length = placing->base.length, n = placing->n_spans;
    layout l = {.p = placing, .chosen = chosen, .budget = budget};
    uint32_t *room =
        malloc((6 * n + 3 * (length + 1)) * sizeof *room); /* 2 n of it for drop, fetch */
    l.bytes = malloc((length + 1) * sizeof *l.bytes);
    remat_status status = REMAT_NO_MEMORY;
    if (room && l.bytes) {
        l.drop = room;
        l.fetch = room + n;
        memset(l.drop, 0xff, n * sizeof *l.drop);
        status = place_drops(&l) && empty_backward(&l) ? REMAT_OK : REMAT_INFEASIBLE;
    }
    if (!status) {
        place_fetches(&l);
        status = write(&l, room + 2 * n, operations);
    }
    free(room);
    free(l.bytes);
    return status;
}
