"""Quantiles, histograms, covariance and their like: against NumPy; errors, empty inputs, out=."""

import warnings

import numpy as np
import pytest

import tritorch as torch

RNG = np.random.default_rng(0)


def test_quantiles_with_and_without_gradient_agree():
    x = torch.tensor(RNG.standard_normal((3, 400)))
    q = torch.tensor([0.0, 0.01, 0.5, 0.77, 1.0], dtype=torch.float64)
    for how in ("linear", "lower", "higher", "midpoint", "nearest"):
        plain = torch.quantile(x, q, 1, interpolation=how)
        grads = torch.quantile(x.clone().requires_grad_(), q, 1, interpolation=how)
        nan_aware = torch.nanquantile(x, q, 1, interpolation=how)
        want = np.quantile(x.numpy(), q.numpy(), 1, method=how)
        for got in (plain, grads.detach(), nan_aware):
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-14)
    mapped = torch.vmap(lambda row: torch.quantile(row, q))(x)
    assert torch.equal(mapped, torch.quantile(x, q, 1).T)


def test_quantiles_of_nan():
    nan = float("nan")
    x = torch.tensor([[1.0, nan, 3, 2], [4, 1, 2, 3], [nan] * 4], requires_grad=True)
    got = torch.quantile(x, torch.tensor([0.0, 0.5]), 1)
    np.testing.assert_array_equal(got.detach(), [[nan, 1, nan], [nan, 2.5, nan]])
    got = torch.nanquantile(x, 0.5, 1, keepdim=True)
    np.testing.assert_array_equal(got.detach(), [[2], [2.5], [nan]])
    assert torch.quantile(torch.tensor(3.0), 0.2).item() == 3
    assert torch.quantile(x.detach(), 0.5, keepdim=True).shape == (1, 1)
    assert torch.quantile(x.detach(), torch.tensor([0.5, 0.1]), 0, True).shape == (2, 1, 4)


def test_quantile_errors():
    x = torch.rand(3, 4)
    for call, text in (
        (lambda: torch.quantile(x, 1.5), r"q must be in the range \[0, 1\] but got 1.5"),
        (lambda: torch.quantile(x, torch.tensor([2.0])), r"q values must be in the range \[0, 1\]"),
        (lambda: torch.quantile(x, torch.tensor([[0.5]])), "q must be a scalar or 1D tensor"),
        (lambda: torch.quantile(x, torch.tensor(0.5).double()), "q tensor must be same dtype as"),
        (lambda: torch.quantile(x.long(), 0.5), "input tensor must be either float or double"),
        (lambda: torch.quantile(x, 0.5, interpolation="x"), "interpolation must be one of linear"),
        (lambda: torch.quantile(torch.empty(0), 0.5), "input tensor must be non-empty"),
        (lambda: torch.quantile(x, 0.5, out=torch.empty(1).double()), "out tensor must be same"),
    ):
        with pytest.raises(RuntimeError, match=text):
            call()


@pytest.mark.parametrize("density", [False, True])
def test_histograms(density):
    x, w = RNG.standard_normal(200), RNG.uniform(0, 1, 200)
    edges = np.array([-2.0, -0.5, 0.1, 0.2, 3.0])
    t = torch.tensor
    for got, want in (
        (torch.histogram(t(x), 7, density=density), np.histogram(x, 7, density=density)),
        (torch.histogram(t(x), 7, range=(-1.0, 2.0), weight=t(w), density=density),
         np.histogram(x, 7, (-1, 2), weights=w, density=density)),
        (torch.histogram(t(x), t(edges), density=density),
         np.histogram(x, edges, density=density)),
    ):  # fmt: skip
        np.testing.assert_allclose(got.hist, want[0], rtol=1e-12)
        np.testing.assert_allclose(got.bin_edges, want[1], rtol=1e-12)
    points = RNG.uniform(0, 1, (100, 2))
    got = torch.histogramdd(t(points), [3, 4], range=[0.0, 1.0, 0.0, 1.0], density=density)
    want = np.histogramdd(points, [3, 4], [(0, 1), (0, 1)], density=density)
    np.testing.assert_allclose(got.hist, want[0], rtol=1e-12)
    for a, b in zip(got.bin_edges, want[1]):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_histogram_forms_and_errors():
    x = torch.tensor([1.0, 2.0, 1.0])
    given = torch.empty(0), torch.empty(0)
    written = torch.histogram(x, 4, out=given)
    assert type(written) is torch.return_types.histogram_out and written.hist is given[0]
    assert torch.histogram(torch.empty(0), 2).hist.tolist() == [0, 0]
    nan = torch.tensor([1.0, float("nan")])
    assert torch.histogram(nan, 4, range=(0.0, 2.0)).hist.tolist() == [0, 0, 1, 0]
    for call, error, text in (
        (lambda: torch.histogram(x, 0), RuntimeError, "bins must be > 0, but got 0 for dimension"),
        (lambda: torch.histogram(nan, 4), RuntimeError, r"range \[nan, nan\] is not finite"),
        (
            lambda: torch.histogram(x, 4, range=(3.0, 0.0)),
            RuntimeError,
            "min should not exceed max",
        ),
        (lambda: torch.histogram(x.long(), 4), NotImplementedError, "not implemented for 'Long'"),
        (lambda: torch.histogram(x, 4, weight=x[:2]), RuntimeError, "should have the same shape"),
        (lambda: torch.histogramdd(x, 2), RuntimeError, "should have at least 2 dimensions"),
        (lambda: torch.histogramdd(x.view(1, 3), [2]), RuntimeError, "equal to the innermost dim"),
    ):
        with pytest.raises(error, match=text):
            call()


