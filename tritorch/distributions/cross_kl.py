"""Divergences between families: -H(p) - E_p[log q].

# Note [Cross entropies]
log q(x) is a sum of few functions of x: x, x^2, log x, log(1 - x), exp(t x).  So a family p tells
the means of those that it has in closed form (`_MEANS`), a family q writes E[log q] with them
(`_LOG_DENSITIES`), and each pair of PyTorch's is one of each.  Where q's support lacks a part of
p's, the divergence is infinite: for all parameters (`_NEVER`) or for some (`_outside`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.distributions.continuous_bernoulli import ContinuousBernoulli
from tritorch.distributions.counts import Bernoulli, Binomial, Poisson
from tritorch.distributions.gamma import Beta, Gamma
from tritorch.distributions.kl import Formula, register_kl
from tritorch.distributions.location_scale import Exponential, Laplace, Normal, Uniform
from tritorch.distributions.transformed import Gumbel, Pareto
from tritorch.distributions.utils import (
    euler_constant,
    torch,
)

# ---- what p knows --------------------------------------------------------------------------------


def _mean_log_uniform(low: Tensor, high: Tensor) -> Tensor:
    """The mean of log(x), x uniform."""
    return (torch.xlogy(high, high) - torch.xlogy(low, low)) / (high - low) - 1


def _laplace_transform_uniform(p: Any, t: Tensor) -> Tensor:
    return (torch.exp(t * p.high) - torch.exp(t * p.low)) / (t * (p.high - p.low))


# The means of log(x), of log(1 - x), and of exp(t x) for t < 0.
_MEAN_LOG: dict[type, Callable[[Any], Tensor]] = {
    Beta: lambda p: p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma(),
    Exponential: lambda p: -euler_constant - p.rate.log(),
    Gamma: lambda p: p.concentration.digamma() - p.rate.log(),
    Pareto: lambda p: p.scale.log() + p.alpha.reciprocal(),
    Uniform: lambda p: _mean_log_uniform(p.low, p.high),
}
_MEAN_LOG_REST: dict[type, Callable[[Any], Tensor]] = {
    Uniform: lambda p: _mean_log_uniform(1 - p.high, 1 - p.low),
}
_MEAN_EXP: dict[type, Callable[[Any, Tensor], Tensor]] = {
    Exponential: lambda p, t: p.rate / (p.rate - t),
    Gamma: lambda p, t: (1 - t / p.rate).pow(-p.concentration),
    Normal: lambda p, t: torch.exp(t * p.loc + 0.5 * (t * p.scale).square()),
    Uniform: _laplace_transform_uniform,
}


def _mean_distance(p: Normal, center: Tensor) -> Tensor:
    """The mean of |x - center|."""
    apart = p.loc - center
    z = apart / p.scale
    near = math.sqrt(2 / math.pi) * p.scale * torch.exp(-0.5 * z.square())
    return near + apart * torch.erf(z / math.sqrt(2))


def _mean(table: dict[type, Callable[..., Tensor]], p: Any, *arguments: Tensor) -> Tensor:
    return next(table[c] for c in type(p).__mro__ if c in table)(p, *arguments)


# ---- what q asks ---------------------------------------------------------------------------------


def _by_normal(p: Any, q: Any) -> Tensor:
    spread = p.variance + (p.mean - q.loc).square()
    return -0.5 * spread / q.scale.square() - q.scale.log() - 0.5 * math.log(2 * math.pi)


def _by_gamma(p: Any, q: Any) -> Tensor:
    a = q.concentration
    return a * q.rate.log() - a.lgamma() + (a - 1) * _mean(_MEAN_LOG, p) - q.rate * p.mean


def _by_beta(p: Any, q: Any) -> Tensor:
    a, b = q.concentration1, q.concentration0
    logs = (a - 1) * _mean(_MEAN_LOG, p) + (b - 1) * _mean(_MEAN_LOG_REST, p)
    return logs - q._log_normalizer(a, b)


def _by_gumbel(p: Any, q: Any) -> Tensor:
    t = -1 / q.scale
    z = (p.mean - q.loc) / q.scale
    return -q.scale.log() - z - _mean(_MEAN_EXP, p, t) * torch.exp(q.loc / q.scale)


def _by_continuous_bernoulli(p: Any, q: Any) -> Tensor:
    return p.mean * q.logits + torch.log1p(-q.probs) + q._cont_bern_log_norm()


def _by_pareto(p: Any, q: Any) -> Tensor:
    logs = (q.alpha + 1) * _mean(_MEAN_LOG, p)
    return q.alpha.log() + q.alpha * q.scale.log() - logs


_LOG_DENSITIES: dict[type, Formula] = {
    Beta: _by_beta,
    ContinuousBernoulli: _by_continuous_bernoulli,
    Exponential: lambda p, q: q.rate.log() - q.rate * p.mean,
    Gamma: _by_gamma,
    Gumbel: _by_gumbel,
    Laplace: lambda p, q: -torch.log(2 * q.scale) - _mean_distance(p, q.loc) / q.scale,
    Normal: _by_normal,
    Pareto: _by_pareto,
    Poisson: lambda p, q: p.mean * q.rate.log() - q.rate,  # of 0 and 1, whose factorials are 1
    Uniform: lambda p, q: -torch.log(q.high - q.low),
}

# ---- supports ------------------------------------------------------------------------------------

_UNIT = (Beta, ContinuousBernoulli)


def _ends(d: Any) -> tuple[Any, Any]:
    """Where the support starts and ends."""
    kind = type(d)
    if issubclass(kind, Uniform):
        return d.low, d.high
    if issubclass(kind, Pareto):
        return d.scale, math.inf
    if issubclass(kind, _UNIT):
        return 0.0, 1.0
    if issubclass(kind, (Exponential, Gamma)):
        return 0.0, math.inf
    return -math.inf, math.inf


def _outside(p: Any, q: Any) -> Any:
    """Where p's support is not within q's."""
    (p_low, p_high), (q_low, q_high) = _ends(p), _ends(q)
    return (p_low < q_low) | (p_high > q_high)


def _heavy(p: Any, q: Any) -> Any:
    """Where E[log q] has no limit: Pareto's tails."""
    if isinstance(p, Pareto):
        return p.alpha <= (2 if isinstance(q, Normal) else 1)
    return False


