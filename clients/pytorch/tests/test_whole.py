"""One budget for a whole forward: after graph breaks, with recurrent layers, and for shapes that are not known while
compiling."""

import copy
import warnings

import lists
import pytest
import test_budget
import torch
import torch.nn.functional as F
from models import MODELS
from steps import assert_same, step
from test_budget import RESULTS, Body, fit_with_wide_loss
from test_backend import LONG, Own, compiled, run
from torch import nn

import remat
from remat import sharing, steps
from remat.model import Example, plain_forward


class Broken(nn.Module):
    """A break after half of the layers."""

    def __init__(self, width=64, depth=2):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(2 * depth)])
        self.depth = depth

    def forward(self, x):
        for layer in self.layers[:self.depth]:
            x = torch.tanh(layer(x)) * torch.sigmoid(x)
        print(end="")
        for layer in self.layers[self.depth:]:
            x = torch.tanh(layer(x)) * torch.sigmoid(x)
        return x


@pytest.mark.core
def test_graphs_share_the_budget(server):
    torch.manual_seed(0)
    model, x = Broken(), torch.randn(512, 64)
    plain, bare = copy.deepcopy(model), copy.deepcopy(model)
    whole = steps.peak(plain_forward(model), Example(model, x), None, True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the breaks are said
        remat.fit(model, x, "70%", server=server)
        assert len(model.forward.pieces) == 2 and model.forward.measured_peak <= 0.7 * whole
        assert 0.69 * whole <= model.forward.limit <= 0.7 * whole  # and its budget, of each graph, is a percentage
        assert_same(step(model, (x,), 0), step(plain, (x,), 0))
        torch._dynamo.reset()
        with pytest.raises(Exception, match="divides a budget among all|found no schedule") as caught:
            compiled(bare, remat.backend(int(0.5 * whole), server=server))(x)
        assert isinstance(caught.value.inner_exception, remat.BudgetError)


class Chatty(nn.Module):
    """As many graphs as it is told."""

    def __init__(self):
        super().__init__()
        self.layers, self.norm = nn.ModuleList(Mlp() for _ in range(6)), nn.BatchNorm1d(32)
        self.every = 3

    def forward(self, x):
        for k, layer in enumerate(self.layers):
            x = layer(x)
            if self.every and k % self.every == self.every - 1:
                torch._dynamo.graph_break()
        return self.norm(x)


@pytest.mark.core
@pytest.mark.parametrize("budget, training", [("62%", False), ("102%", True), ("102%", False)])
def test_other_graphs_and_batches_stay_within_the_budget(budget, training, server):
    torch.manual_seed(0)
    model, x = Chatty(), torch.randn(256, 32)
    plain = copy.deepcopy(model)
    measured = {}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        remat.fit(model, x, budget, server=server)
        limit, fitted = model.forward.limit, model.forward
        for each in (model, plain):
            each.train(training)
        del said[:]
        for rows, every in ((256, 3), (400, 3), (256, 1), (400, 0), (64, 2), (256, 3)):
            example, model.every, plain.every = Example(model, torch.randn(rows, 32)), every, every
            steps.step(fitted, example, example.call, None, 0)  # it may run above the budget once, and says so
            measured[rows, every] = steps.peak(fitted, example, None, True, warm=False)
            assert_same(step(model, example.call.args, 0), step(plain, example.call.args, 0))
        assert max(measured.values()) <= 1.02 * limit, (measured, limit)
        share = fitted.budget
        assert any("from the next one on each has" in str(w.message) for w in said) == (budget == "102%") and share.endswith("%")
        with pytest.raises(remat.BudgetError, match=r"a forward of Chatty in \d graphs? takes|no schedule") as caught:
            model(torch.randn(4000, 32))
        assert caught.value.minimum_budget > limit
        assert fitted.budget == share or int(fitted.budget[:-1]) < int(share[:-1])
        model.load_state_dict(plain.state_dict())  # of which that forward has written buffers
        assert_same(step(model, (x,), 0), step(plain, (x,), 0))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


@pytest.mark.core
@pytest.mark.parametrize("budget", ["60%", "50%"])
def test_graphs_of_a_loop_that_breaks_share_the_budget(budget, server):
    """Dynamo leaves the code with the loop and says nothing of it to the backend, which compiles what that calls."""
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Embedding(50, 32), *(Mlp() for _ in range(4)), nn.Linear(32, 50)), torch.randint(0, 50, (8, 40))
    model[0].weight.requires_grad_(False)
    model[0].register_forward_hook(lambda module, inputs, output: output.requires_grad_(True))  # as transformers' enable_input_require_grads
    plain = copy.deepcopy(model)
    with pytest.warns(UserWarning, match="breaks the graph") as said:
        remat.fit(model, x, budget, server=server)
    assert len({str(w.message) for w in said}) == len(said)  # each is said once
    assert model.forward.measured_peak <= model.forward.limit and all(piece.schedule for piece in model.forward.pieces)
    assert_same(step(model, (x,), 0), step(plain, (x,), 0))


