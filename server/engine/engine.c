#include "engine/private.h"
#include "host/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>

/* Solvers whose least budget is told when a profile is posted. */
#define MINIMUM_UPDATES 5e6
#define MINIMUM_NANOSECONDS UINT64_C(100000000) /* of each, should its estimate be off */

/* ---- references ---- */

static void *retain_profile(void *thing)
{
    atomic_fetch_add(&((known_profile *)thing)->references, 1);
    return thing;
}

static void release_profile(void *thing)
{
    engine_profile_release(thing);
}

void engine_profile_release(known_profile *known)
{
    if (!known || atomic_fetch_sub(&known->references, 1) != 1)
        return;
    remat_profile_free(known->profile);
    free(known);
}

static void *retain_body(void *thing)
{
    return body_retain(thing);
}

static void release_body(void *thing)
{
    body_release(thing);
}

engine *engine_new(const config *settings, remat_store *store, metrics *counters, team *workers,
                   memory *account)
{
    engine *e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    e->config = *settings;
    e->store = store;
    e->metrics = counters;
    e->team = workers;
    e->memory = account;
    e->profiles = engine_cache_new(settings->cache_bytes, retain_profile, release_profile);
    e->tables = engine_cache_new(settings->cache_bytes, engine_retain_table, engine_release_table);
    e->answers = engine_cache_new(settings->cache_bytes, retain_body, release_body);
    if (e->profiles && e->tables && e->answers)
        return e;
    engine_free(e);
    return NULL;
}

void engine_free(engine *e)
{
    if (!e)
        return;
    engine_cache_free(e->profiles);
    engine_cache_free(e->tables);
    engine_cache_free(e->answers);
    free(e);
}

/* ---- profiles ---- */

static remat_status check_limits(const engine *e, const remat_profile *profile, remat_error *error)
{
    if (profile->n_nodes > e->config.max_nodes)
        return remat_fail(error, REMAT_TOO_LARGE, "nodes",
                          "the profile has %u nodes; this server takes %u", profile->n_nodes,
                          e->config.max_nodes);
    if (profile->n_edges > e->config.max_edges)
        return remat_fail(error, REMAT_TOO_LARGE, "nodes",
                          "the profile has %u edges; this server takes %u", profile->n_edges,
                          e->config.max_edges);
    return REMAT_OK;
}

/* Takes the profile (freed on failure) and makes it known in memory. */
static remat_status introduce(engine *e, remat_profile *profile, size_t cost,
                              known_profile **ret_profile, remat_error *error)
{
    known_profile *known = calloc(1, sizeof *known);
    remat_status status = known ? REMAT_OK : remat_fail_memory(error);
    if (!status)
        status = remat_store_all_peak(profile, &known->store_all_peak, error);
    if (status) {
        remat_profile_free(profile);
        free(known);
        return status;
    }
    atomic_init(&known->references, 1);
    known->profile = profile;
    remat_profile_id(profile, known->id);
    engine_cache_put(e->profiles, known->id, known, cost);
    *ret_profile = known;
    return REMAT_OK;
}

static remat_status load_profile(engine *e, engine_terms *terms, const remat_profile_record *record,
                                 known_profile **ret_profile, remat_error *error)
{
    json_t *json = NULL;
    remat_profile *profile = NULL;
    const uint64_t tree = engine_tree_bytes(record->document.data, record->document.length);
    remat_status status = engine_reserve(e, terms, MEMORY_LOAD, tree, error);
    if (status)
        return status;
    status = remat_json_parse(record->document.data, record->document.length, &json, error);
    if (!status)
        status = remat_profile_decode(json, "", &profile, error);
    json_decref(json);
    engine_give_back(e, tree);
    if (!status)
        status = introduce(e, profile, record->document.length * 2, ret_profile, error);
    return status == REMAT_INVALID
               ? remat_fail(error, REMAT_INTERNAL, NULL, "a stored profile cannot be read")
               : status;
}

remat_status engine_profile_record(engine *e, const char *id, remat_profile_record *ret_record,
                                   remat_error *error)
{
    remat_profile_record record = {0};
    remat_status status = remat_store_get_profile(e->store, id, &record, error);
    if (status == REMAT_CORRUPT) {
        atomic_fetch_add(&e->metrics->damaged_records, 1);
        return remat_fail(error, REMAT_NOT_FOUND, "profile_id",
                          "profile %s was damaged in the store and has been dropped; post it again",
                          id);
    }
    if (status == REMAT_NOT_FOUND)
        return remat_fail(error, REMAT_NOT_FOUND, "profile_id", "there is no profile %s", id);
    char *summary = record.summary.data;
    if (!status)
        status = remat_summary_renew(&summary, &record.summary.length, record.name,
                                     record.other_names, error);
    record.summary.data = summary;
    if (status)
        remat_profile_record_clear(&record);
    else
        *ret_record = record;
    return status;
}

