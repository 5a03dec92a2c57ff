"""lobpcg: some eigenpairs of a large symmetric matrix, by products with it alone."""

from __future__ import annotations

from typing import Any

from tritorch.core import published
from tritorch.core.info import finfo
from tritorch.core.published import PUBLIC
from tritorch.core.tensor import Tensor
from tritorch.ops.linalg.common import factorisation
from tritorch.ops.linalg.spectra import eigh
from tritorch.ops.record.groups import Gradient, Rules
from tritorch.ops.shape.joining import cat, stack

# ---- gradients -----------------------------------------------------------------------------------


def _gradient(g: Any, a: Tensor, e: Tensor, x: Tensor) -> Any:
    """That of eigh, for the pairs that were found; the others come from a whole decomposition."""
    g_e, g_x = g
    found: Any = 0
    if g_e is not None:
        found = x * g_e.unsqueeze(-2)
    if g_x is not None:
        values, vectors = eigh(a)
        gaps = e.unsqueeze(-2) - values.unsqueeze(-1)
        same = gaps.abs() <= 10 * finfo(a.dtype).eps ** 0.5 * values.abs().amax(-1)[..., None, None]
        weights = (1 / gaps.masked_fill(same, 1)).masked_fill(same, 0)
        found = found + vectors @ (weights * (vectors.mH @ g_x))
    return found @ x.mH, None, None


_pairs = factorisation(
    "lobpcg", "a e x",
    schema="(Tensor a, Tensor e, Tensor x) -> (Tensor, Tensor)", cpu=lambda a, e, x: (e, x),
    gpu=lambda a, e, x: (e, x), grad=Gradient(joint=_gradient, outputs=0b11),
    rules=Rules(infer=lambda a, e, x: (e.new(e.shape), x.new(x.shape))),
)  # fmt: skip

# ---- the iteration -------------------------------------------------------------------------------


class LOBPCG:
    """The iteration's state, which a tracker sees after each step.

    S spans the approximations X, their residuals R (times iK) and the directions of the last step;
    the best vectors in it are the next X (Knyazev, 2001).  Its columns are made B-orthonormal, and
    those that add nothing are left out.
    """

    def __init__(
        self, A: Tensor, B: Tensor | None, X: Tensor, iK: Tensor | None, iparams: dict[str, Any],
        fparams: dict[str, Any], bparams: dict[str, Any], tracker: Any,
    ) -> None:  # fmt: skip
        self.A, self.B, self.X, self.iK = A, B, X, iK
        self.iparams, self.fparams, self.bparams, self.tracker = iparams, fparams, bparams, tracker
        self.ivars: dict[str, int] = {"istep": 0, "converged_count": 0, "converged_end": 0}
        self.fvars: dict[str, float] = {}
        self.bvars: dict[str, bool] = {"force_stop": False}
        self.tvars: dict[str, Tensor] = {}
        self.E = A.new_zeros((X.shape[-1],), dtype=A.dtype.to_real())
        self.R = published.public.zeros_like(X)
        self.S = X
        self.fvars["A_norm"] = float((A @ X).norm() / X.norm())
        self.fvars["B_norm"] = float((self._times_b(X)).norm() / X.norm())

    def _times_b(self, x: Tensor) -> Tensor:
        return x if self.B is None else self.B @ x

    def _orthonormal(self, s: Tensor, against: Tensor | None = None) -> Tensor:
        """Columns with the same span, orthonormal with regard to B."""
        for _ in range(2):  # the second time removes what rounding left
            if not s.shape[-1]:
                break
            if against is not None:
                s = s - against @ (against.mH @ self._times_b(s))
            s = s / s.norm(dim=0).clamp(min=finfo(s.dtype).tiny)
            values, vectors = eigh(s.mH @ self._times_b(s))
            kept = values > finfo(s.dtype).eps * s.shape[-1] * values[-1]
            s = (s @ vectors[:, kept]) / values[kept].sqrt()
        return s

    def _ritz(self, s: Tensor, n: int) -> tuple[Tensor, Tensor]:
        """The best n values in a span, and their vectors by its columns."""
        values, vectors = eigh(s.mH @ (self.A @ s))
        if self.bparams["largest"]:
            values, vectors = values.flip(0), vectors.flip(1)
        return values[:n], vectors[:, :n]

    def update(self, directions: Tensor | None) -> Tensor:
        """One step; gives the directions of the next."""
        x = self.X
        w = self.R if self.iK is None else self.iK @ self.R
        more = w if directions is None else cat([w, directions], -1)
        rest = self._orthonormal(more, x)
        self.S = cat([x, rest], -1)
        n = x.shape[-1]
        self.E, found = self._ritz(self.S, n)
        self.X = self.S @ found
        return rest @ found[n:]

    def measure(self) -> None:
        """The residuals, and how many of the pairs that are asked for have converged."""
        a_x, b_x = self.A @ self.X, self._times_b(self.X)
        self.R = a_x - b_x * self.E
        scale = self.fvars["A_norm"] + self.E.abs() * self.fvars["B_norm"]
        error = self.R.norm(dim=0) / (self.X.norm(dim=0) * scale)
        self.tvars["rerr"] = error
        done = (error < self.fparams["tol"]).tolist()
        count = next((i for i, good in enumerate(done) if not good), len(done))
        self.ivars["converged_count"] = self.ivars["converged_end"] = count

    def run(self) -> tuple[Tensor, Tensor]:
        """Steps until enough pairs have converged."""
        self.X = self._orthonormal(self.X)
        n, k, limit = self.X.shape[-1], self.iparams["k"], self.iparams["niter"]
        self.E, found = self._ritz(self.X, n)
        self.X = self.X @ found
        directions = None
        self.measure()
        while not self._stop(k, limit):
            directions = self.update(directions)
            self.measure()
            self.ivars["istep"] += 1
            if self.tracker is not None:
                self.tracker(self)
        return self.E[:k], self.X[:, :k]

    def _stop(self, k: int, limit: int) -> bool:
        if self.bvars["force_stop"] or self.ivars["converged_count"] >= k:
            return True
        return limit >= 0 and self.ivars["istep"] >= limit


