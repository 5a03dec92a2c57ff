"""Devices: a type and, for CUDA, an index."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

from tritorch import _C

_TYPES = ("cpu", "cuda", "meta")


class device:
    """`device("cuda:1")`, `device("cuda", 1)`, `device("cpu")`, `device(1)` (a CUDA index)."""

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __init__(self, type: str | int | device, index: int | None = None) -> None:
        if isinstance(type, device):
            index = type.index
            type = type.type
        elif isinstance(type, int) and not isinstance(type, bool):
            index = type
            type = "cuda"
        elif isinstance(type, str):
            match = re.fullmatch(r"([a-z_]+)(?::(0|[1-9]\d*))?", type)
            if match is None:
                raise RuntimeError(f"Invalid device string: '{type}'")
            if match[2] is not None:
                if index is not None:
                    raise RuntimeError(
                        f"type (string) must not include an index because index was passed "
                        f"explicitly: {type}"
                    )
                index = int(match[2])
            type = match[1]
        else:
            raise TypeError(f"device(): argument 'type' must be str or int, not {type!r}")
        if type not in _TYPES:
            raise RuntimeError(
                f"Expected one of {', '.join(_TYPES)} device type at start of device string: {type}"
            )
        if index is not None and index < 0:
            raise RuntimeError(f"Device index must not be negative, got {index}")
        object.__setattr__(self, "type", type)
        object.__setattr__(self, "index", index)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"attribute '{name}' of 'tritorch.device' objects is not writable")

    def __repr__(self) -> str:
        return f"device(type='{self.type}'" + (
            ")" if self.index is None else f", index={self.index})"
        )

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (self.type, self.index)

    def __enter__(self) -> device:
        """`with device("cuda"):` factories make their tensors here."""
        from tritorch.core import defaults

        defaults.push_device(self)
        return self

    def __exit__(self, *exception: Any) -> None:
        from tritorch.core import defaults

        defaults.pop_device()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """As a decorator: the function runs inside `with device(...)`."""

        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return inside


def cuda_index(where: Any) -> int:
    """The index behind an int, string, device or None (the current device)."""
    if where is None:
        return _C.current_device()
    if isinstance(where, int) and not isinstance(where, bool):
        return _C.current_device() if where < 0 else where
    resolved = where if isinstance(where, device) else device(where)
    if resolved.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {resolved}")
    return _C.current_device() if resolved.index is None else resolved.index
