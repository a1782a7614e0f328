#include "config.h"

#include "api.h"
#include "host/machine.h"
#include "storage.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum setting_type { TEXT, BYTES, COUNT, LEVEL } setting_type;

typedef struct setting {
    const char *flag, *argument, *help;
    setting_type type;
    size_t offset, size; /* size: of TEXT */
    double minimum, maximum;
    bool lively; /* takes effect at SIGHUP */
} setting;

#define MOST_CACHE_BYTES (UINT64_C(256) << 20)
#define BODY_MEMORY (UINT64_C(192) << 20)
#define MAX_BODY (UINT64_C(64) << 20)
#define AT(member) offsetof(config, member)
static const setting settings[] = {
    {"listen", "ADDRESS:PORT", "where to listen (default 127.0.0.1:7070; port 0: any free port)",
     TEXT, AT(listen), sizeof((config *)0)->listen, 0, 0, false},
    {"host", "NAME,NAME",
     "more names that requests may be for; * is any (default: addresses, localhost\n"
     "                              and the name of --listen; with --tokens: any)",
     TEXT, AT(hosts), sizeof((config *)0)->hosts, 0, 0, true},
    {"store", "PATH|URL",
     "the store (default $XDG_STATE_HOME/remat/store.db; /var/lib/remat/store.db as root);\n"
     "                              postgresql://USER@HOST/DATABASE is one that daemons share",
     TEXT, AT(store), sizeof((config *)0)->store, 0, 0, false},
    {"workers", "N", "solves at a time (default: the cores that it may use)", COUNT, AT(workers), 0,
     1, 1024, false},
    {"memory-limit", "BYTES",
     "tables and answers of all solves at a time, and the largest table of one\n"
     "                              (default: a quarter of what it may use)",
     BYTES, AT(memory_limit), 0, 1 << 20, 9e15, false},
    {"cache-bytes", "BYTES",
     "answers kept in memory, and as much for tables and for profiles\n"
     "                              (default: an eighth of memory-limit, at most 256MiB)",
     BYTES, AT(cache_bytes), 0, 0, 9e15, false},
    {"max-body", "BYTES",
     "largest request body, also after decoding\n"
     "                              (default: 64MiB, at most body-memory)",
     BYTES, AT(max_body), 0, 1024, 1 << 30, false},
    {"body-memory", "BYTES",
     "request bodies and what is read out of them, of all connections together\n"
     "                              (default: a quarter of memory-limit, or more: 192MiB, or a\n"
     "                              quarter of what the daemon may use where that is less)",
     BYTES, AT(body_memory), 0, 1 << 20, 9e15, false},
    {"max-nodes", "N", "nodes of one profile (default 200000)", COUNT, AT(max_nodes), 0, 1,
     REMAT_MAX_NODES, false},
    {"max-edges", "N", "edges of one profile (default 2000000)", COUNT, AT(max_edges), 0, 1, 1e8,
     false},
    {"queue-limit", "N", "solves that may wait (default 1000)", COUNT, AT(queue_limit), 0, 1, 1e6,
     false},
    {"max-connections", "N", "connections at a time (default 4000)", COUNT, AT(max_connections), 0,
     1, 1e6, false},
    {"idle-seconds", "S", "before a silent connection is closed (default 60)", COUNT,
     AT(idle_seconds), 0, 1, 86400, false},
    {"receive-seconds", "S", "beyond idle-seconds to send a request (default 30)", COUNT,
     AT(receive_seconds), 0, 1, 86400, false},
    {"solve-seconds", "S", "limit of one solve (default 600)", COUNT, AT(solve_seconds), 0, 1,
     86400, false},
    {"lease-seconds", "S", "on a shared store: how long a dead daemon keeps its jobs (default 10)",
     COUNT, AT(lease_seconds), 0, 2, 3600, false},
    {"stop-seconds", "S", "within which SIGTERM ends it, whatever runs; at least 2 (default 20)",
     COUNT, AT(stop_seconds), 0, 0, 86400, false},
    {"log-level", "LEVEL", "error, warning, info or debug (default info)", LEVEL, AT(log_level), 0,
     0, 0, true},
    {"tokens", "FILE", "bearer tokens (rematd token); without it nobody needs one", TEXT,
     AT(tokens), sizeof((config *)0)->tokens, 0, 0, false},
    {"tls-cert", "FILE", "certificate with its chain, PEM: serve HTTPS", TEXT, AT(tls_cert),
     sizeof((config *)0)->tls_cert, 0, 0, false},
    {"tls-key", "FILE", "its key, PEM", TEXT, AT(tls_key), sizeof((config *)0)->tls_key, 0, 0,
     false},
    {"address-rate", "N", "requests a second of one address without token (default 0: any)", COUNT,
     AT(address_rate), 0, 0, 1e6, true},
    {"address-jobs", "N", "unfinished solves of one address without token (default 0: any)", COUNT,
     AT(address_jobs), 0, 0, 1e6, true},
    {"address-connections", "N", "connections of one address (default 0: any)", COUNT,
     AT(address_connections), 0, 0, 1e6, false},
    {"store-bytes", "BYTES", "size the store is kept below (default 0: any); least used first",
     BYTES, AT(store_bytes), 0, 0, 9e15, true},
    {"config", "FILE", "lines of `name = value` with these names; flags and variables win", TEXT,
     AT(config), sizeof((config *)0)->config, 0, 0, false},
};
enum { N_SETTINGS = sizeof settings / sizeof *settings };

