"""Kernels that are written for several calls: how many, what they read and write, how near they are
to the truth; `fused_patterns.py` has what is compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tritorch as torch
from tritorch import _C
from tritorch._following.fusing import kernels

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
    pattern, dtype = PATTERNS[name], getattr(torch, kind)
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
    truth = results(pattern.run, with_grads(pattern, wide))[0] if "dropout" not in name else eager
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


# ---- programs that were told from eager's once


def _kept_beside_others(x: Any, y: Any) -> list[Any]:
    """Values of other columns stay in memory: no kernel can leave all of them."""
    a, b = x * 2, y * 2
    c = a * b
    return [a, b, c.sum(), (c + 1).sum(0, True) + 1]


def _views_of_kept(x: Any, y: Any) -> list[Any]:
    a, b = x * 2, y * 2
    c = a * b
    return [a, b, c.sum(), c.reshape(-1).sum(), (c + 1).t().cumsum(0)]


def _more_results_than_a_kernel_has(x: Any, y: Any) -> list[Any]:
    return [(x * i).sum() for i in range(90)]


def _product_read_transposed(x: Any, y: Any) -> list[Any]:
    z = (x + y[:5]).cumsum(0)
    return [z + (x @ y[None, :5]).t()]


def _product_of_one_row(x: Any, y: Any) -> list[Any]:
    a, b = x.t() @ (x * y[:2]), x @ y[None, :1]
    return [a * 2, (a * 2 + 3).relu(), b * 2, (b + 1).relu(), b]


def _product_of_one_element(x: Any, y: Any) -> list[Any]:
    a = torch.dot(y, y * 2)
    return [a * 2, (a * 3).relu(), a]


def _one_element_for_all(x: Any, y: Any) -> list[Any]:
    a = y * 2
    return [a[1:2] * y, torch.cat([a[2:3], a[:1], y]), (a[3:4] + x).sum(0)]


def _edges(x: Any, y: Any) -> list[Any]:
    return [*torch.gradient(y * 2)]


def _elements_of_rows_that_are_summed(x: Any, y: Any) -> list[Any]:
    z = x * y * 2
    return [z[:, 2:3] - z.sum(-1, True), z[:, 3] * z.mean(-1), z[:, -1:] * z.softmax(-1)]


def _dropout_of_a_part_of_rows(x: Any, y: Any) -> list[Any]:
    z = x * y * 2
    dropped = torch.nn.functional.dropout
    return [dropped(z[:, :1], 0.5) * z.softmax(-1), dropped(z.sum(-1), 0.3) + z.mean(-1)]


def _rows_of_one_joined(x: Any, y: Any) -> list[Any]:
    z = x * y * 2
    return [torch.cat([z.sum(-1, True) * 2]) + z.amax(-1, True)]


def _columns_of_one_row(x: Any, y: Any) -> list[Any]:
    z = y[None] * 2
    return [z, z.sum(-1), z.sum(0) + 1, y[None].sum(0, True) + 1]


def _loops_on_operands_of_several_shapes(x: Any, y: Any) -> list[Any]:
    a, b = x.abs() + 1.5, y.abs() + 0.5
    zeta, rows = torch.special.zeta, (x * y).softmax(-1) + 1.5
    degree = (y[:1] * 0 + 3) * 1
    return [
        zeta(a, b), zeta(b[:1] + 1, b * 2), zeta(rows, rows.sum(-1, True)), zeta(rows.sum(-1), 2.0),
        torch.special.hermite_polynomial_h(b, degree), torch.special.hermite_polynomial_he(a, degree),
    ]  # fmt: skip


MENDED = (
    _kept_beside_others, _views_of_kept, _more_results_than_a_kernel_has, _product_read_transposed,
    _product_of_one_row, _product_of_one_element, _one_element_for_all, _edges,
    _elements_of_rows_that_are_summed, _dropout_of_a_part_of_rows, _rows_of_one_joined,
    _columns_of_one_row, _loops_on_operands_of_several_shapes,
)  # fmt: skip


@pytest.mark.parametrize("mode", [None, "exact"])
@pytest.mark.parametrize("run", MENDED, ids=lambda run: run.__name__.strip("_"))
def test_programs(run: Any, mode: str | None) -> None:
    torch.manual_seed(3)
    inputs = [torch.randn(5, 1, device="cuda"), torch.randn(7, device="cuda")]
    fast = torch.compile(run, mode=mode)
    for function in (run, *[fast] * RUNS):
        torch.manual_seed(5)
        found = function(*inputs)
        expected = found if function is run else expected
    for x, y in zip(found, expected, strict=True):
        assert x.equal(y) if mode else torch.allclose(x, y, 1e-5, 1e-5, equal_nan=True)
