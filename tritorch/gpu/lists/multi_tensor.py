"""Tables of addresses, by which one launch works on many arrays.

A table is uploaded once and found again by its content, so a step whose addresses are those of an
earlier one uploads nothing.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tritorch import _C
from tritorch.core.dtype import int64

Array = _C.Array
_KEPT = 256  # tables
_PROGRAMS = 2048  # enough for any GPU; more elements make longer chunks
_cache: OrderedDict[Any, Array] = OrderedDict()
_captured: list[Any] = []  # what graphs copy from whenever they are replayed


class Table(NamedTuple):
    """Rows of (elements, number, addresses...) and the chunks that they are cut into."""

    rows: Array
    chunks: Array
    programs: int
    chunk: int
    block: int
    aligned: bool  # whether all addresses are multiples of 16


def upload(words: np.ndarray[Any, Any], device: int) -> Array:
    """int64 numbers on a GPU, for its current stream; not to be written to."""
    stream = _C.current_stream(device)
    capturing = _C.stream_capture_id(device, stream) > 0
    key = (device, stream, words.tobytes())
    if not capturing and key in _cache:
        _cache.move_to_end(key)
        return _cache[key]
    # From page-locked memory, so that the host need not wait for the copy.
    host = _C.pinned_buffer(words.nbytes)
    host[:] = words.reshape(-1).view(np.uint8)
    array = _C.empty((words.size,), int64, device)
    _C.copy_from_host(array, host, stream, True)
    if capturing:
        _captured.append(host)
        return array
    _cache[key] = array
    if len(_cache) > _KEPT:
        _cache.popitem(last=False)
    return array


def forget() -> None:
    """Frees the tables that no launch is using."""
    _cache.clear()


@functools.lru_cache(64)
def _chunks(sizes: tuple[int, ...]) -> tuple[np.ndarray[Any, Any], int]:
    """(row << 32 | place) of each chunk, and a chunk's elements."""
    chunk = 1024
    while chunk < 65536 and chunk * _PROGRAMS < sum(sizes):
        chunk *= 2
    counts = [-(-size // chunk) for size in sizes]
    words = [np.arange(count, dtype=np.int64) + (row << 32) for row, count in enumerate(counts)]
    return np.concatenate(words), chunk


def table(rows: Sequence[Sequence[Array | None]], numbers: Sequence[int] | None = None) -> Table:
    """The table of rows of arrays, of which those of a row have one size; None has no address.

    numbers: for each row where its numbers are; the row's own place if not given.
    """
    _C.unrecordable("a kernel gets addresses in a table")
    first = next(x for x in rows[0] if x is not None)
    sizes = tuple([row[0].numel() for row in rows])  # type: ignore[union-attr]
    addresses = [[0 if x is None else x.data_ptr() for x in row] for row in rows]
    words = np.empty((len(rows), 2 + len(rows[0])), np.int64)
    words[:, 0] = sizes
    words[:, 1] = np.arange(len(rows)) if numbers is None else numbers
    words[:, 2:] = addresses
    chunks, chunk = _chunks(sizes)
    aligned = not (words[:, 2:] & 15).any()
    device = first.device_index
    block = min(chunk, 1024)
    return Table(
        upload(words, device), upload(chunks, device), len(chunks), chunk, block, bool(aligned)
    )
