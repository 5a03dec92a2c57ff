"""Pooling, of one to three dims (torch.nn.functional)."""

from __future__ import annotations

import functools
import math
from typing import Any

from tritorch import _C
from tritorch.arrays.meta import MetaArray
from tritorch.arrays.strides import looks_channels_last
from tritorch.core.dims import several, wrap_dim
from tritorch.core.dtype import bool_
from tritorch.core.promotion import not_implemented
from tritorch.core.published import FUNCTIONAL, PUBLIC, adds_results, autocast, computes
from tritorch.core.tensor import Tensor
from tritorch.ops.record.backends import backend
from tritorch.ops.record.checks import require_kernel, require_tensor
from tritorch.ops.record.groups import Gradient, Rules
from tritorch.ops.record.infer import with_indices as with_places
from tritorch.ops.record.operator import Operator, ndarray
from tritorch.ops.record.outputs import exact_out
from tritorch.ops.record.publishing import with_out
from tritorch.ops.record.sizes import windows
from tritorch.ops.shape.shape import reshape


def _pooled_shape(
    x: MetaArray, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool
) -> Any:
    """The shape of what windows of the spatial dims give."""
    sizes = zip(x.shape[2:], kernel, stride, padding, dilation)
    return (*x.shape[:2], *(_out_size(*each, ceil) for each in sizes))


def _max_pool_results(x: MetaArray, *params: Any) -> Any:
    return with_places(x, _pooled_shape(x, *params))


def _avg_pool_result(
    x: MetaArray, kernel: Any, stride: Any, padding: Any, ceil: bool, *rest: Any
) -> MetaArray:
    return x.new(_pooled_shape(x, kernel, stride, padding, (1,) * len(kernel), ceil))


