"""Memory statistics, limits and reports, as in torch.cuda.memory."""

from __future__ import annotations

import gc
import pickle
import sys
import warnings
from collections import OrderedDict
from typing import Any

from tritorch import _C
from tritorch.core.deprecation import deprecated
from tritorch.core.device import cuda_index
from tritorch.cuda.runtime import collect_loans


def empty_cache() -> None:
    """Gives cached memory that nothing uses back to the driver."""
    tables = sys.modules.get("tritorch.gpu.lists.multi_tensor")
    if tables is not None:
        tables.forget()
    if _C.driver_loaded():
        _C.empty_cache()


def memory_stats(device: Any = None) -> dict[str, Any]:
    """All statistics of a device's allocator, by PyTorch's names; empty before CUDA is used."""
    if not _C.driver_loaded():
        return OrderedDict()
    return OrderedDict(sorted(_C.memory_stats(cuda_index(device)).items()))


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """The statistics, nested by the parts of their names."""
    return _nested(memory_stats(device))


def _nested(stats: dict[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for name, value in stats.items():
        *path, last = name.split(".")
        place = nested
        for part in path:
            place = place.setdefault(part, {})
        place[last] = value
    return nested


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Sets the counts of what was allocated and freed so far to zero."""
    _C.reset_accumulated_memory_stats(cuda_index(device))


def reset_peak_memory_stats(device: Any = None) -> None:
    """Makes the present the peak of every statistic."""
    _C.reset_peak_memory_stats(cuda_index(device))


def reset_max_memory_allocated(device: Any = None) -> None:
    """Deprecated in PyTorch: resets all peaks."""
    warnings.warn(
        "torch.cuda.reset_max_memory_allocated now calls torch.cuda.reset_peak_memory_stats, which "
        "resets /all/ peak memory stats.",
        FutureWarning,
        stacklevel=2,
    )
    reset_peak_memory_stats(device)


def reset_max_memory_cached(device: Any = None) -> None:
    """Deprecated in PyTorch: resets all peaks."""
    warnings.warn(
        "torch.cuda.reset_max_memory_cached now calls torch.cuda.reset_peak_memory_stats, which "
        "resets /all/ peak memory stats.",
        FutureWarning,
        stacklevel=2,
    )
    reset_peak_memory_stats(device)


def memory_allocated(device: Any = None) -> int:
    """Bytes that arrays occupy now."""
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that arrays occupied at once."""
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: Any = None) -> int:
    """Bytes that the allocator holds now."""
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that the allocator held at once."""
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


memory_cached = deprecated(
    "`torch.cuda.memory_cached` has been renamed to `torch.cuda.memory_reserved`"
)(memory_reserved)
max_memory_cached = deprecated(
    "`torch.cuda.max_memory_cached` has been renamed to `torch.cuda.max_memory_reserved`"
)(max_memory_reserved)


def host_memory_stats() -> dict[str, Any]:
    """Statistics of the pinned host memory; none before the driver is loaded."""
    if not _C.driver_loaded():
        return OrderedDict()
    return OrderedDict(sorted(_C.host_memory_stats().items()))


def reset_peak_host_memory_stats() -> None:
    """Makes the present the peak of every statistic of the pinned host memory."""
    _C.reset_peak_host_memory_stats()


def reset_accumulated_host_memory_stats() -> None:
    """Sets the counts of what was pinned and given back so far to zero."""
    _C.reset_accumulated_host_memory_stats()


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """The same, nested by the parts of their names."""
    return _nested(host_memory_stats() if _C.driver_loaded() else {})


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes of a device, by the driver."""
    return _C.mem_get_info(cuda_index(device))


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Limits this process to a share of the device's memory."""
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    _C.set_memory_fraction(fraction, cuda_index(device))


def get_per_process_memory_fraction(device: Any = None) -> float:
    """The share of the device's memory that this process may use."""
    return _C.memory_fraction(cuda_index(device))


def get_allocator_backend() -> str:
    """The allocator's name."""
    return "native"


def _set_allocator_settings(env: str) -> None:
    """Changes settings at run time; the format is that of TRITORCH_CUDA_ALLOC_CONF."""
    _C.set_allocator_settings(env)


def caching_allocator_alloc(size: int, device: Any = None, stream: Any = None) -> int:
    """Allocates bytes for another library; returns the address."""
    index = cuda_index(device)
    handle = _C.current_stream(index) if stream is None else getattr(stream, "cuda_stream", stream)
    if not isinstance(handle, int):
        raise TypeError(
            "Invalid type for stream argument, must be `tritorch.cuda.Stream` or `int` "
            "representing a pointer to a existing stream"
        )
    array = _C.allocate_bytes(size, index, handle)
    if size:
        _lent[array.data_ptr()] = array
    return array.data_ptr()


def caching_allocator_delete(mem_ptr: int) -> None:
    """Frees what caching_allocator_alloc returned."""
    if mem_ptr and _lent.pop(mem_ptr, None) is None:
        raise RuntimeError(f"invalid device pointer: {mem_ptr:#x}")


_lent: dict[int, _C.Array] = {}


def memory_snapshot(device: Any = None) -> list[dict[str, Any]]:
    """Every segment and block of a device's allocator (of all devices in use if none is given)."""
    if device is not None:
        return _C.memory_segments(cuda_index(device))
    indices = range(_C.device_count()) if _C.driver_loaded() else ()
    return [s for index in indices if _C.device_in_use(index) for s in _C.memory_segments(index)]


def _record_memory_history(
    enabled: str | None = "all",
    context: str | None = "all",
    stacks: str = "python",
    max_entries: int = 2**20,
    device: Any = None,
) -> None:
    """Records allocations, with the Python stack of each unless context is None.

    The stacks appear in snapshots and in out-of-memory messages.  enabled=None stops recording.
    """
    if enabled not in ("all", "state", None):
        raise ValueError("expected enabled to be 'all', 'state' or None")
    if stacks not in ("python", "all"):
        raise ValueError("expected stacks to be 'python', or 'all'")
    entries = 0 if enabled is None else max_entries if enabled == "all" else 1
    _C.record_memory_history(
        cuda_index(device), enabled is not None and context is not None, entries
    )


def _snapshot(device: Any = None, augment_with_fx_traces: bool = False) -> dict[str, Any]:
    """Segments, history and settings: what PyTorch's memory viewer reads."""
    index = cuda_index(device)
    traces: list[list[dict[str, Any]]] = [[] for _ in range(_C.device_count())]
    traces[index] = _C.memory_history(index)
    return {
        "segments": memory_snapshot(),
        "device_traces": traces,
        "allocator_settings": _C.allocator_settings(),
    }


def _dump_snapshot(filename: str = "dump_snapshot.pickle", device: Any = None) -> None:
    """Writes _snapshot() as a pickle."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(device), file)


class SanitizerError(RuntimeError):
    """The allocator's sanitizer found memory that was written where it must not be."""


def check_memory(device: Any = None) -> list[str]:
    """Under TRITORCH_CUDA_ALLOC_CONF=sanitize:True: what was written out of bounds or after a free.

    Waits for the device and checks every block; each report names the allocation's stack.
    """
    return _C.check_memory(cuda_index(device))


_sanitizing: bool | None = None


def raise_sanitizer_reports(device: int) -> None:
    """At a synchronisation: what the sanitizer found becomes an exception."""
    global _sanitizing
    if _sanitizing is None:
        _sanitizing = bool(_C.allocator_settings()["sanitize"])
    if _sanitizing and (reports := _C.check_memory(device)):
        raise SanitizerError("\n\n".join(reports))


def _size(amount: float) -> str:
    for unit in ("B  ", "KiB", "MiB", "GiB", "TiB"):
        if abs(amount) < 10 * 1024 or unit == "TiB":
            return f"{int(amount):6d} {unit}"
        amount /= 1024
    raise AssertionError


def _count(amount: float) -> str:
    for unit in (" ", "K", "M"):
        if abs(amount) < 100 * 1000:
            return f"{int(amount):7d} {unit}"
        amount /= 1000
    return f"{int(amount):7d} M"


_ROWS = (
    ("Allocated memory", "allocated_bytes", _size, True),
    ("Active memory", "active_bytes", _size, True),
    ("Requested memory", "requested_bytes", _size, True),
    ("GPU reserved memory", "reserved_bytes", _size, True),
    ("Non-releasable memory", "inactive_split_bytes", _size, True),
    ("Allocations", "allocation", _count, True),
    ("Active allocs", "active", _count, True),
    ("GPU reserved segments", "segment", _count, True),
    ("Non-releasable allocs", "inactive_split", _count, True),
    ("Oversize allocations", "oversize_allocations", _count, False),
    ("Oversize GPU segments", "oversize_segments", _count, False),
)


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The statistics as a table."""
    index = cuda_index(device)
    stats = memory_stats(index)
    width = 75
    lines = [
        "=" * width,
        f"{f' tritorch CUDA memory summary, device ID {index} ':^{width}}".rstrip(),
        "-" * width,
        f"  CUDA OOMs: {stats.get('num_ooms', 0):<12} |"
        f"   allocations retried: {stats.get('num_alloc_retries', 0)}",
        "=" * width,
        "        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  ",
    ]
    for title, name, form, by_pool in _ROWS:
        lines.append("-" * width)
        pools = [("all", title)] if by_pool else [("", title)]
        if by_pool and not abbreviated:
            pools += [
                ("large_pool", "      from large pool"),
                ("small_pool", "      from small pool"),
            ]
        for pool, label in pools:
            prefix = f"{name}.{pool}." if pool else f"{name}."
            cells = [
                form(stats.get(prefix + field, 0))
                for field in ("current", "peak", "allocated", "freed")
            ]
            lines.append(f" {label:<22}|" + "|".join(f" {cell:>10} " for cell in cells))
    lines.append("=" * width)
    return "|" + "|\n|".join(f"{line:<{width}}" for line in lines) + "|\n"


def collect_garbage() -> None:
    """The last rung but one of the out-of-memory ladder."""
    collect_loans()
    gc.collect()
