"""ScriptList and ScriptDict: containers whose elements have one type, which is kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tritorch.jit._errors import Error
from tritorch.schema import types
from tritorch.schema.infer import infer_type
from tritorch.schema.signature import written_float
from tritorch.schema.tensor_type import TensorType
from tritorch.schema.types import Type


def _inferred(value: Any, what: str) -> Any:
    found = infer_type(value)
    if not found.success():
        raise Error(f"Unable to infer type of {what}: {found.reason()}")
    return found.type()


def _put(value: Any, kind: Type) -> Any:
    """The value as an element of this type, containers copied; TypeError if it is none."""
    if isinstance(kind, types.OptionalType):
        return None if value is None else _put(value, kind.getElementType())
    if isinstance(kind, types.FloatType) and type(value) is int:
        return float(value)
    if isinstance(kind, types.ListType) and isinstance(value, (list, ScriptList)):
        return [_put(item, kind.getElementType()) for item in value]
    if isinstance(kind, types.DictType) and isinstance(value, (dict, ScriptDict)):
        key_kind, value_kind = kind.containedTypes()
        return {_put(k, key_kind): _put(v, value_kind) for k, v in value.items()}
    if isinstance(kind, types.TupleType) and isinstance(value, tuple):
        places = kind.elements()
        if len(places) == len(value):
            return tuple(_put(item, place) for item, place in zip(value, places, strict=True))
    else:
        found = infer_type(value)
        if found.success() and found.type().isSubtypeOf(kind):
            return value
    raise TypeError(f"expected a value of type {kind}, got {type(value).__name__} ({value!r})")


def _taken(value: Any) -> Any:
    """The value for a program: containers copied, so that what is in ours keeps its type."""
    if isinstance(value, (list, tuple)):
        return type(value)(_taken(item) for item in value)
    if isinstance(value, dict):
        return {_taken(key): _taken(item) for key, item in value.items()}
    return value


def _shown(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        inside = ", ".join(map(_shown, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_shown(k)}: {_shown(v)}" for k, v in value.items()) + "}"
    return written_float(value) if isinstance(value, float) else str(value)


class ScriptListIterator:
    """What iter() of a `ScriptList` gives."""

    def __init__(self, values: Iterable[Any]) -> None:
        self._values = iter(values)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return _taken(next(self._values))


class ScriptDictKeyIterator(ScriptListIterator):
    """What iter() of a `ScriptDict`, and its keys(), give."""


class ScriptDictIterator(ScriptListIterator):
    """What items() of a `ScriptDict` gives."""


class ScriptList:
    """A list of elements of one type; other values are refused with TypeError."""

    def __init__(self, values: list[Any], /) -> None:
        if not isinstance(values, list):
            raise TypeError(f"ScriptList(): expected a list, got {type(values).__name__}")
        self._kind = _inferred(values, "list").getElementType() if values else TensorType.get()
        self._values = [_put(value, self._kind) for value in values]

    @classmethod
    def _of(cls, kind: Type, values: list[Any]) -> ScriptList:
        self = object.__new__(cls)
        self._kind, self._values = kind, values
        return self

    def __repr__(self) -> str:
        return _shown(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> ScriptListIterator:
        return ScriptListIterator(self._values)

    def __contains__(self, value: object) -> bool:
        return _put(value, self._kind) in self._values

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return ScriptList._of(self._kind, self._values[index])
        return _taken(self._values[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        if not isinstance(index, slice):
            self._values[index] = _put(value, self._kind)
            return
        values = [_put(item, self._kind) for item in value]
        if len(self._values[index]) != len(values):
            raise RuntimeError("Left and right hand size of slice assignment have different sizes")
        self._values[index] = values

    def __delitem__(self, index: int) -> None:
        del self._values[index]

    def append(self, value: Any, /) -> None:
        """Adds an element."""
        self._values.append(_put(value, self._kind))

    def extend(self, values: Iterable[Any], /) -> None:
        """Adds elements: all, or none if one of them has another type."""
        self._values.extend([_put(value, self._kind) for value in values])

    def insert(self, index: int, value: Any, /) -> None:
        """Puts an element before another one, or at the end; IndexError for what is beyond."""
        if not -len(self) <= index <= len(self):
            raise IndexError("list index out of range")
        self._values.insert(index, _put(value, self._kind))

    def pop(self, index: int = -1, /) -> Any:
        """Takes an element out."""
        return _taken(self._values.pop(index))

    def remove(self, value: Any, /) -> None:
        """Takes the first such element out; ValueError if there is none."""
        self._values.remove(_put(value, self._kind))

    def count(self, value: Any, /) -> int:
        """How many such elements there are."""
        return self._values.count(_put(value, self._kind))

    def clear(self) -> None:
        """Takes everything out; the type stays."""
        self._values.clear()

    def __getstate__(self) -> list[Any]:
        return [_taken(value) for value in self._values]

    def __setstate__(self, state: list[Any]) -> None:
        self.__init__(state)  # type: ignore[misc]


class ScriptDict:
    """A dict with keys of one type and values of one type; others are refused."""

    def __init__(self, values: dict[Any, Any], /) -> None:
        if not isinstance(values, dict):
            raise TypeError(f"ScriptDict(): expected a dict, got {type(values).__name__}")
        kind: Type = (
            _inferred(values, "dictionary")
            if values
            else types.DictType(types.StringType.get(), TensorType.get())
        )
        self._key, self._value = kind.containedTypes()
        self._values = _put(values, kind)

    def __repr__(self) -> str:
        return _shown(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def _known(self, key: Any) -> Any:
        try:
            return _put(key, self._key)
        except TypeError as error:
            raise KeyError(str(error)) from None

    def __contains__(self, key: object) -> bool:
        return self._known(key) in self._values

    def __getitem__(self, key: Any) -> Any:
        return _taken(self._values[self._known(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self._values[_put(key, self._key)] = _put(value, self._value)

    def __delitem__(self, key: Any) -> None:
        del self._values[_put(key, self._key)]

    def __iter__(self) -> ScriptDictKeyIterator:
        return ScriptDictKeyIterator(self._values)

    def keys(self) -> ScriptDictKeyIterator:
        """The keys."""
        return ScriptDictKeyIterator(self._values)

    def items(self) -> ScriptDictIterator:
        """The keys with their values."""
        return ScriptDictIterator(self._values.items())

    def __reduce__(self) -> Any:
        return ScriptDict, (_taken(self._values),)


for _class in (
    ScriptDict, ScriptDictIterator, ScriptDictKeyIterator, ScriptList, ScriptListIterator,
):  # fmt: skip
    _class.__module__ = "tritorch"
