"""Tuning a part of a model: accumulation, pruning, adapters by parametrization, averages, EMA."""

import copy
import io
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.nn.utils.parametrize as parametrize
import torch.nn.utils.prune as prune
from seedless import set_weights, waves
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn
from torch.utils.data import ConcatDataset, DataLoader, IterableDataset, TensorDataset

warnings.filterwarnings("ignore")


class LoRA(nn.Module):
    """A change of low rank to a weight."""

    def __init__(self, features_in, features_out, rank=2, alpha=1.0):
        super().__init__()
        self.A = nn.Parameter(waves(rank, features_out))
        self.B = nn.Parameter(torch.zeros(features_in, rank))
        self.scale = alpha / rank
        self.enabled = True

    def forward(self, weight):
        change = torch.matmul(self.B, self.A).view(weight.shape) * self.scale
        return weight + change if self.enabled else weight


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        layers = {"expand": nn.Linear(6, 24, bias=False), "norm": nn.BatchNorm1d(24)}
        self.features = nn.ModuleDict({**layers, "shrink": nn.Linear(24, 12)})
        self.register_buffer("scale", torch.tensor([1.5]), persistent=False)
        self.head = nn.Linear(12, 3)

    def forward(self, x):
        f = self.features
        x = F.gelu(f["norm"](f["expand"](x * self.scale)))
        return self.head(F.hardswish(f["shrink"](x)))


class Stream(IterableDataset):
    def __iter__(self):
        for i in range(20):
            yield waves(6, speed=1 + 0.1 * i), i % 3


def train(name, model, optimizer, loader, epochs=2, accumulate=2):
    model.train()
    for epoch in range(epochs):
        total = 0.0
        for i, (x, y) in enumerate(loader):
            loss = F.cross_entropy(model(x), y) / accumulate
            loss.backward()
            total += loss.item()
            if (i + 1) % accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
        print(f"{name} epoch {epoch} loss {total:.6f}")


def main():
    parts = [TensorDataset(waves(16, 6, speed=s), torch.arange(16) % 3) for s in (0.5, 0.8)]
    loader = DataLoader(ConcatDataset(parts), batch_size=8)
    model = torch.compile(set_weights(Classifier()))
    train("all", model, torch.optim.Adagrad(model.parameters(), lr=0.05), loader)

    buffer = io.BytesIO()
    plain = getattr(model, "_orig_mod", model)
    torch.save(plain.state_dict(), buffer)
    buffer.seek(0)
    state = torch.load(buffer)
    tuned = Classifier()
    del state["head.weight"], state["head.bias"]
    found = tuned.load_state_dict(state, strict=False)
    print("missing", found.missing_keys, "unexpected", found.unexpected_keys)
    set_weights(tuned.head)
    for parameter in tuned.features.parameters():
        parameter.requires_grad = False
    for layer in (tuned.features["expand"], tuned.features["shrink"]):
        parametrize.register_parametrization(layer, "weight", LoRA(*layer.weight.shape))
    free = [p for p in tuned.parameters() if p.requires_grad]
    print(
        "free",
        sum(p.numel() for p in free),
        [n for n, p in tuned.named_parameters() if p.requires_grad],
    )
    train("lora", tuned, torch.optim.AdamW(free, lr=0.05, amsgrad=True), loader)
    with parametrize.cached():
        print(f"cached {tuned(parts[0][:][0]).sum():.5f}")
    for layer in (tuned.features["expand"], tuned.features["shrink"]):
        parametrize.remove_parametrizations(layer, "weight")
    tuned.requires_grad_(True)

    prune.l1_unstructured(tuned.features["shrink"], "weight", amount=0.3)
    prune.ln_structured(tuned.head, "weight", amount=1, n=2, dim=0)
    train("pruned", tuned, torch.optim.SGD(tuned.parameters(), lr=0.05, momentum=0.9), loader, 1)
    zeros = int((tuned.features["shrink"].weight == 0).sum()), int((tuned.head.weight == 0).sum())
    prune.remove(tuned.features["shrink"], "weight"), prune.remove(tuned.head, "weight")
    print("zeros", zeros, prune.is_pruned(tuned))

    averaged, optimizer = AveragedModel(tuned), torch.optim.RAdam(tuned.parameters(), lr=0.01)
    schedule = SWALR(optimizer, swa_lr=0.05, anneal_epochs=2)
    for epoch in range(2):
        train(f"swa {epoch}", tuned, optimizer, DataLoader(Stream(), batch_size=5), 1)
        averaged.update_parameters(tuned)
        schedule.step()
    update_bn(loader, averaged)
    ema = copy.deepcopy(tuned)
    with torch.no_grad():
        for e, p in zip(ema.parameters(), averaged.module.parameters()):
            e.lerp_(p, 0.25)
    for name, m in (("averaged", averaged), ("ema", ema)):
        print(name, f"{m.eval()(parts[1][:][0]).logsumexp(1).mean().item():.6f}")


if __name__ == "__main__":
    main()
