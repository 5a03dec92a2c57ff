"""How a matrix product is cut into tiles: pure functions of its sizes and the device.

# Note [Choosing tiles]
What was not measured (Note [Measured plans] in tuning.py) gets the candidate that a small model
takes for the fastest: tiles go round the multiprocessors in waves; a step along the inner dim
takes as long as its arithmetic or its loads, and a tile some time to be stored.  Splitting the
inner dim costs a sum over the parts.  Nothing is timed while a program runs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tritorch.gpu.tuning import measured

_CYCLE_FLOPS = {1: 8192, 2: 4096, 4: 2048}  # of one multiprocessor's tensor cores, by item size
_CYCLE_BYTES = 48  # from the second-level cache to one multiprocessor
_BEGIN = 800  # cycles until the first operands are there
_STORED = 64  # elements of a tile stored a cycle, beside the next one's loads
_SUM = 4000  # cycles of one more launch
_STEPS = 4  # of the inner dim, at least, in a part


class Plan(NamedTuple):
    """A cut: tiles, parts of the inner dim, and how a program runs."""

    block_m: int
    block_n: int
    block_k: int
    warps: int
    stages: int
    splits: int = 1
    group: int = 8

    def inner_per_split(self, k: int) -> int:
        """The length of a part of the inner dim, a multiple of block_k."""
        steps = -(-k // self.block_k)
        return -(-steps // self.splits) * self.block_k

    def tiles(self, m: int, n: int, batch: int) -> int:
        """How many tiles all results have."""
        return batch * -(-m // self.block_m) * -(-n // self.block_n)


# BLOCK_M, BLOCK_N, warps, and stages for 128 bytes of the inner dim: what fits the shared memory of
# sm_90 and sm_100 and spills nothing (tests/cuda/variants/matmul.py compiles each).
TMA_TILES = (
    (128, 256, 8, 3),
    (256, 128, 8, 3),
    (128, 128, 8, 4),
    (64, 256, 4, 4),
    (128, 64, 4, 5),
    (64, 128, 4, 5),
    (64, 64, 4, 6),
    (64, 32, 4, 6),
    (64, 16, 4, 6),
)


def candidates(itemsize: int, small: bool = False) -> list[Plan]:
    """All cuts without splits for operands that the copy engine brings.

    small: half the tile fits registers, beside a second accumulator of float8's products, or what
    sums of columns are computed of.
    """
    most = 128 * 128 if small else 256 * 256
    return [
        Plan(m, n, 128 // itemsize, warps, stages)
        for m, n, warps, stages in TMA_TILES
        if m * n <= most and (not small or m * n // warps <= 2048)
    ]


def cycles(plan: Plan, m: int, n: int, k: int, batch: int, itemsize: int, processors: int) -> float:
    """What the model takes a product to cost."""
    steps = plan.inner_per_split(k) // plan.block_k
    area = plan.block_m * plan.block_n
    arithmetic = 2 * area * plan.block_k / _CYCLE_FLOPS[itemsize]
    edges = min(plan.block_m, m) + min(plan.block_n, n)
    loads = edges * plan.block_k * itemsize / _CYCLE_BYTES
    waves = -(-plan.tiles(m, n, batch) * plan.splits // processors)
    total = _BEGIN + waves * (steps * max(arithmetic, loads) + area / _STORED)
    if plan.splits > 1:
        moved = (plan.splits + 1) * batch * m * n * 4
        total += _SUM + moved / (processors * _CYCLE_BYTES / 2)
    return total


def cuts(
    m: int, n: int, k: int, batch: int, itemsize: int, processors: int, small: bool = False,
    capability: int = 0,
) -> list[Plan]:  # fmt: skip
    """All cuts of a product whose operands the copy engine brings, the model's best first."""
    every = [
        plan._replace(splits=splits)
        for plan in candidates(itemsize, small)
        for splits in (1, 2, 3, 4, 6, 8, 12, 16)
        if splits == 1 or -(-k // plan.block_k) // splits >= _STEPS
    ]
    every.sort(key=lambda cut: cycles(cut, m, n, k, batch, itemsize, processors))
    # Parts are of equal length: there may be fewer than asked for.
    even = [cut._replace(splits=max(-(-k // cut.inner_per_split(k)), 1)) for cut in every]
    return list(dict.fromkeys(even))


def near(*sizes: Any) -> list[Plan]:
    """Cuts worth timing: the model's best, and those with groups of half as many rows of tiles."""
    found = cuts(*sizes)
    halves = [cut._replace(group=4) for cut in found[:3]]
    return [*found[:4], *halves, *found[4:]]


@measured("matmul", Plan, near)
def choose(
    m: int, n: int, k: int, batch: int, itemsize: int, processors: int, small: bool = False,
    capability: int = 0,
) -> Plan:  # fmt: skip
    """The cut of a product whose operands the copy engine brings.  See Note [Choosing tiles]."""
    return cuts(m, n, k, batch, itemsize, processors, small)[0]


def simple_tile(
    m: int, n: int, itemsize: int, fast: bool, is_complex: bool = False, processors: int = 128
) -> tuple[int, int, int, int, int]:
    """BLOCK_M, BLOCK_N, BLOCK_K, warps and stages of a product through pointers.

    fast: on tensor cores in 16 bits or tf32.
    """
    if is_complex:  # four products at a time
        return 32 if m > 16 else 16, 32 if n > 16 else 16, 16, 4, 2
    if not fast:  # registers hold the operands too
        block_m = 64 if m > 32 else 32 if m > 16 else 16
        block_n = 64 if n > 32 else 32 if n > 16 else 16
        return block_m, block_n, 16, 4, 2
    block_m = 128 if m > 64 else 64 if m > 32 else 32 if m > 16 else 16
    block_n = 128 if n > 64 else 64 if n > 32 else 32 if n > 16 else 16
    if block_m == block_n == 128 and -(-m // 128) * -(-n // 128) < processors:
        block_m = 64  # smaller tiles fill the device before the inner dim is split
    block_k = 128 // itemsize if itemsize > 1 else 64
    warps = 8 if block_m * block_n >= 128 * 128 else 4
    return block_m, block_n, block_k, warps, 4 if itemsize <= 2 else 3


def split(programs: int, k: int, block_k: int, processors: int = 128) -> tuple[int, int]:
    """How many parts of the inner dim, and how long each is (a multiple of block_k)."""
    steps = -(-k // block_k)
    wanted = min(max(processors // max(programs, 1), 1), steps // 8, 32)
    if wanted < 2:
        return 1, max(steps, 1) * block_k
    per = -(-steps // wanted)
    return -(-steps // per), per * block_k
