/* A CUDA device that is this process, for tests of the CUDA backend where there is none. It is as
 * unkind as a device may be:
 *
 * - its memory cannot be touched by code of the host: the pages are closed but while it computes;
 * - fresh memory is NaN, and what is written past an allocation ends the process;
 * - streams do nothing before they must; then their operations are taken in an order drawn from a
 *   seed, so that where a wait is missing the numbers come out wrong;
 * - asynchronous copies want pinned memory; those of pageable memory that the runtime stages arrive
 *   late;
 * - operands of the libraries must lie within allocations and may not overlap their result;
 *   workspaces are overwritten from end to end;
 * - the threads of a block and its blocks run in an order drawn from the seed.
 *
 * A program sets it up by its environment, read at the first call:
 *     REMAT_EMULATED_MEMORY   bytes of the device; 4 GiB
 *     REMAT_EMULATED_SEED     of the orders; 1
 *     REMAT_EMULATED_FAULT    number of the call, from 1, from which on all calls fail; 0: none
 *     REMAT_EMULATED_DEVICES  0: none is found; -1: the driver is too old
 * At its end everything must have been given back, or its exit code is 96. */
#ifndef EMULATED_H
#define EMULATED_H

#include "cuda_runtime_api.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- for tests ---- */

typedef struct emulated_settings {
    uint64_t memory, seed, fault;
    int devices;
} emulated_settings;

/* Starts anew; nothing may be left of what was. */
void emulated_start(const emulated_settings *settings);
uint64_t emulated_calls(void); /* since the start */
uint32_t emulated_left(void);  /* things that were made and not given back */

/* ---- private to the emulation ---- */

enum { EMULATED_GARBAGE = 0xff };

/* Counts a call of the libraries; true: it fails. */
bool emulated_fault(void);
uint64_t emulated_random(void);
void emulated_count(int things); /* made, or with -1 given back */

bool emulated_on_device(const void *at, size_t bytes); /* within one allocation */
bool emulated_pinned(const void *at, size_t bytes);

/* While device code runs its memory is open. Nested. */
void emulated_open(void);
void emulated_close(void);
void emulated_check_gaps(void); /* ends the process where something was written past its end */

/* Queues run(a copy of the size bytes at data). */
cudaError_t emulated_queue(cudaStream_t stream, void (*run)(void *data), const void *data,
                           size_t size);
/* Everything that was queued in a stream has been done; NULL: in all of them. */
struct CUstream_st *emulated_stream(cudaStream_t stream);
void emulated_drain(struct CUstream_st *stream);
void emulated_drop_all(void); /* queued work */

/* Ends the process. */
_Noreturn void emulated_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
