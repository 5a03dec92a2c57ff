"""Factorisations on the GPU: residuals, orthogonality, matrices that have none, empty ones."""

import numpy as np
import pytest

import tritorch as torch
from tritorch.cuda import from_numpy
from tritorch.gpu import by_host
from tritorch.gpu.linalg import factor, linalg, spectra, triangular
from tritorch.host.linalg import linalg as on_cpu, triangular as host_triangular

pytestmark = pytest.mark.device
REAL, COMPLEX = [np.float32, np.float64], [np.complex64, np.complex128]
KINDS = [*REAL, *COMPLEX]
RNG = np.random.default_rng(7)


def adjoint(x):
    return np.swapaxes(x, -1, -2).conj()


def wide(x):
    """In double precision."""
    return x.astype(complex if x.dtype.kind == "c" else float) if x.dtype.kind in "fc" else x


def numbers(shape, kind):
    x = RNG.standard_normal(shape)
    if np.dtype(kind).kind == "c":
        x = x + 1j * RNG.standard_normal(shape)
    return x.astype(kind)


def small(difference, *factors, n):
    """Whether a difference is within 50 n eps of the product of some norms."""
    eps = np.finfo(factors[0].dtype).eps
    norms = [np.linalg.norm(wide(factor)) for factor in factors]
    assert np.linalg.norm(wide(difference)) <= 50 * n * eps * np.prod(norms)


def on_gpu(function, *arrays):
    """Results in double precision, of what must not go through the host."""
    by_host.via_host.clear()
    found = function(*(from_numpy(x) if isinstance(x, np.ndarray) else x for x in arrays))
    assert not by_host.via_host
    out = [y.numpy() for y in (found if isinstance(found, tuple) else (found,))]
    return [wide(y) for y in out]


SHAPES = [(1, 1), (3, 2, 2), (2, 5, 5), (2, 33, 33), (70, 33), (33, 70), (100, 100)]


def cases(*shapes):
    """All shapes of reals, and for complex numbers one that is small and one that has panels."""
    few = [shape for shape in shapes if shape in ((3, 2, 2), (33, 33), (2, 33, 33))]
    pairs = [*((s, kind) for s in shapes for kind in REAL), *zip(few, COMPLEX)]
    return pytest.mark.parametrize("shape, kind", pairs)


square = cases(*(shape for shape in SHAPES if shape[-1] == shape[-2]))


@cases(*SHAPES)
def test_lu(shape, kind):
    x = numbers(shape, kind)
    lu, pivots, info = on_gpu(triangular.lu_factor, x)
    m, n = shape[-2:]
    k = min(m, n)
    (order,) = on_gpu(triangular.permutation, pivots, m)
    lower, upper = np.tril(lu, -1)[..., :k] + np.eye(m, k), np.triu(lu)[..., :k, :]
    small(lower @ upper - np.take_along_axis(x, order[..., None], -2), x, n=max(m, n))
    most = 2**0.5 + 1e-6 if np.iscomplexobj(x) else 1
    assert np.abs(lower).max() <= most and not info.any()  # the largest was taken each time


@pytest.mark.parametrize("mode", ["reduced", "complete"])
@cases(*SHAPES)
def test_qr(shape, mode, kind):
    x = numbers(shape, kind)
    q, r = on_gpu(linalg.qr, x, mode)
    n = max(shape[-2:])
    small(q @ r - x, x, n=n)
    small(adjoint(q) @ q - np.eye(q.shape[-1]), kind(1).reshape(1), n=n)
    want = np.linalg.qr(wide(x), "r")
    np.testing.assert_allclose(np.abs(r[..., : want.shape[-2], :]), np.abs(want),
                               atol=1e4 * np.finfo(kind).eps)  # fmt: skip
    assert (np.tril(r, -1) == 0).all()


@pytest.mark.parametrize(
    "shape, kind", [((2, 70, 40), np.float64), ((33, 70), np.float32), ((40, 40), np.complex128)]
)
def test_reflections_as_one(shape, kind, monkeypatch):
    """A tall matrix's panels go through products."""
    monkeypatch.setattr(factor, "TALL", 30)
    monkeypatch.setattr(factor, "reflect", None)
    x = numbers(shape, kind)
    x[..., 3] = 0
    for mode in ("reduced", "complete"):
        q, r = on_gpu(linalg.qr, x, mode)
        small(q @ r - x, x, n=max(shape[-2:]))
        small(adjoint(q) @ q - np.eye(q.shape[-1]), kind(1).reshape(1), n=max(shape[-2:]))


