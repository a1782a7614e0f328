#include "snapshot/snapshot.h"

#include "fields.h"

#include "remat/snapshot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VARIABLES = 2000, MAX_PARTS = 10000, DEFAULT_LIST = 64, MAX_LIST = 10000 };

/* The names of the request, sorted, with their places in its list. */
typedef struct name_entry {
    const char *name;
    size_t index;
} name_entry;

typedef struct names {
    const char **list;
    name_entry *sorted;
    size_t n;
} names;

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const name_entry *)a)->name, ((const name_entry *)b)->name);
}

static void names_clear(names *all)
{
    free(all->list);
    free(all->sorted);
}

static remat_status names_read(const json_t *json, names *all, remat_error *error)
{
    remat_status status = api_strings(json, "variables", &all->list, &all->n, error);
    if (status)
        return status;
    if (all->n > MAX_VARIABLES)
        return remat_fail(error, REMAT_TOO_LARGE, "variables",
                          "variables has %zu entries; at most %d are taken", all->n, MAX_VARIABLES);
    all->sorted = calloc(all->n + 1, sizeof *all->sorted);
    if (!all->sorted)
        return remat_fail_memory(error);
    for (size_t i = 0; i < all->n; i++)
        all->sorted[i] = (name_entry){all->list[i], i};
    qsort(all->sorted, all->n, sizeof *all->sorted, compare_names);
    for (size_t i = 1; i < all->n; i++)
        if (strcmp(all->sorted[i - 1].name, all->sorted[i].name) == 0)
            return remat_fail(error, REMAT_INVALID, "variables",
                              "variables: \"%.100s\" is named twice", all->sorted[i].name);
    return REMAT_OK;
}

static remat_status find_name(const names *all, const char *name, const char *field,
                              size_t *ret_index, remat_error *error)
{
    name_entry key = {.name = name};
    const name_entry *found =
        all->n ? bsearch(&key, all->sorted, all->n, sizeof key, compare_names) : NULL;
    if (!found)
        return remat_fail(error, REMAT_INVALID, field, "%s: there is no variable \"%.100s\"", field,
                          name);
    *ret_index = found->index;
    return REMAT_OK;
}

/* Sets bit in marks[v] for every variable of a set; json NULL: the empty set. */
static remat_status read_set(const names *all, const json_t *json, const char *field, uint8_t bit,
                             uint8_t *marks, size_t stride, remat_error *error)
{
    for (size_t i = 0; i < json_array_size(json); i++) {
        const json_t *item = json_array_get(json, i);
        size_t v = 0;
        char place[REMAT_FIELD_SIZE];
        snprintf(place, sizeof place, "%.200s[%zu]", field, i);
        if (!json_is_string(item))
            return remat_fail(error, REMAT_INVALID, place, "%s must be a string", place);
        remat_status status = find_name(all, json_string_value(item), place, &v, error);
        if (status)
            return status;
        marks[v * stride] |= bit;
    }
    return REMAT_OK;
}

static json_t *write_set(const names *all, const uint8_t *marks, uint8_t bit)
{
    json_t *list = json_array();
    for (size_t v = 0; v < all->n; v++)
        if (marks[v] & bit)
            remat_json_append(&list, json_string(all->list[v]));
    return list;
}

static json_t *write_solution(const names *all, const uint8_t *chosen)
{
    return json_pack("{s:o, s:o, s:o, s:o}", "Sbk", write_set(all, chosen, REMAT_SBK), "Snp",
                     write_set(all, chosen, REMAT_SNP), "Req_D",
                     write_set(all, chosen, REMAT_REQ_D), "Req_C",
                     write_set(all, chosen, REMAT_REQ_C));
}

/* ---- fragments ---- */

typedef struct fragment_request {
    names all;
    remat_variable *variables;
    remat_fragment fragment;
    const json_t *proposals;
    uint64_t list_limit;
    uint8_t *scratch; /* one byte per variable */
    remat_error *error;
} fragment_request;

