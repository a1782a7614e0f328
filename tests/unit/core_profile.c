/* The profile: every rule of remat/profile.h broken once, with the field, the node and the number
 * that the error must name; defaults; shapes; the canonical encoding. */
#include "unit/core_support.h"

/* ---- a specification that can be spoilt ---- */

typedef struct sample {
    remat_profile_spec spec;
    remat_input_spec inputs[2];
    remat_state_spec states[2];
    remat_node_spec nodes[3];
    remat_alternative_spec alternatives[2];
    const char *lists[5][2];
} sample;

static void fill_nodes(sample *s)
{
    s->lists[0][0] = "x";
    s->lists[1][0] = "conv";
    s->lists[1][1] = "y";
    s->lists[2][0] = "relu";
    s->lists[3][0] = "rng";
    s->lists[4][0] = "bn";
    s->alternatives[0] = (remat_alternative_spec){.name = "fast", .forward_time = NUMBER(0.5)};
    s->alternatives[1] = (remat_alternative_spec){.name = "small", .saved_bytes = NUMBER(1)};
    s->nodes[0] = (remat_node_spec){.id = "conv",
                                    .op = "conv2d",
                                    .inputs = s->lists[0],
                                    .n_inputs = 1,
                                    .forward_time = NUMBER(3),
                                    .backward_time = NUMBER(7),
                                    .output_bytes = NUMBER(100),
                                    .saved_bytes = NUMBER(30),
                                    .gradient_bytes = NUMBER(110),
                                    .forward_workspace_bytes = NUMBER(11),
                                    .backward_workspace_bytes = NUMBER(12),
                                    .save_workspace_bytes = NUMBER(13),
                                    .backward_uses_inputs = true,
                                    .backward_uses_output = true,
                                    .reads = s->lists[3],
                                    .n_reads = 1,
                                    .writes = s->lists[4],
                                    .n_writes = 1,
                                    .alternatives = s->alternatives,
                                    .n_alternatives = 2};
    s->nodes[1] = (remat_node_spec){.id = "relu",
                                    .inputs = s->lists[1],
                                    .n_inputs = 2,
                                    .forward_time = NUMBER(1.5),
                                    .output_bytes = NUMBER(100),
                                    .in_place = true};
    s->nodes[2] = (remat_node_spec){.id = "loss",
                                    .inputs = s->lists[2],
                                    .n_inputs = 1,
                                    .forward_time = NUMBER(0),
                                    .output_bytes = NUMBER(0)};
}

static void fill(sample *s)
{
    memset(s, 0, sizeof *s);
    s->inputs[0] = (remat_input_spec){.id = "x", .bytes = NUMBER(50), .gradient_bytes = NUMBER(5)};
    s->inputs[1] = (remat_input_spec){.id = "y", .bytes = NUMBER(20)};
    s->states[0] = (remat_state_spec){.id = "rng", .bytes = NUMBER(16)};
    s->states[1] = (remat_state_spec){.id = "bn", .bytes = NUMBER(8)};
    fill_nodes(s);
    s->spec = (remat_profile_spec){.format = "remat-profile/1",
                                   .name = "sample",
                                   .time_unit = "ms",
                                   .inputs = s->inputs,
                                   .n_inputs = 2,
                                   .states = s->states,
                                   .n_states = 2,
                                   .nodes = s->nodes,
                                   .n_nodes = 3};
}

/* The error must blame the field and say each of the words. */
static void assert_rejected(const sample *s, const char *field, const char *word, const char *other)
{
    remat_profile *profile = (remat_profile *)s; /* any pointer: it must stay as it is */
    remat_error error = {0};
    remat_status status = remat_profile_new(&s->spec, &profile, &error);
    if (status != REMAT_INVALID)
        fail_msg("%s: %s", field, remat_status_name(status));
    assert_ptr_equal(profile, s);
    assert_int_equal(error.status, REMAT_INVALID);
    assert_string_equal(error.field, field);
    if (!strstr(error.message, word) || !strstr(error.message, other))
        fail_msg("\"%s\" does not say \"%s\" and \"%s\"", error.message, word, other);
    assert_int_equal(remat_profile_new(&s->spec, &profile, NULL), REMAT_INVALID);
}

/* ---- numbers ---- */

