"""ProcessGroup: a group as one of its members sees it, with the methods of PyTorch's class.

A group has a backend for each type of device.  Methods turn PyTorch's arguments (lists of lists,
options) into a `Call` of the backend that the tensors' device has.  A backend of a program, which
has PyTorch's methods instead, gets the call as it came.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from tritorch import _C
from tritorch.core import profiling
from tritorch.core.device import device as Device
from tritorch.core.profiling import events
from tritorch.distributed.backends.interface import Backend, Call
from tritorch.distributed.constants import default_pg_timeout
from tritorch.distributed.monitored import monitored
from tritorch.distributed.reduce_op import (
    AllgatherOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
    as_type,
)
from tritorch.distributed.sparse_sums import all_reduce_sparse
from tritorch.distributed.stores import Store
from tritorch.distributed.work import Work, WorkList
from tritorch.ops.shape.memory import view_as_real

__all__ = ["ProcessGroup"]


class BackendType(enum.Enum):
    """The backends by number."""

    UNDEFINED = 0
    GLOO = 1
    NCCL = 2
    UCC = 3
    MPI = 4
    XCCL = 5
    CUSTOM = 6


def _pieces(tensor: Any, count: int, what: str) -> list[Any]:
    """A tensor cut along its first dim into one piece for each member, or already one a member."""
    if count == 0 or tensor.numel() % count:
        raise ValueError(
            f"{what}: a tensor of {tensor.numel()} elements is not for {count} ranks alike"
        )
    flat = tensor if tensor.ndim == 1 else _flat(tensor)
    size = flat.numel() // count
    return [flat[i * size : (i + 1) * size] for i in range(count)]


def _flat(tensor: Any) -> Any:
    if not tensor.is_contiguous():
        raise ValueError("Tensors must be contiguous")
    return tensor.detach().view(-1)


def _split(tensor: Any, sizes: list[int], count: int, what: str) -> list[Any]:
    """The rows of a tensor for each member: as many as the sizes say, or alike."""
    rows = tensor.shape[0] if tensor.ndim else 1
    if not sizes:
        if rows % count:
            raise ValueError(
                f"Tensor's dim 0 does not divide equally across group size: {what} has "
                f"{rows} rows for {count} ranks"
            )
        sizes = [rows // count] * count
    if len(sizes) != count:
        raise ValueError(f"Number of tensor splits not equal to group size: {what}")
    if sum(sizes) != rows:
        raise ValueError(f"Split sizes doesn't match total dim 0 size: {what}")
    return list(tensor.detach().split(sizes))


def _event(backend: Backend, what: str, calls: Sequence[Call]) -> Any:
    """A profile's event of what begins here: it ends with its work, whatever its thread does.
    Complex numbers travel as pairs, and are shown so."""
    tensors = [each for call in calls for each in call.inputs or call.outputs]
    shown = tuple(view_as_real(each) if each.is_complex() else each for each in tensors)
    return events.begin(profiling.WORK, f"{backend.name()}:{what}", -1, shown)


def _at_once(what: str) -> Any:
    """Inside, what a compiled function calls is done now, after all that waits in it: there may be
    collectives among that, and the other members do not know which calls wait here."""
    if _C.current_region() is None:
        return _PLAIN
    from tritorch.compilation.follow.regions import at_once

    return at_once(what)


_PLAIN = contextlib.nullcontext()


class ProcessGroup:
    """A group of processes (or threads) that call collectives together."""

    BackendType = BackendType

    def __init__(self, store: Any, rank: int | None = None, size: int | None = None) -> None:
        if size is None:  # ProcessGroup(rank, size), of which programs derive
            store, rank, size = None, store, rank
        self._store, self._rank, self._size = store, int(rank or 0), int(size or 0)
        self._backends: dict[str, Any] = {}
        self._types: dict[str, Any] = {}
        self._default_type = BackendType.UNDEFINED
        self._name, self._desc = "", "undefined"
        self.bound_device_id: Any = None
        self._coalescing: list[Work] | None = None

    # -- what it is -----------------------------------------------------------------------------

    def rank(self) -> int:
        """The number of this member in the group."""
        return self._rank

    def size(self) -> int:
        """The number of members."""
        return self._size

    def name(self) -> str:
        """The name of its backend."""
        return self._get_backend_name()

    def getBackendName(self) -> str:
        """The name of its backend."""
        return self._get_backend_name()

    def _get_backend_name(self) -> str:
        for backend in self._backends.values():
            return str(backend.name())
        return "undefined"

    @property
    def group_name(self) -> str:
        """The group's name among those of the process."""
        return self._name

    def _set_group_name(self, name: str) -> None:
        self._name = name

    @property
    def group_desc(self) -> str:
        """What the group is for."""
        return self._desc

    def _set_group_desc(self, desc: str) -> None:
        self._desc = desc

    def get_group_store(self) -> Store:
        """The store by which its members met."""
        return self._store

    store = property(get_group_store)

    # -- backends -------------------------------------------------------------------------------

    @property
    def _device_types(self) -> list[Any]:
        return [Device(kind) for kind in self._backends]

    def _register_backend(self, device: Any, backend_type: Any, backend: Any) -> None:
        kind = device if isinstance(device, str) else device.type
        self._backends[kind] = backend
        self._types[kind] = backend_type

    def _set_default_backend(self, backend_type: Any) -> None:
        self._default_type = backend_type

    def _get_backend(self, device: Any) -> Any:
        kind = device if isinstance(device, str) else device.type
        if kind not in self._backends:
            raise RuntimeError(f"No backend type associated with device type {kind}")
        return self._backends[kind]

    def _of(self, tensors: Any) -> Any:
        """The backend of the tensors' device; of any if there are none."""
        while isinstance(tensors, (list, tuple)):
            if not tensors:
                return self._any()
            tensors = tensors[0]
        return self._get_backend(tensors.device)

    def _any(self) -> Any:
        for backend in self._backends.values():
            return backend
        raise RuntimeError("the group has no backend")

    def _all(self) -> list[Any]:
        seen: list[Any] = []
        for backend in self._backends.values():
            if not any(backend is other for other in seen):
                seen.append(backend)
        return seen

    def set_timeout(self, timeout: timedelta) -> None:
        """Sets how long collectives may last."""
        for backend in self._all():
            backend.set_timeout(timeout)

    def abort(self) -> None:
        """Ends what runs, here and at the other members."""
        for backend in self._all():
            backend.abort()

    def shutdown(self) -> None:
        """Ends the group once what was begun is over."""
        for backend in self._all():
            backend.shutdown()

    def _set_sequence_number_for_group(self) -> None: ...

    def _wait_for_pending_works(self) -> None: ...

    def _has_hooks(self) -> bool:
        return False

    # -- collectives ----------------------------------------------------------------------------

    def _run(self, method: str, arguments: tuple[Any, ...], opts: Any, *calls: Call) -> Work:
        """Has a backend do it: ours gets the calls, another the method as it was called."""
        call = calls[0]
        backend = self._of(call.outputs or call.inputs)
        if not isinstance(backend, Backend):
            with _at_once(method):
                return getattr(backend, method)(*arguments, opts)
        event = _event(backend, call.kind, calls) if events.enabled() else None
        for each in calls:
            # The default of the options is none of the caller's.
            if opts.timeout != type(opts).timeout:
                each.timeout = opts.timeout
            each.wait = not opts.asyncOp and self._coalescing is None
        if _C.current_region() is None:
            works = [backend.run(each) for each in calls]
        else:
            with _at_once(call.kind):
                works = [backend.run(each) for each in calls]
        work = works[0] if len(works) == 1 else WorkList(works)
        if event is not None:
            work._once_over(lambda: events.end(event))
        if self._coalescing is not None:
            self._coalescing.append(work)
        return work

    def broadcast(self, tensors: Any, opts: Any = None, timeout: Any = None) -> Work:
        if not isinstance(tensors, list):
            tensors, opts = [tensors], BroadcastOptions(rootRank=opts or 0)
        opts = _with(opts or BroadcastOptions(), timeout)
        calls = [Call("broadcast", [], [each], root=opts.rootRank) for each in tensors]
        return self._run("broadcast", (tensors,), opts, *calls)

    def allreduce(self, tensors: Any, opts: Any = None, timeout: Any = None) -> Work:
        opts = _with(_reducing(opts, AllreduceOptions), timeout)
        tensors = tensors if isinstance(tensors, list) else [tensors]
        if tensors and tensors[0].is_sparse and isinstance(self._of(tensors), Backend):
            return WorkList([all_reduce_sparse(self, each, opts) for each in tensors])
        op, factor = as_type(opts.reduceOp)
        calls = [Call("all_reduce", own := [each], own, op, factor) for each in tensors]
        return self._run("allreduce", (tensors,), opts, *calls)

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Work:
        opts = _reducing(opts, AllreduceOptions)
        op, factor = as_type(opts.reduceOp)
        calls = [Call("all_reduce", own := [each], own, op, factor) for each in tensors]
        return self._run("allreduce_coalesced", (tensors,), opts, *calls)

    def reduce(self, tensors: Any, opts: Any = None, op: Any = None, timeout: Any = None) -> Work:
        if not isinstance(tensors, list):
            root = opts or 0
            opts = _reducing(op, ReduceOptions)
            tensors, opts.rootRank = [tensors], root
        opts = _with(_reducing(opts, ReduceOptions), timeout)
        kind, factor = as_type(opts.reduceOp)
        calls = [Call("reduce", [each], [each], kind, factor, opts.rootRank) for each in tensors]
        return self._run("reduce", (tensors,), opts, *calls)

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None, timeout: Any = None) -> Work:
        if not isinstance(inputs, list):
            outputs, inputs, opts = [outputs], [inputs], None
        opts = _with(opts or AllgatherOptions(), timeout)
        calls = [
            Call("all_gather", [each], list(out)) for out, each in zip(outputs, inputs, strict=True)
        ]
        return self._run("allgather", (outputs, inputs), opts, *calls)

    def _allgather_base(self, output: Any, input: Any, opts: Any = None) -> Work:
        opts = opts or AllgatherOptions()
        pieces = _pieces(output, self._size, "all_gather_into_tensor")
        if not input.is_contiguous():
            input = input.contiguous()
        if input.numel() * self._size != output.numel():
            raise ValueError(
                "output tensor size must be equal to world_size times input tensor size"
            )
        return self._run(
            "_allgather_base", (output, input), opts, Call("all_gather", [input], pieces)
        )

    all_gather_single = _allgather_base

    def allgather_coalesced(self, output_lists: Any, input_list: Any, opts: Any = None) -> Work:
        opts = opts or AllgatherOptions()
        calls = [
            Call("all_gather", [each], [output[i] for output in output_lists])
            for i, each in enumerate(input_list)
        ]
        return self._run("allgather_coalesced", (output_lists, input_list), opts, *calls)

    def allgather_into_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        opts = opts or AllgatherOptions()
        calls = [
            Call("all_gather", [each], _pieces(out, self._size, "all_gather_into_tensor"))
            for out, each in zip(outputs, inputs, strict=True)
        ]
        return self._run("allgather_into_tensor_coalesced", (outputs, inputs), opts, *calls)

    all_gather_single_coalesced = allgather_into_tensor_coalesced

    def gather(self, outputs: Any, inputs: Any, opts: Any = None, timeout: Any = None) -> Work:
        if not isinstance(inputs, list):
            outputs, inputs = [outputs] if outputs else [], [inputs]
            opts = GatherOptions(rootRank=opts or 0)
        opts = _with(opts or GatherOptions(), timeout)
        out = list(outputs[0]) if self._rank == opts.rootRank else []
        call = Call("gather", [inputs[0]], out, root=opts.rootRank)
        return self._run("gather", (outputs, inputs), opts, call)

    def scatter(self, outputs: Any, inputs: Any, opts: Any = None, timeout: Any = None) -> Work:
        if not isinstance(outputs, list):
            outputs, inputs = [outputs], [inputs] if inputs else []
            opts = ScatterOptions(rootRank=opts or 0)
        opts = _with(opts or ScatterOptions(), timeout)
        mine = list(inputs[0]) if self._rank == opts.rootRank else []
        call = Call("scatter", mine, [outputs[0]], root=opts.rootRank)
        return self._run("scatter", (outputs, inputs), opts, call)

    def reduce_scatter(
        self, outputs: Any, inputs: Any, opts: Any = None, timeout: Any = None
    ) -> Work:
        if not isinstance(outputs, list):
            outputs, inputs = [outputs], [inputs]
        opts = _with(_reducing(opts, ReduceScatterOptions), timeout)
        op, factor = as_type(opts.reduceOp)
        calls = [
            Call("reduce_scatter", list(each), [out], op, factor)
            for out, each in zip(outputs, inputs, strict=True)
        ]
        return self._run("reduce_scatter", (outputs, inputs), opts, *calls)

    def _reduce_scatter_base(self, output: Any, input: Any, opts: Any = None) -> Work:
        opts = _reducing(opts, ReduceScatterOptions)
        op, factor = as_type(opts.reduceOp)
        if output.numel() * self._size != input.numel():
            raise ValueError("input tensor must be the same size as output size times world size")
        call = Call(
            "reduce_scatter", _pieces(input, self._size, "reduce_scatter"), [output], op, factor
        )
        return self._run("_reduce_scatter_base", (output, input), opts, call)

    reduce_scatter_single = _reduce_scatter_base

    def reduce_scatter_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        opts = _reducing(opts, ReduceScatterOptions)
        op, factor = as_type(opts.reduceOp)
        calls = [
            Call("reduce_scatter", _pieces(each, self._size, "reduce_scatter"), [out], op, factor)
            for out, each in zip(outputs, inputs, strict=True)
        ]
        return self._run("reduce_scatter_tensor_coalesced", (outputs, inputs), opts, *calls)

    def alltoall_base(
        self, output: Any, input: Any, output_split_sizes: Any, input_split_sizes: Any,
        opts: Any = None,
    ) -> Work:  # fmt: skip
        opts = opts or AllToAllOptions()
        call = Call(
            "all_to_all",
            _split(input, list(input_split_sizes or ()), self._size, "input"),
            _split(output, list(output_split_sizes or ()), self._size, "output"),
        )
        arguments = (output, input, output_split_sizes, input_split_sizes)
        return self._run("alltoall_base", arguments, opts, call)

    all_to_all_single = alltoall_base

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        opts = opts or AllToAllOptions()
        call = Call("all_to_all", list(inputs), list(outputs))
        return self._run("alltoall", (outputs, inputs), opts, call)

    def barrier(self, opts: Any = None, timeout: Any = None) -> Work:
        opts = _with(opts or BarrierOptions(), timeout)
        return self._run("barrier", (), opts, Call("barrier", [], []))

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        timeout = default_pg_timeout if timeout is None else timeout
        with _at_once("monitored_barrier"):
            monitored(self._any(), timeout, wait_all_ranks)

    # -- messages -------------------------------------------------------------------------------

    def send(self, tensors: list[Any], dstRank: int, tag: int) -> Work:
        backend = self._of(tensors)
        if not isinstance(backend, Backend):
            with _at_once("send"):
                return backend.send(tensors, dstRank, tag)
        return self._message("send", backend.send, tensors[0], dstRank, tag)

    def recv(self, tensors: list[Any], srcRank: int, tag: int) -> Work:
        backend = self._of(tensors)
        if not isinstance(backend, Backend):
            with _at_once("recv"):
                return backend.recv(tensors, srcRank, tag)
        return self._message("recv", backend.receive, tensors[0], srcRank, tag)

    def recv_anysource(self, tensors: list[Any], tag: int) -> Work:
        backend = self._of(tensors)
        if not isinstance(backend, Backend):
            with _at_once("recv_anysource"):
                return backend.recv_anysource(tensors, tag)
        return self._message("recvAnySource", backend.receive, tensors[0], None, tag)

    def _message(self, what: str, begin: Any, tensor: Any, peer: int | None, tag: int) -> Work:
        event = None
        if events.enabled():
            event = _event(begin.__self__, what, [Call(what, [tensor], [])])
        with _at_once(what):
            work = begin(tensor, peer, tag)
        if event is not None:
            work._once_over(lambda: events.end(event))
        if self._coalescing is not None:
            self._coalescing.append(work)
        return work

    def _start_coalescing(self, device: Any) -> None:
        self._coalescing = []

    def _end_coalescing(self, device: Any) -> Work:
        works, self._coalescing = self._coalescing or [], None
        return WorkList(works)


def _with(opts: Any, timeout: timedelta | None) -> Any:
    if timeout is not None:
        opts.timeout = timeout
    return opts


def _reducing(opts: Any, kind: Any) -> Any:
    """Options of a reduction; PyTorch takes an operation alone for them."""
    if opts is None:
        return kind()
    return opts if hasattr(opts, "reduceOp") else kind(reduceOp=opts)


ProcessGroup.__module__ = BackendType.__module__ = "tritorch.distributed.distributed_c10d"
BackendType.__qualname__ = "ProcessGroup.BackendType"
