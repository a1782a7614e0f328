/* The HTTP front: libmicrohttpd on the libuv loop. Takes requests from it, hands them to routes.h,
 * and gives it replies; it never blocks. One thread, the loop's, calls everything here. */
#ifndef REMAT_SERVER_HTTP_H
#define REMAT_SERVER_HTTP_H

#include "api.h"
#include "http/body.h"
#include "http/head.h"
#include "http/peers.h"
#include "jobs/queue.h"
#include "security/limits.h"

#include <stdatomic.h>

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
    bool close;           /* the connection ends with it */
    stream *stream;       /* events instead of a body (streams.h) */
} reply;

enum { QUERY_SIZE = 512, TRACEPARENT_SIZE = 56 };

/* One request from its first line to its answer. */
typedef struct request {
    struct service *service;
    peer *peer;       /* NULL: it has gone, and what is done for it ends as soon as it can */
    atomic_bool gone; /* the same, for work on other threads */
    char *target;     /* owned: of the first line */
    http_head head;
    char method[8];
    unsigned route;
    char id[REMAT_ID_SIZE]; /* of the resource, from the path */
    char request_id[65];
    char traceparent[TRACEPARENT_SIZE]; /* of the trace that it is part of; "": none */
    char client[CLIENT_SIZE];           /* who asks: limits.h */
    unsigned most_jobs;                 /* of the client; 0: any */
    bool admin;                         /* what is others' is the client's too */
    char cursor[QUERY_SIZE], name[QUERY_SIZE], profile_id[REMAT_ID_SIZE], solver[64];
    unsigned limit;
    char *content;
    size_t length, capacity;
    uint64_t held;        /* bytes counted against the memory of all requests */
    uint64_t answer_held; /* the same, of its answer: until that has gone */
    bool busy;            /* other requests have the memory */
    bool begun;           /* its head was read */
    bool early;           /* the reply was made before the body came, which is read and dropped */
    bool whole;           /* all of it is there */
    bool pending;         /* somebody will call http_answer */
    bool answered;        /* somebody has */
    bool lengthy;         /* its work takes long, however short its body is */
    char coding[16];      /* Content-Encoding of the request; "": none */
    uint64_t start;
    reply reply;
    /* While a pool thread works for it. */
    task task;
    void (*work)(struct request *r);
    void (*after)(struct request *r); /* on the loop; NULL: answer with reply */
    void *context;                    /* of work and after */
    /* While it waits where nobody needs it: takes it back at once. NULL: it cannot be. */
    void (*leave)(struct request *r);
} request;

http *http_new(struct service *s, remat_error *error);

/* The port listened on. */
unsigned http_port(const http *h);
unsigned http_connections(const http *h);

/* Requests that are there and not answered to their end. */
unsigned http_unanswered(const http *h);

/* A field of the request's head; NULL: none. Before it was left to others. */
const char *http_header(const request *r, const char *name);

/* Answers a request that was not answered in its handler. Call once per request, outside of its
 * handler; it may be freed by it. */
void http_answer(request *r);

/* Frees the request's body and gives back what was counted for it. */
void http_forget_body(request *r);

/* For streams.h, whose events come when they come: its connection rests, or goes on. */
void http_suspend(request *r);
void http_resume(request *r);

/* Stops accepting; answers go on. */
void http_quiesce(http *h);
/* No work may be under way for a request; who still waits is sent nothing. */
void http_free(http *h);

#endif