@pytest.mark.core
def test_a_division_is_what_was_measured():
    """Of a model that takes 10 bytes for each percent, 30 beside, and 20 more than predicted below 60."""
    tried = []

    def measure(share):
        tried.append(share)
        return 10 * share + 30 + 20 * (share < 60)

    assert sharing.divide(630, 30, lambda share: 10 * share, measure) == 60 and tried == [60]
    tried.clear()
    assert sharing.divide(580, 30, lambda share: 10 * share, measure) == 50 and tried == [55, 50]
    tried.clear()
    assert sharing.divide(400, 0, lambda share: 10 * share, lambda share: tried.append(share) or 5 * share) == 75
    assert tried == [40, 60, 70, 75]  # as long as more is predicted to fit
    tried.clear()
    assert sharing.divide(400, 0, lambda share: 10 * share, lambda share: tried.append(share) or 5 * share + 150 * (share > 50)) == 50
    assert tried == [40, 60, 55, 50]
    with pytest.raises(remat.BudgetError, match="were measured to take 100") as caught:
        sharing.divide(60, 30, lambda share: 10 * share, measure)
    assert caught.value.minimum_budget == 100


def test_bytes_that_a_piece_takes_are_those_of_the_judge(tmp_path):
    model, inputs = MODELS["vgg"]()
    for seed in range(3):
        torch._dynamo.reset()
        backend = Own(lambda profile: lists.dropping(profile, seed, 0.4 * seed), tmp_path)
        compiled(model, backend)(*inputs)
        piece, = backend.pieces
        takes = sharing.takes(piece.profile, piece.order)
        assert takes.peak == lists.peak(piece.profile, piece.order) >= takes.held
        assert takes.gradients == sum(p.numel() * 4 for p in model.parameters())


def test_peaks_of_results_that_look_into_one_tensor(server):
    for name, end in RESULTS.items():
        torch._dynamo.reset()
        assert_predicted(Body(end), torch.randn(128, 64), server, lambda results: sum(t.square().mean() for t in results), name)


@pytest.mark.parametrize("end", test_budget.GIVEN_BACK[1:])
def test_the_gradient_of_an_input_that_is_given_back_counts(end, server):
    test_budget.test_the_gradient_of_an_input_that_is_given_back_counts(end, server)


def test_what_stays_behind_a_loss_counts(server):
    fit_with_wide_loss("mse", False, server)


def test_a_loss_may_write_what_the_model_returns(server):
    test_budget.test_a_loss_may_write_what_the_model_returns(test_budget.times_two, None, server)


def test_peaks_where_gradients_cannot_be_handed_over(server):
    """Autograd then holds what the backward begins with for as long as that runs."""
    torch.manual_seed(0)
    words = nn.Sequential(nn.Embedding(50, 32, max_norm=1.0), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU(),
                          nn.Linear(32, 32))
    assert_predicted(words, torch.randint(50, (8, 12)), server, lambda y: y.square().mean(), "max_norm",
                     low=0.95)  # the gradient of the new weights, zeros, counts from the loss on and is made after it
    torch._dynamo.reset()
    given = Body(lambda y, x: (y, x))
    assert_predicted(given, torch.randn(128, 64, requires_grad=True), server, lambda r: r[0].square().mean(), "an input back")


