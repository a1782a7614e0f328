/* The kernel in plain C. */
#include "start/rotor/kernel.h"

#define KERNEL_NAME chain_kernel_plain
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
#define TURN(a, b, n) ((n) > 0 ? (a) : (b))
#define OR(a, b) ((a) | (b))
#define LOAD_SOME(p, from, to) ((from) <= 0 && (to) > 0 ? *(p) : 0)
#define FIRST(v) (v)
#define NUMBERS 0
#define PICK(a, b, x, y) ((a) < (b) ? (x) : (y))
#define PUT(list, lanes, i) ((list)[0] = (int32_t)(i))
#include "start/rotor/kernel_body.h"
