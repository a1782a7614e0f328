"""Ranks of pipelines, each a process: python3 pipeline_ranks.py RANK RANKS CASE FOLDER SERVER; leaves what it found in FOLDER/RANK.pt."""

import copy
import faulthandler
import inspect
import pathlib
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed import pipelining

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import remat  # noqa: E402
from remat.memory import Recorder  # noqa: E402

WIDTH, TOKENS, WORDS, ROWS = 32, 64, 61, 2
LIMIT, TIGHT = 500, 1.05  # seconds; budgets beside the least
# by ranks: schedule, stages a rank, micro-batches
CASES = {2: [("Schedule1F1B", 1, 4), ("ScheduleGPipe", 1, 3), ("ScheduleInterleaved1F1B", 2, 4)],
         4: [("Schedule1F1B", 1, 6), ("ScheduleGPipe", 1, 4)]}


class Block(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.dropout = nn.Dropout(p)

    def forward(self, x):
        return x + self.dropout(self.down(F.gelu(self.up(self.norm(x)))))


class Head(nn.Linear):
    """torch 2.6 wants to detach what the last stage returns where it stands, which is refused of views."""

    def forward(self, x):
        return super().forward(x.flatten(0, 1))


def parts(stages, p=0.2):
    """Tokens come into the first, which has no gradient to send."""
    torch.manual_seed(0)
    made = [[Block(p), Block(p)] for _ in range(stages)]
    made[0].insert(0, nn.Embedding(WORDS, WIDTH))
    made[-1].append(Head(WIDTH, WORDS))
    return [nn.Sequential(*part) for part in made]


def loss_of(logits, labels):
    return F.cross_entropy(logits, labels.flatten())


def unpipelined(whole, ids, labels, m, scaled):
    """Losses of the micro-batches one after another, with gradients added up; each stage draws from a generator of its own."""
    states, losses = [torch.Generator().manual_seed(i).get_state() for i in range(len(whole))], []
    for x, y in zip(ids.tensor_split(m), labels.tensor_split(m)):
        for i, part in enumerate(whole):
            torch.set_rng_state(states[i])
            x = part(x)
            states[i] = torch.get_rng_state()
        losses.append(loss_of(x, y))
        losses[-1].backward()
    for p in (p for part in whole for p in part.parameters() if scaled):
        p.grad.div_(m)
    return [loss.detach() for loss in losses]


class _All(list):
    def wait(self):
        for work in self:
            work.wait()


def with_gloo():
    """torch before 2.8 waits for the last of several sends and lets go of the others, which then may never arrive
    (pytorch issue 132644): right with NCCL, where they are one."""
    if not hasattr(pipelining.schedules, "_wait_batch_p2p"):
        pipelining.schedules._batch_p2p = lambda ops, desc=None: _All(dist.batch_isend_irecv(ops)) if ops else None


def is_scaled(kind):
    """Whether gradients are divided by the number of micro-batches."""
    return "scale_grads" in inspect.signature(getattr(pipelining, kind).__init__).parameters


def scheduled(kind, owned, stages, m):
    made = []
    for i, part in owned.items():
        shapes = {}
        if "input_grads" not in inspect.signature(pipelining.PipelineStage.__init__).parameters:  # then it would run a forward, and draw
            inner, given = torch.empty(ROWS, TOKENS, WIDTH, device="meta"), torch.empty(ROWS, TOKENS, dtype=torch.int64, device="meta")
            shapes = {"input_args": inner if i else given,
                      "output_args": inner if i < stages - 1 else torch.empty(ROWS * TOKENS, WORDS, device="meta")}
        made.append(pipelining.PipelineStage(part, i, stages, torch.device("cpu"), **shapes))
    kind = getattr(pipelining, kind)
    return kind(made if issubclass(kind, pipelining.schedules.PipelineScheduleMulti) else made[0], m, loss_fn=loss_of)


def step(schedule, owned, stages, ids, labels, seed):
    """Losses, and the most bytes of the step, with buffers that the runtime makes when it begins."""
    losses, recorder = [], Recorder(torch.device("cpu"))
    for part in owned.values():
        part.zero_grad(set_to_none=True)
    torch.manual_seed(seed)
    dist.barrier()
    with recorder:
        recorder.mark()
        schedule.step(*([ids.clone()] if 0 in owned else []), **({"target": labels, "losses": losses} if stages - 1 in owned else {}))
        recorder.mark()
    return [loss.detach() for loss in losses], recorder.segments[0].peak - recorder.segments[0].start


def differing(owned, whole, losses, expected):
    pairs = [((i, name), p.grad, q.grad) for i in owned for (name, p), q in zip(owned[i].named_parameters(), whole[i].parameters())]
    pairs += [(f"loss {k}", a, b) for k, (a, b) in enumerate(zip(losses, expected))]
    return [name for name, a, b in pairs if not torch.equal(a, b)], len(pairs)


def run(rank, ranks, kind, each, m, server):
    stages = ranks * each
    whole = parts(stages, 0.2 if each == 1 else 0.0)  # stages of one rank draw from one generator
    ids, labels = torch.randint(WORDS, (ROWS * m, TOKENS)), torch.randint(WORDS, (ROWS * m, TOKENS))
    owned = {i: copy.deepcopy(whole[i]) for i in range(rank, stages, ranks)}
    expected = unpipelined(whole, ids, labels, m, is_scaled(kind))
    _, plain = step(scheduled(kind, owned, stages, m), owned, stages, ids, labels, rank)
    flight, found, refused = remat.pipelines.in_flight(scheduled(kind, owned, stages, m)), [], ""
    for i, part in owned.items():
        example = torch.randn(ROWS, TOKENS, WIDTH).requires_grad_() if i else ids[:ROWS]
        how = {"in_flight": flight[i], "microbatches": m, "server": server, "repeats": 1,
               "loss": (lambda out: loss_of(out, labels[:ROWS])) if i == stages - 1 else None}
        try:
            remat.fit(part, example, 1000, **how)
        except remat.BudgetError as error:
            refused, least = str(error), error.minimum_budget
        remat.fit(part, example, int(TIGHT * least), **how)
        found.append(part.forward)
    losses, peak = step(scheduled(kind, owned, stages, m), owned, stages, ids, labels, rank)
    differ, compared = differing(owned, whole, losses, expected)
    return {"flight": flight, "differ": differ, "compared": compared, "plain": plain, "peak": peak, "refused": refused,
            "budgets": [f.budget for f in found], "played": [f.measured_peak for f in found],
            "again": [f.schedule["recomputed_time"] for f in found], "kept": [f.backend.stage.kept for f in found],
            "pieces": [len(f.pieces) for f in found], "in_flight": [f.schedule.get("in_flight", 1) for f in found]}


def main(rank, ranks, case, folder, server):
    torch.set_num_threads(1)
    faulthandler.dump_traceback_later(LIMIT, exit=True)  # ranks wait for each other
    with_gloo()
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=ranks)
    torch.save(run(rank, ranks, *CASES[ranks][case], server), f"{folder}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]), *sys.argv[4:])
