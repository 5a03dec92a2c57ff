"""What distributions share: broadcasting, probabilities and log odds, triangles as vectors."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from numbers import Number
from typing import Any

import tritorch
from tritorch.core.size import Size
from tritorch.core.tensor import Tensor

torch: Any = tritorch  # its names are published when it is imported
F: Any = tritorch.nn.functional
NOTHING = Size()  # the shape of one sample

euler_constant = 0.5772156649015329


def is_number(value: Any) -> bool:
    """Whether a parameter is a Python number."""
    return isinstance(value, (int, float, bool)) and not isinstance(value, Tensor)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor) or hasattr(value, "__torch_function__")


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Tensors and numbers as tensors of one shape; numbers are made like the first tensor."""
    if not all(_is_tensor(v) or isinstance(v, Number) for v in values):
        raise ValueError(
            "Input arguments must all be instances of Number, "
            "torch.Tensor or objects implementing __torch_function__."
        )
    first = next((v for v in values if isinstance(v, Tensor)), None)
    options: dict[str, Any] = {"dtype": torch.get_default_dtype()}
    if first is not None:
        options = {"dtype": first.dtype, "device": first.device}
    return tuple(
        torch.broadcast_tensors(
            *(v if _is_tensor(v) else torch.tensor(v, **options) for v in values)
        )
    )


def _standard_normal(shape: Sequence[int], dtype: Any, device: Any) -> Tensor:
    return torch.empty(tuple(shape), dtype=dtype, device=device).normal_()


def uniform_like(x: Tensor, shape: Sequence[int]) -> Tensor:
    """Uniform in [0, 1), of x's dtype and device."""
    return torch.rand(tuple(shape), dtype=x.dtype, device=x.device)


def constant_like(x: Tensor, shape: Sequence[int], value: float) -> Tensor:
    """One number everywhere, of x's dtype and device."""
    return torch.full(tuple(shape), value, dtype=x.dtype, device=x.device)


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """The sum over the last `dim` dims."""
    return value if dim == 0 else value.reshape((*value.shape[:-dim], -1)).sum(-1)


def matrix_vector(matrix: Tensor, vector: Tensor) -> Tensor:
    """Products of batches of matrices and vectors, broadcasting."""
    return torch.matmul(matrix, vector.unsqueeze(-1)).squeeze(-1)


def log_diagonal(matrix: Tensor) -> Tensor:
    """The sum of the diagonal's logarithms: half a determinant's, of a Cholesky factor."""
    return matrix.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of log odds, or of logarithms of weights over the last dim."""
    return torch.sigmoid(logits) if is_binary else torch.softmax(logits, -1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities kept eps away from 0 and 1, so that their logarithms are finite."""
    eps = torch.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """The log odds of probabilities, or their logarithms."""
    inside = clamp_probs(probs)
    return inside.log() - (-inside).log1p() if is_binary else inside.log()


class lazy_property:
    """A property that is computed when it is first asked for, with gradients, and then kept."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        functools.update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, obj_type: Any = None) -> Any:
        if instance is None:
            return self
        with torch.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def delegate(path: str) -> Any:
    """A property that is an attribute of a part: delegate("base_dist.loc")."""
    parts = path.split(".")

    def get(self: Any) -> Any:
        return functools.reduce(getattr, parts, self)

    get.__doc__ = f"The {parts[-1]} of {'.'.join(parts[:-1])}."
    return property(get)


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The elements of lower triangles, row by row, as vectors."""
    n = mat.shape[-1]
    if diag < -n or diag >= n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    return mat[..., _lower(n, diag, mat.device)]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Square matrices with vectors as their lower triangles, row by row."""
    size = vec.shape[-1]
    # n (n + 1 + 2 diag) - |diag| (diag + 1) = 2 size
    b = 1 + 2 * diag
    n = (math.sqrt(b * b + 8 * size + 4 * abs(diag) * (diag + 1)) - b) / 2
    if abs(round(n) - n) > torch.finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {size} which cannot be expressed as "
            "the lower triangular part of a square D x D matrix."
        )
    rows = round(n)
    mat = vec.new_zeros((*vec.shape[:-1], rows, rows))
    mat[..., _lower(rows, diag, vec.device)] = vec
    return mat


def _lower(n: int, diag: int, device: Any) -> Tensor:
    return torch.ones(n, n, dtype=torch.bool, device=device).tril(diag)
