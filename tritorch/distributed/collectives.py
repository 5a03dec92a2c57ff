"""The collectives: functions of tensors that all members of a group call.

Each checks its arguments, fills in PyTorch's options, and calls the group's method.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from tritorch import overrides
from tritorch.core.device import device as Device
from tritorch.core.gates import modes
from tritorch.core.tensor import Tensor
from tritorch.distributed.backend_names import Backend
from tritorch.distributed.checks import (
    _check_complex,
    _check_single_tensor,
    _check_tensor_list,
    _ensure_all_tensors_same_dtype,
)
from tritorch.distributed.coalescing import collected
from tritorch.distributed.constants import default_pg_timeout
from tritorch.distributed.groups import (
    _canonicalize_group_rank,
    _group_or_default_group,
    _rank_not_in_group,
    _warn_not_in_group,
    get_backend,
)
from tritorch.distributed.reduce_op import (
    AllgatherOptions,
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOp,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
)
from tritorch.distributed.world import _check_valid_timeout

SUM = ReduceOp.SUM


def _tensors(argument: Any) -> tuple[Any, ...]:
    return tuple(argument) if isinstance(argument, (list, tuple)) else (argument,)


def collective(position: int = 0) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A function whose tensors may be of classes with __torch_function__: those of the argument at
    this position."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__code__.co_varnames[position]

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            given = args[position] if len(args) > position else kwargs.get(name)
            if type(given) is Tensor and not (modes.stack or modes.skip_one):
                return function(*args, **kwargs)
            relevant = _tensors(given)
            if overrides.has_torch_function(relevant):
                return overrides.handle_torch_function(called, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return called

    return decorate


def _ended(work: Any, async_op: bool) -> Any:
    if async_op:
        return work
    if work is not None:
        work.wait()
    return None


@collective()
def broadcast(
    tensor: Any, src: int | None = None, group: Any = None, async_op: bool = False,
    group_src: int | None = None,
) -> Any:  # fmt: skip
    """Gives all members the tensor of one."""
    group = _group_or_default_group(group)
    if _rank_not_in_group(group):
        return _warn_not_in_group("broadcast")
    root = _canonicalize_group_rank(group, src, group_src)
    _check_single_tensor(tensor, "tensor")
    opts = BroadcastOptions(rootRank=root, asyncOp=async_op)
    return _ended(group.broadcast([tensor], opts), async_op)


@collective()
def all_reduce(tensor: Any, op: Any = SUM, group: Any = None, async_op: bool = False) -> Any:
    """Adds up the members' tensors, in place at all of them."""
    _check_single_tensor(tensor, "tensor")
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_reduce")
    _check_complex("all_reduce", [tensor], op)
    group = _group_or_default_group(group)
    if (held := collected(group, all_reduce, async_op, tensor, None, op)) is not None:
        return held.work
    opts = AllreduceOptions(reduceOp=op, asyncOp=async_op)
    return _ended(group.allreduce([tensor], opts), async_op)


@collective()
def all_reduce_coalesced(
    tensors: Any, op: Any = SUM, group: Any = None, async_op: bool = False
) -> Any:
    """all_reduce of several tensors."""
    warnings.warn(
        "`torch.distributed.all_reduce_coalesced` will be deprecated. If you must use it, please "
        "revisit our documentation later at "
        "https://pytorch.org/docs/main/distributed.html#collective-functions",
        FutureWarning,
        stacklevel=3,
    )
    if not isinstance(tensors, (list, tuple)):
        tensors = [tensors]
    _check_tensor_list(tensors, "tensor")
    _ensure_all_tensors_same_dtype(tensors)
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_reduce_coalesced")
    _check_complex("all_reduce", tensors, op)
    opts = AllreduceCoalescedOptions(reduceOp=op, asyncOp=async_op)
    work = _group_or_default_group(group).allreduce_coalesced(tensors, opts)
    return work.get_future() if async_op else _ended(work, False)


@collective()
def reduce(
    tensor: Any, dst: int | None = None, op: Any = SUM, group: Any = None, async_op: bool = False,
    group_dst: int | None = None,
) -> Any:  # fmt: skip
    """Adds up the members' tensors, in place at one of them."""
    group = _group_or_default_group(group)
    if _rank_not_in_group(group):
        return _warn_not_in_group("reduce")
    root = _canonicalize_group_rank(group, dst, group_dst)
    _check_single_tensor(tensor, "tensor")
    _check_complex("reduce", [tensor], op)
    opts = ReduceOptions(reduceOp=op, rootRank=root, asyncOp=async_op)
    return _ended(group.reduce([tensor], opts), async_op)


