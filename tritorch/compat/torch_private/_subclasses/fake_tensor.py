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
import math
import weakref
from collections.abc import Callable
from typing import Any

from tritorch import _C
from tritorch.arrays import arrays
from tritorch.arrays.batched import innermost
from tritorch.arrays.meta import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    MetaArray,
    MetaMemory,
    is_fake as is_fake_array,
    mode_of,
    real_among_fake,
)
from tritorch.arrays.symbolic import INF, ShapeEnv, SymFloat
from tritorch.core import gates, layout
from tritorch.core.device import PretendedDevice, device as Device, pretence, pretence_changes
from tritorch.core.dispatching import without_modes
from tritorch.core.dtype import bool_
from tritorch.core.scopes import Scope
from tritorch.core.storage import nbytes_of
from tritorch.core.tensor import Tensor, in_place_of
from tritorch.ops.record.overloads import OpOverloadPacket, namespace
from tritorch.overrides import TorchFunctionMode
from tritorch.trees.walk import tree_map
from tritorch.utils._python_dispatch import is_traceable_wrapper_subclass

__all__ = [
    "DataDependentOutputException",
    "DynamicOutputShapeException",
    "FakeCopyMode",
    "FakeTensor",
    "FakeTensorConverter",
    "FakeTensorMode",
    "MetadataMismatchError",
    "UnsupportedFakeTensorException",
    "UnsupportedMutationAliasingException",
    "UnsupportedOperatorException",
    "unset_fake_temporarily",
]


class UnsupportedFakeTensorException(RuntimeError):
    """A tensor that has no fake: one that is sparse, or in a batch."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class UnsupportedOperatorException(RuntimeError):
    """An operator that says nothing of its results."""

    def __init__(self, func: Any) -> None:
        super().__init__(func)
        self.func = func


class UnsupportedMutationAliasingException(RuntimeError):
    """An operator that writes what it shares."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class MetadataMismatchError(RuntimeError):
    """A fake tensor does not describe what is there."""


class _FakeMeta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and is_fake_array(instance._array)

    def __call__(cls, fake_mode: FakeTensorMode, elem: Tensor, device: Any, **options: Any) -> Any:
        """The fake on a device of what a tensor on the meta device describes."""
        where = PretendedDevice(device if isinstance(device, Device) else Device(device), fake_mode)
        array = elem._array
        if type(array) is not MetaArray:
            raise AssertionError(f"elem must be on the meta device, not on {elem.device}")
        return _C.wrap(MetaArray(array.shape, array.dtype, array.strides, where, array.offset))


class FakeTensor(metaclass=_FakeMeta):
    """What a fake tensor is an instance of."""


# What may be asked of a real tensor where tensors are fake.
_OF_REAL = frozenset(
    f"__{name}__" for name in (
        "repr", "str", "format", "dir", "len", "hash", "get", "set", "delete", "deepcopy",
        "reduce_ex", "setstate", "init", "new", "torch_function", "class",
    )
) | {"as_subclass", "storage", "untyped_storage"}  # fmt: skip
_VALUES = frozenset(["item", "tolist", "__bool__", "__int__", "__float__", "__index__"])
CONSTANT_NUMEL_LIMIT = 1


def _constant_of(value: Any) -> Any:
    """The tensor with a fake's value, if that is known and it is no more than a number."""
    if not isinstance(value, Tensor) or not is_fake_array(value._array):
        return None
    array = value._array
    if array.memory.constant is None or math.prod(array.shape) > CONSTANT_NUMEL_LIMIT:
        return None
    with gates.DisableTorchFunction():
        return array.memory.constant.as_strided(array.shape, array.strides, array.offset)


def _keep_constant(fake: Any, func: Callable[..., Any], args: Any, kwargs: Any) -> None:
    """Has a fake of a number that a program writes down know its value."""
    array = fake._array
    if array.device.type == "cpu" and math.prod(array.shape) <= CONSTANT_NUMEL_LIMIT:
        with as_it_is():
            fake._array.memory.constant = func(*args, **kwargs).detach()


@functools.cache
def tagged(name: str, tag: str) -> bool:
    """Whether an operator of ATen, in one of its forms, has a tag."""
    packet = getattr(namespace("aten"), name, None)
    if not isinstance(packet, OpOverloadPacket):
        return False
    tags = [getattr(packet, form).tags for form in packet.overloads()]
    return any(each.name == tag for of_form in tags for each in of_form)


def _items(tensor: Any) -> Any:
    return [_items(x) for x in tensor] if tensor.ndim else tensor.item()


