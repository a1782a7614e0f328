/* The whole way from question to answer. */
#include "remat/answer.h"
#include "answer/part.h"

remat_status remat_answer(const remat_query *query, const remat_host *host,
                          const remat_table_source *tables, remat_answered *ret_answered,
                          remat_error *error)
{
    const bool improved = !query->curve && (!query->solver || query->solver->improved);
    const double tables_share = !improved ? 1 : query->effort == REMAT_THOROUGH ? 0.05 : 0.2;
    answer_part gathering = {host, 0, tables_share},
                improving = {host, tables_share, 1 - tables_share};
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
