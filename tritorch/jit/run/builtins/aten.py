"""Operators that no public function stands for, written with public functions.

Archives name them: traces those that PyTorch's functions call (`_convolution`), old ones those of
their time (`__interpolate`).  Arguments come as in ATen's schemas, dtypes as dtypes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tritorch import autograd, sparse
from tritorch.amp.state import is_autocast_enabled
from tritorch.autograd.grad_mode import no_grad
from tritorch.compat.settings import _assert_async
from tritorch.core import dtype as dtypes, promotion
from tritorch.core.published import functional as F, public
from tritorch.core.tensor import Tensor
from tritorch.nn.utils import rnn

# ---- convolutions --------------------------------------------------------------------------------


def _convolution(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], transposed: bool,
    output_padding: Sequence[int], groups: int, *flags: bool,
) -> Tensor:  # fmt: skip
    return public.convolution(
        input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
    )


def _convolution_mode(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: str, dilation: Any,
    groups: int,
) -> Tensor:  # fmt: skip
    dims = input.dim() - 2 if input.dim() == weight.dim() else input.dim() - 1
    function = (F.conv1d, F.conv2d, F.conv3d)[dims - 1]
    return function(input, weight, bias, stride, padding, dilation, groups)


# ---- resizing ------------------------------------------------------------------------------------


def _scales(mode: str) -> Callable[..., Tensor]:
    """`upsample_*.vec`: a size or scale factors."""

    def resize(input: Tensor, output_size: Any, *rest: Any) -> Tensor:
        align = rest[0] if len(rest) == 2 else None
        factors = rest[-1]
        options = {} if align is None else {"align_corners": align}
        if output_size is not None:
            return F.interpolate(input, size=list(output_size), mode=mode, **options)
        return F.interpolate(input, scale_factor=tuple(factors), mode=mode, **options)

    return resize


def _antialiased(mode: str) -> Callable[..., Tensor]:
    def resize(input: Tensor, output_size: Any, align_corners: bool, *factors: Any) -> Tensor:
        size = output_size
        if size is None:
            found = factors[0]
            size = [int(s * f) for s, f in zip(input.shape[2:], found)]
        return F.interpolate(
            input, size=list(size), mode=mode, align_corners=align_corners, antialias=True
        )

    return resize


def _interpolate(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:  # fmt: skip
    return F.interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor)


def _upsample(input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
              align_corners: bool | None = None) -> Tensor:  # fmt: skip
    return F.interpolate(input, size, scale_factor, mode, align_corners)


def _upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    return F.interpolate(input, size, scale_factor, "bilinear", True)


# ---- packed sequences ----------------------------------------------------------------------------


def _pack_padded_sequence(
    input: Tensor, lengths: Tensor, batch_first: bool
) -> tuple[Tensor, Tensor]:
    found = rnn.pack_padded_sequence(input, lengths, batch_first=batch_first, enforce_sorted=True)
    return found.data, found.batch_sizes


def _pad_packed_sequence(
    data: Tensor, batch_sizes: Tensor, batch_first: bool, padding_value: float, total_length: int
) -> tuple[Tensor, Tensor]:
    packed = rnn.PackedSequence(data, batch_sizes)
    return rnn.pad_packed_sequence(
        packed, batch_first, padding_value, None if total_length <= 0 else total_length
    )


# ---- attention -----------------------------------------------------------------------------------


def _heads(x: Tensor, heads: int) -> Tensor:
    batch, length, width = x.shape
    return x.view(batch, length, heads, width // heads).transpose(1, 2)


def _as_mask(mask: Tensor | None, kind: int | None, shape: tuple[int, ...]) -> Tensor | None:
    """The mask of attention: of keys (1), of pairs (0), or of both (2)."""
    if mask is None:
        return None
    batch, heads, length, keys = shape
    if kind == 1 or (kind is None and mask.dim() == 2 and mask.shape[0] == batch != length):
        mask = mask.view(batch, 1, 1, keys)
    elif mask.dim() == 3 and mask.shape[0] == batch * heads:
        mask = mask.view(batch, heads, length, keys)
    if mask.dtype is dtypes.bool_:
        return public.zeros(mask.shape, device=mask.device).masked_fill(mask, -math.inf)
    return mask


def _native_multi_head_attention(
    query: Tensor, key: Tensor, value: Tensor, embed_dim: int, num_head: int, qkv_weight: Tensor,
    qkv_bias: Tensor, proj_weight: Tensor, proj_bias: Tensor, mask: Tensor | None = None,
    need_weights: bool = True, average_attn_weights: bool = True, mask_type: int | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    parts = qkv_weight.chunk(3), qkv_bias.chunk(3)
    q, k, v = (_heads(F.linear(x, w, b), num_head) for x, w, b in zip((query, key, value), *parts))
    scores = (q * (q.shape[-1] ** -0.5)) @ k.transpose(-2, -1)
    added = _as_mask(mask, mask_type, tuple(scores.shape))
    if added is not None:
        scores = scores + added
    weights = scores.softmax(-1)
    joined = (weights @ v).transpose(1, 2).flatten(2)
    output = F.linear(joined, proj_weight, proj_bias)
    if not need_weights:
        return output, public.empty(0)
    return output, weights.mean(1) if average_attn_weights else weights


def _transformer_encoder_layer_fwd(
    src: Tensor, embed_dim: int, num_heads: int, qkv_weight: Tensor, qkv_bias: Tensor,
    proj_weight: Tensor, proj_bias: Tensor, use_gelu: bool, norm_first: bool, eps: float,
    norm_weight_1: Tensor, norm_bias_1: Tensor, norm_weight_2: Tensor, norm_bias_2: Tensor,
    ffn_weight_1: Tensor, ffn_bias_1: Tensor, ffn_weight_2: Tensor, ffn_bias_2: Tensor,
    mask: Tensor | None = None, mask_type: int | None = None,
) -> Tensor:  # fmt: skip
    def norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return F.layer_norm(x, (embed_dim,), weight, bias, eps)

    def attend(x: Tensor) -> Tensor:
        return _native_multi_head_attention(
            x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask,
            False, True, mask_type,
        )[0]  # fmt: skip

    def feed(x: Tensor) -> Tensor:
        inside = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(inside) if use_gelu else F.relu(inside), ffn_weight_2, ffn_bias_2)

    if norm_first:
        x = src + attend(norm(src, norm_weight_1, norm_bias_1))
        return x + feed(norm(x, norm_weight_2, norm_bias_2))
    x = norm(src + attend(src), norm_weight_1, norm_bias_1)
    return norm(x + feed(x), norm_weight_2, norm_bias_2)


# ---- small ones ----------------------------------------------------------------------------------


def _hardtanh_(self: Tensor, min_val: float = -1, max_val: float = 1) -> Tensor:
    return self.clamp_(min_val, max_val)


def _without_grad(name: str) -> Callable[..., Tensor]:
    def call(self: Tensor, *args: Any) -> Tensor:
        with no_grad():
            return getattr(self, name)(*args)

    return call


def _to_layout(self: Tensor, dtype: Any = None, layout: Any = None, device: Any = None,
               pin_memory: Any = None, non_blocking: bool = False, copy: bool = False,
               memory_format: Any = None) -> Tensor:  # fmt: skip
    options = {} if memory_format is None else {"memory_format": memory_format}
    return self.to(device=device, dtype=dtype, non_blocking=non_blocking, copy=copy, **options)


def _set_data(self: Tensor, new_data: Tensor) -> None:
    self.data = new_data


def _shape_as_tensor(self: Tensor) -> Tensor:
    return public.tensor(list(self.shape))


def _reshape_from_tensor(self: Tensor, shape: Tensor) -> Tensor:
    return self.reshape(shape.tolist())


def _index(self: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    return self[tuple(slice(None) if each is None else each for each in indices)]


def _index_put_(self: Tensor, indices: Any, values: Tensor, accumulate: bool = False,
                unsafe: bool = False) -> Tensor:  # fmt: skip
    return self.index_put_(tuple(indices), values, accumulate)


def _in_place(operator: str) -> Callable[[Tensor, Any], Tensor]:
    return lambda self, other: getattr(self, operator)(other)


def _autocast() -> bool:
    return is_autocast_enabled()


def _grad(outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: Any = None,
          create_graph: bool = False, allow_unused: bool = False) -> Any:  # fmt: skip
    return list(
        autograd.grad(
            outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused=allow_unused
        )
    )


def _tensor_to_list(self: Tensor) -> list[int]:
    return self.tolist()


def _list_to_tensor(self: list[int]) -> Tensor:
    return public.tensor(self)


def _grad_sum_to_size(self: Tensor, size: Any) -> Tensor:
    return self if size is None else self.sum_to_size(size)


def _weight_norm_interface(v: Tensor, g: Tensor, dim: int = 0) -> tuple[Tensor, Tensor]:
    norms = public.norm_except_dim(v, 2, dim)
    return v * (g / norms), norms


# By operator, or by operator and overload where overloads differ.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "aten::_convolution": _convolution, "aten::_convolution_mode": _convolution_mode,
    "aten::upsample_nearest1d": _scales("nearest"), "aten::upsample_nearest2d": _scales("nearest"),
    "aten::upsample_nearest3d": _scales("nearest"),
    "aten::_upsample_nearest_exact1d": _scales("nearest-exact"),
    "aten::_upsample_nearest_exact2d": _scales("nearest-exact"),
    "aten::_upsample_nearest_exact3d": _scales("nearest-exact"),
    "aten::upsample_linear1d": _scales("linear"), "aten::upsample_bilinear2d": _scales("bilinear"),
    "aten::upsample_bicubic2d": _scales("bicubic"),
    "aten::upsample_trilinear3d": _scales("trilinear"),
    "aten::_upsample_bilinear2d_aa": _antialiased("bilinear"),
    "aten::_upsample_bicubic2d_aa": _antialiased("bicubic"),
    "aten::__interpolate": _interpolate, "aten::__upsample": _upsample,
    "aten::__upsample_nearest": _upsample, "aten::__upsample_bilinear": _upsample_bilinear,
    "aten::_pack_padded_sequence": _pack_padded_sequence,
    "aten::_pad_packed_sequence": _pad_packed_sequence,
    "aten::_native_multi_head_attention": _native_multi_head_attention,
    "aten::_transformer_encoder_layer_fwd": _transformer_encoder_layer_fwd,
    "aten::hardtanh_": _hardtanh_, "aten::_no_grad_uniform_": _without_grad("uniform_"),
    "aten::_no_grad_normal_": _without_grad("normal_"),
    "aten::_no_grad_fill_": _without_grad("fill_"), "aten::_no_grad_zero_": _without_grad("zero_"),
    "aten::to.dtype_layout": _to_layout, "aten::set_data": _set_data,
    "aten::data": lambda self: self.detach(), "aten::_shape_as_tensor": _shape_as_tensor,
    "aten::_reshape_from_tensor": _reshape_from_tensor, "aten::index.Tensor_hacked_twin": _index,
    "aten::index_put_.hacked_twin": _index_put_, "aten::_index_put_impl_": _index_put_,
    "aten::_unsafe_index": _index, "aten::__and__": public.bitwise_and,
    "aten::__or__": public.bitwise_or, "aten::__xor__": public.bitwise_xor,
    "aten::__lshift__": public.bitwise_left_shift,
    "aten::__rshift__": public.bitwise_right_shift, "aten::__iand__": _in_place("bitwise_and_"),
    "aten::__ior__": _in_place("bitwise_or_"), "aten::__ixor__": _in_place("bitwise_xor_"),
    "aten::__ilshift__": _in_place("bitwise_left_shift_"),
    "aten::__irshift__": _in_place("bitwise_right_shift_"), "aten::mT": lambda x: x.mT,
    "aten::mH": lambda x: x.mH, "aten::matrix_H": lambda x: x.H, "aten::numpy_T": lambda x: x.T,
    "aten::nonzero_numpy": lambda x: list(x.nonzero(as_tuple=True)),
    "aten::can_cast": promotion.can_cast, "aten::promote_types": promotion.promote_types,
    "aten::is_autocast_enabled": _autocast, "aten::is_autocast_cpu_enabled": lambda: False,
    "aten::_autocast_to_full_precision": lambda x, cuda, cpu: x,
    "aten::_autocast_to_reduced_precision": lambda x, cuda, cpu, a, b: x, "aten::grad": _grad,
    "aten::_tensor_to_list": _tensor_to_list, "aten::_list_to_tensor": _list_to_tensor,
    "aten::_grad_sum_to_size": _grad_sum_to_size,
    "aten::_weight_norm_interface": _weight_norm_interface,
    "aten::is_vulkan_available": lambda: False, "aten::_get_tracing_state": lambda: False,
    "aten::has_torch_function": lambda values: False, "aten::_version": lambda x: x._version,
    "aten::output_nr": lambda x: x.output_nr, "aten::initial_seed": lambda g: g.initial_seed(),
    "aten::seed": lambda g: g.seed(), "aten::_nnpack_available": lambda: False,
    "aten::pad_sequence": lambda s, first=False, value=0.0, side="right": (
        rnn.pad_sequence(list(s), first, value, side)
    ),
    "aten::_cufft_clear_plan_cache": lambda index: None,
    "aten::_assert_async": lambda x, message="": _assert_async(x),
    "aten::_coalesced_": lambda x, flag: x, "aten::_indices": lambda x: x._indices(),
    "aten::_values": lambda x: x._values(), "aten::_nnz": lambda x: x._nnz(),
    "aten::_dimI": lambda x: x.sparse_dim(), "aten::_dimV": lambda x: x.dense_dim(),
    "aten::is_owner": lambda x: True, "aten::_stack": lambda x, dim=0: public.stack(x, dim),
    "aten::_pin_memory": lambda x, device=None: x.pin_memory(),
    "aten::is_leaf": lambda x: x.is_leaf, "aten::retains_grad": lambda x: x.retains_grad,
    "aten::_is_all_true": lambda x: x.all(), "aten::_is_any_true": lambda x: x.any(),
    "aten::_dim_arange": lambda like, dim: public.arange(like.shape[dim], device=like.device),
    "aten::_add_relu": lambda x, other, alpha=1: public.add(x, other, alpha=alpha).relu(),
    "aten::_add_relu_": lambda x, other, alpha=1: x.add_(other, alpha=alpha).relu_(),
    "aten::_reshape_copy": lambda x, size: x.reshape(size).clone(),
    "aten::_sparse_softmax": sparse.softmax,
    "aten::_sparse_log_softmax": sparse.log_softmax,
    "aten::_sparse_mm": sparse.mm, "aten::_sparse_sum": sparse.sum,
}  # fmt: skip
