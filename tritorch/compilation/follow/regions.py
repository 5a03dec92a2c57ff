"""Regions: a compiled function runs, and the public functions that it calls are followed.

# Note [Following]
Python runs the function, each time.  What it calls comes to a gate (`core/gates.py`), and inside
of a region the gate looks first (src/compilation/region.cpp) whether this is the call that came
here
before: the same function, the same numbers, tensors that were met or made at the same places in
the stream of calls, others with the same description, the same modes.

- If it is new, it is made, plainly, and looked at: `_learn`.  So the first run of a function is
  what it is without compile, and nothing that a program does has to be understood in advance.
- If it is known, it waits: what it gives are tensors of which only the description is known.
  Their values are computed when somebody asks, in the order of the calls: at the end of the
  region, where a number is taken out of a tensor, where anything that is no call of a gate looks
  at a tensor's memory or history, or changes what calls depend on.

The stream of calls is the only guard.  Whatever decides it (closures, globals, a value that a
branch looks at) is Python's, and Python has run.

A call that cannot wait is a *barrier*: it is made each time, after all before it.  Calls whose
result is a number are, and those whose results' shapes hang on values, or that change what is
known of an argument; functions say so of themselves with `settles`.  What nobody understands is a
barrier.

# Note [What must not be seen]
What waits reads and writes memory later than the program says, so nobody else may look at that
memory, or write it, in between.  Tensors that are written by what waits lose their array until
then (`put_aside`), if they alone lead to it; if not, or if a program got hold of the memory itself
(`expose`: NumPy, a pointer, DLPack), nothing waits after such a call.  Writes from outside ask
first: `settle`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tritorch import _C
from tritorch.arrays import arrays
from tritorch.arrays.meta import meta_of
from tritorch.compilation.dynamic_shapes import automatic
from tritorch.compilation.dynamic_shapes.symbols import Known
from tritorch.compilation.follow import ambient
from tritorch.compilation.follow.calls import (
    Call,
    Place,
    Reason,
    Segment,
    Spec,
    filing,
    slots_of,
    slotted,
    users_place,
)
from tritorch.compilation.plan import plans
from tritorch.compilation.tools import backing
from tritorch.core.dispatching import noting
from tritorch.core.scopes import Scope, unchanged
from tritorch.core.tensor import Tensor


class Broken(RuntimeError):
    """What `fullgraph=True` raises where a compiled function has to compute before its end."""

    def __init__(self, reason: str, place: Place | None) -> None:
        super().__init__(f"{reason} (at {place})")
        self.reason, self.place = reason, place


@dataclass
class Options:
    """How a function is compiled."""

    fullgraph: bool = False
    dynamic: bool | None = None
    backend: Callable[[Segment, list[Any]], Callable[[list[Any]], list[Any]]] | None = None
    mode: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    recompile_limit: int | None = None
    name: str | None = None
    making: plans.Making = field(default_factory=plans.Making)
    settle_checks: bool = False  # whether calls that check values are computed at once


class Listener:
    """Is told what becomes of compiled functions."""

    def recorded(self, follower: Follower, segment: Segment) -> None:
        """A segment was followed for the first time."""

    def flushed(self, follower: Follower, reason: str, place: Place | None) -> None:
        """What waited was computed before the end of a region, or will be each time here."""

    def recompiled(self, follower: Follower, why: str, place: Place | None) -> None:
        """A run left all paths that were known."""


listeners: list[Listener] = []


class Follower:
    """A compiled function."""

    def __init__(self, function: Callable[..., Any], options: Options) -> None:
        self.function = function
        self.options = options
        self.reset()

    def reset(self) -> None:
        """Forgets all paths."""
        self.trie = _C.new_trie()
        self.call = _C.Entry(self.function, self, self.trie, _at_the_end)
        self.segments: list[Segment] = []
        self.ways = 0  # how many runs took a new way
        self.known = Known()  # the numbers that are left open
        self.boundaries: set[Any] = set()  # the steps after which a program has all computed
        self.compiled: dict[tuple[Any, Any], Any] = {}  # a backend's plans, by first and last step

    @property
    def runs(self) -> int:
        """How many runs there were."""
        return self.call.runs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.call(*args, **kwargs)

    def begin(self) -> None:
        """Enters a region of this thread that no function bounds."""
        self.call.runs += 1
        _C.Region(self.trie, self).enter()

    def end(self) -> None:
        """Leaves it: what waits is computed."""
        region: Any = _C.current_region()
        try:
            if region.learns:
                _close(region, "end", None)
        finally:
            region.leave()


def following() -> Follower | None:
    """The compiled function that runs in this thread."""
    region = _C.current_region()
    return None if region is None or region.busy else region.follower


def paused() -> Scope:
    """Inside, nothing is followed."""
    region = _C.current_region()
    if region is None:
        return unchanged
    break_here("disabled")
    return Scope((region, "busy", region.busy + 1))


def break_here(reason: str, error: bool | None = None) -> None:
    """Computes what waits; error: whether that may not be, if `fullgraph` does not say it."""
    region = _C.current_region()
    if region is None or region.busy:
        return
    place = users_place(2)
    _tell_of_break(region, reason, place, error)
    if region.learns:
        _close(region, reason, place)
    region.follower.boundaries.add(region.here)
    region.compute()


def at_once(what: str) -> Scope:
    """Inside, nothing is followed, and what was called before is done: what waits for nobody."""
    region: Any = _C.current_region()
    if not region.busy and (region.waits or steps_of(region)):
        break_here(f"{what} is called at once", error=False)
    return Scope((region, "busy", region.busy + 1))


def _tell_of_break(
    region: Any, reason: str, place: Place | None, error: bool | None = None
) -> None:
    follower = region.follower
    if follower.options.fullgraph if error is None else error:
        raise Broken(reason, place)
    for listener in listeners:
        listener.flushed(follower, reason, place)


# ---- segments ------------------------------------------------------------------------------------


def steps_of(region: Any) -> list[Any]:
    """The calls since the last place where what waits is computed."""
    steps: list[Any] = []
    step = region.here
    while step.parent is not None and not step.barrier and step not in region.follower.boundaries:
        steps.append(step)
        step = step.parent
    return steps[::-1]


def held_by(region: Any, steps: Sequence[Any]) -> list[int]:
    """The slots of those tensors that calls made which somebody holds."""
    alive = region.tensors({})
    made = (i for s in steps for i in range(s.first + s.met, s.first + s.met + s.made))
    return [i for i in made if i < len(alive) and alive[i] is not None]


def segment_of(
    steps: Sequence[Any], held: Sequence[int], number: int, reason: str, place: Place | None
) -> Segment:
    """Calls as a segment."""
    calls = [step.call for step in steps]
    made = {i for s in steps for i in range(s.first + s.met, s.first + s.met + s.made)}
    used: dict[int, None] = {}
    for call in calls:
        for slot in slots_of((call.args, tuple(call.kwargs.values()))):
            if slot not in made:
                used.setdefault(slot)
    specs: dict[int, Spec] = {}
    for call in calls:
        specs |= call.specs
    return Segment(number, calls, list(used), list(held), specs, reason, place)


def _at_the_end(region: Any) -> None:
    """A run that took a new way is over."""
    _close(region, "end", None)


def _close(region: Any, reason: str, place: Place | None) -> None:
    """Puts the calls since the last barrier down as a segment, if they are new."""
    steps = steps_of(region)
    if not steps or steps[-1].call.segment is not None:
        return
    follower = region.follower
    number = len(follower.segments)
    segment = segment_of(steps, held_by(region, steps), number, reason, place)
    follower.segments.append(segment)
    steps[-1].call.segment = segment
    for listener in listeners:
        listener.recorded(follower, segment)
    backing.recorded(region, segment, steps)


# ---- learning ------------------------------------------------------------------------------------


def describe(tensor: Tensor) -> tuple[Any, ...]:
    """What is known of a tensor before it is computed, as src/compilation/region.cpp keeps it."""
    array = tensor._array
    return (
        tuple(array.shape), array.dtype, arrays.strides_of(array), arrays.device_of(array),
        tensor._requires_grad, tensor._leaf,
    )  # fmt: skip


def _tensors(value: Any, found: list[Tensor]) -> list[Tensor]:
    if type(value) is Tensor or isinstance(value, Tensor):
        found.append(value)
    elif isinstance(value, (tuple, list)):
        for item in value:
            _tensors(item, found)
    elif isinstance(value, slice):
        _tensors((value.start, value.stop, value.step), found)
    return found


def _is_plain(tensor: Tensor) -> bool:
    return tensor._tangent is None and type(tensor._array) in _PLAIN


_PLAIN = (_C.Array, arrays.ndarray)


def _learn(region: Any, gate: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Makes a call that is not known, and looks whether it may wait the next time."""
    function = gate.__wrapped__
    place = users_place()
    declared = getattr(function, "settles", False)
    captured = getattr(function, "gives_number", False)
    region.compute()
    given = _tensors((*args, *kwargs.values()), [])
    try:
        before = [(describe(x), x._array, x._shared.version) for x in given if _is_plain(x)]
    except RuntimeError:  # a view that may not be used after a write to its base
        declared, before = True, []
    steps: list[Any] = []
    if declared or len(before) < len(given):
        result = gate(*args, **kwargs)
        why: Reason | None = _DECLARED if declared else _NOT_PLAIN
    else:
        with noting(lambda *step: steps.append(step)):
            result = gate(*args, **kwargs)
        why = _why_not(given, before, steps, result)
        if not why and region.follower.options.settle_checks:
            why = _CHECKED if any(form == "check" for form, *_ in steps) else None
    call = Call(gate, args, kwargs, None, place, barrier=why)
    if not why:
        if not backing.may_record(region, gate, place):
            region.eager = True
            return result
        region.learns = True
        with filing:
            try:
                added = _file(region, gate, call, given, before, result)
            except BaseException:  # an interrupt, say: half of a call is not known
                region.forget(call)
                raise
        if added:
            return result
        call.barrier = why = _INCOMPARABLE
    if region.learns:
        _close(region, f"{gate.__name__}: {why}", place)
    fullgraph = region.follower.options.fullgraph and not (captured or why.captured)
    if region.add_barrier(gate, call) or fullgraph:
        _tell_of_break(region, f"{gate.__name__}: {why}", place, fullgraph)
    call.args = call.kwargs = ()  # type: ignore[assignment]  # nothing is kept alive
    automatic.passed(region, gate)
    return result


