"""Compiled kernels on disk: written once, found by any later process of the user.

# Note [The kernel cache]
A folder per generation (keys.py) with a file per kernel: a checksum, the launch plan as JSON, the
cubin.  A file is written beside its place and renamed, so readers see all of it or nothing, on
shared file systems too, and of two writers the last one wins with the same content.  What is
damaged counts as absent and is written again.  Where nothing can be written, nothing is.  Packs
are zip files of such folders; those of TRITORCH_KERNEL_PACK are read in place.

Triton's own cache lies underneath: what only Triton's compiler finds (its key covers kernels of
users too, and hashing its 500 MB library takes half a second) is copied here.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import os
import re
import struct
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import zipfile

_MAGIC = b"tritorch kernel\n"
_PLACE = re.compile(r"sm_\d+-[0-9a-f]{20}/[0-9a-f]{40}")
_count = itertools.count()
used: set[str] = set()  # the places of what this process found or kept


class Entry(NamedTuple):
    """A compiled kernel: its name in the cubin, its launch plan, its machine code."""

    name: str
    plan: dict[str, Any]
    cubin: bytes

    def to_bytes(self) -> bytes:
        """As a file."""
        head = json.dumps({"name": self.name, "plan": self.plan}).encode()
        body = len(head).to_bytes(4, "little") + head + self.cubin
        return _MAGIC + hashlib.sha256(body).digest() + body

    @classmethod
    def from_bytes(cls, data: bytes) -> Entry | None:
        """None if the data is damaged or something else."""
        start = len(_MAGIC) + 32
        body = data[start:]
        if data[:start] != _MAGIC + hashlib.sha256(body).digest():
            return None
        length = int.from_bytes(body[:4], "little")
        head = json.loads(body[4 : 4 + length])
        return cls(head["name"], head["plan"], body[4 + length :])


def root() -> Path | None:
    """The user's folder: TRITORCH_CACHE_DIR or one among the user's caches; None without a home."""
    chosen = os.environ.get("TRITORCH_CACHE_DIR")
    if chosen:
        return Path(chosen)
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(caches) / "tritorch" if os.path.isabs(caches) else None


def read(generation: str, key: str) -> Entry | None:
    """What was compiled under a key."""
    place, entry = f"{generation}/{key}", None
    folder = root()
    if folder is not None:
        try:
            entry = Entry.from_bytes((folder / place).read_bytes())
        except (OSError, ValueError):
            pass
    if entry is None:
        entry = next(filter(None, (pack(place) for pack in _packs())), None)
    if entry is not None:
        used.add(place)
    return entry


def write(generation: str, key: str, entry: Entry) -> bool:
    """Keeps what was compiled, if anything can be written."""
    place = f"{generation}/{key}"
    kept = _put(place, entry.to_bytes())
    if kept:
        used.add(place)
    return kept


def _put(place: str, data: bytes) -> bool:
    folder = root()
    if folder is None:
        return False
    path = folder / place
    beside = path.with_name(f".{path.name}.{os.uname().nodename}.{os.getpid()}.{next(_count)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(data)
        os.replace(beside, path)
    except OSError as error:
        _remove(beside)
        _complain(f"compiled kernels are not kept: {error}")
        return False
    return True


def _remove(path: Path) -> None:
    """Removes what a failed write left, if it can be."""
    try:
        path.unlink()
    except OSError:
        pass


@functools.cache
def _complain(text: str) -> None:
    if sys.flags.dev_mode:  # a missing cache costs time, nothing else
        warnings.warn(text, RuntimeWarning, stacklevel=4)


# ---- packs ---------------------------------------------------------------------------------------


def _packs() -> tuple[Callable[[str], Entry | None], ...]:
    return tuple(map(_pack, filter(None, os.environ.get("TRITORCH_KERNEL_PACK", "").split(":"))))


@functools.cache
def _pack(path: str) -> Callable[[str], Entry | None]:
    """What finds the entries of a pack."""
    import zipfile

    try:
        archive = zipfile.ZipFile(path)
        present = set(archive.namelist())
    except (OSError, ValueError, struct.error, NotImplementedError, zipfile.BadZipFile) as error:
        # It was named, so it is wanted.
        warnings.warn(f"TRITORCH_KERNEL_PACK: {path}: {error}", RuntimeWarning, stacklevel=5)
        return lambda place: None

    def find(place: str) -> Entry | None:
        if place not in present:
            return None
        return Entry.from_bytes(_member(archive, place))

    return find


def _member(archive: zipfile.ZipFile, place: str) -> bytes:
    """Of an archive that may be damaged: nothing then."""
    import zlib
    from zipfile import BadZipFile

    try:
        return archive.read(place)
    # What zipfile raises for damaged names, sizes, methods, streams and checksums.
    except (OSError, ValueError, RuntimeError, EOFError, KeyError, BadZipFile, zlib.error):
        return b""


def pack(file: str | Path | IO[bytes], places: Iterable[str] | None = None) -> int:
    """Writes entries ("generation/key"; all if not said) into one file; how many there were."""
    import zipfile

    count = 0
    if places is None:
        places = [place for place, _ in entries()]
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for place in sorted(set(places)):
            entry = read(*place.split("/"))
            if entry is not None:
                # A fixed date: equal kernels make equal packs.
                info = zipfile.ZipInfo(place)
                archive.writestr(info, entry.to_bytes(), zipfile.ZIP_DEFLATED)
                count += 1
    return count


def unpack(file: str | Path | IO[bytes]) -> tuple[list[str], int]:
    """Puts a pack's entries into the user's folder: which, and how many could not be.

    Raises ValueError if it is no pack.
    """
    import zipfile

    good: list[str] = []
    bad = 0
    try:
        with zipfile.ZipFile(file) as archive:
            for place in archive.namelist():
                data = _member(archive, place) if _PLACE.fullmatch(place) else b""
                kept = Entry.from_bytes(data) is not None and _put(place, data)
                good += [place] * kept
                bad += not kept
    except (zipfile.BadZipFile, struct.error, NotImplementedError) as error:
        raise ValueError(f"not a pack of compiled kernels: {error}") from None
    return good, bad


# ---- housekeeping --------------------------------------------------------------------------------


def entries() -> Iterator[tuple[str, int]]:
    """All entries in the user's folder, and their sizes in bytes."""
    folder = root()
    if folder is None:
        return
    for path in sorted(folder.glob("sm_*/*")):
        place = f"{path.parent.name}/{path.name}"
        if _PLACE.fullmatch(place):
            try:
                yield place, path.stat().st_size
            except OSError:
                continue  # another process removed it


def clear() -> int:
    """Removes all that is kept; how many entries there were."""
    import shutil

    count, folder = len(list(entries())), root()
    for each in folder.glob("sm_*-*") if folder else ():
        shutil.rmtree(each, ignore_errors=True)
    return count
