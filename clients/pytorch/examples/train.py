"""Trains a ResNet and a GPT under a budget, beside the plain training, and compares what they learned.

    python3 examples/train.py http://127.0.0.1:7070 90%
"""

import copy
import pathlib
import sys

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "tests")]

import models  # noqa: E402  the networks of the tests
import remat  # noqa: E402


def train(model, inputs, loss, steps=3):
    torch.manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        value = loss(model(*inputs))
        value.backward()
        optimizer.step()
    return value.item()


def main(server, budget):
    torch.manual_seed(0)
    networks = {"ResNet-50": (*models.resnet50(), lambda y: y.square().mean()),
                "GPT": (*models.gpt(), lambda y: y["loss"])}
    for name, (model, inputs, loss) in networks.items():
        plain = copy.deepcopy(model)
        remat.fit(model, inputs, budget, server=server, loss=loss)
        schedule = model.forward.schedule
        found, expected = train(model, inputs, loss), train(plain, inputs, loss)
        same = all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), plain.state_dict().values()))
        print(f"{name}: {len(model.forward.profile['nodes'])} nodes, {schedule['solver']}, peak {schedule['peak']} of "
              f"{schedule['store_all_peak']} bytes, loss {found:.6f} (plain {expected:.6f}), "
              f"weights {'equal' if same else 'DIFFERENT'}")
        remat.remove(model)
        print(remat.compare(model, inputs, ["100%", budget], loss=loss, server=server))


if __name__ == "__main__":
    main(*sys.argv[1:])
