#include "private.h"

#include <stdlib.h>
#include <string.h>

enum { ID = COLUMN_FIRST, NAME, KIND, NODES, EDGES, CREATED, LAST_USED, SCHEDULES, SUMMARY };
#define CHECKED "tttiii" /* ID to CREATED */

/* The column has the names, a line each. */
static remat_status split_names(remat_profile_record *profile, remat_error *error)
{
    char *end = strchr(profile->name, '\n');
    if (!end)
        return REMAT_OK;
    *end = '\0';
    profile->other_names = strdup(end + 1);
    return profile->other_names ? REMAT_OK : remat_fail_memory(error);
}

/* A copy of a name on one line. NULL: out of memory. */
static char *one_line(const char *name)
{
    char *copy = strdup(name);
    for (char *c = copy; c && (c = strchr(c, '\n')) != NULL;)
        *c = ' ';
    return copy;
}

/* Without its blobs. */
static remat_status read_fields(const storage_rows *rows, void *item, remat_error *error)
{
    remat_profile_record *profile = item;
    remat_status status = storage_check_row(rows, CHECKED, error);
    if (status != REMAT_OK)
        return status;
    *profile = (remat_profile_record){
        .nodes = (uint32_t)storage_integer(rows, NODES),
        .edges = (uint32_t)storage_integer(rows, EDGES),
        .created = storage_integer(rows, CREATED),
        .last_used = storage_integer(rows, LAST_USED),
        .schedules = (uint64_t)storage_integer(rows, SCHEDULES),
    };
    const storage_text_column texts[] = {
        {ID, &profile->id}, {NAME, &profile->name}, {KIND, &profile->kind}};
    status = storage_take_texts(rows, texts, 3, error);
    if (status == REMAT_OK)
        status = split_names(profile, error);
    if (status != REMAT_OK)
        remat_profile_record_clear(profile);
    return status;
}

static remat_status read_profile(const storage_rows *rows, void *item, remat_error *error)
{
    remat_profile_record *profile = item;
    remat_status status = read_fields(rows, profile, error);
    if (status != REMAT_OK)
        return status;
    status = storage_take_blob(rows, SUMMARY, storage_owner("summary", profile->id),
                               &profile->summary, error);
    if (status == REMAT_OK)
        status =
            storage_load_blob(rows->connection, storage_integer(rows, COLUMN_GUARD),
                              storage_owner("document", profile->id), &profile->document, error);
    if (status != REMAT_OK)
        remat_profile_record_clear(profile);
    return status;
}

/* ---- put ---- */

typedef struct put_profile {
    const remat_profile_record *profile;
    char *name;                   /* on one line */
    remat_blob document, summary; /* encoded */
    bool created;
} put_profile;

static remat_status run_put(storage_connection *connection, void *argument, remat_error *error)
{
    put_profile *put = argument;
    const remat_profile_record *profile = put->profile;
    int64_t known[2], document, nodes = profile->nodes, edges = profile->edges;
    put->created = false;
    remat_status status =
        storage_numbers(connection, SQL_FIND_PROFILE, 2, known, error, "t", profile->id);
    if (status != REMAT_OK || known[1]) /* its document; 0: dropped */
        return status;
    status = storage_save_blob(connection, &put->document, &document, error);
    if (status != REMAT_OK)
        return status;
    uint64_t checksum = storage_checksum(CHECKED, profile->id, put->name, profile->kind, nodes,
                                         edges, profile->created);
    put->created = true;
    return storage_run(connection, SQL_PUT_PROFILE, error, "tttiiiiinb", profile->id, put->name,
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
    put_profile put = {.profile = profile, .name = profile->name ? one_line(profile->name) : NULL};
    if (profile->name && !put.name)
        return remat_fail_memory(error);
    status = storage_encode(storage_owner("document", profile->id), &profile->document,
                            &put.document, error);
    if (status == REMAT_OK)
        status = storage_encode(storage_owner("summary", profile->id), &profile->summary,
                                &put.summary, error);
    if (status == REMAT_OK)
        status = storage_submit(store, run_put, &put, error);
    if (status == REMAT_OK)
        *ret_created = put.created;
    free(put.name);
    free(put.document.data);
    free(put.summary.data);
    return status;
}

/* ---- names ---- */

enum { NAMES_BYTES = 4000 };

typedef struct naming {
    const char *id, *name;
    bool added;
} naming;

static bool has_name(const remat_profile_record *profile, const char *name)
{
    size_t length = strlen(name);
    if (strcmp(profile->name, name) == 0)
        return true;
    for (const char *line = profile->other_names; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && (line[length] == '\n' || !line[length]))
            return true;
    }
    return false;
}

