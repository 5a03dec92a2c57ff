"""Operators of ATen that layers are made of: forward with what is kept, and their gradients.

Arguments are ATen's.  A gradient is what autograd gives of the public function (`vjp`), so each
rule stands once; what a forward pass kept goes in where it spares the forward's work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tritorch import _C
from tritorch.core import published, scopes
from tritorch.core.published import FUNCTIONAL, INTERNAL
from tritorch.core.tensor import Tensor
from tritorch.ops.loss.loss import (
    cross_entropy,
    multi_margin_loss,
    multilabel_margin_loss,
    nll_loss,
)
from tritorch.ops.nn.attention import scaled_dot_product_attention
from tritorch.ops.nn.conv import convolution
from tritorch.ops.nn.folding import fold
from tritorch.ops.nn.grid import grid_sampler
from tritorch.ops.nn.norm import normalised_by_batch, summed_rows
from tritorch.ops.nn.upsample import interpolate
from tritorch.ops.pointwise.arithmetic import where
from tritorch.ops.pointwise.pointwise import logit, sigmoid
from tritorch.ops.reduce.softmax import softmax
from tritorch.ops.shape.factory import ones, tensor
from tritorch.ops.shape.padding import pad
from tritorch.ops.shape.ranges import arange

REDUCTIONS = ("none", "mean", "sum")  # as ATen numbers them


def internal(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declares the function of an operator of ATen, of each of these names."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        INTERNAL.update(dict.fromkeys(names or (function.__name__,), function))
        return function

    return decorate


def vjp(
    function: Callable[..., Tensor],
    inputs: Sequence[Tensor | None],
    grad_output: Tensor,
    wanted: Sequence[bool] | None = None,
) -> list[Tensor | None]:
    """The gradients of a function at its inputs, for a gradient of its output.

    They are recorded where an argument is: gradients of gradients come from the engine."""
    from tritorch.autograd import grad

    wanted = [x is not None for x in inputs] if wanted is None else wanted
    again = _C.is_grad_enabled() and any(
        x is not None and x.requires_grad for x in (*inputs, grad_output)
    )
    with scopes.recorded:
        leaves = [
            x if x is None or not want or (again and x.requires_grad) else
            x.detach().requires_grad_()
            for x, want in zip(inputs, wanted)
        ]  # fmt: skip
        out = function(*leaves)
        places = [i for i, want in enumerate(wanted) if want and leaves[i] is not None]
        found = grad(
            out, [leaves[i] for i in places], grad_output, create_graph=again, allow_unused=True
        )
    results: list[Tensor | None] = [None] * len(inputs)
    for place, each in zip(places, found):
        results[place] = each
    return results


def _first(found: Sequence[Tensor | None]) -> Tensor:
    assert found[0] is not None
    return found[0]


# ---- pooling -------------------------------------------------------------------------------------


def _pooling(dims: int) -> None:
    """The pools of a number of dims, which ATen names each for itself."""
    adaptive = f"adaptive_avg_pool{dims}d"
    average, largest = f"avg_pool{dims}d", f"adaptive_max_pool{dims}d"

    def scattered(grad_output: Tensor, self: Tensor, indices: Tensor) -> Tensor:
        """Each gradient at the place where its maximum was."""
        planes = self.shape[: self.ndim - dims]
        flat = self.new_zeros((*planes, int(_product(self.shape[self.ndim - dims :]))))
        gone = flat.scatter_add(-1, indices.reshape(*planes, -1), grad_output.reshape(*planes, -1))
        return gone.reshape(self.shape)

    INTERNAL[f"_{adaptive}"] = lambda self, output_size: FUNCTIONAL[adaptive](self, output_size)
    INTERNAL[f"_{adaptive}_backward"] = lambda grad_output, self: _first(
        vjp(lambda x: FUNCTIONAL[adaptive](x, grad_output.shape[-dims:]), (self,), grad_output)
    )
    INTERNAL[f"{average}_backward"] = (
        lambda grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad,
        divisor_override: _first(vjp(
            lambda x: FUNCTIONAL[average](
                x, kernel_size, stride or None, padding, ceil_mode, count_include_pad,
                divisor_override,
            ), (self,), grad_output,
        ))
    )  # fmt: skip
    INTERNAL[largest] = lambda self, output_size: FUNCTIONAL[largest](self, output_size, True)
    INTERNAL[f"{largest}_backward"] = scattered
    INTERNAL[f"max_pool{dims}d_with_indices_backward"] = (
        lambda grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices:
        scattered(grad_output, self, indices)
    )  # fmt: skip
    INTERNAL[f"fractional_max_pool{dims}d"] = (
        lambda self, kernel_size, output_size, random_samples: FUNCTIONAL[
            f"fractional_max_pool{dims}d"
        ](self, kernel_size, output_size, return_indices=True, _random_samples=random_samples)
    )
    INTERNAL[f"fractional_max_pool{dims}d_backward"] = (
        lambda grad_output, self, kernel_size, output_size, indices: scattered(
            grad_output, self, indices
        )
    )

    def unpooled(
        self: Tensor, indices: Tensor, output_size: Any, stride: Any = None, padding: Any = None
    ) -> Tensor:
        planes = self.shape[: self.ndim - dims]
        flat = self.new_zeros((*planes, int(_product(output_size))))
        gone = flat.scatter(-1, indices.reshape(*planes, -1), self.reshape(*planes, -1))
        return gone.reshape(*planes, *output_size)

    INTERNAL[f"max_unpool{dims}d"] = unpooled


def _product(sizes: Sequence[int]) -> int:
    result = 1
    for size in sizes:
        result = result * size
    return result


for _dims in (2, 3):
    _pooling(_dims)


# ---- padding, folding, resampling ----------------------------------------------------------------


def _padding(name: str, mode: str) -> None:
    def forward(self: Tensor, padding: Any) -> Tensor:
        return pad(self, tuple(padding), mode)

    INTERNAL[name] = forward
    INTERNAL[f"{name}_backward"] = lambda grad_output, self, padding: _first(
        vjp(lambda x: forward(x, padding), (self,), grad_output)
    )


for _dims in (1, 2, 3):
    _padding(f"reflection_pad{_dims}d", "reflect")
    _padding(f"replication_pad{_dims}d", "replicate")


@internal("col2im")
def _col2im(
    self: Tensor, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> Tensor:
    return fold(self, output_size, kernel_size, dilation, padding, stride)


@internal("unfold_backward")
def _unfold_backward(grad_in: Tensor, input_sizes: Any, dim: int, size: int, step: int) -> Tensor:
    zeros = grad_in.new_zeros(tuple(input_sizes))
    return _first(vjp(lambda x: x.unfold(dim, size, step), (zeros,), grad_in))


def _filtered(name: str, mode: str, antialias: bool) -> None:
    """Cubic and filtered resampling, which have no record of their own under ATen's name."""

    def forward(
        self: Tensor, output_size: Any, align_corners: bool, scales_h: Any = None,
        scales_w: Any = None,
    ) -> Tensor:  # fmt: skip
        return interpolate(
            self, tuple(output_size), mode=mode, align_corners=align_corners, antialias=antialias
        )

    def backward(
        grad_output: Tensor, output_size: Any, input_size: Any, align_corners: bool, *scales: Any
    ) -> Tensor:
        zeros = grad_output.new_zeros(tuple(input_size))
        return _first(vjp(lambda x: forward(x, output_size, align_corners), (zeros,), grad_output))

    INTERNAL[f"{name}."] = forward
    INTERNAL[f"{name}_backward."] = backward


