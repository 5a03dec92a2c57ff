"""Kernels that are written for several calls: how many, what they read and write, how near they are
to the truth; `fused_patterns.py` has what is compiled."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tritorch as torch
import tritorch.nn.functional as F
from tritorch import _C
from tritorch.compilation.fuse import definitions, epilogues, groups, kernels, lists

from . import fused_targets
from .fused_patterns import PATTERNS, Arrays, Block, Pattern, least_bytes

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


def _likely(x: Any) -> list[Any]:
    return [torch.softmax(x * 2, -1) + 1, torch.log_softmax(x * 2, -1) * 2, (x * 2).exp().sum(-1)]


def test_a_long_row_is_read_twice_for_its_softmax(
    monkeypatch: pytest.MonkeyPatch, sources: list[str]
) -> None:
    """Its sum of exponentials does not wait for its largest element, whatever that is."""
    for name, value in (("WIDEST", 16), ("MANY", 1)):
        monkeypatch.setattr(groups, name, value)
    monkeypatch.setattr(kernels, "PART", 16)
    torch.manual_seed(6)
    x, infinite = torch.randn(7, 50, device="cuda"), float("inf")
    x[1], x[2, :30], x[5, :49] = -infinite, -infinite, -infinite
    x[3, 7], x[4, 3], x[6, 40] = infinite, torch.nan, 80.0
    fast = torch.compile(_likely)
    for _ in range(RUNS):
        found = fast(x)
    (source,) = sources
    assert len(re.findall(r"^ +for start in", source, re.MULTILINE)) == 2
    for own, eager in zip(found, _likely(x), strict=True):
        assert torch.allclose(own, eager, 1e-5, 1e-5, equal_nan=True)


def _nucleus(x: Any) -> Any:
    """What is likely enough to be drawn: the fewest elements that have 0.9 together."""
    p = (x * 2).softmax(-1)
    return torch.where(p.cumsum(-1) - p > 0.9, torch.zeros_like(p), p)


def _of_running_sums(x: Any) -> Any:
    return (x * 2).cumsum(-1).sin() + 1


@pytest.mark.parametrize("run", [_nucleus, _of_running_sums])
@pytest.mark.parametrize("columns", [50, 300])
def test_scans_of_rows_and_their_gradients(run: Any, columns: int, sources: list[str]) -> None:
    torch.manual_seed(7)
    x = torch.randn(9, columns, device="cuda", requires_grad=True)
    fast, results = torch.compile(run), []
    for function in (run, *[fast] * RUNS):
        y = function(x)
        results.append([y, *torch.autograd.grad((y * y).sum(), x)])
    for own, eager in zip(results[-1], results[0], strict=True):
        assert torch.allclose(own, eager, 1e-4, 1e-6)
    assert len(sources) == 2  # one for both passes each
    assert "running_sum" in sources[0]
    backwards = run is _of_running_sums
    assert ("running_sum" in sources[1]) == backwards


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
    for own, other, x in zip(errors(found, truth), errors(eager, truth), found):
        # Of a single number eager may be right by chance.
        assert own <= 1.5 * other + near * (4 if x.numel() == 1 else 1)
    for x, y in zip(found, eager, strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape and x.stride() == y.stride()


@pytest.mark.parametrize("rows", [37, 1024])
def test_sums_of_columns_are_as_near_the_truth_as_eager(rows: int) -> None:
    """Over many draws: of a single one, eager's sum may be right by chance."""

    def run(x: Any, bias: Any) -> Any:
        return F.gelu(x + bias) * 2

    fast = torch.compile(run)
    squares = np.zeros(2)
    for seed in range(RUNS + 16):
        torch.manual_seed(seed)
        given = torch.randn(rows, 16, device="cuda"), torch.randn(16, device="cuda")
        seeds = torch.randn(rows, 16, device="cuda")
        found = []
        for function, kind in ((fast, torch.float32), (run, torch.float32), (run, torch.float64)):
            leaves = [x.to(kind).detach().requires_grad_() for x in given]
            (grad,) = torch.autograd.grad(function(*leaves), leaves[1:], seeds.to(kind))
            found.append(grad.cpu().double().numpy())
        if seed >= RUNS:
            squares += [((x - found[2]) ** 2).sum() for x in found[:2]]
    own, eager = np.sqrt(squares)
    assert own <= 1.2 * eager