static void print_help(void)
{
    puts("rematd - rematerialization schedules over HTTP\n"
         "\n"
         "usage: rematd [options]            serve until SIGTERM\n"
         "       rematd check [--store PATH]  integrity of the store and of every record in it\n"
         "       rematd backup FILE [--store PATH]\n"
         "                                    a consistent copy, also while a daemon is running\n"
         "       rematd migrate [--store PATH|URL]\n"
         "                                    brings the store to this version\n"
         "       rematd prune --keep-bytes BYTES [--store PATH|URL]\n"
         "                                    drops what was longest not used: tables, then\n"
         "                                    schedules, then profiles\n"
         "       rematd token add NAME read,solve,admin [rate=N] [jobs=N] --tokens FILE\n"
         "                                    makes a bearer token and prints it, this once\n"
         "       rematd token list|revoke NAME --tokens FILE\n"
         "\n"
         "options (each also as an environment variable, --max-body as REMATD_MAX_BODY):");
    for (int i = 0; i < N_SETTINGS; i++) {
        char left[64];
        snprintf(left, sizeof left, "--%s %s", settings[i].flag, settings[i].argument);
        printf("  %-27s %s\n", left, settings[i].help);
    }
    puts("  --check-config              check the configuration, print it and stop\n"
         "  --help                      this text\n"
         "  --version\n"
         "\n"
         "Sizes may be written 64MiB, 4GB. Logs go to stderr, one JSON object a line.\n"
         "SIGHUP reads again: tokens, certificate, log-level, address-rate, address-jobs,\n"
         "store-bytes.\n"
         "A socket handed over by systemd (LISTEN_FDS) is used instead of --listen.\n"
         "Exit status: 0 stopped as asked, 1 failed, 2 bad usage or configuration.");
}

static bool bad(const char *where, const char *value, const char *why)
{
    fprintf(stderr, "rematd: %s: \"%s\" %s\n", where, value, why);
    return false;
}

/* A count has digits alone, and bytes no fraction without a unit: 1.5GiB are bytes, 1.5 is not. */
static bool is_whole(const setting *s, const char *text)
{
    size_t digits = strspn(text, "0123456789"), length = strlen(text);
    return s->type == COUNT ? digits == length
                            : strspn(text, "0123456789.") < length || digits == length;
}

static remat_status read_amount(const setting *s, const char *text, remat_amount *ret_amount)
{
    json_t *json = json_string(text);
    remat_status status =
        json ? remat_amount_decode(json, s->flag, false, ret_amount, NULL) : REMAT_INVALID;
    json_decref(json);
    return status;
}

