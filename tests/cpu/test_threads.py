"""Blocks over threads."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from tritorch import _C
from tritorch.host import threads
from tritorch.host.linalg import blas


@pytest.fixture(params=[1, 2, 5])
def count(request):
    before = threads.get_num_threads()
    threads.set_num_threads(request.param)
    yield request.param
    threads.set_num_threads(before)


def test_blocks_cover_everything_once(count):
    for n, per in ((0, 4), (1, 4), (17, 4), (64, 8), (100, 1)):
        seen = np.zeros(n, int)
        edges = []

        def work(low, high, seen=seen, edges=edges):
            seen[low:high] += 1
            edges.append((low, high))

        threads.blocks(n, per, work, True)
        assert (seen == 1).all()
        assert sorted(edges) == [(i, min(i + per, n)) for i in range(0, n, per)]


def test_blocks_use_the_threads(count):
    names = set()

    def work(low, high):
        names.add(threading.get_ident())
        time.sleep(0.002)  # as NumPy does, this lets others go on

    threads.blocks(64, 1, work, True)
    assert 1 + (count > 1) <= len(names) <= count


def test_errors_arrive(count):
    def work(low, high):
        if low == 90:
            raise KeyError("in a block")

    with pytest.raises(KeyError, match="in a block"):
        threads.blocks(100, 10, work, True)


def test_blocks_within_blocks(count):
    seen = np.zeros((20, 30), int)

    def outer(low, high):
        threads.blocks(
            30, 3, lambda a, b: np.add(seen[low:high, a:b], 1, seen[low:high, a:b]), True
        )

    threads.blocks(20, 2, outer, True)
    assert (seen == 1).all()


def test_blocks_of_several_callers(count):
    """Threads of a program, who share one pool."""
    totals = np.zeros((4, 50), int)

    def call(i):
        for _ in range(50):
            threads.blocks(50, 5, lambda a, b: np.add(totals[i, a:b], 1, totals[i, a:b]), True)

    callers = [threading.Thread(target=call, args=(i,)) for i in range(4)]
    [caller.start() for caller in callers], [caller.join() for caller in callers]
    assert (totals == 50).all()


@pytest.mark.parametrize("shape", [(), (0,), (5,), (300, 1000)])
def test_elementwise(count, shape):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal(shape), rng.standard_normal(shape)
    out = np.empty(shape)
    threads.elementwise(np.add, out, a, b)
    np.testing.assert_array_equal(out, a + b)
    threads.elementwise(np.multiply, out, a, 2.0)
    np.testing.assert_array_equal(out, a * 2)
    if len(shape) == 2:
        for other in (b[0], b[:1], b[:, :1], np.array(3.0)):
            threads.elementwise(np.subtract, out, a, other)
            np.testing.assert_array_equal(out, a - other)


def test_mapped_broadcasts(count):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((400, 1, 500)), rng.standard_normal((2, 1))
    np.testing.assert_array_equal(threads.mapped(np.add, a.dtype, a, b), a + b)
    np.testing.assert_array_equal(threads.mapped(np.add, a.dtype, a.T, 1.0), a.T + 1)


def test_refuses_no_threads():
    with pytest.raises(RuntimeError, match="positive"):
        threads.set_num_threads(0)


def test_products_have_as_many_threads(count):
    if not blas.found():
        pytest.skip("another BLAS")
    get = _C.get_blas_threads
    most = get()
    assert most <= count
    with blas.one_thread():
        assert get() == 1
        threads.set_num_threads(1)  # counts once the block is left
    assert get() == 1
