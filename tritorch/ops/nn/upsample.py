"""Interpolation (torch.nn.functional.interpolate)."""

from __future__ import annotations

from typing import Any

from tritorch.core import defaults
from tritorch.core.published import FUNCTIONAL, autocast
from tritorch.core.tensor import Tensor
from tritorch.ops.nn.resample import resample
from tritorch.ops.record.backends import backend
from tritorch.ops.record.checks import require_kernel
from tritorch.ops.record.groups import Rules, Without
from tritorch.ops.record.operator import Operator
from tritorch.ops.record.publishing import functional
from tritorch.ops.record.sizes import windows

_nearest = Operator(
    "upsample_nearest",
    "x",
    "size scales exact",
    schema="{'_upsample_nearest_exact' if exact else 'upsample_nearest'}{len(size)}d(x, "
    "size, *scales)",
    cpu="upsample.nearest",
    grad=lambda g, x_shape, size, scales, exact: _nearest_back.call(
        (g,), (x_shape, size, scales, exact)
    ),
    layout="format",
    without=Without(
        "bool int8 int16 int32 int64 complex", kernel="compute_indices_weights_nearest"
    ),
    rules=Rules(
        infer=lambda x, size, *rest: x.new((*x.shape[:2], *size)),
        axes=lambda x, *rest: "bc{0}->bc{0}".format(windows(len(x.shape) - 2)),
        batch="fold",
    ),
)
_nearest_back: Operator = Operator(
    "upsample_nearest_backward",
    "y",
    "shape size scales exact",
    schema="{'_upsample_nearest_exact' if exact else "
    "'upsample_nearest'}{len(size)}d_backward(y, size, shape, *scales)",
    kind="internal",
    cpu=lambda y, shape, size, scales, exact: backend("cpu", "upsample").nearest_backward(
        y, shape, scales, exact
    ),
    gpu=lambda y, shape, size, scales, exact: backend("gpu", "upsample").nearest_backward(
        y, shape, scales, exact
    ),
    grad=lambda g, size, scales, exact: _nearest.call((g,), (size, scales, exact)),
    layout="format",
    rules=Rules(
        infer=lambda y, shape, *rest: y.new(shape),
        axes=lambda x, *rest: "bc{0}->bc{0}".format(windows(len(x.shape) - 2)),
        batch="fold",
    ),
)
_linear = Operator(
    "upsample_linear",
    "x",
    "size scales align",
    schema="upsample_{('linear1d', 'bilinear2d', 'trilinear3d')[len(size) - 1]}(x, size, "
    "align, *scales)",
    cpu="upsample.linear",
    grad=lambda g, x_shape, size, scales, align: _linear_back.call(
        (g,), (x_shape, size, scales, align)
    ),
    layout="format",
    without=Without("bool int8 int16 int32 int64 complex", kernel="compute_indices_weights_linear"),
    rules=Rules(
        infer=lambda x, size, *rest: x.new((*x.shape[:2], *size)),
        axes=lambda x, *rest: "bc{0}->bc{0}".format(windows(len(x.shape) - 2)),
        batch="fold",
        cost=lambda outs, x, size, *rest: outs[0].numel() * 2 ** (len(size) + 1),
    ),
)
_linear_back: Operator = Operator(
    "upsample_linear_backward",
    "y",
    "shape size scales align",
    schema="upsample_{('linear1d', 'bilinear2d', 'trilinear3d')[len(size) - 1]}_backward(y, "
    "size, shape, align, *scales)",
    kind="internal",
    cpu=lambda y, shape, size, scales, align: backend("cpu", "upsample").linear_backward(
        y, shape, scales, align
    ),
    gpu=lambda y, shape, size, scales, align: backend("gpu", "upsample").linear_backward(
        y, shape, scales, align
    ),
    grad=lambda g, size, scales, align: _linear.call((g,), (size, scales, align)),
    layout="format",
    rules=Rules(
        infer=lambda y, shape, *rest: y.new(shape),
        axes=lambda x, *rest: "bc{0}->bc{0}".format(windows(len(x.shape) - 2)),
        batch="fold",
        cost=lambda outs, y, shape, size, *rest: y.numel() * 2 ** (len(size) + 1),
    ),
)


_LINEAR = {"linear": 1, "bilinear": 2, "trilinear": 3}
_FILTERED = ("bilinear", "bicubic", "lanczos")


