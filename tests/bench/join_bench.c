/* bench-join [--figures]: seconds and bytes of the join tables, pebbles and measured costs, on all
 * processors. --figures: what the report's figures 8 to 10 show, as tab-separated lines. */
#include "bench.h"
#include "equiv_chain.h"

#include "papers/join/tables.h"
#include "papers/pebble/pebble.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- pebbles ---- */

static remat_pebble_table *pebbles(uint32_t k, uint32_t edge, uint32_t slots,
                                   const remat_host *host)
{
    remat_pebble_table *table = NULL;
    if (remat_pebble_table_new(k, edge, slots, host, &table, NULL)) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return table;
}

static void bench_pebbles(uint32_t k, uint32_t edge, uint32_t slots, const remat_host *host)
{
    double best = 1e9, again = 0;
    for (int round = 0; round < 3; round++) {
        double start = bench_wall_seconds();
        remat_pebble_table *table = pebbles(k, edge, slots, host);
        double time = bench_wall_seconds() - start;
        best = time < best ? time : best;
        remat_pebble_join smaller = {.k = k};
        for (uint32_t j = 0; j < k; j++)
            smaller.length[j] = edge / 2;
        remat_steps list = {0};
        start = bench_wall_seconds();
        remat_pebble_trace(table, &smaller, 2 * k + 3, &list, NULL);
        again = bench_wall_seconds() - start;
        remat_steps_clear(&list);
        remat_pebble_table_free(table);
    }
    printf("pebbles  %u x %-4u %4u slots  %8.1f ms  %7.1f MB  a smaller request %.3f ms\n", k, edge,
           slots, 1e3 * best, (double)remat_pebble_table_bytes(k, edge, slots) / 1e6, 1e3 * again);
}

/* ---- measured costs ---- */

static remat_number number(double value)
{
    return (remat_number){.value = value, .given = true};
}

static uint64_t random_next(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* k branches of n steps with random sizes and times. */
static remat_profile *random_join(uint32_t k, uint32_t n, bool uses_output)
{
    static char ids[8][128][16];
    static const char *inputs[8 * 128], *ends[8];
    static remat_node_spec nodes[8 * 128 + 1];
    remat_input_spec input = {.id = "x", .bytes = number(1000)};
    uint64_t seed = 9273;
    size_t at = 0;
    for (uint32_t j = 0; j < k; j++)
        for (uint32_t i = 0; i < n; i++, at++) {
            snprintf(ids[j][i], sizeof ids[j][i], "v%u_%u", j, i);
            inputs[at] = i ? ids[j][i - 1] : "x";
            ends[j] = ids[j][i];
            nodes[at] = (remat_node_spec){
                .id = ids[j][i],
                .inputs = &inputs[at],
                .n_inputs = 1,
                .forward_time = number((double)(1 + random_next(&seed) % 1000)),
                .output_bytes = number((double)(1 + random_next(&seed) % 1000000)),
                .forward_workspace_bytes = number((double)(random_next(&seed) % 100000)),
                .backward_uses_inputs = true,
                .backward_uses_output = uses_output,
            };
        }
    nodes[at++] = (remat_node_spec){.id = "loss",
                                    .inputs = ends,
                                    .n_inputs = k,
                                    .forward_time = number(1),
                                    .output_bytes = number(4),
                                    .backward_uses_inputs = true};
    remat_profile_spec spec = {.format = "remat-profile/1",
                               .name = "bench",
                               .inputs = &input,
                               .n_inputs = 1,
                               .nodes = nodes,
                               .n_nodes = at};
    remat_profile *profile = NULL;
    if (remat_profile_new(&spec, &profile, NULL))
        exit(1);
    return profile;
}

static void bench_costs(uint32_t k, uint32_t n, bool uses_output, uint32_t slots,
                        const remat_host *host)
{
    remat_profile *profile = random_join(k, n, uses_output);
    join_costs *join = NULL;
    double cells, updates, best = 1e9;
    if (join_new(profile, &join, NULL))
        exit(1);
    join_setting setting = {
        .unit = 1000000ull * k * n / 2 / slots, .n_slots = slots, .round_up = true};
    join_tables_size(join, &cells, &updates);
    for (int round = 0; round < 3; round++) {
        join_tables *tables = NULL;
        double start = bench_wall_seconds();
        if (join_tables_new(join, &setting, host, &tables, NULL))
            exit(1);
        double time = bench_wall_seconds() - start;
        best = time < best ? time : best;
        join_tables_free(tables);
    }
    printf("costs    %u x %-4u %4u slots  %8.1f ms  %7.1f MB  outputs %s\n", k, n, slots,
           1e3 * best, cells * (slots + 1.0) * sizeof(double) / 1e6,
           uses_output ? "read" : "not read");
    join_free(join);
    remat_profile_free(profile);
}

/* ---- figures ---- */

/* Ratio to storing everything, unit times, of the join and of EQUIV-CHAIN. */
static void print_curve(const char *name, const remat_pebble_table *table,
                        const remat_pebble_join *join, uint32_t slots)
{
    double steps = remat_pebble_most_slots(join) - join->k, least = 2 * steps + 1;
    uint32_t forwards = remat_pebble_forwards(table, join, slots), equiv = 0;
    if (forwards == REMAT_PEBBLE_INFINITE || equiv_chain(join, slots, &equiv, NULL))
        return;
    printf("%s\t%g\t%u\t%.4f\t", name, steps / 6, slots, (forwards + steps + 1) / least);
    if (equiv == REMAT_PEBBLE_INFINITE)
        printf("-\n");
    else
        printf("%.4f\n", (equiv + steps + 1) / least);
}

/* The networks of the report's section 6, 6 L steps in all: recurrent (one branch), cross-modal
 * (two) and Siamese (three). A block of lines for each network and L. */
static void print_figures(const remat_host *host)
{
    static const char *const names[] = {"recurrent", "cross-modal", "siamese"};
    printf("# network\tL\tslots\tjoin\tequiv-chain (makespan / that of storing everything, unit "
           "times)\n");
    for (uint32_t k = 1; k <= 3; k++) {
        remat_pebble_table *table = pebbles(k, 150 / k, 150 + k, host);
        for (uint32_t l = 5; l <= 25; l += 5) {
            const uint32_t length = 6 * l / k;
            const remat_pebble_join join = {.k = k, .length = {length, length, length}};
            for (uint32_t c = remat_pebble_least_slots(&join); c <= 6 * l + k; c++)
                print_curve(names[k - 1], table, &join, c);
            printf("\n\n");
        }
        remat_pebble_table_free(table);
    }
}

int main(int n_arguments, char **arguments)
{
    const remat_host *host = bench_host(bench_processors());
    if (n_arguments > 1 && strcmp(arguments[1], "--figures") == 0) {
        print_figures(host);
        return 0;
    }
    printf("%s, %u workers\n", bench_cpu_name(), host->workers);
    bench_pebbles(3, 30, 93, host);
    bench_pebbles(3, 60, 64, host);
    bench_pebbles(2, 100, 202, host);
    bench_costs(2, 50, false, 500, host);
    bench_costs(2, 50, true, 500, host);
    bench_costs(3, 20, true, 500, host);
    return 0;
}