@pytest.mark.parametrize("upper", [False, True])
@square
def test_cholesky(shape, upper, kind):
    n = shape[-1]
    x = numbers(shape, kind)
    x = x @ adjoint(x) + np.eye(n, dtype=kind)
    given = np.triu(x) if upper else np.tril(x)  # one triangle is read
    factor, info = on_gpu(linalg.cholesky_ex, given, upper)
    small((adjoint(factor) @ factor if upper else factor @ adjoint(factor)) - x, x, n=n)
    assert not info.any() and (factor == (np.triu(factor) if upper else np.tril(factor))).all()


@square
def test_systems_inverses_and_determinants(shape, kind):
    n = shape[-1]
    x, b = (numbers(s, kind) for s in (shape, (*shape[:-1], 3)))
    y, _ = on_gpu(linalg.solve_ex, x, b)
    small(x @ y - b, x, y, n=n)
    inverse, _ = on_gpu(linalg.inv_ex, x)
    small(x @ inverse - np.eye(n), x, inverse, n=n)
    sign, log = np.linalg.slogdet(wide(x))
    tolerance = 1e3 * n * np.finfo(kind).eps
    found = on_gpu(linalg.slogdet, x)
    np.testing.assert_allclose(found[0], sign, atol=tolerance)
    np.testing.assert_allclose(found[1], log, rtol=tolerance, atol=tolerance)
    if n < 40:
        np.testing.assert_allclose(on_gpu(linalg.det, x)[0], sign * np.exp(log), rtol=tolerance)


@cases((1, 1), (3, 2, 2), (2, 5, 5), (33, 33), (20, 7), (7, 20), (1, 4))
def test_singular_values(shape, kind):
    x = numbers(shape, kind)
    for full in (False, True):
        s = check_svd(x, full)
    np.testing.assert_array_equal(on_gpu(linalg.svdvals, x)[0], s)


def check_svd(x, full):
    n, k, one = max(x.shape[-2:]), min(x.shape[-2:]), x.dtype.type(1).reshape(1)
    u, s, vh = on_gpu(linalg.svd, x, full)
    want = np.linalg.svd(wide(x), full)
    assert [y.shape for y in (u, s, vh)] == [y.shape for y in want]
    small(u[..., :k] * s[..., None, :] @ vh[..., :k, :] - x, x, n=n)
    small(adjoint(u) @ u - np.eye(u.shape[-1]), one, n=n)
    small(vh @ adjoint(vh) - np.eye(vh.shape[-2]), one, n=n)
    small(s - want[1], x, n=n)
    return s


@pytest.mark.parametrize("uplo", ["L", "U"])
@cases((1, 1), (3, 2, 2), (2, 5, 5), (33, 33))
def test_eigenvalues(shape, uplo, kind):
    x = numbers(shape, kind)
    x = x + adjoint(x)
    check_eigh(x, np.tril(x) if uplo == "L" else np.triu(x), uplo)


def check_eigh(x, given, uplo="L"):
    n = x.shape[-1]
    values, vectors = on_gpu(linalg.eigh, given, uplo)
    small(vectors * values[..., None, :] @ adjoint(vectors) - x, x, n=n)
    small(adjoint(vectors) @ vectors - np.eye(n), x.dtype.type(1).reshape(1), n=n)
    small(values - np.linalg.eigvalsh(wide(x)), x, n=n)
    assert (np.diff(values) >= 0).all()


def test_spectra_of_special_matrices():
    """Equal values, opposite ones, zeros, ranks below the size, far from 1."""
    turn = np.linalg.qr(RNG.standard_normal((8, 8)))[0]
    for diagonal in ([1] * 8, [2] * 4 + [-2] * 4, [0] * 8, [1, 1e-9, 1e-20, 0, 0, 3, 3, -1]):
        x = turn * np.array(diagonal, float) @ turn.T
        x = (x + x.T) / 2 * 1e200
        u, s, vh = on_gpu(linalg.svd, x, True)
        assert np.abs(u * s @ vh - x).max() <= 1e-13 * max(np.abs(x).max(), 1)
        assert np.abs(u.T @ u - np.eye(8)).max() <= 1e-13
        values, vectors = on_gpu(linalg.eigh, x, "L")
        assert np.abs(vectors * values @ vectors.T - x).max() <= 1e-13 * max(np.abs(x).max(), 1)
    with pytest.raises(torch.linalg.LinAlgError, match=r"linalg.eigh: \(Batch element 1\).*finite"):
        torch.linalg.eigh(torch.tensor([[[1.0]], [[np.inf]]]).cuda())


