"""A pipeline of processes on this machine, by gloo: each rank's stage is fitted with what it has in flight. Beside it the plain
pipeline, and the model in one piece.

    python3 examples/pipeline.py [ranks [schedule [micro-batches [budget]]]]        such as 4 Schedule1F1B 6 85%
"""

import copy
import os
import pathlib
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "tests")]

import remat  # noqa: E402
from pipeline_ranks import (ROWS, TOKENS, WIDTH, WORDS, differing, is_scaled, loss_of, parts, scheduled, step,  # noqa: E402
                            unpipelined, with_gloo)


def train(rank, ranks, kind, m, budget):
    whole = parts(ranks)
    ids, labels = torch.randint(WORDS, (ROWS * m, TOKENS)), torch.randint(WORDS, (ROWS * m, TOKENS))
    part = copy.deepcopy(whole[rank])
    expected = unpipelined(whole, ids, labels, m, is_scaled(kind))
    schedule = scheduled(kind, {rank: part}, ranks, m)
    _, plain = step(schedule, {rank: part}, ranks, ids, labels, rank)

    n = remat.pipelines.in_flight(schedule)[rank]
    example = torch.randn(ROWS, TOKENS, WIDTH).requires_grad_() if rank else ids[:ROWS]
    loss = (lambda out: loss_of(out, labels[:ROWS])) if rank == ranks - 1 else None
    remat.fit(part, example, budget, in_flight=n, microbatches=m, loss=loss)

    losses, peak = step(scheduled(kind, {rank: part}, ranks, m), {rank: part}, ranks, ids, labels, rank)
    different, compared = differing({rank: part}, whole, losses, expected)
    forward = part.forward
    return (f"rank {rank}: {n} of {m} in flight, {peak} bytes measured, budget {forward.budget}, plain {plain}; "
            f"{forward.schedule['overhead']:.1%} more time; {compared - len(different)} of {compared} gradients and losses equal")


def main(ranks="4", kind="Schedule1F1B", m="6", budget="85%", rank=None, folder=None):
    if rank is not None:
        torch.set_num_threads(1)
        with_gloo()
        dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=int(rank), world_size=int(ranks))
        line = train(int(rank), int(ranks), kind, int(m), budget)
        (pathlib.Path(folder) / rank).write_text(f"{line}\n")  # by dist, torch 2.6 waits for ever in 1 of 50 ends
        dist.barrier()
        dist.destroy_process_group()
        return
    with tempfile.TemporaryDirectory() as folder:
        each = [subprocess.Popen([sys.executable, __file__, ranks, kind, m, budget, str(i), folder],
                                 env={"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", **os.environ}) for i in range(int(ranks))]
        codes = [process.wait() for process in each]
        print(end="".join((pathlib.Path(folder) / str(i)).read_text() for i, code in enumerate(codes) if code == 0))
        sys.exit(any(codes))


if __name__ == "__main__":
    main(*sys.argv[1:])
