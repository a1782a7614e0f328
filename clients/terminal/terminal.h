/* What commands share that people type and read: exit codes, files in and out, numbers as text, a
 * progress bar. Used by remat and remat-train.
 *
 * Not thread-safe where it writes to stderr. */
#ifndef REMAT_TERMINAL_H
#define REMAT_TERMINAL_H

#include "remat_client.h"

#include <stdio.h>

/* ---- exit_code.c: what a command tells its caller ---- */

enum {
    CLI_OK = 0,
    CLI_NO = 1,       /* the answer is no: nothing fits the budget, the schedule is not valid */
    CLI_USAGE = 2,    /* the command line is wrong */
    CLI_INPUT = 3,    /* a file, a profile or a request is not accepted */
    CLI_SERVER = 4,   /* the server cannot be reached or has no answer */
    CLI_INTERNAL = 5, /* out of memory, the output cannot be written, a bug */
    CLI_READER_LEFT = 141, /* who reads the output has gone; as shells count SIGPIPE */
    CLI_INTERRUPTED = 130  /* by Ctrl-C, as shells count it */
};

/* The one that goes with a failure. */
int exit_code_of(remat_status status);

/* ---- files.c ---- */

/* The JSON in a file, "-" being stdin; gzipped or not. REMAT_INVALID names the file, whatever is
 * wrong with it. */
remat_status file_read_json(const char *path, json_t **ret_json, remat_error *error);
/* What is wrong with what stands in a file, which the message then names: reason is of its content,
 * error may be the same. */
remat_status file_blame(const char *path, const char *field, const remat_error *reason,
                        remat_error *error);
/* The text of a file, the same way, without NUL inside; the caller's to free. */
remat_status file_read_text(const char *path, char **ret_text, remat_error *error);
/* Whether it could be written, before there is what to write; nothing is left of it. */
remat_status file_check_write(const char *path, remat_error *error);
remat_status file_write_text(const char *path, const char *text, remat_error *error);

/* ---- rules.c ---- */

/* A list of options is their names with spaces between; "* a b": all options but a and b. */
typedef struct option_rule {
    const char *options, *others, *why;
} option_rule;

enum { OPTIONS_MESSAGE = 256 };

/* The first of the n options given that is in the list and not in the other; NULL: there is none.
 */
const char *options_given(const char *const *given, size_t n, const char *list, const char *other);

/* None of the rule's options does anything beside one of the others. false: two that were given,
 * which the message names. */
bool options_exclude(const char *const *given, size_t n, const option_rule *rule,
                     char message[OPTIONS_MESSAGE]);

/* Each of the rule's options does nothing without one of the others. beside: for the message, as
 * " beside --plan", or "". */
bool options_need(const char *const *given, size_t n, const option_rule *rule, const char *beside,
                  char message[OPTIONS_MESSAGE]);

/* ---- progress.c ---- */

/* A line on stderr that is drawn over and over; nothing unless enabled, as it should be where
 * stderr is a terminal. */
struct progress {
    bool enabled, shown, ascii;
    double start, last; /* seconds */
};

void progress_begin(struct progress *progress, bool enabled, bool ascii);
void progress_draw(struct progress *progress, const char *label, double fraction);
void progress_end(struct progress *progress);
/* For remat_client_wait: draws how a job comes on; data is the struct progress. */
void progress_of_job(void *data, const remat_client_progress *job);

/* ---- text.c ---- */

/* Those of api.h, by shorter names. */
#define TEXT_SIZE REMAT_TEXT_SIZE
#define text_bytes remat_text_bytes
#define text_seconds remat_text_seconds
#define text_time remat_text_time
#define text_percent remat_text_percent
#define json_get_number remat_json_number
#define json_get_text remat_json_string

/* Columns that UTF-8 text takes, one per character. */
size_t text_columns(const char *text);
/* Prints text, padded to columns, or cut to them with an ellipsis at its end. */
void text_cell(FILE *out, const char *text, size_t columns);
/* Prints text without the control characters that could move the cursor. */
void text_safe(FILE *out, const char *text);
void text_safe_part(FILE *out, const char *text, size_t length);

#endif