@collective(1)
def all_gather(tensor_list: Any, tensor: Any, group: Any = None, async_op: bool = False) -> Any:
    """Gives all members the tensors of all, in a list."""
    _check_tensor_list(tensor_list, "tensor_list")
    _check_single_tensor(tensor, "tensor")
    _ensure_all_tensors_same_dtype(tensor_list, tensor)
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_gather")
    group = _group_or_default_group(group)
    opts = AllgatherOptions(asyncOp=async_op)
    return _ended(group.allgather([tensor_list], [tensor], opts), async_op)


@collective(1)
def all_gather_single(
    output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False
) -> Any:
    """Gives all members the tensors of all, one behind the other."""
    _check_single_tensor(input_tensor, "input_tensor")
    _check_single_tensor(output_tensor, "output_tensor")
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_gather_single")
    group = _group_or_default_group(group)
    held = collected(group, all_gather_single, async_op, input_tensor, output_tensor, None)
    if held is not None:
        return held.work
    opts = AllgatherOptions(asyncOp=async_op)
    return _ended(group._allgather_base(output_tensor, input_tensor, opts), async_op)


def _deprecated(name: str, instead: str) -> None:
    warnings.warn(
        f"`torch.distributed.{name}` is a private function and will be deprecated. Please use "
        f"`torch.distributed.{instead}` instead.",
        FutureWarning,
        stacklevel=3,
    )


@collective(1)
def all_gather_into_tensor(
    output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False
) -> Any:
    """all_gather_single, by its former name."""
    return all_gather_single(output_tensor, input_tensor, group, async_op)


def _all_gather_base(
    output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False
) -> Any:
    """all_gather_single, by a private name."""
    _deprecated("_all_gather_base", "all_gather_single")
    return all_gather_single(output_tensor, input_tensor, group, async_op)


@collective(1)
def all_gather_coalesced(
    output_tensor_lists: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False
) -> Any:
    """all_gather of several tensors: one list of them for each member."""
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_gather_coalesced")
    _check_tensor_list(input_tensor_list, "input_tensor_list")
    _ensure_all_tensors_same_dtype(input_tensor_list)
    if not isinstance(output_tensor_lists, list):
        raise TypeError("Invalid function argument: output_tensor_lists should be a list")
    for output in output_tensor_lists:
        _check_tensor_list(output, "output_tensor_lists")
        _ensure_all_tensors_same_dtype(output)
    group = _group_or_default_group(group)
    opts = AllgatherOptions(asyncOp=async_op)
    work = group.allgather_coalesced(output_tensor_lists, input_tensor_list, opts)
    return work.get_future() if async_op else _ended(work, False)


def _validate_output_list_for_rank(my_rank: int, dst: int, gather_list: Any) -> None:
    if dst == my_rank:
        if not gather_list:
            raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    elif gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")


@collective()
def gather(
    tensor: Any, gather_list: Any = None, dst: int | None = None, group: Any = None,
    async_op: bool = False, group_dst: int | None = None,
) -> Any:  # fmt: skip
    """Gives one member the tensors of all, in a list."""
    _check_single_tensor(tensor, "tensor")
    if gather_list:
        _check_tensor_list(gather_list, "gather_list")
    gather_list = gather_list or []
    _ensure_all_tensors_same_dtype(tensor, gather_list)
    group = _group_or_default_group(group)
    if _rank_not_in_group(group):
        return _warn_not_in_group("gather")
    if dst is None and group_dst is None:
        dst = 0
    root = _canonicalize_group_rank(group, dst, group_dst)
    _validate_output_list_for_rank(group.rank(), root, gather_list)
    outputs = [gather_list] if group.rank() == root else []
    opts = GatherOptions(rootRank=root, asyncOp=async_op)
    return _ended(group.gather(outputs, [tensor], opts), async_op)


