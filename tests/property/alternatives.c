/* Nodes with alternatives: rotor and butt against an exhaustive search over persistent schedules
 * and implementations; the choice of implementations for a fixed list against all choices; every
 * solver's table against what must hold of any. Lists are judged by the naive judge of
 * core_naive.h. */
#include "property/core_random.h"
#include "unit/steps.h"

#include "model/implementations.h"

enum { STAGES = 4, WAYS = MOST_ALTERNATIVES + 1, FORMS = 2 + WAYS };

/* ---- the exhaustive search ---- */

/* Before B^t: what is stored of each stage (0: nothing, 1: a_i, 2 + k: what F_all with
 * implementation k keeps), and the stage whose a_i the operation just before made, 0 if none. */
typedef struct moment {
    uint32_t t, running;
    uint8_t form[STAGES + 1];
} moment;

enum { STATES = (STAGES + 1) * (STAGES + 1) * FORMS * FORMS * FORMS * FORMS };

typedef struct search {
    const remat_profile *p;
    uint64_t budget;
    bool inputs_only; /* the class of butt: F_all^t just before B^t and nowhere else */
    double least[STATES];
    uint32_t queue[STATES];
    bool queued[STATES];
    size_t head, count;
} search;

static uint32_t code(moment at)
{
    uint32_t c = at.t * (STAGES + 1) + at.running;
    for (uint32_t i = 1; i <= STAGES; i++)
        c = c * FORMS + at.form[i];
    return c;
}

static moment decode(uint32_t c)
{
    moment at = {0};
    for (uint32_t i = STAGES; i > 0; i--, c /= FORMS)
        at.form[i] = (uint8_t)(c % FORMS);
    at.running = c % (STAGES + 1);
    at.t = c / (STAGES + 1);
    return at;
}

static const remat_node *stage(const search *s, uint32_t i)
{
    return &s->p->nodes[i - 1];
}

static uint64_t stored(const search *s, moment at)
{
    uint64_t bytes = s->p->input_bytes;
    for (uint32_t i = 1; i <= s->p->n_nodes; i++) {
        bytes += at.form[i] ? stage(s, i)->output_bytes : 0;
        if (at.form[i] > 1)
            bytes += remat_implementation(stage(s, i), at.form[i] - 2u).saved_bytes;
    }
    return bytes + (at.t > 0 && at.t < s->p->n_nodes ? stage(s, at.t)->gradient_bytes : 0);
}

static void reach(search *s, moment to, double time, uint64_t peak)
{
    uint32_t c = code(to);
    if (peak > s->budget || time >= s->least[c])
        return;
    s->least[c] = time;
    if (s->queued[c])
        return;
    s->queued[c] = true;
    s->queue[(s->head + s->count++) % STATES] = c;
}

static void try_forwards(search *s, moment at, double time, uint64_t bytes, uint32_t i)
{
    const remat_node *node = stage(s, i);
    bool keeps = false;
    for (uint32_t k = 1; k <= STAGES; k++)
        keeps |= at.form[k] > 1;
    if ((i > 1 && !at.form[i - 1]) || at.form[i] || (s->inputs_only && keeps))
        return;
    for (uint32_t k = 0; k <= node->n_alternatives; k++) {
        const remat_alternative cost = remat_implementation(node, k);
        uint64_t during = bytes + node->output_bytes;
        moment to = at;
        to.running = 0;
        to.form[i] = (uint8_t)(2 + k);
        if (!s->inputs_only || i == at.t)
            reach(s, to, time + cost.forward_time,
                  during + cost.saved_bytes + cost.save_workspace_bytes);
        if (i == s->p->n_nodes)
            continue;
        to.form[i] = 1;
        to.running = i;
        reach(s, to, time + cost.forward_time, during + cost.forward_workspace_bytes);
        if (i > 1 && at.running == i - 1) {
            to.form[i - 1] = 0;
            reach(s, to, time + cost.forward_time, during + cost.forward_workspace_bytes);
        }
    }
}

