"""`Tensor`: an array, its place in the autograd graph, and what does not need an operator.

The fields are native (`_C.TensorBase`); operators attach their methods from tritorch/ops.

# Note [Fast path]
An operator's fast path reads `x._a`.  Tensors that need more care (forward-mode duals) leave `_a`
unset and keep their array in `_shadow`: the AttributeError leads to the slow path, which costs
everyone else nothing.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

import numpy as np

from tritorch import _C
from tritorch.arrays import arrays
from tritorch.arrays.meta import MetaArray, is_fake, mode_of
from tritorch.arrays.nested import NestedArray
from tritorch.arrays.sparse import SHOWN, SparseArray
from tritorch.core import asking, defaults, dispatching, late_bound, layout as layouts, scopes
from tritorch.core.device import PretendedDevice, device as Device
from tritorch.core.dims import wrap_dim
from tritorch.core.dtype import BUILTIN, FROM_ML_DTYPES, from_numpy_dtype
from tritorch.core.promotion import scalar_name
from tritorch.core.size import Size

if TYPE_CHECKING:
    from tritorch.core.storage import UntypedStorage
    from tritorch.core.typed_storage import TypedStorage

F = TypeVar("F", bound=Callable[..., Any])


def of_description(function: F) -> F:
    """Says of a method that it reads the description of a tensor: shape, dtype, device.  It flushes
    no deferred calls (tritorch/compilation)."""
    function.describes = True  # type: ignore[attr-defined]
    return function


def flushing(function: F) -> F:
    """Says of a function that it flushes the deferred calls of a compiled region first, and is
    called each time: a graph break."""
    function.flushes = True  # type: ignore[attr-defined]
    return function


def gives_number(function: F) -> F:
    """Says of a method that it gives the number that a tensor has, which PyTorch's graphs hold."""
    function.gives_number = True  # type: ignore[attr-defined]
    return function


# How often NumPy has asked a tensor for its array: who gives NumPy nested lists learns so, without
# a look at each item, that there are tensors among them.
seen_by_numpy = [0]


