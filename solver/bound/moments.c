#include "bound/private.h"

#include "remat/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TANGENTS = 14, REFINED = 6 };

#define NEARLY_ALL 0.8

#define UNREACHED UINT32_MAX

/* A cut at one price: bound = value; as a line in the price, base + held * price. */
typedef struct tangent {
    double base, slope, value;
    double held;
} tangent;

/* ---- setting up ---- */

static void take_least(bound_moments *m, uint32_t v)
{
    const remat_node *node = &m->profile->nodes[v];
    double forward = INFINITY, saved = INFINITY, workspace = INFINITY, running = INFINITY;
    for (uint32_t k = 0; k <= node->n_alternatives; k++) {
        const remat_alternative cost = remat_implementation(node, k);
        forward = fmin(forward, cost.forward_time);
        saved = fmin(saved, (double)cost.saved_bytes);
        workspace = fmin(workspace, (double)(m->profile->joint ? cost.forward_workspace_bytes
                                                               : cost.backward_workspace_bytes));
        running = fmin(
            running, fmin((double)cost.forward_workspace_bytes, (double)cost.save_workspace_bytes));
    }
    m->time[v] = m->again[v] = forward;
    m->out[v] = (double)node->output_bytes;
    m->saved[v] = saved;
    m->workspace[v] = workspace;
    m->running[v] = running;
}

/* A value without the graph inputs. */
static uint32_t value_here(const bound_moments *m, uint32_t value)
{
    return value < m->n ? value : value - m->profile->n_inputs;
}

static uint32_t result_here(const bound_moments *m, uint32_t v, uint32_t k)
{
    return value_here(m, remat_result_value(m->profile, v, k));
}

/* Flow nodes: y1 of a value is its number, y2_v is n_values + v, then source and sink. */
static void join_arcs(bound_moments *m)
{
    bound_flow *f = &m->flow;
    const remat_profile *p = m->profile;
    for (uint32_t v = 0; v < m->n; v++) {
        const remat_node *node = &p->nodes[v];
        for (uint32_t k = 0; k < node->n_outputs; k++)
            bound_flow_join(f, m->n_values + v, result_here(m, v, k));
        for (uint32_t i = 0; i < node->n_inputs; i++)
            if (remat_is_result(p, node->inputs[i]))
                bound_flow_join(f, m->n_values + v, value_here(m, node->inputs[i]));
    }
    for (uint32_t y = 0; y < m->n_values + m->n; y++) {
        m->from_source[y] = bound_flow_join(f, f->source, y);
        m->to_sink[y] = bound_flow_join(f, y, f->sink);
    }
}

static bool build_flow(bound_moments *m)
{
    if (!bound_flow_new(&m->flow, m->n_values + m->n + 2, &m->arena))
        return false;
    join_arcs(m);
    if (!bound_flow_open(&m->flow, &m->arena))
        return false;
    join_arcs(m);
    return true;
}

typedef struct bound_rank {
    double bytes;
    uint32_t node;
} bound_rank;

/* Bytes alive during each run of a joint graph in the order of the profile. */
static void find_joint_alive(bound_moments *m, bound_rank *ret_ranks)
{
    const remat_profile *p = m->profile;
    uint32_t *last = m->last;
    double alive = 0;
    for (uint32_t v = 0; v < m->n; v++)
        for (uint32_t i = 0; i < p->nodes[v].n_inputs; i++)
            if (remat_is_result(p, p->nodes[v].inputs[i]))
                last[value_here(m, p->nodes[v].inputs[i])] = v;
    for (uint32_t i = 0; i < p->n_outputs; i++)
        if (remat_is_result(p, p->outputs[i]))
            last[value_here(m, p->outputs[i])] = m->n;
    for (uint32_t v = 0; v < m->n; v++) {
        const remat_node *node = &p->nodes[v];
        for (uint32_t k = 0; k < node->n_outputs; k++)
            alive += m->out[result_here(m, v, k)];
        ret_ranks[v] = (bound_rank){.bytes = alive + m->workspace[v], .node = v};
        for (uint32_t i = 0; i < node->n_inputs; i++)
            if (remat_is_result(p, node->inputs[i]) && last[value_here(m, node->inputs[i])] == v)
                alive -= m->out[value_here(m, node->inputs[i])];
        for (uint32_t k = 0; k < node->n_outputs; k++)
            if (last[result_here(m, v, k)] == 0) /* nobody reads it: node 0 reads nothing */
                alive -= m->out[result_here(m, v, k)];
    }
}