/* Bytes by variable name into the member at offset of each variable. */
static remat_status read_bytes(fragment_request *r, const json_t *json, const char *field,
                               size_t offset)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)json, name, value)
    {
        char place[REMAT_FIELD_SIZE];
        size_t v = 0;
        snprintf(place, sizeof place, "%s.%.100s", field, name);
        remat_status status = find_name(&r->all, name, place, &v, r->error);
        if (status)
            return status;
        double bytes = json_number_value(value);
        if (!json_is_number(value) || !(bytes >= 0 && bytes < (double)REMAT_MAX_BYTES) ||
            bytes != floor(bytes))
            return remat_fail(r->error, REMAT_INVALID, place,
                              "%s must be an integer from 0 to 2^53 - 1", place);
        *(uint64_t *)((char *)&r->variables[v] + offset) = (uint64_t)bytes;
    }
    return REMAT_OK;
}

static remat_status check_sums(const fragment_request *r)
{
    double total = (double)r->fragment.base_D + (double)r->fragment.base_C;
    for (size_t v = 0; v < r->all.n; v++)
        total += 2 * (double)r->variables[v].size + (double)r->variables[v].tape_D +
                 (double)r->variables[v].tape_C;
    if (!(total < (double)REMAT_MAX_BYTES))
        return remat_fail(r->error, REMAT_INVALID, "size", "the sizes add up to %.17g, past 2^53",
                          total);
    return REMAT_OK;
}

static remat_status read_sets(fragment_request *r, const json_t *const sets[5])
{
    static const char *const fields[] = {"Req", "out_C", "use_Cbar", "out_Cbar", "out_Dbar"};
    remat_status status = REMAT_OK;
    for (int i = 0; i < 5 && !status; i++)
        status = read_set(&r->all, sets[i], fields[i], (uint8_t)(1 << i), &r->variables->given,
                          sizeof *r->variables, r->error);
    return status;
}

static remat_status read_fragment(fragment_request *r, const json_t *json)
{
    const json_t *names_json = NULL, *sets[5] = {NULL}, *size = NULL, *tape_D = NULL,
                 *tape_C = NULL;
    remat_number base_D = {0}, base_C = {0}, limit = {0};
    bool shared = true;
    const field_rule rules[] = {{"variables", FIELD_ARRAY, true, &names_json},
                                {"Req", FIELD_ARRAY, true, &sets[0]},
                                {"out_C", FIELD_ARRAY, true, &sets[1]},
                                {"use_Cbar", FIELD_ARRAY, true, &sets[2]},
                                {"out_Cbar", FIELD_ARRAY, true, &sets[3]},
                                {"out_Dbar", FIELD_ARRAY, true, &sets[4]},
                                {"size", FIELD_OBJECT, false, &size},
                                {"tape_D", FIELD_OBJECT, false, &tape_D},
                                {"tape_C", FIELD_OBJECT, false, &tape_C},
                                {"base_D", FIELD_NUMBER, false, &base_D},
                                {"base_C", FIELD_NUMBER, false, &base_C},
                                {"shared", FIELD_BOOLEAN, false, &shared},
                                {"proposals", FIELD_ARRAY, false, &r->proposals},
                                {"list_limit", FIELD_NUMBER, false, &limit}};
    remat_status status = api_read(json, "", rules, sizeof rules / sizeof *rules, r->error);
    if (!status)
        status = names_read(names_json, &r->all, r->error);
    if (status)
        return status;
    r->list_limit = DEFAULT_LIST;
    if ((status = api_whole(&limit, "list_limit", 0, MAX_LIST, &r->list_limit, r->error)))
        return status;
    r->variables = calloc(r->all.n + 1, sizeof *r->variables);
    r->scratch = calloc(r->all.n + 1, 1);
    if (!r->variables || !r->scratch)
        return remat_fail_memory(r->error);
    r->fragment = (remat_fragment){.variables = r->variables, .n = r->all.n, .unshared = !shared};
    for (size_t v = 0; v < r->all.n; v++)
        r->variables[v].size = 1;
    if ((status = read_sets(r, sets)) ||
        (status = read_bytes(r, size, "size", offsetof(remat_variable, size))))
        return status;
    for (size_t v = 0; v < r->all.n; v++)
        r->variables[v].tape_D = r->variables[v].tape_C = r->variables[v].size;
    if ((status = read_bytes(r, tape_D, "tape_D", offsetof(remat_variable, tape_D))) ||
        (status = read_bytes(r, tape_C, "tape_C", offsetof(remat_variable, tape_C))) ||
        (status =
             api_whole(&base_D, "base_D", 0, REMAT_MAX_BYTES - 1, &r->fragment.base_D, r->error)) ||
        (status =
             api_whole(&base_C, "base_C", 0, REMAT_MAX_BYTES - 1, &r->fragment.base_C, r->error)))
        return status;
    return check_sums(r);
}

