"""Chains of arrays that broadcast: over rows that are dense, with columns of one number a row.

A function of NumPy's is called once with stand-ins; what it comes to then runs row by row,
natively.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tritorch._following.passes.loops import Steps, native
from tritorch.host.steps import Traced

SINGLE = np.dtype(np.float32)


@functools.lru_cache(64)
def rowwise(function: Callable[..., Any], given: str) -> Callable[..., None]:
    """A function of float32 arrays, as one of arrays and of those that its results go into.

    given: for each argument "a" for an array, "c" for a column, "-" for None.  The results are a
    tuple, or one; arrays have up to 3 dims, and the last result all sizes."""
    steps = Steps()
    stand_ins = [None if x == "-" else Traced(steps, steps.input(SINGLE, x == "a")) for x in given]
    found = function(*stand_ins)
    made = found if isinstance(found, tuple) else (found,)
    rows = native(steps, [x.value for x in made]).rows
    return rows if "-" not in given else lambda *arrays: rows(*(x for x in arrays if x is not None))


def kinds(*given: Any) -> str:
    """What `rowwise` wants to know of arrays, and of columns that may be None."""
    return "".join("-" if x is None else "c" if x.shape[-1] == 1 else "a" for x in given)
