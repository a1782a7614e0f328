/* The kernel for AVX-512: sixteen slots at a time. */
#include "start/rotor/kernel.h"

#ifdef __x86_64__
#include <immintrin.h>

#define KERNEL_NAME chain_kernel_avx512
#define KERNEL_TARGET __attribute__((target("avx512f,popcnt")))
#define VEC __m512i
#define WIDTH 16
#define LOAD(p) _mm512_loadu_si512((const void *)(p))
#define STORE(p, v) _mm512_storeu_si512((void *)(p), (v))
#define SPLAT(x) _mm512_set1_epi32(x)
#define ADD(a, b) _mm512_add_epi32((a), (b))
#define SUB(a, b) _mm512_sub_epi32((a), (b))
#define MIN(a, b) _mm512_min_epi32((a), (b))
#define BELOW(a, b) ((uint32_t)_mm512_cmplt_epi32_mask((a), (b)))
#define TURN(a, b, n)                                                                              \
    _mm512_mask_mov_epi32(                                                                         \
        (b),                                                                                       \
        _mm512_cmpgt_epi32_mask(                                                                   \
            SPLAT(n), _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)),    \
        (a))
#define OR(a, b) _mm512_or_si512((a), (b))
#define LOAD_SOME(p, from, to)                                                                     \
    _mm512_maskz_loadu_epi32(_mm512_cmpgt_epi32_mask(NUMBERS, SPLAT((from)-1)) &                   \
                                 _mm512_cmpgt_epi32_mask(SPLAT(to), NUMBERS),                      \
                             (p))
#define FIRST(v) _mm_cvtsi128_si32(_mm512_castsi512_si128(v))
#define NUMBERS _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#define PICK(a, b, x, y) _mm512_mask_mov_epi32((y), _mm512_cmplt_epi32_mask((a), (b)), (x))
#define PUT(list, lanes, i)                                                                        \
    STORE((list), _mm512_maskz_compress_epi32((__mmask16)(lanes),                                  \
                                              _mm512_add_epi32(NUMBERS, SPLAT((int32_t)(i)))))
#include "start/rotor/kernel_body.h"
#endif
