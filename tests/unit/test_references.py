"""torch._refs and the helpers of torch.masked."""

from __future__ import annotations

import pytest

import tritorch as torch
from tritorch import _refs, masked
from tritorch._refs import fft, linalg, special
from tritorch._refs.nn import functional


@pytest.mark.parametrize(
    ("reference", "operator"),
    [
        (lambda: _refs.sum, torch.sum),
        (lambda: linalg.vector_norm, torch.linalg.vector_norm),
        (lambda: special.i0e, torch.special.i0e),
        (lambda: fft.rfft, torch.fft.rfft),
        (lambda: functional.softshrink, torch.nn.functional.softshrink),
        (lambda: _refs.view_as, torch.Tensor.view_as),
    ],
)
def test_a_reference_is_the_operator(reference, operator):
    assert reference() is operator


def test_a_reference_of_nothing_is_no_attribute():
    with pytest.raises(AttributeError, match="no_such_operator"):
        _refs.no_such_operator  # noqa: B018


@pytest.mark.parametrize(
    ("name", "kind", "identity"),
    [
        ("sum", torch.float32, 0.0),
        ("prod", torch.int32, 1),
        ("amax", torch.uint8, 0),
        ("amin", torch.float32, float("inf")),
        ("norm", torch.float32, 0.0),
    ],
)
def test_identities_of_reductions(name, kind, identity):
    found = masked._reduction_identity(name, torch.zeros(2, dtype=kind))
    assert found.dtype is kind and found.item() == identity


def test_reductions_without_identity():
    assert masked._reduction_identity("mean", torch.zeros(2)) is None
    with pytest.raises(NotImplementedError, match=r"identity of amax on \w+\.bool"):
        masked._reduction_identity("amax", torch.zeros(2, dtype=torch.bool))
