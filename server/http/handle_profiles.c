/* /v1/profiles */
#include "http/handlers.h"
#include "http/routes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a document; beyond them compressing would keep others waiting. */
#define COMPRESSED_BELOW (8u << 20)

void post_profile(request *r)
{
    json_t *json = NULL;
    known_profile *known = NULL;
    body *summary = NULL;
    bool created = false;
    remat_error error;
    remat_status status = http_parse_content(r, &json, &error);
    if (status) {
        reply_error(r, &error);
        return;
    }
    status = engine_profile_post(r->service->engine, json, "", &known, &created, &summary, &error);
    json_decref(json);
    if (status) {
        reply_profile_error(r, &error, true);
        return;
    }
    reply_body(r, created ? 201 : 200, summary);
    snprintf(r->reply.location, sizeof r->reply.location, "/v1/profiles/%s", known->id);
    engine_profile_release(known);
}

static json_t *profile_item(const remat_profile_record *p)
{
    char created[32], used[32];
    remat_time_text(p->created, created);
    remat_time_text(p->last_used, used);
    json_t *names = p->other_names ? remat_names_encode(p->name, p->other_names) : NULL;
    return json_pack("{s:s, s:s, s:o*, s:s, s:i, s:i, s:s, s:s, s:I}", "profile_id", p->id, "name",
                     p->name, "names", names, "kind", p->kind, "nodes", (int)p->nodes, "edges",
                     (int)p->edges, "created", created, "last_used", used, "schedules",
                     (json_int_t)p->schedules);
}

void list_profiles(request *r)
{
    remat_profile_list list = {0};
    remat_error error;
    remat_page page = {.cursor = r->cursor, .limit = r->limit};
    if (remat_store_list_profiles(r->service->store, r->name[0] ? r->name : NULL, page, &list,
                                  &error)) {
        reply_error(r, &error);
        return;
    }
    json_t *items = json_array();
    for (size_t i = 0; i < list.length; i++)
        remat_json_append(&items, profile_item(&list.items[i]));
    reply_page(r, "profiles", items, list.next);
    remat_profile_list_clear(&list);
}

/* The summary with the document as its member "profile", put together as text: both may be
 * large. */
static body *whole_profile(const remat_profile_record *record)
{
    static const char between[] = ",\"profile\":";
    size_t at = record->summary.length, length = record->document.length;
    const char *summary = record->summary.data;
    do { /* over its last brace */
        if (at == 0)
            return NULL;
    } while (summary[--at] != '}');
    char *text = malloc(at + sizeof between + length);
    if (!text)
        return NULL;
    memcpy(text, summary, at);
    memcpy(text + at, between, sizeof between - 1);
    at += sizeof between - 1;
    memcpy(text + at, record->document.data, length);
    text[at + length] = '}';
    return body_new(text, at + length + 1, length < COMPRESSED_BELOW);
}

void get_profile(request *r)
{
    remat_profile_record record = {0};
    remat_error error;
    if (engine_profile_record(r->service->engine, r->id, &record, &error)) {
        reply_error(r, &error);
        return;
    }
    remat_store_touch(r->service->store, r->id, NULL, NULL, NULL);
    if (routes_take_memory(r, record.summary.length + record.document.length, &error))
        reply_error(r, &error);
    else
        reply_body(r, 200, whole_profile(&record));
    r->answer_held = r->held;
    r->held = 0;
    remat_profile_record_clear(&record);
    if (r->reply.status == 200)
        reply_immutable(r, r->id);
}

void delete_profile(request *r)
{
    remat_error error;
    if (remat_store_delete_profile(r->service->store, r->id, &error)) {
        reply_error(r, &error);
        return;
    }
    engine_forget_profile(r->service->engine, r->id);
    r->reply.status = 204;
}
