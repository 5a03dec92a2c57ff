"""Records the texts of TorchScript graphs: tests/jit/ir/recorded_graphs.txt.

Run with a Python that has torch: python tools/record/graphs.py
"""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Any, NamedTuple

import torch

FILE = Path(__file__).resolve().parents[2] / "tests" / "jit" / "ir" / "recorded_graphs.txt"


class Color(enum.Enum):
    RED = 1
    GREEN = 2


class Point(NamedTuple):
    x: torch.Tensor
    y: int


@torch.jit.script
class Counter:
    def __init__(self, start: int) -> None:
        self.count = start

    def step(self) -> int:
        self.count += 1
        return self.count


@torch.jit.interface
class Runs:
    def run(self, x: torch.Tensor) -> torch.Tensor:
        pass


@torch.jit.script
def helper(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def numbers(x: torch.Tensor, o: int | None, u: int | str, p: Point, c: complex):
    a = x * 2
    b = 1.5
    if o is not None:
        b = 1e-5 * o
    for i in range(10):
        a = a + i
    z = torch.zeros([2, 3], dtype=torch.float32, device=torch.device("cpu"))
    later = torch.jit.fork(torch.relu, x)
    t = (1, 2.0, 'he"l\nlo', True)
    return a, b, t, z, p, torch.jit.wait(later), complex(1, 2), float("inf"), 1e20, -1.5, None, u


def containers(x: torch.Tensor, i: Runs, a: Any, d: dict[int, list[torch.Tensor | None]]):
    y = torch.jit.annotate(list[int | None], [None, 1])
    z: dict[str, dict[int, float]] = {"a": {1: 2.0}}
    e: list[int] = []
    if isinstance(a, list[int]):
        e = a
    x[1:] = 2
    while x.sum() > 0 and len(e) > 0:
        x = x - 1
        for k, _ in z.items():
            x = x * len(k)
            if len(k) > 3:
                continue
    return y, z, [(1, "x")], [True, False], x[0, :, None], f"{x.shape}", i.run(x)


class Module(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)

    def forward(self, x: torch.Tensor, n: int, c: Color) -> tuple[torch.Tensor, Color]:
        counter = Counter(3)
        if n > 3:
            raise ValueError("bad")
        assert n < 2, "no"
        y = helper(x)
        print("hi", n)
        while n < 10:
            n += counter.step()
            if n == 5:
                break
        if c == Color.RED:
            c = Color.GREEN
        with torch.no_grad():
            y = y * 2
        return self.linear(y), c


def main() -> None:
    """Writes the file."""
    scripted = torch.jit.script(Module())
    layers = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2)).eval()
    traced = torch.jit.trace(layers, torch.ones(1, 1, 4, 4))
    graphs = [
        torch.jit.script(numbers).graph,
        torch.jit.script(containers).graph,
        scripted.graph,
        scripted.inlined_graph,
        traced.graph,
        traced.inlined_graph,
    ]
    FILE.write_text("\n".join(graph.str(False) for graph in graphs), encoding="ascii")


if __name__ == "__main__":
    main()
