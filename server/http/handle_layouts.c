/* /v1/layouts */
#include "http/handlers.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { RETRY_SECONDS = 5 };

/* A search for addresses, from its request to its answer. It waits in line with the solves. */
typedef struct search {
    task task; /* first */
    request *request;
    remat_layout_request asked;
    atomic_bool gone; /* nobody waits for it */
    remat_status status;
    remat_error error;
} search;

static void end_search(search *one)
{
    request *r = one->request;
    r->context = NULL;
    r->leave = NULL;
    limits_end_job(r->service->limits, r->client);
    remat_layout_request_clear(&one->asked);
    free(one);
    http_answer(r);
}

static bool is_gone(void *data)
{
    return atomic_load(&((search *)data)->gone);
}

static void search_work(task *t)
{
    search *one = (search *)t;
    const remat_host host = {.data = one, .workers = 1, .cancelled = is_gone};
    json_t *answer = NULL;
    one->status = remat_answer_layout(&one->asked, &host, &answer, &one->error);
    if (one->status)
        reply_error(one->request, &one->error);
    else
        reply_body(one->request, 200, body_from_json(answer, true));
    memory_settle();
}

static void search_done(task *t)
{
    end_search((search *)t);
}

/* The one who asked has hung up. */
static void leave(request *r)
{
    search *one = r->context;
    if (queue_withdraw(r->service->queue, &one->task))
        end_search(one);
    else
        atomic_store(&one->gone, true);
}

static void read_work(request *r)
{
    search *one = r->context;
    json_t *json = NULL;
    remat_status status = http_parse_content(r, &json, &one->error);
    if (!status)
        status = remat_layout_decode(json, &one->asked, &one->error);
    json_decref(json);
    if (status)
        reply_error(r, &one->error);
}

/* The body's memory has been given back; the search takes its own. */
static void start_search(request *r)
{
    search *one = r->context;
    if (r->reply.status || !r->peer) {
        end_search(one);
        return;
    }
    if (routes_take_memory(r, remat_layout_memory(&one->asked), &one->error)) {
        if (r->busy)
            reply_busy(r);
        else
            reply_error(r, &one->error);
        end_search(one);
        return;
    }
    one->task = (task){.work = search_work,
                       .done = search_done,
                       .lane = LANE_HEAVY,
                       .cost = (double)remat_layout_memory(&one->asked) * 100};
    r->leave = leave;
    if (!queue_submit(r->service->queue, &one->task)) {
        reply_refuse(r, REMAT_PROBLEM_BUSY, "", "too many solves are waiting; ask again");
        end_search(one);
    }
}

bool post_layout(request *r)
{
    limits *counts = r->service->limits;
    if (!limits_start_job(counts, r->client, r->most_jobs)) {
        reply_refuse(r, REMAT_PROBLEM_RATE_LIMITED, "",
                     "the client has %u unfinished solves, as many as it may", r->most_jobs);
        r->reply.retry_after = RETRY_SECONDS;
        return true;
    }
    search *one = calloc(1, sizeof *one);
    if (!one) {
        limits_end_job(counts, r->client);
        reply_body(r, 200, NULL);
        return true;
    }
    one->request = r;
    r->context = one;
    return http_start_work(r, read_work, start_search);
}
