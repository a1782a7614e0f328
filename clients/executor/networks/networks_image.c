/* Networks on images whose graphs are chains or nearly so: VGG, ResNet, U-Net. */
#include "networks.h"

static void classify(net_graph *net, net_tensor features, const network_settings *s)
{
    net_scope(net, "head");
    net_tensor labels = net_ids(net, "label", s->batch, s->classes);
    net_cross_entropy(net, net_linear(net, features, s->classes, true), labels);
}

/* ---- VGG ---- */

static net_tensor vgg_stage(net_graph *net, net_tensor x, uint32_t layers, uint32_t channels)
{
    for (uint32_t j = 0; j < layers; j++)
        x = net_relu(net, net_conv(net, x, channels, 3, 1, 1, 1, true));
    return net_max_pool(net, x, 2, 2, 0);
}

/* The second convolution's backward holds its input and two gradients of that size, more than half
 * of what storing everything takes: no schedule can do with less, but parts of the batch can. */
static net_tensor first_stage(net_graph *net, const network_settings *s, uint32_t layers,
                              uint32_t channels)
{
    net_tensor ends[NETWORK_PARTS];
    const uint32_t mark = net_mark(net);
    for (uint32_t k = 0; k < s->parts; k++) {
        const uint32_t first = (uint32_t)((uint64_t)s->batch * k / s->parts);
        const uint32_t end = (uint32_t)((uint64_t)s->batch * (k + 1) / s->parts);
        net_tensor x = net_image_part(net, k, first, end - first, 3, s->image);
        net_reuse(net, mark, k);
        if (s->parts > 1)
            net_scope(net, "stage1.%u", k);
        ends[k] = vgg_stage(net, x, layers, channels);
    }
    net_reuse(net, net_mark(net), 0);
    return s->parts > 1 ? net_stack(net, ends, s->parts) : ends[0];
}

static void build_vgg19(net_graph *net, const network_settings *s)
{
    static const struct {
        uint32_t layers, channels;
    } stages[] = {{2, 64}, {2, 128}, {4, 256}, {4, 512}, {4, 512}};
    net_tensor x = {0};
    for (uint32_t i = 0; i < 5; i++) {
        const uint32_t channels = network_channels(s, stages[i].channels);
        net_scope(net, "stage%u", i + 1);
        x = i == 0 ? first_stage(net, s, stages[i].layers, channels)
                   : vgg_stage(net, x, stages[i].layers, channels);
    }
    net_scope(net, "head");
    for (uint32_t j = 0; j < 2; j++) {
        x = net_relu(net, net_linear(net, x, network_channels(s, 4096), true));
        x = net_dropout(net, x, 0.5f);
    }
    classify(net, x, s);
}

const network network_vgg19 = {
    "vgg19", "Simonyan, Zisserman 2014, configuration E", {8, 224, 0, 1000, 1, 1}, build_vgg19};

/* ---- ResNet ---- */

static net_tensor shortcut(net_graph *net, net_tensor x, uint32_t channels, uint32_t stride)
{
    return stride == 1 && x.c == channels ? x
                                          : network_conv_norm(net, x, channels, 1, stride, false);
}

static net_tensor basic(net_graph *net, net_tensor x, uint32_t channels, uint32_t stride)
{
    net_tensor y = network_conv_norm(net, x, channels, 3, stride, true);
    y = network_conv_norm(net, y, channels, 3, 1, false);
    return net_add(net, y, shortcut(net, x, channels, stride), true);
}

static net_tensor bottleneck(net_graph *net, net_tensor x, uint32_t channels, uint32_t stride)
{
    net_tensor y = network_conv_norm(net, x, channels, 1, 1, true);
    y = network_conv_norm(net, y, channels, 3, stride, true);
    y = network_conv_norm(net, y, 4 * channels, 1, 1, false);
    return net_add(net, y, shortcut(net, x, 4 * channels, stride), true);
}

