#include "security/tokens.h"

#include <errno.h>
#include <fcntl.h>
#include <nettle/memops.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static const struct {
    const char *name;
    scope scope;
} scope_names[] = {{"read", SCOPE_READ}, {"solve", SCOPE_SOLVE}, {"admin", SCOPE_ADMIN}};
enum { N_SCOPES = sizeof scope_names / sizeof *scope_names };

static unsigned scope_named(const char *name, size_t length)
{
    for (size_t i = 0; i < N_SCOPES; i++)
        if (strlen(scope_names[i].name) == length && memcmp(scope_names[i].name, name, length) == 0)
            return scope_names[i].scope;
    return 0;
}

/* "read,solve" -> scopes; 0 if a word is unknown. */
static unsigned read_scopes(const char *text)
{
    unsigned scopes = 0;
    while (*text) {
        size_t length = strcspn(text, ",");
        unsigned one = scope_named(text, length);
        if (!one)
            return 0;
        scopes |= one;
        text += length + (text[length] == ',');
    }
    return scopes;
}

/* ---- the file ---- */

static bool name_is_plain(const char *name)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t length = strlen(name);
    return length > 0 && length < TOKEN_NAME_SIZE && strspn(name, plain) == length;
}

static remat_status read_token(const json_t *json, size_t i, token *one, remat_error *error)
{
    const char *name = NULL, *hash = NULL, *created = "";
    json_t *scopes = NULL, *word;
    double rate = 0;
    int jobs = 0;
    size_t k;
    if (json_unpack((json_t *)json, "{s:s, s:s, s:o, s?s, s?F, s?i}", "name", &name, "sha256",
                    &hash, "scopes", &scopes, "created", &created, "rate", &rate, "jobs", &jobs) ||
        !name_is_plain(name) || !remat_is_id(hash) || !json_is_array(scopes) || !(rate >= 0) ||
        jobs < 0)
        return remat_fail(error, REMAT_INVALID, "tokens",
                          "tokens[%zu] needs a plain name, a sha256 of 64 hex digits, scopes, and "
                          "no negative rate or jobs",
                          i);
    *one = (token){.rate = rate, .jobs = (unsigned)jobs};
    snprintf(one->name, sizeof one->name, "%s", name);
    snprintf(one->created, sizeof one->created, "%s", created);
    memcpy(one->hash, hash, REMAT_ID_SIZE);
    json_array_foreach(scopes, k, word)
    {
        const char *text = json_string_value(word);
        unsigned known = text ? scope_named(text, strlen(text)) : 0;
        if (!known)
            return remat_fail(error, REMAT_INVALID, "tokens",
                              "tokens[%zu] (%s) has a scope that is none of read, solve, admin", i,
                              name);
        one->scopes |= known;
    }
    if (!one->scopes)
        return remat_fail(error, REMAT_INVALID, "tokens", "tokens[%zu] (%s) has no scopes", i,
                          name);
    return REMAT_OK;
}

remat_status tokens_load(const char *path, tokens *ret_tokens, remat_error *error)
{
    json_error_t where;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &where);
    const json_t *list = json_object_get(root, "tokens");
    remat_status status = REMAT_OK;
    if (!json_is_array(list)) {
        status = remat_fail(error, REMAT_INVALID, "tokens", "%s: %s", path,
                            root ? "it has no array \"tokens\"" : where.text);
        json_decref(root);
        return status;
    }
    tokens t = {.n = json_array_size(list)};
    t.items = calloc(t.n + 1, sizeof *t.items);
    if (!t.items)
        status = remat_fail_memory(error);
    for (size_t i = 0; i < t.n && !status; i++)
        status = read_token(json_array_get(list, i), i, &t.items[i], error);
    json_decref(root);
    if (status)
        tokens_clear(&t);
    else
        *ret_tokens = t;
    return status;
}

void tokens_clear(tokens *t)
{
    free(t->items);
    *t = (tokens){0};
}

static json_t *encode_token(const token *one)
{
    json_t *scopes = json_array();
    for (size_t i = 0; i < N_SCOPES; i++)
        if (one->scopes & (unsigned)scope_names[i].scope)
            remat_json_append(&scopes, json_string(scope_names[i].name));
    return json_pack("{s:s, s:o, s:s, s:s, s:f, s:i}", "name", one->name, "scopes", scopes,
                     "sha256", one->hash, "created", one->created, "rate", one->rate, "jobs",
                     (int)one->jobs);
}

/* A whole new file in the place of the old one, so that a reader sees one or the other. */
static remat_status tokens_save(const char *path, const tokens *t, remat_error *error)
{
    char temporary[1100];
    json_t *list = json_array();
    for (size_t i = 0; i < t->n; i++)
        remat_json_append(&list, encode_token(&t->items[i]));
    json_t *root = json_pack("{s:o}", "tokens", list);
    snprintf(temporary, sizeof temporary, "%s.new", path);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool written = root && fd >= 0 && json_dumpfd(root, fd, JSON_INDENT(1)) == 0 &&
                   write(fd, "\n", 1) == 1 && fsync(fd) == 0;
    int code = errno;
    if (fd >= 0)
        close(fd);
    json_decref(root);
    if (written && rename(temporary, path) == 0)
        return REMAT_OK;
    return remat_fail(error, REMAT_IO, "tokens", "cannot write %s: %s", path,
                      strerror(written ? errno : code));
}

/* ---- who it is ---- */

