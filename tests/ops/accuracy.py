"""Pointwise functions, reductions and scans on hard inputs, and their exact values.

The table is read by test_accuracy.py (against float64 of our own) and by
tools/accuracy_sweep.py (against mpmath; it also runs the same calls in PyTorch).  A function gets
the module to call, which is tritorch or torch, and tensors.  Inputs come in groups, each compared
on its own, so that one hard group does not excuse the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]
KINDS = ("float16", "bfloat16", "float32", "float64")
Wide = np.longdouble
COUNT = 32  # inputs of a group: PyTorch's recorded errors are those of the same


@dataclass(frozen=True)
class Case:
    """A function, the inputs that it is for, and its exact value.

    exact: of pointwise functions, by mpmath's numbers (its first argument is mpmath); of others, by
    arrays of long doubles.  zeros: where its result is 0 or 1 or has a kink.  ends: the magnitudes
    between which inputs lie; signed: on both sides of 0.
    """

    name: str
    function: Callable[..., Any]
    exact: Callable[..., Any]
    inputs: int = 1
    zeros: tuple[float, ...] = ()
    ends: tuple[float, float] = (0.0, np.inf)
    signed: bool = True
    second: tuple[float, ...] | None = None  # what the second of two inputs is chosen from
    along: bool = False  # a reduction or a scan: along dim 1
    terms: Callable[..., Any] | None = None  # what is added up, of a sum; its largest term, else
    floor: float = 0.0  # errors are counted at this size at least: results near 0 come by chance
    records: str = ""  # the records that it computes, where they are not named like the case

    def __str__(self) -> str:
        return self.name


def dtype(kind: str) -> Any:
    """NumPy's dtype of a kind."""
    return np.dtype(ml_dtypes.bfloat16 if kind == "bfloat16" else kind)


def rounded(x: Array, kind: str) -> Array:
    """Float64 numbers with the values of a kind."""
    with np.errstate(over="ignore"):
        return np.asarray(x, np.float64).astype(dtype(kind)).astype(np.float64)


def spacing(x: Array, kind: str) -> Array:
    """One unit in the last place at x, that of the smallest normal number below it."""
    info = ml_dtypes.finfo(dtype(kind))
    least = Wide(float(info.smallest_normal))
    size = np.maximum(np.abs(x.astype(Wide)), least)
    return np.ldexp(Wide(1), np.frexp(size)[1] - 1 - info.nmant)


def off(
    got: Array, exact: Array, kind: str, terms: Array | None = None, floor: float = 0.0
) -> float:
    """The largest error in units in the last place; infinite for a NaN or an infinity too many.

    terms: what was added up, along dim 1, or the size of the largest term of each number.  Where
    they cancel, an error is measured by the largest sum on the way, or by that term.
    Left out: where the exact value is none, or so near the largest number that it may be either.
    """
    exact, got = exact.astype(Wide), got.astype(Wide)
    size = np.maximum(np.abs(exact), floor)
    if terms is not None and terms.ndim == 1:
        size = np.maximum(size, np.abs(terms))
    elif terms is not None:
        sums = np.abs(np.add.accumulate(terms[: len(size)].astype(Wide), 1))
        sums = np.maximum.accumulate(sums, 1)
        size = np.maximum(size, sums[:, -exact.shape[1] :] if exact.ndim == 2 else sums[:, -1])
    largest = Wide(float(ml_dtypes.finfo(dtype(kind)).max))
    beyond = np.abs(exact) > largest
    counted = np.isfinite(exact) & (np.abs(exact / largest - np.sign(exact)) > 1e-2)
    if not counted.any():
        return 0.0
    exact, got, beyond, size = exact[counted], got[counted], beyond[counted], size[counted]
    with np.errstate(invalid="ignore"):
        error = np.abs(got - exact) / spacing(size, kind)
    error = np.where(beyond, np.where(got == np.sign(exact) * np.inf, 0, np.inf), error)
    return float(np.max(np.where(np.isnan(error), np.inf, error)))


# ---- inputs --------------------------------------------------------------------------------------

