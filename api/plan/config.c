#include "plan/config.h"

#include "fields.h"

#include <stdlib.h>
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

/* Their names in a request, and where they stand. */
#define AT(size) offsetof(remat_network_sizes, size)

static const struct {
    const char *name;
    size_t at;
} sizes[] = {{"hidden", AT(hidden)},
             {"heads", AT(heads)},
             {"kv_heads", AT(kv_heads)},
             {"head", AT(head)},
             {"ffn", AT(ffn)},
             {"vocab", AT(vocabulary)},
             {"experts", AT(experts)},
             {"experts_per_token", AT(experts_per_token)},
             {"window", AT(window)},
             {"shared_experts", AT(shared_experts)},
             {"dense_layers", AT(dense_layers)},
             {"dense_ffn", AT(dense_ffn)},
             {"q_rank", AT(q_rank)},
             {"kv_rank", AT(kv_rank)},
             {"plain_head", AT(plain_head)},
             {"rotated_head", AT(rotated_head)},
             {"value_head", AT(value_head)}};
enum { SIZES = sizeof sizes / sizeof *sizes };

static uint32_t *size_at(remat_network_sizes *s, size_t at)
{
    return (uint32_t *)(void *)((char *)s + at);
}

remat_status api_sizes_decode(const json_t *json, remat_network_sizes *ret_sizes,
                              remat_error *error)
{
    remat_network_sizes s = {.hidden = 0};
    bool tied, qkv_bias, qk_norm;
    enum { CHOICES = 3 };
    remat_number numbers[SIZES] = {{0}};
    field_rule rules[CHOICES + SIZES] = {{"tied", FIELD_BOOLEAN, false, &tied},
                                         {"qkv_bias", FIELD_BOOLEAN, false, &qkv_bias},
                                         {"qk_norm", FIELD_BOOLEAN, false, &qk_norm}};
    for (size_t i = 0; i < SIZES; i++)
        rules[CHOICES + i] = (field_rule){sizes[i].name, FIELD_NUMBER, false, &numbers[i]};
    remat_status status = api_read(json, "sizes.", rules, CHOICES + SIZES, error);
    for (size_t i = 0; i < SIZES && !status; i++) {
        char field[40];
        snprintf(field, sizeof field, "sizes.%s", sizes[i].name);
        if (numbers[i].given)
            status = read_size(&numbers[i], field, size_at(&s, sizes[i].at), error);
    }
    s.tied = choice_of(json_object_get(json, "tied"));
    s.qkv_bias = choice_of(json_object_get(json, "qkv_bias"));
    s.qk_norm = choice_of(json_object_get(json, "qk_norm"));
    if (!status)
        *ret_sizes = s;
    return status;
}

/* ---- adapters ---- */

static remat_status read_targets(const json_t *list, uint32_t *ret_targets, remat_error *error)
{
    const char **names = NULL;
    size_t n = 0;
    uint32_t all = 0, some;
    remat_status status = api_strings(list, "lora.targets", &names, &n, error);
    if (!status && n == 0)
        status = remat_fail(error, REMAT_INVALID, "lora.targets",
                            "lora.targets is empty: nothing would be trained");
    for (size_t i = 0; i < n && !status; i++) {
        status = remat_target_find(names[i], &some, error);
        all |= status ? 0 : some;
    }
    free(names);
    if (!status)
        *ret_targets = all;
    return status;
}

remat_status api_lora_decode(const json_t *json, remat_lora *ret_lora, remat_error *error)
{
    remat_lora lora = {.targets = REMAT_ADAPT_ALL, .base = REMAT_FROZEN};
    remat_number rank = {0};
    uint64_t columns = 0;
    const char *base = NULL;
    const json_t *targets = NULL;
    const field_rule rules[] = {{"rank", FIELD_NUMBER, true, &rank},
                                {"targets", FIELD_ARRAY, false, &targets},
                                {"dropout", FIELD_BOOLEAN, false, &lora.dropout},
                                {"base", FIELD_STRING, false, &base}};
    remat_status status = api_read(json, "lora.", rules, sizeof rules / sizeof *rules, error);
    if (!status)
        status = api_whole(&rank, "lora.rank", 1, 1 << 16, &columns, error);
    if (!status && targets)
        status = read_targets(targets, &lora.targets, error);
    if (!status && base)
        status = remat_base_find(base, &lora.base, error);
    if (status)
        return status;
    lora.rank = (uint32_t)columns;
    *ret_lora = lora;
    return REMAT_OK;
}

