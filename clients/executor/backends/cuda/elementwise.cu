/* Number by number: rectifiers, sums, dropout, the update. A thread takes four numbers at a time,
 * of rectifiers eight: one byte of what is saved. */
#include "device.cuh"

/* ---- rectifiers ---- */

/* Moves 8 bytes a number and 1/8; bits: NULL where nothing is saved. */
static __global__ void relu_forward(const float *x, float *y, uint8_t *bits, size_t n)
{
    for (size_t i = 8 * grid_thread(); i < n; i += 8 * grid_threads()) {
        unsigned positive = 0;
        for (unsigned k = 0; k < 8; k += 4) {
            four v = load_four(x, i + k, n);
            for (unsigned l = 0; l < 4; l++) {
                positive |= (v.at[l] > 0 ? 1u : 0u) << (k + l);
                v.at[l] = v.at[l] > 0 ? v.at[l] : 0;
            }
            put_four(y, i + k, n, v, false);
        }
        if (bits)
            bits[i / 8] = (uint8_t)positive;
    }
}

extern "C" int cuda_relu_forward(cudaStream_t stream, const float *x, float *y, uint8_t *bits,
                                 size_t n)
{
    return CUDA_LAUNCH(relu_forward, cuda_blocks((n + 7) / 8), CUDA_THREADS, stream, x, y, bits, n);
}

static __global__ void relu_backward(const uint8_t *bits, const float *dy, float *dx, size_t n,
                                     bool accumulate)
{
    for (size_t i = 8 * grid_thread(); i < n; i += 8 * grid_threads()) {
        const unsigned positive = bits[i / 8];
        for (unsigned k = 0; k < 8; k += 4) {
            four d = load_four(dy, i + k, n);
            for (unsigned l = 0; l < 4; l++)
                d.at[l] = positive >> (k + l) & 1 ? d.at[l] : 0;
            put_four(dx, i + k, n, d, accumulate);
        }
    }
}

extern "C" int cuda_relu_backward(cudaStream_t stream, const uint8_t *bits, const float *dy,
                                  float *dx, size_t n, bool accumulate)
{
    return CUDA_LAUNCH(relu_backward, cuda_blocks((n + 7) / 8), CUDA_THREADS, stream, bits, dy, dx,
                       n, accumulate);
}

/* x times the logistic function of 2u, which is (1 + tanh u) / 2. */
static __device__ inline float gelu_logistic(float x)
{
    return 1 / (1 + expf(-2 * 0.7978845608f * (x + 0.044715f * x * x * x)));
}

static __global__ void gelu_forward(const float *x, float *y, size_t n)
{
    for (size_t i = 4 * grid_thread(); i < n; i += 4 * grid_threads()) {
        four v = load_four(x, i, n);
        for (unsigned l = 0; l < 4; l++)
            v.at[l] *= gelu_logistic(v.at[l]);
        put_four(y, i, n, v, false);
    }
}

extern "C" int cuda_gelu_forward(cudaStream_t stream, const float *x, float *y, size_t n)
{
    return CUDA_LAUNCH(gelu_forward, cuda_blocks((n + 3) / 4), CUDA_THREADS, stream, x, y, n);
}

static __global__ void gelu_backward(const float *x, const float *dy, float *dx, size_t n,
                                     bool accumulate)
{
    for (size_t i = 4 * grid_thread(); i < n; i += 4 * grid_threads()) {
        const four v = load_four(x, i, n);
        four d = load_four(dy, i, n);
        for (unsigned l = 0; l < 4; l++) {
            const float z = v.at[l], s = gelu_logistic(z), inner = 1 + 3 * 0.044715f * z * z;
            d.at[l] *= s + z * s * (1 - s) * 2 * 0.7978845608f * inner;
        }
        put_four(dx, i, n, d, accumulate);
    }
}

extern "C" int cuda_gelu_backward(cudaStream_t stream, const float *x, const float *dy, float *dx,
                                  size_t n, bool accumulate)
{
    return CUDA_LAUNCH(gelu_backward, cuda_blocks((n + 3) / 4), CUDA_THREADS, stream, x, dy, dx, n,
                       accumulate);
}

/* ---- sums ---- */

static __global__ void add_forward(const float *a, const float *b, float *y, size_t n, bool relu)
{
    for (size_t i = 4 * grid_thread(); i < n; i += 4 * grid_threads()) {
        four sum = load_four(a, i, n);
        const four other = load_four(b, i, n);
        for (unsigned l = 0; l < 4; l++) {
            sum.at[l] += other.at[l];
            sum.at[l] = relu && sum.at[l] <= 0 ? 0 : sum.at[l];
        }
        put_four(y, i, n, sum, false);
    }
}

