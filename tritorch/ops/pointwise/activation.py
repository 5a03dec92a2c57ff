"""Activations (torch.nn.functional)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.core import defaults, published
from tritorch.core.dims import wrap_dim
from tritorch.core.dtype import float32, float64
from tritorch.core.promotion import category, not_implemented, scalar_name
from tritorch.core.published import FUNCTIONAL, PUBLIC, autocast, computes
from tritorch.core.tensor import Tensor, attach
from tritorch.host.chains.chained import Chained
from tritorch.host.pointwise import pointwise as cpu
from tritorch.ops.pointwise.arithmetic import where
from tritorch.ops.pointwise.pointwise import sigmoid, tanh
from tritorch.ops.record.apply import apply, widened
from tritorch.ops.record.backends import composed_backend
from tritorch.ops.record.checks import convert_number, require_kernel, require_tensor
from tritorch.ops.record.ends import ends_with
from tritorch.ops.record.groups import Gradient, Without
from tritorch.ops.record.kinds import ternary, unary
from tritorch.ops.record.operator import FLOATS, Operator, laid_out, lies
from tritorch.ops.record.outputs import exact_out
from tritorch.ops.record.pointwise import INT_TO_FLOAT
from tritorch.ops.record.publishing import (
    functional,
    functional_with_out,
    in_place_of,
    with_inplace,
)
from tritorch.ops.record.writing import differentiated
from tritorch.ops.reduce.reduction import vector_norm
from tritorch.ops.reduce.softmax import log_softmax, softmax
from tritorch.ops.shape.copying import written

# ---- fused ---------------------------------------------------------------------------------------

_relu_back = ternary(
    "relu_backward", "g_ y", cpu.relu_backward,
    schema="threshold_backward(g_, y, 0)", without="bool complex",
    composed=lambda g, y: where(y <= 0, 0, g),
)  # fmt: skip
relu = unary(
    "relu", cpu.relu,
    grad=lambda g, out: apply(_relu_back, (g, out)), zero="kept",
    without=Without("bool complex", says="Boolean inputs not supported for relu"), out=False,
)  # fmt: skip


def _fused(
    name: str, forward: Any, composed: Any, backward: Any, gradient: Any, schema: str = "",
    back_schema: str = "",
) -> Any:  # fmt: skip
    """An activation with a fused gradient; composed, gradient: both by smaller operators."""
    back = ternary(
        f"{name}_backward", "g_ x", backward, without="bool int complex", schema=back_schema,
        composed=gradient,
    )  # fmt: skip
    return unary(
        name, forward, rule=INT_TO_FLOAT, without="bool int complex", schema=schema,
        grad=lambda g, x: apply(back, (g, x)), composed=composed, method=False, public=False,
        inplace=False,
    )  # fmt: skip


INV_SQRT2 = 1 / math.sqrt(2)
INV_SQRT_2PI = 1 / math.sqrt(2 * math.pi)
KAPPA = math.sqrt(2 / math.pi)


def _gelu_grad(g: Tensor, x: Tensor) -> Tensor:
    cdf = 0.5 * (1 + (x * INV_SQRT2).erf())
    return g * (cdf + x * (-0.5 * x * x).exp() * INV_SQRT_2PI)


def _gelu_tanh_grad(g: Tensor, x: Tensor) -> Tensor:
    inner = KAPPA * (x + 0.044715 * x * x * x)
    t = inner.tanh()
    return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * (KAPPA * (1 + 3 * 0.044715 * x * x)))


def _silu_grad(g: Tensor, x: Tensor) -> Tensor:
    s = x.sigmoid()
    return g * s * (1 + x * (1 - s))


_gelu_none = _fused(
    "gelu", cpu.gelu, lambda x: x * (1 + (x * INV_SQRT2).erf()) / 2, cpu.gelu_backward, _gelu_grad
)
_gelu_back_of = ternary(
    "gelu_backward_of", "g_ x y", cpu.gelu_backward_of, without="bool int complex",
    schema="(Tensor g_, Tensor x, Tensor y) -> Tensor", composed=lambda g, x, y: _gelu_grad(g, x),
)  # fmt: skip
# On the CPU erf is dear, and the quotient of the result and the argument has it.
_gelu_kept = unary(
    "gelu_on_host", cpu.gelu,
    schema="gelu(x)", gpu="gelu",
    grad=Gradient(lambda g, x, out: apply(_gelu_back_of, (g, x, out)), node="Gelu0", lends="out"),
    without="bool int complex", method=False, public=False, inplace=False,
)  # fmt: skip
_gelu_tanh = _fused(
    "gelu_tanh", cpu.gelu_tanh,
    lambda x: x * (1 + (KAPPA * (x + 0.044715 * x * x * x)).tanh()) / 2,
    cpu.gelu_tanh_backward, _gelu_tanh_grad,
    "gelu(x, approximate='tanh')", "gelu_backward(g_, x, approximate='tanh')",
)  # fmt: skip
_silu = _fused("silu", cpu.silu, lambda x: x * x.sigmoid(), cpu.silu_backward, _silu_grad)


@functional_with_out
@exact_out("found")
def gelu(input: Tensor, *, approximate: str = "none") -> Tensor:
    """x * Phi(x), exactly or by tanh."""
    if approximate == "none":
        exact = input.device.type == "cpu" and input.dtype in (float32, float64)
        return _gelu_kept(input) if exact else _gelu_none(input)
    if approximate == "tanh":
        return _gelu_tanh(input)
    raise RuntimeError("approximate argument must be either none or tanh.")


@with_inplace
def silu(input: Tensor) -> Tensor:
    """x * sigmoid(x)."""
    if input.is_complex():
        return input * input.sigmoid()
    return _silu(input)


def _relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0)."""
    require_tensor(input, "relu", "input", 1)
    return input.relu_() if inplace else input.relu()


