/* Transformers as PyTorch runs them: the operations of Hugging Face's and torchvision's modules. */
#include "plan/build.h"

#include <math.h>
#include <stdio.h>

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

static plan_value mlp(plan_builder *b, const plan_transformer *t, plan_value x)
{
    const plan_columns fc = {t->mlp / b->cut, t->mlp, !t->plain, true, false};
    plan_value y = plan_linear_columns(b, "fc", x, fc);
    y = plan_pointwise(b, "gelu", "gelu", &y, 1, PLAN_INPUTS, 2, 3);
    return plan_linear_rows(b, "out", y, t->mlp, t->width, !t->plain);
}

/* One product of all heads' queries, keys and values. */
static plan_value whole_qkv(plan_builder *b, const plan_transformer *t, const plan_share *s,
                            plan_value x)
{
    const plan_columns c = {3 * s->inner, 3 * t->width, !t->plain, true, false};
    return plan_linear_columns(b, "qkv", x, c);
}

/* By heads, which attention reads as they lie where kernels are fused. */
static plan_value by_heads(plan_builder *b, const char *name, plan_value x)
{
    return plan_is_fused(b) && !b->settings->eager_attention ? x : plan_copy(b, name, x);
}

/* ---- GPT-2: Radford et al. 2019 ---- */

static plan_value gpt2_block(plan_builder *b, const plan_transformer *t, plan_value x)
{
    const plan_share s = share_of(b, t);
    const plan_heads h = heads_of(&s, b->settings->sequence, true, !t->plain);
    plan_value y = whole_qkv(b, t, &s, plan_layer_norm(b, "ln1", x));
    y = plan_attention_of_thirds(b, y, &h);
    y = plan_linear_rows(b, "proj", y, t->width, t->width, !t->plain);
    x = plan_dropout_add(b, "drop1", "add1", y, x);
    y = mlp(b, t, plan_layer_norm(b, "ln2", x));
    return plan_dropout_add(b, "drop2", "add2", y, x);
}

