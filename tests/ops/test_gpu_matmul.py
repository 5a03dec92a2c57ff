"""Matrix products on the GPU against NumPy."""

import ml_dtypes
import numpy as np
import pytest

from tritorch.cuda import from_numpy
from tritorch.gpu import matmul

pytestmark = pytest.mark.device

FLOATS = [np.float32, np.float16, ml_dtypes.bfloat16, np.float64]
TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5, "complex64": 1e-5}


def numbers(shape, kind, seed=0):
    rng = np.random.default_rng(seed)
    kind = np.dtype(kind)
    if kind.kind in "iu":
        return rng.integers(0, 30, shape).astype(kind)
    x = rng.standard_normal(shape)
    if kind.kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(kind)


def expected(a, b):
    wide = a.dtype if a.dtype.kind in "iuc" else np.float64
    return np.matmul(a.astype(wide), b.astype(wide))


def check(out, a, b):
    got = out.numpy()
    want = expected(a, b)
    assert got.dtype == a.dtype and got.shape == want.shape
    if a.dtype.kind in "iu":
        np.testing.assert_array_equal(got, want)
    else:
        scale = TOLERANCE.get(a.dtype.name, 1e-12) * max(a.shape[-1], 1) ** 0.5
        np.testing.assert_allclose(got.astype(want.dtype), want, rtol=scale, atol=scale)


@pytest.mark.parametrize(
    "kind", [*FLOATS, np.complex64, np.complex128, np.int64, np.int32, np.uint8]
)
@pytest.mark.parametrize("shape", [(17, 20, 19), (1, 12, 9), (33, 3, 40), (2, 2, 0), (0, 3, 4)])
def test_mm(kind, shape):
    m, n, k = shape
    a, b = numbers((m, k), kind), numbers((k, n), kind, 1)
    check(matmul.mm(from_numpy(a), from_numpy(b)), a, b)
    # Columns dense instead of rows, without a copy.
    a_t, b_t = from_numpy(np.ascontiguousarray(a.T)), from_numpy(np.ascontiguousarray(b.T))
    check(matmul.mm(a_t.transpose(0, 1), b_t.transpose(0, 1)), a, b)


@pytest.mark.parametrize("kind", [np.float32, np.complex64, np.int32])
def test_bmm_reads_any_strides(kind):
    a, b = numbers((3, 20, 22), kind), numbers((11, 9), kind, 1)
    x = from_numpy(a)[:, ::2, 1::2]
    y = from_numpy(b).expand(3, 11, 9)
    check(matmul.bmm(x, y), np.ascontiguousarray(a[:, ::2, 1::2]), np.broadcast_to(b, (3, 11, 9)))


def test_integers_wrap():
    a = np.full((1, 2), 100, np.int8)
    b = np.full((2, 1), 2, np.int8)
    assert matmul.mm(from_numpy(a), from_numpy(b)).numpy()[0, 0] == 400 - 512


@pytest.mark.parametrize("shape", [(16, 16, 2100), (1, 16, 4200), (16, 2, 4200)])
@pytest.mark.parametrize("kind", [np.float32, ml_dtypes.bfloat16])
def test_a_long_inner_dim_is_split(kind, shape, monkeypatch):
    m, n, k = shape
    a, b = numbers((m, k), kind), numbers((k, n), kind, 1)
    calls = []
    finish = matmul._finish

    def spy(out, partial, splits):
        calls.append(splits)
        finish(out, partial, splits)

    monkeypatch.setattr(matmul, "_finish", spy)
    first = matmul.mm(from_numpy(a), from_numpy(b))
    check(first, a, b)
    assert calls[0] > 1
    again = matmul.mm(from_numpy(a), from_numpy(b))
    assert first.numpy().tobytes() == again.numpy().tobytes()


@pytest.mark.parametrize("precision", ["tf32", "tf32x3"])
def test_precision_reaches_the_kernel(precision, monkeypatch):
    monkeypatch.setattr(matmul, "precision", precision)
    a, b = numbers((20, 30), np.float32), numbers((30, 20), np.float32, 1)
    check(matmul.mm(from_numpy(a), from_numpy(b)), a, b)  # the interpreter computes exactly


def test_tiles_are_powers_of_two_and_splits_cover_the_inner_dim():
    for m, n, k in [(1, 1, 1), (16, 4096, 4096), (4096, 4096, 4096), (100, 70, 100_000)]:
        for itemsize, fast in [(2, True), (4, True), (4, False), (8, False)]:
            block_m, block_n, block_k, warps, stages = matmul.tile(m, n, k, itemsize, fast)
            assert all(b >= 16 and b & (b - 1) == 0 for b in (block_m, block_n, block_k))
            assert warps in (4, 8) and stages * (block_m + block_n) * block_k * itemsize <= 160_000
            splits, per = matmul.split(-(-m // block_m) * -(-n // block_n), k, block_k)
            assert per % block_k == 0 and (splits - 1) * per < k <= splits * per