typedef struct field_of_sample {
    size_t offset;
    const char *field, *id;
    bool time, required;
} field_of_sample;

#define FIELD(place, number, path, id, is_time, is_required)                                       \
    {                                                                                              \
        offsetof(sample, place.number), path "." #number, id, is_time, is_required                 \
    }
#define NODE_FIELD(number, is_time, is_required)                                                   \
    FIELD(nodes[0], number, "nodes[0]", "conv", is_time, is_required)
#define ALTERNATIVE_FIELD(number, is_time)                                                         \
    FIELD(alternatives[1], number, "nodes[0].alternatives[1]", "small", is_time, false)

/* Every number of the format. */
static const field_of_sample all_numbers[] = {
    FIELD(inputs[1], bytes, "inputs[1]", "y", false, true),
    FIELD(inputs[1], gradient_bytes, "inputs[1]", "y", false, false),
    FIELD(states[1], bytes, "states[1]", "bn", false, true),
    NODE_FIELD(forward_time, true, true),
    NODE_FIELD(backward_time, true, false),
    NODE_FIELD(output_bytes, false, true),
    NODE_FIELD(saved_bytes, false, false),
    NODE_FIELD(gradient_bytes, false, false),
    NODE_FIELD(forward_workspace_bytes, false, false),
    NODE_FIELD(backward_workspace_bytes, false, false),
    NODE_FIELD(save_workspace_bytes, false, false),
    ALTERNATIVE_FIELD(forward_time, true),
    ALTERNATIVE_FIELD(backward_time, true),
    ALTERNATIVE_FIELD(saved_bytes, false),
    ALTERNATIVE_FIELD(forward_workspace_bytes, false),
    ALTERNATIVE_FIELD(backward_workspace_bytes, false),
    ALTERNATIVE_FIELD(save_workspace_bytes, false),
};

static remat_number *number_of(sample *s, const field_of_sample *f)
{
    return (remat_number *)((char *)s + f->offset);
}

static void every_number_is_checked(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
        bool time_too;
    } bad[] = {{-1, "-1", true},
               {-0x1p-1074, "-4.9406564584124654e-324", true}, /* the least negative double */
               {INFINITY, "inf", true},
               {-INFINITY, "-inf", true},
               {NAN, "must be", true},
               {0.5, "0.5", false},
               {0x1p53, "9007199254740992", false},
               {1e300, "1.0000000000000001e+300", false}};
    for (size_t f = 0; f < COUNT(all_numbers); f++)
        for (size_t i = 0; i < COUNT(bad); i++) {
            sample s;
            if (all_numbers[f].time && !bad[i].time_too)
                continue;
            fill(&s);
            *number_of(&s, &all_numbers[f]) = NUMBER(bad[i].value);
            assert_rejected(&s, all_numbers[f].field, all_numbers[f].id, bad[i].text);
        }
}

static void required_numbers_must_be_given(void **state)
{
    (void)state;
    for (size_t f = 0; f < COUNT(all_numbers); f++) {
        sample s;
        remat_profile *profile = NULL;
        fill(&s);
        *number_of(&s, &all_numbers[f]) = (remat_number){.value = -1, .given = false};
        if (all_numbers[f].required) {
            assert_rejected(&s, all_numbers[f].field, all_numbers[f].id, "missing");
            continue;
        }
        assert_int_equal(remat_profile_new(&s.spec, &profile, NULL), REMAT_OK);
        remat_profile_free(profile);
    }
}

/* 2^53 - 1 is the largest size; a sum of 2^53 is refused though each size is allowed. */
static void sums_are_checked(void **state)
{
    (void)state;
    remat_profile_spec spec = {HEADER, NODES({.id = "loss",
                                              .forward_time = NUMBER(0),
                                              .output_bytes = NUMBER(0x1p53 - 1),
                                              .gradient_bytes = NUMBER(0)})};
    remat_profile *profile = make_profile(&spec);
    assert_true(profile->nodes[0].output_bytes == (UINT64_C(1) << 53) - 1);
    remat_profile_free(profile);
    static const remat_input_spec one = {.id = "x", .bytes = {1, true}};
    spec.inputs = &one;
    spec.n_inputs = 1;
    remat_error error;
    assert_int_equal(remat_profile_new(&spec, &profile, &error), REMAT_INVALID);
    assert_non_null(strstr(error.message, "9007199254740992"));
}