class Tensor(_C.TensorBase):
    """A multi-dimensional array of one dtype, on one device, that gradients flow through."""

    # Attached by ops/shape/factory.py, as operators are.
    _construct: Callable[..., Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        return Tensor._construct(cls, defaults.dtype(), args, kwargs, False, defaults.typed_home)

    # ---- what it is ---------------------------------------------------------------------------

    @property
    def device(self) -> Device:
        """Where the elements are."""
        where = arrays.device_of(self._described)
        if type(where) is PretendedDevice and where.mode is None:  # a wrapper subclass
            return Device(where.type, where.index)
        return where

    @property
    def is_cuda(self) -> bool:
        """Whether the elements are on a GPU."""
        array = self._described
        return type(array) is _C.Array or (
            type(array) is not np.ndarray and arrays.device_of(array).type == "cuda"
        )

    @property
    def is_cpu(self) -> bool:
        """Whether the elements are in host memory."""
        return self.device.type == "cpu"

    @property
    def is_meta(self) -> bool:
        """Whether the device is the meta device; fake tensors pretend to be on another."""
        return type(self._described) is MetaArray and self.device.type == "meta"

    @property
    def _is_described(self) -> bool:
        """Whether there is no memory, but a description."""
        return type(self._described) is MetaArray

    is_quantized = is_mkldnn = is_mps = is_xpu = False
    is_vulkan = is_xla = is_mtia = is_ipu = is_maia = False

    @property
    def layout(self) -> layouts.layout:
        """`strided`, or how the entries of a sparse tensor are kept; `jagged`."""
        array = self._described
        kind = type(array)
        return array.layout if kind is SparseArray or kind is NestedArray else layouts.strided

    @property
    def is_nested(self) -> bool:
        """Whether this is a batch of tensors of different sizes."""
        return type(self._described) is NestedArray

    @property
    def is_sparse(self) -> bool:
        """Whether the layout is sparse_coo."""
        return self.layout is layouts.sparse_coo

    @property
    def is_sparse_csr(self) -> bool:
        """Whether the layout is sparse_csr."""
        return self.layout is layouts.sparse_csr

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        if self.is_sparse:
            raise RuntimeError(
                "nbytes is not defined for sparse tensors.  If you want the size of the "
                "constituent tensors, add the nbytes of the indices and values.  If you want the "
                "size of the  equivalent dense tensor, multiply numel() by element_size()"
            )
        return self.numel() * self.dtype.itemsize

    @of_description
    def element_size(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @of_description
    def numel(self) -> int:
        """How many elements there are."""
        array = self._described
        return array.numel() if type(array) is NestedArray else math.prod(array.shape)

    nelement = numel

    @of_description
    def dim(self) -> int:
        """How many dims there are."""
        return self.ndim

    ndimension = dim

    if TYPE_CHECKING:

        @overload
        def size(self, dim: int) -> int: ...
        @overload
        def size(self, dim: None = None) -> Size: ...

    @of_description
    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dim."""
        if dim is None:
            return self.shape
        shape = self._described.shape
        try:
            if not -len(shape) <= dim < len(shape):
                dim = wrap_dim(dim, len(shape), allow_scalar=False)
            return shape[dim]
        except TypeError:
            raise _no_dim("size", dim) from None

    if TYPE_CHECKING:

        @overload
        def stride(self, dim: int) -> int: ...
        @overload
        def stride(self, dim: None = None) -> tuple[int, ...]: ...

    @of_description
    def stride(self, dim: int | None = None) -> Any:
        """Strides in elements, or that of one dim."""
        strides = arrays.strides_of(self._described)
        if type(self._described) is SparseArray and not self.is_sparse:
            kind = self.layout.name[-3:].upper()
            raise RuntimeError(f"Sparse {kind} tensors do not have strides")
        if dim is None:
            return strides
        try:
            return strides[wrap_dim(dim, len(strides), allow_scalar=False)]
        except TypeError:
            raise _no_dim("stride", dim) from None

    @of_description
    def is_floating_point(self) -> bool:
        """Whether the dtype is a floating-point one."""
        return self.dtype.is_floating_point

    @of_description
    def is_complex(self) -> bool:
        """Whether the dtype is a complex one."""
        return self.dtype.is_complex

    @of_description
    def is_signed(self) -> bool:
        """Whether the dtype has negative numbers."""
        return self.dtype.is_signed

    @of_description
    def is_conj(self) -> bool:
        """Whether conjugation is pending; it never is: `conj()` computes."""
        return False

    @of_description
    def is_neg(self) -> bool:
        """Whether negation is pending; it never is."""
        return False

    @of_description
    def _is_zerotensor(self) -> bool:
        """Whether it is zeros without memory; there are none."""
        return False

    def is_inference(self) -> bool:
        """Whether this tensor was made in inference mode."""
        return self._inference

    def is_shared(self) -> bool:
        """Whether other processes can see the memory; GPU memory counts as shared."""
        if not self.is_cpu:
            return self.is_cuda
        return self.untyped_storage().is_shared()

    def share_memory_(self) -> Tensor:
        """Moves the memory, with all tensors on it, where other processes can see it."""
        if self.is_cpu:
            from tritorch.core.sharing import share

            share(self.untyped_storage(), self)
        return self

    def is_pinned(self, device: Any = None) -> bool:
        """Whether the memory is page-locked."""
        array = self._array
        return (
            type(array) is np.ndarray
            and array.size > 0
            and _C.driver_loaded()
            and _C.is_pinned(arrays.address_of(array))
        )

    @of_description
    def is_contiguous(self, memory_format: Any = layouts.contiguous_format) -> bool:
        """Whether the elements lie dense in a memory format's order."""
        if memory_format is layouts.contiguous_format:
            return arrays.is_contiguous(self._described)
        strides = arrays.strides_of(self._described)
        return layouts.is_in_format(self._described.shape, strides, memory_format)

    def _is_view(self) -> bool:
        return self._base is not None

    def as_subclass(self, cls: Any) -> Any:
        """The same memory and history as a tensor of a subclass."""
        if cls is not Tensor:
            require_plain(self, cls)
        with scopes.as_plain:
            return in_place_of(self.view_as(self), cls)

    def is_set_to(self, tensor: Tensor) -> bool:
        """True if both are the same view of the same memory."""
        return (
            self._shared is tensor._shared
            and self.storage_offset() == tensor.storage_offset()
            and self.shape == tensor.shape
            and self.stride() == tensor.stride()
        )

    @of_description
    def is_same_size(self, other: Tensor) -> bool:
        """Whether both have the same shape."""
        return self.shape == other.shape

    @of_description
    def get_device(self) -> int:
        """The index of the GPU, -1 for the CPU."""
        return self.device.index if self.is_cuda else -1  # type: ignore[return-value]

    def data_ptr(self) -> int:
        """The address of the first element; 0 when there is none."""
        _C.expose_address(self._array)
        return arrays.address_of(self._array) if self.numel() else 0

    def storage_offset(self) -> int:
        """How many elements of the storage lie before the first one."""
        array = self._array
        if type(array) is SparseArray:
            return 0
        if type(array) is not np.ndarray:
            return array.storage_offset()
        root = self._shared.array
        if root is array or root is None:
            return 0
        return (arrays.address_of(array) - arrays.address_of(root)) // array.itemsize

    @property
    def _cdata(self) -> int:
        """What tells this tensor from any other that is or was."""
        return _C.serial(self)

    def untyped_storage(self) -> UntypedStorage:
        """The memory that this tensor and its views share."""
        if self.layout is not layouts.strided:
            kind = "Sparse" if self.is_sparse else "SparseCsr"
            raise NotImplementedError(f"Cannot access storage of {kind}TensorImpl")
        _C.expose_address(self._array)
        return late_bound.untyped_storage(self)

    def storage(self) -> TypedStorage:
        """The memory as elements of this dtype."""
        late_bound.warn_of_typed_storage()
        return self._typed_storage()

    def _typed_storage(self) -> TypedStorage:
        return late_bound.typed_storage(self)

    def storage_type(self) -> Any:
        """The class of `storage()`."""
        late_bound.warn_of_typed_storage()
        storage = self._typed_storage()
        return storage._get_legacy_storage_class() or type(storage)

    if TYPE_CHECKING:

        @overload
        def type(self, dtype: None = None, non_blocking: bool = False) -> str: ...
        @overload
        def type(self, dtype: Any, non_blocking: bool = False) -> Tensor: ...

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The type's name ("tritorch.FloatTensor"), or this tensor as another type."""
        if dtype is None:
            return late_bound.type_name(self)
        if dtype in BUILTIN:
            raise ValueError(f"invalid type: '{dtype.__name__}'")
        kind, device = late_bound.dtype_and_device(dtype, self.device)
        return self.to(device=device, dtype=kind, non_blocking=non_blocking)

    type.takes_types = True  # type: ignore[attr-defined]  # the gate leaves `float` as it is

    # ---- out of it ----------------------------------------------------------------------------

    def numpy(self, *, force: bool = False) -> np.ndarray[Any, Any]:
        """The same memory as an ndarray; `force` copies where that cannot be."""
        array = self._array
        if type(self) is not Tensor and dispatching.asked(self):
            raise RuntimeError(".numpy() is not supported for tensor subclasses.")
        if type(array) is SparseArray:
            raise TypeError(
                f"can't convert {SHOWN[array.layout]} layout tensor to numpy. Use Tensor.to_dense()"
                f" first."
            )
        _C.expose(array)
        if force:
            return array if type(array) is np.ndarray else array.numpy()
        if self._requires_grad and _C.is_grad_enabled():
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() "
                "instead."
            )
        if type(array) is not np.ndarray:
            raise TypeError(
                f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to "
                f"copy the tensor to host memory first."
            )
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        seen_by_numpy[0] += 1
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    __array_priority__ = 1000

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        if self._requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        if self._is_described:
            raise BufferError("Cannot pack tensors on meta")
        _C.expose_address(self._array)
        if type(self._array) is np.ndarray:
            if stream is not None and type(stream) is not int:
                raise TypeError("stream must be ``int`` or ``none``")
            if stream not in (None, -1):
                raise AssertionError("stream should be None on cpu.")
            return self._array.__dlpack__(**options)
        return self._array.__dlpack__(stream=stream, **options)

    def __dlpack_device__(self) -> tuple[Any, int]:
        kind, index = self._array.__dlpack_device__()
        from tritorch.core.memory_kinds import DLDeviceType

        return DLDeviceType(kind), index

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return _C.wrap(np.asarray(array))

    @gives_number
    def item(self) -> int | float | bool:
        """The only element as a Python number."""
        if type(self) is not Tensor or dispatching.watching:
            if dispatching.asked(self):
                return late_bound.answered_number(self)
        array = self._array
        if math.prod(array.shape) != 1:
            raise RuntimeError(
                f"a Tensor with {self.numel()} elements cannot be converted to Scalar"
            )
        if type(array) is MetaArray:
            if is_fake(array):
                return mode_of(array).item_of(self)
            raise RuntimeError("Tensor.item() cannot be called on meta tensors")
        value = (array if type(array) is np.ndarray else array.numpy()).reshape(()).item()
        if type(value) is tuple:  # a type that NumPy lacks
            value = arrays.as_numbers(array).item()
        return value if type(value) in (float, int, bool, complex) else float(value)

    def is_nonzero(self) -> bool:
        """Whether the only element is not 0."""
        return bool(self)

    def tolist(self) -> Any:
        """Nested lists of Python numbers; a number for 0 dims."""
        array = self._array
        if type(self) is not Tensor and dispatching.asked(self):
            raise RuntimeError(
                f".tolist() is not supported for tensor subclasses, got {type(self).__name__}"
            )
        host = array if type(array) is np.ndarray else array.numpy()
        if host.dtype.names:
            host = arrays.as_numbers(host)
        elif host.dtype.name in FROM_ML_DTYPES:
            host = host.astype(np.float32)
        return host.tolist()

    def __bool__(self) -> bool:
        array = self._array
        n = math.prod(array.shape)
        if n != 1:
            what = "no values" if n == 0 else "more than one value"
            raise RuntimeError(f"Boolean value of Tensor with {what} is ambiguous")
        return bool(self.item())

    @gives_number
    def __float__(self) -> float:
        self._warn_of_history()
        return float(self._scalar("double"))

    @gives_number
    def __int__(self) -> int:
        return int(self._scalar("int64_t"))

    @gives_number
    def __complex__(self) -> complex:
        self._warn_of_history()
        return complex(self._scalar("complex"))

    @gives_number
    def __index__(self) -> int:
        if self.dtype.is_floating_point or self.dtype.is_complex or self.numel() != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def _warn_of_history(self) -> None:
        if self.requires_grad and _C.is_grad_enabled():
            defaults.warn_once(
                "Converting a tensor with requires_grad=True to a scalar may lead to unexpected "
                "behavior.\nConsider using tensor.detach() first.",
                stacklevel=4,
            )

    def _scalar(self, what: str) -> Any:
        if self.numel() != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        value = self.item()
        if isinstance(value, complex) and what != "complex":
            if value.imag:
                raise RuntimeError(f"value cannot be converted to type {what} without overflow")
            return value.real
        return value

    @of_description
    def __len__(self) -> int:
        shape = self._described.shape
        if not shape:
            raise TypeError("len() of a 0-d tensor")
        return shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self._described.shape:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __reversed__(self) -> Tensor:
        return self.flip(0) if self.ndim else self

    def __contains__(self, element: Any) -> bool:
        if not isinstance(element, (Tensor, int, float, complex, np.generic)):
            raise RuntimeError(
                f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a "
                f"{type(element)}."
            )
        found: Any = self == element
        return bool(found.any())

    def __hash__(self) -> int:
        return id(self)

    def __dir__(self) -> list[str]:
        return sorted(set(object.__dir__(self)))

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        with dispatching.without_modes():
            return late_bound.tensor_str(self, tensor_contents)

    def __format__(self, spec: str) -> str:
        if self.ndim == 0 and type(self) is Tensor and not self._is_described:
            return self.item().__format__(spec)
        return object.__format__(self, spec)

    # ---- pickling -----------------------------------------------------------------------------

    def __reduce_ex__(self, protocol: Any) -> Any:
        return late_bound.reduce_tensor(self)

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state)

    def __deepcopy__(self, memo: Any) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
                "protocol at the moment.  If you were attempting to deepcopy a module, this may be "
                "because of a torch.nn.utils.weight_norm usage, see "
                "https://github.com/pytorch/pytorch/pull/103001"
            )
        if type(self) is not Tensor and not hasattr(type(self), "__tensor_flatten__"):
            wraps = type(self._array) is MetaArray and dispatching.dispatches(type(self))
            how, why = ("clone()", "cloning") if wraps else ("new_empty()", "that function")
            with scopes.as_plain:
                made = self.clone() if wraps else self.new_empty([])
            if type(made) is not type(self):
                raise RuntimeError(_NO_COPY.format("wrapper" if wraps else "non-wrapper", how, why))
            if wraps:
                memo[id(self)] = made
                return made
        if type(self._array) in (SparseArray, NestedArray):
            new = _C.wrap(self._array.copy())
        else:  # By way of the storage: views of one stay views of one.
            storage = _deepcopy(self.untyped_storage(), memo)
            new = storage._view(self.dtype, self.shape, self.stride(), self.storage_offset())
        out = _as_class(new, type(self))
        out._leaf = self._leaf
        out.__dict__.update({k: _deepcopy(v, memo) for k, v in self.__dict__.items()})
        if self._grad is not None:
            out._grad = _deepcopy(self._grad, memo)
        memo[id(self)] = out
        return out


