/* The wire: JSON text to structures and back, for every resource of the service; the identities of
 * profiles and questions; problems (RFC 9457); the OpenAPI document. No I/O, no threads, no state.
 *
 * json_t is jansson's; a json_t that a function returns belongs to the caller (json_decref). Text
 * that is returned as char * is freed with free(). Every failure names the field in JSON terms.
 * Unknown fields are errors everywhere: a misspelt cost must not be ignored in silence. */
#ifndef REMAT_API_H
#define REMAT_API_H

#include "remat/answer.h"
#include "remat/improve.h"
#include "remat/table.h"
#include "remat/words.h"

#include <jansson.h>

#define REMAT_ID_SIZE 65 /* 64 lower-case hex digits and NUL */
#define REMAT_MAX_JSON_DEPTH 64
#define REMAT_MAX_TRADEOFF_POINTS 1000

/* ---- text and identities ---- */

/* Parses length bytes; refuses invalid UTF-8, duplicate keys, nesting deeper than
 * REMAT_MAX_JSON_DEPTH and anything after the value. REMAT_INVALID says line and column. */
remat_status remat_json_parse(const char *text, size_t length, json_t **ret_json,
                              remat_error *error);

/* How much a text may hold. */
typedef struct remat_json_limits {
    uint64_t values; /* objects, arrays, strings, numbers and literals; keys are none */
    uint64_t nodes;  /* objects in an array that is named "nodes" */
} remat_json_limits;

typedef struct remat_json_level {
    uint64_t items;
    bool array, nodes; /* nodes: the array has that name */
} remat_json_level;

/* A text that is looked through piece by piece, in constant memory, before anything is built of it.
 * What it finds holds for text that is JSON; other text it may take for anything, and the parser
 * refuses it. */
typedef struct remat_json_scan {
    remat_json_limits limits;
    uint64_t values, nodes;
    uint64_t tree_bytes; /* that remat_json_load will allocate, about */
    /* Its own. */
    remat_json_level levels[REMAT_MAX_JSON_DEPTH];
    unsigned depth;
    bool quoted, escaped, scalar, named; /* named: the last string was "nodes" */
    uint64_t string_length;
    char start[8]; /* of the string under way */
} remat_json_scan;

void remat_json_scan_init(remat_json_scan *scan, const remat_json_limits *limits);

/* The next piece. REMAT_INVALID: nested deeper than REMAT_MAX_JSON_DEPTH; REMAT_TOO_LARGE: past a
 * limit. Feed no more after either. */
remat_status remat_json_scan_feed(remat_json_scan *scan, const char *text, size_t length,
                                  remat_error *error);

/* Has jansson's allocations watched, so that remat_json_load tells a text that is not JSON from one
 * for which memory ran out. For programs, at their start: the setting is the process's. */
void remat_json_watch_memory(void);

/* remat_json_parse of a text that was scanned: without looking at its depth again. */
remat_status remat_json_load(const char *text, size_t length, json_t **ret_json,
                             remat_error *error);

/* Compact text of a JSON value, keys in insertion order, numbers exact. NULL: out of memory. */
char *remat_json_text(const json_t *json);

/* Sets a member of an object, or adds to a list, and takes the value. Where there is no memory, or
 * the value is NULL for want of it, *object becomes NULL, and stays it: only the end looks. */
void remat_json_set(json_t **object, const char *name, json_t *value);
void remat_json_append(json_t **list, json_t *item);

/* Members of an object that may not be there. */
double remat_json_number(const json_t *object, const char *name);      /* NAN */
const char *remat_json_string(const json_t *object, const char *name); /* "" */

/* Lower-case hex SHA-256 of bytes. */
void remat_sha256_hex(const void *bytes, size_t length, char ret_id[REMAT_ID_SIZE]);

/* Whether text is 64 lower-case hex digits. */
bool remat_is_id(const char *text);

/* SHA-256 of the canonical encoding (remat_profile_encode). */
void remat_profile_id(const remat_profile *profile, char ret_id[REMAT_ID_SIZE]);

/* ---- numbers for people ---- */

#define REMAT_TEXT_SIZE 48

