/* One connection. Nothing here waits for ever: connecting, the server's work on a statement and the
 * silence of the network each have a limit. */
#include "postgres.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The server ends a statement before we lose patience with the server. */
#define STATEMENT_MILLISECONDS "15000"
enum { PATIENCE_MILLISECONDS = 20000 };

int64_t postgres_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- the URL ---- */

static const char *option(const PQconninfoOption *options, const char *keyword)
{
    for (; options->keyword; options++)
        if (strcmp(options->keyword, keyword) == 0)
            return options->val ? options->val : "";
    return "";
}

/* libpq's words about a URL that it cannot read repeat parts of it, and so maybe the password. */
remat_status postgres_name(const char *url, char **ret_name, remat_error *error)
{
    PQconninfoOption *options = PQconninfoParse(url, NULL);
    if (!options)
        return remat_fail(error, REMAT_INVALID, "store",
                          "the URL of the store is not like "
                          "postgresql://USER:PASSWORD@HOST:PORT/DATABASE");
    const char *user = option(options, "user"), *host = option(options, "host");
    const char *port = option(options, "port"), *database = option(options, "dbname");
    bool is_socket = host[0] == '/';
    char *name = NULL;
    int length = asprintf(&name, "postgresql://%s%s%s%s%s/%s%s%s", user, user[0] ? "@" : "",
                          is_socket ? "" : host, port[0] ? ":" : "", port, database,
                          is_socket ? "?host=" : "", is_socket ? host : "");
    PQconninfoFree(options);
    if (length < 0)
        return remat_fail_memory(error);
    *ret_name = name;
    return REMAT_OK;
}

/* ---- failures ---- */

static remat_status status_of(const char *state)
{
    static const struct {
        const char *prefix;
        remat_status status;
    } states[] = {
        {"23502", REMAT_INVALID}, /* not_null_violation */
        {"22021", REMAT_INVALID}, /* character_not_in_repertoire */
        {"22P05", REMAT_INVALID}, /* untranslatable_character */
        {"XX001", REMAT_CORRUPT}, /* data_corrupted */
        {"XX002", REMAT_CORRUPT}, /* index_corrupted */
        {"54", REMAT_TOO_LARGE},  /* program_limit_exceeded */
        {"08", REMAT_IO},         /* connection_exception */
        {"25006", REMAT_IO},      /* read_only_sql_transaction: a standby */
        {"28", REMAT_IO},         /* invalid_authorization */
        {"3D", REMAT_IO},         /* invalid_catalog_name */
        {"40", REMAT_IO},         /* transaction_rollback */
        {"42501", REMAT_IO},      /* insufficient_privilege */
        {"53", REMAT_IO},         /* insufficient_resources: disk, memory, connections */
        {"55", REMAT_IO},         /* object_not_in_prerequisite_state */
        {"57", REMAT_IO},         /* operator_intervention: timeouts, shutdown */
        {"58", REMAT_IO},         /* system_error */
    };
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        if (strncmp(state, states[i].prefix, strlen(states[i].prefix)) == 0)
            return states[i].status;
    return REMAT_INTERNAL;
}

/* The first line of libpq's message: the others are hints and positions. */
static void first_line(const char *message, char line[256])
{
    snprintf(line, 256, "%.*s", (int)strcspn(message, "\n"), message);
}

static remat_status fail(postgres_connection *connection, const PGresult *result, const char *act,
                         remat_error *error)
{
    const char *name = connection->base.store->name;
    const char *state = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
    const char *why = result ? PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY) : NULL;
    char line[256];
    snprintf(connection->state, sizeof connection->state, "%s", state ? state : "");
    connection->broken |= PQstatus(connection->db) != CONNECTION_OK;
    if (state && why)
        return remat_fail(error, status_of(state), NULL, "cannot %s %s: %s (SQLSTATE %s)", act,
                          name, why, state);
    first_line(PQerrorMessage(connection->db), line);
    connection->broken = true; /* libpq's own failure: nothing is known of what it has still open */
    return remat_fail(error, REMAT_IO, NULL, "cannot %s %s: %s", act, name,
                      line[0] ? line : "the connection is lost");
}

bool postgres_conflicted(const postgres_connection *connection)
{
    static const char *const states[] = {
        "40001", /* serialization_failure */
        "40P01", /* deadlock_detected */
        "23505", /* unique_violation: another put the same at the same time */
        "23503", /* foreign_key_violation: another deleted what it belongs to */
    };
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        if (strcmp(connection->state, states[i]) == 0)
            return true;
    return false;
}

/* ---- waiting ---- */

static remat_status lose_patience(postgres_connection *connection, const char *act,
                                  remat_error *error)
{
    connection->broken = true;
    connection->state[0] = '\0';
    return remat_fail(error, REMAT_IO, NULL, "cannot %s %s: no answer within %d s", act,
                      connection->base.store->name, connection->patience / 1000);
}

