/* Devices: the data file and entries like it. */
#include "fields.h"
#include "plan/plan.h"
#include "plan/ranks.h"

#include <stdio.h>
#include <string.h>

static const char document[] = {
#include "devices.inc"
    0};

const char *remat_devices_document(size_t *ret_length)
{
    *ret_length = sizeof document - 1;
    return document;
}

/* ---- efficiency ---- */

static remat_status read_points(const json_t *json, const char *field, remat_efficiency *ret_points,
                                remat_error *error)
{
    remat_efficiency points = {.n = (unsigned)json_array_size(json)};
    if (!json_is_array(json) || json_array_size(json) < 1 ||
        json_array_size(json) > REMAT_MAX_EFFICIENCY_POINTS)
        return remat_fail(error, REMAT_INVALID, field,
                          "%s must be a list of 1 to %d pairs [size, fraction]", field,
                          REMAT_MAX_EFFICIENCY_POINTS);
    for (unsigned i = 0; i < points.n; i++) {
        const json_t *pair = json_array_get(json, i);
        if (json_array_size(pair) != 2 || !json_is_number(json_array_get(pair, 0)) ||
            !json_is_number(json_array_get(pair, 1)))
            return remat_fail(error, REMAT_INVALID, field, "%s[%u] must be [size, fraction]", field,
                              i);
        points.size[i] = json_number_value(json_array_get(pair, 0));
        points.fraction[i] = json_number_value(json_array_get(pair, 1));
    }
    *ret_points = points;
    return REMAT_OK;
}

static remat_status read_class(const json_t *json, remat_kernel_class kind, remat_device *device,
                               remat_error *error)
{
    char path[64], field[96];
    const json_t *forward = NULL, *backward = NULL;
    remat_number peak = {0}, tf32 = {0};
    const field_rule rules[] = {{"forward", FIELD_ARRAY, true, &forward},
                                {"backward", FIELD_ARRAY, false, &backward},
                                {"peak", FIELD_NUMBER, false, &peak},
                                {"tf32", FIELD_NUMBER, false, &tf32}};
    snprintf(path, sizeof path, "efficiency.%s.", remat_kernel_class_name(kind));
    remat_status status = api_read(json, path, rules, 4, error);
    snprintf(field, sizeof field, "%sforward", path);
    if (!status)
        status = read_points(forward, field, &device->forward[kind], error);
    snprintf(field, sizeof field, "%sbackward", path);
    device->backward[kind].n = 0;
    if (!status && backward)
        status = read_points(backward, field, &device->backward[kind], error);
    device->forward[kind].peak = device->backward[kind].peak = peak.value;
    device->forward[kind].tf32 = device->backward[kind].tf32 = tf32.value;
    return status;
}

static remat_status read_efficiency(const json_t *json, remat_device *device, remat_error *error)
{
    const json_t *one[REMAT_KERNEL_CLASSES] = {0};
    field_rule rules[REMAT_KERNEL_CLASSES];
    for (unsigned k = 0; k < REMAT_KERNEL_CLASSES; k++)
        rules[k] = (field_rule){remat_kernel_class_name((remat_kernel_class)k), FIELD_OBJECT, false,
                                &one[k]};
    remat_status status = api_read(json, "efficiency.", rules, REMAT_KERNEL_CLASSES, error);
    for (unsigned k = 0; k < REMAT_KERNEL_CLASSES && !status; k++)
        if (one[k])
            status = read_class(one[k], (remat_kernel_class)k, device, error);
    return status;
}

/* ---- an entry ---- */

static remat_status read_bytes(const remat_number *number, const char *field, uint64_t *ret_bytes,
                               remat_error *error)
{
    if (!(number->value >= 0 && number->value < (double)REMAT_MAX_BYTES))
        return remat_fail(error, REMAT_INVALID, field, "%s is %g; it must be from 0 to 2^53", field,
                          number->value);
    *ret_bytes = (uint64_t)number->value;
    return REMAT_OK;
}

static remat_status read_alignment(const json_t *json, remat_device *device, remat_error *error)
{
    bool good = json_array_size(json) == 3;
    for (unsigned i = 0; i < 3 && good; i++) {
        good = json_is_number(json_array_get(json, i));
        device->alignment[i] = json_number_value(json_array_get(json, i));
    }
    return good ? REMAT_OK
                : remat_fail(error, REMAT_INVALID, "row_alignment",
                             "row_alignment must be three numbers, of rows of 2, 4 and 8 bytes");
}

static remat_status read_rates(const json_t *json, remat_device *device, remat_error *error)
{
    remat_number rate[REMAT_RATES] = {{0}};
    field_rule rules[REMAT_RATES];
    for (unsigned p = 0; p < REMAT_RATES; p++)
        rules[p] = (field_rule){remat_precision_name((remat_precision)p), FIELD_NUMBER,
                                p == REMAT_FLOAT32, &rate[p]};
    remat_status status = api_read(json, "flops_per_second.", rules, REMAT_RATES, error);
    for (unsigned p = 0; p < REMAT_RATES; p++)
        device->rate[p] = rate[p].value;
    return status;
}

