"""ContinuousBernoulli: densities that rise or fall exponentially between 0 and 1."""

from __future__ import annotations

import math
from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.distributions import constraints
from tritorch.distributions.counts import cross_entropy
from tritorch.distributions.exp_family import ExponentialFamily
from tritorch.distributions.probs import ProbsOrLogits
from tritorch.distributions.utils import (
    NOTHING,
    clamp_probs,
    lazy_property,
    logits_to_probs,
    torch,
    uniform_like,
)


class ContinuousBernoulli(ProbsOrLogits, ExponentialFamily):
    """The density probs^x (1 - probs)^(1 - x), normalised, for x in [0, 1].

    Between `lims`, around 1/2, formulas that divide by probs - 1/2 give way to Taylor's series.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        shape = self._take(probs, logits)
        if probs is not None:
            if validate_args is not None:
                if not bool(self.arg_constraints["probs"].check(self.probs).all()):
                    raise ValueError("The parameter probs has invalid values")
            self._param = self.probs = clamp_probs(self.probs)
        self._lims = lims
        super().__init__(shape, validate_args=validate_args)

    @lazy_property
    def probs(self) -> Tensor:
        """The chances, kept off 0 and 1."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _outside_unstable_region(self) -> Tensor:
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut_probs(self) -> Tensor:
        return torch.where(self._outside_unstable_region(), self.probs, self._lims[0])

    def _choose(self, formula: Tensor, near_half: Tensor) -> Tensor:
        return torch.where(self._outside_unstable_region(), formula, near_half)

    def _cont_bern_log_norm(self) -> Tensor:
        p = self._cut_probs()
        # log of 2 artanh(1 - 2 p) / (1 - 2 p)
        formula = ((-p).log1p() - p.log()).abs().log() - (1 - 2 * p).abs().log()
        x = (self.probs - 0.5).square()
        return self._choose(formula, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        p = self._cut_probs()
        formula = p / (2.0 * p - 1.0) + 1.0 / ((-p).log1p() - p.log())
        x = self.probs - 0.5
        return self._choose(formula, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.square()) * x)

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.variance.sqrt()

    @property
    def variance(self) -> Tensor:
        """The variance."""
        p = self._cut_probs()
        formula = p * (p - 1.0) / (1.0 - 2.0 * p).square() + ((-p).log1p() - p.log()).pow(-2)
        x = (self.probs - 0.5).square()
        return self._choose(formula, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    def rsample(self, sample_shape: Any = NOTHING) -> Tensor:
        return self.icdf(uniform_like(self.probs, self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._cont_bern_log_norm() - cross_entropy(self.logits, value)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        p = self._cut_probs()
        formula = (p.pow(value) * (1.0 - p).pow(1.0 - value) + p - 1.0) / (2.0 * p - 1.0)
        inside = self._choose(formula, value)
        return torch.where(value <= 0.0, 0.0, torch.where(value >= 1.0, 1.0, inside))

    def icdf(self, value: Tensor) -> Tensor:
        p = self._cut_probs()
        low = (-p).log1p()
        formula = ((-p + value * (2.0 * p - 1.0)).log1p() - low) / (p.log() - low)
        return self._choose(formula, value)

    def entropy(self) -> Tensor:
        low, high = (-self.probs).log1p(), self.probs.log()
        return self.mean * (low - high) - self._cont_bern_log_norm() - low

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        low, high = self._lims[0] - 0.5, self._lims[1] - 0.5
        outside = (x <= low) | (x > high)
        cut = torch.where(outside, x, low)
        formula = cut.expm1().abs().log() - cut.abs().log()
        return torch.where(outside, formula, 0.5 * x + x.pow(2) / 24.0 - x.pow(4) / 2880.0)
