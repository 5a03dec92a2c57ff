"""Kernels that are written for calls in place, and for many arrays in one launch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

import tritorch as torch
from tritorch import _C

from .test_fusing import RUNS, launched

pytestmark = [pytest.mark.device, pytest.mark.simulated]
Lists = list[list[Any]]


def _adam(ps: Any, gs: Any, ms: Any, vs: Any) -> None:
    """About thirty calls on lists, in place."""
    for decay in (0.9, 0.8, 0.7):
        torch._foreach_mul_(ms, decay)
        torch._foreach_add_(ms, gs, alpha=1 - decay)
        torch._foreach_mul_(vs, 0.99)
        torch._foreach_addcmul_(vs, gs, gs, 0.01)
        root = torch._foreach_sqrt(vs)
        torch._foreach_div_(root, 0.99)
        torch._foreach_add_(root, 1e-8)
        torch._foreach_mul_(ps, 0.999)
        torch._foreach_addcdiv_(ps, ms, root, -0.01)


def _lists(count: int, *kinds: Any) -> Lists:
    """Four lists of arrays of several sizes, some of a single element, of each dtype."""
    torch.manual_seed(1)
    shapes = [((1,), (3 + i, 7), (5 * i + 1,), (2, 3, i + 1))[i % 4] for i in range(count)]
    return [
        [torch.rand(*shape, device="cuda").to(kind) for kind in kinds for shape in shapes]
        for _ in range(4)
    ]


def _same(one: Lists, other: Lists) -> bool:
    pairs = [(x, y) for a, b in zip(one, other) for x, y in zip(a, b)]
    return all(x.equal(y) and x._version == y._version for x, y in pairs)


@pytest.mark.parametrize(("count", "kinds"), [(200, ["float32"]), (8, ["float32", "bfloat16"])])
def test_an_optimizer_of_lists_is_a_launch_a_dtype(count: int, kinds: list[str]) -> None:
    own, eager = (_lists(count, *(getattr(torch, kind) for kind in kinds)) for _ in range(2))
    fast = torch.compile(_adam, mode="exact")
    for _ in range(RUNS):
        _, launches = launched(lambda: fast(*own))
        _adam(*eager)
        assert _same(own, eager)
    assert launches == len(kinds)


def test_no_table_is_in_a_graph() -> None:
    """CUDA graphs take no addresses from memory: there is a launch for each array, replayed."""
    own, eager = _lists(6, torch.float32), _lists(6, torch.float32)
    options = {"triton.cudagraphs": True, "emulate_precision_casts": True}
    fast = torch.compile(_adam, options=options)
    before = _C.replay_counts()["replayed"]
    for _ in range(RUNS + 4):
        fast(*own)
        _adam(*eager)
    assert _same(own, eager) and _C.replay_counts()["replayed"] > before


# ---- programs that write what they are given -----------------------------------------------------


def _read_before_and_after(x: Any, y: Any, w: Any) -> Any:
    before = x @ w
    x.mul_(2).add_(y)
    return before, x @ w, x.sum(), y * x


def _written_twice(x: Any, y: Any, w: Any) -> Any:
    old = x * y
    x.add_(y, alpha=0.5)
    y.mul_(x)
    x.sub_(old)
    return old + x, y.relu()


def _exchanged(x: Any, y: Any, w: Any) -> Any:
    kept = x * 1
    x.copy_(y)
    y.copy_(kept)
    return kept + 1


def _broadcast(x: Any, y: Any, w: Any) -> Any:
    x.copy_(y[:1])
    y.mul_(w[0, :1])
    w.add_(w.sum())
    return x + y[0], w * 2


def _shown(x: Any, y: Any, w: Any) -> Any:
    row = x[1]
    x.mul_(3)
    y.add_(row)
    row.add_(1)
    return x + y


def _shifted(x: Any, y: Any, w: Any) -> Any:
    total = torch.cat([x[1:], x[:1]]) + y
    x.add_(total)
    return x.t() * 2


def _normed(x: Any, y: Any, w: Any) -> Any:
    x.mul_(1 / (y.norm() + 1e-6))
    y.sub_(x.mean(-1, keepdim=True))
    return x.softmax(-1)


def _of_other_dtypes(x: Any, y: Any, w: Any) -> Any:
    half, whole = x.bfloat16(), (y * 4).int()
    x.copy_(half + 1)
    y.copy_(whole)
    whole.add_(1)
    half.mul_(y)
    return x, y, whole, half


def _by_a_number(x: Any, y: Any, w: Any) -> Any:
    x.mul_(0.5).clamp_(-1, 1)
    y.zero_()
    y.add_(x, alpha=2)
    return y.exp()


WRITING = (
    _read_before_and_after, _written_twice, _exchanged, _broadcast, _shown, _shifted, _normed,
    _of_other_dtypes, _by_a_number,
)  # fmt: skip


def _given() -> list[Any]:
    torch.manual_seed(2)
    return [torch.randn(4, 6, device="cuda"), torch.randn(4, 6, device="cuda"),
            torch.randn(6, 6, device="cuda")]  # fmt: skip


def _outcome(run: Any, given: list[Any]) -> list[Any]:
    """What a program gives; nothing, if what it writes may not share memory with what it reads."""
    try:
        found = run(*given)
    except RuntimeError as error:
        assert "single memory location" in str(error)
        return []
    return [found] if isinstance(found, torch.Tensor) else list(found)


SHARING: dict[str, Callable[[], list[Any]]] = {
    "apart": _given,
    "one twice": lambda: [(xs := _given())[0], xs[0], xs[2]],
    "a view": lambda: [(xs := _given())[0], xs[0].view(4, 6), xs[2]],
    "of one base": lambda: [(xs := _given())[2][:4], xs[2][2:], xs[2]],
}


@pytest.mark.parametrize("sharing", SHARING)
@pytest.mark.parametrize("run", WRITING, ids=lambda run: run.__name__.strip("_"))
def test_programs_that_write(run: Any, sharing: str) -> None:
    """Values, what inputs are left as, and versions are eager's, whatever memory they share."""
    own, eager = SHARING[sharing](), SHARING[sharing]()
    fast = torch.compile(run, mode="exact")
    for _ in range(RUNS + 1):
        found, expected = _outcome(fast, own), _outcome(run, eager)
        assert all(x.equal(y) for x, y in zip(found, expected, strict=True))
        assert _same([own], [eager])
        for x in (*own, *eager):
            x.clamp_(-3, 3)


def test_calls_in_place_are_in_the_kernel_of_what_they_follow() -> None:
    run = functools.partial(_written_twice, w=None)
    fast, given = torch.compile(run), _given()[:2]
    for _ in range(RUNS):
        _, launches = launched(lambda: fast(*given))
    assert launches == 1
