"""Arithmetic of two and more tensors."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from tritorch import _C
from tritorch.core import defaults
from tritorch.core.dtype import bool_, complex128, dtype, float64
from tritorch.core.promotion import (
    category,
    not_implemented,
    number_dtype,
    result_type,
    scalar_name,
)
from tritorch.core.published import PUBLIC, autocast
from tritorch.core.tensor import Tensor, attach
from tritorch.host.pointwise import pointwise as cpu
from tritorch.ops.index.indexing import nonzero
from tritorch.ops.pointwise.comparison import logical_or
from tritorch.ops.record.apply import apply, apply_in_place
from tritorch.ops.record.checks import (
    convert_number,
    former_order,
    require_kernel,
    require_tensor,
    warn_of_overload,
)
from tritorch.ops.record.ends import ends_as, ends_with
from tritorch.ops.record.groups import Gradient, Operands, Without
from tritorch.ops.record.kinds import (
    OPERANDS,
    attach_operator,
    binary,
    binary_function,
    binary_in_place,
    ternary,
)
from tritorch.ops.record.operator import FLOATS, NOT_IMPLEMENTED, ndarray
from tritorch.ops.record.outputs import require_separate
from tritorch.ops.record.pointwise import INT_TO_FLOAT, SAME
from tritorch.ops.record.publishing import accepts_expanded, public, write_out
from tritorch.ops.shape.factory import tensor


def conj(value: Any) -> Any:
    """The conjugate of a tensor or a number."""
    return value.conj() if isinstance(value, Tensor) else value.conjugate()


# ---- add, sub, mul, div --------------------------------------------------------------------------

_add = binary("add", np.add, grad=(lambda g: g, lambda g: g), operator="add", inplace=False,
              numbers="all")  # fmt: skip
_sub = binary(
    "sub", np.subtract,
    numbers="all",
    grad=Gradient(
        (lambda g: g, lambda g: -g),
        node="{'sub.Tensor' if hasattr(a, 'shape') else 'rsub.Scalar'}",
    ),
    without=Without("bool", shuns="bool"), operator="sub", inplace=False,
)  # fmt: skip
mul = binary("mul", np.multiply, aliases=("multiply",), operator="mul", numbers="all",
             shown="mul mul mul_",
             grad=(lambda g, b: g * conj(b), lambda g, a: g * conj(a)))  # fmt: skip


def _simpler_quotient(a: Any, b: Any) -> Any:
    """A product, as PyTorch's kernels divide floats by a number."""
    if type(b) in (int, float) and b and isinstance(a, Tensor) and a.dtype.is_floating_point:
        return a * (1 / b)
    return None


true_divide = binary(
    "div", np.true_divide, rule=INT_TO_FLOAT, operator="truediv", inplace=False, without="chalf",
    numbers="all",
    simpler=_simpler_quotient,
    zero="divided",
    grad=(lambda g, b: g / conj(b), lambda g, a, b: -g * conj(a / b / b)),
)  # fmt: skip


# Python numbers are tensors to these in PyTorch, and kept: a second backward pass is refused.
mul.op.keeps_numbers = true_divide.op.keeps_numbers = True  # type: ignore[attr-defined]
# A product as a step of another operator, whose number nobody keeps.
times: Any = binary(
    "times",
    np.multiply,
    schema="mul.Tensor(a, b)",
    gpu="mul",
    composed=lambda a, b: a * b,
    grad=Gradient((lambda g, b: times(g, conj(b)), lambda g, a: g * conj(a)), node="Mul"),
    export=False,
)


def _check_alpha(alpha: Any, *operands: Any) -> None:
    common = result_type(*operands)
    rank = category(number_dtype(alpha))
    if rank == 0 and category(common) != 0:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if rank >= 2 and category(common) < 2:
        raise RuntimeError(
            "For integral input tensors, argument alpha must not be a floating point number."
        )
    if rank == 3 and category(common) < 3:
        raise RuntimeError(
            "For non-complex input tensors, argument alpha must not be a complex number."
        )


def _scaled(input: Any, other: Any, alpha: Any) -> Any:
    """alpha * other, computed in what input and other promote to."""
    _check_alpha(alpha, input, other)
    if not isinstance(other, Tensor):
        return other and alpha if type(other) is type(alpha) is bool else other * alpha
    common = result_type(input, other)
    if common is bool_:
        alpha = bool(alpha)
    elif other.dtype is not common and category(other.dtype) < category(number_dtype(alpha)):
        other = other.to(common)  # a float alpha makes integers no wider floats than input's
    return times(other, alpha)


