/* How the planner plays: passes as a recurrence that ranks take up where they stopped. Times are
 * the same sums and maxima as the judge's, so that both agree to the last bit. */
#include "pipeline/private.h"

#include <math.h>
#include <stdlib.h>

typedef struct course {
    const remat_pipeline *p;
    const remat_pipeline_stage *stages;
    uint32_t passes;        /* of a rank */
    double *here;           /* [2][ranks][m]: when the input of a pass is there; < 0: not yet */
    double *start, *leaves; /* [ranks][passes]; leaves: when what it sent has arrived */
    double *free_at, *link; /* [ranks]; [ranks][2]: forward, back */
    uint32_t *next;         /* [ranks]: passes done */
} course;

uint32_t remat_pipeline_in_flight(const remat_pipeline *p, uint32_t rank)
{
    const uint32_t usual = p->order == REMAT_GPIPE ? p->microbatches
                           : p->in_flight          ? p->in_flight[rank]
                                                   : p->ranks - rank;
    return usual < p->microbatches ? usual : p->microbatches;
}

/* The t-th pass of a rank with n in flight; returns whether it is a backward. */
static bool place_at(const remat_pipeline *p, uint32_t n, uint32_t t, uint32_t *ret_microbatch)
{
    const uint32_t m = p->microbatches, steady = 2 * (m - n + 1);
    if (t < n - 1) {
        *ret_microbatch = t;
        return false;
    }
    const uint32_t k = t - (n - 1);
    const bool backward = k >= steady || k % 2 == 1;
    *ret_microbatch = k >= steady ? t - m : backward ? k / 2 : n - 1 + k / 2;
    return backward;
}

/* Of those that are received, beside the one at work. */
static uint64_t gradients_received(const remat_pipeline *p)
{
    return p->runtime.all_inputs ? p->microbatches - 1 : p->runtime.ahead;
}

uint64_t pipeline_bytes(const remat_pipeline *p, uint32_t rank, uint32_t alive,
                        const remat_pipeline_stage *s)
{
    const uint64_t output = rank + 1 < p->ranks ? s->output : 0, input = rank > 0 ? s->input : 0;
    const uint64_t inputs = p->runtime.all_inputs ? p->microbatches - alive : p->runtime.ahead;
    return s->fixed + (s->peak - s->held) + alive * s->held + inputs * input +
           (gradients_received(p) + (p->runtime.keeps_outputs ? alive : 0)) * output;
}

static double *input_of(const course *c, bool backward, uint32_t rank, uint32_t microbatch)
{
    return &c->here[((size_t)backward * c->p->ranks + rank) * c->p->microbatches + microbatch];
}

static void pass_on(const course *c, uint32_t rank, bool backward, uint32_t k, double end)
{
    const remat_pipeline *p = c->p;
    if (backward ? rank == 0 : rank + 1 == p->ranks) {
        if (!backward)
            *input_of(c, true, rank, k) = end;
        return;
    }
    const uint64_t bytes = backward ? c->stages[rank].input : c->stages[rank].output;
    double *link = &c->link[2 * rank + backward];
    *link = fmax(*link, end) + (p->latency + (double)bytes / p->bandwidth);
    if (backward || !p->runtime.keeps_outputs)
        c->leaves[(size_t)rank * c->passes + c->next[rank]] = *link;
    *input_of(c, backward, backward ? rank - 1 : rank + 1, k) = *link;
}

/* As far as the rank's inputs are known; whether it did anything. */
static bool go_on(const course *c, uint32_t rank)
{
    const uint32_t n = remat_pipeline_in_flight(c->p, rank), before = c->next[rank];
    for (; c->next[rank] < c->passes; c->next[rank]++) {
        uint32_t k;
        const bool backward = place_at(c->p, n, c->next[rank], &k);
        const double input = *input_of(c, backward, rank, k);
        if (input < 0)
            break;
        const double start = fmax(input, c->free_at[rank]);
        c->start[(size_t)rank * c->passes + c->next[rank]] = start;
        c->free_at[rank] = start + (backward ? c->stages[rank].backward : c->stages[rank].forward);
        pass_on(c, rank, backward, k, c->free_at[rank]);
    }
    return c->next[rank] > before;
}

static uint64_t memory_of(const course *c, uint32_t rank)
{
    const uint32_t n = remat_pipeline_in_flight(c->p, rank);
    const double *start = &c->start[(size_t)rank * c->passes];
    const double *leaves = &c->leaves[(size_t)rank * c->passes];
    uint64_t worst = 0;
    for (uint32_t t = 0, first = 0, alive = 0, k; t < c->passes; t++) {
        const bool ends = place_at(c->p, n, t, &k);
        alive += !ends;
        uint64_t bytes = pipeline_bytes(c->p, rank, alive, &c->stages[rank]);
        while (first < t && leaves[first] <= start[t])
            first++;
        for (uint32_t i = first; i < t; i++) {
            const bool back = place_at(c->p, n, i, &k);
            if (leaves[i] > start[t])
                bytes += back ? c->stages[rank].input : c->stages[rank].output;
        }
        worst = bytes > worst ? bytes : worst;
        alive -= ends;
    }
    return worst;
}

static double go(const course *c)
{
    double step = 0;
    for (uint32_t k = 0; k < c->p->microbatches; k++)
        *input_of(c, false, 0, k) = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t r = 0; r < c->p->ranks; r++)
            moved |= go_on(c, r);
    }
    for (uint32_t r = 0; r < c->p->ranks; r++)
        step = fmax(step, c->next[r] == c->passes ? c->free_at[r] : INFINITY);
    return step;
}

double pipeline_step(const remat_pipeline *p, const remat_pipeline_stage *stages, double most,
                     uint64_t *memory)
{
    const size_t n = p->ranks, all = n * 2 * p->microbatches;
    double *room = calloc(3 * all + 3 * n, sizeof *room);
    uint32_t *next = calloc(n, sizeof *next);
    double step = INFINITY;
    if (room && next) {
        const course c = {p,          stages,         2 * p->microbatches, room,
                          room + all, room + 2 * all, room + 3 * all,      room + 3 * all + n,
                          next};
        for (size_t i = 0; i < all; i++)
            c.here[i] = -1;
        step = go(&c);
        for (uint32_t r = 0; r < p->ranks && step < most; r++)
            memory[r] = memory_of(&c, r);
    }
    free(room);
    free(next);
    return step;
}
