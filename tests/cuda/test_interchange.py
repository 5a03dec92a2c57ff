"""DLPack, __cuda_array_interface__ and __array__."""

import numpy as np
import pytest

import tritorch
from tritorch import cuda
from tritorch.core.dtype import all_dtypes


@pytest.mark.parametrize("kind", all_dtypes, ids=str)
def test_dlpack_round_trip_shares_memory(kind):
    host = np.arange(24).reshape(4, 6).astype(kind.numpy)
    array = cuda.from_numpy(host)[1:, ::2]
    again = cuda.from_dlpack(array)
    assert again.dtype is kind and again.shape == (3, 3) and again.stride() == array.stride()
    assert again.data_ptr() == array.data_ptr()
    np.testing.assert_array_equal(again.numpy(), host[1:, ::2])


def test_an_import_keeps_the_memory_alive():
    array = cuda.from_numpy(np.arange(100))
    again = cuda.from_dlpack(array)
    before = cuda.memory_allocated()
    del array
    assert cuda.memory_allocated() == before
    assert (again.numpy() == np.arange(100)).all()
    del again
    assert cuda.memory_allocated() < before


@pytest.mark.parametrize("version", [None, (0, 8), (1, 0)])
def test_capsules(version):
    array = cuda.from_numpy(np.arange(5))
    capsule = array.__dlpack__(max_version=version)
    assert ("dltensor_versioned" in repr(capsule)) == (version == (1, 0))
    again = cuda.from_dlpack(capsule)
    assert again.numpy().tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(RuntimeError, match="used already"):
        cuda.from_dlpack(capsule)
    array.__dlpack__()  # a capsule that nobody takes frees what it holds


def test_dlpack_orders_streams():
    side = cuda.Stream()
    for seed in range(20):
        if cuda.is_simulated():
            cuda.simulator.seed(seed)
        with cuda.stream(side):
            array = cuda.empty(256).fill_(seed)
        # On the default stream: the export on `side` makes that wait.
        with cuda.stream(side):
            capsule = array.__dlpack__(stream=1)
        again = cuda.from_dlpack(capsule)
        assert (again.clone().numpy() == seed).all()
        again.record_stream(cuda.current_stream())
        array.record_stream(cuda.current_stream())


def test_host_memory_becomes_an_ndarray():
    host = np.arange(4.0)
    again = cuda.from_dlpack(host)
    assert isinstance(again, np.ndarray) and np.shares_memory(again, host)


def test_cuda_array_interface():
    array = cuda.from_numpy(np.arange(12, dtype=np.float32).reshape(3, 4))
    description = array.T.__cuda_array_interface__
    assert description["shape"] == (4, 3) and description["strides"] == (4, 16)
    assert description["typestr"] == "<f4" and description["version"] == 3

    class Foreign:
        __cuda_array_interface__ = description
        keep = array

    again = cuda.from_cuda_array_interface(Foreign())
    np.testing.assert_array_equal(again.numpy(), array.numpy().T)
    with pytest.raises(AttributeError, match="bfloat16"):
        _ = cuda.empty(3, dtype=tritorch.bfloat16).__cuda_array_interface__


def test_numpy_functions_take_arrays():
    array = cuda.from_numpy(np.arange(4.0))
    assert np.sum(np.asarray(array)) == 6
    assert np.asarray(array, dtype=np.int32).dtype == np.int32
    with pytest.raises(ValueError, match="without a copy"):
        np.asarray(array, copy=False)


def test_repr():
    text = repr(cuda.from_numpy(np.array([1.5, 2.5], np.float32)))
    assert "1.5, 2.5" in text and "tritorch.float32" in text and "cuda:0" in text
