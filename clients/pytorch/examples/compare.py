"""ResNet-50 and a GPT on this device: plain, torch.utils.checkpoint of every block, and schedules of equal peak.

    python3 examples/compare.py http://127.0.0.1:7070 [threads]

On a GPU this is the command that measures the table of the README there.
"""

import datetime
import pathlib
import sys

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "tests")]

import models  # noqa: E402  the networks of the tests
import remat  # noqa: E402


def main(server, threads="1"):
    torch.set_num_threads(int(threads))
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    name = torch.cuda.get_device_name() if device == "cuda" else f"CPU, {threads} threads"
    print(f"torch {torch.__version__}, {name}, {datetime.date.today()}")
    for title, model, inputs, loss, block in networks(device):
        print(f"\n{title}")
        table = remat.compare(model, inputs, ["100%", "75%"], steps=25, server=server, loss=loss, checkpointed=(block,))
        print(table)


def networks(device):
    """On a GPU sizes that keep it busy."""
    large = device == "cuda"
    batch, pixels = (64, 224) if large else (4, 128)
    yield (f"ResNet-50, batch {batch}, {pixels} pixels", models.ResNet([3, 4, 6, 3]).to(device),
           torch.randn(batch, 3, pixels, pixels, device=device), lambda y: y.square().mean(), models.Bottleneck)
    depth, width, batch, length = (12, 768, 16, 512) if large else (8, 256, 8, 128)
    gpt = models.GPT(words=512, width=width, heads=width // 32, length=length, depth=depth).to(device)
    ids = torch.randint(0, 512, (batch, length), device=device)
    yield (f"GPT, {depth} blocks of width {width}, batch {batch}, length {length}", gpt, (ids, ids),
           lambda y: y["loss"], models.Block)


if __name__ == "__main__":
    main(*sys.argv[1:])
