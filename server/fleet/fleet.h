/* What several daemons on one store do for one another: they hear of each other's answers,
 * cancellations and deletions, and go on with the jobs of one that died. On a store of one process
 * there is nobody else, and only what could not be written before is tried again. Loop thread only,
 * but for what says otherwise. */
#ifndef REMAT_SERVER_FLEET_H
#define REMAT_SERVER_FLEET_H

#include "storage.h"

struct service;
typedef struct fleet fleet;

/* Before the store is opened, whose events come to it. NULL: out of memory. */
fleet *fleet_new(struct service *s);
/* For remat_store_options.event, with the fleet as data; any thread. */
void fleet_hear(void *data, remat_store_event event, const char *name);
/* Once jobs are there. */
void fleet_start(fleet *f);
/* Takes no more jobs. */
void fleet_stop(fleet *f);
/* When the store is closed. Accepts NULL; the memory goes when the loop has closed its handles. */
void fleet_free(fleet *f);

/* Gives back a lease, later if the store cannot do it now. Any thread. */
void fleet_release(fleet *f, const char *name);

#endif
