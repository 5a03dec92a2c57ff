"""What of complex numbers is no plain arithmetic, and ranges, on the GPU against the CPU's."""

import numpy as np
import pytest

import tritorch as torch
from tritorch import _C
from tritorch.gpu import by_host
from tritorch.gpu.reduce import reduction, scan

pytestmark = pytest.mark.device
KINDS = [(np.complex64, 2e-6), (np.complex128, 1e-13)]
RNG = np.random.default_rng(3)
# Magnitudes of all sizes, and both sides of every jump.
PLACES = np.array([complex(a, b) for a in (0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 1e20, -1e20)
                   for b in (0.0, -0.0, 1, -1, 1e20)])  # fmt: skip


def numbers(*shape):
    return RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)


@pytest.fixture(autouse=True)
def nothing_goes_through_the_host():
    by_host.via_host.clear()
    yield
    assert not by_host.via_host


def agree(function, tolerance, *arrays):
    xs = [torch.tensor(array) for array in arrays]
    want, got = function(*xs), function(*(x.cuda() for x in xs))
    assert got.dtype is want.dtype and got.shape == want.shape
    torch.testing.assert_close(got.cpu(), want, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize(("kind", "tolerance"), KINDS)
@pytest.mark.parametrize("name", ["asin", "acos", "atan", "asinh", "acosh", "atanh"])
def test_inverse_functions(name, kind, tolerance):
    x = np.concatenate([numbers(60) * 10.0 ** RNG.integers(-3, 4, 60), PLACES]).astype(kind)
    agree(getattr(torch, name), tolerance, x)


@pytest.mark.parametrize(("kind", "tolerance"), KINDS)
def test_functions_of_several_numbers(kind, tolerance):
    a, b, c = (numbers(40).astype(kind) for _ in range(3))
    c[:4] /= 10  # weights near 0
    agree(torch.sinc, tolerance, np.append(a, kind(0)))
    agree(torch.lerp, tolerance, a, b, c)
    agree(lambda a, b: a.lerp(b, 0.75), tolerance, a, b)
    agree(lambda *x: torch.addcmul(*x, value=0.5 + 1j), tolerance, a, b, c)
    agree(lambda *x: torch.addcdiv(*x, value=2), 10 * tolerance, a, b, c)
    ends = np.array([-np.inf, -np.inf, 1, 3j]), np.array([-np.inf, 2, -np.inf, 1])
    agree(torch.logaddexp, tolerance, *(np.append(x, e).astype(kind) for x, e in zip((a, b), ends)))


SHAPES = [((3, 40), -1), ((40, 7), 0), ((70,), 0), ((2, 5, 6), 1), ((0, 3), 0), ((3, 0), 1)]


@pytest.fixture
def small_tiles(monkeypatch):
    """Rows of some dozens of numbers are cut."""
    monkeypatch.setattr(reduction, "_SEGMENT", 16)
    reduction.plan.cache_clear()
    if _C.is_simulated():
        plan = lambda n_rows, n_cols, *_: scan._Plan(n_rows, n_cols, -(-n_cols // 32), 32, 2, 16)
        monkeypatch.setattr(scan, "plan", plan)
    yield
    reduction.plan.cache_clear()


@pytest.mark.parametrize(("kind", "tolerance"), KINDS)
@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_products_and_sums_of_exponentials(shape, dim, kind, tolerance, small_tiles):
    x = numbers(*shape).astype(kind)
    agree(lambda x: x.prod(dim), 10 * tolerance, x)
    agree(lambda x: x.prod(dim, keepdim=True), 10 * tolerance, x)
    agree(lambda x: x.cumprod(dim), 10 * tolerance, x)
    agree(lambda x: x.logsumexp(dim), 10 * tolerance, x)
    agree(lambda x: x.logcumsumexp(dim).exp(), 10 * tolerance, x)  # whole turns are nothing


def test_an_integer_is_multiplied_as_a_complex_number():
    x = RNG.integers(1, 4, (3, 5))
    agree(lambda x: x.prod(1, dtype=torch.complex64), 0, x)
    agree(lambda x: x.cumprod(1, dtype=torch.complex64), 0, x)


@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "int64", "complex64"])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 300])
def test_ranges(n, kind):
    kind = getattr(torch, kind)
    for make in (
        lambda device: torch.linspace(-3, 9.5, n, dtype=kind, device=device),
        lambda device: torch.logspace(-2, 4, n, base=2, dtype=kind, device=device),
        lambda device: torch.eye(n, 5, dtype=kind, device=device),
    ):
        torch.testing.assert_close(make("cuda").cpu(), make("cpu"), rtol=1e-6, atol=0)


def test_ranges_and_numbers_beside_arrays_are_captured():
    z = torch.tensor(numbers(5)).cuda()
    graph = torch.cuda.CUDAGraph()
    run = lambda: (
        (z * (2 + 1j) + torch.eye(5, device="cuda"))
        @ torch.linspace(0, 1j, 5, device="cuda", dtype=torch.complex128)
    )
    want = run()
    with torch.cuda.graph(graph):
        got = run()
    graph.replay()
    assert got.equal(want)
