"""Normalisation: layer, rms, group, instance, batch; local response."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tritorch.arrays.arrays import by_steps
from tritorch.arrays.meta import MetaArray
from tritorch.autograd import no_grad
from tritorch.core import published
from tritorch.core.dtype import float32
from tritorch.core.info import finfo
from tritorch.core.promotion import category, not_implemented
from tritorch.core.published import PUBLIC, autocast
from tritorch.core.tensor import Tensor
from tritorch.ops.record import checks
from tritorch.ops.record.backends import backend
from tritorch.ops.record.ends import ends_as
from tritorch.ops.record.groups import Gradient, Rules, Without
from tritorch.ops.record.infer import computed
from tritorch.ops.record.operator import Operator
from tritorch.ops.record.publishing import functional
from tritorch.ops.record.sizes import normalised
from tritorch.ops.record.spelling import spelled
from tritorch.ops.reduce.reduction import var_mean
from tritorch.ops.shape.padding import pad
from tritorch.ops.shape.shape import reshape

# ---- layer norm ----------------------------------------------------------------------------------


def _layer_norm_results(x: MetaArray, w: Any, b: Any, n: int, eps: float) -> Any:
    lead = x.shape[: x.ndim - n]
    return x.new(x.shape), x.new(lead, computed(x)), x.new(lead, computed(x))


def _rms_norm_results(x: MetaArray, w: Any, n: int, eps: float) -> Any:
    return x.new(x.shape), x.new(x.shape[: x.ndim - n], computed(x))


def _group_norm_results(x: MetaArray, w: Any, b: Any, groups: int, eps: float) -> Any:
    shape = (x.shape[0], groups)
    return x.new(x.shape), x.new(shape, computed(x)), x.new(shape, computed(x))


def _batch_norm_results(x: MetaArray, w: Any, b: Any, mean: Any, var: Any, *rest: Any) -> Any:
    channels = x.shape[1:2]
    return x.new(x.shape), *(x.new(channels, computed(x)) for _ in range(3))


def _rows_gradients(y: MetaArray, x: MetaArray, w: Any, *rest: Any) -> Any:
    """Those of x, weight and bias, where normalised over the last dims."""
    shape = x.shape[x.ndim - rest[-1] :]
    return x.new(x.shape), x.new(shape), x.new(shape)


def _channel_gradients(y: MetaArray, x: MetaArray, *rest: Any) -> Any:
    """Those of x, weight and bias, where weights are one a channel."""
    return x.new(x.shape), x.new(x.shape[1:2]), x.new(x.shape[1:2])


def _affine(x: Tensor, w: Any, b: Any) -> Tensor:
    x = x * w if w is not None else x
    return x + b if b is not None else x


def _per_channel(v: Any, x: Tensor) -> Any:
    return None if v is None else reshape(v, [-1 if i == 1 else 1 for i in range(x.ndim)])


def _normalised(
    x: Tensor, w: Any, b: Any, dims: list[int], eps: float, moments: Any
) -> tuple[Tensor, Any, Tensor]:
    """(x - mean) / sqrt(variance + eps), scaled and shifted; the mean, if any, and 1 / std.

    moments: gives the variance and the mean of x over dims, or None for a mean of 0."""
    variance, mean = moments(x, dims)
    rstd = (variance + eps).rsqrt()
    return _affine((x if mean is None else x - mean) * rstd, w, b), mean, rstd


def _moments(x: Tensor, dims: list[int]) -> Any:
    return var_mean(x, dims, correction=0, keepdim=True)


def _moments_in_parts(x: Tensor, dims: list[int]) -> tuple[Tensor, Tensor]:
    """The variance and the mean, of operators that written kernels have."""
    mean = x.mean(dims, keepdim=True)
    return (x - mean).square().mean(dims, keepdim=True), mean


def _square_mean(x: Tensor, dims: list[int]) -> tuple[Tensor, None]:
    return x.square().mean(dims, keepdim=True), None


def _last(x: Tensor, n: int) -> list[int]:
    return list(range(x.ndim - n, x.ndim))


def _composed_layer(x: Tensor, w: Any, b: Any, n: int, eps: float) -> Tensor:
    return _normalised(x, w, b, _last(x, n), eps, _moments)[0]


def _wide(x: Tensor) -> Tensor:
    """As what norms compute in."""
    return x.float() if x.dtype.itemsize == 2 else x


def summed_rows(x: Tensor, before: int, dtype: Any = None) -> Tensor:
    """The sum over the first dims.  Of no dims it is x itself, where `sum` would take all."""
    if not before:
        return x if dtype is None else x.to(dtype)
    return x.sum(list(range(before)), dtype=dtype)


def _layer_in_parts(
    x: Tensor, w: Any, b: Any, n: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    y, mean, rstd = _normalised(_wide(x), w, b, _last(x, n), eps, _moments_in_parts)
    lead = x.shape[: x.ndim - n]
    return y.to(x.dtype), reshape(mean, lead), reshape(rstd, lead)


def _row_gradients_in_parts(
    y: Tensor, x: Tensor, w: Any, mean: Any, rstd: Tensor, n: int
) -> tuple[Tensor, ...]:
    """The gradients of x, weight and bias; without a mean, of x and weight."""
    dims, rows, wide = _last(x, n), (*x.shape[: x.ndim - n], *(1,) * n), _wide(y)
    rstd = reshape(rstd, rows)
    normal = (_wide(x) if mean is None else _wide(x) - reshape(mean, rows)) * rstd
    g = wide if w is None else wide * w
    along = (g * normal).mean(dims, keepdim=True)
    centred = g if mean is None else g - g.mean(dims, keepdim=True)
    dx = ((centred - normal * along) * rstd).to(x.dtype)
    of_weight = summed_rows(wide * normal, x.ndim - n, x.dtype)
    if mean is None:
        return dx, of_weight
    return dx, of_weight, summed_rows(wide, x.ndim - n, x.dtype)


_layer = Operator(
    "layer_norm",
    "x w b",
    "n eps",
    schema="(Tensor x, Tensor? w, Tensor? b, int n, float eps) -> (Tensor, Tensor, Tensor)",
    cpu=by_steps(lambda x, w, b, n, eps: backend("cpu", "norm").layer_norm(x, n, w, b, eps)),
    gpu=lambda x, w, b, n, eps: backend("gpu", "norm").layer_norm(x, n, w, b, eps),
    composed=_composed_layer,
    parts=_layer_in_parts,
    grad=Gradient(
        joint=lambda g, x, w, out1, out2, n: _layer_back.call((g[0], x, w, out1, out2), (n,)),
        node="native_layer_norm(x, x.shape[x.ndim - n :], w, b, eps)",
        outputs=0b001,
        unread="b",
    ),
    without=Without("bool int complex", kernel="LayerNormKernelImpl"),
    rules=Rules(
        infer=_layer_norm_results,
        axes=lambda x, w, b, n, eps: "...{0},{1},{1}->...{0},?,?".format(*normalised(n)),
        batch="norm_of_rows",
    ),
)
_layer_back: Operator = Operator(
    "layer_norm_backward", "y x w mean rstd", "n",
    schema="(Tensor y, Tensor x, Tensor? w, Tensor mean, Tensor rstd, int n) -> (Tensor, "
        "Tensor, Tensor)",
    kind="internal",
    cpu=by_steps(
        lambda y, x, w, m, r, n: backend("cpu", "norm").layer_norm_backward(y, x, n, w, m, r)),
    gpu=lambda y, x, w, m, r, n: backend("gpu", "norm").layer_norm_backward(y, x, n, w, m, r),
    parts=_row_gradients_in_parts, grad=Gradient(outputs=0b111),
    rules=Rules(
        infer=_rows_gradients,
        axes=lambda *given: "...{0},...{0},{1},?,?->...{0},{1},{1}".format(*normalised(given[-1])),
        batch="norm_of_rows_backward", cost=lambda outs, y, x, *rest: 12 * x.numel(),
    ),
)  # fmt: skip


@functional
@autocast("cuda:float32")
def layer_norm(input: Tensor, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None,
               eps: float = 1e-5) -> Tensor:  # fmt: skip
    """(x - mean) / sqrt(var + eps) over the last dims, scaled and shifted."""
    n = _check_normalized("layer_norm", input, normalized_shape, weight, bias)
    require_dtypes(input, weight, bias)
    return _layer.call((input, weight, bias), (n, float(eps)))[0]


def require_dtypes(x: Tensor, *parameters: Any) -> None:
    """Refuses parameters of other dtypes: beside numbers of 16 bits they may be float32."""
    kind = x.dtype
    for p in parameters:
        if p is not None and p.dtype is not kind:
            break
    else:
        return
    given = [p for p in parameters if p is not None]
    if given[0].dtype is kind:
        checks.require_scalar_type(x, *given)
    if any(p.dtype is not float32 for p in given):
        raise RuntimeError("mixed dtype (CPU): expect parameter to have scalar type of Float")
    if kind.itemsize != 2:
        raise RuntimeError("mixed dtype (CPU): all inputs must share same datatype.")


def _check_normalized(name: str, x: Tensor, shape: Sequence[int], w: Any, b: Any = None) -> int:
    own, shape = tuple(x._array.shape), tuple(shape)
    if shape and own[-len(shape) :] == shape:
        if (w is None or w._array.shape == shape) and (b is None or b._array.shape == shape):
            return len(shape)
    shape = tuple(int(v) for v in shape)
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least "
            f"one element, but got normalized_shape = {list(shape)}"
        )
    for tensor, what in ((w, "weight"), (b, "bias")):
        if tensor is not None and tuple(tensor.shape) != shape:
            raise RuntimeError(
                f"Expected {what} to be of same shape as normalized_shape, but got {what} of shape "
                f"{list(tensor.shape)} and normalized_shape = {list(shape)}"
            )
    if x.ndim < len(shape) or tuple(x.shape[x.ndim - len(shape) :]) != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape "
            f"[*, {', '.join(map(str, shape))}], but got input of size{list(x.shape)}"
        )
    return len(shape)


PUBLIC["layer_norm"] = (
    lambda input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True: layer_norm(
        input, normalized_shape, weight, bias, eps
    )
)


def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Any, bias: Any, eps: float
) -> Any:
    """layer_norm with the mean and 1 / std."""
    n = _check_normalized("layer_norm", input, normalized_shape, weight, bias)
    require_dtypes(input, weight, bias)
    out, mean, rstd = _layer.call((input, weight, bias), (n, float(eps)))
    kept = (*input.shape[: input.ndim - n], *(1,) * n)
    return out, reshape(mean, kept), reshape(rstd, kept)


PUBLIC["native_layer_norm"] = native_layer_norm

# ---- rms norm ------------------------------------------------------------------------------------


def _composed_rms(x: Tensor, w: Any, n: int, eps: float) -> Tensor:
    return _normalised(x, w, None, _last(x, n), eps, _square_mean)[0]


def _rms_in_parts(x: Tensor, w: Any, n: int, eps: float) -> tuple[Tensor, Tensor]:
    y, _, rstd = _normalised(_wide(x), w, None, _last(x, n), eps, _square_mean)
    return y.to(x.dtype), reshape(rstd, x.shape[: x.ndim - n])


_rms = Operator(
    "rms_norm",
    "x w",
    "n eps",
    schema="_fused_rms_norm(x, x.shape[x.ndim - n :], w, eps)",
    cpu=by_steps(lambda x, w, n, eps: backend("cpu", "norm").rms_norm(x, n, w, eps)),
    gpu=lambda x, w, n, eps: backend("gpu", "norm").rms_norm(x, n, w, eps),
    composed=_composed_rms,
    parts=_rms_in_parts,
    grad=Gradient(
        joint=lambda g, x, w, out1, n: _rms_back.call((g[0], x, w, out1), (n,)), outputs=0b01
    ),
    layout="format",
    without="bool int",
    rules=Rules(
        infer=_rms_norm_results,
        axes=lambda x, w, n, eps: "...{0},{1}->...{0},?".format(*normalised(n)),
        batch="norm_of_rows",
    ),
)
_rms_back: Operator = Operator(
    "rms_norm_backward", "y x w rstd", "n",
    schema="(Tensor y, Tensor x, Tensor? w, Tensor rstd, int n) -> (Tensor, Tensor)",
    kind="internal",
    cpu=by_steps(lambda y, x, w, r, n: backend("cpu", "norm").rms_norm_backward(y, x, n, w, r)),
    gpu=lambda y, x, w, r, n: backend("gpu", "norm").rms_norm_backward(y, x, n, w, r),
    parts=lambda y, x, w, r, n: _row_gradients_in_parts(y, x, w, None, r, n),
    grad=Gradient(outputs=0b11),
    rules=Rules(
        infer=lambda *given: _rows_gradients(*given)[:2],
        axes=lambda y, x, w, r, n: "...{0},...{0},{1},?->...{0},{1}".format(*normalised(n)),
        batch="norm_of_rows_backward", cost=lambda outs, y, x, *rest: 8 * x.numel(),
    ),
)  # fmt: skip


@functional
@autocast("cuda:float32")
def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Any = None, eps: float | None = None
) -> Tensor:
    """x / sqrt(mean(x^2) + eps) over the last dims, scaled."""
    n = _check_normalized("rms_norm", input, normalized_shape, weight)
    if category(input.dtype) < 2:
        raise not_implemented("rms_norm", input.dtype)
    if eps is None:
        eps = finfo(float32 if input.dtype.itemsize == 2 else input.dtype).eps
    alike = weight is None or weight.dtype is input.dtype
    if alike and input.is_complex():  # by x^2, not |x|^2, as PyTorch
        return _composed_rms(input, weight, n, eps)
    if not alike:
        wide = published.public.result_type(input, weight)
        return rms_norm(input.to(wide), normalized_shape, weight.to(wide), eps).to(input.dtype)
    out = _rms.call((input, weight), (n, float(eps)))[0]
    return ends_as("mul.Tensor", out) if input.is_cpu else out  # which PyTorch composes


PUBLIC["rms_norm"] = rms_norm

# ---- group norm ----------------------------------------------------------------------------------


def _by_group(
    x: Tensor, w: Any, b: Any, groups: int, eps: float, moments: Any
) -> tuple[Tensor, Any, Tensor]:
    flat = reshape(x, (x.shape[0], groups, -1))
    y, mean, rstd = _normalised(flat, None, None, [2], eps, moments)
    return _affine(reshape(y, x.shape), _per_channel(w, x), _per_channel(b, x)), mean, rstd


def _composed_group(x: Tensor, w: Any, b: Any, groups: int, eps: float) -> Tensor:
    return _by_group(x, w, b, groups, eps, _moments)[0]


def _group_in_parts(
    x: Tensor, w: Any, b: Any, groups: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    y, mean, rstd = _by_group(_wide(x), w, b, groups, eps, _moments_in_parts)
    lead = (x.shape[0], groups)
    return y.to(x.dtype), reshape(mean, lead), reshape(rstd, lead)


_group = Operator(
    "group_norm", "x w b", "groups eps",
    schema="native_group_norm(x, w, b, x.shape[0], x.shape[1], x.shape[2:].numel(), groups, "
        "eps)",
    cpu=by_steps(
        lambda x, w, b, groups, eps: backend("cpu", "norm").group_norm(x, groups, w, b, eps)),
    gpu=lambda x, w, b, groups, eps: backend("gpu", "norm").group_norm(x, groups, w, b, eps),
    composed=_composed_group, parts=_group_in_parts,
    grad=Gradient(
        joint=lambda g, x, w, out1, out2, groups: _group_back.call(
            (g[0], x, w, out1, out2), (groups,)),
        node="NativeGroupNorm", outputs=0b001, unread="b",
    ),
    layout="format", without=Without("bool int complex", kernel="GroupNormKernelImpl"),
    rules=Rules(
        infer=_group_norm_results,
        axes=lambda x, *rest: "bc*{0},c,c->bc*{0},?,?".format(normalised(len(x.shape) - 2)[0]),
        batch="channels",
    ),
)  # fmt: skip
_group_back: Operator = Operator(
    "group_norm_backward",
    "y x w mean rstd",
    "groups",
    schema="(Tensor y, Tensor x, Tensor? w, Tensor mean, Tensor rstd, int groups) -> "
    "(Tensor, Tensor, Tensor)",
    kind="internal",
    cpu=by_steps(
        lambda y, x, w, m, r, groups: backend("cpu", "norm").group_norm_backward(
            y, x, groups, w, m, r
        )
    ),
    gpu=lambda y, x, w, m, r, groups: backend("gpu", "norm").group_norm_backward(
        y, x, groups, w, m, r
    ),
    grad=Gradient(outputs=0b111),
    layout="format x",
    rules=Rules(
        infer=_channel_gradients,
        axes=lambda y, x, *rest: "bc*{0},bc*{0},c,?,?->bc*{0},c,c".format(
            normalised(len(x.shape) - 2)[0]
        ),
        batch="channels",
        cost=lambda outs, y, x, *rest: 12 * x.numel(),
    ),
)


@functional
@autocast("cuda:float32")
def group_norm(
    input: Tensor, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    """Normalised over groups of channels, which must have more than one value."""
    if input.ndim >= 2 and num_groups > 0:
        groups = input.shape[0] * input.shape[1] // num_groups
        counted = (groups, *input.shape[2:])
        _require_several_values(counted, [groups, num_groups, *input.shape[2:]])
    return _public_group_norm(input, num_groups, weight, bias, eps)


def _require_several_values(counted: Sequence[int], shape: Any) -> None:
    """Refuses channels of one value, which leave nothing when their mean is taken away."""
    if math.prod(counted) == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {shape}"
        )


def _public_group_norm(
    input: Tensor, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """group_norm of any groups, as torch.group_norm."""
    return normalised_by_group(input, num_groups, weight, bias, eps)[0]


def normalised_by_group(
    input: Tensor, num_groups: int, weight: Any, bias: Any, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """group_norm, with the means and 1 / std."""
    if input.ndim < 2:
        raise RuntimeError(
            f"Expected at least 2 dimensions for input tensor but received {input.ndim}"
        )
    channels = input.shape[1]
    if num_groups <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {num_groups}")
    if channels % num_groups:
        raise RuntimeError(
            f"Expected number of channels in input to be divisible by num_groups, but got input of "
            f"shape {list(input.shape)} and num_groups={num_groups}"
        )
    for tensor, what in ((weight, "weight"), (bias, "bias")):
        if tensor is not None and (tensor.ndim != 1 or tensor.numel() != channels):
            raise RuntimeError(
                f"Expected {what} to be a vector of size equal to the number of channels in "
                f"input, but "
                f"got {what} of shape {list(tensor.shape)} and input of shape {list(input.shape)}"
            )
    require_dtypes(input, weight, bias)
    return _group.call((input, weight, bias), (int(num_groups), float(eps)))


PUBLIC["group_norm"] = _public_group_norm

# ---- batch norm ----------------------------------------------------------------------------------


def _by_statistics(
    x: Tensor, w: Any, b: Any, mean: Tensor, var: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    """The batch norm by statistics from elsewhere, and 1 / std."""
    rstd = (var + eps).rsqrt()
    y = (x - _per_channel(mean, x)) * _per_channel(rstd, x)
    return _affine(y, _per_channel(w, x), _per_channel(b, x)), rstd


def _composed_batch(
    x: Tensor, w: Any, b: Any, mean: Any, var: Any, training: bool, eps: float
) -> Tensor:
    if not training:
        return _by_statistics(x, w, b, mean, var, eps)[0]
    dims = [i for i in range(x.ndim) if i != 1]
    return _normalised(x, _per_channel(w, x), _per_channel(b, x), dims, eps, _moments)[0]


def _batch_in_parts(
    x: Tensor, w: Any, b: Any, mean: Any, var: Any, training: bool, eps: float
) -> Any:
    if training:
        return NotImplemented
    mean, var = _wide(mean), _wide(var)
    y, rstd = _by_statistics(_wide(x), w, b, mean, var, eps)
    return y.to(x.dtype), mean, rstd, var


_batch = Operator(
    "batch_norm",
    "x w b mean var",
    "training eps",
    schema="(Tensor x, Tensor? w, Tensor? b, Tensor? mean, Tensor? var, bool training, float"
    " eps) -> (Tensor, Tensor, Tensor, Tensor)",
    cpu=by_steps(
        lambda x, w, b, m, v, training, eps: backend("cpu", "norm").batch_norm(
            x, w, b, m, v, training, eps
        )
    ),
    gpu=lambda x, w, b, m, v, training, eps: backend("gpu", "norm").batch_norm(
        x, w, b, m, v, training, eps
    ),
    composed=_composed_batch,
    parts=_batch_in_parts,
    grad=Gradient(
        joint=lambda g, x, w, out1, out2, training: (
            *_batch_back.call((g[0], x, w, out1, out2), (training,)),
            None,
            None,
        ),
        node="native_batch_norm(x, w, b, mean, var, training, 0.1, eps)",
        outputs=0b001,
        unread="b",
    ),
    layout="format",
    without="bool int complex",
    rules=Rules(
        infer=_batch_norm_results,
        axes=lambda x, *rest: "b*c{0},c,c,c,c->b*c{0},?,?,?".format(
            normalised(len(x.shape) - 2)[0]
        ),
        batch="channels",
    ),
)
_batch_back: Operator = Operator(
    "batch_norm_backward",
    "y x w mean rstd",
    "training",
    schema="(Tensor y, Tensor x, Tensor? w, Tensor mean, Tensor rstd, bool training) -> "
    "(Tensor, Tensor, Tensor)",
    kind="internal",
    cpu=by_steps(
        lambda y, x, w, m, r, training: backend("cpu", "norm").batch_norm_backward(
            y, x, w, m, r, training
        )
    ),
    gpu=lambda y, x, w, m, r, training: backend("gpu", "norm").batch_norm_backward(
        y, x, w, m, r, training
    ),
    grad=Gradient(outputs=0b111),
    layout="format x",
    rules=Rules(
        infer=_channel_gradients,
        axes=lambda y, x, *rest: "b*c{0},b*c{0},c,c,c->b*c{0},c,c".format(
            normalised(len(x.shape) - 2)[0]
        ),
        batch="channels",
        cost=lambda outs, y, x, *rest: 12 * x.numel(),
    ),
)


def _check_batch(input: Tensor, tensors: Any) -> None:
    channels = input.shape[1] if input.ndim > 1 else 0
    for tensor, what in tensors:
        if tensor is not None and tensor.numel() != channels:
            raise RuntimeError(f"{what} should contain {channels} elements not {tensor.numel()}")


@functional
@spelled(
    lambda input, running_mean, running_var, weight, bias, training, momentum, eps: (
        "batch_norm",
        (input, weight, bias, running_mean, running_var, training, momentum, eps, True),
    )
)
def batch_norm(
    input: Tensor,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalised over all but the channels, by the batch's or the running statistics."""
    if training:
        _require_several_values(input.shape[:1] + input.shape[2:], input.shape)
    if input.ndim == 1 and input.numel() == 0:
        return input.clone()
    require_dtypes(input, weight, bias, running_mean, running_var)
    return normalised_by_batch(
        input, running_mean, running_var, weight, bias, training, momentum, eps
    )[0]


