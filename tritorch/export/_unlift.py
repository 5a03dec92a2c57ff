"""An exported program as a module that is called as the original one.

State becomes attributes again, what the graph gives as new values of buffers and inputs is written
to them, and inputs are looked at: their structure, the sizes that are fixed or in a range, and the
conditions that the export has found.
"""

from __future__ import annotations

import math
from typing import Any

from tritorch.arrays.symbolic import SymBool, SymInt, symbol_of
from tritorch.core.tensor import Tensor
from tritorch.export._environment import Decision, linear_terms
from tritorch.export.graph_signature import ConstantArgument, InputKind, OutputKind
from tritorch.fx.graph import Graph, _PyTreeCodeGen, _PyTreeInfo
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.node import Node
from tritorch.nn.modules.module import Module
from tritorch.nn.parameter import Parameter
from tritorch.ops.record.overloads import namespace
from tritorch.utils._pytree import tree_flatten

_STATE = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR, InputKind.CUSTOM_OBJ)
_WRITES = {
    OutputKind.BUFFER_MUTATION: "buffer", OutputKind.PARAMETER_MUTATION: "parameter",
    OutputKind.USER_INPUT_MUTATION: "input",
}  # fmt: skip


class GuardsFn(Module):
    """Looks at inputs before the graph runs: sizes, ranges and conditions."""

    def __init__(self, checks: list[Any]) -> None:
        super().__init__()
        self.checks = checks

    def forward(self, *args: Any) -> None:
        """Raises where one is not as the export had it."""
        values: dict[str, int] = {}
        for check in self.checks:
            check(args, values)


class _Size:
    """One size of an input is a number, or an expression of symbols."""

    def __init__(self, place: int, dim: int, name: str, size: Any) -> None:
        self.place, self.dim, self.name, self.size = place, dim, name, size

    def __call__(self, args: Any, values: dict[str, int]) -> None:
        given = args[self.place]
        actual = given if self.dim < 0 else given.shape[self.dim]
        where = self.name if self.dim < 0 else f"{self.name}.size()[{self.dim}]"
        if not isinstance(self.size, SymInt):
            if actual != self.size:
                raise AssertionError(f"Guard failed: {where} == {self.size}")
            return
        symbol = symbol_of(self.size)
        if symbol is not None and symbol.name not in values:
            values[symbol.name] = actual
            values["\0" + symbol.name] = where  # type: ignore[assignment]
            return
        expected = evaluated(self.size, values)
        if expected is None:  # factor * symbol + constant, met before the symbol itself
            if solve(self.size, actual, values) is not None:
                raise AssertionError(f"Guard failed: {where} == {self.size}")
        elif expected != actual:
            other = values.get("\0" + symbol.name) if symbol is not None else self.size
            raise AssertionError(f"Guard failed: {where} == {other}")


class _InRange:
    """A symbol lies in its range."""

    def __init__(self, name: str, low: float, high: float) -> None:
        self.name, self.low, self.high = name, low, high

    def __call__(self, args: Any, values: dict[str, int]) -> None:
        value, where = values.get(self.name), values.get("\0" + self.name, self.name)
        if value is None:
            return
        if value < self.low and self.low > 2:
            raise AssertionError(f"Guard failed: {where} >= {self.low:.0f}")
        if value > self.high:
            raise AssertionError(f"Guard failed: {where} <= {self.high:.0f}")


