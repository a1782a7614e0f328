#include "http/streams.h"

#include "http/reply.h"
#include "service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum { TICK_MILLISECONDS = 100 };
#define REPEAT_NANOSECONDS UINT64_C(1000000000)

struct stream {
    streams *list;
    connection *connection;
    struct stream *prev, *next;
    char job[REMAT_ID_SIZE];
    char *text; /* of the event that is to be sent; NULL: none */
    size_t length;
    char seen[96];   /* what was told last, but for the clock */
    uint64_t told;   /* uv_hrtime */
    bool begun;      /* its head has gone */
    bool last_event; /* after it the stream ends */
    task look;       /* into the store, for a job of another daemon */
    bool looking, abandoned;
    json_t *found;
};

struct streams {
    service *service;
    stream *open;
    uv_timer_t timer;
    unsigned n;
};

/* ---- events ---- */

static bool over(const json_t *job)
{
    const char *state = json_string_value(json_object_get(job, "state"));
    return !state || (strcmp(state, "queued") != 0 && strcmp(state, "running") != 0);
}

/* Makes the job's state the event to be sent, if there is news. Takes job. */
static void tell(stream *one, json_t *job)
{
    char news[sizeof one->seen];
    const char *state = json_string_value(json_object_get(job, "state"));
    snprintf(news, sizeof news, "%s %g %lld", state ? state : "",
             json_number_value(json_object_get(job, "progress")),
             (long long)json_integer_value(json_object_get(job, "queue_position")));
    uint64_t now = uv_hrtime();
    bool last = over(job);
    if (!last && strcmp(news, one->seen) == 0 && now - one->told < REPEAT_NANOSECONDS) {
        json_decref(job);
        return;
    }
    char *data = job ? remat_json_text(job) : NULL, *text = NULL;
    json_decref(job);
    int length =
        data ? asprintf(&text, "event: %s\ndata: %s\n\n", last ? "end" : "progress", data) : -1;
    free(data);
    one->last_event = last || length < 0;
    if (length < 0)
        return;
    free(one->text);
    one->text = text;
    one->length = (size_t)length;
    one->told = now;
    memcpy(one->seen, news, sizeof news);
}

/* Sends what there is to send. The stream may be gone after. */
static void push(stream *one)
{
    if (!one->begun)
        return;
    char *text = one->text;
    bool last = one->last_event;
    connection *c = one->connection;
    one->text = NULL;
    one->begun = !last;
    streams *list = one->list;
    unsigned n = list->n;
    if (text)
        connection_stream_piece(c, text, one->length);
    if (last && list->n == n)
        connection_stream_end(c);
}

/* ---- jobs of other daemons ---- */

static void look_work(task *t)
{
    stream *one = (stream *)((char *)t - offsetof(stream, look));
    remat_job_record record = {0};
    if (!remat_store_get_job(one->list->service->store, one->job, &record, NULL))
        one->found = jobs_describe_record(&record);
    remat_job_record_clear(&record);
}

static void look_done(task *t)
{
    stream *one = (stream *)((char *)t - offsetof(stream, look));
    json_t *job = one->found;
    one->found = NULL;
    one->looking = false;
    if (one->abandoned) {
        json_decref(job);
        free(one);
        return;
    }
    if (one->begun && !connection_drained(one->connection))
        json_decref(job); /* it is looked for again */
    else if (job)
        tell(one, job);
    else
        one->last_event = true;
    push(one);
}

static void look(stream *one)
{
    if (one->looking || uv_hrtime() - one->told < REPEAT_NANOSECONDS)
        return;
    one->look = (task){.work = look_work, .done = look_done, .lane = LANE_LIGHT};
    one->looking = queue_submit(one->list->service->queue, &one->look);
}

/* ---- the clock ---- */

static void on_tick(uv_timer_t *timer)
{
    streams *list = timer->data;
    stream *one, *next;
    DL_FOREACH_SAFE(list->open, one, next)
    {
        if (!one->begun || !connection_drained(one->connection))
            continue;
        json_t *job = jobs_describe(list->service->jobs, one->job);
        if (job)
            tell(one, job);
        else
            look(one);
        push(one);
    }
}

/* ---- the connection ---- */

void streams_begin(stream *one)
{
    one->begun = true;
    push(one);
}

void streams_closed(stream *one)
{
    streams *list = one->list;
    DL_DELETE(list->open, one);
    if (--list->n == 0)
        uv_timer_stop(&list->timer);
    free(one->text);
    if (one->looking)
        one->abandoned = true; /* look_done frees it */
    else
        free(one);
}

/* ---- the list ---- */

void streams_open(request *r, json_t *first)
{
    streams *list = r->service->streams;
    stream *one = calloc(1, sizeof *one);
    if (!one || !first) {
        free(one);
        json_decref(first);
        reply_body(r, 200, NULL);
        return;
    }
    one->list = list;
    one->connection = r->connection;
    memcpy(one->job, r->id, REMAT_ID_SIZE);
    tell(one, first);
    DL_APPEND(list->open, one);
    if (list->n++ == 0)
        uv_timer_start(&list->timer, on_tick, TICK_MILLISECONDS, TICK_MILLISECONDS);
    r->reply.status = 200;
    r->reply.content_type = "text/event-stream";
    r->reply.stream = one;
}

void streams_stop(streams *list)
{
    stream *one, *next;
    DL_FOREACH_SAFE(list->open, one, next)
    {
        one->last_event = true;
        push(one);
    }
}

unsigned streams_count(const streams *list)
{
    return list->n;
}

streams *streams_new(service *s)
{
    streams *list = calloc(1, sizeof *list);
    if (!list)
        return NULL;
    list->service = s;
    uv_timer_init(s->loop, &list->timer);
    list->timer.data = list;
    return list;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void streams_free(streams *list)
{
    if (list)
        uv_close((uv_handle_t *)&list->timer, on_closed);
}
