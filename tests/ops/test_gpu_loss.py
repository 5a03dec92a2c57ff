"""Cross-entropy on the GPU against NumPy."""

import numpy as np
import pytest

from tests.ops.gpu_reference import FLOATS, compare, numbers, on_device
from tritorch.gpu import loss

pytestmark = pytest.mark.device


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("tile", [None, (2, 4, 4)])
def test_cross_entropy(kind, smoothing, weighted, tile, monkeypatch):
    if tile:  # several blocks a row
        monkeypatch.setattr(loss, "row_tile", lambda n, c: tile)
    target = np.random.default_rng(3).integers(0, 13, 7)
    target[2] = -100
    weight = np.abs(numbers((13,), kind, 4)) if weighted else None
    for x in (numbers((7, 13), kind), numbers((13, 7), kind).T):
        _, lse = compare("loss", "cross_entropy", x, target, weight, -100, smoothing)
        g = numbers((7,), kind, 1)
        compare(
            "loss", "cross_entropy_backward", g, x, target, weight, -100, smoothing, lse
        )  # fmt: skip


def test_infinite_logits_and_an_ignored_class():
    x = np.float32([[0, -np.inf, 1], [-np.inf, 5, -np.inf], [1, 2, 3]])
    target = np.array([2, 1, 0])
    losses, lse = compare("loss", "cross_entropy", x, target, None, 0, 0.0)
    assert losses[1] == 0 and losses[2] == 0 and losses[0] > 0
    compare("loss", "cross_entropy_backward", np.ones(3, np.float32), x, target, None, 0, 0.0, lse)


def test_no_rows():
    none = np.zeros(0, np.int64)
    compare("loss", "cross_entropy", np.zeros((0, 3), np.float32), none, None, -100, 0.0)


def test_a_target_out_of_range_is_reported():
    x = on_device(numbers((2, 3)))
    losses, _ = loss.cross_entropy(x, on_device(np.array([1, 10**6])), None, -100, 0.0)
    with pytest.raises(IndexError, match="Target 1000000 is out of bounds"):
        losses.numpy()
