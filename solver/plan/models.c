/* The models there are, by name. */
#include "plan/build.h"
#include "plan/names.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum family { GPT2, LLAMA, BERT, VIT, DIT, RESNET, UNET } family;

/* Of transformers: columns between blocks and inside an MLP, heads, those of keys and values,
 * words, and what else there is. */
#define OF(kind, w, m, h, g, ...)                                                                  \
    {                                                                                              \
        .family = kind, .sizes = {                                                                 \
            .width = w,                                                                            \
            .mlp = m,                                                                              \
            .heads = h,                                                                            \
            .groups = g,                                                                           \
            .vocabulary = __VA_ARGS__                                                              \
        }                                                                                          \
    }

/* How each is built, beside what is told of it. */
static const struct {
    family family;
    plan_transformer sizes; /* of transformers */
    uint32_t blocks[4];     /* of ResNets */
    bool bottleneck;
} makings[] = {
    OF(GPT2, 768, 3072, 12, 12, 50257, .positions = 1024, .tied = true),
    OF(GPT2, 1024, 4096, 16, 16, 50257, .positions = 1024, .tied = true),
    OF(GPT2, 1280, 5120, 20, 20, 50257, .positions = 1024, .tied = true),
    OF(GPT2, 1600, 6400, 25, 25, 50257, .positions = 1024, .tied = true),
    OF(LLAMA, 2048, 5632, 32, 4, 32000),
    OF(LLAMA, 4096, 11008, 32, 32, 32000),
    OF(LLAMA, 5120, 13824, 40, 40, 32000),
    OF(LLAMA, 8192, 28672, 64, 8, 32000),
    OF(LLAMA, 2048, 8192, 32, 8, 128256, .tied = true),
    OF(LLAMA, 4096, 14336, 32, 8, 128256),
    OF(LLAMA, 8192, 28672, 64, 8, 128256),
    OF(LLAMA, 3072, 8192, 24, 8, 128256, .tied = true),
    OF(LLAMA, 4096, 14336, 32, 8, 32000, .window = 4096),
    OF(GPT2, 768, 3072, 12, 12, 50368, .positions = 2048, .tied = true, .plain = true),
    OF(GPT2, 1024, 4096, 16, 16, 50368, .positions = 2048, .tied = true, .plain = true),
    OF(GPT2, 1536, 6144, 12, 12, 50368, .positions = 2048, .tied = true, .plain = true),
    OF(GPT2, 2048, 8192, 16, 16, 50368, .positions = 2048, .tied = true, .plain = true),
    OF(GPT2, 2560, 10240, 20, 20, 50368, .positions = 2048, .tied = true, .plain = true),
    OF(GPT2, 4096, 16384, 32, 32, 50368, .positions = 2048, .tied = true, .plain = true),
    OF(GPT2, 5120, 20480, 40, 40, 50368, .positions = 2048, .tied = true, .plain = true),
    OF(GPT2, 7168, 28672, 56, 56, 50368, .positions = 2048, .tied = true, .plain = true),
    OF(GPT2, 8192, 32768, 64, 64, 50368, .positions = 2048, .tied = true, .plain = true),
    OF(GPT2, 4096, 16384, 32, 32, 250880, .tied = true, .bloom = true),
    OF(LLAMA, 4096, 14336, 32, 8, 128256),
    OF(LLAMA, 8192, 28672, 64, 8, 128256),
    OF(LLAMA, 16384, 53248, 128, 8, 128256),
    OF(LLAMA, 896, 4864, 14, 2, 151936, .tied = true, .qkv_bias = true),
    OF(LLAMA, 1536, 8960, 12, 2, 151936, .tied = true, .qkv_bias = true),
    OF(LLAMA, 2048, 11008, 16, 2, 151936, .tied = true, .qkv_bias = true),
    OF(LLAMA, 3584, 18944, 28, 4, 152064, .qkv_bias = true),
    OF(LLAMA, 5120, 13824, 40, 8, 152064, .qkv_bias = true),
    OF(LLAMA, 5120, 27648, 40, 8, 152064, .qkv_bias = true),
    OF(LLAMA, 8192, 29568, 64, 8, 152064, .qkv_bias = true),
    OF(LLAMA, 1024, 3072, 16, 8, 151936, .tied = true, .head = 128, .qk_norm = true),
    OF(LLAMA, 2048, 6144, 16, 8, 151936, .tied = true, .qk_norm = true),
    OF(LLAMA, 2560, 9728, 32, 8, 151936, .tied = true, .head = 128, .qk_norm = true),
    OF(LLAMA, 4096, 12288, 32, 8, 151936, .qk_norm = true),
    OF(LLAMA, 5120, 17408, 40, 8, 151936, .qk_norm = true),
    OF(LLAMA, 5120, 25600, 64, 8, 151936, .head = 128, .qk_norm = true),
    OF(LLAMA, 2048, 768, 32, 4, 151936, .head = 128, .qk_norm = true, .experts = 128, .chosen = 8),
    OF(LLAMA, 4096, 1536, 64, 4, 151936, .head = 128, .qk_norm = true, .experts = 128, .chosen = 8),
    OF(LLAMA, 4096, 14336, 32, 8, 32768),
    OF(LLAMA, 4096, 14336, 32, 8, 32000, .experts = 8, .chosen = 2),
    OF(LLAMA, 6144, 16384, 48, 8, 32768, .experts = 8, .chosen = 2),
    OF(LLAMA, 3072, 8192, 32, 32, 32064),
    OF(LLAMA, 2048, 16384, 8, 1, 256000, .tied = true, .head = 256, .gemma = true),
    OF(LLAMA, 3072, 24576, 16, 16, 256000, .tied = true, .head = 256, .gemma = true),
    OF(LLAMA, 2304, 9216, 8, 4, 256000, .tied = true, .head = 256, .gemma = true,
       .after_norms = true, .capped = true, .window = 4096, .global_every = 2),
    OF(LLAMA, 3584, 14336, 16, 8, 256000, .tied = true, .head = 256, .gemma = true,
       .after_norms = true, .capped = true, .window = 4096, .global_every = 2),
    OF(LLAMA, 4608, 36864, 32, 16, 256000, .tied = true, .head = 128, .gemma = true,
       .after_norms = true, .capped = true, .window = 4096, .global_every = 2),
    OF(LLAMA, 1152, 6912, 4, 1, 262144, .tied = true, .head = 256, .gemma = true, .qk_norm = true,
       .after_norms = true, .window = 512, .global_every = 6),
    OF(LLAMA, 2560, 10240, 8, 4, 262144, .tied = true, .head = 256, .gemma = true, .qk_norm = true,
       .after_norms = true, .window = 1024, .global_every = 6),
    OF(LLAMA, 3840, 15360, 16, 8, 262144, .tied = true, .head = 256, .gemma = true, .qk_norm = true,
       .after_norms = true, .window = 1024, .global_every = 6),
    OF(LLAMA, 5376, 21504, 32, 16, 262144, .tied = true, .head = 128, .gemma = true,
       .qk_norm = true, .after_norms = true, .window = 1024, .global_every = 6),
    OF(LLAMA, 2048, 1408, 16, 16, 102400, .experts = 64, .chosen = 6, .shared = 2, .dense = 1,
       .dense_mlp = 10944, .kv_rank = 512, .plain_head = 128, .rotated_head = 64,
       .value_head = 128),
    OF(LLAMA, 7168, 2048, 128, 128, 129280, .experts = 256, .chosen = 8, .shared = 1, .dense = 3,
       .dense_mlp = 18432, .query_rank = 1536, .kv_rank = 512, .plain_head = 128,
       .rotated_head = 64, .value_head = 128),
    OF(BERT, 768, 3072, 12, 12, 30522, .positions = 512),
    OF(BERT, 1024, 4096, 16, 16, 30522, .positions = 512),
    OF(VIT, 384, 1536, 6, 6, 1000, .positions = 16),
    OF(VIT, 768, 3072, 12, 12, 1000, .positions = 16),
    OF(VIT, 768, 3072, 12, 12, 1000, .positions = 32),
    OF(VIT, 1024, 4096, 16, 16, 1000, .positions = 16),
    OF(VIT, 1280, 5120, 16, 16, 1000, .positions = 14),
    OF(DIT, 384, 1536, 6, 6, 1000, .positions = 2),
    OF(DIT, 768, 3072, 12, 12, 1000, .positions = 2),
    OF(DIT, 1024, 4096, 16, 16, 1000, .positions = 2),
    OF(DIT, 1152, 4608, 16, 16, 1000, .positions = 2),
    {.family = RESNET, .blocks = {2, 2, 2, 2}},
    {.family = RESNET, .blocks = {3, 4, 6, 3}},
    {.family = RESNET, .blocks = {3, 4, 6, 3}, .bottleneck = true},
    {.family = RESNET, .blocks = {3, 4, 23, 3}, .bottleneck = true},
    {.family = RESNET, .blocks = {3, 8, 36, 3}, .bottleneck = true},
    {.family = UNET},
};
enum { N_MODELS = sizeof makings / sizeof *makings };

