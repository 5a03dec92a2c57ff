"""Operators of ATen that graphs contain and no public function computes under that name.

Arguments are ATen's.  What autograd needs of them comes from the operators that they call.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tritorch.arrays import arrays
from tritorch.arrays.symbolic import expect
from tritorch.compat.legacy_operators.layers import REDUCTIONS, internal, vjp
from tritorch.core import asking, dtype as dtypes, layout as layouts, published
from tritorch.core.dispatching import asked
from tritorch.core.dtype import bool_, float32
from tritorch.core.info import finfo
from tritorch.core.published import FUNCTIONAL, INTERNAL
from tritorch.core.tensor import Tensor
from tritorch.ops.nn.dropout import dropout
from tritorch.ops.nn.norm import layer_norm
from tritorch.ops.record.operator import OPERATORS
from tritorch.ops.reduce.reduction import var_mean
from tritorch.ops.reduce.softmax import log_softmax, softmax
from tritorch.ops.shape.copying import clone
from tritorch.ops.shape.factory import ones
from tritorch.ops.shape.parts import writable

# ---- values, copies ------------------------------------------------------------------------------


@internal("_local_scalar_dense")
def _local_scalar_dense(self: Tensor) -> Any:
    return self.item()


@internal("_to_copy")
def _to_copy(
    self: Tensor, *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: Any = None, non_blocking: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    format = memory_format or layouts.preserve_format
    moved = self.to(
        device=device or self.device, dtype=dtype or self.dtype, non_blocking=non_blocking,
        copy=True, memory_format=format,
    )  # fmt: skip
    return moved


@internal("alias", "lift", "lift_fresh")
def _same_memory(self: Tensor) -> Tensor:
    return self.view_as(self)


def _cast(name: str, kind: Any) -> None:
    internal(name)(lambda self, non_blocking=False: self.to(kind))


for _word, _kind in {
    "Byte": dtypes.uint8, "Char": dtypes.int8, "Short": dtypes.int16, "Int": dtypes.int32,
    "Long": dtypes.int64, "Half": dtypes.float16, "Float": dtypes.float32,
    "Double": dtypes.float64,
}.items():  # fmt: skip
    _cast(f"_cast_{_word}", _kind)


@internal("lift_fresh_copy")
def _copied(self: Tensor) -> Tensor:
    return self.clone()


@internal("_assert_scalar")
def _assert_scalar(self: Any, assert_msg: str) -> None:
    if not expect(self):
        raise RuntimeError(assert_msg)


@internal("_functional_assert_scalar")
def _functional_assert_scalar(self: Any, assert_msg: str, dep_token: Tensor) -> Tensor:
    _assert_scalar(self, assert_msg)
    return dep_token


@internal("_assert_tensor_metadata")
def _assert_tensor_metadata(
    a: Tensor, size: Any = None, stride: Any = None, dtype: Any = None, *, device: Any = None,
    layout: Any = None,
) -> None:  # fmt: skip
    known = {"size": tuple(a.shape), "stride": a.stride(), "dtype": a.dtype, "layout": a.layout}
    said = {"size": size, "stride": stride, "dtype": dtype, "layout": layout}
    for name, value in said.items():
        value = tuple(value) if isinstance(value, list) else value
        if value is not None and known[name] != value:
            raise RuntimeError(f"Tensor {name} mismatch! Expected: {value}, Got: {known[name]}")
    if device is not None and a.device.type != device.type:
        raise RuntimeError(f"Tensor device mismatch! Expected: {device}, Got: {a.device}")


@internal("zero")
def _zero(self: Tensor) -> Tensor:
    return published.public.zeros_like(self)


def _drawn(name: str, written: str) -> None:
    """A draw that gives what the form in place writes."""
    internal(name)(lambda self, *args, **kwargs: getattr(self.clone(), written)(*args, **kwargs))


for _name in ("uniform", "cauchy", "exponential", "geometric", "log_normal", "random"):
    _drawn(_name, f"{_name}_")
_drawn("normal_functional", "normal_")


@internal("copy")
def _copy(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    return clone(self).copy_(src)


@internal("fill.Scalar", "fill.Tensor")
def _fill(self: Tensor, value: Any) -> Tensor:
    return clone(self).fill_(value)


@internal("_unsafe_view", "_reshape_alias")
def _unsafe_view(self: Tensor, size: Any, stride: Any = None) -> Tensor:
    out = self.view(*size)
    return writable((out,))[0] if type(out) is Tensor or out.is_nested else out


@internal("sym_numel")
def _sym_numel(self: Tensor) -> int:
    return self.numel()


@internal("index.Tensor", "_unsafe_index.Tensor")
def _index(self: Tensor, indices: Any) -> Tensor:
    return self[tuple(slice(None) if i is None else i for i in indices)]


@internal("_index_put_impl_", "index_put_")
def _index_put_(
    self: Tensor, indices: Any, values: Tensor, accumulate: bool = False, unsafe: bool = False
) -> Tensor:
    if any(i is None for i in indices):
        if accumulate:
            places = tuple(slice(None) if i is None else i for i in indices)
            self[places] = self[places] + values
            return self
        self[tuple(slice(None) if i is None else i for i in indices)] = values
        return self
    return self.index_put_(tuple(indices), values, accumulate)


@internal("index_put", "_unsafe_index_put")
def _index_put(self: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    return _index_put_(self.clone(), indices, values, accumulate)


# ---- softmax, norms, losses ----------------------------------------------------------------------


def _widened(self: Tensor, half_to_float: bool) -> Tensor:
    return self.to(float32) if half_to_float else self


@internal("_softmax")
def _softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    return softmax(_widened(self, half_to_float), dim)


@internal("_log_softmax")
def _log_softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    return log_softmax(_widened(self, half_to_float), dim)


@internal("native_layer_norm")
def _native_layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    dims = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    out = layer_norm(input, tuple(normalized_shape), weight, bias, eps)
    wide = input.detach()
    var, mean = var_mean(wide, dims, correction=0, keepdim=True)
    return out, mean, (var + eps).rsqrt()


@internal("_fused_rms_norm")
def _fused_rms_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None, eps: float | None
) -> Any:
    if eps is None:
        eps = finfo(input.dtype).eps
    return OPERATORS["rms_norm"].call((input, weight), (len(normalized_shape), eps))


def _reduced_loss(name: str) -> None:
    def loss(self: Tensor, target: Tensor, *rest: Any, **named: Any) -> Tensor:
        *numbers, reduction = rest if rest else ("mean",)
        reduction = named.pop("reduction", reduction)
        if not isinstance(reduction, str):
            reduction = REDUCTIONS[reduction]
        return FUNCTIONAL[name](self, target, *numbers, reduction=reduction, **named)

    INTERNAL[name] = loss


for _name in ("mse_loss", "soft_margin_loss", "l1_loss"):
    _reduced_loss(_name)


def _numbered_loss(name: str, parameter: str, default: float) -> None:
    def loss(self: Tensor, target: Tensor, reduction: int = 1, number: float = default,
             **named: Any) -> Tensor:  # fmt: skip
        number = named.pop(parameter, number)
        return FUNCTIONAL[name](
            self, target, reduction=REDUCTIONS[reduction], **{parameter: number}
        )

    INTERNAL[name] = loss


_numbered_loss("smooth_l1_loss", "beta", 1.0)
_numbered_loss("huber_loss", "delta", 1.0)


@internal("native_dropout")
def _native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    if not train or p == 0:
        return input.clone(), published.public.ones_like(input, dtype=ones(1).bool().dtype)
    mask = published.public.rand_like(input) >= p
    return input * mask * (1 / (1 - p) if p < 1 else 0.0), mask


# ---- activations and their gradients -------------------------------------------------------------


def _by_functional(name: str) -> None:
    INTERNAL.setdefault(name, FUNCTIONAL[name])


for _name in ("hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "mish", "silu", "gelu",
              "softplus", "glu"):  # fmt: skip
    _by_functional(_name)
INTERNAL["log_sigmoid"] = FUNCTIONAL["logsigmoid"]


@internal("elu")
def _elu(self: Tensor, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Tensor:
    out = published.functional.elu(self * input_scale if input_scale != 1 else self, alpha)
    return out * scale if scale != 1 else out


def _backward(name: str, forward: Callable[..., Tensor]) -> None:
    """An operator that is the gradient of another one: of grad_output first."""

    def gradient(grad_output: Tensor, self: Tensor, *args: Any, **named: Any) -> Any:
        return vjp(lambda x: forward(x, *args, **named), (self,), grad_output)[0]

    INTERNAL.setdefault(name, gradient)


for _name in ("gelu", "silu", "hardswish", "hardsigmoid", "mish", "softplus", "leaky_relu",
              "hardtanh"):  # fmt: skip
    _forward = lambda x, *args, name=_name, **named: INTERNAL[name](x, *args, **named)
    if _name in INTERNAL:
        _backward(f"{_name}_backward", _forward)
INTERNAL.setdefault(
    "sigmoid_backward", lambda grad_output, output: grad_output * output * (1 - output)
)
INTERNAL.setdefault(
    "tanh_backward", lambda grad_output, output: grad_output * (1 - output * output)
)


@internal("threshold_backward")
def _threshold_backward(grad_output: Tensor, self: Tensor, threshold: Any) -> Tensor:
    return grad_output.masked_fill(self <= threshold, 0)


@internal("gelu_")
def _gelu_(self: Tensor, *, approximate: str = "none") -> Tensor:
    return self.copy_(published.functional.gelu(self, approximate=approximate))


@internal("_scaled_dot_product_attention_math")
def _scaled_dot_product_attention_math(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, dropout_mask: Tensor | None = None, *,
    scale: float | None = None, enable_gqa: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Attention by products and a softmax, and the weights."""
    if enable_gqa:
        key, value = (t.repeat_interleave(query.shape[-3] // t.shape[-3], -3) for t in (key, value))
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = (query * factor) @ key.transpose(-2, -1)
    if is_causal:
        seen = ones(scores.shape[-2:], dtype=bool_, device=query.device).tril()
        scores = scores.masked_fill(~seen, -math.inf)
    if attn_mask is not None:
        is_bool = attn_mask.dtype is bool_
        scores = scores.masked_fill(~attn_mask, -math.inf) if is_bool else scores + attn_mask
    weights = INTERNAL["_safe_softmax"](scores, -1)
    if dropout_mask is not None:
        return weights.masked_fill(dropout_mask, 0) / (1 - dropout_p) @ value, weights
    kept = dropout(weights, dropout_p) if dropout_p else weights
    return kept @ value, weights


# ---- what a tensor says of itself, or its class (`core/asking.py`) -------------------------------


@internal("sym_size")
def _sym_size(self: Tensor, dim: int | None = None) -> Any:
    return tuple(self.shape) if dim is None else self.shape[dim]


@internal("sym_stride")
def _sym_stride(self: Tensor, dim: int | None = None) -> Any:
    return tuple(self.stride()) if dim is None else self.stride()[dim]


@internal("sym_storage_offset")
def _sym_storage_offset(self: Tensor) -> Any:
    return self.storage_offset()


@internal("is_strides_like_format")
def _is_strides_like_format(self: Tensor, memory_format: Any) -> bool:
    found = asking.answer(self, "aten::is_strides_like_format", memory_format)
    if found is not None:
        return found
    return layouts.is_in_format(self._array.shape, arrays.strides_of(self._array), memory_format)


@internal("is_non_overlapping_and_dense")
def _is_non_overlapping_and_dense(self: Tensor) -> bool:
    found = asking.answer(self, "aten::is_non_overlapping_and_dense")
    array = self._array
    if self.is_nested:
        return False
    return layouts.is_dense(array.shape, arrays.strides_of(array)) if found is None else found


@internal("size")
def _size(self: Tensor, dim: int | None = None) -> Any:
    if self.layout is layouts.jagged:
        raise RuntimeError(
            "NestedTensor does not support directly calling torch.ops.aten.size; please use "
            "`nested_tensor.size()` instead."
        )
    return self.size() if dim is None else self.size(dim)


@internal("_foobar")
def _foobar(self: Tensor, arg1: bool = True, arg2: bool = True, *, arg3: bool = True) -> Tensor:
    """ATen's operator for tests of arguments."""
    if asked(self):
        from tritorch.ops.interpret import dispatch

        given = [arg1, arg2]
        while given and given[-1]:
            given.pop()
        return dispatch.plainly("_foobar", self, *given, **({} if arg3 else {"arg3": arg3}))
    return self.clone()
