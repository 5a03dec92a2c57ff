"""vmap: operators on arrays with a hidden batch dim."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from tritorch import _C
from tritorch.arrays.batched import BatchedArray
from tritorch.autograd.duals import make_dual, primal_of
from tritorch.autograd.function import BATCH_OF_FUNCTION, Function
from tritorch.core import late_bound, published, scopes
from tritorch.core.promotion import result_type
from tritorch.core.tensor import Tensor
from tritorch.core.thread_state import carried
from tritorch.ops.interpret.batching import OF_KIND, RULES, Batch, view
from tritorch.ops.record.apply import apply
from tritorch.ops.record.checks import require_castable, shape_error
from tritorch.ops.record.operator import Operator
from tritorch.ops.record.writing import in_place as written_in_place


class _Active(threading.local):
    def __init__(self) -> None:
        self.levels: list[tuple[int, int]] = []  # (level, batch size), innermost last
        self.modes: list[str] = []  # and what each one wants of random numbers


active = carried(_Active())


def batched_everywhere(x: Tensor) -> Tensor:
    """x, batched by each vmap around: a gradient taken for it is one for each example."""
    for level, size in active.levels:
        if level > level_of((x,)):
            x = to_batched(x.expand(size, *x.shape), level)
    return x


def level_of(tensors: Sequence[Any]) -> int:
    """The innermost batch among tensors."""
    return max(
        (
            t._array.level
            for t in tensors
            if isinstance(t, Tensor) and type(t._array) is BatchedArray
        ),
        default=-1,
    )


def _batch_size(tensors: Sequence[Any], level: int) -> int:
    for t in tensors:
        if is_batched(t, level):
            return t._array.array.shape[0]
    raise AssertionError("no batch")


def is_batched(t: Any, level: int) -> bool:
    """Whether a tensor's innermost batch is of this level."""
    return isinstance(t, Tensor) and type(t._array) is BatchedArray and t._array.level == level


def _sizes(t: Any) -> dict[int, int]:
    """The batches that a tensor is in: their levels and sizes."""
    found, array = {}, t._array if isinstance(t, Tensor) else None
    while type(array) is BatchedArray:
        found[array.level] = array.array.shape[0]
        array = array.array
    return found


def promoted(tensors: Sequence[Any], level: int) -> list[Any]:
    """Inputs that want gradients are in all batches of the others too, so that theirs are summed
    over each."""
    if not any(isinstance(t, Tensor) and t._requires_grad for t in tensors):
        return list(tensors)
    around: dict[int, int] = {}
    for t in tensors:
        around |= _sizes(t)
    return [
        _in_all(t, around) if isinstance(t, Tensor) and t._requires_grad else t for t in tensors
    ]


def _in_all(x: Tensor, around: dict[int, int]) -> Tensor:
    own = _sizes(x)
    if len(own) == len(around):
        return x
    outermost = min(around.keys() - own.keys())
    for level in sorted((each for each in own if each > outermost), reverse=True):
        x = from_batched(x, level, own[level])
    for level in sorted(each for each in around if each >= outermost):
        x = to_batched(x if level in own else x.expand(around[level], *x.shape), level)
    return x


def _whole(t: Tensor) -> Tensor:
    """A batch as a plain tensor, without history."""
    return _C.wrap(t._array.array)


def call(op: Any, tensors: Sequence[Any], params: tuple[Any, ...]) -> Any:
    """An operator on batches: by its record's rule, decomposed, or one after the other."""
    if op.is_view:
        return call_view(op, tensors[0], params)
    if op.kind == "pointwise":
        return _batched_pointwise(op, tensors)
    level = level_of(tensors)
    inputs = promoted(tensors, level)
    rule = RULES.get(op.rules.batch or OF_KIND.get(op.kind, ""))
    with scopes.unrecorded:
        found = None
        if rule is not None:
            batch = Batch(inputs, lambda t: is_batched(t, level), _batch_size(inputs, level))
            found = rule(op, batch, params)
        decomposes = op.runs_composed or op.rules.batch == "definition"
        definition = op.composed if decomposes else None
        if found is None and definition is not None:
            found = definition(*inputs, *params)._array.array
        if found is None:
            found = _one_by_one(op, inputs, params, level)
    if isinstance(found, tuple):
        wrapped = tuple(None if a is None else BatchedArray(a, level) for a in found)
        return op.finish_many(wrapped, op.outputs, params, *inputs)
    return op.finish_with(BatchedArray(found, level), params, *inputs)