/* Published counts: the papers and model cards, torchvision.models, timm (vit-s16), keras-hub
 * (Gemma). */
static const remat_network models[N_MODELS] = {
    {"gpt2", "GPT-2 small, Radford et al. 2019", 124439808, 1024, 0, 12},
    {"gpt2-medium", "GPT-2 medium", 354823168, 1024, 0, 24},
    {"gpt2-large", "GPT-2 large", 774030080, 1024, 0, 36},
    {"gpt2-xl", "GPT-2 XL", 1557611200, 1024, 0, 48},
    {"tinyllama-1.1b", "TinyLlama 1.1B, Zhang et al. 2024", 1100048384, 2048, 0, 22},
    {"llama2-7b", "Llama 2 7B, Touvron et al. 2023", 6738415616, 4096, 0, 32},
    {"llama2-13b", "Llama 2 13B", 13015864320, 4096, 0, 40},
    {"llama2-70b", "Llama 2 70B", 68976648192, 4096, 0, 80},
    {"llama3.2-1b", "Llama 3.2 1B, Grattafiori et al. 2024", 1235814400, 8192, 0, 16},
    {"llama3-8b", "Llama 3 8B", 8030261248, 8192, 0, 32},
    {"llama3-70b", "Llama 3 70B", 70553706496, 8192, 0, 80},
    {"llama3.2-3b", "Llama 3.2 3B", 3212749824, 8192, 0, 28},
    {"mistral-7b", "Mistral 7B, Jiang et al. 2023", 7241732096, 8192, 0, 32},
    {"mpt-125m", "MPT 125M, MosaicML 2023, no biases, 2048 learnt positions", 125209344, 2048, 0,
     12},
    {"mpt-350m", "MPT 350M, MosaicML 2023, no biases, 2048 learnt positions", 355714048, 2048, 0,
     24},
    {"mpt-760m", "MPT 760M, MosaicML 2023, no biases, 2048 learnt positions", 760063488, 2048, 0,
     24},
    {"mpt-1b", "MPT 1B, MosaicML 2023, no biases, 2048 learnt positions", 1315407872, 2048, 0, 24},
    {"mpt-3b", "MPT 3B, MosaicML 2023, no biases, 2048 learnt positions", 2650933760, 2048, 0, 32},
    {"mpt-7b", "MPT 7B, MosaicML 2023, no biases, 2048 learnt positions", 6657413120, 2048, 0, 32},
    {"mpt-13b", "MPT 13B, MosaicML 2023, no biases, 2048 learnt positions", 12851696640, 2048, 0,
     40},
    {"mpt-30b", "MPT 30B, MosaicML 2023, no biases, 2048 learnt positions", 29971422208, 2048, 0,
     48},
    {"mpt-70b", "MPT 70B, MosaicML 2023, no biases, 2048 learnt positions", 64855220224, 2048, 0,
     80},
    {"bloom-7b1", "BLOOM 7B1, Le Scao et al. 2022", 7069016064, 2048, 0, 30},
    {"llama3.1-8b", "Llama 3.1 8B, Grattafiori et al. 2024", 8030261248, 8192, 0, 32},
    {"llama3.1-70b", "Llama 3.1 70B", 70553706496, 8192, 0, 80},
    {"llama3.1-405b", "Llama 3.1 405B", 405853388800, 8192, 0, 126},
    {"qwen2.5-0.5b", "Qwen 2.5 0.5B", 494032768, 8192, 0, 24},
    {"qwen2.5-1.5b", "Qwen 2.5 1.5B", 1543714304, 8192, 0, 28},
    {"qwen2.5-3b", "Qwen 2.5 3B", 3085938688, 8192, 0, 36},
    {"qwen2.5-7b", "Qwen 2.5 7B", 7615616512, 8192, 0, 28},
    {"qwen2.5-14b", "Qwen 2.5 14B", 14770033664, 8192, 0, 48},
    {"qwen2.5-32b", "Qwen 2.5 32B", 32763876352, 8192, 0, 64},
    {"qwen2.5-72b", "Qwen 2.5 72B", 72706203648, 8192, 0, 80},
    {"qwen3-0.6b", "Qwen 3 0.6B", 596049920, 8192, 0, 28},
    {"qwen3-1.7b", "Qwen 3 1.7B", 1720574976, 8192, 0, 28},
    {"qwen3-4b", "Qwen 3 4B", 4022468096, 8192, 0, 36},
    {"qwen3-8b", "Qwen 3 8B", 8190735360, 8192, 0, 36},
    {"qwen3-14b", "Qwen 3 14B", 14768307200, 8192, 0, 40},
    {"qwen3-32b", "Qwen 3 32B", 32762123264, 8192, 0, 64},
    {"qwen3-30b-a3b", "Qwen 3 30B-A3B", 30532122624, 8192, 0, 48},
    {"qwen3-235b-a22b", "Qwen 3 235B-A22B", 235093634560, 8192, 0, 94},
    {"mistral-7b-v0.3", "Mistral 7B-V0.3", 7248023552, 8192, 0, 32},
    {"mixtral-8x7b", "Mixtral 8X7B, Jiang et al. 2024", 46702792704, 8192, 0, 32},
    {"mixtral-8x22b", "Mixtral 8X22B", 140630071296, 8192, 0, 56},
    {"phi3-mini", "Phi-3 MINI", 3821079552, 4096, 0, 32},
    {"gemma-2b", "Gemma 2B, Gemma Team 2024", 2506172416, 8192, 0, 18},
    {"gemma-7b", "Gemma 7B", 8537680896, 8192, 0, 28},
    {"gemma2-2b", "Gemma 2 2B, Gemma Team 2024", 2614341888, 8192, 0, 26},
    {"gemma2-9b", "Gemma 2 9B", 9241705984, 8192, 0, 42},
    {"gemma2-27b", "Gemma 2 27B", 27227128320, 8192, 0, 46},
    {"gemma3-1b", "Gemma 3 1B, Gemma Team 2025", 999885952, 8192, 0, 26},
    {"gemma3-4b", "Gemma 3 4B, of text", 3880099328, 8192, 0, 34},
    {"gemma3-12b", "Gemma 3 12B, of text", 11765788416, 8192, 0, 48},
    {"gemma3-27b", "Gemma 3 27B, of text", 27009002240, 8192, 0, 62},
    {"deepseek-v2-lite", "DeepSeek-V2-Lite, DeepSeek-AI 2024", 15706484224, 8192, 0, 27},
    {"deepseek-v3", "DeepSeek-V3, DeepSeek-AI 2024, without multi-token prediction", 671026404352,
     8192, 0, 61},
    {"bert-base", "BERT base, uncased, with pooler, Devlin et al. 2019", 109482240, 512, 0, 12},
    {"bert-large", "BERT large, uncased, with pooler", 335141888, 512, 0, 24},
    {"vit-s16", "ViT-S/16, Touvron et al. 2021", 22050664, 0, 224, 12},
    {"vit-b16", "ViT-B/16, Dosovitskiy et al. 2021", 86567656, 0, 224, 12},
    {"vit-b32", "ViT-B/32", 88224232, 0, 224, 12},
    {"vit-l16", "ViT-L/16", 304326632, 0, 224, 24},
    {"vit-h14", "ViT-H/14", 632045800, 0, 224, 32},
    {"dit-s2", "DiT-S/2, Peebles, Xie 2023, of latents; no autoencoder, no average of weights",
     32963360, 0, 256, 12},
    {"dit-b2", "DiT-B/2, Peebles, Xie 2023, of latents; no autoencoder, no average of weights",
     130512416, 0, 256, 12},
    {"dit-l2", "DiT-L/2, Peebles, Xie 2023, of latents; no autoencoder, no average of weights",
     458102816, 0, 256, 24},
    {"dit-xl2", "DiT-XL/2, Peebles, Xie 2023, of latents; no autoencoder, no average of weights",
     675129632, 0, 256, 28},
    {"resnet18", "ResNet-18, He et al. 2015", 11689512, 0, 224, 0},
    {"resnet34", "ResNet-34", 21797672, 0, 224, 0},
    {"resnet50", "ResNet-50", 25557032, 0, 224, 0},
    {"resnet101", "ResNet-101", 44549160, 0, 224, 0},
    {"resnet152", "ResNet-152", 60192808, 0, 224, 0},
    {"unet", "U-Net of two classes, Ronneberger et al. 2015, padded, with batch normalisation",
     31037698, 0, 512, 0},
};

