/* The client library against a server that does everything wrong: a few lines of sockets that play
 * a script, one answer per request. No number here is from a paper: they are what the script says.
 */
#include "remat_client.h"

#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define MAX_REQUESTS 16

/* ---- the server ---- */

typedef struct line {
    const char *answer; /* whole HTTP answer; NULL: close without one */
    double delay;       /* seconds before it */
    bool keep;          /* leave the connection open */
} line;

typedef struct server {
    const line *script;
    size_t length, served, connections;
    int socket, port;
    pthread_t thread;
    char requests[MAX_REQUESTS][4096];
    char url[64];
} server;

static void sleep_for(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds, .tv_nsec = (long)(fmod(seconds, 1) * 1e9)};
    nanosleep(&t, NULL);
}

/* Whether text holds the head and as much body as Content-Length says. */
static bool is_whole(const char *text)
{
    const char *end = strstr(text, "\r\n\r\n"), *length = strcasestr(text, "\ncontent-length:");
    if (!end)
        return false;
    return !length || length > end || strlen(end + 4) >= (size_t)atol(length + 16);
}

static bool read_request(int connection, char *request, size_t size)
{
    size_t used = 0;
    request[0] = '\0';
    while (used + 1 < size && !is_whole(request)) {
        ssize_t n = read(connection, request + used, size - used - 1);
        if (n <= 0)
            return false;
        used += (size_t)n;
        request[used] = '\0';
    }
    return true;
}

static void serve_connection(server *s, int connection)
{
    bool keep = true;
    while (keep && s->served < s->length) {
        const line *l = &s->script[s->served];
        if (!read_request(connection, s->requests[s->served], sizeof s->requests[0]))
            break;
        s->served++;
        sleep_for(l->delay);
        if (l->answer)
            (void)!send(connection, l->answer, strlen(l->answer), MSG_NOSIGNAL);
        keep = l->keep;
    }
    close(connection);
}

static void *serve(void *context)
{
    server *s = context;
    while (s->served < s->length) {
        int connection = accept(s->socket, NULL, NULL);
        if (connection < 0)
            break;
        s->connections++;
        serve_connection(s, connection);
    }
    return NULL;
}