def call_view(op: Any, x: Tensor, params: tuple[Any, ...]) -> Tensor:
    """A view of each example: of an ndarray like that of the first one, else by the rule."""
    batch = x._array
    found = op.view_batch(op.cpu, batch.array, params)
    if found is None:
        found = view(op, _whole(x), params)
    return op.finish_view(BatchedArray(found, batch.level), params, x)


def pointwise(op: Any, inputs: Sequence[Any], out: Any) -> Any:
    """A pointwise record on batches."""
    if out is not None:
        raise RuntimeError(f"{op.name}(): out= is not supported inside vmap or forward mode")
    return _batched_pointwise(op, inputs)


def in_place(op: Any, inputs: Sequence[Any]) -> Tensor:
    """The in-place form: each example's result is written into its part of the memory."""
    self = inputs[0]
    level = level_of(inputs)
    if not is_batched(self, level):
        raise RuntimeError(
            "vmap: an in-place operation on a tensor that is not batched, with one that is, is not "
            "possible: use the out-of-place form"
        )
    result = _batched_pointwise(op, [x.detach() if isinstance(x, Tensor) else x for x in inputs])
    if result.shape != self.shape:
        raise shape_error(self.shape, result.shape)
    require_castable(result.dtype, self.dtype)
    return written_in_place(op, self, (), inputs, lambda: write(self._array, result._array))


def _one_by_one(op: Any, inputs: Sequence[Any], params: tuple[Any, ...], level: int) -> Any:
    size = _batch_size(inputs, level)
    results = []
    for i in range(size):
        part = [_whole(t).select(0, i) if is_batched(t, level) else t for t in inputs]
        results.append(op.call(part, params))
    if not results:
        raise RuntimeError("vmap: a batch of size 0 is not supported by this operator")
    if isinstance(results[0], tuple):
        return tuple(
            None if column[0] is None else published.public.stack(list(column))._array
            for column in zip(*results)
        )
    return published.public.stack(results)._array


def _aligned(t: Any, level: int, ndim: int) -> Any:
    """An operand with the batch first, then as many dims as the result has."""
    if not isinstance(t, Tensor):
        return t
    if not is_batched(t, level):
        return t.detach()
    whole = _whole(t)
    shape = whole.shape
    return whole.reshape(shape[0], *(1,) * (ndim - len(shape) + 1), *shape[1:])


def _batched_pointwise(op: Any, inputs: Sequence[Any]) -> Any:
    level = level_of(inputs)
    inputs = promoted(inputs, level)
    ndim = max(t.ndim for t in inputs if isinstance(t, Tensor))
    # Promotion goes by the dims that the function sees.
    common = result_type(*inputs[op.masks :])
    aligned = [
        t.to(common) if isinstance(t, Tensor) and i >= op.masks and t.dtype is not common else t
        for i, t in enumerate(_aligned(t, level, ndim) for t in inputs)
    ]
    with scopes.unrecorded:
        result = apply(op, aligned)
    return op.finish(BatchedArray(result._array, level), *inputs)


def _register() -> tuple[Any, Any]:
    enter = Operator(
        "to_batched",
        "x",
        "level",
        schema="(Tensor x, int level) -> Tensor",
        kind="internal",
        grad=lambda g, level: from_batched(g, level[0], level[1]),
    )
    leave = Operator(
        "from_batched",
        "x",
        "level size",
        schema="(Tensor x, int level, int size) -> Tensor",
        kind="internal",
        grad=lambda g, level, size: to_batched(g, level),
    )
    return enter, leave


_enter, _leave = _register()


def to_batched(x: Tensor, level: int) -> Tensor:
    """x with its first dim hidden."""
    array = x._array
    out = _enter.finish_with(BatchedArray(array, level), ((level, array.shape[0]),), x)
    return out if x._tangent is None else make_dual(out, to_batched(x._tangent, level))


