"""Dynamic shapes: few traces for all sizes and numbers, and eager's results to the bit."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import tritorch as torch
import tritorch.nn.functional as F
from tritorch import _C, nn
from tritorch.compilation.follow import counts
from tritorch.compilation.follow.compiled import follower_of
from tritorch.compilation.follow.regions import Options

from .test_flushes import GPT

SIZES = (5, 5, 7, 7, 7, 9, 12, 30, 4, 6)


def follow(function: Callable[..., Any], **options: Any) -> Any:
    """A function that is followed; its `n_traces` counts what was recorded."""
    return follower_of(function, Options(**options))


def same(a: Any, b: Any) -> None:
    """To the bit, and lying alike."""
    if isinstance(a, tuple):
        for x, y in zip(a, b, strict=True):
            same(x, y)
        return
    assert a.shape == b.shape and a.stride() == b.stride() and a.equal(b)


def sequences(*sizes: int) -> list[Any]:
    """Arguments of calls: (2, n, 32)."""
    return [torch.randn(2, n, 32) for n in sizes]


torch.manual_seed(0)
W, B, TABLE = torch.randn(32, 32) / 6, torch.randn(32), torch.randn(50, 32)


def branches(step: Any) -> list[Any]:
    """The branches of a trace tree: the calls, with their dynamic numbers."""
    found = [each for one in step.next for each in branches(one)]
    if len(step.next) > 1:
        found += [(x.ambient, x.grad_enabled, x.call.dynamic, x.call.specs) for x in step.next]
    return found


def attention(x: Any) -> Any:
    """Heads of 8, causal, by a mask that the sizes make."""
    q = F.linear(x, W).view(2, x.shape[1], 4, 8).transpose(1, 2)
    scores = q @ q.transpose(-1, -2)
    mask = torch.ones(x.shape[1], x.shape[1]).tril() == 0
    out = scores.masked_fill(mask, -1e9).softmax(-1) @ q
    return out.transpose(1, 2).reshape(2, x.shape[1], 32)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "attention": attention,
    "fused attention": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    "rows": lambda x: F.layer_norm(F.linear(x, W, B).relu(), (32,), B, B),
    "reductions": lambda x: (x.sum(1), x.mean(), x.max(1)[0], x.sum(1) / x.shape[1]),
    "parts": lambda x: (x[:, :3] * 2, x[:, -1], x[:, 1:] - x[:, :-1], x.chunk(2, 2)[1] + 1),
    "joined": lambda x: torch.cat([x, x.flip(1)], 1).cumsum(1),
    "padded": lambda x: F.pad(x, (0, 0, 0, 32 - x.shape[1])),
    "views": lambda x: (lambda y: (y.view(-1, 32), y, y.flatten(0, 1).T))(x * 2),
    "in place": lambda x: (x * 2).add_(1).mul_(x),
    "made": lambda x: x + torch.zeros(x.shape[1], 32) + torch.arange(x.shape[1])[:, None],
    "drawn": lambda x: F.dropout(x, 0.5) + torch.rand(x.shape[1], 32),
    "table": lambda x: F.embedding(torch.arange(x.shape[1]), TABLE) * TABLE[: x.shape[1]] + x,
    "convolution": lambda x: F.max_pool1d(F.conv1d(x.mT, W[:8, :, None]), 2),
    "gathered": lambda x: x.gather(1, x.argsort(1)),
    "broadcast": lambda x: torch.where(B.expand(x.shape[0], x.shape[1], 32) > 0, x, 0.5),
    "named": lambda x: torch.einsum("btc,bsc->bts", x, x),
    "transposed dropout": lambda x: F.dropout(x.transpose(0, 1), 0.5),
    "large": lambda x: ((x.repeat(1, 1000, 1) * 2 + 1).sigmoid() * 3).exp()[:, ::1000],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_two_traces_for_all_lengths(name: str) -> None:
    function = FUNCTIONS[name]
    fast = follow(function)
    counts.unfit_reasons.clear()
    for i, x in enumerate(sequences(*SIZES)):
        torch.manual_seed(i)
        expected = function(x)
        torch.manual_seed(i)
        same(fast(x), expected)
    assert fast.n_traces == 2 and not counts.unfit_reasons, branches(fast.trace_tree)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "padded"])
def test_gradients(name: str) -> None:
    """A program for both passes, of all sizes; gradients of gradients make the calls again."""

    def function(x: Any, scale: Any) -> Any:
        out = FUNCTIONS[name](x * scale)
        return out if isinstance(out, torch.Tensor) else sum(each.sum() for each in out)

    fast = follow(function)
    counts.unfit_reasons.clear()
    for i, n in enumerate((*SIZES, 11)):
        grads = []
        start, scale = torch.randn(2, n, 32), torch.rand(32)
        for run in (function, fast):
            torch.manual_seed(i)
            x, s = start.clone().requires_grad_(), scale.clone().requires_grad_()
            loss = run(x, s).pow(2).sum()
            twice = i % 4 == 2 and name not in ("gathered", "large")
            if twice:
                (g,) = torch.autograd.grad(loss, [x], create_graph=True)
                loss = loss + g.pow(2).sum()
            loss.backward()
            grads.append((loss.detach(), x.grad, s.grad))
        for mine, expected in zip(grads[1], grads[0], strict=True):
            if twice:  # sums may be in another order
                assert (mine - expected).abs().max() <= 1e-5 * expected.abs().max()
            else:
                assert mine.equal(expected)
    assert fast.n_traces == 2 and not counts.unfit_reasons, branches(fast.trace_tree)


def test_floats_are_arguments() -> None:
    def step(p: Any, g: Any, lr: float, momentum: float) -> Any:
        return torch.add(p, g, alpha=-lr) * (1 - momentum) + g / lr

    fast = follow(step)
    p, g = torch.randn(4), torch.randn(4)
    for i in range(30):
        lr, momentum = 0.1 * 0.9**i, 0.5 + i / 100
        same(fast(p, g, lr, momentum), step(p, g, lr, momentum))
    assert fast.n_traces == 2
    same(fast(p, g, -1.0, 0.5), step(p, g, -1.0, 0.5))  # alpha of 1 is another call within


def test_what_a_number_decides_is_a_condition() -> None:
    def function(x: Any, n: int) -> Any:
        return x[:n] * 2 + torch.arange(min(n, x.shape[0]))[:, None]

    fast = follow(function)
    for n in (3, 3, 3, 5, 5, 5, 9, 12, 8, 2, 1, 0, 11, 4):
        x = torch.randn(8, 2)
        same(fast(x, n), function(x, n))


def test_a_hundred_lengths_make_three_plans() -> None:
    torch.manual_seed(0)
    plain = GPT(2, 32, 2, 50, 128)
    model = GPT(2, 32, 2, 50, 128)
    model.load_state_dict(plain.state_dict())
    fast = follow(model)
    counts.unfit_reasons.clear()
    draw = random.Random(0)
    for _ in range(100):
        tokens = torch.randint(50, (3, draw.randint(2, 100)))
        seen = []
        for run, parameters in ((plain, plain.parameters()), (fast, model.parameters())):
            logits = run(tokens[:, :-1])
            F.cross_entropy(logits.reshape(-1, 50), tokens[:, 1:].reshape(-1)).backward()
            given = list(parameters)
            seen.append([logits.detach(), *(p.grad for p in given)])
            for p in given:
                p.grad = None
        assert all(a.equal(b) for a, b in zip(*seen, strict=True))
    assert fast.n_traces <= 4 and not counts.unfit_reasons  # one was plain, one of no length


def test_recurrent_networks() -> None:
    model = nn.LSTM(32, 16, batch_first=True)
    fast = follow(lambda x: model(x)[0])
    for x in sequences(*SIZES):
        same(fast(x), model(x)[0])
    assert fast.n_traces == 2


def test_small_sizes_are_as_no_others() -> None:
    def function(x: Any) -> Any:
        return F.relu(x @ W) + x.sum(0)

    fast = follow(function)
    for n in (4, 8, 16, 3, 2, 1, 1, 0, 0, 5, 100):
        x = torch.randn(n, 32)
        same(fast(x), function(x))
    assert fast.n_traces == 4


def test_strides_that_no_size_says() -> None:
    def function(x: Any) -> Any:
        return x * 2 + x.mean(0)

    fast = follow(function)
    for n in (5, 5, 6, 6, 9, 12, 12):
        x = torch.randn(3, n + 1)[:, :-1]
        same(fast(x), function(x))
    assert fast.n_traces == 2


def traces(marked: Callable[[Any], None], sizes: Sequence[int], **options: Any) -> int:
    """The number of traces of a function for some sizes of a marked tensor."""
    fast = follow(lambda x: (x * 2).sum(0), **options)
    for n in sizes:
        x = torch.randn(n, 3)
        marked(x)
        same(fast(x), (x * 2).sum(0))
    return fast.n_traces


def test_programs_say_what_differs() -> None:
    nothing = lambda x: None
    assert traces(nothing, (5, 6, 7, 8)) == 2
    assert traces(nothing, (5, 6, 7, 8), dynamic=True) == 1
    assert traces(nothing, (5, 6, 7, 8), dynamic=False) == 4
    assert traces(lambda x: torch._dynamo.mark_dynamic(x, 0), (5, 6, 7, 8)) == 1
    assert traces(lambda x: torch._dynamo.mark_static(x, 0), (5, 6, 7, 8)) == 4


def test_overlapping_writes_are_refused_as_they_are_without_compile() -> None:
    def shifted(x: Any) -> Any:
        x[1:] = x[:-1]
        return x * 1

    fast = follow(shifted)
    for n in (2, 2, 2, 2):
        same(fast(torch.arange(n)), shifted(torch.arange(n)))
    for n in (3, 4, 5):
        with pytest.raises(RuntimeError, match="single memory location"):
            fast(torch.arange(n))


def test_nothing_is_kept_of_a_function_that_is_gone() -> None:
    def steps() -> int:
        gc.collect()
        return sum(type(each) is _C.Step for each in gc.get_objects())

    before = steps()
    fast = follow(lambda x: x.relu() + 1)
    for n in SIZES:
        fast(torch.ones(n))
    assert steps() > before
    del fast
    assert steps() == before


@pytest.mark.parametrize(
    "make",
    [
        lambda n: torch.randn(1, n, 8), lambda n: torch.randn(1, 8, n).mT,
        lambda n: torch.randn(n, 8)[None], lambda n: torch.randn(3, n, 8)[1:2],
    ],
    ids=["dense", "transposed", "indexed", "sliced"],
)  # fmt: skip
def test_a_batch_of_one(make: Callable[[int], torch.Tensor]) -> None:
    """The stride of a dim of size one follows from the other sizes, too."""

    w = torch.randn(8, 8)

    def function(x: torch.Tensor) -> torch.Tensor:
        q = (x @ w).view(x.shape[0], x.shape[1], 2, 4).transpose(1, 2)
        return torch.softmax(q @ q.mT, -1) @ q

    fast = follow(function)
    for n in SIZES:
        x = make(n)
        same(fast(x), function(x))
    assert fast.n_traces == 2
