/* remat-train: trains a network under a schedule and says how it went. */
#include "host/machine.h"
#include "train.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- failing ---- */

int train_fail(const train *t)
{
    char bytes[TEXT_SIZE];
    fflush(stdout);
    fputs("remat-train: ", stderr);
    text_safe(stderr, t->error.message);
    putc('\n', stderr);
    if (t->error.status == REMAT_INFEASIBLE && t->error.number > 0)
        fprintf(stderr, "A budget that can be served: --budget %llu (%s).\n",
                (unsigned long long)t->error.number, text_bytes((double)t->error.number, bytes));
    return exit_code_of(t->error.status);
}

/* ---- training ---- */

typedef struct bar {
    struct progress progress;
    char label[64];
    uint32_t steps;
} bar;

static bool on_step(void *data, uint32_t done, double loss)
{
    bar *b = data;
    snprintf(b->label, sizeof b->label, "step %u, loss %.4g", done, loss);
    progress_draw(&b->progress, b->label, (double)done / b->steps);
    return true;
}

/* Trains from the start. */
remat_status train_run_plan(train *t, const remat_plan *plan, uint32_t steps,
                            training_outcome *ret_outcome)
{
    bar b = {.steps = steps};
    const training_settings settings = {.steps = steps,
                                        .rate = (float)t->options->rate,
                                        .momentum = (float)t->options->momentum,
                                        .seed = (uint64_t)t->options->seed,
                                        .flags = t->options->guard ? REMAT_EXEC_GUARD : 0,
                                        .text = &t->text,
                                        .timed = t->options->overhead,
                                        .progress = on_step,
                                        .data = &b};
    progress_begin(&b.progress, t->show_progress, false);
    remat_status status = training_run(&t->model, plan, &settings, ret_outcome, &t->error);
    progress_end(&b.progress);
    return status;
}

/* Gets a plan and trains; the caller clears the run, on failure too. */
remat_status train_run_solver(train *t, const char *solver, bool least, train_run *r)
{
    remat_status status = train_plan_get(t, solver, least, &r->plan);
    return status ? status : train_run_plan(t, &r->plan.plan, t->options->steps, &r->outcome);
}

void train_run_clear(train_run *r)
{
    remat_plan_clear(&r->plan.plan);
    free(r->outcome.losses);
}

/* ---- output ---- */

int train_write_json(train *t, json_t *json)
{
    char *text = json ? remat_json_text(json) : NULL;
    remat_status status = text ? REMAT_OK : remat_fail_memory(&t->error);
    if (!status && t->options->output)
        status = file_write_text(t->options->output, text, &t->error);
    else if (!status)
        puts(text);
    free(text);
    json_decref(json);
    return status ? train_fail(t) : CLI_OK;
}

/* ---- what it does ---- */

/* Sizes that a network has none of are left out. */
static json_t *network_json(const network *net)
{
    const network_settings *s = &net->usual;
    const struct {
        const char *name;
        uint32_t size;
    } sizes[] = {{"batch", s->batch},
                 {"image", s->image},
                 {"time", s->time},
                 {"classes", s->classes},
                 {"parts", s->parts}};
    json_t *json = json_pack("{s:s, s:s}", "name", net->name, "summary", net->summary);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].size > 0)
            remat_json_set(&json, sizes[i].name, json_integer(sizes[i].size));
    return json;
}

static int list_networks(train *t)
{
    size_t n;
    const network *const *all = networks(&n);
    const bool json = t->options->json;
    json_t *list = json ? json_array() : NULL;
    for (size_t i = 0; i < n; i++)
        if (json)
            remat_json_append(&list, network_json(all[i]));
        else
            printf("%-12s %s\n", all[i]->name, all[i]->summary);
    return json ? train_write_json(t, list) : CLI_OK;
}

static int say_version(train *t)
{
    if (t->options->json)
        return train_write_json(t, json_pack("{s:s}", "version", REMAT_VERSION));
    puts("remat-train " REMAT_VERSION);
    return CLI_OK;
}

static int train_once(train *t)
{
    train_run r = {0};
    int code = CLI_OK;
    bool failed = train_run_solver(t, NULL, false, &r) != REMAT_OK;
    if (!failed && t->options->json)
        code = train_write_json(t, train_run_json(t, &r));
    else if (!failed) {
        train_print_network(t);
        train_print_run(t, &r);
    }
    if (!failed && t->budget > 0 && r.outcome.arena > t->budget) {
        (void)remat_fail(&t->error, REMAT_INTERNAL, NULL,
                         "%llu bytes were taken; the budget is %llu",
                         (unsigned long long)r.outcome.arena, (unsigned long long)t->budget);
        failed = true;
    }
    failed = failed || train_post(t, &r.plan, &r.outcome) != REMAT_OK;
    train_run_clear(&r);
    return failed ? train_fail(t) : code;
}

static int train_all(train *t)
{
    if (train_prepare(t))
        return train_fail(t);
    if (t->options->profile_only)
        return train_write_json(t, json_incref(t->document));
    return t->options->compare ? train_compare(t) : train_once(t);
}

int main(int argc, char **argv)
{
    train_options options;
    machine_keep_streams();
    signal(SIGPIPE, SIG_IGN); /* a reader that goes away is an error of writing, not a death */
    if (!train_options_parse(argc, argv, &options))
        return CLI_USAGE;
    int code = CLI_OK;
    train t = {.options = &options};
    const char *term = getenv("TERM");
    t.show_progress = !options.quiet && isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
    if (options.help)
        train_help();
    else if (options.output && file_check_write(options.output, &t.error))
        code = train_fail(&t);
    else
        code = options.version     ? say_version(&t)
               : options.list      ? list_networks(&t)
               : options.calibrate ? train_calibrate(&t)
               : options.plan      ? train_foresee(&t)
                                   : train_all(&t);
    train_clear(&t);
    if ((fflush(stdout) || ferror(stdout)) && code == CLI_OK) {
        fprintf(stderr, "remat-train: cannot write the output: %s\n", strerror(errno));
        code = CLI_INTERNAL;
    }
    return code;
}
