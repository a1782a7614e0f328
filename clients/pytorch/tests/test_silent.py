"""What a tracer could get wrong without a word: each is as in the plain model, step after step, with what it does to Python
and to buffers, or refused."""

import copy
import functools
import inspect
import io
import os
import random
import sys
import types
import warnings

import lists
import numpy
import pytest
import cases
import torch
from models import mlp, vgg
from steps import assert_same, loss_of, step, with_inductor
from torch import nn
from torch.autograd import forward_ad
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import remat
from remat.backend import Backend


def draws_into_a_part(self, x):
    """On a CPU other normal numbers come for one block of memory than for the rows of a slice; "from", of random_, is no
    name in Python."""
    y = x * 1
    y[:, :4].normal_()
    y[:, ::3].random_(0, 9)
    return y + torch.rand_like(y)


RIGHT = [draws_into_a_part, cases.reverses, cases.scales, cases.half_without_gradients, cases.distils, cases.without_autocast,
         cases.sparse_choice, cases.normalizes, cases.item, cases.length, cases.branches_on_a_size, cases.branches,
         cases.python_noise, cases.numpy_noise, cases.counts, cases.keeps_a_loss, cases.writes_a_buffer, cases.appends,
         cases.counts_in_a_global, cases.asks_for_gradients, cases.past_setattr, cases.bound]
OFTEN_REFUSED = [cases.own_generator, cases.changes_a_weight]  # by the check at the end of fit


def state(model):
    return {name: value for name, value in vars(model).items() if isinstance(value, (int, float, list, torch.Tensor))}


def seeded(model, inputs, seed):
    random.seed(seed)
    numpy.random.seed(seed)
    cases.COUNTS[0] = seed
    return step(model, inputs, seed)


def compare(model, plain, shape=(8, 16), steps=3):
    for seed in range(steps):
        inputs = (torch.randn(shape, generator=torch.Generator().manual_seed(seed)),)
        expected, count = seeded(plain, inputs, seed), cases.COUNTS[0]
        found = seeded(model, inputs, seed)
        assert_same(found, expected, f"step {seed}")
        assert cases.COUNTS[0] == count
        assert state(model).keys() == state(plain).keys()
        for name, value in state(plain).items():
            other = state(model)[name]
            assert torch.equal(value, other) if isinstance(value, torch.Tensor) else value == other, name


@pytest.fixture
def server(monkeypatch, tmp_path):
    """Asks nobody: lists of the tests' own, in which much is made twice."""
    monkeypatch.setattr(Backend, "order_for", lambda self, profile, _: ({}, lists.dropping(profile, 1, 0.7)))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def without_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # graph breaks are said, which is tested elsewhere
        yield


@pytest.mark.core
@pytest.mark.parametrize("middle", RIGHT)
@pytest.mark.parametrize("dtype", [None, torch.bfloat16] if os.environ.get("REMAT_LONG") else [None])
def test_as_the_plain_model(middle, dtype, server):
    model, x = cases.body(middle)
    plain = copy.deepcopy(model)
    before = copy.deepcopy(state(model))
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype is not None):
        remat.fit(model, x, "100%", server=server)
        assert str(state(model)) == str(before)
        compare(model, plain)


@pytest.mark.parametrize("middle", OFTEN_REFUSED)
def test_right_or_refused(middle, server):
    """What one step leaves behind, where nothing can put it back, is another start for the next."""
    model, x = cases.body(middle)
    try:
        remat.fit(model, x, "110%", server=server)
    except remat.CaptureError as refused:
        assert "is not the plain one" in str(refused) or "a step of fit compiled anew" in str(refused)
        assert "forward" not in vars(model)
    else:
        compare(model, copy.deepcopy(remat.remove(model)))


@pytest.mark.core
def test_weights_changed_between_forward_and_backward(server):
    model, (x,) = mlp()
    remat.fit(model, x, "100%", server=server)
    loss = loss_of(model(x))
    with torch.no_grad():
        model[4].weight.mul_(0.5)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.core
@pytest.mark.parametrize("change", [
    lambda m: m.append(nn.Linear(8, 8)), lambda m: setattr(m[0], "weight", nn.Parameter(torch.zeros(64, 64))),
    lambda m: m[1].register_forward_hook(lambda *a: a[2] * 2), lambda m: m[0].weight.requires_grad_(False),
    lambda m: m[0].register_full_backward_hook(lambda _, inputs, outputs: None), lambda m: m.eval()])
def test_what_changes_after_fit_counts(change, server):
    model, (x,) = mlp()
    plain = copy.deepcopy(model)
    remat.fit(model, x, "100%", server=server)
    for each in (model, plain):
        torch.manual_seed(1)
        change(each)
    assert_same(step(model, (x,), 0), step(plain, (x,), 0))


