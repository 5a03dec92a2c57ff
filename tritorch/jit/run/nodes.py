"""The steps of each kind of node."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tritorch.compat.torch_private import _awaits
from tritorch.futures import Future
from tritorch.jit.ir.function import GraphFunction
from tritorch.jit.ir.graph import Node, Value
from tritorch.jit.ir.objects import ScriptObjectData
from tritorch.jit.ir.operators import schema_of
from tritorch.jit.ir.types import FunctionType, NamedTupleType, ScriptClassType
from tritorch.jit.run import builtins, limits, scalars, values
from tritorch.jit.run.calls import Call, call_of
from tritorch.jit.run.errors import of_python
from tritorch.jit.run.functions import call_method, compile_graph, raw_runner, runner
from tritorch.jit.run.steps import Frame, Step, call_step, method_step, move_step
from tritorch.jit.run.unit import Steps, Unit
from tritorch.schema.parser import parse_schema

Function = Callable[..., Any]


def _inputs(unit: Unit, node: Node) -> list[int]:
    return [unit.slots.of(value) for value in node._inputs]


def _outputs(unit: Unit, node: Node) -> list[int]:
    """Slots of the outputs, those of tensors that are read here for the last time among them."""
    unit.slots.reuse(node)
    assert node._owner is not None
    return [unit.slots.define(value, node._owner) for value in node._outputs]


def _applied(unit: Unit, node: Node, function: Function) -> list[Step]:
    inputs = _inputs(unit, node)
    return [call_step(function, inputs, _outputs(unit, node))]


# ---- operators -----------------------------------------------------------------------------------


def _operator(unit: Unit, node: Node) -> list[Step]:
    schema = node._schema or schema_of(node)
    if schema is None:
        kinds = ", ".join(value._type.str() for value in node._inputs)
        raise RuntimeError(f"there is no operator {node._kind} for ({kinds})")
    if isinstance(schema, str):
        schema = parse_schema(schema)
    full = f"{schema.name}.{schema.overload_name}"
    if full in scalars.STEPS:
        a, b = _inputs(unit, node)
        return [scalars.STEPS[full](a, b, *_outputs(unit, node))]
    if full in scalars.BY_CONSTANT and unit.slots.is_known(node._inputs[1]):
        if unit.slots.known(node._inputs[1]) != 0:
            return _applied(unit, node, scalars.BY_CONSTANT[full])
    try:
        call = call_of(schema)
    except NotImplementedError as error:
        return [_missing(unit, node, str(error))]
    if not call.convert and not call.keywords and call.finish is None:
        inputs = _inputs(unit, node)
        compute = limits.charged(schema.name, call.function)
        return [call_step(compute, inputs, _outputs(unit, node))]
    return [_arranged(unit, node, call)]


def _missing(unit: Unit, node: Node, reason: str) -> Step:
    """An operator that tritorch lacks: what does not run it works all the same."""
    _outputs(unit, node)

    def step(frame: Frame) -> None:
        raise NotImplementedError(reason)

    return step


def _arranged(unit: Unit, node: Node, call: Call) -> Step:
    """A call whose arguments go by place or name, numbers for dtypes converted; what is the
    default of the schema and of the function is left out."""
    slots, arguments = unit.slots, call.schema._arguments
    by_place: list[tuple[int, int]] = []  # the slots, with the number of the argument
    by_name: list[tuple[str, int, int]] = []
    constants: dict[str, Any] = {}
    last_needed = 0
    later: dict[int, Function] = {}  # conversions of values that are computed
    for number, value in enumerate(node._inputs):
        argument = arguments[number]
        convert = call.convert[number] if call.convert else None
        keyword = call.keywords[number] if call.keywords else None
        place, is_default = slots.of(value), False
        if slots.is_known(value):
            known = slots.known(value)
            is_default = (
                bool(call.drops)
                and call.drops[number]
                and argument.has_default_value()
                and _is_default(known, argument.default_value)
            )
            if convert is not None and not is_default:
                known = None if known is None else convert(known)
                place = slots.kept(known)
            if keyword is not None and not is_default:
                constants[keyword] = known
        elif convert is not None:
            later[number] = convert
        if keyword is None:
            by_place.append((place, number))
            if not is_default:
                last_needed = len(by_place)
        elif not is_default and keyword not in constants:
            by_name.append((keyword, place, number))
    by_place = by_place[:last_needed]
    function = functools.partial(call.function, **constants) if constants else call.function
    inputs = [place for place, _ in by_place] + [place for _, place, _ in by_name]
    names = [name for name, _, _ in by_name]
    numbers = [number for _, number in by_place] + [number for _, _, number in by_name]
    converts = {at: later[n] for at, n in enumerate(numbers) if n in later}
    function = _adapted(function, len(by_place), names, converts, call.finish)
    return call_step(function, inputs, _outputs(unit, node))


def _is_default(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)


def _adapted(
    function: Function,
    count: int,
    names: Sequence[str],
    converts: dict[int, Function],
    finish: Function | None,
) -> Function:
    """The function with all arguments by place; the first `count` keep theirs."""
    if not names and not converts:
        if finish is None:
            return function
        if count == 1:
            return lambda a: finish(function(a))
        return lambda *args: finish(function(*args))

    def call(*args: Any) -> Any:
        given = list(args)
        for at, convert in converts.items():
            given[at] = None if given[at] is None else convert(given[at])
        result = function(*given[:count], **dict(zip(names, given[count:])))
        return result if finish is None else finish(result)

    return call


# ---- constants and containers --------------------------------------------------------------------


def _constant(unit: Unit, node: Node) -> list[Step]:
    (output,) = node._outputs
    value = node._attributes.get("value")
    if isinstance(output._type, FunctionType):
        value = output._type.function
    unit.slots.set_known(output, value)
    return []


def _is_only_read(value: Value) -> bool:
    """Tells whether operators of tensors alone read a list, which keep nothing of it."""
    for use in value._uses:
        node = use.user
        if not node._kind.startswith("aten::") or use.offset == 0:
            return False
        schema = node._schema or schema_of(node)
        if schema is None or builtins.find(schema) is not None or not schema._returns:
            return False
        if schema._arguments[use.offset].alias_info is not None:
            return False
    return True


def _list(unit: Unit, node: Node) -> list[Step]:
    slots = unit.slots
    (output,) = node._outputs
    if all(map(slots.is_known, node._inputs)) and _is_only_read(output):
        slots.set_known(output, [slots.known(value) for value in node._inputs])
        return []
    return _gathered(unit, node, list)


def _gathered(unit: Unit, node: Node, kind: Function) -> list[Step]:
    """A container of the inputs."""
    inputs = _inputs(unit, node)
    (output,) = _outputs(unit, node)
    if kind is list:

        def make_list(frame: Frame) -> None:
            frame[output] = [frame[i] for i in inputs]

        return [make_list]
    if kind is tuple and len(inputs) == 2:
        a, b = inputs

        def make_pair(frame: Frame) -> None:
            frame[output] = frame[a], frame[b]

        return [make_pair]

    def make(frame: Frame) -> None:
        frame[output] = kind([frame[i] for i in inputs])

    return [make]


def _tuple(unit: Unit, node: Node) -> list[Step]:
    kind = node._outputs[0]._type
    if isinstance(kind, NamedTupleType):
        return _gathered(unit, node, lambda items: kind.python(*items))
    return _gathered(unit, node, tuple)


def _dict(unit: Unit, node: Node) -> list[Step]:
    return _gathered(unit, node, lambda items: dict(zip(items[::2], items[1::2])))


def _unpacked(unit: Unit, node: Node) -> list[Step]:
    (source,) = _inputs(unit, node)
    outputs = _outputs(unit, node)
    count, is_list = len(outputs), node._kind == "prim::ListUnpack"

    def unpack(frame: Frame) -> None:
        items = frame[source]
        if is_list and len(items) != count:
            raise RuntimeError(f"Expected {count} elements in a list but found {len(items)}")
        for place, item in zip(outputs, items, strict=True):
            frame[place] = item

    return [unpack]


def _tuple_slice(unit: Unit, node: Node) -> list[Step]:
    part = slice(node["beg"], node["end"])
    return _applied(unit, node, lambda items: tuple(items)[part])


# ---- objects -------------------------------------------------------------------------------------


def _get_attribute(unit: Unit, node: Node) -> list[Step]:
    name = node["name"]
    (owner,) = _inputs(unit, node)
    is_object = isinstance(node._inputs[0]._type, ScriptClassType)
    (output,) = _outputs(unit, node)
    if is_object:

        def get(frame: Frame) -> None:
            frame[output] = frame[owner].slots[name]

        return [get]

    def get_any(frame: Frame) -> None:
        found = frame[owner]
        if isinstance(found, ScriptObjectData):
            frame[output] = found.slots[name]
        else:
            frame[output] = getattr(found, name)

    return [get_any]


def _set_attribute(unit: Unit, node: Node) -> list[Step]:
    name = node["name"]
    owner, value = _inputs(unit, node)

    def put(frame: Frame) -> None:
        found = frame[owner]
        if isinstance(found, ScriptObjectData):
            found.set_slot(name, frame[value])
        else:
            setattr(found, name, frame[value])

    return [put]


def _create_object(unit: Unit, node: Node) -> list[Step]:
    kind = node._outputs[0]._type
    if not isinstance(kind, ScriptClassType):
        raise RuntimeError(f"prim::CreateObject of {kind}, which is no class of TorchScript")
    return _applied(unit, node, functools.partial(ScriptObjectData, kind))


def _call_method(unit: Unit, node: Node) -> list[Step] | Steps:
    name, kind = node["name"], node._inputs[0]._type
    inputs = _inputs(unit, node)
    if isinstance(kind, ScriptClassType):
        method = kind.find_method(name)
        if method is not None:
            inlined = unit.inlined(node, method, node._inputs)
            if inlined is not None:
                return inlined
            return [method_step(method, runner, inputs, _outputs(unit, node))]
    function = functools.partial(_call_named, name)
    return [call_step(function, inputs, _outputs(unit, node))]


def _call_named(name: str, owner: Any, *args: Any) -> Any:
    return call_method(owner, name, args)


def _call_function(unit: Unit, node: Node) -> list[Step] | Steps:
    kind = node._inputs[0]._type
    function = node.function or (kind.function if isinstance(kind, FunctionType) else None)
    inputs = _inputs(unit, node)
    if function is None:
        return [call_step(_call_any, inputs, _outputs(unit, node))]
    inlined = unit.inlined(node, function, node._inputs[1:])
    if inlined is not None:
        return inlined
    return [method_step(function, runner, inputs[1:], _outputs(unit, node))]


def _call_any(function: GraphFunction, *args: Any) -> Any:
    return raw_runner(function)(*args)


def _enter(unit: Unit, node: Node) -> list[Step]:
    if unit.entered is None:
        unit.entered = unit.slots.reserved()
    entered = unit.entered
    (owner,) = _inputs(unit, node)
    outputs = _outputs(unit, node)

    def enter(frame: Frame) -> None:
        found = frame[owner]
        result = call_method(found, "__enter__", ())
        if frame[entered] is None:
            frame[entered] = []
        frame[entered].append(found)
        if outputs:
            frame[outputs[0]] = result

    return [enter]


def _exit(unit: Unit, node: Node) -> list[Step]:
    entered = unit.entered
    (owner,) = _inputs(unit, node)
    outputs = _outputs(unit, node)

    def leave(frame: Frame) -> None:
        if entered is not None and frame[entered]:
            frame[entered].pop()
        result = call_method(frame[owner], "__exit__", (None, None, None))
        if outputs:
            frame[outputs[0]] = result

    return [leave]


# ---- calls that are put off, and Python ----------------------------------------------------------


def _fork(unit: Unit, node: Node) -> list[Step]:
    run = compile_graph(node["Subgraph"], "fork")

    def fork(*args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            result = run(*args)
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(result)
        return future

    return _applied(unit, node, fork)


def _awaitable(unit: Unit, node: Node) -> list[Step]:
    run = compile_graph(node["Subgraph"], "awaitable")
    return _applied(unit, node, lambda *args: _awaits._awaitable(run, *args))


def _python(unit: Unit, node: Node) -> list[Step]:
    function = node["function"]
    kinds = [value._type for value in node._inputs]
    results = [value._type for value in node._outputs]
    scalars, order = list(node.get("scalar_args") or ()), node.get("cconv")

    def call(*args: Any) -> Any:
        given = [values.to_python(x, kind) for x, kind in zip(args, kinds)]
        if order is not None:
            rest, fixed = iter(given), iter(scalars)
            given = [next(rest) if letter == "d" else next(fixed) for letter in order]
        try:
            found = function(*given)
        except Exception as error:
            of_python(error)
            raise
        if not results:
            return None
        if len(results) == 1:
            return values.to_script(found, results[0], values.RETURNED)
        return tuple(values.to_script(x, k, values.RETURNED) for x, k in zip(found, results))

    return _applied(unit, node, call)


def _is_instance(unit: Unit, node: Node) -> list[Step]:
    kinds, static = node["types"], node._inputs[0]._type
    return _applied(unit, node, lambda value: values.is_instance(value, kinds, static))


def _to_list(unit: Unit, node: Node) -> list[Step]:
    kind = node._outputs[0]._type
    (source, *_) = _inputs(unit, node)
    return [call_step(lambda x: values.to_list(x, kind), [source], _outputs(unit, node))]


def _same(unit: Unit, node: Node) -> list[Step]:
    (source,) = _inputs(unit, node)
    (output,) = _outputs(unit, node)
    step = move_step([(source, output)])
    return [] if step is None else [step]


def _wait(unit: Unit, node: Node) -> list[Step]:
    return _applied(unit, node, lambda future: future.wait())


HANDLERS: dict[str, Callable[[Unit, Node], list[Step] | Steps]] = {
    "": _operator,
    "aten::wait": _wait,
    "prim::CallFunction": _call_function,
    "prim::CallMethod": _call_method,
    "prim::Constant": _constant,
    "prim::CreateObject": _create_object,
    "prim::DictConstruct": _dict,
    "prim::Enter": _enter,
    "prim::Exit": _exit,
    "prim::GetAttr": _get_attribute,
    "prim::IgnoredPythonOp": _python,
    "prim::ListConstruct": _list,
    "prim::ListUnpack": _unpacked,
    "prim::PythonOp": _python,
    "prim::SetAttr": _set_attribute,
    "prim::TupleConstruct": _tuple,
    "prim::TupleSlice": _tuple_slice,
    "prim::TupleUnpack": _unpacked,
    "prim::awaitable": _awaitable,
    "prim::fork": _fork,
    "prim::isinstance": _is_instance,
    "prim::tolist": _to_list,
    "prim::unchecked_cast": _same,
    "prim::unchecked_unwrap_optional": _same,
}
