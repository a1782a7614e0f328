#include "http/reply.h"

#include "service.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RETRY_SECONDS = 2,
    LARGE_ANSWER = 1 << 20 /* bytes: counted until it has gone */
};

void reply_body(request *r, int status, body *b)
{
    if (!b) {
        remat_error error;
        remat_fail_memory(&error);
        reply_error(r, &error);
        return;
    }
    r->reply.status = status;
    r->reply.body = b;
}

void reply_document(request *r, body **kept, const char *document, size_t length)
{
    char *copy = *kept ? NULL : malloc(length + 1);
    if (copy)
        *kept = body_new(memcpy(copy, document, length + 1), length, true);
    reply_body(r, 200, body_retain(*kept));
}

void reply_problem(request *r, remat_problem_type type, const remat_error *error)
{
    r->reply = (reply){.status = remat_problem_status(type),
                       .body = body_from_json(remat_problem_encode(type, error), false),
                       .content_type = "application/problem+json",
                       .retry_after = remat_problem_status(type) == 503 ? RETRY_SECONDS : 0};
}

void reply_error(request *r, const remat_error *error)
{
    if (engine_is_busy(error))
        reply_refuse(r, REMAT_PROBLEM_BUSY, "", "%s", error->message);
    else
        reply_problem(r, remat_problem_of(error), error);
}

void reply_profile_error(request *r, const remat_error *error, bool whole_body)
{
    bool profile =
        error->status == REMAT_INVALID && (whole_body || strncmp(error->field, "profile.", 8) == 0);
    if (profile)
        reply_problem(r, REMAT_PROBLEM_INVALID_PROFILE, error);
    else
        reply_error(r, error);
}

bool reply_refuse(request *r, remat_problem_type type, const char *field, const char *format, ...)
{
    remat_error error = {.status = REMAT_INVALID};
    va_list arguments;
    snprintf(error.field, sizeof error.field, "%s", field);
    va_start(arguments, format);
    vsnprintf(error.message, sizeof error.message, format, arguments);
    va_end(arguments);
    body_release(r->reply.body);
    reply_problem(r, type, &error);
    return false;
}

bool reply_busy(request *r)
{
    return reply_refuse(r, REMAT_PROBLEM_BUSY, "",
                        "the bodies of other requests take the memory that there is for them");
}

void reply_immutable(request *r, const char *id)
{
    r->reply.immutable = true;
    snprintf(r->reply.etag, sizeof r->reply.etag, "\"%.64s\"", id);
}

void reply_answer(request *r, remat_request_kind kind, const char *id, body *b, cache_result cache)
{
    static const char *const names[] = {"hit", "table", "miss"};
    bool posted = strcmp(r->method, "POST") == 0;
    size_t cost = b ? body_cost(b) : 0;
    if (cost > LARGE_ANSWER && !memory_take(r->service->memory, MEMORY_WORK, cost)) {
        body_release(b);
        reply_busy(r);
        return;
    }
    r->answer_held = cost > LARGE_ANSWER ? cost : 0;
    reply_body(r, 200, b);
    if (r->reply.status != 200)
        return;
    r->reply.cache = names[cache];
    if (kind != REMAT_ASK_SCHEDULE)
        return;
    if (posted)
        atomic_fetch_add(&r->service->metrics.schedules[cache], 1);
    reply_immutable(r, id);
    r->reply.immutable = !posted;
    snprintf(r->reply.location, sizeof r->reply.location, "/v1/schedules/%s", id);
}

void reply_page(request *r, const char *name, json_t *list, const char *next)
{
    reply_body(r, 200, body_from_json(json_pack("{s:o, s:s?}", name, list, "next", next), true));
}
