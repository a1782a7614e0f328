#include "fields.h"

#include "remat/portfolio.h"

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
        fields_append(&list, json_pack("{s:s, s:I}", "solver", minima[i].solver->name, "bytes",
                                       (json_int_t)minima[i].bytes));
    json_t *json =
        json_pack("{s:s, s:s, s:s*, s:s, s:i, s:i, s:b, s:s, s:{s:f, s:I}, s:o}", "profile_id", id,
                  "name", profile->name, "graph", profile->joint ? "joint" : NULL, "kind",
                  remat_kind_name(profile->kind), "nodes", (int)profile->n_nodes, "edges",
                  (int)profile->n_edges, "homogeneous", profile->homogeneous, "time_unit",
                  remat_time_unit_name(profile->time_unit), "store_all", "makespan",
                  remat_store_all_makespan(profile), "peak", (json_int_t)store_all_peak,
                  "minimum_budgets", list);
    bool failed = json == NULL;
    if (floor.bytes > 0)
        fields_set(json, "floor", json_integer((json_int_t)floor.bytes), &failed);
    return fields_finish(json, failed);
}

remat_status remat_summary_renew(char **summary, size_t *length, remat_error *error)
{
    static const char was[] = "\"minimum_budget\":[", is[] = "\"minimum_budgets\":[";
    char *at = strstr(*summary, was), *renewed = NULL;
    if (!at) /* within a string its quotes would be escaped */
        return REMAT_OK;
    size_t before = (size_t)(at - *summary), after = *length - before - (sizeof was - 1);
    renewed = malloc(*length + sizeof is - sizeof was + 1);
    if (!renewed)
        return remat_fail_memory(error);
    memcpy(renewed, *summary, before);
    memcpy(renewed + before, is, sizeof is - 1);
    memcpy(renewed + before + sizeof is - 1, at + sizeof was - 1, after + 1);
    free(*summary);
    *summary = renewed;
    *length += sizeof is - sizeof was;
    return REMAT_OK;
}
