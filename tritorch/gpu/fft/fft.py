"""Fourier transforms on the GPU: what is launched for which dims (kernels/fft.py)."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

from tritorch import _C
from tritorch.arrays.arrays import pairs
from tritorch.arrays.strides import transform_order
from tritorch.core.dtype import complex64, dtype, int64
from tritorch.gpu.arrays import from_numpy
from tritorch.gpu.fft import fft_plan
from tritorch.gpu.fft.fft_plan import LIMIT, Stages
from tritorch.gpu.pointwise.layout import INT32_MAX, block_size, float_bits, reach
from tritorch.gpu.pointwise.pointwise import triton_type
from tritorch.triton.kernel import kernel

Array = _C.Array
Dims = tuple[int, ...]


def _raw(x: Array) -> Array:
    """What a kernel takes: complex numbers of 8 bytes as integers, others as pairs of reals."""
    if x.dtype is complex64:
        return x.view_dtype(int64)
    return pairs(x) if x.dtype.is_complex else x


@functools.cache
def _table(name: str, sizes: tuple[int, ...], kind: dtype, index: int) -> Array:
    """A table of fft_plan's on a GPU: it stays, since graphs may read it."""
    values = getattr(fft_plan, name)(*sizes)
    out = from_numpy(values.astype(kind.numpy), index)
    _C.stream_synchronize(index, _C.current_stream(index))  # others' streams read it too
    return _raw(out)


class _Side(NamedTuple):
    """An end of a pass: how memory is read or written, which elements of a transform a line has
    (from element to element, from line to line), and how many there are."""

    array: Array
    how: str
    step: int = 1
    line_step: int = 0
    size: int = 0


class _Factors(NamedTuple):
    """Tables that a pass multiplies by."""

    before: Array | None = None
    middle: Array | None = None
    after: Array | None = None
    steps: Array | None = None


_NONE = _Factors()


class _Job(NamedTuple):
    """A transform of n complex points along a dim of x to y, inverse or not, times scale."""

    dim: int
    n: int
    kind: dtype
    inverse: bool
    scale: float
    onesided: bool = True

    @property
    def itemsize(self) -> int:
        return self.kind.itemsize // 2

    def table(self, name: str, *sizes: int, device: int) -> Array:
        return _table(name, sizes, self.kind, device)


def _lines(job: _Job, *arrays: Array) -> Any:
    """The shape of all dims but job's, the outermost first, and each array's strides."""
    first = arrays[0]
    kept = [i for i in range(first.ndim) if i != job.dim]
    kept.sort(key=lambda i: -first.strides[i])
    shape = [first.shape[i] for i in kept]
    dims, strides = _C.collapse(shape, [[a.strides[i] for i in kept] for a in arrays])
    return (dims, strides) if dims else ((1,), [(0,)] * len(arrays))


