/* Which backends this build has. */
#include "backend.h"

#include <string.h>

#ifndef REMAT_CUDA

remat_status cuda_backend(kernel_backend *ret_backend, remat_error *error)
{
    (void)ret_backend;
    return remat_fail(error, REMAT_NOT_FOUND, "backend",
                      "this build has no CUDA backend: install a CUDA toolkit with cuBLAS and "
                      "cuDNN, then meson setup -Dcuda=enabled, which says what it misses");
}

#endif

remat_status backend_find(const char *name, uint32_t threads, kernel_backend *ret_backend,
                          remat_error *error)
{
    if (strcmp(name, "cuda") == 0)
        return cuda_backend(ret_backend, error);
    if (strcmp(name, "cpu") != 0)
        return remat_fail(error, REMAT_NOT_FOUND, "backend",
                          "there is no backend \"%.40s\"; there are cpu and cuda", name);
    return cpu_backend(threads, ret_backend, error);
}
