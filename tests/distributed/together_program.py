"""Batch norm over processes, joins, and an optimizer in parts, in each process."""

import copy

import tritorch as torch
import tritorch.distributed as dist
from tritorch import nn
from tritorch.distributed.algorithms.join import Join
from tritorch.distributed.optim import ZeroRedundancyOptimizer
from tritorch.nn.parallel import DistributedDataParallel as DDP

F = nn.functional


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5),
        nn.BatchNorm1d(5),
    )  # fmt: skip


def data(count, seed=1):
    torch.manual_seed(seed)
    return torch.randn(count, 2, 6, 6) * 3 + 2, torch.randn(count, 5)


def close(a, b, what, tolerance=2e-5):
    assert torch.allclose(a, b, tolerance, tolerance), (what, (a - b).abs().max().item())


def batch_norms(rank, size):
    """As one process with the whole batch: outputs, statistics and gradients; uneven shares."""
    count = 3 * size + 1
    x, weights = data(count)
    x.requires_grad_()
    single = network()
    out = single(x)
    (out * weights).sum().backward()
    mine = slice(0, 4) if rank == 0 else slice(3 * rank + 1, 3 * rank + 4)
    model = nn.SyncBatchNorm.convert_sync_batchnorm(network())
    assert isinstance(model[1], nn.SyncBatchNorm)
    own = x.detach()[mine].requires_grad_()
    found = model(own)
    close(found, out[mine], "outputs")
    (found * weights[mine]).sum().backward()
    close(own.grad, x.grad[mine], "input")
    for (name, p), q in zip(model.named_parameters(), single.parameters(), strict=True):
        total = p.grad.clone()
        dist.all_reduce(total)
        close(total, q.grad, name, 1e-4)
    for (name, p), q in zip(model.named_buffers(), single.buffers(), strict=True):
        close(p.float(), q.float(), name)
    close(model.eval()(own), single.eval()(x[mine]), "evaluation")


def nobody_or_half(rank, size):
    """A member without elements; half types; no weights."""
    if size > 1:
        norm = nn.SyncBatchNorm(3)
        x = torch.arange(24.0).reshape(8, 3) if rank == 0 else torch.empty(0, 3)
        x.requires_grad_()
        norm(x).square().sum().backward()
        close(norm.running_mean, 0.1 * torch.tensor([10.5, 11.5, 12.5]), "mean")
        assert x.grad.shape == x.shape
    norm = nn.SyncBatchNorm(3, affine=False).to(torch.bfloat16)
    torch.manual_seed(rank)
    out = norm(torch.randn(4, 3).to(torch.bfloat16))
    assert out.dtype == torch.bfloat16
    total = out.float().sum(0)
    dist.all_reduce(total)
    assert total.abs().max() < 0.1


def joins(rank, size):
    """Ranks have 3 + rank inputs; the last process ends with the parameters of all."""
    for options in ({}, {"find_unused_parameters": True}, {"bucket_cap_mb": 1e-5}):
        for by_first in (True, False):
            torch.manual_seed(0)
            inner = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
            model = DDP(inner, **options)
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            steps = 0
            with model.join(divide_by_initial_world_size=by_first):
                for step in range(3 + rank):
                    torch.manual_seed(10 * rank + step)
                    model(torch.randn(5, 3)).sum().backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    steps += 1
            assert steps == 3 + rank
            for p in [*model.parameters(), *model.buffers()]:
                found = [torch.empty_like(p) for _ in range(size)]
                dist.all_gather(found, p.detach())
                assert all(torch.equal(each, found[0]) for each in found)


def join_averages(rank, size):
    """What a gradient is divided by, once others have joined."""
    for by_first, alone in ((True, 1.0 / size), (False, 1.0)):
        model = DDP(nn.Linear(1, 1, bias=False))
        last = None
        with model.join(divide_by_initial_world_size=by_first):
            for _ in range(2 if rank == 0 else 1):
                model.zero_grad()
                model(torch.ones(1, 1)).sum().backward()
                last = model.module.weight.grad.item()
        assert abs(last - (alone if rank == 0 else 1.0)) < 1e-6, (last, by_first)


