"""Tools around tensors, as in torch.utils."""

import importlib

# Imported when they are first asked for.
_LATE = (
    "_pytree", "benchmark", "checkpoint", "data", "deterministic", "dlpack", "flop_counter", "hooks",
    "module_tracker", "throughput_benchmark", "weak",
)  # fmt: skip


def __getattr__(name: str) -> object:
    if name in _LATE:
        return importlib.import_module(f"tritorch.utils.{name}")
    raise AttributeError(f"module 'tritorch.utils' has no attribute {name!r}")
