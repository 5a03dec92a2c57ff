"""The dispatch modes that are entered, and the way of every operator to them.

# Note [Watching]
A `TorchDispatchMode` sees the operators of a program below autograd, whatever their tensors are.
Fast paths read `x._a` and leave what does not have it to `ops/record/door.py`; so while a mode
is entered somewhere, `Tensor._a` is a property that a thread inside of modes finds unset.  Nothing
is asked in a program that enters none.  Factories have no tensors to look at: they ask `watching`.
"""

from __future__ import annotations

import threading
from typing import Any

from tritorch import _C
from tritorch.arrays import arrays
from tritorch.core.scopes import Scope, ScopeItself
from tritorch.core.thread_state import carried


class _Entered(threading.local):
    note: Any = None  # is told of each record's call: Note [Noting]

    def __init__(self) -> None:
        self.modes: list[Any] = []  # innermost last


entered = carried(_Entered())
watching: list[None] = []  # one item for each mode entered in any thread
_tensor: Any = None  # the class Tensor
_PLAIN: Any = vars(_C.TensorBase)["_a"]


def _seen(tensor: Any) -> Any:
    if entered.modes or entered.note is not None:
        raise AttributeError("_a")
    return _PLAIN.__get__(tensor)


_SEEN = property(_seen, _PLAIN.__set__, _PLAIN.__delete__)


def mode_changes(mode: Any) -> tuple[Any, ...]:
    """The changes that make a mode the innermost one of this thread, Note [Scopes]."""
    return (_C.unfollow, 1), (_C.watch, 1), (entered, "modes", [*entered.modes, mode])


def enter(mode: Any) -> None:
    """Makes a mode the innermost one of this thread."""
    _C.unfollow(1)
    _C.watch(1)
    entered.modes = [*entered.modes, mode]


def leave() -> Any:
    """Takes the innermost mode off."""
    *rest, mode = entered.modes
    entered.modes = rest
    _C.watch(-1)
    _C.unfollow(-1)
    return mode


# # Note [Noting]
# The compiler, which records a program (tritorch/compilation), is told of the records' calls in the
# same way: operators come to the door, which runs them plainly, and tells.


def noting(note: Any) -> Scope:
    """`with noting(note):` note(form, op, tensors, params, result) is told of each record's call.

    form: a text of `NoteForm` in `compilation/follow/tape.py`: "call"; "pointwise" (params: out);
    "in place"; "make", of a factory; ... or "look", at values."""
    return Scope((_C.watch, 1), (entered, "note", note))


def noted(form: str, op: Any, tensors: Any, params: Any, run: Any) -> Any:
    """Runs a record's call unwatched, and tells who notes it."""
    note = entered.note
    with Scope((entered, "note", None)):
        result = run()
    note(form, op, tensors, params, result)
    return result


class _Copy:
    """The stand-in for a record where a tensor is kept as it is before a write."""

    name, kind, is_view, flushes, raises = "copy", "internal", False, False, False


COPY = _Copy()


def kept_copy(tensor: Any) -> Any:
    """A tensor with a copy of another one's memory, of which those who note calls are told."""
    copied = _C.wrap(arrays.copy(tensor._array))
    if watching and entered.note is not None:
        entered.note("copy", COPY, (tensor,), (), copied)
    return copied


def unnoted() -> Scope:
    """`with unnoted():` what is computed is the affair of a single call: nobody is told of its
    parts, and no mode sees them."""
    return Scope((entered, "note", None), (entered, "modes", []))


class without_modes(Scope):
    """`with without_modes(n):` the n innermost modes of this thread, or all, are off."""

    def __init__(self, count: int | None = None) -> None:
        self.count = count

    def modes(self) -> list[Any]:
        """The modes that are off inside, the innermost last."""
        return entered.modes[len(entered.modes) - self._off() :]

    def _off(self) -> int:
        return len(entered.modes) if self.count is None else self.count

    def changes(self) -> Any:
        return ((entered, "modes", entered.modes[: len(entered.modes) - self._off()]),)


class TorchDispatchMode(ScopeItself):
    """While entered, its `__torch_dispatch__` is asked about every operator on tensors.

    Inside of `__torch_dispatch__` the mode itself is off, so that calling `func` does not come
    back."""

    def __init__(self, _dispatch_key: Any = None) -> None:
        """_dispatch_key: of PyTorch's own modes, without effect."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError

    def changes(self) -> Any:
        return mode_changes(self)

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """The mode itself (former name)."""
        import warnings

        warnings.warn(
            "`Mode.push()` is no longer necessary and can be replaced with just `with Mode()`",
            stacklevel=2,
        )
        return cls(*args, **kwargs)

    @classmethod
    def is_infra_mode(cls) -> bool:
        """True for one of the compiler's own."""
        return False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """True if the compiler's own calls are not to be seen."""
        return False


TorchDispatchMode.__module__ = "tritorch.utils._python_dispatch"


# ---- classes -------------------------------------------------------------------------------------


class _Off(threading.local):
    classes = False  # whether `__torch_dispatch__` of classes is left aside


off = carried(_Off())


class _Recording(threading.local):
    above = False  # whether gradients are recorded where the operator that is answered was called


recording = carried(_Recording())


def _seen_of_class(tensor: Any) -> Any:
    if not off.classes or entered.modes:
        raise AttributeError("_a")
    return _PLAIN.__get__(tensor)


_SEEN_OF_CLASS = property(_seen_of_class, _PLAIN.__set__, _PLAIN.__delete__)


def watch_class(cls: Any) -> None:
    """Leads operators of a class that has `__torch_dispatch__` to the door."""
    if dispatches(cls) and "_a" not in vars(cls):
        cls._a = _SEEN_OF_CLASS


def dispatches(cls: Any) -> bool:
    """True for a class of tensors with a `__torch_dispatch__` of its own."""
    return cls is not _tensor and getattr(cls, "__torch_dispatch__", None) not in (None, DISABLED)


def asked(*tensors: Any) -> bool:
    """True if a mode is asked about an operator on these, or the class of one."""
    if watching and entered.modes:
        return True
    return not off.classes and any(
        type(x) is not _tensor and isinstance(x, _tensor) and dispatches(type(x)) for x in tensors
    )


def disabled_torch_dispatch(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """`__torch_dispatch__` of plain tensors: the operator itself, classes left aside."""
    with Scope((off, "classes", True)):
        return func(*args, **(kwargs or {}))


DISABLED = disabled_torch_dispatch


def attach(tensor_class: Any) -> None:
    """Called once, with the class Tensor."""
    global _tensor
    _tensor = tensor_class
    _C.set_watched(watching, tensor_class, "_a", _SEEN)
    tensor_class.__torch_dispatch__ = staticmethod(DISABLED)
