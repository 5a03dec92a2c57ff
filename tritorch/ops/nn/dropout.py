"""Dropout: of elements, of channels, and of either into what SELU tends to."""

from __future__ import annotations

import math
from typing import Any

from tritorch import _C
from tritorch.arrays import arrays
from tritorch.arrays.meta import MetaArray
from tritorch.arrays.strides import copy_strides
from tritorch.core import defaults, published
from tritorch.core.dtype import bool_, dtype
from tritorch.core.generator import default_for
from tritorch.core.promotion import category, scalar_name
from tritorch.core.published import PUBLIC
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.vmap import active
from tritorch.ops.random.random import reserve, sample
from tritorch.ops.record.backends import backend
from tritorch.ops.record.checks import require_kernel
from tritorch.ops.record.ends import ends_as
from tritorch.ops.record.groups import Gradient, Rules
from tritorch.ops.record.infer import same
from tritorch.ops.record.operator import Operator
from tritorch.ops.record.publishing import functional
from tritorch.ops.record.spelling import spelled
from tritorch.ops.shape import factory

_LOW = -1.7580993408473766  # what SELU tends to: alpha dropout's elements become this


def _drop(x: Any, p: float) -> Any:
    return sample("dropout", None, arrays.device_of(x), x, p)


def _drop_with_mask(x: Any, p: float) -> Any:
    drawn = default_for(arrays.device_of(x)).draw(x.numel())
    return backend("gpu", "random").dropout_with_mask(x, p, *drawn)


def _scale(g: Tensor, p: float) -> float:
    """By what was kept is multiplied, as the CPU rounds it."""
    if g.device.type == "cpu":
        return float(backend("cpu", "random").dropout_scale(g.dtype.numpy, p).real)
    return 1 / (1 - p) if p < 1 else 0.0


def _like(x: MetaArray, kind: dtype | None = None) -> MetaArray:
    """Dense in the order in which x lies."""
    return x.new(x.shape, kind, copy_strides(x.shape, x.strides))


# The CPU keeps what it kept; the GPU draws the numbers again, unless the mask is asked for.
_dropout = Operator(
    "dropout", "x", "p",
    schema="(Tensor x, float p) -> (Tensor, Tensor)", kind="random", cpu=_drop,
    gpu=_drop_with_mask,
    grad=Gradient(
        lambda g, out1, p: g[0] * out1 * _scale(g[0], p), node="NativeDropout", outputs=0b01,
    ),
    rules=Rules(infer=lambda x, p: (_like(x), _like(x, bool_)), axes="...->...,?"),
)  # fmt: skip
_dropout_again: Operator = Operator(
    "dropout_again", "x", "p seed offset",
    schema="(Tensor x, float p, int seed, int offset) -> Tensor", kind="internal",
    gpu="random.dropout", fuses="drop",
    grad=Gradient(
        lambda g, p, seed, offset: _dropout_again.call((g,), (p, seed, offset)),
        node="NativeDropout",
    ),
    rules=Rules(infer=same, axes="...->...", batch="elementwise"),
)  # fmt: skip


def _check_p(p: float, error: type[Exception]) -> None:
    if not 0.0 <= p <= 1.0:
        raise error(f"dropout probability has to be between 0 and 1, but got {p}")


def _check_floats(x: Tensor) -> None:
    if category(x.dtype) < 2:
        raise RuntimeError(
            "result type Float can't be cast to the desired output type " + scalar_name(x.dtype)
        )


def _kept(x: Tensor, p: float, shape: Any) -> Tensor:
    """1 with probability 1 - p, else 0."""
    if active.levels:
        return _C.wrap(sample("coins", None, x.device, tuple(shape), x.dtype, 1 - p))
    empty = factory.empty(tuple(shape), dtype=x.dtype, device=x.device)
    return empty.bernoulli_(1 - p)


def _channels(x: Tensor) -> list[int]:
    return [*x.shape[:2], *(1,) * (x.ndim - 2)]


def _dropped(x: Tensor, p: float, by_channel: bool, alpha: bool) -> Tensor:
    require_kernel("bernoulli_scalar_cpu_", x, "complex")
    if p == 1:
        return x * 0
    # Inside vmap, and where a record would run again for a tangent, the mask is drawn by itself.
    plain = not active.levels and x._tangent is None
    if plain and not by_channel and not alpha:
        if x.device.type == "cuda" and not x.is_complex():
            return _dropout_again.call((x,), (float(p), *reserve(x.device, x.numel())))
        return _dropout.call((x,), (float(p),))[0]
    kept = _kept(x, p, _channels(x) if by_channel else list(x.shape))
    if not alpha:
        return x * (kept / (1 - p))
    a = 1 / math.sqrt((_LOW * _LOW * p + 1) * (1 - p))
    return x * (kept * a) + ((kept - 1) * (-_LOW * a) + -_LOW * a * p)


