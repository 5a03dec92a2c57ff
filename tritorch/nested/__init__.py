"""Batches of tensors of different sizes, as in torch.nested."""

from __future__ import annotations

import sys as _sys
from typing import Any

from tritorch.arrays.nested import Ragged as _Ragged
from tritorch.autograd.grad_mode import no_grad as _no_grad
from tritorch.core import layout as _layouts
from tritorch.core.published import PUBLIC as _PUBLIC
from tritorch.core.tensor import Tensor as Tensor
from tritorch.nested._internal import nested_tensor as _jagged
from tritorch.ops.interpret.nested import build as _build
from tritorch.ops.interpret.nested.record import nested_view as _nested_view
from tritorch.ops.shape.factory import as_tensor as _as_tensor, tensor as _tensor
from tritorch.ops.shape.joining import cat as _cat
from tritorch.ops.shape.ranges import arange as _arange

__all__ = [
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]


def _unsupported(layout: Any, what: str = "nested tensors") -> RuntimeError:
    return RuntimeError(f"Specified layout is unsupported for {what}: {layout}")


def nested_tensor(
    tensor_list: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A nested tensor of copies of tensors (or of what makes one), a leaf.

    layout: strided, or jagged, whose components differ in one dim at most."""
    if layout is None or layout is _layouts.strided:
        return _build.nested_tensor(tensor_list, dtype, device, requires_grad, pin_memory)
    if layout is not _layouts.jagged:
        raise _unsupported(layout)
    tensors = [
        each.detach() if isinstance(each, Tensor) else _as_tensor(each) for each in tensor_list
    ]
    with _no_grad():
        found: Tensor = _jagged.jagged_from_list(tensors, None, dtype, device)[0]
    found.requires_grad_(requires_grad)
    return found.pin_memory() if pin_memory else found


def as_nested_tensor(ts: Any, dtype: Any = None, device: Any = None, layout: Any = None) -> Tensor:
    """A nested tensor of tensors, with their history; of one tensor, of its slices.

    A nested tensor is returned as it is, or in another dtype or on another device."""
    several = isinstance(ts, (list, tuple)) and all(isinstance(t, Tensor) for t in ts)
    if not isinstance(ts, Tensor) and not several:
        raise TypeError(
            "as_nested_tensor(): Expected first argument to be a tensor or a list / tuple of "
            "tensors "
        )
    if isinstance(ts, Tensor):
        if ts.dim() < 2:
            raise RuntimeError("as_nested_tensor(): Expected tensor argument to have dim() > 1")
        if ts.is_nested:
            if layout is not ts.layout:
                raise RuntimeError(
                    "as_nested_tensor(): Converting between nested tensor layouts is not supported"
                )
            return ts.to(device=device, dtype=dtype)
    if layout is None or layout is _layouts.strided:
        if not isinstance(ts, Tensor):
            return _build._nested_tensor_from_tensor_list(list(ts), dtype, None, device)
        _build._say_prototype()
        flat = ts.reshape(-1).to(device=device, dtype=dtype)
        return _nested_view(flat, _Ragged([tuple(ts.shape[1:])] * ts.shape[0]))
    if layout is not _layouts.jagged:
        raise _unsupported(layout)
    if not isinstance(ts, Tensor):
        return _jagged.jagged_from_list(list(ts), None, dtype, device)[0]
    count, length = ts.shape[:2]
    values = ts.contiguous().flatten(0, 1).to(device=device, dtype=dtype)
    ends = _arange(0, count * length + 1, length, device=values.device)
    return _jagged.nested_view_from_values_offsets(
        values, ends, min_seqlen=length, max_seqlen=length
    )


def nested_tensor_from_jagged(
    values: Tensor, offsets: Tensor | None = None, lengths: Tensor | None = None,
    jagged_dim: int | None = None, min_seqlen: int | None = None, max_seqlen: int | None = None,
) -> Tensor:  # fmt: skip
    """A jagged tensor on the memory of its values.

    offsets: where each component starts along the jagged dim, and where the last one ends.
    lengths: how long they are; with both, there may be holes.  jagged_dim: counted with the
    batch."""
    tracing = _sys.modules.get("tritorch.fx._symbolic_trace")
    if tracing is not None and tracing.is_fx_tracing():
        raise RuntimeError(
            "torch.nested.nested_tensor_from_jagged does not support tracing with "
            "fx.symbolic_trace. Use fx.wrap to wrap the function that calls "
            "nested_tensor_from_jagged."
        )
    if offsets is None:
        if lengths is None:
            raise RuntimeError(
                "nested_tensor_from_jagged(): At least one of offsets or lengths is required."
            )
        offsets = _cat([lengths.new_zeros(1), lengths.cumsum(0)])
        lengths = None
    return _jagged.nested_view_from_values_offsets_lengths(
        values, offsets, lengths, 1 if jagged_dim is None else jagged_dim, min_seqlen, max_seqlen
    )


def narrow(
    tensor: Tensor, dim: int, start: Any, length: Any, layout: Any = _layouts.strided
) -> Tensor:
    """Some of each slice of a dense tensor: of the jagged layout, a view with a start and a length
    of its own for each."""
    for name, value in (("start", start), ("length", length)):
        if not isinstance(value, (int, Tensor)) and not hasattr(value, "__index__"):
            raise RuntimeError(f"{name} must be an integer or a tensor")
    if layout is _layouts.strided:
        if isinstance(start, Tensor) or isinstance(length, Tensor):
            raise RuntimeError("start and length must be integers for the strided layout NT impl")
        whole = as_nested_tensor(list(tensor.unbind(0)), layout=layout)
        return whole.narrow(dim, start, length)
    if layout is not _layouts.jagged:
        raise _unsupported(layout, "nested narrow")
    if dim != 1:
        raise RuntimeError("jagged layout only supports dim=1")
    starts, lengths = (
        each if isinstance(each, Tensor) else _tensor([each], device=tensor.device)
        for each in (start, length)
    )
    return _jagged.jagged_from_tensor_and_lengths(tensor, starts, lengths)[0]


def masked_select(tensor: Tensor, mask: Tensor) -> Tensor:
    """A jagged tensor of the elements where a mask is true, a component for each row."""
    if tensor.layout is not _layouts.strided:
        raise RuntimeError(
            f"torch.nested.masked_select requires a strided tensor, given {tensor.layout}"
        )
    if mask.layout is not _layouts.strided:
        raise RuntimeError(
            f"torch.nested.masked_select requires a strided mask, given: {mask.layout}"
        )
    counts = mask.expand(tensor.shape).sum(tensor.ndim - 1).view(-1)
    ends = _cat([counts.new_zeros(1), counts.cumsum(0)])
    return _jagged.nested_view_from_values_offsets(tensor.masked_select(mask), ends)


def to_padded_tensor(
    input: Tensor, padding: float, output_size: Any = None, out: Any = None
) -> Tensor:
    """The components of a nested tensor in one dense tensor, each filled up with a number.

    output_size: another size than that of the largest components."""
    padded: Any = input.to_padded_tensor
    return padded(padding, output_size) if out is None else padded(padding, output_size, out=out)
