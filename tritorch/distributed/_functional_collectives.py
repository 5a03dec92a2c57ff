"""Collectives that write into no argument: each gives new tensors, which are complete.

They call `torch.ops._c10d_functional`, whose operators are records (Note [Collectives as records]
in `ops/collectives.py`): gradients flow through them, and traces, compiled functions and meta
tensors know them.  A group is a ProcessGroup, its name, ranks, a DeviceMesh of one dim, or a mesh
with a dim.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

from tritorch import _C
from tritorch.autograd import no_grad
from tritorch.core.gates import GATES
from tritorch.distributed import collectives as c10d
from tritorch.distributed.device_mesh import DeviceMesh
from tritorch.distributed.groups import _resolve_process_group
from tritorch.distributed.process_group import ProcessGroup
from tritorch.distributed.reduce_op import ReduceOp
from tritorch.distributed.world import _get_default_group, _world
from tritorch.ops import collectives as records
from tritorch.ops.record.overloads import namespace

__all__ = [
    "all_gather_into_tensor_coalesced", "all_gather_single", "all_gather_single_autograd",
    "all_gather_single_coalesced", "all_gather_tensor", "all_gather_tensor_autograd", "all_reduce",
    "all_reduce_coalesced", "all_to_all_single", "all_to_all_single_autograd", "broadcast",
    "permute_tensor", "reduce_scatter_single", "reduce_scatter_single_autograd",
    "reduce_scatter_single_coalesced", "reduce_scatter_tensor", "reduce_scatter_tensor_autograd",
    "reduce_scatter_tensor_coalesced", "wait_tensor",
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


# ---- who moves the data --------------------------------------------------------------------------


def _op(name: Any) -> Any:
    return ReduceOp.RedOpType[name.upper()] if isinstance(name, str) else name


def _moves(move: Any) -> Any:
    """A function of tensors and a group as one of arrays and the group's name."""

    def run(x: Any, out: Any, *params: Any) -> None:
        group = _resolve_process_group(params[-1])
        with no_grad():
            move(_C.wrap(x).contiguous(), _C.wrap(out), *params[:-1], group)

    return run


def _sum_up(x: Any, out: Any, op: str, group: Any) -> None:
    c10d.all_reduce(out.copy_(x), _op(op), group)


def _spread(x: Any, out: Any, src: int, group: Any) -> None:
    c10d.broadcast(out.copy_(x), group=group, group_src=src)


records.MOVERS.update(
    all_reduce=_moves(_sum_up),
    broadcast=_moves(_spread),
    all_gather_into_tensor=_moves(
        lambda x, out, size, group: c10d.all_gather_single(out, x, group)
    ),
    reduce_scatter_tensor=_moves(
        lambda x, out, op, size, group: c10d.reduce_scatter_single(out, x, _op(op), group)
    ),
    all_to_all_single=_moves(
        lambda x, out, outs, ins, group: c10d.all_to_all_single(out, x, outs, ins, group)
    ),
    rank=lambda name: _resolve_process_group(name).rank(),
)


# ---- functions -----------------------------------------------------------------------------------


_OPERATORS = namespace("_c10d_functional")


def _called(name: str, x: Any, *params: Any, group: Any) -> Any:
    """An operator's call, and the wait for it; of several tensors, for each."""
    found = getattr(_OPERATORS, name).default(x, *params, str(_world.pg_names[group]))
    return [wait_tensor(y) for y in found] if isinstance(found, list) else wait_tensor(found)


def _joined(parts: Any, dim: int) -> Any:
    return GATES["tritorch"]["cat"](parts, dim)  # what a compiled function follows


def _word(op: Any) -> str:
    return str(op if isinstance(op, str) else op.name).lower()


def wait_tensor(tensor: Any) -> Any:
    """The tensor: results are complete when a collective has given them."""
    return _OPERATORS.wait_tensor.default(tensor)


def broadcast(self: Any, src: int, group: Any, tag: str = "") -> Any:
    """One member's tensor."""
    return _called("broadcast", self, src, group=_resolve(group))


def all_reduce(self: Any, reduceOp: str, group: Any, tag: str = "") -> Any:
    """The sum of the members' tensors; gradients flow through sums and means."""
    return _called("all_reduce", self, _word(reduceOp), group=_resolve(group))


def all_reduce_coalesced(self: list[Any], reduceOp: str, group: Any, tag: str = "") -> list[Any]:
    """The sums of the members' tensors."""
    return _called("all_reduce_coalesced", self, _word(reduceOp), group=_resolve(group))


