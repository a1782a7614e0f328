/* remat plan: whether a model trains on a device, how fast, and how large a batch it takes. */
#include "plan/plan.h"
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- options ---- */

/* Options that stand in the request as they are; parallel.kind and parallel.ranks in its object. */
static const struct {
    const char *name, *member;
    enum { WORD, NUMBER, YES, NO, MESH, LIST } type;
} members[] = {{"batch", "batch", NUMBER},
               {"sequence", "sequence", NUMBER},
               {"image", "image", NUMBER},
               {"layers", "layers", NUMBER},
               {"hidden", "sizes.hidden", NUMBER},
               {"heads", "sizes.heads", NUMBER},
               {"kv-heads", "sizes.kv_heads", NUMBER},
               {"head-width", "sizes.head", NUMBER},
               {"ffn", "sizes.ffn", NUMBER},
               {"vocab", "sizes.vocab", NUMBER},
               {"window", "sizes.window", NUMBER},
               {"experts", "sizes.experts", NUMBER},
               {"experts-per-token", "sizes.experts_per_token", NUMBER},
               {"parameters", "parameters", NUMBER},
               {"attention", "attention", WORD},
               {"kernels", "kernels", WORD},
               {"fp8", "fp8", WORD},
               {"autocast", "autocast", YES},
               {"channels-last", "channels_last", YES},
               {"capacity-factor", "routing.capacity_factor", NUMBER},
               {"expert-load", "routing.load", WORD},
               {"lora", "lora.rank", NUMBER},
               {"lora-targets", "lora.targets", LIST},
               {"lora-dropout", "lora.dropout", YES},
               {"lora-base", "lora.base", WORD},
               {"optimizer", "optimizer", WORD},
               {"optimizer-in-backward", "optimizer_in_backward", YES},
               {"precision", "precision", WORD},
               {"memory", "device_memory", WORD},
               {"no-master", "master_weights", NO},
               {"keep-gradients", "keep_gradients", YES},
               {"parallel", "parallel.kind", WORD},
               {"ranks", "parallel.ranks", NUMBER},
               {"mesh", "parallel.mesh", MESH},
               {"microbatches", "parallel.microbatches", NUMBER},
               {"schedule", "parallel.schedule", WORD},
               {"chunks", "parallel.chunks", NUMBER},
               {"runtime", "parallel.runtime", WORD},
               {"network", "network", WORD},
               {"node-ranks", "node_ranks", NUMBER},
               {"view-buckets", "parallel.bucket_view", YES},
               {"no-prefetch", "parallel.prefetch", NO},
               {"offload", "offload", YES},
               {"no-sweep", "sweep", NO}};

/* The object and the member in it of a path with at most one dot. */
static json_t *holder(json_t *request, const char *path, const char **ret_member)
{
    const char *dot = strchr(path, '.');
    char name[32];
    *ret_member = dot ? dot + 1 : path;
    if (!dot)
        return request;
    snprintf(name, sizeof name, "%.*s", (int)(dot - path), path);
    if (!json_object_get(request, name) && json_object_set_new(request, name, json_object()))
        return NULL;
    return json_object_get(request, name);
}

/* "dp=8,tp=4" as an object. */
static json_t *mesh_json(const char *text)
{
    json_t *mesh = json_object();
    while (mesh && *text) {
        char name[16];
        char *end;
        const size_t length = strcspn(text, "=,");
        if (length == 0 || length >= sizeof name || text[length] != '=')
            break;
        snprintf(name, sizeof name, "%.*s", (int)length, text);
        const long ranks = strtol(text + length + 1, &end, 10);
        if (end == text + length + 1 || (*end && *end != ',') || json_object_get(mesh, name))
            break;
        remat_json_set(&mesh, name, json_integer(ranks));
        text = end + (*end == ',');
    }
    if (mesh && *text == '\0' && json_object_size(mesh) > 0)
        return mesh;
    json_decref(mesh);
    return NULL;
}

/* "q,v" as an array. */
static json_t *list_json(const char *text)
{
    json_t *list = json_array();
    while (*text) {
        const size_t length = strcspn(text, ",");
        remat_json_append(&list, json_stringn(text, length));
        text += length + (text[length] == ',');
    }
    return list;
}

static json_t *option_json(size_t i, const char *value)
{
    char *end;
    if (members[i].type == MESH)
        return mesh_json(value);
    if (members[i].type == LIST)
        return list_json(value);
    if (members[i].type == YES || members[i].type == NO)
        return json_boolean(members[i].type == YES);
    if (members[i].type == WORD)
        return json_string(value);
    const double number = strtod(value, &end);
    if (end == value || *end || !isfinite(number))
        return NULL;
    return fabs(number) < 1e15 && number == floor(number) ? json_integer((json_int_t)number)
                                                          : json_real(number);
}

