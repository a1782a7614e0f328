/* The body of POST /v1/plans. */
#include "fields.h"
#include "plan/config.h"
#include "plan/ranks.h"

#include <string.h>

/* What is read from the body but does not stand in the request as it is. */
typedef struct raw {
    const char *network, *kernels, *profile_id, *attention, *precision, *float8, *optimizer,
        *solver, *effort;
    const json_t *device, *memory, *parallel, *options, *config, *sizes, *lora, *routing;
    remat_number parameters, batch, sequence, image, layers, node_ranks, wait;
    bool master, autocast, channels_last, keep_gradients, in_backward, offload, sweep;
} raw;

static remat_status read_size(const remat_number *number, const char *field, uint32_t *ret_value,
                              remat_error *error)
{
    uint64_t value = *ret_value;
    remat_status status = api_whole(number, field, 1, 1 << 20, &value, error);
    *ret_value = (uint32_t)value;
    return status;
}

/* Of models a batch and sizes, of profiles how many parameters there are. */
static remat_status read_subject(const raw *r, remat_plan_request *request, remat_error *error)
{
    const int given = (request->model != NULL) + (r->config != NULL) + (r->profile_id != NULL) +
                      (request->profile != NULL);
    remat_network_settings *s = &request->settings;
    if (given != 1)
        return remat_fail(error, REMAT_INVALID, "model",
                          "give one of model, config, profile_id and profile");
    if (r->sizes && !request->model)
        return remat_fail(error, REMAT_INVALID, "sizes", "sizes are for a model by its name");
    request->config = r->config;
    request->usual_layers = !r->layers.given;
    remat_status known = r->config  ? api_config_decode(r->config, &request->model, s, error)
                         : r->sizes ? api_sizes_decode(r->sizes, &s->sizes, error)
                                    : REMAT_OK;
    if (known)
        return known;
    if (!request->model) {
        const bool sized = r->batch.given || r->sequence.given || r->image.given ||
                           r->layers.given || r->attention;
        if (r->lora)
            return remat_fail(error, REMAT_INVALID, "lora",
                              "lora is for a model; a profile is of what it trains");
        if (r->routing)
            return remat_fail(error, REMAT_INVALID, "routing",
                              "routing is for a model; a profile has its rows");
        if (r->float8)
            return remat_fail(error, REMAT_INVALID, "fp8",
                              "fp8 is for a model; a profile has its products");
        if (r->kernels || r->channels_last)
            return remat_fail(error, REMAT_INVALID, "kernels",
                              "kernels and channels_last are for a model; a profile has its own");
        if (sized)
            return remat_fail(error, REMAT_INVALID, "batch",
                              "batch, sequence, image, layers and attention are for a model; a "
                              "profile has its sizes");
        if (r->profile_id && !remat_is_id(r->profile_id))
            return remat_fail(error, REMAT_INVALID, "profile_id",
                              "profile_id must be 64 lower-case hex digits");
        if (r->profile_id)
            memcpy(request->profile_id, r->profile_id, REMAT_ID_SIZE);
        return api_whole(&r->parameters, "parameters", 0, 1000000000000000, &request->parameters,
                         error);
    }
    if (request->measured_on)
        return remat_fail(error, REMAT_INVALID, "measured_on",
                          "measured_on is for a profile; the times of a model are made");
    if (r->parameters.given)
        return remat_fail(error, REMAT_INVALID, "parameters",
                          "parameters is for a profile; of \"%.60s\" they are known",
                          request->model);
    if (!r->batch.given)
        return remat_fail(error, REMAT_INVALID, "batch", "batch is required: examples of a step");
    remat_status status = api_whole(&r->batch, "batch", 1, 1 << 20, &s->batch, error);
    if (!status)
        status = read_size(&r->sequence, "sequence", &s->sequence, error);
    if (!status)
        status = read_size(&r->image, "image", &s->image, error);
    if (!status)
        status = read_size(&r->layers, "layers", &s->layers, error);
    if (!status && r->attention && strcmp(r->attention, "fused") != 0 &&
        strcmp(r->attention, "eager") != 0)
        return remat_fail_unknown("attention", "attention", r->attention,
                                  (const char *const[]){"fused", "eager"}, 2, error);
    s->eager_attention = r->attention && strcmp(r->attention, "eager") == 0;
    if (!status && r->kernels)
        status = remat_kernels_find(r->kernels, &s->kernels, error);
    if (!status && r->float8)
        status = remat_float8_find(r->float8, &s->float8, error);
    if (!status && r->routing)
        status = api_routing_decode(r->routing, &s->routing, error);
    if (!status && r->lora)
        status = api_lora_decode(r->lora, &s->lora, error);
    return status;
}

