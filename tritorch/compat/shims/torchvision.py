"""torchvision's operators on boxes and regions (`torch.ops.torchvision`).

roi_align, ps_roi_align and ps_roi_pool are windows of weighted sums (Note [Windows] in
kernels/images/windows.py): they differ in the weights, which are tables made here by tensor
operators.  On
the CPU a window is two products of small matrices.  deform_conv2d samples its columns by
grid_sample and multiplies them, so its gradients are theirs.
"""

from __future__ import annotations

from typing import NamedTuple

import tritorch as torch
from tritorch.compat.shims import _boxes
from tritorch.compat.shims._defining import operators
from tritorch.compat.shims._windows import (
    aligned_windows,
    exact,
    maxima_by_numpy,
    parts_of,
    ps_roi_windows,
    roi_windows,
    rounded,
)
from tritorch.core.tensor import Tensor

_operator = operators("torchvision")
_WINDOW = "SymInt pooled_height, SymInt pooled_width"
_IMAGES = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
_CONV = (
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, "
    "SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask"
)


@_operator("_cuda_version() -> int")
def _cuda_version() -> int:
    """-1: no CUDA toolkit built this."""
    return -1


# ---- boxes ---------------------------------------------------------------------------------------

_operator("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")(_boxes.nms)
_operator("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")(_boxes.qnms)
_operator("box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor")(_boxes.box_iou_rotated)


# ---- windows -------------------------------------------------------------------------------------


def _check(name: str, x: Tensor, rois: Tensor) -> None:
    torch._check(
        rois.ndim == 2 and rois.shape[1] == 5, lambda: "rois must have shape as Tensor[K, 5]"
    )
    torch._check(
        x.dtype == rois.dtype,
        lambda: (
            f"{name}(): input and rois must have the same dtype, but got {x.dtype} and {rois.dtype}"
        ),
    )
    torch._check(
        x.device == rois.device,
        lambda: (
            f"{name}(): input and rois must be on the same device, but got {x.device} and "
            f"{rois.device}"
        ),
    )


@_operator(
    f"roi_align(Tensor input, Tensor rois, float spatial_scale, {_WINDOW}, int sampling_ratio, "
    "bool aligned) -> Tensor"
)
def roi_align(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int,
    sampling_ratio: int, aligned: bool,
) -> Tensor:  # fmt: skip
    """The mean of interpolated points of each part of a region."""
    _check("roi_align", input, rois)
    out = pooled_height, pooled_width
    shape = tuple(input.shape)
    return roi_windows(rois, spatial_scale, out, sampling_ratio, shape, aligned).sums(input)


@_operator(
    f"_roi_align_backward(Tensor grad, Tensor rois, float spatial_scale, {_WINDOW}, {_IMAGES}, "
    "int sampling_ratio, bool aligned) -> Tensor"
)
def _roi_align_backward(
    grad: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int,
    batch_size: int, channels: int, height: int, width: int, sampling_ratio: int, aligned: bool,
) -> Tensor:  # fmt: skip
    shape, out = (batch_size, channels, height, width), (pooled_height, pooled_width)
    return roi_windows(rois, spatial_scale, out, sampling_ratio, shape, aligned).backward(
        grad, shape
    )


@_operator(
    "qroi_align(Tensor input, Tensor rois, float input_scale, int input_zero_point, "
    "float rois_scale, int rois_zero_point, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor"
)
def qroi_align(
    input: Tensor, rois: Tensor, input_scale: float, input_zero_point: int, rois_scale: float,
    rois_zero_point: int, spatial_scale: float, pooled_height: int, pooled_width: int,
    sampling_ratio: int, aligned: bool,
) -> Tensor:  # fmt: skip
    """roi_align of the integers of quantized images and regions, as such integers."""
    x, boxes = (input.float() - input_zero_point), (rois.float() - rois_zero_point) * rois_scale
    found = roi_align(x, boxes, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned)
    bounds = torch.iinfo(input.dtype)
    return (found + input_zero_point).round().clamp(bounds.min, bounds.max).to(input.dtype)


def _channels(name: str, x: Tensor, pooled_height: int, pooled_width: int, rois: Tensor) -> Tensor:
    """The channel that each place reads, as the operators give it along."""
    places = pooled_height * pooled_width
    torch._check(
        x.shape[1] % places == 0,
        lambda: "input channels must be a multiple of pooling height * pooling width",
    )
    index = torch.arange(x.shape[1], device=x.device, dtype=torch.int32)
    index = index.reshape(-1, pooled_height, pooled_width)
    return index.expand(rois.shape[0], *index.shape).contiguous()


