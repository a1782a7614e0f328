/* What a step takes beside its activations: weights, gradients, optimizer states and what goes with
 * them, on one of several ranks. */
#include "plan/build.h"
#include "plan/names.h"

#include <math.h>
#include <stdlib.h>

static const char *const optimizers[REMAT_OPTIMIZERS] = {"sgd",   "momentum",  "adam",
                                                         "adamw", "adafactor", "adam8bit"};
static const char *const bases[REMAT_BASES] = {"trained", "frozen", "nf4", "nf4-double"};
/* Of each of its matrices Transformer Engine keeps the largest of so many steps, of three tensors
 * forward and two back, in float32 (recipe.DelayedScaling, amax_history_len). */
static const double FLOAT8_HISTORY = 4 * 1024 * 5;
static const char *const parallels[REMAT_PARALLELS] = {"none", "ddp", "zero1", "zero2", "zero3"};

const char *remat_optimizer_name(remat_optimizer optimizer)
{
    return optimizers[optimizer];
}

const char *remat_parallel_name(remat_parallel parallel)
{
    return parallels[parallel];
}

remat_status remat_optimizer_find(const char *name, remat_optimizer *ret_optimizer,
                                  remat_error *error)
{
    const int found = plan_find_name(name, "optimizer", optimizers, REMAT_OPTIMIZERS, error);
    if (found >= 0)
        *ret_optimizer = (remat_optimizer)found;
    return found >= 0 ? REMAT_OK : REMAT_INVALID;
}

remat_status remat_parallel_find(const char *name, remat_parallel *ret_parallel, remat_error *error)
{
    const char *known = strcmp(name, "fsdp") == 0 ? parallels[REMAT_ZERO3] : name;
    const int found = plan_find_name(known, "parallel", parallels, REMAT_PARALLELS, error);
    if (found >= 0)
        *ret_parallel = (remat_parallel)found;
    return found >= 0 ? REMAT_OK : REMAT_INVALID;
}

const char *remat_base_name(remat_base base)
{
    return bases[base];
}

remat_status remat_base_find(const char *name, remat_base *ret_base, remat_error *error)
{
    enum { FIRST = REMAT_FROZEN };
    const int found = plan_find_name(name, "lora.base", bases + FIRST, REMAT_BASES - FIRST, error);
    if (found >= 0)
        *ret_base = (remat_base)(found + FIRST);
    return found >= 0 ? REMAT_OK : REMAT_INVALID;
}

/* ---- one tensor ---- */

double plan_base_bytes(remat_base base, double count, double element)
{
    enum { BLOCK = 64, BLOCKS = 256 }; /* bitsandbytes 0.44, functional.py: quantize_4bit */
    const double blocks = ceil(count / BLOCK);
    switch (base) {
    case REMAT_TRAINED:
    case REMAT_FROZEN:
    case REMAT_BASES:
        break;
    case REMAT_NF4:
        return ceil(count / 2) + 4 * blocks;
    case REMAT_NF4_DOUBLE:
        return ceil(count / 2) + blocks + 4 * ceil(blocks / BLOCKS);
    }
    return element * count;
}

/* Bytes of the states of so many numbers that lie as rows x columns; number: bytes of one state. */
static double state_bytes(remat_optimizer optimizer, double rows, double columns, double number)
{
    enum { BLOCK = 256, SMALLEST = 4096 }; /* of 8-bit states, in numbers: bitsandbytes 0.44 */
    const double count = rows * columns;
    switch (optimizer) {
    case REMAT_SGD:
    case REMAT_OPTIMIZERS:
        break;
    case REMAT_MOMENTUM:
        return count * number;
    case REMAT_ADAM:
    case REMAT_ADAMW:
        return 2 * count * number;
    case REMAT_ADAFACTOR:
        return (rows > 1 && columns > 1 ? rows + columns : count) * number;
    case REMAT_ADAM8BIT:
        if (count < SMALLEST)
            return 2 * count * 4;
        return 2 * (count + 4 * (double)(((uint64_t)count + BLOCK - 1) / BLOCK));
    }
    return 0;
}

/* What the caching allocator takes for tensors of these sizes (PyTorch, c10/cuda
 * CUDACachingAllocator): whole blocks of 512 bytes, out of segments of 2 MiB up to 1 MiB, of 20 MiB
 * below 10 MiB, else of its own in steps of 2 MiB. */