Tensor.__module__ = "tritorch"


def attach(**members: Any) -> None:
    """Makes functions methods of Tensor, and properties its own, by their names there."""
    for name, member in members.items():
        setattr(Tensor, name, member)


dispatching.attach(Tensor)
_C.register_part("Tensor", Tensor)
NestedArray.strided_class = Tensor


_NO_COPY = (
    "The default implementation of __deepcopy__() for {0} subclasses only works for subclass types "
    "that implement {1} and for which {2} returns another instance of the same subclass. You "
    "should either properly implement {1} for your subclass or override __deepcopy__() if it is "
    "intended behavior for {1} to return an instance of a different type."
)


def _no_dim(name: str, dim: Any) -> TypeError:
    kind = type(dim).__name__
    return TypeError(f"{name}(): argument 'dim' (position 1) must be int, not {kind}")


def _deepcopy(value: Any, memo: Any) -> Any:
    import copy

    return copy.deepcopy(value, memo)


def _as_class(tensor: Tensor, cls: Any) -> Any:
    if cls is Tensor:
        return tensor
    out = _C.TensorBase.__new__(cls)
    out._a = tensor._array
    out._shared = tensor._shared
    return out


def in_place_of(tensor: Tensor, cls: Any) -> Any:
    """The same tensor as an object of another class, in its place of the graph."""
    new = _as_class(tensor, cls)
    for field in ("_raw_node", "output_nr", "_base", "_view", "_epoch", "_tangent", "_inference"):
        setattr(new, field, getattr(tensor, field))
    return new


