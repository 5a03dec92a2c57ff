"""Open numbers and conditions as sympy writes them: `Add(Symbol('s0', ...), Integer(1))`."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

from tritorch.arrays import sym_functions
from tritorch.arrays.symbolic import Composite, Symbol, SymBool, SymFloat, SymInt, symbol_of

_COMPOSITES = {"//": "FloorDiv", "%": "PythonMod", "min": "Min", "max": "Max"}
_RELATIONS: dict[Any, str] = {
    operator.eq: "Equality", operator.ne: "Unequality", operator.lt: "StrictLessThan",
    operator.le: "LessThan", operator.gt: "StrictGreaterThan", operator.ge: "GreaterThan",
    operator.and_: "And", operator.or_: "Or", operator.not_: "Not",
}  # fmt: skip
_FLOATS: dict[Any, str] = {
    float: "ToFloat", operator.add: "Add", operator.mul: "Mul", operator.truediv: "FloatTrueDiv",
    operator.pow: "FloatPow", operator.floordiv: "FloorDiv",
}  # fmt: skip


def written(number: Any) -> str:
    """A number or a condition as text."""
    if isinstance(number, bool):
        return "true" if number else "false"
    if isinstance(number, int):
        return f"Integer({number})"
    if isinstance(number, float):
        return f"Float('{number!r}', precision=53)"
    if isinstance(number, SymInt):
        return _sum([_product(monomial, n) for monomial, n in sorted(
            number.terms.items(), key=lambda term: (term[0] != (), len(term[0]))
        )])  # fmt: skip
    return _computed(number)


def _symbol(symbol: Symbol) -> str:
    assumed = "integer=True" if symbol.value is None else "positive=True, integer=True"
    return f"Symbol('{symbol.name}', {assumed})"


def _sum(terms: list[str]) -> str:
    return terms[0] if len(terms) == 1 else f"Add({', '.join(terms)})"


def _product(monomial: Any, n: int) -> str:
    factors = [f"Integer({n})"] if n != 1 or not monomial else []
    for atom, power in monomial:
        text = _symbol(atom) if isinstance(atom, Symbol) else _composite(atom)
        factors.append(text if power == 1 else f"Pow({text}, Integer({power}))")
    return factors[0] if len(factors) == 1 else f"Mul({', '.join(factors)})"


def _composite(atom: Composite) -> str:
    return f"{_COMPOSITES[atom.kind]}({written(atom.a._plain())}, {written(atom.b._plain())})"


def _computed(number: Any) -> str:
    made = number.made
    if made is None:
        name = number.text.replace(" ", "")
        return f"Symbol('{name if name.isidentifier() else 'zuf0'}')"
    function, *operands = made
    given = [written(x) for x in operands]
    if isinstance(number, SymBool):
        return f"{_RELATIONS[function]}({', '.join(given)})"
    if function is operator.sub:
        return f"Add({given[0]}, Mul(Integer(-1), {given[1]}))"
    if function is operator.neg:
        return f"Mul(Integer(-1), {given[0]})"
    if isinstance(number, SymFloat) and function is operator.truediv:
        if all(isinstance(x, (int, SymInt)) for x in operands):
            return f"IntTrueDiv({', '.join(given)})"
    return f"{_FLOATS.get(function, getattr(function, '__name__', 'f'))}({', '.join(given)})"


# ---- reading -------------------------------------------------------------------------------------


def _folded(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def fold(first: Any, *rest: Any) -> Any:
        for each in rest:
            first = function(first, each)
        return first

    return fold


def _modular(x: Any, divisor: Any, modulus: Any) -> Any:
    return x // divisor % modulus


_READ: dict[str, Callable[..., Any]] = {
    "Add": _folded(operator.add), "Mul": _folded(operator.mul),
    "Pow": lambda x, n: x**n, "PowByNatural": lambda x, n: x**n, "FloatPow": operator.pow,
    "FloorDiv": operator.floordiv, "CleanDiv": operator.floordiv, "Mod": operator.mod,
    "PythonMod": operator.mod, "ModularIndexing": _modular, "Max": _folded(sym_functions.sym_max),
    "Min": _folded(sym_functions.sym_min), "FloatTrueDiv": operator.truediv,
    "IntTrueDiv": operator.truediv, "ToFloat": sym_functions.sym_float,
    "Equality": operator.eq, "Unequality": operator.ne, "StrictLessThan": operator.lt,
    "LessThan": operator.le, "StrictGreaterThan": operator.gt, "GreaterThan": operator.ge,
    "Eq": operator.eq, "Ne": operator.ne, "Lt": operator.lt, "Le": operator.le,
    "Gt": operator.gt, "Ge": operator.ge, "And": _folded(operator.and_),
    "Or": _folded(operator.or_), "Not": sym_functions.sym_not,
    "TruncToInt": sym_functions.sym_int, "FloorToInt": lambda x: x // 1,
    "Integer": int, "Float": lambda text, precision=53: float(text), "Rational": operator.truediv,
}  # fmt: skip
_CONSTANTS = {"true": True, "false": False, "oo": math.inf, "int_oo": math.inf}


class Reader:
    """Reads expressions; symbols are those of one program, made when they are first met."""

    def __init__(self, env: Any, ranges: dict[str, tuple[float, float]]) -> None:
        self.env, self.ranges = env, ranges
        self.symbols: dict[str, SymInt] = {}

    def symbol(self, name: str, hint: int | None = None) -> SymInt:
        """The number of a symbol."""
        if name not in self.symbols:
            low, high = self.ranges.get(name, (0 if hint is not None else -math.inf, math.inf))
            if hint is None or name[0] in "u":
                made = self.env.symbol(name, None, low, high)
            else:
                made = self.env.symbol(name, hint, min(max(low, 2), hint), max(high, hint))
            self.symbols[name] = made
        return self.symbols[name]

    def read(self, text: str, hint: Any = None) -> Any:
        """The number or the condition of a text."""
        tree = ast.parse(text, mode="eval").body
        return self._read(tree, hint if self._is_symbol(tree) else None)

    def _is_symbol(self, tree: ast.AST) -> bool:
        return isinstance(tree, ast.Name) or (
            isinstance(tree, ast.Call) and getattr(tree.func, "id", "") == "Symbol"
        )

    def _read(self, tree: Any, hint: Any = None) -> Any:
        if isinstance(tree, ast.Constant):
            return tree.value
        if isinstance(tree, ast.UnaryOp):
            value = self._read(tree.operand)
            return -value if isinstance(tree.op, ast.USub) else value
        if isinstance(tree, ast.Name):
            return _CONSTANTS[tree.id] if tree.id in _CONSTANTS else self.symbol(tree.id, hint)
        if isinstance(tree, ast.BinOp):
            signs: dict[Any, Any] = {
                ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
                ast.Pow: operator.pow, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
                ast.Div: operator.truediv,
            }  # fmt: skip
            return signs[type(tree.op)](self._read(tree.left), self._read(tree.right))
        name = getattr(getattr(tree, "func", None), "id", "")
        if name == "Symbol":
            return self.symbol(tree.args[0].value, hint)
        if name not in _READ:
            raise ValueError(f"an expression of sizes has {name or type(tree).__name__}: not read")
        named = {k.arg: self._read(k.value) for k in tree.keywords if k.arg}
        return _READ[name](*map(self._read, tree.args), **named)


def name_of(number: Any) -> str:
    """What ranges know a number by."""
    symbol = symbol_of(number)
    return symbol.name if symbol is not None else str(number)
