"""`python -m tritorch memory snapshot.pickle`: who held a device's memory, from a file that
`torch.cuda.memory._dump_snapshot` wrote, ours or PyTorch's."""

from __future__ import annotations

import gc
import os
import pickle
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, BinaryIO, NoReturn

import numpy as np

from tritorch.cli import commands
from tritorch.profiler._page import write_file
from tritorch.profiler._page.memory import thinned
from tritorch.profiler._page.run import is_users
from tritorch.version import __version__

_BANDS = 6  # stacks that have a colour of their own
_HOLDERS = 200


def main(arguments: Sequence[str]) -> int:
    """Writes the page of a snapshot."""
    parser = commands.Parser(
        prog="python -m tritorch memory",
        description="Write who held a device's memory, and when, as one page for a browser.",
    )
    parser.add_argument("snapshot", help="what torch.cuda.memory._dump_snapshot wrote")
    parser.add_argument("-o", "--out", help="the page; snapshot.html if it is not given")
    given = parser.parse_args(arguments)
    out = given.out or f"{os.path.splitext(given.snapshot)[0]}.html"
    try:
        commands.readable(given.snapshot)
        commands.writable(out)
    except commands.Refused as error:
        parser.error(str(error))
    collected = gc.isenabled()
    gc.disable()  # nothing of a million dicts goes before the end
    try:
        with open(given.snapshot, "rb") as file:
            data = snapshot_data(_snapshot_in(file), os.path.basename(given.snapshot))
    except NoSnapshot as error:
        parser.error(f"{given.snapshot} is no snapshot of memory: {error}")
    finally:
        if collected:
            gc.enable()
    write_file(data, out)
    print(f"{out}: {data['events']} events", file=sys.stderr)
    return 0


class _Plain(pickle.Unpickler):
    """Reads dicts, lists, texts and numbers, and makes nothing else."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"a snapshot of memory has no {module}.{name}")


class NoSnapshot(Exception):
    """A file that does not have what a snapshot has."""


def _snapshot_in(file: BinaryIO) -> dict[str, Any]:
    """The snapshot in a file; raises NoSnapshot for whatever else is there."""
    try:
        found = _Plain(file).load()
    except Exception as error:  # a stream of opcodes that are none may raise anything
        raise NoSnapshot(str(error) or type(error).__name__) from None
    if not isinstance(found, dict) or not {"device_traces", "segments"} <= found.keys():
        raise NoSnapshot("it lacks segments and device_traces")
    return found


class _Lines:
    """Lines, each once; frames' lists are shared by entries, so each is looked at once."""

    def __init__(self) -> None:
        self.table: list[list[Any]] = []
        self._numbers: dict[tuple[str, int, str], int] = {}
        self._of: dict[int, int] = {}

    def number(self, frames: list[dict[str, Any]]) -> int:
        """The innermost line of a user's; else of anybody's; -1: there is none."""
        if id(frames) not in self._of:
            users = [frame for frame in frames if is_users(frame["filename"])]
            chosen = (users or frames)[:1]
            key = [(f["filename"], f["line"], f["name"]) for f in chosen]
            if key and key[0] not in self._numbers:
                self._numbers[key[0]] = len(self.table)
                self.table.append(list(key[0]))
            self._of[id(frames)] = self._numbers[key[0]] if key else -1
        return self._of[id(frames)]


def snapshot_data(snapshot: dict[str, Any], title: str) -> dict[str, Any]:
    """What the page shows of it."""
    lines = _Lines()
    traces = enumerate(snapshot["device_traces"])
    memory = [found for n, trace in traces if (found := _of_device(n, trace, snapshot, lines))]
    wall = max((m["times"][-1] for m in memory if m["times"]), default=0)
    return {
        "title": title, "version": __version__, "made": time.strftime("%Y-%m-%d %H:%M:%S"),
        "machine": "a snapshot of memory", "device": f"{len(memory)} devices", "peaks": "",
        "wall": wall, "events": sum(map(len, snapshot["device_traces"])), "kernels": 0,
        "line_table": lines.table, "memory": memory, "busy": [],
    }  # fmt: skip


def _of_device(
    device: int, trace: list[dict[str, Any]], snapshot: dict[str, Any], lines: _Lines
) -> dict[str, Any] | None:
    there = [s for s in snapshot["segments"] if s.get("device", 0) == device]
    if not trace and not there:
        return None
    times, sizes, holders, before = _changes(trace, there, lines)
    total = np.cumsum(sizes) + before
    peak = int(np.argmax(total)) if len(total) else -1
    held: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for size, line in zip(sizes[: peak + 1].tolist(), holders[: peak + 1].tolist()):
        held[line][0] += size
        held[line][1] += 1 if size > 0 else -1
    ordered = sorted(held.items(), key=lambda item: -item[1][0])
    bands = {line: i for i, (line, _) in enumerate(ordered[:_BANDS])}
    columns = np.zeros((len(sizes), len(bands) + 1), np.int64)
    place = np.array([bands.get(line, len(bands)) for line in holders.tolist()], np.int64)
    columns[np.arange(len(sizes)), place] = sizes
    columns = np.cumsum(columns, axis=0)
    columns[:, len(bands)] += before
    kept = thinned(times, total)
    names = [_text(lines, line) for line in bands] + ["others, or before the history"]
    return {
        "device": device, "roles": names, "times": (times[kept] - times[:1]).tolist(),
        "sizes": columns[kept].tolist(), "peak": int(total[peak]) if len(total) else before,
        "peak_at": int(times[peak] - times[0]) if len(total) else 0,
        "at_peak": columns[peak].tolist() if len(total) else [before],
        "holders": [[line, "", "", *each] for line, each in ordered[:_HOLDERS] if each[0] > 0],
        "allocated_last": int(holders[peak]) if len(total) else -1,
    }  # fmt: skip


def _changes(
    trace: list[dict[str, Any]], segments: list[dict[str, Any]], lines: _Lines
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Times, bytes that came or went, and lines that allocated them; what was there before."""
    times, sizes, holders = [], [], []
    live: dict[int, tuple[int, int]] = {}
    number = lines.number
    gone = 0  # of memory whose allocation the history does not have any more
    for entry in trace:
        action = entry["action"]
        if action == "alloc":
            address, size = entry["addr"], entry["size"]
            line = number(entry["frames"])
            live[address] = size, line
        elif action in ("free_completed", "free"):
            size, line = live.pop(entry["addr"], (entry["size"], -1))
            gone += size if line < 0 else 0
            size = -size
        else:
            continue
        times.append(entry["time_us"])
        sizes.append(size)
        holders.append(line)
    still = sum(s["allocated_size"] for s in segments)
    known = sum(size for size, _ in live.values())
    before = max(0, still - known) + gone
    return np.array(times, np.int64), np.array(sizes, np.int64), np.array(holders, np.int64), before


def _text(lines: _Lines, line: int) -> str:
    if line < 0:
        return "unknown"
    file, number, name = lines.table[line]
    return f"{os.path.basename(file)}:{number} in {name}"
