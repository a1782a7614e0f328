/* The numbers of a schedule, one a line. */
#include "cli.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

void summary_line(const struct cli *cli, const char *name, const char *format, ...)
{
    va_list arguments;
    printf("  %s%-14s%s", draw_paint(cli, PAINT_DIM), name, draw_plain(cli));
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
}

static void print_claim(const struct cli *cli, const json_t *schedule)
{
    const char *solver = json_get_text(schedule, "solver");
    const char *optimality = json_get_text(schedule, "optimality");
    const char *requested = json_get_text(schedule, "requested_solver");
    fputs(draw_paint(cli, PAINT_BOLD), stdout);
    text_safe(stdout, solver[0] ? solver : "schedule");
    fputs(draw_plain(cli), stdout);
    if (strcmp(requested, "auto") == 0)
        fputs(" (auto)", stdout);
    bool class = strcmp(optimality, "optimal-in-class") == 0;
    if (optimality[0]) {
        fputs(class ? ", optimal among " : ", ", stdout);
        text_safe(stdout, class ? json_get_text(schedule, "class") : optimality);
    }
    if (json_is_true(json_object_get(schedule, "verified")))
        fputs(", verified", stdout);
    putchar('\n');
}

void summary_in_flight(const struct cli *cli, const json_t *answer)
{
    char a[TEXT_SIZE], b[TEXT_SIZE];
    double in_flight = json_get_number(answer, "in_flight");
    double output = json_get_number(answer, "output_bytes");
    if (!(in_flight > 1))
        return;
    if (isnan(output))
        summary_line(cli, "in flight", "%.0f micro-batches, each holds %s at the turn", in_flight,
                     text_bytes(json_get_number(answer, "held"), a));
    else
        summary_line(cli, "in flight",
                     "%.0f micro-batches, each holds %s at the turn; its output, %s, is %s",
                     in_flight, text_bytes(json_get_number(answer, "held"), a),
                     text_bytes(output, b), json_get_text(answer, "output"));
}

static void print_memory(const struct cli *cli, const json_t *schedule)
{
    char a[TEXT_SIZE], b[TEXT_SIZE];
    double budget = json_get_number(schedule, "budget"), peak = json_get_number(schedule, "peak");
    double store_all = json_get_number(schedule, "store_all_peak");
    double arena = json_get_number(schedule, "arena");
    if (json_object_get(schedule, "model")) {
        summary_line(cli, "budget", "%.0f slots", budget);
        summary_line(cli, "peak", "%.0f slots; storing everything takes %.0f", peak, store_all);
        return;
    }
    double reordered = json_get_number(schedule, "reordered_peak");
    if (!isnan(budget))
        summary_line(cli, "budget", "%s", text_bytes(budget, a));
    summary_in_flight(cli, schedule);
    if (!isnan(reordered))
        summary_line(cli, "order", "%s by order alone, nothing run twice; %s in the order given",
                     text_bytes(reordered, a), text_bytes(store_all, b));
    if (isnan(store_all))
        summary_line(cli, "peak", "%s", text_bytes(peak, a));
    else
        summary_line(cli, "peak", "%s, %.1f %% of storing everything (%s)", text_bytes(peak, a),
                     store_all > 0 ? 100 * peak / store_all : 100, text_bytes(store_all, b));
    if (!isnan(arena))
        summary_line(cli, "arena", "%s, %.2f %% more than the peak", text_bytes(arena, a),
                     peak > 0 ? 100 * (arena / peak - 1) : 0);
}

static void print_time(const struct cli *cli, const json_t *schedule)
{
    char a[TEXT_SIZE], b[TEXT_SIZE], c[TEXT_SIZE];
    const char *unit = json_get_text(schedule, "time_unit");
    double makespan = json_get_number(schedule, "makespan");
    double bound = json_get_number(schedule, "lower_bound");
    double overhead = json_get_number(schedule, "overhead");
    bool own = json_object_get(schedule, "bound_class"); /* an older answer's is its class's */
    if (isnan(overhead))
        summary_line(cli, "makespan", "%s", text_time(makespan, unit, a));
    else
        summary_line(cli, "makespan", "%s, overhead %s over storing everything (%s)",
                     text_time(makespan, unit, a), text_percent(overhead, b),
                     text_time(json_get_number(schedule, "store_all_makespan"), unit, c));
    if (!isnan(bound))
        summary_line(cli, "lower bound", "%s, gap %s (%s)", text_time(bound, unit, a),
                     text_percent(json_get_number(schedule, "gap"), b),
                     json_get_text(schedule, own ? "bound_class" : "class"));
}

void summary_print(const struct cli *cli, const json_t *schedule, const char *cache)
{
    char a[TEXT_SIZE];
    double seconds = json_get_number(schedule, "solve_seconds");
    print_claim(cli, schedule);
    print_memory(cli, schedule);
    print_time(cli, schedule);
    summary_line(cli, "operations", "%zu on %zu nodes",
                 json_array_size(json_object_get(schedule, "operations")),
                 json_array_size(json_object_get(schedule, "nodes")));
    if (!isnan(seconds))
        summary_line(cli, "solved in", "%s%s%s", text_seconds(seconds, a), cache[0] ? ", " : "",
                     strcmp(cache, "hit") == 0     ? "and remembered"
                     : strcmp(cache, "table") == 0 ? "out of a stored table"
                     : cache[0]                    ? "just now"
                                                   : "");
    if (json_is_true(json_object_get(schedule, "cut_short")))
        summary_line(cli, "cut short",
                     "the best until the server's limit of a solve; not remembered");
    if (json_get_text(schedule, "schedule_id")[0])
        summary_line(cli, "schedule", "%.64s", json_get_text(schedule, "schedule_id"));
    if (json_get_text(schedule, "profile_id")[0])
        summary_line(cli, "profile", "%.64s", json_get_text(schedule, "profile_id"));
}

void explanation_print(const struct cli *cli, const json_t *explanation)
{
    const char *word = json_get_text(explanation, "text");
    if (!*word)
        return;
    putchar('\n');
    for (size_t column = 0; *word; word += strspn(word, " ")) {
        size_t length = strcspn(word, " ");
        if (column > 0 && column + 1 + length > cli->width) {
            putchar('\n');
            column = 0;
        }
        if (column > 0)
            putchar(' ');
        text_safe_part(stdout, word, length);
        column += length + (column > 0);
        word += length;
    }
    putchar('\n');
}
