#include "remat/words.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool same_letter(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Letters to change, put in, take out or swap with the next one, up to a limit of 3. */
static unsigned distance(const char *a, const char *b)
{
    enum { MOST = 40 };
    unsigned rows[3][MOST + 1] = {{0}};
    size_t m = strlen(a), n = strlen(b);
    if (m > MOST || n > MOST || (m > n ? m - n : n - m) > 2)
        return 3;
    for (size_t k = 0; k <= n; k++)
        rows[0][k] = (unsigned)k;
    for (size_t i = 1; i <= m; i++) {
        unsigned *now = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        now[0] = (unsigned)i;
        for (size_t k = 1; k <= n; k++) {
            unsigned least = last[k - 1] + !same_letter(a[i - 1], b[k - 1]);
            least = last[k] + 1 < least ? last[k] + 1 : least;
            least = now[k - 1] + 1 < least ? now[k - 1] + 1 : least;
            if (i > 1 && k > 1 && same_letter(a[i - 1], b[k - 2]) &&
                same_letter(a[i - 2], b[k - 1]) && before[k - 2] + 1 < least)
                least = before[k - 2] + 1;
            now[k] = least;
        }
    }
    return rows[m % 3][n] < 3 ? rows[m % 3][n] : 3;
}

static bool begins_with(const char *text, const char *beginning)
{
    while (*beginning && same_letter(*text, *beginning)) {
        text++;
        beginning++;
    }
    return !*beginning;
}

const char *remat_nearest(const char *word, const char *const *words, size_t n)
{
    size_t length = strlen(word), best = n;
    unsigned least = length < 4 ? 2 : 3;
    for (size_t i = 0; i < n; i++) {
        unsigned d = distance(word, words[i]);
        if (length >= 3 && d > 1 && begins_with(words[i], word))
            d = 1;
        if (d < least) {
            least = d;
            best = i;
        }
    }
    return best < n ? words[best] : NULL;
}

remat_status remat_fail_unknown(const char *field, const char *thing, const char *word,
                                const char *const *words, size_t n, remat_error *error)
{
    char list[REMAT_MESSAGE_SIZE / 2] = "";
    const char *meant = remat_nearest(word, words, n);
    if (meant)
        return remat_fail(error, REMAT_INVALID, field, "there is no %s \"%.60s\"; did you mean %s?",
                          thing, word, meant);
    for (size_t i = 0; i < n; i++) {
        const size_t length = strlen(list);
        snprintf(list + length, sizeof list - length, "%s%s", i ? ", " : "", words[i]);
    }
    return remat_fail(error, REMAT_INVALID, field, "there is no %s \"%.60s\"; known are %s", thing,
                      word, list);
}

const char *remat_bytes_text(uint64_t bytes, char text[REMAT_BYTES_TEXT_SIZE])
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t unit = 0;
    double value = (double)bytes / 1024;
    for (; value >= 999.5 && unit + 1 < sizeof units / sizeof *units; unit++)
        value /= 1024;
    if (bytes < 1024)
        snprintf(text, REMAT_BYTES_TEXT_SIZE, "%u byte%s", (unsigned)bytes, bytes == 1 ? "" : "s");
    else
        snprintf(text, REMAT_BYTES_TEXT_SIZE, "%.*f %s (%llu bytes)",
                 value < 9.995   ? 2
                 : value < 99.95 ? 1
                                 : 0,
                 value, units[unit], (unsigned long long)bytes);
    return text;
}
