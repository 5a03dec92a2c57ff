"""What collectives check of their arguments, in PyTorch's words."""

from __future__ import annotations

from typing import Any

from tritorch.core.dtype import complex64, float32, float64
from tritorch.core.tensor import Tensor
from tritorch.distributed.reduce_op import RedOpType, as_type


def _check_single_tensor(param: Any, name: str) -> None:
    if not isinstance(param, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n"
            f"             but got {type(param)} instead."
        )


def _check_tensor_list(param: Any, name: str) -> None:
    start = f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n"
    if not isinstance(param, list):
        raise TypeError(f"{start}             but got {type(param)} instead.")
    if not all(isinstance(each, Tensor) for each in param):
        raise TypeError(
            f"{start}             but got {type(param)} with elements of type "
            f"{[type(each) for each in param]}."
        )


def _ensure_all_tensors_same_dtype(*tensors: Any) -> None:
    """Complex numbers may stand beside what their parts are."""
    first = None
    for given in tensors:
        for tensor in given if isinstance(given, list) else (given,):
            kind = tensor.dtype
            if kind.is_complex:
                kind = float32 if kind is complex64 else float64
            if first is None:
                first = kind
            elif first != kind:
                raise ValueError(
                    "Invalid usage of tensors with different dtypes"
                    f"Found {first} and  {tensor.dtype}"
                )


_REAL = {
    RedOpType.MAX, RedOpType.MIN, RedOpType.PRODUCT, RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR,
}  # fmt: skip


def supports_complex(reduceOp: Any) -> bool:
    """Whether PyTorch reduces complex numbers so."""
    return as_type(reduceOp)[0] not in _REAL


def _check_complex(name: str, tensors: list[Any], op: Any) -> None:
    for tensor in tensors:
        if tensor.dtype.is_complex and not supports_complex(op):
            raise ValueError(f"{name} does not support {op} on complex tensors")