/* "1.98 GiB": three significant digits; "-" for NAN, as all of these. Each returns text. */
const char *remat_text_bytes(double bytes, char text[REMAT_TEXT_SIZE]);
/* "12.3 ms". */
const char *remat_text_seconds(double seconds, char text[REMAT_TEXT_SIZE]);
/* The same of a time in a profile's unit ("us"); "35 units" where that is no real one. */
const char *remat_text_time(double time, const char *unit, char text[REMAT_TEXT_SIZE]);
/* "8.41 %" of a fraction. */
const char *remat_text_percent(double fraction, char text[REMAT_TEXT_SIZE]);

/* REMAT_INVALID of "solver": there is none of this name; which was meant, or which there are. */
remat_status remat_fail_solver(const char *word, remat_error *error);

/* ---- profiles ---- */

/* The profile that a remat-profile/1 document describes. prefix ("" or "profile.") stands before
 * the field names in errors. */
remat_status remat_profile_decode(const json_t *json, const char *prefix,
                                  remat_profile **ret_profile, remat_error *error);

typedef struct remat_minimum {
    const remat_solver *solver;
    uint64_t bytes; /* least budget it can serve, replayed */
} remat_minimum;

/* The answer to POST /v1/profiles. NULL: out of memory. */
json_t *remat_profile_summary(const remat_profile *profile, uint64_t store_all_peak,
                              const remat_minimum *minima, size_t n_minima);
/* A stored summary, a malloc of *length bytes and NUL, as today's answers spell it, and with all
 * names of a profile that has several (other_names: a line each; NULL: none). */
remat_status remat_summary_renew(char **summary, size_t *length, const char *name,
                                 const char *other_names, remat_error *error);
json_t *remat_names_encode(const char *name, const char *other_names);

/* ---- questions ---- */

/* An amount of bytes as requests give it. */
typedef struct remat_amount {
    double value;
    bool percent; /* of the store-all peak */
    bool given;
} remat_amount;

/* 4294967296, "4GiB", "4Gi", "1.5 G" (of 1000); where percent is allowed also "60%" and "0.6". */
remat_status remat_amount_decode(const json_t *json, const char *field, bool percent_allowed,
                                 remat_amount *ret_amount, remat_error *error);

/* What a request about a profile asks for. */
typedef enum remat_request_kind {
    REMAT_ASK_SCHEDULE,  /* POST /v1/schedules */
    REMAT_ASK_TRADEOFF,  /* POST /v1/tradeoffs */
    REMAT_ASK_SIMULATION /* POST /v1/simulations */
} remat_request_kind;

/* Whether every value is to have an address, and aligned to what. */
typedef struct remat_layout_wish {
    bool given, wanted;
    uint32_t alignment; /* bytes, 0: as fits the profile */
} remat_layout_wish;

/* The body of a request, while its profile is not known yet. JSON is borrowed from the body. */
typedef struct remat_request {
    remat_request_kind kind;
    char profile_id[REMAT_ID_SIZE]; /* "" when the profile itself was given */
    const json_t *profile;          /* or NULL */
    const remat_solver *solver;     /* NULL: auto */
    remat_options options;          /* of solver, its defaults filled in */
    double wait;                    /* seconds */
    const json_t *link;             /* or NULL */
    remat_amount budget, reserved;  /* of a schedule, with what follows */
    uint32_t in_flight;             /* micro-batches of a pipeline's rank; default: 1 */
    remat_layout_wish layout;       /* default: wanted */
    remat_effort effort;            /* default: quick; only where answers are improved */
    size_t points;                  /* of a trade-off: budgets evenly spaced, or */
    const json_t *budgets;          /* these; else NULL */
    const json_t *operations; /* of a simulation; they need the profile: remat_operations_decode */
} remat_request;

remat_status remat_request_decode(const json_t *json, remat_request_kind kind,
                                  remat_request *ret_request, remat_error *error);

/* POST /v1/schedules/{id}/measurements: what a job measured under a schedule. step_time (required,
 * in the profile's time unit), peak (bytes), steps (over how many it was taken), device, note.
 * Returns the record to keep; the caller owns it. */
remat_status remat_measurement_decode(const json_t *json, json_t **ret_record, remat_error *error);

/* {"preset": "pcie3-x16"}, {"bandwidth": "12GB/s"} or {"bytes_per_time_unit": 2}; also to_host and
 * to_device for each way, latency (profile time units), shared. A bandwidth per second needs a
 * profile in real time; profile NULL: only numbers are read. */
