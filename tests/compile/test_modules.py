"""Every module compiled: four calls give and leave to the bit what eager calls do.

The cases are those of tests/nn, each in training and in evaluation.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tritorch as torch
from tests.nn import cases
from tritorch import nn

from .watching import first_difference, seen

CALLS = 4
# Inputs of the cases that only say how a module looks, and what has no case there.
INPUTS = {
    "nn.ReLU(inplace=True)": [(2, 3)], "nn.LeakyReLU(0.2, inplace=True)": [(2, 3)],
    "nn.FractionalMaxPool2d(3, output_ratio=(0.5, 0.7))": [(1, 2, 8, 9)],
    "nn.Linear(2, 3, dtype=torch.float64)": ["np.ones((4, 2))"],
    "nn.Sequential()": [(2, 3)],
}  # fmt: skip
MORE: list[tuple[str, list[Any]]] = [
    *((f"nn.Lazy{kind}{n}d({args})", [(2, 3, *(6, 5, 4)[:n])])
      for kind, args in (("BatchNorm", ""), ("InstanceNorm", ""), ("Conv", "4, 2"),
                         ("ConvTranspose", "4, 2"))
      for n in (1, 2, 3)),
    ("nn.LazyLinear(4)", [(2, 3)]),
    ("nn.NLLLoss2d()", [(2, 3, 2, 2), "np.array([[[0, 1], [2, 0]], [[1, 1], [0, 2]]])"]),
    ("nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 8), 2, nn.LayerNorm(4))",
     [(3, 2, 4), (5, 2, 4)]),
    ("nn.LSTM(3, 4, 2, dropout=0.5)", [(5, 2, 3)]), ("nn.GRU(3, 4, 2, dropout=0.5)", [(5, 2, 3)]),
    ("nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True), "
     "nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.3), nn.Linear(16, 5))", [(2, 3, 6, 6)]),
]  # fmt: skip
CASES = [
    (text, inputs or INPUTS[text])
    for text, inputs in (*cases.CASES, *MORE)
    if inputs or text in INPUTS
]
# Modules without a call of their own, and those that want several processes or devices.
UNCALLED = {
    "Module", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict", "Container",
    "RNNBase", "RNNCellBase", "SyncBatchNorm", "DataParallel",
}  # fmt: skip


class World:
    """A module that is called some times, on inputs of its own."""

    def __init__(self, index: int, training: bool, compiler: Callable[[Any], Any]) -> None:
        text, self.inputs = CASES[index]
        torch.manual_seed(0)
        self.module = eval(text, {"torch": torch, "nn": nn, "np": np})
        self.module.train(training)
        self.fill()
        self.call = compiler(self.module)
        self.results: list[Any] = []

    def fill(self) -> None:
        """Gives parameters and buffers numbers that are not zero or one."""
        for i, (key, value) in enumerate(self.module.state_dict().items()):
            if not isinstance(value, nn.parameter.UninitializedTensorMixin) and (
                value.is_floating_point()
            ):
                filled = cases.numbers(tuple(value.shape), 100 + i) * 0.5
                value.copy_(torch.tensor(abs(filled) + 0.5 if "running_var" in key else filled))

    def run(self, number: int) -> Any:
        """A call with numbers of its own; all that is to be seen after it."""
        given = [cases.given(torch, x, 7 * number + i) for i, x in enumerate(self.inputs)]
        for x in given:
            if isinstance(x, torch.Tensor) and x.is_floating_point():
                x.requires_grad_()
        passed = [x * 1 if "inplace" in repr(self.module) else x for x in given]
        if number != 2:  # gradients are made anew, and added to
            self.module.zero_grad()
        outs = cases.flat(self.call(*passed))
        total: Any = 0
        for i, out in enumerate(outs):
            if out.requires_grad:
                weight = np.cos(np.arange(max(out.numel(), 1)) + i).reshape(tuple(out.shape))
                total = total + (out * torch.tensor(weight.astype(np.float32))).sum()
        if not isinstance(total, int):
            total.backward()
        self.results.append(outs)
        return seen({
            "outputs": outs, "inputs": [x for x in given if isinstance(x, torch.Tensor)],
            "parameters": dict(self.module.named_parameters()),
            "buffers": dict(self.module.named_buffers()), "generator": torch.get_rng_state(),
        })  # fmt: skip


def observe(index: int, training: bool, compiler: Callable[[Any], Any]) -> list[Any]:
    """What is seen after each call, and of all results at the end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        world = World(index, training, compiler)
        each = [world.run(number) for number in range(CALLS)]
    return [*each, seen(world.results)]


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("index", range(len(CASES)), ids=lambda i: CASES[i][0])
def test_compiled_is_eager(index: int, training: bool) -> None:
    eager = observe(index, training, lambda module: module)
    compiled = observe(index, training, torch.compile)
    assert not first_difference(eager, compiled)


def test_a_compiler_that_is_wrong_is_seen() -> None:
    index = next(i for i, case in enumerate(CASES) if case[0] == "nn.Linear(3, 4)")

    def wrong(module: Any) -> Any:
        calls: list[int] = []

        def call(*args: Any) -> Any:
            calls.append(1)
            return module(*args) * (1 + 1e-7 * (len(calls) > 2))

        return call

    found = first_difference(observe(index, True, lambda m: m), observe(index, True, wrong))
    assert found.startswith("[2].outputs")


def test_every_module_is_called() -> None:
    text = " ".join(case[0] for case in CASES)
    called = set(re.findall(r"nn\.([A-Z]\w+)", text))
    known = {
        name
        for name, kind in vars(nn).items()
        if isinstance(kind, type) and issubclass(kind, nn.Module)
    }
    assert known - called == UNCALLED & known