/* The fewest names that say it: those of several come last. */
static json_t *targets_encode(uint32_t left)
{
    json_t *list = json_array();
    size_t n = 0;
    uint32_t targets, chosen = 0;
    while (remat_target_name(n, &targets))
        n++;
    for (size_t i = n; i-- > 0;) {
        (void)remat_target_name(i, &targets);
        if ((left & targets) != targets)
            continue;
        chosen |= UINT32_C(1) << i;
        left &= ~targets;
    }
    for (size_t i = 0; i < n; i++)
        if (chosen >> i & 1)
            remat_json_append(&list, json_string(remat_target_name(i, &targets)));
    return list;
}

json_t *api_lora_encode(const remat_lora *lora)
{
    return json_pack("{s:I, s:o, s:b, s:s}", "rank", (json_int_t)lora->rank, "targets",
                     targets_encode(lora->targets), "dropout", lora->dropout, "base",
                     remat_base_name(lora->base));
}

/* ---- experts ---- */

remat_status api_routing_decode(const json_t *json, remat_routing *ret_routing, remat_error *error)
{
    static const char *const loads[] = {"balanced", "worst"};
    const char *load = NULL;
    remat_number capacity = {0};
    const field_rule rules[] = {{"capacity_factor", FIELD_NUMBER, false, &capacity},
                                {"load", FIELD_STRING, false, &load}};
    remat_status status = api_read(json, "routing.", rules, sizeof rules / sizeof *rules, error);
    if (status)
        return status;
    if (load && strcmp(load, loads[0]) != 0 && strcmp(load, loads[1]) != 0)
        return remat_fail_unknown("routing.load", "routing.load", load, loads, 2, error);
    if (capacity.given && !(capacity.value > 0)) /* 0 is none */
        return remat_fail(error, REMAT_INVALID, "routing.capacity_factor",
                          "routing.capacity_factor is %g; it must be from 0.01 to 1000",
                          capacity.value);
    *ret_routing = (remat_routing){.capacity = capacity.given ? capacity.value : 0,
                                   .worst = load && strcmp(load, loads[1]) == 0};
    return REMAT_OK;
}

/* ---- config.json ---- */

/* Kinds of models that are known, as which model of a name they are made, and what they have that
 * is not in their config (transformers, models/NAME/modeling_NAME.py). */
