/* What remat_json_scan says of a text before anything is built of it: its counts, and that what
 * jansson then allocates is about what it said, however the text comes in pieces. */
#include "unit/core_support.h"

#include "api.h"

#include <malloc.h>

static size_t allocated, most;

static void *counting_malloc(size_t size)
{
    void *p = malloc(size);
    allocated += malloc_usable_size(p) + sizeof(size_t);
    if (allocated > most)
        most = allocated;
    return p;
}

static void counting_free(void *p)
{
    if (p)
        allocated -= malloc_usable_size(p) + sizeof(size_t);
    free(p);
}

static const remat_json_limits any = {UINT64_MAX, UINT64_MAX};

static remat_json_scan scanned(const char *text, size_t length, size_t piece)
{
    remat_json_scan scan;
    remat_error error;
    remat_json_scan_init(&scan, &any);
    for (size_t at = 0; at < length; at += piece)
        assert_int_equal(remat_json_scan_feed(&scan, text + at,
                                              piece < length - at ? piece : length - at, &error),
                         REMAT_OK);
    return scan;
}

static void counts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t values, nodes;
    } cases[] = {{"{}", 1, 0},
                 {"[1, -2.5e+3,true,null,\"a\\\"b\"]", 6, 0},
                 {"{\"nodes\":[{},{\"nodes\":[{}]}]}", 6, 3},
                 {"{\"nodes\" : [{\"id\":\"nodes\"},[{}],{}], \"n\": {}}", 8, 2},
                 {"[\"nodes\",[{},{}]]", 5, 0},
                 {"{\"edges\":[{}],\"nodes\":{\"a\":[{}]}}", 6, 0},
                 {"{\"a\":\"nodes\",\"b\":[{}]}", 4, 0}};
    for (size_t i = 0; i < COUNT(cases); i++)
        for (size_t piece = 1; piece < 4; piece++) {
            remat_json_scan scan = scanned(cases[i].text, strlen(cases[i].text), piece);
            assert_int_equal(scan.values, cases[i].values);
            assert_int_equal(scan.nodes, cases[i].nodes);
        }
}

static void limits_hold(void **state)
{
    (void)state;
    static const char text[] = "{\"nodes\":[{},{},{}]}";
    remat_json_scan scan;
    remat_error error;
    for (uint64_t nodes = 1; nodes <= 4; nodes++) {
        const remat_json_limits limits = {.values = 100, .nodes = nodes};
        remat_json_scan_init(&scan, &limits);
        assert_int_equal(remat_json_scan_feed(&scan, text, sizeof text - 1, &error),
                         nodes < 3 ? REMAT_TOO_LARGE : REMAT_OK);
    }
    for (uint64_t values = 1; values <= 6; values++) {
        const remat_json_limits limits = {.values = values, .nodes = 100};
        remat_json_scan_init(&scan, &limits);
        assert_int_equal(remat_json_scan_feed(&scan, text, sizeof text - 1, &error),
                         values < 5 ? REMAT_TOO_LARGE : REMAT_OK);
    }
}

/* The text unit, repeated between before and after. */
static char *repeated(const char *before, const char *unit, const char *after, size_t n)
{
    size_t length = strlen(unit);
    char *text = malloc(strlen(before) + n * length + strlen(after) + 1);
    assert_non_null(text);
    char *at = text + sprintf(text, "%s", before);
    for (size_t i = 0; i < n; i++, at += length)
        memcpy(at, unit, length);
    strcpy(at - 1, after); /* in place of the last comma */
    return text;
}

static void tree_is_foreseen(void **state)
{
    (void)state;
    static const char *const units[] = {
        "{},",
        "[],",
        "1,",
        "1.5,",
        "\"\",",
        "\"abcdefgh\",",
        "[[]],",
        "{\"a\":{}},",
        "[1,2,3,4,5,6,7,8,9],",
        ("{\"id\":\"n1234\",\"inputs\":[\"n1233\"],\"forward_time\":1.5,\"backward_time\":2,"
         "\"output_bytes\":4096,\"saved_bytes\":1},"),
        "{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,\"j\":1},"};
    json_set_alloc_funcs(counting_malloc, counting_free);
    for (size_t i = 0; i < COUNT(units); i++) {
        char *text = repeated("[", units[i], "]", 20000);
        size_t length = strlen(text);
        remat_json_scan scan = scanned(text, length, 65536);
        json_t *json = NULL;
        remat_error error;
        allocated = most = 0;
        assert_int_equal(remat_json_load(text, length, &json, &error), REMAT_OK);
        if (most > scan.tree_bytes + 4096 || scan.tree_bytes > allocated * 2)
            fail_msg("%s foreseen %llu, at most %zu, in the end %zu", units[i],
                     (unsigned long long)scan.tree_bytes, most, allocated);
        json_decref(json);
        assert_int_equal(allocated, 0);
        free(text);
    }
    json_set_alloc_funcs(malloc, free);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(counts), cmocka_unit_test(limits_hold),
                                       cmocka_unit_test(tree_is_foreseen)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
