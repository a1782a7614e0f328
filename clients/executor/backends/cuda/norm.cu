/* Channels of images: their biases, batch normalisation.
 *
 * A channel is cut into chunks, a block each; what they found is put together, in the order of the
 * chunks, by every block of the next kernel. */
#include "device.cuh"

#include <math.h>

/* ---- a chunk of a channel ---- */

/* Numbers from .. end - 1 of a channel, as if its planes stood one behind the other. */
typedef struct span {
    size_t channel, chunk, from, end;
} span;

static __device__ inline size_t chunk_length(cuda_channels g)
{
    return (g.images * g.pixels + g.chunks - 1) / g.chunks;
}

static __device__ inline span span_of(cuda_channels g, size_t channel, size_t chunk)
{
    const size_t count = g.images * g.pixels, length = chunk_length(g);
    const size_t from = chunk * length, end = from + length;
    span s;
    s.channel = channel;
    s.chunk = chunk;
    s.from = from < count ? from : count;
    s.end = end < count ? end : count;
    return s;
}

static __device__ inline span span_of_block(cuda_channels g)
{
    return span_of(g, blockIdx.x % g.channels, blockIdx.x / g.channels);
}

/* The geometry in fours, or in ones. */
template <class unit> static __device__ inline cuda_channels in_units(cuda_channels g)
{
    g.pixels /= sizeof(unit) / sizeof(float);
    return g;
}

static bool in_fours(cuda_channels g)
{
    return g.pixels % 4 == 0;
}

/* Threads go through a span side by side; `at` is the place in memory. */
typedef struct channel_walk {
    size_t element, end, at, column;
    size_t on, columns_on, wrap, width;
} channel_walk;

static __device__ inline channel_walk walk_span(cuda_channels g, span s)
{
    const walk first = walk_from(s.from + threadIdx.x, CUDA_THREADS, g.pixels);
    channel_walk w;
    w.element = s.from + threadIdx.x;
    w.end = s.end;
    w.at = (first.row * g.channels + s.channel) * g.pixels + first.column;
    w.column = first.column;
    w.on = first.rows_on * g.channels * g.pixels + first.columns_on;
    w.columns_on = first.columns_on;
    w.wrap = (g.channels - 1) * g.pixels;
    w.width = g.pixels;
    return w;
}

static __device__ inline void walk_on(channel_walk *w)
{
    w->element += CUDA_THREADS;
    w->at += w->on;
    w->column += w->columns_on;
    if (w->column >= w->width) {
        w->column -= w->width;
        w->at += w->wrap;
    }
}

/* The sum over chunks of one of two numbers that each has left for a channel. */
static __device__ inline double sum_of_chunks(cuda_channels g, const double *left, size_t channel,
                                              unsigned which)
{
    double own = 0;
    for (size_t k = threadIdx.x; k < g.chunks; k += CUDA_THREADS)
        own += left[2 * (k * g.channels + channel) + which];
    return block_sum_double(own);
}

/* ---- biases ---- */

/* Moves 8 bytes a number. */
template <class unit>
static __global__ void add_channel_bias(unit *y, const float *bias, cuda_channels all)
{
    const cuda_channels g = in_units<unit>(all);
    const span s = span_of_block(g);
    const float own = bias[s.channel];
    for (channel_walk w = walk_span(g, s); w.element < w.end; walk_on(&w)) {
        unit v = y[w.at];
        for (unsigned l = 0; l < sizeof(unit) / sizeof(float); l++)
            v.at[l] += own;
        y[w.at] = v;
    }
}

extern "C" int cuda_add_channel_bias(cudaStream_t stream, float *y, const float *bias,
                                     cuda_channels g)
{
    const size_t blocks = g.channels * g.chunks;
    return in_fours(g) ? CUDA_LAUNCH(add_channel_bias<four>, blocks, CUDA_THREADS, stream,
                                     (four *)y, bias, g)
                       : CUDA_LAUNCH(add_channel_bias<one>, blocks, CUDA_THREADS, stream, (one *)y,
                                     bias, g);
}