@pytest.mark.parametrize("name,value", [("tau", 0.5), ("p", 0.1), ("settings", {"scale": 1.5}), ("RATE", 5.0)])
def test_python_state_that_changes_counts(name, value, server, monkeypatch):
    middle = {"tau": cases.tau, "p": cases.probability, "settings": cases.setting, "RATE": cases.rate}[name]
    model, x = cases.body(middle)
    plain = copy.deepcopy(model)
    remat.fit(model, x, "100%", server=server)
    for each in (model, plain):
        setattr(each, name, value)
    monkeypatch.setattr(cases, "RATE", value if name == "RATE" else cases.RATE)
    assert_same(step(model, (x,), 0), step(plain, (x,), 0))


@pytest.mark.core
def test_the_type_of_autocast_is_that_of_the_step(server):
    model, (x,) = mlp()
    plain = copy.deepcopy(model)
    remat.fit(model, x, "100%", server=server)
    for dtype in (torch.bfloat16, torch.float16, torch.bfloat16):
        with torch.autocast("cpu", dtype=dtype):
            assert model(x).dtype == dtype
            assert_same(step(model, (x,), 0), step(plain, (x,), 0))


def past_sparse(self, x):
    return x * 1 + self.guide(x).to_sparse().to_dense() if len(x) == 8 else x * 1


@pytest.mark.core
def test_gradients_through_sparse_tensors_are_there_or_refused(server):
    """torch 2.6 compiles them and loses the gradient; 2.14 breaks the graph."""
    model, x = cases.body(past_sparse)
    plain = copy.deepcopy(model)
    remat.fit(model, x[:4], "100%", server=server)
    try:
        found = step(model, (x,), 0)
    except remat.CaptureError as refused:
        assert "to_sparse loses the gradient" in str(refused)
    else:
        assert_same(found, step(plain, (x,), 0))


