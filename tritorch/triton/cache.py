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

from tritorch.triton import plan

if TYPE_CHECKING:
    import zipfile

_MAGIC = b"tritorch kernel\n"
_PLACE = re.compile(r"sm_\d+-[0-9a-f]{20}/[0-9a-f]{40}")
_LARGEST = 1 << 26  # bytes of an entry in a pack
_RATIO = 64  # of what a pack is unpacked to and its own size; cubins take a fifth of their bytes
_count = itertools.count()
_attached: list[Callable[[int, str], Entry | None]] = []
used: set[str] = set()  # the places of what this process found or kept


class Entry(NamedTuple):
    """A compiled kernel: its name in the cubin, its launch plan, its machine code, and the ptxas
    that made that."""

    name: str
    plan: dict[str, Any]
    cubin: bytes
    assembler: str = ""

    def to_bytes(self) -> bytes:
        """As a file."""
        said = {"name": self.name, "plan": self.plan, "assembler": self.assembler}
        head = json.dumps(said).encode()
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
        try:
            head = json.loads(body[4 : 4 + length])
        except (ValueError, RecursionError):
            return None
        if not isinstance(head, dict) or head.keys() != {"name", "plan", "assembler"}:
            return None
        if not all(isinstance(head[key], str) for key in ("name", "assembler")):
            return None
        if not plan.is_plan(head["plan"]):
            return None
        return cls(head["name"], head["plan"], body[4 + length :], head["assembler"])


def root() -> Path | None:
    """The user's folder: TRITORCH_CACHE_DIR or one among the user's caches; None without a home."""
    chosen = os.environ.get("TRITORCH_CACHE_DIR")
    if chosen:
        return Path(chosen)
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(caches) / "tritorch" if os.path.isabs(caches) else None


def read(generation: str, key: str) -> Entry | None:
    """What was compiled under a key; None also for what names no place."""
    place, entry = f"{generation}/{key}", None
    if not _PLACE.fullmatch(place):
        return None
    folder = root()
    if folder is not None:
        try:
            entry = Entry.from_bytes((folder / place).read_bytes())
        except OSError:
            pass
    if entry is None:
        entry = next(filter(None, (pack(place) for pack in _packs())), None)
    if entry is None and _attached:
        of = target_of(generation)
        entry = next(filter(None, (find(of, key) for find in _attached)), None)
    if entry is not None:
        used.add(place)
    return entry


def target_of(generation: str) -> int:
    """The target of a generation: 90 of sm_90-..."""
    return int(generation.partition("-")[0].removeprefix("sm_"))


def attach(find: Callable[[int, str], Entry | None]) -> None:
    """Asks `find`, too, for a target's kernel: whoever has some that another compiler may have
    made of the same sources."""
    _attached.append(find)


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


def keep(place: str, data: bytes) -> bool:
    """Keeps what is no kernel, under "folder/name", if anything can be written."""
    return _put(place, _told(place, data) + data)


def kept(place: str) -> bytes | None:
    """What was kept there, if it is that, and whole."""
    folder = root()
    try:
        found = b"" if folder is None else (folder / place).read_bytes()
    except OSError:
        return None
    data = found[32:]
    return data if found[:32] == _told(place, data) else None


def _told(place: str, data: bytes) -> bytes:
    return hashlib.sha256(_MAGIC + place.encode() + b"\n" + data).digest()


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


def _member(archive: zipfile.ZipFile, place: str, limit: int = _LARGEST) -> bytes:
    """Of an archive that may be damaged, or larger than any kernel: nothing then."""
    import zlib
    from zipfile import BadZipFile

    try:
        with archive.open(place) as member:
            data = member.read(limit + 1)
        return data if len(data) <= limit else b""
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

    Raises ValueError if it is no pack.  What a small file would blow up is left out.
    """
    import zipfile

    good: list[str] = []
    bad = 0
    try:
        with zipfile.ZipFile(file) as archive:
            left = _RATIO * _size(archive)
            for place in dict.fromkeys(archive.namelist()):
                data = b""
                if _PLACE.fullmatch(place):
                    data = _member(archive, place, max(0, min(left, _LARGEST)))
                    left -= len(data) or archive.getinfo(place).file_size
                kept = Entry.from_bytes(data) is not None and _put(place, data)
                good += [place] * kept
                bad += not kept
    except (zipfile.BadZipFile, struct.error, NotImplementedError) as error:
        raise ValueError(f"not a pack of compiled kernels: {error}") from None
    return good, bad


def _size(archive: zipfile.ZipFile) -> int:
    assert archive.fp is not None
    return archive.fp.seek(0, os.SEEK_END)


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
    """Removes all that is kept; how many kernels there were."""
    import shutil

    count, folder = len(list(entries())), root()
    for each in [*folder.glob("sm_*-*"), *folder.glob("plans-*")] if folder else ():
        shutil.rmtree(each, ignore_errors=True)
    return count
