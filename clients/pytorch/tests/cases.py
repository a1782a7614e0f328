"""Forwards of which a tracer could get something wrong without a word."""

import copy
import dataclasses
import random
import warnings

import numpy
import pytest
import torch
import torch.nn.functional as F
from models import mlp
from steps import assert_same, step
from torch import nn
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint

import remat

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


def normalizes(self, x):
    return F.batch_norm(x, self.mean, self.variance, training=True)


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


def past_setattr(self, x):
    self.__dict__["aux"] = x.mean()
    return x


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


def gradients_that_cannot_be_had(kind, message, server):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(remat.CaptureError, match=message):
            remat.fit(kind(), torch.randn(8, 16), "100%", server=server, loss=lambda y: y.square().mean())


def tau(self, x):
    return x * self.tau


def probability(self, x):
    return F.dropout(x, self.p)


def setting(self, x):
    return x * self.settings["scale"]


def rate(self, x):
    return x * RATE


class Words(nn.Module):
    def __init__(self, **more):
        super().__init__()
        self.words, self.out = nn.Embedding(200, 16, **more), nn.Linear(16, 4)
        self.middle = nn.Sequential(*(part for _ in range(4) for part in (nn.Linear(16, 16), nn.Tanh())))

    def forward(self, ids):
        return self.out(self.middle(self.words(ids)))


def scripted():
    torch.manual_seed(0)
    model = Words()
    model.middle[0] = torch.jit.script(nn.Sequential(nn.Linear(16, 16), nn.ReLU()))
    return model, torch.randint(200, (16, 4))


def hooked():
    torch.manual_seed(0)
    model, (x,) = mlp()
    model[4].weight = model[0].weight
    nn.utils.weight_norm(model[2])
    model[6].register_forward_hook(lambda module, inputs, output: output * 2)
    model[8].register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 3,))
    return model, x


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


def a_cast_that_is_kept_without_gradients(how, server):
    """Of today's torch it is made anew where gradients are wanted, and the plain step has them."""
    model, x = Looks(**how), torch.randn(8, 16)
    plain, anew = copy.deepcopy(model), copy.deepcopy(model)
    anew.how = {"cache_enabled": False}
    weights = [step(each, (x,), 0) and each.both.weight.grad for each in (plain, anew)]
    if not torch.allclose(*weights, rtol=1e-2, atol=1e-3):
        with pytest.raises(remat.CheckError, match='"both.weight" has a gradient from 1 of its 2 uses.*cache_enabled=False'):
            remat.fit(model, x, "200%", server=server)
        return
    remat.fit(model, x, "200%", server=server)
    assert_same(*(step(each, (x,), 0) for each in (model, plain)))


def a_cast_that_is_not_kept_or_needs_no_gradient(how, server):
    model, x = Looks(**how), torch.randn(8, 16)
    plain = copy.deepcopy(model)
    remat.fit(model, x, "200%", server=server)
    assert_same(*(step(each, (x,), 0) for each in (model, plain)))