def lobpcg(
    A: Tensor, k: int | None = None, B: Tensor | None = None, X: Tensor | None = None,
    n: int | None = None, iK: Tensor | None = None, niter: int | None = None,
    tol: float | None = None, largest: bool | None = None, method: str | None = None,
    tracker: Any = None, ortho_iparams: dict[str, int] | None = None,
    ortho_fparams: dict[str, float] | None = None, ortho_bparams: dict[str, bool] | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The k largest (or smallest) eigenvalues of A x = e B x, and their vectors.

    A and B are symmetric, B positive; X: what to start from (else n random columns), iK: a
    preconditioner.  Both methods are the iteration with an orthonormal basis.
    """
    if A.shape[-2] != A.shape[-1]:
        raise AssertionError(f"A must be square, got shape {A.shape}")
    if B is not None and A.shape != B.shape:
        raise AssertionError(f"A and B must have same shape, got {A.shape} and {B.shape}")
    if method not in (None, "basic", "ortho"):
        raise ValueError(f"Unknown method: {method}")
    m = A.shape[-1]
    k = (1 if X is None else X.shape[-1]) if k is None else k
    n = (k if n is None else n) if X is None else X.shape[-1]
    if m < 3 * n:
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={m}) is smaller than "
            f"3 x the number of requested eigenpairs (={n})"
        )
    wanted = A._requires_grad or (B is not None and B._requires_grad)
    if wanted:
        if B is not None:
            raise ValueError("lobpcg.backward does not support backward with B != I yet")
        A = (A + A.mT) / 2
    a, b = A.detach(), None if B is None else B.detach()
    start = (
        X
        if X is not None
        else published.public.randn(*a.shape[:-1], n, dtype=a.dtype, device=a.device)
    )
    numbers = {"m": m, "n": n, "k": k, "niter": 1000 if niter is None else niter}
    options = {"largest": True if largest is None else largest}
    tolerance = {"tol": finfo(a.dtype).eps ** 0.5 if tol is None else tol}
    numbers.update(ortho_iparams or {})
    options.update(ortho_bparams or {})
    tolerance.update(ortho_fparams or {})

    def solve_one(i: int | None) -> tuple[Tensor, Tensor]:
        of = lambda x: x if x is None or i is None else x.reshape(-1, *x.shape[-2:])[i]
        parts = (of(a), of(b), of(start.detach()), of(iK))
        return LOBPCG(*parts, dict(numbers), dict(tolerance), dict(options), tracker).run()

    if a.ndim == 2:
        values, vectors = solve_one(None)
    else:
        pairs = [solve_one(i) for i in range(a.shape[:-2].numel())]
        values = stack([e for e, _ in pairs]).reshape(*a.shape[:-2], k)
        vectors = stack([x for _, x in pairs]).reshape(*a.shape[:-1], k)
    return _pairs.call((A, values, vectors)) if wanted else (values, vectors)


PUBLIC["lobpcg"] = lobpcg
