"""Scaled dot-product attention, (B, H, L, E), and of sequences of several lengths, (H, T, E)."""

from __future__ import annotations

from typing import Any, NamedTuple

from tritorch import _C
from tritorch.core import precision
from tritorch.core.dtype import bool_, float32
from tritorch.gpu.linalg import matmul
from tritorch.gpu.linalg.matmul import accumulator, triton_name
from tritorch.gpu.pointwise.layout import INT32_MAX, broadcast_strides, float_bits, reach
from tritorch.gpu.random.random import signed
from tritorch.gpu.tuning import measured
from tritorch.triton.kernel import kernel

Array = _C.Array
Drop = tuple[int, int, float]  # seed, offset, probability
Pass = str  # "forward", "dq" or "dkdv"


def blocks(
    width: int, itemsize: int, work: Pass, masked: bool = False, capability: int = 0
) -> tuple[int, int, int, int]:
    """BLOCK_M, BLOCK_N, warps and stages for heads of a width (a power of two).

    capability: of the copy engine, 0 without.  What tests/cuda/test_compile.py compiles for real
    targets without spilling registers.
    """
    size = min(max(width, 64), 256)
    if itemsize == 2 and capability and not masked:
        return (_BLACKWELL if capability >= 100 else _HOPPER)[work][size]
    if itemsize == 2:
        return (_MASKED if masked else _POINTERS)[work][size]
    if itemsize == 4 and width <= 64:
        return (16, 32, 4, 2) if work != "forward" else (32, 32, 4, 2)
    return (32, 16, 4, 1) if width <= 128 and work == "forward" else (16, 16, 4, 1)


# By the copy engine; through pointers (in the 99 KB of small cards); with a mask or dropout.
_HOPPER = {
    "forward": {64: (128, 128, 8, 3), 128: (128, 128, 8, 2), 256: (128, 64, 8, 2)},
    "dq": {64: (128, 64, 8, 3), 128: (128, 64, 8, 2), 256: (64, 32, 8, 2)},
    "dkdv": {64: (64, 128, 8, 3), 128: (64, 128, 8, 2), 256: (16, 64, 8, 2)},
}
_BLACKWELL = _HOPPER | {
    "dkdv": {64: (64, 128, 8, 2), 128: (64, 64, 8, 2), 256: (16, 32, 8, 2)},
}
_POINTERS = {
    "forward": {64: (128, 64, 8, 3), 128: (128, 64, 8, 3), 256: (64, 32, 8, 2)},
    "dq": {64: (64, 64, 4, 2), 128: (64, 64, 8, 2), 256: (64, 16, 8, 2)},
    "dkdv": {64: (64, 32, 4, 2), 128: (32, 64, 8, 2), 256: (32, 32, 8, 1)},
}
_MASKED = {
    "forward": {64: (128, 64, 8, 3), 128: (64, 64, 8, 2), 256: (64, 32, 8, 2)},
    "dq": {64: (32, 64, 8, 2), 128: (32, 32, 8, 1), 256: (32, 32, 8, 1)},
    "dkdv": {64: (32, 64, 8, 2), 128: (32, 32, 8, 1), 256: (32, 32, 8, 1)},
}


# Beside them on sm_90: what may be faster.  Of the small tiles several programs share a
# multiprocessor: some wait for loads or exponentials while others multiply.
_NEAR = {
    ("forward", 64): (
        (64, 64, 4, 2), (64, 64, 4, 3), (128, 64, 4, 3), (128, 64, 8, 3), (64, 128, 4, 2),
        (128, 128, 8, 2),
    ),
    ("forward", 128): ((64, 64, 4, 2), (64, 128, 4, 2), (128, 64, 8, 2), (128, 64, 8, 3)),
    ("forward", 256): ((64, 64, 4, 2), (128, 32, 8, 3)),
    ("dq", 64): ((64, 64, 4, 2), (64, 64, 4, 3), (128, 64, 8, 2), (128, 128, 8, 2)),
    ("dq", 128): ((64, 64, 4, 2), (128, 32, 8, 3), (64, 64, 8, 2)),
    ("dq", 256): ((64, 64, 8, 2), (128, 32, 8, 2)),
    ("dkdv", 64): ((64, 64, 4, 2), (64, 64, 4, 3), (64, 64, 8, 3), (64, 128, 8, 2)),
    ("dkdv", 128): ((64, 64, 8, 2), (32, 128, 8, 2), (32, 128, 8, 3)),
    ("dkdv", 256): (),  # they spill
}  # fmt: skip


