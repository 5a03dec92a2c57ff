"""Comparing tensors and making them for tests, as in torch.testing."""

from tritorch.testing._comparison import assert_allclose, assert_close
from tritorch.testing._creation import make_tensor
from tritorch.testing._file_check import FileCheck
