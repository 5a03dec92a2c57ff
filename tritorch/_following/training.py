"""Segments through which gradients flow: one node of the graph, whose gradient is a program too.

# Note [A segment as a node]
The tensors that a program holds after a segment have one node, `CompiledFunctionBackward`, with an
edge for each time that a gradient arrives at one of the segment's inputs; so they are added up in
the order, and to the bits, of a graph without compile.

The first time, the segment's calls are made on twins of the inputs, with a graph of their own below
the node.  When the node is asked for gradients, that graph runs backwards, and what it computes is
noted on the same tape as the forward pass: a value of the one that the other reads is what has to
be saved.  From then on both are programs.

Who wants gradients of gradients, or gradients of other outputs than were noted, gets them by
making the calls again on the inputs themselves (`_followed`): the node keeps those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tritorch import _C
from tritorch._following import ambient, counts, plans
from tritorch._following.chains import fused
from tritorch._following.lowering import Lowered, lowered
from tritorch._following.tape import Form, Note, Tape, Unfit, Value, form_of
from tritorch.autograd import engine
from tritorch.autograd.graph import modified
from tritorch.autograd.nodes import FREED, Node, gradient_edge
from tritorch.core import arrays
from tritorch.core.arrays import ndarray
from tritorch.core.dispatching import noting
from tritorch.core.generator import Generator, _cuda, default_generator, restore, states
from tritorch.core.meta import MetaArray, meta_of
from tritorch.core.tensor import Tensor


class CompiledFunctionBackward(Node):
    """The gradient of a segment.

    freed: outputs whose gradients need what a pass has freed, as it would have freed the nodes of
    the segment's calls; asked: those that the last pass asked for."""

    __slots__ = ("asked", "freed", "run")
    asked: set[int]
    freed: set[int]
    run: Any

    def _node_free(self) -> None:
        self.freed |= self.run.segment.freed_with(self.asked)
        if len(self.freed) == self._node_n_outputs:
            self.run = None
            self._node_freed = True


class _Op:
    """How the engine asks a segment's node for gradients."""

    name = "compiled_function"
    inputs = ()
    params = ()

    @staticmethod
    def read(node: Any, name: str, raw: bool) -> None:
        """Nothing is shown."""

    @staticmethod
    def backward(node: Any, g: Any) -> Any:
        node.asked = {i for i, each in enumerate(g) if each is not None}
        if node.run is None or node.asked & node.freed:
            raise RuntimeError(FREED)
        results = node.run.backward(list(g))
        return [x for each, n in zip(results, node.run.arrivals) for x in _padded(each, n)]


def _padded(found: list[Any], n: int) -> list[Any]:
    return [*found, *[None] * (n - len(found))]


def _new_node(run: Any, inputs: Sequence[Tensor], held: Sequence[Tensor]) -> Any:
    """The node of tensors that are held, with as many edges to each input as gradients may come."""
    node = CompiledFunctionBackward()
    edges: list[Any] = []
    outputs: list[int] = []
    for x, n in zip(inputs, run.arrivals):
        edges += [gradient_edge(x)] * n
        outputs += [0 if x._leaf else x.output_nr] * n
    node._node_op = _Op
    node._node_edges, node._node_outputs = tuple(edges), tuple(outputs)
    node._node_n_outputs = len(held)
    node._node_shape = tuple(x._array.shape for x in held)
    node._node_dtype = tuple(x._array.dtype for x in held)
    node._node_saved = ()  # there is something to free
    node.run, node.freed, node.asked = run, set(), set()
    for i, x in enumerate(held):
        x._raw_node, x.output_nr, x._leaf = node, i, False
    return node


# ---- the graph below the node --------------------------------------------------------------------


class _Arrivals(engine.Captures):
    """What arrives at leaves, one by one."""

    def __init__(self, leaves: Sequence[Tensor]) -> None:
        super().__init__(leaves)
        self.results: Any = [[] for _ in leaves]

    def add(self, i: int, g: Tensor) -> None:
        self.results[i].append(g)