FUNCTIONAL["relu"] = _relu
FUNCTIONAL["relu_"] = Tensor.relu_

# ---- compositions --------------------------------------------------------------------------------


def _floats_only(name: str, x: Tensor) -> None:
    if category(x.dtype) < 2:
        raise not_implemented(name, x.dtype)


def _record(
    name: str, params: str, of: Any, grad: Any, node: str, schema: str = "", chain: Any = None
) -> Operator:
    """An activation of several operators, recorded as one call.

    chain: the same of floats, by NumPy: dense arrays are computed in one pass (Note [Chains])."""
    op = Operator(
        name, "x", params,
        schema=schema, composed=of, grad=Gradient(grad, node=node), layout="elementwise",
    )  # fmt: skip
    if chain is not None:
        op.cpu = _C.Quiet(_by_chain(Chained(chain), composed_backend(of)))  # type: ignore[method-assign]
    return op


def _by_chain(run_chain: Any, composed: Any) -> Any:
    def run(x: Any, *params: Any) -> Any:
        found = run_chain(x, *params) if x.dtype in FLOATS else None
        return composed(x, *params) if found is None else found

    return run


def _limited(x: Tensor, low: float, high: float) -> Tensor:
    return x.clamp(low, high)


def _limited_grad(g: Tensor, x: Tensor, low: float, high: float) -> Tensor:
    return where((x > low) & (x < high), g, 0)


_hardtanh = _record("hardtanh", "low high", _limited, _limited_grad, "Hardtanh")


@with_inplace
@lies("copy")
def relu6(input: Tensor) -> Tensor:
    """min(max(x, 0), 6)."""
    if input.dtype.name == "bool":
        raise RuntimeError("Boolean inputs not supported for relu6")
    return _hardtanh.call((input,), (0, 6))


@with_inplace
@lies("copy")
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """x limited to [min_val, max_val]."""
    if input.dtype.name == "bool":
        raise RuntimeError("Bool inputs not supported for hardtanh")
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    if input.dtype.name == "uint8" and min(min_val, max_val) < 0:
        raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")
    if category(input.dtype) < 2:
        min_val, max_val = int(min_val), int(max_val)
    return _hardtanh.call((input,), (min_val, max_val))


_threshold = _record(
    "threshold", "limit value",
    lambda x, limit, value: x.masked_fill(x <= limit, value),
    lambda g, x, limit: where(x <= limit, 0, g), "Threshold",
)  # fmt: skip


@lies("elementwise")
def threshold(input: Tensor, threshold: float, value: float) -> Tensor:
    """x where it is above the threshold, else value."""
    require_kernel("threshold_cpu", input, "bool complex")
    if category(input.dtype) == 1:
        threshold = int(convert_number(threshold, input.dtype))
        value = int(convert_number(value, input.dtype))
    return _threshold.call((input,), (threshold, value))


