#include "explain/story.h"

#include <stdarg.h>
#include <stdlib.h>

void explain_begin(story *s)
{
    s->sentence = NULL;
    s->out = open_memstream(&s->sentence, &s->length);
    s->failed |= !s->out;
}

void explain_say(story *s, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (s->out && vfprintf(s->out, format, arguments) < 0)
        s->failed = true;
    va_end(arguments);
}

void explain_finish(story *s, const char *topic)
{
    s->failed |= !s->out || fclose(s->out);
    s->out = NULL;
    if (!s->failed)
        remat_json_append(&s->sentences,
                          json_pack("{s:s, s:s}", "topic", topic, "text", s->sentence));
    free(s->sentence);
    s->sentence = NULL;
}

void explain_bytes(story *s, double bytes)
{
    char text[REMAT_TEXT_SIZE];
    explain_say(s, "%s", remat_text_bytes(bytes, text));
}

void explain_time(story *s, double time)
{
    char text[REMAT_TEXT_SIZE];
    explain_say(s, "%s", remat_text_time(time, s->unit, text));
}

void explain_percent(story *s, double fraction)
{
    char text[REMAT_TEXT_SIZE];
    explain_say(s, "%s", remat_text_percent(fraction, text));
}

void explain_set(story *s, const char *name, json_t *value)
{
    remat_json_set(&s->answer, name, value);
}
