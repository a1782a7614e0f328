/* Private to the CUDA backend: the device and what its kernels share.
 *
 * Everything is enqueued on the compute stream and computed in float32, without TF32 and without
 * sums whose order may change: cuBLAS in pedantic mode with a workspace of its own, cuDNN with
 * CUDNN_FMA_MATH and its deterministic algorithms only. The same call gives the same bits.
 *
 * One device, one thread. Never run on a device yet: it compiles against the toolkit and runs under
 * the emulation of tests/cuda. */
#ifndef REMAT_EXECUTOR_CUDA_H
#define REMAT_EXECUTOR_CUDA_H

#include "backend.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

typedef struct cuda_device {
    cudaStream_t compute, out, in; /* out, in: copies to and from the host */
    cudaEvent_t reached;           /* what the copy streams wait for */
    cublasHandle_t blas;           /* on the compute stream */
    cudnnHandle_t dnn;             /* on the compute stream */
    void *blas_workspace;
    double
        *loss; /* one number of the device: kernels of losses write it, cuda_tell_loss reads it */
} cuda_device;

extern cuda_device cuda_the_device; /* open while a backend that was found is used */

extern const kernel cuda_conv, cuda_up_conv, cuda_linear, cuda_batch_norm, cuda_layer_norm,
    cuda_relu, cuda_gelu, cuda_max_pool, cuda_average_pool, cuda_add, cuda_concat, cuda_embedding,
    cuda_attention, cuda_dropout, cuda_lstm, cuda_cross_entropy, cuda_triplet, cuda_contrastive;

/* Opens the first device. REMAT_NOT_FOUND: there is none, or no driver for it; REMAT_TOO_LARGE: its
 * memory is taken. */
remat_status cuda_device_open(remat_error *error);
void cuda_device_close(void);
void cuda_tickets_clear(void);

/* NULL: there is not so much; the fault says how much is free. */
void *cuda_allocate(uint64_t bytes);

/* From a library's status to the number of the vtables: 0 or not. The text is kept. */
int cuda_check(cudaError_t status);
int cuda_check_blas(cublasStatus_t status);
int cuda_check_dnn(cudnnStatus_t status);

/* What the last failing call said, after a colon; "" if none has failed. */
const char *cuda_last_fault(void);

/* Enqueues the copy of cuda_the_device.loss to a loss on the host, which is pinned. */
int cuda_tell_loss(double *host);

#endif
