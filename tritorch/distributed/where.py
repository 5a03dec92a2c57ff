"""Who is where: what each member of a group has called last, and what all learn when one fails.

# Note [Who is where]
A collective that fails (the members called different ones, one did not come, one is gone) ends its
group: the native half makes the waiting of all members end.  Each then writes to the store what it
called last, with the line of the program, and reads what the others wrote; so the error of each
names all.  A member that waits for nothing (it computes, or sleeps) does not know of the failure:
its watchdog, a thread that waits for the key `fault`, writes for it.
"""

from __future__ import annotations

import collections
import contextlib
import contextvars
import json
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from tritorch.distributed.backends.interface import Call
from tritorch.distributed.constants import DistBackendError
from tritorch.distributed.reduce_op import RedOpType
from tritorch.distributed.stores import Store

__all__ = ["Record", "Ring", "Watchdog", "named"]

_PACKAGE = str(Path(__file__).parent.parent)
_KEPT = 64  # calls, which others are told when something fails
_ROOTED = {"broadcast", "reduce", "gather", "scatter"}
# How long a failing member waits for what the others have to say.
_PATIENCE = 2.0


_names: contextvars.ContextVar[str] = contextvars.ContextVar("record_comm", default="")


@contextlib.contextmanager
def named(name: str) -> Iterator[None]:
    """Names the calls in here."""
    token = _names.set(name)
    try:
        yield
    finally:
        _names.reset(token)


class Record:
    """One call: the count of collectives of its group (0: it is none), what, with which tensors,
    and where."""

    __slots__ = ("how", "line", "path", "sequence", "tensors", "what")

    def __init__(self, sequence: int, what: str, tensors: list[Any], how: Any = ()) -> None:
        name = _names.get()
        self.how = how
        self.sequence, self.what = sequence, f"{what} [{name}]" if name else what
        self.tensors = [(t.shape, t.dtype) for t in tensors[:2]]
        frame = sys._getframe(2)
        while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
            frame = frame.f_back
        self.path, self.line = frame.f_code.co_filename, frame.f_lineno

    def call(self) -> str:
        """What was called, without the line."""
        tensors = [f"{kind.name}{list(shape)}" for shape, kind in self.tensors]
        given = ", ".join([*tensors, *self.how])
        number = f" #{self.sequence}" if self.sequence else ""
        return f"{self.what}{number}{f' ({given})' if given else ''}"

    def line_of_program(self) -> str:
        """The file's name and the line."""
        return f"{Path(self.path).name}:{self.line}"

    def describe(self) -> str:
        """The call as an error names it, without its group."""
        return f"{self.call()}, {self.line_of_program()}"