/* A solution with its bytes. */
static json_t *write_priced(const fragment_request *r, const uint8_t *chosen)
{
    remat_snapshot_cost cost = remat_snapshot_cost_of(&r->fragment, chosen);
    return json_pack("{s:o, s:I, s:I, s:I, s:I}", "solution", write_solution(&r->all, chosen),
                     "bytes_D", (json_int_t)cost.bytes_D, "bytes_C", (json_int_t)cost.bytes_C,
                     "peak", (json_int_t)cost.peak, "pushed", (json_int_t)cost.pushed);
}

static json_t *write_each(fragment_request *r, uint8_t (*choose)(uint8_t given))
{
    for (size_t v = 0; v < r->all.n; v++)
        r->scratch[v] = choose(r->variables[v].given);
    return write_priced(r, r->scratch);
}

static json_t *write_published(fragment_request *r, uint8_t bit)
{
    for (size_t v = 0; v < r->all.n; v++)
        r->scratch[v] = remat_snapshot_published(r->variables[v].given);
    return write_set(&r->all, r->scratch, bit);
}

static json_t *write_out(fragment_request *r)
{
    for (size_t v = 0; v < r->all.n; v++)
        r->scratch[v] = remat_snapshot_out(r->variables[v].given);
    return write_set(&r->all, r->scratch, 1);
}

/* The minimal solutions, as many as the list may hold. */
static json_t *write_minimal(fragment_request *r, double count)
{
    json_t *list = json_array();
    size_t n = count < (double)r->list_limit ? (size_t)count : r->list_limit;
    for (size_t i = 0; i < n; i++) {
        remat_snapshot_solution(&r->fragment, i, r->scratch);
        remat_json_append(&list, write_solution(&r->all, r->scratch));
    }
    return list;
}

static json_t *write_best(fragment_request *r, remat_status *status)
{
    remat_snapshot_cost cost;
    bool proven;
    *status = remat_snapshot_best(&r->fragment, r->scratch, &cost, &proven, r->error);
    json_t *json = *status ? NULL : write_priced(r, r->scratch);
    if (json)
        remat_json_set(&json, "proven", json_boolean(proven));
    return json;
}

static remat_status read_proposal(fragment_request *r, const json_t *json, size_t index)
{
    static const char *const fields[] = {"Sbk", "Snp", "Req_D", "Req_C"};
    const json_t *sets[4] = {NULL};
    char path[64];
    snprintf(path, sizeof path, "proposals[%zu].", index);
    const field_rule rules[] = {{"Sbk", FIELD_ARRAY, false, &sets[0]},
                                {"Snp", FIELD_ARRAY, false, &sets[1]},
                                {"Req_D", FIELD_ARRAY, false, &sets[2]},
                                {"Req_C", FIELD_ARRAY, false, &sets[3]}};
    remat_status status = api_read(json, path, rules, 4, r->error);
    memset(r->scratch, 0, r->all.n);
    for (int i = 0; i < 4 && !status; i++) {
        char field[96];
        snprintf(field, sizeof field, "%s%s", path, fields[i]);
        status = read_set(&r->all, sets[i], field, (uint8_t)(1 << i), r->scratch, 1, r->error);
    }
    return status;
}