_filtered("upsample_bicubic2d", "bicubic", False)
_filtered("_upsample_bilinear2d_aa", "bilinear", True)
_filtered("_upsample_bicubic2d_aa", "bicubic", True)


def _sampling(dims: int) -> None:
    def backward(
        grad_output: Tensor, input: Tensor, grid: Tensor, interpolation_mode: int,
        padding_mode: int, align_corners: bool, output_mask: Any = (True, True),
    ) -> tuple[Tensor | None, ...]:  # fmt: skip
        sample = lambda x, g: grid_sampler(x, g, interpolation_mode, padding_mode, align_corners)
        return tuple(vjp(sample, (input, grid), grad_output, output_mask))

    INTERNAL[f"grid_sampler_{dims}d_backward"] = backward


for _dims in (2, 3):
    _sampling(_dims)


# ---- convolution, normalisation ------------------------------------------------------------------


@internal("convolution_backward", "convolution_backward_overrideable")
def _convolution_backward(
    grad_output: Tensor, input: Tensor, weight: Tensor, bias_sizes: Any, stride: Any, padding: Any,
    dilation: Any, transposed: bool, output_padding: Any, groups: int, output_mask: Any,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    forward = lambda x, w: convolution(
        x, w, None, stride, padding, dilation, transposed, output_padding, groups
    )
    if any(output_mask[:2]):
        x, w = vjp(forward, (input, weight), grad_output, output_mask[:2])
    else:
        x = w = None
    others = [dim for dim in range(grad_output.ndim) if dim != 1]
    return x, w, grad_output.sum(others) if output_mask[2] else None


@internal("_native_batch_norm_legit.")
def _native_batch_norm_legit(
    input: Tensor, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
    momentum: float, eps: float,
) -> Any:  # fmt: skip
    return published.public.native_batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps
    )


