"""CUDA's libdevice, for kernels on the simulated device: what its symbols compute.

Functions of float32 are computed in float64 and rounded once, so they are at least as exact as on a
GPU.  The table is declared by plain names; suffixes (f for float32, _rd for a rounding mode) are
read off the symbols.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from tritorch.triton.device_functions import fma, mulhiui, rsqrt, unsigned

Array = Any
Function = Callable[..., Array]
_HALF_PI_SQRT = math.sqrt(0.5)


def _vector(function: Callable[..., float]) -> Function:
    """Python's function of numbers for arrays; what it refuses is NaN."""

    def one(*args: float) -> float:
        try:
            return function(*args)
        except (ValueError, OverflowError):
            return math.nan

    return np.vectorize(one, otypes=[np.float64])


def _special(name: str) -> Function:
    def function(x: Array) -> Array:
        from tritorch.host.pointwise import special

        return getattr(special, name)(np.atleast_1d(x)).reshape(np.shape(x))

    return function


def _bessel(name: str) -> Function:
    def function(x: Array) -> Array:
        from tritorch.host.pointwise import bessel

        return getattr(bessel, name)(np.atleast_1d(x)).reshape(np.shape(x))

    return function


def _gamma(x: float) -> float:
    if x == 0:
        return math.copysign(math.inf, x)
    if x > 171.7:
        return math.inf
    return math.gamma(x)


def _bessel_of_order(name: str) -> Function:
    """By recurrence from orders 0 and 1, downwards where that is unstable (Miller's algorithm)."""

    def one(n: int, x: float) -> float:
        zero, first = (float(_bessel(f"bessel_{name}{i}")(np.float64(x))) for i in (0, 1))
        if n == 0 or n == 1:
            return first if n else zero
        if name == "y" or n < abs(x):
            for k in range(1, n):
                zero, first = first, 2 * k / x * first - zero
            return first
        if x == 0:
            return 0.0
        start = 2 * ((n + int(math.sqrt(60 * n)) + int(abs(x))) // 2)
        above, here, wanted, total = 0.0, 1e-300, 0.0, 0.0
        for k in range(start, 0, -1):
            above, here = here, 2 * k / x * here - above
            if abs(here) > 1e200:
                above, here, wanted, total = (v * 1e-200 for v in (above, here, wanted, total))
            if k - 1 == n:
                wanted = here
            if (k - 1) % 2 == 0:
                total += here * (1 if k == 1 else 2)
        return wanted / total

    return np.vectorize(lambda n, x: one(int(n), float(x)), otypes=[np.float64])


def _away(x: Array) -> Array:
    """Rounded to integers, halves away from zero."""
    whole = np.trunc(x)
    return np.copysign(np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1, x), whole), x)


def _pi_times(function: Function) -> Function:
    """Exact at halves."""

    def of(x: Array) -> Array:
        x = np.fmod(x, 2.0)
        made = function(np.pi * x)
        return np.where(x * 2 == np.rint(x * 2), np.rint(made), made)

    return of


def _remainder(x: Array, y: Array) -> Array:
    return _vector(math.remainder)(x, y)


