"""Names that PyTorch has removed, and what to use instead of them."""

from __future__ import annotations

from typing import Any

from tritorch.core.published import PUBLIC
from tritorch.core.tensor import Tensor

_INSTEAD = {
    "solve": "`torch.solve` is deprecated in favor of `torch.linalg.solve`, which takes the matrix "
    "first and gives no factors.",
    "lstsq": "`torch.lstsq` is deprecated in favor of `torch.linalg.lstsq`, which takes the matrix "
    "first and gives residuals by themselves.",
    "eig": "`torch.linalg.eig` returns complex tensors of dtype `cfloat` or `cdouble`.",
    "symeig": "Use `torch.linalg.eigh`, or `torch.linalg.eigvalsh` for the values alone; they read "
    "the lower triangle unless told otherwise.",
    "matrix_rank": "Use `torch.linalg.matrix_rank`, whose `hermitian` was `symmetric`.",
}


def _removed(name: str, instead: str) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"This function was deprecated since version 1.9 and is now removed. {instead}"
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Removed. {instead}"
    return function


for _name, _text in _INSTEAD.items():
    PUBLIC[_name] = _removed(_name, _text)
    if _name != "matrix_rank":
        setattr(Tensor, _name, PUBLIC[_name])
