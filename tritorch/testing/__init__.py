"""Comparing tensors and making them for tests, as in torch.testing."""

from tritorch.testing._comparison import (
    assert_allclose as assert_allclose,
    assert_close as assert_close,
)
from tritorch.testing._creation import make_tensor as make_tensor
from tritorch.testing._file_check import FileCheck as FileCheck
