"""What an unflattened program looks at in its inputs: sizes, ranges, and values that are fixed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tritorch.arrays.symbolic import SymInt
from tritorch.core.size import Size
from tritorch.core.tensor import Tensor
from tritorch.export._unlift import evaluated, solve
from tritorch.utils._pytree import keystr

_REDO = (
    " If you meant for this dimension to be dynamic, please re-export and specify dynamic_shapes "
    "(e.g. with Dim.DYNAMIC)"
)


def place_of(path: Sequence[Any]) -> str:
    """Where a leaf of (args, kwargs) is, in words of the call."""
    which, *rest = path
    if getattr(which, "idx", 0) == 0:
        return f"*args{keystr(tuple(rest))}"
    name, *rest = rest
    return f"{str(name)[1:-1]}{keystr(tuple(rest))}"


class Inputs:
    """What the inputs of a program are like."""

    def __init__(self, values: Sequence[Any], ranges: Mapping[Any, Any]) -> None:
        # Of a tensor its sizes: it has no memory that could be copied.
        self.values = [x._array.shape if isinstance(x, Tensor) else x for x in values]
        self.ranges = {str(number): each for number, each in ranges.items()}

    def __deepcopy__(self, memo: Any) -> Inputs:
        return self

    def require(self, places: Sequence[str], leaves: Sequence[Any]) -> None:
        """Raises where a leaf is not as the program has it."""
        if len(leaves) != len(self.values):
            raise RuntimeError(
                "Unexpected number of inputs "
                f"(expected {len(self.values)}, got {len(leaves)})"
            )  # fmt: skip
        symbols: dict[str, int] = {}
        for place, value, leaf in zip(places, self.values, leaves):
            where = f"Expected input at {place} to be"
            if isinstance(value, tuple):
                if not isinstance(leaf, Tensor):
                    raise RuntimeError(f"{where} a tensor, but got {type(leaf)}")
                if leaf.ndim != len(value):
                    raise RuntimeError(
                        f"Unexpected number of dimensions in input at {place}.shape "
                        f"(expected {Size(value)}, got {leaf.shape})"
                    )
                for dim, (wanted, given) in enumerate(zip(value, leaf.shape)):
                    self._size(wanted, given, f"{place}.shape[{dim}]", symbols)
            elif isinstance(value, SymInt):
                self._size(value, leaf, place, symbols)
            elif isinstance(value, (int, float, str)):
                no_numbers = value != value and leaf != leaf
                if type(leaf) is not type(value) or not (no_numbers or leaf == value):
                    raise RuntimeError(f"{where} equal to {value}, but got {leaf}")

    def _size(self, wanted: Any, given: int, place: str, symbols: dict[str, int]) -> None:
        where = f"Expected input at {place} to be"
        if not isinstance(wanted, SymInt):
            if wanted != given:
                raise RuntimeError(f"{where} equal to {wanted}, but got {given}.{_REDO}")
            return
        known = evaluated(wanted, symbols)
        if known is None:
            if (symbol := solve(wanted, given, symbols)) is not None:
                raise RuntimeError(
                    f"Expected input {place} = {given} to be of the form {wanted}, where "
                    f"{symbol} is an integer"
                )
        elif known != given:
            raise RuntimeError(f"{where} equal to {known}, but got {given}")
        limits = self.ranges.get(str(wanted))
        if limits is None:
            return
        if limits.lower > 2 and given < limits.lower:
            raise RuntimeError(f"{where} >= {limits.lower}, but got {given}")
        if limits.upper < math.inf and given > limits.upper:
            raise RuntimeError(f"{where} <= {limits.upper}, but got {given}")
