/* The choice of implementations: see choices.h. */
#include "model/implementations.h"

#include "model/lists.h"

#include <math.h>
#include <stdlib.h>

#define NONE UINT32_MAX

/* What is chosen together: the forward of a node, its backward, or both. */
typedef struct unit {
    uint32_t node;
    uint32_t forward, backward; /* operations, or NONE */
    uint32_t end;               /* the operation that frees what is saved, or the last one */
    bool saves;                 /* the forward is an A */
    bool copied;                /* saved values go to the host: their size stays */
    uint16_t x, y;              /* implementations of forward and backward that need least room */
} unit;

struct model_implementations {
    const remat_profile *profile;
    const remat_operations *list;
    unit *units;
    size_t n_units;
    uint64_t *bytes; /* by operation: during it, without the workspace of a unit */
    uint64_t *needs; /* by operation: workspace of x or y */
    uint64_t least;  /* room */
    uint64_t *rooms;
    size_t n_rooms;
};

/* ---- what is chosen together ---- */

/* By node: units, or NONE. */
typedef struct track {
    uint32_t last;  /* of the last forward */
    uint32_t maker; /* of what is saved now */
    uint32_t host;  /* of its copy on the host */
    bool clean;     /* nothing has been or is saved since the last forward */
} track;

static unit *add_unit(model_implementations *c, uint32_t node)
{
    c->units[c->n_units] = (unit){
        .node = node, .forward = NONE, .backward = NONE, .end = (uint32_t)c->list->length - 1};
    return &c->units[c->n_units++];
}

static void visit_forward(model_implementations *c, track *t, uint32_t v, uint32_t at, bool saves)
{
    unit *one = add_unit(c, v);
    one->forward = at;
    one->saves = saves;
    t->last = (uint32_t)(one - c->units);
    t->clean = !saves && t->maker == NONE;
    if (saves)
        t->maker = t->last;
}

static void visit_backward(model_implementations *c, track *t, uint32_t v, uint32_t at)
{
    bool saved = t->maker != NONE, pairs = saved || (t->last != NONE && t->clean);
    unit *one = pairs ? &c->units[saved ? t->maker : t->last] : add_unit(c, v);
    one->backward = one->end = at;
    t->maker = NONE;
}

static void visit_move(model_implementations *c, track *t, unsigned kind, uint32_t at)
{
    t->clean = false;
    if (kind == REMAT_D) {
        if (t->maker != NONE)
            c->units[t->maker].end = at;
        t->maker = NONE;
    } else if (kind == REMAT_P) {
        t->maker = t->host;
    } else {
        t->host = t->maker;
        if (t->maker != NONE)
            c->units[t->maker].copied = true;
    }
}

static remat_status find_units(model_implementations *c)
{
    track *tracks = malloc(c->profile->n_nodes * sizeof *tracks);
    if (!tracks)
        return REMAT_NO_MEMORY;
    for (uint32_t v = 0; v < c->profile->n_nodes; v++)
        tracks[v] = (track){.last = NONE, .maker = NONE, .host = NONE};
    for (uint32_t i = 0; i < (uint32_t)c->list->length; i++) {
        const remat_operation *o = &c->list->items[i];
        bool of_state = o->kind == REMAT_S || o->kind == REMAT_R;
        if (of_state || o->target == REMAT_INPUT || c->profile->nodes[o->index].n_alternatives == 0)
            continue;
        track *t = &tracks[o->index];
        if (o->kind == REMAT_F || o->kind == REMAT_A)
            visit_forward(c, t, o->index, i, o->kind == REMAT_A);
        else if (o->kind == REMAT_B)
            visit_backward(c, t, o->index, i);
        else if (o->target == REMAT_SAVED)
            visit_move(c, t, o->kind, i);
    }
    free(tracks);
    return REMAT_OK;
}

/* ---- what a choice means ---- */

static remat_alternative cost_of(const model_implementations *c, const unit *one, uint32_t k)
{
    return remat_implementation(&c->profile->nodes[one->node], k);
}

static uint64_t least_saved(const model_implementations *c, const unit *one)
{
    const remat_node *node = &c->profile->nodes[one->node];
    uint64_t least = node->saved_bytes;
    for (uint32_t a = 0; a < node->n_alternatives; a++)
        if (node->alternatives[a].saved_bytes < least)
            least = node->alternatives[a].saved_bytes;
    return least;
}

