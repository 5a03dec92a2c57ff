"""Launches of attention with scores and masks of a program's own: `kernels/flex.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tritorch import _C
from tritorch.core import precision
from tritorch.core.dtype import float32
from tritorch.gpu.linalg.matmul import accumulator, machine, triton_name
from tritorch.gpu.nn.attention import _for_engine, _power, blocks, like
from tritorch.gpu.pointwise.layout import INT32_MAX, float_bits, reach
from tritorch.triton.kernel import kernel

Array = _C.Array
LEAST = 16  # rows and keys that a tile has at least


class Lists(NamedTuple):
    """One way of a block mask: how many blocks each list has, and the blocks, int32 and dense:
    (batch, head, list) and (batch, head, list, entry).  full: those that are seen whole."""

    counts: Array
    blocks: Array
    full_counts: Array | None
    full_blocks: Array | None


class Mods(NamedTuple):
    """What a program's functions became: names of jit functions, and what they load from."""

    score: Any
    slope: Any
    mask: Any
    arrays: tuple[Array, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    gathers: bool  # whether they load an element for each score

    @property
    def work(self) -> str:
        """What they cost a thread in registers: "masks", "scores" or "gathers"."""
        return "gathers" if self.gathers else "scores" if self.score is not None else "masks"


class Sparsity(NamedTuple):
    """A block mask as kernels take it."""

    keys: Lists  # for blocks of rows
    rows: Lists | None  # for blocks of keys
    block: tuple[int, int]


def takes(block: tuple[int, int]) -> bool:
    """Whether kernels have tiles for blocks of so many rows and keys."""
    return block[0] % LEAST == 0 and block[1] % LEAST == 0


# BLOCK_M, BLOCK_N, warps and stages by the pass and the width of heads, for float16 and bfloat16 on
# sm_90 to sm_110: what the functions need of a thread's registers, tiles leave.
_TILES = {
    ("forward", "masks"): {64: (128, 128, 8, 3), 128: (128, 128, 8, 2), 256: (128, 64, 8, 2)},
    ("forward", "scores"): {64: (128, 64, 8, 3), 128: (64, 64, 8, 2), 256: (128, 32, 8, 2)},
    ("forward", "gathers"): {64: (128, 32, 8, 3), 128: (128, 32, 8, 2), 256: (64, 32, 8, 2)},
    ("dq", "masks"): {64: (128, 64, 8, 3), 128: (128, 64, 8, 2), 256: (64, 32, 8, 2)},
    ("dq", "scores"): {64: (128, 32, 8, 3), 128: (128, 32, 8, 2), 256: (64, 32, 8, 2)},
    ("dq", "gathers"): {64: (128, 32, 8, 3), 128: (128, 32, 8, 2), 256: (64, 16, 8, 2)},
    ("dkdv", "masks"): {64: (64, 128, 8, 2), 128: (64, 64, 8, 2), 256: (16, 64, 8, 2)},
    ("dkdv", "scores"): {64: (32, 128, 8, 2), 128: (32, 64, 8, 2), 256: (16, 64, 8, 2)},
    ("dkdv", "gathers"): {64: (32, 128, 8, 2), 128: (32, 64, 8, 2), 256: (16, 16, 4, 1)},
}


def tiles(
    width: int, itemsize: int, which: str, work: str, capability: int
) -> tuple[int, int, int, int]:
    """BLOCK_M, BLOCK_N, warps and stages of one pass over heads of a width (a power of two).

    capability: of the copy engine, 0 without."""
    if itemsize == 2 and capability:
        return _TILES[which, work][min(max(width, 64), 256)]
    m, n, warps, stages = blocks(width, itemsize, which, work != "masks")
    if itemsize == 2 and work == "gathers":  # an element of each score takes registers too
        n = max(n // 2, LEAST)
    return m, n, warps, stages


def _part(size: int, tile: int) -> int:
    """The largest power of two, up to a tile's size, that divides a block's."""
    return min(tile, size & -size)


class _Call:
    """What the launches of one call share."""

    def __init__(
        self, q: Array, k: Array, v: Array, mods: Mods, sparsity: Sparsity | None, scale: float,
        more: Sequence[Array] = (),
    ) -> None:  # fmt: skip
        batch, heads, q_len, width = q.shape
        kv_heads, kv_len, v_width = k.shape[1], k.shape[2], v.shape[3]
        arrays = [q, k, v, *more]
        self.mods, self.sparsity = mods, sparsity
        self.batch, self.heads, self.kv_heads = batch, heads, kv_heads
        self.q_len, self.kv_len, self.itemsize = q_len, kv_len, q.itemsize
        self.width, self.v_width = _power(width), _power(v_width)
        self.engine = _for_engine(*arrays)
        self.capability = machine(q.device_index)[0] if self.engine else 0
        self.sizes = (heads, heads // kv_heads, q_len, kv_len, width, v_width)
        self.anything = q
        self.scale = float_bits(scale)
        wide = max(reach(a.shape, a.strides) for a in arrays) > INT32_MAX
        self.constants = {
            "MASK": mods.mask, "SPARSE": sparsity is not None,
            "COMPUTE": triton_name(accumulator(q.dtype)),
            "PRECISION": precision.matmul if q.dtype is float32 else "ieee",
            "ENGINE": self.engine, "WIDE": wide, "BLOCK_E": self.width, "BLOCK_V": self.v_width,
        }  # fmt: skip

    def blocks(self, work: str) -> tuple[int, int, dict[str, Any]]:
        """BLOCK_M, BLOCK_N and all constants of one kernel."""
        width = max(self.width, self.v_width)
        m, n, warps, stages = tiles(width, self.itemsize, work, self.mods.work, self.capability)
        q_block, kv_block = 0, 0
        if self.sparsity is not None:
            q_block, kv_block = self.sparsity.block
            q_block = min(q_block, -(-self.q_len // m) * m) if q_block >= self.q_len else q_block
            kv_block = (
                min(kv_block, -(-self.kv_len // n) * n) if kv_block >= self.kv_len else kv_block
            )
            m, n = _part(q_block, m), _part(kv_block, n)
        launch = {
            "BLOCK_M": m, "BLOCK_N": n, "Q_BLOCK": q_block, "KV_BLOCK": kv_block,
            "num_warps": warps, "num_stages": stages,
        }  # fmt: skip
        return m, n, self.constants | launch

    def tables(self, lists: Lists | None) -> tuple[Any, Any, tuple[int, int], bool]:
        """The lists as kernels take them, their strides, and whether there are full blocks."""
        if lists is None:
            nothing = (self.anything, self.anything, 0)
            return nothing, nothing, (0, 0), False
        n_batches, n_heads, n_lists = lists.counts.shape
        partial: Any = (lists.counts, lists.blocks, lists.blocks.shape[-1])
        full = partial
        if lists.full_blocks is not None:
            full = (lists.full_counts, lists.full_blocks, lists.full_blocks.shape[-1])
        strides = (n_heads * n_lists if n_batches > 1 else 0, n_lists if n_heads > 1 else 0)
        return partial, full, strides, lists.full_blocks is not None

    def tiles(self, x: Array, block: int, width: int) -> Any:
        """x as the kernels take it."""
        return _C.Descriptor(x, (1, 1, block, width)) if self.engine else x


def _loads(mods: Mods, q: Array) -> tuple[Array, ...]:
    return mods.arrays or (q,)


def flex(
    q: Array, k: Array, v: Array, mods: Mods, sparsity: Sparsity | None, scale: float, tops: bool
) -> tuple[Array, Array, Array]:
    """out, lse and, if they are wanted, the rows' largest scores (else lse again)."""
    batch, heads, q_len, _ = q.shape
    out = like(q, (batch, heads, q_len, v.shape[3]))
    lse = _C.empty((batch, heads, q_len), accumulator(q.dtype), q.device_index)
    top = _C.empty(lse.shape, lse.dtype, q.device_index) if tops else lse
    if lse.numel() == 0:
        return out, lse, top
    call = _Call(q, k, v, mods, sparsity, scale)
    m, n, constants = call.blocks("forward")
    partial, full, table_steps, has_full = call.tables(sparsity and sparsity.keys)
    kernel("flex", "flex")(
        (batch * heads * -(-q_len // m),), call.tiles(q, m, call.width),
        call.tiles(k, n, call.width), call.tiles(v, n, call.v_width), out, lse, top, partial, full,
        _loads(mods, q), *call.sizes, q.strides, k.strides, v.strides, out.strides, lse.strides,
        table_steps, mods.sizes, mods.strides, call.scale, SCORE=mods.score, FULL=has_full,
        TOPS=tops, **constants,
    )  # fmt: skip
    return out, lse, top


def flex_delta(g: Array, out: Array) -> Array:
    """sum(dout out) of each row."""
    _, heads, q_len, v_width = out.shape
    delta = _C.empty(out.shape[:3], accumulator(out.dtype), out.device_index)
    width = _power(v_width)
    n_rows, block = delta.numel(), max(2048 // width, 1)
    wide = max(reach(a.shape, a.strides) for a in (g, out)) > INT32_MAX
    if n_rows:
        kernel("flex", "flex_delta")(
            (-(-n_rows // block),), g, out, delta, n_rows, q_len, heads, v_width, g.strides,
            out.strides, COMPUTE=triton_name(accumulator(out.dtype)), WIDE=wide, BLOCK_M=block,
            BLOCK_V=width, num_warps=4,
        )  # fmt: skip
    return delta


def flex_backward(
    g: Array, q: Array, k: Array, v: Array, lse: Array, delta: Array, mods: Mods,
    sparsity: Sparsity | None, scale: float,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """The gradients of q, k and v; lse and delta dense."""
    dq, dk, dv = (like(x, tuple(x.shape)) for x in (q, k, v))
    if lse.numel() == 0 or k.shape[2] == 0:
        return dq.zero_(), dk.zero_(), dv.zero_()
    call = _Call(q, k, v, mods, sparsity, scale, (g,))
    strides = (g.strides, q.strides, k.strides, v.strides)
    m, n, constants = call.blocks("dq")
    partial, full, table_steps, has_full = call.tables(sparsity and sparsity.keys)
    kernel("flex", "flex_dq")(
        (call.batch * call.heads * -(-call.q_len // m),), call.tiles(g, m, call.v_width),
        call.tiles(q, m, call.width), call.tiles(k, n, call.width), call.tiles(v, n, call.v_width),
        lse, delta, dq, partial, full, _loads(mods, q), *call.sizes, *strides, dq.strides,
        lse.strides, table_steps, mods.sizes, mods.strides, call.scale, SLOPE=mods.slope,
        FULL=has_full, **constants,
    )  # fmt: skip
    m, n, constants = call.blocks("dkdv")
    partial, full, table_steps, has_full = call.tables(sparsity and sparsity.rows)
    kernel("flex", "flex_dkdv")(
        (call.batch * call.kv_heads * -(-call.kv_len // n),), call.tiles(g, m, call.v_width),
        call.tiles(q, m, call.width), call.tiles(k, n, call.width), call.tiles(v, n, call.v_width),
        lse, delta, dk, dv, partial, full, _loads(mods, q), *call.sizes, *strides, dk.strides,
        dv.strides, lse.strides, table_steps, mods.sizes, mods.strides, call.scale,
        SLOPE=mods.slope, FULL=has_full, **constants,
    )  # fmt: skip
    return dq, dk, dv
