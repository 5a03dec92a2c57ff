"""Embeddings and one-hot."""

from __future__ import annotations

from tritorch.core.dtype import int64
from tritorch.core.promotion import scalar_name
from tritorch.core.tensor import Tensor
from tritorch.ops.activation import functional
from tritorch.ops.backends import backend
from tritorch.ops.declare import PUBLIC, Operator, ndarray
from tritorch.ops.shape import reshape

_embedding = Operator(
    "embedding", "weight indices", "padding by_frequency",
    cpu=lambda w, i, p, f: backend("cpu", "indexing").index(w, (i,)),
    gpu=lambda w, i, p, f: backend("gpu", "indexing").index(w, (i,)),
    grad=(lambda g, weight, indices, padding, by_frequency: _back.call(
        (g, indices), (weight.shape[0], padding, by_frequency)), None),
)  # fmt: skip
_back: Operator = Operator(
    "embedding_backward", "y indices", "n padding by_frequency", kind="internal",
    cpu="embedding.embedding_backward",
    grad=(lambda g, indices, padding: _gather_rows(g, indices, padding), None),
)  # fmt: skip


def _gather_rows(g: Tensor, indices: Tensor, padding: int) -> Tensor:
    rows = _embedding.call((g, indices), (padding, False))
    return rows.masked_fill((indices == padding).unsqueeze(-1), 0) if padding >= 0 else rows


def _check_indices(indices: Tensor, rows: int) -> None:
    array = indices._array
    if type(array) is ndarray and array.size and (array.min() < 0 or array.max() >= rows):
        raise IndexError("index out of range in self")


def _integers(name: str, indices: Tensor) -> Tensor:
    if indices.dtype.name not in ("int32", "int64"):
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar "
            f"types: Long, Int; but got {scalar_name(indices.dtype)} instead (while checking "
            f"arguments for {name})"
        )
    return indices.to(int64)


@functional
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of weight at indices."""
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    padding = _padding(padding_idx, weight)
    indices = _integers("embedding", input)
    _check_indices(indices, weight.shape[0])
    if max_norm is not None:
        _renormalise(weight, indices, max_norm, norm_type)
    return _embedding.call((weight, indices), (padding, bool(scale_grad_by_freq)))


def _padding(padding_idx: int | None, weight: Tensor) -> int:
    if padding_idx is None:
        return -1
    rows = weight.shape[0]
    if not -rows <= padding_idx < rows:
        raise AssertionError("Padding_idx must be within num_embeddings")
    return padding_idx % rows


def _renormalise(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> None:
    from tritorch.autograd import no_grad
    from tritorch.ops.reduction import vector_norm

    with no_grad():
        rows = indices.reshape(-1).unique()
        used = weight.index_select(0, rows)
        norms = vector_norm(used, norm_type, 1, keepdim=True)
        scale = PUBLIC["where"](
            norms > max_norm, max_norm / (norms + 1e-7), PUBLIC["ones_like"](norms)
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
    )


PUBLIC["embedding"] = _public_embedding

_MODES = {"sum": 0, "mean": 1, "max": 2}


@functional
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
        raise ValueError(
            "Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag"
            "(weight, input, ...)` is deprecated, and should now be `embedding_bag(input, weight, "
            "...)`."
        )
    if mode not in _MODES:
        raise ValueError("mode has to be one of sum, mean or max")
    if per_sample_weights is not None and per_sample_weights.shape != input.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then "
            f"it must have the same shape as the input ({input.shape})"
        )
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            f"embedding_bag: per_sample_weights was not None. per_sample_weights is only "
            f"supported for "
            f"mode='sum' (got mode='{mode}'). Please open a feature request on GitHub."
        )
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError(
                f"if input is 2D, then offsets has to be None, as input is treated is a "
                f"mini-batch of "
                f"fixed length sequences. However, found offsets of type {type(offsets)}"
            )
        bags, length = input.shape
        offsets = PUBLIC["arange"](bags, device=input.device) * length
        input = reshape(input, -1)
        if per_sample_weights is not None:
            per_sample_weights = reshape(per_sample_weights, -1)
        include_last_offset = False
    elif input.ndim == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.ndim != 1:
            raise ValueError("offsets has to be a 1D Tensor")
    else:
        raise ValueError(
            f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}"
        )
    indices, starts = _integers("embedding_bag", input), _integers("embedding_bag", offsets)
    _check_indices(indices, weight.shape[0])
    if max_norm is not None:
        _renormalise(weight, indices, max_norm, norm_type)
    n = indices.shape[0]
    count = starts.shape[0] - (1 if include_last_offset else 0)
    ends = PUBLIC["cat"]([starts.narrow(0, 1, starts.shape[0] - 1), starts.new_full((1,), n)])
    if include_last_offset:
        ends = ends.narrow(0, 0, count)
        starts = starts.narrow(0, 0, count)
    positions = PUBLIC["arange"](n, device=input.device)
    bag = (positions.unsqueeze(1) >= ends.unsqueeze(0)).sum(1) if n else positions
    keep = None
    if padding_idx is not None:
        keep = indices != _padding(padding_idx, weight)
    rows = _embedding.call(
        (weight, indices), (_padding(padding_idx, weight), bool(scale_grad_by_freq))
    )
    return _pool_bags(rows, bag, keep, count, mode, per_sample_weights)


def _pool_bags(
    rows: Tensor, bag: Tensor, keep: Tensor | None, count: int, mode: str, weights: Tensor | None
) -> Tensor:
    if weights is not None:
        rows = rows * weights.unsqueeze(1)
    if keep is not None:
        chosen = keep.nonzero().reshape(-1)
        rows, bag = rows.index_select(0, chosen), bag.index_select(0, chosen)
    out = rows.new_zeros((count, rows.shape[1]))
    if mode == "max":
        if rows.shape[0] == 0:
            return out
        index = bag.unsqueeze(1).expand(rows.shape)
        return out.scatter_reduce(0, index, rows, "amax", include_self=False)
    out = out.index_add(0, bag, rows)
    if mode == "mean":
        sizes = PUBLIC["zeros"]((count,), dtype=rows.dtype, device=rows.device).index_add(
            0, bag, rows.new_ones((rows.shape[0],))
        )
        out = out / sizes.clamp(min=1).unsqueeze(1)
    return out


@functional
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """A 1 at each index, in a new last dim."""
    if tensor.dtype is not int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if tensor.numel() == 0:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return PUBLIC["zeros"]((*tensor.shape, num_classes), dtype=int64, device=tensor.device)
    if int(tensor.min()) < 0:
        raise RuntimeError("Class values must be non-negative.")
    largest = int(tensor.max())
    if num_classes == -1:
        num_classes = largest + 1
    elif num_classes < 1:
        raise RuntimeError("num_classes should be positive")
    elif largest >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    classes = PUBLIC["arange"](num_classes, device=tensor.device)
    return (tensor.contiguous().unsqueeze(-1) == classes).to(int64)
