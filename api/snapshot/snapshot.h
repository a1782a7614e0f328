/* POST /v1/snapshots: a fragment or a sequence of checkpoints (remat/snapshot.h) on the wire. */
#ifndef REMAT_API_SNAPSHOT_H
#define REMAT_API_SNAPSHOT_H

#include <jansson.h>

#include "remat/status.h"

/* Answers a request's body. The answer belongs to the caller; nothing is kept of the request. */
remat_status remat_answer_snapshots(const json_t *request, json_t **ret_answer, remat_error *error);

#endif
