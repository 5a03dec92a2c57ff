"""Plans of exported programs: one run on their example arguments, noted."""

from __future__ import annotations

import logging
from typing import Any

from tritorch.arrays.arrays import strides_of
from tritorch.arrays.symbolic import Symbol, SymBool, SymInt
from tritorch.compilation.dynamic_shapes.symbols import (
    Known,
    indices_of,
    leaf_of,
    make_dynamic,
    strides_of as dynamic_strides,
)
from tritorch.compilation.follow.calls import filing
from tritorch.compilation.follow.tape import Tape, Unfit
from tritorch.compilation.package.checking import require_consistent
from tritorch.compilation.package.plan import Free, Given, GivenKind, Plan, Result, ResultKind
from tritorch.compilation.package.running import lowered
from tritorch.compilation.package.structure import written_structure
from tritorch.compilation.passes.functionalize import functionalized
from tritorch.compilation.plan.coding import PackageError
from tritorch.compilation.plan.meta_execution import (
    MetaTape,
    meta_copy,
    on_meta,
    require_same_calls,
)
from tritorch.compilation.plan.plans import checked, without_dead
from tritorch.compilation.plan.symbolic_arguments import SymbolicArguments, symbolic_arguments
from tritorch.core.dispatching import noting
from tritorch.core.scopes import unrecorded
from tritorch.core.tensor import Tensor
from tritorch.export.graph_signature import InputKind, OutputKind
from tritorch.utils._pytree import tree_flatten

_log = logging.getLogger(__name__)
_STATE = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
_WRITES = (
    OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION, OutputKind.USER_INPUT_MUTATION,
)  # fmt: skip


class _Path:
    """The symbols of a run, as `symbolic_arguments` asks for them."""

    def __init__(self, symbols: list[Any]) -> None:
        self.symbols = symbols


class Sizes:
    """The dynamic sizes of a program, in symbols of this run."""

    def __init__(self, program: Any, ones: frozenset[str]) -> None:
        self.env = Known()
        self.program, self.ones = program, ones
        self.symbols: list[Any] = []
        self.free: list[Free] = []
        self.mine: dict[int, Any] = {}  # by the id of the program's own symbol
        self._ranges = {
            id(atom): limits
            for number, limits in program.range_constraints.items()
            for atom in _atoms(number)
            if number.terms == {((atom, 1),): 1}
        }

    def meet(self, position: int, dim: int, size: Any, actual: int) -> None:
        """Takes in a size of an argument."""
        atoms = [atom for atom in _atoms(size) if atom.name not in self.ones]
        if not atoms:
            return
        if len(atoms) != 1:
            raise PackageError(f"a size is {size}: no multiple of one number")
        (atom,) = atoms
        terms = {monomial: n for monomial, n in size.terms.items() if monomial}
        factor, addend = terms.get(((atom, 1),), 0), size.terms.get((), 0)
        if len(terms) != 1 or factor < 1:
            raise PackageError(f"a size is {size}: no multiple of one number")
        known = self.mine.get(id(atom))
        if known is None:
            limits = self._ranges.get(id(atom))
            value = (actual - addend) // factor
            low = min(value, 2 if limits is None else max(int(limits.lower), 2))
            high = float("inf") if limits is None else limits.upper
            mine = self.env.symbol(atom.name, value, low, high)
            self.mine[id(atom)] = mine
            self.symbols.append(mine)
            top = None if high == float("inf") or high >= 2**62 else int(high)
            self.free.append(Free(atom.name, low, top, position, dim, factor, addend))
        elif factor == 1 and addend == 0:  # said best by a size that it is
            i = self.symbols.index(known)
            if (self.free[i].factor, self.free[i].addend) != (1, 0):
                self.free[i] = self.free[i]._replace(argument=position, dim=dim, factor=1, addend=0)

    def of(self, number: Any) -> Any:
        """A number of the program's in symbols of this run."""
        if not isinstance(number, SymInt):
            return number
        total: Any = 0
        for monomial, n in number.terms.items():
            product: Any = n
            for atom, power in monomial:
                for _ in range(power):
                    product = product * self._atom(atom)
            total = total + product
        return total

    def _atom(self, atom: Any) -> Any:
        if isinstance(atom, Symbol):
            if atom.name in self.ones:
                return 1
            if id(atom) not in self.mine:
                raise PackageError(f"{atom.name} is no size of an argument")
            return self.mine[id(atom)]
        a, b = self.of(atom.a), self.of(atom.b)
        if atom.kind == "//":
            return a // b
        if atom.kind == "%":
            return a % b
        raise PackageError(f"{atom.kind} of sizes has no place in a package")

    def guards(self) -> dict[str, Any]:
        """The conditions that the export has found, in symbols of this run."""
        found = {}
        for each in self.program._guards:
            if each.compare is not None:
                condition = each.compare(self.of(each.number), 0)
            else:
                condition = self._condition(each.condition)
            if isinstance(condition, SymBool):
                found[each.text] = condition
            elif not condition:
                raise PackageError(f"the export holds where {each.text}")
        return found

    def _condition(self, value: Any) -> Any:
        if isinstance(value, SymInt):
            return self.of(value)
        made = getattr(value, "made", None)
        if made is None:
            return value
        return made[0](*map(self._condition, made[1:]))


