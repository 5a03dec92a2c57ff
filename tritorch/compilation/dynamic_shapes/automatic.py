"""Automatic dynamic shapes: sizes and numbers become dynamic that were others in an earlier run.

# Note [Dynamic shapes]
A call may be known but for sizes of tensors that come from outside, or for integers and floats
among its arguments.  It becomes a step then in which those are dynamic: they are the next of the
region's numbers, and each run has its own.  The call runs once more, with symbols and on meta
tensors, which gives the sizes of its results in terms of those numbers; comparisons that were
decided by the values of this run (whether sizes are equal, whether a factor is 1) are the step's
conditions, which are computed at each call.  A call that cannot run so (it needs the number itself)
fixes all numbers on which its arguments depend.

The numbers that differ are not guessed: the steps that came here before say what they were.  A new
branch is compared with the one that it left (the step there is its *sibling*), so that one further
run finds all that differs.  Sizes below 2 are as no others, and stay static.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tritorch import _C
from tritorch.arrays import arrays
from tritorch.arrays.symbolic import SymInt
from tritorch.compilation.dynamic_shapes import symbols as symbolic
from tritorch.compilation.dynamic_shapes.symbols import DynamicNumber, Known, Path, make_dynamic
from tritorch.compilation.follow.calls import Call, Dynamic, Layout, Slot, Spec, mapped
from tritorch.compilation.follow.tape import Unfit
from tritorch.compilation.plan.meta_execution import meta_copy, on_meta
from tritorch.core.tensor import Tensor

LEAST = 2  # from here on, integers may be dynamic: kLeastDynamic in src/compilation/pattern.h


# ---- differences ---------------------------------------------------------------------------------


class _Differs(Exception):
    """A call is not like another."""


class _DynamicSearch:
    """The dynamic sizes and numbers of one call, while they are searched for.

    like: a call that came here before; None: sizes that were known to differ say so."""

    def __init__(self, region: Any, path: Path, known: Known, like: Call | None) -> None:
        self.region, self.path, self.known, self.like = region, path, known, like
        self.dynamic = region.follower.options.dynamic
        self.symbols: list[Any] = []
        self.numbers: list[Any] = []
        self.metas: dict[int, Tensor] = {}  # by id of the tensor
        self.inputs: list[Layout | None] = []  # of tensors that come from outside, in their order
        self.layouts: dict[int, Layout | None] = {}  # by id of the tensor
        self.first = self.next = region.size  # the slot of the next tensor from outside
        self.seen: dict[int, int] = {}  # the slots of those that were met in this call
        self.values = {
            n.value for layout in path.layouts.values() for n in layout[0] if type(n) is SymInt
        } | {symbol.value for symbol in path.symbols if type(symbol) is SymInt}

    def _symbol(self, value: Any) -> Any:
        make = self.known.integer if type(value) is int else self.known.real
        symbol = make(value)
        self.symbols.append(symbol)
        self.numbers.append(value)
        if type(value) is int:
            self.values.add(value)
        return symbol

    def argument(self, value: Any, like: Any) -> Any:
        """An argument, with symbols for its dynamic numbers."""
        if isinstance(value, Tensor):
            return self._tensor(value, like)
        kind = type(value)
        alike = self.like is not None
        if isinstance(value, (tuple, list)):
            if alike and (type(like) is not kind or len(like) != len(value)):
                raise _Differs
            items = [
                self.argument(x, like[i] if alike else None) for i, x in enumerate(value)
            ]  # fmt: skip
            return kind._make(items) if hasattr(kind, "_make") else kind(items)
        if kind is slice:
            if alike and type(like) is not slice:
                raise _Differs
            parts = [(getattr(value, n), getattr(like, n, None)) for n in ("start", "stop", "step")]
            return slice(*(self.argument(x, other) for x, other in parts))
        if kind is int or kind is float:
            return self._number(value, like)
        if alike and (type(like) is not kind or (like is not value and like != value)):
            raise _Differs
        return value

    def _number(self, value: Any, like: Any) -> Any:
        if self.like is None:
            differs = type(value) is int and value >= LEAST and value in self.values
            return self._symbol(value) if differs else value
        if type(like) is DynamicNumber:
            is_real = like.code[-1][0] == "f"
            if is_real is (type(value) is int) or not _may_be_dynamic(value):
                raise _Differs
            return self._symbol(value)
        if type(like) is not type(value):
            raise _Differs
        if like == value:
            return value
        if not _may_be_dynamic(value) or not _may_be_dynamic(like):
            raise _Differs
        return self._symbol(value)

    def _tensor(self, x: Tensor, like: Any) -> Tensor:
        if self.like is not None and type(like) is not Slot:
            raise _Differs
        slot = self.seen.get(id(x), _slot_of(x, self.region))
        fresh = slot is None
        if fresh:
            slot = self.seen[id(x)] = self.next
            self.next += 1
        if self.like is not None and like.index != slot:
            raise _Differs
        if id(x) not in self.layouts:
            layout = self._layout(x) if fresh else self.path.layouts.get(slot)  # type: ignore[arg-type]
            if fresh:
                self.inputs.append(layout)
            self.layouts[id(x)] = layout
        return x

    def meta(self, x: Any) -> Any:
        """A meta tensor in place of a tensor, with symbols for its sizes."""
        if not isinstance(x, Tensor):
            return x
        if id(x) not in self.metas:
            self.metas[id(x)] = meta_copy(x, self.layouts[id(x)], grads=False)
        return self.metas[id(x)]

    def _layout(self, x: Tensor) -> Layout | None:
        """The layout of a tensor from outside, with symbols for sizes that differ."""
        shape = tuple(x._array.shape)
        strides = arrays.strides_of(x._array)
        spec, before, steps = self._before(x)
        if spec is not None and (
            spec.dtype is not x.dtype or spec.device != x.device or len(spec.shape) != len(shape)
        ):
            raise _Differs
        sizes: list[Any] = []
        for dim, n in enumerate(shape):
            if self._is_dynamic(x, dim, n, before):
                sizes.append(self._symbol(n))
            elif before is not None and before[dim] != n:
                raise _Differs
            else:
                sizes.append(n)
        if not symbolic.is_dynamic(sizes):
            return None
        return tuple(sizes), self._strides(sizes, shape, strides, steps)

    def _before(self, x: Tensor) -> tuple[Spec | None, Any, Any]:
        """The description of the tensor that came here before, its sizes and its strides."""
        if self.like is None:
            return None, None, None
        slot = self.seen[id(x)]
        spec = self.like.specs.get(slot)
        if spec is None:
            raise _Differs
        known = self.like.dynamic
        layout = None if known is None else known.layouts.get(slot)
        return spec, *((spec.shape, spec.stride) if layout is None else layout)

    def _strides(
        self, sizes: Sequence[Any], shape: Sequence[int], strides: Sequence[int], before: Any
    ) -> tuple[Any, ...]:
        """Strides in terms of sizes, where they are dense in their order; others are as they are,
        or symbols, if they were others before."""
        own = {
            d: self._symbol(strides[d])
            for d in symbolic.apart(shape, strides)
            if before is not None and before[d] != strides[d] and strides[d] >= LEAST
        }
        return symbolic.strides_of(sizes, shape, strides, own)

    def _is_dynamic(self, x: Tensor, dim: int, n: int, before: tuple[Any, ...] | None) -> bool:
        if dim in getattr(x, "_dynamo_static_indices", ()):
            return False
        if n < LEAST:
            return False
        if before is not None:
            known = before[dim]
            return type(known) is SymInt or (known != n and known >= LEAST)
        marked = getattr(x, "_dynamo_dynamic_indices", ())
        weakly = getattr(x, "_dynamo_weak_dynamic_indices", ())
        is_parameter = x._leaf and x._requires_grad
        return (
            n in self.values or dim in marked or dim in weakly
            or (self.dynamic is True and not is_parameter)
        )  # fmt: skip


def _slot_of(x: Tensor, region: Any) -> int | None:
    """The slot of a tensor that a region knows."""
    return x._mark & 0xFFFFFF if x._mark >> 24 == region.serial else None


def _may_be_dynamic(value: Any) -> bool:
    return value >= LEAST if type(value) is int else value - value == 0  # finite


# ---- a step with dynamic numbers -----------------------------------------------------------------


def _candidates(region: Any, gate: Any, kwargs: dict[str, Any]) -> Iterable[Any]:
    """The steps that came here before, or at the sibling."""
    here = [
        *(region.sibling.next if region.sibling is not None else ()),
        *reversed(region.here.next),
    ]
    names = tuple(kwargs) or None
    for step in here:
        same = step.gate is gate and not step.graph_break and step.names == names
        if same and step.grad_enabled == _C.is_grad_enabled():
            yield step


_NOTHING = Path(None)


def _path_of(region: Any) -> Path:
    """The dynamic numbers of the calls of a run, which keeps them."""
    here = region.here
    step, path = region.walked or (None, None)
    if path is None or here is not step:
        if path is None or here.parent is not step:
            path = Path(here)
        elif here.call.dynamic is not None:
            path.add(here.call.dynamic)
        region.walked = here, path
    return path


def _is_marked(x: Tensor) -> bool:
    return hasattr(x, "_dynamo_dynamic_indices") or hasattr(x, "_dynamo_weak_dynamic_indices")


def make_call_dynamic(
    region: Any, gate: Any, call: Call, tensors: Sequence[Tensor], result: Any, writes: bool
) -> tuple[tuple[Any, ...], dict[str, Any], Any, Dynamic | None]:
    """The arguments of `region.add` for a call: its arguments, with a `DynamicNumber` for each
    dynamic one; the dynamic layouts; and the `Dynamic` to keep of it."""
    args, kwargs = call.args, call.kwargs
    options = region.follower.options
    nothing = args, kwargs, None, None
    if options.backend is not None or options.dynamic is False:
        region.sibling = None
        return nothing
    candidates = list(_candidates(region, gate, kwargs))
    numbers = region.numbers
    if not (numbers or candidates or options.dynamic or any(map(_is_marked, tensors))):
        region.sibling = None
        return nothing
    path = _path_of(region) if numbers else _NOTHING
    known = region.follower.known
    for symbol, number in zip(path.symbols, numbers):
        symbolic.leaf_of(symbol).value = number
    for step in (*candidates, None):
        like = None if step is None else step.call
        search = _DynamicSearch(region, path, known, like)
        if step is not None and step.first != search.next:
            continue
        before = (
            ((), {}) if like is None
            else (like.args, like.kwargs) if like.dynamic is None
            else (like.dynamic.args, like.dynamic.kwargs)
        )  # fmt: skip
        try:
            if like is not None and len(before[0]) != len(args):
                continue
            own = tuple(
                search.argument(x, None if like is None else before[0][i])
                for i, x in enumerate(args)
            )
            named = {
                name: search.argument(x, None if like is None else before[1][name])
                for name, x in kwargs.items()
            }
        except _Differs:
            continue
        region.sibling = step
        if not search.symbols and not any(_slot_of(x, region) in path.layouts for x in tensors):
            return nothing
        if writes and _shares_memory(tensors):  # sizes and addresses decide whether they overlap
            return _fixed(region, path, tensors, args, kwargs)
        try:
            return _run_symbolically(gate, search, args, kwargs, own, named, result)
        except Exception:  # it cannot run with symbols
            return _fixed(region, path, tensors, args, kwargs)
    return nothing


def _run_symbolically(
    gate: Any, search: _DynamicSearch, args: tuple[Any, ...], kwargs: dict[str, Any],
    own: tuple[Any, ...], named: dict[str, Any], result: Any,
) -> Any:  # fmt: skip
    """The dynamic numbers of a call that can run with symbols."""
    path, known = search.path, search.known
    known.decided.clear()
    metas = mapped(search.meta, own)
    by_name = {name: mapped(search.meta, x) for name, x in named.items()}
    with on_meta():
        made = gate(*metas, **by_name)
    decided = dict(known.decided)
    indices = symbolic.indices_of([*path.symbols, *search.symbols])
    results: list[Any] = []
    seen = set(search.layouts) | {id(x) for x in search.region.tensors({}) if x is not None}
    _compare(made, result, seen, results)
    layouts = [x if x is not None and symbolic.is_dynamic(x) else None for x in results]
    every = enumerate([*search.inputs, *layouts], search.first)
    kept = Dynamic(search.symbols, {i: x for i, x in every if x is not None}, set(decided))

    kept.args = make_dynamic(own, indices)
    kept.kwargs = {name: make_dynamic(x, indices) for name, x in named.items()}
    told = (
        tuple(make_dynamic(search.inputs, indices)), tuple(make_dynamic(layouts, indices)),
        tuple(make_dynamic(x, indices) for x in decided.values()), tuple(search.numbers),
    )  # fmt: skip
    return kept.args, kept.kwargs, told, kept


def _compare(meta_result: Any, result: Any, seen: set[int], layouts: list[Any]) -> None:
    """Takes the layouts of tensors that a call made, if they are those of this run."""
    if isinstance(result, Tensor):
        if id(result) in seen:
            return
        seen.add(id(result))
        layout = tuple(meta_result._array.shape), tuple(meta_result._array.strides)
        actual = tuple(result._array.shape), arrays.strides_of(result._array)
        if symbolic.hinted(layout) != actual or meta_result.dtype is not result.dtype:
            raise Unfit(f"sizes {layout} are {actual}")
        layouts.append(layout)
    elif isinstance(result, (tuple, list)):
        if len(meta_result) != len(result):
            raise Unfit("another number of results")
        for each, item in zip(meta_result, result):
            _compare(each, item, seen, layouts)


def _shares_memory(tensors: Sequence[Tensor]) -> bool:
    """True if two tensors are views of one memory."""
    different = {id(x): id(x._shared) for x in tensors}
    return len(set(different.values())) < len(different)


def _fixed(
    region: Any, path: Path, tensors: Sequence[Tensor], args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:  # fmt: skip
    """A step for the sizes of this run alone."""
    indices = symbolic.indices_of(path.symbols)
    needed: dict[str, Any] = {}
    for x in tensors:
        slot = _slot_of(x, region)
        layout = None if slot is None else path.layouts.get(slot)
        for n in (*layout[0], *layout[1]) if layout is not None else ():
            if type(n) is SymInt:
                condition = make_dynamic(n, indices)
                code = (*condition.code, ("i", n.value), ("=", None))
                needed[f"{n} == {n.value}"] = DynamicNumber(code, f"{n} == {n.value}")
    kept = Dynamic(args=args, kwargs=kwargs)
    kept.conditions = set(needed)
    return args, kwargs, ((), (), tuple(needed.values()), ()), kept


def passed(region: Any, gate: Any) -> None:
    """A graph break was passed: the sibling's next one is the sibling now."""
    if region.sibling is not None:
        following = (step for step in region.sibling.next if step.graph_break and step.gate is gate)
        region.sibling = next(following, None)
