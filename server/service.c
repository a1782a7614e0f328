#include "service.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { STOP_TICK_MILLISECONDS = 20, FORGET_JOBS_DAYS = 7 };

/* What stops a service, step by step. */
typedef struct stopper {
    service *service;
    uv_signal_t term, interrupt;
    uv_timer_t timer;
    uint64_t deadline;
    bool forced;
} stopper;

static void on_store_log(void *data, const char *message)
{
    (void)data;
    log_line(LOG_WARNING, "store", json_pack("{s:s}", "text", message));
}

/* Makes the folders above path, like mkdir -p, readable by their owner only. */
static bool make_folders(const char *path)
{
    char folder[1024];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *s = folder + 1; *s; s++) {
        if (*s != '/')
            continue;
        *s = '\0';
        if (mkdir(folder, 0700) != 0 && errno != EEXIST)
            return false;
        *s = '/';
    }
    return true;
}

remat_status service_open_store(const config *settings, bool read_only, remat_store **ret_store,
                                remat_error *error)
{
    const remat_store_options options = {.log = on_store_log, .read_only = read_only};
    if (!read_only && !make_folders(settings->store))
        return remat_fail(error, REMAT_IO, "store", "cannot make the folder of %s: %s",
                          settings->store, strerror(errno));
    return remat_store_open(settings->store, &options, ret_store, error);
}

/* ---- stopping ---- */

static void on_stop_tick(uv_timer_t *timer)
{
    stopper *stop = timer->data;
    service *s = stop->service;
    queue_counts counts = queue_count(s->queue);
    if (jobs_unfinished(s->jobs) > 0 && !stop->forced && uv_hrtime() > stop->deadline) {
        stop->forced = true;
        jobs_stop(s->jobs, true);
    }
    if (jobs_unfinished(s->jobs) > 0 || counts.light_running + counts.light_waiting > 0 ||
        counts.heavy_running + counts.heavy_waiting > 0)
        return;
    uv_timer_stop(timer);
    uv_stop(s->loop);
}

static void on_signal(uv_signal_t *handle, int number)
{
    stopper *stop = handle->data;
    service *s = stop->service;
    if (s->stopping)
        return;
    s->stopping = true;
    log_line(LOG_INFO, "stopping",
             json_pack("{s:i, s:i}", "signal", number, "unfinished_jobs",
                       (int)jobs_unfinished(s->jobs)));
    http_quiesce(s->http);
    jobs_stop(s->jobs, false);
    stop->deadline = uv_hrtime() + s->config.stop_seconds * UINT64_C(1000000000);
    uv_timer_start(&stop->timer, on_stop_tick, 0, STOP_TICK_MILLISECONDS);
}

static void watch_signals(stopper *stop, service *s)
{
    stop->service = s;
    uv_signal_init(s->loop, &stop->term);
    uv_signal_init(s->loop, &stop->interrupt);
    uv_timer_init(s->loop, &stop->timer);
    stop->term.data = stop->interrupt.data = stop->timer.data = stop;
    uv_signal_start(&stop->term, on_signal, SIGTERM);
    uv_signal_start(&stop->interrupt, on_signal, SIGINT);
    signal(SIGPIPE, SIG_IGN);
}

/* ---- starting ---- */

static remat_status start(service *s, remat_error *error)
{
    remat_status status = service_open_store(&s->config, false, &s->store, error);
    if (status)
        return status;
    s->queue = queue_new(s->loop, s->config.workers, s->config.queue_limit);
    s->team = team_new(s->config.workers);
    s->engine = engine_new(&s->config, s->store, &s->metrics, s->team);
    s->jobs = jobs_new(s);
    if (!s->queue || !s->engine || !s->jobs)
        return remat_fail_memory(error);
    uv_timeval64_t now;
    uint64_t forgotten;
    uv_gettimeofday(&now);
    status = remat_store_forget_jobs(s->store, (now.tv_sec - FORGET_JOBS_DAYS * 86400) * 1000,
                                     &forgotten, error);
    if (!status)
        status = jobs_resume(s->jobs, error);
    if (!status && !(s->http = http_new(s, error)))
        status = error->status;
    return status;
}

static void close_handles(stopper *stop)
{
    uv_close((uv_handle_t *)&stop->term, NULL);
    uv_close((uv_handle_t *)&stop->interrupt, NULL);
    uv_close((uv_handle_t *)&stop->timer, NULL);
}

int service_run(const config *settings)
{
    static uv_loop_t loop;
    static service s;
    static stopper stop;
    remat_error error = {0};
    uv_loop_init(&loop);
    s.config = *settings;
    s.loop = &loop;
    s.started = uv_hrtime();
    remat_status status = start(&s, &error);
    if (!status) {
        watch_signals(&stop, &s);
        log_line(LOG_INFO, "listening",
                 json_pack("{s:s, s:i, s:s, s:i, s:s}", "address", s.config.listen, "port",
                           (int)http_port(s.http), "store", s.config.store, "workers",
                           (int)s.config.workers, "version", REMAT_VERSION));
        uv_run(&loop, UV_RUN_DEFAULT);
        http_free(s.http);
        close_handles(&stop);
    } else {
        log_line(LOG_ERROR, "cannot start",
                 json_pack("{s:s, s:s}", "field", error.field, "why", error.message));
        if (s.jobs && jobs_unfinished(s.jobs) > 0) {
            jobs_stop(s.jobs, true);
            while (jobs_unfinished(s.jobs) > 0)
                uv_run(&loop, UV_RUN_ONCE);
        }
    }
    jobs_free(s.jobs);
    uv_run(&loop, UV_RUN_DEFAULT);
    engine_free(s.engine);
    team_free(s.team);
    queue_free(s.queue);
    remat_store_close(s.store);
    uv_loop_close(&loop);
    uv_library_shutdown();
    log_line(LOG_INFO, "stopped", NULL);
    return status ? 1 : 0;
}
