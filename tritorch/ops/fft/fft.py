"""Fourier transforms (torch.fft).

Three records, each the other's gradient: complex to complex, real to (half of) complex, and back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tritorch.arrays.meta import MetaArray
from tritorch.arrays.strides import transformed_strides
from tritorch.core import defaults
from tritorch.core.dims import wrap_dim
from tritorch.core.dtype import complex64, complex128, dtype as Dtype, float32, float64
from tritorch.core.promotion import category, scalar_name
from tritorch.core.published import autocast
from tritorch.core.tensor import Tensor
from tritorch.ops.pointwise.pointwise import conj
from tritorch.ops.record.checks import require_tensor
from tritorch.ops.record.groups import Rules
from tritorch.ops.record.operator import Operator
from tritorch.ops.record.publishing import with_out
from tritorch.ops.record.sizes import fft_flops
from tritorch.ops.shape.factory import ones
from tritorch.ops.shape.joining import cat, roll
from tritorch.ops.shape.padding import pad
from tritorch.ops.shape.ranges import arange

FFT: dict[str, Callable[..., Any]] = {}  # tritorch.fft.<name>
Dims = tuple[int, ...]
Sizes = int | Sequence[int] | None


def _transformed(x: MetaArray, dims: Any, norm: Any, forward: bool) -> MetaArray:
    kind = x.dtype.to_complex()
    if not dims or 0 in x.shape:
        return x.new(x.shape, kind, x.strides if not dims else None)
    return x.new(x.shape, kind, transformed_strides(x.shape, x.strides, tuple(dims), False))


def _halved(x: MetaArray, dims: Any, norm: Any, onesided: bool) -> MetaArray:
    shape = list(x.shape)
    if onesided:
        shape[dims[-1]] = shape[dims[-1]] // 2 + 1
    return _placed(x, tuple(shape), x.dtype.to_complex(), dims)


def _doubled(x: MetaArray, dims: Any, norm: Any, size: int) -> MetaArray:
    shape = list(x.shape)
    shape[dims[-1]] = size
    if dims[:-1] and 0 not in x.shape:
        x = _transformed(x, dims[:-1], norm, False)
    return _placed(x, tuple(shape), x.dtype.to_real(), dims[-1:])


def _placed(x: MetaArray, shape: Any, kind: Any, dims: Any) -> MetaArray:
    if 0 in x.shape:
        return x.new(shape, kind)
    return x.new(shape, kind, transformed_strides(shape, x.strides, tuple(dims)))


_c2c = Operator(
    "fft_c2c",
    "x",
    "dims norm forward",
    schema="_fft_c2c(x, dims, norm, forward)",
    kind="fft",
    cpu="fft.c2c",
    grad=lambda g, dims, norm, forward: c2c(g, dims, norm, not forward),
    rules=Rules(infer=_transformed, cost=lambda outs, x, dims, *rest: fft_flops(outs[0], dims)),
)


_r2c = Operator(
    "fft_r2c",
    "x",
    "dims norm onesided",
    schema="_fft_r2c(x, dims, norm, onesided)",
    kind="fft",
    cpu="fft.r2c",
    grad=lambda g, x, dims, norm, onesided: (
        c2r(_middle(g, dims[-1], x.shape[dims[-1]], 0.5), dims, norm, x.shape[dims[-1]])
        if onesided
        else c2c(g, dims, norm, False).real
    ),
    rules=Rules(infer=_halved, cost=lambda outs, x, dims, *rest: fft_flops(x, dims) // 2),
)
_c2r: Operator = Operator(
    "fft_c2r",
    "x",
    "dims norm size",
    schema="_fft_c2r(x, dims, norm, size)",
    kind="fft",
    cpu="fft.c2r",
    grad=lambda g, dims, norm, size: _middle(r2c(g, dims, norm, True), dims[-1], size, 2.0),
    rules=Rules(infer=_doubled, cost=lambda outs, x, dims, *rest: fft_flops(outs[0], dims) // 2),
)


def _middle(x: Tensor, dim: int, size: int, factor: float) -> Tensor:
    """A half spectrum of `size` numbers, with a factor for what also stands for the other half."""
    count = (size - 1) // 2
    if not count:
        return x
    weights = ones(x.shape[dim], dtype=x.dtype.to_real(), device=x.device)
    weights[1 : count + 1] = factor
    return x * weights.reshape([-1 if i == dim else 1 for i in range(x.ndim)])


def c2c(x: Tensor, dims: Dims, norm: int, forward: bool) -> Tensor:
    """Complex to complex over dims; norm 0: as it is, 1: by the size's root, 2: by the size."""
    return _c2c.call((x,), (dims, norm, forward))


