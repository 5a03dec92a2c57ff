"""Segments with gradients: their outputs and inputs, and the backward pass as a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tritorch import _C
from tritorch.arrays.arrays import ndarray
from tritorch.arrays.meta import MetaArray
from tritorch.autograd import engine
from tritorch.autograd.function import refused
from tritorch.autograd.graph import modified
from tritorch.autograd.nodes import Node
from tritorch.compilation.backward import intact
from tritorch.compilation.backward.saving import Late, budget, saved
from tritorch.compilation.backward.subgraph import (
    Arrivals,
    Sources,
    kept_in_subgraph,
    nodes_after,
    start_at,
    traced_leaf,
)
from tritorch.compilation.dynamic_shapes.symbols import Path, apart, hinted, is_dynamic, strides_of
from tritorch.compilation.follow import ambient, counts
from tritorch.compilation.follow.calls import filing
from tritorch.compilation.follow.tape import Form, Note, Tape, Unfit, Value, form_of
from tritorch.compilation.passes.functionalize import functionalized
from tritorch.compilation.passes.hoist import hoisted
from tritorch.compilation.passes.pipeline import run_passes
from tritorch.compilation.plan import meta_execution, plans
from tritorch.compilation.plan.lowering import Lowered
from tritorch.compilation.plan.symbolic_arguments import SymbolicArguments, symbolic_arguments
from tritorch.compilation.tools import showing
from tritorch.core.dispatching import noting
from tritorch.core.generator import restore, states
from tritorch.core.scopes import Scope, inside, set_back, sets, uncollected, unfollowed, unrecorded
from tritorch.core.tensor import Tensor

if TYPE_CHECKING:
    from tritorch.compilation.backward.joint import Draft


WRITTEN = (
    "these gradients of a compiled function are computed by running its calls again, and an input "
    "of those was modified by an inplace operation since"
)
MET = (
    "these gradients of a compiled function are computed by running its calls again, and those are "
    "collectives, which other processes would not call again: differentiate it without compile"
)
REPLACED = (
    "an input of a compiled function was given other data (`x.data = y`) before the backward pass, "
    "which reads it, and what was computed of the data before"
)
MOST_BACKWARDS = 4  # programs of backward passes, for different sets of outputs


class Segment:
    """A segment with gradients, for one set of tensors that are held."""

    written = WRITTEN  # why its calls are not run again

    def __init__(self, steps: Sequence[Any], slots: list[int], held: list[int]) -> None:
        self.steps = list(steps)
        self.path = Path(steps[-1])
        self.slots = slots  # of inputs
        self.held = held  # slots of tensors that are held and want gradients
        self.bases: list[int] = []  # slots of views that alone hold a base, which wants them too
        self.wanting: list[int] = []  # slots of inputs that want gradients
        self.arrivals: list[int] = []  # for each of those, how many gradients may come
        # And of each of those edges the outputs that lead to it.
        self.roots_by_edge: list[list[set[int]]] = []
        self.depends_on: list[set[int]] = []  # for each output, the other outputs below it
        self.within: set[int] = set()  # the outputs that are below other outputs
        self.shares: list[set[int]] = []  # for each output, those that share nodes with it
        # For each output, the slots whose memory its gradient reads, with what is read there, and
        # those of the inputs from which that is computed.
        self.watched: list[dict[int, MetaArray]] = []
        self.sources: list[set[int]] = []
        self.every: set[int] = set()  # all of those slots
        self.read: list[tuple[int, int]] = []  # outputs that gradients read, and their slots
        # For each output, the values that its nodes keep, except those of inputs; None: unknown.
        self.kept: list[list[int] | None] = []
        self.otherwise: set[int] = set()  # outputs whose gradients no program gave when asked for
        self.intact: set[int] = set()  # outputs that are followed whatever no node keeps
        self.calls: intact.Calls | None = None
        self.meets = False  # whether other processes wait for some of its calls
        self.draft: Draft | None = None
        self.backwards: list[Backward] = []  # one for each set of outputs, as they were asked for
        self.making = plans.Making()

    def outputs(self, tensors: Any) -> list[Tensor]:
        """The tensors whose history the segment's node is, of all by slot."""
        return [
            *(tensors[slot] for slot in self.held), *(tensors[slot]._base for slot in self.bases)
        ]  # fmt: skip

    def watch(
        self, roots: Sequence[Any], tensors: dict[int, Tensor], tape: Tape, slots: Sequence[int]
    ) -> None:
        """Finds the memory that the gradient of each output reads: a program may write it
        before."""
        self.meets = any(note.meets for note in tape.notes)
        self.written = MET if self.meets else WRITTEN
        slot_by_memory = {id(tensors[slot]._shared): slot for slot in (*self.held, *slots)}
        writes_unseen = bool(tape.unfit) and any(step.writes for step in self.steps)
        numbers: dict[int, int] = {}
        for slot in slots:
            numbers.setdefault(tape.number(tensors[slot]._array), slot)
        sources = Sources(tape, numbers, writes_unseen)
        for node, _ in roots:
            kept = kept_in_subgraph(node)
            seen = [each for each in kept if id(each.shared) in slot_by_memory]
            self.watched.append({slot_by_memory[id(x.shared)]: x.like for x in seen[::-1]})
            self.sources.append(sources.of(kept))
            own = [x for x in kept if x.array is not None and id(x.shared) not in slot_by_memory]
            known = [tape.known(x.array) for x in own]
            self.kept.append(None if None in known else [n for n in known if n is not None])

    def versions(self, tensors: dict[int, Tensor]) -> dict[int, tuple[Any, int]]:
        """The storages that gradients read and their versions, by slot."""
        found = {}
        for slot in self.every:
            shared = tensors[slot]._shared
            found[slot] = shared, shared.version
        return found

    def require_unwritten(self, run: Any, grads: list[Any]) -> list[int]:
        """Refuses gradients that read memory that was written since; gives the slots of the inputs
        with other data, which they read."""
        reads = {
            slot: x for i, g in enumerate(grads) if g is not None
            for slot, x in self.watched[i].items()
        }  # fmt: skip
        replaced = []
        for slot, like in reversed(reads.items()):
            shared, before = run.versions[slot]
            given = run.given.get(slot)
            if given is not None and given._shared is not shared:
                replaced.append(slot)  # as for a node that keeps the tensor, whatever its data is
            elif shared.version != before:
                raise modified(_C.wrap(like), shared.version, before)
        return replaced

    def can_follow(self, run: Any, grads: list[Any]) -> bool:
        """True if running the calls again on the inputs gives the values that these gradients
        read."""
        if self.meets:
            return False
        needed = set().union(*(self._told(run, i) for i, g in enumerate(grads) if g is not None))
        now = ((run.given[slot]._shared, *run.versions[slot]) for slot in needed)
        return all(now is shared and now.version == before for now, shared, before in now)

    def _told(self, run: Any, i: int) -> set[int]:
        """The slots of the inputs that must be as they were, so that the values kept by an output's
        nodes can be computed again: Note [Intact]."""
        read = self.sources[i]
        return read & self.watched[i].keys() if run.keeps_intact(i) else read

    def is_changed(self, run: Any) -> bool:
        """True if anything of a run was written since, or has other data."""
        return any(
            shared.version != before
            or (slot in run.given and run.given[slot]._shared is not shared)
            for slot, (shared, before) in run.versions.items()
        )

    def read_results(self, held: Sequence[Tensor]) -> dict[int, Any]:
        """The arrays of those results that gradients read, by slot."""
        return {slot: held[i]._array for i, slot in self.read}

    def unexpandable(self, run: Any) -> set[int]:
        """The outputs whose graph cannot be run again: an input of it was written since, or has
        other data, or it has collectives."""
        if self.meets:
            return {*range(len(self.watched))}
        changed = {
            slot for slot, (shared, before) in run.versions.items()
            if shared.version != before
            or (slot in run.given and run.given[slot]._shared is not shared)
        }  # fmt: skip
        if not changed:
            return set()
        return {
            i for i, read in enumerate(self.watched)
            if not changed.isdisjoint(read) or not changed.isdisjoint(self._told(run, i))
        }  # fmt: skip

    def expanded_graph(self, run: Any, node: Any) -> list[tuple[Any, int]]:
        """The graph of a run, in the place of its node: the node and number of each output
        there."""
        self.otherwise |= {*range(len(self.watched))}
        made, edges = dict(run.tensors), iter(zip(node._node_edges, node._node_outputs))
        for slot, by_edge in zip(self.wanting, self.roots_by_edge):
            found = [next(edges) for _ in by_edge]
            if found and isinstance(found[0][0], Node):
                made[slot] = start_at(*found[0], made[slot])
            elif slot in run.copied:
                made[slot] = made[slot].view_as(made[slot])
        _C.flush()
        first = Node()._node_sequence
        with unfollowed:
            self._run_again(run, made)
        roots = [(x._node, x.output_nr) for x in self.outputs(made)]
        for each in nodes_after(first, [roots[i][0] for i in node.passed]):
            if each._node_holds:
                each._node_free()  # as the pass that came by did
        for i, each in enumerate(nodes_after(first, [root for root, _ in roots])):
            each._node_sequence = node._node_sequence + 1 + i
        return roots

    def _run_again(self, run: Any, tensors: dict[int, Tensor]) -> None:
        """Runs the calls of a run again: the same draws, and the results that there are."""
        for slot in self.slots:  # one may want gradients since: `x.add_(w)`, `x.requires_grad_()`
            if slot not in self.wanting and tensors[slot]._requires_grad:
                tensors[slot] = tensors[slot].detach()
        now = states(generator for generator, _ in run.drawn)
        with Scope(set_back(restore, now), sets(restore, run.drawn)):
            with ambient.as_then(self.steps[0].ambient):
                if self.is_changed(run):
                    run.run_intact(tensors)
                else:
                    meta_execution.run_again(self.steps, tensors, run.numbers)
            of_inputs = {id(run.given[slot]._shared) for slot in self.slots}
            for slot, array in run.results.items():  # they may be written unseen, by `y.data`
                own, form = tensors[slot], form_of(array)
                if id(own._shared) not in of_inputs and not apart(form.shape, form.strides):
                    with unrecorded:
                        _C.wrap(own._array).copy_(_C.wrap(array))

    def freed_with(self, asked: set[int]) -> set[int]:
        """The outputs whose gradients need nodes that a pass from others frees."""
        return set().union(*(self.shares[i] for i in asked))

    def gradients(self, run: Any, grads: list[Any]) -> list[list[Any]]:
        """The gradients that neither a run's programs nor its graph give."""
        self.require_unwritten(run, grads)
        self.otherwise |= {i for i, g in enumerate(grads) if g is not None}
        if self.can_follow(run, grads):
            return self.followed(run, grads)
        if not _C.is_grad_enabled():
            raise RuntimeError(self.written)
        # They are right, and only their derivatives need what was written.
        try:
            wanted = self._differentiable(run, grads)
        except Exception:  # without values something is refused
            raise RuntimeError(self.written) from None
        with unrecorded:
            results = run.backward(grads)
        edges = [run.tensors[slot] for slot in self.wanting]
        edges += [g for g in grads if g is not None and g._requires_grad]
        return [
            [refused(g, self.written, edges) if further else g for g in found]
            for found, further in zip(results, wanted)
        ]

    def _differentiable(self, run: Any, grads: list[Any]) -> list[bool]:
        """For each input, whether its gradient is a function of tensors that require gradients."""
        made = meta_execution.meta_copies(run.tensors)
        inputs = [made[slot] for slot in self.wanting]
        with ambient.as_then(self.steps[0].ambient):
            meta_execution.run_on_meta(self.steps, made, run.numbers)
        roots = [x for x, g in zip(self.outputs(made), grads) if g is not None]
        given = [meta_execution.meta_copy(g) for g in grads if g is not None]
        found = engine.backward(roots, given, True, True, inputs, False)
        return [g is not None and g._requires_grad for g in found]

    def followed(self, run: Any, grads: list[Any]) -> list[list[Any]]:
        """Gradients by running the calls of a run again, on its inputs, whose graph is that of the
        results."""
        made = dict(run.tensors)
        again = _C.is_grad_enabled()
        # Gradients of gradients lead to the inputs themselves, but not by their hooks.
        traced = (lambda x: x.view_as(x)) if again else traced_leaf
        inputs = [traced(made[slot]) for slot in self.wanting]
        made |= dict(zip(self.wanting, inputs))
        self._run_again(run, made)
        roots = [x for x, g in zip(self.outputs(made), grads) if g is not None]
        given = [g for g in grads if g is not None]
        if again:
            found = engine.backward(roots, given, True, True, inputs, False)
            return [[] if g is None else [g] for g in found]
        arrivals = Arrivals(inputs)
        engine.run(roots, given, True, False, arrivals)
        return arrivals.results

    def learns(self, grads: list[Any], numbers: tuple[Any, ...]) -> bool:
        """True if a backward pass is to be noted: no program does it, and the values that it reads
        can still be saved."""
        draft = self.draft
        if draft is None or draft.planned or len(self.backwards) == MOST_BACKWARDS:
            return False
        return self.backward_for(grads, numbers) < 0

    def backward_for(self, grads: list[Any], numbers: tuple[Any, ...]) -> int:
        """The backward pass of these gradients, or -1."""
        found = (i for i, each in enumerate(self.backwards) if each.takes(grads, numbers))
        return next(found, -1)

    @inside(uncollected)
    def learn(
        self, tape: Tape, split: int, seen: int, grads: list[Any], results: Any,
        tensors: dict[int, Tensor], numbers: tuple[Any, ...],
    ) -> None:  # fmt: skip
        """Makes plans of a forward and a backward pass that were noted."""
        draft = self.draft
        if draft is None:
            return
        part = budget()
        try:
            if tape.unfit:
                raise Unfit(tape.unfit)
            found = []
            for each in results:
                values = [tape.known(g._array) for g in each]
                if None in values:
                    raise Unfit("a gradient was given by no record")
                found.append(values)
            other = meta_execution.MetaTape(tape)
            metas = meta_execution.meta_copies(tensors, self.path.layouts)
            with draft.known.with_values(self.path, numbers, self.steps[-1]):
                self._require_same(tape, other, metas, grads)
            symbolic = symbolic_arguments(tape, other, self.path)
            watched = {slot for x, g in zip(self.watched, grads) if g is not None for slot in x}
            with filing:  # other threads make a program of all of this, or of nothing
                if draft.planned:
                    return
                if not self.backwards:
                    draft.symbolic = symbolic.named(draft.names, seen)
                    if self.path.symbols:
                        draft.held = plans.with_dynamic_steps(draft.held, metas, self.path)
                backward = Backward(
                    tape, split, seen, grads, found, symbolic, self.making, draft, watched, part
                )
                backward.saved += draft.compute_early(backward.early, backward.forms)
                self.backwards.append(backward)
                draft.fit(backward.saved)
                self._keep_intact(draft, tape, split)
        except Exception as error:
            if not self.backwards:  # other gradients are computed by running the calls
                said = str(error) if isinstance(error, Unfit) else ""
                counts.unfit(said or f"{type(error).__name__}: {error}")
                self.draft = None

    def _keep_intact(self, draft: Draft, tape: Tape, split: int) -> None:
        """Lets a program save the values for gradients that no program gives: Note [Intact]."""
        asked = {i for each in self.backwards for i, n in enumerate(each.grads) if n is not None}
        others = {*range(len(self.watched))} - asked | self.otherwise
        for i in sorted(others):
            kept, read = self.kept[i], self.watched[i]
            if kept is None or self.sources[i] <= read.keys():
                continue
            if self.calls is None:
                known = [n for x in draft.held for n in (x.value, x.base_value) if n is not None]
                self.calls = intact.Calls(tape, split, draft.inputs, known)
            held = {each.value for each in draft.held if each.slot in read}
            safe = {slot for slot, _ in draft.inputs if slot in read}
            safe |= {slot for slot, _ in draft.copies}
            found = self.calls.partition(kept, safe, held, draft.kept)
            if found is not None:
                draft.keep_intact(found, self.calls)
                self.intact.add(i)

    def _require_same(
        self, tape: Tape, other: Tape, metas: dict[int, Tensor], grads: list[Any]
    ) -> None:
        """Refuses segments that values decide: runs forwards and backwards on meta tensors, on
        another tape."""
        leaves = [metas[slot] for slot in self.wanting]
        for slot in self.slots:
            other.number(metas[slot]._array)
        with noting(other.note):
            meta_execution.run_on_meta(self.steps, metas, self.path.symbols)
            roots, given = [], []
            for out, number in zip(self.outputs(metas), grads):
                if number is None:
                    continue
                like = out._array
                strides = _strides_like(tape.forms[number], like)
                meta = _C.wrap(MetaArray(like.shape, like.dtype, strides, like.device))
                other.is_as(number, meta._array)
                given.append(meta)
                roots.append(start_at(out._node, out.output_nr))
            engine.run(roots, given, True, False, Arrivals(leaves))
        if other.unfit:
            raise Unfit(other.unfit)
        meta_execution.require_same_calls(tape, other, self.path.symbols)