@functional
@autocast("cuda:float32")
def interpolate(input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
                align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
                antialias: bool = False) -> Tensor:  # fmt: skip
    """The spatial dims resampled to a size."""
    spatial = input.ndim - 2
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: linear | "
                "bilinear | bicubic | trilinear | lanczos"
            )
    elif align_corners is None:
        align_corners = False
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    scales: tuple[Any, ...] = (None,) * spatial
    if size is not None:
        sizes = (
            tuple(int(v) for v in size)
            if isinstance(size, (list, tuple))
            else (int(size),) * spatial
        )
        if len(sizes) != spatial and isinstance(size, (list, tuple)):
            raise ValueError(
                "Input and output must have the same number of spatial dimensions, but got input "
                f"with spatial dimensions of {list(input.shape[2:])} and output size of {size}. "
                "Please provide input tensor in (N, C, d1, d2, ...,dK) format and output size in "
                "(o1, o2, ...,oK) format."
            )
        if recompute_scale_factor:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    else:
        factors = (
            tuple(scale_factor)
            if isinstance(scale_factor, (list, tuple))
            else (scale_factor,) * spatial
        )
        if len(factors) != spatial and isinstance(scale_factor, (list, tuple)):
            raise ValueError(
                "Input and scale_factor must have the same number of spatial dimensions, but got "
                f"input with spatial dimensions of {list(input.shape[2:])} and scale_factor of "
                f"shape {scale_factor}. Please provide input tensor in (N, C, d1, d2, ...,dK) "
                "format and scale_factor in (s1, s2, ...,sK) format."
            )
        sizes = tuple(int(n * f) for n, f in zip(input.shape[2:], factors))
        if not recompute_scale_factor and mode != "area":
            scales = tuple(float(f) for f in factors)
    if spatial not in (1, 2, 3):
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.ndim}D) for the "
            "modes: nearest | linear | bilinear | bicubic | trilinear | lanczos | area | "
            f"nearest-exact (got {mode})"
        )
    if any(n <= 0 for n in (*sizes, *input.shape[2:])):
        given, wanted = (
            ", ".join(f"{dim}: {n}" for dim, n in zip("DHW"[-spatial:], extent))
            for extent in (input.shape[2:], sizes)
        )
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input ({given}) "
            f"{'and ' if spatial == 1 else ''}output ({wanted})"
        )
    if not input.shape[1] and mode != "area":
        raise RuntimeError(
            f"Non-empty {input.ndim}D data tensor expected but got a tensor with sizes "
            f"{list(input.shape)}"
        )
    if antialias and not (mode in _FILTERED and spatial == 2):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires "
            "a 4-D tensor as input"
        )
    if mode in ("linear", "trilinear"):
        require_kernel("compute_indices_weights_linear", input, "uint8")
    if mode in ("nearest", "nearest-exact") and spatial in (1, 2, 3):
        return _nearest.call((input,), (sizes, scales, mode == "nearest-exact"))
    if mode == "area" and spatial in (1, 2, 3):
        return FUNCTIONAL[f"adaptive_avg_pool{spatial}d"](input, sizes)
    if mode in _LINEAR and _LINEAR[mode] == spatial and not antialias:
        return _linear.call((input,), (sizes, scales, bool(align_corners)))
    if mode == "lanczos" and spatial == 2:
        if align_corners:
            raise ValueError("Lanczos mode does not support align_corners=True")
        if not antialias:
            raise ValueError("Lanczos mode requires antialias=True")
    if mode in _FILTERED and spatial == 2:
        return resample(input, sizes, scales, bool(align_corners), mode, antialias)
    if mode in _LINEAR and spatial in (1, 2, 3):
        raise NotImplementedError(
            f"Got {input.ndim}D input, but {mode} mode needs {_LINEAR[mode] + 2}D input"
        )
    raise NotImplementedError(
        f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.ndim}D) for the "
        f"modes: nearest | linear | bilinear | bicubic | trilinear | lanczos | area | "
        f"nearest-exact (got {mode})"
    )


def _former(name: str) -> None:
    defaults.warn(
        f"`nn.functional.{name}` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=3,
    )


@functional
@autocast("cuda:float32")
def upsample(input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
             align_corners: bool | None = None) -> Tensor:  # fmt: skip
    """interpolate, by its old name."""
    _former("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


@functional
@autocast("cuda:float32")
def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """interpolate with mode nearest."""
    _former("upsample_nearest")
    return interpolate(input, size, scale_factor, "nearest")


@functional
@autocast("cuda:float32")
def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """interpolate with mode bilinear and aligned corners."""
    _former("upsample_bilinear")
    return interpolate(input, size, scale_factor, "bilinear", align_corners=True)
