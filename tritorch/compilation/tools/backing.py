"""Segments that a backend computes: when it is asked, and how the program gets the results.

A backend is asked for a segment at the end of the run that recorded it, so that the next run is the
first one that it computes.  While a run is recorded, tensors that come from outside are held until
then: they are the example inputs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any

from tritorch import _C
from tritorch.compilation.follow import stances
from tritorch.compilation.follow.calls import Call, Segment, Slot, SourceLine, filing
from tritorch.core.scopes import Scope
from tritorch.core.tensor import Tensor


class _Recording(threading.local):
    """The recording of a thread's run."""

    run: tuple[int, int] | None = None  # of which follower, and which of its runs
    inputs: dict[int, Tensor] | None = None  # by slot, of this segment


_recording = _Recording()


# ---- new traces ----------------------------------------------------------------------------------


def may_record(region: Any, gate: Any, line: SourceLine | None) -> bool:
    """True if a call that is not known is added to the trace tree; decided once for each run."""
    from tritorch.compilation.follow.regions import listeners

    follower = region.follower
    run = id(follower), follower.runs
    if _recording.run == run:
        return True
    with filing:
        why = "" if follower.n_traces == 0 else _why(region, gate)
    if not stances.may_record(follower, follower.n_traces, why):
        return False
    if follower.n_traces:
        for listener in listeners:
            listener.recompiled(follower, why, line)
    _recording.run, _recording.inputs = run, None
    follower.n_traces += 1
    return True


def _why(region: Any, gate: Any) -> str:
    """The reason why a call is none of those that came here before."""
    known = [step for step in region.here.next if not step.graph_break and step.call is not None]
    if not known:
        return f"{_named(gate)} is called where the function called nothing more"
    alike = [step.call for step in known if step.gate is gate]
    if not alike:
        return f"{_named(gate)} is called, not {' or '.join(_named(s.gate) for s in known)}"
    call = alike[-1]
    given = [*call.args, *call.kwargs.values()]
    shown = [_shown(call, x) for x in given]
    return f"{_named(gate)} is called with other arguments than {', '.join(shown)}"


def _shown(call: Call, value: Any) -> str:
    if type(value) is not Slot:
        return repr(value)
    spec = call.specs[value.index]
    return f"{str(spec.dtype).rpartition('.')[2]}{list(spec.shape)}"


def _named(gate: Any) -> str:
    return getattr(gate, "__qualname__", repr(gate))


# ---- segments ------------------------------------------------------------------------------------


def learned(region: Any, call: Call, tensors: Iterable[Tensor]) -> None:
    """A call was added to what is known."""
    call.gradients = region.here.grad_enabled
    if region.follower.options.backend is None:
        return
    if _recording.inputs is None:
        _recording.inputs = {}
    made = region.here.first + region.here.met
    for x in tensors:
        slot = x._mark & 0xFFFFFF
        if slot < made:
            _recording.inputs.setdefault(slot, x)


def recorded(region: Any, segment: Segment, steps: Sequence[Any]) -> None:
    """A segment was made of these steps."""
    inputs, _recording.inputs = _recording.inputs or {}, None
    follower = region.follower
    if follower.options.backend is None:
        return
    with Scope((region, "busy", region.busy + 1)):
        examples = [_example(segment, slot, inputs) for slot in segment.inputs]
        ask(follower, segment, steps[0], steps[-1], examples)


def _example(segment: Segment, slot: int, tensors: dict[int, Tensor]) -> Tensor:
    """An input of a segment; where it is gone, zeros like it."""
    from tritorch.ops.shape.factory import empty_strided

    if slot in tensors:
        return tensors[slot]
    spec = segment.specs[slot]
    made = empty_strided(spec.shape, spec.stride, dtype=spec.dtype, device=spec.device)
    return made.zero_().requires_grad_(spec.requires_grad)


def records(segment: Segment) -> bool:
    """True if a segment's graph is called with gradients: some of its calls were."""
    return not segment.calls or any(call.gradients for call in segment.calls)


class Compiled:
    """A segment that a backend computes; a plan, as `plans.first` gives them."""

    def __init__(self, segment: Segment, run: Any) -> None:
        self.segment, self.run = segment, run
        self.positions = {slot: i for i, slot in enumerate(segment.outputs)}
        self.gradients = records(segment)

    def __call__(
        self, region: Any, steps: Sequence[Any], tensors: dict[int, Tensor], held: Sequence[int]
    ) -> Any:
        """Computes the segment; it is the plan for the next time, too."""
        with Scope((_C.set_grad_enabled, self.gradients)):
            found = self.run([tensors[i] for i in self.segment.inputs])
        waiting = region.tensors(tensors)
        for slot in held:
            _C.become(waiting[slot], found[self.positions[slot]])
        return self


def ask(follower: Any, segment: Segment, first: Any, last: Any, examples: list[Tensor]) -> Compiled:
    """Asks a function's backend for a segment, in the mode in which it is called."""
    with Scope((_C.set_grad_enabled, records(segment))):
        made = Compiled(segment, follower.options.backend(segment, examples))
    follower.compiled[first, last] = made
    return made


def first(
    region: Any, steps: Sequence[Any], tensors: dict[int, Tensor], held: Sequence[int]
) -> Any:
    """The plan of a segment that is deferred for the first time, or of a part that is wanted
    earlier than when it was recorded.  A part runs as it is, until it comes a second time."""
    made = region.follower.compiled.get((steps[0], steps[-1]))
    if made is not None and made.positions.keys() >= set(held):
        return made(region, steps, tensors, held)
    for step in steps:
        step.run(region, tensors)
    return _second


def _second(
    region: Any, steps: Sequence[Any], tensors: dict[int, Tensor], held: Sequence[int]
) -> Any:
    from tritorch.compilation.follow.regions import segment_of

    part = segment_of(steps, held, len(region.follower.segments), "part", None)
    examples = [tensors[slot] for slot in part.inputs]
    made = ask(region.follower, part, steps[0], steps[-1], examples)
    return made(region, steps, tensors, held)
