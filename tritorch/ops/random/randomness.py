"""Random numbers inside vmap: the same for all examples, different ones for each, or refused.

Each vmap around has a mode.  Numbers are drawn once for all levels that want different ones: the
batches of those are the first dims of what is drawn, outermost first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.arrays.batched import BatchedArray
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.vmap import active
from tritorch.ops.shape.copying import write_array
from tritorch.ops.shape.joining import stack

Levels = list[tuple[int, int]]  # (level, batch size), outermost first

_REFUSED = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
    "'different' randomness flags on vmap or perform the randomness operation out of vmap"
)
_UNBATCHED = (
    "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear "
    "like same randomness. If this is necessary for your usage, please file an issue with "
    "functorch."
)


def different_levels() -> Levels:
    """The vmaps that want different numbers for each example; an error if one wants none."""
    if "error" in active.modes:
        raise RuntimeError(_REFUSED)
    return [at for at, mode in zip(active.levels, active.modes) if mode == "different"]


def unwrap(array: Any) -> tuple[Any, Levels]:
    """An array with all its batches as first dims, and their levels."""
    levels: Levels = []
    while isinstance(array, BatchedArray):
        levels.insert(0, (array.level, array.array.shape[0]))
        array = array.array
    return array, levels


def wrap(array: Any, levels: Levels) -> Any:
    """The inverse of `unwrap`."""
    for level, _ in levels:
        array = BatchedArray(array, level)
    return array


def _spread(array: Any, levels: Levels, wanted: Levels, expand: bool) -> Any:
    """The raw array with a batch for each wanted level, of size 1 unless it is to be expanded."""
    own = [level for level, _ in levels]
    shape = tuple(array.shape)
    inner = shape[len(levels) :]
    sizes = [size if level in own else 1 for level, size in wanted]
    x = _C.wrap(array).reshape((*sizes, *inner))
    if expand:
        x = x.expand(*(size for _, size in wanted), *inner).contiguous()
    return x._array


def expanded(x: Tensor) -> Tensor:
    """A parameter of a distribution, with a batch for each vmap that wants different samples."""
    if not active.levels:
        return x
    different = different_levels()
    array, levels = unwrap(x._array)
    if any(at not in different for at in levels):
        raise RuntimeError(
            "Vmap does not currently support same randomness with a batched tensor input"
        )
    if levels == different:
        return x
    return _C.wrap(wrap(_spread(array, levels, different, True), different))


def drawn(draw: Callable[[Any], Any], shape: Any) -> Any:
    """draw(shape); shape: sizes, or how many numbers a permutation has."""
    levels = different_levels()
    sizes = tuple(size for _, size in levels)
    if isinstance(shape, tuple):
        return wrap(draw((*sizes, *shape)), levels)
    if not levels:
        return draw(shape)
    each = [_C.wrap(draw(shape)) for _ in range(int(np.prod(sizes)))]
    return wrap(stack(each).reshape((*sizes, shape))._array, levels)


def drawn_for(draw: Callable[[Any], Any], parameter: Any, core: int | None = None) -> Any:
    """draw(parameter); core: how many of the last dims it may have (None: any)."""
    array, levels = unwrap(expanded(_C.wrap(parameter))._array)
    if core is None or not levels:
        return wrap(draw(array), levels)
    shape = tuple(array.shape)
    rows = _C.wrap(array).reshape((-1, *shape[len(shape) - core + 1 :]))
    out = _C.wrap(draw(rows._array))
    kept = shape[: len(shape) - core + 1]
    return wrap(out.reshape((*kept, *out.shape[1:]))._array, levels)


def overwrite(target: Any, draw: Callable[[Any], Any], shape: Sequence[int]) -> None:
    """Numbers of a shape written into an array of that shape."""
    array, levels = unwrap(target)
    different = different_levels()
    if any(at not in levels for at in different):
        raise RuntimeError(_UNBATCHED)
    new = draw((*(size for _, size in different), *shape))
    put(array, levels, new, different)


def overwrite_with(target: Any, values: Any) -> None:
    """An array's elements written into another one, which has at least its batches."""
    array, levels = unwrap(target)
    new, different = unwrap(values)
    if any(at not in levels for at in different):
        raise RuntimeError(_UNBATCHED)
    put(array, levels, new, different)


def put(array: Any, levels: Levels, new: Any, different: Levels) -> None:
    """Writes what has some of an array's batches into it."""
    if levels != different:
        new = _spread(new, different, levels, False)
        new = _C.wrap(new).expand(*array.shape).contiguous()._array
    write_array(array, new)
