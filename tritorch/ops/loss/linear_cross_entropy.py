"""Cross-entropy of a linear map's outputs, of which only a few rows exist at a time.

# Note [Chunks of tokens]
For each chunk of rows, its logits, losses and (when gradients are wanted) the gradients of logits,
in the place of the logits, are computed and used at once: of the input, and added up of weight
and bias.  The gradients are ready when the forward pass is; backward scales them.  With reduction
"none" each row's scale is known only then, and backward computes the chunks again.

# Note [Size of chunks]
On a GPU, chunks are as long as they may be for all that is held (logits of a chunk, the weight's
gradient as it is added up) to be a third of all logits and their gradient: each chunk reads and
writes the whole sum of the weight's gradients.  That sum is in float32 where this leaves room for
chunks, and for the rounded gradient beside it in the end; else it is in the weight's type.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from tritorch import _C
from tritorch.autograd.function import Function
from tritorch.core import defaults, published, scopes
from tritorch.core.dtype import bfloat16, dtype as Dtype, float16, float32, float64, int64
from tritorch.core.published import autocast
from tritorch.core.tensor import Tensor
from tritorch.ops.loss import loss as losses
from tritorch.ops.record.backends import backend
from tritorch.ops.record.publishing import functional
from tritorch.ops.shape.joining import cat
from tritorch.ops.shape.shape import reshape

_POLICIES = ("auto", "accurate", "balanced", "compact")
_DTYPES = (float16, bfloat16, float32, float64)
_FEWEST, _MOST = 256, 2048  # rows of a chunk on a GPU


@dataclasses.dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """How linear_cross_entropy goes through its rows in chunks.

    allow_retain_graph: backward may run again, for a copy of the gradients.
    batch_chunk_size: rows of a chunk.
    chunking_method: "auto" (see Note [Size of chunks]), "aspect_ratio" (logits of a chunk are as
    many as inputs of all rows), "aspect_ratio:N" (an N-th of that), or None.
    acc_policy: "auto", "accurate" computes everything of half precision in acc_dtype, "balanced"
    adds gradients of weights up in it, "compact" in the weights' own type.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Dtype | None = None

    def __post_init__(self) -> None:
        if self.acc_policy not in _POLICIES:
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        method = self.chunking_method
        if method is not None and method != "auto" and not _factor(method):
            raise ValueError(f"invalid chunking_method: {method!r}")
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")
        if self.acc_dtype is not None and self.acc_dtype not in _DTYPES:
            raise ValueError(
                f"acc_dtype must be one of {{None, torch.float16, torch.bfloat16, torch.float32, "
                f"torch.float64}}, got {self.acc_dtype!r}. Pass acc_dtype=None to let the op pick "
                f"automatically."
            )

    def _adjust(
        self, num_batches: int, in_features: int, num_classes: int, dtype: Any, device: Any = None
    ) -> LinearCrossEntropyOptions:
        """Every choice made, for one call."""
        narrow = dtype in (float16, bfloat16)
        on_host = device is not None and device.type == "cpu" and narrow
        on_gpu = device is not None and device.type == "cuda"
        method, size = self.chunking_method, self.batch_chunk_size
        policy = self.acc_policy
        if policy == "auto":
            room = on_gpu and _most_rows(num_batches, in_features, 2) >= max(_FEWEST, in_features)
            policy = "accurate" if on_host else "balanced" if narrow and room else "compact"
        if method == "auto" and size is None and on_gpu:
            width = 2 if narrow and policy != "compact" else 1
            size = _equal(num_batches, _most_rows(num_batches, in_features, width))
        if method == "auto":
            method = None if size is not None else "aspect_ratio" if on_host else "aspect_ratio:2"
        chunk = num_batches if size is None else min(size, num_batches)
        if method is not None:
            target = -(-num_batches // max(-(-num_classes // max(in_features, 1)), 1))
            rows = 1 << max(target - 1, 0).bit_length()
            chunk = min(rows // _factor(method), num_batches)
            if size is not None and min(size, num_batches) != chunk:
                raise ValueError(
                    f"batch_chunk_size (={size}) and chunking_method ({method!r}) give different "
                    f"chunk sizes ({size} vs {chunk}); pass only one."
                )
        kind = self.acc_dtype
        if kind is None:
            kind = float32 if narrow and device is not None else dtype
        if kind is not dtype and not (narrow and kind is float32):
            raise RuntimeError(
                f"linear_cross_entropy supports float32 acc_dtype with float16/bfloat16 inputs, "
                f"but got {kind} acc_dtype and {dtype} inputs."
            )
        return dataclasses.replace(
            self, batch_chunk_size=max(chunk, 1), chunking_method=None, acc_policy=policy,
            acc_dtype=kind,
        )  # fmt: skip


def _factor(method: str) -> int:
    """N of "aspect_ratio:N"; 0 of anything else."""
    name, colon, factor = method.partition(":")
    factor = factor if colon else "1"
    return int(factor) if name == "aspect_ratio" and factor.isdigit() else 0


def _most_rows(rows: int, features: int, width: int) -> int:
    """Rows of a chunk by Note [Size of chunks]; width: that of sums, in elements.

    Everything is in units of a column of the logits, as long as there are classes.
    """
    return 2 * 32 * rows // 100 - width * features  # a little is left for what is small


def _equal(rows: int, most: int) -> int:
    """Rows of a chunk, all chunks being of about the same size, in tiles of 128."""
    most = min(max(most, _FEWEST), _MOST) // 128 * 128
    chunks = max(-(-rows // most), 1)
    return max(-(-rows // (128 * chunks)) * 128, 1)


class _Chunked(Function):
    """See Note [Chunks of tokens]."""

    _of_package = True

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, w: Tensor, b: Tensor | None, target: Tensor, weight: Tensor | None,
        ignore: int, reduction: str, options: LinearCrossEntropyOptions, wanted: Any,
    ) -> Any:  # fmt: skip
        n, step = x.shape[0], options.batch_chunk_size
        assert step is not None
        kept = target != ignore
        count: Any = 1
        if reduction == "mean":
            if weight is None:
                count = kept.sum()
            else:
                safe = target.masked_fill(~kept, 0)
                count = weight.index_select(0, safe).masked_fill(~kept, 0).sum()
        ctx.rest, ctx.calls = (target, weight, ignore, options, wanted), 0
        if reduction == "none" or not any(wanted):
            scale = None
            ctx.save_for_backward(x, w, b)
        else:
            scale = (x.new_ones((), dtype=options.acc_dtype) / count).expand(n)
        parts, ctx.grads = [], None
        for part in _chunks(x, w, b, scale, ctx.rest):
            parts.append(part.losses)
            ctx.grads = part.grads
        out = cat(parts)
        if reduction == "none":
            return out.to(x.dtype)
        total = out.to(options.acc_dtype).sum()
        return (total / count if reduction == "mean" else total).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        g = grads[0]
        options, wanted = ctx.rest[3], ctx.rest[4]
        if ctx.grads is None:  # reduction="none"
            x, w, b = ctx.saved_tensors
            for part in _chunks(x, w, b, g, ctx.rest):
                ctx.grads = part.grads
            ready: Any = ctx.grads
            ctx.grads = None
            return (*ready, *(None,) * 6)
        ctx.calls += 1
        if ctx.calls > 1 and not options.allow_retain_graph:
            raise RuntimeError(
                "linear_cross_entropy chunked backward called twice; retain_graph=True / double "
                "backward are not supported."
            )
        scaled = (lambda t: t * g) if options.allow_retain_graph else (lambda t: t.mul_(g))
        found = (scaled(t) if want else None for t, want in zip(ctx.grads, wanted))
        return (*found, *(None,) * 6)


@dataclasses.dataclass
class _Part:
    """The losses of a chunk, and gradients up to it."""

    losses: Tensor
    grads: tuple[Any, ...] | None


def _chunks(x: Tensor, w: Tensor, b: Any, scale: Tensor | None, rest: Any) -> Any:
    """Goes through the rows; with the scale of each row's loss, gradients too."""
    target, weight, ignore, options, (want_x, want_w, want_b) = rest
    kind, acc = x.dtype, options.acc_dtype
    compute = acc if options.acc_policy == "accurate" else kind
    adding = kind if options.acc_policy == "compact" and x.is_cuda else acc
    wide_w, wide_b = w.to(compute), None if b is None else b.to(compute)
    wide_weight = None if weight is None else weight.to(compute)
    dx = published.public.empty_like(x) if scale is not None and want_x else None
    dw = w.new_empty(w.shape, dtype=adding) if scale is not None and want_w else None
    db = b.new_zeros(b.shape, dtype=acc) if scale is not None and want_b else None
    which = "gpu" if x.is_cuda else "cpu"
    multiply_into = backend(which, "matmul").multiply_into
    classes = w.shape[0]
    with scopes.unrecorded:
        for low in range(0, max(x.shape[0], 1), options.batch_chunk_size):
            rows = slice(low, low + options.batch_chunk_size)
            some, labels = x[rows].to(compute), target[rows]
            # Rows begin at multiples of 16 elements, which the copy engine needs.
            logits: Any = w.new_empty((some.shape[0], -(-classes // 16) * 16), dtype=compute)
            logits = logits[:, :classes]
            bias = None if wide_b is None else wide_b._array
            multiply_into(logits._array, some._array, wide_w.t()._array, bias)
            losses._check_targets(labels, classes, ignore)
            if scale is None:
                inputs = (logits, labels, wide_weight)
                found = losses._cross_entropy.call(inputs, (ignore, 0.0))[0]
            else:
                d = logits._array  # these, from here on their gradient
                weights = None if wide_weight is None else wide_weight._array
                found = _C.wrap(
                    backend(which, "loss").cross_entropy_in_place(
                        d, labels._array, weights, ignore, scale[rows]._array
                    )
                )
                if dx is not None:
                    multiply_into(dx[rows]._array, d, wide_w._array)
                if dw is not None:
                    so_far = dw._array if low else None
                    multiply_into(dw._array, logits.t()._array, some._array, so_far)
                if db is not None:
                    db += logits.sum(0, dtype=acc)
            logits = d = None  # their memory is the next chunk's
            last = low + options.batch_chunk_size >= x.shape[0]
            grads = None
            if scale is not None and last:
                grads = (dx, None if dw is None else dw.to(w.dtype),
                         None if db is None else db.to(b.dtype))  # fmt: skip
            yield _Part(found, grads)


def _check(x: Tensor, w: Tensor, target: Tensor, b: Tensor | None, ignore: Any) -> None:
    if x.ndim not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {x.ndim}")
    if w.ndim < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {w.ndim}")
    if x.shape[-1] != w.shape[-1]:
        raise RuntimeError(
            f"expected equal input and linear_weight last dimensions (in_features), got "
            f"{x.shape[-1]} and {w.shape[-1]}, respectively"
        )
    if b is not None and tuple(b.shape) != tuple(w.shape[:-1]):
        raise RuntimeError(
            f"expected linear_bias shape {tuple(w.shape[:-1])}, got {tuple(b.shape)}"
        )
    if w.ndim > 2 and x.ndim < 2:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(w.shape)} requires batched "
            f"input, (N, {x.shape[-1]}), got unbatched input with shape {tuple(x.shape)}"
        )
    if tuple(target.shape) == (*x.shape[:-1], *w.shape[:-1]) and ignore is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")


@functional
@autocast("lower-then-float32")
def linear_cross_entropy(
    input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None,
    weight: Tensor | None = None, reduction: str = "mean", ignore_index: int | None = None,
    label_smoothing: float = 0.0, options: LinearCrossEntropyOptions | None = None,
) -> Tensor:  # fmt: skip
    """cross_entropy(linear(input, linear_weight, linear_bias), target); with options, in chunks."""
    _check(input, linear_weight, target, linear_bias, ignore_index)
    ignore = -100 if ignore_index is None else ignore_index
    if options is not None:
        simple = reduction in ("none", "mean", "sum") and label_smoothing == 0.0
        plain = simple and target.dtype is int64 and linear_weight.ndim == 2
        if plain and not input._is_described:  # without memory there is none to save
            return _in_chunks(
                input, linear_weight, target, linear_bias, weight, reduction, ignore, options
            )
        if not plain:
            defaults.warn(
                f"linear_cross_entropy: ``options`` ignored; chunked path needs reduction in "
                f"{{'mean','sum','none'}}, label_smoothing == 0, target.dtype == int64, "
                f"out_features == (). Got reduction={reduction!r}, label_smoothing="
                f"{label_smoothing}, target.dtype={target.dtype}, "
                f"out_features={tuple(linear_weight.shape[1:-1])}.",
                stacklevel=2,
            )
    classes, *outer = linear_weight.shape[:-1]
    rows = classes * math.prod(outer)
    w = reshape(linear_weight, (rows, linear_weight.shape[-1]))
    b = None if linear_bias is None else reshape(linear_bias, (rows,))
    logits = reshape(published.functional.linear(input, w, b), (*input.shape[:-1], classes, *outer))
    return losses.cross_entropy(
        logits, target, weight=weight, reduction=reduction, ignore_index=ignore,
        label_smoothing=label_smoothing,
    )  # fmt: skip


def _in_chunks(
    x: Tensor, w: Tensor, target: Tensor, b: Any, weight: Any, reduction: str, ignore: int,
    options: LinearCrossEntropyOptions,
) -> Tensor:  # fmt: skip
    single = x.ndim == 1
    if single:
        x, target = x.unsqueeze(0), target.unsqueeze(0)
    if tuple(target.shape) != (x.shape[0],):
        raise ValueError(
            f"Expected input batch_size ({x.shape[0]}) to match target batch_size "
            f"({target.numel()})."
        )
    chosen = options._adjust(x.shape[0], x.shape[1], w.shape[0], x.dtype, x.device)
    grads = _C.is_grad_enabled()
    wanted = tuple(grads and t is not None and t.requires_grad for t in (x, w, b))
    out = _Chunked.apply(x, w, b, target, weight, ignore, reduction, chosen, wanted)
    return out.squeeze(0) if single and reduction == "none" else out
