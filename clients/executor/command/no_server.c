/* A build without the client of the service. */
#include "train.h"

remat_status train_can_ask(train *t)
{
    return remat_fail(
        &t->error, REMAT_NOT_FOUND, "server",
        "this build knows no server: there was no libcurl or no nettle; --local solves here, "
        "--schedule takes what was solved elsewhere");
}

remat_status train_ask_server(train *t, const char *solver, uint64_t budget, train_plan *p)
{
    (void)solver;
    (void)budget;
    (void)p;
    return train_can_ask(t);
}

remat_status train_post(train *t, const train_plan *plan, const training_outcome *outcome)
{
    (void)t;
    (void)plan;
    (void)outcome;
    return REMAT_OK; /* no schedule is a server's */
}

void train_disconnect(train *t)
{
    (void)t;
}

void train_profile_id(const train *t, char ret_id[REMAT_ID_SIZE])
{
    (void)t;
    ret_id[0] = '\0';
}
