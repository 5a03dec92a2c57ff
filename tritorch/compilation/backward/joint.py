"""Segments through which gradients flow: one node of the graph, whose gradient is a program too.

# Note [A segment as a node]
The tensors that a program holds after a segment have one node, `CompiledFunctionBackward`, with an
edge for each time that a gradient arrives at one of the segment's inputs; so they are added up in
the order, and to the bits, of a graph without compile.

The first time, the segment's calls are made on twins of the inputs, with a graph of their own below
the node.  When the node is asked for gradients, that graph runs backwards, and what it computes is
noted on the same tape as the forward pass: a value of the one that the other reads is what has to
be saved.  Where the node is asked again, for gradients of other outputs, that pass is noted, too,
on what the tape has of the forward pass.  From then on all are programs.

Who wants gradients of outputs that were not noted gets them by making the calls again on the
inputs themselves (`followed`): the node keeps those.

A node's outputs stand side by side, though one may be computed of another.  Where that can be
seen, the node is opened (`CompiledFunctionBackward.opened`): the calls are made again, on inputs
with the edges that the node has, and what a pass would give the node goes to their nodes from then
on.  Those get the places among all nodes that were left free after it, so that the terms of a
gradient are added up in the order of a graph without compile.
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
from tritorch.compilation.backward.subgraph import leaf_twin, roots_below, shared_nodes
from tritorch.compilation.dynamic_shapes.symbols import Known
from tritorch.compilation.follow import counts
from tritorch.compilation.follow.calls import filing
from tritorch.compilation.follow.tape import Form, Note, Tape, Unfit, Value
from tritorch.compilation.passes.hoist import with_parts
from tritorch.compilation.plan import plans
from tritorch.compilation.plan.lowering import Lowered
from tritorch.core.generator import default_generators, states
from tritorch.core.tensor import Tensor


class Draft(plans.Draft):
    """The forward pass of a segment with gradients."""

    def __init__(self, segment: Segment, known: Known, *given: Any) -> None:
        super().__init__(*given)
        self.segment, self.known = segment, known
        self.saved: set[int] | None = None
        self.planned = False  # whether it has become a program, that saves what it saves
        self.unasked = 0  # runs after other backward passes, since none was noted of this one
        self.latest = passes.latest()  # the last of those passes
        self.copies: list[tuple[int, int]] = []  # of what is written: the slot, the copy's value
        self.intact: set[int] = set()  # values for Note [Intact]
        self.intact_copies: dict[int, int] = {}  # of inputs, for that: by slot, the copy's value
        self.drawn = -1  # the value that says where generators were before
        values = dict(self.inputs)
        for slot, _ in self.written:
            note = Note("check", None, (Value(values[slot]),), (), (len(self.forms),), False)
            self.copies.append((slot, len(self.forms)))
            self.forms.append(self.forms[values[slot]])
            self.calls.insert(0, Lowered(arrays.copy, note.inputs, note.results, note, True))
        if any(note.draws for note in self.notes):
            self.drawn = len(self.forms)
            self.forms.append(Form(list, (), None, ()))
            note = Note("check", None, (), (), (self.drawn,), False)
            take = lambda: states(default_generators())
            self.calls.insert(0, Lowered(take, (), (self.drawn,), note, True))

    def compute_early(self, parts: Sequence[Note], forms: Sequence[Form]) -> list[int]:
        """Computes parts of the backward pass; the values that have them."""
        return with_parts(self.notes, self.varying.args, self.forms, parts, forms)

    def keep_intact(self, cut: intact.Cut, calls: intact.Calls) -> None:
        """Saves what a run needs that its calls are made again after a write."""
        self.intact |= cut.values
        for number in cut.copies:
            (slot,) = calls.slots[number]
            if slot in self.intact_copies:
                continue
            own = self.intact_copies[slot] = len(self.forms)
            note = Note("check", None, (Value(number),), (), (own,), False)
            self.forms.append(self.forms[number])
            if number in self.varying.layouts:
                self.varying.layouts[own] = self.varying.layouts[number]
            self.calls.insert(0, Lowered(arrays.copy, note.inputs, note.results, note, True))
        self.kept |= {*self.intact, *self.intact_copies.values()}
        self.calls = [*(c for c in self.calls if c.note.op is None), *self.lowered()]

    def fit(self, saved: list[int]) -> None:
        """Keeps what a backward pass reads, and what those before it read."""
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
            ):  # this may be wanted now: again, but ever more seldom
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
        with filing:  # what was begun to be learned in another thread is part of it
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
    """Whether inputs are written that share memory: copies of them would not."""
    changed = {slot for step in steps for slot in step.writes if slot in tensors}
    return len({id(tensors[slot]._shared) for slot in changed}) < len(changed)


def first(
    region: Any, steps: Sequence[Any], tensors: dict[int, Tensor], held: Sequence[int],
    noted: bool = True,
) -> Any:  # fmt: skip
    """Computes what waits by its calls, with a graph below one node; gives the plan for the next
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
        tensors[slot] = leaf_twin(tensors[slot])
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
        described = plans.describe_held(held, tensors, given, tape)
        written = plans._written(versions, given)
        known = region.follower.known
        segment.draft = Draft(segment, known, tape, numbers, described, written)
    except Unfit as error:
        counts.unfit(str(error))
    made = segment.outputs(tensors)
    roots = [(x._node, x.output_nr) for x in made]
    leaves = [tensors[slot] for slot in wanting]
    segment.shares = shared_nodes([node for node, _ in roots])
    segment.below = roots_below([node for node, _ in roots])
    segment.within = set().union(*segment.below)
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