typedef struct segments {
    double small, medium, large, asked;
} segments;

static double up_to(double bytes, double step)
{
    return (double)(((uint64_t)bytes + (uint64_t)step - 1) / (uint64_t)step * (uint64_t)step);
}

static void take(segments *s, double bytes)
{
    const double mebibyte = 1 << 20, rounded = up_to(bytes, 512);
    s->asked += bytes;
    if (rounded <= mebibyte)
        s->small += rounded;
    else if (rounded < 10 * mebibyte)
        s->medium += rounded;
    else
        s->large += up_to(rounded, 2 * mebibyte);
}

static double rounding_of(const segments *s)
{
    const double mebibyte = 1 << 20;
    return up_to(s->small, 2 * mebibyte) + up_to(s->medium, 20 * mebibyte) + s->large - s->asked;
}

/* ---- the sums ---- */

typedef struct sums {
    const remat_step_settings *settings;
    double weight, state; /* bytes of a number */
    bool master;
    double weights, masters, gradients, states, float8;
    double summed, gathered; /* of several stages: gradients and weights that are whole */
    double trained, made;    /* of the weights, and all their gradients */
    double unit, largest;    /* bytes of the unit at hand, .. */
    double unit_gradient, largest_gradient; /* .. and of its gradient */
    segments segments;
} sums;

static double share(double count, bool sharded, uint32_t ranks)
{
    return sharded ? up_to(count, ranks) / ranks : count;
}

/* Bytes of a number of the weights as they are held. Those in 8 bits lie by rows and by columns,
 * the latter where they are whole. */
static double weight_of(const sums *s, const remat_tensor *tensor)
{
    const bool narrow = tensor->float8 && s->settings->float8 == REMAT_FLOAT8_TE_WEIGHTS;
    return !narrow ? s->weight : s->settings->parallel >= REMAT_ZERO3 ? 1 : 2;
}

/* Experts are of fewer ranks: those that have the same ones. */
static void add_tensor(sums *s, const remat_tensor *tensor)
{
    const remat_step_settings *set = s->settings;
    const double rows = (double)tensor->rows, columns = (double)tensor->columns;
    const double count = rows * columns;
    const bool trained = tensor->base == REMAT_TRAINED;
    const uint32_t others = tensor->parts > 1 ? tensor->parts : 1;
    const uint32_t ranks = set->ranks > others ? set->ranks / others : 1;
    const double weights = plan_base_bytes(
        tensor->base, share(count, set->parallel >= REMAT_ZERO3, ranks), weight_of(s, tensor));
    const double learnt = trained ? count : 0;
    const double gradients = s->weight * share(learnt, set->parallel >= REMAT_ZERO2, ranks);
    const bool sharded = set->parallel >= REMAT_ZERO1;
    const double own = share(learnt, sharded, ranks);
    const double masters = s->master ? 4 * own : 0;
    /* A factored second moment is kept whole: its rows and columns are no shard's. */
    const bool whole = !sharded || set->optimizer == REMAT_ADAFACTOR || set->ranks == 1;
    const double states = !trained ? 0
                          : whole  ? state_bytes(set->optimizer, rows, columns, s->state)
                                   : state_bytes(set->optimizer, 1, own, s->state);
    s->weights += weights;
    s->trained += trained ? weights : 0;
    s->made += gradients;
    s->gradients = set->in_backward ? fmax(s->gradients, gradients) : s->made;
    if (set->stages > 1 && set->parallel >= REMAT_ZERO2)
        s->summed += (set->parallel == REMAT_ZERO3 && s->master ? 4 : s->weight) * learnt;
    s->masters += masters;
    s->states += states;
    if (tensor->float8 && set->float8 >= REMAT_FLOAT8_TE)
        s->float8 += FLOAT8_HISTORY + (set->float8 == REMAT_FLOAT8_TE ? 2 * count : 0);
    take(&s->segments, weights);
    if (!set->in_backward)
        take(&s->segments, gradients);
    take(&s->segments, masters);
    /* Adam's moments are two tensors. */
    const unsigned parts =
        set->optimizer >= REMAT_ADAM && set->optimizer != REMAT_ADAFACTOR ? 2 : 1;
    for (unsigned i = 0; i < parts; i++)
        take(&s->segments, states / parts);
}

