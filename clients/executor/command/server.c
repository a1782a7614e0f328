/* Schedules from a server, and measurements back to it. */
#include "train.h"

#include <math.h>

static remat_status connect_server(train *t)
{
    const remat_client_settings settings = {.server = t->options->server,
                                            .timeout = t->options->timeout};
    return t->client ? REMAT_OK : remat_client_new(&settings, &t->client, &t->error);
}

remat_status train_can_ask(train *t)
{
    (void)t;
    return REMAT_OK;
}

/* What a server sends is judged as the answer to what was asked of it. */
static remat_status judge(train *t, const json_t *question, const json_t *answer)
{
    remat_request request;
    remat_question asked;
    char id[REMAT_ID_SIZE];
    json_t *json = json_copy((json_t *)question);
    train_profile_id(t, id);
    remat_json_set(&json, "profile_id", json_string(id));
    remat_status status = json ? remat_request_decode(json, REMAT_ASK_SCHEDULE, &request, &t->error)
                               : remat_fail_memory(&t->error);
    if (!status)
        status = remat_question_resolve(&request, id, t->profile, t->store_all, &asked, &t->error);
    json_decref(json);
    if (status)
        return status;
    status = remat_schedule_judge(t->profile, id, &asked, answer, NULL, &t->error);
    remat_question_clear(&asked);
    const remat_error why = t->error;
    return status == REMAT_INVALID
               ? remat_fail(&t->error, REMAT_IO, NULL, "the server's schedule is wrong: %.800s",
                            why.message)
               : status;
}

remat_status train_ask_server(train *t, const char *solver, uint64_t budget, train_plan *p)
{
    struct progress bar;
    const remat_client_wait wait = {INFINITY, progress_of_job, &bar};
    remat_client_answer answer = {0};
    json_t *question =
        json_pack("{s:I, s:s, s:{s:i}}", "budget", (json_int_t)budget, "solver",
                  solver ? solver : "auto", "layout", "alignment", (int)REMAT_DEFAULT_ALIGNMENT);
    if (question && t->link && json_object_set(question, "link", t->link)) {
        json_decref(question);
        question = NULL;
    }
    remat_status status = question ? connect_server(t) : remat_fail_memory(&t->error);
    progress_begin(&bar, t->show_progress, false);
    if (!status)
        status = remat_client_schedule(t->client, question, t->document, &wait, &answer, &t->error);
    progress_end(&bar);
    if (!status)
        status = judge(t, question, answer.json);
    if (!status)
        status = train_schedule_read(t, answer.json, p);
    if (!status)
        snprintf(p->schedule_id, sizeof p->schedule_id, "%s",
                 json_get_text(answer.json, "schedule_id"));
    remat_client_answer_clear(&answer);
    json_decref(question);
    return status;
}

void train_disconnect(train *t)
{
    remat_client_free(t->client);
}

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

void train_profile_id(const train *t, char ret_id[REMAT_ID_SIZE])
{
    remat_profile_id(t->profile, ret_id);
}