static server *server_start(const line *script, size_t length)
{
    server *s = calloc(1, sizeof *s);
    assert_non_null(s);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    s->script = script;
    s->length = length;
    s->socket = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(s->socket >= 0);
    assert_int_equal(bind(s->socket, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(s->socket, 8), 0);
    assert_int_equal(getsockname(s->socket, (struct sockaddr *)&address, &size), 0);
    snprintf(s->url, sizeof s->url, "http://127.0.0.1:%d", ntohs(address.sin_port));
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
    return s;
}

static void server_stop(server *s)
{
    shutdown(s->socket, SHUT_RDWR);
    pthread_join(s->thread, NULL);
    close(s->socket);
    free(s);
}

#define START(script) server_start(script, sizeof(script) / sizeof *(script))
#define OK_HEAD "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
#define OK_EMPTY OK_HEAD "Content-Length: 2\r\n\r\n{}"
#define SOLVERS OK_HEAD "Content-Length: 14\r\n\r\n{\"solvers\":[]}"

/* ---- the client ---- */

static remat_client *make_client(const server *s, double timeout, double patience)
{
    remat_client *client;
    remat_client_settings settings = {
        .server = s->url, .token = "", .timeout = timeout, .patience = patience};
    assert_int_equal(remat_client_new(&settings, &client, NULL), REMAT_OK);
    return client;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* GET /v1/solvers of a server that plays the script must fail so. */
static void assert_fails(const line *script, size_t length, remat_status expected, const char *word)
{
    server *s = server_start(script, length);
    remat_client *client = make_client(s, script->delay > 0 ? 0.5 : 30, -1);
    remat_client_answer answer = {.status = 77};
    remat_error error = {0};
    remat_status status = remat_client_solvers(client, &answer, &error);
    if (status != expected || !strstr(error.message, word))
        print_error("%s: %s\n", remat_status_name(status), error.message);
    assert_int_equal(status, expected);
    assert_int_equal(error.status, expected);
    assert_non_null(strstr(error.message, word));
    assert_int_equal(answer.status, 77); /* untouched on failure */
    remat_client_free(client);
    server_stop(s);
}

#define ASSERT_FAILS(expected, word, ...)                                                          \
    do {                                                                                           \
        const line one[] = {__VA_ARGS__};                                                          \
        assert_fails(one, sizeof one / sizeof *one, expected, word);                               \
    } while (0)

/* ---- settings ---- */

static void test_bad_settings(void **state)
{
    static const char *const urls[] = {"",
                                       "http://",
                                       "7070",
                                       "localhost:port",
                                       "ftp://host",
                                       "file:///etc/passwd",
                                       "http://user:secret@host",
                                       "http://host:99999",
                                       "http://host/?query=1",
                                       "http://host/#part",
                                       "http://ho st"};
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        remat_client *client = NULL;
        remat_client_settings settings = {.server = urls[i]};
        remat_error error;
        assert_int_equal(remat_client_new(&settings, &client, &error), REMAT_INVALID);
        assert_string_equal(error.field, "server");
        assert_null(client);
        assert_null(strstr(error.message, "secret"));
    }
    remat_client *client;
    remat_client_settings injected = {.token = "a\r\nX-Evil: 1"}, late = {.timeout = NAN};
    assert_int_equal(remat_client_new(&injected, &client, NULL), REMAT_INVALID);
    assert_int_equal(remat_client_new(&late, &client, NULL), REMAT_INVALID);
}

static void test_server_url(void **state)
{
    static const char *const urls[][2] = {{"http://host:80/", "http://host:80"},
                                          {"https://host/remat//", "https://host/remat"},
                                          {"localhost:7070", "http://localhost:7070"},
                                          {"127.0.0.1", "http://127.0.0.1"},
                                          {NULL, REMAT_CLIENT_DEFAULT_SERVER}};
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        remat_client *client;
        remat_client_settings settings = {.server = urls[i][0]};
        assert_int_equal(remat_client_new(&settings, &client, NULL), REMAT_OK);
        assert_string_equal(remat_client_server(client), urls[i][1]);
        remat_client_free(client);
    }
    remat_client_free(NULL);
}

static void test_environment(void **state)
{
    static const line script[] = {{SOLVERS, 0, false}};
    server *s = START(script);
    remat_client *client;
    remat_client_answer answer;
    setenv("REMAT_SERVER", s->url, 1);
    setenv("REMAT_TOKEN", "t0ken", 1);
    assert_int_equal(remat_client_new(NULL, &client, NULL), REMAT_OK);
    unsetenv("REMAT_SERVER");
    unsetenv("REMAT_TOKEN");
    assert_int_equal(remat_client_solvers(client, &answer, NULL), REMAT_OK);
    assert_non_null(strstr(s->requests[0], "\r\nAuthorization: Bearer t0ken\r\n"));
    assert_non_null(strstr(s->requests[0], "\r\nAccept-Encoding: "));
    assert_string_equal(answer.text, "{\"solvers\":[]}");
    assert_true(json_is_array(json_object_get(answer.json, "solvers")));
    remat_client_answer_clear(&answer);
    remat_client_answer_clear(&answer);
    remat_client_free(client);
    server_stop(s);
}

/* ---- one exchange ---- */

static void test_nobody_there(void **state)
{
    remat_client *client;
    remat_client_answer answer;
    remat_error error;
    remat_client_settings settings = {.server = "http://127.0.0.1:1"};
    assert_int_equal(remat_client_new(&settings, &client, NULL), REMAT_OK);
    assert_int_equal(remat_client_solvers(client, &answer, &error), REMAT_IO);
    assert_non_null(strstr(error.message, "no server can be reached"));
    remat_client_free(client);
}

