"""Dynamic numbers of tracers: integers as polynomials of symbols, with ranges.

A `SymInt` is a sum of products of atoms: symbols, and what is no polynomial of them (floor
division, modulo, min, max).  Equal polynomials are equal numbers, whatever the symbols stand for.
A comparison is decided by the symbols' ranges where these suffice; else by the values that the
symbols have in this run, and the environment notes that as a *guard*: what was found out holds for
runs in which it is so again.  A symbol without a value (the size of `nonzero`) has nothing to be
decided by: that is an error which names it.

    env = ShapeEnv()
    n = env.symbol("n", 5)         # 5 in this run; sizes are at least 2
    (2 * n + 2) // 2 == n + 1      # True, for every n
    n > 3                          # True for this n: env.guards has "n > 3"

The functions of `sym_functions.py` take these and Python's numbers.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tritorch import _C

Monomial = tuple[tuple[Any, int], ...]  # atoms and their powers, in a fixed order
Range = tuple[float, float]
INF = math.inf
MAX_SIZE = 2**60 - 1  # elements of a dim


class ShapeEnv:
    """The symbols of one trace, and what was decided by their values."""

    allow_dynamic_output_shape_ops = True  # whether a size may depend on data
    allow_scalar_outputs = True  # whether a value may be dynamic

    def __init__(self) -> None:
        self.symbols: list[Symbol] = []
        self.guards: list[str] = []
        self._of_sizes: dict[int, SymInt] = {}
        self.assumed: set[str] = set()  # conditions that a program said hold

    def symbol(
        self, name: str = "", value: int | None = None, low: float = 2, high: float = INF
    ) -> SymInt:
        """A new symbol as a number; value: what it is in this run, None if nobody knows."""
        if value is not None and not low <= value <= high:
            raise ValueError(f"{value} is not in the range [{low}, {high}] of its symbol")
        made = Symbol(name or f"s{len(self.symbols)}", value, (low, high), len(self.symbols))
        self.symbols.append(made)
        return SymInt({((made, 1),): 1}, self)

    def of_size(self, size: int) -> SymInt:
        """The symbol of all sizes that are the same in this run."""
        if size not in self._of_sizes:
            self._of_sizes[size] = self.symbol("", size, min(size, 2))
        return self._of_sizes[size]

    def unbacked(self, low: float = 0, high: float = INF, stem: str = "u") -> SymInt:
        """A new symbol that has no value in this run; a size, if it is not below 0."""
        high = min(high, MAX_SIZE) if low >= 0 else high
        count = sum(symbol.value is None and symbol.name[0] == stem for symbol in self.symbols)
        return self.symbol(f"{stem}{count}", None, low, high)

    def evaluate_expr(self, orig_expr: Any, hint: Any = None, **options: Any) -> Any:
        """The value of a number or a condition in this run, noted as a guard."""
        if isinstance(orig_expr, SymInt):
            return int(orig_expr)
        return bool(orig_expr) if isinstance(orig_expr, SymBool) else orig_expr

    def assume(self, condition: SymBool) -> None:
        """Takes a condition on numbers that nobody knows for true from now on."""
        self.assumed.add(condition.text)
        made = condition.made or ()
        function, number, other = made if len(made) == 3 else (None, None, None)
        symbol = symbol_of(number)
        if symbol is None or not isinstance(other, int):
            return
        low, high = symbol.range
        if function in (operator.ge, operator.gt, operator.eq):
            low = max(low, other + (function is operator.gt))
        if function in (operator.le, operator.lt, operator.eq):
            high = min(high, other - (function is operator.lt))
        symbol.range = low, high

    def decide(self, what: str, value: bool | None, condition: SymBool | None = None) -> bool:
        """A condition that ranges do not decide, by this run's values."""
        if value is None and what in self.assumed:
            return True
        if value is None:
            raise GuardOnDataDependentSymNode(
                f"Could not guard on data-dependent expression {what}: no value of it is known"
            )
        guard = what if value else f"not ({what})"
        if guard not in self.guards:
            self.guards.append(guard)
        return value


class GuardOnDataDependentSymNode(RuntimeError):
    """A program asks for what depends on values that nobody has."""


