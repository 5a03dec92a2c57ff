"""ExponentialFamily: entropies by the log normaliser's gradient."""

from __future__ import annotations

from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.distributions.distribution import Distribution
from tritorch.distributions.utils import torch

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """A density of the form exp(<t(x), theta> - F(theta) + k(x)).

    theta are the natural parameters, t the sufficient statistics, F the log normaliser, k the
    carrier measure.  The gradient of F is the mean of t: so entropies and divergences follow from F
    alone (a Bregman divergence).
    """

    _abstract = True

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any, **named: Any) -> Tensor:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """F - <theta, grad F> less the mean of the carrier measure."""
        natural = [p.detach().requires_grad_() for p in self._natural_params]
        normalizer = self._log_normalizer(*natural)
        means = torch.autograd.grad(normalizer.sum(), natural, create_graph=True)
        result = normalizer - self._mean_carrier_measure
        for parameter, mean in zip(natural, means):
            result = result - (parameter * mean).reshape((*self._batch_shape, -1)).sum(-1)
        return result
