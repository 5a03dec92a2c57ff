"""Losses (torch.nn.functional)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.arrays import arrays
from tritorch.arrays.batched import BatchedArray
from tritorch.arrays.meta import MetaArray
from tritorch.core import defaults, published
from tritorch.core.arguments import Number
from tritorch.core.dispatching import entered, watching
from tritorch.core.dtype import bool_, int64
from tritorch.core.promotion import category, result_type, scalar_name
from tritorch.core.published import PUBLIC, autocast, computes
from tritorch.core.tensor import Tensor
from tritorch.ops.pointwise.activation import logsigmoid
from tritorch.ops.pointwise.arithmetic import minimum, where, xlogy
from tritorch.ops.record import checks
from tritorch.ops.record.backends import backend
from tritorch.ops.record.checks import (
    broadcast_shapes,
    require_castable,
    require_kernel,
    require_tensor,
)
from tritorch.ops.record.ends import ends_as, ends_with
from tritorch.ops.record.groups import Gradient, Rules, Without
from tritorch.ops.record.infer import computed
from tritorch.ops.record.operator import FLOATS, Operator, laid_out, ndarray
from tritorch.ops.record.publishing import functional
from tritorch.ops.record.writing import differentiated
from tritorch.ops.reduce.reduction import vector_norm
from tritorch.ops.reduce.softmax import log_softmax
from tritorch.ops.shape.ranges import arange
from tritorch.ops.shape.shape import broadcast_tensors, reshape

INT64 = int64.numpy
_MODES = ("none", "mean", "sum")


def reduction_mode(size_average: Any, reduce: Any, reduction: str) -> str:
    """The reduction, also from the two flags that it replaced."""
    if size_average is not None or reduce is not None:
        reduce = True if reduce is None else reduce
        average = True if size_average is None else size_average
        found = "none" if not reduce else "mean" if average else "sum"
        defaults.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{found}' "
            "instead.",
            stacklevel=3,
        )
        return found
    if reduction == "elementwise_mean":
        defaults.warn(
            "reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.",
            stacklevel=3,
        )
        return "mean"
    if reduction not in _MODES:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def reduce_loss(loss: Tensor, reduction: str) -> Tensor:
    """All losses, their mean or their sum."""
    if reduction == "mean":
        return loss.mean()
    return loss.sum() if reduction == "sum" else loss


def _pair(name: str, input: Tensor, target: Tensor, above: int = 3) -> tuple[Tensor, Tensor]:
    if input.shape == target.shape:
        return input, target
    defaults.warn(
        f"Using a target size ({target.shape}) that is different to the input size "
        f"({input.shape}). This will likely lead to incorrect results due to broadcasting. "
        "Please ensure they have the same size.",
        stacklevel=above,
    )
    return broadcast_tensors(input, target)  # type: ignore[return-value]


def _subtracted(name: str, input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """A pair whose difference a kernel takes: of bools, too."""
    a, b = _pair(name, input, target, 4)
    if (a.dtype is bool_) is not (b.dtype is bool_):
        common = result_type(a, b)
        a, b = a.to(common), b.to(common)
    return a, b


def _in_dtype(kind: Any, record: Operator, pair: Any, *params: Any) -> Tensor:
    """A loss that PyTorch writes into elements of a dtype: its reduction is in it, too."""
    common = result_type(*pair)
    if common is kind:
        return record.call(pair, params)
    require_castable(common, kind)
    return reduce_loss(record.call(pair, (*params[:-1], "none")).to(kind), params[-1])


def _loss(name: str, kernel: str, params: str, of: Any, joint: Any) -> Operator:
    """A loss recorded as one call; `of` gives it element by element."""

    def reduced(*args: Any) -> Tensor:
        return reduce_loss(of(*args[:-1]), args[-1])

    return Operator(
        name,
        "input target",
        f"{params} mode".strip(),
        schema=f"{name}(input, target, {', '.join(('reduction(mode)', *params.split()))})",
        composed=reduced,
        grad=Gradient(joint=joint),
        without=Without("bool int complex", kernel=kernel, typed=2),
        rules=Rules(axes="elementwise"),
    )


def _opposite(g: Tensor, needs: Any, slope: Tensor, mode: str) -> Any:
    """The gradients of a loss of the difference of two, from its slope element by element."""
    if mode == "mean":
        slope = slope / slope.numel() if slope.numel() else slope
    slope = slope * g
    return slope if needs[0] else None, -slope if needs[1] else None


_mse_loss = _loss(
    "mse_loss", "mse_cpu", "", lambda x, y: (x - y).square(),
    lambda g, needs, input, target, mode: _opposite(g, needs, 2 * (input - target), mode),
)  # fmt: skip


@functional
@autocast("float32")
def mse_loss(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None,
             reduction: str = "mean", weight: Tensor | None = None) -> Tensor:  # fmt: skip
    """(input - target)^2."""
    pair = _subtracted("mse_loss", input, target)
    mode = reduction_mode(size_average, reduce, reduction)
    if weight is None:
        return _mse_loss.call(pair, (mode,))
    return _weighted(_mse_loss.call(pair, ("none",)), weight, mode, input)


def _weighted(loss: Tensor, weight: Tensor | None, mode: str, input: Tensor) -> Tensor:
    if weight is None:
        return reduce_loss(loss, mode)
    if weight.shape != input.shape:
        raise ValueError("Weights and input must have the same size.")
    loss = loss * weight
    return loss.sum() / weight.sum() if mode == "mean" else reduce_loss(loss, mode)


@functional
@autocast("float32")
def l1_loss(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None,
            reduction: str = "mean", weight: Tensor | None = None) -> Tensor:  # fmt: skip
    """|input - target|."""
    a, b = _pair("l1_loss", input, target)
    return _weighted((a - b).abs(), weight, reduction_mode(size_average, reduce, reduction), input)


@functional
@autocast("float32")
def smooth_l1_loss(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None,
                   reduction: str = "mean", beta: float = 1.0) -> Tensor:  # fmt: skip
    """Squared below beta, absolute above."""
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    a, b = _subtracted("smooth_l1_loss", input, target)
    mode = reduction_mode(size_average, reduce, reduction)
    if beta == 0:
        return reduce_loss((a - b).abs(), mode)
    return _smooth_l1_loss.call((a, b), (beta, mode))


def _smooth(x: Tensor, y: Tensor, beta: float) -> Tensor:
    error = (x - y).abs()
    return where(error < beta, 0.5 * error * error / beta, error - 0.5 * beta)


_smooth_l1_loss = _loss(
    "smooth_l1_loss", "smooth_l1_cpu", "beta", _smooth,
    lambda g, needs, input, target, beta, mode: _opposite(
        g, needs, (input - target).clamp(-beta, beta) / beta, mode),
)  # fmt: skip


@functional
@autocast("float32")
def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0,
               weight: Tensor | None = None) -> Tensor:  # fmt: skip
    """Squared below delta, delta times absolute above."""
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    a, b = _subtracted("huber_loss", input, target)
    mode = reduction_mode(None, None, reduction)
    if weight is None:
        return _in_dtype(input.dtype, _huber_loss, (a, b), delta, mode)
    loss = _in_dtype(input.dtype, _huber_loss, (a, b), delta, "none")
    return _weighted(loss, weight, mode, input)


def _huber(x: Tensor, y: Tensor, delta: float) -> Tensor:
    error = (x - y).abs()
    loss = where(error <= delta, 0.5 * error * error, delta * (error - 0.5 * delta))
    return laid_out("copy", loss, x)


_huber_loss = _loss(
    "huber_loss", "huber_cpu", "delta", _huber,
    lambda g, needs, input, target, delta, mode: _opposite(
        g, needs, (input - target).clamp(-delta, delta), mode),
)  # fmt: skip


@functional
@autocast("cpu:float32 cuda:refuse")
@ends_with("binary_cross_entropy")
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """-(t log p + (1 - t) log(1 - p)); logs are at least -100."""
    mode = reduction_mode(size_average, reduce, reduction)
    if target.shape != input.shape:
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}) is deprecated. Please ensure they have the same size."
        )
    if target.dtype is not input.dtype and input.is_floating_point():
        raise RuntimeError(
            f"Found dtype {scalar_name(target.dtype)} but expected {scalar_name(input.dtype)}"
        )
    _bce.require_kernel((input, target))
    if input.is_cpu:
        text = "all elements of input should be between 0 and 1"
        checks.refuse_where(_outside_of_unit, (input,), RuntimeError, text)
    loss = _bce.call((input, target), ())
    if weight is not None:
        loss = loss * weight
    return reduce_loss(loss, mode)


@checks.looks_at_values
def _outside_of_unit(x: Tensor) -> Tensor:
    return (x < 0) | (x > 1)


def _bce_forward(p: Tensor, t: Tensor) -> Tensor:
    return (t - 1) * (-p).log1p().clamp(min=-100) - t * p.log().clamp(min=-100)


_bce = Operator(
    "binary_cross_entropy", "p t",
    schema="binary_cross_entropy(p, t, None, 0)", composed=_bce_forward,
    grad=(lambda g, p, t: g * (p - t) / ((1 - p) * p).clamp(min=1e-12),
          lambda g, p: g * ((-p).log1p().clamp(min=-100) - p.log().clamp(min=-100))),
    layout="copy", without=Without("bool int complex", typed=2), rules=Rules(axes="elementwise"),
)  # fmt: skip


@functional
@autocast("float32")
def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None,
    reduce: Any = None, reduction: str = "mean", pos_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Binary cross-entropy of sigmoid(input), without overflow."""
    mode = reduction_mode(size_average, reduce, reduction)
    if target.shape != input.shape:
        raise ValueError(
            f"Target size ({target.shape}) must be the same as input size ({input.shape})"
        )
    given = (input, target, weight, pos_weight)
    if target.dtype is input.dtype:
        return _bce_with_logits.call(given, (mode,))
    # PyTorch writes the loss over 1 - target.
    kind = target.dtype
    if kind is bool_ and input.is_floating_point():
        target - target  # which is refused
    require_castable(result_type(input, target), kind)
    loss = _bce_with_logits.call(given, ("none",)).to(kind)
    return reduce_loss(loss, mode)


