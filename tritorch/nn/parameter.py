"""Parameters and buffers: tensors that a module registers by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from tritorch import _C
from tritorch.arrays.meta import is_fake
from tritorch.core import late_bound
from tritorch.core.tensor import Tensor, make_subclass
from tritorch.ops.shape.factory import empty


class _ParameterMeta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        if cls is Parameter and isinstance(instance, Tensor):
            if getattr(instance, "_is_param", False):
                return True
        return super().__instancecheck__(instance)


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that a module counts among its parameters when it is assigned as an attribute."""

    __torch_function__ = _C._disabled_torch_function_impl

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Self:
        if data is None:
            data = empty(0)
        if type(data) is Tensor or type(data) is Parameter:
            if requires_grad and data.is_inference() and not _C.is_inference_mode():
                raise RuntimeError(
                    "Setting requires_grad=True on inference tensor outside InferenceMode is not "
                    "allowed."
                )
            if requires_grad and not (data.is_floating_point() or data.is_complex()):
                raise RuntimeError(
                    "Only Tensors of floating point and complex dtype can require gradients"
                )
            return make_subclass(cls, data, requires_grad)
        out: Any = data.detach().requires_grad_(requires_grad)
        out._is_param = True
        return out

    if not TYPE_CHECKING:  # whose `__new__` takes more says so, and needs no constructor besides

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            pass

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = type(self)(
                self.data.clone(memory_format=_preserve()), self.requires_grad
            )
        return memo[id(self)]

    def __repr__(self, **options: Any) -> str:  # type: ignore[override]
        shown = super().__repr__(**options)
        if is_fake(self._array):
            return f"Parameter({shown})"
        return "Parameter containing:\n" + shown

    def __reduce_ex__(self, protocol: Any) -> Any:
        return late_bound.reduce_parameter(self)


_C.register_part("Parameter", Parameter)


def _preserve() -> Any:
    from tritorch.core.layout import preserve_format

    return preserve_format


class _BufferMeta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        if cls is Buffer and isinstance(instance, Tensor):
            if getattr(instance, "_is_buffer", False):
                return True
        return super().__instancecheck__(instance)


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that a module registers as a buffer when it is assigned as an attribute."""

    __torch_function__ = _C._disabled_torch_function_impl
    persistent: bool

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Self:
        if data is None:
            data = empty(0)
        out = data.detach().requires_grad_(data.requires_grad)
        out._is_buffer, out.persistent = True, persistent
        return out


class UninitializedTensorMixin:
    """What lazy modules hold until the first call tells them shapes."""

    cls_to_become: Any = None
    __torch_function__ = _C._disabled_torch_function_impl

    def materialize(self: Any, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Becomes an uninitialised tensor of a shape."""
        device = self.device if device is None else device
        dtype = self.dtype if dtype is None else dtype
        self.data = empty(shape, device=device, dtype=dtype)
        self.__class__ = self.cls_to_become

    @property
    def shape(self) -> Any:
        """Not known yet."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually "
            "happens in `load_state_dict` when trying to load an uninitialized parameter into an "
            "initialized one. Call `forward` to initialize the parameters before accessing their "
            "attributes."
        )

    def __repr__(self, **options: Any) -> str:
        return f"<{type(self).__name__}>"


def is_lazy(param: Any) -> bool:
    """Whether a parameter or buffer waits for its shape."""
    return isinstance(param, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape the first call decides."""

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
        data = empty(0, device=device, dtype=dtype)
        return make_subclass(cls, data, requires_grad)

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> None:
        pass

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.device, self.dtype)
        return memo[id(self)]

    def __repr__(self, **options: Any) -> str:  # type: ignore[override]
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (self.requires_grad, self.device, self.dtype)


class UninitializedBuffer(UninitializedTensorMixin, Tensor):  # type: ignore[misc]
    """A buffer whose shape the first call decides."""

    cls_to_become = Tensor
    persistent: bool

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None,
        persistent: bool = True,
    ) -> Any:  # fmt: skip
        out = make_subclass(cls, empty(0, device=device, dtype=dtype), requires_grad)
        out.persistent, out._is_buffer = persistent, True
        return out

    if not TYPE_CHECKING:  # whose `__new__` takes more says so, and needs no constructor besides

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            pass

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = type(self)(*self._parts())
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), self._parts()

    def _parts(self) -> tuple[Any, ...]:
        return self.requires_grad, self.device, self.dtype, self.persistent
