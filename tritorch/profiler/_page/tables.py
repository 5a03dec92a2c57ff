"""Operators, modules and lines of a run: time, operations, bytes, and the share of the roofline.

Operations and bytes are those of calls whose shapes were written down, each counted once: of a call
within another one's only the outer one's.  What a backward pass costs is known of what it calls;
the rest of it has times alone.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tritorch import backends
from tritorch.core import profiling
from tritorch.profiler._page.peaks import Peak
from tritorch.profiler._page.run import Host, Run, rounded
from tritorch.profiling.recordings import Call, Shape


@dataclass
class Sum:
    """What something comes to, in nanoseconds, operations and bytes.  bound: nanoseconds that a
    device needs at best for what `device_bound` took."""

    calls: int = 0
    self_host: float = 0
    host: float = 0
    backward_host: float = 0
    device: float = 0
    backward_device: float = 0
    kernels: int = 0
    wait: float = 0
    flops: int = 0
    moved: int = 0
    bound: float = 0
    bound_device: float = 0
    names: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def row(self) -> list[Any]:
        """For the page: microseconds, and the share of the roofline or None."""
        share = self.bound / self.bound_device if self.bound and self.bound_device else None
        times = (
            self.self_host, self.host, self.backward_host, self.device, self.backward_device,
            self.wait,
        )  # fmt: skip
        return [
            self.calls, *(rounded(t / 1e3, 1) for t in times), self.kernels, self.flops,
            self.moved, None if share is None else rounded(share, 4),
        ]  # fmt: skip


class Tables:
    """The sums of a run, by operator, by module and by line."""

    def __init__(self, run: Run, peak: Peak | None) -> None:
        self.run, self.peak = run, peak
        self.tf32 = bool(backends.cuda.matmul.allow_tf32)
        self.ops: dict[str, Sum] = defaultdict(Sum)
        self.modules: dict[int, Sum] = defaultdict(Sum)
        self.lines: dict[int, Sum] = defaultdict(Sum)
        self._costs: dict[tuple[str, str], tuple[int, int, float] | None] = {}
        # Of each event: how long devices took for what was launched in it.
        self._device_of = [np.zeros(len(host.kind)) for host in run.hosts]
        self._kernels()
        for index, host in enumerate(run.hosts):
            self._calls(host)
            self._modules(host)
            self._lines(host)
            self._bounds(index, host)

    def _kernels(self) -> None:
        for kernel in self.run.kernels:
            span = kernel.span
            took = span.end - span.begin
            sums = [self.ops[kernel.op]]
            if kernel.line >= 0:
                sums.append(self.lines[kernel.line])
            if kernel.path >= 0:
                sums.append(self.modules[kernel.path])
            for each in sums:
                each.kernels += 1
                if kernel.is_backward:
                    each.backward_device += took
                else:
                    each.device += took
            if kernel.host >= 0:
                parents, above = self.run.hosts[kernel.host].parent, span.place
                while above >= 0:
                    self._device_of[kernel.host][above] += took
                    above = int(parents[above])

    def _calls(self, host: Host) -> None:
        shown = np.isin(host.kind, (profiling.OP, profiling.NODE, profiling.ANNOTATION))
        for place in np.flatnonzero(shown).tolist():
            name = host.names[place]
            if name.startswith("autograd::engine::"):
                continue
            each = self.ops[name]
            each.calls += 1
            each.self_host += host.self_time[place]
            each.host += host.took[place]
        for place in host.waits.tolist():
            if (op := int(host.op[place])) >= 0:
                self.ops[host.names[op]].wait += host.took[place]

    def _modules(self, host: Host) -> None:
        for place in np.flatnonzero(host.kind == profiling.MODULE).tolist():
            each = self.modules[int(host.path[place])]
            each.calls += 1
            each.host += host.took[place]
            each.self_host += host.self_time[place]
        nodes = (host.kind == profiling.NODE) & (host.path >= 0)
        for place in np.flatnonzero(nodes).tolist():
            self.modules[int(host.path[place])].backward_host += host.took[place]

    def _lines(self, host: Host) -> None:
        outer = host.outer_call == np.arange(len(host.kind))
        for place in np.flatnonzero(outer & (host.line >= 0)).tolist():
            each = self.lines[int(host.line[place])]
            # The engine's own events stand around nodes.
            if host.names[place].startswith("autograd::engine::"):
                continue
            each.calls += 1
            each.host += host.took[place]
            each.names[host.names[place]] += 1
        nodes = (host.kind == profiling.NODE) & (host.line >= 0)
        for place in np.flatnonzero(nodes).tolist():
            self.lines[int(host.line[place])].backward_host += host.took[place]
        loaders = [
            i for i in np.flatnonzero(host.kind == profiling.ANNOTATION).tolist()
            if host.line[i] >= 0 and host.outer_call[i] < 0
        ]  # fmt: skip
        for place in loaders:
            each = self.lines[int(host.line[place])]
            each.host += host.self_time[place]
            each.names[host.names[place]] += 1
        for place in host.waits[host.line[host.waits] >= 0].tolist():
            self.lines[int(host.line[place])].wait += host.took[place]

    def _bounds(self, index: int, host: Host) -> None:
        shapes = host.thread.events["shapes"]
        for place in np.flatnonzero((host.kind == profiling.OP) & (shapes > 0)).tolist():
            name = host.names[place]
            above = int(host.parent[place])
            while above >= 0 and not host.names[above].startswith("aten::"):
                above = int(host.parent[above])
            if above >= 0 or not name.startswith("aten::"):
                continue
            cost = self._cost(name, host.thread.words.call(int(shapes[place]) - 1))
            if cost is None:
                continue
            flops, moved, bound = cost
            took = float(self._device_of[index][place])
            sums = [self.ops[name]]
            if host.line[place] >= 0:
                sums.append(self.lines[int(host.line[place])])
            if host.path[place] >= 0:
                sums.append(self.modules[int(host.path[place])])
            for each in sums:
                each.flops += flops
                each.moved += moved
                if took:
                    each.bound += bound
                    each.bound_device += took

    def _cost(self, name: str, call: Call) -> tuple[int, int, float] | None:
        """Operations, bytes, and nanoseconds that both need at best."""
        key = name, repr(call)
        if key not in self._costs:
            found = profiling.cost_of(name, call.args, call.kwargs)
            self._costs[key] = None if found is None else (*found, self._bound(call, *found))
        return self._costs[key]

    def _bound(self, call: Call, flops: int, moved: int) -> float:
        if self.peak is None:
            return 0
        bound = moved / self.peak.bandwidth  # bytes by GB/s: nanoseconds
        dtype = next((x.dtype for x in call.values() if isinstance(x, Shape)), "float32")
        rate = self.peak.rate(dtype, self.tf32)
        return max(bound, flops / rate / 1e3) if rate else bound
