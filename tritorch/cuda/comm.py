"""Tensors between GPUs of one process: copies, sums and pieces; nn.parallel has them too."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

from tritorch.core.device import cuda_index, device as Device
from tritorch.cuda.streams import stream as on_stream
from tritorch.ops.shape.joining import cat
from tritorch.ops.shape.parts import split

__all__ = [
    "broadcast",
    "broadcast_coalesced",
    "gather",
    "reduce_add",
    "reduce_add_coalesced",
    "scatter",
]


def _gpus(devices: Iterable[Any]) -> list[Device]:
    return [Device("cuda", cuda_index(each)) for each in devices]


def _one_of(devices: Any, out: Any) -> None:
    if (devices is None) == (out is None):
        raise RuntimeError(
            f"Exactly one of 'devices' and 'out' must be specified, but got devices={devices} and "
            f"out={out}"
        )


def broadcast(
    tensor: Any, devices: Iterable[Any] | None = None, *, out: Sequence[Any] | None = None
) -> tuple[Any, ...]:
    """A copy of a tensor on each GPU, or in each of the given tensors."""
    _one_of(devices, out)
    if out is None:
        return tuple(tensor.to(gpu) for gpu in _gpus(devices or ()))
    for each in out:
        each.copy_(tensor, non_blocking=True)
    return tuple(out)


def broadcast_coalesced(
    tensors: Sequence[Any], devices: Iterable[Any], buffer_size: int = 10485760
) -> list[list[Any]]:
    """Copies of several tensors on each GPU: one list for each.

    buffer_size: as PyTorch has it; the driver's queue joins small copies here."""
    return [[tensor.to(gpu) for tensor in tensors] for gpu in _gpus(devices)]


def reduce_add(inputs: Sequence[Any], destination: Any = None) -> Any:
    """The sum of tensors of different GPUs, on one of them."""
    index = cuda_index(destination)
    at = None
    for i, each in enumerate(inputs):
        if each.device.type == "cpu":
            raise AssertionError(
                f"reduce_add expects all inputs to be on GPUs, but input {i} is on CPU"
            )
        if each.get_device() == index:
            at = i
        if each.size() != inputs[0].size():
            got, expected = ("x".join(map(str, x.size())) for x in (each, inputs[0]))
            raise ValueError(f"input {i} has invalid size: got {got}, but expected {expected}")
    if at is None:
        raise RuntimeError(
            "reduce_add expects destination to be on the same GPU with one of the tensors"
        )
    total = inputs[at]
    for i, each in enumerate(inputs):
        if i != at:
            total = total + each.to(total.device, non_blocking=True)
    return total


def reduce_add_coalesced(
    inputs: Sequence[Sequence[Any]], destination: Any = None, buffer_size: int = 10485760
) -> tuple[Any, ...]:
    """The sums of the tensors that are first in every list, second in every one, and so on."""
    return tuple(reduce_add(each, destination) for each in zip(*inputs, strict=True))


def scatter(
    tensor: Any, devices: Iterable[Any] | None = None, chunk_sizes: Sequence[int] | None = None,
    dim: int = 0, streams: Sequence[Any] | None = None, *, out: Sequence[Any] | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Pieces of a tensor, one on each GPU, or in each of the given tensors."""
    if out is None:
        gpus = _gpus(devices or ())
        pieces = (
            split(tensor, list(chunk_sizes), dim) if chunk_sizes else tensor.chunk(len(gpus), dim)
        )
        found = []
        for place, (piece, gpu) in enumerate(zip(pieces, gpus)):
            stream = None if streams is None else streams[place]
            with on_stream(stream):
                found.append(piece.to(gpu, non_blocking=True))
        return tuple(found)
    if devices is not None:
        raise RuntimeError(
            f"'devices' must not be specified when 'out' is specified, but got devices={devices}"
        )
    if chunk_sizes is not None:
        raise RuntimeError(
            "'chunk_sizes' must not be specified when 'out' is specified, but got "
            f"chunk_sizes={chunk_sizes}"
        )
    for into, piece in zip(out, split(tensor, [each.size(dim) for each in out], dim)):
        into.copy_(piece, non_blocking=True)
    return tuple(out)


def gather(
    tensors: Sequence[Any], dim: int = 0, destination: Any = None, *, out: Any = None
) -> Any:
    """Pieces from several GPUs side by side, on one device (-1 or "cpu": the CPU)."""
    if out is not None:
        if destination is not None:
            raise RuntimeError(
                "'destination' must not be specified when 'out' is specified, but got "
                f"destination={destination}"
            )
        return out.copy_(cat([each.to(out.device) for each in tensors], dim))
    if destination == -1:
        warnings.warn(
            "Using -1 to represent CPU tensor is deprecated. Please use a device object or string "
            'instead, e.g., "cpu".',
            FutureWarning,
            stacklevel=2,
        )
        destination = "cpu"
    cpu = destination == "cpu" or destination == Device("cpu")
    where = Device("cpu") if cpu else Device("cuda", cuda_index(destination))
    return cat([each.to(where) for each in tensors], dim)
