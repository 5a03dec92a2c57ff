"""Images sampled at the places of a grid (grid_sample), and affine grids."""

from __future__ import annotations

import itertools
import math
from typing import Any

from tritorch.core import defaults
from tritorch.core.dtype import float32, int64
from tritorch.core.promotion import not_implemented
from tritorch.core.published import PUBLIC, autocast, computes
from tritorch.core.tensor import Tensor
from tritorch.ops.pointwise.arithmetic import where
from tritorch.ops.record.backends import composed_backend
from tritorch.ops.record.checks import require_scalar_type
from tritorch.ops.record.ends import ends_as, ends_with
from tritorch.ops.record.groups import Gradient, Rules
from tritorch.ops.record.operator import Operator
from tritorch.ops.record.publishing import functional
from tritorch.ops.record.spelling import spelled
from tritorch.ops.shape.factory import ones
from tritorch.ops.shape.joining import stack
from tritorch.ops.shape.ranges import arange, linspace
from tritorch.ops.shape.shape import reshape

GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}
_NEAREST, _CUBIC = 1, 2
_BORDER, _REFLECTION = 1, 2
_A = -0.75  # of the cubic


def _bounded(place: Tensor, n: int, padding: int, align: bool) -> Tensor:
    """Places moved into the image."""
    if padding == _REFLECTION:
        low, span = (0.0, n - 1) if align else (-0.5, n)
        if not span:
            return place * 0
        away = (place - low).abs()
        flips = (away / span).floor()
        extra = away - flips * span
        place = where(flips % 2 == 0, extra, span - extra) + low
    return place.clamp(0, n - 1) if padding else place


def _taps(c: Tensor, n: int, mode: int, padding: int, align: bool) -> list[tuple[Tensor, Tensor]]:
    """(index, weight) of the elements of a dim that coordinates in [-1, 1] are between."""
    place = (c + 1) * ((n - 1) / 2) if align else ((c + 1) * n - 1) / 2
    if mode == _CUBIC:
        low = place.floor()
        t = place - low
        near = lambda t: ((_A + 2) * t - (_A + 3)) * t * t + 1
        far = lambda t: ((_A * t - 5 * _A) * t + 8 * _A) * t - 4 * _A
        weights = (far(t + 1), near(t), near(1 - t), far(2 - t))
        return [
            (_bounded(low + (i - 1), n, padding, align), weight) for i, weight in enumerate(weights)
        ]
    place = _bounded(place, n, padding, align)
    if padding:
        place = place.masked_fill(place.isnan(), 0)  # as in PyTorch: at the edge
    if mode == _NEAREST:  # the weight: so that the grid gets a gradient, 0
        return [(place.round(), (place * 0).nan_to_num(0.0) + 1)]
    low = place.floor()
    part = place - low
    return [(low, 1 - part), (low + 1, part)]


def _composed(x: Tensor, grid: Tensor, mode: int, padding: int, align: bool) -> Tensor:
    kind, spatial = x.dtype, x.shape[2:]
    if kind.itemsize < 4:
        x, grid = x.to(float32), grid.to(float32)
    batch, channels = x.shape[:2]
    pixels = reshape(x.movedim(1, -1), (batch * math.prod(spatial), channels))
    first = arange(batch, device=x.device).unsqueeze(1)  # image of each row of points
    points = reshape(grid, (grid.shape[0], math.prod(grid.shape[1:-1]), len(spatial)))
    dims = [
        _taps(points[..., len(spatial) - 1 - d], n, mode, padding, align)
        for d, n in enumerate(spatial)
    ]
    total: Any = 0
    for taps in itertools.product(*dims):
        index: Any = first
        inside: Any = True
        weight: Any = 1.0
        for (place, share), n in zip(taps, spatial):
            seen = (place >= 0) & (place <= n - 1)
            index = index * n + place.detach().masked_fill(~seen, 0).to(int64)
            inside = seen & inside
            weight = share * weight
        # What lies outside is 0; the weights of a NaN are NaN all the same.
        value = pixels.index_select(0, index.flatten())
        value = value.masked_fill(~inside.flatten().unsqueeze(1), 0)
        total = total + value * weight.flatten().unsqueeze(1)
    out = reshape(total, (batch, *grid.shape[1:-1], channels)).movedim(-1, 1)
    return out.contiguous().to(kind)


def _gradient(g: Tensor, x: Tensor, grid: Tensor, mode: int, padding: int, align: bool) -> Any:
    if not x.is_cuda:
        return NotImplemented  # by the composed definition
    wanted = (x._requires_grad, grid._requires_grad)
    return _back.call((g, x, grid), (mode, padding, align, *wanted))


_sample = Operator(
    "grid_sampler", "x grid", "mode padding align",
    cpu=composed_backend(_composed), gpu="grid.grid_sample", composed=_composed,
    grad=Gradient(joint=_gradient), layout="row-major",
    rules=Rules(
        infer=lambda x, grid, *rest: x.new((*x.shape[:2], *grid.shape[1:-1])), batch="fold",
    ),
)  # fmt: skip
_back = Operator(
    "grid_sampler_backward", "y x grid", "mode padding align needs_x needs_grid",
    schema="(Tensor y, Tensor x, Tensor grid, int mode, int padding, bool align, bool "
        "needs_x, bool needs_grid) -> (Tensor, Tensor)",
    kind="internal", gpu="grid.grid_sample_backward", grad=Gradient(outputs=0b11),
    rules=Rules(
        infer=lambda y, x, grid, *rest: (x.new(x.shape), grid.new(grid.shape)), batch="fold",
    ),
)  # fmt: skip


