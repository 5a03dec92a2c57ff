"""Compiled functions in several threads: each thread has its own region, and all see the values
that eager gives, whoever computes them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tritorch as torch
from tritorch import _C
from tritorch.compilation.dynamic_shapes import symbols
from tritorch.compilation.follow.calls import filing

THREADS, CALLS = 4, 25


@pytest.fixture(autouse=True)
def _switching() -> Iterator[None]:
    """Threads take turns much more often than they do by themselves."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def _in_threads(*works: Callable[[], Any]) -> list[Any]:
    """What each gives, run at once; the first error that one raises."""
    results: list[Any] = [None] * len(works)
    errors: list[BaseException] = []
    start = threading.Barrier(len(works))

    def run(i: int) -> None:
        start.wait()
        try:
            results[i] = works[i]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    if errors:
        raise errors[0]
    return results


def _step(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = (x @ w).tanh() * 2 + x
    y.add_(1)
    return (y * y).sum() if y.sum() > 0 else (y - 1).mean()


def _losses(function: Callable[..., torch.Tensor], seed: int) -> list[tuple[float, list[float]]]:
    """Losses and gradients of some inputs, both branches and two sizes among them."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for i in range(CALLS):
        x = torch.randn(3 + i % 2, 4, generator=generator)
        w = torch.randn(4, 4, generator=generator).requires_grad_()
        loss = function(x, w)
        loss.backward()
        found.append((loss.item(), w.grad.flatten().tolist()))
    return found


def test_one_function_in_many_threads() -> None:
    compiled = torch.compile(_step)
    works = [lambda seed=seed: _losses(compiled, seed) for seed in range(THREADS)]
    for _ in range(2):  # with paths that are not known, and with known ones
        results = _in_threads(*works)
        assert results == [_losses(_step, seed) for seed in range(THREADS)]


def test_functions_share_a_tensor_that_one_writes() -> None:
    """What another thread has read of a tensor is all of a write, or nothing of it."""
    shared = torch.zeros(64)

    @torch.compile
    def write(n: int) -> torch.Tensor:
        shared.fill_(n)
        return shared + 1

    @torch.compile
    def read() -> torch.Tensor:
        return shared * 1

    def writes() -> list[float]:
        return [write(n)[0].item() for n in range(CALLS)]

    def reads() -> list[torch.Tensor]:
        return [read() for _ in range(CALLS)]

    written, seen = _in_threads(writes, reads)
    assert written == [n + 1.0 for n in range(CALLS)]
    assert all((x == x[0]).all() for x in seen)
    firsts = [x[0].item() for x in seen]
    assert firsts == sorted(firsts)


@pytest.mark.parametrize("look", ["numbers", "calls", "writes", "gradients"])
def test_a_tensor_that_waits_goes_to_another_thread(look: str) -> None:
    """It is handed over while its region goes on."""

    def use(x: torch.Tensor) -> Any:
        if look == "numbers":
            return x.tolist()
        if look == "calls":
            return (x * 3 + 1).sum().item()
        if look == "writes":
            with torch.no_grad():
                return x.detach().add_(1).sum().item()
        return torch.autograd.grad(x.sum(), x)[0].tolist()

    def function(x: torch.Tensor, given: list[Any]) -> torch.Tensor:
        y = x * 2
        y = y.sin() if look != "gradients" else y
        thread = threading.Thread(target=lambda: given.append(use(y)))
        thread.start()
        z = x
        for _ in range(20):
            z = z * 1.5 - x
        thread.join()
        return z + y

    compiled = torch.compile(function)
    for seed in range(4):
        torch.manual_seed(seed)
        x = torch.randn(5, requires_grad=look == "gradients")
        eager: list[Any] = []
        given: list[Any] = []
        expected = function(x, eager)
        assert torch.equal(compiled(x, given), expected)
        assert given == eager and len(given) == 1


def test_a_region_ends_while_another_thread_holds_what_waited() -> None:
    ready, done = threading.Event(), threading.Event()
    box: list[torch.Tensor] = []

    @torch.compile
    def function(x: torch.Tensor) -> torch.Tensor:
        box[:] = [x * 2 + 1]
        return x - 1

    def watch() -> list[list[float]]:
        found = []
        for _ in range(CALLS):
            assert ready.wait(30)
            ready.clear()
            found.append(box[0].tolist())
            done.set()
        return found

    def work() -> list[list[float]]:
        found = []
        for n in range(CALLS):
            result = function(torch.full((3,), float(n)))
            ready.set()
            assert done.wait(30)
            done.clear()
            found.append(result.tolist())
        return found

    seen, results = _in_threads(watch, work)
    assert seen == [[2.0 * n + 1] * 3 for n in range(CALLS)]
    assert results == [[n - 1.0] * 3 for n in range(CALLS)]


def test_a_generator_goes_on_in_and_out_of_regions() -> None:
    """What a generator computes between two of its values is part of who asks for the next one."""

    def halves(x: torch.Tensor) -> Iterator[torch.Tensor]:
        while True:
            x = x / 2
            yield x + 1

    def take(values: Iterator[torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return next(values) * x + next(values)

    compiled = torch.compile(take)
    x = torch.arange(4.0)
    mine, theirs = halves(x), halves(x)
    for _ in range(4):
        assert torch.equal(compiled(mine, x), take(theirs, x))
        assert torch.equal(next(mine), next(theirs))


def test_a_generator_that_is_compiled_gives_its_values() -> None:
    def rows(x: torch.Tensor) -> Iterator[torch.Tensor]:
        for row in x:
            yield row * 2
            x.add_(1)

    for _ in range(3):
        x, y = torch.eye(3), torch.eye(3)
        got = [row.tolist() for row in torch.compile(rows)(x)]
        assert got == [row.tolist() for row in rows(y)]
        assert torch.equal(x, y)


def _computing(work: Callable[[], None]) -> Callable[[], Any]:
    """A call whose segment is computed by a backend, which does some work of its own."""

    def backend(gm: Any, inputs: Any) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            work()
            return gm(*args)

        return run

    compiled = torch.compile(lambda x: x * 2 + 1, backend=backend)
    compiled(torch.ones(2))  # recorded, plain
    return lambda: compiled(torch.ones(2)).tolist()


def test_a_flush_waits_for_that_of_another_thread() -> None:
    begun, proceed, flushed = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert proceed.wait(30)

    call = _computing(work)

    def flush() -> None:
        assert begun.wait(30)
        torch.manual_seed(0)
        flushed.set()

    def watch() -> None:
        assert begun.wait(30)
        assert not flushed.wait(0.3)
        proceed.set()
        assert flushed.wait(30)

    assert _in_threads(call, flush, watch)[0] == [3, 3]


def test_threads_that_flush_do_not_wait_for_each_other() -> None:
    assert _computing(lambda: (torch.manual_seed(0), None)[1])() == [3, 3]  # or for itself
    for count in (2, 3):
        together = threading.Barrier(count)

        def work(together: threading.Barrier = together) -> None:
            together.wait(30)
            torch.manual_seed(0)

        calls = [_computing(work) for _ in range(count)]
        assert _in_threads(*calls) == [[3, 3]] * count


def test_who_makes_calls_with_symbols_waits_for_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread computes, and waits for the symbols itself."""
    held, computing = threading.Event(), threading.Event()
    with_values = symbols.Known.with_values

    def noted(*args: Any) -> Any:
        computing.set()
        return with_values(*args)

    compiled = torch.compile(lambda x: x * 2 + 1)
    compiled(torch.ones(2))  # recorded, plain

    def compute() -> Any:
        assert held.wait(30)
        monkeypatch.setattr(symbols.Known, "with_values", noted)
        return compiled(torch.ones(2)).tolist()

    def describe() -> Any:
        with filing:
            held.set()
            assert computing.wait(30)
            torch.empty(2, device="meta").add_(1)  # asks for all before it, where there is memory
            return "described"

    assert _in_threads(compute, describe) == [[3, 3], "described"]


def test_who_makes_calls_with_symbols_computes_nothing_else() -> None:
    """The symbols have the values of one run: deferred calls elsewhere would be given others."""
    waiting, described = threading.Event(), threading.Event()
    left: list[int] = []

    @torch.compile
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if left:
            waiting.set()
            assert described.wait(30)
            left.append(_C.current_region().deferred)
        return y + 1

    function(torch.ones(2))  # recorded, plain
    left.append(0)

    def describe() -> None:
        assert waiting.wait(30)
        with filing:
            torch.empty(2, device="meta").add_(1)
        described.set()

    assert _in_threads(lambda: function(torch.ones(2)).tolist(), describe)[0] == [3, 3]
    assert left == [0, 1]


def test_a_tensor_that_another_region_has_met_may_die() -> None:
    """The region that knew it first does not look for it any more."""
    other = torch.compile(lambda y: y + 1)
    found = []

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        assert y.sum().item() == 8.0  # it has an array from here on
        slot = y._mark & 0xFFFFFF
        assert _C.current_region().tensors({})[slot] is y
        thread = threading.Thread(target=other, args=(y,))
        thread.start()
        thread.join()
        del y, thread
        found.append(_C.current_region().tensors({})[slot])
        return x + 1

    fast = torch.compile(function)
    for _ in range(4):
        assert fast(torch.ones(4)).tolist() == [2.0] * 4
    assert found == [None] * 4