def _leaf_twin(x: Tensor) -> Tensor:
    """A leaf on the same storage, at which gradients end."""
    twin = _C.alias(x)
    twin._leaf, twin._inference = True, x._inference
    return twin


def _root(node: Any, nr: int) -> Tensor:
    place = _C.wrap(_EMPTY)
    place._raw_node, place.output_nr = node, nr
    return place


_EMPTY = ndarray(0)


def _shared_nodes(roots: Sequence[Any]) -> list[set[int]]:
    """For each root, the roots that need what a pass from it frees."""
    reached = []
    for node, _ in roots:
        seen: dict[int, Any] = {}
        stack = [node]
        while stack:
            each = stack.pop()
            if id(each) not in seen:
                seen[id(each)] = each
                stack += [edge for edge in each._node_edges if isinstance(edge, Node)]
        reached.append({key for key, each in seen.items() if each._node_holds})
    return [{j for j, other in enumerate(reached) if mine & other} for mine in reached]


class _Kept(NamedTuple):
    """A tensor that a node keeps of its call."""

    array: Any  # None: it is only kept an eye on
    shared: Any
    like: MetaArray


def _kept_of(node: Any) -> list[_Kept]:
    """What a node keeps of its call."""
    pairs = [(x._array, x._shared) for x in node._node_saved or () if isinstance(x, Tensor)]
    out, shared = node._node_out, node._node_out_shared
    pairs += zip(out, shared) if isinstance(out, tuple) else ((out, shared),)
    found = [_Kept(x, shared, meta_of(x)) for x, shared in pairs if shared is not None]
    where = arrays.CPU if node._node_stream is None else arrays.cuda_device(node._node_stream[0])
    for each in node._node_kept or ():
        if type(each) is tuple:
            like = MetaArray(each[3], arrays.dtype_of_kind(each[4]), None, where)
            found.append(_Kept(None, each[1], like))
    return found


def _kept_below(root: Any) -> list[_Kept]:
    """What the nodes below one keep, in the order in which a pass runs them."""
    seen: dict[int, Any] = {}
    stack = [root]
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            seen[id(node)] = node
            stack += [edge for edge in node._node_edges if isinstance(edge, Node)]
    nodes = sorted(seen.values(), key=lambda node: -node._node_sequence)
    return [each for node in nodes for each in _kept_of(node)]


def _sources(
    kept: list[_Kept], tape: Tape, numbers: dict[int, int], writes_unseen: bool
) -> set[int]:
    """The slots of the inputs that tell what is kept."""
    if writes_unseen:
        return set(numbers.values())
    needed: set[int | None] = {tape.known(x.array) for x in kept if x.array is not None}
    memory = tape.memory()
    for note in reversed(tape.notes):
        read = [x.number for x in note.inputs if type(x) is Value]
        writes = note.form == "in place" or note.op.kind in ("in_place", "internal")
        written = {memory[number] for number in read if writes}
        if needed.intersection(note.results) or any(
            memory.get(n) in written for n in needed if n is not None
        ):
            needed.update(read)
    return {slot for number, slot in numbers.items() if None in needed or number in needed}


def _count_edges(roots: Sequence[Any], leaves: Sequence[Tensor]) -> list[int]:
    """How many edges of a graph lead to each leaf."""
    places = {id(leaf): i for i, leaf in enumerate(leaves)}
    found = [0] * len(leaves)
    seen: set[int] = set()
    stack = [node for node, _ in roots if node is not None]
    keep = []
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        keep.append(node)
        for edge in node._node_edges:
            if isinstance(edge, Node):
                stack.append(edge)
            elif edge is not None and id(edge) in places:
                found[places[id(edge)]] += 1
    return found