def test_another_autocast_and_a_smaller_batch_have_plans_of_their_own(server):
    model, (x,) = mlp()
    plain = copy.deepcopy(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        remat.fit(model, x, "100%", server=server)
    for batch in (256, 100, 256, 7, 100):
        assert_same(step(model, (x[:batch],), 0), step(plain, (x[:batch],), 0))
    assert len(model.forward.pieces) == 5  # the first batch with sizes left open, too
    assert all(len(piece.order) > len(piece.profile["nodes"]) for piece in model.forward.pieces)


@pytest.mark.core
def test_copies_and_pickles(service, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    server = service.url
    model, inputs = vgg()
    plain = copy.deepcopy(model)
    remat.fit(model, inputs, "90%", server=server)
    twin, file = copy.deepcopy(model), io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
    for other in (twin, loaded):
        assert_same(step(other, inputs, 1), step(copy.deepcopy(plain), inputs, 1))
        assert other.forward.model is other and other.forward.schedule == model.forward.schedule
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.core
@pytest.mark.parametrize("first", [1, 160])
def test_a_copy_counts_the_loss_of_the_example(first, server):
    """Of which the bytes are known; those of its own first batch are not."""
    layers = (layer for _ in range(3) for layer in (nn.Linear(256, 256), nn.Tanh()))
    model, example, little = nn.Sequential(*layers, nn.Linear(256, 1500)), torch.randn(20, 256), torch.randn(first, 256)
    remat.fit(model, example, 10**6, server=server, loss=lambda out: F.cross_entropy(out, torch.zeros(len(out), dtype=torch.long)))
    twin = copy.deepcopy(model)
    for batch in (little, example, torch.randn(160, 256)):
        said = []
        for other in (model, twin):
            try:
                other(batch).sum().backward()
                said.append(other.forward.backend.calls[-1].takes())
            except remat.BudgetError as refused:
                said.append(str(refused))
        assert said[0] == said[1]


class Raising(nn.Module):
    """Once; a checkpoint is a graph of its own where Dynamo has left the forward."""
    def __init__(self):
        super().__init__()
        self.up, self.norm, self.across, self.down = nn.Linear(24, 48), nn.BatchNorm1d(48), nn.Linear(48, 48), nn.Linear(48, 10)
        self.checkpointed, self.broken = False, False

    def forward(self, x, wrong=False):
        x = torch.relu(self.norm(self.up(x)))
        if wrong:
            raise ValueError("wrong")
        if self.broken:
            torch._dynamo.graph_break()
        return self.down(x + (checkpoint(self.block, x, use_reentrant=False) if self.checkpointed else self.block(x)))

    def block(self, x):
        return torch.relu(self.across(x))


@pytest.mark.core
def test_two_forwards_after_one_that_raised(server):
    """Were the first of them run plainly, the second would write what BatchNorm saved there."""
    torch.manual_seed(0)
    model, xs = Raising(), [torch.randn(n, 24) for n in (160, 120)]
    plain = copy.deepcopy(model)
    remat.fit(model, xs[0], "100%", server=server)
    found = []
    for m in (model, plain):
        m.checkpointed = True
        with pytest.raises(ValueError, match="wrong"):
            m(xs[0], wrong=True)
        sum(m(x).square().sum() for x in xs).backward()
        found.append([p.grad for p in m.parameters()])
    assert model.forward.graphs == 1
    assert_same(*found)


@pytest.mark.core
@pytest.mark.parametrize("by_hook,broken", [(False, False), (True, False), (False, True)])
def test_the_schedule_is_back_after_a_forward_that_raised(by_hook, broken, server):
    """Dynamo leaves the code that raised for good, and follows only what it calls: of a forward that breaks in every model of the class."""
    def raising(module, *given):
        raise ValueError("wrong")

    torch.manual_seed(0)
    models, x = [Raising(), Raising()], torch.randn(160, 24)
    for model in models:
        model.broken = broken
        remat.fit(model, x, "100%", server=server)
    model = models[0]
    nodes = [len(piece.profile["nodes"]) for piece in model.forward.backend.calls]
    assert len(nodes) == 1 + broken
    hook = model.across.register_forward_hook(raising) if by_hook else None
    with pytest.raises(ValueError, match="wrong"):
        model(x, wrong=not by_hook)
    if hook:
        hook.remove()
    for model in (*models, *models, copy.deepcopy(models[0])):
        model(x).sum().backward()
        assert [len(piece.profile["nodes"]) for piece in model.forward.backend.calls] == nodes


class Narrow(nn.Module):
    """Writes, breaks, and then is given too many labels, or too few."""
    def __init__(self, broken):
        super().__init__()
        self.up, self.norm, self.down, self.broken, self.calls = nn.Linear(24, 48), nn.BatchNorm1d(48), nn.Linear(48, 10), broken, 0

    def forward(self, x, labels):
        self.calls += 1
        x = torch.relu(self.norm(self.up(x)))
        if self.broken:
            torch._dynamo.graph_break()
        return nn.functional.cross_entropy(self.down(x), labels)


@pytest.mark.core
@pytest.mark.parametrize("broken", [False, True])
def test_what_a_wrong_shape_comes_after_is_written_once(broken, server):
    torch.manual_seed(0)
    model, x, labels = Narrow(broken), torch.randn(160, 24), torch.randint(10, (160,))
    plain = copy.deepcopy(model)
    remat.fit(model, (x, labels), "100%", server=server)
    for m in (model, plain):
        m(x, labels).backward()
        for _ in range(2):
            with pytest.raises(ValueError, match="batch_size"):
                m(x, labels[:100])
    assert_same(list(model.buffers()), list(plain.buffers()))
    assert model.calls == plain.calls


def test_no_schedule_is_said(server):
    """A break within a loop makes Dynamo leave the frame as it is."""
    def middle(self, x):
        for _ in range(2):
            print(end="")
            torch._dynamo.graph_break()
            x = x * 2
        return x

    model, x = cases.body(middle)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        remat.fit(model, x, "100%", server=server)
    assert any("without a schedule" in str(w.message) or "breaks the graph at" in str(w.message) for w in said)


def test_sparse_gradients_scripted_modules_hooks_and_results_of_any_kind(server):
    for make in (lambda: (cases.Words(sparse=True), torch.randint(200, (16, 4))), cases.scripted, cases.hooked):
        torch.manual_seed(0)
        model, x = make()
        torch.manual_seed(0)
        plain, _ = make()
        try:
            remat.fit(model, x, "100%", server=server)
        except (remat.CaptureError, RuntimeError) as refused:
            print(refused)
            raise
        found, expected = ([t.to_dense() if t is not None and t.is_sparse else t for t in step(m, (x,), 0)]
                           for m in (model, plain))
        assert_same(found, expected)


def test_results_of_any_kind(server):
    model, x, y = cases.Attending(), torch.randn(4, 8, 16), torch.randn(4, 8, 16)
    plain = copy.deepcopy(model)
    remat.fit(model, {"x": x, "y": y}, "100%", server=server)
    found = []
    for each in (model, plain):
        answer = each(x, y)
        assert type(answer) is cases.Answer and answer.given[0] is x and answer.given[1]["out"] is each.out.weight
        answer.loss.backward()
        found.append([answer.logits, answer.loss, *(p.grad for p in each.parameters())])
    assert_same(*found)
    assert_same([model(x, y, other=1).loss], [plain(x, y, other=1).loss])


def test_a_backward_through_the_backward_is_an_error(server):
    model, (x,) = mlp()
    remat.fit(model, x.requires_grad_(), "100%", server=server)
    gradients = torch.autograd.grad(model(x).sum(), list(model.parameters()), create_graph=True)
    with pytest.raises(RuntimeError, match="create_graph"):
        (model(x).sum() + sum(g.square().sum() for g in gradients)).backward()


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.a, self.b = nn.Linear(16, 16), nn.Linear(16, 4), nn.Linear(16, 4)

    def forward(self, x):
        x = torch.tanh(self.body(x))
        return self.a(x), self.b(torch.sigmoid(x))


@pytest.mark.core
def test_what_the_loss_does_not_use_has_no_gradient(server):
    """None, as in a plain step, not zeros: optimizers skip one and not the other."""
    model, x = Heads(), torch.randn(8, 16)
    plain = copy.deepcopy(model)
    remat.fit(model, x, "100%", server=server)
    for use in ([0], [1], [0, 1], [1]):
        assert_same(*(step(m, (x,), 0, lambda results: loss_of([results[i] for i in use])) for m in (model, plain)))


def test_nor_where_a_parameter_is_written(server):
    class Renormed(Heads):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(20, 16, max_norm=1.0)

        def forward(self, x):
            return super().forward(self.words(x))

    model, x = Renormed(), torch.randint(20, (8, 3))
    plain = copy.deepcopy(model)
    remat.fit(model, x, "150%", server=server)
    for use in ([0], [1], [0, 1], [1]):
        assert_same(*(step(m, (x,), 0, lambda results: loss_of([results[i] for i in use])) for m in (model, plain)))


class Returns(nn.Module):
    """Beside two results something of a parameter, with which gradients come at the end of the backward only."""

    def __init__(self, of):
        super().__init__()
        self.body, self.head, self.weight, self.of = nn.Linear(16, 4), nn.Linear(4, 4), nn.Parameter(torch.randn(4, 4)), of

    def forward(self, x):
        x = self.body(x)
        return x, self.head(x), self.of(self.weight)


@pytest.mark.core
@pytest.mark.parametrize("inner", [None, pytest.param("inductor", marks=with_inductor)])
@pytest.mark.parametrize("of", [torch.detach, torch.t, lambda w: w.view(-1), lambda w: w], ids=["detach", "t", "view", "itself"])
def test_nor_where_a_part_of_a_parameter_is_given_back(server, of, inner):
    model, x = Returns(of), torch.randn(8, 16)
    plain = copy.deepcopy(model)
    if inner:
        function = torch.compile(model, backend=remat.backend("150%", server=server, inner=inner), dynamic=False)
    else:
        function = remat.fit(model, x, "150%", server=server)
    for use in ([0], [1], [0, 1], [0]):
        for _ in range(2):
            for each in (function, plain):
                results = each(x)
                loss_of([results[i] for i in use]).backward()
        for p, q in zip(model.parameters(), plain.parameters()):
            assert (p.grad is None) == (q.grad is None), use
            if q.grad is not None:  # Inductor's sums have other last bits
                torch.testing.assert_close(p.grad, q.grad, rtol=0, atol=1e-5 * float(q.grad.abs().max()) if inner else 0)
        for each in (model, plain):
            each.zero_grad()


def test_parameters_that_are_frozen_no_longer(server):
    model, (x,) = mlp()
    model[2].requires_grad_(False)
    plain, bare = copy.deepcopy(model), copy.deepcopy(model)
    remat.fit(model, x, "100%", server=server)
    for frozen in (True, False, True):
        for each in (model, plain):
            each[2].requires_grad_(not frozen)
        assert_same(step(model, (x,), 0), step(plain, (x,), 0))
    function = torch.compile(bare, backend=remat.backend("100%"), dynamic=False)
    function(x)
    bare[2].requires_grad_(True)
    assert_same(step(function, (x,), 0)[:-1], step(plain.requires_grad_(), (x,), 0)[:-1])  # guards of torch before 2.10 or so do not see it


def test_another_forward_of_a_class(server, monkeypatch):
    model, (x,) = mlp()
    plain = copy.deepcopy(model)
    remat.fit(model, x, "100%", server=server)
    monkeypatch.setattr(nn.ReLU, "forward", lambda self, x: torch.tanh(x))
    assert_same(step(model, (x,), 0), step(plain, (x,), 0))


class Scaling(nn.Module):
    """Modules in modules, whose dicts torch 2.14 does not look at while they stay; of methods 2.6 has no guard."""
    factor = 1.0

    def __init__(self):
        super().__init__()
        self.rows = nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 8)))

    def act(self, x):
        return x.relu()

    def forward(self, x):
        return self.act(self.rows(x)) * self.factor


