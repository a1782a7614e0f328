"""A schedule for my PyTorch model."""
import torch

import remat

model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU()) for _ in range(4)))
example = torch.randn(512, 256)
model = remat.fit(model, example, budget="60%", loss=lambda out: out.square().mean())
model(example).square().mean().backward()  # the training goes on as it was
print(model.forward.measured_peak, "bytes at most, solved", model.forward.backend.client.where)
