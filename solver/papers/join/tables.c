/* Joins with measured costs: canonical schedules by dynamic programming over slots of memory. The
 * canonical shape is that of Beaumont, Herrmann, Pallez, Shilova, "Optimal Memory-aware
 * Backpropagation of Deep Join Networks" (RR-9273, 2019, Theorem 2: the branch that finishes last
 * is advanced first, in one run), the memory model that of the operations F, A, B and D: an output
 * is made beside its inputs, workspaces count, gradients have their own sizes.
 *
 * Below the turn, C(j,s,t,M,al): x_s, the gradient at x_t and, if al, x_t are there and counted in
 * M; do B_{t-1} .. B_s. With e = al ? x_t : 0 and G the gradients held:
 *
 *   t = s+1: direct (nothing saved, and al or the output is not used), else remake by A or F
 *   t > s+1: the least of
 *      drop x_t     if al: C(j,s,t,M,0)
 *      keep x_i     from x_s + G_t + e + max_q (x_q + x_{q+1} + wf_q) on:
 *                   tf_s + .. + tf_{i-1} + C(j,i,t,M - x_s,al) + C(j,s,i,M,uo_{i-1})
 *      save all     tf_s + C(j,s+1,t,M - x_s - sv_s,al) + tb_s
 *
 * Above it, T(p,phi,M) with p the start positions and phi_j whether x_{p_j} stays when branch j is
 * done down to p_j; cur = sum of x_{p_j}, kept_j = G_{p_j} + phi_j x_{p_j}:
 *
 *   p = l:  the turn
 *   else the least over branches m, s = p_m, free = M - sum_{j != m} kept_j, of
 *      keep x_i, f  tf_s + .. + T(p[m <- i],phi[m <- f],M - x_s) + C(m,s,i,free,f)
 *      save all     tf_s + T(p[m <- s+1],phi[m <- uo_s],M - x_s - sv_s) + tb_s
 *
 * Beyond the report: the flags al and phi (a backward may read the node's own output, which is
 * there when the part above it is done), saved values, workspaces, gradients of graph inputs, which
 * stay to the end of the step.
 *
 * Exact: when, on every branch, all outputs have one size and all gradients another, that of x_0 is
 * no larger, nothing is saved, no backward reads its own output, no F takes more workspace than an
 * A and no forward more than the turn, canonical schedules are optimal among all. Otherwise they
 * are a heuristic: persistence of checkpoints, backward parts that do not overlap and the order of
 * forwards can each fail (tests/data/join_hetero_small.json has an instance of each).
 *
 * Sums are rounded together where they are compared together: with sizes rounded up a schedule's
 * bytes are at most its slots', with sizes rounded down no schedule is lost. */
#include "papers/join/tables_private.h"

#include <math.h>
#include <stdlib.h>

/* Bytes in slots, as the setting rounds; more than all slots is one past them. */
static uint32_t slots_of(const join_tables *t, uint64_t bytes)
{
    uint64_t slots = bytes / t->setting.unit;
    slots += t->setting.round_up && bytes % t->setting.unit != 0;
    return slots > t->setting.n_slots ? t->setting.n_slots + 1 : (uint32_t)slots;
}

/* ---- choices below the turn ---- */

static size_t leaf_choice(const join_tables *t, uint32_t j, uint32_t s, bool alive,
                          join_choice *choice)
{
    const join_branch *b = &t->join->branches[j];
    uint64_t before = b->output[s] + b->held[s + 1], output = b->output[s + 1];
    uint64_t backward = before + b->saved[s] + (b->uses_output[s] ? output : 0) + b->made[s];
    *choice = (join_choice){.branch = j};
    if (b->saved[s] == 0 && (alive || !b->uses_output[s])) {
        choice->kind = JOIN_DIRECT;
        choice->cost = b->backward[s];
    } else {
        choice->kind = JOIN_REMAKE;
        choice->cost = b->forward[s] + b->backward[s];
        backward = model_larger(backward, before + output + b->saved[s] + b->save_workspace[s]);
    }
    choice->need = slots_of(t, backward);
    return 1;
}