/* Whether the unit can run forward x and backward y; what it does not run is 0. A backward that
 * reads no saved bytes goes with any forward. */
static bool allowed(const model_implementations *c, const unit *one, uint32_t x, uint32_t y)
{
    uint64_t of_x = cost_of(c, one, x).saved_bytes, of_y = cost_of(c, one, y).saved_bytes;
    if (one->forward == NONE)
        return x == 0 && of_y == 0;
    if (one->copied && of_x != least_saved(c, one))
        return false;
    if (one->backward == NONE)
        return y == 0;
    return x == y || (of_y == 0 && (of_x == 0 || !one->copied));
}

/* Bytes from the forward to the end. */
static uint64_t saved_of(const model_implementations *c, const unit *one, uint32_t x, uint32_t y)
{
    bool saved =
        one->backward == NONE || one->copied ? one->saves : cost_of(c, one, y).saved_bytes > 0;
    return one->forward != NONE && saved ? cost_of(c, one, x).saved_bytes : 0;
}

/* Whether the forward is an A. Where nothing need be saved it is what takes less workspace. */
static bool is_save(const model_implementations *c, const unit *one, uint32_t x, uint32_t y)
{
    remat_alternative forward = cost_of(c, one, x);
    if (one->backward == NONE || one->copied)
        return one->saves;
    return cost_of(c, one, y).saved_bytes > 0 ||
           (forward.saved_bytes == 0 &&
            forward.save_workspace_bytes < forward.forward_workspace_bytes);
}

static uint64_t forward_workspace(const model_implementations *c, const unit *one, uint32_t x,
                                  uint32_t y)
{
    remat_alternative cost = cost_of(c, one, x);
    return is_save(c, one, x, y) ? cost.save_workspace_bytes : cost.forward_workspace_bytes;
}

static uint64_t backward_workspace(const model_implementations *c, const unit *one, uint32_t y)
{
    return cost_of(c, one, y).backward_workspace_bytes;
}

static double time_of(const model_implementations *c, const unit *one, uint32_t x, uint32_t y)
{
    return (one->forward == NONE ? 0 : cost_of(c, one, x).forward_time) +
           (one->backward == NONE ? 0 : cost_of(c, one, y).backward_time);
}

/* Bytes at the unit's two operations, when `more` are saved than at the least. */
static uint64_t room_of(const model_implementations *c, const unit *one, uint32_t x, uint32_t y,
                        const uint64_t *extra)
{
    uint64_t more = saved_of(c, one, x, y) - saved_of(c, one, one->x, one->y), room = 0;
    if (one->forward != NONE)
        room = c->bytes[one->forward] + (extra ? extra[one->forward] : 0) + more +
               forward_workspace(c, one, x, y);
    if (one->backward != NONE) {
        uint64_t back = c->bytes[one->backward] + (extra ? extra[one->backward] : 0) + more +
                        backward_workspace(c, one, y);
        room = back > room ? back : room;
    }
    return room;
}

static uint32_t n_implementations(const model_implementations *c, const unit *one)
{
    return c->profile->nodes[one->node].n_alternatives + 1;
}

/* ---- the choice that needs least room ---- */

static void choose_least_saved(const model_implementations *c, unit *one)
{
    uint32_t n = n_implementations(c, one);
    uint64_t least = UINT64_MAX;
    for (uint32_t k = 0; k < n * n; k++) {
        uint32_t x = k / n, y = k % n;
        if (!allowed(c, one, x, y) || saved_of(c, one, x, y) >= least)
            continue;
        least = saved_of(c, one, x, y);
        one->x = (uint16_t)x;
        one->y = (uint16_t)y;
    }
}

static void choose_least_room(const model_implementations *c, unit *one)
{
    uint32_t n = n_implementations(c, one), best_x = one->x, best_y = one->y;
    uint64_t least = saved_of(c, one, one->x, one->y);
    for (uint32_t k = 0; k < n * n; k++) {
        uint32_t x = k / n, y = k % n;
        if (!allowed(c, one, x, y) || saved_of(c, one, x, y) != least)
            continue;
        uint64_t room = room_of(c, one, x, y, NULL), best = room_of(c, one, best_x, best_y, NULL);
        if (room < best ||
            (room == best && time_of(c, one, x, y) < time_of(c, one, best_x, best_y))) {
            best_x = x;
            best_y = y;
        }
    }
    one->x = (uint16_t)best_x;
    one->y = (uint16_t)best_y;
}

