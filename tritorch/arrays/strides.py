"""Where results lie, by shapes and strides alone: the rules of PyTorch's TensorIterator in Python.

`src/array/order.cpp` has the same rules for arrays with memory; `tests/core/test_strides.py` holds
both equal.  These also take sizes that are symbols.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence

from tritorch.arrays.sym_functions import sym_max
from tritorch.arrays.symbolic import SymInt, known

Shape = tuple[int, ...]
Lie = tuple[Shape, Shape]  # an operand's shape and strides


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements; sizes of 0 count as 1, as in PyTorch."""
    strides = itertools.accumulate(
        (sym_max(n, 1) if type(n) is SymInt else max(n, 1) for n in shape[:0:-1]),
        initial=1,
        func=_mul,
    )
    return tuple(strides)[::-1] if shape else ()


def _mul(a: int, b: int) -> int:
    return a * b


def result_strides(shape: Shape, operands: Sequence[Lie], numbers: bool = False) -> Shape:
    """The strides of what an elementwise operator makes of operands.

    numbers: there are operands without dims too."""
    ndim = len(shape)
    if not operands:
        return contiguous_strides(shape)
    if (not numbers or ndim == 0) and all(
        len(sizes) == ndim and sizes == shape for sizes, _ in operands
    ):
        rows = tuple(range(ndim))[::-1]
        if 0 in shape or all(_lies_in(shape, strides, rows) for _, strides in operands):
            return contiguous_strides(shape)
        if ndim == 4 and all(_lies_in(shape, strides, _LAST[4]) for _, strides in operands):
            return _strides_in(_LAST[4], shape)
        first = operands[0][1]
        if all(strides == first for _, strides in operands) and is_dense(shape, first):
            return first
    lists = []
    for sizes, strides in operands:
        lead = ndim - len(sizes)
        same = (
            step if n == shape[lead + i] else 0 for i, (n, step) in enumerate(zip(sizes, strides))
        )
        lists.append((0,) * lead + tuple(same))
    order = _sorted(shape, lists)
    return _strides_in(order, shape, 1 if order == list(range(ndim))[::-1] else 0)


def copy_strides(shape: Shape, strides: Shape) -> Shape:
    """Those of a copy: the original's where it is dense, else dense in its order of dims."""
    if is_dense(shape, strides):
        return strides
    return _strides_in(_sorted(shape, [strides]), shape)


def suggested_strides(
    shape: Shape, operands: Sequence[Lie], decide: Callable[[Iterable[bool]], bool] = all
) -> Shape:
    """Dense strides in the memory format that all operands suggest, or with `any`, one does."""
    fit = [lie for lie in operands if len(lie[0]) == len(shape)]
    if fit and decide(looks_channels_last(*lie) for lie in fit):
        return _strides_in(_LAST[len(shape)], shape, 0)
    return contiguous_strides(shape)


def column_major_strides(shape: Shape) -> Shape:
    """Those of matrices whose columns are dense."""
    strides = contiguous_strides(shape)
    if len(shape) < 2:
        return strides
    return (*strides[:-2], 1, max(shape[-2], 1))


def is_dense(shape: Shape, strides: Shape) -> bool:
    """Whether elements fill their memory without gaps or overlap, in some order of dims."""
    if 0 in shape:
        return True
    dims = [dim for dim in reversed(range(len(shape))) if shape[dim] != 1]
    return _lies_in(shape, strides, sorted(dims, key=strides.__getitem__))


def looks_channels_last(shape: Shape, strides: Shape) -> bool:
    """Whether strides are taken for channels_last, which dims of size one leave open."""
    ndim = len(shape)
    if ndim not in _LAST or strides[1] == 0:
        return False
    least = 0
    for dim in _LAST[ndim]:
        if shape[dim] == 0 or strides[dim] < least:
            return False
        if dim == 0 and least == strides[1]:
            return False
        least = strides[dim] * max(shape[dim], 1)
    return True


def view_strides(shape: Shape, strides: Shape, wanted: Shape) -> Shape | None:
    """The strides of the same memory in another shape; None where there are none."""
    if known(math.prod(shape) == 0):
        return strides if shape == wanted else contiguous_strides(wanted)
    if not shape:
        return (1,) * len(wanted)
    found = [0] * len(wanted)
    at = len(wanted) - 1
    step, count, seen = strides[-1], 1, 1
    for dim in reversed(range(len(shape))):
        count *= shape[dim]
        # A run of dims ends where the next one is not `count` such steps further apart.
        if dim == 0 or (
            not known(shape[dim - 1] == 1) and not known(strides[dim - 1] == count * step)
        ):
            while at >= 0 and (seen < count or wanted[at] == 1):
                found[at] = seen * step
                seen *= wanted[at]
                at -= 1
            if seen != count:
                return None
            if dim > 0:
                step, count, seen = strides[dim - 1], 1, 1
    return tuple(found) if at < 0 else None


