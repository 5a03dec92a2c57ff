"""Loops that are compiled for vectors of several widths: their code, and that all give the same."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.tiers import first_quick

SRC = Path(__file__).parents[2] / "src"
DECLARED = re.compile(r"\bTRITORCH_WIDEST\(|\[\[gnu::target\(\"avx512f\"\)\]\] \w+ widest\(")
SOURCES = sorted(
    str(path.relative_to(SRC)) for path in SRC.rglob("*.cpp") if DECLARED.search(path.read_text())
)
WIDTHS = {"avx512": "zmm|%ymm", "widest": "zmm|%ymm", "avx2": "ymm", "wider": "ymm"}
ARITHMETIC = re.compile(r"\tv?(add|sub|mul|div|max|min|sqrt|u?comi|cmp\w*|fn?m\w+)([ps])[sd]\s")
X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the widths are those of x86-64")


def _functions(source: str) -> dict[str, list[str]]:
    """The lines of assembly of a source's functions, by their names."""
    flags = ["-std=c++20", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]
    folders = [f"-I{SRC}", f"-I{sysconfig.get_paths()['include']}"]
    text = subprocess.run(
        ["g++", *flags, "-S", "-o", "-", *folders, str(SRC / source)],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    found: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if match := re.match(r"(_Z[\w.]+):", line):
            name = match.group(1)
            found[name] = []
        elif name:
            found[name].append(line)
    return found


def _innermost_loops(lines: list[str]) -> list[list[str]]:
    """The lines between a label and a jump back to it that hold no other such jump."""
    labels: dict[str, int] = {}
    loops: list[tuple[int, int]] = []
    for i, line in enumerate(lines):
        if match := re.match(r"(\.L\w+):", line):
            labels[match.group(1)] = i
        elif (match := re.match(r"\tj\w+\s+(\.L\w+)", line)) and match.group(1) in labels:
            loops.append((labels[match.group(1)], i))
    holds = lambda a, b: a != b and a[0] <= b[0] and b[1] <= a[1]
    return [lines[a[0] : a[1]] for a in loops if not any(holds(a, b) for b in loops)]


@X86
@pytest.mark.skipif(shutil.which("g++") is None, reason="no compiler to ask")
@pytest.mark.parametrize("source", first_quick(SOURCES, 2))
def test_a_loop_of_every_width_computes_in_vectors_alone(source: str) -> None:
    """GCC 12 makes a branch a lane of some choices between vectors: 36 times the time."""
    seen = 0
    for name, lines in _functions(source).items():
        width = next((width for part, width in WIDTHS.items() if part in name), None)
        if width is None or "cold" in name or not any(map(ARITHMETIC.match, lines)):
            continue  # a function for any processor, or one that moves bytes
        seen += 1
        clean = 0
        for loop in _innermost_loops(lines):
            kinds = [match[2] for line in loop if (match := ARITHMETIC.match(line))]
            lanes = 3 * kinds.count("s") > len(kinds)  # one number for all lanes may be found
            wide = any(re.search(f"%{width}", line) for line in loop)
            clean += bool(kinds) and wide and not lanes
        assert clean, f"{name} has no loop of vectors alone"
    assert seen or source in ("host/copies.cpp", "host/chains/chain_loops.cpp")


PROGRAM = """
import hashlib, json
import tritorch as torch
F = torch.nn.functional
torch.manual_seed(0)
x, y = torch.randn(7, 5, 33, 35), torch.rand(7, 5, 33, 35) + 0.1
rows, wide = torch.randn(37, 1003), torch.randn(3, 100_003)
weight, taps = torch.randn(5), torch.randn(5, 1, 3, 3)
found = {}
def note(name, *values):
    for value in values:
        name += "'"
        found[name] = hashlib.sha256(value.detach().contiguous().numpy().tobytes()).hexdigest()
for kind in (torch.float32, torch.float64):
    a, b, r, w, g, t = (v.to(kind) for v in (x, y, rows, wide, weight, taps))
    for name in "exp expm1 log log1p tanh erf erfinv lgamma sigmoid sqrt sin".split():
        note(f"{name} {kind}", getattr(torch, name)(b))
    for dim in (None, 0, 1, -1):
        for name in "sum mean amax amin prod std logsumexp".split():
            args = () if dim is None and name != "logsumexp" else (-1 if dim is None else dim,)
            for v in (b, r, w):
                if v.dim() > 2 or dim in (None, 0, -1):
                    note(f"{name} {dim} {tuple(v.shape)} {kind}", getattr(v, name)(*args))
    for name, f in {
        "softmax": lambda v: F.softmax(v, -1), "log_softmax": lambda v: F.log_softmax(v, -1),
        "layer_norm": lambda v: F.layer_norm(v, v.shape[-1:]), "gelu": F.gelu, "silu": F.silu,
        "rms_norm": lambda v: F.rms_norm(v, v.shape[-1:]), "cumsum": lambda v: v.cumsum(-1),
        "columns": lambda v: v.cumsum(0), "cumprod": lambda v: v.cumprod(0),
        "chain": lambda v: (v * 2 + 1).relu() * v - 0.5,
        "normalize": F.normalize, "norm": lambda v: v.norm(dim=-1),
        "lerp": lambda v: v.lerp(-v, 0.3),
    }.items():
        v = r.clone().requires_grad_()
        out = f(v)
        out.sin().sum().backward()
        note(f"{name} {kind}", out, v.grad)
    for name, f in {
        "batch_norm": lambda v: F.batch_norm(v, None, None, g, g, True),
        "group_norm": lambda v: F.group_norm(v, 5, g, g), "max_pool": lambda v: F.max_pool2d(v, 2),
        "avg_pool": lambda v: F.avg_pool2d(v, 2),
        "depthwise": lambda v: F.conv2d(v, t, padding=1, groups=5),
        "bilinear": lambda v: F.interpolate(v, scale_factor=2, mode="bilinear"),
        "attention": lambda v: F.scaled_dot_product_attention(v, v, v),
        "causal": lambda v: F.scaled_dot_product_attention(v, v, v, is_causal=True),
        "add_": lambda v: (v * 1).add_(v, alpha=0.3),
    }.items():
        v = a.clone().requires_grad_()
        out = f(v)
        out.sin().sum().backward()
        note(f"{name} {kind}", out, v.grad)
    compiled = torch.compile(lambda v: ((v * 3).tanh() + v.exp()).sum(-1))
    for _ in range(3):
        out = compiled(r)
    note(f"compiled {kind}", out)
note("bfloat16", (x.bfloat16() * 1.1).float(), x.half().float())
note("full", torch.full((1000, 1001), 3.0), torch.zeros(1000, 1001), x.clone())
note("random", torch.randn(10_000), torch.rand(10_000), torch.randn(10_000, dtype=torch.float64))
print(json.dumps(found))
"""


@X86
def test_results_are_the_same_at_every_width() -> None:
    found = {}
    for width in ("avx512", "avx2", "baseline"):
        run = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", PROGRAM],
            capture_output=True, text=True, check=True,
            env={**os.environ, "TRITORCH_CPU": width},
        )  # fmt: skip
        found[width] = json.loads(run.stdout)
    assert len(found["avx2"]) > 100
    for width in ("avx512", "avx2"):
        other = {name for name, text in found[width].items() if text != found["baseline"][name]}
        assert not other, (width, other)