with_inplace(threshold, in_place_of(ends_with("threshold_")(threshold), "threshold_"))


def _leaky(x: Any, slope: float, where: Any = where) -> Any:
    return where(x > 0, x, x * slope)


_leaky_relu = _record("leaky_relu", "slope", _leaky,
                      lambda g, x, slope: where(x > 0, g, g * slope), "LeakyRelu",
                      chain=lambda x, slope: _leaky(x, slope, np.where))  # fmt: skip
# In place, the sign of the result is that of the input.
_leaky_relu_ = _record(
    "leaky_relu_", "slope", _leaky, lambda g, out, slope: where(out > 0, g, g * slope), "LeakyRelu1"
)


def _leaky_relu_in_place(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    _floats_only("leaky_relu_cpu", input)
    if negative_slope < 0 and differentiated(input):
        raise RuntimeError(
            "In-place leakyReLu backward calculation is triggered with a negative slope which is "
            "not supported. This is caused by calling in-place forward function with a negative "
            "slope, please call out-of-place version instead. File an issue at "
            "https://github.com/pytorch/pytorch if you do require supporting in-place leakRelu "
            "backward calculation with negative slope"
        )
    return written(_leaky_relu_, input, (negative_slope,))


def leaky_relu(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """x, times the slope where it is negative."""
    _floats_only("leaky_relu_cpu", input)
    return _leaky_relu.call((input,), (negative_slope,))


with_inplace(leaky_relu, _leaky_relu_in_place)


@widened
def _exponential(x: Tensor, alpha: float, scale: float, input_scale: float) -> Tensor:
    negative = (x.clamp(max=0) * input_scale).expm1() * (alpha * scale)
    return where(x > 0, x * scale if scale != 1 else x, negative)


def _elu_grad(g: Tensor, x: Tensor, alpha: float, scale: float, input_scale: float) -> Tensor:
    negative = g * (input_scale * alpha * scale) * (x.clamp(max=0) * input_scale).exp()
    return where(x > 0, g * scale, negative)


def _elu_grad_of(g: Tensor, out: Tensor, alpha: float, scale: float, input_scale: float) -> Tensor:
    return where(out > 0, g * scale, g * input_scale * (out + alpha * scale))


_elu, _celu, _elu_, _celu_ = (
    _record(name, "alpha scale input_scale", _exponential, grad, node,
            f"{name.removeprefix('c')}(x, alpha, scale, input_scale)")
    for name, grad, node in (
        ("elu", _elu_grad, "Elu"), ("celu", _elu_grad, "Celu"),
        ("elu_", _elu_grad_of, "Elu1"), ("celu_", _elu_grad_of, "Celu1"),
    )
)  # fmt: skip


def _elu_with(op: Operator, input: Tensor, *params: float) -> Tensor:
    _floats_only("elu_cpu", input)
    return written(op, input, params) if op.name[-1] == "_" else op.call((input,), params)


def elu(input: Tensor, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Tensor:
    """x where positive, else alpha * (exp(x) - 1)."""
    return _elu_with(_elu, input, alpha, scale, input_scale)


def _elu_in_place(
    input: Tensor, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0
) -> Tensor:
    return _elu_with(_elu_, input, alpha, scale, input_scale)


_SELU = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1.0


def selu(input: Tensor) -> Tensor:
    """The self-normalising elu."""
    return _elu_with(_elu, input, *_SELU)


def celu(input: Tensor, alpha: float = 1.0) -> Tensor:
    """x where positive, else alpha * (exp(x / alpha) - 1)."""
    return _elu_with(_celu, input, *_celu_params(alpha))


def _celu_params(alpha: float) -> tuple[float, float, float]:
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return alpha, 1.0, 1.0 / alpha


with_inplace(elu, _elu_in_place, before=1)
with_inplace(selu, lambda input: _elu_with(_elu_, input, *_SELU))
with_inplace(celu, lambda input, alpha=1.0: _elu_with(_celu_, input, *_celu_params(alpha)))

_hardswish = _record(
    "hardswish", "", widened(lambda x: x * (x + 3).clamp(0, 6) / 6),
    lambda g, x: where(x <= -3, 0, where(x >= 3, g, g * (x / 3 + 0.5))), "Hardswish",
)  # fmt: skip


@with_inplace
@lies("elementwise")
def hardswish(input: Tensor) -> Tensor:
    """x * relu6(x + 3) / 6."""
    _floats_only("hardswish_cpu", input)
    return _hardswish.call((input,), ())


_hardsigmoid = _record(
    "hardsigmoid", "", lambda x: (x + 3).clamp(0.0, 6.0) / 6,
    lambda g, x: where((x > -3) & (x < 3), g / 6, 0), "Hardsigmoid",
)  # fmt: skip


@with_inplace
@lies("elementwise")
def hardsigmoid(input: Tensor) -> Tensor:
    """relu6(x + 3) / 6."""
    _floats_only("hardsigmoid_cpu", input)
    return _hardsigmoid.call((input,), ())


def _mish_grad(g: Tensor, x: Tensor) -> Tensor:
    soft = x.exp().log1p().tanh()
    return g * (soft + x * x.sigmoid() * (1 - soft * soft))


def _mish_of(x: Tensor) -> Tensor:
    """tanh(softplus(x)) is n / (n + 2), n = e (e + 2), e = exp(x): fewer roundings, of which those
    of floats would be larger below 0."""
    if x.dtype is not float64:
        return x * softplus(x).tanh()
    e = x.clamp_max(20).exp()
    n = e * (e + 2)
    return x * (n / (n + 2))


_mish = _record("mish", "", widened(_mish_of), _mish_grad, "Mish")


@with_inplace
@lies("elementwise")
def mish(input: Tensor) -> Tensor:
    """x * tanh(softplus(x))."""
    return _mish.call((input,), ())


def _smooth_relu(
    x: Any, beta: float, threshold: float,
    where: Any = where, exp: Any = Tensor.exp, log1p: Any = Tensor.log1p,
) -> Any:  # fmt: skip
    scaled = x * beta
    linear = scaled > threshold
    return where(linear, x, log1p(exp(where(linear, 0, scaled))) / beta)


_softplus = _record(
    "softplus", "beta threshold", widened(_smooth_relu),
    lambda g, x, beta, threshold: where(x * beta > threshold, g, g * (x * beta).sigmoid()),
    "Softplus",
    chain=lambda x, beta, threshold: _smooth_relu(x, beta, threshold, np.where, _C.exp, _C.log1p),
)  # fmt: skip


@functional_with_out
@lies("elementwise")
@autocast("cuda:float32")
@exact_out("found")
def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta * x)) / beta, x itself above the threshold."""
    _floats_only("softplus_cpu", input)
    return _softplus.call((input,), (beta, threshold))


_log_sigmoid = unary(
    "log_sigmoid",
    cpu.log_sigmoid,
    composed=lambda x: x.clamp(max=0) - (-x.abs()).exp().log1p(),
    without="bool int complex",
    layout="row-major",
    grad=lambda g, x: g * (-x).sigmoid(),
    method=False,
    public=False,
    inplace=False,
)


@functional_with_out
@exact_out("scalar type")
@computes("log_sigmoid")
def logsigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(x))."""
    _floats_only("log_sigmoid_cpu", input)
    return _log_sigmoid(input)


@functional
def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return input / (1 + input.abs())


@functional
def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x)."""
    return input - input.tanh()


def _within(x: Tensor, limit: float) -> Tensor:
    return (x >= -limit) & (x <= limit)


def _moved(x: Tensor, limit: float) -> Tensor:
    return where(x > limit, x - limit, where(x < -limit, x + limit, x * 0))


def _shrink_grad(g: Tensor, x: Tensor, limit: float) -> Tensor:
    return where((x < -limit) | (x > limit), g, 0)


_hardshrink = _record(
    "hardshrink", "limit", lambda x, limit: x.masked_fill(_within(x, limit), 0), _shrink_grad,
    "Hardshrink",
)  # fmt: skip
_softshrink = _record("softshrink", "limit", _moved, _shrink_grad, "Softshrink")


@functional_with_out
@lies("elementwise")
@exact_out("found")
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x outside [-lambd, lambd], else 0."""
    _floats_only("hardshrink_cpu", input)
    return _hardshrink.call((input,), (lambd,))