def r2c(x: Tensor, dims: Dims, norm: int, onesided: bool) -> Tensor:
    """Real to complex; of the last of dims one half, or all."""
    return _r2c.call((x,), (dims, norm, onesided))


def c2r(x: Tensor, dims: Dims, norm: int, size: int) -> Tensor:
    """One half of complex numbers to real ones, `size` of them along the last of dims."""
    return _c2r.call((x,), (dims, norm, size))


# ---- checks --------------------------------------------------------------------------------------


def _norm(norm: str | None, forward: bool) -> int:
    if norm == "ortho":
        return 1
    if norm is None or norm == "backward":
        return 0 if forward else 2
    if norm == "forward":
        return 2 if forward else 0
    raise RuntimeError(f'Invalid normalization mode: "{norm}"')


def _require_width(kind: Dtype) -> None:
    if kind.is_floating_point and kind not in (float32, float64):
        raise RuntimeError(f"Unsupported dtype {scalar_name(kind)}")


def promoted(x: Tensor, to_complex: bool) -> Tensor:
    """In a dtype that transforms take: integers as floats, if so asked reals as complex numbers."""
    kind = x.dtype
    if category(kind) < 2:
        kind = defaults.get_default_dtype()
    _require_width(kind)
    if to_complex and not kind.is_complex:
        kind = complex64 if kind is float32 else complex128
    return x if x.dtype is kind else x.to(kind)


def _resized(x: Tensor, dims: Dims, sizes: Sequence[int]) -> Tensor:
    """Cut or filled up with zeros to sizes."""
    for dim, size in zip(dims, sizes):
        if size < x.shape[dim]:
            x = x.narrow(dim, 0, size)
        elif size > x.shape[dim]:
            x = pad(x, (0, 0) * (x.ndim - 1 - dim) + (0, size - x.shape[dim]))
    return x


def _require_points(n: int) -> None:
    if n < 1:
        raise RuntimeError(f"Invalid number of data points ({n}) specified")


def _ints(values: Any) -> list[int] | None:
    return None if values is None else [values] if isinstance(values, int) else [*values]


def _shape_and_dims(x: Tensor, s: Sizes, dim: Sizes) -> tuple[list[int], Dims]:
    """What sizes to transform over which dims."""
    sizes, dims = _ints(s), _ints(dim)
    if dims is not None:
        dims = [wrap_dim(d, x.ndim, allow_scalar=False) for d in dims]
        if len(set(dims)) != len(dims):
            raise RuntimeError("FFT dims must be unique")
    if sizes is None:
        dims = [*range(x.ndim)] if dims is None else dims
        sizes = [x.shape[d] for d in dims]
    else:
        if dims is not None and len(dims) != len(sizes):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
        if len(sizes) > x.ndim:
            raise RuntimeError(
                f"Got shape with {len(sizes)} values but input tensor only has {x.ndim} dimensions."
            )
        dims = [*range(x.ndim - len(sizes), x.ndim)] if dims is None else dims
        sizes = [x.shape[d] if n == -1 else n for n, d in zip(sizes, dims)]
    for n in sizes:
        _require_points(n)
    return sizes, tuple(dims)


# ---- the transforms ------------------------------------------------------------------------------


