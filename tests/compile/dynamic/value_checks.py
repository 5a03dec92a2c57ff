"""Calls that are refused for the values of their tensors: a function, valid tensors, and others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tritorch as torch

F, L = torch.nn.functional, torch.linalg


class Case(NamedTuple):
    """A function of tensors; tensors that it takes, and tensors that it refuses."""

    function: Callable[..., Any]
    valid: tuple[Any, ...]
    invalid: tuple[Any, ...]


CASES: dict[str, Case] = {}


def case(name: str, function: Callable[..., Any], valid: Any, invalid: Any) -> None:
    """Adds a case; what is given are lists of numbers, or a single list."""
    sides = (x if isinstance(x, tuple) else (x,) for x in (valid, invalid))
    CASES[name] = Case(function, *sides)


EYE, ZERO = [[2.0, 0.0], [0.0, 3.0]], [[0.0, 0.0], [0.0, 0.0]]
MINUS, DEFECT = [[-1.0, 0.0], [0.0, -1.0]], [[1.0, 2.0], [2.0, 4.0]]
ROWS = [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
NANS = [[float("nan"), 0.0], [0.0, 1.0]]
ONE_ROW = [[9.0, 9.0]]

# ---- indices -------------------------------------------------------------------------------------

for sign, bad in (("large", 7), ("negative", -7)):
    at = lambda *rest, bad=bad: ((ROWS, [1], *rest), (ROWS, [bad], *rest))
    case(f"embedding {sign}", lambda w, i: F.embedding(i, w), *at())
    case(f"embedding scaled {sign}", lambda w, i: F.embedding(i, w, max_norm=1.0), *at())
    case(f"embedding padded {sign}", lambda w, i: F.embedding(i, w, padding_idx=0), *at())
    case(f"embedding_bag {sign}", lambda w, i: F.embedding_bag(i[None], w), *at())
    case(f"index_select {sign}", lambda x, i: x.index_select(0, i), *at())
    case(f"index_select columns {sign}", lambda x, i: x.T.index_select(1, i), *at())
    case(f"index_add {sign}", lambda x, i, y: x.index_add(0, i, y), *at(ONE_ROW))
    case(f"index_add_ {sign}", lambda x, i, y: x.clone().index_add_(0, i, y), *at(ONE_ROW))
    case(f"index_copy {sign}", lambda x, i, y: x.index_copy(0, i, y), *at(ONE_ROW))
    case(f"index_copy_ {sign}", lambda x, i, y: x.clone().index_copy_(0, i, y), *at(ONE_ROW))
    case(f"index_fill {sign}", lambda x, i: x.index_fill(0, i, 2.0), *at())
    case(f"index_reduce {sign}", lambda x, i, y: x.index_reduce(0, i, y, "amax"), *at(ONE_ROW))
    case(f"index_put {sign}", lambda x, i, y: x.index_put((i,), y), *at(ONE_ROW))
    case(f"x[i] {sign}", lambda x, i: x[i], *at())
    case(f"x[:, i] {sign}", lambda x, i: x.T[:, i], *at())
    case(f"x[i, j] {sign}", lambda x, i: x[i, i * 0], *at())
    case(f"x[i] = y {sign}", lambda x, i: torch.clone(x).index_put_((i,), x[:1]), *at())
    case(f"take {sign}", lambda x, i: x.take(i), *at())
    case(f"put {sign}", lambda x, i, y: x.put(i, y), *at([9.0]))
    case(f"gather {sign}", lambda x, i: x.gather(0, i[None]), *at())
    case(f"take_along_dim {sign}", lambda x, i: torch.take_along_dim(x, i[None], 0), *at())
    case(f"scatter {sign}", lambda x, i: x.scatter(0, i[None], 3.0), *at())
    case(f"scatter of a tensor {sign}", lambda x, i, y: x.scatter(0, i[None], y), *at(ONE_ROW))
    case(f"scatter_add {sign}", lambda x, i, y: x.scatter_add(0, i[None], y), *at(ONE_ROW))
    case(f"scatter_reduce {sign}",
         lambda x, i, y: x.scatter_reduce(0, i[None], y, "amax"), *at(ONE_ROW))  # fmt: skip
    case(f"cross_entropy {sign}", lambda x, i: F.cross_entropy(x[:1], i), *at())
    case(f"cross_entropy smooth {sign}",
         lambda x, i: F.cross_entropy(x[:1], i, label_smoothing=0.1), *at())  # fmt: skip
    case(f"nll_loss {sign}", lambda x, i: F.nll_loss(x[:1], i), *at())
    case(f"nll_loss rows {sign}", lambda x, i: F.nll_loss(x[:1], i, reduction="none"), *at())
    case(f"one_hot {sign}", lambda x, i: F.one_hot(i, 3) * x[:1, :1], *at())
    case(f"select_scatter of rows {sign}",
         lambda x, i, y: x.index_put((i,), y, accumulate=True), *at(ONE_ROW))  # fmt: skip
    case(f"multi_margin_loss {sign}", lambda x, i: F.multi_margin_loss(x[:1], i), *at())
    case(f"max_unpool {sign}", lambda x, i: F.max_unpool1d(x[:1, :1], i[None], 2), *at())
    case(f"lu_unpack {sign}", lambda x, i: torch.lu_unpack(x, i.int())[1],
         (EYE, [1, 2]), (EYE, [1, bad]))  # fmt: skip

case("one_hot without classes", lambda i: F.one_hot(i), [0, 1], [-1, 0])
case("bincount", lambda i: torch.bincount(i, minlength=3), [0, 1], [-1, 0])
case("repeat_interleave", lambda x, n: torch.repeat_interleave(x, n, output_size=3),
     ([1.0, 2.0], [1, 2]), ([1.0, 2.0], [-1, 4]))  # fmt: skip
case("masked_scatter", lambda x, m, y: x.masked_scatter(m, y),
     ([1.0, 2.0, 3.0], [True, False, False], [7.0]),
     ([1.0, 2.0, 3.0], [True, True, False], [7.0]))  # fmt: skip
case("masked_scatter_", lambda x, m, y: x.clone().masked_scatter_(m, y),
     ([1.0, 2.0, 3.0], [True, False, False], [7.0]),
     ([1.0, 2.0, 3.0], [True, True, False], [7.0]))  # fmt: skip
case("segment_reduce", lambda x, n: torch.segment_reduce(x, "sum", lengths=n),
     ([1.0, 2.0, 3.0], [1, 2]), ([1.0, 2.0, 3.0], [1, 1]))  # fmt: skip

# ---- matrices ------------------------------------------------------------------------------------

for name, singular in (("zero", ZERO), ("of rank one", DEFECT)):
    both = (EYE, singular)
    case(f"inv {name}", L.inv, *both)
    case(f"inverse {name}", lambda a: a.inverse(), *both)
    case(f"inv_ex {name}", lambda a: L.inv_ex(a, check_errors=True)[0], *both)
    case(f"solve {name}", lambda a: L.solve(a, a[:, :1] * 0 + 1), *both)
    case(f"solve_ex {name}", lambda a: L.solve_ex(a, a * 0, check_errors=True)[0], *both)
    case(f"tensorinv {name}", lambda a: L.tensorinv(a, 1), *both)
    case(f"tensorsolve {name}", lambda a: L.tensorsolve(a, a[0] * 0 + 1), *both)
    case(f"matrix_power {name}", lambda a: L.matrix_power(a, -2), *both)
case("lu_factor", lambda a: L.lu_factor(a)[0], EYE, ZERO)
case("torch.lu", lambda a: a.lu()[0], EYE, ZERO)
case("lu_factor_ex", lambda a: L.lu_factor_ex(a, check_errors=True)[0], EYE, ZERO)
case("ldl_factor", lambda a: L.ldl_factor(a)[0], EYE, ZERO)
case("ldl_factor_ex", lambda a: L.ldl_factor_ex(a, check_errors=True)[0], EYE, ZERO)
case("ldl_solve", lambda a, p: L.ldl_solve(a, p, a * 0 + 1), (EYE, [1, 2]), (EYE, [1, 7]))
case("lu_solve", lambda a, p: L.lu_solve(a, p.int(), a * 0 + 1), (EYE, [1, 2]), (EYE, [1, 7]))
for name, indefinite in (("negative", MINUS), ("zero", ZERO)):
    both = (EYE, indefinite)
    case(f"cholesky {name}", torch.linalg.cholesky, *both)
    case(f"torch.cholesky {name}", lambda a: torch.cholesky(a), *both)
    case(f"cholesky upper {name}", lambda a: L.cholesky(a, upper=True), *both)
    case(f"cholesky_ex {name}", lambda a: L.cholesky_ex(a, check_errors=True)[0], *both)
case("cholesky_inverse", torch.cholesky_inverse, EYE, ZERO)
case("cholesky of a batch", lambda a: L.cholesky(a[None].expand(2, 2, 2)), EYE, MINUS)
case("inv into a buffer", lambda a: L.inv(a.detach(), out=torch.empty_like(a)) * a, EYE, ZERO)
case("eigvals", lambda a: L.eigvals(a.detach()).real, EYE, NANS)
case("eig", lambda a: L.eig(a.detach())[0].real, EYE, NANS)
case("eigh", lambda a: L.eigh(a)[0], EYE, NANS)
case("eigvalsh", L.eigvalsh, EYE, NANS)
case("svd", lambda a: L.svd(a)[1], EYE, NANS)
case("svdvals", L.svdvals, EYE, NANS)
case("pinv", L.pinv, EYE, NANS)
case("matrix_rank", lambda a: L.matrix_rank(a) + 0 * a.sum(), EYE, NANS)
case("cond", lambda a: L.cond(a), EYE, NANS)
case("nuclear norm", lambda a: L.matrix_norm(a, "nuc"), EYE, NANS)

# ---- other values --------------------------------------------------------------------------------

case("binary_cross_entropy", lambda x: F.binary_cross_entropy(x, x.detach() * 0), [0.5], [1.5])
case("gaussian_nll_loss", lambda x, v: F.gaussian_nll_loss(x, x.detach(), v),
     ([0.5], [1.0]), ([0.5], [-1.0]))  # fmt: skip
case("bernoulli", lambda p: torch.bernoulli(p) + p, [0.5], [1.5])
case("normal of deviations", lambda s: torch.normal(0.0, s) + s, [0.5], [-0.5])
case("normal of both", lambda m, s: torch.normal(m, s) + s, ([0.0], [0.5]), ([0.0], [-0.5]))
case("multinomial", lambda p: torch.multinomial(p, 1) + p, [0.5, 0.5], [-0.5, 0.5])
case("multinomial of nothing", lambda p: torch.multinomial(p, 1) + p, [0.5, 0.5], [0.0, 0.0])
case("poisson", lambda p: torch.poisson(p) + p, [0.5], [-0.5])
case("quantile", lambda x, q: torch.quantile(x, q), ([1.0, 2.0], [0.5]), ([1.0, 2.0], [1.5]))
case("nanquantile", lambda x, q: torch.nanquantile(x, q), ([1.0, 2.0], [0.5]), ([1.0, 2.0], [-1.0]))
case("integer division", lambda a, b: torch.floor_divide(a, b), ([4, 5], [2, 3]), ([4, 5], [2, 0]))
case("integer remainder", lambda a, b: a % b, ([4, 5], [2, 3]), ([4, 5], [2, 0]))
case("integer fmod", lambda a, b: a.fmod(b), ([4, 5], [2, 3]), ([4, 5], [2, 0]))
case("integer truncation", lambda a, b: torch.div(a, b, rounding_mode="trunc"),
     ([4, 5], [2, 3]), ([4, 5], [2, 0]))  # fmt: skip
case("ctc_loss", lambda x, t: F.ctc_loss(x.log_softmax(1)[:, None], t[None], (3,), (1,)),
     (ROWS, [1]), (ROWS, [7]))  # fmt: skip
case("cov of weights", lambda x, w: torch.cov(x, aweights=w),
     ([1.0, 2.0], [1.0, 1.0]), ([1.0, 2.0], [-1.0, 1.0]))  # fmt: skip
case(
    "cov of counts",
    lambda x, w: torch.cov(x, fweights=w),
    ([1.0, 2.0], [1, 1]),
    ([1.0, 2.0], [-1, 1]),
)
case("istft", lambda x, w: torch.istft(torch.view_as_complex(x), 4, 2, window=w, center=False),
     ([[[1.0, 0.0]] * 3] * 3, [1.0] * 4), ([[[1.0, 0.0]] * 3] * 3, [0.0] * 4))  # fmt: skip
case("histc", lambda x: torch.histc(x.detach(), 3) + x.sum(), [1.0, 2.0], [1.0, float("nan")])
case(
    "histogram",
    lambda x: torch.histogram(x.detach(), 3)[0] + x.sum(),
    [1.0, 2.0],
    [1.0, float("inf")],
)
case("_assert_async", lambda x: (torch._assert_async(x.detach() > 0), x * 2)[1], [1.0], [-1.0])