def require_plain(data: Tensor, cls: Any) -> None:
    """Refuses a tensor of a class that dispatches as what another class is made of."""
    kind = type(data)
    if kind is not Tensor and kind is not cls and dispatching.dispatches(kind):
        raise RuntimeError(
            f"Creating a new Tensor subclass {cls.__name__} but the raw Tensor object is already "
            f"associated to a python object of type {kind.__name__}"
        )


def make_subclass(
    cls: Any, data: Tensor, require_grad: bool = False, *,
    dispatch_sizes_strides_policy: str | None = None, dispatch_device: bool = False,
    dispatch_layout: bool = False,
) -> Any:  # fmt: skip
    """A tensor of a subclass on the same memory, without history.

    dispatch_...: what its class is asked for (`core/asking.py`)."""
    require_plain(data, cls)
    out = _as_class(data, cls) if cls is not Tensor else _C.alias(data)
    out._leaf = require_grad
    asks = asking.policies(dispatch_sizes_strides_policy, dispatch_device, dispatch_layout)
    if asks:
        asking.watch(out, asks)
    return out


attach(_make_subclass=staticmethod(make_subclass))


def make_wrapper_subclass(
    cls: Any, size: Any, strides: Any = None, storage_offset: int | None = None,
    memory_format: Any = None, dtype: Any = None, layout: Any = layouts.strided,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
    dispatch_sizes_strides_policy: str | None = None, dispatch_device: bool = False,
    dispatch_layout: bool = False, _extra_dispatch_keys: Any = None, storage_size: Any = None,
) -> Any:  # fmt: skip
    """A tensor of a subclass without memory: its `__torch_dispatch__` says what it computes.

    dispatch_...: what its class is asked for (`core/asking.py`)."""
    if not dispatching.dispatches(cls):
        raise TypeError(
            f"{cls.__name__} must define __torch_dispatch__: what a wrapper subclass computes is "
            "said there"
        )
    where = Device(defaults.device() if device is None else device)
    shape = tuple(size)
    if strides is None and memory_format is not None:
        strides = layouts.format_strides(shape, memory_format)
    kind = defaults.dtype() if dtype is None else dtype
    pretended = where if where.type == "meta" else PretendedDevice(where, None)
    steps = None if strides is None else tuple(strides)
    array = MetaArray(shape, kind, steps, pretended, storage_offset or 0)
    out = _as_class(_C.wrap(array), cls)
    out._leaf = requires_grad
    asks = asking.policies(dispatch_sizes_strides_policy, dispatch_device, dispatch_layout)
    if asks:
        asking.watch(out, asks)
    if _extra_dispatch_keys is not None:
        out._extra_dispatch_keys = _extra_dispatch_keys
    return out


