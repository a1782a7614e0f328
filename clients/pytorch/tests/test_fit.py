"""remat.fit as a training script uses it, and what it says when it cannot."""

import copy
import json
import math
import subprocess
import xml.etree.ElementTree

import pytest
import torch
from conftest import BUILD
from models import GPT, MODELS, Block, mlp, vgg
from steps import Bench, assert_same, fit_tightly, loss_of, offload_everything, step
from torch import nn

import remat
from remat.client import Client, parse_budget, profile_id


def train(model, inputs, steps=4):
    torch.manual_seed(7)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(model(*inputs)).backward()
        optimizer.step()
    return [*model.state_dict().values(), torch.get_rng_state()]


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
    assert_same(step(model, inputs, 3), step(plain, inputs, 3))  # eval mode with gradients: plain


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


def test_keyword_arguments_and_loss_in_the_model(server):
    model = GPT()
    ids = torch.randint(97, (2, 24))
    remat.fit(model, {"ids": ids, "targets": ids}, "85%", server=server, mismatch="error")
    loss = model(ids=ids, targets=ids)["loss"]
    loss.backward()
    assert loss.dim() == 0 and model.head.weight.grad is model.tokens.weight.grad is not None
    with pytest.raises(remat.MismatchError, match="targets"):
        model(ids)


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


def test_an_exception_in_the_middle_leaves_the_model_usable(server):
    class Fails(nn.Module):
        def forward(self, x):
            return torch.tanh(x)

    def broken(self, x):
        raise KeyError("broken")

    fails = Fails()
    model = nn.Sequential(*(part for _ in range(4) for part in (nn.Linear(64, 64), nn.BatchNorm1d(64), nn.Dropout(0.1),
                                                               fails)))
    x, plain = torch.randn(32, 64), copy.deepcopy(model)
    fit_tightly(model, x, server=server, solver="rotor")  # auto's computes only the linear parts twice
    loss = loss_of(model(x))
    state = [*(b.clone() for b in model.buffers()), torch.get_rng_state()]
    works, Fails.forward = Fails.forward, broken
    with pytest.raises(KeyError, match="broken"):
        loss.backward()
    assert_same([*model.buffers(), torch.get_rng_state()], state)
    with pytest.raises(remat.MismatchError, match="the forward of Fails"):
        model(x)
    Fails.forward = works
    model.load_state_dict(plain.state_dict())
    assert_same(step(model, (x,), 5), step(plain, (x,), 5))


def test_other_inputs_get_a_plan_of_their_own_in_the_same_bytes(server):
    model, inputs = vgg()
    plain, x = copy.deepcopy(model), inputs[0]
    remat.fit(model, x, "100%", server=server)
    for batch in (4, 3, 4, 2, 3):
        assert_same(step(model, (x[:batch],), batch), step(plain, (x[:batch],), batch))
    others = model.forward._others
    assert len(others) == 2 and all(o.schedule["peak"] <= model.forward.schedule["budget"] for o in others.values())
    with pytest.raises(remat.BudgetError):
        model(torch.randn(64, 3, 32, 32))
    assert_same(step(model, (x,), 1), step(plain, (x,), 1))


def test_misuse_is_an_error(server):
    model, (x,) = mlp()
    remat.fit(model, x, "60%", server=server, mismatch="error")
    loss = loss_of(model(x))
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()
    with pytest.raises(remat.MismatchError, match=r"input.*\(3, 64\).*\(256, 64\)"):
        model(torch.randn(3, 64))
    with pytest.raises(remat.CaptureError, match="remat.remove"):
        remat.fit(model, x, "60%", server=server)
    loss, y = model(x), x
    y.add_(1)
    with pytest.raises(RuntimeError, match="\"input\" was changed between"):
        loss.sum().backward()
    assert "forward" not in remat.remove(model).__dict__


