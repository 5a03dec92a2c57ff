#!/usr/bin/env python3
"""Other people's kernels, with tritorch in the place of torch: which run, and agree.

    python tools/strangers_kernels.py --packages FOLDER --tutorials FOLDER [--only TEXT]

The first FOLDER is where liger-kernel, fla-core, cut-cross-entropy and einops are installed (`pip
install --no-deps --target FOLDER ...`), the second one is python/tutorials of Triton's repository.
Neither is a part of tritorch.  Each case runs a function of such a package, forward and backward,
on the simulated device or a GPU, and holds it against its composed definition.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("TRITORCH_SIMULATE_CUDA", "1")
os.environ.setdefault("NVIDIA_TF32_OVERRIDE", "0")

import tritorch
from tritorch.compat.as_torch import as_torch

as_torch()
import tritorch as torch  # noqa: E402
import tritorch.nn.functional as F  # noqa: E402

Case = Callable[[], None]
CASES: list[tuple[str, str, Case]] = []
TUTORIALS = Path()


def case(package: str, name: str) -> Callable[[Case], Case]:
    def register(function: Case) -> Case:
        CASES.append((package, name, function))
        return function

    return register


def randn(*shape: int, dtype: Any = None, scale: float = 1.0) -> Any:
    made = torch.randn(shape, device="cuda") * scale
    return (made if dtype is None else made.to(dtype)).requires_grad_()


def agree(fused: Any, composed: Any, *inputs: Any, tolerance: float = 2e-4) -> None:
    """Both functions of the inputs, and their gradients, are the same."""
    results = []
    for function in (fused, composed):
        leaves = [x.detach().clone().requires_grad_(x.requires_grad) for x in inputs]
        # A copy: some of these functions write into what they get.
        out = function(*(x.clone() if x.requires_grad else x for x in leaves))
        outs = [x for x in (out if isinstance(out, tuple) else (out,)) if x is not None]
        kept = [x.detach().clone() for x in outs]
        generator = torch.Generator().manual_seed(1)
        total = 0
        for x in outs:
            weight = torch.randn(x.shape, generator=generator).to(x.device)
            total = total + (x.float() * weight).sum()
        wanted = [x for x in leaves if x.requires_grad]
        if wanted:
            total.backward()
        results.append((kept, [x.grad for x in wanted]))
    for (name, got), (_, expected) in zip(
        zip(("value", "gradient"), results[0]), zip("..", results[1])
    ):
        for i, (a, b) in enumerate(zip(got, expected)):
            if b is None and a is None:
                continue
            assert a is not None and b is not None, f"{name} {i} is missing"
            a, b = a.float(), b.float()
            error = (a - b).abs().max().item() / max(b.abs().max().item(), 1e-3)
            assert error < tolerance, f"{name} {i} is off by {error:.1e}"


# ---- Liger-Kernel -------------------------------------------------------------------------------


def liger() -> Any:
    import liger_kernel.transformers.functional as functional

    return functional


def rms(x: Any, eps: float = 1e-6) -> Any:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


@case("liger-kernel", "rms_norm")
def _() -> None:
    for dtype, tolerance in ((torch.float32, 2e-4), (torch.bfloat16, 3e-2)):
        agree(
            lambda x, w: liger().liger_rms_norm(x, w, 1e-6),
            lambda x, w: w * rms(x.float()).to(x.dtype),
            randn(4, 6, 32, dtype=dtype), randn(32, dtype=dtype), tolerance=tolerance,
        )  # fmt: skip


@case("liger-kernel", "fused_add_rms_norm")
def _() -> None:
    agree(
        lambda x, r, w: liger().liger_fused_add_rms_norm(x, r, w, 1e-6),
        lambda x, r, w: (w * rms(x + r), x + r),
        randn(6, 32), randn(6, 32), randn(32),
    )  # fmt: skip


@case("liger-kernel", "modulated_rms_norm")
def _() -> None:
    agree(
        lambda x, w, scale, shift: liger().liger_modulated_rms_norm(x, w, scale, shift),
        lambda x, w, scale, shift: w * rms(x) * (1 + scale) + shift,
        randn(6, 32), randn(32), randn(6, 32), randn(6, 32),
    )  # fmt: skip


@case("liger-kernel", "layer_norm")
def _() -> None:
    agree(
        lambda x, w, b: liger().liger_layer_norm(x, w, b, 1e-5),
        lambda x, w, b: F.layer_norm(x, (48,), w, b, 1e-5),
        randn(5, 48), randn(48), randn(48),
    )  # fmt: skip


@case("liger-kernel", "poly_norm")
def _() -> None:
    agree(
        lambda x, w, b: liger().liger_poly_norm(x, w, b),
        lambda x, w, b: w[0] * rms(x**3) + w[1] * rms(x**2) + w[2] * rms(x) + b,
        randn(5, 48), randn(3), randn(), tolerance=1e-3,
    )  # fmt: skip


@case("liger-kernel", "group_norm")
def _() -> None:
    agree(
        lambda x, w, b: liger().liger_group_norm(x, w, b, 8, 2, 1e-5),
        lambda x, w, b: F.group_norm(x, 2, w, b, 1e-5),
        randn(3, 8, 12), randn(8), randn(8),
    )  # fmt: skip


@case("liger-kernel", "swiglu")
def _() -> None:
    agree(lambda a, b: liger().liger_swiglu(a, b), lambda a, b: F.silu(a) * b,
          randn(6, 40), randn(6, 40))  # fmt: skip


@case("liger-kernel", "geglu")
def _() -> None:
    agree(lambda a, b: liger().liger_geglu(a, b), lambda a, b: F.gelu(a, approximate="tanh") * b,
          randn(6, 40), randn(6, 40))  # fmt: skip


@case("liger-kernel", "relu_squared")
def _() -> None:
    agree(lambda x: liger().liger_relu_squared(x), lambda x: F.relu(x) ** 2, randn(6, 40))


@case("liger-kernel", "softmax")
def _() -> None:
    agree(lambda x: liger().liger_softmax(x), lambda x: torch.softmax(x, -1), randn(6, 40))


def sparsemax(x: Any) -> Any:
    ordered = x.sort(dim=-1, descending=True).values
    k = torch.arange(1, x.shape[-1] + 1, device=x.device)
    inside = 1 + k * ordered > ordered.cumsum(-1)
    count = inside.sum(-1, keepdim=True)
    threshold = ((ordered * inside).sum(-1, keepdim=True) - 1) / count
    return torch.clamp(x - threshold, min=0)


@case("liger-kernel", "sparsemax")
def _() -> None:
    agree(lambda x: liger().liger_sparsemax(x), sparsemax, randn(6, 40))


@case("liger-kernel", "dyt")
def _() -> None:
    agree(
        lambda x, a, g, b: liger().liger_dyt(x, a, g, b),
        lambda x, a, g, b: g * torch.tanh(a * x) + b,
        randn(2, 3, 32), randn(1), randn(32), randn(32),
    )  # fmt: skip


def labels(n: int, classes: int) -> Any:
    made = torch.arange(n, device="cuda") * 7 % classes
    made[1] = -100
    return made


@case("liger-kernel", "cross_entropy")
def _() -> None:
    target = labels(9, 50)
    for options in ({}, {"label_smoothing": 0.1}, {"reduction": "sum"}):
        agree(lambda x, o=options: liger().liger_cross_entropy(x, target, **o),
              lambda x, o=options: F.cross_entropy(x, target, **o), randn(9, 50))  # fmt: skip
    agree(
        lambda x: liger().liger_cross_entropy(x, target, softcap=5.0),
        lambda x: F.cross_entropy(5 * torch.tanh(x / 5), target), randn(9, 50),
    )  # fmt: skip


@case("liger-kernel", "fused_linear_cross_entropy")
def _() -> None:
    target = labels(9, 50)
    agree(
        lambda x, w, b: liger().liger_fused_linear_cross_entropy(x, w, target, b),
        lambda x, w, b: F.cross_entropy(x @ w.T + b, target),
        randn(9, 16), randn(50, 16), randn(50),
    )  # fmt: skip


@case("liger-kernel", "kl_div")
def _() -> None:
    target = torch.softmax(torch.randn(5, 40, device="cuda"), -1)
    agree(
        lambda x: liger().liger_kl_div(x, target, reduction="batchmean"),
        lambda x: F.kl_div(x, target, reduction="batchmean"),
        torch.log_softmax(torch.randn(5, 40, device="cuda"), -1).requires_grad_(),
    )


def divergence(p: Any, q: Any, beta: float) -> Any:
    """Jensen and Shannon's, of log probabilities; 0 and 1 are Kullback and Leibler's two."""
    kl = lambda a, b: (a.exp() * (a - b)).sum(-1)
    if beta in (0, 1):
        return (kl(q, p) if beta == 0 else kl(p, q)).mean()
    middle = (beta * q.exp() + (1 - beta) * p.exp()).log()
    return (beta * kl(q, middle) + (1 - beta) * kl(p, middle)).mean()


@case("liger-kernel", "jsd")
def _() -> None:
    target = torch.log_softmax(torch.randn(5, 40, device="cuda"), -1)
    for beta in (0.0, 0.5, 0.3, 1.0):
        agree(
            lambda x, beta=beta: liger().liger_jsd(x, target, beta=beta),
            lambda x, beta=beta: divergence(x, target, beta),
            torch.log_softmax(torch.randn(5, 40, device="cuda"), -1).requires_grad_(),
        )


@case("liger-kernel", "tvd")
def _() -> None:
    target = torch.softmax(torch.randn(5, 40, device="cuda"), -1)
    agree(
        lambda x: liger().liger_tvd(x, target, reduction="batchmean"),
        lambda x: 0.5 * (x - target).abs().sum(-1).mean(),
        torch.softmax(torch.randn(5, 40, device="cuda"), -1).requires_grad_(),
    )


@case("liger-kernel", "fused_linear_jsd")
def _() -> None:
    teacher, weight = torch.randn(5, 16, device="cuda"), torch.randn(40, 16, device="cuda")
    agree(
        lambda x, w: liger().liger_fused_linear_jsd(x, w, teacher, weight),
        lambda x, w: divergence(
            torch.log_softmax(x @ w.T, -1), torch.log_softmax(teacher @ weight.T, -1), 0.5
        ),
        randn(5, 16), randn(40, 16), tolerance=1e-3,
    )  # fmt: skip


@case("liger-kernel", "fused_linear_kl_div")
def _() -> None:
    target = torch.softmax(torch.randn(5, 40, device="cuda"), -1)
    agree(
        lambda x, w: liger().liger_fused_linear_kl_div(x, w, target),
        lambda x, w: F.kl_div(torch.log_softmax(x @ w.T, -1), target, reduction="batchmean"),
        randn(5, 16), randn(40, 16), tolerance=1e-3,
    )  # fmt: skip


def rotated(x: Any, cos: Any, sin: Any) -> Any:
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), -1)
    return x * cos[:, None] + turned * sin[:, None]


def angles(length: int, dim: int) -> tuple[Any, Any]:
    turns = torch.arange(length, device="cuda")[:, None] / 100.0 ** (
        torch.arange(0, dim, 2, device="cuda") / dim
    )
    both = torch.cat((turns, turns), -1)[None]
    return both.cos(), both.sin()


@case("liger-kernel", "rope")
def _() -> None:
    cos, sin = angles(7, 16)
    agree(
        lambda q, k: liger().liger_rope(q, k, cos, sin),
        lambda q, k: (rotated(q, cos, sin), rotated(k, cos, sin)),
        randn(2, 4, 7, 16), randn(2, 2, 7, 16),
    )  # fmt: skip


@case("liger-kernel", "qwen2vl_mrope")
def _() -> None:
    cos, sin = angles(7, 16)
    cos3, sin3 = (torch.stack([x * s for s in (1.0, 0.5, 0.25)]) for x in (cos, sin))
    sections = [2, 3, 3]

    def mixed(x: Any) -> Any:
        parts = x.split(sections * 2, dim=-1)
        return torch.cat([part[i % 3] for i, part in enumerate(parts)], -1)

    agree(
        lambda q, k: liger().liger_qwen2vl_mrope(q, k, cos3, sin3, sections),
        lambda q, k: tuple(rotated(x, mixed(cos3), mixed(sin3)) for x in (q, k)),
        randn(1, 4, 7, 16), randn(1, 2, 7, 16),
    )  # fmt: skip


@case("liger-kernel", "llama4_rope")
def _() -> None:
    from liger_kernel.ops.llama4_rope import LigerLlama4RopeFunction

    cos, sin = (x[0, :, :8] for x in angles(7, 16))
    freqs = torch.complex(cos, sin)

    def turned(x: Any) -> Any:
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], 8, 2))
        return torch.view_as_real(pairs * freqs[None, :, None]).flatten(-2)

    agree(
        lambda q, k: LigerLlama4RopeFunction.apply(q, k, freqs),
        lambda q, k: (turned(q), turned(k)),
        randn(2, 7, 4, 16), randn(2, 7, 2, 16),
    )  # fmt: skip


@case("liger-kernel", "embedding")
def _() -> None:
    from liger_kernel.ops.experimental.embedding import LigerEmbeddingFunction

    index = torch.tensor([[1, 4, 1], [0, 2, 2]], device="cuda")
    agree(lambda w: LigerEmbeddingFunction.apply(w, index), lambda w: F.embedding(index, w),
          randn(6, 20))  # fmt: skip


@case("liger-kernel", "attn_res")
def _() -> None:
    def composed(v: Any, query: Any, norm: Any) -> Any:
        scores = (rms(v) * norm * query).sum(-1)
        return (torch.softmax(scores, 0)[..., None] * v).sum(0)

    agree(lambda v, q, n: liger().liger_attn_res(v, q, n), composed,
          randn(3, 2, 5, 32), randn(32), randn(32))  # fmt: skip


@case("liger-kernel", "multi_token_attention")
def _() -> None:
    hidden = torch.ones(8, 8, device="cuda").triu(1).bool()

    def composed(x: Any, w: Any) -> Any:
        scores = torch.softmax(x.masked_fill(hidden, -1e9), -1)
        return F.conv2d(scores, w, padding=1).masked_fill(hidden, 0)

    agree(lambda x, w: liger().liger_multi_token_attention(x, w, padding=1), composed,
          randn(2, 3, 8, 8), randn(4, 3, 3, 3))  # fmt: skip


@case("liger-kernel", "fused_neighborhood_attention")
def _() -> None:
    places = torch.arange(12, device="cuda")
    far = (places[:, None] - places).abs() > 2

    def composed(q: Any, k: Any, v: Any) -> Any:
        scores = (q @ k.transpose(-1, -2)) * 16**-0.5
        return torch.softmax(scores.masked_fill(far, -1e9), -1) @ v

    agree(
        lambda q, k, v: liger().liger_fused_neighborhood_attention(q, k, v, 5), composed,
        randn(1, 2, 12, 16), randn(1, 2, 12, 16), randn(1, 2, 12, 16), tolerance=1e-3,
    )  # fmt: skip


@case("liger-kernel", "mhc_apply")
def _() -> None:
    def composed(x: Any, f: Any, pre: Any, post: Any, res: Any) -> Any:
        mixed = torch.einsum("bsij,bsjd->bsid", res, x) + post[..., None] * f[:, :, None]
        return mixed, (pre[..., None] * x).sum(2)

    agree(
        lambda x, f, pre, post, res: liger().liger_mhc_apply(
            x, f, pre, post, res, return_x_in=True
        ),
        composed, randn(2, 3, 4, 32), randn(2, 3, 32), randn(2, 3, 4), randn(2, 3, 4),
        randn(2, 3, 4, 4), tolerance=1e-3,
    )  # fmt: skip


def composed_coefficients(x: Any, phi: Any, b: Any, pre: Any, post: Any, res: Any) -> Any:
    """mHC's: sigmoids, and a matrix that is made doubly stochastic by 20 rounds of Sinkhorn."""
    n = x.shape[-2]
    flat = x.flatten(-2).float()
    mixed = (flat @ phi) * torch.rsqrt(flat.square().mean(-1, keepdim=True) + 1e-6)
    first, second, rest = mixed.split([n, n, n * n], -1)
    rest = (rest * res + b[2 * n :]).unflatten(-1, (n, n))
    matrix = torch.softmax(rest, -1) + 1e-6
    matrix = matrix / (matrix.sum(-2, keepdim=True) + 1e-6)
    for _ in range(19):
        matrix = matrix / (matrix.sum(-1, keepdim=True) + 1e-6)
        matrix = matrix / (matrix.sum(-2, keepdim=True) + 1e-6)
    gates = torch.sigmoid(first * pre + b[:n]), 2 * torch.sigmoid(second * post + b[n : 2 * n])
    return (*gates, matrix)


