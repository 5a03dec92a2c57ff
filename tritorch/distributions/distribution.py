"""Distribution: shapes, validation and expansion, as in torch.distributions.distribution."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from tritorch.core.size import Size
from tritorch.core.tensor import Tensor
from tritorch.distributions import constraints
from tritorch.distributions.utils import (
    NOTHING,
    broadcast_all,
    lazy_property,
    torch,
)

__all__ = ["Distribution"]


def _is_ours(cls: type) -> bool:
    return getattr(cls, "__module__", "").startswith(__name__.rpartition(".")[0])


class Distribution:
    """A probability distribution over events, independent over the dims of a batch.

    A subclass declares its parameters by `arg_constraints`; from that follow validation, repr and
    `expand` (what is in the instance's dict is a parameter, a part that is a distribution itself,
    or shared as it is).
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    _validate_args = __debug__
    _abstract = True  # in a class's own dict: `expand` is left to subclasses

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether arguments are validated by default (they are, unless Python runs with -O)."""
        if value not in [True, False]:
            raise ValueError
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Any = NOTHING,
        event_shape: Any = NOTHING,
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape = batch_shape
        self._event_shape = event_shape
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._validate_parameters()
        super().__init__()

    def _validate_parameters(self) -> None:
        try:
            declared = self.arg_constraints
        except NotImplementedError:
            declared = {}
            warnings.warn(
                f"{self.__class__} does not define `arg_constraints`. Please set "
                "`arg_constraints = {}` or initialize the distribution with "
                "`validate_args=False` to turn off validation.",
                stacklevel=3,
            )
        for name, constraint in declared.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(getattr(type(self), name), lazy_property):
                continue  # the other of probs and logits
            value = getattr(self, name)
            if not bool(constraint.check(value).all()):
                raise ValueError(
                    f"Expected parameter {name} "
                    f"({type(value).__name__} of shape {tuple(value.shape)}) "
                    f"of distribution {self!r} "
                    f"to satisfy the constraint {constraint!r}, "
                    f"but found invalid values:\n{value}"
                )

    def _broadcast(self, **parameters: Any) -> Size:
        """Sets parameters as tensors of one shape, which is returned."""
        values = broadcast_all(*parameters.values())
        for name, value in zip(parameters, values):
            setattr(self, name, value)
        return values[0].size()

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """This distribution with a larger batch, by views of its parameters."""
        owner: Any = next(c for c in type(self).__mro__ if _is_ours(c))
        if "_abstract" in vars(owner):
            raise NotImplementedError
        new = self._get_checked_instance(owner, _instance)
        batch_shape = Size(batch_shape)
        n = len(self._batch_shape)
        names = self._parameter_names()
        for name, value in self.__dict__.items():
            if name in new.__dict__:
                continue  # a subclass has its own way
            if isinstance(value, Distribution):
                value = value.expand((*batch_shape, *value._batch_shape[n:]))
            elif name in names and isinstance(value, Tensor):
                value = value.expand((*batch_shape, *value.shape[n:]))
            elif isinstance(getattr(type(self), name, None), lazy_property):
                continue
            new.__dict__[name] = value
        new._batch_shape = batch_shape
        new._validate_args = self._validate_args
        return new

    def _parameter_names(self) -> set[str]:
        names = set(self.arg_constraints)
        for base in type(self).__mro__:
            declared = vars(base).get("arg_constraints")
            if isinstance(declared, dict):
                names.update(declared)
        return names

    @property
    def batch_shape(self) -> Size:
        """The shape over which parameters are batched."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one event."""
        return self._event_shape

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """What the parameters, by name, have to satisfy."""
        raise NotImplementedError

    @property
    def support(self) -> Any:
        """The constraint that samples satisfy."""
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """Where the density, or the probability, is largest."""
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = NOTHING) -> Tensor:
        """A sample, or samples of a shape, for each distribution of the batch."""
        with torch.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = NOTHING) -> Tensor:
        """A sample that moves with the parameters: gradients flow through it."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """n samples."""
        warnings.warn(
            "`sample_n(n)` will be deprecated. Use `sample((n,))` instead.",
            FutureWarning,
            stacklevel=2,
        )
        return self.sample(Size((n,)))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or of the probability, at a value."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most a value."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The quantile: where the distribution function is a value."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution, over the first dim."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The entropy, for each distribution of the batch."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """exp of the entropy."""
        return torch.exp(self.entropy())

    def _extended_shape(self, sample_shape: Any = NOTHING) -> Size:
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _enumerated(self, values: Tensor, expand: bool) -> Tensor:
        """One value after the other over dim 0, the batch's dims after it."""
        values = values.view((-1, *(1,) * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values

    def _validate_sample(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        shape = value.size()
        if shape[len(shape) - len(self._event_shape) :] != self._event_shape:
            raise ValueError(
                "The right-most size of value must match event_shape: "
                f"{shape} vs {self._event_shape}."
            )
        expected = Size((*self._batch_shape, *self._event_shape))
        for i, j in zip(reversed(shape), reversed(expected)):
            if i != 1 and j != 1 and i != j:
                raise ValueError(
                    "Value is not broadcastable with batch_shape+event_shape: "
                    f"{shape} vs {expected}."
                )
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{self.__class__} does not define `support` to enable sample validation. Please "
                "initialize the distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        if not bool(support.check(value).all()):
            raise ValueError(
                "Expected value argument "
                f"({type(value).__name__} of shape {tuple(value.shape)}) "
                f"to be within the support ({support!r}) "
                f"of the distribution {self!r}, "
                f"but found invalid values:\n{value}"
            )

    def _get_checked_instance(self, cls: Any, _instance: Any = None) -> Any:
        if _instance is None and type(self).__init__ != cls.__init__:
            raise NotImplementedError(
                f"Subclass {self.__class__.__name__} of {cls.__name__} that defines a custom "
                "__init__ method must also define a custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    def __repr__(self) -> str:
        found = {k: self.__dict__[k] for k in self.arg_constraints if k in self.__dict__}
        shown = (f"{k}: {v if v.numel() == 1 else v.size()}" for k, v in found.items())
        return f"{self.__class__.__name__}({', '.join(shown)})"
