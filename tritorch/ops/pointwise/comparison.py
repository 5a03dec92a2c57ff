"""Comparisons, logic on bools, logic on bits."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tritorch.core import dtype as dtypes
from tritorch.core.dtype import bool_
from tritorch.core.promotion import scalar_name
from tritorch.core.tensor import Tensor
from tritorch.ops.record.checks import require_tensor
from tritorch.ops.record.kinds import attach_operator, binary
from tritorch.ops.record.outputs import exact_out
from tritorch.ops.record.pointwise import ALWAYS_BOOL
from tritorch.ops.record.publishing import public
from tritorch.ops.shape.factory import tensor

_compare = functools.partial(binary, rule=ALWAYS_BOOL, numbers="other")
eq = _compare("eq", np.equal, operator="eq")
ne = _compare("ne", np.not_equal, operator="ne", shown="ne", aliases=("not_equal",))
lt = _compare("lt", np.less, operator="lt", shown="lt", aliases=("less",), without="complex")
le = _compare("le", np.less_equal, operator="le", shown="le", aliases=("less_equal",),
              without="complex")  # fmt: skip
gt = _compare("gt", np.greater, operator="gt", shown="gt", aliases=("greater",), without="complex")
ge = _compare("ge", np.greater_equal, operator="ge", shown="ge", aliases=("greater_equal",),
              without="complex")  # fmt: skip

logical_and = binary("logical_and", np.logical_and, rule=ALWAYS_BOOL, numbers="none")
logical_or = binary("logical_or", np.logical_or, rule=ALWAYS_BOOL, numbers="none")
logical_xor = binary("logical_xor", np.logical_xor, rule=ALWAYS_BOOL, numbers="none")

bitwise_and = binary(
    "bitwise_and", np.bitwise_and, without="float complex", operator="and", shown="- bitwise_and"
)
bitwise_or = binary(
    "bitwise_or", np.bitwise_or, without="float complex", operator="or", shown="- bitwise_or"
)
bitwise_xor = binary(
    "bitwise_xor", np.bitwise_xor, without="float complex", operator="xor", shown="- bitwise_xor"
)
bitwise_left_shift = binary("bitwise_left_shift", np.left_shift, without="bool float complex",
                            operator="lshift")  # fmt: skip
bitwise_right_shift = binary("bitwise_right_shift", np.right_shift, without="bool float complex",
                             operator="rshift")  # fmt: skip
attach_operator("lshift", Tensor.__lshift__, Tensor.bitwise_left_shift_)


@public()
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether both have one shape and the same elements."""
    require_tensor(input, "equal", "input", 1)
    require_tensor(other, "equal", "other", 2)
    if input.shape != other.shape:
        return False
    return bool(eq(input, other).all())


@public()
def isclose(
    input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """|input - other| <= atol + rtol * |other|, for each pair."""
    require_tensor(input, "isclose", "input", 1)
    require_tensor(other, "isclose", "other", 2)
    if input.dtype is not other.dtype:
        raise RuntimeError(f"{input.dtype} did not match {other.dtype}")
    for value, name in ((rtol, "rtol"), (atol, "atol")):
        if value < 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {value}")
    close = eq(input, other)
    inexact = input.is_floating_point() or input.is_complex()
    if equal_nan and inexact:
        close = close | (input.isnan() & other.isnan())
    if not inexact:
        if rtol == 0 and atol == 0:
            return close
        allowed = atol + (rtol * other.to(PUBLIC_FLOAT())).abs()
        error = (input.to(PUBLIC_FLOAT()) - other.to(PUBLIC_FLOAT())).abs()
        return close | (error <= allowed)
    error = (input - other).abs()
    allowed = atol + (rtol * other).abs()
    return close | (error.isfinite() & (error <= allowed))


def PUBLIC_FLOAT() -> Any:
    return dtypes.float64


@public()
def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Whether all pairs are close."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


@public(out=True)
@exact_out("structured")
def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Tensor:
    """Whether each element is among the test elements."""
    if not isinstance(elements, Tensor):
        elements = tensor(elements, device=test_elements.device)
    if not isinstance(test_elements, Tensor):
        test_elements = tensor(test_elements, device=elements.device)
    for x in (elements, test_elements):
        if x.dtype is bool_ or x.is_complex():
            raise RuntimeError(
                f"Unsupported input type encountered for isin(): {scalar_name(x.dtype)}"
            )
    if elements.is_cpu and test_elements.numel() < int(10 * elements.numel() ** 0.145):
        test_elements.view(-1)  # PyTorch refuses what is no view of few test elements
    found = eq(elements.unsqueeze(-1), test_elements.reshape(-1)).any(-1)
    return ~found if invert else found