@functional_with_out
@lies("elementwise")
@exact_out("found")
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x moved towards 0 by lambd."""
    if lambd < 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd}.")
    _floats_only("softshrink_cpu", input)
    return _softshrink.call((input,), (lambd,))


@functional
@autocast("lower")
@ends_with("_prelu_kernel")
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x where positive, else weight * x, a weight for each channel."""
    if input.dtype is not weight.dtype:
        raise RuntimeError(
            f"prelu: Type promoting not supported. Got {scalar_name(input.dtype)} and "
            f"{scalar_name(weight.dtype)}"
        )
    if weight.ndim > 1 or (weight.ndim == 1 and weight.numel() > 1 and input.ndim == 0):
        if input.ndim == 0:
            raise RuntimeError("Not allow zero-dim input tensor.")
        raise RuntimeError(
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}"
        )
    if weight.ndim == 1 and weight.numel() > 1:
        channels = input.shape[1] if input.ndim > 1 else 1
        if channels != weight.numel():
            raise RuntimeError(
                f"Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                f"{weight.numel()} and channel size = {channels}."
            )
        weight = weight.reshape([-1 if i == 1 else 1 for i in range(input.ndim)])
    elif weight.ndim == 1:
        weight = weight.reshape([1] * input.ndim)
    require_kernel("prelu_cpu", input, "bool int complex")
    return laid_out("copy", where(input > 0, input, weight * input), input)


