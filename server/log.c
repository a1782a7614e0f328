#include "log.h"

#include "api.h"
#include "host/machine.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static const char *const names[] = {"error", "warning", "info", "debug"};
static _Atomic log_level most = LOG_INFO;

void log_set_level(log_level level)
{
    most = level;
}

bool log_level_named(const char *name, log_level *ret_level)
{
    for (int i = 0; i < 4; i++)
        if (strcmp(names[i], name) == 0) {
            *ret_level = (log_level)i;
            return true;
        }
    return false;
}

bool log_enabled(log_level level)
{
    return level <= most;
}

void log_line(log_level level, const char *message, json_t *fields)
{
    char time_text[32];
    if (level > most) {
        json_decref(fields);
        return;
    }
    remat_time_text(machine_clock(), time_text);
    json_t *line =
        json_pack("{s:s, s:s, s:s}", "time", time_text, "level", names[level], "message", message);
    if (fields && line)
        json_object_update(line, fields);
    json_decref(fields);
    char *text = line ? remat_json_text(line) : NULL;
    json_decref(line);
    if (!text)
        return;
    struct iovec parts[] = {{text, strlen(text)}, {(char *)"\n", 1}};
    if (writev(STDERR_FILENO, parts, 2) < 0) {
        /* Nobody reads the log; there is nowhere to say so. */
    }
    free(text);
}