static void note_needs(const model_implementations *c, const unit *one, uint32_t x, uint32_t y,
                       uint64_t *needs)
{
    if (one->forward != NONE)
        needs[one->forward] = forward_workspace(c, one, x, y);
    if (one->backward != NONE)
        needs[one->backward] = backward_workspace(c, one, y);
}

static void write_unit(const model_implementations *c, const unit *one, uint32_t x, uint32_t y,
                       remat_operations *list)
{
    if (one->forward != NONE) {
        list->items[one->forward].alternative = (uint16_t)x;
        list->items[one->forward].kind = is_save(c, one, x, y) ? REMAT_A : REMAT_F;
    }
    if (one->backward != NONE)
        list->items[one->backward].alternative = (uint16_t)y;
}

/* Replays the list with the least saved bytes: the bytes during every operation. They depend on the
 * order alone, so any link will do. */
static remat_status measure(model_implementations *c, remat_error *error)
{
    const remat_link link = {.to_host = INFINITY, .to_device = INFINITY};
    remat_operations list = {0};
    remat_simulation simulation;
    remat_moment *moments = malloc((c->list->length + 1) * sizeof *moments);
    remat_status status = moments ? model_copy_list(c->list, &list) : REMAT_NO_MEMORY;
    if (status) {
        free(moments);
        return remat_fail_memory(error);
    }
    for (size_t u = 0; u < c->n_units; u++) {
        choose_least_saved(c, &c->units[u]);
        write_unit(c, &c->units[u], c->units[u].x, c->units[u].y, &list);
        note_needs(c, &c->units[u], c->units[u].x, c->units[u].y, c->needs);
    }
    status = remat_simulate(c->profile, &list, &link, moments, NULL, &simulation, error);
    if (!status && !simulation.valid)
        status = remat_fail(error, REMAT_INTERNAL, NULL,
                            "with the least implementations the simulator rejects operation %zu: "
                            "%.300s",
                            simulation.bad_operation, simulation.reason);
    for (size_t i = 0; i < list.length && !status; i++)
        c->bytes[i] = moments[i].memory_during - c->needs[i];
    remat_operations_clear(&list);
    free(moments);
    return status;
}

static size_t count_rooms(const model_implementations *c)
{
    size_t count = 0;
    for (size_t u = 0; u < c->n_units; u++) {
        size_t n = n_implementations(c, &c->units[u]);
        count += n * n;
    }
    return count;
}

static void find_rooms(model_implementations *c)
{
    for (size_t u = 0; u < c->n_units; u++) {
        const unit *one = &c->units[u];
        uint32_t n = n_implementations(c, one);
        double slowest = time_of(c, one, one->x, one->y);
        for (uint32_t k = 0; k < n * n; k++)
            if (allowed(c, one, k / n, k % n) && time_of(c, one, k / n, k % n) < slowest) {
                uint64_t room = room_of(c, one, k / n, k % n, NULL);
                if (room > c->least)
                    c->rooms[c->n_rooms++] = room;
            }
    }
}

static remat_status look(model_implementations *c, remat_error *error)
{
    size_t length = c->list->length;
    if (length >= NONE / 2)
        return remat_fail(error, REMAT_TOO_LARGE, NULL, "a list of %zu operations is too long",
                          length);
    c->units = malloc((length + 1) * sizeof *c->units);
    c->bytes = calloc(length + 1, sizeof *c->bytes);
    c->needs = calloc(length + 1, sizeof *c->needs);
    if (!c->units || !c->bytes || !c->needs || find_units(c))
        return remat_fail_memory(error);
    remat_status status = measure(c, error);
    if (status)
        return status;
    for (size_t u = 0; u < c->n_units; u++) {
        unit *one = &c->units[u];
        choose_least_room(c, one);
        note_needs(c, one, one->x, one->y, c->needs);
    }
    for (size_t i = 0; i < length; i++)
        if (c->bytes[i] + c->needs[i] > c->least)
            c->least = c->bytes[i] + c->needs[i];
    c->rooms = malloc((count_rooms(c) + 1) * sizeof *c->rooms);
    if (!c->rooms)
        return remat_fail_memory(error);
    find_rooms(c);
    return REMAT_OK;
}

remat_status model_implementations_new(const remat_profile *profile, const remat_operations *list,
                                       model_implementations **ret_choices, remat_error *error)
{
    model_implementations *c = calloc(1, sizeof *c);
    if (!c)
        return remat_fail_memory(error);
    c->profile = profile;
    c->list = list;
    remat_status status = look(c, error);
    if (status) {
        model_implementations_free(c);
        return status;
    }
    *ret_choices = c;
    return REMAT_OK;
}

