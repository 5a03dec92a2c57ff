"""What the host pays: small operators, views, allocations.  Times until the call returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tritorch.bench.declare import Benchmark, Kit, Scale, family

# PyTorch's shortest way around a function: it compiles nothing.
_COMPILED = (
    "way = 'eager' if m.__name__ == 'torch' else 'inductor'\n"
    "f = m.compile(lambda a, b: a + b, backend=way)\n"
    "a = m.ones(16, device=d); b = m.ones(16, device=d)\n"
)
# name: (setup, statement); `m` is the library, `d` the device.
STATEMENTS: dict[str, tuple[str, str]] = {
    "a + b": ("a = m.ones(16, device=d); b = m.ones(16, device=d)", "a + b"),
    "a + b with grad": (
        "a = m.ones(16, device=d, requires_grad=True); b = m.ones(16, device=d)", "a + b",
    ),
    "a * 2.0": ("a = m.ones(16, device=d)", "a * 2.0"),
    "a.exp()": ("a = m.ones(16, device=d)", "a.exp()"),
    "a.add_(b)": ("a = m.ones(16, device=d); b = m.ones(16, device=d)", "a.add_(b)"),
    "a.sum()": ("a = m.ones(16, device=d)", "a.sum()"),
    "view": ("a = m.ones(16, device=d)", "a.view(4, 4)"),
    "view with grad": ("a = m.ones(16, device=d, requires_grad=True)", "a.view(4, 4)"),
    "index a[1]": ("a = m.ones(4, 4, device=d)", "a[1]"),
    "slice a[1:3]": ("a = m.ones(4, 4, device=d)", "a[1:3]"),
    "transpose": ("a = m.ones(4, 4, device=d)", "a.transpose(0, 1)"),
    "a @ b, 8 by 8": ("a = m.ones(8, 8, device=d); b = m.ones(8, 8, device=d)", "a @ b"),
    "(a * b).sum().backward()": (
        "a = m.ones(16, device=d, requires_grad=True); "
        "b = m.ones(16, device=d, requires_grad=True)",
        "(a * b).sum().backward()",
    ),
    "a + b, compiled": (_COMPILED, "f(a, b)"),
    "a + b with grad, compiled": (_COMPILED + "a.requires_grad_()\n", "f(a, b)"),
    "100 operators, forward and backward": (
        "a = m.ones(16, device=d, requires_grad=True); b = m.ones(16, device=d)\n"
        "def chain():\n"
        "    y = a\n"
        "    for _ in range(50):\n"
        "        y = (y * b) + b\n"
        "    y.sum().backward()\n",
        "chain()",
    ),
}  # fmt: skip

# What a program asks of tensors and modules between its operators.
_MODULE = (
    "class Net(m.nn.Module):\n"
    "    def __init__(self):\n"
    "        super().__init__()\n"
    "        self.weight = m.nn.Parameter(m.ones(16, device=d))\n"
    "        self.child = m.nn.Identity()\n"
    "    def forward(self, x):\n"
    "        return x\n"
    "net = Net(); a = m.ones(16, device=d)\n"
)
_TENSOR = "a = m.ones(16, 32, device=d)"
QUESTIONS: dict[str, tuple[str, str]] = {
    **{
        asked: (_TENSOR, asked)
        for asked in (
            "a.size()", "a.size(0)", "a.shape", "a.shape[0]", "a.dim()", "a.numel()", "a.stride()",
            "a.device", "a.dtype", "a.requires_grad", "a.grad", "a.is_contiguous()",
            "a.is_floating_point()", "a.data_ptr()", "len(a)", "a.T",
        )
    },
    **{
        asked: (_MODULE, asked)
        for asked in (
            "net.weight", "net.child", "net.training", "hasattr(net, 'none')", "net.steps = 1",
            "net(a)",
        )
    },
    "5 modules in a Sequential": (
        "net = m.nn.Sequential(*[m.nn.Identity() for _ in range(5)]); a = m.ones(16, device=d)",
        "net(a)",
    ),
}  # fmt: skip

# Memory that was freed before is given out again: what the caching allocator is for.
ALLOCATIONS: dict[str, tuple[str, str]] = {
    "empty and free, 4 KiB": ("", "m.empty(1024, device=d)"),
    "empty and free, 64 MiB": ("", "m.empty(1 << 24, device=d)"),
    "200 alive, of 3 sizes in turn": (
        "from collections import deque\n"
        "alive = deque((m.empty(256, device=d) for _ in range(200)), maxlen=200)\n"
        "def turn():\n"
        "    for size in (256, 4096, 300000):\n"
        "        alive.append(m.empty(size, device=d))\n",
        "turn()",
    ),
}


def _make(setup: str, statement: str) -> Callable[[Kit], Any]:
    def make(kit: Kit) -> Callable[[], Any]:
        names = {"m": kit.t, "d": kit.device}
        exec(setup, names)
        exec(f"def timed():\n    {statement}", names)
        return names["timed"]

    return make


def _cases(name: str, statements: dict[str, tuple[str, str]]) -> Iterable[Benchmark]:
    for each, (setup, statement) in statements.items():
        operator = name == "host" and not each.startswith(("100", "(")) and _COMPILED not in setup
        yield Benchmark(
            name, each, make=_make(setup, statement), clock="host", share="",
            tags=("small operator",) if operator else (),
        )  # fmt: skip


@family("host", seconds=15)
def host(scale: Scale) -> Iterable[Benchmark]:
    """Small operators."""
    return _cases("host", STATEMENTS)


@family("questions", seconds=10)
def questions(scale: Scale) -> Iterable[Benchmark]:
    """What tensors and modules are asked between operators."""
    return _cases("questions", QUESTIONS)


@family("allocator", seconds=5)
def allocator(scale: Scale) -> Iterable[Benchmark]:
    """Allocations that the cache serves."""
    return _cases("allocator", ALLOCATIONS)
