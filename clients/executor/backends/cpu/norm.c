/* Normalisation over the batch and over rows. */
#include "cpu.h"

#include <math.h>
#include <string.h>

static const float epsilon = 1e-5f;

/* ---- batch normalisation ---- */

typedef struct batch {
    size_t images, channels, pixels;
    const float *x;
} batch;

static batch batch_of(const kernel_call *call)
{
    const net_tensor x = call->node->inputs[0];
    return (batch){x.n, x.c, (size_t)x.h * x.w, call->inputs[0]};
}

static const float *plane_of(const batch *b, const float *x, size_t image, size_t channel)
{
    return x + (image * b->channels + channel) * b->pixels;
}

static void moments(const batch *b, size_t channel, double *ret_mean, double *ret_variance)
{
    double sum = 0, squares = 0, count = (double)b->images * (double)b->pixels;
    for (size_t i = 0; i < b->images; i++)
        sum += (double)cpu_sum(plane_of(b, b->x, i, channel), b->pixels);
    *ret_mean = sum / count;
    for (size_t i = 0; i < b->images; i++)
        squares +=
            (double)cpu_square_distance(plane_of(b, b->x, i, channel), (float)*ret_mean, b->pixels);
    *ret_variance = squares / count;
}

/* y = scale x + shift. */
typedef struct affine {
    float scale, shift;
} affine;

static affine affine_of(const kernel_call *call, size_t channel, float mean, float inverse)
{
    float scale = call->weights[0][channel] * inverse;
    return (affine){scale, call->weights[1][channel] - scale * mean};
}

static kernel_cost batch_norm_cost(const net_node *node, uint32_t alternative)
{
    (void)alternative;
    return (kernel_cost){.saved = 2 * node->output.c * sizeof(float)};
}

static int batch_norm_forward(const kernel_call *call)
{
    const batch b = batch_of(call);
    const float keep = 0.9f; /* of the statistics for use after training */
    const double count = (double)b.images * (double)b.pixels;
    float *statistics = call->state, *saved = call->saved;
    for (size_t c = 0; c < b.channels; c++) {
        double mean, variance;
        moments(&b, c, &mean, &variance);
        float inverse = (float)(1 / sqrt(variance + (double)epsilon));
        const affine a = affine_of(call, c, (float)mean, inverse);
        for (size_t i = 0; i < b.images; i++) {
            const float *x = plane_of(&b, b.x, i, c);
            float *y = (float *)call->output + (x - b.x);
            for (size_t p = 0; p < b.pixels; p++) {
                float value = a.scale * x[p] + a.shift;
                y[p] = call->node->relu && value <= 0 ? 0 : value;
            }
        }
        float unbiased = (float)(count > 1 ? variance * count / (count - 1) : variance);
        statistics[c] = keep * statistics[c] + (1 - keep) * (float)mean;
        statistics[b.channels + c] = keep * statistics[b.channels + c] + (1 - keep) * unbiased;
        if (call->save) {
            saved[c] = (float)mean;
            saved[b.channels + c] = inverse;
        }
    }
    return 0;
}

/* The slope at the output of the affine map: behind a rectifier only where it let through. */
static float slope_at(const kernel_call *call, affine a, float x, float dy)
{
    return call->node->relu && a.scale * x + a.shift <= 0 ? 0 : dy;
}

/* Sums over a channel of the slope and of slope times normalised x. */
static void batch_norm_sums(const kernel_call *call, const batch *b, size_t c, affine a,
                            double *ret_slope, double *ret_product)
{
    enum { LANES = 16 };
    const float *saved = call->saved;
    const float mean = saved[c], inverse = saved[b->channels + c];
    *ret_slope = *ret_product = 0;
    for (size_t i = 0; i < b->images; i++) {
        float slopes[LANES] = {0}, products[LANES] = {0};
        const float *x = plane_of(b, b->x, i, c), *dy = plane_of(b, call->gradient, i, c);
        for (size_t p = 0; p < b->pixels; p += LANES)
            for (size_t l = 0; l < LANES && p + l < b->pixels; l++) {
                float d = slope_at(call, a, x[p + l], dy[p + l]);
                slopes[l] += d;
                products[l] += d * (x[p + l] - mean);
            }
        *ret_slope += (double)cpu_sum(slopes, LANES);
        *ret_product += (double)(cpu_sum(products, LANES) * inverse);
    }
}

