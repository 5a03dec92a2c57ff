"""What backward passes make again of what is saved: minimum cuts, budgets, and what may be read."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tritorch as torch
from tritorch import nn
from tritorch._functorch import config
from tritorch.compilation.backward import nodes
from tritorch.compilation.backward.partition import Choice, minimum_cut, within_budget
from tritorch.nn import functional as F
from tritorch.utils.checkpoint import checkpoint

Choices = dict[int, Choice]

# ---- cuts ----------------------------------------------------------------------------------------


def _suffices(choices: Choices, needed: set[int], saved: set[int]) -> bool:
    made = set(saved)
    for number in sorted(choices):  # sources have smaller numbers
        sources = choices[number].sources
        if sources is not None and made.issuperset(sources):
            made.add(number)
    return needed <= made


def test_a_cut_takes_the_fewest_bytes_of_all_sets() -> None:
    rng = random.Random(0)
    for _ in range(150):
        choices: Choices = {}
        for number in range(9):
            sources = tuple(rng.sample(range(number), min(number, rng.randrange(3))))
            may_be_made = number > 1 and rng.random() < 0.7
            size = rng.choice([0, 1, 2, 5, 9]) if rng.random() < 0.9 else None
            choices[number] = Choice(size, sources if may_be_made else None)
        needed = set(rng.sample(range(4, 9), 2))
        choices |= {n: choices[n]._replace(bytes=choices[n].bytes or 3) for n in needed}
        found = minimum_cut(choices, needed)
        assert _suffices(choices, needed, found)
        savable = [n for n in choices if choices[n].bytes is not None]
        sets = (set(s) for k in range(10) for s in itertools.combinations(savable, k))
        best = min(
            sum(choices[n].bytes or 0 for n in each)
            for each in sets
            if _suffices(choices, needed, each)
        )
        assert sum(choices[n].bytes or 0 for n in found) == best


def test_of_equal_cuts_the_one_with_the_fewest_calls() -> None:
    chain = {0: Choice(4, None), 1: Choice(4, (0,)), 2: Choice(4, (1,))}
    assert minimum_cut(chain, {2}) == {2}
    chain[0] = Choice(3, None)
    assert minimum_cut(chain, {2}) == {0}
    assert minimum_cut(chain | {3: Choice(1, ())}, {3}) == set()  # it is made of nothing


def test_a_budget_allows_as_few_calls_as_are_enough() -> None:
    choose = lambda allowed: 10 - 2 * len(allowed)
    take = lambda part: within_budget(part, [0, 1, 2, 3], 1, 4, choose, lambda found: found)
    assert [take(part) for part in (1, 0.8, 0.75, 0.5, 0.3, 0)] == [8, 6, 6, 4, 2, 2]


# ---- programs ------------------------------------------------------------------------------------


@pytest.fixture
def saved(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The bytes that each run of a program saves, beside its inputs."""
    found: list[int] = []
    plain = nodes.Run.__init__

    def memory(array: Any) -> Any:
        while isinstance(getattr(array, "base", None), np.ndarray):
            array = array.base
        return array

    def init(run: Any, segment: Any, values: Any, tensors: Any, *rest: Any) -> None:
        plain(run, segment, values, tensors, *rest)
        inputs = {id(memory(x._array)) for x in tensors.values()}
        every = [memory(x) for each in run.saved for x in each]
        kept = {id(x): x.nbytes for x in every if isinstance(x, np.ndarray)}
        found.append(sum(n for key, n in kept.items() if key not in inputs))

    monkeypatch.setattr(nodes.Run, "__init__", init)
    yield found


def _block() -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU(), nn.Dropout(0.3), nn.Linear(64, 64),
        nn.Tanh(), nn.Softmax(-1), nn.Linear(64, 8),
    )  # fmt: skip
    return model, torch.randn(64, 64)


def _trained(run: Callable[..., torch.Tensor], model: nn.Module, *args: Any) -> list[Any]:
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses = []
    torch.manual_seed(1)
    for _ in range(6):
        optimizer.zero_grad()
        loss = run(*args).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [losses, *(p.tolist() for p in model.parameters())]


def test_budgets_save_less_and_give_the_same_bits(saved: list[int]) -> None:
    model, x = _block()
    expected = _trained(model, model, x)
    kept = []
    for part in (1.0, 0.6, 0.0):
        model, x = _block()
        with config.patch(activation_memory_budget=part):
            assert _trained(torch.compile(model), model, x) == expected
        kept.append(saved[-1])
        assert len(set(saved)) == 1
        saved.clear()
    assert kept[1] <= 0.6 * kept[0] or kept[1] == kept[2]
    assert kept[2] < 0.6 * kept[0]
    assert kept[2] <= kept[1] < kept[0]