class Counting(Scaling):
    calls = 0

    def forward(self, x):
        Counting.calls += 1
        self.made = lambda y: y * 2  # another one each time, with the same code
        return super().forward(x)


@pytest.mark.core
@pytest.mark.parametrize("kind", [Scaling, Counting])
def test_numbers_of_a_class_and_methods_of_a_module_that_change(kind, server, monkeypatch):
    model, x = nn.Sequential(kind(), nn.Linear(8, 8)), torch.randn(4, 8)
    plain = copy.deepcopy(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a class that is written there is a break, and a word
        remat.fit(model, x, "100%", server=server)
        for change in (lambda each: None, lambda each: None, lambda each: monkeypatch.setattr(kind, "factor", 3.0),
                       lambda each: setattr(each[0], "act", torch.tanh),
                       lambda each: setattr(each[0], "act", types.MethodType(lambda self, x: x.abs(), each[0]))):
            for each in (model, plain):
                change(each)
            assert_same(step(model, (x,), 0), step(plain, (x,), 0))
        model(x)  # the plain one has counted, too
        followed = model.forward._run
        model(x), model(x)
    assert model.forward._run is followed  # nothing is followed anew where nothing but the forward has changed anything


@pytest.mark.core
def test_dropout_of_everything_draws_nothing(server):
    model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 16), nn.Dropout(0.5))
    plain, x = copy.deepcopy(model), torch.randn(4, 8)
    remat.fit(model, x, "100%", server=server)
    for rate in (0.5, 1.0, 0.25):
        found = []
        for each in (model, plain):
            each[1].p = rate
            found.append((*step(each, (x,), 0), torch.get_rng_state()))
        assert_same(*found)
    for each in (model, plain):  # and from the beginning
        each[1].p = 1.0
    remat.fit(remat.remove(model), x, "80%", server=server)
    assert_same(step(model, (x,), 0), step(plain, (x,), 0))


