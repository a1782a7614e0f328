"""ResNet-50 and a GPT on this device: plain, torch.utils.checkpoint of every block, and schedules of equal peak.

    python3 examples/compare.py http://127.0.0.1:7070 [threads]
"""

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
    resnet = models.ResNet([3, 4, 6, 3]).to(device)
    gpt = models.GPT(words=512, width=256, heads=8, length=128, depth=8).to(device)
    ids = torch.randint(0, 512, (8, 128), device=device)
    print(f"torch {torch.__version__}, {device}, {threads} threads\n")
    print("ResNet-50, batch 4, 128 pixels")
    print(remat.compare(resnet, torch.randn(4, 3, 128, 128, device=device), ["100%", "50%"], steps=3, server=server,
                        loss=lambda y: y.square().mean(), checkpointed=(models.Bottleneck,)))
    print("\nGPT, 8 blocks of width 256, batch 8, length 128")
    print(remat.compare(gpt, (ids, ids), ["100%", "50%"], steps=3, server=server, loss=lambda y: y["loss"],
                        checkpointed=(models.Block,)))


if __name__ == "__main__":
    main(*sys.argv[1:])
