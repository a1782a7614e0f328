/* Private to clients/c. */
#ifndef REMAT_CLIENTS_C_CLIENT_H
#define REMAT_CLIENTS_C_CLIENT_H

#include "remat_client.h"

#include <curl/curl.h>

struct remat_client {
    CURL *curl;
    char *server; /* without a slash at its end */
    struct curl_slist *headers;
    double connect_timeout, timeout, patience;
    size_t max_answer;
    bool loopback; /* of server: no proxy */
    bool (*cancelled)(void *data);
    void *data;
    json_t *problem;
    char curl_error[CURL_ERROR_SIZE];
};

typedef struct client_request {
    const char *method, *path;
    const char *body; /* NULL: none */
    size_t length;
    double wait; /* seconds that the server may take on purpose */
} client_request;

/* Sends the request, again after 429 and 503, and reads the answer, whatever its status: text is
 * set, json is not. */
remat_status client_exchange(remat_client *client, const client_request *request,
                             remat_client_answer *ret_answer, remat_error *error);

/* client_exchange, with the answer understood: JSON for 2xx, else a failure. */
remat_status client_call(remat_client *client, const client_request *request,
                         remat_client_answer *ret_answer, remat_error *error);

/* The failure that a problem document stands for; kept for remat_client_problem. status: of HTTP,
 * used where the type is not a known one. */
remat_status client_fail_by_problem(remat_client *client, const json_t *problem, long status,
                                    remat_error *error);

/* Sleeps; REMAT_CANCELLED as soon as the caller wishes so. */
remat_status client_sleep(remat_client *client, double seconds, remat_error *error);

/* Seconds on a clock that only goes forward. */
double client_clock(void);

#endif