/* Conditions (3) and (4) of the proposal in scratch. */
static json_t *write_check(fragment_request *r)
{
    uint8_t *violations = calloc(r->all.n + 1, 1);
    bool minimal = true, broken[3] = {false, false, false};
    for (size_t v = 0; violations && v < r->all.n; v++) {
        violations[v] = (uint8_t)remat_snapshot_violations(r->variables[v].given, r->scratch[v]);
        broken[1] |= (violations[v] & 1) != 0;
        broken[2] |= (violations[v] & 2) != 0;
        minimal &= remat_snapshot_is_minimal(r->variables[v].given, r->scratch[v]);
    }
    json_t *json = violations ? json_pack("{s:o, s:b, s:b, s:o, s:o, s:b}", "proposal",
                                          write_solution(&r->all, r->scratch), "condition_3",
                                          !broken[1], "condition_4", !broken[2], "violated_3",
                                          write_set(&r->all, violations, 1), "violated_4",
                                          write_set(&r->all, violations, 2), "minimal", minimal)
                              : NULL;
    free(violations);
    return json;
}

static remat_status write_checks(fragment_request *r, json_t *answer)
{
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(r->proposals); i++) {
        remat_status status = read_proposal(r, json_array_get(r->proposals, i), i);
        if (status) {
            json_decref(list);
            return status;
        }
        remat_json_append(&list, write_check(r));
    }
    return json_object_set_new(answer, "checks", list) ? remat_fail_memory(r->error) : REMAT_OK;
}

static remat_status answer_fragment(fragment_request *r, json_t **ret_answer)
{
    bool within = remat_snapshot_hypothesis(&r->fragment);
    double count = remat_snapshot_count(&r->fragment);
    remat_status status = REMAT_OK;
    json_t *best = write_best(r, &status);
    if (status)
        return status;
    json_t *answer =
        json_pack("{s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
                  "out_Cbar_within_out_C", within, "Snp0", write_published(r, REMAT_SNP0), "Opt1",
                  write_published(r, REMAT_OPT1), "Opt2", write_published(r, REMAT_OPT2), "Opt3",
                  write_published(r, REMAT_OPT3), "lazy", write_each(r, remat_snapshot_lazy),
                  "eager", within ? write_each(r, remat_snapshot_eager) : json_null(), "out",
                  write_out(r), "minimal_count",
                  count < (double)REMAT_MAX_BYTES ? json_integer((json_int_t)count)
                  : isfinite(count)               ? json_real(count)
                                                  : json_null(),
                  "minimal", write_minimal(r, count), "cheapest", best);
    if (!answer)
        return remat_fail_memory(r->error);
    status = write_checks(r, answer);
    if (status) {
        json_decref(answer);
        return status;
    }
    *ret_answer = answer;
    return REMAT_OK;
}

/* ---- sequences ---- */

typedef struct sequence_request {
    names all;
    uint8_t **blocks; /* every set and list of parts, to be freed */
    size_t n_blocks, n_parts;
    json_t *checkpoints; /* being written */
    bool failed;
    remat_error *error;
} sequence_request;

static void *take_block(sequence_request *r, size_t count, size_t size)
{
    uint8_t **blocks = realloc(r->blocks, (r->n_blocks + 1) * sizeof *blocks);
    if (!blocks)
        return NULL;
    r->blocks = blocks;
    return r->blocks[r->n_blocks++] = calloc(count + 1, size);
}

static remat_status read_part(sequence_request *r, const json_t *json, const char *path,
                              remat_part *part);

