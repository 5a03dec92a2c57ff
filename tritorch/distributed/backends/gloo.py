"""gloo: collectives over shared memory within a host and TCP between hosts, natively.

The members of a group meet by its store: each listens, and writes down where; those on one host
try to map one memory.  If all are on one host and all have mapped it, collectives run there
(src/distributed/board_engine.cpp), else over TCP (mesh_engine.cpp).  Messages have connections of
their own.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from tritorch import _C
from tritorch.distributed.backends.interface import Backend, Call
from tritorch.distributed.backends.staging import Staged
from tritorch.distributed.constants import DistBackendError, default_pg_timeout, milliseconds
from tritorch.distributed.reduce_op import RedOpType
from tritorch.distributed.stores import PrefixStore, Store, gathered
from tritorch.distributed.where import Record, Ring
from tritorch.distributed.work import TaskWork, Work

__all__ = ["ProcessGroupGloo"]

_native = _C.distributed
_KINDS = _native.kinds
_OPS: dict[RedOpType, int] = {
    op: _native.reduce_ops["sum" if op is RedOpType.PREMUL_SUM else op.name.lower()]
    for op in RedOpType
    if op is not RedOpType.UNUSED
}
_REDUCING = {"all_reduce", "reduce", "reduce_scatter"}
_ANY_SOURCE = -1


def _own_address(store: Store) -> str:
    """The address at which this process listens: of the interface that GLOO_SOCKET_IFNAME names, or
    that leads to the store, or that the host's name has."""
    if name := os.environ.get("GLOO_SOCKET_IFNAME"):
        return str(_native.address_of_interface(name.split(",")[0]))
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    host = getattr(store, "host", None)
    if host:
        return str(_native.interface_towards(host, getattr(store, "port", 0)))
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"


