/* Devices: the roofline, and whether its numbers make sense. */
#include "plan/names.h"
#include "remat/plan.h"

#include <math.h>
#include <stdio.h>

static const char *const precisions[REMAT_RATES] = {"float32", "tf32", "bfloat16", "float16",
                                                    "float8"};
static const char *const float8s[REMAT_FLOAT8_KINDS] = {"none", "torchao", "torchao-gather", "te",
                                                        "te-weights"};
static const char *const classes[REMAT_KERNEL_CLASSES] = {
    "matrix",  "convolution", "attention", "normalisation", "pointwise",
    "pooling", "gather",      "copy",      "activation"};

const char *remat_precision_name(remat_precision precision)
{
    return precisions[precision];
}

const char *remat_kernel_class_name(remat_kernel_class kind)
{
    return classes[kind];
}

uint64_t remat_precision_bytes(remat_precision precision)
{
    return precision == REMAT_FLOAT8 ? 1 : precision <= REMAT_TF32 ? 4 : 2;
}

remat_status remat_precision_find(const char *name, remat_precision *ret_precision,
                                  remat_error *error)
{
    const int found = plan_find_name(name, "precision", precisions, REMAT_PRECISIONS, error);
    if (found >= 0)
        *ret_precision = (remat_precision)found;
    return found >= 0 ? REMAT_OK : REMAT_INVALID;
}

const char *remat_float8_name(remat_float8 kind)
{
    return float8s[kind];
}

remat_status remat_float8_find(const char *name, remat_float8 *ret_kind, remat_error *error)
{
    const int found = plan_find_name(name, "fp8", float8s, REMAT_FLOAT8_KINDS, error);
    if (found >= 0)
        *ret_kind = (remat_float8)found;
    return found >= 0 ? REMAT_OK : REMAT_INVALID;
}

/* ---- checking ---- */

static remat_status check_number(double value, double least, bool zero, const char *field,
                                 remat_error *error)
{
    if ((zero && value == 0) || (value >= least && value <= 1e24))
        return REMAT_OK;
    return remat_fail(error, REMAT_INVALID, field, "%s is %g; it must be %sfrom %g to 1e24", field,
                      value, zero ? "0 or " : "", least);
}

/* Time grows with size while efficiency grows no faster than size does. */
static remat_status check_efficiency(const remat_efficiency *e, const char *kind, bool backward,
                                     remat_error *error)
{
    char field[REMAT_FIELD_SIZE];
    if (!(e->peak >= 0 && e->peak <= 1e24))
        return remat_fail(error, REMAT_INVALID, "efficiency",
                          "efficiency.%s.peak is %g; it must be from 0 to 1e24", kind, e->peak);
    if (!(e->tf32 >= 0 && e->tf32 <= 4))
        return remat_fail(error, REMAT_INVALID, "efficiency",
                          "efficiency.%s.tf32 is %g; it must be from 0 to 4", kind, e->tf32);
    for (unsigned i = 0; i < e->n; i++) {
        snprintf(field, sizeof field, "efficiency.%s.%s[%u]", kind,
                 backward ? "backward" : "forward", i);
        if (!(e->size[i] >= 1 && e->size[i] <= 1e24 && e->fraction[i] > 1e-9 &&
              e->fraction[i] <= 4))
            return remat_fail(error, REMAT_INVALID, field,
                              "%s is [%g, %g]; the size must be from 1 to 1e24 and the fraction "
                              "above 1e-9 and at most 4",
                              field, e->size[i], e->fraction[i]);
        if (i > 0 && e->size[i] <= e->size[i - 1])
            return remat_fail(error, REMAT_INVALID, field, "%s: sizes must increase", field);
        if (i > 0 && e->size[i] / e->fraction[i] < e->size[i - 1] / e->fraction[i - 1])
            return remat_fail(error, REMAT_INVALID, field,
                              "%s: a larger kernel would take less time than a smaller one", field);
    }
    return REMAT_OK;
}

