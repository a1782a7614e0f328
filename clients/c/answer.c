/* What an answer means. */
#include "client.h"

#include <stdlib.h>
#include <string.h>

void remat_client_answer_clear(remat_client_answer *answer)
{
    json_decref(answer->json);
    free(answer->text);
    *answer = (remat_client_answer){0};
}

/* ---- problems ---- */

static const struct {
    const char *path;
    remat_problem_type type;
} known[] = {
#define X(name, path, status, title) {path, REMAT_PROBLEM_##name},
    REMAT_PROBLEM_MAP(X)
#undef X
};

static remat_status status_of_type(remat_problem_type type)
{
    switch (type) {
    case REMAT_PROBLEM_INVALID_REQUEST:
    case REMAT_PROBLEM_INVALID_PROFILE:
    case REMAT_PROBLEM_MALFORMED:
    case REMAT_PROBLEM_LENGTH:
    case REMAT_PROBLEM_EXPECTATION:
    case REMAT_PROBLEM_MISDIRECTED:
    case REMAT_PROBLEM_VERSION:
    case REMAT_PROBLEM_METHOD_NOT_ALLOWED:
    case REMAT_PROBLEM_UNSUPPORTED_MEDIA_TYPE:
        return REMAT_INVALID;
    case REMAT_PROBLEM_NOT_FOUND:
        return REMAT_NOT_FOUND;
    case REMAT_PROBLEM_CANCELLED:
        return REMAT_CANCELLED;
    case REMAT_PROBLEM_TOO_LARGE:
    case REMAT_PROBLEM_HEAD_TOO_LARGE:
        return REMAT_TOO_LARGE;
    case REMAT_PROBLEM_INFEASIBLE_BUDGET:
        return REMAT_INFEASIBLE;
    case REMAT_PROBLEM_NOT_ACCEPTED:
        return REMAT_NOT_ACCEPTED;
    case REMAT_PROBLEM_UNAUTHORIZED:
    case REMAT_PROBLEM_FORBIDDEN:
    case REMAT_PROBLEM_FOREIGN_ORIGIN:
    case REMAT_PROBLEM_RATE_LIMITED:
    case REMAT_PROBLEM_INTERNAL:
    case REMAT_PROBLEM_STORAGE:
    case REMAT_PROBLEM_STORAGE_AWAY:
    case REMAT_PROBLEM_BUSY:
    case REMAT_PROBLEM_STOPPING:
        break;
    }
    return REMAT_IO;
}

/* Where the type is not known: a newer server, or a proxy. */
static remat_status status_of_http(long status)
{
    if (status == 404)
        return REMAT_NOT_FOUND;
    if (status == 413)
        return REMAT_TOO_LARGE;
    bool refused = status >= 400 && status < 500;
    bool access = status == 401 || status == 403 || status == 407 || status == 408 || status == 429;
    return refused && !access ? REMAT_INVALID : REMAT_IO;
}

static remat_status status_of_problem(const json_t *problem, long status)
{
    const char *type = json_string_value(json_object_get(problem, "type"));
    const char *last = type ? strrchr(type, '/') : NULL;
    for (size_t i = 0; last && i < sizeof known / sizeof *known; i++)
        if (strcmp(last + 1, known[i].path) == 0)
            return status_of_type(known[i].type);
    return status_of_http(status);
}

remat_status client_fail_by_problem(remat_client *client, const json_t *problem, long status,
                                    remat_error *error)
{
    const char *detail = json_string_value(json_object_get(problem, "detail"));
    const char *title = json_string_value(json_object_get(problem, "title"));
    remat_status code = status_of_problem(problem, status);
    json_decref(client->problem);
    client->problem = json_incref((json_t *)problem);
    remat_fail(error, code, json_string_value(json_object_get(problem, "field")), "%s",
               detail  ? detail
               : title ? title
                       : remat_status_text(code));
    json_int_t least = json_integer_value(json_object_get(problem, "minimum_budget"));
    json_int_t proven = json_integer_value(json_object_get(problem, "proven_minimum"));
    if (error && least > 0)
        error->number = (uint64_t)least;
    if (error && proven > 0)
        error->proven = (uint64_t)proven;
    return code;
}

/* ---- answers ---- */

static remat_status fail_without_problem(const remat_client *client, const client_request *request,
                                         const remat_client_answer *answer, remat_error *error)
{
    if (answer->status >= 300 && answer->status < 400)
        return remat_fail(
            error, REMAT_IO, NULL,
            "%.200s answered %s %.200s by a redirection (%ld), which is not followed; "
            "give the URL it leads to as the server",
            client->server, request->method, request->path, answer->status);
    /* A rematd says what is not found; another server does not know the call. */
    return remat_fail(
        error, answer->status == 404 ? REMAT_IO : status_of_http(answer->status), NULL,
        "%.200s answered %s %.200s by HTTP status %ld and no problem document; is it a "
        "remat server?",
        client->server, request->method, request->path, answer->status);
}

/* Turns the answer into JSON or into the failure it stands for. */
static remat_status understand(remat_client *client, const client_request *request,
                               remat_client_answer *answer, remat_error *error)
{
    bool good = answer->status >= 200 && answer->status < 300;
    if (good && answer->length == 0)
        return REMAT_OK;
    json_t *json = NULL;
    remat_error reason;
    remat_status status = remat_json_parse(answer->text, answer->length, &json, &reason);
    if (status == REMAT_NO_MEMORY)
        return remat_fail_memory(error);
    if (good && status)
        return remat_fail(error, REMAT_IO, NULL,
                          "%.200s answered %s %.200s by something that cannot be read: %.300s",
                          client->server, request->method, request->path, reason.message);
    if (good) {
        answer->json = json;
        return REMAT_OK;
    }
    if (json_is_object(json) && json_object_get(json, "title"))
        status = client_fail_by_problem(client, json, answer->status, error);
    else
        status = fail_without_problem(client, request, answer, error);
    json_decref(json);
    return status;
}

remat_status client_call(remat_client *client, const client_request *request,
                         remat_client_answer *ret_answer, remat_error *error)
{
    json_decref(client->problem);
    client->problem = NULL;
    remat_client_answer answer;
    remat_status status = client_exchange(client, request, &answer, error);
    if (status)
        return status;
    status = understand(client, request, &answer, error);
    if (status) {
        remat_client_answer_clear(&answer);
        return status;
    }
    *ret_answer = answer;
    return REMAT_OK;
}