def normalised_by_batch(
    input: Tensor, running_mean: Any, running_var: Any, weight: Any, bias: Any, training: bool,
    momentum: float, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """batch_norm, with the means and 1 / std."""
    if not (running_mean is running_var is weight is bias is None):
        _check_batch(input, ((running_mean, "running_mean"), (running_var, "running_var"),
                             (weight, "weight"), (bias, "bias")))  # fmt: skip
    if not training and (running_mean is None or running_var is None):
        raise RuntimeError(
            "Expected running_mean and running_var to be defined when training=False"
        )
    statistics = (None, None) if training else (running_mean, running_var)
    out, mean, rstd, variance = _batch.call(
        (input, weight, bias, *statistics), (bool(training), float(eps))
    )
    if training and running_mean is not None:
        n = input.numel() // max(input.shape[1], 1)
        update_running(running_mean, running_var, mean, variance, n, momentum)
    return out, mean, rstd


def update_running(
    running_mean: Any, running_var: Any, mean: Tensor, variance: Tensor, n: int, momentum: float
) -> None:
    """Moves running statistics towards those of a batch of n elements a channel; none: nowhere."""
    if n == 0:
        return
    with no_grad():
        if running_mean is not None:
            running_mean.mul_(1 - momentum).add_(mean.to(running_mean.dtype), alpha=momentum)
        if running_var is not None:
            scale = momentum * n / (n - 1) if n > 1 else math.inf
            running_var.mul_(1 - momentum).add_(variance.to(running_var.dtype), alpha=scale)


def _public_batch_norm(
    input: Tensor,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Tensor:
    """batch_norm, in the order of torch.batch_norm."""
    return batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


PUBLIC["batch_norm"] = _public_batch_norm


@functional
@spelled(
    lambda input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps: (
        "instance_norm",
        (input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True),
    )
)
def instance_norm(
    input: Tensor,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalised over the spatial dims of each sample and channel."""
    if (running_mean is None) != (running_var is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")
    if use_input_stats:
        spatial = math.prod(input.shape[2:])
        if spatial == 1:
            raise ValueError(
                f"Expected more than 1 spatial element when training, got input size {input.shape}"
            )
    n, c = input.shape[:2]
    flat = reshape(input, (1, n * c, *input.shape[2:]))
    tile = lambda v: None if v is None else v.repeat(n)
    mean, var = tile(running_mean), tile(running_var)
    training = use_input_stats or running_mean is None
    if training:
        _require_several_values((1, *input.shape[2:]), flat.shape)
    out = normalised_by_batch(flat, mean, var, tile(weight), tile(bias), training, momentum, eps)[0]
    if use_input_stats and running_mean is not None:
        assert mean is not None and var is not None
        with no_grad():
            running_mean.copy_(mean.reshape(n, c).mean(0))
            running_var.copy_(var.reshape(n, c).mean(0))
    return reshape(out, input.shape)


def _public_instance_norm(
    input: Tensor, weight: Any, bias: Any, running_mean: Any, running_var: Any,
    use_input_stats: bool, momentum: float, eps: float, cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    return instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


PUBLIC["instance_norm"] = _public_instance_norm


@functional
def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """x / (k + alpha * mean of x^2 over neighbouring channels)^beta."""
    if input.ndim < 3:
        raise ValueError(
            f"Expected 3D or higher dimensionality input (got {input.ndim} dimensions)"
        )
    if input.numel() == 0:
        return input
    squared = input.square().unsqueeze(1)
    if input.ndim == 3:
        padded = pad(squared, (0, 0, size // 2, (size - 1) // 2))
        mean = published.functional.avg_pool2d(padded, (size, 1), stride=1).squeeze(1)
    else:
        shape = input.shape
        flat = reshape(squared, (shape[0], 1, shape[1], shape[2], -1))
        padded = pad(flat, (0, 0, 0, 0, size // 2, (size - 1) // 2))
        mean = reshape(
            published.functional.avg_pool3d(padded, (size, 1, 1), stride=1).squeeze(1), shape
        )
    return input / (mean * alpha + k).pow(beta)