def _launched_by_blocks(count: int) -> tuple[int, int]:
    """How many kernels so many blocks of a GPT launch, forward and backward."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(Block(32, 2) for _ in range(count))).cuda()
    fast = torch.compile(model)
    x = torch.randn(2, 16, 32, device="cuda", requires_grad=True)
    leaves = [x, *model.parameters()]
    for _ in range(RUNS + 1):
        y, forward = launched(lambda: fast(x))
        backward = launched(functools.partial(torch.autograd.grad, y, leaves, x))[1]
    return forward, backward


def test_a_block_of_a_gpt() -> None:
    """Four products, attention, two norms; backward eight products, two kernels of attention's, two
    norms, and what joins the gradients of q, k and v.  All sums of columns have one second
    kernel."""
    assert _launched_by_blocks(1) == (7, 16)
    two, three = _launched_by_blocks(2), _launched_by_blocks(3)
    assert (three[0] - two[0], three[1] - two[1]) == (7, 13)


def test_sums_of_more_columns_than_a_kernel_has_parameters_for() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.LayerNorm(8) for _ in range(40))).cuda()
    fast, x = torch.compile(model), torch.randn(6, 8, device="cuda")
    leaves, seed = list(model.parameters()), torch.randn(6, 8, device="cuda")
    for _ in range(RUNS):
        found = torch.autograd.grad(fast(x), leaves, seed)
    for own, eager in zip(found, torch.autograd.grad(model(x), leaves, seed), strict=True):
        assert torch.allclose(own, eager, 1e-4, 1e-5)


def test_bytes_are_those_that_have_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[int] = []
    for kind in (kernels.Fused, lists.FusedList, epilogues.FusedProduct):
        call: Any = kind.__call__
        monkeypatch.setattr(
            kind, "__call__",
            lambda self, *a, call=call: (moved.append(self.bytes()), call(self, *a))[1],
        )  # fmt: skip
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


@pytest.mark.slow
@pytest.mark.compile
@pytest.mark.parametrize("group", fused_targets.GROUPS)
def test_kernels_compile_for_real_gpus(group: str) -> None:
    """At sizes of real models, for all GPUs that are sold; without spilled registers on sm_90.  In
    a process of its own: its device discards launches."""
    if not fused_targets.targets_of(group):
        pytest.skip("kernels are compiled for none of its GPUs")
    device = "discard_launches=1,poison=0,memory=512G"
    command = [sys.executable, "-m", "tests.compile.fusing.fused_targets", group]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=Path(__file__).parents[3],
        env=os.environ | {"TRITORCH_SIMULATE_CUDA": device},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kernels"] >= 18
    assert len(found["compiled"]) >= found["kernels"]
    assert [row for row in found["compiled"] if row[1] == 90 and row[2]] == []
    assert sum(row[2] for row in found["compiled"]) <= 256  # bytes that are spilled on others


@pytest.mark.compile
def test_exact_kernels_and_eager_ones_contract_nothing() -> None:
    """A product and a sum stay two roundings: no `fma` in the machine code's PTX."""
    from tritorch.triton import interpret

    x, y = torch.randn(4, 64, device="cuda"), torch.randn(4, 64, device="cuda")
    found: dict[bool, list[str]] = {}
    for exact in (True, False):
        work: list[Any] = []
        interpret.on_compile = lambda simulated, work=work: work.append(simulated.work)
        try:
            fast = torch.compile(lambda x, y: x * y + 2.5, mode="exact" if exact else None)
            for _ in range(RUNS):
                fast(x, y)
        finally:
            interpret.on_compile = None
        found[exact] = [each.compile(90).asm["ptx"] for each in work if "fused" in each.name]
        assert found[exact]
    assert not any("fma." in ptx for ptx in found[True])
    assert all("fma." in ptx for ptx in found[False])


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


