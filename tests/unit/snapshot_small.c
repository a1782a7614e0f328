/* Snapshots against independently computed answers (tests/data/snapshots_small.json: exhaustive
 * search over all subsets, on a machine that writes fresh tokens), through the code behind POST
 * /v1/snapshots. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include "api.h"
#include "snapshot/snapshot.h"

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static json_t *load_cases(void)
{
    json_t *all = json_load_file(TEST_DATA "/snapshots_small.json", 0, NULL);
    assert_non_null(all);
    json_t *cases = json_incref(json_object_get(all, "cases"));
    json_decref(all);
    return cases;
}

/* The members of a case that a request has. */
static json_t *request_of(const json_t *one)
{
    static const char *const fields[] = {"variables", "Req",      "out_C",  "use_Cbar",
                                         "out_Cbar",  "out_Dbar", "size",   "tape_D",
                                         "tape_C",    "base_D",   "base_C", "parts"};
    json_t *request = json_object();
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (json_object_get(one, fields[i]))
            json_object_set(request, fields[i], json_object_get(one, fields[i]));
    return request;
}

static json_t *answer_to(const json_t *request)
{
    json_t *answer = NULL;
    remat_error error;
    if (remat_answer_snapshots(request, &answer, &error))
        fail_msg("%s", error.message);
    return answer;
}

static void same(const json_t *found, const json_t *expected, const char *what)
{
    if (json_equal(found, expected))
        return;
    char *a = json_dumps(found, JSON_ENCODE_ANY), *b = json_dumps(expected, JSON_ENCODE_ANY);
    fail_msg("%s: found %s, expected %s", what, a ? a : "nothing", b ? b : "nothing");
}

static json_int_t number(const json_t *json, const char *first, const char *second)
{
    return json_integer_value(json_object_get(json_object_get(json, first), second));
}

/* Every expected minimal solution is in the list, and no other. */
static void same_lists(const json_t *found, const json_t *expected)
{
    assert_int_equal(json_array_size(found), json_array_size(expected));
    for (size_t i = 0; i < json_array_size(expected); i++) {
        bool there = false;
        for (size_t k = 0; k < json_array_size(found); k++)
            there |= json_equal(json_array_get(found, k), json_array_get(expected, i)) != 0;
        assert_true(there);
    }
}

static void check_cheapest(const json_t *answer, const json_t *expected, const char *suffix)
{
    char best[32], lazy[40], eager[40];
    snprintf(best, sizeof best, "best_%s", suffix);
    snprintf(lazy, sizeof lazy, "lazy_peak_%s", suffix);
    snprintf(eager, sizeof eager, "eager_peak_%s", suffix);
    assert_true(json_is_true(json_object_get(json_object_get(answer, "cheapest"), "proven")));
    assert_int_equal(number(answer, "cheapest", "peak"), number(expected, best, "peak"));
    assert_int_equal(number(answer, "cheapest", "pushed"), number(expected, best, "pushed"));
    assert_int_equal(number(answer, "lazy", "peak"),
                     json_integer_value(json_object_get(expected, lazy)));
    if (json_object_get(expected, eager))
        assert_int_equal(number(answer, "eager", "peak"),
                         json_integer_value(json_object_get(expected, eager)));
}

static void check_proposals(json_t *request, const json_t *expected)
{
    json_t *checks = json_object_get(expected, "checks"), *proposals = json_array();
    for (size_t i = 0; i < json_array_size(checks); i++)
        json_array_append(proposals, json_object_get(json_array_get(checks, i), "proposal"));
    json_object_set_new(request, "proposals", proposals);
    json_t *answer = answer_to(request);
    if (checks)
        same(json_object_get(answer, "checks"), checks, "checks");
    json_decref(answer);
}