/* Versions 0 and 1 of a state with one writer can be saved at once: 2 x 2^52 bytes are too many. */
static void versions_of_states_count_in_the_sum(void **state)
{
    (void)state;
    remat_profile_spec spec = {
        HEADER, STATES({.id = "s", .bytes = NUMBER(0x1p52)}),
        NODES({.id = "loss", .forward_time = NUMBER(0), .output_bytes = NUMBER(0), WRITES("s")})};
    remat_profile *profile = NULL;
    assert_int_equal(remat_profile_new(&spec, &profile, NULL), REMAT_INVALID);
}

static void times_that_cannot_be_summed_are_refused(void **state)
{
    (void)state;
    sample s;
    fill(&s);
    s.nodes[0].forward_time = s.nodes[0].backward_time = NUMBER(1.7e308);
    assert_rejected(&s, "nodes", "times", "add up");
    fill(&s); /* the default, twice the forward time, is past the largest double */
    s.nodes[1].forward_time = NUMBER(1.7e308);
    assert_rejected(&s, "nodes[1].backward_time", "relu", "inf");
}

/* ---- header, ids, text ---- */

static void headers_are_checked(void **state)
{
    (void)state;
    sample s;
    fill(&s);
    s.spec.format = "remat-profile/2";
    assert_rejected(&s, "format", "remat-profile/2", "remat-profile/1");
    s.spec.format = NULL;
    assert_rejected(&s, "format", "remat-profile/1", "");
    fill(&s);
    s.spec.name = NULL;
    assert_rejected(&s, "name", "missing", "");
    s.spec.name = "";
    assert_rejected(&s, "name", "0 characters", "200");
    fill(&s);
    s.spec.time_unit = "min";
    assert_rejected(&s, "time_unit", "min", "units");
    fill(&s);
    s.spec.n_nodes = 0;
    assert_rejected(&s, "nodes", "empty", "");
    s.spec.n_nodes = (size_t)REMAT_MAX_NODES + 1;
    assert_rejected(&s, "nodes", "1000001", "1000000");
}

/* n times the same character, then the rest. */
static char *repeated(const char *character, size_t n, const char *rest)
{
    size_t length = strlen(character);
    char *text = malloc(n * length + strlen(rest) + 1);
    for (size_t i = 0; i < n; i++)
        memcpy(text + i * length, character, length);
    memcpy(text + n * length, rest, strlen(rest) + 1);
    return text;
}

/* 1 to 200 characters, however many bytes each takes (1 to 4). */
static void ids_are_counted_in_characters(void **state)
{
    (void)state;
    static const char *const characters[] = {"a", "\u00e9", "\u20ac", "\U0001F600"};
    for (size_t i = 0; i < COUNT(characters); i++) {
        sample s;
        remat_profile *profile = NULL;
        fill(&s);
        char *most = repeated(characters[i], 200, ""), *more = repeated(characters[i], 201, "");
        s.nodes[2].id = most;
        assert_int_equal(remat_profile_new(&s.spec, &profile, NULL), REMAT_OK);
        assert_string_equal(profile->nodes[2].id, most);
        remat_profile_free(profile);
        s.nodes[2].id = more;
        assert_rejected(&s, "nodes[2].id", "201 characters", "200");
        free(most);
        free(more);
    }
}

/* Ill-formed by table 3-7 of the Unicode standard, or well-formed and not printable. */
static void text_must_be_printable_utf8(void **state)
{
    (void)state;
    static const char *const bad[] = {"a\x80",
                                      "a\xc0\x80",
                                      "a\xc1\xbf",
                                      "a\xe0\x9f\xbf",
                                      "a\xed\xa0\x80",
                                      "a\xf0\x8f\xbf\xbf",
                                      "a\xf4\x90\x80\x80",
                                      "a\xf5\x80\x80\x80",
                                      "a\xff",
                                      "a\xe2\x82",
                                      "a\xc3",
                                      "a\n",
                                      "a\x1f",
                                      "a\x7f",
                                      "a\xc2\x80",
                                      "a\xc2\x9f"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        sample s;
        fill(&s);
        s.inputs[1].id = bad[i];
        assert_rejected(&s, "inputs[1].id", "printable", "character 1");
        fill(&s);
        s.states[0].id = bad[i];
        assert_rejected(&s, "states[0].id", "printable", "character 1");
        fill(&s);
        s.alternatives[0].name = bad[i];
        assert_rejected(&s, "nodes[0].alternatives[0].name", "printable", "character 1");
        fill(&s);
        s.spec.name = bad[i];
        assert_rejected(&s, "name", "printable", "character 1");
    }
}

