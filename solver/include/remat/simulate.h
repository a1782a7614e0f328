/* The judge. One function replays an operation list on a profile; it shares no code with any
 * solver, and no schedule leaves the service that it has not replayed.
 *
 * Memory counts, in bytes: graph inputs (resident), every out(v), saved(v) and gradient alive, the
 * workspace of the running operation, saved versions of states. Before the list starts the graph
 * inputs are there and nothing else. Operations run in order on one compute stream.
 *
 * F, A and B take times, workspaces and saved bytes of the implementation they name.
 *
 *   F v   needs the outputs of v's inputs; out(v) must not be alive. Allocates out(v), and
 *         forward_workspace_bytes during it. Reads and writes v's states.
 *   A v   the same with saved(v) and save_workspace_bytes; saved(v) must not be alive.
 *   B v   once per node, after an F or A of it and the B of all consumers. Needs saved(v), made by
 *         an A of the same implementation, when saved_bytes > 0, the inputs' values when
 *         backward_uses_inputs, out(v) when backward_uses_output. Allocates the gradient of each
 *         input that has none yet (graph inputs: when gradient_bytes > 0), else accumulates into
 *         it; backward_workspace_bytes during it; then frees grad(v) and saved(v). The loss's own
 *         gradient is alive from the start of B loss. Gradients of graph inputs stay.
 *   D x   x alive; frees it. Waits for a copy of x under way. A graph input only after an O of it.
 *   O x   x alive; queues a copy to the host on the copy stream, which runs beside compute. The
 *         host copy stays to the end of the step.
 *   P x   x not alive, host copy there; allocates x and queues the copy back. The copy waits for
 *         the O to end; the first operation that needs x waits for it.
 *         saved(v) is afterwards what the implementation saved whose copy it is; an O of saved
 *         values of another implementation than the copy there makes a copy of its own, the one P
 *         fetches. Of a node that is pinned with `keep` out(v) is never fetched back.
 *   S k n state k holds version n, which is not saved; adds the state's bytes until the last R of
 *         it in the list.
 *   R k n version n of state k is saved; the state holds it afterwards.
 *
 * The forward of a pinned node (recompute never, or keep) runs exactly once.
 *
 * Of a joint graph there are no A, B and saved values. F v allocates every result of v, none of
 * which may be alive; D, O and P act on one result. Every node runs at least once, and at the end
 * the outputs of the profile must be alive.
 *
 * An operation's inputs and outputs coexist, with one exception: where a node is in_place and the
 * output of its first input is read by nothing later in the list (nor must be there at its end), F
 * overwrites it (during F the two
 * count as the larger of them, and the bytes of the input are gone afterwards; a later D of it
 * frees nothing). Likewise B of an in_place node overwrites its gradient by that of its first
 * input, if that one starts there. What is overwritten or freed by F or B waits for a copy of it
 * under way, like D. A node's forward must see each state it reads at the version that the plain
 * forward pass shows it, and at the end every state must hold the version that the plain pass
 * leaves. Transfers of one direction run one after the other (both directions when the link is
 * shared). makespan is the end of the last operation on the compute stream, waits included; of a
 * joint graph not before its outputs that come back from the host are there.
 *
 * The turn. In a pipeline of ranks several micro-batches are in flight on one rank: each has run
 * its forward and waits for its gradient. What one of them holds then counts for each; what it
 * needs besides while it runs counts once (remat_put_in_flight). Of a forward graph the turn is
 * right after the first F or A of the last node and the D and X that follow it at once. Of a joint
 * graph it is right before the first F that reads an input that is `late`; the late inputs come
 * then, and are not there, nor held, before. What is sent comes before what is received: outputs of
 * the profile that depend on no late input have been made by then. What is made again between the
 * turn and the first B is not held. */
#ifndef REMAT_SIMULATE_H
#define REMAT_SIMULATE_H

#include "remat/schedule.h"

/* The way to the host: bytes per unit of the profile's time, each way, and a fixed time per
 * transfer. */
typedef struct remat_link {
    double to_host, to_device;
    double latency;
    bool shared; /* both directions share the bandwidth: one transfer at a time */
} remat_link;

/* What happened at one operation. */
typedef struct remat_moment {
    double start, end;      /* on the compute stream; for O and P of their copy on its stream */
    uint64_t memory_during; /* bytes at the operation's own peak */
    uint64_t memory_after;
} remat_moment;

typedef struct remat_simulation {
    bool valid;
    size_t bad_operation; /* when invalid: index of the first bad one; length of the list when the
                             fault is what the list leaves undone */
    char reason[512];     /* when invalid: one sentence */
    double makespan;
    double compute_time, idle_time; /* makespan = their sum */
    double recomputed_time;         /* forward time beyond one forward of each node */
    size_t recomputed;              /* such forwards */
    uint64_t peak;                  /* largest memory_during */
    size_t peak_operation;          /* first that reaches it */
    uint64_t host_peak;             /* bytes of host copies at the end of the step */
    uint64_t held;                  /* bytes alive at the turn, graph inputs included */
    size_t turn;                    /* operations before it; SIZE_MAX: there is no turn */
    bool output_held;               /* out of the last node, of a forward graph, is among them */
    uint64_t bytes_to_host, bytes_to_device;
} remat_simulation;

/* Replays the list. link may be NULL: then O and P are invalid operations. moments: NULL or room
 * for operations->length entries; node_recomputed: NULL or room for n_nodes, the forward time of
 * each node beyond its first run. An invalid list is an answer (REMAT_OK with valid = false), not a
 * failure. Fails with REMAT_NO_MEMORY only. Time: linear in the list and the edges its operations
 * touch. */
remat_status remat_simulate(const remat_profile *profile, const remat_operations *operations,
                            const remat_link *link, remat_moment *moments, double *node_recomputed,
                            remat_simulation *ret_simulation, remat_error *error);

/* Of a pipeline's rank: the peak becomes that of so many micro-batches in flight, one of which runs
 * while the others hold what they hold at the turn. At every moment: before the turn of the last
 * one the others have run, and at the first backward none has gone. The most: REMAT_MOST_IN_FLIGHT,
 * so that no sum overflows. */
#define REMAT_MOST_IN_FLIGHT 1000u
void remat_put_in_flight(remat_simulation *simulation, uint32_t in_flight);

#endif
