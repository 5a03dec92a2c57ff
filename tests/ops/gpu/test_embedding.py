"""The gradient of embeddings on the GPU against NumPy."""

import numpy as np
import pytest

from tests.ops.gpu_reference import bfloat16, compare, numbers

pytestmark = pytest.mark.device


@pytest.mark.parametrize("kind", [np.float32, bfloat16, np.float64])
@pytest.mark.parametrize("padding_idx", [-1, 3])
@pytest.mark.parametrize("by_frequency", [False, True])
def test_embedding_backward(kind, padding_idx, by_frequency):
    indices = np.random.default_rng(3).integers(0, 6, (9, 4))
    for g in (numbers((9, 4, 5), kind), numbers((5, 4, 9), kind).transpose()):
        compare("embedding", "embedding_backward", g, indices, 8, padding_idx, by_frequency)


def test_no_indices():
    g, indices = numbers((0, 5)), np.zeros(0, np.int64)
    compare("embedding", "embedding_backward", g, indices, 4, -1, False)
