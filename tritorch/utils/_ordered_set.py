"""A set that keeps the order in which its members came."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableSet, Reversible, Set as AbstractSet
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class OrderedSet(MutableSet[T], Reversible[T], Generic[T]):
    """A set in the order of insertion."""

    __slots__ = ("_dict",)

    def __init__(self, iterable: Iterable[T] | None = None) -> None:
        self._dict: dict[T, None] = dict.fromkeys(iterable or ())

    @staticmethod
    def _from_dict(members: dict[T, None]) -> OrderedSet[T]:
        made: OrderedSet[T] = OrderedSet()
        made._dict = members
        return made

    def __contains__(self, member: object) -> bool:
        return member in self._dict

    def __iter__(self) -> Iterator[T]:
        return iter(self._dict)

    def __reversed__(self) -> Iterator[T]:
        return reversed(self._dict)

    def __len__(self) -> int:
        return len(self._dict)

    def __bool__(self) -> bool:
        return bool(self._dict)

    def add(self, elem: T) -> None:
        """Adds a member at the end, where it is not one yet."""
        self._dict[elem] = None

    def discard(self, elem: T) -> None:
        """Takes a member away, where it is one."""
        self._dict.pop(elem, None)

    def clear(self) -> None:
        """Takes all away."""
        self._dict.clear()

    def copy(self) -> OrderedSet[T]:
        """A set of the same members."""
        return OrderedSet(self)

    def pop(self) -> T:
        """Takes the first member away."""
        if not self:
            raise KeyError("pop from an empty set")
        first = next(iter(self._dict))
        del self._dict[first]
        return first

    def update(self, *others: Iterable[T]) -> None:
        """Adds the members of others."""
        for other in others:
            self._dict.update(dict.fromkeys(other))

    def difference(self, *others: Iterable[T]) -> OrderedSet[T]:
        """The members that no other has."""
        found = self.copy()
        found.difference_update(*others)
        return found

    def difference_update(self, *others: Iterable[T]) -> None:
        """Takes the members of others away."""
        for other in others:
            for member in list(other):
                self.discard(member)

    def intersection(self, *others: Iterable[T]) -> OrderedSet[T]:
        """The members that every other has."""
        found = self.copy()
        for other in others:
            kept = set(other)
            found = OrderedSet(member for member in found if member in kept)
        return found

    def intersection_update(self, *others: Iterable[T]) -> None:
        """Keeps the members that every other has."""
        self._dict = self.intersection(*others)._dict

    def issubset(self, other: AbstractSet[T]) -> bool:
        """Whether another has every member."""
        return self <= self._set(other)

    def issuperset(self, other: AbstractSet[T]) -> bool:
        """Whether every member of another is one of this."""
        return self >= self._set(other)

    def symmetric_difference(self, other: AbstractSet[T]) -> OrderedSet[T]:
        """The members of one of the two."""
        return self ^ self._set(other)

    def symmetric_difference_update(self, other: AbstractSet[T]) -> None:
        """Becomes the members of one of the two."""
        self ^= self._set(other)

    def union(self, *others: Iterable[T]) -> OrderedSet[T]:
        """The members of all."""
        found = self.copy()
        found.update(*others)
        return found

    @staticmethod
    def _set(other: Iterable[Any]) -> AbstractSet[Any]:
        return other if isinstance(other, AbstractSet) else OrderedSet(other)

    def __and__(self, other: AbstractSet[T]) -> OrderedSet[T]:
        return self.intersection(other)

    def __or__(self, other: AbstractSet[T]) -> OrderedSet[T]:  # type: ignore[override]
        return self.union(other)

    def __sub__(self, other: AbstractSet[T]) -> OrderedSet[T]:
        return self.difference(other)

    def __xor__(self, other: AbstractSet[T]) -> OrderedSet[T]:  # type: ignore[override]
        return (self - other) | (OrderedSet(other) - self)

    def __ior__(self, other: AbstractSet[T]) -> OrderedSet[T]:  # type: ignore[override]
        self.update(other)
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)})" if self else f"{type(self).__name__}()"

    def __getstate__(self) -> list[T]:
        return list(self._dict)

    def __setstate__(self, state: list[T]) -> None:
        self._dict = dict.fromkeys(state)
