"""The typed legacy names: FloatTensor, cuda.HalfTensor, and `x.type()`."""

from __future__ import annotations

import warnings
from typing import Any

from tritorch import _C
from tritorch.arrays import arrays
from tritorch.core import defaults, dtype as dtypes, late_bound, published
from tritorch.core.device import device as Device
from tritorch.core.layout import layout, sparse_coo, strided
from tritorch.core.naming import object_named, qualified
from tritorch.core.promotion import scalar_name
from tritorch.core.tensor import Tensor
from tritorch.core.typed_storage import LEGACY

_KINDS = {
    "Float": dtypes.float32, "Double": dtypes.float64, "Half": dtypes.float16,
    "BFloat16": dtypes.bfloat16, "Byte": dtypes.uint8, "Char": dtypes.int8, "Short": dtypes.int16,
    "Int": dtypes.int32, "Long": dtypes.int64, "Bool": dtypes.bool_,
    "ComplexFloat": dtypes.complex64, "ComplexDouble": dtypes.complex128,
}  # fmt: skip


class _TypeMeta(type):
    """So that isinstance(x, FloatTensor) asks for dtype and device."""

    dtype: dtypes.dtype
    is_cuda: bool
    layout: layout = strided

    @property
    def is_sparse(cls) -> bool:
        """Whether its tensors keep some elements only."""
        return cls.layout is not strided

    def __instancecheck__(cls, instance: Any) -> bool:
        return (
            isinstance(instance, Tensor)
            and instance.dtype is cls.dtype
            and instance.is_cuda == cls.is_cuda
            and instance.layout is cls.layout
        )

    def __call__(cls, *args: Any, **kwargs: Any) -> Tensor:
        home = "cuda" if cls.is_cuda else "cpu"
        if cls.is_cuda:
            require_cuda(cls)
        if cls.layout is sparse_coo:
            kwargs.setdefault("device", home)
            return _new_sparse(cls.dtype, args, kwargs)
        return Tensor._construct(Tensor, cls.dtype, args, kwargs, True, home)


def require_cuda(cls: Any) -> None:
    """Raises a TypeError where a typed class of the GPU is used without one."""
    if not _C.device_count():
        sparse = "" if cls.layout is strided else "sparse."
        name = qualified(f"cuda.{sparse}{cls.__name__}")
        raise TypeError(f"type {name} not available. Torch not compiled with CUDA enabled.")


def _make(name: str, kind: dtypes.dtype, is_cuda: bool) -> Any:
    module = "tritorch.cuda" if is_cuda else "tritorch"
    return _TypeMeta(f"{name}Tensor", (), {"dtype": kind, "is_cuda": is_cuda, "__module__": module})


CPU_TYPES = {f"{name}Tensor": _make(name, kind, False) for name, kind in _KINDS.items()}
CUDA_TYPES = {f"{name}Tensor": _make(name, kind, True) for name, kind in _KINDS.items()}


def _new_sparse(kind: dtypes.dtype, args: tuple[Any, ...], kwargs: Any) -> Tensor:
    shown = "shape" if not args or isinstance(args[0], int) else "indices, values, shape"
    warnings.warn(
        f"torch.sparse.SparseTensor({shown}, *, device=) is deprecated. Please use "
        f"torch.sparse_coo_tensor({shown}, dtype=, device=).",
        stacklevel=3,
    )
    sparse_coo_tensor = published.public.sparse_coo_tensor
    if not args or isinstance(args[0], int):
        return sparse_coo_tensor(args or (0,), dtype=kind, check_invariants=False, **kwargs)
    return sparse_coo_tensor(*args, dtype=kind, check_invariants=False, **kwargs)


def _make_sparse(name: str, kind: dtypes.dtype, is_cuda: bool) -> Any:
    fields = {
        "dtype": kind,
        "is_cuda": is_cuda,
        "layout": sparse_coo,
        "__module__": "tritorch.cuda.sparse" if is_cuda else "tritorch.sparse",
    }
    return _TypeMeta(f"{name}Tensor", (), fields)


def _sparse_types(is_cuda: bool) -> dict[str, Any]:
    return {
        f"{name}Tensor": _make_sparse(name, kind, is_cuda)
        for name, kind in _KINDS.items()
        if not kind.is_complex and name != "Bool"
    }


SPARSE_TYPES, CUDA_SPARSE_TYPES = _sparse_types(False), _sparse_types(True)


CPU_STORAGES, CUDA_STORAGES = LEGACY["cpu"], LEGACY["cuda"]


def set_default_tensor_type(t: Any) -> None:
    """The default dtype and device, by a typed class or its name (deprecated)."""
    if isinstance(t, str):
        t = object_named(t)
    defaults.warn_once(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use "
        "torch.set_default_dtype() and torch.set_default_device() as alternatives."
    )
    if not isinstance(t, _TypeMeta):
        raise TypeError(
            "invalid type object: only floating-point types are supported as the default type"
        )
    if not t.dtype.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    if t.is_cuda:
        require_cuda(t)
    if t.layout is not strided:
        raise TypeError("only dense types are supported as the default type")
    defaults.set_default_dtype(t.dtype)
    defaults.set_default_device("cuda" if t.is_cuda else None)
    defaults.typed_home = "cuda" if t.is_cuda else "cpu"


def type_name(tensor: Tensor) -> str:
    """ "tritorch.cuda.FloatTensor"."""
    where = "" if tensor.is_cpu else f"{tensor.device.type}."
    if tensor.is_sparse:
        where += "sparse."
    elif tensor.layout is not strided and not tensor.is_nested:
        raise RuntimeError(f"Unimplemented backend SparseCsr{tensor.device.type.upper()}")
    return qualified(f"{where}{scalar_name(tensor.dtype)}Tensor")


def dtype_and_device(kind: Any, current: Device) -> tuple[dtypes.dtype, Device]:
    """What a dtype, a type's name or a typed class asks for."""
    if isinstance(kind, dtypes.dtype):
        return kind, current
    if isinstance(kind, str):
        name = kind.removeprefix("torch.").removeprefix("tritorch.")
        table = CUDA_TYPES if name.startswith("cuda.") else CPU_TYPES
        if name.removeprefix("cuda.") not in table:
            raise ValueError(f"invalid type: '{kind}'")
        kind = table[name.removeprefix("cuda.")]
    if isinstance(kind, _TypeMeta):
        return kind.dtype, (Device("cuda") if kind.is_cuda else arrays.CPU)
    if kind is Tensor:
        return dtypes.float32, current
    raise TypeError("dtype must be a type, str, or dtype object")


late_bound.type_name, late_bound.dtype_and_device = type_name, dtype_and_device
