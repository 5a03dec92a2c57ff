"""torchvision's operators on boxes and regions (`torch.ops.torchvision`).

roi_align, ps_roi_align and ps_roi_pool are windows of weighted sums (Note [Windows] in
kernels/windows.py): they differ in the weights, which are tables made here by tensor operators.  On
the CPU a window is two products of small matrices.  deform_conv2d samples its columns by
grid_sample and multiplies them, so its gradients are theirs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import tritorch as torch
from tritorch import Tensor, library

_LIBRARY = library.Library("torchvision", "DEF")
_WINDOW = "SymInt pooled_height, SymInt pooled_width"
_IMAGES = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
_CONV = (
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, "
    "SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask"
)
_KEPT = 16384  # boxes that one program of keep_boxes holds


def _operator(schema: str) -> Any:
    """Defines an operator, computed by the decorated function of tensors of any device."""
    _LIBRARY.define(schema)

    def implement(function: Any) -> Any:
        _LIBRARY.impl(schema.partition("(")[0], function, "CompositeExplicitAutograd")
        return function

    return implement


@_operator("_cuda_version() -> int")
def _cuda_version() -> int:
    """-1: no CUDA toolkit built this."""
    return -1


# ---- boxes ---------------------------------------------------------------------------------------


@_operator("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
def nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """The indices of the boxes that no box of higher score overlaps, by score."""
    torch._check(dets.ndim == 2, lambda: f"boxes should be a 2d tensor, got {dets.ndim}D")
    torch._check(
        dets.shape[1] == 4,
        lambda: f"boxes should have 4 elements in dimension 1, got {dets.shape[1]}",
    )
    torch._check(scores.ndim == 1, lambda: f"scores should be a 1d tensor, got {scores.ndim}D")
    torch._check(
        dets.shape[0] == scores.shape[0],
        lambda: (
            "boxes and scores should have same number of elements in dimension 0, got "
            f"{dets.shape[0]} and {scores.shape[0]}"
        ),
    )
    n, dets = dets.shape[0], dets.detach()
    order = scores.argsort(stable=True, descending=True)
    boxes = dets[order].contiguous()
    if boxes.dtype in (torch.float16, torch.bfloat16):
        boxes = boxes.float()
    if not boxes.is_cuda or n > _KEPT:
        return order[torch.from_numpy(_kept(boxes.cpu().numpy(), iou_threshold)).to(order.device)]
    if n == 0:
        return order
    from tritorch.kernels import windows

    over = torch.empty(n, n, dtype=torch.bool, device=boxes.device)
    keep = torch.empty(n, dtype=torch.bool, device=boxes.device)
    windows.box_overlaps[(n, -(-n // 256))](boxes, over, n, float(iou_threshold), BLOCK=256)
    block = max(128, 1 << (n - 1).bit_length())
    windows.keep_boxes[(1,)](over, keep, n, BLOCK=block, num_warps=min(16, block // 128 * 4))
    return order[keep]


def _kept(boxes: np.ndarray, threshold: float) -> np.ndarray:
    """Which boxes, by falling score, no box before them overlaps."""
    x1, y1, x2, y2 = boxes.T
    areas = (x2 - x1) * (y2 - y1)
    left = np.arange(len(boxes))
    kept = []
    with np.errstate(all="ignore"):
        while left.size:
            i, left = left[0], left[1:]
            kept.append(i)
            w = np.minimum(x2[i], x2[left]) - np.maximum(x1[i], x1[left])
            h = np.minimum(y2[i], y2[left]) - np.maximum(y1[i], y1[left])
            shared = np.maximum(w, 0) * np.maximum(h, 0)
            over = shared / (areas[i] + areas[left] - shared) > threshold
            left = left[~over]
    return np.array(kept, np.int64)


@_operator("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
def qnms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """nms of quantized boxes: overlaps do not change with a common scale."""
    return nms(dets.float(), scores.float(), iou_threshold)


@_operator("box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor")
def box_iou_rotated(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """Intersection over union of boxes (center x, y, width, height, angle in degrees), all pairs.

    The corners of an intersection are corners of one box inside the other, and crossings of edges;
    sorted around their mean they are a polygon.
    """
    kind = boxes1.dtype
    boxes1, boxes2 = (
        b.double() if b.dtype == torch.float64 else b.float() for b in (boxes1, boxes2)
    )
    middle = boxes2[:, :2].mean(0) if len(boxes2) else boxes1.new_zeros(2)
    a, b = _corners(boxes1, middle), _corners(boxes2, middle)  # (N, 4, 2), (M, 4, 2)
    n, m = len(a), len(b)
    a, b = a[:, None].expand(n, m, 4, 2), b[None].expand(n, m, 4, 2)
    da, db = a.roll(-1, 2) - a, b.roll(-1, 2) - b
    crossing = _cross(da[:, :, :, None], db[:, :, None])  # (N, M, 4, 4)
    apart = b[:, :, None] - a[:, :, :, None]
    along_a = _cross(apart, db[:, :, None]) / crossing
    along_b = _cross(apart, da[:, :, :, None]) / crossing
    crosses = (crossing.abs() > 1e-14) & (along_a >= 0) & (along_a <= 1)
    crosses &= (along_b >= 0) & (along_b <= 1)
    points = (
        a[:, :, :, None]
        + along_a.where(crosses, along_a.new_zeros(()))[..., None] * da[:, :, :, None]
    )
    points = torch.cat([points.reshape(n, m, 16, 2), a, b], 2)
    there = torch.cat([crosses.reshape(n, m, 16), _inside(a, b, db), _inside(b, a, da)], 2)
    count = there.sum(2, keepdim=True)
    center = (points * there[..., None]).sum(2, keepdim=True) / count.clamp(min=1)[..., None]
    around = points - center
    angle = torch.atan2(around[..., 1], around[..., 0]).where(there, around.new_full((), 10.0))
    order = angle.argsort(2)
    around = around.gather(2, order[..., None].expand(n, m, 24, 2))
    # Points that are not there come last: they are the first one, so they add nothing.
    last = torch.arange(24, device=order.device) >= count
    around = around[:, :, :1].where(last[..., None], around)
    shared = _cross(around, around.roll(-1, 2)).sum(2).abs() / 2
    shared = shared.where(count[..., 0] > 2, shared.new_zeros(()))
    areas = boxes1[:, 2] * boxes1[:, 3], boxes2[:, 2] * boxes2[:, 3]
    union = areas[0][:, None] + areas[1] - shared
    empty = (areas[0][:, None] < 1e-14) | (areas[1] < 1e-14)
    return (shared / union).masked_fill(empty, 0).to(kind)


def _cross(a: Tensor, b: Tensor) -> Tensor:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def _corners(boxes: Tensor, middle: Tensor) -> Tensor:
    """The corners of rotated boxes, in order, from a point in the middle (for exactness)."""
    angle = torch.deg2rad(boxes[:, 4])
    c, s = angle.cos() / 2, angle.sin() / 2
    w, h = boxes[:, 2], boxes[:, 3]
    first = torch.stack([-s * h - c * w, c * h - s * w], 1)
    second = torch.stack([s * h - c * w, -c * h - s * w], 1)
    center = boxes[:, :2] - middle
    return torch.stack([center + first, center + second, center - first, center - second], 1)


def _inside(points: Tensor, box: Tensor, edges: Tensor) -> Tensor:
    """Which points are in a box: along both of its sides."""
    ab, ad = edges[:, :, 0], -edges[:, :, 3]
    from_a = points - box[:, :, :1]
    along = [(from_a * side[:, :, None]).sum(-1) for side in (ab, ad)]
    lengths = [(side * side).sum(-1, keepdim=True) for side in (ab, ad)]
    found = (along[0] > -1e-6) & (along[0] < lengths[0] + 1e-6)
    return found & (along[1] > -1e-6) & (along[1] < lengths[1] + 1e-6)


# ---- windows -------------------------------------------------------------------------------------


class _Windows(NamedTuple):
    """The weights of K windows; see Note [Windows]."""

    batch: Tensor  # (K,) int32
    rows: Tensor  # (K, OUT_Y, H)
    columns: Tensor  # (K, OUT_X, W)
    spread: bool

    def sums(self, x: Tensor) -> Tensor:
        """What the windows see of images."""
        (k, out_y, _), out_x = self.rows.shape, self.columns.shape[1]
        channels = x.shape[1] // (out_y * out_x) if self.spread else x.shape[1]
        out = x.new_empty((k, channels, out_y, out_x))
        if not out.numel():
            return out
        x = x.detach().contiguous()
        if not x.is_cuda:
            self._sums_by_numpy(x.to(self.rows.dtype).numpy(), out)
            return out
        from tritorch.kernels import windows

        windows.window_sums[(-(-out.numel() // 128),)](
            x, self.batch, self.rows, self.columns, _range(self.rows), _range(self.columns), out,
            out.numel(), channels, x.shape[1], x.shape[2], x.shape[3], OUT_Y=out_y, OUT_X=out_x,
            SPREAD=self.spread, BLOCK=128,
        )  # fmt: skip
        return out

    def backward(self, grad: Tensor, shape: tuple[int, ...]) -> Tensor:
        """The gradient of the images of this shape."""
        dx = grad.new_zeros(shape)
        if not grad.numel() or not dx.numel():
            return dx
        grad = grad.detach().contiguous()
        if not grad.is_cuda:
            return self._backward_by_numpy(grad, shape)
        from tritorch.kernels import windows

        windows.window_sums_backward[(-(-dx.numel() // 128),)](
            grad, self.batch, self.rows, self.columns, _range(self.rows), _range(self.columns), dx,
            dx.numel(), grad.shape[0], grad.shape[1], *shape[1:], OUT_Y=grad.shape[2],
            OUT_X=grad.shape[3], SPREAD=self.spread, BLOCK=128,
        )  # fmt: skip
        return dx

    def _views(self) -> Any:
        """Of each window: its index, its image, the rectangle, and the weights inside it."""
        rows, columns, batch = self.rows.numpy(), self.columns.numpy(), self.batch.tolist()
        row_used, column_used = (rows != 0).any(1), (columns != 0).any(1)
        for k, b in enumerate(batch):
            ys, xs = row_used[k].nonzero()[0], column_used[k].nonzero()[0]
            if ys.size and xs.size:
                y, x = slice(ys[0], ys[-1] + 1), slice(xs[0], xs[-1] + 1)
                yield k, (b, slice(None), y, x), rows[k, :, y], columns[k, :, x]

    def _sums_by_numpy(self, x: np.ndarray, out: Tensor) -> None:
        found = np.zeros(out.shape, x.dtype)
        out_y, out_x = found.shape[2:]
        for k, place, rows, columns in self._views():
            seen = x[place]
            if self.spread:
                seen = seen.reshape(-1, out_y, out_x, *seen.shape[1:])
                found[k] = np.einsum("py,qx,cpqyx->cpq", rows, columns, seen, optimize=True)
            else:
                found[k] = rows @ seen @ columns.T
        out.copy_(torch.from_numpy(found))

    def _backward_by_numpy(self, grad: Tensor, shape: tuple[int, ...]) -> Tensor:
        g = grad.to(self.rows.dtype).numpy()
        dx = np.zeros(shape, g.dtype)
        for k, place, rows, columns in self._views():
            if self.spread:
                part = np.einsum("py,qx,cpq->cpqyx", rows, columns, g[k], optimize=True)
                dx[place] += part.reshape(-1, *part.shape[3:])
            else:
                dx[place] += rows.T @ g[k] @ columns
        return torch.from_numpy(dx).to(grad.dtype)


def _range(weights: Tensor) -> Tensor:
    """Of each row, the first and the last index of a weight that is not 0; else (0, -1)."""
    used = weights != 0
    index = torch.arange(weights.shape[2], device=weights.device, dtype=torch.int32)
    first = index.where(used, index.new_full((), weights.shape[2])).amin(2)
    last = index.where(used, index.new_full((), -1)).amax(2)
    return torch.stack([first.where(last >= 0, torch.zeros_like(first)), last], 2).contiguous()


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


def _exact(rois: Tensor) -> Tensor:
    return (rois if rois.dtype == torch.float64 else rois.float()).detach()


def _sampled(start: Tensor, length: Tensor, places: int, ratio: int, size: int) -> Tensor:
    """The weights of a dim's pixels at each place: the mean of linear interpolations at `ratio`
    points of it, or at as many as the place is long."""
    bin = length / places
    points = torch.full_like(bin, ratio) if ratio > 0 else bin.ceil()
    index = torch.arange(size, device=start.device, dtype=start.dtype)
    place = torch.arange(places, device=start.device, dtype=start.dtype)
    begin = start[:, None] + place * bin[:, None]  # (K, places)
    weights = start.new_zeros((len(start), places, size))
    most = int(points.max().item()) if len(start) else 0
    for i in range(most):
        at = begin + ((i + 0.5) * bin / points.clamp(min=1))[:, None]
        there = (i < points)[:, None] & (at >= -1) & (at <= size)
        at = at.clamp(0, max(size - 1, 0))[:, :, None]
        weights += (1 - (index - at).abs()).clamp(min=0) * there[:, :, None]
    return weights / points.clamp(min=1)[:, None, None]


def _aligned(
    rois: Tensor, scale: float, out: tuple[int, int], ratio: int, shape: tuple[int, ...],
    shift: float, least: float, spread: bool,
) -> _Windows:  # fmt: skip
    boxes = _exact(rois)
    x1, y1, x2, y2 = (boxes[:, i] * scale - shift for i in range(1, 5))
    h, w = (y2 - y1), (x2 - x1)
    if least:
        h, w = h.clamp(min=least), w.clamp(min=least)
    rows = _sampled(y1, h, out[0], ratio, shape[2])
    columns = _sampled(x1, w, out[1], ratio, shape[3])
    return _Windows(boxes[:, 0].int(), rows.contiguous(), columns.contiguous(), spread)


def _roi_windows(
    rois: Tensor, scale: float, out: tuple[int, int], ratio: int, shape: tuple[int, ...],
    aligned: bool,
) -> _Windows:  # fmt: skip
    shift, least = (0.5, 0.0) if aligned else (0.0, 1.0)
    return _aligned(rois, scale, out, ratio, shape, shift, least, spread=False)


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
    return _roi_windows(rois, spatial_scale, out, sampling_ratio, shape, aligned).sums(input)


@_operator(
    f"_roi_align_backward(Tensor grad, Tensor rois, float spatial_scale, {_WINDOW}, {_IMAGES}, "
    "int sampling_ratio, bool aligned) -> Tensor"
)
def _roi_align_backward(
    grad: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int,
    batch_size: int, channels: int, height: int, width: int, sampling_ratio: int, aligned: bool,
) -> Tensor:  # fmt: skip
    shape, out = (batch_size, channels, height, width), (pooled_height, pooled_width)
    return _roi_windows(rois, spatial_scale, out, sampling_ratio, shape, aligned).backward(
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
    found = _aligned(rois, spatial_scale, out, sampling_ratio, shape, 0.5, 0.0, spread=True)
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
    found = _aligned(rois, spatial_scale, out, sampling_ratio, shape, 0.5, 0.0, spread=True)
    return found.backward(grad, shape)


def _rounded(x: Tensor) -> Tensor:
    """Half away from zero, as C rounds."""
    return (x.abs() + 0.5).floor().copysign(x)


def _parts(start: Tensor, length: Tensor, places: int, most: int) -> tuple[Tensor, Tensor]:
    """The first pixel of each part of a dim, and the one after its last, within the image."""
    bin = (length / places)[:, None]
    place = torch.arange(places, device=start.device, dtype=start.dtype)
    first, end = (place * bin).floor() + start[:, None], ((place + 1) * bin).ceil() + start[:, None]
    return first.clamp(0, most), end.clamp(0, most)


def _means(first: Tensor, end: Tensor, size: int) -> Tensor:
    """The weights of a dim's pixels: the mean of each part's."""
    index = torch.arange(size, device=first.device, dtype=first.dtype)
    inside = (index >= first[:, :, None]) & (index < end[:, :, None])
    return inside / (end - first).clamp(min=1)[:, :, None]


def _ps_roi_windows(
    rois: Tensor, scale: float, out: tuple[int, int], shape: tuple[int, ...]
) -> _Windows:
    """As torchvision's forward, parts end before an image's last row and column."""
    boxes = _exact(rois)
    x1, y1, x2, y2 = (_rounded(boxes[:, i] * scale) for i in range(1, 5))
    h, w = (y2 - y1).clamp(min=1), (x2 - x1).clamp(min=1)
    rows = _means(*_parts(y1, h, out[0], shape[2] - 1), shape[2])
    columns = _means(*_parts(x1, w, out[1], shape[3] - 1), shape[3])
    return _Windows(boxes[:, 0].int(), rows.contiguous(), columns.contiguous(), True)


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
    return _ps_roi_windows(rois, spatial_scale, out, shape).sums(input), channels


@_operator(
    f"_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, "
    f"float spatial_scale, {_WINDOW}, {_IMAGES}) -> Tensor"
)
def _ps_roi_pool_backward(
    grad: Tensor, rois: Tensor, channel_mapping: Tensor, spatial_scale: float, pooled_height: int,
    pooled_width: int, batch_size: int, channels: int, height: int, width: int,
) -> Tensor:  # fmt: skip
    shape, out = (batch_size, channels, height, width), (pooled_height, pooled_width)
    return _ps_roi_windows(rois, spatial_scale, out, shape).backward(grad, shape)


@_operator(
    f"roi_pool(Tensor input, Tensor rois, float spatial_scale, {_WINDOW}) -> (Tensor, Tensor)"
)
def roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    """The maximum of each part of a region, and where it is in the image (-1: it is empty)."""
    _check("roi_pool", input, rois)
    boxes, (_, channels, height, width) = _exact(rois), input.shape
    x1, y1, x2, y2 = (_rounded(boxes[:, i] * spatial_scale) for i in range(1, 5))
    h, w = (y2 - y1 + 1).clamp(min=1), (x2 - x1 + 1).clamp(min=1)
    rows, columns = _parts(y1, h, pooled_height, height), _parts(x1, w, pooled_width, width)
    shape = (len(boxes), channels, pooled_height, pooled_width)
    out = input.new_zeros(shape)
    places = torch.full(shape, -1, dtype=torch.int32, device=input.device)
    if not out.numel():
        return out, places
    ranges = [torch.stack([f, e - 1], 2).int().contiguous() for f, e in (rows, columns)]
    x, batch = input.detach().contiguous(), boxes[:, 0].int()
    if not x.is_cuda:
        return _maxima_by_numpy(
            x, batch.tolist(), ranges[0].tolist(), ranges[1].tolist(), out, places
        )
    from tritorch.kernels import windows

    windows.window_maxima[(-(-out.numel() // 128),)](
        x, batch, *ranges, out, places, out.numel(), channels, height, width, OUT_Y=pooled_height,
        OUT_X=pooled_width, BLOCK=128,
    )  # fmt: skip
    return out, places


def _maxima_by_numpy(
    x: Tensor, batch: list[int], rows: Any, columns: Any, out: Tensor, places: Tensor
) -> tuple[Tensor, Tensor]:
    kind, width = x.dtype, x.shape[3]
    images = (x.float() if kind in (torch.bfloat16, torch.float16) else x).numpy()
    best, where = np.zeros(out.shape, images.dtype), places.numpy()
    for k, b in enumerate(batch):
        for i, (top, bottom) in enumerate(rows[k]):
            for j, (left, right) in enumerate(columns[k]):
                part = images[b, :, top : bottom + 1, left : right + 1]
                if part.size:
                    flat = part.reshape(len(part), -1)
                    first = flat.argmax(1)
                    best[k, :, i, j] = flat[np.arange(len(flat)), first]
                    dy, dx = np.divmod(first, part.shape[2])
                    where[k, :, i, j] = (top + dy) * width + left + dx
    return torch.from_numpy(best).to(kind), torch.from_numpy(where)


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
