"""Meta execution: calls run on tensors without memory, which shows whether values decide them, and,
with symbols for sizes, what sizes decide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritorch import _C
from tritorch.arrays.meta import MetaArray, meta_of
from tritorch.compilation.dynamic_shapes.symbols import apart, arguments, hinted, strides_of
from tritorch.compilation.follow.calls import Layout, Slot, mapped
from tritorch.compilation.follow.tape import Form, NoteForm, Tape, Unfit
from tritorch.core.device import PretendedDevice, pretence_changes
from tritorch.core.scopes import Scope
from tritorch.core.tensor import Tensor


class _MetaMode:
    """The owner of meta tensors: what a FakeTensorMode is to those it makes."""

    allow_non_fake_inputs = True

    def item_of(self, tensor: Tensor) -> Any:
        """Nobody knows values."""
        raise Unfit("values decide what is called")


_meta_mode = _MetaMode()


class MetaTape(Tape):
    """The calls of a run on meta tensors, call by call as on another tape.

    Results have the layouts that they had there: those are a backend's choice, of sizes and strides
    alone."""

    def __init__(self, like: Tape) -> None:
        super().__init__()
        self.like = like

    def note(self, form: str, op: Any, tensors: Sequence[Any], params: Any, result: Any) -> None:
        position = len(self.notes)
        if (
            position < len(self.like.notes)
            and form in (NoteForm.CALL, NoteForm.POINTWISE)
            and not op.is_view
        ):
            noted = self.like.notes[position]
            if noted.op is op and len(noted.results) == (len(result) if noted.several else 1):
                for number, x in zip(noted.results, result if noted.several else (result,)):
                    if number >= 0 and type(x._array) is MetaArray:
                        _lay(x._array, self.like.forms[number])
        super().note(form, op, tensors, params, result)


def _lay(array: MetaArray, form: Form) -> None:
    """Gives an array the layout of another: with symbols for sizes, in the same order of dims."""
    if len(form.shape) != len(array.shape):
        return
    if all(type(n) is int for n in array.shape):
        array.strides = form.strides
        return
    if not apart(form.shape, form.strides):
        array.strides = strides_of(array.shape, form.shape, form.strides, {})


def on_meta() -> Scope:
    """Inside, functions compute with meta tensors."""
    return Scope(*pretence_changes(_meta_mode), (_C.set_grad_enabled, _C.is_grad_enabled()))


def meta_copy(x: Tensor, layout: Layout | None = None, grads: bool = True) -> Tensor:
    """A meta tensor like a tensor; layout: its sizes and strides, if some are symbols; grads:
    whether it requires gradients if the tensor does."""
    like = meta_of(x._array)
    shape, strides = (like.shape, like.strides) if layout is None else layout
    where = PretendedDevice(like.device, _meta_mode)
    made = _C.wrap(MetaArray(shape, like.dtype, strides, where))
    return made.requires_grad_() if grads and x._requires_grad else made


def meta_copies(
    tensors: dict[int, Tensor], layouts: dict[int, Layout] | None = None
) -> dict[int, Tensor]:
    """Meta tensors like tensors, by slot."""
    known = layouts or {}
    return {slot: meta_copy(x, known.get(slot)) for slot, x in tensors.items()}


def substituted(value: Any, tensors: dict[int, Tensor]) -> Any:
    """Nested data with tensors for slots."""
    kind = type(value)
    if kind is Slot:
        return tensors[value.index]
    if kind is tuple or kind is list:
        return kind([substituted(item, tensors) for item in value])
    return mapped(lambda x: tensors[x.index] if type(x) is Slot else x, value)


def bind(pattern: Any, value: Any, tensors: dict[int, Tensor]) -> None:
    """Gives the tensors of a result to their slots."""
    if type(pattern) is Slot:
        tensors.setdefault(pattern.index, value)
    elif isinstance(pattern, (tuple, list)):
        for each, item in zip(pattern, value):
            bind(each, item, tensors)


def run_again(
    steps: Sequence[Any], tensors: dict[int, Tensor], numbers: Sequence[Any] = ()
) -> None:
    """Runs the calls of steps, as they were made, on other tensors; numbers: the dynamic ones, or
    their symbols."""
    with Scope(
        (_C.set_inference_mode, _C.is_inference_mode()), (_C.set_grad_enabled, _C.is_grad_enabled())
    ):
        for step in steps:
            args, kwargs = arguments(step.call, numbers)
            named = {name: substituted(x, tensors) for name, x in kwargs.items()}
            _C.set_grad_enabled(step.grad_enabled)
            _C.set_inference_mode(step.inference_mode)
            bind(step.call.results, step.gate(*substituted(args, tensors), **named), tensors)


def run_on_meta(
    steps: Sequence[Any], tensors: dict[int, Tensor], numbers: Sequence[Any] = ()
) -> None:
    """Runs the calls of steps on meta tensors."""
    with on_meta():
        run_again(steps, tensors, numbers)


def _call_text(call: tuple[Any, ...]) -> str:
    form, op, params, numbers = call
    given = ", ".join(["_" if x is None else repr(x) for x in numbers] + [repr(p) for p in params])
    return f"{op.name}({given})" + (" in place" if form == NoteForm.IN_PLACE else "")


def require_same_calls(tape: Tape, other: Tape, symbols: Sequence[Any]) -> None:
    """Refuses a segment whose records' calls values decide: in meta execution, they are others.

    symbols: those that the other tape has in place of some of this run's numbers."""
    mine, theirs = tape.calls(), other.calls()
    if symbols:
        theirs = [hinted(call) for call in theirs]
    for a, b in zip(mine, theirs):
        if a[:2] != b[:2] or a[2] != b[2] or a[3] != b[3]:
            raise Unfit(f"values decide: {_call_text(a)}, without them {_call_text(b)}")
    if len(mine) != len(theirs):
        raise Unfit("values decide what is called")


def calls_without_values(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], made: list[Any]
) -> bool:
    """True if a call leads to the same records' calls, (record, params, numbers), on tensors
    without memory: then values have decided none of them."""
    copies: dict[int, Tensor] = {}

    def without_memory(value: Any) -> Any:
        if isinstance(value, Tensor):
            if id(value) not in copies:
                copies[id(value)] = meta_copy(value)
            return copies[id(value)]
        if type(value) in (tuple, list):
            return type(value)(map(without_memory, value))
        return value

    try:
        with on_meta():
            meta_args = tuple(map(without_memory, args))
            meta_kwargs = {name: without_memory(value) for name, value in kwargs.items()}
            return _C.records_of(function, meta_args, meta_kwargs) == made
    except Exception:  # whatever it is, nobody knows what values decide
        return False
