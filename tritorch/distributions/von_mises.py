"""VonMises: angles."""

from __future__ import annotations

import math
from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.distributions import constraints
from tritorch.distributions.distribution import Distribution
from tritorch.distributions.utils import (
    NOTHING,
    delegate,
    lazy_property,
    torch,
)


def _acceptance_shape(concentration: Tensor) -> Tensor:
    """Best and Fisher's parameter of the wrapped Cauchy distribution around this one."""
    tau = 1 + (1 + 4 * concentration**2).sqrt()
    rho = (tau - (2 * tau).sqrt()) / (2 * concentration)
    small = 1 / concentration + concentration
    return torch.where(concentration < 1e-5, small, (1 + rho**2) / (2 * rho))


class VonMises(Distribution):
    """Angles around loc, of density exp(concentration cos(x - loc)), from -pi to pi."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False
    loc: Tensor
    concentration: Tensor
    mean = delegate("loc")
    mode = delegate("loc")

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        shape = self._broadcast(loc=loc, concentration=concentration)
        super().__init__(shape, validate_args=validate_args)

    @lazy_property
    def variance(self) -> Tensor:
        """The circular variance."""
        c = self.concentration
        return 1 - torch.special.i1e(c) / torch.special.i0e(c)

    def sample(self, sample_shape: Any = NOTHING) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            concentration = self.concentration.double().expand(shape)
            r = _acceptance_shape(concentration)
            angle = torch.zeros_like(concentration)
            done = torch.zeros_like(angle, dtype=torch.bool)
            while not bool(done.all()):
                u, v, w = torch.rand((3, *shape), dtype=r.dtype, device=r.device).unbind()
                z = torch.cos(math.pi * u)
                f = ((1 + r * z) / (r + z)).clamp(-1, 1)
                c = concentration * (r - f)
                accepted = (c * (2 - c) - v > 0) | ((c / v).log() + 1 - c >= 0)
                angle = torch.where(accepted, (w - 0.5).sign() * f.acos(), angle)  # the last one
                done |= accepted
            turned = angle + math.pi + self.loc.double()
            return (turned % (2 * math.pi) - math.pi).to(self.loc.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        c = self.concentration
        # c cos(x) - c: the scaled Bessel function lacks exp(c)
        around = c * (torch.cos(value - self.loc) - 1)
        return around - math.log(2 * math.pi) - torch.special.i0e(c).log()