class Graph:
    """A run whose node has a graph below it; the first backward pass is noted."""

    def __init__(
        self, segment: Segment, roots: list[tuple[Any, int]], leaves: list[Tensor],
        tensors: dict[int, Tensor], tape: Tape | None, drawn: list[Any],
        versions: dict[int, tuple[Any, int]],
    ) -> None:  # fmt: skip
        self.segment, self.roots, self.leaves, self.tensors = segment, roots, leaves, tensors
        self.drawn, self.ambience = drawn, ambient.Ambience()
        self.tape = tape
        self.arrivals = segment.arrivals = _count_edges(roots, leaves)
        self.versions = versions

    def backward(self, grads: list[Any]) -> list[list[Any]]:
        """The gradients that arrive at each input."""
        if _C.is_grad_enabled():
            self.segment.require_unwritten(grads, self.versions, again=True)
            return self.segment.followed(self, grads)
        roots = [_root(*root) for root, g in zip(self.roots, grads) if g is not None]
        given = [g for g in grads if g is not None]
        arrivals = _Arrivals(self.leaves)
        tape, self.tape = self.tape, None
        if tape is None or self.segment.backward is not None:
            engine.run(roots, given, True, False, arrivals)
            return arrivals.results
        split, seen = len(tape.notes), len(tape.forms)
        numbers = [None if g is None else tape.number(g._array) for g in grads]
        with noting(tape.note):
            engine.run(roots, given, True, False, arrivals)
        self.segment.learn(tape, split, seen, numbers, arrivals.results, self.tensors)
        tape.close()
        return arrivals.results


# ---- a segment -----------------------------------------------------------------------------------


