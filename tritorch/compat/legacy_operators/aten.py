"""What torch.<name> takes in the order of PyTorch's operators: losses with numbered reductions,
normalisations with their statistics, views as copies, files as tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritorch.core import defaults, published
from tritorch.core.dims import wrap_dim
from tritorch.core.storage import UntypedStorage
from tritorch.core.tensor import Tensor
from tritorch.ops.loss import loss
from tritorch.ops.nn.norm import normalised_by_batch, normalised_by_group, require_dtypes
from tritorch.ops.record.ends import ends_as
from tritorch.ops.record.publishing import public
from tritorch.ops.reduce.reduction import vector_norm
from tritorch.ops.shape import parts

# ---- losses --------------------------------------------------------------------------------------


def _mode(reduction: int) -> str:
    return {1: "mean", 2: "sum"}.get(reduction, "none")


# PyTorch's parser takes these functions' default, at::Reduction::Mean, for 0: no reduction.


@public(method=False)
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Tensor:
    """nn.functional.cosine_embedding_loss; reduction: 0 none, 1 mean, 2 sum."""
    return loss.cosine_embedding_loss(input1, input2, target, margin, reduction=_mode(reduction))


@public(method=False)
def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 0
) -> Tensor:
    """nn.functional.hinge_embedding_loss; reduction: 0 none, 1 mean, 2 sum."""
    return loss.hinge_embedding_loss(input, target, margin, reduction=_mode(reduction))


@public(method=False)
def kl_div(
    input: Tensor, target: Tensor, reduction: int = 0, *, log_target: bool = False
) -> Tensor:
    """nn.functional.kl_div; reduction: 0 none, 1 mean, 2 sum."""
    return loss.kl_div(input, target, reduction=_mode(reduction), log_target=log_target)


@public(method=False)
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Tensor:
    """nn.functional.margin_ranking_loss; reduction: 0 none, 1 mean, 2 sum."""
    return loss.margin_ranking_loss(input1, input2, target, margin, reduction=_mode(reduction))


@public(method=False)
def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2.0,
    eps: float = 1e-6, swap: bool = False, reduction: int = 0,
) -> Tensor:  # fmt: skip
    """nn.functional.triplet_margin_loss; reduction: 0 none, 1 mean, 2 sum."""
    return loss.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=_mode(reduction)
    )


# ---- norms, with what they computed --------------------------------------------------------------


@public(method=False, out=True)
def native_batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """batch_norm, with the batch's mean and 1 / std; these are empty outside of training."""
    require_dtypes(input, weight, bias, running_mean, running_var)
    out, mean, rstd = normalised_by_batch(
        input, running_mean, running_var, weight, bias, training, momentum, eps
    )
    if not training:
        none = published.public.empty((0,), dtype=mean.dtype, device=input.device)
        return out, none, none.clone()
    return out, mean, rstd


@public(method=False)
def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int,
    group: int, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """group_norm of N samples with C channels of HxW elements, with mean and 1 / std."""
    if input.numel() != N * C * HxW:
        raise RuntimeError(
            f"native_group_norm: {input.numel()} elements are not {N} * {C} * {HxW} (N * C * HxW)"
        )
    out, mean, rstd = normalised_by_group(input, group, weight, bias, eps)
    return out, mean.reshape(N, group), rstd.reshape(N, group)


@public(method=False)
def native_norm(
    input: Tensor, p: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Tensor:
    """The p-norm of the elements, or over dims."""
    return vector_norm(input, 2 if p is None else p, dim, keepdim, dtype=dtype)


# ---- parts ---------------------------------------------------------------------------------------


def _slice_key(x: Tensor, dim: int, start: int | None, end: int | None, step: int) -> Any:
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    return (*(slice(None),) * wrap_dim(dim, x.ndim), slice(start, end, step), Ellipsis)


@public(method=False, out=True)
def slice_copy(
    input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """A range of slices, as a copy."""
    part = parts.basic_index(input, _slice_key(input, dim, start, end, step))
    return ends_as("slice_copy.Tensor", part.clone())


@public()
def slice_inverse(
    input: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    """`input`'s memory, seen as the `src` that input is a slice of."""
    return input.as_strided(src.shape, src.stride(), src.storage_offset())


@public()
def unsafe_split_with_sizes(
    input: Tensor, split_sizes: Sequence[int], dim: int = 0
) -> tuple[Tensor, ...]:
    """split_with_sizes, for who writes the parts and then no longer uses input."""
    return parts.writable(parts.split_with_sizes(input, split_sizes, dim))


# ---- where it is ---------------------------------------------------------------------------------


@public()
def is_distributed(input: Tensor) -> bool:
    """False: a tensor lies on one device."""
    return False


@public(method=False)
def from_file(
    filename: str, shared: bool | None = None, size: int | None = 0, *, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A file as a vector; shared: writes go to the file, which is made if need be."""
    if device is not None and published.public.empty(0, device=device).is_cuda:
        raise RuntimeError("from_file: tensors on a GPU are not in files; use .to(device)")
    kind = defaults.dtype() if dtype is None else dtype
    count = int(size or 0)
    if shared is not True:
        try:
            with open(filename, "rb"):
                pass
        except OSError as error:
            raise RuntimeError(
                f"unable to open file <{filename}> in read-only mode: {error.strerror} "
                f"({error.errno})"
            ) from None
    storage = UntypedStorage.from_file(filename, bool(shared), count * kind.itemsize)
    out = published.public.empty((0,), dtype=kind).set_(storage, 0, (count,), (1,))
    return out.requires_grad_() if requires_grad else out
