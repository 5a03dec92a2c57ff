"""Matrix products of arrays with any strides, and what is done to them before they are stored.

Dense operands of the types that tensor cores multiply come by the copy engine where there is one
(`_engine`, sm_90 to sm_110); others through pointers (`_tiled`), a few columns without tensor cores
(`_thin`), and integers by rank-one updates.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from tritorch import _C
from tritorch.core import precision
from tritorch.core.dtype import dtype, float32, float64, int32, int64
from tritorch.gpu.linalg.matmul_plan import choose, simple_tile, split
from tritorch.gpu.pointwise.layout import INT32_MAX, broadcast_strides, float_bits, reach
from tritorch.triton import names
from tritorch.triton.kernel import kernel

Array = _C.Array
Sizes = tuple[int, ...]

_THIN = 8  # at most so many columns are multiplied without tensor cores
_SMALL = 16  # from so many rows, columns and inner elements the copy engine pays
_EXACT_SUMS = 32  # float8 products are added up in less than float32 before they go into one


def parts(x: Array) -> Array:
    """Complex numbers as pairs of reals: one more dim, of size 2, at the end."""
    kind = x.dtype.to_real()
    flat = x.as_strided((x.storage_nbytes // x.itemsize,), (1,), 0).view_dtype(kind)
    strides = [*(2 * stride for stride in x.strides), 1]
    return flat.as_strided((*x.shape, 2), strides, 2 * x.storage_offset())


def accumulator(kind: dtype) -> dtype:
    """The type in which products of a real type are summed."""
    if not kind.is_floating_point:
        return int32
    return float64 if kind is float64 else float32


@functools.cache
def triton_name(kind: dtype) -> Any:
    """A dtype as Triton's type."""
    return names.element_type(kind.name)


@functools.cache
def machine(device: int) -> tuple[int, int]:
    """Compute capability (10 major + minor) and multiprocessors of a device."""
    properties = _C.device_properties(device)
    capability = 10 * properties["major"] + properties["minor"]
    return capability, properties["multi_processor_count"]


@functools.cache
def has_engine(device: int) -> bool:
    """Whether tiles come by the copy engine: on data centres' GPUs since sm_90 (sm_120 has
    less than half their shared memory)."""
    return 90 <= machine(device)[0] < 120


@functools.cache
def any_has_engine() -> bool:
    """has_engine, of one of the devices."""
    return any(has_engine(device) for device in range(_C.device_count()))


