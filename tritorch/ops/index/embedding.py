"""Embeddings and one-hot."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.arrays.meta import MetaArray
from tritorch.autograd import no_grad
from tritorch.core import defaults, published
from tritorch.core.dispatching import asked, entered
from tritorch.core.dtype import float32, int32, int64
from tritorch.core.published import PUBLIC
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.sparse.record import coo
from tritorch.ops.record import checks
from tritorch.ops.record.backends import backend
from tritorch.ops.record.checks import require_tensor
from tritorch.ops.record.groups import Gradient, Rules
from tritorch.ops.record.operator import Operator, laid_out, ndarray
from tritorch.ops.record.publishing import functional
from tritorch.ops.record.spelling import BAGS, spelled
from tritorch.ops.reduce.reduction import vector_norm
from tritorch.ops.shape.factory import zeros
from tritorch.ops.shape.ranges import arange
from tritorch.ops.shape.shape import reshape

_embedding = Operator(
    "embedding",
    "weight indices",
    "padding by_frequency",
    cpu=lambda w, i, p, f: backend("cpu", "indexing").rows(w, i),
    gpu=lambda w, i, p, f: backend("gpu", "indexing").index(w, (i,)),
    composed=lambda weight, indices, *rest: weight.index_select(0, indices.reshape(-1)).reshape(
        *indices.shape, weight.shape[1]
    ),
    fuses="rows",
    grad=(
        lambda g, weight_shape, indices, padding, by_frequency: _back.call(
            (g, indices), (weight_shape[0], padding, by_frequency)
        ),
        None,
    ),
    rules=Rules(
        infer=lambda w, i, *rest: w.new((*i.shape, *w.shape[1:])),
        axes="v@e,...->...e",
        batch="embedding",
        picks=True,
    ),
)
_back: Operator = Operator(
    "embedding_backward", "y indices", "n padding by_frequency",
    schema="embedding_dense_backward(y, indices, n, padding, by_frequency)", kind="internal",
    cpu="embedding.embedding_backward",
    grad=(lambda g, indices, padding: _gather_rows(g, indices, padding), None),
    rules=Rules(
        infer=lambda y, i, n, *rest: y.new((n, *y.shape[i.ndim:])), axes="...e,...->ve",
        batch="embedding_backward",
    ),
)  # fmt: skip


def _rows_grad(
    g: Tensor, weight_shape: Any, indices: Tensor, padding: int, by_frequency: bool
) -> Tensor:
    """A sparse gradient: one entry for each index, but for the padding's."""
    if by_frequency:
        raise RuntimeError(
            "embedding_backward: scale_grad_by_freq not supported with sparse gradients"
        )
    places = reshape(indices, -1)
    rows = reshape(g, (places.shape[0], weight_shape[1]))
    if padding >= 0:
        kept = reshape((places != padding).nonzero(), -1)
        places, rows = places.index_select(0, kept), rows.index_select(0, kept)
    return coo(places.unsqueeze(0), rows, weight_shape)


_embedding_sparse = Operator(
    "embedding_sparse", "weight indices", "padding by_frequency",
    schema="embedding(weight, indices, padding, by_frequency, True)", kind="sparse",
    cpu=_embedding._cpu, gpu=_embedding._gpu, grad=Gradient((_rows_grad, None), node="Embedding"),
    rules=Rules(picks=True),
)  # fmt: skip


def _gather_rows(g: Tensor, indices: Tensor, padding: int) -> Tensor:
    rows = _embedding.call((g, indices), (padding, False))
    return rows.masked_fill((indices == padding).unsqueeze(-1), 0) if padding >= 0 else rows


def _check_indices(indices: Tensor, rows: int) -> None:
    if not rows and indices.numel():
        raise RuntimeError("index_select(): self indexing axis dim should be positive")
    checks.values(_require_rows, (indices,), rows)


@checks.looks_at_values(cpu_only=True)
def _require_rows(indices: Any, rows: int) -> None:
    if backend("cpu", "indexing").outside(indices, rows) is not None:
        raise IndexError("index out of range in self")


@checks.looks_at_values(cpu_only=True)
def _require_rows_of_bags(indices: Any, rows: int, listed: bool) -> None:
    bad = backend("cpu", "indexing").outside(indices, rows)
    if bad is None:
        return
    if listed:  # PyTorch's fast path, which has no padding and no maxima
        place = int(np.flatnonzero((indices < 0) | (indices >= rows))[0])
        raise RuntimeError(
            f"Index {place} of input takes value {bad} which is not in the valid range [0, {rows})"
        )
    raise RuntimeError(
        f"embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {bad}"
    )


