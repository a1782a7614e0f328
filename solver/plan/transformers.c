/* Transformers as PyTorch runs them: the operations of Hugging Face's and torchvision's modules. */
#include "plan/build.h"

#include <math.h>
#include <stdio.h>

enum { KEYS_AND_VALUES = REMAT_ADAPT_KEYS | REMAT_ADAPT_VALUES };

static const plan_matrix q_matrix = {"q", REMAT_ADAPT_QUERIES}, k_matrix = {"k", REMAT_ADAPT_KEYS},
                         v_matrix = {"v", REMAT_ADAPT_VALUES}, proj = {"proj", REMAT_ADAPT_OUTPUTS},
                         qkv_matrix = {"qkv", REMAT_ADAPT_QUERIES | KEYS_AND_VALUES};

/* Tables of words are filled up; of keys each rank has at least one head. */
static plan_share share_of(const plan_builder *b, const plan_transformer *t)
{
    plan_share s = {.mlp = t->mlp / b->cut,
                    .heads = t->heads / b->cut,
                    .groups = t->groups < b->cut ? 1 : t->groups / b->cut,
                    .vocabulary = ceil(t->vocabulary / b->cut),
                    .head = t->head > 0 ? t->head : t->width / t->heads};
    s.inner = s.heads * s.head;
    s.shared = s.groups * s.head;
    return s;
}

static plan_heads heads_of(const plan_share *s, double time, bool causal, bool dropout)
{
    return (plan_heads){
        .time = time, .heads = s->heads, .head = s->head, .causal = causal, .dropout = dropout};
}

static double context_of(const plan_builder *b)
{
    return b->settings->context > 1 ? b->settings->context : 1;
}

/* Of this rank. */
static plan_value tokens(plan_builder *b, const char *id)
{
    const remat_network_settings *s = b->settings;
    return plan_input(b, id, (double)s->batch * s->sequence / context_of(b), 1, 8);
}

static plan_value gelu(plan_builder *b, plan_value x)
{
    return plan_pointwise(b, "gelu", "gelu", &x, 1, PLAN_INPUTS, 2, 3);
}

/* 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), an operation each, as Hugging Face's gelu_new
 * is written; autocast makes powers, and so what follows, in float32. */
static plan_value gelu_in_pieces(plan_builder *b, plan_value x)
{
    const plan_value half = plan_pointwise(b, "half", "mul", &x, 1, 0, 2, 2);
    plan_value y = x.element < b->wide ? plan_cast(b, "float", x, b->wide) : x;
    const double bytes = y.element * y.rows * y.width;
    y = plan_pointwise(b, "cube", "pow", &y, 1, PLAN_INPUTS, 2, 2);
    plan_backward(b, REMAT_POINTWISE, 1, 0, 2 * bytes);
    plan_backward(b, REMAT_POINTWISE, 1, 0, 3 * bytes);
    y = plan_pointwise(b, "scale", "mul", &y, 1, 0, 2, 2);
    y = plan_add(b, "sum", x, y);
    y = plan_pointwise(b, "inner", "mul", &y, 1, 0, 2, 2);
    y = plan_pointwise(b, "tanh", "tanh", &y, 1, PLAN_OUTPUT, 2, 3);
    y = plan_pointwise(b, "one", "add", &y, 1, 0, 2, 0);
    y = plan_pointwise(b, "gelu", "mul", (const plan_value[]){half, y}, 2, PLAN_INPUTS, 3, 3);
    plan_backward(b, REMAT_POINTWISE, 1, 0, 3 * bytes);
    return y;
}

static plan_value mlp(plan_builder *b, const plan_transformer *t, bool pieces, plan_value x)
{
    const plan_columns fc = {t->mlp / b->cut, t->mlp, !t->plain, true, false, false};
    plan_value y = plan_linear_columns(b, (plan_matrix){"fc", REMAT_ADAPT_MLP}, x, fc);
    y = pieces && !plan_is_fused(b) ? gelu_in_pieces(b, y) : gelu(b, y);
    return plan_linear_rows(b, (plan_matrix){"out", REMAT_ADAPT_MLP}, y, t->mlp, t->width,
                            !t->plain);
}

