"""How a record runs on a batch at once: the rules that a record's `batch` names.

A rule gets the record, the inputs of all examples (`Batch`) and the params, and gives the results
with the batch as their first dim; None where it does not apply (the record is decomposed then, or
runs one example after the other).  Which rule is whose follows from the record's kind, or stands in
the record.

# Note [What becomes of the batch]
    elementwise  dims are aligned from the last one
    rows         the record takes any leading dims of its first input
    lead         of all inputs
    dims         params name dims, which move by one
    fold         the first dim is a batch already: both become one
    channels     samples do not meet, nor do channels: the batch becomes more channels
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from tritorch import _C
from tritorch.arrays import arrays
from tritorch.arrays.meta import MetaArray
from tritorch.core import published
from tritorch.core.tensor import Tensor
from tritorch.ops.record.operator import OPERATORS

Params = tuple[Any, ...]


RULES: dict[str, Callable[..., Any]] = {}
OF_KIND = {"reduction": "dims", "scan": "dims", "fft": "dims", "linalg": "lead"}


def rule(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a function the rule of its name."""
    RULES[function.__name__] = function
    return function


class Batch:
    """The inputs of a record for all examples of one vmap."""

    def __init__(self, inputs: Sequence[Any], is_batched: Callable[[Any], bool], size: int) -> None:
        self.size = size
        self.batched = [is_batched(x) for x in inputs]
        self.inputs = [
            x if not isinstance(x, Tensor) else _C.wrap(x._array.array) if own else x.detach()
            for x, own in zip(inputs, self.batched)
        ]

    def ndim(self, i: int) -> int:
        """The dims of one example's input."""
        return self.inputs[i].ndim - self.batched[i]

    def whole(self, i: int) -> Any:
        """An input with the batch first, repeated where all examples share it."""
        x = self.inputs[i]
        if self.batched[i] or not isinstance(x, Tensor):
            return x
        return x.expand(self.size, *x.shape)

    @property
    def wholes(self) -> list[Any]:
        """All inputs so."""
        return [self.whole(i) for i in range(len(self.inputs))]

    def aligned(self, i: int, ndim: int) -> Any:
        """An input that broadcasts with others of ndim dims an example."""
        x = self.inputs[i]
        if not self.batched[i]:
            return x
        return x.reshape(self.size, *(1,) * (ndim - x.ndim + 1), *x.shape[1:])

    def folded(self, i: int) -> Any:
        """An input whose first dim is the batch and its own first one together."""
        x = self.whole(i)
        return x if x is None else x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])

    def unfold(self, result: Any) -> Any:
        """A result whose first dim is taken apart again."""
        if result is None:
            return None
        return result.reshape(self.size, result.shape[0] // self.size, *result.shape[1:])

    def into_channels(self, i: int, at: int) -> Any:
        """An input whose dim `at` is the batch and its own dim `at` together."""
        x = self.whole(i)
        if x is None:
            return None
        moved = x.movedim(0, at)
        shape = moved.shape
        return moved.reshape(*shape[:at], self.size * shape[at + 1], *shape[at + 2 :])

    def out_of_channels(self, x: Any, at: int) -> Any:
        """A result whose dim `at` is taken apart again, the batch first."""
        if x is None:
            return None
        shape = x.shape
        apart = x.reshape(*shape[:at], self.size, shape[at] // self.size, *shape[at + 1 :])
        return apart.movedim(at, 0)


def _each(result: Any, change: Callable[[Any], Any] = lambda x: x) -> Any:
    if isinstance(result, tuple):
        return tuple(None if x is None else change(x)._array for x in result)
    return change(result)._array


def view(op: Any, whole: Tensor, params: Params) -> Any:
    """A view of each example is a view of all: by strides, which its `infer` says."""
    size, steps = whole.shape[0], whole.stride()
    one = MetaArray(whole.shape[1:], whole.dtype, steps[1:])
    found = op.infer((one,), params)
    if found.dtype is not one.dtype:  # it looks at the last dim alone
        return op.call((whole,), params)._array
    shape, strides = (size, *found.shape), (steps[0], *found.strides)
    return _strided(whole, shape, strides, found.offset)._array


def _strided(x: Tensor, shape: Any, strides: Any, skip: int) -> Tensor:
    """A view by strides, `skip` elements after a tensor's first."""
    array = x._array
    if isinstance(array, arrays.ndarray | _C.Array | MetaArray):
        return _C.wrap(arrays.strided(array, shape, strides, skip))
    return x.as_strided(shape, strides, x.storage_offset() + skip)


@rule
def embed(op: Any, batch: Batch, params: Params) -> Any:
    """Zeros of each example, with its part where a view of them looks."""
    shape, *view_params = params
    part = batch.inputs[0]
    out = part.new_zeros((batch.size, *shape))
    found = op.embeds.infer((MetaArray(shape, part.dtype),), tuple(view_params))
    strides = (out.stride(0), *found.strides)
    _strided(out, (batch.size, *found.shape), strides, found.offset).copy_(part)
    return out._array


@rule
def elementwise(op: Any, batch: Batch, params: Params) -> Any:
    """Dims are aligned from the last one."""
    ndim = max(batch.ndim(i) for i, x in enumerate(batch.inputs) if isinstance(x, Tensor))
    return _each(op.call([batch.aligned(i, ndim) for i in range(len(batch.inputs))], params))


@rule
def rows(op: Any, batch: Batch, params: Params) -> Any:
    """The record takes any leading dims of its first input; the others are shared."""
    if any(batch.batched[1:]):
        return None
    return _each(op.call((batch.whole(0), *batch.inputs[1:]), _with_shapes(op, params, batch)))


@rule
def lead(op: Any, batch: Batch, params: Params) -> Any:
    """The record takes any leading dims, alike in all inputs."""
    found = op.call(batch.wholes, _with_shapes(op, params, batch))
    empty = lambda x: x.expand(batch.size, 0) if x.shape == (0,) else x  # what was not asked for
    return _each(found, empty)


def _with_shapes(op: Any, params: Params, batch: Batch) -> Params:
    """Params with the batch in front of `shape`: of what a record of a gradient gives."""
    return tuple(
        (batch.size, *value) if name == "shape" else value for name, value in zip(op.params, params)
    )


@rule
def dims(op: Any, batch: Batch, params: Params) -> Any:
    """Params name dims, which move by one; examples without dims count as vectors of one."""
    moved = [
        tuple(dim + 1 for dim in value) if name == "dims" else value + 1 if name == "dim" else value
        for name, value in zip(op.params, _with_shapes(op, params, batch))
    ]
    inputs = batch.wholes
    flat = all(x is None or x.ndim == 1 for x in inputs)
    if flat:
        inputs = [x if x is None else x.unsqueeze(1) for x in inputs]
        moved = [(*v, 1) if n == "shape" else v for n, v in zip(op.params, moved)]
    result = op.call(inputs, tuple(moved))
    kept = (lambda x: x.squeeze(1) if x.ndim > 1 else x) if flat else (lambda x: x)
    return _each(result, kept)


@rule
def fold(op: Any, batch: Batch, params: Params) -> Any:
    """The first dim of inputs and results is a batch already."""
    moved = tuple(
        (batch.size * value[0], *value[1:]) if name == "shape" else value
        for name, value in zip(op.params, params)
    )
    inputs = [batch.folded(i) for i in range(len(batch.inputs))]
    return _each(op.call(inputs, moved), batch.unfold)


@rule
def channels(op: Any, batch: Batch, params: Params) -> Any:
    """Samples, or groups of channels, do not meet: the batch becomes more channels.

    Inputs of several dims have their channels in dim 1, others in dim 0."""
    places = [1 if x is not None and batch.ndim(i) > 1 else 0 for i, x in enumerate(batch.inputs)]
    inputs = [batch.into_channels(i, at) for i, at in enumerate(places)]
    moved = tuple(
        value * batch.size if name == "groups" else value for name, value in zip(op.params, params)
    )
    return _each(op.call(inputs, moved), lambda x: batch.out_of_channels(x, 1 if x.ndim > 1 else 0))


@rule
def product(op: Any, batch: Batch, params: Params) -> Any:
    """A product of matrices is one of stacks of matrices."""
    return batch.inputs[0].matmul(batch.inputs[1])._array


@rule
def sum_with_product(op: Any, batch: Batch, params: Params) -> Any:
    """beta c + alpha a b, by smaller operators."""
    beta, alpha = params
    c = batch.aligned(0, batch.ndim(1))
    a, b = batch.inputs[1:]
    found = a.matmul(b)
    found = found if alpha == 1 else found * alpha
    if beta != 0:
        found = found + (c if beta == 1 else c * beta)
    return found._array


@rule
def linear(op: Any, batch: Batch, params: Params) -> Any:
    """Rows of a batch are rows; weights of a batch are a batched product."""
    x, w, b = batch.inputs
    if not batch.batched[1] and not batch.batched[2]:
        return op.call((x, w, b), params)._array
    x = batch.whole(0)
    out = x.reshape(batch.size, -1, x.shape[-1]).matmul(w.transpose(-1, -2))
    if b is not None:
        out = out + (b.unsqueeze(1) if batch.batched[2] else b)
    return out.reshape(*x.shape[:-1], w.shape[-2])._array


@rule
def convolution(op: Any, batch: Batch, params: Params) -> Any:
    """Images of a batch are images; weights of a batch are groups."""
    _, w, b = batch.inputs
    if not batch.batched[1] and not batch.batched[2]:
        return _each(op.call((batch.folded(0), w, b), params), batch.unfold)
    inputs = (batch.into_channels(0, 1), batch.folded(1), batch.folded(2))
    found = op.call(inputs, _more_groups(op, params, batch))
    return batch.out_of_channels(found, 1)._array


@rule
def convolution_input(op: Any, batch: Batch, params: Params) -> Any:
    """The same of its input's gradient."""
    (shape, *rest), w = params, batch.inputs[1]
    if not batch.batched[1]:
        n, *inner = shape
        found = op.call((batch.folded(0), w), ((n * batch.size, *inner), *rest))
        return _each(found, batch.unfold)
    n, c, *inner = shape
    params = _more_groups(op, ((n, c * batch.size, *inner), *rest), batch)
    found = op.call((batch.into_channels(0, 1), batch.folded(1)), params)
    return batch.out_of_channels(found, 1)._array


@rule
def convolution_weight(op: Any, batch: Batch, params: Params) -> Any:
    """Its weight's gradient, of each example: those of groups."""
    (n, *inner), *rest = params
    params = _more_groups(op, ((n * batch.size, *inner), *rest), batch)
    found = op.call((batch.into_channels(0, 1), batch.into_channels(1, 1)), params)
    return batch.unfold(found)._array


def _more_groups(op: Any, params: Params, batch: Batch) -> Params:
    at = op.params.index("groups")
    return (*params[:at], params[at] * batch.size, *params[at + 1 :])


def _shifted(index: Tensor, batch: Batch, n: int) -> Tensor:
    """Indices of rows of each example as such of all of them, one after the other."""
    first = published.public.arange(batch.size, device=index.device) * n
    return index + first.reshape(-1, *(1,) * (index.ndim - 1))


@rule
def embedding(op: Any, batch: Batch, params: Params) -> Any:
    """Rows of several tables are rows of one."""
    weight, index = batch.inputs
    if not batch.batched[0]:
        return _each(op.call((weight, index), params))
    rows = _shifted(batch.whole(1), batch, weight.shape[1])
    return _each(op.call((batch.folded(0), rows), (-1, False)))


@rule
def embedding_backward(op: Any, batch: Batch, params: Params) -> Any:
    """The gradients of several tables are one of one."""
    n, padding, by_frequency = params
    y, index = batch.wholes
    if padding >= 0:
        y = y.masked_fill((index == padding).unsqueeze(-1), 0)
    found = op.call((y, _shifted(index, batch, n)), (n * batch.size, -1, by_frequency))
    return batch.unfold(found)._array


@rule
def index(op: Any, batch: Batch, params: Params) -> Any:
    """x[indices]: of x of a batch the example is one more index."""
    x, *indices = batch.inputs
    given = [i for i, each in enumerate(indices) if each is not None]
    common = max(batch.ndim(i + 1) for i in given)
    aligned = [
        None if i not in given else batch.aligned(i + 1, common) for i in range(len(indices))
    ]
    at = given[0] if given[-1] - given[0] + 1 == len(given) else 0
    if not batch.batched[0]:
        found = op.call((x, *aligned))
        return found.movedim(at, 0)._array  # the indices' first dim is the batch
    example = published.public.arange(batch.size, device=x.device).reshape(-1, *(1,) * common)
    found = op.call((x, example, *aligned))
    if at:  # dims of the indices stand first now, in the middle of one example
        order = [0, *range(1 + common, 1 + common + at), *range(1, 1 + common)]
        order += range(1 + common + at, found.ndim)
        found = found.permute(order)
    return found._array


@rule
def index_select(op: Any, batch: Batch, params: Params) -> Any:
    """Rows chosen alike in all examples; by indices of each example it is a gather."""
    dim = params[0]
    x, at = batch.whole(0), batch.inputs[1]
    if not batch.batched[1]:
        flat = x.ndim == 1
        x = x.unsqueeze(1) if flat else x
        found = op.call((x, at), (dim + 1,))
        return (found.squeeze(1) if flat else found)._array
    if x.ndim == 1:
        return x.unsqueeze(1).expand(-1, at.shape[-1]).squeeze(1)._array
    return x.gather(dim + 1, _spread(at, x, dim + 1))._array


def _spread(at: Tensor, x: Tensor, dim: int) -> Tensor:
    """Indices (batch, n) along a dim of x as indices of all its elements."""
    view = [1] * x.ndim
    view[0], view[dim] = at.shape[0], at.shape[1]
    shape = list(x.shape)
    shape[dim] = at.shape[1]
    return at.reshape(view).expand(shape)


@rule
def along_index(op: Any, batch: Batch, params: Params) -> Any:
    """index_add and its like: rows of all examples are rows of one, where indices differ."""
    dim = params[op.params.index("dim")]
    shared, plain = op.inputs[2] == "value", batch.ndim(0) == 0
    if shared and batch.batched[2]:
        return None
    moved = lambda to: tuple(to if name == "dim" else v for name, v in zip(op.params, params))
    x, at, source = batch.whole(0), batch.inputs[1], batch.inputs[2]
    if not shared:
        source = batch.whole(2)
    if plain:
        x, source = x.unsqueeze(1), source if shared or source.ndim > 1 else source.unsqueeze(1)
    if not batch.batched[1]:
        found = op.call((x, at, source), moved(dim + 1))
    else:
        rows = x.movedim(dim + 1, 1)
        at = _shifted(at, batch, rows.shape[1]).flatten()
        if not shared:
            source = source.movedim(dim + 1, 1).flatten(0, 1)
        found = op.call((rows.flatten(0, 1), at, source), moved(0))
        found = found.reshape(rows.shape).movedim(1, dim + 1)
    return (found.squeeze(1) if plain else found)._array


@rule
def masked_scatter(op: Any, batch: Batch, params: Params) -> Any:
    """Where a mask holds, the first elements of each example's source, in order."""
    x, mask, source = batch.wholes
    place = mask.flatten(1).cumsum(1) if mask.ndim > 1 else mask.unsqueeze(1).long()
    taken = source.reshape(batch.size, -1).gather(1, (place - 1).clamp(min=0))
    return taken.reshape(mask.shape).where(mask, x)._array


@rule
def convolution_with_statistics(op: Any, batch: Batch, params: Params) -> Any:
    """A convolution, and mean, 1 / std and variance of its channels."""
    *convolved, eps = params
    y = _C.wrap(convolution(OPERATORS["convolution"], batch, tuple(convolved)))
    var, mean = published.public.var_mean(y, (1, *range(3, y.ndim)), correction=0)
    return _each((y, mean, (var + eps).rsqrt(), var))


@rule
def take(op: Any, batch: Batch, params: Params) -> Any:
    """x.reshape(-1)[index]."""
    if not batch.batched[0]:
        return _each(op.call(batch.inputs, params))
    x, at = batch.wholes
    flat = x.reshape(batch.size, -1)
    at = at.where(at >= 0, at + flat.shape[1])
    found = flat.gather(1, at.reshape(batch.size, -1))
    return found.reshape(at.shape)._array


@rule
def put(op: Any, batch: Batch, params: Params) -> Any:
    """x with elements at flat places replaced or added to."""
    x, at, source = (v.reshape(batch.size, -1) for v in batch.wholes)
    n = x.shape[1]
    at = at.where(at >= 0, at + n)
    (accumulate,) = params
    found = x.scatter_add(1, at, source) if accumulate else x.scatter(1, at, source)
    return found.reshape(batch.whole(0).shape)._array


@rule
def searchsorted(op: Any, batch: Batch, params: Params) -> Any:
    """Places of values in rows."""
    rows, values = batch.inputs
    if not batch.batched[0] and batch.ndim(0) == 1:
        return _each(op.call((rows, values), params))
    rows, values = batch.wholes
    if rows.ndim == 2:
        found = op.call(
            (rows, values.flatten(1) if values.ndim > 1 else values.unsqueeze(1)), params
        )
        return found.reshape(values.shape)._array
    return _each(op.call((rows, values), params))


@rule
def cross_entropy(op: Any, batch: Batch, params: Params) -> Any:
    """Rows of all examples, weighed alike."""
    at = op.inputs.index("weight")
    if batch.batched[at]:
        return None
    inputs = [x if i == at else batch.folded(i) for i, x in enumerate(batch.inputs)]
    return _each(op.call(inputs, params), batch.unfold)


@rule
def attention(op: Any, batch: Batch, params: Params) -> Any:
    """Sequences of all examples; a mask that samples share is repeated for each."""
    at = op.inputs.index("mask")
    inputs = [None if i == at else batch.folded(i) for i in range(len(batch.inputs))]
    mask = batch.inputs[at]
    if batch.batched[at]:
        ndim, n = batch.ndim(0), batch.whole(0).shape[1]
        mask = batch.aligned(at, ndim)
        mask = mask.expand(batch.size, n, *mask.shape[2:])
        mask = mask.reshape(batch.size * n, *mask.shape[2:])
    elif mask is not None and mask.ndim == batch.ndim(0) and mask.shape[0] != 1:
        mask = mask.repeat(batch.size, *(1,) * (mask.ndim - 1))
    inputs[at] = mask
    return _each(op.call(inputs, params), batch.unfold)


@rule
def norm_of_rows(op: Any, batch: Batch, params: Params) -> Any:
    """Norms over the last dims; weights of each example are applied by themselves."""
    x, *affine = batch.wholes
    if not any(batch.batched[1:]):
        return _each(op.call((x, *batch.inputs[1:]), params))
    out, *statistics = op.call((x, *(None for _ in affine)), params)
    shapes = [batch.aligned(i, batch.ndim(0)) for i in range(1, len(batch.inputs))]
    for apply, value in zip((operator.mul, operator.add), shapes):
        out = out if value is None else apply(out, value)
    return _each((out, *statistics))


@rule
def norm_of_rows_backward(op: Any, batch: Batch, params: Params) -> Any:
    """The gradients of x, weight and bias, the latter summed over the rows of each example."""
    (n,) = params
    y, x, w, *statistics = batch.wholes
    kind = x.dtype
    if kind.itemsize < 4:
        y, x, w = (v if v is None else v.float() for v in (y, x, w))
    if w is not None:
        w = w.reshape(batch.size, *(1,) * (x.ndim - n - 1), *w.shape[1:])
    last, lead = tuple(range(x.ndim - n, x.ndim)), tuple(range(1, x.ndim - n))
    *mean, rstd = (v.reshape(*v.shape, *(1,) * n) for v in statistics)
    normal = (x - mean[0] if mean else x) * rstd
    g = y if w is None else y * w
    dx = g - normal * (g * normal).mean(last, keepdim=True)
    dx = rstd * (dx - g.mean(last, keepdim=True) if mean else dx)
    total = lambda v: v.sum(lead) if lead else v
    found = (dx, total(y * normal), total(y))[: 2 + len(mean)]
    return _each(found, lambda v: v.to(kind))


@rule
def definition(op: Any, batch: Batch, params: Params) -> Any:
    """None: the record is decomposed."""
    return None
