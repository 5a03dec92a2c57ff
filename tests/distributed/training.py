"""Training steps of a rank, for programs that compare several processes with one."""

import tritorch as torch
import tritorch.distributed as dist
from tritorch.nn import functional as F


def trained(model, optimizer_of, batches, wrap=None, compiled=False):
    """The losses of whole batches, of which this rank has a part, and the parameters at the end.

    optimizer_of: of parameters; batches: ids, a place more than the model reads."""
    model = wrap(model) if wrap else model
    call = torch.compile(model) if compiled else model
    optimizer = optimizer_of(model.parameters())
    losses = []
    for ids in batches:
        loss = F.cross_entropy(call(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        mean = loss.detach().clone()
        if wrap:
            dist.all_reduce(mean, dist.ReduceOp.AVG)
        losses.append(mean.item())
    return losses, [p.detach().cpu() for p in model.parameters()]