def _former(other: Any, rest: tuple[Any, ...], name: str) -> tuple[Any, Any]:
    """other and alpha of the deprecated add(input, alpha, other)."""
    if isinstance(other, Tensor) and not other.ndim and len(rest) == 1:
        other = other.item()  # as PyTorch's parser takes a tensor for alpha
    if len(rest) > 1 or isinstance(other, Tensor):
        raise TypeError(f"{name}() takes 1 positional argument but {1 + len(rest)} were given")
    warn_of_overload(
        name,
        "Tensor input, Number alpha, Tensor other",
        "Tensor input, Tensor other, *, Number alpha = 1",
    )
    return rest[0], other


def add(input: Any, other: Any, *rest: Any, alpha: Any = 1, out: Any = None) -> Tensor:
    """input + alpha * other."""
    if rest:
        other, alpha = _former(other, rest, "add")
    if alpha != 1 or type(alpha) is not int:
        other = _scaled(input, other, alpha)
    return _add(input, other, out=out)


def _check_subtraction(input: Any, other: Any) -> None:
    bools = [type(v) is bool or getattr(v, "dtype", None) is bool_ for v in (input, other)]
    if all(bools):
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the "
            "`^` or `logical_xor()` operator instead."
        )
    if any(bools):
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying "
            "to invert a mask, use the `~` or `logical_not()` operator instead."
        )


def sub(input: Any, other: Any, *rest: Any, alpha: Any = 1, out: Any = None) -> Tensor:
    """input - alpha * other."""
    if rest:
        other, alpha = _former(other, rest, "sub")
    _check_subtraction(input, other)
    if alpha != 1 or type(alpha) is not int:
        other = _scaled(input, other, alpha)
    return _sub(input, other, out=out)


_add_in_place, _sub_in_place = binary_in_place(_add.op), binary_in_place(_sub.op)  # type: ignore[attr-defined]


def add_(self: Tensor, other: Any, *rest: Any, alpha: Any = 1) -> Tensor:
    """In-place version of add."""
    if rest:
        other, alpha = _former(other, rest, "add_")
    if alpha != 1 or type(alpha) is not int:
        require_separate(self, (other,))  # what is scaled lies apart, and would not tell
        if type(alpha) is float and _add_scaled(self, other, alpha):
            return self
        other = _scaled(self, other, alpha)
    return _add_in_place(self, other)


_add_scaled_quietly = _C.Quiet(cpu.add_scaled_)


def _add_scaled(self: Tensor, other: Any, alpha: float) -> bool:
    """Adds floats on the CPU in place, which nobody records; whether that was so."""
    try:
        a, b = self._a, other._a
        if type(a) is not ndarray or type(b) is not ndarray or a.dtype not in FLOATS:
            return False
        if b.dtype is not a.dtype or a.shape != b.shape or 0 in a.strides or self._inference:
            return False
    except AttributeError:
        return False
    if _add.op.wants(self, other):  # type: ignore[attr-defined]
        return False
    _add_scaled_quietly(a, b, alpha)
    _C.bump_version(self)
    return True


def sub_(self: Tensor, other: Any, *rest: Any, alpha: Any = 1) -> Tensor:
    """In-place version of sub."""
    if rest:
        other, alpha = _former(other, rest, "sub_")
    _check_subtraction(self, other)
    if alpha != 1 or type(alpha) is not int:
        require_separate(self, (other,))
        other = _scaled(self, other, alpha)
    return _sub_in_place(self, other)


def div(input: Any, other: Any, *, rounding_mode: str | None = None, out: Any = None) -> Tensor:
    """input / other; rounding_mode "trunc" or "floor" rounds the quotient."""
    if rounding_mode is None:
        return true_divide(input, other, out=out)
    if rounding_mode == "floor":
        return _floor_divide(input, other, out=out)
    if rounding_mode == "trunc":
        return _trunc_divide(input, other, out=out)
    raise RuntimeError(
        f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
        f"'{rounding_mode}'"
    )


