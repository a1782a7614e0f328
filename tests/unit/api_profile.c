/* Profiles on the wire: every profile of clients/profiles keeps its identity however its JSON is
 * spelled, numbers survive exactly, and what is wrong is named in JSON terms. */
#include "unit/core_support.h"

#include "api.h"

#include <dirent.h>

static json_t *parsed(const char *text)
{
    json_t *json = NULL;
    remat_error error;
    if (remat_json_parse(text, strlen(text), &json, &error))
        fail_msg("%s: %s", text, error.message);
    return json;
}

static remat_profile *decoded(const json_t *json)
{
    remat_profile *profile = NULL;
    remat_error error;
    if (remat_profile_decode(json, "", &profile, &error))
        fail_msg("%s: %s", error.field, error.message);
    return profile;
}

static void id_of(const json_t *json, char ret_id[REMAT_ID_SIZE])
{
    remat_profile *profile = decoded(json);
    remat_profile_id(profile, ret_id);
    remat_profile_free(profile);
    assert_true(remat_is_id(ret_id));
}

static void assert_same_id(char *text, const char *id)
{
    char other[REMAT_ID_SIZE];
    assert_non_null(text);
    json_t *json = parsed(text);
    id_of(json, other);
    assert_string_equal(other, id);
    json_decref(json);
    free(text);
}

/* ---- the real profiles ---- */

static void check_file(const char *path, char ret_id[REMAT_ID_SIZE])
{
    json_error_t where;
    json_t *json = json_load_file(path, JSON_REJECT_DUPLICATES, &where);
    if (!json)
        fail_msg("%s: %s", path, where.text);
    id_of(json, ret_id);
    char *text = remat_json_text(json);
    json_t *again = parsed(text);
    assert_true(json_equal(json, again)); /* every number, to the last bit */
    json_decref(again);
    assert_same_id(text, ret_id);
    assert_same_id(json_dumps(json, JSON_INDENT(3) | JSON_SORT_KEYS | JSON_ENSURE_ASCII |
                                        JSON_REAL_PRECISION(17)),
                   ret_id);
    json_object_set_new(json, "name", json_string("another"));
    json_object_set_new(json, "source", json_pack("{s:[i]}", "of no effect", 1));
    assert_same_id(remat_json_text(json), ret_id);
    json_t *first = json_array_get(json_object_get(json, "nodes"), 0);
    const char *cost = json_object_get(first, "time") ? "time" : "forward_time"; /* joint or not */
    json_object_set_new(first, cost, json_real(12345.0625));                     /* any other */
    char changed[REMAT_ID_SIZE];
    id_of(json, changed);
    assert_string_not_equal(changed, ret_id);
    json_decref(json);
}

static void real_profiles_keep_their_identity(void **state)
{
    (void)state;
    DIR *folder = opendir(TEST_PROFILES);
    char ids[64][REMAT_ID_SIZE];
    size_t n = 0;
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder)) && n < COUNT(ids);) {
        char path[1024];
        size_t length = strlen(entry->d_name);
        if (length < 5 || strcmp(entry->d_name + length - 5, ".json") != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", TEST_PROFILES, entry->d_name);
        check_file(path, ids[n]);
        for (size_t i = 0; i < n; i++)
            assert_string_not_equal(ids[i], ids[n]);
        n++;
    }
    closedir(folder);
    assert_true(n >= 10); /* there are 24 */
}

/* ---- identities ---- */

