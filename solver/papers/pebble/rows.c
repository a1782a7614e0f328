#include "papers/pebble/rows.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

void pebble_rows_plain_16(uint16_t *result, const pebble_rows_16 *pairs, size_t n_pairs,
                          size_t n_cells)
{
    for (size_t from = 0; from < n_cells; from += PEBBLE_ROWS_BLOCK)
        for (size_t p = 0; p < n_pairs; p++)
            for (size_t c = from; c < from + PEBBLE_ROWS_BLOCK; c++) {
                uint32_t sum = (uint32_t)pairs[p].left[c] + pairs[p].right[c];
                if (sum < result[c])
                    result[c] = (uint16_t)sum;
            }
}

void pebble_rows_min_32(uint32_t *result, const pebble_rows_32 *pairs, size_t n_pairs,
                        size_t n_cells)
{
    for (size_t from = 0; from < n_cells; from += PEBBLE_ROWS_BLOCK)
        for (size_t p = 0; p < n_pairs; p++)
            for (size_t c = from; c < from + PEBBLE_ROWS_BLOCK; c++) {
                uint32_t sum = pairs[p].left[c] + pairs[p].right[c];
                result[c] = sum < result[c] ? sum : result[c];
            }
}

#ifdef __x86_64__
/* SSE2 has no unsigned minimum of 16 bits, but a saturating difference: min(a,b) = a - (a -sat
 * b). */
static void rows_sse2(uint16_t *result, const pebble_rows_16 *pairs, size_t n_pairs, size_t n_cells)
{
    for (size_t from = 0; from < n_cells; from += PEBBLE_ROWS_BLOCK) {
        __m128i best[4];
        for (size_t w = 0; w < 4; w++)
            best[w] = _mm_loadu_si128((const __m128i *)(const void *)(result + from + 8 * w));
        for (size_t p = 0; p < n_pairs; p++) {
            const uint16_t *left = pairs[p].left + from, *right = pairs[p].right + from;
            for (size_t w = 0; w < 4; w++) {
                __m128i sum =
                    _mm_adds_epu16(_mm_loadu_si128((const __m128i *)(const void *)(left + 8 * w)),
                                   _mm_loadu_si128((const __m128i *)(const void *)(right + 8 * w)));
                best[w] = _mm_sub_epi16(best[w], _mm_subs_epu16(best[w], sum));
            }
        }
        for (size_t w = 0; w < 4; w++)
            _mm_storeu_si128((__m128i *)(void *)(result + from + 8 * w), best[w]);
    }
}

__attribute__((target("avx2"))) static void rows_avx2(uint16_t *result, const pebble_rows_16 *pairs,
                                                      size_t n_pairs, size_t n_cells)
{
    for (size_t from = 0; from < n_cells; from += PEBBLE_ROWS_BLOCK) {
        __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)(result + from));
        __m256i high = _mm256_loadu_si256((const __m256i *)(const void *)(result + from + 16));
        for (size_t p = 0; p < n_pairs; p++) {
            const uint16_t *left = pairs[p].left + from, *right = pairs[p].right + from;
            low = _mm256_min_epu16(
                low, _mm256_adds_epu16(_mm256_loadu_si256((const __m256i *)(const void *)left),
                                       _mm256_loadu_si256((const __m256i *)(const void *)right)));
            high = _mm256_min_epu16(
                high,
                _mm256_adds_epu16(_mm256_loadu_si256((const __m256i *)(const void *)(left + 16)),
                                  _mm256_loadu_si256((const __m256i *)(const void *)(right + 16))));
        }
        _mm256_storeu_si256((__m256i *)(void *)(result + from), low);
        _mm256_storeu_si256((__m256i *)(void *)(result + from + 16), high);
    }
}
#endif

pebble_rows_min_16 *pebble_rows_best_16(void)
{
#ifdef __x86_64__
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") ? rows_avx2 : rows_sse2;
#else
    return pebble_rows_plain_16;
#endif
}
