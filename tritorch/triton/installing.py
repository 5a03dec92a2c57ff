"""Makes tritorch's driver the one that Triton uses, the moment Triton is imported."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tritorch import _C
from tritorch.core import locks

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

# Note [First launches]: threads that import parts of one package at the same time are given modules
# that are half imported, rather than a deadlock; and Triton sets itself up at its first launch.  So
# Triton is imported, set up and made to compile by one thread at a time.  When Python ends, daemon
# threads must not be in there (Note [Threads at exit] in src/interpreter.h): Triton's C++ aborts.
lock = locks.rlock()
atexit.register(lock.acquire)
_TARGET = "triton.runtime.driver"


class _AfterImport:
    """Makes tritorch's driver Triton's active one as soon as Triton's driver module is loaded.

    It has to come before Triton probes: that would look for torch, compile C, or call cuInit in a
    process that may fork later.
    """

    def __init__(self) -> None:
        self._inner: Any = None

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _TARGET:
            return None
        from importlib.machinery import PathFinder

        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        self._inner, spec.loader = spec.loader, self  # type: ignore[assignment]
        return spec

    def create_module(self, spec: ModuleSpec) -> Any:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._inner.exec_module(module)
        sys.meta_path.remove(self)
        _activate(module)


def _activate(module: ModuleType) -> None:
    from tritorch.triton.driver import TritorchDriver, choose_assembler

    if module.driver._active is None:
        module.driver.set_active(TritorchDriver())
    backend = sys.modules.get("triton.backends.nvidia.compiler")
    if backend is not None:
        choose_assembler(backend)


def install() -> None:
    """Called once, when tritorch is imported."""
    # What Triton 3.9 does, without its warning that 3.10 will not.
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    # The simulated device interprets kernels itself; with this set, Triton would make kernels that
    # run at once on copies, past the device and its queues.
    if _C.simulation_requested():
        os.environ.pop("TRITON_INTERPRET", None)
    if _TARGET in sys.modules:
        _activate(sys.modules[_TARGET])
    else:
        sys.meta_path.insert(0, _AfterImport())
