"""Copies between host and device, between layouts, and between dtypes."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tritorch
from tritorch.core.dtype import all_dtypes

REAL = [kind for kind in all_dtypes if not kind.is_complex]


def sample(shape, kind, seed=0):
    """Random contents that every dtype can hold."""
    values = np.random.default_rng(seed).integers(0, 2 if kind.name == "bool" else 100, shape)
    return np.asarray(values).astype(kind.numpy)


@pytest.mark.parametrize("kind", all_dtypes, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (3, 0, 2), (5, 4, 3)])
def test_there_and_back(kind, shape):
    host = sample(shape, kind)
    array = tritorch.cuda.from_numpy(host)
    assert array.dtype is kind and array.shape == shape
    back = array.numpy()
    assert back.dtype == host.dtype
    np.testing.assert_array_equal(back, host)


@pytest.mark.parametrize("kind", all_dtypes, ids=str)
def test_strided_copies_of_every_dtype(kind):
    host = sample((6, 5, 4), kind)
    array = tritorch.cuda.from_numpy(host)
    np.testing.assert_array_equal(array.permute(2, 0, 1).numpy(), host.transpose(2, 0, 1))
    np.testing.assert_array_equal(array[1::2, :, ::3].clone().numpy(), host[1::2, :, ::3])
    target = tritorch.cuda.from_numpy(np.zeros((6, 5, 4), kind.numpy))
    target[::2, 1:4].copy_(array[::2, 1:4])
    expected = np.zeros((6, 5, 4), kind.numpy)
    expected[::2, 1:4] = host[::2, 1:4]
    np.testing.assert_array_equal(target.numpy(), expected)


@pytest.mark.parametrize("source", REAL, ids=str)
@pytest.mark.parametrize(
    "target", [k for k in REAL if k.itemsize >= 2 or k.name == "bool"], ids=str
)
def test_conversions(source, target):
    host = sample((3, 7), source)
    ours = tritorch.cuda.from_numpy(host).astype(target).numpy()
    np.testing.assert_array_equal(ours, host.astype(target.numpy))


def test_complex_numbers_convert():
    host = np.array([1 + 2j, -3 + 0.5j], np.complex64)
    array = tritorch.cuda.from_numpy(host)
    np.testing.assert_array_equal(array.astype(tritorch.float32).numpy(), host.real)
    real = tritorch.cuda.from_numpy(np.array([1.0, -2.0], np.float32))
    np.testing.assert_array_equal(real.astype(tritorch.complex64).numpy(), [1, -2])
    both = real.astype(tritorch.complex128).astype(tritorch.complex64)
    assert both.dtype is tritorch.complex64


def test_nan_payloads_survive():
    bits = np.array([[0x7FC12345, 0xFFC54321], [0x7F800001, 1]], np.uint32)
    array = tritorch.cuda.from_numpy(bits.view(np.float32))
    np.testing.assert_array_equal(array.T.clone().numpy().view(np.uint32), bits.T)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("shape", [(33, 65), (4, 40, 24), (3, 8, 8)])
def test_transposition_takes_the_tiled_kernel(shape, large, monkeypatch):
    from tritorch.gpu import arrays

    if large:  # as many elements take larger tiles
        monkeypatch.setattr(arrays, "_LARGE", 0)
    names = []
    original = arrays.kernel
    monkeypatch.setattr(arrays, "kernel", lambda *name: names.append(name) or original(*name))
    host = sample(shape, tritorch.float32)
    array = tritorch.cuda.from_numpy(host)
    dims = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
    np.testing.assert_array_equal(array.permute(*dims).clone().numpy(), host.transpose(dims))
    assert names == [("copy", "copy_transposed")]


@given(st.data())
@settings(max_examples=60)
def test_any_layouts(data):
    ndim = data.draw(st.integers(1, 4))
    shape = [data.draw(st.integers(1, 9)) for _ in range(ndim)]
    orders = [data.draw(st.permutations(range(ndim))) for _ in range(2)]
    steps = [data.draw(st.integers(1, 2)) for _ in range(ndim)]

    def layout(order):
        full = [shape[dim] * steps[dim] for dim in order]
        inverse = [order.index(dim) for dim in range(ndim)]
        return full, inverse, tuple(slice(None, None, step) for step in steps)

    full, inverse, key = layout(orders[0])
    host = sample(full, tritorch.int32, seed=1)
    source = tritorch.cuda.from_numpy(host).permute(*inverse)[key]
    expected = host.transpose(inverse)[key]
    full, inverse, key = layout(orders[1])
    whole = tritorch.cuda.zeros(full, dtype=tritorch.int32)
    target = whole.permute(*inverse)[key]
    target.copy_(source)
    np.testing.assert_array_equal(target.numpy(), expected)
    assert np.count_nonzero(whole.numpy()) == np.count_nonzero(expected)


def test_broadcast_and_overlap():
    array = tritorch.cuda.from_numpy(np.arange(10, dtype=np.float32))
    array[1:].copy_(array[:-1])
    np.testing.assert_array_equal(array.numpy(), [0, 0, 1, 2, 3, 4, 5, 6, 7, 8])
    grid = tritorch.cuda.zeros(3, 4)
    grid.copy_(np.arange(4))
    np.testing.assert_array_equal(grid.numpy(), np.broadcast_to(np.arange(4.0), (3, 4)))
    grid[:, 1] = np.float32(7)
    assert grid.numpy()[:, 1].tolist() == [7, 7, 7]
    square = tritorch.cuda.from_numpy(np.arange(9).reshape(3, 3))
    square.copy_(square.T)
    np.testing.assert_array_equal(square.numpy(), np.arange(9).reshape(3, 3).T)


@pytest.mark.parametrize("kind", all_dtypes, ids=str)
def test_fill(kind):
    array = tritorch.cuda.empty(5, 3, dtype=kind)
    for value in (0, 1, 3):
        np.testing.assert_array_equal(
            array.fill_(value).numpy(),
            np.full((5, 3), bool(value) if kind is tritorch.bool else value, kind.numpy),
        )
    array.zero_()
    array[1:4, ::2].fill_(1)
    assert np.count_nonzero(array.numpy()) == 6


def test_numpy_out_and_errors():
    array = tritorch.cuda.from_numpy(np.arange(6.0))
    out = np.empty(6)
    assert array.numpy(out=out) is out and out.tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(ValueError, match="C-contiguous ndarray of shape"):
        array.numpy(out=np.empty(5))
    with pytest.raises(ValueError, match="byte order"):
        tritorch.cuda.from_numpy(np.arange(3).astype(">i4"))
    with pytest.raises(TypeError, match="supported types are"):
        tritorch.cuda.from_numpy(np.array(["a"]))


def test_offsets_past_two_to_the_31():
    """The element at 2^31 + 5 of an int8 array, through views, strided copies and host copies."""
    count = 2**31 + 4096
    if tritorch.cuda.mem_get_info()[0] < 3 * 2**30:
        pytest.skip("needs 3 GiB of device memory")
    array = tritorch.cuda.empty(count, dtype=tritorch.int8)
    tail = array[2**31 :]
    assert tail.storage_offset() == 2**31 and tail.data_ptr() == array.data_ptr() + 2**31
    tail.fill_(3)
    tail[5::7].copy_(np.full(len(tail[5::7]), 9, np.int8))
    expected = np.full(4096, 3, np.int8)
    expected[5::7] = 9
    np.testing.assert_array_equal(tail.numpy(), expected)
    # A stride that passes 2^31 between two elements.
    two = array.as_strided((2, 16), (2**31, 1))
    two.copy_(np.arange(32, dtype=np.int8).reshape(2, 16))
    np.testing.assert_array_equal(two.numpy(), np.arange(32).reshape(2, 16))
    np.testing.assert_array_equal(tail[:16].numpy(), np.arange(16, 32))
    assert tritorch.cuda.empty(2**31, 3, 0).numel() == 0


def test_pinned_memory():
    pinned = tritorch.cuda.empty_pinned((4, 3), tritorch.float32)
    assert isinstance(pinned, np.ndarray) and pinned.flags.writeable
    assert tritorch._C.is_pinned(pinned.__array_interface__["data"][0] + 8)
    assert not tritorch._C.is_pinned(np.empty(3).__array_interface__["data"][0])
    pinned[:] = np.arange(12).reshape(4, 3)
    array = tritorch.cuda.from_numpy(pinned, non_blocking=True)
    out = tritorch.cuda.empty_pinned((4, 3), tritorch.float32)
    array.numpy(out=out, non_blocking=True)
    tritorch.cuda.synchronize()
    np.testing.assert_array_equal(out, pinned)


def test_pinned_memory_is_not_reused_before_its_copy():
    """A pinned buffer that dies right after an asynchronous copy still delivers its contents."""
    for value in range(20):
        pinned = tritorch.cuda.empty_pinned((1000,), tritorch.int64)
        pinned[:] = value
        array = tritorch.cuda.from_numpy(pinned, non_blocking=True)
        del pinned
        again = tritorch.cuda.empty_pinned((1000,), tritorch.int64)
        again[:] = -1
        assert (array.numpy() == value).all()


def test_sizes_may_be_numpy_integers():
    count = np.int64(3)
    for shape in ((count,), (count, 2), ((count, 2),), ([3, count],)):
        expected = shape[0] if isinstance(shape[0], tuple | list) else shape
        assert tritorch.cuda.zeros(*shape).shape == tuple(int(size) for size in expected)


# What PyTorch 2.13 makes of numbers that a type has not, as bits.
BEYOND = [0.0, -1.0, 463.9, 464.1, 480.0, -1e9, 61439.0, 61440.0, -61440.0, -5.5]
BEYOND_AS = {
    "float8_e4m3fn": [0, 184, 126, 126, 126, 254, 126, 126, 254, 203],
    "float8_e5m2": [0, 188, 95, 95, 96, 252, 123, 124, 252, 198],
    "uint8": [0, 255, 207, 208, 224, 0, 255, 0, 0, 251],
    "uint16": [0, 65535, 463, 464, 480, 13824, 61439, 61440, 4096, 65531],
}


@pytest.mark.parametrize("kind", BEYOND_AS)
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_numbers_beyond_a_type(kind, source):
    x = tritorch.tensor(BEYOND, dtype=getattr(tritorch, source))
    kind = getattr(tritorch, kind)
    for y in (x.to(kind), x.cuda().to(kind).cpu()):
        bits = y.view(tritorch.uint8) if kind.itemsize == 1 else y
        assert bits.tolist() == BEYOND_AS[kind.name]
    if not kind.is_floating_point:
        return
    x = tritorch.tensor([float("inf"), float("nan")], dtype=getattr(tritorch, source))
    largest = {"float8_e4m3fn": 448.0, "float8_e5m2": float("inf")}[kind.name]
    for y in (x.to(kind).float(), x.cuda().to(kind).float()):
        assert y[0] == largest and y[1].isnan()


def test_moves_and_conversions_keep_the_order_of_dims():
    x = tritorch.arange(24.0).reshape(2, 4, 3).transpose(1, 2)
    there = x.cuda()
    assert there.stride() == x.stride() and there.cpu().stride() == x.stride()
    assert there.double().stride() == x.to("cuda", tritorch.int32).stride() == x.stride()
    assert there.cpu().equal(x) and there.to("cpu", tritorch.int32).equal(x.int())
    apart = tritorch.arange(48.0).reshape(4, 12)[:, ::2].t()  # not dense
    assert apart.cuda().stride() == (1, 6) and apart.cuda().cpu().equal(apart)
