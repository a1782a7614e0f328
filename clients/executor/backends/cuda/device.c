/* The device: opened and closed, and what its libraries said last. */
#include "cuda.h"

#include "kernels.h"

#include <stdio.h>
#include <string.h>

cuda_device cuda_the_device;

enum { BLAS_WORKSPACE = 32 << 20 }; /* what cuBLAS would take itself on the newest devices */

/* ---- failing ---- */

static char last_fault[160];

static int keep(const char *library, int number, const char *text)
{
    if (number)
        snprintf(last_fault, sizeof last_fault, ": %s: %s", library, text);
    return number;
}

int cuda_check(cudaError_t status)
{
    return keep("CUDA", (int)status, cudaGetErrorString(status));
}

int cuda_check_blas(cublasStatus_t status)
{
    return keep("cuBLAS", (int)status, cublasGetStatusString(status));
}

int cuda_check_dnn(cudnnStatus_t status)
{
    return keep("cuDNN", (int)status, cudnnGetErrorString(status));
}

const char *cuda_last_fault(void)
{
    return last_fault;
}

/* ---- memory ---- */

void *cuda_allocate(uint64_t bytes)
{
    void *memory = NULL;
    size_t left = 0, all = 0;
    cudaError_t status = cudaMalloc(&memory, bytes ? (size_t)bytes : 1);
    if (!status)
        return memory;
    (void)cuda_check(status);
    if (status == cudaErrorMemoryAllocation && !cudaMemGetInfo(&left, &all))
        snprintf(last_fault, sizeof last_fault, ": %zu of its %zu bytes are free", left, all);
    return NULL;
}

int cuda_tell_loss(double *host)
{
    return cuda_check(cudaMemcpyAsync(host, cuda_the_device.loss, sizeof *host,
                                      cudaMemcpyDeviceToHost, cuda_the_device.compute));
}

/* ---- opening ---- */

static int open_streams(cuda_device *d)
{
    cudaStream_t *const streams[] = {&d->compute, &d->out, &d->in};
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        int code = cuda_check(cudaStreamCreateWithFlags(streams[i], cudaStreamNonBlocking));
        if (code)
            return code;
    }
    return cuda_check(cudaEventCreateWithFlags(&d->reached, cudaEventDisableTiming));
}

/* A stream that is set takes the workspace away: it is set first. */
static int open_blas(cuda_device *d)
{
    int code = cuda_check_blas(cublasCreate(&d->blas));
    if (!code)
        code = cuda_check_blas(cublasSetStream(d->blas, d->compute));
    if (!code)
        code = cuda_check_blas(cublasSetWorkspace(d->blas, d->blas_workspace, BLAS_WORKSPACE));
    if (!code)
        code = cuda_check_blas(cublasSetMathMode(d->blas, CUBLAS_PEDANTIC_MATH));
    return code;
}

static int open_dnn(cuda_device *d)
{
    int code = cuda_check_dnn(cudnnCreate(&d->dnn));
    return code ? code : cuda_check_dnn(cudnnSetStream(d->dnn, d->compute));
}

remat_status cuda_device_open(remat_error *error)
{
    cuda_device *d = &cuda_the_device;
    int count = 0, code;
    if (d->compute)
        return remat_fail(error, REMAT_INVALID, "backend", "the CUDA device is open already");
    last_fault[0] = '\0';
    code = cuda_check(cudaGetDeviceCount(&count));
    if (code || count == 0)
        return remat_fail(error, REMAT_NOT_FOUND, "backend", "no CUDA device can be used%s",
                          cuda_last_fault());
    code = cuda_check(cudaSetDevice(0));
    if (!code)
        code = open_streams(d);
    d->blas_workspace = code ? NULL : cuda_allocate(BLAS_WORKSPACE);
    d->loss = d->blas_workspace ? cuda_allocate(sizeof *d->loss) : NULL;
    const bool room = d->loss != NULL;
    if (room)
        code = open_blas(d);
    if (room && !code)
        code = open_dnn(d);
    if (room && !code)
        return REMAT_OK;
    cuda_device_close();
    return remat_fail(error, code ? REMAT_INTERNAL : REMAT_TOO_LARGE, "backend",
                      "the CUDA device cannot be opened%s", cuda_last_fault());
}

/* Whatever has been opened; what cannot be given back is lost with the process. */
void cuda_device_close(void)
{
    cuda_device *d = &cuda_the_device;
    cuda_conv_forget();
    if (d->dnn)
        (void)cudnnDestroy(d->dnn);
    if (d->blas)
        (void)cublasDestroy(d->blas);
    (void)cudaFree(d->loss);
    (void)cudaFree(d->blas_workspace);
    if (d->reached)
        (void)cudaEventDestroy(d->reached);
    cuda_tickets_clear();
    const cudaStream_t streams[] = {d->compute, d->out, d->in};
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        if (streams[i])
            (void)cudaStreamDestroy(streams[i]);
    *d = (cuda_device){0};
}
