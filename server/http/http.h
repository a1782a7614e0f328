/* The HTTP front: takes requests off connections (connection.h), hands them to routes.h, and sends
 * replies; it never blocks. One thread, the loop's, calls everything here. */
#ifndef REMAT_SERVER_HTTP_H
#define REMAT_SERVER_HTTP_H

#include "api.h"
#include "http/connection.h"
#include "jobs/queue.h"
#include "security/limits.h"

typedef struct http http;
typedef struct stream stream;
struct service;

/* What is sent back. */
typedef struct reply {
    int status;
    body *body; /* owned; NULL: empty */
    const char *content_type;
    bool immutable;       /* Cache-Control for content-addressed answers, with etag */
    char etag[72];        /* quoted; "": none */
    char location[128];   /* "": none */
    const char *cache;    /* X-Remat-Cache: "hit", "table", "miss"; NULL: none */
    const char *allow;    /* NULL: none */
    unsigned retry_after; /* seconds; 0: none */
    bool authenticate;    /* WWW-Authenticate: Bearer */
    bool page;            /* a file of the page: with what a browser may do in it */
    stream *stream;       /* events instead of a body (streams.h) */
} reply;

enum { QUERY_SIZE = 512 };

/* One request from its first line to its answer. */
typedef struct request {
    struct service *service;
    connection *connection;
    char method[8];
    unsigned route;
    char id[REMAT_ID_SIZE]; /* of the resource, from the path */
    char request_id[65];
    char client[CLIENT_SIZE]; /* who asks: limits.h */
    unsigned most_jobs;       /* of the client; 0: any */
    char cursor[QUERY_SIZE], name[QUERY_SIZE], profile_id[REMAT_ID_SIZE], solver[64];
    unsigned limit;
    char *content;
    size_t length, capacity;
    uint64_t held;        /* bytes counted against the memory of all requests */
    uint64_t answer_held; /* the same, of its answer: until that has gone */
    bool busy;            /* other requests have the memory */
    bool lengthy;         /* its work takes long, however short its body is */
    char coding[16];      /* Content-Encoding of the request; "": none */
    uint64_t start;
    reply reply;
    /* While a pool thread works for it. */
    task task;
    void (*work)(struct request *r);
    void (*after)(struct request *r); /* on the loop; NULL: answer with reply */
    void *context;                    /* of work and after */
} request;

http *http_new(struct service *s, remat_error *error);

/* The port listened on. */
unsigned http_port(const http *h);
unsigned http_connections(const http *h);

/* A field of the request's head; NULL: none. */
const char *http_header(const request *r, const char *name);

/* Answers a request that was not answered in its handler. Call once per request; it may be gone
 * after. */
void http_answer(request *r);

/* Frees the request's body and gives back what was counted for it. */
void http_forget_body(request *r);

/* Stops accepting; answers go on. */
void http_quiesce(http *h);
/* Every request must have been answered. */
void http_free(http *h);

#endif
