/* What remat plan prints. */
#include "cli.h"

#include <math.h>
#include <string.h>

static void print_bytes(const struct cli *cli, const json_t *bytes)
{
    static const struct {
        const char *name, *label;
    } lines[] = {{"weights", "weights"},       {"master_weight_bytes", "masters"},
                 {"gradients", "gradients"},   {"optimizer_states", "states"},
                 {"cached_weights", "cached"}, {"fp8_copies", "fp8"},
                 {"buckets", "buckets"},       {"gathered", "gathered"},
                 {"workspaces", "cuBLAS"},     {"context", "context"},
                 {"communicator", "NCCL"},     {"fragmentation", "gaps"},
                 {"activations", "left"},      {"gradient_bytes", "for gradients"}};
    const double memory = json_get_number(bytes, "memory");
    char text[TEXT_SIZE];
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const double size = json_get_number(bytes, lines[i].name);
        if (size > 0 || strcmp(lines[i].name, "activations") == 0)
            summary_line(cli, lines[i].label, "%10s  %5.1f %%", text_bytes(size, text),
                         100 * size / memory);
    }
    const double taken = json_get_number(bytes, "taken_bytes");
    if (taken >= memory)
        summary_line(cli, "", "%s more than the device has", text_bytes(taken - memory, text));
}

/* As PyTorch and the driver will show it. */
static void print_memory(const struct cli *cli, const json_t *memory)
{
    char allocated[TEXT_SIZE], reserved[TEXT_SIZE], driver[TEXT_SIZE], device[TEXT_SIZE];
    summary_line(cli, "memory", "%s allocated, %s reserved, %s by the driver, of %s",
                 text_bytes(json_get_number(memory, "allocated_bytes"), allocated),
                 text_bytes(json_get_number(memory, "reserved_bytes"), reserved),
                 text_bytes(json_get_number(memory, "driver_bytes"), driver),
                 text_bytes(json_get_number(memory, "device_bytes"), device));
}

static void print_times(const struct cli *cli, const json_t *answer)
{
    static const struct {
        const char *name, *label;
    } parts[] = {{"compute_seconds", "compute"},
                 {"recomputation_seconds", "recomputation"},
                 {"communication_seconds", "communication"},
                 {"update_seconds", "optimizer"}};
    char line[160] = "", text[TEXT_SIZE];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const double seconds = json_get_number(answer, parts[i].name);
        const size_t at = strlen(line);
        if (seconds > 0)
            snprintf(line + at, sizeof line - at, "%s%s %s", at ? ", " : "", parts[i].label,
                     text_seconds(seconds, text));
    }
    summary_line(cli, "of that", "%s", line);
}

/* As training is usually run; the first, store-all, stands there already. */
static void print_ways(const struct cli *cli, const json_t *answer)
{
    const json_t *ways = json_object_get(answer, "ways");
    char a[TEXT_SIZE], b[TEXT_SIZE];
    for (size_t i = 1; i < json_array_size(ways); i++) {
        const json_t *way = json_array_get(ways, i);
        summary_line(cli, json_get_text(way, "way"), "%s of activations, step %s: %s",
                     text_bytes(json_get_number(way, "peak"), a),
                     text_seconds(json_get_number(way, "step_seconds"), b),
                     json_is_true(json_object_get(way, "fits")) ? "fits" : "does not fit");
    }
}

/* What would fit, cheapest first. */
static void print_changes(const struct cli *cli, const json_t *changes)
{
    char a[TEXT_SIZE], b[TEXT_SIZE];
    for (size_t i = 0; i < json_array_size(changes); i++) {
        const json_t *one = json_array_get(changes, i);
        const char *way = json_get_text(one, "way");
        const bool own = strcmp(way, "remat") == 0;
        summary_line(cli, i ? "" : "would fit", "%-28s %s by the driver, step %s%s%s",
                     json_get_text(one, "arguments"),
                     text_bytes(json_get_number(one, "driver_bytes"), a),
                     text_seconds(json_get_number(one, "step_seconds"), b), own ? "" : ", by ",
                     own ? "" : way);
    }
}