def test_models_that_cannot_be_captured(server):
    class Data(nn.Module):
        def forward(self, x):
            return x * 2 if x.sum() > 0 else x * 3

    class Around(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.data, self.last = nn.Linear(64, 64), Data(), nn.Linear(64, 8)

        def forward(self, x):
            return self.last(self.data(self.first(x)))

    x = torch.randn(16, 64)
    with pytest.raises(remat.CaptureError, match="forward of Data cannot be traced"):
        remat.fit(Data(), x, "1GiB", server=server)
    with pytest.raises(remat.CaptureError, match="the input \"input\" is changed in place"):
        before = x.clone()
        remat.fit(nn.Sequential(nn.ReLU(inplace=True), nn.Linear(64, 2)), x, "1GiB", server=server)
    assert torch.equal(x, before)
    model = Around()
    plain = copy.deepcopy(model)
    remat.fit(model, x, "1GiB", server=server)
    assert model.forward.alone == ["data"]
    assert_same(step(model, (x,), 0), step(plain, (x,), 0))


class Asking(nn.Module):
    """Its forward asks what its argument is, which torch.fx cannot answer; tied weights, dropout, a view in place."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([nn.Linear(48, 48) for _ in range(6)])
        self.parts[5].weight = self.parts[0].weight
        self.norm, self.drop = nn.LayerNorm(48), nn.Dropout(0.1)
        self.register_buffer("scale", torch.linspace(0.5, 1.5, 48))

    def forward(self, x, deep=True):
        if not isinstance(x, torch.Tensor):
            raise TypeError("x is no tensor")
        for part in self.parts if deep else self.parts[:2]:
            x = x + self.drop(torch.relu_(part(self.norm(x)).view(-1, 48)) * self.scale)
        return {"out": x, "sums": [x.sum(1)]}


@pytest.mark.skipif(not hasattr(torch, "export"), reason=f"torch {torch.__version__} has no torch.export")
def test_export_where_fx_cannot_follow(server):
    model, x = Asking(), torch.randn(64, 48)
    plain = copy.deepcopy(model)
    remat.fit(model, x, "70%", server=server)
    assert model.forward.schedule["peak"] < model.forward.schedule["store_all_peak"]
    for seed in range(2):
        assert_same(step(model, (x,), seed), step(plain, (x,), seed))
    assert list(model(x)) == ["out", "sums"]


def test_what_export_shows_changing_buffers_is_fitted_in_parts(server):
    """Under torch.fx it fails in a module that is run as it is: that must end, too."""
    class Around(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(48)
            self.body = nn.Sequential(*(part for _ in range(3) for part in (nn.Linear(48, 48), nn.BatchNorm1d(48))))

        def forward(self, x):
            return self.body(self.norm(x if isinstance(x, torch.Tensor) else x[0])) * 2

    model, x = Around(), torch.randn(64, 48)
    plain = copy.deepcopy(model)
    with pytest.warns(UserWarning, match="forward of Around cannot be traced.*: body"):
        remat.fit(model, x, "100%", server=server)
    assert_same(step(model, (x,), 0), step(plain, (x,), 0))


@pytest.mark.skipif(hasattr(torch, "export"), reason="torch.export follows the model")
def test_no_export_is_an_error_that_names_the_model(server):
    with pytest.raises(remat.CaptureError, match="forward of Asking cannot be traced"):
        remat.fit(Asking(), torch.randn(64, 48), "70%", server=server)


class Deciding(nn.Module):
    """Its forward depends on data; two parts of it do not, one of which is used twice."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(*(nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Dropout(0.1)) for _ in range(6)))
        self.middle, self.inner = nn.Linear(32, 32), nn.ModuleDict()
        self.inner["head"] = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 4))

    def forward(self, x, direct=False):
        y = self.encoder(x if direct else self.middle(x))
        if y.sum() > 1e9:
            return y
        y = self.encoder(self.middle(y))
        return self.inner["head"](y)