def _file(
    region: Any, gate: Any, call: Call, given: list[Tensor], before: list[Any], result: Any
) -> bool:
    """Adds a call to what is known, and says what it was; False: it cannot be told from others."""
    args, kwargs = call.args, call.kwargs
    changed = [x for x, b in zip(given, before) if x._shared.version != b[2]]
    written = (*changed, *_sharing(changed, region))
    names = tuple(kwargs) or None
    shown, named, told, opened = automatic.leave_open(
        region, gate, call, given, result, bool(changed)
    )
    if not region.add(gate, (*shown, *named.values()), names, call, result, written, told):
        return False
    seen = _tensors(result, list(given))
    slots = {id(x): x._mark & 0xFFFFFF for x in seen}
    call.args = slotted(args, slots)
    call.kwargs = {name: slotted(x, slots) for name, x in kwargs.items()}
    call.results = slotted(result, slots)
    if opened is not None:
        opened.args = slotted(opened.args, slots)
        opened.kwargs = {name: slotted(x, slots) for name, x in opened.kwargs.items()}
        call.opened = opened
    described = (*(b[0] for b in before), *map(describe, seen[len(given) :]))
    call.specs = {
        slots[id(x)]: Spec(shape, arrays.dtype_of_kind(kind), strides, x.device, wants)
        for x, (shape, kind, strides, _, wants, _) in zip(seen, described, strict=True)
    }
    backing.learned(region, call, seen)
    return True


