"""What a pass begins with, how gradients are added up, and how they arrive at leaves."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.arrays import arrays
from tritorch.arrays.nested import NestedArray
from tritorch.arrays.sparse import SparseArray
from tritorch.autograd import grad_mode
from tritorch.core import locks, profiling, published
from tritorch.core.dispatching import asked, watching
from tritorch.core.layout import contiguous_strides, dense_strides_like
from tritorch.core.profiling import events
from tritorch.core.tensor import Tensor

accumulating = locks.rlock()

add_into = _C.Quiet(np.add)


def sum_of(a: Tensor, b: Tensor) -> Tensor:
    """a + b; only a dense tensor can be added to."""
    swap = type(a._array) is SparseArray and type(b._array) is not SparseArray
    return b + a if swap else a + b


def fit(g: Tensor, shape: Any, dtype: Any) -> Tensor:
    """A gradient in the shape and dtype of what it is the gradient of."""
    if tuple(g._array.shape) != tuple(shape):
        if not _expandable(shape, g._array.shape):
            raise UnfitError(
                f"got {list(g.shape)} but expected shape compatible with {list(shape)}"
            )
        g = g.sum_to_size(shape)
    if g._array.dtype is not dtype and g._array.dtype != dtype:
        kind = arrays.dtype_of(_Typed(dtype))
        if g.is_complex() and not kind.is_complex:
            g = g.real
        g = g.to(kind)
    return g


class UnfitError(RuntimeError):
    """A gradient has not the shape of what it is the gradient of."""


class _Typed:
    """Something with a dtype."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype


def _expandable(shape: Sequence[int], wider: Sequence[int]) -> bool:
    return len(shape) <= len(wider) and all(
        a == b or a == 1 for a, b in zip(reversed(shape), reversed(wider))
    )


def ones_like(tensor: Tensor) -> Tensor:
    if not events.enabled():
        return _planned_ones_like(tensor)
    event = events.begin(profiling.OP, "aten::ones_like", -1, (tensor,))
    made = _planned_ones_like(tensor)
    events.end(event, made)
    return made


def _made_ones_like(tensor: Tensor) -> Tensor:
    if (watching or type(tensor) is not Tensor) and asked(tensor):
        return published.public.ones_like(tensor.detach())
    array = tensor._array
    if type(array) is np.ndarray:
        return _C.wrap(np.ones(array.shape, array.dtype))
    return _C.wrap(arrays.full(array.shape, 1, arrays.dtype_of(array), arrays.device_of(array)))


_planned_ones_like = _C.Planned(_made_ones_like)


def run_tensor_hooks(hooks: Any, g: Tensor) -> Tensor:
    """Each hook sees a gradient and may replace it."""
    for hook in list(hooks.values()):
        replaced = hook(g)
        if replaced is not None:
            if not isinstance(replaced, Tensor):
                raise TypeError(f"expected Variable, but hook returned '{type(replaced).__name__}'")
            if g is not None and replaced.shape != g.shape:
                raise RuntimeError(
                    f"hook '{getattr(hook, '__name__', hook)}' has changed the size of value"
                )
            g = replaced
    return g


def arrive_profiled(leaf: Tensor, g: Tensor, create_graph: bool) -> None:
    """The same as events of a profile."""
    name = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
    whole = events.begin(profiling.OP, name)
    own = events.begin(profiling.NODE, "torch::autograd::AccumulateGrad", -1, (g,))
    if g._array.shape != leaf._array.shape or g._array.dtype is not leaf._array.dtype:
        g = fit(g, leaf._array.shape, leaf._array.dtype)
    have = leaf._grad
    inputs = (g,) if have is None else (have, g)
    how = events.begin(profiling.OP, "aten::add_", -1, inputs)
    array, held = id(g._array), [g]
    del g, inputs  # it is held by nobody here: `_own` counts
    arrive(leaf, held.pop(), create_graph)
    if have is None:
        taken = leaf._grad is not None and id(leaf._grad._array) == array
        events.rename(how, "aten::detach" if taken else "aten::clone")
    elif leaf._grad is not have:
        events.rename(how, "aten::add")
    events.end(how, leaf._grad)
    profiling.mark(leaf._grad, profiling.GRADIENT)
    events.end(own)
    events.end(whole)