void model_implementations_free(model_implementations *choices)
{
    if (!choices)
        return;
    free(choices->units);
    free(choices->bytes);
    free(choices->needs);
    free(choices->rooms);
    free(choices);
}

static int compare_rooms(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

size_t model_implementations_rooms(model_implementations *choices, uint64_t *ret_rooms, size_t most)
{
    size_t n = 0, inner = 0;
    if (choices->n_rooms > 0)
        qsort(choices->rooms, choices->n_rooms, sizeof *choices->rooms, compare_rooms);
    for (size_t i = 0; i < choices->n_rooms; i++)
        if (inner == 0 || choices->rooms[i] > choices->rooms[inner - 1])
            choices->rooms[inner++] = choices->rooms[i];
    choices->n_rooms = inner;
    ret_rooms[n++] = choices->least;
    size_t taken = inner < most - 2 ? inner : most - 2;
    for (size_t i = 0; i < taken; i++)
        ret_rooms[n++] = choices->rooms[(i + 1) * inner / taken - 1];
    if (inner > 0)
        ret_rooms[n++] = UINT64_MAX;
    return n;
}

/* ---- the choice in a room ---- */

/* What make has decided so far. */
typedef struct decision {
    const model_implementations *choices;
    uint64_t room;
    uint64_t *extra; /* by operation: saved beyond the least */
    uint64_t *needs; /* by operation: its workspace, decided or least */
    remat_operations *list;
} decision;

/* Whether `more` saved bytes fit beside the operations that they outlast, but for the unit's
 * own. */
static bool fits_beside(const decision *d, const unit *one, uint64_t more)
{
    for (uint32_t i = one->forward + 1; more > 0 && i <= one->end; i++)
        if (i != one->backward && d->choices->bytes[i] + d->extra[i] + d->needs[i] + more > d->room)
            return false;
    return true;
}

static void decide(decision *d, const unit *one)
{
    const model_implementations *c = d->choices;
    uint32_t n = n_implementations(c, one), best_x = one->x, best_y = one->y;
    uint64_t least = saved_of(c, one, one->x, one->y);
    for (uint32_t k = 0; k < n * n; k++) {
        uint32_t x = k / n, y = k % n;
        if (allowed(c, one, x, y) && time_of(c, one, x, y) < time_of(c, one, best_x, best_y) &&
            room_of(c, one, x, y, d->extra) <= d->room &&
            fits_beside(d, one, saved_of(c, one, x, y) - least)) {
            best_x = x;
            best_y = y;
        }
    }
    uint64_t more = saved_of(c, one, best_x, best_y) - least;
    for (uint32_t i = one->forward; more > 0 && i <= one->end; i++)
        d->extra[i] += more;
    note_needs(c, one, best_x, best_y, d->needs);
    write_unit(c, one, best_x, best_y, d->list);
}

static bool may_save_more(const model_implementations *c, const unit *one)
{
    uint64_t least = saved_of(c, one, one->x, one->y);
    for (uint32_t k = 0; k < n_implementations(c, one); k++)
        if (allowed(c, one, k, k) && saved_of(c, one, k, k) > least)
            return true;
    return false;
}

remat_status model_implementations_make(const model_implementations *choices, uint64_t room,
                                        remat_operations *ret_operations, remat_error *error)
{
    size_t length = choices->list->length;
    remat_operations list = {0};
    decision d = {.choices = choices,
                  .room = room > choices->least ? room : choices->least,
                  .extra = calloc(length + 1, sizeof *d.extra),
                  .needs = malloc((length + 1) * sizeof *d.needs),
                  .list = &list};
    remat_status status =
        d.extra && d.needs ? model_copy_list(choices->list, &list) : REMAT_NO_MEMORY;
    if (!status) {
        for (size_t i = 0; i < length; i++)
            d.needs[i] = choices->needs[i];
        for (int later = 0; later < 2; later++)
            for (size_t u = 0; u < choices->n_units; u++)
                if (may_save_more(choices, &choices->units[u]) == !later)
                    decide(&d, &choices->units[u]);
        *ret_operations = list;
    }
    free(d.extra);
    free(d.needs);
    return status ? remat_fail_memory(error) : REMAT_OK;
}
