/* remat show and trace: a schedule, readable, once it is judged on its profile: that of --profile,
 * or the server's. */
#include "cli.h"

#include <string.h>
#include <unistd.h>

/* What is shown; all owned. */
typedef struct exhibit {
    json_t *schedule;
    json_t *timeline;    /* NULL: not known */
    json_t *explanation; /* the same */
} exhibit;

static void exhibit_clear(exhibit *e)
{
    json_decref(e->schedule);
    json_decref(e->timeline);
    json_decref(e->explanation);
}

static remat_status fetch_schedule(struct cli *cli, const char *id, exhibit *e)
{
    remat_client_answer answer;
    remat_status status = cli_connect(cli);
    if (!status)
        status = remat_client_get(cli->client, "schedules", id, "", &answer, &cli->error);
    status = cli_expect(cli, status, &answer, "{s:s, s:s, s:F, s:F, s:[]}", "schedule_id",
                        "profile_id", "makespan", "peak", "operations");
    if (status)
        return status;
    e->schedule = json_incref(answer.json);
    remat_client_answer_clear(&answer);
    if (strcmp(json_get_text(e->schedule, "schedule_id"), id) != 0)
        return cli_fail_server(cli, "schedule", "it has another id");
    return REMAT_OK;
}

/* Judges the schedule, and replays it for what is drawn. */
static remat_status replay(struct cli *cli, const struct subject *s, exhibit *e)
{
    const char *wanted = json_get_text(e->schedule, "profile_id");
    remat_status status = remat_answer_timeline(e->schedule, s->profile, &e->timeline, &cli->error);
    if (!status)
        status = remat_schedule_judge(s->profile, wanted[0] ? s->id : NULL, NULL, e->schedule, NULL,
                                      &cli->error);
    if (!status)
        e->explanation = local_explanation(s, e->schedule);
    return status;
}

static remat_status replay_fetched(struct cli *cli, exhibit *e)
{
    struct subject s = {0};
    remat_status status = subject_fetch(cli, json_get_text(e->schedule, "profile_id"), &s);
    if (!status && (status = replay(cli, &s, e)))
        status = cli_fail_server(cli, "schedule", cli->error.message);
    subject_clear(&s);
    return status;
}

static remat_status replay_given(struct cli *cli, exhibit *e)
{
    struct subject s = {0};
    const char *wanted = json_get_text(e->schedule, "profile_id");
    remat_status status = subject_load(cli->profile, &s, &cli->error);
    if (!status && !s.document)
        status = remat_fail(&cli->error, REMAT_INVALID, NULL,
                            "--profile must be a file: the replay is made here");
    if (!status && wanted[0] && strcmp(wanted, s.id) != 0)
        status = remat_fail(&cli->error, REMAT_INVALID, "profile_id",
                            "the schedule belongs to profile %.12s.., not to %.200s (%.12s..)",
                            wanted, cli->profile, s.id);
    if (!status)
        status = replay(cli, &s, e);
    subject_clear(&s);
    return status;
}

/* A file whose profile the server may know. That it does not is no failure of show. */
static remat_status try_replay(struct cli *cli, exhibit *e)
{
    struct subject s = {0};
    const char *id = json_get_text(e->schedule, "profile_id");
    if (!remat_is_id(id) || subject_fetch(cli, id, &s)) {
        if (cli->flag == SHOW)
            fputs(
                "remat show: no timeline (no server knows the profile); --profile FILE draws it\n",
                stderr);
        return REMAT_OK;
    }
    remat_status status = replay(cli, &s, e);
    subject_clear(&s);
    return status;
}

/* Of a schedule that the server has; else a file. */
static bool is_id(const char *argument)
{
    return strcmp(argument, "-") != 0 && !strpbrk(argument, "./") && access(argument, F_OK) != 0;
}

static remat_status load(struct cli *cli, const char *argument, exhibit *e)
{
    char id[REMAT_ID_SIZE];
    const bool by_id = is_id(argument);
    remat_status status = by_id ? find_schedule(cli, argument, id) : REMAT_OK;
    if (!status)
        status = by_id ? fetch_schedule(cli, id, e)
                       : file_read_json(argument, &e->schedule, &cli->error);
    if (!status && strncmp(json_get_text(e->schedule, "format"), "remat-profile/", 14) == 0)
        return remat_fail(&cli->error, REMAT_INVALID, NULL,
                          "%.200s is a profile and no schedule; 'remat profile check' reads it",
                          argument);
    if (!status && cli->profile)
        return replay_given(cli, e);
    if (!status && by_id)
        return replay_fetched(cli, e);
    bool is_timeline = json_object_get(e->schedule, "memory_during") != NULL;
    const bool plain = cli->json && cli->flag == SHOW; /* as it came */
    if (!status && !is_timeline && !plain && json_object_get(e->schedule, "nodes"))
        return try_replay(cli, e);
    return status;
}

static remat_status print(struct cli *cli, const exhibit *e)
{
    trace t;
    bool done;
    remat_status status = trace_read(e->schedule, e->timeline, &t, &cli->error);
    if (status)
        return status;
    status = cli_write_json_value(cli, e->schedule, &done);
    if (!status && !done) {
        summary_print(cli, e->schedule, "");
        explanation_print(cli, e->explanation);
        if (t.timed)
            timeline_print(cli, &t);
        operations_print(cli, &t);
    }
    trace_clear(&t);
    return status;
}

int command_show(struct cli *cli)
{
    exhibit e = {0};
    if (cli->n_arguments != 1)
        return cli_usage(cli, "show takes one SCHEDULE: an id, a file or -");
    if ((cli->profile || cli->json) && !is_id(cli->arguments[0]) &&
        options_refuse(cli, "server timeout",
                       cli->profile ? "--profile and a file" : "--json and a file"))
        return CLI_USAGE;
    remat_status status = load(cli, cli->arguments[0], &e);
    if (!status)
        status = print(cli, &e);
    exhibit_clear(&e);
    return status ? cli_failed(cli) : CLI_OK;
}

/* ---- for a trace viewer ---- */

static remat_status print_trace(struct cli *cli, const exhibit *e)
{
    trace t = {0}; /* files are anybody's: it checks them */
    bool done = false;
    const json_t *timeline = e->timeline ? e->timeline : e->schedule;
    remat_status status = trace_read(e->schedule, e->timeline, &t, &cli->error);
    if (!status && !t.timed)
        status =
            remat_fail(&cli->error, REMAT_NOT_FOUND, NULL,
                       "no timeline: no server knows this schedule; --profile FILE replays it");
    trace_clear(&t);
    if (status)
        return status;
    json_t *json = remat_trace_encode(e->schedule, timeline);
    if (!json)
        return remat_fail_memory(&cli->error);
    cli->json = true; /* there is nothing else to print */
    status = cli_write_json_value(cli, json, &done);
    json_decref(json);
    return status;
}

int command_trace(struct cli *cli)
{
    exhibit e = {0};
    if (cli->n_arguments != 1)
        return cli_usage(cli, "trace takes one SCHEDULE: an id, a file or -");
    if (cli->profile && !is_id(cli->arguments[0]) &&
        options_refuse(cli, "server timeout", "--profile and a file"))
        return CLI_USAGE;
    remat_status status = load(cli, cli->arguments[0], &e);
    if (!status)
        status = print_trace(cli, &e);
    exhibit_clear(&e);
    return status ? cli_failed(cli) : CLI_OK;
}