# Functions of floating point numbers, computed in float64.
_FLOATS: dict[str, Function] = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh,
    "atan": np.arctan, "atan2": np.arctan2, "atanh": np.arctanh, "cbrt": np.cbrt,
    "ceil": np.ceil, "copysign": np.copysign, "cos": np.cos, "cosh": np.cosh,
    "cospi": _pi_times(np.cos), "cyl_bessel_i0": _special("i0"), "cyl_bessel_i1": _special("i1"),
    "erf": _special("erf"), "erfc": _special("erfc"), "erfcx": _special("erfcx"),
    "erfinv": _special("erfinv"),
    "erfcinv": lambda x: -_special("ndtri")(x / 2) * _HALF_PI_SQRT,
    "exp": np.exp, "exp10": lambda x: np.power(10.0, x), "exp2": np.exp2, "expm1": np.expm1,
    "fabs": np.abs, "fdim": lambda x, y: np.where(x <= y, 0.0, x - y),
    "fdividef": np.divide, "floor": np.floor, "fmax": np.fmax, "fmin": np.fmin, "fmod": np.fmod,
    "hypot": np.hypot, "j0": _bessel("bessel_j0"), "j1": _bessel("bessel_j1"),
    "jn": _bessel_of_order("j"), "ldexp": lambda x, n: np.ldexp(x, n.astype(np.int32)),
    "lgamma": _special("lgamma"), "log": np.log, "log10": np.log10, "log1p": np.log1p,
    "log2": np.log2, "logb": lambda x: np.where(np.isfinite(x), np.frexp(x)[1] - 1.0, np.abs(x)),
    "nearbyint": np.rint, "norm3d": lambda a, b, c: np.hypot(np.hypot(a, b), c),
    "norm4d": lambda a, b, c, d: np.hypot(np.hypot(a, b), np.hypot(c, d)),
    "normcdf": lambda x: 0.5 * _special("erfc")(-x * _HALF_PI_SQRT),
    "normcdfinv": _special("ndtri"), "pow": np.power,
    "powi": lambda x, n: np.power(x, n.astype(float)),
    "rcbrt": lambda x: 1 / np.cbrt(x), "remainder": _remainder,
    "rhypot": lambda x, y: 1 / np.hypot(x, y), "rint": np.rint,
    "rnorm3d": lambda a, b, c: 1 / np.hypot(np.hypot(a, b), c),
    "rnorm4d": lambda a, b, c, d: 1 / np.hypot(np.hypot(a, b), np.hypot(c, d)),
    "round": _away, "rsqrt": rsqrt, "saturate": lambda x: np.fmin(np.fmax(x, 0.0), 1.0),
    "scalbn": lambda x, n: np.ldexp(x, n.astype(np.int32)), "sin": np.sin, "sinh": np.sinh,
    "sinpi": _pi_times(np.sin), "sqrt": np.sqrt, "tan": np.tan, "tanh": np.tanh,
    "tgamma": _vector(_gamma), "trunc": np.trunc, "y0": _bessel("bessel_y0"),
    "y1": _bessel("bessel_y1"), "yn": _bessel_of_order("y"),
}  # fmt: skip


def _wide(x: Array) -> Array:
    return x.astype(np.float64) if x.dtype.kind == "f" else x


def _in_double(function: Function) -> Function:
    return lambda *args: np.asarray(function(*(_wide(x) for x in args)))


def _highest_bit(x: Array) -> Array:
    """The number of bits up to the highest that is set."""
    values = unsigned(x)
    return np.vectorize(lambda v: int(v).bit_length(), otypes=[np.int32])(values)


def _bits(x: Array) -> int:
    return 8 * x.dtype.itemsize


def _reversed_bits(x: Array) -> Array:
    width = _bits(x)
    turn = lambda v: int(f"{int(v):0{width}b}"[::-1], 2)
    return np.vectorize(turn, otypes=[unsigned(x).dtype])(unsigned(x)).view(x.dtype)


def _permuted(x: Array, y: Array, selector: Array) -> Array:
    """Each byte is one of the eight of (x, y), as four bits say."""
    whole = unsigned(x).astype(np.uint64) | unsigned(y).astype(np.uint64) << np.uint64(32)
    chosen = unsigned(selector).astype(np.uint64)
    out = np.zeros(np.broadcast(whole, chosen).shape, np.uint64)
    for i in range(4):
        code = chosen >> np.uint64(4 * i) & np.uint64(0xF)
        byte = whole >> (code & np.uint64(7)) * np.uint64(8) & np.uint64(0xFF)
        sign = np.where(byte >> np.uint64(7), np.uint64(0xFF), np.uint64(0))
        out |= np.where(code >> np.uint64(3), sign, byte) << np.uint64(8 * i)
    return out.astype(np.uint32).view(np.int32)


def _low24(x: Array) -> Array:
    return (x << np.int32(8)) >> np.int32(8)


def _average(up: int) -> Function:
    def average(x: Array, y: Array) -> Array:
        return (x.astype(np.int64) + y.astype(np.int64) + up) >> 1

    return average


def _of_unsigned(function: Function) -> Function:
    return lambda *args: function(*(unsigned(x) for x in args))


def _mulhi(x: Array, y: Array) -> Array:
    high = mulhiui(x, y)
    zero = x.dtype.type(0)
    return high - np.where(x < 0, y, zero) - np.where(y < 0, x, zero)


def _as(dtype: str) -> Function:
    return lambda x: np.asarray(x).view(dtype)


