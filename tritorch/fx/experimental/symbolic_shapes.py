"""Dynamic sizes, under PyTorch's names (`arrays/symbolic.py` has them).

env = ShapeEnv()
mode = FakeTensorMode(shape_env=env)
x = mode.from_tensor(torch.ones(2, 3))      # of sizes (s0, s1)
free_symbols(x.shape[0] * 2)                # {s0}
"""

from __future__ import annotations

import dataclasses
import enum
import functools
from typing import Any

from tritorch.arrays import symbolic
from tritorch.arrays.nested import NestedInt
from tritorch.arrays.symbolic import (
    INF,
    GuardOnDataDependentSymNode,
    Symbol,
    SymBool,
    SymFloat,
    SymInt,
)
from tritorch.core.scopes import Scope, scoped, set_back
from tritorch.core.tensor import Tensor
from tritorch.fx.interpreter import Interpreter
from tritorch.fx.node import Node
from tritorch.ops.record.overloads import namespace
from tritorch.trees.walk import tree_leaves

__all__ = [
    "CallMethodKey", "ConstraintViolationError", "ConvertIntKey", "DimDynamic", "DivideByKey",
    "GuardOnDataDependentSymNode", "InnerTensorKey", "PropagateUnbackedSymInts", "ShapeEnv",
    "ShapeEnvSettings", "StatelessSymbolicContext", "canonicalize_bool_expr", "check_consistent",
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


class ConstraintViolationError(RuntimeError):
    """Sizes are not what a program said of them."""


class DimDynamic(enum.Enum):
    """What becomes of a size: a symbol that equal sizes share, one of its own, or the number."""

    DYNAMIC = 0
    DUCK = 1
    STATIC = 2
    SIZE_LIKE_UNBACKED = 3
    INFER_STRIDE = 4
    OBLIVIOUS_SIZE = 5


@dataclasses.dataclass(frozen=True)
class StatelessSymbolicContext:
    """What becomes of each size of a tensor."""

    dynamic_sizes: Any = None
    dynamic_strides: Any = None
    constraint_sizes: Any = None
    constraint_strides: Any = None
    view_base_context: Any = None


@dataclasses.dataclass
class ShapeEnvSettings:
    """How an environment was made."""

    allow_scalar_outputs: bool = True
    allow_dynamic_output_shape_ops: bool = True
    assume_static_by_default: bool = False
    specialize_zero_one: bool = True
    duck_shape: bool = True


class ShapeEnv(symbolic.ShapeEnv):
    """The symbols of one trace.

    specialize_zero_one: sizes of 0 and 1 stay numbers.  duck_shape: equal sizes share a symbol."""

    def __init__(
        self,
        *,
        allow_scalar_outputs: bool = True,
        allow_dynamic_output_shape_ops: bool = True,
        assume_static_by_default: bool = False,
        specialize_zero_one: bool = True,
        duck_shape: bool = True,
        **options: Any,
    ) -> None:
        super().__init__()
        self.allow_scalar_outputs = allow_scalar_outputs
        self.allow_dynamic_output_shape_ops = allow_dynamic_output_shape_ops
        self.settings = ShapeEnvSettings(
            allow_scalar_outputs, allow_dynamic_output_shape_ops, assume_static_by_default,
            specialize_zero_one, duck_shape,
        )  # fmt: skip

    def create_symbol(
        self,
        val: int,
        source: Any = None,
        dynamic_dim: DimDynamic = DimDynamic.DUCK,
        constraint_dim: Any = None,
        **options: Any,
    ) -> Any:
        """A symbol for a size; the size itself where it is static."""
        if dynamic_dim is DimDynamic.STATIC or (self.settings.specialize_zero_one and val < 2):
            return val
        if dynamic_dim is not DimDynamic.DUCK:
            return self.symbol("", val, min(val, 2))
        return self.of_size(val)

    create_unspecified_symbol = create_symbol

    def create_symintnode(self, sym: Any, *, hint: int | None = None, source: Any = None) -> Any:
        """A symbol as a number."""
        return sym

    def create_unbacked_symint(self, source: Any = None) -> SymInt:
        """A number that nobody knows."""
        return self.unbacked(-INF)

    def create_unbacked_symbool(self) -> Any:
        """A condition that nobody knows."""
        return self.unbacked(0, 1) == 1

    def is_unbacked_symint(self, symbol: Any) -> bool:
        """Whether nobody knows what a symbol is."""
        return isinstance(symbol, Symbol) and symbol.value is None


def _symbols(value: Any) -> set[Symbol]:
    """The symbols that a number, a tensor's sizes and strides, or a tree of such has."""
    found: set[Symbol] = set()
    if isinstance(value, Tensor):
        value = (tuple(value.shape), tuple(value.stride()), value.storage_offset())
    for leaf in tree_leaves(value):
        if isinstance(leaf, Tensor):
            found |= _symbols(leaf)
        elif isinstance(leaf, SymInt):
            for monomial in leaf.terms:
                for atom, _ in monomial:
                    found |= {atom} if isinstance(atom, Symbol) else _symbols((atom.a, atom.b))
    return found


def free_symbols(val: Any) -> set[Symbol]:
    """The symbols of a number, of a tensor's sizes, or of a tree of such."""
    return _symbols(val)


def free_unbacked_symbols(x: Any) -> set[Symbol]:
    """Those that have no value in this run."""
    return {symbol for symbol in _symbols(x) if symbol.value is None}


def has_free_symbols(val: Any) -> bool:
    """Whether there are symbols."""
    return bool(_symbols(val))


def has_free_unbacked_symbols(x: Any) -> bool:
    """Whether there are symbols without a value."""
    return bool(free_unbacked_symbols(x))


def is_nested_int(s: Any) -> bool:
    """Whether a number is the size of a nested tensor's ragged dim."""
    return isinstance(s, NestedInt)


def is_symbolic(val: Any) -> bool:
    """True if a number is dynamic."""
    if isinstance(val, (int, float, bool, NestedInt)):
        return False
    return not (isinstance(val, SymInt) and val.constant is not None)


def is_concrete_int(a: Any) -> bool:
    """Whether an integer is a number, whatever symbols stand for."""
    return isinstance(a, int) or a.constant is not None


def is_concrete_bool(a: Any) -> bool:
    """Whether a condition is decided."""
    return isinstance(a, bool)


def is_concrete_float(a: Any) -> bool:
    """Whether a float is a number."""
    return isinstance(a, float)


def has_hint(a: Any) -> bool:
    """Whether a number has a value in this run."""
    return not isinstance(a, (SymInt, SymFloat, SymBool)) or a.value is not None


def hint_int(a: Any, fallback: int | None = None) -> int:
    """The value in this run, without a guard."""
    value = a.value if isinstance(a, SymInt) else a
    if value is None:
        if fallback is None:
            raise GuardOnDataDependentSymNode(f"{a} has no value in this run")
        return fallback
    return int(value)


# ---- asking --------------------------------------------------------------------------------------


def guard_int(a: Any) -> int:
    """The value, which is from now on what later runs must have."""
    return int(a)


def guard_float(a: Any) -> float:
    """The value, which is from now on what later runs must have."""
    return float(a)


def guard_bool(a: Any) -> bool:
    """Whether a condition holds, which later runs must have too."""
    return bool(a)


def guard_scalar(a: Any) -> Any:
    """The value of a number or a condition, with a guard."""
    if isinstance(a, (SymBool, bool)):
        return bool(a)
    return int(a) if isinstance(a, (SymInt, int)) else float(a)


def expect_true(a: Any, skip: int = 0) -> bool:
    """Takes a condition for true where nobody knows."""
    return symbolic.expect(a)


guard_size_oblivious = guard_bool


def statically_known_true(x: Any) -> bool:
    """Whether a condition holds whatever symbols stand for."""
    return x is True


def statically_known_false(x: Any) -> bool:
    """Whether a condition holds for nothing that symbols stand for."""
    return x is False


def guard_or_false(a: Any) -> bool:
    """Whether a condition holds; False where nobody knows."""
    return symbolic.known(a)


def guard_or_true(a: Any) -> bool:
    """Whether a condition holds; True where nobody knows."""
    return True if isinstance(a, SymBool) and a.value is None else bool(a)


definitely_true = guard_or_false


def definitely_false(a: Any) -> bool:
    """Whether a condition does not hold; False where nobody knows."""
    return False if isinstance(a, SymBool) and a.value is None else not bool(a)


def sym_eq(x: Any, y: Any) -> Any:
    """Whether two numbers, or two tuples or lists of them, are equal: a condition."""
    if isinstance(x, (tuple, list)) and isinstance(y, (tuple, list)):
        if len(x) != len(y):
            return False
        return sym_and(True, *map(sym_eq, x, y))
    if isinstance(x, (int, SymInt)) and isinstance(y, (int, SymInt)):
        return x == y
    raise AssertionError(f"unexpected sym_eq between {type(x)} {type(y)}")


def canonicalize_bool_expr(expr: Any) -> Any:
    """The condition."""
    return expr


def _constrain_range_for_size(a: Any, min: int | None = None, max: int | None = None) -> None:
    """Says that a number without a value is a size, between two others."""
    constrain_range(a, min=min or 0, max=max)


def constrain_range(a: Any, *, min: int | None = None, max: int | None = None) -> None:
    """Says between which numbers one lies that nobody knows."""
    low = -INF if min is None else min
    high = INF if max is None else max
    if not isinstance(a, SymInt):
        if not low <= a <= high:
            raise ValueError(f"Invalid value {a} for range [{min}:{max}]")
        return
    for symbol in _symbols(a) if len(a.terms) == 1 else ():
        old_low, old_high = symbol.range
        symbol.range = (low if low > old_low else old_low, high if high < old_high else old_high)


def has_static_value(a: Any) -> bool:
    """Whether a number is known for every run."""
    return not is_symbolic(a)


def guarding_hint_or_throw(a: Any) -> Any:
    """The value of a number in this run; an error where it has none."""
    if not has_hint(a):
        raise GuardOnDataDependentSymNode(f"{a} has no value in this run")
    return a.value if isinstance(a, SymTypes) else a


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


@scoped
def _suppress_guards(shape_env: ShapeEnv) -> Scope:
    """Inside, no guards are noted."""
    return Scope(set_back(shape_env.guards.__setitem__, slice(None), list(shape_env.guards)))
