"""Kernels that are written for several calls: how many, what they read and write, how near they are
to the truth; `fused_patterns.py` has what is compiled."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tritorch as torch
import tritorch.nn.functional as F
from tritorch import _C
from tritorch._following.fusing import definitions, groups, kernels

from .fused_patterns import PATTERNS, Arrays, Pattern, least_bytes

pytestmark = [pytest.mark.device, pytest.mark.simulated]
RUNS = 4  # until programs are made
SIZES = 2, 6, 40


def launched(function: Any) -> tuple[Any, int]:
    """What a function gives, and how many kernels it launches."""
    torch.cuda.synchronize()
    before = _C.simulator.counters(0)["launches"]
    result = function()
    torch.cuda.synchronize()
    return result, _C.simulator.counters(0)["launches"] - before


def tensors(result: Any) -> list[Any]:
    return [result] if isinstance(result, torch.Tensor) else list(result)


def with_grads(pattern: Pattern, inputs: list[Any]) -> list[Any]:
    if pattern.grads is None:
        return inputs
    return [x.detach().requires_grad_() if x.is_floating_point() else x for x in inputs]


def errors(results: list[Any], truth: list[Any]) -> list[float]:
    """How far results are from the truth, in parts of the largest number of each."""
    found = []
    for x, y in zip(results, truth, strict=True):
        a, b = x.detach().cpu().double().numpy(), y.detach().cpu().double().numpy()
        found.append(float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)))
    return found


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", PATTERNS)
def test_patterns(name: str, kind: str) -> None:
    check(PATTERNS[name], getattr(torch, kind), exact="dropout" in name)


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns_of_long_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "WIDEST", 16)
    monkeypatch.setattr(groups, "MANY", 1)
    monkeypatch.setattr(kernels, "PART", 16)
    pattern = PATTERNS[name]
    if pattern.grads == 2:  # sums of columns are not made of rows in parts
        pattern = pattern._replace(grads=3)
    check(pattern, torch.float32, exact="dropout" in name)


@pytest.mark.parametrize("name", ["scaled_huber", "scale_of_quantizing"])
def test_programs_reduce_several_blocks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definitions, "ROW", 64)
    monkeypatch.setattr(kernels, "PROGRAMS_OF_ALL", 3)
    check(PATTERNS[name], torch.float32, exact=False)


def test_reductions_of_other_widths_are_apart() -> None:
    def run(x: Any, y: Any) -> Any:
        return (x * 2).sum(1) + (y * y).sum(1)

    x, y = torch.randn(8, 1, device="cuda"), torch.randn(8, 64, device="cuda")
    fast = torch.compile(run)
    for _ in range(RUNS):
        found = fast(x, y)
    assert torch.allclose(found, run(x, y))


def check(pattern: Pattern, dtype: Any, exact: bool) -> None:
    """Compiled, a pattern launches as few kernels as it says and is as near the truth as eager;
    exact: eager's result is the truth."""
    torch.manual_seed(3)
    inputs = with_grads(pattern, pattern.inputs(Arrays(dtype), *SIZES))
    fast = torch.compile(pattern.run)

    def results(run: Any, given: list[Any]) -> tuple[list[Any], int, int]:
        torch.manual_seed(5)
        out, count = launched(lambda: run(*given))
        outs, back = tensors(out), 0
        if pattern.grads is not None:
            leaves = [x for x in given if x.requires_grad]
            seeds = [torch.ones_like(x) * 0.5 for x in outs]
            grads, back = launched(lambda: torch.autograd.grad(outs, leaves, seeds))
            outs += grads
        return outs, count, back

    for _ in range(RUNS):
        results(fast, inputs)
    found, count, back = results(fast, inputs)
    assert count <= pattern.kernels and back <= (pattern.grads or 0)
    eager = results(pattern.run, inputs)[0]
    wide = [x.detach().double() if x.is_floating_point() else x for x in inputs]
    truth = results(pattern.run, with_grads(pattern, wide))[0] if not exact else eager
    near = torch.finfo(dtype).eps
    for own, other in zip(errors(found, truth), errors(eager, truth)):
        assert own <= 1.5 * other + near
    for x, y in zip(found, eager, strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape and x.stride() == y.stride()


def test_bytes_are_those_that_have_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[int] = []
    call = kernels.Fused.__call__
    monkeypatch.setattr(
        kernels.Fused, "__call__", lambda self, *a: (moved.append(self.bytes()), call(self, *a))[1]
    )
    for name, pattern in PATTERNS.items():
        if pattern.grads is not None or name.startswith("attention"):
            continue
        inputs = pattern.inputs(Arrays(torch.float32), *SIZES)
        fast = torch.compile(pattern.run)
        for _ in range(RUNS):
            fast(*inputs)
        moved.clear()
        outs = tensors(fast(*inputs))
        table = inputs[1:2] if name.startswith("embedding") else []  # of which a part is read
        least = least_bytes([x for x in inputs if x not in table] if not table else
                            [inputs[0], *inputs[2:]], outs)  # fmt: skip
        assert 0 < sum(moved) - sum(least_bytes([x], []) for x in table) <= 1.1 * least, name


def _left_beside(x: Any) -> Any:
    return x[0] * 0.7, (x * 0.3).tanh()


def _shown_twice(x: Any) -> Any:
    same = x.expand(4, 4)
    return x + x.sum(), F.mse_loss(same, x.detach().expand(4, 4))


@pytest.mark.parametrize("run", [_left_beside, _shown_twice])
def test_what_is_left_for_others(run: Any) -> None:
    x = torch.randn(4, 4, device="cuda")
    fast = torch.compile(run)
    for _ in range(RUNS):
        found = fast(x)
    for own, eager in zip(found, run(x), strict=True):
        assert torch.allclose(own, eager, atol=1e-6)


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources of the kernels that are written."""
    found: list[str] = []
    init = kernels.Fused.__init__
    monkeypatch.setattr(
        kernels.Fused, "__init__",
        lambda self, *a: (init(self, *a), found.append(self.kernel.source))[0],
    )  # fmt: skip
    return found


def _images(*names: str) -> list[Any]:
    torch.manual_seed(1)
    last = torch.channels_last
    made = {
        "x": torch.randn(2, 8, 5, 7, device="cuda").to(memory_format=last),
        "y": torch.randn(2, 8, 5, 7, device="cuda").to(memory_format=last),
        "rows": torch.randn(2, 8, 5, 7, device="cuda"),
        "each": torch.rand(8, 1, 1, device="cuda") + 0.5,
        "channel": torch.rand(8, device="cuda") + 0.5,
        "pair": torch.randn(2, 8, device="cuda"),
    }
    return [made[name] for name in names]


def _normed(x: Any, y: Any, each: Any) -> Any:
    return F.relu(F.batch_norm(x, each, each, each, each) + y)


IMAGES: dict[str, tuple[Any, list[str], int]] = {  # and how many arrays are not read in order
    "scaled": (lambda x, y, b: F.relu(x * b + y), ["x", "y", "each"], 0),
    "normed": (_normed, ["x", "y", "channel"], 0),
    "gated": (lambda x, s: F.relu(x) * torch.sigmoid(s)[:, :, None, None], ["x", "pair"], 0),
    "mixed": (lambda x, y, z: x * y + z, ["x", "y", "rows"], 1),
    "turned": (lambda x, y: x.permute(2, 3, 0, 1).exp() + y.permute(2, 3, 0, 1), ["x", "y"], 0),
    "plain": (lambda z, b: (z * b).exp(), ["rows", "each"], 0),
}  # fmt: skip


@pytest.mark.parametrize("name", IMAGES)
def test_elements_are_counted_as_they_lie(name: str, sources: list[str]) -> None:
    run, names, strided = IMAGES[name]
    inputs = _images(*names)
    fast = torch.compile(run)
    for _ in range(RUNS):
        found = fast(*inputs)
    eager = run(*inputs)
    assert torch.allclose(found, eager, atol=1e-6) and found.stride() == eager.stride()
    (source,) = sources
    large = [
        line for line in source.splitlines()
        if ("tl.load" in line or "tl.store" in line) and re.search(r"_ptr \+ \(at .*\) \* ", line)
    ]  # fmt: skip
    assert len(large) == strided
