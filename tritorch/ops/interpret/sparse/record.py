"""Sparse operators: their record, how values and indices become tensors and back, and the rules.

A rule is what a dense operator does with sparse operands; `record/interpreters.py` finds it by the
record's name.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from tritorch import _C
from tritorch.arrays.sparse import BLOCKED, BY_ROW, SHOWN, SparseArray
from tritorch.core import defaults, layout as layouts, published, scopes
from tritorch.core.dtype import bool_
from tritorch.core.tensor import Tensor
from tritorch.ops.record.groups import Gradient
from tritorch.ops.record.operator import Operator

RULES: dict[str, Callable[..., Any]] = {}  # by the dense operator's name


def rule(*names: str) -> Callable[[Any], Any]:
    """Registers what dense operators do with sparse operands: rule(*tensors, *params)."""

    def register(function: Any) -> Any:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def is_sparse(x: Any) -> bool:
    """Whether a value is a tensor of a sparse layout."""
    return isinstance(x, Tensor) and type(x._array) is SparseArray


def layout_of(x: Tensor) -> layouts.layout:
    """A tensor's layout."""
    array = x._array
    return array.layout if type(array) is SparseArray else layouts.strided


def backend_of(x: Tensor) -> str:
    """A backend's name in PyTorch's messages."""
    array = x._array
    family = ""
    if type(array) is SparseArray:
        family = "Sparse" if array.plain is None else "SparseCsr"
    return family + x.device.type.upper()


def cannot_run(name: str, x: Tensor) -> NotImplementedError:
    """PyTorch's complaint about an operator that a layout lacks."""
    return NotImplementedError(
        f"Could not run 'aten::{name}' with arguments from the '{backend_of(x)}' backend. The "
        f"operator does not exist for tensors of this layout; to_dense() makes a dense tensor."
    )


def dispatch(op: Any, tensors: Sequence[Any], params: tuple[Any, ...]) -> Any:
    """A dense operator on operands of which some are sparse."""
    found = RULES.get(op.name)
    if found is None:
        raise cannot_run(op.name, next(t for t in tensors if is_sparse(t)))
    return found(list(tensors), *params) if op.variadic else found(*tensors, *params)


class SparseOperator(Operator):
    """An operator on sparse arrays; its function gets these, and dense tensors without history."""

    def __init__(self, name: str, inputs: str, params: str = "", **options: Any) -> None:
        self._function = options.pop("cpu")
        super().__init__(name, inputs, params, cpu=self._function, kind="sparse", **options)

    def call(self, tensors: Sequence[Any], params: tuple[Any, ...] = ()) -> Any:
        """Runs, and records the call."""
        if any(isinstance(t, Tensor) and t._tangent is not None for t in tensors):
            return self._careful(tensors, params)
        with scopes.unrecorded:
            result = self._function(*map(_bare, tensors), *params)
        array = result._array if isinstance(result, Tensor) else result
        return self.finish_with(array, params, *tensors)

    def renamed(self, title: str) -> SparseOperator:
        """The same, whose node has another name."""
        made = self.like(f"{self.name}_{title.rpartition('::')[2]}", title)
        return made  # type: ignore[return-value]

    def like(self, name: str, node: str, **changes: Any) -> Operator:
        """The same operator under another name."""
        return SparseOperator(
            name, " ".join(self.inputs), " ".join(self.params),
            cpu=self._function, composed=self.composed, grad=self.gradient._replace(node=node),
            **({"schema": self.declared_schema} | changes),
        )  # fmt: skip


def _bare(x: Any) -> Any:
    if not isinstance(x, Tensor):
        return x
    return x._array if type(x._array) is SparseArray else _C.alias(x)


# ---- places --------------------------------------------------------------------------------------


def arange(n: int, like: Tensor) -> Tensor:
    """0 .. n - 1, where another tensor is."""
    return published.public.arange(n, device=like.device)


def flat_keys(indices: Tensor, shape: Sequence[int]) -> Tensor:
    """Places (dims x entries) as numbers in row-major order."""
    keys = indices.new_zeros((indices.shape[1],))
    for row, n in zip(indices.unbind(0), shape):
        keys = keys * n + row
    return keys


