/* What remat-train prints. */
#include "train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *train_clock(const train *t)
{
    return t->backend.clock[0] == 'c'   ? "CPU time"
           : t->backend.clock[0] == 'w' ? "wall clock"
                                        : "device's clock";
}

/* What a step takes beyond its calls, of itself. */
static double overhead(const training_outcome *o)
{
    return 100 * (1 - o->calls / o->step);
}

void train_print_network(const train *t)
{
    char beside[TEXT_SIZE], all[TEXT_SIZE], budget[TEXT_SIZE];
    printf("%s: %u nodes, %.3g million parameters\n", t->net.name, t->net.n_nodes,
           (double)t->net.weights / 1e6);
    printf("  device       %s, %s, %u thread%s\n", t->backend.name, t->device, t->options->threads,
           t->options->threads == 1 ? "" : "s");
    printf("  parameters   %s with gradients and momenta, beside the arena\n",
           text_bytes((double)model_bytes(&t->net), beside));
    printf("  store-all    %s\n", text_bytes((double)t->store_all, all));
    if (t->budget > 0)
        printf("  budget       %s, %.1f %% of it\n", text_bytes((double)t->budget, budget),
               100 * (double)t->budget / (double)t->store_all);
}

void train_print_run(const train *t, const train_run *run)
{
    const training_outcome *o = &run->outcome;
    char predicted[TEXT_SIZE], measured[TEXT_SIZE], planned[TEXT_SIZE], taken[TEXT_SIZE];
    printf("  schedule     %s, %zu operations\n", run->plan.solver,
           run->plan.plan.operations.length);
    printf("  step         %s of %s", text_seconds(o->step, measured), train_clock(t));
    if (!isnan(run->plan.predicted))
        printf(", predicted %s: %+.1f %%", text_seconds(run->plan.predicted, predicted),
               100 * (o->step / run->plan.predicted - 1));
    if (!isnan(o->calls))
        printf("\n  overhead     %.2f %% of the step beyond its calls\n"
               "  enqueued     after %s of wall clock; the step takes %s of it",
               overhead(o), text_seconds(o->enqueued, measured), text_seconds(o->wall, taken));
    printf("\n  arena        %s taken, peak of the plan %s\n", text_bytes((double)o->arena, taken),
           text_bytes((double)run->plan.plan.peak, planned));
    printf("  loss         %.6g, after %u steps %.6g\n", o->losses[0], t->options->steps,
           o->losses[t->options->steps - 1]);
}

void train_print_comparison(const train *t, const train_run *runs, size_t n)
{
    char arena[TEXT_SIZE], predicted[TEXT_SIZE], measured[TEXT_SIZE];
    const bool timed = t->options->overhead;
    printf("\n  step: %s%s\n", train_clock(t),
           timed ? "; overhead: of it, beyond its calls; enqueued: wall clock" : "");
    printf("  %-16s %12s %12s %12s%s  %12s  %s\n", "schedule", "arena", "predicted", "step",
           timed ? "  overhead     enqueued" : "", "last loss", "difference from the first");
    for (size_t i = 0; i < n; i++) {
        const train_run *r = &runs[i];
        printf("  %-16.16s %12s %12s %12s", r->plan.solver,
               text_bytes((double)r->outcome.arena, arena),
               text_seconds(r->plan.predicted, predicted), text_seconds(r->outcome.step, measured));
        if (timed)
            printf("  %6.2f %% %12s", overhead(&r->outcome),
                   text_seconds(r->outcome.enqueued, measured));
        printf("  %12.6g  ", r->outcome.losses[t->options->steps - 1]);
        if (!r->compared)
            puts("-");
        else if (r->difference.equal)
            puts("none: every bit is the same");
        else
            printf("%.2g of the norm%s\n", r->difference.relative,
                   r->faithful ? " after a step, by other roundings" : ": too much");
        if (r->outcome.arena > t->budget)
            printf("  %16s past the budget: it fits nothing smaller\n", "");
    }
}

static json_t *number_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *losses_json(const train *t, const double *losses)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < t->options->steps; i++)
        remat_json_append(&list, number_or_null(losses[i]));
    return list;
}

json_t *train_run_json(const train *t, const train_run *run)
{
    const training_outcome *o = &run->outcome;
    char profile_id[REMAT_ID_SIZE];
    train_profile_id(t, profile_id);
    json_t *json = json_pack(
        "{s:s, s:s, s:s, s:I, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:s, s:o, "
        "s:o, s:o, s:o, s:o, s:O?}",
        "model", t->net.name, "backend", t->backend.name, "device", t->device, "threads",
        (json_int_t)t->options->threads, "profile_id", profile_id, "schedule_id",
        run->plan.schedule_id, "solver", run->plan.solver, "parameter_bytes",
        (json_int_t)model_bytes(&t->net), "store_all_peak", (json_int_t)t->store_all, "budget",
        (json_int_t)t->budget, "arena", (json_int_t)o->arena, "planned_peak",
        (json_int_t)run->plan.plan.peak, "device_bytes", (json_int_t)o->taken, "library_bytes",
        (json_int_t)o->libraries, "predicted_step", number_or_null(run->plan.predicted),
        "step_clock", t->backend.clock, "step", number_or_null(o->step), "wall_step",
        number_or_null(o->wall), "calls_step", number_or_null(o->calls), "enqueued_step",
        number_or_null(o->enqueued), "losses", losses_json(t, o->losses), "link", t->link);
    if (!run->compared)
        return json;
    remat_json_set(&json, "equal", json_boolean(run->difference.equal));
    remat_json_set(&json, "faithful", json_boolean(run->faithful));
    remat_json_set(&json, "largest_difference", number_or_null(run->difference.largest));
    remat_json_set(&json, "relative_difference", number_or_null(run->difference.relative));
    return json;
}
