"""The symbols of an export: what each size is, and what a run has found out about them.

A program is run with its dynamic sizes.  What the run decided by the sizes'
values of that run are conditions (`Decision`).  Sizes that the caller left to us (`Dim.AUTO`)
follow them: they become numbers, or other sizes, and the program runs again.  For those that the
caller named, or said to be open, such a condition is a violation, which is told with what would
mend it.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from typing import Any

from tritorch.arrays.symbolic import Composite, Symbol, SymBool, SymInt, symbol_of
from tritorch.compat.torch_private._dynamo.exc import UserError, UserErrorType
from tritorch.export.dynamic_shapes import Dim, _DerivedDim, _DimHint, _DimHintType
from tritorch.fx.experimental.symbolic_shapes import ShapeEnv

OPPOSITE: dict[Any, Any] = {
    operator.eq: operator.ne, operator.ne: operator.eq, operator.lt: operator.ge,
    operator.ge: operator.lt, operator.gt: operator.le, operator.le: operator.gt,
}  # fmt: skip
MIRRORED: dict[Any, Any] = {
    operator.lt: operator.gt, operator.gt: operator.lt, operator.le: operator.ge,
    operator.ge: operator.le, operator.eq: operator.eq, operator.ne: operator.ne,
}  # fmt: skip
SIGN: dict[Any, str] = {
    operator.eq: "==", operator.ne: "!=", operator.lt: "<", operator.le: "<=",
    operator.gt: ">", operator.ge: ">=",
}  # fmt: skip


@dataclasses.dataclass
class Decision:
    """A condition that holds in the run: `compare(number, 0)`, or a text of another form."""

    text: str
    compare: Any = None
    number: Any = None
    condition: Any = None

    def symbols(self) -> set[Symbol]:
        """The symbols that it is about."""
        return symbols_of(self.number if self.compare is not None else self.condition)


def symbols_of(value: Any) -> set[Symbol]:
    """The symbols of a number or a condition."""
    if isinstance(value, SymInt):
        atoms = [atom for monomial in value.terms for atom, _ in monomial]
        return {s for atom in atoms for s in symbols_of(atom)}
    if isinstance(value, Symbol):
        return {value}
    if isinstance(value, Composite):
        return symbols_of(value.a) | symbols_of(value.b)
    made = getattr(value, "made", None)
    return {s for x in made[1:] for s in symbols_of(x)} if made else set()


def decision_of(what: str, value: bool, condition: SymBool | None) -> Decision:
    """A condition that was decided, in the form in which it holds."""
    made = condition.made if condition is not None else None
    if made is None or made[0] not in OPPOSITE:
        return Decision(what if value else f"not ({what})", condition=condition)
    compare, a, b = made
    compare = compare if value else OPPOSITE[compare]
    if not all(isinstance(x, (int, SymInt)) for x in (a, b)):
        return Decision(what if value else f"not ({what})", condition=condition)
    return Decision(f"{a} {SIGN[compare]} {b}", compare, a - b)


class ExportEnv(ShapeEnv):
    """The symbols of one run; what is decided by values is kept."""

    def __init__(self) -> None:
        super().__init__(duck_shape=False)
        self.decisions: dict[str, Decision] = {}
        self.asserting: Any = None  # what makes a node of a condition that is taken for true

    def decide(self, what: str, value: bool | None, condition: SymBool | None = None) -> bool:
        """A condition that ranges do not decide, by this run's values."""
        found = super().decide(what, value, condition)
        if value is not None:
            decision = decision_of(what, value, condition)
            self.decisions.setdefault(decision.text, decision)
        return found

    def assume(self, condition: SymBool) -> None:
        """Takes a condition on numbers that nobody knows for true, and has each run look."""
        super().assume(condition)
        if self.asserting is not None:
            self.asserting(condition)


class Range:
    """Between which numbers a symbol lies, as PyTorch prints it."""

    def __init__(self, lower: float, upper: float) -> None:
        self.lower, self.upper = lower, upper

    def __repr__(self) -> str:
        return f"VR[{_end(self.lower)}, {_end(self.upper)}]"

    def __eq__(self, other: object) -> bool:
        return (self.lower, self.upper) == (
            getattr(other, "lower", None), getattr(other, "upper", None),
        )  # fmt: skip

    def __hash__(self) -> int:
        return hash((self.lower, self.upper))