def div_(self: Tensor, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """In-place version of div."""
    if not isinstance(other, OPERANDS):
        raise TypeError(
            f"div_(): argument 'other' (position 2) must be Tensor, not {type(other).__name__}"
        )
    if rounding_mode is None:
        return apply_in_place(true_divide.op, (self, other))  # type: ignore[attr-defined]
    if rounding_mode == "floor":
        return apply_in_place(_floor_divide.op, (self, other))  # type: ignore[attr-defined]
    if rounding_mode == "trunc":
        return apply_in_place(_trunc_divide.op, (self, other))  # type: ignore[attr-defined]
    return div(self, other, rounding_mode=rounding_mode)


def without_derivative(name: str) -> Any:
    """The gradient of an operator of which PyTorch says that it has none."""

    def refuse(g: Tensor) -> Tensor:
        raise RuntimeError(f"derivative for aten::{name} is not implemented")

    return refuse


_zeros = (lambda g: g.new_zeros(g.shape), lambda g: g.new_zeros(g.shape))
floor_divide = binary(
    "floor_divide", cpu.floor_divide,
    numbers="all", direct=False,
    grad=Gradient((without_derivative("floor_divide"),) * 2, node=NOT_IMPLEMENTED), zero="divided",
    without="bool complex", operator="floordiv", shown="- - floor_divide_",
)  # fmt: skip
_floor_divide = binary(
    "floor_quotient",
    cpu.floor_divide,
    schema="div.Tensor_mode(a, b, rounding_mode='floor')",
    numbers="all",
    gpu="floor_divide",
    direct=False,
    grad=Gradient(_zeros, keeps="a b"),
    zero="divided",
    without="bool complex",
    export=False,
)
_trunc_divide = binary(
    "trunc_divide",
    cpu.trunc_divide,
    schema="div.Tensor_mode(a, b, rounding_mode='trunc')",
    numbers="all",
    direct=False,
    grad=Gradient(_zeros, keeps="a b"),
    zero="divided",
    without="bool complex",
    export=False,
)
remainder = binary(
    "remainder", cpu.remainder,
    direct=False,
    grad=Gradient(
        (lambda g: g, lambda g, a, b: -g * _floor_divide(a, b)),
        node="remainder.{'Tensor' if hasattr(b, 'shape') else 'Scalar'}",
    ),
    without="bool complex", operator="mod", shown="remainder - remainder_",
)  # fmt: skip
fmod = binary(
    "fmod", cpu.fmod,
    numbers="other", direct=False,
    grad=Gradient(
        (lambda g: g, lambda g, a, b: -g * _trunc_divide(a, b)),
        node="fmod.{'Tensor' if hasattr(b, 'shape') else 'Scalar'}",
    ),
    without="bool complex",
)  # fmt: skip

for _name, _function in (
    ("add", add), ("sub", sub), ("subtract", sub), ("div", div), ("divide", div),
):  # fmt: skip
    PUBLIC[_name] = _function
    setattr(Tensor, _name, _function)
for _name, _method in (
    ("add_", add_), ("sub_", sub_), ("subtract_", sub_), ("div_", div_), ("divide_", div_),
):  # fmt: skip
    setattr(Tensor, _name, _method)
PUBLIC["true_divide"] = true_divide
attach(true_divide=true_divide)
attach(true_divide_=lambda self, other: div_(self, other))
attach_operator("add", Tensor.__add__, add_, shown="add add add_")


def _divide_into(x: Tensor, other: Any) -> Tensor:
    """other / x as PyTorch computes it, whose bits are those of the reciprocal times other."""
    return x.reciprocal() * other


attach_operator("truediv", Tensor.__truediv__, div_, _divide_into, shown="div __rdiv__ div_")
autocast("cuda:float32", "__rdiv__")(_divide_into)


def _subtract(input: Any, other: Any, out: Any = None) -> Any:
    return (
        sub(input, other)
        if isinstance(other, (Tensor, int, float, complex, np.generic))
        else NotImplemented
    )


attach_operator("sub", binary_function(_sub.op, _subtract), sub_, shown="sub - sub_")  # type: ignore[attr-defined]
attach_operator("divmod", lambda a, b: (floor_divide(a, b), remainder(a, b)), None)


@public(method=False)
@ends_with("rsub.{'Tensor' if isinstance(other, Tensor) else 'Scalar'}")
def rsub(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """other - alpha * input."""
    require_tensor(input, "rsub", "input", 1)
    if isinstance(other, Tensor):
        return sub(other, input, alpha=alpha)
    _check_alpha(alpha, input, other)
    _check_subtraction(other, input)
    return _sub(other, input if alpha == 1 else times(input, alpha))


# ---- powers --------------------------------------------------------------------------------------


def _pow_base_grad(g: Tensor, a: Any, b: Any) -> Tensor:
    if not isinstance(b, Tensor):
        if b == 0:
            return g.new_zeros(g.shape)
        if b == 2:
            return g * (2 * conj(a))
        return g * conj(b * a ** (b - 1))
    zero = b == 0
    return where(zero, 0, g * conj(b * a ** (b - 1).masked_fill(zero, 1)))


def _pow_exponent_grad(g: Tensor, a: Any, b: Tensor, out: Tensor) -> Tensor:
    if not isinstance(a, Tensor):
        if a == 0:
            return where((b.real if b.is_complex() else b) >= 0, 0, g * conj(out * -math.inf))
        import cmath

        log = cmath.log(a) if isinstance(a, complex) else math.log(a) if a > 0 else math.nan
        if not isinstance(a, complex) and a < 0 and b.is_complex():
            log = cmath.log(a)
        return g * conj(out * log)
    zero = a == 0
    safe = zero & (b.real >= 0 if b.is_complex() else b >= 0)
    return where(safe, 0, g * conj(out * a.log()))


def _simpler_power(a: Any, b: Any) -> Any:
    """Squares, cubes and roots without the logarithm of a float64."""
    if type(b) not in (int, float) or not isinstance(a, Tensor):
        return None
    if b == 0.5:
        return a.sqrt()
    return a if b == 1 else a * a if b == 2 else a * a * a if b == 3 else None


_pow = binary(
    "pow", cpu.pow,
    operands=Operands(apart="b"), direct="float", simpler=_simpler_power,
    grad=Gradient(
        (_pow_base_grad, _pow_exponent_grad),
        node="pow.Tensor_{'Tensor' if hasattr(b, 'shape') else 'Scalar'}",
    ),
    without="bool chalf", inplace=False, operator=None, export=False,
)  # fmt: skip
_pow_of_number = binary(
    "pow_of_number",
    cpu.pow,
    schema="pow.Scalar(a, b)",
    gpu="pow",
    direct="float",
    grad=Gradient((None, _pow_exponent_grad), node="Pow2"),
    layout="row-major",
    without="bool chalf",
    inplace=False,
    export=False,
)


def _integer_power_error(input: Any, exponent: Any) -> bool:
    if isinstance(exponent, (int, np.integer)) and not isinstance(exponent, bool):
        return bool(exponent < 0) and isinstance(input, Tensor) and category(input.dtype) < 2
    return False


@public(method=False, aliases=())
@autocast("cuda:float32")
def pow(input: Any, exponent: Any, *, out: Any = None) -> Tensor:
    """input to the power of exponent."""
    if not isinstance(input, Tensor) and not isinstance(exponent, Tensor):
        require_tensor(input, "pow", "input", 1)
    if type(exponent) is not float and _integer_power_error(input, exponent):
        raise RuntimeError("Integers to negative integer powers are not allowed.")
    if type(exponent) is bool and input.dtype is bool_:
        return logical_or(input, _negated(exponent), out=out)
    if not isinstance(input, Tensor):
        return _pow_of_number(input, exponent, out=out)
    if not isinstance(exponent, Tensor) and exponent == 0 and input.is_cuda and input.is_complex():
        # The number 0 gives 1 even of 0, which a tensor's 0 does not; the kernel sees tensors.
        ones = _pow(input, exponent).masked_fill(input == 0, 1)
        return ones if out is None else write_out(ones, out)
    return _pow(input, exponent, out=out)


def _negated(flag: bool) -> Tensor:
    return tensor(not flag)


def _power_operator(self: Any, other: Any, modulo: Any = None) -> Any:
    if type(other) is float and other:
        return _pow(self, other)
    if not isinstance(other, (Tensor, int, float, complex, np.generic)):
        return NotImplemented
    return pow(self, other)


def pow_(self: Tensor, exponent: Any) -> Tensor:
    """In-place version of pow."""
    if _integer_power_error(self, exponent):
        raise RuntimeError("Integers to negative integer powers are not allowed.")
    if type(exponent) is bool and self.dtype is bool_:
        return self.logical_or_(_negated(exponent))
    return apply_in_place(_pow.op, (self, exponent))  # type: ignore[attr-defined]


attach(pow=pow)
attach(pow_=pow_)
attach_operator("pow", _power_operator, pow_, shown="pow - pow_")
autocast("cuda:float32", "__rpow__")(_power_operator)


@public()
@autocast("cuda:float32")
def float_power(input: Any, exponent: Any, *, out: Any = None) -> Tensor:
    """pow computed in float64 or complex128."""
    if not isinstance(exponent, Tensor):
        require_number_or_tensor(input, exponent)
    wide = complex128 if result_type(input, exponent).is_complex else float64
    if out is not None and out.dtype is not wide:
        raise RuntimeError(
            f"the output given to float_power has dtype {scalar_name(out.dtype)} but the "
            f"operation's result requires dtype {scalar_name(wide)}"
        )
    base = input.to(wide) if isinstance(input, Tensor) else input
    power = exponent.to(wide) if isinstance(exponent, Tensor) else exponent
    if not isinstance(base, Tensor):
        base = complex(base) if wide.is_complex else float(base)
    return pow(base, power, out=out)


def require_number_or_tensor(input: Any, exponent: Any) -> None:
    """float_power of two numbers is not one of tensors."""
    if not isinstance(input, Tensor) or not isinstance(exponent, (int, float, complex, np.generic)):
        require_tensor(exponent, "float_power", "exponent", 2)


def float_power_(self: Tensor, exponent: Any) -> Tensor:
    """In-place version of float_power."""
    wide = complex128 if result_type(self, exponent).is_complex else float64
    if self.dtype is not wide:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {scalar_name(self.dtype)} but the "
            f"operation's result requires dtype {scalar_name(wide)}"
        )
    return pow_(self, exponent.to(wide) if isinstance(exponent, Tensor) else exponent)


attach(float_power_=float_power_)


# ---- the rest of two -----------------------------------------------------------------------------


def _reciprocal_or_zero(x: Tensor) -> Tensor:
    return x.reciprocal().masked_fill(x == 0, 0)


atan2 = binary("atan2", cpu.arctan2, rule=INT_TO_FLOAT, without="complex", aliases=("arctan2",),
               numbers="none",
               grad=(lambda g, a, b: g * b * _reciprocal_or_zero(a * a + b * b),
                     lambda g, a, b: -g * a * _reciprocal_or_zero(a * a + b * b)),
               autocast="cuda:widest")  # fmt: skip
hypot = binary("hypot", np.hypot, without="bool int complex", numbers="none",
               grad=(lambda g, a, out: g * (a / out), lambda g, b, out: g * (b / out)))  # fmt: skip


def _unless(loses: Any) -> Any:
    """The gradient of the larger or smaller of two, for the one that does not lose: ties share it,
    both get it whole where either is NaN."""
    return lambda g, a, b: where(loses(a, b), 0, where(a == b, g / 2, g))


def _to_one(first: Any) -> tuple[Any, Any]:
    """The gradients of one of two: of the first where `first` says so."""
    return (
        lambda g, a, b: where(first(a, b), g, 0),
        lambda g, a, b: where(first(a, b), 0, g),
    )


_smaller, _larger = _unless(lambda a, b: a < b), _unless(lambda a, b: a > b)
maximum = binary(
    "maximum", np.maximum,
    numbers="none", grad=(_smaller, _larger),
    without=Without("complex", says="maximum not implemented for complex tensors."), inplace=False,
)  # fmt: skip
minimum = binary(
    "minimum", np.minimum,
    numbers="none", grad=(_larger, _smaller),
    without=Without("complex", says="minimum not implemented for complex tensors."), inplace=False,
)  # fmt: skip
fmax = binary(
    "fmax",
    np.fmax,
    numbers="none",
    composed=lambda a, b: b.where(a.isnan() | (b > a), a),
    grad=_to_one(lambda a, b: (a >= b) | b.isnan()),
    without=Without("complex", says="fmax not implemented for complex tensors."),
    inplace=False,
)
fmin = binary(
    "fmin",
    np.fmin,
    numbers="none",
    composed=lambda a, b: b.where(a.isnan() | (b < a), a),
    grad=_to_one(lambda a, b: (a <= b) | b.isnan()),
    without=Without("complex", says="fmin not implemented for complex tensors."),
    inplace=False,
)
copysign = binary(
    "copysign", np.copysign,
    rule=INT_TO_FLOAT, numbers="other",
    grad=Gradient(
        (lambda g, a, out: g * where(a == 0, 0.0, out / a),
              lambda g: g.new_zeros(g.shape)),
        node="copysign.{'Tensor' if hasattr(b, 'shape') else 'Scalar'}",
    ),
    without="complex",
)  # fmt: skip
nextafter = binary("nextafter", cpu.nextafter, without="bool int complex", numbers="none",
                   narrow={"float16": "nextafter_half", "bfloat16": "nextafter_bfloat16"},
                   grad=(lambda g, a, b: where(a == b, 0, g),
                         lambda g: g.new_zeros(g.shape)))  # fmt: skip
logaddexp = binary(
    "logaddexp",
    cpu.logaddexp,
    rule=SAME,
    numbers="none",
    without="bool int",
    direct=False,
    inplace=False,
    grad=(lambda g, a, b: g / conj(1 + (b - a).exp()), lambda g, a, b: g / conj(1 + (a - b).exp())),
)
logaddexp2 = binary("logaddexp2", cpu.logaddexp2, without="bool int complex", inplace=False,
                    numbers="none",
                    grad=(lambda g, a, b: g / (1 + (b - a).exp2()),
                          lambda g, a, b: g / (1 + (a - b).exp2())))  # fmt: skip
_heaviside = binary(
    "heaviside", cpu.heaviside,
    numbers="none", direct=False,
    grad=Gradient((without_derivative("heaviside"),) * 2, node=NOT_IMPLEMENTED),
    without=Without("complex", says="heaviside is not yet implemented for complex tensors."),
    export=False,
)  # fmt: skip
gcd = binary("gcd", np.gcd, without="bool float complex", numbers="none", inplace="public")
lcm = binary("lcm", np.lcm, without="bool float complex", numbers="none", inplace="public")
xlogy = binary(
    "xlogy",
    cpu.xlogy,
    rule=INT_TO_FLOAT,
    composed=lambda a, b: (a * b.log()).masked_fill((a == 0) & (b == b), 0),
    grad=Gradient(
        (lambda g, a, b: g * _log_where_used(a, b), lambda g, a, b: g * a / b),
        node="xlogy.{'Scalar_Self' if not hasattr(a, 'shape') else 'Tensor' if hasattr(b, 'shape') "
        "else 'Scalar_Other'}",
    ),
    without="complex",
    inplace="public",
    special=True,
)


def _log_where_used(a: Any, b: Any) -> Any:
    log = (
        b.log()
        if isinstance(b, Tensor)
        else math.log(b)
        if b > 0
        else (-math.inf if b == 0 else math.nan)
    )
    keep = (a == 0) & ~(b.isnan() if isinstance(b, Tensor) else tensor(b != b))
    if not isinstance(log, Tensor):
        log = a.new_full(a.shape, log)
    return log.masked_fill(keep & (b <= 0), 0)


def _same_dtypes(input: Any, values: Any) -> None:
    if isinstance(input, Tensor) and isinstance(values, Tensor) and input.dtype is not values.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")


@public()
def heaviside(input: Tensor, values: Tensor, *, out: Any = None) -> Tensor:
    """0 for negative elements, 1 for positive ones, values where input is 0."""
    _same_dtypes(input, values)
    if isinstance(out, Tensor) and isinstance(input, Tensor):
        _same_dtypes(input, out)
    return _heaviside(input, values, out=out)


def heaviside_(self: Tensor, values: Tensor) -> Tensor:
    """In-place version of heaviside."""
    _same_dtypes(self, values)
    require_tensor(values, "heaviside_", "values", 1)
    return apply_in_place(_heaviside.op, (self, values))  # type: ignore[attr-defined]


attach(heaviside_=heaviside_)


@public()
@ends_with("ldexp.Tensor")
def ldexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """input * 2^other."""
    kind, factor = _two_to(input, other)
    return mul(input, factor).to(kind) if out is None else mul(input, factor, out=out)


def _two_to(input: Tensor, other: Tensor) -> tuple[dtype, Tensor]:
    """The dtype of ldexp(input, other), and 2^other."""
    require_tensor(input, "ldexp", "input", 1)
    require_tensor(other, "ldexp", "other", 2)
    if input.is_floating_point():
        require_kernel("ldexp_cpu_exp", other, "bool")
    kind = result_type(input, other)
    if category(kind) < 2:
        kind = defaults.dtype()
    if other.ndim == 0 and kind is float64:
        other = other.to(kind)  # else the power is rounded to what other is
    return kind, pow(2.0, other)


@ends_with("ldexp.Tensor")
def ldexp_(self: Tensor, other: Tensor) -> Tensor:
    """In-place version of ldexp."""
    return self.mul_(_two_to(self, other)[1])


attach(ldexp_=ldexp_)
PUBLIC["ldexp_"] = ldexp_


# ---- three and more ------------------------------------------------------------------------------

_lerp = ternary(
    "lerp",
    "a b weight",
    cpu.lerp,
    operands=Operands(apart="weight"),
    composed=lambda a, b, weight: a + weight * (b - a),
    grad=Gradient(
        (
            lambda g, weight: g * conj(1 - weight),
            lambda g, weight: g * conj(weight),
            lambda g, a, b: g * conj(b - a),
        ),
        node="lerp.{'Tensor' if hasattr(weight, 'shape') else 'Scalar'}",
    ),
)


@public(out=True, inplace=True)
def lerp(input: Tensor, end: Tensor, weight: Any) -> Tensor:
    """input + weight * (end - input)."""
    require_tensor(end, "lerp", "end", 2)
    require_kernel("lerp_kernel_scalar", input, "bool int")
    for other in (end, weight):
        if isinstance(other, Tensor) and other.dtype is not input.dtype:
            raise RuntimeError(
                f"expected dtype {_dtype_name(input.dtype)} for "
                f"`{'end' if other is end else 'weight'}` but got dtype {_dtype_name(other.dtype)}"
            )
    return apply(_lerp, (input, end, weight))


def _dtype_name(kind: dtype) -> str:
    return {"float32": "float", "float64": "double", "float16": "c10::Half"}.get(
        kind.name, kind.name
    )


_addcmul = ternary(
    "addcmul",
    "x a b value",
    cpu.addcmul,
    schema="addcmul(x, a, b, value=value)",
    operands=Operands(beside=1),
    composed=lambda x, a, b, value: x + value * a * b,
    grad=(
        lambda g: g,
        lambda g, b, value: g * conj(b * value),
        lambda g, a, value: g * conj(a * value),
    ),
    without="bool",
)
_addcdiv = ternary(
    "addcdiv",
    "x a b value",
    cpu.addcdiv,
    schema="addcdiv(x, a, b, value=value)",
    operands=Operands(beside=1),
    composed=lambda x, a, b, value: x + value * a / b,
    grad=(
        lambda g: g,
        lambda g, b, value: g * conj(value / b),
        lambda g, a, b, value: -g * conj(value * a / (b * b)),
    ),
    without="bool int",
)


@public(out=True, inplace=True)
@autocast("cuda:widest")
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *rest: Any, value: Any = 1) -> Tensor:
    """input + value * tensor1 * tensor2."""
    if rest:  # the deprecated addcmul(input, value, tensor1, tensor2)
        input, tensor1, tensor2, value, _ = former_order(
            "addcmul", (input, tensor1, tensor2, *rest), "tensor1", "tensor2"
        )
    common = result_type(input, tensor1, tensor2)
    if category(common) == 1:
        convert_number(value, common)  # may refuse it
    return apply(_addcmul, (input, tensor1, tensor2, value))