def _of_constants(func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """The value of a fake that knows it; what writes such a one writes its value too."""
    name = func.__name__
    constant = _constant_of(args[0]) if args else None
    if name in _VALUES:
        return None if constant is None else func(constant)
    if (name.endswith("_") and not name.startswith("__")) or name == "__setitem__":
        if args and isinstance(args[0], Tensor) and is_fake_array(args[0]._array):
            memory = args[0]._array.memory
            given = [x if not isinstance(x, Tensor) else _constant_of(x) for x in args]
            if memory.constant is not None:
                unknown = constant is None or any(x is None for x in given)
                if unknown or name == "resize_" or tagged(name, "nondeterministic_seeded"):
                    memory.constant = None
                else:
                    with as_it_is():
                        func(*given, **kwargs)
    return None


class FakeTensorConverter:
    """Makes fakes of tensors, the same one of the same tensor."""

    def __init__(self) -> None:
        self.tensor_memo = _Memo()
        self.memories: dict[int, tuple[Any, MetaMemory]] = {}

    def from_real_tensor(self, fake_mode: FakeTensorMode, t: Tensor, **options: Any) -> Any:
        """The fake of a tensor."""
        static = options.pop("static_shapes", fake_mode.static_shapes)
        found = self.tensor_memo.get(t)
        if found is None:
            # The mode itself may be entered; the real tensor is read.
            with as_it_is():
                found = fake_mode._describe(t, static, self)
            self.tensor_memo.set(t, found)
        return found

    def from_meta_and_device(self, fake_mode: FakeTensorMode, t: Tensor, device: Any) -> Any:
        """The fake on a device of what a tensor on the meta device describes."""
        found = self.tensor_memo.get(t)
        if found is None:
            make: Any = FakeTensor
            found = make(fake_mode, t, device)
            self.tensor_memo.set(t, found)
        return found


class _Memo:
    """Fakes by their tensors; it keeps neither alive."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Any, Any]] = {}

    def get(self, tensor: Tensor) -> Any:
        kept = self._kept.get(id(tensor))
        return kept[1]() if kept is not None and kept[0]() is tensor else None

    def set(self, tensor: Tensor, fake: Any) -> None:
        forget = functools.partial(self._forget, weakref.ref(self), id(tensor))
        self._kept[id(tensor)] = weakref.ref(tensor, forget), weakref.ref(fake, forget)

    @staticmethod
    def _forget(memo: Any, key: int, dead: Any) -> None:
        kept = memo()._kept if memo() is not None else {}
        if any(each is dead for each in kept.get(key, ())):
            del kept[key]

    def made_of(self, fake: Any) -> Any:
        """The tensor that a fake is of; else the fake itself."""
        tensors = (real() for real, made in self._kept.values() if made() is fake)
        return next((real for real in tensors if real is not None), fake)

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, tensor: Tensor) -> bool:
        return self.get(tensor) is not None


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
        self.fake_tensor_converter = FakeTensorConverter()

    def changes(self) -> Any:
        return *pretence_changes(self), *super().changes()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if pretence.mode is not self:  # inside of unset_fake_temporarily
            return func(*args, **kwargs)
        known = _of_constants(func, args, kwargs)
        if known is None and func.__name__ == "tolist" and is_fake_array(args[0]._array):
            known = _items(args[0])
        if known is not None:
            return known
        result = self._described(func, args, kwargs)
        if func.__name__ == "tensor":
            _keep_constant(result, func, args, kwargs)
        return result

    def item_of(self, tensor: Any) -> Any:
        """The only element of a fake as a number that nobody knows."""
        env = self.shape_env
        if env is None or not env.allow_scalar_outputs or tensor.dtype.is_complex:
            raise DataDependentOutputException("aten._local_scalar_dense.default")
        kind = tensor._array.dtype
        if kind.is_floating_point:
            return SymFloat(f"f{len(env.symbols)}", None, env)
        return env.unbacked(0, 1) == 1 if kind is bool_ else env.unbacked(-INF)

    def _described(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """A call's result, of fakes alone."""
        real = False

        def seen(value: Any) -> Any:
            nonlocal real
            if not isinstance(value, Tensor):
                return value
            array = innermost(value._array)
            if mode_of(array) not in (None, self):
                raise AssertionError(f"Mixing fake modes NYI: {mode_of(array)} is not {self}")
            if type(array) is not MetaArray:
                real = True
                return self.from_tensor(value) if self.allow_non_fake_inputs else value
            return value

        args, kwargs = tree_map(seen, (args, kwargs))
        if real and not self.allow_non_fake_inputs and func.__name__ not in _OF_REAL:
            raise real_among_fake(func.__name__)
        return func(*args, **kwargs)

    def from_tensor(
        self, tensor: Tensor, *, static_shapes: bool | None = None, **options: Any
    ) -> Any:
        """A fake of a tensor: its shape, strides, dtype, device, class and memory shared alike."""
        if is_fake_array(tensor._array):
            return tensor
        static = self.static_shapes if static_shapes is None else static_shapes
        return self.fake_tensor_converter.from_real_tensor(self, tensor, static_shapes=static)

    def with_sizes(self, tensor: Tensor, sizes: tuple[Any, ...]) -> Any:
        """A fake of a tensor whose sizes are these, some of which are dynamic."""
        with as_it_is():
            return self._describe(tensor, False, self.fake_tensor_converter, sizes)

    def real_of(self, tensor: Tensor) -> Tensor:
        """The tensor that a fake was made of; else the tensor itself."""
        return self.fake_tensor_converter.tensor_memo.made_of(tensor)

    def _describe(
        self, tensor: Tensor, static: bool, converter: FakeTensorConverter,
        sizes: tuple[Any, ...] | None = None,
    ) -> Any:  # fmt: skip
        array = tensor._array
        if type(array) not in (arrays.ndarray, _C.Array, MetaArray):
            raise UnsupportedFakeTensorException(f"no fake of a {type(array).__name__}")
        where = PretendedDevice(tensor.device, self)
        shape: Any = tuple(tensor.shape)
        if static:
            memory = self._memory_of(tensor, converter)
            description = MetaArray(
                shape, tensor.dtype, tensor.stride(), where, tensor.storage_offset(), memory
            )
        else:
            open_shape = tuple(map(self._size, shape)) if sizes is None else sizes
            strides = _strides_of(shape, tensor.stride(), open_shape)
            description = MetaArray(open_shape, tensor.dtype, strides, where)
        out = _C.wrap(description)
        if type(tensor) is not Tensor:
            out = in_place_of(out, type(tensor))
        if tensor.requires_grad:
            out.requires_grad_()
        if tensor.is_leaf and tensor.grad is not None:
            out.grad = self._describe(tensor.grad, static, converter)
        return out

    def _memory_of(self, tensor: Tensor, converter: FakeTensorConverter) -> MetaMemory:
        if tensor.layout is not layout.strided:
            tensor.untyped_storage()  # refuses
        shared = tensor._shared
        array = tensor._array if shared.array is None else shared.array
        size = nbytes_of(array)
        key = arrays.address_of(array) if size else id(shared)
        kept = converter.memories
        if key not in kept:  # which keeps the memory alive, so that keys stay its own
            kept[key] = ((shared, array), MetaMemory(size))
        return kept[key][1]

    def _size(self, n: int) -> Any:
        """A symbol for each size above 1, equal ones alike."""
        assert self.shape_env is not None
        return n if n < 2 else self.shape_env.of_size(n)


class FakeCopyMode(TorchFunctionMode):
    """While it is entered, `copy.deepcopy` of what has tensors inside makes fakes of them."""

    def __init__(self, fake_mode: FakeTensorMode) -> None:
        self.fake_mode = fake_mode

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func.__name__ == "clone":
            fake = self.fake_mode.from_tensor(args[0], static_shapes=True)
            return func(fake, **kwargs)
        if func.__name__ == "__deepcopy__":
            tensor, memo = args[0], args[1] if len(args) > 1 else {}
            if id(tensor) not in memo:
                memo[id(tensor)] = self.fake_mode.from_tensor(tensor, static_shapes=True)
            return memo[id(tensor)]
        with gates.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)


