"""Segments of a run that is recorded: what `regions.py` tells, until the graph is known to end.

A segment is the way in the trie from the last place where what waits is computed to the next.  It
is made when a run that took a new way comes there, while it is known which tensors the program
holds; a backend is asked for it then, so that the next run is the first one that it computes.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tritorch import _C
from tritorch._following import stances
from tritorch._following.calls import Call, Place, Segment, Slot, Spec
from tritorch.core.arrays import strides_of
from tritorch.core.tensor import Tensor


class _Recording(threading.local):
    """What a thread's run has learned."""

    any: bool = False  # in this run
    fresh: bool = False  # in this segment
    inputs: dict[int, Tensor] | None = None  # of this segment, by slot


_recording = _Recording()


def begin() -> None:
    """A run begins."""
    _recording.any = _recording.fresh = False
    _recording.inputs = None


def slots(nested: Any) -> Iterator[int]:
    """The numbers of the tensors among arguments or results."""
    if type(nested) is Slot:
        yield nested.index
    elif isinstance(nested, (tuple, list)):
        for each in nested:
            yield from slots(each)
    elif isinstance(nested, dict):
        for each in nested.values():
            yield from slots(each)
    elif isinstance(nested, slice):
        yield from slots((nested.start, nested.stop, nested.step))


def may_record(region: Any, gate: Any, place: Place | None) -> bool:
    """Whether a call that is not known becomes part of what is; said once for each run."""
    from tritorch._following.regions import listeners

    if _recording.any:
        return True
    follower = region.follower
    why = "" if follower.ways == 0 else _why(region, gate)
    if not stances.may_record(follower, follower.ways, why):
        return False
    if follower.ways:
        for listener in listeners:
            listener.recompiled(follower, why, place)
    _recording.any = True
    follower.ways += 1
    return True


def _why(region: Any, gate: Any) -> str:
    """Why a call is none of those that came here before."""
    known = [step for step in region.here.next if not step.barrier]
    if not known:
        return f"{_named(gate)} is called where the function called nothing more"
    alike = [step for step in known if step.gate is gate]
    if not alike:
        return f"{_named(gate)} is called, not {' or '.join(_named(s.gate) for s in known)}"
    call = alike[-1].call
    inputs = [call.specs[i] for i in slots((call.args, call.kwargs)) if i in call.specs]
    shown = ", ".join(f"{spec.dtype}{list(spec.shape)}" for spec in inputs)
    constants = [repr(x) for x in call.args if not isinstance(x, (Slot, tuple, list))]
    return f"{_named(gate)} is called with other arguments than {', '.join([shown, *constants])}"


def _named(gate: Any) -> str:
    return getattr(gate, "__qualname__", repr(gate))


def learned(region: Any, call: Call, tensors: Iterable[Tensor]) -> None:
    """A call was added to what is known."""
    call.gradients = region.here.grad_enabled
    for x in tensors:
        spec = Spec(tuple(x.shape), x.dtype, strides_of(x._array), x.device, x._requires_grad)
        call.specs.setdefault(x._mark & 0xFFFFFF, spec)
    if not _recording.fresh:
        _recording.fresh, _recording.inputs = True, {}
    made = set(slots(call.results))
    inputs: Any = _recording.inputs
    for x in tensors:
        slot = x._mark & 0xFFFFFF
        if slot not in made and slot < region.here.first + region.here.met:
            inputs.setdefault(slot, x)


def _path(follower: Any, here: Any) -> list[Any]:
    """The steps since what waits was computed the last time."""
    steps = []
    while here is not None and not here.barrier and here not in follower.boundaries:
        if here.call is not None:
            steps.append(here)
        here = here.parent
    return steps[::-1]


def current(region: Any) -> Segment:
    """What the program has called since what waits was computed the last time."""
    return _made(region, _path(region.follower, region.here), None, "", None)


def _made(
    region: Any, steps: Sequence[Any], held: Iterable[int] | None, reason: str, place: Place | None
) -> Segment:
    calls = [step.call for step in steps]
    made = {i for s in steps for i in range(s.first + s.met, s.first + s.met + s.made)}
    specs: dict[int, Spec] = {}
    used: dict[int, None] = {}
    for call in calls:
        for slot, spec in call.specs.items():
            specs.setdefault(slot, spec)
        used.update(dict.fromkeys(slots((call.args, call.kwargs))))
    inputs = [i for i in used if i not in made]
    if held is None:
        alive = region.tensors({})
        held = [i for i in sorted(made) if i < len(alive) and alive[i] is not None]
    number = len(region.follower.segments)
    return Segment(number, calls, inputs, list(held), specs, reason, place)


