"""MixtureSameFamily: one of several components, chosen by a Categorical."""

from __future__ import annotations

from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.distributions import constraints
from tritorch.distributions.categorical import Categorical
from tritorch.distributions.distribution import Distribution
from tritorch.distributions.utils import (
    NOTHING,
    delegate,
    torch,
)


class MixtureSameFamily(Distribution):
    """A mixture of the distributions along the last batch dim of the components."""

    arg_constraints: Any = {}
    has_rsample = False
    mixture_distribution = delegate("_mixture_distribution")
    component_distribution = delegate("_component_distribution")

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                " The Mixture distribution needs to be an  instance of "
                "torch.distributions.Categorical"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution needs to be an instance of "
                "torch.distributions.Distribution"
            )
        mixtures = mixture_distribution.batch_shape
        batch = component_distribution.batch_shape[:-1]
        for i, j in zip(reversed(mixtures), reversed(batch)):
            if i != 1 and j != 1 and i != j:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({mixtures}) is not compatible with "
                    f"`component_distribution.batch_shape`({batch})"
                )
        choices = mixture_distribution.logits.shape[-1]
        components = component_distribution.batch_shape[-1]
        if choices != components:
            raise ValueError(
                f"`mixture_distribution component` ({choices}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({components})"
            )
        self._num_component = choices
        event = component_distribution.event_shape
        self._event_ndims = len(event)
        super().__init__(batch_shape=batch, event_shape=event, validate_args=validate_args)

    @constraints.dependent_property
    def support(self) -> Any:
        """The components'."""
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    def _weighted(self, x: Tensor) -> Tensor:
        """The mean over the components."""
        probs = self._mixture_distribution.probs
        probs = probs.reshape(probs.shape + (1,) * self._event_ndims)
        return (probs * x).sum(-1 - self._event_ndims)

    def _pad(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-1 - self._event_ndims)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self._weighted(self._component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        """The mean of the variances and the variance of the means."""
        parts = self._component_distribution
        apart = (parts.mean - self._pad(self.mean)).pow(2.0)
        return self._weighted(parts.variance) + self._weighted(apart)

    def cdf(self, x: Tensor) -> Tensor:
        parts = self._component_distribution.cdf(self._pad(x))
        return (parts * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, x: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(x)
        parts = self._component_distribution.log_prob(self._pad(x))
        weights = torch.log_softmax(self._mixture_distribution.logits, -1)
        return torch.logsumexp(parts + weights, -1)

    def sample(self, sample_shape: Any = NOTHING) -> Tensor:
        with torch.no_grad():
            chosen = self._mixture_distribution.expand(self._batch_shape).sample(sample_shape)
            parts = self._component_distribution.sample(sample_shape)
            dim = chosen.dim()
            index = chosen.reshape((*chosen.shape, 1, *(1,) * self._event_ndims))
            index = index.expand((*parts.shape[:dim], 1, *self._event_shape))
            return parts.gather(dim, index).squeeze(dim)

    def __repr__(self) -> str:
        return (
            f"MixtureSameFamily(\n  {self._mixture_distribution},\n"
            f"  {self._component_distribution})"
        )
