"""The table of operator cases that drives the tests: what is called, on which inputs.

A pointwise record brings its own case (its domain); everything else is listed here.
`test_table.py` checks that every differentiable record is reached by some case.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tritorch as torch
import tritorch.nn.functional as F
from tritorch.core.published import PUBLIC
from tritorch.nn.attention.varlen import varlen_attn
from tritorch.ops.nn.conv_norm import convolution_batch_norm
from tritorch.ops.pointwise import activation
from tritorch.ops.record.operator import OPERATORS
from tritorch.ops.record.pointwise import Pointwise


@dataclass
class Case:
    """A function of float tensors and how to make them."""

    name: str
    function: Callable[..., Any]
    shapes: list[Any]
    low: float = -2.0
    high: float = 2.0
    reference: Callable[..., Any] | None = None  # the same in NumPy
    second: bool = True  # differentiates twice
    tolerance: float = 1e-4
    constants: tuple[Any, ...] = field(default=())  # index tensors and the like, as ndarrays

    def inputs(self, seed: int = 0, dtype: Any = np.float64) -> list[np.ndarray]:
        rng = np.random.default_rng(seed)
        return [rng.uniform(self.low, self.high, shape).astype(dtype) for shape in self.shapes]

    def __str__(self) -> str:
        return self.name


def index(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def recurrent(mode: str, packed: bool) -> Case:
    """Both directions of a layer of width 2, two steps of two sequences (or 2 and 1)."""
    gates = {"rnn_tanh": 1, "lstm": 4, "gru": 3}[mode]
    weights = [(2 * gates, 2), (2 * gates, 2), (2 * gates,), (2 * gates,)] * 2
    states = [(2, 2, 2)] * (2 if mode == "lstm" else 1)

    def run(x: Any, *rest: Any) -> Any:
        hx = rest[:2] if mode == "lstm" else rest[0]
        options = (hx, rest[len(states) :], True, 1, 0.0, False, True)
        if packed:
            return getattr(torch, mode)(x, torch.tensor([2, 1]), *options)
        return getattr(torch, mode)(x, *options, False)

    shape = (3, 2) if packed else (2, 2, 2)
    return Case(f"{mode}{'_packed' * packed}", run, [shape, *states, *weights], -1.0, 1.0)


HALF = {"igamma", "igammac"}  # differentiable by their second input alone


def regular(a: Any) -> Any:
    """Square matrices far from singular ones."""
    return a + 4 * torch.eye(a.shape[-1], device=a.device).to(a)


def refuses(op: Any) -> bool:
    """Whether PyTorch cannot differentiate an operator, which then says so."""
    return any(function is not None and function.__name__ == "refuse" for function in op.gradients)


def pointwise_cases() -> list[Case]:
    """One case for each pointwise record that has a public function."""
    cases = []
    for op in OPERATORS.values():
        if not isinstance(op, Pointwise) or op.masks or op.params:
            continue
        public = PUBLIC.get(op.name) or getattr(F, op.name, None)
        if public is None or not any(op.gradients) or len(op.inputs) > 2 or op.name in HALF:
            continue
        if refuses(op):
            continue
        low, high = op.domain
        kinked = {
            "round",
            "floor",
            "ceil",
            "trunc",
            "frac",
            "sign",
            "remainder",
            "fmod",
        }
        if op.name in kinked:
            low, high = 0.55, 0.95
        if len(op.inputs) == 2 and op.name not in kinked:
            low, high = 0.5, 2.0
        cases.append(Case(op.name, public, [(2, 3)] * len(op.inputs), low, high))
    return cases


C = Case
CASES = [
    *pointwise_cases(),
    C("pow scalar", lambda x: x**3, [(2, 3)], reference=lambda x: x**3),
    C("rpow", lambda x: 2.0**x, [(2, 3)], reference=lambda x: 2.0**x),
    C("gelu tanh", lambda x: F.gelu(x, approximate="tanh"), [(2, 3)]),
    C("gelu", F.gelu, [(2, 3)]),
    C("gelu without its result", activation._gelu_none, [(2, 3)]),  # GPUs, half types
    C("silu", F.silu, [(2, 3)]),
    *(
        C(name, getattr(F, name), [(2, 3)])
        for name in (
            "hardtanh", "relu6", "leaky_relu", "elu", "selu", "celu", "hardswish", "hardsigmoid",
            "mish", "softplus", "hardshrink", "softshrink")
    ),
    C("nan_to_num", torch.nan_to_num, [(2, 3)]),
    C("round decimals", lambda x: x.round(decimals=1), [(2, 3)], 0.51, 0.54),
    C("roll all", lambda x: x.roll(2), [(2, 3)], reference=lambda x: np.roll(x, 2)),
    C("logit", torch.logit, [(2, 3)], 0.1, 0.9),
    C("logsigmoid", F.logsigmoid, [(2, 3)]),
    C("div floor", lambda a, b: torch.div(a, b, rounding_mode="floor"), [(2, 3)] * 2, 0.55, 0.95),
    C("threshold", lambda x: F.threshold(x, 0.1, 0.2), [(2, 3)]),
    *(
        C(f"{name} in place", lambda x, name=name: getattr(F, name)(x * 1, inplace=True), [(2, 3)])
        for name in ("leaky_relu", "elu", "celu")
    ),
    C("rrelu", lambda x: F.rrelu(x, 0.2, 0.2, training=True), [(2, 3)]),
    C("rrelu in place", lambda x: F.rrelu_(x * 1, 0.2, 0.2, training=True), [(2, 3)]),
    C("polygamma", lambda x: torch.polygamma(1, x), [(3,)], 0.5, 2.0),
    *(
        C(f"special {name}", getattr(torch.special, name), [(2, 3)], low, high)
        for name, low, high in (
            ("i0e", -3, 3), ("i1", -3, 3), ("i1e", -3, 3), ("erfcx", -1, 3), ("ndtr", -3, 3),
            ("ndtri", 0.05, 0.95), ("log_ndtr", -3, 3), ("entr", 0.1, 3))
    ),
    C("xlog1py", torch.special.xlog1py, [(2, 3), (3,)], 0.1, 2),
    C("polygamma 2", lambda x: torch.polygamma(2, x), [(3,)], 0.5, 2.0, tolerance=1e-3),
    C("mvlgamma", lambda x: torch.mvlgamma(x, 3), [(3,)], 1.5, 4.0),
    C("igamma", lambda x, a: torch.igamma(a.to(x.dtype), x), [(3,)], 0.5, 3.0,
      constants=(np.array([0.5, 1.5, 4.0]),)),
    C("igammac", lambda x, a: torch.igammac(a.to(x.dtype), x), [(3,)], 0.5, 3.0,
      constants=(np.array([0.5, 1.5, 4.0]),)),
    C("zeta", lambda q: torch.special.zeta(3.0, q), [(3,)], 0.5, 3.0),
    C("frexp", lambda x: torch.frexp(x)[0], [(2, 3)], 0.55, 0.95,
      reference=lambda x: np.frexp(x)[0]),
    C("gradient", lambda x: torch.gradient(x, spacing=0.5, edge_order=2), [(3, 4)]),
    C("gradient places",
      lambda x, t: torch.gradient(x, spacing=(t.to(x.dtype),), dim=1, edge_order=2),
      [(2, 4)], constants=(np.array([0.0, 1.0, 1.5, 3.0]),)),
    C("trapezoid", lambda y, x: torch.trapezoid(y, x), [(2, 4), (4,)],
      reference=lambda y, x: ((y[:, 1:] + y[:, :-1]) * np.diff(x)).sum(1) / 2),
    C("cumulative_trapezoid", lambda y: torch.cumulative_trapezoid(y, dx=0.5), [(2, 4)],
      reference=lambda y: (y[:, 1:] + y[:, :-1]).cumsum(1) / 4),
    C("cov", torch.cov, [(3, 4)], reference=np.cov),
    C("cov weights", lambda x, w, f: torch.cov(x, fweights=f, aweights=w * w + 1),
      [(2, 3), (3,)], constants=(index(1, 2, 1),)),
    C("corrcoef", torch.corrcoef, [(3, 5)], reference=np.corrcoef),
    *(
        C(f"quantile {how}", lambda x, how=how: torch.quantile(
            x, x.new_tensor([0.15, 0.5, 0.8]), 1, interpolation=how),
          [(2, 5)], reference=lambda x, how=how: np.quantile(x, [0.15, 0.5, 0.8], 1, method=how))
        for how in ("linear", "lower", "higher", "midpoint", "nearest")
    ),
    C("quantile levels", lambda x, q: torch.quantile(x, q.abs() / 3), [(5,), (2,)]),
    C("nanquantile", lambda x: torch.nanquantile(x.masked_fill(x.detach() > 1, float("nan")), 0.4),
      [(2, 5)]),
    C("renorm", lambda x: x.renorm(3, 0, 1.5), [(3, 4)]),
    *(
        C(f"index_reduce {how}", lambda x, s, i, how=how: x.index_reduce(1, i, s, how),
          [(2, 4), (2, 3)], 0.5, 2.0, constants=(index(0, 3, 0),), second=how != "prod")
        for how in ("mean", "prod", "amax", "amin")
    ),
    C("combinations", torch.combinations, [(4,)]),
    C("cross", lambda a, b: torch.cross(a, b, 0), [(3, 2), (3, 1)],
      reference=lambda a, b: np.cross(a, np.broadcast_to(b, a.shape), axis=0)),
    C("pow tensors", torch.pow, [(2, 3), (3,)], 0.5, 2.0, reference=np.power),
    C("lerp", torch.lerp, [(2, 3), (2, 3), (3,)], reference=lambda a, b, w: a + w * (b - a)),
    C("addcmul", lambda x, a, b: torch.addcmul(x, a, b, value=0.5), [(3,)] * 3,
      reference=lambda x, a, b: x + 0.5 * a * b),
    C("addcdiv", lambda x, a, b: torch.addcdiv(x, a, b, value=0.5), [(3,)] * 3, 0.5, 2.0,
      reference=lambda x, a, b: x + 0.5 * a / b),
    # Steps so fine that the differences of gradcheck do not see them.
    C("fake_quantize", lambda x: torch.fake_quantize_per_tensor_affine(
        x, 1e-11, 0, -2**50, 2**50), [(3, 4)], reference=lambda x: x),
    C("fake_quantize_channels", lambda x: torch.fake_quantize_per_channel_affine(
        x, torch.full((4,), 1e-11, device=x.device), torch.zeros(4, device=x.device).int(), 1,
        -2**50, 2**50), [(3, 4)], reference=lambda x: x),
    C("clamp", lambda x: x.clamp(-1, 1), [(7,)], reference=lambda x: np.clip(x, -1, 1)),
    C("clamp tensors", lambda x, a, b: torch.clamp(x, a, b), [(7,)] * 3),
    C("clamp_min", lambda x: x.clamp_min(0.1), [(7,)], reference=lambda x: np.maximum(x, 0.1)),
    C("clamp_max", lambda x: x.clamp_max(0.1), [(7,)], reference=lambda x: np.minimum(x, 0.1)),
    C("where", lambda a, b: torch.where(a.detach() > 0, a * a, b), [(2, 3), (3,)],
      reference=lambda a, b: np.where(a > 0, a * a, b)),
    C("masked_fill", lambda x: x.masked_fill(x.detach() > 0, 3.0), [(2, 3)],
      reference=lambda x: np.where(x > 0, 3.0, x)),
    # reductions
    C("sum", lambda x: x.sum(), [(2, 3)], reference=lambda x: x.sum()),
    C("sum dims", lambda x: x.sum((0, 2), keepdim=True), [(2, 3, 2)],
      reference=lambda x: x.sum((0, 2), keepdims=True)),
    C("mean", lambda x: x.mean(1), [(2, 3)], reference=lambda x: x.mean(1)),
    C("prod", lambda x: x.prod(1), [(2, 3)], reference=lambda x: x.prod(1)),
    C("amax", lambda x: x.amax(1), [(2, 3)], reference=lambda x: x.max(1)),
    C("amin", lambda x: x.amin((0, 1)), [(2, 3)], reference=lambda x: x.min()),
    C("max", lambda x: x.max(), [(2, 3)], reference=lambda x: x.max()),
    C("min", lambda x: x.min(), [(2, 3)], reference=lambda x: x.min()),
    C("prod all", lambda x: x.prod(), [(2, 3)], reference=lambda x: x.prod()),
    C("max dim", lambda x: x.max(1)[0], [(2, 3)], reference=lambda x: x.max(1)),
    C("min dim", lambda x: x.min(0)[0], [(2, 3)], reference=lambda x: x.min(0)),
    C("var", lambda x: x.var(1), [(2, 4)], reference=lambda x: x.var(1, ddof=1)),
    C("std", lambda x: x.std(0, correction=0), [(4, 2)], reference=lambda x: x.std(0)),
    C("var_mean", lambda x: torch.var_mean(x, 1), [(2, 4)]),
    C("logsumexp", lambda x: x.logsumexp(1), [(2, 3)],
      reference=lambda x: np.log(np.exp(x).sum(1))),
    C("norm 2", lambda x: x.norm(dim=1), [(2, 3)], reference=lambda x: np.sqrt((x * x).sum(1))),
    C("norm 3", lambda x: torch.linalg.vector_norm(x, 3), [(2, 3)],
      reference=lambda x: (np.abs(x) ** 3).sum() ** (1 / 3)),
    C("norm inf", lambda x: torch.linalg.vector_norm(x, float("inf")), [(2, 3)],
      reference=lambda x: np.abs(x).max()),
    # Fourier transforms
    C("fft", lambda a, b: torch.view_as_real(torch.fft.fft(torch.complex(a, b), 5, 0, "ortho")),
      [(4, 2), (4, 2)]),
    C("fft of reals", lambda x: torch.view_as_real(torch.fft.fftn(x)), [(2, 3)],
      reference=lambda x: np.stack([np.fft.fftn(x).real, np.fft.fftn(x).imag], -1)),
    C("ifft2", lambda a, b: torch.fft.ifft2(torch.complex(a, b), norm="forward").abs(),
      [(2, 3), (2, 3)]),
    C("rfft", lambda x: torch.view_as_real(torch.fft.rfft(x)), [(2, 6)],
      reference=lambda x: np.stack([np.fft.rfft(x).real, np.fft.rfft(x).imag], -1)),
    C("rfftn", lambda x: torch.view_as_real(torch.fft.rfftn(x, (3, 5), (1, 0))), [(4, 3)]),
    C("irfft", lambda a, b: torch.fft.irfft(torch.complex(a, b)), [(2, 3), (2, 3)],
      reference=lambda a, b: np.fft.irfft(a + 1j * b)),
    C("irfft2", lambda a, b: torch.fft.irfft2(torch.complex(a, b), (2, 3)), [(2, 3), (2, 3)]),
    C("hfft", lambda a, b: torch.fft.hfft(torch.complex(a, b), 5), [(2, 3), (2, 3)]),
    C("ihfft2", lambda x: torch.view_as_real(torch.fft.ihfft2(x)), [(3, 4)]),
    C("stft", lambda x, w: torch.view_as_real(
        x.stft(4, 2, window=w, normalized=True, return_complex=True)), [(2, 7), (4,)], 0.5, 2.0),
    C("istft", lambda a, b, w: torch.complex(a, b).istft(4, 1, window=w), [(3, 4), (3, 4), (4,)],
      0.5, 1.5),
    # scans and sorting
    C("cumsum", lambda x: x.cumsum(1), [(2, 3)], reference=lambda x: x.cumsum(1)),
    C("cumprod", lambda x: x.cumprod(0), [(3, 2)], reference=lambda x: x.cumprod(0)),
    C("cummax", lambda x: x.cummax(1)[0], [(2, 4)],
      reference=lambda x: np.maximum.accumulate(x, 1)),
    C("cummin", lambda x: x.cummin(1)[0], [(2, 4)],
      reference=lambda x: np.minimum.accumulate(x, 1)),
    C("logcumsumexp", lambda x: x.logcumsumexp(1), [(2, 3)],
      reference=lambda x: np.log(np.exp(x).cumsum(1)), tolerance=1e-3),
    C("sort", lambda x: x.sort(1)[0], [(2, 5)], reference=lambda x: np.sort(x, 1)),
    C("topk", lambda x: x.topk(2)[0], [(2, 5)], reference=lambda x: -np.sort(-x, 1)[:, :2]),
    C("kthvalue", lambda x: x.kthvalue(2, 1)[0], [(2, 5)],
      reference=lambda x: np.sort(x, 1)[:, 1]),
    C("median", lambda x: x.median(1)[0], [(2, 5)], reference=lambda x: np.median(x, 1)),
    C("median of all", lambda x: x.median(), [(3, 5)], reference=np.median),
    C("nanmedian of all", lambda x: x.nanmedian(), [(3, 5)], reference=np.nanmedian),
    C("nansum", lambda x: x.nansum(1), [(2, 5)], reference=lambda x: np.nansum(x, 1)),
    C("nanmedian", lambda x: x.nanmedian(1)[0], [(2, 5)], reference=lambda x: np.nanmedian(x, 1)),
    C("mode", lambda x: x.mode(1)[0], [(2, 3)], reference=lambda x: x.min(1)),
    # views
    C("view", lambda x: x.view(3, 2) * 2, [(2, 3)], reference=lambda x: x.reshape(3, 2) * 2),
    C("expand", lambda x: x.expand(4, 3) * 2, [(1, 3)]),
    C("permute", lambda x: x.permute(2, 0, 1) * 2, [(2, 3, 2)],
      reference=lambda x: x.transpose(2, 0, 1) * 2),
    C("transpose", lambda x: x.transpose(0, 1).exp(), [(2, 3)], reference=lambda x: np.exp(x.T)),
    C("squeeze", lambda x: x.squeeze(1) * 2, [(2, 1, 3)]),
    C("unsqueeze", lambda x: x.unsqueeze(1) * 2, [(2, 3)]),
    C("slice", lambda x: x[1:, ::2] * 2, [(3, 5)], reference=lambda x: x[1:, ::2] * 2),
    C("select", lambda x: x[:, 1] * 2, [(3, 5)], reference=lambda x: x[:, 1] * 2),
    C("select method", lambda x: x.select(1, 1) * 2, [(3, 5)], reference=lambda x: x[:, 1] * 2),
    C("diagonal", lambda x: x.diagonal(1) * 2, [(3, 4)],
      reference=lambda x: np.diagonal(x, 1) * 2),
    C("unfold", lambda x: x.unfold(0, 3, 2) * 2, [(7,)]),
    C("as_strided", lambda x: x.as_strided((2, 2), (1, 2), 1) * 2, [(6,)]),
    C("alias", lambda x: x.view_as(x)[...] * 2, [(3,)]),
    C("0-d t", lambda x: torch.t(x) * 2, [(3,)]),
    C("complex parts", lambda a, b: torch.view_as_real(torch.complex(a, b)) * 2, [(3,), (3,)]),
    C("complex pair", lambda x: torch.view_as_complex(x).abs(), [(3, 2)]),
    C("real imag", lambda a, b: torch.complex(a, b).exp().real + torch.complex(a, b).imag,
      [(3,), (3,)]),
    C("conj", lambda a, b: torch.conj_physical(torch.complex(a, b)).sin().real, [(3,), (3,)]),
    C("view dtype", lambda x: x + 0 * x.view(torch.int32).sum(), [(3,)]),
    # joining and moving
    C("cat", lambda a, b: torch.cat([a, b], 1), [(2, 3), (2, 1)],
      reference=lambda a, b: np.concatenate([a, b], 1)),
    C("stack", lambda a, b: torch.stack([a, b], 1), [(2, 3), (2, 3)],
      reference=lambda a, b: np.stack([a, b], 1)),
    C("flip", lambda x: x.flip(1), [(2, 3)], reference=lambda x: np.flip(x, 1)),
    C("roll", lambda x: x.roll((1, -1), (0, 1)), [(2, 3)],
      reference=lambda x: np.roll(x, (1, -1), (0, 1))),
    C("tril", lambda x: x.tril(-1), [(3, 3)], reference=lambda x: np.tril(x, -1)),
    C("triu", lambda x: x.triu(1), [(3, 3)], reference=lambda x: np.triu(x, 1)),
    C("repeat", lambda x: x.repeat(2, 2), [(2, 3)], reference=lambda x: np.tile(x, (2, 2))),
    C("clone", lambda x: x.clone() * 2, [(3,)]),
    C("to", lambda x: x.to(torch.complex128).real.to(x.dtype), [(3,)]),
    C("div trunc", lambda a, b: torch.div(a, b, rounding_mode="trunc") + a, [(3,), (3,)], 0.6, 0.9),
    # indexing
    C("index", lambda x, i: x[i, i] * 2, [(4, 4)], constants=(index(0, 2, 2),),
      reference=lambda x, i: x[i, i] * 2),
    C("index_put", lambda x, v, i: x.index_put((i,), v, accumulate=True), [(4,), (3,)],
      constants=(index(1, 1, 3),)),
    C("gather", lambda x, i: x.gather(1, i), [(2, 4)],
      constants=(index(0, 0, 3, 1).reshape(2, 2),),
      reference=lambda x, i: np.take_along_axis(x, i, 1)),
    C("scatter", lambda x, s, i: x.scatter(1, i, s), [(2, 4), (2, 2)],
      constants=(index(0, 3, 1, 2).reshape(2, 2),)),
    C("scatter value", lambda x, i: x.scatter(1, i, 2.0), [(2, 4)],
      constants=(index(0, 3, 1, 2).reshape(2, 2),)),
    C("scatter_add", lambda x, s, i: x.scatter_add(1, i, s), [(2, 4), (2, 2)],
      constants=(index(0, 0, 1, 2).reshape(2, 2),)),
    *(
        C(f"scatter_reduce {how}", lambda x, s, i, how=how: x.scatter_reduce(1, i, s, how),
          [(2, 4), (2, 3)], 0.5, 2.0, constants=(index(0, 0, 1, 2, 2, 3).reshape(2, 3),),
          second=how != "prod")
        for how in ("sum", "mean", "prod", "amax", "amin")
    ),
    C("index_select", lambda x, i: x.index_select(1, i), [(2, 4)], constants=(index(3, 3, 0),),
      reference=lambda x, i: x[:, i]),
    C("index_add", lambda x, s, i: x.index_add(0, i, s, alpha=2), [(3, 2), (2, 2)],
      constants=(index(1, 1),)),
    C("index_copy", lambda x, s, i: x.index_copy(0, i, s), [(3, 2), (2, 2)],
      constants=(index(2, 0),)),
    C("index_fill", lambda x, i: x.index_fill(0, i, 2.0), [(3, 2)], constants=(index(2, 0),)),
    C("take", lambda x, i: x.take(i), [(2, 3)], constants=(index(0, 5, 5),),
      reference=lambda x, i: x.reshape(-1)[i]),
    C("put", lambda x, s, i: x.put(i, s, accumulate=True), [(2, 3), (3,)],
      constants=(index(0, 5, 5),)),
    C("masked_select", lambda x, m: x.masked_select(m), [(4,)],
      constants=(np.array([True, False, True, True]),), reference=lambda x, m: x[m]),
    C("masked_scatter", lambda x, s, m: x.masked_scatter(m, s), [(4,), (5,)],
      constants=(np.array([True, False, True, True]),)),
    # products
    C("mm", torch.mm, [(2, 3), (3, 4)], reference=np.matmul),
    C("t", torch.t, [(2, 3)], reference=np.transpose),
    *(recurrent(mode, packed) for mode in ("rnn_tanh", "lstm", "gru") for packed in (False, True)),
    C("bmm", torch.bmm, [(2, 2, 3), (2, 3, 2)], reference=np.matmul),
    C("matmul_batches", torch.matmul, [(2, 2, 3), (2, 3, 2)], reference=np.matmul),
    C("matmul broadcast", torch.matmul, [(2, 1, 2, 3), (2, 3, 2)], reference=np.matmul),
    C("addmm gelu", lambda c, a, b: torch._addmm_activation(c, a, b, alpha=0.5, use_gelu=True),
      [(2,), (3, 4), (4, 2)]),
    C("addmm relu", torch._addmm_activation, [(3, 2), (3, 4), (4, 2)]),
    C("baddbmm", lambda c, a, b: torch.baddbmm(c, a, b, beta=-1, alpha=0.5),
      [(3, 1), (2, 3, 4), (2, 4, 2)]),
    C("addmm", lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), [(2,), (3, 4), (4, 2)],
      reference=lambda c, a, b: 0.5 * c + 2 * a @ b),
    C("einsum", lambda a, b, c: torch.einsum("ij,jk,kl->il", a, b, c), [(2, 3), (3, 4), (4, 2)],
      reference=lambda a, b, c: a @ b @ c),
    C("dot", torch.dot, [(4,), (4,)], reference=np.dot),
    C("linear", F.linear, [(2, 3), (4, 3), (4,)], reference=lambda x, w, b: x @ w.T + b),
    # matrices
    *(
        C(f"qr {m}x{n}", lambda x: tuple(torch.linalg.qr(x)), [(m, n)])
        for m, n in ((3, 3), (4, 2), (2, 4))
    ),
    C("solve", lambda a, b: torch.linalg.solve(a + 4 * torch.eye(3, device=a.device).to(a), b),
      [(2, 3, 3), (3, 2)],
      reference=lambda a, b: np.linalg.solve(a + 4 * np.eye(3), np.broadcast_to(b, (2, 3, 2)))),
    C("matrix_exp", torch.linalg.matrix_exp, [(2, 3, 3)]),
    C("inv", lambda a: torch.linalg.inv(regular(a)), [(2, 3, 3)],
      reference=lambda a: np.linalg.inv(a + 4 * np.eye(3))),
    C("det", lambda a: torch.linalg.det(regular(a)), [(2, 3, 3)],
      reference=lambda a: np.linalg.det(a + 4 * np.eye(3)), tolerance=1e-2),
    C("det singular", lambda a: torch.det(a + (torch.arange(3, device=a.device) == 0).diag()),
      [(3, 3)], 1.0, 1.0),
    C("slogdet", lambda a: tuple(torch.linalg.slogdet(regular(a))), [(2, 3, 3)]),
    C("cholesky", lambda a: torch.linalg.cholesky(a @ a.mT + regular(0 * a)), [(2, 3, 3)],
      reference=lambda a: np.linalg.cholesky(a @ a.swapaxes(-1, -2) + 4 * np.eye(3))),
    C("cholesky upper", lambda a: torch.linalg.cholesky(a @ a.mT + regular(0 * a), upper=True),
      [(2, 3, 3)]),
    C("cholesky_solve", lambda b, a: torch.cholesky_solve(b, regular(a).tril()),
      [(2, 3, 2), (3, 3)]),
    C("solve_triangular", lambda a, b: torch.linalg.solve_triangular(regular(a), b, upper=False),
      [(3, 3), (2, 3, 2)]),
    C("solve_triangular unit", lambda a, b: torch.linalg.solve_triangular(
        a, b, upper=True, left=False, unitriangular=True), [(2, 3, 3), (2, 2, 3)]),
    *(
        C(f"lu {m}x{n}", lambda a: torch.linalg.lu(a * 2 + torch.eye(*a.shape, device=a.device)),
          [(m, n)], 0.5, 2.0) for m, n in ((3, 3), (4, 2), (2, 4))
    ),
    C("lu_solve", lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(regular(a)), b),
      [(2, 3, 3), (3, 2)], reference=lambda a, b: np.linalg.solve(a + 4 * np.eye(3), b)),
    C("lu_solve adjoint", lambda a, b: torch.linalg.lu_solve(
        *torch.linalg.lu_factor(regular(a)), b, left=False, adjoint=True), [(3, 3), (2, 3)]),
    *(
        C(f"svd {m}x{n}", lambda a: tuple(x.abs() for x in torch.linalg.svd(a, False)), [(m, n)],
          tolerance=1e-3) for m, n in ((3, 3), (4, 2), (2, 4))
    ),
    C("svdvals", torch.linalg.svdvals, [(2, 3, 4)],
      reference=lambda a: np.linalg.svd(a, compute_uv=False)),
    C("eigh", lambda a: tuple(x.abs() for x in torch.linalg.eigh(a + a.mT)), [(2, 3, 3)],
      tolerance=1e-3),
    C("eig", lambda a: tuple(x.abs() for x in torch.linalg.eig(regular(a))), [(3, 3)],
      tolerance=1e-3),
    C("pinv", torch.linalg.pinv, [(2, 4, 2)], reference=np.linalg.pinv),
    C("pinv wide", torch.linalg.pinv, [(2, 4)], reference=np.linalg.pinv),
    C("lstsq", lambda a, b: tuple(torch.linalg.lstsq(a, b, driver="gels")[:2]), [(4, 2), (4, 3)]),
    C("lstsq wide", lambda a, b: torch.linalg.lstsq(a, b)[0], [(2, 4), (2, 3)],
      reference=lambda a, b: np.linalg.lstsq(a, b, rcond=None)[0]),
    C("ormqr", lambda a, t, b: torch.ormqr(a, t, b, True, True), [(4, 3), (3,), (4, 2)]),
    C("matrix norms", lambda a: tuple(torch.linalg.matrix_norm(a, p) for p in (1, -2, "nuc")),
      [(2, 3, 4)], tolerance=1e-3),
    C("cond", torch.linalg.cond, [(2, 3, 3)], reference=np.linalg.cond, tolerance=1e-1),
    C("cross", lambda a, b: torch.linalg.cross(a, b, dim=1), [(2, 3, 2), (1, 3, 2)],
      reference=lambda a, b: np.cross(a, b, axis=1)),
    C("matrix_power", lambda a: torch.linalg.matrix_power(regular(a), -3), [(3, 3)]),
    C("multi_dot", lambda *xs: torch.linalg.multi_dot(xs), [(3,), (3, 4), (4, 2), (2,)],
      reference=lambda *xs: np.linalg.multi_dot(xs)),
    C("renorm", lambda a: torch.renorm(a, 2, 0, 1.0), [(3, 4)]),
    C("householder", torch.linalg.householder_product, [(4, 3), (3,)]),
    # softmax and losses
    C("softmax", lambda x: torch.softmax(x, 1), [(2, 4)]),
    C("log_softmax", lambda x: torch.log_softmax(x, 0), [(3, 2)]),
    C("cross_entropy", lambda x, t, w: F.cross_entropy(x, t, w.to(x.dtype), label_smoothing=0.1),
      [(4, 3)], constants=(index(0, 2, 1, -100), np.array([0.5, 1.0, 2.0]))),
    C("nll_loss", lambda x, t: F.nll_loss(x, t), [(4, 3)], constants=(index(0, 2, 1, 1),)),
    C("bce", lambda p, t: F.binary_cross_entropy(p, t), [(5,), (5,)], 0.1, 0.9),
    C("bce logits", F.binary_cross_entropy_with_logits, [(5,), (5,)], 0.1, 0.9),
    C("mse", F.mse_loss, [(5,), (5,)], reference=lambda a, b: ((a - b) ** 2).mean()),
    C("huber", F.huber_loss, [(5,), (5,)]),
    C("smooth l1", F.smooth_l1_loss, [(5,), (5,)]),
    C("soft margin", lambda x: F.soft_margin_loss(x, x.new_tensor([1, -1, 1, 1, -1])), [(5,)]),
    C("ctc_loss",
      lambda x, t: F.ctc_loss(x.log_softmax(2), t, (5, 4, 5), (3, 2, 0), zero_infinity=True),
      [(5, 3, 4)], constants=(index(1, 2, 2, 3, 1, 0, 0, 0, 0).reshape(3, 3),)),
    # convolution, pooling, padding
    C("conv1d", lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1),
      [(2, 2, 6), (3, 2, 3), (3,)]),
    C("conv2d groups", lambda x, w: F.conv2d(x, w, groups=2, dilation=2),
      [(1, 4, 6, 5), (4, 2, 2, 2)]),
    C("conv3d", F.conv3d, [(1, 1, 3, 3, 3), (2, 1, 2, 2, 2)]),
    C("conv_transpose2d",
      lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1),
      [(1, 2, 3, 3), (2, 2, 3, 3)]),
    C("max_pool2d", lambda x: F.max_pool2d(x, 2, 1), [(1, 2, 4, 3)]),
    C("avg_pool2d", lambda x: F.avg_pool2d(x, 3, 2, 1), [(1, 2, 5, 4)]),
    C("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (2, 3)), [(1, 2, 5, 4)]),
    C("adaptive_avg_pool2d to one", lambda x: F.adaptive_avg_pool2d(x, 1), [(1, 2, 5, 4)]),
    C("adaptive_max_pool1d", lambda x: F.adaptive_max_pool1d(x, 3), [(1, 2, 7)]),
    *(
        C(f"pad {mode}", lambda x, mode=mode: F.pad(x, (2, 1), mode=mode), [(1, 2, 4)])
        for mode in ("constant", "reflect", "replicate", "circular")
    ),
    C("nearest", lambda x: F.interpolate(x, scale_factor=2), [(1, 1, 2, 3)]),
    C("bilinear", lambda x: F.interpolate(x, (5, 4), mode="bilinear"), [(1, 1, 3, 3)]),
    C("bicubic", lambda x: F.interpolate(x, (5, 4), mode="bicubic"), [(1, 1, 3, 3)]),
    C("antialias", lambda x: F.interpolate(x, (2, 3), mode="bilinear", antialias=True),
      [(1, 2, 5, 4)]),
    C("grid_sample", lambda x, g: F.grid_sample(x, g, align_corners=False),
      [(1, 2, 3, 4), (1, 2, 3, 2)], -0.9, 0.9),
    C("grid_sample cubic", lambda x, g: F.grid_sample(x, g, "bicubic", "reflection", True),
      [(1, 1, 3, 4), (1, 2, 2, 2)], -1.2, 1.2),
    # norms, embedding, attention
    C("layer_norm", lambda x, w, b: F.layer_norm(x, (4,), w, b), [(3, 4), (4,), (4,)]),
    C("rms_norm", lambda x, w: F.rms_norm(x, (4,), w, 1e-6), [(3, 4), (4,)]),
    C("group_norm", lambda x, w, b: F.group_norm(x, 2, w, b), [(2, 4, 3), (4,), (4,)]),
    C("batch_norm", lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
      [(4, 2, 3), (2,), (2,)]),
    C("convolution, batch norm, addend, relu", lambda x, w, b, g, h, z: convolution_batch_norm(
        x, w, b, ((1, 2), (1, 0), (1, 1), False, (0, 0), 1), g, h, z, True, 1e-5)[0],
      [(2, 2, 3, 4), (3, 2, 2, 2), (3,), (3,), (3,), (2, 3, 4, 2)]),
    C("jagged to padded",
      lambda x, o: torch.ops.aten._jagged_to_padded_dense_forward(x, [o], [4], 0.5), [(7, 3)],
      reference=lambda x, o: np.stack(
          [np.concatenate([x[a:b], np.full((4 - b + a, 3), 0.5)])
           for a, b in ((0, 2), (2, 2), (2, 6))]
      ), constants=(index(0, 2, 2, 6),)),
    C("padded to jagged", lambda x, o: torch.ops.aten._padded_dense_to_jagged_forward(x, [o], 6),
      [(3, 4, 2)], reference=lambda x, o: np.concatenate([x[0, :2], x[2, :4]]),
      constants=(index(0, 2, 2, 6),)),
    C("embedding", lambda w, i: F.embedding(i, w), [(4, 3)],
      constants=(index(0, 1, 3, 3),)),
    *(C(f"embedding_bag {mode}", lambda w, i, o, mode=mode: F.embedding_bag(i, w, o, mode=mode),
        [(4, 3)], constants=(index(0, 1, 3, 3, 2), index(0, 2, 2)))
      for mode in ("mean", "max")),
    C("embedding_bag weighted", lambda w, s, i, o: F.embedding_bag(
        i, w, o, mode="sum", per_sample_weights=s, include_last_offset=True, padding_idx=1),
      [(4, 3), (5,)], constants=(index(0, 1, 3, 3, 2), index(0, 2, 5))),
    C("attention of several lengths", lambda q, k, v, starts: varlen_attn(
        q, k, v, starts, starts, 3, 3, window_size=(1, 0), enable_gqa=True),
      [(5, 2, 4), (5, 1, 4), (5, 1, 4)], constants=(np.array([0, 2, 5], np.int32),)),
    C("attention", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
      [(1, 2, 3, 4)] * 3, -1, 1),
]  # fmt: skip
