"""Optimizer steps, gradient scaling and norms of many arrays: a launch for each set of dtypes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.core.dtype import float32, float64
from tritorch.gpu.lists.multi_tensor import table, upload
from tritorch.gpu.pointwise.layout import float_bits
from tritorch.gpu.pointwise.pointwise import triton_type
from tritorch.gpu.reduce import reduction
from tritorch.kernels.optim_rules import Variant
from tritorch.triton import names
from tritorch.triton.kernel import kernel

Array = _C.Array
Row = Sequence[Array | None]  # parameter, gradient, state; dense and in one order of elements
_NUMBERS = 8  # arguments that kernels have for numbers


def _formula(name: str) -> Any:
    return names.made("optim", "formula", name)


def _type(kind: Any) -> Any:
    return None if kind is None else names.element_type(kind.name)


def _by_kinds(rows: Sequence[Row]) -> dict[tuple[Any, ...], list[int]]:
    """The places of rows by their arrays' dtypes; without rows that have no elements."""
    found: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for i, row in enumerate(rows):
        if row[0].numel():  # type: ignore[union-attr]
            found[tuple([None if x is None else x.dtype for x in row])].append(i)
    return found


def _computing(kinds: Sequence[Any]) -> Any:
    return triton_type(float64 if kinds[0] is float64 else float32)


def _padded(values: list[Any]) -> list[Any]:
    return values + [0] * (_NUMBERS - len(values))


def update(
    variant: Variant,
    rows: Sequence[Row],
    numbers: Sequence[float] | Array,
    scale: Array | None,
    found: Array | None,
) -> None:
    """One step of all rows by one formula, in place.

    numbers: those of all rows, or the result of `advance`.  scale: what gradients are divided by.
    found: nothing happens if it is not 0.
    """
    on_device = isinstance(numbers, Array)
    bits = [] if isinstance(numbers, Array) else [float_bits(x) for x in numbers]
    count = numbers.shape[1] if isinstance(numbers, Array) else len(bits)
    for kinds, places in _by_kinds(rows).items():
        t = table([rows[i] for i in places], places)
        kernel("optim", "step")(
            (t.programs,), t.rows, t.chunks, numbers if on_device else t.rows,
            t.rows if scale is None else scale, t.rows if found is None else found, *_padded(bits),
            RULE=_formula(variant.name), MODE=variant.mode, SCALED=variant.scaled,
            MAXIMIZE=variant.maximize, COUPLED=variant.coupled, DECOUPLED=variant.decoupled,
            ZERO=variant.zero,
            KINDS=tuple(map(_type, kinds)), COMPUTE=_computing(kinds), N_NUMBERS=count,
            ON_DEVICE=on_device, CHECKED=found is not None, ALIGNED=t.aligned, CHUNK=t.chunk,
            BLOCK=t.block, num_warps=4,
        )  # fmt: skip


def advance(
    name: str, counts: Sequence[Sequence[Array]], options: Sequence[Any], found: Array | None,
    n_numbers: int,
) -> Array:  # fmt: skip
    """Advances the rows' counts by a step, in place; the numbers of each row for `update`."""
    device = next(x for x in (*counts[0], *options) if isinstance(x, Array)).device_index
    numbers = _C.empty((len(counts), n_numbers), float64, device)
    values = [x if isinstance(x, Array) else float_bits(x) for x in options]
    kinds = tuple(x.dtype for x in counts[0])
    _C.unrecordable("a kernel gets addresses in a table")
    words = np.array([[x.data_ptr() for x in row] for row in counts], np.int64)
    rows = upload(words, device) if kinds else numbers
    kernel("optim", "advance")(
        (-(-len(counts) // 128),), rows, numbers, numbers if found is None else found, len(counts),
        *_padded(values), RULE=_formula(f"{name}_numbers"), KINDS=tuple(map(_type, kinds)),
        N_OPTIONS=len(values), N_NUMBERS=n_numbers, CHECKED=found is not None, BLOCK=128,
        num_warps=4,
    )  # fmt: skip
    return numbers


def rescale(arrays: Sequence[Array], factor: Array | None, found: Array | None) -> None:
    """Multiplies arrays by a factor, in place; `found` becomes 1 if an element is not finite."""
    rows = [(x,) for x in arrays]
    for kinds, places in _by_kinds(rows).items():
        t = table([rows[i] for i in places])
        kernel("optim", "rescale")(
            (t.programs,), t.rows, t.chunks, t.rows if factor is None else factor,
            t.rows if found is None else found, KIND=_type(kinds[0]), COMPUTE=_computing(kinds),
            SCALED=factor is not None, CHECKED=found is not None, ALIGNED=t.aligned,
            CHUNK=t.chunk, BLOCK=t.block, num_warps=4,
        )  # fmt: skip


def norm(arrays: Sequence[Array], order: float, out_dtype: Any) -> Array:
    """The norm of all elements of all arrays, of order 1, 2 or infinity."""
    rows = [(x,) for x in arrays]
    groups = _by_kinds(rows)
    wide = float64 if any(kinds[0] is float64 for kinds in groups) else float32
    tables = [(kinds, table([rows[i] for i in places])) for kinds, places in groups.items()]
    parts = _C.empty((sum(t.programs for _, t in tables),), wide, arrays[0].device_index)
    start = 0
    for kinds, t in tables:
        kernel("optim", "norms")(
            (t.programs,), t.rows, t.chunks, parts[start : start + t.programs],
            KIND=_type(kinds[0]), COMPUTE=_computing(kinds),
            ORDER=0 if math.isinf(order) else int(order), ALIGNED=t.aligned, CHUNK=t.chunk,
            BLOCK=t.block, num_warps=4,
        )  # fmt: skip
        start += t.programs
    return reduction.vector_norm(parts, order, (0,), False, out_dtype)
