/* Models by their sizes. Private to api/plan. */
#ifndef REMAT_API_PLAN_CONFIG_H
#define REMAT_API_PLAN_CONFIG_H

#include "plan/plan.h"

/* The member sizes of a request. */
remat_status api_sizes_decode(const json_t *json, remat_network_sizes *ret_sizes,
                              remat_error *error);

/* The member lora of a request and of an answer. */
remat_status api_lora_decode(const json_t *json, remat_lora *ret_lora, remat_error *error);
json_t *api_lora_encode(const remat_lora *lora);

/* The member routing of a request. */
remat_status api_routing_decode(const json_t *json, remat_routing *ret_routing, remat_error *error);

/* A config.json of Hugging Face as the model of the same make with its sizes, layers and tokens;
 * *ret_model is static, settings->called borrowed from the config. REMAT_INVALID: a kind of model
 * that is not known, a member that is missing, of another type or out of range. */
remat_status api_config_decode(const json_t *json, const char **ret_model,
                               remat_network_settings *settings, remat_error *error);

/* An error of the graph of such a model: the field becomes what the config calls it; layers:
 * whether the config says how many there are. */
void api_config_blame(const json_t *json, bool layers, remat_error *error);

#endif