class Sums:
    """Sums of columns that a product's kernel leaves: of each so many rows, as its tiles have."""

    def __init__(self, kinds: Sequence[dtype]) -> None:
        self.kinds, self.parts = kinds, tuple[Array, ...]()

    def make(self, shape: tuple[int, int], tile: int, device: int) -> tuple[Array, ...]:
        """Where they are left, of a product of this shape whose tiles have so many rows."""
        left = -(-shape[0] // tile)
        assert left <= most_parts(shape[0])
        self.parts = tuple(_C.empty((left, shape[1]), kind, device) for kind in self.kinds)
        return self.parts


def most_parts(rows: int) -> int:
    """How many tiles lie below each other in a product of so many rows, at most, and more than
    `_THIN` columns."""
    return 4 if rows <= 64 else -(-rows // 64)


class WrittenEpilogue(NamedTuple):
    """An epilogue that was written for a product: a jit function of an element, its row and column,
    which of them exist, and the kernel's `extra`; the same for the transposed product; the arrays
    that it reads and writes, and the sums of columns that it leaves."""

    function: Any
    swapped: Any
    arrays: tuple[Array, ...]
    sums: Sums | None = None
    turned: bool = False  # the product is the transposed one

    def transposed(self) -> WrittenEpilogue:
        """The same, of the transposed product."""
        return WrittenEpilogue(self.swapped, self.function, self.arrays, self.sums, not self.turned)


@dataclasses.dataclass(frozen=True, slots=True)
class Prologue:
    """A stack of one matrix whose elements a prologue computes where a product reads them, from
    `arrays`.

    function: of positions, which of them exist, and the arrays; swapped: of the transposed matrix.
    It has the attributes of an array that products ask for."""

    function: Any
    swapped: Any
    arrays: tuple[Array, ...]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: dtype

    @property
    def device_index(self) -> int:
        """The GPU on which it is computed."""
        return self.arrays[0].device_index

    @property
    def itemsize(self) -> int:
        """The bytes of an element, if it were in memory."""
        return self.dtype.itemsize

    def unsqueeze(self, dim: int) -> Prologue:
        """The matrix, as a stack of one."""
        assert dim == 0
        return dataclasses.replace(self, shape=(1, *self.shape), strides=(0, *self.strides))

    def reshape(self, shape: tuple[int, ...]) -> Prologue:
        """Itself: it is a matrix already."""
        assert shape == self.shape
        return self

    def transpose(self, one: int, other: int) -> Prologue:
        """The transposed matrix."""
        shape, strides = ((*x[:-2], x[-1], x[-2]) for x in (self.shape, self.strides))
        return Prologue(self.swapped, self.function, self.arrays, shape, strides, self.dtype)


Matrix = Any  # an Array, or a Prologue where a kernel takes one


def _given(x: Matrix) -> tuple[Any, Any]:
    """What a kernel gets for an operand: arrays, and what computes elements of them."""
    return (x.arrays, x.function) if isinstance(x, Prologue) else (x, None)


@dataclasses.dataclass(frozen=True, slots=True)
class Epilogue:
    """The epilogue of a product: activation(alpha row_scale col_scale (a b) + beta addend), and a
    written one.

    addend: an array that broadcasts to the result.  Scales: float32 vectors, of one element or as
    many as there are rows or columns. activation: a function of kernels/scalar/activations.py."""

    addend: Array | None = None
    alpha: float = 1.0
    beta: float = 1.0
    row_scale: Array | None = None
    col_scale: Array | None = None
    activation: str | None = None
    written: WrittenEpilogue | None = None

    def transposed(self) -> Epilogue:
        """The same, of the transposed product."""
        addend = self.addend
        if addend is not None and addend.ndim > 1:
            addend = addend.transpose(-1, -2)
        elif addend is not None:
            addend = addend.unsqueeze(addend.ndim)
        written = self.written and self.written.transposed()
        return dataclasses.replace(
            self, addend=addend, row_scale=self.col_scale, col_scale=self.row_scale, written=written
        )

    @property
    def leaves_sums(self) -> bool:
        """Whether it sums columns of tiles, each of which has to be whole."""
        return self.written is not None and self.written.sums is not None

    def arguments(
        self, shape: tuple[int, ...], tile: tuple[int, int] = (0, 0), device: int = 0
    ) -> tuple[Any, Mapping[str, Any]]:
        """The kernels' argument `extra`, and their constants; tile: the rows and columns of which a
        kernel knows all at a time."""
        if self is PLAIN:
            return None, _NOTHING
        addend, scaled = self.addend, self.row_scale is not None
        strides: tuple[int, ...] = (0, 0, 0)
        if addend is not None:
            strides = broadcast_strides(addend.shape, addend.strides, shape)
        one_row = strides[:2] == (0, 0)
        constants = {
            "ADDEND": "none" if addend is None else "row" if one_row else "matrix",
            "SCALED": scaled,
            "ACTIVATION": self.activation and scalar_function(self.activation),
        }
        arrays: tuple[Array, ...] = ()
        if self.written is not None:
            constants["ACTIVATION"], arrays = self.written.function, self.written.arrays
            if self.written.sums is not None:
                rows, cols = shape[-2:][:: -1 if self.written.turned else 1]
                arrays += self.written.sums.make((rows, cols), tile[self.written.turned], device)
        if addend is None and not scaled and not arrays:
            return None, constants
        any_array = next(x for x in (addend, self.row_scale, *arrays) if x is not None)
        scales = []
        for scale in (self.row_scale, self.col_scale):
            dense = scale is not None and scale.numel() > 1
            scales += [any_array if scale is None else scale, int(dense)]
        numbers = float_bits(self.alpha), float_bits(self.beta)
        return (any_array, *strides, *scales, *numbers, *arrays), constants

    def is_wide(self) -> bool:
        """Whether offsets into the addend need 64 bits."""
        return self.addend is not None and _is_wide(self.addend)


PLAIN = Epilogue()
# PLAIN's constants; shared by all calls, so nobody may change them.
_NOTHING = MappingProxyType({"ADDEND": "none", "SCALED": False, "ACTIVATION": None})


def scalar_function(name: str) -> Any:
    """An activation of the kernels."""
    return names.function("activations", name)


def mm(a: Array, b: Array) -> Array:
    """The product of two matrices."""
    return _matrix(a, b, a.dtype, PLAIN)


def with_epilogue(
    a: Matrix, b: Matrix, addend: Array | None, numbers: Any, kind: dtype,
    written: WrittenEpilogue | None,
) -> Array:  # fmt: skip
    """beta addend + alpha a b, of matrices, and what follows it; numbers: beta and alpha."""
    beta, alpha = numbers
    if addend is None and written is None:
        return _matrix(a, b, kind, PLAIN)
    return _matrix(a, b, kind, Epilogue(addend, alpha, beta, written=written))


def bmm(a: Array, b: Array) -> Array:
    """The products of two stacks of matrices."""
    return product(a, b, a.dtype)


def linear(x: Array, w: Array, b: Array | None) -> Array:
    """x w^T + b, of rows x."""
    return _matrix(x, w.transpose(0, 1), x.dtype, PLAIN if b is None else Epilogue(b))


def addmm(addend: Array, a: Array, b: Array, beta: float, alpha: float) -> Array:
    """beta addend + alpha a b, of matrices or stacks of them."""
    epilogue = Epilogue(addend, alpha, beta)
    if a.ndim == 3:
        return product(a, b, a.dtype, epilogue)
    return _matrix(a, b, a.dtype, epilogue)


def addmm_activation(
    addend: Array, a: Array, b: Array, beta: float, alpha: float, activation: str
) -> Array:
    """A function of kernels/scalar/activations.py of beta addend + alpha a b."""
    return _matrix(a, b, a.dtype, Epilogue(addend, alpha, beta, activation=activation))


def scaled_mm(
    a: Array, b: Array, row_scale: Array, col_scale: Array, bias: Array | None, kind: dtype,
    fast: bool,
) -> Array:  # fmt: skip
    """(row_scale a) (b col_scale) + bias, of float8 matrices."""
    return _matrix(a, b, kind, Epilogue(bias, row_scale=row_scale, col_scale=col_scale), fast)


def int_mm(a: Array, b: Array) -> Array:
    """The product of two matrices of bytes, in int32; tensor cores multiply those of one type."""
    a, b = a.unsqueeze(0), b.unsqueeze(0)
    out = _C.empty((1, a.shape[1], b.shape[2]), int32, a.device_index)
    if out.numel() == 0 or a.shape[2] == 0:
        out.zero_()
    elif a.dtype is b.dtype:
        _tiled(a, b, out)
    else:
        _integers(a, b, out)
    return out[0]


def _matrix(a: Matrix, b: Matrix, kind: dtype, epilogue: Epilogue, fast: bool = False) -> Array:
    out = product(a.unsqueeze(0), b.unsqueeze(0), kind, epilogue, fast)
    return out.reshape_view((a.shape[0], b.shape[1]))  # type: ignore[return-value]


def multiply_into(out: Array, a: Array, b: Array, addend: Array | None = None) -> None:
    """out = a b + addend, of matrices; out may be of a wider type, and may be the addend."""
    epilogue = PLAIN  # a program has read what it overwrites before it stores
    if addend is not None:
        epilogue = Epilogue(addend.unsqueeze(0))
    product(a.unsqueeze(0), b.unsqueeze(0), out.dtype, epilogue, out=out.unsqueeze(0))


def product(
    a: Matrix, b: Matrix, kind: dtype, epilogue: Epilogue = PLAIN, fast_sums: bool = False,
    out: Array | None = None, how: str | None = None,
) -> Array:  # fmt: skip
    """The products of two stacks of matrices, finished, as an array of a type.

    how: a precision of float32 other than that of matrices.
    """
    (batch, m, k), n = a.shape, b.shape[2]
    if out is None:
        out = _C.empty((batch, m, n), kind, a.device_index)
    if out.numel() == 0:
        return out
    if kind.is_complex:
        if k == 0:
            return out.zero_()
        _tiled(parts(a), parts(b), parts(out), epilogue, True)
    elif not kind.is_floating_point:
        if k == 0:
            return out.zero_()
        _integers(a, b, out)
    elif n <= _THIN:
        _thin(a, b, out, epilogue)
    elif m <= _THIN:
        _thin(b.transpose(1, 2), a.transpose(1, 2), out.transpose(1, 2), epilogue.transposed())
    elif (
        isinstance(a, Prologue)
        or isinstance(b, Prologue)
        or not _engine(a, b, out, epilogue, fast_sums, how or precision.matmul)
    ):
        _tiled(a, b, out, epilogue, how=how or precision.matmul)
    return out


def _is_wide(*arrays: Array) -> bool:
    return max(reach(x.shape, x.strides) + 1024 * max(x.strides) for x in arrays) > INT32_MAX


def _partial(out: Array, splits: int) -> tuple[Array, int]:
    """Where to write: the output, or one dense float array for each part of the inner dim."""
    if splits == 1:
        return out, 0
    kind = accumulator(out.dtype)
    order = sorted(range(out.ndim), key=lambda dim: (-out.strides[dim], dim))
    shape = [out.shape[dim] for dim in order]  # laid out like the output, to be summed flat
    stacked = _C.empty((splits, *shape), kind, out.device_index)
    back = [order.index(dim) for dim in range(out.ndim)]
    strides = [stacked.strides[1 + place] for place in back]
    return stacked.as_strided(out.shape, strides), stacked.strides[0]


def _finish(out: Array, partial: Array, splits: int, epilogue: Epilogue = PLAIN) -> None:
    """Sums the parts, if there are any."""
    if splits == 1:
        return
    if epilogue is not PLAIN and out.strides[-1] > out.strides[-2]:  # the kernel counts along rows
        out, epilogue = out.transpose(-1, -2), epilogue.transposed()
    n = out.numel()
    block = 256 if n <= 2**16 else 1024
    extra, constants = epilogue.arguments(out.shape)
    kernel("matmul", "sum_splits")(
        (-(-n // block),), partial, out, n, splits, out.shape[-2], out.shape[-1], extra,
        WIDE=epilogue.is_wide(), BLOCK=block, **constants,
    )  # fmt: skip


def dense(x: Array) -> int:
    """Whether the copy engine can bring blocks of a stack of matrices: 1 if rows are dense, 2 if
    columns are, else 0."""
    size = x.itemsize
    (batch, rows, cols), (outer, down, across) = x.shape, x.strides
    if x.data_ptr() % 16 or (batch > 1 and (outer < 0 or outer * size % 16)):
        return 0
    if across == 1 and down * size % 16 == 0 and down >= cols and rows > 1:
        return 1
    if down == 1 and across * size % 16 == 0 and across >= rows and cols > 1:
        return 2
    return 0


def _engine(a: Array, b: Array, out: Array, epilogue: Epilogue, fast_sums: bool, how: str) -> bool:
    """The product by the copy engine; False, and nothing done, where that cannot be."""
    (batch, m, k), n, kind = a.shape, b.shape[2], a.dtype
    capability, processors = machine(a.device_index)
    if not has_engine(a.device_index) or kind.itemsize > 4 or (kind is float32 and how != "tf32"):
        return False
    a_dense, b_dense = dense(a), dense(b)
    if min(m, n, k) < _SMALL or not a_dense or not b_dense:
        return False
    if m <= 32 < n:  # a warp group multiplies 64 rows at a time: let them be the columns
        a, b, a_dense, b_dense = b.transpose(1, 2), a.transpose(1, 2), 3 - b_dense, 3 - a_dense
        m, n, epilogue, target = n, m, epilogue.transposed(), out.transpose(1, 2)
    else:
        target = out
    exact = kind.itemsize == 1 and not fast_sums
    small = exact or epilogue.leaves_sums
    plan = choose(m, n, k, batch, kind.itemsize, processors, small, capability)
    if epilogue.leaves_sums:
        plan = plan._replace(splits=1)
    splits = plan.splits
    partial, split_stride = _partial(target, splits)
    subtiles = 2 if plan.block_n >= 128 else 1
    into = None
    # Large tiles of float32, from operands of 16 bits, do not fit the shared memory beside those.
    fits = partial.itemsize <= kind.itemsize or plan.block_m * plan.block_n <= 128 * 128
    if dense(partial) == 1 and fits:
        whole = partial.as_strided((splits * batch, m, n), (m * n, n, 1)) if splits > 1 else target
        into = _C.Descriptor(whole, (1, plan.block_m, plan.block_n // subtiles))
    extra, constants = (PLAIN if splits > 1 else epilogue).arguments(
        target.shape, (plan.block_m, plan.block_n // subtiles), a.device_index
    )
    wide = _is_wide(partial) or split_stride * splits > INT32_MAX or epilogue.is_wide()
    a_block = (plan.block_m, plan.block_k) if a_dense == 1 else (plan.block_k, plan.block_m)
    b_block = (plan.block_k, plan.block_n) if b_dense == 1 else (plan.block_n, plan.block_k)
    items = plan.tiles(m, n, batch) * splits
    kernel("matmul", "matmul_tma")(
        (min(items, processors),), _descriptor(a, a_dense, a_block),
        _descriptor(b, b_dense, b_block), into, partial, batch, m, n, splits,
        plan.inner_per_split(k), partial.strides, extra, ACCUMULATE=triton_name(float32),
        PRECISION=how, IMPRECISE=_EXACT_SUMS if exact else None,
        A_COLS=a_dense == 2,
        B_COLS=b_dense == 2, A_SHARED=a.strides[0] == 0 or batch == 1,
        B_SHARED=b.strides[0] == 0 or batch == 1, WIDE=wide, GROUP=plan.group, SUBTILES=subtiles,
        BLOCK_M=plan.block_m, BLOCK_N=plan.block_n, BLOCK_K=plan.block_k, num_warps=plan.warps,
        num_stages=plan.stages, **constants,
    )  # fmt: skip
    _finish(target, partial, splits, epilogue)
    return True


def _descriptor(x: Array, layout: int, block: tuple[int, int]) -> _C.Descriptor:
    """A stack of matrices for the copy engine; one matrix if they are all the same."""
    if x.strides[0] == 0:
        x = x[:1]
    return _C.Descriptor(x if layout == 1 else x.transpose(1, 2), (1, *block))


@functools.lru_cache(4096)
def _cut(
    a_shape: Sizes, a_strides: Sizes, b_shape: Sizes, b_strides: Sizes, out_strides: Sizes,
    kind: dtype, how: str, is_complex: bool, processors: int,
) -> tuple[tuple[int, int], int, dict[str, Any]]:  # fmt: skip
    """How a product through pointers is cut: the grid (tiles, parts of the inner dim), a part's
    length, and the kernel's constants."""
    (batch, m, k), n = a_shape[:3], b_shape[2]
    fast = (kind.itemsize <= 2 or how != "ieee") and not is_complex
    block_m, block_n, block_k, warps, stages = simple_tile(
        m, n, kind.itemsize, fast, is_complex, processors
    )
    programs = batch * -(-m // block_m) * -(-n // block_n)
    splits, per = split(programs, k, block_k, processors)
    out_shape = (batch, m, n, 2) if is_complex else (batch, m, n)
    wide = _needs_64_bits(
        (a_shape, a_strides), (b_shape, b_strides), (out_shape, out_strides), splits
    )
    constants = {
        "ACCUMULATE": triton_name(accumulator(kind)), "PRECISION": how, "COMPLEX": is_complex,
        "WIDE": wide,
        "EVEN": k % block_k == 0, "GROUP": 8, "BLOCK_M": block_m, "BLOCK_N": block_n,
        "BLOCK_K": block_k, "num_warps": warps, "num_stages": stages,
    }  # fmt: skip
    return (programs, splits), per, constants


def _tiled(
    a: Matrix, b: Matrix, out: Array, epilogue: Epilogue = PLAIN, is_complex: bool = False,
    how: str | None = None,
) -> None:  # fmt: skip
    """Through pointers: any strides."""
    kind = a.dtype
    a_shape, b_shape, a_strides, b_strides = a.shape, b.shape, a.strides, b.strides
    grid, per, cut = _cut(
        a_shape, a_strides, b_shape, b_strides, out.strides, kind,
        (how or precision.matmul) if kind is float32 else "ieee",
        is_complex, machine(a.device_index)[1],
    )  # fmt: skip
    if epilogue.leaves_sums:
        steps = max(-(-a_shape[2] // cut["BLOCK_K"]), 1)
        grid, per = (grid[0], 1), steps * cut["BLOCK_K"]
    splits = grid[1]
    partial, split_stride = _partial(out, splits)
    if epilogue.is_wide() and not cut["WIDE"]:
        cut = cut | {"WIDE": True}
    extra, constants = (PLAIN if splits > 1 else epilogue).arguments(
        out.shape[:3], (cut["BLOCK_M"], cut["BLOCK_N"]), a.device_index
    )
    (a_given, a_first), (b_given, b_first) = _given(a), _given(b)
    kernel("matmul", "matmul")(
        grid, a_given, b_given, partial, a_shape[1], b_shape[2], a_shape[2], per, a_strides[:3],
        b_strides[:3], split_stride, partial.strides[:3], extra, A_FIRST=a_first, B_FIRST=b_first,
        **cut, **constants,
    )  # fmt: skip
    _finish(out, partial, splits, epilogue)


@functools.lru_cache(4096)
def _thin_cut(
    a_shape: Sizes, a_strides: Sizes, b_shape: Sizes, b_strides: Sizes, out_strides: Sizes,
    kind: dtype, processors: int,
) -> tuple[tuple[int, int], int, dict[str, Any]]:  # fmt: skip
    """`_cut` of a product with a few columns."""
    (batch, m, k), n = a_shape, b_shape[2]
    block_n = 1 << (n - 1).bit_length()
    if a_strides[2] <= a_strides[1]:  # rows are dense: programs read along them
        block_k = 32 if k <= 32 else 128 if k <= 128 else 256
        block_m = max(4096 // (block_k * block_n), 1)
    else:
        block_m, block_k = max(256 // block_n, 32), 16
    programs = batch * -(-m // block_m)
    splits, per = split(programs, k, block_k, processors)
    constants = {
        "ACCUMULATE": triton_name(accumulator(kind)), "BLOCK_M": block_m, "BLOCK_N": block_n,
        "WIDE": _needs_64_bits(
            (a_shape, a_strides), (b_shape, b_strides), ((batch, m, n), out_strides), splits
        ),
        "BLOCK_K": block_k, "num_warps": 4,
    }  # fmt: skip
    return (programs, splits), per, constants


def _needs_64_bits(
    a: tuple[Sizes, Sizes], b: tuple[Sizes, Sizes], out: tuple[Sizes, Sizes], splits: int
) -> bool:
    """Whether offsets into the operands, given by shape and strides, or into all parts do."""
    reached = max(reach(shape, strides) + 1024 * max(strides) for shape, strides in (a, b, out))
    return max(reached, math.prod(out[0]) * splits) > INT32_MAX


def _thin(a: Matrix, b: Matrix, out: Array, epilogue: Epilogue) -> None:
    """A few columns: a is read once, at the speed of memory."""
    a_shape, b_shape, a_strides, b_strides = a.shape, b.shape, a.strides, b.strides
    grid, per, how = _thin_cut(
        a_shape, a_strides, b_shape, b_strides, out.strides, a.dtype, machine(a.device_index)[1]
    )
    splits = grid[1]
    partial, split_stride = _partial(out, splits)
    if epilogue.is_wide() and not how["WIDE"]:
        how = how | {"WIDE": True}
    extra, constants = (PLAIN if splits > 1 else epilogue).arguments(out.shape)
    (a_given, a_first), (b_given, b_first) = _given(a), _given(b)
    kernel("matmul", "matmul_thin")(
        grid, a_given, b_given, partial, a_shape[1], b_shape[2], a_shape[2], per, a_strides,
        b_strides, split_stride, partial.strides, extra, A_FIRST=a_first, B_FIRST=b_first, **how,
        **constants,
    )  # fmt: skip
    _finish(out, partial, splits, epilogue)


def _integers(a: Array, b: Array, out: Array) -> None:
    batch, m, k = a.shape
    n = b.shape[2]
    block_m, block_n = 64 if m > 32 and a.itemsize < 8 else 16, 64 if n > 32 else 16
    programs = batch * -(-m // block_m) * -(-n // block_n)
    kernel("matmul", "matmul_integers")(
        (programs,), a, b, out, m, n, k, *a.strides, *b.strides, *out.strides,
        ACCUMULATE=triton_name(int64 if a.itemsize == 8 else int32), WIDE=_is_wide(a, b, out),
        BLOCK_M=block_m, BLOCK_N=block_n, num_warps=4,
    )  # fmt: skip