PUBLIC["prelu"] = prelu
attach(prelu=prelu)


@widened
def _halves_gated(x: Tensor, dim: int) -> Tensor:
    a, b = x.chunk(2, dim)
    return a * b.sigmoid()


@functional_with_out
@ends_with("glu")
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """One half times the sigmoid of the other."""
    if input.ndim == 0:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    wrapped = wrap_dim(dim, input.ndim)
    if input.shape[wrapped] % 2:
        raise RuntimeError(
            f"Halving dimension must be even, but dimension {wrapped} is size "
            f"{input.shape[wrapped]}"
        )
    require_kernel("glu_cpu", input, "bool int complex")
    return _halves_gated(input, wrapped)


@functional
@autocast("cuda:sum")
def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """softmax of -x."""
    if dim is None:
        dim = _get_softmax_dim("softmin", input.ndim, _stacklevel)
    return _softmax(-input, dim, _stacklevel, dtype)


def _get_softmax_dim(name: str, ndim: int, stacklevel: int) -> int:
    defaults.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if ndim in (0, 1, 3) else 1


def _softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """exp(x) / sum(exp(x)) along a dim."""
    if dim is None:
        dim = _get_softmax_dim("softmax", input.ndim, _stacklevel)
    return softmax(input, dim, dtype=dtype)


def _log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """log(softmax(x)) along a dim."""
    if dim is None:
        dim = _get_softmax_dim("log_softmax", input.ndim, _stacklevel)
    return log_softmax(input, dim, dtype=dtype)


FUNCTIONAL["softmax"] = _softmax
FUNCTIONAL["log_softmax"] = _log_softmax
FUNCTIONAL["sigmoid"] = sigmoid
FUNCTIONAL["tanh"] = tanh


@functional
def gumbel_softmax(
    logits: Any, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A sample of the Gumbel-softmax distribution; hard: as one-hot, with soft gradients."""
    if eps != 1e-10:
        defaults.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    require_tensor(logits, "empty_like", "input", 1)  # what PyTorch calls first
    noise = -published.public.empty_like(logits).exponential_().log()
    soft = softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    return published.public.zeros_like(logits).scatter(dim, index, 1.0) - soft.detach() + soft


@functional
@autocast("cuda:float32")
def normalize(
    input: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Any = None
) -> Tensor:
    """x divided by its p-norm along a dim."""
    result = input / vector_norm(input, p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return result if out is None else out.copy_(result)


for _name in ("selu", "celu", "threshold"):
    PUBLIC[_name] = FUNCTIONAL[_name]
PUBLIC["selu_"] = FUNCTIONAL["selu_"]
PUBLIC["celu_"] = FUNCTIONAL["celu_"]
PUBLIC["hardshrink"] = hardshrink
attach(hardshrink=hardshrink)
PUBLIC["relu_"] = Tensor.relu_