def _bce_of_logits(input: Tensor, target: Tensor, weight: Any, pos_weight: Any, mode: str) -> Any:
    log_sigmoid = logsigmoid(input)
    if pos_weight is not None:
        log_sigmoid = ((pos_weight - 1) * target + 1) * log_sigmoid
    loss = laid_out("copy", (1 - target) * input - log_sigmoid, target)
    if weight is not None:
        loss = loss * weight
    return reduce_loss(loss, mode)


def _bce_of_logits_grad(
    g: Tensor, needs: Any, input: Tensor, target: Tensor, weight: Any, pos_weight: Any, mode: str
) -> Any:
    if mode == "mean" and input.numel():
        g = g / input.numel()
    if weight is not None:
        g = g * weight
    for_input = for_target = None
    if needs[0]:
        if pos_weight is None:
            for_input = (input.sigmoid() - target) * g
        else:
            positive = pos_weight * target
            for_input = ((positive + 1 - target) * input.sigmoid() - positive) * g
    if needs[1]:
        if pos_weight is None:
            for_target = -input * g
        else:
            for_target = (logsigmoid(-input) - pos_weight * logsigmoid(input)) * g
    return for_input, for_target, None, None


_bce_with_logits = Operator(
    "binary_cross_entropy_with_logits", "input target weight pos_weight", "mode",
    schema="binary_cross_entropy_with_logits(input, target, weight, pos_weight, "
        "reduction(mode))",
    composed=_bce_of_logits, grad=Gradient(joint=_bce_of_logits_grad),
    rules=Rules(axes="elementwise"),
)  # fmt: skip