uint64_t remat_step_ranks(const remat_step_settings *s)
{
    return (uint64_t)s->ranks * (s->replicas > 1 ? s->replicas : 1) *
           (s->model_ranks > 1 ? s->model_ranks : 1) * (s->stages > 1 ? s->stages : 1);
}

double remat_step_gradient(const remat_step_settings *s)
{
    const double number = s->autocast ? 4 : (double)remat_precision_bytes(s->precision);
    if (!s->in_graph || s->keep_gradients || s->in_backward)
        return 0;
    return s->parallel >= REMAT_ZERO2 ? number / s->ranks : number;
}

static remat_status check_settings(const remat_step_settings *s, const remat_device *device,
                                   remat_error *error)
{
    if (s->ranks < 1 || s->ranks > 1u << 20)
        return remat_fail(error, REMAT_INVALID, "parallel.ranks",
                          "parallel.ranks is %u; it must be from 1 to 1048576", s->ranks);
    if (remat_step_ranks(s) > 1u << 20)
        return remat_fail(error, REMAT_INVALID, "parallel.ranks",
                          "%llu ranks in all; there may be 1048576",
                          (unsigned long long)remat_step_ranks(s));
    if (s->ranks > 1 && s->parallel == REMAT_SINGLE)
        return remat_fail(error, REMAT_INVALID, "parallel.kind",
                          "%u ranks need a way to share the work: parallel.kind ddp, zero1, zero2 "
                          "or zero3",
                          s->ranks);
    if (s->autocast && (s->no_master || remat_precision_bytes(s->precision) == 4))
        return remat_fail(error, REMAT_INVALID, "autocast",
                          "autocast is to 16 bits, of weights that stay in float32");
    if (s->no_master && remat_precision_bytes(s->precision) == 4)
        return remat_fail(error, REMAT_INVALID, "master_weights",
                          "%s has no master weights that could be left out",
                          remat_precision_name(s->precision));
    if (s->float8 && (s->autocast || s->precision != REMAT_BFLOAT16))
        return remat_fail(
            error, REMAT_INVALID, "fp8",
            "fp8 is of products whose other numbers are in bfloat16, without autocast");
    if (s->float8 == REMAT_FLOAT8_TORCHAO_GATHER && s->parallel != REMAT_ZERO3)
        return remat_fail(
            error, REMAT_INVALID, "fp8",
            "torchao-gather is of weights that zero3 (fsdp) gathers; without it there "
            "is torchao");
    if (s->float8 == REMAT_FLOAT8_TE_WEIGHTS && s->no_master)
        return remat_fail(error, REMAT_INVALID, "fp8",
                          "te-weights: what is trained are the master weights, which are left out");
    if (s->in_backward && s->parallel != REMAT_SINGLE && s->parallel != REMAT_ZERO3)
        return remat_fail(error, REMAT_INVALID, "optimizer_in_backward",
                          "%s sums gradients that are kept until then: optimizer_in_backward is of "
                          "one rank, or of zero3",
                          remat_parallel_name(s->parallel));
    remat_status status = remat_device_computes(device, s->precision, error);
    return status || !s->float8 ? status : remat_device_computes(device, REMAT_FLOAT8, error);
}

/* Buckets and gathered units, which the steps of training take and give back. */
static void add_communication(const sums *s, remat_step_table *t)
{
    const remat_step_settings *set = s->settings;
    if (set->ranks == 1)
        return;
    if (set->parallel == REMAT_DDP || set->parallel == REMAT_ZERO1)
        t->buckets = set->bucket_view ? 0 : t->gradients;
    else if (set->parallel >= REMAT_ZERO2)
        t->buckets = (uint64_t)s->largest_gradient;
    if (set->parallel >= REMAT_ZERO3)
        t->gathered = set->stages > 1 ? (uint64_t)s->gathered
                                      : (uint64_t)s->largest * (set->no_prefetch ? 1 : 2);
}

/* Blocks are units; what lies before the first and after the last is of one unit, as FSDP's root
 * keeps it. */
