"""Normalisation and its gradients.

# Note [Affine gradients]
The gradients of weights are sums over many rows.  Programs sum parts of them into one row of
partial sums each, and a second kernel adds those in order: no atomics, the same bits every time.
Where a row fits the registers, the programs that compute the input's gradient do it on the way;
there are a few of them on each multiprocessor, whatever the number of rows, so sums stay small.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from tritorch import _C
from tritorch.core.dtype import dtype, float32, float64
from tritorch.gpu.linalg.matmul import machine, triton_name
from tritorch.gpu.pointwise.layout import INT32_MAX, float_bits
from tritorch.gpu.reduce.softmax import cut_rows, row_plan
from tritorch.gpu.tuning import FAMILIES, measured
from tritorch.triton.kernel import kernel

Array = _C.Array
_WARPS = 16  # on a multiprocessor, of programs that go through many tiles
# Elements of a row whose gradient and whose weights' gradients fit the registers; in 16 bits
# without a bias, and with the weight brought anew for each row.
_HELD, _HELD_ALONE = 8192, 16384


def _compute(kind: dtype) -> dtype:
    return float64 if kind is float64 else float32


def _new(shape: Any, kind: dtype, like: Array) -> Array:
    return _C.empty(shape, kind, like.device_index)


def _dense(weight: Array | None, x: Array) -> Array:
    """A weight, indexed by one number; x stands for one that is not there."""
    return x if weight is None else weight.contiguous()


def _power(n: int) -> int:
    """The next power of 2."""
    return 1 << max(n - 1, 0).bit_length()


# ---- rows ----------------------------------------------------------------------------------------


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
    registers = compute.itemsize // 4 * (1 if grouping is None else 2)  # channels' numbers, too
    capability, processors = machine(x.device_index)
    work = "rms_norm" if rms else "layer_norm" if grouping is None else "group_norm"
    plan = row_plan(n_rows, n_cols, 1, registers, processors, capability, work, x.itemsize)
    arrays = x, _dense(weight, x), _dense(bias, x), out, mean, rstd
    sizes = n_rows, n_cols, *(grouping or (1, 1, 1)), float_bits(eps)
    constants = {
        "RMS": rms, "HAS_WEIGHT": weight is not None, "HAS_BIAS": bias is not None,
        "GROUPED": grouping is not None, "COMPUTE": triton_name(compute),
        "WIDE": n_rows * n_cols > INT32_MAX,
    }  # fmt: skip
    if plan.looped:
        plan.launch(
            kernel("norm", "norm_looped"), n_rows, n_cols, arrays, sizes,
            lambda shape: _new(shape, compute, x), **constants,
        )  # fmt: skip
    else:
        kernel("norm", "norm_rows")(
            (-(-n_rows // plan.rows),), *arrays, *sizes, **constants, **plan.constants(n_cols)
        )
    return out, mean, rstd


class GradientPlan(NamedTuple):
    """How rows are spread over programs that also sum over rows."""

    rows: int  # of a tile
    cols: int
    warps: int
    programs: int
    stages: int
    hold_weight: bool = True


def near_gradient(
    n_rows: int, n_cols: int, itemsize: int, processors: int, rms: bool, capability: int
) -> list[GradientPlan]:
    """Plans worth timing on sm_90: other numbers of rows, warps, programs and tiles ahead."""
    plan = FAMILIES["row_gradients"].model(n_rows, n_cols, itemsize, processors, rms)
    if plan is None or capability != 90:
        return []
    cols, most = plan.cols * max(itemsize // 4, 1), plan.stages
    cuts = [
        (stages, rows, warps)
        for stages in (most, most - 1)
        for rows in (plan.rows, plan.rows * 2, max(plan.rows // 2, 1))
        for warps in (plan.warps, plan.warps * 2, plan.warps // 2)
        if 2 <= warps <= 16 and rows * cols <= 512 * warps
    ]
    if not plan.hold_weight:  # a row takes all registers
        cuts = [(most, plan.rows, plan.warps)]
    found = [
        plan._replace(rows=rows, warps=warps, stages=stages, programs=min(-(-n_rows // rows), each))
        for stages, rows, warps in cuts
        for each in (processors * (_WARPS // warps), processors * (2 * _WARPS // warps))
    ]
    return list(dict.fromkeys(found))


@measured("row_gradients", GradientPlan, near_gradient)
def gradient_plan(
    n_rows: int, n_cols: int, itemsize: int = 2, processors: int = 132, rms: bool = False,
    capability: int = 0,
) -> GradientPlan | None:  # fmt: skip
    """None: a row does not fit the registers beside sums as long as it."""
    cols, registers = _power(n_cols), max(itemsize // 4, 1)
    alone = rms and itemsize == 2 and n_cols > _HELD
    if n_cols * registers**2 > (_HELD_ALONE if alone else _HELD):
        return None
    rows = min(_power(n_rows), max(2048 // (cols * registers), 1))
    warps = min(max(rows * cols * registers // 512, 4), 16)
    programs = min(-(-n_rows // rows), processors * (_WARPS // warps))
    # How far ahead loads are: shared memory has room for two tiles of 16 bits, one of more.
    stages = 1 if alone else 3 if itemsize == 2 else 2
    return GradientPlan(rows, cols, warps, programs, stages, not alone)


def _rows_backward(
    g: Array, x: Array, shape: tuple[int, int], weight: Array | None, mean: Array | None,
    rstd: Array,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """The gradients of rows, of their weight and of their bias: see Note [Affine gradients]."""
    n_rows, n_cols = shape
    compute, kind = _compute(x.dtype), x.dtype if weight is None else weight.dtype
    dx = _new(x.shape, x.dtype, x)
    registers, (capability, processors) = compute.itemsize // 4, machine(x.device_index)
    plan = None
    if dx.numel():
        plan = gradient_plan(n_rows, n_cols, x.itemsize, processors, mean is None, capability)
    arrays = g, x, _dense(weight, x), rstd if mean is None else mean, rstd, dx
    constants = {
        "RMS": mean is None, "HAS_WEIGHT": weight is not None, "COMPUTE": triton_name(compute),
        "WIDE": n_rows * n_cols > INT32_MAX,
    }  # fmt: skip
    if plan is not None:
        partial = _new((plan.programs, 2, n_cols), compute, x)
        kernel("norm", "norm_rows_backward")(
            (plan.programs,), *arrays, partial, n_rows, n_cols, STAGES=plan.stages,
            HOLD_WEIGHT=plan.hold_weight, ALIGN=math.gcd(n_cols, 16), BLOCK_ROWS=plan.rows,
            BLOCK_COLS=plan.cols, num_warps=plan.warps, **constants,
        )  # fmt: skip
        return dx, *_finish_sums(partial, kind, mean is not None)
    if dx.numel():
        rows = cut_rows(n_rows, n_cols, 1, 2048 // registers, 8, processors)
        rows.launch(
            kernel("norm", "norm_looped_backward"), n_rows, n_cols, arrays, (n_rows, n_cols),
            lambda shape: _new(shape, compute, x), **constants,
        )  # fmt: skip
    return dx, *_channel_sums(g, x, (n_rows, n_cols, 1), mean, rstd, kind, True)


def _finish_sums(partial: Array, kind: dtype, has_bias: bool = True) -> tuple[Array, Array]:
    """Both sums over parts."""
    n_splits, _, n_channels = partial.shape
    dw = _new(n_channels, kind, partial)
    db = _new(n_channels, kind, partial) if has_bias else dw
    if n_channels:
        block, warps = _power(min(max(n_splits, 1), 128)), 4 if n_splits <= 64 else 8
        kernel("channels", "finish_channel_sums")(
            (-(-n_channels // 32),), partial, dw, db, n_channels, n_splits, HAS_BIAS=has_bias,
            BLOCK_S=block, BLOCK=32, num_warps=warps,
        )  # fmt: skip
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
    g, x, mean, rstd = g.contiguous(), x.contiguous(), mean.contiguous(), rstd.contiguous()
    dx, dw, db = _rows_backward(g, x, _split_shape(x, n), weight, mean, rstd)
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
    g, x, rstd = g.contiguous(), x.contiguous(), rstd.contiguous()
    dx, dw, _ = _rows_backward(g, x, _split_shape(x, n), weight, None, rstd)
    return dx, _view(dw, x.shape[x.ndim - n :])


# ---- groups --------------------------------------------------------------------------------------


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


def group_tile(per_group: int, spatial: int) -> tuple[int, int, int]:
    """Channels, elements of each, and warps of a tile."""
    cols = min(_power(spatial), 2048)
    rows = min(_power(per_group), 4096 // cols)
    return rows, cols, 8 if rows * cols > 2048 else 4


def group_norm_backward(
    g: Array, x: Array, groups: int, weight: Array | None, mean: Array, rstd: Array
) -> tuple[Array, Array, Array]:
    """The gradients of x, weight and bias."""
    (n_rows, _), (_, per_group, spatial) = _grouping(x, groups)
    compute = _compute(x.dtype)
    g, x, mean, rstd = g.contiguous(), x.contiguous(), mean.contiguous(), rstd.contiguous()
    dx = _new(x.shape, x.dtype, x)
    if not x.numel():
        empty = _new((0, 2, x.shape[1]), compute, x)
        return dx, *_finish_sums(empty, x.dtype if weight is None else weight.dtype)
    block_c, block_s, warps = group_tile(per_group, spatial)
    cut = cut_rows(n_rows, spatial, 1, block_s, warps, machine(x.device_index)[1])
    partial = _new((cut.parts * x.shape[0], 2, x.shape[1]), compute, x)
    for step in ("whole",) if cut.parts == 1 else ("sums", "result"):
        kernel("norm", "group_norm_backward")(
            (n_rows, cut.parts), g, x, _dense(weight, x), mean, rstd, dx, partial, x.shape[0],
            x.shape[1], groups, per_group, spatial, cut.per_part, cut.parts,
            HAS_WEIGHT=weight is not None, STEP=step,
            PARTS=_power(cut.parts) if step == "result" else 1, COMPUTE=triton_name(compute),
            WIDE=x.numel() > INT32_MAX, ALIGN=math.gcd(spatial, 16), BLOCK_C=block_c,
            BLOCK_S=block_s, num_warps=warps,
        )  # fmt: skip
    return dx, *_finish_sums(partial, x.dtype if weight is None else weight.dtype)


# ---- channels ------------------------------------------------------------------------------------


_JOINED = 128  # so many parts of statistics are joined by one program


class ChannelPlan(NamedTuple):
    """How sums over channels are spread over programs."""

    last: bool  # whether channels are next to each other in memory
    rows: int  # of a tile
    cols: int
    blocks: int  # of channels
    splits: int  # parts of each channel
    per_split: int  # tiles of a part

    def constants(self, n_channels: int, spatial: int) -> dict[str, Any]:
        """The kernels' constants."""
        return {
            "LAST": self.last, "ALIGN": math.gcd(n_channels if self.last else spatial, 16),
            "STAGES": 3, "BLOCK_ROWS": self.rows, "BLOCK_COLS": self.cols, "num_warps": 4,
        }  # fmt: skip