const remat_network *remat_networks(size_t *ret_count)
{
    *ret_count = N_MODELS;
    return models;
}

remat_status remat_network_find(const char *name, const remat_network **ret_model,
                                remat_error *error)
{
    const char *names[N_MODELS];
    for (size_t i = 0; i < N_MODELS; i++)
        names[i] = models[i].name;
    const int found = plan_find_name(name, "model", names, N_MODELS, error);
    if (found >= 0)
        *ret_model = &models[found];
    return found >= 0 ? REMAT_OK : REMAT_INVALID;
}

static const char *const kernel_sets[REMAT_KERNEL_SETS] = {"eager", "compiled", "compiled-loss",
                                                           "chunked-loss", "fused"};

const char *remat_kernels_name(remat_kernels kernels)
{
    return kernel_sets[kernels];
}

remat_status remat_kernels_find(const char *name, remat_kernels *ret_kernels, remat_error *error)
{
    const int found = plan_find_name(name, "kernels", kernel_sets, REMAT_KERNEL_SETS, error);
    if (found >= 0)
        *ret_kernels = (remat_kernels)found;
    return found >= 0 ? REMAT_OK : REMAT_INVALID;
}

static const struct {
    const char *name;
    uint32_t targets;
} targets[] = {{"q", REMAT_ADAPT_QUERIES},
               {"k", REMAT_ADAPT_KEYS},
               {"v", REMAT_ADAPT_VALUES},
               {"o", REMAT_ADAPT_OUTPUTS},
               {"mlp", REMAT_ADAPT_MLP},
               {"attention",
                REMAT_ADAPT_QUERIES | REMAT_ADAPT_KEYS | REMAT_ADAPT_VALUES | REMAT_ADAPT_OUTPUTS},
               {"all-linear", REMAT_ADAPT_ALL}};
