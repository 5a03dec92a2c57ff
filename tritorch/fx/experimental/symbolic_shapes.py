"""Sizes that a trace leaves open: what programs ask of them (`tritorch.core.symbolic` has them).

PyTorch's are expressions of sympy; here they are polynomials with ranges, and what a program asks
of them is answered by these.  What lies below (guards as code, constraints that are solved) belongs
to a compiler, and is not here.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
from collections.abc import Callable, Iterator
from typing import Any

from tritorch.core.symbolic import (
    GuardOnDataDependentSymNode,
    ShapeEnv,
    Symbol,
    SymBool,
    SymFloat,
    SymInt,
)
from tritorch.core.tensor import Tensor
from tritorch.fx.interpreter import Interpreter
from tritorch.fx.node import Node
from tritorch.ops.record.overloads import namespace
from tritorch.utils import _pytree as pytree

__all__ = [
    "CallMethodKey", "ConvertIntKey", "DimDynamic", "DivideByKey", "GuardOnDataDependentSymNode",
    "InnerTensorKey", "PropagateUnbackedSymInts", "ShapeEnv", "check_consistent",
    "definitely_false", "definitely_true", "expect_true", "free_symbols", "free_unbacked_symbols",
    "guard_bool", "guard_float", "guard_int", "guard_or_false", "guard_or_true", "guard_scalar",
    "guard_size_oblivious", "guarding_hint_or_throw", "has_free_symbols",
    "has_free_unbacked_symbols", "has_hint", "has_static_value", "hint_int", "is_accessor_node",
    "is_concrete_bool", "is_concrete_float", "is_concrete_int", "is_symbol_binding_fx_node",
    "is_symbolic", "lru_cache", "statically_known_false", "statically_known_true", "sym_and",
    "sym_eq", "sym_or", "uninteresting_files",
]  # fmt: skip

SymTypes = (SymInt, SymFloat, SymBool)
SymPyValue = Any
lru_cache = functools.lru_cache


class DimDynamic(enum.Enum):
    """What becomes of a size: open, open as far as code does not fix it, without a value, fixed."""

    DYNAMIC = 0
    DUCK = 1
    STATIC = 2
    SIZE_LIKE_UNBACKED = 3
    INFER_STRIDE = 4
    OBLIVIOUS_SIZE = 5


# ---- what is known -------------------------------------------------------------------------------


def is_symbolic(val: Any) -> bool:
    """Whether a number is left open."""
    if isinstance(val, SymInt):
        return val.constant is None
    return isinstance(val, (SymFloat, SymBool))


def is_concrete_int(a: Any) -> bool:
    """Whether an integer is known for every run."""
    return isinstance(a, (int, SymInt)) and not is_symbolic(a)


def is_concrete_float(a: Any) -> bool:
    """Whether a float is known for every run."""
    return isinstance(a, float)


def is_concrete_bool(a: Any) -> bool:
    """Whether a condition is known for every run."""
    return isinstance(a, bool)


def has_static_value(a: Any) -> bool:
    """Whether a number is known for every run."""
    return not is_symbolic(a)


def has_hint(a: Any) -> bool:
    """Whether a number has a value in this run."""
    return not isinstance(a, SymTypes) or a.value is not None


def hint_int(a: Any, fallback: int | None = None) -> int:
    """The value of an integer in this run; fallback: of one that has none."""
    value = a.value if isinstance(a, SymInt) else int(a)
    if value is not None:
        return value
    if fallback is None:
        raise GuardOnDataDependentSymNode(f"{a} has no value in this run")
    return fallback


def guarding_hint_or_throw(a: Any) -> Any:
    """The value of a number in this run; an error where it has none."""
    if not has_hint(a):
        raise GuardOnDataDependentSymNode(f"{a} has no value in this run")
    return a.value if isinstance(a, SymTypes) else a


def _symbols(value: SymInt) -> Iterator[Symbol]:
    for monomial in value.terms:
        for atom, _ in monomial:
            if isinstance(atom, Symbol):
                yield atom
            else:  # a quotient, a remainder
                yield from _symbols(atom.a)
                yield from _symbols(atom.b)


def free_symbols(val: Any) -> set[Symbol]:
    """The symbols in integers, in sizes and strides of tensors, and in what holds such."""
    found: set[Symbol] = set()
    for leaf in pytree.tree_leaves(val):
        parts = (
            [*leaf.shape, *leaf.stride(), leaf.storage_offset()]
            if isinstance(leaf, Tensor)
            else [leaf]
        )
        found.update(s for part in parts if isinstance(part, SymInt) for s in _symbols(part))
    return found


def has_free_symbols(val: Any) -> bool:
    """Whether a symbol is in there."""
    return bool(free_symbols(val))


def free_unbacked_symbols(val: Any) -> set[Symbol]:
    """The symbols in there that have no value in this run."""
    return {symbol for symbol in free_symbols(val) if symbol.value is None}


def has_free_unbacked_symbols(val: Any) -> bool:
    """Whether one of them is in there."""
    return bool(free_unbacked_symbols(val))


# ---- conditions ----------------------------------------------------------------------------------


def guard_bool(a: Any) -> bool:
    """A condition, by this run's values, with a guard."""
    return bool(a)


def guard_int(a: Any) -> int:
    """An integer, by this run's values, with a guard."""
    return int(a)


def guard_float(a: Any) -> float:
    """A float, by this run's values, with a guard."""
    return float(a)


