"""Which of many boxes are kept, and what rotated ones share: torchvision's operators on boxes."""

from __future__ import annotations

import numpy as np

import tritorch as torch
from tritorch.core.tensor import Tensor

_KEPT = 16384  # boxes that one program of keep_boxes holds


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
    from tritorch.kernels.images import windows

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


def qnms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """nms of quantized boxes: overlaps do not change with a common scale."""
    return nms(dets.float(), scores.float(), iou_threshold)


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
