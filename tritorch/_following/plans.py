"""Plans: what waits as functions of arrays, without what surrounds them in a call.

The first time that a segment waits, its calls are made as they are, and the records' calls in them
are noted (`Tape`).  The second time the functions behind those are run in their place, each result
compared with what was noted (`Draft`).  From the third time on a native program runs them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tritorch import _C
from tritorch._following import counts, showing
from tritorch._following.calls import Slot, slots_of
from tritorch._following.chains import fused
from tritorch._following.lowering import Lowered, lowered, whole
from tritorch._following.tape import Form, Tape, Unfit, Value, form_of
from tritorch.core import dispatching
from tritorch.core.arrays import ndarray
from tritorch.core.device import PretendedDevice, pretence, pretending
from tritorch.core.dispatching import noting
from tritorch.core.meta import MetaArray, meta_of
from tritorch.core.tensor import Tensor


# The part of a CUDA graph's nodes that may be changed for a run: changing one costs the host about
# what launching it does, and a graph's kernels follow each other sooner.
MOST_CHANGED = 0.75


class Held(NamedTuple):
    """A tensor that somebody holds when a segment is computed: whose it is a view of, if it is."""

    slot: int
    value: int
    version: int
    base: int | None  # the slot, or None
    base_value: int | None
    steps: tuple[tuple[Any, Any], ...]  # how it is a view: (operator, params), outermost last
    created: Any
    shares: int | None  # the slot of a tensor with the same storage
    inference: int


def run_noted(region: Any, steps: Sequence[Any], tensors: dict[int, Tensor], tape: Tape) -> None:
    """Makes the calls of steps, and notes the records' calls."""
    with noting(tape.note):
        for step in steps:
            before = len(tape.notes)
            step.run(region, tensors)
            made = range(step.first + step.met, step.first + step.met + step.made)
            if any(tape.known(tensors[slot]._array) is None for slot in made):
                tape.unfit = tape.unfit or f"{step.gate.__name__} gives what no record gave"
            if not step.made and len(tape.notes) == before and not _gives_back(step):
                tape.unfit = tape.unfit or f"{step.gate.__name__} does what no record does"


def _gives_back(step: Any) -> bool:
    """Whether a call did nothing but give an argument back (`x.to(x.dtype)`, dropout in
    evaluation).  Functions in place change what no version says: names, where memory lies."""
    name, call = step.gate.__name__, step.call
    if step.writes or name.endswith("_") or type(call.results) is not Slot:
        return False
    return call.results.index in slots_of((call.args, tuple(call.kwargs.values())))


def substituted(value: Any, tensors: dict[int, Tensor]) -> Any:
    """Nested data with tensors for slots."""
    kind = type(value)
    if kind is Slot:
        return tensors[value.index]
    if kind is slice:
        return slice(*(substituted(x, tensors) for x in (value.start, value.stop, value.step)))
    if isinstance(value, (tuple, list)):
        items = [substituted(item, tensors) for item in value]
        return kind._make(items) if hasattr(kind, "_make") else kind(items)
    return value


def bind(pattern: Any, value: Any, tensors: dict[int, Tensor]) -> None:
    """Gives the tensors of a result to their slots."""
    if type(pattern) is Slot:
        tensors.setdefault(pattern.index, value)
    elif isinstance(pattern, (tuple, list)):
        for each, item in zip(pattern, value):
            bind(each, item, tensors)


class _Describing:
    """Whose tensors without memory are: what a FakeTensorMode is to those it makes."""

    allow_non_fake_inputs = True

    def item_of(self, tensor: Tensor) -> Any:
        """Nobody knows values."""
        raise Unfit("values decide what is called")


_describing = _Describing()


def run_described(steps: Sequence[Any], tensors: dict[int, Tensor]) -> None:
    """Makes the calls of steps on tensors without memory."""
    before = _C.is_grad_enabled()
    outer, pretence.mode = pretence.mode, _describing
    pretending.append(_describing)
    try:
        for step in steps:
            call = step.call
            _C.set_grad_enabled(step.grad_enabled)
            kwargs = {name: substituted(x, tensors) for name, x in call.kwargs.items()}
            bind(call.results, step.gate(*substituted(call.args, tensors), **kwargs), tensors)
    finally:
        pretence.mode = outer
        pretending.remove(_describing)
        _C.set_grad_enabled(before)


