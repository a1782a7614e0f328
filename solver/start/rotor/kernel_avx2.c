/* The kernel for AVX2: eight slots at a time. */
#include "start/rotor/kernel.h"

#ifdef __x86_64__
#include <immintrin.h>

/* The numbers of the lanes in a set of lanes, packed into bytes from the lowest on. */
__attribute__((target("avx2,bmi2,popcnt"))) static inline __m128i lanes_of(uint32_t set)
{
    uint64_t bytes = _pdep_u64(set, UINT64_C(0x0101010101010101)) * 0xff;
    return _mm_cvtsi64_si128((int64_t)_pext_u64(UINT64_C(0x0706050403020100), bytes));
}

#define KERNEL_NAME chain_kernel_avx2
#define KERNEL_TARGET __attribute__((target("avx2,bmi2,popcnt")))
#define VEC __m256i
#define WIDTH 8
#define LOAD(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define STORE(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), (v))
#define SPLAT(x) _mm256_set1_epi32(x)
#define ADD(a, b) _mm256_add_epi32((a), (b))
#define SUB(a, b) _mm256_sub_epi32((a), (b))
#define MIN(a, b) _mm256_min_epi32((a), (b))
#define BELOW(a, b)                                                                                \
    ((uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32((b), (a)))))
#define TURN(a, b, n)                                                                              \
    _mm256_blendv_epi8((b), (a),                                                                   \
                       _mm256_cmpgt_epi32(SPLAT(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)))
#define OR(a, b) _mm256_or_si256((a), (b))
#define LOAD_SOME(p, from, to)                                                                     \
    _mm256_maskload_epi32((p), _mm256_and_si256(_mm256_cmpgt_epi32(NUMBERS, SPLAT((from)-1)),      \
                                                _mm256_cmpgt_epi32(SPLAT(to), NUMBERS)))
#define FIRST(v) _mm256_cvtsi256_si32(v)
#define NUMBERS _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)
#define PICK(a, b, x, y) _mm256_blendv_epi8((y), (x), _mm256_cmpgt_epi32((b), (a)))
#define PUT(list, lanes, i)                                                                        \
    STORE((list), _mm256_add_epi32(_mm256_cvtepu8_epi32(lanes_of(lanes)), SPLAT((int32_t)(i))))
#include "start/rotor/kernel_body.h"
#endif
