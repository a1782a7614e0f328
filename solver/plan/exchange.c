/* What ranks send one another: collectives, and what of those between data-parallel ranks a step is
 * longer for. */
#include "plan/build.h"

#include <math.h>

/* ---- one collective ---- */

static remat_status check_rate(const char *field, double rate, remat_error *error)
{
    if (rate >= 1 && rate <= 1e18)
        return REMAT_OK;
    return remat_fail(error, REMAT_INVALID, field,
                      "%s: %g bytes a second; it must be from 1 to 1e18", field, rate);
}

remat_status remat_interconnect_check(const remat_interconnect *way, remat_error *error)
{
    remat_status status = check_rate("network", way->within, error);
    if (!status)
        status = check_rate("network", way->between, error);
    if (status)
        return status;
    if (!(way->within_latency >= 0 && way->within_latency <= 1) ||
        !(way->between_latency >= 0 && way->between_latency <= 1))
        return remat_fail(error, REMAT_INVALID, "network",
                          "network: latencies of %g and %g s; they must be from 0 to 1",
                          way->within_latency, way->between_latency);
    if (way->node < 1)
        return remat_fail(error, REMAT_INVALID, "node_ranks", "a node has at least one rank");
    return REMAT_OK;
}

/* What leaves the node, over the ranks' own ways out, and what does not are sent at once. */
static double all_to_all(const remat_interconnect *way, double n, double here, double bytes)
{
    const double outside = bytes * (n - here) / n / way->between;
    const double inside = bytes * (here - 1) / n / way->within;
    return outside > inside ? outside : inside;
}

double remat_collective_seconds(const remat_interconnect *way, remat_collective kind,
                                uint32_t ranks, uint32_t stride, double bytes)
{
    const double n = ranks, spread = n * stride;
    if (ranks <= 1)
        return 0;
    const bool inside = spread <= way->node;
    const double here = inside ? n : fmax(1, floor((double)way->node / stride)); /* of a node */
    const double nodes = inside ? 1 : ceil(n / here);
    const double latency = way->within_latency + way->between_latency * ceil(log2(nodes));
    if (kind == REMAT_ALL_TO_ALL)
        return latency + all_to_all(way, n, here, bytes);
    const double ring = inside ? way->within : fmin(way->within, way->between * here);
    return latency + (kind == REMAT_ALL_REDUCE ? 2 : 1) * (n - 1) / n * bytes / ring;
}

/* ---- a step ---- */

void remat_unit_load_add(remat_unit_load *load, const remat_tensor *t)
{
    const double count = (double)t->rows * (double)t->columns;
    if (t->base >= REMAT_NF4)
        load->packed += plan_base_bytes(t->base, count, 0);
    else
        load->parameters += count;
    load->frozen += t->base == REMAT_FROZEN ? count : 0;
    load->float8 += t->float8 ? count : 0;
}

void remat_unit_loads(const remat_network_graph *graph, remat_unit_load *loads)
{
    for (uint32_t u = 0; u < graph->n_units; u++)
        loads[u] = (remat_unit_load){.parameters = 0};
    for (size_t v = 0; v < graph->spec.n_nodes; v++) {
        loads[graph->unit[v]].forward += 1e-6 * graph->spec.nodes[v].forward_time.value;
        loads[graph->unit[v]].backward += 1e-6 * graph->spec.nodes[v].backward_time.value;
    }
    for (size_t i = 0; i < graph->n_tensors; i++)
        remat_unit_load_add(&loads[graph->tensors[i].unit], &graph->tensors[i]);
}

/* The two streams: until when each is busy. */
typedef struct streams {
    const remat_step_settings *settings;
    const remat_interconnect *way;
    double weight, gradient; /* bytes of a number as they are sent */
    double narrow;           /* bytes that one in 8 bits has less */
    double compute, sending, sent;
} streams;

/* Not before `ready`, and after all that was sent before. Returns when it is there. */
static double send(streams *s, double ready, double seconds)
{
    s->sending = fmax(s->sending, ready) + seconds;
    s->sent += seconds;
    return s->sending;
}

static double shared(const streams *s, remat_collective kind, double bytes)
{
    const uint32_t stride = s->settings->model_ranks > 1 ? s->settings->model_ranks : 1;
    return remat_collective_seconds(s->way, kind, s->settings->ranks, stride, bytes);
}