def _atoms(number: Any) -> list[Any]:
    found: list[Any] = []
    for monomial in number.terms if isinstance(number, SymInt) else ():
        found += [atom for atom, _ in monomial if not any(atom is x for x in found)]
    return found


class Arguments:
    """The arguments of the graph of a program: tensors in place of those that are given."""

    def __init__(self, program: Any, device: str, ones: frozenset[str]) -> None:
        self.program, self.device = program, device
        if program.example_inputs is None:
            raise PackageError("the program has no example inputs: those of its export are needed")
        args, kwargs = program.example_inputs
        wanted = program.call_spec.in_spec.children()[1].context or []
        kwargs = {name: kwargs[name] for name in wanted} if set(wanted) == set(kwargs) else kwargs
        self.leaves = iter(tree_flatten((args, kwargs))[0])
        self.sizes = Sizes(program, ones)
        self.flat: list[Any] = []  # what the graph takes
        self.metas: list[Any] = []  # the same without memory, with symbols for sizes
        self.given: list[Given] = []
        self.state: list[tuple[str, int]] = []
        self.constants: list[str] = []
        self.by_target: dict[str, int] = {}  # places in `flat`
        self._positions: list[int] = []  # of what is given, in `flat`
        nodes = [node for node in program.graph.nodes if node.op == "placeholder"]
        specs = program.graph_signature.input_specs
        for node, spec in zip(nodes, specs, strict=True):
            self._add(node, spec)
        for node, spec in zip(nodes, specs):
            if spec.kind is InputKind.USER_INPUT:
                self._add_given(node)
        self.metas = [self._meta(position, x) for position, x in enumerate(self.flat)]

    def _add(self, node: Any, spec: Any) -> None:
        position = len(self.flat)
        if spec.kind is InputKind.USER_INPUT:
            leaf = next(self.leaves)
            if isinstance(leaf, Tensor):
                leaf = self._narrowed(leaf.detach(), node.meta["val"]._array.shape).clone()
            self._positions.append(position)
            self.flat.append(leaf)
            self.by_target[spec.arg.name] = position
            self._meet(node, len(self._positions) - 1, leaf)
        elif spec.kind in _STATE:
            lifted = spec.kind is InputKind.CONSTANT_TENSOR or spec.persistent is False
            table = self.program.constants if lifted else self.program.state_dict
            tensor = table[spec.target].detach()
            if spec.kind is not InputKind.PARAMETER or not tensor.is_contiguous():
                tensor = tensor.clone()
            if spec.kind is InputKind.CONSTANT_TENSOR:
                self.constants.append(spec.target)
            self.by_target[spec.target] = position
            self.state.append((spec.target, position))
            self.flat.append(tensor)
        else:
            raise PackageError(f"{spec.arg.name}: a {spec.kind.name} has no place in a package")

    def _narrowed(self, leaf: Tensor, sizes: Any) -> Tensor:
        """A part of an example, whose sizes that are one are."""
        for dim, size in enumerate(sizes):
            if any(atom.name in self.sizes.ones for atom in _atoms(size)):
                wanted = self.sizes.of(size)
                if not isinstance(wanted, int) or wanted > leaf.shape[dim]:
                    raise PackageError(f"a size that is {size} cannot be made of the example's")
                leaf = leaf.narrow(dim, 0, wanted)
        return leaf

    def _meet(self, node: Any, argument: int, leaf: Any) -> None:
        value = node.meta.get("val")
        if isinstance(leaf, Tensor):
            for dim, size in enumerate(value._array.shape):
                self.sizes.meet(argument, dim, size, leaf.shape[dim])
        else:
            self.sizes.meet(argument, -1, value, leaf)

    def _add_given(self, node: Any) -> None:
        argument = len(self.given)
        leaf, value = self.flat[self._positions[argument]], node.meta.get("val")
        if isinstance(leaf, Tensor):
            shape = tuple(self.sizes.of(n) for n in value._array.shape)
            strides = dynamic_strides(shape, tuple(leaf.shape), strides_of(leaf._array), {})
            where = "own" if leaf.device.type == self.device else "cpu"
            self.given.append(
                Given(str(node.target), GivenKind.TENSOR, -1, shape, strides, leaf.dtype, where)
            )
        elif isinstance(value, SymInt):
            self.given.append(Given(str(node.target), GivenKind.NUMBER, self.sizes.of(value)))
        else:
            self.given.append(Given(str(node.target), GivenKind.CONSTANT, leaf))

    def _meta(self, position: int, x: Any) -> Any:
        if position not in self._positions:
            return meta_copy(x, None, False)
        given = self.given[self._positions.index(position)]
        if given.kind == GivenKind.TENSOR:
            return meta_copy(x, (given.shape, given.strides), False)
        return given.value

    def fresh(self) -> list[Any]:
        """Copies of tensors, as they are before a run."""
        return [x.clone() if isinstance(x, Tensor) else x for x in self.flat]


