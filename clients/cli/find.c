/* Ids by what people type. Names and beginnings of ids are looked for in the server's lists. */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHORTEST_PREFIX = 4, MOST_PAGES = 100, PAGE = 1000, MOST_NAMES = 200 };

typedef struct search {
    const char *what;      /* "profile" */
    const char *list, *id; /* members of the answer and of an item */
    const char *text;
    bool named;              /* items have names */
    size_t n_named, n_begun; /* of that name; whose ids begin so */
    char by_name[REMAT_ID_SIZE], begun[REMAT_ID_SIZE];
    char others[200];        /* ids of those of that name */
    char *names[MOST_NAMES]; /* of the others */
    size_t n_names;
} search;

static void note_name(search *s, const char *name)
{
    if (s->n_names < MOST_NAMES && (s->names[s->n_names] = strdup(name)) != NULL)
        s->n_names++;
}

/* Whether one of an item's names is the text; all are noted. */
static bool is_named(search *s, const json_t *item)
{
    const json_t *names = json_object_get(item, "names");
    bool found = strcmp(json_get_text(item, "name"), s->text) == 0;
    note_name(s, json_get_text(item, "name"));
    for (size_t i = 1; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        if (!name)
            continue;
        found |= strcmp(name, s->text) == 0;
        note_name(s, name);
    }
    return found;
}

static void look_at(search *s, const json_t *item)
{
    const char *id = json_get_text(item, s->id);
    if (s->named && is_named(s, item)) {
        size_t length = strlen(s->others);
        snprintf(s->others + length, sizeof s->others - length, "%s%.12s", length ? ", " : "", id);
        snprintf(s->by_name, sizeof s->by_name, "%.64s", id);
        s->n_named++;
    }
    if (strlen(s->text) >= SHORTEST_PREFIX && strncmp(id, s->text, strlen(s->text)) == 0) {
        snprintf(s->begun, sizeof s->begun, "%.64s", id);
        s->n_begun++;
    }
}

static remat_status look_through(struct cli *cli, const char *path, search *s)
{
    char whole[400], cursor[300] = "";
    remat_status status = cli_connect(cli);
    for (unsigned page = 0; page < MOST_PAGES && !status; page++) {
        remat_client_answer answer;
        snprintf(whole, sizeof whole, "%s?limit=%d%s%s", path, PAGE, cursor[0] ? "&cursor=" : "",
                 cursor);
        status = remat_client_request(cli->client, "GET", whole, NULL, &answer, &cli->error);
        status = cli_expect_list(cli, status, &answer, s->list, "{s:s}", s->id);
        if (status)
            break;
        const json_t *list = json_object_get(answer.json, s->list);
        for (size_t i = 0; i < json_array_size(list); i++)
            look_at(s, json_array_get(list, i));
        snprintf(cursor, sizeof cursor, "%s", json_get_text(answer.json, "next"));
        remat_client_answer_clear(&answer);
        if (!cursor[0])
            break;
    }
    return status;
}

static remat_status decide(struct cli *cli, const search *s, char ret_id[REMAT_ID_SIZE])
{
    if (s->n_named > 1)
        return remat_fail(&cli->error, REMAT_INVALID, NULL,
                          "%zu profiles are called \"%.60s\" (%s); give an id", s->n_named, s->text,
                          s->others);
    if (s->n_named == 0 && s->n_begun > 1)
        return remat_fail(&cli->error, REMAT_INVALID, NULL,
                          "%zu ids of %ss begin with %.64s; give more of it", s->n_begun, s->what,
                          s->text);
    if (s->n_named + s->n_begun == 0) {
        const char *meant = remat_nearest(s->text, (const char *const *)s->names, s->n_names);
        return remat_fail(&cli->error, REMAT_NOT_FOUND, NULL,
                          "there is no %s%s \"%.100s\"%s%.100s%s",
                          s->named ? "file and on the server no " : "", s->what, s->text,
                          meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "");
    }
    memcpy(ret_id, s->n_named == 1 ? s->by_name : s->begun, REMAT_ID_SIZE);
    return REMAT_OK;
}

/* A path in the place of a name. */
static remat_status fail_file(struct cli *cli, const search *s)
{
    return remat_fail(&cli->error, REMAT_INVALID, NULL,
                      "%.200s is a file, and 'remat %s %s' takes %s", s->text, cli->command,
                      cli->arguments[0],
                      s->named ? "a name or an id; 'remat profile check' reads files" : "an id");
}

static remat_status find(struct cli *cli, const char *path, search s, char ret_id[REMAT_ID_SIZE])
{
    bool is_file = access(s.text, F_OK) == 0;
    if (is_file && strchr(s.text, '/'))
        return fail_file(cli, &s);
    remat_status status = look_through(cli, path, &s);
    if (!status)
        status = decide(cli, &s, ret_id);
    if (status == REMAT_NOT_FOUND && is_file && s.n_named + s.n_begun == 0)
        status = fail_file(cli, &s);
    while (s.n_names > 0)
        free(s.names[--s.n_names]);
    return status;
}

remat_status find_profile(struct cli *cli, const char *text, char ret_id[REMAT_ID_SIZE])
{
    if (!remat_is_id(text))
        return find(cli, "/v1/profiles",
                    (search){.what = "profile",
                             .list = "profiles",
                             .id = "profile_id",
                             .text = text,
                             .named = true},
                    ret_id);
    memcpy(ret_id, text, REMAT_ID_SIZE);
    return REMAT_OK;
}

remat_status find_schedule(struct cli *cli, const char *text, char ret_id[REMAT_ID_SIZE])
{
    if (!remat_is_id(text))
        return find(
            cli, "/v1/schedules",
            (search){.what = "schedule", .list = "schedules", .id = "schedule_id", .text = text},
            ret_id);
    memcpy(ret_id, text, REMAT_ID_SIZE);
    return REMAT_OK;
}

remat_status find_job(struct cli *cli, const char *text, char ret_id[REMAT_ID_SIZE])
{
    if (strlen(text) != 32 || strspn(text, "0123456789abcdef") != 32)
        return find(cli, "/v1/jobs",
                    (search){.what = "job", .list = "jobs", .id = "job_id", .text = text}, ret_id);
    snprintf(ret_id, REMAT_ID_SIZE, "%s", text);
    return REMAT_OK;
}