@collective()
def scatter(
    tensor: Any, scatter_list: Any = None, src: int | None = None, group: Any = None,
    async_op: bool = False, group_src: int | None = None,
) -> Any:  # fmt: skip
    """Gives each member one of the tensors that one member has."""
    _check_single_tensor(tensor, "tensor")
    if scatter_list:
        _check_tensor_list(scatter_list, "scatter_list")
    scatter_list = scatter_list or []
    _ensure_all_tensors_same_dtype(tensor, scatter_list)
    group = _group_or_default_group(group)
    if _rank_not_in_group(group):
        return _warn_not_in_group("scatter")
    if src is None and group_src is None:
        src = 0
    root = _canonicalize_group_rank(group, src, group_src)
    if root == group.rank() and not scatter_list:
        raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
    if root != group.rank() and scatter_list:
        raise ValueError("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
    opts = ScatterOptions(rootRank=root, asyncOp=async_op)
    inputs = [scatter_list] if scatter_list else []
    return _ended(group.scatter([tensor], inputs, opts), async_op)


@collective()
def reduce_scatter(
    output: Any, input_list: Any, op: Any = SUM, group: Any = None, async_op: bool = False
) -> Any:
    """Adds up the members' lists of tensors; each member gets one sum."""
    _check_single_tensor(output, "output")
    _check_tensor_list(input_list, "input_list")
    _ensure_all_tensors_same_dtype(output, input_list)
    if _rank_not_in_group(group):
        return _warn_not_in_group("reduce_scatter")
    opts = ReduceScatterOptions(reduceOp=op, asyncOp=async_op)
    group = _group_or_default_group(group)
    return _ended(group.reduce_scatter([output], [input_list], opts), async_op)


@collective(1)
def reduce_scatter_single(
    output: Any, input: Any, op: Any = SUM, group: Any = None, async_op: bool = False
) -> Any:
    """Adds up the members' tensors; each member gets one part of the sum."""
    _check_single_tensor(output, "output")
    _check_single_tensor(input, "input")
    if _rank_not_in_group(group):
        return _warn_not_in_group("reduce_scatter_single")
    group = _group_or_default_group(group)
    held = collected(group, reduce_scatter_single, async_op, input, output, op)
    if held is not None:
        return held.work
    opts = ReduceScatterOptions(reduceOp=op, asyncOp=async_op)
    return _ended(group._reduce_scatter_base(output, input, opts), async_op)


@collective(1)
def reduce_scatter_tensor(
    output: Any, input: Any, op: Any = SUM, group: Any = None, async_op: bool = False
) -> Any:
    """reduce_scatter_single, by its former name."""
    return reduce_scatter_single(output, input, op, group, async_op)


def _reduce_scatter_base(
    output: Any, input: Any, op: Any = SUM, group: Any = None, async_op: bool = False
) -> Any:
    """reduce_scatter_single, by a private name."""
    _deprecated("_reduce_scatter_base", "reduce_scatter_single")
    return reduce_scatter_single(output, input, op, group, async_op)


@collective(1)
def all_to_all_single(
    output: Any, input: Any, output_split_sizes: Any = None, input_split_sizes: Any = None,
    group: Any = None, async_op: bool = False,
) -> Any:  # fmt: skip
    """Sends rows of a tensor to each member, and gets rows from each."""
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_to_all_single")
    _check_single_tensor(output, "output")
    _check_single_tensor(input, "input")
    _ensure_all_tensors_same_dtype(output, input)
    opts = AllToAllOptions(asyncOp=async_op)
    group = _group_or_default_group(group)
    work = group.alltoall_base(
        output, input, output_split_sizes or [], input_split_sizes or [], opts
    )
    return _ended(work, async_op)


@collective(1)
def all_to_all(
    output_tensor_list: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False
) -> Any:
    """Sends a tensor to each member, and gets one from each."""
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_to_all")
    _check_tensor_list(output_tensor_list, "output_tensor_list")
    _check_tensor_list(input_tensor_list, "input_tensor_list")
    _ensure_all_tensors_same_dtype(output_tensor_list, input_tensor_list)
    opts = AllToAllOptions(asyncOp=async_op)
    group = _group_or_default_group(group)
    return _ended(group.alltoall(output_tensor_list, input_tensor_list, opts), async_op)


def barrier(
    group: Any = None, async_op: bool = False, device_ids: Any = None,
    timeout: timedelta | None = None,
) -> Any:  # fmt: skip
    """Returns when all members have come."""
    if _rank_not_in_group(group):
        return _warn_not_in_group("barrier")
    group = _group_or_default_group(group)
    opts = BarrierOptions(asyncOp=async_op)
    if timeout is not None:
        opts.timeout = timeout
    if isinstance(device_ids, list):
        opts.device_ids, opts.device = device_ids, Device("cuda", device_ids[0])
    elif device_ids is not None:
        raise TypeError("Invalid function argument: device_ids type should be List[int]")
    return _ended(group.barrier(opts=opts), async_op)


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """A barrier at which rank 0 finds out who has not come: the first, or all of them."""
    if _rank_not_in_group(group):
        return _warn_not_in_group("monitored_barrier")
    if get_backend(group) != Backend.GLOO:
        raise ValueError("monitored_barrier is only implemented for GLOO backend.")
    if timeout is None:
        timeout = default_pg_timeout
    elif isinstance(timeout, float):
        warnings.warn(
            "Please specify timeout arg as a timedelta. Converting current value of "
            f"{timeout} assuming it represents seconds",
            stacklevel=2,
        )
        timeout = timedelta(seconds=timeout)
    _check_valid_timeout(timeout)
    return _group_or_default_group(group).monitored_barrier(timeout, wait_all_ranks)
