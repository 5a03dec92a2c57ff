"""What the events of a profile are of, and what they are told while they are written."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from typing import Any

from tritorch import _C

events = _C._profiling

# What an event is: the order of `Kind` in src/profiling/events.h.
OP, ANNOTATION, NODE, MODULE, MEMORY, LAUNCH, WAIT, WORK, ROLE = range(9)
FUNCTION, BUILTIN, RECORD, STATE = range(9, 13)
# What memory is marked to be for.
PARAMETER, GRADIENT, OPTIMIZER_STATE = range(3)


# Reads what names need, so that no event has to wait for it.
prepare: Callable[[], None] = lambda: None
# (name, arguments by position, by keyword) -> the operations of a call and the bytes that it moves,
# or None if they are not known of these arguments: ops/record/profiled.py.
cost_of: Callable[[str, list[Any], dict[str, Any]], tuple[int, int] | None] = (
    lambda name, args, kwargs: None
)
# (name, arguments by position, by keyword) -> the overload of PyTorch's table that a call is of,
# and the values of all its arguments in the table's order; None if the table has none that fits.
inputs_of: Callable[[str, list[Any], dict[str, Any]], tuple[str, list[Any]] | None] = (
    lambda name, args, kwargs: None
)
# By a factory's name in profiles: the operator that writes its memory, as `Maker.filled_by` says.
filled_by: Callable[[], dict[str, str]] = dict


remembering = False  # whether a profile writes down memory


def mark(tensor: Any, role: int) -> None:
    """Says what a tensor's memory is for; while nobody profiles memory, nothing."""
    if remembering and tensor is not None:
        try:
            events.mark(tensor.data_ptr(), role)
        except (NotImplementedError, RuntimeError):  # it has no memory of its own
            return


class ModulePaths:
    """What modules are called inside of the outermost one: `GPT.blocks.0.attn`."""

    def __init__(self) -> None:
        self._names: dict[int, tuple[Any, dict[int, str]]] = {}

    def __call__(self, modules: list[Any]) -> str:
        """modules: one that is called, and which ones called it, the outermost first."""
        root, last = modules[0], modules[-1]
        if id(root) not in self._names:
            found = {id(module): name for name, module in root.named_modules()}
            self._names[id(root)] = root, found
        kind, name = type(root).__name__, self._names[id(root)][1].get(id(last))
        if name is None:  # it is no part of it
            return f"{kind} > {type(last).__name__}"
        return f"{kind}.{name}" if name else kind


class Capturing:
    """While a graph is captured: what its kernels are of is noted.  Note [Nodes of graphs] in
    src/profiling/device.h."""

    def __init__(self) -> None:
        self._alone = not events.enabled()
        if self._alone:
            prepare()
            events.start(False, True, False, True, False)
        events.watch_captures()
        self._generation = events.generation()

    def end(self, graph: Any = None) -> None:
        """The capture is over; graph: the native one that keeps what was noted."""
        alone, self._alone = self._alone, False
        goes_on = self._generation == events.generation()  # no profile has started meanwhile
        if graph is not None and goes_on:
            events.set_path_handler(ModulePaths())
            graph.note(events.captured(graph.capture_id))
        if alone and goes_on:
            events.stop()

    def __del__(self) -> None:
        """Ends what a graph that is dropped while it is captured leaves."""
        if self._alone:
            self.end()


def activity_libraries() -> list[str]:
    """Where CUPTI may be: in Triton's wheel, or where the linker looks.  TRITORCH_CUPTI names a
    file, or says 0 for profiles without it."""
    given = os.environ.get("TRITORCH_CUPTI", "")
    if given:
        return [] if given == "0" else [given]
    found = []
    triton = importlib.util.find_spec("triton")
    for folder in (triton.submodule_search_locations or ()) if triton else ():
        lib = os.path.join(folder, "backends", "nvidia", "lib")
        # The newer one is for the drivers that its GPUs need.
        newer = _C.device_count() > 0 and _C.device_properties(0)["major"] >= 10
        names = ("cupti-blackwell", "cupti") if newer else ("cupti", "cupti-blackwell")
        paths = [os.path.join(lib, name, "libcupti.so") for name in names]
        found += [path for path in paths if os.path.exists(path)]
    return [*found, "libcupti.so.13", "libcupti.so.12"]