enum { N_TARGETS = sizeof targets / sizeof *targets };

const char *remat_target_name(size_t index, uint32_t *ret_targets)
{
    if (index >= N_TARGETS)
        return NULL;
    *ret_targets = targets[index].targets;
    return targets[index].name;
}

remat_status remat_target_find(const char *name, uint32_t *ret_targets, remat_error *error)
{
    const char *names[N_TARGETS];
    for (size_t i = 0; i < N_TARGETS; i++)
        names[i] = targets[i].name;
    const int found = plan_find_name(name, "lora.targets", names, N_TARGETS, error);
    if (found >= 0)
        *ret_targets = targets[found].targets;
    return found >= 0 ? REMAT_OK : REMAT_INVALID;
}

/* ---- settings ---- */

static remat_status check_range(const char *field, uint64_t value, uint64_t least, uint64_t most,
                                remat_error *error)
{
    if (value >= least && value <= most)
        return REMAT_OK;
    return remat_fail(error, REMAT_INVALID, field, "%s is %llu; it must be from %llu to %llu",
                      field, (unsigned long long)value, (unsigned long long)least,
                      (unsigned long long)most);
}

/* ---- sizes ---- */

/* As it is published: GPT-2s but MPT's and BLOOM, and BERTs, drop; Hugging Face's GPT-2 has gelu in
 * pieces. */