@case("liger-kernel", "mhc_coeffs")
def _() -> None:
    agree(
        lambda *given: liger().liger_mhc_coeffs(*given, allow_fp32=True),
        composed_coefficients,
        randn(2, 3, 4, 16), randn(64, 24, scale=0.2), randn(24),
        randn(), randn(), randn(), tolerance=2e-3,
    )  # fmt: skip


@case("liger-kernel", "mhc_forward")
def _() -> None:
    def composed(x: Any, w: Any, *rest: Any) -> Any:
        pre, post, res = composed_coefficients(x, *rest)
        f = (pre[..., None] * x).sum(-2) @ w.T
        return res @ x + post[..., None] * f[..., None, :]

    agree(
        lambda x, w, *rest: liger().liger_mhc_forward(
            x, lambda y: y @ w.T, *rest, allow_fp32=True
        ),
        composed, randn(2, 3, 4, 16), randn(16, 16), randn(64, 24, scale=0.2), randn(24),
        randn(), randn(), randn(), tolerance=2e-3,
    )  # fmt: skip


@case("liger-kernel", "fused_ce_tvd")
def _() -> None:
    from liger_kernel.transformers.fused_ce_tvd import LigerFusedCETVDLoss

    teacher, target = torch.randn(7, 50, device="cuda"), torch.arange(7, device="cuda") * 3
    target[2] = -100
    kept = (target != -100).float()

    def composed(x: Any) -> Any:
        distance = 0.5 * (torch.softmax(x, 1) - torch.softmax(teacher, 1)).abs().sum(1)
        return F.cross_entropy(x, target, reduction="none"), distance * kept

    agree(lambda x: LigerFusedCETVDLoss()(x, teacher, target), composed, randn(7, 50))


