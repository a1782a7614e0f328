/* Memory over time: one column per slice of the step, as high as the most that was alive in it. */
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HEIGHT 14
#define SHOW_BUDGET_UP_TO 1.6 /* times the peak: beyond, the line would press the bars flat */

/* What a column is made of. */
typedef struct columns {
    double *memory;
    double (*shares)[3]; /* time of forward, recomputation, backward */
    unsigned char *paint;
    char *strip;
    size_t width;
} columns;

static remat_status columns_init(columns *c, size_t width, remat_error *error)
{
    *c = (columns){.width = width};
    c->memory = calloc(width, sizeof *c->memory);
    c->shares = calloc(width, sizeof *c->shares);
    c->paint = calloc(width, 1);
    c->strip = calloc(width + 1, 1);
    return c->memory && c->shares && c->paint && c->strip ? REMAT_OK : remat_fail_memory(error);
}

static void columns_clear(columns *c)
{
    free(c->memory);
    free(c->shares);
    free(c->paint);
    free(c->strip);
}

/* The kind of work an operation is: forward, again, backward; -1: none that takes the compute
 * stream. */
static int work_of(const trace_step *step)
{
    if (step->letter == 'F' || step->letter == 'A')
        return step->again ? 1 : 0;
    return step->letter == 'B' ? 2 : -1;
}

static void add_step(columns *c, const trace_step *step, double from, double to)
{
    double last = (double)(c->width - 1);
    size_t first = (size_t)fmin(from, last), end = (size_t)fmin(ceil(to), last + 1);
    int work = work_of(step);
    for (size_t x = first; x < end || x == first; x++) {
        double share = fmin(to, (double)x + 1) - fmax(from, (double)x);
        c->memory[x] = fmax(c->memory[x], step->during);
        if (work >= 0)
            c->shares[x][work] += fmax(share, 1e-12);
    }
}

static void fill(columns *c, const trace *t)
{
    bool by_time = t->makespan > 0;
    double scale = (double)c->width / (by_time ? t->makespan : (double)(t->length ? t->length : 1));
    for (size_t i = 0; i < t->length; i++) {
        const trace_step *step = &t->steps[i];
        if (by_time)
            add_step(c, step, step->start * scale, step->end * scale);
        else
            add_step(c, step, (double)i * scale, (double)(i + 1) * scale);
    }
}

static void name_columns(columns *c)
{
    static const unsigned char paints[] = {PAINT_BLUE, PAINT_YELLOW, PAINT_GREEN};
    for (size_t x = 0; x < c->width; x++) {
        const double *shares = c->shares[x];
        size_t most = shares[1] > shares[0] ? 1 : 0;
        if (shares[2] > shares[most])
            most = 2;
        bool idle = shares[most] <= 0;
        c->strip[x] = idle ? ' ' : "frb"[most];
        c->paint[x] = idle ? PAINT_DIM : paints[most];
    }
}

static void print_legend(const struct cli *cli, bool budget_is_above, double budget)
{
    char text[TEXT_SIZE];
    printf("\n%*s%sf%s forward   %sr%s recomputed   %sb%s backward", PLOT_MARGIN, "",
           draw_paint(cli, PAINT_BLUE), draw_plain(cli), draw_paint(cli, PAINT_YELLOW),
           draw_plain(cli), draw_paint(cli, PAINT_GREEN), draw_plain(cli));
    if (budget_is_above)
        printf("   (the budget of %s is above the plot)", text_bytes(budget, text));
    putchar('\n');
}

static double highest(const columns *c)
{
    double most = 1;
    for (size_t x = 0; x < c->width; x++)
        most = fmax(most, c->memory[x]);
    return most;
}

static void draw(const struct cli *cli, const trace *t, columns *c)
{
    char right[TEXT_SIZE], left[TEXT_SIZE];
    fill(c, t);
    name_columns(c);
    double peak = highest(c);
    bool shown = t->budget > 0 && t->budget <= SHOW_BUDGET_UP_TO * peak;
    struct plot plot = {.values = c->memory,
                        .paint = c->paint,
                        .width = c->width,
                        .height = HEIGHT,
                        .top = shown ? fmax(peak, t->budget) : peak,
                        .line = shown ? t->budget : (double)NAN,
                        .line_label = "budget",
                        .label = text_bytes,
                        .left = text_time(0, t->unit, left),
                        .right = text_time(t->makespan, t->unit, right),
                        .strip = c->strip};
    draw_plot(cli, &plot);
    print_legend(cli, t->budget > 0 && !shown, t->budget);
}

void timeline_print(const struct cli *cli, const trace *t)
{
    columns c;
    remat_error error;
    printf("\n%smemory%s\n\n", draw_paint(cli, PAINT_BOLD), draw_plain(cli));
    if (!columns_init(&c, cli->width - PLOT_MARGIN - 1, &error))
        draw(cli, t, &c);
    else
        printf("  %s\n", error.message);
    columns_clear(&c);
}