_max_pool = Operator(
    "max_pool",
    "x",
    "kernel stride padding dilation ceil_mode",
    schema="max_pool{len(kernel)}d_with_indices(x, kernel, stride, padding, dilation, ceil_mode)",
    cpu="pooling.max_pool",
    grad=Gradient(
        lambda g, out1, x_shape: _unpool(g[0], out1, x_shape),
        node="{'squeeze.dim' if len(kernel) == 1 else f'max_pool{len(kernel)}d_with_indices'}",
        keeps="x",
    ),
    layout="format",
    rules=Rules(
        infer=_max_pool_results,
        axes=lambda x, *rest: "bc{0}->bc{0},bc{0}".format(windows(len(x.shape) - 2)),
        batch="fold",
        cost=lambda outs, x, kernel, *rest: outs[0].numel() * math.prod(kernel),
    ),
)
_unpool_op = Operator(
    "max_pool_backward",
    "y indices",
    "shape",
    schema="(Tensor y, Tensor indices, SymInt[] shape) -> Tensor",
    kind="internal",
    cpu="pooling.max_pool_backward",
    grad=(lambda g, indices: _pick(g, indices), None),
    layout="format",
    rules=Rules(
        infer=lambda y, i, shape: y.new(shape),
        axes=lambda y, *rest: "bc{0},bc{0}->bc{0}".format(windows(len(y.shape) - 2)),
        batch="fold",
    ),
)
_adaptive_max = Operator(
    "adaptive_max_pool", "x", "size",
    schema="adaptive_max_pool{len(size)}d(x, size)", cpu="pooling.adaptive_max_pool",
    grad=Gradient(
        lambda g, out1, x_shape: _unpool(g[0], out1, x_shape),
        node="{'squeeze.dim' if len(size) == 1 else f'adaptive_max_pool{len(size)}d'}", keeps="x",
    ),
    layout="format",
    rules=Rules(
        infer=lambda x, size: with_places(x, (*x.shape[:2], *size)),
        axes=lambda x, *rest: "bc{0}->bc{0},bc{0}".format(windows(len(x.shape) - 2)), batch="fold",
        cost=lambda outs, x, *rest: x.numel(),
    ),
)  # fmt: skip
_avg_pool = Operator(
    "avg_pool",
    "x",
    "kernel stride padding ceil_mode include divisor",
    schema="avg_pool{len(kernel)}d(x, kernel, stride, padding, ceil_mode, include, "
    "*(divisor,)[len(kernel) == 1 :])",
    cpu="pooling.avg_pool",
    grad=Gradient(
        lambda g, x_shape, kernel, stride, padding, ceil_mode, include, divisor: _avg_back.call(
            (g,), (x_shape, kernel, stride, padding, ceil_mode, include, divisor)
        ),
        node="{'squeeze.dim' if len(kernel) == 1 else f'avg_pool{len(kernel)}d'}",
        keeps="x",
    ),
    layout="format",
    rules=Rules(
        infer=_avg_pool_result,
        axes=lambda x, *rest: "bc{0}->bc{0}".format(windows(len(x.shape) - 2)),
        batch="fold",
        cost=lambda outs, x, kernel, *rest: outs[0].numel() * math.prod(kernel),
    ),
)
_avg_back: Operator = Operator(
    "avg_pool_backward",
    "y",
    "shape kernel stride padding ceil_mode include divisor",
    schema="(Tensor y, SymInt[] shape, int[] kernel, int[] stride, int[] padding, bool "
    "ceil_mode, bool include, int? divisor) -> Tensor",
    kind="internal",
    cpu="pooling.avg_pool_backward",
    grad=lambda g, shape, kernel, stride, padding, ceil_mode, include, divisor: _avg_pool.call(
        (g,), (kernel, stride, padding, ceil_mode, include, divisor)
    ),
    layout="format",
    rules=Rules(
        infer=lambda y, shape, *rest: y.new(shape),
        axes=lambda x, *rest: "bc{0}->bc{0}".format(windows(len(x.shape) - 2)),
        batch="fold",
    ),
)
_adaptive_avg = Operator(
    "adaptive_avg_pool",
    "x",
    "size",
    schema="adaptive_avg_pool{len(size)}d(x, size)",
    cpu="pooling.adaptive_avg_pool",
    grad=Gradient(
        lambda g, x_shape: _adaptive_back.call((g,), (x_shape,)),
        node="{'squeeze.dim' if len(size) == 1 else f'_adaptive_avg_pool{len(size)}d'}",
        keeps="x",
    ),
    layout="format",
    rules=Rules(
        infer=lambda x, size: x.new((*x.shape[:2], *size)),
        axes=lambda x, *rest: "bc{0}->bc{0}".format(windows(len(x.shape) - 2)),
        batch="fold",
        cost=lambda outs, x, *rest: x.numel(),
    ),
)
_mean_of_all = _adaptive_avg.like(
    "adaptive_mean", "Mean1", schema="adaptive_avg_pool{len(size)}d(x, size)", keeps=""
)  # as PyTorch to size 1
_adaptive_back: Operator = Operator(
    "adaptive_avg_pool_backward",
    "y",
    "shape",
    schema="(Tensor y, SymInt[] shape) -> Tensor",
    kind="internal",
    cpu="pooling.adaptive_avg_pool_backward",
    grad=lambda g, y, shape: _adaptive_avg.call((g,), (tuple(y.shape[2:]),)),
    layout="format",
    rules=Rules(
        infer=lambda y, shape: y.new(shape),
        axes=lambda x, *rest: "bc{0}->bc{0}".format(windows(len(x.shape) - 2)),
        batch="fold",
    ),
)


def _unpool(g: Tensor, indices: Tensor, shape: tuple[int, ...]) -> Tensor:
    return _unpool_op.call((g, indices), (shape,))


def _pick(g: Tensor, indices: Tensor) -> Tensor:
    flat = reshape(g, (*g.shape[:2], -1)).gather(2, reshape(indices, (*indices.shape[:2], -1)))
    return reshape(flat, indices.shape)


def _tuple(value: Any, n: int, name: str) -> tuple[int, ...]:
    values = several(value, n) or tuple(int(v) for v in value)
    if any(abs(v) > 0x7FFFFFFF for v in values):
        raise RuntimeError("value cannot be converted to type int without overflow")
    if len(values) == 1:
        return values * n
    if len(values) != n:
        raise RuntimeError(f"{name} must either be a single int, or a tuple of {n} ints")
    return values


