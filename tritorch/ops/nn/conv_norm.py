"""Convolution, batch norm, an addend and relu with fewer passes over memory.

The convolution's kernels write what statistics need of each tile beside the tile, so the norm does
not read its input for them; norm, addend and relu are one pass, their gradients two (sums, then
elements).  `nn.utils.fusion` offers it to modules.
"""

from __future__ import annotations

from typing import Any

from tritorch.core import published
from tritorch.core.layout import dense_strides_like as copy_strides
from tritorch.core.tensor import Tensor
from tritorch.ops.nn.conv import _PARAMS, _convolution, _input, _weight, convolution_result
from tritorch.ops.nn.norm import _composed_batch
from tritorch.ops.pointwise.pointwise import rsqrt
from tritorch.ops.record.backends import backend
from tritorch.ops.record.groups import Gradient, Rules
from tritorch.ops.record.infer import computed
from tritorch.ops.record.operator import Operator
from tritorch.ops.record.sizes import convolved, normalised


def _on_cpu(x: Any, w: Any, b: Any, *rest: Any) -> Any:
    *params, eps = rest
    y = backend("cpu", "conv").convolution(x, w, b, *params)
    return y, *backend("cpu", "norm").batch_norm(y, None, None, None, None, True, eps)[1:]


# Also mean, 1 / std and variance of each channel of the result, through which no gradients flow:
# the gradient of the norm includes what they depend on.
def _with_statistics_results(*given: Any) -> Any:
    y = convolution_result(*given[:-1])
    return y, *(y.new(y.shape[1:2], computed(y)) for _ in range(3))


_with_statistics = Operator(
    "convolution_with_statistics",
    "x w b",
    _PARAMS + " eps",
    schema="(Tensor x, Tensor w, Tensor? b, int[] stride, int[] padding, int[] dilation, "
    "bool transposed, int[] output_padding, int groups, float eps) -> (Tensor, "
    "Tensor, Tensor, Tensor)",
    cpu=_on_cpu,
    gpu=lambda *args: backend("gpu", "conv").with_statistics(*args),
    composed=lambda x, w, b, *rest: _convolution.call((x, w, b), rest[:-1]),
    grad=Gradient(
        (
            lambda g, x, w, stride, padding, dilation, transposed, output_padding, groups: (
                _input.call(
                    (g[0], w),
                    (tuple(x.shape), stride, padding, dilation, transposed, output_padding, groups),
                )
            ),
            lambda g, x, w, stride, padding, dilation, transposed, output_padding, groups: (
                _weight.call(
                    (g[0], x),
                    (tuple(w.shape), stride, padding, dilation, transposed, output_padding, groups),
                )
            ),
            lambda g: g[0].sum([i for i in range(g[0].ndim) if i != 1]),
        ),
        node="Convolution",
        outputs=0b0001,
    ),
    rules=Rules(
        infer=_with_statistics_results,
        axes=lambda x, w, b, *rest: "bc{0},{1},o->bo{0},?,?,?".format(
            *convolved(len(x.shape) - 2, rest[3])
        ),
        batch="convolution_with_statistics",
    ),
)


def _composed(
    x: Tensor, w: Any, b: Any, z: Any, mean: Any, rstd: Any, training: bool, relu: bool, eps: float
) -> Tensor:
    var = None if training else rstd.square().reciprocal() - eps
    y = _composed_batch(x, w, b, mean, var, training, eps)
    if z is not None:
        y = y + z
    return published.functional.relu(y) if relu else y


def _plainly(
    x: Any, w: Any, b: Any, z: Any, mean: Any, rstd: Any, training: bool, relu: bool, eps: float
) -> Any:
    var = 1 / (rstd * rstd) - eps
    y = backend("cpu", "norm").batch_norm(x, w, b, mean, var, False, eps)[0]
    if z is not None:
        y = (y + z).astype(y.dtype)
    return y * (y > 0) if relu else y


def _plain_gradients(
    y: Any, x: Any, out: Any, w: Any, mean: Any, rstd: Any, training: bool, adds: bool
) -> Any:
    g = y if out is None else (y * (out > 0)).astype(y.dtype)
    return *backend("cpu", "norm").batch_norm_backward(g, x, w, mean, rstd, training), g


def _gradients(
    g: Tensor, x: Tensor, w: Any, z: Any, mean: Any, rstd: Any, out: Tensor, training: bool,
    relu: bool,
) -> Any:  # fmt: skip
    inputs = (g, x, out.detach() if relu else None, w, mean, rstd)
    *grads, dz = _back.call(inputs, (training, z is not None))
    return *grads, None if z is None else dz, None, None


# relu((x - mean) rstd w + b + z).  training: the statistics are x's own.
_normalised = Operator(
    "batch_norm_add_relu",
    "x w b z mean rstd",
    "training relu eps",
    schema="(Tensor x, Tensor? w, Tensor? b, Tensor? z, Tensor mean, Tensor rstd, bool "
    "training, bool relu, float eps) -> Tensor",
    cpu=_plainly,
    gpu=lambda x, w, b, z, mean, rstd, training, relu, eps: backend("gpu", "norm").normalised(
        x, w, b, z, mean, rstd, relu
    ),
    composed=_composed,
    grad=Gradient(joint=_gradients),
    rules=Rules(
        infer=lambda x, *rest: x.new(x.shape, None, copy_strides(x.shape, x.strides)),
        axes=lambda x, *rest: "b*c{0},c,c,b*c{0},c,c->b*c{0}".format(
            normalised(len(x.shape) - 2)[0]
        ),
        batch="channels",
    ),
)
_back = Operator(
    "batch_norm_add_relu_backward",
    "y x out_ w mean rstd",
    "training adds",
    schema="(Tensor y, Tensor x, Tensor? out_, Tensor? w, Tensor mean, Tensor rstd, bool "
    "training, bool adds) -> (Tensor, Tensor, Tensor, Tensor)",
    kind="internal",
    cpu=_plain_gradients,
    gpu=lambda *args: backend("gpu", "norm").normalised_backward(*args),
    grad=Gradient(outputs=0b1111),
    rules=Rules(
        infer=lambda y, x, *rest: (
            x.new(x.shape),
            x.new(x.shape[1:2]),
            x.new(x.shape[1:2]),
            x.new(x.shape),
        ),
        batch="channels",
    ),
)


def convolution_batch_norm(
    input: Tensor, weight: Tensor, bias: Any, convolved: tuple[Any, ...], gamma: Any, beta: Any,
    residual: Any, relu: bool, eps: float,
) -> tuple[Tensor, Tensor, Tensor, int]:  # fmt: skip
    """relu(batch_norm(convolution(input)) + residual) by the batch's statistics.

    convolved: the convolution's stride, padding, dilation, transposed, output_padding and groups.
    Also mean, variance and the number of elements of a channel, for running statistics.
    """
    y, mean, rstd, variance = _with_statistics.call((input, weight, bias), (*convolved, eps))
    out = _normalised.call((y, gamma, beta, residual, mean, rstd), (True, relu, eps))
    return out, mean, variance, y.numel() // y.shape[1]


def batch_norm_add_relu(
    input: Tensor, mean: Tensor, var: Tensor, gamma: Any, beta: Any, residual: Any, relu: bool,
    eps: float,
) -> Tensor:  # fmt: skip
    """relu(batch_norm(input) + residual) by given statistics."""
    rstd = rsqrt(var + eps)
    return _normalised.call((input, gamma, beta, residual, mean, rstd), (False, relu, eps))
