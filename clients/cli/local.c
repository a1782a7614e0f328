/* --local: the answers of the server, computed in this process by the same portfolio. */
#include "cli.h"
#include "solve.h"

static bool look(void *data, const char *label, double fraction)
{
    progress_draw(data, label, fraction);
    return false;
}

/* The question with its subject in it, as the decoders of requests want it. */
static json_t *with_id(const json_t *question, const struct subject *subject)
{
    json_t *request = json_copy((json_t *)question);
    remat_json_set(&request, "profile_id", json_string(subject->id));
    return request;
}

remat_status local_request(const struct subject *subject, const json_t *question,
                           remat_request_kind kind, json_t **ret_json, remat_request *ret_request,
                           remat_error *error)
{
    json_t *json = with_id(question, subject);
    if (!json)
        return remat_fail_memory(error);
    remat_status status = remat_request_decode(json, kind, ret_request, error);
    if (status)
        json_decref(json);
    else
        *ret_json = json;
    return status;
}

remat_status local_answer(struct cli *cli, const struct subject *subject, const json_t *question,
                          remat_request_kind kind, json_t **ret_answer, remat_error *error)
{
    struct progress bar;
    const local_watch watch = {.data = &bar, .look = look};
    remat_request request;
    json_t *json = NULL;
    remat_status status = local_request(subject, question, kind, &json, &request, error);
    if (status)
        return status;
    progress_begin(&bar, cli->show_progress, cli->ascii);
    status = local_solve(&request, subject->id, subject->profile, subject->store_all_peak, &watch,
                         ret_answer, error);
    progress_end(&bar);
    json_decref(json);
    return status;
}

json_t *local_explanation(const struct subject *subject, const json_t *schedule)
{
    json_t *explanation = NULL;
    if (remat_answer_explanation(schedule, subject->profile, &explanation, NULL))
        return NULL;
    return explanation;
}
