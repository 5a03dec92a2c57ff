"""What programs take from `torch._utils`: lists of tensors in one buffer, exceptions on their way
from a worker to who waits for it, a device's module."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import math
import os
import sys
import types
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, NotRequired, ParamSpec, TypedDict

from tritorch import cuda, overrides
from tritorch.autograd import no_grad
from tritorch.compat.reraising import (
    ExceptionWrapper as ExceptionWrapper,
    KeyErrorMessage as KeyErrorMessage,
)
from tritorch.core import dtype as dtypes, layout as layouts, published
from tritorch.core.deprecation import deprecated
from tritorch.core.device import device as Device, renamed
from tritorch.core.naming import package
from tritorch.core.tensor import Tensor
from tritorch.nn.parameter import is_lazy
from tritorch.ops.interpret.sparse.build import sparse_coo_tensor
from tritorch.ops.shape.factory import empty_strided
from tritorch.ops.shape.joining import cat
from tritorch.ops.shape.memory import view_as_real
from tritorch.serialization import rebuild

P = ParamSpec("P")
logger = logging.getLogger(__name__)


@deprecated(
    "`torch._utils.is_compiling` is deprecated. Use `torch.compiler.is_compiling` instead.",
    UserWarning,
)
def is_compiling() -> bool:
    """Whether this thread is in a region that is followed."""
    from tritorch import compiler

    return compiler.is_compiling()


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
    module = getattr(package(), renamed.name, None)
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
    if layout is layouts.sparse_coo:
        indices, values, size, *coalesced = data
        return published.public.sparse_coo_tensor(
            indices,
            values,
            size,
            is_coalesced=coalesced[0] if coalesced else None,
            check_invariants=False,
        )
    first, second, values, size = data
    return published.public.sparse_compressed_tensor(first, second, values, size, layout=layout)


def _rebuild_meta_tensor_no_storage(
    dtype: Any, size: Any, stride: Any, requires_grad: bool
) -> Tensor:
    """A tensor without memory."""
    return empty_strided(size, stride, dtype=dtype, device="meta", requires_grad=requires_grad)


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


class _ClassPropertyDescriptor:
    """What a property of a class is."""

    def __init__(self, fget: Any, fset: Any = None) -> None:
        self.fget = fget

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        owner = type(instance) if owner is None else owner
        return self.fget.__get__(instance, owner)()


def classproperty(func: Any) -> _ClassPropertyDescriptor:
    """Makes a property of a class of a function of the class."""
    if not isinstance(func, (classmethod, staticmethod)):
        func = classmethod(func)
    return _ClassPropertyDescriptor(func)


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


def get_current_device_index() -> int:
    """The current GPU's index; -1 where there is none."""
    return cuda.current_device() if cuda.device_count() > 0 else -1


def _get_device_attr(get_member: Callable[[Any], Any]) -> Any:
    """What a function finds in torch.cuda; None where there is no GPU."""
    return get_member(cuda) if cuda.is_available() else None


def _get_current_device_index() -> int | None:
    return _get_device_attr(lambda module: module.current_device())


def _get_devices_properties(device_ids: Iterable[int]) -> list[Any]:
    there = cuda.is_available()
    return [cuda.get_device_properties(i) if there else None for i in device_ids]


def _get_device_module(device_type: str) -> Any:
    """torch.cuda and its like, by the name of a type of device."""
    found = getattr(package(), device_type, None)
    if found is None:
        raise RuntimeError(
            f"Device '{device_type}' does not have a corresponding module registered as "
            f"'torch.{device_type}'."
        )
    return found