static void try_backwards(search *s, moment at, double time, uint64_t bytes)
{
    const remat_node *node = stage(s, at.t);
    if (at.t > 1 && !at.form[at.t - 1])
        return;
    bool full = at.form[at.t] > 1;
    uint32_t made = full ? at.form[at.t] - 2u : 0;
    for (uint32_t k = 0; k <= node->n_alternatives; k++) {
        const remat_alternative cost = remat_implementation(node, k);
        bool bare = cost.saved_bytes == 0;
        if (full ? k != made && !(bare && remat_implementation(node, made).saved_bytes == 0)
                 : !bare || node->backward_uses_output || at.t == s->p->n_nodes)
            continue;
        uint64_t during = bytes + cost.backward_workspace_bytes;
        during += at.t == s->p->n_nodes ? node->gradient_bytes : 0;
        during += at.t > 1 ? stage(s, at.t - 1)->gradient_bytes : s->p->inputs[0].gradient_bytes;
        moment to = at;
        to.running = 0;
        to.t = at.t - 1;
        to.form[at.t] = 0;
        if (at.t > 1 && to.form[at.t - 1] == 1)
            to.form[at.t - 1] = 0;
        reach(s, to, time + cost.backward_time, during);
    }
}

static double exhaustive(search *s, uint64_t budget)
{
    s->budget = budget;
    s->head = s->count = 0;
    double best = INFINITY;
    for (size_t i = 0; i < STATES; i++)
        s->least[i] = INFINITY;
    reach(s, (moment){.t = s->p->n_nodes}, 0, s->p->input_bytes);
    while (s->count > 0) {
        uint32_t c = s->queue[s->head];
        s->head = (s->head + 1) % STATES;
        s->count--;
        s->queued[c] = false;
        moment at = decode(c);
        if (at.t == 0) {
            best = fmin(best, s->least[c]);
            continue;
        }
        uint64_t bytes = stored(s, at);
        for (uint32_t i = 1; i <= at.t; i++)
            try_forwards(s, at, s->least[c], bytes, i);
        try_backwards(s, at, s->least[c], bytes);
    }
    return best;
}

/* ---- random profiles ---- */