class Blocks(NamedTuple):
    """A tile of scores, and how a program runs."""

    block_m: int
    block_n: int
    warps: int
    stages: int


def near_blocks(
    width: int, work: Pass, bounded: bool, length: int, filled: bool, processors: int,
    capability: int,
) -> list[Blocks]:  # fmt: skip
    """Tiles worth timing."""
    size = min(max(width, 64), 256)
    near = _NEAR[work, size] if capability == 90 else ()
    return [Blocks(*each) for each in (blocks(width, 2, work, False, capability), *near)]


@measured("attention", Blocks, near_blocks)
def engine_blocks(
    width: int, work: Pass, bounded: bool, length: int, filled: bool, processors: int,
    capability: int,
) -> Blocks:  # fmt: skip
    """The tile of heads that the copy engine brings, by what was measured.

    bounded: whether rows see a part of the keys; length: of the keys, the next power of two;
    filled: whether there are two programs of 128 rows for each multiprocessor.
    """
    return Blocks(*blocks(width, 2, work, False, capability))


class Window(NamedTuple):
    """Which keys a row sees: those from `behind` before it to `ahead` after it (None: no bound);
    bottom: counted from the ends of both sequences."""

    behind: int | None = None
    ahead: int | None = None
    bottom: bool = False


CAUSAL, ALL = Window(ahead=0), Window()


def _power(n: int) -> int:
    return max(1 << (n - 1).bit_length(), 16)


def _for_engine(*arrays: Array) -> bool:
    """Whether the copy engine can bring blocks of all of them."""
    if arrays[0].itemsize != 2 or not matmul.has_engine(arrays[0].device_index):
        return False
    for x in arrays:
        *outer, last = x.strides
        if last != 1 or x.data_ptr() % 16:
            return False
        for n, stride in zip(x.shape, outer):
            if n > 1 and (stride <= 0 or stride % 8):
                return False
    return True


def like(x: Array, shape: tuple[int, ...]) -> Array:
    """A new array whose heads and places are in memory as x's are, with dense elements."""
    if x.ndim == 4 and x.strides[1] < x.strides[2] and x.shape[1] > 1:
        batch, heads, length, width = shape
        return _C.empty((batch, length, heads, width), x.dtype, x.device_index).transpose(1, 2)
    return _C.empty(shape, x.dtype, x.device_index)