/* Whether what was refused is a number past all that can be written: 1 of its unit would do. The
 * largest unit is 2^40 bytes, and 8192 of them are 2^53. */
static bool is_too_large(const setting *s, const char *text)
{
    char one[16], *unit;
    remat_amount amount;
    if (strtod(text, &unit) < 8192 || unit != text + strspn(text, "0123456789."))
        return false;
    return snprintf(one, sizeof one, "1%s", unit) < (int)sizeof one &&
           !read_amount(s, one, &amount);
}

static bool set_number(const setting *s, const char *where, const char *text, void *target)
{
    remat_amount amount = {0};
    remat_status status = read_amount(s, text, &amount);
    if (status && is_whole(s, text) && is_too_large(s, text))
        return bad(where, text, "is too large");
    if (status && text[strspn(text, "0123456789.")])
        return bad(where, text, "is not a number");
    if (status || !is_whole(s, text))
        return bad(where, text, "is not a whole number");
    if (amount.value < s->minimum || amount.value > s->maximum) {
        fprintf(stderr, "rematd: %s: %s is not from %.0f to %.0f\n", where, text, s->minimum,
                s->maximum);
        return false;
    }
    if (s->type == BYTES)
        *(uint64_t *)target = (uint64_t)amount.value;
    else
        *(unsigned *)target = (unsigned)amount.value;
    return true;
}

