"""What programs would compile on a GPU, found and compiled without one.

# Note [Tracing launches]
The simulated device says that it is one of a target: tiles and kernels are chosen by it.  Launches
are discarded (DISCARDING), so that sizes may be real ones and memory is never touched.  What would
be compiled is noted with the very types, constants and options of the launch, and then compiled for
the target, on all processors.  It goes to Triton's cache, where a GPU of that target finds it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from typing import Any, NamedTuple, TypeVar

from tritorch import _C
from tritorch.triton import cache, compilers, kernel, keys

Result = TypeVar("Result")

DISCARDING = "discard_launches=1,poison=0,memory=512G"  # of TRITORCH_SIMULATE_CUDA
PROCESSORS = {80: 108, 86: 84, 89: 142, 90: 132, 100: 148, 120: 170}  # of the largest GPUs sold


class Work(NamedTuple):
    """A kernel as it was to be compiled."""

    function: Any
    signature: dict[str, Any]
    constants: dict[Any, Any]
    options: Any
    attributes: Any

    @property
    def name(self) -> str:
        """The kernel's file and name."""
        return f"{self.function.__module__.rpartition('.')[2]}.{self.function.__name__}"

    def compile(self, target: int) -> Any:
        """As Triton would for a GPU of the target that was pretended."""
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource

        source = ASTSource(self.function, self.signature, self.constants, self.attributes)
        options = dict(vars(self.options))
        options.pop("arch", None)  # the target's, not that of the one that was pretended
        return triton.compile(source, target=GPUTarget("cuda", target, 32), options=options)


def is_written(work: Work) -> bool:
    """Whether a kernel, or a function that a product's kernel calls, was written."""
    functions = (work.function, *work.constants.values())
    return any(getattr(x, "__module__", "").startswith("tritorch_written") for x in functions)


def pretend(target: int, processors: int | None = None) -> None:
    """The simulated device says that it is one of this compute capability (90: 9.0)."""
    real = _C.device_properties

    def properties(device: int) -> dict[str, Any]:
        found = dict(real(device))
        found["major"], found["minor"] = divmod(target, 10)
        found["multi_processor_count"] = processors or PROCESSORS.get(target, 132)
        return found

    vars(_C)["device_properties"] = properties


class Needs:
    """What a program launched: kernels, and the keys under which tritorch's own are stored."""

    def __init__(self) -> None:
        self.work: list[Work] = []
        self.keys: list[list[str]] = []
        self._places: dict[int, int] = {}  # of simulated kernels, by their work
        self.unnamed: set[str] = set()  # tritorch's kernels whose launches had no key

    def compiled(self, simulated: Any) -> None:
        """Notes a kernel that was to be compiled."""
        self._places[id(simulated.work)] = len(self.work)
        self.work.append(simulated.work)
        self.keys.append([])

    def launched(self, simulated: Any, key: str | None, name: str) -> None:
        """Notes a launch of tritorch's."""
        if key is None:
            self.unnamed.add(name)
        else:
            known = self.keys[self._places[id(simulated.work)]]
            if key not in known:
                known.append(key)

    def store(self, index: int, target: int) -> int:
        """Compiles one and keeps it under its keys; how many bytes of machine code that are."""
        compiled = self.work[index].compile(target)
        for key in self.keys[index]:
            cache.write(keys.generation(target), key, compilers.entry_of(compiled))
        return len(compiled.asm["cubin"])


@contextlib.contextmanager
def traced() -> Iterator[Needs]:
    """What is launched inside (on the simulated device), complete at the end."""
    import triton.runtime.driver  # noqa: F401  (makes our driver the active one)

    from tritorch.triton import interpret

    found = Needs()
    interpret.on_compile, kernel.on_launch = found.compiled, found.launched
    try:
        yield found
    finally:
        interpret.on_compile = kernel.on_launch = None


def _stand_in(entry: cache.Entry, device: int) -> tuple[_C.Launcher, int, Any]:
    from tritorch.triton.plan import launcher

    steps = launcher(entry.plan | {"shared": 0})  # which loading machine code would provide
    sizes = [size for _, size in steps.parameters]
    return (
        steps,
        _C.simulator.make_function(entry.name, sizes, lambda grid, values, site: None),
        None,
    )


def take_stored() -> None:
    """From now on the simulated device takes stored kernels; they compute nothing.

    What is left is the host's work of a GPU's first use: it can be measured, and tested.
    """
    kernel.load = _stand_in


# What forked processes find: jit functions cannot be sent.
_body: Callable[[int], Any] = lambda index: None


def _call(index: int) -> Any:
    return _body(index)


def on_all_processors(
    body: Callable[[int], Result], count: int, jobs: int | None = None
) -> Iterator[Result]:
    """body(0), body(1)... in forked processes, as many at a time as there are processors."""
    global _body
    jobs = min(jobs or len(os.sched_getaffinity(0)), count)
    if jobs <= 1:
        yield from map(body, range(count))
        return
    _body = body
    from concurrent.futures import ProcessPoolExecutor  # imported by few that launch

    with ProcessPoolExecutor(jobs, get_context("fork")) as pool:
        yield from pool.map(_call, range(count))
