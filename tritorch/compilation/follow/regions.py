"""Compiled regions: a compiled function runs, and the public functions that it calls are followed.

# Note [Following]
Python runs the function, each time.  What it calls comes to a gate (`core/gates.py`), and inside of
a compiled region the gate looks first (src/compilation/region.cpp) whether this is the call that
came here before: the same function, the same numbers, tensors that were met or made at the same
steps of the trace, others with the same description, the same modes.

- If it is new, it is made, plainly, and looked at: `_learn`.  So the first run of a function is
  what it is without compile, and nothing that a program does has to be understood in advance.
- If it is known, it is deferred: its results are tensors of which only the description is known.
  They are computed when somebody asks, in the order of the calls: at the end of the region, where a
  number is taken out of a tensor, where anything that is no call of a gate looks at a tensor's
  memory or history, or changes settings on which calls depend.

The trace is the only guard.  Whatever decides it (closures, globals, a value that a branch looks
at) is Python's, and Python has run.

A call that cannot be deferred is a *graph break*: it is made each time, after all before it.  Calls
whose result is a number are, and those whose results' shapes depend on values, or that change what
is known of an argument; functions say so of themselves with `flushes`.  What nobody understands is
a graph break.

# Note [Memory of deferred calls]
Deferred calls read and write memory later than the program says, so nobody else may look at that
memory, or write it, in between.  Tensors that deferred calls write lose their array until then
(`put_aside`), if they alone lead to it; if not, or if a program got hold of the memory itself
(`expose`: NumPy, a pointer, DLPack), there is a flush after such a call.  Writes from outside flush
first: `flush`.
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
    Reason,
    Segment,
    SourceLine,
    Spec,
    filing,
    slots_of,
    slotted,
    users_line,
)
from tritorch.compilation.follow.tape import NoteForm
from tritorch.compilation.plan import plans
from tritorch.compilation.tools import backing
from tritorch.core.dispatching import noting
from tritorch.core.scopes import Scope, unchanged
from tritorch.core.tensor import Tensor


class Broken(RuntimeError):
    """The error of `fullgraph=True` at a graph break."""

    def __init__(self, reason: str, line: SourceLine | None) -> None:
        super().__init__(f"{reason} (at {line})")
        self.reason, self.source_line = reason, line


@dataclass
class Options:
    """The options of a compiled function."""

    fullgraph: bool = False
    dynamic: bool | None = None
    backend: Callable[[Segment, list[Any]], Callable[[list[Any]], list[Any]]] | None = None
    mode: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    recompile_limit: int | None = None
    name: str | None = None
    making: plans.Making = field(default_factory=plans.Making)
    settle_checks: bool = False  # whether calls that check values are graph breaks


class Listener:
    """A listener to the events of compiled functions."""

    def recorded(self, follower: Follower, segment: Segment) -> None:
        """A segment was followed for the first time."""

    def flushed(self, follower: Follower, reason: str, line: SourceLine | None) -> None:
        """A graph break flushed a region, or will each time here."""

    def recompiled(self, follower: Follower, why: str, line: SourceLine | None) -> None:
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
        self.trace_tree = _C.new_trace_tree()
        self.call = _C.Entry(self.function, self, self.trace_tree, _at_the_end)
        self.segments: list[Segment] = []
        self.n_traces = 0  # in the trace tree
        self.known = Known()  # the dynamic numbers
        self.boundaries: set[Any] = set()  # the steps after which a program flushes
        self.compiled: dict[tuple[Any, Any], Any] = {}  # a backend's plans, by first and last step

    @property
    def runs(self) -> int:
        """The number of runs."""
        return self.call.runs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.call(*args, **kwargs)

    def begin(self) -> None:
        """Enters a region of this thread that no function bounds."""
        self.call.runs += 1
        _C.Region(self.trace_tree, self).enter()

    def end(self) -> None:
        """Leaves it: deferred calls are computed."""
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
    """Makes a graph break; error: whether it is an error, if `fullgraph` does not say it."""
    region = _C.current_region()
    if region is None or region.busy:
        return
    line = users_line(2)
    _tell_of_break(region, reason, line, error)
    if region.learns:
        _close(region, reason, line)
    region.follower.boundaries.add(region.here)
    region.compute()


def at_once(what: str) -> Scope:
    """Inside, nothing is followed, and earlier calls are computed: the scope of calls that cannot
    be deferred."""
    region: Any = _C.current_region()
    if not region.busy and (region.deferred or steps_of(region)):
        break_here(f"{what} is called at once", error=False)
    return Scope((region, "busy", region.busy + 1))


def _tell_of_break(
    region: Any, reason: str, line: SourceLine | None, error: bool | None = None
) -> None:
    follower = region.follower
    if follower.options.fullgraph if error is None else error:
        raise Broken(reason, line)
    for listener in listeners:
        listener.flushed(follower, reason, line)


# ---- segments ------------------------------------------------------------------------------------


def steps_of(region: Any) -> list[Any]:
    """The calls since the last graph break."""
    steps: list[Any] = []
    step = region.here
    while (
        step.parent is not None and not step.graph_break and step not in region.follower.boundaries
    ):
        steps.append(step)
        step = step.parent
    return steps[::-1]


def held_by(region: Any, steps: Sequence[Any]) -> list[int]:
    """The slots of those tensors that calls made and somebody holds."""
    alive = region.tensors({})
    made = (i for s in steps for i in range(s.first + s.met, s.first + s.met + s.made))
    return [i for i in made if i < len(alive) and alive[i] is not None]


def segment_of(
    steps: Sequence[Any], held: Sequence[int], number: int, reason: str, line: SourceLine | None
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
    return Segment(number, calls, list(used), list(held), specs, reason, line)


def _at_the_end(region: Any) -> None:
    """Closes the last segment of a run that was a new trace."""
    _close(region, "end", None)


def _close(region: Any, reason: str, line: SourceLine | None) -> None:
    """Puts the calls since the last graph break down as a segment, if they are new."""
    steps = steps_of(region)
    if not steps or steps[-1].call.segment is not None:
        return
    follower = region.follower
    number = len(follower.segments)
    segment = segment_of(steps, held_by(region, steps), number, reason, line)
    follower.segments.append(segment)
    steps[-1].call.segment = segment
    for listener in listeners:
        listener.recorded(follower, segment)
    backing.recorded(region, segment, steps)


# ---- learning ------------------------------------------------------------------------------------


def spec_of(tensor: Tensor) -> tuple[Any, ...]:
    """The description of a tensor before it is computed, as src/compilation/region.cpp keeps it."""
    array = tensor._array
    return (
        tuple(array.shape), array.dtype, arrays.strides_of(array), arrays.device_of(array),
        tensor._requires_grad, tensor._leaf,
    )  # fmt: skip


def _tensors(value: Any, tensors: list[Tensor]) -> list[Tensor]:
    if type(value) is Tensor or isinstance(value, Tensor):
        tensors.append(value)
    elif isinstance(value, (tuple, list)):
        for item in value:
            _tensors(item, tensors)
    elif isinstance(value, slice):
        _tensors((value.start, value.stop, value.step), tensors)
    return tensors


def _is_plain(tensor: Tensor) -> bool:
    return tensor._tangent is None and type(tensor._array) in _PLAIN


_PLAIN = (_C.Array, arrays.ndarray)


def _learn(region: Any, gate: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Makes a call that is not known, and looks whether it may be deferred the next time."""
    function = gate.__wrapped__
    line = users_line()
    declared = getattr(function, "flushes", False)
    captured = getattr(function, "gives_number", False)
    region.compute()
    given = _tensors((*args, *kwargs.values()), [])
    try:
        before = [(spec_of(x), x._array, x._shared.version) for x in given if _is_plain(x)]
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
            why = _CHECKED if any(form == NoteForm.CHECK for form, *_ in steps) else None
    call = Call(gate, args, kwargs, None, line, graph_break=why)
    if not why:
        if not backing.may_record(region, gate, line):
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
        call.graph_break = why = _INCOMPARABLE
    if region.learns:
        _close(region, f"{gate.__name__}: {why}", line)
    fullgraph = region.follower.options.fullgraph and not (captured or why.captured)
    if region.add_graph_break(gate, call) or fullgraph:
        _tell_of_break(region, f"{gate.__name__}: {why}", line, fullgraph)
    call.args = call.kwargs = ()  # type: ignore[assignment]  # nothing is kept alive
    automatic.passed(region, gate)
    return result


