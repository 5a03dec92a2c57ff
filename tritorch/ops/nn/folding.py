"""Windows of images as columns and back, and the inverse of max pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tritorch.arrays.strides import looks_channels_last
from tritorch.core import defaults
from tritorch.core.dims import wrap_dim
from tritorch.core.layout import channels_last, contiguous_format
from tritorch.core.published import PUBLIC, autocast, computes
from tritorch.core.tensor import Tensor
from tritorch.ops.record.checks import require_kernel, require_tensor
from tritorch.ops.record.ends import ends_as, ends_with
from tritorch.ops.record.publishing import functional
from tritorch.ops.shape.padding import pad
from tritorch.ops.shape.shape import reshape


def _pair(value: Any, name: str) -> tuple[int, int]:
    out = (value, value) if isinstance(value, int) else tuple(map(int, value))
    if len(out) != 2:
        raise RuntimeError(f"It is expected {name} equals to 2, but got size {len(out)}")
    return out


def _windows(
    size: Sequence[int], kernel: Any, dilation: Any, padding: Any, stride: Any
) -> tuple[int, ...]:
    """How many windows there are along each dim."""
    return tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, d, p, s in zip(size, kernel, dilation, padding, stride)
    )


def _arguments(kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    found = (
        _pair(kernel, "kernel_size"), _pair(dilation, "dilation"), _pair(padding, "padding"),
        _pair(stride, "stride"),
    )  # fmt: skip
    for values, name, least in zip(found, ("kernel size", "dilation", "padding", "stride"),
                                   (1, 1, 0, 1)):  # fmt: skip
        if min(values) < least:
            kind = "non-negative" if least == 0 else "greater than zero"
            raise RuntimeError(f"{name} should be {kind}, but got {values[0]} and {values[1]}")
    return found


@functional
@computes("im2col")
@ends_with("im2col")
def unfold(
    input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """Each window of (N, C, H, W) as a column: (N, C kh kw, windows)."""
    require_tensor(input, "unfold", "input", 1)
    kernel, dilation, padding, stride = _arguments(kernel_size, dilation, padding, stride)
    if input.ndim not in (3, 4) or 0 in input.shape[-3:]:
        if input.ndim < 3:
            wrap_dim(min(input.ndim, 2), input.ndim)  # PyTorch asks for the sizes of dims 1 and 2
        raise RuntimeError(
            f"Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero "
            f"dimensions for input, but got: {list(input.shape)}"
        )
    if input.ndim == 3:
        return unfold(input.unsqueeze(0), kernel, dilation, padding, stride).squeeze(0)
    require_kernel("im2col_out_cpu", input, "int")
    windows = _windows(input.shape[2:], kernel, dilation, padding, stride)
    if min(windows) < 1:
        raise RuntimeError(
            f"Given input with spatial size {tuple(input.shape[2:])}, kernel_size={kernel}, "
            f"dilation={dilation}, padding={padding}, stride={stride}, calculated shape of the "
            f"array of sliding blocks as {windows}, but its components must be at least one."
        )
    x = pad(input, (padding[1], padding[1], padding[0], padding[0]))
    n, c, h, w = x.stride()
    view = x.as_strided(
        (*x.shape[:2], *kernel, *windows),
        (n, c, h * dilation[0], w * dilation[1], h * stride[0], w * stride[1]),
    )
    return reshape(view, (x.shape[0], x.shape[1] * math.prod(kernel), math.prod(windows)))


@functional
@computes("col2im")
@ends_with("col2im")
def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0,
    stride: Any = 1,
) -> Tensor:  # fmt: skip
    """Columns added back into images: the adjoint of unfold."""
    require_tensor(input, "fold", "input", 1)
    kernel, dilation, padding, stride = _arguments(kernel_size, dilation, padding, stride)
    size = _pair(output_size, "output_size")
    if input.ndim not in (2, 3):
        raise RuntimeError(
            f"Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and "
            f"non-zero dimensions for input, but got: {list(input.shape)}"
        )
    if input.ndim == 2:
        whole = fold(input.unsqueeze(0), size, kernel, dilation, padding, stride)
        return whole.squeeze(0)
    windows = _windows(size, kernel, dilation, padding, stride)
    if input.shape[1] % math.prod(kernel):
        raise RuntimeError(
            f"Expected size of input's dimension 1 to be divisible by the product of kernel_size, "
            f"but got input.size(1)={input.shape[1]} and kernel_size={kernel}."
        )
    if min(windows) < 1 or math.prod(windows) != input.shape[2]:
        raise RuntimeError(
            f"Given output_size={size}, kernel_size={kernel}, dilation={dilation}, "
            f"padding={padding}, stride={stride}, expected size of input's dimension 2 to match "
            f"the calculated number of sliding blocks {windows[0]} * {windows[1]} = "
            f"{math.prod(windows)}, but got input.size(2)={input.shape[2]}."
        )
    channels = input.shape[1] // math.prod(kernel)
    parts = reshape(input, (input.shape[0], channels, *kernel, *windows))
    out = input.new_zeros((input.shape[0], channels, *(n + 2 * p for n, p in zip(size, padding))))
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            rows, cols = (
                slice(at * d, at * d + s * (m - 1) + 1, s)
                for at, d, s, m in zip((i, j), dilation, stride, windows)
            )
            out[:, :, rows, cols] += parts[:, :, i, j]
    inner = out[:, :, padding[0] : padding[0] + size[0], padding[1] : padding[1] + size[1]]
    return inner.clone(memory_format=contiguous_format)


def _unpool(n: int) -> Any:
    name = f"max_unpool{n}d"

    def function(
        input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
        output_size: Any = None,
    ) -> Tensor:  # fmt: skip
        each = lambda value: (value,) * n if isinstance(value, int) else tuple(value)
        kernel, pads = each(kernel_size), each(padding)
        steps = kernel if stride is None else each(stride)
        size = _unpool_output_size(input, kernel, steps, pads, output_size)
        if input.shape != indices.shape:
            raise RuntimeError(
                f"Expected shape of indices to be same as that of the input tensor "
                f"({list(input.shape)}) but got indices tensor with shape: {list(indices.shape)}"
            )
        defaults.alert_not_deterministic(f"max_unpooling{max(n, 2)}d_forward_out")
        flat, places = (reshape(x, (*x.shape[:-n], -1)) for x in (input, indices))
        out = input.new_zeros((*input.shape[:-n], math.prod(size)))
        filled = reshape(out.scatter(-1, places, flat), (*input.shape[:-n], *size))
        if n == 2 and filled.ndim == 4 and looks_channels_last(tuple(input.shape), input.stride()):
            filled = filled.contiguous(memory_format=channels_last)
        return ends_as("squeeze.dim" if n == 1 else name, filled)

    function.__name__ = name
    function.__doc__ = f"Maxima of {n} dims put back where they were, zeros elsewhere."
    return functional(function)


def _unpool_output_size(
    input: Tensor, kernel_size: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    output_size: Any,
) -> list[int]:  # fmt: skip
    """The size that maxima are put back into: by the windows, if none is given."""
    n = len(kernel_size)
    default = [
        (size - 1) * s + k - 2 * p
        for size, s, k, p in zip(input.shape[-n:], stride, kernel_size, padding)
    ]
    if output_size is None:
        return default
    wanted = list(output_size)[-n:]
    if len(tuple(output_size)) not in (n, n + 2, n + 1):
        raise ValueError(
            f"output_size should be a sequence containing {n} or {n + 2} elements, but it has a "
            f"length of '{len(tuple(output_size))}'"
        )
    for d, (low, s) in enumerate(zip(default, stride)):
        if not low - s < wanted[d] < low + s:
            raise ValueError(
                f'invalid output_size "{wanted}" (dim {d} must be between {low - s} and {low + s})'
            )
        _check_unpool_output_size(wanted, d)
    return wanted


def _check_unpool_output_size(output_size: Sequence[int], dim: int) -> None:
    """Refuses a negative size."""
    if output_size[dim] < 0:
        raise ValueError(
            "max_unpooling: output_size must contain non-negative spatial dimensions, but got "
            f"output_size[{dim}]={output_size[dim]}"
        )


max_unpool1d, max_unpool2d, max_unpool3d = (autocast("cpu:float32")(_unpool(n)) for n in (1, 2, 3))
PUBLIC["im2col"] = lambda input, kernel_size, dilation, padding, stride: unfold(
    input, kernel_size, dilation, padding, stride
)