/* Of others, bytes alive during each backward where everything is stored and backwards come in the
 * reverse of the order. */
static void find_alive(bound_moments *m, bound_rank *ret_ranks)
{
    const remat_profile *p = m->profile;
    double alive = 0, *more = m->weight; /* by node: than during the backward that comes next */
    for (uint32_t v = 0; v < m->n; v++) {
        const remat_node *node = &p->nodes[v];
        const uint32_t end = node->n_consumers > 0 ? node->consumers[node->n_consumers - 1] : v;
        more[v] += m->saved[v] + (double)node->gradient_bytes;
        more[end + 1] -= (double)node->gradient_bytes;
        uint32_t reader = node->backward_uses_output ? v : UINT32_MAX; /* the last one */
        for (uint32_t c = 0; c < node->n_consumers && reader == UINT32_MAX; c++)
            if (p->nodes[node->consumers[c]].backward_uses_inputs)
                reader = node->consumers[c];
        if (reader != UINT32_MAX)
            more[reader] += m->out[v];
    }
    for (uint32_t v = 0; v < m->n; v++) {
        alive += more[v];
        ret_ranks[v] = (bound_rank){.bytes = alive + m->workspace[v], .node = v};
    }
}

static int compare_alive(const void *left, const void *right)
{
    const bound_rank *a = left, *b = right;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return a->node < b->node ? -1 : 1;
}

/* The moment to look at first, that of the loss; of a joint graph the run during which most is
 * alive. Then the others, by what is alive. */
static bool rank_moments(bound_moments *m)
{
    bound_rank *ranks = malloc(m->n * sizeof *ranks);
    if (!ranks)
        return false;
    if (m->profile->joint)
        find_joint_alive(m, ranks);
    else
        find_alive(m, ranks);
    qsort(ranks, m->n, sizeof *ranks, compare_alive);
    for (uint32_t i = 0; i < m->n; i++)
        m->rank[ranks[i].node] = i;
    m->first = m->profile->joint ? ranks[0].node : m->n - 1;
    free(ranks);
    return true;
}

remat_status bound_moments_new(const remat_profile *profile, bound_moments **ret_moments,
                               remat_error *error)
{
    bound_moments *m = calloc(1, sizeof *m);
    if (!m)
        return remat_fail_memory(error);
    uint32_t n = profile->n_nodes;
    m->profile = profile;
    m->n = n;
    m->n_values = n + profile->n_results;
    size_t choices = (size_t)m->n_values + n;
    m->time = model_arena_array(&m->arena, n, sizeof *m->time);
    m->again = model_arena_array(&m->arena, n, sizeof *m->again);
    m->out = model_arena_array(&m->arena, m->n_values, sizeof *m->out);
    m->saved = model_arena_array(&m->arena, n, sizeof *m->saved);
    m->workspace = model_arena_array(&m->arena, n, sizeof *m->workspace);
    m->running = model_arena_array(&m->arena, n, sizeof *m->running);
    m->role = model_arena_array(&m->arena, m->n_values, sizeof *m->role);
    m->weight = model_arena_array(&m->arena, choices, sizeof *m->weight);
    m->from_source = model_arena_array(&m->arena, choices, sizeof *m->from_source);
    m->to_sink = model_arena_array(&m->arena, choices, sizeof *m->to_sink);
    m->last = model_arena_array(&m->arena, m->n_values, sizeof *m->last);
    m->rank = model_arena_array(&m->arena, n, sizeof *m->rank);
    m->worth = model_arena_array(&m->arena, n, sizeof *m->worth);
    m->gradients = model_arena_array(&m->arena, n, sizeof *m->gradients);
    m->lines = model_arena_array(&m->arena, 2 * (size_t)n + 1, sizeof *m->lines);
    if (!m->time || !m->again || !m->last || !m->rank || !m->worth || !m->gradients || !m->lines ||
        !m->out || !m->saved || !m->workspace || !m->running || !m->role || !m->weight ||
        !m->from_source || !m->to_sink || !build_flow(m)) {
        bound_moments_free(m);
        return remat_fail_memory(error);
    }
    for (uint32_t v = 0; v < n; v++) {
        take_least(m, v);
        m->total += m->time[v];
    }
    for (uint32_t j = 0; j < profile->n_results; j++)
        m->out[n + j] = (double)profile->results[j].bytes;
    m->store_all = remat_store_all_makespan(profile);
    for (uint32_t v = 0; v < n; v++)
        m->gradients[v] = -1;
    if (!rank_moments(m)) {
        bound_moments_free(m);
        return remat_fail_memory(error);
    }
    *ret_moments = m;
    return REMAT_OK;
}