def cpu_count() -> int | None:
    """The number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def try_import(module_name: str) -> types.ModuleType | None:
    """A module, imported if it is installed; else None."""
    if module_name not in sys.modules and importlib.util.find_spec(module_name) is None:
        return None
    return importlib.import_module(module_name)


def _get_async_or_non_blocking(function_name: str, non_blocking: bool, kwargs: Any) -> bool:
    """`non_blocking`, which may be given by its former name."""
    if not kwargs:
        return non_blocking
    if set(kwargs) != {"async"}:
        raise TypeError(
            f"{function_name}() got an unexpected keyword argument '{list(kwargs)[-1]}'"
        )
    warnings.warn("'async' is deprecated; use 'non_blocking'", stacklevel=2)
    return kwargs["async"]


def _dummy_type(name: str) -> type:
    """A class that cannot be instantiated, for a name that this build does without."""

    def refuse(cls: type, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"Tried to instantiate dummy base class {cls.__name__}")

    return type(name, (), {"__new__": refuse})


class CallbackRegistry(Generic[P]):
    """Functions that are called when something happens; what they raise is logged."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.callback_list: list[Callable[P, None]] = []

    def add_callback(self, cb: Callable[P, None]) -> None:
        """Calls this one too, from now on."""
        self.callback_list.append(cb)

    def fire_callbacks(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Calls all of them."""
        for callback in self.callback_list:
            try:
                callback(*args, **kwargs)
            except Exception:
                logger.exception("Exception in callback for %s", self.name)


class _LazySeedTracker:
    """The latest calls that seeded generators before they were there, in their order."""

    def __init__(self) -> None:
        self.manual_seed_all_cb: Any = None
        self.manual_seed_cb: Any = None
        self.call_order: list[Any] = []

    def queue_seed_all(self, cb: Any, traceback: Any) -> None:
        """Notes a call that seeded all."""
        self.manual_seed_all_cb = cb, traceback
        self.call_order = [self.manual_seed_cb, self.manual_seed_all_cb]

    def queue_seed(self, cb: Any, traceback: Any) -> None:
        """Notes a call that seeded the current one."""
        self.manual_seed_cb = cb, traceback
        self.call_order = [self.manual_seed_all_cb, self.manual_seed_cb]

    def get_calls(self) -> list[Any]:
        """The calls, the latest last."""
        return self.call_order


# ---- tensors taken apart and put together --------------------------------------------------------


def _handle_complex(tensor: Tensor) -> Tensor:
    """A complex tensor as pairs of numbers; another, or one without a shape yet, as it is."""
    return view_as_real(tensor) if not is_lazy(tensor) and tensor.is_complex() else tensor


def _flatten_sparse_tensors(tensors: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    """The indices of all sparse tensors in one buffer, and their values in another."""
    kept = list(tensors)
    indices = _flatten_dense_tensors([t._indices() for t in kept])
    return indices, _flatten_dense_tensors([t._values() for t in kept])


def _unflatten_sparse_tensors(flat: tuple[Tensor, Tensor], tensors: Any) -> tuple[Tensor, ...]:
    """Sparse tensors, of the sizes of others, whose entries are views of two buffers."""
    indices = _unflatten_dense_tensors(flat[0], [t._indices() for t in tensors])
    values = _unflatten_dense_tensors(flat[1], [t._values() for t in tensors])
    make = sparse_coo_tensor
    return tuple(
        make(i, v, t.size(), check_invariants=False) for t, i, v in zip(tensors, indices, values)
    )


def get_tensor_metadata(tensor: Tensor) -> dict[str, bool]:
    """Nothing: conjugations and negations are carried out, never noted."""
    if not isinstance(tensor, Tensor):
        raise AssertionError(f"expected torch.Tensor, got {type(tensor).__name__}")
    return {}


def set_tensor_metadata(tensor: Tensor, metadata: dict[str, bool]) -> None:
    """Carries out the conjugation or negation that is noted of a tensor, in its memory."""
    if not isinstance(metadata, dict):
        raise AssertionError(f"expected dict, got {type(metadata).__name__}")
    if not isinstance(tensor, Tensor):
        raise AssertionError(f"expected torch.Tensor, got {type(tensor).__name__}")
    with no_grad():
        if metadata.get("conj"):
            tensor.copy_(tensor.conj())
        if metadata.get("neg"):
            tensor.neg_()


_get_obj_state = rebuild.get_state


def _set_obj_state(obj: Any, state: Any) -> Any:
    """The object, with the attributes that `_get_obj_state` gave."""
    rebuild.set_state(obj, state)
    return obj


def _rebuild_tensor_v3(
    storage: Any, storage_offset: int, size: Any, stride: Any, requires_grad: bool,
    backward_hooks: Any, dtype: Any, metadata: Any = None,
) -> Tensor:  # fmt: skip
    return rebuild._rebuild_tensor_v3(
        storage, storage_offset, size, stride, requires_grad, backward_hooks, dtype, metadata
    )


def _rebuild_device_tensor_from_cpu_tensor(
    data: Tensor, dtype: Any, device: Any, requires_grad: bool
) -> Tensor:
    return data.to(dtype=dtype, device=device).requires_grad_(requires_grad)


def _rebuild_device_tensor_from_numpy(
    data: Any, dtype: Any, device: Any, requires_grad: bool
) -> Tensor:
    tensor = published.public.from_numpy(data)
    return _rebuild_device_tensor_from_cpu_tensor(tensor, dtype, device, requires_grad)


def _rebuild_wrapper_subclass(
    cls: type, dtype: Any, size: Any, stride: Any, storage_offset: int, layout: Any, device: Any,
    requires_grad: bool,
) -> Tensor:  # fmt: skip
    make: Any = Tensor._make_wrapper_subclass
    return make(cls, size, strides=stride, dtype=dtype, storage_offset=storage_offset,
                layout=layout, device=device, requires_grad=requires_grad)  # fmt: skip


def _chunk_or_narrow_cat(
    tensor: Tensor, num_chunks: int, narrow_dim: int, cat_dim: int = 0
) -> Tensor:
    """The parts of one dim, one after the other along another."""
    return cat(tensor.chunk(num_chunks, narrow_dim), cat_dim)


def _maybe_view_chunk_cat(res: Tensor, group_size: int, gather_dim: int) -> Tensor:
    """The parts of dim 0, one after the other along another; a view, if that can be."""
    if gather_dim == 0:
        return res
    shape = list(res.shape)
    if shape[0] == group_size and math.prod(shape[1:gather_dim]) == 1:
        joined = shape[0] * shape[gather_dim]
        return res.view([1, *shape[1:gather_dim], joined, *shape[gather_dim + 1 :]])
    return _chunk_or_narrow_cat(res, group_size, 0, gather_dim)


# ---- what snapshots of memory are made of --------------------------------------------------------


class _Frame(TypedDict):
    """A line of a program that allocated."""

    filename: str
    line: int
    name: str
    fx_node_op: NotRequired[str]
    fx_node_name: NotRequired[str]
    fx_node_target: NotRequired[str]
    fx_original_trace: NotRequired[str]


class _Block(TypedDict):
    """Memory that was given to a tensor."""

    size: int
    requested_size: int
    address: int
    state: str
    frames: list[_Frame]


class _Segment(TypedDict):
    """Memory that was taken from the driver."""

    address: int
    total_size: int
    stream: int
    segment_type: str
    allocated_size: int
    active_size: int
    blocks: list[_Block]


class _TraceEntry(TypedDict):
    """Something that happened to memory."""

    action: str
    addr: NotRequired[int]
    frames: list[_Frame]
    size: int
    stream: int
    device_free: NotRequired[int]


class _Snapshot(TypedDict):
    """All of it."""

    segments: list[_Segment]
    device_traces: NotRequired[list[list[_TraceEntry]]]