class Segment:
    """A segment with gradients, for one set of tensors that are held."""

    def __init__(self, steps: Sequence[Any], slots: list[int], held: list[int]) -> None:
        self.steps = list(steps)
        self.slots = slots  # of inputs
        self.held = held  # slots of tensors that are held and want gradients
        self.bases: list[int] = []  # slots of views that alone hold a base, which wants them too
        self.wanting: list[int] = []  # slots of inputs that want gradients
        self.arrivals: list[int] = []  # for each of those, how many gradients may come
        self.shares: list[set[int]] = []  # for each output, those that share nodes with it
        # For each output, the slots whose memory its gradient reads, with what is read there, and
        # those of the inputs of which that is computed.
        self.watched: list[dict[int, MetaArray]] = []
        self.sources: list[set[int]] = []
        self.draft: Draft | None = None
        self.backward: Any = None
        self.graphs = False  # whether programs are launched as CUDA graphs

    def outputs(self, tensors: Any) -> list[Tensor]:
        """The tensors whose history the segment's node is, of all by slot."""
        return [
            *(tensors[slot] for slot in self.held), *(tensors[slot]._base for slot in self.bases)
        ]  # fmt: skip

    def watch(
        self, roots: Sequence[Any], tensors: dict[int, Tensor], tape: Tape, slots: Sequence[int]
    ) -> None:
        """Finds what the gradient of each output reads: a program may write it before."""
        places = {id(tensors[slot]._shared): slot for slot in (*self.held, *slots)}
        writes_unseen = bool(tape.unfit) and any(step.writes for step in self.steps)
        numbers: dict[int, int] = {}
        for slot in slots:
            numbers.setdefault(tape.number(tensors[slot]._array), slot)
        for node, _ in roots:
            kept = _kept_below(node)
            seen = [each for each in kept if id(each.shared) in places]
            self.watched.append({places[id(x.shared)]: x.like for x in seen[::-1]})
            self.sources.append(_sources(kept, tape, numbers, writes_unseen))

    def versions(self, tensors: dict[int, Tensor]) -> dict[int, tuple[Any, int]]:
        """How often that was written until now, by slot."""
        every = set().union(*self.watched, *self.sources)
        return {slot: (tensors[slot]._shared, tensors[slot]._shared.version) for slot in every}

    def require_unwritten(
        self, grads: list[Any], versions: dict[int, tuple[Any, int]], again: bool
    ) -> None:
        """Refuses gradients that need what was written since.

        again: the calls are to be made again on the inputs."""
        asked = [i for i, g in enumerate(grads) if g is not None]
        reads = {slot: x for i in asked for slot, x in self.watched[i].items()}
        for slot, like in reversed(reads.items()):
            shared, before = versions[slot]
            if shared.version != before:
                raise modified(_C.wrap(like), shared.version, before)
        for slot in set().union(*(self.sources[i] for i in asked)) if again else ():
            shared, before = versions[slot]
            if shared.version != before:
                raise RuntimeError(
                    "these gradients of a compiled function are computed by its calls, made again, "
                    "and an input of those was modified by an inplace operation since"
                )

    def freed_with(self, asked: set[int]) -> set[int]:
        """The outputs whose gradients need what a pass from others frees."""
        return set().union(*(self.shares[i] for i in asked))

    def followed(self, run: Any, grads: list[Any]) -> list[list[Any]]:
        """Gradients by making the calls of a run again, on its inputs, whose graph is that of the
        results."""
        with run.ambience:
            return self._followed(run.tensors, grads, run.drawn)

    def _followed(
        self, tensors: dict[int, Tensor], grads: list[Any], drawn: list[Any]
    ) -> list[list[Any]]:
        now = states(generator for generator, _ in drawn)
        restore(drawn)
        made = dict(tensors)
        before = _C.set_grad_enabled(True)
        # What is differentiated again leads to the inputs themselves, but not by their hooks.
        twin = (lambda x: x.view_as(x)) if before else _leaf_twin
        inputs = [twin(tensors[slot]) for slot in self.wanting]
        made |= dict(zip(self.wanting, inputs))
        with ambient.as_then(self.steps[0].ambient):
            for step in self.steps:
                _C.set_grad_enabled(step.grad_enabled)
                call = step.call
                kwargs = {name: plans.substituted(x, made) for name, x in call.kwargs.items()}
                result = step.gate(*plans.substituted(call.args, made), **kwargs)
                plans.bind(call.results, result, made)
        _C.set_grad_enabled(before)
        restore(now)
        roots = [x for x, g in zip(self.outputs(made), grads) if g is not None]
        given = [g for g in grads if g is not None]
        if before:
            found = engine.backward(roots, given, True, True, inputs, False)
            return [[] if g is None else [g] for g in found]
        arrivals = _Arrivals(inputs)
        engine.run(roots, given, True, False, arrivals)
        return arrivals.results

    def learn(
        self, tape: Tape, split: int, seen: int, grads: list[Any], results: Any,
        tensors: dict[int, Tensor],
    ) -> None:  # fmt: skip
        """Makes plans of a forward and a backward pass that were noted."""
        draft = self.draft
        if draft is None:
            return
        try:
            if tape.unfit:
                raise Unfit(tape.unfit)
            found = []
            for each in results:
                numbers = [tape.known(g._array) for g in each]
                if None in numbers:
                    raise Unfit("a gradient was given by no record")
                found.append(numbers)
            self._require_same(tape, tensors, grads)
            self.backward = Backward(self, tape, split, seen, grads, found)
            draft.fit(self.backward.saved)
        except Unfit as error:
            counts.unfit(str(error))
            self.draft = self.backward = None
        except Exception as error:
            counts.unfit(f"{type(error).__name__}: {error}")
            self.draft = self.backward = None

    def _require_same(self, tape: Tape, tensors: dict[int, Tensor], grads: list[Any]) -> None:
        """Refuses what values decide: runs forwards and backwards without any."""
        twins = plans.described(tensors)
        leaves = [twins[slot] for slot in self.wanting]
        other = Tape()
        for slot in self.slots:
            other.number(twins[slot]._array)
        with noting(other.note):
            plans.run_described(self.steps, twins)
            roots, given = [], []
            for out, number in zip(self.outputs(twins), grads):
                if number is None:
                    continue
                form = tape.forms[number]
                like = out._array
                twin = _C.wrap(MetaArray(form.shape, like.dtype, form.strides, like.device))
                other.number(twin._array)
                given.append(twin)
                roots.append(_root(out._node, out.output_nr))
            engine.run(roots, given, True, False, _Arrivals(leaves))
        if other.unfit:
            raise Unfit(other.unfit)
        plans.require_same_calls(tape, other)


