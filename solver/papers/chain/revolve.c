/* Revolve (Griewank, Walther, "Algorithm 799: Revolve", ACM TOMS 26(1), 2000): the fewest forward
 * steps for a number of equal snapshots, on homogeneous chains.
 *
 * t(l,c), the forward steps for l stages with c snapshots (the chain's input is the first):
 *     t(1,c) = 0,   t(l,c) = min over 0 < k < l of k + t(l-k, c-1) + t(k, c)              (their
 * (6)) which is r l - binom(c+r, r-1) with r least such that binom(c+r, c) >= l. The position k
 * follows in closed form from five binomials, as in their routine; the dynamic program gives the
 * same cost and is the option "method".
 *
 * Corrected for bytes: their model ignores that the input and output of a step coexist and counts
 * no gradients; the bytes of each schedule are measured on the list itself. */
#include "papers/chain/revolve.h"
#include "papers/chain/family.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_STEPS = 512, MAX_PROGRAM_STAGES = 512 };
static const double max_operations = 16777216; /* longer lists are left out of the table */

/* ---- closed form ---- */

uint64_t chain_revolve_repetitions(uint64_t l, uint64_t c, uint64_t *ret_range)
{
    uint64_t r = 0, range = 1;
    while (range < l) {
        r++;
        range = range * (r + c) / r;
    }
    *ret_range = range;
    return r;
}

double chain_revolve_forwards(uint64_t l, uint64_t c)
{
    uint64_t range, r = chain_revolve_repetitions(l, c, &range);
    if (r == 0)
        return 0;
    double binomial = 1; /* binom(c+r, r-1) */
    for (uint64_t i = 1; i < r; i++)
        binomial = binomial * (double)(c + 1 + i) / (double)i;
    return (double)r * (double)l - nearbyint(binomial);
}

/* Their routine's choice of the next snapshot: capo + k, with fine - capo = l and ds = c. */
uint64_t chain_revolve_position(uint64_t l, uint64_t c)
{
    uint64_t range, r = chain_revolve_repetitions(l, c, &range);
    uint64_t b1 = range * r / (c + r);
    uint64_t b2 = c > 1 ? b1 * c / (c + r - 1) : 1;
    uint64_t b3 = c == 1 ? 0 : c > 2 ? b2 * (c - 1) / (c + r - 2) : 1;
    uint64_t b4 = b2 * (r - 1) / c;
    uint64_t b5 = c < 3 ? 0 : c > 3 ? b3 * (c - 2) / r : 1;
    uint64_t k;
    if (l <= b1 + b3)
        k = b4;
    else if (l >= range - b5)
        k = b1;
    else
        k = l - b2 - b3;
    return k > 0 ? k : 1;
}

/* ---- dynamic program ---- */

typedef struct program {
    uint32_t n;
    uint32_t *forwards; /* t(l,c) at [l * (n+1) + c], c >= 1 */
} program;

static uint32_t *entry(const program *dp, uint64_t l, uint64_t c)
{
    return &dp->forwards[(size_t)l * (dp->n + 1) + (size_t)c];
}

static uint64_t program_position(const program *dp, uint64_t l, uint64_t c)
{
    uint64_t best = l - 1; /* the last part has one stage and needs no snapshot */
    uint64_t least = UINT64_MAX;
    for (uint64_t k = l - 1; k > 0; k--) {
        if (c == 1 && k < l - 1)
            break;
        uint64_t right = k == l - 1 ? 0 : *entry(dp, l - k, c - 1);
        uint64_t cost = k + right + *entry(dp, k, c);
        if (cost < least) {
            least = cost;
            best = k;
        }
    }
    return best;
}

static bool program_init(program *dp, uint32_t n)
{
    dp->n = n;
    dp->forwards = calloc((size_t)(n + 1) * (n + 1), sizeof *dp->forwards);
    if (!dp->forwards)
        return false;
    for (uint64_t c = 1; c <= n; c++)
        for (uint64_t l = 2; l <= n; l++) {
            uint64_t k = program_position(dp, l, c);
            uint32_t right = k == l - 1 ? 0 : *entry(dp, l - k, c - 1);
            *entry(dp, l, c) = (uint32_t)k + right + *entry(dp, k, c);
        }
    return true;
}

/* ---- the schedule ---- */

typedef struct emitter {
    const chain_costs *chain;
    const program *dp; /* NULL: in closed form */
} emitter;

