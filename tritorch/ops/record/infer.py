"""What a record's results are without data: shapes, dtypes, strides, and what they alias.

A record's `infer` is a function of the arguments of its backends, with MetaArrays in place of
arrays.  It gives the result as a MetaArray (`x.new(shape, dtype)`), or a tuple of them; a view
gives a view of its input.  Kinds derive it; where results lie in memory follows from the record's
layout, if it has one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from tritorch.arrays import strides as rules
from tritorch.arrays.meta import MetaArray, UnknownSize, mode_of
from tritorch.core.dtype import dtype, float32, int64
from tritorch.core.scopes import Giving, Scope
from tritorch.ops.record.checks import broadcast_shapes

Shape = tuple[int, ...]


def reduced(shape: Shape, dims: Any, keepdim: bool) -> Shape:
    """A shape without the dims that a reduction takes, or with ones in their place."""
    gone = {dims} if isinstance(dims, int) else set(dims)
    if keepdim:
        return tuple(1 if dim in gone else n for dim, n in enumerate(shape))
    return tuple(n for dim, n in enumerate(shape) if dim not in gone)


def reduction(op: Any) -> Callable[..., Any]:
    """The rule of reductions: the param `kind` is the result's dtype, if the record has one."""
    along = op.params.index("dims" if "dims" in op.params else "dim")
    keep = op.params.index("keepdim")
    kind = op.params.index("kind") if "kind" in op.params else None

    def infer(x: MetaArray, *params: Any) -> MetaArray:
        found = None if kind is None else params[kind]
        return x.new(reduced(x.shape, params[along], params[keep]), found)

    return infer


def scan(op: Any) -> Callable[..., Any]:
    """The rule of scans: one result like the input for each output of the record."""
    kind = op.params.index("kind") if "kind" in op.params else None

    def infer(x: MetaArray, *params: Any) -> MetaArray:
        return x.new(x.shape, None if kind is None else params[kind])

    return infer


def same(x: MetaArray, *rest: Any) -> MetaArray:
    """The rule of records whose result is like their first input."""
    return x.new(x.shape)


def unknown_size(*given: Any) -> Any:
    """The rule of records whose results' sizes depend on values."""
    raise UnknownSize(
        "attempted to run an operator with Meta tensors whose result's size depends on their values"
    )


def open_size(x: MetaArray) -> Any:
    """A size that depends on a fake's values: a number that nobody knows, if there may be one."""
    env: Any = getattr(mode_of(x), "shape_env", None)
    if env is None or not env.allow_dynamic_output_shape_ops:
        unknown_size()
    return env.unbacked()


def with_indices(x: MetaArray, shape: Shape) -> tuple[MetaArray, MetaArray]:
    """Values of a shape, and where they were found."""
    return x.new(shape), x.new(shape, int64)


def computed(x: MetaArray) -> dtype:
    """The dtype of what a kernel keeps of its work: float32 for narrow types."""
    return float32 if x.dtype.itemsize < 4 else x.dtype


KINDS: dict[str, Callable[[Any], Callable[..., Any]]] = {"reduction": reduction, "scan": scan}


class _Watched(threading.local):
    calls: list[Any] | None = None


_watched = _Watched()
_unwatched = Scope((_watched, "calls", None))


def calls_inferred() -> Scope:
    """Collects what records are asked for their results inside, as (record, inputs, params,
    results); not what these ask in turn."""
    calls: list[Any] = []
    return Giving(calls, (_watched, "calls", calls))


def inferred(op: Any, specs: Sequence[Any], params: tuple[Any, ...]) -> Any:
    """The results of a record for inputs as described."""
    with _unwatched:
        found = _inferred(op, specs, params)
    note_call(op, specs, params, found)
    return found


def note_call(op: Any, specs: Sequence[Any], params: tuple[Any, ...], found: Any) -> None:
    """Adds a call to those that somebody collects."""
    if _watched.calls is not None:
        _watched.calls.append((op, specs, params, found))


def _inferred(op: Any, specs: Sequence[Any], params: tuple[Any, ...]) -> Any:
    found = (
        op.rule_of_results(list(specs), *params)
        if op.variadic
        else op.rule_of_results(*specs, *params)
    )
    if not op.layout or op.is_view or op.kind == "pointwise":
        return found
    if op.layout.endswith("format"):
        specs = [x for j, x in enumerate(specs) if j > 31 or op.deciding >> j & 1]
    if isinstance(found, tuple):
        return tuple(None if each is None else laid_out(op.layout, each, specs) for each in found)
    return laid_out(op.layout, found, specs)


def laid_out(layout: str, result: MetaArray, specs: Sequence[Any]) -> MetaArray:
    """A result where a record's layout puts it."""
    shape = result.shape
    lies = [(x.shape, x.strides) for x in specs if type(x) is MetaArray]
    if layout == "elementwise":
        strides = rules.result_strides(
            shape, [lie for lie in lies if lie[0]], any(not lie[0] for lie in lies)
        )
    elif layout == "copy":
        strides = rules.copy_strides(*lies[0]) if lies[0][0] == shape else result.strides
    elif layout.endswith("format"):
        strides = rules.suggested_strides(shape, lies, any if layout == "any format" else all)
    elif layout == "column-major":
        whole = len(lies[0][0]) == len(shape)
        strides = rules.column_major_strides(shape) if whole else result.new(shape).strides
    elif layout == "indexed":
        indices = [x if x is None else (x.shape, x.strides) for x in specs[1:]]
        strides = rules.indexed_strides(shape, lies[0], indices)
    else:
        strides = result.new(shape).strides
    return result if strides == result.strides else result.new(shape, None, strides)


def elementwise(op: Any, operands: Sequence[Any], compute: Any, result: Any) -> MetaArray:
    """The result of a pointwise record for arrays without memory, and numbers."""
    arrays = [x for x in operands if type(x) is MetaArray]
    shape = broadcast_shapes(*(x.shape for x in arrays))
    numbers, lies = False, []
    for i, x in enumerate(operands):
        if type(x) is not MetaArray:
            numbers |= not op.apart >> i & 1
        elif not x.shape:
            numbers = True
        elif x.dtype is not compute and i >= op.masks:
            lies.append((x.shape, rules.copy_strides(x.shape, x.strides)))
        else:
            lies.append((x.shape, x.strides))
    if op.layout == "magnitude" and arrays[0].dtype is not result:
        strides = rules.copy_strides(arrays[0].shape, arrays[0].strides)
    else:
        strides = rules.result_strides(shape, lies, numbers)
    return arrays[0].new(shape, result, strides)