/* One product of all heads' queries, keys and values. */
static plan_value whole_qkv(plan_builder *b, const plan_transformer *t, const plan_share *s,
                            plan_value x)
{
    const plan_columns c = {3 * s->inner, 3 * t->width, !t->plain, true, false, false};
    return plan_linear_columns(b, qkv_matrix, x, c);
}

/* By heads, which fused attention reads as they lie. */
static plan_value by_heads(plan_builder *b, const char *name, plan_value x)
{
    return b->settings->eager_attention ? plan_copy(b, name, x) : x;
}

/* ---- GPT-2: Radford et al. 2019; BLOOM: Le Scao et al. 2022 ---- */

static plan_value gpt2_block(plan_builder *b, const plan_transformer *t, plan_value x)
{
    const plan_share s = share_of(b, t);
    const plan_heads h = heads_of(&s, b->settings->sequence, true, t->drops_attention);
    plan_value y = whole_qkv(b, t, &s, plan_layer_norm(b, "ln1", x));
    y = plan_attention_of_thirds(b, y, &h);
    y = plan_linear_rows(b, proj, y, t->width, t->width, !t->plain);
    x = plan_dropout_add(b, "drop1", "add1", y, x);
    y = mlp(b, t, t->pieces, plan_layer_norm(b, "ln2", x));
    return plan_dropout_add(b, "drop2", "add2", y, x);
}

void plan_gpt2(plan_builder *b, const plan_transformer *t, uint32_t layers)
{
    b->plain = t->plain;
    b->undropped = !t->drops;
    plan_unit(b, "", 0);
    const plan_columns head = {share_of(b, t).vocabulary, t->vocabulary, false, true, true, false};
    plan_value x =
        plan_embedding_rows(b, "wte", tokens(b, "tokens"), head.features, t->vocabulary, t->width);
    if (t->bloom) {
        x = plan_layer_norm(b, "ln_e", x);
    } else {
        plan_tensor(b, t->positions, t->width);
        x = plan_pointwise(b, "wpe", "bias_add", &x, 1, 0, 2, plan_is_frozen(b) ? 0 : 1);
    }
    if (t->drops_tables)
        x = plan_dropout(b, "drop", x);
    for (uint32_t i = 0; i < layers; i++) {
        plan_unit(b, "h", i);
        x = gpt2_block(b, t, x);
    }
    plan_unit(b, "", 0);
    x = plan_layer_norm(b, "ln_f", x);
    plan_head(b, "lm_head", x, head);
}

/* ---- Llama: Touvron et al. 2023; Grattafiori et al. 2024 ---- */

