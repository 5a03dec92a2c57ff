"""Calls of linear algebra whose results the real torch has recorded (tools/record/linalg.py).

`torch` is either library.  Inputs come from NumPy by name: r real, c complex; what is unique up to
a sign or phase only is made so that it does not matter.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

SHAPES = {
    "a": (3, 3), "b": (3, 2), "batch": (2, 4, 4), "right": (2, 4, 3), "tall": (5, 3),
    "wide": (2, 3, 5), "vector": (4,), "vectors": (2, 4), "none": (0, 3, 3), "zero": (2, 0, 0),
    "flat": (2, 0, 3), "tau": (3,), "large": (70, 70), "points": (2, 3),
    "middle": (12, 12),
}  # fmt: skip

# Values, and gradients of the weighted sum where the call is differentiable.
CALLS = """
    L.inv(batch)
    L.inv(zero)
    L.inv_ex(batch)
    L.inv_ex(batch * singular)[1]
    L.solve(batch, right)
    L.solve(batch, vectors)
    L.solve(batch, right.mT, left=False)
    L.solve(a, b[None].expand(2, 3, 2))
    L.solve_ex(batch, right)
    L.det(batch)
    L.det(zero)
    L.slogdet(batch)
    torch.logdet(batch @ batch.mH)
    L.cholesky(batch @ batch.mH + eye)
    L.cholesky_ex(batch @ batch.mH + eye, upper=True)
    L.cholesky_ex(batch + batch.mH)[1]
    torch.cholesky_inverse(L.cholesky(batch @ batch.mH + eye))
    torch.cholesky_solve(right, L.cholesky(batch @ batch.mH + eye, upper=True), upper=True)
    L.solve_triangular(batch + eye, right, upper=True)
    L.solve_triangular(batch + eye, right.mT, upper=False, left=False, unitriangular=True)
    torch.triangular_solve(right, batch + eye, transpose=True)
    L.lu(batch)
    L.lu(tall)
    L.lu(wide)
    L.lu(zero)
    L.lu_factor(wide)
    L.lu_factor(large)
    L.lu_factor_ex(batch * singular)
    L.lu_solve(*L.lu_factor(batch), right)
    L.lu_solve(*L.lu_factor(batch), right.mT, left=False)
    L.lu_solve(*L.lu_factor(batch), right, adjoint=True)
    L.lu_solve(*L.lu_factor(batch), right.mT, left=False, adjoint=True)
    torch.lu_unpack(*L.lu_factor(tall))
    torch.lu_unpack(*L.lu_factor(tall), unpack_pivots=False)[1:]
    L.ldl_factor(batch + batch.mT)
    L.ldl_factor(batch + batch.mH, hermitian=True)
    L.ldl_factor_ex(large + large.mT)
    L.ldl_solve(*L.ldl_factor(batch + batch.mT), right)
    L.ldl_solve(*L.ldl_factor(batch + batch.mH, hermitian=True), right, hermitian=True)
    L.qr(tall)[1].abs()
    L.qr(flat, mode="complete")
    torch.geqrf(wide)
    L.householder_product(tall, tau)
    torch.ormqr(tall, tau, tall)
    torch.ormqr(tall, tau, tall.mT, left=False, transpose=True)
    L.svdvals(wide)
    L.svd(wide)[1]
    L.svd(flat)
    [x.abs() for x in L.svd(tall, full_matrices=False)]
    torch.svd(flat, some=False)
    torch.svd(tall, compute_uv=False)
    L.eigvalsh(batch, UPLO="U")
    L.eigh(zero)
    [x.abs() for x in L.eigh(batch + batch.mH)]
    L.eigvals(batch).abs().sum()
    [x.abs() for x in L.eig(a)]
    L.pinv(wide)
    L.pinv(tall, rtol=0.5)
    L.pinv(batch + batch.mH, hermitian=True)
    L.pinv(flat)
    torch.pinverse(tall)
    L.matrix_rank(batch * singular)
    L.matrix_rank(tall, atol=2.0)
    L.matrix_rank(batch + batch.mH, hermitian=True, rtol=0.4)
    L.cond(batch)
    L.cond(batch, -2)
    L.cond(batch, "fro")
    L.cond(batch, "nuc")
    L.cond(batch, 1)
    L.cond(batch * singular, float("inf"))
    L.cond(zero)
    L.lstsq(tall, tall)[0]
    L.lstsq(batch, vectors)[0]
    L.lstsq(wide, points, driver="gels")[0]
    L.lstsq(tall, tall[:, :2] + 1, driver="gelsd")
    L.lstsq(batch * singular, right, rcond=1e-3, driver="gelss")
    L.matrix_norm(wide)
    L.matrix_norm(wide, 1, dim=(0, 2), keepdim=True)
    L.matrix_norm(wide, -1)
    L.matrix_norm(wide, float("inf"))
    L.matrix_norm(wide, 2)
    L.matrix_norm(wide, -2, keepdim=True)
    L.matrix_norm(wide, "nuc", dim=(2, 0))
    L.matrix_norm(flat, 1)
    L.norm(wide)
    L.norm(tall, 1)
    L.norm(tau, 3)
    L.norm(wide, 2, dim=1)
    torch.norm(wide, "nuc", dim=(1, 2))
    torch.norm(tall, 0.5)
    torch.nuclear_norm(tall)
    torch.frobenius_norm(wide, (0, 2))
    L.vector_norm(tau * 0)
    L.matrix_norm(a * 0)
    L.matrix_power(batch, 5)
    L.matrix_power(batch, -2)
    L.matrix_power(batch, 0)
    L.matrix_exp(batch)
    L.matrix_exp(batch * 5)
    L.matrix_exp(zero)
    L.multi_dot([vector, batch[0], right[0]])
    torch.chain_matmul(tall, a, b)
    L.vander(vectors, N=5)
    torch.vander(tau.detach())
    torch.vander(tau.detach(), 2, increasing=True)
    torch.vander(tau.detach(), 0)
    L.vecdot(batch, right[:, :, :1])
    L.cross(points, points.flip(0))
    torch.cross(a, a.mT)
    L.tensorinv(middle.reshape(3, 4, 12), ind=2)
    L.tensorsolve(middle.reshape(3, 4, 2, 6), middle[:, 0].reshape(3, 4))
    L.tensorsolve(middle.reshape(2, 3, 4, 6), middle[:, 0].reshape(3, 4), dims=(0, 3))
    L.diagonal(wide, offset=1)
    torch.renorm(wide, 2, 1, 1.5)
    torch.renorm(wide, 1, -1, 2.0)
    L.matmul(wide, tall)
