/* Plots of block characters: bars of an eighth of a row's precision, an axis, a horizontal line. */
#include "cli.h"

#include <math.h>
#include <string.h>

const char *draw_paint(const struct cli *cli, unsigned paint)
{
    static const char *const codes[] = {"",         "\033[34m", "\033[33m", "\033[32m",
                                        "\033[31m", "\033[2m",  "\033[1m"};
    return cli->colour ? codes[paint] : "";
}

const char *draw_plain(const struct cli *cli)
{
    return cli->colour ? "\033[0m" : "";
}

/* The character of a cell that is filled from below by so many eighths. */
static const char *block(const struct cli *cli, int eighths)
{
    static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    if (cli->ascii)
        return eighths > 4 ? "#" : eighths > 0 ? "." : " ";
    return blocks[eighths];
}

static int cell_eighths(const struct plot *plot, size_t column, unsigned row)
{
    double value = plot->values[column];
    if (isnan(value))
        return 0;
    int all = (int)lround(value / plot->top * plot->height * 8);
    if (value > 0 && all == 0)
        all = 1; /* something is not nothing */
    int here = all - (int)row * 8;
    return here < 0 ? 0 : here > 8 ? 8 : here;
}

static void print_margin(const struct cli *cli, const struct plot *plot, double value)
{
    char text[TEXT_SIZE];
    const char *tick = cli->ascii ? "+" : "┤";
    if (isnan(value))
        printf("%*s %s", PLOT_MARGIN - 2, "", cli->ascii ? "|" : "│");
    else
        printf("%*s %s", PLOT_MARGIN - 2, plot->label(value, text), tick);
}

static void print_row(const struct cli *cli, const struct plot *plot, unsigned row)
{
    unsigned paint = PAINT_NONE;
    for (size_t x = 0; x < plot->width; x++) {
        int eighths = cell_eighths(plot, x, row);
        unsigned wanted = plot->paint && eighths > 0 ? plot->paint[x] : PAINT_NONE;
        if (wanted != paint)
            printf("%s%s", draw_plain(cli), draw_paint(cli, wanted));
        paint = wanted;
        fputs(block(cli, eighths), stdout);
    }
    printf("%s\n", paint != PAINT_NONE ? draw_plain(cli) : "");
}

/* The line has a row of its own, between two rows of bars; bars go through it. */
static void print_line(const struct cli *cli, const struct plot *plot, unsigned row)
{
    print_margin(cli, plot, plot->line);
    fputs(draw_paint(cli, PAINT_RED), stdout);
    size_t end = plot->width - text_columns(plot->line_label) - 1;
    for (size_t x = 0; x < plot->width; x++) {
        bool through = row < plot->height && cell_eighths(plot, x, row) > 0;
        if (x == end && !through) {
            printf(" %s", plot->line_label);
            break;
        }
        fputs(cli->ascii ? (through ? "#" : "-") : through ? "█" : "╌", stdout);
    }
    printf("%s\n", draw_plain(cli));
}

static void print_axis(const struct cli *cli, const struct plot *plot)
{
    char zero[TEXT_SIZE];
    printf("%*s %s", PLOT_MARGIN - 2, plot->label(0, zero), cli->ascii ? "+" : "└");
    for (size_t x = 0; x < plot->width; x++)
        fputs(cli->ascii ? "-" : "─", stdout);
    putchar('\n');
}

static void print_ends(const struct plot *plot)
{
    size_t left = text_columns(plot->left), right = text_columns(plot->right);
    int gap = left + right < plot->width ? (int)(plot->width - left - right) : 1;
    printf("%*s%s%*s%s\n", PLOT_MARGIN, "", plot->left, gap, "", plot->right);
}

void draw_plot(const struct cli *cli, const struct plot *plot)
{
    bool lined = !isnan(plot->line) && plot->line <= plot->top * (1 + 1e-9);
    unsigned line_row =
        lined ? (unsigned)lround(plot->line / plot->top * plot->height) : plot->height + 1;
    for (unsigned row = plot->height; row-- > 0;) {
        if (line_row == row + 1)
            print_line(cli, plot, row + 1);
        bool top = row + 1 == plot->height && line_row != plot->height;
        bool middle = row + 1 == plot->height / 2 && line_row != row + 1;
        print_margin(cli, plot, top || middle ? plot->top * (row + 1) / plot->height : (double)NAN);
        print_row(cli, plot, row);
    }
    if (line_row == 0)
        print_line(cli, plot, 0);
    print_axis(cli, plot);
    if (plot->strip)
        printf("%*s%s\n", PLOT_MARGIN, "", plot->strip);
    print_ends(plot);
}