/* In float32 by several operations, then back, as Hugging Face's module does. */
static plan_value rms_norm(plan_builder *b, const char *name, plan_value x)
{
    char id[6][32];
    static const char *const parts[] = {"float", "square", "rsqrt", "scale", "cast", "weigh"};
    for (unsigned i = 0; i < 6; i++)
        snprintf(id[i], sizeof id[i], "%.16s_%s", name, parts[i]);
    const double n = x.rows * x.width, wide = 4, narrow = x.element;
    plan_value f = x;
    plan_tensor(b, 1, x.width);
    if (plan_is_fused(b)) {
        f = plan_node(b, name, "rms_norm", &x, 1, x.rows, x.width, PLAN_INPUTS);
        plan_save(b, 4 * x.rows); /* a number a row */
        plan_moves(b, REMAT_NORMALISATION, 2 * n * narrow, 3 * n * narrow);
        return plan_element(b, f, narrow);
    }
    if (narrow < wide)
        f = plan_cast(b, id[0], x, wide);
    plan_value s = plan_node(b, id[1], "pow", &f, 1, x.rows, x.width, PLAN_INPUTS);
    s = plan_element(b, s, wide);
    plan_moves(b, REMAT_POINTWISE, 2 * n * wide, 3 * n * wide);
    plan_backward(b, REMAT_POINTWISE, 2, 0, 2 * n * wide); /* 2 x^1 is a power, too */
    plan_value r = plan_node(b, id[2], "mean_rsqrt", &s, 1, x.rows, 1, PLAN_OUTPUT);
    r = plan_element(b, r, wide);
    plan_forward(b, REMAT_NORMALISATION, 0, n * wide);
    plan_backward(b, REMAT_POINTWISE, 1, 0, n * wide);
    for (unsigned i = 0; i < 2; i++) { /* one number a row: mean, addition, root and theirs */
        plan_forward(b, REMAT_POINTWISE, 0, 2 * x.rows * wide);
        plan_backward(b, REMAT_POINTWISE, 2, 0, 2 * x.rows * wide);
    }
    plan_value y =
        plan_node(b, id[3], "mul", (const plan_value[]){f, r}, 2, x.rows, x.width, PLAN_INPUTS);
    y = plan_element(b, y, wide);
    plan_forward(b, REMAT_POINTWISE, 0, 2 * n * wide);
    plan_backward(b, REMAT_POINTWISE, 1, 0, 2 * n * wide);
    plan_backward(b, REMAT_POINTWISE, 1, 0, 3 * n * wide);
    plan_backward(b, REMAT_NORMALISATION, 1, 0, n * wide);
    if (narrow < wide && !b->late_cast)
        y = plan_cast(b, id[4], y, narrow);
    const bool frozen = plan_is_frozen(b); /* the input is for the gradient of the weights */
    const double bytes = y.element * n;
    y = plan_pointwise(b, id[5], "mul", &y, 1, frozen ? 0 : PLAN_INPUTS, 2, 2);
    if (!frozen) {
        plan_backward(b, REMAT_POINTWISE, 1, 0, 3 * bytes);
        plan_backward(b, REMAT_NORMALISATION, 1, 0, bytes);
    }
    return narrow < wide && b->late_cast ? plan_cast(b, id[4], y, narrow) : y;
}

/* Rotary positions (Su et al. 2021): x cos + rotated x sin. */
static plan_value rotate(plan_builder *b, const char *name, plan_value x)
{
    char id[5][32];
    static const char *const parts[] = {"cos", "neg", "half", "sin", "rotated"};
    for (unsigned i = 0; i < 5; i++)
        snprintf(id[i], sizeof id[i], "%.16s_%s", name, parts[i]);
    if (plan_is_fused(b))
        return plan_pointwise(b, id[4], "rotary", &x, 1, 0, 2, 2);
    plan_value c = plan_pointwise(b, id[0], "mul", &x, 1, 0, 2, 2);
    const double half = b->element * x.rows * x.width / 2;
    plan_value n = plan_node(b, id[1], "neg", &x, 1, x.rows, x.width / 2, 0);
    plan_moves(b, REMAT_POINTWISE, 2 * half, 2 * half);
    plan_value h = plan_node(b, id[2], "concat", (const plan_value[]){n, x}, 2, x.rows, x.width, 0);
    plan_forward(b, REMAT_COPY, 0, 4 * half);
    plan_backward(b, REMAT_COPY, 2, 0, 4 * half); /* a half each, of the whole */
    plan_value s = plan_pointwise(b, id[3], "mul", &h, 1, 0, 2, 2);
    return plan_add(b, id[4], c, s);
}

/* Each head's queries or keys by a norm of their own. */
static plan_value norm_heads(plan_builder *b, const char *name, plan_value x, double head)
{
    plan_value y = x;
    y.rows = x.rows * x.width / head;
    y.width = head;
    y = rms_norm(b, name, y);
    y.rows = x.rows;
    y.width = x.width;
    return y;
}