GROUPS = {
    "tiny": (-40, -14),
    "small": (-14, -1),
    "middle": (-1, 3),
    "large": (3, 10),
    "huge": (10, 1000),
}  # fmt: skip  powers of two


def numbers(case: Case, kind: str, count: int) -> Iterator[tuple[str, tuple[Array, ...]]]:
    """Groups of inputs of a pointwise function, by magnitude and around the places of `zeros`."""
    rng = np.random.default_rng(0)
    info = ml_dtypes.finfo(dtype(kind))
    for name, (low, high) in GROUPS.items():
        if name == "tiny":
            low = max(-100, int(info.minexp))
        size = 2 ** rng.uniform(low, min(high, int(info.maxexp) - 1e-6), count)
        size = np.clip(size, *case.ends)
        sign = rng.choice([-1.0, 1.0], count) if case.signed else np.ones(count)
        x = rounded(size * sign, kind)
        kept = (np.abs(x) >= case.ends[0]) & (np.abs(x) <= case.ends[1]) & (x != 0)
        if kept.sum() * 2 >= count:
            yield name, _beside(case, x[kept], kind, rng)
    if case.zeros:
        steps = 2.0 ** -np.arange(1, int(info.nmant) + 2, max(1, int(info.nmant) // 12))
        near = [z * (1 + s) if z else s for z in case.zeros for s in (*steps, *-steps, 0)]
        yield "zeros", _beside(case, rounded(np.array(near), kind), kind, rng)


def _beside(case: Case, x: Array, kind: str, rng: Any) -> tuple[Array, ...]:
    """The other inputs: chosen from `second`, or near x, or of any magnitude."""
    rest = []
    for _ in range(case.inputs - 1):
        if case.second is not None:
            y = rng.choice(case.second, len(x))
        else:
            y = np.abs(x) * 2 ** rng.uniform(-6, 6, len(x))
            near = np.abs(x) * (1 + rng.uniform(-1, 1, len(x)) / 64)
            y = np.where(rng.random(len(x)) < 0.3, near, y)
            y = y * (rng.choice([-1.0, 1.0], len(x)) if case.signed else 1)
        rest.append(rounded(y, kind))
    return (x, *rest)


def rows(kind: str, long: int) -> Iterator[tuple[str, tuple[Array, ...]]]:
    """Groups of matrices whose rows are reduced."""
    rng = np.random.default_rng(0)
    size = 300.0 if kind == "float16" else 1e4
    normal = rng.standard_normal((16, 1000))
    yield "normal", (normal,)
    yield "uniform", (rng.random((16, 1000)),)
    yield "near one", (1 + rng.uniform(-1, 1, (16, 1000)) / 64,)
    half = np.abs(rng.standard_normal((32, 500))) * 8
    yield "cancelling", (rng.permuted(np.concatenate([half, -half * (1 + 2.0**-6)], 1), axis=1),)
    yield "far from zero", (size + normal,)
    yield "wide", (normal * 2.0 ** rng.uniform(-6, 6, normal.shape),)
    yield "rising", (np.sort(normal * 8, 1),)
    yield "ones", (np.ones((1, long)),)
    yield "long", (rng.random((2, long)) + 0.5,)


# ---- exact values --------------------------------------------------------------------------------


def _sum(x: Array, axis: int = 1) -> Array:
    """Sums of long doubles, in halves."""
    while x.shape[axis] > 1:
        n = x.shape[axis] // 2
        first, second, left = np.split(x, [n, 2 * n], axis)
        x = first + second
        if left.shape[axis]:
            x = np.concatenate([x, left], axis)
    return x.squeeze(axis)


def _prod(x: Array) -> Array:
    return np.multiply.reduce(x, 1, dtype=Wide)


def _var(x: Array) -> Array:
    mean = _sum(x) / x.shape[1]
    return _sum((x - mean[:, None]) ** 2) / (x.shape[1] - 1)


def _logsumexp(x: Array) -> Array:
    top = x.max(1)
    return top + np.log(_sum(np.exp(x - top[:, None])))


def _norm(p: float) -> Callable[[Array], Array]:
    return lambda x: _sum(np.abs(x) ** Wide(p)) ** (1 / Wide(p))


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / _sum(e)[:, None]


def _logcumsumexp(x: Array) -> Array:
    y = np.empty_like(x)
    top, total = np.full(len(x), -np.inf, Wide), np.zeros(len(x), Wide)
    for i in range(x.shape[1]):
        higher = np.maximum(top, x[:, i])
        total = total * np.exp(top - higher) + np.exp(x[:, i] - higher)
        top = higher
        y[:, i] = top + np.log(total)
    return y


def tanhshrink(m: Any, x: Any) -> Any:
    return x**3 / 3 - 2 * x**5 / 15 if abs(x) < 2.0**-40 else x - m.tanh(x)


def gelu_tanh(m: Any, x: Any) -> Any:
    return x / (1 + m.exp(-2 * m.sqrt(2 / m.pi) * (x + m.mpf("0.044715") * x**3)))


def softplus(m: Any, x: Any) -> Any:
    return x if x > 20 else m.log1p(m.exp(x))


def logaddexp(m: Any, a: Any, b: Any) -> Any:
    return max(a, b) + m.log1p(m.exp(-abs(a - b)))


def polynomial(kind: str) -> Callable[..., Any]:
    """By their definitions; shifted ones of 2 x - 1."""

    def exact(m: Any, x: Any, n: Any) -> Any:
        if kind.startswith("shifted_"):
            x = 2 * x - 1
        n = int(n)
        family = kind.removeprefix("shifted_")
        first = {"chebyshev_polynomial_t": x, "chebyshev_polynomial_u": 2 * x,
                 "chebyshev_polynomial_v": 2 * x - 1, "chebyshev_polynomial_w": 2 * x + 1,
                 "hermite_polynomial_h": 2 * x, "hermite_polynomial_he": x,
                 "laguerre_polynomial_l": 1 - x, "legendre_polynomial_p": x}[family]  # fmt: skip
        before, here = m.mpf(1), first
        if n == 0:
            return before
        for k in range(1, n):
            after = {
                "c": 2 * x * here - before,
                "hermite_polynomial_h": 2 * x * here - 2 * k * before,
                "hermite_polynomial_he": x * here - k * before,
                "laguerre_polynomial_l": ((2 * k + 1 - x) * here - k * before) / (k + 1),
                "legendre_polynomial_p": ((2 * k + 1) * x * here - k * before) / (k + 1),
            }["c" if family.startswith("c") else family]
            before, here = here, after
        return here

    return exact


def selu(m: Any, x: Any) -> Any:
    scale = m.mpf("1.0507009873554804934193349852946")
    alpha = m.mpf("1.6732632423543772848170429916717")
    return scale * (x if x > 0 else alpha * m.expm1(x))


def igamma(m: Any, a: Any, x: Any) -> Any:
    return m.gammainc(a, 0, x, regularized=True)


def igammac(m: Any, a: Any, x: Any) -> Any:
    return m.gammainc(a, x, m.inf, regularized=True)


# ---- the table -----------------------------------------------------------------------------------

C = Case
INF = float("inf")
SMALL = (1e-3, 20.0)


def plain(name: str, exact: Callable[..., Any] | None = None, **more: Any) -> Case:
    """A function of torch by its name, and mpmath's of the same name unless another is given."""
    return C(
        name, lambda t, *xs: getattr(t, name)(*xs),
        exact or (lambda m, *xs: getattr(m, name)(*xs)), **more,
    )  # fmt: skip


def special(name: str, exact: Callable[..., Any], **more: Any) -> Case:
    more.setdefault("records", f"special_{name}")
    return C(f"special.{name}", lambda t, *xs: getattr(t.special, name)(*xs), exact, **more)


def functional(name: str, exact: Callable[..., Any], *args: Any, **more: Any) -> Case:
    return C(f"F.{name}" + "".join(f" {a}" for a in args),
             lambda t, *xs: getattr(t.nn.functional, name)(*xs, *args), exact,
             **{"records": name, **more})  # fmt: skip


def along(
    name: str, function: Callable[..., Any], exact: Callable[..., Any], records: str = "",
    terms: Callable[..., Any] | None = None, floor: float = 0.0,
) -> Case:  # fmt: skip
    return C(name, function, exact, along=True, records=records, terms=terms, floor=floor)


POINTWISE = [
    plain("add", lambda m, a, b: a + b, inputs=2),
    plain("sub", lambda m, a, b: a - b, inputs=2),
    plain("mul", lambda m, a, b: a * b, inputs=2, ends=(1e-4, 1e4)),
    plain("div", lambda m, a, b: a / b, inputs=2),
    plain("remainder", lambda m, a, b: a - b * m.floor(a / b), inputs=2, ends=(1e-6, 1e6)),
    plain("fmod", lambda m, a, b: a - b * (m.floor(a / b) if a / b > 0 else m.ceil(a / b)),
          inputs=2, ends=(1e-6, 1e6)),
    plain("pow", lambda m, a, b: a**b, inputs=2, signed=False, ends=(1e-3, 1e3),
          second=(-7.3, -2.0, -1.0, -0.5, 0.3, 0.5, 1.5, 2.0, 3.0, 11.7), zeros=(1.0,)),
    C("pow of a number", lambda t, x: t.pow(1.7, x), lambda m, x: m.mpf(1.7) ** x, ends=(0, 300),
      records="pow_of_number"),
    *(C(f"pow {p}", lambda t, x, p=p: x**p, lambda m, x, p=p: x ** m.mpf(p), signed=False,
        ends=(1e-2, 1e2), records="pow") for p in (2, 3, -1, -2, 0.5, -0.5, 1.75)),
    plain("atan2", inputs=2, zeros=(1.0,)),
    plain("hypot", inputs=2),
    plain("logaddexp", logaddexp, inputs=2, ends=(1e-3, 1e3)),
    plain("logaddexp2", lambda m, a, b: logaddexp(m, a * m.ln2, b * m.ln2) / m.ln2, inputs=2,
          ends=(1e-3, 1e3)),
    plain("xlogy", lambda m, a, b: a * m.log(b), inputs=2, signed=False, zeros=(1.0,)),
    special("xlog1py", lambda m, a, b: a * m.log1p(b), inputs=2, signed=False),
    plain("lerp", lambda m, a, b, w: a + w * (b - a), inputs=3, ends=(1e-3, 1e3),
          terms=lambda a, b, w: np.abs(a) + np.abs(b) + np.abs(w * (b - a))),
    plain("addcmul", lambda m, x, a, b: x + a * b, inputs=3, ends=(1e-3, 1e2),
          terms=lambda x, a, b: np.maximum(np.abs(x), np.abs(a * b))),
    plain("addcdiv", lambda m, x, a, b: x + a / b, inputs=3, ends=(1e-3, 1e2),
          terms=lambda x, a, b: np.maximum(np.abs(x), np.abs(a / b))),
    plain("square", lambda m, x: x * x),
    plain("sqrt", signed=False, zeros=(1.0,)),
    plain("rsqrt", lambda m, x: 1 / m.sqrt(x), signed=False, zeros=(1.0,)),
    plain("reciprocal", lambda m, x: 1 / x, zeros=(1.0,)),
    plain("frac", lambda m, x: x - (m.floor(x) if x > 0 else m.ceil(x)), zeros=(1.0, 2.0)),
    plain("exp", zeros=(0.0,)),
    plain("exp2", lambda m, x: m.mpf(2) ** x, zeros=(0.0, 1.0), ends=(0, 2000)),
    plain("expm1", zeros=(0.0,)),
    plain("log", signed=False, zeros=(1.0,)),
    plain("log2", lambda m, x: m.log(x, 2), signed=False, zeros=(1.0, 2.0, 8.0)),
    plain("log10", lambda m, x: m.log10(x), signed=False, zeros=(1.0, 10.0)),
    plain("log1p", zeros=(0.0, -1.0)),
    plain("sin", zeros=(0.0, np.pi, 2 * np.pi, 22.0)),
    plain("cos", zeros=(np.pi / 2, 3 * np.pi / 2, 11.0, 0.0)),
    plain("tan", zeros=(np.pi, np.pi / 2, 11.0)),
    plain("asin", zeros=(1.0, -1.0, 0.5)),
    plain("acos", zeros=(1.0, -1.0, 0.5)),
    plain("atan", zeros=(1.0, 0.66, 2.414)),
    plain("sinh", zeros=(0.0, 1.0)),
    plain("cosh", zeros=(0.0, 1.0)),
    plain("tanh", zeros=(0.0, 0.5)),
    plain("asinh", zeros=(0.0, 1.0)),
    plain("acosh", signed=False, zeros=(1.0,)),
    plain("atanh", zeros=(1.0, 0.5)),
    plain("sinc", lambda m, x: m.sinc(m.pi * x), ends=(0, 0.75)),
    plain("deg2rad", lambda m, x: x * m.pi / 180),
    plain("rad2deg", lambda m, x: x * 180 / m.pi),
    plain("sigmoid", lambda m, x: 1 / (1 + m.exp(-x)), zeros=(0.0,)),
    plain("erf", zeros=(0.0, 1.0)),
    plain("erfc", zeros=(0.0, 0.5, 1.0, 2.0), ends=(0, 200)),
    plain("erfinv", zeros=(1.0, 0.5)),
    plain("lgamma", lambda m, x: m.log(abs(m.gamma(x))) if abs(x) < 1e4 else m.loggamma(x),
          ends=(0, 1e9), zeros=(1.0, 2.0, -2.457024738220800, -1.0, -2.0)),
    plain("digamma", lambda m, x: m.psi(0, x), ends=(0, 1e9),
          zeros=(1.4616321449683623, -0.504083008264455, -1.0, -2.0)),
    *(C(f"polygamma {n}", lambda t, x, n=n: t.polygamma(n, x), lambda m, x, n=n: m.psi(n, x),
        ends=(1e-3, 1e6), signed=False, records="polygamma") for n in (1, 2)),
    C("mvlgamma", lambda t, x: t.mvlgamma(x, 2),
      lambda m, x: m.log(m.pi) / 2 + m.loggamma(x) + m.loggamma(x - 0.5), ends=(0.6, 1e6),
      signed=False, records="lgamma"),
    plain("i0", lambda m, x: m.besseli(0, x), ends=(0, 80)),
    special("i0e", lambda m, x: m.besseli(0, x) * m.exp(-abs(x)), ends=(0, 1e3)),
    special("i1", lambda m, x: m.besseli(1, x), ends=(0, 80)),
    special("i1e", lambda m, x: m.besseli(1, x) * m.exp(-abs(x)), ends=(0, 1e3)),
    special("erfcx", lambda m, x: m.exp(x * x) * m.erfc(x), ends=(0, 25)),
    special("ndtri", lambda m, x: m.sqrt(2) * m.erfinv(2 * x - 1), signed=False, ends=(1e-3, 1),
            zeros=(0.5,)),
    special("ndtr", lambda m, x: m.ncdf(x), ends=(0, 37), records="erfc"),
    special("log_ndtr", lambda m, x: m.log(m.ncdf(x)) if x < 5 else m.log1p(-m.ncdf(-x)),
            ends=(0, 100)),
    special("entr", lambda m, x: -x * m.log(x), signed=False, zeros=(1.0,)),
    special("airy_ai", lambda m, x: m.airyai(x), ends=(0, 20), zeros=(-2.3381074104597674,)),
    *(special(f"bessel_{k}{n}", lambda m, x, k=k, n=n: getattr(m, f"bessel{k}")(n, x),
              ends=(0, 100), signed=k == "j", zeros=z)
      for k, n, z in (("j", 0, (2.404825557695773,)), ("j", 1, (3.8317059702075125,)),
                      ("y", 0, ()), ("y", 1, ()))),
    *(special(f"modified_bessel_{k}{n}", lambda m, x, k=k, n=n: getattr(m, f"bessel{k}")(n, x),
              ends=(0, 80), signed=k == "i") for k in "ik" for n in (0, 1)),
    *(special(f"scaled_modified_bessel_k{n}", lambda m, x, n=n: m.besselk(n, x) * m.exp(x),
              ends=(0, 80), signed=False) for n in (0, 1)),
    special("spherical_bessel_j0", lambda m, x: m.sinc(x), ends=(0, 1e3), zeros=(np.pi,)),
    special("zeta", lambda m, s, q: m.zeta(s, q), inputs=2, signed=False, ends=(1.05, 30.0),
            second=(0.3, 1.0, 2.5, 7.0, 30.0)),
    plain("igamma", igamma, inputs=2, signed=False, ends=(0.05, 300.0)),
    plain("igammac", igammac, inputs=2, signed=False, ends=(0.05, 300.0)),
    *(special(name, polynomial(name), inputs=2, ends=(1e-2, 3.0), second=(0, 1, 2, 3, 5, 7))
      for name in ("chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v",
                   "chebyshev_polynomial_w", "hermite_polynomial_h", "hermite_polynomial_he",
                   "laguerre_polynomial_l", "legendre_polynomial_p",
                   "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u",
                   "shifted_chebyshev_polynomial_v", "shifted_chebyshev_polynomial_w")),
    plain("logit", lambda m, x: m.log(x) - m.log1p(-x), signed=False, zeros=(0.5, 1.0)),
    functional("gelu", lambda m, x: x * m.ncdf(x), ends=(0, 12), zeros=(0.0,)),
    C("F.gelu tanh", lambda t, x: t.nn.functional.gelu(x, approximate="tanh"), gelu_tanh,
      ends=(0, 5), records="gelu_tanh"),
    functional("silu", lambda m, x: x / (1 + m.exp(-x)), zeros=(0.0,)),
    functional("logsigmoid", lambda m, x: -m.log1p(m.exp(-x)), records="log_sigmoid"),
    functional("elu", lambda m, x: x if x > 0 else m.expm1(x)),
    functional("celu", lambda m, x, a=1.5: x if x > 0 else a * m.expm1(x / a), 1.5),
    functional("selu", selu, records="elu"),
    functional("hardswish", lambda m, x: x * min(max(x + 3, 0), 6) / 6, zeros=(-3.0, 3.0)),
    functional("hardsigmoid", lambda m, x: min(max(x + 3, 0), 6) / m.mpf(6), zeros=(-3.0, 3.0)),
    functional("mish", lambda m, x: x * m.tanh(m.log1p(m.exp(x))) if x < 40 else x, zeros=(0.0,)),
    functional("softplus", softplus),
    functional("leaky_relu", lambda m, x: x if x > 0 else x * m.mpf(0.01)),
    functional("softshrink", lambda m, x: m.sign(x) * max(abs(x) - m.mpf(0.5), 0),
               zeros=(0.5, -0.5)),
    functional("tanhshrink", tanhshrink, records="tanh", zeros=(0.0,)),
    functional("softsign", lambda m, x: x / (1 + abs(x)), records="div"),
]  # fmt: skip


def same(x: Array) -> Array:
    return x


def part(x: Array) -> Array:
    return x / x.shape[1]


def _trapezoid(x: Array) -> Array:
    return _sum((x[:, 1:] + x[:, :-1]) / 2)


ALONG = [
    along("sum", lambda t, x: x.sum(1), _sum, terms=same),
    along("sum of columns", lambda t, x: x.t().contiguous().sum(0), _sum, "sum sum_dim",
          terms=same),
    along("sum of all", lambda t, x: x[:1].sum()[None], lambda x: _sum(x[:1]), "sum", terms=same),
    along("mean", lambda t, x: x.mean(1), lambda x: _sum(x) / x.shape[1], "mean mean_dim", part),
    along("nansum", lambda t, x: x.nansum(1), _sum, terms=same),
    along("prod", lambda t, x: x.prod(1), _prod, "prod prod_dim"),
    along("var", lambda t, x: x.var(1), _var),
    along("var_mean", lambda t, x: t.var_mean(x, 1)[1], lambda x: _sum(x) / x.shape[1],
          terms=part),
    along("std", lambda t, x: x.std(1), lambda x: np.sqrt(_var(x)), "std_sqrt"),
    along("logsumexp", lambda t, x: x.logsumexp(1), _logsumexp),
    *(along(f"vector_norm {p}", lambda t, x, p=p: t.linalg.vector_norm(x, p, 1), _norm(p),
            "vector_norm") for p in (1, 2, 3, 0.5)),
    along("cumsum", lambda t, x: x.cumsum(1), lambda x: np.add.accumulate(x, 1), terms=same),
    along("cumsum of columns", lambda t, x: x.t().contiguous().cumsum(0).t(),
          lambda x: np.add.accumulate(x, 1), "cumsum", terms=same),
    along("cumprod", lambda t, x: x.cumprod(1), lambda x: np.multiply.accumulate(x, 1)),
    along("logcumsumexp", lambda t, x: x.logcumsumexp(1), _logcumsumexp),
    along("softmax", lambda t, x: x.softmax(1), _softmax),
    along("log_softmax", lambda t, x: x.log_softmax(1), lambda x: x - _logsumexp(x)[:, None],
          floor=1.0),
    along("trapezoid", lambda t, x: t.trapezoid(x), _trapezoid, "sum", terms=same),
    along("cumulative_trapezoid", lambda t, x: t.cumulative_trapezoid(x),
          lambda x: np.add.accumulate((x[:, 1:] + x[:, :-1]) / 2, 1), "cumsum", terms=same),
    along("vander", lambda t, x: t.vander(x[0, :32] / 8, 9, increasing=True),
          lambda x: (x[0, :32, None] / 8) ** np.arange(9), "cumprod"),
    along("F.glu", lambda t, x: t.nn.functional.glu(x[:, : x.shape[1] // 2 * 2], 1),
          lambda x: (lambda a, b: a / (1 + np.exp(-b)))(
              x[:, : x.shape[1] // 2], x[:, x.shape[1] // 2 : x.shape[1] // 2 * 2]), "sigmoid"),
    along("F.mse_loss", lambda t, x: t.nn.functional.mse_loss(x[:1], x[-1:].flip(1))[None],
          lambda x: _sum((x[:1] - x[-1:, ::-1]) ** 2) / x.shape[1], "mse_loss"),
    along("F.normalize", lambda t, x: t.nn.functional.normalize(x, dim=1),
          lambda x: x / _norm(2)(x)[:, None], "vector_norm"),
    along("F.layer_norm", lambda t, x: t.nn.functional.layer_norm(x, x.shape[1:]),
          lambda x: (x - _sum(x)[:, None] / x.shape[1]) / np.sqrt(
              _var(x)[:, None] * (x.shape[1] - 1) / x.shape[1] + Wide(1e-5)), "layer_norm",
          floor=1.0),
    along("F.rms_norm", lambda t, x: t.nn.functional.rms_norm(x, x.shape[1:], None, 1e-6),
          lambda x: x / np.sqrt(_sum(x * x)[:, None] / x.shape[1] + Wide(1e-6)), "rms_norm"),
]  # fmt: skip
CASES = [*POINTWISE, *ALONG]


def groups(case: Case, kind: str, count: int, long: int) -> Iterator[tuple[str, tuple[Array, ...]]]:
    """Groups of inputs, as float64 numbers with the values of a kind."""
    if case.along:
        for name, arrays in rows(kind, long):
            yield name, tuple(rounded(x, kind) for x in arrays)
    else:
        yield from numbers(case, kind, count)


def run(case: Case, module: Any, values: tuple[Array, ...], kind: str, device: str) -> Array:
    """The result of a case with a module, as float64 numbers."""
    tensors = [module.tensor(v, dtype=getattr(module, kind), device=device) for v in values]
    return np.asarray(case.function(module, *tensors).cpu().double().numpy())
