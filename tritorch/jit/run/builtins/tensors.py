"""Questions about tensors whose answers are no tensors, and tensors of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritorch.core.published import public
from tritorch.core.tensor import Tensor
from tritorch.jit.run.numbered import dtype_of, number_of

Function = Callable[..., Any]


def _as_scalar(tensor: Tensor) -> Any:
    if tensor.numel() != 1:
        raise RuntimeError(f"a Tensor with {tensor.numel()} elements cannot be converted to Scalar")
    return tensor.item()


def _int(tensor: Tensor) -> int:
    return int(_as_scalar(tensor))


def _float(tensor: Tensor) -> float:
    return float(_as_scalar(tensor))


def _complex(a: Any, b: Any = 0) -> complex:
    x, y = (_as_scalar(each) if isinstance(each, Tensor) else each for each in (a, b))
    return complex(x, y)


def _implicit(convert: Function) -> Function:
    """A tensor where a number is wanted: it has no dimensions and needs no gradient."""

    def call(tensor: Tensor) -> Any:
        if tensor.requires_grad:
            raise RuntimeError("Cannot input a tensor that requires grad as a scalar argument")
        if tensor.dim() != 0:
            raise RuntimeError(
                "Cannot input a tensor of dimension other than 0 as a scalar argument"
            )
        return convert(tensor.item())

    return call


def _int_exactly(value: Any) -> int:
    if type(value) is not int:
        raise RuntimeError(
            f"Cannot input a tensor of type {type(value).__name__} as an integral argument"
        )
    return value


def _size(tensor: Tensor) -> list[int]:
    return list(tensor.shape)


def _size_at(tensor: Tensor, dim: int) -> int:
    return tensor.size(dim)


def _stride(tensor: Tensor) -> list[int]:
    return list(tensor.stride())


def _length(tensor: Tensor) -> int:
    if tensor.dim() == 0:
        raise RuntimeError("len() of a 0-d tensor")
    return tensor.shape[0]


def _tensor(
    data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    made: Tensor = public.tensor(data, dtype=dtype_of(dtype), device=device)
    return made.requires_grad_() if requires_grad else made


def _tensor_from(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    made: Tensor = public.as_tensor(data, dtype=dtype_of(dtype), device=device)
    return made


def _to_list(tensor: Tensor) -> list[Any]:
    return list(tensor.reshape(-1).tolist())


def _list_to_tensor(values: list[int]) -> Tensor:
    made: Tensor = public.tensor(values, dtype=dtype_of(4))
    return made


def _broadcast(*shapes: list[int]) -> list[int]:
    return list(public.broadcast_shapes(*shapes))


def _size_if_not_equal(shape: list[int], other: list[int]) -> list[int] | None:
    return None if shape == other else shape


def _attribute(name: str) -> Function:
    def call(tensor: Tensor) -> Any:
        return getattr(tensor, name)

    return call


def _dtype(tensor: Tensor) -> Any:
    return number_of(tensor.dtype)


def _layout(tensor: Tensor) -> Any:
    return number_of(tensor.layout)


def _from_number(value: Any) -> Tensor:
    """The tensor of a traced number."""
    made: Tensor = public.tensor(value)
    return made


def _to(tensor: Tensor, device: Any = None, dtype: Any = None, *flags: Any) -> Tensor:
    """`to` with both of device and dtype by place; flags: non_blocking and copy."""
    non_blocking, copy = flags[-2:] if flags else (False, False)
    options: dict[str, Any] = {}
    if device is not None:
        options["device"] = device
    if dtype is not None:
        options["dtype"] = dtype_of(dtype)
    return tensor.to(**options, non_blocking=non_blocking, copy=copy)


def _to_prim_dtype(
    tensor: Tensor, dtype: Any = None, non_blocking: bool = False, copy: bool = False
) -> Tensor:
    return _to(tensor, None, dtype, non_blocking, copy)


_ATTRIBUTES = (
    "data", "device", "grad", "is_cpu", "is_cuda", "is_ipu", "is_maia", "is_meta", "is_mkldnn",
    "is_mps", "is_mtia", "is_nested", "is_quantized", "is_sparse", "is_sparse_csr", "is_vulkan",
    "is_xla", "is_xpu", "itemsize", "name", "nbytes", "requires_grad", "H", "mH", "mT", "T",
)  # fmt: skip

ALL: dict[str, Function] = {
    **{f"prim::{name}": _attribute(name) for name in _ATTRIBUTES},
    "prim::dtype": _dtype,
    "prim::layout": _layout,
    "prim::NumToTensor": _from_number,
    "aten::IntImplicit": _implicit(_int_exactly),
    "aten::FloatImplicit": _implicit(float),
    "aten::ComplexImplicit": _implicit(complex),
    "aten::ScalarImplicit": _implicit(lambda value: value),
    "aten::tensor": _tensor,
    "aten::as_tensor": _tensor_from,
    "aten::_tensor_to_list": _to_list,
    "aten::_list_to_tensor": _list_to_tensor,
    "aten::_infer_size": _broadcast,
    "aten::broadcast_shapes": _broadcast,
    "aten::_size_if_not_equal": _size_if_not_equal,
    "aten::Size": list,
    "prim::BroadcastSizes": _broadcast,
}
EXACT: dict[str, Function] = {
    "aten::Int.Tensor": _int,
    "aten::Float.Tensor": _float,
    "aten::Bool.Tensor": bool,
    "aten::len.Tensor": _length,
    "aten::size.": _size,
    "aten::size.int": _size_at,
    "aten::sym_size.": _size,
    "aten::sym_size.int": _size_at,
    "aten::stride.": _stride,
    "aten::sym_stride.": _stride,
    "aten::to.prim_Device": _to,
    "aten::to.prim_dtype": _to_prim_dtype,
    "prim::abs.": abs,
    **{
        f"aten::Complex.{name}": _complex
        for name in (
            "Tensor_Tensor", "Tensor_bool", "Tensor_float", "Tensor_int", "bool_Tensor",
            "float_Tensor", "int_Tensor",
        )
    },
}  # fmt: skip
