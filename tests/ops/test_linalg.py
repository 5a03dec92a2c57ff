"""Linear algebra: what the real torch recorded, NumPy's blocks against LAPACK, vmap, out=."""

from __future__ import annotations

import json
from pathlib import Path

import linalg_cases as cases
import numpy as np
import pytest

import tritorch as torch
from tritorch.func import vmap
from tritorch.host.linalg import linalg as by_numpy
from tritorch.ops.record.backends import backend

RECORDED = np.load(Path(__file__).parent / "recorded_linalg.npz")
ERRORS = json.loads(str(RECORDED["errors"]))
KINDS = {"r": np.float64, "c": np.complex128}
DOWN = {"r": np.float32, "c": np.complex64}
L = torch.linalg
triangular = backend("cpu", "triangular")


def recorded(kind: str, call: str) -> dict[str, np.ndarray]:
    start = f"{kind} {call} "
    return {name[len(start) :]: RECORDED[name] for name in RECORDED.files if name.startswith(start)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("call", cases.CALLS)
def test_results_and_gradients_are_pytorchs(call, kind):
    found, want = cases.run(torch, call, kind, KINDS[kind]), recorded(kind, call)
    assert {k for k, v in want.items() if v.any()} <= set(found)
    for name, value in found.items():
        if name not in want:  # torch has no gradient where ours is zero
            assert not value.any()
            continue
        assert value.dtype == want[name].dtype
        assert value.shape == want[name].shape
        scale = max(1.0, np.abs(want[name]).max(initial=0, where=np.isfinite(want[name])))
        np.testing.assert_allclose(value, want[name], rtol=1e-7, atol=1e-8 * scale)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("call", [c for c in cases.CALLS if "large" not in c])
def test_single_precision(call, kind):
    found, want = (
        cases.run(torch, call, kind, DOWN[kind]),
        cases.run(torch, call, kind, KINDS[kind]),
    )
    for name in (n for n in want if n.isdigit()):
        value = want[name]
        if value.dtype.kind in "fc":
            assert found[name].dtype.itemsize * 2 == value.dtype.itemsize
        if "lu" not in call and "geqrf" not in call:
            scale = np.abs(value).max(initial=1, where=np.isfinite(value))
            np.testing.assert_allclose(found[name], value, rtol=2e-3, atol=2e-4 * scale)


@pytest.mark.parametrize("call", cases.ERRORS)
def test_errors_are_pytorchs(call):
    kind, text = ERRORS[call]
    assert cases.complaint(torch, call) == (kind, text.replace("torch.Size", "tritorch.Size"))


@pytest.mark.device
@pytest.mark.parametrize("call", [c for c in cases.CALLS if "large" not in c and "batch" in c])
def test_on_the_gpu(call):
    cpu, gpu = (cases.run(torch, call, "r", np.float32, device) for device in ("cpu", "cuda"))
    assert set(cpu) == set(gpu)
    for name, value in cpu.items():
        scale = np.abs(value).max(initial=1, where=np.isfinite(value))
        np.testing.assert_allclose(gpu[name], value, rtol=1e-2, atol=1e-3 * scale)


# ---- blocks --------------------------------------------------------------------------------------

RNG = np.random.default_rng(0)


def matrices(*shape: int, dtype=np.float64) -> np.ndarray:
    value = RNG.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        value = value + 1j * RNG.standard_normal(shape)
    return value.astype(dtype)


SIZES = [(1, 1), (9, 9), (100, 100), (3, 20, 20), (70, 33), (2, 40, 70), (4, 1, 5), (4, 5, 1)]


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("shape", SIZES, ids=str)
def test_lu_multiplies_to_the_matrix(shape, dtype):
    a = matrices(*shape, dtype=dtype)
    lu, pivots, info = triangular.lu_factor(a)
    k = min(shape[-2:])
    lower = np.tril(lu[..., :k], -1) + np.eye(shape[-2], k)
    order = triangular.permutation(pivots, shape[-2])
    want = np.take_along_axis(a, order[..., None], -2)
    np.testing.assert_allclose(lower @ np.triu(lu[..., :k, :]), want, atol=1e-11)
    assert np.abs(lower).max() <= 1 + (dtype is np.complex128)  # |re| + |im| decides
    assert not info.any()


@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("shape", [(1, 1), (30, 30), (5, 8, 8)], ids=str)
def test_ldl_solves_indefinite_systems(shape, dtype, hermitian):
    a, b = matrices(*shape, dtype=dtype), matrices(*shape[:-1], 2, dtype=dtype)
    a = a + np.swapaxes(a.conj() if hermitian else a, -1, -2)
    a[..., 0, 0] = 0  # asks for a block of two
    if shape[-1] == 1:
        a[:] = 2
    ld, pivots, info = triangular.ldl_factor(a, hermitian)
    assert not info.any()
    x = triangular.ldl_solve(ld, pivots, b, hermitian)
    np.testing.assert_allclose(a @ x, b, atol=1e-8)


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("n", [1, 7, 48, 130])
def test_triangular_systems(n, upper, unit):
    a, b = matrices(2, n, n) / n + np.eye(n), matrices(2, n, 3)
    used = (np.triu if upper else np.tril)(a)
    if unit:
        used[:, range(n), range(n)] = 1
    x = triangular.solve_triangular(a, b, upper, unit)
    np.testing.assert_allclose(used @ x, b, atol=1e-10)


def test_a_zero_on_the_diagonal_gives_infinities():
    a = torch.tensor([[2.0, 1.0], [0.0, 0.0]])
    x = L.solve_triangular(a, torch.ones(2, 1), upper=True)
    assert not x.isfinite().any()


def test_cofactors_of_singular_matrices():
    a = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [0.0, 1.0, 5.0]])
    want = [[(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, 0), j, 1))
             for j in range(3)] for i in range(3)]  # fmt: skip
    np.testing.assert_allclose(by_numpy.cofactor(a), want, atol=1e-12)
    x = torch.tensor(a, requires_grad=True)
    (g,) = torch.autograd.grad(torch.det(x), x, create_graph=True)
    np.testing.assert_allclose(g.detach(), want, atol=1e-12)
    assert torch.autograd.gradgradcheck(torch.det, x)


