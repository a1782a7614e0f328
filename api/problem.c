#include "api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *path, *title;
    int status;
} problems[] = {
#define X(name, path, status, title) {"/problems/" path, title, status},
    REMAT_PROBLEM_MAP(X)
#undef X
};

static const char *const meanings[] = {
    [REMAT_PROBLEM_INVALID_REQUEST] =
        "A field or a parameter of the request is missing, misspelt, of the wrong type or out of "
        "range. detail says which and what it must be, field is its name in JSON terms. The same "
        "request fails again.",
    [REMAT_PROBLEM_MALFORMED] =
        "The head of the request breaks HTTP: two hosts, a length that is no number, a coding that "
        "is not spoken. The connection is closed. Look at the client or at what stands between.",
    [REMAT_PROBLEM_INVALID_PROFILE] =
        "The profile breaks its format: an unknown field, a cycle, a size that is no whole number. "
        "detail names the node and the number. 'remat profile check FILE' finds the same without a "
        "server.",
    [REMAT_PROBLEM_UNAUTHORIZED] =
        "The server was started with tokens, and none that it knows came in Authorization: Bearer. "
        "The command and the libraries take it from REMAT_TOKEN.",
    [REMAT_PROBLEM_FORBIDDEN] = "The token is known but lacks the scope: read for GET, solve for "
                                "POST, admin for DELETE and "
                                "for the jobs of others.",
    [REMAT_PROBLEM_FOREIGN_ORIGIN] =
        "A browser sent this for a page of another origin, which may read but not change anything.",
    [REMAT_PROBLEM_NOT_FOUND] =
        "There is no such path, or nothing stored under this id. A profile may have been deleted: "
        "post it again, its id stays.",
    [REMAT_PROBLEM_METHOD_NOT_ALLOWED] = "The path is there, for the methods that Allow names.",
    [REMAT_PROBLEM_CANCELLED] =
        "Somebody cancelled the job that was waited for. Ask again and it is solved anew.",
    [REMAT_PROBLEM_LENGTH] = "A body came with neither Content-Length nor chunked coding.",
    [REMAT_PROBLEM_TOO_LARGE] =
        "The body, the profile or the estimate of the work is past a limit that the operator set; "
        "detail has both numbers. Ask for less: fewer slots, fewer points, a cheaper solver.",
    [REMAT_PROBLEM_UNSUPPORTED_MEDIA_TYPE] =
        "Bodies are application/json in UTF-8, as they are or in gzip or zstd.",
    [REMAT_PROBLEM_EXPECTATION] = "The only expectation that is met is 100-continue.",
    [REMAT_PROBLEM_MISDIRECTED] =
        "Host names another server than this one. The operator adds names with --hosts; behind a "
        "proxy, let it send the host that the client asked for.",
    [REMAT_PROBLEM_INFEASIBLE_BUDGET] =
        "No schedule that the solver knows fits the budget. minimum_budget would do. Without "
        "addresses (\"layout\": false), with another solver or with a link to the host less may.",
    [REMAT_PROBLEM_NOT_ACCEPTED] =
        "The solver is for another shape of graph, for equal costs only, or needs a link. detail "
        "names the node that breaks it; auto asks those that accept.",
    [REMAT_PROBLEM_RATE_LIMITED] =
        "The client sends more requests, or has more unfinished solves, than it may. Retry-After "
        "says when to come again.",
    [REMAT_PROBLEM_HEAD_TOO_LARGE] = "The first line and the fields of the head take too much.",
    [REMAT_PROBLEM_INTERNAL] =
        "Something failed that should not, and the log has it under this X-Request-Id. No schedule "
        "that was not replayed is ever answered.",
    [REMAT_PROBLEM_STORAGE] =
        "What the store gave back is damaged or of a newer version; the log says what.",
    [REMAT_PROBLEM_STORAGE_AWAY] =
        "The store cannot be reached or written now: a full disk, a database that restarts. Ask "
        "again after Retry-After.",
    [REMAT_PROBLEM_BUSY] = "The queue of solves or the memory for requests is full, or the system "
                           "gave no more memory. Ask again after Retry-After.",
    [REMAT_PROBLEM_STOPPING] =
        "The server is about to end. Ask again: another takes its place, and jobs go on.",
    [REMAT_PROBLEM_VERSION] = "HTTP/1.0 and 1.1 are spoken.",
};
_Static_assert(sizeof meanings / sizeof *meanings == sizeof problems / sizeof *problems,
               "every problem has a meaning");

char *remat_problem_text(const char *path)
{
    char *text = NULL;
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        if (strcmp(problems[i].path + strlen("/problems/"), path) == 0 &&
            asprintf(&text, "%s (HTTP %d)\n\n%s\n", problems[i].title, problems[i].status,
                     meanings[i]) < 0)
            return NULL;
    return text;
}

int remat_problem_status(remat_problem_type type)
{
    return problems[type].status;
}

remat_problem_type remat_problem_of(const remat_error *error)
{
    switch (error->status) {
    case REMAT_INVALID:
        return REMAT_PROBLEM_INVALID_REQUEST;
    case REMAT_NOT_ACCEPTED:
        return REMAT_PROBLEM_NOT_ACCEPTED;
    case REMAT_INFEASIBLE:
        return REMAT_PROBLEM_INFEASIBLE_BUDGET;
    case REMAT_TOO_LARGE:
        return REMAT_PROBLEM_TOO_LARGE;
    case REMAT_CANCELLED:
        return REMAT_PROBLEM_CANCELLED;
    case REMAT_NOT_FOUND:
        return REMAT_PROBLEM_NOT_FOUND;
    case REMAT_IO:
        return REMAT_PROBLEM_STORAGE_AWAY;
    case REMAT_CORRUPT:
    case REMAT_NEWER:
        return REMAT_PROBLEM_STORAGE;
    case REMAT_NO_MEMORY:
        return REMAT_PROBLEM_BUSY;
    case REMAT_OK:
    case REMAT_INTERNAL:
        break;
    }
    return REMAT_PROBLEM_INTERNAL;
}

json_t *remat_problem_encode(remat_problem_type type, const remat_error *error)
{
    json_t *json = json_pack("{s:s, s:s, s:i}", "type", problems[type].path, "title",
                             problems[type].title, "status", problems[type].status);
    if (error && error->message[0])
        remat_json_set(&json, "detail", json_string(error->message));
    if (error && error->field[0])
        remat_json_set(&json, "field", json_string(error->field));
    if (type == REMAT_PROBLEM_INFEASIBLE_BUDGET && error && error->number)
        remat_json_set(&json, "minimum_budget", json_integer((json_int_t)error->number));
    if (type == REMAT_PROBLEM_INFEASIBLE_BUDGET && error && error->proven)
        remat_json_set(&json, "proven_minimum", json_integer((json_int_t)error->proven));
    return json;
}