def _run(program: Any, arguments: Arguments, flat: list[Any]) -> list[Any]:
    """The results of a program's graph, after the writes of buffers and inputs that it says."""
    results = program.graph_module(*flat)
    found = []
    for spec, value in zip(program.graph_signature.output_specs, results, strict=True):
        if spec.kind in _WRITES:
            flat[arguments.by_target[spec.target]].copy_(value)
        elif spec.kind is OutputKind.TOKEN:
            raise PackageError("effects have no place in a package")
        else:
            found.append(value)
    return found


def plans_of(program: Any, device: str = "cpu", targets: tuple[int, ...] = ()) -> list[Plan]:
    """The plans of an exported program, whose tensors lie on a device; PackageError says why there
    are none.

    Dynamic sizes are at least two in the first one, as in the export.  Others are for sizes of one,
    where the program runs with them: of each that is dynamic, and of all."""
    found = [_plan(program, device, targets, frozenset())]
    names = [free.name for free in found[0].free if free.low == 2 and free.dim >= 0]
    for ones in dict.fromkeys([*(frozenset((name,)) for name in names), frozenset(names)]):
        if not ones:
            continue
        try:
            found.append(_plan(program, device, targets, ones))
        except Exception as error:  # the program is none for such sizes
            _log.debug("no plan for %s of one: %s", ", ".join(sorted(ones)), error)
    return found


def _plan(program: Any, device: str, targets: tuple[int, ...], ones: frozenset[str]) -> Plan:
    try:
        with unrecorded:
            return _plan_of(program, device, targets, ones)
    except Unfit as error:
        raise PackageError(str(error)) from error


