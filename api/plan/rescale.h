/* A profile of one device planned on another. Private to api/plan. */
#ifndef REMAT_API_PLAN_RESCALE_H
#define REMAT_API_PLAN_RESCALE_H

#include "plan/plan.h"

/* Whose times the document's are, by what the request says or the document of itself, and whether
 * they have to be rescaled to be the planned device's. REMAT_INVALID: they are another's that is
 * not known. */
remat_status api_profile_origin(const remat_plan_request *request, const json_t *document,
                                remat_device *ret_from, bool *ret_rescale, remat_error *error);

/* The document with the times of another device: each node is taken as the one kernel of its class
 * that takes its time on the one, at its size on the other. */
remat_status api_profile_rescale(const json_t *document, const remat_device *from,
                                 const remat_device *to, remat_precision precision,
                                 json_t **ret_document, remat_error *error);

#endif