static void digests_are_sha256(void **state)
{
    (void)state;
    char id[REMAT_ID_SIZE];
    remat_sha256_hex("abc", 3, id); /* FIPS 180-2, appendix B.1 */
    assert_string_equal(id, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    remat_sha256_hex("", 0, id); /* NIST, the empty message */
    assert_string_equal(id, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_true(remat_is_id(id));
    id[5] = 'A';
    assert_false(remat_is_id(id));
    id[5] = 'a';
    id[63] = '\0';
    assert_false(remat_is_id(id));
    assert_false(remat_is_id(""));
    assert_false(remat_is_id("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b8550"));
}

static void collect(void *context, const void *bytes, size_t length)
{
    assert_int_equal(remat_buffer_put(context, bytes, length), REMAT_OK);
}

static const char small[] =
    "{\"format\": \"remat-profile/1\", \"name\": \"n\", \"nodes\": ["
    "{\"id\": \"a\", \"forward_time\": 1, \"output_bytes\": 4},"
    "{\"id\": \"b\", \"inputs\": [\"a\"], \"forward_time\": 0.5, \"output_bytes\": 0}]}";

static void the_identity_is_the_digest_of_the_encoding(void **state)
{
    (void)state;
    json_t *json = parsed(small);
    remat_profile *profile = decoded(json);
    remat_buffer buffer = {0};
    char id[REMAT_ID_SIZE], expected[REMAT_ID_SIZE];
    remat_profile_encode(profile, collect, &buffer);
    remat_sha256_hex(buffer.data, buffer.length, expected);
    remat_profile_id(profile, id);
    assert_string_equal(id, expected);
    remat_buffer_clear(&buffer);
    remat_profile_free(profile);
    json_decref(json);
}

/* One number in different spellings, and a default written out, are one profile. */
static void spelling_does_not_matter(void **state)
{
    (void)state;
    static const char other[] =
        " { \"nodes\" : [ {\"output_bytes\": 4.0, \"forward_time\": 10e-1, \"id\": \"\\u0061\","
        " \"op\": \"\", \"backward_uses_inputs\": true, \"backward_uses_output\": true,"
        " \"in_place\": false, \"inputs\": [], \"reads\": [], \"writes\": [],"
        " \"alternatives\": []}, {\"id\": \"b\", \"inputs\": [\"a\", \"a\"],"
        " \"forward_time\": 5E-1, \"backward_time\": 1, \"output_bytes\": -0.0,"
        " \"save_workspace_bytes\": 0}],"
        " \"inputs\": [], \"states\": [], \"time_unit\": \"us\","
        " \"name\": \"m\", \"format\": \"remat-profile/1\" } ";
    char id[REMAT_ID_SIZE];
    json_t *json = parsed(small);
    id_of(json, id);
    json_decref(json);
    assert_same_id(strdup(other), id);
}

/* ---- JSON ---- */

static void numbers_survive_exactly(void **state)
{
    (void)state;
    uint64_t bits = 1;
    for (unsigned i = 0; i < 20000; i++) {
        bits = bits * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407); /* Knuth */
        double value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        json_t *json = json_real(value);
        char *text = remat_json_text(json);
        json_t *list = json_pack("[o]", json);
        char *in_list = remat_json_text(list);
        json_t *back = parsed(in_list);
        double again = json_real_value(json_array_get(back, 0));
        assert_memory_equal(&again, &value, sizeof value);
        assert_true(strtod(text, NULL) == value);
        json_decref(list);
        json_decref(back);
        free(text);
        free(in_list);
    }
}

static void bad_json_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",        "{",          "[1,]",          "{\"a\":1,\"a\":2}",
                                      "[1] [2]", "[\"\xff\"]", "[\"\\ud800\"]", "[NaN]",
                                      "[1e999]", "[01]",       "{a:1}",         "[\"\\u0000\"]"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        json_t *json = NULL;
        remat_error error = {0};
        if (remat_json_parse(bad[i], strlen(bad[i]), &json, &error) != REMAT_INVALID)
            fail_msg("%s: %s", bad[i], remat_status_name(error.status));
        assert_null(json);
        assert_non_null(strstr(error.message, "line"));
        assert_null(strstr(error.message, "JSON_")); /* no name of the library's */
    }
}

/* 64 deep is allowed, 65 is not; a bracket in a string is no depth. */
static void depth_is_limited(void **state)
{
    (void)state;
    static const size_t depths[] = {64, 65, 10000};
    char *text = malloc(2 * 10000 + 1);
    for (size_t i = 0; i < COUNT(depths); i++) {
        memset(text, '[', depths[i]);
        memset(text + depths[i], ']', depths[i]);
        json_t *json = NULL;
        remat_error error;
        remat_status status = remat_json_parse(text, 2 * depths[i], &json, &error);
        assert_int_equal(status, i == 0 ? REMAT_OK : REMAT_INVALID);
        assert_int_equal(json != NULL, i == 0);
        json_decref(json);
    }
    memset(text, '[', 200);
    memcpy(text, "[\"\\\"", 4);
    memcpy(text + 198, "\"]", 3);
    json_t *json = parsed(text);
    json_decref(json);
    free(text);
}

/* ---- what is wrong is named ---- */

static void assert_field(const char *text, const char *prefix, const char *field, const char *word)
{
    json_t *json = parsed(text);
    remat_profile *profile = NULL;
    remat_error error = {0};
    if (remat_profile_decode(json, prefix, &profile, &error) != REMAT_INVALID)
        fail_msg("%s is accepted", text);
    assert_null(profile);
    if (strcmp(error.field, field) != 0 || !strstr(error.message, word))
        fail_msg("%s: %s: %s", text, error.field, error.message);
    json_decref(json);
}

#define PROFILE(nodes) "{\"format\":\"remat-profile/1\",\"name\":\"n\",\"nodes\":[" nodes "]}"

static void wrong_types_and_unknown_fields(void **state)
{
    (void)state;
    assert_field("[]", "", "", "object");
    assert_field("{}", "", "format", "missing");
    assert_field("{\"format\":1}", "", "format", "string");
    assert_field("{\"format\":\"remat-profile/1\",\"name\":\"n\"}", "", "nodes", "missing");
    assert_field(PROFILE("1"), "", "nodes[0]", "object");
    assert_field(PROFILE("{}"), "", "nodes[0].id", "missing");
    assert_field(PROFILE("{\"id\":\"a\",\"foward_time\":1}"), "", "nodes[0].foward_time", "known");
    assert_field(PROFILE("{\"id\":\"a\",\"forward_time\":\"1\",\"output_bytes\":1}"), "",
                 "nodes[0].forward_time", "number");
    assert_field(PROFILE("{\"id\":\"a\",\"forward_time\":1,\"output_bytes\":1,\"in_place\":1}"), "",
                 "nodes[0].in_place", "true or false");
    assert_field(PROFILE("{\"id\":\"a\",\"forward_time\":1,\"output_bytes\":1,\"inputs\":[2]}"), "",
                 "nodes[0].inputs[0]", "string");
    assert_field(PROFILE("{\"id\":\"a\",\"forward_time\":1,\"output_bytes\":null}"), "",
                 "nodes[0].output_bytes", "null");
    assert_field(PROFILE("{\"id\":\"a\",\"forward_time\":1,\"output_bytes\":1,"
                         "\"alternatives\":[{\"name\":\"f\",\"output_bytes\":1}]}"),
                 "", "nodes[0].alternatives[0].output_bytes", "known");
    assert_field("{\"format\":\"remat-profile/1\",\"name\":\"n\",\"nodes\":[],"
                 "\"inputs\":[{\"id\":\"x\",\"byte\":1}]}",
                 "", "inputs[0].byte", "known");
    assert_field("{\"format\":\"remat-profile/1\",\"name\":\"n\",\"nodes\":[],"
                 "\"states\":[{\"id\":\"x\"}]}",
                 "", "states[0].bytes", "missing");
}

static void fields_carry_the_prefix(void **state)
{
    (void)state;
    assert_field(PROFILE("{\"id\":\"a\"}"), "profile.", "profile.nodes[0].forward_time", "missing");
    assert_field(PROFILE("{\"id\":\"a\",\"forward_time\":-1,\"output_bytes\":1}"), "profile.",
                 "profile.nodes[0].forward_time", "-1");
    /* 2^53 + 1 is read as 2^53, which is too large in any case. */
    assert_field(PROFILE("{\"id\":\"a\",\"forward_time\":1,\"output_bytes\":9007199254740993}"), "",
                 "nodes[0].output_bytes", "9007199254740992");
}

static void summaries_say_what_was_read(void **state)
{
    (void)state;
    json_t *json = parsed(small);
    remat_profile *profile = decoded(json);
    const remat_minimum minimum = {.solver = remat_solver_find("store-all"), .bytes = 8};
    json_t *summary = remat_profile_summary(profile, 12, &minimum, 1);
    const char *id, *name, *kind, *unit, *solver;
    int nodes, edges, homogeneous;
    double makespan;
    json_int_t peak, bytes;
    assert_int_equal(
        json_unpack(summary, "{s:s, s:s, s:s, s:i, s:i, s:b, s:s, s:{s:F, s:I}, s:[{s:s, s:I}]}",
                    "profile_id", &id, "name", &name, "kind", &kind, "nodes", &nodes, "edges",
                    &edges, "homogeneous", &homogeneous, "time_unit", &unit, "store_all",
                    "makespan", &makespan, "peak", &peak, "minimum_budgets", "solver", &solver,
                    "bytes", &bytes),
        0);
    assert_true(strcmp(name, "n") == 0 && strcmp(kind, "chain") == 0 && strcmp(unit, "us") == 0);
    assert_true(remat_is_id(id) && nodes == 2 && edges == 1 && homogeneous);
    assert_true(makespan == 4.5); /* 1 + 0.5 + 2 + 1 */
    assert_true(peak == 12 && bytes == 8 && strcmp(solver, "store-all") == 0);
    json_decref(summary);
    remat_profile_free(profile);
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_profiles_keep_their_identity),
        cmocka_unit_test(digests_are_sha256),
        cmocka_unit_test(the_identity_is_the_digest_of_the_encoding),
        cmocka_unit_test(spelling_does_not_matter),
        cmocka_unit_test(numbers_survive_exactly),
        cmocka_unit_test(bad_json_is_refused),
        cmocka_unit_test(depth_is_limited),
        cmocka_unit_test(wrong_types_and_unknown_fields),
        cmocka_unit_test(fields_carry_the_prefix),
        cmocka_unit_test(summaries_say_what_was_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
