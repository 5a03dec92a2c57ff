"""Fast forms of CPU functions, against the general ones or against loops."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import tritorch
from tritorch import _C
from tritorch.core.dtype import float32
from tritorch.host import threads
from tritorch.host.index import indexing as I, sorting
from tritorch.host.loss import loss as L
from tritorch.host.nn import attention as A, norm, pooling, upsample
from tritorch.host.pointwise import pointwise as P, special
from tritorch.host.reduce import reduction as R, rows, scan, softmax as S
from tritorch.host.shape import shaping
from tritorch.ops.index.indexing import _plain_key

RNG = np.random.default_rng(0)
INF, NAN = math.inf, math.nan


def normal(*shape):
    return RNG.standard_normal(shape, "float32")


# ---- narrow floats ----


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_large_narrow_arrays(name):
    kind = getattr(tritorch, name)
    x = normal(1 << 20) * 100
    x[7], x[-3] = NAN, INF
    a, b = tritorch.from_numpy(x).to(kind), tritorch.from_numpy(x[::-1].copy()).to(kind)
    assert a._array.tobytes() == x.astype(kind.numpy).tobytes()
    for out, wide in (
        (a + a, lambda v, w: v + v),
        (a * b, lambda v, w: v * w),
        (a + 1.5, lambda v, w: v + np.float32(1.5)),
    ):
        expected = wide(a._array.astype(np.float32), b._array.astype(np.float32))
        assert out.dtype is kind
        rounded = expected.astype(kind.numpy).astype(np.float32)
        np.testing.assert_array_equal(out._array.astype(np.float32), rounded)
    assert (a > b).dtype is tritorch.bool


# ---- pointwise ----


def test_the_error_function_to_four_units():
    x = np.concatenate([np.linspace(-6, 6, 20001), np.logspace(-30, 0, 500)]).astype(np.float32)
    exact = np.array([math.erf(v) for v in x.tolist()])
    error = np.abs(special.erf(x) - exact) / np.spacing(np.abs(exact).astype(np.float32))
    assert error.max() < 4
    extremes = np.array([INF, -INF, NAN, 1e20, -3e38, -0.0], np.float32)
    np.testing.assert_array_equal(special.erf(extremes), [1, -1, NAN, 1, -1, 0])


@pytest.mark.parametrize("shape", [(2 * P.BLOCK,), (1 << 20,), (5, 3)])
def test_scaled_addition_in_place(shape):
    x, y = normal(*shape), normal(*shape)
    expected = x + y * np.float32(0.3)
    P.add_scaled_(x, y, 0.3)
    np.testing.assert_array_equal(x, expected)


def test_scaled_addition_of_what_overlaps():
    memory = normal((1 << 20) + 1)
    expected = memory[1:] + memory[:-1] * np.float32(2)
    P.add_scaled_(memory[1:], memory[:-1], 2.0)
    np.testing.assert_array_equal(memory[1:], expected)


@pytest.mark.parametrize("name", ["relu", "sigmoid", "silu", "gelu", "clamp", "lerp", "addcmul"])
def test_large_arrays_are_computed_as_small_ones(name):
    x, y = normal(3, 1 << 19), normal(3, 1 << 19)
    call = {
        "clamp": lambda x, y: x.clamp(-1, 1),
        "lerp": lambda x, y: x.lerp(y, 0.3),
        "addcmul": lambda x, y: tritorch.addcmul(x, y, x, value=0.5),
    }.get(name, lambda x, y: getattr(tritorch.nn.functional, name)(x))
    whole = call(tritorch.from_numpy(x), tritorch.from_numpy(y)).numpy()
    part = call(tritorch.from_numpy(x[:, -9:]), tritorch.from_numpy(y[:, -9:])).numpy()
    np.testing.assert_allclose(whole[:, -9:], part, rtol=1e-6, atol=1e-7)


# ---- along rows ----

ROWS = [
    [1.0, 2.0, 3.0], [7.9, -7.9, 0.0], [100.0, -100.0, 0.0], [INF, 1.0, 2.0], [-INF, -INF, -INF],
    [-INF, 1.0, 0.0], [NAN, 1.0, 0.0], [INF, -INF, 0.0],
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_exponentials_of_rows(row, kind):
    x = np.array([row] * 2, kind)
    wide = x.astype(np.longdouble)
    with np.errstate(all="ignore"):
        top = wide.max(1, keepdims=True)
        share = np.exp(wide - top) / np.exp(wide - top).sum(1, keepdims=True)
        total = np.log(np.exp(wide - np.where(np.isfinite(top), top, 0)).sum(1, keepdims=True))
        total += np.where(np.isfinite(top), top, 0)
    type_ = tritorch.from_numpy(x).dtype
    tight = {"rtol": 2e-6, "atol": 2e-6}
    np.testing.assert_allclose(S.softmax(x, 1, type_), share, **tight)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(S.log_softmax(x, 1, type_), np.log(share), **tight)
    np.testing.assert_allclose(R.logsumexp(x, (1,), True), total, **tight)
    losses, _ = L.cross_entropy(x, np.array([1, -100]), None, -100, 0.0)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(losses, [-np.log(share[0, 1]), 0], **tight)


def test_sums_that_only_shapes_determine_are_kept():
    assert rows._ones(4, np.dtype(np.float32)) is rows._ones(4, np.dtype(np.float32))
    with pytest.raises(ValueError, match="read-only"):
        rows._ones(4, np.dtype(np.float32))[:] = 2


@pytest.mark.parametrize("shape", [(3, 7), (2, 3, 40), (1200, 1300)])
def test_variances_of_rows(shape):
    x = normal(*shape) + 3
    variance, mean = R.var_mean(x, (x.ndim - 1,), 1, False)
    np.testing.assert_allclose(variance, x.var(-1, ddof=1, dtype=np.float64), rtol=1e-5)
    np.testing.assert_allclose(mean, x.mean(-1, dtype=np.float64), rtol=1e-5)


def test_running_sums_over_threads():
    x = normal(700, 1000)
    np.testing.assert_allclose(scan.cumsum(x, 1, float32), x.cumsum(1, np.float64), atol=1e-3)
    x[3, 5] = INF
    out = scan.cumsum(x, 1, float32)
    assert np.isfinite(out[3, :5]).all() and np.isposinf(out[3, 5:]).all()
    assert np.isfinite(np.delete(out, 3, 0)).all()


@pytest.mark.parametrize("scale", [1, 1000])
def test_attention_with_and_without_shift(scale):
    q, k, v = normal(2, 3, 5, 4) * scale, normal(2, 3, 7, 4), normal(2, 3, 7, 4)
    out, lse = A.attention(q, k, v, None, False, 0.5)
    scores = np.einsum("bhqe,bhke->bhqk", q, k).astype(np.float64) * 0.5
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - top)
    total = weights.sum(-1, keepdims=True)
    np.testing.assert_allclose(out, weights / total @ v, rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(lse, (np.log(total) + top)[..., 0], rtol=1e-5)


# ---- gathers ----


@pytest.mark.parametrize("dim", [0, 1])
def test_large_gathers_and_scatters(dim):
    x, src = normal(1100, 1000), normal(1050, 1000)
    index = RNG.integers(0, 1000, (1050, 1000))
    np.testing.assert_array_equal(
        I.gather(x, dim, index), np.take_along_axis(x[: None if dim == 0 else 1050], index, dim)
    )
    expected = x.copy()
    columns, lines = np.arange(1000), np.arange(1050)[:, None]
    np.add.at(expected, (index, columns) if dim == 0 else (lines, index), src)
    np.testing.assert_allclose(I.scatter_add(x, dim, index, src), expected, atol=1e-5)
    index[1049, 999] = 5000
    for function, rest in ((I.gather, ()), (I.scatter_add, (src,))):
        with pytest.raises(RuntimeError, match=f"index 5000 is out of bounds for dimension {dim}"):
            function(x, dim, index, *rest)


@pytest.mark.parametrize("count", [3, 5000])
def test_what_is_no_index(count):
    index = RNG.integers(0, 9, count)
    assert I.outside(index, 9) is None and I.outside(index[:0], 0) is None
    index[1] = 9
    assert I.outside(index, 9) == 9
    index[0] = -4
    assert I.outside(index, 9) == -4


def test_keys_that_are_plain():
    assert _plain_key((0, slice(1, 2), None)) == (0, (1, 2, None), None)
    assert _plain_key((0, Ellipsis)) == (0,)
    for key in ((), (Ellipsis, 0), (True,), (slice(None, None, -1),), ([0],)):
        assert _plain_key(key) is None


@pytest.mark.parametrize("kind", [np.bool_, np.int16, np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("diagonal", [-2, 0, 3, 200, -200, 1000])
def test_triangles(kind, diagonal):
    for shape in ((2, 5, 7), (300, 250), (129, 700), (700, 129)):
        x = RNG.integers(0, 2, shape).astype(kind)
        np.testing.assert_array_equal(shaping.tril(x, diagonal), np.tril(x, diagonal))
        np.testing.assert_array_equal(shaping.triu(x, diagonal), np.triu(x, diagonal))


def test_the_first_of_equals_is_on_top():
    x = np.array([[1, 3, 3, NAN, 2, NAN, 3, 0]], np.float32)
    values, index = sorting.topk(x, 6, 1, True)
    assert index.tolist() == [[3, 5, 1, 2, 6, 4]]
    np.testing.assert_array_equal(values, np.take_along_axis(x, index, 1))


# ---- windows ----

WINDOWS = [
    ((2, 2), (2, 2), (1, 1)), ((3, 2), (1, 2), (1, 2)), ((1, 1), (2, 1), (1, 1)),
    ((5, 5), (3, 3), (1, 1)),
]  # fmt: skip


@pytest.mark.parametrize("sides", [(2, 3, 9, 11), (9, 8, 24, 24)])
@pytest.mark.parametrize(("kernel", "stride", "dilation"), WINDOWS)
@pytest.mark.parametrize("special", [False, True])
def test_pooling_of_windows_inside(sides, kernel, stride, dilation, special):
    x = RNG.integers(0, 6, sides).astype(np.float32)  # many ties
    if special:
        x[0, 0, 4, 4], x[1, 1, :4, :4], x[-1, -1, 3] = NAN, -INF, INF
    zeros = (0, 0)
    out, index = pooling.max_pool(x, kernel, stride, zeros, dilation, False)
    size = out.shape[2:]
    taps = list(itertools.product(*map(range, kernel)))
    starts = [(i * dilation[0], j * dilation[1]) for i, j in taps]
    views = [x[:, :, i :: stride[0], j :: stride[1]] for i, j in starts]
    stacked = np.stack([view[:, :, : size[0], : size[1]] for view in views])
    np.testing.assert_array_equal(out, stacked.max(0))
    first = stacked.argmax(0)
    nan = np.isnan(stacked)
    last = len(taps) - 1 - nan[::-1].argmax(0)
    which = np.where(nan.any(0), last, first)
    far = np.array(starts)[which]
    row = np.arange(size[0])[:, None] * stride[0] + far[..., 0]
    column = np.arange(size[1]) * stride[1] + far[..., 1]
    np.testing.assert_array_equal(index, row * x.shape[3] + column)
    values = pooling.max_pool_values(x, kernel, stride, zeros, dilation, size)
    np.testing.assert_array_equal(values, out)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("sides", "kernel", "stride", "padding", "dilation"),
    [((9, 11), (3, 2), (2, 1), (1, 1), (1, 1)), ((6, 5), (4, 5), (3, 2), (2, 2), (1, 1)),
     ((12,), (3,), (1,), (1,), (2,)), ((7,), (2,), (2,), (0,), (1,))],
)  # fmt: skip
@pytest.mark.parametrize("ceil", [False, True])
def test_pools_of_windows_that_reach_out_are_those_of_halves(
    sides, kernel, stride, padding, dilation, ceil, kind
):
    # Whole numbers, which float16 has: its pools are the other way.
    x = RNG.integers(-9, 9, (3, 2, *sides)).astype(kind)
    x[0, 0, :3], x[1, 1, -1] = NAN, -INF
    options = (kernel, stride, padding, dilation, ceil)
    out, index = pooling.max_pool(x, *options)
    expected, places = pooling.max_pool(x.astype(np.float16), *options)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(index, places)
    values = pooling.max_pool_values(x, kernel, stride, padding, dilation, out.shape[2:])
    np.testing.assert_array_equal(values, out)
    for include in (False, True):
        if set(dilation) == {1}:
            means = [pooling.avg_pool(v, kernel, stride, padding, ceil, include, None)
                     for v in (x, x.astype(np.float16))]  # fmt: skip
            np.testing.assert_allclose(*means, rtol=1e-3)


def test_pools_refuse_what_they_refused_before():
    x = tritorch.zeros(1, 1, 4, 4)
    pool = tritorch.nn.functional.max_pool2d
    assert pool(x, 2).shape == pool(x, [2, 2]).shape == (1, 1, 2, 2)
    with pytest.raises(TypeError):
        pool(x, 2.0)
    for _ in range(2):  # also the second time
        with pytest.raises(RuntimeError, match="Output size is too small"):
            pool(x, 5)


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("size", [(8, 4), (5, 13), (3, 6), (5, 6), (70, 1)])
def test_planes_are_interpolated_as_volumes_are(size, align):
    x = normal(2, 3, 5, 6)
    found = upsample.linear(x, size, (None, None), align)
    volume = upsample.linear(x[:, :, None], (1, *size), (None,) * 3, align)
    np.testing.assert_allclose(found, volume[:, :, 0], atol=1e-6)
    turned = np.ascontiguousarray(x.swapaxes(2, 3)).swapaxes(2, 3)  # not dense
    np.testing.assert_array_equal(upsample.linear(turned, size, (None, None), align), found)
    x[0, 0, 0, 0] = INF
    assert np.isfinite(upsample.linear(x, size, (None, None), align)[0, 1]).all()


def test_interpolation_looks_at_its_tables():
    x, out, part = (
        np.zeros((1, 2, 2), np.float32),
        np.zeros((1, 1, 1), np.float32),
        np.zeros(1, "f"),
    )
    table = lambda low, high: (np.array([low]), np.array([high]), part)
    for wrong in ((0, 2), (-1, 0), (1, 0), (2, 2)):
        with pytest.raises(ValueError, match="beside"):
            _C.interpolate_planes(x, out, "f", (1, 2, 2, 1, 1), table(0, 1), table(*wrong))


def test_blocks_may_be_computed_in_the_result():
    x = normal(1 << 20)
    out = threads.mapped(P.silu, x.dtype, x, into=P.silu.into)
    np.testing.assert_array_equal(out, threads.mapped(P.silu, x.dtype, x))


def test_one_batch_is_normalised_as_many():
    x, w, b = normal(2, 3, 4), normal(3), normal(3)
    few = norm.batch_norm(x, w, b, None, None, True, 1e-5)
    large = np.tile(x, (200, 1, 1))
    many = norm.batch_norm(large, w, b, None, None, True, 1e-5)
    np.testing.assert_allclose(many[0][:2], few[0], rtol=1e-5, atol=1e-6)
    for a, c in zip(few[1:], many[1:]):
        np.testing.assert_allclose(a, c, rtol=1e-5, atol=1e-6)


def test_the_gradient_of_gelu_of_a_large_array():
    x = tritorch.linspace(-4, 4, 100_000).requires_grad_()
    (got,) = tritorch.autograd.grad(tritorch.nn.functional.gelu(x).sum(), x)
    y = x.detach().double().requires_grad_()
    normal = lambda x: x * 0.5 * (1 + (x * 0.5**0.5).erf())
    (wanted,) = tritorch.autograd.grad(normal(y).sum(), y)
    assert tritorch.allclose(got.double(), wanted, atol=1e-6)