class Ring:
    """What a member has called in a group, the last calls of it."""

    def __init__(self, group: str, rank: int, size: int, store: Store | None) -> None:
        self.group, self.rank, self.size, self.store = group, rank, size, store
        self.sequence = 0
        self.records: collections.deque[Record] = collections.deque(maxlen=_KEPT)
        self.ranks: list[int] = list(range(size))  # of the world, by rank in the group
        self.published = False
        self.failed: dict[int, dict[str, Any]] | None = None
        self.kind = ""  # of the failure, as this member knows it

    def add(self, call: Call) -> int:
        """Notes a collective, and gives its number."""
        self.sequence += 1
        how: tuple[str, ...] = ()
        if call.kind in _ROOTED:
            how = (f"root {self.ranks[call.root]}",)
        if call.op is not RedOpType.SUM:
            how += (call.op.name,)
        tensors = call.outputs[:1] or call.inputs[:1]
        self.records.append(Record(self.sequence, call.kind, tensors, how))
        return self.sequence

    def place(self, waits: bool) -> dict[str, Any]:
        """Where this member is, and was, for others."""
        last = self.records[-1].describe() if self.records else ""
        recent = [
            (each.sequence, each.call(), each.line_of_program()) for each in list(self.records)
        ]
        return {"rank": self.rank, "last": last, "at": self.sequence, "waits": waits,
                "kind": self.kind, "recent": recent}  # fmt: skip

    def publish(self, waits: bool) -> None:
        """Says it to the others, once."""
        if self.published or self.store is None:
            return
        self.published = True
        self.store.set(f"where/{self.group}/{self.rank}", json.dumps(self.place(waits)))

    def gather(self) -> dict[int, dict[str, Any]]:
        """What the members have said, those that do so within a moment."""
        if self.failed is not None:
            return self.failed
        found: dict[int, dict[str, Any]] = {self.rank: self.place(True)}
        if self.store is None:
            return found
        with contextlib.suppress(RuntimeError):
            self.publish(True)
            self.store.set("fault", self.group)
            end = time.monotonic() + _PATIENCE
            missing = [rank for rank in range(self.size) if rank != self.rank]
            while missing and time.monotonic() < end:
                for rank in list(missing):
                    key = f"where/{self.group}/{rank}"
                    if self.store.check([key]):
                        found[rank] = json.loads(self.store.get(key))
                        missing.remove(rank)
                if missing:
                    time.sleep(0.02)
        self.failed = found
        return found

    def report(self) -> str:
        """Who is where, in words: members at the same place together."""
        places: dict[str, list[int]] = {}
        found = self.gather()
        for rank in range(self.size):
            said = found.get(rank)
            if said is None:
                text = "silent: the process has ended, is stopped, or has no connection"
            elif not said["last"]:
                text = "has called no collective of this group"
            elif said["waits"]:
                text = f"at {said['last']}"
            else:
                text = f"last called {said['last']}, and waits for nothing"
            places.setdefault(text, []).append(self.ranks[rank])
        return _listed(places)

    def difference(self) -> str:
        """The first call that was not the same at all members, if it lies before where they are:
        who sends does not hear that a receiver had called something else.  Where nobody knows of a
        mismatch, only the call that somebody still waits in is looked at: others may differ by
        right (parts of different sizes)."""
        found = self.gather()
        known = any(each.get("kind") == "mismatch" for each in found.values())
        calls: dict[int, dict[int, tuple[str, str]]] = {}
        for rank, said in found.items():
            for sequence, call, line in said.get("recent", ()):
                if sequence:  # no message
                    calls.setdefault(sequence, {})[rank] = call, line
        waited_in = min((said["at"] for said in found.values() if said["at"]), default=0)
        for sequence in sorted(calls) if known else [waited_in] if waited_in in calls else []:
            places: dict[str, list[int]] = {}
            for rank, (call, line) in sorted(calls[sequence].items()):
                places.setdefault(f"{call}, {line}", []).append(self.ranks[rank])
            if len({call for call, _ in calls[sequence].values()}) > 1:
                last = max(calls) == sequence
                what = f"They differ from #{sequence} on" if known else f"#{sequence} was"
                return "" if last else f". {what}: {_listed(places)}"
        return ""

    def error(self, failure: tuple[str, str, list[int]]) -> DistBackendError:
        """The error of a failed collective: what kind of failure, what is known of it, and who of
        the group was waited for."""
        kind, message, absent = failure
        self.kind = self.kind or kind
        what = {
            "mismatch": "Collectives do not match",
            "timeout": "Timed out",
            "lost": "A rank is gone, or has failed",
        }.get(kind, "A collective failed")
        if self.size == 1 or kind == "backend":
            return DistBackendError(f"{what}: {message}")
        names = ", ".join(str(self.ranks[rank]) for rank in absent)
        waited = f" (waited for rank {names})" if kind == "timeout" and absent else ""
        return DistBackendError(
            f"{what} in group {self.group}: {message}{waited}. {self.report()}{self.difference()}"
        )


def _listed(places: dict[str, list[int]]) -> str:
    """Members by what is said of them, the fewest first."""
    order = sorted(places.items(), key=lambda item: (len(item[1]), item[1]))
    return "; ".join(
        f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}: {text}"
        for text, ranks in order
    )


class Watchdog:
    """The thread that says where this process is when another one has failed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rings: list[Ring] = []
        self._ended = threading.Event()
        threading.Thread(target=self._watch, name="tritorch watchdog", daemon=True).start()

    def watch(self, ring: Ring) -> None:
        """Looks after one more group."""
        self._rings.append(ring)

    def stop(self) -> None:
        """Ends the thread, within some seconds."""
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.is_set():
            try:
                self._store.wait(["fault"], timedelta(seconds=5))
            except RuntimeError as error:
                if "wait timeout" in str(error):
                    continue
                return  # the store is gone, and with it those who could ask
            if self._ended.wait(0.3):  # those who fail themselves say so themselves
                return
            for ring in list(self._rings):
                with contextlib.suppress(RuntimeError):
                    ring.publish(False)
            if self._ended.wait(1):
                return
