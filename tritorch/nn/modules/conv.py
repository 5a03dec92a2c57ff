"""Convolutions and transposed ones, of 1 to 3 dims."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.nn import functional as _functions, init
from tritorch.nn.common_types import _size_any_t
from tritorch.nn.modules.linear import parameter
from tritorch.nn.modules.module import Module
from tritorch.nn.parameter import Parameter

F: Any = _functions

_MODES = ("zeros", "reflect", "replicate", "circular")


def repeated(value: Any, n: int) -> tuple[int, ...]:
    """A number for each dim."""
    return tuple(value) if isinstance(value, Sequence) else (value,) * n


class _ConvNd(Module):
    """What all convolutions share: sizes, checks, initialisation, printing."""

    weight: Parameter
    bias: Parameter

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: tuple[int, ...],
        stride: tuple[int, ...], padding: str | tuple[int, ...], dilation: tuple[int, ...],
        transposed: bool, output_padding: tuple[int, ...], groups: int, bias: bool,
        padding_mode: str, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(
                    f"Invalid padding string {padding!r}, should be one of {{'same', 'valid'}}"
                )
            if padding == "same" and any(s != 1 for s in stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in _MODES:
            raise ValueError(
                f"padding_mode must be one of {set(_MODES)}, but got padding_mode='{padding_mode}'"
            )
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.dilation, self.output_padding = dilation, output_padding
        self.transposed, self.padding_mode = transposed, padding_mode
        sides = self._both_sides()
        self._reversed_padding_repeated_twice = sides if isinstance(padding, str) else tuple(sides)
        first, second = (
            (in_channels, out_channels // groups)
            if transposed
            else (out_channels, in_channels // groups)
        )
        where = {"device": device, "dtype": dtype}
        self.weight = parameter(first, second, *self.kernel_size, **where)
        if bias:
            self.bias = parameter(out_channels, **where)
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _both_sides(self) -> list[int]:
        """The padding as `F.pad` takes it."""
        if isinstance(self.padding, str):
            out = [0, 0] * len(self.kernel_size)
            if self.padding == "same":
                for i, (d, k) in enumerate(
                    zip(reversed(self.dilation), reversed(self.kernel_size))
                ):
                    total = d * (k - 1)
                    out[2 * i], out[2 * i + 1] = total // 2, total - total // 2
            return out
        return [p for p in reversed(self.padding) for _ in range(2)]

    def reset_parameters(self) -> None:
        """Uniform, by the number of inputs of one output."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        """Sizes, and what is not the default."""
        n = len(self.kernel_size)
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
        text += f"stride={self.stride}"
        if self.padding != (0,) * n:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * n:
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * n:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


class _Conv(_ConvNd):
    _n: int

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: _size_any_t,
        stride: _size_any_t = 1, padding: str | _size_any_t = 0, dilation: _size_any_t = 1,
        groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        n = self._n
        super().__init__(
            in_channels, out_channels, repeated(kernel_size, n), repeated(stride, n),
            padding if isinstance(padding, str) else repeated(padding, n), repeated(dilation, n),
            False, (0,) * n, groups, bias, padding_mode, device, dtype,
        )  # fmt: skip

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = (0,) * self._n
        return getattr(F, f"conv{self._n}d")(
            input, weight, bias, self.stride, padding, self.dilation, self.groups
        )

    def forward(self, input: Tensor) -> Tensor:
        """The convolution."""
        return self._conv_forward(input, self.weight, self.bias)


class _ConvTransposeNd(_ConvNd):
    """What transposed convolutions share: the output size that a program may choose."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: tuple[int, ...],
        stride: tuple[int, ...], padding: tuple[int, ...], dilation: tuple[int, ...],
        transposed: bool, output_padding: tuple[int, ...], groups: int, bias: bool,
        padding_mode: str, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, transposed,
            output_padding, groups, bias, padding_mode, device, dtype,
        )  # fmt: skip

    def _output_padding(
        self, input: Tensor, output_size: Sequence[int] | None, stride: Sequence[int],
        padding: Sequence[int], kernel_size: Sequence[int], num_spatial_dims: int,
        dilation: Sequence[int] | None = None,
    ) -> Sequence[int]:  # fmt: skip
        """What is added at the end of each dim, so that outputs have the size that is wanted."""
        if output_size is None:
            return repeated(self.output_padding, num_spatial_dims)
        n, wanted = num_spatial_dims, list(output_size)
        if len(wanted) == input.ndim:
            wanted = wanted[input.ndim - n :]
        if len(wanted) != n:
            raise ValueError(
                f"ConvTranspose{n}D: for {input.ndim}D input, output_size must have {n} or "
                f"{n + 2} elements (got {len(wanted)})"
            )
        least = [
            (size - 1) * s - 2 * p + d * (k - 1) + 1
            for size, s, p, d, k in zip(
                input.shape[-n:], stride, padding, dilation or (1,) * n, kernel_size
            )
        ]
        most = [low + s - 1 for low, s in zip(least, stride)]
        if any(not low <= w <= high for low, w, high in zip(least, wanted, most)):
            raise ValueError(
                f"requested an output size of {output_size}, but valid sizes range from {least} to "
                f"{most} (for an input of {list(input.shape[2:])})"
            )
        return [w - low for w, low in zip(wanted, least)]


class _ConvTransposeMixin(_ConvTransposeNd):
    """Deprecated: _ConvTransposeNd."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            "`_ConvTransposeMixin` is a deprecated internal class. Please consider using public "
            "APIs.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__(*args, **kwargs)


class _ConvTranspose(_ConvTransposeNd):
    _n: int

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: _size_any_t,
        stride: _size_any_t = 1, padding: _size_any_t = 0, output_padding: _size_any_t = 0,
        groups: int = 1, bias: bool = True, dilation: _size_any_t = 1,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        n = self._n
        super().__init__(
            in_channels, out_channels, repeated(kernel_size, n), repeated(stride, n),
            repeated(padding, n), repeated(dilation, n), True, repeated(output_padding, n),
            groups, bias, padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        """The transposed convolution."""
        padding: Any = self.padding
        extra = self.output_padding if output_size is None else self._output_padding(
            input, output_size, self.stride, padding, self.kernel_size, self._n, self.dilation
        )  # fmt: skip
        return getattr(F, f"conv_transpose{self._n}d")(
            input, self.weight, self.bias, self.stride, padding, extra, self.groups,
            self.dilation,
        )  # fmt: skip


class Conv1d(_Conv):
    """Convolution of sequences."""

    _n = 1


class Conv2d(_Conv):
    """Convolution of images."""

    _n = 2


class Conv3d(_Conv):
    """Convolution of volumes."""

    _n = 3


class ConvTranspose1d(_ConvTranspose):
    """Transposed convolution of sequences."""

    _n = 1


class ConvTranspose2d(_ConvTranspose):
    """Transposed convolution of images."""

    _n = 2


class ConvTranspose3d(_ConvTranspose):
    """Transposed convolution of volumes."""

    _n = 3
