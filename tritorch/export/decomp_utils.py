"""The table of functions that stand for operators in exported graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["CustomDecompTable"]


class CustomDecompTable(dict[Any, Callable[..., Any]]):
    """Functions by the overload that they stand for: at first the package's own, found when they
    are asked for; programs add theirs and take others out."""

    def __init__(self) -> None:
        super().__init__()
        self._removed: set[Any] = set()
        self._filled = False

    def _fill(self) -> None:
        if self._filled:
            return
        self._filled = True
        from tritorch.export._decompositions import table

        for key, function in table().items():
            if key not in self._removed:
                dict.setdefault(self, key, function)

    materialize = _materialize_if_needed = _fill

    def __getitem__(self, key: Any) -> Callable[..., Any]:
        self._fill()
        return super().__getitem__(key)

    def __contains__(self, key: Any) -> bool:
        self._fill()
        return super().__contains__(key)

    def __delitem__(self, key: Any) -> None:
        self.pop(key)

    def pop(self, *args: Any) -> Any:
        """Takes an operator out: it stays in graphs."""
        self._fill()
        self._removed.add(args[0])
        return super().pop(*args)

    def get(self, key: Any, default: Any = None) -> Any:
        """The function of an operator."""
        self._fill()
        return super().get(key, default)

    def __len__(self) -> int:
        self._fill()
        return super().__len__()

    def __iter__(self) -> Iterator[Any]:
        self._fill()
        return super().__iter__()

    def __reversed__(self) -> Iterator[Any]:
        self._fill()
        return super().__reversed__()

    def keys(self) -> Any:
        """The operators."""
        self._fill()
        return super().keys()

    def items(self) -> Any:
        """The operators with their functions."""
        self._fill()
        return super().items()

    def copy(self) -> CustomDecompTable:
        """A table that may be changed by itself."""
        made = CustomDecompTable()
        self._fill()
        dict.update(made, self)
        made._filled, made._removed = True, set(self._removed)
        return made