remat_status remat_link_decode(const json_t *json, const remat_profile *profile,
                               remat_link *ret_link, remat_error *error);

json_t *remat_link_encode(const remat_link *link); /* NULL: out of memory */
json_t *remat_link_presets_encode(void);

/* All that an answer depends on: a schedule's or a trade-off's. */
typedef struct remat_question {
    remat_request_kind kind;
    char id[REMAT_ID_SIZE]; /* SHA-256 of text, so one question has one answer */
    char *text;             /* owned: the question in one spelling */
    char profile_id[REMAT_ID_SIZE];
    const remat_solver *solver; /* NULL: auto */
    remat_options options;
    uint64_t budget;    /* bytes, or units of the machine that the options ask for: percentages
                           resolved, reserved subtracted */
    uint32_t alignment; /* of the layout; 0: none wanted */
    bool linked;        /* whether there is a way to the host */
    remat_link link;
    uint32_t in_flight;  /* micro-batches; percentages are of what all of them take */
    remat_effort effort; /* of auto and other solvers whose answers are improved */
    size_t points;       /* of a trade-off */
    uint64_t *budgets;   /* so many, owned; NULL: evenly spaced */
} remat_question;

/* What a request comes to for its profile. REMAT_INVALID when reserved leaves nothing of the
 * budget. Cleared by the caller; untouched on failure. */
remat_status remat_question_resolve(const remat_request *request, const char *profile_id,
                                    const remat_profile *profile, uint64_t store_all_peak,
                                    remat_question *ret_question, remat_error *error);
void remat_question_clear(remat_question *question); /* accepts {0} */

/* Gives the question its text and id. The text is canonical JSON: every default written out and
 * keys sorted; effort only where answers are improved, in_flight only past 1. "version" is that of
 * who answers, left out where it is 0, so that an answer of an older one is not taken for today's.
 */
remat_status remat_question_identify(remat_question *question, remat_error *error);

/* The question of such a text. The version is not read: who answers now answers with its own;
 * nor is "job", in which the jobs of a server keep what is not of the question. */
remat_status remat_question_read(const char *text, size_t length, remat_question *ret_question,
                                 remat_error *error);

/* "auto" or the solver's name. */
const char *remat_question_solver(const remat_question *question);
/* What is to be answered: every budget of a trade-off is at most store_all_peak. *ret_query borrows
 * from both. Of another machine it reads the profile: REMAT_NO_MEMORY, REMAT_NOT_ACCEPTED. */
remat_status remat_question_query(const remat_question *question, const remat_profile *profile,
                                  uint64_t store_all_peak, remat_query *ret_query,
                                  remat_error *error);

/* Of the addresses where the request does not say: 256 bytes, 1 where profiles count in units. */
uint32_t remat_default_alignment(uint64_t store_all_peak);

/* The options of one solver, canonical: the key of its tables. */
json_t *remat_options_encode(const remat_solver *solver, const remat_options *options);

/* ---- operations ---- */

/* [["F", 0], ["B", 2, "winograd"], ["X", 3], ["D", "input", 0], ["S", 1, 4], ..]; F, A and B name
 * the alternative that they run, unless it is the node's own implementation. Indices and names are
 * checked against the profile. The list is cleared by the caller; *ret_operations is untouched on
 * failure. */
remat_status remat_operations_decode(const json_t *json, const remat_profile *profile,
                                     const char *field, remat_operations *ret_operations,
                                     remat_error *error);
json_t *remat_operations_encode(const remat_operations *operations, const remat_profile *profile);

/* [[operation, kind, node, offset], ..] in the order in which they are made: operation is the index
 * of the one that allocates, -1 for a graph input that is there from the start; kind is a
 * remat_allocation_kind_name; node is the node's, graph input's or state's index. */
json_t *remat_allocations_encode(const remat_layout *layout);

/* ---- answers ---- */

typedef struct remat_schedule_answer {
    const remat_question *question;
    const remat_profile *profile;
    const remat_answered *answered;
    uint64_t store_all_peak; /* replayed; of another machine not read */
    double solve_seconds;
    int64_t created; /* milliseconds since 1970 */
} remat_schedule_answer;

