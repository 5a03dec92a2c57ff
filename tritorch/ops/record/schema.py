"""What a record is in PyTorch's terms: its schema, and its calls as calls of that.

# Note [Schemas of records]
`schema=` says which overload of ATen a record computes, as a call in the names of the record's
inputs and params:

    schema="sum.dim_IntList(x, dims, keepdim, dtype=kind)"
    schema="gelu(x, approximate='tanh')"           a constant where it computes one case
    schema="max_pool{len(kernel)}d_with_indices(x, kernel, ...)"   a family, by number of dims

A record without one computes the overload of its own name that takes its inputs, then its params,
and has defaults for the rest; where several do, the one without a name, or named Tensor.  What ATen
lacks says its arguments itself, inputs first, and is in a namespace of ours; overloads of PyTorch's
other namespaces have theirs in front ("_c10d_functional::broadcast(x, src, group_name)"):

    schema="(Tensor x, int dim, str kind) -> Tensor"               tritorch::<name of the record>

Types stand in `tritorch/schema/aten.txt`, once.  Tests hold names, types and results to the calls
that records really get.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tritorch.schema import table
from tritorch.schema.parser import parse_schema
from tritorch.schema.signature import Argument, FunctionSchema
from tritorch.schema.tensor_type import TensorType
from tritorch.schema.types import ListType, OptionalType

# What calls in declarations may use.
_WORDS = {
    "_given": lambda *args, **kwargs: (args, kwargs),
    "_with": lambda **given: {k: v for k, v in given.items() if v is not None},
    "reduction": ("none", "mean", "sum").index,  # of a loss, as ATen numbers them
}


class Call(NamedTuple):
    """A call of a record as one of its schema."""

    schema: FunctionSchema
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def is_tensor(argument: Argument) -> bool:
    """Whether an argument is a tensor, may be one, or is a list of such."""
    kind = argument.type
    while isinstance(kind, (OptionalType, ListType)):
        kind = kind.getElementType()
    return isinstance(kind, TensorType)


def called(op: Any, text: str = "") -> Callable[[Sequence[Any], Sequence[Any]], Call]:
    """The function that puts a record's inputs and params into a call of its schema.

    text: the call, where it is not the declared one."""
    text = text or op.declared_schema
    if "->" in text or not text:
        schema = parse_schema(f"tritorch::{op.name}{text}") if text else _by_name(op)
        return lambda tensors, params: _in_order(schema, _named(op, tensors, params))
    name, inside = parts_of(text)
    names = (*op.inputs, *op.params)
    make = eval(f"lambda {', '.join(names)}: _given({inside})", dict(_WORDS))
    find = eval(f"lambda {', '.join(names)}: f{name!r}") if "{" in name else lambda *given: name

    def call(tensors: Sequence[Any], params: Sequence[Any]) -> Call:
        given = _named(op, tensors, params)
        args, kwargs = make(*given)
        return Call(_overload(find(*given)), args, kwargs)

    return call


def schema_of(op: Any) -> FunctionSchema:
    """A record's schema; of a family, one of its members."""
    text = op.declared_schema
    if not text:
        return _by_name(op)
    if "->" in text:
        return parse_schema(f"tritorch::{op.name}{text}")
    return _overload(members_of(parts_of(text)[0])[0])


def members_of(name: str) -> list[str]:
    """The overloads that the name of a family stands for; of another name, itself."""
    texts: list[str] = [""]
    for part in ast.parse(f"f{name!r}", mode="eval").body.values:  # type: ignore[attr-defined]
        if isinstance(part, ast.Constant):
            choices = [str(part.value)]
        else:
            choices = _choices(part.value) or ["1", "2", "3"]  # a number of dims
        texts = [text + choice for text in texts for choice in choices]
    found = (text.partition(".") for text in texts)
    return [
        f"{full}.{overload}".rstrip(".")
        for full, _, overload in found
        if overload in table.overloads(*_in_space(full))
    ]


def _in_space(full: str) -> tuple[str, str]:
    """An operator's name and its namespace, ATen's if it names none."""
    space, _, stem = full.rpartition("::")
    return stem, space or "aten"