""".strip().splitlines()

ERRORS = """
    L.inv(singular * ones)
    L.inv(ones[0] * 0)
    L.inv(tall)
    L.inv(vector)
    L.inv(ones.int())
    L.inv(ones.half())
    L.inv("x")
    L.inv_ex(ones, check_errors=True)
    torch.inverse(ones[0])
    L.solve(ones, ones)
    L.solve(batch, tall)
    L.solve(batch, batch.double() if batch.dtype == torch.float32 else batch.float())
    L.solve(vector, vector)
    L.solve_ex(ones, ones, check_errors=True)
    L.cholesky(-ones)
    L.cholesky(-ones[0])
    L.cholesky(tall)
    L.cholesky_ex(-ones, check_errors=True)
    torch.cholesky_inverse(ones[0] * 0)
    torch.cholesky_solve(vector, ones)
    torch.cholesky_solve(tall, ones)
    torch.cholesky_inverse(vector)
    L.lu_factor(ones)
    L.lu_factor_ex(ones[0], check_errors=True)
    L.lu_factor(vector)
    L.lu(vector)
    L.lu(ones.int())
    L.lu_solve(ones, pivots.long(), ones)
    L.lu_solve(ones, pivots[:, :1], ones)
    L.lu_solve(ones, pivots, vector)
    L.lu_solve(ones, pivots + 7, ones)
    torch.lu_unpack(ones, pivots.long())
    torch.lu_unpack(ones, pivots + 7)
    L.ldl_factor(vector)
    L.ldl_factor(tall)
    L.ldl_solve(ones, pivots.double(), ones)
    L.ldl_solve(ones, pivots[:, :1], ones)
    L.ldl_solve(ones, pivots, tall)
    L.solve_triangular(ones, vector, upper=True)
    L.solve_triangular(tall, ones, upper=True)
    L.solve_triangular(ones, tall, upper=True)
    L.solve_triangular(ones.int(), ones.int(), upper=True)
    torch.triangular_solve(vector, ones)
    torch.triangular_solve(tall, ones)
    L.svd(nan)
    L.svd(nan[0])
    L.svd(vector)
    L.svd(ones.int())
    L.svd(ones, driver="gesvd")
    L.svdvals(nan)
    torch.svd(vector)
    L.eigh(vector)
    L.eigh(tall)
    L.eigh(ones, UPLO="X")
    L.eigh(ones.int())
    L.eig(nan)
    L.eig(vector)
    L.eig(tall)
    L.eig(ones.int())
    L.eigvals(tall)
    L.eigvalsh(tall)
    L.det(tall)
    L.det(vector)
    L.slogdet(tall)
    torch.logdet(tall)
    L.pinv(vector)
    L.pinv(ones.int())
    L.pinv(tall, hermitian=True)
    L.pinv(tall, atol=torch.tensor(1j))
    L.matrix_rank(vector)
    L.matrix_rank(ones.int())
    L.cond(vector)
    L.cond(tall, 1)
    L.cond(ones, "bad")
    L.cond(ones, 3)
    L.lstsq(ones, vector)
    L.lstsq(ones, ones, driver="x")
    L.lstsq(vector, vector)
    L.lstsq(ones.int(), ones.int())
    L.matrix_norm(vector)
    L.matrix_norm(ones, "x")
    L.matrix_norm(ones, 3)
    L.matrix_norm(ones, 2, dim=(0, 0))
    L.matrix_norm(ones, 2, dim=(0,))
    L.matrix_norm(ones.int())
    L.matrix_norm(ones, dtype=torch.int32)
    L.matrix_norm(ones, dtype=torch.complex128)
    L.matrix_norm(ones, 2, dim=(0, 5))
    L.norm(ones, 2)
    L.norm(ones, "nuc", dim=0)
    L.norm(ones, "fro", dim=(0, 1, 1))
    L.norm(vector, "nuc")
    torch.norm(ones, "x")
    torch.norm(ones, "nuc", dim=(0,))
    L.matrix_power(ones, 1.5)
    L.matrix_power(tall, 2)
    L.matrix_power(ones[0], -1)
    L.matrix_exp(tall)
    L.matrix_exp(ones.int())
    L.multi_dot([ones[0]])
    L.multi_dot([ones[0], vector])
    L.multi_dot([ones[0], ones, ones[0]])
    L.multi_dot([ones[0], ones[0].float()])
    L.multi_dot(ones)
    torch.chain_matmul()
    torch.chain_matmul(vector, vector)
    L.vander(vector, N=1)
    L.vander(vector.bool())
    torch.vander(tall)
    torch.vander(vector, -1)
    L.vecdot(vector, tall)
    L.vecdot(vector, vector.float())
    L.vecdot(vector.int(), vector.int())
    L.cross(vector, tall)
    L.cross(vector, vector)
    torch.cross(vector, vector)
    L.cross(tall.bool(), tall.bool())
    L.tensorinv(tall, ind=0)
    L.tensorinv(tall)
    L.tensorsolve(tall, vector)
    torch.ormqr(vector, vector, vector)
    torch.ormqr(tall, vector[:3], ones[0])
    torch.ormqr(tall, vector[:2], tall.float())
    torch.ormqr(tall, tall, tall)
    L.householder_product(tall.mT, vector)
    L.householder_product(tall, vector)
    L.householder_product(tall, tall)
    L.householder_product(tall, vector[:3].float())
    torch.renorm(vector, 2, 0, 1.0)
    torch.renorm(ones, -1, 0, 1.0)
    torch.renorm(ones, 2, 5, 1.0)
    torch.renorm(ones, 2, 0, -1.0)
    torch.geqrf(vector)
    torch.geqrf(ones.int())
    L.qr(vector)
    L.qr(ones, mode="x")
    torch.lobpcg(ones[0], k=5)
    torch.lobpcg(tall)
    torch.pca_lowrank(tall, q=9)
    L.diagonal(vector)
