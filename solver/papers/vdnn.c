/* vDNN (Rhu, Gimelshein, Clemons, Zulfiqar, Keckler, "vDNN: virtualized deep neural networks for
 * scalable, memory-efficient neural network design", 2016).
 *
 * offload-all moves every value that the backward reads (vDNN_all), offload-conv the inputs of
 * convolutions (vDNN_conv). */
#include "start/offload/greedy.h"

#include <stdlib.h>

static remat_status solve_all(const remat_problem *problem, const remat_host *host,
                              const remat_sink *sink, remat_error *error)
{
    (void)host;
    return offload_family(problem, NULL, false, sink, error);
}

static remat_status solve_conv(const remat_problem *problem, const remat_host *host,
                               const remat_sink *sink, remat_error *error)
{
    (void)host;
    bool *moved = NULL;
    remat_status status = offload_mark_convolutions(problem->profile, &moved, error);
    if (!status)
        status = offload_family(problem, moved, false, sink, error);
    free(moved);
    return status;
}

#define VDNN                                                                                       \
    "Rhu, Gimelshein, Clemons, Zulfiqar, Keckler: vDNN: virtualized deep neural networks for "     \
    "scalable, memory-efficient neural network design, 2016, "

#define BOTH                                                                                       \
    .optimal_for = "", .accepts = REMAT_ACCEPTS_ANY_SHAPE | REMAT_BASELINE | REMAT_NEEDS_LINK,     \
    .estimate = offload_family_estimate

const remat_solver remat_solver_offload_all = {
    .name = "offload-all",
    .summary = "Sends every value that the backward reads to the host; computes nothing twice.",
    .source = VDNN "vDNN_all",
    .solve = solve_all,
    BOTH,
};

const remat_solver remat_solver_offload_conv = {
    .name = "offload-conv",
    .summary = "Sends the inputs of convolutions (op contains conv, or is block) to the host.",
    .source = VDNN "vDNN_conv",
    .solve = solve_conv,
    BOTH,
};