/* "; 5.92 samples a second" of a model; "" of a profile, which has no samples. */
static const char *samples_text(const json_t *answer, char *text)
{
    const double rate = json_get_number(answer, "samples_per_second");
    text[0] = '\0';
    if (!isnan(rate))
        snprintf(text, TEXT_SIZE, "; %.4g samples a second", rate);
    return text;
}

static void print_schedule(const struct cli *cli, const json_t *answer)
{
    char a[TEXT_SIZE], b[TEXT_SIZE], c[TEXT_SIZE], samples[TEXT_SIZE];
    const json_t *schedule = json_object_get(answer, "schedule");
    const double all = json_get_number(answer, "store_all_peak");
    const bool keeps = json_is_true(json_object_get(answer, "store_all_fits"));
    summary_line(cli, "store-all", "%s of activations, step %s: %s", text_bytes(all, a),
                 text_seconds(json_get_number(answer, "store_all_seconds"), b),
                 keeps ? "fits" : "does not fit");
    print_ways(cli, answer);
    if (!schedule) {
        if (json_get_text(answer, "refusal")[0])
            summary_line(cli, "fits", "no: %s", json_get_text(answer, "refusal"));
        print_changes(cli, json_object_get(answer, "changes"));
        return;
    }
    const char *solver = json_get_text(schedule, "solver");
    summary_line(cli, "fits", "yes, in %s of activations with addresses by %s%s",
                 text_bytes(json_get_number(schedule, "arena"), a), solver,
                 json_is_true(json_object_get(schedule, "verified")) ? ", verified" : "");
    print_memory(cli, json_object_get(answer, "memory_use"));
    summary_line(
        cli, "step", "%s, overhead %s%s", text_seconds(json_get_number(answer, "step_seconds"), a),
        text_percent(json_get_number(schedule, "overhead"), b), samples_text(answer, samples));
    print_times(cli, answer);
    if (!isnan(json_get_number(schedule, "lower_bound")))
        summary_line(cli, "gap", "%s to the lower bound",
                     text_percent(json_get_number(schedule, "gap"), c));
}

/* Of the largest batches by way, the largest: the first of equal ones, which is the simplest. */
static const json_t *largest_of(const json_t *answer, bool offload)
{
    const json_t *most = NULL;
    size_t k;
    json_t *one;
    json_array_foreach(json_object_get(answer, "largest"), k, one)
    {
        if (json_is_true(json_object_get(one, "offload")) == offload &&
            json_get_number(one, "batch") > (most ? json_get_number(most, "batch") : 0))
            most = one;
    }
    return most;
}

static void print_largest(const struct cli *cli, const json_t *answer)
{
    const json_t *without = largest_of(answer, false), *with = largest_of(answer, true);
    char more[TEXT_SIZE] = "";
    if (with && (!without || json_get_number(with, "batch") > json_get_number(without, "batch")))
        snprintf(more, sizeof more, "%sbatch %.0f or more, %s with offloading", without ? "; " : "",
                 json_get_number(with, "batch"), json_get_text(with, "way"));
    if (without)
        summary_line(cli, "largest", "batch %.0f or more, %s%s", json_get_number(without, "batch"),
                     json_get_text(without, "way"), more);
    else if (with)
        summary_line(cli, "largest", "%s", more);
}