def _file(
    region: Any, gate: Any, call: Call, given: list[Tensor], before: list[Any], result: Any
) -> bool:
    """Adds a call to the trace tree, with its description; False: it cannot be told from others."""
    args, kwargs = call.args, call.kwargs
    changed = [x for x, b in zip(given, before) if x._shared.version != b[2]]
    written = (*changed, *_sharing(changed, region))
    names = tuple(kwargs) or None
    shown, named, told, dynamic = automatic.make_call_dynamic(
        region, gate, call, given, result, bool(changed)
    )
    if not region.add(gate, (*shown, *named.values()), names, call, result, written, told):
        return False
    seen = _tensors(result, list(given))
    slots = {id(x): x._mark & 0xFFFFFF for x in seen}
    call.args = slotted(args, slots)
    call.kwargs = {name: slotted(x, slots) for name, x in kwargs.items()}
    call.results = slotted(result, slots)
    if dynamic is not None:
        dynamic.args = slotted(dynamic.args, slots)
        dynamic.kwargs = {name: slotted(x, slots) for name, x in dynamic.kwargs.items()}
        call.dynamic = dynamic
    specs = (*(b[0] for b in before), *map(spec_of, seen[len(given) :]))
    call.specs = {
        slots[id(x)]: Spec(shape, arrays.dtype_of_kind(kind), strides, x.device, wants)
        for x, (shape, kind, strides, _, wants, _) in zip(seen, specs, strict=True)
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
    arguments: list[Tensor], before: list[Any], steps: list[Any], result: Any
) -> Reason | None:
    """The reason why a call cannot be deferred; None: it can."""
    for tensor, (spec, array, _) in zip(arguments, before):
        try:
            same = spec_of(tensor) == spec and tensor._array is array
        except RuntimeError:  # a view that may not be used after a write to its base
            same = False
        if not same:
            return Reason("it changes what is known of an argument")
    if not _may_be_deferred(result, arguments):
        return Reason("its result is no tensor")
    made = _tensors(result, [])
    if arguments and not made:  # as retain_grad, which changes what no description has
        writes = any(x._shared.version != version for x, (_, _, version) in zip(arguments, before))
        if not writes and not any(form == NoteForm.CHECK for form, *_ in steps):
            return Reason("it gives nothing, writes nothing and checks nothing")
    if arguments and not steps and not _shares_memory(arguments, made):
        return Reason("it computes without an operator")
    for form, op, tensors, params, _ in steps:
        if form == NoteForm.CHECK:
            continue
        if op.flushes:
            return Reason(f"{op.name} looks at values")
        if form != NoteForm.CALL:
            continue
        if not _is_inferred(op, tensors, params):
            return Reason(f"values decide about the results of {op.name}", captured=True)
    return None


