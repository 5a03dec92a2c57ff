"""The page of a run: one file that needs no network, from what a profile wrote."""

from __future__ import annotations

import html
import json
import os
import platform
import time
from pathlib import Path
from typing import Any

from tritorch import _C, cuda
from tritorch.profiler._page.gaps import CAUSES, Gaps
from tritorch.profiler._page.memory import memory
from tritorch.profiler._page.peaks import Peak, peak_of
from tritorch.profiler._page.run import Run, is_users
from tritorch.profiler._page.tables import Tables
from tritorch.profiler._page.timeline import timeline
from tritorch.profiling.recordings import Recording
from tritorch.version import __version__

__all__ = ["page_data", "write_file", "write_page"]

_FOLDER = Path(__file__).parent
_LONGEST_FILE = 4000  # lines of a file that are shown


def write_page(recording: Recording, path: str, title: str) -> dict[str, Any]:
    """Writes the page, and returns what it shows."""
    data = page_data(recording, title)
    write_file(data, path)
    return data


def write_file(data: dict[str, Any], path: str) -> None:
    """Writes a page that shows this; a part of which there is nothing is left out."""
    text = json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
    page = (_FOLDER / "page.html").read_text(encoding="utf-8")
    for mark, content in (
        ("@title@", html.escape(data["title"])),
        ("@style@", (_FOLDER / "page.css").read_text(encoding="utf-8")),
        ("@script@", (_FOLDER / "page.js").read_text(encoding="utf-8")),
        ("@data@", text),
    ):
        page = page.replace(mark, content, 1)
    Path(path).write_text(page, encoding="utf-8")


def page_data(recording: Recording, title: str) -> dict[str, Any]:
    """What the page shows, in numbers: times in microseconds, memory in bytes."""
    run = Run(recording)
    device, peak, said = _device(run)
    tables = Tables(run, peak)
    gaps = Gaps(run, lazy=bool(run.kernels) and _C.is_simulated())
    return {
        "title": title, "version": __version__, "made": time.strftime("%Y-%m-%d %H:%M:%S"),
        "machine": platform.processor() or platform.machine(), "device": device, "peaks": said,
        "wall": (recording.end - recording.begin) / 1e3,
        "events": sum(len(thread.events) for thread in recording.threads),
        "kernels": len(run.kernels),
        "ops": [[name, *each.row()] for name, each in _most(tables.ops)],
        "modules": [[run.paths[i], *each.row()] for i, each in sorted(
            tables.modules.items(), key=lambda item: run.paths[item[0]]
        )],
        "lines": [[i, *each.row(), _names(each.names)] for i, each in _most(tables.lines)],
        "line_table": [[_shown(line.file), line.line, line.function] for line in run.lines],
        "files": _files(run, tables), "timeline": timeline(run), "memory": memory(run),
        "busy": [
            {"device": d, "busy": busy / 1e3, "span": (gaps.spans[d][1] - gaps.spans[d][0]) / 1e3}
            for d, busy in gaps.busy.items()
        ],
        "gaps": gaps.groups(), "causes": CAUSES, "longest_gaps": _longest(run, gaps),
    }  # fmt: skip


def _shown(file: str) -> str:
    """A file as the page names it: from the working folder on, if it lies there."""
    return os.path.relpath(file) if file.startswith(os.getcwd() + os.sep) else file


def _most(sums: dict[Any, Any]) -> list[tuple[Any, Any]]:
    """Those with most time on devices first, or on the host where there is none."""
    return sorted(
        sums.items(),
        key=lambda item: (
            -(item[1].device + item[1].backward_device), -(item[1].host + item[1].backward_host),
        ),
    )  # fmt: skip


def _names(counts: dict[str, int]) -> str:
    return ", ".join(sorted(counts, key=lambda name: -counts[name])[:4])


def _device(run: Run) -> tuple[str, Peak | None, str]:
    """The device's name, its peaks, and what is to be said of shares of the roofline."""
    if not run.kernels:
        return "CPU", None, (
            "This run was on the CPU, of which no peaks are known here: no share of the roofline "
            "is told, only what was reached."
        )  # fmt: skip
    if _C.is_simulated():
        return "simulated device", None, (
            "This device is simulated: its kernels run on the host when something waits for them. "
            "Times tell nothing of a GPU, and there is no roofline; what belongs to what, memory, "
            "operations and bytes are those of a GPU."
        )  # fmt: skip
    name = cuda.get_device_name(run.kernels[0].span.device)
    peak = peak_of(name)
    if peak is None:
        return name, None, f"No peaks are known of {name}: no share of the roofline is told."
    rates = ", ".join(f"{kind} {rate:g} TFLOP/s" for kind, rate in peak.rates.items())
    return name, peak, f"Peaks of {name}, by its maker: {peak.bandwidth:g} GB/s; {rates}."


def _files(run: Run, tables: Tables) -> dict[str, list[str]]:
    """The text of users' files that have a line with some time."""
    found: dict[str, list[str]] = {}
    for number in tables.lines:
        file = run.lines[number].file
        if _shown(file) in found or not is_users(file):
            continue
        try:
            text = Path(file).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        found[_shown(file)] = [line[:240] for line in text[:_LONGEST_FILE]]
    return found


def _longest(run: Run, gaps: Gaps) -> list[list[Any]]:
    ordered = sorted(gaps.found, key=lambda gap: gap.begin - gap.end)[:200]
    return [
        [
            gap.device, (gap.begin - run.recording.begin) / 1e3, (gap.end - gap.begin) / 1e3,
            gap.cause, gap.lines[gap.cause], [round(share / 1e3, 1) for share in gap.shares],
        ]
        for gap in ordered
    ]  # fmt: skip