def _generators() -> list[Generator]:
    """Those that programs draw from, but for ones that they made themselves."""
    return [default_generator, *_cuda.values()]


def _draws(note: Note) -> bool:
    """Whether a record's call draws, as its form, its kind or its schema says."""
    if note.form in ("make", "draw") or note.op.kind == "random":
        return True
    try:
        return any(a.name == "generator" for a in note.op.schema.arguments)
    except Exception:
        return False


def _reads_of(calls: Sequence[Lowered]) -> set[int]:
    return {x.number for call in calls for x in call.args if type(x) is Value}


class Draft(plans.Draft):
    """The forward pass of a segment with gradients."""

    def __init__(self, segment: Segment, *given: Any) -> None:
        super().__init__(*given)
        self.segment = segment
        self.saved: list[int] | None = None
        self.unasked = 0  # runs since it was noted, without a backward pass
        self.copies: list[tuple[int, int]] = []  # of what is written: the slot, the copy's value
        self.drawn = -1  # the value that says where generators were before
        values = dict(self.inputs)
        for slot, _ in self.written:
            note = Note("check", None, (Value(values[slot]),), (), (len(self.forms),), False)
            self.copies.append((slot, len(self.forms)))
            self.forms.append(self.forms[values[slot]])
            self.calls.insert(0, Lowered(arrays.copy, note.inputs, note.results, note, True))
        if any(map(_draws, self.notes)):
            self.drawn = len(self.forms)
            self.forms.append(Form(list, (), None, ()))
            note = Note("check", None, (), (), (self.drawn,), False)
            take = lambda: states(_generators())
            self.calls.insert(0, Lowered(take, (), (self.drawn,), note, True))

    def fit(self, saved: list[int]) -> None:
        """Keeps what the backward pass reads."""
        self.kept |= {*saved, self.drawn, *(number for _, number in self.copies)}
        self.calls = [*(c for c in self.calls if c.note.op is None), *self.lowered()]
        self.saved = saved  # last: another thread may ask

    def __call__(
        self, region: Any, steps: Sequence[Any], tensors: dict[int, Tensor], held: Sequence[int]
    ) -> Any:
        if self.segment.draft is None:  # it turned out to be unfit
            return first(region, steps, tensors, held, noted=False)
        if self.saved is None:  # no backward pass was noted yet
            self.unasked += 1
            if self.unasked & (self.unasked - 1) == 0:
                plan = first(region, steps, tensors, held)
                if isinstance(plan, Draft):
                    plan.unasked = self.unasked
                return plan
            for step in steps:
                step.run(region, tensors)
            return self
        return super().__call__(region, steps, tensors, held)

    def finish(self) -> Any:
        return self.hand_out

    def hand_out(self, region: Any, values: list[Any], tensors: list[Any]) -> None:
        """Gives tensors that are held their arrays and their node."""
        plans.hand_out(self.held, values, tensors)
        segment = self.segment
        given = {slot: tensors[slot] for slot in segment.slots}
        before = given | {slot: _C.wrap(values[number]) for slot, number in self.copies}
        held = segment.outputs(tensors)
        wanting = [given[slot] for slot in segment.wanting]
        _new_node(Run(segment, values, given, before, held), wanting, held)


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
    wanting = [slot for slot in slots if tensors[slot]._requires_grad]
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
        tensors[slot] = _leaf_twin(tensors[slot])
    tape = Tape()
    numbers = [(slot, tape.number(tensors[slot]._array)) for slot in slots]
    versions = {slot: tensors[slot]._shared.version for slot in slots}
    drawn = states(_generators())
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
    outputs = [slot for slot in held if tensors[slot]._node is not None]
    segment = Segment(steps, slots, outputs)
    segment.wanting, segment.graphs = wanting, region.follower.options.graphs
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
        segment.draft = Draft(segment, tape, numbers, described, written)
    except Unfit as error:
        counts.unfit(str(error))
    made = segment.outputs(tensors)
    roots = [(x._node, x.output_nr) for x in made]
    leaves = [tensors[slot] for slot in wanting]
    segment.shares = _shared_nodes(roots)
    segment.watch(roots, tensors, tape, slots)
    segment.sources = [each - changed for each in segment.sources]  # of those there are copies
    noted_on = tape if segment.draft else None
    versions_now = segment.versions(tensors)
    run = Graph(segment, roots, leaves, before, noted_on, drawn, versions_now)
    _new_node(run, [given[slot] for slot in wanting], made)
    return segment.draft