/* All names and one more. NULL: out of memory. */
static char *add_line(const remat_profile_record *profile, const char *name)
{
    const char *others = profile->other_names ? profile->other_names : "";
    size_t length = strlen(profile->name) + strlen(name) + 2;
    while (*others && length + strlen(others) + 1 > NAMES_BYTES) {
        others += strcspn(others, "\n");
        others += *others == '\n';
    }
    char *all = malloc(length + strlen(others) + 1);
    if (!all)
        return NULL;
    char *end = stpcpy(stpcpy(all, profile->name), "\n");
    if (*others)
        end = stpcpy(stpcpy(end, others), "\n");
    strcpy(end, name);
    return all;
}

static remat_status write_names(storage_connection *connection, int64_t seq,
                                const remat_profile_record *profile, const char *name,
                                remat_error *error)
{
    char *all = add_line(profile, name);
    if (!all)
        return remat_fail_memory(error);
    int64_t nodes = profile->nodes, edges = profile->edges;
    uint64_t checksum =
        storage_checksum(CHECKED, profile->id, all, profile->kind, nodes, edges, profile->created);
    remat_status status =
        storage_run(connection, SQL_NAME_PROFILE, error, "iti", seq, all, (int64_t)checksum);
    free(all);
    return status;
}

static remat_status run_name(storage_connection *connection, void *argument, remat_error *error)
{
    naming *n = argument;
    const storage_key key = {KIND_PROFILE, SQL_GET_PROFILE, {n->id}};
    remat_profile_record profile = {0};
    storage_damage row = {0};
    n->added = false;
    remat_status status = storage_find(connection, &key, read_fields, &profile, &row, error);
    if (status == REMAT_OK && !has_name(&profile, n->name)) {
        status = write_names(connection, row.seq, &profile, n->name, error);
        n->added = status == REMAT_OK;
    }
    remat_profile_record_clear(&profile);
    return status;
}

remat_status remat_store_name_profile(remat_store *store, const char *id, const char *name,
                                      bool *ret_added, remat_error *error)
{
    char *line = one_line(name);
    if (!line)
        return remat_fail_memory(error);
    naming n = {.id = id, .name = line};
    remat_status status = storage_submit(store, run_name, &n, error);
    if (status == REMAT_OK)
        *ret_added = n.added;
    free(line);
    return status;
}

/* ---- get, delete, list ---- */

remat_status remat_store_get_profile(remat_store *store, const char *id,
                                     remat_profile_record *ret_profile, remat_error *error)
{
    storage_key key = {KIND_PROFILE, SQL_GET_PROFILE, {id}};
    remat_profile_record profile;
    remat_status status = storage_get(store, &key, read_profile, &profile, error);
    if (status == REMAT_OK)
        *ret_profile = profile;
    return status;
}

static remat_status run_delete(storage_connection *connection, void *argument, remat_error *error)
{
    const char *id = argument;
    const storage_backend *backend = connection->backend;
    remat_status status = storage_run(connection, SQL_DELETE_PROFILE, error, "t", id);
    if (status == REMAT_OK && backend->changes(connection) == 0)
        return remat_fail(error, REMAT_NOT_FOUND, NULL, "there is no profile %s", id);
    return status != REMAT_OK ? status
                              : backend->notify(connection, REMAT_STORE_DELETED, id, error);
}

remat_status remat_store_delete_profile(remat_store *store, const char *id, remat_error *error)
{
    return storage_submit(store, run_delete, (void *)(uintptr_t)id, error);
}

void remat_profile_record_clear(remat_profile_record *profile)
{
    free(profile->id);
    free(profile->name);
    free(profile->other_names);
    free(profile->kind);
    free(profile->document.data);
    free(profile->summary.data);
    *profile = (remat_profile_record){0};
}

static void clear(void *item)
{
    remat_profile_record_clear(item);
}

static const storage_items items = {sizeof(remat_profile_record), read_fields, clear};

remat_status remat_store_list_profiles(remat_store *store, const char *name, remat_page page,
                                       remat_profile_list *ret_list, remat_error *error)
{
    storage_list list = {.items = &items,
                         .kind = KIND_PROFILE,
                         .statement = name ? SQL_LIST_PROFILES_NAMED : SQL_LIST_PROFILES,
                         .letter = 'p',
                         .filters = {name}};
    storage_page found;
    remat_status status = storage_list_page(store, &list, page, &found, error);
    if (status == REMAT_OK)
        *ret_list = (remat_profile_list){found.items, found.length, found.next};
    return status;
}

void remat_profile_list_clear(remat_profile_list *list)
{
    storage_page_clear((storage_page){list->items, list->length, list->next}, &items);
    *list = (remat_profile_list){0};
}

const storage_check storage_check_profiles = {
    SQL_CHECK_PROFILES, "profile", {sizeof(remat_profile_record), read_profile, clear}};