static void test_broken_transfers(void **state)
{
    ASSERT_FAILS(REMAT_IO, "failed", {NULL, 0, false});
    ASSERT_FAILS(REMAT_IO, "failed",
                 {"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{\"a\":", 0, false});
    ASSERT_FAILS(REMAT_IO, "failed", {"SSH-2.0-OpenSSH_9.2\r\n", 0, false});
    ASSERT_FAILS(REMAT_IO, "failed",
                 {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 0, false});
    ASSERT_FAILS(REMAT_IO, "failed",
                 {OK_HEAD "Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope", 0, false});
    ASSERT_FAILS(REMAT_IO, "in time", {OK_EMPTY, 1.0, false});
}

static void test_garbage_answers(void **state)
{
    char deep[400] = OK_HEAD "\r\n";
    memset(deep + strlen(deep), '[', 200);
    ASSERT_FAILS(REMAT_IO, "cannot be read", {deep, 0, false});
    ASSERT_FAILS(REMAT_IO, "cannot be read", {OK_HEAD "\r\n<html>hello</html>", 0, false});
    ASSERT_FAILS(REMAT_IO, "cannot be read", {OK_HEAD "\r\n{\"a\":1,\"a\":2}", 0, false});
    ASSERT_FAILS(REMAT_IO, "is it a remat server",
                 {"HTTP/1.1 500 No\r\nContent-Type: text/html\r\n\r\n<html>", 0, false});
    ASSERT_FAILS(REMAT_IO, "404", {"HTTP/1.1 404 No\r\n\r\n<html>", 0, false});
    ASSERT_FAILS(REMAT_IO, "redirection",
                 {"HTTP/1.1 302 There\r\nLocation: http://127.0.0.1:1/\r\n\r\n", 0, false});
}

static void test_too_long(void **state)
{
    static const line script[] = {{SOLVERS, 0, false}};
    server *s = START(script);
    remat_client *client;
    remat_client_answer answer;
    remat_error error;
    remat_client_settings settings = {.server = s->url, .max_answer = 10};
    assert_int_equal(remat_client_new(&settings, &client, NULL), REMAT_OK);
    assert_int_equal(remat_client_solvers(client, &answer, &error), REMAT_IO);
    assert_non_null(strstr(error.message, "longer than 10 bytes"));
    remat_client_free(client);
    server_stop(s);
}

static void test_problems(void **state)
{
    ASSERT_FAILS(REMAT_NOT_FOUND, "no profile",
                 {"HTTP/1.1 404 X\r\n\r\n{\"type\":\"/problems/not-found\",\"title\":\"T\","
                  "\"detail\":\"no profile\"}",
                  0, false});
    ASSERT_FAILS(
        REMAT_IO, "A token",
        {"HTTP/1.1 401 X\r\n\r\n{\"type\":\"/problems/unauthorized\",\"title\":\"A token\"}", 0,
         false});
    ASSERT_FAILS(
        REMAT_INVALID, "new kind",
        {"HTTP/1.1 422 X\r\n\r\n{\"type\":\"/problems/x\",\"title\":\"new kind\"}", 0, false});
    static const line script[] = {
        {"HTTP/1.1 422 X\r\nContent-Length: 110\r\n\r\n{\"type\":\"/problems/infeasible-budget\","
         "\"title\":\"T\",\"detail\":\"too small\",\"field\":\"budget\",\"minimum_budget\":4096}",
         0, true},
        {SOLVERS, 0, true}};
    server *s = START(script);
    remat_client *client = make_client(s, 30, -1);
    remat_client_answer answer;
    remat_error error;
    assert_int_equal(remat_client_solvers(client, &answer, &error), REMAT_INFEASIBLE);
    assert_int_equal(error.number, 4096);
    assert_string_equal(error.field, "budget");
    assert_string_equal(json_string_value(json_object_get(remat_client_problem(client), "detail")),
                        "too small");
    assert_int_equal(remat_client_solvers(client, &answer, &error), REMAT_OK);
    assert_null(remat_client_problem(client));
    assert_int_equal(s->connections, 1); /* kept alive */
    remat_client_answer_clear(&answer);
    remat_client_free(client);
    server_stop(s);
}