PUBLIC["binary_cross_entropy_with_logits"] = binary_cross_entropy_with_logits


@functional
@autocast("float32")
def kl_div(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None,
           reduction: str = "mean", log_target: bool = False) -> Tensor:  # fmt: skip
    """target * (log target - input)."""
    if category(input.dtype) < 2 or category(target.dtype) < 2:
        raise RuntimeError("kl_div: Integral inputs not supported.")
    if input.is_complex() or target.is_complex():
        raise RuntimeError("kl_div: Complex inputs not supported.")
    if size_average is not None or reduce is not None:
        reduction = reduction_mode(size_average, reduce, reduction)
    elif reduction == "mean":
        defaults.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size."
            "'batchmean' divides only by the batch size, and aligns with the KL div math "
            "definition.'mean' will be changed to behave the same as 'batchmean' in the next major "
            "release.",
            stacklevel=2,
        )
    if log_target:
        loss = target.exp() * (target - input)
    else:
        loss = xlogy(target, target) - target * input
    if reduction == "batchmean":
        return loss.sum() / input.shape[0] if input.ndim else loss.sum()
    return reduce_loss(loss, reduction_mode(None, None, reduction))


@functional
@autocast("float32")
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool = True, full: bool = False,
                     size_average: Any = None, eps: float = 1e-8, reduce: Any = None,
                     reduction: str = "mean") -> Tensor:  # fmt: skip
    """The negative log-likelihood of a Poisson distribution."""
    mode = reduction_mode(size_average, reduce, reduction)
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return reduce_loss(loss, mode)


PUBLIC["poisson_nll_loss"] = poisson_nll_loss


@checks.looks_at_values
def _negative(x: Tensor) -> Tensor:
    return x < 0


