/* Networks on sequences: a transformer, an LSTM, images beside captions. */
#include "networks.h"

enum { BYTES = 256 }; /* the vocabulary: text is read byte by byte */

/* ---- transformers ---- */

net_tensor network_blocks(net_graph *net, net_tensor x, uint32_t blocks, uint32_t heads,
                          uint32_t time, bool causal)
{
    const float probability = 0.1f;
    const uint32_t width = x.c;
    for (uint32_t i = 0; i < blocks; i++) {
        net_scope(net, "block%u", i);
        net_tensor y = net_linear(net, net_layer_norm(net, x), 3 * width, true);
        y = net_linear(net, net_attention(net, y, heads, time, causal), width, true);
        x = net_add(net, net_dropout(net, y, probability), x, false);
        y = net_gelu(net, net_linear(net, net_layer_norm(net, x), 4 * width, true));
        y = net_dropout(net, net_linear(net, y, width, true), probability);
        x = net_add(net, y, x, false);
    }
    return net_layer_norm(net, x);
}

static void build_gpt(net_graph *net, const network_settings *s)
{
    enum { BLOCKS = 12, HEADS = 12 };
    const uint32_t width = HEADS * network_channels(s, 64);
    net_scope(net, "stem");
    net_tensor tokens = net_ids(net, "tokens", s->batch * s->time, BYTES);
    net_tensor x = net_dropout(net, net_embedding(net, tokens, width, s->time), 0.1f);
    x = network_blocks(net, x, BLOCKS, HEADS, s->time, true);
    net_scope(net, "head");
    net_cross_entropy(net, net_linear(net, x, BYTES, false),
                      net_ids(net, "next", s->batch * s->time, BYTES));
}

const network network_gpt = {
    "gpt", "GPT-2 small, Radford et al. 2019; on bytes", {8, 0, 256, 0, 1, 0}, build_gpt};

/* ---- LSTM ---- */

static void build_lstm(net_graph *net, const network_settings *s)
{
    const uint32_t width = network_channels(s, 256);
    net_tensor tokens = net_ids(net, "tokens", s->batch * s->time, BYTES);
    net_tensor x = {.value = NET_NONE};
    uint32_t mark = net_mark(net);
    for (uint32_t t = 0; t < s->time; t++) {
        net_reuse(net, mark, 0); /* one lane: each step's backward waits for that of the next */
        net_scope(net, "time%u", t);
        x = net_lstm(net, x, tokens, width, s->batch, t);
    }
    net_scope(net, "head");
    x = net_linear(net, net_slice(net, x, 0, width), BYTES, true);
    net_cross_entropy(net, x, net_ids(net, "following", s->batch, BYTES));
}

const network network_lstm = {"lstm",
                              "Hochreiter, Schmidhuber 1997; predicts the byte after so many",
                              {64, 0, 100, 0, 1, 0},
                              build_lstm};

/* ---- two towers ---- */

static void build_crossmodal(net_graph *net, const network_settings *s)
{
    enum { BLOCKS = 4, HEADS = 4 };
    const uint32_t width = HEADS * network_channels(s, 64), common = network_channels(s, 128);
    net_tensor image = net_image(net, "image", s->batch, 3, s->image, s->image);
    image = network_resnet18_features(net, image, s);
    net_scope(net, "image");
    image = net_linear(net, image, common, true);
    net_tensor ids = net_ids(net, "caption", s->batch * s->time, BYTES);
    net_scope(net, "text");
    net_tensor text = net_embedding(net, ids, width, s->time);
    text = network_blocks(net, text, BLOCKS, HEADS, s->time, false);
    net_scope(net, "text");
    text = net_linear(net, net_rows(net, text, s->batch), common, true);
    net_scope(net, "head");
    net_contrastive(net, image, text, 0.1f);
}

const network network_crossmodal = {
    "crossmodal",
    "ResNet-18 beside a transformer on captions, as in Radford et al. 2021",
    {16, 224, 32, 0, 1, 0},
    build_crossmodal};
