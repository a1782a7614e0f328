"""remat.fit as a training script uses it, and what it says when it cannot."""

import concurrent.futures
import copy
import gc
import inspect
import math
import sys
import threading
import types
import warnings

import pytest
import torch
from models import GPT, MODELS, Block, mlp, vgg
from steps import assert_same, fit_tightly, loss_of, step
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

import remat
from remat import steps
from remat.client import parse_budget
from remat.model import Example, plain_forward


def train(model, inputs, steps=4):
    torch.manual_seed(7)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(model(*inputs)).backward()
        optimizer.step()
    return [*model.state_dict().values(), torch.get_rng_state()]


@pytest.mark.core
@pytest.mark.parametrize("name", ["vgg", "gpt", "triplet"])
def test_training_is_the_plain_training(name, server):
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    plain = copy.deepcopy(model)
    before = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    assert fit_tightly(model, inputs, server=server) is model
    assert_same([*model.state_dict().values(), torch.get_rng_state()], [*before[0].values(), before[1]])
    assert_same(train(model, inputs), train(plain, inputs))
    assert model.forward.schedule["recomputed_time"] > 0
    model.eval(), plain.eval()
    with torch.no_grad():
        assert_same(list(map(loss_of, [model(*inputs)])), list(map(loss_of, [plain(*inputs)])))
    assert_same(step(model, inputs, 3), step(plain, inputs, 3))


def test_input_gradients_two_forwards_and_noise_between(server):
    model, inputs = vgg()
    plain, x = copy.deepcopy(model), inputs[0].requires_grad_()
    fit_tightly(model, x, server=server)
    found = []
    for each in (model, plain):
        torch.manual_seed(1)
        first = each(x)
        torch.rand(3)
        second = each(2 * x)
        torch.rand(3)
        (loss_of(first) + loss_of(second)).backward()
        found.append([*(p.grad for p in each.parameters()), x.grad, *each.buffers(), torch.get_rng_state()])
        x.grad = None
    assert_same(*found)


@pytest.mark.core
def test_keyword_arguments_and_loss_in_the_model(server):
    model = GPT()
    ids = torch.randint(97, (2, 24))
    remat.fit(model, {"ids": ids, "targets": ids}, "85%", server=server)
    loss = model(ids=ids, targets=ids)["loss"]
    loss.backward()
    assert loss.dim() == 0 and model.head.weight.grad is model.tokens.weight.grad is not None
    assert model(ids).shape == (2, 24, 97)