void bound_moments_free(bound_moments *moments)
{
    if (!moments)
        return;
    model_arena_clear(&moments->arena);
    free(moments);
}

/* ---- one moment ---- */

/* Who must run before b, who after. */
static void find_relatives(bound_moments *m, uint32_t b)
{
    const remat_profile *p = m->profile;
    const remat_node *nodes = p->nodes;
    memset(m->role, 0, m->n_values);
    m->role[b] = BOUND_ANCESTOR | BOUND_DESCENDANT; /* both for the walks; taken back by who asks */
    for (uint32_t v = b; v-- > 0;)
        for (uint32_t c = 0; c < nodes[v].n_consumers; c++)
            m->role[v] |= m->role[nodes[v].consumers[c]] & BOUND_ANCESTOR;
    for (uint32_t v = b + 1; v < m->n; v++)
        for (uint32_t i = 0; i < nodes[v].n_inputs; i++)
            if (remat_is_result(p, nodes[v].inputs[i]))
                m->role[v] |= m->role[remat_value_node(p, nodes[v].inputs[i])] & BOUND_DESCENDANT;
}

static void find_roles(bound_moments *m, uint32_t b, bool forward)
{
    const remat_node *nodes = m->profile->nodes;
    find_relatives(m, b);
    m->role[b] = BOUND_DESCENDANT; /* its backward is not to come any more */
    for (uint32_t v = 0; v < m->n; v++) {
        bool after = m->role[v] & BOUND_ANCESTOR;
        if (!after && v != b)
            continue;
        uint8_t mark = after ? BOUND_NEEDED : BOUND_READ;
        m->role[v] |= nodes[v].once && (after || !forward) ? BOUND_DONE : 0;
        bool reads = nodes[v].backward_uses_inputs || (v == b && forward);
        if (nodes[v].backward_uses_output && !(v == b && forward))
            m->role[v] |= mark;
        for (uint32_t i = 0; reads && i < nodes[v].n_inputs; i++)
            if (nodes[v].inputs[i] < m->n)
                m->role[nodes[v].inputs[i]] |= mark;
    }
}

/* Of a joint graph, during the first F of b. */
static void find_joint_roles(bound_moments *m, uint32_t b)
{
    const remat_profile *p = m->profile;
    const remat_node *node = &p->nodes[b];
    find_relatives(m, b);
    for (uint32_t v = 0; v < m->n; v++) {
        m->again[v] = m->role[v] & BOUND_ANCESTOR ? m->time[v] : 0;
        m->role[v] |= p->nodes[v].once && (m->role[v] & BOUND_ANCESTOR) ? BOUND_DONE : 0;
        if (v != b && (m->role[v] & BOUND_DESCENDANT))
            m->role[v] |= BOUND_RUNS;
        m->role[v] &= (uint8_t)~BOUND_ANCESTOR; /* nothing is saved for anybody */
    }
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (remat_is_result(p, node->inputs[i]))
            m->role[value_here(m, node->inputs[i])] |= BOUND_READ;
    for (uint32_t k = 0; k < node->n_outputs; k++)
        m->role[result_here(m, b, k)] |= BOUND_READ;
    for (uint32_t i = 0; i < p->n_outputs; i++)
        if (remat_is_result(p, p->outputs[i]))
            m->role[value_here(m, p->outputs[i])] |= BOUND_NEEDED;
}

/* Bytes of one of two that may lie where the other lies. */
static double shared(const bound_moments *m, uint32_t b, bool gradient)
{
    const remat_node *node = &m->profile->nodes[b];
    if (!node->in_place || node->n_inputs == 0)
        return 0;
    uint32_t input = node->inputs[0];
    if (!gradient)
        return fmin(m->out[b], (double)remat_value_bytes(m->profile, input));
    return fmin((double)node->gradient_bytes, (double)remat_gradient_bytes(m->profile, input));
}

