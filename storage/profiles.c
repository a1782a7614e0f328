#include "private.h"

#include <stdlib.h>

enum { ID = COLUMN_FIRST, NAME, KIND, NODES, EDGES, CREATED, LAST_USED, SCHEDULES, SUMMARY };
#define CHECKED "tttiii" /* ID to CREATED */

static uint64_t document_owner(const char *id)
{
    return storage_checksum("tt", "document", id);
}

static uint64_t summary_owner(const char *id)
{
    return storage_checksum("tt", "summary", id);
}

/* Without its blobs. */
static remat_status read_fields(sqlite3_stmt *row, void *item, remat_error *error)
{
    remat_profile_record *profile = item;
    if ((uint64_t)sqlite3_column_int64(row, COLUMN_CHECKSUM) !=
        storage_row_checksum(row, COLUMN_FIRST, CHECKED))
        return remat_fail(error, REMAT_CORRUPT, NULL, "its checksum does not match");
    *profile = (remat_profile_record){
        .nodes = (uint32_t)sqlite3_column_int64(row, NODES),
        .edges = (uint32_t)sqlite3_column_int64(row, EDGES),
        .created = sqlite3_column_int64(row, CREATED),
        .last_used = sqlite3_column_int64(row, LAST_USED),
        .schedules = (uint64_t)sqlite3_column_int64(row, SCHEDULES),
    };
    remat_status status = storage_take_text(row, ID, &profile->id, error);
    if (status == REMAT_OK)
        status = storage_take_text(row, NAME, &profile->name, error);
    if (status == REMAT_OK)
        status = storage_take_text(row, KIND, &profile->kind, error);
    if (status != REMAT_OK)
        remat_profile_record_clear(profile);
    return status;
}

static remat_status read_profile(storage_connection *connection, sqlite3_stmt *row,
                                 remat_profile_record *profile, remat_error *error)
{
    remat_status status = read_fields(row, profile, error);
    if (status != REMAT_OK)
        return status;
    status = storage_take_blob(row, SUMMARY, summary_owner(profile->id), &profile->summary, error);
    if (status == REMAT_OK)
        status = storage_load_blob(connection, sqlite3_column_int64(row, COLUMN_GUARD),
                                   document_owner(profile->id), &profile->document, error);
    if (status != REMAT_OK)
        remat_profile_record_clear(profile);
    return status;
}

/* ---- put ---- */

typedef struct put_profile {
    const remat_profile_record *profile;
    remat_blob document, summary; /* encoded */
    bool created;
} put_profile;

/* *ret_seq is 0 when there is none; *ret_document when it has been dropped. */
static remat_status find(storage_connection *connection, const char *id, int64_t *ret_document,
                         remat_error *error)
{
    sqlite3_stmt *query;
    bool row;
    remat_status status = storage_query(connection, SQL_FIND_PROFILE, &query, error, "t", id);
    if (status != REMAT_OK)
        return status;
    status = storage_step(connection, query, &row, error);
    if (status == REMAT_OK)
        *ret_document = row ? sqlite3_column_int64(query, 1) : 0;
    storage_done(query);
    return status;
}

static remat_status run_put(storage_connection *connection, void *argument, remat_error *error)
{
    put_profile *put = argument;
    const remat_profile_record *profile = put->profile;
    int64_t document, nodes = profile->nodes, edges = profile->edges;
    put->created = false;
    remat_status status = find(connection, profile->id, &document, error);
    if (status != REMAT_OK || document)
        return status;
    status = storage_save_blob(connection, &put->document, &document, error);
    if (status != REMAT_OK)
        return status;
    uint64_t checksum = storage_checksum(CHECKED, profile->id, profile->name, profile->kind, nodes,
                                         edges, profile->created);
    put->created = true;
    return storage_run(connection, SQL_PUT_PROFILE, error, "tttiiiiinb", profile->id, profile->name,
                       profile->kind, nodes, edges, profile->created, profile->last_used,
                       (int64_t)checksum, document, &put->summary);
}