def channel_plan(n_outer: int, n_channels: int, spatial: int, processors: int = 132) -> ChannelPlan:
    """The plan of sums over each of some channels, of n_outer * spatial elements."""
    last = spatial == 1
    rows, cols, _ = channel_tile(n_outer, n_channels if last else spatial, 128 if last else 1024)
    blocks = -(-n_channels // cols) if last else n_channels
    tiles = -(-n_outer // rows) * (1 if last else -(-spatial // cols))
    wanted = max(_WARPS // 4 * processors // max(blocks, 1), 1)
    per_split = max(-(-tiles // wanted), 1)
    return ChannelPlan(last, rows, cols, blocks, -(-tiles // per_split), per_split)


def channel_tile(n_rows: int, n_cols: int, most: int = 1024) -> tuple[int, int, int]:
    """Rows, columns and warps of a tile."""
    cols = min(_power(n_cols), most)
    return min(_power(n_rows), 2048 // cols), cols, 4


def _channel_sums(
    g: Array, x: Array, channels: tuple[int, int, int], mean: Array | None, rstd: Array,
    kind: dtype, of_rows: bool, y: Array | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """sum(g * normal) and sum(g) of each channel: see Note [Affine gradients].

    y: of g's elements that a relu with this result has let through.
    """
    _, n_channels, spatial = channels
    compute = _compute(x.dtype)
    if x.numel() == 0:
        return _finish_sums(_new((0, 2, n_channels), compute, x), kind)
    plan = channel_plan(*channels, machine(x.device_index)[1])
    partial = _new((plan.splits, 2, n_channels), compute, x)
    kernel("channels", "channel_sums")(
        (plan.blocks, plan.splits), g, x, y, rstd if mean is None else mean, rstd, partial,
        *channels, plan.per_split, OF_ROWS=of_rows, HAS_MEAN=mean is not None,
        COMPUTE=triton_name(compute),
        WIDE=x.numel() > INT32_MAX, **plan.constants(n_channels, spatial),
    )  # fmt: skip
    return _finish_sums(partial, kind)


def _laid_out(x: Array) -> tuple[Array, tuple[int, int, int]]:
    """x, dense with its channels where they are in memory; outer size, channels, inner size."""
    outer, channels, spatial = x.shape[0], x.shape[1], math.prod(x.shape[2:])
    if x.ndim > 2 and not x.is_contiguous():
        if x.permute(0, *range(2, x.ndim), 1).is_contiguous():
            return x, (outer * spatial, channels, 1)
    return x.contiguous(), (outer, channels, spatial)


def _laid_out_like(g: Array, x: Array) -> Array:
    """g with the strides of x."""
    if g.strides == x.strides:
        return g
    out = _C.empty_strided(x.shape, x.strides, g.dtype, g.device_index)
    out.copy_(g)
    return out


def _by_tiles(
    name: str, x: Array, channels: tuple[int, int, int], arrays: tuple[Array | None, ...],
    *sizes: int, **constants: Any,
) -> None:  # fmt: skip
    """Runs a kernel over all of x."""
    n_outer, n_channels, spatial = channels
    last = spatial == 1
    n_rows, n_cols = (n_outer, n_channels) if last else (n_outer * n_channels, spatial)
    rows, cols, warps = channel_tile(n_rows, n_cols, 256 if last else 1024)
    kernel("channels", name)(
        (-(-n_rows // rows) * -(-n_cols // cols),), *arrays, n_rows, n_cols, n_channels, *sizes,
        LAST=last, COMPUTE=triton_name(_compute(x.dtype)), WIDE=x.numel() > INT32_MAX,
        ALIGN=math.gcd(n_cols, 16), BLOCK_ROWS=rows, BLOCK_COLS=cols, num_warps=warps, **constants,
    )  # fmt: skip


def batch_norm(
    x: Array, weight: Array | None, bias: Array | None, mean: Array | None, var: Array | None,
    training: bool, eps: float,
) -> tuple[Array, Array, Array, Array]:  # fmt: skip
    """Normalised over all dims but the channels: out, mean, rstd, variance."""
    if training:
        average, rstd, variance = batch_statistics(x, eps)
    else:
        average, rstd, variance = _finish_statistics(None, mean, var, x, 0, eps)
    return normalised(x, weight, bias, None, average, rstd, False), average, rstd, variance


def batch_statistics(x: Array, eps: float) -> tuple[Array, Array, Array]:
    """Mean, 1 / sqrt(variance + eps) and variance of each channel."""
    x, channels = _laid_out(x)
    n_channels = channels[1]
    plan = channel_plan(*channels, machine(x.device_index)[1])
    splits = plan.splits if x.numel() else 0
    partial = _new((splits, 3, n_channels), _compute(x.dtype), x)
    if splits:
        kernel("channels", "channel_statistics")(
            (plan.blocks, splits), x, partial, *channels, plan.per_split,
            COMPUTE=triton_name(_compute(x.dtype)), WIDE=x.numel() > INT32_MAX,
            **plan.constants(n_channels, channels[2]),
        )  # fmt: skip
    return _finish_statistics(partial, None, None, x, splits, eps)


def joined_statistics(partial: Array, x: Array, eps: float) -> tuple[Array, Array, Array]:
    """batch_statistics of x from counts, means and squares of parts of each channel."""
    splits, _, n_channels = partial.shape
    while splits > _JOINED:
        fewer = -(-splits // _JOINED)
        joined = _new((fewer, 3, n_channels), partial.dtype, partial)
        kernel("channels", "join_channel_statistics")(
            (-(-n_channels // 32), fewer), partial, joined, n_channels, splits, BLOCK_S=_JOINED,
            BLOCK=32, num_warps=8,
        )  # fmt: skip
        partial, splits = joined, fewer
    return _finish_statistics(partial, None, None, x, splits, eps)


def _finish_statistics(
    partial: Array | None, mean: Array | None, var: Array | None, x: Array, splits: int, eps: float
) -> tuple[Array, Array, Array]:
    """Mean, rstd and variance, from parts or given."""
    compute, n_channels = _compute(x.dtype), x.shape[1]
    average, rstd, variance = (_new(n_channels, compute, x) for _ in range(3))
    if n_channels:
        kernel("channels", "finish_channel_statistics")(
            (-(-n_channels // 32),), average if partial is None else partial, _dense(mean, x),
            _dense(var, x), average, rstd, variance, n_channels, splits, float_bits(eps),
            GIVEN=partial is None, COMPUTE=triton_name(compute),
            BLOCK_S=_power(min(max(splits, 1), 128)), BLOCK=32,
            num_warps=4 if splits <= 64 else 8,
        )  # fmt: skip
    return average, rstd, variance


def normalised(
    x: Array, weight: Array | None, bias: Array | None, z: Array | None, mean: Array, rstd: Array,
    relu: bool,
) -> Array:  # fmt: skip
    """(x - mean) rstd weight + bias + z by channels, or the relu of it."""
    x, channels = _laid_out(x)
    out = _C.empty_strided(x.shape, x.strides, x.dtype, x.device_index)
    if x.numel():
        z = None if z is None else _laid_out_like(z, x)
        _by_tiles(
            "batch_norm", x, channels,
            (x, _dense(weight, x), _dense(bias, x), z, mean, rstd, out),
            HAS_WEIGHT=weight is not None, HAS_BIAS=bias is not None, RELU=relu,
        )  # fmt: skip
    return out


def batch_norm_backward(
    g: Array, x: Array, weight: Array | None, mean: Array, rstd: Array, training: bool
) -> tuple[Array, Array, Array]:
    """The gradients of x, weight and bias."""
    return normalised_backward(g, x, None, weight, mean, rstd, training, False)[:3]


def normalised_backward(
    g: Array, x: Array, y: Array | None, weight: Array | None, mean: Array, rstd: Array,
    training: bool, adds: bool,
) -> tuple[Array, Array, Array, Array]:  # fmt: skip
    """The gradients of x, weight, bias and what was added (if anything was).

    y: the result, if it is that of a relu.
    """
    x, channels = _laid_out(x)
    g, mean, rstd = _laid_out_like(g, x), mean.contiguous(), rstd.contiguous()
    y = None if y is None else _laid_out_like(y, x)
    dw, db = _channel_sums(g, x, channels, mean, rstd, _compute(x.dtype), False, y)
    new = lambda: _C.empty_strided(x.shape, x.strides, x.dtype, x.device_index)
    dx = new()
    dz = new() if adds and y is not None else None  # without a relu it is g
    if x.numel():
        _by_tiles(
            "batch_norm_backward", x, channels,
            (g, x, y, _dense(weight, x), mean, rstd, dw, db, dx, dz), channels[0] * channels[2],
            HAS_WEIGHT=weight is not None, TRAINING=training,
        )  # fmt: skip
    kind = x.dtype if weight is None else weight.dtype
    return dx, dw.astype(kind), db.astype(kind), g if dz is None else dz