#define BUSY(status, header) "HTTP/1.1 " status " Busy\r\n" header "Content-Length: 0\r\n\r\n"

static void test_busy_then_answers(void **state)
{
    static const line script[] = {{BUSY("503", "Retry-After: 1\r\n"), 0, true},
                                  {BUSY("429", ""), 0, true},
                                  {SOLVERS, 0, true}};
    server *s = START(script);
    remat_client *client = make_client(s, 30, 10);
    remat_client_answer answer;
    double start = now();
    assert_int_equal(remat_client_solvers(client, &answer, NULL), REMAT_OK);
    assert_true(now() - start >= 1.2); /* 1 as told, 0.25 of its own */
    assert_int_equal(s->served, 3);
    remat_client_answer_clear(&answer);
    remat_client_free(client);
    server_stop(s);
}

static void test_busy_too_long(void **state)
{
    static const line script[] = {{BUSY("503", "Retry-After: 3600\r\n"), 0, true},
                                  {BUSY("503", ""), 0, true},
                                  {BUSY("503", ""), 0, true},
                                  {BUSY("503", ""), 0, true}};
    server *s = START(script);
    remat_client *client = make_client(s, 30, 1);
    remat_client_answer answer;
    double start = now();
    assert_int_equal(remat_client_solvers(client, &answer, NULL), REMAT_IO);
    assert_true(now() - start < 30);
    assert_int_equal(remat_client_solvers(client, &answer, NULL), REMAT_IO);
    assert_int_equal(s->served, 4); /* 0.25 + 0.5 waited; one more second is past patience */
    remat_client_free(client);
    server_stop(s);
}

/* Whatever Retry-After says, asking again ends with the time of the request. */
static void test_busy_without_end(void **state)
{
    static const char *const waits[] = {
        "Retry-After: -9223372036854775808\r\n", "Retry-After: -1\r\n", "Retry-After: 0\r\n",
        "Retry-After: 99999999999999999999\r\n", "Retry-After: Thu, 01 Jan 1970 00:00:00 GMT\r\n"};
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        char text[200];
        line script[10];
        snprintf(text, sizeof text, BUSY("503", "%s"), waits[i]);
        for (size_t n = 0; n < 10; n++)
            script[n] = (line){text, 0, true};
        server *s = START(script);
        remat_client *client = make_client(s, 1, 0);
        remat_client_answer answer;
        double start = now();
        assert_int_equal(remat_client_solvers(client, &answer, NULL), REMAT_IO);
        assert_true(now() - start < 2);
        remat_client_free(client);
        server_stop(s);
    }
}

static bool say_yes(void *data)
{
    ++*(int *)data;
    return true;
}

static void test_cancelled(void **state)
{
    static const line script[] = {{BUSY("503", "Retry-After: 20\r\n"), 0, false}};
    int calls = 0;
    server *s = START(script);
    remat_client *client;
    remat_client_answer answer;
    remat_client_settings settings = {.server = s->url, .cancelled = say_yes, .data = &calls};
    assert_int_equal(remat_client_new(&settings, &client, NULL), REMAT_OK);
    double start = now();
    assert_int_equal(remat_client_solvers(client, &answer, NULL), REMAT_CANCELLED);
    assert_true(now() - start < 15 && calls > 0);
    remat_client_free(client);
    server_stop(s);
}