/* Bytes of a run's step q beyond what stands beside it, while it started at s. */
static uint64_t run_bytes(const join_branch *b, uint32_t s, uint32_t q)
{
    return (q > s ? b->output[q] : 0) + b->output[q + 1] + b->forward_workspace[q];
}

static void save_choice(const join_tables *t, uint32_t j, uint32_t s, uint64_t beside,
                        uint32_t kept, join_choice *choice)
{
    const join_branch *b = &t->join->branches[j];
    uint64_t both = b->output[s] + b->saved[s], output = b->output[s + 1];
    uint32_t forward = slots_of(t, beside + output + b->saved[s] + b->save_workspace[s]);
    uint32_t backward =
        kept + slots_of(t, both + b->held[s + 1] + (b->uses_output[s] ? output : 0) + b->made[s]);
    *choice = (join_choice){.kind = JOIN_SAVE,
                            .branch = j,
                            .left_shift = slots_of(t, both),
                            .need = forward > backward ? forward : backward,
                            .cost = b->forward[s] + b->backward[s],
                            .flag = b->uses_output[s]};
}

size_t join_chain_choices(const join_tables *t, uint32_t j, uint32_t s, uint32_t end, bool alive,
                          join_choice *choices)
{
    const join_branch *b = &t->join->branches[j];
    if (end == s + 1)
        return leaf_choice(t, j, s, alive, choices);
    uint64_t beside = b->output[s] + b->held[end] + (alive ? b->output[end] : 0), run = 0;
    uint32_t shift = slots_of(t, b->output[s]);
    double cost = 0;
    size_t n = 0;
    if (alive)
        choices[n++] = (join_choice){
            .kind = JOIN_DROP, .branch = j, .left = join_chain_row(t, j, s, end, false)};
    for (uint32_t i = s + 1; i < end; i++) {
        run = model_larger(run, run_bytes(b, s, i - 1));
        cost += b->forward[i - 1];
        choices[n++] = (join_choice){.kind = JOIN_KEEP,
                                     .branch = j,
                                     .step = i,
                                     .left = join_chain_row(t, j, i, end, alive),
                                     .left_shift = shift,
                                     .right = join_chain_row(t, j, s, i, b->uses_output[i - 1]),
                                     .need = slots_of(t, beside + run),
                                     .cost = cost};
    }
    if (b->saved[s] > 0) {
        save_choice(t, j, s, beside, 0, &choices[n]);
        choices[n++].left = join_chain_row(t, j, s + 1, end, alive);
    }
    return n;
}

/* ---- choices of the join ---- */

static uint64_t current_bytes(const join_tables *t, const join_state *state)
{
    uint64_t bytes = 0;
    for (uint32_t j = 0; j < t->join->k; j++)
        bytes += t->join->branches[j].output[state->position[j]];
    return bytes;
}

uint32_t join_kept(const join_tables *t, const join_state *state, uint32_t m)
{
    uint64_t bytes = 0;
    for (uint32_t j = 0; j < t->join->k; j++) {
        const join_branch *b = &t->join->branches[j];
        if (j != m)
            bytes +=
                b->held[state->position[j]] + (state->phi[j] ? b->output[state->position[j]] : 0);
    }
    return slots_of(t, bytes);
}

static size_t turn_choice(const join_tables *t, const join_state *state, join_choice *choice)
{
    const join_costs *join = t->join;
    uint64_t backward = join->loss_kept + join->loss_backward;
    for (uint32_t j = 0; j < join->k; j++)
        backward += join->branches[j].held[join->branches[j].length];
    uint64_t forward = join->loss_output + join->loss_forward;
    *choice = (join_choice){
        .kind = JOIN_TURN,
        .need = slots_of(t, current_bytes(t, state) + model_larger(forward, backward)),
        .cost = join->loss_time};
    return 1;
}

/* The row after branch m moved i steps on, with phi. */
static const double *moved_row(const join_tables *t, const join_state *state, uint32_t m,
                               uint32_t i, bool phi)
{
    size_t index = state->index + i * t->stride[m];
    if (state->phi[m])
        index -= t->phi_stride[m];
    if (phi)
        index += t->phi_stride[m];
    return t->states + index * t->row;
}

