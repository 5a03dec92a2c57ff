"""A recording in Perfetto's own format, a stream of protobuf packets: smaller than JSON, and read
as fast as it comes.

Field numbers are those of Perfetto's published schema (`perfetto_trace.proto`); names of events are
sent once.
"""

from __future__ import annotations

import os
import struct
from typing import IO

import numpy as np

from tritorch.core import profiling
from tritorch.profiling.recordings import Recording, Thread, spans

_SEQUENCE = 1
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
_CLEARED, _NEEDS_STATE = 1, 2  # what a packet says of the names that were sent


def _number(value: int) -> bytes:
    """A varint."""
    if value < 0:
        value += 1 << 64
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _field(number: int, value: int) -> bytes:
    return _number(number << 3) + _number(value)


def _bytes(number: int, content: bytes | str) -> bytes:
    content = content.encode() if isinstance(content, str) else content
    return _number(number << 3 | 2) + _number(len(content)) + content


def _fixed(number: int, value: int) -> bytes:
    return _number(number << 3 | 1) + struct.pack("<Q", value)


class Writer:
    """Packets into a file."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self._names: dict[str, int] = {}
        self._new = b""
        self._tail = _field(10, _SEQUENCE)
        self.packet(_field(13, _CLEARED))

    def packet(self, content: bytes) -> None:
        """One packet of our sequence."""
        self.file.write(_bytes(1, content + self._tail))

    def track(self, number: int, content: bytes, parent: int | None = None) -> None:
        """A line of the picture."""
        above = b"" if parent is None else _field(5, parent)
        self.packet(_bytes(60, _field(1, number) + above + content))

    def name(self, text: str) -> int:
        """The number of a name, which is sent with the next event if it is new."""
        if text not in self._names:
            self._names[text] = len(self._names) + 1
            self._new += _bytes(2, _field(1, self._names[text]) + _bytes(2, text))
        return self._names[text]

    def event(self, time: int, kind: int, track: int, content: bytes = b"") -> None:
        """Something on a track at a time, in nanoseconds."""
        sent = _bytes(12, self._new) if self._new else b""
        self._new = b""
        body = _bytes(11, _field(9, kind) + _field(11, track) + content)
        self.packet(_field(8, time) + sent + _field(13, _NEEDS_STATE) + body)


def write_perfetto(recording: Recording, file: IO[bytes]) -> None:
    """Writes the trace."""
    writer = Writer(file)
    process = os.getpid()
    writer.track(1, _bytes(3, _field(1, process) + _bytes(6, "tritorch")))
    flows = _flows(recording)
    for place, (thread, names) in enumerate(spans(recording)):
        track = 100 + place
        thread_field = _field(1, process) + _field(2, thread.id) + _bytes(5, f"thread {thread.id}")
        writer.track(track, _bytes(4, thread_field))
        _host(writer, recording, thread, names, track, flows)
        _memory(writer, recording, thread, 10_000 + place)
    _devices(writer, recording, flows)


def _flows(recording: Recording) -> dict[tuple[int, int], list[int]]:
    """By launch: the numbers of arrows that begin there."""
    found: dict[tuple[int, int], list[int]] = {}
    for number, span in enumerate(recording.device, 1):
        if span.thread:
            found.setdefault((span.thread, span.place), []).append(number)
    return found


def _host(
    writer: Writer, recording: Recording, thread: Thread, names: list[str], track: int,
    flows: dict[tuple[int, int], list[int]],
) -> None:  # fmt: skip
    """Begins and ends, each end before what begins then."""
    events = thread.events
    kinds = events["kind"]
    shown = np.flatnonzero((kinds != profiling.MEMORY) & (kinds != profiling.ROLE)).tolist()
    begins, ends = events["begin"].tolist(), events["end"].tolist()
    numbers = {name: writer.name(name) for name in dict.fromkeys(names)}
    wall = recording.wall
    open_ends: list[int] = []
    for place in shown:
        while open_ends and open_ends[-1] <= begins[place]:
            writer.event(open_ends.pop() + wall, _END, track)
        arrows = flows.get((thread.id, place), ())
        content = _field(10, numbers[names[place]]) + b"".join(_fixed(47, n) for n in arrows)
        writer.event(begins[place] + wall, _BEGIN, track, content)
        end = min(ends[place], open_ends[-1]) if open_ends else ends[place]
        open_ends.append(end)
    while open_ends:
        writer.event(open_ends.pop() + wall, _END, track)


def _memory(writer: Writer, recording: Recording, thread: Thread, track: int) -> None:
    """What a thread has allocated and freed, as counters: one for each device."""
    events = thread.events[thread.events["kind"] == profiling.MEMORY]
    for device in np.unique(events["extra"]).tolist():
        mine = events[events["extra"] == device]
        name = "host memory" if device == 0 else f"device {device - 1} memory"
        number = track + 10_000 * device
        writer.track(number, _bytes(2, name) + _bytes(8, b""), parent=1)
        totals = np.cumsum(mine["sequence"]).tolist()
        for time, total in zip(mine["begin"].tolist(), totals):
            writer.event(time + recording.wall, _COUNTER, number, _field(30, total))


def _devices(writer: Writer, recording: Recording, flows: dict[tuple[int, int], list[int]]) -> None:
    """Streams, each a line; the arrows of launches end there."""
    tracks: dict[tuple[int, int], int] = {}
    for number, span in enumerate(recording.device, 1):
        key = span.device, span.stream
        if key not in tracks:
            tracks[key] = 50 + len(tracks)
            writer.track(tracks[key], _bytes(2, f"device {key[0]}, stream {key[1]}"), parent=1)
        ends = _fixed(48, number) if (span.thread, span.place) in flows else b""
        content = _field(10, writer.name(span.name)) + ends
        writer.event(span.begin + recording.wall, _BEGIN, tracks[key], content)
        writer.event(span.end + recording.wall, _END, tracks[key])
