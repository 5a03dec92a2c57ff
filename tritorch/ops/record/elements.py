"""Plans of pointwise calls on ndarrays and numbers: all that dtypes decide of them.

The native half keeps the answers (Note [Plans of elements] in src/plans/elements.cpp) and gives
later calls of the same dtypes their results without asking.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tritorch import _C
from tritorch.arrays.arrays import cast, is_bfloat16
from tritorch.core.dtype import dtype, float32, from_numpy_dtype
from tritorch.core.promotion import can_cast, category, number_dtype, result_type
from tritorch.host.chains.chained import LEAST
from tritorch.ops.record.outputs import EXACT

if TYPE_CHECKING:
    from tritorch.ops.record.pointwise import Pointwise

_ONES = {bool: True, int: 1, float: 1.0, complex: 1j}
_NUMBERS = {
    "all": 0,
    "any": 0,
    "other": 1,
    "none": 2,
}  # at how many of the first operands there is none


def decide(op: Pointwise, target: Any, *operands: Any) -> tuple[Any, ...] | None:
    """The plan of a call, or None where the general path takes it.

    target: the dtype that is written, or None.  operands: of an array its dtype and whether it has
    dims, of a number its type.

    Gives the function, and the chain that is asked before it, from how many elements on, and
    whether with operands as they are; to what each operand is cast; the dtype that is computed in;
    the one that comes out and what casts to it; and whether the function writes the target."""
    numbers = [isinstance(each, type) for each in operands]
    lacking = any(numbers[: max(op.masks, _NUMBERS[op.numbers])]) or all(numbers)
    if "compute" in vars(op) or lacking:
        return None  # Note [Replaced kernels]
    given = [from_numpy_dtype(each[0]) for each, n in zip(operands, numbers) if not n]
    kinds = given + [number_dtype(_ONES[each]) for each, n in zip(operands, numbers) if n]
    if op.shuns in [category(kind) for kind in kinds]:
        return None
    common = _common(op, operands)
    if not all(kind.native for kind in (*given, common)):
        return None
    if op.refuses is not None and op.refuses[0] == category(common):
        return None
    if not op.implements(common):
        return None
    compute = op.compute_dtype(common)
    result = op.result_dtype(compute)
    if any(numbers) and not _passes_numbers(compute, operands):
        return None
    if target is not None:
        if result is not compute and compute.is_complex:
            return None
        written = from_numpy_dtype(target)
        if not can_cast(result, written) or (result is not written and op.name in EXACT):
            return None
    wide = float32 if op.is_widened(compute) else compute
    narrow = wide is not compute and not op.masks and set(given) == {compute}
    casts = [
        None if n or i < op.masks else _cast_of(each[0], wide)
        for i, (each, n) in enumerate(zip(operands, numbers))
    ]
    known = result.is_floating_point and not compute.is_complex
    writes = (
        op.is_ufunc and target is compute.numpy is result.numpy and target in op.direct
        and wide is compute
    )  # fmt: skip
    chain = op.chained if is_bfloat16(compute.numpy) or not narrow else None
    return (
        op.eager if narrow else op.function, chain,
        LEAST if op.is_ufunc and not narrow else 0, narrow,
        tuple(casts), compute.numpy, result.numpy,
        _cast_of(_DOUBLE, result) if known else functools.partial(cast, kind=result), writes,
    )  # fmt: skip


def decide_put(target: Any, operand: Any) -> tuple[Any, ...] | None:
    """The plan by which an array or a number is written into an array (or None): as it is."""
    kind = from_numpy_dtype(target)
    if isinstance(operand, type):
        cast: Any = None
        if not (kind.is_floating_point if operand is float else operand is int):
            return None
        if category(kind) not in (1, 2):
            return None
    else:
        cast = _cast_of(operand[0], kind)
        if cast is not None and not isinstance(cast, np.dtype):
            return None
    return None, None, 0, False, (None,), target, target, None, False


_DOUBLE = np.dtype(np.float64)


def _common(op: Pointwise, operands: Sequence[Any]) -> dtype:
    """The dtype that operands which take part in promotion promote to."""
    stand_ins = [
        _ONES[each] if isinstance(each, type) else _C.wrap(np.empty((1,) * each[1], each[0]))
        for each in operands
    ]
    return result_type(*stand_ins[op.masks : len(operands) - op.beside])


def _passes_numbers(compute: dtype, operands: Sequence[Any]) -> bool:
    """True if NumPy takes numbers, as they are, in the dtype that is computed in."""
    if category(compute) > 1:
        return True
    return category(compute) == 1 and {x for x in operands if isinstance(x, type)} == {int}


def _cast_of(old: Any, kind: dtype) -> Any:
    """The cast of arrays of a dtype: None, the dtype if NumPy's own is meant, or a function."""
    new = kind.numpy
    if old == new:
        return None
    if old.kind in "biuf" and new.kind in "biufc" and not (old.kind == "f" and new.kind in "iu"):
        return new
    return functools.partial(cast, kind=kind)