/* Waits for memory where terms let it; NULL: they do not. */
static remat_status get_profile(engine *e, engine_terms *terms, const char *id,
                                known_profile **ret_profile, remat_error *error)
{
    known_profile *known = engine_cache_get(e->profiles, id);
    if (known) {
        *ret_profile = known;
        return REMAT_OK;
    }
    remat_profile_record record = {0};
    remat_status status = engine_profile_record(e, id, &record, error);
    if (!status)
        status = load_profile(e, terms, &record, ret_profile, error);
    remat_profile_record_clear(&record);
    return status;
}

remat_status engine_profile(engine *e, const char *id, known_profile **ret_profile,
                            remat_error *error)
{
    return get_profile(e, NULL, id, ret_profile, error);
}

static bool past_deadline(void *deadline)
{
    return uv_hrtime() > *(const uint64_t *)deadline;
}

/* The least budget of a solver that is quick to ask; 0: it is not, or has no answer. Its table is
 * not kept: a profile is posted once, and most of its questions name one solver or auto. */
static remat_status find_minimum(engine *e, const known_profile *known, const remat_solver *solver,
                                 uint64_t *ret_least, remat_error *error)
{
    uint64_t deadline, peak = 0, least = 0;
    const remat_host host = {
        .data = &deadline, .cancelled = past_deadline, .memory_limit = e->config.memory_limit};
    remat_problem problem = {.profile = known->profile,
                             .options = remat_options_default(solver),
                             .max_budget = known->store_all_peak};
    remat_estimate estimate;
    remat_table *table = NULL;
    *ret_least = 0;
    if (remat_solver_accepts(solver, &problem, NULL) ||
        remat_estimate_table(solver, &problem, &estimate, NULL) ||
        estimate.updates > MINIMUM_UPDATES)
        return REMAT_OK;
    const uint64_t bytes =
        estimate.table_bytes < host.memory_limit ? estimate.table_bytes : host.memory_limit;
    remat_status status = engine_reserve(e, NULL, MEMORY_LOAD, bytes, error);
    if (status) /* what is stored must not depend on what else runs now */
        return status;
    deadline = uv_hrtime() + MINIMUM_NANOSECONDS;
    status = remat_tabulate(solver, &problem, &host, &table, error);
    const remat_table *one = table;
    if (!status)
        status =
            remat_least_budget(&one, 1, &problem, remat_default_alignment(known->store_all_peak),
                               &peak, &least, error);
    if (!status && peak > 0)
        *ret_least = least;
    remat_table_free(table);
    engine_give_back(e, bytes);
    return status == REMAT_NO_MEMORY ? status : REMAT_OK;
}

static remat_status find_minima(engine *e, const known_profile *known, remat_minimum *minima,
                                size_t room, size_t *ret_n, remat_error *error)
{
    size_t n_solvers, n = 0;
    const remat_solver *const *solvers = remat_solvers(&n_solvers);
    for (size_t i = 0; i < n_solvers && n < room; i++) {
        uint64_t least;
        remat_status status = find_minimum(e, known, solvers[i], &least, error);
        if (status)
            return status;
        if (least > 0)
            minima[n++] = (remat_minimum){solvers[i], least};
    }
    *ret_n = n;
    return REMAT_OK;
}

static remat_status store_profile(engine *e, const json_t *json, known_profile *known,
                                  bool *ret_created, body **ret_summary, remat_error *error)
{
    remat_minimum minima[REMAT_MAX_SOLVERS];
    size_t n = 0;
    remat_status status = find_minima(e, known, minima, REMAT_MAX_SOLVERS, &n, error);
    if (status)
        return status;
    char *document = remat_json_text(json);
    body *summary = body_from_json(
        remat_profile_summary(known->profile, known->store_all_peak, minima, n), false);
    status = document && summary ? REMAT_OK : remat_fail_memory(error);
    if (!status) {
        int64_t now = machine_clock();
        remat_profile_record record = {
            .id = known->id,
            .name = (char *)known->profile->name,
            .kind = (char *)remat_kind_name(known->profile->kind),
            .nodes = known->profile->n_nodes,
            .edges = known->profile->n_edges,
            .document = {document, strlen(document)},
            .summary = {summary->data[BODY_IDENTITY], summary->length[BODY_IDENTITY]},
            .created = now,
            .last_used = remat_store_now()};
        status = remat_store_put_profile(e->store, &record, ret_created, error);
    }
    free(document);
    if (!status && ret_summary)
        *ret_summary = body_retain(summary);
    body_release(summary);
    return status;
}