static double gather(const streams *s, const remat_unit_load *unit)
{
    const double bytes = s->weight * unit->parameters + unit->packed - s->narrow * unit->float8;
    return bytes > 0 ? shared(s, REMAT_ALL_GATHER, bytes) : 0;
}

/* A unit's gradient, to all or to its shards, and of those to the replicas. */
static double reduce(const streams *s, const remat_unit_load *unit)
{
    const remat_step_settings *set = s->settings;
    const uint32_t stride = set->ranks * (set->model_ranks > 1 ? set->model_ranks : 1);
    const double bytes = s->gradient * (unit->parameters - unit->frozen);
    const bool scatters = set->parallel >= REMAT_ZERO1;
    if (bytes == 0)
        return 0;
    double seconds = shared(s, scatters ? REMAT_REDUCE_SCATTER : REMAT_ALL_REDUCE, bytes);
    if (set->replicas > 1)
        seconds += remat_collective_seconds(s->way, REMAT_ALL_REDUCE, set->replicas, stride,
                                            scatters ? bytes / set->ranks : bytes);
    return seconds;
}

/* Gradients behind compute of earlier units. */
static void play_replicated(streams *s, const remat_unit_load *loads, uint32_t n, double stretch)
{
    double all = 0;
    for (uint32_t u = 0; u < n; u++) {
        s->compute += loads[u].forward;
        all += s->weight * (loads[u].parameters - loads[u].frozen) - s->narrow * loads[u].float8;
    }
    for (uint32_t u = n; u-- > 0;) {
        s->compute += stretch * loads[u].backward;
        send(s, s->compute, reduce(s, &loads[u]));
    }
    if (s->settings->parallel != REMAT_DDP)
        send(s, s->compute, shared(s, REMAT_ALL_GATHER, all));
}

/* Compute of a unit that is there at `there`; the next one is gathered meanwhile. Returns when that
 * is there. */
static double run_unit(streams *s, double there, double seconds, double next)
{
    const double begins = fmax(s->compute, there);
    double ready = 0;
    if (!s->settings->no_prefetch)
        ready = send(s, begins, next);
    s->compute = begins + seconds;
    if (s->settings->no_prefetch)
        ready = send(s, s->compute, next);
    return ready;
}

/* Units 0 and n - 1 are kept once they are gathered, of several stages all. */
static void play_sharded(streams *s, const remat_unit_load *loads, uint32_t n, double stretch)
{
    double there = send(s, 0, gather(s, &loads[0]));
    for (uint32_t u = 0; u < n; u++)
        there = run_unit(s, there, loads[u].forward, u + 1 < n ? gather(s, &loads[u + 1]) : 0);
    there = s->compute;
    for (uint32_t u = n; u-- > 0;) {
        const bool kept = u <= 1 || s->settings->stages > 1;
        there =
            run_unit(s, there, stretch * loads[u].backward, kept ? 0 : gather(s, &loads[u - 1]));
        send(s, s->compute, reduce(s, &loads[u]));
    }
}

remat_exchange remat_step_exchange(const remat_unit_load *loads, uint32_t n_units,
                                   const remat_step_settings *settings,
                                   const remat_interconnect *way, double backward_stretch)
{
    streams s = {.settings = settings, .way = way};
    double alone = 0;
    const double number =
        settings->autocast ? 4 : (double)remat_precision_bytes(settings->precision);
    const uint32_t replicas = settings->replicas > 1 ? settings->replicas : 1;
    if (settings->parallel == REMAT_SINGLE || settings->ranks * replicas <= 1)
        return (remat_exchange){0, 0};
    s.weight = number;
    if (settings->float8 == REMAT_FLOAT8_TORCHAO_GATHER ||
        settings->float8 == REMAT_FLOAT8_TE_WEIGHTS)
        s.narrow = number - 1;
    s.gradient = settings->parallel == REMAT_ZERO3 && !settings->no_master ? 4 : number;
    for (uint32_t u = 0; u < n_units; u++)
        alone += loads[u].forward + backward_stretch * loads[u].backward;
    (settings->parallel == REMAT_ZERO3 ? play_sharded : play_replicated)(&s, loads, n_units,
                                                                         backward_stretch);
    const double end = fmax(s.compute, s.sending);
    return (remat_exchange){.sent = s.sent, .exposed = fmax(0, end - alone)};
}