class _Call:
    """What the launches of one call share."""

    def __init__(
        self, q: Array, k: Array, v: Array, mask: Array | None, window: Window, scale: float,
        drop: Drop | None, starts: tuple[Array, Array, int, int] | None, more: tuple[Array, ...],
    ) -> None:  # fmt: skip
        """starts: where sequences begin in q and in k, and their largest lengths.  more: arrays
        that the backward pass reads too."""
        batch, heads, q_len, width = q.shape
        kv_heads, kv_len, v_width = k.shape[1], k.shape[2], v.shape[3]
        self.sequences = batch
        self.starts = (q, q) if starts is None else starts[:2]
        if starts is not None:
            self.sequences, (q_len, kv_len) = starts[0].shape[0] - 1, starts[2:]
        shape = (batch, heads, q_len, kv_len)
        mask_strides: tuple[int, ...] = (0, 0, 0, 0)
        if mask is not None:
            mask_strides = broadcast_strides(mask.shape, mask.strides, shape)
        self.mask = q if mask is None else mask
        arrays = [q, k, v, self.mask, *more]
        wide = max(reach(a.shape, a.strides) for a in arrays) > INT32_MAX
        self.engine = starts is None and _for_engine(q, k, v, *more)
        self.capability, processors = matmul.machine(q.device_index) if self.engine else (0, 0)
        bounded = window.ahead is not None or window.behind is not None
        filled = batch * heads * q_len >= 256 * processors
        self.kind = bounded, _power(kv_len), filled, processors, self.capability
        self.width, self.v_width = _power(width), _power(v_width)
        self.q_len, self.kv_len, self.heads, self.kv_heads = q_len, kv_len, heads, kv_heads
        self.sizes = (heads, heads // max(kv_heads, 1), q_len, kv_len, width, v_width)
        seed, offset, p = drop or (0, 0, 0.0)
        self.rest = (
            mask_strides, float_bits(scale), window.ahead or 0, window.behind or 0, signed(seed),
            offset, float_bits(p),
        )  # fmt: skip
        kind = "none" if mask is None else "bool" if mask.dtype is bool_ else "add"
        self.fold = scale > 0 and kind != "add"
        self.itemsize, self.masked = q.itemsize, mask is not None or drop is not None
        self.constants = {
            "MASK": kind, "AHEAD": window.ahead is not None, "BEHIND": window.behind is not None,
            "BOTTOM": window.bottom, "DROP": drop is not None,
            "COMPUTE": triton_name(accumulator(q.dtype)),
            "PRECISION": precision.matmul if q.dtype is float32 else "ieee",
            "ENGINE": self.engine, "VARLEN": starts is not None, "WIDE": wide,
            "BLOCK_E": self.width, "BLOCK_V": self.v_width,
        }  # fmt: skip

    def blocks(self, work: Pass) -> tuple[int, int, dict[str, Any]]:
        """BLOCK_M, BLOCK_N and all constants of one kernel."""
        width = max(self.width, self.v_width)
        if self.engine and not self.masked:
            m, n, warps, stages = engine_blocks(width, work, *self.kind)
        else:
            m, n, warps, stages = blocks(width, self.itemsize, work, self.masked, self.capability)
        launch = {"BLOCK_M": m, "BLOCK_N": n, "num_warps": warps, "num_stages": stages}
        return m, n, self.constants | launch

    def tiles(self, x: Array, block: int, width: int) -> Any:
        """x as the kernels take it."""
        return _C.Descriptor(x, (1, 1, block, width)) if self.engine else x


def attention(
    q: Array, k: Array, v: Array, mask: Array | None, causal: bool, scale: float,
    seed: int = 0, offset: int = 0, p: float = 0.0,
) -> tuple[Array, Array]:  # fmt: skip
    """softmax(q k^T scale + mask) v, and the log of each row's sum."""
    batch, heads, q_len, _ = q.shape
    out = like(q, (batch, heads, q_len, v.shape[3]))
    lse = _C.empty((batch, heads, q_len), accumulator(q.dtype), q.device_index)
    drop = (seed, offset, p) if p else None
    _forward(q, k, v, mask, CAUSAL if causal else ALL, scale, drop, None, out, lse)
    return out, lse


def _forward(
    q: Array, k: Array, v: Array, mask: Array | None, window: Window, scale: float,
    drop: Drop | None, starts: tuple[Array, Array, int, int] | None, out: Array, lse: Array,
) -> None:  # fmt: skip
    if lse.numel() == 0:
        return
    call = _Call(q, k, v, mask, window, scale, drop, starts, ())
    m, n, constants = call.blocks("forward")
    kernel("attention", "attention")(
        (call.sequences * call.heads * -(-call.q_len // m),), call.tiles(q, m, call.width),
        call.tiles(k, n, call.width), call.tiles(v, n, call.v_width), call.mask, out, lse,
        *call.starts, *call.sizes, q.strides, k.strides, v.strides, out.strides, lse.strides,
        *call.rest, FOLD=call.fold, **constants,
    )  # fmt: skip


def attention_backward(
    g: Array, q: Array, k: Array, v: Array, mask: Array | None, out: Array, lse: Array,
    causal: bool, scale: float, seed: int = 0, offset: int = 0, p: float = 0.0,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """The gradients of q, k and v."""
    drop = (seed, offset, p) if p else None
    return _backward(g, q, k, v, mask, out, lse, CAUSAL if causal else ALL, scale, drop, None)


def _backward(
    g: Array, q: Array, k: Array, v: Array, mask: Array | None, out: Array, lse: Array,
    window: Window, scale: float, drop: Drop | None, starts: tuple[Array, Array, int, int] | None,
) -> tuple[Array, Array, Array]:  # fmt: skip
    dq, dk, dv = (like(x, tuple(x.shape)) for x in (q, k, v))
    if lse.numel() == 0 or k.shape[2] == 0:
        return dq.zero_(), dk.zero_(), dv.zero_()
    lse = lse.contiguous()
    delta = _C.empty(lse.shape, lse.dtype, q.device_index)
    call = _Call(q, k, v, mask, window, scale, drop, starts, (g,))
    call.constants["WIDE"] |= reach(out.shape, out.strides) > INT32_MAX
    strides = (g.strides, q.strides, k.strides, v.strides)
    m, n, constants = call.blocks("dq")
    kernel("attention", "attention_dq")(
        (call.sequences * call.heads * -(-call.q_len // m),), call.tiles(g, m, call.v_width),
        call.tiles(q, m, call.width), call.tiles(k, n, call.width), call.tiles(v, n, call.v_width),
        out, call.mask, lse, delta, dq, *call.starts, *call.sizes, *strides, out.strides,
        dq.strides, lse.strides, *call.rest, **constants,
    )  # fmt: skip
    m, n, constants = call.blocks("dkdv")
    kernel("attention", "attention_dkdv")(
        (call.sequences * call.kv_heads * -(-call.kv_len // n),), call.tiles(g, m, call.v_width),
        call.tiles(q, m, call.width), call.tiles(k, n, call.width), call.tiles(v, n, call.v_width),
        call.mask, lse, delta, dk, dv, *call.starts, *call.sizes, *strides, dk.strides,
        dv.strides, lse.strides, *call.rest, **constants,
    )  # fmt: skip
    return dq, dk, dv


def dropout_mask(shape: tuple[int, ...], drop: Drop, device: int) -> Array:
    """Which weights a call with this drop keeps, (B, H, L, S)."""
    n_keys = shape[-1]
    out = _C.empty(shape, bool_, device)
    n_rows = out.numel() // max(n_keys, 1)
    seed, offset, p = drop
    if out.numel():
        kernel("attention", "dropout_mask")(
            (-(-n_rows // 16), -(-n_keys // 64)), out, n_rows, n_keys, signed(seed), offset,
            float_bits(p), BLOCK_M=16, BLOCK_N=64, num_warps=4,
        )  # fmt: skip
    return out


# ---- several lengths -----------------------------------------------------------------------------


def varlen(
    q: Array, k: Array, v: Array, q_starts: Array, k_starts: Array, longest: tuple[int, int],
    window: tuple[int, int], scale: float,
) -> tuple[Array, Array]:  # fmt: skip
    """Attention of sequences that lie one after the other, (T, H, E); and lse, (H, T)."""
    q, k, v = (_as_batch(x) for x in (q, k, v))
    out = like(q, (*q.shape[:3], v.shape[3]))
    lse = _C.empty(q.shape[:3], accumulator(q.dtype), q.device_index)
    starts = (q_starts, k_starts, *longest)
    _forward(q, k, v, None, _window(window), scale, None, starts, out, lse)
    return out[0].transpose(0, 1), lse[0]


def varlen_backward(
    g: Array, q: Array, k: Array, v: Array, q_starts: Array, k_starts: Array, out: Array,
    lse: Array, longest: tuple[int, int], window: tuple[int, int], scale: float,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """The gradients of q, k and v."""
    g, q, k, v, out = (_as_batch(x) for x in (g, q, k, v, out))
    starts = (q_starts, k_starts, *longest)
    grads = _backward(g, q, k, v, None, out, lse.unsqueeze(0), _window(window), scale, None, starts)
    dq, dk, dv = (x[0].transpose(0, 1) for x in grads)
    return dq, dk, dv


def _as_batch(x: Array) -> Array:
    return x.transpose(0, 1).unsqueeze(0)


def _window(window: tuple[int, int]) -> Window:
    behind, ahead = (None if n < 0 else n for n in window)
    return Window(behind, ahead, bottom=True)
