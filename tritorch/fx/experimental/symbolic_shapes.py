"""Sizes that are left open, under PyTorch's names (`core/symbolic.py` has them).

env = ShapeEnv()
mode = FakeTensorMode(shape_env=env)
x = mode.from_tensor(torch.ones(2, 3))      # of sizes (s0, s1)
free_symbols(x.shape[0] * 2)                # {s0}
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

from tritorch._trees.walk import tree_leaves
from tritorch.core import symbolic
from tritorch.core.symbolic import (
    INF,
    GuardOnDataDependentSymNode,
    Symbol,
    SymBool,
    SymFloat,
    SymInt,
)
from tritorch.core.tensor import Tensor

__all__ = [
    "ConstraintViolationError", "DimDynamic", "GuardOnDataDependentSymNode", "ShapeEnv",
    "ShapeEnvSettings", "StatelessSymbolicContext", "canonicalize_bool_expr", "definitely_false",
    "definitely_true", "expect_true", "free_symbols", "free_unbacked_symbols", "guard_bool",
    "guard_float", "guard_int", "guard_or_false", "guard_or_true", "guard_scalar",
    "guard_size_oblivious", "has_free_symbols", "has_free_unbacked_symbols", "has_hint", "hint_int",
    "is_concrete_bool", "is_concrete_float", "is_concrete_int", "is_symbolic",
    "statically_known_false", "statically_known_true", "sym_eq",
]  # fmt: skip


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
        self._of_sizes: dict[int, SymInt] = {}

    def create_symbol(
        self,
        val: int,
        source: Any = None,
        dynamic_dim: DimDynamic = DimDynamic.DUCK,
        constraint_dim: Any = None,
        **options: Any,
    ) -> Any:
        """A symbol for a size; the size itself where it is not left open."""
        if dynamic_dim is DimDynamic.STATIC or (self.settings.specialize_zero_one and val < 2):
            return val
        if dynamic_dim is not DimDynamic.DUCK:
            return self.symbol("", val, min(val, 2))
        if val not in self._of_sizes:
            self._of_sizes[val] = self.symbol("", val, min(val, 2))
        return self._of_sizes[val]

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


def is_symbolic(val: Any) -> bool:
    """Whether a number is left open."""
    if isinstance(val, (int, float, bool)):
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
    return True if isinstance(a, SymBool) and a.value is None else bool(a)


guard_size_oblivious = guard_bool


def statically_known_true(x: Any) -> bool:
    """Whether a condition holds whatever symbols stand for."""
    return x is True


def statically_known_false(x: Any) -> bool:
    """Whether a condition holds for nothing that symbols stand for."""
    return x is False


def guard_or_false(a: Any) -> bool:
    """Whether a condition holds; False where nobody knows."""
    return False if isinstance(a, SymBool) and a.value is None else bool(a)


def guard_or_true(a: Any) -> bool:
    """Whether a condition holds; True where nobody knows."""
    return True if isinstance(a, SymBool) and a.value is None else bool(a)


definitely_true = guard_or_false


def definitely_false(a: Any) -> bool:
    """Whether a condition does not hold; False where nobody knows."""
    return False if isinstance(a, SymBool) and a.value is None else not bool(a)


def sym_eq(x: Any, y: Any) -> Any:
    """Whether numbers, or sequences of them, are equal; a condition, if that depends."""
    if isinstance(x, (tuple, list)) and isinstance(y, (tuple, list)):
        if len(x) != len(y):
            return False
        found: Any = True
        for a, b in zip(x, y):
            each = sym_eq(a, b)
            found = each if found is True else found if each is True else found & each
        return found
    return x == y


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