def test_covariance():
    x, f = RNG.standard_normal((3, 6)), np.array([1, 2, 1, 3, 1, 1])
    a = RNG.uniform(0.1, 1, 6)
    t = torch.tensor
    got = torch.cov(t(x), correction=2, fweights=t(f), aweights=t(a))
    np.testing.assert_allclose(got, np.cov(x, ddof=2, fweights=f, aweights=a), rtol=1e-12)
    z = x + 1j * x[::-1]
    np.testing.assert_allclose(torch.cov(t(z)), np.cov(z), rtol=1e-12)
    np.testing.assert_allclose(torch.corrcoef(t(z)), np.corrcoef(z), rtol=1e-12)
    assert torch.cov(t([1.0, 2.0])).item() == 0.5
    with pytest.warns(UserWarning, match="degrees of freedom is <= 0"):
        assert torch.cov(t(1.0)).isnan()
    for call, text in (
        (lambda: torch.cov(torch.rand(2, 2, 2)), "two or fewer dimensions but got an input with 3"),
        (lambda: torch.cov(t(x), fweights=t(a)), "fweights to have integral dtype"),
        (lambda: torch.cov(t(x), aweights=-t(a)), "aweights cannot be negative"),
        (lambda: torch.cov(t([True])), "bool dtype is not supported"),
    ):
        with pytest.raises(RuntimeError, match=text):
            call()


def test_differences():
    x = RNG.standard_normal((4, 5))
    t = torch.tensor
    for order in (1, 2):
        for got, want in zip(torch.gradient(t(x), spacing=(0.5, 2.0), edge_order=order),
                             np.gradient(x, 0.5, 2.0, edge_order=order)):  # fmt: skip
            np.testing.assert_allclose(got, want, rtol=1e-12)
        places = np.array([0.0, 1, 1.5, 4, 5])
        (got,) = torch.gradient(t(x), spacing=(t(places),), dim=1, edge_order=order)
        np.testing.assert_allclose(
            got, np.gradient(x, places, axis=1, edge_order=order), rtol=1e-11
        )
    assert torch.gradient(torch.tensor(1.0)) == ()
    assert torch.trapezoid(torch.rand(3, 0)).tolist() == [0, 0, 0]
    assert torch.trapz(t([1, 2, 4]), dx=2).item() == 9
    for call, error, text in (
        (lambda: torch.gradient(t([1.0])), RuntimeError, r"size to be at least edge_order\+1"),
        (
            lambda: torch.gradient(t(x), edge_order=3),
            RuntimeError,
            "only supports edge_order=1 and",
        ),
        (lambda: torch.gradient(t(x), dim=(0, 0)), RuntimeError, "dim 0 appears multiple times"),
        (lambda: torch.gradient(t(x), spacing=[1.0]), RuntimeError, "got a list of length 1"),
        (lambda: torch.trapezoid(t([True])), RuntimeError, "bool input for `y`"),
        (lambda: torch.trapezoid(t(x), t([1.0])), RuntimeError, "one `x` value for each sample"),
        (lambda: torch.trapezoid(torch.tensor(1.0)), IndexError, "tensor has no dimensions"),
    ):
        with pytest.raises(error, match=text):
            call()


def test_combinations():
    x = torch.tensor([1, 2, 3])
    assert torch.combinations(x).tolist() == [[1, 2], [1, 3], [2, 3]]
    assert torch.combinations(x[:2], 3, True).tolist() == [
        [1, 1, 1],
        [1, 1, 2],
        [1, 2, 2],
        [2, 2, 2],
    ]
    assert torch.combinations(x, 0).shape == (0,)
    assert torch.combinations(x, 4).shape == (0, 4)


