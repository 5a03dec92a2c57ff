"""torch._inductor.package: models of packages, by their names."""

from __future__ import annotations

from typing import Any


def load_package(
    path: Any,
    model_name: str = "model",
    run_single_threaded: bool = False,
    num_runners: int = 1,
    device_index: int = -1,
) -> Any:
    """A model of a package; it may be called by several threads whatever is said of that."""
    from tritorch.compilation.package.loaded import load_package as load

    if device_index < 0:
        return load(path, model_name)
    return load(path, model_name, device=f"cuda:{device_index}")