def described(tensors: dict[int, Tensor]) -> dict[int, Tensor]:
    """Twins of tensors without memory."""
    twins = {}
    for slot, x in tensors.items():
        like = meta_of(x._array)
        where = PretendedDevice(like.device, _describing)
        array = MetaArray(like.shape, like.dtype, like.strides, where)
        twins[slot] = twin = _C.wrap(array)
        if x._requires_grad:
            twin.requires_grad_()
    return twins


def _call_text(call: tuple[Any, ...]) -> str:
    form, op, params, numbers = call
    given = ", ".join(["_" if x is None else repr(x) for x in numbers] + [repr(p) for p in params])
    return f"{op.name}({given})" + (" in place" if form == "in place" else "")


def require_same_calls(tape: Tape, other: Tape) -> None:
    """Refuses a segment whose records' calls values decide: without any, they are others."""
    mine, theirs = tape.calls(), other.calls()
    for a, b in zip(mine, theirs):
        if a[:2] != b[:2] or a[2] != b[2] or a[3] != b[3]:
            raise Unfit(f"values decide: {_call_text(a)}, without them {_call_text(b)}")
    if len(mine) != len(theirs):
        raise Unfit("values decide what is called")


# ---- what is held --------------------------------------------------------------------------------


def describe_held(
    slots: Sequence[int], tensors: dict[int, Tensor], inputs: dict[int, Tensor], tape: Tape
) -> list[Held]:
    """What has to be said of each tensor that is held, so that another can take its place.

    inputs: by slot, as the program knows them; tensors: all, of which some stand for inputs."""
    by_id = {id(x): slot for slot, x in (tensors | inputs).items()}
    found: list[Held] = []
    for slot in slots:
        x = tensors[slot]
        if x._hooks is not None or x._tangent is not None or x._retains_grad:
            raise Unfit("a tensor that is held has hooks")
        value = tape.known(x._array)
        if value is None:
            raise Unfit("a tensor that is held was given by no record")
        base, shares, base_value = x._base, None, None
        for other in (*inputs, *(each for each in slots if each < slot)):
            if tensors[other]._shared is x._shared:
                shares = other
                break
        steps: tuple[tuple[Any, Any], ...] = ()
        if base is not None:
            steps = _view_steps(x._view)
            if id(base) not in by_id:  # of an input that is a view itself?
                base = next((x for x in inputs.values() if x._base is base), base)
            base_value = tape.known(base._array)
            if base_value is None or (shares is None and id(base) in by_id):
                shares = by_id.get(id(base), shares)
            if base_value is None:
                raise Unfit("the base of a view was given by no record")
            if id(base) not in by_id and shares in inputs:
                raise Unfit("the base of a view is no tensor of the segment")
        found.append(Held(
            slot, value, x._shared.version, None if base is None else by_id.get(id(base)),
            base_value, steps, x._created, shares, x._inference,
        ))  # fmt: skip
    return found


def _view_steps(view: Any) -> tuple[tuple[Any, Any], ...]:
    steps = []
    while view is not None:
        op, params, view = view
        steps.append((op, params))
    return tuple(reversed(steps))


def hand_out(held: Sequence[Held], values: list[Any], tensors: list[Any]) -> None:
    """Gives tensors that are held what was computed, as the views that they are."""
    bases: dict[int | None, Any] = {}  # those that nobody holds, by their values
    for each in held:
        x = tensors[each.slot]
        if x is None:
            continue
        array = values[each.value]
        if each.base is None and each.base_value is None:
            made = _C.wrap(array) if each.shares is None else _C.alias(tensors[each.shares], array)
            if each.shares is None:
                made._shared.version = each.version
        else:
            base = tensors[each.base] if each.base is not None else None
            if base is None:
                base = bases.get(each.base_value)
            if base is None:
                base = bases[each.base_value] = _C.wrap(values[each.base_value or 0])
                base._shared.version = each.version
            made = _C.alias(base, array)
            chain = base._view
            for op, params in each.steps[len(_view_steps(chain)) :]:
                chain = (op, params, chain)
            root = base if base._base is None else base._base
            made._base, made._view, made._created = root, chain, each.created
            made._epoch = made._shared.version
        made._inference = each.inference
        _C.become(x, made)


