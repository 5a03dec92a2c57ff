"""TorchScript beside eager code on the CPU: small models whose time is the interpreter's.

    python bench/torchscript.py [--torch] [--json]

--torch measures PyTorch in place of tritorch.  Each case runs in this process, eager and traced in
turn; a figure is the smallest mean of several rounds.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
import warnings
from collections.abc import Callable
from typing import Any

ROUNDS, CALLS = 40, 100


def seconds_per_call(function: Callable[[], Any], calls: int = CALLS) -> float:
    """The time of a call, by the clock."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(calls):
            function()
        best = min(best, (time.perf_counter() - start) / calls)
    return best


def models(t: Any) -> dict[str, tuple[Any, Any]]:
    """The cases: a module, and its input."""
    nn = t.nn
    mlp = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    deep = nn.Sequential(*(layer for _ in range(8) for layer in (nn.Linear(64, 64), nn.Tanh())))
    conv = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)).eval()
    return {
        "mlp, batch 1": (mlp, t.randn(1, 64)),
        "mlp, batch 32": (mlp, t.randn(32, 64)),
        "eight layers, batch 1": (deep, t.randn(1, 64)),
        "convolution, 12x12": (conv, t.randn(1, 1, 12, 12)),
    }


LOOP = """
def loop(x: Tensor, n: int) -> Tensor:
    for i in range(n):
        if i % 2 == 0:
            x = x + i
        else:
            x = x * 2
    return x

def numbers(n: int) -> int:
    total = 0
    for i in range(n):
        if i % 3 == 1:
            total += i * i
    return total
"""


def loop(x: Any, n: int) -> Any:
    """The same as in LOOP."""
    for i in range(n):
        x = x + i if i % 2 == 0 else x * 2
    return x


def numbers(n: int) -> int:
    """The same as in LOOP."""
    total = 0
    for i in range(n):
        if i % 3 == 1:
            total += i * i
    return total


def measured(t: Any) -> dict[str, tuple[float, float]]:
    """Seconds of each case, eager and in TorchScript."""
    found = {}
    for name, (module, x) in models(t).items():
        script = t.jit.trace(module, x)
        found[name] = (
            seconds_per_call(lambda module=module, x=x: module(x)),  # type: ignore[misc]
            seconds_per_call(lambda script=script, x=x: script(x)),  # type: ignore[misc]
        )
    unit, x = t.jit.CompilationUnit(LOOP), t.ones(2)
    for name, eager, script in (
        ("loop over tensors, 20 turns", lambda: loop(x, 20), lambda: unit.loop(x, 20)),
        ("loop over numbers, 100 turns", lambda: numbers(100), lambda: unit.numbers(100)),
    ):
        found[name] = seconds_per_call(eager), seconds_per_call(script)
    return found


def main() -> None:
    """Prints a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    name = "torch" if options.torch else "tritorch"
    found = measured(importlib.import_module(name))
    if options.json:
        print(json.dumps(found))
        return
    print(f"{name}, CPU: microseconds of a call")
    for case, (eager, script) in found.items():
        print(f"  {case:30} eager {eager * 1e6:8.1f}  script {script * 1e6:8.1f}"
              f"  ratio {script / eager:.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