def _check_sides(name: str, shape: Any, n: int) -> None:
    if len(shape) not in (n + 1, n + 2):
        if name == "avg_pool2d":  # which asks for the size of dim -3 first
            wrap_dim(-3, len(shape))
        raise RuntimeError(
            f"{name}() Expected {n + 1}D or {n + 2}D input tensor, but got {list(shape)}"
        )
    start = 0 if len(shape) == n + 1 else 1
    for i in range(start, len(shape)):
        if shape[i] == 0 and i > start - 1 and (i >= len(shape) - n or start == 0 or i == 1):
            raise RuntimeError(
                f"{name}(): Expected {n + 1}D or {n + 2}D (batch mode) tensor with optional 0 dim "
                f"batch size for input, but got: {list(shape)}"
            )


def _out_size(size: int, k: int, s: int, p: int, d: int, ceil: bool) -> int:
    span = size + 2 * p - d * (k - 1) - 1
    out = (-(-span // s) if ceil else span // s) + 1
    return out - 1 if ceil and (out - 1) * s >= size + p else out


def _check(
    shape: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool
) -> tuple[int, ...]:
    """How many windows there are, of a batch of a shape."""
    for k, s, p, d in zip(kernel, stride, padding, dilation):
        if k <= 0:
            raise RuntimeError(
                "kernel size should be greater than zero, but got "
                + " ".join(f"{v}" for v in kernel)
            )
        if s <= 0:
            raise RuntimeError(
                "stride should not be zero" if s == 0 else "stride should be greater than zero"
            )
        if d <= 0:
            raise RuntimeError("dilation should be greater than zero, but got " + str(d))
        if p < 0:
            raise RuntimeError(f"pad must be non-negative, but got pad: {p}")
        if p > ((k - 1) * d + 1) // 2:
            raise RuntimeError(
                f"pad should be at most half of effective kernel size, but got pad={p}, "
                f"kernel_size={k} and dilation={d}"
            )
    places = zip(shape[2:], kernel, stride, padding, dilation)
    out = tuple(_out_size(n, k, s, p, d, ceil) for n, k, s, p, d in places)
    if any(n < 1 for n in out):
        inner = "x".join(map(str, shape[1:]))
        raise RuntimeError(
            f"Given input size: ({inner}). Calculated output size: "
            f"({'x'.join(map(str, [shape[1], *out]))}). Output size is too small"
        )
    return out


def _geometry(
    name: str, shape: tuple[int, ...], n: int, kernel: Any, stride: Any, padding: Any,
    dilation: Any, ceil: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """Kernel, stride, padding and dilation in n dims, and how many windows; all checked."""
    _check_sides(name, shape, n)
    sides = _tuple(kernel, n, "kernel_size")
    steps = sides if stride is None or stride == [] or stride == () else _tuple(stride, n, "stride")
    pads, gaps = _tuple(padding, n, "padding"), _tuple(dilation, n, "dilation")
    batch = shape if len(shape) == n + 2 else (1, *shape)
    return sides, steps, pads, gaps, _check(batch, sides, steps, pads, gaps, ceil)


_geometry_kept = functools.lru_cache(256, typed=True)(_geometry)


def _windows(name: str, x: Tensor, *rest: Any) -> tuple[Any, ...]:
    """`_geometry` of a tensor, which is the same as in the last call more often than not."""
    require_tensor(x, name, "input", 1)
    shape = tuple(x._array.shape)
    try:
        return _geometry_kept(name, shape, *rest)
    except TypeError:  # a list has no hash
        return _geometry(name, shape, *rest)


def _as_image(x: Tensor) -> Tensor | None:
    """Rows as images of height 1 where such are channels_last, as which PyTorch pools them; else
    None."""
    if x.ndim != 3 or x.is_contiguous():
        return None
    image = x.unsqueeze(2)
    return image if looks_channels_last(tuple(image.shape), image.stride()) else None


def _make_max(n: int) -> None:
    name = f"max_pool{n}d"

    def with_indices(
        input: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        *places, _ = _windows(
            name, input, n, kernel_size, stride, padding, dilation, bool(ceil_mode)
        )
        if input.dtype is bool_ or input.is_complex():
            raise not_implemented(name, input.dtype)
        if n == 1:
            require_kernel("max_pool1d_impl", input, "int")
        x = input if input.ndim == n + 2 else input.unsqueeze(0)
        image = _as_image(x) if n == 1 else None
        if image is not None:
            kernel, steps, pads, apart = (
                (one, place[0]) for one, place in zip((1, 1, 0, 1), places)
            )
            both = _max_pool.call((image,), (kernel, steps, pads, apart, bool(ceil_mode)))
            out, indices = (each.squeeze(2) for each in both)
            return (out, indices) if x is input else (out.squeeze(0), indices.squeeze(0))
        out, indices = _max_pool.call((x,), (*places, bool(ceil_mode)))
        return (out, indices) if x is input else (out.squeeze(0), indices.squeeze(0))

    def values(input: Tensor, *options: Any) -> Tensor | None:
        """Without indices, where nobody needs them for a gradient."""
        array = getattr(input, "_a", None)
        if type(array) is not ndarray or array.ndim != n + 2 or array.dtype.kind in "bc":
            return None
        if _max_pool.wants(input) or _C.watched_for_plan():
            return None
        found = backend("cpu", "pooling").max_pool_values(array, *_windows(name, input, *options))
        return None if found is None else _max_pool.finish(found, input)

    @adds_results("return_indices")
    def function(
        input: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        if not return_indices:
            out = values(input, n, kernel_size, stride, padding, dilation, bool(ceil_mode))
            if out is not None:
                return out
        both = with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
        return both if return_indices else both[0]

    function.__name__, with_indices.__name__ = name, f"{name}_with_indices"
    function.__doc__ = f"The largest element of each window of {n} dims."
    with_indices.__doc__ = f"{name}, and where in the plane the largest elements are."
    if n == 3:
        autocast("cpu:float32-without-indices")(function)
    FUNCTIONAL[name] = function
    FUNCTIONAL[f"{name}_with_indices"] = PUBLIC[f"{name}_with_indices"] = with_indices
    PUBLIC[name] = function


def _make_avg(n: int) -> None:
    name = f"avg_pool{n}d"

    def function(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
                 ceil_mode: bool = False, count_include_pad: bool = True,
                 divisor_override: int | None = None) -> Tensor:  # fmt: skip
        kernel, strides, pads, _, _ = _windows(
            name, input, n, kernel_size, stride, padding, 1, bool(ceil_mode)
        )
        if not input.is_floating_point() and input.dtype.name != "int64":
            raise not_implemented(f"{name}_out_frame", input.dtype)
        if n == 3:
            require_kernel("avg_pool3d_out_frame", input, "half")
        if divisor_override == 0:
            raise RuntimeError("divisor must be not zero")
        x = input if input.ndim == n + 2 else input.unsqueeze(0)
        image = _as_image(x) if n == 1 else None
        if image is not None:
            kernel, strides, pads = (1, *kernel), (1, *strides), (0, *pads)
            out = _avg_pool.call((image,), (kernel, strides, pads, bool(ceil_mode),
                                            bool(count_include_pad), divisor_override))  # fmt: skip
            return out.squeeze(2) if x is input else out.squeeze(2).squeeze(0)
        if n == 3:
            x = x.contiguous()  # as PyTorch does: volumes keep no memory format here
        out = _avg_pool.call((x,), (kernel, strides, pads, bool(ceil_mode), bool(count_include_pad),
                                    divisor_override))  # fmt: skip
        return out if x.ndim == input.ndim else out.squeeze(0)

    if n == 1:  # whose windows' divisor is not for callers to choose
        run = function

        def function(  # type: ignore[misc]
            input: Tensor,
            kernel_size: Any,
            stride: Any = None,
            padding: Any = 0,
            ceil_mode: bool = False,
            count_include_pad: bool = True,
        ) -> Tensor:
            return run(input, kernel_size, stride, padding, ceil_mode, count_include_pad)

    function.__name__ = name
    function.__doc__ = f"The mean of each window of {n} dims."
    FUNCTIONAL[name] = with_out(function)
    if n == 3:
        autocast("cpu:float32")(function)
    if n > 1:
        exact_out("structured")(function)
    if n == 1:
        PUBLIC[name] = function


def _sizes(name: str, size: Any, x: Tensor, n: int) -> tuple[int, ...]:
    given = (size,) * n if size is None else several(size, n) or tuple(size)
    if len(given) == 1:
        given *= n
    if len(given) != n:
        if x.ndim <= len(given):
            raise ValueError(f"Input dimension should be at least {len(given) + 1}")
        raise RuntimeError(
            "'output_size' should contain one int" if n == 1 else f"{name}: output_size must be {n}"
        )
    out = tuple(x.shape[2 + i] if v is None else int(v) for i, v in enumerate(given))
    if any(v < 0 for v in out):
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but "
            f"received {list(out)}"
        )
    return out


def _check_adaptive(name: str, x: Tensor, n: int, size: Any) -> Tensor:
    require_tensor(x, name, "input", 1)
    if x.ndim <= n and isinstance(size, (tuple, list)):
        raise ValueError(f"Input dimension should be at least {n + 1}")
    if x.ndim not in (n + 1, n + 2):
        raise RuntimeError(
            f"{name}(): Expected {n + 1}D or {n + 2}D tensor, but got {list(x.shape)}"
        )
    for i in range(1, n + 1):
        if x.shape[-i] == 0:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but "
                f"input has sizes {list(x.shape)} with dimension {x.ndim - i} being empty"
            )
    return x if x.ndim == n + 2 else x.unsqueeze(0)


def _make_adaptive(n: int) -> None:
    avg_name, max_name = f"adaptive_avg_pool{n}d", f"adaptive_max_pool{n}d"

    def average(input: Tensor, output_size: Any) -> Tensor:
        x = _check_adaptive(avg_name, input, n, output_size)
        if not x.is_floating_point():
            raise not_implemented(avg_name, x.dtype)
        size = _sizes(avg_name, output_size, x, n)
        image = _as_image(x) if n == 1 else None
        if image is not None:
            out = _adaptive_avg.call((image,), ((1, *size),)).squeeze(2)
            return out if x is input else out.squeeze(0)
        op = _mean_of_all if n > 1 and set(size) == {1} else _adaptive_avg
        out = op.call((x if n < 3 or op is _mean_of_all else x.contiguous(),), (size,))
        return out if x is input else out.squeeze(0)

    @adds_results("return_indices")
    def largest(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        x = _check_adaptive(max_name, input, n, output_size)
        if not x.is_floating_point():
            raise not_implemented(max_name, x.dtype)
        if n == 3:
            x = x.contiguous()
        out, indices = _adaptive_max.call((x,), (_sizes(max_name, output_size, x, n),))
        if x.ndim != input.ndim:
            out, indices = out.squeeze(0), indices.squeeze(0)
        return (out, indices) if return_indices else out

    def with_indices(
        input: Tensor, output_size: Any, return_indices: bool = False
    ) -> tuple[Tensor, Tensor]:
        return largest(input, output_size, True)

    average.__name__, largest.__name__ = avg_name, max_name
    with_indices.__name__ = f"{max_name}_with_indices"
    computes(max_name)(with_indices)
    with_indices.__doc__ = f"{max_name}, and where in the plane the largest elements are."
    average.__doc__ = f"Means over windows so chosen that {n} dims get a given size."
    largest.__doc__ = f"Maxima over windows so chosen that {n} dims get a given size."
    if n == 3:
        autocast("cpu:float32", avg_name, max_name)(average)
    FUNCTIONAL[avg_name], FUNCTIONAL[max_name] = average, largest
    FUNCTIONAL[with_indices.__name__] = with_indices
    if n == 1:
        PUBLIC[avg_name] = average
        PUBLIC[max_name] = lambda input, output_size: largest(input, output_size, True)


for _n in (1, 2, 3):
    _make_max(_n)
    _make_avg(_n)
    _make_adaptive(_n)


def _lp(n: int) -> None:
    def function(input: Tensor, norm_type: Any, kernel_size: Any, stride: Any = None,
                 ceil_mode: bool = False) -> Tensor:  # fmt: skip
        kernel = _tuple(kernel_size, n, "kernel_size")
        count = 1
        for k in kernel:
            count *= k
        mean = FUNCTIONAL[f"avg_pool{n}d"](input.pow(norm_type), kernel, stride, 0, ceil_mode)
        return (mean.sign() * mean.abs().relu() * count).pow(1.0 / norm_type)

    function.__name__ = f"lp_pool{n}d"
    function.__doc__ = f"The p-norm of each window of {n} dims."
    FUNCTIONAL[function.__name__] = function


for _n in (1, 2, 3):
    _lp(_n)
