"""How parameters are filled, as in torch.nn.init."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from tritorch.autograd import no_grad
from tritorch.core import published
from tritorch.core.tensor import Tensor
from tritorch.ops.linalg import linalg_qr
from tritorch.ops.pointwise.arithmetic import where
from tritorch.ops.random.random import randperm
from tritorch.ops.shape import ranges

_R = TypeVar("_R")
_P = ParamSpec("_P")

_GAINS = {"sigmoid": 1.0, "tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}
_LINEAR = (
    "linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d",
)  # fmt: skip


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """By how much weights before a nonlinearity are to be larger."""
    if nonlinearity in _LINEAR:
        return 1.0
    if nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    if nonlinearity == "leaky_relu":
        if param is None:
            slope = 0.01
        elif isinstance(param, (int, float)) and not isinstance(param, bool):
            slope = param
        else:
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def _fill(tensor: Tensor, fill: Callable[[Tensor], Any]) -> Tensor:
    with no_grad():
        fill(tensor)
    return tensor


def _no_grad_uniform_(tensor: Tensor, a: float, b: float, generator: Any = None) -> Tensor:
    """Uniform in [a, b), which no gradient sees."""
    return _fill(tensor, lambda t: t.uniform_(a, b, generator=generator))


def _no_grad_normal_(tensor: Tensor, mean: float, std: float, generator: Any = None) -> Tensor:
    """Normally distributed, which no gradient sees."""
    return _fill(tensor, lambda t: t.normal_(mean, std, generator=generator))


def _no_grad_fill_(tensor: Tensor, val: float) -> Tensor:
    """One number everywhere, which no gradient sees."""
    return _fill(tensor, lambda t: t.fill_(val))


def _no_grad_zero_(tensor: Tensor) -> Tensor:
    """Zeros, which no gradient sees."""
    return _fill(tensor, lambda t: t.zero_())


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform in [a, b)."""
    return _no_grad_uniform_(tensor, a, b, generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Normally distributed."""
    return _no_grad_normal_(tensor, mean, std, generator)


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0,
    generator: Any = None,
) -> Tensor:  # fmt: skip
    """Normally distributed within [a, b]."""
    return _no_grad_trunc_normal_(tensor, mean, std, a, b, generator)


def _no_grad_trunc_normal_(
    tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any = None
) -> Tensor:
    """Normally distributed within [a, b], which no gradient sees."""
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of "
            "values may be incorrect.",
            stacklevel=3,
        )
    cdf = lambda x: (1 + math.erf(x / math.sqrt(2))) / 2
    within = cdf((b - mean) / std) - cdf((a - mean) / std)
    fill = _redraw if within > 0.3 else _reject
    return _fill(tensor, lambda t: fill(t, mean, std, a, b, generator))


def _redraw(t: Tensor, mean: float, std: float, a: float, b: float, generator: Any) -> None:
    """Normal numbers, those out of bounds drawn again."""
    low, high = t.new_tensor(a).item(), t.new_tensor(b).item()
    t.normal_(mean, std, generator=generator)
    while bool((outside := (t < low) | (t > high)).any()):
        again = published.public.empty_like(t).normal_(mean, std, generator=generator)
        t.copy_(where(outside, again, t))


def _reject(t: Tensor, mean: float, std: float, a: float, b: float, generator: Any) -> None:
    """Uniform numbers, accepted as often as their density is to the highest one."""
    mode = max(a, min(mean, b))
    log_peak = -0.5 * ((mode - mean) / std) ** 2
    candidates, levels = published.public.empty_like(t), published.public.empty_like(t)
    pending: Any = None
    while pending is None or bool(pending.any()):
        candidates.uniform_(a, b, generator=generator)
        t.copy_(candidates if pending is None else where(pending, candidates, t))
        density = candidates.sub_(mean).div_(std).pow_(2).mul_(-0.5).sub_(log_peak)
        rejected = levels.uniform_(generator=generator).log_().gt(density)
        pending = rejected if pending is None else pending & rejected


def constant_(tensor: Tensor, val: float) -> Tensor:
    """One number everywhere."""
    return _no_grad_fill_(tensor, val)


def ones_(tensor: Tensor) -> Tensor:
    """Ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Zeros."""
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    return _fill(tensor, lambda t: ranges.eye(*t.shape, out=t, dtype=t.dtype, device=t.device))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Convolution weights that pass as many channels on as they can."""
    if tensor.ndim not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    out, rest = tensor.shape[0], tensor.shape[1]
    if out % groups:
        raise ValueError("dim 0 must be divisible by groups")
    per_group = out // groups
    middle = tuple(n // 2 for n in tensor.shape[2:])

    def fill(t: Tensor) -> None:
        t.zero_()
        for group in range(groups):
            for channel in range(min(per_group, rest)):
                t[(group * per_group + channel, channel, *middle)] = 1

    return _fill(tensor, fill)


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    if tensor.ndim < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform, with a variance that keeps that of activations and of gradients."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    bound = math.sqrt(3.0) * gain * math.sqrt(2.0 / (fan_in + fan_out))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Normal, with a variance that keeps that of activations and of gradients."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / (fan_in + fan_out)), generator)


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    """The number of inputs of one output, or of outputs of one input."""
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def kaiming_uniform_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:  # fmt: skip
    """Uniform, with a variance for rectified activations."""
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=2)
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:  # fmt: skip
    """Normal, with a variance for rectified activations."""
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=2)
        return tensor
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Normal, with a part of each column zero."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, cols = tensor.shape
    n_zeros = math.ceil(sparsity * rows)

    def fill(t: Tensor) -> None:
        t.normal_(0, std, generator=generator)
        for col in range(cols):
            t[randperm(rows)[:n_zeros], col] = 0

    return _fill(tensor, fill)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Orthogonal rows or columns; of more than two dims, the trailing ones are one."""
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if not tensor.numel():
        return tensor
    rows = tensor.shape[0]

    def fill(t: Tensor) -> None:
        flat = t.new_empty((rows, t.numel() // rows)).normal_(0, 1, generator=generator)
        wide = rows < flat.shape[1]
        q, r = linalg_qr(flat.t() if wide else flat)
        q = q * r.diagonal().sign()  # makes all orthogonal matrices equally likely
        t.copy_((q.t() if wide else q).reshape(t.shape)).mul_(gain)

    return _fill(tensor, fill)


def _make_deprecate(meth: Callable[..., Tensor]) -> Callable[..., Tensor]:
    name = meth.__name__

    def old(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(
            f"`nn.init.{name[:-1]}` is now deprecated in favor of `nn.init.{name}`.",
            FutureWarning,
            stacklevel=2,
        )
        return meth(*args, **kwargs)

    old.__name__, old.__doc__ = name[:-1], f"Deprecated: {name}."
    return old


uniform, normal, constant = (
    _make_deprecate(uniform_),
    _make_deprecate(normal_),
    _make_deprecate(constant_),
)
eye, dirac = _make_deprecate(eye_), _make_deprecate(dirac_)
xavier_uniform, xavier_normal = _make_deprecate(xavier_uniform_), _make_deprecate(xavier_normal_)
kaiming_uniform, kaiming_normal = (
    _make_deprecate(kaiming_uniform_),
    _make_deprecate(kaiming_normal_),
)
sparse, orthogonal = _make_deprecate(sparse_), _make_deprecate(orthogonal_)