@case("liger-kernel", "fused_linear_scaled_cross_entropy")
def _() -> None:
    # What it has for a GPU older than Hopper: there it wants the CuTe DSL.
    from liger_kernel.ops.fused_linear_scaled_cross_entropy import (
        _FusedLinearPPOFallbackFunction as Function,
    )

    target = torch.arange(9, device="cuda") * 4
    target[1] = -100
    kept = (target != -100).float()

    def composed(x: Any, w: Any) -> Any:
        logits = x @ w.T / 0.7
        entropy = -(torch.softmax(logits, 1) * torch.log_softmax(logits, 1)).sum(1)
        return F.cross_entropy(logits, target, reduction="none"), entropy * kept

    agree(
        lambda x, w: Function.apply(x, w, target, 0.7, -100, True),
        composed, randn(9, 16), randn(40, 16), tolerance=1e-3,
    )  # fmt: skip


@case("liger-kernel", "vocab_parallel_cross_entropy")
def _() -> None:
    from liger_kernel.ops import LigerVocabParallelCEFunction as Function

    target = (torch.arange(12, device="cuda") * 3).reshape(4, 3)
    target[0, 1] = -100
    for smoothing in (0.0, 0.1):  # of one rank: its group is None

        def composed(x: Any, smoothing: float = smoothing) -> Any:
            loss = F.cross_entropy(
                x.flatten(0, 1), target.flatten(), reduction="none", label_smoothing=smoothing
            )
            return loss.reshape(4, 3)

        agree(
            lambda x, smoothing=smoothing: Function.apply(
                x, target, None, -100, smoothing, "pytorch", "global"
            ),
            composed, randn(4, 3, 50),
        )  # fmt: skip