def _plan_of(program: Any, device: str, targets: tuple[int, ...], ones: frozenset[str]) -> Plan:
    arguments = Arguments(program, device, ones)
    tape, fresh = Tape(), arguments.fresh()
    numbers = [tape.number(x._array) if isinstance(x, Tensor) else -1 for x in fresh]
    versions = {i: x._shared.version for i, x in enumerate(fresh) if isinstance(x, Tensor)}
    with noting(tape.note):
        outputs = _run(program, arguments, fresh)
    if tape.unfit:
        raise Unfit(tape.unfit)
    written = [
        (numbers[i], fresh[i]._shared.version - version)
        for i, version in versions.items()
        if fresh[i]._shared.version != version
    ]
    other, metas = MetaTape(tape), list(arguments.metas)
    for x in metas:
        if isinstance(x, Tensor):
            other.number(x._array)
    sizes = arguments.sizes
    with filing, on_meta(), noting(other.note):
        sizes.env.decided.clear()
        meta_results = _run(program, arguments, metas)
        conditions = dict(sizes.env.decided)
    require_same_calls(tape, other, sizes.symbols)
    conditions |= sizes.guards()
    indices = indices_of(sizes.symbols)
    symbolic = SymbolicArguments()
    if sizes.symbols:
        symbolic = symbolic_arguments(tape, other, _Path(sizes.symbols))  # type: ignore[arg-type]
    memory, forms = tape.memory(), list(tape.forms)
    results = _results(tape, memory, numbers, outputs, meta_results, indices)
    given = [n for n in numbers if n >= 0]
    notes, names = functionalized(tape.notes, forms, given, memory)
    symbolic = symbolic.named(names, len(tape.forms))
    shown: dict[Any, int] = {}
    for position in memory.values():
        shown[position] = shown.get(position, 0) + 1
    spec = program.call_spec
    plan = Plan(
        device=device,
        targets=list(targets),
        ones=sorted(ones),
        structure=(written_structure(spec.in_spec), written_structure(spec.out_spec)),
        given=_numbered(arguments, numbers, indices),
        free=sizes.free,
        conditions=[(text, make_dynamic(what, indices)) for text, what in conditions.items()],
        state=[(name, numbers[position]) for name, position in arguments.state],
        constants=arguments.constants,
        forms=forms,
        notes=notes,
        whole=[False] * len(notes),
        args=symbolic.args,
        layouts=symbolic.layouts,
        alone=[number for number in dict.fromkeys(given) if shown[memory[number]] == 1],
        written=written,
        results=results,
    )
    _compare(plan, arguments, numbers)
    require_consistent(plan)
    return plan


def _numbered(arguments: Arguments, numbers: list[int], indices: Any) -> list[Given]:
    found = []
    for position, each in zip(arguments._positions, arguments.given, strict=True):
        shape, strides = make_dynamic((each.shape, each.strides), indices)
        value = (
            numbers[position]
            if each.kind == GivenKind.TENSOR
            else make_dynamic(each.value, indices)
        )
        found.append(each._replace(value=value, shape=shape, strides=strides))
    return found


def _results(
    tape: Tape, memory: dict[int, Any], numbers: list[int], outputs: list[Any],
    meta_results: list[Any], indices: Any,
) -> list[Result]:  # fmt: skip
    """The kind of each result."""
    first: dict[Any, int] = {}  # by memory: a tensor that was given, or given back
    for number in numbers:
        if number >= 0:
            first.setdefault(memory[number], number)
    found = []
    for value, meta in zip(outputs, meta_results, strict=True):
        if not isinstance(value, Tensor):
            dynamic_number = make_dynamic(meta, indices) if isinstance(meta, SymInt) else value
            found.append(
                Result(
                    ResultKind.NUMBER if isinstance(meta, SymInt) else ResultKind.CONSTANT,
                    dynamic_number,
                )
            )
            continue
        known = tape.known(value._array)
        if known is None:
            raise Unfit("a result was given by no record")
        if known in numbers:
            found.append(Result(ResultKind.SAME, known))
            continue
        like = first.setdefault(memory[known], known)
        found.append(Result(ResultKind.VALUE, known, None if like == known else like))
    return found


def _compare(plan: Plan, arguments: Arguments, numbers: list[int]) -> None:
    """Runs the functions behind the calls: where one gives another layout, the record's own call is
    taken."""
    calls, forms, symbolic = lowered(plan)
    values: list[Any] = [None] * len(forms)
    for number, x in zip(numbers, arguments.fresh(), strict=True):
        if number >= 0:
            values[number] = x._array
    own = tuple(leaf_of(symbol).value for symbol in arguments.sizes.symbols)
    known = symbolic.begin(values, forms, own)
    live = {id(call) for call in without_dead(calls, set(plan.kept))}
    for i, call in enumerate(calls):
        if id(call) in live:
            plan.whole[i] = checked(call, values, known).function is not call.function