/* The room of a task is its snapshots. */
static remat_status emit_task(const void *context, chain_task at, chain_stack *stack,
                              remat_operations *operations)
{
    const emitter *e = context;
    uint64_t length = at.t - at.s + 1;
    if (length == 1)
        return chain_emit_leaf(e->chain, at.s, at.plain, operations);
    uint32_t k = (uint32_t)(e->dp ? program_position(e->dp, length, at.room)
                                  : chain_revolve_position(length, at.room));
    uint32_t next = at.s + k;
    chain_push(stack, (chain_task){.room = at.room, .s = at.s, .t = next - 1, .plain = at.plain});
    chain_push(stack, (chain_task){.room = at.room - 1, .s = next, .t = at.t, .plain = true});
    return chain_emit_pass(at.s, next - 1, operations);
}

static remat_status emit_schedule(const chain_costs *chain, const void *context, uint64_t snapshots,
                                  remat_operations *operations, remat_error *error)
{
    const emitter e = {chain, context};
    return chain_emit_tasks(chain, snapshots, emit_task, &e, operations) ? remat_fail_memory(error)
                                                                         : REMAT_OK;
}

/* ---- the solver ---- */

static double list_length(uint32_t n, uint64_t snapshots)
{
    return 2 * chain_revolve_forwards(n, snapshots) + 4.0 * n;
}

/* Numbers of snapshots: all of them on short chains, else in geometric progression. */
static size_t choose_snapshots(uint32_t n, uint64_t *snapshots)
{
    size_t count = 0;
    double ratio = pow((double)n, 1.0 / (MAX_STEPS - 1)), at = 1;
    for (uint64_t c = 1; c <= n && count < MAX_STEPS; c++) {
        if (n > MAX_STEPS) {
            if ((double)c < at && c < n)
                continue;
            while (at <= (double)c)
                at *= ratio;
        }
        if (list_length(n, c) <= max_operations)
            snapshots[count++] = c;
    }
    return count;
}

static bool by_program(const remat_problem *problem)
{
    return problem->options.values[0] != 0;
}

static remat_status revolve_check(const remat_problem *problem, remat_error *error)
{
    if (by_program(problem) && problem->profile->n_nodes > MAX_PROGRAM_STAGES)
        return remat_fail(error, REMAT_NOT_ACCEPTED, "options.method",
                          "the dynamic program of revolve takes at most %d stages, not %u; the "
                          "closed form takes any number",
                          MAX_PROGRAM_STAGES, problem->profile->n_nodes);
    return REMAT_OK;
}

static remat_status revolve_estimate(const remat_problem *problem, remat_estimate *ret_estimate,
                                     remat_error *error)
{
    (void)error;
    uint64_t snapshots[MAX_STEPS];
    uint32_t n = problem->profile->n_nodes;
    size_t count = choose_snapshots(n, snapshots);
    double longest = count ? list_length(n, snapshots[0]) : 0;
    *ret_estimate = chain_family_estimate(n, count, longest);
    if (by_program(problem)) {
        ret_estimate->table_bytes += (uint64_t)(n + 1) * (n + 1) * sizeof(uint32_t);
        ret_estimate->updates += (double)n * n * n / 2;
    }
    return REMAT_OK;
}

static remat_status revolve_solve(const remat_problem *problem, const remat_host *host,
                                  const remat_sink *sink, remat_error *error)
{
    uint64_t snapshots[MAX_STEPS];
    size_t count = choose_snapshots(problem->profile->n_nodes, snapshots);
    chain_costs *chain = NULL;
    program dp = {0};
    remat_status status = chain_new(problem->profile, &chain, error);
    if (status)
        return status;
    if (by_program(problem) && !program_init(&dp, chain->n))
        status = remat_fail_memory(error);
    if (!status)
        status = chain_family_offer(chain, emit_schedule, dp.forwards ? &dp : NULL, snapshots,
                                    count, host, sink, error);
    free(dp.forwards);
    chain_free(chain);
    return status;
}

static const char *const methods[] = {"closed-form", "dynamic-program", NULL};
static const remat_option options[] = {
    {.name = "method",
     .summary = "how the position of the next snapshot is found; both give the same cost",
     .type = REMAT_OPTION_CHOICE,
     .choices = methods},
};

const remat_solver remat_solver_revolve = {
    .name = "revolve",
    .summary = "Binomial checkpointing: the fewest forward steps for a number of equal snapshots.",
    .source = "Griewank, Walther: Algorithm 799: Revolve, ACM TOMS 26(1), 2000",
    .optimal_for = "the number of forward steps, given a number of equal snapshots of stage inputs",
    .accepts = REMAT_ACCEPTS_CHAIN | REMAT_BASELINE | REMAT_HOMOGENEOUS_ONLY,
    .options = options,
    .n_options = 1,
    .check = revolve_check,
    .estimate = revolve_estimate,
    .solve = revolve_solve,
};
