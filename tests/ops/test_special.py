"""torch.special: against SciPy's and PyTorch's recorded values, promotion, errors."""

import pathlib

import numpy as np
import pytest

import tritorch as torch

RECORDED = np.load(pathlib.Path(__file__).parent / "special.npz")
WITHOUT_GRADIENT = [name for name in torch.special.__all__ if "bessel" in name or "_poly" in name]
IN_HALF = ("digamma", "entr", "gamma", "i0", "i1", "multigamma", "polygamma", "xlog")


def function_of(name):
    if name.startswith("polygamma"):
        return lambda x: torch.special.polygamma(int(name[-1]), x)
    return getattr(torch.special, name)


@pytest.mark.parametrize("name", [n for n in RECORDED.files if not n.startswith("window")])
@pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.bfloat16])
def test_values(name, kind):
    *arguments, want = RECORDED[name]
    given = [torch.tensor(value).to(kind) for value in arguments]
    if kind is torch.bfloat16 and name != "ndtr" and not name.startswith(IN_HALF):
        with pytest.raises(NotImplementedError, match="not implemented for 'BFloat16'"):
            function_of(name)(*given)
        return
    got = function_of(name)(*given)
    assert got.dtype is kind
    if kind is torch.float64:
        np.testing.assert_allclose(got.numpy(), want, rtol=2e-12, atol=1e-13)
        return
    # The rounded arguments, computed in float64, are the reference of the narrow types.
    exact = function_of(name)(*(value.double() for value in given)).numpy()
    tolerance = {torch.float32: 3e-6, torch.bfloat16: 1e-2}[kind]
    if "polynomial" in name:  # climbs in float32, whose range ends earlier
        keep = np.abs(exact) < 1e6
        tolerance *= 30
    else:
        keep = (np.abs(exact) < 1e38) & ((np.abs(exact) > 1e-37) | (exact == 0))
    if name == "polygamma_1":  # PyTorch rounds pi x where it reflects negative arguments
        keep &= given[0].numpy() > 0
    np.testing.assert_allclose(
        got.float().numpy()[keep], exact[keep], rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize("name", ["airy_ai", "erfcx", "i1e", "ndtri", "entr", "bessel_y1"])
def test_integers_become_floats(name):
    for kind in (torch.int64, torch.uint8, torch.bool):
        x = torch.tensor([0, 1], dtype=kind)
        got = function_of(name)(x)
        assert got.dtype is torch.float32
        assert torch.equal(got, function_of(name)(x.float()))


def test_ends():
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([inf, -inf, nan], dtype=torch.float64)
    for name, want in {
        "airy_ai": [nan, nan, nan], "bessel_j0": [nan, nan, nan], "bessel_y0": [nan, nan, nan],
        "i0": [nan, nan, nan], "i1": [nan, nan, nan], "modified_bessel_i0": [nan, nan, nan],
        "modified_bessel_k1": [0, nan, nan], "i0e": [0, 0, nan], "erfcx": [0, inf, nan],
        "spherical_bessel_j0": [0, 0, nan], "log_ndtr": [0, -inf, nan],
    }.items():  # fmt: skip
        np.testing.assert_array_equal(function_of(name)(x).numpy(), want, err_msg=name)
    a = torch.tensor([0.0, 0, 1, 1, -1, 1, inf, inf, 1, 0])
    b = torch.tensor([0.0, 1, 0, -1, 1, inf, 1, inf, nan, inf])
    lower = [nan, 1, 0, nan, nan, 1, 0, nan, nan, 1]
    np.testing.assert_array_equal(torch.igamma(a, b).numpy(), lower)
    np.testing.assert_array_equal(torch.igammac(a, b).numpy(), 1 - np.array(lower))
    zeta = torch.special.zeta(torch.tensor(3.0), torch.tensor([0.0, -1, -1.5, -50.5]))
    np.testing.assert_allclose(zeta.numpy(), [inf, inf, 0.118102, 1.9222e-4], rtol=1e-4)
    q = torch.tensor([-1.5, 0.5, 1.0, 2.0, inf])
    for device in ("cpu", "cuda"):
        endless = torch.special.zeta(torch.tensor(inf, device=device), q.to(device))
        np.testing.assert_array_equal(endless.cpu().numpy(), [inf, inf, 1, np.nan, np.nan])


@pytest.mark.parametrize("name", WITHOUT_GRADIENT)
def test_without_gradient(name):
    x = torch.tensor([0.5], requires_grad=True)
    arguments = (x, 3) if "polynomial" in name else (x,)
    assert not function_of(name)(*arguments).requires_grad


def test_gradients_that_are_missing():
    a = torch.tensor([1.5], requires_grad=True)
    for function, what in (
        (torch.igamma, "igamma: input"), (torch.igammac, "igammac: input"),
        (torch.special.zeta, "zeta"),
    ):  # fmt: skip
        with pytest.raises(NotImplementedError, match=f"the derivative for '{what}' is not impl"):
            function(a, torch.tensor([2.0])).sum().backward()


def test_errors():
    x = torch.tensor([1j])
    with pytest.raises(NotImplementedError, match="airy_ai.* not implemented for 'ComplexFloat'"):
        torch.special.airy_ai(x)
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        torch.igamma(torch.tensor([1]), torch.tensor([2]))
    with pytest.raises(TypeError, match=r"igamma\(\): argument 'other' \(position 2\) must be Ten"):
        torch.igamma(torch.tensor([1.0]), 2)
    with pytest.raises(RuntimeError, match="p has to be greater than or equal to 1"):
        torch.mvlgamma(torch.tensor([1.0]), 0)
    with pytest.raises(RuntimeError, match="may not be a boolean tensor"):
        torch.mvlgamma(torch.tensor([True]), 1)
    with pytest.raises(RuntimeError, match="does not support negative n"):
        torch.polygamma(-1, torch.tensor([1.0]))
    with pytest.raises(RuntimeError, match="only supports floating-point dtypes"):
        torch.frexp(torch.tensor([1]))


def test_forms():
    x = torch.tensor([0.5, 2.0])
    out = torch.empty(2)
    assert torch.special.bessel_j0(x, out=out) is out
    assert torch.special.chebyshev_polynomial_t(x, 2, out=out) is out
    assert torch.equal(out, 2 * x * x - 1)
    assert torch.equal(torch.special.chebyshev_polynomial_t(3.0, torch.tensor([0, 1])),
                       torch.tensor([1.0, 3.0]))  # fmt: skip
    assert torch.equal(x.clone().igamma_(x), torch.igamma(x, x))
    assert torch.equal(x.clone().mvlgamma_(1), torch.mvlgamma(x, 1))
    mantissa, exponent = torch.frexp(torch.tensor([3.0, 0.0, -1e-41, float("inf")]))
    assert exponent.dtype is torch.int32 and exponent.tolist() == [2, 0, -136, 0]
    np.testing.assert_allclose(mantissa.double() * 2.0 ** exponent.double(),
                               np.array([3.0, 0.0, np.float32(-1e-41), np.inf]))  # fmt: skip
    batched = torch.vmap(torch.special.zeta, in_dims=(None, 0))(torch.tensor(2.0), x)
    assert torch.equal(batched, torch.special.zeta(2.0, x))
    assert torch.special.airy_ai(torch.empty(0)).shape == (0,)


def test_large_polynomial_degrees_end():
    n = torch.tensor([1e9, 1e18, float("inf"), float("nan")], dtype=torch.float64)
    got = torch.special.chebyshev_polynomial_u(torch.tensor(2.0, dtype=torch.float64), n)
    assert got.isnan().tolist() == [True, True, False, False] and got[2:].tolist() == [0, 0]
    assert torch.special.hermite_polynomial_h(torch.tensor(0.1), torch.tensor(200.0)).isnan()


@pytest.mark.device
def test_large_polynomial_degrees_end_on_the_gpu():
    n = torch.tensor([1e9, 1e18, 3.0], dtype=torch.float64, device="cuda")
    x = torch.tensor(2.0, dtype=torch.float64, device="cuda")
    got = torch.special.chebyshev_polynomial_u(x, n)
    assert got.isnan().tolist() == [True, True, False] and got[2].item() == 56