static void ids_are_unique(void **state)
{
    (void)state;
    sample s;
    fill(&s);
    s.nodes[1].id = "loss";
    assert_rejected(&s, "nodes[2].id", "\"loss\"", "twice, by nodes[1] too");
    fill(&s);
    s.inputs[1].id = "x";
    assert_rejected(&s, "inputs[1].id", "\"x\"", "twice, by inputs[0] too");
    fill(&s); /* nodes and inputs share one space of names: consumers name either */
    s.inputs[1].id = "conv";
    assert_rejected(&s, "inputs[1].id", "\"conv\"", "twice, by nodes[0] too");
    fill(&s);
    s.states[1].id = "rng";
    assert_rejected(&s, "states[1].id", "\"rng\"", "twice, by states[0] too");
    fill(&s);
    s.alternatives[1].name = "fast";
    assert_rejected(&s, "nodes[0].alternatives", "\"fast\"", "two alternatives");
    fill(&s); /* states have a space of their own */
    s.states[0].id = "conv";
    s.lists[3][0] = "conv";
    remat_profile_free(make_profile(&s.spec));
}

static void missing_ids_are_named(void **state)
{
    (void)state;
    sample s;
    fill(&s);
    s.nodes[1].id = NULL;
    assert_rejected(&s, "nodes[1].id", "missing", "");
    fill(&s);
    s.lists[1][1] = "why";
    assert_rejected(&s, "nodes[1].inputs[1]", "\"relu\"", "\"why\"");
    fill(&s);
    s.lists[3][0] = "rnq";
    assert_rejected(&s, "nodes[0].reads[0]", "\"conv\"", "\"rnq\"");
    fill(&s);
    s.lists[4][0] = "bm";
    assert_rejected(&s, "nodes[0].writes[0]", "\"conv\"", "\"bm\"");
    fill(&s); /* a state is no value */
    s.lists[1][1] = "rng";
    assert_rejected(&s, "nodes[1].inputs[1]", "\"relu\"", "\"rng\"");
}

/* ---- edges ---- */

static void cycles_and_wrong_orders_are_told_apart(void **state)
{
    (void)state;
    sample s;
    fill(&s);
    s.lists[0][0] = "relu"; /* conv -> relu -> conv */
    assert_rejected(&s, "nodes[0].inputs[0]", "cycle", "\"conv\"");
    fill(&s);
    s.lists[1][1] = "relu"; /* itself */
    assert_rejected(&s, "nodes[1].inputs[1]", "cycle", "\"relu\"");
    fill(&s); /* relu stands before conv, which it needs */
    remat_node_spec other = s.nodes[0];
    s.nodes[0] = s.nodes[1];
    s.nodes[1] = other;
    assert_rejected(&s, "nodes[0].inputs[0]", "topological", "\"conv\"");
}

static void one_sink_only(void **state)
{
    (void)state;
    sample s;
    fill(&s);
    s.lists[2][0] = "x"; /* nobody reads relu now */
    assert_rejected(&s, "nodes", "nodes[1] \"relu\"", "\"loss\"");
    fill(&s);
    s.lists[1][0] = "x"; /* conv is reached by nothing, the loss does not depend on it */
    assert_rejected(&s, "nodes", "nodes[0] \"conv\"", "\"loss\"");
}

