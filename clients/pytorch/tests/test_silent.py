"""What a tracer could get wrong without a word: each is right, or refused with a message that names the line."""

import collections
import copy
import dataclasses
import functools
import io
import math
import operator
import os
import random
import re
import sys
import threading
import warnings

import numpy
import pytest
import torch
import torch.nn.functional as F
from models import mlp, vgg
from steps import assert_same, fit_tightly, loss_of, step
from torch import nn
from torch.autograd import forward_ad
from torch.nn.utils.stateless import functional_call
from torch.utils.checkpoint import checkpoint

import remat
from remat import trace

COUNTS = [0]
RATE = 2.0


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


class Scaled(torch.autograd.Function):
    """Saves its input and output, and takes what is no tensor."""

    @staticmethod
    def forward(ctx, x, factor):
        y = x * factor
        ctx.save_for_backward(x, y)
        ctx.factor = factor
        return y

    @staticmethod
    def backward(ctx, gradient):
        x, y = ctx.saved_tensors
        return gradient * ctx.factor * x.sign() + 0 * y, None


class Body(nn.Module):
    """Layers around `middle`, which each test writes."""

    def __init__(self, width=16):
        super().__init__()
        self.first, self.last = nn.Linear(width, width), nn.Linear(width, width)
        self.guide = nn.Linear(width, width)  # of its own: under autocast a cast made without gradients would be kept
        self.more = nn.ModuleList([nn.Linear(width, width) for _ in range(4)])
        self.tau, self.p, self.count, self.losses, self.settings = 1.0, 0.5, 0, [], {"scale": 3.0}
        self.register_buffer("queue", torch.zeros(4, width))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))

    def forward(self, x):
        x = self.middle(torch.tanh(self.first(x)))
        for part in self.more:
            x = torch.relu(part(x))
        return self.last(x)


def body(middle):
    torch.manual_seed(0)
    return type("Body", (Body,), {"middle": middle})(), torch.randn(8, 16)


def reverses(self, x):
    return Reversed.apply(x)


def scales(self, x):
    return Scaled.apply(Scaled.apply(x, 0.5), factor) if (factor := 2.0) else x


def half_without_gradients(self, x):
    with torch.no_grad():
        y = torch.exp(x)
        with torch.enable_grad():
            z = torch.exp(x)
    return x + y + z


@torch.no_grad()
def teacher(self, x):
    return self.guide(x)


def distils(self, x):
    return x * teacher(self, x)


def without_autocast(self, x):
    with torch.autocast("cpu", enabled=False):
        return (x.float() @ self.first.weight) * 3


def sparse_choice(self, x):
    """A size that depends on data, which Python does not ask for."""
    y = x * 1
    chosen = x.detach().sum(1).gt(0).nonzero().flatten()
    return y.index_add(0, chosen, x[chosen])


@pytest.mark.skipif(not hasattr(torch, "export"), reason=f"torch {torch.__version__} has no torch.export")
def test_right_by_export(server):
    model, x = body(asks_for_gradients)
    plain = copy.deepcopy(model)
    fit_tightly(model, x, server=server)
    assert_same(step(model, (x,), 0), step(plain, (x,), 0))


def normalizes(self, x):
    return F.batch_norm(x, self.mean, self.variance, training=True)


@pytest.mark.parametrize("middle", [normalizes, reverses, scales, half_without_gradients, distils, without_autocast, sparse_choice])
@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_right(middle, dtype, server):
    model, x = body(middle)
    plain = copy.deepcopy(model)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype is not None):
        fit_tightly(model, x, server=server)
        for seed in range(2):
            inputs = (torch.randn(8, 16, generator=torch.Generator().manual_seed(seed)),)
            assert_same(step(model, inputs, seed), step(plain, inputs, seed))


def item(self, x):
    return x / x.max().item()  # the line


def length(self, x):
    return x[:, :x.argmax().item() % 4 + 8].repeat(1, 16)[:, :16]  # the line


def bound(self, x):
    return x[:, :x.argmax().clamp(16, 16)]  # the line


