"""ProbsOrLogits: what distributions share that are given by probabilities or by log odds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritorch.core.size import Size
from tritorch.core.tensor import Tensor
from tritorch.distributions.distribution import Distribution
from tritorch.distributions.utils import (
    broadcast_all,
    delegate,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)


class ProbsOrLogits(Distribution):
    """A distribution given by probs or by logits; the other is computed when it is asked for."""

    _abstract = True
    _binary = True
    _param: Tensor

    def _take(self, probs: Any, logits: Any, **others: Any) -> Size:
        """Sets the one that is given, and other parameters broadcast with it and of its dtype."""
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        given = probs if logits is None else logits
        *values, given = broadcast_all(*others.values(), given)
        for name, value in zip(others, values):
            setattr(self, name, value.type_as(given))
        self._param = given
        setattr(self, "probs" if logits is None else "logits", given)
        return given.size()

    @lazy_property
    def logits(self) -> Tensor:
        """The log odds, or the logarithms of the probabilities."""
        return probs_to_logits(self.probs, is_binary=self._binary)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities."""
        return logits_to_probs(self.logits, is_binary=self._binary)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        new._param = new.__dict__["logits" if "logits" in self.__dict__ else "probs"]
        return new

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter that was given."""
        return self._param.size()

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._param.new(*args, **kwargs)


class OfCategorical(Distribution):
    """A distribution over vectors, made of a Categorical over their elements."""

    _abstract = True
    _categorical: Any
    probs = delegate("_categorical.probs")
    logits = delegate("_categorical.logits")
    _param = delegate("_categorical._param")
    param_shape = delegate("_categorical.param_shape")

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._categorical._new(*args, **kwargs)