/* Names begin with prefix. */
static plan_value gated(plan_builder *b, const plan_transformer *t, const char *prefix,
                        plan_value gate, plan_value up)
{
    char names[2][32];
    const char *by = t->gemma ? "gelu" : "silu", *whole = t->gemma ? "geglu" : "swiglu";
    snprintf(names[0], sizeof names[0], "%s%s", prefix, by);
    snprintf(names[1], sizeof names[1], "%sgated", prefix);
    if (!plan_is_fused(b))
        gate = plan_pointwise(b, names[0], by, &gate, 1, PLAN_INPUTS, 2, 3);
    plan_value y =
        plan_pointwise(b, names[1], plan_is_fused(b) ? whole : "mul",
                       (const plan_value[]){gate, up}, 2, PLAN_INPUTS, 3, plan_is_fused(b) ? 5 : 3);
    if (!plan_is_fused(b))
        plan_backward(b, REMAT_POINTWISE, 1, 0, 3 * y.element * y.rows * y.width);
    return y;
}

/* Of this rank's experts; at worst every token of all ranks chooses as many of them as there are.
 */
static double rows_of_experts(const plan_builder *b, const plan_transformer *t, double tokens)
{
    const remat_routing *r = &b->settings->routing;
    const double ranks = b->settings->expert > 1 ? b->settings->expert : 1;
    if (r->capacity > 0)
        return t->experts * ceil(tokens * t->chosen / t->experts * r->capacity);
    return r->worst ? ranks * tokens * fmin(t->chosen, t->experts / ranks) : tokens * t->chosen;
}

/* One MLP that every token takes, of so many columns. */
static plan_value dense_mlp(plan_builder *b, const plan_transformer *t, const char *prefix,
                            double columns, plan_value x)
{
    char names[3][32];
    static const char *const parts[] = {"gate", "up", "down"};
    for (unsigned i = 0; i < 3; i++)
        snprintf(names[i], sizeof names[i], "%s%s", prefix, parts[i]);
    plan_columns c = {columns / b->cut, columns, false, true, false, false};
    plan_value gate = plan_linear_columns(b, (plan_matrix){names[0], REMAT_ADAPT_MLP}, x, c);
    c.first = false;
    plan_value up = plan_linear_columns(b, (plan_matrix){names[1], REMAT_ADAPT_MLP}, x, c);
    plan_value y = gated(b, t, prefix, gate, up);
    return plan_linear_rows(b, (plan_matrix){names[2], REMAT_ADAPT_MLP}, y, columns, t->width,
                            false);
}

/* Rows go to the experts that were chosen for them and come back weighed (Fedus et al. 2021; Jiang
 * et al. 2024). */
static plan_value experts(plan_builder *b, const plan_transformer *t, plan_value x)
{
    const double rows = rows_of_experts(b, t, x.rows), bytes = b->element * rows * t->width;
    plan_value weights = plan_linear(b, (plan_matrix){"router", 0}, x, t->experts, false);
    weights = plan_node(b, "choose", "softmax", &weights, 1, x.rows, t->experts, PLAN_OUTPUT);
    weights = plan_element(b, weights, 4);
    plan_moves(b, REMAT_NORMALISATION, 6 * x.rows * t->experts, 10 * x.rows * t->experts);
    plan_value sent =
        plan_node(b, "dispatch", "gather", (const plan_value[]){x, weights}, 2, rows, t->width, 0);
    plan_moves(b, REMAT_GATHER, 2 * bytes, 2 * bytes);
    plan_send_experts(b, bytes);
    plan_value gate =
        plan_linear_experts(b, (plan_matrix){"gate", REMAT_ADAPT_MLP}, sent, t->mlp, t->experts);
    plan_value up =
        plan_linear_experts(b, (plan_matrix){"up", REMAT_ADAPT_MLP}, sent, t->mlp, t->experts);
    plan_value y = plan_linear_experts(b, (plan_matrix){"down", REMAT_ADAPT_MLP},
                                       gated(b, t, "", gate, up), t->width, t->experts);
    y = plan_node(b, "combine", "scatter_add", (const plan_value[]){y, weights}, 2, x.rows,
                  t->width, PLAN_INPUTS);
    plan_moves(b, REMAT_GATHER, bytes + b->element * x.rows * t->width, 3 * bytes);
    plan_send_experts(b, bytes);
    if (t->shared == 0)
        return y;
    return plan_add(b, "shared", y, dense_mlp(b, t, "shared_", t->shared * t->mlp, x));
}