def branches_on_a_size(self, x):
    chosen = x.gt(0).nonzero()
    if chosen.numel() > 0:  # the line
        return x * 2
    return x


def branches(self, x):
    return x if x.sum() > 0 else -x  # the line


def python_noise(self, x):
    return x * random.random()  # the line


def numpy_noise(self, x):
    return x + torch.from_numpy(numpy.random.randn(16).astype("float32"))  # the line


def own_generator(self, x, generator=numpy.random.default_rng(0)):
    return x * float(generator.random())  # the line


def counts(self, x):
    self.count += 1  # the line
    return x * self.count


def keeps_a_loss(self, x):
    self.aux = x.square().mean()  # the line
    return x


def writes_a_buffer(self, x):
    self.queue[0] = x[0].detach()  # the line
    return x + self.queue[:1]


def changes_a_weight(self, x):
    self.first.weight.data.mul_(0.9)  # the line
    return x


def appends(self, x):
    self.losses.append(1)
    return x


def counts_in_a_global(self, x):
    COUNTS[0] += 1
    return x


def asks_for_gradients(self, x):
    return x if x.requires_grad else -x  # the line


def infers(self, x):
    with torch.inference_mode():
        return x * 2  # the line


def past_setattr(self, x):
    self.__dict__["aux"] = x.mean()
    return x


def with_a_generator(self, x, generator=torch.Generator()):
    return x + torch.rand(x.shape, generator=generator)  # the line


REFUSED = [item, length, bound, branches_on_a_size, branches, python_noise, numpy_noise, own_generator, counts,
           keeps_a_loss, writes_a_buffer, changes_a_weight, appends, counts_in_a_global, infers, past_setattr,
           with_a_generator]
if not hasattr(torch, "export"):  # which knows
    REFUSED.append(asks_for_gradients)


def line_of(function):
    """Where the comment is, as file:line."""
    import inspect
    text, first = inspect.getsourcelines(function)
    places = [first + i for i, line in enumerate(text) if "# the line" in line]
    return f"{__file__}:{places[0]}" if places else ""


@pytest.mark.parametrize("middle", REFUSED)
def test_refused_naming_the_line(middle, server):
    """Here the modules within are scheduled and the forward around them runs as it is; as one of them it is refused."""
    model, x = body(middle)
    before = copy.deepcopy(model.state_dict()), {**vars(model)}, random.getstate()
    with pytest.raises(remat.CaptureError, match=re.escape(line_of(middle))) as caught:
        remat.profile(model, x)
    assert middle not in (appends, counts_in_a_global, past_setattr) or "changes" in str(caught.value)
    assert {**vars(model)} == before[1]
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), before[0].values()))


def with_a_teacher(self, x):
    """The same module with weights of its own, which are the module's when it is fitted."""
    with torch.no_grad():
        y = functional_call(self.guide, {"0.weight": self.average}, (x,))  # the line
    return self.guide(x) - 0.5 * y


def taught():
    model, x = body(with_a_teacher)
    model.guide = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16))
    model.register_buffer("average", model.guide[0].weight.detach().clone())
    return model, x


def compare_after_learning(model, plain, x):
    for each in (model, plain):
        with torch.no_grad():
            each.guide[0].weight.mul_(2)
    assert_same(step(model, (x,), 0), step(plain, (x,), 0))


def test_other_weights_than_its_own(server):
    model, x = taught()
    plain = copy.deepcopy(model)
    with pytest.raises(remat.CaptureError, match="other weights.*" + re.escape(line_of(with_a_teacher))):
        remat.profile(model, x)
    with pytest.warns(UserWarning, match="other weights.*scheduled are: guide"):
        remat.fit(model, x, "100%", server=server)
    compare_after_learning(model, plain, x)


def test_other_weights_from_outside(server):
    model, (x,) = mlp()
    fit_tightly(model, x, server=server)
    with pytest.raises(remat.MismatchError, match="other"):
        functional_call(model, {name: p * 2 for name, p in model.named_parameters()}, (x,))


