/* How the planner plays. The judge has none of this. */
#ifndef REMAT_PIPELINE_PRIVATE_H
#define REMAT_PIPELINE_PRIVATE_H

#include "remat/pipeline.h"

/* The step of stages with one chunk a rank; memory[rank]: at most, told of a step below `most`
 * alone. INFINITY: out of memory. */
double pipeline_step(const remat_pipeline *p, const remat_pipeline_stage *stages, double most,
                     uint64_t *memory);
/* Whether there is such a question of 1F1B or gpipe. */
remat_status pipeline_check_question(const remat_pipeline_question *question, remat_error *error);
/* Bytes of a rank with so many alive while a pass runs, without those on their way. */
uint64_t pipeline_bytes(const remat_pipeline *p, uint32_t rank, uint32_t alive,
                        const remat_pipeline_stage *stage);

#endif