/* The same during the last forward of b, which nothing but its inputs and results need be
 * beside. */
static double find_forward_capacity(const bound_moments *m, uint32_t b, double budget)
{
    return budget - (double)m->profile->input_bytes - m->running[b] - m->saved[b] - m->out[b] +
           shared(m, b, false);
}

/* Of a joint graph: the budget less the inputs and the workspace. What b makes counts as held. */
static double find_joint_capacity(const bound_moments *m, uint32_t b, double budget)
{
    const remat_profile *p = m->profile;
    const remat_node *node = &p->nodes[b];
    double left = budget - (double)(p->input_bytes - p->late_bytes) - m->workspace[b];
    if (node->in_place && node->n_inputs > 0 && remat_is_result(p, node->inputs[0]))
        left += fmin((double)node->output_bytes, (double)remat_value_bytes(p, node->inputs[0]));
    return left;
}

/* Bytes for what is held: the budget less what is there during B b in every order. */
static double find_capacity(bound_moments *m, uint32_t b, double budget)
{
    const remat_profile *p = m->profile;
    const remat_node *node = &p->nodes[b];
    double left = budget - (double)p->input_bytes - m->workspace[b] - m->saved[b] -
                  (double)node->gradient_bytes - bound_gradients(m, b);
    return left + shared(m, b, true);
}

/* Weights of the closure at a price; times: whether time counts, or bytes alone. */
static void weigh(bound_moments *m, double price, bool times)
{
    m->constant = 0;
    for (uint32_t v = 0; v < m->n; v++) {
        double saved = m->role[v] & BOUND_ANCESTOR ? price * m->saved[v] : 0;
        double again = times ? m->again[v] : 0;
        m->constant += saved;
        for (uint32_t k = 0; k < m->profile->nodes[v].n_outputs; k++) {
            uint32_t value = result_here(m, v, k);
            bool read = m->role[value] & BOUND_READ;
            double out = price * m->out[value];
            m->constant += read ? out : 0;
            m->weight[value] = read ? 0 : out;
            again -= read ? 0 : out;
        }
        m->weight[m->n_values + v] = again - saved;
    }
}

/* The least cost at the weights, from below, and in *ret_held the bytes that the cut holds. */
static double cut(bound_moments *m, double *ret_time, double *ret_held)
{
    bound_flow *f = &m->flow;
    double sum = m->constant, size = fabs(m->constant);
    for (uint32_t a = 0; a < f->n_arcs; a++)
        f->arcs[a].left = 0;
    for (uint32_t v = 0; v < m->n; v++)
        for (uint32_t a = f->first[m->n_values + v]; a < f->first[m->n_values + v + 1]; a++)
            if (f->arcs[a].to < m->n_values)
                f->arcs[a].left = INFINITY;
    for (uint32_t y = 0; y < m->n_values + m->n; y++) {
        double w = m->weight[y];
        const bool forced = y < m->n_values ? m->role[y] & (BOUND_NEEDED | BOUND_READ)
                                            : m->role[y - m->n_values] & BOUND_RUNS;
        if (y >= m->n_values && (m->role[y - m->n_values] & BOUND_DONE))
            continue; /* no arc leads there: it is 0 */
        size += fabs(w);
        sum += forced ? w : fmin(w, 0);
        if (forced)
            f->arcs[m->from_source[y]].left = INFINITY;
        else if (w < 0)
            f->arcs[m->from_source[y]].left = -w;
        else
            f->arcs[m->to_sink[y]].left = w;
    }
    sum += bound_flow_run(f, 1e-14 * size);
    *ret_time = *ret_held = 0;
    for (uint32_t v = 0; v < m->n; v++) {
        bool again = f->level[m->n_values + v] != UNREACHED;
        *ret_time += again ? m->again[v] : 0;
        for (uint32_t k = 0; k < m->profile->nodes[v].n_outputs; k++) {
            uint32_t value = result_here(m, v, k);
            bool there = f->level[value] != UNREACHED || again;
            *ret_held += (m->role[value] & BOUND_READ) || (there && !again) ? m->out[value] : 0;
        }
        *ret_held += (m->role[v] & BOUND_ANCESTOR) && !again ? m->saved[v] : 0;
    }
    return sum - BOUND_MARGIN * size;
}