/* What a device takes of the file where it says nothing. */
static remat_status read_common(const json_t *file, remat_device *device, remat_error *error)
{
    device->communicator = (uint64_t)json_number_value(json_object_get(file, "communicator_bytes"));
    device->fragmentation[0] = json_number_value(json_object_get(file, "eager_fragmentation"));
    device->fragmentation[1] = json_number_value(json_object_get(file, "compiled_fragmentation"));
    return read_efficiency(json_object_get(file, "efficiency"), device, error);
}

static remat_status read_entry(const json_t *json, const json_t *file, remat_device *ret_device,
                               remat_error *error)
{
    remat_device device = {.memory = 0};
    const char *name = NULL, *title = "", *format = NULL, *network = "pcie4+100gbe";
    const json_t *rates = NULL, *efficiency = NULL, *sources = NULL, *operators = NULL;
    remat_number memory = {0}, bandwidth = {0}, link = {0}, launch = {0}, context = {0},
                 communicator = {0}, fragmentation[2] = {{0}}, workspace = {0}, rounding = {0},
                 host = {0}, again = {0}, several = {0};
    const json_t *alignment = NULL;
    const field_rule rules[] = {{"name", FIELD_STRING, true, &name},
                                {"format", FIELD_STRING, false, &format},
                                {"title", FIELD_STRING, false, &title},
                                {"memory_bytes", FIELD_NUMBER, true, &memory},
                                {"bandwidth_bytes_per_second", FIELD_NUMBER, true, &bandwidth},
                                {"flops_per_second", FIELD_OBJECT, true, &rates},
                                {"link_bytes_per_second", FIELD_NUMBER, false, &link},
                                {"launch_seconds", FIELD_NUMBER, false, &launch},
                                {"host_seconds", FIELD_NUMBER, false, &host},
                                {"host_again_seconds", FIELD_NUMBER, false, &again},
                                {"several_ranks", FIELD_NUMBER, false, &several},
                                {"row_alignment", FIELD_ARRAY, false, &alignment},
                                {"context_bytes", FIELD_NUMBER, false, &context},
                                {"communicator_bytes", FIELD_NUMBER, false, &communicator},
                                {"cublas_bytes", FIELD_NUMBER, false, &workspace},
                                {"allocator_rounding", FIELD_NUMBER, false, &rounding},
                                {"eager_fragmentation", FIELD_NUMBER, false, &fragmentation[0]},
                                {"compiled_fragmentation", FIELD_NUMBER, false, &fragmentation[1]},
                                {"network", FIELD_STRING, false, &network},
                                {"efficiency", FIELD_OBJECT, false, &efficiency},
                                {"operators", FIELD_OBJECT, false, &operators}, /* a client's own */
                                {"sources", FIELD_ANY, false, &sources}};
    remat_status status = api_read(json, "", rules, sizeof rules / sizeof *rules, error);
    if (!status)
        status = read_bytes(&memory, "memory_bytes", &device.memory, error);
    if (!status)
        status = read_bytes(&context, "context_bytes", &device.context, error);
    if (!status)
        status = read_rates(rates, &device, error);
    if (!status)
        status = read_common(file, &device, error);
    if (!status && communicator.given)
        status = read_bytes(&communicator, "communicator_bytes", &device.communicator, error);
    if (!status && workspace.given)
        status = read_bytes(&workspace, "cublas_bytes", &device.workspace, error);
    device.rounding = rounding.value;
    for (unsigned i = 0; i < 2; i++)
        if (fragmentation[i].given)
            device.fragmentation[i] = fragmentation[i].value;
    if (!status)
        status = api_network_decode(network, file, &device.interconnect, error);
    if (!status && efficiency)
        status = read_efficiency(efficiency, &device, error);
    if (!status && alignment)
        status = read_alignment(alignment, &device, error);
    if (status)
        return status;
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            return remat_fail(error, REMAT_INVALID, "name", "name has a control character");
    if (!name[0] || strlen(name) >= sizeof device.name)
        return remat_fail(error, REMAT_INVALID, "name", "name must be of 1 to %zu bytes",
                          sizeof device.name - 1);
    snprintf(device.name, sizeof device.name, "%s", name);
    snprintf(device.title, sizeof device.title, "%s", title[0] ? title : name);
    device.bandwidth = bandwidth.value;
    device.link = link.value;
    device.launch = launch.value;
    device.host = host.value;
    device.again = again.value;
    device.several = several.value;
    status = remat_device_check(&device, error);
    if (!status)
        *ret_device = device;
    return status;
}

