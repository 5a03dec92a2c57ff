"""PyTorch's operators of cuDNN, MIOpen and oneDNN, computed by tritorch's own.

They take arguments in their libraries' order.  What only tunes a library (benchmark, allow_tf32)
changes nothing; results are deterministic always.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritorch.autograd import enable_grad, grad
from tritorch.core import published
from tritorch.core.dtype import uint8
from tritorch.core.published import PUBLIC
from tritorch.core.tensor import Tensor
from tritorch.ops.nn.conv import convolution
from tritorch.ops.nn.grid import affine_grid_generator, grid_sampler
from tritorch.ops.nn.norm import normalised_by_batch
from tritorch.ops.nn.recurrent import one_direction
from tritorch.ops.record.publishing import public

Ints = Sequence[int]

# ---- convolution ---------------------------------------------------------------------------------


@public(method=False, out=True)
def cudnn_convolution(
    input: Tensor, weight: Tensor, padding: Ints, stride: Ints, dilation: Ints, groups: int,
    benchmark: bool, deterministic: bool, allow_tf32: bool,
) -> Tensor:  # fmt: skip
    """Convolution, without bias."""
    return convolution(input, weight, None, stride, padding, dilation, False, 0, groups)


@public(method=False)
def cudnn_convolution_transpose(
    input: Tensor, weight: Tensor, padding: Ints, output_padding: Ints, stride: Ints,
    dilation: Ints, groups: int, benchmark: bool, deterministic: bool, allow_tf32: bool,
) -> Tensor:  # fmt: skip
    """Transposed convolution, without bias."""
    return convolution(input, weight, None, stride, padding, dilation, True, output_padding, groups)


@public(method=False)
def mkldnn_convolution(
    input: Tensor, weight: Tensor, bias: Tensor | None, padding: Ints, stride: Ints,
    dilation: Ints, groups: int,
) -> Tensor:  # fmt: skip
    """Convolution."""
    return convolution(input, weight, bias, stride, padding, dilation, False, 0, groups)


@public(method=False, aliases=("miopen_depthwise_convolution",))
def miopen_convolution(
    input: Tensor, weight: Tensor, bias: Tensor | None, padding: Ints, stride: Ints,
    dilation: Ints, groups: int, benchmark: bool, deterministic: bool,
) -> Tensor:  # fmt: skip
    """Convolution."""
    return convolution(input, weight, bias, stride, padding, dilation, False, 0, groups)


@public(method=False)
def miopen_convolution_transpose(
    input: Tensor, weight: Tensor, bias: Tensor | None, padding: Ints, output_padding: Ints,
    stride: Ints, dilation: Ints, groups: int, benchmark: bool, deterministic: bool,
) -> Tensor:  # fmt: skip
    """Transposed convolution."""
    return convolution(input, weight, bias, stride, padding, dilation, True, output_padding, groups)


def _convolution_relu(library: str) -> None:
    def plain(
        input: Tensor, weight: Tensor, bias: Tensor | None, stride: Ints, padding: Ints,
        dilation: Ints, groups: int,
    ) -> Tensor:  # fmt: skip
        return convolution(input, weight, bias, stride, padding, dilation, False, 0, groups).relu()

    def added(
        input: Tensor, weight: Tensor, z: Tensor, alpha: float | None, bias: Tensor | None,
        stride: Ints, padding: Ints, dilation: Ints, groups: int,
    ) -> Tensor:  # fmt: skip
        out = convolution(input, weight, bias, stride, padding, dilation, False, 0, groups)
        return out.add(z, alpha=1 if alpha is None else alpha).relu()

    for function, ending, what in (
        (plain, "relu", "relu(convolution)."),
        (added, "add_relu", "relu(convolution + alpha z)."),
    ):
        function.__name__ = function.__qualname__ = f"{library}_convolution_{ending}"
        function.__doc__ = what
        public(method=False)(function)


_convolution_relu("cudnn")
_convolution_relu("miopen")

# ---- the others ----------------------------------------------------------------------------------


def _batch_norm(
    input: Tensor, weight: Tensor, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, factor: float, epsilon: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    out, mean, rstd = normalised_by_batch(
        input, running_mean, running_var, weight, bias, training, factor, epsilon
    )
    none = mean.new_empty((0,))
    return (out, mean, rstd) if training else (out, none, none.clone())


@public(method=False)
def cudnn_batch_norm(
    input: Tensor, weight: Tensor, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, exponential_average_factor: float, epsilon: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """batch_norm, with mean, 1 / std, and what cuDNN would reserve: nothing."""
    found = _batch_norm(
        input, weight, bias, running_mean, running_var, training, exponential_average_factor,
        epsilon,
    )  # fmt: skip
    return *found, _reserve(input)


@public(method=False)
def miopen_batch_norm(
    input: Tensor, weight: Tensor, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, exponential_average_factor: float, epsilon: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """batch_norm, with mean and 1 / std."""
    return _batch_norm(
        input, weight, bias, running_mean, running_var, training, exponential_average_factor,
        epsilon,
    )  # fmt: skip


@public(method=False)
def cudnn_is_acceptable(input: Tensor) -> bool:
    """False: nothing here goes through cuDNN."""
    return False


@public(method=False)
def cudnn_affine_grid_generator(theta: Tensor, N: int, C: int, H: int, W: int) -> Tensor:
    """affine_grid_generator for N images of C x H x W, corners aligned."""
    return affine_grid_generator(theta, (N, C, H, W), True)


@public(method=False)
def cudnn_grid_sampler(input: Tensor, grid: Tensor) -> Tensor:
    """grid_sampler: bilinear, zeros outside, corners aligned."""
    return grid_sampler(input, grid, 0, 0, True)


@public(method=False)
def mkldnn_adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """nn.functional.adaptive_avg_pool2d."""
    return published.functional.adaptive_avg_pool2d(input, output_size)


@public(method=False)
def mkldnn_max_pool2d(
    input: Tensor, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """max_pool2d."""
    return published.public.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode)


@public(method=False)
def mkldnn_max_pool3d(
    input: Tensor, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """max_pool3d."""
    return published.public.max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode)


@public(method=False)
def mkldnn_linear_backward_weights(
    grad_output: Tensor, input: Tensor, weight: Tensor, bias_defined: bool
) -> tuple[Tensor, Any]:
    """The gradients of a linear layer's weight, and of its bias if it has one."""
    g = grad_output.reshape(-1, grad_output.shape[-1])
    return g.t().mm(input.reshape(-1, input.shape[-1])), g.sum(0) if bias_defined else None


