"""Words for what records declare of axes and operations: Note [Axes] in `axes.py`, `cost.py`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

# ---- axes: texts of n dims -----------------------------------------------------------------------


def windows(n: int) -> str:
    """n dims whose sizes change."""
    return "".join(f"s{i}~" for i in range(n))


def convolved(n: int, transposed: bool) -> tuple[str, str]:
    """n spatial dims of an image, and all of a weight."""
    return windows(n), ("cj" if transposed else "oi") + "".join(f"k{i}" for i in range(n))


def normalised(n: int) -> tuple[str, str]:
    """n dims that are normalised, and the same of weights."""
    return "".join(f"n{i}*" for i in range(n)), "".join(f"n{i}" for i in range(n))


def _with(n: int, dim: int, letter: str) -> str:
    return "".join(letter if i == dim else f"a{i}" for i in range(n))


def resized(n: int, dim: int) -> str:
    """n dims of which one changes its size."""
    return f"{_with(n, dim, 's~')}->{_with(n, dim, 's~')}"


def padded(n: int, last: int) -> str:
    """n dims of which the last change their size."""
    text = "".join(f"a{i}{'~' * (i >= n - last)}" for i in range(n))
    return f"{text}->{text}"


def picked(n: int, dim: int, outputs: int) -> str:
    """Places of a dim of n, found by values."""
    return f"{_with(n, dim, 'p@')}->{','.join([_with(n, dim, 'k')] * outputs)}"


def from_places(n: int, dim: int, vector: bool = False) -> str:
    """What an index, or a vector of places of one dim, picks."""
    index = "i" if vector else _with(n, dim, "i")
    return f"{_with(n, dim, 'p@')},{index}->{_with(n, dim, 'i')}"


def into_places(n: int, dim: int, vector: bool = False, source: bool = True) -> str:
    """What is put where an index, or a vector of places of one dim, says."""
    index = "i" if vector else _with(n, dim, "i")
    values = _with(n, dim, "i") if source else "?"
    return f"{_with(n, dim, 'p*')},{index},{values}->{_with(n, dim, 'p*')}"


# ---- operations ----------------------------------------------------------------------------------


def convolution_flops(transposed: bool, image: Any, out: Any, weight: Sequence[Any]) -> Any:
    """Two for each element of the side that the kernel is applied to, and of the kernel."""
    side = image if transposed else out
    return 2 * side.numel() * math.prod(weight[1:])


def fft_flops(x: Any, dims: Sequence[int]) -> int:
    """5 n log n, as transforms are counted."""
    return int(5 * x.numel() * sum(math.log2(max(int(x.shape[dim]), 1)) for dim in dims))


def cubes(x: Any) -> Any:
    """m n^2 of m x n matrices, n being the smaller side, of all of a batch."""
    *batch, m, n = x.shape
    return math.prod(batch) * max(m, n) * min(m, n) ** 2
