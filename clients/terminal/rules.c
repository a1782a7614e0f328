/* Which options go together. */
#include "terminal.h"

#include <string.h>

static bool is_named(const char *list, const char *name)
{
    const bool all_but = *list == '*';
    const size_t length = strlen(name);
    for (list += all_but; *list; list += strcspn(list, " ")) {
        list += strspn(list, " ");
        if (strncmp(list, name, length) == 0 && (list[length] == ' ' || !list[length]))
            return !all_but;
    }
    return all_but;
}

const char *options_given(const char *const *given, size_t n, const char *list, const char *other)
{
    for (size_t i = 0; i < n; i++)
        if (is_named(list, given[i]) && !is_named(other, given[i]))
            return given[i];
    return NULL;
}

bool options_exclude(const char *const *given, size_t n, const option_rule *rule,
                     char message[OPTIONS_MESSAGE])
{
    const char *option = options_given(given, n, rule->options, "");
    const char *other = option ? options_given(given, n, rule->others, rule->options) : NULL;
    if (other)
        snprintf(message, OPTIONS_MESSAGE, "--%s does nothing beside --%s: %s", other, option,
                 rule->why);
    return !other;
}

/* "json profile-only calibrate" as "--json, --profile-only or --calibrate". */
static void write_choice(const char *list, char *to, size_t room)
{
    *to = '\0';
    for (const char *at = list; *at; at += strspn(at, " ")) {
        const int word = (int)strcspn(at, " ");
        const char *before = at == list ? "" : at[word] ? ", " : " or ";
        const size_t length = strlen(to);
        snprintf(to + length, room - length, "%s--%.*s", before, word, at);
        at += word;
    }
}

bool options_need(const char *const *given, size_t n, const option_rule *rule, const char *beside,
                  char message[OPTIONS_MESSAGE])
{
    char choice[100];
    const char *option = options_given(given, n, rule->options, "");
    if (!option || options_given(given, n, rule->others, ""))
        return true;
    write_choice(rule->others, choice, sizeof choice);
    snprintf(message, OPTIONS_MESSAGE, "--%s%s needs %s: %s", option, beside, choice, rule->why);
    return false;
}
