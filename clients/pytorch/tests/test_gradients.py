"""Gradients as they are made: in backward order, while the backward runs; buckets, optimizers and shards live on that."""

import copy
import faulthandler
import os
import pathlib
import time

import lists
import pytest
import torch
from models import MODELS
from steps import assert_same, loss_of, step
from test_backend import Own, compiled, dropping
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel

import remat
from remat.backend import version
from remat.memory import Recorder

WIDTH, DEPTH = 256, 8


def deep():
    torch.manual_seed(0)
    layers = [part for _ in range(DEPTH) for part in (nn.Linear(WIDTH, WIDTH), nn.Tanh())]
    return nn.Sequential(*layers), torch.randn(64, WIDTH)


@pytest.mark.core
@pytest.mark.parametrize("make", [lists.in_order, dropping(2)])
def test_hooks_run_in_backward_order_while_it_runs(make, tmp_path):
    model, x = deep()
    seen, running = [], []
    backend = Own(make, tmp_path)
    function = compiled(model, backend)
    for name, p in model.named_parameters():
        p.register_post_accumulate_grad_hook(lambda p, name=name: seen.append((name, p.grad.clone(), len(running))))
    from remat import handover
    take = handover.Step.take
    try:
        handover.Step.take = lambda self, *a: (running.append(1), take(self, *a))[1]
        loss_of(function(x)).backward()
    finally:
        handover.Step.take = take
    layers = [int(name.split(".")[0]) for name, _, _ in seen]
    assert layers == sorted(layers, reverse=True) and len(seen) == 2 * DEPTH
    assert len({at for _, _, at in seen}) >= DEPTH  # one piece for each layer at least
    plain, _ = deep()
    loss_of(plain(x)).backward()
    assert_same([g for _, g, _ in sorted(seen, key=lambda s: s[0])], [p.grad for _, p in sorted(plain.named_parameters())])


@pytest.mark.core
def test_an_optimizer_in_the_backward_frees_gradients(tmp_path):
    """No more than a few layers' gradients are there at once."""
    def train(function, model, x):
        optimizers = {p: torch.optim.SGD([p], 0.1) for p in model.parameters()}

        def update(p):
            optimizers[p].step()
            p.grad = None

        for p in model.parameters():
            p.register_post_accumulate_grad_hook(update)
        loss_of(function(x)).backward()
        with Recorder(x.device) as recorder:
            recorder.mark()
            loss_of(function(x)).backward()
            recorder.mark()
        return recorder.segments[0].peak, list(model.parameters())

    plain, x = deep()
    expected, weights = train(plain, plain, x)
    model, _ = deep()
    found, own = train(compiled(model, Own(lists.in_order, tmp_path)), model, x)
    assert_same(own, weights)
    whole = sum(p.numel() * 4 for p in model.parameters())
    assert found <= expected + whole / 4  # all of them together would be above


def by_optimizer(p, state):
    state.setdefault(p, torch.optim.SGD([p], 0.1, momentum=0.9)).step()


def by_data(p, _):
    p.data.add_(p.grad, alpha=-0.1)


def by_other_memory(p, _):
    p.data.set_(p.data - 0.1 * p.grad)


class Looked(nn.Module):
    """Weights are read as they are, as views, twice, and after other weights' gradients are there."""

    def __init__(self, width=32):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(width, width) for _ in range(3))
        self.tied = nn.Linear(width, width, bias=False)
        self.tied.weight = self.a.weight

    def forward(self, x):
        x = torch.tanh(self.a(x))
        x = torch.tanh(x @ self.b.weight.view(2, -1, x.shape[-1]).flatten(0, 1) + self.b.bias)
        return self.tied(torch.sigmoid(self.c(x)) * x) @ self.b.weight.t()


@pytest.mark.core
@pytest.mark.parametrize("write", [by_optimizer, by_data, by_other_memory])
@pytest.mark.parametrize("make", [dropping(2), dropping(3)] + [lambda p, s=s: lists.shuffled(p, s) for s in range(4)])
def test_a_gradient_comes_after_the_last_read_of_its_weight(make, write, tmp_path):
    """Who gets it may write the weight at once, and what a list runs later would read that."""
    for build in (deep, lambda: (Looked(), torch.randn(64, 32))):
        torch._dynamo.reset()
        torch.manual_seed(0)
        model, x = build()
        plain, state = copy.deepcopy(model), {}
        function = compiled(model, Own(make, tmp_path))
        for run_, each in ((function, model), (plain, plain)):
            def update(p):
                write(p, state)
                p.grad = None

            for p in each.parameters():
                p.register_post_accumulate_grad_hook(update)
            for _ in range(3):
                loss_of(run_(x)).backward()
        assert_same(list(model.parameters()), list(plain.parameters()))


