"""Two tensors change places: what holds one sees what the other was."""

from __future__ import annotations

import copyreg
import weakref
from typing import Any

from tritorch import _C


def swap_tensors(t1: Any, t2: Any) -> None:
    """Each of two tensors becomes what the other is: class, memory, history and attributes."""
    for name, tensor in (("t1", t1), ("t2", t2)):
        if not isinstance(tensor, _C.TensorBase):
            raise AttributeError(f"'{type(tensor).__name__}' object has no attribute '_use_count'")
        if weakref.getweakrefs(tensor):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    if set(copyreg._slotnames(type(t1))) != set(copyreg._slotnames(type(t2))):  # type: ignore[attr-defined]
        raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    if type(t1) is not type(t2):
        t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    first, second = dict(t1.__dict__), dict(t2.__dict__)
    t1.__dict__.clear()
    t2.__dict__.clear()
    t1.__dict__.update(second)
    t2.__dict__.update(first)
    _C.swap_tensors(t1, t2)