@_operator(
    f"ps_roi_align(Tensor input, Tensor rois, float spatial_scale, {_WINDOW}, "
    "int sampling_ratio) -> (Tensor, Tensor)"
)
def ps_roi_align(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int,
    sampling_ratio: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """roi_align with a channel of its own for each place, and those channels."""
    _check("ps_roi_align", input, rois)
    channels = _channels("ps_roi_align", input, pooled_height, pooled_width, rois)
    out, shape = (pooled_height, pooled_width), tuple(input.shape)
    found = aligned_windows(rois, spatial_scale, out, sampling_ratio, shape, 0.5, 0.0, spread=True)
    return found.sums(input), channels


@_operator(
    f"_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, "
    f"float spatial_scale, {_WINDOW}, int sampling_ratio, {_IMAGES}) -> Tensor"
)
def _ps_roi_align_backward(
    grad: Tensor, rois: Tensor, channel_mapping: Tensor, spatial_scale: float, pooled_height: int,
    pooled_width: int, sampling_ratio: int, batch_size: int, channels: int, height: int, width: int,
) -> Tensor:  # fmt: skip
    shape, out = (batch_size, channels, height, width), (pooled_height, pooled_width)
    found = aligned_windows(rois, spatial_scale, out, sampling_ratio, shape, 0.5, 0.0, spread=True)
    return found.backward(grad, shape)


@_operator(
    f"ps_roi_pool(Tensor input, Tensor rois, float spatial_scale, {_WINDOW}) -> (Tensor, Tensor)"
)
def ps_roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    """The mean of each part of a region, of a channel of its own, and those channels."""
    _check("ps_roi_pool", input, rois)
    channels = _channels("ps_roi_pool", input, pooled_height, pooled_width, rois)
    out, shape = (pooled_height, pooled_width), tuple(input.shape)
    return ps_roi_windows(rois, spatial_scale, out, shape).sums(input), channels


@_operator(
    f"_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, "
    f"float spatial_scale, {_WINDOW}, {_IMAGES}) -> Tensor"
)
def _ps_roi_pool_backward(
    grad: Tensor, rois: Tensor, channel_mapping: Tensor, spatial_scale: float, pooled_height: int,
    pooled_width: int, batch_size: int, channels: int, height: int, width: int,
) -> Tensor:  # fmt: skip
    shape, out = (batch_size, channels, height, width), (pooled_height, pooled_width)
    return ps_roi_windows(rois, spatial_scale, out, shape).backward(grad, shape)


@_operator(
    f"roi_pool(Tensor input, Tensor rois, float spatial_scale, {_WINDOW}) -> (Tensor, Tensor)"
)
def roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    """The maximum of each part of a region, and where it is in the image (-1: it is empty)."""
    _check("roi_pool", input, rois)
    boxes, (_, channels, height, width) = exact(rois), input.shape
    x1, y1, x2, y2 = (rounded(boxes[:, i] * spatial_scale) for i in range(1, 5))
    h, w = (y2 - y1 + 1).clamp(min=1), (x2 - x1 + 1).clamp(min=1)
    rows, columns = parts_of(y1, h, pooled_height, height), parts_of(x1, w, pooled_width, width)
    shape = (len(boxes), channels, pooled_height, pooled_width)
    out = input.new_zeros(shape)
    places = torch.full(shape, -1, dtype=torch.int32, device=input.device)
    if not out.numel():
        return out, places
    ranges = [torch.stack([f, e - 1], 2).int().contiguous() for f, e in (rows, columns)]
    x, batch = input.detach().contiguous(), boxes[:, 0].int()
    if not x.is_cuda:
        return maxima_by_numpy(
            x, batch.tolist(), ranges[0].tolist(), ranges[1].tolist(), out, places
        )
    from tritorch.kernels.images import windows

    windows.window_maxima[(-(-out.numel() // 128),)](
        x, batch, *ranges, out, places, out.numel(), channels, height, width, OUT_Y=pooled_height,
        OUT_X=pooled_width, BLOCK=128,
    )  # fmt: skip
    return out, places


@_operator(
    f"_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, float spatial_scale, {_WINDOW}, "
    f"{_IMAGES}) -> Tensor"
)
def _roi_pool_backward(
    grad: Tensor, rois: Tensor, argmax: Tensor, spatial_scale: float, pooled_height: int,
    pooled_width: int, batch_size: int, channels: int, height: int, width: int,
) -> Tensor:  # fmt: skip
    total = batch_size * channels * height * width
    image = rois[:, 0].long()[:, None, None, None] * channels
    image = image + torch.arange(channels, device=grad.device)[:, None, None]
    place = image * (height * width) + argmax.clamp(min=0).long()
    value = grad.where(argmax >= 0, grad.new_zeros(()))
    found = grad.new_zeros(total).index_add(0, place.reshape(-1), value.reshape(-1))
    return found.reshape(batch_size, channels, height, width)


# ---- deformable convolution ----------------------------------------------------------------------


class _Convolution(NamedTuple):
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    offset_groups: int
    use_mask: bool


def _deformed(
    x: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor, how: _Convolution
) -> Tensor:
    """The convolution, of operators that have gradients."""
    n, channels, height, width = x.shape
    out_channels, _, kernel_h, kernel_w = weight.shape
    taps, groups = kernel_h * kernel_w, how.offset_groups
    sizes = [
        (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
        for size, pad, dilation, kernel, stride in zip(
            (height, width),
            how.padding,
            how.dilation,
            (kernel_h, kernel_w),
            how.stride,
            strict=True,
        )
    ]
    out_h, out_w = sizes
    torch._check(
        out_h > 0 and out_w > 0,
        lambda: f"Calculated output size too small - out_h: {out_h} out_w: {out_w}",
    )
    expected = (n, groups * 2 * taps, out_h, out_w)
    torch._check(
        tuple(offset.shape) == expected,
        lambda: f"offset.shape is not valid: got: {tuple(offset.shape)} expected: {expected}",
    )
    along = [
        (torch.arange(k, device=x.device) * d)[:, None] + torch.arange(o, device=x.device) * s - p
        for k, d, o, s, p in zip(
            (kernel_h, kernel_w), how.dilation, sizes, how.stride, how.padding, strict=True
        )
    ]
    moved = offset.reshape(n, groups, kernel_h, kernel_w, 2, out_h, out_w)
    y = moved[:, :, :, :, 0] + along[0][:, None, :, None].to(x.dtype)
    z = moved[:, :, :, :, 1] + along[1][None, :, None, :].to(x.dtype)
    # Pixels as grid_sample counts them: -1 is the middle of the first, 1 that of the last.
    grid = torch.stack(
        [z * (2 / max(width - 1, 1)) - 1, y * (2 / max(height - 1, 1)) - 1], -1
    ).reshape(n * groups, taps * out_h, out_w, 2)
    images = x.reshape(n * groups, channels // groups, height, width)
    if min(height, width) == 1:  # a single pixel has no distance to go by
        pad = [0, int(width == 1), 0, int(height == 1)]
        images = torch.nn.functional.pad(images, pad)
    columns = torch.nn.functional.grid_sample(images, grid, "bilinear", "zeros", align_corners=True)
    columns = columns.reshape(n, groups, channels // groups, taps, out_h, out_w)
    if how.use_mask:
        columns = columns * mask.reshape(n, groups, 1, taps, out_h, out_w)
    columns = columns.reshape(n, how.groups, channels // how.groups * taps, out_h * out_w)
    matrix = weight.reshape(how.groups, out_channels // how.groups, -1)
    out = (matrix @ columns).reshape(n, out_channels, out_h, out_w)
    return out + bias[:, None, None]


def _checked(x: Tensor, weight: Tensor, offset: Tensor, how: _Convolution) -> None:
    for name, each in (("input", x), ("weight", weight), ("offset", offset)):
        if each.ndim != 4:
            raise RuntimeError(f"{name} must be a 4-dimensional tensor")
    taps = weight.shape[2] * weight.shape[3]
    torch._check(
        weight.shape[1] * how.groups == x.shape[1],
        lambda: (
            f"weight of {how.groups} groups and {weight.shape[1]} channels does not fit an input "
            f"of {x.shape[1]} channels"
        ),
    )
    torch._check(
        offset.shape[1] == how.offset_groups * 2 * taps,
        lambda: (
            f"offset.shape[1] is not valid: got: {offset.shape[1]} expected: "
            f"{how.offset_groups * 2 * taps}"
        ),
    )


@_operator(
    "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, "
    f"{_CONV}) -> Tensor"
)
def deform_conv2d(
    input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor, stride_h: int,
    stride_w: int, pad_h: int, pad_w: int, dilation_h: int, dilation_w: int, groups: int,
    offset_groups: int, use_mask: bool,
) -> Tensor:  # fmt: skip
    """A convolution whose taps are moved by offsets, and weighted by a mask."""
    how = _Convolution(
        (stride_h, stride_w), (pad_h, pad_w), (dilation_h, dilation_w), groups, offset_groups,
        use_mask,
    )  # fmt: skip
    _checked(input, weight, offset, how)
    return _deformed(input, weight, offset, mask, bias, how)


@_operator(
    "_deform_conv2d_backward(Tensor grad, Tensor input, Tensor weight, Tensor offset, Tensor mask, "
    f"Tensor bias, {_CONV}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
)
def _deform_conv2d_backward(
    grad: Tensor, input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor,
    stride_h: int, stride_w: int, pad_h: int, pad_w: int, dilation_h: int, dilation_w: int,
    groups: int, offset_groups: int, use_mask: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    how = _Convolution(
        (stride_h, stride_w), (pad_h, pad_w), (dilation_h, dilation_w), groups, offset_groups,
        use_mask,
    )  # fmt: skip
    given = [t.detach().requires_grad_() for t in (input, weight, offset, mask, bias)]
    with torch.enable_grad():
        out = _deformed(given[0], given[1], given[2], given[3], given[4], how)
    found = torch.autograd.grad(out, given, grad, allow_unused=True)
    return tuple(torch.zeros_like(t) if g is None else g for g, t in zip(found, given, strict=True))