def _strides_like(form: Form, like: MetaArray) -> tuple[Any, ...]:
    """The strides of a gradient that has the layout of one that was noted, in terms of sizes."""
    if not is_dynamic(like.shape):
        return form.strides
    if not any(form.strides):
        return form.strides
    if hinted(tuple(like.strides)) == form.strides:
        return tuple(like.strides)
    if not apart(form.shape, form.strides):
        return strides_of(like.shape, form.shape, form.strides, {})
    raise Unfit(f"a gradient of {like.shape} lies as {form.strides}")


# ---- its backward pass ---------------------------------------------------------------------------


def _reads_of(calls: Sequence[Lowered]) -> set[int]:
    return {x.number for call in calls for x in call.args if type(x) is Value}


def _read_by(notes: Sequence[Note]) -> set[int]:
    return {x.number for note in notes for x in note.inputs if type(x) is Value}


class Backward:
    """The backward pass of a segment: a program of saved values and gradients."""

    def __init__(
        self, tape: Tape, split: int, seen: int, grads: list[Any], results: list[list[Any]],
        symbolic: SymbolicArguments, making: plans.Making, draft: Draft, watched: set[int],
        part: float,
    ) -> None:  # fmt: skip
        """watched: slots of tensors that are not written before, or the pass is refused."""
        self.results, self.making = results, making
        self.ambient = _C.ambient()  # the settings on which calls depend
        self.grads = grads  # their values, or None
        self.forms = list(tape.forms)
        self.kept = {number for each in results for number in each}
        before = {*range(seen), *(number for number in grads if number is not None)}
        notes, names = functionalized(tape.notes[split:], self.forms, before, tape.memory())
        self.symbolic = symbolic.named(names, len(tape.forms))
        self.symbolic.args = self.symbolic.args[split:]
        known = set(range(seen)).difference(grads)
        fixed = self.symbolic.fixed(self.forms)
        notes, self.early = hoisted(notes, self.forms, fixed, known, tape.notes[:split])
        calls = self.symbolic.lowered(notes, self.forms)
        self.calls = plans.without_dead(calls, set(self.kept))
        given = [number for number in grads if number is not None]
        parts = [part.results[0] for part in self.early]  # they are saved, too
        made = {*(r for call in self.calls for r in call.results), *given, *parts}
        made |= self.symbolic.numbers.keys()
        needed = _reads_of(self.calls) | self.kept
        # A value that is written in the backward pass was made there.
        early_on = {number for number in needed if number < seen and number not in given}
        if any(number not in made and number >= seen for number in needed):
            raise Unfit("a gradient reads what was given by no record")
        alive = {id(call.note) for call in self.calls}
        args = self.symbolic.args
        late = Late(
            [note for note in notes if id(note) in alive],
            [
                dynamic_args
                for note, dynamic_args in zip(notes, args, strict=True)
                if id(note) in alive
            ],
            self.early,
        )
        found = saved(
            draft, tape, late, early_on, early_on & self.kept, self.forms, self.symbolic, watched,
            part,
        )  # fmt: skip
        # Values computed from inputs read them as they were, whatever data they have by then.
        own_ids = {id(note) for note in late.notes}
        past = [*found.late.early, *(note for note in found.late.notes if id(note) not in own_ids)]
        self.past = _read_by(past)
        self.now = self.kept | _read_by(late.notes)
        if found.late is not late:
            notes, self.symbolic.args, self.early = found.late
            self.calls = self.symbolic.lowered(notes, self.forms)
            parts = [part.results[0] for part in self.early]
        self.saved = found.theirs
        self.inputs = [*found.own, *parts, *given]
        self.program: Any = None
        self.given = dict(draft.inputs)  # the values of the inputs, by slot

    def with_other(self, saved: list[Any], data: dict[int, Any]) -> list[Any]:
        """The saved values, where inputs have other data by now: a gradient reads that, if it reads
        the input and nothing that was computed from it."""
        found = list(saved)
        for slot, array in data.items():
            number = self.given[slot]
            if number not in self.now or number not in self.saved:
                continue
            position = self.saved.index(number)
            if (
                number in self.past
                or type(array) is not type(found[position])
                or form_of(array) != form_of(found[position])
            ):
                raise RuntimeError(REPLACED)
            found[position] = array
        return found

    def takes(self, grads: list[Any], numbers: tuple[Any, ...]) -> bool:
        """True if the gradients are those of the outputs that were noted, with their layouts, and
        the pass has the autocast of the noted one."""
        if _C.ambient() != self.ambient:
            return False
        for g, number in zip(grads, self.grads):
            if (g is None) != (number is None):
                return False
            if g is not None and (
                type(g._array) not in (ndarray, _C.Array)
                or form_of(g._array) != self.symbolic.form(number, self.forms, numbers)
            ):
                return False
        return True

    def __call__(
        self, saved: list[Any], grads: list[Any], numbers: tuple[Any, ...]
    ) -> list[list[Any]]:
        if self.program is None:
            found = self._first_run(saved, grads, numbers)
        else:
            values = self.program.run(numbers, *saved, *grads)
            found = [[values[number] for number in each] for each in self.indices]
        return [[_C.wrap(array) for array in each] for each in found]

    @inside(uncollected)
    def _first_run(
        self, saved: list[Any], grads: list[Any], numbers: tuple[Any, ...]
    ) -> list[list[Any]]:
        """The arrays of the results, by the functions; makes the program."""
        values: list[Any] = [None] * len(self.forms)
        for number, array in zip(self.inputs, (*saved, *grads)):
            values[number] = array
        forms = self.symbolic.begin(values, self.forms, numbers)
        calls = [plans.checked(call, values, forms) for call in self.calls]
        known, given = self.symbolic.fixed(forms), self.inputs
        calls = run_passes(calls, known, given, self.kept, self.making)
        program, indices = plans.ordered(
            calls, self.inputs, self.kept, self.symbolic, self.making.graphs,
            showing.costed(calls, known),
        )  # fmt: skip
        self.indices = [[indices[number] for number in each] for each in self.results]
        self.program = program  # last: another thread may look
        return [[values[number] for number in each] for each in self.results]
