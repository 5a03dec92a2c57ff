"""Fake tensors: no memory, and a device that they pretend to be on.

    with FakeTensorMode() as mode:
        model = Model().cuda()             # no GPU is needed, and no memory
        out = model(torch.empty(8, 3, 224, 224, device="cuda"))
    fake = mode.from_tensor(real)

A fake tensor is a `Tensor` whose array is a `MetaArray` with a pretended device; `FakeTensor` is
there for `isinstance`.  While a mode is entered, whatever is made is fake; real tensors are
refused, or described if the mode was told to.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from tritorch import _C
from tritorch._trees.walk import tree_map
from tritorch.core import arrays
from tritorch.core.device import PretendedDevice, device as Device, pretence, pretending
from tritorch.core.meta import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    MetaArray,
    MetaMemory,
    is_fake,
    real_among_fake,
)
from tritorch.core.symbolic import ShapeEnv
from tritorch.core.tensor import Tensor, in_place_of
from tritorch.overrides import TorchFunctionMode

__all__ = [
    "DataDependentOutputException",
    "DynamicOutputShapeException",
    "FakeTensor",
    "FakeTensorMode",
    "UnsupportedFakeTensorException",
    "unset_fake_temporarily",
]


class UnsupportedFakeTensorException(RuntimeError):
    """A tensor that has no fake: one that is sparse, or in a batch."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _FakeMeta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and is_fake(instance._array)

    def __call__(cls, fake_mode: FakeTensorMode, elem: Tensor, device: Any, **options: Any) -> Any:
        """The fake on a device of what a tensor on the meta device describes."""
        where = PretendedDevice(device if isinstance(device, Device) else Device(device), fake_mode)
        array = elem._array
        if type(array) is not MetaArray:
            raise AssertionError(f"elem must be on the meta device, not on {elem.device}")
        return _C.wrap(MetaArray(array.shape, array.dtype, array.strides, where, array.offset))


class FakeTensor(metaclass=_FakeMeta):
    """What a fake tensor is an instance of."""


class FakeTensorMode(TorchFunctionMode):
    """While it is entered, tensors are made without memory."""

    def __init__(
        self,
        *,
        allow_fallback_kernels: bool = True,
        allow_non_fake_inputs: bool = False,
        shape_env: ShapeEnv | None = None,
        static_shapes: bool | None = None,
        export: bool = False,
    ) -> None:
        """allow_fallback_kernels, export: of PyTorch's compiler, without effect.
        shape_env: `from_tensor` leaves sizes open, as symbols of it, unless static_shapes."""
        self.allow_non_fake_inputs = allow_non_fake_inputs
        self.allow_fallback_kernels, self.export = allow_fallback_kernels, export
        self.shape_env = shape_env
        self.static_shapes = shape_env is None if static_shapes is None else static_shapes
        # By a real tensor's id: a reference to it, and its fake.
        self._fakes: dict[int, tuple[Any, Any]] = {}
        self._memories: dict[int, tuple[Any, MetaMemory]] = {}
        self._symbols: dict[int, Any] = {}
        self._before: list[Any] = []

    def __enter__(self) -> FakeTensorMode:
        self._before.append(pretence.mode)
        pretending.append(self)
        pretence.mode = self
        super().__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)
        pretence.mode = self._before.pop()
        pretending.remove(self)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if pretence.mode is not self:  # inside of unset_fake_temporarily
            return func(*args, **kwargs)
        real = False

        def seen(value: Any) -> Any:
            nonlocal real
            if isinstance(value, Tensor) and type(value._array) is not MetaArray:
                real = True
                return self.from_tensor(value) if self.allow_non_fake_inputs else value
            return value

        args, kwargs = tree_map(seen, (args, kwargs))
        if real and not self.allow_non_fake_inputs and not func.__name__.startswith("__"):
            raise real_among_fake(func.__name__)
        return func(*args, **kwargs)

    def from_tensor(
        self, tensor: Tensor, *, static_shapes: bool | None = None, **options: Any
    ) -> Any:
        """A fake of a tensor: its shape, strides, dtype, device, class and memory shared alike."""
        if is_fake(tensor._array):
            return tensor
        kept = self._fakes.get(id(tensor))
        if kept is not None and kept[0]() is tensor:
            return kept[1]
        static = self.static_shapes if static_shapes is None else static_shapes
        with unset_fake_temporarily():  # the real one is read
            made = self._describe(tensor, static)
        forget = functools.partial(self._fakes.pop, id(tensor))
        self._fakes[id(tensor)] = (weakref.ref(tensor, lambda _: forget(None)), made)
        return made

    def real_of(self, tensor: Tensor) -> Tensor:
        """The tensor that a fake was made of; else the tensor itself."""
        made_of = (real() for real, made in self._fakes.values() if made is tensor)
        return next((real for real in made_of if real is not None), tensor)

    def _describe(self, tensor: Tensor, static: bool) -> Any:
        array = tensor._array
        if type(array) not in (arrays.ndarray, _C.Array, MetaArray):
            raise UnsupportedFakeTensorException(f"no fake of a {type(array).__name__}")
        where = PretendedDevice(tensor.device, self)
        shape: Any = tuple(tensor.shape)
        if static:
            memory = self._memory_of(tensor)
            description = MetaArray(
                shape, tensor.dtype, tensor.stride(), where, tensor.storage_offset(), memory
            )
        else:
            description = MetaArray(tuple(map(self._size, shape)), tensor.dtype, None, where)
        out = _C.wrap(description)
        if type(tensor) is not Tensor:
            out = in_place_of(out, type(tensor))
        return out.requires_grad_() if tensor.requires_grad else out

    def _memory_of(self, tensor: Tensor) -> MetaMemory:
        storage = tensor.untyped_storage()
        key = storage.data_ptr() or id(storage)
        if key not in self._memories:  # which keeps the storage alive, so that keys stay its own
            self._memories[key] = (storage, MetaMemory(storage.nbytes()))
        return self._memories[key][1]

    def _size(self, n: int) -> Any:
        """A symbol for each size above 1, equal ones alike."""
        assert self.shape_env is not None
        if n < 2:
            return n
        if n not in self._symbols:
            self._symbols[n] = self.shape_env.symbol(f"s{len(self._symbols)}", n)
        return self._symbols[n]


class unset_fake_temporarily:
    """`with unset_fake_temporarily():` tensors are made and computed for real again."""

    def __enter__(self) -> Any:
        self._mode = pretence.mode
        pretence.mode = None
        return self._mode

    def __exit__(self, *exception: Any) -> None:
        pretence.mode = self._mode


def _field(name: str, read: Callable[[PretendedDevice], Any]) -> property:
    def get(self: Any) -> Any:
        if not is_fake(self._array):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return read(self._array.device)

    return property(get)


_tensor: Any = Tensor
_tensor.fake_device = _field("fake_device", lambda where: Device(where))
_tensor.fake_mode = _field("fake_mode", lambda where: where.mode)