@case("liger-kernel", "swiglu of one tensor")
def _() -> None:
    from liger_kernel.ops import LigerFusedGateUpSiLUMulFunction as Function

    agree(
        lambda x: Function.apply(x * 1),
        lambda x: F.silu(x[..., :40]) * x[..., 40:],
        randn(6, 80),
    )


@case("liger-kernel", "mlp")
def _() -> None:
    from liger_kernel.ops import LigerMLPFunction as Function

    agree(
        lambda x, gate, up, down: Function.apply(x, gate, up, down),
        lambda x, gate, up, down: (F.silu(x @ gate.T) * (x @ up.T)) @ down.T,
        randn(2, 24, 32, dtype=torch.bfloat16), randn(64, 32, dtype=torch.bfloat16, scale=0.2),
        randn(64, 32, dtype=torch.bfloat16, scale=0.2),
        randn(32, 64, dtype=torch.bfloat16, scale=0.2), tolerance=3e-2,
    )  # fmt: skip


@case("liger-kernel", "tiled_mlp")
def _() -> None:
    from liger_kernel.transformers import LigerTiledSwiGLUMLP

    sizes = SimpleNamespace(hidden_size=16, intermediate_size=24, hidden_act="silu")
    tiled = LigerTiledSwiGLUMLP(sizes, num_shards=3).to("cuda")
    weights = [tiled.gate_proj.weight, tiled.up_proj.weight, tiled.down_proj.weight]
    x = torch.randn(2, 7, 16, device="cuda")
    results = []
    gate, up, down = weights
    for function in (tiled, lambda x: (F.silu(x @ gate.T) * (x @ up.T)) @ down.T):
        leaf = x.clone().requires_grad_()
        out = function(leaf)
        out.square().sum().backward()
        results.append([out, leaf.grad, *(w.grad for w in weights)])
        tiled.zero_grad()
    for got, expected in zip(*results):
        close(got, expected)


