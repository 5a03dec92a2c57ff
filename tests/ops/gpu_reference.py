"""Runs a GPU backend function beside the CPU's, which is NumPy, on the same arguments."""

import importlib

import ml_dtypes
import numpy as np

from tritorch import _C
from tritorch.cuda import from_numpy
from tritorch.ops.record.backends import backend, module_of

bfloat16 = ml_dtypes.bfloat16
FLOATS = [np.float32, np.float16, bfloat16, np.float64]
TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 3e-5, "complex64": 3e-5}


def numbers(shape, kind=np.float32, seed=0):
    """Random elements of any dtype."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(kind)
    if kind.kind == "b":
        return rng.random(shape) > 0.5
    if kind.kind in "iu":
        return rng.integers(0 if kind.kind == "u" else -5, 9, shape).astype(kind)
    x = rng.standard_normal(shape)
    if kind.kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return np.asarray(x).astype(kind)


def on_device(value):
    """Arrays as they are on the GPU; a transposed ndarray keeps its strides."""
    if isinstance(value, np.ndarray):
        base = value.base
        if isinstance(base, np.ndarray) and not value.flags.c_contiguous and value.size:
            if base.size == value.size and base.flags.c_contiguous:
                strides = [s // value.itemsize for s in value.strides]
                return from_numpy(base).as_strided(value.shape, strides)
        return from_numpy(value)
    if isinstance(value, tuple):
        return tuple(map(on_device, value))
    return value


def on_host(value):
    if isinstance(value, _C.Array):
        return value.numpy()
    if isinstance(value, (tuple, list)):
        return tuple(map(on_host, value))
    return value


def assert_close(got, want, tolerance=None):
    """Equal dtypes and shapes, and elements within the dtype's tolerance."""
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for a, b in zip(got, want):
            assert_close(a, b, tolerance)
        return
    if want is None:
        assert got is None
        return
    assert got.dtype == want.dtype, (got.dtype, want.dtype)
    assert got.shape == want.shape, (got.shape, want.shape)
    if want.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want)
        return
    allowed = tolerance or TOLERANCE.get(want.dtype.name, 1e-10)
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=allowed, atol=allowed)


def compare(family, name, *args, tolerance=None):
    """Checks a GPU function against the CPU's; returns the GPU's results."""
    cpu = getattr(backend("cpu", family), name)
    gpu = getattr(importlib.import_module(module_of("gpu", family)), name)
    moved = [on_device(arg) for arg in args]
    got = on_host(gpu(*moved))
    assert_close(got, cpu(*args), tolerance)
    for arg, on_gpu in zip(args, moved):  # inputs are never written to
        if isinstance(arg, np.ndarray) and not name.endswith("_"):
            assert on_gpu.numpy().tobytes() == np.ascontiguousarray(arg).tobytes()
    again = on_host(gpu(*[on_device(arg) for arg in args]))
    first, second = (r if isinstance(r, tuple) else (r,) for r in (got, again))
    for a, b in zip(first, second):  # the same inputs give the same bits
        assert a is None or a.tobytes() == b.tobytes()
    return got
