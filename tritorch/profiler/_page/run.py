"""A recording as arrays: of each event of the host, and of each kernel, what it belongs to.

An event knows what was open around it, so that whatever an outer one says (its line, its module,
whether it is part of a backward pass) goes down to inner ones, level by level.
"""

from __future__ import annotations

import os
import sysconfig
from typing import Any, NamedTuple

import numpy as np

from tritorch.core import profiling
from tritorch.core.profiling import events
from tritorch.profiling.recordings import Recording, Span, Thread

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_LIBRARIES = tuple(
    os.path.join(sysconfig.get_path(name), "")
    for name in ("purelib", "platlib", "stdlib", "platstdlib")
)
LOADER = "enumerate(DataLoader)"
STEP = "Optimizer.step"


class Line(NamedTuple):
    """A line of somebody's file."""

    file: str
    line: int
    function: str


class Kernel(NamedTuple):
    """What a device did, with what it belongs to; numbers are those of `Run`, -1 for none."""

    span: Span
    host: int  # the place of its thread among the run's
    op: str
    path: int
    line: int
    is_backward: bool


class Host:
    """A thread's events.  line, path: of each event the numbers of its line and of its module's
    path, which the run finds out."""

    line: np.ndarray
    path: np.ndarray

    def __init__(self, run: Run, thread: Thread) -> None:
        found = thread.events
        self.thread, self.names = thread, run.recording.names_of(found)
        self.kind = found["kind"]
        self.begin, self.end = found["begin"], found["end"]
        self.sequence = found["sequence"]
        self.parent = found["parent"].astype(np.int64) - 1
        self.depth = self._depths()
        self._levels = [np.flatnonzero(self.depth == d) for d in range(1, self._deepest() + 1)]
        timed = (self.kind != profiling.MEMORY) & (self.kind != profiling.ROLE)
        self.took = np.where(timed, self.end - self.begin, 0)
        inside = self.parent >= 0
        inner = np.bincount(self.parent[inside], weights=self.took[inside], minlength=len(found))
        self.self_time = np.maximum(self.took - inner, 0)
        # A copy into pageable memory waits, too.
        reads = [i for i, name in enumerate(run.recording.names) if name == "Memcpy DtoH"]
        copies = (self.kind == profiling.LAUNCH) & np.isin(found["extra"], reads)
        self.waits = np.flatnonzero((self.kind == profiling.WAIT) | copies)
        places = np.arange(len(found))
        self.node = self.inherit(np.where(self.kind == profiling.NODE, places, -1))
        names = np.isin(self.kind, (profiling.OP, profiling.NODE, profiling.ANNOTATION))
        self.op = self.inherit(np.where(names, places, -1))
        self.module = self.inherit(np.where(self.kind == profiling.MODULE, places, -1))
        # The outermost call around, itself too: an operator's, or a node's.
        calls = np.isin(self.kind, (profiling.OP, profiling.NODE))
        above = np.where(inside, self.parent, 0)
        self.outer_call = np.full(len(found), -1)
        top = calls & ~(inside & calls[above])
        self.outer_call = self.inherit(np.where(top, places, -1), outer_first=True)

    def _deepest(self) -> int:
        return int(self.depth.max()) if len(self.depth) else 0

    def _depths(self) -> np.ndarray:
        depth = np.zeros(len(self.parent), np.int32)
        above = self.parent.copy()
        while (inside := above >= 0).any():
            depth += inside
            above = np.where(inside, self.parent[np.maximum(above, 0)], -1)
        return depth

    def inherit(self, own: np.ndarray, outer_first: bool = False) -> np.ndarray:
        """Who has none (-1) has what its outer event has; outer_first: that one's goes first."""
        found = own.copy()
        for level in self._levels:
            above = found[self.parent[level]]
            takes = above >= 0 if outer_first else (found[level] < 0)
            found[level] = np.where(takes, above, found[level])
        return found


