/* Words and amounts for people, in messages. */
#ifndef REMAT_WORDS_H
#define REMAT_WORDS_H

#include "remat/status.h"

#include <stddef.h>

/* The one of some words that a misspelt one was most likely meant to be; NULL: none is near. */
const char *remat_nearest(const char *word, const char *const *words, size_t n);

/* REMAT_INVALID of the field: there is no such thing ("model") of this name; which was meant, or
 * which there are. */
remat_status remat_fail_unknown(const char *field, const char *thing, const char *word,
                                const char *const *words, size_t n, remat_error *error);

/* "2.14 GiB (2292850432 bytes)"; "500 bytes" below a KiB. Returns text. */
#define REMAT_BYTES_TEXT_SIZE 56
const char *remat_bytes_text(uint64_t bytes, char text[REMAT_BYTES_TEXT_SIZE]);

#endif