class Symbol:
    """A dynamic integer."""

    __slots__ = ("name", "order", "range", "value")

    def __init__(self, name: str, value: int | None, range: Range, order: int) -> None:
        self.name, self.value, self.range, self.order = name, value, range, order

    @property
    def key(self) -> tuple[Any, ...]:
        """What atoms are ordered by."""
        return (0, self.order, self.name)

    def __str__(self) -> str:
        return self.name


class Composite:
    """What two numbers make that is no polynomial: `//`, `%`, `min`, `max`."""

    __slots__ = ("a", "b", "kind")

    def __init__(self, kind: str, a: SymInt, b: SymInt) -> None:
        self.kind, self.a, self.b = kind, a, b

    @property
    def key(self) -> tuple[Any, ...]:
        """What atoms are ordered by."""
        return (1, self.kind, str(self.a), str(self.b))

    def __eq__(self, other: object) -> bool:
        return type(other) is Composite and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def value(self) -> int | None:
        """What it is in this run."""
        a, b = self.a.value, self.b.value
        return None if a is None or b is None else _COMPUTE[self.kind](a, b)

    @property
    def range(self) -> Range:
        """Between which numbers it lies."""
        (low, high), (least, most) = self.a.range, self.b.range
        if self.kind == "min":
            return min(low, least), min(high, most)
        if self.kind == "max":
            return max(low, least), max(high, most)
        if self.kind == "%":
            inside = least > 0 and low >= 0
            return (0, min(most - 1, high)) if inside else (-INF, INF)
        if least <= 0 <= most:
            return -INF, INF
        ends = [_divided(x, y) for x in (low, high) for y in (least, most)]
        return min(ends), max(ends)

    def __str__(self) -> str:
        if self.kind in ("min", "max"):
            return f"{self.kind.title()}({self.a}, {self.b})"
        return f"(({self.a}) {self.kind} ({self.b}))"


_COMPUTE: dict[str, Callable[[int, int], int]] = {
    "//": lambda a, b: a // b, "%": lambda a, b: a % b, "min": min, "max": max,
}  # fmt: skip


def _divided(a: float, b: float) -> float:
    if math.isinf(a):
        return -a if b < 0 else a
    return (-1 if (a < 0) != (b < 0) and a else 0) if math.isinf(b) else a // b


def _times(a: Range, b: Range) -> Range:
    ends = [0 if x == 0 or y == 0 else x * y for x in a for y in b]
    return min(ends), max(ends)


class _Compared:
    """Python's six comparisons, by a subclass's `_compare(other, sign)`."""

    __slots__ = ()

    def _compare(self, other: Any, sign: str) -> Any:
        raise NotImplementedError

    def conjugate(self) -> Any:
        """The number: it is real."""
        return self

    def __eq__(self, other: object) -> Any:
        return self._compare(other, "==")

    def __ne__(self, other: object) -> Any:
        return self._compare(other, "!=")

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, "<")

    def __le__(self, other: Any) -> Any:
        return self._compare(other, "<=")

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, ">")

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, ">=")


def _becomes_of_node(number: Any, node: Any) -> None:
    """`SymInt(node)`: a program's own node computes, not a ShapeEnv."""
    from tritorch.arrays.node_numbers import OF_NODE

    number.__class__ = OF_NODE[type(number)]
    number.env = node