static const struct {
    const char *type, *model;
    bool qkv_bias, qk_norm;
    bool tied;               /* where the config does not say */
    uint32_t kv_heads, head; /* where it has no such member (configuration_NAME.py); 0: as many as
                                heads; hidden / heads */
} kinds[] = {{"llama", "llama3-8b", false, false, false, 0, 0},
             {"mistral", "llama3-8b", false, false, false, 8, 0},
             {"mixtral", "llama3-8b", false, false, false, 8, 0},
             {"qwen2", "llama3-8b", true, false, false, 32, 0},
             {"qwen3", "llama3-8b", false, true, false, 32, 128},
             {"qwen3_moe", "llama3-8b", false, true, false, 4, 0},
             {"gemma", "gemma-2b", false, false, true, 16, 256},
             {"gemma2", "gemma2-2b", false, false, true, 4, 256},
             {"gemma3_text", "gemma3-1b", false, true, true, 4, 256},
             {"deepseek_v2", "deepseek-v2-lite", false, false, false, 0, 0},
             {"deepseek_v3", "deepseek-v2-lite", false, false, false, 0, 0},
             {"gpt2", "gpt2", false, false, false, 0, 0},
             {"bloom", "bloom-7b1", false, false, true, 0, 0},
             {"bert", "bert-base", false, false, false, 0, 0}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static int kind_of(const json_t *json, remat_error *error)
{
    const json_t *given = json_object_get(json, "model_type");
    const char *names[KINDS], *type = json_string_value(given);
    const char *class = json_string_value(json_object_get(json, "_class_name"));
    for (int i = 0; i < KINDS; i++) {
        names[i] = kinds[i].type;
        if (type && strcmp(type, kinds[i].type) == 0)
            return i;
    }
    if (type)
        (void)remat_fail_unknown("config.model_type", "model_type", type, names, KINDS, error);
    else if (class) /* its DiT has tables of time and class in every block, which ours has not */
        (void)remat_fail(
            error, REMAT_INVALID, "config._class_name",
            "config._class_name is %.60s: models of diffusers are not planned by their "
            "config; dit-s2 to dit-xl2 are, by name",
            class);
    else
        (void)remat_fail(error, REMAT_INVALID, "config.model_type",
                         "config.model_type %s: it says what kind of model this is",
                         json_is_null(given) || !given ? "is missing" : "must be a string");
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

/* usual: the same. */
static remat_status read_choice(const json_t *json, const char *name, bool usual, bool *ret_choice,
                                remat_error *error)
{
    char field[80];
    const json_t *value = json_object_get(json, name);
    snprintf(field, sizeof field, "config.%s", name);
    *ret_choice = value && !json_is_null(value) ? json_is_true(value) : usual;
    if (!value || json_is_null(value) || json_is_boolean(value))
        return REMAT_OK;
    return remat_fail(error, REMAT_INVALID, field, "%s must be true or false", field);
}

#define ONE_MLP "llama mistral mixtral qwen2 qwen3 gemma gemma2 gemma3_text "
#define DEEPSEEKS "deepseek_v2 deepseek_v3 "
#define LLAMAS ONE_MLP "qwen3_moe " DEEPSEEKS
#define WITHOUT_WINDOWS "llama qwen3_moe gemma gpt2 bloom bert " DEEPSEEKS

/* types: names, each with a space behind it; NULL: all. */
static bool is_of(const char *type, const char *types)
{
    char word[24];
    if (!types)
        return true;
    snprintf(word, sizeof word, "%s ", type);
    const char *at = strstr(types, word);
    return at && (at == types || at[-1] == ' ');
}

enum { LAYERS = sizeof(remat_network_sizes) }; /* of settings: beside the sizes */

/* Where sizes stand in a config. What is left out or null where it may be is not there. */
static const struct {
    const char *types, *name;
    bool required;
    size_t at;
} in_configs[] = {
    {"gpt2 ", "n_embd", true, AT(hidden)},
    {"bloom ", "n_embed", false, AT(hidden)}, /* as BigScience wrote it */
    {"bloom bert " LLAMAS, "hidden_size", true, AT(hidden)},
    {"gpt2 bloom ", "n_layer", true, LAYERS},
    {"bert " LLAMAS, "num_hidden_layers", true, LAYERS},
    {"bloom ", "num_attention_heads", false, AT(heads)},
    {"gpt2 bloom ", "n_head", true, AT(heads)},
    {"bert " LLAMAS, "num_attention_heads", true, AT(heads)},
    {NULL, "vocab_size", true, AT(vocabulary)},
    {"gpt2 ", "n_positions", true, AT(positions)},
    {"bloom ", "seq_length", false, AT(positions)},
    {"bert " LLAMAS, "max_position_embeddings", true, AT(positions)},
    {"gpt2 bloom ", "n_inner", false, AT(ffn)},
    {"bert " ONE_MLP, "intermediate_size", true, AT(ffn)},
    {DEEPSEEKS, "intermediate_size", true, AT(dense_ffn)},
    {"qwen3_moe " DEEPSEEKS, "moe_intermediate_size", true, AT(ffn)},
    {LLAMAS, "num_key_value_heads", false, AT(kv_heads)},
    {LLAMAS, "head_dim", false, AT(head)},
    {"mixtral ", "num_local_experts", true, AT(experts)},
    {"qwen3_moe ", "num_experts", true, AT(experts)},
    {DEEPSEEKS, "n_routed_experts", true, AT(experts)},
    {"mixtral qwen3_moe " DEEPSEEKS, "num_experts_per_tok", true, AT(experts_per_token)},
    {DEEPSEEKS, "n_shared_experts", true, AT(shared_experts)},
    {DEEPSEEKS, "first_k_dense_replace", true, AT(dense_layers)},
    {DEEPSEEKS, "q_lora_rank", false, AT(q_rank)},
    {DEEPSEEKS, "kv_lora_rank", true, AT(kv_rank)},
    {DEEPSEEKS, "qk_nope_head_dim", true, AT(plain_head)},
    {DEEPSEEKS, "qk_rope_head_dim", true, AT(rotated_head)},
    {DEEPSEEKS, "v_head_dim", true, AT(value_head)}};
enum { IN_CONFIGS = sizeof in_configs / sizeof *in_configs };

static remat_status read_members(const json_t *json, const char *type,
                                 remat_network_settings *settings, remat_error *error)
{
    remat_status status = REMAT_OK;
    for (size_t i = 0; i < IN_CONFIGS && !status; i++) {
        const json_t *value = json_object_get(json, in_configs[i].name);
        const bool there = value && !json_is_null(value);
        uint32_t *to = in_configs[i].at == LAYERS ? &settings->layers
                                                  : size_at(&settings->sizes, in_configs[i].at);
        if (is_of(type, in_configs[i].types) && (there || (in_configs[i].required && *to == 0)))
            status = read_member(json, in_configs[i].name, 0, to, error);
    }
    return status;
}

/* The name of a size in this config: one that it has, else the last that it may have. */
static const char *name_in(const json_t *json, size_t at)
{
    const char *type = json_string_value(json_object_get(json, "model_type")), *name = NULL;
    for (size_t i = 0; i < IN_CONFIGS; i++)
        if (in_configs[i].at == at && is_of(type, in_configs[i].types) &&
            (!name || !json_object_get(json, name)))
            name = in_configs[i].name;
    return name;
}

void api_config_blame(const json_t *json, bool layers, remat_error *error)
{
    const remat_error own = *error;
    const size_t length = strlen(own.field);
    size_t at = layers && strcmp(own.field, "layers") == 0 ? LAYERS : SIZE_MAX;
    for (size_t i = 0; i < SIZES && strncmp(own.field, "sizes.", 6) == 0; i++)
        if (strcmp(own.field + 6, sizes[i].name) == 0)
            at = sizes[i].at;
    const char *name = name_in(json, at);
    if (!name)
        return;
    snprintf(error->field, sizeof error->field, "config.%s", name);
    if (strncmp(own.message, own.field, length) == 0)
        snprintf(error->message, sizeof error->message, "config.%s%s", name, own.message + length);
}

/* ---- what is dropped ---- */

/* A probability: whether it is above 0. usual: where it is left out or null. */
static remat_status read_dropout(const json_t *json, const char *name, bool usual,
                                 remat_choice *ret_choice, remat_error *error)
{
    char field[80];
    const json_t *value = json_object_get(json, name);
    const bool there = value && !json_is_null(value);
    const double part = json_number_value(value);
    snprintf(field, sizeof field, "config.%s", name);
    if (there && !json_is_number(value))
        return remat_fail(error, REMAT_INVALID, field, "%s must be a number", field);
    if (there && !(part >= 0 && part <= 1))
        return remat_fail(error, REMAT_INVALID, field, "%s is %g; it must be from 0 to 1", field,
                          part);
    *ret_choice = (there ? part > 0 : usual) ? REMAT_YES : REMAT_NO;
    return REMAT_OK;
}

/* usual: where the config does not say (configuration_NAME.py). */
static remat_status read_dropouts(const json_t *json, const char *type, remat_network_sizes *z,
                                  remat_error *error)
{
    const struct {
        const char *types, *member;
        bool usual;
        remat_choice *to;
    } members[] = {{"gpt2 ", "embd_pdrop", true, &z->table_dropout},
                   {"gpt2 ", "resid_pdrop", true, &z->dropout},
                   {"gpt2 ", "attn_pdrop", true, &z->attention_dropout},
                   {"bert ", "hidden_dropout_prob", true, &z->table_dropout},
                   {"bert ", "hidden_dropout_prob", true, &z->dropout},
                   {"bert ", "attention_probs_dropout_prob", true, &z->attention_dropout},
                   {"bloom ", "hidden_dropout", false, &z->dropout},
                   {"bloom " LLAMAS, "attention_dropout", false, &z->attention_dropout}};
    remat_status status = REMAT_OK;
    for (size_t i = 0; i < sizeof members / sizeof *members && !status; i++)
        if (is_of(type, members[i].types))
            status = read_dropout(json, members[i].member, members[i].usual, members[i].to, error);
    return status;
}

/* ---- windows ---- */

/* What attention of a kind sees: configuration_NAME.py of transformers. */
typedef struct windows {
    const char *type;
    uint32_t tokens;       /* 0: all; of the table: where the config does not say */
    uint32_t global_every; /* every so many blocks see all; 0: none does */
    bool upper;            /* only where use_sliding_window, and from block `first` on */
    bool listed;           /* layer_types is read */
    uint32_t first;
} windows;

static windows windows_of(const char *type)
{
    static const windows kinds_with[] = {
        {"mistral", 4096, 0, false, false, 0}, {"mixtral", 0, 0, false, false, 0},
        {"qwen2", 4096, 0, true, true, 28},    {"qwen3", 4096, 0, true, true, 28},
        {"gemma2", 4096, 2, false, true, 0},   {"gemma3_text", 4096, 6, false, true, 0}};
    for (size_t i = 0; i < sizeof kinds_with / sizeof *kinds_with; i++)
        if (strcmp(type, kinds_with[i].type) == 0)
            return kinds_with[i];
    return (windows){.type = type};
}

static remat_status read_windows(const json_t *json, windows *w, remat_error *error)
{
    static const char *const patterns[] = {"sliding_window_pattern", "_sliding_window_pattern"};
    const json_t *tokens = json_object_get(json, "sliding_window");
    const json_t *first = json_object_get(json, "max_window_layers");
    bool uses = true;
    remat_status status = REMAT_OK;
    if (json_is_null(tokens))
        w->tokens = 0;
    else if (tokens)
        status = read_member(json, "sliding_window", 0, &w->tokens, error);
    if (!status && w->upper)
        status = read_choice(json, "use_sliding_window", false, &uses, error);
    if (!uses)
        w->tokens = 0;
    if (!status && w->upper && json_is_number(first) && json_number_value(first) == 0)
        w->first = 0;
    else if (!status && w->upper)
        status = read_member(json, "max_window_layers", w->first, &w->first, error);
    for (size_t i = 0; i < 2 && !status && strcmp(w->type, "gemma3_text") == 0; i++)
        status = read_member(json, patterns[i], w->global_every, &w->global_every, error);
    return status;
}

/* A member of layer_types. slides: whether it would without. */
static remat_status read_layer_type(const json_t *json, size_t i, const windows *w, bool *slides,
                                    remat_error *error)
{
    static const char *const names[] = {"full_attention", "sliding_attention"};
    char field[REMAT_FIELD_SIZE];
    const char *name = json_string_value(json);
    snprintf(field, sizeof field, "config.layer_types[%zu]", i);
    if (!name)
        return remat_fail(error, REMAT_INVALID, field, "%s must be a string", field);
    const bool said = strcmp(name, names[1]) == 0;
    if (!said && strcmp(name, names[0]) != 0)
        return remat_fail_unknown(field, field, name, names, 2, error);
    if (said && w->tokens == 0)
        return remat_fail(error, REMAT_INVALID, field, "%s is %s, and the config has no window",
                          field, name);
    if (said != *slides && !w->listed)
        return remat_fail(error, REMAT_INVALID, field,
                          "%s is %s, which transformers does not read of a %s: its blocks have "
                          "sliding_window alike",
                          field, name, w->type);
    *slides = said;
    return REMAT_OK;
}

/* Which blocks have one; more blocks than the list are as those from its beginning. */
static remat_status place_windows(const json_t *json, const windows *w, uint32_t layers,
                                  remat_network_sizes *z, remat_error *error)
{
    const json_t *list = json_object_get(json, "layer_types");
    const size_t n = json_array_size(list);
    const bool has = windows_of(w->type).tokens > 0 || w->tokens > 0;
    remat_status status = REMAT_OK;
    if (list && !json_is_null(list) && (!json_is_array(list) || n != layers))
        return remat_fail(error, REMAT_INVALID, "config.layer_types",
                          "config.layer_types must be an array of %u strings, one for each block",
                          layers);
    for (uint32_t i = 0; i < REMAT_MOST_LAYERS && !status; i++) {
        bool slides = w->tokens > 0 && i >= w->first &&
                      (w->global_every == 0 || (i + 1) % w->global_every != 0);
        if (n > 0)
            status = read_layer_type(json_array_get(list, i % n), i % n, w, &slides, error);
        if (has)
            z->windowed[i] = slides ? REMAT_YES : REMAT_NO;
    }
    z->window = w->tokens;
    return status;
}

/* ---- what is not planned ---- */

/* What a config may say, and is not planned: a model of other sizes. types: whose, or all. */
static remat_status check_planned(const json_t *json, const char *type, remat_error *error)
{
    static const struct {
        const char *types, *member, *planned;
    } members[] = {
        {NULL, "mlp_bias", "false"},
        {WITHOUT_WINDOWS "mistral mixtral gemma2 gemma3_text ", "use_sliding_window", "false"},
        {"llama gemma gpt2 bloom bert " DEEPSEEKS, "sliding_window", "null"},
        {WITHOUT_WINDOWS "mistral mixtral qwen2 qwen3 ", "sliding_window_pattern", "null"},
        {"gemma2 ", "sliding_window_pattern", "2"},
        {"gemma2 gemma3_text ", "use_bidirectional_attention", "false"},
        {"mixtral ", "router_jitter_noise", "0.0"},
        {NULL, "add_cross_attention", "false"},
        {NULL, "is_encoder_decoder", "false"},
        {"bert ", "is_decoder", "false"},
        {"qwen3_moe ", "decoder_sparse_step", "1"},
        {"qwen3_moe ", "mlp_only_layers", "[]"},
        {DEEPSEEKS, "moe_layer_freq", "1"},
        {"gpt2 bloom bert ", "tie_word_embeddings", "true"},
        {"gpt2 ", "reorder_and_upcast_attn", "false"},
        {"llama mistral mixtral qwen2 qwen3 qwen3_moe " DEEPSEEKS, "hidden_act", "\"silu\""},
        {"bert ", "hidden_act", "\"gelu\""},
        {"bert ", "position_embedding_type", "\"absolute\""},
        {"bert ", "chunk_size_feed_forward", "0"},
        {"bert ", "type_vocab_size", "2"}};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        const json_t *value = json_object_get(json, members[i].member);
        char field[80];
        if (!is_of(type, members[i].types) || !value || json_is_null(value))
            continue;
        json_t *planned = json_loads(members[i].planned, JSON_DECODE_ANY, NULL);
        const bool same = planned && (json_is_number(value) && json_is_number(planned)
                                          ? json_number_value(value) == json_number_value(planned)
                                          : json_equal(value, planned));
        json_decref(planned);
        snprintf(field, sizeof field, "config.%s", members[i].member);
        if (!same)
            return remat_fail(error, REMAT_INVALID, field,
                              "%s is other than %s, which is not planned yet", field,
                              members[i].planned);
    }
    return REMAT_OK;
}

/* Scores without a cap are another kernel's. */
static remat_status check_caps(const json_t *json, remat_error *error)
{
    static const char *const caps[] = {"attn_logit_softcapping", "final_logit_softcapping"};
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
        const json_t *value = json_object_get(json, caps[i]);
        char field[80];
        snprintf(field, sizeof field, "config.%s", caps[i]);
        if (value && !(json_number_value(value) > 0))
            return remat_fail(error, REMAT_INVALID, field,
                              "%s must be a number above 0: a gemma2 without is not planned yet",
                              field);
    }
    return REMAT_OK;
}