static void test_ids_are_checked(void **state)
{
    static const char *const ids[] = {"", "../solvers", "a/b", "a?b", "a b", "%2e"};
    remat_client *client;
    remat_client_answer answer;
    assert_int_equal(remat_client_new(NULL, &client, NULL), REMAT_OK);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        assert_int_equal(remat_client_get(client, "jobs", ids[i], "", &answer, NULL),
                         REMAT_INVALID);
    remat_client_free(client);
}

/* ---- questions and jobs ---- */

#define NOT_FOUND                                                                                  \
    "HTTP/1.1 404 X\r\nContent-Length: "                                                           \
    "54\r\n\r\n{\"type\":\"/problems/not-found\",\"title\":\"nothing "                             \
    "there\"}"
#define ACCEPTED "HTTP/1.1 202 X\r\nContent-Length: 16\r\n\r\n{\"job_id\":\"j-1\"}"

static json_t *small_profile(void)
{
    json_t *profile =
        json_pack("{s:s, s:s, s:[{s:s, s:i, s:i}]}", "format", "remat-profile/1", "name", "small",
                  "nodes", "id", "loss", "forward_time", 1, "output_bytes", 8);
    assert_non_null(profile);
    return profile;
}

static void count_calls(void *data, const remat_client_progress *progress)
{
    assert_string_equal(progress->job_id, "j-1");
    assert_true(progress->fraction == 0.5 && progress->queue_position == 2);
    ++*(int *)data;
}

/* Asks for a schedule of a small profile; the caller checks the requests. */
static remat_status ask(const server *s, double seconds, int *calls, remat_client_answer *answer,
                        remat_error *error)
{
    remat_client *client = make_client(s, 30, -1);
    json_t *profile = small_profile(), *question = json_pack("{s:s}", "budget", "60%");
    remat_client_wait wait = {.seconds = seconds, .progress = count_calls, .data = calls};
    remat_status status = remat_client_schedule(client, question, profile, &wait, answer, error);
    assert_int_equal(json_object_size(question), 1); /* not changed */
    json_decref(profile);
    json_decref(question);
    remat_client_free(client);
    return status;
}

static void test_profile_sent_when_unknown(void **state)
{
    static const line script[] = {{NOT_FOUND, 0, true},
                                  {"HTTP/1.1 201 X\r\nContent-Length: 2\r\n\r\n{}", 0, true},
                                  {OK_HEAD "X-Remat-Cache: miss\r\nContent-Length: 10\r\n\r\n"
                                           "{\"peak\":3}",
                                   0, true}};
    server *s = START(script);
    remat_client_answer answer;
    remat_error error = {0};
    char id[REMAT_ID_SIZE];
    remat_profile *profile;
    json_t *document = small_profile();
    assert_int_equal(remat_profile_decode(document, "", &profile, NULL), REMAT_OK);
    remat_profile_id(profile, id);
    remat_profile_free(profile);
    json_decref(document);
    assert_int_equal(ask(s, INFINITY, NULL, &answer, &error), REMAT_OK);
    assert_int_equal(json_integer_value(json_object_get(answer.json, "peak")), 3);
    assert_string_equal(answer.cache, "miss");
    remat_client_answer_clear(&answer);
    assert_int_equal(s->served, 3);
    assert_non_null(strstr(s->requests[0], id));
    assert_null(strstr(s->requests[0], "remat-profile/1"));
    assert_memory_equal(s->requests[1], "POST /v1/profiles ", 18);
    assert_non_null(strstr(s->requests[1], "remat-profile/1"));
    assert_memory_equal(s->requests[2], "POST /v1/schedules ", 19);
    server_stop(s);
}