static size_t branch_choices(const join_tables *t, const join_state *state, uint32_t m,
                             uint64_t current, join_choice *choices)
{
    const join_branch *b = &t->join->branches[m];
    uint32_t s = state->position[m], kept = join_kept(t, state, m);
    uint32_t shift = slots_of(t, b->output[s]);
    uint64_t run = 0;
    double cost = 0;
    size_t n = 0;
    for (uint32_t i = s + 1; i <= b->length; i++) {
        run = model_larger(run, run_bytes(b, s, i - 1));
        cost += b->forward[i - 1];
        for (uint32_t f = 0; f <= b->uses_output[i - 1]; f++)
            choices[n++] = (join_choice){.kind = JOIN_KEEP,
                                         .branch = m,
                                         .step = i,
                                         .flag = f,
                                         .left = moved_row(t, state, m, i - s, f),
                                         .left_shift = shift,
                                         .right = join_chain_row(t, m, s, i, f),
                                         .right_shift = kept,
                                         .need = slots_of(t, current + run),
                                         .cost = cost};
    }
    if (s < b->length && b->saved[s] > 0) {
        save_choice(t, m, s, current, kept, &choices[n]);
        choices[n++].left = moved_row(t, state, m, 1, b->uses_output[s]);
    }
    return n;
}

size_t join_state_choices(const join_tables *t, const join_state *state, join_choice *choices)
{
    size_t n = 0;
    uint64_t current = current_bytes(t, state);
    for (uint32_t m = 0; m < t->join->k; m++)
        n += branch_choices(t, state, m, current, choices + n);
    return n > 0 ? n : turn_choice(t, state, choices);
}

/* ---- size ---- */

static size_t flags_of(const join_branch *b)
{
    for (uint32_t i = 0; i < b->length; i++)
        if (b->uses_output[i])
            return 2;
    return 1;
}

void join_tables_size(const join_costs *join, double *ret_cells, double *ret_updates)
{
    double states = 1, choices = 1, cells = 0, updates = 0;
    for (uint32_t j = 0; j < join->k; j++) {
        const join_branch *b = &join->branches[j];
        double l = b->length, flags = (double)flags_of(b);
        cells += l * (l + 1) / 2 * flags;
        updates += l * l * l / 6 * flags;
        states *= (l + 1) * flags;
        choices += l * flags / 2;
    }
    *ret_cells = cells + states;
    *ret_updates = updates + states * choices;
}

/* ---- filling ---- */

static inline __attribute__((always_inline)) void add_choice(double *restrict row, size_t length,
                                                             const join_choice *c)
{
    uint32_t from = c->need;
    from = c->left_shift > from ? c->left_shift : from;
    from = c->right_shift > from ? c->right_shift : from;
    if (from >= length)
        return;
    size_t n = length - from;
    double cost = c->cost;
    const double *restrict left = c->left ? c->left + (from - c->left_shift) : NULL;
    const double *restrict right = c->right ? c->right + (from - c->right_shift) : NULL;
    row += from;
    if (left && right)
        for (size_t m = 0; m < n; m++) {
            double value = left[m] + right[m] + cost;
            row[m] = value < row[m] ? value : row[m];
        }
    else if (left)
        for (size_t m = 0; m < n; m++) {
            double value = left[m] + cost;
            row[m] = value < row[m] ? value : row[m];
        }
    else
        for (size_t m = 0; m < n; m++)
            row[m] = cost < row[m] ? cost : row[m];
}

static void fill_plain(double *row, size_t length, const join_choice *choices, size_t n)
{
    for (size_t i = 0; i < n; i++)
        add_choice(row, length, &choices[i]);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void fill_avx2(double *row, size_t length,
                                                      const join_choice *choices, size_t n)
{
    for (size_t i = 0; i < n; i++)
        add_choice(row, length, &choices[i]);
}
#endif

/* row[M] = min over the choices, for all M. */
static void fill_row(double *row, size_t length, const join_choice *choices, size_t n)
{
    for (size_t m = 0; m < length; m++)
        row[m] = INFINITY;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        fill_avx2(row, length, choices, n);
        return;
    }
#endif
    fill_plain(row, length, choices, n);
}

