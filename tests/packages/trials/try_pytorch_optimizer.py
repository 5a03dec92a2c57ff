"""pytorch_optimizer: dozens of optimizers take steps that make a loss smaller."""

import pytorch_optimizer as po
import torch

failed, worked = {}, 0
for name in po.get_supported_optimizers():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    x, y = torch.randn(32, 4), torch.randn(32, 1)
    try:
        optimizer = po.load_optimizer(name)(model.parameters())
    except (TypeError, ValueError, ImportError, AttributeError, RuntimeError):
        continue  # it takes more than parameters, or another package
    try:
        for _ in range(4):
            optimizer.zero_grad()
            loss = (model(x) - y).square().mean()
            loss.backward(create_graph=name in ("adahessian", "sophiah"))
            optimizer.step(lambda loss=loss: loss) if name in ("alig", "bsam") else optimizer.step()
        assert all(p.isfinite().all() for p in model.parameters())
        worked += 1
    except Exception as error:
        failed[name] = f"{type(error).__name__}: {error}"
assert worked > 60, (worked, failed)
missing = {n: e for n, e in failed.items() if "tritorch" in e or "MissingError" in e}
assert not missing, missing
print("ok", worked, "worked;", failed)
