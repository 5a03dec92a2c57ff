"""Kullback and Leibler's divergence: the registry, and pairs of one family.

Pairs of different families are in `cross_kl.py`.
"""

from __future__ import annotations

import functools
import math
import operator
import warnings
from collections.abc import Callable
from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.distributions.categorical import Categorical, OneHotCategorical
from tritorch.distributions.continuous_bernoulli import ContinuousBernoulli
from tritorch.distributions.counts import Bernoulli, Binomial, Geometric, Poisson
from tritorch.distributions.distribution import Distribution
from tritorch.distributions.exp_family import ExponentialFamily
from tritorch.distributions.gamma import Beta, Dirichlet, Gamma
from tritorch.distributions.independent import Independent
from tritorch.distributions.location_scale import Cauchy, Exponential, Laplace, Normal, Uniform
from tritorch.distributions.multivariate_normal import (
    LowRankMultivariateNormal,
    MultivariateNormal,
    mahalanobis,
)
from tritorch.distributions.transformed import Gumbel, HalfNormal, Pareto
from tritorch.distributions.transformed_distribution import TransformedDistribution
from tritorch.distributions.utils import (
    F,
    _sum_rightmost,
    euler_constant,
    log_diagonal,
    torch,
)

__all__ = ["kl_divergence", "register_kl"]

Formula = Callable[[Any, Any], Tensor]
_KL_REGISTRY: dict[tuple[type, type], Formula] = {}
_KL_MEMOIZE: dict[tuple[type, type], Any] = {}


# ---- the registry --------------------------------------------------------------------------------


def register_kl(type_p: type, type_q: type) -> Callable[[Formula], Formula]:
    """A decorator: the function gives kl_divergence(p, q) for these classes and those below."""
    for name, kind in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(kind, type):
            raise TypeError(f"register_kl: {name} must be a class, but got {kind}")

    def decorator(fun: Formula) -> Formula:
        _KL_REGISTRY[type_p, type_q] = fun
        _KL_MEMOIZE.clear()  # a pair may have a closer match now
        return fun

    return decorator


def _closest(matches: list[tuple[type, type]], first: int) -> tuple[type, type]:
    """The pair whose `first` class is most derived, and among those the other one."""
    best = matches[0]
    for match in matches[1:]:
        for i in (first, 1 - first):
            if match[i] is not best[i]:
                if issubclass(match[i], best[i]):
                    best = match
                break
    return best


def _dispatch_kl(type_p: type, type_q: type) -> Any:
    matches = [(p, q) for p, q in _KL_REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not matches:
        return NotImplemented
    left, right = _closest(matches, 0), _closest(matches, 1)
    if _KL_REGISTRY[left] is not _KL_REGISTRY[right]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). "
            f"Please register_kl({left[0].__name__}, {right[1].__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return _KL_REGISTRY[left]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The mean under p of log p(x) - log q(x), for each distribution of the batch."""
    key = type(p), type(q)
    fun = _KL_MEMOIZE.get(key)
    if fun is None:
        fun = _KL_MEMOIZE[key] = _dispatch_kl(*key)
    if fun is NotImplemented:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {p.__class__.__name__} "
            f"and q type {q.__class__.__name__}"
        )
    return fun(p, q)


