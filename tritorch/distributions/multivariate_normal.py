"""MultivariateNormal and LowRankMultivariateNormal."""

from __future__ import annotations

import math
from typing import Any

from tritorch.core.size import Size
from tritorch.core.tensor import Tensor
from tritorch.distributions import constraints
from tritorch.distributions.distribution import Distribution
from tritorch.distributions.utils import (
    NOTHING,
    _standard_normal,
    delegate,
    lazy_property,
    log_diagonal,
    matrix_vector,
    torch,
)

_LOG_2_PI = math.log(2 * math.pi)


def mahalanobis(factor: Tensor, x: Tensor) -> Tensor:
    """|L^-1 x|^2; samples beyond the batch of factors are columns of one system."""
    batch = factor.dim() - 2
    x = x.expand((*(1,) * (batch - x.dim() + 1), *x.shape)) if x.dim() <= batch else x
    outer = x.shape[: x.dim() - 1 - batch]
    columns = x.reshape((-1, *x.shape[len(outer) :])).movedim(0, -1)
    solved = torch.linalg.solve_triangular(factor, columns, upper=False)
    found = solved.square().sum(-2).movedim(-1, 0)
    return found.reshape((*outer, *found.shape[1:]))


def factor_of_inverse(precision: Tensor) -> Tensor:
    """The Cholesky factor of a matrix's inverse, from the matrix turned around."""
    turned = torch.linalg.cholesky(precision.flip((-2, -1)))
    upper_inverse = turned.flip((-2, -1)).mT
    identity = torch.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return torch.linalg.solve_triangular(upper_inverse, identity, upper=False)