static remat_status read_llama(const json_t *json, int kind, remat_network_sizes *z,
                               remat_error *error)
{
    bool tied = false, biased = false;
    if (z->kv_heads == 0) /* null: as many as heads */
        z->kv_heads = !json_object_get(json, "num_key_value_heads") && kinds[kind].kv_heads
                          ? kinds[kind].kv_heads
                          : z->heads;
    if (z->head == 0 && !json_object_get(json, "head_dim"))
        z->head = kinds[kind].head;
    remat_status status = read_choice(json, "tie_word_embeddings", kinds[kind].tied, &tied, error);
    if (!status)
        status = read_choice(json, "attention_bias", false, &biased, error);
    if (!status && biased)
        return remat_fail(error, REMAT_INVALID, "config.attention_bias",
                          "config.attention_bias is true, which is not planned yet");
    z->qkv_bias = kinds[kind].qkv_bias ? REMAT_YES : REMAT_NO;
    z->qk_norm = kinds[kind].qk_norm ? REMAT_YES : REMAT_NO;
    z->tied = tied ? REMAT_YES : REMAT_NO;
    return status;
}

/* GPT-2's, by as many operations as transformers has it of. */
static remat_status read_gelu(const json_t *json, remat_choice *ret_pieces, remat_error *error)
{
    static const char *const known[] = {"gelu_new", "gelu", "gelu_pytorch_tanh"};
    const json_t *value = json_object_get(json, "activation_function");
    const char *name = json_is_null(value) || !value ? known[0] : json_string_value(value);
    if (!name)
        return remat_fail(error, REMAT_INVALID, "config.activation_function",
                          "config.activation_function must be a string");
    *ret_pieces = strcmp(name, known[0]) == 0 ? REMAT_YES : REMAT_NO;
    if (*ret_pieces == REMAT_YES || strcmp(name, known[1]) == 0 || strcmp(name, known[2]) == 0)
        return REMAT_OK;
    return remat_fail_unknown("config.activation_function", "config.activation_function", name,
                              known, 3, error);
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

/* What a config of the kind may leave out. */
static void fill_in(const char *type, remat_network_sizes *z)
{
    enum { USUAL_POSITIONS = 2048 }; /* of BLOOM, which has no table of them */
    if (z->positions == 0)
        z->positions = USUAL_POSITIONS;
    if (z->ffn == 0 && is_of(type, "gpt2 bloom "))
        z->ffn = 4 * z->hidden;
}

remat_status api_config_decode(const json_t *json, const char **ret_model,
                               remat_network_settings *settings, remat_error *error)
{
    enum { USUAL_TOKENS = 8192 };
    const int kind = kind_of(json, error);
    if (kind < 0)
        return REMAT_INVALID;
    const char *type = kinds[kind].type;
    remat_network_sizes *z = &settings->sizes;
    windows w = windows_of(type);
    remat_status status = check_planned(json, type, error);
    if (!status)
        status = read_members(json, type, settings, error);
    if (!status && is_of(type, LLAMAS))
        status = read_llama(json, kind, z, error);
    if (!status && is_of(type, "gemma2 "))
        status = check_caps(json, error);
    if (!status)
        status = read_dropouts(json, type, z, error);
    if (!status)
        status = read_windows(json, &w, error);
    if (!status)
        status = place_windows(json, &w, settings->layers, z, error);
    if (!status && is_of(type, "gpt2 "))
        status = read_gelu(json, &z->gelu_in_pieces, error);
    if (status)
        return status;
    fill_in(type, z);
    settings->sequence = z->positions < USUAL_TOKENS ? z->positions : USUAL_TOKENS;
    if (!is_of(type, "gpt2 bert ")) /* no table of them */
        z->positions = 0;
    settings->called = json_string_value(json_object_get(json, "_name_or_path"));
    if (!is_plain(settings->called))
        settings->called = type;
    *ret_model = kinds[kind].model;
    return REMAT_OK;
}