""".strip().splitlines()

CALLS, ERRORS = [c.strip() for c in CALLS], [c.strip() for c in ERRORS]


def arrays(kind: str, dtype: Any) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    found = {}
    for name, shape in SHAPES.items():
        value = rng.standard_normal(shape)
        if kind == "c":
            value = value + 1j * rng.standard_normal(shape)
        found[name] = value.astype(dtype)
    return found


def names(torch: Any, kind: str, dtype: Any, device: str = "cpu") -> dict[str, Any]:
    """What a call may name: leaves, and constants."""
    tensors = {
        name: torch.tensor(value, device=device).requires_grad_()
        for name, value in arrays(kind, dtype).items()
    }
    like = tensors["batch"].detach()
    mask = np.ones((2, 4, 4))
    mask[1, :, 2] = 0  # the second matrix has a column of zeros
    return {
        **tensors, "torch": torch, "L": torch.linalg,
        "eye": 4 * torch.eye(4, device=device).to(like),
        "singular": torch.tensor(mask, device=device).to(like),
    }  # fmt: skip


def flat(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def weights(shape: Any, i: int) -> np.ndarray:
    """Another weight for each element of an output."""
    return np.cos(np.arange(int(np.prod(shape))) + i).reshape(tuple(shape))


def run(torch: Any, call: str, kind: str, dtype: Any, device: str = "cpu") -> dict[str, Any]:
    """The call's results by number, and its gradients by the inputs' names."""
    world = names(torch, kind, dtype, device)
    if any(name in call for name in ("ldl", "geqrf", "cond")):  # which have none, or a broken one
        world |= {name: world[name].detach() for name in SHAPES}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outs = flat(eval(call, world))
    found = {str(i): out.detach().cpu().resolve_conj().numpy() for i, out in enumerate(outs)}
    total: Any = 0
    for i, out in enumerate(outs):
        if out.requires_grad and out.numel():
            w = torch.tensor(weights(out.shape, i), device=device).to(out.dtype)
            term = (out * w).sum()
            total = total + (term.real if out.is_complex() else term).double()
    if not isinstance(total, int):
        total.backward()
        for name in SHAPES:
            if world[name].grad is not None:
                found[name] = world[name].grad.cpu().resolve_conj().numpy()
    return found


def complaint(torch: Any, call: str) -> tuple[str, str]:
    """The type and message of the error that a call raises."""
    world = {
        name: x.detach() for name, x in names(torch, "r", np.float64).items() if name in SHAPES
    }
    ones = torch.ones(2, 3, 3, dtype=torch.float64)
    nan, singular = ones.clone(), ones.clone()
    nan[1:] = float("nan")
    nan[0] = float("nan") if "nan[0]" in call else nan[0]
    singular[0] = torch.eye(3)
    pivots = torch.tensor([[1, 2, 3]] * 2, dtype=torch.int32)
    world |= {"torch": torch, "L": torch.linalg, "ones": ones, "nan": nan, "pivots": pivots,
              "singular": singular}  # fmt: skip
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            eval(call, world)
    except Exception as error:
        return type(error).__name__.lstrip("_"), str(error).split("\n")[0]
    return "", "no error"
