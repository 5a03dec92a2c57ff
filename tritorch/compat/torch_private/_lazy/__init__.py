"""torch._lazy: programs whose steps are computed when they are marked.

    torch._lazy.ts_backend.init()
    model.to("lazy") ...
    torch._lazy.mark_step()

From `init` on, this thread's calls between two marks are a compiled region: the first step runs as
it comes and is recorded, calls of later ones that match are deferred until the mark, or until a
value is wanted.  The device `lazy` is the one that computes: the CPU, or with
LTC_TS_CUDA=1 the GPU, and tensors say so.
"""

from __future__ import annotations

from typing import Any

from tritorch.compat.torch_private._lazy import steps
from tritorch.compat.torch_private._lazy.closure import (
    add_step_closure as add_step_closure,
    run_step_closures as run_step_closures,
)
from tritorch.core.tensor import Tensor
from tritorch.utils._pytree import tree_map

__all__ = [
    "add_step_closure", "get_tensor_id", "mark_step", "run_step_closures", "save", "sync_multi",
    "to_cpu", "wait_device_ops",
]  # fmt: skip


def mark_step(device: str = "", wait: bool = False) -> None:
    """A step ends: what is pending is computed, closures run, and the next step begins.

    wait: the device is waited for."""
    steps.mark()
    if wait:
        wait_device_ops()
    run_step_closures()


def wait_device_ops(devices: Any = None) -> None:
    """Waits for what the device was given."""
    from tritorch import cuda

    if steps.where() == "cuda":
        cuda.synchronize()


def sync_multi(tensors: Any, devices: Any) -> None:
    """Computes what is pending, these tensors too."""
    steps.sync()


def get_tensor_id(tensor: Tensor) -> int:
    """A tensor's number, in the order in which they are asked for."""
    return steps.number_of(tensor)


def to_cpu(tensors: Any, devices: Any = None) -> Any:
    """Nested tensors, computed, on the CPU."""
    sync_multi(tensors, devices or ["lazy"])
    return tree_map(lambda x: x.to("cpu"), tensors)


def save(tensors: Any, *args: Any, **kwargs: Any) -> None:
    """`torch.save` of nested tensors, on the CPU."""
    from tritorch.serialization import save

    save(to_cpu(tensors), *args, **kwargs)
