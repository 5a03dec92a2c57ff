"""Everything that draws on the CPU, as calls that PyTorch and tritorch both take.

tests/core/test_random.py holds the numbers against what is recorded (tools/record/generators.py),
tools/compare/generators.py against an installed PyTorch's; bench/random_draws.py takes the time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
NARROW = ("float32", "float64")
COUNT = 1003  # numbers of each draw that are recorded: whole blocks of 16, and some more


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


# ---- what draws on its way -----------------------------------------------------------------------


class _Numbers:
    """A dataset of n numbers."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> int:
        return i


def _joined(t: Any, parts: Any) -> Any:
    return t.cat([t.as_tensor(part).reshape(-1).to(t.float32) for part in parts])


def _loaded(t: Any, **options: Any) -> Any:
    loader = t.utils.data.DataLoader(_Numbers(30), batch_size=4, shuffle=True, **options)
    return _joined(t, [batch for _ in range(2) for batch in loader])


def _sampled(t: Any, name: str, *arguments: Any, **options: Any) -> Any:
    return t.tensor(list(getattr(t.utils.data, name)(*arguments, **options)))


def _initialised(name: str, *arguments: Any) -> Callable[[Any], Any]:
    return lambda t: getattr(t.nn.init, name)(t.empty(12, 15), *arguments)


