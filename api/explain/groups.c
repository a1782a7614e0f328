#include "explain/groups.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Runs of consecutive numbers that are said one by one. */
enum { SAID_RUNS = 3 };

static size_t prefix_length(const char *id)
{
    return strcspn(id, "0123456789");
}

static const char *rest_of(const char *id)
{
    id += prefix_length(id);
    return id + strspn(id, "0123456789");
}

/* Of numbers by their digits, which may be many: leading zeros do not count. */
static int compare_numbers(const char *a, const char *b)
{
    a += strspn(a, "0");
    b += strspn(b, "0");
    size_t m = strspn(a, "0123456789"), n = strspn(b, "0123456789");
    if (m != n)
        return m < n ? -1 : 1;
    return strncmp(a, b, m);
}

static int compare_families(const group_item *a, const group_item *b)
{
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    size_t m = prefix_length(a->id), n = prefix_length(b->id), least = m < n ? m : n;
    int order = strncmp(a->id, b->id, least);
    if (order == 0 && m != n)
        return m < n ? -1 : 1;
    if (order == 0 && !a->id[m] != !b->id[m]) /* without a number it is a family of its own */
        return a->id[m] ? 1 : -1;
    return order;
}

static int compare_items(const void *left, const void *right)
{
    const group_item *a = left, *b = right;
    int order = compare_families(a, b);
    if (order == 0)
        order = compare_numbers(a->id + prefix_length(a->id), b->id + prefix_length(b->id));
    return order ? order : strcmp(a->id, b->id);
}

static int by_weight(const void *left, const void *right)
{
    const group *a = left, *b = right;
    if (a->weight != b->weight)
        return a->weight > b->weight ? -1 : 1;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return strcmp(a->name, b->name);
}

static unsigned long number_of(const group_item *item)
{
    return strtoul(item->id + prefix_length(item->id), NULL, 10);
}

static void print_block(FILE *out, const char *id, bool star)
{
    fprintf(out, "%.*s%s", (int)(rest_of(id) - id), id, star ? "*" : "");
}

static size_t count_runs(const group_item *items, size_t n)
{
    size_t runs = 1;
    for (size_t i = 1; i < n; i++)
        runs += number_of(&items[i]) > number_of(&items[i - 1]) + 1;
    return runs;
}

/* Of the items of one group, which stand in the order of their numbers. */
static void print_name(FILE *out, const group_item *items, size_t n)
{
    bool star = false;
    for (size_t i = 0; i < n; i++)
        star |= rest_of(items[i].id)[0] != '\0';
    if (strcmp(items[0].id, items[n - 1].id) == 0) {
        fputs(items[0].id, out);
        return;
    }
    size_t runs = count_runs(items, n);
    for (size_t from = 0, to; from < n; from = to + 1) {
        for (to = from; to + 1 < n && (runs > SAID_RUNS ||
                                       number_of(&items[to + 1]) <= number_of(&items[to]) + 1);)
            to++;
        fputs(from > 0 ? ", " : "", out);
        print_block(out, items[from].id, star);
        if (number_of(&items[to]) != number_of(&items[from])) {
            fputs(runs > SAID_RUNS ? " .. " : " to ", out);
            print_block(out, items[to].id, star);
        }
    }
}

static bool make_group(const group_item *items, size_t n, group *ret_group)
{
    size_t length;
    *ret_group = (group){.kind = items[0].kind, .count = n};
    FILE *out = open_memstream(&ret_group->name, &length);
    if (!out)
        return false;
    print_name(out, items, n);
    for (size_t i = 0; i < n; i++)
        ret_group->weight += items[i].weight;
    return fclose(out) == 0;
}

group *explain_groups_make(group_item *items, size_t n, size_t *ret_n)
{
    group *groups = calloc(n + 1, sizeof *groups);
    size_t made = 0;
    if (n > 0)
        qsort(items, n, sizeof *items, compare_items);
    for (size_t from = 0, to; groups && from < n; from = to) {
        for (to = from + 1; to < n && compare_families(&items[from], &items[to]) == 0;)
            to++;
        if (!make_group(items + from, to - from, &groups[made++])) {
            explain_groups_free(groups, made);
            return NULL;
        }
    }
    if (made > 0)
        qsort(groups, made, sizeof *groups, by_weight);
    *ret_n = made;
    return groups;
}

void explain_groups_free(group *groups, size_t n)
{
    for (size_t i = 0; groups && i < n; i++)
        free(groups[i].name);
    free(groups);
}