attach(_make_wrapper_subclass=staticmethod(make_wrapper_subclass))


def from_numpy(ndarray: Any) -> Tensor:
    """A tensor on the same memory as an ndarray."""
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    require_strides(ndarray)
    from_numpy_dtype(ndarray.dtype)
    if not ndarray.flags.writeable:
        defaults.warn_once(
            "The given NumPy array is not writable, and PyTorch does not support non-writable "
            "tensors. This means writing to this tensor will result in undefined behavior. You may "
            "want to copy the array to protect its data or make it writable before converting it "
            "to a tensor. This type of warning will be suppressed for the rest of this program."
        )
    out = _C.wrap(ndarray if type(ndarray) is np.ndarray else ndarray.view(np.ndarray))
    out._shared.fixed = True  # the memory is NumPy's: it keeps its size
    _C.expose(ndarray)
    return out


def require_strides(ndarray: np.ndarray[Any, Any]) -> None:
    """Whether an ndarray's elements lie as a tensor's can."""
    if any(stride < 0 for stride in ndarray.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative "
            "strides are not currently supported. (You can probably work around this by making a "
            "copy of your array  with array.copy().) "
        )
    if any(stride % ndarray.itemsize for stride in ndarray.strides):
        raise ValueError(
            "given numpy array strides not a multiple of the element byte size. Copy the numpy "
            "array to reallocate the memory."
        )


def is_tensor(obj: Any) -> bool:
    """Whether an object is a tensor."""
    return isinstance(obj, Tensor)


def typename(obj: Any) -> str:
    """The name of a tensor's type (`tritorch.FloatTensor`), or of an object's class."""
    if isinstance(obj, Tensor):
        return obj.type()
    if isinstance(obj, types.ModuleType):
        return obj.__name__
    kind = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(kind, "__module__", "builtins")
    return kind.__qualname__ if module in ("", "builtins") else f"{module}.{kind.__qualname__}"


__all__ = ["Size", "Tensor", "attach", "from_numpy", "is_tensor", "make_subclass", "scalar_name"]
