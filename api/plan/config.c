#include "plan/config.h"

#include "fields.h"

#include <string.h>

/* ---- sizes ---- */

static remat_status read_size(const remat_number *number, const char *field, uint32_t *ret_size,
                              remat_error *error)
{
    uint64_t value = 0;
    remat_status status = api_whole(number, field, 1, 1 << 24, &value, error);
    *ret_size = (uint32_t)value;
    return status;
}

static remat_choice choice_of(const json_t *json)
{
    return json_is_true(json) ? REMAT_YES : json_is_false(json) ? REMAT_NO : REMAT_AS_IT_IS;
}

remat_status api_sizes_decode(const json_t *json, remat_network_sizes *ret_sizes,
                              remat_error *error)
{
    remat_network_sizes s = {.hidden = 0};
    bool tied, qkv_bias, qk_norm;
    remat_number numbers[8] = {{0}};
    static const char *const names[] = {"hidden", "heads", "kv_heads", "head",
                                        "ffn",    "vocab", "experts",  "experts_per_token"};
    uint32_t *const sizes[] = {&s.hidden, &s.heads,      &s.kv_heads, &s.head,
                               &s.ffn,    &s.vocabulary, &s.experts,  &s.experts_per_token};
    field_rule rules[11] = {{"tied", FIELD_BOOLEAN, false, &tied},
                            {"qkv_bias", FIELD_BOOLEAN, false, &qkv_bias},
                            {"qk_norm", FIELD_BOOLEAN, false, &qk_norm}};
    for (size_t i = 0; i < 8; i++)
        rules[3 + i] = (field_rule){names[i], FIELD_NUMBER, false, &numbers[i]};
    remat_status status = api_read(json, "sizes.", rules, 11, error);
    for (size_t i = 0; i < 8 && !status; i++) {
        char field[40];
        snprintf(field, sizeof field, "sizes.%s", names[i]);
        if (numbers[i].given)
            status = read_size(&numbers[i], field, sizes[i], error);
    }
    s.tied = choice_of(json_object_get(json, "tied"));
    s.qkv_bias = choice_of(json_object_get(json, "qkv_bias"));
    s.qk_norm = choice_of(json_object_get(json, "qk_norm"));
    if (!status)
        *ret_sizes = s;
    return status;
}

/* ---- config.json ---- */

/* Kinds of models that are known, as which model of a name they are made, and what they have that
 * is not in their config (transformers, models/NAME/modeling_NAME.py). */
