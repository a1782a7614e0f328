/* Bytes and bandwidths as people write them. */
#include "fields.h"

#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Number of bytes in the unit that text names, 0 if it names none. */
static double unit_bytes(const char *text)
{
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"", 1},
                 {"B", 1},
                 {"KB", 1e3},
                 {"MB", 1e6},
                 {"GB", 1e9},
                 {"TB", 1e12},
                 {"KiB", 1024.0},
                 {"MiB", 1048576.0},
                 {"GiB", 1073741824.0},
                 {"TiB", 1099511627776.0}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcasecmp(units[i].name, text) == 0)
            return units[i].bytes;
    return 0;
}

/* Whole bytes of a product; "1.001KB" is 1001, though the product of the doubles is a little less.
 */
static double whole_bytes(double bytes)
{
    double nearest = round(bytes);
    return fabs(bytes - nearest) <= bytes * DBL_EPSILON ? nearest : floor(bytes);
}

/* "1.5 GiB" or "60%": a number, spaces, a unit. Plain decimal notation only. */
static bool split(const char *text, double *ret_number, const char **ret_unit)
{
    if (!isdigit((unsigned char)text[0]) || strlen(text) > 40)
        return false;
    size_t digits = strspn(text, "0123456789.");
    char number[48];
    memcpy(number, text, digits);
    number[digits] = '\0';
    char *end;
    *ret_number = strtod(number, &end);
    *ret_unit = text + digits + strspn(text + digits, " ");
    return *end == '\0';
}

remat_status remat_amount_decode(const json_t *json, const char *field, bool percent_allowed,
                                 remat_amount *ret_amount, remat_error *error)
{
    const char *forms = percent_allowed ? "an integer of bytes, \"4GiB\" or \"60%\""
                                        : "an integer of bytes or \"4GiB\"";
    remat_amount amount = {.given = true};
    if (json_is_number(json)) {
        amount.value = json_number_value(json);
        if (amount.value != floor(amount.value))
            return remat_fail(error, REMAT_INVALID, field, "%s is %.17g; it must be %s", field,
                              amount.value, forms);
    } else if (json_is_string(json)) {
        const char *unit, *text = json_string_value(json);
        if (!split(text, &amount.value, &unit))
            return remat_fail(error, REMAT_INVALID, field, "%s is \"%.40s\"; it must be %s", field,
                              text, forms);
        amount.percent = percent_allowed && strcmp(unit, "%") == 0;
        double scale = amount.percent ? 1 : unit_bytes(unit);
        if (scale == 0)
            return remat_fail(error, REMAT_INVALID, field,
                              "%s is \"%.40s\"; its unit is none of B, KB, MB, GB, TB, KiB, MiB, "
                              "GiB, TiB%s",
                              field, text, percent_allowed ? ", %" : "");
        amount.value = amount.percent ? amount.value : whole_bytes(amount.value * scale);
    } else {
        return remat_fail(error, REMAT_INVALID, field, "%s must be %s", field, forms);
    }
    if (!(amount.value >= 0 && amount.value < (double)REMAT_MAX_BYTES))
        return remat_fail(error, REMAT_INVALID, field, "%s is %.17g; it must be from 0 to 2^53 - 1",
                          field, amount.value);
    *ret_amount = amount;
    return REMAT_OK;
}

/* ---- the link ---- */

/* Bytes per time unit of the profile: a number as it is, "12GB/s" by the profile's unit. */
static remat_status rate_decode(const json_t *json, const char *field, const remat_profile *profile,
                                double *ret_rate, remat_error *error)
{
    double rate = json_number_value(json);
    if (json_is_string(json)) {
        const char *unit, *text = json_string_value(json);
        char bytes[8] = "";
        const char *slash = strchr(text, '/');
        double seconds = remat_time_unit_seconds(profile->time_unit);
        if (!split(text, &rate, &unit) || !slash || strcmp(slash, "/s") != 0 || slash < unit ||
            slash - unit >= (ptrdiff_t)sizeof bytes)
            return remat_fail(error, REMAT_INVALID, field,
                              "%s is \"%.40s\"; it must be like \"12GB/s\"", field, text);
        memcpy(bytes, unit, (size_t)(slash - unit));
        if (unit_bytes(bytes) == 0)
            return remat_fail(error, REMAT_INVALID, field, "%s is \"%.40s\"; its unit is unknown",
                              field, text);
        if (seconds == 0)
            return remat_fail(error, REMAT_INVALID, field,
                              "%s is per second, but the profile's time_unit is \"units\"; give "
                              "bytes_per_time_unit",
                              field);
        rate *= unit_bytes(bytes) * seconds;
    } else if (!json_is_number(json)) {
        return remat_fail(error, REMAT_INVALID, field, "%s must be a number or like \"12GB/s\"",
                          field);
    }
    if (!(rate >= 0) || isinf(rate))
        return remat_fail(error, REMAT_INVALID, field,
                          "%s is %g; it must be finite and not negative", field, rate);
    *ret_rate = rate;
    return REMAT_OK;
}

remat_status remat_link_decode(const json_t *json, const remat_profile *profile,
                               remat_link *ret_link, remat_error *error)
{
    remat_number per_unit = {0}, latency = {0};
    const json_t *bandwidth = NULL, *to_host = NULL, *to_device = NULL;
    remat_link link = {0};
    const field_rule rules[] = {{"bandwidth", FIELD_ANY, false, &bandwidth},
                                {"bytes_per_time_unit", FIELD_NUMBER, false, &per_unit},
                                {"to_host", FIELD_ANY, false, &to_host},
                                {"to_device", FIELD_ANY, false, &to_device},
                                {"latency", FIELD_NUMBER, false, &latency},
                                {"shared", FIELD_BOOLEAN, false, &link.shared}};
    remat_status status = fields_read(json, "link.", rules, sizeof rules / sizeof *rules, error);
    if (status)
        return status;
    bool each_way = to_host && to_device;
    if ((bandwidth != NULL) + per_unit.given + each_way != 1 ||
        (!each_way && (to_host || to_device)))
        return remat_fail(error, REMAT_INVALID, "link",
                          "link needs one of bandwidth, bytes_per_time_unit, or both to_host and "
                          "to_device");
    if (bandwidth && !json_is_string(bandwidth))
        return remat_fail(error, REMAT_INVALID, "link.bandwidth",
                          "link.bandwidth must be like \"12GB/s\"");
    if (bandwidth)
        status = rate_decode(bandwidth, "link.bandwidth", profile, &link.to_host, error);
    else if (each_way)
        status = rate_decode(to_host, "link.to_host", profile, &link.to_host, error);
    else
        link.to_host = per_unit.value;
    link.to_device = link.to_host;
    if (!status && each_way)
        status = rate_decode(to_device, "link.to_device", profile, &link.to_device, error);
    if (status)
        return status;
    if (!(link.to_host >= 0) || isinf(link.to_host))
        return remat_fail(error, REMAT_INVALID, "link.bytes_per_time_unit",
                          "link.bytes_per_time_unit is %g; it must be finite and not negative",
                          link.to_host);
    link.latency = latency.value;
    if (!(link.latency >= 0) || isinf(link.latency))
        return remat_fail(error, REMAT_INVALID, "link.latency",
                          "link.latency is %g; it must be finite and not negative", link.latency);
    *ret_link = link;
    return REMAT_OK;
}