def from_keys(keys: Tensor, shape: Sequence[int]) -> Tensor:
    """Numbers in row-major order as places."""
    rows: list[Tensor] = []
    for n in reversed(shape):
        rows.append(keys % max(n, 1))
        keys = published.public.div(keys, max(n, 1), rounding_mode="floor")
    rows.reverse()
    return published.public.stack(rows) if rows else keys.new_zeros((0, keys.shape[0]))


def key_shape(a: SparseArray) -> tuple[int, ...]:
    """The sizes of the dims that places have."""
    return a.shape[: a.ndim - a.dense_dims]


def coordinates(a: SparseArray) -> Tensor:
    """The places of all entries, one column each, in the order of `flat_values`."""
    if a.plain is None:
        return a.indices
    batch = a.indices.shape[:-1]
    n_batches, n, nnz = math.prod(batch), a.indices.shape[-1] - 1, a.nnz
    pointers, minor = a.indices.reshape(n_batches, n + 1), a.plain.reshape(-1)
    pointers, minor = pointers.long(), minor.long()
    counts = (pointers[:, 1:] - pointers[:, :-1]).reshape(-1)
    major = published.public.repeat_interleave(counts, output_size=n_batches * nnz)
    if batch:
        major = major % n
    rows, cols = (major, minor) if a.layout in BY_ROW else (minor, major)
    block = a.block
    lead = arange(n_batches, minor).repeat_interleave(nnz) if batch else minor
    if block is not None:
        h, w = block
        rows = (rows[:, None] * h + arange(h, rows)).repeat_interleave(w, 1).reshape(-1)
        cols = (cols[:, None] * w + arange(w, cols)).repeat(1, h).reshape(-1)
        lead = lead.repeat_interleave(h * w) if batch else minor
    matrix = published.public.stack([rows, cols])
    return published.public.cat([from_keys(lead, batch), matrix]) if batch else matrix


def flat_values(values: Tensor, a: SparseArray) -> Tensor:
    """A compressed array's values with one leading dim for batches, entries and blocks."""
    if a.plain is None:
        return values
    dense = tuple(a.shape[a.ndim - a.dense_dims :])
    lead = math.prod(values.shape[: values.ndim - a.dense_dims])
    return values.reshape(lead, *dense)


def gather(x: Any, places: Tensor) -> Tensor:
    """The elements of a tensor of any layout at places (dims x entries)."""
    if is_sparse(x):
        return _look_up(x, places)
    if places.shape[0] == 0:
        return x.unsqueeze(0).expand(places.shape[1], *x.shape)
    return x[tuple(places.unbind(0))]


def _look_up(x: Tensor, places: Tensor) -> Tensor:
    x = in_coo(x)
    own = x._array
    if own.indices is places and own.coalesced:
        return values_of(x)
    x = coalesced(x)
    own, values = x._array, values_of(x)
    shape = key_shape(own)
    if places.shape[0] > own.sparse_dims:
        # Places of the dense dims too: by the sparse part first.
        rows = _at(own, values, places[: own.sparse_dims], shape)
        inner = places[own.sparse_dims :]
        return rows[(arange(places.shape[1], places), *inner.unbind(0))]
    return _at(own, values, places, shape)


def _at(own: SparseArray, values: Tensor, places: Tensor, shape: Sequence[int]) -> Tensor:
    if own.nnz == 0:
        return values.new_zeros((places.shape[1], *values.shape[1:]))
    keys, wanted = flat_keys(own.indices, shape), flat_keys(places, shape)
    at = published.public.searchsorted(keys, wanted).clamp(max=own.nnz - 1)
    found = (keys.index_select(0, at) == wanted).reshape(-1, *(1,) * (values.ndim - 1))
    return published.public.where(found, values.index_select(0, at), values.new_zeros(()))


# ---- into a sparse tensor and out of it ----------------------------------------------------------


def _make_coo(values: Tensor, indices: Tensor, shape: Any, coalesced: bool) -> SparseArray:
    return SparseArray(layouts.sparse_coo, shape, indices, values, None, coalesced)


