"""Batches in page-locked memory, from which copies to a GPU need not wait."""

from __future__ import annotations

import collections.abc
from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.utils.data._utils.collate import _like_mapping, _like_sequence


def pin_memory(data: Any, device: Any = None) -> Any:
    """Every tensor in it pinned; objects with a `pin_memory` method by that."""
    if isinstance(data, Tensor):
        return data.pin_memory()
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, collections.abc.Mapping):
        return _like_mapping(data, {key: pin_memory(data[key]) for key in data})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(pin_memory(item) for item in data))
    if isinstance(data, tuple):
        return [pin_memory(item) for item in data]
    if isinstance(data, collections.abc.Sequence):
        return _like_sequence(data, [pin_memory(item) for item in data])
    return data