static remat_status read_parts(sequence_request *r, const json_t *json, const char *path,
                               remat_part *part)
{
    size_t n = json_array_size(json);
    if (n == 0 || (r->n_parts += n) > MAX_PARTS)
        return remat_fail(r->error, n ? REMAT_TOO_LARGE : REMAT_INVALID, path,
                          "%sparts has %zu entries; 1 to %d are taken in all", path, n, MAX_PARTS);
    remat_part *parts = take_block(r, n, sizeof *parts);
    if (!parts)
        return remat_fail_memory(r->error);
    part->parts = parts;
    part->n_parts = n;
    for (size_t i = 0; i < n; i++) {
        char inner[REMAT_FIELD_SIZE];
        snprintf(inner, sizeof inner, "%.200sparts[%zu].", path, i);
        remat_status status = read_part(r, json_array_get(json, i), inner, &parts[i]);
        if (status)
            return status;
    }
    return REMAT_OK;
}

/* One set of a leaf; fallback is what it is when absent, or what it must hold or be held by. */
static remat_status read_leaf_set(sequence_request *r, const json_t *json, const char *path,
                                  const char *name, const uint8_t *fallback,
                                  const uint8_t **ret_set)
{
    char field[REMAT_FIELD_SIZE];
    snprintf(field, sizeof field, "%.200s%s", path, name);
    uint8_t *set = take_block(r, r->all.n, 1);
    if (!set)
        return remat_fail_memory(r->error);
    if (!json && fallback)
        memcpy(set, fallback, r->all.n);
    *ret_set = set;
    return read_set(&r->all, json, field, 1, set, 1, r->error);
}

/* Every variable of part is in whole. */
static remat_status check_within(const sequence_request *r, const char *path, const char *part_name,
                                 const uint8_t *part, const char *whole_name, const uint8_t *whole)
{
    for (size_t v = 0; v < r->all.n; v++)
        if (part[v] && !whole[v]) {
            char field[REMAT_FIELD_SIZE];
            snprintf(field, sizeof field, "%.200s%s", path, part_name);
            return remat_fail(r->error, REMAT_INVALID, field, "%s holds \"%.100s\", which %s lacks",
                              field, r->all.list[v], whole_name);
        }
    return REMAT_OK;
}

static remat_status read_leaf(sequence_request *r, const json_t *json, const char *path,
                              remat_part *part)
{
    const json_t *sets[5] = {NULL};
    const field_rule rules[] = {{"use", FIELD_ARRAY, true, &sets[0]},
                                {"out", FIELD_ARRAY, true, &sets[1]},
                                {"kill", FIELD_ARRAY, false, &sets[2]},
                                {"bar_use", FIELD_ARRAY, false, &sets[3]},
                                {"bar_out", FIELD_ARRAY, false, &sets[4]}};
    remat_status status = api_read(json, path, rules, 5, r->error);
    if (status || (status = read_leaf_set(r, sets[0], path, "use", NULL, &part->use)) ||
        (status = read_leaf_set(r, sets[1], path, "out", NULL, &part->out)) ||
        (status = read_leaf_set(r, sets[2], path, "kill", NULL, &part->kill)) ||
        (status = read_leaf_set(r, sets[3], path, "bar_use", part->use, &part->use_bar)) ||
        (status = read_leaf_set(r, sets[4], path, "bar_out", part->out, &part->out_bar)) ||
        (status = check_within(r, path, "kill", part->kill, "out", part->out)))
        return status;
    return check_within(r, path, "use", part->use, "bar_use", part->use_bar);
}

static remat_status read_part(sequence_request *r, const json_t *json, const char *path,
                              remat_part *part)
{
    const json_t *parts = NULL;
    if (!json_object_get(json, "parts"))
        return read_leaf(r, json, path, part);
    const field_rule rules[] = {{"parts", FIELD_ARRAY, true, &parts}};
    remat_status status = api_read(json, path, rules, 1, r->error);
    return status ? status : read_parts(r, parts, path, part);
}