static bool set(config *c, const setting *s, const char *where, const char *text)
{
    void *target = (char *)c + s->offset;
    if (s->type == TEXT) {
        if (text[0] == '\0' || strlen(text) >= s->size)
            return bad(where, text, "is empty or too long");
        memcpy(target, text, strlen(text) + 1);
        return true;
    }
    if (s->type == LEVEL)
        return log_level_named(text, target) ||
               bad(where, text, "is none of error, warning, info, debug");
    return set_number(s, where, text, target);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Those that nobody set, by the others. */
static void set_sizes(config *c)
{
    const uint64_t least = smaller(BODY_MEMORY, machine_memory() / 4);
    if (c->body_memory == 0)
        c->body_memory = c->memory_limit / 4 > least ? c->memory_limit / 4 : least;
    if (c->max_body == 0)
        c->max_body = smaller(MAX_BODY, c->body_memory);
    if (c->cache_bytes == UINT64_MAX)
        c->cache_bytes = smaller(MOST_CACHE_BYTES, c->memory_limit / 8);
}

static void set_defaults(config *c)
{
    *c = (config){.cache_bytes = UINT64_MAX, /* by memory_limit */
                  .max_nodes = 200000,
                  .max_edges = 2000000,
                  .queue_limit = 1000,
                  .max_connections = 4000,
                  .idle_seconds = 60,
                  .receive_seconds = 30,
                  .solve_seconds = 600,
                  .lease_seconds = 10,
                  .stop_seconds = 20,
                  .log_level = LOG_INFO,
                  .listen = "127.0.0.1:7070"};
    c->workers = machine_cores();
    c->memory_limit = machine_memory() / 4;
    const char *state = getenv("STATE_DIRECTORY"), *xdg = getenv("XDG_STATE_HOME"),
               *home = getenv("HOME");
    if (state && state[0])
        snprintf(c->store, sizeof c->store, "%s/store.db", state);
    else if (xdg && xdg[0])
        snprintf(c->store, sizeof c->store, "%s/remat/store.db", xdg);
    else if (geteuid() == 0 || !home)
        snprintf(c->store, sizeof c->store, "/var/lib/remat/store.db");
    else
        snprintf(c->store, sizeof c->store, "%s/.local/state/remat/store.db", home);
}

static bool read_environment(config *c)
{
    for (int i = 0; i < N_SETTINGS; i++) {
        char name[64] = "REMATD_";
        size_t length = strlen(name);
        for (const char *s = settings[i].flag; *s; s++)
            name[length++] = *s == '-' ? '_' : (char)(*s >= 'a' && *s <= 'z' ? *s - 32 : *s);
        name[length] = '\0';
        const char *value = getenv(name);
        if (value && !set(c, &settings[i], name, value))
            return false;
    }
    return true;
}

/* "name = value" lines; # begins a comment. seen: the settings before. */
static bool read_line(config *c, const char *path, unsigned number, bool *seen, char *line)
{
    char where[1100];
    snprintf(where, sizeof where, "%s, line %u", path, number);
    line[strcspn(line, "#\n")] = '\0';
    char *name = line + strspn(line, " \t"), *equals = strchr(name, '=');
    if (!*name)
        return true;
    if (!equals)
        return bad(where, name, "is not like name = value");
    char *value = equals + 1 + strspn(equals + 1, " \t");
    for (char *end = value + strlen(value); end > value && strchr(" \t\r", end[-1]);)
        *--end = '\0';
    while (equals > name && strchr(" \t", equals[-1]))
        equals--;
    *equals = '\0';
    int i = 0;
    while (i < N_SETTINGS && strcmp(settings[i].flag, name) != 0)
        i++;
    if (i == N_SETTINGS)
        return bad(where, name, "is not a setting; see rematd --help");
    if (settings[i].offset == AT(config))
        return bad(where, value, "cannot be read from here: a file names no other file");
    if (seen[i])
        return bad(where, name, "is set twice in this file");
    seen[i] = true;
    return set(c, &settings[i], where, value);
}

static bool read_file(config *c)
{
    char *line = NULL;
    size_t size = 0;
    ssize_t length;
    bool seen[N_SETTINGS] = {false};
    FILE *file = c->config[0] ? fopen(c->config, "r") : NULL;
    if (!file)
        return !c->config[0] || bad("--config", c->config, "cannot be read");
    bool good = true;
    for (unsigned number = 1; good && (length = getline(&line, &size, file)) >= 0; number++)
        good = strlen(line) == (size_t)length ? read_line(c, c->config, number, seen, line)
                                              : bad("--config", c->config, "has a NUL byte");
    free(line);
    if (good && ferror(file))
        good = bad("--config", c->config, "cannot be read");
    fclose(file);
    return good;
}

/* Names are what a Host says: no scheme, port, brackets or pattern, which would never match. */
static bool is_host(const char *text, size_t length)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    const char *colon = memchr(text, ':', length);
    if (colon) /* of IPv6 there are several */
        return strspn(text, "0123456789abcdefABCDEF:.") >= length &&
               memchr(colon + 1, ':', length - (size_t)(colon + 1 - text));
    return (length == 1 && *text == '*') ||
           (length > 0 && strspn(text, plain) >= length && *text != '-' && *text != '.' &&
            text[length - 1] != '.');
}

static bool check_hosts(const char *hosts)
{
    for (const char *s = hosts;; s++) {
        s += strspn(s, " ");
        size_t whole = strcspn(s, ","), length = whole;
        while (length > 0 && s[length - 1] == ' ')
            length--;
        if (!is_host(s, length))
            return bad("--host", hosts, "is not a list of names like a.example,b.example, or *");
        s += whole;
        if (!*s)
            return true;
    }
}

static bool check_together(const config *c)
{
    if (c->hosts[0] && !check_hosts(c->hosts))
        return false;
    if (strcmp(c->store, ":memory:") == 0)
        return bad("--store", c->store, "would be lost at the end; it must be a file");
    if (strstr(c->store, "://") && !remat_store_is_url(c->store))
        return bad("--store", c->store, "is neither a path nor postgresql://USER@HOST/DATABASE");
    if (!c->tls_cert[0] == !c->tls_key[0])
        return true;
    fputs("rematd: --tls-cert and --tls-key belong together\n", stderr);
    return false;
}

