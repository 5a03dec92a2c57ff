"""How convolutions are cut into tiles: pure functions of their sizes and the device."""

from __future__ import annotations

import functools
from typing import NamedTuple

from tritorch.gpu.linalg.matmul_plan import TMA_TILES, Plan, cycles
from tritorch.gpu.tuning import measured

Box = tuple[int, int, int]

_STATISTICS_COLS = 128  # of a tile whose epilogue also takes statistics: registers
_WEIGHT_TILES = ((128, 128, 8, 4), (128, 64, 4, 5), (64, 128, 4, 5), (64, 64, 4, 6), (64, 32, 4, 6))
_WEIGHT_PIXELS = 64  # of a step


@functools.lru_cache(4096)
def box_of(pixels: int, n: int, h: int, w: int, divides: bool = False) -> Box:
    """The box of so many pixels (a power of 2), images x rows x columns, that wastes the least.

    Of boxes that waste the same, the most compact one: its taps see much the same pixels.
    divides: the images of a box divide n.
    """
    sides = [1 << i for i in range(pixels.bit_length())]
    boxes = [
        (pixels // (down * across), down, across)
        for down in sides
        for across in sides
        if pixels % (down * across) == 0
    ]
    if divides:
        boxes = [box for box in boxes if n % box[0] == 0] or boxes
    seen = lambda box: (box[1] + 2) * (box[2] + 2) / (box[1] * box[2])
    return min(boxes, key=lambda box: (count_boxes(box, n, h, w), seen(box), box[1]))


def count_boxes(box: Box, n: int, h: int, w: int) -> int:
    """How many boxes cover so many images."""
    return -(-n // box[0]) * -(-h // box[1]) * -(-w // box[2])


def depth_of(channels: int, itemsize: int) -> int:
    """How many channels of one tap a step takes: up to 128 bytes, of little padding."""
    widest = 128 // itemsize
    candidates = [size for size in (widest, widest // 2, widest // 4) if size * itemsize >= 32]
    return min(candidates, key=lambda size: (-(-channels // size) * size, -size))


class ConvPlan(NamedTuple):
    """A cut: the pixels of a tile, and the rest as of a product."""

    box: Box
    block_n: int
    block_k: int
    warps: int
    stages: int
    splits: int
    group: int
    tiles: int  # of all phases and groups, without splits


def cuts(
    grid: tuple[int, ...], n_out: int, n_in: int, taps: int, copies: int, itemsize: int,
    processors: int, exact: int = 0, statistics: bool = False, transposed: bool = False,
    capability: int = 0,
) -> list[ConvPlan]:  # fmt: skip
    """All cuts of a convolution whose boxes the copy engine brings, the model's best first."""
    block_k = depth_of(n_in, itemsize)
    k = taps * -(-n_in // block_k) * block_k
    found: list[tuple[float, ConvPlan]] = []
    for block_m, block_n, warps, stages in TMA_TILES:
        if (exact and exact % block_n) or (statistics and block_n > _STATISTICS_COLS):
            continue
        for splits in (1, 2, 3, 4, 6, 8, 12, 16):
            steps = -(-k // block_k)
            if splits > 1 and (statistics or steps // splits < 4):
                break
            box = box_of(block_m, *grid, splits > 1)
            if splits > 1 and grid[0] % box[0]:
                break
            rows = count_boxes(box, *grid) * block_m
            plan = Plan(block_m, block_n, block_k, warps, stages, splits)
            cost = cycles(plan, rows, n_out, k, copies, itemsize, processors)
            per = -(-steps // splits)
            found.append((cost, ConvPlan(
                box, block_n, block_k, warps, stages, -(-steps // per), 8,
                plan.tiles(rows, n_out, copies),
            )))  # fmt: skip
    found.sort(key=lambda each: each[0])
    return list(dict.fromkeys(plan for _, plan in found))


@measured("conv", ConvPlan, cuts)
def choose(
    grid: tuple[int, ...], n_out: int, n_in: int, taps: int, copies: int, itemsize: int,
    processors: int, exact: int = 0, statistics: bool = False, transposed: bool = False,
    capability: int = 0,
) -> ConvPlan:  # fmt: skip
    """The cut of a convolution whose boxes the copy engine brings.

    grid: images and pixels of a phase; taps: of a phase, on average; copies: phases x groups.
    exact: so many channels of the output must be whole tiles (0: any).  transposed, capability:
    of what was measured.  See Note [Choosing tiles].
    """
    found = cuts(grid, n_out, n_in, taps, copies, itemsize, processors, exact, statistics)
    if not found:
        raise ValueError(f"no tile has a divisor of {exact} channels")
    return found[0]


class WeightPlan(NamedTuple):
    """A cut of a weight's gradient: the pixels of a step, and tiles of (out, in) of one tap."""

    box: Box
    block_out: int
    block_in: int
    warps: int
    stages: int
    splits: int
    tiles: int


def weight_cuts(
    grid: tuple[int, ...], n_out: int, n_in: int, taps: int, groups: int, itemsize: int,
    processors: int, exact: int = 0, capability: int = 0,
) -> list[WeightPlan]:  # fmt: skip
    """All cuts of the gradient of a weight, the model's best first."""
    pixels = _WEIGHT_PIXELS * 2 // itemsize
    box = box_of(pixels, *grid)
    steps = count_boxes(box, *grid)
    copies = taps * groups
    found: list[tuple[float, WeightPlan]] = []
    for block_m, block_n, warps, stages in _WEIGHT_TILES:
        if exact and exact % block_n:
            continue
        tiles = Plan(block_m, block_n, pixels, warps, stages).tiles(n_out, n_in, copies)
        for waves in (1, 2, 3, 4):  # parts that fill whole waves
            splits = max(min(waves * processors // tiles, steps // 8, 256), 1)
            splits = -(-steps // -(-steps // splits))
            plan = Plan(block_m, block_n, pixels, warps, stages, splits)
            k = steps * pixels
            cost = cycles(plan, n_out, n_in, k, copies, itemsize, processors)
            found.append((cost, WeightPlan(box, block_m, block_n, warps, stages, splits, tiles)))
    found.sort(key=lambda each: each[0])
    return list(dict.fromkeys(plan for _, plan in found))


@measured("conv_weight", WeightPlan, weight_cuts)
def choose_weight(
    grid: tuple[int, ...], n_out: int, n_in: int, taps: int, groups: int, itemsize: int,
    processors: int, exact: int = 0, capability: int = 0,
) -> WeightPlan:  # fmt: skip
    """The cut of the gradient of a weight (n_out, n_in, taps) of some groups.

    exact: tiles must not go past so many channels of the input (0: they may).
    """
    found = weight_cuts(grid, n_out, n_in, taps, groups, itemsize, processors, exact)
    if not found:
        raise ValueError(f"no tile has a divisor of {exact} channels")
    return found[0]


def worth_turning(n_in: int, n_out: int, taps: int, shrunk: int) -> bool:
    """Whether images whose columns are dense are better copied to channels last, and back.

    shrunk: pixels of the input for each of the output.  Shifted columns come an element at a time,
    some four of them in the time in which one is copied.
    """
    reads = taps * n_in * -(-n_out // 128)
    return taps > 1 and reads > 4 * (n_in * shrunk + n_out)