class Stashes(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x  # not by save_for_backward: a plain step does not compare its version
        return x.sin()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.x.cos()


class Stashing(nn.Module):
    def __init__(self):
        super().__init__()
        self.p, self.q = nn.Parameter(torch.randn(16)), nn.Linear(16, 16)

    def forward(self, x):
        return torch.tanh(self.q(torch.tanh(self.q(x)))) * Stashes.apply(self.p)


@pytest.mark.core
@pytest.mark.skipif(version() < (2, 12), reason="this torch compares the versions of all that is saved")
def test_what_a_function_keeps_unchecked_may_change(tmp_path):
    torch.manual_seed(0)
    model, x = Stashing(), torch.randn(4, 16)
    plain = copy.deepcopy(model)
    function = compiled(model, Own(lists.in_order, tmp_path))
    found = []
    for run_, each in ((function, model), (plain, plain)):
        value = loss_of(run_(x))
        with torch.no_grad():
            each.p.mul_(0.5)
        value.backward()
        found.append([p.grad.clone() for p in each.parameters()])
        value = loss_of(run_(x))
        with torch.no_grad():
            each.q.weight.mul_(0.5)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            value.backward()
    assert_same(*found)


def test_accumulation(tmp_path):
    model, x = deep()
    plain = copy.deepcopy(model)
    function = compiled(model, Own(dropping(2), tmp_path))
    for run, each in ((function, model), (plain, plain)):
        for part in x.chunk(4):
            loss_of(run(part)).backward()
    assert_same([p.grad for p in model.parameters()], [p.grad for p in plain.parameters()])


@pytest.mark.core
def test_an_input_that_is_changed_or_given_back(tmp_path):
    """Then gradients come at the end of the backward, and are right."""
    class Given(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            y = self.a(x)
            y.mul_(2)
            return self.b(y), x, self.a.weight.view(-1)

    torch.manual_seed(0)
    model, x = Given(), torch.randn(4, 8, requires_grad=True)
    plain = copy.deepcopy(model)
    assert_same(step(compiled(model, Own(lists.in_order, tmp_path)), (x,), 0)[1:], step(plain, (x,), 0)[1:])


# ---- processes ----

def meet(rank, folder):
    torch.set_num_threads(1)
    faulthandler.dump_traceback_later(300, exit=True)  # ranks wait for each other
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    distributed.init_process_group("gloo", f"file://{folder}/meet", rank=rank, world_size=2)


def data_parallel(rank, server, folder):
    meet(rank, folder)
    torch.manual_seed(0)
    model, inputs = MODELS["vgg"]()
    plain = DistributedDataParallel(copy.deepcopy(model), bucket_cap_mb=0.05)
    fitted = DistributedDataParallel(model, bucket_cap_mb=0.05)
    assert remat.fit(fitted, inputs, "85%", server=server, cache=f"{folder}/{rank}") is fitted
    for seed in range(3):
        assert_same(step(fitted, inputs, 10 * seed + rank), step(plain, inputs, 10 * seed + rank))
    fewer = tuple(t[1:] for t in inputs)  # compiles within DDP's forward, of which torch makes a graph for each bucket
    assert_same(step(fitted, fewer, rank), step(plain, fewer, rank))
    assert model.forward.graphs == 1
    for each in (fitted, plain):  # accumulation
        each.zero_grad(set_to_none=True)
        with each.no_sync():
            torch.manual_seed(1)
            loss_of(each(*inputs)).backward()
        torch.manual_seed(2)
        loss_of(each(*inputs)).backward()
    assert_same([p.grad for p in fitted.parameters()], [p.grad for p in plain.parameters()])


def overlapped(rank, server, folder):
    """Buckets are sent while the backward still runs."""
    meet(rank, folder)
    model, x = deep()
    fitted = DistributedDataParallel(model, bucket_cap_mb=0.3)
    remat.fit(fitted, x, "100%", server=server, cache=f"{folder}/{rank}")
    from remat import handover
    seen, real = [], handover.Step.take

    def take(self, *args):
        seen.append("piece")
        return real(self, *args)

    def hook(_, bucket):
        seen.append("bucket")
        return distributed.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda f: f.value()[0] / 2)

    fitted.register_comm_hook(None, hook)
    handover.Step.take = take
    for _ in range(3):
        seen.clear()
        step(fitted, (x,), rank)
    assert seen.index("bucket") < DEPTH // 2 and seen.count("bucket") > 3, seen


class Event:
    """On a CPU there is nothing to wait for; this torch's streams of a CPU do not know that."""

    def wait(self, *_):
        pass

    record = synchronize = wait


def sharded(rank, server, folder):
    """Weights stay together after the forward: gathered again, on a CPU, they are changed in the eyes of autograd, with
    this torch's plain modules too."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    meet(rank, folder)
    torch.cpu.Stream.record_event = lambda self, event=None: Event()
    torch.cpu.Stream.wait_event = lambda self, event: None
    mesh = init_device_mesh("cpu", (2,))
    models = []
    for fitted in (False, True):
        model, x = deep()
        blocks = nn.Sequential(*(nn.Sequential(*model[4 * i:4 * i + 4]) for i in range(DEPTH // 2)))
        for block in blocks:
            if fitted:
                block.forward = torch.compile(block.forward, dynamic=False,
                                              backend=remat.backend("100%", server=server, cache=f"{folder}/{rank}"))
            fully_shard(block, mesh=mesh, reshard_after_forward=False)
        fully_shard(blocks, mesh=mesh, reshard_after_forward=False)
        models.append(blocks)
    for seed in range(3):
        x = torch.randn(64, WIDTH, generator=torch.Generator().manual_seed(10 * seed + rank))
        for each in models:
            each.zero_grad(set_to_none=True)
            loss_of(each(x)).backward()
        grads = [[p.grad.to_local() for p in each.parameters()] for each in models]
        assert_same(grads[1], grads[0], f"step {seed}")
        for each in models:
            torch.optim.SGD(each.parameters(), 0.01).step()


def works(rank, work, server, folder):
    """A hook of Python's may be with threads of gloo yet: such a process, ended in order, aborts now and then. So each
    waits until both are done, which what raises before never is, and ends at once."""
    work(rank, server, folder)
    pathlib.Path(folder, f"done-{rank}").touch()
    until = time.monotonic() + 120
    while not pathlib.Path(folder, f"done-{1 - rank}").exists() and time.monotonic() < until:
        time.sleep(0.05)
    os._exit(0)


@pytest.mark.core
@pytest.mark.parametrize("work", [data_parallel, overlapped, sharded])
def test_two_processes(work, server, tmp_path):
    multiprocessing.spawn(works, (work, server, str(tmp_path)), nprocs=2)