def join_that_throws(rank, size):
    model = DDP(nn.Linear(1, 1))
    try:
        with model.join(throw_on_early_termination=True):
            for _ in range(3 if rank else 2):
                model(torch.ones(1, 1)).sum().backward()
    except RuntimeError as error:
        wanted = "Detected at least one rank" if rank else "Rank 0 exhausted all inputs"
        assert wanted in str(error) and size > 1
    else:
        assert size == 1


def trained(make, model, rank, size, steps=4):
    optimizer = make(model.parameters())
    for step in range(steps):
        x, y = data(4 * size, seed=step)
        out = model(x[rank::size])
        F.mse_loss(out, y[rank::size]).backward()
        optimizer.step()
        optimizer.zero_grad()
    return optimizer


def plain():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(72, 7), nn.Tanh(), nn.Linear(7, 5))


def parts_of_an_optimizer(rank, size):
    for kind, settings in ((torch.optim.Adam, {"lr": 0.01}), (torch.optim.SGD,
                           {"lr": 0.1, "momentum": 0.9})):  # fmt: skip
        for views in (False, True):
            whole, divided = DDP(plain()), DDP(plain())
            reference = trained(lambda ps, k=kind, s=settings: k(ps, **s), whole, rank, size)
            optimizer = trained(
                lambda ps, k=kind, s=settings, v=views: ZeroRedundancyOptimizer(
                    ps, k, parameters_as_bucket_view=v, **s
                ),
                divided, rank, size,
            )  # fmt: skip
            for p, q in zip(whole.parameters(), divided.parameters(), strict=True):
                assert torch.equal(p, q), (kind, views)
            owned = sum(p.numel() for p in optimizer._owned[rank])
            if size > 1:
                assert owned < sum(p.numel() for p in divided.parameters())
                assert len(optimizer.optim.state if optimizer.optim else ()) < 4
            optimizer.consolidate_state_dict(to=0)
            if rank == 0:
                saved = optimizer.state_dict()
                wanted = reference.state_dict()
                assert saved["state"].keys() == wanted["state"].keys()
                for i, state in wanted["state"].items():
                    for key, value in state.items():
                        if value is not None:
                            assert torch.equal(value, saved["state"][i][key])
            box = [optimizer.state_dict() if rank == 0 else None]
            dist.broadcast_object_list(box, 0)
            other = DDP(copy.deepcopy(divided.module))
            again = ZeroRedundancyOptimizer(other.parameters(), kind, **settings)
            again.load_state_dict(box[0])
            for model, each in ((other, again), (divided, optimizer)):
                x, y = data(4 * size, seed=9)
                F.mse_loss(model(x[rank::size]), y[rank::size]).backward()
                each.step()
            for p, q in zip(other.parameters(), divided.parameters(), strict=True):
                assert torch.equal(p, q)


def groups_and_schedules(rank, size):
    model = DDP(plain())
    first, *rest = model.parameters()
    optimizer = ZeroRedundancyOptimizer([first], torch.optim.SGD, lr=1.0)
    optimizer.add_param_group({"params": rest, "lr": 0.5})
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.1)
    before = [p.detach().clone() for p in model.parameters()]
    for rate in (1.0, 0.1):
        before = [p.detach().clone() for p in model.parameters()]
        model(data(2)[0]).sum().backward()
        grads = [p.grad.clone() for p in model.parameters()]
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        for i, (p, old, grad) in enumerate(zip(model.parameters(), before, grads, strict=True)):
            close(p, old - rate * (1.0 if i == 0 else 0.5) * grad, (i, rate))


def joins_with_parts(rank, size):
    model = DDP(plain())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    with Join([model, optimizer]):
        for step in range(2 + rank):
            F.mse_loss(model(data(2, step)[0]), torch.zeros(2, 5)).backward()
            optimizer.step()
    for p in model.parameters():
        found = [torch.empty_like(p) for _ in range(size)]
        dist.all_gather(found, p.detach())
        assert all(torch.equal(each, found[0]) for each in found)


def main():
    dist.init_process_group("gloo")
    for part in (
        batch_norms, nobody_or_half, joins, join_averages, join_that_throws, parts_of_an_optimizer,
        groups_and_schedules, joins_with_parts,
    ):  # fmt: skip
        part(dist.get_rank(), dist.get_world_size())
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
