/* The way to the host, as requests give it. */
#include "fields.h"

#include <math.h>
#include <string.h>

/* What copies between pinned host memory and a device attain, somewhat below what the buses are
 * sold for. */
static const struct {
    const char *name, *summary;
    double bytes_per_second, latency_seconds;
} presets[] = {
    {"pcie3-x16", "PCI Express 3.0, 16 lanes", 12e9, 10e-6},
    {"pcie4-x16", "PCI Express 4.0, 16 lanes", 24e9, 10e-6},
    {"pcie5-x16", "PCI Express 5.0, 16 lanes", 48e9, 10e-6},
    {"nvlink-c2c", "NVLink-C2C", 350e9, 5e-6},
};
enum { N_PRESETS = sizeof presets / sizeof *presets };

static remat_status read_preset(const char *name, const remat_profile *profile, remat_link *link,
                                remat_error *error)
{
    double seconds = profile ? remat_time_unit_seconds(profile->time_unit) : 0;
    if (seconds == 0)
        return remat_fail(error, REMAT_INVALID, "link.preset",
                          "link.preset is per second, but the profile's time_unit is \"units\"; "
                          "give bytes_per_time_unit");
    for (size_t i = 0; i < N_PRESETS; i++)
        if (strcmp(presets[i].name, name) == 0) {
            link->to_host = link->to_device = presets[i].bytes_per_second * seconds;
            link->latency = presets[i].latency_seconds / seconds;
            return REMAT_OK;
        }
    const char *names[N_PRESETS];
    for (size_t i = 0; i < N_PRESETS; i++)
        names[i] = presets[i].name;
    return remat_fail_unknown("link.preset", "link", name, names, N_PRESETS, error);
}

json_t *remat_link_presets_encode(void)
{
    json_t *list = json_array();
    for (size_t i = 0; i < N_PRESETS; i++)
        remat_json_append(&list, json_pack("{s:s, s:s, s:f, s:f, s:b}", "preset", presets[i].name,
                                           "summary", presets[i].summary, "bytes_per_second",
                                           presets[i].bytes_per_second, "latency_seconds",
                                           presets[i].latency_seconds, "shared", 0));
    return list;
}

json_t *remat_link_encode(const remat_link *link)
{
    return json_pack("{s:f, s:b, s:f, s:f}", "latency", link->latency, "shared", link->shared,
                     "to_device", link->to_device, "to_host", link->to_host);
}

/* 2^53 bytes at this rate, or this latency, many times over are still a finite time. */
#define LEAST_RATE 1e-200
#define MOST_LATENCY 1e200

static remat_status check_rate(double rate, const char *field, remat_error *error)
{
    if (rate == 0 || (rate >= LEAST_RATE && isfinite(rate)))
        return REMAT_OK;
    return remat_fail(error, REMAT_INVALID, field,
                      "%s is %g; it must be finite, and 0 or at least %g bytes per time unit",
                      field, rate, LEAST_RATE);
}

/* Bytes per time unit of the profile: a number as it is, "12GB/s" by the profile's unit. */
static remat_status rate_decode(const json_t *json, const char *field, const remat_profile *profile,
                                double *ret_rate, remat_error *error)
{
    double rate = json_number_value(json);
    if (json_is_string(json)) {
        const char *text = json_string_value(json);
        double unit, seconds = profile ? remat_time_unit_seconds(profile->time_unit) : 0;
        if (!api_split_rate(text, &rate, &unit))
            return remat_fail(error, REMAT_INVALID, field,
                              "%s is \"%.40s\"; it must be like \"12GB/s\"", field, text);
        if (unit == 0)
            return remat_fail(
                error, REMAT_INVALID, field,
                "%s is \"%.40s\"; its unit is none of B, K, M, G, T (of 1000), Ki, Mi, "
                "Gi, Ti (of 1024), each with or without B, or with bit, a second: GB/s, Gbit/s",
                field, text);
        if (seconds == 0)
            return remat_fail(error, REMAT_INVALID, field,
                              "%s is per second, but the profile's time_unit is \"units\"; give "
                              "bytes_per_time_unit",
                              field);
        rate *= unit * seconds;
    } else if (!json_is_number(json)) {
        return remat_fail(error, REMAT_INVALID, field, "%s must be a number or like \"12GB/s\"",
                          field);
    }
    *ret_rate = rate;
    return check_rate(rate, field, error);
}