class Adds(nn.Module):
    """To its input, that the caller still has."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16))

    def forward(self, x):
        x += 1
        return self.layers(x)


def compare_inputs(model, plain):
    for seed in range(2):
        given = [torch.randn(8, 16, generator=torch.Generator().manual_seed(seed)) for _ in range(2)]
        results = [each(x) for each, x in zip((model, plain), given)]
        assert_same([results[0], given[0]], [results[1], given[1]])


def test_an_input_that_is_written(server):
    model, x = Adds(), torch.randn(8, 16)
    plain, before = copy.deepcopy(model), x.clone()
    with pytest.raises(remat.CaptureError, match=r"changes its input .x. in place \(.*test_silent.py"):
        remat.profile(model, x)
    with pytest.warns(UserWarning, match="scheduled are: layers"):
        remat.fit(model, x, "100%", server=server)
    assert torch.equal(x, before)
    compare_inputs(model, plain)


def test_a_view_of_an_input_that_is_written(server):
    class Writes(Adds):
        def forward(self, x):
            x.view(-1)[3] = 1
            return self.layers(x)

    model, x = Writes(), torch.randn(8, 16)
    plain, before = copy.deepcopy(model), x.clone()
    with pytest.warns(UserWarning, match="the input \"x\" is changed.*scheduled are: layers"):
        remat.fit(model, x, "100%", server=server)
    assert torch.equal(x, before)
    compare_inputs(model, plain)


def zeroed(self, x):
    x = x.clone()
    x[:, 0] = 0
    return x


def of_a_weight(self, x):
    x = x * 2
    x[:, 1], y = self.last.weight.sum() * 2, x.sum(1, keepdim=True)
    x[:, 2] += 1
    return x + y


def masked(self, x):
    x = x + 1
    x[x > 1] = -1.0
    x[torch.tensor([0, 1]), torch.tensor([2, 3])] = self.last.bias.sum()
    return x


def by_parts(self, x):
    y = torch.zeros_like(x)
    for i in range(0, x.shape[1], 8):
        y[:, i:i + 8] = torch.sin(x)[:, i:i + 8]
    return y


def past_autograd(self, x):
    x = x * 2
    with torch.no_grad():
        x[0] = 3
    return x


def augmented(self, x):
    """The names that look into x see it: by views, aliases, rows and helpers."""
    x = x * 2
    whole, part, row = x, x[:, :8], x[1]
    part += 1
    row *= self.last.bias
    part[:, 1] -= 3
    operator.itruediv(x[2], 2.0)
    x **= 2
    return whole


@pytest.mark.parametrize("middle", [zeroed, of_a_weight, masked, by_parts, past_autograd, augmented])
def test_items_are_assigned(middle, server):
    model, x = body(middle)
    plain = copy.deepcopy(model)
    fit_tightly(model, x, server=server, repeats=1)
    assert not model.forward.alone
    for seed in range(2):
        x = torch.randn(8, 16, generator=torch.Generator().manual_seed(seed))
        assert_same(step(model, (x,), seed), step(plain, (x,), seed))


class Warms(Adds):
    """What is written is nothing yet when it is fitted."""

    def __init__(self):
        super().__init__()
        self.register_buffer("strength", torch.zeros(()))

    def forward(self, x):
        y = self.layers(x) * 1
        part = y[:, :1]
        part += self.strength
        return y * (1 + self.strength)


def test_what_is_made_of_a_buffer_is_made_in_each_step(server):
    model, x = Warms(), torch.randn(8, 16)
    plain = copy.deepcopy(model)
    remat.fit(model, x, "100%", server=server)
    for each in (model, plain):
        each.strength.fill_(1.0)
    compare_inputs(model, plain)


def set_data(self, x):
    y = x * 2
    y.data = y.data * self.last.bias.data.sum()
    return y


def test_data_that_is_set_is_refused(server):
    model, x = body(set_data)
    with pytest.raises(remat.CaptureError, match=r"sets .data. of a tensor.*test_silent.py"):
        remat.fit(model, x, "100%", server=server)


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = nn.LSTM(8, 8, batch_first=True)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(self.cells(packed)[0], batch_first=True, total_length=x.shape[1])[0]


class Sequences(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.packed, self.last = nn.Linear(8, 8), Packed(), nn.Linear(8, 8)

    def forward(self, x, lengths):
        return self.last(torch.tanh(self.packed(torch.tanh(self.first(x)), lengths)))


def test_packed_sequences_are_of_a_module(server):
    torch.manual_seed(0)
    model, x = Sequences(), torch.randn(4, 6, 8)
    plain = copy.deepcopy(model)
    remat.fit(model, (x, torch.tensor([6, 2, 1, 3])), "200%", server=server, repeats=1)
    assert model.forward.alone == ["packed"]
    for lengths in (torch.tensor([6, 2, 1, 3]), torch.tensor([1, 1, 2, 5])):
        assert_same(*(step(each, (x, lengths), 0) for each in (model, plain)))
    with pytest.raises(remat.CaptureError, match="a sequence is packed.*blocks="):
        remat.profile(Packed(), (x, torch.tensor([6, 2, 1, 3])))


class Particular(nn.Module):
    """Raises after its batch norm counted."""

    def __init__(self):
        super().__init__()
        self.norm, self.layers = nn.BatchNorm1d(16), nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16))

    def forward(self, x):
        x = self.norm(x)
        if len(x) == 3:
            raise ValueError("not three")
        return self.layers(x)


def test_an_error_of_the_users_own_is_raised_as_it_is(server):
    model, x = Particular(), torch.randn(8, 16)
    plain = copy.deepcopy(model)
    remat.fit(model, x, "100%", server=server)
    for each in (model, plain):
        with pytest.raises(ValueError, match="not three"):
            each(x[:3])
    assert_same(step(model, (x,), 0), step(plain, (x,), 0))


class Reentrant(Adds):
    def forward(self, x):
        return checkpoint(self.layers, x * self.layers[0].weight.mean(), use_reentrant=True)


class Frozen(Adds):
    def forward(self, x):
        return self.layers(x.detach()).detach()


class Energy(Adds):
    def forward(self, x):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(self.layers(x).square().sum(), x, create_graph=True)[0]


WITHOUT_GRADIENTS = [(Reentrant, "use_reentrant=False"), (Frozen, "nothing.*needs a gradient"),
                     (Energy, "differentiates its own")]


@pytest.mark.parametrize("kind,message", WITHOUT_GRADIENTS)
def test_gradients_that_cannot_be_had(kind, message, server):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(remat.CaptureError, match=message):
            remat.fit(kind(), torch.randn(8, 16), "100%", server=server, loss=lambda y: y.square().mean())


def test_a_buffer_that_one_changes_and_another_reads_is_refused(server):
    def middle(self, x):
        return normalizes(self, x) + self.mean

    model, x = body(middle)
    with pytest.raises(remat.CaptureError, match="add .* reads the buffer \"mean\", which another"):
        remat.profile(model, x)


class Encoder(nn.Module):
    def __init__(self, middle):
        super().__init__()
        self.layers = nn.Sequential(*(part for _ in range(6) for part in (nn.Linear(16, 16), nn.Tanh())))
        self.body = body(middle)[0]

    def forward(self, x):
        return self.body(self.layers(x))


@pytest.mark.parametrize("middle", [keeps_a_loss, counts, writes_a_buffer, changes_a_weight])
def test_effects_within_are_left_outside_of_the_schedule(middle, server):
    """What can be scheduled beside a module with an effect is; the rest is plain, and a warning says which."""
    model, x = Encoder(middle), torch.randn(32, 16)
    plain = copy.deepcopy(model)
    with pytest.warns(UserWarning, match=re.escape(line_of(middle)) + ".*scheduled are: layers"):
        remat.fit(model, x, "100%", server=server)
    assert plain.state_dict().keys() == model.state_dict().keys()
    assert_same(list(model.state_dict().values()), list(plain.state_dict().values()))
    for seed in range(2):
        assert_same(step(model, (x,), seed), step(plain, (x,), seed))
    assert model.body.count == plain.body.count


def tau(self, x):
    return x * self.tau


def probability(self, x):
    return F.dropout(x, self.p)


def setting(self, x):
    return x * self.settings["scale"]


def rate(self, x):
    return x * RATE


@pytest.mark.parametrize("middle,name", [(tau, "tau"), (probability, "p"), (setting, "settings"), (rate, "RATE")])
def test_python_state_that_changes_is_seen(middle, name, server, monkeypatch):
    model, x = body(middle)
    plain = copy.deepcopy(model)
    fit_tightly(model, x, server=server)
    assert_same(step(model, (x,), 0), step(plain, (x,), 0))
    loss = loss_of(model(x))
    for each in (model, plain):
        each.tau, each.p, each.settings["scale"] = 0.5, 0.1, 1.5
    monkeypatch.setitem(globals(), "RATE", 5.0)
    with pytest.raises(remat.MismatchError, match=f"\"{name}\""):
        model(x)
    if any(o[0] in "FA" for o in model.forward.schedule["operations"][2 * len(model.forward.profile["nodes"]):]):
        with pytest.raises(RuntimeError, match=f"\"{name}\""):
            loss.backward()
    model.forward._mismatch = "plain"
    with pytest.warns(UserWarning, match=f"\"{name}\".*without its schedule"):
        assert_same(step(model, (x,), 0), step(plain, (x,), 0))


class Slotted:
    __slots__ = ("v",)

    def __init__(self):
        self.v = 1.0


class Called:
    v = 1.0

    def __call__(self, x):
        return x * self.v


class Shown(Body):
    def __getattr__(self, name):
        return self.__dict__["tau"] if name == "shown" else super().__getattr__(name)


def helper(x):
    return x * 2


HOLDERS = {  # what is held, how the forward reads it, how it is changed
    "slots": (Slotted, lambda self, x: x * self.held.v, lambda held: setattr(held, "v", 2.0)),
    "deep": (lambda: {"a": [{"b": [{"c": 1.0}]}]}, lambda self, x: x * self.held["a"][0]["b"][0]["c"],
             lambda held: held["a"][0]["b"][0].update(c=2.0)),
    "deque": (lambda: collections.deque([1.0]), lambda self, x: x * self.held[0], lambda held: held.appendleft(2.0)),
    "array": (lambda: numpy.ones(16, "float32"), lambda self, x: x * torch.tensor(self.held.tolist()), lambda held: held.fill(2)),
    "called": (Called, lambda self, x: self.held(x), lambda held: setattr(held, "v", 2.0)),
    "environment": (lambda: os.environ, lambda self, x: x * float(os.environ.get("REMAT_HELD", "1")),
                    lambda held: held.update(REMAT_HELD="2"))}


@pytest.mark.parametrize("name", HOLDERS)
def test_what_is_held_deep_is_seen_to_change(name, server, monkeypatch):
    make, middle, change = HOLDERS[name]
    monkeypatch.setenv("REMAT_HELD", "1")
    model, x = body(middle)
    object.__setattr__(model, "held", make())
    fit_tightly(model, x, server=server)
    step(model, (x,), 0)
    change(model.held)
    with pytest.raises(remat.MismatchError, match="\"held\"|os.environ"):
        model(x)


def test_code_that_is_another_is_seen(server, monkeypatch):
    """Functions that attributes and globals are, methods, and what is read past getattr."""
    def calls(self, x):
        return self.act(helper(x)) * self.shown

    model, x = type("Body", (Shown,), {"middle": calls})(), torch.randn(8, 16)
    model.act = torch.tanh
    fit_tightly(model, x, server=server)
    for holder, name, value, message in ((model, "act", torch.relu, "\"act\""), (model, "tau", 0.5, "attribute"),
                                         (sys.modules[__name__], "helper", lambda x: x * 3, "\"helper\""),
                                         (type(model), "middle", lambda self, x: x, "\"middle\""),
                                         (nn.Linear, "forward", lambda self, x: x, "the forward of Linear")):
        with monkeypatch.context() as changed:
            changed.setattr(holder, name, value)
            with pytest.raises(remat.MismatchError, match=message):
                model(x)
        model(x)


def test_more_than_can_be_compared_is_refused(server):
    model, x = body(lambda self, x: x * self.table[0])
    model.table = [1.0] * 30000
    with pytest.raises(remat.CaptureError, match="\"table\".*too many to compare"):
        remat.fit(model, x, "100%", server=server)


def test_derivatives_of_another_kind(server):
    """Forward mode runs plainly; a backward through a backward is an error, not zero."""
    model, (x,) = mlp()
    plain = copy.deepcopy(model)
    fit_tightly(model, x.requires_grad_(), server=server)
    found = []
    for each in (model, plain):
        with forward_ad.dual_level():
            found.append(forward_ad.unpack_dual(each(forward_ad.make_dual(x.detach(), torch.ones_like(x)))).tangent)
    assert_same(found[:1], found[1:])
    gradients = torch.autograd.grad(model(x).sum(), list(model.parameters()), create_graph=True)
    with pytest.raises(RuntimeError, match="create_graph"):
        (model(x).sum() + sum(g.square().sum() for g in gradients)).backward()


def test_what_cannot_be_planned_says_why(server):
    with pytest.raises(remat.CaptureError, match="DistributedDataParallel"):
        remat.fit(nn.DataParallel(mlp()[0]), mlp()[1], "100%", server=server)
    with pytest.raises(remat.CaptureError, match="nothing that needs a gradient"):
        remat.fit(mlp()[0].requires_grad_(False), mlp()[1], "100%", server=server)


def test_an_argument_may_be_called_as_a_module(server):
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(16, 16), nn.Linear(16, 16)

        def forward(self, a):
            return self.b(torch.tanh(self.a(a)))

    model, x = Named(), torch.randn(8, 16)
    plain = copy.deepcopy(model)
    remat.fit(model, x, "100%", server=server)
    assert_same(step(model, (x,), 0), step(plain, (x,), 0))


@pytest.mark.parametrize("change,message", [
    (lambda m: m.add_module("extra", nn.Linear(2, 2)), "the model .* has other modules"),
    (lambda m: setattr(m[0], "weight", nn.Parameter(torch.zeros(64, 64))), "\"0\" .* other parameters"),
    (lambda m: m[1].register_forward_hook(lambda *_: None), "\"1\" .* other hooks"),
    (lambda m: m[0].weight.requires_grad_(False), "frozen")])
def test_what_is_added_after_fit_is_seen(change, message, server):
    model, (x,) = mlp()
    remat.fit(model, x, "85%", server=server)
    change(model)
    with pytest.raises(remat.MismatchError, match=message):
        model(x)


def test_weights_changed_between_forward_and_backward(server):
    for budget in ("70%", "120%"):
        model, (x,) = mlp()
        remat.fit(model, x, budget, server=server)
        loss = loss_of(model(x))
        with torch.no_grad():
            model[4].weight.mul_(0.5)
        with pytest.raises(RuntimeError, match="changed between forward and backward"):
            loss.backward()
        remat.remove(model)


def test_another_autocast_is_a_mismatch(server):
    model, (x,) = mlp()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        fit_tightly(model, x, server=server)
    with pytest.raises(remat.MismatchError, match="autocast is .*False.*it was .*True"):
        model(x)


@pytest.mark.parametrize("fit", [fit_tightly, functools.partial(remat.fit, budget="120%")])
def test_copies_and_pickles(fit, server):
    model, inputs = vgg()
    plain = copy.deepcopy(model)
    fit(model, inputs, server=server)
    twin, file = copy.deepcopy(model), io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
    for other in (twin, loaded):
        assert other.forward.model is other and other.forward.schedule == model.forward.schedule
        fresh = copy.deepcopy(plain)
        assert_same(step(other, inputs, 1), step(fresh, inputs, 1))
        assert any(p.grad.abs().sum() > 0 for p in other.parameters())
    assert all(p.grad is None for p in model.parameters())
    with pytest.raises(remat.MismatchError, match="input"):
        copy.deepcopy(model)(inputs[0][:2])


def test_a_schedule_that_is_off_says_so_once(server):
    model, inputs = vgg()
    fit_tightly(model, inputs, server=server)
    model[0][1].eval()
    with pytest.warns(UserWarning, match=r"\"0.1\" \(BatchNorm2d\) is in eval mode.*without its schedule"):
        model(*inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(*inputs)
        model[0][1].train()
        model(*inputs)
    with pytest.warns(UserWarning, match="does not answer.*without a schedule"):
        remat.fit(mlp()[0], mlp()[1], "60%", server="http://127.0.0.1:9", offline="plain")


class Words(nn.Module):
    def __init__(self, **more):
        super().__init__()
        self.words, self.out = nn.Embedding(200, 16, **more), nn.Linear(16, 4)
        self.middle = nn.Sequential(*(part for _ in range(4) for part in (nn.Linear(16, 16), nn.Tanh())))

    def forward(self, ids):
        return self.out(self.middle(self.words(ids)))


def test_sparse_gradients(server):
    model, ids = Words(sparse=True), torch.randint(200, (16, 4))
    plain = copy.deepcopy(model)
    fit_tightly(model, ids, server=server)
    found, expected = step(model, (ids,), 0), step(plain, (ids,), 0)
    assert found[1].is_sparse and expected[1].is_sparse
    assert_same([t.to_dense() if t is not None and t.is_sparse else t for t in found],
                [t.to_dense() if t is not None and t.is_sparse else t for t in expected])


def scripted():
    torch.manual_seed(0)
    model = Words()
    model.middle[0] = torch.jit.script(nn.Sequential(nn.Linear(16, 16), nn.ReLU()))
    return model, torch.randint(200, (16, 4))


def test_scripted_modules(server):
    (model, ids), (plain, _) = scripted(), scripted()
    remat.fit(model, ids, "95%", server=server)
    for seed in range(3):
        assert_same(step(model, (ids,), seed), step(plain, (ids,), seed))
    with pytest.raises(remat.CaptureError, match="is scripted"):
        remat.fit(torch.jit.script(Words()), ids, "95%", server=server)


def hooked():
    torch.manual_seed(0)
    model, (x,) = mlp()
    model[4].weight = model[0].weight
    nn.utils.weight_norm(model[2])
    model[6].register_forward_hook(lambda module, inputs, output: output * 2)
    model[8].register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 3,))
    return model, x


def test_hooks_and_shared_weights(server):
    (model, x), (plain, _), seen = hooked(), hooked(), []
    fit_tightly(model, x, server=server)
    assert_same(step(model, (x,), 0), step(plain, (x,), 0))
    remat.remove(model)
    model[10].register_forward_hook(lambda module, inputs, output: seen.append(1))
    with pytest.raises(remat.CaptureError, match="changes \"seen\""):
        remat.fit(model, x, "85%", server=server)
    assert math.isfinite(loss_of(plain(x)))


@dataclasses.dataclass
class Answer:
    logits: torch.Tensor
    loss: torch.Tensor = None
    given: tuple = ()


class Attending(nn.Module):
    """A module that returns what is not there; a dataclass, with an input in it; arguments that are not used."""

    def __init__(self):
        super().__init__()
        self.attention = nn.ModuleList([nn.MultiheadAttention(16, 4, batch_first=True) for _ in range(4)])
        self.out = nn.Linear(16, 16)

    def forward(self, x, y=None, *more, scale=1.0, **others):
        z = x
        for part in self.attention:
            z = z + part(z, z, z, need_weights=False)[0] * scale
        z = self.out(z)
        return Answer(z, loss=None if y is None else F.mse_loss(z, y), given=(x, {"out": self.out.weight}))


def test_results_of_any_kind(server):
    model, x, y = Attending(), torch.randn(4, 8, 16), torch.randn(4, 8, 16)
    plain = copy.deepcopy(model)
    fit_tightly(model, {"x": x, "y": y}, server=server)
    assert model.forward.alone == []
    found = []
    for each in (model, plain):
        answer = each(x, y)
        assert type(answer) is Answer and answer.given[0] is x and answer.given[1]["out"] is each.out.weight
        answer.loss.backward()
        found.append([answer.logits, answer.loss, *(p.grad for p in each.parameters())])
    assert_same(*found)
    with pytest.raises(remat.MismatchError, match=r"input \"\*\*others\""):
        model(x, y, other=1)
    remat.remove(model)
    with pytest.raises(remat.CaptureError, match=r"takes \*\*others"):
        remat.fit(model, {"x": x, "y": y, "other": 1}, "100%", server=server)


class Looks(nn.Module):
    """Uses a weight without gradients and with, within one autocast, beside a greater gradient from elsewhere."""

    def __init__(self, detached=False, **how):
        super().__init__()
        self.first, self.both, self.detached, self.how = nn.Linear(16, 16), nn.Linear(16, 16), detached, how

    def forward(self, x):
        x = torch.tanh(self.first(x))
        with torch.autocast("cpu", dtype=torch.bfloat16, **self.how):
            with torch.no_grad():
                seen = self.both(x)
            y = self.both(x)
        y = y.detach() if self.detached else y
        return self.both(x + (y * seen).float() * 0.01)


REFUSED_CASTS = [{}, {"cache_enabled": True}]
ALLOWED_CASTS = [{"cache_enabled": False}, {"detached": True}]


@pytest.mark.parametrize("how", REFUSED_CASTS)
def test_a_cast_that_is_kept_without_gradients(how, server):
    with pytest.raises(remat.CheckError, match='"both.weight" has a gradient from 1 of its 2 uses.*cache_enabled=False'):
        remat.fit(Looks(**how), torch.randn(8, 16), "200%", server=server)


@pytest.mark.parametrize("how", ALLOWED_CASTS)
def test_a_cast_that_is_not_kept_or_needs_no_gradient(how, server):
    model, x = Looks(**how), torch.randn(8, 16)
    plain = copy.deepcopy(model)
    remat.fit(model, x, "200%", server=server)
    assert_same(*(step(each, (x,), 0) for each in (model, plain)))


class Meddler:
    """Within a trace, has another thread run a model, and a third one begin a fit."""

    def __init__(self, run, fit):
        self.run, self.fit, self.found, self.main = run, fit, [], threading.get_ident()

    def call_module(self, original, tracer, *args):
        if threading.get_ident() == self.main and not self.found:
            runs = threading.Thread(target=lambda: self.found.append(self.run()))
            runs.start()
            runs.join()
            self.fit.start()
        return original(tracer, *args)


def meddled(tracer, meddler, original, *args):
    return meddler.call_module(original, tracer, *args)


def test_other_threads_while_it_is_traced(server, monkeypatch):
    torch.manual_seed(0)
    models = [body(augmented)[0] for _ in range(2)]
    plains, x, (other, (given,)) = copy.deepcopy(models), torch.randn(8, 16), mlp()
    fits = threading.Thread(target=lambda: remat.fit(models[1], x, "200%", server=server, repeats=1))
    meddler, expected = Meddler(functools.partial(other, given), fits), other(given)
    original = trace._Tracer.call_module
    monkeypatch.setattr(trace._Tracer, "call_module", functools.partialmethod(meddled, meddler, original))
    remat.fit(models[0], x, "200%", server=server, repeats=1)
    fits.join()
    assert_same(meddler.found, [expected])
    for model, plain in zip(models, plains):
        assert model.forward.schedule and not model.forward.alone
        assert_same(step(model, (x,), 0), step(plain, (x,), 0))
