/* Filling in the reply of a request. Any thread that works for the request. */
#ifndef REMAT_SERVER_REPLY_H
#define REMAT_SERVER_REPLY_H

#include "http/http.h"
#include "metrics.h"

/* Takes the body; NULL becomes a problem. */
void reply_body(request *r, int status, body *b);
/* 200 with a static JSON document, of which *kept is the body from the first time on; on the loop.
 */
void reply_document(request *r, body **kept, const char *document, size_t length);

void reply_problem(request *r, remat_problem_type type, const remat_error *error);
/* The problem that a failed call amounts to. */
void reply_error(request *r, const remat_error *error);
/* The same of a request whose body is, or holds, a profile: its own kind of problem. */
void reply_profile_error(request *r, const remat_error *error, bool whole_body);
/* A problem of its own: field ("": none) and what is wrong, cut at the end where it is too long. Of
 * what may be over soon Retry-After is said as well. What reply there was is dropped. Always false.
 */
__attribute__((format(printf, 4, 5))) bool reply_refuse(request *r, remat_problem_type type,
                                                        const char *field, const char *format, ...);
/* 503: other requests have the memory. */
bool reply_busy(request *r);

/* The answer to a question, with what caches need to know. Takes the body. */
void reply_answer(request *r, remat_request_kind kind, const char *id, body *b, cache_result cache);
/* The reply, already filled, never changes for this id. */
void reply_immutable(request *r, const char *id);

/* {name: list, "next": cursor or null}; takes the list. */
void reply_page(request *r, const char *name, json_t *list, const char *next);

#endif
