"""Windows of images: weights of regions, and what is seen through them (Note [Windows] in
kernels/images/windows.py)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import tritorch as torch
from tritorch.core.tensor import Tensor


class Windows(NamedTuple):
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
        from tritorch.kernels.images import windows

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
        from tritorch.kernels.images import windows

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


def exact(rois: Tensor) -> Tensor:
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


def aligned_windows(
    rois: Tensor, scale: float, out: tuple[int, int], ratio: int, shape: tuple[int, ...],
    shift: float, least: float, spread: bool,
) -> Windows:  # fmt: skip
    boxes = exact(rois)
    x1, y1, x2, y2 = (boxes[:, i] * scale - shift for i in range(1, 5))
    h, w = (y2 - y1), (x2 - x1)
    if least:
        h, w = h.clamp(min=least), w.clamp(min=least)
    rows = _sampled(y1, h, out[0], ratio, shape[2])
    columns = _sampled(x1, w, out[1], ratio, shape[3])
    return Windows(boxes[:, 0].int(), rows.contiguous(), columns.contiguous(), spread)


def roi_windows(
    rois: Tensor, scale: float, out: tuple[int, int], ratio: int, shape: tuple[int, ...],
    aligned: bool,
) -> Windows:  # fmt: skip
    shift, least = (0.5, 0.0) if aligned else (0.0, 1.0)
    return aligned_windows(rois, scale, out, ratio, shape, shift, least, spread=False)


def rounded(x: Tensor) -> Tensor:
    """Half away from zero, as C rounds."""
    return (x.abs() + 0.5).floor().copysign(x)


def parts_of(start: Tensor, length: Tensor, places: int, most: int) -> tuple[Tensor, Tensor]:
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


def ps_roi_windows(
    rois: Tensor, scale: float, out: tuple[int, int], shape: tuple[int, ...]
) -> Windows:
    """As torchvision's forward, parts end before an image's last row and column."""
    boxes = exact(rois)
    x1, y1, x2, y2 = (rounded(boxes[:, i] * scale) for i in range(1, 5))
    h, w = (y2 - y1).clamp(min=1), (x2 - x1).clamp(min=1)
    rows = _means(*parts_of(y1, h, out[0], shape[2] - 1), shape[2])
    columns = _means(*parts_of(x1, w, out[1], shape[3] - 1), shape[3])
    return Windows(boxes[:, 0].int(), rows.contiguous(), columns.contiguous(), True)


def maxima_by_numpy(
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
