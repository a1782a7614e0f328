/* Errors are values. Every function of the library that can fail returns a remat_status and, when
 * the caller passes a remat_error, describes the failure there: which field, which number, in one
 * sentence that can be shown to a user. Output parameters (prefix ret_) are untouched on failure.
 * Nothing here allocates, prints or aborts; all of it may be called from any thread. */
#ifndef REMAT_STATUS_H
#define REMAT_STATUS_H

#include <stdint.h>

/* name, text */
#define REMAT_STATUS_MAP(X)                                                                        \
    X(OK, "success")                                                                               \
    X(INVALID, "the input is not valid")                                                           \
    X(NOT_ACCEPTED, "the solver does not accept this profile")                                     \
    X(INFEASIBLE, "no schedule fits the budget")                                                   \
    X(TOO_LARGE, "the work is past a stated limit")                                                \
    X(CANCELLED, "cancelled")                                                                      \
    X(NO_MEMORY, "out of memory")                                                                  \
    X(CORRUPT, "stored data is damaged")                                                           \
    X(NEWER, "data was written by a newer version")                                                \
    X(NOT_FOUND, "not found")                                                                      \
    X(IO, "input or output failed")                                                                \
    X(INTERNAL, "internal inconsistency")

typedef enum remat_status {
#define X(name, text) REMAT_##name,
    REMAT_STATUS_MAP(X)
#undef X
} remat_status;

#define REMAT_FIELD_SIZE 256
#define REMAT_MESSAGE_SIZE 768

typedef struct remat_error {
    remat_status status;
    char field[REMAT_FIELD_SIZE];     /* "nodes[3].forward_time"; empty when no field is to blame */
    char message[REMAT_MESSAGE_SIZE]; /* UTF-8, one sentence */
    uint64_t number; /* REMAT_INFEASIBLE: least budget in bytes that would do; else 0 */
    uint64_t proven; /* the same: it is proven that no budget of fewer bytes does; 0: nothing is */
} remat_error;

/* "INFEASIBLE" and "no schedule fits the budget"; static strings, never NULL. */
const char *remat_status_name(remat_status status);
const char *remat_status_text(remat_status status);

/* Fills *error (unless NULL) and returns status, so that a failing path reads
 * `return remat_fail(error, REMAT_INVALID, "budget", "...")`. field may be NULL. Text that does not
 * fit is cut at a character boundary. */
__attribute__((format(printf, 4, 5))) remat_status
remat_fail(remat_error *error, remat_status status, const char *field, const char *format, ...);

/* remat_fail for a failed allocation. */
remat_status remat_fail_memory(remat_error *error);

#endif
