/* The programs over slots as pofo uses them: for a problem, and as lists of operations. */
#ifndef REMAT_OFFLOAD_SLOT_PLANS_H
#define REMAT_OFFLOAD_SLOT_PLANS_H

#include "offload/forward.h"
#include "offload/place.h"

/* A program over slots with what it stands on; forward.model is NULL where there is none. {0} is
 * none. */
typedef struct remat_program {
    remat_offload_model model;
    remat_backward backward;
    remat_forward forward;
} remat_program;

/* Bytes that no schedule of the chain needs more than, resident inputs left out. */
uint64_t remat_offload_most_bytes(const remat_chain *chain);

/* For budgets up to the problem's; none where they do not hold the resident inputs. The caller
 * clears it, on failure too. Where it is relaxed it leaves out latency: its values are bounds. */
remat_status remat_program_init(remat_program *program, const remat_problem *problem,
                                const remat_chain *chain, uint32_t slots, bool relaxed,
                                const remat_host *host, remat_error *error);
void remat_program_clear(remat_program *program);

/* Bytes of that many slots, resident inputs included. */
uint64_t remat_program_budget(const remat_forward *forward, uint32_t slots);

/* Places the plan of every number of slots that has a value of its own and offers its lists. */
remat_status remat_program_offer(const remat_problem *problem, const remat_forward *forward,
                                 const remat_host *host, const remat_sink *sink,
                                 remat_error *error);

/* A placing of the plan, which is cleared, on failure too. */
remat_status remat_offload_place_plan(const remat_profile *profile, remat_offload_plan *plan,
                                      remat_placing *ret_placing, remat_error *error);

#endif