@public(out=True, inplace=True)
@autocast("cuda:widest")
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *rest: Any, value: Any = 1) -> Tensor:
    """input + value * tensor1 / tensor2."""
    if rest:
        input, tensor1, tensor2, value, _ = former_order(
            "addcdiv", (input, tensor1, tensor2, *rest), "tensor1", "tensor2"
        )
    if all(category(t.dtype) < 2 for t in (tensor1, tensor2)):
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported, and in a future release addcdiv "
            "will perform a true division of tensor1 and tensor2."
        )
    return apply(_addcdiv, (input, tensor1, tensor2, value))


# ---- clamp ---------------------------------------------------------------------------------------

_clamp = ternary(
    "clamp",
    "x low high",
    cpu.clamp,
    operands=Operands(apart="low high"),
    grad=Gradient(
        (
            lambda g, x, low, high: where((x >= low) & (x <= high), g, 0),
            lambda g, x, low, high: where((x < low) & (low < high), g, 0),
            lambda g, x, low, high: where((x > high) | (low > high), g, 0),
        ),
        node="clamp{'.Tensor' if hasattr(low, 'shape') else ''}",
    ),
    without="bool complex",
)
_clamp_min = ternary(
    "clamp_min", "x low", cpu.clamp_min,
    operands=Operands(apart="low"),
    grad=Gradient(
        (lambda g, x, low: where(x >= low, g, 0),
              lambda g, x, low: where(x < low, g, 0)),
        node="clamp_min{'.Tensor' if hasattr(low, 'shape') else ''}",
    ),
    without="complex",
)  # fmt: skip
_clamp_max = ternary(
    "clamp_max", "x high", cpu.clamp_max,
    operands=Operands(apart="high"),
    grad=Gradient(
        (lambda g, x, high: where(x <= high, g, 0),
              lambda g, x, high: where(x > high, g, 0)),
        node="clamp_max{'.Tensor' if hasattr(high, 'shape') else ''}",
    ),
    without="complex",
)  # fmt: skip


