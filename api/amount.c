/* Bytes as people write them. */
#include "fields.h"

#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

double api_amount_unit(const char *text)
{
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"", 1},           {"K", 1e3},           {"M", 1e6},
                 {"G", 1e9},        {"T", 1e12},          {"Ki", 1024.0},
                 {"Mi", 1048576.0}, {"Gi", 1073741824.0}, {"Ti", 1099511627776.0}};
    size_t length = strlen(text);
    length -= length > 0 && (text[length - 1] == 'B' || text[length - 1] == 'b');
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strlen(units[i].name) == length && strncasecmp(units[i].name, text, length) == 0)
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

bool api_split_amount(const char *text, double *ret_number, const char **ret_unit)
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

bool api_split_rate(const char *text, double *ret_number, double *ret_unit)
{
    char bytes[8] = "";
    const char *unit, *slash = strchr(text, '/');
    if (!api_split_amount(text, ret_number, &unit) || !slash || strcmp(slash, "/s") != 0 ||
        slash < unit || slash - unit >= (ptrdiff_t)sizeof bytes)
        return false;
    const size_t length = (size_t)(slash - unit);
    memcpy(bytes, unit, length);
    const bool bits = length >= 3 && strcmp(bytes + length - 3, "bit") == 0;
    if (bits)
        bytes[length - 3] = '\0';
    const bool unclear =
        length > 0 && bytes[length - 1] == 'b'; /* who writes Gb/s means bits mostly */
    *ret_unit = unclear ? 0 : api_amount_unit(bytes) / (bits ? 8 : 1);
    return true;
}

remat_status remat_amount_decode(const json_t *json, const char *field, bool percent_allowed,
                                 remat_amount *ret_amount, remat_error *error)
{
    const char *forms = percent_allowed ? "an integer of bytes, \"4GiB\", \"60%\" or \"0.6\""
                                        : "an integer of bytes or \"4GiB\"";
    remat_amount amount = {.given = true};
    if (json_is_number(json)) {
        amount.value = json_number_value(json);
        if (amount.value != floor(amount.value))
            return remat_fail(error, REMAT_INVALID, field, "%s is %.17g; it must be %s", field,
                              amount.value, forms);
    } else if (json_is_string(json)) {
        const char *unit, *text = json_string_value(json);
        if (!api_split_amount(text, &amount.value, &unit))
            return remat_fail(error, REMAT_INVALID, field, "%s is \"%.40s\"; it must be %s", field,
                              text, forms);
        amount.percent = percent_allowed && strcmp(unit, "%") == 0;
        bool whole = unit[0] || amount.value == floor(amount.value);
        if (!whole && percent_allowed && amount.value < 1) {
            amount.percent = true;
            amount.value *= 100;
        } else if (!whole) {
            return remat_fail(error, REMAT_INVALID, field, "%s is \"%.40s\"; it must be %s", field,
                              text, forms);
        }
        double scale = amount.percent ? 1 : api_amount_unit(unit);
        if (scale == 0)
            return remat_fail(error, REMAT_INVALID, field,
                              "%s is \"%.40s\"; its unit is none of B, K, M, G, T (of 1000), Ki, "
                              "Mi, Gi, Ti (of 1024), each with or without B%s",
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
