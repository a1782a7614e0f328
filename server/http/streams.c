#include "http/streams.h"

#include "http/reply.h"
#include "service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum { TICK_MILLISECONDS = 100, BUFFER = 4096 };
#define REPEAT_NANOSECONDS UINT64_C(1000000000)

struct stream {
    streams *list;
    request *request;
    struct stream *prev, *next;
    char job[REMAT_ID_SIZE];
    char *text; /* of the event under way; NULL: there was none yet */
    size_t length, sent;
    char seen[96];   /* what was told last, but for the clock */
    uint64_t told;   /* uv_hrtime */
    bool suspended;  /* nothing to send for now */
    bool hung_up;    /* nobody reads it */
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
    one->sent = 0;
    one->told = now;
    memcpy(one->seen, news, sizeof news);
}

/* Goes on with the connection if there is something to send. */
static void wake(stream *one)
{
    if (!one->suspended || (!one->last_event && one->sent == one->length))
        return;
    one->suspended = false;
    http_resume(one->request);
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
    if (one->sent < one->length)
        json_decref(job); /* it is looked for again */
    else if (job)
        tell(one, job);
    else
        one->last_event = true;
    wake(one);
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
        if (one->last_event || one->sent < one->length)
            continue;
        json_t *job = jobs_describe(list->service->jobs, one->job);
        if (job)
            tell(one, job);
        else
            look(one);
        wake(one);
    }
}

/* ---- the connection ---- */

/* libmicrohttpd asks again at once when it gets nothing, so the connection rests meanwhile. */
static ssize_t read_stream(void *data, uint64_t position, char *buffer, size_t size)
{
    stream *one = data;
    (void)position;
    size_t left = one->length - one->sent, n = left < size ? left : size;
    if (one->hung_up)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (n == 0 && one->last_event)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (n > 0)
        memcpy(buffer, one->text + one->sent, n);
    else
        http_suspend(one->request);
    one->suspended = n == 0;
    one->sent += n;
    return (ssize_t)n;
}

struct MHD_Response *stream_response(stream *one)
{
    return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BUFFER, read_stream, one, NULL);
}

void stream_hung_up(stream *one)
{
    one->hung_up = true;
    one->suspended = false;
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
    one->request = r;
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
        wake(one);
    }
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
