"""Collectives that write into no argument: each gives new tensors, which are complete.

A group is a ProcessGroup, its name, ranks, a DeviceMesh of one dim, or a mesh with a dim.
"""

from __future__ import annotations

from typing import Any

from tritorch.autograd.function import Function
from tritorch.distributed import collectives as c10d
from tritorch.distributed.device_mesh import DeviceMesh
from tritorch.distributed.groups import _resolve_process_group
from tritorch.distributed.messages import irecv, isend
from tritorch.distributed.process_group import ProcessGroup
from tritorch.distributed.reduce_op import ReduceOp
from tritorch.distributed.world import _get_default_group, _world
from tritorch.ops.factory import empty
from tritorch.ops.joining import cat

__all__ = [
    "all_gather_tensor", "all_gather_tensor_autograd", "all_reduce", "all_reduce_coalesced",
    "all_to_all_single", "all_to_all_single_autograd", "broadcast", "permute_tensor",
    "reduce_scatter_tensor", "reduce_scatter_tensor_autograd", "wait_tensor",
]  # fmt: skip


def _resolve(group: Any) -> Any:
    """The process group that is meant."""
    if group is None:
        return _get_default_group()
    if isinstance(group, (str, int)) and not isinstance(group, bool):
        return _resolve_process_group(str(group))
    if isinstance(group, DeviceMesh):
        return group.get_group()
    if isinstance(group, tuple) and len(group) == 2 and isinstance(group[0], DeviceMesh):
        return group[0].get_group(group[1])
    if isinstance(group, (list, tuple)):
        rank = _get_default_group().rank()
        lists = group if group and isinstance(group[0], (list, tuple)) else [group]
        for ranks in lists:
            for pg, members in _world.pg_group_ranks.items():
                if rank in ranks and list(members) == list(ranks):
                    return pg
        raise ValueError(f"there is no group of the ranks {group}")
    if isinstance(group, ProcessGroup):
        return group
    raise ValueError(f"Unsupported type for group: {type(group)}")


def _resolve_group_name(group: Any, tag: str = "") -> str:
    return str(_world.pg_names[_resolve(group)])


def _op(name: Any) -> Any:
    return ReduceOp.RedOpType[name.upper()] if isinstance(name, str) else name


def wait_tensor(tensor: Any) -> Any:
    """The tensor: results are complete when a collective has given them."""
    return tensor


def broadcast(self: Any, src: int, group: Any, tag: str = "") -> Any:
    """One member's tensor."""
    out = self.detach().clone()
    c10d.broadcast(out, group=_resolve(group), group_src=src)
    return out


def all_reduce(self: Any, reduceOp: str, group: Any, tag: str = "") -> Any:
    """The sum of the members' tensors."""
    out = self.detach().clone().contiguous()
    c10d.all_reduce(out, _op(reduceOp), _resolve(group))
    return out


def all_reduce_coalesced(self: list[Any], reduceOp: str, group: Any, tag: str = "") -> list[Any]:
    """The sums of the members' tensors."""
    return [all_reduce(each, reduceOp, group, tag) for each in self]


def _gathered(shard: Any, dim: int, group: Any) -> Any:
    shape = (group.size() * shard.shape[0], *shard.shape[1:])
    out = empty(shape, dtype=shard.dtype, device=shard.device)
    c10d.all_gather_single(out, shard.detach().contiguous(), group)
    return out if dim == 0 else cat(out.chunk(group.size(), 0), dim)


def all_gather_tensor(self: Any, gather_dim: int, group: Any, tag: str = "") -> Any:
    """The members' tensors, one behind the other along a dim."""
    return _gathered(self, gather_dim, _resolve(group))


all_gather_single = all_gather_tensor


def _check_parts(x: Any, dim: int, size: int) -> None:
    assert x.shape[dim] % size == 0, (
        f"input dimension {dim} ({x.shape[dim]} must be a multiple of group_size {size}"
    )


