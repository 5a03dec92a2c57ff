"""torch._guards, as far as programs without a compiler ask: the fake mode and the context of a
trace."""

from __future__ import annotations

import threading
from typing import Any

from tritorch.compat.torch_private._subclasses import FakeTensor, FakeTensorMode
from tritorch.core.device import pretending
from tritorch.core.scopes import Giving, Scope, scoped
from tritorch.utils import _pytree as pytree

__all__ = [
    "GuardsContext", "Source", "TracingContext", "active_fake_mode", "detect_fake_mode", "tracing",
]  # fmt: skip

_contexts = threading.local()


def active_fake_mode() -> FakeTensorMode | None:
    """The innermost FakeTensorMode that is entered."""
    modes = [mode for mode in pretending if isinstance(mode, FakeTensorMode)]
    return modes[-1] if modes else None


def detect_fake_mode(inputs: Any = None) -> FakeTensorMode | None:
    """The mode of a trace, of what is entered, or of fakes among values: one, or None."""
    context = TracingContext.try_get()
    found = [mode for mode in (getattr(context, "fake_mode", None), active_fake_mode()) if mode]
    for leaf in pytree.tree_leaves(inputs):
        if isinstance(leaf, FakeTensor):
            fake: Any = leaf
            found.append(fake._array.device.mode)
    for mode in found:
        if mode is not found[0]:
            raise AssertionError(f"fake mode ({found[0]}) doesn't match mode ({mode})")
    return found[0] if found else None


class Source:
    """Where a value comes from, in a program that is traced."""

    def name(self) -> str:
        """How the program calls it."""
        raise NotImplementedError


class GuardsContext:
    """What a trace takes for granted."""

    def __init__(self) -> None:
        self.dynamo_guards: set[Any] = set()
        self.aotautograd_guards: list[Any] = []


class TracingContext:
    """What belongs to one trace: `with tracing(TracingContext(mode)):`."""

    def __init__(self, fake_mode: FakeTensorMode | None) -> None:
        self.fake_mode = fake_mode
        self.guards_context = GuardsContext()
        self.module_context: Any = None
        self.global_context: Any = None

    @staticmethod
    def try_get() -> TracingContext | None:
        """The context of the trace that runs."""
        return getattr(_contexts, "current", None)

    @staticmethod
    def get() -> TracingContext:
        """The same; RuntimeError outside of a trace."""
        found = TracingContext.try_get()
        if found is None:
            raise RuntimeError("TracingContext.get() must be called within an ongoing trace.")
        return found


@scoped
def tracing(context: TracingContext | None) -> Scope:
    """Inside, a trace runs."""
    return Giving(context, (_contexts, "current", context))
