"""Softmax on the GPU against NumPy."""

import numpy as np
import pytest

from tests.ops.gpu_reference import FLOATS, compare, numbers
from tritorch.core.dtype import float32, float64, from_numpy_dtype
from tritorch.gpu import softmax

pytestmark = pytest.mark.device
NAMES = ["softmax", "log_softmax"]


@pytest.fixture(params=["rows", "looped"])
def path(request, monkeypatch):
    """Both kernels: the one for long rows with blocks so small that it loops."""
    if request.param == "looped":
        monkeypatch.setattr(softmax, "row_blocks", lambda n_rows, n_cols, inner: (True, 2, 4, 4))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", FLOATS)
def test_every_dim_forward_and_backward(name, kind, path):
    dtype = from_numpy_dtype(np.dtype(kind))
    for x in (numbers((2, 9, 3), kind), numbers((3, 9, 2), kind).transpose(2, 1, 0)):
        for dim in range(3):
            out = compare("softmax", name, x * 3, dim, dtype)
            compare("softmax", f"{name}_backward", numbers(x.shape, kind, 1), out, dim, dtype)


@pytest.mark.parametrize("name", NAMES)
def test_special_values(name, path):
    x = np.array([[-np.inf, 1, 2] * 4, [-np.inf] * 12, [np.nan] + [0] * 11, [np.inf] + [1] * 11])
    with np.errstate(invalid="ignore", divide="ignore"):
        compare("softmax", name, x.astype(np.float32), 1, float32)
    compare("softmax", name, np.float32([[1e30, -1e30, 0, 1e30] * 3]), 1, float32)


def test_other_output_types():
    compare("softmax", "softmax", numbers((3, 4), np.float32), 1, float64, tolerance=1e-6)
    compare("softmax", "softmax", np.zeros((2, 0), np.float32), 1, float32)
    compare("softmax", "log_softmax", np.zeros((0, 3), np.float32), 1, float32)


def test_programs_fit_in_registers():
    for n_rows in (1, 5, 10**6):
        for n_cols in (1, 7, 4096, 32768, 32769, 10**6):
            for inner in (1, 49):
                looped, rows, cols, warps = softmax.row_blocks(n_rows, n_cols, inner)
                assert rows * cols <= 2**15 and warps in (4, 8, 16, 32)
                assert looped or cols >= n_cols
    assert not softmax.row_blocks(8, 32768, 1)[0] and softmax.row_blocks(8, 32769, 1)[0]
