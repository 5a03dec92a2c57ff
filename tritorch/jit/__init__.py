"""torch.jit's annotations: they keep programs running, which run as they are."""

from __future__ import annotations as annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from tritorch.core.deprecation import deprecated
from tritorch.futures import Future, fork, wait
from tritorch.jit import _logging as _logging
from tritorch.jit._await import (
    _awaitable as _awaitable,
    _awaitable_nowait as _awaitable_nowait,
    _awaitable_wait as _awaitable_wait,
)
from tritorch.jit._containers import ScriptDict, ScriptList
from tritorch.jit._errors import Error, TracerWarning as TracerWarning
from tritorch.jit._given import ScriptFunction
from tritorch.jit._script import (
    CompilationUnit,
    RecursiveScriptModule as RecursiveScriptModule,
    ScriptModule,
    export_opnames,
    load,
    optimize_for_inference,
    run_frozen_optimizations as run_frozen_optimizations,
    save,
    strict_fusion,
)

Function = TypeVar("Function", bound=Callable[..., Any])

Attribute = lambda value, type: value
annotate = lambda the_type, the_value: the_value
__all__ = [
    "Attribute",
    "CompilationUnit",
    "Error",
    "Final",
    "Future",
    "ScriptFunction",
    "ScriptModule",
    "annotate",
    "enable_onednn_fusion",
    "export",
    "export_opnames",
    "fork",
    "freeze",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "onednn_fusion_enabled",
    "optimize_for_inference",
    "optimized_execution",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "set_fusion_strategy",
    "strict_fusion",
    "trace",
    "trace_module",
    "unused",
    "wait",
]


def is_scripting() -> bool:
    """False: nothing is compiled."""
    return False


def is_tracing() -> bool:
    """False: nothing is traced."""
    return False


@deprecated(
    "`torch.jit.script` is deprecated. Please switch to `torch.compile` or `torch.export`.",
    DeprecationWarning,
)
def script(obj: Any, *args: Any, **kwargs: Any) -> Any:
    """The function or module itself; of a list or dict one that keeps the type of its elements."""
    containers: dict[type, Callable[[Any], Any]] = {list: ScriptList, dict: ScriptDict}
    return containers.get(type(obj), lambda obj: obj)(obj)


@deprecated(
    "`torch.jit.trace` is deprecated. Please switch to `torch.compile` or `torch.export`.",
    DeprecationWarning,
)
def trace(func: Any, *args: Any, **kwargs: Any) -> Any:
    """The function or module itself."""
    return func


def trace_module(mod: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
    """The module itself."""
    return mod


@deprecated(
    "`torch.jit.freeze` is deprecated. Please use `torch.compile` instead.", DeprecationWarning
)
def freeze(mod: Any, *args: Any, **kwargs: Any) -> Any:
    """The module itself."""
    return mod


def script_method(fn: Function) -> Function:
    """The method itself."""
    return fn


script_if_tracing = _script_if_tracing = export = interface = script_method


def _overload(func: Function) -> Function:
    """The function itself."""
    return func


def _overload_method(func: Function) -> Function:
    """The method itself."""
    return func


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """The function itself; also with arguments."""
    return drop if callable(drop) else lambda fn: fn


def unused(fn: Function) -> Function:
    """The function itself."""
    return fn


def isinstance(obj: Any, target_type: Any) -> bool:
    """Python's."""
    import builtins

    return builtins.isinstance(obj, target_type)


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """Nothing changes."""
    yield


@deprecated(
    "`torch.jit.set_fusion_strategy` is deprecated. Please use `torch.compile` instead.",
    DeprecationWarning,
)
def set_fusion_strategy(strategy: Any) -> Any:
    """Nothing is fused."""
    return strategy


_onednn_fusion = False


def enable_onednn_fusion(enabled: bool) -> None:
    """Keeps the setting: nothing is fused."""
    global _onednn_fusion
    _onednn_fusion = enabled


def onednn_fusion_enabled() -> bool:
    """What `enable_onednn_fusion` was told."""
    return _onednn_fusion
