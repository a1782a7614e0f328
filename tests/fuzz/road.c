/* Any bytes as POST /v1/schedules, all the way but the sockets: read, decoded, resolved, solved,
 * encoded; and the answer that leaves is parsed and replayed again. Problems must encode too. */
#include "fuzz.h"

#include "remat/answer.h"

#include <string.h>

enum { MOST_NODES = 12, MOST_UPDATES = 200000 };
static const uint64_t most_memory = 16 << 20;

/* The portfolio's hook: small questions only. */
static remat_status make_table(void *data, const remat_solver *solver, const remat_problem *problem,
                               const remat_host *host, remat_held_table *ret_held,
                               remat_error *error)
{
    remat_estimate estimate;
    remat_table *table = NULL;
    remat_status status = remat_estimate_table(solver, problem, &estimate, error);
    if (!status && (estimate.updates > MOST_UPDATES || estimate.table_bytes > most_memory))
        return REMAT_OK;
    if (!status)
        status = remat_tabulate(solver, problem, NULL, &table, error);
    if (status == REMAT_INTERNAL) /* what the simulator rejects is a bug of the solver */
        abort();
    ret_held->table = table;
    return status;
}

static void free_table(void *data, remat_held_table held)
{
    (void)data;
    remat_table_free((remat_table *)held.table);
}

static void encode(const remat_question *question, const remat_profile *profile, uint64_t peak,
                   const remat_answered *answered)
{
    remat_error error;
    double overhead;
    json_t *again = NULL, *timeline = NULL;
    json_t *json = remat_schedule_encode(
        &(remat_schedule_answer){
            .question = question, .profile = profile, .answered = answered, .store_all_peak = peak},
        &overhead);
    char *text = json ? remat_json_text(json) : NULL;
    if (!text || answered->schedule.simulation.peak > question->budget ||
        remat_json_parse(text, strlen(text), &again, &error) ||
        remat_answer_timeline(again, profile, &timeline, &error))
        abort();
    free(text);
    json_decref(json);
    json_decref(again);
    json_decref(timeline);
}

static void solve(const remat_request *request, const remat_profile *profile)
{
    remat_question question;
    remat_error error;
    const remat_table_source source = {.get = make_table, .release = free_table};
    const remat_host host = {.memory_limit = most_memory};
    remat_query query;
    remat_answered answered = {.portfolio = {.n = 0}};
    char id[REMAT_ID_SIZE];
    uint64_t peak;
    remat_profile_id(profile, id);
    if (profile->n_nodes > MOST_NODES || remat_store_all_peak(profile, &peak, &error) ||
        remat_question_resolve(request, id, profile, peak, &question, &error))
        return;
    remat_status status = remat_question_query(&question, profile, peak, &query, &error);
    if (!status)
        status = remat_answer(&query, &host, &source, &answered, &error);
    if (status)
        json_decref(remat_problem_encode(remat_problem_of(&error), &error));
    else if (answered.schedule.solver)
        encode(&question, profile, peak, &answered);
    remat_answered_clear(&answered);
    remat_question_clear(&question);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *json = NULL;
    remat_request request;
    remat_error error = {0};
    remat_profile *profile = NULL;
    if (!remat_json_parse((const char *)data, size, &json, &error) &&
        !remat_request_decode(json, REMAT_ASK_SCHEDULE, &request, &error)) {
        if (!request.profile)
            profile = fuzz_profile();
        else
            remat_profile_decode(request.profile, "profile.", &profile, &error);
        if (profile)
            solve(&request, profile);
        remat_profile_free(profile);
    }
    if (error.status)
        json_decref(remat_problem_encode(remat_problem_of(&error), &error));
    json_decref(json);
    return 0;
}
