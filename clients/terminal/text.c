/* Numbers and text for people. */
#include "terminal.h"

#include <string.h>

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

void text_safe_part(FILE *out, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        putc((unsigned char)text[i] < ' ' || text[i] == 0x7f ? '?' : text[i], out);
}

void text_safe(FILE *out, const char *text)
{
    text_safe_part(out, text, strlen(text));
}

void text_cell(FILE *out, const char *text, size_t columns)
{
    size_t length = 0, used = 0;
    bool cut = text_columns(text) > columns && columns > 0;
    size_t whole = columns - cut;
    while (text[length] && (used < whole || is_continuation(text[length]))) {
        length++;
        while (is_continuation(text[length]))
            length++;
        used++;
    }
    text_safe_part(out, text, length);
    if (cut)
        fputs("…", out);
    for (used += cut; used < columns; used++)
        putc(' ', out);
}
