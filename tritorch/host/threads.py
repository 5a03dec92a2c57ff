"""Threads for large work: NumPy releases the GIL, so blocks that fit the cache run side by side.

How work is cut into blocks depends on sizes alone, never on how many threads there are, and blocks
write different outputs: the same inputs give the same bits.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.host.chains.steps import Traced
from tritorch.host.linalg import blas

Array = np.ndarray[Any, Any]

BLOCK = 1 << 17  # elements of a block: smaller ones pass the interpreter lock around too often
CACHE = 1 << 20  # bytes of a block of rows, with as much again for temporaries
PARALLEL = 1 << 20  # elements from which a second thread pays for being woken
PASS = 1 << 21  # the same for one pass of arithmetic
_ARITHMETIC = frozenset(
    (np.add, np.subtract, np.multiply, np.divide, np.negative, np.maximum, np.minimum, np.absolute)
)
_count = int(os.environ.get("OMP_NUM_THREADS", "0")) or len(os.sched_getaffinity(0))
_C.set_workers(_count)


def get_num_threads() -> int:
    """How many threads large operators use."""
    return _count


def require_count(n: int) -> None:
    """Raises PyTorch's ValueError for a number that no int of C holds."""
    if not -1 << 31 <= n < 1 << 31:
        wider = "" if -1 << 63 <= n < 1 << 63 else " long"
        raise ValueError(f"Overflow when unpacking long{wider}")


def set_num_threads(n: int) -> None:
    """Sets how many threads large operators and products use."""
    global _count
    if not isinstance(n, int) or isinstance(n, bool):
        raise RuntimeError(f"set_num_threads expects an int, but got {type(n).__name__}")
    require_count(n)
    if n < 1:
        raise RuntimeError("set_num_threads expects a positive integer")
    blas.set_threads(n)
    _C.set_workers(n)
    _count = n


def blocks(n: int, per: int, work: Callable[[int, int], Any], parallel: bool) -> None:
    """work(low, high) for each block of `per` out of n, in order within a thread.

    What `work` shares itself runs in its own thread.
    """

    pieces = -(-n // per)
    if not parallel or _count == 1 or pieces < 2:
        for low in range(0, n, per):
            work(low, min(low + per, n))
        return

    def run(i: int) -> None:
        with np.errstate(all="ignore"):  # threads don't inherit it
            work(i * per, min(i * per + per, n))

    with blas.one_thread():
        _C.share(pieces, run)


def rows(n: int, row_bytes: int, work: Callable[[int, int], Any]) -> None:
    """work(low, high) for blocks of n rows that fit the cache."""
    per = max(1, CACHE // max(row_bytes, 1))
    blocks(n, per, work, n * row_bytes >= 4 * PARALLEL)


def elementwise(ufunc: Any, out: Array, *inputs: Any) -> None:
    """ufunc(*inputs, out=out), in blocks over threads.

    Inputs of out's shape must be C-contiguous, as out; others broadcast along the first dim, or are
    numbers.
    """
    n = out.size
    if n < PARALLEL:
        ufunc(*inputs, out=out, casting="unsafe")
        return
    whole = [type(x) is np.ndarray and x.shape == out.shape for x in inputs]
    if all(w or type(x) is not np.ndarray or x.ndim == 0 for w, x in zip(whole, inputs)):
        target = out.reshape(-1)
        sources = [x.reshape(-1) if w else x for w, x in zip(whole, inputs)]
    elif out.ndim and all(
        w or type(x) is not np.ndarray or x.ndim < out.ndim or x.shape[0] == 1
        for w, x in zip(whole, inputs)
    ):
        target, sources = out, list(inputs)
        sources = [
            x[0] if type(x) is np.ndarray and not w and x.ndim == out.ndim else x
            for w, x in zip(whole, sources)
        ]
        n = out.shape[0]
    else:
        ufunc(*inputs, out=out, casting="unsafe")
        return
    per = max(1, BLOCK * n // max(out.size, 1))

    def work(low: int, high: int) -> None:
        parts = [x[low:high] if w else x for w, x in zip(whole, sources)]
        ufunc(*parts, out=target[low:high], casting="unsafe")

    blocks(
        n,
        per,
        work,
        out.size >= (PASS if getattr(ufunc, "__wrapped__", ufunc) in _ARITHMETIC else PARALLEL),
    )


def mapped(
    function: Callable[..., Any], kind: Any, *arrays: Any, per: int = BLOCK,
    into: Callable[..., Any] | None = None,
) -> Array:  # fmt: skip
    """A new array of function(*arrays), computed in blocks that fit the cache.

    `function` takes one-dimensional arrays, and numbers where numbers (or 0-d arrays) are given.
    into: the same, but takes `out`, which it may compute in.
    """
    shapes = [x.shape for x in arrays if type(x) is np.ndarray and x.ndim]
    first = arrays[0]
    if type(first) is np.ndarray and 0 < first.size <= per and first.ndim:
        if all(type(x) is not np.ndarray or not x.ndim or x.shape == first.shape for x in arrays):
            small = function(
                *(x.reshape(-1) if type(x) is np.ndarray and x.ndim else x for x in arrays)
            )
            return small.reshape(first.shape).astype(kind, copy=False)
    shape = shapes[0] if all(s == shapes[0] for s in shapes[1:]) and shapes else None
    if shape is None:
        shape = np.broadcast_shapes(*shapes)
        arrays = tuple(
            np.broadcast_to(x, shape) if type(x) is np.ndarray and x.ndim else x for x in arrays
        )
    if shape == ():
        if any(type(x) is Traced for x in arrays):
            return function(*arrays).astype(kind)
        return np.asarray(function(*map(np.atleast_1d, arrays))[0], kind).reshape(())
    out = np.empty(shape, kind)
    flat = [x.reshape(-1) if type(x) is np.ndarray and x.ndim else x for x in arrays]
    which = [type(x) is np.ndarray and x.ndim > 0 for x in flat]
    target = out.reshape(-1)

    def work(low: int, high: int) -> None:
        parts = [x[low:high] if w else x for w, x in zip(which, flat)]
        place = target[low:high]
        found = function(*parts) if into is None else into(*parts, out=place)
        if found is not place:
            place[...] = found

    blocks(target.size, per, work, target.size >= PARALLEL)
    return out