def guard_scalar(a: Any) -> Any:
    """A number, by this run's values, with a guard."""
    kinds: dict[type, Callable[[Any], Any]] = {SymBool: bool, SymInt: int, SymFloat: float}
    return kinds.get(type(a), lambda x: x)(a)


guard_size_oblivious = expect_true = guard_bool


def statically_known_true(x: Any) -> bool:
    """Whether a condition holds in every run, as far as ranges say."""
    return isinstance(x, bool) and x


def statically_known_false(x: Any) -> bool:
    """Whether a condition holds in no run, as far as ranges say."""
    return isinstance(x, bool) and not x


def guard_or_false(a: Any) -> bool:
    """A condition, by this run's values; False where they are not known."""
    return bool(a) if has_hint(a) else False


def guard_or_true(a: Any) -> bool:
    """A condition, by this run's values; True where they are not known."""
    return bool(a) if has_hint(a) else True


definitely_true = guard_or_false


def definitely_false(a: Any) -> bool:
    """Whether a condition does not hold, by this run's values, where they are known."""
    return not bool(a) if has_hint(a) else False


def sym_eq(x: Any, y: Any) -> Any:
    """Whether two numbers, or two tuples or lists of them, are equal: a condition."""
    if isinstance(x, (tuple, list)) and isinstance(y, (tuple, list)):
        if len(x) != len(y):
            return False
        return sym_and(True, *map(sym_eq, x, y))
    if isinstance(x, (int, SymInt)) and isinstance(y, (int, SymInt)):
        return x == y
    raise AssertionError(f"unexpected sym_eq between {type(x)} {type(y)}")


def sym_and(x: Any, *others: Any) -> Any:
    """Whether all of these hold: a condition."""
    for other in others:
        x = x & other
    return x


def sym_or(x: Any, *others: Any) -> Any:
    """Whether one of these holds: a condition."""
    for other in others:
        x = x | other
    return x


def check_consistent(new: Any, old: Any) -> None:
    """Raises where two values, or two tensors' sizes, are not the same."""
    if isinstance(new, Tensor):
        if not isinstance(old, Tensor):
            raise AssertionError(f"Expected Tensor, got {type(old)}")
        if new.dim() != old.dim():
            raise AssertionError(f"{old.shape} != {new.shape} (old != new)")
        if not all(map(guard_bool, map(sym_eq, new.shape, old.shape))):
            raise AssertionError(f"{old.shape} != {new.shape} (old != new)")
    elif isinstance(new, (int, float, SymInt, SymFloat)) and not isinstance(new, bool):
        if not isinstance(old, (int, float, SymInt, SymFloat)) or isinstance(old, bool):
            raise AssertionError(f"Expected scalar, got {type(old)}")
        if not new == old:
            raise AssertionError(f"{old} != {new} (old != new)")


# ---- nodes ---------------------------------------------------------------------------------------


def is_symbol_binding_fx_node(node: Node) -> Symbol | None:
    """The symbol that an input of a graph is; None of another node."""
    value = node.meta.get("val")
    if node.op != "placeholder" or not isinstance(value, SymInt):
        return None
    found = free_symbols(value)
    return found.pop() if len(found) == 1 else None


def is_accessor_node(node: Node) -> bool:
    """Whether a node reads a size, a stride or an offset of a tensor."""
    if node.op == "call_method":
        known = node.args and isinstance(node.args[0], Node)
        value = node.args[0].meta.get("example_value") if known else None
        names = ("size", "stride", "storage_offset", "item")
        return isinstance(value, Tensor) and node.target in names
    aten = namespace("aten")
    reads = {
        getattr(aten.sym_size, "int", None), getattr(aten.sym_stride, "int", None),
        getattr(aten.sym_size, "default", None), getattr(aten.sym_stride, "default", None),
        getattr(aten.sym_storage_offset, "default", None),
    }  # fmt: skip
    return node.op == "call_function" and node.target in reads - {None}


class PropagateUnbackedSymInts(Interpreter):
    """Runs a graph; sizes of results are what they are in the run."""


# ---- keys: how a symbol is found in a value ------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class ConvertIntKey:
    """Of a condition: as an integer."""

    def __str__(self) -> str:
        return ".cast_symbool_to_symint_guardless()"

    def get(self, b: Any) -> Any:
        """The integer."""
        return int(b)


@dataclasses.dataclass(frozen=True)
class CallMethodKey:
    """Of a tensor: what a method gives."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}()"

    def get(self, o: Any) -> Any:
        """What the method gives."""
        return getattr(o, self.name)()


@dataclasses.dataclass(frozen=True)
class InnerTensorKey:
    """Of a tensor that holds others: one of them."""

    inner_name: str

    def __str__(self) -> str:
        return f".{self.inner_name}"

    def get(self, o: Any) -> Any:
        """The tensor inside."""
        return getattr(o, self.inner_name)


@dataclasses.dataclass(frozen=True)
class DivideByKey:
    """Of an integer: a quotient."""

    divisor: Any

    def __str__(self) -> str:
        return f".__floordiv__({self.divisor})"

    def get(self, o: int) -> int:
        """The quotient."""
        return o // self.divisor


@functools.lru_cache(None)
def uninteresting_files() -> set[str]:
    """The files of the package through which a trace goes."""
    from tritorch.fx import graph, graph_module, interpreter, proxy

    return {str(module.__file__) for module in (graph, graph_module, interpreter, proxy)}


@contextlib.contextmanager
def _suppress_guards(shape_env: ShapeEnv) -> Iterator[None]:
    """Inside, no guards are noted."""
    before = list(shape_env.guards)
    try:
        yield
    finally:
        shape_env.guards[:] = before
