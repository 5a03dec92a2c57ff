"""Plans: segments as functions of arrays, without what surrounds them in a call.

The first time that a segment is deferred, its calls are made as they are, and the records' calls in
them are noted (`Tape`).  The second time the functions behind those run in their place, each result
compared with the noted one (`Draft`).  From the third time on a native program runs them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from tritorch import _C
from tritorch.arrays.arrays import ndarray
from tritorch.compilation.dynamic_shapes.symbols import Path, computed, indices_of, make_dynamic
from tritorch.compilation.follow import counts
from tritorch.compilation.follow.calls import Slot, slots_of
from tritorch.compilation.follow.tape import Form, NoteForm, Tape, Unfit, Value, form_of, renumbered
from tritorch.compilation.passes.functionalize import functionalized
from tritorch.compilation.passes.pipeline import run_passes
from tritorch.compilation.plan.lowering import Lowered, whole
from tritorch.compilation.plan.meta_execution import (
    MetaTape,
    meta_copies,
    require_same_calls,
    run_on_meta,
)
from tritorch.compilation.plan.symbolic_arguments import SymbolicArguments, symbolic_arguments
from tritorch.compilation.tools import showing
from tritorch.core import dispatching, scopes
from tritorch.core.dispatching import noting
from tritorch.core.scopes import inside, uncollected
from tritorch.core.tensor import Tensor

# The part of a CUDA graph's nodes that may be changed for a run: changing one costs the host about
# what launching it does, and a graph's kernels follow each other sooner.
MOST_CHANGED = 0.75


class Making(NamedTuple):
    """The options of programs."""

    graphs: bool = False  # whether they are launched as CUDA graphs
    # Whether kernels for GPUs are written for several calls: "" no, "exact" with eager's bits,
    # "default" where they are as near to the truth as eager's.
    fusing: str = "default"
    without: frozenset[str] = frozenset()  # passes (`PASSES`) that are switched off


class Held(NamedTuple):
    """A tensor that somebody holds when a segment is computed, and the tensor whose view it is, if
    it is one."""

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
            tape.set_source_line(before, step.call.source_line)
            made = range(step.first + step.met, step.first + step.met + step.made)
            if any(tape.known(tensors[slot]._array) is None for slot in made):
                tape.unfit = tape.unfit or f"{step.gate.__name__} gives what no record gave"
            if not step.made and len(tape.notes) == before and not _gives_back(step):
                tape.unfit = tape.unfit or f"{step.gate.__name__} does what no record does"


def _gives_back(step: Any) -> bool:
    """True if a call did nothing but give an argument back (`x.to(x.dtype)`, dropout in
    evaluation).  Functions in place change what no version says: names, where memory lies."""
    name, call = step.gate.__name__, step.call
    if step.writes or name.endswith("_") or type(call.results) is not Slot:
        return False
    return call.results.index in slots_of((call.args, tuple(call.kwargs.values())))


# ---- held tensors --------------------------------------------------------------------------------


def is_usable(x: Tensor) -> bool:
    """True if a tensor may be asked for its history: not a view of several, after a write to its
    base."""
    try:
        _ = x._node
    except RuntimeError:
        return False
    return True


def specs_of_held(
    slots: Sequence[int], tensors: dict[int, Tensor], inputs: dict[int, Tensor], tape: Tape
) -> list[Held]:
    """A description of each tensor that is held, from which another can take its place.

    inputs: by slot, as the program knows them; tensors: all, of which some stand for inputs."""
    by_id = {id(x): slot for slot, x in (tensors | inputs).items()}
    found: list[Held] = []
    for slot in slots:
        x = tensors[slot]
        if x._hooks is not None or x._tangent is not None or x._retains_grad:
            raise Unfit("a tensor that is held has hooks")
        if not is_usable(x):
            raise Unfit("a view that is held may not be used")
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


def with_dynamic_steps(held: list[Held], metas: dict[int, Tensor], path: Path) -> list[Held]:
    """The held tensors, with dynamic numbers in the params of their views."""
    indices = indices_of(path.symbols)
    found = []
    for each in held:
        steps = _view_steps(metas[each.slot]._view) if each.steps else ()
        if [op for op, _ in steps] != [op for op, _ in each.steps]:
            raise Unfit("in meta execution, a view is another one")
        found.append(each._replace(steps=make_dynamic(steps, indices)))
    return found


def _view_steps(view: Any) -> tuple[tuple[Any, Any], ...]:
    steps = []
    while view is not None:
        op, params, view = view
        steps.append((op, params))
    return tuple(reversed(steps))


def hand_out(
    held: Sequence[Held], values: list[Any], tensors: list[Any], numbers: tuple[Any, ...]
) -> None:
    """Gives tensors that are held their computed values, as the views that they are."""
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
                chain = (op, computed(params, numbers) if numbers else params, chain)
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
        op = call.note.op
        pure = op.is_view or call.note.form in (NoteForm.POINTWISE, NoteForm.COPY)
        pure = pure and not call.writes and not op.raises
        if pure and not any(r in wanted for r in call.results):
            continue
        kept.append(call)
        wanted.update(x.number for x in call.args if type(x) is Value)
    return kept[::-1]


def checked(call: Lowered, values: list[Any], forms: Sequence[Form]) -> Lowered:
    """Runs a call, and compares its result with the noted form: where it has another layout, the
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
    symbolic: SymbolicArguments, graphs: bool, costs: Sequence[str],
) -> Any:  # fmt: skip
    """A `_C.Program` of calls. kept: values that are needed at the end; graphs: whether it is
    launched as a CUDA graph; costs: the columns that are shown of the calls' costs."""
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
            *symbolic.expected(call),
        ))  # fmt: skip
    showing.planned(calls, dropped, costs)
    program = _C.Program(
        size, tuple(inputs), tuple(rows), tuple(outputs), tuple(written), finish,
        tuple(symbolic.numbers.items()),
    )  # fmt: skip
    if graphs:
        program.as_graph(showing.graphed, MOST_CHANGED)
    return program


