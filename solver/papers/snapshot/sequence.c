/* Sequences and nests of checkpoints. From right to left the reversed suffix of each part,
 *
 *     OUT(n) = out(Xbar_n)     OUT(i) = out(Xbar_i) u ((OUT(i+1) u out(X_i)) \ use(Xbar_i))
 *     USE(n) = use(Xbar_n)     USE(i) = use(X_i) u use(Xbar_i) u (USE(i+1) \ kill(X_i))
 *
 * then from left to right the checkpoints, each handing Req_D to those after it and Req_C to its
 * own nest. The out sets do not depend on the choices (every minimal one gives the same), so one
 * pass each way is enough. A nest's own sets in the plain run are use(X_1) u (use(X_2) \ kill(X_1))
 * u .., and unions of out and kill; reversed they are its USE(1) and OUT(1). */
#include "model/arena.h"
#include "remat/snapshot.h"

#include <string.h>

enum { MAX_DEPTH = 64 };

/* The sets of a part, one bit each per variable. */
enum { USE = 1, OUT = 2, KILL = 4, USE_BAR = 8, OUT_BAR = 16 };

/* A part with its sets; those of a nest are computed. */
typedef struct known_part {
    uint8_t *sets;      /* by variable */
    uint8_t *out_after; /* by variable: OUT(i + 1) of the sequence it stands in */
    struct known_part *parts;
    size_t n_parts;
} known_part;

typedef struct solving {
    size_t n;
    uint8_t (*choose)(uint8_t given);
    void (*visit)(void *context, const remat_checkpoint *checkpoint);
    void *context;
    model_arena arena;
    size_t path[MAX_DEPTH];
} solving;

static bool learn_leaf(solving *s, const remat_part *part, known_part *known)
{
    known->sets = model_arena_array(&s->arena, s->n, 1);
    for (size_t v = 0; known->sets && v < s->n; v++)
        known->sets[v] = (uint8_t)((part->use[v] ? USE : 0) | (part->out[v] ? OUT : 0) |
                                   (part->kill[v] ? KILL : 0) | (part->use_bar[v] ? USE_BAR : 0) |
                                   (part->out_bar[v] ? OUT_BAR : 0));
    return known->sets != NULL;
}

/* OUT and USE from the right; leaves OUT(i + 1) with each part and OUT(1), USE(1) with the nest. */
static bool reverse_nest(solving *s, known_part *nest)
{
    uint8_t *out = model_arena_array(&s->arena, s->n, 1),
            *use = model_arena_array(&s->arena, s->n, 1);
    if (!out || !use)
        return false;
    for (size_t i = nest->n_parts; i-- > 0;) {
        known_part *part = &nest->parts[i];
        bool last = i + 1 == nest->n_parts;
        part->out_after = model_arena_array(&s->arena, s->n, 1);
        if (!part->out_after)
            return false;
        memcpy(part->out_after, out, s->n);
        for (size_t v = 0; v < s->n; v++) {
            uint8_t sets = part->sets[v];
            bool changed = out[v] || (sets & OUT);
            out[v] = (sets & OUT_BAR) || (!last && changed && !(sets & USE_BAR));
            use[v] = (sets & USE_BAR) || (!last && ((sets & USE) || (use[v] && !(sets & KILL))));
        }
    }
    for (size_t v = 0; v < s->n; v++)
        nest->sets[v] |= (uint8_t)((use[v] ? USE_BAR : 0) | (out[v] ? OUT_BAR : 0));
    return true;
}

static bool learn(solving *s, const remat_part *part, known_part *known)
{
    if (part->n_parts == 0)
        return learn_leaf(s, part, known);
    known->n_parts = part->n_parts;
    known->parts = model_arena_array(&s->arena, part->n_parts, sizeof *known->parts);
    known->sets = model_arena_array(&s->arena, s->n, 1);
    if (!known->parts || !known->sets)
        return false;
    for (size_t i = 0; i < part->n_parts; i++) {
        if (!learn(s, &part->parts[i], &known->parts[i]))
            return false;
        for (size_t v = 0; v < s->n; v++) {
            uint8_t sets = known->parts[i].sets[v];
            if ((sets & USE) && !(known->sets[v] & KILL))
                known->sets[v] |= USE;
            known->sets[v] |= (uint8_t)(sets & (OUT | KILL));
        }
    }
    return reverse_nest(s, known);
}

static bool solve_nest(solving *s, const known_part *nest, size_t depth, const uint8_t *required)
{
    uint8_t *given = model_arena_array(&s->arena, s->n, 1),
            *chosen = model_arena_array(&s->arena, s->n, 1),
            *req = model_arena_array(&s->arena, s->n, 1),
            *inner = model_arena_array(&s->arena, s->n, 1);
    if (!given || !chosen || !req || !inner || depth >= MAX_DEPTH)
        return false;
    memcpy(req, required, s->n);
    for (size_t i = 0; i < nest->n_parts; i++) {
        const known_part *part = &nest->parts[i];
        bool last = i + 1 == nest->n_parts;
        s->path[depth] = i;
        for (size_t v = 0; v < s->n; v++) {
            uint8_t sets = part->sets[v];
            given[v] = (uint8_t)((req[v] ? REMAT_REQ : 0) | (sets & OUT ? REMAT_OUT_C : 0) |
                                 (sets & USE_BAR ? REMAT_USE_CBAR : 0) |
                                 (sets & OUT_BAR ? REMAT_OUT_CBAR : 0) |
                                 (part->out_after[v] ? REMAT_OUT_DBAR : 0));
            chosen[v] = s->choose(given[v]);
            inner[v] = last ? req[v] : (chosen[v] & REMAT_REQ_C) != 0;
        }
        if (!last)
            s->visit(s->context, &(remat_checkpoint){s->path, depth + 1, given, chosen});
        if (part->n_parts > 0 && !solve_nest(s, part, depth + 1, inner))
            return false;
        for (size_t v = 0; v < s->n && !last; v++)
            req[v] = (chosen[v] & REMAT_REQ_D) != 0;
    }
    return true;
}

remat_status remat_sequence_solve(const remat_part *sequence, size_t n, const uint8_t *required,
                                  uint8_t (*choose)(uint8_t given),
                                  void (*visit)(void *context, const remat_checkpoint *checkpoint),
                                  void *context, uint8_t *ret_use, uint8_t *ret_out,
                                  remat_error *error)
{
    solving s = {.n = n, .choose = choose, .visit = visit, .context = context};
    known_part whole = {0};
    bool good = learn(&s, sequence, &whole) && solve_nest(&s, &whole, 0, required);
    for (size_t v = 0; good && v < n; v++) {
        ret_use[v] = (whole.sets[v] & USE_BAR) != 0;
        ret_out[v] = (whole.sets[v] & OUT_BAR) != 0;
    }
    model_arena_clear(&s.arena);
    return good ? REMAT_OK : remat_fail_memory(error);
}