static plan_value llama_mlp(plan_builder *b, const plan_transformer *t, uint32_t index,
                            plan_value x)
{
    const bool dense = t->experts == 0 || index < t->dense;
    if (!dense)
        return experts(b, t, x);
    return dense_mlp(b, t, "", t->experts > 0 ? t->dense_mlp : t->mlp, x);
}

/* Of the block of that index. */
static double window_of(const plan_transformer *t, uint32_t index)
{
    const unsigned said = t->windowed ? t->windowed[index] : REMAT_AS_IT_IS;
    const bool global = t->global_every > 0 && fmod(index + 1, t->global_every) == 0;
    return said == REMAT_NO || (global && said != REMAT_YES) ? 0 : t->window;
}

/* Queries, keys and values of x as heads attend to them. */
static void queries_and_keys(plan_builder *b, const plan_transformer *t, plan_value x,
                             plan_value qkv[3])
{
    const plan_share s = share_of(b, t);
    const double inner = t->heads * s.head;
    const plan_columns queries = {s.inner, inner, t->qkv_bias, true, false, false};
    const plan_columns keys = {s.shared, t->groups * s.head, t->qkv_bias, false, false, false};
    plan_value q = by_heads(b, "q_heads", plan_linear_columns(b, q_matrix, x, queries));
    plan_value k = by_heads(b, "k_heads", plan_linear_columns(b, k_matrix, x, keys));
    qkv[2] = by_heads(b, "v_heads", plan_linear_columns(b, v_matrix, x, keys));
    if (t->qk_norm) {
        q = norm_heads(b, "q_norm", q, s.head);
        k = norm_heads(b, "k_norm", k, s.head);
    }
    qkv[0] = rotate(b, "q", q);
    qkv[1] = rotate(b, "k", k);
}

/* The same out of few columns, of which keys and values are made for all heads; positions have
 * columns of their own, of keys the same for all heads: DeepSeek-AI 2024. */
static void latent_queries_and_keys(plan_builder *b, const plan_transformer *t, plan_value x,
                                    plan_value qkv[3])
{
    const double head = t->plain_head + t->rotated_head;
    plan_value q = x;
    if (t->query_rank > 0)
        q = rms_norm(
            b, "q_norm",
            plan_linear(b, (plan_matrix){"q_a", REMAT_ADAPT_QUERIES}, x, t->query_rank, false));
    q = plan_linear(b, (plan_matrix){t->query_rank > 0 ? "q_b" : "q", REMAT_ADAPT_QUERIES}, q,
                    t->heads * head, false);
    const plan_value few = plan_linear(b, (plan_matrix){"kv_a", KEYS_AND_VALUES}, x,
                                       t->kv_rank + t->rotated_head, false);
    const plan_value whole = plan_linear(b, (plan_matrix){"kv_b", KEYS_AND_VALUES},
                                         rms_norm(b, "kv_norm", plan_columns_of(few, t->kv_rank)),
                                         t->heads * (t->plain_head + t->value_head), false);
    const plan_value queries[] = {q,
                                  rotate(b, "q", plan_columns_of(q, t->heads * t->rotated_head))};
    const plan_value keys[] = {whole, rotate(b, "k", plan_columns_of(few, t->rotated_head))};
    qkv[0] = plan_concat(b, "queries", queries, 2, t->heads * head);
    qkv[1] = plan_concat(b, "keys", keys, 2, t->heads * head);
    qkv[2] = plan_columns_of(whole, t->heads * t->value_head);
}

