/* What a solver that knows one implementation of each node is shown of a profile with several.
 *
 * Own: the nodes' own implementations. Least: every number of a node at its least over all its
 * implementations. A list that is valid with any choice of implementations is valid on the least
 * view, is no slower there and has no larger peak: what bounds the least view from below bounds the
 * profile. */
#ifndef REMAT_MODEL_VIEWS_H
#define REMAT_MODEL_VIEWS_H

#include "remat/profile.h"

typedef enum remat_view { REMAT_VIEW_OWN, REMAT_VIEW_LEAST } remat_view;

/* Borrows everything but the nodes from the profile, which must outlive it. */
remat_status model_profile_view_new(const remat_profile *profile, remat_view view,
                                    remat_profile **ret_view, remat_error *error);
void model_profile_view_free(remat_profile *view); /* accepts NULL */

/* Fills in what follows from the nodes and inputs: kind, sums, homogeneity. */
void model_profile_classify(remat_profile *profile);

#endif