@case("liger-kernel", "fused_moe")
def _() -> None:
    from liger_kernel.ops import LigerFusedMoEFunction as Function

    index = torch.tensor([[0, 2], [1, 2], [2, 3], [0, 3], [3, 1]], device="cuda", dtype=torch.int32)

    def composed(x: Any, up: Any, down: Any, weights: Any) -> Any:
        rows = []
        for t in range(x.shape[0]):
            row = 0
            for k in range(2):
                expert = int(index[t, k])
                gate, value = (up[expert] @ x[t]).chunk(2)
                row = row + weights[t, k] * (down[expert] @ (F.silu(gate) * value))
            rows.append(row)
        return torch.stack(rows)

    agree(
        lambda x, up, down, weights: Function.apply(x, up, down, index, weights),
        composed, randn(5, 32), randn(4, 48, 32, scale=0.3), randn(4, 32, 24, scale=0.3),
        randn(5, 2), tolerance=5e-3,
    )  # fmt: skip


@case("liger-kernel", "mm_int8int2")
def _() -> None:
    from liger_kernel.ops.experimental.mm_int8int2 import matmul, unpack_weights

    x = torch.arange(64 * 128, device="cuda").remainder(17).sub(8).reshape(64, 128).to(torch.int8)
    packed = torch.arange(32 * 64, device="cuda").remainder(251).reshape(32, 64).to(torch.uint8)
    expected = x.cpu().float() @ unpack_weights(packed.cpu(), bits=2).float()
    assert matmul(x, packed).cpu().float().equal(expected)


@case("liger-kernel", "selective_log_softmax")
def _() -> None:
    from liger_kernel.ops.grpo_loss import fused_selective_log_softmax

    index = torch.arange(10, device="cuda").reshape(2, 5)
    logits = torch.randn(2, 6, 20, device="cuda")
    got = fused_selective_log_softmax(logits, index, 1.0)
    expected = torch.log_softmax(logits, -1)[:, :-1].gather(-1, index[..., None])[..., 0]
    assert (got - expected).abs().max().item() < 1e-4


for _kind in ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo", "sequence"):

    @case("liger-kernel", f"grpo_loss, {_kind}")
    def _(kind: str = _kind) -> None:
        # By token luspo's backward pass reads past the end of its gradient, as the device says.
        grpo_loss("grpo" if kind == "sequence" else kind, kind in ("sequence", "luspo"))