@cases((40, 7), (2, 7, 40), (3, 2, 2))
def test_least_squares(shape, kind):
    a, b = (numbers(s, kind) for s in (shape, (*shape[:-1], 3)))
    found = on_gpu(linalg.lstsq, a, b, 0.0, "gels")
    for got, want in zip(found, on_cpu.lstsq(wide(a), wide(b), 0.0, "gels")):
        np.testing.assert_allclose(got, want, rtol=2e4 * np.finfo(kind).eps, atol=1e-5)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("n", [1, 20, 64, 130])
def test_triangular_systems(n, unit, upper):
    a = torch.tensor(RNG.standard_normal((2, n, n)) / n).double() + 2 * torch.eye(n)
    b = torch.tensor(RNG.standard_normal((2, n, 5)))
    by_host.via_host.clear()
    solve = lambda a, b: torch.linalg.solve_triangular(a, b, upper=upper, unitriangular=unit)
    torch.testing.assert_close(solve(a.cuda(), b.cuda()).cpu(), solve(a, b))
    assert not by_host.via_host


def test_singular_matrices():
    x = RNG.standard_normal((3, 40, 40))
    x[1, :, 35] = x[1, 35] = 0
    x[2] = 0
    _, _, info = on_gpu(triangular.lu_factor, x)
    assert info.tolist() == [0, 36, 1]
    (determinant,) = on_gpu(linalg.det, x)
    assert determinant[0] != 0 and (determinant[1:] == 0).all()
    sign, log = on_gpu(linalg.slogdet, x)
    assert sign[1:].tolist() == [0, 0] and log[1:].tolist() == [-np.inf] * 2
    with pytest.raises(torch.linalg.LinAlgError, match="singular"):
        torch.linalg.inv(torch.tensor(x).cuda())


def test_matrices_that_are_not_positive():
    x = np.stack([np.eye(40), np.eye(40), -np.eye(40), np.full((40, 40), np.nan)])
    x[1, 36, 36] = -1
    factor, info = on_gpu(linalg.cholesky_ex, x, False)
    assert info.tolist() == [0, 37, 1, 1] and (factor[0] == np.eye(40)).all()
    assert (info[:3] == on_cpu.cholesky_ex(x[:3], False)[1]).all()


def test_matrices_of_less_rank_are_factored():
    x = RNG.standard_normal((50, 3)) @ RNG.standard_normal((3, 40))
    x[:, 7] = 0
    for matrix in (x, np.zeros((4, 3))):
        q, r = on_gpu(linalg.qr, matrix, "reduced")
        np.testing.assert_allclose(q @ r, matrix, atol=1e-13)
        np.testing.assert_allclose(q.T @ q, np.eye(q.shape[1]), atol=1e-13)


def test_nan_and_large_numbers():
    x = RNG.standard_normal((2, 6, 6))
    x[0, 2, 3] = np.nan
    assert np.isnan(on_gpu(linalg.det, x)[0]).tolist() == [True, False]
    assert np.isnan(on_gpu(linalg.qr, x, "reduced")[1][0]).any()
    x = (x[1:] * 1e30).astype(np.float32)  # whose squares are no float32
    q, r = on_gpu(linalg.qr, x, "reduced")
    small((q @ r - x) / 1e30, x / np.float32(1e30), n=6)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3, 3), (2, 0, 0), (3, 0), (0, 3)])
def test_empty_matrices(shape):
    x = np.zeros(shape)
    for mode in ("reduced", "complete"):
        for got, want in zip(on_gpu(linalg.qr, x, mode), on_cpu.qr(x, mode)):
            np.testing.assert_array_equal(got, want)
    if shape[-1] == shape[-2]:
        for name in ("det", "slogdet", "inv_ex"):
            got, want = on_gpu(getattr(linalg, name), x), getattr(on_cpu, name)(x)
            for a, b in zip(got, want if isinstance(want, tuple) else (want,)):
                np.testing.assert_array_equal(a, b)
        assert on_gpu(linalg.cholesky_ex, x, False)[0].shape == shape
        assert on_gpu(linalg.solve_ex, x, np.zeros((*shape[:-1], 2)))[0].shape == (*shape[:-1], 2)


