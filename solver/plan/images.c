/* Networks on images as torchvision runs them: rectifiers in place, statistics of batches kept. */
#include "plan/build.h"

#include <stdio.h>

static plan_value image_input(plan_builder *b)
{
    const remat_network_settings *s = b->settings;
    const double side = s->image;
    plan_value x = plan_image(b, "image", (double)s->batch * 3, side * side);
    x.channels = 3;
    x.height = x.wide = side;
    return x;
}

/* A node whose result has so many channels of height x wide. */
static plan_value image_node(plan_builder *b, const char *name, const char *op,
                             const plan_value *inputs, unsigned n_inputs, double channels,
                             double height, double wide, unsigned flags)
{
    const double batch = (double)b->settings->batch;
    plan_value y = plan_node(b, name, op, inputs, n_inputs, batch * channels, height * wide, flags);
    y.channels = channels;
    y.height = height;
    y.wide = wide;
    return y;
}

static remat_kernel_class convolution_of(const plan_builder *b)
{
    return b->settings->channels_last ? REMAT_MATRIX : REMAT_CONVOLUTION;
}

static double numbers(plan_value x)
{
    return x.rows * x.width;
}

static plan_value conv(plan_builder *b, const char *name, plan_value x, double channels,
                       uint32_t kernel, uint32_t stride, bool bias)
{
    const uint32_t padding = (kernel - 1) / 2;
    const double side = (double)(((uint32_t)x.height + 2 * padding - kernel) / stride + 1);
    const double inner = x.channels * kernel * kernel;
    plan_tensor(b, channels, inner);
    const plan_value w = plan_weights(b, name, channels, inner);
    plan_value y = image_node(b, name, "conv2d", (const plan_value[]){x, w}, 1 + (w.rows > 0),
                              channels, side, side, PLAN_INPUTS);
    const double flops = 2 * numbers(y) * inner;
    const double bytes = b->element * (numbers(x) + numbers(y) + channels * inner);
    plan_computes(b, convolution_of(b), x.channels == 3 ? 1 : 2, flops, bytes);
    if (bias) {
        plan_tensor(b, 1, channels);
        plan_backward(b, REMAT_POINTWISE, 1, 0, b->element * numbers(y));
    }
    return y;
}

static plan_value batch_norm(plan_builder *b, const char *name, plan_value x)
{
    const double bytes = b->element * numbers(x);
    plan_tensor(b, 1, x.channels);
    plan_tensor(b, 1, x.channels);
    plan_value y =
        image_node(b, name, "batch_norm", &x, 1, x.channels, x.height, x.wide, PLAN_INPUTS);
    plan_save(b, 8 * x.channels);
    plan_moves(b, REMAT_NORMALISATION, 3 * bytes, 5 * bytes);
    plan_forward(b, REMAT_POINTWISE, 0, 16); /* so many batches were seen */
    return y;
}

static plan_value relu(plan_builder *b, const char *name, plan_value x)
{
    return plan_pointwise(b, name, "relu", &x, 1, PLAN_OUTPUT | PLAN_IN_PLACE, 2, 3);
}

static plan_value conv_norm(plan_builder *b, const char *name, plan_value x, double channels,
                            uint32_t kernel, uint32_t stride, bool rectified)
{
    char id[3][24];
    snprintf(id[0], sizeof id[0], "conv%.12s", name);
    snprintf(id[1], sizeof id[1], "bn%.12s", name);
    snprintf(id[2], sizeof id[2], "relu%.12s", name);
    x = batch_norm(b, id[1], conv(b, id[0], x, channels, kernel, stride, false));
    return rectified ? relu(b, id[2], x) : x;
}

/* Largest of a window; where it was is kept, 8 bytes a number. */
static plan_value max_pool(plan_builder *b, plan_value x, uint32_t kernel, uint32_t stride)
{
    const uint32_t padding = kernel > 2 ? 1 : 0;
    const double side = (double)(((uint32_t)x.height + 2 * padding - kernel) / stride + 1);
    plan_value y = image_node(b, "pool", "max_pool2d", &x, 1, x.channels, side, side, PLAN_INPUTS);
    plan_save(b, 8 * numbers(y));
    plan_moves(b, REMAT_POOLING, b->element * numbers(x) + (b->element + 8) * numbers(y),
               b->element * numbers(x) + (b->element + 8) * numbers(y));
    return y;
}