def grpo_loss(kind: str, by_sequence: bool) -> None:
    from liger_kernel.ops import GrpoLossFunction

    index = torch.arange(10, device="cuda").reshape(2, 5)
    mask = torch.ones(2, 5, device="cuda", dtype=torch.int32)
    mask[1, 3:] = 0
    advantages = torch.tensor([1.5, -0.5], device="cuda")
    old, reference = (torch.randn(2, 5, device="cuda") * 0.3 - 3 for _ in range(2))
    phi = torch.tensor([0.7, 1.2], device="cuda")
    low, high, beta, temperature = 0.2, 5.0 if kind == "cispo" else 0.3, 0.1, 0.9

    def composed(logits: Any) -> Any:
        each = torch.log_softmax(logits / temperature, -1)[:, :-1]
        each = each.gather(-1, index[..., None])[..., 0]
        ratio, gain = torch.exp(each - old), advantages[:, None]
        kept = mask.float()
        if by_sequence:
            ratio = (((each - old) * kept).sum(1, keepdim=True) / kept.sum(1, keepdim=True)).exp()
        if kind == "cispo":
            loss = -ratio.detach().clamp(max=high) * gain * each
        elif kind == "sapo":
            heat = torch.where(gain > 0, 1.0, 1.05)
            loss = -torch.sigmoid(heat * (ratio - 1)) * 4 / heat * gain
        elif kind == "vespo":
            loss = -phi[:, None] * gain * each
        else:
            clipped = ratio.clamp(1 - low, 1 + high)
            loss = -torch.minimum(ratio * gain, clipped * gain)
        loss = loss + beta * (torch.exp(reference - each) - (reference - each) - 1)
        loss = loss * kept
        if kind in ("grpo", "sapo"):
            return (loss.sum(1) / kept.sum(1)).mean()
        if kind == "dr_grpo":
            return loss.sum() / 10
        if kind == "luspo":
            return (loss * kept.sum(1, keepdim=True)).mean()
        return loss.sum() / kept.sum()

    level = "sequence" if by_sequence else "token"
    agree(
        lambda logits: GrpoLossFunction.apply(
            logits, old, reference, index, advantages, mask, temperature, beta, low, high, False,
            kind, None, True, level, 1.0, 1.05, None, None, False, None,
            phi if kind == "vespo" else None,
        )[0],
        composed, randn(2, 6, 20), tolerance=1e-3,
    )  # fmt: skip


# ---- flash-linear-attention ---------------------------------------------------------------------


def attention_by_steps(q: Any, k: Any, v: Any, decay: Any = None) -> Any:
    """o[t] = q[t] S[t], S[t] = decay[t] S[t - 1] + k[t] v[t]; dims: batch, time, head, feature."""
    state = torch.zeros(*q.shape[:1], *q.shape[2:], v.shape[-1], device="cuda")
    out = []
    for t in range(q.shape[1]):
        if decay is not None:
            at = decay[:, t].exp()
            state = state * (at[..., None, None] if at.ndim == 2 else at[..., None])
        state = state + k[:, t][..., None] * v[:, t][..., None, :]
        out.append((q[:, t][..., None, :] @ state)[..., 0, :])
    return torch.stack(out, 1) * q.shape[-1] ** -0.5


for _name in ("chunk_linear_attn", "fused_chunk_linear_attn", "fused_recurrent_linear_attn"):

    @case("fla", _name)
    def _(name: str = _name) -> None:
        import fla.ops.linear_attn as ops

        agree(
            lambda q, k, v: getattr(ops, name)(q, k, v, normalize=False)[0],
            attention_by_steps,
            randn(1, 40, 2, 16), randn(1, 40, 2, 16), randn(1, 40, 2, 16), tolerance=5e-3,
        )  # fmt: skip


for _name in ("chunk_simple_gla", "fused_recurrent_simple_gla"):

    @case("fla", _name)
    def _(name: str = _name) -> None:
        import fla.ops.simple_gla as ops

        agree(
            lambda q, k, v, g: getattr(ops, name)(q, k, v, F.logsigmoid(g))[0],
            lambda q, k, v, g: attention_by_steps(q, k, v, F.logsigmoid(g)),
            randn(1, 40, 2, 16), randn(1, 40, 2, 16), randn(1, 40, 2, 16), randn(1, 40, 2),
            tolerance=5e-3,
        )  # fmt: skip


for _name in ("chunk_gla", "fused_recurrent_gla"):

    @case("fla", _name)
    def _(name: str = _name) -> None:
        import fla.ops.gla as ops

        agree(
            lambda q, k, v, g: getattr(ops, name)(q, k, v, F.logsigmoid(g))[0],
            lambda q, k, v, g: attention_by_steps(q, k, v, F.logsigmoid(g)),
            randn(1, 40, 2, 16), randn(1, 40, 2, 16), randn(1, 40, 2, 16), randn(1, 40, 2, 16),
            tolerance=5e-3,
        )  # fmt: skip