def test_factorisations_are_captured():
    x = torch.tensor(RNG.standard_normal((40, 40))).cuda()
    run = lambda x: (torch.linalg.inv_ex(x)[0], *torch.linalg.qr(x), torch.linalg.det(x),
                     torch.linalg.cholesky_ex(x @ x.mT)[0])  # fmt: skip
    run(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = run(x)
    x.copy_(torch.tensor(RNG.standard_normal((40, 40))))
    graph.replay()
    for got, want in zip(found, run(x)):
        assert got.equal(want)


@pytest.mark.parametrize("kind", [np.float32, np.complex128])
@pytest.mark.parametrize("shape", [(2, 20, 11), (9, 17)])
def test_spectra_of_blocks(shape, kind, monkeypatch):
    """More columns than one program makes orthogonal."""
    monkeypatch.setattr(spectra, "SMALL", 6)
    x = numbers(shape, kind)
    check_svd(x, False)
    x[..., 3] = x[..., 4] + x[..., 5]
    x[..., 7] = 0
    check_svd(x, True)
    x = x[..., :9, :9]
    check_eigh(x + adjoint(x), np.tril(x + adjoint(x)))
    check_eigh(np.zeros_like(x), np.zeros_like(x))


def symmetric(shape, kind, hermitian):
    x = numbers(shape, kind)
    x = x + (adjoint(x) if hermitian else np.swapaxes(x, -1, -2))
    x[0, 0, 0] = 0  # a block of two, or a column that is zero
    x[1, 0] = x[1, :, 0] = 0
    return x


@pytest.mark.parametrize(
    "kind, hermitian", [*((kind, False) for kind in KINDS), (np.complex64, True)]
)
def test_ldl(kind, hermitian):
    x = symmetric((2, 37, 37), kind, hermitian)
    ld, pivots, info = on_gpu(triangular.ldl_factor, np.tril(x), hermitian)
    with np.errstate(all="ignore"):
        want = host_triangular.ldl_factor(wide(np.tril(x)), hermitian)
    assert (pivots == want[1]).all() and (info == want[2]).all() and info.tolist() == [0, 1]
    assert (pivots < 0).any() and (pivots > 0).any()
    np.testing.assert_allclose(ld, want[0], rtol=1e4 * np.finfo(kind).eps, atol=1e-3)
    b = numbers((1, 37, 3), kind)
    (y,) = on_gpu(triangular.ldl_solve, ld[:1].astype(kind), pivots[:1], b, hermitian)
    small(x[:1] @ y - b, x[:1], y, n=37)


@pytest.mark.parametrize("kind", KINDS)
def test_cofactors(kind):
    x = numbers((3, 5, 5), kind)
    x[1, 2] = x[1, 3]  # one that is singular, and one of even less rank
    x[2, :, :2] = 0
    (found,) = on_gpu(linalg.cofactor, x)
    want = on_cpu.cofactor(wide(x))
    np.testing.assert_allclose(found, want, atol=1e3 * np.finfo(kind).eps * np.abs(want).max())
    assert on_gpu(linalg.cofactor, np.zeros((0, 3, 3), kind))[0].shape == (0, 3, 3)


@pytest.mark.parametrize("driver", ["gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("shape", [(40, 7), (2, 7, 12), (3, 0), (0, 3), (2, 5, 3)])
def test_least_squares_of_any_rank(shape, driver):
    a, b = RNG.standard_normal(shape), RNG.standard_normal((*shape[:-1], 2))
    if shape == (2, 5, 3):
        a[1, :, 2] = a[1, :, 0]
    found = on_gpu(linalg.lstsq, a, b, 1e-10, driver)
    for got, want in zip(found, on_cpu.lstsq(a, b, 1e-10, driver)):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


def captured(run, *arguments):
    """What a graph gives for others than it was captured with, and what is computed for those."""
    first = [x.flip(0) for x in arguments]
    run(*first)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = run(*first)
    for x, y in zip(first, arguments):
        x.copy_(y)
    graph.replay()
    return found, run(*arguments)


@pytest.mark.parametrize("kind", [np.float64, np.complex64])
def test_what_needs_no_answer_is_captured(kind, monkeypatch):
    monkeypatch.setattr(spectra, "SMALL", 4)
    monkeypatch.setattr(spectra, "_SWEEPS", 9)
    L = torch.linalg
    x, b = (torch.tensor(numbers(shape, kind)).cuda() for shape in ((6, 6), (6, 2)))

    def run(x, b):
        found = [*L.eigh(x + x.mH), *L.svd(x), L.eigvalsh(x), L.svdvals(b), L.lstsq(x, b)[0]]
        lu, pivots = L.lu_factor_ex(x)[:2]
        ld, swaps = L.ldl_factor_ex(x + x.mH, hermitian=True)[:2]
        found += [L.lu_solve(lu, pivots, b), L.ldl_solve(ld, swaps, b, hermitian=True)]
        found += [*torch.lu_unpack(lu, pivots), L.inv_ex(x)[0], L.solve_ex(x, b)[0], L.det(x)]
        return [*found, *L.slogdet(x), L.cholesky_ex(x @ x.mH)[0], *L.qr(x), L.pinv(x)]

    for got, want in zip(*captured(run, x, b)):
        assert got.equal(want)