static void what_is_listed_twice_counts_once(void **state)
{
    (void)state;
    remat_profile_spec spec = {
        HEADER, GRAPH_INPUTS({.id = "x", .bytes = NUMBER(1)}),
        STATES({.id = "r", .bytes = NUMBER(1)}, {.id = "w", .bytes = NUMBER(1)}),
        NODES({.id = "a",
               .forward_time = NUMBER(0),
               .output_bytes = NUMBER(0),
               INPUTS("x", "x"),
               READS("w", "r", "w"),
               WRITES("w", "w")},
              {.id = "loss",
               .forward_time = NUMBER(0),
               .output_bytes = NUMBER(0),
               INPUTS("a", "x", "a")})};
    remat_profile *p = make_profile(&spec);
    assert_int_equal(p->nodes[0].n_inputs, 1);
    assert_int_equal(p->nodes[0].inputs[0], 2); /* value n_nodes + 0 */
    assert_int_equal(p->nodes[0].n_reads, 2);
    assert_int_equal(p->nodes[0].reads[0], 1); /* in the order given */
    assert_int_equal(p->nodes[0].reads[1], 0);
    assert_int_equal(p->states[1].n_writers, 1);
    assert_int_equal(p->states[0].n_writers, 0);
    assert_int_equal(p->nodes[1].n_inputs, 2);
    assert_int_equal(p->nodes[0].n_consumers, 1);
    assert_int_equal(p->inputs[0].n_consumers, 2);
    assert_int_equal(p->inputs[0].consumers[0], 0); /* increasing */
    assert_int_equal(p->inputs[0].consumers[1], 1);
    assert_int_equal(p->n_edges, 1);
    assert_string_equal(remat_value_id(p, 0), "a");
    assert_string_equal(remat_value_id(p, 2), "x");
    remat_profile_free(p);
}

/* ---- defaults ---- */

static void defaults_are_those_of_the_format(void **state)
{
    (void)state;
    remat_profile_spec spec = {
        HEADER, GRAPH_INPUTS({.id = "x", .bytes = NUMBER(9)}),
        NODES({.id = "a",
               .forward_time = NUMBER(1.25),
               .output_bytes = NUMBER(40),
               .forward_workspace_bytes = NUMBER(7),
               .alternatives =
                   (const remat_alternative_spec[]){
                       {.name = "own"}, {.name = "wide", .forward_workspace_bytes = NUMBER(70)}},
               .n_alternatives = 2,
               INPUTS("x")})};
    remat_profile *p = make_profile(&spec);
    const remat_node *a = &p->nodes[0];
    assert_int_equal(p->time_unit, REMAT_MICROSECONDS);
    assert_true(a->backward_time == 2.5); /* 2 x forward_time */
    assert_int_equal(a->saved_bytes, 0);
    assert_int_equal(a->gradient_bytes, 40); /* output_bytes */
    assert_int_equal(a->backward_workspace_bytes, 0);
    assert_int_equal(a->save_workspace_bytes, 7); /* forward_workspace_bytes */
    assert_string_equal(a->op, "");
    assert_int_equal(p->inputs[0].gradient_bytes, 0);
    assert_true(a->alternatives[0].forward_time == 1.25); /* the node's own */
    assert_true(a->alternatives[0].backward_time == 2.5);
    assert_int_equal(a->alternatives[0].save_workspace_bytes, 7);
    /* neither gave save_workspace_bytes: the default of the format, its own forward workspace */
    assert_int_equal(a->alternatives[1].save_workspace_bytes, 70);
    assert_true(p->forward_time == 1.25 && p->backward_time == 2.5);
    assert_int_equal(p->input_bytes, 9);
    remat_profile_free(p);
}

static void units_have_names_and_lengths(void **state)
{
    (void)state;
    static const char *const names[] = {"s", "ms", "us", "ns", "units"};
    static const double seconds[] = {1, 1e-3, 1e-6, 1e-9, 0};
    for (size_t i = 0; i < COUNT(names); i++) {
        sample s;
        fill(&s);
        s.spec.time_unit = names[i];
        remat_profile *p = make_profile(&s.spec);
        assert_string_equal(remat_time_unit_name(p->time_unit), names[i]);
        assert_true(remat_time_unit_seconds(p->time_unit) == seconds[i]);
        remat_profile_free(p);
    }
}

/* Nothing of the specification is needed afterwards. */
static void the_profile_keeps_no_pointer(void **state)
{
    (void)state;
    sample *s = malloc(sizeof *s);
    char id[] = "conv";
    fill(s);
    s->nodes[0].id = id;
    remat_profile *p = make_profile(&s->spec);
    memset(id, 'z', sizeof id - 1);
    memset(s, 0x5a, sizeof *s);
    free(s);
    assert_string_equal(p->nodes[0].id, "conv");
    assert_string_equal(p->nodes[0].op, "conv2d");
    assert_string_equal(p->nodes[0].alternatives[1].name, "small");
    assert_string_equal(p->states[1].id, "bn");
    assert_string_equal(p->inputs[1].id, "y");
    assert_string_equal(p->name, "sample");
    remat_profile_free(p);
    remat_profile_free(NULL);
}

