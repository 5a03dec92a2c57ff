"""Collectives through which gradients flow: the gradient of each is the opposite movement.

They give new tensors.  What is sent to one member has a gradient at that member; what is given to
all has the sum of all members' gradients.
"""

from __future__ import annotations

from typing import Any

from tritorch.autograd.function import Function as Function
from tritorch.distributed import collectives as c10d
from tritorch.distributed.groups import get_rank, get_world_size
from tritorch.distributed.reduce_op import ReduceOp as ReduceOp
from tritorch.ops.shape.factory import empty, zeros

__all__ = [
    "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce",
    "reduce_scatter", "scatter",
]  # fmt: skip

SUM = ReduceOp.SUM


def _room(like: Any) -> Any:
    return empty(like.shape, dtype=like.dtype, device=like.device)


def _zeros(like: Any) -> Any:
    return zeros(like.shape, dtype=like.dtype, device=like.device)


def broadcast(tensor: Any, src: int, group: Any = None) -> Any:
    """The tensor of one member, at all."""
    return _Broadcast.apply(src, group, tensor)


def gather(tensor: Any, dst: int = 0, group: Any = None) -> tuple[Any, ...]:
    """The tensors of all members, at one; zeros at the others."""
    return _Gather.apply(dst, group, tensor)


def scatter(tensors: list[Any], src: int = 0, group: Any = None) -> Any:
    """One of the tensors that one member has, at each."""
    return _Scatter.apply(src, group, *tensors)


def reduce(tensor: Any, dst: int, op: Any = SUM, group: Any = None) -> Any:
    """The sum of the members' tensors, at one."""
    return _Reduce.apply(dst, op, group, tensor)


def reduce_scatter(output: Any, input_list: list[Any], op: Any = SUM, group: Any = None) -> Any:
    """The sum of the members' lists: one tensor of it at each."""
    return _ReduceScatter.apply(op, group, output, *input_list)


def all_gather(tensor: Any, group: Any = None) -> tuple[Any, ...]:
    """The tensors of all members, at all."""
    return _AllGather.apply(group, tensor)


def _all_gather_base(output_tensor: Any, input_tensor: Any, group: Any = None) -> Any:
    """The tensors of all members, one behind the other."""
    return _AllGatherBase.apply(output_tensor, input_tensor, group)


def all_to_all(
    output_tensor_list: list[Any], input_tensor_list: list[Any], group: Any = None
) -> tuple[Any, ...]:
    """A tensor of each member, at each."""
    return _AllToAll.apply(group, output_tensor_list, *input_tensor_list)


def all_to_all_single(
    output: Any, input: Any, output_split_sizes: Any = None, input_split_sizes: Any = None,
    group: Any = None,
) -> Any:  # fmt: skip
    """Rows of each member's tensor, at each."""
    return _AllToAllSingle.apply(group, output, output_split_sizes, input_split_sizes, input)


def all_reduce(tensor: Any, op: Any = SUM, group: Any = None) -> Any:
    """The sum of the members' tensors, at all."""
    return _AllReduce.apply(op, group, tensor)


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, tensor: Any) -> Any:
        ctx.src, ctx.group, ctx.mine = src, group, get_rank() == src
        out = tensor.clone()
        c10d.broadcast(out, src, group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        total = _Reduce.apply(ctx.src, SUM, ctx.group, grad)
        return None, None, total if ctx.mine else _zeros(total)


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, group: Any, tensor: Any) -> Any:
        ctx.dst, ctx.group = dst, group
        outs = [_zeros(tensor) for _ in range(get_world_size(group))]
        c10d.gather(tensor.contiguous(), outs if get_rank() == dst else None, dst, group)
        return tuple(outs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, None, _Scatter.apply(ctx.dst, ctx.group, *grads)


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, *tensors: Any) -> Any:
        ctx.src, ctx.group = src, group
        assert all(t.size() == tensors[0].size() for t in tensors)
        out = _zeros(tensors[0])
        c10d.scatter(out, list(tensors) if get_rank() == src else None, src, group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return (None, None, *_Gather.apply(ctx.src, ctx.group, grad))


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, op: Any, group: Any, tensor: Any) -> Any:
        ctx.dst, ctx.group = dst, group
        out = tensor.clone()
        c10d.reduce(out, dst, op, group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return None, None, None, _Broadcast.apply(ctx.dst, ctx.group, grad)


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, op: Any, group: Any, output: Any, *tensors: Any) -> Any:
        ctx.group = group
        out = _room(output)
        c10d.reduce_scatter(out, [tensor.contiguous() for tensor in tensors], op, group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return (None, None, None, *_AllGather.apply(ctx.group, grad))


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, tensor: Any) -> Any:
        ctx.group = group
        outs = [_room(tensor) for _ in range(get_world_size(group))]
        c10d.all_gather(outs, tensor.contiguous(), group)
        return tuple(outs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, _ReduceScatter.apply(SUM, ctx.group, grads[0], *grads)


class _AllGatherBase(Function):
    @staticmethod
    def forward(ctx: Any, output: Any, tensor: Any, group: Any) -> Any:
        ctx.group, ctx.shape = group, tensor.shape
        out = _room(output)
        c10d.all_gather_single(out, tensor.contiguous(), group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        out = empty(ctx.shape, dtype=grad.dtype, device=grad.device)
        c10d.reduce_scatter_single(out, grad.contiguous(), SUM, ctx.group)
        return None, out, None


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, outputs: list[Any], *tensors: Any) -> Any:
        ctx.group, ctx.shapes = group, [tensor.shape for tensor in tensors]
        outs = [_room(out) for out in outputs]
        c10d.all_to_all(outs, [tensor.contiguous() for tensor in tensors], group)
        return tuple(outs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        room = [empty(s, dtype=grads[0].dtype, device=grads[0].device) for s in ctx.shapes]
        return (None, None, *_AllToAll.apply(ctx.group, room, *grads))


class _AllToAllSingle(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, output: Any, out_sizes: Any, in_sizes: Any, x: Any) -> Any:
        ctx.group, ctx.shape, ctx.sizes = group, x.shape, (in_sizes, out_sizes)
        out = _room(output)
        c10d.all_to_all_single(out, x.contiguous(), out_sizes, in_sizes, group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        room = empty(ctx.shape, dtype=grad.dtype, device=grad.device)
        back = _AllToAllSingle.apply(ctx.group, room, *ctx.sizes, grad.contiguous())
        return None, None, None, None, back


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, op: Any, group: Any, tensor: Any) -> Any:
        ctx.op, ctx.group = op, group
        out = tensor.clone().contiguous()
        c10d.all_reduce(out, op, group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return None, None, _AllReduce.apply(ctx.op, ctx.group, grad)
