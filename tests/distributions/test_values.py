"""Distributions against what torch and scipy.stats recorded (tools/record/distributions.py)."""

from __future__ import annotations

import copy
import json
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest

import tritorch as torch
from tests.distributions import cases
from tritorch import distributions

RECORDED = np.load(Path(__file__).parent / "recorded.npz")
TOLD = json.loads(str(RECORDED["told"]))
D = torch.distributions
make = cases.Maker(torch)
# torch's Bessel functions are approximations, and differ by as much.
LOOSE = {"VonMises": 3e-6}


def held(found, want, tolerance):
    assert found.dtype == want.dtype
    assert found.shape == want.shape
    np.testing.assert_allclose(found, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", cases.DISTRIBUTIONS)
def test_values_and_texts_are_pytorchs(name):
    found, texts = cases.values(make, name, make.tensor(RECORDED[f"{name} x"]))
    assert texts == TOLD["texts"][name]
    for key, value in found.items():
        if key != "mode" or name not in ("Categorical", "Categorical logits"):
            held(value, RECORDED[f"{name} {key}"], LOOSE.get(name, 1e-7))


@pytest.mark.parametrize("p", cases.DISTRIBUTIONS)
def test_divergences_are_pytorchs(p):
    mine = make(cases.DISTRIBUTIONS[p])
    for q in cases.DISTRIBUTIONS:
        other = make(cases.DISTRIBUTIONS[q])
        if f"{p} {q}" in TOLD["refused"]:
            with pytest.raises(NotImplementedError):
                D.kl_divergence(mine, other)
        elif f"kl {p} | {q}" in RECORDED:
            held(D.kl_divergence(mine, other).detach().numpy(), RECORDED[f"kl {p} | {q}"], 2e-6)


@pytest.mark.parametrize("name", cases.SCIPY)
def test_densities_are_scipys(name):
    made = make(cases.DISTRIBUTIONS[name])
    for one in (made, getattr(made, "base_dist", made)):
        one._validate_args = False  # others of the batch have other supports
    at = RECORDED[f"scipy {name} at"]
    # The first of the batch stands before all values.
    value = make.tensor(at).reshape((-1, *(1,) * len(made.batch_shape)))
    first = (slice(None), *(0,) * len(made.batch_shape))
    log = made.log_prob(value)[first]
    np.testing.assert_allclose(log.numpy(), RECORDED[f"scipy {name} log"], rtol=1e-9, atol=1e-9)
    try:
        cdf = made.cdf(value)[first]
    except NotImplementedError:
        return
    np.testing.assert_allclose(cdf.numpy(), RECORDED[f"scipy {name} cdf"], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("expression", cases.TRANSFORMS)
def test_transforms_are_pytorchs(expression):
    transform = make(expression)
    x = make.tensor("3 3")
    y = transform(x)
    held(y.numpy(), RECORDED[f"{expression} y"], 1e-9)
    assert cases.told(repr(transform)) == TOLD["texts"][expression]
    assert transform.forward_shape(x.shape) == y.shape
    assert transform.inverse_shape(y.shape) == x.shape
    back = transform.inv(make.tensor(RECORDED[f"{expression} y"]))
    held(back.numpy(), RECORDED[f"{expression} back"], 1e-9)
    if f"{expression} change" in RECORDED:
        change = RECORDED[f"{expression} change"]
        held(transform.log_abs_det_jacobian(x, y).numpy(), change, 1e-9)
        held(transform.inv.log_abs_det_jacobian(y, x).numpy(), -change, 1e-9)
    assert (
        transform == make(expression)
        or "CorrCholesky" in expression
        or any(
            word in expression for word in ("Cat", "Stack", "Independent", "Reshape", "Cumulative")
        )
    )


@pytest.mark.parametrize("expression", cases.CONSTRAINTS)
def test_constraints_are_pytorchs(expression):
    constraint = make(f"C.{expression}")
    text, bijection, onto = TOLD["texts"][expression]
    assert cases.told(repr(constraint)) == text
    for registry, want in ((D.biject_to, bijection), (D.transform_to, onto)):
        if want:
            assert cases.told(repr(registry(constraint))) == want
        else:
            with pytest.raises(NotImplementedError, match="Cannot transform"):
                registry(constraint)
    for i, matrix in enumerate(cases.MATRICES):
        if f"{expression} {i}" in RECORDED:
            held(constraint.check(make.tensor(matrix)).numpy(), RECORDED[f"{expression} {i}"], 0)


@pytest.mark.parametrize("expression", cases.ERRORS)
def test_errors_are_pytorchs(expression):
    assert cases.complaint(make, expression) == TOLD["errors"][expression]


# ---- what the mathematics says where torch differs -----------------------------------------------


def test_divergences_between_a_density_on_the_unit_interval_and_the_uniform_one_are_finite():
    # torch: infinite, as if the ends did not belong to the interval
    p, u = D.ContinuousBernoulli(make.tensor(0.3)), D.Uniform(make.tensor(0.0), make.tensor(1.0))
    x = (torch.arange(20000, dtype=torch.float64) + 0.5) / 20000
    for a, b in ((p, u), (u, p)):
        ratio = a.log_prob(x) - b.log_prob(x)
        want = (a.log_prob(x).exp() * ratio).mean()
        assert torch.allclose(D.kl_divergence(a, b), want, rtol=1e-6)
    outside = D.Uniform(make.tensor(0.1), make.tensor(1.0))
    assert D.kl_divergence(p, outside) == torch.inf


# ---- behaviour -----------------------------------------------------------------------------------


def test_of_two_matching_divergences_the_left_one_is_taken_with_a_warning():
    class Left(D.Normal):
        pass

    class Right(D.Normal):
        pass

    def unknown(p, q):
        raise AssertionError

    D.register_kl(Left, D.Normal)(lambda p, q: "left")
    D.register_kl(D.Normal, Right)(lambda p, q: "right")
    try:
        with pytest.warns(RuntimeWarning, match=r"Ambiguous kl_divergence\(Left, Right\)"):
            assert D.kl_divergence(Left(0.0, 1.0), Right(0.0, 1.0)) == "left"
        D.register_kl(Left, Right)(lambda p, q: "both")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert D.kl_divergence(Left(0.0, 1.0), Right(0.0, 1.0)) == "both"
    finally:
        for pair in ((Left, D.Normal), (D.Normal, Right), (Left, Right)):
            D.kl._KL_REGISTRY.pop(pair, None)
        D.kl._KL_MEMOIZE.clear()


@pytest.mark.parametrize(
    "name", ["Bernoulli", "Beta", "Dirichlet", "Exponential", "Gamma", "Normal", "Wishart"]
)
def test_entropies_and_divergences_of_exponential_families_by_bregman(name):
    p = make(cases.DISTRIBUTIONS[name])
    given = {k: vars(p)[k] for k in p.arg_constraints if k in vars(p)}
    by_normalizer = D.kl._KL_REGISTRY[D.ExponentialFamily, D.ExponentialFamily]
    assert torch.allclose(by_normalizer(p, p), torch.zeros(()).double(), atol=1e-9)
    if name in ("Exponential", "Normal", "Bernoulli"):
        assert torch.allclose(D.ExponentialFamily.entropy(p), p.entropy())
        q = type(p)(**{k: 0.9 * v for k, v in given.items()})
        assert torch.allclose(by_normalizer(p, q), D.kl_divergence(p, q))


@pytest.mark.parametrize(
    "expression", [e for e in cases.TRANSFORMS if "Compose" not in e and "identity" not in e]
)
def test_a_cache_gives_back_the_same_tensor(expression):
    transform = make(expression).with_cache(1)
    x = make.tensor("3 3")
    assert transform.inv(transform(x)) is x
    assert transform.with_cache(1) is transform
    plain = transform.with_cache(0)
    assert plain.inv(plain(x)) is not x or isinstance(plain, D.AbsTransform)


def test_lazy_properties_are_computed_once_with_gradients():
    probs = make.tensor([0.2, 0.7]).requires_grad_()
    made = D.Bernoulli(probs)
    assert "logits" not in vars(made)
    with torch.no_grad():
        logits = made.logits
    assert made.logits is logits
    assert logits.requires_grad
    assert isinstance(D.Bernoulli.logits, D.utils.lazy_property)


def test_a_subclass_keeps_its_class_when_it_expands():
    class Own(D.Normal):
        def __init__(self, loc, extra):
            self.extra = extra
            super().__init__(loc, 1.0)

        def expand(self, batch_shape, _instance=None):
            new = self._get_checked_instance(Own, _instance)
            new.extra = self.extra + 1
            return super().expand(batch_shape, _instance=new)

    made = Own(make.tensor("3"), 4).expand((2, 3))
    assert type(made) is Own
    assert made.extra == 5
    assert made.loc.shape == (2, 3)


def test_validation_can_be_turned_off():
    assert D.Normal(0.0, -1.0, validate_args=False).expand([2])._validate_args is False
    D.Distribution.set_default_validate_args(False)
    try:
        D.Normal(0.0, -1.0)
    finally:
        D.Distribution.set_default_validate_args(True)
    with pytest.warns(UserWarning, match="does not define `arg_constraints`"):
        D.Distribution()


@pytest.mark.parametrize(
    "name", [n for n in cases.DISTRIBUTIONS if "certain" not in n and "impossible" not in n]
)
def test_gradients_of_log_prob(name):
    x = make.tensor(RECORDED[f"{name} x"])
    made = make(cases.DISTRIBUTIONS[name])
    if isinstance(made, (D.Independent, D.MixtureSameFamily, D.TransformedDistribution)):
        return
    held_still = ("total_count", "precision_matrix")
    names = [k for k in made.arg_constraints if k in vars(made) and k not in held_still]
    fixed = {k: vars(made)[k] for k in ("total_count", "dim") if k in vars(made)}
    given = [vars(made)[k].detach().clone() for k in names]

    def log_prob(*parameters):
        return type(made)(**fixed, **dict(zip(names, parameters)), validate_args=False).log_prob(x)

    if given and "Multivariate" not in name and "Wishart" not in name:
        leaves = [v.requires_grad_() for v in given]
        assert torch.autograd.gradcheck(log_prob, leaves, atol=1e-4)


def test_classes_say_whether_they_have_rsample() -> None:
    """As in PyTorch, a plain value on the class where it hangs on no other distribution."""
    asked = {
        name: found if isinstance(found := kind.has_rsample, bool) else None
        for name in distributions.__all__
        if isinstance(kind := getattr(distributions, name), type) and hasattr(kind, "has_rsample")
    }
    of_others = {"Gumbel", "Independent", "Pareto", "TransformedDistribution", "Weibull"}
    assert {name for name, value in asked.items() if value is None} == of_others
    reparametrised = "HalfNormal HalfCauchy LogNormal LogisticNormal InverseGamma Kumaraswamy"
    assert all(asked[name] is True for name in reparametrised.split())


# Other arguments of distributions that keep the parameter they are given as _param.
BY_PROBS = {
    "Bernoulli": {}, "Binomial": {"total_count": 3}, "Categorical": {},
    "NegativeBinomial": {"total_count": 3}, "ContinuousBernoulli": {},
}  # fmt: skip


@pytest.mark.parametrize("given", ["probs", "logits"])
@pytest.mark.parametrize("name", BY_PROBS)
def test_the_given_parameter_is_an_attribute(name, given):
    made = getattr(D, name)(**BY_PROBS[name], **{given: torch.tensor([[0.2, 0.3, 0.5]])})
    for each in (made, copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert vars(each)["_param"] is vars(each)[given]
    assert made.logits.shape == made.probs.shape == made.param_shape
    wider = made.expand((4, *made.batch_shape))
    assert wider._param is vars(wider)["logits"]  # as PyTorch: both are there, the last one is kept
    made._param = torch.zeros(5)
    assert made.param_shape == (5,)
