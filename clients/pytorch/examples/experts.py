"""A small Mixtral under a budget, beside the plain training: its experts' products are single operations of the schedule.

    python3 examples/experts.py [budget]            needs transformers
"""

import copy
import pathlib
import sys

import torch
import transformers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import remat  # noqa: E402


def train(model, batch, steps=3):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
    return loss.item()


def main(budget="75%"):
    torch.manual_seed(0)
    model = transformers.MixtralForCausalLM(transformers.MixtralConfig(
        vocab_size=128, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2, pad_token_id=0))
    ids = torch.randint(3, 128, (4, 64))
    batch, plain = {"input_ids": ids, "labels": ids}, copy.deepcopy(model)
    remat.fit(model, batch, budget)
    forward = model.forward
    print(f"{len(forward.pieces)} graphs, measured {forward.measured_peak} of {forward.budget} bytes, "
          f"{forward.schedule['overhead']:.1%} more time predicted, solved {forward.backend.client.where}")
    print(f"loss after three steps {train(model, batch):.6f}, plain {train(plain, batch):.6f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