/* How fast a link is is said in one way. */
static remat_status check_one_way(const json_t *link, remat_error *error)
{
    static const char *const ways[] = {"preset", "bandwidth", "bytes_per_time_unit", "to_host"};
    const bool to_host = json_object_get(link, "to_host"),
               to_device = json_object_get(link, "to_device");
    const char *first = NULL, *second = NULL;
    char field[REMAT_FIELD_SIZE];
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const bool given = i == 3 ? to_host || to_device : json_object_get(link, ways[i]) != NULL;
        if (given && first && !second)
            second = i == 3 && !to_host ? "to_device" : ways[i];
        first = given && !first ? ways[i] : first;
    }
    snprintf(field, sizeof field, "link.%s", second ? second : to_host ? "to_device" : "to_host");
    if (second)
        return remat_fail(error, REMAT_INVALID, field,
                          "%s is too much beside link.%s: link needs one of preset, bandwidth, "
                          "bytes_per_time_unit, or both to_host and to_device",
                          field, first);
    if (to_host != to_device)
        return remat_fail(error, REMAT_INVALID, field,
                          "%s is missing: to_host and to_device go together", field);
    return first ? REMAT_OK
                 : remat_fail(error, REMAT_INVALID, "link",
                              "link needs one of preset, bandwidth, bytes_per_time_unit, or both "
                              "to_host and to_device");
}

remat_status remat_link_decode(const json_t *json, const remat_profile *profile,
                               remat_link *ret_link, remat_error *error)
{
    remat_number per_unit = {0}, latency = {0};
    const json_t *bandwidth = NULL, *to_host = NULL, *to_device = NULL;
    const char *preset = NULL;
    remat_link link = {0};
    const field_rule rules[] = {{"preset", FIELD_STRING, false, &preset},
                                {"bandwidth", FIELD_ANY, false, &bandwidth},
                                {"bytes_per_time_unit", FIELD_NUMBER, false, &per_unit},
                                {"to_host", FIELD_ANY, false, &to_host},
                                {"to_device", FIELD_ANY, false, &to_device},
                                {"latency", FIELD_NUMBER, false, &latency},
                                {"shared", FIELD_BOOLEAN, false, &link.shared}};
    remat_status status = api_read(json, "link.", rules, sizeof rules / sizeof *rules, error);
    if (status)
        return status;
    const bool each_way = to_host && to_device;
    status = check_one_way(json, error);
    if (status)
        return status;
    if (bandwidth && !json_is_string(bandwidth))
        return remat_fail(error, REMAT_INVALID, "link.bandwidth",
                          "link.bandwidth must be like \"12GB/s\"");
    if (preset)
        status = read_preset(preset, profile, &link, error);
    else if (bandwidth)
        status = rate_decode(bandwidth, "link.bandwidth", profile, &link.to_host, error);
    else if (each_way)
        status = rate_decode(to_host, "link.to_host", profile, &link.to_host, error);
    else
        link.to_host = per_unit.value;
    if (!preset)
        link.to_device = link.to_host;
    if (!status && each_way)
        status = rate_decode(to_device, "link.to_device", profile, &link.to_device, error);
    if (status)
        return status;
    if (per_unit.given && (status = check_rate(link.to_host, "link.bytes_per_time_unit", error)))
        return status;
    if (latency.given)
        link.latency = latency.value;
    if (!(link.latency >= 0 && link.latency <= MOST_LATENCY))
        return remat_fail(error, REMAT_INVALID, "link.latency",
                          "link.latency is %g; it must be from 0 to %g", link.latency,
                          MOST_LATENCY);
    /* -0 becomes 0: one number, one encoding */
    *ret_link = (remat_link){.to_host = link.to_host + 0.0,
                             .to_device = link.to_device + 0.0,
                             .latency = link.latency + 0.0,
                             .shared = link.shared};
    return REMAT_OK;
}
