"""higher: gradients through the steps of an optimizer."""

import higher
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
x, y = torch.randn(16, 3), torch.randn(16, 1)
for kind, options in (
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    (torch.optim.Adam, {"lr": 0.01}),
    (torch.optim.Adagrad, {"lr": 0.1}),
    (torch.optim.RMSprop, {"lr": 0.01}),
):
    outer = [p.detach().clone().requires_grad_() for p in model.parameters()]
    optimizer = kind(model.parameters(), **options)
    with higher.innerloop_ctx(model, optimizer, copy_initial_weights=False) as (inner, steps):
        for _ in range(3):
            steps.step((inner(x) - y).square().mean())
        last = (inner(x) - y).square().mean()
        grads = torch.autograd.grad(last, inner.parameters(time=0))
    assert all(g.isfinite().all() and g.abs().sum() > 0 for g in grads), kind
print("ok")