def test_autocast(server):
    model, inputs = mlp()
    plain = copy.deepcopy(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        fit_tightly(model, inputs, server=server)
    found = []
    for each in (model, plain):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = each(*inputs)
        assert out.dtype == torch.bfloat16
        loss_of(out).backward()
        found.append([p.grad for p in each.parameters()])
    assert_same(*found)


@pytest.mark.core
def test_misuse_is_an_error(server):
    model, (x,) = mlp()
    remat.fit(model, x, "60%", server=server)
    loss = loss_of(model(x))
    loss.backward(retain_graph=True)
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()
    with pytest.raises(remat.CaptureError, match="remat.remove"):
        remat.fit(model, x, "60%", server=server)
    assert "forward" not in remat.remove(model).__dict__
    with pytest.raises(remat.ServiceError, match="link.bandwidth must be"):
        remat.fit(model, x, "60%", server=server, link={"bandwidth": 12e9})


@pytest.mark.core
def test_what_is_refused_says_so(server):
    model = nn.Sequential(*(nn.Linear(32, 32) for _ in range(4)))
    parts = [torch.randn(n, 32) for n in (3, 5)]
    for layout in (torch.jagged, torch.strided):
        with pytest.raises(remat.CaptureError, match="an input of Sequential is a nested tensor.*give a padded one"):
            remat.fit(model, torch.nested.nested_tensor(parts, layout=layout), "70%", server=server, loss=lambda out: out.values().sum())
    lazy = nn.Sequential(nn.LazyLinear(32), nn.Tanh(), nn.Linear(32, 32))
    with pytest.raises(remat.CaptureError, match="Sequential has parameters that its first call makes.*call it once"):
        remat.fit(lazy, torch.randn(8, 32), "90%", server=server)
    with pytest.raises(remat.CaptureError, match="Sequential: too many positional arguments"):
        remat.fit(model, (torch.randn(8, 32), 3), "90%", server=server)
    remat.fit(model, torch.randn(64, 32), "90%", server=server)
    with pytest.raises(TypeError, match="takes 2 positional arguments but 3 were given"):  # as a plain call
        model(torch.randn(64, 32), 3)


@pytest.mark.core
@pytest.mark.parametrize("loss", [lambda out: (out.abs() ** 2).mean(), None])
def test_complex_results(loss, server):
    torch.manual_seed(0)
    model, x = nn.Sequential(*(part for _ in range(4) for part in (nn.Linear(32, 32, dtype=torch.cfloat), nn.Tanh()))), torch.randn(256, 32, dtype=torch.cfloat)
    plain = copy.deepcopy(model)
    remat.fit(model, x, "70%", server=server, loss=loss)
    found = []
    for each in (model, plain):
        (each(x).abs() ** 2).mean().backward()
        found.append([p.grad for p in each.parameters()])
    assert_same(*found)
    assert model.forward.schedule["overhead"] > 0 and model.forward.measured_peak <= 1.02 * model.forward.budget


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = (nn.Sequential(*(part for _ in range(4) for part in (nn.Linear(32, 32), nn.GELU()))) for _ in range(2))

    def forward(self, x):
        return self.decoder(torch.tanh(self.encoder(x)))


@pytest.mark.core
def test_parts_of_a_model_have_budgets_of_their_own(server):
    torch.manual_seed(0)
    model, x = Two(), torch.randn(512, 32)
    plain = copy.deepcopy(model)
    for part, share in ((model.encoder, 0.6), (model.decoder, 0.85)):
        example = torch.randn(512, 32, requires_grad=part is model.decoder)
        alone = steps.peak(plain_forward(part), Example(part, example), None, True)
        remat.fit(part, example, f"{100 * share:g}%", server=server)
        assert part.forward.measured_peak <= share * alone
    assert_same(train(model, (x,)), train(plain, (x,)))
    assert [len(part.forward.pieces) for part in model.children()] == [1, 1]  # the examples were as the training has them
    taken = [steps.peak(plain_forward(each), Example(each, x), None, True) for each in (model, plain)]
    assert taken[0] < 0.7 * taken[1]
    with pytest.raises(remat.CaptureError, match="Two, in its encoder, has a schedule already"):
        remat.fit(model, x, "60%", server=server)
    assert not any("forward" in vars(part) for part in remat.remove(model).modules())
    remat.fit(model, x, "80%", server=server)
    with pytest.raises(remat.CaptureError, match="Sequential is a part of Two, which has a schedule; remat.remove that"):
        remat.fit(model.encoder, x, "60%", server=server)
    remat.remove(model)
    remat.fit(model.encoder, x, "80%", server=server)


@pytest.mark.core
@pytest.mark.parametrize("budget", [-1, 10**30, math.nan, math.inf, 0.5, "many", "-3GiB", "12XB", None, True])
def test_bad_budgets(budget, server):
    model, x = mlp()
    with pytest.raises(remat.BudgetError, match="the budget is"):
        remat.fit(model, x, budget, server=server)


def test_a_budget_too_small_names_the_least(server):
    model, x = mlp()
    with pytest.raises(remat.BudgetError, match="[0-9]+ bytes") as caught:
        remat.fit(model, x, 1000, server=server)
    assert caught.value.minimum_budget > 1000
    remat.fit(model, x, caught.value.minimum_budget, server=server, repeats=1)


@pytest.mark.core
def test_amounts():
    assert [parse_budget(b) for b in ("1KiB", "1.001KB", "2 GB", 5, "60%")] == [1024, 1001, 2 * 10**9, 5, "60%"]
    with pytest.raises(remat.BudgetError, match="99%'; the most is"):
        parse_budget("9" * 400 + "%")


@pytest.mark.core
@pytest.mark.parametrize("folder", ["/proc/x", "/dev/null"])
def test_a_cache_that_cannot_be_is_named(server, folder):
    model, inputs = mlp()
    with pytest.raises(ValueError, match=f"cache is '{folder}', which cannot be a folder"):
        remat.fit(model, inputs, "60%", server=server, cache=folder)


def test_a_plan_outlives_the_service(server, tmp_path):
    nowhere = "http://127.0.0.1:9"
    torch.manual_seed(0)
    model, inputs = mlp()
    twin = copy.deepcopy(model)
    with pytest.raises(remat.ServiceError, match="127.0.0.1:9 does not answer"):
        remat.fit(model, inputs, "60%", server=nowhere)
    remat.fit(model, inputs, "60%", server=server)
    remat.fit(twin, inputs, "60%", server=nowhere)  # out of the cache
    assert twin.forward.schedule == model.forward.schedule
    torch._dynamo.reset()
    with pytest.raises(remat.ServiceError):
        remat.fit(mlp()[0], inputs, "61%", server=nowhere)


def test_effort_is_asked_for_and_part_of_the_plan(server):
    model, inputs = mlp()
    remat.fit(model, inputs, "60%", server=server)
    with pytest.raises(remat.ServiceError, match="does not answer"):  # that plan is of another effort
        remat.fit(mlp()[0], inputs, "60%", server="http://127.0.0.1:9", effort="thorough")
    with pytest.raises(remat.ServiceError, match='there is no effort "hasty"'):
        remat.fit(mlp()[0], inputs, "60%", server=server, effort="hasty")
    remat.fit(mlp()[0], inputs, "60%", server=server, effort="thorough")
    remat.fit(mlp()[0], inputs, "60%", server="http://127.0.0.1:9", effort="thorough")  # out of the cache


def test_compare(server):
    model, inputs = vgg()
    before, generator = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    table = remat.compare(model, inputs, ["100%", "85%"], steps=2, server=server)
    assert torch.equal(torch.get_rng_state(), generator)
    assert_same(list(model.state_dict().values()), list(before.values()))
    names = [row.name for row in table.rows]
    assert names[:4] == ["plain", "checkpoint per block", "100%", "85%"]
    rows = dict(zip(names, table.rows))
    assert rows["100%"].solver and len(str(table).splitlines()) == len(names) + 1
    assert rows["85%"].measured_peak < rows["100%"].measured_peak and "forward" not in model.__dict__
    assert all("forward" not in part.__dict__ for part in model)
    for name in names[4:]:  # of those there are only such as were found
        assert rows[name].measured_peak <= rows[name.replace("at the peak of ", "")].measured_peak


def test_compare_with_checkpointed_blocks(server):
    """A GPT's blocks: the checkpointed step takes less than the plain one, and ours no more than that. What stands in place of a forward stays."""
    model, ids = GPT(width=64, length=64, depth=4), torch.randint(97, (4, 64))
    own = model.forward = types.MethodType(GPT.forward, model)
    table = remat.compare(model, (ids, ids), ["100%"], steps=1, server=server, loss=lambda y: y["loss"],
                          checkpointed=(Block,))
    rows = {row.name: row for row in table.rows}
    checkpointed = rows["checkpoint per block"]
    assert checkpointed.measured_peak < rows["plain"].measured_peak
    assert rows["at the peak of checkpoint per block"].measured_peak <= checkpointed.measured_peak
    with pytest.raises(ValueError, match="GPT has no module"):
        remat.compare(model, (ids, ids), server=server, checkpointed=(nn.Conv3d,))
    assert model.forward is own


def test_compare_of_a_model_in_training(server):
    """It keeps its schedule, and the gradients that it has by then. Graphs that share a budget have no schedule of all."""
    model, x = Halved(), torch.randn(256, 64).requires_grad_()
    with pytest.warns(UserWarning, match="breaks the graph"):
        remat.fit(model, x, "90%", server=server)
    fitted = model.forward
    model(x.detach()).square().sum().backward()
    before = [(p.grad, p.grad.clone()) for p in model.parameters()]
    with pytest.warns(UserWarning, match="breaks the graph"):
        rows = remat.compare(model, x, ["100%"], steps=1, server=server).rows
    assert model.forward is fitted and [row.name for row in rows] == ["plain", "100%"]
    assert rows[1].solver == "several" and rows[1].predicted_peak is None and rows[1].measured_peak <= rows[1].budget
    for p, (gradient, numbers) in zip(model.parameters(), before):
        assert p.grad is gradient and torch.equal(gradient, numbers)
    assert x.grad is None


class Halved(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = mlp()[0][:6], mlp()[0][6:12]

    def forward(self, x):
        x = self.first(x)
        torch._dynamo.graph_break()
        return self.last(x)


def test_what_is_reserved_comes_off_a_divided_budget_once(server):
    x, measured = torch.randn(256, 64), []
    plain = steps.peak(plain_forward(Halved()), Example(Halved(), x), None, True)
    for more in (0, plain // 2, 3 * plain):
        model = Halved()
        with pytest.warns(UserWarning, match="breaks the graph"):
            remat.fit(model, x, int(0.9 * plain) + more, reserved=more, server=server)
        measured.append(model.forward.measured_peak)
        assert model.forward.limit == int(0.9 * plain) - int(0.9 * plain) // 500
    assert max(measured) <= 0.9 * plain and min(measured) == max(measured)


@pytest.mark.core
def test_shares_of_a_divided_budget_are_tried_without_following_anew(server, monkeypatch):
    """And what is served holds for other inputs, other sizes and copies."""
    Backend, traced = sys.modules["remat.backend"].Backend, []
    monkeypatch.setattr(Backend, "__call__", lambda self, *given, call=Backend.__call__: traced.append(self) or call(self, *given))
    model, x = Halved(), torch.randn(256, 64)
    plain, whole = copy.deepcopy(model), steps.peak(plain_forward(Halved()), Example(Halved(), x), None, True)
    with pytest.warns(UserWarning, match="breaks the graph"):
        remat.fit(model, x, int(0.9 * whole), server=server)
    fitted = model.forward
    assert str(fitted.budget).endswith("%") and len(traced) == 2 and traced[0] is not fitted.backend and fitted.measured_peak <= 0.9 * whole
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for each in (model, copy.deepcopy(model)):
            for given in (x, torch.randn(64, 64), 2 * x):
                assert_same(step(each, (given,), 0), step(plain, (given,), 0))
    assert fitted.backend.calls and all(piece in fitted.pieces for piece in fitted.backend.calls)


@pytest.mark.core
@pytest.mark.parametrize("reserved", [1.5, "10KiB", None, -1, True, torch.tensor(9)])
def test_what_is_reserved_is_a_number_of_bytes(reserved, server):
    with pytest.raises(ValueError, match=r"reserved is .*; it must be a whole number, 0 or more"):
        remat.fit(mlp()[0], mlp()[1], 10 ** 7, reserved=reserved, server=server)


@pytest.mark.core
def test_what_is_reserved_is_less_than_the_budget(server):
    with pytest.raises(remat.BudgetError, match="the budget is 1000 bytes, of which 1000 are reserved: nothing is left"):
        remat.fit(mlp()[0], mlp()[1], 1000, reserved=1000, server=server)


class Around(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x)


def compiled_itself(model):
    model.compile(backend="eager")
    return model


@pytest.mark.core
@pytest.mark.parametrize("compiled", [
    lambda model: torch.compile(model, backend="eager"), compiled_itself, lambda model: torch.compile(Around(model), backend="eager"),
    lambda model: torch.compile(lambda x: model(x), backend="eager")])
def test_a_compile_around_what_is_fitted_leaves_the_schedule(compiled, server):
    model, (x,) = mlp()
    plain = copy.deepcopy(model)
    remat.fit(model, x, "80%", server=server)
    run = compiled(model)
    for seed in range(3):
        before = sum(model.forward.backend.ran.values())
        found = []
        for each in (run, plain):
            model.zero_grad(), plain.zero_grad()
            y = each(x + seed)
            y.square().sum().backward()
            found.append([y, *(p.grad for p in (model if each is run else plain).parameters())])
        assert_same(*found)
        assert sum(model.forward.backend.ran.values()) == before + 1


@pytest.mark.core
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_another_type_of_the_weights_after_fit(dtype, server):
    """With an input that keeps its own, which is all that torch 2.6 guards."""
    model, ids = nn.Sequential(nn.Embedding(20, 32), nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32)), torch.randint(20, (64,))
    plain = copy.deepcopy(model).to(dtype)
    remat.fit(model, ids, 10 ** 7, server=server)
    step(model, (ids,), 0)
    model.to(dtype)
    for seed in range(2):
        assert_same(step(model, (ids,), seed), step(plain, (ids,), seed))


class Open(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, first, *rest, scale: float = 1.0, **named):
        return self.layer(first + sum(rest)) * scale + sum(named.values())


@pytest.mark.core
def test_a_fitted_model_is_called_and_looks_as_the_model(server):
    torch.manual_seed(0)
    model, x = Open(), torch.randn(4, 8)
    plain = copy.deepcopy(model)
    remat.fit(model, x, "150%", server=server)
    assert inspect.signature(model.forward.__func__) == inspect.signature(Open.forward)
    for each in (model.forward, types.MethodType(model.forward.__func__, model)):
        assert inspect.signature(each) == inspect.signature(plain.forward)
    for args, kwargs in (((x,), {}), ((x, 2 * x, x), {}), ((x,), {"scale": 2.0, "more": x, "other": x}), ((), {"first": x})):
        assert_same([model(*args, **kwargs)], [plain(*args, **kwargs)])
        assert_same([types.MethodType(model.forward.__func__, model)(*args, **kwargs)], [plain(*args, **kwargs)])


@pytest.mark.core
def test_derivatives_by_torch_func_run_plainly(server):
    """Dynamo leaves code as it is once it came by under a transform, and what torch.compile puts around a function was everybody's."""
    model, inputs = mlp()
    plain = copy.deepcopy(model)
    remat.fit(model, inputs, "60%", server=server, loss=loss_of)

    def derivative(each):
        weights = {name: p.detach() for name, p in each.named_parameters()}
        return list(torch.func.grad(lambda w: loss_of(torch.func.functional_call(each, w, inputs)))(weights).values())

    for _ in range(2):
        assert_same(derivative(model), derivative(plain))
        assert_same(step(model, inputs, 0), step(plain, inputs, 0))
    assert len(model.forward.pieces) == 1 and model.forward.backend.calls == model.forward.pieces  # by its schedule, each time
    other = copy.deepcopy(plain)
    remat.fit(other, inputs, "60%", server=server, loss=loss_of)
    assert other.forward.schedule["recomputed_time"] > 0 and not other.forward.backend.breaks


ELSEWHERE = torch.randn(32, 32)
CONFIG = types.SimpleNamespace(tables={"a": [torch.randn(32, 32)]}, closed=(lambda t: lambda: t)(torch.randn(32, 32)))


class Reads(nn.Module):
    shared = torch.randn(32, 32)

    def __init__(self):
        super().__init__()
        self.first, self.last, self.kept = nn.Linear(32, 32), nn.Linear(32, 32), torch.randn(32, 32)
        self.register_buffer("scale", torch.randn(32, 32))
        self.tables, self.pair = {"a": torch.randn(32, 32)}, (torch.randn(32, 32),)

    def forward(self, x, also=None):
        x = x[0] if isinstance(x, list) else x
        x = torch.tanh(self.first(x)) + self.kept.mean() + self.scale.mean() + ELSEWHERE.mean() + self.shared.mean()
        x = x + CONFIG.tables["a"][0].mean() + CONFIG.closed().mean() + self.tables["a"].mean() + self.pair[0].mean()
        return self.last(torch.tanh(x if also is None else x + also))


@pytest.mark.parametrize("what", [
    pytest.param(lambda m: m.first.weight, id="weight", marks=pytest.mark.core), pytest.param(lambda m: m.scale, id="buffer"),
    pytest.param(lambda m: m.kept, id="attribute", marks=pytest.mark.core), pytest.param(lambda m: ELSEWHERE, id="global"),
    pytest.param(lambda m: m.shared, id="class"), pytest.param(lambda m: CONFIG.tables["a"][0], id="object", marks=pytest.mark.core),
    pytest.param(lambda m: CONFIG.closed(), id="closure"), pytest.param(lambda m: m.tables["a"], id="dict"),
    pytest.param(lambda m: m.pair[0], id="tuple", marks=pytest.mark.core)])
def test_what_it_reads_itself_as_its_input(what, server):
    """Dynamo takes an input that it has seen elsewhere for that in later calls, whatever they are given."""
    model, x = Reads(), torch.randn(64, 32)
    plain = copy.deepcopy(model)
    remat.fit(model, x, "1MiB", server=server)

    def trained(each, arguments):
        each.zero_grad()
        result = each(*arguments)
        loss_of(result).backward()
        return [result.detach(), *(p.grad for p in each.parameters())]

    for arguments in (lambda m: (x,), lambda m: (what(m),), lambda m: (x,), lambda m: (x[:32],), lambda m: (x[:32], what(m)), lambda m: (x[:32], x[32:]),
                      lambda m: ([what(m)],), lambda m: ([x],), lambda m: ([x[:32]],)):
        assert_same(trained(model, arguments(model)), trained(plain, arguments(plain)))


class Marked(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(32, 32)

    def forward(self, x):
        x.seen = True
        return self.inner(torch.tanh(self.inner(x))) * (2 if getattr(x, "padded", False) else 1)


def test_what_is_written_on_its_input(server):
    model, x = Marked(), torch.randn(16, 32)
    plain = copy.deepcopy(model)
    remat.fit(model, x, "100%", server=server)
    given = torch.randn(16, 32)
    given.padded = True
    assert_same([model(given)], [plain(given)])
    given.seen = False
    model(given)
    assert given.seen


class Observer(nn.Module):
    """Its first step makes room for what it keeps, as observers of ranges do."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(32, 32)
        self.register_buffer("low", torch.empty(0))

    def forward(self, x):
        x = x.to_dense() if x.layout == torch.sparse_coo else x
        if self.low.numel() == 0:
            self.low.resize_(32)
            self.low.copy_(x.detach().min(0).values)
        return self.inner(torch.tanh(self.inner(x)))


@pytest.mark.parametrize("x", [torch.randn(8, 32), torch.eye(32).to_sparse()], ids=["dense", "sparse"])
def test_buffers_that_grow_and_sparse_inputs(x, server):
    model = Observer()
    plain = copy.deepcopy(model)
    remat.fit(model, x, "110%", server=server)
    assert model.low.numel() == 0
    for _ in range(2):
        assert_same([model(x), model.low], [plain(x), plain.low])


class Looped(nn.Module):
    """A break within a loop: Dynamo leaves its frame as it is."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
            torch._dynamo.graph_break()
        return x


@pytest.mark.filterwarnings("ignore")
def test_a_model_that_is_left_as_it_is_leaves_others_alone(server):
    left, (model, inputs) = Looped(), mlp()
    for each, x in ((left, torch.randn(8, 32)), (model, inputs)):
        remat.fit(each, x, "100%", server=server, loss=loss_of)
    step(left, (torch.randn(8, 32),), 0)
    step(model, inputs, 0)
    assert len(model.forward.pieces) == 1 and model.forward.backend.calls == model.forward.pieces


class Shelf:
    def __init__(self):
        self.n, self.rows = 0, torch.zeros(4, 32)


STEPS, SEEN, SUMS = 0, [], torch.zeros(32)


class Remembering(nn.Module):
    """Keeps what it saw where no buffer is, and goes by some of it."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*(part for _ in range(4) for part in (nn.Linear(32, 32), nn.Tanh())))
        self.queue, self.sums, self.shelf = torch.zeros(4, 32), {"all": [torch.zeros(32)]}, Shelf()

    def forward(self, x):
        global STEPS
        STEPS += 1
        SEEN.append(STEPS)
        h = self.layers(x)
        seen = h.detach()
        self.queue.add_(seen[:4])
        self.sums["all"][0] += seen.sum(0)
        self.shelf.rows.copy_(seen[:4] + self.shelf.n)
        self.shelf.n += 1
        SUMS.add_(seen[0])
        return (h + self.queue[0]).square().mean()


@pytest.mark.core
def test_what_a_forward_keeps_is_as_it_was(server):
    """Tensors that are no buffers, in attributes, containers, objects and globals, and numbers: none of fit's steps are in them."""
    global STEPS
    found = []
    for budget in (None, "4GiB"):
        torch._dynamo.reset()
        torch.manual_seed(0)
        STEPS = 0
        SEEN.clear()
        SUMS.zero_()
        model = Remembering()
        if budget:
            remat.fit(model, torch.randn(64, 32), budget, server=server)
            torch.manual_seed(0)
            Remembering()  # draws as many numbers
        steps = []
        for _ in range(3):
            loss = model(torch.randn(64, 32))
            loss.backward()
            steps.append([loss.detach(), model.queue.clone(), model.sums["all"][0].clone(), model.shelf.rows.clone(), SUMS.clone()])
        found.append(([t for step in steps for t in step], model.shelf.n, STEPS, list(SEEN)))
    assert found[0][1:] == found[1][1:] == (3, 3, [1, 2, 3])
    assert_same(found[1][0], found[0][0])


class Breaking(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x):
        x = torch.tanh(torch.sigmoid(torch.tanh(self.a(x))))
        torch._dynamo.graph_break()
        return torch.tanh(torch.sigmoid(torch.tanh(self.b(x))))


@pytest.mark.core
@pytest.mark.parametrize("part", [lambda: nn.Sequential(nn.Linear(64, 64), nn.Tanh()), Breaking], ids=["whole", "in_graphs"])
def test_a_model_that_is_gone_leaves_nothing(server, part):
    """Dynamo keeps the graphs after a break by the code of the frame, and with them whatever they hold."""
    def held():
        model, x = nn.Sequential(*(part() for _ in range(4))), torch.randn(512, 64)
        remat.fit(model, x, "90%", server=server)
        model(x).sum().backward()
        del model
        gc.collect()
        there = gc.get_objects()
        return [sum(isinstance(one, kind) for one in there) for kind in (torch.fx.GraphModule, torch.fx.Node)] + (
            [sum(isinstance(one, torch._subclasses.FakeTensor) for one in there)] if part is not Breaking else [])

    first, *_, last = [held() for _ in range(4)]
    assert all(now <= before for now, before in zip(last, first, strict=True)), (first, last)


@pytest.mark.core
def test_what_another_thread_traces_is_waited_for(server):
    """Torch 2.6 refuses to begin what is compiled meanwhile."""
    model, inputs = mlp()
    plain, begun, goes_on = copy.deepcopy(model), threading.Event(), threading.Event()
    remat.fit(model, inputs, "100%", server=server)

    def traced(y):
        begun.set()
        goes_on.wait(20)
        return y + 1

    def compiles():
        with torch._dynamo.convert_frame.compile_lock:
            make_fx(traced)(torch.zeros(1))

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        other = pool.submit(compiles)
        assert begun.wait(20)
        threading.Timer(0.5, goes_on.set).start()
        ours = step(model, inputs, 0)
        other.result()
    assert_same(ours, step(plain, inputs, 0))


@pytest.mark.core
def test_threads_call_one_model_in_graphs(server):
    """New sizes are planned for one thread after the other, and each thread's step has the budget."""
    torch.manual_seed(0)
    model = nn.Sequential(*(Breaking() for _ in range(3)))
    plain, inputs = copy.deepcopy(model), [torch.randn(n, 64) for n in (512, 480, 448, 416, 384, 352)]
    remat.fit(model, inputs[0], "90%", server=server)
    share = model.forward.budget
    assert len(model.forward.pieces) > 1

    def steps(m, thread):
        return [torch.autograd.grad(m(inputs[(thread + k) % 6]).square().sum(), [*m.parameters()]) for k in range(12)]

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        found = [*pool.map(steps, [model] * 3, range(3))]
    assert model.forward.budget == share  # what others run is no part of a step
    for thread, made in enumerate(found):
        for ours, theirs in zip(made, steps(plain, thread), strict=True):
            assert_same(ours, theirs)
