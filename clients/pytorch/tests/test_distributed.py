"""Two processes with DistributedDataParallel, made before or after fit: one plan, and the gradients of the plain
model."""

import copy

import pytest
import torch
from models import vgg
from steps import assert_same, step
from torch import distributed, multiprocessing
from torch.nn.parallel import DistributedDataParallel

import remat


def work(rank, server, folder):
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", f"file://{folder}/meet", rank=rank, world_size=2)
    torch.manual_seed(0)
    model, inputs = vgg()
    plain = DistributedDataParallel(copy.deepcopy(model))
    wrapped = DistributedDataParallel(copy.deepcopy(model))
    for fitted in (model, wrapped):
        assert remat.fit(fitted, inputs, "95%", server=server, cache=f"{folder}/{rank}") is fitted
    plans = [None, None]
    distributed.all_gather_object(plans, model.forward.schedule["operations"])
    assert plans[0] == plans[1]
    expected = step(plain, inputs, rank)
    assert_same(step(DistributedDataParallel(model), inputs, rank), expected)
    assert hasattr(wrapped.module.forward, "schedule")
    assert_same(step(wrapped, inputs, rank), expected)


def test_two_ranks(server, tmp_path):
    if not distributed.is_available():
        pytest.skip("this torch has no torch.distributed")
    multiprocessing.spawn(work, (server, str(tmp_path)), nprocs=2)
