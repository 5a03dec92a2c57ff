"""Attention in blocks against attention whole, by NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tritorch import _C
from tritorch.host import threads
from tritorch.host.nn import attention as A

RNG = np.random.default_rng(0)
# Examples, heads of queries and of keys, rows, columns, and the widths of keys and values.
SIZES = [
    (2, 4, 4, 7, 7, 8, 8), (1, 4, 2, 33, 33, 16, 12), (2, 2, 1, 5, 9, 4, 4), (1, 1, 1, 1, 1, 1, 1),
    (1, 2, 2, 700, 700, 16, 16), (1, 2, 1, 40, 4000, 8, 8),
]  # fmt: skip


def given(sizes, kind):
    examples, heads, keys, rows, columns, wide, values = sizes
    shapes = (
        (examples, heads, rows, wide), (examples, keys, columns, wide),
        (examples, keys, columns, values), (examples, heads, rows, values),
    )  # fmt: skip
    return [RNG.standard_normal(shape).astype(kind) for shape in shapes]


def masks(sizes, kind):
    examples, heads, _, rows, columns, _, _ = sizes
    yield None, False
    yield None, True
    bools = RNG.random((examples, 1, rows, columns)) < 0.7
    bools[..., 0, :] = False  # a row that sees nothing
    yield bools, False
    yield RNG.random((1, 1, 1, columns)) < 0.9, False
    yield RNG.standard_normal((examples, heads, rows, columns)).astype(kind), False


def both_passes(g, q, k, v, mask, causal):
    out, lse = A.attention(q, k, v, mask, causal, 0.3)
    return out, lse, *A.attention_backward(g, q, k, v, mask, out, lse, causal, 0.3)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("sizes", SIZES)
def test_blocks_give_what_the_whole_gives(monkeypatch, sizes, kind):
    q, k, v, g = given(sizes, kind)
    for mask, causal in masks(sizes, kind):
        found = both_passes(g, q, k, v, mask, causal)
        with monkeypatch.context() as patch:
            patch.setattr(A.blas, "found", lambda: False)
            expected = both_passes(g, q, k, v, mask, causal)
        for one, other in zip(found, expected):
            assert one.dtype == kind
            np.testing.assert_allclose(one, other, atol=200 * np.finfo(kind).eps, rtol=1e-4)


def test_arrays_may_lie_in_other_ways():
    q, k, v, g = given(SIZES[1], np.float32)
    expected = both_passes(g, q, k, v, None, True)
    by_rows = [np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2) for x in (g, q, k, v)]
    across = [np.ascontiguousarray(x.swapaxes(2, 3)).swapaxes(2, 3) for x in (g, q, k, v)]
    for other in (by_rows, across):
        for one, wanted in zip(both_passes(*other, None, True), expected):
            np.testing.assert_array_equal(one, wanted)
    spread = np.broadcast_to(q[:, :1], q.shape), np.broadcast_to(k[:, :, :1], k.shape)
    for one, wanted in zip(
        both_passes(g, *spread, v, None, True),
        both_passes(g, *[x.copy() for x in spread], v, None, True),
    ):
        np.testing.assert_array_equal(one, wanted)


def test_threads_change_no_bits():
    before = threads.get_num_threads()
    q, k, v, g = given((2, 4, 2, 300, 300, 32, 32), np.float32)
    found = []
    try:
        for count in (1, 2, 5):
            threads.set_num_threads(count)
            found.append(both_passes(g, q, k, v, None, True))
    finally:
        threads.set_num_threads(before)
    for each in found[1:]:
        for one, other in zip(found[0], each):
            np.testing.assert_array_equal(one, other)


def test_where_there_is_nothing_to_add_up():
    for sizes in ((2, 1, 1, 3, 0, 4, 4), (0, 2, 2, 3, 3, 4, 4), (1, 1, 1, 0, 3, 4, 4)):
        q, k, v, g = given(sizes, np.float32)
        out, lse, dq, dk, dv = both_passes(g, q, k, v, None, False)
        assert not out.any() and not dq.any() and not dk.any() and not dv.any()
        assert (lse == -np.inf).all()


def test_other_sizes_are_refused():
    q, k, v, g = given(SIZES[0], np.float32)
    lse = np.empty(q.shape[:3], np.float32)
    for wrong in (k[:1], k[:, :3], k[:, :, :, :4], k.astype(np.float64)[..., ::2]):
        assert not _C.attend(q, wrong, v, None, np.empty_like(g), lse, "f", 0, False, 1.0)
    assert not _C.attend(q, k, v, None, np.empty_like(g)[:, :, 1:], lse, "f", 0, False, 1.0)
    assert not _C.attend(q, k, v, None, np.empty_like(g), lse[:1], "f", 0, False, 1.0)
