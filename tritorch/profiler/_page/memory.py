"""Memory of a run by role over time, and who held it at the peak."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from tritorch.profiler._page.run import Run
from tritorch.profiler._roles import Block, Role, blocks, steps

_POINTS = 1500  # of a curve
_HOLDERS = 40


def memory(run: Run) -> list[dict[str, Any]]:
    """For each device that allocated: the curve, the peak, and its holders."""
    found = blocks(run.recording)
    devices = sorted({block.device for block in found}, reverse=True)
    return [_of_device(run, found, device) for device in devices]


def _of_device(run: Run, found: list[Block], device: int) -> dict[str, Any]:
    times, sizes = steps(found, device)
    total = sizes.sum(axis=1)
    peak = int(np.argmax(total))
    at = int(times[peak])
    kept = thinned(times, total)
    us = (times[kept] - run.recording.begin) // 1000
    return {
        "device": device, "roles": [role.name for role in Role], "times": us.tolist(),
        "sizes": sizes[kept].tolist(), "peak": int(total[peak]),
        "peak_at": (at - run.recording.begin) // 1000, "at_peak": sizes[peak].tolist(),
        "holders": _holders(run, [b for b in found if b.device == device], at),
        "allocated_last": _line_of(run, _last(found, device, at)),
    }  # fmt: skip


def thinned(times: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Which points to keep: of each stretch of time the one with most, and the last one."""
    if len(times) <= _POINTS:
        return np.arange(len(times))
    span = max(int(times[-1] - times[0]), 1)
    part = ((times - times[0]) * (_POINTS // 2 - 1) // span).astype(np.int64)
    order = np.lexsort((total, part))
    last_of_part = np.flatnonzero(np.diff(part[order], append=-1))
    ends = np.flatnonzero(np.diff(part, append=-1))
    return np.unique(np.concatenate([order[last_of_part], ends]))


def _last(found: list[Block], device: int, at: int) -> Block | None:
    """The block whose allocation reached the peak."""
    return next((b for b in found if b.device == device and b.begin == at and b.place >= 0), None)


def _line_of(run: Run, block: Block | None) -> int:
    if block is None or block.thread < 0:
        return -1
    return int(run.hosts[block.thread].line[block.place])


def _holders(run: Run, found: list[Block], at: int) -> list[list[Any]]:
    """[line, operator, role, bytes, blocks] of what was there at a time, most first."""
    sums: dict[tuple[int, str, Role], list[int]] = defaultdict(lambda: [0, 0])
    for block in found:
        if block.begin > at or (block.end is not None and block.end <= at) or not block.size:
            continue
        op = "(before the profile)"
        if block.thread >= 0:
            host = run.hosts[block.thread]
            place = int(host.op[block.place])
            op = host.names[place] if place >= 0 else ""
        assert block.role is not None
        each = sums[_line_of(run, block), op, block.role]
        each[0] += block.size
        each[1] += 1
    ordered = sorted(sums.items(), key=lambda item: -item[1][0])[:_HOLDERS]
    return [[line, op, role.name, *each] for (line, op, role), each in ordered]
