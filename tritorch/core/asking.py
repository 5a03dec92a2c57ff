"""Subclasses that are asked for their sizes, strides, layout or device.

`_make_subclass` and `_make_wrapper_subclass` may say that a tensor's class is: its
`__torch_dispatch__` then gets `aten.sym_size`, `aten.is_contiguous`, `prim.device` and the like,
and answers, or gives None for what the tensor says itself.  What does the asking is put on the
class, so that other tensors pay nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritorch.arrays import arrays
from tritorch.arrays.meta import MetaArray
from tritorch.core import dispatching, late_bound
from tritorch.core.size import Size

# The policy under which a class is asked, by operator.
QUESTIONS = {
    "aten::is_contiguous": "strides",
    "aten::is_contiguous.memory_format": "strides",
    "aten::is_strides_like_format": "strides",
    "aten::is_non_overlapping_and_dense": "strides",
    "aten::sym_stride": "strides",
    "aten::dim": "sizes",
    "aten::sym_size": "sizes",
    "aten::sym_numel": "sizes",
    "aten::numel": "sizes",
    "aten::sym_storage_offset": "sizes",
    "prim::layout": "layout",
    "prim::device": "device",
}
_NONE: frozenset[str] = frozenset()


def policies(sizes_strides: str | None, device: bool, layout: bool) -> frozenset[str]:
    """What a tensor's class is asked for: about sizes means about strides too."""
    if sizes_strides not in (None, "sizes", "strides"):
        raise RuntimeError(
            f"Unknown sizes_strides_policy: {sizes_strides}; expected 'strides', 'sizes' or None"
        )
    found = {"sizes": {"sizes", "strides"}, "strides": {"strides"}, None: set()}[sizes_strides]
    return frozenset(found | ({"device"} if device else set()) | ({"layout"} if layout else set()))


def answer(tensor: Any, question: str, *args: Any) -> Any:
    """What a tensor's class, or a mode, says; None: what the tensor says itself."""
    asks = tensor.__dict__.get("_asks", _NONE)
    if QUESTIONS[question] not in asks or dispatching.off.classes:
        return None
    return late_bound.answered_question(question, tensor, args)


def watch(tensor: Any, asks: frozenset[str]) -> None:
    """Has a tensor's class be asked for it."""
    tensor._asks = asks
    cls = type(tensor)
    for name, made in _ASKING.items():
        if not any(name in vars(base) for base in cls.__mro__[: cls.__mro__.index(_tensor())]):
            setattr(cls, name, made(getattr(_tensor(), name)))


def _tensor() -> Any:
    return dispatching._tensor


def _numbers(question: str, make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`size()`, `stride()`: of all dims, or of one."""

    def made(plain: Any) -> Any:
        def asked(self: Any, dim: int | None = None) -> Any:
            found = answer(self, question)
            if found is None:
                return plain(self) if dim is None else plain(self, dim)
            return make(found) if dim is None else found[dim]

        return asked

    return made


def _number(question: str) -> Callable[[Any], Any]:
    def made(plain: Any) -> Any:
        def asked(self: Any) -> Any:
            found = answer(self, question)
            return plain(self) if found is None else found

        return asked

    return made


def _property(question: str, make: Callable[[Any], Any] = lambda x: x) -> Callable[[Any], Any]:
    def made(plain: Any) -> Any:
        def asked(self: Any) -> Any:
            found = answer(self, question)
            return plain.__get__(self) if found is None else make(found)

        return property(asked)

    return made


def _contiguity(plain: Any) -> Any:
    def is_contiguous(self: Any, memory_format: Any = None) -> Any:
        if memory_format is None:
            found = answer(self, "aten::is_contiguous")
            return plain(self) if found is None else found
        found = answer(self, "aten::is_contiguous.memory_format", memory_format)
        return plain(self, memory_format=memory_format) if found is None else found

    return is_contiguous


def _contiguous(plain: Any) -> Any:
    def contiguous(self: Any, *args: Any, **kwargs: Any) -> Any:
        asks = "strides" in self.__dict__.get("_asks", _NONE)
        if asks and self.is_contiguous(*args, **kwargs):
            return self
        return plain(self, *args, **kwargs)

    return contiguous


def _address(plain: Any) -> Any:
    def data_ptr(self: Any) -> int:
        answer(self, "aten::numel")  # a tensor without elements has no address
        array = self._array
        return 0 if type(array) is MetaArray else arrays.address_of(array)

    return data_ptr


_ASKING: dict[str, Callable[[Any], Any]] = {
    "size": _numbers("aten::sym_size", lambda found: Size(found)),
    "stride": _numbers("aten::sym_stride", tuple),
    "shape": _property("aten::sym_size", lambda found: Size(found)),
    "dim": _number("aten::dim"),
    "ndimension": _number("aten::dim"),
    "ndim": _property("aten::dim"),
    "numel": _number("aten::sym_numel"),
    "storage_offset": _number("aten::sym_storage_offset"),
    "is_contiguous": _contiguity,
    "contiguous": _contiguous,
    "data_ptr": _address,
    "device": _property("prim::device"),
    "layout": _property("prim::layout"),
}