/* The moment's cut at a price, as it was found once. */
static const bound_line *line_at(bound_moments *m, double price)
{
    bound_lines **lines = &m->lines[m->moment];
    if (!*lines)
        *lines = model_arena_array(&m->arena, 1, sizeof **lines);
    for (uint32_t i = 0; *lines && i < (*lines)->n; i++)
        if ((*lines)->at[i].price == price)
            return &(*lines)->at[i];
    const bool keeps = *lines && (*lines)->n < BOUND_MOST_LINES;
    bound_line *line = keeps ? &(*lines)->at[(*lines)->n++] : &m->passing;
    weigh(m, price < INFINITY ? price : 1, price < INFINITY);
    line->price = price;
    line->least = cut(m, &line->time, &line->held);
    return line;
}

static tangent tangent_of(const bound_moments *m, const bound_line *line)
{
    const double price = line->price, paid = price * m->capacity;
    return (tangent){.base = line->time,
                     .slope = line->held - m->capacity,
                     .held = line->held,
                     .value = line->least - paid - BOUND_MARGIN * fabs(paid)};
}

static tangent solve_at(bound_moments *m, double price)
{
    return tangent_of(m, line_at(m, price));
}

void bound_cut_at(bound_moments *m, double price)
{
    double time, held;
    weigh(m, price, true);
    (void)cut(m, &time, &held);
}

double bound_passing(bound_moments *m)
{
    return fmax(0, solve_at(m, 0).slope);
}

/* Of what was found of the moment, the two closest to its capacity, one of each side. */
static void find_closest(bound_moments *m, tangent *low, tangent *high)
{
    const bound_lines *lines = m->lines[m->moment];
    for (uint32_t i = 0; lines && i < lines->n; i++) {
        const tangent one = tangent_of(m, &lines->at[i]);
        if (one.slope > 0 && one.slope < low->slope)
            *low = one;
        if (one.slope < 0 && one.slope > high->slope)
            *high = one;
    }
}

double bound_best_price(bound_moments *m, double *ret_price)
{
    double best = 0;
    const bound_line *least = line_at(m, INFINITY);
    if (least->least > m->capacity)
        return INFINITY; /* even with everything run later that can be */
    /* the line of the least bytes: everything that lowers what is held is run later */
    tangent high = tangent_of(m, least), low = solve_at(m, 0);
    if (low.slope <= 0)
        return 0;
    find_closest(m, &low, &high);
    for (int i = 0; i < TANGENTS && low.slope > 0 && high.slope < 0; i++) {
        const double price = (high.base - low.base) / (low.held - high.held);
        if (!(price > 0))
            break;
        tangent here = solve_at(m, price);
        if (here.value > best) {
            best = here.value;
            *ret_price = price;
        }
        double meet = low.base + low.slope * price;
        if (here.value >= meet * (1 - 1e-7))
            break;
        if (here.slope > 0)
            low = here;
        else
            high = here;
    }
    return best;
}

void bound_look_at(bound_moments *m, uint32_t b, bool forward, uint64_t budget)
{
    m->moment = 2 * b + forward;
    if (m->profile->joint) {
        find_joint_roles(m, b);
        m->capacity = find_joint_capacity(m, b, (double)budget);
        return;
    }
    find_roles(m, b, forward);
    m->capacity =
        forward ? find_forward_capacity(m, b, (double)budget) : find_capacity(m, b, (double)budget);
}

/* ---- the most promising moments ---- */

typedef struct candidate {
    double value;
    uint32_t node;
    bool forward;
} candidate;

static int by_value(const void *left, const void *right)
{
    const candidate *a = left, *b = right;
    if (a->value != b->value)
        return a->value > b->value ? -1 : 1;
    if (a->node != b->node)
        return a->node < b->node ? -1 : 1;
    return a->forward - b->forward;
}

/* Of too many, half are those when most is alive and half are spread over all of them. */
static bool is_looked_at(const bound_moments *m, uint32_t node, uint32_t kinds, uint32_t most)
{
    const uint32_t half = most / kinds / 2 + 1;
    return m->n <= 2 * half || m->rank[node] < half ||
           (m->n - 1 - node) % ((m->n + half - 1) / half) == 0;
}