class Run:
    """What a page shows, as arrays."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.lines: list[Line] = []
        self.paths: list[str] = []
        self._line_numbers: dict[Line, int] = {}
        self._path_numbers: dict[str, int] = {}
        self._of_stacks: dict[int, int] = {0: -1}
        self._called = profiling.ModulePaths()
        self.hosts = [Host(self, thread) for thread in recording.threads]
        self._by_thread = {host.thread.id: i for i, host in enumerate(self.hosts)}
        self._attribute()
        self.kernels = [self._kernel(span) for span in recording.device]

    # ---- lines and paths -------------------------------------------------------------------------

    def line_of_stack(self, number: int) -> int:
        """The innermost line outside of the package and of libraries; else outside of ours."""
        if number not in self._of_stacks:
            frames = [frame for frame in events.stack(number) if not frame[0].startswith(_PACKAGE)]
            users = [frame for frame in frames if is_users(frame[0])]
            self._of_stacks[number] = -1
            if chosen := (users or frames)[:1]:
                self._of_stacks[number] = self._line(Line(*chosen[0]))
        return self._of_stacks[number]

    def _line(self, line: Line) -> int:
        line = line._replace(file=os.path.abspath(line.file))
        if line not in self._line_numbers:
            self._line_numbers[line] = len(self.lines)
            self.lines.append(line)
        return self._line_numbers[line]

    def path(self, text: str) -> int:
        """The number of a module's path."""
        if text not in self._path_numbers:
            self._path_numbers[text] = len(self.paths)
            self.paths.append(text)
        return self._path_numbers[text]

    def _path_of(self, host: Host, place: int) -> int:
        modules = []
        while place >= 0:
            modules.append(self.recording.modules[int(host.sequence[place])])
            place = int(host.parent[place])
            place = int(host.module[place]) if place >= 0 else -1
        return self.path(self._called(modules[::-1]))

    # ---- what belongs to what --------------------------------------------------------------------

    def _attribute(self) -> None:
        """Lines and paths of events: those of a backward pass have their forward call's."""
        forward: dict[int, tuple[int, int]] = {}
        for host in self.hosts:
            stacks = host.thread.events["stack"]
            known = {n: self.line_of_stack(n) for n in np.unique(stacks).tolist()}
            own = np.array([known[n] for n in stacks.tolist()], np.int64)
            host.line = host.inherit(own)
            at = {n: self._path_of(host, n) for n in np.unique(host.module).tolist() if n >= 0}
            host.path = np.array([at.get(n, -1) for n in host.module.tolist()], np.int64)
            calls = (host.kind == profiling.OP) & (host.node < 0) & (host.sequence >= 0)
            for place in np.flatnonzero(calls).tolist():
                forward[int(host.sequence[place])] = int(host.line[place]), int(host.path[place])
        for host in self.hosts:
            for field, part in (("line", 0), ("path", 1)):
                of_node = np.full(len(host.kind), -1)
                for place in np.flatnonzero(host.kind == profiling.NODE).tolist():
                    found = forward.get(int(host.sequence[place]))
                    of_node[place] = -1 if found is None else found[part]
                theirs = np.where(host.node >= 0, of_node[np.maximum(host.node, 0)], -1)
                setattr(host, field, np.where(theirs >= 0, theirs, getattr(host, field)))

    def _kernel(self, span: Span) -> Kernel:
        index = self._by_thread.get(span.thread, -1)
        if index < 0:
            return Kernel(span, -1, span.name, -1, -1, False)
        host, place = self.hosts[index], span.place
        op = int(host.op[place])
        name = host.names[op] if op >= 0 else host.names[place]
        path, line = int(host.path[place]), int(host.line[place])
        if span.op:
            name = span.op
        if span.module:
            path = self.path(span.module)
        if span.stack and (found := self.line_of_stack(span.stack)) >= 0:
            line = found
        return Kernel(span, index, name, path, line, bool(host.node[place] >= 0))

    def shown_line(self, number: int) -> str:
        """`file.py:12`, or "" for none."""
        if number < 0:
            return ""
        return f"{os.path.basename(self.lines[number].file)}:{self.lines[number].line}"


def is_users(file: str) -> bool:
    """Whether a file is neither ours nor a library's."""
    return not (
        file.startswith(("<frozen", _PACKAGE)) or os.path.abspath(file).startswith(_LIBRARIES)
    )


def annotated(host: Host, start: str) -> np.ndarray:
    """The places of annotations whose names begin so."""
    found = np.flatnonzero(host.kind == profiling.ANNOTATION).tolist()
    return np.array([i for i in found if host.names[i].startswith(start)], np.int64)


def rounded(value: Any, digits: int = 3) -> float:
    """A number of few digits, for the page."""
    return round(float(value), digits)