typedef struct filling {
    join_tables *tables;
    const remat_host *host;
    join_choice *choices; /* by worker */
    uint32_t *positions;  /* by worker */
    bool *phi;
    uint32_t branch, distance; /* of the diagonal at hand */
    const size_t *order;       /* positions by their sum, largest first */
    size_t first;
} filling;

static void fill_chain(void *context, size_t index, unsigned worker)
{
    filling *f = context;
    join_tables *t = f->tables;
    const join_branch *b = &t->join->branches[f->branch];
    join_choice *choices = f->choices + worker * t->most_choices;
    uint32_t s = (uint32_t)index, end = s + f->distance;
    if (remat_host_cancelled(f->host))
        return;
    for (unsigned alive = 0; alive <= b->uses_output[end - 1]; alive++) {
        size_t n = join_chain_choices(t, f->branch, s, end, alive, choices);
        fill_row(join_chain_row(t, f->branch, s, end, alive), t->row, choices, n);
    }
}

/* Sets the flags of phi number bits; false where a flag has no meaning. */
static bool set_phi(const join_tables *t, size_t bits, join_state *state)
{
    for (uint32_t j = 0; j < t->join->k; j++) {
        uint32_t p = state->position[j];
        state->phi[j] = t->phi_stride[j] > 0 && (bits / t->phi_stride[j]) % 2 == 1;
        if (state->phi[j] && (p == 0 || !t->join->branches[j].uses_output[p - 1]))
            return false;
    }
    return true;
}

/* Where branch j is at a position. */
static uint32_t step_of(const join_tables *t, size_t position, uint32_t j)
{
    return (uint32_t)(position / (t->stride[j] / t->n_phi) % (t->join->branches[j].length + 1));
}

static void fill_position(void *context, size_t index, unsigned worker)
{
    filling *f = context;
    join_tables *t = f->tables;
    join_choice *choices = f->choices + worker * t->most_choices;
    join_state state = {.position = f->positions + worker * (size_t)t->join->k,
                        .phi = f->phi + worker * (size_t)t->join->k};
    size_t position = f->order[f->first + index];
    for (uint32_t j = 0; j < t->join->k; j++)
        state.position[j] = step_of(t, position, j);
    for (size_t bits = 0; bits < t->n_phi; bits++) {
        if (remat_host_cancelled(f->host))
            return;
        if (!set_phi(t, bits, &state))
            continue;
        state.index = position * t->n_phi + bits;
        size_t n = join_state_choices(t, &state, choices);
        fill_row(t->states + state.index * t->row, t->row, choices, n);
    }
}

static uint32_t sum_of(const join_tables *t, size_t position)
{
    uint32_t sum = 0;
    for (uint32_t j = 0; j < t->join->k; j++)
        sum += step_of(t, position, j);
    return sum;
}

/* starts[s]: where the positions of sum `most - s` begin in order. */
static void order_positions(const join_tables *t, uint32_t most, size_t *order, size_t *starts)
{
    for (size_t p = 0; p < t->n_positions; p++)
        starts[most - sum_of(t, p) + 1]++;
    for (uint32_t s = 0; s <= most; s++)
        starts[s + 1] += starts[s];
    for (size_t p = 0; p < t->n_positions; p++)
        order[starts[most - sum_of(t, p)]++] = p;
    for (uint32_t s = most + 1; s > 0; s--)
        starts[s] = starts[s - 1];
    starts[0] = 0;
}

static remat_status fill_tables(filling *f, model_arena *arena, remat_error *error)
{
    join_tables *t = f->tables;
    uint32_t most = 0;
    for (f->branch = 0; f->branch < t->join->k; f->branch++) {
        uint32_t length = t->join->branches[f->branch].length;
        most += length;
        for (f->distance = 1; f->distance <= length; f->distance++) {
            remat_host_parallel_for(f->host, length - f->distance + 1, fill_chain, f);
            if (remat_host_cancelled(f->host))
                return remat_fail(error, REMAT_CANCELLED, NULL, "cancelled");
        }
    }
    size_t *order = model_arena_array(arena, t->n_positions, sizeof *order);
    size_t *starts = model_arena_array(arena, (size_t)most + 2, sizeof *starts);
    if (!order || !starts)
        return remat_fail_memory(error);
    order_positions(t, most, order, starts);
    f->order = order;
    for (uint32_t s = 0; s <= most; s++) {
        f->first = starts[s];
        remat_host_parallel_for(f->host, starts[s + 1] - starts[s], fill_position, f);
        remat_host_progress(f->host, 0.9 * (s + 1.0) / (most + 1.0));
        if (remat_host_cancelled(f->host))
            return remat_fail(error, REMAT_CANCELLED, NULL, "cancelled");
    }
    return REMAT_OK;
}