def _clamp_call(input: Tensor, min: Any, max: Any) -> tuple[Any, tuple[Any, ...]]:
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    if min is None:
        return _clamp_max, (input, max)
    if max is None:
        return _clamp_min, (input, min)
    if isinstance(min, complex) or isinstance(max, complex):
        if category(input.dtype) < 2:
            raise not_implemented("clamp", result_type(input, 1j))
        raise RuntimeError("value cannot be converted to type double without overflow")
    return _clamp, (input, min, max)


def _bounds(min: Any, max: Any) -> tuple[Any, Any]:
    """Both numbers or both tensors: beside a number, a tensor stands for the number in it."""
    if min is None or max is None or isinstance(min, Tensor) == isinstance(max, Tensor):
        return min, max
    bound = min if isinstance(min, Tensor) else max
    if bound.requires_grad or bound.ndim:
        raise TypeError(
            f"clamp() received an invalid combination of arguments - got "
            f"(Tensor, {type(min).__name__}, {type(max).__name__})"
        )
    number = bound.item()
    return (number, max) if bound is min else (min, number)


def _as_clamp(found: Tensor, min: Any, max: Any) -> Tensor:
    bound = max if min is None else min
    if isinstance(bound, Tensor):
        return cast(Tensor, ends_as("clamp.Tensor", found))
    return cast(Tensor, ends_as("clamp", found, min=min, max=max))