/* ---- ResNet: He, Zhang, Ren, Sun 2015; stride in the 3 x 3 convolution ---- */

static plan_value resnet_block(plan_builder *b, plan_value x, double channels, uint32_t stride,
                               bool bottleneck)
{
    const double out = bottleneck ? 4 * channels : channels;
    plan_value y, own = x;
    if (bottleneck) {
        y = conv_norm(b, "1", x, channels, 1, 1, true);
        y = conv_norm(b, "2", y, channels, 3, stride, true);
        y = conv_norm(b, "3", y, out, 1, 1, false);
    } else {
        y = conv_norm(b, "1", x, channels, 3, stride, true);
        y = conv_norm(b, "2", y, channels, 3, 1, false);
    }
    if (stride != 1 || x.channels != out)
        own = conv_norm(b, "_down", x, out, 1, stride, false);
    return relu(b, "relu", plan_add(b, "add", y, own));
}

void plan_resnet(plan_builder *b, const uint32_t blocks[4], bool bottleneck)
{
    plan_unit(b, "", 0);
    plan_value x = conv_norm(b, "1", image_input(b), 64, 7, 2, true);
    x = max_pool(b, x, 3, 2);
    for (uint32_t i = 0, at = 0; i < 4; i++)
        for (uint32_t j = 0; j < blocks[i]; j++) {
            plan_unit(b, "block", at++);
            x = resnet_block(b, x, 64u << i, i > 0 && j == 0 ? 2 : 1, bottleneck);
        }
    plan_unit(b, "", 0);
    const double bytes = b->element * numbers(x), batch = (double)b->settings->batch;
    x = plan_node(b, "mean", "avg_pool2d", &x, 1, batch, x.channels, 0);
    plan_moves(b, REMAT_POOLING, bytes, bytes);
    plan_cross_entropy(b, plan_linear(b, (plan_matrix){"fc", 0}, x, 1000, true));
}

/* ---- U-Net: Ronneberger, Fischer, Brox 2015; padded, with batch normalisation ---- */

static plan_value two_convs(plan_builder *b, plan_value x, double channels)
{
    return conv_norm(b, "2", conv_norm(b, "1", x, channels, 3, 1, true), channels, 3, 1, true);
}

static plan_value up_conv(plan_builder *b, plan_value x, double channels)
{
    plan_tensor(b, 1, channels);
    plan_tensor(b, x.channels, channels * 4);
    const plan_value w = plan_weights(b, "up", x.channels, channels * 4);
    plan_value y = image_node(b, "up", "conv_transpose2d", (const plan_value[]){x, w},
                              1 + (w.rows > 0), channels, 2 * x.height, 2 * x.wide, PLAN_INPUTS);
    const double flops = 2 * numbers(x) * channels * 4;
    const double bytes = b->element * (numbers(x) + numbers(y) + x.channels * channels * 4);
    plan_computes(b, convolution_of(b), 2, flops, bytes);
    return y;
}

static plan_value join(plan_builder *b, plan_value skip, plan_value x)
{
    const plan_value both[] = {skip, x};
    plan_value y = image_node(b, "join", "concat", both, 2, skip.channels + x.channels, skip.height,
                              skip.wide, 0);
    plan_moves(b, REMAT_COPY, 2 * b->element * numbers(y), 2 * b->element * numbers(y));
    return y;
}

void plan_unet(plan_builder *b)
{
    enum { DEPTH = 4, CLASSES = 2 };
    plan_unit(b, "", 0);
    plan_value x = image_input(b), skips[DEPTH];
    for (uint32_t i = 0; i < DEPTH; i++) {
        plan_unit(b, "down", i);
        skips[i] = two_convs(b, x, 64u << i);
        x = max_pool(b, skips[i], 2, 2);
    }
    plan_unit(b, "bottom", 0);
    x = two_convs(b, x, 64u << DEPTH);
    for (uint32_t i = DEPTH; i-- > 0;) {
        plan_unit(b, "up", i);
        x = up_conv(b, x, 64u << i);
        x = two_convs(b, join(b, skips[i], x), 64u << i);
    }
    plan_unit(b, "", 0);
    x = conv(b, "head", x, CLASSES, 1, 1, true);
    x.width = CLASSES; /* a row for each pixel */
    x.rows = (double)b->settings->batch * x.height * x.wide;
    plan_cross_entropy(b, x);
}
