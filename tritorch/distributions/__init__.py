"""Probability distributions, as in torch.distributions."""

from typing import TYPE_CHECKING

from tritorch.distributions import (
    constraints,
    cross_kl as cross_kl,  # registers its formulas
    transforms,
)
from tritorch.distributions.categorical import (
    Categorical,
    Multinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)
from tritorch.distributions.constraint_registry import biject_to, transform_to
from tritorch.distributions.continuous_bernoulli import ContinuousBernoulli
from tritorch.distributions.counts import (
    Bernoulli,
    Binomial,
    Geometric,
    NegativeBinomial,
    Poisson,
)
from tritorch.distributions.distribution import Distribution
from tritorch.distributions.exp_family import ExponentialFamily
from tritorch.distributions.gamma import Beta, Chi2, Dirichlet, FisherSnedecor, Gamma, StudentT
from tritorch.distributions.independent import Independent
from tritorch.distributions.kl import kl_divergence, register_kl
from tritorch.distributions.location_scale import (
    Cauchy,
    Exponential,
    GeneralizedPareto,
    Laplace,
    Normal,
    Uniform,
)
from tritorch.distributions.mixture_same_family import MixtureSameFamily
from tritorch.distributions.multivariate_normal import (
    LowRankMultivariateNormal,
    MultivariateNormal,
)
from tritorch.distributions.relaxed import RelaxedBernoulli, RelaxedOneHotCategorical
from tritorch.distributions.transformed import (
    Gumbel,
    HalfCauchy,
    HalfNormal,
    InverseGamma,
    Kumaraswamy,
    LogisticNormal,
    LogNormal,
    Pareto,
    Weibull,
)
from tritorch.distributions.transformed_distribution import TransformedDistribution
from tritorch.distributions.transforms import *  # noqa: F403
from tritorch.distributions.von_mises import VonMises
from tritorch.distributions.wishart import LKJCholesky, Wishart

if TYPE_CHECKING:  # modules that come when they are asked for, or with others
    from tritorch.distributions import (
        categorical as categorical,
        constraint_registry as constraint_registry,
        continuous_bernoulli as continuous_bernoulli,
        distribution as distribution,
        exp_family as exp_family,
        gamma as gamma,
        independent as independent,
        kl as kl,
        mixture_same_family as mixture_same_family,
        multivariate_normal as multivariate_normal,
        transformed_distribution as transformed_distribution,
        utils as utils,
        von_mises as von_mises,
        wishart as wishart,
    )


__all__ = [
    "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2", "ContinuousBernoulli",
    "Dirichlet", "Distribution", "Exponential", "ExponentialFamily", "FisherSnedecor", "Gamma",
    "GeneralizedPareto", "Geometric", "Gumbel", "HalfCauchy", "HalfNormal", "Independent",
    "InverseGamma", "Kumaraswamy", "LKJCholesky", "Laplace", "LogNormal", "LogisticNormal",
    "LowRankMultivariateNormal", "MixtureSameFamily", "Multinomial", "MultivariateNormal",
    "NegativeBinomial", "Normal", "OneHotCategorical", "OneHotCategoricalStraightThrough", "Pareto",
    "Poisson", "RelaxedBernoulli", "RelaxedOneHotCategorical", "StudentT",
    "TransformedDistribution", "Uniform", "VonMises", "Weibull", "Wishart", "biject_to",
    "constraints", "kl_divergence", "register_kl", "transform_to", "transforms",
    *transforms.__all__,
]  # fmt: skip