def _refuse_complex(*bounds: Any) -> None:
    if any(isinstance(bound, complex) for bound in bounds):
        raise NotImplementedError("clamp is not supported for complex types")


def clamp(input: Tensor, min: Any = None, max: Any = None, *, out: Any = None) -> Tensor:
    """Each element, at least min and at most max (which wins)."""
    min, max = _bounds(min, max)
    if input.is_floating_point():
        if isinstance(min, complex) or isinstance(max, complex):
            raise RuntimeError("value cannot be converted to type double without overflow")
    else:
        _refuse_complex(min, max)
    if out is not None and not isinstance(min, Tensor) and not isinstance(max, Tensor):
        kind = result_type(input, *(bound for bound in (min, max) if bound is not None))
        if isinstance(out, Tensor) and out.dtype is not kind:
            raise RuntimeError(
                f"Found dtype {scalar_name(out.dtype)} but expected {scalar_name(kind)}"
            )
    op, operands = _clamp_call(require_tensor(input, "clamp", "input", 1), min, max)
    found = apply(op, operands, out)
    return found if op is _clamp else _as_clamp(found, min, max)


def clamp_(self: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """In-place version of clamp."""
    min, max = _bounds(min, max)
    op, operands = _clamp_call(self, min, max)
    apply_in_place(op, operands)
    return self if op is _clamp else _as_clamp(self, min, max)


for _name_ in ("clamp", "clip"):
    PUBLIC[_name_] = clamp
    PUBLIC[f"{_name_}_"] = clamp_
    setattr(Tensor, _name_, clamp)
    setattr(Tensor, f"{_name_}_", clamp_)


@public(inplace="public")
def clamp_min(input: Tensor, min: Any, *, out: Any = None) -> Tensor:
    """Each element, at least min."""
    _refuse_complex(min)
    overload = "clamp_min.Tensor" if isinstance(min, Tensor) else "clamp_min"
    return ends_as(overload, clamp(input, min=min, out=out))


@public(inplace="public")
def clamp_max(input: Tensor, max: Any, *, out: Any = None) -> Tensor:
    """Each element, at most max."""
    _refuse_complex(max)
    overload = "clamp_max.Tensor" if isinstance(max, Tensor) else "clamp_max"
    return ends_as(overload, clamp(input, max=max, out=out))


# ---- where and masks -----------------------------------------------------------------------------

_where = ternary(
    "where", "condition a b", cpu.where,
    operands=Operands(masks=1),
    grad=(None, lambda g, condition: where(condition, g, 0),
          lambda g, condition: where(condition, 0, g)),
)  # fmt: skip


def where(condition: Tensor, input: Any = None, other: Any = None, *, out: Any = None) -> Any:
    """input where condition holds, else other; with the condition alone, where it holds."""
    require_tensor(condition, "where", "condition", 1)
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    if condition.dtype is not bool_:
        if condition.dtype.name != "uint8":
            raise RuntimeError(
                f"where expected condition to be a boolean tensor, but got a tensor with dtype "
                f"{scalar_name(condition.dtype)}"
            )
        defaults.warn_once(
            "where received a uint8 condition tensor. This behavior is deprecated and will be "
            "removed in a future version of PyTorch. Use a boolean condition instead."
        )
        condition = condition != 0
    if isinstance(out, Tensor) and out.dtype is not (kind := result_type(input, other)):
        raise RuntimeError(
            f"Expected out type to be {scalar_name(kind)} but got {scalar_name(out.dtype)}"
        )
    return apply(_where, (condition, input, other), out)


PUBLIC["where"] = where


def _where_method(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """This tensor where the condition holds, else the other."""
    return where(condition, self, other)


attach(where=_where_method)


_filled = ternary(
    "masked_fill",
    "condition a b",
    cpu.where,
    schema="masked_fill.{'Tensor' if hasattr(a, 'shape') else 'Scalar'}(b, condition, a)",
    operands=Operands(masks=1),
    gpu="where",
    grad=(
        None,
        lambda g, condition: g.masked_fill(~condition, 0),
        lambda g, condition: g.masked_fill(condition, 0),
    ),
    layout="row-major",
)


@public(inplace=True)
def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """value where mask holds, else input; input's dtype stays."""
    if mask.dtype is not bool_:
        raise RuntimeError(
            f"masked_fill only supports boolean masks, but got mask with dtype {mask.dtype}"
        )
    if isinstance(value, Tensor):
        if value.ndim:
            raise RuntimeError(
                f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                f"{value.ndim} dimension(s)."
            )
        if value.is_complex() and not input.is_complex():
            raise RuntimeError(
                f"value cannot be converted to type {_dtype_name(input.dtype)} without overflow"
            )
        value = value.to(input.dtype)
    else:
        value = convert_number(value, input.dtype)
        if category(input.dtype) < 2:
            value = bool(value) if input.dtype is bool_ else int(value)
    return apply(_filled, (mask, value, input))


def _fill_where(array: Any, mask: Any, value: Any) -> None:
    np.copyto(array, np.asarray(value).astype(array.dtype), where=mask)


accepts_expanded("masked_fill_", _fill_where)