void config_take(config *c, const config *fresh)
{
    for (int i = 0; i < N_SETTINGS; i++) {
        const setting *s = &settings[i];
        void *old = (char *)c + s->offset;
        const void *new = (const char *)fresh + s->offset;
        size_t size = s->type == TEXT    ? s->size
                      : s->type == BYTES ? sizeof(uint64_t)
                      : s->type == LEVEL ? sizeof(log_level)
                                         : sizeof(unsigned);
        if (s->type == TEXT ? strcmp(old, new) == 0 : memcmp(old, new, size) == 0)
            continue;
        if (s->lively)
            memcpy(old, new, size);
        else
            log_line(LOG_WARNING, "a setting changed that needs a restart",
                     json_pack("{s:s}", "setting", s->flag));
    }
}

bool config_bytes(const char *where, const char *text, uint64_t *ret_bytes)
{
    static const setting any = {.flag = "bytes", .type = BYTES, .maximum = 9e15};
    return set_number(&any, where, text, ret_bytes);
}

/* Without the password that a URL may hold. */
static void print_store(const config *c)
{
    char *name = NULL;
    remat_error error;
    if (remat_store_place_name(c->store, &name, &error))
        printf("store = (%s)\n", error.message);
    else
        printf("store = %s\n", name);
    free(name);
}

static void print_config(const config *c)
{
    for (int i = 0; i < N_SETTINGS; i++) {
        const void *value = (const char *)c + settings[i].offset;
        static const char *const levels[] = {"error", "warning", "info", "debug"};
        if (settings[i].offset == AT(store))
            print_store(c);
        else if (settings[i].type == TEXT)
            printf("%s = %s\n", settings[i].flag, (const char *)value);
        else if (settings[i].type == LEVEL)
            printf("%s = %s\n", settings[i].flag, levels[*(const log_level *)value]);
        else if (settings[i].type == BYTES)
            printf("%s = %llu\n", settings[i].flag, (unsigned long long)*(const uint64_t *)value);
        else
            printf("%s = %u\n", settings[i].flag, *(const unsigned *)value);
    }
}

/* The file is read before the flags that win over it, so its own flag is looked for first. */
static void find_file(config *c, int argc, char **argv)
{
    const char *path = getenv("REMATD_CONFIG");
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--config") == 0 && i + 1 < argc)
            path = argv[i + 1];
        else if (strncmp(argv[i], "--config=", 9) == 0)
            path = argv[i] + 9;
    }
    if (path)
        snprintf(c->config, sizeof c->config, "%s", path);
}

config_outcome config_read(config *ret_config, int argc, char **argv)
{
    enum { CHECK = 1000, HELP, VERSION };
    struct option options[N_SETTINGS + 4];
    for (int i = 0; i < N_SETTINGS; i++)
        options[i] = (struct option){settings[i].flag, required_argument, NULL, i};
    options[N_SETTINGS] = (struct option){"check-config", no_argument, NULL, CHECK};
    options[N_SETTINGS + 1] = (struct option){"help", no_argument, NULL, HELP};
    options[N_SETTINGS + 2] = (struct option){"version", no_argument, NULL, VERSION};
    options[N_SETTINGS + 3] = (struct option){0};
    config c;
    set_defaults(&c);
    find_file(&c, argc, argv);
    if (!read_file(&c) || !read_environment(&c))
        return CONFIG_BAD;
    int choice;
    optind = 1;
    while ((choice = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (choice == HELP) {
            print_help();
            return CONFIG_DONE;
        }
        if (choice == VERSION) {
            puts("rematd " REMAT_VERSION);
            return CONFIG_DONE;
        }
        if (choice == CHECK) {
            c.check_only = true;
            continue;
        }
        char where[64];
        if (choice < 0 || choice >= N_SETTINGS)
            return CONFIG_BAD; /* getopt has said why */
        snprintf(where, sizeof where, "--%s", settings[choice].flag);
        if (!set(&c, &settings[choice], where, optarg))
            return CONFIG_BAD;
    }
    if (optind < argc) {
        fprintf(stderr, "rematd: \"%s\" is not expected here; see rematd --help\n", argv[optind]);
        return CONFIG_BAD;
    }
    if (!check_together(&c))
        return CONFIG_BAD;
    set_sizes(&c);
    if (c.check_only)
        print_config(&c);
    *ret_config = c;
    return CONFIG_RUN;
}
