"""CTC on the GPU against NumPy, and against all paths one by one."""

import itertools

import numpy as np
import pytest

import tritorch as torch
from tests.ops.gpu_reference import compare, numbers, on_device
from tritorch.gpu.loss import ctc
from tritorch.ops.record.backends import backend

TARGETS = np.array([[1, 2, 2, 3], [3, 1, 0, 0], [2, 2, 2, 2], [0, 0, 0, 0]])
N_STEPS, N_LABELS = np.array([7, 5, 4, 0]), np.array([4, 2, 4, 0])  # the third is impossible


def logs(kind=np.float32, steps=7):
    x = numbers((steps, 4, 5), np.float64)
    return (x - np.log(np.exp(x).sum(2, keepdims=True))).astype(kind)


@pytest.mark.device
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("zero_infinity", [False, True])
def test_as_on_the_host(kind, zero_infinity):
    for x in (logs(kind), np.ascontiguousarray(logs(kind).transpose(2, 1, 0)).transpose(2, 1, 0)):
        lengths = (TARGETS, N_STEPS, N_LABELS)
        loss, _ = ctc.ctc_loss(*map(on_device, (x, *lengths)), 0)
        want, known = backend("cpu", "ctc").ctc_loss(x, *lengths, 0)
        np.testing.assert_allclose(loss.numpy(), want, rtol=1e-5)
        assert np.isposinf(want[2]) and want[3] == 0
        g = numbers((4,), kind, 1)
        compare("ctc", "ctc_loss_backward", g, x, *lengths, want, known, 0, zero_infinity)


@pytest.mark.device
def test_a_label_out_of_range_is_reported():
    x, targets = on_device(logs()), on_device(np.full((4, 2), 9))
    loss, _ = ctc.ctc_loss(x, targets, on_device(N_STEPS), on_device(np.full(4, 2)), 0)
    with pytest.raises(IndexError, match="Target 9 is out of bounds"):
        loss.numpy()


def test_is_the_sum_over_all_paths():
    x = logs(np.float64, 4)[:, 0]
    total = 0.0
    for path in itertools.product(range(5), repeat=4):
        shown = [label for label, _ in itertools.groupby(path) if label != 2]
        if shown == [1, 1]:
            total += np.exp(sum(x[t, label] for t, label in enumerate(path)))
    got = torch.nn.functional.ctc_loss(
        torch.tensor(x), torch.tensor([1, 1]), (4,), (2,), blank=2, reduction="sum"
    )
    assert got.item() == pytest.approx(-np.log(total))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"blank": 7}, "blank must be in label range"),
        ({"input_lengths": (5,)}, "input_lengths must be of size batch_size"),
        ({"input_lengths": (5, 9)}, "input_lengths to have value at most 5, but got value 9"),
        ({"target_lengths": (-1, 2)}, "target_lengths to have value at least 0, but got value -1"),
        ({"target_lengths": (2, 3)}, "size at least 3 at dimension 1, but got size 2"),
        ({"targets": torch.tensor([1, 2, 1])}, "size 4 at dimension 0, but got size 3"),
        ({"log_probs": torch.zeros(0, 2, 4)}, "log_probs tensor must not be empty"),
    ],
)
def test_errors(change, message):
    given = {
        "log_probs": torch.zeros(5, 2, 4), "targets": torch.tensor([[1, 2], [1, 3]]),
        "input_lengths": (5, 5), "target_lengths": (2, 2),
    }  # fmt: skip
    with pytest.raises(RuntimeError, match=message):
        torch.nn.functional.ctc_loss(**(given | change))
