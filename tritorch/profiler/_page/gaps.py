"""Why a device had nothing to do.

Note [Causes of gaps]: a gap ends with a kernel, whose launch tells who was late.  From the end of
the work before it until that launch the host did something else.  What of this time lies in a
loader of data is the loader's.  If the host had waited for the device before, it could have been
ahead by as long as it waited: so much of the rest is the synchronisation's.  What is left is the
host's own.  From the launch until the kernel begins, it was on its way to the device, or waited for
other streams.

The simulated device begins its work when a program waits for it.  There a gap ends with the launch,
as it would on a GPU.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tritorch.profiler._page.run import LOADER, Host, Kernel, Run, annotated

SHORTEST = 5_000  # nanoseconds: what is shorter is the hardware's
_BACK = 1_000_000  # a wait ends soon after the work that it waits for

CAUSES = ("host-bound", "synchronisation", "data loader", "on the way")


class Gap(NamedTuple):
    """From when to when a device did nothing; shares: nanoseconds by cause, in their order."""

    device: int
    begin: int
    end: int
    shares: tuple[float, ...]
    lines: tuple[int, ...]  # of each cause

    @property
    def cause(self) -> int:
        """The one that it had most of."""
        return int(np.argmax(self.shares))


class Gaps:
    """The gaps of all devices of a run."""

    def __init__(self, run: Run, lazy: bool) -> None:
        """lazy: the device is simulated."""
        self.run, self.lazy = run, lazy
        self._loaders = [annotated(host, LOADER) for host in run.hosts]
        self.busy: dict[int, int] = {}
        self.spans: dict[int, tuple[int, int]] = {}
        self.found: list[Gap] = []
        for device in sorted({kernel.span.device for kernel in run.kernels}):
            self._of_device(device)

    def _of_device(self, device: int) -> None:
        kernels = sorted(
            (kernel for kernel in self.run.kernels if kernel.span.device == device),
            key=lambda kernel: kernel.span.begin,
        )
        begin = until = kernels[0].span.begin
        busy, before = 0, None
        for kernel in kernels:
            span = kernel.span
            if span.begin > until:
                self._gap(device, until, kernel, before)
            busy += max(0, span.end - max(span.begin, until))
            if span.end >= until:
                until, before = span.end, kernel
        self.busy[device], self.spans[device] = busy, (begin, until)

    def _gap(self, device: int, begin: int, after: Kernel, before: Kernel | None) -> None:
        end = after.span.begin
        if after.host < 0:
            launched = begin
        else:
            host = self.run.hosts[after.host]
            launched = min(max(int(host.begin[after.span.place]), begin), end)
        if self.lazy:
            end = launched
        if end - begin < SHORTEST:
            return
        shares, lines = [0.0] * len(CAUSES), [-1] * len(CAUSES)
        shares[3], lines[3] = float(end - launched), after.line
        if launched > begin:
            self._of_host(after, begin, launched, shares, lines)
        self.found.append(Gap(device, begin, end, tuple(shares), tuple(lines)))

    def _of_host(
        self, after: Kernel, begin: int, launched: int, shares: list[float], lines: list[int]
    ) -> None:
        host = self.run.hosts[after.host]
        rest = float(launched - begin)
        loading, shares_line = _overlap(host, self._loaders[after.host], begin, launched)
        shares[2], lines[2] = loading, shares_line
        rest -= loading
        waits = host.waits
        ended = waits[(host.end[waits] >= begin) & (host.begin[waits] <= launched)]
        ended = ended[host.end[ended] <= max(launched, begin + _BACK)]
        if len(ended):
            longest = int(ended[np.argmax(host.took[ended])])
            waited = float(host.took[ended].sum())
            shares[1], lines[1] = min(rest, waited), int(host.line[longest])
            rest -= shares[1]
        shares[0], lines[0] = rest, after.line

    def groups(self) -> list[dict[str, Any]]:
        """Gaps of one cause at one line, those with most time first."""
        sums: dict[tuple[int, int, int], list[float]] = {}
        for gap in self.found:
            key = gap.device, gap.cause, gap.lines[gap.cause]
            each = sums.setdefault(key, [0, 0, 0])
            each[0] += 1
            each[1] += gap.end - gap.begin
            each[2] = max(each[2], gap.end - gap.begin)
        ordered = sorted(sums.items(), key=lambda item: -item[1][1])
        return [
            {
                "device": device, "cause": CAUSES[cause], "line": line, "count": int(count),
                "us": round(total / 1e3, 1), "longest": round(longest / 1e3, 1),
                "text": self._text(cause, line),
            }
            for (device, cause, line), (count, total, longest) in ordered
        ]  # fmt: skip

    def _text(self, cause: int, line: int) -> str:
        at = self.run.shown_line(line)
        where = f" at {at}" if at else ""
        return (
            f"host-bound: what comes before the launch{where}",
            f"synchronisation{where}: the host waited and was not ahead",
            f"data loader{where}",
            f"between the launch{where} and its begin",
        )[cause]


def _overlap(host: Host, places: np.ndarray, begin: int, end: int) -> tuple[float, int]:
    """How much of a stretch lies within events, and the line of the longest part."""
    if not len(places):
        return 0.0, -1
    parts = np.minimum(host.end[places], end) - np.maximum(host.begin[places], begin)
    parts = np.maximum(parts, 0)
    if not parts.any():
        return 0.0, -1
    return float(parts.sum()), int(host.line[places[np.argmax(parts)]])