extern "C" int cuda_add_forward(cudaStream_t stream, const float *a, const float *b, float *y,
                                size_t n, bool relu)
{
    return CUDA_LAUNCH(add_forward, cuda_blocks((n + 3) / 4), CUDA_THREADS, stream, a, b, y, n,
                       relu);
}

/* da may be dy. y: of a sum with a rectifier, else NULL. */
static __global__ void add_backward(const float *y, const float *dy, float *da, float *db, size_t n,
                                    bool add_to_a, bool add_to_b)
{
    for (size_t i = 4 * grid_thread(); i < n; i += 4 * grid_threads()) {
        four d = load_four(dy, i, n);
        if (y) {
            const four shown = load_four(y, i, n);
            for (unsigned l = 0; l < 4; l++)
                d.at[l] = shown.at[l] <= 0 ? 0 : d.at[l];
        }
        if (db)
            put_four(db, i, n, d, add_to_b);
        if (da)
            put_four(da, i, n, d, add_to_a);
    }
}

extern "C" int cuda_add_backward(cudaStream_t stream, const float *y, const float *dy, float *da,
                                 float *db, size_t n, bool add_to_a, bool add_to_b)
{
    return CUDA_LAUNCH(add_backward, cuda_blocks((n + 3) / 4), CUDA_THREADS, stream, y, dy, da, db,
                       n, add_to_a, add_to_b);
}

/* ---- dropout ---- */

/* The state of the generator, and what a forward saves of it. */
typedef struct generator {
    uint64_t seed, counter; /* counter: blocks of four numbers drawn */
} generator;

/* Philox4x32-10: Salmon, Moraes, Dror, Shaw 2011, Parallel random numbers: as easy as 1, 2, 3. */
static __device__ inline void philox(uint64_t seed, uint64_t counter, uint32_t c[4])
{
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    c[0] = (uint32_t)counter;
    c[1] = (uint32_t)(counter >> 32);
    c[2] = c[3] = 0;
    for (int round = 0; round < 10; round++) {
        const uint32_t a = 0xD2511F53u, b = 0xCD9E8D57u, c0 = c[0], c2 = c[2];
        c[0] = __umulhi(b, c2) ^ c[1] ^ k0;
        c[1] = b * c2;
        c[2] = __umulhi(a, c0) ^ c[3] ^ k1;
        c[3] = a * c0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/* x times 0 where a number is below `least`, else times scale. */
static __global__ void dropout(const generator *g, const float *x, float *to, size_t n,
                               uint32_t least, float scale, bool accumulate)
{
    const generator own = *g;
    for (size_t i = 4 * grid_thread(); i < n; i += 4 * grid_threads()) {
        uint32_t numbers[4];
        four v = load_four(x, i, n);
        philox(own.seed, own.counter + i / 4, numbers);
        for (unsigned l = 0; l < 4; l++)
            v.at[l] = numbers[l] < least ? 0 : v.at[l] * scale;
        put_four(to, i, n, v, accumulate);
    }
}

extern "C" int cuda_drop(cudaStream_t stream, const void *generator_at, const float *x, float *to,
                         size_t n, float probability, bool accumulate)
{
    const uint32_t least = (uint32_t)((double)probability * 4294967296.0);
    return CUDA_LAUNCH(dropout, cuda_blocks((n + 3) / 4), CUDA_THREADS, stream,
                       (const generator *)generator_at, x, to, n, least, 1 / (1 - probability),
                       accumulate);
}

static __global__ void advance(generator *g, generator *saved, uint64_t blocks)
{
    if (saved)
        *saved = *g;
    g->counter += blocks;
}

extern "C" int cuda_advance(cudaStream_t stream, void *generator_at, void *saved, size_t n)
{
    return CUDA_LAUNCH(advance, 1, 1, stream, (generator *)generator_at, (generator *)saved,
                       (uint64_t)((n + 3) / 4));
}

/* ---- parameters ---- */

/* Parameters may begin anywhere: one number at a time. Moves 20 bytes a number. */
static __global__ void update(float *weights, float *velocity, const float *slopes, size_t count,
                              uint32_t lanes, float rate, float momentum)
{
    for (size_t i = grid_thread(); i < count; i += grid_threads()) {
        float slope = slopes[i];
        for (uint32_t lane = 1; lane < lanes; lane++)
            slope += slopes[lane * count + i];
        const float v = momentum * velocity[i] + slope;
        velocity[i] = v;
        weights[i] -= rate * v;
    }
}

extern "C" int cuda_update(cudaStream_t stream, float *weights, float *velocity,
                           const float *slopes, size_t count, uint32_t lanes, float rate,
                           float momentum)
{
    return CUDA_LAUNCH(update, cuda_blocks(count), CUDA_THREADS, stream, weights, velocity, slopes,
                       count, lanes, rate, momentum);
}
