/* Every run of nodes of random profiles: cut, or refused where another value crosses its ends, and
 * what is cut is what a specification of the same nodes would be. */
#include "property/core_random.h"

#include "property/amount.h"

typedef struct spelled {
    remat_profile_spec spec;
    remat_node_spec nodes[MOST_NODES];
    remat_input_spec inputs[MOST_INPUTS + 1];
    remat_state_spec states[MOST_STATES];
    remat_alternative_spec alternatives[MOST_NODES][MOST_ALTERNATIVES];
    const char *names[3][MOST_NODES][MOST_NODES + MOST_INPUTS + MOST_STATES];
} spelled;

#define GIVEN(x) ((remat_number){(double)(x), true})

static void spell_node(spelled *s, const remat_profile *p, uint32_t v, remat_node_spec *to)
{
    const remat_node *node = &p->nodes[v];
    const char *const(*names)[MOST_NODES][MOST_NODES + MOST_INPUTS + MOST_STATES] =
        (const void *)s->names;
    const size_t at = (size_t)(to - s->nodes);
    *to = (remat_node_spec){.id = node->id,
                            .op = node->op,
                            .inputs = names[0][at],
                            .n_inputs = node->n_inputs,
                            .reads = names[1][at],
                            .n_reads = node->n_reads,
                            .writes = names[2][at],
                            .n_writes = node->n_writes,
                            .forward_time = GIVEN(node->forward_time),
                            .backward_time = GIVEN(node->backward_time),
                            .output_bytes = GIVEN(node->output_bytes),
                            .saved_bytes = GIVEN(node->saved_bytes),
                            .gradient_bytes = GIVEN(node->gradient_bytes),
                            .forward_workspace_bytes = GIVEN(node->forward_workspace_bytes),
                            .backward_workspace_bytes = GIVEN(node->backward_workspace_bytes),
                            .save_workspace_bytes = GIVEN(node->save_workspace_bytes),
                            .backward_uses_inputs = node->backward_uses_inputs,
                            .backward_uses_output = node->backward_uses_output,
                            .in_place = node->in_place,
                            .recompute = node->once && !node->keep ? "never" : NULL,
                            .keep = node->keep,
                            .alternatives = s->alternatives[at],
                            .n_alternatives = node->n_alternatives};
    for (uint32_t i = 0; i < node->n_inputs; i++)
        s->names[0][at][i] = remat_value_id(p, node->inputs[i]);
    for (uint32_t i = 0; i < node->n_reads; i++)
        s->names[1][at][i] = p->states[node->reads[i]].id;
    for (uint32_t i = 0; i < node->n_writes; i++)
        s->names[2][at][i] = p->states[node->writes[i]].id;
    for (uint32_t a = 0; a < node->n_alternatives; a++) {
        const remat_alternative *from = &node->alternatives[a];
        s->alternatives[at][a] = (remat_alternative_spec){from->name,
                                                          GIVEN(from->forward_time),
                                                          GIVEN(from->backward_time),
                                                          GIVEN(from->saved_bytes),
                                                          GIVEN(from->forward_workspace_bytes),
                                                          GIVEN(from->backward_workspace_bytes),
                                                          GIVEN(from->save_workspace_bytes)};
    }
}

static bool lists(const uint32_t *list, uint32_t n, uint32_t x)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i] == x)
            return true;
    return false;
}

/* The nodes a to b - 1 as somebody would write them down. */
static void spell(spelled *s, const remat_profile *p, uint32_t a, uint32_t b)
{
    memset(s, 0, sizeof *s);
    s->spec = (remat_profile_spec){.format = "remat-profile/1",
                                   .name = "run",
                                   .inputs = s->inputs,
                                   .states = s->states,
                                   .nodes = s->nodes,
                                   .n_nodes = b - a};
    if (a > 0)
        s->inputs[s->spec.n_inputs++] =
            (remat_input_spec){p->nodes[a - 1].id, GIVEN(p->nodes[a - 1].output_bytes),
                               GIVEN(p->nodes[a - 1].gradient_bytes), false};
    for (uint32_t k = 0; k < p->n_inputs; k++) {
        bool used = false;
        for (uint32_t v = a; v < b; v++)
            used |= lists(p->nodes[v].inputs, p->nodes[v].n_inputs, p->n_nodes + k);
        if (used)
            s->inputs[s->spec.n_inputs++] =
                (remat_input_spec){p->inputs[k].id, GIVEN(p->inputs[k].bytes),
                                   GIVEN(p->inputs[k].gradient_bytes), false};
    }
    for (uint32_t k = 0; k < p->n_states; k++) {
        bool used = false;
        for (uint32_t v = a; v < b; v++)
            used |= lists(p->nodes[v].reads, p->nodes[v].n_reads, k) ||
                    lists(p->nodes[v].writes, p->nodes[v].n_writes, k);
        if (used)
            s->states[s->spec.n_states++] =
                (remat_state_spec){p->states[k].id, GIVEN(p->states[k].bytes)};
    }
    for (uint32_t v = a; v < b; v++)
        spell_node(s, p, v, &s->nodes[v - a]);
}

