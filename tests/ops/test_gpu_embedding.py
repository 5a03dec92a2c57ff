"""The gradient of embeddings on the GPU against NumPy."""

import numpy as np
import pytest

from tests.ops.gpu_reference import FLOATS, compare, numbers, on_device
from tritorch.gpu import embedding

pytestmark = pytest.mark.device


def places(high, shape):
    return np.random.default_rng(1).integers(0, high, shape)


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("by_frequency", [False, True])
def test_backward(kind, by_frequency):
    index = places(6, (4, 7))
    for padding in (-1, 2):
        g = numbers((4, 7, 5), kind)
        compare("embedding", "embedding_backward", g, index, 8, padding, by_frequency)
    g = numbers((5, 7, 4), kind).transpose(2, 1, 0)
    compare("embedding", "embedding_backward", g, index, 8, -1, by_frequency)
    compare("embedding", "embedding_backward", g, places(6, (7, 4)).T, 8, -1, by_frequency)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0)])
def test_no_indices(shape):
    g = numbers((*shape, 5))
    compare("embedding", "embedding_backward", g, places(6, shape), 3, 1, False)


def test_no_columns():
    g, index = on_device(numbers((4, 0))), on_device(places(3, (4,)))
    assert embedding.embedding_backward(g, index, 3, 1, False).shape == (3, 0)


def test_one_hot_row():
    """All gradients go to one row: the run is cut and joined again."""
    g = numbers((300, 3))
    compare("embedding", "embedding_backward", g, np.full(300, 1), 2, -1, False)


def test_wide_rows():
    compare("embedding", "embedding_backward", numbers((9, 700)), places(3, (9,)), 4, 0, False)