/* Moves 4 bytes a number. */
template <class unit>
static __global__ void channel_sums(const unit *dy, cuda_channels all, double *left)
{
    const cuda_channels g = in_units<unit>(all);
    const span s = span_of_block(g);
    float sum = 0;
    for (channel_walk w = walk_span(g, s); w.element < w.end; walk_on(&w)) {
        const unit d = dy[w.at];
        for (unsigned l = 0; l < sizeof(unit) / sizeof(float); l++)
            sum += d.at[l];
    }
    const double total = block_sum_double((double)sum);
    if (threadIdx.x == 0)
        left[2 * (s.chunk * g.channels + s.channel)] = total;
}

static __global__ void add_channel_sums(cuda_channels g, const double *left, float *slope)
{
    const double total = sum_of_chunks(g, left, blockIdx.x, 0);
    if (threadIdx.x == 0)
        slope[blockIdx.x] += (float)total;
}

extern "C" int cuda_channel_sums(cudaStream_t stream, const float *dy, cuda_channels g,
                                 double *left, float *slope)
{
    const size_t blocks = g.channels * g.chunks;
    int code = in_fours(g) ? CUDA_LAUNCH(channel_sums<four>, blocks, CUDA_THREADS, stream,
                                         (const four *)dy, g, left)
                           : CUDA_LAUNCH(channel_sums<one>, blocks, CUDA_THREADS, stream,
                                         (const one *)dy, g, left);
    return code ? code
                : CUDA_LAUNCH(add_channel_sums, g.channels, CUDA_THREADS, stream, g, left, slope);
}

/* ---- batch normalisation ---- */

/* Mean and sum of squared distances from it of so many numbers. */
typedef struct moments {
    float count, mean, squares;
} moments;

enum { TAKEN = 16 }; /* numbers a thread holds at a time */

/* Moments of two sets together: Chan, Golub, LeVeque 1983. */
static __device__ inline moments with_taken(moments m, const float v[TAKEN], int n)
{
    float sum = 0, squares = 0;
    for (int k = 0; k < TAKEN; k++)
        sum += v[k];
    const float mean = sum / (float)n, total = m.count + (float)n, apart = mean - m.mean;
    for (int k = 0; k < TAKEN; k++)
        squares += k < n ? (v[k] - mean) * (v[k] - mean) : 0;
    m.squares += squares + apart * apart * (m.count * (float)n / total);
    m.mean += apart * ((float)n / total);
    m.count = total;
    return m;
}

/* Leaves the mean and the sum of squares of each chunk. Reads x once: 4 bytes a number. */
static __global__ void batch_norm_moments(const float *x, cuda_channels g, double *left)
{
    const span s = span_of_block(g);
    moments m = {0, 0, 0};
    for (channel_walk w = walk_span(g, s); w.element < w.end;) {
        float v[TAKEN];
        int n = 0;
        for (int k = 0; k < TAKEN; k++, walk_on(&w)) {
            v[k] = w.element < w.end ? x[w.at] : 0;
            n += w.element < w.end ? 1 : 0;
        }
        m = with_taken(m, v, n);
    }
    const double count = s.end > s.from ? (double)(s.end - s.from) : 1;
    const double mean = block_sum_double((double)m.count * m.mean) / count;
    const double apart = m.mean - mean;
    const double squares = block_sum_double(m.squares + m.count * apart * apart);
    if (threadIdx.x == 0) {
        left[2 * (s.chunk * g.channels + s.channel)] = mean;
        left[2 * (s.chunk * g.channels + s.channel) + 1] = squares;
    }
}

