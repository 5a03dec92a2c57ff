"""What programs take from `torch._utils`: lists of tensors in one buffer, exceptions on their way
from a worker to who waits for it, a device's module."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from tritorch import cuda, overrides
from tritorch.core import dtype as dtypes, layout as layouts
from tritorch.core.deprecation import deprecated
from tritorch.core.device import device as Device, renamed
from tritorch.core.published import PUBLIC
from tritorch.core.reraising import (
    ExceptionWrapper as ExceptionWrapper,
    KeyErrorMessage as KeyErrorMessage,
)
from tritorch.core.tensor import Tensor
from tritorch.ops.joining import cat


@deprecated(
    "`torch._utils.is_compiling` is deprecated. Use `torch.compiler.is_compiling` instead.",
    UserWarning,
)
def is_compiling() -> bool:
    """False: nothing is."""
    return False


def _flatten_dense_tensors(tensors: Iterable[Tensor]) -> Tensor:
    """The elements of all tensors, one after the other; of one tensor a view, if that can be."""
    parts = [t.contiguous().view(-1) for t in tensors]
    return parts[0] if len(parts) == 1 else cat(parts)


def _unflatten_dense_tensors(flat: Tensor, tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Views of a buffer that have the shapes of tensors; of those without elements, (0,)."""
    views, start = [], 0
    for t in tensors:
        size = t.numel()
        views.append(flat.narrow(0, start, size).view_as(t) if size else flat.new_empty(0))
        start += size
    return tuple(views)


def get_device_module(device: Any = None) -> Any:
    """torch.cpu or torch.cuda, of a device, its name, or (None) the GPU if there is one."""
    if device is None:
        kind = "cuda" if cuda.is_available() else "cpu"
    elif isinstance(device, (str, Device)):
        kind = Device(device).type
    else:
        raise RuntimeError(f"Invalid value of device '{device}', expect torch.device, str, or None")
    if kind == "meta":
        raise RuntimeError(f"Device '{kind}' does not have a corresponding module registered")
    return importlib.import_module(f"tritorch.{kind}")


def _is_privateuse1_backend_available() -> bool:
    """Whether a backend of somebody's own, renamed from "privateuseone", says that it is there."""
    module = getattr(sys.modules["tritorch"], renamed.name, None)
    available = getattr(module, "is_available", None)
    return available is not None and bool(available())


# ---- tensors as old files and pickles name them --------------------------------------------------


def _rebuild_tensor(storage: Any, storage_offset: int, size: Any, stride: Any) -> Tensor:
    """A tensor on a typed storage."""
    return storage._untyped_storage._view(storage.dtype, tuple(size), tuple(stride), storage_offset)


def _rebuild_tensor_v2(
    storage: Any, storage_offset: int, size: Any, stride: Any, requires_grad: bool,
    backward_hooks: Any, metadata: Any = None,
) -> Tensor:  # fmt: skip
    """A tensor on a typed storage, with what else a checkpoint keeps of it."""
    tensor: Any = _rebuild_tensor(storage, storage_offset, size, stride)
    tensor.requires_grad = requires_grad
    if metadata:
        tensor.__dict__.update(metadata)
    tensor._backward_hooks = backward_hooks
    return tensor


def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: Any) -> Tensor:
    """A parameter of a tensor."""
    from tritorch.nn.parameter import Parameter

    parameter: Any = Parameter(data, requires_grad)
    parameter._backward_hooks = backward_hooks
    return parameter


def _rebuild_parameter_with_state(
    data: Tensor, requires_grad: bool, backward_hooks: Any, state: Any
) -> Tensor:
    """A parameter of a tensor, with attributes."""
    parameter = _rebuild_parameter(data, requires_grad, backward_hooks)
    parameter.__dict__.update(state[0] if isinstance(state, tuple) else state or {})
    return parameter


