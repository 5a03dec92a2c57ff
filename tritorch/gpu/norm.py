"""Normalisation and its gradients.

# Note [Affine gradients]
The gradients of weights are sums over many rows.  Programs sum parts of them into one row of
partial sums each, and a second kernel adds those in order: no atomics, the same bits every time.
"""

from __future__ import annotations

import math
from typing import Any

from tritorch import _C
from tritorch._triton.kernel import kernel
from tritorch.core.dtype import dtype, float32, float64
from tritorch.gpu.layout import INT32_MAX, block_size, float_bits
from tritorch.gpu.matmul import triton_name
from tritorch.gpu.softmax import row_blocks

Array = _C.Array
_PROGRAMS = 256


def _compute(kind: dtype) -> dtype:
    return float64 if kind is float64 else float32


def _new(shape: Any, kind: dtype, like: Array) -> Array:
    return _C.empty(shape, kind, like.device_index)


def _rows(
    x: Array, shape: tuple[int, int], weight: Array | None, bias: Array | None, eps: float,
    rms: bool, grouping: tuple[int, int, int] | None,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Normalised rows; grouping: groups, channels of each, elements of each channel."""
    n_rows, n_cols = shape
    compute = _compute(x.dtype)
    out, mean, rstd = _new(x.shape, x.dtype, x), _new(n_rows, compute, x), _new(n_rows, compute, x)
    if n_rows == 0:
        return out, mean, rstd
    x = x.contiguous()  # rows as (n_rows, n_cols), like the output
    looped, rows, cols, warps = row_blocks(n_rows, n_cols, 1)
    kernel("norm", "norm_looped" if looped else "norm_rows")(
        (-(-n_rows // rows),), x, _dense(weight, x), _dense(bias, x), out, mean, rstd, n_rows,
        n_cols, *(grouping or (1, 1, 1)), float_bits(eps), RMS=rms, HAS_WEIGHT=weight is not None,
        HAS_BIAS=bias is not None, GROUPED=grouping is not None, COMPUTE=triton_name(compute),
        WIDE=n_rows * n_cols > INT32_MAX, BLOCK_ROWS=rows, BLOCK_COLS=cols, num_warps=warps,
    )  # fmt: skip
    return out, mean, rstd


def _dense(weight: Array | None, x: Array) -> Array:
    """A weight, indexed by one number; x stands for one that is not there."""
    return x if weight is None else weight.contiguous()


def _rows_backward(
    g: Array, x: Array, shape: tuple[int, int], weight: Array | None, mean: Array | None,
    rstd: Array, grouping: tuple[int, int, int] | None,
) -> Array:  # fmt: skip
    n_rows, n_cols = shape
    dx = _new(x.shape, x.dtype, x)
    if dx.numel() == 0:
        return dx
    looped, rows, cols, warps = row_blocks(n_rows, n_cols, 1)
    kernel("norm", "norm_looped_backward" if looped else "norm_rows_backward")(
        (-(-n_rows // rows),), g, x, _dense(weight, x), rstd if mean is None else mean, rstd, dx,
        n_rows, n_cols, *(grouping or (1, 1, 1)), RMS=mean is None, HAS_WEIGHT=weight is not None,
        GROUPED=grouping is not None, COMPUTE=triton_name(_compute(x.dtype)),
        WIDE=n_rows * n_cols > INT32_MAX, BLOCK_ROWS=rows, BLOCK_COLS=cols, num_warps=warps,
    )  # fmt: skip
    return dx


def channel_blocks(n_channels: int, spatial: int, n_elements: int) -> tuple[int, int, int, int]:
    """BLOCK_C, BLOCK_K, the number of parts and their length, for sums over each channel."""
    if spatial < 16:  # neighbours in memory are channels
        block_c, block_k = min(1 << max(n_channels - 1, 0).bit_length(), 128), 16
    else:
        block_c, block_k = 1, 1024
    steps = max(-(-n_elements // block_k), 1)
    splits = min(max(_PROGRAMS // -(-n_channels // block_c), 1), steps)
    per = -(-steps // splits) * block_k
    return block_c, block_k, max(-(-n_elements // per), 1), per


def _channel_sums(
    g: Array, x: Array, channels: tuple[int, int, int], mean: Array | None, rstd: Array,
    place: tuple[int, int, int], kind: dtype,
) -> tuple[Array, Array]:  # fmt: skip
    """sum(g * normal) and sum(g) of each channel: see Note [Affine gradients]."""
    n_outer, n_channels, spatial = channels
    compute = _compute(x.dtype)
    dw, db = _new(n_channels, kind, x), _new(n_channels, kind, x)
    if n_channels == 0:
        return dw, db
    n = n_outer * spatial
    block_c, block_k, splits, per = channel_blocks(n_channels, spatial, n)
    partial = _new((splits, 2, n_channels), compute, x)
    kernel("norm", "channel_sums")(
        (-(-n_channels // block_c), splits), g, x, rstd if mean is None else mean, rstd, partial,
        n_channels, max(spatial, 1), n, per, *place, HAS_MEAN=mean is not None,
        COMPUTE=triton_name(compute), WIDE=n * n_channels > INT32_MAX, BLOCK_C=block_c,
        BLOCK_K=block_k, num_warps=4,
    )  # fmt: skip
    kernel("norm", "finish_channel_sums")(
        (-(-n_channels // 128),), partial, dw, db, n_channels, splits, BLOCK=128
    )
    return dw, db


def _split_shape(x: Array, n: int) -> tuple[int, int]:
    lead = x.ndim - n
    return math.prod(x.shape[:lead]), math.prod(x.shape[lead:])


def _view(x: Array, shape: tuple[int, ...]) -> Array:
    return x.reshape_view(shape)  # type: ignore[return-value]


def layer_norm(
    x: Array, n: int, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    """(x - mean) * rstd * weight + bias over the last n dims."""
    out, mean, rstd = _rows(x, _split_shape(x, n), weight, bias, eps, False, None)
    lead = x.shape[: x.ndim - n]
    return out, _view(mean, lead), _view(rstd, lead)


def layer_norm_backward(
    g: Array, x: Array, n: int, weight: Array | None, mean: Array, rstd: Array
) -> tuple[Array, Array, Array]:
    """The gradients of x, weight and bias."""
    shape, kind = _split_shape(x, n), x.dtype if weight is None else weight.dtype
    g, x, mean, rstd = g.contiguous(), x.contiguous(), mean.contiguous(), rstd.contiguous()
    dx = _rows_backward(g, x, shape, weight, mean, rstd, None)
    dw, db = _channel_sums(g, x, (shape[0], shape[1], 1), mean, rstd, (1, 1, 0), kind)
    inner = x.shape[x.ndim - n :]
    return dx, _view(dw, inner), _view(db, inner)


def rms_norm(x: Array, n: int, weight: Array | None, eps: float) -> tuple[Array, Array]:
    """x * rstd * weight over the last n dims."""
    out, _, rstd = _rows(x, _split_shape(x, n), weight, None, eps, True, None)
    return out, _view(rstd, x.shape[: x.ndim - n])


def rms_norm_backward(
    g: Array, x: Array, n: int, weight: Array | None, rstd: Array
) -> tuple[Array, Array]:
    """The gradients of x and weight."""
    shape, kind = _split_shape(x, n), x.dtype if weight is None else weight.dtype
    g, x, rstd = g.contiguous(), x.contiguous(), rstd.contiguous()
    dx = _rows_backward(g, x, shape, weight, None, rstd, None)
    dw, _ = _channel_sums(g, x, (shape[0], shape[1], 1), None, rstd, (1, 1, 0), kind)
    return dx, _view(dw, x.shape[x.ndim - n :])


def _grouping(x: Array, groups: int) -> tuple[tuple[int, int], tuple[int, int, int]]:
    channels, spatial = x.shape[1], math.prod(x.shape[2:])
    per_group = channels // groups
    return (x.shape[0] * groups, per_group * spatial), (groups, per_group, max(spatial, 1))


def group_norm(
    x: Array, groups: int, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    """Normalised over groups of channels."""
    shape, grouping = _grouping(x, groups)
    out, mean, rstd = _rows(x, shape, weight, bias, eps, False, grouping)
    return out, _view(mean, (x.shape[0], groups)), _view(rstd, (x.shape[0], groups))


def group_norm_backward(
    g: Array, x: Array, groups: int, weight: Array | None, mean: Array, rstd: Array
) -> tuple[Array, Array, Array]:
    """The gradients of x, weight and bias."""
    shape, grouping = _grouping(x, groups)
    kind = x.dtype if weight is None else weight.dtype
    g, x, mean, rstd = g.contiguous(), x.contiguous(), mean.contiguous(), rstd.contiguous()
    dx = _rows_backward(g, x, shape, weight, mean, rstd, grouping)
    channels = (x.shape[0], x.shape[1], math.prod(x.shape[2:]))
    dw, db = _channel_sums(g, x, channels, mean, rstd, (groups, grouping[1], 1), kind)
    return dx, dw, db


def _channels(x: Array) -> tuple[int, int, int]:
    return x.shape[0], x.shape[1], math.prod(x.shape[2:])


def batch_norm(
    x: Array, weight: Array | None, bias: Array | None, mean: Array | None, var: Array | None,
    training: bool, eps: float,
) -> tuple[Array, Array, Array, Array]:  # fmt: skip
    """Normalised over all dims but the channels: out, mean, rstd, variance."""
    n_outer, n_channels, spatial = _channels(x)
    compute = _compute(x.dtype)
    x = x.contiguous()
    out = _new(x.shape, x.dtype, x)
    average, rstd, variance = (_new(n_channels, compute, x) for _ in range(3))
    if n_channels == 0:
        return out, average, rstd, variance
    n = n_outer * spatial
    block_c, block_k, splits, per = channel_blocks(n_channels, spatial, n)
    partial = average
    if training:
        partial = _new((splits, 2, n_channels), compute, x)
        kernel("norm", "channel_statistics")(
            (-(-n_channels // block_c), splits), x, partial, n_channels, max(spatial, 1), n, per,
            COMPUTE=triton_name(compute), WIDE=n * n_channels > INT32_MAX, BLOCK_C=block_c,
            BLOCK_K=block_k, num_warps=4,
        )  # fmt: skip
    kernel("norm", "finish_channel_statistics")(
        (-(-n_channels // 128),), partial, _dense(None if training else mean, x),
        _dense(None if training else var, x), average, rstd, variance, n_channels, n, per, splits,
        float_bits(eps), GIVEN=not training, COMPUTE=triton_name(compute), BLOCK=128,
    )  # fmt: skip
    if out.numel():
        block, warps = block_size(out.numel())
        kernel("norm", "batch_norm")(
            (-(-out.numel() // block),), x, _dense(weight, x), _dense(bias, x), average, rstd, out,
            out.numel(), n_channels, spatial, HAS_WEIGHT=weight is not None,
            HAS_BIAS=bias is not None, COMPUTE=triton_name(compute), WIDE=out.numel() > INT32_MAX,
            BLOCK=block, num_warps=warps,
        )  # fmt: skip
    return out, average, rstd, variance


def batch_norm_backward(
    g: Array, x: Array, weight: Array | None, mean: Array, rstd: Array, training: bool
) -> tuple[Array, Array, Array]:
    """The gradients of x, weight and bias."""
    channels = _channels(x)
    compute = _compute(x.dtype)
    g, x, mean, rstd = g.contiguous(), x.contiguous(), mean.contiguous(), rstd.contiguous()
    dw, db = _channel_sums(g, x, channels, mean, rstd, (0, 1, 1), compute)
    dx = _new(x.shape, x.dtype, x)
    n = x.numel()
    if n:
        block, warps = block_size(n)
        kernel("norm", "batch_norm_backward")(
            (-(-n // block),), g, x, _dense(weight, x), mean, rstd, dw, db, dx, n, channels[1],
            channels[2], HAS_WEIGHT=weight is not None, TRAINING=training,
            COMPUTE=triton_name(compute), WIDE=n > INT32_MAX, BLOCK=block, num_warps=warps,
        )  # fmt: skip
    kind = x.dtype if weight is None else weight.dtype
    return dx, dw.astype(kind), db.astype(kind)
