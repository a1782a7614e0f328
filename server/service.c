#include "service.h"

#include "host/machine.h"
#include "http/listen.h"
#include "security/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    STOP_TICK_MILLISECONDS = 20,
    LEAST_STOP_SECONDS = 2, /* of them; and that what is cancelled gets, at most, to end */
    FORGET_JOBS_DAYS = 7
};

/* What stops a service, step by step. */
typedef struct stopper {
    service *service;
    uv_signal_t term, interrupt, hangup;
    uv_timer_t timer;
    uint64_t cancel_at; /* uv_hrtime */
    bool forced;
    int argc;
    char **argv;
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

remat_status service_open_store(const config *settings, service_use use, fleet *f,
                                remat_store **ret_store, remat_error *error)
{
    const remat_store_options options = {.log = on_store_log,
                                         .event = f ? fleet_hear : NULL,
                                         .data = f,
                                         .read_only = use == SERVICE_READS,
                                         .prunes = use == SERVICE_PRUNES,
                                         .connections = settings->workers + QUICK_THREADS +
                                                        LIGHT_THREADS + LARGE_THREADS,
                                         .lease_seconds = settings->lease_seconds};
    if (use == SERVICE_WRITES && !remat_store_is_url(settings->store) &&
        !make_folders(settings->store))
        return remat_fail(error, REMAT_IO, "store", "cannot make the folder of %s: %s",
                          settings->store, strerror(errno));
    return remat_store_open(settings->store, &options, ret_store, error);
}

static remat_status fail_store(const char *path, const char *why, remat_error *error)
{
    return remat_fail(error, REMAT_INVALID, "store", "store %s: %s", path, why);
}

/* The folder that is there already, of those above path. */
static void folder_above(char *path)
{
    do {
        char *slash = strrchr(path, '/');
        if (!slash)
            snprintf(path, 2, ".");
        else
            slash[slash == path] = '\0';
    } while (access(path, F_OK) != 0 && errno == ENOENT && strlen(path) > 1);
}

static bool is_database(const char *path)
{
    static const char magic[] = "SQLite format 3";
    char first[sizeof magic] = "";
    FILE *file = fopen(path, "rb");
    bool whole = file && fread(first, 1, sizeof first, file) == sizeof first;
    if (file)
        fclose(file);
    return whole && memcmp(first, magic, sizeof magic) == 0;
}

remat_status service_check_store(const config *settings, remat_error *error)
{
    const char *path = settings->store;
    char folder[sizeof settings->store], *name = NULL;
    struct stat entry;
    if (remat_store_is_url(path)) {
        remat_status status = remat_store_place_name(path, &name, error);
        free(name);
        return status;
    }
    if (stat(path, &entry) == 0) {
        if (!S_ISREG(entry.st_mode))
            return fail_store(path, "it is there and not a file", error);
        if (access(path, R_OK | W_OK) != 0)
            return fail_store(path, strerror(errno), error);
        return entry.st_size == 0 || is_database(path)
                   ? REMAT_OK
                   : fail_store(path, "it is there and not a store", error);
    }
    if (errno != ENOENT)
        return fail_store(path, strerror(errno), error);
    if (path[strlen(path) - 1] == '/')
        return fail_store(path, "a file is needed, not a folder", error);
    snprintf(folder, sizeof folder, "%s", path);
    folder_above(folder);
    if (stat(folder, &entry) != 0 || access(folder, W_OK | X_OK) != 0)
        return fail_store(path, strerror(errno), error);
    return S_ISDIR(entry.st_mode) ? REMAT_OK : fail_store(path, strerror(ENOTDIR), error);
}

/* ---- stopping ---- */

/* Whether no task waits or runs, and everybody has an answer. */
static bool is_quiet(const service *s)
{
    const queue_counts counts = queue_count(s->queue);
    return jobs_unfinished(s->jobs) == 0 && counts.light_running + counts.light_waiting == 0 &&
           counts.heavy_running + counts.heavy_waiting == 0 && http_unanswered(s->http) == 0;
}

static void on_stop_tick(uv_timer_t *timer)
{
    stopper *stop = timer->data;
    service *s = stop->service;
    if (jobs_unfinished(s->jobs) > 0 && !stop->forced && uv_hrtime() > stop->cancel_at) {
        stop->forced = true;
        jobs_stop(s->jobs, true);
    }
    if (is_quiet(s))
        uv_stop(s->loop);
}

/* Something does not end, whatever it is. What was promised is in the store. */
static void on_alarm(int number)
{
    (void)number;
    _exit(0);
}

/* Running solves are cancelled while there is time for that, and for their askers. */
static void set_deadlines(stopper *stop, unsigned seconds)
{
    unsigned last = seconds > LEAST_STOP_SECONDS ? seconds : LEAST_STOP_SECONDS;
    double grace = seconds > 2 * LEAST_STOP_SECONDS ? seconds - LEAST_STOP_SECONDS : seconds / 2.0;
    stop->cancel_at = uv_hrtime() + (uint64_t)(grace * 1e9);
    signal(SIGALRM, on_alarm);
    alarm(last);
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
    listen_notify("STOPPING=1");
    http_quiesce(s->http);
    streams_stop(s->streams);
    fleet_stop(s->fleet);
    retention_stop(s->retention);
    jobs_stop(s->jobs, false);
    set_deadlines(stop, s->config.stop_seconds);
    uv_timer_start(&stop->timer, on_stop_tick, 0, STOP_TICK_MILLISECONDS);
}

/* ---- reading again ---- */

static remat_status load_files(service *s, remat_error *error)
{
    tokens fresh = {0};
    remat_status status = REMAT_OK;
    if (s->config.tokens[0])
        status = tokens_load(s->config.tokens, &fresh, error);
    if (!status && s->config.tls_cert[0])
        status = tls_load(s->config.tls_cert, s->config.tls_key, error);
    if (status) {
        tokens_clear(&fresh);
        return status;
    }
    tokens_clear(&s->tokens);
    s->tokens = fresh;
    return REMAT_OK;
}

/* What is wrong is printed on stderr, or nowhere if nobody reads that. */
static config_outcome read_again(const stopper *stop, config *ret_fresh)
{
    if (log_is_taken())
        return config_read(ret_fresh, stop->argc, stop->argv);
    int kept = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0), nowhere = open("/dev/null", O_WRONLY);
    if (kept < 0 || nowhere < 0 || dup2(nowhere, STDERR_FILENO) < 0)
        return CONFIG_BAD;
    config_outcome outcome = config_read(ret_fresh, stop->argc, stop->argv);
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(nowhere);
    return outcome;
}