static __device__ inline void whole_moments(cuda_channels g, const double *left, size_t channel,
                                            double *ret_mean, double *ret_variance)
{
    const double count = (double)g.images * (double)g.pixels;
    double sum = 0, squares = 0;
    for (size_t k = threadIdx.x; k < g.chunks; k += CUDA_THREADS) {
        const span s = span_of(g, channel, k);
        sum += (double)(s.end - s.from) * left[2 * (k * g.channels + channel)];
    }
    const double mean = block_sum_double(sum) / count;
    for (size_t k = threadIdx.x; k < g.chunks; k += CUDA_THREADS) {
        const span s = span_of(g, channel, k);
        const double *own = left + 2 * (k * g.channels + channel), apart = own[0] - mean;
        squares += own[1] + (double)(s.end - s.from) * apart * apart;
    }
    *ret_mean = mean;
    *ret_variance = block_sum_double(squares) / count;
}

/* y = scale x + shift. Forward and backward compute it alike: the backward asks again where the
 * rectifier let through. */
typedef struct affine {
    float scale, shift;
} affine;

static __device__ inline affine affine_of(float weight, float bias, float mean, float inverse)
{
    affine a;
    a.scale = weight * inverse;
    a.shift = fmaf(-a.scale, mean, bias);
    return a;
}

static __device__ inline float apply(affine a, float x)
{
    return fmaf(a.scale, x, a.shift);
}

static __device__ inline void keep_moments(const cuda_batch_norm_call *c, size_t channel,
                                           double mean, double variance, float inverse)
{
    const float keep = 0.9f; /* of the statistics for use after training */
    const size_t channels = c->g.channels;
    const double count = (double)c->g.images * (double)c->g.pixels;
    const float unbiased = (float)(count > 1 ? variance * count / (count - 1) : variance);
    float *statistics = c->statistics + channel;
    statistics[0] = keep * statistics[0] + (1 - keep) * (float)mean;
    statistics[channels] = keep * statistics[channels] + (1 - keep) * unbiased;
    if (c->saved) {
        c->saved[channel] = (float)mean;
        c->saved[channels + channel] = inverse;
    }
}

/* Moves 8 bytes a number. y may be x. */
template <class unit>
static __global__ void batch_norm_forward(cuda_batch_norm_call c, const unit *x, const double *left,
                                          unit *y)
{
    const cuda_channels g = in_units<unit>(c.g);
    const span s = span_of_block(g);
    double mean, variance;
    whole_moments(c.g, left, s.channel, &mean, &variance);
    const float inverse = (float)(1 / sqrt(variance + (double)CUDA_NORM_EPSILON));
    const affine a = affine_of(c.scale[s.channel], c.shift[s.channel], (float)mean, inverse);
    for (channel_walk w = walk_span(g, s); w.element < w.end; walk_on(&w)) {
        unit v = x[w.at];
        for (unsigned l = 0; l < sizeof(unit) / sizeof(float); l++) {
            const float value = apply(a, v.at[l]);
            v.at[l] = c.relu && value <= 0 ? 0 : value;
        }
        y[w.at] = v;
    }
    if (s.chunk == 0 && threadIdx.x == 0)
        keep_moments(&c, s.channel, mean, variance, inverse);
}

extern "C" int cuda_batch_norm_forward(cudaStream_t stream, const cuda_batch_norm_call *c,
                                       double *left, float *y)
{
    const size_t blocks = c->g.channels * c->g.chunks;
    int code = CUDA_LAUNCH(batch_norm_moments, blocks, CUDA_THREADS, stream, c->x, c->g, left);
    if (code)
        return code;
    return in_fours(c->g) ? CUDA_LAUNCH(batch_norm_forward<four>, blocks, CUDA_THREADS, stream, *c,
                                        (const four *)c->x, left, (four *)y)
                          : CUDA_LAUNCH(batch_norm_forward<one>, blocks, CUDA_THREADS, stream, *c,
                                        (const one *)c->x, left, (one *)y);
}

/* What the backward knows of a channel. */
typedef struct normal {
    float mean, inverse;
    affine map;
    bool relu;
} normal;

static __device__ inline normal normal_of(const cuda_batch_norm_call *c, size_t channel)
{
    normal n;
    n.mean = c->saved[channel];
    n.inverse = c->saved[c->g.channels + channel];
    n.map = affine_of(c->scale[channel], c->shift[channel], n.mean, n.inverse);
    n.relu = c->relu;
    return n;
}

