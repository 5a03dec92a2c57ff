"""Tools around tensors, as in torch.utils."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tritorch.core.swap import swap_tensors as swap_tensors

if TYPE_CHECKING:  # modules that come when they are asked for, or with others
    from tritorch.utils import (
        backend_registration as backend_registration,
        benchmark as benchmark,
        checkpoint as checkpoint,
        collect_env as collect_env,
        data as data,
        deterministic as deterministic,
        dlpack as dlpack,
        flop_counter as flop_counter,
        hooks as hooks,
        model_dump as model_dump,
        module_tracker as module_tracker,
        show_pickle as show_pickle,
        throughput_benchmark as throughput_benchmark,
        weak as weak,
    )
    from tritorch.utils.backend_registration import (
        generate_methods_for_privateuse1_backend as generate_methods_for_privateuse1_backend,
        rename_privateuse1_backend as rename_privateuse1_backend,
    )


def set_module(obj: Any, mod: str) -> None:
    """Says in which module an object is shown to be."""
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod


_REGISTRATION = ("generate_methods_for_privateuse1_backend", "rename_privateuse1_backend")

# Imported when they are first asked for.
_LATE = (
    "_pytree", "backend_registration", "benchmark", "checkpoint", "collect_env", "data",
    "deterministic", "dlpack", "flop_counter", "hooks", "model_dump", "module_tracker",
    "show_pickle", "throughput_benchmark", "weak",
)  # fmt: skip


def _come_late(name: str) -> object:
    if name in _LATE:
        return importlib.import_module(f"tritorch.utils.{name}")
    if name == "ThroughputBenchmark":
        return importlib.import_module("tritorch.utils.throughput_benchmark").ThroughputBenchmark
    if name in _REGISTRATION:
        return getattr(importlib.import_module("tritorch.utils.backend_registration"), name)
    raise AttributeError(f"module 'tritorch.utils' has no attribute {name!r}")


if not TYPE_CHECKING:  # to checkers every name would be one
    __getattr__ = _come_late