def arrive(leaf: Tensor, g: Tensor, create_graph: bool) -> None:
    own = leaf._array  # g's is held by nobody here: `_own` counts
    if g._array.shape != own.shape or g._array.dtype is not own.dtype:
        g = fit(g, own.shape, own.dtype)
    hooks = leaf._hooks
    if hooks is None:
        _accumulate(leaf, g, create_graph)
        return
    accumulate_with_hooks(leaf, run_tensor_hooks(hooks.tensor, g), create_graph)


def accumulate_with_hooks(leaf: Tensor, g: Tensor, create_graph: bool) -> None:
    hooks = leaf._hooks
    if hooks is None:
        _accumulate(leaf, g, create_graph)
        return
    for hook in list(hooks.pre.values()):
        replaced = hook((g,))
        if replaced is not None:
            g = replaced[0] if isinstance(replaced, tuple) else replaced
    _accumulate(leaf, g, create_graph)
    for hook in list(hooks.accumulated.values()):
        if hook(leaf) is not None:
            raise RuntimeError("Tensor post accumulate grad hooks should return None.")
    for hook in list(hooks.post.values()):
        hook((), (g,))


def _accumulate(leaf: Tensor, g: Tensor, create_graph: bool) -> None:
    """leaf.grad += g.  A first gradient is taken over when nobody else can see its memory."""
    with accumulating:
        have = leaf._grad
        if create_graph:
            leaf._grad = _copied(g, leaf) if have is None else sum_of(have, g)
        elif have is None:
            leaf._grad = _own(g, leaf)
        elif have._raw_node is not None:  # from a pass that created a graph
            leaf._grad = sum_of(_C.wrap(have._array), g)
        else:
            mine, new = have._array, g._array
            native = type(mine) is np.ndarray and type(new) is np.ndarray
            if native and mine.dtype is new.dtype and not (watching and asked(have)):
                add_into(mine, new, mine)
                _C.bump_version(have)
            elif type(mine) is SparseArray and type(new) is not SparseArray:
                leaf._grad = g + have
            else:
                have.add_(g)


def _copied(g: Tensor, leaf: Tensor) -> Tensor:
    """A first gradient that is part of a graph: a copy of it, laid out like the leaf."""
    if type(g._array) in (SparseArray, NestedArray) or type(leaf._array) is SparseArray:
        return g.clone()
    return g.new_empty_strided(leaf.shape, _wanted_strides(leaf._array)).copy_(g)


def _own(g: Tensor, leaf: Tensor) -> Tensor:
    """A gradient that shares no memory with anything else, laid out like the leaf."""
    if (watching or type(g) is not Tensor) and asked(g):
        return g.detach()
    array, like = g._array, leaf._array
    native = type(array) is np.ndarray
    if type(array) in (SparseArray, NestedArray):  # places are never written
        return _C.wrap(array.with_values(array.values.clone()))
    if type(like) is SparseArray:
        return _C.wrap(arrays.contiguous_copy(array))
    # References to an array that only this tensor holds: the tensor, `array`, the argument.
    alone = sys.getrefcount(array) <= 3 and sys.getrefcount(g) <= 6
    alone = alone and (_has_own_memory(array) if native else g._base is None)
    if array.strides != like.strides or not arrays.is_contiguous(like):
        strides, wanted = arrays.strides_of(array), _wanted_strides(like)
        if grad_mode.layout_enforced() and not _obeys(like.shape, strides, wanted):
            out = arrays.empty_strided(like.shape, wanted, g.dtype, g.device)
            if native:
                out[...] = array
            else:
                out.copy_(array)
            return _C.wrap(out)
        alone = alone and strides == dense_strides_like(like.shape, strides)
    if alone:
        return g if g._raw_node is None else _C.alias(g)
    return _C.wrap(arrays.copy(array))


def _has_own_memory(array: Any) -> bool:
    """Whether an ndarray has its memory to itself: it is no view, or the only one of all of it."""
    base = array.base
    if base is None:
        return True
    # References: the array's, `base`, the argument.
    whole = type(base) is np.ndarray and base.base is None and base.size == array.size
    return whole and sys.getrefcount(base) <= 3


def _wanted_strides(like: Any) -> tuple[int, ...]:
    """The strides of a leaf's gradient: the leaf's if it is dense without overlap, else the usual
    ones."""
    strides = arrays.strides_of(like)
    dense = dense_strides_like(like.shape, strides)
    return dense if dense == strides else contiguous_strides(like.shape)


def _obeys(shape: tuple[int, ...], strides: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether strides will do for others: those of dims of size one may differ, but be 0."""
    return all(s == w if n != 1 else s != 0 for n, s, w in zip(shape, strides, wanted))