def _of_module(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def parameters(t: Any) -> Any:
        state = make(t).state_dict()
        return _joined(t, [state[name] for name in sorted(state)])

    return parameters


# Calls of torch, by name: what they draw goes on where the one before ended.
SEQUENCES: dict[str, Callable[[Any], Any]] = {
    "RandomSampler": lambda t: _sampled(t, "RandomSampler", _Numbers(40)),
    "RandomSampler, more": lambda t: _sampled(
        t, "RandomSampler", _Numbers(40), num_samples=100, generator=t.default_generator),
    "RandomSampler, replaced": lambda t: _sampled(
        t, "RandomSampler", _Numbers(40), True, 70, generator=t.default_generator),
    "SubsetRandomSampler": lambda t: _sampled(t, "SubsetRandomSampler", list(range(50))),
    "WeightedRandomSampler": lambda t: _sampled(t, "WeightedRandomSampler", [0.1, 0.5, 2, 3], 20),
    "DataLoader": _loaded,
    "DataLoader, own generator": lambda t: _loaded(t, generator=t.Generator().manual_seed(3)),
    "random_split": lambda t: _joined(t, [
        list(part.indices) for part in t.utils.data.random_split(_Numbers(50), [0.3, 0.3, 0.4])]),
    "uniform_ of init": _initialised("uniform_", -1.0, 2.0),
    "trunc_normal_": _initialised("trunc_normal_"),
    "trunc_normal_, far": _initialised("trunc_normal_", 0.0, 1.0, 0.5, 3.0),
    "xavier_normal_": _initialised("xavier_normal_"),
    "kaiming_uniform_": _initialised("kaiming_uniform_", 2.0),
    "sparse_": _initialised("sparse_", 0.3),
    "Linear": _of_module(lambda t: t.nn.Linear(5, 7)),
    "Conv2d": _of_module(lambda t: t.nn.Conv2d(3, 4, 3)),
    "Embedding": _of_module(lambda t: t.nn.Embedding(10, 5, padding_idx=2)),
    "LSTM": _of_module(lambda t: t.nn.LSTM(4, 5, 2, bidirectional=True)),
    "MultiheadAttention": _of_module(lambda t: t.nn.MultiheadAttention(8, 2, kdim=4, vdim=6)),
    "Transformer": _of_module(lambda t: t.nn.Transformer(8, 2, 1, 1, 16)),
    "randn_like, transposed": lambda t: t.randn_like(t.ones(8, 9).t()),
    "randn_like, every second": lambda t: t.randn_like(t.ones(8, 9)[:, ::2]),
    "randn_like, channels last": lambda t: t.randn_like(
        t.ones(2, 3, 8, 9).contiguous(memory_format=t.channels_last)),
    "randint_like, transposed": lambda t: t.randint_like(t.ones(8, 9).t(), 50),
    "normal_, every second": lambda t: t.zeros(8, 9)[:, ::2].normal_(),
    "uniform_, permuted": lambda t: t.zeros(8, 9, 10).permute(2, 0, 1)[::2].uniform_(),
    "normal_, complex": lambda t: t.view_as_real(t.zeros(8, 9, dtype=t.complex64).t().normal_()),
    "bernoulli_, transposed": lambda t: t.zeros(8, 9).t().bernoulli_(t.linspace(0, 1, 8)),
    "bernoulli of p": lambda t: t.bernoulli(t.zeros(8, 9).t(), 0.3),
    "rand, out": lambda t: t.rand(8, 9, out=t.empty(9, 8).t()),
    "randn, out": lambda t: t.randn(8, 9, out=t.empty(9, 8).t()),
    "normal, out": lambda t: t.normal(t.zeros(8, 9), 1.0, out=t.empty(9, 8).t()),
    "randint, bounds": lambda t: _joined(t, [
        t.randint(low, high, (20,), dtype=getattr(t, kind)) % 1000 for low, high, kind in (
            (0, 2**28 - 1, "int64"), (0, 2**28, "int64"), (-(2**63), 2**63 - 1, "int64"),
            (0, 2, "uint8"))]),
    "random_, rounded bounds": lambda t: _joined(t, [
        t.empty(50, dtype=getattr(t, kind)).random_(low, high) for low, high, kind in (
            (-4097, 4097, "float16"), (0, 1000, "bfloat16"), (-(2**25) - 3, 2**25 + 3, "float32"))
    ]),
    "multinomial, one": lambda t: t.multinomial(t.ones(5, 6), 1, True),
    "multinomial, equals": lambda t: t.multinomial(t.tensor([1.0, 0, 0, 0, 2, 0, 0, 3]), 7),
    "odd numbers of normals": lambda t: _joined(t, [
        t.randn(3), t.rand(2), t.randn(3), t.randn(20), t.randn(()), t.empty(3).log_normal_(),
        t.randn(2, dtype=t.float64), t.normal(0.0, 1.0, (5,))]),
    "dropout2d, three dims": lambda t: t.nn.functional.dropout2d(t.ones(3, 4, 5), 0.4),
    "dropout3d, four dims": lambda t: t.nn.functional.dropout3d(t.ones(3, 4, 5, 2), 0.4),
    "Gamma": lambda t: t.distributions.Gamma(t.tensor([0.5, 2]), t.tensor([1.0, 2])).sample((20,)),
    "Categorical": lambda t: t.distributions.Categorical(
        t.tensor([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])).sample((20,)),
    "Binomial": lambda t: t.distributions.Binomial(10, t.tensor([0.2, 0.6])).sample((20,)),
    "MultivariateNormal": lambda t: t.distributions.MultivariateNormal(
        t.zeros(2), t.eye(2)).sample((20,)),
    "VonMises": lambda t: (t.distributions.VonMises(
        t.tensor([1.0]), t.tensor([4.0])).sample((20,)) * 4096).round(),
    "random_unstructured": lambda t: t.nn.utils.prune.random_unstructured(
        t.nn.Linear(5, 7), "weight", 0.4).weight,
}  # fmt: skip


def digest(t: Any, numbers: Any) -> str:
    """A fingerprint of a tensor's numbers; float64 ones are compared as float32, because another C
    library's logarithms may differ in the last bit."""
    narrower = {t.float64: t.float32, t.complex128: t.complex64}
    numbers = numbers.detach().to(narrower.get(numbers.dtype, numbers.dtype)).contiguous()
    data = numbers.reshape(-1).view(t.uint8).numpy().tobytes()
    return hashlib.blake2b(data, digest_size=8).hexdigest()