@functional
def gaussian_nll_loss(
    input: Tensor,
    target: Any,  # a number too, as PyTorch subtracts it
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """The negative log-likelihood of a Gaussian distribution."""
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * published.public.ones_like(input)
    else:
        checks.refuse_where(_negative, (var,), ValueError, "var has negative entry/entries")
    if var.shape != input.shape:
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif not (input.shape[:-1] == var.shape[:-1] and var.shape[-1] == 1) and not all(
            a == b or b == 1 for a, b in zip(input.shape, var.shape)
        ):
            raise ValueError("var is of incorrect size")
    if reduction not in _MODES:
        raise ValueError(f"{reduction} is not valid")
    safe = var.detach().clamp(min=eps) + (var - var.detach())
    require_castable(result_type(safe, 1.0), safe.dtype)
    loss = 0.5 * (safe.log() + (input - target).square() / safe)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduce_loss(loss, reduction)


# ---- margins -------------------------------------------------------------------------------------


@functional
@autocast("float32")
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, -target * (input1 - input2) + margin)."""
    mode = reduction_mode(size_average, reduce, reduction)
    if input1.ndim != input2.ndim or input1.ndim != target.ndim:
        raise RuntimeError(
            f"margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.shape}, input2: {input2.shape}, target: {target.shape} "
        )
    return reduce_loss((-target * (input1 - input2) + margin).clamp_min(0), mode)


@functional
@autocast("float32")
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """x where the target is 1, max(0, margin - x) where it is -1."""
    mode = reduction_mode(size_average, reduce, reduction)
    hinge = (input.new_full((), margin) - input).clamp_min(0)  # in the input's dtype, as PyTorch
    zero = published.public.zeros_like(input)
    loss = where(target != 1, hinge, zero) + where(target != -1, input, zero)
    return reduce_loss(loss, mode)


@functional
@autocast("float32")
def soft_margin_loss(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None,
                     reduction: str = "mean") -> Tensor:  # fmt: skip
    """log(1 + exp(-target * input))."""
    if input.dtype is bool_:
        -input  # noqa: B018  (which is refused)
    common = result_type(input, target)
    if category(common) < 2:
        require_castable(defaults.dtype(), common)
    if target.dtype is bool_:
        target = target.to(input.dtype)
    wide = broadcast_shapes(input.shape, target.shape)
    if wide != tuple(input.shape):
        raise RuntimeError(
            f"output with shape {list(input.shape)} doesn't match the broadcast shape {list(wide)}"
        )
    mode = reduction_mode(size_average, reduce, reduction)
    return _in_dtype(input.dtype, _soft_margin_loss, (input, target), mode)


def _soft_margin_grad(g: Tensor, input: Tensor, target: Tensor, mode: str) -> Tensor:
    slope = -target * (-target * input).sigmoid()
    return (slope / input.numel() if mode == "mean" and input.numel() else slope) * g


_soft_margin_loss = Operator(
    "soft_margin_loss", "input target", "mode",
    schema="soft_margin_loss(input, target, reduction(mode))",
    composed=lambda x, y, mode: reduce_loss((-y * x).exp().log1p(), mode), grad=_soft_margin_grad,
    layout="copy", rules=Rules(axes="elementwise"),
)  # fmt: skip


@functional
@autocast("cuda:float32")
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle along a dim."""
    same = x1.ndim == x2.ndim and x1.shape == x2.shape
    a, b = (x1, x2) if same else broadcast_tensors(x1, x2)
    common = a.dtype if a.dtype is b.dtype else result_type(a, b)
    if not common.is_floating_point:
        raise RuntimeError(
            f"expected common dtype to be floating point, yet common dtype is {scalar_name(common)}"
        )
    a, b = (x if x.is_floating_point() else x.to(common) for x in (a, b))
    norm_a = vector_norm(a, 2, dim, keepdim=True)
    norm_b = vector_norm(b, 2, dim, keepdim=True)

    def limit(n: Tensor) -> Tensor:
        fixed = n.detach()
        return fixed.clamp(min=eps) + (n - fixed) * (fixed > eps)

    return (a / limit(norm_a) * (b / limit(norm_b))).sum(dim)


PUBLIC["cosine_similarity"] = cosine_similarity