static plan_value llama_block(plan_builder *b, const plan_transformer *t, uint32_t index,
                              plan_value x)
{
    const plan_share s = share_of(b, t);
    const bool latent = t->kv_rank > 0;
    plan_value qkv[3];
    plan_heads h = heads_of(&s, b->settings->sequence, true, t->drops_attention);
    h.window = window_of(t, index);
    if (latent) {
        h.head = t->plain_head + t->rotated_head;
        h.value = t->value_head;
    }
    (latent ? latent_queries_and_keys : queries_and_keys)(b, t, rms_norm(b, "norm1", x), qkv);
    plan_value y = plan_attention(b, qkv[0], qkv[1], qkv[2], &h);
    y = plan_linear_rows(b, (plan_matrix){"o", REMAT_ADAPT_OUTPUTS}, y,
                         t->heads * (latent ? t->value_head : s.head), t->width, false);
    x = plan_add(b, "add1", x, t->after_norms ? rms_norm(b, "after1", y) : y);
    y = llama_mlp(b, t, index, rms_norm(b, "norm2", x));
    return plan_add(b, "add2", x, t->after_norms ? rms_norm(b, "after2", y) : y);
}

void plan_llama(plan_builder *b, const plan_transformer *t, uint32_t layers)
{
    b->late_cast = t->gemma;
    b->capped = t->capped;
    plan_unit(b, "", 0);
    const plan_columns head = {
        share_of(b, t).vocabulary, t->vocabulary, false, true, t->tied, false};
    plan_value x = plan_embedding_rows(b, "embed", tokens(b, "tokens"), head.features,
                                       t->vocabulary, t->width);
    if (t->gemma)
        x = plan_pointwise(b, "scale", "mul", &x, 1, 0, 2, 2);
    for (uint32_t i = 0; i < layers; i++) {
        plan_unit(b, "layer", i);
        x = llama_block(b, t, i, x);
    }
    plan_unit(b, "", 0);
    x = rms_norm(b, "norm", x);
    plan_head(b, "lm_head", x, head);
}

/* ---- BERT: Devlin et al. 2019 ---- */

/* Of three products, with the one behind it. */
static plan_value attention_block(plan_builder *b, const plan_transformer *t, const plan_share *s,
                                  const plan_heads *h, plan_value x)
{
    plan_columns c = {s->inner, t->width, true, true, false, false};
    plan_value q = by_heads(b, "q_heads", plan_linear_columns(b, q_matrix, x, c));
    c.first = false;
    plan_value k = by_heads(b, "k_heads", plan_linear_columns(b, k_matrix, x, c));
    plan_value v = by_heads(b, "v_heads", plan_linear_columns(b, v_matrix, x, c));
    return plan_linear_rows(b, proj, plan_attention(b, q, k, v, h), t->width, t->width, true);
}

static plan_value bert_block(plan_builder *b, const plan_transformer *t, plan_value x)
{
    const plan_share s = share_of(b, t);
    const plan_heads h = heads_of(&s, b->settings->sequence, false, t->drops_attention);
    plan_value y = attention_block(b, t, &s, &h, x);
    x = plan_layer_norm(b, "ln1", plan_dropout_add(b, "drop1", "add1", y, x));
    y = mlp(b, t, false, x);
    return plan_layer_norm(b, "ln2", plan_dropout_add(b, "drop2", "add2", y, x));
}

/* The first row of each example. */
static plan_value first_rows(plan_builder *b, const char *name, plan_value x)
{
    const double rows = (double)b->settings->batch;
    plan_value y = plan_node(b, name, "select", &x, 1, rows, x.width, 0);
    y = plan_element(b, y, x.element);
    plan_moves(b, REMAT_COPY, 2 * b->element * rows * x.width, b->element * x.rows * x.width);
    return y;
}

