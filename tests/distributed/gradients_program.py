"""Collectives with gradients, functional ones, and meshes, in each process."""

import tritorch as torch
import tritorch.distributed as dist
from tritorch.distributed import _functional_collectives as funcol
from tritorch.distributed.nn import functional as F


def leaf(rank, *shape):
    return (torch.arange(float(torch.Size(shape).numel())).reshape(shape) + rank).requires_grad_()


def gradients(rank, size):
    """The loss is a sum over all members, each with a weight of its own; so the gradient of a
    member's tensor is the sum of the weights of those who got it."""
    weights = [r + 1.0 for r in range(size)]
    total, mine = sum(weights), weights[rank]
    x = leaf(rank, 3)
    y = F.all_reduce(x)
    assert y.tolist() == [size * i + sum(range(size)) for i in range(3)]
    (y.sum() * mine).backward()
    assert x.grad.tolist() == [total] * 3
    x = leaf(rank, 3)
    outs = F.all_gather(x)
    assert all(out.tolist() == [r, r + 1, r + 2] for r, out in enumerate(outs))
    sum(out.sum() * (r + 1) * mine for r, out in enumerate(outs)).backward()
    assert x.grad.tolist() == [total * (rank + 1)] * 3
    x = leaf(rank, 3)
    (F.broadcast(x, 0).sum() * mine).backward()
    assert x.grad.tolist() == [total if rank == 0 else 0.0] * 3
    x = leaf(rank, 3)
    (F.reduce(x, size - 1).sum() * mine).backward()
    assert x.grad.tolist() == [float(size)] * 3
    xs = [leaf(rank + r, 2) for r in range(size)]
    (F.reduce_scatter(torch.empty(2), xs).sum() * mine).backward()
    assert [x.grad.tolist() for x in xs] == [[w] * 2 for w in weights]
    xs = [leaf(rank + r, 2) for r in range(size)]
    outs = F.all_to_all([torch.empty(2) for _ in range(size)], xs)
    sum(out.sum() * mine for out in outs).backward()
    assert [x.grad.tolist() for x in xs] == [[w] * 2 for w in weights]
    x = leaf(rank, size, 2)
    (F.all_to_all_single(torch.empty(size, 2), x).sum() * mine).backward()
    assert x.grad.tolist() == [[w] * 2 for w in weights]
    xs = [leaf(rank + r, 2) for r in range(size)]
    (F.scatter(xs, 0).sum() * mine).backward()
    wanted = [[w] * 2 for w in weights] if rank == 0 else [[0.0] * 2] * size
    assert [x.grad.tolist() for x in xs] == wanted
    x = leaf(rank, 2)
    sum(out.sum() * (r + 1) for r, out in enumerate(F.gather(x, 0))).backward()
    assert x.grad.tolist() == [rank + 1.0] * 2


def functional(rank, size):
    world = dist.distributed_c10d._get_default_group()
    x = torch.arange(4.0).reshape(2, 2) + rank
    for group in (world, list(range(size)), world.group_name):
        assert funcol.all_reduce(x, "sum", group).equal(x * size + sum(range(size)) - rank * size)
    assert funcol.all_gather_single(x, 1, world).equal(
        torch.cat([torch.arange(4.0).reshape(2, 2) + r for r in range(size)], 1)
    )
    y = torch.arange(4.0 * size).reshape(2, 2 * size)
    part = funcol.reduce_scatter_single(y, "avg", 1, world)
    assert part.equal(y[:, 2 * rank : 2 * rank + 2])
    target = [(r + 1) % size for r in range(size)]
    left = (rank - 1) % size
    assert funcol.permute_tensor(x, target, world).equal(x - rank + left)
    z = leaf(rank, 2, 3)
    (funcol.all_gather_single_autograd(z, 0, world).sum() * (rank + 1)).backward()
    assert z.grad.eq(sum(range(1, size + 1))).all()
    z = leaf(rank, size, 3)
    (funcol.reduce_scatter_single_autograd(z, "sum", 0, world).sum() * (rank + 1)).backward()
    assert [row[0].item() for row in z.grad] == list(range(1, size + 1))
    z = leaf(rank, size, 3)
    (funcol.all_to_all_single_autograd(z, None, None, world).sum() * (rank + 1)).backward()
    assert [row[0].item() for row in z.grad] == list(range(1, size + 1))


def meshes(rank, size):
    if size < 4:
        mesh = dist.init_device_mesh("cpu", (size,))
        assert mesh.get_group() is dist.group.WORLD and mesh.get_local_rank() == rank
        return
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    assert mesh.shape == (2, 2) and mesh.get_coordinate() == [rank // 2, rank % 2]
    assert repr(mesh) == "DeviceMesh((dp=2, tp=2), 'cpu', stride=(2, 1))"
    x = torch.tensor([float(rank)])
    dist.all_reduce(x, group=mesh.get_group("tp"))
    assert x.item() == {0: 1.0, 1: 5.0}[rank // 2]
    assert (
        funcol.all_reduce(torch.tensor([float(rank)]), "sum", (mesh, 0)).item()
        == ({0: 2.0, 1: 4.0}[rank % 2])
    )
    column = mesh["dp"]
    assert column.mesh.tolist() == [rank % 2, rank % 2 + 2]
    assert column.get_local_rank() == rank // 2
    flat = mesh._flatten("all")
    assert flat.size() == 4 and mesh["all"] is flat
    x = torch.ones(1)
    dist.all_reduce(x, group=flat.get_group())
    assert x.item() == 4


dist.init_process_group("gloo")
me, count = dist.get_rank(), dist.get_world_size()
gradients(me, count)
functional(me, count)
meshes(me, count)
dist.destroy_process_group()