def test_without_autocast_the_backward_is_too(server):
    """What the forward computes in 32 bits within an autocast around it."""
    model, x = cases.body(cases.without_autocast)
    plain = copy.deepcopy(model)
    model.more = plain.more = nn.ModuleList()  # of whose weights autocast casts each once
    found = []
    with torch.autocast("cpu", dtype=torch.bfloat16):
        remat.fit(model, x, "100%", server=server)
    for each in (model, plain):
        each.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            result = each(x)
        loss_of(result).backward()
        found.append([p.grad for p in each.parameters()])
    assert_same(*found)


def numpy_itself(self, x):
    return x + torch.from_numpy(numpy.tanh(x.detach().numpy()))


def forces(self, x):
    """A derivative within the forward, as of an energy, of which none is taken again."""
    with torch.enable_grad():
        y = x.detach().requires_grad_()
        return x + torch.autograd.grad(torch.tanh(self.guide(y)).sum(), y)[0]


@pytest.mark.parametrize("middle", [numpy_itself, forces])
def test_what_others_compute(middle, server):
    test_as_the_plain_model(middle, None, server)


def test_anomalies_are_looked_for(server):
    model, (x,) = mlp()
    remat.fit(model, x, "100%", server=server)
    with torch.autograd.detect_anomaly():
        loss_of(model(x)).backward()


def infers_a_number(self, x):
    with torch.inference_mode():
        factor = self.guide(x.detach()).mean().item()
    return x * factor


@pytest.mark.core
@pytest.mark.parametrize("make,message", [
    (lambda: cases.body(infers_a_number), "inference_mode"), (lambda: (nn.DataParallel(mlp()[0]), mlp()[1]), "DistributedDataParallel"),
    (lambda: (mlp()[0].requires_grad_(False), mlp()[1]), "nothing that needs a gradient"),
    (lambda: (torch.compile(mlp()[0]), mlp()[1]), "is compiled: fit the module that it was made of"), (lambda: (nn.Linear, mlp()[1]), "Linear is no module"),
    (lambda: (nn.ParameterList(mlp()[0].parameters()), mlp()[1]), "ParameterList is no module"), (lambda: (3, mlp()[1]), "int is no module"),
    (lambda: (mlp()[0].to("meta"), mlp()[1]), "on the meta device")])
def test_refused_with_the_reason(make, message, server):
    model, x = make()
    with pytest.raises(remat.CaptureError, match=message):
        remat.fit(model, x, "100%", server=server)


@pytest.mark.parametrize("kind,message", cases.WITHOUT_GRADIENTS)
def test_gradients_that_cannot_be_had(kind, message, server):
    cases.gradients_that_cannot_be_had(kind, message, None)


def tangents(self, x):
    return torch.func.jvp(self.guide, (x,), (x,))[1]


class Bounded(nn.Module):
    """Uses rows of a bounded embedding without gradients: they are written, and the weight has no gradient."""

    def __init__(self):
        super().__init__()
        self.words, self.places = (nn.Embedding(40, 16, max_norm=0.5) for _ in range(2))
        self.layers = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16))

    def forward(self, x):
        return self.layers(self.words(x) + self.places(torch.arange(x.shape[1])).detach())


