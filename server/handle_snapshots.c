/* /v1/snapshots */
#include "handlers.h"

static void post_snapshots_work(request *r)
{
    json_t *json = NULL, *answer = NULL;
    remat_error error;
    remat_status status = parse_content(r, &json, &error);
    if (!status)
        status = remat_answer_snapshots(json, &answer, &error);
    json_decref(json);
    if (status)
        reply_error(r, &error);
    else
        reply_body(r, 200, body_from_json(answer, true));
}

bool post_snapshots(request *r)
{
    return start_work(r, post_snapshots_work, NULL);
}