static void add_unit(sums *s, const remat_tensor *tensors, size_t n, size_t i)
{
    const double count = (double)tensors[i].rows * (double)tensors[i].columns;
    const bool narrow = tensors[i].float8 && s->settings->float8 == REMAT_FLOAT8_TORCHAO_GATHER;
    const double bytes = plan_base_bytes(tensors[i].base, count, narrow ? 1 : s->weight);
    s->unit += bytes;
    s->gathered += bytes;
    s->unit_gradient += tensors[i].base == REMAT_TRAINED ? s->weight * count : 0;
    s->largest = fmax(s->largest, s->unit);
    s->largest_gradient = fmax(s->largest_gradient, s->unit_gradient);
    if (i + 1 < n && tensors[i + 1].unit != tensors[i].unit)
        s->unit = s->unit_gradient = 0;
}

remat_status remat_step_bytes(const remat_tensor *tensors, size_t n_tensors,
                              const remat_step_settings *settings, const remat_device *device,
                              remat_step_table *ret_table, remat_error *error)
{
    remat_status status = check_settings(settings, device, error);
    if (status)
        return status;
    sums s = {.settings = settings, .weight = (double)remat_precision_bytes(settings->precision)};
    if (settings->autocast)
        s.weight = 4;
    s.master = s.weight < 4 && !settings->no_master;
    s.state = settings->no_master ? s.weight : 4;
    for (size_t i = 0; i < n_tensors; i++) {
        add_tensor(&s, &tensors[i]);
        add_unit(&s, tensors, n_tensors, i);
    }
    if (settings->in_backward)
        take(&s.segments, s.gradients);
    const double total =
        4 * s.weights + s.masters + 3 * s.made + s.states + s.float8 + s.summed + s.gathered;
    if (!(total < (double)REMAT_MAX_BYTES))
        return remat_fail(error, REMAT_TOO_LARGE, "model",
                          "weights, gradients and states are past 2^53 bytes");
    remat_step_table t = {.weights = (uint64_t)s.weights,
                          .master_weights = (uint64_t)s.masters,
                          .gradients = (uint64_t)(s.gradients + s.summed),
                          .summed = (uint64_t)s.summed,
                          .states = (uint64_t)s.states,
                          .float8 = (uint64_t)s.float8,
                          .context = device->context,
                          .communicator = remat_step_ranks(settings) > 1 ? device->communicator : 0,
                          .rounding = (uint64_t)rounding_of(&s.segments),
                          .workspace = device->workspace,
                          .fragmentation = device->fragmentation[settings->compiled],
                          .handed = device->rounding};
    add_communication(&s, &t);
    if (settings->autocast)
        t.cached = t.weights / 2;
    t.allocated = t.weights + t.master_weights + t.states + t.buckets + t.gathered + t.workspace +
                  t.float8 + (settings->in_graph ? 0 : t.cached) +
                  (remat_step_gradient(settings) > 0 ? 0 : t.gradients);
    /* Gradients are read, everything else is read and written. */
    t.update_traffic = 2 * ((uint64_t)s.trained + t.master_weights + t.states) + (uint64_t)s.made;
    *ret_table = t;
    return REMAT_OK;
}

/* ---- the three numbers ---- */

remat_memory remat_step_memory(const remat_step_table *t, uint64_t activations)
{
    const uint64_t asked = t->allocated + activations;
    const uint64_t gaps = (uint64_t)ceil((double)asked * t->fragmentation);
    remat_memory m = {.allocated = asked + (uint64_t)ceil((double)asked * t->handed)};
    /* There are logits of 2 bytes, and of 4, their softmax and its gradient; or less than a step.
     */
    const uint64_t sixth = activations / 6;
    const uint64_t least = t->rounding + (t->hole < sixth ? t->hole : sixth);
    m.reserved = asked + (gaps > least ? gaps : least);
    m.reserved = m.reserved > m.allocated ? m.reserved : m.allocated;
    m.driver = m.reserved + t->context + t->communicator;
    return m;
}

uint64_t remat_step_room(const remat_step_table *t, uint64_t memory)
{
    const uint64_t least = remat_step_memory(t, 0).driver;
    if (least >= memory)
        return 0;
    uint64_t low = 0, high = memory - least;
    while (low < high) {
        const uint64_t middle = high - (high - low) / 2;
        if (remat_step_memory(t, middle).driver <= memory)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}