def test_a_written_weight_without_a_gradient(server):
    torch.manual_seed(0)
    model, x = Bounded(), torch.randint(40, (4, 8))
    plain = copy.deepcopy(model)
    remat.fit(model, x, "100%", server=server)
    assert_same(*([*step(each, (x,), 0), each.places.weight.detach()] for each in (model, plain)))
    assert model.places.weight.grad is None


def test_derivatives_within_are_refused(server):
    model, x = cases.body(tangents)
    with pytest.raises(remat.CaptureError, match="torch.compile cannot follow Body"):
        remat.fit(model, x, "100%", server=server)


def test_other_weights_than_its_own(server):
    model, x = cases.taught()
    plain = copy.deepcopy(model)
    remat.fit(model, x, "100%", server=server)
    cases.compare_after_learning(model, plain, x)


def test_other_weights_from_outside(server):
    model, (x,) = mlp()
    plain = copy.deepcopy(model)
    remat.fit(model, x, "100%", server=server)
    results = [torch.func.functional_call(each, {name: p * 2 for name, p in each.named_parameters()}, (x,))
               for each in (model, plain)]
    gradients = [torch.autograd.grad(loss_of(result), list(each.parameters())) for each, result in zip((model, plain), results)]
    assert_same([results[0], *gradients[0]], [results[1], *gradients[1]])


def test_an_input_that_is_written(server):
    model, x = cases.Adds(), torch.randn(8, 16)
    plain, before = copy.deepcopy(model), x.clone()
    remat.fit(model, x, "100%", server=server)
    assert torch.equal(x, before)
    cases.compare_inputs(model, plain)


class Writes(nn.Module):
    """Writes both its inputs, and a buffer."""

    def __init__(self):
        super().__init__()
        self.inner, self.weight = nn.Linear(16, 16), nn.Parameter(torch.randn(64, 16))
        self.register_buffer("level", torch.randn(64, 16))

    def forward(self, x, y):
        self.level.mul_(0.9)
        y.mul_(0.5)
        inner = self.inner(x.clone())
        x.add_(1)
        return inner * inner + y + self.level + self.weight


def test_inputs_that_lie_in_the_same_bytes_and_are_written(server):
    """AOTAutograd takes them out of one tensor, at the places where they were when it compiled."""
    model = Writes()
    plain, held = copy.deepcopy(model), torch.randn(80, 16)
    remat.fit(model, (torch.randn(64, 16), torch.randn(64, 16)), "1MiB", server=server)

    def trained(each, x, y):
        whole = held.clone().view(-1)
        x, y = (whole.as_strided((64, 16), (16, 1), at) if isinstance(at, int) else at(each) for at in (x, y))
        each.zero_grad()
        result = each(x, y)
        loss_of(result).backward()
        return [result.detach(), whole, each.level, *(p.grad for p in each.parameters())]

    def own(each):
        return torch.ones(64, 16)

    for x, y in ((0, 8), (8, 16), (0, 8), (0, 16), (16, 0), (own, lambda each: each.level), (own, own), (own, lambda each: each.level.view(-1).view(64, 16)),
                 (lambda each: each.level, own), (0, own)):
        assert_same(trained(model, x, y), trained(plain, x, y))
    for same in (lambda each: each.weight.data, lambda each: each.weight.detach()):
        with pytest.raises(remat.CaptureError, match="AOTAutograd cannot compile"):
            trained(model, same, own)


def test_forward_mode_runs_plainly(server):
    model, (x,) = mlp()
    plain = copy.deepcopy(model)
    remat.fit(model, x, "100%", server=server)
    found = []
    for each in (model, plain):
        with forward_ad.dual_level():
            found.append(forward_ad.unpack_dual(each(forward_ad.make_dual(x, torch.ones_like(x)))).tangent)
    assert_same(found[:1], found[1:])


def test_the_service_is_away(tmp_path):
    with pytest.warns(UserWarning, match="does not answer.*in its own order"):
        model = remat.fit(mlp()[0], mlp()[1], "60%", server="http://127.0.0.1:9", offline="plain",
                          cache=tmp_path)
    assert model.forward.pieces
    with pytest.raises(remat.ServiceError):
        remat.fit(mlp()[0], mlp()[1], "60%", server="http://127.0.0.1:9", cache=tmp_path)


@pytest.mark.parametrize("how", cases.REFUSED_CASTS[:1])
def test_a_cast_that_is_kept_without_gradients(how, server):
    cases.a_cast_that_is_kept_without_gradients(how, server)


@pytest.mark.parametrize("how", cases.ALLOWED_CASTS[:1])
def test_a_cast_that_is_not_kept_or_needs_no_gradient(how, server):
    cases.a_cast_that_is_not_kept_or_needs_no_gradient(how, server)


