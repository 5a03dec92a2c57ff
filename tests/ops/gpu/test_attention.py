"""Attention on the GPU against NumPy."""

import numpy as np
import pytest

from tests.ops.gpu_reference import FLOATS, bfloat16, compare, numbers, on_device
from tritorch.gpu.nn import attention

pytestmark = pytest.mark.device


def both(q, k, v, mask=None, causal=False, scale=0.35):
    """Forward and backward."""
    out, lse = compare("attention", "attention", q, k, v, mask, causal, scale)
    g = numbers(out.shape, q.dtype, 9)
    compare("attention", "attention_backward", g, q, k, v, mask, out, lse, causal, scale)


def inputs(kind=np.float32, heads=(2, 2), lengths=(19, 37), widths=(8, 8)):
    return (
        numbers((2, heads[0], lengths[0], widths[0]), kind),
        numbers((2, heads[1], lengths[1], widths[0]), kind, 1),
        numbers((2, heads[1], lengths[1], widths[1]), kind, 2),
    )


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("causal", [False, True])
def test_every_type(kind, causal):
    both(*inputs(kind), causal=causal)


@pytest.mark.parametrize("kind", [np.float32, bfloat16])
@pytest.mark.parametrize("shape", [(2, 2, 19, 37), (1, 1, 1, 37), (2, 1, 19, 1)])
def test_masks(kind, shape):
    both(*inputs(kind), mask=np.random.default_rng(5).random(shape) > 0.3)
    both(*inputs(kind), mask=numbers(shape, kind, 4))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lengths", [(37, 19), (3, 40), (1, 5)])
def test_heads_share_keys(causal, lengths):
    q, k, v = inputs(heads=(6, 2), lengths=lengths, widths=(5, 9))
    both(q, k, v, causal=causal)
    both(q, k, v, mask=numbers((2, 6, *lengths), seed=3), causal=causal)


def test_rows_that_see_nothing_give_zeros():
    mask = np.random.default_rng(5).random((2, 2, 19, 37)) > 0.3
    mask[0, 1, 4:7] = False
    q, k, v = inputs()
    both(q, k, v, mask=mask)
    out, lse = attention.attention(*map(on_device, (q, k, v, mask)), False, 1.0)
    assert not out.numpy()[0, 1, 4:7].any() and np.isneginf(lse.numpy()[0, 1, 4:7]).all()
    none = numbers((2, 2, 0, 8))
    both(q, none, none)
    both(none, k, v)
    both(q[:0], k[:0], v[:0])


def test_any_strides():
    q, k, v = (numbers((5, 7, 2, 8), seed=i).transpose(0, 2, 1, 3) for i in range(3))
    both(q, k, v, causal=True)
    both(*(numbers((8, 7, 2, 2), seed=i).T for i in range(3)))


@pytest.mark.parametrize("causal", [False, True])
def test_tiles_of_every_kind(causal, monkeypatch):
    monkeypatch.setattr(attention, "blocks", lambda *_: (16, 16, 4, 1))
    both(*inputs(heads=(4, 2), widths=(40, 23)), causal=causal)
    for kind in (np.float32, bfloat16):
        q, k, v = inputs(kind, heads=(2, 1), lengths=(20, 70))
        both(q, k, v, causal=causal)
    mask = np.random.default_rng(5).random((2, 1, 20, 70)) > 0.3
    mask[:, :, 3, :40] = False
    mask[:, :, 4] = False
    if not causal:
        both(q, k, v, mask=mask)


def test_64_bit_offsets(monkeypatch):
    monkeypatch.setattr(attention, "INT32_MAX", 0)
    both(*inputs(heads=(4, 2)), mask=numbers((2, 4, 19, 37), seed=3), causal=True)


@pytest.mark.filterwarnings("ignore:All-NaN slice")  # NumPy's assert_allclose says so
def test_infinities_and_nan_stay_in_their_rows():
    q, k, v = inputs()
    q[0, 0, 3, 0], q[0, 1, 5, 0] = np.nan, np.inf
    out, _ = compare("attention", "attention", q, k, v, None, False, 0.35)
    assert np.isnan(out[0, 0, 3]).all() and np.isfinite(out[1]).all()
    bias = np.where(np.random.default_rng(5).random((1, 1, 19, 37)) > 0.5, 0, -np.inf)
    both(*inputs(), mask=bias.astype(np.float32))
    q, k, v = inputs()
    k[0, 0, 30] = np.nan  # no row sees it
    compare("attention", "attention", q, k, v, None, True, 0.35)
