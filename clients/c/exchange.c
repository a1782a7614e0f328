/* One request and its answer, asked again when the server is busy. */
#include "client.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_PAUSE 0.25 /* seconds, doubled each time, where Retry-After says nothing */
#define LONGEST_PAUSE 8.0
#define SHORTEST_ATTEMPT 0.001 /* libcurl knows no shorter limit */
#define MAX_ATTEMPTS 10

typedef struct reception {
    char *text;
    size_t length, capacity, limit;
    bool no_memory, too_long;
} reception;

static size_t receive(char *bytes, size_t size, size_t count, void *context)
{
    reception *r = context;
    size_t n = size * count;
    if (n > r->limit - r->length) {
        r->too_long = true;
        return 0;
    }
    if (r->capacity - r->length < n + 1) {
        size_t capacity = 2 * (r->length + n) + 1024;
        char *larger = realloc(r->text, capacity);
        if (!larger) {
            r->no_memory = true;
            return 0;
        }
        r->text = larger;
        r->capacity = capacity;
    }
    memcpy(r->text + r->length, bytes, n);
    r->length += n;
    r->text[r->length] = '\0';
    return n;
}

static int watch(void *context, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    (void)a, (void)b, (void)c, (void)d;
    remat_client *client = context;
    return client->cancelled && client->cancelled(client->data);
}

/* A text option that does not fit in memory is the only failure here. */
static CURLcode set_transport(remat_client *client, double seconds)
{
    CURL *curl = client->curl;
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, client->curl_error);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)ceil(client->connect_timeout * 1000));
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)ceil(seconds * 1000));
    curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, watch);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, client);
    CURLcode code = curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    if (!code)
        code = curl_easy_setopt(curl, CURLOPT_USERAGENT, "remat/" REMAT_VERSION);
    if (!code)
        code = curl_easy_setopt(curl, CURLOPT_ACCEPT_ENCODING, "");
    if (!code && client->loopback)
        code = curl_easy_setopt(curl, CURLOPT_PROXY, "");
    return code;
}

static CURLcode set_request(remat_client *client, const client_request *request, const char *url,
                            reception *r)
{
    CURL *curl = client->curl;
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, client->headers);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, receive);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, r);
    if (request->body) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->length);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request->body);
    }
    CURLcode code = curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request->method);
    return code ? code : curl_easy_setopt(curl, CURLOPT_URL, url);
}

static remat_status fail_transfer(const remat_client *client, const client_request *request,
                                  const reception *r, CURLcode code, remat_error *error)
{
    const char *reason = client->curl_error[0] ? client->curl_error : curl_easy_strerror(code);
    if (r->no_memory || code == CURLE_OUT_OF_MEMORY)
        return remat_fail_memory(error);
    if (code == CURLE_ABORTED_BY_CALLBACK)
        return remat_fail(error, REMAT_CANCELLED, NULL, "cancelled");
    if (r->too_long)
        return remat_fail(error, REMAT_IO, NULL,
                          "the answer of %.200s to %s %.200s is longer than %zu bytes",
                          client->server, request->method, request->path, r->limit);
    if (code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST)
        return remat_fail(error, REMAT_IO, "server", "no server can be reached at %.200s: %s",
                          client->server, reason);
    if (code == CURLE_OPERATION_TIMEDOUT)
        return remat_fail(error, REMAT_IO, NULL, "%.200s gave no answer to %s %.200s in time: %s",
                          client->server, request->method, request->path, reason);
    return remat_fail(error, REMAT_IO, NULL, "the exchange with %.200s (%s %.200s) failed: %s",
                      client->server, request->method, request->path, reason);
}

static void take_cache_header(CURL *curl, remat_client_answer *answer)
{
    struct curl_header *header;
    if (curl_easy_header(curl, "X-Remat-Cache", 0, CURLH_HEADER, -1, &header) == CURLHE_OK)
        snprintf(answer->cache, sizeof answer->cache, "%s", header->value);
}

/* One attempt. *ret_retry_after: seconds, 0 or less when the answer does not say. */
static remat_status attempt(remat_client *client, const client_request *request, double seconds,
                            remat_client_answer *ret_answer, double *ret_retry_after,
                            remat_error *error)
{
    reception r = {.limit = client->max_answer};
    char *url = NULL;
    if (asprintf(&url, "%s%s", client->server, request->path) < 0)
        return remat_fail_memory(error);
    curl_easy_reset(client->curl);
    client->curl_error[0] = '\0';
    CURLcode code = set_transport(client, seconds);
    if (!code)
        code = set_request(client, request, url, &r);
    if (!code)
        code = curl_easy_perform(client->curl);
    free(url);
    if (!code && !r.text && !(r.text = calloc(1, 1)))
        r.no_memory = true;
    if (code || r.no_memory) {
        free(r.text);
        return fail_transfer(client, request, &r, code, error);
    }
    remat_client_answer answer = {.text = r.text, .length = r.length};
    curl_off_t retry_after = 0;
    curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &answer.status);
    curl_easy_getinfo(client->curl, CURLINFO_RETRY_AFTER, &retry_after);
    take_cache_header(client->curl, &answer);
    *ret_answer = answer;
    *ret_retry_after = (double)retry_after;
    return REMAT_OK;
}

static bool is_busy(long status)
{
    return status == 429 || status == 503;
}

remat_status client_exchange(remat_client *client, const client_request *request,
                             remat_client_answer *ret_answer, remat_error *error)
{
    const double end = client_clock() + client->timeout + request->wait;
    double left = fmin(client->patience, client->timeout), backoff = FIRST_PAUSE;
    for (unsigned i = 1;; i++) {
        remat_client_answer answer;
        double pause = 0;
        double seconds = fmax(end - client_clock(), SHORTEST_ATTEMPT);
        remat_status status = attempt(client, request, seconds, &answer, &pause, error);
        if (status)
            return status;
        if (pause <= 0) {
            pause = backoff;
            backoff = fmin(2 * backoff, LONGEST_PAUSE);
        }
        if (!is_busy(answer.status) || pause > left || client_clock() + pause >= end ||
            i == MAX_ATTEMPTS) {
            *ret_answer = answer;
            return REMAT_OK;
        }
        left -= pause;
        remat_client_answer_clear(&answer);
        if ((status = client_sleep(client, pause, error)))
            return status;
    }
}