void plan_gpt2(plan_builder *b, const plan_transformer *t, uint32_t layers)
{
    b->plain = t->plain;
    plan_unit(b, "", 0);
    const plan_columns head = {share_of(b, t).vocabulary, t->vocabulary, false, true, true};
    plan_value x =
        plan_embedding_rows(b, "wte", tokens(b, "tokens"), head.features, t->vocabulary, t->width);
    plan_tensor(b, t->positions, t->width);
    x = plan_pointwise(b, "wpe", "bias_add", &x, 1, 0, 2, 1);
    if (!t->plain)
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
    plan_value r = plan_node(b, id[2], "mean_rsqrt", &s, 1, x.rows, 1, PLAN_OUTPUT);
    r = plan_element(b, r, wide);
    plan_forward(b, REMAT_NORMALISATION, 0, n * wide);
    plan_backward(b, REMAT_POINTWISE, 1, 0, n * wide);
    plan_value y =
        plan_node(b, id[3], "mul", (const plan_value[]){f, r}, 2, x.rows, x.width, PLAN_INPUTS);
    y = plan_element(b, y, wide);
    plan_forward(b, REMAT_POINTWISE, 0, 2 * n * wide);
    plan_backward(b, REMAT_POINTWISE, 2, 0, 2 * n * wide);
    if (narrow < wide)
        y = plan_cast(b, id[4], y, narrow);
    return plan_pointwise(b, id[5], "mul", &y, 1, PLAN_INPUTS, 2, 4);
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
    plan_moves(b, REMAT_COPY, 4 * half, 4 * half);
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

static plan_value swiglu(plan_builder *b, plan_value gate, plan_value up)
{
    if (!plan_is_fused(b))
        gate = plan_pointwise(b, "silu", "silu", &gate, 1, PLAN_INPUTS, 2, 3);
    return plan_pointwise(b, "gated", plan_is_fused(b) ? "swiglu" : "mul",
                          (const plan_value[]){gate, up}, 2, PLAN_INPUTS, 3, 5);
}

/* Rows go to the experts that were chosen for them and come back weighed (Fedus et al. 2021; Jiang
 * et al. 2024), none dropped, as many to each. */
static plan_value experts(plan_builder *b, const plan_transformer *t, plan_value x)
{
    const double rows = x.rows * t->chosen, bytes = b->element * rows * t->width;
    plan_value weights = plan_linear(b, "router", x, t->experts, false);
    weights = plan_node(b, "choose", "softmax", &weights, 1, x.rows, t->experts, PLAN_OUTPUT);
    weights = plan_element(b, weights, 4);
    plan_moves(b, REMAT_NORMALISATION, 6 * x.rows * t->experts, 10 * x.rows * t->experts);
    plan_value sent =
        plan_node(b, "dispatch", "gather", (const plan_value[]){x, weights}, 2, rows, t->width, 0);
    plan_moves(b, REMAT_GATHER, 2 * bytes, 2 * bytes);
    plan_send_experts(b, bytes);
    plan_value gate = plan_linear_experts(b, "gate", sent, t->mlp, t->experts);
    plan_value up = plan_linear_experts(b, "up", sent, t->mlp, t->experts);
    plan_value y = plan_linear_experts(b, "down", swiglu(b, gate, up), t->width, t->experts);
    y = plan_node(b, "combine", "scatter_add", (const plan_value[]){y, weights}, 2, x.rows,
                  t->width, PLAN_INPUTS);
    plan_moves(b, REMAT_GATHER, bytes + b->element * x.rows * t->width, 3 * bytes);
    plan_send_experts(b, bytes);
    return y;
}

static plan_value llama_mlp(plan_builder *b, const plan_transformer *t, const plan_share *s,
                            plan_value x)
{
    if (t->experts > 0)
        return experts(b, t, x);
    plan_value gate =
        plan_linear_columns(b, "gate", x, (plan_columns){s->mlp, t->mlp, false, true, false});
    plan_value up =
        plan_linear_columns(b, "up", x, (plan_columns){s->mlp, t->mlp, false, false, false});
    return plan_linear_rows(b, "down", swiglu(b, gate, up), t->mlp, t->width, false);
}

static plan_value llama_block(plan_builder *b, const plan_transformer *t, plan_value x)
{
    const plan_share s = share_of(b, t);
    const plan_heads h = heads_of(&s, b->settings->sequence, true, false);
    const double inner = t->heads * s.head;
    const plan_columns queries = {s.inner, inner, t->qkv_bias, true, false};
    const plan_columns keys = {s.shared, t->groups * s.head, t->qkv_bias, false, false};
    plan_value y = rms_norm(b, "norm1", x);
    plan_value q = by_heads(b, "q_heads", plan_linear_columns(b, "q", y, queries));
    plan_value k = by_heads(b, "k_heads", plan_linear_columns(b, "k", y, keys));
    plan_value v = by_heads(b, "v_heads", plan_linear_columns(b, "v", y, keys));
    if (t->qk_norm) {
        q = norm_heads(b, "q_norm", q, s.head);
        k = norm_heads(b, "k_norm", k, s.head);
    }
    q = rotate(b, "q", q);
    k = rotate(b, "k", k);
    y = plan_attention(b, q, k, v, &h);
    x = plan_add(b, "add1", x, plan_linear_rows(b, "o", y, inner, t->width, false));
    y = rms_norm(b, "norm2", x);
    return plan_add(b, "add2", x, llama_mlp(b, t, &s, y));
}

void plan_llama(plan_builder *b, const plan_transformer *t, uint32_t layers)
{
    plan_unit(b, "", 0);
    const plan_columns head = {share_of(b, t).vocabulary, t->vocabulary, false, true, t->tied};
    plan_value x = plan_embedding_rows(b, "embed", tokens(b, "tokens"), head.features,
                                       t->vocabulary, t->width);
    for (uint32_t i = 0; i < layers; i++) {
        plan_unit(b, "layer", i);
        x = llama_block(b, t, x);
    }
    plan_unit(b, "", 0);
    x = rms_norm(b, "norm", x);
    plan_head(b, "lm_head", x, head);
}

/* ---- BERT: Devlin et al. 2019 ---- */

static plan_value bert_block(plan_builder *b, const plan_transformer *t, plan_value x)
{
    const plan_share s = share_of(b, t);
    const plan_heads h = heads_of(&s, b->settings->sequence, false, true);
    plan_columns c = {s.inner, t->width, true, true, false};
    plan_value q = by_heads(b, "q_heads", plan_linear_columns(b, "q", x, c));
    c.first = false;
    plan_value k = by_heads(b, "k_heads", plan_linear_columns(b, "k", x, c));
    plan_value v = by_heads(b, "v_heads", plan_linear_columns(b, "v", x, c));
    plan_value y = plan_attention(b, q, k, v, &h);
    y = plan_linear_rows(b, "proj", y, t->width, t->width, true);
    x = plan_layer_norm(b, "ln1", plan_dropout_add(b, "drop1", "add1", y, x));
    y = mlp(b, t, x);
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
    plan_unit(b, "", 0);
    plan_value x = plan_embedding_rows(b, "word", tokens(b, "tokens"), share_of(b, t).vocabulary,
                                       t->vocabulary, t->width);
    plan_tensor(b, t->positions, t->width);
    x = plan_pointwise(b, "position", "bias_add", &x, 1, 0, 2, 1);
    plan_value kind = plan_embedding(b, "type", tokens(b, "types"), 2, t->width);
    x = plan_layer_norm(b, "ln", plan_add(b, "sum", x, kind));
    x = plan_dropout(b, "drop", x);
    for (uint32_t i = 0; i < layers; i++) {
        plan_unit(b, "layer", i);
        x = bert_block(b, t, x);
    }
    plan_unit(b, "", 0);
    x = plan_linear(b, "pooler", first_rows(b, "first", x), t->width, true);
    x = plan_pointwise(b, "tanh", "tanh", &x, 1, PLAN_OUTPUT, 2, 3);
    plan_cross_entropy(b, x); /* stands for the head that somebody puts there */
}

/* ---- ViT: Dosovitskiy et al. 2021 ---- */

static plan_value vit_block(plan_builder *b, const plan_transformer *t, plan_value x, double time)
{
    const plan_share s = share_of(b, t);
    const plan_heads h = heads_of(&s, time, false, false);
    plan_value y = whole_qkv(b, t, &s, plan_layer_norm(b, "ln1", x));
    y = plan_attention_of_thirds(b, y, &h);
    x = plan_add(b, "add1", x, plan_linear_rows(b, "proj", y, t->width, t->width, true));
    return plan_add(b, "add2", x, mlp(b, t, plan_layer_norm(b, "ln2", x)));
}

void plan_vit(plan_builder *b, const plan_transformer *t, uint32_t layers)
{
    const remat_network_settings *s = b->settings;
    const double batch = (double)s->batch, patch = t->positions, side = s->image / (uint32_t)patch;
    const double time = side * side + 1, pixels = 3 * patch * patch;
    plan_unit(b, "", 0);
    plan_value x = plan_input(b, "image", batch, 3.0 * s->image * s->image, b->element);
    plan_tensor(b, t->width, pixels);
    plan_tensor(b, 1, t->width);
    plan_value y =
        plan_node(b, "patches", "conv2d", &x, 1, batch * side * side, t->width, PLAN_INPUTS);
    const double flops = 2 * batch * side * side * t->width * pixels;
    const double moved = b->element * batch * side * side * (t->width + pixels);
    plan_computes(b, REMAT_CONVOLUTION, 1, flops, moved); /* of the weights alone */
    plan_tensor(b, 1, t->width);                          /* the class's token */
    plan_tensor(b, time, t->width);
    const double bytes = b->element * batch * time * t->width;
    y = plan_node(b, "tokens", "concat", &y, 1, batch * time, t->width, 0);
    plan_moves(b, REMAT_COPY, 2 * bytes, 2 * bytes);
    y = plan_pointwise(b, "positions", "bias_add", &y, 1, 0, 2, 1);
    for (uint32_t i = 0; i < layers; i++) {
        plan_unit(b, "layer", i);
        y = vit_block(b, t, y, time);
    }
    plan_unit(b, "", 0);
    y = first_rows(b, "first", plan_layer_norm(b, "ln", y));
    plan_cross_entropy(b, plan_linear(b, "head", y, t->vocabulary, true));
}
