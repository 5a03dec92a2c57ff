"""Kernels found for blocks, on disk: a later process need not look for them again.

# Note [Kept]
Where compiled kernels are kept (Note [The kernel cache]), a file of JSON next to them says of a
block which calls are made as they are, and from which fields each written kernel is rebuilt
(`Launched.plain`).  Its name has all that this depends on: the calls, with constants to the bit and
the forms of all arrays; options; the devices' targets; the text of the package's files.  The user's
lines are no part of it.  So only an equal block finds it, on an equal device, of these very
sources.

A file's checksum covers its name, too, so a file that is damaged, cut off or was put there under
another name counts as absent, as does one that cannot be read to the end.  A file holds data; the
sources of kernels in it are run only if they are nothing but kernels (`triton/written.py`).
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tritorch import _C
from tritorch.compilation.follow.tape import Form
from tritorch.compilation.fuse.epilogues import FusedProduct
from tritorch.compilation.fuse.kernels import AddUp, Fused, Launched
from tritorch.compilation.fuse.lists import FusedList
from tritorch.compilation.plan.coding import (
    PackageError,
    Reader,
    encoded,
    form_in,
    form_out,
    note_in,
    note_out,
    whole,
)
from tritorch.compilation.plan.lowering import Lowered, lowered
from tritorch.triton import cache, kernel, keys

FEWEST = 8  # calls of a block that is worth a file
# The packages that decide about written kernels, in addition to kernels/: a test says so.
PACKAGES = ("arrays", "autograd", "compilation", "core", "gpu", "host", "ops", "schema", "triton")
_PACKAGE = Path(__file__).parents[2]
_CLASSES: dict[str, type[Launched]] = {
    kind.__name__: kind for kind in (Fused, FusedList, FusedProduct, AddUp)
}
_FAILURES = (
    PackageError, AssertionError, AttributeError, LookupError, SyntaxError, TypeError, ValueError,
    OverflowError, RecursionError,
)  # fmt: skip
_imported = time.time()


class Found(NamedTuple):
    """A call in the place of others."""

    call: Lowered
    own: int | None  # which of the block's own calls it is
    computed_by: int | None  # whose function it has


class Known(NamedTuple):
    """The kernels that were found for a block, in the numbers that it had."""

    numbers: tuple[int, ...]  # of its values, in the order in which they come
    first: int  # of the values that were added
    added: tuple[Form, ...]
    calls: tuple[Found, ...]
    lone: frozenset[int]


# ---- names of files ------------------------------------------------------------------------------


Stamp = tuple[str, int, int, int]  # a file, its size, and when it was changed


def _stamps() -> list[Stamp]:
    """The stamps of all files that decide."""
    package, found = str(_PACKAGE), []
    for name in PACKAGES:
        for folder, _, files in os.walk(os.path.join(package, name)):
            for path in (os.path.join(folder, file) for file in files if file.endswith(".py")):
                x = os.stat(path)
                found.append((path, x.st_size, x.st_mtime_ns, x.st_ctime_ns))
    return sorted(found)


_first_stamps = functools.cache(_stamps)


@functools.cache
def sources() -> str | None:
    """A digest of the files that decide; None if one was changed since they were imported."""
    stamps = _first_stamps()
    if max(changed for *_, changed in stamps) > _imported * 1e9:
        return None
    found = hashlib.sha256(keys.sources_digest().encode())
    for path, *_ in stamps:
        with open(path, "rb") as file:
            text = file.read()
        found.update(f"{os.path.basename(path)} {len(text)}\n".encode() + text)
    return found.hexdigest()[:20]


def file_of(key: Any, count: int) -> File | None:
    """The file of a block of so many calls; None if it has none."""
    if count < FEWEST or not kernel.is_kept() or sources() is None:
        return None
    targets = [keys.capability(device) for device in range(_C.device_count())]
    try:
        text = repr((key, targets))
    except TypeError:
        return None
    return File(f"plans-{sources()}/{hashlib.sha256(text.encode()).hexdigest()[:40]}")


class File:
    """The kernels found for a block, on disk.  Its values have numbers in the order in which they
    come."""

    def __init__(self, path: str) -> None:
        self.path = path

    def write(self, known: Known, calls: Sequence[Lowered]) -> None:
        """Keeps it, if another process can rebuild it."""
        new = {number: i for i, number in enumerate(known.numbers)}
        new |= {known.first + i: len(new) + i for i in range(len(known.added))}
        try:
            data = {
                "added": [form_out(form) for form in known.added],
                "lone": [new[number] for number in sorted(known.lone)],
                "calls": [] if known.lone else [_row(each, calls, new) for each in known.calls],
            }
        except _FAILURES:
            return
        if _stamps() == _first_stamps():
            cache.keep(self.path, json.dumps(data, separators=(",", ":")).encode())

    def read(
        self, calls: Sequence[Lowered], forms: Sequence[Form], numbers: Mapping[int, int]
    ) -> Known | None:
        """The kernels that were kept for calls. forms: of their values; numbers: the index of each
        value."""
        data = cache.kept(self.path)
        if data is None:
            return None
        try:
            return _Reading(json.loads(data), calls, forms, numbers).known()
        except _FAILURES:
            return None


# ---- rows of files -------------------------------------------------------------------------------


def _row(replacement: Found, calls: Sequence[Lowered], new: Mapping[int, int]) -> list[Any]:
    """A call: one of the block's own, one of those on other values, a kernel, or a record's."""
    if replacement.own is not None:
        return ["own", replacement.own]
    call, function = replacement.call.renumbered(new), replacement.call.function
    results = list(call.results)
    if isinstance(function, Launched):
        given = dict(zip(function.plain, function.state()))
        given |= {"inputs": tuple(x.number for x in call.args), "results": call.results}
        product = getattr(function, "call", None)
        ended = product and next(i for i, x in enumerate(calls) if x.note is product.note)
        return ["kernel", type(function).__name__, ended, encoded(tuple(given.values()))]
    by = replacement.computed_by
    if by is not None and calls[by].note is replacement.call.note:
        return ["on", by, encoded(call.args), results]
    if not replacement.call.note.op.is_view or replacement.call.args != (
        *replacement.call.note.inputs, *replacement.call.note.params
    ):  # fmt: skip
        raise PackageError("its function is not that of a record")
    return ["note", note_out(call.note)]


class _Reading:
    """A file that is read."""

    def __init__(
        self, data: Any, calls: Sequence[Lowered], forms: Sequence[Form],
        numbers: Mapping[int, int],
    ) -> None:  # fmt: skip
        self.data, self.calls, self.numbers = data, calls, numbers
        self.added = tuple(form_in(row, _C.Array) for row in data["added"])
        none = Form(int, (), None, ())
        self.forms = [*(none if n < 0 else forms[n] for n in numbers), *self.added]
        self.reader = Reader(len(self.forms))

    def known(self) -> Known:
        """All that it says."""
        count = len(self.numbers)
        lone = frozenset(whole(n, 0, count - 1) for n in self.data["lone"])
        kinds: dict[str, Callable[..., Found]] = {
            "own": self._own,
            "on": self._on,
            "kernel": self._kernel,
            "note": self._note,
        }
        rows = tuple(kinds[kind](*row) for kind, *row in self.data["calls"])
        return Known(tuple(range(count)), count, self.added, rows, lone)

    def _call(self, i: Any) -> int:
        return whole(i, 0, len(self.calls) - 1)

    def _values(self, given: Any) -> tuple[int, ...]:
        return tuple(map(self.reader.value, given))

    def _own(self, i: Any) -> Found:
        return Found(self.calls[self._call(i)], i, None)

    def _on(self, i: Any, args: Any, results: Any) -> Found:
        call = self.calls[self._call(i)].renumbered(self.numbers)
        call = call._replace(args=self.reader(args), results=self._values(results))
        return Found(call, None, i)

    def _kernel(self, kind: Any, ended: Any, state: Any) -> Found:
        made = _CLASSES[kind].of(self.reader(state))
        made.inputs, made.results = self._values(made.inputs), self._values(made.results)
        if ended is not None:
            assert isinstance(made, FusedProduct)
            made.call = self.calls[self._call(ended)]
        return Found(made.as_call(), None, None)

    def _note(self, row: Any) -> Found:
        return Found(lowered(note_in(row, self.reader), self.forms), None, None)
