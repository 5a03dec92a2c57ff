"""bfloat16 is widened and rounded natively, to the bits of ml_dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tritorch as torch
from tritorch.arrays.arrays import convert
from tritorch.host.chains.steps import Untraceable, named, traced

BFLOAT16, SINGLE = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32)
EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 3.4e38, -3.4e38, 1e-45, 1.00390625, 1.01171875]


def test_every_upper_half_and_some_lower_ones() -> None:
    lower = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    x = (np.arange(1 << 16, dtype=np.uint32)[:, None] << 16 | lower).view(SINGLE)
    with np.errstate(all="ignore"):
        expected = x.astype(BFLOAT16)
    found = convert(x, BFLOAT16)
    assert found.shape == x.shape and found.dtype == BFLOAT16
    assert np.array_equal(found.view(np.uint16), expected.view(np.uint16))
    wide = convert(found, SINGLE)
    assert np.array_equal(wide.view(np.uint32), expected.astype(SINGLE).view(np.uint32))


@pytest.mark.parametrize("n", [1, 3, 17, 2049])
def test_any_size_and_layout(n: int) -> None:
    x = np.resize(np.array(EDGES, SINGLE), (n, 2))
    for part in (x, x[:, 0], x.T, x[:0], x[0, 0, None].reshape(())):
        found, expected = convert(part, BFLOAT16), part.astype(BFLOAT16)
        assert found.shape == part.shape and found.strides == expected.strides
        assert np.array_equal(found.view(np.uint16), expected.view(np.uint16))


def test_arithmetic_rounds_once() -> None:
    x = torch.randn(5003).bfloat16()
    assert (x * x + x).equal(((x.float() * x.float()).bfloat16().float() + x.float()).bfloat16())


def test_only_bfloat16_is_taken_for_it() -> None:
    assert named(BFLOAT16) == "E"
    with pytest.raises(Untraceable):
        named(np.dtype("V2"))
    with pytest.raises(Untraceable):  # its own functions hold Python's lock
        traced(np.add, (BFLOAT16, BFLOAT16))