_coo = SparseOperator(
    "sparse_coo", "values", "indices shape coalesced",
    schema="(Tensor values, Tensor indices, SymInt[] shape, bool coalesced) -> Tensor",
    cpu=_make_coo,
    grad=Gradient(lambda g, indices: gather(g, indices), node="SparseCooTensorWithDimsAndTensors"),
)  # fmt: skip


def _make_compressed(values: Tensor, pattern: SparseArray) -> SparseArray:
    return pattern.with_values(values)


_compressed = SparseOperator(
    "sparse_compressed", "values", "pattern",
    schema="(Tensor values, Any pattern) -> Tensor", cpu=_make_compressed,
    grad=Gradient(lambda g, pattern: gather_like(g, pattern), node="SparseCompressedTensor"),
)  # fmt: skip


def gather_like(x: Tensor, pattern: SparseArray) -> Tensor:
    """The elements of a tensor at a pattern's places, in the shape of its values."""
    array = x._array
    same = type(array) is SparseArray and array.layout is pattern.layout
    same = same and (array.plain is not None or array.coalesced)
    if same and array.indices is pattern.indices and array.plain is pattern.plain:
        return values_of(x)
    found = gather(x, coordinates(pattern))
    return found if pattern.plain is None else found.reshape(pattern.values.shape)


@functools.cache
def _named(op: SparseOperator, title: str) -> SparseOperator:
    return op.renamed(title)


def coo(
    indices: Tensor, values: Tensor, shape: Sequence[int], coalesced: bool = False, title: str = ""
) -> Tensor:
    """A COO tensor that gradients flow through to its values; title: its node's name."""
    op = _named(_coo, title) if title else _coo
    return op.call((values,), (indices, tuple(shape), coalesced))


def filled(pattern: SparseArray, values: Tensor, title: str = "") -> Tensor:
    """A tensor with a pattern's places and other values."""
    if pattern.plain is None:
        return coo(pattern.indices, values, pattern.shape, pattern.coalesced, title)
    op = _named(_compressed, title) if title else _compressed
    return op.call((values,), (pattern,))


def _values_grad(g: Tensor, pattern: SparseArray) -> Tensor:
    if pattern.plain is not None or pattern.coalesced:
        return filled(pattern, g)
    # Entries of one place have the same gradient: that of the sum.
    keys = flat_keys(pattern.indices, key_shape(pattern))
    order = published.public.argsort(keys, stable=True)
    first = order[_starts(keys.index_select(0, order))]
    return coo(
        pattern.indices.index_select(1, first), g.index_select(0, first), pattern.shape, True
    )


# The pattern is a parameter of its own: an in-place change of x's values leaves it valid.
_values = SparseOperator(
    "values",
    "x",
    "pattern",
    schema="(Tensor x, Any pattern) -> Tensor",
    cpu=lambda a, pattern: a.values,
    grad=_values_grad,
)


def values_of(x: Tensor) -> Tensor:
    """The values, with gradients.  Of an uncoalesced tensor: only for what is linear in them."""
    return _values.call((x,), (pattern_of(x),))


def pattern_of(x: Tensor) -> SparseArray:
    """The places of a tensor as they are now."""
    array = x._array
    return array.with_values(array.values)


def _starts(keys: Tensor) -> Tensor:
    """Where a run of equal sorted keys begins, as a mask."""
    first = keys.new_ones((min(1, keys.shape[0]),), dtype=_bool())
    return published.public.cat([first, keys[1:] != keys[:-1]])


def _bool() -> Any:
    return bool_


def _coalesce(a: SparseArray) -> SparseArray:
    if a.coalesced or a.nnz == 0:
        return SparseArray(a.layout, a.shape, a.indices, a.values, None, True)
    shape = key_shape(a)
    keys, values = flat_keys(a.indices, shape), a.values
    steps = keys[1:] - keys[:-1]
    if bool((steps <= 0).any()):
        keys, order = published.public.sort(keys, stable=True)
        values = values.index_select(0, order)
    starts = _starts(keys)
    kept = keys[starts]
    n = kept.shape[0]
    if n < keys.shape[0]:
        values = _sum_runs(values, starts, n)
    return SparseArray(a.layout, a.shape, from_keys(kept, shape), values, None, True)


