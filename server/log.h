/* Logs: one JSON object a line on stderr. Thread-safe; a line is one write(2), and nobody waits for
 * who reads them: what stderr does not take now is dropped and counted, and when it takes lines
 * again the first one says how many were. */
#ifndef REMAT_SERVER_LOG_H
#define REMAT_SERVER_LOG_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG } log_level;

/* Lines above this level are not written. */
void log_set_level(log_level level);
bool log_level_named(const char *name, log_level *ret_level);
bool log_enabled(log_level level);

/* Whether stderr takes a line now. */
bool log_is_taken(void);
/* Lines that were dropped since the start. */
uint64_t log_dropped(void);

/* {"time", "level", "message", ..fields}. fields may be NULL; the reference is taken. */
void log_line(log_level level, const char *message, json_t *fields);

#endif
