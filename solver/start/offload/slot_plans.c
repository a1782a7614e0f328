#include "start/offload/slot_plans.h"

#include <math.h>
#include <stdlib.h>

/* A plan is placed for its own budget and for this many smaller ones, a slot apart: liveness frees
 * what the programs count as kept. */
enum { PLACES = 5 };

typedef struct planning {
    const offload_forward *forward;
    const remat_problem *problem;
    const remat_host *host;
    uint32_t *slots; /* of each plan */
    size_t n_plans;
    offload_placing *placings;
    remat_status *statuses;
    remat_error *errors;
} planning;

remat_status offload_place_plan(const remat_profile *profile, offload_plan *plan,
                                offload_placing *ret_placing, remat_error *error)
{
    remat_status status =
        offload_placing_init(ret_placing, profile, &plan->compute, plan->moved, error);
    offload_plan_clear(plan);
    return status;
}

static void plan_one(void *context, size_t index, unsigned worker)
{
    planning *p = context;
    offload_plan plan;
    remat_error *error = &p->errors[worker];
    if (p->statuses[worker] || remat_host_cancelled(p->host))
        return;
    remat_status status = offload_forward_plan(p->forward, p->slots[index], &plan, error);
    if (!status)
        status = offload_place_plan(p->problem->profile, &plan, &p->placings[index], error);
    p->statuses[worker] = status;
}

uint64_t offload_program_budget(const offload_forward *f, uint32_t slots)
{
    return f->model->resident + f->backward->bytes / f->n_slots * slots +
           f->backward->bytes % f->n_slots * slots / f->n_slots;
}

static remat_status place_one(void *context, size_t index, remat_operations *operations,
                              remat_model *model, remat_error *error)
{
    const planning *p = context;
    model->tentative = true;
    size_t plan = index / PLACES;
    uint32_t slots = p->slots[plan], less = (uint32_t)(index % PLACES);
    if (less >= slots)
        return REMAT_INFEASIBLE;
    uint64_t budget = offload_program_budget(p->forward, slots - less);
    remat_status status = offload_place(&p->placings[plan], NULL, budget, operations);
    return status == REMAT_NO_MEMORY ? remat_fail_memory(error) : status;
}

/* Numbers of slots with a value of their own. */
static size_t find_values(const offload_forward *f, uint32_t *slots)
{
    size_t count = 0;
    double before = INFINITY;
    for (uint32_t m = 1; m <= f->n_slots; m++) {
        double value = offload_forward_value(f, m);
        if (value < before)
            slots[count++] = m;
        before = value;
    }
    return count;
}

static remat_status make_plans(planning *p, const remat_sink *sink, remat_error *error)
{
    unsigned workers = remat_host_workers(p->host);
    remat_host_parallel_for(p->host, p->n_plans, plan_one, p);
    for (unsigned w = 0; w < workers; w++)
        if (p->statuses[w]) {
            if (error)
                *error = p->errors[w];
            return p->statuses[w];
        }
    if (remat_host_cancelled(p->host))
        return remat_fail(error, REMAT_CANCELLED, NULL, "cancelled");
    return remat_offer_lists(sink, p->n_plans * PLACES, place_one, p, error);
}

remat_status offload_program_offer(const remat_problem *problem, const offload_forward *forward,
                                   const remat_host *host, const remat_sink *sink,
                                   remat_error *error)
{
    unsigned workers = remat_host_workers(host);
    planning p = {.forward = forward, .problem = problem, .host = host};
    p.slots = malloc(((size_t)forward->n_slots + 1) * sizeof *p.slots);
    p.placings = calloc((size_t)forward->n_slots + 1, sizeof *p.placings);
    p.statuses = calloc(workers, sizeof *p.statuses);
    p.errors = calloc(workers, sizeof *p.errors);
    remat_status status = REMAT_NO_MEMORY;
    if (p.slots && p.placings && p.statuses && p.errors) {
        p.n_plans = find_values(forward, p.slots);
        status = make_plans(&p, sink, error);
        for (size_t i = 0; i < p.n_plans; i++)
            offload_placing_clear(&p.placings[i]);
    } else {
        remat_fail_memory(error);
    }
    free(p.slots);
    free(p.placings);
    free(p.statuses);
    free(p.errors);
    return status;
}

uint64_t offload_most_bytes(const chain_costs *chain)
{
    uint64_t kept = chain->output[0], most = 1;
    for (uint32_t i = 1; i <= chain->n; i++) {
        uint64_t need =
            model_larger(offload_need_save(chain, i, chain->n), offload_need_backward(chain, i));
        most = model_larger(most, kept + need);
        kept += chain->kept[i];
    }
    return most;
}

void offload_program_clear(offload_program *p)
{
    if (p->forward.model)
        offload_forward_clear(&p->forward);
    if (p->backward.model)
        offload_backward_clear(&p->backward);
    if (p->model.chain)
        offload_model_clear(&p->model);
}

remat_status offload_program_init(offload_program *p, const remat_problem *problem,
                                  const chain_costs *chain, uint32_t slots, bool relaxed,
                                  const remat_host *host, remat_error *error)
{
    uint64_t bytes = offload_most_bytes(chain);
    *p = (offload_program){0};
    remat_status status = offload_model_init(&p->model, problem->profile, chain, problem->link,
                                             slots, bytes, !relaxed, error);
    if (status || problem->max_budget <= p->model.resident)
        return status;
    uint64_t room = problem->max_budget - p->model.resident;
    status = offload_backward_init(&p->backward, &p->model, room < bytes ? room : bytes, slots,
                                   relaxed, host, error);
    return status ? status : offload_forward_init(&p->forward, &p->backward, host, error);
}