/* ---- shapes ---- */

#define PLAIN(name, ...)                                                                           \
    {                                                                                              \
        .id = name, .forward_time = {1, true}, .output_bytes = {1, true}, __VA_ARGS__              \
    }

static void assert_shape(const remat_profile_spec *spec, remat_kind kind, uint32_t not_chain,
                         uint32_t not_join)
{
    remat_profile *p = make_profile(spec);
    assert_string_equal(remat_kind_name(p->kind), remat_kind_name(kind));
    assert_int_equal(p->not_chain, not_chain);
    assert_int_equal(p->not_join, not_join);
    remat_profile_free(p);
}

static void shapes_are_recognised(void **state)
{
    (void)state;
    remat_profile_spec alone = {HEADER, NODES(PLAIN("loss", INPUTS("loss")))};
    remat_profile *profile = NULL;
    assert_int_equal(remat_profile_new(&alone, &profile, NULL), REMAT_INVALID);
    remat_profile_spec single = {
        HEADER, NODES({.id = "loss", .forward_time = NUMBER(1), .output_bytes = NUMBER(1)})};
    assert_shape(&single, REMAT_CHAIN, 1, 1);
    /* Graph inputs do not count: b reads two of them and is still in a chain. */
    remat_profile_spec fed = {
        HEADER, GRAPH_INPUTS({.id = "x", .bytes = NUMBER(1)}, {.id = "y", .bytes = NUMBER(1)}),
        NODES(PLAIN("a", INPUTS("x")), PLAIN("b", INPUTS("x", "a", "y")))};
    assert_shape(&fed, REMAT_CHAIN, 2, 2);
    /* Two chains, one of a single node: the loss breaks the chain. */
    remat_profile_spec join = {
        HEADER, NODES({.id = "a", .forward_time = NUMBER(1), .output_bytes = NUMBER(1)},
                      {.id = "c", .forward_time = NUMBER(1), .output_bytes = NUMBER(1)},
                      PLAIN("b", INPUTS("a")), PLAIN("loss", INPUTS("b", "c")))};
    assert_shape(&join, REMAT_JOIN, 3, 4);
}

static void graphs_name_the_node_that_breaks_the_shape(void **state)
{
    (void)state;
    /* A residual connection: a has two consumers. */
    remat_profile_spec skip = {
        HEADER, GRAPH_INPUTS({.id = "x", .bytes = NUMBER(1)}),
        NODES(PLAIN("a", INPUTS("x")), PLAIN("b", INPUTS("a")), PLAIN("loss", INPUTS("a", "b")))};
    assert_shape(&skip, REMAT_GRAPH, 0, 0);
    /* Two branches meet before the loss: add breaks both. */
    remat_profile_spec early = {HEADER, GRAPH_INPUTS({.id = "x", .bytes = NUMBER(1)}),
                                NODES(PLAIN("a", INPUTS("x")), PLAIN("b", INPUTS("x")),
                                      PLAIN("add", INPUTS("a", "b")),
                                      PLAIN("loss", INPUTS("add")))};
    assert_shape(&early, REMAT_GRAPH, 2, 2);
}

/* Homogeneous: one field at a time of one node differs from the others. */
static void homogeneous_means_every_cost(void **state)
{
    (void)state;
    static const struct {
        size_t offset;
        bool of_loss_too;
    } fields[] = {{offsetof(remat_node_spec, forward_time), false},
                  {offsetof(remat_node_spec, backward_time), false},
                  {offsetof(remat_node_spec, output_bytes), false},
                  {offsetof(remat_node_spec, gradient_bytes), false},
                  {offsetof(remat_node_spec, saved_bytes), true},
                  {offsetof(remat_node_spec, forward_workspace_bytes), true},
                  {offsetof(remat_node_spec, backward_workspace_bytes), true},
                  {offsetof(remat_node_spec, save_workspace_bytes), true}};
    remat_node_spec nodes[] = {PLAIN("a", .n_inputs = 0), PLAIN("b", INPUTS("a")),
                               PLAIN("loss", INPUTS("b"))};
    remat_profile_spec spec = {HEADER, .nodes = nodes, .n_nodes = 3};
    remat_profile *p = make_profile(&spec);
    assert_true(p->homogeneous);
    assert_int_equal(p->not_homogeneous, 3);
    remat_profile_free(p);
    for (size_t f = 0; f < COUNT(fields); f++)
        for (uint32_t v = 1; v < 3; v++) {
            remat_node_spec own = nodes[v];
            *(remat_number *)((char *)&nodes[v] + fields[f].offset) = NUMBER(5);
            p = make_profile(&spec);
            assert_int_equal(p->homogeneous, v == 2 && !fields[f].of_loss_too);
            assert_int_equal(p->not_homogeneous, p->homogeneous ? 3 : v);
            remat_profile_free(p);
            nodes[v] = own;
        }
}

