"""Arithmetic of TorchScript: ints of 64 bits that wrap around, floats as C computes them."""

from __future__ import annotations

import cmath
import math
import operator
from collections.abc import Callable
from typing import Any

from tritorch.schema import types
from tritorch.schema.signature import FunctionSchema

Function = Callable[..., Any]
_HALF = 1 << 63


def to_int64(value: int) -> int:
    """The int that 64 bits make of it."""
    return (value + _HALF) % (2 * _HALF) - _HALF


def _wrapping(compute: Function) -> Function:
    """The same for ints, whose results have 64 bits."""

    def call(*args: Any) -> Any:
        result = compute(*args)
        if type(result) is int and not -_HALF <= result < _HALF:
            return to_int64(result)
        return result

    return call


def _arithmetic(compute: Function) -> Callable[[FunctionSchema], Function]:
    """Wraps around where the result may be an int."""
    wrapped = _wrapping(compute)

    def choose(schema: FunctionSchema) -> Function:
        kind = schema._returns[0].type
        return wrapped if isinstance(kind, (types.IntType, types.NumberType)) else compute

    return choose


def divided(a: Any, b: Any) -> Any:
    """a / b; by zero infinity or NaN."""
    if b == 0 and not (isinstance(a, complex) or isinstance(b, complex)):
        if a == 0 or a != a:
            return math.nan
        return math.copysign(math.inf, a) * math.copysign(1.0, b)
    if isinstance(a, complex) or isinstance(b, complex):
        return a / b if b != 0 else complex(math.nan, math.nan)
    return a / b


def floor_divided(a: Any, b: Any) -> Any:
    """a // b; ints by zero are an error."""
    if b == 0:
        if type(a) is int and type(b) is int:
            raise RuntimeError("division by 0")
        return divided(a, b)
    return math.floor(a / b) + 0.0 if isinstance(a, float) or isinstance(b, float) else a // b


def remainder(a: Any, b: Any) -> Any:
    """a % b with the sign of b; ints by zero are an error."""
    if b == 0:
        if type(a) is int and type(b) is int:
            raise RuntimeError("division by 0")
        return math.nan
    return a % b


def _divmod(a: Any, b: Any) -> Any:
    if b == 0:
        is_int = type(a) is int and type(b) is int
        text = "integer division or modulo by zero" if is_int else "float divmod()"
        raise RuntimeError(f"ZeroDivisionError: {text}")
    return divmod(a, b)


def round_to_zero_divided(a: int, b: int) -> int:
    """a / b without its fraction."""
    if b == 0:
        raise RuntimeError("division by 0")
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _power(a: Any, b: Any) -> Any:
    """The power of floats."""
    if isinstance(a, complex) or isinstance(b, complex):
        return a**b
    if a == 0 and b < 0:
        raise RuntimeError("0.0 cannot be raised to a negative power")
    return _real(math.pow)(a, b)


def _int_power(a: int, b: int) -> int:
    """The power of ints, of 64 bits; a fraction is cut off."""
    if b < 0:
        return int(_power(a, b))
    return to_int64(pow(a, b, 2 * _HALF))


def _shifted_left(a: int, b: int) -> int:
    return to_int64(a << (b & 63))


def _shifted_right(a: int, b: int) -> int:
    return a >> (b & 63)


# ---- mathematics ---------------------------------------------------------------------------------


def _real(function: Function) -> Function:
    """A function of math's; NaN outside of its domain, infinity for what is too large."""

    def call(*args: Any) -> Any:
        try:
            return function(*args)
        except ValueError:
            return _outside(function, *args)
        except OverflowError:
            return math.inf

    return call


_AT_POLES = {
    math.log: -math.inf, math.log10: -math.inf, math.log2: -math.inf, math.lgamma: math.inf,
    math.gamma: math.inf, math.log1p: -math.inf,
}  # fmt: skip


def _outside(function: Function, *args: Any) -> float:
    pole = -1 if function is math.log1p else 0
    if len(args) == 1 and function in _AT_POLES and args[0] == pole:
        return _AT_POLES[function]
    if function is math.lgamma:
        return math.inf
    if function is math.atanh and abs(args[0]) == 1:
        return math.copysign(math.inf, args[0])
    return math.nan


def _either(name: str) -> Function:
    """A function of real and complex numbers."""
    real, complex_one = _real(getattr(math, name)), getattr(cmath, name)

    def call(value: Any) -> Any:
        return complex_one(value) if isinstance(value, complex) else real(value)

    return call


def _logarithm(value: Any, *base: Any) -> Any:
    if base:
        return divided(_LOG(value), _LOG(base[0]))
    return _LOG(value)


_LOG = _either("log")


def _rounded(value: Any) -> float:
    """The nearest whole number, of two the even one; a float."""
    return float(round(value)) if math.isfinite(value) else value


def _to_whole(function: Function) -> Function:
    def call(value: Any) -> int:
        if isinstance(value, float) and not math.isfinite(value):
            return -_HALF  # as C++ converts what no int is
        return to_int64(function(value))

    return call


