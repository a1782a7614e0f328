/* What a portfolio needs of several tables beyond remat/table.h. */
#ifndef REMAT_ANSWER_BEST_H
#define REMAT_ANSWER_BEST_H

#include "answer/wish.h"
#include "model/layout.h"

/* Sums of the same times in another order differ by less. */
#define ANSWER_SAME_TIME 1e-12

/* What is asked of several tables. */
typedef struct answer_choice {
    const remat_table *const *tables;
    size_t n;
    const char *name; /* who refuses */
    const remat_problem *problem;
    uint64_t budget;
    uint32_t alignment;
    const remat_host *host; /* of the search for addresses; may be NULL */
    double below;           /* a makespan from which on a list is of no use; 0: any is */
    bool brief; /* one for a search to begin with: where room is not soon found, the next will do */
    bool told;  /* of one that is only told of: a layout with little work will do */
} answer_choice;

/* What a wish says of a choice; its refusal has no name. */
static inline answer_choice answer_choice_of(const answer_wish *w, const remat_table *const *tables,
                                             size_t n)
{
    return (answer_choice){.tables = tables,
                           .n = n,
                           .name = "",
                           .problem = w->problem,
                           .budget = w->budget,
                           .alignment = w->alignment,
                           .host = w->host};
}

/* As remat_best_schedule; where a list is only of use below a makespan, or in brief, a refusal says
 * nothing. */
remat_status answer_choose(const answer_choice *choice, remat_schedule *ret_schedule,
                           remat_error *error);

/* As remat_least_budget; of the choice only tables, problem, alignment and host are read. */
remat_status answer_least_budget(const answer_choice *choice, uint64_t *ret_peak,
                                 uint64_t *ret_budget, remat_error *error);

/* Gives the schedule's list a layout that its judge has confirmed, within the capacity if that is
 * found, and when it is late one that takes no time to find; alignment 0: none. */
remat_status answer_lay_out(const remat_problem *problem, const model_goal *asked,
                            remat_schedule *schedule, remat_error *error);

/* Ends a refusal that error already words: what pins have to do with it, and the budget that would
 * do (0: not known). REMAT_INFEASIBLE. */
remat_status answer_refuse_budget(const remat_profile *profile, uint64_t enough,
                                  remat_error *error);

/* Fills schedule->least and ->next (remat/table.h). alignment: of the layout, 0: none. */
remat_status answer_find_neighbours(const remat_table *const *tables, size_t n,
                                    const remat_problem *problem, uint32_t alignment,
                                    const remat_host *host, remat_schedule *schedule,
                                    remat_error *error);

#endif