@functional
@autocast("float32")
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1."""
    if target.ndim not in (0, 1):
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    expected = 1 if target.ndim == 0 else 2
    if input1.ndim != expected or input2.ndim != expected:
        raise RuntimeError(
            f"{target.ndim}D target tensor expects {expected}D input tensors, but found inputs "
            f"with sizes {list(input1.shape)} and {list(input2.shape)}."
        )
    epsilon = 1e-12
    last = target.ndim
    product = (input1 * input2).sum(last)
    cosine = (
        product
        / ((input1.square().sum(last) + epsilon) * (input2.square().sum(last) + epsilon)).sqrt()
    )
    zero = published.public.zeros_like(cosine)
    loss = where(target == 1, 1 - cosine, zero) + where(
        target == -1, (cosine - margin).clamp_min(0), zero
    )
    return reduce_loss(loss, reduction_mode(size_average, reduce, reduction))


@functional
@ends_with("norm.ScalarOpt_dim")
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last dim."""
    return vector_norm(x1 - x2 + eps, p, max(x1.ndim, x2.ndim) - 1, keepdim)


PUBLIC["pairwise_distance"] = pairwise_distance


@functional
@autocast("float32")
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin)."""
    mode = reduction_mode(size_average, reduce, reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            f"The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {anchor.ndim}D, positive {positive.ndim}D, and negative "
            f"{negative.ndim}D inputs"
        )
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = minimum(far, pairwise_distance(positive, negative, p, eps))
    return reduce_loss((near - far + margin).clamp_min(0), mode)


@functional
def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *, distance_function: Any = None,
    margin: float = 1.0, swap: bool = False, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """triplet_margin_loss with a distance of one's own."""
    if reduction not in _MODES:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            f"The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {anchor.ndim}D, positive {positive.ndim}D, and negative "
            f"{negative.ndim}D inputs"
        )
    distance = distance_function or pairwise_distance
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = minimum(far, distance(positive, negative))
    return reduce_loss((near - far + margin).clamp_min(0), reduction)


@functional
def multilabel_soft_margin_loss(
    input: Any,
    target: Any,
    weight: Tensor | None = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """Binary cross-entropy with logits, the mean over classes."""
    require_tensor(input, "log_sigmoid", "input", 1)  # what PyTorch calls first
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    if not input.ndim:
        raise IndexError("Dimension specified as -1 but tensor has no dimensions")
    loss = loss.sum(input.ndim - 1) / input.shape[-1]
    return reduce_loss(loss, reduction_mode(size_average, reduce, reduction))


@functional
@autocast("float32")
@ends_with("multi_margin_loss")
def multi_margin_loss(input: Tensor, target: Tensor, p: Number = 1, margin: float = 1.0,
                      weight: Tensor | None = None, size_average: Any = None, reduce: Any = None,
                      reduction: str = "mean") -> Tensor:  # fmt: skip
    """The mean over wrong classes of max(0, margin - x[right] + x[wrong])^p."""
    mode = reduction_mode(size_average, reduce, reduction)
    require_kernel("multi_margin_loss_cpu_kernel", input, "bool int half complex")
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.ndim != 1:
        raise ValueError("weight must be one-dimensional")
    single = input.ndim < 2
    x = reshape(input, (1, -1)) if single else input
    if target.ndim > 1 or target.numel() != x.shape[0]:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input "
            f"samples (batch size). Expected target size [{x.shape[0]}], but got "
            f"{list(target.shape)}. Input has shape {list(input.shape)}."
        )
    t = reshape(target, (-1, 1))
    loss = (margin - x.gather(1, t) + x).clamp_min(0)
    loss = loss.square() if p == 2 else loss
    if weight is not None:
        loss = loss * weight[t]
    loss = loss.scatter(1, t, 0.0).sum(1) / x.shape[1]
    if single and mode == "none":
        loss = reshape(loss, target.shape)
    return reduce_loss(loss, mode)


@functional
@autocast("float32")
@ends_with("multilabel_margin_loss_forward")
def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """Hinge over pairs of right and wrong labels; targets end at the first -1."""
    mode = reduction_mode(size_average, reduce, reduction)
    if input.shape != target.shape and not input.numel() == target.numel() == 1:
        raise RuntimeError(
            f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}"
        )
    require_kernel("multilabel_margin_loss_forward_out_frame", input, "bool int half complex")
    single = input.ndim < 2
    x, t = (reshape(v, (1, -1)) if single else v for v in (input, target))
    valid = (t < 0).to(int64).cumsum(1) == 0
    clean = t.masked_fill(~valid, 0)
    right = published.public.zeros_like(x).scatter_add(1, clean, valid.to(x.dtype)) > 0
    scores = x.gather(1, clean)
    hinge = (1 - scores.unsqueeze(2) + x.unsqueeze(1)).clamp_min(0)
    mask = valid.unsqueeze(2) & ~right.unsqueeze(1)
    loss = hinge.masked_fill(~mask, 0).sum((1, 2)) / x.shape[1]
    if single and mode == "none":
        loss = reshape(loss, ())
    return reduce_loss(loss, mode)


