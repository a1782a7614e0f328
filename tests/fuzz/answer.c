/* Any bytes as the answer to a question: judged, replayed, explained, and its figures printed. */
#include "fuzz.h"

#include <string.h>

static void print_numbers(const json_t *json)
{
    static const char *const names[] = {"makespan", "peak", "overhead", "arena", "lower_bound"};
    char text[REMAT_TEXT_SIZE];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const double value = remat_json_number(json, names[i]);
        const char *unit = remat_json_string(json, "time_unit");
        if (strlen(remat_text_bytes(value, text)) + strlen(remat_text_seconds(value, text)) +
                strlen(remat_text_time(value, unit, text)) +
                strlen(remat_text_percent(value, text)) ==
            0)
            abort();
    }
}

/* What the judge takes is a list that the others take. */
static void judge(const json_t *json, const remat_profile *profile, const char *id)
{
    remat_judgement judged;
    json_t *timeline = NULL, *explanation = NULL;
    remat_error error;
    bool good = !remat_schedule_judge(profile, id, NULL, json, &judged, &error);
    if (good && !judged.simulation.valid)
        abort();
    if (good)
        remat_judgement_clear(&judged);
    if (remat_answer_timeline(json, profile, &timeline, &error) == REMAT_INFEASIBLE && good)
        abort();
    json_decref(timeline);
    if (!remat_answer_explanation(json, profile, &explanation, &error))
        json_decref(explanation);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *json = NULL;
    char id[REMAT_ID_SIZE];
    remat_error error;
    if (remat_json_parse((const char *)data, size, &json, &error))
        return 0;
    remat_profile *profile = fuzz_profile();
    remat_profile_id(profile, id);
    print_numbers(json);
    judge(json, profile, NULL);
    judge(json, profile, id);
    remat_profile_free(profile);
    json_decref(json);
    return 0;
}
