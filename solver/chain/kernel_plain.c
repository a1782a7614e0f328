/* The kernel in plain C. */
#include "chain/kernel.h"

#define KERNEL_NAME remat_kernel_plain
#define KERNEL_TARGET
#define VEC int32_t
#define WIDTH 1
#define LOAD(p) (*(p))
#define STORE(p, v) (*(p) = (v))
#define SPLAT(x) ((int32_t)(x))
#define ADD(a, b) ((a) + (b))
#define SUB(a, b) ((a) - (b))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define BELOW(a, b) ((uint32_t)((a) < (b)))
#define LOAD_FROM(p, first) ((first) > 0 ? REMAT_KERNEL_INFINITE : *(p))
#define FIRST(v) (v)
#define PUT_BELOW(list, n, a, b, i) ((list)[n] = (int32_t)(i), (n) += (uint32_t)((a) < (b)))
#include "chain/kernel_body.h"
