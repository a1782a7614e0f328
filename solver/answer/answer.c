/* The whole way from question to answer. */
#include "remat/answer.h"
#include "answer/part.h"

remat_status remat_answer(const remat_query *query, const remat_host *host,
                          const remat_table_source *tables, remat_answered *ret_answered,
                          remat_error *error)
{
    const bool improved = !query->curve && (!query->solver || query->solver->improved);
    answer_part gathering = {host, 0, improved ? 0.5 : 1}, improving = {host, 0.5, 0.5};
    const remat_host first = answer_part_host(&gathering), second = answer_part_host(&improving);
    remat_portfolio *p = &ret_answered->portfolio;
    remat_status status =
        remat_portfolio_gather(query->solver, &query->problem, &first, tables, p, error);
    if (status || query->curve || p->missing > 0)
        return status;
    if (improved)
        remat_host_doing(host, "improving");
    return remat_portfolio_schedule(p, &query->problem, query->budget, query->alignment,
                                    query->effort, &second, &ret_answered->schedule, error);
}

void remat_answered_clear(remat_answered *answered)
{
    remat_schedule_clear(&answered->schedule);
    remat_portfolio_release(&answered->portfolio);
    *answered = (remat_answered){0};
}
