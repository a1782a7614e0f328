/* Logs: one JSON object a line on stderr. Thread-safe; a line is one write(2). */
#ifndef REMAT_SERVER_LOG_H
#define REMAT_SERVER_LOG_H

#include <jansson.h>
#include <stdbool.h>

typedef enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG } log_level;

/* Lines above this level are not written. */
void log_set_level(log_level level);
bool log_level_named(const char *name, log_level *ret_level);
bool log_enabled(log_level level);

/* {"time", "level", "message", ..fields}. fields may be NULL; the reference is taken. */
void log_line(log_level level, const char *message, json_t *fields);

#endif
