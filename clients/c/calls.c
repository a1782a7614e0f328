/* The calls that are one request each. */
#include "client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

remat_status remat_client_request(remat_client *client, const char *method, const char *path,
                                  const json_t *body, remat_client_answer *ret_answer,
                                  remat_error *error)
{
    char *text = body ? remat_json_text(body) : NULL;
    if (body && !text)
        return remat_fail_memory(error);
    client_request request = {
        .method = method, .path = path, .body = text, .length = text ? strlen(text) : 0};
    remat_status status = client_call(client, &request, ret_answer, error);
    free(text);
    return status;
}

/* Appends "?name=value" or "&name=value", the value escaped; NULL value: nothing. */
static remat_status add_parameter(remat_client *client, char **path, const char *name,
                                  const char *value, remat_error *error)
{
    if (!value)
        return REMAT_OK;
    char *escaped = curl_easy_escape(client->curl, value, 0), *longer = NULL;
    int length = escaped ? asprintf(&longer, "%s%c%s=%s", *path, strchr(*path, '?') ? '&' : '?',
                                    name, escaped)
                         : -1;
    curl_free(escaped);
    if (length < 0)
        return remat_fail_memory(error);
    free(*path);
    *path = longer;
    return REMAT_OK;
}

remat_status remat_client_profiles(remat_client *client, const char *name, const char *cursor,
                                   unsigned limit, remat_client_answer *ret_answer,
                                   remat_error *error)
{
    char number[16], *path = strdup("/v1/profiles");
    if (!path)
        return remat_fail_memory(error);
    snprintf(number, sizeof number, "%u", limit);
    remat_status status;
    if (!(status = add_parameter(client, &path, "name", name, error)) &&
        !(status = add_parameter(client, &path, "cursor", cursor, error)) &&
        !(status = add_parameter(client, &path, "limit", limit ? number : NULL, error)))
        status = remat_client_request(client, "GET", path, NULL, ret_answer, error);
    free(path);
    return status;
}

/* Ids of jobs need not be hashes, but none needs escaping. */
static bool is_plain(const char *id)
{
    size_t length = strlen(id);
    return length > 0 && length <= 100 &&
           strspn(id, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_") == length;
}

static remat_status by_id(remat_client *client, const char *method, const char *list,
                          const char *id, const char *part, remat_client_answer *ret_answer,
                          remat_error *error)
{
    char path[160];
    if (!is_plain(id))
        return remat_fail(error, REMAT_INVALID, NULL, "\"%.100s\" cannot be an id", id);
    snprintf(path, sizeof path, "/v1/%s/%s%s", list, id, part);
    return remat_client_request(client, method, path, NULL, ret_answer, error);
}

remat_status remat_client_get(remat_client *client, const char *list, const char *id,
                              const char *part, remat_client_answer *ret_answer, remat_error *error)
{
    return by_id(client, "GET", list, id, part, ret_answer, error);
}

remat_status remat_client_cancel_job(remat_client *client, const char *id,
                                     remat_client_answer *ret_answer, remat_error *error)
{
    return by_id(client, "DELETE", "jobs", id, "", ret_answer, error);
}

remat_status remat_client_solvers(remat_client *client, remat_client_answer *ret_answer,
                                  remat_error *error)
{
    return remat_client_request(client, "GET", "/v1/solvers", NULL, ret_answer, error);
}