const token *tokens_find(const tokens *t, const char *text)
{
    char hash[REMAT_ID_SIZE];
    const token *found = NULL;
    remat_sha256_hex(text, strlen(text), hash);
    for (size_t i = 0; i < t->n; i++)
        if (memeql_sec(t->items[i].hash, hash, REMAT_ID_SIZE - 1))
            found = &t->items[i];
    return found;
}

/* ---- changing the file ---- */

static remat_status load_or_none(const char *path, tokens *t, remat_error *error)
{
    *t = (tokens){0};
    return access(path, F_OK) != 0 && errno == ENOENT ? REMAT_OK : tokens_load(path, t, error);
}

static ptrdiff_t index_of(const tokens *t, const char *name)
{
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->items[i].name, name) == 0)
            return (ptrdiff_t)i;
    return -1;
}

static remat_status make_token(token *one, char ret_text[TOKEN_SIZE], remat_error *error)
{
    uint8_t random[32];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return remat_fail(error, REMAT_IO, NULL, "the system gives no random numbers");
    int length = snprintf(ret_text, TOKEN_SIZE, "remat_");
    for (size_t i = 0; i < sizeof random; i++)
        length += snprintf(ret_text + length, (size_t)(TOKEN_SIZE - length), "%02x", random[i]);
    remat_sha256_hex(ret_text, strlen(ret_text), one->hash);
    remat_time_text((int64_t)time(NULL) * 1000, one->created);
    return REMAT_OK;
}

/* Adds a token to the file (made if it is not there, readable by its owner only); text gets the
 * token, which is told once and kept nowhere. REMAT_INVALID: the name is taken. */
static remat_status add_token(const char *path, token *one, char ret_text[TOKEN_SIZE],
                              remat_error *error)
{
    tokens t;
    remat_status status = load_or_none(path, &t, error);
    if (status)
        return status;
    token *items = realloc(t.items, (t.n + 1) * sizeof *items);
    if (items)
        t.items = items;
    if (!items)
        status = remat_fail_memory(error);
    else if (!name_is_plain(one->name) || index_of(&t, one->name) >= 0)
        status =
            remat_fail(error, REMAT_INVALID, "name",
                       "the name \"%s\" is taken or not made of letters, digits, . _ -", one->name);
    else
        status = make_token(one, ret_text, error);
    if (!status) {
        t.items[t.n++] = *one;
        status = tokens_save(path, &t, error);
    }
    tokens_clear(&t);
    return status;
}

/* REMAT_NOT_FOUND: there is no such name. */
static remat_status revoke_token(const char *path, const char *name, remat_error *error)
{
    tokens t;
    remat_status status = tokens_load(path, &t, error);
    if (status)
        return status;
    ptrdiff_t index = index_of(&t, name);
    if (index < 0) {
        status = remat_fail(error, REMAT_NOT_FOUND, "name", "there is no token \"%s\"", name);
    } else {
        t.items[index] = t.items[--t.n];
        status = tokens_save(path, &t, error);
    }
    tokens_clear(&t);
    return status;
}

/* ---- the commands ---- */

static int report(remat_status status, const remat_error *error)
{
    if (status)
        fprintf(stderr, "rematd: %s\n", error->message);
    return status ? 1 : 0;
}

static int bad_usage(void)
{
    fputs("rematd: usage: rematd token add NAME read,solve,admin [rate=N] [jobs=N]\n"
          "               rematd token list\n"
          "               rematd token revoke NAME        (all with --tokens FILE)\n",
          stderr);
    return 2;
}

static bool read_limit(const char *text, token *one)
{
    char *end;
    bool rate = strncmp(text, "rate=", 5) == 0, jobs = strncmp(text, "jobs=", 5) == 0;
    double number = rate || jobs ? strtod(text + 5, &end) : -1;
    if (!(number >= 0 && number <= 1e6) || *end || end == text + 5)
        return false;
    if (rate)
        one->rate = number;
    else
        one->jobs = (unsigned)number;
    return true;
}

static int add(const char *path, int argc, char **argv)
{
    token one = {.scopes = argc >= 4 ? read_scopes(argv[3]) : 0};
    char text[TOKEN_SIZE];
    remat_error error;
    if (!one.scopes || strlen(argv[2]) >= sizeof one.name)
        return bad_usage();
    snprintf(one.name, sizeof one.name, "%s", argv[2]);
    for (int i = 4; i < argc; i++)
        if (!read_limit(argv[i], &one))
            return bad_usage();
    remat_status status = add_token(path, &one, text, &error);
    if (!status)
        printf("%s\n", text);
    return report(status, &error);
}

static int list(const char *path)
{
    tokens t;
    remat_error error;
    remat_status status = load_or_none(path, &t, &error);
    for (size_t i = 0; !status && i < t.n; i++) {
        const token *one = &t.items[i];
        printf("%-20s %s%s%s rate=%g jobs=%u since %s\n", one->name,
               one->scopes & SCOPE_READ ? "read " : "", one->scopes & SCOPE_SOLVE ? "solve " : "",
               one->scopes & SCOPE_ADMIN ? "admin" : "", one->rate, one->jobs, one->created);
    }
    if (!status)
        tokens_clear(&t);
    return report(status, &error);
}

int tokens_command(const char *path, int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "";
    remat_error error;
    if (!path[0]) {
        fputs("rematd: token needs --tokens FILE (or REMATD_TOKENS)\n", stderr);
        return 2;
    }
    if (strcmp(verb, "add") == 0 && argc >= 4)
        return add(path, argc, argv);
    if (strcmp(verb, "list") == 0 && argc == 2)
        return list(path);
    if (strcmp(verb, "revoke") == 0 && argc == 3)
        return report(revoke_token(path, argv[2], &error), &error);
    return bad_usage();
}