void plan_bert(plan_builder *b, const plan_transformer *t, uint32_t layers)
{
    b->undropped = !t->drops;
    plan_unit(b, "", 0);
    plan_value x = plan_embedding_rows(b, "word", tokens(b, "tokens"), share_of(b, t).vocabulary,
                                       t->vocabulary, t->width);
    plan_tensor(b, t->positions, t->width);
    x = plan_pointwise(b, "position", "bias_add", &x, 1, 0, 2, plan_is_frozen(b) ? 0 : 1);
    plan_value kind = plan_embedding(b, "type", tokens(b, "types"), 2, t->width);
    x = plan_layer_norm(b, "ln", plan_add(b, "sum", x, kind));
    if (t->drops_tables)
        x = plan_dropout(b, "drop", x);
    for (uint32_t i = 0; i < layers; i++) {
        plan_unit(b, "layer", i);
        x = bert_block(b, t, x);
    }
    plan_unit(b, "", 0);
    x = plan_linear(b, (plan_matrix){"pooler", 0}, first_rows(b, "first", x), t->width, true);
    x = plan_pointwise(b, "tanh", "tanh", &x, 1, PLAN_OUTPUT, 2, 3);
    plan_cross_entropy(b, x); /* stands for the head that somebody puts there */
}

/* ---- ViT: Dosovitskiy et al. 2021 ---- */

static plan_value vit_block(plan_builder *b, const plan_transformer *t, plan_value x, double time)
{
    const plan_share s = share_of(b, t);
    const plan_heads h = heads_of(&s, time, false, false);
    plan_value y = attention_block(b, t, &s, &h, plan_layer_norm(b, "ln1", x));
    x = plan_add(b, "add1", x, y);
    return plan_add(b, "add2", x, mlp(b, t, false, plan_layer_norm(b, "ln2", x)));
}

/* One convolution whose windows lie side by side: so many channels of side x side patches. */
static plan_value patches(plan_builder *b, const plan_transformer *t, const char *input,
                          double channels, double side)
{
    const double rows = (double)b->settings->batch * side * side;
    const double pixels = channels * t->positions * t->positions;
    const bool frozen = plan_is_frozen(b);
    plan_value x = plan_image(b, input, rows, pixels);
    plan_tensor(b, 1, t->width);
    plan_tensor(b, t->width, pixels);
    const plan_value w = plan_weights(b, "patches", t->width, pixels);
    x = plan_node(b, "patches", "conv2d", (const plan_value[]){x, w}, 1 + (w.rows > 0), rows,
                  t->width, frozen ? 0 : PLAN_INPUTS);
    plan_computes(b, REMAT_CONVOLUTION, frozen ? 0 : 1, 2 * rows * t->width * pixels,
                  b->element * rows * (t->width + pixels)); /* of the weights alone */
    return x;
}

void plan_vit(plan_builder *b, const plan_transformer *t, uint32_t layers)
{
    const double batch = (double)b->settings->batch;
    const double side = floor(b->settings->image / t->positions), time = side * side + 1;
    const double bytes = b->wide * batch * time * t->width;
    plan_unit(b, "", 0);
    plan_value y = patches(b, t, "image", 3, side);
    plan_tensor(b, 1, t->width); /* the class's token */
    plan_tensor(b, time, t->width);
    y = plan_node(b, "tokens", "concat", &y, 1, batch * time, t->width, 0);
    y = plan_element(b, y, b->wide); /* as the class's token and positions are */
    plan_moves(b, REMAT_COPY, 2 * bytes, 2 * bytes);
    y = plan_pointwise(b, "positions", "bias_add", &y, 1, 0, 2, plan_is_frozen(b) ? 0 : 1);
    for (uint32_t i = 0; i < layers; i++) {
        plan_unit(b, "layer", i);
        y = vit_block(b, t, y, time);
    }
    plan_unit(b, "", 0);
    y = first_rows(b, "first", plan_layer_norm(b, "ln", y));
    plan_cross_entropy(b, plan_linear(b, (plan_matrix){"head", 0}, y, t->vocabulary, true));
}

/* ---- DiT: Peebles, Xie 2023 ---- */

/* Scales, shifts and gates of the rows of an example, out of what it is to be. */
static plan_value modulation(plan_builder *b, plan_value given, double width)
{
    plan_value c = plan_pointwise(b, "silu", "silu", &given, 1, PLAN_INPUTS, 2, 3);
    return plan_linear(b, (plan_matrix){"modulation", 0}, c, width, true);
}