def _host() -> str:
    """What processes have in common that can map each other's memory."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    parts = [boot.read_text().strip() if boot.exists() else socket.gethostname()]
    for space in ("pid", "ipc"):
        path = Path(f"/proc/self/ns/{space}")
        parts.append(os.readlink(path) if path.exists() else "")
    return " ".join(parts)


def _meet(store: Store, rank: int, ranks: Sequence[int], timeout: timedelta, what: str) -> Any:
    """Connects the members of a group.  A process that closes any descriptor of a file loses its
    locks of it, so that of the group's memory stays open as long as the group
    (src/distributed/board.h says what the lock is for)."""
    board, size = None, len(ranks)
    if size == 1:
        return _native.Group.alone()
    listener = _native.Listener(_own_address(store))
    said: dict[str, Any] = {"address": listener.address, "host": _host()}
    if os.environ.get("TRITORCH_GLOO_TRANSPORT") == "tcp":
        said["host"] += f" {rank}"
    if rank == 0:
        token = os.urandom(32)
        board = _native.BoardFile(size, token)
        said |= {"token": token.hex(), "process": os.getpid(), "file": board.number}
    store.set(f"rank{rank}", json.dumps(said))
    members = [json.loads(text) for text in gathered(store, "rank", ranks, what)]
    token = bytes.fromhex(members[0]["token"])
    engine = None
    if all(member["host"] == members[0]["host"] for member in members):
        place = members[0]["process"], members[0]["file"]
        try:
            engine = _native.board_engine(*place, rank, size, token)
        except DistBackendError:
            engine = None
        # Memory is used if all have it.
        store.set(f"mapped{rank}", "1" if engine is not None else "")
        mapped = gathered(store, "mapped", ranks, what)
        if not all(mapped):
            engine = None
    addresses = [tuple(member["address"]) for member in members]
    limit = milliseconds(timeout)
    return _native.Group(rank, size, engine, listener, addresses, token, limit, board)


class ProcessGroupGloo(Backend):
    """A member of a group of processes."""

    class Options:
        """PyTorch's options: threads and devices have no meaning here."""

        def __init__(self) -> None:
            self._timeout = default_pg_timeout
            self._threads = 2
            self._devices: list[Any] = []
            self.backend = "gloo"
            self.global_ranks_in_group: list[int] = []
            self.group_name = ""

    _Options = Options

    def __init__(
        self, store: Store, rank: int, size: int, timeout: Any = default_pg_timeout, *,
        ranks: Sequence[int] | None = None, what: str = "ProcessGroupGloo",
    ) -> None:  # fmt: skip
        """ranks: those of the members in the world; what: what they meet for, in errors."""
        super().__init__(rank, size)
        self.options = timeout if isinstance(timeout, self.Options) else self.Options()
        if isinstance(timeout, timedelta):
            self.options._timeout = timeout
        members = range(size) if ranks is None else ranks
        self._group = _meet(store, rank, members, self.options._timeout, what)
        self.ring = Ring("0", rank, size, store if size > 1 else None)

    def name(self) -> str:
        return "gloo"

    def set_timeout(self, timeout: timedelta) -> None:
        self.options._timeout = timeout

    _set_default_timeout = set_timeout

    def run(self, call: Call) -> Work:
        staged, kind = Staged(), call.kind
        tensors = call.inputs or call.outputs
        dtype = tensors[0].dtype if tensors else None
        code = 1 if dtype is None or dtype.code >= _NATIVE else dtype.code
        outputs = [staged.write(tensor) for tensor in call.outputs]
        if kind in _REDUCING and (call.op, dtype) not in _checked:
            _check_op(call, dtype)
        if call.op is RedOpType.PREMUL_SUM:
            inputs = [staged.read(_multiplied(tensor, call)) for tensor in call.inputs]
        elif call.inputs is call.outputs:
            inputs = outputs
        else:
            inputs = [staged.read(tensor) for tensor in call.inputs]
        sequence = self.ring.add(call)
        limit = self.options._timeout if call.timeout is None else call.timeout
        task = self._group.submit(
            _KINDS[kind],
            _OPS[call.op],
            code,
            call.root,
            inputs,
            outputs,
            staged.held,
            milliseconds(limit),
            sequence,
            0,
            call.wait,
        )
        return TaskWork(task, staged.finish, call.outputs, self.ring.error, staged.held)

    def send(self, tensor: Any, peer: int, tag: int, timeout: timedelta | None = None) -> Work:
        staged = Staged()
        limit = milliseconds(self.options._timeout if timeout is None else timeout)
        task = self._group.send(peer, tag, *staged.read(tensor), staged.held, limit)
        explain = self._about(f"send to rank {peer}", tensor)
        return TaskWork(task, None, [tensor], explain, staged.held)

    def receive(
        self, tensor: Any, peer: int | None, tag: int, timeout: timedelta | None = None
    ) -> Work:
        staged = Staged()
        limit = milliseconds(self.options._timeout if timeout is None else timeout)
        source = _ANY_SOURCE if peer is None else peer
        task = self._group.receive(source, tag, *staged.write(tensor), staged.held, limit)
        what = "recv from any rank" if peer is None else f"recv from rank {peer}"
        return TaskWork(task, staged.finish, [tensor], self._about(what, tensor), staged.held)

    def _about(self, what: str, tensor: Any) -> Any:
        record = Record(0, what, [tensor])

        def explain(failure: tuple[str, str, list[int]]) -> BaseException:
            kind, message, _ = failure
            start = "Timed out waiting for" if kind == "timeout" else "Failed:"
            return DistBackendError(
                f"{start} {what} in group {self.ring.group}: {message}. Rank "
                f"{self.ring.ranks[self._rank]}: at {record.describe()}"
            )

        return explain

    def abort(self) -> None:
        self._group.give_up("the group was aborted")

    def shutdown(self) -> None:
        self._group.stop()


_NATIVE = len(_C.dtypes())


def _check_op(call: Call, dtype: Any) -> None:
    if dtype.code >= _NATIVE:
        raise RuntimeError(f"Invalid scalar type {dtype}: gloo computes no {call.kind} of it")
    if reason := _native.refuses(_OPS[call.op], dtype.code):
        raise RuntimeError(f"Cannot use ReduceOp.{call.op.name} with {dtype}: {reason}")
    _checked.add((call.op, dtype))


def _multiplied(tensor: Any, call: Call) -> Any:
    return tensor if call.op is not RedOpType.PREMUL_SUM else tensor.detach() * call.factor


_checked: set[tuple[RedOpType, Any]] = set()  # operations with dtypes that may be computed


for _class in (ProcessGroupGloo,):
    _class.__module__ = "tritorch.distributed.distributed_c10d"