class SymInt(_Compared):
    """A dynamic integer of a tracer."""

    __slots__ = ("env", "terms")
    __module__ = "tritorch"

    def __init__(self, terms: dict[Monomial, int], env: ShapeEnv | None = None) -> None:
        if env is None:
            _becomes_of_node(self, terms)
            return
        self.terms = {monomial: n for monomial, n in terms.items() if n}
        self.env = env

    # ---- what is known of it ------------------------------------------------------------------

    @property
    def constant(self) -> int | None:
        """The number, if it is one whatever the symbols stand for."""
        if not self.terms:
            return 0
        return self.terms[()] if len(self.terms) == 1 and () in self.terms else None

    @property
    def value(self) -> int | None:
        """What it is in this run; None if that depends on a symbol without a value."""
        total = 0
        for monomial, n in self.terms.items():
            for atom, power in monomial:
                if atom.value is None:
                    return None
                n *= atom.value**power
            total += n
        return total

    @property
    def range(self) -> Range:
        """Between which numbers it lies."""
        low, high = 0.0, 0.0
        for monomial, n in self.terms.items():
            ends: Range = (n, n)
            for atom, power in monomial:
                for _ in range(power):
                    ends = _times(ends, atom.range)
            low, high = low + ends[0], high + ends[1]
        return low, high

    def __str__(self) -> str:
        parts = []
        for monomial, n in sorted(self.terms.items(), key=lambda item: _order(item[0])):
            factors = [f"{a}" if k == 1 else f"{a}**{k}" for a, k in monomial]
            if n != 1 or not factors:
                factors.insert(0, str(n))
            parts.append("*".join(factors))
        return " + ".join(parts).replace("+ -", "- ") or "0"

    __repr__ = __str__

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> Any:
        raise TypeError("a SymInt belongs to its trace: it can't be pickled")

    @property
    def node(self) -> SymNode:
        """What PyTorch's compiler reads of it."""
        return SymNode(self)

    # ---- as a Python number -------------------------------------------------------------------

    def __int__(self) -> int:
        if self.constant is not None:
            return self.constant
        found = self.value
        text, holds = f"{self} == {found}", None if found is None else True
        condition = SymBool(text, holds, self.env, (operator.eq, self, found))
        self.env.decide(text, holds, condition)
        assert found is not None
        return found

    __index__ = __int__

    def __float__(self) -> float:
        return float(int(self))

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __format__(self, spec: str) -> str:
        return str(self).__format__(spec)

    # ---- arithmetic ---------------------------------------------------------------------------

    def _with(self, other: Any) -> SymInt | None:
        """Another operand as a SymInt; None if it is no integer."""
        if type(other) is SymInt:
            return other
        if isinstance(other, (int, np.integer)):
            return SymInt({(): int(other)}, self.env)
        return None

    def _plain(self) -> Any:
        found = self.constant
        return self if found is None else found

    def __add__(self, other: Any) -> Any:
        b = self._with(other)
        if b is None:
            return self._floats(other, operator.add, "+")
        terms = dict(self.terms)
        for monomial, n in b.terms.items():
            terms[monomial] = terms.get(monomial, 0) + n
        return SymInt(terms, self.env)._plain()

    __radd__ = __add__

    def __neg__(self) -> Any:
        return SymInt({m: -n for m, n in self.terms.items()}, self.env)._plain()

    def __pos__(self) -> Any:
        return self

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, (str, tuple, list)):
            return other * int(self)
        b = self._with(other)
        if b is None:
            return self._floats(other, operator.mul, "*")
        terms: dict[Monomial, int] = {}
        for left, n in self.terms.items():
            for right, m in b.terms.items():
                both = _merged(left, right)
                terms[both] = terms.get(both, 0) + n * m
        return SymInt(terms, self.env)._plain()

    __rmul__ = __mul__

    def __pow__(self, power: Any) -> Any:
        if not isinstance(power, int) or power < 0:
            return self._floats(power, operator.pow, "**")
        return math.prod([self] * power)

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def _quotient(self, b: SymInt) -> Any:
        """self / b where that is a polynomial again; else None."""
        if len(b.terms) != 1:
            return 1 if self.terms == b.terms else None
        ((divisor, by),) = b.terms.items()
        out: dict[Monomial, int] = {}
        for monomial, n in self.terms.items():
            rest = _without(monomial, divisor)
            if rest is None or n % by:
                return None
            out[rest] = n // by
        return SymInt(out, self.env)._plain()

    def __floordiv__(self, other: Any) -> Any:
        b = self._with(other)
        if b is None:
            return self._floats(other, operator.floordiv, "//")
        if b.constant == 0:
            raise ZeroDivisionError("integer division or modulo by zero")
        found = self._quotient(b)
        if found is not None:
            return found
        whole, rest = _split(self, b)
        if whole is not None:
            open_rest = self._with(rest)
            assert open_rest is not None
            return whole + open_rest // b
        if self.constant is not None and b.constant is not None:
            return self.constant // b.constant
        return SymInt({((Composite("//", self, b), 1),): 1}, self.env)._small(self, b)

    def _small(self, a: SymInt, b: SymInt) -> Any:
        """This quotient, which is 0 where 0 <= a < b."""
        low, high = a.range
        return 0 if low >= 0 and high < b.range[0] else self

    def __rfloordiv__(self, other: Any) -> Any:
        a = self._with(other)
        return NotImplemented if a is None else a // self

    def __mod__(self, other: Any) -> Any:
        b = self._with(other)
        if b is None:
            return self._floats(other, operator.mod, "%")
        if b.constant == 0:
            raise ZeroDivisionError("integer division or modulo by zero")
        if self._quotient(b) is not None:
            return 0
        low, high = self.range
        if low >= 0 and high < b.range[0]:
            return self
        if high < 0 and -low <= b.range[0]:
            return self + b
        if self.constant is not None and b.constant is not None:
            return self.constant % b.constant
        whole, rest = _split(self, b)
        if whole is not None:
            open_rest = self._with(rest)
            assert open_rest is not None
            return open_rest % b
        return SymInt({((Composite("%", self, b), 1),): 1}, self.env)

    def __rmod__(self, other: Any) -> Any:
        a = self._with(other)
        return NotImplemented if a is None else a % self

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __truediv__(self, other: Any) -> Any:
        return self._floats(other, operator.truediv, "/")

    def __rtruediv__(self, other: Any) -> Any:
        return _combined(operator.truediv, "/", other, self)

    def __rpow__(self, base: Any) -> Any:
        return _combined(operator.pow, "**", base, self)

    def _floats(self, other: Any, compute: Callable[[Any, Any], Any], sign: str) -> Any:
        return _combined(compute, sign, self, other)

    # ---- comparisons --------------------------------------------------------------------------

    def _compare(self, other: Any, sign: str) -> Any:
        b = self._with(other)
        if b is None:
            if isinstance(other, (float, SymFloat)):
                return _compared(self, other, sign)
            return NotImplemented
        apart = self - b
        if isinstance(apart, int):
            return _HOLDS[sign](apart)
        low, high = apart._without_positive_factors().range
        found = _decided(sign, low, high)
        if found is not None:
            return found
        value = _of(_HOLDS[sign], apart.value)
        return SymBool(f"{self} {sign} {b}", value, self.env, (_SIGNS[sign], self, b._plain()))

    def _without_positive_factors(self) -> SymInt:
        """A number of the same sign: without the factors of all terms that are above 0."""
        monomials = list(self.terms)
        common = [
            (atom, min(dict(m).get(atom, 0) for m in monomials))
            for atom, _ in monomials[0]
            if atom.range[0] > 0
        ]
        divisor = tuple((atom, power) for atom, power in common if power)
        if not divisor:
            return self
        terms = {_without(m, divisor): n for m, n in self.terms.items()}
        return SymInt(terms, self.env)  # type: ignore[arg-type]