static void check_fragment(const json_t *one)
{
    static const char *const equal[] = {
        "out_Cbar_within_out_C", "Snp0", "Opt1", "Opt2", "Opt3", "out", "minimal_count"};
    const json_t *expected = json_object_get(one, "expected");
    json_t *request = request_of(one), *answer = answer_to(request);
    for (size_t i = 0; i < sizeof equal / sizeof *equal; i++)
        same(json_object_get(answer, equal[i]), json_object_get(expected, equal[i]), equal[i]);
    same(json_object_get(json_object_get(answer, "lazy"), "solution"),
         json_object_get(expected, "lazy"), "lazy");
    if (json_object_get(expected, "eager"))
        same(json_object_get(json_object_get(answer, "eager"), "solution"),
             json_object_get(expected, "eager"), "eager");
    else
        assert_true(json_is_null(json_object_get(answer, "eager")));
    if (json_object_get(expected, "minimal"))
        same_lists(json_object_get(answer, "minimal"), json_object_get(expected, "minimal"));
    check_cheapest(answer, expected, "shared");
    json_decref(answer);
    json_object_set_new(request, "shared", json_false());
    answer = answer_to(request);
    check_cheapest(answer, expected, "unshared");
    json_decref(answer);
    check_proposals(request, expected);
    json_decref(request);
}

static void test_cases(void **state)
{
    (void)state;
    json_t *cases = load_cases();
    size_t seen = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *one = json_array_get(cases, i), *expected = json_object_get(one, "expected");
        const char *kind = json_string_value(json_object_get(one, "kind"));
        if (strcmp(kind, "fragment") == 0)
            check_fragment(one);
        if (strcmp(kind, "sequence") == 0) {
            json_t *request = request_of(one), *answer = answer_to(request);
            same(answer, expected, "sequence");
            json_decref(answer);
            json_decref(request);
        }
        seen += strcmp(kind, "states") != 0;
    }
    assert_int_equal(seen, 8);
    json_decref(cases);
}

/* ---- states: the pass of remat/schedule.h on the same file ---- */

static remat_profile *states_profile(const json_t *one)
{
    json_t *states = json_array(), *nodes = json_array();
    const char *key;
    json_t *list;
    json_array_append_new(states, json_pack("{s:s, s:i}", "id", "rng", "bytes", 1));
    if (json_object_get(json_object_get(one, "reads"), "1") &&
        json_equal(json_array_get(json_object_get(json_object_get(one, "reads"), "1"), 0),
                   json_array_get(json_object_get(one, "live_out"), 0)))
        json_array_append_new(states, json_pack("{s:s, s:i}", "id", "bn", "bytes", 1));
    json_object_foreach(json_object_get(one, "reads"), key, list)
    {
        char id[16], before[16];
        int v = atoi(key);
        snprintf(id, sizeof id, "n%d", v);
        snprintf(before, sizeof before, "n%d", v - 1);
        json_t *node = json_pack("{s:s, s:i, s:i, s:O, s:O}", "id", id, "forward_time", 1,
                                 "output_bytes", 1, "reads", list, "writes",
                                 json_object_get(json_object_get(one, "writes"), key));
        if (v > 0)
            json_object_set_new(node, "inputs", json_pack("[s]", before));
        json_array_append_new(nodes, node);
    }
    json_t *document = json_pack("{s:s, s:s, s:o, s:o}", "format", "remat-profile/1", "name", "s",
                                 "states", states, "nodes", nodes);
    remat_profile *profile = NULL;
    remat_error error;
    if (remat_profile_decode(document, "", &profile, &error))
        fail_msg("%s", error.message);
    json_decref(document);
    return profile;
}

static void translate(const remat_profile *profile, const json_t *list, remat_operations *to)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        const char *letter = json_string_value(json_array_get(item, 0));
        const char *state = json_string_value(json_array_get(item, 1));
        remat_operation operation = {.kind = letter[0] == 'F'   ? REMAT_F
                                             : letter[0] == 'B' ? REMAT_B
                                             : letter[0] == 'S' ? REMAT_S
                                                                : REMAT_R};
        operation.index = (uint32_t)json_integer_value(json_array_get(item, 1));
        for (uint32_t k = 0; state && k < profile->n_states; k++)
            if (strcmp(profile->states[k].id, state) == 0)
                operation.index = k;
        operation.version = (uint32_t)json_integer_value(json_array_get(item, 2));
        assert_int_equal(remat_operations_push(to, operation), REMAT_OK);
    }
}

/* A profile's states all live on; where the case says that none does, what is kept for the end of
 * the step, versions as high as there are writers, is left out of the comparison. */
static bool only_for_the_end(const remat_profile *profile, const json_t *one,
                             const remat_operation *operation)
{
    return json_array_size(json_object_get(one, "live_out")) == 0 &&
           (operation->kind == REMAT_S || operation->kind == REMAT_R) &&
           operation->version == profile->states[operation->index].n_writers;
}

