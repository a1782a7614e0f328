/* The handlers of the routes, one file per kind of resource, and what they share. Private to the
 * front: routes.c and handle_*.c. A handler starts the work of a request whose body is there: it
 * fills r->reply and returns true, or returns false and http_answer is called later. */
#ifndef REMAT_SERVER_HANDLERS_H
#define REMAT_SERVER_HANDLERS_H

#include "routes.h"
#include "service.h"

/* Lets work run on a pool thread, then after (NULL: answer) on the loop. Always false: no reply
 * yet. */
bool start_work(request *r, void (*work)(request *r), void (*after)(request *r));

/* The request's body as JSON; decoded first when it came compressed. */
remat_status parse_content(request *r, json_t **ret_json, remat_error *error);

/* What is wrong with a request whose body is, or holds, a profile: its own kind of problem. */
void reply_profile_error(request *r, const remat_error *error, bool whole_body);

/* The reply, already filled, never changes for this id. */
void make_immutable(request *r, const char *id);

/* {name: list, "next": cursor or null}; takes the list. */
body *page_body(const char *name, json_t *list, const char *next);

bool post_profile(request *r);
bool list_profiles(request *r);
bool get_profile(request *r);
bool delete_profile(request *r);
bool post_schedule(request *r);
bool get_schedule(request *r);
bool list_schedules(request *r);
bool get_timeline(request *r);
bool post_measurement(request *r);
bool list_measurements(request *r);
bool post_tradeoff(request *r);
bool post_simulation(request *r);
bool post_snapshots(request *r);
bool list_jobs(request *r);
bool get_job(request *r);
bool delete_job(request *r);
bool get_job_events(request *r);
bool get_solvers(request *r);
bool get_health(request *r);
bool get_ready(request *r);
bool get_metrics(request *r);
bool get_openapi(request *r);
bool get_root(request *r);
bool get_page_file(request *r);

#endif
