"""Window functions: torch.signal.windows' and, by their old names, torch.hann_window and its like.

A window is computed in float64 on the host, once, rounded, and put where it belongs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.arrays import arrays
from tritorch.core import defaults, layout as layouts
from tritorch.core.dtype import dtype as Dtype, float32, float64
from tritorch.core.promotion import category, not_implemented
from tritorch.core.published import PUBLIC
from tritorch.core.tensor import Tensor
from tritorch.host.pointwise.special import i0
from tritorch.ops.shape.factory import _finish, place

Array = np.ndarray[Any, Any]
Shape = Callable[[Array, int], Array]  # of the places, and how many steps a period has

_BLACKMAN = (0.42, 0.5, 0.08)
_NUTTALL = (0.3635819, 0.4891775, 0.1365995, 0.0106411)


# ---- shapes --------------------------------------------------------------------------------------


def _bartlett(k: Array, n: int) -> Array:
    return 1 - np.abs(2 * k / n - 1)


def _cosines(a: Sequence[float]) -> Shape:
    def shape(k: Array, n: int) -> Array:
        turns = 2 * math.pi * k / n
        return sum(((-1) ** i * c * np.cos(i * turns) for i, c in enumerate(a)), np.zeros(k.shape))

    return shape


def _half_sine(k: Array, n: int) -> Array:
    return np.sin(math.pi * (k + 0.5) / (n + 1))


def _exponential(center: float | None, tau: float) -> Shape:
    return lambda k, n: np.exp(-np.abs(k - (n / 2 if center is None else center)) / tau)


def _gaussian(std: float) -> Shape:
    return lambda k, n: np.exp(-0.5 * np.square((k - n / 2) / std))


def _kaiser(beta: float) -> Shape:
    def shape(k: Array, n: int) -> Array:
        height = np.sqrt(np.maximum(1 - np.square(2 * k / n - 1), 0))
        return i0(beta * height) / i0(np.array([float(beta)]))

    return shape


def _window(
    shape: Shape, length: int, periodic: bool, kind: Dtype, device: Any, requires_grad: bool,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """The window; one of length 1 is 1."""
    with np.errstate(all="ignore"):
        if length > 1:
            values = shape(np.arange(length, dtype=np.float64), length if periodic else length - 1)
        else:
            values = np.ones(length)
    array = arrays.move(arrays.cast(values, kind), place(device))
    return _finish(_C.wrap(array), requires_grad, pin_memory=pin_memory)


# ---- torch.signal.windows ------------------------------------------------------------------------


def _checked(name: str, M: int, dtype: Any, layout: Any) -> Dtype:
    kind = defaults.dtype() if dtype is None else dtype
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout is not layouts.strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    if kind not in (float32, float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {kind}")
    return kind


def bartlett(
    M: int, *, sym: bool = True, dtype: Dtype | None = None, layout: Any = layouts.strided,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A triangle that is 0 at its ends."""
    kind = _checked("bartlett", M, dtype, layout)
    return _window(_bartlett, M, not sym, kind, device, requires_grad)


