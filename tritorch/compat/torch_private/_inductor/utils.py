"""Helpers of PyTorch's compiler that packages import: devices, timers, folders of kernels."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tritorch.compat.torch_private._inductor.runtime.runtime_utils import (
    cache_dir as cache_dir,
    ceildiv as ceildiv,
    is_power_of_2 as is_power_of_2,
    next_power_of_2 as next_power_of_2,
)
from tritorch.core.device import device as Device
from tritorch.core.tensor import Tensor
from tritorch.utils.benchmark import do_bench as do_bench

GPU_TYPES = ["cuda"]
_MULTIPROCESSORS = 68  # from which PyTorch calls a GPU big: an RTX 3080's


def is_gpu(device: str | None) -> bool:
    """True of the name of a kind of GPUs."""
    return device in GPU_TYPES


def is_cpu_device(inputs: Sequence[Any]) -> bool:
    """True if all tensors lie on the CPU."""
    return all(x.device.type == "cpu" for x in inputs if isinstance(x, Tensor))


@functools.cache
def is_big_gpu(index_or_device: int | Device = 0) -> bool:
    """True of a GPU with enough multiprocessors for tuned matrix products."""
    from tritorch import cuda

    found = cuda.get_device_properties(index_or_device)
    return bool(found.multi_processor_count >= _MULTIPROCESSORS)


def do_bench_using_profiling(
    fn: Callable[[], Any], warmup: int = 25, rep: int = 100, is_vetted_benchmarking: bool = False
) -> float:
    """The mean milliseconds that one call keeps the GPU busy, as the profiler has seen its kernels.

    warmup, rep: milliseconds, from which the number of calls follows."""
    from tritorch import cuda, profiler

    estimate = max(do_bench(fn, 1, 5), 1e-3)
    for _ in range(max(1, int(warmup / estimate))):
        fn()
    cuda.synchronize()
    n = max(1, int(rep / estimate))
    with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(n):
            fn()
        cuda.synchronize()
    busy = sum(event.self_device_time_total for event in profile.key_averages())
    return busy / n / 1000


def tabulate_2d(elements: Sequence[Sequence[Any]], headers: Sequence[Any]) -> str:
    """A table in plain text."""
    rows = [[str(x) for x in row] for row in (headers, *elements)]
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = [" | ".join(x.ljust(w) for x, w in zip(row, widths)) for row in rows]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


@contextlib.contextmanager
def fresh_cache(
    cache_entries: dict[str, Any] | None = None, dir: str | None = None, delete: bool = True
) -> Iterator[None]:
    """A new folder for compiled kernels, within the block.

    cache_entries: gets the names and sizes of the files written there; delete: the folder goes
    afterwards."""
    folder = tempfile.mkdtemp(dir=dir)
    names = ("TRITORCH_CACHE_DIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
    before = {name: os.environ.get(name) for name in names}
    for name in names:
        os.environ[name] = os.path.join(folder, name.partition("_")[0].lower())
    try:
        yield
        if cache_entries is not None:
            for place, _, files in os.walk(folder):
                for file in files:
                    path = os.path.join(place, file)
                    cache_entries[os.path.relpath(path, folder)] = os.path.getsize(path)
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if delete:
            shutil.rmtree(folder, ignore_errors=True)


fresh_inductor_cache = fresh_cache  # its former name


def clear_caches() -> None:
    """Forgets what is compiled in this process."""
    from tritorch import compiler

    compiler.reset()


clear_inductor_caches = clear_caches