def _rebuild_sparse_tensor(layout: Any, data: tuple[Any, ...]) -> Tensor:
    """A sparse tensor of its parts."""
    public = PUBLIC
    if layout is layouts.sparse_coo:
        indices, values, size, *coalesced = data
        return public["sparse_coo_tensor"](
            indices,
            values,
            size,
            is_coalesced=coalesced[0] if coalesced else None,
            check_invariants=False,
        )
    first, second, values, size = data
    return public["sparse_compressed_tensor"](first, second, values, size, layout=layout)


def _rebuild_meta_tensor_no_storage(
    dtype: Any, size: Any, stride: Any, requires_grad: bool
) -> Tensor:
    """A tensor without memory."""
    return PUBLIC["empty_strided"](
        size, stride, dtype=dtype, device="meta", requires_grad=requires_grad
    )


def _element_size(dtype: Any) -> int:
    """Bytes of an element."""
    if not isinstance(dtype, dtypes.dtype):
        raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
    return dtype.itemsize


def _type(self: Any, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    """The type's name, or the tensor or storage as another type."""
    return self.type(dtype, non_blocking)


def _to(self: Any, device: Any, non_blocking: bool = False) -> Any:
    """The tensor or storage on another device."""
    return self.to(device=device, non_blocking=non_blocking)


def _take_tensors(tensors: Iterable[Tensor], size_limit: int) -> Iterator[list[Tensor]]:
    """Lists of tensors of one type, each up to a size in bytes where that can be."""
    pending: dict[str, tuple[list[Tensor], int]] = {}
    for tensor in tensors:
        kind, size = tensor.type(), tensor.numel() * tensor.element_size()
        held, held_size = pending.setdefault(kind, ([], 0))
        if held and held_size + size > size_limit:
            yield held
            held, held_size = [], 0
        held.append(tensor)
        pending[kind] = held, held_size + size
    yield from (held for held, _ in pending.values() if held)


def _reorder_tensors_as(
    tensors: Iterable[Tensor], ordered_tensors: Iterable[Tensor]
) -> tuple[Tensor, ...]:
    """The tensors in the order in which tensors of their types stand in another list."""
    by_type: dict[str, list[Tensor]] = {}
    for tensor in tensors:
        by_type.setdefault(tensor.type(), []).append(tensor)
    queues = {kind: iter(held) for kind, held in by_type.items()}
    return tuple(next(queues[tensor.type()]) for tensor in ordered_tensors)


# ---- names, calls, devices -----------------------------------------------------------------------


def _import_dotted_name(name: str) -> Any:
    """What a dotted name stands for: its first part is a module."""
    first, *rest = name.split(".")
    found: Any = __import__(first)
    for part in rest:
        found = getattr(found, part)
    return found


def render_call(fn: Any, args: Any, kwargs: Any) -> str:
    """A call as text."""
    name = overrides.resolve_name(fn) or str(fn)
    given = [*map(_rendered, args), *(f"{k}={_rendered(v)}" for k, v in kwargs.items())]
    return f"{name}({', '.join(given)})"


def _rendered(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"tensor(..., size={tuple(value.shape)}, dtype={value.dtype})"
    return repr(value)


class classproperty:
    """A property of a class."""

    def __init__(self, func: Any) -> None:
        self.func = func

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self.func(owner)


def _get_available_device_type() -> str | None:
    """ "cuda" where there is a GPU."""
    return "cuda" if cuda.is_available() else None


def _get_all_device_indices() -> list[int]:
    """The indices of all GPUs."""
    return list(range(cuda.device_count()))


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """The index of a device; -1 for the CPU where that is allowed; the current GPU's for None."""
    if isinstance(device, str):
        device = Device(device)
    if isinstance(device, Device):
        if not allow_cpu and device.type == "cpu":
            raise ValueError(f"Expected a non cpu device, but got: {device}")
        if device.type == "cpu":
            return -1
        device = device.index
    if isinstance(device, int):
        return device
    if not optional:
        raise ValueError(
            f"Expected a torch.device with a specified index or an integer, but got:{device}"
        )
    return cuda.current_device()