int plan_take(struct cli *cli, const char *name, const char *value)
{
    const char *member;
    size_t i = 0;
    while (strcmp(members[i].name, name) != 0)
        i++;
    if (!cli->plan)
        cli->plan = json_object();
    json_t *to = cli->plan ? holder(cli->plan, members[i].member, &member) : NULL;
    json_t *json = option_json(i, value);
    if (!json)
        return cli_usage(cli, "--%s is \"%.60s\"; it must be %s", name, value,
                         members[i].type == NUMBER ? "a number"
                         : members[i].type == MESH ? "like dp=8,tp=4"
                                                   : "UTF-8");
    if (to && json_object_set_new(to, member, json) == 0)
        return CLI_OK;
    remat_fail_memory(&cli->error);
    return cli_failed(cli);
}

/* A name, or a file that calibrate wrote. */
static remat_status device_json(const char *text, json_t **ret_json, remat_error *error)
{
    if (strchr(text, '/') || strchr(text, '.') || strcmp(text, "-") == 0)
        return file_read_json(text, ret_json, error);
    *ret_json = json_string(text);
    return *ret_json ? REMAT_OK
                     : remat_fail(error, REMAT_INVALID, "device", "--device is not UTF-8");
}

static bool is_model(const char *text)
{
    return !strchr(text, '/') && !strstr(text, ".json") && strcmp(text, "-") != 0 &&
           !remat_is_id(text);
}

/* A config.json of Hugging Face, told by what no profile has; NULL: it is none, or no file. */
static json_t *config_json(const char *what)
{
    static const char *const own[] = {"model_type", "_class_name", "architectures", "hidden_size"};
    json_t *json = NULL;
    if (is_model(what) || remat_is_id(what) || strcmp(what, "-") == 0 ||
        file_read_json(what, &json, NULL))
        return NULL;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (json_object_get(json, own[i]))
            return json;
    json_decref(json);
    return NULL;
}

/* The request: what options say, a device, a model or a profile. */
static remat_status make_request(struct cli *cli, struct subject *subject, json_t *config,
                                 json_t **ret_request)
{
    const char *what = cli->arguments[0];
    json_t *device = NULL, *measured = NULL,
           *request = cli->plan ? json_deep_copy(cli->plan) : json_object();
    remat_status status = device_json(cli->device, &device, &cli->error);
    if (!status)
        remat_json_set(&request, "device", device);
    if (!status && cli->measured_on)
        status = device_json(cli->measured_on, &measured, &cli->error);
    if (!status && cli->measured_on)
        remat_json_set(&request, "measured_on", measured);
    if (!status && !is_model(what) && !config)
        status = subject_load(what, subject, &cli->error);
    if (is_model(what))
        remat_json_set(&request, "model", json_string(what));
    else if (config)
        remat_json_set(&request, "config", json_incref(config));
    else if (!status && subject->document)
        remat_json_set(&request, "profile", json_incref(subject->document));
    else if (!status)
        remat_json_set(&request, "profile_id", json_string(subject->id));
    if (cli->solver)
        remat_json_set(&request, "solver", json_string(cli->solver));
    if (cli->solver_options)
        remat_json_set(&request, "options", json_incref(cli->solver_options));
    if (cli->effort)
        remat_json_set(&request, "effort", json_string(cli->effort));
    if (!status && !request)
        status = remat_fail_memory(&cli->error);
    if (status)
        json_decref(request);
    else
        *ret_request = request;
    return status;
}

/* ---- here ---- */

/* The profile of a draft's question, where it is not the one given. */
static remat_status use_document(struct cli *cli, struct subject *s, const remat_plan_draft *draft)
{
    if (!draft->document)
        return REMAT_OK;
    subject_clear(s);
    s->document = json_incref(draft->document);
    remat_status status = remat_profile_decode(s->document, "", &s->profile, &cli->error);
    if (!status)
        status = remat_store_all_peak(s->profile, &s->store_all_peak, &cli->error);
    if (!status)
        remat_profile_id(s->profile, s->id);
    return status;
}

