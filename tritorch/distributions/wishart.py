"""Distributions over matrices: Wishart, LKJCholesky."""

from __future__ import annotations

import math
import warnings
from typing import Any

from tritorch.core.size import Size
from tritorch.core.tensor import Tensor
from tritorch.distributions import constraints
from tritorch.distributions.distribution import Distribution
from tritorch.distributions.exp_family import ExponentialFamily
from tritorch.distributions.gamma import Beta, Chi2
from tritorch.distributions.multivariate_normal import _MATRICES, OfScaleMatrix
from tritorch.distributions.utils import (
    NOTHING,
    broadcast_all,
    is_number,
    log_diagonal,
    torch,
)

_LOG_2 = math.log(2)


def _halves(x: Tensor, n: int) -> Tensor:
    """0, 1/2, ..., (n - 1) / 2, like x."""
    return torch.arange(n, dtype=x.dtype, device=x.device) / 2


class Wishart(OfScaleMatrix, ExponentialFamily):
    """Sums of outer products of df normal vectors, of a covariance matrix."""

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    _tries = 10

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """One matrix, and more degrees of freedom than its dims less one."""
        return {**_MATRICES, "df": constraints.greater_than(self._event_shape[-1] - 1)}

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        given = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        found = [matrix for matrix in given.values() if matrix is not None]
        if len(found) != 1:
            raise AssertionError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be "
                "specified."
            )
        (matrix,) = found
        if matrix.dim() < 2:
            raise ValueError(
                "scale_tril must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        event_shape = matrix.shape[-2:]
        p = event_shape[-1]
        if is_number(df):
            batch_shape = Size(matrix.shape[:-2])
            self.df = torch.tensor(df, dtype=matrix.dtype, device=matrix.device)
        else:
            batch_shape = torch.broadcast_shapes(matrix.shape[:-2], df.shape)
            self.df = df.expand(batch_shape)
        if bool(self.df.le(p - 1).any()):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {p - 1}.")
        self._hold(given, batch_shape)
        if bool(self.df.lt(p).any()):
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for "
                "ndim - 1 < df < ndim.",
                stacklevel=2,
            )
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        self._factorise(given)
        df_of_rows = self.df.expand(batch_shape).unsqueeze(-1) - 2 * _halves(matrix, p)
        self._dist_chi2 = Chi2(df_of_rows)

    @property
    def _df_of_matrix(self) -> Tensor:
        return self.df.expand(self._batch_shape).reshape((*self._batch_shape, 1, 1))

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self._df_of_matrix * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        """Where the density is largest; NaN for few degrees of freedom."""
        factor = self._df_of_matrix - self._event_shape[-1] - 1
        return factor.masked_fill(factor <= 0, math.nan) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        """The variance of each element."""
        matrix = self.covariance_matrix
        diagonal = matrix.diagonal(dim1=-2, dim2=-1)
        outer = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self._df_of_matrix * (matrix.square() + outer)

    def _bartlett_sampling(self, sample_shape: Any = NOTHING) -> Tensor:
        """L A A' L': A has normal numbers below chi distributed ones."""
        chi = self._dist_chi2.rsample(sample_shape).sqrt()
        chi = chi.clamp(min=torch.finfo(chi.dtype).eps)
        below = torch.randn(self._extended_shape(sample_shape), dtype=chi.dtype, device=chi.device)
        factor = self._unbroadcasted_scale_tril @ (below.tril(-1) + chi.diag_embed())
        return factor @ factor.mT

    def rsample(self, sample_shape: Any = NOTHING, max_try_correction: int | None = None) -> Tensor:
        """A sample; singular ones are drawn again, up to max_try_correction times."""
        tries = self._tries if max_try_correction is None else max_try_correction
        sample = self._bartlett_sampling(sample_shape)
        singular = ~self.support.check(sample.detach())
        if bool(singular.any()):
            warnings.warn("Singular sample detected.", stacklevel=2)
            for _ in range(tries):
                again = self._bartlett_sampling(sample_shape)
                sample = torch.where(singular[..., None, None], again, sample)
                singular = ~self.support.check(sample.detach())
                if not bool(singular.any()):
                    break
        return sample

    def _half_log_det(self) -> Tensor:
        """Of the covariance matrix times 2."""
        return self._event_shape[-1] * _LOG_2 / 2 + log_diagonal(self._unbroadcasted_scale_tril)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        df, p = self.df, self._event_shape[-1]
        solved = torch.cholesky_solve(value, self._unbroadcasted_scale_tril)
        return (
            -df * self._half_log_det()
            - torch.mvlgamma(df / 2, p=p)
            + (df - p - 1) / 2 * torch.linalg.slogdet(value).logabsdet
            - solved.diagonal(dim1=-2, dim2=-1).sum(-1) / 2
        )

    def entropy(self) -> Tensor:
        df, p = self.df, self._event_shape[-1]
        mean_log = (df.unsqueeze(-1) / 2 - _halves(df, p)).digamma().sum(-1)
        return (
            (p + 1) * self._half_log_det()
            + torch.mvlgamma(df / 2, p=p)
            - (df - p - 1) / 2 * mean_log
            + df * p / 2
        )

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        p = self._event_shape[-1]
        half_df = y + (p + 1) / 2
        log_det = torch.linalg.slogdet(-2 * x).logabsdet
        return half_df * (p * _LOG_2 - log_det) + torch.mvlgamma(half_df, p=p)


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices, of density det^(concentration - 1)."""

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(
        self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        # The squared length of each row below the diagonal is beta distributed.
        half = _halves(self.concentration, dim - 1)
        half = torch.cat([half.new_zeros((1,)), half])
        marginal = self.concentration.unsqueeze(-1) + 0.5 * (dim - 2)
        self._beta = Beta(half + 0.5, marginal - half)
        shape = self.concentration.size()
        super().__init__(shape, Size((dim, dim)), validate_args)

    def sample(self, sample_shape: Any = NOTHING) -> Tensor:
        with torch.no_grad():
            squares = self._beta.sample(sample_shape).unsqueeze(-1)
            shape = self._extended_shape(sample_shape)
            normal = torch.randn(shape, dtype=squares.dtype, device=squares.device).tril(-1)
            norms = normal.norm(dim=-1, keepdim=True)
            below = squares.sqrt() * normal / norms.masked_fill(norms == 0, 1)
            rest = 1 - below.square().sum(-1)
            return below + rest.clamp(min=torch.finfo(rest.dtype).tiny).sqrt().diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n = self.dim - 1
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = torch.arange(2, self.dim + 1, device=self.concentration.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        alpha = self.concentration + 0.5 * n
        normalizer = (
            0.5 * n * math.log(math.pi) + torch.mvlgamma(alpha - 0.5, n) - alpha.lgamma() * n
        )
        return (order * diagonal.log()).sum(-1) - normalizer