@pytest.mark.parametrize("reduced", [F.mse_loss, F.binary_cross_entropy])
def test_peaks_of_losses_whose_number_keeps_a_tensor(reduced, server):
    torch.manual_seed(0)
    model = Body(lambda y, x: reduced(torch.sigmoid(y), x))
    assert_predicted(model, torch.rand(128, 64), server, lambda y: y, reduced.__name__)


def assert_predicted(model, x, server, loss, what, low=0.995):
    remat.fit(model, x, "85%", server=server, repeats=1, loss=loss)
    piece, = model.forward.pieces
    print(what, piece.schedule["peak"], model.forward.measured_peak)
    assert low * piece.schedule["peak"] <= model.forward.measured_peak <= 1.005 * piece.schedule["peak"], what


class Half(nn.Module):
    """Autocast around one half of it."""

    def __init__(self, rest):
        super().__init__()
        self.first, self.rest = nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Dropout(0.1)), rest

    def forward(self, x):
        y = self.first(x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.rest(y)
        return (y[0] if isinstance(y, tuple) else y).float()


def test_autocast_around_a_half(server):
    """To the bit, but for recurrent layers, which run step by step there: 16 bits is how near that is to a plain step."""
    torch.manual_seed(0)
    model, x = Half(nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 8))), torch.randn(8, 4, 16)
    plain = copy.deepcopy(model)
    remat.fit(model, x, "100%", server=server)
    assert_same(step(model, (x,), 0), step(plain, (x,), 0))
    torch._dynamo.reset()
    model = Half(nn.LSTM(16, 16))
    plain = copy.deepcopy(model)
    remat.fit(model, x, "100%", server=server)
    for a, b in zip(step(model, (x,), 0), step(plain, (x,), 0)):
        assert a is b is None or torch.allclose(a.float(), b.float(), rtol=2e-2, atol=2e-2 * float(b.float().abs().max()))


@pytest.mark.core
@pytest.mark.parametrize("wrong", [1e-3, 0.1])
def test_a_step_that_is_not_the_plain_one_is_refused(wrong):
    """A thousandth where all is in 32 bits, a tenth where there are 16."""
    torch.manual_seed(0)
    half = nn.Linear(16, 8)
    model = Half(half) if wrong > 1e-2 else nn.Sequential(nn.Linear(16, 16), half)
    captured = Example(model, torch.randn(8, 16))
    plain = plain_forward(model)
    steps.check(captured, plain, None)
    with pytest.raises(remat.CheckError, match="is not the plain one"):
        steps.check(captured, lambda *inputs: plain(*inputs) * (1 + wrong), None)


class Touchy(nn.Module):
    """Norms over three numbers, whose gradients are what is left of much larger ones. by_hand: by another kernel."""

    def __init__(self):
        super().__init__()
        self.layers, self.by_hand = nn.ModuleList(nn.Linear(16, 16) for _ in range(6)), False

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
            by_hand = self.by_hand and (x - x.mean(0)) / (x.var(0, unbiased=False) + 1e-5).sqrt()
            x = by_hand if self.by_hand else nn.functional.batch_norm(x, None, None, training=True)
        return x


@pytest.mark.core
def test_a_step_that_rounds_otherwise_is_the_plain_one():
    """By kernels whose sums are in another order."""
    torch.manual_seed(0)
    model = Touchy()
    captured, plain = Example(model, torch.randn(3, 16)), plain_forward(model)

    def other(*inputs):
        model.by_hand = True
        try:
            return plain(*inputs)
        finally:
            model.by_hand = False

    weights = copy.deepcopy(model.state_dict())
    expected, found = (steps.step(forward, captured, captured.call, None, 0) for forward in (plain, other))
    assert not all(steps._agree(a, b, 0.0) for (_, a), (_, b) in zip(expected, found))
    steps.check(captured, other, None)
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    with pytest.raises(remat.CheckError, match="is not the plain one"):
        steps.check(captured, lambda *inputs: other(*inputs) * 1.01, None)