def all_gather_single(self: Any, gather_dim: int, group: Any, tag: str = "") -> Any:
    """The members' tensors, one behind the other along a dim."""
    pg = _resolve(group)
    out = _called("all_gather_into_tensor", self, pg.size(), group=pg)
    return out if gather_dim == 0 else _joined(out.chunk(pg.size(), 0), gather_dim)


def all_gather_single_coalesced(self: list[Any], group: Any, tag: str = "") -> list[Any]:
    """all_gather_single of several tensors along their first dim."""
    pg = _resolve(group)
    return _called("all_gather_into_tensor_coalesced", self, pg.size(), group=pg)


def _in_rows(x: Any, dim: int, size: int) -> Any:
    """A tensor whose parts along a dim lie one behind the other."""
    assert x.shape[dim] % size == 0, (
        f"input dimension {dim} ({x.shape[dim]} must be a multiple of group_size {size}"
    )
    return x if dim == 0 else _joined(x.chunk(size, dim), 0)


def reduce_scatter_single(
    self: Any, reduceOp: str, scatter_dim: int, group: Any, tag: str = ""
) -> Any:
    """This member's part, along a dim, of the sum of the members' tensors."""
    pg = _resolve(group)
    x = _in_rows(self, scatter_dim, pg.size())
    return _called("reduce_scatter_tensor", x, _word(reduceOp), pg.size(), group=pg)


def reduce_scatter_single_coalesced(
    inputs: list[Any], reduceOp: str, scatter_dim: list[int], group: Any, tag: str = ""
) -> list[Any]:
    """reduce_scatter_single of several tensors."""
    pg = _resolve(group)
    given = [_in_rows(x, dim, pg.size()) for x, dim in zip(inputs, scatter_dim, strict=True)]
    word = _word(reduceOp)
    return _called("reduce_scatter_tensor_coalesced", given, word, pg.size(), group=pg)


def all_to_all_single(
    self: Any, output_split_sizes: Any, input_split_sizes: Any, group: Any, tag: str = ""
) -> Any:
    """Rows of each member."""
    pg = _resolve(group)
    size, rows = pg.size(), self.shape[0]
    if (output_split_sizes is None or input_split_sizes is None) and rows % size:
        raise ValueError(f"all_to_all_single: {rows} rows are not for {size} ranks alike")
    outs, ins = (
        tuple(sizes) if sizes is not None else (rows // size,) * size
        for sizes in (output_split_sizes, input_split_sizes)
    )
    return _called("all_to_all_single", self, outs, ins, group=pg)


def permute_tensor(self: Any, src_dst: list[int], group: Any, tag: str = "") -> Any:
    """The tensor of the member that sends to this one: member i sends to src_dst[i]."""
    pg = _resolve(group)
    target, source = src_dst[pg.rank()], src_dst.index(pg.rank())
    ins, outs = (
        [self.numel() if rank == other else 0 for rank in range(pg.size())]
        for other in (target, source)
    )
    return all_to_all_single(self.reshape(-1), outs, ins, pg).reshape(self.shape)


# ---- other names ---------------------------------------------------------------------------------

# From when gradients had functions of their own.
all_gather_single_autograd = all_gather_single
reduce_scatter_single_autograd = reduce_scatter_single
all_to_all_single_autograd = all_to_all_single


def _deprecated(name: str, function: Any) -> Any:
    """A function under a former name; a compiled function does not say so each time."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if _C.current_region() is None:
            warnings.warn(
                f"`{__name__}.{name}` is deprecated. Please use "
                f"`{__name__}.{function.__name__}` instead.",
                FutureWarning,
                stacklevel=2,
            )
        return function(*args, **kwargs)

    called.__name__ = called.__qualname__ = name
    return called


all_gather_tensor = _deprecated("all_gather_tensor", all_gather_single)
all_gather_tensor_autograd = _deprecated("all_gather_tensor_autograd", all_gather_single)
all_gather_into_tensor_coalesced = _deprecated(
    "all_gather_into_tensor_coalesced", all_gather_single_coalesced
)
reduce_scatter_tensor = _deprecated("reduce_scatter_tensor", reduce_scatter_single)
reduce_scatter_tensor_autograd = _deprecated(
    "reduce_scatter_tensor_autograd", reduce_scatter_single
)
reduce_scatter_tensor_coalesced = _deprecated(
    "reduce_scatter_tensor_coalesced", reduce_scatter_single_coalesced
)