/* The record of a profile that is posted again, maybe under another name: then it has both. */
static remat_status name_again(engine *e, const char *name, const char *id,
                               remat_profile_record *ret_record, remat_error *error)
{
    bool added = false;
    remat_status status = engine_profile_record(e, id, ret_record, error);
    if (status || strcmp(ret_record->name, name) == 0)
        return status;
    status = remat_store_name_profile(e->store, id, name, &added, error);
    if (!status && !added)
        return REMAT_OK;
    remat_profile_record_clear(ret_record);
    return status ? status : engine_profile_record(e, id, ret_record, error);
}

/* The stored answer to the profile's POST, if the profile is there. */
static remat_status stored_summary(engine *e, const char *name, const char *id, body **ret_summary,
                                   remat_error *error)
{
    remat_profile_record record = {0};
    remat_status status = name_again(e, name, id, &record, error);
    if (!status) {
        char *text = record.summary.data;
        size_t length = record.summary.length;
        record.summary = (remat_blob){0};
        *ret_summary = body_new(text, length, false);
        if (!*ret_summary)
            status = remat_fail_memory(error);
    }
    remat_profile_record_clear(&record);
    return status;
}

remat_status engine_profile_post(engine *e, const json_t *json, const char *prefix,
                                 known_profile **ret_profile, bool *ret_created, body **ret_summary,
                                 remat_error *error)
{
    remat_profile *profile = NULL;
    remat_status status = remat_profile_decode(json, prefix, &profile, error);
    if (!status && (status = check_limits(e, profile, error)))
        remat_profile_free(profile);
    if (status)
        return status;
    char id[REMAT_ID_SIZE];
    body *summary = NULL;
    known_profile *known = NULL;
    remat_profile_id(profile, id);
    *ret_created = false;
    status = stored_summary(e, profile->name, id, &summary, error);
    if (!status && (known = engine_cache_get(e->profiles, id)) != NULL)
        remat_profile_free(profile);
    else if (!status || status == REMAT_NOT_FOUND)
        status = introduce(e, profile, json_array_size(json_object_get(json, "nodes")) * 1024,
                           &known, error);
    else
        remat_profile_free(profile);
    if (!status && !summary)
        status = store_profile(e, json, known, ret_created, &summary, error);
    if (status) {
        engine_profile_release(known);
        body_release(summary);
        return status;
    }
    if (ret_summary)
        *ret_summary = summary;
    else
        body_release(summary);
    *ret_profile = known;
    return REMAT_OK;
}

remat_status engine_profile_of(engine *e, const remat_request *request, known_profile **ret_profile,
                               remat_error *error)
{
    bool created;
    if (!request->profile)
        return engine_profile(e, request->profile_id, ret_profile, error);
    return engine_profile_post(e, request->profile, "profile.", ret_profile, &created, NULL, error);
}

remat_status engine_question(engine *e, const remat_request *request, remat_question *ret_question,
                             char **ret_name, remat_error *error)
{
    known_profile *known = NULL;
    remat_status status = engine_profile_of(e, request, &known, error);
    if (!status)
        status = remat_question_resolve(request, known->id, known->profile, known->store_all_peak,
                                        ret_question, error);
    if (!status && !(*ret_name = strdup(known->profile->name))) {
        remat_question_clear(ret_question);
        status = remat_fail_memory(error);
    }
    engine_profile_release(known);
    return status;
}

void engine_forget_profile(engine *e, const char *id)
{
    engine_cache_drop(e->profiles, id);
    engine_cache_clear(e->tables);
    engine_cache_clear(e->answers);
}

void engine_forget_everything(engine *e)
{
    engine_cache_clear(e->profiles);
    engine_cache_clear(e->tables);
    engine_cache_clear(e->answers);
}

/* ---- schedules ---- */

body *engine_recall(engine *e, const char *question_id)
{
    return engine_cache_get(e->answers, question_id);
}

