"""Anomaly detection: which forward call made the gradient that failed or became NaN."""

from __future__ import annotations

import warnings
from typing import Any

from tritorch import _C
from tritorch.core.defaults import require_bool
from tritorch.core.scopes import Scope, ScopeWhenMade


class _Setting:
    on, check_nan = False, True


_setting = _Setting()


def is_anomaly_enabled() -> bool:
    """Whether anomaly detection is on."""
    return _setting.on


def is_anomaly_check_nan_enabled() -> bool:
    """Whether it looks for NaN."""
    return _setting.check_nan


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Turns anomaly detection on or off."""
    require_bool("set_anomaly_enabled", "enabled", mode, 1)
    require_bool("set_anomaly_enabled", "check_nan", check_nan, 2)
    _setting.on, _setting.check_nan = mode, check_nan
    _C.set_tracing_calls(mode)


def _anomaly_changes(mode: bool, check_nan: bool) -> tuple[Any, ...]:
    require_bool("set_anomaly_enabled", "enabled", mode, 1)
    require_bool("set_anomaly_enabled", "check_nan", check_nan, 2)
    return (
        (_setting, "on", mode), (_setting, "check_nan", check_nan), (_C.set_tracing_calls, mode)
    )  # fmt: skip


class set_detect_anomaly(ScopeWhenMade):
    """Turns anomaly detection on or off, as a call or as a context."""

    def changes(self, mode: bool, check_nan: bool = True) -> Any:
        return _anomaly_changes(mode, check_nan)


class detect_anomaly(Scope):
    """Within, each node keeps the stack of its forward call, and NaN gradients raise."""

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should "
            "only be enabled for debugging.",
            stacklevel=2,
        )

    def changes(self) -> Any:
        return _anomaly_changes(True, self.check_nan)


def run(node: Any, g: Any) -> Any:
    """One node's gradient, with the forward's stack when it fails."""
    if not _setting.on:
        return node._node_op.backward(node, g)
    try:
        results = tuple(node._node_op.backward(node, g))
    except Exception:
        _explain(node)
        raise
    if _setting.check_nan:
        for i, result in enumerate(results):
            if result is not None and result.dtype.is_floating_point and bool(result.isnan().any()):
                _explain(node)
                raise RuntimeError(
                    f"Function '{node.name()}' returned nan values in its {i}th output."
                )
    return results


def _explain(node: Any) -> None:
    trace = node._node_hooks.trace if node._node_hooks is not None else None
    if trace is None:
        warnings.warn(
            f"Error detected in {node.name()}. No forward pass information available. Enable "
            f"detect anomaly during forward pass for more information.",
            stacklevel=4,
        )
    else:
        warnings.warn(
            f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n"
            + "".join(trace),
            stacklevel=4,
        )
