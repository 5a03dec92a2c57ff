"""The one type that values of several types have."""

from __future__ import annotations

from collections.abc import Sequence

from tritorch.schema.tensor_type import TensorType
from tritorch.schema.types import FutureType, NoneType, OptionalType, TupleType, Type


def unify(a: Type, b: Type) -> Type | None:
    """The narrowest type that both are without a union; None if there is none."""
    if a.isSubtypeOf(b):
        return b
    if b.isSubtypeOf(a):
        return a
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        return TensorType.get()
    for one, other in (a, b), (b, a):
        if isinstance(other, NoneType):
            return OptionalType(one)
        if isinstance(one, OptionalType):
            element = unify(one.getElementType(), other)
            return None if element is None else OptionalType(element)
    if isinstance(a, TupleType) and isinstance(b, TupleType):
        if len(a.elements()) != len(b.elements()):
            return None
        places = [unify(x, y) for x, y in zip(a.elements(), b.elements(), strict=True)]
        return None if None in places else TupleType([p for p in places if p is not None])
    if isinstance(a, FutureType) and isinstance(b, FutureType):
        element = unify(a.getElementType(), b.getElementType())
        return None if element is None else FutureType(element)
    return None


def unify_type_list(types: Sequence[Type], /) -> Type:
    """The type that values of all these types have; RuntimeError if there is none."""
    if not types:
        raise RuntimeError("Cannot get unified type from empty list")
    found = types[0]
    for at, kind in enumerate(types[1:], 1):
        both = unify(found, kind)
        if both is None:
            raise RuntimeError(
                f"Could not unify type list since element {at} of type {kind} did not match the "
                f"types before it ({found})"
            )
        found = both
    return found