void engine_remember(engine *e, const char *name, body *answer)
{
    engine_cache_put(e->answers, name, answer, body_cost(answer));
}

void engine_remember_request(engine *e, const char *name, const char *question_id)
{
    char *text = strdup(question_id);
    body *b = text ? body_new(text, strlen(text), false) : NULL;
    if (b)
        engine_remember(e, name, b);
    body_release(b);
}

body *engine_recall_request(engine *e, const char *name, char ret_id[REMAT_ID_SIZE])
{
    body *b = engine_cache_get(e->answers, name);
    if (!b)
        return NULL;
    memcpy(ret_id, b->data[BODY_IDENTITY], REMAT_ID_SIZE - 1);
    ret_id[REMAT_ID_SIZE - 1] = '\0';
    body_release(b);
    return engine_cache_get(e->answers, ret_id);
}

remat_status engine_schedule(engine *e, const char *schedule_id, body **ret_body,
                             char **ret_question, remat_error *error)
{
    if (ret_question)
        *ret_question = NULL;
    *ret_body = engine_cache_get(e->answers, schedule_id);
    if (*ret_body)
        return REMAT_OK;
    remat_schedule_record record = {0};
    remat_status status = remat_store_get_schedule(e->store, schedule_id, &record, error);
    if (status == REMAT_CORRUPT) {
        atomic_fetch_add(&e->metrics->damaged_records, 1);
        if (ret_question) {
            *ret_question = record.question.data;
            record.question.data = NULL;
        }
        status = remat_fail(error, REMAT_NOT_FOUND, "schedule_id",
                            "schedule %s was damaged in the store and has been dropped; ask again",
                            schedule_id);
    } else if (status == REMAT_NOT_FOUND) {
        remat_fail(error, REMAT_NOT_FOUND, "schedule_id", "there is no schedule %s", schedule_id);
    } else if (!status) {
        *ret_body = body_new(record.body.data, record.body.length, true);
        record.body.data = NULL;
        if (*ret_body)
            engine_cache_put(e->answers, schedule_id, *ret_body, body_cost(*ret_body));
        else
            status = remat_fail_memory(error);
    }
    if (!status)
        remat_store_touch(e->store, record.profile_id, schedule_id, NULL, NULL);
    remat_schedule_record_clear(&record);
    return status;
}

/* The answer that is there; that to a trade-off is in memory or nowhere. */
static remat_status find_answer(engine *e, const remat_question *q, body **ret_body,
                                remat_error *error)
{
    if (q->kind == REMAT_ASK_SCHEDULE)
        return engine_schedule(e, q->id, ret_body, NULL, error);
    *ret_body = engine_cache_get(e->answers, q->id);
    return *ret_body ? REMAT_OK : REMAT_NOT_FOUND;
}

/* Stores the answer *b to q and remembers it. Where another thread or daemon has answered
 * meanwhile, its answer stays: an id has one, to the byte. */
static remat_status store_answer(engine *e, const remat_schedule_answer *answer, double overhead,
                                 body **b, remat_error *error)
{
    bool created;
    const remat_question *q = answer->question;
    const remat_schedule *schedule = &answer->answered->schedule;
    const remat_schedule_record record = {
        .id = (char *)q->id,
        .profile_id = (char *)q->profile_id,
        .solver = (char *)schedule->solver->name,
        .requested_solver = (char *)remat_question_solver(q),
        .budget = q->budget,
        .peak = schedule->simulation.peak,
        .makespan = schedule->simulation.makespan,
        .overhead = overhead,
        .created = answer->created,
        .last_used = remat_store_now(),
        .question = {q->text, strlen(q->text)},
        .body = {(*b)->data[BODY_IDENTITY], (*b)->length[BODY_IDENTITY]}};
    remat_status status = remat_store_put_schedule(e->store, &record, &created, error);
    if (status)
        return status;
    if (created) {
        engine_cache_put(e->answers, q->id, *b, body_cost(*b));
        return REMAT_OK;
    }
    body_release(*b);
    *b = NULL;
    return engine_schedule(e, q->id, b, NULL, error);
}

/* What was cut short depends on the hour: it is called by what it is, not by its question. own: for
 * the question under that name. */
static char *schedule_text(remat_schedule_answer *answer, remat_question *own, double *ret_overhead)
{
    char *text = remat_schedule_text(answer, ret_overhead);
    if (!text || !answer->answered->schedule.cut_short)
        return text;
    *own = *answer->question;
    remat_sha256_hex(text, strlen(text), own->id);
    answer->question = own;
    free(text);
    return remat_schedule_text(answer, ret_overhead);
}

