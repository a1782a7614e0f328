/* Numbers and text for people. */
#include "terminal.h"

#include <math.h>
#include <string.h>

/* Three significant digits, never an exponent below 1e6. */
static void three_digits(double value, char *text, size_t size)
{
    int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    if (value != 0 && value < 0.995)
        decimals = value < 0.0995 ? 4 : 3;
    snprintf(text, size, "%.*f", decimals, value);
}

const char *text_bytes(double bytes, char text[TEXT_SIZE])
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t unit = 0;
    char number[TEXT_SIZE - 8];
    if (isnan(bytes))
        return strcpy(text, "-");
    if (bytes < 999.5) {
        snprintf(text, TEXT_SIZE, "%.0f B", bytes);
        return text;
    }
    for (bytes /= 1024; bytes >= 999.5 && unit + 1 < sizeof units / sizeof *units; unit++)
        bytes /= 1024;
    three_digits(bytes, number, sizeof number);
    snprintf(text, TEXT_SIZE, "%s %s", number, units[unit]);
    return text;
}

const char *text_time(double time, const char *unit, char text[TEXT_SIZE])
{
    const char *space = unit[0] ? " " : "";
    if (isnan(time))
        return strcpy(text, "-");
    if (time >= 1e5 && time < 1e15)
        snprintf(text, TEXT_SIZE, "%.0f%s%.8s", time, space, unit);
    else
        snprintf(text, TEXT_SIZE, "%.6g%s%.8s", time, space, unit);
    return text;
}

const char *text_seconds(double seconds, char text[TEXT_SIZE])
{
    static const struct {
        double from, scale;
        const char *unit;
    } units[] = {{1, 1, "s"}, {1e-3, 1e3, "ms"}, {0, 1e6, "us"}};
    char number[TEXT_SIZE - 8];
    size_t i = 0;
    if (isnan(seconds))
        return strcpy(text, "-");
    while (seconds < units[i].from)
        i++;
    three_digits(seconds * units[i].scale, number, sizeof number);
    snprintf(text, TEXT_SIZE, "%s %s", number, units[i].unit);
    return text;
}

const char *text_percent(double fraction, char text[TEXT_SIZE])
{
    if (isnan(fraction))
        return strcpy(text, "-");
    double percent = 100 * fraction;
    snprintf(text, TEXT_SIZE, "%.*f %%", fabs(percent) < 9.995 ? 2 : 1, percent);
    return text;
}

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

size_t text_columns(const char *text)
{
    size_t columns = 0;
    for (; *text; text++)
        columns += !is_continuation(*text);
    return columns;
}

static void put_safe(FILE *out, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        putc((unsigned char)text[i] < ' ' || text[i] == 0x7f ? '?' : text[i], out);
}

void text_safe(FILE *out, const char *text)
{
    put_safe(out, text, strlen(text));
}

void text_cell(FILE *out, const char *text, size_t columns)
{
    size_t length = 0, used = 0;
    while (text[length] && (used < columns || is_continuation(text[length]))) {
        length++;
        while (is_continuation(text[length]))
            length++;
        used++;
    }
    put_safe(out, text, length);
    for (; used < columns; used++)
        putc(' ', out);
}

double json_get_number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

const char *json_get_text(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}
