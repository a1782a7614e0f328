/* /v1/schedules/{id}/measurements */
#include "host/machine.h"
#include "http/handlers.h"

#include <stdlib.h>
#include <string.h>

static json_t *measurement_item(const remat_measurement_record *m)
{
    char created[32];
    remat_time_text(m->created, created);
    json_t *json = json_loadb(m->body.data, m->body.length, 0, NULL);
    remat_json_set(&json, "id", json_integer(m->id));
    remat_json_set(&json, "created", json_string(created));
    return json;
}

void post_measurement(request *r)
{
    json_t *json = NULL, *record = NULL;
    remat_error error;
    remat_measurement_record m = {.created = machine_clock()};
    remat_status status = http_parse_content(r, &json, &error);
    if (!status)
        status = remat_measurement_decode(json, &record, &error);
    json_decref(json);
    char *text = record ? remat_json_text(record) : NULL;
    json_decref(record);
    if (!status && !text)
        status = remat_fail_memory(&error);
    if (!status) {
        m.body = (remat_blob){text, strlen(text)};
        status = remat_store_put_measurement(r->service->store, r->id, &m, &error);
    }
    if (status == REMAT_NOT_FOUND)
        remat_fail(&error, REMAT_NOT_FOUND, "id", "there is no schedule %s", r->id);
    if (status)
        reply_error(r, &error);
    else
        reply_body(r, 201, body_from_json(measurement_item(&m), false));
    free(text);
}

void list_measurements(request *r)
{
    remat_measurement_list list = {0};
    remat_schedule_record schedule = {0};
    remat_error error;
    remat_page page = {.cursor = r->cursor, .limit = r->limit};
    remat_status status = remat_store_get_schedule(r->service->store, r->id, &schedule, &error);
    if (status == REMAT_CORRUPT && schedule.id)
        status = REMAT_OK; /* its body is damaged, its prediction is not */
    if (status == REMAT_NOT_FOUND)
        remat_fail(&error, REMAT_NOT_FOUND, "id", "there is no schedule %s", r->id);
    if (!status)
        status = remat_store_list_measurements(r->service->store, r->id, page, &list, &error);
    if (status) {
        reply_error(r, &error);
    } else {
        json_t *items = json_array();
        for (size_t i = 0; i < list.length; i++)
            remat_json_append(&items, measurement_item(&list.items[i]));
        reply_body(r, 200,
                   body_from_json(json_pack("{s:{s:f, s:I}, s:o, s:s?}", "predicted", "makespan",
                                            schedule.makespan, "peak", (json_int_t)schedule.peak,
                                            "measurements", items, "next", list.next),
                                  true));
    }
    remat_measurement_list_clear(&list);
    remat_schedule_record_clear(&schedule);
}