_MASK32 = np.int64(0xFFFFFFFF)
_INTEGERS: dict[str, Function] = {
    "abs": np.abs, "llabs": np.abs, "brev": _reversed_bits, "brevll": _reversed_bits,
    "byte_perm": _permuted, "clz": lambda x: _bits(x) - _highest_bit(x),
    "clzll": lambda x: _bits(x) - _highest_bit(x), "ffs": lambda x: _highest_bit(x & -x),
    "ffsll": lambda x: _highest_bit(x & -x), "hadd": _average(0), "rhadd": _average(1),
    "uhadd": _of_unsigned(_average(0)), "urhadd": _of_unsigned(_average(1)),
    "mul24": lambda x, y: _low24(x) * _low24(y),
    "umul24": lambda x, y: (x & np.int32(0xFFFFFF)) * (y & np.int32(0xFFFFFF)),
    "mulhi": _mulhi, "mul64hi": _mulhi, "umulhi": mulhiui, "umul64hi": mulhiui,
    "popc": lambda x: np.bitwise_count(unsigned(x)),
    "popcll": lambda x: np.bitwise_count(unsigned(x)),
    "sad": lambda x, y, z: np.abs(x.astype(np.int64) - y) + z,
    "usad": lambda x, y, z: np.abs(unsigned(x).astype(np.int64) - unsigned(y)) + z,
    "double_as_longlong": _as("i8"), "longlong_as_double": _as("f8"), "float_as_int": _as("i4"),
    "float_as_uint": _as("i4"), "int_as_float": _as("f4"), "uint_as_float": _as("f4"),
    "double2hiint": lambda x: np.asarray(x).view("i8") >> np.int64(32),
    "double2loint": lambda x: (np.asarray(x).view("i8") & _MASK32).astype(np.uint32).view("i4"),
    "hiloint2double": lambda high, low: (
        (high.astype(np.int64) << np.int64(32)) | (low.astype(np.int64) & _MASK32)
    ).view("f8"),
    "rcp64h": lambda x: ((1 / np.asarray(x)).view("i8") & ~_MASK32).view("f8"),
    "finite": np.isfinite, "isfinite": np.isfinite, "isinf": np.isinf, "isnan": np.isnan,
    "signbit": np.signbit, "nextafter": np.nextafter,
    "ilogb": lambda x: np.where(x == 0, -(2**31), np.frexp(x)[1] - 1),
    "llrint": np.rint, "llround": lambda x: _away(_wide(x)),
}  # fmt: skip


# ---- rounding modes -----------------------------------------------------------------------------

_EXACT: dict[str, Callable[..., Fraction]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b, "rcp": lambda a: 1 / a, "fma": lambda a, b, c: a * b + c,
}  # fmt: skip
_NEAREST: dict[str, Function] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "rcp": lambda x: x.dtype.type(1) / x, "fma": fma, "sqrt": np.sqrt, "rsqrt": rsqrt,
}  # fmt: skip


def _compare(near: Any, exact: Fraction, root: bool) -> int:
    """How a number compares with an exact result, or with its root."""
    if not np.isfinite(near):
        return 1 if near > 0 else -1
    value = Fraction(float(near))
    value = value * value if root else value
    return (value > exact) - (value < exact)


def _directed(near: Any, exact: Fraction, mode: str, root: bool) -> Any:
    """The neighbour of a number that an exact result is rounded to."""
    kind = type(near)
    if mode == "rz":
        mode = "rd" if exact > 0 else "ru"
    towards = kind(-np.inf if mode == "rd" else np.inf)
    over = 1 if mode == "rd" else -1
    while _compare(near, exact, root) == over:
        near = np.nextafter(near, towards)
    while True:
        other = np.nextafter(near, -towards)
        if not np.isfinite(other) or _compare(other, exact, root) == over:
            return near
        near = other


def _rounding(name: str, mode: str) -> Function:
    nearest = _NEAREST[name]
    if mode == "rn":
        return nearest

    def one(near: Any, *args: Any) -> Any:
        if not all(np.isfinite(x) for x in args) or (name in ("div", "rcp") and args[-1] == 0):
            return near
        if name == "sqrt":
            return _directed(near, Fraction(float(args[0])), mode, True) if args[0] > 0 else near
        return _directed(near, _EXACT[name](*(Fraction(float(x)) for x in args)), mode, False)

    def function(*args: Array) -> Array:
        parts = np.broadcast_arrays(*args)
        near = np.asarray(nearest(*parts))
        out = near.copy()
        for place in np.ndindex(near.shape):
            out[place] = one(near[place], *(x[place] for x in parts))
        return out

    return function


