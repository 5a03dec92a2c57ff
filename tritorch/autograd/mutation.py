"""`allow_mutation_on_saved_tensors`: saved tensors are copied by who writes them."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from tritorch.arrays import arrays
from tritorch.autograd.saved import saved_tensors_hooks
from tritorch.core import scopes
from tritorch.core.dispatching import TorchDispatchMode
from tritorch.core.scopes import Giving, scoped
from tritorch.core.tensor import Tensor

_OUTSIDE = (
    "Trying to backward outside of the 'allow_mutation_on_saved_tensors' contextin which the graph "
    "was originally recorded."
)
_open: list[Any] = []  # the context that is entered, if one is


class _Handle:
    """What a node keeps in place of a tensor."""

    __slots__ = ("__weakref__",)


class _Saved:
    """What is saved within a context: as it is, or copied because somebody wrote it."""

    def __init__(self) -> None:
        self.cloned: WeakKeyDictionary[_Handle, Tensor] = WeakKeyDictionary()
        self.original: WeakKeyDictionary[_Handle, Tensor] = WeakKeyDictionary()
        # By what a tensor looks at and its version; by its memory, which views share.
        self.tid_to_weakhandle: WeakValueDictionary[Any, _Handle] = WeakValueDictionary()
        self.sid_to_tid: dict[Any, set[Any]] = defaultdict(set)

    def clear(self) -> None:
        """Forgets everything."""
        for each in (self.cloned, self.original, self.tid_to_weakhandle, self.sid_to_tid):
            each.clear()

    def pack(self, tensor: Tensor) -> _Handle:
        """A handle for a tensor; the same for one that looks the same."""
        looks = (arrays.address_of(tensor._array), tuple(tensor.shape), tensor.stride())
        tid = (*looks, tensor.dtype, tensor._version)
        self.sid_to_tid[id(tensor._shared)].add(tid)
        handle = self.tid_to_weakhandle.get(tid)
        if handle is None:
            self.tid_to_weakhandle[tid] = handle = _Handle()
            self.original[handle] = tensor
        return handle

    def unpack(self, handle: _Handle) -> Tensor:
        """The tensor, or its copy."""
        if _open != [self]:
            raise AssertionError(_OUTSIDE)
        found = self.cloned.get(handle)
        found = self.original.get(handle) if found is None else found
        if found is None:
            raise AssertionError(_OUTSIDE)
        return found

    def before_write(self, tensor: Tensor) -> None:
        """Copies what is saved of a memory that is about to be written."""
        for tid in self.sid_to_tid.get(id(tensor._shared), ()):
            handle = self.tid_to_weakhandle.get(tid)
            if handle is not None and handle in self.original:
                with scopes.unrecorded:
                    self.cloned[handle] = self.original.pop(handle).clone()


@scoped
def allow_mutation_on_saved_tensors() -> Giving:
    """Within, writing a tensor that a gradient needs makes a copy for it first; backward passes
    run within too."""
    saved = _Saved()

    class Watch(TorchDispatchMode):
        """Looks at every operator that writes one of its arguments."""

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            for i, argument in enumerate(func._schema.arguments):
                if argument.alias_info is None or not argument.alias_info.is_write:
                    continue
                given = args[i] if i < len(args) else kwargs.get(argument.name)
                for each in given if isinstance(given, (list, tuple)) else (given,):
                    if isinstance(each, Tensor):
                        saved.before_write(each)
            return func(*args, **kwargs)

    if _open:
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    opens = (partial(_open.append, saved), None, _open.clear)
    return Giving(
        saved, scopes.set_back(saved.clear), opens,
        saved_tensors_hooks(saved.pack, saved.unpack), Watch(),
    )  # fmt: skip