/* Encodes, stores and remembers. */
static remat_status publish(engine *e, remat_schedule_answer answer, char ret_id[REMAT_ID_SIZE],
                            body **ret_body, remat_error *error)
{
    double overhead = 0;
    remat_question own;
    char *text = schedule_text(&answer, &own, &overhead);
    body *b = text ? body_new(text, strlen(text), true) : NULL;
    remat_status status =
        b ? store_answer(e, &answer, overhead, &b, error) : remat_fail_memory(error);
    memcpy(ret_id, answer.question->id, REMAT_ID_SIZE);
    if (status)
        body_release(b);
    else
        *ret_body = b;
    return status;
}

/* A trade-off: in memory only, since its tables are stored. */
static remat_status publish_tradeoff(engine *e, const remat_question *q, const remat_query *query,
                                     const known_profile *known, const remat_answered *answered,
                                     const remat_host *host, body **ret_body, remat_error *error)
{
    json_t *answer = NULL;
    remat_status status = remat_answer_tradeoff(q, query, known->store_all_peak,
                                                &answered->portfolio, host, &answer, error);
    if (status)
        return status;
    if (!(*ret_body = body_from_json(answer, true)))
        return remat_fail_memory(error);
    engine_cache_put(e->answers, q->id, *ret_body, body_cost(*ret_body));
    return REMAT_OK;
}

/* Of an improvement, in inner updates, and of what it takes for each node. */
#define IMPROVEMENT_COST 1e8
#define IMPROVEMENT_COST_OF_NODE 4e5

/* Whether nothing that is kept can answer the question: no work for a thread that others wait for.
 */
static bool must_be_searched(const remat_question *q)
{
    return q->kind == REMAT_ASK_SCHEDULE && (!q->solver || q->solver->improved);
}

/* The query is answered, and its answer published. */
static remat_status answer_query(engine *e, const remat_question *q, const remat_query *query,
                                 const known_profile *known, const engine_terms *terms,
                                 engine_outcome *ret_outcome, body **ret_body, remat_error *error)
{
    const uint64_t start = uv_hrtime();
    lent_host lent;
    const remat_host host = engine_lend_host(e, terms, &lent);
    engine_tables room = {.e = e, .profile_id = known->id, .terms = terms};
    const remat_table_source tables = engine_lend_tables(&room);
    remat_answered answered = {.portfolio = {.n = 0}};
    remat_status status = remat_answer(query, &host, &tables, &answered, error);
    if (status == REMAT_INTERNAL)
        atomic_fetch_add(&e->metrics->verification_failures, 1);
    if (status)
        status = engine_past_limit(e, terms, "improving", status, error);
    if (atomic_load(&room.made))
        ret_outcome->cache = CACHE_MISS;
    ret_outcome->cost = answered.portfolio.missing;
    ret_outcome->needs_solve = !status && ret_outcome->cost > 0;
    const remat_schedule_answer answer = {.question = q,
                                          .profile = known->profile,
                                          .answered = &answered,
                                          .store_all_peak = known->store_all_peak,
                                          .solve_seconds = (double)(uv_hrtime() - start) / 1e9,
                                          .created = machine_clock()};
    if (!status && !ret_outcome->needs_solve)
        status = query->curve
                     ? publish_tradeoff(e, q, query, known, &answered, &host, ret_body, error)
                     : publish(e, answer, ret_outcome->id, ret_body, error);
    remat_answered_clear(&answered);
    return status;
}

/* Within the account; what does not fit at once is no work for a thread that others wait for. */
static remat_status answer_known(engine *e, const remat_question *q, const known_profile *known,
                                 engine_terms *terms, engine_outcome *ret_outcome, body **ret_body,
                                 remat_error *error)
{
    remat_query query;
    remat_error why = {0};
    remat_status status =
        remat_question_query(q, known->profile, known->store_all_peak, &query, error);
    if (status)
        return status;
    const uint64_t need = engine_need(e, &query);
    status = engine_reserve(e, terms, MEMORY_SOLVE, need, &why);
    if (status && terms->kept_only && engine_is_busy(&why)) {
        ret_outcome->needs_solve = true;
        ret_outcome->cost = IMPROVEMENT_COST_OF_NODE * known->profile->n_nodes;
        return REMAT_OK;
    }
    if (status) {
        *error = why;
        return status;
    }
    status = answer_query(e, q, &query, known, terms, ret_outcome, ret_body, error);
    engine_give_back(e, need);
    return status;
}

