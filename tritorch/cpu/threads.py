"""Threads for large elementwise work: NumPy releases the GIL, so blocks run side by side."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

BLOCK = 1 << 15  # elements of a block: three float32 operands fit the second-level cache
_count = int(os.environ.get("OMP_NUM_THREADS", "0")) or len(os.sched_getaffinity(0))
_pool: ThreadPoolExecutor | None = None


def get_num_threads() -> int:
    """How many threads large operators use."""
    return _count


def set_num_threads(n: int) -> None:
    """Sets how many threads large operators use."""
    global _count, _pool
    if not isinstance(n, int) or n < 1:
        raise RuntimeError("set_num_threads expects a positive integer")
    _count, _pool = n, None


def _executor() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(_count, thread_name_prefix="tritorch")
    return _pool


def _forget_pool() -> None:
    global _pool
    _pool = None  # its threads did not survive the fork


os.register_at_fork(after_in_child=_forget_pool)


def elementwise(ufunc: Any, out: np.ndarray[Any, Any], *inputs: Any) -> None:
    """ufunc(*inputs, out=out), in blocks over threads.

    Inputs of out's shape must be C-contiguous, as out; others broadcast along the first dim, or are
    numbers.
    """
    n = out.size
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

    def run(start: int, stop: int) -> None:
        with np.errstate(all="ignore"):
            for low in range(start, stop, per):
                high = min(low + per, stop)
                parts = [x[low:high] if w else x for w, x in zip(whole, sources)]
                ufunc(*parts, out=target[low:high], casting="unsafe")

    if _count == 1 or out.size < 4 * BLOCK:
        run(0, n)
        return
    share = -(-n // _count)
    shares = [(i, min(i + share, n)) for i in range(share, n, share)]
    futures = [_executor().submit(run, a, b) for a, b in shares]
    run(0, min(share, n))
    for future in futures:
        future.result()
