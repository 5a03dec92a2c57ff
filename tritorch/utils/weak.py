"""Dicts whose keys are compared by identity and held weakly: tensors, which compare elementwise.

A dict is walked over a copy of its entries, so keys may die meanwhile.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from tritorch.core.tensor import Tensor

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]

WeakRef = weakref.ref


class WeakIdRef(weakref.ref[Any]):
    """A weak reference that is equal to others of the same object."""

    __slots__ = ("_id",)

    def __init__(self, key: Any, callback: Any = None) -> None:
        self._id = self._number(key)
        super().__init__(key, callback)  # type: ignore[call-arg]

    @staticmethod
    def _number(key: Any) -> int:
        return id(key)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: Any) -> bool:
        a, b = self(), other()
        return a is b if a is not None and b is not None else self is other


class _WeakHashRef(WeakIdRef):
    """A weak reference that is equal to others of objects with the same hash."""

    __slots__ = ()

    @staticmethod
    def _number(key: Any) -> int:
        return hash(key)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: Any) -> bool:
        a, b = self(), other()
        return hash(a) == hash(b) if a is not None and b is not None else self is other


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """A dict from objects that are held weakly and compared by identity."""

    def __init__(self, dict: Any = None, ref_type: Any = WeakIdRef) -> None:
        self.data: Any = {}
        self.ref_type = ref_type

        reference = weakref.ref(self)

        def remove(key: Any) -> None:
            own = reference()
            if own is not None:
                own.data.pop(key, None)

        self._remove = remove
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._remove)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __len__(self) -> int:
        return len(self.data)

    def __contains__(self, key: Any) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # what has no weak references
            return False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"

    def items(self) -> Iterator[tuple[Any, Any]]:  # type: ignore[override]
        """The keys that live, each with its value."""
        for ref, value in list(self.data.items()):
            key = ref()
            if key is not None:
                yield key, value

    def keys(self) -> Iterator[Any]:  # type: ignore[override]
        """The keys that live."""
        return (key for key, _ in self.items())

    __iter__ = keys

    def values(self) -> Iterator[Any]:  # type: ignore[override]
        """The values of keys that live."""
        return (value for _, value in self.items())

    def keyrefs(self) -> list[Any]:
        """The weak references to the keys."""
        return list(self.data)

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of a key, or the default."""
        return self.data.get(self.ref_type(key), default)

    def pop(self, key: Any, *default: Any) -> Any:
        """Takes a key out, and gives its value."""
        return self.data.pop(self.ref_type(key), *default)

    def popitem(self) -> tuple[Any, Any]:
        """Takes out the last key that lives."""
        while True:
            ref, value = self.data.popitem()
            key = ref()
            if key is not None:
                return key, value

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """The value of a key, which is given the default if it has none."""
        return self.data.setdefault(self.ref_type(key, self._remove), default)

    def update(self, dict: Any = None, **kwargs: Any) -> None:  # type: ignore[override]
        """Takes over the entries of a mapping, or of pairs."""
        if dict is not None:
            pairs = dict if hasattr(dict, "items") else {}.__class__(dict)
            for key, value in pairs.items():
                self[key] = value
        for key, value in kwargs.items():
            self[key] = value

    def copy(self) -> WeakIdKeyDictionary:
        """A dict of the same kind with the same entries."""
        new = type(self)(ref_type=self.ref_type)
        new.update(self)
        return new

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> WeakIdKeyDictionary:
        new = type(self)(ref_type=self.ref_type)
        for key, value in self.items():
            new[key] = copy.deepcopy(value, memo)
        return new

    def __ior__(self, other: Any) -> WeakIdKeyDictionary:
        self.update(other)
        return self

    def __or__(self, other: Any) -> Any:
        return self.copy().__ior__(other) if isinstance(other, Mapping) else NotImplemented

    def __ror__(self, other: Any) -> Any:
        if not isinstance(other, Mapping):
            return NotImplemented
        new = type(self)(other, self.ref_type)
        new.update(self)
        return new

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        theirs = {id(key): value for key, value in other.items()}
        return {id(key): value for key, value in self.items()} == theirs


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor."""

    def __init__(self, tensor: Tensor) -> None:
        if not isinstance(tensor, Tensor):
            raise AssertionError(f"expected torch.Tensor, got {type(tensor)}.")
        self.ref = weakref.ref(tensor)

    def __call__(self) -> Tensor | None:
        return self.ref()