def test_a_wider_copy_is_made_again_by_default(saved: list[int]) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        half = x.exp()  # kept by its own gradient
        return half.float().square()

    x = torch.randn(100, dtype=torch.bfloat16, requires_grad=True)
    fast = torch.compile(function)
    for _ in range(5):
        (found,) = torch.autograd.grad(fast(x).sum(), x)
        (expected,) = torch.autograd.grad(function(x).sum(), x)
        assert found.equal(expected)
    assert saved[-1] == 200  # not 600


def test_open_sizes(saved: list[int]) -> None:
    model, _ = _block()
    model.eval()
    with config.patch(activation_memory_budget=0.0):
        fast = torch.compile(model)
        for n in (3, 4, 7, 50, 51, 52):
            x = torch.randn(n, 64)
            found = torch.autograd.grad(fast(x).sum(), [*model.parameters()])
            expected = torch.autograd.grad(model(x).sum(), [*model.parameters()])
            assert all(a.equal(b) for a, b in zip(found, expected, strict=True)), n
    assert saved


def _norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, (64,), w, b).tanh().exp()


def test_what_no_gradient_reads_may_be_written_before_the_backward_pass(saved: list[int]) -> None:
    """A norm is rematerialised with its bias, of which there is a copy: a program may write it."""
    x, w = torch.randn(32, 64, requires_grad=True), torch.randn(64, requires_grad=True)
    for part in (1.0, 0.0):
        b = torch.randn(64, requires_grad=True)
        with config.patch(activation_memory_budget=part):
            fast = torch.compile(_norm)
            for _ in range(5):
                gradients = []
                start = b.detach().clone()
                for run in (_norm, fast):
                    b.data.copy_(start)
                    y = run(x, w, b).sum()
                    with torch.no_grad():
                        b.add_(1)
                    gradients.append(torch.autograd.grad(y, (x, w, b)))
                assert all(a.equal(b) for a, b in zip(*gradients, strict=True))
    assert saved[-1] < saved[0]


def test_what_is_held_may_be_written_before_the_backward_pass(saved: list[int]) -> None:
    """Three functions of a result whose gradients read their results: none is rematerialised from
    the result, which the program has, but from a copy of the input that it is made of."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        shown = x * 2
        return shown, shown.exp() + shown.sigmoid() + shown.tanh()

    x = torch.randn(300, requires_grad=True)
    with config.patch(activation_memory_budget=0.0):
        fast = torch.compile(function)
        for _ in range(5):
            gradients = []
            for run in (function, fast):
                shown, y = run(x)
                shown.detach().zero_()
                with torch.no_grad():
                    x.mul_(1)
                gradients += torch.autograd.grad(y.sum(), x)
            assert gradients[0].equal(gradients[1])
    assert saved[-1] == 1200  # not 3600


def test_a_read_input_that_was_written_is_refused() -> None:
    x = torch.randn(32, 64, requires_grad=True)
    w, b = torch.randn(64, requires_grad=True), torch.randn(64, requires_grad=True)
    with config.patch(activation_memory_budget=0.0):
        fast = torch.compile(_norm)
        for _ in range(5):
            fast(x, w, b).sum().backward()
        y = fast(x, w, b).sum()
        with torch.no_grad():
            w.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()


def test_checkpoints_stay(saved: list[int]) -> None:
    model, x = _block()
    run = lambda x: checkpoint(model, x, use_reentrant=False)
    expected = _trained(run, model, x)
    for part in (1.0, 0.0):
        model, x = _block()
        run = lambda x, model=model: checkpoint(model, x, use_reentrant=False)
        with config.patch(activation_memory_budget=part):
            assert _trained(torch.compile(run), model, x) == expected


def test_a_part_is_between_nothing_and_all() -> None:
    x = torch.randn(3, requires_grad=True)
    for part in (-0.1, 1.5):
        fast = torch.compile(lambda x: x.exp().sin())
        with (
            config.patch(activation_memory_budget=part),
            pytest.raises(RuntimeError, match="valid ranges for memory budget are 0 <= m <= 1"),
        ):
            for _ in range(4):
                fast(x).sum().backward()
