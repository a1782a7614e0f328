/* What would fit in place of what does not. Private to api/plan. */
#ifndef REMAT_API_PLAN_NEAREST_H
#define REMAT_API_PLAN_NEAREST_H

#include "plan/plan.h"

/* Changes of a model's request; of a pipeline those with which a way that people use fits, told by
 * it. Else with each of which alone a step fits by per-block checkpointing
 * (a small one by thresholds, REMAT_WAY_REMAT), with a twentieth of its activations left for
 * addresses: the one that changes least of a kind, the kinds by what they cost, cheapest first;
 * the first ones with drafts of their plans. NULL where the request itself fits so. */
typedef struct api_changes api_changes;
remat_status api_nearest(const remat_plan_request *request, api_changes **ret_changes,
                         remat_error *error);
void api_changes_free(api_changes *changes); /* accepts NULL */

/* The question of the next plan and the profile that it is asked of, both new; false: there is
 * none. What became of it: the schedule's document, or NULL, which takes the change out. */
bool api_changes_ask(api_changes *changes, json_t **ret_document, json_t **ret_question);
void api_changes_take(api_changes *changes, const json_t *schedule);
/* An array, empty where nothing is left. */
json_t *api_changes_encode(const api_changes *changes);

/* Puts into a draft's answer what became of its question; both NULL: nothing was asked. */
void api_plan_settle(remat_plan_draft *draft, const json_t *schedule, const remat_error *refusal);

#endif
