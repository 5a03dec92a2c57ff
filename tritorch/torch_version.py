"""A version that compares as versions do."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["TorchVersion"]

# The PyTorch whose API this is: what programs mean that look at torch.__version__.
API = "2.13.0+tritorch"

_ORDER = {"dev": -4, "a": -3, "b": -2, "rc": -1, "": 0, "post": 1}
_PARTS = re.compile(r"v?(\d+(?:\.\d+)*)[-_.]?(dev|a|b|rc|post|)(\d*)[^+]*(?:\+(.*))?")


def _key(version: Any) -> Any:
    """What versions are ordered by: the release, what comes before or after it, the local part."""
    if not isinstance(version, str) and hasattr(version, "__iter__"):
        version = ".".join(map(str, version))
    match = _PARTS.fullmatch(str(version))
    if match is None:
        return None
    release = tuple(map(int, match[1].split(".")))
    while release and release[-1] == 0:
        release = release[:-1]
    return release, _ORDER[match[2]], int(match[3] or 0), match[4] or ""


class TorchVersion(str):
    """A string that compares with strings and tuples by number: "1.10" is after "1.9"."""

    def _compare(self, other: Any, name: str) -> Any:
        mine, theirs = _key(str(self)), _key(other)
        if mine is None or theirs is None:  # not versions
            return getattr(str, name)(self, other)
        return getattr(mine, name)(theirs)

    def __lt__(self, other: Any) -> bool:
        return self._compare(other, "__lt__")

    def __le__(self, other: Any) -> bool:
        return self._compare(other, "__le__")

    def __gt__(self, other: Any) -> bool:
        return self._compare(other, "__gt__")

    def __ge__(self, other: Any) -> bool:
        return self._compare(other, "__ge__")

    def __eq__(self, other: object) -> bool:
        return self._compare(other, "__eq__")

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__
