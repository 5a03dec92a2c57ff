"""What profiles print: times, bytes and tables of events."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from tritorch.profiling.kinds import DeviceType

# ---- numbers as text -----------------------------------------------------------------------------


def _format_time(time_us: float) -> str:
    for unit, name in ((1e6, "s"), (1e3, "ms")):
        if time_us >= unit:
            return f"{time_us / unit:.3f}{name}"
    return f"{time_us:.3f}us"


def _format_time_share(time_us: float, total_time_us: float) -> str:
    if total_time_us == 0:
        if time_us != 0:
            raise AssertionError(f"Expected time_us == 0 but got {time_us}")
        return "NaN"
    return f"{time_us * 100.0 / total_time_us:.2f}%"


def _format_memory(nbytes: int) -> str:
    for power, name in ((30, "GB"), (20, "MB"), (10, "KB")):
        if abs(nbytes) >= 1 << power:
            return f"{nbytes / (1 << power):.2f} {name}"
    return f"{nbytes} B"


def _of_device(field: str) -> str:
    for kind in ("cuda", "xpu", "privateuse1"):
        field = field.replace(kind, "device")
    return field


# ---- tables --------------------------------------------------------------------------------------

_WIDTH = 12
_SCALES = ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")


class _Column(NamedTuple):
    header: str
    width: int
    value: Callable[[Any], Any]
    align: str = ">"


def _shortened(text: str, most: int | None) -> str:
    if most is not None and len(text) >= most - 3:
        return text[: most - 3] + "..."
    return text


def _end_of_path(path: str, width: int) -> str:
    if len(path) <= width:
        return path
    path = path[len(path) - width :]
    return "..." + path[3:] if len(path) > 3 else path


def _width_of(texts: Iterable[str], most: int | None) -> int:
    width = max(map(len, texts)) + 4
    return width if most is None else min(width, most)


def _time_in(unit: str | None) -> Callable[[float], str]:
    scales = {"s": 1e6, "ms": 1e3, "us": 1.0}
    if unit not in scales:
        return _format_time
    return lambda time_us: f"{time_us / scales[unit]:.3f}{unit}"


def _flops_column(events: Sequence[Any]) -> _Column | None:
    known = [event.flops for event in events if event.flops and event.flops > 0]
    if not known:
        return None
    place = int(max(0.0, min(math.log10(min(known)) / 3, len(_SCALES) - 1)))
    scale = 10 ** (-3.0 * place)

    def value(event: Any) -> str:
        return f"{event.flops * scale:8.3f}" if event.flops and event.flops > 0 else "--"

    return _Column(f"Total {_SCALES[place]}", _WIDTH, value)


def _sums(events: Sequence[Any]) -> tuple[float, float]:
    """Microseconds of all on the host and on the device, each counted once."""
    devices = (DeviceType.CUDA, DeviceType.PrivateUse1, DeviceType.MTIA, DeviceType.XPU)
    host = device = 0.0
    for event in events:
        host += event.self_cpu_time_total
        legacy = event.device_type == DeviceType.CPU and event.is_legacy
        if legacy or (event.device_type in devices and not event.is_user_annotation):
            device += event.self_device_time_total
    return host, device


def _columns(
    events: Sequence[Any], sums: tuple[float, float], time: Callable[[float], str],
    name_width: int | None, shapes_width: int | None, flops: bool, memory: bool,
) -> Iterator[_Column]:  # fmt: skip
    """The columns before that of stacks, the one of flops last."""
    first = events[0]
    width = _width_of([event.key for event in events], name_width)
    yield _Column("Name", width, lambda event: _shortened(event.key, name_width))
    if any(event.overload_name for event in events):
        yield _Column(
            "Overload Name", width, lambda event: _shortened(event.overload_name, name_width)
        )

    def share(event: Any) -> Any:
        event.self_cpu_percent = _format_time_share(event.self_cpu_time_total, sums[0])
        return event.self_cpu_percent

    def share_of_all(event: Any) -> Any:
        text = 0 if event.is_async else _format_time_share(event.cpu_time_total, sums[0])
        event.total_cpu_percent = text
        return text

    def share_of_device(event: Any) -> Any:
        event.total_device_percent = _format_time_share(event.self_device_time_total, sums[1])
        return event.total_device_percent

    def times(header: str, field: str) -> _Column:
        return _Column(header, _WIDTH, lambda event: time(getattr(event, field)))

    def bytes_of(header: str, field: str) -> _Column:
        return _Column(header, _WIDTH, lambda event: _format_memory(getattr(event, field)))

    yield _Column("Self CPU %", _WIDTH, share)
    yield times("Self CPU", "self_cpu_time_total")
    yield _Column("CPU total %", _WIDTH, share_of_all)
    yield times("CPU total", "cpu_time_total")
    yield times("CPU time avg", "cpu_time")
    device = first.use_device.upper() if first.use_device is not None else "None"
    if any(event.self_device_time_total > 0 for event in events):
        yield times(f"Self {device}", "self_device_time_total")
        yield _Column(f"Self {device} %", _WIDTH, share_of_device)
        yield times(f"{device} total", "device_time_total")
        yield times(f"{device} time avg", "device_time")
    if memory:
        yield bytes_of("CPU Mem", "cpu_memory_usage")
        yield bytes_of("Self CPU Mem", "self_cpu_memory_usage")
        if first.use_device and any(event.self_device_memory_usage > 0 for event in events):
            yield bytes_of(f"{device} Mem", "device_memory_usage")
            yield bytes_of(f"Self {device} Mem", "self_device_memory_usage")
    yield _Column("# of Calls", _WIDTH, attrgetter("count"))
    if any(event.node_id != -1 for event in events):
        yield _Column("Node ID", _WIDTH, attrgetter("node_id"))
    if any(event.input_shapes for event in events):
        wide = _width_of([str(event.input_shapes) for event in events], shapes_width)
        yield _Column("Input Shapes", wide, lambda event: str(event.input_shapes)[:wide])
    if flops and (column := _flops_column(events)):
        yield column


def _build_table(
    events: Sequence[Any], sort_by: str | None = None, header: str | None = None,
    row_limit: int = 100, max_src_column_width: int | None = 75,
    max_name_column_width: int | None = 55, max_shapes_column_width: int | None = 80,
    with_flops: bool = False, profile_memory: bool = False, top_level_events_only: bool = False,
    time_unit: str | None = None,
) -> str:  # fmt: skip
    if not events:
        return ""
    on_device = any(event.self_device_time_total > 0 for event in events)
    if on_device and not events[0].use_device:
        raise RuntimeError("use_device is None, but there is device performance data.")
    if sort_by is not None:
        events = sorted(events, key=attrgetter(_of_device(sort_by)), reverse=True)
    sums, time = _sums(events), _time_in(time_unit)
    columns = list(
        _columns(
            events, sums, time, max_name_column_width, max_shapes_column_width, with_flops,
            profile_memory,
        )
    )  # fmt: skip
    # PyTorch's order: the width of the column of stacks comes before that of flops, the values of
    # both in turn.
    stacks = [event.stack for event in events if event.stack]
    sources = 0
    if stacks:
        sources = _width_of([entry for stack in stacks for entry in stack], max_src_column_width)
        place = len(columns) - columns[-1].header.startswith("Total ")
        first = lambda event: _end_of_path(event.stack[0], sources) if event.stack else ""
        columns.insert(place, _Column("Source Location", sources, first, "<"))
    form = "".join(f"{{: {each.align}{each.width}}}  " for each in columns)
    rule = "".join("-" * each.width + "  " for each in columns)
    length = sum(each.width + 2 for each in columns) - 2
    lines = []
    if header is not None:
        lines += ["=" * length, header]
    if top_level_events_only:
        lines += ["=" * length, "This report only display top-level ops statistics"]
    lines += [rule, form.format(*(each.header for each in columns)), rule]
    shown = (e for e in events if not (top_level_events_only and e.cpu_parent is not None))
    at = [each.header for each in columns].index("Source Location") if stacks else 0
    for event in itertools.islice(shown, None if row_limit < 0 else row_limit):
        lines.append(form.format(*(each.value(event) for each in columns)))
        if stacks:
            for entry in [*(event.stack or [])[1:], ""]:
                row = [""] * len(columns)
                row[at] = _end_of_path(entry, sources)
                lines.append(form.format(*row))
    lines += [rule, f"Self CPU time total: {time(sums[0])}"]
    if on_device:
        lines.append(f"Self {events[0].use_device.upper()} time total: {time(sums[1])}")
    return "\n".join([*lines, ""])