@case("fla", "RMSNorm")
def _() -> None:
    from fla.modules import RMSNorm

    norm = RMSNorm(32, eps=1e-6).to("cuda")
    agree(lambda x: norm(x), lambda x: rms(x) * norm.weight, randn(4, 32))


@case("fla", "LayerNorm")
def _() -> None:
    from fla.modules import LayerNorm

    norm = LayerNorm(32, eps=1e-6).to("cuda")
    agree(lambda x: norm(x), lambda x: F.layer_norm(x, (32,), eps=1e-6), randn(4, 32))


@case("fla", "l2norm")
def _() -> None:
    from fla.modules.l2norm import l2norm

    agree(lambda x: l2norm(x), lambda x: x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6),
          randn(4, 32))  # fmt: skip


@case("fla", "RotaryEmbedding")
def _() -> None:
    from fla.modules.rotary import rotary_embedding

    cos, sin = angles(7, 16)
    agree(
        lambda x: rotary_embedding(x, cos[0, :, :8], sin[0, :, :8]),
        lambda x: rotated(x.transpose(1, 2), cos, sin).transpose(1, 2),
        randn(2, 7, 3, 16),
    )


# ---- cut-cross-entropy --------------------------------------------------------------------------


@case("cut-cross-entropy", "linear_cross_entropy")
def _() -> None:
    from cut_cross_entropy import linear_cross_entropy

    target = labels(40, 64)
    for options in ({}, {"reduction": "sum"}, {"softcap": 10.0}):

        def composed(e: Any, c: Any, o: Any = options) -> Any:
            logits = e.float() @ c.float().T
            cap = o.get("softcap")
            logits = cap * torch.tanh(logits / cap) if cap else logits
            return F.cross_entropy(logits, target, reduction=o.get("reduction", "mean"))

        agree(
            lambda e, c, o=options: linear_cross_entropy(e, c, target, **o), composed,
            randn(40, 32, dtype=torch.bfloat16), randn(64, 32, dtype=torch.bfloat16),
            tolerance=3e-2,
        )  # fmt: skip


# ---- Triton's tutorials -------------------------------------------------------------------------


def tutorial(number: str) -> dict[str, Any]:
    """The names of a tutorial's file, up to where it measures."""
    import importlib.util

    (path,) = TUTORIALS.glob(f"{number}-*.py")
    text = path.read_text()
    # Most check themselves on large matrices, or measure, from here on.
    begins = r"@triton\.testing|group_m = \[|if __name__|torch\.manual"
    if number == "07":
        begins = "current_file ="  # a path into Triton's sources
    cut = re.search(f"^(?:{begins})", text, re.MULTILINE)
    text = text[: cut.start()] if cut else text
    # An argument that Triton 3.9 refuses, and a library to compare with.
    text = text.replace("gropup_c_ptrs", "group_c_ptrs")
    text = re.sub(r"nvidia\.cublas\.CublasLt\(\w+\)", "None", text)
    sys.modules["tabulate"] = SimpleNamespace(tabulate=lambda *args: "")  # type: ignore[assignment]
    folder = Path(os.environ.get("TMPDIR", "/tmp")) / "tritorch-tutorials"
    folder.mkdir(exist_ok=True)
    copy = folder / f"tutorial_{number}.py"
    copy.write_text(text)
    spec = importlib.util.spec_from_file_location(copy.stem, copy)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[copy.stem] = module
    with contextlib.redirect_stdout(None):
        spec.loader.exec_module(module)
    return vars(module)


def close(got: Any, expected: Any, tolerance: float = 1e-3) -> None:
    error = (got.float() - expected.float()).abs().max().item()
    assert error <= tolerance * max(1.0, expected.float().abs().max().item()), f"off by {error:.1e}"


@case("tutorials", "01 vector add")
def _() -> None:
    names = tutorial("01")
    x, y = torch.rand(5000, device="cuda"), torch.rand(5000, device="cuda")
    close(names["add"](x, y), x + y, 0)


@case("tutorials", "02 fused softmax")
def _() -> None:
    names = tutorial("02")
    x = torch.randn(37, 81, device="cuda")
    close(names["softmax"](x), torch.softmax(x, 1))


@case("tutorials", "03 matrix multiplication")
def _() -> None:
    names = tutorial("03")
    a, b = (torch.rand(96, 96, device="cuda", dtype=torch.float16) - 0.5 for _ in "ab")
    close(names["matmul"](a, b), a.float() @ b.float(), 1e-2)


@case("tutorials", "04 low-memory dropout")
def _() -> None:
    names = tutorial("04")
    x = torch.ones(3000, device="cuda")
    out = names["seeded_dropout"](x, p=0.5, seed=5)
    assert 0.4 < (out == 0).float().mean().item() < 0.6
    assert (out == names["seeded_dropout"](x, p=0.5, seed=5)).all().item()


