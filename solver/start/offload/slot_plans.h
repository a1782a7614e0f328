/* The programs over slots as pofo uses them: for a problem, and as lists of operations. */
#ifndef REMAT_START_OFFLOAD_SLOT_PLANS_H
#define REMAT_START_OFFLOAD_SLOT_PLANS_H

#include "start/offload/forward.h"
#include "start/offload/place.h"

/* A program over slots with what it stands on; forward.model is NULL where there is none. {0} is
 * none. */
typedef struct offload_program {
    offload_model model;
    offload_backward backward;
    offload_forward forward;
} offload_program;

/* Bytes that no schedule of the chain needs more than, resident inputs left out. */
uint64_t offload_most_bytes(const chain_costs *chain);

/* For budgets up to the problem's; none where they do not hold the resident inputs. The caller
 * clears it, on failure too. Where it is relaxed it leaves out latency: its values are bounds. */
remat_status offload_program_init(offload_program *program, const remat_problem *problem,
                                  const chain_costs *chain, uint32_t slots, bool relaxed,
                                  const remat_host *host, remat_error *error);
void offload_program_clear(offload_program *program);

/* Bytes of that many slots, resident inputs included. */
uint64_t offload_program_budget(const offload_forward *forward, uint32_t slots);

/* Places the plan of every number of slots that has a value of its own and offers its lists. */
remat_status offload_program_offer(const remat_problem *problem, const offload_forward *forward,
                                   const remat_host *host, const remat_sink *sink,
                                   remat_error *error);

/* A placing of the plan, which is cleared, on failure too. */
remat_status offload_place_plan(const remat_profile *profile, offload_plan *plan,
                                offload_placing *ret_placing, remat_error *error);

#endif