static const struct {
    const char *type, *model;
    bool qkv_bias, qk_norm;
} kinds[] = {{"llama", "llama3-8b", false, false},   {"mistral", "llama3-8b", false, false},
             {"mixtral", "llama3-8b", false, false}, {"qwen2", "llama3-8b", true, false},
             {"qwen3", "llama3-8b", false, true},    {"qwen3_moe", "llama3-8b", false, true},
             {"gpt2", "gpt2", false, false},         {"bert", "bert-base", false, false}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static int kind_of(const json_t *json, remat_error *error)
{
    const char *names[KINDS], *type = json_string_value(json_object_get(json, "model_type"));
    for (int i = 0; i < KINDS; i++) {
        names[i] = kinds[i].type;
        if (type && strcmp(type, kinds[i].type) == 0)
            return i;
    }
    if (type)
        (void)remat_fail_unknown("config.model_type", "model_type", type, names, KINDS, error);
    else
        (void)remat_fail(error, REMAT_INVALID, "config.model_type",
                         "config.model_type is missing: it says what kind of model this is");
    return -1;
}

/* usual: where it is left out or null; 0: it must be there. */
static remat_status read_member(const json_t *json, const char *name, uint32_t usual,
                                uint32_t *ret_size, remat_error *error)
{
    char field[80];
    const json_t *value = json_object_get(json, name);
    snprintf(field, sizeof field, "config.%s", name);
    *ret_size = usual;
    if (!value || json_is_null(value))
        return usual ? REMAT_OK : remat_fail(error, REMAT_INVALID, field, "%s is missing", field);
    if (!json_is_number(value))
        return remat_fail(error, REMAT_INVALID, field, "%s must be a number", field);
    const remat_number number = {json_number_value(value), true};
    return read_size(&number, field, ret_size, error);
}

/* A member's name in configs of GPT-2 and of all others. */
typedef struct member {
    const char *gpt2, *other;
    uint32_t *size;
} member;

static remat_status read_members(const json_t *json, bool gpt2, remat_network_settings *s,
                                 uint32_t *ret_positions, remat_error *error)
{
    remat_network_sizes *z = &s->sizes;
    const member members[] = {{"n_embd", "hidden_size", &z->hidden},
                              {"n_layer", "num_hidden_layers", &s->layers},
                              {"n_head", "num_attention_heads", &z->heads},
                              {"vocab_size", "vocab_size", &z->vocabulary},
                              {"n_positions", "max_position_embeddings", ret_positions}};
    remat_status status = REMAT_OK;
    for (size_t i = 0; i < sizeof members / sizeof *members && !status; i++)
        status =
            read_member(json, gpt2 ? members[i].gpt2 : members[i].other, 0, members[i].size, error);
    if (!status)
        status = gpt2 ? read_member(json, "n_inner", 4 * z->hidden, &z->ffn, error)
                      : read_member(json, "intermediate_size", 0, &z->ffn, error);
    return status;
}

static remat_status read_llama(const json_t *json, int kind, remat_network_sizes *z,
                               remat_error *error)
{
    const bool qwen = strcmp(kinds[kind].type, "qwen3_moe") == 0;
    remat_status status = read_member(json, "num_key_value_heads", z->heads, &z->kv_heads, error);
    if (!status && json_is_integer(json_object_get(json, "head_dim")))
        status = read_member(json, "head_dim", 0, &z->head, error);
    if (!status && json_is_true(json_object_get(json, "attention_bias")))
        return remat_fail(error, REMAT_INVALID, "config.attention_bias",
                          "config.attention_bias is true, which is not planned yet");
    if (!status && strcmp(kinds[kind].type, "mixtral") == 0)
        status = read_member(json, "num_local_experts", 0, &z->experts, error);
    if (!status && qwen)
        status = read_member(json, "num_experts", 0, &z->experts, error);
    if (!status && qwen)
        status = read_member(json, "moe_intermediate_size", 0, &z->ffn, error);
    if (!status && z->experts > 0)
        status = read_member(json, "num_experts_per_tok", 0, &z->experts_per_token, error);
    z->qkv_bias = kinds[kind].qkv_bias ? REMAT_YES : REMAT_NO;
    z->qk_norm = kinds[kind].qk_norm ? REMAT_YES : REMAT_NO;
    z->tied = json_is_true(json_object_get(json, "tie_word_embeddings")) ? REMAT_YES : REMAT_NO;
    return status;
}

/* A name that a profile can have as it is. */
static bool is_plain(const char *text)
{
    const size_t length = text ? strlen(text) : 0;
    for (size_t i = 0; i < length; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    return length > 0 && length <= 60;
}

remat_status api_config_decode(const json_t *json, const char **ret_model,
                               remat_network_settings *settings, remat_error *error)
{
    enum { USUAL_TOKENS = 8192 };
    const int kind = kind_of(json, error);
    uint32_t positions = 0;
    if (kind < 0)
        return REMAT_INVALID;
    const bool gpt2 = strcmp(kinds[kind].model, "gpt2") == 0;
    const bool llama = strcmp(kinds[kind].model, "llama3-8b") == 0;
    remat_status status = read_members(json, gpt2, settings, &positions, error);
    if (!status && llama)
        status = read_llama(json, kind, &settings->sizes, error);
    if (status)
        return status;
    if (!llama)
        settings->sizes.positions = positions;
    settings->sequence = positions < USUAL_TOKENS ? positions : USUAL_TOKENS;
    settings->called = json_string_value(json_object_get(json, "_name_or_path"));
    if (!is_plain(settings->called))
        settings->called = kinds[kind].type;
    *ret_model = kinds[kind].model;
    return REMAT_OK;
}