def _product_and_where_it_is_positive(x: Any, y: Any) -> list[Any]:
    a = x @ y[None]
    b = x.t() @ (x * y)
    return [a, a > 0, (b > 0) & (b < 1)]


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
        torch.special.hermite_polynomial_h(b, degree),
        torch.special.hermite_polynomial_he(a, degree),
    ]  # fmt: skip


def _scans_read_elsewhere(x: Any, y: Any) -> list[Any]:
    """A scan's element is known where its row has it: no kernel computes it in another place."""
    a = (x * y + 1).cumsum(-1)
    b = (a * 2)[:, 1:] - a[:, :-1]
    c = torch.cat([a, a * 2], -1) + a.sum(-1, True)
    return [a, b, c, a.t() + 1, a[2:3] * x, a.reshape(7, 5) * y[:5], a.exp().cumsum(0)]


def _scans_of_all_kinds(x: Any, y: Any) -> list[Any]:
    z = x * y
    return [
        (z > 0).cumsum(-1) * 2, (z.sigmoid() + 0.5).cumprod(-1) * z, z.bfloat16().cumsum(-1) * 2,
        z.softmax(-1).cumsum(-1).cumsum(-1), z.cumsum(-1).softmax(-1), y.cumsum(0) * 3,
        (z * 2).cumsum(-1).amax(-1), z.sum(-1, True).cumsum(-1), torch.cumsum(z, -1)[:, -1],
    ]  # fmt: skip


def _many_reads_of_one_value(x: Any, y: Any) -> list[Any]:
    """Who asks each operand what it is computed of, each time, never comes to an end."""
    z = x * y
    for _ in range(40):
        z = z + z * 0.5
    return [z.cumsum(-1)]


def _fills(x: Any, y: Any) -> list[Any]:
    z = x * y
    return [
        torch.where(z > 0, torch.zeros_like(z), z), torch.ones_like(z) - z,
        z + torch.full_like(z, 0.3),
        torch.full((7,), 0.1, device="cuda", dtype=torch.bfloat16) * z, torch.zeros_like(z) + 1,
        torch.cat([torch.zeros(5, 2, device="cuda"), z], -1), torch.ones_like(y[:1]).expand(7) + y,
        torch.ones_like(z, dtype=torch.int64) + (z > 0), torch.ones_like(z).sum(-1) + z.sum(-1),
        torch.zeros_like(x * 2) * 3, (torch.ones_like(z * 2) + 1).sum(), torch.zeros_like(z),
        torch.full_like(x, 3).view(-1) * 2, torch.ones_like((z + 1).t()).sum(-1),
        torch.full((5, 7), True, device="cuda") * z, torch.ones_like(z, dtype=torch.int64) * z,
        torch.full_like(z, 2.7, dtype=torch.int32) + (z > 0),
    ]  # fmt: skip


MENDED = (
    _kept_beside_others, _views_of_kept, _more_results_than_a_kernel_has, _product_read_transposed,
    _product_of_one_row, _product_of_one_element, _product_and_where_it_is_positive,
    _one_element_for_all, _edges,
    _elements_of_rows_that_are_summed, _dropout_of_a_part_of_rows, _rows_of_one_joined,
    _columns_of_one_row, _loops_on_operands_of_several_shapes, _scans_read_elsewhere,
    _scans_of_all_kinds, _many_reads_of_one_value, _fills,
)  # fmt: skip


@pytest.mark.parametrize("mode", [None, "exact"])
@pytest.mark.parametrize("run", MENDED, ids=lambda run: run.__name__.strip("_"))
def test_programs(run: Any, mode: str | None) -> None:
    torch.manual_seed(3)
    inputs = [torch.randn(5, 1, device="cuda"), torch.randn(7, device="cuda")]
    fast = torch.compile(run, mode=mode)
    results = []
    for function in (run, *[fast] * RUNS):
        torch.manual_seed(5)
        results.append(function(*inputs))
    expected, found = results[0], results[-1]
    for x, y in zip(found, expected, strict=True):
        assert x.equal(y) if mode else torch.allclose(x, y, 1e-5, 1e-5, equal_nan=True)


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
        lambda self, *a: (init(self, *a), found.append(self.source))[0],
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