/* Which weights a stage of a profile has nobody knows; of the whole they must be said. */
static remat_status check_parameters(const raw *r, const remat_plan_request *request,
                                     remat_error *error)
{
    const bool pipeline = request->pipeline.ranks > 0;
    if (request->model || pipeline != r->parameters.given)
        return REMAT_OK;
    if (pipeline && request->parameters == 0)
        return REMAT_OK;
    return remat_fail(error, REMAT_INVALID, "parameters",
                      pipeline ? "a profile does not say which of its nodes weights belong to: a "
                                 "pipeline of it is planned without; leave parameters out"
                               : "parameters is required: how many numbers the weights of the "
                                 "profile have");
}

/* What is usual on the device: bfloat16, or float16 where that is all it has, or float32. */
static remat_precision usual_precision(const remat_device *device)
{
    return device->rate[REMAT_BFLOAT16] > 0  ? REMAT_BFLOAT16
           : device->rate[REMAT_FLOAT16] > 0 ? REMAT_FLOAT16
                                             : REMAT_FLOAT32;
}

void remat_plan_take_precision(remat_plan_request *request, const json_t *document)
{
    const json_t *dtype = json_object_get(json_object_get(document, "source"), "dtype");
    remat_precision own;
    if (request->model || !request->usual_precision || !json_is_string(dtype) ||
        remat_precision_find(json_string_value(dtype), &own, NULL))
        return; /* files name others too */
    const bool wide = remat_precision_bytes(own) == 4;
    const bool narrowed = request->step.autocast || request->step.no_master;
    if (request->device.rate[own] > 0 && !(wide && narrowed))
        request->step.precision = request->settings.precision = own;
}

static remat_status read_step(const raw *r, remat_plan_request *request, remat_error *error)
{
    remat_step_settings *step = &request->step;
    *step = (remat_step_settings){.optimizer = REMAT_ADAMW, .ranks = 1, .no_master = !r->master};
    step->precision = usual_precision(&request->device);
    request->usual_precision = !r->precision;
    remat_status status = REMAT_OK;
    if (r->precision)
        status = remat_precision_find(r->precision, &step->precision, error);
    if (!status && r->optimizer)
        status = remat_optimizer_find(r->optimizer, &step->optimizer, error);
    if (!status && r->parallel)
        status = api_parallel_decode(r->parallel, request, error);
    if (!status && step->optimizer == REMAT_ADAFACTOR && !request->model)
        status = remat_fail(error, REMAT_INVALID, "optimizer",
                            "what adafactor keeps depends on the shapes of the weights, which a "
                            "profile does not say; it is for a model");
    if (!status && !request->model &&
        (request->settings.tensor > 1 || request->settings.context > 1 ||
         request->settings.expert > 1))
        status = remat_fail(error, REMAT_INVALID, "parallel",
                            "a profile is what one rank computes: it cannot be cut; of a mesh it "
                            "takes dp and shard");
    if (!status && r->in_backward && (!request->model || request->pipeline.ranks > 0))
        status = remat_fail(error, REMAT_INVALID, "optimizer_in_backward",
                            request->model ? "micro-batches of a pipeline sum their gradients"
                                           : "how large the largest gradient is depends on the "
                                             "shapes of the weights, which a profile does not say");
    if (!status && r->in_backward && r->keep_gradients)
        status = remat_fail(error, REMAT_INVALID, "keep_gradients",
                            "an optimizer in the backward frees each gradient as it is used: "
                            "keep_gradients does not go with it");
    request->settings.precision = step->precision;
    step->in_backward = r->in_backward;
    request->settings.channels_last = r->channels_last;
    step->autocast = request->settings.autocast = r->autocast;
    step->float8 = request->settings.float8;
    step->compiled = request->settings.kernels != REMAT_EAGER;
    step->keep_gradients = r->keep_gradients;
    step->in_graph = request->model && request->pipeline.ranks == 0;
    return status;
}

/* Of the device, in place of its own. */
static remat_status read_memory(const json_t *json, uint64_t *ret_bytes, remat_error *error)
{
    remat_amount amount = {.given = false};
    remat_status status = remat_amount_decode(json, "device_memory", false, &amount, error);
    if (!status && !(amount.value >= 1 && amount.value < (double)REMAT_MAX_BYTES))
        status = remat_fail(error, REMAT_INVALID, "device_memory",
                            "device_memory must be from 1 byte to 2^53");
    if (!status)
        *ret_bytes = (uint64_t)amount.value;
    return status;
}