class Run:
    """A run of a segment's program: what its gradient needs."""

    def __init__(
        self, segment: Segment, values: list[Any], tensors: dict[int, Tensor],
        before: dict[int, Tensor], held: list[Tensor],
    ) -> None:  # fmt: skip
        """tensors: the inputs; before: as they were, where the segment writes them."""
        backward = segment.backward
        self.segment, self.tensors = segment, before
        self.saved = [values[number] for number in backward.saved]
        drawn = segment.draft.drawn if segment.draft is not None else -1
        self.drawn = values[drawn] if drawn >= 0 else []
        self.arrivals = segment.arrivals
        self.versions = segment.versions(tensors | dict(zip(segment.held, held)))
        self.ambience = ambient.Ambience()

    def backward(self, grads: list[Any]) -> list[list[Any]]:
        """The gradients that arrive at each input."""
        backward = self.segment.backward
        again = _C.is_grad_enabled() or not backward.takes(grads)
        self.segment.require_unwritten(grads, self.versions, again)
        if again:
            return self.segment.followed(self, grads)
        return backward(self.saved, [g._array for g in grads if g is not None])


class Backward:
    """The backward pass of a segment: a program of what was saved and of gradients."""

    def __init__(
        self, segment: Segment, tape: Tape, split: int, seen: int, grads: list[Any],
        results: list[list[Any]],
    ) -> None:  # fmt: skip
        self.results = results
        self.grad_forms: list[Form | None] = [None if n is None else tape.forms[n] for n in grads]
        self.forms = list(tape.forms)
        self.kept = {number for each in results for number in each}
        calls = [lowered(note, tape.forms) for note in tape.notes[split:]]
        self.calls = plans.without_dead(calls, set(self.kept))
        given = [number for number in grads if number is not None]
        made = {r for call in self.calls for r in call.results} | set(given)
        needed = _reads_of(self.calls) | self.kept
        # A value that is written in the backward pass was made there.
        self.saved = sorted(number for number in needed if number < seen and number not in given)
        if any(number not in made and number >= seen for number in needed):
            raise Unfit("a gradient reads what was given by no record")
        self.inputs = [*self.saved, *given]
        self.program: Any = None
        self.graphs = segment.graphs

    def takes(self, grads: list[Any]) -> bool:
        """Whether the gradients are those of the outputs that were noted, and lie as they did."""
        for g, form in zip(grads, self.grad_forms):
            if (g is None) != (form is None):
                return False
            if g is not None and (
                type(g._array) not in (ndarray, _C.Array) or form_of(g._array) != form
            ):
                return False
        return True

    def __call__(self, saved: list[Any], grads: list[Any]) -> list[list[Any]]:
        if self.program is None:
            values: list[Any] = [None] * len(self.forms)
            for number, array in zip(self.inputs, (*saved, *grads)):
                values[number] = array
            calls = [plans.checked(call, values, self.forms) for call in self.calls]
            calls = fused(calls, self.forms, self.kept)
            self.program, places = plans.ordered(calls, self.inputs, self.kept, self.graphs)
            self.places = [[places[number] for number in each] for each in self.results]
            found = [[values[number] for number in each] for each in self.results]
        else:
            values = self.program.run(*saved, *grads)
            found = [[values[number] for number in each] for each in self.places]
        return [[_C.wrap(array) for array in each] for each in found]


__all__ = ["CompiledFunctionBackward", "Segment", "first"]