static remat_status read_named(const char *name, const json_t *file, const char *field,
                               remat_device *ret_device, remat_error *error)
{
    enum { MOST_DEVICES = 64 };
    const char *known[MOST_DEVICES];
    size_t i, n = 0;
    const json_t *one;
    json_array_foreach(json_object_get(file, "devices"), i, one)
    {
        const char *other = json_string_value(json_object_get(one, "name"));
        if (strcmp(other, name) == 0)
            return read_entry(one, file, ret_device, error);
        if (n < MOST_DEVICES)
            known[n++] = other;
    }
    return remat_fail_unknown(field, "device", name, known, n, error);
}

remat_status api_within(remat_status status, const char *field, remat_error *error)
{
    char inner[REMAT_FIELD_SIZE];
    if (!status || !error || !error->field[0] || strcmp(error->field, field) == 0)
        return status;
    snprintf(inner, sizeof inner, "%s", error->field);
    snprintf(error->field, sizeof error->field, "%.40s.%.200s", field, inner);
    return status;
}

remat_status remat_network_decode(const char *text, uint32_t node, remat_device *device,
                                  remat_error *error)
{
    json_t *file = NULL;
    remat_status status = remat_json_parse(document, sizeof document - 1, &file, error);
    if (!status && text)
        status = api_network_decode(text, file, &device->interconnect, error);
    if (!status && node > 0)
        device->interconnect.node = node;
    json_decref(file);
    return status;
}

remat_status remat_device_decode(const json_t *json, const char *field, remat_device *ret_device,
                                 remat_error *error)
{
    json_t *file = NULL;
    if (!json_is_string(json) && !json_is_object(json))
        return remat_fail(error, REMAT_INVALID, field,
                          "%s must be the name of a device or an object as calibrate writes it",
                          field);
    remat_status status = remat_json_parse(document, sizeof document - 1, &file, error);
    if (status)
        return status;
    status = json_is_string(json)
                 ? read_named(json_string_value(json), file, field, ret_device, error)
                 : read_entry(json, file, ret_device, error);
    json_decref(file);
    return api_within(status, field, error);
}

/* ---- encoding ---- */

static json_t *points_encode(const remat_efficiency *points)
{
    json_t *list = json_array();
    for (unsigned i = 0; i < points->n; i++)
        remat_json_append(&list, json_pack("[f, f]", points->size[i], points->fraction[i]));
    return list;
}

static json_t *efficiency_encode(const remat_device *device)
{
    json_t *json = json_object();
    for (unsigned k = 0; k < REMAT_KERNEL_CLASSES; k++) {
        json_t *one = json_object();
        remat_json_set(&one, "forward", points_encode(&device->forward[k]));
        if (device->backward[k].n > 0)
            remat_json_set(&one, "backward", points_encode(&device->backward[k]));
        if (device->forward[k].peak > 0)
            remat_json_set(&one, "peak", json_real(device->forward[k].peak));
        if (device->forward[k].tf32 > 0)
            remat_json_set(&one, "tf32", json_real(device->forward[k].tf32));
        remat_json_set(&json, remat_kernel_class_name((remat_kernel_class)k), one);
    }
    return json;
}

json_t *remat_device_encode(const remat_device *device)
{
    json_t *json = json_object(), *rates = json_object();
    for (unsigned p = 0; p < REMAT_RATES; p++)
        if (device->rate[p] > 0)
            remat_json_set(&rates, remat_precision_name((remat_precision)p),
                           json_real(device->rate[p]));
    remat_json_set(&json, "name", json_string(device->name));
    remat_json_set(&json, "title", json_string(device->title));
    remat_json_set(&json, "memory_bytes", json_integer((json_int_t)device->memory));
    remat_json_set(&json, "bandwidth_bytes_per_second", json_real(device->bandwidth));
    remat_json_set(&json, "flops_per_second", rates);
    remat_json_set(&json, "link_bytes_per_second", json_real(device->link));
    remat_json_set(&json, "launch_seconds", json_real(device->launch));
    remat_json_set(&json, "host_seconds", json_real(device->host));
    remat_json_set(&json, "host_again_seconds", json_real(device->again));
    remat_json_set(&json, "several_ranks", json_real(device->several));
    remat_json_set(
        &json, "row_alignment",
        json_pack("[f, f, f]", device->alignment[0], device->alignment[1], device->alignment[2]));
    remat_json_set(&json, "context_bytes", json_integer((json_int_t)device->context));
    remat_json_set(&json, "communicator_bytes", json_integer((json_int_t)device->communicator));
    remat_json_set(&json, "cublas_bytes", json_integer((json_int_t)device->workspace));
    remat_json_set(&json, "allocator_rounding", json_real(device->rounding));
    if (device->interconnect.node > 0)
        remat_json_set(&json, "network", json_string(device->interconnect.name));
    remat_json_set(&json, "eager_fragmentation", json_real(device->fragmentation[0]));
    remat_json_set(&json, "compiled_fragmentation", json_real(device->fragmentation[1]));
    remat_json_set(&json, "efficiency", efficiency_encode(device));
    return json;
}