def _complex(name: str, x: Tensor, sizes: list[int], dims: Dims, norm: Any, forward: bool) -> Any:
    scale = _norm(norm, forward)
    x = promoted(x, False)
    if name in ("fft", "ifft") and not x.is_complex():
        out = r2c(_resized(x, dims, sizes), dims, scale, False)
        return out if forward else conj(out)
    return c2c(_resized(promoted(x, True), dims, sizes), dims, scale, forward)


def _half(name: str, x: Tensor, sizes: list[int], dims: Dims, norm: Any, forward: bool) -> Any:
    x, scale = _resized(promoted(x, False), dims, sizes), _norm(norm, forward)
    if forward:
        return r2c(x, dims, scale, True)
    out = conj(r2c(x, dims[-1:], scale, True))
    return c2c(out, dims[:-1], scale, False) if len(dims) > 1 else out


def _real(name: str, x: Tensor, sizes: list[int], dims: Dims, norm: Any, forward: bool) -> Any:
    *others, size = sizes
    x = _resized(promoted(x, True), dims, (*others, size // 2 + 1))
    return c2r(x.conj() if forward else x, dims, _norm(norm, forward), size)


def _require_real(name: str, x: Tensor) -> None:
    if x.is_complex():
        kind = scalar_name(x.dtype)
        if name in ("ihfft2", "ihfftn"):
            raise RuntimeError(f"Only supports floating-point dtypes, but found: {kind}")
        what = "real input" if name in ("rfft", "ihfft") else "real-valued input"
        raise RuntimeError(f"{name} expects a {what} tensor, but got {kind}")


def _along_one(name: str, run: Any, forward: bool) -> Callable[..., Tensor]:
    def function(
        input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None
    ) -> Tensor:
        x = require_tensor(input, f"fft_{name}", "input", 1)
        for argument, value in (("n", n), ("dim", dim)):
            if value is not None and not hasattr(value, "__index__"):
                raise TypeError(
                    f"fft_{name}(): argument '{argument}' must be int, not {type(value).__name__}"
                )
        if run is _half:
            _require_real(name, x)
        _require_width(x.dtype)
        dim = wrap_dim(dim, x.ndim, allow_scalar=False)
        if n is None:
            n = 2 * (x.shape[dim] - 1) if run is _real else x.shape[dim]
        _require_points(n)
        return run(name, x, [n], (dim,), norm, forward)

    return function


def _over_many(name: str, run: Any, forward: bool) -> Any:
    family = f"{name.rstrip('2n')}n"

    def transform(x: Tensor, s: Sizes, dim: Sizes, norm: str | None) -> Tensor:
        require_tensor(x, f"fft_{name}", "input", 1)
        if run is _half:
            _require_real(family if name[0] == "r" else name, x)
        sizes, dims = _shape_and_dims(x, s, dim)
        if run is not _complex and not dims:
            raise RuntimeError(f"{family} must transform at least one axis")
        if run is _real:
            given = _ints(s)
            if given is None or given[-1] == -1:
                sizes[-1] = 2 * (x.shape[dims[-1]] - 1)
                _require_points(sizes[-1])
        return run(name, x, sizes, dims, norm, forward)

    if name.endswith("2"):

        def plane(
            input: Tensor, s: Sizes = None, dim: Sizes = (-2, -1), norm: str | None = None
        ) -> Tensor:
            return transform(input, s, dim, norm)

        return plane

    def space(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:
        return transform(input, s, dim, norm)

    return space


def _checking_out(name: str, real: bool, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with out=, whose type must be real or complex."""
    write = with_out(function)
    family = f"{name[:-1]}n" if name.endswith("2") else name

    def wrapper(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is None:
            return function(*args, **kwargs)
        if isinstance(out, Tensor) and out.dtype.is_complex is real:
            kind = "floating point" if real else "complex"
            got = scalar_name(out.dtype)
            raise RuntimeError(f"{family} expects a {kind} output tensor, but got {got}")
        return write(*args, out=out, **kwargs)

    return wrapper


_WHAT = {
    "fft": "The transform along a dim",
    "ifft": "The inverse transform along a dim",
    "rfft": "The transform of real numbers along a dim: its first half, which tells the other",
    "irfft": "The inverse of rfft: n real numbers along a dim",
    "hfft": "The real transform of what equals its own conjugate backwards, given its first half",
    "ihfft": "The inverse of hfft",
}


def _declare() -> None:
    for stem, what in _WHAT.items():
        run = {"r": _half, "h": _real}.get(stem.lstrip("i")[0], _complex)
        if stem in ("irfft", "ihfft"):
            run = _real if run is _half else _half
        for suffix, where in (("", ""), ("2", ", over two dims"), ("n", ", over several dims")):
            name, make = f"{stem}{suffix}", _over_many if suffix else _along_one
            function = make(name, run, not stem.startswith("i"))
            function.__name__ = function.__qualname__ = name
            function.__doc__ = f"{what}{where}."
            wrapper = _checking_out(name, run is _real, function)
            wrapper.__name__, wrapper.__qualname__ = name, name
            wrapper.__doc__ = function.__doc__
            FFT[name] = wrapper
            if "h" not in stem or not suffix:  # hfft2 and the like are composed in PyTorch
                autocast("cpu:float32")(wrapper)


_declare()


# ---- frequencies ---------------------------------------------------------------------------------


def _frequencies(name: str, n: int, d: float, out: Tensor | None, options: dict[str, Any]) -> Any:
    if not hasattr(n, "__index__"):
        raise TypeError(
            f"fft_{name}(): argument 'n' (position 1) must be int, not {type(n).__name__}"
        )
    if out is not None and options["dtype"] is None:
        options["dtype"] = out.dtype
    kind = options["dtype"] or defaults.get_default_dtype()
    if not (kind.is_floating_point or kind.is_complex):
        raise RuntimeError(f"{name} requires a floating point or complex dtype")
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    wants_grad = options.pop("requires_grad")
    if name == "fftfreq":
        parts = [(0, (n + 1) // 2), (-(n // 2), 0)]
        result = cat([arange(low, high, **options) for low, high in parts])
    else:
        result = arange(n // 2 + 1, **options)
    result = result * (1.0 / (n * d) if n * d else float("inf"))
    if out is not None:
        return out.resize_(result.shape).copy_(result)
    return result.requires_grad_() if wants_grad else result


def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: Tensor | None = None,
    dtype: Dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """The frequencies of fft's n results, for samples d apart."""
    options = {"dtype": dtype, "layout": layout, "device": device, "pin_memory": pin_memory}
    return _frequencies("fftfreq", n, d, out, options | {"requires_grad": requires_grad})


def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: Tensor | None = None,
    dtype: Dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """The frequencies of rfft's results, for n samples d apart."""
    options = {"dtype": dtype, "layout": layout, "device": device, "pin_memory": pin_memory}
    return _frequencies("rfftfreq", n, d, out, options | {"requires_grad": requires_grad})


# ---- shifts --------------------------------------------------------------------------------------


def _shift(name: str, x: Tensor, dim: Sizes, sign: int) -> Tensor:
    require_tensor(x, f"fft_{name}", "input", 1)
    dims = _ints(dim)
    wrapped = [*range(x.ndim)] if dims is None else [wrap_dim(d, x.ndim) for d in dims]
    halves = [(x.shape[d] + (sign < 0)) // 2 if x.ndim else 0 for d in wrapped]
    return roll(x, halves, wrapped)


def fftshift(input: Tensor, dim: Sizes = None) -> Tensor:
    """Frequency 0 moved from the start to the middle."""
    return _shift("fftshift", input, dim, 1)


def ifftshift(input: Tensor, dim: Sizes = None) -> Tensor:
    """Frequency 0 moved from the middle to the start."""
    return _shift("ifftshift", input, dim, -1)


FFT |= {f.__name__: f for f in (fftfreq, rfftfreq, fftshift, ifftshift)}
