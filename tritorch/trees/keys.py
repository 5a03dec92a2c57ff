"""Where a leaf is in its tree: a key path is a tuple of these."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


class KeyEntry(Protocol):
    """One step of a key path."""

    def __hash__(self) -> int: ...

    def __eq__(self, other: object) -> bool: ...

    def __str__(self) -> str: ...

    def get(self, parent: Any) -> Any:
        """The child that the step leads to."""


KeyPath = tuple[KeyEntry, ...]


@dataclass(frozen=True, slots=True)
class SequenceKey(Generic[T]):
    """The step to an item of a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Sequence[T]) -> T:
        """The item."""
        return sequence[self.idx]


@dataclass(frozen=True, slots=True)
class MappingKey(Generic[K, T]):
    """The step to a value of a mapping."""

    key: K

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Mapping[K, T]) -> T:
        """The value."""
        return mapping[self.key]


@dataclass(frozen=True, slots=True)
class GetAttrKey:
    """The step to an attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """The attribute."""
        return getattr(obj, self.name)