# ---- drafts --------------------------------------------------------------------------------------


def without_dead(calls: list[Lowered], wanted: set[int]) -> list[Lowered]:
    """The calls whose results somebody needs, and those that change something."""
    kept = []
    for call in reversed(calls):
        pure = not call.writes and (call.note.op.is_view or call.note.form == "pointwise")
        if pure and not any(r in wanted for r in call.results):
            continue
        kept.append(call)
        wanted.update(x.number for x in call.args if type(x) is Value)
    return kept[::-1]


def checked(call: Lowered, values: list[Any], forms: Sequence[Form]) -> Lowered:
    """Runs a call, and compares what it gives with what was noted: where that lies otherwise, the
    record's own call is taken from now on."""
    args = [values[x.number] if type(x) is Value else x for x in call.args]
    if call.writes or call.function is None:
        result = call.function(*args)
    else:
        result = call.function(*args)
        if not _as_noted(result, call, forms):
            call = call._replace(function=whole(call.note))
            result = call.function(*args)
    if call.note.several:
        for number, array in zip(call.results, result, strict=True):
            if number >= 0:
                values[number] = array
    elif call.results[0] >= 0:
        values[call.results[0]] = result
    return call


def _as_noted(result: Any, call: Lowered, forms: Sequence[Form]) -> bool:
    several = call.note.several
    if several and (type(result) is not tuple or len(result) != len(call.results)):
        return False
    for number, array in zip(call.results, result if several else (result,)):
        if (number < 0) != (array is None):
            return False
        if number >= 0 and (
            type(array) not in (ndarray, _C.Array) or form_of(array) != forms[number]
        ):
            return False
    return True


def native(
    calls: Sequence[Lowered], size: int, kept: set[int], inputs: Sequence[tuple[int, int]],
    outputs: Sequence[tuple[int, int, int, int]], written: Sequence[tuple[int, int]], finish: Any,
    graphs: bool,
) -> Any:  # fmt: skip
    """A `_C.Program` of calls.  kept: values that are needed at the end; graphs: whether it is
    launched as a CUDA graph."""
    last: dict[int, int] = {}
    for i, call in enumerate(calls):
        for number in (*(x.number for x in call.args if type(x) is Value), *call.results):
            last[number] = i
    dropped: dict[int, list[int]] = {}
    for number, i in last.items():
        if number not in kept and number >= 0:
            dropped.setdefault(i, []).append(number)
    rows = []
    for i, call in enumerate(calls):
        results = call.results if call.note.several else call.results[:1]
        if call.note.several and len(results) == 1:
            raise Unfit(f"{call.note.op.name} gives a tuple of one")
        rows.append((
            call.function,
            tuple(None if type(x) is Value else x for x in call.args),
            tuple(x.number if type(x) is Value else -1 for x in call.args),
            tuple(results),
            tuple(dropped.get(i, ())),
        ))  # fmt: skip
    showing.planned(calls, dropped)
    program = _C.Program(size, tuple(inputs), tuple(rows), tuple(outputs), tuple(written), finish)
    if graphs:
        program.as_graph(showing.graphed, MOST_CHANGED)
    return program


def ordered(
    calls: Sequence[Lowered], inputs: Sequence[int], kept: set[int], graphs: bool
) -> tuple[Any, dict[int, int]]:
    """A program that is run with arrays, its inputs first; and where it has which value."""
    places = {number: i for i, number in enumerate(inputs)}
    for call in calls:
        for number in (*(x.number for x in call.args if type(x) is Value), *call.results):
            if number >= 0:
                places.setdefault(number, len(places))
    moved = [
        call._replace(
            args=tuple(Value(places[x.number]) if type(x) is Value else x for x in call.args),
            results=tuple(places[r] if r >= 0 else r for r in call.results),
        )
        for call in calls
    ]
    wanted = {places[number] for number in kept}
    return native(moved, len(places), wanted, (), (), (), None, graphs), places


