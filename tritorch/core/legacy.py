"""The typed legacy names: FloatTensor, cuda.HalfTensor, and `x.type()`."""

from __future__ import annotations

from typing import Any

from tritorch.core import arrays, defaults, dtype as dtypes
from tritorch.core.device import device as Device
from tritorch.core.layout import layout, sparse_coo, strided
from tritorch.core.naming import qualified
from tritorch.core.promotion import scalar_name
from tritorch.core.published import PUBLIC
from tritorch.core.storage import TypedStorage
from tritorch.core.tensor import Tensor

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

    def __instancecheck__(cls, instance: Any) -> bool:
        return (
            isinstance(instance, Tensor)
            and instance.dtype is cls.dtype
            and instance.is_cuda == cls.is_cuda
            and instance.layout is cls.layout
        )

    def __call__(cls, *args: Any, **kwargs: Any) -> Tensor:
        kwargs.setdefault("device", "cuda" if cls.is_cuda else "cpu")
        if cls.layout is sparse_coo:
            return _new_sparse(cls.dtype, args, kwargs)
        return Tensor._construct(Tensor, cls.dtype, args, kwargs)


def _make(name: str, kind: dtypes.dtype, is_cuda: bool) -> Any:
    module = "tritorch.cuda" if is_cuda else "tritorch"
    return _TypeMeta(f"{name}Tensor", (), {"dtype": kind, "is_cuda": is_cuda, "__module__": module})


CPU_TYPES = {f"{name}Tensor": _make(name, kind, False) for name, kind in _KINDS.items()}
CUDA_TYPES = {f"{name}Tensor": _make(name, kind, True) for name, kind in _KINDS.items()}


def _new_sparse(kind: dtypes.dtype, args: tuple[Any, ...], kwargs: Any) -> Tensor:
    sparse_coo_tensor = PUBLIC["sparse_coo_tensor"]
    if not args or isinstance(args[0], int):
        return sparse_coo_tensor(args or (0,), dtype=kind, **kwargs)
    return sparse_coo_tensor(*args, dtype=kind, **kwargs)


def _make_sparse(name: str, kind: dtypes.dtype) -> Any:
    fields = {
        "dtype": kind,
        "is_cuda": False,
        "layout": sparse_coo,
        "__module__": "tritorch.sparse",
    }
    return _TypeMeta(f"{name}Tensor", (), fields)


SPARSE_TYPES = {
    f"{name}Tensor": _make_sparse(name, kind)
    for name, kind in _KINDS.items()
    if not kind.is_complex and name != "Bool"
}


def _make_storage(name: str, kind: dtypes.dtype, where: str) -> Any:
    module = "tritorch" if where == "cpu" else "tritorch.cuda"
    fields = {"_dtype": kind, "_where": where, "__module__": module}
    return type(f"{name}Storage", (TypedStorage,), fields)


CPU_STORAGES = {f"{name}Storage": _make_storage(name, kind, "cpu") for name, kind in _KINDS.items()}
CUDA_STORAGES = {
    f"{name}Storage": _make_storage(name, kind, "cuda") for name, kind in _KINDS.items()
}


def set_default_tensor_type(t: Any) -> None:
    """The default dtype and device, by a typed class or its name."""
    defaults.warn_once(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use "
        "torch.set_default_dtype() and torch.set_default_device() as alternatives."
    )
    kind, where = dtype_and_device(t, arrays.CPU)
    defaults.set_default_dtype(kind)
    defaults.set_default_device(where)


def type_name(tensor: Tensor) -> str:
    """ "tritorch.cuda.FloatTensor"."""
    where = "" if tensor.is_cpu else f"{tensor.device.type}."
    if tensor.is_sparse:
        where += "sparse."
    elif tensor.layout is not strided:
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
    raise TypeError(f"invalid type: {kind!r}")