remat_status remat_device_check(const remat_device *d, remat_error *error)
{
    remat_status status = check_number(d->bandwidth, 1, false, "bandwidth_bytes_per_second", error);
    if (!status && (d->memory == 0 || d->memory >= REMAT_MAX_BYTES || d->context >= d->memory))
        status = remat_fail(error, REMAT_INVALID, "memory_bytes",
                            "memory_bytes is %llu and context_bytes %llu; memory must be below "
                            "2^53 and more than the context",
                            (unsigned long long)d->memory, (unsigned long long)d->context);
    for (unsigned p = 0; p < REMAT_RATES && !status; p++) {
        char field[REMAT_FIELD_SIZE];
        snprintf(field, sizeof field, "flops_per_second.%s", precisions[p]);
        status = check_number(d->rate[p], 1, p != REMAT_FLOAT32, field, error);
    }
    for (unsigned i = 0; i < 2 && !status; i++)
        if (!(d->fragmentation[i] >= 0 && d->fragmentation[i] <= 1))
            status = remat_fail(error, REMAT_INVALID,
                                i ? "compiled_fragmentation" : "eager_fragmentation",
                                "%s_fragmentation is %g; it must be from 0 to 1",
                                i ? "compiled" : "eager", d->fragmentation[i]);
    if (!status && !(d->rounding >= 0 && d->rounding <= 1))
        status = remat_fail(error, REMAT_INVALID, "allocator_rounding",
                            "allocator_rounding is %g; it must be from 0 to 1", d->rounding);
    if (!status && d->workspace >= d->memory)
        status = remat_fail(error, REMAT_INVALID, "cublas_bytes",
                            "cublas_bytes is %llu; it must be less than the memory",
                            (unsigned long long)d->workspace);
    if (!status)
        status = check_number(d->link, 1, true, "link_bytes_per_second", error);
    if (!status && !(d->launch >= 0 && d->launch <= 1))
        status = remat_fail(error, REMAT_INVALID, "launch_seconds",
                            "launch_seconds is %g; it must be from 0 to 1", d->launch);
    const struct {
        const char *field;
        double value, most;
    } parts[] = {{"host_seconds", d->host, 1},
                 {"host_again_seconds", d->again, 1},
                 {"several_ranks", d->several, 1},
                 {"row_alignment[0]", d->alignment[0], 1},
                 {"row_alignment[1]", d->alignment[1], 1},
                 {"row_alignment[2]", d->alignment[2], 1}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !status; i++)
        if (!(parts[i].value >= 0 && parts[i].value <= parts[i].most))
            status = remat_fail(error, REMAT_INVALID, parts[i].field,
                                "%s is %g; it must be from 0 to %g", parts[i].field, parts[i].value,
                                parts[i].most);
    for (unsigned k = 0; k < REMAT_KERNEL_CLASSES && !status; k++) {
        if (d->forward[k].n == 0)
            status = remat_fail(error, REMAT_INVALID, "efficiency",
                                "efficiency.%s.forward has no points", classes[k]);
        if (!status)
            status = check_efficiency(&d->forward[k], classes[k], false, error);
        if (!status)
            status = check_efficiency(&d->backward[k], classes[k], true, error);
    }
    return status;
}

remat_status remat_device_computes(const remat_device *device, remat_precision precision,
                                   remat_error *error)
{
    char list[64] = "";
    if (device->rate[precision] > 0)
        return REMAT_OK;
    for (unsigned p = 0; p < REMAT_RATES; p++)
        if (device->rate[p] > 0)
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", list[0] ? ", " : "",
                     precisions[p]);
    return remat_fail(error, REMAT_INVALID, precision == REMAT_FLOAT8 ? "fp8" : "precision",
                      "%s has no %s; it has %s", device->name, precisions[precision], list);
}

/* ---- the roofline ---- */

static double fraction_at(const remat_efficiency *e, double size)
{
    unsigned i = 0;
    if (!(size > e->size[0]))
        return e->fraction[0];
    while (i < e->n && e->size[i] < size)
        i++;
    if (i == e->n)
        return e->fraction[e->n - 1];
    double part = log(size / e->size[i - 1]) / log(e->size[i] / e->size[i - 1]);
    return e->fraction[i - 1] * pow(e->fraction[i] / e->fraction[i - 1], part);
}

/* As full as the same kernel is on the device that was looked at: it has as many times the work as
 * the device has the peak. */
static double fraction_of(const remat_efficiency *e, double size, double peak)
{
    return fraction_at(e, e->peak > 0 ? size * e->peak / peak : size);
}

static double or_one(double part)
{
    return part > 0 ? part : 1;
}

static double aligned(const remat_device *d, double row)
{
    return row == 0 || fmod(row, 16) == 0 ? 1
           : fmod(row, 8) == 0            ? or_one(d->alignment[2])
           : fmod(row, 4) == 0            ? or_one(d->alignment[1])
                                          : or_one(d->alignment[0]);
}

static const remat_efficiency *efficiency_of(const remat_device *d, remat_kernel_class kind,
                                             bool backward)
{
    return backward && d->backward[kind].n > 0 ? &d->backward[kind] : &d->forward[kind];
}

double remat_kernel_seconds(const remat_device *d, const remat_kernel *k)
{
    const bool computes = k->kind <= REMAT_ATTENTION;
    const remat_efficiency *traffic =
        efficiency_of(d, computes ? REMAT_COPY : k->kind, !computes && k->backward);
    double seconds = k->bytes / (d->bandwidth * fraction_of(traffic, k->bytes, d->bandwidth));
    if (computes) {
        const remat_efficiency *e = efficiency_of(d, k->kind, k->backward);
        const double rate = d->rate[k->precision];
        const double part = aligned(d, k->row) * (k->precision == REMAT_TF32 ? or_one(e->tf32) : 1);
        double work = k->flops / (rate * part * fraction_of(e, k->flops, rate));
        seconds = work > seconds ? work : seconds;
    }
    return d->launch + seconds;
}