class _Holds:
    """A condition that a run of the export has found."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision

    def __call__(self, args: Any, values: dict[str, int]) -> None:
        each = self.decision
        if each.compare is not None:
            number = evaluated(each.number, values)
            holds = number is None or each.compare(number, 0)
        else:
            holds = _condition(each.condition, values) is not False
        if not holds:
            raise AssertionError(f"Guard failed: {each.text}")


def evaluated(number: Any, values: dict[str, int]) -> int | None:
    """A number for values of its symbols; None where one is not known."""
    if not isinstance(number, SymInt):
        return number
    total = 0
    for monomial, n in number.terms.items():
        for atom, power in monomial:
            value = _atom(atom, values)
            if value is None:
                return None
            n *= value**power
        total += n
    return total


def _atom(atom: Any, values: dict[str, int]) -> int | None:
    if not hasattr(atom, "kind"):
        return values.get(atom.name)
    a, b = evaluated(atom.a, values), evaluated(atom.b, values)
    if a is None or b is None or (b == 0 and atom.kind in ("//", "%")):
        return None
    kinds = {"//": a.__floordiv__, "%": a.__mod__, "min": lambda x: min(a, x),
             "max": lambda x: max(a, x)}  # fmt: skip
    return int(kinds[atom.kind](b))


def _condition(value: Any, values: dict[str, int]) -> Any:
    if isinstance(value, SymInt):
        return evaluated(value, values)
    made = getattr(value, "made", None)
    if made is None:
        return None if isinstance(value, SymBool) else value
    operands = [_condition(x, values) for x in made[1:]]
    return None if None in operands else made[0](*operands)


def solve(size: SymInt, actual: int, values: dict[str, int]) -> str | None:
    """Finds the symbol of a size that is factor * symbol + constant; its name if none fits."""
    terms = linear_terms(size)
    if terms is None or len(terms[0]) != 1:
        return None
    ((symbol, factor),) = terms[0].items()
    value, rest = divmod(actual - terms[1], factor)
    if rest:
        return symbol.name
    values[symbol.name] = value
    return None


def checks_of(program: Any) -> list[Any]:
    """What of a program's inputs is looked at."""
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    found: list[Any] = []
    place = -1
    for spec in program.graph_signature.input_specs:
        if spec.kind is not InputKind.USER_INPUT:
            continue
        place += 1
        value = nodes[spec.arg.name].meta["val"]
        if isinstance(value, Tensor):
            sizes = value._array.shape
            found += [_Size(place, dim, spec.arg.name, size) for dim, size in enumerate(sizes)]
        elif isinstance(value, SymInt):
            found.append(_Size(place, -1, spec.arg.name, value))
    for number, limits in program.range_constraints.items():
        symbol = symbol_of(number)
        if symbol is not None and (limits.lower > 2 or limits.upper < math.inf):
            found.append(_InRange(symbol.name, limits.lower, limits.upper))
    return found + [_Holds(each) for each in program._guards]


# ---- the module ----------------------------------------------------------------------------------


class Unlifting:
    """A copy of a program's graph in which state is attributes."""

    def __init__(self, program: Any) -> None:
        self.program, self.root, self.graph = program, Module(), Graph()
        self.nodes: dict[Node, Any] = {}
        self.by_target: dict[str, Node] = {}
        self.inputs: list[Node] = []
        signature = program.graph_signature
        specs = iter(signature.input_specs)
        for node in program.graph.nodes:
            if node.op == "placeholder":
                self._input(node, next(specs))
            elif node.op == "output":
                self._output(node)
            else:
                self.nodes[node] = self.graph.node_copy(node, lambda n: self.nodes[n])
                if node.op == "get_attr":
                    value = getattr(program.graph_module, node.target)
                    setattr(self.root, node.target, value)

    def _input(self, node: Node, spec: Any) -> None:
        if spec.kind not in _STATE:
            made = self.graph.create_node("placeholder", node.target, node.args, name=node.name)
            self.inputs.append(made)
            self.by_target[spec.arg.name] = made
        else:
            self._attach(spec)
            made = self.graph.create_node("get_attr", spec.target, name=node.name)
            self.by_target[spec.target] = made
        made.meta = dict(node.meta)
        self.nodes[node] = made

    def _attach(self, spec: Any) -> None:
        *parents, name = spec.target.split(".")
        owner = self.root
        for each in parents:
            if each not in owner._modules:
                owner.add_module(each, Module())
            owner = owner._modules[each]
        hidden = spec.kind is InputKind.BUFFER and spec.persistent is False
        lifted = spec.kind in (InputKind.CONSTANT_TENSOR, InputKind.CUSTOM_OBJ) or hidden
        program = self.program
        value = (program.constants if lifted else program.state_dict)[spec.target]
        if isinstance(value, Parameter):
            owner.register_parameter(name, value)
        elif isinstance(value, Tensor):
            persistent = spec.kind is InputKind.BUFFER and spec.persistent is not False
            owner.register_buffer(name, value, persistent=persistent)
        else:
            setattr(owner, name, value)

    def _output(self, node: Node) -> None:
        returned = []
        copy = namespace("aten").copy_.default
        for spec, given in zip(
            self.program.graph_signature.output_specs, node.args[0], strict=True
        ):
            value = self.nodes[given] if isinstance(given, Node) else given
            if spec.kind in _WRITES:
                self.graph.call_function(copy, (self.by_target[spec.target], value))
            else:
                returned.append(value)
        self.graph.output(tuple(returned))


