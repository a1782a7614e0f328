/* The handlers of the routes, one file per kind of resource, and what they share. Private to the
 * front: routes.c and handle_*.c. A handler starts the work of a request whose body is there: it
 * fills r->reply and returns true, or returns false and http_answer is called later. */
#ifndef REMAT_SERVER_HANDLERS_H
#define REMAT_SERVER_HANDLERS_H

#include "http/reply.h"
#include "http/routes.h"
#include "service.h"

/* Lets work run on a pool thread, then after (NULL: answer) on the loop. Always false: no reply
 * yet. */
bool http_start_work(request *r, void (*work)(request *r), void (*after)(request *r));

/* The request's body as JSON; decoded first when it came compressed. */
remat_status http_parse_content(request *r, json_t **ret_json, remat_error *error);

/* The name by which what comes of a request's body is remembered: of its kind and its hash. False:
 * it is too long to be hashed on the loop, or compressed. */
bool http_name_body(const request *r, const char *kind, char ret_name[BODY_NAME_SIZE]);

/* A fresh asker, which becomes the context. NULL: out of memory, and that is the reply. */
asker *http_start_asker(request *r, remat_request_kind kind, const char *body_name);

/* Leaves the reply to the jobs where no table is there to answer the asker's question from. */
remat_status http_look_up(request *r, asker *a, remat_error *error);
/* On the loop: answers what has a reply, asks the jobs the rest. The context is the asker. */
void http_after_question(request *r);

void post_profile(request *r);
void list_profiles(request *r);
void get_profile(request *r);
void delete_profile(request *r);
bool post_schedule(request *r);
bool get_schedule(request *r);
void list_schedules(request *r);
void get_timeline(request *r);
void get_trace(request *r);
void get_explanation(request *r);
void post_measurement(request *r);
void list_measurements(request *r);
bool post_tradeoff(request *r);
void post_simulation(request *r);
void post_snapshots(request *r);
bool post_layout(request *r);
bool list_jobs(request *r);
bool get_job(request *r);
bool delete_job(request *r);
bool get_job_events(request *r);
bool post_plan(request *r);
bool get_devices(request *r);
bool get_models(request *r);
bool get_solvers(request *r);
bool get_health(request *r);
void get_ready(request *r);
bool get_metrics(request *r);
bool get_openapi(request *r);
bool get_problem(request *r);
bool get_root(request *r);
bool get_docs(request *r);
bool get_page_file(request *r);

#endif