static void test_states(void **state)
{
    (void)state;
    json_t *cases = load_cases();
    size_t seen = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *one = json_array_get(cases, i);
        if (strcmp(json_string_value(json_object_get(one, "kind")), "states") != 0)
            continue;
        remat_profile *profile = states_profile(one);
        remat_operations from = {0}, found = {0}, expected = {0};
        translate(profile, json_object_get(one, "operations"), &from);
        translate(profile, json_object_get(json_object_get(one, "expected"), "operations"),
                  &expected);
        assert_int_equal(remat_insert_states(profile, &from, &found, NULL), REMAT_OK);
        size_t k = 0;
        for (size_t j = 0; j < found.length; j++) {
            if (only_for_the_end(profile, one, &found.items[j]))
                continue;
            assert_true(k < expected.length);
            assert_int_equal(found.items[j].kind, expected.items[k].kind);
            assert_int_equal(found.items[j].index, expected.items[k].index);
            assert_int_equal(found.items[j].version, expected.items[k].version);
            k++;
        }
        assert_int_equal(k, expected.length);
        remat_operations_clear(&from);
        remat_operations_clear(&found);
        remat_operations_clear(&expected);
        remat_profile_free(profile);
        seen++;
    }
    assert_int_equal(seen, 2);
    json_decref(cases);
}

/* ---- bad input ---- */

static void test_bad_input(void **state)
{
    (void)state;
    static const struct {
        const char *request, *field;
    } bad[] = {
        {"{}", "variables"},
        {"{\"variables\":[\"a\",\"a\"],\"Req\":[],\"out_C\":[],\"use_Cbar\":[],\"out_Cbar\":[],"
         "\"out_Dbar\":[]}",
         "variables"},
        {"{\"variables\":[\"a\"],\"Req\":[\"b\"],\"out_C\":[],\"use_Cbar\":[],\"out_Cbar\":[],"
         "\"out_Dbar\":[]}",
         "Req[0]"},
        {"{\"variables\":[\"a\"],\"Req\":[],\"out_C\":[],\"use_Cbar\":[],\"out_Cbar\":[],"
         "\"out_Dbar\":[],\"size\":{\"a\":-1}}",
         "size.a"},
        {"{\"variables\":[\"a\"],\"Req\":[],\"out_C\":[],\"use_Cbar\":[],\"out_Cbar\":[],"
         "\"out_Dbar\":[],\"tape_D\":{\"z\":1}}",
         "tape_D.z"},
        {"{\"variables\":[\"a\"],\"Req\":[],\"out_C\":[],\"use_Cbar\":[],\"out_Cbar\":[],"
         "\"out_Dbar\":[],\"base_C\":0.5}",
         "base_C"},
        {"{\"variables\":[\"a\"],\"Req\":[],\"out_C\":[],\"use_Cbar\":[],\"out_Cbar\":[],"
         "\"out_Dbar\":[],\"proposals\":[{\"Snp\":[\"b\"]}]}",
         "proposals[0].Snp[0]"},
        {"{\"variables\":[\"a\"],\"Req\":[],\"out_C\":[],\"use_Cbar\":[],\"out_Cbar\":[],"
         "\"out_Dbar\":[],\"color\":1}",
         "color"},
        {"{\"variables\":[\"a\"],\"parts\":[]}", ""},
        {"{\"variables\":[\"a\"],\"parts\":[{\"use\":[],\"out\":[],\"kill\":[\"a\"]}]}",
         "parts[0].kill"},
        {"{\"variables\":[\"a\"],\"parts\":[{\"use\":[\"a\"],\"out\":[],\"bar_use\":[]}]}",
         "parts[0].use"},
        {"{\"variables\":[\"a\"],\"parts\":[{\"parts\":[{\"use\":[\"q\"],\"out\":[]}]}]}",
         "parts[0].parts[0].use[0]"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_t *request = NULL, *answer = NULL;
        remat_error error;
        assert_int_equal(remat_json_parse(bad[i].request, strlen(bad[i].request), &request, &error),
                         REMAT_OK);
        assert_int_equal(remat_answer_snapshots(request, &answer, &error), REMAT_INVALID);
        assert_string_equal(error.field, bad[i].field);
        assert_null(answer);
        json_decref(request);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_states),
                                       cmocka_unit_test(test_bad_input)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
