/* Keeps the store below its size (--store-bytes): every minute what was longest not used goes,
 * tables first, then schedules, then profiles without schedules. Loop thread only. */
#ifndef REMAT_SERVER_RETENTION_H
#define REMAT_SERVER_RETENTION_H

struct service;
typedef struct retention retention;

retention *retention_new(struct service *s); /* NULL: out of memory */
void retention_stop(retention *r);           /* no new round begins */
void retention_free(retention *r); /* accepts NULL; its task must not be queued or running */

#endif
