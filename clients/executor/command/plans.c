/* Where schedules come from: a file or this process; server.c has those of a server. */
#include "train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of the profile, where its times mean something. */
static double seconds_of(const train *t, double makespan)
{
    return t->measured ? makespan * remat_time_unit_seconds(t->profile->time_unit) : NAN;
}

/* ---- from a document ---- */

remat_status train_schedule_read(train *t, const json_t *json, train_plan *p)
{
    remat_status status = remat_plan_read(t->profile, json, &p->plan, &t->error);
    if (!status && p->plan.layout.alignment % REMAT_DEFAULT_ALIGNMENT != 0) {
        remat_layout_clear(&p->plan.layout);
        status = remat_layout_new(t->profile, &p->plan.operations, REMAT_DEFAULT_ALIGNMENT,
                                  &p->plan.layout, &t->error);
    }
    if (status) {
        remat_plan_clear(&p->plan);
        return status;
    }
    snprintf(p->solver, sizeof p->solver, "%s", json_get_text(json, "solver"));
    p->predicted = seconds_of(t, p->plan.makespan);
    return REMAT_OK;
}

static remat_status from_file(train *t, train_plan *p)
{
    json_t *json = NULL;
    remat_status status = file_read_json(t->options->schedule, &json, &t->error);
    if (!status)
        status = train_schedule_read(t, json, p);
    json_decref(json);
    return status;
}

/* ---- from this process ---- */

static remat_status from_here(train *t, const char *solver, uint64_t budget, train_plan *p)
{
    remat_link link;
    remat_status status =
        t->link ? remat_link_decode(t->link, t->profile, &link, &t->error) : REMAT_OK;
    if (!status)
        status = remat_plan_solve(t->profile, solver, budget, t->link ? &link : NULL,
                                  REMAT_DEFAULT_ALIGNMENT, &p->plan, &t->error);
    snprintf(p->solver, sizeof p->solver, "%s", solver ? solver : "auto");
    if (!status)
        p->predicted = seconds_of(t, p->plan.makespan);
    return status;
}

remat_status train_plan_get(train *t, const char *solver, bool least, train_plan *ret_plan)
{
    train_plan p = {.predicted = NAN};
    const char *name = solver ? solver : t->options->solver;
    uint64_t budget = t->budget;
    name = name && strcmp(name, "auto") == 0 ? NULL : name;
    if (t->options->schedule) {
        remat_status status = from_file(t, &p);
        *ret_plan = p;
        return status;
    }
    remat_status (*ask)(train *, const char *, uint64_t, train_plan *) =
        t->options->local ? from_here : train_ask_server;
    remat_status status = ask(t, name, budget, &p);
    if (status == REMAT_INFEASIBLE && least && t->error.number > budget)
        status = ask(t, name, t->error.number, &p);
    *ret_plan = p;
    return status;
}
