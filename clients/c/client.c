/* The handle: settings, the server's URL, waiting. */
#include "client.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DEFAULT_CONNECT_TIMEOUT 5.0
#define DEFAULT_TIMEOUT 60.0
#define DEFAULT_PATIENCE 30.0
#define DEFAULT_MAX_ANSWER ((size_t)256 << 20)
#define SLEEP_SLICE 0.05 /* seconds between two looks at `cancelled` */

double client_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

remat_status client_sleep(remat_client *client, double seconds, remat_error *error)
{
    double end = client_clock() + seconds;
    for (double left = seconds; left > 0; left = end - client_clock()) {
        if (client->cancelled && client->cancelled(client->data))
            return remat_fail(error, REMAT_CANCELLED, NULL, "cancelled");
        double slice = left < SLEEP_SLICE ? left : SLEEP_SLICE;
        struct timespec pause = {.tv_nsec = (long)(slice * 1e9)};
        nanosleep(&pause, NULL);
    }
    return REMAT_OK;
}

/* ---- the URL ---- */

static bool is_loopback(const char *host)
{
    return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
           strcmp(host, "[::1]") == 0;
}

/* Whether the URL has a part that a server's address cannot have; its name in *ret_name. */
static bool has_forbidden_part(CURLU *url, const char **ret_name)
{
    static const struct {
        CURLUPart part;
        const char *name;
    } parts[] = {{CURLUPART_USER, "a user name (give the token in REMAT_TOKEN)"},
                 {CURLUPART_QUERY, "a query"},
                 {CURLUPART_FRAGMENT, "a fragment"}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char *value = NULL;
        if (curl_url_get(url, parts[i].part, &value, 0) == CURLUE_OK) {
            curl_free(value);
            *ret_name = parts[i].name;
            return true;
        }
    }
    return false;
}

/* Takes scheme, host and the whole text out of a parsed URL. */
static remat_status take_url(remat_client *client, CURLU *url, const char *text, remat_error *error)
{
    char *scheme = NULL, *host = NULL, *whole = NULL;
    remat_status status = REMAT_OK;
    CURLUcode code = curl_url_get(url, CURLUPART_SCHEME, &scheme, 0);
    if (!code)
        code = curl_url_get(url, CURLUPART_HOST, &host, 0);
    if (!code)
        code = curl_url_get(url, CURLUPART_URL, &whole, 0);
    if (code == CURLUE_OUT_OF_MEMORY) {
        status = remat_fail_memory(error);
    } else if (code || (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0)) {
        status = remat_fail(error, REMAT_INVALID, "server",
                            "the server \"%.200s\" must begin with http:// or https://", text);
    } else {
        for (size_t end = strlen(whole); end > 0 && whole[end - 1] == '/'; end--)
            whole[end - 1] = '\0';
        client->loopback = is_loopback(host);
        client->server = strdup(whole);
        if (!client->server)
            status = remat_fail_memory(error);
    }
    curl_free(scheme);
    curl_free(host);
    curl_free(whole);
    return status;
}

static remat_status set_server(remat_client *client, const char *text, remat_error *error)
{
    CURLU *url = curl_url();
    if (!url)
        return remat_fail_memory(error);
    remat_status status = REMAT_OK;
    const char *name;
    char *whole = NULL;                             /* "localhost:7070" is http */
    if (text[strspn(text, "0123456789")] == '\0') { /* which would be an address in one number */
        curl_url_cleanup(url);
        return remat_fail(error, REMAT_INVALID, "server",
                          "the server \"%.200s\" has no host; it must be like localhost:7070",
                          text);
    }
    if (asprintf(&whole, "%s%s", strstr(text, "://") ? "" : "http://", text) < 0) {
        curl_url_cleanup(url);
        return remat_fail_memory(error);
    }
    CURLUcode code = curl_url_set(url, CURLUPART_URL, whole, 0);
    free(whole);
    if (code == CURLUE_OUT_OF_MEMORY)
        status = remat_fail_memory(error);
    else if (code)
        status = remat_fail(error, REMAT_INVALID, "server",
                            "the server \"%.200s\" is not a URL like " REMAT_CLIENT_DEFAULT_SERVER
                            ": %s",
                            text, curl_url_strerror(code));
    else if (has_forbidden_part(url, &name))
        status = remat_fail(error, REMAT_INVALID, "server",
                            "the URL of the server must not have %s", name);
    else
        status = take_url(client, url, text, error);
    curl_url_cleanup(url);
    return status;
}

/* ---- the handle ---- */