def _choices(node: ast.expr) -> list[str]:
    """The words that an expression of a family's name chooses from."""
    if isinstance(node, ast.IfExp):
        return _choices(node.body) + _choices(node.orelse)
    if isinstance(node, ast.Subscript):
        return _choices(node.value)
    if isinstance(node, ast.Tuple):
        return [word for each in node.elts for word in _choices(each)]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    return []


def parts_of(text: str) -> tuple[str, str]:
    """The overload that a call names, and its arguments."""
    at = depth = 0
    while text[at] != "(" or depth:
        depth += (text[at] == "{") - (text[at] == "}")
        at += 1
    return text[:at], text[at + 1 : text.rindex(")")]


def _overload(name: str) -> FunctionSchema:
    full, _, overload = name.partition(".")
    stem, space = _in_space(full)
    return table.find(stem, overload, space)


def _named(op: Any, tensors: Sequence[Any], params: Sequence[Any]) -> list[Any]:
    """The values of a record's inputs, the last of a variadic one being a list, and params."""
    if op.variadic:
        n = len(op.inputs) - 1
        tensors = [*tensors[:n], list(tensors[n:])]
    return [*tensors, *params]


def _in_order(schema: FunctionSchema, values: Sequence[Any]) -> Call:
    arguments = schema.arguments
    args = [v for v, a in zip(values, arguments) if not a.kwarg_only]
    return Call(schema, tuple(args), {a.name: v for v, a in zip(values, arguments) if a.kwarg_only})


@functools.cache
def _by_name(op: Any) -> FunctionSchema:
    n, m = len(op.inputs), len(op.params)
    fits = []
    for overload in table.overloads(op.name):
        schema = table.find(op.name, overload)
        arguments = schema.arguments
        kinds = [is_tensor(a) for a in arguments[: n + m]]
        rest = arguments[n + m :]
        if kinds == [True] * n + [False] * m and all(a.has_default_value() for a in rest):
            fits.append(schema)
    usual = [schema for schema in fits if schema.overload_name in ("", "Tensor")]
    fits = usual if len(usual) == 1 else fits
    if len(fits) != 1:
        found = ", ".join(map(str, fits)) or "none"
        raise LookupError(f"{op.name}: of ATen's overloads of this name these fit: {found}")
    return fits[0]


def names_of_arguments(operator: str, count: int) -> list[str]:
    """How the arguments of a public function are called whose operator has a schema, from the first
    on: those of the overload that as many arguments fit; none without a schema."""
    for overload in table.overloads(operator):
        schema = table.find(operator, overload)
        arguments = [a for a in schema.arguments if not a.kwarg_only]
        needed = sum(not a.has_default_value() for a in arguments)
        if any(map(is_tensor, arguments)) and needed <= count <= len(schema.arguments):
            return ["input" if a.name == "self" else a.name for a in arguments]
    return []


def forms_of_calls(operator: str, name: str, is_method: bool) -> list[str]:
    """How a public function is called whose operator has a schema: a line for each overload."""
    found = [table.find(operator, overload) for overload in table.overloads(operator)]
    writes = any(a.is_out for schema in found for a in schema.arguments)
    forms: dict[tuple[str, ...], str] = {}
    for schema in sorted(found, key=lambda s: "Scalar" in s.overload_name):
        arguments = schema.arguments
        if any(a.is_out for a in arguments) or not any(map(is_tensor, schema.returns)):
            continue
        parts: list[str] = []
        for a in arguments:
            if a.kwarg_only and "*" not in parts:
                parts.append("*")
            if a.name != "self" or not is_method:
                shown = "input" if a.name == "self" else a.name
                parts.append(f"{shown}={a.default_value}" if a.has_default_value() else shown)
        if writes and not is_method:
            parts += ["out=None"] if "*" in parts else ["*", "out=None"]
        results = ", ".join(str(result.type) for result in schema.returns)
        results = results if len(schema.returns) == 1 else f"({results})"
        # An overload for numbers has the names of the one for tensors.
        forms.setdefault(
            tuple(a.name for a in arguments), f"{name}({', '.join(parts)}) -> {results}"
        )
    return list(forms.values())
