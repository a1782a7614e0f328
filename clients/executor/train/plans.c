/* Where schedules come from, and where measurements go. */
#include "train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of the profile, where its times mean something. */
static double seconds_of(const train *t, double makespan)
{
    return t->measured ? makespan * remat_time_unit_seconds(t->profile->time_unit) : NAN;
}

void train_plan_clear(train_plan *p)
{
    remat_plan_clear(&p->plan);
}

/* ---- from a document ---- */

static remat_status read_schedule(train *t, const json_t *json, train_plan *p)
{
    remat_status status = remat_plan_read(t->profile, json, &p->plan, &t->error);
    if (status)
        return status;
    snprintf(p->solver, sizeof p->solver, "%s", json_get_text(json, "solver"));
    p->predicted = seconds_of(t, p->plan.makespan);
    return REMAT_OK;
}

static remat_status from_file(train *t, train_plan *p)
{
    json_t *json = NULL;
    remat_status status = file_read_json(t->options->schedule, &json, &t->error);
    if (!status)
        status = read_schedule(t, json, p);
    json_decref(json);
    return status;
}

/* ---- from this process ---- */

static remat_status from_here(train *t, const char *solver, uint64_t budget, train_plan *p)
{
    remat_status status = remat_plan_solve(t->profile, solver, budget, NULL,
                                           REMAT_DEFAULT_ALIGNMENT, &p->plan, &t->error);
    snprintf(p->solver, sizeof p->solver, "%s", solver ? solver : "auto");
    if (!status)
        p->predicted = seconds_of(t, p->plan.makespan);
    return status;
}

/* ---- from the server ---- */

static remat_status connect_server(train *t)
{
    const remat_client_settings settings = {.server = t->options->server,
                                            .timeout = t->options->timeout};
    return t->client ? REMAT_OK : remat_client_new(&settings, &t->client, &t->error);
}

static remat_status from_server(train *t, const char *solver, uint64_t budget, train_plan *p)
{
    struct progress bar;
    const remat_client_wait wait = {INFINITY, progress_of_job, &bar};
    remat_client_answer answer = {0};
    json_t *question =
        json_pack("{s:I, s:s}", "budget", (json_int_t)budget, "solver", solver ? solver : "auto");
    remat_status status = question ? connect_server(t) : remat_fail_memory(&t->error);
    progress_begin(&bar, &t->terminal);
    if (!status)
        status = remat_client_schedule(t->client, question, t->document, &wait, &answer, &t->error);
    progress_end(&bar);
    if (!status)
        status = read_schedule(t, answer.json, p);
    if (!status)
        snprintf(p->schedule_id, sizeof p->schedule_id, "%s",
                 json_get_text(answer.json, "schedule_id"));
    remat_client_answer_clear(&answer);
    json_decref(question);
    return status;
}

remat_status train_plan_get(train *t, const char *solver, bool least, train_plan *ret_plan)
{
    train_plan p = {.predicted = NAN};
    const char *name = solver ? solver : t->options->solver;
    uint64_t budget = t->budget;
    name = name && strcmp(name, "auto") == 0 ? NULL : name;
    if (t->options->schedule) {
        remat_status status = from_file(t, &p);
        *ret_plan = p;
        return status;
    }
    remat_status (*ask)(train *, const char *, uint64_t, train_plan *) =
        t->options->local ? from_here : from_server;
    remat_status status = ask(t, name, budget, &p);
    if (status == REMAT_INFEASIBLE && least && t->error.number > budget)
        status = ask(t, name, t->error.number, &p);
    *ret_plan = p;
    return status;
}

/* ---- back to the server ---- */

remat_status train_post(train *t, const train_plan *p, const training_outcome *outcome)
{
    if (!p->schedule_id[0])
        return REMAT_OK;
    char path[160];
    remat_client_answer answer = {0};
    double unit = remat_time_unit_seconds(t->profile->time_unit);
    json_t *body =
        json_pack("{s:f, s:I, s:I, s:s, s:s}", "step_time", outcome->step / unit, "peak",
                  (json_int_t)outcome->arena, "steps",
                  (json_int_t)(t->options->steps > 1 ? t->options->steps - 1 : 1), "device",
                  t->device, "note", "remat-train " REMAT_VERSION ": median step");
    if (!body)
        return remat_fail_memory(&t->error);
    snprintf(path, sizeof path, "/v1/schedules/%s/measurements", p->schedule_id);
    remat_status status = remat_client_request(t->client, "POST", path, body, &answer, &t->error);
    remat_client_answer_clear(&answer);
    json_decref(body);
    return status;
}