@public(method=False)
def miopen_ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int,
    deterministic: bool, zero_infinity: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Each sample's loss, and its gradient by log_probs."""
    wanted = log_probs.requires_grad
    with enable_grad():
        x = log_probs if wanted else log_probs.detach().requires_grad_()
        loss = published.public.ctc_loss(
            x, targets, input_lengths, target_lengths, blank, 0, zero_infinity
        )
        (gradient,) = grad(loss.sum(), x, retain_graph=True)
    assert gradient is not None
    return loss if wanted else loss.detach(), gradient


# ---- recurrent networks --------------------------------------------------------------------------

_MODES = ("rnn_relu", "rnn_tanh", "lstm", "gru")


def _reserve(like: Tensor) -> Tensor:
    """What a library would keep for its backward pass: nothing."""
    return published.public.empty((0,), dtype=uint8, device=like.device)


@public(method=False)
def mkldnn_rnn_layer(
    input: Tensor, weight0: Tensor, weight1: Tensor, weight2: Tensor, weight3: Tensor, hx_: Tensor,
    cx_: Tensor, reverse: bool, batch_sizes: Ints, mode: int, hidden_size: int, num_layers: int,
    has_biases: bool, bidirectional: bool, batch_first: bool, train: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """One layer in one direction over all steps: (outputs, last h, last c, nothing).

    The input's first dim is the step, with batch_first too, as in PyTorch: its caller transposes.
    """
    steps, batch, width = input.shape
    name = _MODES[mode]
    begin = [s.reshape(batch, -1) for s in ((hx_, cx_) if name == "lstm" else (hx_,))]
    sizes = tuple(batch_sizes) or (batch,) * steps
    if sizes != (batch,) * steps:
        raise RuntimeError(f"mkldnn_rnn_layer: all steps must have {batch} rows, got {sizes}")
    out, last = one_direction(
        input.reshape(steps * batch, width), begin, (weight0, weight1, weight2, weight3), name,
        sizes, reverse, has_biases,
    )  # fmt: skip
    h = last[0].reshape(hx_.shape)
    c = last[1].reshape(cx_.shape) if name == "lstm" else hx_.new_empty((0,))
    return out.reshape(steps, batch, -1), h, c, _reserve(input)


@public(method=False, out=True)
def miopen_rnn(
    input: Tensor, weight: Sequence[Tensor], weight_stride0: int, hx: Tensor, cx: Tensor | None,
    mode: int, hidden_size: int, num_layers: int, batch_first: bool, dropout: float, train: bool,
    bidirectional: bool, batch_sizes: Ints, dropout_state: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """All layers: (outputs, last h, last c, nothing, the weights in one piece).

    weight_stride0: how many of the weights belong to a layer in one direction.  With batch_sizes,
    the input is that of a packed sequence.
    """
    name = _MODES[mode]
    if name == "lstm" and cx is None:
        raise ValueError("miopen_rnn: an LSTM needs cx")
    if name != "lstm" and cx is not None:
        raise RuntimeError("rnn: illegal defined cx for non-LSTM RNN")
    state: Any = (hx, cx) if name == "lstm" else hx
    options = (weight, weight_stride0 == 4, num_layers, dropout, train, bidirectional)
    if batch_sizes:
        lengths = published.public.tensor(list(batch_sizes))
        out, h, *c = PUBLIC[name](input, lengths, state, *options)
    else:
        out, h, *c = PUBLIC[name](input, state, *options, batch_first)
    flat = published.public.cat([w.detach().reshape(-1) for w in weight])
    return out, h, c[0] if c else hx.new_empty((0,)), _reserve(input), flat