static void test_job_is_followed(void **state)
{
    static const char running[] = "{\"state\":\"queued\",\"progress\":0.5,\"elapsed_seconds\":1,"
                                  "\"queue_position\":2}";
    static const char done[] = "{\"state\":\"done\",\"progress\":1,\"schedule_id\":\"5c4ed\"}";
    char first[256], last[256];
    int calls = 0;
    snprintf(first, sizeof first, OK_HEAD "Content-Length: %zu\r\n\r\n%s", strlen(running),
             running);
    snprintf(last, sizeof last, OK_HEAD "Content-Length: %zu\r\n\r\n%s", strlen(done), done);
    const line script[] = {
        {ACCEPTED, 0, true}, {first, 0, true}, {last, 0, true}, {OK_EMPTY, 0, true}};
    server *s = START(script);
    remat_client_answer answer;
    assert_int_equal(ask(s, INFINITY, &calls, &answer, NULL), REMAT_OK);
    assert_int_equal(answer.status, 200);
    assert_int_equal(calls, 1);
    assert_memory_equal(s->requests[1], "GET /v1/jobs/j-1 ", 17);
    assert_memory_equal(s->requests[3], "GET /v1/schedules/5c4ed ", 24);
    remat_client_answer_clear(&answer);
    server_stop(s);
}

static void assert_job_ends(const char *job, remat_status expected)
{
    char last[512];
    snprintf(last, sizeof last, OK_HEAD "Content-Length: %zu\r\n\r\n%s", strlen(job), job);
    const line script[] = {{ACCEPTED, 0, true}, {last, 0, true}};
    server *s = START(script);
    remat_client_answer answer;
    assert_int_equal(ask(s, INFINITY, NULL, &answer, NULL), expected);
    server_stop(s);
}

static void test_job_ends_badly(void **state)
{
    assert_job_ends("{\"state\":\"failed\",\"problem\":{\"type\":\"/problems/infeasible-budget\","
                    "\"title\":\"T\",\"status\":422}}",
                    REMAT_INFEASIBLE);
    assert_job_ends("{\"state\":\"cancelled\"}", REMAT_CANCELLED);
    assert_job_ends("{\"state\":\"exploded\"}", REMAT_IO);
    assert_job_ends("{\"progress\":1}", REMAT_IO);
    assert_job_ends("[]", REMAT_IO);
}

static void test_waiting_ends(void **state)
{
    static const line script[] = {{ACCEPTED, 0, true}};
    server *s = START(script);
    remat_client_answer answer;
    assert_int_equal(ask(s, 0, NULL, &answer, NULL), REMAT_OK);
    assert_int_equal(answer.status, 202);
    assert_string_equal(json_string_value(json_object_get(answer.json, "job_id")), "j-1");
    remat_client_answer_clear(&answer);
    server_stop(s);
}

static void test_bad_profile_is_not_sent(void **state)
{
    remat_client *client;
    remat_client_answer answer;
    remat_error error;
    json_t *question = json_object(), *profile = json_pack("{s:s}", "format", "nothing");
    assert_int_equal(remat_client_new(NULL, &client, NULL), REMAT_OK);
    assert_int_equal(remat_client_tradeoffs(client, question, profile, NULL, &answer, &error),
                     REMAT_INVALID);
    assert_int_equal(remat_client_simulate(client, question, profile, &answer, &error),
                     REMAT_INVALID);
    json_decref(question);
    json_decref(profile);
    remat_client_free(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_settings),      cmocka_unit_test(test_server_url),
        cmocka_unit_test(test_environment),       cmocka_unit_test(test_nobody_there),
        cmocka_unit_test(test_broken_transfers),  cmocka_unit_test(test_garbage_answers),
        cmocka_unit_test(test_too_long),          cmocka_unit_test(test_problems),
        cmocka_unit_test(test_busy_then_answers), cmocka_unit_test(test_busy_too_long),
        cmocka_unit_test(test_busy_without_end),  cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_ids_are_checked),   cmocka_unit_test(test_profile_sent_when_unknown),
        cmocka_unit_test(test_job_is_followed),   cmocka_unit_test(test_job_ends_badly),
        cmocka_unit_test(test_waiting_ends),      cmocka_unit_test(test_bad_profile_is_not_sent),
    };
    unsetenv("REMAT_SERVER");
    unsetenv("REMAT_TOKEN");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