def _cross(p_type: type, q_type: type) -> Formula:
    log_density = _LOG_DENSITIES[q_type]

    def divergence(p: Any, q: Any) -> Tensor:
        result = -p.entropy() - log_density(p, q)
        for infinite in (_outside(p, q), _heavy(p, q)):
            if isinstance(infinite, Tensor):
                result = result.masked_fill(infinite, math.inf)
        return result

    return divergence


def _infinite(p: Any, q: Any) -> Tensor:
    """inf, of the shape of p's parameters."""
    return torch.full_like(p.mean, math.inf)


_PAIRS: dict[type, tuple[type, ...]] = {
    Bernoulli: (Poisson,),
    Beta: (ContinuousBernoulli, Exponential, Gamma, Normal, Uniform),
    ContinuousBernoulli: (Exponential, Normal, Uniform),
    Exponential: (Gamma, Gumbel, Normal),
    Gamma: (Exponential, Gumbel, Normal),
    Gumbel: (Normal,),
    Laplace: (Normal,),
    Normal: (Gumbel, Laplace),
    Pareto: (Exponential, Gamma, Normal),
    Uniform: (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Normal, Pareto),
}
_POSITIVE = (Exponential, Gamma, Pareto)
_BOUNDED = (Beta, ContinuousBernoulli, Uniform)
_NEVER: dict[type, tuple[type, ...]] = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (*_BOUNDED, Pareto),
    Gamma: (*_BOUNDED, Pareto),
    Gumbel: (*_BOUNDED, *_POSITIVE),
    Laplace: (*_BOUNDED, *_POSITIVE),
    Normal: (*_BOUNDED, *_POSITIVE),
    Pareto: _BOUNDED,
    Poisson: (Bernoulli, Binomial),
}
for _p, _others in _PAIRS.items():
    for _q in _others:
        register_kl(_p, _q)(_cross(_p, _q))
for _p, _others in _NEVER.items():
    for _q in _others:
        register_kl(_p, _q)(_infinite)