/* Solves the draft's questions, one after another, unless nothing is left to solve for. */
static remat_status solve_draft(struct cli *cli, struct subject *s, remat_plan_draft *draft)
{
    remat_status status = REMAT_OK;
    for (bool asks = true; asks && !status;) {
        json_t *schedule = NULL;
        remat_error refusal;
        status = use_document(cli, s, draft);
        if (status)
            return status;
        if (draft->question)
            status = local_answer(cli, s, draft->question, REMAT_ASK_SCHEDULE, &schedule, &refusal);
        const bool refused = status == REMAT_INFEASIBLE;
        if (status && !refused)
            cli->error = refusal;
        else
            status = remat_plan_draft_next(draft, schedule, refused ? &refusal : NULL, &asks,
                                           &cli->error);
        if (!status && !asks)
            status = remat_plan_draft_finish(draft, &cli->error);
        json_decref(schedule);
    }
    return status;
}

static int plan_here(struct cli *cli, struct subject *s, const json_t *request)
{
    remat_plan_request plan;
    remat_plan_draft draft = {.answer = NULL};
    if (!is_model(cli->arguments[0]) && !s->document && !json_object_get(request, "config"))
        return cli_usage(cli, "without --server plan needs the profile itself, not its id");
    remat_status status = remat_plan_request_decode(request, &plan, &cli->error);
    if (!status)
        status = remat_plan_draft_make(&plan, s->profile, s->document, &draft, &cli->error);
    if (!status)
        status = solve_draft(cli, s, &draft);
    int code = status ? cli_failed(cli) : plan_print(cli, draft.answer, NULL, "");
    remat_plan_draft_clear(&draft);
    return code;
}

/* ---- there ---- */

/* Waits for the job of a 202. */
static remat_status follow(struct cli *cli, const remat_client_answer *answer)
{
    char path[80];
    bool over = false;
    snprintf(path, sizeof path, "%.64s", json_get_text(answer->json, "job_id"));
    remat_status status = REMAT_OK;
    while (!status && !over) {
        remat_client_answer job;
        const struct timespec pause = {.tv_nsec = 100000000};
        nanosleep(&pause, NULL);
        status = remat_client_get(cli->client, "jobs", path, "", &job, &cli->error);
        if (status)
            break;
        const char *state = json_get_text(job.json, "state");
        over = strcmp(state, "queued") != 0 && strcmp(state, "running") != 0;
        remat_client_answer_clear(&job);
    }
    return status;
}

static int plan_there(struct cli *cli, json_t *request)
{
    /* an answer can be forgotten before it is read; each stage of a pipeline, and each change that
     * would fit, is a job */
    enum { MOST_ROUNDS = 20, MOST_STAGES = 300 };
    const int rounds = json_object_get(json_object_get(request, "parallel"), "microbatches")
                           ? MOST_STAGES
                           : MOST_ROUNDS;
    remat_client_answer answer = {0};
    remat_status status = cli_connect(cli);
    const double wait = fmin(cli->wait, 20);
    if (!status && json_object_set_new(request, "wait", json_real(wait)))
        status = remat_fail_memory(&cli->error);
    for (int round = 0; !status && round < rounds; round++) {
        remat_client_answer_clear(&answer);
        status =
            remat_client_request(cli->client, "POST", "/v1/plans", request, &answer, &cli->error);
        if (status || answer.status != 202 || cli->wait <= wait)
            break;
        status = follow(cli, &answer);
    }
    if (!status && answer.status == 202)
        status = cli_expect(cli, status, &answer, "{s:s}", "job_id");
    else
        status = cli_expect(cli, status, &answer, "{s:s, s:b}", "profile_id", "fits");
    if (status == REMAT_CANCELLED)
        return interrupt_cancel(cli, "/v1/plans", request, NULL);
    if (status)
        return cli_failed(cli);
    int code = answer.status == 202 ? cli_waiting(cli, &answer)
                                    : plan_print(cli, answer.json, answer.text, answer.cache);
    remat_client_answer_clear(&answer);
    return code;
}

/* Options of one kind of parallelism beside another. */
static int check_parallel(struct cli *cli)
{
    const char *kind = json_get_text(json_object_get(cli->plan, "parallel"), "kind");
    int code = CLI_OK;
    const bool sharded = !kind[0] || strcmp(kind, "zero3") == 0 || strcmp(kind, "fsdp") == 0;
    if (strcmp(kind, "ddp") != 0 && strcmp(kind, "zero1") != 0)
        code = options_refuse(cli, "view-buckets", "--parallel but that of ddp and zero1");
    if (!code && !sharded)
        code = options_refuse(cli, "no-prefetch", "--parallel but that of zero3");
    return code;
}

