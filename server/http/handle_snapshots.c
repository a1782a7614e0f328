/* /v1/snapshots */
#include "http/handlers.h"
#include "snapshot/snapshot.h"

void post_snapshots(request *r)
{
    json_t *json = NULL, *answer = NULL;
    remat_error error;
    remat_status status = http_parse_content(r, &json, &error);
    if (!status)
        status = remat_answer_snapshots(json, &answer, &error);
    json_decref(json);
    if (status)
        reply_error(r, &error);
    else
        reply_body(r, 200, body_from_json(answer, true));
}