/* *ret_overhead: over storing everything. NULL: out of memory; so with all that follow. */
json_t *remat_schedule_encode(const remat_schedule_answer *answer, double *ret_overhead);

/* The text of that, made without a tree of its lists, which may be of millions. */
char *remat_schedule_text(const remat_schedule_answer *answer, double *ret_overhead);

/* Memory and time at every operation, as arrays of one entry per operation. operations: encoded. */
json_t *remat_timeline_encode(const char *schedule_id, uint64_t budget,
                              const remat_profile *profile, json_t *operations,
                              const remat_moment *moments, const remat_simulation *simulation);

/* Every allocation in the order in which they are made: kind, index, bytes, first and last
 * operation of its life. */
json_t *remat_values_encode(const remat_layout *layout);

/* in_flight: the peak of the simulation is that of so many micro-batches. */
json_t *remat_simulation_encode(const remat_profile *profile, const remat_simulation *simulation,
                                uint32_t in_flight, const double *node_recomputed);

/* GET /v1/schedules/{id}/explanation: why an encoded schedule, which may be of an older version,
 * is as it is; its list is replayed. REMAT_INFEASIBLE when it is not valid for the profile. */
remat_status remat_answer_explanation(const json_t *schedule, const remat_profile *profile,
                                      json_t **ret_answer, remat_error *error);

/* Those of the above that follow from a request alone. */
remat_status remat_answer_simulation(const remat_request *request, const remat_profile *profile,
                                     json_t **ret_answer, remat_error *error);
/* Replays an encoded schedule. REMAT_INFEASIBLE when it is not valid for the profile. */
remat_status remat_answer_timeline(const json_t *schedule, const remat_profile *profile,
                                   json_t **ret_answer, remat_error *error);
/* GET /v1/schedules/{id}/trace: a timeline in the JSON format of Chrome's trace viewer, which
 * Perfetto reads. Its columns are as long as its operations. NULL: out of memory. */
json_t *remat_trace_encode(const json_t *schedule, const json_t *timeline);
/* The same of a schedule, which is replayed as for its timeline. */
remat_status remat_answer_trace(const json_t *schedule, const remat_profile *profile,
                                json_t **ret_answer, remat_error *error);
/* One {budget, feasible, makespan, overhead, peak} for every budget, with solver and lower_bound
 * where it is feasible. Of another machine, where no budgets are given, one for each from the least
 * to what storing everything takes, or fewer, evenly spaced; every row has been replayed. */
remat_status remat_answer_tradeoff(const remat_question *question, const remat_query *query,
                                   uint64_t store_all_peak, const remat_portfolio *portfolio,
                                   const remat_host *host, json_t **ret_answer, remat_error *error);

/* ---- layouts ---- */

/* A layout's search is bounded by time as well: so many take up to 10 s. */
#define REMAT_MOST_LAID_OUT 200000u

/* The body of POST /v1/layouts. */
typedef struct remat_layout_request {
    remat_layout layout; /* owned; without offsets until it is answered */
    uint64_t capacity;   /* bytes; 0: as small an arena as is found */
    bool bounded;        /* a capacity was given */
} remat_layout_request;

/* {"buffers": [{"id": "a", "lower": 0, "upper": 3, "size": 1024}, ..], "alignment", "capacity"}.
 * Cleared by the caller; untouched on failure. */
remat_status remat_layout_decode(const json_t *json, remat_layout_request *ret_request,
                                 remat_error *error);
void remat_layout_request_clear(remat_layout_request *request); /* accepts {0} */

/* Bytes that answering it takes at most, about. */
uint64_t remat_layout_memory(const remat_layout_request *request);

/* Places the buffers and lets the judge see them. REMAT_CANCELLED by the host, which may be NULL.
 */
remat_status remat_answer_layout(remat_layout_request *request, const remat_host *host,
                                 json_t **ret_answer, remat_error *error);

/* GET /v1/solvers. */
json_t *remat_solvers_encode(void);

/* ---- judging ---- */

/* What an answer holds, once it is judged. */
typedef struct remat_judgement {
    remat_operations operations; /* none where it is of another machine */
    bool linked, placed;         /* link, layout are there */
    remat_link link;
    remat_layout layout; /* with the answer's addresses */
    remat_simulation simulation;
    uint32_t in_flight;
} remat_judgement;

