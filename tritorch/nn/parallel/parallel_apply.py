"""Modules called at the same time, each on its own GPU."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from tritorch import _C, amp, cuda
from tritorch.amp.state import is_autocast_enabled
from tritorch.autograd.grad_mode import set_grad_enabled
from tritorch.compat.reraising import ExceptionWrapper
from tritorch.core.device import cuda_index
from tritorch.core.tensor import Tensor
from tritorch.nn.modules.module import Module

__all__ = ["get_a_var", "parallel_apply"]


def get_a_var(obj: Any) -> Any:
    """A tensor in a nest, or None."""
    if isinstance(obj, Tensor):
        return obj
    items = obj.items() if isinstance(obj, dict) else obj if isinstance(obj, (list, tuple)) else ()
    return next((found for found in map(get_a_var, items) if isinstance(found, Tensor)), None)


def _require_as_many(modules: Sequence[Any], others: Sequence[Any], of: str) -> None:
    if len(modules) != len(others):
        raise AssertionError(
            f"The number of modules {len(modules)} is not equal to the number of {of} {len(others)}"
        )


def parallel_apply(
    modules: Sequence[Module], inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None, devices: Sequence[Any] | None = None,
) -> list[Any]:  # fmt: skip
    """The results of modules, each called in a thread of its own on its GPU."""
    _require_as_many(modules, inputs, "inputs")
    if kwargs_tup is not None:
        _require_as_many(modules, kwargs_tup, "kwargs_tup")
    if devices is not None:
        _require_as_many(modules, devices, "devices")
    if not cuda.is_available():
        raise AssertionError("No available accelerator found.")
    indices = [cuda_index(d) for d in devices or [None] * len(modules)]
    named = kwargs_tup or [{}] * len(modules)
    grad, casting = _C.is_grad_enabled(), is_autocast_enabled()
    results: list[Any] = [None] * len(modules)

    def work(i: int) -> None:
        try:
            given = inputs[i] if isinstance(inputs[i], (list, tuple)) else (inputs[i],)
            with (
                set_grad_enabled(grad),
                cuda.device(indices[i]),
                cuda.stream(cuda.current_stream(indices[i])),
                amp.autocast("cuda", enabled=casting),
            ):
                results[i] = modules[i](*given, **named[i])
        except Exception:
            results[i] = ExceptionWrapper(where=f"in replica {i} on device {indices[i]}")

    if len(modules) == 1:
        work(0)
    else:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(len(modules))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for result in results:
        if isinstance(result, ExceptionWrapper):
            result.reraise()
    return results
