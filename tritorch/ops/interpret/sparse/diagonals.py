"""Sparse matrices by their diagonals."""

from __future__ import annotations

from typing import Any

from tritorch.arrays.sparse import SHOWN
from tritorch.core import layout as layouts, published
from tritorch.core.promotion import scalar_name
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.sparse.convert import convert
from tritorch.ops.interpret.sparse.record import arange, coo
from tritorch.ops.record.checks import sizes


def spdiags(diagonals: Tensor, offsets: Tensor, shape: Any, layout: Any = None) -> Tensor:
    """A matrix whose diagonals are the rows of a matrix: row i is the one at offsets[i].

    Element j of a row goes to column j.
    """
    rows = diagonals.unsqueeze(0) if diagonals.ndim == 1 else diagonals
    places = offsets.reshape(1) if offsets.ndim == 0 else offsets
    size = sizes((shape,))
    allowed = (layouts.sparse_coo, layouts.sparse_csc, layouts.sparse_csr)
    if rows.ndim != 2:
        raise RuntimeError("Diagonals must be vector or matrix")
    if len(size) != 2:
        raise RuntimeError("Output shape must be 2d")
    if places.ndim != 1:
        raise RuntimeError("Offsets must be scalar or vector")
    if places.dtype.name != "int64":
        raise RuntimeError(
            f"Offset Tensor must have dtype Long but got {scalar_name(places.dtype)}"
        )
    if places.shape[0] != rows.shape[0]:
        raise RuntimeError(
            f"Number of diagonals ({rows.shape[0]}) does not match the number of offsets "
            f"({places.shape[0]})"
        )
    if layout is not None and layout not in allowed:
        shown = ", ".join(SHOWN[kind] for kind in allowed)
        raise RuntimeError(f"Only output layouts ({shown}) are supported, got {SHOWN[layout]}")
    given = places.tolist()
    if len(set(given)) != len(given):
        raise RuntimeError("Offset tensor contains duplicate values")
    indices, values = [], []
    for i, offset in enumerate(given):
        first, last = max(offset, 0), min(rows.shape[1], size[1], size[0] + offset)
        columns = arange(max(last - first, 0), rows) + first
        indices.append(published.public.stack([columns - offset, columns]))
        values.append(rows[i].index_select(0, columns))
    if not given:
        places = arange(0, rows)
        return coo(published.public.stack([places, places]), rows.reshape(-1)[:0], size, True)
    out = coo(
        published.public.cat(indices, 1), published.public.cat(values), size, False, "Spdiags"
    )
    return out if layout in (None, layouts.sparse_coo) else convert(out, layout)
