"""TorchScript: `script` and `trace` compile programs, `load` and `save` keep them in archives."""

from __future__ import annotations as annotations

import builtins
import contextlib
from collections.abc import Iterator
from typing import Any, Final

from tritorch.core.deprecation import deprecated
from tritorch.futures import Future, fork, wait
from tritorch.jit import _logging as _logging
from tritorch.jit._attribute import Attribute
from tritorch.jit._await import (
    _Await as _Await,
    _awaitable as _awaitable,
    _awaitable_nowait as _awaitable_nowait,
    _awaitable_wait as _awaitable_wait,
)
from tritorch.jit._containers import ScriptDict, ScriptList
from tritorch.jit._errors import Error, TracerWarning as TracerWarning
from tritorch.jit._marks import _unwrap_optional as _unwrap_optional, annotate
from tritorch.jit._script import (
    CompilationUnit,
    RecursiveScriptModule as RecursiveScriptModule,
    ScriptModule,
    _drop as _drop,
    _overload as _overload,
    _overload_method as _overload_method,
    _script_if_tracing as _script_if_tracing,
    export,
    export_opnames,
    ignore,
    interface,
    load,
    optimize_for_inference,
    run_frozen_optimizations as run_frozen_optimizations,
    save,
    script,
    script_if_tracing,
    script_method,
    strict_fusion,
    unused,
)
from tritorch.jit.calls import ScriptFunction
from tritorch.jit.frontend.python import (
    FrontendError as FrontendError,
    NotSupportedError as NotSupportedError,
    UnsupportedNodeError as UnsupportedNodeError,
)
from tritorch.jit.ir.printing import hide_sources
from tritorch.jit.trace import (
    ONNXTracedModule as ONNXTracedModule,
    TopLevelTracedModule as TopLevelTracedModule,
    TracedModule as TracedModule,
    TracingCheckError as TracingCheckError,
    _get_trace_graph as _get_trace_graph,
    _unique_state_dict as _unique_state_dict,
    is_tracing,
    trace,
    trace_module,
)

_fork, _wait, _hide_source_ranges = fork, wait, hide_sources

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
    """False: this is Python; compiled code has True in its place."""
    return False


@deprecated(
    "`torch.jit.freeze` is deprecated. Please use `torch.compile` instead.", DeprecationWarning
)
def freeze(
    mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True
) -> RecursiveScriptModule:
    """A scripted module in evaluation mode with its attributes as constants."""
    from tritorch.jit.freezing import freeze_module

    if not builtins.isinstance(mod, RecursiveScriptModule):
        raise RuntimeError(
            "Freezing expects a ScriptModule as input. Please use torch.jit.script or "
            "torch.jit.trace to script your 'nn.Module'."
        )
    if mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call "
            ".eval() on "
            "your module before freezing."
        )
    return freeze_module(mod, preserved_attrs or [])


def isinstance(obj: Any, target_type: Any) -> bool:
    """Tells if an object is of a type, the parts of containers included: `List[int]`."""
    from tritorch.jit._instances import is_instance

    return is_instance(obj, target_type)


_isinstance = isinstance


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


_set_fusion_strategy = set_fusion_strategy
_onednn_fusion = False


def enable_onednn_fusion(enabled: bool) -> None:
    """Keeps the setting: nothing is fused."""
    global _onednn_fusion
    _onednn_fusion = enabled


def onednn_fusion_enabled() -> bool:
    """What `enable_onednn_fusion` was told."""
    return _onednn_fusion
