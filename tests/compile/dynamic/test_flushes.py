"""What interrupts compiled programs, or is computed by its calls: written down, so that it is seen.

`fallbacks.txt` has what of the tables of operators and modules cannot be deferred to the end of a
function, or has no plan, with the reason.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tritorch as torch
from tests.nn.test_meta import GPT
from tests.ops.table import CASES, Case
from tritorch.compilation.follow import counts, regions
from tritorch.nn import functional as F

from .. import test_modules as modules
from ..watching import first_difference, seen

LISTED = Path(__file__).with_name("fallbacks.txt")
CALLS = 4


class Heard(regions.Listener):
    """What interrupts the functions that run while it is entered, and what has no plan."""

    def __enter__(self) -> Heard:
        self.flushes: list[str] = []
        self.before = Counter(counts.unfit_reasons)
        regions.listeners.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        regions.listeners.remove(self)
        self.unfit = list(counts.unfit_reasons - self.before)

    def flushed(self, follower: Any, reason: str, place: Any) -> None:
        self.flushes.append(reason)

    def kinds(self) -> set[str]:
        return {kind for kind, found in (("deferral", self.flushes), ("plan", self.unfit)) if found}


def listed(section: str) -> dict[str, str]:
    """The recorded fallbacks: {name: "deferral" (it cannot be), "plan" (it has none), or both}."""
    found = {}
    for line in LISTED.read_text().partition(f"[{section}]")[2].splitlines()[1:]:
        if line.startswith("["):
            break
        if match := re.fullmatch(r"(.+?) \| no (plan|deferral|deferral, plan)", line):
            found[match[1]] = match[2]
    return found


def run(case: Case, function: Callable[..., Any]) -> list[Any]:
    """What a case gives in each call, with the gradients of its inputs."""
    found = []
    for number in range(CALLS):
        xs = [torch.tensor(x, requires_grad=True) for x in case.inputs(number)]
        out = function(*xs, *map(torch.tensor, case.constants))
        outs = list(out) if isinstance(out, (tuple, list)) else [out]
        wanting = [x for x in outs if isinstance(x, torch.Tensor) and x.requires_grad]
        torch.autograd.backward(wanting, [torch.ones_like(x) for x in wanting])
        found.append(seen([*outs, *xs]))
    return found


@pytest.fixture(autouse=True)
def _without_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_operators() -> None:
    """Each case of the table in a compiled function: eager's numbers, no fallback in silence."""
    found = {}
    for case in CASES:
        torch.manual_seed(0)
        eager = run(case, case.function)
        torch.manual_seed(0)
        with Heard() as heard:
            compiled = run(case, torch.compile(lambda *given, of=case.function: of(*given)))
        assert not first_difference(eager, compiled), case.name
        if kinds := heard.kinds():
            found[case.name] = ", ".join(sorted(kinds))
    assert found == listed("operators")


def test_modules() -> None:
    found = {}
    for index, (text, _) in enumerate(modules.CASES):
        kinds = set()
        for training in (True, False):
            with Heard() as heard:
                modules.observe(index, training, torch.compile)
            kinds |= heard.kinds()
        if kinds:
            found[text] = ", ".join(sorted(kinds))
    assert found == listed("modules")