int command_plan(struct cli *cli)
{
    struct subject s = {0};
    json_t *request = NULL;
    if (cli->n_arguments != 1)
        return cli_usage(cli, "plan takes one MODEL or PROFILE");
    if (!cli->device)
        return cli_usage(cli, "plan needs --device, a name or a file that calibrate wrote");
    if (check_parallel(cli))
        return CLI_USAGE;
    json_t *config = config_json(cli->arguments[0]);
    const bool profile = !is_model(cli->arguments[0]) && !config;
    int code = make_request(cli, &s, config, &request) ? cli_failed(cli) : CLI_OK;
    if (!code && profile) /* a file that cannot be read says so first */
        code = options_refuse(cli, "no-sweep", "a PROFILE: it has one batch");
    if (!code)
        code = cli->server ? plan_there(cli, request) : plan_here(cli, &s, request);
    json_decref(config);
    json_decref(request);
    subject_clear(&s);
    return code;
}

/* ---- --whole-device of solve ---- */

/* How many numbers the weights have: said, or what the profile says of itself. */
static double parameters_of(const struct cli *cli, const json_t *source)
{
    const double said = json_get_number(cli->plan, "parameters");
    const double known = json_get_number(source, "parameters");
    const double bytes = json_get_number(source, "parameter_bytes");
    remat_precision precision;
    if (!isnan(said) || !isnan(known))
        return isnan(said) ? known : said;
    if (remat_precision_find(json_get_text(source, "dtype"), &precision, NULL) &&
        remat_precision_find(json_get_text(cli->plan, "precision"), &precision, NULL))
        return NAN;
    return floor(bytes / (double)remat_precision_bytes(precision));
}

/* --budget, which is the device's memory. */
static remat_status budget_bytes(struct cli *cli, const struct subject *s, uint64_t *ret_bytes)
{
    remat_amount amount = {.given = false};
    json_t *json = json_string(cli->budget);
    remat_status status = remat_amount_decode(json, "budget", true, &amount, &cli->error);
    json_decref(json);
    if (!status && amount.value >= (double)REMAT_MAX_BYTES)
        status = remat_fail(&cli->error, REMAT_INVALID, "budget", "budget is past 2^53 bytes");
    if (!status)
        *ret_bytes = (uint64_t)(amount.percent ? amount.value / 100 * (double)s->store_all_peak
                                               : amount.value);
    return status;
}

int plan_whole_device(struct cli *cli, const struct subject *s)
{
    const json_t *source = json_object_get(s->document, "source");
    remat_plan_request plan;
    remat_step_table table;
    uint64_t memory = 0;
    json_t *device = NULL;
    if (check_parallel(cli))
        return CLI_USAGE;
    if (!s->document)
        return cli_usage(cli, "--whole-device needs the profile itself, not its id");
    const double parameters = parameters_of(cli, source);
    if (isnan(parameters))
        return cli_usage(cli, "--whole-device: the profile does not say how many parameters there "
                              "are; --parameters N does");
    if (device_json(cli->device ? cli->device : "a100-80gb", &device, &cli->error))
        return cli_failed(cli);
    json_t *request = cli->plan ? json_deep_copy(cli->plan) : json_object();
    remat_json_set(&request, "device", device);
    remat_json_set(&request, "profile", json_incref(s->document));
    remat_json_set(&request, "parameters", json_integer((json_int_t)parameters));
    remat_status status = request ? remat_plan_request_decode(request, &plan, &cli->error)
                                  : remat_fail_memory(&cli->error);
    if (!status)
        remat_plan_take_precision(&plan, s->document);
    const remat_tensor whole = {1, status ? 0 : plan.parameters, 0, 0, REMAT_TRAINED, false};
    if (!status)
        status = remat_step_bytes(&whole, 1, &plan.step, &plan.device, &table, &cli->error);
    json_decref(request);
    if (!status)
        status = budget_bytes(cli, s, &memory);
    if (status)
        return cli_failed(cli);
    const uint64_t room = remat_step_room(&table, memory);
    const uint64_t taken = room > 0 ? memory - room : remat_step_memory(&table, 0).driver;
    snprintf(cli->whole, sizeof cli->whole, "%llu", (unsigned long long)taken);
    cli->reserved = cli->whole;
    if (!cli->json)
        fprintf(stderr, "reserved %s bytes of the device for %.0f parameters, %s, %s\n", cli->whole,
                parameters, remat_precision_name(plan.step.precision),
                remat_optimizer_name(plan.step.optimizer));
    return CLI_OK;
}