def cosine(
    M: int, *, sym: bool = True, dtype: Dtype | None = None, layout: Any = layouts.strided,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Half a wave of a sine."""
    kind = _checked("cosine", M, dtype, layout)
    return _window(_half_sine, M, not sym, kind, device, requires_grad)


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True,
    dtype: Dtype | None = None, layout: Any = layouts.strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """exp(-|k - center| / tau)."""
    kind = _checked("exponential", M, dtype, layout)
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    return _window(_exponential(center, tau), M, not sym, kind, device, requires_grad)


def gaussian(
    M: int, *, std: float = 1.0, sym: bool = True, dtype: Dtype | None = None,
    layout: Any = layouts.strided, device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The bell curve of a standard deviation."""
    kind = _checked("gaussian", M, dtype, layout)
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    return _window(_gaussian(std), M, not sym, kind, device, requires_grad)


def general_cosine(
    M: int, *, a: Iterable[float], sym: bool = True, dtype: Dtype | None = None,
    layout: Any = layouts.strided, device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A sum of cosines with coefficients of alternating sign."""
    kind = _checked("general_cosine", M, dtype, layout)
    if M > 1:
        if not isinstance(a, Iterable):
            raise TypeError("Coefficients must be a list/tuple")
        if not a:
            raise ValueError("Coefficients cannot be empty")
        a = tuple(a)
    return _window(_cosines(a), M, not sym, kind, device, requires_grad)  # type: ignore[arg-type]


def general_hamming(
    M: int, *, alpha: float = 0.54, sym: bool = True, dtype: Dtype | None = None,
    layout: Any = layouts.strided, device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """alpha - (1 - alpha) cos."""
    return general_cosine(
        M, a=(alpha, 1 - alpha), sym=sym, dtype=dtype, layout=layout, device=device,
        requires_grad=requires_grad,
    )  # fmt: skip


def kaiser(
    M: int, *, beta: float = 12.0, sym: bool = True, dtype: Dtype | None = None,
    layout: Any = layouts.strided, device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """I0(beta sqrt(1 - t^2)) / I0(beta), t from -1 to 1."""
    kind = _checked("kaiser", M, dtype, layout)
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    return _window(_kaiser(beta), M, not sym, kind, device, requires_grad)


def _of_cosines(name: str, a: Sequence[float]) -> Callable[..., Tensor]:
    def function(
        M: int, *, sym: bool = True, dtype: Dtype | None = None, layout: Any = layouts.strided,
        device: Any = None, requires_grad: bool = False,
    ) -> Tensor:  # fmt: skip
        return general_cosine(
            M, a=a, sym=sym, dtype=dtype, layout=layout, device=device,
            requires_grad=requires_grad,
        )  # fmt: skip

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The {name} window: general_cosine with {', '.join(map(str, a))}."
    return function


FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "bartlett": bartlett, "blackman": _of_cosines("blackman", _BLACKMAN), "cosine": cosine,
    "exponential": exponential, "gaussian": gaussian, "general_cosine": general_cosine,
    "general_hamming": general_hamming, "hamming": _of_cosines("hamming", (0.54, 0.46)),
    "hann": _of_cosines("hann", (0.5, 0.5)), "kaiser": kaiser,
    "nuttall": _of_cosines("nuttall", _NUTTALL),
}  # fmt: skip

# ---- torch.hann_window and its like --------------------------------------------------------------


def _old(name: str, shape: Callable[..., Shape], **parameters: float) -> None:
    """Publishes torch.<name>(window_length, periodic, <parameters>)."""
    names = tuple(parameters)

    def function(
        window_length: int, periodic: bool = True, *values: float, dtype: Dtype | None = None,
        layout: Any = None, device: Any = None, requires_grad: bool = False,
        pin_memory: bool = False, **named: float,
    ) -> Tensor:  # fmt: skip
        unknown = next((key for key in named if key not in names), None)
        if unknown is not None:
            raise TypeError(f"{name}() got an unexpected keyword argument '{unknown}'")
        if len(values) > len(names):
            raise TypeError(
                f"{name}() takes from 1 to {2 + len(names)} positional arguments but "
                f"{2 + len(values)} were given"
            )
        if isinstance(window_length, bool) or not hasattr(window_length, "__index__"):
            raise TypeError(
                f"{name}(): argument 'window_length' (position 1) must be int, not "
                f"{type(window_length).__name__}"
            )
        kind = defaults.dtype() if dtype is None else dtype
        if layout not in (None, layouts.strided):
            raise RuntimeError(f"{name} is not implemented for sparse types, got: {layout}")
        if category(kind) < 2:
            raise RuntimeError(f"{name} expects floating point dtypes, got: {kind}")
        if kind.is_complex:
            raise not_implemented("arange_cpu", kind)
        length = window_length.__index__()
        if length < 0:
            raise RuntimeError(
                f"{name} requires non-negative window_length, got window_length={length}"
            )
        given = {**parameters, **dict(zip(names, values)), **named}
        made = shape(**given)
        return _window(made, length, periodic, kind, device, requires_grad, pin_memory)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The {name.replace('_', ' ')} of a length; periodic: to be repeated."
    PUBLIC[name] = function


_old("bartlett_window", lambda: _bartlett)
_old("blackman_window", lambda: _cosines(_BLACKMAN))
_old("hann_window", lambda: _cosines((0.5, 0.5)))
_old("hamming_window", lambda alpha, beta: _cosines((alpha, beta)), alpha=0.54, beta=0.46)
_old("kaiser_window", _kaiser, beta=12.0)