@checks.looks_at_values(cpu_only=True)
def _require_bounds_of_bags(offsets: Any, length: int) -> None:
    if not offsets.size:
        return
    if offsets[0]:
        raise RuntimeError(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
            f"position 0. However, got {offsets[0]}"
        )
    if offsets[-1] > length:
        raise RuntimeError(
            f"offsets[-1] can not be greater than input's length {length} but got offsets[-1] of "
            f"{offsets[-1]}"
        )


def _integers(name: str, indices: Tensor) -> Tensor:
    if indices.dtype is int64:
        return indices
    if indices.dtype is not int32:
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar "
            f"types: Long, Int; but got {indices.type()} instead (while checking "
            f"arguments for {name})"
        )
    return indices.to(int64)


@functional
def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of weight at indices."""
    require_tensor(weight, "embedding", "weight", 1)  # PyTorch's operator has them in this order
    require_tensor(input, "embedding", "indices", 2)
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    padding = _padding(padding_idx, weight)
    indices = _integers("embedding", input)
    _check_indices(indices, weight.shape[0])
    if max_norm is not None:
        _renormalise(weight, indices, max_norm, norm_type)
    op = _embedding_sparse if sparse else _embedding
    return op.call((weight, indices), (padding, bool(scale_grad_by_freq)))


def _padding(padding_idx: int | None, weight: Tensor) -> int:
    if padding_idx is None:
        return -1
    rows = weight.shape[0]
    if not -rows <= padding_idx < rows:
        raise AssertionError("Padding_idx must be within num_embeddings")
    return padding_idx % rows


def _renormalise(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> None:
    if weight._is_described:
        return
    with no_grad():
        rows = indices.reshape(-1).unique()
        used = weight.index_select(0, rows)
        norms = vector_norm(used, norm_type, 1, keepdim=True)
        scale = published.public.where(
            norms > max_norm, max_norm / (norms + 1e-7), published.public.ones_like(norms)
        )
        weight.index_copy_(0, rows, used * scale)


def _public_embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """embedding, in the order of torch.embedding."""
    return embedding(
        indices,
        weight,
        padding_idx if padding_idx >= 0 else None,
        scale_grad_by_freq=scale_grad_by_freq,
        sparse=sparse,
    )


PUBLIC["embedding"] = _public_embedding

_MODES = {"sum": 0, "mean": 1, "max": 2}


def _composed_bag(
    weight: Tensor, indices: Tensor, offsets: Tensor, weights: Tensor | None, mode: str,
    include_last: bool, padding: int,
) -> Tensor:  # fmt: skip
    wanted = None if padding < 0 else padding
    return _Bags(weight, indices, offsets, False, weights, include_last, wanted).composed(mode)


def _bag_results(w: MetaArray, i: Any, offsets: MetaArray, s: Any, mode: str, last: bool,
                 padding: int) -> MetaArray:  # fmt: skip
    return w.new((offsets.shape[0] - last, w.shape[1]))


_bag = Operator(
    "embedding_bag", "weight indices offsets weights", "mode include_last padding",
    schema="(Tensor weight, Tensor indices, Tensor offsets, Tensor? weights, str mode, bool "
        "include_last, int padding) -> Tensor",
    cpu=lambda w, i, o, s, *rest: backend("cpu", "embedding").embedding_bag(w, i, o, s, *rest),
    composed=_composed_bag,
    grad=Gradient(
        joint=lambda g, weight, indices, offsets, weights, mode, include_last, padding: _bag_grads(
            g, weight, indices, offsets, weights, mode, include_last, padding),
    ),
    rules=Rules(infer=_bag_results, axes="v@e,?,?,?->be", batch="definition", picks=True),
)  # fmt: skip
# Without weights, sums and means depend on the rows linearly: no gradient reads them.
_linear_bag = Operator(
    "embedding_bag_linear", "weight indices offsets weights", "mode include_last padding",
    schema="(Tensor weight, Tensor indices, Tensor offsets, Tensor? weights, str mode, bool "
        "include_last, int padding) -> Tensor",
    cpu=_bag._cpu, composed=_composed_bag,
    grad=Gradient(
        joint=lambda g, weight_shape, indices, offsets, mode, include_last, padding: _bag_grads(
            g, g.new_zeros(weight_shape), indices, offsets, None, mode, include_last, padding),
        node="EmbeddingBag", unread="weight",
    ),
    rules=Rules(infer=_bag_results, axes="v@e,?,?,?->be", batch="definition", picks=True),
)  # fmt: skip
_bag_back = Operator(
    "embedding_bag_backward", "y weight indices offsets weights", "mode include_last padding",
    schema="(Tensor y, Tensor weight, Tensor indices, Tensor offsets, Tensor? weights, str "
        "mode, bool include_last, int padding) -> (Tensor, Tensor)",
    kind="internal", cpu=lambda *given: backend("cpu", "embedding").embedding_bag_backward(*given),
    grad=Gradient(outputs=0b11),
    rules=Rules(
        infer=lambda y, w, i, o, s, *rest: (
            w.new(w.shape), y.new((0,)) if s is None else s.new(s.shape)
        ),
    ),
)  # fmt: skip


def _bag_grads(g: Tensor, weight: Tensor, indices: Tensor, offsets: Tensor, weights: Any,
               *params: Any) -> tuple[Any, ...]:  # fmt: skip
    by_weight, by_weights = _bag_back.call((g, weight, indices, offsets, weights), params)
    return by_weight, None, None, None if weights is None else by_weights


def _is_plain(x: Tensor) -> bool:
    """Whether the CPU's own kernel takes a tensor, or would take the one that is described."""
    kind = type(x._array)
    twin = kind is MetaArray and entered.note is not None and x.device.type == "cpu"
    return (kind is ndarray or (twin and x._is_described)) and x._tangent is None and not asked(x)