static void print_rows(const struct cli *cli, const json_t *answer)
{
    const json_t *rows = json_object_get(answer, "rows"),
                 *best = json_object_get(answer, "best_batch");
    if (!json_is_array(rows))
        return;
    const json_t *first = json_object_get(json_array_get(rows, 0), "ways");
    printf("\n  samples a second\n  %12s", "batch");
    for (size_t k = 0; k < json_array_size(first); k++) {
        const json_t *way = json_array_get(first, k);
        char head[24];
        snprintf(head, sizeof head, "%.12s%s", json_get_text(way, "way"),
                 json_is_true(json_object_get(way, "offload")) ? "+off" : "");
        printf(" %13s", head);
    }
    putchar('\n');
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i), *ways = json_object_get(row, "ways");
        printf("  %12.0f", json_get_number(row, "batch"));
        for (size_t k = 0; k < json_array_size(ways); k++) {
            const double rate = json_get_number(json_array_get(ways, k), "samples_per_second");
            if (isnan(rate))
                printf(" %13s", "-");
            else
                printf(" %13.4g", rate);
        }
        putchar('\n');
    }
    if (json_is_object(best))
        summary_line(cli, "best", "%.4g samples a second at batch %.0f, %s%s",
                     json_get_number(best, "samples_per_second"), json_get_number(best, "batch"),
                     json_get_text(best, "way"),
                     json_is_true(json_object_get(best, "offload")) ? " with offloading" : "");
    print_largest(cli, answer);
}

/* "zero3 over 64 ranks (dp 8, tp 8) on nvlink4+ndr" */
static void print_ranks(const json_t *parallel, const char *network)
{
    const char *name, *between = " (";
    json_t *ranks;
    printf(", %s over %.0f ranks", json_get_text(parallel, "kind"),
           json_get_number(parallel, "ranks"));
    json_object_foreach(json_object_get(parallel, "mesh"), name, ranks)
    {
        printf("%s%s %" JSON_INTEGER_FORMAT, between, name, json_integer_value(ranks));
        between = ", ";
    }
    printf(") on %s", network);
}

/* ---- pipelines ---- */

static void print_stages(const json_t *answer)
{
    const json_t *stages = json_object_get(json_object_get(answer, "pipeline"), "stages");
    char a[TEXT_SIZE], b[TEXT_SIZE], c[TEXT_SIZE], d[TEXT_SIZE];
    if (!stages)
        return;
    printf("\n  rank  in flight    forward   backward   overhead      held    memory  schedule, "
           "nodes\n");
    for (size_t i = 0; i < json_array_size(stages); i++) {
        const json_t *stage = json_array_get(stages, i),
                     *schedule = json_object_get(stage, "schedule");
        char overhead[TEXT_SIZE];
        printf("  %4.0f  %9.0f %10s %10s %10s %9s %9s  %.16s, %s to %s\n",
               json_get_number(stage, "rank"), json_get_number(stage, "in_flight"),
               text_seconds(json_get_number(stage, "forward_seconds"), a),
               text_seconds(json_get_number(stage, "backward_seconds"), b),
               text_percent(json_get_number(schedule, "overhead"), overhead),
               text_bytes(json_get_number(stage, "held_bytes"), c),
               text_bytes(json_get_number(stage, "memory"), d),
               json_get_text(schedule, "schedule_id"), json_get_text(stage, "first_node"),
               json_get_text(stage, "last_node"));
    }
}

/* With equal cuts, as pipelines are usually run. */
static void print_equal_ways(const struct cli *cli, const json_t *ways)
{
    char a[TEXT_SIZE], b[TEXT_SIZE];
    for (size_t i = 0; i < json_array_size(ways); i++) {
        const json_t *way = json_array_get(ways, i);
        if (json_is_true(json_object_get(way, "fits")))
            summary_line(cli, json_get_text(way, "way"), "equal cuts: step %s, fits in %s",
                         text_seconds(json_get_number(way, "step_seconds"), a),
                         text_bytes(json_get_number(way, "memory"), b));
        else
            summary_line(
                cli, json_get_text(way, "way"), "equal cuts: step %s, but rank %.0f lacks %s",
                text_seconds(json_get_number(way, "step_seconds"), a), json_get_number(way, "rank"),
                text_bytes(json_get_number(way, "lacks"), b));
    }
}