/* The slope at the output of the affine map: behind a rectifier only where it let through. */
static __device__ inline float slope_at(normal n, float x, float dy)
{
    return n.relu && apply(n.map, x) <= 0 ? 0 : dy;
}

/* Leaves the sums of the slope and of slope times x from its mean. Moves 8 bytes a number. */
template <class unit>
static __global__ void batch_norm_sums(cuda_batch_norm_call c, const unit *x, const unit *dy,
                                       double *left)
{
    const cuda_channels g = in_units<unit>(c.g);
    const span s = span_of_block(g);
    const normal n = normal_of(&c, s.channel);
    float slopes = 0, products = 0;
    for (channel_walk w = walk_span(g, s); w.element < w.end; walk_on(&w)) {
        const unit v = x[w.at], d = dy[w.at];
        for (unsigned l = 0; l < sizeof(unit) / sizeof(float); l++) {
            const float slope = slope_at(n, v.at[l], d.at[l]);
            slopes += slope;
            products += slope * (v.at[l] - n.mean);
        }
    }
    const double slope = block_sum_double((double)slopes);
    const double product = block_sum_double((double)products);
    if (threadIdx.x == 0) {
        left[2 * (s.chunk * g.channels + s.channel)] = slope;
        left[2 * (s.chunk * g.channels + s.channel) + 1] = product;
    }
}

/* Moves 12 bytes a number. dx may be dy, or NULL. */
template <class unit>
static __global__ void batch_norm_backward(cuda_batch_norm_call c, const unit *x, const unit *dy,
                                           const double *left, cuda_norm_slopes slopes, unit *dx,
                                           bool accumulate)
{
    const cuda_channels g = in_units<unit>(c.g);
    const span s = span_of_block(g);
    const normal n = normal_of(&c, s.channel);
    const double count = (double)c.g.images * (double)c.g.pixels;
    const double slope = sum_of_chunks(g, left, s.channel, 0);
    const double product = sum_of_chunks(g, left, s.channel, 1) * (double)n.inverse;
    if (s.chunk == 0 && threadIdx.x == 0) {
        slopes.scale[s.channel] += (float)product;
        slopes.shift[s.channel] += (float)slope;
    }
    if (!dx)
        return;
    const float by_one = (float)(slope / count), by_x = n.inverse * (float)(product / count);
    for (channel_walk w = walk_span(g, s); w.element < w.end; walk_on(&w)) {
        const unit v = x[w.at], d = dy[w.at];
        unit share;
        for (unsigned l = 0; l < sizeof(unit) / sizeof(float); l++)
            share.at[l] =
                n.map.scale * (slope_at(n, v.at[l], d.at[l]) - by_one - by_x * (v.at[l] - n.mean));
        put_unit(dx + w.at, share, accumulate);
    }
}

template <class unit>
static int launch_backward(cudaStream_t stream, const cuda_batch_norm_call *c, const unit *dy,
                           double *left, cuda_norm_slopes slopes, unit *dx, bool accumulate)
{
    const size_t blocks = c->g.channels * c->g.chunks;
    const unit *x = (const unit *)c->x;
    int code = CUDA_LAUNCH(batch_norm_sums<unit>, blocks, CUDA_THREADS, stream, *c, x, dy, left);
    return code ? code
                : CUDA_LAUNCH(batch_norm_backward<unit>, blocks, CUDA_THREADS, stream, *c, x, dy,
                              left, slopes, dx, accumulate);
}

extern "C" int cuda_batch_norm_backward(cudaStream_t stream, const cuda_batch_norm_call *c,
                                        const float *dy, double *left, cuda_norm_slopes slopes,
                                        float *dx, bool accumulate)
{
    return in_fours(c->g)
               ? launch_backward(stream, c, (const four *)dy, left, slopes, (four *)dx, accumulate)
               : launch_backward(stream, c, (const one *)dy, left, slopes, (one *)dx, accumulate);
}
