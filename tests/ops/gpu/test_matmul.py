"""Matrix products on the GPU against NumPy."""

import ml_dtypes
import numpy as np
import pytest

from tritorch.core import precision
from tritorch.cuda import from_numpy
from tritorch.gpu.linalg import matmul, matmul_plan
from tritorch.gpu.linalg.matmul_plan import simple_tile, split

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

    def spy(out, partial, splits, *epilogue):
        calls.append(splits)
        finish(out, partial, splits, *epilogue)

    monkeypatch.setattr(matmul, "_finish", spy)
    first = matmul.mm(from_numpy(a), from_numpy(b))
    check(first, a, b)
    assert calls[0] > 1
    again = matmul.mm(from_numpy(a), from_numpy(b))
    assert first.numpy().tobytes() == again.numpy().tobytes()


@pytest.mark.parametrize("how", ["tf32", "tf32x3"])
def test_precision_reaches_the_kernel(how, monkeypatch):
    monkeypatch.setattr(precision, "matmul", how)
    a, b = numbers((20, 30), np.float32), numbers((30, 20), np.float32, 1)
    check(matmul.mm(from_numpy(a), from_numpy(b)), a, b)  # the interpreter computes exactly


def test_tiles_are_powers_of_two_and_splits_cover_the_inner_dim():
    for m, n, k in [(1, 1, 1), (16, 4096, 4096), (4096, 4096, 4096), (100, 70, 100_000)]:
        for itemsize, fast in [(2, True), (4, True), (4, False), (8, False)]:
            block_m, block_n, block_k, warps, stages = simple_tile(m, n, itemsize, fast)
            assert all(b >= 16 and b & (b - 1) == 0 for b in (block_m, block_n, block_k))
            assert warps in (4, 8) and stages * (block_m + block_n) * block_k * itemsize <= 160_000
            splits, per = split(-(-m // block_m) * -(-n // block_n), k, block_k)
            assert per % block_k == 0 and (splits - 1) * per < k <= splits * per


# ---- by the copy engine --------------------------------------------------------------------------


@pytest.fixture
def launches(monkeypatch):
    """The names of the kernels that are launched."""
    names = []
    real = matmul.kernel
    monkeypatch.setattr(matmul, "kernel", lambda f, name: names.append(name) or real(f, name))
    if matmul.machine(0)[0] < 90:
        pytest.skip("this GPU has no tensor memory engine")
    return names


def laid_out(x, columns):
    """On the GPU, with dense columns instead of dense rows if asked for."""
    if not columns:
        return from_numpy(x)
    return from_numpy(np.ascontiguousarray(np.swapaxes(x, -1, -2))).transpose(-1, -2)


FLOAT8 = ml_dtypes.float8_e4m3fn


@pytest.mark.parametrize("kind", [ml_dtypes.bfloat16, np.float16, FLOAT8, np.float32])
@pytest.mark.parametrize("columns", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_engine(kind, columns, launches, monkeypatch):
    monkeypatch.setattr(precision, "matmul", "tf32")
    m, n, k = 48, 80, 160  # whole and partial tiles; the last columns are no whole block
    a, b = numbers((m, k), kind), numbers((k, n), kind, 1)
    x, y = laid_out(a, columns[0]), laid_out(b, columns[1])
    out = matmul.product(x.unsqueeze(0), y.unsqueeze(0), matmul.float32)
    assert launches == ["matmul_tma"]
    want = expected(a, b)
    np.testing.assert_allclose(out.numpy()[0], want, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("shape", [(3, 40, 70), (3, 16, 96)])  # rows of 140 bytes; few rows
@pytest.mark.parametrize("shared", [False, True])
def test_engine_on_stacks(shape, shared, launches):
    batch, m, n = shape
    a = numbers((1 if shared else batch, m, 96), np.float16)
    b = numbers((batch, 96, n), np.float16, 1)
    x, y = from_numpy(a).expand(batch, m, 96), from_numpy(b)
    if n % 8:
        y = laid_out(b, True)
    check(matmul.bmm(x, y), np.broadcast_to(a, (batch, m, 96)), b)
    assert launches == ["matmul_tma"]


@pytest.mark.parametrize("m", [32, 128])
def test_engine_splits_a_long_inner_dim(m, launches):
    k = 6400
    a, b = numbers((m, k), np.float16), numbers((k, 48), np.float16, 1)
    bias = numbers((48,), np.float16, 2)
    plan = matmul.choose(max(m, 48), min(m, 48), k, 1, 2, matmul.machine(0)[1])
    assert plan.splits > 1
    x, y = from_numpy(a), laid_out(b, True)
    got = matmul.linear(x, y.transpose(0, 1), from_numpy(bias)).numpy()
    assert launches == ["matmul_tma", "sum_splits"]
    want = expected(a, b) + bias.astype(np.float64)
    np.testing.assert_allclose(got, want, rtol=2e-3, atol=0.2)
    again = matmul.linear(x, y.transpose(0, 1), from_numpy(bias)).numpy()
    assert got.tobytes() == again.tobytes()


EPILOGUES = {
    "bias": ((40,), 1.0, 1.0),
    "matrix": ((48, 40), 0.5, -2.0),
    "column": ((48, 1), 2.0, 0.25),
}


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(48, 40, 64), (4, 40, 33), (48, 4, 33), (24, 40, 2048)])
@pytest.mark.parametrize("epilogue", EPILOGUES)
def test_epilogues(kind, shape, epilogue):
    m, n, k = shape
    size, alpha, beta = EPILOGUES[epilogue]
    size = tuple({48: m, 40: n}.get(v, v) for v in size)
    a, b, c = numbers((m, k), kind), numbers((k, n), kind, 1), numbers(size, kind, 2)
    got = matmul.addmm(from_numpy(c), from_numpy(a), from_numpy(b), beta, alpha).numpy()
    want = beta * c.astype(np.float64) + alpha * expected(a, b)
    tolerance = {2: 2e-3, 4: 1e-5, 8: 1e-12}[np.dtype(kind).itemsize] * k**0.5
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("shape", [(48, 40, 64), (4, 40, 64), (48, 40, 2048)])
def test_scales_and_activation(shape):
    m, n, k = shape
    a, b = numbers((m, k), FLOAT8), numbers((k, n), FLOAT8, 1)
    rows = np.abs(numbers((m,), np.float32, 2))
    cols = np.abs(numbers((n,), np.float32, 3))
    epilogue = matmul.Epilogue(row_scale=from_numpy(rows), col_scale=from_numpy(cols[:1]),
                           activation="relu")  # fmt: skip
    x, y = from_numpy(a).unsqueeze(0), laid_out(b, True).unsqueeze(0)
    got = matmul.product(x, y, matmul.float32, epilogue).numpy()[0]
    want = np.maximum(expected(a, b) * rows[:, None] * cols[0], 0)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)


def test_what_the_engine_cannot_bring_comes_through_pointers(launches):
    a, b = numbers((32, 33), np.float16), numbers((33, 40), np.float16, 1)
    check(matmul.mm(from_numpy(a), from_numpy(b)), a, b)  # rows of 66 bytes
    wide = numbers((64, 80), np.float16)
    check(matmul.mm(from_numpy(wide)[::2, ::2], from_numpy(wide)[:40, 1:41]),
          np.ascontiguousarray(wide[::2, ::2]), np.ascontiguousarray(wide[:40, 1:41]))  # fmt: skip
    assert launches == ["matmul", "matmul"]


def test_plans_cover_the_product_and_fit_the_device():
    for m, n, k in [(16, 16, 16), (64, 50304, 768), (8192, 8192, 8192), (128, 128, 65536)]:
        for itemsize in (1, 2, 4):
            plan = matmul_plan.choose(m, n, k, 1, itemsize, 132)
            per = plan.inner_per_split(k)
            assert per % plan.block_k == 0 and (plan.splits - 1) * per < k <= plan.splits * per
            shared = plan.stages * (plan.block_m + plan.block_n) * plan.block_k * itemsize
            assert shared + plan.block_m * plan.block_n * 2 <= 232_448
    assert matmul_plan.choose(8192, 8192, 8192, 1, 2, 132)[:2] in {(128, 256), (256, 128)}
    assert matmul_plan.choose(128, 128, 65536, 1, 2, 132).splits > 8