static void print_pipeline(const struct cli *cli, const json_t *answer)
{
    char a[TEXT_SIZE], b[TEXT_SIZE], samples[TEXT_SIZE];
    const json_t *parallel = json_object_get(answer, "parallel"),
                 *pipeline = json_object_get(answer, "pipeline");
    const double chunks = json_get_number(parallel, "chunks");
    if (chunks > 1)
        snprintf(samples, sizeof samples, ", %.0f stages a rank", chunks);
    summary_line(cli, "pipeline", "%s%s, %.0f micro-batches, runtime %s",
                 json_get_text(parallel, "schedule"), chunks > 1 ? samples : "",
                 json_get_number(parallel, "microbatches"), json_get_text(parallel, "runtime"));
    print_equal_ways(cli, json_object_get(pipeline, "ways"));
    if (!json_is_true(json_object_get(answer, "fits"))) {
        summary_line(cli, "fits", "no: %s", json_get_text(answer, "refusal"));
        print_changes(cli, json_object_get(answer, "changes"));
        return;
    }
    const char *way = json_get_text(pipeline, "way");
    summary_line(cli, "step", "%s%s%s, ranks wait for %s of it%s",
                 text_seconds(json_get_number(answer, "step_seconds"), a), way[0] ? " by " : "",
                 way, text_percent(json_get_number(pipeline, "bubble"), b),
                 samples_text(answer, samples));
    if (json_get_number(pipeline, "exchange_seconds") > 0)
        summary_line(cli, "exchange", "%s, of weights and gradients that passes do not hide",
                     text_seconds(json_get_number(pipeline, "exchange_seconds"), a));
    if (!way[0])
        summary_line(cli, "gap", "%s to the lower bound, %s",
                     text_percent(json_get_number(pipeline, "gap"), a),
                     text_seconds(json_get_number(pipeline, "lower_bound_seconds"), b));
}

int plan_print(struct cli *cli, const json_t *answer, const char *text, const char *cache)
{
    bool done;
    remat_status status =
        text ? cli_write_json(cli, text, &done) : cli_write_json_value(cli, answer, &done);
    if (status)
        return cli_failed(cli);
    const int code = json_is_true(json_object_get(answer, "fits")) ? CLI_OK : CLI_NO;
    if (done)
        return code;
    const json_t *parallel = json_object_get(answer, "parallel"),
                 *lora = json_object_get(answer, "lora");
    printf("%s%s%s on %s: %.0f parameters, %s, %s", draw_paint(cli, PAINT_BOLD),
           json_get_text(answer, "name"), draw_plain(cli), json_get_text(answer, "device"),
           json_get_number(answer, "parameters"), json_get_text(answer, "precision"),
           json_get_text(answer, "optimizer"));
    if (lora)
        printf(", adapters of rank %.0f with %.0f of them", json_get_number(lora, "rank"),
               json_get_number(answer, "trained_parameters"));
    if (json_get_number(parallel, "ranks") > 1)
        print_ranks(parallel, json_get_text(answer, "network"));
    putchar('\n');
    if (json_is_true(json_object_get(answer, "rescaled")))
        summary_line(cli, "times", "of %s, rescaled by the rooflines of both: an estimate",
                     json_get_text(answer, "times_of"));
    const bool staged = json_object_get(answer, "pipeline") != NULL;
    if (staged) {
        print_pipeline(cli, answer);
    } else {
        print_bytes(cli, json_object_get(answer, "table"));
        print_schedule(cli, answer);
    }
    for (size_t i = 0; i < json_array_size(json_object_get(answer, "assumptions")); i++)
        summary_line(cli, i ? "" : "assumed", "%s",
                     json_string_value(json_array_get(json_object_get(answer, "assumptions"), i)));
    if (strcmp(cache, "hit") == 0)
        summary_line(cli, "solved", "before, and remembered");
    print_rows(cli, answer);
    print_stages(answer);
    return code;
}
