#include "plan/rescale.h"

#include "fields.h"

#include <math.h>
#include <string.h>

/* ---- whose times ---- */

static bool is_called(const remat_device *device, const char *text)
{
    return strcmp(device->name, text) == 0 || strcmp(device->title, text) == 0;
}

/* A device of the file by its name or title. */
static bool find_called(const char *text, remat_device *ret_device)
{
    size_t length, i;
    json_t *file = NULL, *one;
    bool found = false;
    const char *document = remat_devices_document(&length);
    if (remat_json_parse(document, length, &file, NULL))
        return false;
    json_array_foreach(json_object_get(file, "devices"), i, one)
    {
        json_t *name = json_object_get(one, "name");
        const char *title = json_string_value(json_object_get(one, "title"));
        if (!found && (strcmp(json_string_value(name), text) == 0 || strcmp(title, text) == 0))
            found = !remat_device_decode(name, "device", ret_device, NULL);
    }
    json_decref(file);
    return found;
}

remat_status api_profile_origin(const remat_plan_request *q, const json_t *document,
                                remat_device *ret_from, bool *ret_rescale, remat_error *error)
{
    const char *text =
        json_string_value(json_object_get(json_object_get(document, "source"), "device"));
    *ret_from = q->device;
    *ret_rescale = false;
    if (q->measured_on) {
        remat_status status = remat_device_decode(q->measured_on, "measured_on", ret_from, error);
        *ret_rescale = strcmp(ret_from->name, q->device.name) != 0;
        return status;
    }
    if (!text || is_called(&q->device, text))
        return REMAT_OK;
    *ret_rescale = find_called(text, ret_from);
    if (*ret_rescale)
        return REMAT_OK;
    return remat_fail(error, REMAT_INVALID, "measured_on",
                      "the profile's times are of \"%.100s\"; measured_on says which device that "
                      "is: %s, if they are its own, or another, from which they are rescaled",
                      text, q->device.name);
}

/* ---- another device's times ---- */

/* By words in names of operations, the first that is there; else pointwise. */
static remat_kernel_class class_of(const char *op)
{
    static const struct {
        const char *word;
        remat_kernel_class kind;
    } words[] = {{"attention", REMAT_ATTENTION},
                 {"conv", REMAT_CONVOLUTION},
                 {"block", REMAT_MATRIX},
                 {"linear", REMAT_MATRIX},
                 {"mm", REMAT_MATRIX},
                 {"matmul", REMAT_MATRIX},
                 {"lstm", REMAT_MATRIX},
                 {"norm", REMAT_NORMALISATION},
                 {"softmax", REMAT_NORMALISATION},
                 {"entropy", REMAT_NORMALISATION},
                 {"pool", REMAT_POOLING},
                 {"embedding", REMAT_GATHER},
                 {"gather", REMAT_GATHER},
                 {"copy", REMAT_COPY},
                 {"concat", REMAT_COPY},
                 {"crop", REMAT_COPY},
                 {"slice", REMAT_COPY}};
    for (size_t i = 0; op && i < sizeof words / sizeof *words; i++)
        if (strstr(op, words[i].word))
            return words[i].kind;
    return REMAT_POINTWISE;
}

typedef struct change {
    const remat_device *from, *to;
    remat_precision precision;
    double unit; /* seconds of the document's */
} change;

/* Sizes by bisection: time grows with them. */
static double rescaled(const change *c, remat_kernel_class kind, bool backward, double time)
{
    const bool computes = kind <= REMAT_ATTENTION;
    double low = 0, high = log(1e24);
    remat_kernel kernel = {kind, c->precision, backward, 0, 0, 0};
    double *size = computes ? &kernel.flops : &kernel.bytes;
    if (time == 0)
        return 0;
    for (int i = 0; i < 100; i++) {
        const double middle = (low + high) / 2;
        *size = exp(middle);
        if (remat_kernel_seconds(c->from, &kernel) < time * c->unit)
            low = middle;
        else
            high = middle;
    }
    *size = exp(low);
    return remat_kernel_seconds(c->to, &kernel) / c->unit;
}

static void change_time(const change *c, json_t *node, const char *name, remat_kernel_class kind,
                        bool backward)
{
    const json_t *time = json_object_get(node, name);
    if (json_is_number(time))
        json_object_set_new(node, name,
                            json_real(rescaled(c, kind, backward, json_number_value(time))));
}

static void change_node(const change *c, json_t *node, remat_kernel_class kind)
{
    json_t *one;
    size_t i;
    const json_t *forward = json_object_get(node, "forward_time");
    /* what is left out is twice the forward of before */
    if (json_is_number(forward) && !json_object_get(node, "backward_time") &&
        json_object_get(node, "id"))
        json_object_set_new(node, "backward_time", json_real(2 * json_number_value(forward)));
    change_time(c, node, "forward_time", kind, false);
    change_time(c, node, "backward_time", kind, true);
    change_time(c, node, "time", kind, false);
    json_array_foreach(json_object_get(node, "alternatives"), i, one) change_node(c, one, kind);
}

remat_status api_profile_rescale(const json_t *document, const remat_device *from,
                                 const remat_device *to, remat_precision precision,
                                 json_t **ret_document, remat_error *error)
{
    change c = {from, to, precision, 0};
    remat_profile *profile = NULL;
    json_t *one, *copy;
    size_t i;
    char note[200];
    remat_status status = remat_device_computes(from, precision, error);
    if (!status)
        status = remat_device_computes(to, precision, error);
    if (!status)
        status = remat_profile_decode(document, "", &profile, error);
    if (status)
        return status;
    c.unit = remat_time_unit_seconds(profile->time_unit);
    remat_profile_free(profile);
    copy = json_deep_copy(document);
    json_array_foreach(json_object_get(copy, "nodes"), i, one)
        change_node(&c, one, class_of(json_string_value(json_object_get(one, "op"))));
    snprintf(note, sizeof note, "times of %s, rescaled to %s by the rooflines of both", from->name,
             to->name);
    json_t *source = json_pack("{s:s, s:s}", "device", to->title, "note", note);
    if (!copy || json_object_set_new(copy, "source", source)) {
        json_decref(copy);
        return remat_fail_memory(error);
    }
    *ret_document = copy;
    return REMAT_OK;
}
