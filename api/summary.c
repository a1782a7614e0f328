#include "fields.h"

json_t *remat_profile_summary(const remat_profile *profile, uint64_t store_all_peak,
                              const remat_minimum *minima, size_t n_minima)
{
    char id[REMAT_ID_SIZE];
    remat_profile_id(profile, id);
    json_t *list = json_array();
    for (size_t i = 0; i < n_minima; i++)
        fields_append(&list, json_pack("{s:s, s:I}", "solver", minima[i].solver->name, "bytes",
                                       (json_int_t)minima[i].bytes));
    return json_pack("{s:s, s:s, s:s*, s:s, s:i, s:i, s:b, s:s, s:{s:f, s:I}, s:o}", "profile_id",
                     id, "name", profile->name, "graph", profile->joint ? "joint" : NULL, "kind",
                     remat_kind_name(profile->kind), "nodes", (int)profile->n_nodes, "edges",
                     (int)profile->n_edges, "homogeneous", profile->homogeneous, "time_unit",
                     remat_time_unit_name(profile->time_unit), "store_all", "makespan",
                     remat_store_all_makespan(profile), "peak", (json_int_t)store_all_peak,
                     "minimum_budget", list);
}