@pytest.mark.parametrize("budget", ["80%", 220000])
def test_parts_of_a_model_that_cannot_be_followed(budget, server):
    model, x = Deciding(), torch.randn(64, 32)
    plain = copy.deepcopy(model)
    with pytest.warns(UserWarning, match="forward of Deciding cannot be traced.*: encoder, inner.head"):
        remat.fit(model, x, budget, server=server)
    assert "forward" not in model.__dict__
    regions = [model.encoder.forward, model.inner["head"].forward]
    if isinstance(budget, int):
        assert 2 * regions[0].schedule["budget"] + regions[1].schedule["budget"] <= budget
    assert all(region.schedule["peak"] < region.schedule["store_all_peak"] for region in regions)
    for seed in range(2):
        assert_same(step(model, (x,), seed), step(plain, (x,), seed))
    remat.remove(model)
    assert all("forward" not in module.__dict__ for module in model.modules())
    with pytest.raises(remat.BudgetError, match="at least: \"encoder\" [0-9]+"):
        remat.fit(model, x, 30000, server=server)
    assert all("forward" not in module.__dict__ for module in model.modules())
    with pytest.warns(UserWarning, match="scheduled are: encoder.1, .*, inner.head"):  # the encoder's calls are not alike
        remat.fit(model, (x, True), "100%", server=server)
    remat.remove(model)
    with pytest.raises(remat.CaptureError, match="forward of Deciding cannot be traced"):
        remat.compare(model, x, ["90%"], server=server)


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


def test_amounts():
    assert [parse_budget(b) for b in ("1KiB", "1.001KB", "2 GB", 5, "60%")] == [1024, 1001, 2 * 10**9, 5, "60%"]


def test_a_plan_outlives_the_service(server, tmp_path):
    nowhere = "http://127.0.0.1:9"
    torch.manual_seed(0)
    model, inputs = mlp()
    twin = copy.deepcopy(model)
    with pytest.raises(remat.ServiceError, match="127.0.0.1:9 does not answer"):
        remat.fit(model, inputs, "60%", server=nowhere)
    assert "forward" not in remat.fit(model, inputs, "60%", server=nowhere, offline="plain").__dict__
    remat.fit(model, inputs, "60%", server=server)
    remat.fit(twin, inputs, "60%", server=nowhere)  # out of the cache
    assert twin.forward.schedule == model.forward.schedule
    with pytest.raises(remat.ServiceError):
        remat.fit(mlp()[0], inputs, "61%", server=nowhere)


def test_effort_is_asked_for_and_part_of_the_plan(server):
    model, inputs = mlp()
    remat.fit(model, inputs, "60%", server=server)
    with pytest.raises(remat.ServiceError, match="does not answer"):  # that plan is of another effort
        remat.fit(mlp()[0], inputs, "60%", server="http://127.0.0.1:9", effort="thorough")
    with pytest.raises(remat.ServiceError, match='effort is "hasty"'):
        remat.fit(mlp()[0], inputs, "60%", server=server, effort="hasty")
    remat.fit(mlp()[0], inputs, "60%", server=server, effort="thorough")
    remat.fit(mlp()[0], inputs, "60%", server="http://127.0.0.1:9", effort="thorough")  # out of the cache
    with pytest.raises(remat.ServiceError, match="effort is for auto, interval"):
        remat.fit(mlp()[0], inputs, "60%", server=server, solver="rotor", effort="thorough")
    remat.fit(mlp()[0], inputs, "100%", server=server, solver="rotor")  # which takes no effort at all


@pytest.mark.parametrize("name", ["gpt", "vgg"])
def test_identity_is_that_of_the_service(name, server, tmp_path, service):
    model, inputs = MODELS[name]()
    path = tmp_path / "profile.json"
    profile = remat.profile(model, inputs, path)
    assert json.loads(path.read_text()) == profile
    command = [str(BUILD / "clients" / "cli" / "remat"), "profile", "check", str(path), "--json"]
    checked = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert checked["profile_id"] == profile_id(profile)
    Client(server).schedule(profile, "100%")
    assert service.get(f"/v1/profiles/{profile_id(profile)}").status == 200