static plan_value modulated(plan_builder *b, const char *name, plan_value x, plan_value by)
{
    char names[2][32];
    snprintf(names[0], sizeof names[0], "%.16s_scale", name);
    snprintf(names[1], sizeof names[1], "%.16s_shift", name);
    if (plan_is_fused(b))
        return plan_bare_norm(b, name, x, &by, 1);
    plan_value y[] = {plan_bare_norm(b, name, x, NULL, 0), by};
    y[0] = plan_pointwise(b, names[0], "mul", y, 2, PLAN_INPUTS, 2, 4);
    return plan_pointwise(b, names[1], "add", y, 2, 0, 2, 1);
}

/* The sum of x and of y by its gate. */
static plan_value gated_sum(plan_builder *b, const char *gate, const char *add, plan_value x,
                            plan_value y, plan_value by)
{
    if (plan_is_fused(b))
        return plan_pointwise(b, add, "gated_add", (const plan_value[]){y, by, x}, 3, PLAN_INPUTS,
                              3, 3);
    y = plan_pointwise(b, gate, "mul", (const plan_value[]){y, by}, 2, PLAN_INPUTS, 2, 4);
    return plan_add(b, add, x, y);
}

static plan_value dit_block(plan_builder *b, const plan_transformer *t, plan_value x,
                            plan_value given, double time)
{
    const plan_share s = share_of(b, t);
    const plan_heads h = heads_of(&s, time, false, false);
    const plan_value by = modulation(b, given, 6 * t->width);
    plan_value y = whole_qkv(b, t, &s, modulated(b, "norm1", x, by));
    y = plan_attention_of_thirds(b, y, &h);
    y = plan_linear_rows(b, proj, y, t->width, t->width, true);
    x = gated_sum(b, "gate1", "add1", x, y, by);
    y = mlp(b, t, false, modulated(b, "norm2", x, by));
    return gated_sum(b, "gate2", "add2", x, y, by);
}

/* When in the diffusion, by 256 waves, and which of the classes, of which one is none. */
static plan_value condition(plan_builder *b, const plan_transformer *t)
{
    const double batch = (double)b->settings->batch;
    plan_value y = plan_input(b, "waves", batch, 256, b->element);
    y = plan_linear(b, (plan_matrix){"time1", 0}, y, t->width, true);
    y = plan_pointwise(b, "time_silu", "silu", &y, 1, PLAN_INPUTS, 2, 3);
    y = plan_linear(b, (plan_matrix){"time2", 0}, y, t->width, true);
    const plan_value class = plan_input(b, "classes", batch, 1, 8);
    return plan_add(b, "given", y, plan_embedding(b, "class", class, t->vocabulary + 1, t->width));
}

void plan_dit(plan_builder *b, const plan_transformer *t, uint32_t layers)
{
    enum { CHANNELS = 4, SMALLER = 8 }; /* of latents; out come noise and its variance */
    const double side = floor(b->settings->image / (SMALLER * t->positions)), time = side * side;
    const double outputs = 2 * CHANNELS * t->positions * t->positions;
    plan_unit(b, "", 0);
    plan_value x = patches(b, t, "latents", CHANNELS, side);
    plan_constant(b, time, t->width);
    x = plan_pointwise(b, "positions", "add", &x, 1, 0, 2, 0);
    const plan_value given = condition(b, t);
    for (uint32_t i = 0; i < layers; i++) {
        plan_unit(b, "block", i);
        x = dit_block(b, t, x, given, time);
    }
    plan_unit(b, "", 0);
    x = modulated(b, "norm", x, modulation(b, given, 2 * t->width));
    x = plan_linear(b, (plan_matrix){"final", 0}, x, outputs, true);
    const double bytes = b->element * x.rows * outputs;
    const plan_value ends[] = {x, plan_input(b, "noise", x.rows, outputs / 2, b->element)};
    plan_node(b, "loss", "mse_loss", ends, 2, 0, 1, PLAN_INPUTS);
    plan_moves(b, REMAT_POINTWISE, 1.5 * bytes, 2.5 * bytes);
}
