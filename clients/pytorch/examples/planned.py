"""What is planned from shapes alone, beside what is measured: ten networks with AdamW, on the CPU at hand.

    python3 examples/planned.py [SERVER [NETWORK...]]

The device is what calibrate.py measures first. Each network is profiled on the meta device, asked about with 80 % of
what its step takes, and then trained under that schedule: its peak is measured by torch's allocator, its step by the
seconds in which the thread ran.
"""

import statistics
import sys
import tempfile
import time
import warnings

import torch
from torch import nn

import twenty
from calibrate import calibrate
from remat import devices, joint, local, planned, sharing, steps
from remat.backend import Backend
from remat.model import Example, plain_forward

NAMES = ("GPT, loss inside", "BERT, masks", "Llama-like", "two inputs, dict", "experts, top 2", "shared weights, hooks",
         "vit_b_16, narrow", "U-Net", "mobilenet_v3_large", "resnet50")
SHARE, STEPS = "80%", 5


class WithLoss(nn.Module):
    def __init__(self, model, loss):
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, first, second=None):
        result = self.model(first) if second is None else self.model(first, second)
        return result if self.loss is None else self.loss(result)


class Modelled(Backend):
    """Costs of the device's model, so that the schedule is that of the plan."""

    device = None

    def costs(self, graph, device):
        after = next(i for i, op in enumerate(graph.operations) if op.name == joint.LOSS)
        return devices.costs(self.device, graph.operations, after)


def make(name):
    torch.manual_seed(0)
    model, inputs, loss, _ = twenty.NETWORKS[name]()
    return WithLoss(model, loss), inputs


def row(name, device, client):
    with torch.device("meta"):
        model, inputs = make(name)
    begin = time.time()
    profile = planned.profile(model, inputs, device)
    took = time.time() - begin
    schedule = client.schedule(profile, SHARE)
    unscheduled = sharing.takes(profile, range(len(profile["nodes"])))
    fixed = 3 * sum(p.numel() * p.element_size() for p in model.parameters()) + \
        sum(b.numel() * b.element_size() for b in model.buffers())  # weights and AdamW's two; gradients are in the profile

    model, inputs = make(name)
    plain = Example(model, inputs)
    measured_plain = steps.peak(plain_forward(model), plain, None, True)
    torch._dynamo.reset()
    Modelled.device = devices.find(device)
    owner = Modelled(SHARE, cache=tempfile.mkdtemp())
    owner.client = client
    run = torch.compile(model, backend=owner, dynamic=False)
    run(*inputs).backward()
    measured = steps.peak(run, plain, None, True)
    times = []
    for _ in range(STEPS):
        model.zero_grad(set_to_none=True)
        begin = time.thread_time()
        run(*inputs).backward()
        times.append(1e3 * (time.thread_time() - begin))
    step, predicted = statistics.median(times), 1e-3 * schedule["makespan"]
    print(f"{name:22} {len(profile['nodes']):5} {took:5.1f} s {schedule['peak']:>11} {measured:>11} "
          f"{schedule['peak'] / measured:6.3f} {(schedule['peak'] + fixed) / (measured + fixed):6.3f} "
          f"{unscheduled.peak:>11} {measured_plain:>11} {predicted:8.1f} {step:8.1f} {predicted / step:6.2f}", flush=True)
    return (schedule["peak"] + fixed) / (measured + fixed), predicted / step


def main():
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    device = calibrate()
    client = local.connect(sys.argv[1] if len(sys.argv) > 1 else None)
    print(f"{'network':22} nodes profiled {'planned':>9} {'measured':>11}  ratio  whole  not twice {'plain':>13} "
          f"{'planned':>8} {'ms':>8}  ratio", flush=True)
    found = [row(name, device, client) for name in sys.argv[2:] or NAMES]
    print(f"worst of whole steps {max(abs(1 - peak) for peak, _ in found):.1%}, median of times "
          f"{statistics.median(abs(1 - t) for _, t in found):.1%} off")


if __name__ == "__main__":
    main()