static int batch_norm_backward(const kernel_call *call)
{
    const batch b = batch_of(call);
    const double count = (double)b.images * (double)b.pixels;
    const float *saved = call->saved;
    float *dx = call->input_gradients[0];
    for (size_t c = 0; c < b.channels; c++) {
        const float mean = saved[c], inverse = saved[b.channels + c];
        const affine a = affine_of(call, c, mean, inverse);
        double slope, product;
        batch_norm_sums(call, &b, c, a, &slope, &product);
        call->slopes[0][c] += (float)product;
        call->slopes[1][c] += (float)slope;
        const float by_one = (float)(slope / count), by_x = inverse * (float)(product / count);
        for (size_t i = 0; i < b.images && dx; i++) {
            const float *x = plane_of(&b, b.x, i, c), *dy = plane_of(&b, call->gradient, i, c);
            float *to = dx + (x - b.x);
            for (size_t p = 0; p < b.pixels; p++)
                cpu_put(to, p,
                        a.scale * (slope_at(call, a, x[p], dy[p]) - by_one - by_x * (x[p] - mean)),
                        call->accumulate[0]);
        }
    }
    return 0;
}

const kernel cpu_batch_norm = {cpu_one_implementation, batch_norm_cost, batch_norm_forward,
                               batch_norm_backward};

/* ---- layer normalisation: moments are computed again in the backward ---- */

static void row_moments(const float *x, size_t n, float *ret_mean, float *ret_inverse)
{
    *ret_mean = cpu_sum(x, n) / (float)n;
    *ret_inverse = 1 / sqrtf(cpu_square_distance(x, *ret_mean, n) / (float)n + epsilon);
}

static int layer_norm_forward(const kernel_call *call)
{
    const size_t rows = call->node->output.n, n = call->node->output.c;
    const float *scale = call->weights[0], *shift = call->weights[1];
    for (size_t r = 0; r < rows; r++) {
        const float *x = (const float *)call->inputs[0] + r * n;
        float *y = (float *)call->output + r * n, mean, inverse;
        row_moments(x, n, &mean, &inverse);
        for (size_t j = 0; j < n; j++)
            y[j] = scale[j] * ((x[j] - mean) * inverse) + shift[j];
    }
    return 0;
}

static kernel_cost layer_norm_cost(const net_node *node, uint32_t alternative)
{
    (void)alternative;
    return (kernel_cost){.backward_workspace = 2 * node->output.c * sizeof(float)};
}

static int layer_norm_backward(const kernel_call *call)
{
    const size_t rows = call->node->output.n, n = call->node->output.c;
    float *normal = call->workspace, *slope = normal + n, *dx = call->input_gradients[0];
    for (size_t r = 0; r < rows; r++) {
        const float *x = (const float *)call->inputs[0] + r * n, *dy = call->gradient + r * n;
        float mean, inverse;
        row_moments(x, n, &mean, &inverse);
        for (size_t j = 0; j < n; j++) {
            normal[j] = (x[j] - mean) * inverse;
            slope[j] = dy[j] * call->weights[0][j];
            call->slopes[0][j] += dy[j] * normal[j];
            call->slopes[1][j] += dy[j];
        }
        const float by_one = cpu_sum(slope, n) / (float)n;
        const float by_x = cpu_dot(slope, normal, n) / (float)n;
        for (size_t j = 0; j < n && dx; j++)
            cpu_put(dx + r * n, j, inverse * (slope[j] - by_one - normal[j] * by_x),
                    call->accumulate[0]);
    }
    return 0;
}

const kernel cpu_layer_norm = {cpu_one_implementation, layer_norm_cost, layer_norm_forward,
                               layer_norm_backward};
