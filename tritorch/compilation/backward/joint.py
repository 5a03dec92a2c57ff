"""Segments through which gradients flow: one node of the graph, whose gradient is a program too.

# Note [A segment as a node]
The tensors that a program holds after a segment have one node, `CompiledFunctionBackward`, with an
edge for each time that a gradient arrives at one of the segment's inputs; so they are added up in
the order, and to the bits, of a graph without compile.

The first time, the segment's calls run on traced copies of the inputs, with a subgraph of their own
below the node.  When the node is asked for gradients, that graph runs backwards, and its
computation is noted on the same tape as the forward pass: a value of the one that the other reads
has to be saved.  Where the node is asked again, for gradients of other outputs, that pass is noted,
too, after the forward pass on the tape.  From then on all are programs.

Gradients of outputs that were not noted are computed by running the calls again on the inputs
themselves (`followed`): the node keeps those.

A node's outputs are independent of each other in the graph, though one may be computed from
another.  Where that can be seen, the node is expanded (`CompiledFunctionBackward.expand`): the
calls run again, on inputs with the edges that the node has, and gradients of the node go to their
nodes from then on.  Those get the sequence numbers that were reserved after it, so that the terms
of a gradient are added up in the order of a graph without compile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritorch import _C
from tritorch.arrays import arrays
from tritorch.autograd import passes
from tritorch.compilation.backward import intact
from tritorch.compilation.backward.nodes import Graph, Run, new_node
from tritorch.compilation.backward.segments import Segment
from tritorch.compilation.backward.subgraph import roots_reached, shared_nodes, traced_leaf
from tritorch.compilation.dynamic_shapes.symbols import Known
from tritorch.compilation.follow import counts
from tritorch.compilation.follow.calls import filing
from tritorch.compilation.follow.tape import Form, Note, NoteForm, Tape, Unfit, Value
from tritorch.compilation.passes.hoist import with_parts
from tritorch.compilation.plan import plans
from tritorch.compilation.plan.lowering import Lowered
from tritorch.core.generator import default_generators, states
from tritorch.core.tensor import Tensor


class Draft(plans.Draft):
    """The forward pass of a segment with gradients."""

    def __init__(self, segment: Segment, known: Known, *args: Any) -> None:
        super().__init__(*args)
        self.segment, self.known = segment, known
        self.saved: set[int] | None = None
        self.planned = False  # whether it has become a program, that saves what it saves
        self.unasked = 0  # runs after other backward passes, since none was noted of this one
        self.latest = passes.latest()  # the last of those passes
        self.copies: list[tuple[int, int]] = []  # of written inputs: the slot, the copy's value
        self.intact: set[int] = set()  # values for Note [Intact]
        self.intact_copies: dict[int, int] = {}  # of inputs, for that: by slot, the copy's value
        self.drawn = -1  # the value that says where generators were before
        values = dict(self.inputs)
        for slot, _ in self.written:
            note = Note(NoteForm.CHECK, None, (Value(values[slot]),), (), (len(self.forms),), False)
            self.copies.append((slot, len(self.forms)))
            self.forms.append(self.forms[values[slot]])
            self.calls.insert(0, Lowered(arrays.copy, note.inputs, note.results, note, True))
        if any(note.draws for note in self.notes):
            self.drawn = len(self.forms)
            self.forms.append(Form(list, (), None, ()))
            note = Note(NoteForm.CHECK, None, (), (), (self.drawn,), False)
            take = lambda: states(default_generators())
            self.calls.insert(0, Lowered(take, (), (self.drawn,), note, True))

    def compute_early(self, parts: Sequence[Note], forms: Sequence[Form]) -> list[int]:
        """Computes parts of the backward pass; the values of their results."""
        return with_parts(self.notes, self.symbolic.args, self.forms, parts, forms)

    def keep_intact(self, partition: intact.Partition, calls: intact.Calls) -> None:
        """Saves the values of a partition, from which the run's calls can run again after a
        write."""
        self.intact |= partition.values
        for number in partition.copies:
            (slot,) = calls.slots[number]
            if slot in self.intact_copies:
                continue
            own = self.intact_copies[slot] = len(self.forms)
            note = Note(NoteForm.CHECK, None, (Value(number),), (), (own,), False)
            self.forms.append(self.forms[number])
            if number in self.symbolic.layouts:
                self.symbolic.layouts[own] = self.symbolic.layouts[number]
            self.calls.insert(0, Lowered(arrays.copy, note.inputs, note.results, note, True))
        self.kept |= {*self.intact, *self.intact_copies.values()}
        self.calls = [*(c for c in self.calls if c.note.op is None), *self.lowered()]

    def fit(self, saved: list[int]) -> None:
        """Keeps the values that a backward pass reads, and those that earlier ones read."""
        self.kept |= {*saved, self.drawn, *(number for _, number in self.copies)}
        self.calls = [*(c for c in self.calls if c.note.op is None), *self.lowered()]
        self.saved = {*(self.saved or ()), *saved}  # last: another thread may ask

    def __call__(
        self, region: Any, steps: Sequence[Any], tensors: dict[int, Tensor], held: Sequence[int]
    ) -> Any:
        if self.segment.draft is None:  # it turned out to be unfit
            return first(region, steps, tensors, held, noted=False)
        if self.saved is None:  # no backward pass was noted yet
            if (
                passes.latest() != self.latest
            ):  # this may be wanted now: tried again, but ever more seldom
                self.latest = passes.latest()
                self.unasked += 1
                if self.unasked & (self.unasked - 1) == 0:
                    plan = first(region, steps, tensors, held)
                    if isinstance(plan, Draft):
                        plan.unasked = self.unasked
                    return plan
            for step in steps:
                step.run(region, tensors)
            return self, self.latest  # the calls are made natively until another pass begins
        with filing:  # what another thread began to learn is part of it
            self.planned = True
        return super().__call__(region, steps, tensors, held)

    def finish(self) -> Any:
        return self.hand_out

    def hand_out(self, region: Any, values: list[Any], tensors: list[Any]) -> None:
        """Gives tensors that are held their arrays and their node."""
        plans.hand_out(self.held, values, tensors, region.numbers)
        segment = self.segment
        given = {slot: tensors[slot] for slot in segment.slots}
        before = given | {slot: _C.wrap(values[number]) for slot, number in self.copies}
        held = segment.outputs(tensors)
        wanting = [given[slot] for slot in segment.wanting]
        run = Run(segment, values, given, before, held, region.numbers)
        new_node(run, wanting, held)


def _written_by(tensors: dict[int, Tensor], steps: Sequence[Any]) -> bool:
    return any(
        slot in tensors and tensors[slot]._requires_grad for step in steps for slot in step.writes
    )


def _written_together(tensors: dict[int, Tensor], steps: Sequence[Any]) -> bool:
    """True if inputs are written that share memory: copies of them would not."""
    changed = {slot for step in steps for slot in step.writes if slot in tensors}
    return len({id(tensors[slot]._shared) for slot in changed}) < len(changed)


def first(
    region: Any, steps: Sequence[Any], tensors: dict[int, Tensor], held: Sequence[int],
    noted: bool = True,
) -> Any:  # fmt: skip
    """Computes a segment by its calls, with a subgraph below one node; gives the plan for the next
    time."""
    slots = list(tensors)
    usable = [slot for slot in slots if plans.is_usable(tensors[slot])]
    wanting = [slot for slot in usable if tensors[slot]._requires_grad]
    unusual = (
        _written_by(tensors, steps)
        or any(region.is_leaf(slot) for slot in held)
        or any(step.grad_enabled and step.inference_mode for step in steps)
        or _written_together(tensors, steps)
    )
    if unusual or not noted:
        for step in steps:
            step.run(region, tensors)
        return None
    given = dict(tensors)
    for slot in wanting:
        tensors[slot] = traced_leaf(tensors[slot])
    tape = Tape()
    numbers = [(slot, tape.number(tensors[slot]._array)) for slot in slots]
    versions = {slot: tensors[slot]._shared.version for slot in slots}
    drawn = states(default_generators())
    changed = {slot for step in steps for slot in step.writes if slot in given}
    before = given | {slot: given[slot].detach().clone() for slot in changed}
    plans.run_noted(region, steps, tensors, tape)
    for slot in held:  # views are of the inputs themselves, or of what those are views of
        base = tensors[slot]._base
        for other in wanting if base is not None else ():
            if base is tensors[other]:
                chain = given[other]._view
                for step in plans._view_steps(tensors[slot]._view):
                    chain = (*step, chain)
                root = given[other]._base
                tensors[slot]._base = given[other] if root is None else root
                tensors[slot]._view = chain
                if tensors[slot]._created is None:
                    tensors[slot]._created = given[other]._created
    usable = [slot for slot in held if plans.is_usable(tensors[slot])]
    outputs = [slot for slot in usable if tensors[slot]._node is not None]
    segment = Segment(steps, slots, outputs)
    segment.wanting, segment.making = wanting, region.follower.options.making
    known = {id(x) for x in (*given.values(), *(tensors[slot] for slot in held))}
    known |= {id(x._base) for x in given.values()}
    for slot in held:  # a base that nobody else holds
        base = tensors[slot]._base
        if base is not None and id(base) not in known and base._node is not None:
            known.add(id(base))
            segment.bases.append(slot)
    try:
        if tape.unfit:
            raise Unfit(tape.unfit)
        held_specs = plans.specs_of_held(held, tensors, given, tape)
        written = plans._written(versions, given)
        known = region.follower.known
        segment.draft = Draft(segment, known, tape, numbers, held_specs, written)
    except Unfit as error:
        counts.unfit(str(error))
    made = segment.outputs(tensors)
    roots = [(x._node, x.output_nr) for x in made]
    leaves = [tensors[slot] for slot in wanting]
    segment.shares = shared_nodes([node for node, _ in roots])
    segment.depends_on = roots_reached([node for node, _ in roots])
    segment.within = set().union(*segment.depends_on)
    segment.watch(roots, tensors, tape, slots)
    segment.sources = [each - changed for each in segment.sources]  # of those there are copies
    segment.every = set().union(*segment.watched, *segment.sources)
    read = set().union(*segment.watched)
    segment.read = [(i, slot) for i, slot in enumerate(segment.held) if slot in read]
    noted_on = tape if segment.draft else None
    versions_now = segment.versions(tensors)
    run = Graph(
        segment, roots, leaves, given, before, noted_on, drawn, versions_now, region.numbers
    )  # fmt: skip
    new_node(run, [given[slot] for slot in wanting], made)
    return segment.draft