class SymNode:
    """The expression, the value in this run and the environment of a dynamic number."""

    def __init__(self, number: Any) -> None:
        self.expr = number
        self.shape_env = number.env
        self.hint = number.value

    def has_hint(self) -> bool:
        """Whether the number has a value in this run."""
        return self.hint is not None

    def require_hint(self) -> int:
        """The value in this run."""
        if self.hint is None:
            raise GuardOnDataDependentSymNode(f"{self.expr} has no value in this run")
        return self.hint


_SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip
_HOLDS: dict[str, Callable[[Any], bool]] = {
    "==": lambda x: x == 0, "!=": lambda x: x != 0, "<": lambda x: x < 0,
    "<=": lambda x: x <= 0, ">": lambda x: x > 0, ">=": lambda x: x >= 0,
}  # fmt: skip


def _decided(sign: str, low: float, high: float) -> bool | None:
    """Whether a number between two others compares so with 0; None if that depends."""
    if sign in ("==", "!="):
        return None if low <= 0 <= high else sign == "!="
    ends = _HOLDS[sign](low), _HOLDS[sign](high)
    return ends[0] if ends[0] == ends[1] else None


def _of(function: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else function(value)


def _order(monomial: Monomial) -> Any:
    return [(-sum(k for _, k in monomial)), [(atom.key, k) for atom, k in monomial]]


def _merged(a: Monomial, b: Monomial) -> Monomial:
    powers: dict[Any, int] = dict(a)
    for atom, k in b:
        powers[atom] = powers.get(atom, 0) + k
    return tuple(sorted(powers.items(), key=lambda item: item[0].key))


def _without(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    """A product without some of its factors; None if it lacks one of them."""
    powers = dict(monomial)
    for atom, k in divisor:
        if powers.get(atom, 0) < k:
            return None
        powers[atom] -= k
    return tuple((atom, k) for atom, k in powers.items() if k)


def _split(a: SymInt, b: SymInt) -> tuple[Any, Any]:
    """(q, r) with a = q b + r, q a polynomial of the terms that b divides; (None, a) if none is."""
    if len(b.terms) != 1:
        return None, a
    ((divisor, by),) = b.terms.items()
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, n in a.terms.items():
        inner = _without(monomial, divisor)
        if inner is None or n % by:
            rest[monomial] = n
        else:
            whole[inner] = n // by
    if not whole:
        return None, a
    return SymInt(whole, a.env)._plain(), SymInt(rest, a.env)._plain()


def _value_of(number: Any) -> Any:
    return number.value if isinstance(number, (SymInt, SymFloat, SymBool)) else number


def _combined(compute: Callable[[Any, Any], Any], sign: str, a: Any, b: Any) -> Any:
    """The float that two numbers make, one of which is dynamic."""
    for number in (a, b):
        if not isinstance(number, (SymInt, SymFloat, int, float, np.number)):
            return NotImplemented
    x, y = _value_of(a), _value_of(b)
    known = None if x is None or y is None else compute(x, y)
    env = (a if isinstance(a, (SymInt, SymFloat)) else b).env
    if isinstance(a, (float, SymFloat)) or isinstance(b, (float, SymFloat)):
        a, b = (as_float(number) if isinstance(number, SymInt) else number for number in (a, b))
    return SymFloat(f"{_bracketed(a)} {sign} {_bracketed(b)}", known, env, (compute, a, b))


def as_float(number: SymInt) -> SymFloat:
    """An open integer as a float."""
    return SymFloat(f"float({number})", _of(float, number.value), number.env, (float, number))


def _bracketed(number: Any) -> str:
    return f"({number})" if isinstance(number, (SymInt, SymFloat)) else f"{number}"


def _compared(a: Any, b: Any, sign: str) -> Any:
    """The condition that two numbers make, one of which is an open float."""
    apart = _combined(operator.sub, "-", a, b)
    if apart is NotImplemented:
        return apart
    value = _of(_HOLDS[sign], apart.value)
    return SymBool(f"{a} {sign} {b}", value, apart.env, (_SIGNS[sign], a, b))


class SymFloat(_Compared):
    """A dynamic float of a tracer: how it was computed, and its value in this run.

    made: a function and its operands, of one that was computed from others."""

    __slots__ = ("env", "made", "text", "value")
    __module__ = "tritorch"

    def __init__(
        self,
        text: str,
        value: float | None = None,
        env: ShapeEnv | None = None,
        made: tuple[Any, ...] | None = None,
    ) -> None:
        if env is None:
            _becomes_of_node(self, text)
            return
        self.text, self.value, self.env, self.made = text, value, env, made

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    @property
    def node(self) -> SymNode:
        """What PyTorch's compiler reads of it."""
        return SymNode(self)

    def __add__(self, other: Any) -> Any:
        return _combined(operator.add, "+", self, other)

    def __sub__(self, other: Any) -> Any:
        return _combined(operator.sub, "-", self, other)

    def __mul__(self, other: Any) -> Any:
        return _combined(operator.mul, "*", self, other)

    def __truediv__(self, other: Any) -> Any:
        return _combined(operator.truediv, "/", self, other)

    def __floordiv__(self, other: Any) -> Any:
        return _combined(operator.floordiv, "//", self, other)

    def __pow__(self, other: Any) -> Any:
        return _combined(operator.pow, "**", self, other)

    def __radd__(self, other: Any) -> Any:
        return _combined(operator.add, "+", other, self)

    def __rmul__(self, other: Any) -> Any:
        return _combined(operator.mul, "*", other, self)

    def __rsub__(self, other: Any) -> Any:
        return _combined(operator.sub, "-", other, self)

    def __rtruediv__(self, other: Any) -> Any:
        return _combined(operator.truediv, "/", other, self)

    def __rpow__(self, other: Any) -> Any:
        return _combined(operator.pow, "**", other, self)

    def __neg__(self) -> Any:
        value = _of(operator.neg, self.value)
        return SymFloat(f"-({self.text})", value, self.env, (operator.neg, self))

    def _applied(self, name: str, function: Callable[[Any], Any], traced: Any) -> Any:
        value = _of(function, self.value)
        return SymFloat(f"{name}({self.text})", value, self.env, (traced, self))

    def __float__(self) -> float:
        text, holds = f"{self.text} == {self.value}", None if self.value is None else True
        condition = SymBool(text, holds, self.env, (operator.eq, self, self.value))
        self.env.decide(text, holds, condition)
        assert self.value is not None
        return float(self.value)

    def __int__(self) -> int:
        return int(float(self))

    def __bool__(self) -> bool:
        return bool(self._compare(0, "!="))

    def _compare(self, other: Any, sign: str) -> Any:
        return _compared(self, other, sign)

    def __hash__(self) -> int:
        return hash(self.text)


class SymBool:
    """A condition that ranges do not decide; asking for it notes a guard.

    made: a function and its operands, of one that was computed from others."""

    __slots__ = ("env", "made", "text", "value")
    __module__ = "tritorch"

    def __init__(
        self,
        text: str,
        value: bool | None = None,
        env: ShapeEnv | None = None,
        made: tuple[Any, ...] | None = None,
    ) -> None:
        if env is None:
            _becomes_of_node(self, text)
            return
        self.text, self.value, self.env, self.made = text, value, env, made

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    @property
    def node(self) -> SymNode:
        """What PyTorch's compiler reads of it."""
        return SymNode(self)

    def __bool__(self) -> bool:
        return self.env.decide(self.text, self.value, self)

    def __and__(self, other: Any) -> Any:
        known = other.value if isinstance(other, SymBool) else bool(other)
        both = None if self.value is None or known is None else self.value and known
        return SymBool(f"({self}) & ({other})", both, self.env, (operator.and_, self, other))

    def __or__(self, other: Any) -> Any:
        known = other.value if isinstance(other, SymBool) else bool(other)
        both = None if self.value is None or known is None else self.value or known
        return SymBool(f"({self}) | ({other})", both, self.env, (operator.or_, self, other))

    __rand__, __ror__ = __and__, __or__

    def __invert__(self) -> Any:
        value = _of(operator.not_, self.value)
        return SymBool(f"not ({self})", value, self.env, (operator.not_, self))


def symbol_of(number: Any) -> Symbol | None:
    """The symbol that a number is; None for all else."""
    if not isinstance(number, SymInt) or len(number.terms) != 1:
        return None
    ((monomial, n),) = number.terms.items()
    if n != 1 or len(monomial) != 1 or monomial[0][1] != 1:
        return None
    atom = monomial[0][0]
    return atom if isinstance(atom, Symbol) else None


def expect(condition: Any) -> bool:
    """Whether a condition holds; where nobody knows, it does from now on."""
    if isinstance(condition, SymBool) and condition.value is None:
        condition.env.assume(condition)
        return True
    return bool(condition)


def known(condition: Any) -> bool:
    """Whether a condition holds; not where nobody knows."""
    if isinstance(condition, SymBool) and condition.value is None:
        return condition.text in condition.env.assumed
    return bool(condition)


def as_size(value: Any) -> Any:
    """An index as a size: dynamic if it is."""
    return value if type(value) in (SymInt, _C.DynamicNumber) else value.__index__()