@functional
@spelled(
    lambda input, weight, offsets, max_norm, norm_type, scale_grad_by_freq, mode, sparse,
    per_sample_weights, include_last_offset, padding_idx: None if offsets is None or max_norm
    else ("embedding_bag.padding_idx", (
        weight, input, offsets, scale_grad_by_freq, BAGS.index(mode), sparse, per_sample_weights,
        include_last_offset, padding_idx,
    ))
)  # fmt: skip
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sums, means or maxima of bags of rows."""
    if weight.dtype.name == "int64" and input.is_floating_point():
        defaults.warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag"
            "(weight, input, ...)` is deprecated, and should now be `embedding_bag(input, weight, "
            "...)`.",
            stacklevel=2,
        )
        weight, input = input, weight
    if mode not in _MODES:
        raise ValueError("mode has to be one of sum, mean or max")
    if per_sample_weights is not None and per_sample_weights.shape != input.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then "
            f"it must have the same shape as the input ({input.shape})"
        )
    if weight.ndim != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.ndim}")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            f"embedding_bag: per_sample_weights was not None. per_sample_weights is only "
            f"supported for "
            f"mode='sum' (got mode='{mode}'). Please open a feature request on GitHub."
        )
    ordered = False
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError(
                f"if input is 2D, then offsets has to be None, as input is treated is a "
                f"mini-batch of "
                f"fixed length sequences. However, found offsets of type {type(offsets)}"
            )
        bags, length = input.shape
        offsets = arange(bags, device=input.device) * length
        input = reshape(input, -1)
        if per_sample_weights is not None:
            per_sample_weights = reshape(per_sample_weights, -1)
        include_last_offset, ordered = False, True
    elif input.ndim == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.ndim != 1:
            raise ValueError("offsets has to be a 1D Tensor")
    else:
        raise ValueError(
            f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}"
        )
    if max_norm is not None:
        _renormalise(weight, _integers("embedding_bag", input), max_norm, norm_type)
    if sparse and mode == "max":
        raise RuntimeError("embedding_bag: max mode does not support sparse weights")
    rows = weight.shape[0]
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise RuntimeError(
            f"padding_idx must be within the number of embeddings, {-rows} through {rows - 1}, but "
            f"got {padding_idx}"
        )
    padding = None if padding_idx is None else padding_idx % rows
    return _Bags(
        weight, input, offsets, scale_grad_by_freq, per_sample_weights, include_last_offset,
        padding, sparse, mode == "max",
    ).pool(mode, ordered)  # fmt: skip


class _Bags:
    """Which rows of weight lie in which bag."""

    def __init__(
        self,
        weight: Tensor,
        indices: Tensor,
        offsets: Tensor,
        by_frequency: bool,
        weights: Tensor | None,
        include_last_offset: bool,
        padding: int | None,
        sparse: bool = False,
        maxima: bool = False,
    ) -> None:
        indices = _integers("embedding_bag", indices)
        starts = _integers("embedding_bag", offsets)
        if weights is not None and weights.dtype is not weight.dtype:
            raise RuntimeError(
                "Expected tensor for argument #1 'weight' to have the same type as tensor for "
                f"argument #1 'per_sample_weights'; but type {weight.type()} does not equal "
                f"{weights.type()} (while checking arguments for embedding_bag)"
            )
        listed = padding is None and not maxima and not by_frequency
        checks.values(_require_bounds_of_bags, (starts,), indices.shape[0])
        checks.values(_require_rows_of_bags, (indices,), weight.shape[0], listed)
        self.count = starts.shape[0] - bool(include_last_offset)
        self.given = (weight, indices, starts, weights)
        self.options = (bool(include_last_offset), -1 if padding is None else padding)
        self.is_plain = not (by_frequency or sparse)
        self.embed = (_embedding_sparse if sparse else _embedding, bool(by_frequency))

    @functools.cached_property
    def bag_of(self) -> Tensor:
        """The bag of each index: how many bags end before it or there."""
        _, indices, starts, _ = self.given
        n = indices.shape[0]
        ends = starts.narrow(0, 1, self.count - 1) if self.count else starts
        if self.options[0]:
            ends = starts.narrow(0, 1, self.count)
        ones = ends.new_ones(ends.shape)
        passed = starts.new_zeros((n + 1,)).index_add(0, ends.clamp(0, n), ones)
        return passed.narrow(0, 0, n).cumsum(0)

    @functools.cached_property
    def _kept(self) -> tuple[Tensor, Tensor, Tensor]:
        """Rows, bags and places in weight of the indices that count."""
        (weight, indices, _, weights), (_, padding) = self.given, self.options
        op, by_frequency = self.embed
        rows, bag = op.call((weight, indices), (padding, by_frequency)), self.bag_of
        if weights is not None:
            rows = rows * weights.unsqueeze(1)
        if padding >= 0 and not indices._is_described:
            chosen = (indices != padding).nonzero().reshape(-1)
            rows, bag, indices = (v.index_select(0, chosen) for v in (rows, bag, indices))
        return rows, bag, indices

    rows = property(lambda self: self._kept[0])
    bag = property(lambda self: self._kept[1])
    indices = property(lambda self: self._kept[2])

    def pool(self, mode: str, ordered: bool = False) -> Tensor:
        """A row for each bag; half types add in float32.  ordered: it is known that bags are."""
        if self.is_plain and all(x is None or _is_plain(x) for x in self.given):
            starts = self.given[2]._array
            if ordered or not (starts[1:] < starts[:-1]).any():
                op = _linear_bag if self.given[3] is None and mode != "max" else _bag
                return op.call(self.given, (mode, *self.options))
        return self.composed(mode)

    def composed(self, mode: str) -> Tensor:
        """The same by smaller operators."""
        rows = self.rows
        if rows.dtype.itemsize == 2 and mode != "max":
            return self._pool(rows.to(float32), mode).to(rows.dtype)
        return self._pool(rows, mode)

    def _pool(self, rows: Tensor, mode: str) -> Tensor:
        bag = self.bag
        out = rows.new_zeros((self.count, rows.shape[1]))
        if mode == "max":
            if rows.shape[0] == 0:
                return out
            index = bag.unsqueeze(1).expand(rows.shape)
            return out.scatter_reduce(0, index, rows, "amax", include_self=False)
        out = out.index_add(0, bag, rows)
        if mode == "mean":
            out = out / self.sizes().clamp(min=1).to(rows.dtype).unsqueeze(1)
        return out

    def sizes(self) -> Tensor:
        """How many rows each bag has."""
        return self.bag.new_zeros((self.count,)).index_add(0, self.bag, self.bag.new_ones(
            (self.bag.shape[0],)))  # fmt: skip

    def largest(self, pooled: Tensor) -> Tensor:
        """Where in weight each maximum is, the first of equals; 0 in empty bags."""
        n, width = self.rows.shape
        if not n:
            return self.bag.new_zeros((self.count, width))
        places = arange(n, device=self.bag.device).unsqueeze(1)
        hit = self.rows == pooled.index_select(0, self.bag)
        places = published.public.where(hit, places, n - 1)
        index = self.bag.unsqueeze(1).expand(places.shape)
        none = self.bag.new_full((self.count, width), n)
        first = none.scatter_reduce(0, index, places, "amin")
        known = self.indices.index_select(0, first.clamp(max=n - 1).reshape(-1))
        return published.public.where(first < n, known.reshape(first.shape), 0)


def _check_bags(
    weight: Tensor, indices: Tensor, offsets: Tensor, mode: int, weights: Tensor | None,
    include_last_offset: bool, padding_idx: int | None,
) -> None:  # fmt: skip
    if weight.ndim != 2:
        raise RuntimeError(
            f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.ndim}"
        )
    if offsets.ndim != 1:
        raise RuntimeError(
            f"offsets has to be a 1D Tensor, but got Tensor of dimension {offsets.ndim}"
        )
    if indices.ndim != 1:
        raise RuntimeError(
            f"input has to be a 1D Tensor, but got Tensor of dimension {indices.ndim}"
        )
    if mode not in _MODES.values():
        raise RuntimeError("`mode` must be sum, mean, or max.")
    rows = weight.shape[0]
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise RuntimeError(
            f"padding_idx must be within the number of embeddings, {-rows} through {rows - 1}, but "
            f"got {padding_idx}"
        )
    if include_last_offset and not offsets.numel():
        raise RuntimeError("include_last_offset: number of offset should be at least 1")
    if weights is not None:
        if mode != _MODES["sum"]:
            raise RuntimeError("embedding_bag: per_sample_weights only supported with mode='sum'")
        if weights.dtype is not weight.dtype:
            raise RuntimeError(
                f"Expected tensor for argument #1 'weight' to have the same type as tensor for "
                f"argument #1 'per_sample_weights'; but type {weight.type()} does not equal "
                f"{weights.type()} (while checking arguments for embedding_bag)"
            )
        if weights.numel() != indices.numel():
            raise RuntimeError(
                f"embedding_bag: {weights.numel()} per_sample_weights for {indices.numel()} indices"
            )
    if offsets.numel():
        checks.values(_require_bags, (offsets,), indices.shape[0])


@checks.looks_at_values(cpu_only=True)
def _require_bags(offsets: Any, count: int) -> None:
    first, last = int(offsets[0]), int(offsets[-1])
    if first != 0:
        raise RuntimeError(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start "
            f"from position 0. However, got {first}"
        )
    if last > count:
        raise RuntimeError(
            f"offsets[-1] can not be greater than input's length {count} but got offsets[-1] of "
            f"{last}"
        )


def _public_embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Pooled bags, the bag of each index, the bags' sizes, and where the maxima are.

    Sums leave sizes (and, without padding, the bags) out, as in PyTorch."""
    _check_bags(
        weight, indices, offsets, mode, per_sample_weights, include_last_offset, padding_idx
    )
    padding = None if padding_idx is None else padding_idx % weight.shape[0]
    bags = _Bags(weight, indices, offsets, scale_grad_by_freq, per_sample_weights,
                 include_last_offset, padding, sparse)  # fmt: skip
    out = bags.pool(next(name for name, number in _MODES.items() if number == mode))
    if mode == _MODES["sum"]:
        sizes = bags.bag.new_zeros((offsets.shape[0],))
        plain = padding is None and weight.dtype.itemsize < 8 and not weight.is_cuda
        return out, sizes[:0] if plain else bags.bag_of, sizes, sizes.clone()
    sizes = bags.sizes()
    return out, bags.bag_of, sizes, bags.largest(out) if mode == _MODES["max"] else sizes.clone()


