"""Types of tensors by their sizes, some of which are not known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tritorch.fx._compatibility import compatibility
from tritorch.fx.experimental.unification import Var

__all__ = ["Dyn", "TensorType", "is_consistent", "is_more_precise"]


@compatibility(is_backward_compatible=False)
class TensorType:
    """The type of tensors with these sizes: `TensorType((1, 3, Dyn))`."""

    def __init__(self, dim: Sequence[Any]) -> None:
        self.__origin__ = TensorType
        self.__args__ = dim

    @property
    def dims(self) -> Any:
        """The sizes."""
        return self.__args__

    def __repr__(self) -> str:
        return f"TensorType[{self.dims}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorType) and list(self.dims) == list(other.dims)

    @staticmethod
    def __class_getitem__(*args: Any) -> TensorType:
        inside = args[0] if len(args) == 1 and isinstance(args[0], tuple) else args
        return TensorType(tuple(inside))


class _DynType:
    """The type of what is not known."""

    def __init__(self) -> None:
        self.__name__ = "_DynType"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _DynType)

    def __hash__(self) -> int:
        return hash(_DynType)

    def __repr__(self) -> str:
        return "Dyn"


Dyn = _DynType()


def _elementwise(a: Any, b: Any, holds: Callable[[Any, Any], bool]) -> bool:
    both = isinstance(a, TensorType) and isinstance(b, TensorType)
    return both and len(a.dims) == len(b.dims) and all(map(holds, a.dims, b.dims))


@compatibility(is_backward_compatible=False)
def is_consistent(t1: Any, t2: Any) -> bool:
    """Whether a value may have both types: what is not known is consistent with everything."""
    if t1 in (t2, Dyn) or t2 == Dyn or isinstance(t1, Var) or isinstance(t2, Var):
        return True
    return _elementwise(t1, t2, is_consistent)


@compatibility(is_backward_compatible=False)
def is_more_precise(t1: Any, t2: Any) -> bool:
    """Whether every value of the first type has the second."""
    return t1 == t2 or isinstance(t2, _DynType) or _elementwise(t1, t2, is_more_precise)