class Packed(nn.Module):
    """Statistics are written and numbers drawn before what Dynamo cannot follow (torch 2.6)."""

    def __init__(self):
        super().__init__()
        self.norm, self.rows, self.out = nn.BatchNorm1d(12), nn.LSTM(12, 16, 2, batch_first=True, dropout=0.5), nn.Linear(16, 3)

    def forward(self, x, lengths=None):
        x = nn.functional.dropout(self.norm(x.transpose(1, 2)).transpose(1, 2), 0.2, self.training)
        if lengths is None:
            return self.out(self.rows(x)[0]).mean(1)
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return self.out(nn.utils.rnn.pad_packed_sequence(self.rows(packed)[0], batch_first=True)[0]).mean(1)


@pytest.mark.core
@pytest.mark.parametrize("example", ["padded", "packed"])
def test_a_forward_that_dynamo_leaves_halfway_runs_once(example, server):
    model = Packed()
    plain = copy.deepcopy(model)
    inputs = torch.randn(8, 20, 12), torch.tensor([20, 3, 7, 1, 12, 5, 19, 2])
    remat.fit(model, inputs if example == "packed" else inputs[:1], "90%")
    for seed in range(3):
        assert_same(step(model, inputs, seed), step(plain, inputs, seed), f"step {seed}")


class Keywords(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, x, **more):
        x = self.inner(x)
        for value in more.values():
            x = 2 * x + value
        return x


@pytest.mark.core
def test_the_order_of_keywords_is_theirs(server):
    """Which Dynamo does not guard."""
    model, x = Keywords(), torch.randn(8, 16)
    plain, one, other = copy.deepcopy(model), torch.randn(16), torch.randn(16)
    remat.fit(model, x, "100%", server=server)
    for more in ({"one": one, "other": other}, {"other": other, "one": one}, {"one": other, "other": one}, {"other": one}):
        assert_same(*(torch.autograd.grad(each(x, **more).square().sum(), list(each.parameters())) for each in (model, plain)))
    assert len(model.forward.pieces) == 4
    draw = random.Random(3)
    for _ in range(25):  # others than before, some of them twice the same tensor
        more = {name: draw.choice((one, other)) for name in draw.sample(("one", "other", "third", "fourth"), draw.randrange(5))}
        assert torch.equal(*(each(x, **more) for each in (model, plain))), more
    for each in (model, plain):
        with pytest.raises(TypeError, match=r"Keywords.forward\(\) missing 1 required positional argument: 'x'"):
            each(one=one)


def doubles_a_keyword(forward):
    @functools.wraps(forward)
    def wrapped(self, *args, **kwargs):
        kwargs.setdefault("cache", False)
        if kwargs.get("other") is not None:
            kwargs["other"] = 2 * kwargs["other"]
        return forward(self, *args, **kwargs)
    return wrapped


class Decorated(Keywords):
    @doubles_a_keyword
    def forward(self, x, one=None, cache=None, other=None):
        x = self.inner(x)
        return x if other is None else x + other


@pytest.mark.core
def test_what_is_wrapped_around_a_forward_sees_its_keywords(server):
    model, x = Decorated(), torch.randn(8, 16)
    plain, other = copy.deepcopy(model), torch.randn(16)
    remat.fit(model, {"x": x, "other": other}, "100%", server=server)
    for args, more in (((x,), {"other": other}), ((), {"x": x, "other": other}), ((x, None), {}), ((x, other), {"other": other}), ((x,), {})):
        assert torch.equal(*(each(*args, **more) for each in (model, plain))), more
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        model(other=other)


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.last, self.again = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Tanh()), nn.Linear(16, 16), False

    def forward(self, x):
        return self.last(torch.utils.checkpoint.checkpoint(self.inner, x, use_reentrant=False) if self.again else self.inner(x))


@pytest.mark.core
def test_statistics_that_a_checkpoint_writes_twice_are_refused(server):
    model, x = Checkpointed(), torch.randn(8, 16)
    remat.fit(model, x, "100%", server=server)
    model.again = True
    with pytest.raises(remat.CaptureError, match="test_silent.*a plain step writes it twice: leave the checkpoint out"):
        model(x)
    plain = copy.deepcopy(remat.remove(model))
    with pytest.raises(remat.CaptureError, match="writes it twice"):
        remat.fit(model, x, "100%", server=server)
    model.eval()  # as they are
    plain.eval()
    remat.fit(model, x, "100%", server=server)
    assert_same(step(model, (x,), 0), step(plain, (x,), 0))