static plan_transformer published(size_t which)
{
    plan_transformer t = makings[which].sizes;
    const bool gpt2 = makings[which].family == GPT2 && !t.plain && !t.bloom;
    t.pieces = gpt2;
    t.drops_tables = t.drops = t.drops_attention = gpt2 || makings[which].family == BERT;
    return t;
}

static void take_choice(bool *to, remat_choice choice)
{
    if (choice != REMAT_AS_IT_IS)
        *to = choice == REMAT_YES;
}

static bool has_sizes(const remat_network_sizes *s)
{
    static const remat_network_sizes none = {.hidden = 0};
    return memcmp(s, &none, sizeof none) != 0;
}

/* Sizes that other transformers than Llamas have. */
static bool is_plain(const remat_network_sizes *s)
{
    const remat_network_sizes plain = {.hidden = s->hidden,
                                       .heads = s->heads,
                                       .ffn = s->ffn,
                                       .vocabulary = s->vocabulary,
                                       .positions = s->positions,
                                       .tied = s->tied,
                                       .table_dropout = s->table_dropout,
                                       .dropout = s->dropout,
                                       .attention_dropout = s->attention_dropout,
                                       .gelu_in_pieces = s->gelu_in_pieces};
    return memcmp(s, &plain, sizeof plain) == 0;
}

/* Sizes in place of the model's own. */
static remat_status take_sizes(const remat_network_sizes *s, plan_transformer *t,
                               remat_error *error)
{
    const struct {
        const char *field;
        uint32_t value, most;
        double *to;
    } sizes[] = {{"sizes.hidden", s->hidden, 1 << 20, &t->width},
                 {"sizes.heads", s->heads, 1 << 14, &t->heads},
                 {"sizes.kv_heads", s->kv_heads, 1 << 14, &t->groups},
                 {"sizes.head", s->head, 1 << 14, &t->head},
                 {"sizes.ffn", s->ffn, 1 << 22, &t->mlp},
                 {"sizes.vocab", s->vocabulary, 1 << 24, &t->vocabulary},
                 {"sizes.positions", s->positions, 1 << 24, &t->positions},
                 {"sizes.experts", s->experts, 1 << 12, &t->experts},
                 {"sizes.experts_per_token", s->experts_per_token, 1 << 12, &t->chosen},
                 {"sizes.window", s->window, 1 << 24, &t->window},
                 {"sizes.shared_experts", s->shared_experts, 1 << 12, &t->shared},
                 {"sizes.dense_layers", s->dense_layers, REMAT_MOST_LAYERS, &t->dense},
                 {"sizes.dense_ffn", s->dense_ffn, 1 << 22, &t->dense_mlp},
                 {"sizes.q_rank", s->q_rank, 1 << 20, &t->query_rank},
                 {"sizes.kv_rank", s->kv_rank, 1 << 20, &t->kv_rank},
                 {"sizes.plain_head", s->plain_head, 1 << 14, &t->plain_head},
                 {"sizes.rotated_head", s->rotated_head, 1 << 14, &t->rotated_head},
                 {"sizes.value_head", s->value_head, 1 << 14, &t->value_head}};
    remat_status status = REMAT_OK;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !status; i++)
        if (sizes[i].value > 0) {
            status = check_range(sizes[i].field, sizes[i].value, 1, sizes[i].most, error);
            *sizes[i].to = sizes[i].value;
        }
    return status;
}