remat_status remat_store_put_profile(remat_store *store, const remat_profile_record *profile,
                                     bool *ret_created, remat_error *error)
{
    remat_profile_record stored;
    remat_status status = remat_store_get_profile(store, profile->id, &stored, error);
    if (status == REMAT_OK) {
        remat_profile_record_clear(&stored);
        *ret_created = false;
        return REMAT_OK;
    }
    if (status != REMAT_NOT_FOUND && status != REMAT_CORRUPT)
        return status;
    put_profile put = {.profile = profile};
    status = storage_encode(document_owner(profile->id), profile->document.data,
                            profile->document.length, &put.document, error);
    if (status == REMAT_OK)
        status = storage_encode(summary_owner(profile->id), profile->summary.data,
                                profile->summary.length, &put.summary, error);
    if (status == REMAT_OK)
        status = storage_submit(store, run_put, &put, error);
    if (status == REMAT_OK)
        *ret_created = put.created;
    free(put.document.data);
    free(put.summary.data);
    return status;
}

/* ---- get, delete, list ---- */

remat_status remat_store_get_profile(remat_store *store, const char *id,
                                     remat_profile_record *ret_profile, remat_error *error)
{
    storage_connection *connection;
    remat_status status = storage_read_begin(store, &connection, error);
    if (status != REMAT_OK)
        return status;
    sqlite3_stmt *query;
    remat_profile_record profile = {0};
    storage_damage damage = {0};
    remat_error why = {0};
    status = storage_query(connection, SQL_GET_PROFILE, &query, &why, "t", id);
    if (status == REMAT_OK) {
        bool row;
        status = storage_step(connection, query, &row, &why);
        if (status == REMAT_OK && !row)
            status = remat_fail(&why, REMAT_NOT_FOUND, NULL, "there is no profile %s", id);
        if (status == REMAT_OK) {
            damage = storage_damage_of(query);
            status = read_profile(connection, query, &profile, &why);
        }
        storage_done(query);
    }
    storage_read_end(store, connection);
    if (status == REMAT_OK)
        *ret_profile = profile;
    else if (error)
        *error = why;
    if (status == REMAT_CORRUPT && damage.seq)
        storage_drop(store, KIND_PROFILE, damage, id, why.message);
    return status;
}

static remat_status run_delete(storage_connection *connection, void *argument, remat_error *error)
{
    const char *id = argument;
    remat_status status = storage_run(connection, SQL_DELETE_PROFILE, error, "t", id);
    if (status == REMAT_OK && sqlite3_changes(connection->db) == 0)
        status = remat_fail(error, REMAT_NOT_FOUND, NULL, "there is no profile %s", id);
    return status;
}

remat_status remat_store_delete_profile(remat_store *store, const char *id, remat_error *error)
{
    return storage_submit(store, run_delete, (void *)(uintptr_t)id, error);
}

void remat_profile_record_clear(remat_profile_record *profile)
{
    free(profile->id);
    free(profile->name);
    free(profile->kind);
    free(profile->document.data);
    free(profile->summary.data);
    *profile = (remat_profile_record){0};
}

static void clear(void *item)
{
    remat_profile_record_clear(item);
}

remat_status remat_store_list_profiles(remat_store *store, const char *name, remat_page page,
                                       remat_profile_list *ret_list, remat_error *error)
{
    storage_list list = {.kind = KIND_PROFILE,
                         .statement = SQL_LIST_PROFILES,
                         .letter = 'p',
                         .filters = {name},
                         .item_size = sizeof(remat_profile_record),
                         .read = read_fields,
                         .clear = clear};
    remat_profile_list found;
    void *items;
    remat_status status =
        storage_list_page(store, &list, page, &items, &found.length, &found.next, error);
    if (status != REMAT_OK)
        return status;
    found.items = items;
    *ret_list = found;
    return REMAT_OK;
}

void remat_profile_list_clear(remat_profile_list *list)
{
    for (size_t i = 0; i < list->length; i++)
        remat_profile_record_clear(&list->items[i]);
    free(list->items);
    free(list->next);
    *list = (remat_profile_list){0};
}

/* ---- check ---- */

static remat_status verify(storage_connection *connection, sqlite3_stmt *row, remat_error *error)
{
    remat_profile_record profile;
    remat_status status = read_profile(connection, row, &profile, error);
    if (status == REMAT_OK)
        remat_profile_record_clear(&profile);
    return status;
}

remat_status storage_verify_profiles(storage_connection *connection, uint64_t *damaged,
                                     remat_error *error)
{
    return storage_verify_rows(connection, SQL_CHECK_PROFILES, "profile", verify, damaged, error);
}
