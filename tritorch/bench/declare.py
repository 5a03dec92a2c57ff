"""What a benchmark is: inputs, a call, bytes and operations; and the registry of all of them."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

ITEM_BYTES = {
    "float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1, "int64": 8,
    "int32": 4, "uint8": 1, "bool": 1,
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Array:
    """One input: random numbers of a kind, never constants.

    `kind` is "normal", "positive" (uniform in 0.5 to 1.5), "labels" (whole numbers below `high`),
    "permutation" (each whole number below the size once) or "mask" (booleans).
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    kind: str = "normal"
    high: int = 0
    grad: bool = False
    scale: float = 1.0
    channels_last: bool = False

    @property
    def size(self) -> int:
        """How many elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """How much memory."""
        return self.size * ITEM_BYTES[self.dtype]


@dataclasses.dataclass(frozen=True)
class Kit:
    """A library with PyTorch's names, where to compute, and the inputs."""

    t: Any
    device: str
    inputs: Mapping[str, Any]
    name: str = "tritorch"

    def bound(self, call: Call) -> Callable[[], Any]:
        """`call` on the inputs in their order, through torch.compile or jax.jit if asked for."""
        t = self.t
        xs = tuple(self.inputs.values())
        run = lambda *xs: call(t, *xs)
        if self.name == "torch.compile":
            run = t.compile(run, dynamic=False)
        elif self.name == "jax":
            run = t.jit(run)
        return lambda: run(*xs)


Call = Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """One thing to measure.

    `call(t, *inputs)` is what is timed, with `t` any library with PyTorch's names; or, where that
    needs preparation, `make(kit)` returns what is timed.  The result is what is compared.  `peers`
    has other calls for PyTorch ("torch.x") or for libraries with other names, called alike.
    `bytes` and `flops` are a call's at the least: each input read, each output written once.
    """

    family: str
    name: str
    call: Call | None = None
    inputs: Mapping[str, Array] = dataclasses.field(default_factory=dict)
    make: Callable[[Kit], Callable[[], Any]] | None = None
    gradient: str = ""  # "backward": the call's gradients alone are timed; "both": both passes
    bytes: int = 0
    flops: int = 0
    share: str = "copy"  # of which ceiling a share is stated: copy, matmul or none ("")
    dtype: str = "float32"  # whose matmul peak counts
    tolerance: float = 1e-4  # the norm of the difference over the norm, at most
    reference: Call | None = None  # in NumPy, of float64 inputs
    peers: Mapping[str, Call] = dataclasses.field(default_factory=dict)
    without: tuple[str, ...] = ()  # peers that cannot do it
    compiled: bool = False  # torch.compile is worth its time
    clock: str = "device"  # "host": the time until the call returns; "self": what it returns
    graph: bool = False  # so short that a GPU should replay it from a graph
    memory: bool = False  # the peak of memory is reported too
    amount: tuple[float, str] | None = None  # what a call gets through: (1024, "tokens")
    rounds: int = 0  # at most so many calls, if not 0
    about: str = ""  # whose shape it is
    tags: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The name in reports."""
        return f"{self.family}/{self.name}"

    @property
    def intensity(self) -> float:
        """Operations a byte."""
        return self.flops / self.bytes if self.bytes else 0.0

    def prepared(self, kit: Kit) -> Callable[[], Any]:
        """The function to time."""
        if self.make is not None:
            return self.make(kit)
        call = self.peers.get(kit.name, self.call)
        assert call is not None
        return _gradients(self, kit, call) if self.gradient else kit.bound(call)

    @property
    def specs(self) -> dict[str, Array]:
        """The inputs; in a forward pass none wants a gradient."""
        if self.gradient or self.make is not None:
            return dict(self.inputs)
        return {k: dataclasses.replace(v, grad=False) for k, v in self.inputs.items()}

    def variant(self, **fields: Any) -> Benchmark:
        """The same with other fields."""
        return dataclasses.replace(self, **fields)


def _gradients(benchmark: Benchmark, kit: Kit, call: Call) -> Callable[[], Any]:
    """The gradients of a call, whose forward pass is done here unless it is timed too."""
    given = dict(kit.inputs)
    dy = given.pop(DY, None)
    wanted = [given[name] for name in given if benchmark.inputs[name].grad]
    run = Kit(kit.t, kit.device, given, kit.name).bound(call)
    if benchmark.gradient == "both":
        return lambda: kit.t.autograd.grad(run(), wanted, dy)
    out = run()
    return lambda: kit.t.autograd.grad(out, wanted, dy, retain_graph=True)


DY = "dy"


def moved(inputs: Mapping[str, Array], *outputs: Array) -> int:
    """Bytes of inputs and outputs."""
    return sum(each.bytes for each in (*inputs.values(), *outputs))


def with_gradient(forward: Benchmark, dy: Array | None, bytes: int, **fields: Any) -> Benchmark:
    """The benchmark of a forward call's gradients; `dy` is the output's, None for a scalar."""
    inputs = dict(forward.inputs) | ({DY: dy} if dy is not None else {})
    return forward.variant(
        name=f"{forward.name} backward", inputs=inputs, gradient="backward", bytes=bytes,
        reference=None, peers={k: v for k, v in forward.peers.items() if k.startswith("torch.")},
        **fields,
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Scale:
    """How large benchmarks are: those for a GPU, for a CPU, or as small as a test wants them."""

    name: str

    def pick(self, gpu: Any, cpu: Any, tiny: Any) -> Any:
        """The one for this scale."""
        return {"gpu": gpu, "cpu": cpu, "tiny": tiny}[self.name]


SCALES = ("gpu", "cpu", "tiny")
Cases = Callable[[Scale], Iterable[Benchmark]]
FAMILIES: dict[str, Cases] = {}
BUDGETS: dict[str, float] = {}  # seconds of a whole run on a GPU


def family(name: str, seconds: float) -> Callable[[Cases], Cases]:
    """Registers a family's cases, and what of a full run's time it may take."""

    def register(cases: Cases) -> Cases:
        FAMILIES[name] = cases
        BUDGETS[name] = seconds
        return cases

    return register


def all_benchmarks(scale: str) -> list[Benchmark]:
    """Every benchmark that was declared, by families in their order."""
    found = [each for make in FAMILIES.values() for each in make(Scale(scale))]
    names = [each.key for each in found]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"declared twice: {sorted(twice)}")
    return found


def choose(
    benchmarks: Iterable[Benchmark], patterns: Sequence[str] = (), families: Sequence[str] = ()
) -> list[Benchmark]:
    """Those of the families; of these, those that a pattern names or, as an expression, matches."""
    benchmarks = list(benchmarks)
    names = {name for each in benchmarks for name in (each.key, each.name, each.family)}

    def fits(each: Benchmark, pattern: str) -> bool:
        if pattern in names:
            return pattern in (each.key, each.name, each.family)
        return re.search(pattern, each.key) is not None

    return [
        each
        for each in benchmarks
        if (not families or each.family in families)
        and (not patterns or any(fits(each, pattern) for pattern in patterns))
    ]
