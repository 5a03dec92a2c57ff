"""Samples: their distribution, on the CPU and the GPU, and how they move with their parameters."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import tritorch as torch
from tests.distributions import cases

RECORDED = np.load(Path(__file__).parent / "recorded.npz")
D = torch.distributions
make = cases.Maker(torch)


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.device)])
def device(request):
    torch.manual_seed(1)
    return request.param


def moved(made, device):
    """A distribution with its parameters on a device."""
    if device == "cpu":
        return made
    new = made.__new__(type(made))
    for name, value in vars(made).items():
        if isinstance(value, torch.Tensor):
            value = value.to(device)
        elif isinstance(value, D.Distribution):
            value = moved(value, device)
        vars(new)[name] = value
    return new


def count(device):
    return 4000 if device == "cpu" else 300


def close_to(sample, at, cdf):
    """Kolmogorov's and Smirnov's test, at recorded places; fails once in 10,000 seeds."""
    below = (sample[:, None] <= at + 1e-9).mean(0)
    return np.abs(below - cdf).max() * math.sqrt(len(sample)) < 2.25


@pytest.mark.parametrize("name", cases.SCIPY)
def test_samples_follow_the_distribution_function(name, device):
    made = make(cases.DISTRIBUTIONS[name])
    if device == "cuda" and isinstance(made, (D.TransformedDistribution, D.VonMises)):
        return  # of the same random numbers, and many launches
    sample = moved(made, device).sample((count(device),))
    assert sample.device.type == device
    first = sample.cpu().numpy()[(slice(None), *(0,) * len(made.batch_shape))]
    assert close_to(first, RECORDED[f"scipy {name} at"], RECORDED[f"scipy {name} cdf"])


@pytest.mark.parametrize("name", cases.DISTRIBUTIONS)
def test_moments_of_samples(name):
    torch.manual_seed(2)
    made = make(cases.DISTRIBUTIONS[name])
    n = 4000
    try:
        mean, variance = made.mean.detach().numpy(), made.variance.detach().numpy()
    except NotImplementedError:
        return
    sample = made.sample((n,)).numpy()
    assert sample.shape == (n, *made.batch_shape, *made.event_shape)
    if name == "VonMises":
        return  # circular
    with np.errstate(invalid="ignore"):
        apart = np.abs(sample.mean(0) - mean) / np.sqrt(variance / n)
    assert (np.nan_to_num(apart[np.isfinite(variance) & (variance > 0)]) < 4.5).all()


@pytest.mark.parametrize("name", cases.DISTRIBUTIONS)
def test_samples_lie_in_the_support(name):
    torch.manual_seed(3)
    made = make(cases.DISTRIBUTIONS[name])
    sample = made.sample((20,))
    assert sample.dtype == (torch.int64 if name.startswith("Categorical") else torch.float64)
    assert not sample.requires_grad
    assert made.support.check(sample).all()
    if name != "Wishart" and "logits" not in name:
        assert made.expand((2, *made.batch_shape)).sample((3,)).shape[:2] == (3, 2)
    of_choices = name.startswith(("Cat", "One", "Multinomial", "Mix"))  # multinomial refuses
    empty = sample[:0] if of_choices else made.sample((0,))
    assert empty.shape == (0, *made.batch_shape, *made.event_shape)


PARAMETERS = {
    "poisson": (torch.poisson, [(0.4,), (4.0,), (12.0,), (500.0,)]),
    "binomial": (torch.binomial, [(5.0, 0.3), (9.0, 0.9), (100.0, 0.4), (1000.0, 0.97)]),
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_counts_of_any_size(name, device):
    function, given = PARAMETERS[name]
    n = count(device)
    for parameters in given:
        drawn = function(*(torch.full((n,), p, device=device) for p in parameters)).cpu().double()
        mean = math.prod(parameters)
        variance = mean * (1 - parameters[1] if name == "binomial" else 1)
        assert abs(drawn.mean() - mean) < 4.5 * math.sqrt(variance / n)
        assert abs(drawn.var() / variance - 1) < 4.5 * math.sqrt((2 + 1 / variance) / n)
        assert drawn.equal(drawn.floor())


def test_counts_at_the_ends(device):
    t = lambda *values: torch.tensor(values, device=device)
    drawn = torch.binomial(t(0.0, 3.0, 3.0, 3.0, math.nan), t(0.5, 0.0, 1.0, math.nan, 0.5))
    assert drawn[:3].tolist() == [0.0, 0.0, 3.0]
    assert drawn[3:].isnan().all()
    assert torch.poisson(t(0.0)).tolist() == [0.0]
    assert torch.poisson(torch.empty(0, 3, device=device)).shape == (0, 3)
    assert torch._standard_gamma(torch.empty(0, device=device)).shape == (0,)
    assert torch.poisson(t(3.0).half()).dtype is torch.float16


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_slopes_of_gamma_samples(kind, device):
    a, x, want = torch.tensor(RECORDED["gamma slopes"].T)
    found = torch._standard_gamma_grad(a.to(device, kind), x.to(device, kind)).cpu().double()
    usable = x > torch.finfo(kind).tiny
    # Where a is large, an expansion serves: see Note [Implicit gradients].
    tolerance = 1e-6 if kind is torch.float64 else 2e-5
    np.testing.assert_allclose(found[usable].numpy(), want[usable].numpy(), rtol=tolerance)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_slopes_of_beta_samples(kind, device):
    a, b, x, want = torch.tensor(RECORDED["beta slopes"].T)
    usable = (x > 1e-30) & (x < 1 - 1e-4)
    a, b, x, want = a[usable], b[usable], x[usable], want[usable]
    found = torch._dirichlet_grad(*(v.to(device, kind) for v in (x, a, a + b))).cpu().double()
    tolerance = 1e-6 if kind is torch.float64 else 1e-4
    np.testing.assert_allclose((found * (1 - x)).numpy(), want.numpy(), rtol=tolerance)


def test_gradients_flow_through_samples(device):
    # d E[x] / d a of mean a (gamma), and of shares
    a = torch.full((count(device),), 2.5, dtype=torch.float64, device=device, requires_grad=True)
    torch._standard_gamma(a).sum().backward()
    assert abs(a.grad.mean().item() - 1) < 0.2
    with pytest.raises(NotImplementedError, match="derivative for '_standard_gamma_grad'"):
        out = torch._standard_gamma(a)
        (first,) = torch.autograd.grad(out.sum(), a, create_graph=True)
        first.sum().backward()
    shares = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, device=device, requires_grad=True)
    drawn = D.Dirichlet(shares).rsample((count(device),))
    (found,) = torch.autograd.grad(drawn[:, 0].mean(), shares)
    assert torch.allclose(found.cpu(), torch.tensor([5 / 36, -1 / 36, -1 / 36]).double(), atol=0.03)


REPARAMETERISED = [
    name
    for name, expression in cases.DISTRIBUTIONS.items()
    if make(expression).has_rsample and "Normal precision" not in name
]


@pytest.mark.parametrize("name", REPARAMETERISED)
def test_samples_with_gradients(name):
    torch.manual_seed(4)
    leaves = []

    def leaf(given):
        leaves.append(cases.Maker.tensor(make, given).requires_grad_())
        return leaves[-1]

    made = eval(cases.DISTRIBUTIONS[name], {"D": D, "T": leaf})
    sample = made.rsample((5,))
    assert sample.requires_grad
    gradients = torch.autograd.grad(sample.square().sum(), leaves, allow_unused=True)
    reached = [g for g in gradients if g is not None]
    assert reached
    assert all(g.isfinite().all() for g in reached)


def test_inverse_distribution_functions_and_samples_move_alike():
    # Samples by the quantile function: dx / dscale = quantile(u) / scale
    for kind in (D.Normal, D.Laplace, D.Cauchy, D.Gumbel):
        torch.manual_seed(5)
        loc, scale = torch.zeros(9).double(), torch.full((9,), 2.0).double().requires_grad_()
        sample = kind(loc, scale).rsample()
        (found,) = torch.autograd.grad(sample.sum(), scale)
        assert torch.allclose(found, sample / 2)


def test_correlation_matrices_have_the_marginals_of_the_lkj_distribution():
    # torch draws too few correlations near zero from the third row on.
    torch.manual_seed(6)
    factor = D.LKJCholesky(4, make.tensor(1.0)).sample((4000,))
    correlations = factor @ factor.mT
    for i in range(4):
        for j in range(i):
            assert abs(correlations[:, i, j].var() - 1 / 5) < 0.02  # Beta(2, 2) on (-1, 1)


def test_mixtures_choose_for_each_of_the_batch():
    torch.manual_seed(7)
    parts = D.Normal(torch.tensor([0.0, 100.0]).expand(3, 2), 0.1)
    drawn = D.MixtureSameFamily(D.Categorical(torch.tensor([0.5, 0.5])), parts).sample((50,))
    assert drawn.shape == (50, 3)
    assert (drawn > 50).float().var(1).max() > 0


def test_a_sample_function_that_is_deprecated():
    with pytest.warns(FutureWarning, match="sample_n"):
        assert D.Normal(0.0, 1.0).sample_n(3).shape == (3,)


def test_seeds_repeat(device):
    def draw():
        torch.manual_seed(8)
        rate = torch.full((5,), 20.0, device=device)
        return torch.cat([torch.poisson(rate), torch._standard_gamma(rate)]).tolist()

    assert draw() == draw()
    own = torch.Generator(device).manual_seed(3)
    rate = torch.full((4,), 3.0, device=device)
    assert torch.poisson(rate, generator=own).shape == (4,)


@pytest.mark.device
def test_formulas_on_the_gpu_are_those_on_the_cpu():
    for name in ("Normal", "Gamma", "Categorical", "Dirichlet", "MultivariateNormal", "VonMises"):
        made = make(cases.DISTRIBUTIONS[name])
        x = make.tensor(RECORDED[f"{name} x"])
        there = moved(made, "cuda")
        assert torch.allclose(there.log_prob(x.cuda()).cpu(), made.log_prob(x))
        assert there.sample((2,)).shape == x.shape


@pytest.mark.parametrize(
    "function",
    [
        torch._standard_gamma,
        torch._sample_dirichlet,
        torch.poisson,
        lambda a: torch.binomial(a.floor(), a / 9),
        lambda a: D.Gamma(a, 1.0, validate_args=False).rsample(),
    ],
)
def test_inside_vmap(function):
    a = make.tensor("4 3") * 5
    drawn = torch.func.vmap(function, randomness="different")(a)
    assert drawn.shape == (4, 3)
    assert not drawn[0].equal(drawn[1])


def test_forward_mode_moves_samples():
    from tritorch.autograd import forward_ad

    with forward_ad.dual_level():
        a = forward_ad.make_dual(make.tensor("3"), torch.ones(3).double())
        drawn, moved_by = forward_ad.unpack_dual(torch._standard_gamma(a))
    assert torch.allclose(moved_by, torch._standard_gamma_grad(make.tensor("3"), drawn))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda t: torch.poisson(t([1])), NotImplementedError, '"poisson_cpu" not implem'),
        (lambda t: torch.poisson(t([-1.0])), RuntimeError, "invalid Poisson rate"),
        (lambda t: torch._standard_gamma(t([1])), NotImplementedError, "gamma_cpu"),
        (lambda t: torch._sample_dirichlet(t([1])), NotImplementedError, "dirichlet"),
        (
            lambda t: torch.binomial(t([3]), t([0.5])),
            ValueError,
            "binomial only supports floating-point dtypes for count, got: Long",
        ),
        (
            lambda t: torch.binomial(t([3.0]), t([1])),
            ValueError,
            "binomial only supports floating-point dtypes for prob, got: Long",
        ),
        (
            lambda t: torch.binomial(t([3.0]), t([0.5]).double()),
            RuntimeError,
            "Found dtype Double but expected Float",
        ),
    ],
)
def test_errors_of_samplers(call, error, message):
    with pytest.raises(error, match=message):
        call(torch.tensor)