def test_index_reduce():
    x = torch.tensor([[1.0, 2], [3, 4], [5, 6]])
    index, source = torch.tensor([0, 2, 0]), torch.tensor([[7.0, 1], [2, 9], [3, 3]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = x.index_reduce(0, index, source, "mean")
        np.testing.assert_allclose(got, [[11 / 3, 2], [3, 4], [3.5, 7.5]], rtol=1e-6)
        got = x.index_reduce(0, index, source, "prod", include_self=False)
        assert got.tolist() == [[21, 3], [3, 4], [2, 9]]
        y = x.clone()
        assert y.index_reduce_(0, index, source, "amax") is y
        assert y.tolist() == [[7, 3], [3, 4], [5, 9]]
        grown = x.clone().requires_grad_().index_reduce(0, index, source, "amin")
    assert grown.grad_fn.name() == "IndexReduceBackward0"
    for call, error, text in (
        (lambda: x.index_reduce(0, index, source, "sum"), RuntimeError, "prod, mean, amax or amin"),
        (lambda: x.index_reduce(0, index + 5, source, "amax"), IndexError, "out of range in self"),
        (lambda: x.index_reduce(0, index, source[:2], "amax"), RuntimeError, "Number of indices"),
        (lambda: x.index_reduce(0, index.float(), source, "amax"), RuntimeError, "int32/int64"),
    ):
        with pytest.raises(error, match=text):
            call()


def test_nonzero_static():
    x = torch.tensor([[1, 0], [0, 3]])
    assert torch.nonzero_static(x, size=3, fill_value=9).tolist() == [[0, 0], [1, 1], [9, 9]]
    assert torch.nonzero_static(x, size=1).tolist() == [[0, 0]]
    assert torch.nonzero_static(torch.tensor(1.0), size=2).shape == (2, 0)
    with pytest.raises(RuntimeError, match="'size' must be an non-negative integer"):
        torch.nonzero_static(x, size=-1)


def test_renorm():
    x = torch.tensor([[3.0, 4.0], [0.3, 0.4]])
    np.testing.assert_allclose(x.renorm(2, 0, 1.0), [[0.6, 0.8], [0.3, 0.4]], rtol=1e-6)
    assert torch.equal(x.clone().renorm_(1, 1, 0.5), torch.renorm(x, 1, 1, 0.5))
    with pytest.raises(RuntimeError, match="needs at least 2 dimensions, got 1 dimensions"):
        torch.renorm(x[0], 2, 0, 1)
    with pytest.raises(RuntimeError, match="expected maxnorm to be >= 0 but got -1"):
        torch.renorm(x, 2, 0, -1)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.device)])
def test_hash_tensor(device):
    x = torch.tensor([[1, 2, 3], [4, 5, 7]], device=device)
    assert torch.hash_tensor(x, 1).tolist() == [0, 6]
    assert torch.hash_tensor(x.to(torch.bfloat16), (0, 1), keepdim=True).shape == (1, 1)
    assert torch.hash_tensor(torch.tensor([1.0, 2.0], device=device)).item() == 0x7FF << 52
    with pytest.raises(RuntimeError, match="Unknown hash_tensor mode: 1"):
        torch.hash_tensor(x, mode=1)


def test_written_results_have_types_of_their_own():
    out = torch.empty(0), torch.empty(0, dtype=torch.int64)
    assert type(torch.max(torch.rand(2, 3), 1, out=out)).__name__ == "max_out"
    parts = torch.frexp(
        torch.tensor([3.0]), out=(torch.empty(0), torch.empty(0, dtype=torch.int32))
    )
    assert type(parts) is torch.return_types.frexp_out and parts.exponent.item() == 2


def test_views_that_pytorch_refuses():
    x = torch.arange(6.0).reshape(2, 3)
    few = torch.arange(4.0).reshape(2, 2)
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        torch.kron(x.t(), x.t().contiguous())
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        torch.isin(few, few.t())
    assert torch.kron(x, x).shape == (4, 9)
    assert torch.isin(few, few.t().contiguous()).all()
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        torch.nn.functional.soft_margin_loss(torch.ones(1), torch.ones(2))


def test_a_soft_margin_loss_lies_as_its_input():
    loss = torch.nn.functional.soft_margin_loss
    x = torch.ones(2, 3).t()
    assert loss(x, torch.ones(3, 2), reduction="none").stride() == (1, 3)
    assert loss(torch.ones(3, 2), x, reduction="none").stride() == (2, 1)
