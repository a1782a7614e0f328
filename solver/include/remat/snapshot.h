/* Snapshots: what must be saved so that recomputation is right.
 *
 * Source: Dauvergne, Hascoet, "The Data-Flow Equations of Checkpointing in reverse Automatic
 * Differentiation" (2006), equations (3), (4) and (6), corrected where an exhaustive check over all
 * subsets differs: the published solution (6) needs out_Cbar within out_C, and it leaves out one
 * minimal choice (Sbk alone for a variable that is required, not read by Cbar and changed), which
 * is never cheaper.
 *
 * A fragment C is checkpointed, D is everything after it:
 *
 *     PUSH(Sbk); PUSH(Snp); C; [Req_D |- Dbar]; POP(Snp); [Req_C |- Cbar]; POP(Sbk)
 *
 * Sbk and Snp are saved before C; Snp is put back before Cbar, Sbk after it. Req_D and Req_C are
 * what Dbar and Cbar must leave as they found it, by tape. Membership is decided variable by
 * variable; only the bytes couple them. Pure functions, thread-safe; arrays are the caller's. */
#ifndef REMAT_SNAPSHOT_H
#define REMAT_SNAPSHOT_H

#include "remat/status.h"

#include <stdbool.h>
#include <stddef.h>

/* What is given of a variable. */
enum {
    REMAT_REQ = 1,       /* must have at the end the value it had before C */
    REMAT_OUT_C = 2,     /* may be written by the plain run of C */
    REMAT_USE_CBAR = 4,  /* read by Cbar with the value it has on entry of C */
    REMAT_OUT_CBAR = 8,  /* may be changed by Cbar if nothing is required of it */
    REMAT_OUT_DBAR = 16, /* may be changed by Dbar if nothing is required of it */
    REMAT_GIVEN = 31
};

/* What is chosen for a variable. */
enum { REMAT_SBK = 1, REMAT_SNP = 2, REMAT_REQ_D = 4, REMAT_REQ_C = 8, REMAT_CHOSEN = 15 };

/* Sets of the published solution (6). */
enum { REMAT_SNP0 = 1, REMAT_OPT1 = 2, REMAT_OPT2 = 4, REMAT_OPT3 = 8 };

typedef struct remat_variable {
    uint8_t given;           /* REMAT_REQ | .. */
    uint64_t size;           /* bytes of one copy */
    uint64_t tape_D, tape_C; /* bytes that Dbar, Cbar push to preserve it */
} remat_variable;

typedef struct remat_fragment {
    const remat_variable *variables;
    size_t n;
    uint64_t base_D, base_C; /* peak bytes of Dbar and Cbar by themselves */
    bool unshared;           /* a variable in both Sbk and Snp is stored twice */
} remat_fragment;

/* Sums of sizes, tapes and bases stay below 2^53: the caller has checked. */
typedef struct remat_snapshot_cost {
    uint64_t bytes_D; /* during C and Dbar */
    uint64_t bytes_C; /* during Cbar */
    uint64_t peak;    /* the larger of the two */
    uint64_t pushed;  /* traffic */
} remat_snapshot_cost;

/* Whether every variable of out_Cbar is in out_C: what (6) and eager need to be minimal. */
bool remat_snapshot_hypothesis(const remat_fragment *fragment);

/* Sets of (6) that a variable is in. */
uint8_t remat_snapshot_published(uint8_t given);

/* The lazy and the eager choice for a variable. Both are minimal, whatever is given: where (6) is
 * not (see above), eager is the minimal choice next to it. */
uint8_t remat_snapshot_lazy(uint8_t given);
uint8_t remat_snapshot_eager(uint8_t given);

/* All minimal choices for a variable (at most 4); returns how many. A solution is minimal iff each
 * of its variables has one of these. */
size_t remat_snapshot_choices(uint8_t given, uint8_t ret_choices[4]);

/* Number of minimal solutions of a fragment; past 2^53 it is an approximation, at worst INFINITY.
 */
double remat_snapshot_count(const remat_fragment *fragment);

/* The index-th of them (index below their number), one choice per variable. */
void remat_snapshot_solution(const remat_fragment *fragment, uint64_t index, uint8_t *ret_chosen);

/* Conditions (3) and (4) for a variable: bit 1 when (3) is violated, bit 2 when (4) is. */
unsigned remat_snapshot_violations(uint8_t given, uint8_t chosen);

/* Whether no single variable can be taken out of a single set of a valid choice. */
bool remat_snapshot_is_minimal(uint8_t given, uint8_t chosen);

/* Whether (Cbar; Dbar) may change the variable: the same for every minimal choice. */
bool remat_snapshot_out(uint8_t given);

remat_snapshot_cost remat_snapshot_cost_of(const remat_fragment *fragment, const uint8_t *chosen);

/* The cheapest minimal solution: least peak, then least pushed, then least bytes_D + bytes_C, then
 * fewest in Sbk, then fewest in Snp. Merges the variables one by one, keeping the Pareto-minimal
 * sums; where the front passes a limit an even spread of it is kept, and *ret_proven is false.
 * REMAT_NO_MEMORY. */
remat_status remat_snapshot_best(const remat_fragment *fragment, uint8_t *ret_chosen,
                                 remat_snapshot_cost *ret_cost, bool *ret_proven,
                                 remat_error *error);

/* ---- sequences and nests ---- */

/* A part of a sequence: a leaf with its sets (arrays of one byte per variable, not 0: in the set),
 * or a sequence of its own. kill is within out, and use within use_bar. */
typedef struct remat_part {
    const uint8_t *use, *out, *kill, *use_bar, *out_bar; /* of a leaf */
    const struct remat_part *parts;                      /* of a nested sequence, n_parts > 0 */
    size_t n_parts;
} remat_part;

/* One checkpoint of a sequence: every part but the last is one. */
typedef struct remat_checkpoint {
    const size_t *path; /* indices from the outermost sequence inwards */
    size_t depth;
    const uint8_t *given;  /* by variable */
    const uint8_t *chosen; /* by variable */
} remat_checkpoint;

/* Solves every checkpoint of a sequence of n variables, each by choose (lazy, eager), and visits
 * them in order, a nest after its own checkpoint. required: one byte per variable. ret_use and
 * ret_out (n bytes each) get USE(1) and OUT(1) of the whole. The arrays of a checkpoint live during
 * the visit only. */
remat_status remat_sequence_solve(const remat_part *sequence, size_t n, const uint8_t *required,
                                  uint8_t (*choose)(uint8_t given),
                                  void (*visit)(void *context, const remat_checkpoint *checkpoint),
                                  void *context, uint8_t *ret_use, uint8_t *ret_out,
                                  remat_error *error);

#endif
