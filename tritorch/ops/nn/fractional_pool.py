"""Pooling over windows that random numbers place (fractional_max_pool2d, 3d)."""

from __future__ import annotations

import math
from typing import Any

from tritorch.core import published
from tritorch.core.dtype import int64
from tritorch.core.promotion import not_implemented
from tritorch.core.published import FUNCTIONAL, adds_results, autocast
from tritorch.core.tensor import Tensor
from tritorch.ops.record.ends import ends_as
from tritorch.ops.shape.joining import cat
from tritorch.ops.shape.ranges import arange
from tritorch.ops.shape.shape import reshape


def _ints(value: Any, n: int, name: str) -> tuple[int, ...]:
    values = (int(value),) * n if isinstance(value, int) else tuple(int(v) for v in value)
    if len(values) == 1:
        values *= n
    if len(values) != n:
        kind = "single Int or a tuple of two Ints" if n == 2 else "single Int, or a tuple of three"
        raise RuntimeError(f"fractional_max_pool{n}d: {name} must either be a {kind}")
    return values


def _check(x: Tensor, samples: Tensor, kernel: Any, size: Any, n: int) -> None:
    name = f"fractional_max_pool{n}d"
    if x.is_complex() or not x.is_floating_point():
        raise not_implemented(f"{name}_out_frame", x.dtype)
    if x.ndim not in (n + 1, n + 2):
        raise RuntimeError(
            f"{name}(): Expected {n + 1}D or {n + 2}D tensor, but got: {list(x.shape)}"
        )
    for dim in range(x.ndim - n - 1, x.ndim):
        if x.shape[dim] == 0:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero  size for non-batch dimensions, but "
                f"got {list(x.shape)} with dimension {dim} being empty."
            )
    titles = ("time", "height", "width")[3 - n :]
    for title, length, k, m in zip(titles, x.shape[-n:], kernel, size):
        if m + k - 1 > length:
            raise RuntimeError(
                f"{name}(): pool {title} {k} too large relative to input {title} {length}"
            )
    if samples.dtype is not x.dtype:
        raise RuntimeError("Expect _random_samples to have the same dtype as input")
    if samples.ndim != 3:
        raise RuntimeError(f"Expect _random_samples to have 3 dimensions, got {samples.ndim}")
    batch = x.shape[0] if x.ndim == n + 2 else 1
    if samples.shape[0] < batch:
        raise RuntimeError(
            "Expect _random_samples.size(0) no less then input batch size. "
            f"Got {samples.shape[0]} and {batch}"
        )
    if samples.shape[1] != x.shape[-n - 1]:
        raise RuntimeError(
            "Expect _random_samples.size(1) equals to input channel size. "
            f"Got {samples.shape[1]} and {x.shape[-n - 1]}"
        )
    if samples.shape[2] != n:
        raise RuntimeError(f"Expect _random_samples.size(2) equals to {n} got {samples.shape[2]}.")


def _starts(samples: Tensor, length: int, count: int, kernel: int) -> Tensor:
    """Where the windows of each channel begin: they cover the whole length, the last at its end."""
    last = samples.new_full((*samples.shape, 1), length - kernel, dtype=int64)
    if count == 1:
        return last
    alpha = (length - kernel) / (count - 1)
    place = arange(count - 1, dtype=samples.dtype, device=samples.device)
    sample = samples.unsqueeze(-1)
    starts = ((place + sample) * alpha).to(int64) - (sample * alpha).to(int64)
    return cat([starts, last], -1)


def _windows(samples: Tensor, spatial: Any, kernel: Any, size: Any) -> Tensor:
    """(N, C, windows, elements) places in the flattened plane of the elements of all windows."""
    n = len(spatial)
    # PyTorch takes the numbers of two dims from the last to the first, of three in order.
    columns = (1, 0) if n == 2 else (0, 1, 2)
    total: Any = 0
    for i, (length, k, m) in enumerate(zip(spatial, kernel, size)):
        starts = _starts(samples[:, :, columns[i]], length, m, k)
        taps = arange(k, device=samples.device)
        shape = [1] * (2 * n)
        shape[i], shape[n + i] = m, k
        at = starts.unsqueeze(-1) + taps
        total = total * length + reshape(at, (*samples.shape[:2], *shape))
    return reshape(total, (*samples.shape[:2], math.prod(size), math.prod(kernel)))


def _make(n: int) -> None:
    name = f"fractional_max_pool{n}d"

    def with_indices(
        input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
        if output_size is None:
            given = (output_ratio,) * n if isinstance(output_ratio, (int, float)) else output_ratio
            output_size = [int(s * ratio) for s, ratio in zip(input.shape[-n:], given)]
        kernel, size = _ints(kernel_size, n, "kernel_size"), _ints(output_size, n, "output_size")
        if _random_samples is None:
            batch = 1 if input.ndim == n + 1 else input.shape[0]
            _random_samples = published.public.rand(
                batch, input.shape[-n - 1], n, dtype=input.dtype, device=input.device
            )
        _check(input, _random_samples, kernel, size, n)
        x = input.unsqueeze(0) if input.ndim == n + 1 else input
        places = _windows(_random_samples[: x.shape[0]], x.shape[2:], kernel, size)
        flat = reshape(x, (*x.shape[:2], math.prod(x.shape[2:])))
        of_plane = (*x.shape[:2], math.prod(places.shape[2:]))
        seen = flat.detach().gather(2, reshape(places, of_plane))
        best = reshape(seen, places.shape).argmax(-1, keepdim=True)
        index = places.gather(-1, best).squeeze(-1)
        shape = (*x.shape[:2], *size)
        out, index = reshape(flat.gather(2, index), shape), reshape(index, shape)
        if x is not input:
            out, index = out.squeeze(0), index.squeeze(0)
        return ends_as(name, out), index

    @adds_results("return_indices")
    def function(
        input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Tensor | None = None,
    ) -> Any:  # fmt: skip
        both = with_indices(
            input, kernel_size, output_size, output_ratio, return_indices, _random_samples
        )
        return both if return_indices else both[0]

    function.__name__, with_indices.__name__ = name, f"{name}_with_indices"
    function.__doc__ = f"The largest of each window of {n} dims; random numbers place the windows."
    with_indices.__doc__ = f"{name}, and where in the plane the largest are."
    autocast("cpu:float32")(function)
    FUNCTIONAL[name], FUNCTIONAL[f"{name}_with_indices"] = function, with_indices


for _n in (2, 3):
    _make(_n)