class Named(nn.Module):
    """Says each argument by its name."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 16)

    def forward(self, x):
        return torch.batch_norm(self.layer(x), weight=None, bias=None, running_mean=None, running_var=None, training=True, momentum=0.1,
                                eps=1e-5, cudnn_enabled=True)


@pytest.mark.core
def test_the_plain_step_takes_the_batch_norm_of_the_compiled_one(monkeypatch):
    """On a GPU that is torch's own, and not cuDNN's."""
    asked, original = [], torch.batch_norm
    watched = lambda *args, **more: asked.append(more.get("cudnn_enabled", args[-1])) or original(*args, **more)  # noqa: E731
    monkeypatch.setattr(torch, "batch_norm", watched)
    for model in (nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16)), Named()):
        asked.clear()
        captured = Example(model, torch.randn(8, 16))
        steps.check(captured, plain_forward(model), None)
        assert asked.count(False) == 2 and torch.backends.cudnn.enabled and torch.batch_norm is watched


class Recurrent(nn.Module):
    def __init__(self, kind, layers=2, **more):
        super().__init__()
        self.first = nn.Linear(16, 16)
        self.recurrent = kind(16, 16, layers, **more)
        self.last = nn.Linear(16 * (1 + self.recurrent.bidirectional), 8)

    def forward(self, x, state=None):
        y, state = self.recurrent(torch.tanh(self.first(x)), state)
        return self.last(y), state


@pytest.mark.core
@pytest.mark.parametrize("kind,more", [
    (nn.LSTM, {}), (nn.LSTM, {"dropout": 0.4, "batch_first": True, "bidirectional": True}), (nn.GRU, {"bias": False}),
    (nn.RNN, {"nonlinearity": "relu", "layers": 1})])
def test_recurrent_layers_are_operations(kind, more, tmp_path):
    torch.manual_seed(0)
    model, x = Recurrent(kind, **more), torch.randn(5, 4, 16)
    plain = copy.deepcopy(model)
    backend = Own(lambda profile: lists.dropping(profile, 1, 1.0), tmp_path)
    function = compiled(model, backend)
    with torch._dynamo.config.patch(allow_rnn=True):
        for seed in range(2):
            assert_same(run(function, model, (x,), seed), run(plain, plain, (x,), seed))
    piece, = backend.pieces
    layers = model.recurrent.num_layers
    name = "remat.library_layer" if kind is nn.LSTM else "remat.recurrent"
    assert [n["op"] for n in piece.profile["nodes"]].count(name) == layers * (1 + model.recurrent.bidirectional * (
        kind is nn.LSTM))
    assert len(piece.order) > len(piece.profile["nodes"])


def test_dropout_before_a_recurrent_layer(tmp_path):
    """The gradient that the layer gives back has other strides than torch's traces have, where aot_eager fails."""
    torch.manual_seed(0)
    model, x = Recurrent(nn.LSTM, layers=1, batch_first=True), torch.randn(5, 4, 16)
    model.first = nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.3))
    plain = copy.deepcopy(model)
    function = compiled(model, Own(lists.in_order, tmp_path))
    with torch._dynamo.config.patch(allow_rnn=True):
        assert_same(run(function, model, (x,), 0), run(plain, plain, (x,), 0))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_recurrent_layers_under_autocast(kind, tmp_path):
    torch.manual_seed(0)
    model, x = Recurrent(kind, layers=1), torch.randn(5, 4, 16)
    plain = copy.deepcopy(model)
    with torch.autocast("cpu", dtype=torch.bfloat16), torch._dynamo.config.patch(allow_rnn=True):
        function = compiled(model, Own(lambda profile: lists.dropping(profile, 1, 1.0), tmp_path))
        found, expected = run(function, model, (x,), 0), run(plain, plain, (x,), 0)
    for a, b in zip(found, expected):
        assert a.dtype == b.dtype and torch.allclose(a.float(), b.float(), rtol=2e-2, atol=2e-2 * float(b.float().abs().max()))