@case("tutorials", "05 layer norm")
def _() -> None:
    names = tutorial("05")
    agree(
        lambda x, w, b: names["layer_norm"](x, (48,), w, b, 1e-5),
        lambda x, w, b: F.layer_norm(x, (48,), w, b, 1e-5),
        randn(20, 48), randn(48), randn(48),
    )  # fmt: skip


@case("tutorials", "06 fused attention")
def _() -> None:
    names = tutorial("06")
    hidden = torch.ones(256, 256, device="cuda").triu(1).bool()
    taken = names["_attention"].forward.__code__.co_varnames
    rest = (False,) if "warp_specialize" in taken else ()
    whole = "CAUSAL" in names["_attn_bwd"].arg_names  # before Triton 3.5 only what is causal was
    for causal in (True, False):

        def composed(q: Any, k: Any, v: Any, causal: bool = causal) -> Any:
            scores = q.float() @ k.float().transpose(-1, -2) * 0.5
            scores = scores.masked_fill(hidden, float("-inf")) if causal else scores
            return torch.softmax(scores, -1) @ v.float()

        inputs = [randn(1, 1, 256, 64, dtype=torch.float16, scale=0.5) for _ in "qkv"]
        if not (causal or whole):
            inputs = [x.detach() for x in inputs]
        agree(
            lambda q, k, v, causal=causal: names["attention"](q, k, v, causal, 0.5, *rest),
            composed, *inputs, tolerance=2e-2,
        )  # fmt: skip


@case("tutorials", "07 extern functions")
def _() -> None:
    names = tutorial("07")
    x, grid = names["x"], names["grid"]
    close(names["output_triton"], torch.asin(x), 1e-5)
    # Its second half names a file of Triton's sources; the one that is installed is the same.
    import triton.backends.nvidia

    library = Path(triton.backends.nvidia.__file__).parent / "lib/libdevice.10.bc"
    out = torch.empty_like(x)
    names["asin_kernel"][grid](
        x, out, x.numel(), BLOCK_SIZE=1024, extern_libs={"libdevice": str(library)}
    )
    close(out, torch.asin(x), 1e-5)


@case("tutorials", "08 grouped gemm")
def _() -> None:
    names = tutorial("08")
    pairs = [
        (torch.rand(m, k, device="cuda", dtype=torch.float16),
         torch.rand(k, n, device="cuda", dtype=torch.float16))
        for m, n, k in ((128, 256, 64), (256, 128, 128))  # whole tiles
    ]  # fmt: skip
    for got, (a, b) in zip(names["group_gemm_fn"](*map(list, zip(*pairs))), pairs):
        close(got, a.float() @ b.float(), 1e-2)


@case("tutorials", "09 persistent matmul")
def _() -> None:
    names = tutorial("09")
    a, b = (torch.randn(128, 128, device="cuda", dtype=torch.float16) for _ in "ab")
    expected = a.float() @ b.float().T
    for name in ("matmul", "matmul_persistent"):
        close(names[name](a, b.T), expected, 1e-2)
    for name in ("matmul_tma", "matmul_tma_persistent", "matmul_descriptor_persistent"):
        if name in names:
            rest = (False,) if "warp_specialize" in names[name].__code__.co_varnames else ()
            close(names[name](a, b, *rest), expected, 1e-2)


@case("tutorials", "10 block-scaled matmul")
def _() -> None:
    names = tutorial("10")
    for kind in ("mxfp8", "mxfp4", "nvfp4"):
        with contextlib.redirect_stdout(None):
            names["validate_block_scaled"](256, 256, 256, kind)


def main() -> int:
    global TUTORIALS
    text = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=text)
    parser.add_argument("--packages", help="a folder for sys.path")
    parser.add_argument("--tutorials", type=Path)
    parser.add_argument("--only", default="", help="a part of the package's or the case's name")
    parser.add_argument("--trace", action="store_true", help="show where a case failed")
    args = parser.parse_args()
    if args.packages:
        sys.path.insert(0, args.packages)
    TUTORIALS = args.tutorials or Path()
    counts: dict[str, list[int]] = {}
    for package, name, run in CASES:
        if args.only not in f"{package} {name}" or (package == "tutorials" and not args.tutorials):
            continue
        start = time.perf_counter()
        tritorch.manual_seed(0)
        try:
            run()
            tritorch.cuda.synchronize()
            told = "agrees"
        except Exception as error:
            told = f"{type(error).__name__}: {error}".strip().splitlines()
            told = f"{told[0]}{' ... ' + told[-1] if len(told) > 1 else ''}"[:150]
            if args.trace:
                traceback.print_exc()
        counts.setdefault(package, [0, 0])
        counts[package][0] += told == "agrees"
        counts[package][1] += 1
        print(f"{package:18} {name:32} {time.perf_counter() - start:6.1f} s  {told}", flush=True)
    for package, (passed, total) in counts.items():
        print(f"{package}: {passed} of {total}")
    return int(any(passed < total for passed, total in counts.values()))


if __name__ == "__main__":
    sys.exit(main())