def ordered(
    calls: Sequence[Lowered], inputs: Sequence[int], kept: set[int], symbolic: SymbolicArguments,
    graphs: bool, costs: Sequence[str],
) -> tuple[Any, dict[int, int]]:  # fmt: skip
    """A program that runs with arrays, its inputs first; and the index of each value in it."""
    indices = {number: i for i, number in enumerate(inputs)}
    for call in calls:
        for number in (*(x.number for x in call.args if type(x) is Value), *call.results):
            if number >= 0:
                indices.setdefault(number, len(indices))
    moved = [
        call._replace(
            args=renumbered(call.args, indices),
            results=tuple(indices.get(r, r) for r in call.results),
        )
        for call in calls
    ]
    wanted = {indices[number] for number in kept}
    own = symbolic.moved(indices)
    return native(moved, len(indices), wanted, (), (), (), None, own, graphs, costs), indices


class Draft:
    """A segment without gradients, as functions of arrays, before it was compared."""

    def __init__(
        self, tape: Tape, inputs: list[tuple[int, int]], held: list[Held],
        written: list[tuple[int, int]], symbolic: SymbolicArguments | None = None,
    ) -> None:  # fmt: skip
        self.forms = list(tape.forms)
        given = [number for _, number in inputs]
        memory = tape.memory()
        self.notes, self.names = functionalized(tape.notes, self.forms, given, memory)
        shown = Counter(memory.values())
        self.alone = {number for number in given if shown[memory[number]] == 1}
        self.symbolic = (symbolic or SymbolicArguments()).named(self.names, len(tape.forms))
        self.inputs, self.held, self.written = inputs, held, written
        self.kept = {each.value for each in held}
        self.kept |= {each.base_value for each in held if each.base_value is not None}
        self.calls = self.lowered()

    def lowered(self) -> list[Lowered]:
        """The functions behind the calls that were noted."""
        calls = self.symbolic.lowered(self.notes, self.forms)
        return without_dead(calls, set(self.kept))

    @inside(uncollected)
    def __call__(
        self, region: Any, steps: Sequence[Any], tensors: dict[int, Tensor], held: Sequence[int]
    ) -> Any:
        """Computes the segment, and gives the program for the next time."""
        values: list[Any] = [None] * len(self.forms)
        for slot, number in self.inputs:
            values[number] = tensors[slot]._array
        forms = self.symbolic.begin(values, self.forms, region.numbers)
        with scopes.unrecorded:
            calls = [checked(call, values, forms) for call in self.calls]
        known, given = self.symbolic.fixed(forms), [n for _, n in self.inputs]
        making = region.follower.options.making
        calls = run_passes(calls, known, given, self.kept, making, self.alone)
        finish = self.finish()
        outputs = [] if finish else [
            (each.slot, each.value, each.version, int(each.inference)) for each in self.held
        ]  # fmt: skip
        size = 1 + max([len(values) - 1, *(n for call in calls for n in call.results)])
        program = native(
            calls, size, self.kept, self.inputs, outputs, self.written, finish,
            self.symbolic, making.graphs, showing.costed(calls, known),
        )  # fmt: skip
        for slot, times in self.written:
            tensors[slot]._shared.version += times
        if finish:
            finish(region, values, region.tensors(tensors))
        else:
            hand_out(self.held, values, region.tensors(tensors), region.numbers)
        return program

    def finish(self) -> Any:
        """The function that hands out tensors of which some are views."""
        held = self.held
        if all(each.base_value is None and each.shares is None for each in held):
            return None
        return lambda region, values, tensors: hand_out(held, values, tensors, region.numbers)