def maybe_get_fake_mode(t: Any) -> Any:
    """The mode of a fake tensor; None of anything else."""
    if isinstance(t, Tensor) and is_fake_array(t._array):
        return mode_of(t._array)
    if is_traceable_wrapper_subclass(t):
        inner = [getattr(t, name) for name in t.__tensor_flatten__()[0]]
        return next((mode for x in inner if (mode := maybe_get_fake_mode(x)) is not None), None)
    return None


def is_fake(x: Any) -> bool:
    """Whether something is a fake tensor, or all tensors inside of it are."""
    return maybe_get_fake_mode(x) is not None


def _strides_of(shape: Any, strides: Any, open_shape: Any) -> Any:
    """The strides that dynamic sizes have, if a tensor is dense; else those it has."""
    if not layout.is_dense(shape, strides):
        return tuple(strides)
    found, step = [0] * len(shape), 1
    for dim in sorted(range(len(shape)), key=lambda i: (strides[i], shape[i] != 1, -i)):
        found[dim] = step
        step = step * open_shape[dim]
    return tuple(found)


class unset_fake_temporarily(Scope):
    """`with unset_fake_temporarily():` tensors are made and computed for real again."""

    changes = ((pretence, "mode", None),)

    def __enter__(self) -> Any:
        super().__enter__()
        return self.prev


def as_it_is() -> Scope:
    """No mode is asked, and tensors are real."""
    return Scope(unset_fake_temporarily(), without_modes(), gates.DisableTorchFunction())


def _field(name: str, read: Callable[[PretendedDevice], Any]) -> property:
    def get(self: Any) -> Any:
        if not is_fake_array(self._array):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return read(self._array.device)

    return property(get)


_tensor: Any = Tensor
_tensor.fake_device = _field("fake_device", lambda where: Device(where))
_tensor.constant = property(_constant_of)
_tensor.fake_mode = _field("fake_mode", lambda where: where.mode)
