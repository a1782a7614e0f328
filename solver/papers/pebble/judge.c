/* The judge of pebbles. It knows the six operations and nothing of schedules. */
#include "papers/pebble/pebble.h"

#include <stdlib.h>

typedef struct board {
    const remat_pebble_join *join;
    uint32_t first[REMAT_PEBBLE_BRANCHES]; /* of x_0 and its gradient */
    uint32_t *copies;                      /* of x_i */
    bool *gradient;                        /* at x_i */
    bool *done;                            /* B_i has run */
    uint32_t taken;                        /* slots */
    remat_pebble_replay *replay;
} board;

static const char *turn(board *b)
{
    if (b->replay->turns++ > 0)
        return "the turn has run already";
    for (uint32_t j = 0; j < b->join->k; j++) {
        uint32_t last = b->first[j] + b->join->length[j];
        if (b->copies[last] == 0)
            return "a branch's last value is not there";
        b->copies[last]--;
        b->gradient[last] = true;
    }
    return NULL;
}

static const char *forward(board *b, uint32_t at)
{
    if (b->copies[at] == 0)
        return "the value to advance is not there";
    b->copies[at]--;
    b->copies[at + 1]++;
    b->replay->forwards++;
    return NULL;
}

static const char *copy(board *b, uint32_t at)
{
    if (b->copies[at] == 0)
        return "the value to copy is not there";
    b->copies[at]++;
    b->taken++;
    return NULL;
}

static const char *backward(board *b, uint32_t at)
{
    if (b->done[at])
        return "this backward has run already";
    if (b->copies[at] == 0)
        return "the value that the backward reads is not there";
    if (!b->gradient[at + 1])
        return "the gradient that the backward reads is not there";
    b->copies[at]--;
    b->gradient[at + 1] = false;
    b->gradient[at] = true;
    b->done[at] = true;
    b->taken--;
    b->replay->backwards++;
    return NULL;
}

static const char *drop(board *b, uint32_t at)
{
    if (b->copies[at] == 0)
        return "the value to drop is not there";
    b->copies[at]--;
    b->taken--;
    return NULL;
}

static const char *drop_gradient(board *b, uint32_t branch)
{
    if (b->join->keep[branch])
        return "this gradient is to be kept";
    if (!b->gradient[b->first[branch]])
        return "the gradient to drop is not there";
    b->gradient[b->first[branch]] = false;
    b->taken--;
    return NULL;
}

/* NULL, or what is wrong. */
static const char *play(board *b, const remat_step *operation)
{
    uint32_t j = operation->branch, i = operation->index;
    if (operation->kind == REMAT_PEBBLE_T)
        return turn(b);
    if (j >= b->join->k)
        return "there is no such branch";
    uint32_t length = b->join->length[j], at = b->first[j] + i;
    bool step = operation->kind == REMAT_PEBBLE_F || operation->kind == REMAT_PEBBLE_B;
    if (operation->kind != REMAT_PEBBLE_DB && (i > length || (step && i == length)))
        return "the branch is shorter than that";
    switch ((remat_pebble_kind)operation->kind) {
    case REMAT_PEBBLE_F:
        return forward(b, at);
    case REMAT_PEBBLE_S:
        return copy(b, at);
    case REMAT_PEBBLE_B:
        return backward(b, at);
    case REMAT_PEBBLE_D:
        return drop(b, at);
    case REMAT_PEBBLE_DB:
        return drop_gradient(b, j);
    default:
        return "there is no such operation";
    }
}

/* NULL, or what the list leaves undone. */
static const char *check_end(const board *b)
{
    uint32_t kept = 0;
    if (b->replay->turns == 0)
        return "the turn does not run";
    for (uint32_t j = 0; j < b->join->k; j++) {
        for (uint32_t i = 0; i < b->join->length[j]; i++)
            if (!b->done[b->first[j] + i])
                return "a backward does not run";
        if (b->gradient[b->first[j]] != b->join->keep[j])
            return b->join->keep[j] ? "a gradient to be kept is gone"
                                    : "a gradient is left that nobody asked for";
        kept += b->join->keep[j];
    }
    return b->taken == kept ? NULL : "a value is left over";
}

static void play_all(board *b, const remat_steps *operations, remat_moment *moments)
{
    remat_pebble_replay *replay = b->replay;
    for (size_t n = 0; n < operations->length; n++) {
        uint32_t before = b->taken;
        replay->bad_operation = n;
        replay->reason = play(b, &operations->items[n]);
        if (replay->reason)
            return;
        if (b->taken > replay->peak) {
            replay->peak = b->taken;
            replay->peak_operation = n;
        }
        if (moments)
            moments[n] = (remat_moment){.memory_during = before > b->taken ? before : b->taken,
                                        .memory_after = b->taken};
    }
    replay->bad_operation = operations->length;
    replay->reason = check_end(b);
    replay->valid = !replay->reason;
}

remat_status remat_pebble_simulate(const remat_pebble_join *join, const remat_steps *operations,
                                   remat_moment *moments, remat_pebble_replay *ret_replay,
                                   remat_error *error)
{
    remat_pebble_replay replay = {.peak = join->k};
    board b = {.join = join, .taken = join->k, .replay = &replay};
    uint32_t places = 0;
    for (uint32_t j = 0; j < join->k; j++) {
        b.first[j] = places;
        places += join->length[j] + 1;
    }
    b.copies = calloc(places, sizeof *b.copies);
    b.gradient = calloc(places, sizeof *b.gradient);
    b.done = calloc(places, sizeof *b.done);
    remat_status status = b.copies && b.gradient && b.done ? REMAT_OK : remat_fail_memory(error);
    if (!status) {
        for (uint32_t j = 0; j < join->k; j++)
            b.copies[b.first[j]] = 1;
        play_all(&b, operations, moments);
        *ret_replay = replay;
    }
    free(b.copies);
    free(b.gradient);
    free(b.done);
    return status;
}