def first(
    region: Any, steps: Sequence[Any], tensors: dict[int, Tensor], held: Sequence[int]
) -> Any:
    """Computes a segment for the first time, by its calls; gives the plan for the next time."""
    from tritorch.compilation.tools import backing

    if region.follower.options.backend is not None:
        return backing.first(region, steps, tensors, held)
    with uncollected:
        return _first(region, steps, tensors, held)


def _first(
    region: Any, steps: Sequence[Any], tensors: dict[int, Tensor], held: Sequence[int]
) -> Any:
    from tritorch.compilation.backward import joint

    inputs, given_tensors = list(tensors), dict(tensors)
    if any(step.grad_enabled for step in steps) and any(region.needs_grad(slot) for slot in held):
        return joint.first(region, steps, tensors, held)
    tape = Tape()
    versions = {slot: tensors[slot]._shared.version for slot in inputs}
    for slot in inputs:
        tape.number(tensors[slot]._array)
    given = [(slot, tape.number(tensors[slot]._array)) for slot in inputs]
    path = Path(steps[-1])
    metas = meta_copies({slot: tensors[slot] for slot in inputs}, path.layouts)
    run_noted(region, steps, tensors, tape)
    try:
        if tape.unfit:
            raise Unfit(tape.unfit)
        other = MetaTape(tape)
        for slot in inputs:
            other.number(metas[slot]._array)
        with region.follower.known.with_values(path, region.numbers, steps[-1]), noting(other.note):
            run_on_meta(steps, metas, path.symbols)
            require_same_calls(tape, other, path.symbols)  # while symbols have this run's values
        written = _written(versions, tensors)
        held_specs = specs_of_held(held, tensors, given_tensors, tape)
        if not path.symbols:
            return Draft(tape, given, held_specs, written)
        held_specs = with_dynamic_steps(held_specs, metas, path)
        return Draft(tape, given, held_specs, written, symbolic_arguments(tape, other, path))
    except Unfit as error:
        counts.unfit(str(error))
    except Exception as error:  # without values something is refused
        counts.unfit(f"{type(error).__name__}: {error}")
    return None


def _written(versions: dict[int, int], tensors: dict[int, Tensor]) -> list[tuple[int, int]]:
    """The storages that were written, by the slot of one tensor of each, and how often."""
    seen: set[int] = set()
    found = []
    for slot, before in versions.items():
        shared = tensors[slot]._shared
        if shared.version != before and id(shared) not in seen:
            seen.add(id(shared))
            found.append((slot, shared.version - before))
    return found


assert dispatching  # the door tells what is noted
