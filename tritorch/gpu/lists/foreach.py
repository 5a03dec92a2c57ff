"""One pointwise function on lists of arrays: one launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.core.dtype import dtype
from tritorch.gpu.lists.multi_tensor import table, upload
from tritorch.gpu.pointwise.layout import float_bits
from tritorch.gpu.pointwise.pointwise import scalar_function, triton_type
from tritorch.triton.kernel import kernel
from tritorch.triton.names import element_type

Array = _C.Array


def apply(name: str, rows: Sequence[Sequence[Any]], outs: Sequence[Array], compute: dtype) -> None:
    """out = name(*row) for each row; its operands are dense arrays of one dtype, or numbers.

    A number stands at the same place in every row.
    """
    first = rows[0]
    places = [type(value) is Array for value in first]
    columns = iter(range(1, len(first) + 1))
    operands = tuple([next(columns) if is_array else -1 for is_array in places])
    numbers = [[v for v, is_array in zip(row, places) if not is_array] for row in rows]
    words = [float_bits(float(row[0])) if row else 0 for row in numbers]
    each = len(set(words)) > 1
    device, kind = outs[0].device_index, next(v for v in first if type(v) is Array).dtype
    filled = [i for i, out in enumerate(outs) if out.numel()]
    if not filled:
        return
    t = table([[outs[i], *(v for v in rows[i] if type(v) is Array)] for i in filled], filled)
    kernel("foreach", "apply")(
        (t.programs,), t.rows, t.chunks,
        upload(np.array(words, np.int64), device) if each else t.rows, words[0],
        OP=scalar_function(name), OPERANDS=operands, KIND=element_type(kind.name),
        OUT=element_type(outs[0].dtype.name), COMPUTE=triton_type(compute),
        WIDTH=3 + sum(places), EACH=each, ALIGNED=t.aligned, CHUNK=t.chunk, BLOCK=t.block,
        num_warps=4,
    )  # fmt: skip
