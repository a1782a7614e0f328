#include "fields.h"

#include "remat/answer.h"

#include <stdlib.h>
#include <string.h>

json_t *remat_profile_summary(const remat_profile *profile, uint64_t store_all_peak,
                              const remat_minimum *minima, size_t n_minima)
{
    char id[REMAT_ID_SIZE];
    remat_floor floor;
    if (remat_find_floor(profile, &floor, NULL))
        return NULL;
    remat_profile_id(profile, id);
    json_t *list = json_array();
    for (size_t i = 0; i < n_minima; i++)
        remat_json_append(&list, json_pack("{s:s, s:I}", "solver", minima[i].solver->name, "bytes",
                                           (json_int_t)minima[i].bytes));
    json_t *json =
        json_pack("{s:s, s:s, s:s*, s:s, s:i, s:i, s:b, s:s, s:{s:f, s:I}, s:o}", "profile_id", id,
                  "name", profile->name, "graph", profile->joint ? "joint" : NULL, "kind",
                  remat_kind_name(profile->kind), "nodes", (int)profile->n_nodes, "edges",
                  (int)profile->n_edges, "homogeneous", profile->homogeneous, "time_unit",
                  remat_time_unit_name(profile->time_unit), "store_all", "makespan",
                  remat_store_all_makespan(profile), "peak", (json_int_t)store_all_peak,
                  "minimum_budgets", list);
    if (floor.bytes > 0)
        remat_json_set(&json, "floor", json_integer((json_int_t)floor.bytes));
    return json;
}

json_t *remat_names_encode(const char *name, const char *other_names)
{
    json_t *list = json_pack("[s]", name);
    for (const char *line = other_names; line && list; line = strchr(line, '\n')) {
        line += *line == '\n';
        remat_json_append(&list, json_stringn(line, strcspn(line, "\n")));
    }
    return list;
}

/* Puts the text `new` in the place of n bytes. */
static remat_status replace(char **text, size_t *length, size_t at, size_t n, const char *new,
                            remat_error *error)
{
    size_t more = strlen(new);
    char *longer = malloc(*length - n + more + 1);
    if (!longer)
        return remat_fail_memory(error);
    memcpy(longer, *text, at);
    memcpy(longer + at, new, more);
    memcpy(longer + at + more, *text + at + n, *length - at - n + 1);
    free(*text);
    *text = longer;
    *length += more - n;
    return REMAT_OK;
}

remat_status remat_summary_renew(char **summary, size_t *length, const char *name,
                                 const char *other_names, remat_error *error)
{
    static const char was[] = "\"minimum_budget\":[", is[] = "\"minimum_budgets\":[";
    char *at = strstr(*summary, was), *end = strrchr(*summary, '}'); /* in a string it is \" */
    remat_status status = REMAT_OK;
    if (other_names && end) {
        json_t *names = json_pack("{s:o}", "names", remat_names_encode(name, other_names));
        char *text = names ? remat_json_text(names) : NULL;
        json_decref(names);
        if (!text)
            return remat_fail_memory(error);
        text[0] = ','; /* for its brace; its last one ends the summary */
        status = replace(summary, length, (size_t)(end - *summary), 1, text, error);
        free(text);
        at = strstr(*summary, was);
    }
    if (!status && at)
        status = replace(summary, length, (size_t)(at - *summary), sizeof was - 1, is, error);
    return status;
}
