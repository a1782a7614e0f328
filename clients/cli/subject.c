/* The PROFILE argument and the question about it. */
#include "cli.h"

#include <string.h>
#include <unistd.h>

remat_status subject_load(const char *argument, struct subject *ret_subject, remat_error *error)
{
    struct subject s = {0};
    if (remat_is_id(argument) && access(argument, F_OK) != 0) {
        memcpy(s.id, argument, REMAT_ID_SIZE);
        *ret_subject = s;
        return REMAT_OK;
    }
    remat_status status = file_read_json(argument, &s.document, error);
    if (!status)
        status = remat_profile_decode(s.document, "", &s.profile, error);
    if (!status)
        status = remat_store_all_peak(s.profile, &s.store_all_peak, error);
    if (status) {
        subject_clear(&s);
        return status;
    }
    remat_profile_id(s.profile, s.id);
    *ret_subject = s;
    return REMAT_OK;
}

void subject_clear(struct subject *s)
{
    json_decref(s->document);
    remat_profile_free(s->profile);
    *s = (struct subject){0};
}

json_t *subject_question(const struct cli *cli, const struct subject *s)
{
    json_t *question = json_object();
    bool failed = !question;
    if (!s->document)
        failed |= json_object_set_new(question, "profile_id", json_string(s->id)) != 0;
    if (cli->budget)
        failed |= json_object_set_new(question, "budget", json_string(cli->budget)) != 0;
    if (cli->reserved)
        failed |= json_object_set_new(question, "reserved", json_string(cli->reserved)) != 0;
    if (cli->solver)
        failed |= json_object_set_new(question, "solver", json_string(cli->solver)) != 0;
    if (cli->solver_options)
        failed |= json_object_set(question, "options", cli->solver_options) != 0;
    if (cli->link)
        failed |= json_object_set(question, "link", cli->link) != 0;
    if (cli->effort)
        failed |= json_object_set_new(question, "effort", json_string(cli->effort)) != 0;
    if (cli->layout)
        failed |= json_object_set(question, "layout", cli->layout) != 0;
    if (cli->budgets)
        failed |= json_object_set(question, "budgets", cli->budgets) != 0;
    if (cli->points)
        failed |= json_object_set_new(question, "points", json_integer(cli->points)) != 0;
    if (!failed)
        return question;
    json_decref(question);
    return NULL;
}

void subject_time_unit(struct cli *cli, const struct subject *s, char ret_unit[8])
{
    remat_client_answer answer;
    if (s->profile) {
        snprintf(ret_unit, 8, "%s", remat_time_unit_name(s->profile->time_unit));
        return;
    }
    ret_unit[0] = '\0';
    if (!cli->client || remat_client_get_profile(cli->client, s->id, &answer, NULL))
        return;
    snprintf(ret_unit, 8, "%s", json_get_text(answer.json, "time_unit"));
    remat_client_answer_clear(&answer);
}
