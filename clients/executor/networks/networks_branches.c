/* Networks on images with branches: DenseNet, GoogLeNet, three ResNets that share parameters. */
#include "networks.h"

static void classify(net_graph *net, net_tensor x, const network_settings *s)
{
    net_scope(net, "head");
    net_tensor labels = net_ids(net, "label", s->batch, s->classes);
    net_cross_entropy(net, net_linear(net, net_global_pool(net, x), s->classes, true), labels);
}

/* ---- DenseNet ---- */

enum { MOST_LAYERS = 36 }; /* of a block */

/* Every layer reads what all before it in the block have made. */
static net_tensor dense_block(net_graph *net, net_tensor x, uint32_t layers, uint32_t growth)
{
    net_tensor parts[MOST_LAYERS + 1] = {x};
    for (uint32_t i = 0; i < layers; i++) {
        net_tensor y = i == 0 ? x : net_concat(net, parts, i + 1);
        y = net_conv(net, net_batch_norm(net, y, true), 4 * growth, 1, 1, 0, 1, false);
        parts[i + 1] = net_conv(net, net_batch_norm(net, y, true), growth, 3, 1, 1, 1, false);
    }
    return net_concat(net, parts, layers + 1);
}

static void dense(net_graph *net, const network_settings *s, const uint32_t layers[4],
                  uint32_t growth, uint32_t first)
{
    net_tensor x = net_image(net, "image", s->batch, 3, s->image, s->image);
    net_scope(net, "stem");
    x = network_conv_norm(net, x, network_channels(s, first), 7, 2, true);
    x = net_max_pool(net, x, 3, 2, 1);
    for (uint32_t i = 0; i < 4; i++) {
        net_scope(net, "block%u", i + 1);
        x = dense_block(net, x, layers[i], network_channels(s, growth));
        x = net_batch_norm(net, x, true);
        if (i < 3)
            x = net_average_pool(net, net_conv(net, x, x.c / 2, 1, 1, 0, 1, false), 2, 2);
    }
    classify(net, x, s);
}

static void build_densenet121(net_graph *net, const network_settings *s)
{
    dense(net, s, (const uint32_t[]){6, 12, 24, 16}, 32, 64);
}

static void build_densenet161(net_graph *net, const network_settings *s)
{
    dense(net, s, (const uint32_t[]){6, 12, 36, 24}, 48, 96);
}

#define DENSENET "Huang, Liu, van der Maaten, Weinberger 2016"

const network network_densenet121 = {
    "densenet121", DENSENET, {8, 224, 0, 1000, 1, 0}, build_densenet121};
const network network_densenet161 = {
    "densenet161", DENSENET, {8, 224, 0, 1000, 1, 0}, build_densenet161};

/* ---- GoogLeNet ---- */

typedef struct inception {
    uint32_t one, reduce3, three, reduce5, five, pool;
} inception;

/* The three 1 x 1 convolutions of the same input are one, whose channels the branches share out. */
static net_tensor build_inception(net_graph *net, net_tensor x, const network_settings *s,
                                  const inception *table)
{
    const inception c = {network_channels(s, table->one),   network_channels(s, table->reduce3),
                         network_channels(s, table->three), network_channels(s, table->reduce5),
                         network_channels(s, table->five),  network_channels(s, table->pool)};
    net_tensor ones = network_conv_norm(net, x, c.one + c.reduce3 + c.reduce5, 1, 1, true);
    net_tensor three = net_slice(net, ones, c.one, c.reduce3);
    net_tensor five = net_slice(net, ones, c.one + c.reduce3, c.reduce5);
    three = network_conv_norm(net, three, c.three, 3, 1, true);
    five = network_conv_norm(net, five, c.five, 5, 1, true);
    net_tensor pool = network_conv_norm(net, net_max_pool(net, x, 3, 1, 1), c.pool, 1, 1, true);
    return net_concat(net, (const net_tensor[]){net_slice(net, ones, 0, c.one), three, five, pool},
                      4);
}

static void build_googlenet(net_graph *net, const network_settings *s)
{
    static const inception table[] = {{64, 96, 128, 16, 32, 32},     {128, 128, 192, 32, 96, 64},
                                      {192, 96, 208, 16, 48, 64},    {160, 112, 224, 24, 64, 64},
                                      {128, 128, 256, 24, 64, 64},   {112, 144, 288, 32, 64, 64},
                                      {256, 160, 320, 32, 128, 128}, {256, 160, 320, 32, 128, 128},
                                      {384, 192, 384, 48, 128, 128}};
    static const char *const names[] = {"3a", "3b", "4a", "4b", "4c", "4d", "4e", "5a", "5b"};
    net_tensor x = net_image(net, "image", s->batch, 3, s->image, s->image);
    net_scope(net, "stem");
    x = network_conv_norm(net, x, network_channels(s, 64), 7, 2, true);
    x = net_max_pool(net, x, 3, 2, 1);
    x = network_conv_norm(net, x, network_channels(s, 64), 1, 1, true);
    x = network_conv_norm(net, x, network_channels(s, 192), 3, 1, true);
    x = net_max_pool(net, x, 3, 2, 1);
    for (uint32_t i = 0; i < 9; i++) {
        net_scope(net, "inception%s", names[i]);
        x = build_inception(net, x, s, &table[i]);
        if (i == 1 || i == 6)
            x = net_max_pool(net, x, 3, 2, 1);
    }
    net_scope(net, "head");
    x = net_dropout(net, net_global_pool(net, x), 0.4f);
    net_tensor labels = net_ids(net, "label", s->batch, s->classes);
    net_cross_entropy(net, net_linear(net, x, s->classes, true), labels);
}

const network network_googlenet = {
    "googlenet",
    "Szegedy et al. 2014; batch normalisation instead of the side classifiers",
    {16, 224, 0, 1000, 1, 0},
    build_googlenet};

/* ---- three branches that share parameters ---- */

static void build_siamese(net_graph *net, const network_settings *s)
{
    static const char *const names[] = {"anchor", "positive", "negative"};
    net_tensor ends[3];
    uint32_t mark = net_mark(net);
    for (uint32_t i = 0; i < 3; i++) {
        net_tensor x = net_image(net, names[i], s->batch, 3, s->image, s->image);
        net_reuse(net, mark, i);
        x = network_resnet18_features(net, x, s);
        net_scope(net, "%s", names[i]);
        ends[i] = net_linear(net, x, network_channels(s, 128), true);
    }
    net_scope(net, "head");
    net_triplet(net, ends[0], ends[1], ends[2], 1.0f);
}

const network network_siamese = {
    "siamese",
    "three ResNet-18 that share parameters, triplet loss: Schroff et al. 2015",
    {8, 224, 0, 0, 1, 0},
    build_siamese};