def ended(region: Any, reason: str, place: Place | None, boundary: bool = False) -> None:
    """What waits is computed here, in this run and in those that follow it."""
    follower = region.follower
    if _recording.fresh:
        _recording.fresh = False
        steps = _path(follower, region.here)
        segment = _made(region, steps, None, reason, place)
        if steps:
            inputs: Any = _recording.inputs
            with _busy(region):
                _record(follower, segment, steps, inputs)
        _recording.inputs = None
    elif _recording.any and reason != "end":  # a break before any call
        _tell(follower, Segment(len(follower.segments), [], [], [], {}, reason, place))
    if boundary:
        follower.boundaries.add(region.here)


@contextlib.contextmanager
def _busy(region: Any) -> Iterator[None]:
    """Inside, nothing is followed."""
    region.busy += 1
    try:
        yield
    finally:
        region.busy -= 1


def _record(
    follower: Any, segment: Segment, steps: Sequence[Any], tensors: dict[int, Tensor]
) -> None:
    _tell(follower, segment)
    if follower.options.backend is not None:
        compile_for(
            follower, segment, steps, [_example(segment, i, tensors) for i in segment.inputs]
        )


def _tell(follower: Any, segment: Segment) -> None:
    from tritorch._following.regions import listeners

    follower.segments.append(segment)
    for listener in listeners:
        listener.recorded(follower, segment)


def _example(segment: Segment, slot: int, tensors: dict[int, Tensor]) -> Tensor:
    """An input of a segment; where it is gone, zeros like it."""
    from tritorch.ops.factory import empty_strided

    if slot in tensors:
        return tensors[slot]
    spec = segment.specs[slot]
    made = empty_strided(spec.shape, spec.stride, dtype=spec.dtype, device=spec.device)
    return made.zero_().requires_grad_(spec.requires_grad)


def records(segment: Segment) -> bool:
    """Whether a segment's graph is called with gradients: some of its calls were."""
    return not segment.calls or any(call.gradients for call in segment.calls)


# ---- backends ------------------------------------------------------------------------------------


class Compiled:
    """A segment that a backend computes; a plan, as `plans.first` gives them."""

    def __init__(self, segment: Segment, run: Any) -> None:
        self.segment, self.run = segment, run
        self.places = {slot: i for i, slot in enumerate(segment.outputs)}
        self.gradients = records(segment)

    def __call__(
        self, region: Any, steps: Sequence[Any], tensors: dict[int, Tensor], held: Sequence[int]
    ) -> Any:
        """Computes what waits; it is the plan for the next time, too."""
        before = _C.is_grad_enabled()
        _C.set_grad_enabled(self.gradients)
        try:
            found = self.run([tensors[i] for i in self.segment.inputs])
        finally:
            _C.set_grad_enabled(before)
        waiting = region.tensors(tensors)
        for slot in held:
            _C.become(waiting[slot], found[self.places[slot]])
        return self


def compile_for(
    follower: Any, segment: Segment, steps: Sequence[Any], examples: list[Tensor]
) -> Compiled:
    """Asks a function's backend for a segment."""
    made = Compiled(segment, follower.options.backend(segment, examples))
    follower.compiled[steps[0], steps[-1]] = made
    return made


def first(
    region: Any, steps: Sequence[Any], tensors: dict[int, Tensor], held: Sequence[int]
) -> Any:
    """The plan of what waits for the first time: of a segment that was recorded, or of a part of one
    that is wanted earlier than it was then.  A part runs as it is, until it comes a second time."""
    made = region.follower.compiled.get((steps[0], steps[-1]))
    if made is not None and made.places.keys() >= set(held):
        return made(region, steps, tensors, held)
    for step in steps:
        step.run(region, tensors)
    return _second


def _second(
    region: Any, steps: Sequence[Any], tensors: dict[int, Tensor], held: Sequence[int]
) -> Any:
    segment = _made(region, steps, held, "part", None)
    examples = [tensors[i] for i in segment.inputs]
    return compile_for(region.follower, segment, steps, examples)(region, steps, tensors, held)
