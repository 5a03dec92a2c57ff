"""What each kind of call is in NCCL, queued on a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritorch import _C, cuda
from tritorch.core.device import device as Device
from tritorch.distributed.backends.interface import Call
from tritorch.distributed.reduce_op import RedOpType
from tritorch.ops.shape.factory import zeros

_native = _C.nccl
# NCCL's numbers of types, and of operations.
_TYPES = {
    "int8": 0, "uint8": 1, "bool": 1, "int32": 2, "uint32": 3, "int64": 4, "uint64": 5,
    "float16": 6, "float32": 7, "float64": 8, "bfloat16": 9,
}  # fmt: skip
BYTES = 1
_OPS = {
    RedOpType.SUM: 0, RedOpType.PREMUL_SUM: 0, RedOpType.PRODUCT: 1, RedOpType.MAX: 2,
    RedOpType.MIN: 3, RedOpType.AVG: 4,
}  # fmt: skip
# bool is uint8 there: what its sums and products are.
_OF_BOOL = {RedOpType.SUM: 2, RedOpType.PRODUCT: 3}


def type_of(call: Call) -> tuple[int, int]:
    """NCCL's type and operation of a reduction."""
    dtype = call.inputs[0].dtype
    name = str(dtype.name)
    if dtype.is_complex and call.op in (RedOpType.SUM, RedOpType.AVG, RedOpType.PREMUL_SUM):
        name = "float32" if name == "complex64" else "float64"
    if name not in _TYPES:
        raise TypeError(f"Input tensor data type is not supported for NCCL process group: {dtype}")
    if call.op not in _OPS:
        raise ValueError(f"Cannot use ReduceOp.{call.op.name} with NCCL")
    if dtype.name == "bool":
        if call.op is RedOpType.AVG:
            raise TypeError("Cannot use ReduceOp.AVG with boolean inputs")
        return 1, _OF_BOOL.get(call.op, _OPS[call.op])
    return _TYPES[name], _OPS[call.op]


def _plain(tensor: Any, held: list[Any]) -> Any:
    """A tensor's values in contiguous memory."""
    data = tensor.detach()
    plain = data if data.is_contiguous() else data.contiguous()
    held.append(plain)
    return plain


def _bytes(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())


def _moved(tensor: Any) -> tuple[int, int]:
    """The count and type of what only moves: its own type, by which the simulated device tells that
    members differ; bytes where NCCL has none."""
    number = _TYPES.get(tensor.dtype.name, BYTES)
    return (_bytes(tensor) if number == BYTES else int(tensor.numel())), number


def _together(tensors: Sequence[Any]) -> bool:
    """Whether tensors of one size lie one after the other."""
    size = _bytes(tensors[0])
    start = tensors[0].data_ptr()
    return all(
        each.is_contiguous() and each.data_ptr() == start + i * size
        for i, each in enumerate(tensors)
    )


def launch(
    comm: Any, call: Call, rank: int, size: int, stream: int
) -> tuple[list[Any], list[tuple[Any, Any]]]:
    """Queues a call; gives what must live until it ends, and copies that follow it on the stream:
    (to, from)."""
    held: list[Any] = []
    copies: list[tuple[Any, Any]] = []

    def written(tensor: Any) -> Any:
        plain = _plain(tensor, held)
        if plain.data_ptr() != tensor.data_ptr():
            copies.append((tensor.detach(), plain))
        return plain

    def read(tensor: Any) -> Any:
        if call.op is RedOpType.PREMUL_SUM:
            tensor = tensor.detach() * call.factor
        return _plain(tensor, held)

    kind, root = call.kind, call.root
    if kind == "broadcast":
        data = written(call.outputs[0])
        comm.broadcast(data.data_ptr(), *_moved(data), root, stream)
    elif kind in ("all_reduce", "reduce"):
        number, op = type_of(call)
        source, to = read(call.inputs[0]), written(call.outputs[0])
        count = _elements(source)
        if kind == "all_reduce":
            comm.all_reduce(source.data_ptr(), to.data_ptr(), count, number, op, stream)
        else:
            if rank != root:  # NCCL writes only there, the tensor stays as it is elsewhere
                copies.clear()
            comm.reduce(source.data_ptr(), to.data_ptr(), count, number, op, root, stream)
    elif kind == "all_gather":
        source = read(call.inputs[0])
        if len({_bytes(each) for each in call.outputs}) > 1:
            _gather_unlike(comm, source, [written(each) for each in call.outputs], rank, stream)
        elif _together(call.outputs):
            held.extend(call.outputs)
            comm.all_gather(source.data_ptr(), call.outputs[0].data_ptr(), *_moved(source), stream)
        else:
            flat = source.new_empty((size, *source.shape))
            held.append(flat)
            comm.all_gather(source.data_ptr(), flat.data_ptr(), *_moved(source), stream)
            copies.extend((each.detach(), flat[i]) for i, each in enumerate(call.outputs))
    elif kind == "reduce_scatter":
        number, op = type_of(call)
        inputs = [read(each) for each in call.inputs]
        to = written(call.outputs[0])
        if not _together(inputs):
            flat = inputs[0].new_empty((size, *inputs[0].shape))
            for i, each in enumerate(inputs):
                flat[i].copy_(each)
            held.append(flat)
            inputs = [flat]
        comm.reduce_scatter(inputs[0].data_ptr(), to.data_ptr(), _elements(to), number, op, stream)
    elif kind == "barrier":
        token = zeros(1, device=Device("cuda", cuda.current_device()))
        held.append(token)
        comm.all_reduce(token.data_ptr(), token.data_ptr(), 1, 7, 0, stream)
    else:
        sent = {"gather": [(root, 0)], "scatter": [], "all_to_all": list(enumerate(range(size)))}
        got = {"gather": [], "scatter": [(root, 0)], "all_to_all": list(enumerate(range(size)))}
        everybody = list(enumerate(range(size)))
        sends = everybody if kind == "scatter" and rank == root else sent[kind]
        gets = everybody if kind == "gather" and rank == root else got[kind]
        inputs = [read(each) for each in call.inputs]
        outputs = [written(each) for each in call.outputs]
        _exchange(comm, [(p, inputs[i]) for p, i in sends], [(p, outputs[i]) for p, i in gets],
                  stream)  # fmt: skip
    return held, copies


def _elements(tensor: Any) -> int:
    """NCCL's count: complex numbers are two."""
    return int(tensor.numel()) * (2 if tensor.dtype.is_complex else 1)


def _exchange(
    comm: Any, sends: list[tuple[int, Any]], gets: list[tuple[int, Any]], stream: int
) -> None:
    """Messages to and from members, at once; empty ones do not travel."""
    _native.group_start()
    try:
        for peer, each in sends:
            if each.numel():
                comm.send(each.data_ptr(), *_moved(each), peer, stream)
        for peer, each in gets:
            if each.numel():
                comm.receive(each.data_ptr(), *_moved(each), peer, stream)
    finally:
        _native.group_end()


def _gather_unlike(comm: Any, source: Any, outputs: list[Any], rank: int, stream: int) -> None:
    """all_gather of tensors of different sizes: a broadcast of each."""
    outputs[rank].copy_(source.reshape(outputs[rank].shape))
    _native.group_start()
    try:
        for root, each in enumerate(outputs):
            comm.broadcast(each.data_ptr(), *_moved(each), root, stream)
    finally:
        _native.group_end()
