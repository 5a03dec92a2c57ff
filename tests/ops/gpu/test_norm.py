"""Normalisation on the GPU against NumPy."""

import itertools

import numpy as np
import pytest

from tests.ops.gpu_reference import FLOATS, bfloat16, compare, numbers, on_device
from tritorch.gpu.nn import norm
from tritorch.gpu.reduce.softmax import RowPlan

pytestmark = pytest.mark.device


KINDS = [
    *(("rows", kind) for kind in (np.float16, np.float64, np.float32, bfloat16)),
    ("looped", np.float32), ("parts", bfloat16),
]  # fmt: skip


@pytest.fixture(params=["rows", "looped", "parts"])
def path(request, monkeypatch):
    """Every kernel: those for long rows with blocks so small that they loop."""
    plans = {
        "looped": lambda rows, cols, *rest: RowPlan(True, 4, 8, 4, 1, -(-cols // 8) * 8),
        "parts": lambda rows, cols, *rest: RowPlan(True, 4, 16, 4, -(-cols // 16), 16),
    }
    if request.param in plans:
        monkeypatch.setattr(norm, "row_plan", plans[request.param])
        monkeypatch.setattr(norm, "cut_rows", plans[request.param])
        monkeypatch.setattr(norm, "gradient_plan", lambda *sizes: None)
        monkeypatch.setattr(norm, "group_tile", lambda *sizes: (2, 8, 4))


def affine(shape, kind, present=True):
    return (numbers(shape, kind, 5), numbers(shape, kind, 6)) if present else (None, None)


@pytest.mark.parametrize(("path", "kind"), KINDS, indirect=["path"])
@pytest.mark.parametrize("shape", [((5, 19), 1), ((2, 3, 4, 6), 2)])
def test_layer_norm(kind, shape, path):
    shape, n = shape
    for x in (numbers(shape, kind), numbers(shape[::-1], kind).transpose()):
        for present in (True, False):
            w, b = affine(shape[-n:], kind, present)
            _, mean, rstd = compare("norm", "layer_norm", x, n, w, b, 1e-5)
            compare("norm", "layer_norm_backward", numbers(shape, kind, 1), x, n, w, mean, rstd)
            _, rstd = compare("norm", "rms_norm", x, n, w, 1e-6)
            compare("norm", "rms_norm_backward", numbers(shape, kind, 1), x, n, w, rstd)


def test_mean_far_from_zero():
    x = numbers((3, 40)) + np.float32(1000)
    compare("norm", "layer_norm", x, 1, None, None, 1e-5, tolerance=1e-3)
    compare("norm", "batch_norm", x, None, None, None, None, True, 1e-5, tolerance=2e-3)


@pytest.mark.parametrize(("path", "kind"), KINDS[2:], indirect=["path"])
@pytest.mark.parametrize("groups", [1, 3])
def test_group_norm(kind, groups, path):
    for shape in ((3, 6, 4, 5), (2, 6)):
        x, g = numbers(shape, kind), numbers(shape, kind, 1)
        for present in (True, False):
            w, b = affine((6,), kind, present)
            _, mean, rstd = compare("norm", "group_norm", x, groups, w, b, 1e-5)
            compare("norm", "group_norm_backward", g, x, groups, w, mean, rstd)


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm(kind, training):
    running = np.float64 if kind is np.float64 else np.float32
    for x in (numbers((5, 3, 4, 6), kind), numbers((37, 3), kind), numbers((6, 3, 5), kind)):
        g, (w, b) = numbers(x.shape, kind, 1), affine((3,), kind)
        given = numbers((3,), running, 7), np.abs(numbers((3,), running, 8)) + running(0.5)
        for weight, bias in ((w, b), (None, None)):
            _, mean, rstd, _ = compare(
                "norm", "batch_norm", x, weight, bias, *given, training, 1e-5
            )
            compare("norm", "batch_norm_backward", g, x, weight, mean, rstd, training)


def test_channels_last_is_read_as_it_lies():
    x = np.ascontiguousarray(numbers((2, 4, 6, 3))).transpose(0, 3, 1, 2)
    g = np.ascontiguousarray(numbers((2, 4, 6, 3), seed=1)).transpose(0, 3, 1, 2)
    w, b = affine((3,), np.float32)
    for training in (True, False):
        given = numbers((3,), seed=7), np.abs(numbers((3,), seed=8))
        _, mean, rstd, _ = compare("norm", "batch_norm", x, w, b, *given, training, 1e-5)
        for like in (g, np.ascontiguousarray(g)):
            compare("norm", "batch_norm_backward", like, x, w, mean, rstd, training)
    out = norm.batch_norm(on_device(x), None, None, None, None, True, 1e-5)[0]
    assert out.strides == on_device(x).strides
    rows = norm._laid_out(on_device(x))
    assert rows[1] == (48, 3, 1) and rows[0].data_ptr() != 0


def test_channels_are_summed_in_parts(monkeypatch):
    whole = norm.channel_plan
    monkeypatch.setattr(
        norm, "channel_plan",
        lambda n, c, s, *rest: whole(n, c, s)._replace(splits=-(-n // 2) * -(-s // 8), rows=2,
                                                       cols=8, blocks=c if s > 1 else -(-c // 8),
                                                       per_split=1),
    )  # fmt: skip
    for shape in ((7, 5, 9), (11, 13)):
        x, g = numbers(shape), numbers(shape, seed=1)
        _, mean, rstd, _ = compare("norm", "batch_norm", x, None, None, None, None, True, 1e-5)
        compare("norm", "batch_norm_backward", g, x, None, mean, rstd, True)
    monkeypatch.setattr(norm, "gradient_plan", lambda *sizes: None)
    _, mean, rstd = compare("norm", "layer_norm", x, 1, None, None, 1e-5)
    compare("norm", "layer_norm_backward", g, x, 1, None, mean, rstd)


@pytest.mark.parametrize("hold", [True, False])
def test_rows_go_round_a_few_programs(monkeypatch, hold):
    whole = norm.gradient_plan
    few = {"rows": 2, "programs": 3, "hold_weight": hold}
    monkeypatch.setattr(norm, "gradient_plan", lambda *sizes: whole(*sizes)._replace(**few))
    for kind in (np.float32, bfloat16):
        x, (w, b) = numbers((19, 20), kind), affine((20,), kind)
        _, mean, rstd = compare("norm", "layer_norm", x, 1, w, b, 1e-5)
        compare("norm", "layer_norm_backward", numbers(x.shape, kind, 1), x, 1, w, mean, rstd)
        _, rstd = compare("norm", "rms_norm", x, 1, w, 1e-6)
        compare("norm", "rms_norm_backward", numbers(x.shape, kind, 1), x, 1, w, rstd)


def test_sums_do_not_cancel(monkeypatch):
    monkeypatch.setattr(norm, "row_plan", lambda r, c, *rest: RowPlan(True, 2, 8, 4, 2, 24))
    x = numbers((3, 40)) + np.float32(1000)
    compare("norm", "layer_norm", x, 1, None, None, 1e-5, tolerance=1e-3)
    x = numbers((2, 5, 300)) + np.float32(1000)
    compare("norm", "batch_norm", x, None, None, None, None, True, 1e-5, tolerance=2e-3)


def test_plans_cover_everything():
    for c, spatial, n in itertools.product((1, 3, 1000, 10**5), (1, 15, 16, 10**4), (1, 64, 10**6)):
        plan = norm.channel_plan(n, c, spatial)
        tiles = -(-n // plan.rows) * (1 if plan.last else -(-spatial // plan.cols))
        assert (plan.splits - 1) * plan.per_split < tiles <= plan.splits * plan.per_split
        assert plan.blocks == (-(-c // plan.cols) if plan.last else c)
        assert plan.rows * plan.cols <= 2048
    for n_rows, n_cols, itemsize, rms in itertools.product(
        (1, 100, 10**6), (1, 1000, 2048, 8192, 8193, 16384, 16385), (2, 4, 8), (False, True)
    ):
        rows = norm.gradient_plan(n_rows, n_cols, itemsize, rms=rms)
        registers = max(itemsize // 4, 1)
        most = 16384 if rms and itemsize == 2 else 8192
        assert (rows is None) == (n_cols * registers**2 > most)
        if rows is not None:
            assert rows.cols >= n_cols and rows.programs * rows.warps <= 132 * 16
            assert rows.rows * rows.cols * registers <= 1024 * rows.warps
    for per_group, spatial in itertools.product((1, 3, 64), (1, 49, 10**5)):
        rows, cols, warps = norm.group_tile(per_group, spatial)
        assert rows * cols <= 512 * warps


def test_empty():
    compare("norm", "layer_norm", np.zeros((0, 4), np.float32), 1, None, None, 1e-5)
    x, mean = np.zeros((0, 4), np.float32), np.zeros(0, np.float32)
    compare("norm", "layer_norm_backward", x, x, 1, np.ones(4, np.float32), mean, mean)