def _run(
    x: Tensor, p: float, training: bool, inplace: bool, by_channel: bool = False,
    alpha: bool = False,
) -> Tensor:  # fmt: skip
    if not training or p == 0 or x.numel() == 0:
        return x
    if by_channel and x.ndim < 2 and p != 1:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    _check_floats(x)
    out = _dropped(x, p, by_channel, alpha)
    name = "add.Tensor" if alpha else "mul.Tensor"
    if not inplace:
        return ends_as(name, out)
    return x.copy_(out) if x._base is not None else ends_as(name, x.copy_(out))


# ---- torch.nn.functional -------------------------------------------------------------------------


@functional
@spelled(
    lambda input, p, training, inplace: ("dropout_" if inplace else "dropout", (input, p, training))
)
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Elements set to 0 with probability p, the rest scaled by 1 / (1 - p)."""
    _check_p(p, ValueError)
    return _run(input, p, training, inplace)


def _advise_dims(n: int, ndim: int) -> None:
    name = f"dropout{n}d"
    if ndim not in (n + 1, n + 2):
        defaults.warn(
            f"{name}: Received a {ndim}-D input to {name}, which is deprecated and will result in "
            f"an error in a future release. To retain the behavior and silence this warning, "
            f"please use dropout instead. Note that {name} exists to provide channel-wise dropout "
            f"on inputs with {n} spatial dimensions, a channel dimension, and an optional batch "
            f"dimension (i.e. {n + 1}D or {n + 2}D inputs).",
            stacklevel=3,
        )
    if n == 2 and ndim == 3:
        defaults.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout "
            "behavior is desired - input is interpreted as shape (N, C, L), where C is the channel "
            "dim. This behavior will change in a future release to interpret the input as one "
            "without a batch dimension, i.e. shape (C, H, W). To maintain the 1D channel-wise "
            "dropout behavior, please switch to using dropout1d instead.",
            stacklevel=3,
        )


def _channel_dropout(name: str, n: int) -> None:
    def function(
        input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Tensor:
        _check_p(p, ValueError)
        if n > 1:
            _advise_dims(n, input.ndim)
        if n == 1 and input.ndim not in (2, 3):
            raise RuntimeError(
                f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input. Note "
                "that dropout1d exists to provide channel-wise dropout on inputs with 1 spatial "
                "dimension, a channel dimension, and an optional batch dimension (i.e. 2D or 3D "
                "inputs)."
            )
        if n == 2 or input.ndim == n + 2:  # three dims are (N, C, L) to dropout2d
            return _run(input, p, training, inplace, by_channel=True)
        out = _run(input.unsqueeze(0), p, training, inplace, by_channel=True)
        return input if inplace else out.squeeze(0)

    function.__name__ = name
    function.__doc__ = "Whole channels set to 0 with probability p."
    functional(function)


for _n in (1, 2, 3):
    _channel_dropout(f"dropout{_n}d", _n)


def _alpha(name: str, by_channel: bool) -> None:
    def function(
        input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
    ) -> Tensor:
        _check_p(p, ValueError)
        return _run(input, p, training, inplace, by_channel, alpha=True)

    function.__name__ = name
    function.__doc__ = "Dropout that keeps mean and variance of a SELU's output."
    functional(function)


_alpha("alpha_dropout", False)
_alpha("feature_alpha_dropout", True)

# ---- torch.<name>(input, p, train) ---------------------------------------------------------------


def _positional(name: str, by_channel: bool, alpha: bool) -> None:
    def function(input: Tensor, p: float, train: bool) -> Tensor:
        _check_p(p, RuntimeError)
        return _run(input, p, train, False, by_channel, alpha)

    def in_place(input: Tensor, p: float, train: bool) -> Tensor:
        _check_p(p, RuntimeError)
        return _run(input, p, train, True, by_channel, alpha)

    for made, title in ((function, name), (in_place, f"{name}_")):
        made.__name__ = made.__qualname__ = title
        made.__doc__ = f"nn.functional.{name}{', in place' if title != name else ''}."
        PUBLIC[title] = made


for _name, _by_channel, _is_alpha in (
    ("dropout", False, False), ("feature_dropout", True, False),
    ("alpha_dropout", False, True), ("feature_alpha_dropout", True, True),
):  # fmt: skip
    _positional(_name, _by_channel, _is_alpha)


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """dropout, and which elements were kept; train=None drops."""
    if input.numel() == 0:
        return input.clone(), published.public.empty_like(input)
    if train is False:
        return input.clone(), published.public.ones_like(input, dtype=bool_)
    _check_floats(input)
    if not 0.0 <= p <= 1.0:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={1 - p}")
    out, kept = _dropout.call((input,), (float(p),))
    return out, kept.to(bool_)


PUBLIC["native_dropout"] = native_dropout
