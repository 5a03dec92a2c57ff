"""Distributions whose values the real torch and scipy.stats have recorded.

Expressions are evaluated with D (torch.distributions) and T (a float64 tensor of numbers, or of a
shape's fixed numbers: T("2 3")); `tools/record/distributions.py` and the tests do the same with
them.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np

DISTRIBUTIONS = {
    "Bernoulli": "D.Bernoulli(T([0.2, 0.5, 0.9]))",
    "Bernoulli logits": "D.Bernoulli(logits=T([-1.0, 0.0, 2.0]))",
    "Bernoulli certain": "D.Bernoulli(T([0.0, 1.0, 0.3]))",
    "Beta": "D.Beta(T('3'), T('3') * 2)",
    "Binomial": "D.Binomial(5, T([0.2, 0.7]))",
    "Binomial logits": "D.Binomial(T([5.0, 5.0]), logits=T([0.2, -0.7]))",
    "Categorical": "D.Categorical(T('2 3'))",
    "Categorical logits": "D.Categorical(logits=T('2 3'))",
    "Categorical impossible": "D.Categorical(T([[0.0, 0.4, 0.6], [0.3, 0.7, 0.0]]))",
    "Cauchy": "D.Cauchy(T('3'), T('3'))",
    "Chi2": "D.Chi2(T('3') * 4)",
    "ContinuousBernoulli": "D.ContinuousBernoulli(T([0.2, 0.4995, 0.9]))",
    "ContinuousBernoulli logits": "D.ContinuousBernoulli(logits=T([0.2, 0.0, -0.9]))",
    "Dirichlet": "D.Dirichlet(T('2 3') * 2)",
    "Dirichlet corners": "D.Dirichlet(T([0.2, 0.3, 0.1]))",
    "Exponential": "D.Exponential(T('3'))",
    "FisherSnedecor": "D.FisherSnedecor(T('3') * 5, T('3') * 6)",
    "Gamma": "D.Gamma(T('3'), T('3') * 2)",
    "GeneralizedPareto": "D.GeneralizedPareto(T([0.0, 1.0]), T([1.0, 2.0]), T([0.2, -0.3]))",
    "Geometric": "D.Geometric(T([0.2, 0.7]))",
    "Geometric logits": "D.Geometric(logits=T([0.2, -0.7]))",
    "Gumbel": "D.Gumbel(T('3'), T('3'))",
    "HalfCauchy": "D.HalfCauchy(T('3'))",
    "HalfNormal": "D.HalfNormal(T('3'))",
    "Independent": "D.Independent(D.Normal(T('2 3'), T('2 3')), 1)",
    "InverseGamma": "D.InverseGamma(T('3') * 3, T('3'))",
    "Kumaraswamy": "D.Kumaraswamy(T('3') * 2, T('3') * 3)",
    "LKJCholesky": "D.LKJCholesky(3, T([0.5, 1.0, 2.0]))",
    "Laplace": "D.Laplace(T('3'), T('3'))",
    "LogNormal": "D.LogNormal(T('3'), T('3'))",
    "LogisticNormal": "D.LogisticNormal(T('2 3'), T('2 3'))",
    "LowRankMultivariateNormal": "D.LowRankMultivariateNormal(T('2 2'), T('2 1'), T('2'))",
    "MixtureSameFamily": (
        "D.MixtureSameFamily(D.Categorical(T('2 3')), D.Normal(T('2 3'), T('2 3')))"
    ),
    "MixtureSameFamily vectors": (
        "D.MixtureSameFamily(D.Categorical(T('3')), D.Independent(D.Normal(T('3 2'), T('3 2')), 1))"
    ),
    "Multinomial": "D.Multinomial(6, T('2 3'))",
    "MultivariateNormal": "D.MultivariateNormal(T('3 2'), T([[2.0, 0.5], [0.5, 1.0]]))",
    "MultivariateNormal precision": (
        "D.MultivariateNormal(T('2'), precision_matrix=T([[2.0, 0.5], [0.5, 1.0]]))"
    ),
    "MultivariateNormal factors": (
        "D.MultivariateNormal(T('2'), "
        "scale_tril=T([[[1.0, 0.0], [0.5, 2.0]], [[2.0, 0.0], [0.5, 2.0]]]))"
    ),
    "NegativeBinomial": "D.NegativeBinomial(T([3.0, 0.0, 4.0]), T([0.2, 0.3, 0.7]))",
    "Normal": "D.Normal(T('3'), T('3'))",
    "OneHotCategorical": "D.OneHotCategorical(T('2 3'))",
    "OneHotCategoricalStraightThrough": "D.OneHotCategoricalStraightThrough(logits=T('2 3'))",
    "Pareto": "D.Pareto(T('3'), T('3') * 4)",
    "Poisson": "D.Poisson(T('3') * 5)",
    "RelaxedBernoulli": "D.RelaxedBernoulli(T(0.7), T('3') / 2)",
    "RelaxedOneHotCategorical": "D.RelaxedOneHotCategorical(T(0.7), T('2 3'))",
    "StudentT": "D.StudentT(T([0.5, 1.5, 3.5]), T('3'), T('3'))",
    "TransformedDistribution": (
        "D.TransformedDistribution(D.Normal(T('2 3'), T('2 3')), "
        "[D.ExpTransform(), D.AffineTransform(T('3'), T('3')), D.StickBreakingTransform()])"
    ),
    "TransformedDistribution falling": (
        "D.TransformedDistribution(D.Uniform(T([0.0, 0.1]), T([1.0, 0.9])), "
        "[D.SigmoidTransform().inv, D.AffineTransform(1.0, -2.0)])"
    ),
    "Uniform": "D.Uniform(T('3') - 2, T('3'))",
    "Uniform within": "D.Uniform(T('3') / 9, T('3') / 2)",
    "VonMises": "D.VonMises(T('3'), T('3') * 6)",
    "Weibull": "D.Weibull(T('3'), T('3') * 2)",
    "Wishart": "D.Wishart(T([3.0, 4.0]), T([[2.0, 0.5], [0.5, 1.0]]))",
    "Wishart factor": "D.Wishart(3.5, scale_tril=T([[1.0, 0.0], [0.5, 2.0]]))",
}

# What scipy.stats (S) has of the first distribution of a batch, by the same numbers (T of NumPy).
SCIPY = {
    "Beta": "S.beta(T('3')[0], T('3')[0] * 2)",
    "Binomial": "S.binom(5, 0.2)",
    "Cauchy": "S.cauchy(T('3')[0], T('3')[0])",
    "Chi2": "S.chi2(T('3')[0] * 4)",
    "Exponential": "S.expon(scale=1 / T('3')[0])",
    "FisherSnedecor": "S.f(T('3')[0] * 5, T('3')[0] * 6)",
    "Gamma": "S.gamma(T('3')[0], scale=0.5 / T('3')[0])",
    "GeneralizedPareto": "S.genpareto(0.2)",
    "Geometric": "S.geom(0.2, loc=-1)",
    "Gumbel": "S.gumbel_r(T('3')[0], T('3')[0])",
    "HalfCauchy": "S.halfcauchy(scale=T('3')[0])",
    "HalfNormal": "S.halfnorm(scale=T('3')[0])",
    "InverseGamma": "S.invgamma(T('3')[0] * 3, scale=T('3')[0])",
    "Laplace": "S.laplace(T('3')[0], T('3')[0])",
    "LogNormal": "S.lognorm(s=T('3')[0], scale=np.exp(T('3')[0]))",
    "NegativeBinomial": "S.nbinom(3, 0.8)",
    "Normal": "S.norm(T('3')[0], T('3')[0])",
    "Pareto": "S.pareto(T('3')[0] * 4, scale=T('3')[0])",
    "Poisson": "S.poisson(T('3')[0] * 5)",
    "StudentT": "S.t(0.5, T('3')[0], T('3')[0])",
    "Uniform": "S.uniform(T('3')[0] - 2, 2)",
    "VonMises": "S.vonmises(T('3')[0] * 6, T('3')[0])",
    "Weibull": "S.weibull_min(T('3')[0] * 2, scale=T('3')[0])",
}

TRANSFORMS = [
    "D.AbsTransform()", "D.AffineTransform(1.0, -2.0)",
    "D.AffineTransform(T('3'), T('3'), event_dim=1)", "D.ExpTransform()",
    "D.PowerTransform(T('3'))", "D.PowerTransform(2.0)", "D.SigmoidTransform()",
    "D.SoftplusTransform()", "D.TanhTransform()", "D.SoftmaxTransform()",
    "D.StickBreakingTransform()", "D.CorrCholeskyTransform()", "D.LowerCholeskyTransform()",
    "D.PositiveDefiniteTransform()",
    "D.CatTransform([D.ExpTransform(), D.AffineTransform(1.0, 2.0)], dim=-1, lengths=[1, 2])",
    "D.CatTransform([D.ExpTransform(), D.IndependentTransform(D.ExpTransform(), 1)], 0, [1, 2])",
    "D.StackTransform([D.ExpTransform(), D.SigmoidTransform(), D.TanhTransform()], 0)",
    "D.IndependentTransform(D.ExpTransform(), 1)", "D.ReshapeTransform((3, 3), (9,))",
    "D.identity_transform", "D.ExpTransform().inv",
    "D.ComposeTransform([D.ExpTransform(), D.StickBreakingTransform()])",
    "D.ComposeTransform([D.AffineTransform(1.0, 2.0), D.ReshapeTransform((3, 3), (9,))])",
    "D.CumulativeDistributionTransform(D.Normal(T(0.0), T(1.0)))",
]  # fmt: skip

CONSTRAINTS = [
    "boolean", "one_hot", "nonnegative_integer", "positive_integer", "integer_interval(0, 3)",
    "real", "real_vector", "positive", "nonnegative", "greater_than(1.0)", "greater_than_eq(1)",
    "less_than(2.0)", "multinomial(3)", "unit_interval", "interval(-1.0, 2.0)",
    "half_open_interval(0.0, 1.0)", "simplex", "lower_triangular", "lower_cholesky",
    "corr_cholesky", "square", "symmetric", "positive_semidefinite", "positive_definite",
    "cat([C.positive, C.real], -1, [1, 1])", "stack([C.positive, C.unit_interval], 0)",
    "independent(C.positive, 1)", "independent(C.positive, 4)", "dependent",
    "MixtureSameFamilyConstraint(C.simplex)", "interval(T([0.0, 1.0]), T([2.0, 3.0]))",
]  # fmt: skip
MATRICES = [
    [[1, 0], [0, 1]], [[1, 2], [2, 1]], [[0.5, 0.5], [1, 0]], [[-1, -1], [-1, -1]],
    [[1, 0], [0.6, 0.8]], [[np.nan, 0], [0.6, 0.8]], [[1, 1, 1], [1, 1, 1]], [[2, 0.5], [0.5, 1]],
]  # fmt: skip

ERRORS = [
    "D.Normal(T([1.0, 2.0]), T([-1.0, 2.0]))", "D.Normal('a', 1)",
    "D.Normal(0.0, 1.0).log_prob(3.0)", "D.Normal(T([0.0, 1.0]), 1.0).log_prob(T('3'))",
    "D.Dirichlet(T('3')).log_prob(T('2'))", "D.Bernoulli()", "D.Bernoulli(0.1, 0.2)",
    "D.Bernoulli(T(0.3)).log_prob(T(0.5))", "D.Categorical(T(0.3))",
    "D.Categorical(logits=T(0.3))", "D.Geometric(T(0.0))", "D.Dirichlet(T(0.3))",
    "D.MultivariateNormal(T(1.0))", "D.MultivariateNormal(T([1.0]))",
    "D.MultivariateNormal(T('2'), T('2'))",
    "D.MultivariateNormal(T('2'), T([[1.0, 2.0], [2.0, 1.0]]))",
    "D.LowRankMultivariateNormal(T(1.0), T(1.0), T(1.0))",
    "D.LowRankMultivariateNormal(T('1'), T(1.0), T(1.0))",
    "D.LowRankMultivariateNormal(T('1'), T('2 1'), T(1.0))",
    "D.LowRankMultivariateNormal(T('2'), T('2 1'), T('1'))",
    "D.Wishart(1.0, T([[1.0, 0.0], [0.0, 1.0]]))", "D.Wishart(3.0, T('1'))", "D.Wishart(3.0)",
    "D.LKJCholesky(1)", "D.Multinomial(T([3.0]), T('2'))",
    "D.Independent(D.Normal(0.0, 1.0), 1)", "D.Uniform(1.0, 0.0)",
    "D.TransformedDistribution(D.Normal(0.0, 1.0), 3)",
    "D.TransformedDistribution(D.Normal(0.0, 1.0), [3])",
    "D.TransformedDistribution(D.Normal(0.0, 1.0), D.StickBreakingTransform())",
    "D.MixtureSameFamily(3, 4)", "D.MixtureSameFamily(D.Categorical(T('2')), 4)",
    "D.MixtureSameFamily(D.Categorical(T('2')), D.Normal(T('3'), 1.0))",
    "D.MixtureSameFamily(D.Categorical(T('3 2')), D.Normal(T('2 2'), 1.0))",
    "D.Binomial(T([3.0, 4.0]), T([0.3, 0.4])).enumerate_support()",
    "D.Binomial(T([3.0, 4.0]), T([0.3, 0.4])).entropy()",
    "D.kl_divergence(D.Normal(0.0, 1.0), D.Cauchy(0.0, 1.0))",
    "D.kl_divergence(D.Binomial(3, T(0.4)), D.Binomial(4, T(0.4)))",
    "D.kl_divergence(D.MultivariateNormal(T('1'), T([[1.0]])), "
    "D.MultivariateNormal(T('2'), T([[1.0, 0.0], [0.0, 1.0]])))",
    "D.ExpTransform(3)", "D.transforms.Transform()(1)", "D.Distribution().expand([2])",
    "D.biject_to.register(3, 4)", "D.biject_to(D.constraints.boolean)",
    "D.Normal(0.0, 1.0).enumerate_support()", "D.Normal.set_default_validate_args(3)",
    "D.Poisson(T([-1.0]))", "D.ReshapeTransform((2,), (3,))",
    "D.CorrCholeskyTransform().forward_shape((4,))", "D.SoftmaxTransform().forward_shape(())",
    "type('Own', (D.Normal,), {'__init__': lambda s: D.Normal.__init__(s, 0, 1)})().expand([2])",
    "D.utils.vec_to_tril_matrix(T('2'))", "D.utils.tril_matrix_to_vec(T('2 2'), 4)",
]  # fmt: skip


class Maker:
    """Evaluates expressions with one of the libraries."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch

    def tensor(self, given: Any) -> Any:
        """T."""
        if isinstance(given, str):
            shape = tuple(map(int, given.split()))
            given = np.random.RandomState(sum(shape) + 1).rand(*shape) + 0.3
        return self.torch.tensor(np.asarray(given, np.float64))

    def __call__(self, expression: str) -> Any:
        distributions = self.torch.distributions
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return eval(
                expression,
                {"D": distributions, "C": distributions.constraints, "T": self.tensor, "np": np},
            )