@internal("_native_batch_norm_legit.no_stats")
def _native_batch_norm_no_stats(
    input: Tensor, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> Any:
    return _native_batch_norm_legit(input, weight, bias, None, None, training, momentum, eps)


@internal("_native_batch_norm_legit_no_training")
def _native_batch_norm_no_training(
    input: Tensor, weight: Any, bias: Any, running_mean: Tensor, running_var: Tensor,
    momentum: float, eps: float,
) -> Any:  # fmt: skip
    return _native_batch_norm_legit(
        input, weight, bias, running_mean, running_var, False, momentum, eps
    )


@internal("_native_batch_norm_legit_functional")
def _native_batch_norm_functional(
    input: Tensor, weight: Any, bias: Any, running_mean: Tensor, running_var: Tensor,
    training: bool, momentum: float, eps: float,
) -> Any:  # fmt: skip
    mean, var = running_mean.clone(), running_var.clone()
    found = _native_batch_norm_legit(input, weight, bias, mean, var, training, momentum, eps)
    return (*found, mean, var)


@internal("_batch_norm_with_update")
def _batch_norm_with_update(
    input: Tensor, weight: Any, bias: Any, running_mean: Tensor, running_var: Tensor,
    momentum: float, eps: float,
) -> Any:  # fmt: skip
    found = _native_batch_norm_legit(
        input, weight, bias, running_mean, running_var, True, momentum, eps
    )
    return (*found, input.new_empty((0,), dtype=ones((), device="meta").byte().dtype))


@internal("native_batch_norm_backward")
def _native_batch_norm_backward(
    grad_out: Tensor, input: Tensor, weight: Any, running_mean: Any, running_var: Any,
    save_mean: Any, save_invstd: Any, train: bool, eps: float, output_mask: Any,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    scale = weight if weight is not None else input.new_ones((input.shape[1],))
    shift = published.public.zeros_like(scale)
    forward = lambda x, w, b: normalised_by_batch(
        x, None if train else running_mean, None if train else running_var, w, b, train, 0.0, eps
    )[0]
    return tuple(vjp(forward, (input, scale, shift), grad_out, output_mask))


@internal("batch_norm_backward")
def _batch_norm_backward(
    grad_out: Tensor, input: Tensor, weight: Any, running_mean: Any, running_var: Any,
    save_mean: Any, save_var: Any, update: bool, eps: float, output_mask: Any, reserve: Tensor,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    return _native_batch_norm_backward(
        grad_out, input, weight, running_mean, running_var, save_mean, save_var, update, eps,
        output_mask,
    )  # fmt: skip


@internal("native_layer_norm_backward")
def _native_layer_norm_backward(
    grad_out: Tensor, input: Tensor, normalized_shape: Any, mean: Tensor, rstd: Tensor,
    weight: Any, bias: Any, output_mask: Any,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    shape = tuple(normalized_shape)
    dims = tuple(range(input.ndim - len(shape), input.ndim))
    outer = input.ndim - len(shape)
    normal = (input - mean) * rstd
    dx = None
    if output_mask[0]:
        dy = grad_out if weight is None else grad_out * weight
        along = (dy * normal).mean(dims, keepdim=True)
        dx = rstd * (dy - dy.mean(dims, keepdim=True) - normal * along)
    return (
        dx,
        summed_rows(grad_out * normal, outer) if output_mask[1] else None,
        summed_rows(grad_out, outer) if output_mask[2] else None,
    )


@internal("native_group_norm_backward")
def _native_group_norm_backward(
    grad_out: Tensor, input: Tensor, mean: Tensor, rstd: Tensor, weight: Any, N: int, C: int,
    HxW: int, group: int, output_mask: Any,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    parts = (N, group, C // group, HxW)
    x, dy = input.reshape(parts), grad_out.reshape(parts)
    centre, scale = mean.reshape(N, group, 1, 1), rstd.reshape(N, group, 1, 1)
    normal = (x - centre) * scale
    dx = None
    if output_mask[0]:
        dn = dy if weight is None else dy * weight.reshape(1, group, C // group, 1)
        along = (dn * normal).mean((2, 3), keepdim=True)
        dx = (scale * (dn - dn.mean((2, 3), keepdim=True) - normal * along)).reshape(input.shape)
    return (
        dx,
        (dy * normal).sum((0, 3)).reshape(C) if output_mask[1] else None,
        dy.sum((0, 3)).reshape(C) if output_mask[2] else None,
    )


# ---- activations, dropout ------------------------------------------------------------------------


@internal("native_dropout_backward")
def _native_dropout_backward(grad_output: Tensor, mask: Tensor, scale: float) -> Tensor:
    return grad_output * mask * scale


@internal("glu_backward")
def _glu_backward(grad_output: Tensor, self: Tensor, dim: int) -> Tensor:
    return _first(vjp(lambda x: published.functional.glu(x, dim), (self,), grad_output))


@internal("hardshrink_backward")
def _hardshrink_backward(grad_out: Tensor, self: Tensor, lambd: Any) -> Tensor:
    return grad_out.masked_fill((self >= -lambd) & (self <= lambd), 0)


@internal("softshrink_backward")
def _softshrink_backward(grad_output: Tensor, self: Tensor, lambd: Any) -> Tensor:
    return grad_output.masked_fill((self >= -lambd) & (self <= lambd), 0)


@internal("logit_backward")
def _logit_backward(grad_output: Tensor, self: Tensor, eps: float | None = None) -> Tensor:
    return _first(vjp(lambda x: logit(x, eps), (self,), grad_output))


@internal("log_sigmoid_forward")
def _log_sigmoid_forward(self: Tensor) -> tuple[Tensor, Tensor]:
    """buffer: what PyTorch's CPU keeps for the gradient, exp(-|x|)."""
    kept = self.new_empty((0,)) if self.is_cuda else (-self.abs()).exp()
    return published.functional.logsigmoid(self), kept


@internal("log_sigmoid_backward")
def _log_sigmoid_backward(grad_output: Tensor, self: Tensor, buffer: Tensor) -> Tensor:
    return grad_output * sigmoid(-self)


@internal("elu_backward")
def _elu_backward(
    grad_output: Tensor, alpha: Any, scale: Any, input_scale: Any, is_result: bool,
    self_or_result: Tensor,
) -> Tensor:  # fmt: skip
    x = self_or_result
    if is_result:
        below = input_scale * (x + alpha * scale)
    else:
        below = alpha * scale * input_scale * (x * input_scale).exp()
    return grad_output * where(x <= 0, below, scale)


@internal("_prelu_kernel")
def _prelu_kernel(self: Tensor, weight: Tensor) -> Tensor:
    return where(self > 0, self, weight * self)


@internal("_prelu_kernel_backward")
def _prelu_kernel_backward(
    grad_output: Tensor, self: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor]:
    above = self > 0
    return where(above, grad_output, weight * grad_output), where(above, 0.0, self * grad_output)


@internal("rrelu_with_noise")
def _rrelu_with_noise(
    self: Tensor, noise: Tensor, lower: Any = 0.125, upper: Any = 1 / 3, training: bool = False,
    generator: Any = None,
) -> Tensor:  # fmt: skip
    """noise becomes the slope of each element: drawn below zero, 1 above."""
    if not training:
        return published.functional.leaky_relu(self, (lower + upper) / 2)
    drawn = published.public.empty_like(self.detach()).uniform_(lower, upper, generator=generator)
    noise.copy_(where(self.detach() <= 0, drawn, 1.0))
    return self * noise


@internal("rrelu_with_noise_backward")
def _rrelu_with_noise_backward(
    grad_output: Tensor, self: Tensor, noise: Tensor, lower: Any, upper: Any, training: bool,
    self_is_result: bool,
) -> Tensor:  # fmt: skip
    if training and upper - lower > 1e-6:
        return grad_output * noise
    return grad_output * where(self > 0, 1.0, (lower + upper) / 2)


@internal("_safe_softmax")
def _safe_softmax(self: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """A softmax that gives zeros where everything is masked off."""
    nothing = (self == -float("inf")).all(dim, keepdim=True)
    return softmax(self, dim, dtype=dtype).masked_fill(nothing, 0)


@internal("_softmax_backward_data")
def _softmax_backward_data(
    grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any
) -> Tensor:
    weighed = grad_output * output
    return (weighed - output * weighed.sum(dim, keepdim=True)).to(input_dtype)


@internal("_log_softmax_backward_data")
def _log_softmax_backward_data(
    grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any
) -> Tensor:
    return (grad_output - output.exp() * grad_output.sum(dim, keepdim=True)).to(input_dtype)


# ---- losses --------------------------------------------------------------------------------------


def _loss(name: str, *extra: str, before: Sequence[str] = (), after: Sequence[str] = ()) -> None:
    """The gradient of a loss: of grad_output, input, target, `before`, reduction, `after`."""

    def backward(grad_output: Tensor, self: Tensor, target: Tensor, *rest: Any) -> Tensor:
        names = (*before, "reduction", *after)
        given = dict(zip(names, rest))
        given["reduction"] = REDUCTIONS[given.get("reduction", 1)]
        given = {k: v for k, v in given.items() if k in known}
        return _first(vjp(lambda x: FUNCTIONAL[name](x, target, **given), (self,), grad_output))

    known = {"reduction", *extra}
    INTERNAL[f"{name}_backward"] = backward


_loss("mse_loss")
_loss("soft_margin_loss")
_loss("smooth_l1_loss", "beta", after=("beta",))
_loss("huber_loss", "delta", after=("delta",))
_loss("binary_cross_entropy", "weight", before=("weight",))
_loss("multi_margin_loss", "p", "margin", "weight", before=("p", "margin", "weight"))
_loss("multilabel_margin_loss", after=("is_target",))
_loss("nll_loss", "weight", "ignore_index", before=("weight",),
      after=("ignore_index", "total_weight"))  # fmt: skip
INTERNAL["nll_loss2d_backward"] = INTERNAL["nll_loss_backward"]


@internal("multilabel_margin_loss_forward")
def _multilabel_margin_loss_forward(
    self: Tensor, target: Tensor, reduction: int
) -> tuple[Tensor, Tensor]:
    """The loss, and 1 where a class is a target: those before the first -1 of a row."""
    loss = multilabel_margin_loss(self, target, reduction=REDUCTIONS[reduction])
    listed = (target >= 0).to(target.dtype).cumprod(-1) if target.ndim else (target >= 0)
    places = target.clamp_min(0)
    marks = published.public.zeros_like(self.detach()).reshape(target.shape)
    if not target.ndim:
        return loss, listed.to(self.dtype)
    return loss, marks.scatter_reduce(-1, places, listed.to(self.dtype), "amax")


@internal("multi_margin_loss")
def _multi_margin_loss(
    self: Tensor, target: Tensor, p: Any = 1, margin: Any = 1, weight: Any = None,
    reduction: int = 1,
) -> Tensor:  # fmt: skip
    return multi_margin_loss(self, target, p, margin, weight, reduction=REDUCTIONS[reduction])


@internal("nll_loss_forward", "nll_loss2d_forward")
def _nll_loss_forward(
    self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> tuple[Tensor, Tensor]:
    """The loss, and the weights that it was divided by, which are counted for the mean."""
    loss = nll_loss(
        self, target, weight, ignore_index=ignore_index, reduction=REDUCTIONS[reduction]
    )
    counted = target != ignore_index
    weights = (
        counted.to(self.dtype)
        if weight is None
        else weight[target.masked_fill(~counted, 0)] * counted
    )
    if self.ndim == 1:  # one sample: nothing is left out
        loss = loss.reshape(())
    elif not reduction:
        return loss, self.new_zeros(())
    return loss, weights.sum()


# ---- connectionist temporal classification -------------------------------------------------------


@internal("_ctc_loss")
def _ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    zero_infinity: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The loss of each sequence, and log_alpha, as wide as the longest target."""
    from tritorch.ops.loss import ctc

    steps, labels = (ctc._lengths(n, v) for n, v in (
        ("input_lengths", input_lengths), ("target_lengths", target_lengths)))  # fmt: skip
    found = ctc._ctc.call(_ctc_inputs(log_probs, targets, steps, labels, blank),
                          (blank, zero_infinity))  # fmt: skip
    return found[0], found[1]


def _ctc_inputs(
    log_probs: Tensor, targets: Tensor, steps: list[int], labels: list[int], blank: int
) -> tuple[Tensor, ...]:
    from tritorch.ops.loss import ctc

    on: dict[str, Any] = {"device": log_probs.device}
    padded = ctc._padded(targets, labels, blank)
    return log_probs, padded, tensor(steps, **on), tensor(labels, **on)


@internal("_ctc_loss_backward")
def _ctc_loss_backward(
    grad: Tensor, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any,
    neg_log_likelihood: Tensor, log_alpha: Tensor, blank: int, zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    from tritorch.ops.loss import ctc

    steps, labels = (ctc._lengths(n, v) for n, v in (
        ("input_lengths", input_lengths), ("target_lengths", target_lengths)))  # fmt: skip
    inputs = _ctc_inputs(log_probs, targets, steps, labels, blank)
    return _first(
        vjp(lambda x: ctc._ctc.call((x, *inputs[1:]), (blank, zero_infinity))[0],
            (log_probs,), grad)
    )  # fmt: skip


# ---- embeddings, attention -----------------------------------------------------------------------


@internal("_embedding_bag", "_embedding_bag_forward_only")
def _embedding_bag(
    weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False,
    mode: int = 0, sparse: bool = False, per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False, padding_idx: int = -1,
) -> Any:  # fmt: skip
    return published.public.embedding_bag(
        weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
        include_last_offset, None if padding_idx < 0 else padding_idx,
    )  # fmt: skip


@internal("_embedding_bag_backward")
def _embedding_bag_backward(
    grad: Tensor, indices: Tensor, offsets: Tensor, offset2bag: Tensor, bag_size: Tensor,
    maximum_indices: Tensor, num_weights: int, scale_grad_by_freq: bool, mode: int, sparse: bool,
    per_sample_weights: Tensor | None, padding_idx: int = -1,
) -> Tensor:  # fmt: skip
    rows = grad.new_zeros((num_weights, grad.shape[1]))
    if mode == 2:
        real = maximum_indices.clamp_min(0)
        return rows.scatter_add(0, real, grad.masked_fill(maximum_indices < 0, 0))
    last = offsets.shape[0] > grad.shape[0]
    forward = lambda w: _embedding_bag(
        w, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, last,
        padding_idx,
    )[0]  # fmt: skip
    return _first(vjp(forward, (rows,), grad))


@internal("_embedding_bag_per_sample_weights_backward")
def _embedding_bag_weights_backward(
    grad: Tensor, weight: Tensor, indices: Tensor, offsets: Tensor, offset2bag: Tensor, mode: int,
    padding_idx: int = -1,
) -> Tensor:  # fmt: skip
    places = arange(indices.shape[0], device=indices.device)
    starts = offsets[: grad.shape[0]]
    bag = (places.unsqueeze(1) >= starts.unsqueeze(0)).sum(1) - 1
    found = (grad[bag] * weight[indices]).sum(1)
    return found if padding_idx < 0 else found.masked_fill(indices == padding_idx, 0)


@internal("_scaled_dot_product_flash_attention_for_cpu")
def _attention_on_host(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, is_causal: bool = False, *,
    attn_mask: Tensor | None = None, scale: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Attention, and the logarithm of the sum of each row's exponentials."""
    out = scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale)
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = (query @ key.transpose(-2, -1)).float() * factor
    if attn_mask is not None:
        scores = scores + attn_mask
    if is_causal:
        allowed = published.public.ones_like(scores[0, 0], dtype=ones(1).bool().dtype).tril()
        scores = scores.masked_fill(~allowed, -float("inf"))
    return out, scores.logsumexp(-1)


@internal("_scaled_dot_product_flash_attention_for_cpu_backward")
def _attention_on_host_backward(
    grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, logsumexp: Tensor,
    dropout_p: float, is_causal: bool, *, attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    forward = lambda q, k, v: scaled_dot_product_attention(
        q, k, v, attn_mask, dropout_p, is_causal, scale
    )
    return tuple(vjp(forward, (query, key, value), grad_out))


@internal("cross_entropy_loss")
def _cross_entropy_loss(
    self: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1,
    ignore_index: int = -100, label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    return cross_entropy(
        self, target, weight, ignore_index=ignore_index, reduction=REDUCTIONS[reduction],
        label_smoothing=label_smoothing,
    )  # fmt: skip


@internal("nll_loss_nd", "nll_loss2d")
def _nll_loss_nd(
    self: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1,
    ignore_index: int = -100,
) -> Tensor:  # fmt: skip
    return nll_loss(
        self, target, weight, ignore_index=ignore_index, reduction=REDUCTIONS[reduction]
    )


# ---- convolutions by the names of PyTorch's ways to compute them ---------------------------------


def _convolution(dims: int, transposed: bool, *names: str) -> None:
    """self, weight, kernel_size, bias, stride, padding, (output_padding,) dilation."""

    def plain(
        self: Tensor, weight: Tensor, kernel_size: Any, bias: Tensor | None = None, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1,
    ) -> Tensor:  # fmt: skip
        return FUNCTIONAL[f"conv{dims}d"](self, weight, bias, stride, padding, dilation)

    def turned(
        self: Tensor, weight: Tensor, kernel_size: Any, bias: Tensor | None = None, stride: Any = 1,
        padding: Any = 0, output_padding: Any = 0, dilation: Any = 1,
    ) -> Tensor:  # fmt: skip
        return FUNCTIONAL[f"conv_transpose{dims}d"](
            self, weight, bias, stride, padding, output_padding, 1, dilation
        )

    internal(*names)(turned if transposed else plain)


_convolution(2, False, "thnn_conv2d", "slow_conv_dilated2d")
_convolution(3, False, "slow_conv3d", "slow_conv3d_forward", "slow_conv_dilated3d")
_convolution(2, True, "slow_conv_transpose2d")
_convolution(3, True, "slow_conv_transpose3d")
