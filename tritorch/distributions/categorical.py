"""Distributions over a list of outcomes: Categorical, OneHotCategorical, Multinomial."""

from __future__ import annotations

import math
from typing import Any

from tritorch.core.size import Size
from tritorch.core.tensor import Tensor
from tritorch.distributions import constraints
from tritorch.distributions.counts import Binomial
from tritorch.distributions.probs import OfCategorical, ProbsOrLogits
from tritorch.distributions.utils import (
    NOTHING,
    F,
    broadcast_all,
    constant_like,
    torch,
)


class Categorical(ProbsOrLogits):
    """The index of an outcome, by weights over the last dim."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _binary = False

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        for name, weights in (("probs", probs), ("logits", logits)):
            if weights is not None and (probs is None or logits is None) and weights.dim() < 1:
                raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        shape = self._take(probs, logits)
        if probs is not None:
            self._param = self.probs = self.probs / self.probs.sum(-1, keepdim=True)
        else:
            self._param = self.logits = self.logits - self.logits.logsumexp(-1, keepdim=True)
        self._num_events = shape[-1]
        super().__init__(shape[:-1], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """The indices."""
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        """NaN: outcomes are no numbers."""
        return constant_like(self.probs, self._extended_shape(), math.nan)

    @property
    def mode(self) -> Tensor:
        """The likeliest outcome."""
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        """NaN: outcomes are no numbers."""
        return constant_like(self.probs, self._extended_shape(), math.nan)

    def sample(self, sample_shape: Any = NOTHING) -> Tensor:
        sample_shape = Size(sample_shape)
        rows = self.probs.detach().reshape(-1, self._num_events)
        drawn = torch.multinomial(rows, sample_shape.numel(), True).T
        return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        index, logits = torch.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        logits = self.logits.clamp(min=torch.finfo(self.logits.dtype).min)  # not 0 * inf
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = torch.arange(self._num_events, dtype=torch.long, device=self._param.device)
        return self._enumerated(values, expand)


class OneHotCategorical(OfCategorical):
    """An outcome as a vector with a 1 at its index."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits)
        super().__init__(
            self._categorical.batch_shape,
            self._categorical.param_shape[-1:],
            validate_args=validate_args,
        )

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """The likeliest outcome."""
        return F.one_hot(self._categorical.mode, self._event_shape[0]).to(self.probs)

    @property
    def variance(self) -> Tensor:
        """The variance of each element."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = NOTHING) -> Tensor:
        drawn = self._categorical.sample(sample_shape)
        return F.one_hot(drawn, self._event_shape[0]).to(self.probs.detach())

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self._event_shape[0]
        values = torch.eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.view((n, *(1,) * len(self._batch_shape), n))
        return values.expand((n, *self._batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical whose samples pass gradients straight to the probabilities."""

    has_rsample = True

    def rsample(self, sample_shape: Any = NOTHING) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(OfCategorical):
    """How often each outcome comes, of total_count."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        super().__init__(
            self._categorical.batch_shape,
            self._categorical.param_shape[-1:],
            validate_args=validate_args,
        )

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        """Counts that add up to at most total_count."""
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        """The variance of each count."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = NOTHING) -> Tensor:
        drawn = self._categorical.sample((self.total_count, *sample_shape)).movedim(0, -1)
        counts = drawn.new_zeros(self._extended_shape(sample_shape))
        counts.scatter_add_(-1, drawn, torch.ones_like(drawn))
        return counts.type_as(self.probs.detach())

    def entropy(self) -> Tensor:
        n = self.total_count
        binomial = Binomial(n, probs=self.probs)
        values = binomial.enumerate_support(expand=False)[1:]
        weights = binomial.log_prob(values).exp() * (values + 1).lgamma()
        return n * self._categorical.entropy() - math.lgamma(n + 1) + weights.sum([0, -1])

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        logits = logits.masked_fill((value == 0) & (logits == -math.inf), 0)  # not 0 * inf
        choices = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        return choices + (logits * value).sum(-1)