def _end(value: float) -> str:
    return ("-" if value < 0 else "") + "int_oo" if math.isinf(value) else str(int(value))


# ---- what is said of the sizes of one export -----------------------------------------------------


@dataclasses.dataclass
class Root:
    """A size that others follow: its name, range, and whether conditions may narrow it."""

    name: str
    low: float
    high: float
    free: bool  # AUTO: it may become a number, or another size
    named: bool
    source: str
    hint: int = 0


@dataclasses.dataclass
class Linear:
    """factor * root + addend, of a root by its key."""

    key: str
    factor: int = 1
    addend: int = 0


class Plan:
    """What each size of each input is: a number, or follows a root."""

    def __init__(self, said: list[Any], leaves: list[Any], sources: list[str]) -> None:
        self.roots: dict[str, Root] = {}
        self.sizes: dict[tuple[int, int], int | Linear] = {}
        for place, (each, leaf) in enumerate(zip(said, leaves, strict=True)):
            if isinstance(each, tuple):
                for dim, what in enumerate(each):
                    source = f"{sources[place]}.size()[{dim}]"
                    self.sizes[place, dim] = self._planned(what, leaf.shape[dim], source)
            elif each is not None and type(leaf) is int:
                self.sizes[place, -1] = self._planned(each, leaf, sources[place])

    def _planned(self, what: Any, size: int, source: str) -> int | Linear:
        if isinstance(what, int):
            if what != size:
                raise UserError(
                    UserErrorType.CONSTRAINT_VIOLATION,
                    f"Static shape constraint of {what} does not match input size of {size}, "
                    f"for {source}",
                )
            return size
        if isinstance(what, _DimHint):
            return self._hinted(what, size, source)
        if not isinstance(what, Dim):
            return size
        root, factor, addend = what, 1, 0
        if isinstance(what, _DerivedDim):
            root, factor, addend = what.root, what.factor, what.addend
        value = (size - addend) // factor
        if value * factor + addend != size or not root.min <= value <= root.max:
            raise UserError(
                UserErrorType.CONSTRAINT_VIOLATION,
                f"Constraints violated ({what.__name__})! For more information, run with "
                f'TORCH_LOGS="+dynamic".\n  - Expected {source} = {size} to be of the form '
                f"{what.__name__}, where {root!r}",
            )
        name = root.__name__
        made = Root(name, root.min, root.max, False, True, source, value)
        known = self.roots.setdefault(name, made)
        if known.hint != value:
            raise UserError(
                UserErrorType.CONSTRAINT_VIOLATION,
                f"Constraints violated ({name})! For more information, run with "
                f'TORCH_LOGS="+dynamic".\n  - The values of {name} = {known.source} and '
                f"{name} = {source} must always be equal, but they are {known.hint} and {value}.",
            )
        return Linear(name, factor, addend)

    def _hinted(self, hint: _DimHint, size: int, source: str) -> int | Linear:
        free = hint.type is _DimHintType.AUTO
        if hint.type is _DimHintType.STATIC or (free and size < 2):
            return size
        if size < 2:
            raise UserError(
                UserErrorType.CONSTRAINT_VIOLATION,
                f"Constraints violated ({source})! For more information, run with "
                f'TORCH_LOGS="+dynamic".\n  - Received user-specified dim hint Dim.DYNAMIC, but '
                f"{source} is {size}, and export specialises sizes of 0 and 1",
            )
        low = 2 if hint.min is None else hint.min
        high = math.inf if hint.max is None else hint.max
        key = f"#{len(self.roots)}"
        self.roots[key] = Root(source, low, high, free, False, source, size)
        return Linear(key)

    def symbols(self, env: ExportEnv) -> dict[str, SymInt]:
        """A symbol for each root that a size still follows."""
        used = {x.key for x in self.sizes.values() if isinstance(x, Linear)}
        found: dict[str, SymInt] = {}
        for key, root in self.roots.items():
            if key in used:
                low = min(max(root.low, 2), root.hint)
                found[key] = env.symbol(f"s{len(found)}", root.hint, low, root.high)
        return found

    def size(self, place: int, dim: int, symbols: dict[str, SymInt], size: int) -> Any:
        """A size as a dynamic number, or a static one."""
        what = self.sizes.get((place, dim), size)
        if not isinstance(what, Linear):
            return what
        return symbols[what.key] * what.factor + what.addend

    # ---- what a run says of it ----------------------------------------------------------------

    def follow(self, decisions: list[Decision], symbols: dict[str, SymInt]) -> bool:
        """Takes over what a run decided about sizes that may; whether sizes have changed."""
        keys = {symbol_of(number): key for key, number in symbols.items()}
        changed = False
        for each in decisions:
            of = {keys[s] for s in each.symbols() if s in keys}
            if len(of) != len(each.symbols()) or each.compare is None:
                continue
            terms = linear_terms(each.number)
            if terms is None:
                continue
            if each.compare is operator.eq:
                changed |= self._equal({keys[s]: n for s, n in terms[0].items()}, terms[1])
            elif len(terms[0]) == 1:
                ((symbol, factor),) = terms[0].items()
                self._bound(keys[symbol], each.compare, factor, terms[1])
        return changed

    def _equal(self, terms: dict[str, int], constant: int) -> bool:
        """A sum of roots is 0: one that is free follows."""
        for key, factor in terms.items():
            others = [(k, n) for k, n in terms.items() if k != key]
            if not self.roots[key].free or len(others) > 1:
                continue
            if not others:
                self._replace(key, -constant // factor)
                return True
            ((other, by),) = others
            if factor in (1, -1) and -by * factor > 0:
                self._replace(key, Linear(other, -by * factor, -constant * factor))
                return True
        return False

    def _replace(self, key: str, by: int | Linear) -> None:
        for place, what in self.sizes.items():
            if isinstance(what, Linear) and what.key == key:
                if isinstance(by, int):
                    self.sizes[place] = what.factor * by + what.addend
                else:
                    self.sizes[place] = Linear(
                        by.key, what.factor * by.factor, what.factor * by.addend + what.addend
                    )

    def _bound(self, key: str, compare: Any, factor: int, constant: int) -> None:
        """`compare(factor * root + constant, 0)`: narrows the range of one that has no name."""
        root = self.roots[key]
        low, high = bounds(compare, factor, constant)
        if not root.named:
            root.low, root.high = max(root.low, low), min(root.high, high)

    def range_constraints(self, symbols: dict[str, SymInt]) -> dict[Any, Range]:
        """The range of each symbol, and of each size that is computed of one."""
        found: dict[Any, Range] = {}
        for what in self.sizes.values():
            if isinstance(what, Linear) and (what.factor, what.addend) != (1, 0):
                root = self.roots[what.key]
                number = symbols[what.key] * what.factor + what.addend
                low = max(root.low, 0) * what.factor + what.addend
                found[number] = Range(low, root.high * what.factor + what.addend)
        for key, number in symbols.items():
            found[number] = Range(self.roots[key].low, self.roots[key].high)
        return found


def linear_terms(number: Any) -> tuple[dict[Symbol, int], int] | None:
    """A sum of multiples of symbols and a number; None of what is none."""
    found: dict[Symbol, int] = {}
    for monomial, n in number.terms.items():
        if not monomial:
            continue
        if len(monomial) > 1 or monomial[0][1] != 1 or not isinstance(monomial[0][0], Symbol):
            return None
        found[monomial[0][0]] = n
    return found, number.terms.get((), 0)


def bounds(compare: Any, factor: int, constant: int) -> tuple[float, float]:
    """Between which numbers x lies if `compare(factor * x + constant, 0)`."""
    if factor < 0:
        compare, factor, constant = MIRRORED[compare], -factor, -constant
    least = -(constant // factor)  # the least x of which the sum is not below 0
    most = -constant // factor
    if compare is operator.ge:
        return least, math.inf
    if compare is operator.gt:
        return most + 1, math.inf
    if compare is operator.le:
        return -math.inf, most
    if compare is operator.lt:
        return -math.inf, least - 1
    return -math.inf, math.inf
