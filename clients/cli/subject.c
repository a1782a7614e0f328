/* The PROFILE argument and the question about it. */
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What follows from the document. */
static remat_status subject_decode(struct subject *s, remat_error *error)
{
    remat_status status = remat_profile_decode(s->document, "", &s->profile, error);
    if (!status)
        status = remat_store_all_peak(s->profile, &s->store_all_peak, error);
    if (!status)
        remat_profile_id(s->profile, s->id);
    return status;
}

remat_status subject_load(const char *argument, struct subject *ret_subject, remat_error *error)
{
    struct subject s = {0};
    if (remat_is_id(argument) && access(argument, F_OK) != 0) {
        memcpy(s.id, argument, REMAT_ID_SIZE);
        *ret_subject = s;
        return REMAT_OK;
    }
    remat_status status = file_read_json(argument, &s.document, error);
    bool read = !status;
    if (!status)
        status = subject_decode(&s, error);
    if (status && read && status != REMAT_NO_MEMORY) {
        const remat_error reason = *error;
        file_blame(argument, reason.field, &reason, error);
    }
    if (status) {
        subject_clear(&s);
        return status;
    }
    *ret_subject = s;
    return REMAT_OK;
}

remat_status subject_find(struct cli *cli, const char *argument, struct subject *ret_subject)
{
    struct subject s = {0};
    const char *ending = strrchr(argument, '.');
    bool file = strcmp(argument, "-") == 0 || strchr(argument, '/') ||
                (ending && strcmp(ending, ".json") == 0) || access(argument, F_OK) == 0;
    bool elsewhere = !cli->local && !file && !remat_is_id(argument);
    if (!elsewhere)
        return subject_load(argument, ret_subject, &cli->error);
    remat_status status = find_profile(cli, argument, s.id);
    if (!status)
        *ret_subject = s;
    return status;
}

remat_status subject_fetch(struct cli *cli, const char *id, struct subject *ret_subject)
{
    struct subject s = {0};
    remat_client_answer answer;
    remat_status status = cli_connect(cli);
    if (!status)
        status = remat_client_get(cli->client, "profiles", id, "", &answer, &cli->error);
    status = cli_expect(cli, status, &answer, "{s:{}}", "profile");
    if (status)
        return status;
    s.document = json_incref(json_object_get(answer.json, "profile"));
    remat_client_answer_clear(&answer);
    status = subject_decode(&s, &cli->error);
    if (status || strcmp(s.id, id) != 0)
        status = cli_fail_server(cli, "profile", status ? cli->error.message : "it has another id");
    if (status)
        subject_clear(&s);
    else
        *ret_subject = s;
    return status;
}

/* Bytes that storing everything takes; 0 where that is not known. */
static double whole_step(struct cli *cli, const struct subject *s)
{
    remat_client_answer answer;
    if (s->profile)
        return (double)s->store_all_peak;
    if (cli_connect(cli) || remat_client_get(cli->client, "profiles", s->id, "", &answer, NULL))
        return 0;
    double peak = json_get_number(json_object_get(answer.json, "store_all"), "peak");
    remat_client_answer_clear(&answer);
    return peak;
}

static bool is_suspicious(const char *text)
{
    double number = text ? strtod(text, NULL) : 0;
    return text && text[strspn(text, "0123456789.")] == '\0' && number >= 1 && number < 1000;
}

const remat_machine *subject_machine(const struct cli *cli)
{
    return remat_machine_find(json_get_text(cli->solver_options, "model"));
}

static int check_amount(struct cli *cli, const struct subject *s, const char *option,
                        const char *text)
{
    if (!is_suspicious(text) || subject_machine(cli) || !(whole_step(cli, s) >= 1e6))
        return CLI_OK;
    double bytes = strtod(text, NULL);
    char percent[TEXT_SIZE] = "";
    if (strcmp(option, "reserved") != 0)
        snprintf(percent, sizeof percent, "%g%% or ", bytes);
    return cli_usage(cli, "--%s %s is %g byte%s; did you mean %s%gGiB? With B it is taken as it is",
                     option, text, bytes, bytes == 1 ? "" : "s", percent, bytes);
}

int subject_check_amounts(struct cli *cli, const struct subject *s)
{
    int code = check_amount(cli, s, "budget", cli->budget);
    if (!code)
        code = check_amount(cli, s, "reserved", cli->reserved);
    for (size_t i = 0; i < json_array_size(cli->budgets) && !code; i++)
        code = check_amount(cli, s, "budgets", json_string_value(json_array_get(cli->budgets, i)));
    return code;
}

void subject_clear(struct subject *s)
{
    json_decref(s->document);
    remat_profile_free(s->profile);
    *s = (struct subject){0};
}

json_t *subject_question(const struct cli *cli, const struct subject *s)
{
    return json_pack("{s:s*, s:s*, s:s*, s:s*, s:O*, s:O*, s:s*, s:O*, s:O*, s:o*, s:o*}",
                     "profile_id", s->document ? NULL : s->id, "budget", cli->budget, "reserved",
                     cli->reserved, "solver", cli->solver, "options", cli->solver_options, "link",
                     cli->link, "effort", cli->effort, "layout", cli->layout, "budgets",
                     cli->budgets, "points", cli->points ? json_integer(cli->points) : NULL,
                     "in_flight", cli->in_flight > 1 ? json_integer(cli->in_flight) : NULL);
}

void subject_time_unit(struct cli *cli, const struct subject *s, char ret_unit[8])
{
    remat_client_answer answer;
    if (s->profile) {
        snprintf(ret_unit, 8, "%s", remat_time_unit_name(s->profile->time_unit));
        return;
    }
    ret_unit[0] = '\0';
    if (!cli->client || remat_client_get(cli->client, "profiles", s->id, "", &answer, NULL))
        return;
    snprintf(ret_unit, 8, "%s", json_get_text(answer.json, "time_unit"));
    remat_client_answer_clear(&answer);
}