/* Whether an answer to POST /v1/schedules, whoever sent it, is one for the profile: its operations
 * are a valid list, which is replayed; addresses, where it gives them, are aligned, within their
 * arena, and do not overlap. With a profile_id (of the profile, else NULL) it must name that, and
 * its figures must be those of the replay: makespan, peak, overhead, arena, within its budget. With
 * a question (else NULL) it must be the answer to that: its budget, solver, link and alignment.
 * REMAT_INVALID names the field and what is wrong. *ret_judgement (NULL: not wanted) is cleared by
 * the caller, untouched on failure. Linear in the answer and the edges of the profile. */
remat_status remat_schedule_judge(const remat_profile *profile, const char *profile_id,
                                  const remat_question *question, const json_t *answer,
                                  remat_judgement *ret_judgement, remat_error *error);
void remat_judgement_clear(remat_judgement *judgement); /* accepts {0} */

/* RFC 3339 UTC with milliseconds. */
void remat_time_text(int64_t milliseconds, char ret_text[32]);

/* ---- problems ---- */

/* The kinds of problem, their HTTP status and title. */
#define REMAT_PROBLEM_MAP(X)                                                                       \
    X(INVALID_REQUEST, "invalid-request", 400, "The request is not valid")                         \
    X(MALFORMED, "malformed", 400, "The request is not well-formed HTTP")                          \
    X(INVALID_PROFILE, "invalid-profile", 400, "The profile is not valid")                         \
    X(UNAUTHORIZED, "unauthorized", 401, "A token is required")                                    \
    X(FORBIDDEN, "forbidden", 403, "The token is not for this")                                    \
    X(FOREIGN_ORIGIN, "foreign-origin", 403, "Pages of other origins may only read")               \
    X(NOT_FOUND, "not-found", 404, "There is no such thing")                                       \
    X(METHOD_NOT_ALLOWED, "method-not-allowed", 405, "The method is not allowed here")             \
    X(CANCELLED, "cancelled", 409, "The job was cancelled")                                        \
    X(LENGTH, "length-required", 411, "A body needs a length")                                     \
    X(TOO_LARGE, "too-large", 413, "The work is past a limit of this server")                      \
    X(UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", 415, "Only application/json is read")      \
    X(EXPECTATION, "expectation-failed", 417, "What is expected cannot be met")                    \
    X(MISDIRECTED, "misdirected", 421, "The request is for another host")                          \
    X(INFEASIBLE_BUDGET, "infeasible-budget", 422, "No schedule fits the budget")                  \
    X(NOT_ACCEPTED, "solver-does-not-accept", 422, "The solver does not accept this profile")      \
    X(RATE_LIMITED, "rate-limited", 429, "The client asks too much")                               \
    X(HEAD_TOO_LARGE, "head-too-large", 431, "The head of the request is too large")               \
    X(INTERNAL, "internal", 500, "The server failed")                                              \
    X(STORAGE, "storage", 500, "The store failed")                                                 \
    X(STORAGE_AWAY, "storage-away", 503, "The store cannot be reached or written now")             \
    X(BUSY, "busy", 503, "The server is busy")                                                     \
    X(STOPPING, "stopping", 503, "The server is stopping")                                         \
    X(VERSION, "version", 505, "The version of HTTP is not spoken here")

typedef enum remat_problem_type {
#define X(name, path, status, title) REMAT_PROBLEM_##name,
    REMAT_PROBLEM_MAP(X)
#undef X
} remat_problem_type;

int remat_problem_status(remat_problem_type type);
/* The problem that a failed library call amounts to. */
remat_problem_type remat_problem_of(const remat_error *error);
/* What the problem "/problems/path" means, for people: freed by the caller; NULL: there is none, or
 * no memory. */
char *remat_problem_text(const char *path);
/* The problem document; detail is error->message, with "field", "minimum_budget" and
 * "proven_minimum" where they apply. */
json_t *remat_problem_encode(remat_problem_type type, const remat_error *error);

/* ---- the document ---- */

/* OpenAPI 3.1, JSON, static. */
const char *remat_openapi(size_t *ret_length);

#endif