class Draft:
    """A segment without gradients, as functions of arrays, before it was compared."""

    def __init__(
        self, tape: Tape, inputs: list[tuple[int, int]], held: list[Held],
        written: list[tuple[int, int]],
    ) -> None:  # fmt: skip
        self.notes, self.forms = list(tape.notes), list(tape.forms)
        self.inputs, self.held, self.written = inputs, held, written
        self.kept = {each.value for each in held}
        self.kept |= {each.base_value for each in held if each.base_value is not None}
        self.calls = self.lowered()

    def lowered(self) -> list[Lowered]:
        """The functions behind the calls that were noted."""
        calls = [lowered(note, self.forms) for note in self.notes]
        return without_dead(calls, set(self.kept))

    def __call__(
        self, region: Any, steps: Sequence[Any], tensors: dict[int, Tensor], held: Sequence[int]
    ) -> Any:
        """Computes what waits, and gives the program for the next time."""
        values: list[Any] = [None] * len(self.forms)
        for slot, number in self.inputs:
            values[number] = tensors[slot]._array
        before = _C.set_grad_enabled(False)
        try:
            calls = [checked(call, values, self.forms) for call in self.calls]
        finally:
            _C.set_grad_enabled(before)
        calls = fused(calls, self.forms, self.kept)
        finish = self.finish()
        outputs = [] if finish else [
            (each.slot, each.value, each.version, int(each.inference)) for each in self.held
        ]  # fmt: skip
        program = native(
            calls, len(values), self.kept, self.inputs, outputs, self.written, finish,
            region.follower.options.graphs,
        )  # fmt: skip
        for slot, times in self.written:
            tensors[slot]._shared.version += times
        if finish:
            finish(region, values, region.tensors(tensors))
        else:
            hand_out(self.held, values, region.tensors(tensors))
        return program

    def finish(self) -> Any:
        """What hands out tensors of which some are views."""
        held = self.held
        if all(each.base_value is None and each.shares is None for each in held):
            return None
        return lambda region, values, tensors: hand_out(held, values, tensors)


def first(
    region: Any, steps: Sequence[Any], tensors: dict[int, Tensor], held: Sequence[int]
) -> Any:
    """Computes what waits for the first time, by the calls; gives the plan for the next time."""
    from tritorch._following import backing, training

    if region.follower.options.backend is not None:
        return backing.first(region, steps, tensors, held)
    inputs, given_tensors = list(tensors), dict(tensors)
    if any(step.grad_enabled for step in steps) and any(region.needs_grad(slot) for slot in held):
        return training.first(region, steps, tensors, held)
    tape = Tape()
    versions = {slot: tensors[slot]._shared.version for slot in inputs}
    for slot in inputs:
        tape.number(tensors[slot]._array)
    given = [(slot, tape.number(tensors[slot]._array)) for slot in inputs]
    twins = described({slot: tensors[slot] for slot in inputs})
    run_noted(region, steps, tensors, tape)
    try:
        if tape.unfit:
            raise Unfit(tape.unfit)
        other = Tape()
        for slot in inputs:
            other.number(twins[slot]._array)
        with noting(other.note):
            run_described(steps, twins)
        require_same_calls(tape, other)
        written = _written(versions, tensors)
        described_held = describe_held(held, tensors, given_tensors, tape)
        return Draft(tape, given, described_held, written)
    except Unfit as error:
        counts.unfit(str(error))
    except Exception as error:  # without values something is refused
        counts.unfit(f"{type(error).__name__}: {error}")
    return None


def _written(versions: dict[int, int], tensors: dict[int, Tensor]) -> list[tuple[int, int]]:
    """Which storages were written, by the slot of one tensor of each, and how often."""
    seen: set[int] = set()
    found = []
    for slot, before in versions.items():
        shared = tensors[slot]._shared
        if shared.version != before and id(shared) not in seen:
            seen.add(id(shared))
            found.append((slot, shared.version - before))
    return found


assert dispatching  # the door tells what is noted
