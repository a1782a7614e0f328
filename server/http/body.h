/* Finished bodies of answers: immutable bytes, also compressed, shared by everyone who sends them.
 */
#ifndef REMAT_SERVER_BODY_H
#define REMAT_SERVER_BODY_H

#include "api.h"

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

typedef enum body_coding { BODY_IDENTITY, BODY_GZIP, BODY_ZSTD, BODY_CODINGS } body_coding;

typedef struct body {
    atomic_uint references;
    char *data[BODY_CODINGS]; /* NULL where there is none */
    size_t length[BODY_CODINGS];
} body;

/* Takes text (malloc'ed, freed on failure too). Bodies over 1 KiB are compressed as well, each
 * coding that makes them smaller, if compress says so. NULL: out of memory. */
body *body_new(char *text, size_t length, bool compress);

/* The text of json, whose reference is taken; NULL json gives NULL. */
body *body_from_json(json_t *json, bool compress);

body *body_retain(body *b);
void body_release(body *b); /* accepts NULL */
size_t body_cost(const body *b);

/* Looks through a request body of coding "gzip" or "zstd" in constant memory: its decoded length,
 * at most limit (REMAT_TOO_LARGE beyond; REMAT_INVALID for damaged data or another coding), and
 * what scan finds in it. */
remat_status body_measure(const char *coding, const char *data, size_t length, size_t limit,
                          remat_json_scan *scan, size_t *ret_length, remat_error *error);

/* Decodes such a body, of which body_measure said how long it is, into malloc'ed bytes. */
remat_status body_decode(const char *coding, const char *data, size_t length, size_t decoded,
                         char **ret_data, remat_error *error);

#endif