static remat_status read_network(const raw *r, remat_device *device, remat_error *error)
{
    uint32_t node = 0;
    remat_status status =
        r->node_ranks.given ? read_size(&r->node_ranks, "node_ranks", &node, error) : REMAT_OK;
    return status ? status : remat_network_decode(r->network, node, device, error);
}

remat_status remat_plan_request_decode(const json_t *json, remat_plan_request *ret_request,
                                       remat_error *error)
{
    remat_plan_request request = {.model = NULL};
    raw r = {.master = true, .sweep = true};
    remat_effort effort;
    const field_rule rules[] = {{"model", FIELD_STRING, false, &request.model},
                                {"config", FIELD_OBJECT, false, &r.config},
                                {"sizes", FIELD_OBJECT, false, &r.sizes},
                                {"profile_id", FIELD_STRING, false, &r.profile_id},
                                {"profile", FIELD_OBJECT, false, &request.profile},
                                {"parameters", FIELD_NUMBER, false, &r.parameters},
                                {"measured_on", FIELD_ANY, false, &request.measured_on},
                                {"batch", FIELD_NUMBER, false, &r.batch},
                                {"sequence", FIELD_NUMBER, false, &r.sequence},
                                {"image", FIELD_NUMBER, false, &r.image},
                                {"layers", FIELD_NUMBER, false, &r.layers},
                                {"attention", FIELD_STRING, false, &r.attention},
                                {"kernels", FIELD_STRING, false, &r.kernels},
                                {"fp8", FIELD_STRING, false, &r.float8},
                                {"autocast", FIELD_BOOLEAN, false, &r.autocast},
                                {"lora", FIELD_OBJECT, false, &r.lora},
                                {"routing", FIELD_OBJECT, false, &r.routing},
                                {"channels_last", FIELD_BOOLEAN, false, &r.channels_last},
                                {"keep_gradients", FIELD_BOOLEAN, false, &r.keep_gradients},
                                {"device", FIELD_ANY, true, &r.device},
                                {"device_memory", FIELD_ANY, false, &r.memory},
                                {"optimizer", FIELD_STRING, false, &r.optimizer},
                                {"optimizer_in_backward", FIELD_BOOLEAN, false, &r.in_backward},
                                {"precision", FIELD_STRING, false, &r.precision},
                                {"master_weights", FIELD_BOOLEAN, false, &r.master},
                                {"parallel", FIELD_OBJECT, false, &r.parallel},
                                {"network", FIELD_STRING, false, &r.network},
                                {"node_ranks", FIELD_NUMBER, false, &r.node_ranks},
                                {"offload", FIELD_BOOLEAN, false, &r.offload},
                                {"sweep", FIELD_BOOLEAN, false, &r.sweep},
                                {"solver", FIELD_ANY, false, &request.solver},
                                {"options", FIELD_OBJECT, false, &request.options},
                                {"effort", FIELD_STRING, false, &r.effort},
                                {"wait", FIELD_NUMBER, false, &r.wait}};
    remat_status status = api_read(json, "", rules, sizeof rules / sizeof *rules, error);
    if (!status)
        status = remat_device_decode(r.device, "device", &request.device, error);
    if (!status && r.memory)
        status = read_memory(r.memory, &request.device.memory, error);
    if (!status)
        status = read_subject(&r, &request, error);
    if (!status)
        status = read_network(&r, &request.device, error);
    if (!status)
        status = read_step(&r, &request, error);
    if (!status)
        status = check_parameters(&r, &request, error);
    if (!status)
        status = api_wait(&r.wait, &request.wait, error);
    if (!status && r.effort)
        status = api_effort(r.effort, &effort, error);
    if (!status && r.offload && request.device.link == 0)
        status = remat_fail(error, REMAT_INVALID, "offload", "%s has no way to the host",
                            request.device.name);
    if (!status && r.offload && request.pipeline.ranks > 0)
        status = remat_fail(error, REMAT_INVALID, "offload",
                            "stages of a pipeline are planned without a way to the host");
    if (status)
        return status;
    request.effort = r.effort ? json_object_get(json, "effort") : NULL;
    request.offload = r.offload;
    request.usual_network = !r.network;
    request.usual_between = r.network && !strchr(r.network, '+');
    request.usual_latency = r.network && api_network_lacks_latency(r.network);
    request.usual_node = r.network && !r.node_ranks.given;
    request.sweep = r.sweep && request.model && request.pipeline.ranks == 0;
    *ret_request = request;
    return REMAT_OK;
}