def _absolute(value: Any) -> Any:
    return to_int64(abs(value)) if type(value) is int else abs(value)


def _angle(value: Any) -> float:
    return cmath.phase(value) if isinstance(value, complex) or value == value else value


def _polar(radius: float, angle: float) -> complex:
    return complex(radius * math.cos(angle), radius * math.sin(angle))


def _factorial(value: int) -> int:
    if value < 0:
        raise RuntimeError("factorial() not defined for negative values")
    return to_int64(math.factorial(min(value, 66)))  # of more, 64 bits are zeros


def _remainder(a: Any, b: Any) -> float:
    return _real(math.remainder)(a, b)


def _integer_of(text: Any) -> int:
    """int(value)."""
    if not isinstance(text, str):
        if isinstance(text, float) and not -(2.0**63) <= text < 2.0**63:
            return -_HALF
        return int(text)
    digits = text.lstrip(" \t\n\v\f\r")
    length = len(digits) - len(digits.lstrip("+-"))
    end = length
    while end < len(digits) and digits[end] in "0123456789":
        end += 1
    if length > 1 or end == length or not -_HALF <= int(digits[:end]) < _HALF:
        raise RuntimeError("stoll")
    if end != len(digits):
        raise RuntimeError(f"invalid literal for int() with base 10: '{text}'")
    return int(digits)


def _float_of(text: Any) -> float:
    """float(value)."""
    if not isinstance(text, str):
        return float(text)
    stripped = text.lstrip(" \t\n\v\f\r")
    if stripped and stripped == stripped.rstrip() and "_" not in stripped:
        try:
            return float(stripped)
        except ValueError:
            pass
    if not stripped[:1].isdigit() and stripped[:2].lstrip("+-.")[:1] not in tuple("0123456789"):
        raise RuntimeError("stod")
    raise RuntimeError(f"could not convert string to float: '{text}'")


def _length_of_range(low: int, high: int, step: int) -> int:
    if step == 0:
        raise RuntimeError("range() arg 3 must not be zero")
    return len(range(low, high, step))


def _index_of_range(index: int, start: int, step: int) -> int:
    return start + index * step


def _negated(value: bool) -> bool:
    return not value


_UNARY = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "log10", "sin", "sinh",
    "sqrt", "tan", "tanh",
)  # fmt: skip
_REAL: dict[str, Function] = {
    "atan2": math.atan2, "copysign": math.copysign, "degrees": math.degrees, "erf": math.erf,
    "erfc": math.erfc, "expm1": math.expm1, "fabs": math.fabs, "fmod": math.fmod,
    "gamma": math.gamma, "ldexp": math.ldexp, "lgamma": math.lgamma, "log1p": math.log1p,
    "radians": math.radians,
}  # fmt: skip

PLAIN: dict[str, Function] = {
    **{f"aten::{name}": _either(name) for name in _UNARY},
    **{f"aten::{name}": _real(function) for name, function in _REAL.items()},
    "aten::log": _logarithm,
    "aten::isnan": lambda x: cmath.isnan(x),
    "aten::isinf": lambda x: cmath.isinf(x),
    "aten::isfinite": lambda x: cmath.isfinite(x),
    "aten::div": divided,
    "aten::floordiv": floor_divided,
    "aten::remainder": remainder,
    "aten::divmod": _divmod,
    "aten::__round_to_zero_floordiv": round_to_zero_divided,
    "aten::pow": _power,
    "aten::__lshift__": _shifted_left,
    "aten::__rshift__": _shifted_right,
    "aten::__and__": operator.and_,
    "aten::__or__": operator.or_,
    "aten::__xor__": operator.xor,
    "aten::__not__": _negated,
    "aten::bitwise_not": operator.invert,
    "aten::lt": operator.lt,
    "aten::le": operator.le,
    "aten::gt": operator.gt,
    "aten::ge": operator.ge,
    "aten::eq": operator.eq,
    "aten::ne": operator.ne,
    "aten::round": _rounded,
    "aten::floor": _to_whole(math.floor),
    "aten::ceil": _to_whole(math.ceil),
    "aten::angle": _angle,
    "aten::polar": _polar,
    "aten::gcd": math.gcd,
    "aten::factorial": _factorial,
    "aten::frexp": math.frexp,
    "aten::modf": math.modf,
    "aten::mathremainder": _remainder,
    "aten::Int": _integer_of,
    "aten::Float": _float_of,
    "aten::Bool": bool,
    "aten::Complex": complex,
    "aten::__range_length": _length_of_range,
    "aten::__derive_index": _index_of_range,
    "prim::abs": _absolute,
}
EXACT: dict[str, Function] = {"aten::pow.int_to_int": _int_power}
CHOSEN = {
    "aten::add": _arithmetic(operator.add),
    "aten::sub": _arithmetic(operator.sub),
    "aten::mul": _arithmetic(operator.mul),
    "aten::neg": _arithmetic(operator.neg),
}