_TO_WHOLE = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}
_KINDS: dict[str, Any] = {
    "double": np.dtype("f8"), "float": np.dtype("f4"), "int": np.dtype("i4"),
    "uint": np.dtype("u4"), "ll": np.dtype("i8"), "ull": np.dtype("u8"),
}  # fmt: skip


def _conversion(source: str, target: str, mode: str) -> Function:
    from_, to = _KINDS[source], _KINDS[target]
    if to.kind in "iu":
        limits = np.iinfo(to)

        def to_integer(x: Array) -> Array:
            whole = np.nan_to_num(_TO_WHOLE[mode](_wide(x)), posinf=np.inf, neginf=-np.inf)
            clipped = np.clip(whole, float(limits.min), float(limits.max))
            top = clipped >= float(limits.max)
            made = np.where(top, 0, clipped).astype(to)
            return np.where(top, to.type(limits.max), made).view(f"i{to.itemsize}")

        return to_integer

    def to_float(x: Array) -> Array:
        values = unsigned(x) if from_.kind == "u" else x
        near = np.asarray(values.astype(to))
        if mode == "rn":
            return near
        out = near.copy()
        for place in np.ndindex(near.shape):
            value = np.asarray(values)[place]
            if np.isfinite(value):
                exact = Fraction(value.item())
                out[place] = _directed(near[place], exact, mode, False)
        return out

    return to_float


@functools.cache
def function(symbol: str) -> Function | None:
    """What a symbol of libdevice computes, before the conversion to its result's type."""
    name = symbol.removeprefix("__nv_")
    if name in _INTEGERS:
        return _INTEGERS[name]
    converts = re.fullmatch(r"(double|float|u?int|u?ll)2(double|float|u?int|u?ll)_(r[nzdu])", name)
    if converts:
        return _conversion(*converts.groups())
    rounds = re.fullmatch(r"[df]?(add|sub|mul|div|rcp|sqrt|rsqrt|fma)f?_(r[nzdu])", name)
    if rounds and name != "fma":
        return _rounding(*rounds.groups())
    if name in ("fma", "fmaf"):
        return fma
    name = name.removeprefix("fast_")
    for candidate in (name, name[:-1] if name[-1] in "fd" else ""):
        if candidate in _FLOATS:
            return _in_double(_FLOATS[candidate])
        if candidate in _INTEGERS:
            return _INTEGERS[candidate]
    return None


# ---- assembly -----------------------------------------------------------------------------------

# Single instructions that kernels write in PTX, for which libdevice has no name or another one.
_INSTRUCTIONS: dict[str, Function] = {
    "tanh": np.tanh, "ex2": np.exp2, "lg2": np.log2, "rcp": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / np.sqrt(x), "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos,
    "mov": lambda x: x, "abs": np.abs, "neg": np.negative, "max": np.fmax, "min": np.fmin,
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "fma": lambda a, b, c: fma(a, b, c), "mad": lambda a, b, c: fma(a, b, c),
}  # fmt: skip
_STEP = re.compile(r"(\w+)((?:\.\w+)*)\s+([^;]*)")


def assembly(text: str) -> Function | None:
    """A function for some lines of PTX that compute float32 numbers; None for others."""
    text = text.replace("\\0A", "\n").replace("\\09", " ").replace("\\22", '"')
    text = re.sub(r"//[^\n]*", "", text).strip().strip("{}")
    steps = []
    for line in filter(None, (part.strip() for part in text.split(";"))):
        if line.startswith(".reg"):
            continue
        found = _STEP.fullmatch(line)
        if found is None or found[1] not in _INSTRUCTIONS or not found[2].endswith(".f32"):
            return None
        steps.append((_INSTRUCTIONS[found[1]], [part.strip() for part in found[3].split(",")]))

    def literal(word: str) -> Array:
        if word.lower().startswith("0f"):
            return np.uint32(int(word[2:], 16)).view(np.float32)
        return np.float32(word)

    def run(*args: Array) -> Array:
        values = {f"${i + 1}": x for i, x in enumerate(args)}
        for compute, (to, *operands) in steps:
            given = [values[word] if word in values else literal(word) for word in operands]
            made = np.asarray(compute(*(_wide(x) for x in given)))
            values[to] = made.astype(np.float32)
        return values["$0"]

    return run if steps else None