def array(value: Any) -> np.ndarray:
    """A tensor as an array."""
    return value.detach().numpy()


def told(value: Any) -> str:
    """A repr or a message, whichever library it is of."""
    text = re.sub(r"<class '[\w.]*\.(\w+)'>", r"\1", str(value))
    return text.replace("tritorch.", "torch.")


def complaint(make: Maker, expression: str) -> list[str]:
    """The type and message of the error that an expression raises."""
    try:
        made = make(expression)
    except Exception as error:
        return [type(error).__name__, told(error)]
    return ["", str(type(made).__name__)]


def values(make: Maker, name: str, x: Any) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """What a distribution tells of itself and of samples x: arrays and texts."""
    made = make(DISTRIBUTIONS[name])
    u = make.tensor(np.random.RandomState(3).rand(*made.batch_shape))
    asked = {
        **{k: lambda d, k=k: getattr(d, k) for k in ("mean", "mode", "variance", "stddev")},
        "entropy": lambda d: d.entropy(),
        "log_prob": lambda d: d.log_prob(x),
        "cdf": lambda d: d.cdf(x),
        "icdf": lambda d: d.icdf(u),
        "support": lambda d: d.enumerate_support(),
        "unexpanded": lambda d: d.enumerate_support(expand=False),
    }
    found, texts = {}, {"repr": told(repr(made))}
    for key in ("batch_shape", "event_shape", "has_rsample", "has_enumerate_support"):
        texts[key] = told(getattr(made, key))
    if "tensor(" not in repr(made.support):
        texts["support"] = told(repr(made.support))
    for key, ask in asked.items():
        try:
            found[key] = array(ask(made))
        except Exception as error:
            texts[f"{key} refused"] = type(error).__name__
    larger = made.expand((2, *made.batch_shape))  # x is two samples
    texts["expanded"] = told(repr(larger).split("(")[0]) + told(larger.batch_shape)
    found["expanded log_prob"] = array(larger.log_prob(x))
    return found, texts
