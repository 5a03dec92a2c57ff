"""Schemas of operators by name, and the one that a node has."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tritorch.ops.record.overloads import DEFINED
from tritorch.schema import table, types
from tritorch.schema.signature import Argument, FunctionSchema
from tritorch.schema.types import Type

if TYPE_CHECKING:
    from tritorch.jit.ir.graph import Node


def schemas(name: str) -> list[FunctionSchema]:
    """The schemas of all overloads of `aten::add`, in PyTorch's order; those that a program
    defined through torch.library too."""
    defined = [entry.schema for (full, _), entry in list(DEFINED.items()) if full == name]
    known = _recorded(name)
    if not defined:
        return list(known)
    overloads = {schema.overload_name for schema in defined}
    return [schema for schema in known if schema.overload_name not in overloads] + defined


@functools.cache
def _recorded(name: str) -> tuple[FunctionSchema, ...]:
    space, _, stem = name.partition("::")
    return tuple(table.find(stem, overload, space) for overload in table.ordered(stem, space))


def find(name: str, overload: str) -> FunctionSchema | None:
    """The schema of an overload; None if there is none."""
    defined = DEFINED.get((name, overload))
    if defined is not None:
        return defined.schema
    space, _, stem = name.partition("::")
    if overload not in table.overloads(stem, space):
        return None
    return table.find(stem, overload, space)


def schema_of(node: Node) -> FunctionSchema | None:
    """The schema of a node: the first of its operator that the inputs fit by number and type."""
    if node._schema is not None:
        return node._schema
    kinds = [value._type for value in node._inputs]
    for is_exact in (True, False):
        for schema in schemas(node._kind):
            if _fits(schema, kinds, is_exact):
                return schema
    return None


def _fits(schema: FunctionSchema, kinds: Sequence[Type], is_exact: bool) -> bool:
    arguments = schema._arguments
    if schema._is_vararg:
        return len(kinds) >= len(arguments)
    if len(kinds) != len(arguments):
        return False
    bound: dict[str, Type] = {}
    return all(
        _takes(a.type, kind, bound, is_exact) for a, kind in zip(arguments, kinds, strict=True)
    )


def _takes(wanted: Type, kind: Type, bound: dict[str, Type], is_exact: bool) -> bool:
    """Tells whether an argument takes a value of a type; bound: the types of variables."""
    if isinstance(wanted, types.VarType):
        return bool(bound.setdefault(wanted._name, kind) == kind) or not is_exact
    if kind == wanted or kind.isSubtypeOf(wanted):
        return True
    if isinstance(wanted, types.OptionalType):
        if isinstance(kind, types.NoneType):
            return True
        inside = kind.getElementType() if isinstance(kind, types.OptionalType) else kind
        return _takes(wanted.getElementType(), inside, bound, is_exact)
    # TorchScript has numbers for these, and ints where a schema may be given symbols.
    numbered = (types.ScalarTypeType, types.LayoutType, types.MemoryFormatType, types.SymIntType)
    if isinstance(wanted, numbered):
        return isinstance(kind, types.IntType)
    parts, wanted_parts = kind.containedTypes(), wanted.containedTypes()
    if wanted_parts and type(wanted) is type(kind) and len(parts) == len(wanted_parts):
        return all(
            _takes(a, b, bound, is_exact) for a, b in zip(wanted_parts, parts, strict=True)
        )  # fmt: skip
    if isinstance(wanted, types.ListType) and isinstance(kind, types.ListType):
        return not is_exact and isinstance(wanted.getElementType(), types.AnyType)
    return not is_exact and isinstance(kind, types.AnyType)


def is_random(name: str) -> bool:
    """Tells whether two calls of an operator with the same inputs may give different results."""
    return name in _RANDOM or any(map(_takes_generator, schemas(name)[:1]))


def _takes_generator(schema: FunctionSchema) -> bool:
    def is_generator(argument: Argument) -> bool:
        kind = argument.type
        return kind == types.OptionalType(types.GeneratorType.get())

    return any(map(is_generator, schema._arguments))


# Random operators that take no generator.
_RANDOM = frozenset(
    f"aten::{name}"
    for name in (
        "_fused_dropout", "_standard_gamma", "alpha_dropout", "bernoulli", "dropout",
        "feature_alpha_dropout", "feature_dropout", "multinomial", "native_dropout", "normal",
        "poisson", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like",
        "randperm", "rrelu_with_noise",
    )
)  # fmt: skip
