/* The judge of pipelines: a clock that goes from the end of one pass or send to that of the next.
 * At every stop what has its input and a free rank begins. It knows nothing of how plans are
 * made. */
#include "remat/pipeline.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A message on a link, or a pass that runs: what will have happened when. */
typedef struct happening {
    double time;
    uint32_t rank;  /* of the pass, or that receives */
    uint32_t stage; /* of the pass, or that receives */
    uint32_t microbatch;
    bool backward, message;
} happening;

/* A micro-batch's output on its way, which its sender still has. */
typedef struct under_way {
    double until;
    uint64_t bytes;
} under_way;

typedef struct player {
    remat_pipeline_pass *passes; /* [2 x chunks x microbatches] */
    uint32_t next;
    bool runs;
    uint32_t alive[REMAT_MOST_CHUNKS];
    uint32_t begun[REMAT_MOST_CHUNKS], ended[REMAT_MOST_CHUNKS]; /* backwards */
    under_way *sends;                                            /* [2 x chunks x microbatches] */
    uint32_t n_sends, first_send;
} player;

typedef struct stadium {
    const remat_pipeline *p;
    const remat_pipeline_stage *stages;
    uint32_t n_stages, per_rank;
    player *players;
    remat_pipeline_rank *ranks;
    double *free_at;    /* [ranks x ranks]: when the link from one to another is free */
    bool *arrived;      /* [2][n_stages][microbatches]: what the pass needs from others */
    happening *heap;    /* by time */
    size_t n_happening; /* in the heap */
    double now;
} stadium;

/* ---- the order of a rank ---- */

/* The k-th forward or backward of a rank: groups of as many micro-batches as ranks go through one
 * chunk after the other, back from the last. */
static void put_pass(const stadium *s, uint32_t rank, uint32_t k, bool backward, uint32_t *n)
{
    const remat_pipeline *p = s->p;
    const uint32_t group = p->ranks * p->chunks;
    const bool grouped = p->chunks > 1;
    const uint32_t chunk = grouped ? k % group / p->ranks : 0;
    s->players[rank].passes[(*n)++] =
        (remat_pipeline_pass){.microbatch = grouped ? k / group * p->ranks + k % p->ranks : k,
                              .stage = (backward ? p->chunks - 1 - chunk : chunk) * p->ranks + rank,
                              .backward = backward};
}

/* Forwards of a rank before its first backward. */
static uint32_t forwards_first(const stadium *s, uint32_t rank)
{
    const remat_pipeline *p = s->p;
    const uint32_t all = p->microbatches * p->chunks, behind = p->ranks - 1 - rank;
    uint32_t n = behind + 1;
    if (p->order == REMAT_GPIPE)
        return all;
    if (p->in_flight)
        n = p->in_flight[rank];
    else if (p->order == REMAT_INTERLEAVED)
        n = 2 * behind + (p->chunks - 1) * p->ranks + 1;
    return n < all ? n : all;
}

static void put_order(const stadium *s, uint32_t rank)
{
    const uint32_t all = s->per_rank / 2, first = forwards_first(s, rank);
    uint32_t n = 0;
    for (uint32_t k = 0; k < first; k++)
        put_pass(s, rank, k, false, &n);
    for (uint32_t k = 0; k < all; k++) {
        put_pass(s, rank, k, true, &n);
        if (first + k < all)
            put_pass(s, rank, first + k, false, &n);
    }
}

/* ---- what will happen ---- */

