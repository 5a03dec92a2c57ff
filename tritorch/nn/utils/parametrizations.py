"""Parametrizations: orthogonal matrices, weight and spectral normalisation."""

from __future__ import annotations

import enum
from typing import Any

from tritorch.autograd import no_grad
from tritorch.core.gates import GATES
from tritorch.core.info import finfo
from tritorch.core.tensor import Tensor
from tritorch.nn import functional as _functions
from tritorch.nn.modules.module import Module
from tritorch.nn.utils.parametrize import register_parametrization
from tritorch.nn.utils.spectral_norm import default_dim
from tritorch.nn.utils.weight_norm import _weight_norm, norm_except_dim

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

F: Any = _functions


def _call(name: str, *args: Any, of: str = "", **kwargs: Any) -> Any:
    """Calls a public function by its gate: modes see it, and `compile` follows it."""
    return GATES[f"tritorch.{of}" if of else "tritorch"][name](*args, **kwargs)


def _eye(n: int, like: Tensor) -> Tensor:
    return _call("eye", n, dtype=like.dtype, device=like.device)


def _is_orthogonal(q: Tensor) -> bool:
    n, k = q.shape[-2:]
    error = 10.0 * n * finfo(q.dtype).eps
    return not q._is_described and _call("allclose", q.mH @ q, _eye(k, q), atol=error)


def _make_orthogonal(a: Tensor) -> Tensor:
    """The Q of a QR decomposition whose R has a positive diagonal."""
    x, tau = _call("geqrf", a)
    return _call("householder_product", x, tau, of="linalg") * x.diagonal(
        0, -2, -1
    ).sgn().unsqueeze(-2)


class _OrthMaps(enum.Enum):
    matrix_exp = enum.auto()
    cayley = enum.auto()
    householder = enum.auto()


class _Orthogonal(Module):
    """From any matrix to an orthogonal one."""

    base: Any

    def __init__(
        self, weight: Tensor, orthogonal_map: _OrthMaps, *, use_trivialization: bool = True
    ) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map is _OrthMaps.householder:
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape, self.orthogonal_map = weight.shape, orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        """The orthogonal matrix."""
        n, k = X.shape[-2:]
        transposed = n < k
        if transposed:
            X, n, k = X.mT, k, n
        if self.orthogonal_map is _OrthMaps.householder:
            low = X.tril(-1)
            tau = 2.0 / (1.0 + (low * low).sum(-2))
            q = _call("householder_product", low, tau, of="linalg")
            # The diagonal of X holds signs: 1 or -1.
            q = q * X.diagonal(0, -2, -1).trunc().detach().unsqueeze(-2)
        else:
            X = X.tril()
            if n != k:
                X = _call("cat", [X, X.new_zeros((*X.shape[:-1], n - k))], -1)
            skew = X - X.mH
            if self.orthogonal_map is _OrthMaps.matrix_exp:
                q = _call("matrix_exp", skew, of="linalg")
            else:
                eye = _eye(n, skew)
                q = _call("solve", eye - 0.5 * skew, eye + 0.5 * skew, of="linalg")
            q = q[..., :k]
        if hasattr(self, "base"):
            q = self.base @ q
        return q.mT if transposed else q

    def right_inverse(self, Q: Tensor) -> Tensor:
        """A matrix that maps to Q, or to an orthogonal matrix made of it."""
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of "
                f"shape {Q.shape}."
            )
        n, k = Q.shape[-2:]
        given, transposed = Q, n < k
        if transposed:
            Q, n, k = Q.mT, k, n
        with no_grad():
            if hasattr(self, "base"):
                if n != k:
                    noise = _call("randn", *Q.shape[:-1], n - k, dtype=Q.dtype, device=Q.device)
                    Q = _make_orthogonal(_call("cat", [Q, noise], -1))
                else:
                    Q = Q.clone() if _is_orthogonal(Q) else _make_orthogonal(Q)
                self.base = Q
                # The matrix that maps to the identity; -1 on the diagonal, as PyTorch has it.
                start = _call("zeros_like", given)
                start.diagonal(0, -2, -1).fill_(-1.0)
                return start
            if self.orthogonal_map is not _OrthMaps.householder:
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential or the Cayley "
                    "parametrizations when use_trivialization=False."
                )
            a, tau = _call("geqrf", Q)
            diagonal = a.diagonal(0, -2, -1)
            signs = diagonal.sign()  # there is no reflection of a column that needs none
            diagonal.copy_(_call("where", tau == 0.0, -signs, signs))
            return a.mT if transposed else a


def orthogonal(
    module: Any, name: str = "weight", orthogonal_map: str | None = None, *,
    use_trivialization: bool = True,
) -> Any:  # fmt: skip
    """Keeps a parameter orthogonal: "matrix_exp", "cayley" or "householder"."""
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions."
        )
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in _OrthMaps.__members__:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: '
            f"{orthogonal_map}"
        )
    made = _Orthogonal(weight, _OrthMaps[orthogonal_map], use_trivialization=use_trivialization)
    return register_parametrization(module, name, made, unsafe=True)


class _WeightNorm(Module):
    """Length times direction."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        """g v / |v|"""
        return _weight_norm(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Lengths, and the weight itself."""
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """A parameter as length times direction; reads state dicts of utils.weight_norm too."""
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def renamed(state_dict: Any, prefix: str, *rest: Any) -> None:
        old = [f"{prefix}{name}_{part}" for part in "gv"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(renamed)
    return module


class _SpectralNorm(Module):
    """Divided by the largest singular value, which power iterations approach."""

    _u: Any
    _v: Any

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        ndim = weight.ndim
        if not -ndim <= dim < ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got "
                f"{dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.dim, self.eps = dim % ndim, eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._reshape_weight_to_matrix(weight.detach())
            for key, size in zip(("_u", "_v"), matrix.shape):
                start = matrix.new_empty(size).normal_(0, 1)
                self.register_buffer(key, F.normalize(start, dim=0, eps=eps))
            self._power_method(matrix, 15)

    def _reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        return weight.movedim(self.dim, 0).flatten(1)

    def _power_method(self, weight_mat: Tensor, n_power_iterations: int) -> None:
        with no_grad():
            for _ in range(n_power_iterations):
                self._u.copy_(F.normalize(weight_mat.mv(self._v), dim=0, eps=self.eps))
                self._v.copy_(F.normalize(weight_mat.mH.mv(self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        """weight / (u^H weight v); in training after some more iterations."""
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._reshape_weight_to_matrix(weight)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()  # the gradient needs them as they are now
        return weight / u.vdot(matrix.mv(v))

    def right_inverse(self, value: Tensor) -> Tensor:
        """The value itself: what is assigned may already be normalised."""
        return value


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """A parameter divided by its largest singular value."""
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    made = _SpectralNorm(weight, n_power_iterations, default_dim(module, dim), eps)
    return register_parametrization(module, name, made)