/* ---- the canonical encoding ---- */

static void collect(void *context, const void *bytes, size_t length)
{
    if (remat_buffer_put(context, bytes, length))
        fail_msg("out of memory");
}

static remat_buffer encoding(const sample *s)
{
    remat_buffer buffer = {0};
    remat_profile *p = make_profile(&s->spec);
    remat_profile_encode(p, collect, &buffer);
    remat_profile_free(p);
    return buffer;
}

static void assert_encoding(const sample *s, bool same, const char *what)
{
    sample plain;
    fill(&plain);
    remat_buffer a = encoding(&plain), b = encoding(s);
    bool equal = a.length == b.length && memcmp(a.data, b.data, a.length) == 0;
    if (equal != same)
        fail_msg("%s: the encodings are %s", what, equal ? "equal" : "different");
    remat_buffer_clear(&a);
    remat_buffer_clear(&b);
}

static void what_cannot_change_an_answer_is_not_encoded(void **state)
{
    (void)state;
    sample s;
    fill(&s);
    assert_encoding(&s, true, "the same again");
    s.spec.name = "another name";
    assert_encoding(&s, true, "name");
    fill(&s);
    s.nodes[1].backward_time = NUMBER(3); /* 2 x 1.5: the default written out */
    s.nodes[1].gradient_bytes = NUMBER(100);
    s.inputs[1].gradient_bytes = s.nodes[2].saved_bytes = NUMBER(0);
    assert_encoding(&s, true, "defaults written out");
    fill(&s);
    s.nodes[2].forward_time = NUMBER(-0.0);
    s.nodes[2].output_bytes = NUMBER(-0.0);
    assert_encoding(&s, true, "-0");
    fill(&s);
    const char *twice[] = {"relu", "relu"};
    s.nodes[2].inputs = twice;
    s.nodes[2].n_inputs = 2;
    assert_encoding(&s, true, "an input listed twice");
}

static void every_number_is_encoded(void **state)
{
    (void)state;
    for (size_t f = 0; f < COUNT(all_numbers); f++) {
        sample s;
        fill(&s);
        *number_of(&s, &all_numbers[f]) = NUMBER(77); /* used nowhere else */
        assert_encoding(&s, false, all_numbers[f].field);
    }
}

static void spoil(sample *s, int what)
{
    static const char *const relu_swapped[] = {"y", "conv"};
    fill(s);
    switch (what) {
    case 0:
        s->spec.time_unit = "us";
        break;
    case 1:
        s->nodes[0].backward_uses_inputs = false;
        break;
    case 2:
        s->nodes[0].backward_uses_output = false;
        break;
    case 3:
        s->nodes[0].in_place = true;
        break;
    case 4:
        s->nodes[1].in_place = false;
        break;
    case 5:
        s->nodes[1].inputs = relu_swapped; /* the first input is the one overwritten */
        break;
    case 6:
        s->nodes[1].n_inputs = 1;
        break;
    case 7:
        s->nodes[0].n_reads = 0;
        break;
    case 8:
        s->nodes[0].n_writes = 0;
        break;
    case 9:
        s->lists[3][0] = "bn";
        break;
    case 10:
        s->lists[4][0] = "rng";
        break;
    case 11:
        s->spec.states = &s->states[0]; /* one more or less of everything */
        s->nodes[0].n_writes = 0;
        s->spec.n_states = 1;
        break;
    case 12:
        s->nodes[1].n_inputs = 1;
        s->spec.n_inputs = 1;
        break;
    case 13:
        s->nodes[0].n_alternatives = 1;
        break;
    case 14:
        s->alternatives[0].name = "quick";
        break;
    case 15:
        s->nodes[2].id = "Loss";
        break;
    case 16:
        s->inputs[0].id = s->lists[0][0] = "z";
        break;
    default:
        s->states[1].id = s->lists[4][0] = "b";
        break;
    }
}

