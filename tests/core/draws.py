"""Everything that draws on the CPU, as calls that PyTorch and tritorch both take.

tests/core/test_random.py holds the numbers against what is recorded, tools/compare_random.py
against an installed PyTorch's, and bench/random_draws.py measures the time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
NARROW = ("float32", "float64")


def _nothing(t: Any, n: int, kind: Any) -> tuple[()]:
    return ()


class Draw(NamedTuple):
    """call(torch, n, dtype, *given(torch, n, dtype)): n numbers from the default generator."""

    name: str
    call: Callable[..., Any]
    dtypes: tuple[str, ...]
    given: Callable[[Any, int, Any], tuple[Any, ...]] = _nothing

    def __call__(self, t: Any, n: int, dtype: str) -> Any:
        kind = getattr(t, dtype)
        return self.call(t, n, kind, *self.given(t, n, kind))


def _filled(method: str, *arguments: Any) -> Callable[[Any, int, Any], Any]:
    return lambda t, n, kind: getattr(t.empty(n, dtype=kind), method)(*arguments)


def _square(t: Any, n: int, kind: Any) -> Any:
    """Uninitialised, with rows and columns exchanged in memory."""
    return t.empty(max(n // 8, 1), 8, dtype=kind).t()


def _spread(scale: float, *, signed: bool = False) -> Callable[[Any, int, Any], Any]:
    """Numbers from about 0 to 40 * scale, or from as far below 0."""

    def spread(t: Any, n: int, kind: Any) -> Any:
        places = t.arange(n, dtype=t.float64) % 40
        return ((places - 19.5 if signed else places + 0.5) * scale).to(kind)

    return spread


def _rows(of: Callable[[Any, int, Any], Any], *shape: int) -> Callable[[Any, int, Any], Any]:
    return lambda t, n, kind: (of(t, n // 40 * 40 or 40, kind).reshape(-1, *shape),)


def _each(*parts: Callable[[Any, int, Any], Any]) -> Callable[[Any, int, Any], tuple[Any, ...]]:
    return lambda t, n, kind: tuple(part(t, n, kind) for part in parts)


_LINE = _spread(0.1, signed=True)
_CHANCES = _spread(0.02)

DRAWS = (
    Draw("rand", lambda t, n, kind: t.rand(n, dtype=kind), FLOATS + COMPLEX),
    Draw("randn", lambda t, n, kind: t.randn(n, dtype=kind), FLOATS + COMPLEX),
    Draw("randn, below 16", lambda t, n, kind: t.cat([t.randn(m % 14 + 1, dtype=kind)
         for m in range(min(n, 100))]), FLOATS + COMPLEX),
    Draw("randint", lambda t, n, kind: t.randint(-5, 100, (n,), dtype=kind),
         FLOATS + ("int8", "int16", "int32", "int64")),
    Draw("randint, wide", lambda t, n, kind: t.randint(-(2**40), 2**45, (n,), dtype=kind),
         ("int64", "float64")),
    Draw("randperm", lambda t, n, kind: t.randperm(n, dtype=kind),
         ("int32", "int64", "float32", "float64")),
    Draw("bernoulli_(p)", _filled("bernoulli_", 0.3), FLOATS + INTEGERS + ("bool",)),
    Draw("bernoulli_(tensor)", lambda t, n, kind, p: t.empty(n, dtype=kind).bernoulli_(p),
         FLOATS + INTEGERS + ("bool",), lambda t, n, kind: (_CHANCES(t, n, t.float64),)),
    Draw("bernoulli", lambda t, n, kind, p: t.bernoulli(p), FLOATS, _each(_CHANCES)),
    Draw("uniform_", _filled("uniform_", -2.5, 3.25), FLOATS + COMPLEX),
    Draw("uniform_, strided", lambda t, n, kind: _square(t, n, kind).uniform_(-2, 3), FLOATS),
    Draw("normal_", _filled("normal_", 1.5, 0.7), FLOATS + COMPLEX),
    Draw("normal_, strided", lambda t, n, kind: _square(t, n, kind).normal_(1, 2), FLOATS),
    Draw("normal of tensors", lambda t, n, kind, mean, std: t.normal(mean, std), FLOATS,
         _each(_LINE, _spread(0.25))),
    Draw("normal of a mean", lambda t, n, kind, mean: t.normal(mean, 2.5), FLOATS, _each(_LINE)),
    Draw("normal of a deviation", lambda t, n, kind, std: t.normal(0.3, std), FLOATS,
         _each(_spread(0.25))),
    Draw("log_normal_", _filled("log_normal_", 0.5, 0.25), FLOATS),
    Draw("cauchy_", _filled("cauchy_", 1.0, 2.0), FLOATS),
    Draw("exponential_", _filled("exponential_", 1.7), FLOATS),
    Draw("geometric_", _filled("geometric_", 0.3), FLOATS + INTEGERS),
    Draw("random_", _filled("random_"), FLOATS + INTEGERS + ("bool",)),
    Draw("random_(to)", _filled("random_", 100), FLOATS + INTEGERS),
    Draw("random_(from, to)", _filled("random_", -3, 100), FLOATS + INTEGERS[1:]),
    Draw("random_(from, None)", _filled("random_", -3, None), FLOATS + INTEGERS[1:]),
    Draw("random_, every int64", _filled("random_", -(2**63), None), ("int64",)),
    Draw("multinomial", lambda t, n, kind, w: t.multinomial(w, n, True), FLOATS,
         lambda t, n, kind: (_spread(1.0)(t, 10_000, kind),)),
    Draw("multinomial, each once", lambda t, n, kind, w: t.multinomial(w, n), NARROW,
         _each(_spread(1.0))),
    Draw("multinomial, of rows", lambda t, n, kind, w: t.multinomial(w, 1), NARROW,
         _rows(_spread(1.0), 10)),
    Draw("poisson", lambda t, n, kind, rate: t.poisson(rate), FLOATS, _each(_spread(1.0))),
    Draw("binomial", lambda t, n, kind, count, p: t.binomial(count, p), NARROW,
         _each(_spread(1.0), _spread(0.025))),
    Draw("gamma", lambda t, n, kind, a: t._standard_gamma(a), NARROW, _each(_spread(0.1))),
    Draw("dirichlet", lambda t, n, kind, a: t._sample_dirichlet(a), NARROW,
         _rows(_spread(0.1), 10)),
    Draw("dropout", lambda t, n, kind, x: t.nn.functional.dropout(x, 0.3), FLOATS, _each(_LINE)),
    Draw("dropout, strided", lambda t, n, kind, x: t.nn.functional.dropout(x.t(), 0.3), NARROW,
         _rows(_LINE, 8)),
    Draw("dropout1d", lambda t, n, kind, x: t.nn.functional.dropout1d(x, 0.3), FLOATS,
         _rows(_LINE, 2, 2)),
    Draw("alpha_dropout", lambda t, n, kind, x: t.nn.functional.alpha_dropout(x, 0.3, True),
         FLOATS, _each(_LINE)),
    Draw("feature_alpha_dropout", lambda t, n, kind, x: t.nn.functional.feature_alpha_dropout(
         x, 0.3, True), FLOATS, _rows(_LINE, 2, 2)),
    Draw("rrelu", lambda t, n, kind, x: t.nn.functional.rrelu(x, training=True), FLOATS[1:],
         _each(_LINE)),
    Draw("gumbel_softmax", lambda t, n, kind, x: t.nn.functional.gumbel_softmax(x, hard=True),
         NARROW, _rows(_LINE, 10)),
)  # fmt: skip