static remat_status add_header(remat_client *client, const char *header, remat_error *error)
{
    struct curl_slist *longer = curl_slist_append(client->headers, header);
    if (!longer)
        return remat_fail_memory(error);
    client->headers = longer;
    return REMAT_OK;
}

static bool is_token(const char *text)
{
    for (const char *c = text; *c; c++)
        if (*c <= ' ' || *c > '~')
            return false;
    return true;
}

static remat_status add_token(remat_client *client, const char *token, remat_error *error)
{
    if (!is_token(token))
        return remat_fail(error, REMAT_INVALID, "token",
                          "the token has a space or a character that is not ASCII");
    char *header = NULL;
    if (asprintf(&header, "Authorization: Bearer %s", token) < 0)
        return remat_fail_memory(error);
    remat_status status = add_header(client, header, error);
    free(header);
    return status;
}

static remat_status add_request_id(remat_client *client, const char *id, remat_error *error)
{
    char header[96];
    if (!is_token(id) || strlen(id) > 64)
        return remat_fail(error, REMAT_INVALID, "request_id",
                          "the request_id is longer than 64 characters or not plain");
    snprintf(header, sizeof header, "X-Request-Id: %s", id);
    return add_header(client, header, error);
}

static remat_status add_headers(remat_client *client, const char *token, remat_error *error)
{
    static const char *const fixed[] = {
        "Content-Type: application/json", "Accept: application/json, application/problem+json",
        "Expect:" /* else libcurl waits a second before it sends a large body */
    };
    remat_status status = REMAT_OK;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed && !status; i++)
        status = add_header(client, fixed[i], error);
    if (!status && token && token[0])
        status = add_token(client, token, error);
    return status;
}

static const char *or_environment(const char *given, const char *variable)
{
    if (given)
        return given;
    const char *value = getenv(variable);
    return value && value[0] ? value : NULL;
}

static remat_status check_seconds(double seconds, const char *field, remat_error *error)
{
    if (seconds >= 0 && seconds <= 1e6)
        return REMAT_OK;
    return remat_fail(error, REMAT_INVALID, field, "%s is %g; it must be from 0 to 1e6 seconds",
                      field, seconds);
}

static remat_status configure(remat_client *client, const remat_client_settings *settings,
                              remat_error *error)
{
    remat_status status;
    if ((status = check_seconds(settings->timeout, "timeout", error)) ||
        (status = check_seconds(settings->connect_timeout, "connect_timeout", error)))
        return status;
    client->connect_timeout =
        settings->connect_timeout > 0 ? settings->connect_timeout : DEFAULT_CONNECT_TIMEOUT;
    client->timeout = settings->timeout > 0 ? settings->timeout : DEFAULT_TIMEOUT;
    client->patience = settings->patience == 0 ? DEFAULT_PATIENCE : settings->patience;
    client->max_answer = settings->max_answer ? settings->max_answer : DEFAULT_MAX_ANSWER;
    client->cancelled = settings->cancelled;
    client->data = settings->data;
    const char *server = or_environment(settings->server, "REMAT_SERVER");
    if ((status = set_server(client, server ? server : REMAT_CLIENT_DEFAULT_SERVER, error)) ||
        (status = add_headers(client, or_environment(settings->token, "REMAT_TOKEN"), error)) ||
        (settings->request_id && (status = add_request_id(client, settings->request_id, error))))
        return status;
    client->curl = curl_easy_init();
    return client->curl ? REMAT_OK : remat_fail_memory(error);
}

remat_status remat_client_new(const remat_client_settings *settings, remat_client **ret_client,
                              remat_error *error)
{
    static const remat_client_settings defaults;
    if (curl_global_init(CURL_GLOBAL_DEFAULT))
        return remat_fail(error, REMAT_INTERNAL, NULL, "libcurl cannot be initialised");
    remat_client *client = calloc(1, sizeof *client);
    if (!client) {
        curl_global_cleanup();
        return remat_fail_memory(error);
    }
    remat_status status = configure(client, settings ? settings : &defaults, error);
    if (status) {
        remat_client_free(client);
        return status;
    }
    *ret_client = client;
    return REMAT_OK;
}

void remat_client_free(remat_client *client)
{
    if (!client)
        return;
    curl_easy_cleanup(client->curl);
    curl_slist_free_all(client->headers);
    json_decref(client->problem);
    free(client->server);
    free(client);
    curl_global_cleanup();
}

const char *remat_client_server(const remat_client *client)
{
    return client->server;
}

const json_t *remat_client_problem(const remat_client *client)
{
    return client->problem;
}
