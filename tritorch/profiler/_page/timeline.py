"""The time line of a page: what threads and streams did, the longest events first where a page
would grow too large."""

from __future__ import annotations

from typing import Any

import numpy as np

from tritorch.core import profiling
from tritorch.profiler._page.run import Run

_MOST = 30_000  # events of the host, and as many of devices

# What the page colours apart, in its order.
KINDS = ("operator", "annotation", "backward", "module", "launch", "wait", "kernel", "copy")
_KIND = {
    profiling.OP: 0, profiling.ANNOTATION: 1, profiling.NODE: 2, profiling.MODULE: 3,
    profiling.LAUNCH: 4, profiling.WAIT: 5,
}  # fmt: skip


class Names:
    """Texts, each once."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The number of a text."""
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return self._numbers[text]


def timeline(run: Run) -> dict[str, Any]:
    """Rows of events: each [begin, duration, name, depth, kind, line] in nanoseconds, begins as
    distances from the one before."""
    names = Names()
    took = [host.took[_shown(host)] for host in run.hosts]
    every = np.concatenate(took) if took else np.zeros(0)
    least = np.sort(every)[-_MOST] if len(every) > _MOST else -1
    rows = [_of_host(run, i, names, least) for i in range(len(run.hosts))]
    kernels = sorted(run.kernels, key=lambda kernel: kernel.span.begin - kernel.span.end)
    streams: dict[tuple[int, int], list[list[int]]] = {}
    for kernel in kernels[:_MOST]:
        span = kernel.span
        kind = KINDS.index("copy" if span.name.startswith(("Memcpy", "Memset")) else "kernel")
        row = [
            span.begin - run.recording.begin, span.end - span.begin, names.number(span.name), 0,
            kind, kernel.line, names.number(kernel.op),
            names.number(run.paths[kernel.path]) if kernel.path >= 0 else -1,
        ]  # fmt: skip
        streams.setdefault((span.device, span.stream), []).append(row)
    for (device, stream), events in sorted(streams.items()):
        rows.append({"name": f"device {device}, stream {stream}", "events": _packed(events)})
    return {
        "rows": [row for row in rows if row["events"]], "names": names.texts, "kinds": KINDS,
        "left_out": int((every < least).sum()) + max(0, len(kernels) - _MOST),
        "shorter_than": round(float(max(least, 0)) / 1e3, 1),
    }  # fmt: skip


def _shown(host: Any) -> np.ndarray:
    engine = np.array([name.startswith("autograd::engine::") for name in host.names], bool)
    return np.flatnonzero(np.isin(host.kind, list(_KIND)) & ~engine)


def _of_host(run: Run, index: int, names: Names, least: float) -> dict[str, Any]:
    host = run.hosts[index]
    events = [
        [
            int(host.begin[i]) - run.recording.begin, int(host.took[i]),
            names.number(host.names[i]), int(host.depth[i]), _KIND[int(host.kind[i])],
            int(host.line[i]),
        ]
        for i in _shown(host).tolist() if host.took[i] >= least
    ]  # fmt: skip
    name = "main thread" if host.thread.is_main else f"thread {host.thread.id}"
    return {"name": name, "events": _packed(events)}


def _packed(events: list[list[int]]) -> list[list[int]]:
    events.sort(key=lambda event: event[0])
    before = 0
    for event in events:
        event[0], before = event[0] - before, event[0]
    return events