# ---- classes -------------------------------------------------------------------------------------


def _check_nll(input: Tensor, target: Tensor, weight: Tensor | None) -> None:
    """Whether there is one class for each row of input, and one weight for each class."""
    rows = target.shape[0] if target.ndim else 0
    if input.ndim != 1 and input.shape[0] != rows:
        raise ValueError(
            f"Expected input batch_size ({input.shape[0]}) to match target batch_size ({rows})."
        )
    if input.ndim < 3 and target.ndim > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if input.ndim == 1 and target.ndim == 1 and target.shape[0] != 1:
        raise ValueError(
            f"For 1D input, 1D target must have size 1, but got target size: {target.shape[0]}"
        )
    if input.ndim == 4 and target.ndim != 3:
        raise RuntimeError(
            "only batches of spatial targets supported (3D tensors) but got targets of dimension: "
            f"{target.ndim}"
        )
    if input.ndim > 2 and input.shape[2:] != target.shape[1:]:
        wanted = [input.shape[0], *input.shape[2:]]
        raise RuntimeError(
            f"size mismatch (got input: {list(input.shape)} , target: {list(target.shape)}"
            if input.ndim == 4
            else f"Expected target size {wanted}, got {list(target.shape)}"
        )
    channels = input.shape[0] if input.ndim == 1 else input.shape[1]
    if weight is not None and (weight.ndim != 1 or weight.numel() != channels):
        raise RuntimeError(
            f"weight tensor should be defined either for all {channels} classes or no classes but "
            f"got weight tensor of shape: {list(weight.shape)}"
        )
    checks.require_scalar_type(input, weight)