def indexed_strides(shape: Shape, x: Lie, indices: Sequence[Lie | None]) -> Shape:
    """Those of x[indices]: PyTorch runs over x, in whose strides 0 stands for the indices' dims,
    and over the indices."""
    given = [i for i, each in enumerate(indices) if each is not None]
    common = len(shape) + len(given) - len(x[0])  # dims of the indices' shape
    at = given[0] if given[-1] - given[0] + 1 == len(given) else 0
    source = [step for i, step in enumerate(x[1]) if i >= len(indices) or indices[i] is None]
    source[at:at] = [0] * common
    sizes = shape[at : at + common]
    operands: list[Lie] = [(shape, tuple(source))]
    for each in indices:
        if each is None:
            continue
        own, strides = each
        lead = common - len(own)
        steps = [0] * common
        for dim in reversed(range(common)):
            inner = sizes[dim + 1] * steps[dim + 1] if dim + 1 < common and own else 0
            have = own[dim - lead] if dim >= lead else 1
            if have == sizes[dim]:
                steps[dim] = strides[dim - lead] if dim >= lead else inner
        whole = [1] * len(shape)
        whole[at : at + common] = sizes
        seen = view_strides(sizes, tuple(steps), tuple(whole))
        if seen is None:
            return contiguous_strides(shape)
        operands.append((tuple(whole), seen))
    return result_strides(shape, operands)


@functools.lru_cache(256)
def transform_order(strides: Shape, dims: Shape, last_stays: bool) -> tuple[Shape, Shape, Shape]:
    """In which order dims lie in the memory of a Fourier transform over `dims`, how they get back,
    and where `dims` went.

    As in MKL's results, the transformed dims are the innermost, the others in the input's order."""
    order = _batches(len(strides), dims)
    order.sort(key=lambda dim: -strides[dim])
    first = len(order)
    order += sorted(dims[:-1] if last_stays else dims, key=lambda dim: -strides[dim])
    order += dims[-1:] if last_stays else ()
    back = sorted(range(len(strides)), key=order.__getitem__)
    return tuple(order), tuple(back), tuple(range(first, len(strides)))


def transformed_strides(
    shape: Shape, strides: Shape, dims: Shape, last_stays: bool = True
) -> Shape:
    """Those of a result of a shape of a Fourier transform of an input with given strides."""
    order, back, _ = transform_order(strides, dims, last_stays)
    dense = contiguous_strides(tuple(shape[dim] for dim in order))
    return tuple(dense[at] for at in back)


_LAST = {4: (1, 3, 2, 0), 5: (1, 4, 3, 2, 0)}  # dims of channels_last, the innermost first


def _strides_in(order: Sequence[int], shape: Shape, least: int = 1) -> Shape:
    strides, step = [0] * len(shape), 1
    for dim in order:
        strides[dim] = step
        size = shape[dim]
        step *= max(size, least) if type(size) is int else sym_max(size, least)
    return tuple(strides)


def _lies_in(shape: Shape, strides: Shape, order: Sequence[int]) -> bool:
    step = 1
    for dim in order:
        if shape[dim] < 2:
            continue
        if strides[dim] != step:
            return False
        step *= shape[dim]
    return True


def _compare(shape: Shape, lists: Sequence[Shape], a: int, b: int) -> int:
    """-1: dim a lies inside of b; 1: the other way round; 0: nothing tells."""
    for strides in lists:
        if strides[a] == 0 or strides[b] == 0:
            continue
        if strides[a] != strides[b]:
            return -1 if strides[a] < strides[b] else 1
        if known(shape[a] > shape[b]):
            return 1
    return 0


def _sorted(shape: Shape, lists: Sequence[Shape]) -> list[int]:
    """Dims from the innermost; an insertion sort, because what `_compare` says is no order."""
    order = list(range(len(shape)))[::-1]
    for i in range(1, len(order)):
        moving = i
        for j in reversed(range(i)):
            found = _compare(shape, lists, order[j], order[moving])
            if found < 0:
                break
            if found > 0:
                order[j], order[moving] = order[moving], order[j]
                moving = j
    return order


def _batches(ndim: int, dims: Shape) -> list[int]:
    """The dims that are not transformed, in the order in which std::partition leaves them."""
    order, first, last = [*range(ndim)], 0, ndim
    while True:
        while first < last and order[first] not in dims:
            first += 1
        last -= 1
        while first < last and order[last] in dims:
            last -= 1
        if first >= last:
            return order[:first]
        order[first], order[last] = order[last], order[first]
        first += 1