class WritesTwice(nn.Module):
    """Within a checkpoint, by whatever way."""

    def __init__(self, how):
        super().__init__()
        self.how, self.layer, self.norm = how, nn.Linear(16, 16), nn.InstanceNorm1d(4, track_running_stats=True)
        for name, value in (("on", torch.ones(1, dtype=torch.long)), ("low", torch.zeros(1)), ("high", torch.zeros(1)), ("scale", torch.ones(1)),
                            ("zero", torch.zeros(1, dtype=torch.int32)), ("mean", torch.zeros(16)), ("deviation", torch.ones(16))):
            self.register_buffer(name, value)

    def inner(self, x):
        x = self.layer(x)
        if self.how == "instance norm":
            return self.norm(x.view(-1, 4, 4)).reshape(x.shape).sin()
        if self.how == "batch norm":
            return F.batch_norm(x, self.mean, self.deviation, training=True).sin()
        if self.how == "observer":
            return torch.fused_moving_avg_obs_fake_quant(x, self.on, self.on, self.low, self.high, self.scale, self.zero, 0.05, 0, 255, -1, False, False)
        if self.how == "part":
            self.mean.view(4, 4)[0] += 1
        if self.how == "without gradients":
            self.mean += x.detach().mean(0)
        if self.how == "nothing":
            x = x * 1
            x[:, 0] = 0
            F.batch_norm(x, self.mean, self.deviation)
        return x.sin()

    def forward(self, x):
        with torch.set_grad_enabled(self.how != "without gradients"):  # else nothing runs again
            y = torch.utils.checkpoint.checkpoint(self.inner, x, use_reentrant=False)
        return self.layer(x + y)


@pytest.mark.core
@pytest.mark.parametrize("how", ["instance norm", "batch norm", "observer", "part", "nothing", "without gradients"])
def test_whatever_a_checkpoint_writes_twice_is_refused(how, server):
    model, x = WritesTwice(how), torch.randn(8, 16)
    plain = copy.deepcopy(model)
    if how not in ("nothing", "without gradients"):
        with pytest.raises(remat.CaptureError, match="writes it twice"):
            remat.fit(model, x, "130%", server=server)
        return
    remat.fit(model, x, "130%", server=server)
    assert_same(step(model, (x,), 0), step(plain, (x,), 0))


class Triples:
    def __init__(self, forward):
        self.forward = forward

    def __call__(self, x):
        return 3 * self.forward(x)


def a_patch(model):
    known = model.forward
    model.forward = lambda x: 2 * known(x)


PATCHES = {"lambda": a_patch, "method": lambda model: vars(model).update(forward=types.MethodType(lambda self, x: 4 * nn.Sequential.forward(self, x), model)),
           "partial": lambda model: vars(model).update(forward=functools.partial(lambda model, x, by: by * nn.Sequential.forward(model, x), model, by=5)),
           "object": lambda model: vars(model).update(forward=Triples(model.forward))}


@pytest.mark.core
@pytest.mark.parametrize("name", PATCHES)
def test_what_stands_in_place_of_a_forward_is_followed(name, server):
    """As by the patches of fused kernels, or self.forward = self.fast. It stands there again without the schedule."""
    model, (x,) = mlp()
    PATCHES[name](model)
    plain, own = copy.deepcopy(model), model.forward
    if name in ("lambda", "object"):  # what a copy of these calls is the original's
        plain = model
    expected = step(plain, (x,), 0)
    remat.fit(model, x, "100%", server=server)
    assert len(model.forward.pieces) == 1
    for each in (model.forward, types.MethodType(model.forward.__func__, model)):  # as accelerate takes it
        assert inspect.signature(each) == inspect.signature(own)
    assert_same(step(model, (x,), 0), expected)
    if name in ("method", "partial"):
        assert_same(step(copy.deepcopy(model), (x,), 0), expected)
    if name == "method":  # within what accelerate puts around it, whose copy has the original's function
        fitted, model.forward = model.forward, types.MethodType(model.forward.__func__, model)
        copied = copy.deepcopy(model)
        torch.nn.init.zeros_(copied[-1].weight)
        assert torch.equal(copied(x), 4 * copied[-1].bias.expand(len(x), -1))
        model.forward = fitted
    assert remat.remove(model).forward == own
    assert_same(step(model, (x,), 0), expected)


@pytest.mark.core
def test_graph_modules(server):
    model, (x,) = mlp()
    for made in (torch.fx.symbolic_trace(model), torch.export.export(model, (x,)).module()):
        expected = step(made, (x,), 0)
        assert_same(step(remat.fit(made, x, "100%", server=server), (x,), 0), expected)


@pytest.mark.core
def test_numbers_of_python_that_change_in_each_step_are_not_kept_for_good(server, monkeypatch):
    model, x = Keywords(), torch.randn(8, 16)
    plain = copy.deepcopy(model)
    for module in ("backend", "fitted"):
        monkeypatch.setattr(sys.modules[f"remat.{module}"], "SHAPES", 4)
    remat.fit(model, (x,), "100%", server=server)
    most = []
    for k in range(10):
        found = [each(x, scale=0.9**k) for each in (model, plain)]
        assert torch.equal(*found)
        most.append(len(model.forward.pieces))
    assert max(most) <= 4 and min(most) == 0
