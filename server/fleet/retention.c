#include "fleet/retention.h"

#include "service.h"

#include <stdlib.h>

enum { FIRST_MILLISECONDS = 1000, EVERY_MILLISECONDS = 60000 };

struct retention {
    service *service;
    uv_timer_t timer;
    task task;
    bool busy, closed;
    uint64_t keep_bytes;
    remat_store_pruned pruned;
    remat_status status;
    remat_error error;
};

static void prune(task *t)
{
    retention *r = (retention *)((char *)t - offsetof(retention, task));
    r->status = remat_store_prune(r->service->store, r->keep_bytes, &r->pruned, &r->error);
}

/* Once no thread prunes for it any more. */
static void release(retention *r)
{
    if (r->closed && !r->busy)
        free(r);
}

static void pruned(task *t)
{
    retention *r = (retention *)((char *)t - offsetof(retention, task));
    r->busy = false;
    if (r->status)
        log_line(LOG_WARNING, "the store could not be pruned",
                 json_pack("{s:s}", "why", r->error.message));
    else if (r->pruned.tables + r->pruned.schedules + r->pruned.profiles > 0)
        log_line(LOG_INFO, "the store was pruned",
                 json_pack("{s:I, s:I, s:I, s:I}", "keep_bytes", (json_int_t)r->keep_bytes,
                           "tables", (json_int_t)r->pruned.tables, "schedules",
                           (json_int_t)r->pruned.schedules, "profiles",
                           (json_int_t)r->pruned.profiles));
    release(r);
}

static void on_timer(uv_timer_t *timer)
{
    retention *r = timer->data;
    if (r->busy || r->service->config.store_bytes == 0)
        return;
    r->keep_bytes = r->service->config.store_bytes;
    r->task = (task){.work = prune, .done = pruned, .lane = LANE_LIGHT};
    r->busy = queue_submit(r->service->queue, &r->task);
}

retention *retention_new(service *s)
{
    retention *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->service = s;
    uv_timer_init(s->loop, &r->timer);
    r->timer.data = r;
    uv_timer_start(&r->timer, on_timer, FIRST_MILLISECONDS, EVERY_MILLISECONDS);
    return r;
}

void retention_stop(retention *r)
{
    uv_timer_stop(&r->timer);
}

static void on_closed(uv_handle_t *handle)
{
    retention *r = handle->data;
    r->closed = true;
    release(r);
}

void retention_free(retention *r)
{
    if (r)
        uv_close((uv_handle_t *)&r->timer, on_closed);
}
