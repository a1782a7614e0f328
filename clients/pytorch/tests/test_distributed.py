"""Two processes with DistributedDataParallel: one plan, and the gradients of the plain model."""

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
    remat.fit(model, inputs, "90%", server=server, cache=f"{folder}/{rank}")
    plans = [None, None]
    distributed.all_gather_object(plans, model.forward.schedule["operations"])
    assert plans[0] == plans[1]
    assert_same(step(DistributedDataParallel(model), inputs, rank), step(plain, inputs, rank))


def test_two_ranks(server, tmp_path):
    if not distributed.is_available():
        pytest.skip("this torch has no torch.distributed")
    multiprocessing.spawn(work, (server, str(tmp_path)), nprocs=2)