/* Whether no value but the one before, and the last one, crosses an end. */
static bool may_cut(const remat_profile *p, uint32_t a, uint32_t b)
{
    for (uint32_t v = 0; v < p->n_nodes; v++)
        for (uint32_t i = 0; i < p->nodes[v].n_inputs; i++) {
            const uint32_t u = p->nodes[v].inputs[i];
            const bool into = v >= a && v < b && u + 1 < a;
            const bool out_of = v >= b && u >= a && u + 1 < b;
            if (u < p->n_nodes && (into || out_of))
                return false;
        }
    return true;
}

typedef struct collected {
    size_t length;
    unsigned char bytes[1 << 14];
} collected;

static void collect(void *context, const void *bytes, size_t length)
{
    collected *c = context;
    assert_true(c->length + length <= sizeof c->bytes);
    memcpy(c->bytes + c->length, bytes, length);
    c->length += length;
}

/* All that is in them, what no encoding has too. */
static void assert_same(const remat_profile *x, const remat_profile *y)
{
    static collected of_x, of_y;
    of_x.length = of_y.length = 0;
    remat_profile_encode(x, collect, &of_x);
    remat_profile_encode(y, collect, &of_y);
    assert_int_equal(of_x.length, of_y.length);
    assert_memory_equal(of_x.bytes, of_y.bytes, of_x.length);
    assert_true(x->kind == y->kind && x->homogeneous == y->homogeneous &&
                x->n_edges == y->n_edges && x->n_pinned == y->n_pinned &&
                x->n_alternatives == y->n_alternatives && x->input_bytes == y->input_bytes &&
                x->forward_time == y->forward_time && x->backward_time == y->backward_time);
    for (uint32_t v = 0; v < x->n_nodes; v++) {
        assert_int_equal(x->nodes[v].n_consumers, y->nodes[v].n_consumers);
        assert_memory_equal(x->nodes[v].consumers, y->nodes[v].consumers,
                            x->nodes[v].n_consumers * sizeof(uint32_t));
    }
    for (uint32_t k = 0; k < x->n_inputs; k++) {
        assert_string_equal(x->inputs[k].id, y->inputs[k].id);
        assert_int_equal(x->inputs[k].n_consumers, y->inputs[k].n_consumers);
        assert_memory_equal(x->inputs[k].consumers, y->inputs[k].consumers,
                            x->inputs[k].n_consumers * sizeof(uint32_t));
    }
    for (uint32_t k = 0; k < x->n_states; k++)
        assert_int_equal(x->states[k].n_writers, y->states[k].n_writers);
}

static void runs_are_cut_as_they_would_be_written(void **state)
{
    (void)state;
    dice d = {351};
    uint32_t cuts = 0, refused = 0;
    for (unsigned i = 0; i < amount(4000, 1000); i++) {
        const shape s = {.most_nodes = MOST_NODES,
                         .states = true,
                         .alternatives = true,
                         .pins = true,
                         .chain = chance(&d, 30)};
        remat_profile *p = random_profile(&d, &s);
        for (uint32_t a = 0; a < p->n_nodes; a++)
            for (uint32_t b = a + 1; b <= p->n_nodes; b++) {
                static spelled written;
                remat_error error = {0};
                remat_profile *cut = NULL, *same = NULL;
                const remat_status status = remat_profile_cut(p, a, b, &cut, &error);
                assert_int_equal(status, may_cut(p, a, b) ? REMAT_OK : REMAT_INVALID);
                refused += status != REMAT_OK;
                if (status) {
                    assert_non_null(strstr(error.message, "from across a cut"));
                    continue;
                }
                spell(&written, p, a, b);
                if (remat_profile_new(&written.spec, &same, &error))
                    fail_msg("%s", error.message);
                assert_same(cut, same);
                remat_profile_free(cut);
                remat_profile_free(same);
                cuts++;
            }
        remat_profile_free(p);
    }
    print_message("# %u cuts, %u refused\n", cuts, refused);
    assert_true(cuts > refused / 4 && refused > cuts / 10);
}

static void no_runs_are_refused(void **state)
{
    (void)state;
    dice d = {2};
    const shape s = {.most_nodes = MOST_NODES};
    remat_profile *p = random_profile(&d, &s), *cut = NULL;
    const uint32_t n = p->n_nodes, ends[3][2] = {{1, 1}, {n, n + 1}, {0, n + 1}};
    for (int i = 0; i < 3; i++) {
        remat_error error = {0};
        assert_int_equal(remat_profile_cut(p, ends[i][0], ends[i][1], &cut, &error), REMAT_INVALID);
        assert_null(cut);
        assert_non_null(strstr(error.message, "are no run"));
    }
    remat_profile_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_are_cut_as_they_would_be_written),
        cmocka_unit_test(no_runs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