# ---- transforms and out= -------------------------------------------------------------------------

UNDER_VMAP = {
    "inv": L.inv, "det": L.det, "solve": lambda a: L.solve(a, a[:, :1]), "lu": L.lu,
    "lu_solve": lambda a: L.lu_solve(*L.lu_factor(a), a),
    "cholesky": lambda a: L.cholesky(a @ a.mT),
    "svdvals": L.svdvals, "pinv": L.pinv, "matrix_exp": L.matrix_exp, "qr": L.qr,
    "matrix_norm": lambda a: L.matrix_norm(a, 2), "cond": L.cond, "eigvalsh": L.eigvalsh,
    "cross": lambda a: L.cross(a, a.mT), "slogdet": L.slogdet, "eigh": L.eigh,
    "solve_triangular": lambda a: L.solve_triangular(a, torch.ones(3, 2).double(), upper=True),
    "lstsq": lambda a: L.lstsq(a, a)[0], "matrix_rank": L.matrix_rank, "ldl": L.ldl_factor,
    "cholesky_solve": lambda a: torch.cholesky_solve(a, a),
}  # fmt: skip


@pytest.mark.parametrize("name", UNDER_VMAP)
def test_vmap(name):
    function = UNDER_VMAP[name]
    x = torch.tensor(matrices(2, 4, 3, 3))
    each = [cases.flat(function(a)) for batch in x for a in batch]
    for got, *want in zip(cases.flat(vmap(vmap(function))(x)), *each, strict=True):
        want = torch.stack(want).reshape(2, 4, *want[0].shape)
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", ["inv", "det", "cholesky", "svdvals", "matrix_norm", "pinv"])
def test_gradients_inside_vmap(name):
    function = UNDER_VMAP[name]
    x = torch.tensor(matrices(4, 3, 3))
    total = lambda a: function(a).sum()
    want = torch.stack([torch.func.grad(total)(a) for a in x])
    np.testing.assert_allclose(vmap(torch.func.grad(total))(x), want, rtol=1e-9, atol=1e-11)