static net_tensor features(net_graph *net, net_tensor x, const network_settings *s,
                           net_tensor (*block)(net_graph *net, net_tensor x, uint32_t channels,
                                               uint32_t stride),
                           const uint32_t blocks[4])
{
    net_scope(net, "stem");
    x = network_conv_norm(net, x, network_channels(s, 64), 7, 2, true);
    x = net_max_pool(net, x, 3, 2, 1);
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t j = 0; j < blocks[i]; j++) {
            net_scope(net, "stage%u.%u", i + 1, j);
            x = block(net, x, network_channels(s, 64u << i), i > 0 && j == 0 ? 2 : 1);
        }
    return net_global_pool(net, x);
}

net_tensor network_resnet18_features(net_graph *net, net_tensor x, const network_settings *settings)
{
    return features(net, x, settings, basic, (const uint32_t[]){2, 2, 2, 2});
}

static void build_resnet18(net_graph *net, const network_settings *s)
{
    net_tensor x = net_image(net, "image", s->batch, 3, s->image, s->image);
    classify(net, network_resnet18_features(net, x, s), s);
}

static void deep(net_graph *net, const network_settings *s, const uint32_t blocks[4])
{
    net_tensor x = net_image(net, "image", s->batch, 3, s->image, s->image);
    classify(net, features(net, x, s, bottleneck, blocks), s);
}

static void build_resnet50(net_graph *net, const network_settings *s)
{
    deep(net, s, (const uint32_t[]){3, 4, 6, 3});
}

static void build_resnet101(net_graph *net, const network_settings *s)
{
    deep(net, s, (const uint32_t[]){3, 4, 23, 3});
}

static void build_resnet152(net_graph *net, const network_settings *s)
{
    deep(net, s, (const uint32_t[]){3, 8, 36, 3});
}

#define RESNET "He, Zhang, Ren, Sun 2015; stride in the 3 x 3 convolution"

const network network_resnet18 = {"resnet18", RESNET, {16, 224, 0, 1000, 1, 0}, build_resnet18};
const network network_resnet50 = {"resnet50", RESNET, {8, 224, 0, 1000, 1, 0}, build_resnet50};
const network network_resnet101 = {"resnet101", RESNET, {8, 224, 0, 1000, 1, 0}, build_resnet101};
const network network_resnet152 = {"resnet152", RESNET, {8, 224, 0, 1000, 1, 0}, build_resnet152};

/* ---- U-Net ---- */

static net_tensor two_convs(net_graph *net, net_tensor x, uint32_t channels)
{
    x = network_conv_norm(net, x, channels, 3, 1, true);
    return network_conv_norm(net, x, channels, 3, 1, true);
}

static void build_unet(net_graph *net, const network_settings *s)
{
    enum { DEPTH = 4 };
    net_tensor x = net_image(net, "image", s->batch, 3, s->image, s->image), skips[DEPTH];
    for (uint32_t i = 0; i < DEPTH; i++) {
        net_scope(net, "down%u", i);
        skips[i] = two_convs(net, x, network_channels(s, 64u << i));
        x = net_max_pool(net, skips[i], 2, 2, 0);
    }
    net_scope(net, "bottom");
    x = two_convs(net, x, network_channels(s, 64u << DEPTH));
    for (uint32_t i = DEPTH; i-- > 0;) {
        net_scope(net, "up%u", i);
        x = net_up_conv(net, x, network_channels(s, 64u << i), 2, 2);
        x = net_concat(net, (const net_tensor[]){skips[i], x}, 2);
        x = two_convs(net, x, network_channels(s, 64u << i));
    }
    net_scope(net, "head");
    x = net_conv(net, x, s->classes, 1, 1, 0, 1, true);
    net_cross_entropy(net, x, net_ids(net, "mask", s->batch * s->image * s->image, s->classes));
}

const network network_unet = {"unet",
                              "Ronneberger, Fischer, Brox 2015; padded, with batch normalisation",
                              {2, 256, 0, 4, 1, 0},
                              build_unet};
