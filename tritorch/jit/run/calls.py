"""The Python function that computes an operator's schema, and how its arguments are passed.

Operators of tensors go to the public function of their name (a gate, so that modes, subclasses and
autocast act as they do in eager code) where its parameters are those of the schema; otherwise to
`torch.ops`.  Numbers for dtypes, layouts and memory formats become objects on the way.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

from tritorch.core import gates
from tritorch.core.published import INTERNAL, PUBLIC
from tritorch.core.tensor import Tensor
from tritorch.jit.run import builtins, limits
from tritorch.jit.run.builtins.aten import FUNCTIONS
from tritorch.jit.run.numbered import number_of
from tritorch.ops.record import overloads
from tritorch.schema import types
from tritorch.schema.objects import converter
from tritorch.schema.signature import Argument, FunctionSchema
from tritorch.schema.tensor_type import TensorType

Function = Callable[..., Any]


class Call:
    """The function that computes a schema, with the way to pass its arguments.

    keywords: for each argument the name that it is passed by, None by place.
    convert: for each argument the function for its values, None for none.
    finish: the function for the result; None for none.
    drops: for each argument whether it may be left out where it is the schema's default.
    """

    __slots__ = ("convert", "drops", "finish", "function", "keywords", "schema")

    def __init__(
        self,
        schema: FunctionSchema,
        function: Function,
        keywords: Sequence[str | None] = (),
        convert: Sequence[Function | None] = (),
        finish: Function | None = None,
        drops: Sequence[bool] = (),
    ) -> None:
        self.schema, self.function, self.finish = schema, function, finish
        self.keywords, self.convert, self.drops = keywords, convert, drops


@functools.cache
def call_of(schema: FunctionSchema) -> Call:
    """The call of a schema; NotImplementedError if tritorch lacks it."""
    builtin = builtins.find(schema)
    if builtin is not None:
        convert = [_device_converter(a.type) for a in schema._arguments]
        return Call(schema, builtin, (), convert if any(convert) else ())
    if schema.name.startswith("prim::"):
        raise NotImplementedError(f"tritorch has no function for {schema.name} yet: {schema}")
    arguments = schema._arguments
    convert = [converter(a.real_type) for a in arguments]
    finish = _finisher(schema)
    # torch.ops gives no names that begin as Python's own.
    if f"{schema.name}.{schema.overload_name}" in _PREFERRED or schema.name.startswith("aten::__"):
        function = _written(schema)
        if function is None:
            raise NotImplementedError(f"tritorch has no function for {schema.name} yet: {schema}")
        names = [a.name if a.kwarg_only else None for a in arguments]
        return Call(schema, function, names, convert, finish, [True] * len(arguments))
    direct = _direct(schema)
    if direct is not None:
        function, keywords, drops = direct
        function = _bounded(schema, function)
        if "reduction" in keywords:
            convert[keywords.index("reduction")] = _REDUCTIONS.__getitem__
        return Call(schema, function, keywords, convert, finish, drops)
    keywords = [a.name if a.kwarg_only else None for a in arguments]
    try:
        function = _gate_for(overloads.overload_of(schema))
    except NotImplementedError:
        written = _written(schema)
        if written is None:
            raise
        function = written
    function = _bounded(schema, function)
    return Call(schema, function, keywords, convert, finish, [True] * len(arguments))


def _written(schema: FunctionSchema) -> Function | None:
    """The function of an operator that `builtins.aten` writes with public ones; None of others."""
    return FUNCTIONS.get(f"{schema.name}.{schema.overload_name}") or FUNCTIONS.get(schema.name)


def _gate_for(overload: Any) -> Function:
    """A gate of its own for what computes an overload of ATen's, of which modes see the
    overload; the overload itself where a program defined it."""
    if overload._function is not None:
        return overload
    name = overload._overloadpacket.__name__
    gate: Any = gates.Gate(_of_places(overload._op), name, overload._name, overload.__module__)
    gate.shown, gate.policy = overload, gates.POLICIES.get(name)
    gate.nested = lambda gate, *args, **kwargs: overload._behind(*args, **kwargs)
    return gate


def _of_places(function: Function) -> Function:
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


# Overloads whose public function has other parameters.
_PREFERRED = {"aten::to.dtype_layout"}
# Arguments by which an operator makes a tensor larger than those that it is given.
_SIZES = ("size", "repeats", "end", "steps", "n", "num_classes", "output_size", "pad")


def _bounded(schema: FunctionSchema, function: Function) -> Function:
    """The same function, which refuses sizes beyond an open budget before it makes a tensor."""
    arguments = schema._arguments
    is_factory = schema.name.startswith("aten::new_") or not any(
        isinstance(a.type, TensorType) for a in arguments
    )
    places = [
        place
        for place, a in enumerate(arguments)
        if a.name in (_SIZES if is_factory else _SIZES[1:]) and not a.kwarg_only
    ]
    if not places:
        return function

    def call(*args: Any, **kwargs: Any) -> Any:
        if limits.had_budgets:
            for place in places:
                if place < len(args):
                    limits.check_elements(_count(args[place], arguments[place].name))
        return function(*args, **kwargs)

    return call


def _count(sizes: Any, name: str) -> int:
    if isinstance(sizes, (list, tuple)):
        if name == "pad":
            return sum(max(size, 0) for size in sizes)
        return math.prod(size for size in sizes if isinstance(size, int))
    return int(sizes) if isinstance(sizes, (int, float)) and math.isfinite(sizes) else 0


_REDUCTIONS = ("none", "mean", "sum")


def _device_converter(kind: types.Type) -> Function | None:
    """Only texts of devices are converted for builtins, which have numbers for dtypes."""
    inner = kind.getElementType() if isinstance(kind, types.OptionalType) else kind
    return converter(inner) if isinstance(inner, types.DeviceObjType) else None


# ---- public functions ----------------------------------------------------------------------------


_PUBLISHED = (
    "tritorch", "tritorch.nn.functional", "tritorch.linalg", "tritorch.special", "tritorch.fft",
    "tritorch.Tensor",
)  # fmt: skip


def _gate_of(function: Function) -> Any:
    """The gate of a public function; None if it has none."""
    for module in _PUBLISHED:
        gate = gates.GATES.get(module, {}).get(function.__name__)
        if gate is not None and gate.__wrapped__ is function:
            return gate
    return None


Match = tuple[Function, "list[str | None]", "list[bool]"]


def _direct(schema: FunctionSchema) -> Match | None:
    """The gate of the public function that takes a schema's arguments, the names to pass them by,
    and which of them have the schema's default there; None where there is none, or where
    `torch.ops` has to rearrange them."""
    name = schema.name
    if not name.startswith("aten::") or (name, schema.overload_name) in overloads.DEFINED:
        return None
    stem = name.removeprefix("aten::")
    if f"{stem}.{schema.overload_name}" in INTERNAL or stem in INTERNAL:
        return None
    function = overloads.public_function(schema)
    gate = None if function is None else _gate_of(function)
    if gate is None:
        method = vars(Tensor).get(stem)
        is_wanted = function is None or PUBLIC.get(stem) is not function
        gate = method if isinstance(method, gates.Gate) and is_wanted else None
    if gate is None:
        return None
    try:
        parameters = list(inspect.signature(gate.__wrapped__).parameters.values())
    except (TypeError, ValueError):
        return None
    return _matched(gate, parameters, schema._arguments)


def _matched(
    gate: Function, parameters: list[inspect.Parameter], arguments: Sequence[Argument]
) -> Match | None:
    by_name = {p.name: p for p in parameters}
    placed = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    keywords: list[str | None] = []
    drops: list[bool] = []
    used: set[str] = set()
    is_by_place = True
    for place, argument in enumerate(arguments):
        parameter = by_name.get(argument.name)
        if parameter is None and argument.name == "self" and place < min(2, len(placed)):
            parameter = placed[place]
        if parameter is None or parameter.kind is parameter.VAR_POSITIONAL:
            if not (rest and is_by_place) or argument.kwarg_only or place < len(placed):
                return None
            keywords.append(None)
            drops.append(False)
            continue
        if parameter.name in used:
            return None
        used.add(parameter.name)
        drops.append(_has_default(parameter, argument))
        is_placed = place < len(placed) and placed[place] is parameter
        is_by_place = is_by_place and is_placed and not argument.kwarg_only
        if not is_by_place and parameter.kind is parameter.POSITIONAL_ONLY:
            return None
        keywords.append(None if is_by_place else parameter.name)
        if argument.name == "reduction" and isinstance(parameter.default, str):
            keywords[-1] = "reduction"
            is_by_place = False
    loose = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if any(p.default is p.empty and p.name not in used and p.kind not in loose for p in parameters):
        return None
    return gate, keywords, drops


def _has_default(parameter: inspect.Parameter, argument: Argument) -> bool:
    """Tells whether what is left out means the same to the function as to the schema."""
    if not argument.has_default_value() or parameter.default is parameter.empty:
        return False
    convert = converter(argument.real_type)
    value = argument.default_value
    value = value if convert is None else convert(value)
    ours = parameter.default
    return type(ours) is type(value) and bool(ours == value)


# ---- results -------------------------------------------------------------------------------------


def _to_list(result: Any) -> Any:
    return list(result) if isinstance(result, tuple) else result


def _finisher(schema: FunctionSchema) -> Function | None:
    returns = schema._returns
    if len(returns) == 1:
        kind = returns[0].type
        if isinstance(kind, types.ListType):
            return _to_list
        if isinstance(returns[0].real_type, (types.ScalarTypeType, types.LayoutType)):
            return number_of
    if any(isinstance(r.type, types.ListType) for r in returns):
        return lambda result: tuple(map(_to_list, result))
    return None