/* Of a joint graph, bytes during its last run: of what it returns all is there but what that run
 * makes. The least over what can be last, which *ret_node is. */
static double find_end(bound_moments *m, uint32_t *ret_node)
{
    const remat_profile *p = m->profile;
    double returned = 0, least = INFINITY;
    memset(m->role, 0, m->n_values);
    for (uint32_t i = 0; i < p->n_outputs; i++)
        if (remat_is_result(p, p->outputs[i]) && !m->role[value_here(m, p->outputs[i])]) {
            m->role[value_here(m, p->outputs[i])] = BOUND_NEEDED;
            returned += m->out[value_here(m, p->outputs[i])];
        }
    for (uint32_t v = 0; v < m->n; v++) {
        const remat_node *node = &p->nodes[v];
        double bytes = returned + m->workspace[v] - shared(m, v, false);
        for (uint32_t k = 0; k < node->n_outputs; k++)
            if (!m->role[result_here(m, v, k)])
                bytes += m->out[result_here(m, v, k)];
        for (uint32_t i = 0; i < node->n_inputs; i++) /* one given twice is counted once */
            if (remat_is_result(p, node->inputs[i]) && !m->role[value_here(m, node->inputs[i])]) {
                m->role[value_here(m, node->inputs[i])] = BOUND_READ;
                bytes += m->out[value_here(m, node->inputs[i])];
            }
        for (uint32_t i = 0; i < node->n_inputs; i++)
            if (remat_is_result(p, node->inputs[i]))
                m->role[value_here(m, node->inputs[i])] &= (uint8_t)~BOUND_READ;
        if (bytes < least)
            *ret_node = v;
        least = fmin(least, bytes);
    }
    return (double)p->input_bytes + least;
}

/* Where the bound is nearly the same for many runs, as from the loss on, the first of them: those
 * behind it run nothing again. */
static void find_turn(bound_moments *m)
{
    double most = 0;
    m->turn = m->first;
    for (uint32_t v = 0; v < m->n; v++)
        most = fmax(most, m->worth[v]);
    for (uint32_t v = 0; v < m->n && m->turn == m->first; v++)
        if (most > 0 && m->worth[v] >= NEARLY_ALL * most)
            m->turn = v;
}

/* Moments are counted: that of B b is 2 b and that of its last forward 2 b + 1; of a joint graph
 * b. */
double bound_moments_makespan(bound_moments *m, uint64_t budget, uint32_t most)
{
    candidate best[REFINED + 1];
    uint32_t n_best = 0, kinds = m->profile->joint ? 1 : 2, all = kinds * m->n, end;
    double price = 0, ignored;
    if (m->profile->joint && find_end(m, &end) > (double)budget)
        return INFINITY;
    bound_look_at(m, m->first, false, budget);
    double bound = bound_best_price(m, &price);
    for (uint32_t v = 0; v < m->n; v++)
        m->worth[v] = v == m->first ? bound : -INFINITY;
    for (uint32_t i = 0; i < all && bound < INFINITY; i++) {
        candidate here = {.node = i / kinds, .forward = i % kinds};
        if (!is_looked_at(m, here.node, kinds, most) || i == kinds * m->first)
            continue;
        bound_look_at(m, here.node, here.forward, budget);
        here.value = price > 0 ? solve_at(m, price).value : bound_best_price(m, &ignored);
        if (!here.forward)
            m->worth[here.node] = here.value;
        best[n_best++] = here;
        qsort(best, n_best, sizeof *best, by_value);
        n_best = n_best > REFINED ? REFINED : n_best;
    }
    for (uint32_t i = 0; i < n_best && bound < INFINITY; i++) {
        bound_look_at(m, best[i].node, best[i].forward, budget);
        const double here = bound_best_price(m, &ignored);
        bound = fmax(bound, here);
        if (!best[i].forward)
            m->worth[best[i].node] = here;
    }
    find_turn(m);
    if (kinds == 2 && m->profile->kind == REMAT_CHAIN && m->n <= BOUND_MOST_STAGES &&
        bound < INFINITY)
        bound = fmax(bound, bound_chain(m, budget, most));
    return m->store_all + bound;
}

