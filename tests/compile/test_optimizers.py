"""Every optimizer in compiled training: parameters and state to the bit those of eager training.

Once the whole step is one compiled function (forward, backward, clipping, the optimizer, a scaler,
a scheduler), once the model alone is compiled.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tritorch as torch
from tests.optim import cases
from tritorch import nn

from .watching import first_difference, seen

STEPS = 5
# Two sets of options or more of each class, those of tests/optim first.
OPTIMIZERS = [
    *cases.OPTIMIZERS,
    *((name, {"lr": 0.01, "foreach": False}) for name in cases.CLASSES if name != "Muon"),
    ("Adam", {"lr": "tensor", "foreach": False}), ("SGD", {"lr": "tensor", "foreach": False}),
    *(("LBFGS", options) for options in cases.LBFGS),
]  # fmt: skip
CAPTURABLE = [
    "Adam", "AdamW", "Adadelta", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop",
]  # fmt: skip


def compiled(function: Any) -> Any:
    return torch.compile(function, mode="exact")


def plain(function: Any) -> Any:
    return function


class Training:
    """A small model on its way: what a step does, and all that it leaves."""

    def __init__(
        self, name: str, options: dict[str, Any], more: str = "", device: str = "cpu"
    ) -> None:
        torch.manual_seed(0)
        bias = name != "Muon"
        self.model = nn.Sequential(
            nn.Linear(4, 6, bias=bias), nn.Tanh(), nn.Dropout(0.1), nn.Linear(6, 3, bias=bias)
        ).to(device)
        given = {
            key: torch.tensor(0.01) if value == "tensor" else value
            for key, value in options.items()
        }
        self.optimizer = getattr(torch.optim, name)(self.model.parameters(), **given)
        self.more = more
        self.scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
        self.scheduler = (
            torch.optim.lr_scheduler.StepLR(self.optimizer, 2, 0.5) if "scheduler" in more else None
        )
        self.forward: Any = self.model
        self.closure = name == "LBFGS"

    def loss(self, x: Any, y: Any) -> Any:
        return nn.functional.cross_entropy(self.forward(x), y)

    def step(self, x: Any, y: Any) -> Any:
        if self.closure:
            return self.optimizer.step(lambda: self.evaluated(x, y))
        self.optimizer.zero_grad()
        loss = self.loss(x, y)
        if "scaler" in self.more:
            self.scaler.scale(loss).backward()
            self.scaler.unscale_(self.optimizer)
        else:
            loss.backward()
        if "clip" in self.more:
            nn.utils.clip_grad_norm_(self.model.parameters(), 0.1)
        if "scaler" in self.more:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
        if self.scheduler is not None:
            self.scheduler.step()
        return loss

    def evaluated(self, x: Any, y: Any) -> Any:
        self.optimizer.zero_grad()
        loss = self.loss(x, y)
        loss.backward()
        return loss

    def left(self, loss: Any) -> Any:
        return seen({
            "loss": loss, "parameters": dict(self.model.named_parameters()),
            "state": dict(enumerate(self.optimizer.state.values())),
            "rates": [group["lr"] for group in self.optimizer.param_groups],
            "scale": self.scaler.state_dict(), "generator": torch.get_rng_state(),
        })  # fmt: skip


def run(
    name: str, options: dict[str, Any], more: str, whole: Callable, model: Callable,
    device: str = "cpu",
) -> list[Any]:  # fmt: skip
    """What each step leaves."""
    training = Training(name, options, more, device)
    training.forward = model(training.model)
    step = whole(training.step)
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(STEPS):
            rng = np.random.default_rng(number)
            x = torch.tensor(rng.standard_normal((5, 4)).astype(np.float32))
            y = torch.tensor(rng.integers(0, 3, 5))
            found.append(training.left(step(x.to(device), y.to(device))))
    return found


def label(value: Any) -> str:
    return ",".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else str(value)


@pytest.mark.parametrize("name, options", OPTIMIZERS, ids=label)
def test_compiled_is_eager(name: str, options: dict[str, Any]) -> None:
    more = "clip"
    eager = run(name, options, more, plain, plain)
    assert not first_difference(eager, run(name, options, more, compiled, plain)), "the whole step"
    assert not first_difference(eager, run(name, options, more, plain, compiled)), "the model"


@pytest.mark.parametrize("more", ["", "scaler", "scheduler", "scaler clip scheduler"])
@pytest.mark.parametrize("name", ["SGD", "AdamW"])
def test_what_surrounds_a_step(name: str, more: str) -> None:
    options = {"lr": 0.1}
    eager = run(name, options, more, plain, plain)
    assert not first_difference(eager, run(name, options, more, compiled, plain)), "the whole step"
    assert not first_difference(eager, run(name, options, more, plain, compiled)), "the model"
    assert not first_difference(eager, run(name, options, more, compiled, compiled)), "both"


@pytest.mark.device
@pytest.mark.parametrize("name", CAPTURABLE)
def test_capturable_steps(name: str) -> None:
    options = {"lr": 0.01, "capturable": True}
    eager = run(name, options, "clip", plain, plain, "cuda")
    found = run(name, options, "clip", compiled, plain, "cuda")
    assert not first_difference(eager, found)


def test_every_optimizer_is_there() -> None:
    there = {name for name, kind in vars(torch.optim).items() if isinstance(kind, type)}
    assert there - {name for name, _ in OPTIMIZERS} == {"Optimizer", "SparseAdam"}


@pytest.mark.parametrize("options", cases.SPARSE_ADAM, ids=label)
def test_sparse_gradients(options: dict[str, Any]) -> None:
    """Sparse tensors are not followed: a step with them computes as it goes."""

    def train(compiler: Callable) -> list[Any]:
        torch.manual_seed(0)
        table = nn.Embedding(6, 3, sparse=True)
        optimizer = torch.optim.SparseAdam(table.parameters(), **options)

        def step(rows: Any) -> Any:
            optimizer.zero_grad()
            loss = table(rows).square().sum()
            loss.backward()
            optimizer.step()
            return loss

        run, found = compiler(step), []
        for number in range(STEPS):
            rows = torch.tensor([number % 6, 2, (3 * number) % 6])
            loss = run(rows)
            state = [dict(each) for each in optimizer.state.values()]
            found.append(seen([loss, table.weight.detach(), state]))
        return found

    assert not first_difference(train(plain), train(compiled))