/* What must be there beside one another. */
static remat_status check_parts(const plan_transformer *t, remat_error *error)
{
    const bool latent = t->kv_rank > 0 || t->query_rank > 0;
    const struct {
        bool missing;
        const char *field, *why;
    } parts[] = {
        {t->experts > 0 && t->dense > 0 && t->dense_mlp == 0, "sizes.dense_ffn",
         "dense_layers have an MLP of dense_ffn columns, which are not given"},
        {t->experts == 0 && (t->dense > 0 || t->shared > 0), "sizes.experts",
         "dense_layers and shared_experts are beside experts, of which there are none"},
        {latent &&
             (t->kv_rank == 0 || t->plain_head == 0 || t->rotated_head == 0 || t->value_head == 0),
         "sizes.kv_rank", "q_rank and kv_rank need plain_head, rotated_head and value_head"}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].missing)
            return remat_fail(error, REMAT_INVALID, parts[i].field, "%s", parts[i].why);
    return REMAT_OK;
}

static remat_status check_whole(const char *field, double of, double by, const char *what,
                                remat_error *error)
{
    if (fmod(of, by) == 0)
        return REMAT_OK;
    return remat_fail(error, REMAT_INVALID, field, "%s: %.0f %s do not divide %.0f", field, by,
                      what, of);
}

/* The model's own sizes with those in their place. A model of other heads of its width has heads of
 * other columns. */
static remat_status resize(const remat_network *model, family kind, const remat_network_sizes *s,
                           plan_transformer *t, remat_error *error)
{
    if (!has_sizes(s))
        return REMAT_OK;
    if (!model->layers || kind >= VIT)
        return remat_fail(error, REMAT_INVALID, "sizes", "%s has no sizes to choose", model->name);
    if (kind != LLAMA && !is_plain(s))
        return remat_fail(error, REMAT_INVALID, "sizes",
                          "%s has hidden, heads, ffn, vocab and tied to choose; the others are for "
                          "Llamas",
                          model->name);
    if (kind == LLAMA && (s->table_dropout || s->dropout || s->gelu_in_pieces))
        return remat_fail(error, REMAT_INVALID, "sizes",
                          "%s drops nothing but probabilities of attention, and has no gelu in "
                          "pieces",
                          model->name);
    const double heads = t->heads, groups = t->groups;
    if (s->hidden || s->heads)
        t->head = 0;
    remat_status status = take_sizes(s, t, error);
    if (status)
        return status;
    if (!s->kv_heads)
        t->groups = s->heads && groups == heads ? t->heads : groups;
    take_choice(&t->tied, s->tied);
    take_choice(&t->qkv_bias, s->qkv_bias);
    take_choice(&t->qk_norm, s->qk_norm);
    take_choice(&t->drops_tables, s->table_dropout);
    take_choice(&t->drops, s->dropout);
    take_choice(&t->drops_attention, s->attention_dropout);
    take_choice(&t->pieces, s->gelu_in_pieces);
    t->windowed = s->windowed;
    status = check_parts(t, error);
    if (!status && t->head == 0 && t->kv_rank == 0)
        status = check_whole("sizes.heads", t->width, t->heads, "heads", error);
    if (!status)
        status =
            check_whole("sizes.kv_heads", t->heads, t->groups, "heads of keys and values", error);
    if (!status && t->experts > 0 && !(t->chosen >= 1 && t->chosen <= t->experts))
        status =
            remat_fail(error, REMAT_INVALID, "sizes.experts_per_token",
                       "sizes.experts_per_token is %.0f; it must be from 1 to the %.0f experts",
                       t->chosen, t->experts);
    return status;
}

static remat_status refuse(const remat_network *model, const char *field, remat_error *error)
{
    return remat_fail(error, REMAT_INVALID, field, "%s has no %s to choose", model->name, field);
}