remat_status engine_solve(engine *e, const remat_question *q, const engine_terms *given,
                          engine_outcome *ret_outcome, body **ret_body, remat_error *error)
{
    known_profile *known = NULL;
    engine_terms terms = *given;
    remat_status status = find_answer(e, q, ret_body, error);
    *ret_outcome = (engine_outcome){.cache = CACHE_HIT};
    memcpy(ret_outcome->id, q->id, REMAT_ID_SIZE);
    if (status != REMAT_NOT_FOUND)
        return status;
    ret_outcome->cache = CACHE_TABLE;
    if (!terms.kept_only)
        atomic_fetch_add(&e->metrics->solves, 1);
    status = get_profile(e, &terms, q->profile_id, &known, error);
    if (!status && terms.kept_only && must_be_searched(q)) {
        ret_outcome->needs_solve = true;
        ret_outcome->cost = IMPROVEMENT_COST + IMPROVEMENT_COST_OF_NODE * known->profile->n_nodes;
    } else if (!status) {
        status = answer_known(e, q, known, &terms, ret_outcome, ret_body, error);
    }
    engine_profile_release(known);
    return status;
}

/* ---- what follows from a stored schedule ---- */

/* A stored schedule and its profile, and what the function makes of them. */
static remat_status derive(engine *e, const char *schedule_id,
                           remat_status (*make)(const json_t *schedule,
                                                const remat_profile *profile, json_t **ret_answer,
                                                remat_error *error),
                           body **ret_body, remat_error *error)
{
    body *schedule_body = NULL;
    json_t *schedule = NULL, *answer = NULL;
    known_profile *known = NULL;
    remat_status status = engine_schedule(e, schedule_id, &schedule_body, NULL, error);
    if (status)
        return status;
    const char *text = schedule_body->data[BODY_IDENTITY];
    const size_t length = schedule_body->length[BODY_IDENTITY];
    const uint64_t trees = 2 * engine_tree_bytes(text, length); /* what is made of it, too */
    status = engine_reserve(e, NULL, MEMORY_LOAD, trees, error);
    if (!status && (status = remat_json_parse(text, length, &schedule, error)))
        engine_give_back(e, trees);
    body_release(schedule_body);
    if (status)
        return status;
    const char *profile_id = json_string_value(json_object_get(schedule, "profile_id"));
    status = profile_id ? engine_profile(e, profile_id, &known, error)
                        : remat_fail(error, REMAT_INTERNAL, NULL,
                                     "stored schedule %s names no profile", schedule_id);
    if (!status)
        status = make(schedule, known->profile, &answer, error);
    if (status == REMAT_INFEASIBLE)
        status =
            remat_fail(error, REMAT_INTERNAL, NULL, "stored schedule %s is not valid", schedule_id);
    if (!status && !(*ret_body = body_from_json(answer, true)))
        status = remat_fail_memory(error);
    json_decref(schedule);
    engine_profile_release(known);
    engine_give_back(e, trees);
    return status;
}

remat_status engine_timeline(engine *e, const char *schedule_id, body **ret_body,
                             remat_error *error)
{
    return derive(e, schedule_id, remat_answer_timeline, ret_body, error);
}

remat_status engine_trace(engine *e, const char *schedule_id, body **ret_body, remat_error *error)
{
    return derive(e, schedule_id, remat_answer_trace, ret_body, error);
}

remat_status engine_explanation(engine *e, const char *schedule_id, body **ret_body,
                                remat_error *error)
{
    char name[REMAT_ID_SIZE + 16];
    snprintf(name, sizeof name, "explanation %s", schedule_id);
    *ret_body = engine_cache_get(e->answers, name);
    if (*ret_body)
        return REMAT_OK;
    remat_status status = derive(e, schedule_id, remat_answer_explanation, ret_body, error);
    if (!status)
        engine_cache_put(e->answers, name, *ret_body, body_cost(*ret_body));
    return status;
}

void engine_counts(engine *e, uint64_t *ret_answer_bytes, uint64_t *ret_table_bytes,
                   uint64_t *ret_evictions)
{
    uint64_t answers, tables;
    engine_cache_counts(e->answers, ret_answer_bytes, &answers);
    engine_cache_counts(e->tables, ret_table_bytes, &tables);
    *ret_evictions = answers + tables;
}