def test_a_budget_below_a_recurrent_layer_is_kept_in_spans_of_its_steps(server):
    """Within a layer's backward everything of its steps is there at once."""
    torch.manual_seed(0)
    model, x = Recurrent(nn.LSTM), torch.randn(32, 64, 16)
    plain = copy.deepcopy(model)
    with pytest.warns(UserWarning, match="nn.LSTM.*in 8 they may"):
        remat.fit(model, x, "30%", server=server)
    whole = steps.peak(plain_forward(plain), Example(plain, x), None, True)
    assert model.forward.measured_peak <= 0.3 * whole
    for a, b in zip(step(model, (x,), 0), step(plain, (x,), 0)):
        assert a is b is None or torch.allclose(a.float(), b.float(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dynamic", [None, True] if LONG else [None])
def test_shapes_that_are_not_known_get_a_plan_each(dynamic, tmp_path):
    torch.manual_seed(0)
    model, (x,) = MODELS["mlp"]()
    plain = copy.deepcopy(model)
    backend = Own(lambda profile: lists.dropping(profile, 1, 0.7), tmp_path)
    function = torch.compile(model, backend=backend, dynamic=dynamic)
    for seed, batch in enumerate((4, 3, 2, 3, 4)):
        assert_same(run(function, model, (x[:batch],), seed), run(plain, plain, (x[:batch],), seed))
    assert 3 <= len(backend.pieces) <= 4


@pytest.mark.core
def test_what_compiles_is_not_within_a_recording():
    """A piece is measured while it compiles, and one profiler of torch runs at a time."""
    model, x = nn.Linear(8, 8), torch.randn(4, 8)
    example, recorded, drawn = Example(model, x), [], []

    def forward(x):
        recorded.append(torch._C._autograd._profiler_enabled())
        drawn.append(torch.rand(3))
        return model(x)

    steps.peak(forward, example, None, True)
    assert recorded == [False, True] and torch.equal(*drawn)  # the same step twice


SET_UP = []


class SetsItselfUp(nn.Module):
    """With a hook, in its first call, as transformers' models do."""

    def __init__(self):
        super().__init__()
        self.first, self.last, self.ready = nn.Linear(16, 16), nn.Linear(16, 16), False

    def forward(self, x):
        if not self.ready:
            self.first.register_forward_hook(lambda *call: SET_UP.append(1) or call[2] * 2)
            self.ready = True
        return self.last(torch.tanh(self.first(x)))


@pytest.mark.core
def test_hooks_of_a_first_call_are_installed_once(server):
    torch.manual_seed(0)
    model, x = SetsItselfUp(), torch.randn(4, 16)
    plain = copy.deepcopy(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        remat.fit(model, x, "150%", server=server)
    plain(x)
    assert len(model.first._forward_hooks) == len(plain.first._forward_hooks) == 1 and model.ready
    assert_same(step(model, (x,), 0), step(plain, (x,), 0))


class Layer(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.a, self.b = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        y = torch.tanh(self.a(x)) * torch.sigmoid(x)
        print(end="")
        return torch.tanh(self.b(y)) * torch.sigmoid(y) + x


class Loops(nn.Module):
    """Dynamo leaves the loop as it is; each layer is two graphs, that run once for each of them."""

    def __init__(self, count=4):
        super().__init__()
        self.layers = nn.ModuleList([Layer() for _ in range(count)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.core
def test_calls_share_the_budget(server):
    """Pieces are fewer than calls of a step: what each call holds counts."""
    torch.manual_seed(0)
    model, x = Loops(), torch.randn(1024, 64)
    plain = copy.deepcopy(model)
    whole = steps.peak(plain_forward(model), Example(model, x), None, True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        remat.fit(model, x, "60%", server=server)  # with everything stored a piece's own backward needs a quarter of it
        assert model.forward.measured_peak <= 0.6 * whole
        for a, b in zip(step(model, (x,), 0), step(plain, (x,), 0)):  # sums across graphs are in another order
            assert a is b is None or torch.allclose(a, b, rtol=1e-5, atol=1e-6 * float(b.abs().max()))
    backend = model.forward.backend
    assert len(backend.calls) >= 8 > len(backend.frames())
    assert backend.together() == pytest.approx(model.forward.measured_peak + 4 * x.numel(), rel=0.01)  # an input counts twice


@pytest.mark.core
@pytest.mark.filterwarnings("ignore:remat. torch.compile")
def test_code_that_another_compile_took(server):
    """The layers' code is every model's: a torch.compile that finds its fill of graphs there has it run as it is from then on, with whoever's graphs."""
    def take():
        with torch._dynamo.config.patch(cache_size_limit=1):
            torch.compile(Layer(), backend="eager", dynamic=False)(torch.randn(7, 64))

    x = torch.randn(1024, 64)
    model, other = Loops(), Loops()
    plain = copy.deepcopy(model)
    remat.fit(model, x, "100%", server=server)
    take()
    remat.fit(other, x, "60%", server=server)
    assert other.forward.pieces and other.forward.measured_peak < model.forward.measured_peak
    take()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        step(other, (x[:1000],), 0)
    assert [w for w in said if "ran without a schedule" in str(w.message)] or other.forward.backend.calls
    for _ in range(2):
        for a, b in zip(step(model, (x,), 0), step(plain, (x,), 0)):
            assert a is b is None or torch.allclose(a, b, rtol=1e-5, atol=1e-6 * float(b.abs().max()))
    for each in (model, other):
        step(each, (x,), 0)
        assert each.forward.backend.calls


class Part(nn.Sequential):
    def forward(self, x):  # code that Dynamo compiles by itself where it leaves what is around
        return x + super().forward(x)


class Flagged(nn.Module):
    """With the flag a number is looked at in a loop: Dynamo leaves such a forward as it is."""

    def __init__(self, part=nn.Sequential):
        super().__init__()
        self.flag = False
        self.layers = nn.ModuleList([part(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.GELU()) for _ in range(3)])

    def forward(self, x):
        for layer in self.layers:
            if self.flag and x.abs().max().item() > 1e9:
                x = x / 2
            x = layer(x)
        return x


def flagged(model):
    model.flag = True
    yield
    model.flag = False


def with_hook(model):
    handle = model.layers[1].register_full_backward_hook(lambda *_: None)
    yield
    handle.remove()


@pytest.mark.core
@pytest.mark.parametrize("left", [flagged, with_hook])
@pytest.mark.parametrize("part, how", [(nn.Sequential, "without a schedule"), (Part, "in 3 graphs, each with the whole budget")])
@pytest.mark.filterwarnings("ignore:remat. torch.compile breaks")
def test_what_was_left_as_it_is_once_is_followed_again(server, left, part, how):
    model, x = Flagged(part), torch.randn(1024, 64)
    plain = copy.deepcopy(model)
    remat.fit(model, x, "65%", server=server)
    for _ in range(2):
        for _ in left(model):
            for _ in range(2):
                with pytest.warns(UserWarning, match=f"a forward of Flagged ran {how}"):
                    assert_same(step(model, (x,), 0), step(plain, (x,), 0))
        assert_same(step(model, (x,), 0), step(plain, (x,), 0))
        assert len(model.forward.backend.calls) == len(model.forward.pieces) == 1
        assert model.forward.schedule["peak"] < 0.7 * model.forward.schedule["store_all_peak"]


@pytest.mark.core
def test_hooks_of_all_modules_are_seen(server):
    model, x = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64)), torch.randn(128, 64)
    plain, calls = copy.deepcopy(model), []
    remat.fit(model, x, "150%", server=server)  # what the hooks make takes memory, too
    for register, hook in ((nn.modules.module.register_module_forward_hook, lambda module, _, result: result * 1.5 if type(module) is nn.Tanh else None),
                           (nn.modules.module.register_module_forward_pre_hook, lambda module, given: given[0] * 1.5 if type(module) is nn.Tanh else None),
                           (nn.modules.module.register_module_full_backward_hook, lambda module, *_: calls.append(type(module)))):
        handle = register(hook)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # backward hooks: without a schedule
            found, expected = step(model, (x,), 0), step(plain, (x,), 0)
        handle.remove()
        assert_same(found, expected)
        assert_same(step(model, (x,), 0), step(plain, (x,), 0))
    assert len(calls) == 8 and model.forward.backend.calls
