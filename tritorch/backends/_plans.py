"""The cache of cuFFT's plans, of which there are none: its size is kept."""

from __future__ import annotations

from typing import Any, ClassVar

from tritorch import cuda
from tritorch.core.device import cuda_index


class cuFFTPlanCache:
    """The cache of one GPU."""

    def __init__(self, device_index: int) -> None:
        self.device_index = device_index
        self.max_size = 4096

    @property
    def size(self) -> int:
        """How many plans are kept: none."""
        return 0

    @size.setter
    def size(self, value: int) -> None:
        raise RuntimeError(
            ".size is a read-only property showing the number of plans currently in the cache. To "
            "change the cache capacity, set cufft_plan_cache.max_size."
        )

    def clear(self) -> None:
        """Forgets all plans."""


class cuFFTPlanCacheManager:
    """The caches of all GPUs, by index; its attributes are those of the current one's cache."""

    caches: ClassVar[dict[int, cuFFTPlanCache]] = {}

    def __getitem__(self, device: Any) -> cuFFTPlanCache:
        index = device if isinstance(device, int) else cuda_index(device)
        count = cuda.device_count()
        if not 0 <= index < count:
            raise RuntimeError(
                f"cufft_plan_cache: expected 0 <= device index < {count}, but got device with "
                f"index {index}"
            )
        return self.caches.setdefault(index, cuFFTPlanCache(index))

    def __getattr__(self, name: str) -> Any:
        return getattr(self[cuda.current_device()], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self[cuda.current_device()], name, value)


cufft_plan_cache = cuFFTPlanCacheManager()