# ---- one family, numbers -------------------------------------------------------------------------


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    ones = p.probs * (F.softplus(-q.logits) - F.softplus(-p.logits))
    ones = ones.masked_fill(q.probs == 0, math.inf).masked_fill(p.probs == 0, 0)
    zeros = (1 - p.probs) * (F.softplus(q.logits) - F.softplus(p.logits))
    zeros = zeros.masked_fill(q.probs == 1, math.inf).masked_fill(p.probs == 1, 0)
    return ones + zeros


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Tensor:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    trial = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return (p.total_count * trial).masked_fill(p.total_count > q.total_count, math.inf)


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - torch.log1p(-q.probs) / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Tensor:
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    mean_logs = a.digamma() - a.sum(-1, keepdim=True).digamma()
    change = q._log_normalizer(b) - p._log_normalizer(a)
    return change + ((a - b) * mean_logs).sum(-1)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    change = p._cont_bern_log_norm() - q._cont_bern_log_norm()
    return p.mean * (p.logits - q.logits) + change + (-p.probs).log1p() - (-q.probs).log1p()


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    return (
        b * (p.rate / q.rate).log()
        + b.lgamma()
        - a.lgamma()
        + (a - b) * a.digamma()
        + (q.rate - p.rate) * (a / p.rate)
    )


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio = p.scale / q.scale
    apart = (p.loc - q.loc).abs()
    return -ratio.log() + apart / q.scale + ratio * torch.exp(-apart / p.scale) - 1


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    reach = (p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)
    return reach.log() - (4 * p.scale * q.scale).log()


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio = p.scale / q.scale
    apart = (p.loc - q.loc) / q.scale
    tail = torch.exp(-apart + (1 + ratio).lgamma())
    return -ratio.log() + apart + ratio * euler_constant + tail - (1 + euler_constant)


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    result = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return result.masked_fill(p.scale < q.scale, math.inf)


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return result.masked_fill((q.low > p.low) | (q.high < p.high), math.inf)


# ---- one family, vectors -------------------------------------------------------------------------


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = terms.masked_fill(q.probs == 0, math.inf).masked_fill(p.probs == 0, 0)
    return terms.sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot_categorical(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _categorical(p._categorical, q._categorical)


def _half_log_det(d: Any) -> Tensor:
    if isinstance(d, LowRankMultivariateNormal):
        return 0.5 * d._log_det()
    return log_diagonal(d._unbroadcasted_scale_tril)


def _squares(matrix: Tensor) -> Tensor:
    return matrix.square().sum((-2, -1))


def _roots(p: Any) -> list[Tensor]:
    """Matrices whose products with their transposes add up to the covariance."""
    if isinstance(p, LowRankMultivariateNormal):
        return [p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag.sqrt().diag_embed()]
    return [p._unbroadcasted_scale_tril]


def _trace_of_ratio(p: Any, q: Any) -> Tensor:
    """The trace of q's inverse covariance times p's covariance."""
    if isinstance(q, LowRankMultivariateNormal):  # by Woodbury's formula: D^-1 less a product
        whitened, inverse_root = q._whitened_factor, q._unbroadcasted_cov_diag.rsqrt()
        parts = [
            _squares(root * inverse_root.unsqueeze(-1)) - _squares(whitened @ root)
            for root in _roots(p)
        ]
    else:
        solve, factor = torch.linalg.solve_triangular, q._unbroadcasted_scale_tril
        parts = [_squares(solve(factor, root, upper=False)) for root in _roots(p)]
    return functools.reduce(operator.add, parts)


def _multivariate(p: Any, q: Any) -> Tensor:
    if p.event_shape != q.event_shape:
        low = [isinstance(d, LowRankMultivariateNormal) for d in (p, q)]
        kind = "Low Rank " if all(low) else "(Low Rank) " if any(low) else ""
        raise ValueError(
            f"KL-divergence between two {kind}Multivariate Normals with"
            "                          different event shapes cannot be computed"
        )
    apart = q.loc - p.loc
    if isinstance(q, LowRankMultivariateNormal):
        distance = q._mahalanobis(apart)
    else:
        distance = mahalanobis(q._unbroadcasted_scale_tril, apart)
    change = _half_log_det(q) - _half_log_det(p)
    return change + 0.5 * (_trace_of_ratio(p, q) + distance - p.event_shape[0])


for _p in (MultivariateNormal, LowRankMultivariateNormal):
    for _q in (MultivariateNormal, LowRankMultivariateNormal):
        register_kl(_p, _q)(_multivariate)


# ---- by structure --------------------------------------------------------------------------------


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    """The Bregman divergence of the log normaliser."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot"
            "                             be computed using Bregman divergences"
        )
    natural = [x.detach().requires_grad_() for x in p._natural_params]
    normalizer = p._log_normalizer(*natural)
    means = torch.autograd.grad(normalizer.sum(), natural, create_graph=True)
    result = q._log_normalizer(*q._natural_params) - normalizer
    for of_p, of_q, mean in zip(natural, q._natural_params, means):
        result = result - _sum_rightmost((of_q - of_p) * mean, len(q.event_shape))
    return result


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