static remat_status check_lora(const remat_network *model, const remat_network_settings *s,
                               remat_error *error)
{
    if (s->lora.rank == 0)
        return REMAT_OK;
    if (!model->layers) /* no transformer */
        return refuse(model, "lora", error);
    if (s->autocast)
        return remat_fail(error, REMAT_INVALID, "lora",
                          "the base of adapters is in the precision as it is: without autocast");
    if (!(s->lora.targets & REMAT_ADAPT_ALL) || s->lora.base == REMAT_TRAINED)
        return remat_fail(error, REMAT_INVALID, "lora.targets",
                          "lora has no targets, or no frozen base");
    return check_range("lora.rank", s->lora.rank, 1, 1 << 16, error);
}

static remat_status check_float8(const remat_network *model, const remat_network_settings *s,
                                 const remat_device *device, remat_error *error)
{
    if (!s->float8)
        return REMAT_OK;
    if (!model->layers) /* no transformer */
        return refuse(model, "fp8", error);
    if (s->lora.rank > 0)
        return remat_fail(error, REMAT_INVALID, "fp8",
                          "fp8 is of matrices that are trained: without lora");
    return remat_device_computes(device, REMAT_FLOAT8, error);
}

/* Fills in what is usual. */
static remat_status complete(const remat_network *model, double positions,
                             remat_network_settings *s, remat_error *error)
{
    remat_status status = check_range("batch", s->batch, 1, UINT64_C(1) << 20, error);
    if (status)
        return status;
    if (s->sequence && !model->sequence)
        return refuse(model, "sequence", error);
    if (s->image && !model->image)
        return refuse(model, "image", error);
    if (s->layers && !model->layers)
        return refuse(model, "layers", error);
    if (s->eager_attention && !model->layers) /* no transformer */
        return refuse(model, "attention", error);
    if (s->channels_last && model->layers) /* a transformer */
        return refuse(model, "channels_last", error);
    if (s->kernels != REMAT_EAGER && !model->layers)
        return refuse(model, "kernels", error);
    if (s->autocast && remat_precision_bytes(s->precision) == 4)
        return remat_fail(error, REMAT_INVALID, "autocast", "autocast is to 16 bits, not to %s",
                          remat_precision_name(s->precision));
    s->sequence = s->sequence ? s->sequence : model->sequence;
    s->image = s->image ? s->image : model->image;
    s->layers = s->layers ? s->layers : model->layers;
    if (model->sequence) /* learnt positions end somewhere */
        status = check_range("sequence", s->sequence, 1,
                             positions > 0 ? (uint64_t)positions : UINT64_C(1) << 20, error);
    if (!status && model->image)
        status = check_range("image", s->image, 32, 1 << 14, error);
    if (!status && model->layers)
        status = check_range("layers", s->layers, 1, REMAT_MOST_LAYERS, error);
    return status ? status : check_lora(model, s, error);
}

/* Whether ranks can share so many of something. */
static remat_status check_share(const char *field, double of, uint32_t ranks, const char *what,
                                remat_error *error)
{
    if (fmod(of, ranks) == 0)
        return REMAT_OK;
    return remat_fail(error, REMAT_INVALID, field, "%u ranks cannot share %.0f %s", ranks, of,
                      what);
}

static remat_status check_heads(const plan_transformer *t, const char *field, uint32_t ranks,
                                remat_error *error)
{
    remat_status status = check_share(field, t->heads, ranks, "heads", error);
    if (!status && t->groups < ranks) /* some ranks have the same ones */
        status = check_share(field, ranks, (uint32_t)t->groups, "heads of keys and values", error);
    else if (!status)
        status = check_share(field, t->groups, ranks, "heads of keys and values", error);
    if (!status)
        status = check_share(field, t->mlp, ranks, "columns between two matrices", error);
    return status;
}

static remat_status check_routing(const remat_network *model, const plan_transformer *t,
                                  const remat_routing *r, remat_error *error)
{
    if (r->capacity == 0 && !r->worst)
        return REMAT_OK;
    if (t->experts == 0)
        return remat_fail(error, REMAT_INVALID, "routing", "%s has no experts", model->name);
    if (r->capacity != 0 && r->worst)
        return remat_fail(error, REMAT_INVALID, "routing",
                          "routing has a capacity_factor, so that no rank takes more than another: "
                          "there is no worst load");
    if (r->capacity != 0 && !(r->capacity >= 0.01 && r->capacity <= 1000))
        return remat_fail(error, REMAT_INVALID, "routing.capacity_factor",
                          "routing.capacity_factor is %g; it must be from 0.01 to 1000",
                          r->capacity);
    return REMAT_OK;
}