/* Right after the first forward of the last node: nothing of what is there works. */
static void look_at_turn(bound_moments *m, double budget)
{
    const remat_node *nodes = m->profile->nodes;
    m->moment = 2 * m->n;
    memset(m->role, 0, m->n_values);
    for (uint32_t v = 0; v < m->n; v++) {
        m->role[v] |= BOUND_ANCESTOR;
        if (nodes[v].backward_uses_output)
            m->role[v] |= BOUND_NEEDED;
        for (uint32_t i = 0; nodes[v].backward_uses_inputs && i < nodes[v].n_inputs; i++)
            if (nodes[v].inputs[i] < m->n)
                m->role[nodes[v].inputs[i]] |= BOUND_NEEDED;
    }
    m->capacity = budget - (double)m->profile->input_bytes;
}

uint32_t bound_moments_turn(const bound_moments *m)
{
    return m->profile->joint ? m->turn : m->n - 1;
}

/* Of a joint graph, in the order of the profile: unlike for a bound, all that stands before the
 * turn has run, and all that stands behind it runs for the first time. */
static void look_at_joint_turn(bound_moments *m)
{
    find_joint_roles(m, m->turn);
    for (uint32_t v = 0; v < m->n; v++) {
        m->again[v] = v < m->turn ? m->time[v] : 0;
        m->role[v] &= (uint8_t) ~(BOUND_RUNS | BOUND_DONE);
        m->role[v] |= v > m->turn ? BOUND_RUNS : 0;
    }
    m->role[m->turn] |= BOUND_DONE;
}

double bound_moments_again(bound_moments *m, double price, const bool *stays, bool *ret_again,
                           double *ret_held)
{
    const uint32_t n = m->profile->joint ? m->turn : m->n; /* others run for the first time */
    double time = 0;
    if (m->profile->joint)
        look_at_joint_turn(m);
    else
        look_at_turn(m, 0);
    for (uint32_t v = 0; v < n; v++)
        m->role[v] |= stays[v] || m->profile->nodes[v].once ? BOUND_DONE : 0;
    weigh(m, price < INFINITY ? price : 1, price < INFINITY);
    (void)cut(m, &time, ret_held);
    for (uint32_t v = 0; v < m->n; v++)
        ret_again[v] = v < n && m->flow.level[m->n_values + v] != UNREACHED;
    return time;
}

uint64_t bound_moments_others(bound_moments *m, uint32_t in_flight)
{
    double time, held;
    if (in_flight <= 1 || m->profile->joint)
        return 0;
    look_at_turn(m, 0);
    weigh(m, 1, false);
    const double least = floor(cut(m, &time, &held)) + (double)m->profile->input_bytes;
    return (uint64_t)(fmax(least, 0) * (in_flight - 1));
}

double bound_moments_in_flight(bound_moments *m, uint64_t budget, uint32_t in_flight, uint32_t most)
{
    double ignored;
    const uint64_t others = bound_moments_others(m, in_flight);
    if (in_flight <= 1 || m->profile->joint)
        return bound_moments_makespan(m, budget, most);
    if (others > budget)
        return INFINITY;
    look_at_turn(m, floor((double)budget / in_flight));
    const double turn = bound_best_price(m, &ignored);
    if (turn == INFINITY)
        return INFINITY;
    return fmax(m->store_all + turn, bound_moments_makespan(m, budget - others, most));
}

double bound_moments_least_budget(bound_moments *m, uint32_t most, bound_moment *ret_moment)
{
    const uint32_t kinds = m->profile->joint ? 1 : 2, all = kinds * m->n;
    double least = 0, time, held;
    bound_moment best = {.forward = m->profile->joint};
    for (uint32_t i = 0; i < all; i++) {
        if (!is_looked_at(m, i / kinds, kinds, most))
            continue;
        bound_look_at(m, i / kinds, i % kinds, 0);
        weigh(m, 1, false);
        double bytes = cut(m, &time, &held) - m->capacity;
        if (bytes > least) {
            least = bytes;
            best = (bound_moment){.node = i / kinds, .forward = i % kinds || m->profile->joint};
        }
    }
    uint32_t node = 0;
    const double end = m->profile->joint ? find_end(m, &node) : 0;
    if (end > least)
        best = (bound_moment){.node = node, .forward = true, .last = true};
    if (ret_moment)
        *ret_moment = best;
    return fmax(least, end);
}
