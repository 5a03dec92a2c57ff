"""Softmax on the GPU against NumPy."""

import itertools

import numpy as np
import pytest

from tests.ops.gpu_reference import FLOATS, bfloat16, compare, numbers
from tritorch.core.dtype import float32, float64, from_numpy_dtype
from tritorch.gpu.reduce import softmax

pytestmark = pytest.mark.device
NAMES = ["softmax", "log_softmax"]


KINDS = [
    *(("rows", kind) for kind in FLOATS), ("looped", np.float32), ("parts", bfloat16),
]  # fmt: skip


@pytest.fixture(params=["rows", "looped", "parts"])
def path(request, monkeypatch):
    """Every kernel: those for long rows with blocks so small that they loop."""
    plans = {
        "looped": lambda rows, cols, *rest: softmax.RowPlan(True, 2, 4, 4),
        "parts": lambda rows, cols, *rest: softmax.RowPlan(True, 2, 4, 4, -(-cols // 4), 4),
    }
    if request.param in plans:
        monkeypatch.setattr(softmax, "row_plan", plans[request.param])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("path", "kind"), KINDS, indirect=["path"])
def test_every_dim_forward_and_backward(name, kind, path):
    dtype = from_numpy_dtype(np.dtype(kind))
    for x in (numbers((2, 9, 3), kind), numbers((3, 9, 2), kind).transpose(2, 1, 0)):
        for dim in range(3):
            out = compare("softmax", name, x * 3, dim, dtype)
            compare("softmax", f"{name}_backward", numbers(x.shape, kind, 1), out, dim, dtype)


@pytest.mark.parametrize("name", NAMES)
def test_special_values(name, path):
    x = np.array([[-np.inf, 1, 2] * 4, [-np.inf] * 12, [np.nan] + [0] * 11, [np.inf] + [1] * 11])
    with np.errstate(invalid="ignore", divide="ignore"):
        compare("softmax", name, x.astype(np.float32), 1, float32)
    compare("softmax", name, np.float32([[1e30, -1e30, 0, 1e30] * 3]), 1, float32)


def test_other_output_types():
    compare("softmax", "softmax", numbers((3, 4), np.float32), 1, float64, tolerance=1e-6)
    compare("softmax", "softmax", np.zeros((2, 0), np.float32), 1, float32)
    compare("softmax", "log_softmax", np.zeros((0, 3), np.float32), 1, float32)


def test_programs_fit_in_registers():
    for n_rows, n_cols, inner, registers in itertools.product(
        (1, 5, 10**6), (1, 7, 4096, 32768, 32769, 10**6), (1, 49), (1, 2, 4)
    ):
        plan = softmax.row_plan(n_rows, n_cols, inner, registers)
        held = plan.rows * plan.cols * registers
        assert held <= min(2**15, 2**10 * plan.warps) and plan.warps in (4, 8, 16, 32)
        if not plan.looped:
            assert plan.cols >= n_cols and plan.parts == 1
            continue
        assert plan.per_part % plan.cols == 0
        assert (plan.parts - 1) * plan.per_part < n_cols <= plan.parts * plan.per_part


def test_few_long_rows_are_cut():
    plan = softmax.row_plan
    assert not plan(8, 32768).looped and plan(8, 32769).looped
    assert plan(8, 16384, registers=2).looped is False and plan(8, 16385, registers=2).looped
    assert plan(10**4, 10**5).parts == 1 and plan(264, 10**5).parts == 1
    assert plan(2, 10**6).parts == 123 and plan(1, 10**8).parts <= 264
