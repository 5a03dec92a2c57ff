"""Matrix products on our own threads (host/linalg/blas.py, src/products)."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import tritorch
from tests.patience import PATIENCE
from tritorch import _C
from tritorch.host.linalg import blas

OPENBLAS = blas.found()
needs_openblas = pytest.mark.skipif(not OPENBLAS, reason="NumPy has another BLAS")


def made(rng, rows, columns, batch, dtype):
    """A matrix, or a batch, that lies in one of the ways in which views do."""
    way = rng.integers(5)
    if way == 0:  # transposed
        return rng.standard_normal((*batch, columns, rows)).astype(dtype).swapaxes(-1, -2)
    if way == 1:  # a part
        return rng.standard_normal((*batch, rows + 3, columns + 5)).astype(dtype)[..., 2:-1, 1:-4]
    if way == 2:  # backwards: BLAS doesn't take it
        return rng.standard_normal((*batch, rows, columns)).astype(dtype)[..., ::-1, :]
    if way == 3 and batch:  # one matrix for the whole batch
        one = rng.standard_normal((rows, columns)).astype(dtype)
        return np.broadcast_to(one, (*batch, rows, columns))
    return rng.standard_normal((*batch, rows, columns)).astype(dtype)


@pytest.mark.parametrize("dtype", (np.float32, np.float64))
@pytest.mark.parametrize("seed", range(4))
def test_products_of_views(seed, dtype):
    rng = np.random.default_rng(seed)
    native = 0
    for turn in range(60):
        m, k, n = (int(rng.integers(1, 200)) for _ in range(3))
        if turn % 6 == 0:
            m, k = 1, k + 300
        elif turn % 6 == 1:
            n, k = 1, k + 300
        batch = tuple(int(size) for size in rng.integers(1, 5, rng.integers(3)))
        a, b = made(rng, m, k, batch, dtype), made(rng, k, n, batch[1:], dtype)
        want = np.matmul(a.astype(np.float64), b.astype(np.float64))
        got = blas.matmul(a, b)
        assert got.dtype == dtype and got.shape == want.shape
        scale = np.abs(want).max() + k**0.5
        assert np.abs(got - want).max() < (1e-5 if dtype == np.float32 else 1e-13) * scale
        out = np.full(want.shape, np.nan, dtype)
        assert blas.matmul(a, b, out) is out and (out == got).all()
        native += _C.multiply(a, b, None) is not None
    assert native > 20 if OPENBLAS else not native


def test_what_goes_another_way():
    a = np.random.default_rng(0).standard_normal((128, 128)).astype(np.float32)
    wider = a.astype(np.float64)
    other_order = a.astype(">f4")
    for x, y, out in (
        (a[:8], a[:, :8], None),  # small
        (a, wider, None),
        (other_order, a, None),
        (a.astype(np.complex64), a.astype(np.complex64), None),
        (a[0], a, None),
        (a, a[:, ::2], None),
        (a, a.copy(), a),  # would be overwritten while it is read
        (a, a.copy(), np.empty((128, 128))),
        (a, a.copy(), np.empty((128, 129), np.float32)),
        (a, a[:64], None),  # NumPy says why
    ):
        assert _C.multiply(x, y, out) is None
    fixed = np.empty_like(a)
    fixed.setflags(write=False)
    assert _C.multiply(a, a.copy(), fixed) is None
    with pytest.raises(ValueError, match="matmul"):
        blas.matmul(a, a[:64])
    with pytest.raises(TypeError):
        _C.multiply(a, a)


@pytest.mark.parametrize("dtype", (np.float32, np.float64))
@pytest.mark.parametrize("shape", ((70, 66), (300, 40), (700, 129), (513, 512), (3, 100, 120)))
def test_symmetric(shape, dtype):
    """NumPy would give them to OpenBLAS's threads."""
    a = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    for x in (a, a.mT.copy().mT, a[..., 3:, :-2]):
        product = blas.matmul(x, x.mT)
        assert (_C.multiply(x, x.mT, None) is not None) == OPENBLAS
        assert (product == product.mT).all()
        want = np.matmul(x.astype(np.float64), x.astype(np.float64).mT)
        scale = np.abs(want).max()
        assert np.abs(product - want).max() < (1e-5 if dtype == np.float32 else 1e-13) * scale


def test_a_square_times_itself():
    a = np.random.default_rng(0).standard_normal((200, 200))
    want = np.einsum("ij,jk->ik", a, a)
    np.testing.assert_allclose(blas.matmul(a, a), want, rtol=1e-10, atol=1e-10)


def test_infinities_and_nothing():
    a = np.zeros((100, 100), np.float32)
    a[3, 4] = np.inf
    product = blas.matmul(a, np.zeros((100, 100), np.float32))
    assert np.isnan(product[3]).all() and not np.isnan(product[:3]).any()
    dirty = np.full((100, 100), np.nan, np.float32)
    assert (
        blas.matmul(np.ones((100, 100), np.float32), np.ones((100, 100), np.float32), dirty) == 100
    ).all()
    assert (
        blas.matmul(np.ones((300, 0)), np.ones((0, 300))).tolist() == np.zeros((300, 300)).tolist()
    )
    for shapes in (((0, 1, 9000), (0, 9000, 1)), ((0, 300, 300), (300, 300)), ((0, 1, 5), (5, 1))):
        a, b = map(np.ones, shapes)
        assert blas.matmul(a, b).shape == np.matmul(a, b).shape
    assert blas.inner(np.arange(5.0), np.arange(5.0)) == 30
    assert blas.inner(np.arange(9.0)[::2], np.ones(5)) == 20
    assert blas.inner(np.arange(4), np.arange(4)) == 14


@needs_openblas
def test_bits_do_not_depend_on_threads():
    rng = np.random.default_rng(1)
    before, found = tritorch.get_num_threads(), []
    shapes = (((300, 500), (500, 700)), ((6, 90, 64), (6, 64, 120)), ((1, 3000), (3000, 900)))
    arrays = [[rng.standard_normal(shape).astype(np.float32) for shape in pair] for pair in shapes]
    arrays.append([arrays[0][0], arrays[0][0].T])
    try:
        for count in (1, 2, 5):
            tritorch.set_num_threads(count)
            found.append([blas.matmul(a, b).tobytes() for a, b in arrays for _ in range(3)])
    finally:
        tritorch.set_num_threads(before)
    assert found[0] == found[1] == found[2]


@needs_openblas
def test_nobody_waits_busily_between_products():
    """Threads of OpenBLAS would look for work all the time between two products of ours."""
    code = """
        import time
        import tritorch
        tritorch.set_num_threads(2)
        x, y = tritorch.randn(256, 256), tritorch.randn(4096, 256)
        v = tritorch.randn(4096)
        def step():
            w = (y @ x).relu()
            (w.mT @ y).sum(), x @ x.mT
            tritorch.nn.functional.linear(y, x), y.mT @ v, v.dot(v), w.norm()
        step()
        own, all_threads = time.thread_time(), time.process_time()
        for _ in range(20):
            step()
            time.sleep(0.02)
        print(time.thread_time() - own, time.process_time() - all_threads)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        check=True, capture_output=True, text=True, timeout=PATIENCE, env=os.environ,
    )  # fmt: skip
    own, all_threads = map(float, done.stdout.split())
    assert all_threads < 2.5 * own  # two share the work