def _sum_runs(values: Tensor, starts: Tensor, n: int) -> Tensor:
    """Sums of runs of rows; bools are joined by "or"."""
    segment = starts.long().cumsum(0) - 1
    if values.dtype is _bool():
        counts = values.new_zeros((n, *values.shape[1:]), dtype=segment.dtype)
        return counts.index_add(0, segment, values.long()) != 0
    if not values.is_cuda:
        from tritorch.host.linalg.sparse import sum_runs

        return _C.wrap(sum_runs(values._array, starts._array, segment._array))
    return values.new_zeros((n, *values.shape[1:])).index_add(0, segment, values)


_coalesce_op = SparseOperator("coalesce", "x", cpu=_coalesce, grad=lambda g: g)


def coalesced(x: Tensor) -> Tensor:
    """x with sorted places that occur once; itself if it is so."""
    return x if x._array.coalesced else _coalesce_op.call((x,))


def _dense(a: SparseArray, pattern: SparseArray, masked: bool) -> Tensor:
    values, places = flat_values(a.values, a), coordinates(a)
    if a.dense_dims == a.ndim:  # no dim is indexed
        return values.sum(0).to(values.dtype)
    out = values.new_zeros(a.shape)
    if not values.shape[0]:
        return out
    if values.dtype is _bool() and not a.coalesced and a.plain is None:
        b = _coalesce(a)
        values, places = b.values, b.indices
    if a.coalesced or a.plain is not None:
        return out.index_put_(tuple(places.unbind(0)), values)
    return out.index_put_(tuple(places.unbind(0)), values, accumulate=True)


def _dense_grad(g: Tensor, pattern: SparseArray, masked: bool) -> Tensor:
    if is_sparse(g):
        return g
    if masked:
        return masked_by(g, coalesced_pattern(pattern))
    from tritorch.ops.interpret.sparse.convert import convert

    sparse_dim = pattern.sparse_dims if pattern.plain is None else None
    return convert(g, pattern.layout, pattern.block, pattern.dense_dims, sparse_dim)


_to_dense = SparseOperator(
    "to_dense",
    "x",
    "pattern masked",
    schema="(Tensor x, Any pattern, bool masked) -> Tensor",
    cpu=_dense,
    grad=_dense_grad,
)


def dense_of(x: Tensor, masked: bool) -> Tensor:
    """The dense tensor; masked: whether the gradient is that of the entries alone."""
    return _to_dense.call((x,), (pattern_of(x), masked))


def coalesced_pattern(pattern: SparseArray) -> SparseArray:
    """The same places, each once."""
    if pattern.plain is not None or pattern.coalesced:
        return pattern
    with scopes.unrecorded:
        return _coalesce(pattern)


def masked_by(x: Tensor, pattern: SparseArray, title: str = "") -> Tensor:
    """The elements of x at a pattern's places."""
    return filled(pattern, gather_like(x, pattern), title)


def in_coo(x: Tensor, title: str = "") -> Tensor:
    """A sparse tensor as COO; itself if it is."""
    array = x._array
    if array.plain is None:
        return x
    values = flat_values(values_of(x), array)
    indices = coordinates(array)
    ordered = array.layout is layouts.sparse_csr
    if not ordered:
        keys = flat_keys(indices, key_shape(array))
        order = published.public.argsort(keys, stable=True)
        indices, values = indices.index_select(1, order), values.index_select(0, order)
    return coo(indices, values, array.shape, True, title)


__all__ = ["BLOCKED", "SHOWN", "SparseArray", "SparseOperator", "cannot_run", "coo", "rule"]


def warn_of_compressed(kind: Any) -> None:
    """A tensor of a compressed layout is made."""
    name = str(kind).rpartition("_")[2].upper()
    defaults.warn_once(
        f"Sparse {name} tensor support is in beta state. If you miss a functionality in the sparse "
        "tensor support, please submit a feature request to "
        "https://github.com/pytorch/pytorch/issues.",
        stacklevel=5,
        of="sparse compressed tensors",
    )
