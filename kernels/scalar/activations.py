"""Scalar activations and their gradients: g is the output's gradient, y the output."""

import triton
import triton.language as tl

from .elementary import exp, expm1, like, log1p, negated, quotient, tanh
from .special import sigmoid

# ---- without a parameter -----------------------------------------------------------------------


@triton.jit
def relu(x):
    return tl.where(x > 0, x, tl.where(x == x, 0, x)).to(x.dtype)


@triton.jit
def relu_backward(g, y):
    return tl.where(y <= 0, 0.0, g).to(g.dtype)


@triton.jit
def sigmoid_backward(g, y):
    return g * (y * (1 - y))


@triton.jit
def tanh_backward(g, y):
    return g * (1 - y * y)


@triton.jit
def log_sigmoid(x):
    return tl.minimum(x, 0.0) - log1p(exp(negated(tl.abs(x))))


@triton.jit
def gelu(x):
    return 0.5 * x * (1 + tl.math.erf(x * 0.70710678118654752440))


@triton.jit
def gelu_backward(g, x):
    cdf = 0.5 * (1 + tl.math.erf(x * 0.70710678118654752440))
    return g * (cdf + x * exp(-0.5 * x * x) * 0.39894228040143267794)


@triton.jit
def gelu_backward_of(g, x, out):
    cdf = quotient(out + 0.5e-30, x + 1e-30)  # 1 / 2 at 0
    known = tl.abs(cdf) < float("inf")
    cdf = tl.where(known, cdf, 0.5 * (1 + tl.math.erf(x * 0.70710678118654752440)))
    return g * (cdf + x * exp(-0.5 * x * x) * 0.39894228040143267794)


@triton.jit
def gelu_tanh(x):
    return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)))


@triton.jit
def gelu_tanh_backward(g, x):
    t = tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x))
    slope = 0.79788456080286535588 * (1 + 0.134145 * x * x)
    return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope)


@triton.jit
def silu(x):
    return quotient(x, 1 + exp(negated(x)))


@triton.jit
def silu_backward(g, x):
    s = sigmoid(x)
    return g * s * (1 + x * (1 - s))


@triton.jit
def logsigmoid(x):
    return tl.where(x < 0, x, 0.0).to(x.dtype) - log1p(exp(negated(tl.abs(x))))


@triton.jit
def logsigmoid_backward(g, x):
    return g * sigmoid(negated(x))


@triton.jit
def mish(x):
    """x tanh(softplus(x)), of float64 as n / (n + 2), n = e (e + 2), e = exp(x)."""
    if x.dtype != tl.float64:
        return x * tanh(softplus(x, 1.0, 20.0))
    e = exp(tl.minimum(x, 20.0))
    n = e * (e + 2)
    return x * quotient(n, n + 2)


@triton.jit
def mish_backward(g, x):
    t = tanh(softplus(x, 1.0, 20.0))
    return g * (t + x * sigmoid(x) * (1 - t * t))


@triton.jit
def hardswish(x):
    return quotient(x * hardtanh(x + 3, 0.0, 6.0), like(x, 6.0))


@triton.jit
def hardswish_backward(g, x):
    inside = g * (quotient(x, like(x, 3.0)) + 0.5)
    return tl.where(x <= -3, 0.0, tl.where(x < 3, inside, g)).to(g.dtype)


@triton.jit
def hardsigmoid(x):
    return quotient(hardtanh(x + 3, 0.0, 6.0), like(x, 6.0))


@triton.jit
def hardsigmoid_backward(g, x):
    return tl.where((x > -3) & (x < 3), quotient(g, like(g, 6.0)), 0.0).to(g.dtype)


# ---- with parameters ---------------------------------------------------------------------------


@triton.jit
def threshold(x, at, value):
    return tl.where(x <= at, value, x)


@triton.jit
def threshold_backward(g, x, at):
    return tl.where(x <= at, 0.0, g).to(g.dtype)


@triton.jit
def hardtanh(x, low, high):
    return tl.where(x < low, low, tl.where(x > high, high, x)).to(x.dtype)


@triton.jit
def hardtanh_backward(g, x, low, high):
    return tl.where((x <= low) | (x >= high), 0.0, g).to(g.dtype)


@triton.jit
def leaky_relu(x, slope):
    return tl.where(x > 0, x, x * slope)


@triton.jit
def leaky_relu_backward(g, x, slope):
    return tl.where(x > 0, g, g * slope)


@triton.jit
def elu(x, alpha, scale, input_scale):
    """scale * x where x is positive, else scale * alpha * (e^(x * input_scale) - 1)."""
    return tl.where(x > 0, x * scale, expm1(x * input_scale) * (alpha * scale))


@triton.jit
def softplus(x, beta, threshold):
    """log(1 + e^(beta x)) / beta, and x where beta x passes the threshold."""
    y = x * beta
    return tl.where(y > threshold, x, quotient(log1p(exp(y)), like(x, 0.0) + beta))


@triton.jit
def softplus_backward(g, x, beta, threshold):
    y = x * beta
    return tl.where(y > threshold, g, g * sigmoid(y))


@triton.jit
def nan_to_num(x, nan, posinf, neginf):
    y = tl.where(x == float("inf"), posinf, tl.where(x == -float("inf"), neginf, x))
    return tl.where(x != x, nan, y)
