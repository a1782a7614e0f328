"""Small networks of the kinds that are trained: chains, branches, skips, shared weights, dropout, batch norm."""

import torch
import torch.nn.functional as F
from torch import nn


def mlp():
    layers = [part for _ in range(6) for part in (nn.Linear(64, 64), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(64, 8)), (torch.randn(256, 64),)


def vgg():
    """Batch norm, ReLU in place, dropout, a nested Sequential."""
    layers, channels = [], 3
    for width, count in ((8, 1), (16, 1), (32, 2)):
        for _ in range(count):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
            channels = width
        layers.append(nn.MaxPool2d(2))
    head = nn.Sequential(nn.Linear(512, 64), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(64, 10))
    return nn.Sequential(nn.Sequential(*layers), nn.Flatten(), head), (torch.randn(4, 3, 32, 32),)


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2, self.conv3 = nn.BatchNorm2d(width), nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3, self.relu, self.shortcut = nn.BatchNorm2d(outputs), nn.ReLU(inplace=True), None
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        y += x if self.shortcut is None else self.shortcut(x)
        return self.relu(y)


class ResNet(nn.Module):
    def __init__(self, counts, width=64):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        self.relu, self.pool = nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        blocks, inputs = [], width
        for stage, count in enumerate(counts):
            for i in range(count):
                blocks.append(Bottleneck(inputs, width << stage, 2 if stage and not i else 1))
                inputs = 4 * (width << stage)
        self.blocks, self.fc = nn.Sequential(*blocks), nn.Linear(inputs, 10)

    def forward(self, x):
        x = self.pool(self.relu(self.bn1(self.conv1(x))))
        x = self.blocks(x).mean((2, 3))
        return self.fc(torch.flatten(x, 1))


def resnet50():
    return ResNet((3, 4, 6, 3), 16), (torch.randn(4, 3, 48, 48),)


class UNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()

        def block(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True))
        self.down = nn.ModuleList([block(3, width), block(width, 2 * width), block(2 * width, 4 * width)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(4 * width, 2 * width, 2, 2),
                                 nn.ConvTranspose2d(2 * width, width, 2, 2)])
        self.merge = nn.ModuleList([block(4 * width, 2 * width), block(2 * width, width)])
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, x):
        skips = []
        for i, block in enumerate(self.down):
            x = block(x)
            if i < 2:
                skips.append(x)
                x = F.max_pool2d(x, 2)
        for up, merge in zip(self.up, self.merge):
            x = merge(torch.cat([up(x), skips.pop()], 1))
        return self.head(x)


def unet():
    return UNet(), (torch.randn(2, 3, 32, 32),)


class Attention(nn.Module):
    def __init__(self, width, heads, length):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.drop, self.rest = nn.Dropout(0.1), nn.Dropout(0.1)
        self.register_buffer("mask", torch.tril(torch.ones(length, length)).bool())

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = (part.view(b, t, self.heads, c // self.heads).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        scores = (q @ k.transpose(-2, -1)) * (c // self.heads) ** -0.5
        scores = scores.masked_fill(~self.mask[:t, :t], float("-inf"))
        y = self.drop(scores.softmax(-1)) @ v
        return self.rest(self.out(y.transpose(1, 2).contiguous().view(b, t, c)))


class Block(nn.Module):
    def __init__(self, width, heads, length):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, heads, length)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Tied weights: the embedding is also the head. Returns logits, or with targets logits and loss."""

    def __init__(self, words=97, width=32, heads=4, length=24, depth=3):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(words, width), nn.Embedding(length, width)
        self.drop, self.norm = nn.Dropout(0.1), nn.LayerNorm(width)
        self.blocks = nn.ModuleList([Block(width, heads, length) for _ in range(depth)])
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids, targets=None):
        x = self.drop(self.tokens(ids) + self.positions(torch.arange(ids.size(1), device=ids.device)))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        if targets is None:
            return logits
        return {"loss": F.cross_entropy(logits.flatten(0, 1), targets.flatten())}


def gpt():
    return GPT(), (torch.randint(97, (2, 24)), torch.randint(97, (2, 24)))


class LSTM(nn.Module):
    """Unrolled over time; every cell and every head shares its weights."""

    def __init__(self, width=32, steps=10):
        super().__init__()
        self.steps, self.width = steps, width
        self.cell, self.head = nn.LSTMCell(16, width), nn.Linear(width, 4)

    def forward(self, x):
        h = c = torch.zeros(x.size(1), self.width, device=x.device)
        losses = []
        for t in range(self.steps):
            h, c = self.cell(x[t], (h, c))
            losses.append(self.head(h).square().mean())
        return torch.stack(losses).sum(), h


def lstm():
    return LSTM(), (torch.randn(10, 32, 16),)


class Triplet(nn.Module):
    """Three branches through one network, batch norm included."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                                 nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Dropout(0.2),
                                 nn.Flatten(), nn.Linear(16 * 64, 32))

    def forward(self, anchor, positive, negative):
        a, p, n = self.net(anchor), self.net(positive), self.net(negative)
        return F.relu((a - p).square().sum(1) - (a - n).square().sum(1) + 1).mean()


def triplet():
    return Triplet(), tuple(torch.randn(4, 3, 16, 16) for _ in range(3))


MODELS = {"mlp": mlp, "vgg": vgg, "resnet50": resnet50, "unet": unet, "gpt": gpt, "lstm": lstm, "triplet": triplet}

# Activations of which are large beside the state of a generator, 5 KB.
LARGER = {
    "mlp": lambda: (mlp()[0], (torch.randn(2048, 64),)),
    "vgg": lambda: (vgg()[0], (torch.randn(16, 3, 32, 32),)),
    "resnet50": lambda: (resnet50()[0], (torch.randn(8, 3, 64, 64),)),
    "gpt": lambda: (GPT(width=64, length=64, depth=2), (torch.randint(97, (8, 64)),)),
    "unet": lambda: (UNet(16), (torch.randn(4, 3, 64, 64),)),
    "triplet": lambda: (Triplet(), tuple(torch.randn(32, 3, 16, 16) for _ in range(3))),
    "resnet": lambda: (ResNet((1, 1, 1, 1), 16), (torch.randn(8, 3, 64, 64),)),
    "lstm": lambda: (LSTM(64), (torch.randn(10, 256, 16),)),
}