def _scattered(x: Any, op: Any, dim: int, group: Any) -> Any:
    _check_parts(x, dim, group.size())
    if dim != 0:
        x = cat(x.chunk(group.size(), dim), 0)
    shape = (x.shape[0] // group.size(), *x.shape[1:])
    out = empty(shape, dtype=x.dtype, device=x.device)
    c10d.reduce_scatter_single(out, x.detach().contiguous(), op, group)
    return out


def reduce_scatter_tensor(
    self: Any, reduceOp: str, scatter_dim: int, group: Any, tag: str = ""
) -> Any:
    """This member's part, along a dim, of the sum of the members' tensors."""
    return _scattered(self, _op(reduceOp), scatter_dim, _resolve(group))


reduce_scatter_single = reduce_scatter_tensor


def all_gather_into_tensor_coalesced(self: list[Any], group: Any, tag: str = "") -> list[Any]:
    """all_gather_tensor of several tensors along their first dim."""
    return [all_gather_tensor(each, 0, group, tag) for each in self]


def reduce_scatter_tensor_coalesced(
    inputs: list[Any], reduceOp: str, scatter_dim: list[int], group: Any, tag: str = ""
) -> list[Any]:
    """reduce_scatter_tensor of several tensors."""
    return [
        reduce_scatter_tensor(each, reduceOp, dim, group, tag)
        for each, dim in zip(inputs, scatter_dim, strict=True)
    ]


def _exchanged(x: Any, out_sizes: Any, in_sizes: Any, group: Any) -> Any:
    rows = x.shape[0] if out_sizes is None else sum(out_sizes)
    out = empty((rows, *x.shape[1:]), dtype=x.dtype, device=x.device)
    c10d.all_to_all_single(out, x.detach().contiguous(), out_sizes, in_sizes, group)
    return out


def all_to_all_single(
    self: Any, output_split_sizes: Any, input_split_sizes: Any, group: Any, tag: str = ""
) -> Any:
    """Rows of each member."""
    return _exchanged(self, output_split_sizes, input_split_sizes, _resolve(group))


def permute_tensor(self: Any, src_dst: list[int], group: Any, tag: str = "") -> Any:
    """The tensor of the member that sends to this one: member i sends to src_dst[i]."""
    pg = _resolve(group)
    rank = pg.rank()
    target, source = src_dst[rank], src_dst.index(rank)
    out = empty(self.shape, dtype=self.dtype, device=self.device)
    if target == rank:
        return out.copy_(self.detach())
    works = [
        isend(self.detach().contiguous(), group=pg, group_dst=target),
        irecv(out, group=pg, group_src=source),
    ]
    for work in works:
        work.wait()
    return out


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, dim: int, group: Any) -> Any:
        ctx.dim, ctx.group = dim, group
        return _gathered(x, dim, group)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return _scattered(grad, ReduceOp.SUM, ctx.dim, ctx.group), None, None


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, op: Any, dim: int, group: Any) -> Any:
        ctx.dim, ctx.group, ctx.mean = dim, group, op is ReduceOp.AVG
        return _scattered(x, op, dim, group)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        grad = _gathered(grad, ctx.dim, ctx.group)
        return grad / ctx.group.size() if ctx.mean else grad, None, None, None


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, out_sizes: Any, in_sizes: Any, group: Any) -> Any:
        ctx.sizes, ctx.group = (in_sizes, out_sizes), group
        return _exchanged(x, out_sizes, in_sizes, group)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        out_sizes, in_sizes = ctx.sizes
        return _exchanged(grad, out_sizes, in_sizes, ctx.group), None, None, None


def all_gather_tensor_autograd(self: Any, gather_dim: int, group: Any, tag: str = "") -> Any:
    """all_gather_tensor through which gradients flow."""
    return _AllGather.apply(self, gather_dim, _resolve(group))


def reduce_scatter_tensor_autograd(
    self: Any, reduceOp: str, scatter_dim: int, group: Any, tag: str = ""
) -> Any:
    """reduce_scatter_tensor through which gradients flow, for sums and means."""
    op = _op(reduceOp)
    if op not in (ReduceOp.SUM, ReduceOp.AVG):
        raise RuntimeError(f"reduce_scatter has gradients for sum and avg, not for {reduceOp}")
    return _ReduceScatter.apply(self, op, scatter_dim, _resolve(group))


def all_to_all_single_autograd(
    self: Any, output_split_sizes: Any, input_split_sizes: Any, group: Any, tag: str = ""
) -> Any:
    """all_to_all_single through which gradients flow."""
    return _AllToAll.apply(self, output_split_sizes, input_split_sizes, _resolve(group))