class OfScaleMatrix(Distribution):
    """A distribution given by a covariance matrix, its inverse, or its Cholesky factor.

    The factor is held as given, without the batch's dims that it lacks.
    """

    _abstract = True
    _unbroadcasted_scale_tril: Tensor

    def _hold(self, given: dict[str, Any], batch_shape: Size) -> None:
        """Sets the matrix that is given."""
        for name, matrix in given.items():
            if matrix is not None:
                setattr(self, name, matrix.expand((*batch_shape, -1, -1)))

    def _factorise(self, given: dict[str, Any]) -> None:
        """Sets the factor; after validation, which has better messages."""
        if given["scale_tril"] is not None:
            self._unbroadcasted_scale_tril = given["scale_tril"]
        elif given["covariance_matrix"] is not None:
            self._unbroadcasted_scale_tril = torch.linalg.cholesky(given["covariance_matrix"])
        else:
            self._unbroadcasted_scale_tril = factor_of_inverse(given["precision_matrix"])

    def _batched(self, matrix: Tensor) -> Tensor:
        return matrix.expand((*self._batch_shape, *matrix.shape[-2:]))

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor."""
        return self._batched(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The factor times its transpose."""
        factor = self._unbroadcasted_scale_tril
        return self._batched(factor @ factor.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance matrix."""
        return self._batched(torch.cholesky_inverse(self._unbroadcasted_scale_tril))


_MATRICES: dict[str, Any] = {
    "covariance_matrix": constraints.positive_definite,
    "precision_matrix": constraints.positive_definite,
    "scale_tril": constraints.lower_cholesky,
}


class MultivariateNormal(OfScaleMatrix):
    """Normal vectors, of a mean and a covariance matrix."""

    arg_constraints = {"loc": constraints.real_vector, **_MATRICES}
    support = constraints.real_vector
    has_rsample = True
    mean = delegate("loc")
    mode = delegate("loc")

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        found = [(name, matrix) for name, matrix in given.items() if matrix is not None]
        if len(found) != 1:
            raise ValueError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be "
                "specified."
            )
        name, matrix = found[0]
        if matrix.dim() < 2:
            title = "scale_tril matrix" if name == "scale_tril" else name
            raise ValueError(
                f"{title} must be at least two-dimensional, with optional leading batch dimensions"
            )
        batch_shape = torch.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self._hold(given, batch_shape)
        self.loc = loc.expand((*batch_shape, -1))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        self._factorise(given)

    @property
    def variance(self) -> Tensor:
        """The variance of each element."""
        return self._unbroadcasted_scale_tril.square().sum(-1).expand(self._extended_shape())

    def rsample(self, sample_shape: Any = NOTHING) -> Tensor:
        shape = self._extended_shape(sample_shape)
        noise = _standard_normal(shape, self.loc.dtype, self.loc.device)
        return self.loc + matrix_vector(self._unbroadcasted_scale_tril, noise)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        factor = self._unbroadcasted_scale_tril
        distance = mahalanobis(factor, value - self.loc)
        return -0.5 * (self._event_shape[0] * _LOG_2_PI + distance) - log_diagonal(factor)

    def entropy(self) -> Tensor:
        half = 0.5 * self._event_shape[0] * (1.0 + _LOG_2_PI)
        return (half + log_diagonal(self._unbroadcasted_scale_tril)).expand(self._batch_shape)


class LowRankMultivariateNormal(Distribution):
    """Normal vectors whose covariance matrix is W W' + diag(D), W with few columns.

    Everything is computed by Cholesky's factor of the small matrix 1 + W' D^-1 W (the capacitance
    matrix), by Woodbury's formula and the matrix determinant lemma.
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True
    mean = delegate("loc")
    mode = delegate("loc")

    def __init__(
        self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError(
                "cov_factor must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(
                f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m"
            )
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event_shape}")
        try:
            wide_loc, self.cov_factor, wide_diag = torch.broadcast_tensors(
                loc.unsqueeze(-1), cov_factor, cov_diag.unsqueeze(-1)
            )
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, "
                f"cov_diag {cov_diag.shape}"
            ) from error
        self.loc, self.cov_diag = wide_loc[..., 0], wide_diag[..., 0]
        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        scaled = self._scaled_factor
        one = torch.eye(scaled.shape[-2], dtype=scaled.dtype, device=scaled.device)
        self._capacitance_tril = torch.linalg.cholesky(one + scaled @ cov_factor)
        super().__init__(self.loc.shape[:-1], event_shape, validate_args=validate_args)

    @property
    def _scaled_factor(self) -> Tensor:
        """W' D^-1."""
        return self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)

    @property
    def _whitened_factor(self) -> Tensor:
        """L^-1 W' D^-1, L the capacitance matrix' factor."""
        return torch.linalg.solve_triangular(
            self._capacitance_tril, self._scaled_factor, upper=False
        )

    def _log_det(self) -> Tensor:
        return 2 * log_diagonal(self._capacitance_tril) + self._unbroadcasted_cov_diag.log().sum(-1)

    def _mahalanobis(self, x: Tensor) -> Tensor:
        plain = (x.square() / self._unbroadcasted_cov_diag).sum(-1)
        return plain - mahalanobis(self._capacitance_tril, matrix_vector(self._scaled_factor, x))

    def _batched(self, matrix: Tensor) -> Tensor:
        return matrix.expand((*self._extended_shape(), *self._event_shape))

    @lazy_property
    def variance(self) -> Tensor:
        """The variance of each element."""
        variance = self._unbroadcasted_cov_factor.square().sum(-1) + self._unbroadcasted_cov_diag
        return variance.expand(self._extended_shape())

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The covariance matrix' Cholesky factor."""
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        one = torch.eye(scaled.shape[-2], dtype=scaled.dtype, device=scaled.device)
        return self._batched(root * torch.linalg.cholesky(one + scaled @ scaled.mT))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """W W' + diag(D)."""
        factor = self._unbroadcasted_cov_factor
        return self._batched(factor @ factor.mT + self._unbroadcasted_cov_diag.diag_embed())

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance matrix."""
        whitened = self._whitened_factor
        inverse = self._unbroadcasted_cov_diag.reciprocal().diag_embed()
        return self._batched(inverse - whitened.mT @ whitened)

    def rsample(self, sample_shape: Any = NOTHING) -> Tensor:
        shape = self._extended_shape(sample_shape)
        few = (*shape[:-1], self.cov_factor.shape[-1])
        shared = _standard_normal(few, self.loc.dtype, self.loc.device)
        own = _standard_normal(shape, self.loc.dtype, self.loc.device)
        moved = self.loc + matrix_vector(self._unbroadcasted_cov_factor, shared)
        return moved + self._unbroadcasted_cov_diag.sqrt() * own

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        distance = self._mahalanobis(value - self.loc)
        return -0.5 * (self._event_shape[0] * _LOG_2_PI + self._log_det() + distance)

    def entropy(self) -> Tensor:
        entropy = 0.5 * (self._event_shape[0] * (1.0 + _LOG_2_PI) + self._log_det())
        return entropy.expand(self._batch_shape)
