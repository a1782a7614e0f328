/* A profile cut into units, and runs of units as stages: profiles of their own. Private to
 * api/plan. */
#ifndef REMAT_API_PLAN_STAGES_H
#define REMAT_API_PLAN_STAGES_H

#include "plan/plan.h"

/* The profile may be cut before and after each unit: all that comes later reads what came before
 * through one value, the output of the unit's last node, and has no state in common with it, nor a
 * graph input with a gradient. */
typedef struct api_units {
    uint32_t n;
    uint32_t *end;  /* [n]: the first node behind it */
    uint32_t *kind; /* [n]: those of one kind differ in names alone, their tensors too */
    double *least;  /* [n]: of its nodes, forward and back */
} api_units;

/* block: of each node of a model, which of its blocks it belongs to, between which alone it is cut;
 * NULL: it is cut wherever it may be, but for units of no time, which go with the next. At least
 * `fewest` units, where there are so many. document: the profile's. Cleared by the caller. */
remat_status api_units_find(const remat_profile *profile, const json_t *document,
                            const uint32_t *block, uint32_t fewest, api_units *ret_units,
                            remat_error *error);
void api_units_clear(api_units *units); /* accepts {0} */

uint32_t api_unit_start(const api_units *units, uint32_t unit); /* its first node; n: all nodes */

/* Units first to end - 1 as a profile: what it receives is a graph input of the name of the value,
 * with its gradient, its last node stands for sending. NULL: out of memory. */
json_t *api_stage_document(const remat_profile *profile, const json_t *document,
                           const api_units *units, uint32_t first, uint32_t end);

/* The same as a document says it, cut without one: it borrows from the profile. */
remat_status api_stage_profile(const remat_profile *profile, const api_units *units, uint32_t first,
                               uint32_t end, remat_profile **ret_stage, remat_error *error);

#endif
