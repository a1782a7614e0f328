#include "fleet/fleet.h"

#include "service.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* How often what may have been missed is looked for: answers of others, jobs that nobody has. */
enum { TICK_MILLISECONDS = 1000, CLAIM_AT_ONCE = 100 };

/* Something heard, or a lease to be given back. */
typedef struct item {
    remat_store_event event;
    struct item *prev, *next;
    char name[];
} item;

struct fleet {
    service *service;
    uv_async_t async;
    uv_timer_t timer;
    uv_mutex_t lock; /* of both lists */
    item *heard, *unreleased;

    task claim;
    bool claiming;
    remat_job_list claimed;
    remat_status status;
    remat_error error;
};

static item *item_new(remat_store_event event, const char *name)
{
    size_t size = strlen(name) + 1;
    item *one = malloc(sizeof *one + size);
    if (!one)
        return NULL;
    one->event = event;
    memcpy(one->name, name, size);
    return one;
}

static void items_free(item *list)
{
    item *one, *next;
    DL_FOREACH_SAFE(list, one, next)
    {
        free(one);
    }
}

static item *take_list(fleet *f, item **list)
{
    uv_mutex_lock(&f->lock);
    item *taken = *list;
    *list = NULL;
    uv_mutex_unlock(&f->lock);
    return taken;
}

/* ---- hearing ---- */

/* News that memory is too short for is as news that was lost: the timer finds what it said, except
 * a deletion, after which memory may serve the profile until it needs the room. */
void fleet_hear(void *data, remat_store_event event, const char *name)
{
    fleet *f = data;
    item *one = item_new(event, name);
    if (!one)
        return;
    uv_mutex_lock(&f->lock);
    DL_APPEND(f->heard, one);
    uv_mutex_unlock(&f->lock);
    uv_async_send(&f->async);
}

static void act_on(service *s, const item *one)
{
    switch (one->event) {
    case REMAT_STORE_RELEASED:
        jobs_wake(s->jobs, one->name);
        break;
    case REMAT_STORE_CANCELLED:
        jobs_cancel(s->jobs, one->name);
        break;
    case REMAT_STORE_DELETED:
        engine_forget_profile(s->engine, one->name);
        break;
    case REMAT_STORE_RECONNECTED:
        engine_forget_everything(s->engine);
        jobs_wake(s->jobs, NULL);
        break;
    }
}

static void on_async(uv_async_t *async)
{
    fleet *f = async->data;
    if (!f->service->jobs)
        return; /* stopped */
    item *list = take_list(f, &f->heard), *one;
    DL_FOREACH(list, one)
    {
        act_on(f->service, one);
    }
    items_free(list);
}

/* ---- leases ---- */

void fleet_release(fleet *f, const char *name)
{
    if (remat_store_release_lease(f->service->store, name, NULL) == REMAT_OK)
        return;
    item *one = item_new(REMAT_STORE_RELEASED, name);
    if (!one)
        return; /* it ends with this process */
    uv_mutex_lock(&f->lock);
    DL_APPEND(f->unreleased, one);
    uv_mutex_unlock(&f->lock);
}

/* ---- jobs of the dead ---- */

static void claim_work(task *t)
{
    fleet *f = (fleet *)((char *)t - offsetof(fleet, claim));
    item *list = take_list(f, &f->unreleased), *one;
    DL_FOREACH(list, one)
    {
        fleet_release(f, one->name);
    }
    items_free(list);
    f->status = remat_store_claim_jobs(f->service->store, CLAIM_AT_ONCE, &f->claimed, &f->error);
}

static void claim_done(task *t)
{
    fleet *f = (fleet *)((char *)t - offsetof(fleet, claim));
    f->claiming = false;
    if (f->status) {
        log_line(LOG_DEBUG, "jobs could not be claimed",
                 json_pack("{s:s}", "why", f->error.message));
        return;
    }
    /* A daemon that stops leaves them to the others. */
    for (size_t i = 0; i < f->claimed.length && !f->service->stopping; i++)
        jobs_adopt(f->service->jobs, &f->claimed.items[i]);
    remat_job_list_clear(&f->claimed);
}

static void on_tick(uv_timer_t *timer)
{
    fleet *f = timer->data;
    service *s = f->service;
    jobs_save_again(s->jobs);
    jobs_wake(s->jobs, NULL);
    if (f->claiming || !remat_store_is_shared(s->store))
        return;
    f->claiming = true;
    f->claim = (task){.work = claim_work, .done = claim_done, .lane = LANE_LIGHT};
    queue_submit(s->queue, &f->claim);
}

/* ---- life ---- */

fleet *fleet_new(service *s)
{
    fleet *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->service = s;
    uv_mutex_init(&f->lock);
    uv_async_init(s->loop, &f->async, on_async);
    uv_timer_init(s->loop, &f->timer);
    f->async.data = f->timer.data = f;
    uv_unref((uv_handle_t *)&f->async); /* neither keeps the loop going */
    uv_unref((uv_handle_t *)&f->timer);
    return f;
}

void fleet_start(fleet *f)
{
    uv_timer_start(&f->timer, on_tick, TICK_MILLISECONDS, TICK_MILLISECONDS);
}

void fleet_stop(fleet *f)
{
    uv_timer_stop(&f->timer);
}

static void on_timer_closed(uv_handle_t *handle)
{
    fleet *f = handle->data;
    items_free(f->heard);
    items_free(f->unreleased);
    uv_mutex_destroy(&f->lock);
    free(f);
}

static void on_async_closed(uv_handle_t *handle)
{
    uv_close((uv_handle_t *)&((fleet *)handle->data)->timer, on_timer_closed);
}

void fleet_free(fleet *f)
{
    if (f)
        uv_close((uv_handle_t *)&f->async, on_async_closed);
}