def _rows(input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """(N, C) scores and (N,) targets of any (N, C, d1, ...) and (N, d1, ...)."""
    if input.ndim == 1:
        return reshape(input, (1, -1)), reshape(target, (-1,))
    if input.ndim == 2:
        return input, target
    moved = input.movedim(1, -1)
    return reshape(moved, (-1, input.shape[1])), reshape(target, (-1,))


def _check_targets(target: Tensor, classes: int, ignore: int) -> None:
    checks.values(_require_classes, (target,), classes, ignore)


@checks.looks_at_values
@arrays.by_steps
def _require_classes(array: Any, classes: int, ignore: int) -> None:
    while isinstance(array, BatchedArray):
        array = array.array
    if type(array) is not ndarray or not array.size:
        return
    if array.dtype is INT64 and backend("cpu", "indexing").outside(array, classes) is None:
        return
    if int(array.min()) >= 0 and int(array.max()) < classes:
        return
    bad = (array != ignore) & ((array < 0) | (array >= classes))
    if bad.any():
        raise IndexError(f"Target {int(array[bad][0])} is out of bounds.")


# Losses of rows of scores on the CPU that nobody differentiates, and how many rows have a class.
_nll_rows = Operator(
    "nll_rows", "scores target", "ignore",
    schema="(Tensor scores, Tensor target, int ignore) -> (Tensor, Tensor)", kind="internal",
    cpu="loss.nll",
    rules=Rules(
        infer=lambda x, *rest: (x.new(x.shape[:1]), x.new((), int64)), axes="nc,?->n,",
        cost=lambda outs, x, *rest: outs[0].numel(),
    ),
)  # fmt: skip


def _are_rows(scores: Tensor, classes: Tensor) -> bool:
    """True for a matrix of scores on the CPU and a class for each row."""
    found = type(getattr(scores, "_a", None)), type(getattr(classes, "_a", None))
    if {*found} - {ndarray, MetaArray}:
        return False
    if scores.ndim != 2 or classes.ndim != 1 or classes.dtype is not int64 or not scores.numel():
        return False
    return scores.dtype.numpy in FLOATS and scores.device.type == "cpu"


@functional
@autocast("float32")
@computes("nll_loss_nd")
@ends_with("nll_loss{'2d' if input.ndim > 2 else ''}_forward")
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """-input[target], weighted by class."""
    mode = reduction_mode(size_average, reduce, reduction)
    if not input.ndim:
        raise ValueError("Expected 1 or more dimensions (got 0)")
    _check_nll(input, target, weight)
    require_kernel("nll_loss_out_frame", input, "bool int complex")
    if target.dtype.name not in ("int64", "uint8"):
        raise RuntimeError(f"expected scalar type Long but found {scalar_name(target.dtype)}")
    classes = input.shape[0] if input.ndim == 1 else input.shape[1]
    _check_targets(target, classes, ignore_index)
    if weight is None and not differentiated(input) and _are_rows(input, target):
        loss, kept = _nll_rows.call((input, target), (ignore_index,))
        return loss.sum() / kept if mode == "mean" else reduce_loss(loss, mode)
    rows, flat = _rows(input, target)
    flat = flat.to(int64)
    ignored = flat == ignore_index
    safe = flat.masked_fill(ignored, 0)
    picked = -rows.gather(1, safe.unsqueeze(1)).squeeze(1)
    weights = rows.new_ones((classes,)) if weight is None else weight
    scale = weights.index_select(0, safe).masked_fill(ignored, 0)
    loss = (picked * scale).masked_fill(ignored, 0)
    if mode == "none":
        return reshape(loss, target.shape)
    return loss.sum() / scale.sum() if mode == "mean" else loss.sum()


PUBLIC["nll_loss"] = nll_loss

_cross_entropy = Operator(
    "cross_entropy_rows", "logits target weight", "ignore smoothing",
    schema="(Tensor logits, Tensor target, Tensor? weight, int ignore, float smoothing) -> "
        "(Tensor, Tensor)",
    cpu="loss.cross_entropy", composed=lambda *given: _composed_rows(*given),
    parts=lambda *given: _rows_in_parts(*given),
    grad=Gradient(
        joint=lambda g, logits, target, weight, out1, ignore, smoothing: (
            _cross_entropy_grad.call((g[0], logits, target, weight, out1), (ignore, smoothing)),
            None, None,
        ),
        node="CrossEntropy", outputs=0b01, lends="logits",
    ),
    without=Without("bool int complex", kernel="log_softmax_lastdim_kernel_impl"),
    rules=Rules(
        infer=lambda x, *rest: (x.new(x.shape[:-1]), x.new(x.shape[:-1], computed(x))),
        axes="nc,?,c->n,n", batch="cross_entropy", cost=lambda outs, x, *rest: 5 * x.numel(),
    ),
)  # fmt: skip
_cross_entropy_grad: Operator = Operator(
    "cross_entropy_backward",
    "g logits target weight lse",
    "ignore smoothing",
    schema="(Tensor g, Tensor logits, Tensor target, Tensor? weight, Tensor lse, int ignore,"
    " float smoothing) -> Tensor",
    kind="internal",
    cpu=lambda g, x, t, w, lse, ignore, s: backend("cpu", "loss").cross_entropy_backward(
        g, x, t, w, ignore, s, lse
    ),
    gpu=lambda g, x, t, w, lse, ignore, s: backend("gpu", "loss").cross_entropy_backward(
        g, x, t, w, ignore, s, lse
    ),
    parts=lambda *given: _row_gradients_in_parts(*given),
    rules=Rules(
        infer=lambda g, x, *rest: x.new(x.shape),
        axes="n,nc,?,?,n->nc",
        batch="cross_entropy",
        cost=lambda outs, g, x, *rest: 3 * x.numel(),
    ),
)


def _count(chosen: Any) -> Any:
    return arrays.asarray(arrays.fold(np.add, chosen, axis=None, dtype=INT64))


# Whoever notes calls is told of this in place of a number that values decide.
_kept_labels = Operator(
    "kept_labels", "target", "ignore",
    schema="(Tensor target, int ignore) -> Tensor", kind="internal",
    cpu=arrays.by_steps(lambda t, ignore: _count(arrays.not_equal(t, ignore))),
    rules=Rules(infer=lambda t, ignore: t.new((), int64)),
)  # fmt: skip


def _composed_rows(x: Tensor, t: Tensor, w: Tensor | None, ignore: int, smoothing: float) -> Tensor:
    """What the fused kernel computes, of smaller operators: one loss a row."""
    logs = log_softmax(x, 1)
    ignored = t == ignore
    safe = t.masked_fill(ignored, 0)
    weights = x.new_ones((x.shape[1],)) if w is None else w.detach()
    scale = weights.index_select(0, safe)
    loss = -logs.gather(1, safe.unsqueeze(1)).squeeze(1) * scale * (1 - smoothing)
    if smoothing:
        loss = loss - (logs * weights).sum(1) * (smoothing / x.shape[1])
    return loss.masked_fill(ignored, 0)


def _rows_in_parts(x: Tensor, t: Tensor, w: Any, ignore: int, smoothing: float) -> Any:
    """The losses and the logarithms of the sums, for kernels that are written."""
    if w is not None or smoothing:
        return NotImplemented
    wide = x.float() if x.dtype.itemsize == 2 else x
    top = wide.amax(1, keepdim=True)
    total = ((wide - top).exp().sum(1, keepdim=True).log() + top).squeeze(1)
    ignored = t == ignore
    picked = wide.gather(1, t.masked_fill(ignored, 0).unsqueeze(1)).squeeze(1)
    return (total - picked).masked_fill(ignored, 0).to(x.dtype), total


def _row_gradients_in_parts(
    g: Tensor, x: Tensor, t: Tensor, w: Any, total: Tensor, ignore: int, smoothing: float
) -> Any:
    if w is not None or smoothing:
        return NotImplemented
    wide = x.float() if x.dtype.itemsize == 2 else x
    likely = (wide - total.unsqueeze(1)).exp()
    hit = arange(x.shape[1], device=x.device) == t.unsqueeze(1)
    scale = g.masked_fill(t == ignore, 0).unsqueeze(1)
    return (where(hit, likely - 1, likely) * scale).to(x.dtype)


def _some_ignored(input: Tensor, target: Tensor, ignore_index: int) -> bool:
    """False for rows on the CPU of which each has a class; whoever notes calls is told of none that
    values decide."""
    if (watching and entered.note is not None) or _C.watched_for_plan():
        return True
    if differentiated(input):  # a graph looks the same by a plan, and without
        return True
    try:
        x, labels = input._a, target._a
        if type(x) is not ndarray or type(labels) is not ndarray or x.dtype not in FLOATS:
            return True
        if x.ndim != 2 or labels.ndim != 1 or labels.dtype is not INT64:
            return True
        n, classes = x.shape
    except AttributeError:
        return True
    if 0 <= ignore_index < classes or labels.size != n or not n:
        return True
    return backend("cpu", "indexing").outside(labels, classes) is not None


@functional
@autocast("float32")
@computes("cross_entropy_loss")
@ends_with(
    "{'' if input.shape == target.shape and target.is_floating_point() else 'add.Tensor' if "
    "label_smoothing else 'nll_loss2d_forward' if input.ndim > 2 else 'nll_loss_forward'}"
)
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """-log softmax(input)[target]; targets are classes or probabilities."""
    if weight is size_average is reduce is None and label_smoothing == 0 and reduction == "mean":
        if not _some_ignored(input, target, ignore_index):
            return _cross_entropy.call((input, target, None), (ignore_index, 0.0))[0].mean()
    mode = reduction_mode(size_average, reduce, reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    if input.shape == target.shape:
        if not target.is_floating_point():
            raise RuntimeError(
                "Expected floating point type for target with class probabilities, got "
                f"{scalar_name(target.dtype)}"
            )
        return _soft_cross_entropy(input, target, weight, mode, label_smoothing)
    if not input.ndim:
        raise IndexError("Dimension out of range (expected to be in range of [-1, 0], but got 1)")
    _check_nll(input, target, weight)
    if target.dtype.name not in ("int64", "uint8"):
        raise RuntimeError(f"expected scalar type Long but found {scalar_name(target.dtype)}")
    classes = input.shape[0] if input.ndim == 1 else input.shape[1]
    _check_targets(target, classes, ignore_index)
    rows, flat = _rows(input, target)
    flat = flat if flat.dtype is int64 else flat.to(int64)
    loss = _cross_entropy.call((rows, flat, weight), (ignore_index, label_smoothing))[0]
    if mode == "none":
        return reshape(loss, target.shape)
    if mode == "sum":
        return loss.sum()
    if weight is None and type(flat._array) in (ndarray, MetaArray) and flat.device.type == "cpu":
        return loss.sum() / _kept_labels.call((flat,), (ignore_index,))
    kept = flat != ignore_index
    if weight is None:
        return loss.sum() / kept.sum()
    scale = weight.index_select(0, flat.masked_fill(~kept, 0)).masked_fill(~kept, 0)
    return loss.sum() / scale.sum()


def _soft_cross_entropy(
    x: Tensor, target: Tensor, weight: Tensor | None, mode: str, smoothing: float
) -> Tensor:
    dim = 0 if x.ndim == 1 else 1
    classes = x.shape[dim]
    if smoothing:
        target = target * (1 - smoothing) + smoothing / classes
    logs = log_softmax(x, dim)
    if weight is not None:
        logs = logs * reshape(weight, [classes if i == dim else 1 for i in range(x.ndim)])
    loss = -(logs * target).sum(dim)
    if mode != "mean":
        return reduce_loss(loss, mode)
    return ends_as("div.Scalar", loss.sum() / (x.numel() / classes if classes else 0))