def test_out():
    x = torch.tensor(matrices(2, 3, 3))
    lu, pivots, info = torch.empty(0).double(), torch.empty(0).int(), torch.empty(0).int()
    found = L.lu_factor_ex(x, out=(lu, pivots, info))
    assert found.LU is lu
    assert found.info is info
    assert type(found).__name__.startswith("linalg_lu_factor_ex")
    np.testing.assert_array_equal(lu, L.lu_factor(x).LU)
    out = torch.empty(2, 3, 3).double()
    assert L.inv(x, out=out) is out
    np.testing.assert_array_equal(out, L.inv(x))
    with pytest.raises(RuntimeError, match="to have dtype double, but got int"):
        L.inv(x, out=torch.empty(2, 3, 3).int())


def test_gradients_that_depend_on_a_phase_are_refused():
    x = torch.tensor(matrices(3, 3, dtype=np.complex128), requires_grad=True)
    with pytest.raises(RuntimeError, match="svd_backward: The singular vectors in the complex"):
        L.svd(x).U.real.sum().backward()
    with pytest.raises(RuntimeError, match="linalg_eigh_backward: The eigenvectors in the complex"):
        L.eigh(x + x.mH).eigenvectors.real.sum().backward()
    with pytest.raises(RuntimeError, match="linalg_eig_backward: The eigenvectors in the complex"):
        L.eig(x).eigenvectors.imag.sum().backward()


def test_names_of_nodes_and_results():
    x = torch.tensor(matrices(3, 3), requires_grad=True)
    assert L.inv(x).grad_fn.name() == "LinalgInvExBackward0"
    assert L.svd(x).U.grad_fn.name() == "LinalgSvdBackward0"
    assert repr(torch.slogdet(torch.eye(2))).startswith("tritorch.return_types.slogdet(\nsign=")
    assert issubclass(L.LinAlgError, RuntimeError)


# ---- by random projections and iteration ---------------------------------------------------------


def test_lowrank():
    torch.manual_seed(0)
    x = torch.tensor(matrices(2, 20, 4) @ matrices(2, 4, 30))
    u, s, v = torch.svd_lowrank(x, 6)
    np.testing.assert_allclose(u * s[:, None] @ v.mT, x, atol=1e-9)
    np.testing.assert_allclose(s[:, :4], L.svdvals(x)[:, :4])
    u, s, v = torch.pca_lowrank(x, 5)
    np.testing.assert_allclose(u * s[:, None] @ v.mT, x - x.mean(-2, keepdim=True), atol=1e-9)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("general", [True, False])
def test_lobpcg(general, largest):
    torch.manual_seed(0)
    a, b = matrices(2, 30, 30), matrices(2, 30, 30)
    a = a @ a.swapaxes(-1, -2) + np.eye(30)
    b = (
        b @ b.swapaxes(-1, -2) / 30 + np.eye(30)
        if general
        else np.broadcast_to(np.eye(30), a.shape)
    )
    steps = []
    e, x = torch.lobpcg(
        torch.tensor(a), 2, torch.tensor(b) if general else None, largest=largest, tol=1e-9,
        tracker=lambda state: steps.append(state.ivars["istep"]),
    )  # fmt: skip
    values = np.sort(np.linalg.eigvals(np.linalg.solve(b, a)).real)
    np.testing.assert_allclose(e, values[:, :-3:-1] if largest else values[:, :2], rtol=1e-6)
    np.testing.assert_allclose(a @ x.numpy(), b @ x.numpy() * e.numpy()[:, None], atol=1e-5)
    assert steps


def test_gradients_of_lobpcg():
    a, start = torch.tensor(matrices(8, 8), requires_grad=True), torch.tensor(matrices(8, 2))

    def pairs(a):
        e, x = torch.lobpcg(a, 2, X=start, tol=1e-13, niter=500)
        return e, x.abs()

    assert torch.autograd.gradcheck(pairs, (a,))


def test_what_is_removed_says_so():
    for name in ("symeig", "eig", "lstsq", "solve", "matrix_rank"):
        with pytest.raises(RuntimeError, match="deprecated since version 1.9 and is now removed"):
            getattr(torch, name)(torch.eye(2))