def _check(x: Tensor, grid: Tensor, mode: int) -> None:
    shapes = f"input with sizes {list(x.shape)} and grid with sizes {list(grid.shape)}"
    if x.device != grid.device:
        raise RuntimeError(
            f"grid_sampler(): expected input and grid to be on same device, but input is on "
            f"{x.device} and grid is on {grid.device}"
        )
    if not grid.ndim or not x.ndim or x.shape[0] != grid.shape[0]:
        raise RuntimeError(
            f"grid_sampler(): expected grid and input to have same batch size, but got {shapes}"
        )
    if grid.shape[-1] != x.ndim - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {x.ndim - 2} in last dimension, but got "
            f"grid with sizes {list(grid.shape)}"
        )
    for dim in range(2, x.ndim):
        if not x.shape[dim]:
            raise RuntimeError(
                f"grid_sampler(): expected input to have non-empty spatial dimensions, but input "
                f"has sizes {list(x.shape)} with dimension {dim} being empty"
            )
    if x.ndim not in (4, 5) or grid.ndim != x.ndim:
        raise RuntimeError(
            f"grid_sampler(): expected {'4D or 5D' if x.ndim in (4, 5) else '5D'} input and grid "
            f"with same number of dimensions, but got {shapes}"
        )
    if mode == _CUBIC and x.ndim != 4:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if not x.is_floating_point():
        raise not_implemented(f"grid_sampler_{x.ndim - 2}d_cpu_kernel_impl", x.dtype)
    require_scalar_type(x, grid)


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """grid_sample, with its modes as numbers."""
    _check(input, grid, interpolation_mode)
    out = _sample.call((input, grid), (interpolation_mode, padding_mode, bool(align_corners)))
    return ends_as(f"grid_sampler_{input.ndim - 2}d", out)


for _name in ("grid_sampler", "grid_sampler_2d", "grid_sampler_3d"):
    PUBLIC[_name] = grid_sampler


def _aligned(align_corners: bool | None) -> bool:
    if align_corners is None:
        defaults.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since "
            "1.3.0. Please specify align_corners=True if the old behavior is desired. See the "
            "documentation of grid_sample for details.",
            stacklevel=3,
        )
    return bool(align_corners)


@functional
@autocast("cpu:float32 cuda:widest")
@computes("grid_sampler")
@spelled(
    lambda input, grid, mode, padding_mode, align_corners: ("grid_sampler", (
        input, grid, GRID_SAMPLE_INTERPOLATION_MODES[mode],
        GRID_SAMPLE_PADDING_MODES[padding_mode], bool(align_corners),
    ))
)  # fmt: skip
def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:  # fmt: skip
    """The input at the places (x, y) or (x, y, z) of a grid; the image spans [-1, 1]."""
    if mode not in GRID_SAMPLE_INTERPOLATION_MODES:
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', "
            f"but got: '{mode}'"
        )
    if padding_mode not in GRID_SAMPLE_PADDING_MODES:
        raise ValueError(
            f"nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
            f"'reflection', but got: '{padding_mode}'"
        )
    return grid_sampler(
        input, grid, GRID_SAMPLE_INTERPOLATION_MODES[mode],
        GRID_SAMPLE_PADDING_MODES[padding_mode], _aligned(align_corners),
    )  # fmt: skip


def affine_grid_generator(theta: Tensor, size: Any, align_corners: bool) -> Tensor:
    """The places of an output's elements, mapped by theta."""
    batch, _, *spatial = size
    like: dict[str, Any] = {"dtype": theta.dtype, "device": theta.device}
    n, columns = len(spatial), []
    for d, length in enumerate(spatial):
        line = linspace(-1, 1, length, **like) if length > 1 else theta.new_zeros(1)
        if not align_corners:
            line = line * ((length - 1) / length)
        line = reshape(line, [length if i == d else 1 for i in range(n)])
        columns.append(line.expand(*spatial))
    columns = [*reversed(columns), ones(spatial, **like)]
    base = reshape(stack(columns, -1), (1, -1, n + 1))
    places = base.expand(batch, -1, -1).bmm(theta.transpose(1, 2))
    return reshape(places, (batch, *spatial, n))


PUBLIC["affine_grid_generator"] = affine_grid_generator


@functional
@ends_with("affine_grid_generator")
def affine_grid(theta: Tensor, size: Any, align_corners: bool | None = None) -> Tensor:
    """A grid for grid_sample: affine maps theta (N, 2, 3) or (N, 3, 4) of an output of a size."""
    align = _aligned(align_corners)
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    n = len(size) - 2
    if n not in (2, 3):
        raise NotImplementedError(
            f"affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively. Got size {size}."
        )
    if theta.ndim != 3 or tuple(theta.shape[1:]) != (n, n + 1):
        raise ValueError(
            f"Expected a batch of {n}D affine matrices of shape Nx{n}x{n + 1} for size {size}. "
            f"Got {theta.shape}."
        )
    if align and min(size[2:]) == 1:
        defaults.warn(
            "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when "
            "align_corners=True. This is not an intended use case of affine_grid. See the "
            "documentation of affine_grid for details.",
            stacklevel=2,
        )
    elif min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return affine_grid_generator(theta, size, align)