def _sharing(changed: list[Tensor], region: Any) -> list[Tensor]:
    """The tensors of a region that share memory with those that were written."""
    if not changed:
        return []
    shared = {id(x._shared) for x in changed}
    return [x for x in region.tensors({}) if x is not None and id(x._shared) in shared]


_DECLARED = Reason("it is called each time")
_CHECKED = Reason("it checks values, and settle_checks is on", captured=True)
_NOT_PLAIN = Reason("an argument is no plain tensor")
_INCOMPARABLE = Reason("an argument is compared with no other")


def _why_not(
    given: list[Tensor], before: list[Any], steps: list[Any], result: Any
) -> Reason | None:
    """Why a call cannot wait; None: it can."""
    for tensor, (description, array, _) in zip(given, before):
        try:
            same = describe(tensor) == description and tensor._array is array
        except RuntimeError:  # a view that may not be used after a write to its base
            same = False
        if not same:
            return Reason("it changes what is known of an argument")
    if not _may_wait(result, given):
        return Reason("its result is no tensor")
    made = _tensors(result, [])
    if given and not made:  # as retain_grad, which changes what no description has
        writes = any(x._shared.version != version for x, (_, _, version) in zip(given, before))
        if not writes and not any(form == "check" for form, *_ in steps):
            return Reason("it gives nothing, writes nothing and checks nothing")
    if given and not steps and not _shares_memory(given, made):
        return Reason("it computes without an operator")
    for form, op, tensors, params, _ in steps:
        if form == "check":
            continue
        if op.settles:
            return Reason(f"{op.name} looks at values")
        if form != "call":
            continue
        if not _is_described(op, tensors, params):
            return Reason(f"values decide about the results of {op.name}", captured=True)
    return None


def _may_wait(result: Any, given: list[Tensor]) -> bool:
    """True if a result is of new plain tensors and of arguments, parameters too."""
    if type(result) in (tuple, list) or hasattr(result, "_make"):
        return all(_may_wait(item, given) for item in result)
    if result is None or any(result is x for x in given):
        return True
    return type(result) is Tensor and _is_plain(result)


def _shares_memory(given: list[Tensor], results: list[Tensor]) -> bool:
    shared = [x._shared for x in given]
    return all(any(x._shared is each for each in shared) for x in results)


def _is_described(op: Any, tensors: Any, params: Any) -> bool:
    """Whether what a record's call results in follows from what is known of its inputs."""
    try:
        op.infer([meta_of(x._array) if isinstance(x, Tensor) else x for x in tensors], params)
    except Exception:  # UnknownSize, or no rule
        return False
    return True


def _looked(region: Any) -> None:
    """Is told when something looks at a tensor that waits: its history, its memory."""
    boundaries = region.follower.boundaries
    place = users_place()
    if region.here not in boundaries or region.follower.options.fullgraph:
        boundaries.add(region.here)
        _tell_of_break(region, "look: a tensor waits for its values", place)


HANDLERS = _learn, describe, ambient.number, plans.first, _looked
_C.set_following_handlers(*HANDLERS)