/* Whether ranks can share what there is of everything. */
static remat_status check_cuts(const remat_network *model, family kind, const plan_transformer *t,
                               const remat_network_settings *s, remat_error *error)
{
    const uint32_t tensor = s->tensor > 1 ? s->tensor : 1,
                   context = s->context > 1 ? s->context : 1;
    const char *field = s->sequence_parallel ? "parallel.mesh.sp" : "parallel.mesh.tp";
    remat_status status = REMAT_OK;
    if (tensor > 1 && (!model->layers || (s->sequence_parallel && kind == VIT)))
        return remat_fail(error, REMAT_INVALID, field, "%s has no %s that ranks could share",
                          model->name, model->layers ? "tokens" : "heads");
    if (tensor > 1 && kind == DIT)
        return remat_fail(error, REMAT_INVALID, field,
                          "%s has scales of rows, whose matrices are not planned to be cut yet",
                          model->name);
    if (context > 1 && kind != GPT2 && kind != LLAMA)
        return remat_fail(error, REMAT_INVALID, "parallel.mesh.cp",
                          "%s has no tokens that ranks could share", model->name);
    if (s->expert > 1 && t->experts == 0)
        return remat_fail(error, REMAT_INVALID, "parallel.mesh.ep", "%s has no experts",
                          model->name);
    if (s->expert > 1 &&
        (status = check_share("parallel.mesh.ep", t->experts, s->expert, "experts", error)))
        return status;
    if (tensor > 1 && t->experts > 0)
        return remat_fail(error, REMAT_INVALID, field,
                          "%s has experts, whose matrices are not planned to be cut yet",
                          model->name);
    if (context > 1 && s->eager_attention)
        return remat_fail(error, REMAT_INVALID, "attention",
                          "ranks that share tokens need fused attention");
    if (tensor > 1)
        status = check_heads(t, field, tensor, error);
    if (!status)
        status = check_share("parallel.mesh.cp", s->sequence, context, "tokens", error);
    if (!status && s->sequence_parallel)
        status = check_share(field, s->sequence / context, tensor, "tokens", error);
    return status;
}

static remat_status check_image(const remat_network *model, uint32_t of, uint32_t image,
                                remat_error *error)
{
    if (of <= 1 || image % of == 0)
        return REMAT_OK;
    return remat_fail(error, REMAT_INVALID, "image", "image is %u; %s takes multiples of %u pixels",
                      image, model->name, of);
}

remat_status remat_network_graph_new(const char *name, const remat_network_settings *settings,
                                     const remat_device *device, remat_network_graph **ret_graph,
                                     remat_error *error)
{
    const remat_network *model = NULL;
    remat_network_settings s = *settings;
    plan_builder b;
    char title[96];
    remat_status status = remat_network_find(name, &model, error);
    if (status)
        return status;
    const size_t which = (size_t)(model - models);
    const family kind = makings[which].family;
    plan_transformer sizes = published(which);
    const plan_transformer *t = &sizes;
    status = resize(model, kind, &s.sizes, &sizes, error);
    if (!status)
        status = complete(model, kind >= VIT ? 0 : t->positions, &s, error);
    if (!status && kind >= VIT)
        status = check_image(model,
                             kind == VIT    ? (uint32_t)t->positions
                             : kind == DIT  ? 8 * (uint32_t)t->positions
                             : kind == UNET ? 16
                                            : 1,
                             s.image, error);
    if (!status)
        status = check_routing(model, t, &s.routing, error);
    if (!status)
        status = check_cuts(model, kind, t, &s, error);
    if (!status)
        status = remat_device_computes(device, s.precision, error);
    if (!status)
        status = check_float8(model, &s, device, error);
    if (!status)
        status = plan_begin(&b, &s, device, s.layers, error);
    if (status)
        return status;
    if (kind == RESNET)
        plan_resnet(&b, makings[which].blocks, makings[which].bottleneck);
    else if (kind == UNET)
        plan_unet(&b);
    else
        (kind == GPT2    ? plan_gpt2
         : kind == LLAMA ? plan_llama
         : kind == BERT  ? plan_bert
         : kind == VIT   ? plan_vit
                         : plan_dit)(&b, t, s.layers);
    snprintf(title, sizeof title, "%.60s-b%llu-%u", s.called ? s.called : name,
             (unsigned long long)s.batch, s.sequence ? s.sequence : s.image);
    if (s.layers != model->layers || (s.called && model->layers))
        snprintf(title + strlen(title), sizeof title - strlen(title), "-l%u", s.layers);
    if (s.lora.rank > 0)
        snprintf(title + strlen(title), sizeof title - strlen(title), "-lora%u%s%s", s.lora.rank,
                 s.lora.base >= REMAT_NF4 ? "-" : "",
                 s.lora.base >= REMAT_NF4 ? remat_base_name(s.lora.base) : "");
    return plan_finish(&b, title, ret_graph, error);
}