def _pass(
    job: _Job, points: Stages, x: _Side, y: _Side, inner: int = 1, factors: _Factors = _NONE,
    swaps: tuple[bool, bool] | None = None, scaled: bool = True, back: bool = False,
) -> None:  # fmt: skip
    """One launch: lines of so many points each, `inner` of which are one transform's."""
    shape, (x_strides, y_strides) = _lines(job, x.array, y.array)
    n_lines = math.prod(shape) * inner
    x_stride, y_stride = x.array.strides[job.dim], y.array.strides[job.dim]
    across = inner > 1 or (not (x_stride == 1 == y_stride) and n_lines > 1)
    tile = fft_plan.tile(points, n_lines, job.itemsize, across)
    device, n, half = x.array.device_index, points.n, y.how == "unfolded"
    scratch = table = real = None
    if len(points.radices) > 1 or half or factors.middle is not None:
        scratch = _raw(_C.empty((tile.programs, n * tile.rows), job.kind, device))
    if len(points.radices) > 1 or n % 2:
        table = job.table("roots", n, n, device=device)
    if half or x.how == "folded":
        real = job.table("roots", 2 * job.n, job.n + 1, device=device)
    swap_in, swap_out = (job.inverse, job.inverse) if swaps is None else swaps
    reached = max(reach(a.shape, a.strides) for a in (x.array, y.array))
    kernel("fft", "transform")(
        (tile.programs,), _raw(x.array), _raw(y.array), scratch, table, real, *factors, n_lines,
        inner, x.size or job.n, y.size or job.n, x_stride, y_stride, x.step, x.line_step, y.step,
        y.line_step, float_bits(job.scale if scaled else 1.0), shape, x_strides, y_strides,
        LOAD=x.how, STORE=y.how, ONESIDED=job.onesided, SWAP_IN=swap_in, SWAP_OUT=swap_out,
        BACK=back, COMPUTE=triton_type(job.kind.to_real()), LENGTH=job.n, N=n,
        RADICES=points.radices, WIDTHS=points.widths, SPANS=points.spans, ROWS=tile.rows,
        ACROSS=across, NDIM=len(shape), WIDE=2 * max(reached, n_lines * n) > INT32_MAX,
        HALF=fft_plan.power(job.n // 2 + 1), num_warps=tile.warps,
    )  # fmt: skip


def _along(job: _Job, x: Array, load: str, y: Array, store: str) -> None:
    """The transforms of all lines along a dim; y may be x where neither is taken apart."""
    n, itemsize = job.n, job.itemsize
    if n <= LIMIT[itemsize]:
        points = fft_plan.stages(n, itemsize)
        if points is not None:
            _pass(job, points, _Side(x, load), _Side(y, store))
            return
        m = fft_plan.convolved(n)
        if m <= LIMIT[itemsize]:
            _pass(job, _stages(m, 8), _Side(x, load), _Side(y, store),
                  factors=_convolution(job, m, x.device_index))  # fmt: skip
            return
    if store == "unfolded":
        _unfolded(job, x, load, y)
    elif fft_plan.stages(n, itemsize) is None or fft_plan.halved(n, itemsize) is None:
        _by_convolution(job, x, load, y, store)
    else:
        _in_two_steps(job, _Side(x, load), _Side(y, store), n)


def _stages(n: int, itemsize: int) -> Stages:
    found = fft_plan.stages(n, itemsize)
    assert found is not None
    return found


def _convolution(job: _Job, m: int, device: int) -> _Factors:
    chirp = job.table("chirp", job.n, device=device)
    return _Factors(chirp, job.table("filter_of", job.n, m, device=device), chirp)


def _dense(x: Array, dim: int, n: int, kind: dtype) -> Array:
    """Lines of n numbers each, one after the other, seen with x's dims."""
    shape = (*x.shape[:dim], *x.shape[dim + 1 :], n)
    back = [*range(dim), x.ndim - 1, *range(dim, x.ndim - 1)]
    return _C.empty(shape, kind, x.device_index).permute(*back)


def _in_two_steps(
    job: _Job, x: _Side, y: _Side, n: int, factors: _Factors = _NONE,
    swaps: tuple[bool, bool] | None = None, scaled: bool = True, back: bool = False,
) -> None:  # fmt: skip
    """A line of n points as a matrix: its columns, powers of its root, its rows.

    Factors before are the first launch's, those after the second's, whose `back` it is.
    """
    found = fft_plan.halved(n, job.itemsize)
    if found is None:
        raise NotImplementedError(f"Fourier transforms of {n} points are too long for the GPU")
    swap_in, swap_out = (job.inverse, job.inverse) if swaps is None else swaps
    first, second = found
    work = _dense(x.array, job.dim, n, job.kind)
    steps = job.table("two_steps", n, device=work.device_index)
    _pass(
        job, _stages(first, job.itemsize), x._replace(step=second, line_step=1),
        _Side(work, "complex", second, 1, n), second, _Factors(factors.before, steps=steps),
        (swap_in, False), False,
    )  # fmt: skip
    _pass(
        job, _stages(second, job.itemsize), _Side(work, "complex", 1, second, n),
        y._replace(step=first, line_step=1), first, _Factors(after=factors.after),
        (False, swap_out), scaled, back,
    )  # fmt: skip


def _by_convolution(job: _Job, x: Array, load: str, y: Array, store: str) -> None:
    """Any number of points: as a convolution with a chirp, by transforms of a power of two."""
    m = fft_plan.convolved(job.n)
    before, middle, after, _ = _convolution(job, m, x.device_index)
    work = _dense(x, job.dim, m, job.kind)
    whole = _Side(work, "complex", size=m)
    _in_two_steps(
        job, _Side(x, load, size=job.n), whole, m, _Factors(before, after=middle),
        (job.inverse, True), False,
    )  # fmt: skip
    _in_two_steps(
        job, whole, _Side(y, store, size=job.n), m, _Factors(after=after), (False, job.inverse),
        back=True,
    )  # fmt: skip


def _unfolded(job: _Job, x: Array, load: str, y: Array) -> None:
    """The transform of pairs, and a launch that makes it that of the real numbers."""
    z = _dense(x, job.dim, job.n, job.kind)
    _along(job._replace(scale=1.0, inverse=False), x, load, z, "complex")
    shape, (_, y_strides) = _lines(job, z, y)
    n_lines = math.prod(shape)
    count = n_lines * (job.n // 2 + 1)
    block, warps = block_size(count)
    kernel("fft", "unfold")(
        (-(-count // block),), _raw(z), _raw(y),
        job.table("roots", 2 * job.n, job.n + 1, device=x.device_index), n_lines, job.n,
        y.strides[job.dim], float_bits(job.scale), shape, y_strides, ONESIDED=job.onesided,
        SWAP=job.inverse, COMPUTE=triton_type(job.kind.to_real()), NDIM=len(shape),
        WIDE=2 * max(n_lines * job.n, reach(y.shape, y.strides)) > INT32_MAX, BLOCK=block,
        num_warps=warps,
    )  # fmt: skip


# ---- the transforms ------------------------------------------------------------------------------


def _scale(sizes: list[int], norm: int) -> float:
    n = math.prod(sizes)
    return 1.0 / (1, math.sqrt(n), n)[norm]


def _result(x: Array, shape: tuple[int, ...], kind: dtype, dims: Dims, last_stays: bool) -> Array:
    """Where a result goes: its transformed dims are the innermost, as in PyTorch's."""
    order, back, _ = transform_order(x.strides, dims, last_stays)
    return _C.empty([shape[i] for i in order], kind, x.device_index).permute(*back)


def _others(y: Array, dims: Dims, forward: bool) -> None:
    """The transforms over dims, in place."""
    for dim in reversed(dims):
        _along(_Job(dim, y.shape[dim], y.dtype, not forward, 1.0), y, "complex", y, "complex")


def c2c(x: Array, dims: Dims, norm: int, forward: bool) -> Array:
    """The transform over dims; norm 0: as it is, 1: by the root of the size, 2: by the size."""
    if not dims or not x.numel():
        return x.clone()
    y = _result(x, x.shape, x.dtype, dims, False)
    *others, last = dims
    scale = _scale([x.shape[d] for d in dims], norm)
    job = _Job(last, x.shape[last], x.dtype, not forward, scale)
    _along(job, x, "complex", y, "complex")
    _others(y, tuple(others), forward)
    return y


def r2c(x: Array, dims: Dims, norm: int, onesided: bool) -> Array:
    """The transform of real numbers; of the last of dims the first half, or all."""
    *others, last = dims
    n, kind = x.shape[last], x.dtype.to_complex()
    shape = list(x.shape)
    shape[last] = n // 2 + 1 if onesided else n
    if not x.numel():
        return _C.empty(shape, kind, x.device_index).zero_()
    y = _result(x, tuple(shape), kind, dims, True)
    even = n % 2 == 0
    job = _Job(last, n // 2 if even else n, kind, False,
               _scale([x.shape[d] for d in dims], norm), onesided)  # fmt: skip
    whole = "mirrored" if onesided else "complex"
    _along(job, x, "pairs" if even else "real", y, "unfolded" if even else whole)
    _others(y, tuple(others), True)
    return y


def c2r(x: Array, dims: Dims, norm: int, size: int) -> Array:
    """The inverse of r2c's first half: real numbers, `size` of them along the last of dims."""
    *others, last = dims
    shape = list(x.shape)
    shape[last] = size
    if not x.numel():
        return _C.empty(shape, x.dtype.to_real(), x.device_index).zero_()
    scale = _scale([shape[d] for d in dims], norm)
    if others:
        x = c2c(x, tuple(others), 0, False)
    y = _result(x, tuple(shape), x.dtype.to_real(), (last,), True)
    even = size % 2 == 0
    job = _Job(last, size // 2 if even else size, x.dtype, True, scale)
    _along(job, x, "folded" if even else "mirrored", y, "pairs" if even else "real")
    return y
