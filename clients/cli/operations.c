/* The operation list for people: runs of neighbours on one line each, or with --all every
 * operation. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

#define SHOWN_FIRST 24 /* lines of a long list that are shown, at its beginning and at its end */
#define SHOWN_LAST 12

/* Neighbours that go through the nodes in order: F 0 to 4, B 9 to 7. Drops between them are left
 * out. */
typedef struct run {
    size_t first, last; /* steps */
    size_t count;       /* operations that are not drops */
    uint32_t from, to;  /* nodes */
    double during;      /* most bytes */
} run;

static bool is_drop(const trace_step *step)
{
    return step->letter == 'D' || step->letter == 'X' || step->letter == 'b';
}

static bool continues(const run *r, const trace *t, const trace_step *next)
{
    const trace_step *begin = &t->steps[r->first];
    if (next->letter != begin->letter || next->again != begin->again ||
        strcmp(next->alternative, begin->alternative) != 0)
        return false;
    if (next->letter == 'F' || next->letter == 'A')
        return next->index == r->to + 1;
    return next->letter == 'B' && next->index + 1 == r->to;
}

/* Splits the list; NULL: out of memory. */
static run *find_runs(const trace *t, size_t *ret_n)
{
    run *runs = calloc(t->length + 1, sizeof *runs);
    size_t n = 0;
    for (size_t i = 0; runs && i < t->length; i++) {
        const trace_step *step = &t->steps[i];
        if (is_drop(step))
            continue;
        if (n == 0 || !continues(&runs[n - 1], t, step))
            runs[n++] = (run){.first = i, .from = step->index};
        run *r = &runs[n - 1];
        r->last = i;
        r->to = step->index;
        r->count++;
        if (step->during > r->during)
            r->during = step->during;
    }
    *ret_n = n;
    return runs;
}

static const char *meaning(const trace_step *step)
{
    switch (step->letter) {
    case 'F':
        return step->again ? "recompute" : "forward";
    case 'A':
        return step->again ? "recompute, save" : "forward, save";
    case 'B':
        return "backward";
    case 'D':
    case 'X':
        return "drop";
    case 'b':
        return "drop gradient";
    case 'T':
        return "turn";
    case 'O':
        return "copy to host";
    case 'P':
        return "copy back";
    case 'S':
        return step->other ? "copy" : "save state";
    default:
        return "restore state";
    }
}

static unsigned paint_of(const trace_step *step)
{
    if (step->letter == 'B')
        return PAINT_GREEN;
    if (step->letter != 'F' && step->letter != 'A')
        return PAINT_DIM;
    return step->again ? PAINT_YELLOW : PAINT_BLUE;
}

static void print_moment(const trace *t, double start, double during)
{
    char time[TEXT_SIZE], bytes[TEXT_SIZE];
    if (t->timed)
        printf("  %12s  %9s", text_time(start, t->unit, time), text_bytes(during, bytes));
}

static void print_run(const struct cli *cli, const trace *t, const run *r)
{
    const trace_step *begin = &t->steps[r->first], *end = &t->steps[r->last];
    char range[48];
    if (r->count > 1)
        snprintf(range, sizeof range, "%u..%u", r->from, r->to);
    else if (!begin->other && (begin->letter == 'S' || begin->letter == 'R'))
        snprintf(range, sizeof range, "%u v%u", r->from, begin->version);
    else
        snprintf(range, sizeof range, "%u", r->from);
    printf("  %s%c %-11s %-15s%s", draw_paint(cli, paint_of(begin)), begin->letter, range,
           meaning(begin), draw_plain(cli));
    print_moment(t, begin->start, r->during);
    fputs("  ", stdout);
    text_safe(stdout, begin->id);
    if (r->count > 1) {
        fputs(" .. ", stdout);
        text_safe(stdout, end->id);
    }
    if (begin->alternative[0]) {
        fputs("  with ", stdout);
        text_safe(stdout, begin->alternative);
    }
    putchar('\n');
}

static void print_step(const struct cli *cli, const trace *t, const trace_step *step)
{
    run r = {.first = (size_t)(step - t->steps),
             .last = (size_t)(step - t->steps),
             .count = 1,
             .from = step->index,
             .to = step->index,
             .during = step->during};
    if (!is_drop(step) && step->letter != 'O' && step->letter != 'P') {
        print_run(cli, t, &r);
        return;
    }
    printf("  %s%c %-11u %-15s%s", draw_paint(cli, PAINT_DIM), step->letter, step->index,
           meaning(step), draw_plain(cli));
    print_moment(t, step->start, step->during);
    fputs(step->input ? "  graph input" : step->saved ? "  saved of " : "  ", stdout);
    text_safe(stdout, step->id);
    if (step->version > 0) /* result of a node */
        printf(":%u", step->version);
    putchar('\n');
}

static void print_runs(const struct cli *cli, const trace *t, const run *runs, size_t n)
{
    bool all = n <= SHOWN_FIRST + SHOWN_LAST + 1;
    for (size_t i = 0; i < n; i++) {
        if (!all && i == SHOWN_FIRST) {
            printf("  %s.. %zu more lines (--all lists every operation)%s\n",
                   draw_paint(cli, PAINT_DIM), n - SHOWN_FIRST - SHOWN_LAST, draw_plain(cli));
            i = n - SHOWN_LAST;
        }
        print_run(cli, t, &runs[i]);
    }
}

void operations_print(const struct cli *cli, const trace *t)
{
    size_t n;
    run *runs = find_runs(t, &n);
    printf("\n%soperations%s  (", draw_paint(cli, PAINT_BOLD), draw_plain(cli));
    if (t->timed)
        fputs("start, most bytes alive, nodes; ", stdout);
    printf("%zu in all%s)\n\n", t->length, cli->all ? "" : ", drops left out");
    if (cli->all || !runs)
        for (size_t i = 0; i < t->length; i++)
            print_step(cli, t, &t->steps[i]);
    else
        print_runs(cli, t, runs, n);
    free(runs);
}
