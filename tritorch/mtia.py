"""Meta's accelerators, which tritorch does not support: what torch.mtia is where there are none."""

from __future__ import annotations

from typing import Any, NoReturn

from tritorch.xpu import device_count, empty_cache, is_available, is_initialized

__all__ = [
    "current_device", "device_count", "empty_cache", "init", "is_available", "is_initialized",
    "set_device", "synchronize",
]  # fmt: skip


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    raise AssertionError(
        "Torch not compiled with MTIA enabled. Ensure you have `import "
        "mtia.host_runtime.torch_mtia` in your python src file and include "
        "`//mtia/host_runtime/torch_mtia:torch_mtia` as your target dependency!"
    )


init = current_device = set_device = synchronize = _refuse