def test_compare(server, tmp_path):
    model, inputs = vgg()
    table = remat.compare(model, inputs, ["100%", "95%"], steps=2, server=server)
    names = [row.name for row in table.rows]
    assert names[:5] == ["plain", "checkpoint per block", "checkpoint sqrt(n)", "100%", "95%"]
    rows = dict(zip(names, table.rows))
    assert rows["100%"].solver == "store-all" and len(str(table).splitlines()) == len(names) + 2
    assert rows["95%"].measured_peak < rows["100%"].measured_peak and "forward" not in model.__dict__
    assert all("forward" not in part.__dict__ for part in model)
    for name in names[5:]:  # of those there are only such as were found
        assert rows[name].measured_peak <= rows[name.replace("at the peak of ", "")].measured_peak
    table.plot(tmp_path / "plot.svg")
    drawn = xml.etree.ElementTree.parse(tmp_path / "plot.svg").getroot()
    assert len(drawn.findall("{http://www.w3.org/2000/svg}circle")) == len(names)


def test_compare_with_checkpointed_blocks(server):
    """A GPT's blocks: the checkpointed step takes less than the plain one, and ours no more than that."""
    model, ids = GPT(width=64, length=64, depth=4), torch.randint(97, (4, 64))
    table = remat.compare(model, (ids, ids), ["100%"], steps=1, server=server, loss=lambda y: y["loss"],
                          checkpointed=(Block,))
    rows = {row.name: row for row in table.rows}
    checkpointed = rows["checkpoint per block"]
    assert checkpointed.measured_peak < rows["plain"].measured_peak
    assert rows["at the peak of checkpoint per block"].measured_peak <= checkpointed.measured_peak
    with pytest.raises(ValueError, match="GPT has no module"):
        remat.compare(model, (ids, ids), server=server, checkpointed=(nn.Conv3d,))


def has_memory_budget():
    try:
        from torch._functorch import config
    except ImportError:
        return False
    return hasattr(config, "activation_memory_budget")


@pytest.mark.skipif(not has_memory_budget(), reason=f"torch {torch.__version__}: no activation memory budget")
def test_compare_with_the_compiler(server):
    model, x = nn.Sequential(*(part for _ in range(4) for part in (nn.Linear(64, 64), nn.GELU()))), torch.randn(512, 64)
    table = remat.compare(model, x, ["100%"], steps=1, server=server, compiled=(1, 0.3))
    rows = {row.name: row for row in table.rows}
    low, high = rows["torch.compile, budget 0.3"], rows["torch.compile, budget 1"]
    assert low.budget is None and low.measured_peak < high.measured_peak
    with pytest.raises(ValueError, match="between 0 and 1"):
        remat.compare(model, x, ["100%"], server=server, compiled=(1.5,))


@pytest.mark.skipif(has_memory_budget(), reason="this torch has an activation memory budget")
def test_compare_without_the_compiler(server):
    model, (x,) = mlp()
    with pytest.raises(ValueError, match="has no activation memory budget"):
        remat.compare(model, x, ["100%"], server=server, compiled=(0.5,))


def test_two_thousand_blocks(server):
    model, x = nn.Sequential(*(nn.Linear(8, 8) for _ in range(2000))), torch.randn(4, 8)
    plain = copy.deepcopy(model)
    remat.fit(model, x, "30%", server=server, repeats=1, gradients=False)
    assert len(model.forward.profile["nodes"]) == 2001
    assert_same(step(model, (x,), 0), step(plain, (x,), 0))


def test_five_hundred_branches(server):
    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList([nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(500)])

        def forward(self, x):
            return torch.stack([part(x).sum() for part in self.parts]).sum()

    model, x = Branches(), torch.randn(64, 8)
    plain = copy.deepcopy(model)
    remat.fit(model, x, "60%", server=server, repeats=1)
    assert_same(step(model, (x,), 0), step(plain, (x,), 0))


def test_offloading_by_hand(server):
    bench = Bench(vgg, server)
    assert_same(bench.steps(offload_everything(bench)), bench.steps(None))
