"""Continuous stand-ins of discrete distributions, at a temperature: samples with gradients."""

from __future__ import annotations

from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.distributions import constraints
from tritorch.distributions.categorical import Categorical
from tritorch.distributions.probs import OfCategorical, ProbsOrLogits
from tritorch.distributions.transformed_distribution import TransformedDistribution
from tritorch.distributions.transforms import ExpTransform, SigmoidTransform
from tritorch.distributions.utils import (
    NOTHING,
    broadcast_all,
    clamp_probs,
    delegate,
    torch,
    uniform_like,
)

_BINARY: dict[str, Any] = {"probs": constraints.unit_interval, "logits": constraints.real}
_VECTOR: dict[str, Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}


class LogitRelaxedBernoulli(ProbsOrLogits):
    """The log odds of a RelaxedBernoulli: logistic noise around logits, over the temperature."""

    arg_constraints = _BINARY
    support = constraints.real

    def __init__(
        self,
        temperature: Tensor,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        super().__init__(self._take(probs, logits), validate_args=validate_args)

    def rsample(self, sample_shape: Any = NOTHING) -> Tensor:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(uniform_like(probs, shape))
        noise = u.log() - (-u).log1p()
        return (noise + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        diff = logits - value.mul(self.temperature)
        return self.temperature.log() + diff - 2 * diff.exp().log1p()


class _Relaxed(TransformedDistribution):
    temperature = delegate("base_dist.temperature")
    probs = delegate("base_dist.probs")
    logits = delegate("base_dist.logits")


class RelaxedBernoulli(_Relaxed):
    """Between 0 and 1, near the ends at low temperatures."""

    arg_constraints = _BINARY
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        temperature: Tensor,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)


class ExpRelaxedCategorical(OfCategorical):
    """The logarithm of a RelaxedOneHotCategorical: Gumbel noise on logits, over the temperature."""

    arg_constraints = _VECTOR
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        super().__init__(
            self._categorical.batch_shape,
            self._categorical.param_shape[-1:],
            validate_args=validate_args,
        )

    def rsample(self, sample_shape: Any = NOTHING) -> Tensor:
        u = clamp_probs(uniform_like(self.logits, self._extended_shape(sample_shape)))
        scores = (self.logits - (-u.log()).log()) / self.temperature
        return scores - scores.logsumexp(-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        k = self._event_shape[0]
        logits, value = broadcast_all(self.logits, value)
        factor = torch.full_like(self.temperature, float(k)).lgamma()
        factor = factor + (k - 1) * self.temperature.log()
        score = logits - value.mul(self.temperature)
        return (score - score.logsumexp(-1, keepdim=True)).sum(-1) + factor


class RelaxedOneHotCategorical(_Relaxed):
    """A point of the simplex, near its corners at low temperatures."""

    arg_constraints = _VECTOR
    support = constraints.simplex
    has_rsample = True

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)