static void every_other_fact_is_encoded(void **state)
{
    (void)state;
    for (int what = 0; what <= 17; what++) {
        sample s;
        char number[32];
        spoil(&s, what);
        snprintf(number, sizeof number, "change %d", what);
        assert_encoding(&s, false, number);
    }
}

/* Text is encoded with its length: two ids cannot trade a character unseen. */
static void neighbours_do_not_run_together(void **state)
{
    (void)state;
    sample a, b;
    fill(&a);
    fill(&b);
    a.nodes[2].id = "lossc";
    a.nodes[2].op = "e";
    b.nodes[2].id = "loss";
    b.nodes[2].op = "ce";
    remat_buffer one = encoding(&a), two = encoding(&b);
    assert_true(one.length == two.length && memcmp(one.data, two.data, one.length) != 0);
    remat_buffer_clear(&one);
    remat_buffer_clear(&two);
}

/* Ids are looked up by search in a sorted list: many of them, in an order that is not sorted. */
static void thousand_nodes_find_their_inputs(void **state)
{
    (void)state;
    enum { N = 1000 };
    static char ids[N][16];
    static const char *inputs[N][1];
    static remat_node_spec nodes[N];
    for (uint32_t v = 0; v < N; v++) {
        snprintf(ids[v], sizeof ids[v], "n%u", v * 7919u % N); /* 7919 is prime: all different */
        inputs[v][0] = v ? ids[v - 1] : NULL;
        nodes[v] = (remat_node_spec){.id = ids[v],
                                     .inputs = inputs[v],
                                     .n_inputs = v > 0,
                                     .forward_time = NUMBER(1),
                                     .output_bytes = NUMBER(1)};
    }
    remat_profile_spec spec = {HEADER, .nodes = nodes, .n_nodes = N};
    remat_profile *p = make_profile(&spec);
    for (uint32_t v = 1; v < N; v++)
        assert_int_equal(p->nodes[v].inputs[0], v - 1);
    assert_int_equal(p->kind, REMAT_CHAIN);
    remat_profile_free(p);
    inputs[0][0] = ids[N - 1]; /* one long cycle */
    nodes[0].n_inputs = 1;
    remat_error error;
    assert_int_equal(remat_profile_new(&spec, &p, &error), REMAT_INVALID);
    assert_non_null(strstr(error.message, "cycle"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_is_checked),
        cmocka_unit_test(required_numbers_must_be_given),
        cmocka_unit_test(sums_are_checked),
        cmocka_unit_test(versions_of_states_count_in_the_sum),
        cmocka_unit_test(times_that_cannot_be_summed_are_refused),
        cmocka_unit_test(headers_are_checked),
        cmocka_unit_test(ids_are_counted_in_characters),
        cmocka_unit_test(text_must_be_printable_utf8),
        cmocka_unit_test(ids_are_unique),
        cmocka_unit_test(missing_ids_are_named),
        cmocka_unit_test(cycles_and_wrong_orders_are_told_apart),
        cmocka_unit_test(one_sink_only),
        cmocka_unit_test(what_is_listed_twice_counts_once),
        cmocka_unit_test(defaults_are_those_of_the_format),
        cmocka_unit_test(units_have_names_and_lengths),
        cmocka_unit_test(the_profile_keeps_no_pointer),
        cmocka_unit_test(shapes_are_recognised),
        cmocka_unit_test(graphs_name_the_node_that_breaks_the_shape),
        cmocka_unit_test(homogeneous_means_every_cost),
        cmocka_unit_test(what_cannot_change_an_answer_is_not_encoded),
        cmocka_unit_test(every_number_is_encoded),
        cmocka_unit_test(every_other_fact_is_encoded),
        cmocka_unit_test(neighbours_do_not_run_together),
        cmocka_unit_test(thousand_nodes_find_their_inputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
