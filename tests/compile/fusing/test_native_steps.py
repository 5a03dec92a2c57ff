"""What compiled programs compute natively in place of several of NumPy's calls, bit for bit: rows
of arithmetic, chains of arrays that broadcast, norms, and LSTMs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tritorch as torch
from tests.compile.fusing.test_fused_loops import SPECIAL, bits, compare
from tritorch.compilation.passes import norms
from tritorch.host.chains.chains import Chain, Steps
from tritorch.host.chains.rowwise import rowwise
from tritorch.host.chains.steps import Traced

F = torch.nn.functional
SINGLE = np.dtype(np.float32)


def _pairs(n: int) -> tuple[Any, Any]:
    """Special numbers, each beside each, but for pairs of NaNs."""
    a, b = np.meshgrid(np.array(SPECIAL, SINGLE), np.array(SPECIAL, SINGLE))
    one = ~(np.isnan(a) & np.isnan(b))
    return np.resize(a[one], n), np.resize(b[one], n)


ROWS: dict[str, Callable[[Any, Any], Any]] = {
    "held on the left": lambda a, b: ((a + b) * a - b) / a + 2.0,
    "held on the right": lambda a, b: a / (b - (a * b)),
    "right of a sum": lambda a, b: a + (b * (a - b)),
    "held twice": lambda a, b: (lambda t: (t + t) * t)(a * b),
    "needed again": lambda a, b: (lambda t: (t * a + b) - t)(a - b),
    "one operand": lambda a, b: -np.abs(np.square(a) + np.sqrt(b * b)),
    "numbers": lambda a, b: 1.0 - (3.0 / (a * 0.5 + b)),
    "around a loop": lambda a, b: np.exp(-(a * b)) * a + np.tanh(b - a) * b,
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("n", [1, 16, 127, 2048, 5003])
def test_rows_of_arithmetic_have_numpys_bits(name: str, n: int) -> None:
    steps = Steps()
    given = [Traced(steps, steps.input(SINGLE, True)) for _ in range(2)]
    chain = Chain(steps, [ROWS[name](*given).value])
    for a, b in (_pairs(n), np.random.default_rng(0).standard_normal((2, n), SINGLE)):
        with np.errstate(all="ignore"):
            expected = ROWS[name](a, b)
        found = chain(a, b)
        assert bits(np.isnan(found)) == bits(np.isnan(expected))
        held = ~np.isnan(expected)
        assert bits(found[held]) == bits(expected[held])


def _tail(x: Any, column: Any, row: Any) -> Any:
    y = x * column + row
    return y, np.exp(y) - x


def test_rows_broadcast() -> None:
    rng = np.random.default_rng(0)
    run = rowwise(_tail, "aca")
    for shape in ((1, 1, 3), (3, 5, 70), (2, 3, 5000)):
        whole = rng.standard_normal((shape[0], shape[1] + 2, shape[2] + 1), SINGLE)
        x = whole[:, 1:-1, :-1]
        column, row = rng.random((shape[1], 1), SINGLE), rng.random(shape[2], SINGLE)
        made = [np.zeros_like(whole)[:, 1:-1, :-1] for _ in range(2)]
        run(x, column, row, *made)
        for a, b in zip(made, _tail(x, column, row)):
            assert bits(a) == bits(b)
        assert not made[0].base[:, 0].any() and not made[0].base[:, :, -1].any()


@pytest.mark.parametrize(
    "wrong", [(4, 7), (3, 6), (2, 3, 7), (1, 1, 3, 7)], ids=["rows", "width", "dims", "four"]
)
def test_rows_refuse_what_does_not_broadcast(wrong: tuple[int, ...]) -> None:
    run, x = rowwise(_tail, "aca"), np.zeros((3, 7), SINGLE)
    with pytest.raises((SystemError, TypeError)):
        run(np.zeros(wrong, SINGLE), np.zeros((3, 1), SINGLE), x, x.copy(), x.copy())
    with pytest.raises(SystemError):  # walked along its last dim, it would have to be dense
        run(np.zeros((3, 14), SINGLE)[:, ::2], np.zeros((3, 1), SINGLE), x, x.copy(), x.copy())


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the functions that programs called."""
    names: list[str] = []

    def watch(owner: Any, name: str) -> None:
        function = getattr(owner, name)

        def run(*args: Any) -> Any:
            names.append(name)
            return function(*args)

        monkeypatch.setattr(owner, name, run)

    for name in ("_gradients_relu", "_normalised_relu"):
        watch(norms, name)
    return names


# Few channels at a time, all at once, planes longer than one product adds, one of few elements.
IMAGES = [(64, 32, 32, 32), (8, 6, 16, 16), (2, 5, 40, 40), (600, 3, 1, 2)]


@pytest.mark.parametrize("shape", IMAGES)
@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm_and_relu(shape: tuple[int, ...], affine: bool, used: list[str]) -> None:
    w, b = (torch.randn(shape[1]) for _ in range(2))

    def run(x: Any, v: Any, w: Any, b: Any) -> Any:
        y = F.batch_norm(x * 2, None, None, *((w, b) if affine else (None, None)), True)
        return F.relu(y) * v

    compare(run, torch.randn(shape), torch.randn(shape), w, b, grads=True)
    assert set(used) == {"_normalised_relu", "_gradients_relu"}


def test_a_norm_that_others_read_stays() -> None:
    def run(x: Any, v: Any) -> Any:
        y = F.batch_norm(x * 2, None, None, None, None, True)
        z = F.relu(y)
        return z * v + y, y * 3

    compare(run, torch.randn(8, 6, 16, 16), torch.randn(8, 6, 16, 16), grads=True)


def test_batch_norm_of_special_numbers() -> None:
    x = torch.randn(8, 6, 16, 16)
    x[0, 0, 0, 0], x[1, 1, 0, 0], x[2, 2] = float("nan"), float("inf"), 0.0
    compare(lambda x: F.relu(F.batch_norm(x * 1, None, None, None, None, True)) * 2, x, grads=True)


@pytest.mark.parametrize("rows", [(37, 128), (5000, 70), (3, 9, 4, 50)])
@pytest.mark.parametrize("affine", [0, 1, 2])
def test_layer_norm(rows: tuple[int, ...], affine: int) -> None:
    parts = [torch.randn(rows[-1]) for _ in range(affine)]
    compare(
        lambda x, v, *parts: F.layer_norm(x * 2, rows[-1:], *parts) * v,
        torch.randn(rows), torch.randn(rows), *parts, grads=True,
    )  # fmt: skip


@pytest.mark.parametrize("both", [False, True])
def test_lstm(both: bool) -> None:
    model = torch.nn.LSTM(12, 17, 2, bidirectional=both)
    names = [name for name, _ in model.named_parameters()]

    def run(x: Any, *weights: Any) -> Any:
        out, (h, c) = torch.func.functional_call(model, dict(zip(names, weights)), (x,))
        return out * 2, h * 3, c

    compare(
        run, torch.randn(7, 5, 12), *(p.detach() for p in model.parameters()), grads=True
    )  # fmt: skip