def _may_be_deferred(result: Any, arguments: list[Tensor]) -> bool:
    """True if a result is of new plain tensors and of arguments, parameters too."""
    if type(result) in (tuple, list) or hasattr(result, "_make"):
        return all(_may_be_deferred(item, arguments) for item in result)
    if result is None or any(result is x for x in arguments):
        return True
    return type(result) is Tensor and _is_plain(result)


def _shares_memory(given: list[Tensor], results: list[Tensor]) -> bool:
    shared = [x._shared for x in given]
    return all(any(x._shared is each for each in shared) for x in results)


def _is_inferred(op: Any, tensors: Any, params: Any) -> bool:
    """True if a record's results can be inferred from the descriptions of its inputs."""
    try:
        op.infer([meta_of(x._array) if isinstance(x, Tensor) else x for x in tensors], params)
    except Exception:  # UnknownSize, or no rule
        return False
    return True


def _looked(region: Any) -> None:
    """Handles a look at a deferred tensor, its history or its memory: a graph break."""
    boundaries = region.follower.boundaries
    line = users_line()
    if region.here not in boundaries or region.follower.options.fullgraph:
        boundaries.add(region.here)
        _tell_of_break(region, "look: a deferred tensor is looked at", line)


HANDLERS = _learn, spec_of, ambient.number, plans.first, _looked
_C.set_following_handlers(*HANDLERS)
