"""TransformedDistribution: what transforms make of another distribution's samples."""

from __future__ import annotations

from typing import Any

from tritorch.core.size import Size
from tritorch.core.tensor import Tensor
from tritorch.distributions import constraints
from tritorch.distributions.distribution import Distribution
from tritorch.distributions.independent import Independent
from tritorch.distributions.transform import ComposeTransform, Transform
from tritorch.distributions.utils import (
    NOTHING,
    _sum_rightmost,
    delegate,
    torch,
)


class TransformedDistribution(Distribution):
    """The distribution of f(x), x of a base distribution and f one transform after the other."""

    arg_constraints: Any = {}

    def __init__(
        self,
        base_distribution: Any,
        transforms: Transform | list[Transform],
        validate_args: bool | None = None,
    ) -> None:
        if isinstance(transforms, Transform):
            transforms = [transforms]
        elif not isinstance(transforms, list):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        elif not all(isinstance(t, Transform) for t in transforms):
            raise ValueError("transforms must be a Transform or a list of Transforms")
        self.transforms = transforms
        base_dim = len(base_distribution.event_shape)
        shape = Size((*base_distribution.batch_shape, *base_distribution.event_shape))
        whole = ComposeTransform(transforms)
        needed = whole.domain.event_dim
        if len(shape) < needed:
            raise ValueError(
                "base_distribution needs to have shape with size at least "
                f"{needed}, but got {shape}."
            )
        # Parameters of the transforms may broadcast the base.
        after = whole.forward_shape(shape)
        before = Size(whole.inverse_shape(after))
        if shape != before:
            base_distribution = base_distribution.expand(before[: len(before) - base_dim])
        if needed > base_dim:
            base_distribution = Independent(base_distribution, needed - base_dim)
        self.base_dist = base_distribution
        made = whole.codomain.event_dim
        cut = len(after) - max(made, base_dim + made - needed)
        super().__init__(Size(after[:cut]), Size(after[cut:]), validate_args=validate_args)

    has_rsample = delegate("base_dist.has_rsample")

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        """The last transform's codomain, for whole events."""
        if not self.transforms:
            return self.base_dist.support
        codomain = self.transforms[-1].codomain
        more = len(self._event_shape) - codomain.event_dim
        return constraints.independent(codomain, more) if more > 0 else codomain

    def _forward(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Any = NOTHING) -> Tensor:
        with torch.no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = NOTHING) -> Tensor:
        return self._forward(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        event_dim = len(self._event_shape)
        log_prob: Any = 0.0
        y = value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            change = transform.log_abs_det_jacobian(x, y)
            log_prob = log_prob - _sum_rightmost(change, event_dim - transform.domain.event_dim)
            y = x
        base = self.base_dist
        return log_prob + _sum_rightmost(base.log_prob(y), event_dim - len(base.event_shape))

    def _monotonize_cdf(self, value: Tensor) -> Tensor:
        """Turned around where the transform falls."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        if isinstance(sign, int) and sign == 1:
            return value
        return sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._forward(self.base_dist.icdf(self._monotonize_cdf(value)))