/* A chain with one graph input, its backward reading the inputs. */
static remat_profile *random_chain(dice *d, uint32_t most)
{
    static const char *const ids[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    const shape s = {.most_nodes = 1, .alternatives = true};
    random_names names;
    remat_node_spec nodes[8];
    remat_input_spec input = {
        .id = "x", .bytes = random_bytes(d), .gradient_bytes = random_bytes(d)};
    const char *inputs[9] = {"x", "a", "b", "c", "d", "e", "f", "g"};
    uint32_t n = 1 + below(d, most);
    for (uint32_t v = 0; v < n; v++) {
        nodes[v] = random_node(d, &s);
        if (v < MOST_NODES)
            random_alternatives(d, &s, &names, v, &nodes[v]);
        nodes[v].id = ids[v];
        nodes[v].inputs = &inputs[v];
        nodes[v].n_inputs = 1;
        nodes[v].backward_uses_inputs = true;
        nodes[v].in_place = false;
    }
    nodes[n - 1].output_bytes = (remat_number){0, true};
    remat_profile_spec spec = {.format = "remat-profile/1",
                               .name = "chain",
                               .inputs = &input,
                               .n_inputs = 1,
                               .nodes = nodes,
                               .n_nodes = n};
    remat_profile *p = NULL;
    assert_int_equal(remat_profile_new(&spec, &p, NULL), REMAT_OK);
    return p;
}

static remat_problem problem_of(const remat_solver *solver, const remat_profile *p,
                                const remat_link *link)
{
    return (remat_problem){
        .profile = p, .link = link, .options = remat_options_default(solver), .max_budget = 1000};
}

/* ---- rotor and butt ---- */

static void compare(search *s, const char *name, const steps *found)
{
    double before = INFINITY;
    for (size_t i = 0; i < found->n; i++) {
        uint64_t budget = found->items[i].model.budget;
        double here = exhaustive(s, budget), makespan = found->items[i].model.makespan;
        if (here != makespan)
            fail_msg("%s, budget %llu: %g, exhaustive search %g", name, (unsigned long long)budget,
                     makespan, here);
        assert_true(steps_bound(found, budget) == here);
        if (budget > 0)
            assert_true(exhaustive(s, budget - 1) == before);
        before = here;
    }
    assert_true(found->n > 0);
    assert_true(s->inputs_only || before == exhaustive(s, 1000));
}

/* Every step just as offered: what was predicted, to the byte. */
static void check_steps(const steps *found, const remat_problem *problem)
{
    static remat_moment moments[MOST_OPERATIONS];
    for (size_t i = 0; i < found->n; i++) {
        naive_verdict verdict =
            naive_judge(problem->profile, &found->items[i].operations, NULL, moments);
        assert_true(verdict.valid);
        assert_true(verdict.makespan == found->items[i].model.makespan);
        assert_true(verdict.peak == found->items[i].model.budget);
    }
}

static void persistent_solvers_equal_exhaustive_search(void **state)
{
    (void)state;
    static const char *const names[] = {"rotor", "butt"};
    search *s = calloc(1, sizeof *s);
    assert_non_null(s);
    dice d = {20261101};
    for (unsigned round = 0; round < 400; round++) {
        remat_profile *p = random_chain(&d, STAGES);
        s->p = p;
        for (unsigned k = 0; k < 2; k++) {
            const remat_solver *solver = remat_solver_find(names[k]);
            remat_problem problem = problem_of(solver, p, NULL);
            steps found = steps_of(names[k], &problem);
            s->inputs_only = k == 1;
            compare(s, names[k], &found);
            check_steps(&found, &problem);
            steps_clear(&found);
        }
        remat_profile_free(p);
    }
    free(s);
}

/* ---- a fixed list ---- */

/* Any A may be an F; an F may be an A that a B reads next. */
static bool may_change(const remat_operations *list, size_t at)
{
    uint32_t v = list->items[at].index;
    if (list->items[at].kind != REMAT_F)
        return list->items[at].kind == REMAT_A;
    for (size_t i = at + 1; i < list->length; i++)
        if (list->items[i].kind <= REMAT_B && list->items[i].index == v)
            return list->items[i].kind == REMAT_B;
    return false;
}

/* Least makespan over all implementations of all operations, and all such changes, that keep the
 * list within room; INFINITY when none does. */
static double best_choice(const remat_profile *p, remat_operations *list, uint64_t room, size_t at)
{
    static remat_moment moments[MOST_OPERATIONS];
    while (at < list->length &&
           (list->items[at].kind > REMAT_B || p->nodes[list->items[at].index].n_alternatives == 0))
        at++;
    if (at == list->length) {
        naive_verdict verdict = naive_judge(p, list, NULL, moments);
        return verdict.valid && verdict.peak <= room ? verdict.makespan : INFINITY;
    }
    double best = INFINITY;
    remat_operation *o = &list->items[at], before = *o;
    for (uint32_t k = 0; k <= p->nodes[o->index].n_alternatives; k++)
        for (unsigned other = 0; other < (may_change(list, at) ? 2u : 1u); other++) {
            *o = before;
            o->alternative = (uint16_t)k;
            if (other)
                o->kind = before.kind == REMAT_A ? REMAT_F : REMAT_A;
            best = fmin(best, best_choice(p, list, room, at + 1));
        }
    *o = before;
    return best;
}

/* Implementations save equally many bytes, and no A takes less workspace than the F it replaces. */
static bool independent(const remat_profile *p)
{
    for (uint32_t v = 0; v < p->n_nodes; v++)
        for (uint32_t k = 0; k <= p->nodes[v].n_alternatives; k++) {
            const remat_alternative cost = remat_implementation(&p->nodes[v], k);
            if (cost.saved_bytes != p->nodes[v].saved_bytes ||
                cost.save_workspace_bytes < cost.forward_workspace_bytes)
                return false;
        }
    return true;
}

/* Where that is so the choice is the best there is, in every room; elsewhere it is valid, within
 * the room and not better. */
static void choices_equal_exhaustive_search(void **state)
{
    (void)state;
    static remat_moment moments[MOST_OPERATIONS];
    dice d = {20261103};
    unsigned exact = 0;
    for (unsigned round = 0; round < 3000; round++) {
        const shape s = {.most_nodes = 3, .alternatives = true};
        remat_profile *p = random_profile(&d, &s);
        remat_operations list = {0}, bare = random_list(&d, p, false);
        assert_int_equal(remat_liveness(p, &bare, &list, NULL), REMAT_OK);
        size_t choosing = 0;
        for (size_t i = 0; i < list.length; i++)
            choosing +=
                list.items[i].kind <= REMAT_B && p->nodes[list.items[i].index].n_alternatives > 0;
        model_implementations *choices = NULL;
        remat_error error;
        if (choosing > 5) {
            remat_operations_clear(&list);
            remat_operations_clear(&bare);
            remat_profile_free(p);
            continue;
        }
        if (model_implementations_new(p, &list, &choices, &error))
            fail_msg("round %u: %s", round, error.message);
        uint64_t rooms[16];
        size_t n = model_implementations_rooms(choices, rooms, 16);
        assert_true(rooms[0] == 0 || best_choice(p, &list, rooms[0] - 1, 0) == INFINITY ||
                    !independent(p));
        for (size_t i = 0; i < n; i++) {
            remat_operations chosen = {0};
            assert_int_equal(model_implementations_make(choices, rooms[i], &chosen, NULL),
                             REMAT_OK);
            naive_verdict verdict = naive_judge(p, &chosen, NULL, moments);
            double best = best_choice(p, &list, rooms[i], 0);
            assert_true(verdict.valid && verdict.peak <= rooms[i]);
            assert_true(i > 0 || verdict.peak == rooms[0] || !independent(p));
            if (independent(p)) {
                if (verdict.makespan != best) {
                    print_list(&chosen);
                    fail_msg("round %u, room %llu: %g, exhaustive search %g", round,
                             (unsigned long long)rooms[i], verdict.makespan, best);
                }
                exact++;
            }
            assert_true(verdict.makespan >= best);
            remat_operations_clear(&chosen);
        }
        model_implementations_free(choices);
        remat_operations_clear(&list);
        remat_operations_clear(&bare);
        remat_profile_free(p);
    }
    print_message("# %u rooms compared\n", exact);
    assert_true(exact > 500);
}

/* ---- every solver ---- */

/* The profile without its alternatives. */
static remat_profile *own_only(const remat_profile *p, remat_node *nodes)
{
    remat_profile *own = malloc(sizeof *own);
    assert_non_null(own);
    *own = *p;
    own->nodes = nodes;
    own->n_alternatives = 0;
    for (uint32_t v = 0; v < p->n_nodes; v++) {
        nodes[v] = p->nodes[v];
        nodes[v].n_alternatives = 0;
    }
    return own;
}

static double makespan_at(const remat_table *table, uint64_t budget)
{
    size_t n;
    const remat_point *points = remat_table_frontier(table, &n);
    ptrdiff_t i = remat_table_point(table, budget);
    return i < 0 ? INFINITY : points[i].makespan;
}

static remat_table *tabulated(const remat_solver *solver, const remat_problem *problem)
{
    remat_table *table = NULL;
    remat_error error = {0};
    if (remat_tabulate(solver, problem, NULL, &table, &error))
        fail_msg("%s: %s", solver->name, error.message);
    return table;
}

/* Every point of the frontier is a valid list of that peak and makespan, with a layout that its
 * judge accepts. */
static void check_frontier(const remat_table *table, const remat_problem *problem)
{
    static remat_moment moments[MOST_OPERATIONS];
    size_t n;
    const remat_point *points = remat_table_frontier(table, &n);
    for (size_t i = 0; i < n; i++) {
        remat_schedule schedule;
        remat_error error;
        if (remat_table_trace(table, problem, i, points[i].peak, &schedule, &error))
            fail_msg("point %zu: %s", i, error.message);
        naive_verdict verdict =
            naive_judge(problem->profile, &schedule.operations, problem->link, moments);
        assert_true(verdict.valid && verdict.peak == points[i].peak);
        assert_true(verdict.makespan == points[i].makespan);
        assert_true(schedule.lower_bound <= verdict.makespan);
        assert_true(verdict.makespan >= remat_store_all_makespan(problem->profile));
        remat_layout layout;
        assert_int_equal(
            remat_layout_new(problem->profile, &schedule.operations, 1, &layout, &error), REMAT_OK);
        if (remat_layout_check(problem->profile, &schedule.operations, &layout, &error))
            fail_msg("%s", error.message);
        remat_layout_clear(&layout);
        remat_schedule_clear(&schedule);
    }
}

static void check_saved(const remat_table *table, const remat_problem *problem)
{
    remat_buffer buffer = {0};
    remat_table *loaded = NULL;
    remat_error error;
    assert_int_equal(remat_table_save(table, &buffer, NULL), REMAT_OK);
    if (remat_table_load(remat_table_solver(table), problem, buffer.data, buffer.length, &loaded,
                         &error))
        fail_msg("%s: %s", remat_table_solver(table)->name, error.message);
    size_t n, n_loaded;
    const remat_point *points = remat_table_frontier(table, &n);
    const remat_point *again = remat_table_frontier(loaded, &n_loaded);
    assert_int_equal(n, n_loaded);
    for (size_t i = 0; i < n; i++)
        assert_true(points[i].peak == again[i].peak && points[i].makespan == again[i].makespan &&
                    points[i].nominal_budget == again[i].nominal_budget &&
                    points[i].list_bytes == again[i].list_bytes &&
                    memcmp(points[i].list, again[i].list, points[i].list_bytes) == 0);
    check_frontier(loaded, problem);
    remat_table_free(loaded);
    remat_buffer_clear(&buffer);
}

/* With "slots" rotor does not choose by itself: its class is bounded from below all the same. */
static void views_bound_the_exact_table(void **state)
{
    (void)state;
    const remat_solver *rotor = remat_solver_find("rotor");
    dice d = {20261102};
    unsigned compared = 0;
    for (unsigned round = 0; round < 200; round++) {
        remat_profile *p = random_chain(&d, 7);
        remat_problem problem = problem_of(rotor, p, NULL), slotted = problem;
        steps exact = steps_of("rotor", &problem);
        assert_int_equal(
            remat_options_set(rotor, &slotted.options, "slots", 1 + below(&d, 400), NULL, NULL),
            REMAT_OK);
        remat_table *table = tabulated(rotor, &slotted);
        check_frontier(table, &slotted);
        check_saved(table, &slotted);
        for (size_t i = 0; i < exact.n; i++, compared++)
            assert_true(remat_table_lower_bound(table, p, exact.items[i].model.budget, INFINITY) <=
                        exact.items[i].model.makespan);
        remat_table_free(table);
        steps_clear(&exact);
        remat_profile_free(p);
    }
    assert_true(compared > 500);
}

typedef struct tally {
    unsigned tables, faster, feasible; /* compared; faster than without; feasible only with */
} tally;

/* Never slower than without alternatives; all bounds below what anybody has found. */
static void check_profile(const remat_profile *p, const remat_link *link, tally *t)
{
    remat_node nodes[MOST_NODES + 1];
    remat_profile *own = own_only(p, nodes);
    size_t n_solvers;
    const remat_solver *const *solvers = remat_solvers(&n_solvers);
    remat_table *tables[REMAT_MAX_SOLVERS];
    size_t n = 0;
    for (size_t i = 0; i < n_solvers; i++) {
        remat_problem problem = problem_of(solvers[i], p, link), bare = problem;
        bare.profile = own;
        if (remat_solver_accepts(solvers[i], &bare, NULL))
            continue;
        remat_table *table = tabulated(solvers[i], &problem),
                    *without = tabulated(solvers[i], &bare);
        check_frontier(table, &problem);
        check_saved(table, &problem);
        for (uint64_t budget = 0; budget < 250; budget += 3) {
            double with = makespan_at(table, budget), before = makespan_at(without, budget);
            if (with > before)
                fail_msg("%s at %llu bytes: %g, without alternatives %g", solvers[i]->name,
                         (unsigned long long)budget, with, before);
            t->faster += with < before && before < INFINITY;
            t->feasible += with < before && before == INFINITY;
        }
        remat_table_free(without);
        tables[n++] = table;
        t->tables++;
    }
    for (uint64_t budget = 0; budget < 250 && !link; budget += 7) {
        uint64_t least;
        ptrdiff_t best = remat_best_table((const remat_table *const *)tables, n, budget, &least);
        for (size_t i = 0; i < n && best >= 0; i++)
            if (remat_table_solver(tables[i])->bounds_all &&
                remat_table_lower_bound(tables[i], p, budget, INFINITY) >
                    makespan_at(tables[best], budget))
                fail_msg("%s at %llu bytes: bound %g, %s has %g",
                         remat_table_solver(tables[i])->name, (unsigned long long)budget,
                         remat_table_lower_bound(tables[i], p, budget, INFINITY),
                         remat_table_solver(tables[best])->name, makespan_at(tables[best], budget));
    }
    for (size_t i = 0; i < n; i++)
        remat_table_free(tables[i]);
    free(own);
}

static void every_solver_gains(void **state)
{
    (void)state;
    dice d = {20261104};
    tally t = {0};
    for (unsigned round = 0; round < 240; round++) {
        const shape s = {.most_nodes = 5, .states = round % 3 == 0, .alternatives = true};
        remat_profile *p = round % 2 ? random_profile(&d, &s) : random_chain(&d, 5);
        remat_link link = random_link(&d);
        check_profile(p, round % 4 == 0 ? &link : NULL, &t);
        remat_profile_free(p);
    }
    print_message("# %u tables; %u budgets served faster, %u served at all\n", t.tables, t.faster,
                  t.feasible);
    assert_true(t.tables > 1000 && t.faster > 1000 && t.feasible > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(persistent_solvers_equal_exhaustive_search),
        cmocka_unit_test(views_bound_the_exact_table),
        cmocka_unit_test(choices_equal_exhaustive_search),
        cmocka_unit_test(every_solver_gains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