def from_batched(x: Tensor, level: int, size: int) -> Tensor:
    """x with its batch as the first dim; expanded when it has none."""
    if x._tangent is not None:
        primal = from_batched(primal_of(x), level, size)
        return make_dual(primal, from_batched(x._tangent, level, size))
    array = x._array
    if type(array) is not BatchedArray or array.level != level:
        return x.expand(size, *x.shape)
    return _leave.finish_with(array.array, (level, size), x)


def new_like(x: Tensor, made: Tensor) -> Tensor:
    """What new_zeros and the like make of a batched tensor: a batch as well."""
    array = x._array
    size = array.array.shape[0]
    inner = _C.wrap(array.array)
    whole = made.expand(size, *made.shape).contiguous()
    if type(inner._array) is BatchedArray:
        whole = new_like(inner, whole)
    return _C.wrap(BatchedArray(whole._array, array.level))


def write(target: Any, value: Any) -> None:
    """target[...] = value for batched targets."""
    if type(value) is BatchedArray and value.level == target.level:
        source = value.array
        lead = len(target.shape) - len(value.shape)
        if lead:
            x = _C.wrap(source)
            source = x.reshape(x.shape[0], *(1,) * lead, *x.shape[1:])._array
    else:
        source = value
    if type(target.array) is BatchedArray:
        write(target.array, source)
    else:
        late_bound.write_array(target.array, source)


def index_put(self: Tensor, indices: Any, values: Tensor, accumulate: bool) -> None:
    """index_put_ on a batch, one after the other."""
    level = self._array.level
    whole = _whole(self)
    for i in range(whole.shape[0]):
        example, *index = (
            _whole(t).select(0, i) if is_batched(t, level) else t for t in (values, *indices)
        )
        whole.select(0, i).index_put_(tuple(index), example, accumulate)


# ---- rules that programs write -------------------------------------------------------------------


class VmapInfo:
    """What a rule is told: how many examples there are, and what becomes of random numbers."""

    def __init__(self, batch_size: int, randomness: str) -> None:
        self.batch_size, self.randomness = batch_size, randomness


def rebatched(out: Any, dims: Any, level: int) -> Any:
    """What a rule gave, with the dims that it names hidden."""
    if isinstance(out, (list, tuple)):
        each = dims if isinstance(dims, (list, tuple)) else [dims] * len(out)
        return type(out)(rebatched(x, d, level) for x, d in zip(out, each))
    if dims is None or not isinstance(out, Tensor):
        return out
    return to_batched(out.movedim(dims, 0), level)


def _of_function(cls: Any, args: Sequence[Any]) -> Any:
    """A custom function of a batch: by its rule; one that says `generate_vmap_rule` runs on it."""
    name, own = cls.__name__, cls.vmap is not Function.vmap
    see = "For more details, please see https://pytorch.org/docs/main/notes/extending.func.html"
    if cls.setup_context is Function.setup_context:
        raise RuntimeError(
            "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, "
            f"jacrev, ...), it must override the setup_context staticmethod. {see}"
        )
    if cls.generate_vmap_rule:
        if own:
            raise RuntimeError(
                f"You tried to vmap over {name}, but it has both generate_vmap_rule=True and an "
                "overridden vmap staticmethod. Please set generate_vmap_rule=False or delete the "
                f"overridden vmap staticmethod to avoid ambiguity. {see}"
            )
        return NotImplemented
    if not own:
        raise RuntimeError(
            f"You tried to vmap over {name}, but it does not have vmap support. Please override "
            f"and implement the vmap staticmethod or set generate_vmap_rule=True. {see}"
        )
    level = level_of(args)
    size = next(x._array.array.shape[0] for x in args if is_batched(x, level))
    dims = tuple(0 if is_batched(x, level) else None for x in args)
    given = [from_batched(x, level, size) if is_batched(x, level) else x for x in args]
    info = VmapInfo(size, active.modes[-1] if active.modes else "error")
    made = cls.vmap(info, dims, *given)
    if not (isinstance(made, tuple) and len(made) == 2):
        got = f"tuple of len {len(made)}" if isinstance(made, tuple) else str(type(made))
        raise RuntimeError(
            "Expected the vmap staticmethod to have two returns, an output and out_dims with "
            "pytree "
            f"structure compatible with the output. Got a {got}."
        )
    return rebatched(*made, level)


BATCH_OF_FUNCTION.append(_of_function)
