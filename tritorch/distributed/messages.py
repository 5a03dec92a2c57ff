"""Messages from one member of a group to another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritorch.distributed.backends.nccl import ProcessGroupNCCL
from tritorch.distributed.checks import _check_single_tensor
from tritorch.distributed.collectives import collective
from tritorch.distributed.groups import (
    _canonicalize_group_rank,
    _group_or_default_group,
    _rank_not_in_group,
    _warn_not_in_group,
    get_global_rank,
    get_rank,
)
from tritorch.distributed.work import Work


def _check_not_self_rank(group: Any, rank: int, kind: str) -> None:
    if group.rank() == rank:
        raise ValueError(
            f"Invalid {kind} rank: {kind} rank should not be the same as the rank of the current "
            "process."
        )


@collective()
def isend(
    tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Begins to send a tensor."""
    group = _group_or_default_group(group)
    if _rank_not_in_group(group):
        _warn_not_in_group("isend")
        return None
    peer = _canonicalize_group_rank(group, dst, group_dst)
    _check_single_tensor(tensor, "tensor")
    return group.send([tensor], peer, tag)


@collective()
def irecv(
    tensor: Any, src: int | None = None, group: Any = None, tag: int = 0,
    group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Begins to receive a tensor; from whoever sends if no source is named."""
    _check_single_tensor(tensor, "tensor")
    if _rank_not_in_group(group):
        _warn_not_in_group("irecv")
        return None
    group = _group_or_default_group(group)
    if src is None and group_src is None:
        return group.recv_anysource([tensor], tag)
    peer = _canonicalize_group_rank(group, src, group_src)
    return group.recv([tensor], peer, tag)


@collective()
def send(
    tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0,
    group_dst: int | None = None,
) -> None:  # fmt: skip
    """Sends a tensor."""
    group = _group_or_default_group(group)
    if _rank_not_in_group(group):
        return _warn_not_in_group("send")
    peer = _canonicalize_group_rank(group, dst, group_dst)
    _check_not_self_rank(group, peer, "destination")
    work = isend(tensor, group=group, tag=tag, group_dst=peer)
    if work is not None:
        work.wait()
    return None


@collective()
def recv(
    tensor: Any, src: int | None = None, group: Any = None, tag: int = 0,
    group_src: int | None = None,
) -> int:  # fmt: skip
    """Receives a tensor; gives who sent it."""
    work = irecv(tensor, src=src, group=group, tag=tag, group_src=group_src)
    if work is None:
        return -1
    work.wait()
    if src is None:
        group = _group_or_default_group(group)
        if group_src is None:
            group_src = work._source_rank()
            _check_not_self_rank(group, group_src, "source")
        src = get_global_rank(group, group_src)
    return src


class P2POp:
    """A send or a receive of `batch_isend_irecv`."""

    def __init__(
        self, op: Callable[..., Any], tensor: Any, peer: int | None = None, group: Any = None,
        tag: int = 0, group_peer: int | None = None,
    ) -> None:  # fmt: skip
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                "``torch.distributed.irecv``."
            )
        _check_single_tensor(tensor, "tensor")
        self.op, self.tensor, self.tag = op, tensor, tag
        self.group = _group_or_default_group(group)
        self.peer = _canonicalize_group_rank(self.group, peer, group_peer, return_global=True)
        self.group_peer = _canonicalize_group_rank(self.group, peer, group_peer)

    def __repr__(self) -> str:
        mine = get_rank(self.group)
        sends = self.op is isend
        source, target = (mine, self.group_peer) if sends else (self.group_peer, mine)
        return (
            f"P2POp({self.op.__name__} pg={self.group.group_name}, group_src={source}, "
            f"group_dst={target},  {self.tensor.shape}, {self.tensor.dtype})"
        )


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Begins several sends and receives; gives their works."""
    if not isinstance(p2p_op_list, list) or not all(isinstance(op, P2POp) for op in p2p_op_list):
        raise ValueError(
            "Invalid ``p2p_op_list``. Each op is expected to to be of type "
            "``torch.distributed.P2POp``."
        )
    if any(op.group != p2p_op_list[0].group for op in p2p_op_list):
        raise ValueError("All ops need to use the same group.")
    if not p2p_op_list:
        return []
    backend = p2p_op_list[0].group._of(p2p_op_list[0].tensor)
    if isinstance(backend, ProcessGroupNCCL):  # alone, each would wait for its other end
        backend.start_coalescing()
        try:
            _begin_all(p2p_op_list)
        finally:
            work = backend.end_coalescing()
        return [] if work is None else [work]
    return _begin_all(p2p_op_list)


def _begin_all(p2p_op_list: list[P2POp]) -> list[Work]:
    works = []
    for op in p2p_op_list:
        peer = {"group_dst" if op.op is isend else "group_src": op.group_peer}
        work = op.op(op.tensor, group=op.group, tag=op.tag, **peer)
        if work:
            works.append(work)
    return works


P2POp.__module__ = "tritorch.distributed.distributed_c10d"