static remat_status fill(join_tables *t, const remat_host *host, remat_error *error)
{
    model_arena arena = {0};
    size_t workers = remat_host_workers(host);
    filling f = {.tables = t, .host = host};
    f.choices = model_arena_array(&arena, workers * t->most_choices, sizeof *f.choices);
    f.positions = model_arena_array(&arena, workers * (t->join->k + 1), sizeof *f.positions);
    f.phi = model_arena_array(&arena, workers * (t->join->k + 1), sizeof *f.phi);
    remat_status status = f.choices && f.positions && f.phi ? fill_tables(&f, &arena, error)
                                                            : remat_fail_memory(error);
    model_arena_clear(&arena);
    return status;
}

/* ---- the tables ---- */

void join_tables_free(join_tables *t)
{
    if (!t)
        return;
    for (uint32_t j = 0; t->chains && j < t->join->k; j++)
        free(t->chains[j]);
    free(t->states);
    model_arena_clear(&t->arena);
    free(t);
}

static void number_states(join_tables *t)
{
    t->n_phi = t->n_positions = 1;
    for (uint32_t j = 0; j < t->join->k; j++) {
        t->flags[j] = flags_of(&t->join->branches[j]);
        t->phi_stride[j] = t->flags[j] == 2 ? t->n_phi : 0;
        t->n_phi *= t->flags[j];
    }
    t->most_choices = 1;
    for (uint32_t j = t->join->k; j-- > 0;) {
        t->stride[j] = t->n_positions * t->n_phi;
        t->n_positions *= (size_t)t->join->branches[j].length + 1;
        t->most_choices += 2 * (size_t)t->join->branches[j].length + 2;
    }
}

static bool allocate(join_tables *t)
{
    size_t k = t->join->k;
    t->chains = model_arena_array(&t->arena, k, sizeof *t->chains);
    t->flags = model_arena_array(&t->arena, k, sizeof *t->flags);
    t->stride = model_arena_array(&t->arena, k, sizeof *t->stride);
    t->phi_stride = model_arena_array(&t->arena, k, sizeof *t->phi_stride);
    if (!t->chains || !t->flags || !t->stride || !t->phi_stride)
        return false;
    number_states(t);
    for (uint32_t j = 0; j < k; j++) {
        size_t l = t->join->branches[j].length;
        t->chains[j] = malloc((l * (l + 1) / 2 * t->flags[j] * t->row + 1) * sizeof(double));
        if (!t->chains[j])
            return false;
    }
    t->states = malloc(t->n_positions * t->n_phi * t->row * sizeof(double));
    return t->states != NULL;
}

remat_status join_tables_new(const join_costs *join, const join_setting *setting,
                             const remat_host *host, join_tables **ret_tables, remat_error *error)
{
    double cells, updates, limit = 1e12;
    join_tables_size(join, &cells, &updates);
    double bytes = cells * (setting->n_slots + 1.0) * sizeof(double);
    if (host && host->memory_limit && (double)host->memory_limit < limit)
        limit = (double)host->memory_limit;
    if (bytes > limit)
        return remat_fail(error, REMAT_TOO_LARGE, NULL,
                          "the tables of this join would take %.3g bytes; the limit is %.3g", bytes,
                          limit);
    join_tables *t = calloc(1, sizeof *t);
    if (!t)
        return remat_fail_memory(error);
    t->join = join;
    t->setting = *setting;
    t->row = (size_t)setting->n_slots + 1;
    remat_status status = allocate(t) ? fill(t, host, error) : remat_fail_memory(error);
    if (status) {
        join_tables_free(t);
        return status;
    }
    *ret_tables = t;
    return REMAT_OK;
}

const double *join_tables_answer(const join_tables *t)
{
    return t->states;
}
