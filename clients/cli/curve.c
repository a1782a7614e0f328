/* remat curve: the trade-off between memory and time, as a table and a plot. */
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HEIGHT 10
#define DEFAULT_POINTS 20

/* A point that can be plotted. */
typedef struct feasible {
    double budget, overhead; /* overhead falls as budget grows */
} feasible;

static int compare(const void *a, const void *b)
{
    const feasible *p = a, *q = b;
    return p->budget < q->budget ? -1 : p->budget > q->budget;
}

static const char *label_percent(double value, char text[TEXT_SIZE])
{
    return text_percent(value / 100, text);
}

/* Upper edge of the plot. One tiny budget must not press all the others flat: what is far beyond
 * nine tenths of the points is cut. points: by falling overhead. */
static double find_top(const feasible *points, size_t n)
{
    double most = 100 * points[0].overhead, usual = 100 * points[n / 10].overhead;
    if (n >= 5 && n / 10 == 0)
        usual = 100 * points[1].overhead;
    return fmax(1, most > 3 * usual && usual > 0 ? 1.5 * usual : most);
}

/* Between two budgets that were asked, the schedule of the smaller one still fits. */
static double *step_values(const feasible *points, size_t n, size_t width)
{
    double *values = calloc(width, sizeof *values);
    double low = points[0].budget, high = points[n - 1].budget;
    for (size_t x = 0, i = 0; values && x < width; x++) {
        double budget = low + (high - low) * (double)x / (double)(width - 1);
        while (i + 1 < n && points[i + 1].budget <= budget * (1 + 1e-12))
            i++;
        values[x] = 100 * points[i].overhead;
    }
    return values;
}

/* Bytes, or units of another machine. */
static const char *text_amount(const struct cli *cli, double amount, char text[TEXT_SIZE])
{
    const remat_machine *machine = subject_machine(cli);
    if (!machine)
        return text_bytes(amount, text);
    snprintf(text, TEXT_SIZE, "%.0f %ss", amount, machine->unit);
    return text;
}

static void plot_points(const struct cli *cli, const feasible *points, size_t n)
{
    char left[TEXT_SIZE], right[TEXT_SIZE], most[TEXT_SIZE];
    struct plot plot = {.width = cli->width - PLOT_MARGIN - 1,
                        .height = HEIGHT,
                        .top = find_top(points, n),
                        .line = (double)NAN,
                        .label = label_percent,
                        .left = text_amount(cli, points[0].budget, left),
                        .right = text_amount(cli, points[n - 1].budget, right)};
    double *values = step_values(points, n, plot.width);
    if (values) {
        printf("\n%soverhead over budget%s\n\n", draw_paint(cli, PAINT_BOLD), draw_plain(cli));
        plot.values = values;
        draw_plot(cli, &plot);
        if (100 * points[0].overhead > plot.top * (1 + 1e-9))
            printf("%*s(cut at the left, where it is %s)\n", PLOT_MARGIN, "",
                   text_percent(points[0].overhead, most));
    }
    free(values);
}

static size_t collect(const json_t *list, feasible *points)
{
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *point = json_array_get(list, i);
        if (json_is_true(json_object_get(point, "feasible")))
            points[n++] =
                (feasible){json_get_number(point, "budget"), json_get_number(point, "overhead")};
    }
    qsort(points, n, sizeof *points, compare);
    return n;
}

static void print_point(const struct cli *cli, const json_t *point, const char *unit)
{
    char budget[TEXT_SIZE], peak[TEXT_SIZE], makespan[TEXT_SIZE], overhead[TEXT_SIZE];
    text_amount(cli, json_get_number(point, "budget"), budget);
    if (!json_is_true(json_object_get(point, "feasible"))) {
        printf("  %10s  %10s\n", budget, "none found");
        return;
    }
    printf("  %10s  %10s  %14s  %10s  ", budget,
           text_amount(cli, json_get_number(point, "peak"), peak),
           text_time(json_get_number(point, "makespan"), unit, makespan),
           text_percent(json_get_number(point, "overhead"), overhead));
    text_safe(stdout, json_get_text(point, "solver"));
    putchar('\n');
}

static int print_curve(struct cli *cli, const struct subject *s, const json_t *list,
                       const char *text, const char *cache)
{
    char unit[8];
    bool done;
    size_t n = json_array_size(list);
    feasible *points = calloc(n + 1, sizeof *points);
    remat_status status = !points ? remat_fail_memory(&cli->error)
                          : text  ? cli_write_json(cli, text, &done)
                                  : cli_write_json_value(cli, list, &done);
    size_t n_feasible = status ? 0 : collect(list, points);
    if (!status && !done) {
        subject_time_unit(cli, s, unit);
        printf("%s  %10s  %10s  %14s  %10s  solver%s\n", draw_paint(cli, PAINT_DIM), "budget",
               "peak", "makespan", "overhead", draw_plain(cli));
        for (size_t i = 0; i < n; i++)
            print_point(cli, json_array_get(list, i), unit);
        if (n_feasible > 1 && points[n_feasible - 1].budget > points[0].budget)
            plot_points(cli, points, n_feasible);
    }
    free(points);
    if (status)
        return cli_failed(cli);
    return n_feasible > 0 ? CLI_OK : CLI_NO;
}

int command_curve(struct cli *cli)
{
    struct subject s = {0};
    if (cli->n_arguments != 1)
        return cli_usage(cli, "curve takes one PROFILE");
    if (!cli->points && !cli->budgets && !subject_machine(cli))
        cli->points = DEFAULT_POINTS;
    if (subject_find(cli, cli->arguments[0], &s))
        return cli_failed(cli);
    if (cli->local && !s.document)
        return cli_usage(cli, "--local needs the profile itself, not its id");
    int code = subject_check_amounts(cli, &s);
    if (!code)
        code = ask_question(cli, &s, REMAT_ASK_TRADEOFF, print_curve);
    subject_clear(&s);
    return code;
}
