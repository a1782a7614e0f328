#include "api.h"

#include <string.h>

static const struct {
    const char *path, *title;
    int status;
} problems[] = {
#define X(name, path, status, title) {"/problems/" path, title, status},
    REMAT_PROBLEM_MAP(X)
#undef X
};

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
    case REMAT_OK:
    case REMAT_NO_MEMORY:
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
    return json;
}
