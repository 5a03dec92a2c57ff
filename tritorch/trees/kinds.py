"""Which classes are named tuples, and which CPython's struct sequences (`time.struct_time`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NoReturn, TypeVar

_T_co = TypeVar("_T_co", covariant=True)
Py_TPFLAGS_BASETYPE = 1 << 10  # of a type that may have subclasses


def is_namedtuple(obj: object) -> bool:
    """Whether a class is a named tuple, or an object an instance of one."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_namedtuple_class(cls: Any) -> bool:
    """Whether this is the class of a named tuple, or derives from one."""
    if not isinstance(cls, type) or not issubclass(cls, tuple):
        return False
    fields = getattr(cls, "_fields", None)
    return (
        isinstance(fields, tuple)
        and all(type(field) is str for field in fields)
        and callable(getattr(cls, "_make", None))
        and callable(getattr(cls, "_asdict", None))
    )


def is_namedtuple_instance(obj: object) -> bool:
    """Whether an object is a named tuple."""
    return is_namedtuple_class(type(obj))


class structseq(tuple[_T_co, ...]):
    """What CPython's struct sequences look like, for annotations: it has no instances."""

    __slots__ = ()

    n_fields: Final[int]  # type: ignore[misc]
    n_sequence_fields: Final[int]  # type: ignore[misc]
    n_unnamed_fields: Final[int]  # type: ignore[misc]

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("type 'structseq' is not an acceptable base type")

    def __new__(cls, sequence: Iterable[_T_co], dict: dict[str, Any] = ...) -> structseq[_T_co]:
        raise NotImplementedError


def is_structseq(obj: object) -> bool:
    """Whether a class is a struct sequence, or an object an instance of one."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls: Any) -> bool:
    """Whether this is the class of a struct sequence, which has no subclasses."""
    return (
        isinstance(cls, type)
        and cls.__bases__ == (tuple,)
        and all(
            isinstance(getattr(cls, count, None), int)
            for count in ("n_fields", "n_sequence_fields", "n_unnamed_fields")
        )
        and not cls.__flags__ & Py_TPFLAGS_BASETYPE
    )


def is_structseq_instance(obj: object) -> bool:
    """Whether an object is a struct sequence."""
    return is_structseq_class(type(obj))