class Training:
    """GPT's steps."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = GPT(2, 32, 2, 50, 24)
        self.run = self.model
        self.tokens, self.targets = torch.randint(50, (3, 17)), torch.randint(50, (3, 17))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-3, weight_decay=0.1)

    def step(self) -> Any:
        self.optimizer.zero_grad(set_to_none=True)
        logits = self.run(self.tokens)
        loss = F.cross_entropy(logits.view(-1, 50), self.targets.view(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss


def losses(step: Callable[[], Any]) -> list[float]:
    return [step().item() for _ in range(5)]


def test_a_step_of_a_compiled_model_has_no_flush() -> None:
    """It ends where the model does."""
    eager, training = Training(), Training()
    training.run = torch.compile(training.model)
    with Heard() as heard:
        assert losses(training.step) == losses(eager.step)
    assert heard.flushes == [] and heard.unfit == []


def test_a_whole_compiled_step_has_one_flush() -> None:
    """Its backward pass is called each time."""
    eager, training = Training(), Training()
    with Heard() as heard:
        assert losses(torch.compile(training.step)) == losses(eager.step)
    assert heard.flushes == ["backward: it is called each time"] and heard.unfit == []


def test_autocast_flushes_nothing() -> None:
    """Which casts of parameters are kept is asked of tensors that wait, too."""
    eager, training = Training(), Training()
    training.run = torch.compile(training.model)
    with Heard() as heard, torch.autocast("cpu", torch.bfloat16):
        assert losses(training.step) == losses(eager.step)
    assert heard.flushes == [] and heard.unfit == []


def _looks(x: Any) -> Any:
    y = x * 2
    return y + 1 if y.grad_fn is not None else y


def test_a_look_at_what_waits_is_told() -> None:
    x = torch.ones(3, requires_grad=True)
    compiled = torch.compile(_looks)
    with Heard() as heard:
        for _ in range(CALLS):
            assert compiled(x).tolist() == [3, 3, 3]
    assert heard.flushes == ["look: a deferred tensor is looked at"]
    whole = torch.compile(_looks, fullgraph=True)
    whole(x)  # recorded, plain
    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"looked at[\s\S]*in _looks"):
        whole(x)


def test_a_fallback_is_seen() -> None:
    with Heard() as heard:
        torch.compile(lambda x: x.nonzero())(torch.ones(3))
    assert heard.kinds() == {"deferral"}


def test_a_view_that_may_not_be_asked() -> None:
    """Written in no_grad, a view of a leaf refuses to say whether it wants a gradient."""

    def zeroed(w: Any) -> Any:
        with torch.no_grad():
            row = w[0]
            row.fill_(0)
            return row.detach() + 1

    compiled = torch.compile(zeroed)
    for _ in range(CALLS):
        w = torch.full((3, 2), 2.0, requires_grad=True)
        assert compiled(w).tolist() == [1, 1] and w.tolist() == [[0, 0], [2, 2], [2, 2]]


DRAWS = {
    "dropout": lambda x: F.dropout(x, 0.4),
    "dropout2d": lambda x: F.dropout2d(x.view(1, 5, 2, 3), 0.4),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.4, True),
    "rrelu": lambda x: F.rrelu(x - 1.5, training=True),
    "attention": lambda x: F.scaled_dot_product_attention(*[x.view(1, 2, 5, 3)] * 3, dropout_p=0.4),
    "gumbel_softmax": lambda x: F.gumbel_softmax(x),
    "multinomial": lambda x: x.abs().multinomial(2) * x.sum(),
    "bernoulli": lambda x: x.detach().sigmoid().bernoulli() * x,
    "poisson": lambda x: torch.poisson(x.detach().exp()) * x,
    "normal": lambda x: torch.normal(x.detach(), 0.5) * x,
    "like": lambda x: (torch.rand_like(x) + torch.randn_like(x)) * x,
    "sizes": lambda x: (torch.rand(6, device=x.device) + torch.randperm(6, device=x.device)) * x,
    "in place": lambda x: (x * 2).exponential_() + (x * 2).uniform_() + x,
}


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.device)])
@pytest.mark.parametrize("name", DRAWS)
def test_draws_are_made_anew(name: str, device: str) -> None:
    """Each call draws what an eager call would, forwards and for the gradient."""

    def numbers(function: Callable[..., Any]) -> list[Any]:
        torch.manual_seed(0)
        found = []
        for number in range(CALLS):
            x = (torch.arange(30.0, device=device).view(5, 6) / 10 - number % 2).requires_grad_()
            out = function(x)
            out.square().sum().backward()
            found.append(seen([out, x]))
        return found

    with Heard() as heard:
        compiled = numbers(torch.compile(DRAWS[name], mode="exact"))
    assert not first_difference(numbers(DRAWS[name]), compiled)
    assert heard.flushes == [] and heard.unfit == []