/* Sends what is waiting and reads until the next result is there. */
static remat_status wait_for_result(postgres_connection *connection, const char *act,
                                    remat_error *error)
{
    PGconn *db = connection->db;
    for (;;) {
        int unsent = PQflush(db);
        if (unsent < 0)
            return fail(connection, NULL, act, error);
        if (!unsent && !PQisBusy(db))
            return REMAT_OK;
        struct pollfd entry = {.fd = PQsocket(db),
                               .events = (short)(unsent ? POLLIN | POLLOUT : POLLIN)};
        int ready = poll(&entry, 1, connection->patience);
        if (ready == 0)
            return lose_patience(connection, act, error);
        if (ready > 0 && (entry.revents & ~POLLOUT) && !PQconsumeInput(db))
            return fail(connection, NULL, act, error);
    }
}

remat_status postgres_receive(postgres_connection *connection, const char *act,
                              PGresult **ret_result, remat_error *error)
{
    PGresult *result = NULL;
    for (;;) {
        remat_status status = wait_for_result(connection, act, error);
        PGresult *next = status == REMAT_OK ? PQgetResult(connection->db) : NULL;
        if (status != REMAT_OK) {
            PQclear(result);
            return status;
        }
        if (!next)
            break;
        if (!result || PQresultStatus(result) != PGRES_FATAL_ERROR) {
            PQclear(result);
            result = next;
        } else {
            PQclear(next);
        }
    }
    ExecStatusType kind = PQresultStatus(result);
    if (kind == PGRES_COMMAND_OK || kind == PGRES_TUPLES_OK) {
        *ret_result = result;
        return REMAT_OK;
    }
    remat_status status = fail(connection, result, act, error);
    PQclear(result);
    return status;
}

remat_status postgres_exec(postgres_connection *connection, const char *sql, const char *act,
                           remat_error *error)
{
    PGresult *result;
    if (!PQsendQuery(connection->db, sql))
        return fail(connection, NULL, act, error);
    remat_status status = postgres_receive(connection, act, &result, error);
    if (status == REMAT_OK)
        PQclear(result);
    return status;
}

remat_status postgres_number(postgres_connection *connection, const char *sql, int64_t *ret_number,
                             remat_error *error)
{
    PGresult *result;
    if (!PQsendQuery(connection->db, sql))
        return fail(connection, NULL, "read", error);
    remat_status status = postgres_receive(connection, "read", &result, error);
    if (status != REMAT_OK)
        return status;
    if (PQntuples(result) > 0)
        *ret_number = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return REMAT_OK;
}

/* ---- connecting ---- */

static remat_status set_up(postgres_connection *connection, remat_error *error)
{
    bool read_only = connection->base.store->options.read_only;
    if (PQsetnonblocking(connection->db, 1) != 0)
        return fail(connection, NULL, "connect to", error);
    return postgres_exec(connection,
                         read_only ? "SET search_path = remat, pg_catalog;"
                                     "SET statement_timeout = " STATEMENT_MILLISECONDS ";"
                                     "SET default_transaction_read_only = on"
                                   : "SET search_path = remat, pg_catalog;"
                                     "SET statement_timeout = " STATEMENT_MILLISECONDS ";"
                                     "SET idle_in_transaction_session_timeout = 60000;"
                                     "SET synchronous_commit = on",
                         "connect to", error);
}

static void ignore_notice(void *data, const PGresult *result)
{
}

remat_status postgres_connect(const remat_store *store, const char *url,
                              postgres_connection **ret_connection, remat_error *error)
{
    /* What the URL says counts more than what stands before it. */
    static const char *const keywords[] = {
        "connect_timeout",     "keepalives_idle",  "keepalives_count",
        "keepalives_interval", "tcp_user_timeout", "application_name",
        "client_encoding",     "dbname",           NULL};
    const char *const values[] = {"5", "10", "3", "5", "30000", "rematd", "UTF8", url, NULL};
    postgres_connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return remat_fail_memory(error);
    connection->base = (storage_connection){.backend = &storage_postgres, .store = store};
    connection->patience = PATIENCE_MILLISECONDS;
    connection->db = PQconnectdbParams(keywords, values, 1);
    remat_status status = connection->db ? REMAT_OK : remat_fail_memory(error);
    if (status == REMAT_OK && PQstatus(connection->db) != CONNECTION_OK)
        status = fail(connection, NULL, "connect to", error);
    if (status == REMAT_OK) {
        PQsetNoticeReceiver(connection->db, ignore_notice, NULL);
        status = set_up(connection, error);
    }
    if (status != REMAT_OK)
        postgres_disconnect(connection);
    else
        *ret_connection = connection;
    return status;
}

void postgres_disconnect(postgres_connection *connection)
{
    if (!connection)
        return;
    PQfinish(connection->db);
    free(connection);
}
