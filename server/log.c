#include "log.h"

#include "api.h"
#include "host/machine.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char *const names[] = {"error", "warning", "info", "debug"};
static _Atomic log_level most = LOG_INFO;
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER; /* of a poll and its write */
static atomic_uint_fast64_t dropped;
static uint64_t told; /* of them; under writing */

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

uint64_t log_dropped(void)
{
    return atomic_load(&dropped);
}

/* NULL: no memory. With its newline; takes fields. */
static char *line_text(log_level level, const char *message, json_t *fields)
{
    char time_text[32];
    remat_time_text(machine_clock(), time_text);
    json_t *line =
        json_pack("{s:s, s:s, s:s}", "time", time_text, "level", names[level], "message", message);
    if (fields && line)
        json_object_update(line, fields);
    json_decref(fields);
    char *text = line ? remat_json_text(line) : NULL, *whole = NULL;
    json_decref(line);
    if (text && asprintf(&whole, "%s\n", text) < 0)
        whole = NULL;
    free(text);
    return whole;
}

bool log_is_taken(void)
{
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) == 1 && (out.revents & POLLOUT);
}

/* A pipe that is writable takes PIPE_BUF bytes at once, and so do terminals and sockets; for more a
 * slow reader might have to be waited for. A file takes all. */
static bool write_now(const char *text)
{
    struct stat out;
    size_t length = strlen(text);
    if (!log_is_taken() ||
        (length > PIPE_BUF && (fstat(STDERR_FILENO, &out) != 0 || !S_ISREG(out.st_mode))))
        return false;
    return write(STDERR_FILENO, text, length) == (ssize_t)length;
}

/* Once they are taken again. */
static bool tell_dropped(void)
{
    uint64_t now = atomic_load(&dropped);
    if (now == told)
        return true;
    char *text = line_text(LOG_WARNING, "log lines were dropped: nobody read them",
                           json_pack("{s:I}", "lines", (json_int_t)(now - told)));
    bool written = text && write_now(text);
    if (written)
        told = now;
    free(text);
    return written;
}

void log_line(log_level level, const char *message, json_t *fields)
{
    if (level > most) {
        json_decref(fields);
        return;
    }
    char *text = line_text(level, message, fields);
    pthread_mutex_lock(&writing);
    if (!text || !tell_dropped() || !write_now(text))
        atomic_fetch_add(&dropped, 1);
    pthread_mutex_unlock(&writing);
    free(text);
}