def unlifted(program: Any, check_guards: bool) -> GraphModule:
    """The module of a program."""
    made = Unlifting(program)
    signature = program.module_call_graph[0].signature
    names = signature.forward_arg_names or _argument_names(signature.in_spec)
    if check_guards:
        made.root.add_module("_guards_fn", GuardsFn(checks_of(program)))
        after = made.inputs[-1].next if made.inputs else next(iter(made.graph.nodes))
        with made.graph.inserting_before(after):
            made.graph.call_module("_guards_fn", tuple(made.inputs))
    made.graph.set_codegen(
        _PyTreeCodeGen(_PyTreeInfo(names, signature.in_spec, signature.out_spec))
    )
    module = GraphModule(made.root, made.graph, "GraphModule")
    module.register_forward_pre_hook(_Structure(program), with_kwargs=True)
    module.train(True)
    module.meta.update(program.graph_module.meta)
    for name, value in (("train", True), ("eval", False)):
        object.__setattr__(module, name, _Refused(name, value))
    return module


class _Refused:
    """`train` and `eval` of an exported program."""

    def __init__(self, name: str, value: bool) -> None:
        self.name = name

    def __call__(self, mode: bool = True) -> Any:
        raise NotImplementedError(f"Calling {self.name}() is not supported yet.")

    def __deepcopy__(self, memo: Any) -> Any:
        return self


def _argument_names(spec: Any) -> list[str]:
    args, kwargs = spec.children()
    return [f"arg_{i}" for i in range(args.num_children)] + list(kwargs.context or [])


class _Structure:
    """A hook that refuses arguments of another structure, and brings keywords into order."""

    def __init__(self, program: Any) -> None:
        self.spec = program.module_call_graph[0].signature.in_spec
        self.constants = [
            (place, spec.arg) for place, spec in enumerate(
                s for s in program.graph_signature.input_specs if s.kind is InputKind.USER_INPUT
            ) if isinstance(spec.arg, ConstantArgument)
        ]  # fmt: skip

    def __call__(self, module: Any, args: Any, kwargs: Any) -> Any:
        wanted = self.spec.children()[1].context or []
        if set(wanted) == set(kwargs):
            kwargs = {name: kwargs[name] for name in wanted}
        leaves, spec = tree_flatten((args, kwargs))
        if spec != self.spec:
            raise ValueError(
                f"Trying to flatten user inputs with exported input tree spec: \n{self.spec}\n"
                f"but actually got inputs with tree spec of: \n{spec}.\nPlease check that the "
                "inputs have the same number and type of args and kwargs as the ones you used "
                "when tracing."
            )
        for place, constant in self.constants:
            if leaves[place] != constant.value:
                raise AssertionError(
                    f"Guard failed: {constant.name} == {constant.value!r}, "
                    f"but got {leaves[place]!r}"
                )
        return args, kwargs
