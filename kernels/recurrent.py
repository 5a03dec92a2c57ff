"""Recurrent networks: what is between the matrix products of one step.

Rows are sequences; a row of gates holds the parts of all gates one after the other, `hidden`
columns each.  One program computes BLOCK states.
"""

import triton
import triton.language as tl

from .copy import convert
from .scalar.elementary import expm1, negated, odd, quotient, tanh


@triton.jit
def straight_tanh(x):
    """tanh without libdevice's branch, behind which fewer loads are under way together."""
    t = expm1(2 * tl.minimum(tl.abs(x), 30.0))
    return odd(x, quotient(t, t + 2))


@triton.jit
def sigmoid(x):
    return 1 / (1 + tl.exp(negated(x)))


@triton.jit
def read(ptr, offsets, mask, COMPUTE: tl.constexpr):
    """Elements, in the type that is computed in."""
    return tl.load(ptr + offsets, mask=mask, other=0.0).to(COMPUTE)


@triton.jit
def write(ptr, offsets, value, mask):
    """Elements, in the type that is stored."""
    tl.store(ptr + offsets, convert(value, ptr.dtype.element_ty), mask=mask)


@triton.jit
def lstm_step(
    x_ptr, z_ptr, h_ptr, c_ptr, act_ptr, cell_ptr, out_ptr, n_states, hidden,
    COMPUTE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """c = f c + i g; h = o tanh(c), with gates of x + z (i, f, g, o)."""
    state = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = state < n_states
    first = (state // hidden) * 4 * hidden + state % hidden
    second, third, fourth = first + hidden, first + 2 * hidden, first + 3 * hidden
    i = sigmoid(read(x_ptr, first, mask, COMPUTE) + read(z_ptr, first, mask, COMPUTE))
    f = sigmoid(read(x_ptr, second, mask, COMPUTE) + read(z_ptr, second, mask, COMPUTE))
    g = tanh(read(x_ptr, third, mask, COMPUTE) + read(z_ptr, third, mask, COMPUTE))
    o = sigmoid(read(x_ptr, fourth, mask, COMPUTE) + read(z_ptr, fourth, mask, COMPUTE))
    c = f * read(c_ptr, state, mask, COMPUTE) + i * g
    h = o * tanh(c)
    write(act_ptr, first, i, mask)
    write(act_ptr, second, f, mask)
    write(act_ptr, third, g, mask)
    write(act_ptr, fourth, o, mask)
    write(c_ptr, state, c, mask)
    write(cell_ptr, state, c, mask)
    write(h_ptr, state, h, mask)
    write(out_ptr, state, h, mask)


@triton.jit
def lstm_step_backward(
    g_ptr, dh_ptr, dc_ptr, act_ptr, cell_ptr, before_ptr, dz_ptr, n_states, hidden,
    COMPUTE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradients of the gates; dc becomes that of the cell before (`before_ptr`)."""
    state = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = state < n_states
    first = (state // hidden) * 4 * hidden + state % hidden
    second, third, fourth = first + hidden, first + 2 * hidden, first + 3 * hidden
    i = read(act_ptr, first, mask, COMPUTE)
    f = read(act_ptr, second, mask, COMPUTE)
    g = read(act_ptr, third, mask, COMPUTE)
    o = read(act_ptr, fourth, mask, COMPUTE)
    t = straight_tanh(read(cell_ptr, state, mask, COMPUTE))
    dh = read(dh_ptr, state, mask, COMPUTE) + read(g_ptr, state, mask, COMPUTE)
    dc = read(dc_ptr, state, mask, COMPUTE) + dh * o * (1 - t * t)
    write(dz_ptr, first, dc * g * i * (1 - i), mask)
    write(dz_ptr, second, dc * read(before_ptr, state, mask, COMPUTE) * f * (1 - f), mask)
    write(dz_ptr, third, dc * i * (1 - g * g), mask)
    write(dz_ptr, fourth, dh * t * o * (1 - o), mask)
    write(dc_ptr, state, dc * f, mask)


@triton.jit
def gru_step(
    x_ptr, z_ptr, bias_ptr, h_ptr, act_ptr, inner_ptr, out_ptr, n_states, hidden,
    HAS_BIAS: tl.constexpr, COMPUTE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """n = tanh(x + r (z + bias)); h = n + u (h - n), with gates r, u, n."""
    state = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = state < n_states
    column = state % hidden
    first = (state // hidden) * 3 * hidden + column
    second, third = first + hidden, first + 2 * hidden
    from_r = read(z_ptr, first, mask, COMPUTE)
    from_u = read(z_ptr, second, mask, COMPUTE)
    inner = read(z_ptr, third, mask, COMPUTE)
    if HAS_BIAS:
        from_r += read(bias_ptr, column, mask, COMPUTE)
        from_u += read(bias_ptr, column + hidden, mask, COMPUTE)
        inner += read(bias_ptr, column + 2 * hidden, mask, COMPUTE)
    r = sigmoid(read(x_ptr, first, mask, COMPUTE) + from_r)
    u = sigmoid(read(x_ptr, second, mask, COMPUTE) + from_u)
    new = tanh(read(x_ptr, third, mask, COMPUTE) + r * inner)
    h = new + u * (read(h_ptr, state, mask, COMPUTE) - new)
    write(act_ptr, first, r, mask)
    write(act_ptr, second, u, mask)
    write(act_ptr, third, new, mask)
    write(inner_ptr, state, inner, mask)
    write(h_ptr, state, h, mask)
    write(out_ptr, state, h, mask)


@triton.jit
def gru_step_backward(
    g_ptr, dh_ptr, act_ptr, inner_ptr, before_ptr, dx_ptr, dz_ptr, n_states, hidden,
    COMPUTE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradients of the gates by way of the input (dx) and of the hidden state (dz); dh becomes
    its share that does not pass the gates."""
    state = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = state < n_states
    first = (state // hidden) * 3 * hidden + state % hidden
    second, third = first + hidden, first + 2 * hidden
    r = read(act_ptr, first, mask, COMPUTE)
    u = read(act_ptr, second, mask, COMPUTE)
    new = read(act_ptr, third, mask, COMPUTE)
    dh = read(dh_ptr, state, mask, COMPUTE) + read(g_ptr, state, mask, COMPUTE)
    d_new = dh * (1 - u) * (1 - new * new)
    d_u = dh * (read(before_ptr, state, mask, COMPUTE) - new) * u * (1 - u)
    d_r = d_new * read(inner_ptr, state, mask, COMPUTE) * r * (1 - r)
    write(dx_ptr, first, d_r, mask)
    write(dz_ptr, first, d_r, mask)
    write(dx_ptr, second, d_u, mask)
    write(dz_ptr, second, d_u, mask)
    write(dx_ptr, third, d_new, mask)
    write(dz_ptr, third, d_new * r, mask)
    write(dh_ptr, state, dh * u, mask)


@triton.jit
def rnn_step(
    x_ptr, z_ptr, bias_ptr, h_ptr, out_ptr, n_states, hidden,
    HAS_BIAS: tl.constexpr, TANH: tl.constexpr, COMPUTE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """h = tanh(x + z + bias), or relu."""
    state = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = state < n_states
    y = read(x_ptr, state, mask, COMPUTE) + read(z_ptr, state, mask, COMPUTE)
    if HAS_BIAS:
        y += read(bias_ptr, state % hidden, mask, COMPUTE)
    if TANH:
        h = tanh(y)
    else:
        h = tl.where(y < 0, 0.0, y)  # NaN stays
    write(h_ptr, state, h, mask)
    write(out_ptr, state, h, mask)


@triton.jit
def rnn_step_backward(
    g_ptr, dh_ptr, out_ptr, dz_ptr, n_states,
    TANH: tl.constexpr, COMPUTE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradient of what the nonlinearity was given."""
    state = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = state < n_states
    d = read(dh_ptr, state, mask, COMPUTE) + read(g_ptr, state, mask, COMPUTE)
    y = read(out_ptr, state, mask, COMPUTE)
    if TANH:
        d *= 1 - y * y
    else:
        d = tl.where(y > 0, d, 0.0)
    write(dz_ptr, state, d, mask)
