/* Numbers for people, and the words that they meant. */
#include "api.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Three significant digits, never an exponent below 1e6. */
static void three_digits(double value, char *text, size_t size)
{
    int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    if (value != 0 && value < 0.995)
        decimals = value < 0.0995 ? 4 : 3;
    snprintf(text, size, "%.*f", decimals, value);
}

const char *remat_text_bytes(double bytes, char text[REMAT_TEXT_SIZE])
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t unit = 0;
    char number[REMAT_TEXT_SIZE - 8];
    if (isnan(bytes))
        return strcpy(text, "-");
    if (bytes < 999.5) {
        snprintf(text, REMAT_TEXT_SIZE, "%.0f B", bytes);
        return text;
    }
    for (bytes /= 1024; bytes >= 999.5 && unit + 1 < sizeof units / sizeof *units; unit++)
        bytes /= 1024;
    three_digits(bytes, number, sizeof number);
    snprintf(text, REMAT_TEXT_SIZE, "%s %s", number, units[unit]);
    return text;
}

const char *remat_text_seconds(double seconds, char text[REMAT_TEXT_SIZE])
{
    static const struct {
        double from, scale;
        const char *unit;
    } units[] = {{0.9995, 1, "s"}, {0.9995e-3, 1e3, "ms"}, {0.9995e-6, 1e6, "us"}, {0, 1e9, "ns"}};
    char number[REMAT_TEXT_SIZE - 8];
    size_t i = 0;
    if (isnan(seconds))
        return strcpy(text, "-");
    if (seconds == 0)
        return strcpy(text, "0 s");
    if (seconds < 0) { /* that only who made a mistake says */
        snprintf(text, REMAT_TEXT_SIZE, "%.3g s", seconds);
        return text;
    }
    if (seconds >= 1e15) {
        snprintf(text, REMAT_TEXT_SIZE, "%.3g s", seconds);
        return text;
    }
    while (seconds < units[i].from)
        i++;
    three_digits(seconds * units[i].scale, number, sizeof number);
    snprintf(text, REMAT_TEXT_SIZE, "%s %s", number, units[i].unit);
    return text;
}

const char *remat_text_time(double time, const char *unit, char text[REMAT_TEXT_SIZE])
{
    for (remat_time_unit u = REMAT_SECONDS; u < REMAT_UNITS; u++)
        if (strcmp(unit, remat_time_unit_name(u)) == 0)
            return remat_text_seconds(time * remat_time_unit_seconds(u), text);
    if (isnan(time))
        return strcpy(text, "-");
    snprintf(text, REMAT_TEXT_SIZE, "%.6g%s%.8s", time, unit[0] ? " " : "", unit);
    return text;
}

const char *remat_text_percent(double fraction, char text[REMAT_TEXT_SIZE])
{
    if (isnan(fraction))
        return strcpy(text, "-");
    double percent = 100 * fraction;
    snprintf(text, REMAT_TEXT_SIZE, "%.*f %%", fabs(percent) < 9.995 ? 2 : 1, percent);
    return text;
}

/* ---- words ---- */

remat_status remat_fail_solver(const char *word, remat_error *error)
{
    const char *names[REMAT_MAX_SOLVERS] = {"auto"};
    size_t n_solvers, n = 1;
    const remat_solver *const *solvers = remat_solvers(&n_solvers);
    for (size_t i = 0; i < n_solvers && n < REMAT_MAX_SOLVERS; i++)
        names[n++] = solvers[i]->name;
    return remat_fail_unknown("solver", "solver", word, names, n, error);
}