/* What cannot be read leaves everything as it was. */
static void on_hangup(uv_signal_t *handle, int number)
{
    (void)number;
    const stopper *stop = handle->data;
    service *s = stop->service;
    config fresh;
    remat_error error = {0};
    if (read_again(stop, &fresh) != CONFIG_RUN)
        remat_fail(&error, REMAT_INVALID, "config", "the configuration is wrong; see above");
    else if (!load_files(s, &error))
        config_take(&s->config, &fresh);
    if (error.status) {
        log_line(LOG_ERROR, "not reloaded",
                 json_pack("{s:s, s:s}", "field", error.field, "why", error.message));
        return;
    }
    log_set_level(s->config.log_level);
    log_line(LOG_INFO, "reloaded", json_pack("{s:i}", "tokens", (int)s->tokens.n));
}

static void watch_signals(stopper *stop, service *s)
{
    stop->service = s;
    uv_signal_init(s->loop, &stop->term);
    uv_signal_init(s->loop, &stop->interrupt);
    uv_signal_init(s->loop, &stop->hangup);
    uv_timer_init(s->loop, &stop->timer);
    stop->term.data = stop->interrupt.data = stop->hangup.data = stop->timer.data = stop;
    uv_signal_start(&stop->hangup, on_hangup, SIGHUP);
    uv_signal_start(&stop->term, on_signal, SIGTERM);
    uv_signal_start(&stop->interrupt, on_signal, SIGINT);
    signal(SIGPIPE, SIG_IGN);
}

/* ---- starting ---- */

static remat_status start(service *s, remat_error *error)
{
    remat_status status = queue_take_stack(error);
    if (!status)
        status = queue_new(s->loop, s->config.workers, s->config.queue_limit, &s->queue, error);
    if (!status)
        status = load_files(s, error);
    s->fleet = fleet_new(s);
    if (!status && !s->fleet)
        status = remat_fail_memory(error);
    if (!status)
        status = service_open_store(&s->config, SERVICE_WRITES, s->fleet, &s->store, error);
    if (status)
        return status;
    s->limits = limits_new();
    s->streams = streams_new(s);
    s->memory = memory_new(s->loop, s->queue, s->config.body_memory, s->config.memory_limit);
    s->team = team_new(s->config.workers, true);
    s->engine =
        s->memory ? engine_new(&s->config, s->store, &s->metrics, s->team, s->memory) : NULL;
    s->jobs = jobs_new(s);
    s->retention = retention_new(s);
    if (!s->limits || !s->streams || !s->memory || !s->engine || !s->jobs || !s->retention)
        return remat_fail_memory(error);
    uint64_t forgotten;
    int64_t kept = FORGET_JOBS_DAYS * INT64_C(86400000);
    status = remat_store_forget_jobs(s->store, machine_clock() - kept, &forgotten, error);
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
    uv_close((uv_handle_t *)&stop->hangup, NULL);
    uv_close((uv_handle_t *)&stop->timer, NULL);
}

int service_run(const config *settings, int argc, char **argv)
{
    static uv_loop_t loop;
    static service s;
    static stopper stop;
    remat_error error = {0};
    uv_loop_init(&loop);
    s.config = *settings;
    s.loop = &loop;
    s.started = uv_hrtime();
    stop.argc = argc;
    stop.argv = argv;
    remat_status status = start(&s, &error);
    if (!status) {
        watch_signals(&stop, &s);
        fleet_start(s.fleet);
        log_line(LOG_INFO, "listening",
                 json_pack("{s:s, s:i, s:b, s:s, s:i, s:s}", "address", s.config.listen, "port",
                           (int)http_port(s.http), "tls", s.config.tls_cert[0] != '\0', "store",
                           remat_store_name(s.store), "workers", (int)s.config.workers, "version",
                           REMAT_VERSION));
        listen_notify("READY=1");
        do /* the turn that stops it may still bring a request, or another timer a task */
            uv_run(&loop, UV_RUN_DEFAULT);
        while (!is_quiet(&s));
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
    s.jobs = NULL; /* for news that still comes in */
    streams_free(s.streams);
    retention_free(s.retention);
    memory_free(s.memory);
    uv_run(&loop, UV_RUN_DEFAULT);
    remat_store_close(s.store);
    fleet_free(s.fleet);
    uv_run(&loop, UV_RUN_DEFAULT);
    engine_free(s.engine);
    team_free(s.team);
    queue_free(s.queue);
    limits_free(s.limits);
    tokens_clear(&s.tokens);
    body_release(s.openapi);
    body_release(s.devices);
    tls_free();
    uv_loop_close(&loop);
    uv_library_shutdown();
    log_line(LOG_INFO, "stopped", NULL);
    return status ? 1 : 0;
}