static json_t *write_path(const remat_checkpoint *checkpoint)
{
    json_t *list = json_array();
    for (size_t i = 0; i < checkpoint->depth; i++)
        remat_json_append(&list, json_integer((json_int_t)checkpoint->path[i]));
    return list;
}

static void visit(void *context, const remat_checkpoint *c)
{
    sequence_request *r = context;
    json_t *json = write_solution(&r->all, c->chosen);
    json_t *given = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "path", write_path(c), "Req",
                              write_set(&r->all, c->given, REMAT_REQ), "use_Cbar",
                              write_set(&r->all, c->given, REMAT_USE_CBAR), "out_C",
                              write_set(&r->all, c->given, REMAT_OUT_C), "out_Cbar",
                              write_set(&r->all, c->given, REMAT_OUT_CBAR), "out_Dbar",
                              write_set(&r->all, c->given, REMAT_OUT_DBAR));
    if (!json || !given || json_object_update(given, json) ||
        json_array_append(r->checkpoints, given))
        r->failed = true;
    json_decref(json);
    json_decref(given);
}

/* The checkpoints of one strategy as an array; NULL: out of memory. */
static json_t *solve_by(sequence_request *r, const remat_part *sequence, const uint8_t *required,
                        uint8_t (*choose)(uint8_t given), uint8_t *use, uint8_t *out)
{
    r->checkpoints = json_array();
    r->failed = r->checkpoints == NULL;
    if (!r->failed)
        r->failed = remat_sequence_solve(sequence, r->all.n, required, choose, visit, r, use, out,
                                         r->error) != REMAT_OK;
    if (!r->failed)
        return r->checkpoints;
    json_decref(r->checkpoints);
    return NULL;
}

static remat_status answer_sequence(sequence_request *r, const json_t *json, json_t **ret_answer)
{
    const json_t *names_json = NULL, *req = NULL, *parts = NULL;
    remat_part sequence = {0};
    const uint8_t *required = NULL;
    const field_rule rules[] = {{"variables", FIELD_ARRAY, true, &names_json},
                                {"Req", FIELD_ARRAY, false, &req},
                                {"parts", FIELD_ARRAY, true, &parts}};
    remat_status status = api_read(json, "", rules, 3, r->error);
    if (status || (status = names_read(names_json, &r->all, r->error)) ||
        (status = read_leaf_set(r, req, "", "Req", NULL, &required)) ||
        (status = read_parts(r, parts, "", &sequence)))
        return status;
    uint8_t *use = take_block(r, r->all.n, 1), *out = take_block(r, r->all.n, 1);
    if (!use || !out)
        return remat_fail_memory(r->error);
    json_t *lazy = solve_by(r, &sequence, required, remat_snapshot_lazy, use, out);
    json_t *eager = solve_by(r, &sequence, required, remat_snapshot_eager, use, out);
    json_t *answer = json_pack("{s:o, s:o, s:o, s:o}", "use", write_set(&r->all, use, 1), "out",
                               write_set(&r->all, out, 1), "lazy", lazy, "eager", eager);
    if (!answer)
        return remat_fail_memory(r->error);
    *ret_answer = answer;
    return REMAT_OK;
}

remat_status remat_answer_snapshots(const json_t *request, json_t **ret_answer, remat_error *error)
{
    if (json_object_get(request, "parts")) {
        sequence_request r = {.error = error};
        remat_status status = answer_sequence(&r, request, ret_answer);
        while (r.n_blocks > 0)
            free(r.blocks[--r.n_blocks]);
        free(r.blocks);
        names_clear(&r.all);
        return status;
    }
    fragment_request r = {.error = error};
    remat_status status = read_fragment(&r, request);
    if (!status)
        status = answer_fragment(&r, ret_answer);
    free(r.variables);
    free(r.scratch);
    names_clear(&r.all);
    return status;
}