_public_embedding_bag.__name__ = _public_embedding_bag.__qualname__ = "embedding_bag"
PUBLIC["embedding_bag"] = _public_embedding_bag


def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Scales the rows at indices down to a norm, in place."""
    if indices.dtype not in (int32, int64):
        raise RuntimeError(
            "Expected tensor for argument #2 'indices' to have one of the following scalar types: "
            f"Long, Int; but got {indices.type()} instead (while checking arguments for "
            "embedding_renorm_)"
        )
    _check_indices(indices, input.shape[0])
    _renormalise(input, indices.to(int64), max_norm, norm_type)
    return input


PUBLIC["embedding_renorm_"] = embedding_renorm_


@checks.looks_at_values
def _require_one_hot(array: Any, classes: int) -> None:
    """Raises where an index is no class."""
    if type(array) is ndarray:
        if classes > 0 and backend("cpu", "indexing").outside(array, classes) is None:
            return
        least, largest = int(array.min()), int(array.max())
    else:
        indices = _C.wrap(array)
        with checks.unnoted():
            least, largest = int(indices.min()), int(indices.max())
    if least < 0:
        raise RuntimeError("Class values must be non-negative.")
    if largest >= classes > 0:
        raise RuntimeError("Class values must be smaller than num_classes.")


@functional
def one_hot(input: Tensor, num_classes: int = -1) -> Tensor:
    """A 1 at each index, in a new last dim."""
    if input.dtype is not int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if input.numel() == 0:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return zeros((*input.shape, num_classes), dtype=int64, device=input.device)
    checks.values(_require_one_hot, (input,), num_classes)
    if num_classes == -1:
        num_classes = int(input.max()) + 1
    elif num_classes < 1:
        raise RuntimeError("num_classes should be positive")
    classes = arange(num_classes, device=input.device)
    return laid_out("row-major", (input.unsqueeze(-1) == classes).to(int64).contiguous())