static void heap_push(stadium *s, happening h)
{
    size_t i = s->n_happening++;
    for (; i > 0 && s->heap[(i - 1) / 2].time > h.time; i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = h;
}

static happening heap_pop(stadium *s)
{
    const happening top = s->heap[0], last = s->heap[--s->n_happening];
    size_t i = 0;
    for (size_t child = 1; child < s->n_happening; child = 2 * i + 1) {
        if (child + 1 < s->n_happening && s->heap[child + 1].time < s->heap[child].time)
            child++;
        if (s->heap[child].time >= last.time)
            break;
        s->heap[i] = s->heap[child];
        i = child;
    }
    s->heap[i] = last;
    return top;
}

static bool *arrival(const stadium *s, bool backward, uint32_t stage, uint32_t microbatch)
{
    return &s->arrived[((size_t)backward * s->n_stages + stage) * s->p->microbatches + microbatch];
}

/* ---- memory ---- */

/* Of the stages of a rank. A stage sends its gradients behind its last backward. */
static uint64_t memory_held(const stadium *s, uint32_t rank)
{
    const player *r = &s->players[rank];
    const uint32_t *alive = r->alive;
    const remat_runtime *keeps = &s->p->runtime;
    uint64_t bytes = 0;
    for (uint32_t c = 0; c < s->p->chunks; c++) {
        const uint32_t stage = c * s->p->ranks + rank;
        const remat_pipeline_stage *t = &s->stages[stage];
        const bool receives = stage > 0, sends = stage + 1 < s->n_stages;
        bytes += t->fixed + alive[c] * t->held;
        if (r->begun[c] > 0 && r->ended[c] < s->p->microbatches)
            bytes += t->summed;
        if (keeps->keeps_outputs && sends)
            bytes += alive[c] * t->output;
        if (keeps->all_inputs && receives)
            bytes += (s->p->microbatches - alive[c]) * t->input;
        else if (receives)
            bytes += keeps->ahead * t->input;
        if (sends)
            bytes += (keeps->all_inputs ? s->p->microbatches - 1 : keeps->ahead) * t->output;
    }
    return bytes;
}

/* Outputs and gradients that are still being sent. */
static uint64_t memory_sent(const stadium *s, player *r)
{
    uint64_t bytes = 0;
    while (r->first_send < r->n_sends && r->sends[r->first_send].until <= s->now)
        r->first_send++;
    for (uint32_t i = r->first_send; i < r->n_sends; i++)
        bytes += r->sends[i].until > s->now ? r->sends[i].bytes : 0;
    return bytes;
}

/* ---- playing ---- */

static void begin(stadium *s, uint32_t rank)
{
    player *r = &s->players[rank];
    remat_pipeline_pass *pass = &r->passes[r->next++];
    const remat_pipeline_stage *t = &s->stages[pass->stage];
    remat_pipeline_rank *result = &s->ranks[rank];
    uint32_t alive = 0;
    r->runs = true;
    r->alive[pass->stage / s->p->ranks] += !pass->backward;
    r->begun[pass->stage / s->p->ranks] += pass->backward;
    for (uint32_t c = 0; c < s->p->chunks; c++)
        alive += r->alive[c];
    if (alive > result->in_flight) {
        result->in_flight = alive;
        memcpy(result->in_flight_of, r->alive, sizeof r->alive);
    }
    pass->start = s->now;
    pass->end = s->now + (pass->backward ? t->backward : t->forward);
    pass->memory = memory_held(s, rank) + (t->peak - t->held) + memory_sent(s, r);
    result->peak = pass->memory > result->peak ? pass->memory : result->peak;
    result->busy += pass->end - pass->start;
    heap_push(s, (happening){.time = pass->end,
                             .rank = rank,
                             .stage = pass->stage,
                             .microbatch = pass->microbatch,
                             .backward = pass->backward});
}

static void begin_if_possible(stadium *s, uint32_t rank)
{
    const player *r = &s->players[rank];
    if (r->runs || r->next == s->per_rank)
        return;
    const remat_pipeline_pass *pass = &r->passes[r->next];
    if (*arrival(s, pass->backward, pass->stage, pass->microbatch))
        begin(s, rank);
}

/* What a pass made goes to the next stage on its way. */
static void send(stadium *s, const happening *h)
{
    const remat_pipeline *p = s->p;
    const bool first = h->backward && h->stage == 0;
    if (first)
        return;
    if (!h->backward && h->stage + 1 == s->n_stages) {
        *arrival(s, true, h->stage, h->microbatch) = true;
        return;
    }
    happening message = *h;
    const uint64_t bytes = h->backward ? s->stages[h->stage].input : s->stages[h->stage].output;
    message.message = true;
    message.stage = h->backward ? h->stage - 1 : h->stage + 1;
    message.rank = message.stage % p->ranks;
    if (message.rank != h->rank) {
        double *link = &s->free_at[h->rank * p->ranks + message.rank];
        const double start = *link > s->now ? *link : s->now;
        message.time = *link = start + (p->latency + (double)bytes / p->bandwidth);
        /* A kept output is counted where it is held. */
        if (h->backward || !p->runtime.keeps_outputs) {
            player *r = &s->players[h->rank];
            r->sends[r->n_sends++] = (under_way){message.time, bytes};
        }
    }
    heap_push(s, message);
}

static void happen(stadium *s, const happening *h)
{
    if (h->message) {
        *arrival(s, h->backward, h->stage, h->microbatch) = true;
        return;
    }
    player *r = &s->players[h->rank];
    r->runs = false;
    r->alive[h->stage / s->p->ranks] -= h->backward;
    r->ended[h->stage / s->p->ranks] += h->backward;
    send(s, h);
    r->passes[r->next - 1].after = memory_held(s, h->rank) + memory_sent(s, r);
}

/* All that happens at one moment comes before what begins at it. */
static void play(stadium *s)
{
    for (uint32_t k = 0; k < s->p->microbatches; k++)
        *arrival(s, false, 0, k) = true;
    for (;;) {
        for (uint32_t r = 0; r < s->p->ranks; r++)
            begin_if_possible(s, r);
        if (s->n_happening == 0)
            return;
        s->now = s->heap[0].time;
        while (s->n_happening > 0 && s->heap[0].time <= s->now) {
            const happening h = heap_pop(s);
            happen(s, &h);
        }
    }
}

/* ---- the result ---- */

static remat_status check_stages(const remat_pipeline *p, const remat_pipeline_stage *stages,
                                 remat_error *error)
{
    const uint64_t most = UINT64_C(1) << 53;
    for (uint32_t i = 0; i < p->ranks * p->chunks; i++) {
        const remat_pipeline_stage *t = &stages[i];
        char field[32];
        snprintf(field, sizeof field, "stages[%u]", i);
        if (!(t->forward >= 0 && t->forward < INFINITY) ||
            !(t->backward >= 0 && t->backward < INFINITY))
            return remat_fail(error, REMAT_INVALID, field, "times must be finite and >= 0");
        if (t->held > t->peak)
            return remat_fail(error, REMAT_INVALID, field,
                              "held is %llu bytes, more than the peak of %llu",
                              (unsigned long long)t->held, (unsigned long long)t->peak);
        if (i > 0 && t->input > t->held)
            return remat_fail(error, REMAT_INVALID, field,
                              "input is %llu bytes, more than the %llu held",
                              (unsigned long long)t->input, (unsigned long long)t->held);
        if (t->peak > most || t->fixed > most || t->output > most || t->summed > most)
            return remat_fail(error, REMAT_INVALID, field, "bytes are past 2^53");
    }
    return REMAT_OK;
}

static remat_status finish(const stadium *s, remat_pipeline_play *play, remat_error *error)
{
    double busy = 0;
    for (uint32_t r = 0; r < s->p->ranks; r++) {
        if (s->players[r].next < s->per_rank)
            return remat_fail(error, REMAT_INVALID, "in_flight",
                              "rank %u waits for ever before its pass %u", r, s->players[r].next);
        s->ranks[r].passes = s->players[r].passes;
        s->ranks[r].n_passes = s->per_rank;
        busy += s->ranks[r].busy;
    }
    play->step = s->now;
    play->bubble = s->now > 0 ? 1 - busy / (s->now * s->p->ranks) : 0;
    play->bubble = play->bubble < 0 ? 0 : play->bubble; /* by rounding */
    play->n_ranks = s->p->ranks;
    play->ranks = s->ranks;
    return REMAT_OK;
}

/* The play, its ranks and their passes in one block, which the play owns; what is needed only while
 * it is played in another. */
static remat_status play_in(stadium *s, remat_pipeline_play **ret_play, remat_error *error)
{
    const size_t ranks = s->p->ranks, passes = ranks * s->per_rank;
    char *kept = calloc(1, sizeof(remat_pipeline_play) + ranks * sizeof *s->ranks +
                               passes * sizeof(remat_pipeline_pass));
    under_way *sends = calloc(passes, sizeof *sends);
    s->players = calloc(ranks, sizeof *s->players);
    s->free_at = calloc(ranks * ranks, sizeof *s->free_at);
    s->arrived = calloc(passes, sizeof *s->arrived);
    s->heap = calloc(passes * 2, sizeof *s->heap);
    remat_status status = kept && sends && s->players && s->free_at && s->arrived && s->heap
                              ? REMAT_OK
                              : remat_fail_memory(error);
    if (!status) {
        remat_pipeline_play *result = (remat_pipeline_play *)(void *)kept;
        s->ranks = (remat_pipeline_rank *)(void *)(result + 1);
        remat_pipeline_pass *all = (remat_pipeline_pass *)(void *)(s->ranks + ranks);
        for (uint32_t r = 0; r < ranks; r++) {
            s->players[r].passes = all + (size_t)r * s->per_rank;
            s->players[r].sends = sends + (size_t)r * s->per_rank;
            put_order(s, r);
        }
        play(s);
        result->memory = kept;
        status = finish(s, result, error);
    }
    free(sends);
    free(s->players);
    free(s->free_at);
    free(s->arrived);
    free(s->heap);
    if (status)
        free(kept);
    else
        *ret_play = (remat_pipeline_play *)(void *)kept;
    return status;
}

remat_status remat_pipeline_judge(const remat_pipeline *p, const remat_pipeline_stage *stages,
                                  remat_pipeline_play **ret_play, remat_error *error)
{
    remat_status status = remat_pipeline_check(p, error);
    if (!status)
        status = check_stages(p, stages, error);
    if (status)
        return status;
    stadium s = {.p = p,
                 .stages = stages,
                 .n_stages = p->ranks * p->chunks,
                 .per_rank = 2 * p->chunks * p->microbatches};
    return play_in(&s, ret_play, error);
}

void remat_pipeline_play_free(remat_pipeline_play *play)
{
    if (play)
        free(play->memory);
}
