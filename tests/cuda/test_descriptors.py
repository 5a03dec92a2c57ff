"""Descriptors: arrays in blocks, for kernels that load and store through the copy engine."""

import numpy as np
import pytest

from tritorch import _C
from tritorch.core.dtype import bfloat16, float32
from tritorch.gpu.linalg.matmul import machine, mm

pytestmark = pytest.mark.device


def empty(*shape, kind=float32):
    return _C.empty(shape, kind, 0)


def test_it_says_what_the_array_says():
    array = empty(3, 8, 16)
    descriptor = _C.Descriptor(array, (1, 4, 8))
    assert descriptor.base is array
    assert (descriptor.shape, descriptor.strides) == ((3, 8, 16), (128, 16, 1))
    assert descriptor.block_shape == (1, 4, 8)


def test_strides_of_single_rows_do_not_matter():
    column_major = empty(7, 12).transpose(0, 1).unsqueeze(0)  # a batch stride of 12 elements
    descriptor = _C.Descriptor(column_major.transpose(1, 2), (1, 4, 4))
    assert descriptor.shape == (1, 7, 12)
    assert descriptor.strides[1:] == (12, 1) and descriptor.strides[0] * 4 % 16 == 0
    assert _C.Descriptor(empty(5, 4).as_strided((5, 1), (4, 9), 0), (4, 4)).strides == (4, 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: _C.Descriptor(empty(4, 8), (4,)), "one block size for each"),
        (lambda: _C.Descriptor(empty(4, 8), [4, 4]), "tuple"),
        (lambda: _C.Descriptor(empty(4, 8), (4, 0)), "blocks of one element"),
        (lambda: _C.Descriptor(empty(4, 8)[:, 1:], (4, 4)), "multiple of 16"),
        (lambda: _C.Descriptor(empty(4, 7), (4, 4)), "multiples of 16 bytes, got 28"),
        (lambda: _C.Descriptor(empty(8, 4).transpose(0, 1), (4, 4)), "last stride of 1"),
        (lambda: _C.Descriptor(empty(1, 8).expand(4, 8), (4, 4)), "multiples of 16 bytes, got 0"),
        (lambda: _C.Descriptor(empty(0, 8), (4, 4)), "dimensions of one element"),
        (lambda: _C.Descriptor(empty(1, 1, 1, 1, 1, 4), (1,) * 6), "one to five dimensions"),
    ],
)
def test_what_the_hardware_cannot_do_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_only_arrays_on_the_gpu():
    with pytest.raises(TypeError, match="array on the GPU"):
        _C.Descriptor(np.zeros((4, 4)), (4, 4))


def test_launches_with_descriptors_are_found_again():
    if machine(0)[0] < 90:
        pytest.skip("this GPU has no tensor memory engine")
    from tritorch.triton.kernel import kernel

    sizes = kernel("matmul", "matmul_tma")
    a, b = empty(64, 64, kind=bfloat16).zero_(), empty(64, 64, kind=bfloat16).zero_()
    mm(a, b)
    known = sizes.cache_size
    mm(b, a)
    assert sizes.cache_size == known
    mm(a, b.transpose(0, 1))  # another launch, unless a test before this one has made it
    assert sizes.cache_size in (known, known + 1)
    known = sizes.cache_size
    mm(b, a.transpose(0, 1))
    assert sizes.cache_size == known
