"""Attention whose scores a function changes and whose places a block mask chooses, as
torch.nn.attention.flex_attention.

On the GPU the function becomes a part of a fused kernel (docs/kernels/flex.md); on the CPU, and
where that cannot be, operators compute it.  Unlike PyTorch's, it needs no compiler, and has
gradients and the largest scores on the CPU too.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypedDict, get_args

from tritorch import _C
from tritorch.amp.autocast_mode import _cast
from tritorch.amp.state import get_autocast_dtype, is_autocast_available, is_autocast_enabled
from tritorch.arrays.written import NotWritable
from tritorch.core.gates import Gate
from tritorch.core.tensor import Tensor, flushing, gives_number
from tritorch.nn.attention import _flex
from tritorch.nn.attention._block_mask import (
    _DEFAULT_SPARSE_BLOCK_SIZE as _DEFAULT_SPARSE_BLOCK_SIZE,
    _LARGE_SPARSE_BLOCK_SIZE as _LARGE_SPARSE_BLOCK_SIZE,
    BlockMask,
    _adjust_num_blocks_and_indices as _adjust_num_blocks_and_indices,
    _broadcast_to_dim as _broadcast_to_dim,
    _compute_dq_write_order_from_block_mask as _compute_dq_write_order_from_block_mask,
    _convert_block_mask_to_mask as _convert_block_mask_to_mask,
    _convert_mask_to_block_mask as _convert_mask_to_block_mask,
    _create_empty_block_mask as _create_empty_block_mask,
    _create_sparse_block_from_block_mask as _create_sparse_block_from_block_mask,
    _dense_to_ordered as _dense_to_ordered,
    _get_mod_type as _get_mod_type,
    _ModificationType as _ModificationType,
    _ordered_to_dense as _ordered_to_dense,
    _round_up_to_multiple as _round_up_to_multiple,
    _sliced_mask_mod_error as _sliced_mask_mod_error,
    _transpose_ordered as _transpose_ordered,
    _vmap_for_bhqkv as _vmap_for_bhqkv,
    and_masks,
    create_block_mask,
    create_mask,
    noop_mask,
    or_masks,
)

__all__ = [
    "AuxOutput", "AuxRequest", "BlockMask", "FlexKernelOptions", "and_masks", "create_block_mask",
    "create_mask", "flex_attention", "noop_mask", "or_masks",
]  # fmt: skip

_score_mod_signature = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
_mask_mod_signature = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
_Backend = Literal["AUTO", "TRITON", "FLASH", "TRITON_DECODE"]
_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = False  # nothing is compiled here anyway
_WARNINGS_SHOWN: set[str] = set()

for _each in (BlockMask, and_masks, create_block_mask, create_mask, noop_mask, or_masks):
    _each.__module__ = __name__  # where PyTorch has them, for pickles


class FlexKernelOptions(TypedDict, total=False):
    """What PyTorch's kernels are told: checked, and not needed by tritorch's."""

    num_warps: int
    num_stages: int
    BLOCK_M: int
    BLOCK_N: int
    BLOCK_M1: int
    BLOCK_N1: int
    BLOCK_M2: int
    BLOCK_N2: int
    PRESCALE_QK: bool
    ROWS_GUARANTEED_SAFE: bool
    BLOCKS_ARE_CONTIGUOUS: bool
    WRITE_DQ: bool
    FORCE_USE_FLEX_ATTENTION: bool
    USE_TMA: bool
    kpack: int
    matrix_instr_nonkdim: int
    waves_per_eu: int
    BACKEND: _Backend


class AuxRequest(NamedTuple):
    """What flex_attention returns beside its result."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was requested; None for what was not."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def _identity(
    score: Tensor, batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor
) -> Tensor:
    """The score_mod that changes nothing."""
    return score


def _warn_once(warning_id: str, message: str, category: type[Warning] = UserWarning) -> None:
    if warning_id not in _WARNINGS_SHOWN:
        _WARNINGS_SHOWN.add(warning_id)
        warnings.warn(message, category, stacklevel=3)


def _check_inputs(query: Tensor, key: Tensor, value: Tensor, gqa: bool) -> None:
    if query.is_nested or key.is_nested or value.is_nested:
        raise NotImplementedError(
            "flex_attention does not support NestedTensor inputs, including "
            "torch.compile(flex_attention) with jagged NestedTensor inputs. "
            "Convert inputs to dense tensors before calling flex_attention."
        )
    if query.device != key.device or query.device != value.device:
        raise ValueError(
            f"Expected query, key, and value to have the same device type, "
            f"but got query.device: {query.device}, key.device: {key.device}, "
            f"and value.device: {value.device} instead."
        )
    if min(query.dim(), key.dim(), value.dim()) < 2:
        raise ValueError(
            f"Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{query.dim()}, key.dim: {key.dim()} and value.dim: {value.dim()} instead."
        )
    if query.size(-1) != key.size(-1):
        raise ValueError(
            f"Expect query and key/value to have the same embedding dimension "
            f"but got E={query.size(-1)} and E={key.size(-1)}."
        )
    if query.device.type not in ("cuda", "cpu", "meta"):
        raise ValueError(
            "FlexAttention is only supported on CUDA, CPU, HPU, or MPS devices. "
            f"Found input tensors on {query.device.type} device."
        )
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    q_heads, kv_heads = query.size(1), key.size(1)
    if not gqa and q_heads != kv_heads:
        raise ValueError(
            f"Expect query and key/value to have the same number of heads "
            f"but got Hq={q_heads} and Hkv={kv_heads}. "
            f"Try setting enable_gqa=True for GQA."
        )
    if gqa and q_heads % kv_heads:
        raise ValueError(
            f"Expect number of query heads to be a multiple of kv heads for GQA "
            f"but got Hq={q_heads} and Hkv={kv_heads}."
        )


def _check_batches(query: Tensor, key: Tensor, block_mask: BlockMask | None) -> None:
    n, of_keys = query.size(0), key.size(0)
    if n == of_keys:
        return
    if block_mask is None:
        raise ValueError(
            f"Expect query and key/value to have the same batch size, "
            f"or non-none block_mask, "
            f"but got block_mask=None, Bq={n}, and Bkv={of_keys}."
        )
    of_mask = block_mask.kv_num_blocks.size(0)
    if of_mask != n:
        raise ValueError(
            f"Expect query and key/value to have the same batch size, "
            f"or block_mask and query to have the same batch size, "
            f"but got Bq={n}, Bkv={of_keys}, B_block_mask={of_mask}."
        )
    if of_keys != 1:
        raise RuntimeError(f"Bq and Bkv must broadcast. Got Bq={n} and Bkv={of_keys}")


def _check_block_mask(query: Tensor, key: Tensor, block_mask: BlockMask) -> None:
    if block_mask.mask_mod is _sliced_mask_mod_error:
        raise RuntimeError("Cannot use mask_mod from a sliced BlockMask")
    if min(block_mask.BLOCK_SIZE) < _LARGE_SPARSE_BLOCK_SIZE:
        q_len, kv_len = query.size(-2), key.size(-2)
        mask_q, mask_kv = block_mask.shape[-2:]
        made = (
            f"block_mask was created for block_mask.shape={block_mask.shape} but got "
            f"q_len={q_len} and kv_len={kv_len}. "
        )
        if q_len > mask_q or kv_len > mask_kv:
            raise ValueError(
                f"{made}As the block mask was created for a smaller length than you're using it "
                "for, you likely need to create a new block mask."
            )
        if q_len < mask_q or kv_len < mask_kv:
            raise ValueError(
                f"{made}As the block mask was created for a larger length than you're using it "
                "for, you can either 1. create a new block mask with the correct length, or 2. "
                "'adjust' the existing block mask to the correct length by calling "
                "block_mask._adjust(q_len, kv_len). This essentially 'crops' the block mask to "
                "the upper left corner, which does not work for all mask_mods!"
            )
    if query.device != block_mask.kv_num_blocks.device:
        raise RuntimeError(
            f"Expect q/k/v and block_mask to be on the same device "
            f"but got {query.device} and {block_mask.kv_num_blocks.device}."
        )


def _check_options(options: Any, return_aux: AuxRequest | None) -> None:
    given = {} if options is None else dict(options)
    if "BACKEND" in given:
        if given.get("FORCE_USE_FLEX_ATTENTION", False):
            raise RuntimeError(
                "BACKEND cannot be combined with legacy FORCE_USE_FLEX_ATTENTION. "
                "BACKEND supersedes the legacy knob; please drop FORCE_USE_FLEX_ATTENTION "
                "and only specify the desired BACKEND."
            )
        if given["BACKEND"] not in get_args(_Backend):
            raise ValueError(
                f"Invalid BACKEND value '{given['BACKEND']}'. Must be one of {get_args(_Backend)}"
            )
        if given["BACKEND"] == "FLASH" and return_aux is not None and return_aux.max_scores:
            raise NotImplementedError(
                "Returning max scores is not supported with BACKEND='FLASH'. "
                "Use return_aux=AuxRequest(lse=True) or omit max_scores."
            )
    for name in ("OUTPUT_LOGSUMEXP", "OUTPUT_MAX"):
        if name in given:
            raise AssertionError(f"{name} must not be in kernel_options")


def _laid_out(out: Tensor, query: Tensor) -> Tensor:
    """Results lie as queries do: dims in the same order, elements dense."""
    order = sorted(range(3), key=lambda dim: (-query.stride(dim), dim))
    if order == [0, 1, 2]:
        return out.contiguous()
    back = [order.index(dim) for dim in range(3)]
    return out.permute(*order, 3).contiguous().permute(*back, 3)


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: _score_mod_signature | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: FlexKernelOptions | None = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """softmax(score_mod(q k^T * scale)) v over the places that a block mask shows; (B, H, L, E).

    score_mod(score, batch, head, q_idx, kv_idx) is a function of numbers, which may read tensors
    at such places.  return_aux: a second result has the log of each row's sum, and its largest
    score."""
    _check_inputs(query, key, value, enable_gqa)
    _check_batches(query, key, block_mask)
    lists: Any = _flex.WHOLE
    if block_mask is not None:
        _check_block_mask(query, key, block_mask)
        lists = block_mask
    if return_lse and return_aux is not None:
        raise ValueError(
            "Cannot specify both return_lse and return_aux. "
            "return_lse is deprecated, please use return_aux=AuxRequest(lse=True) instead."
        )
    if return_lse:
        _warn_once(
            "deprecated_return_lse",
            "return_lse is deprecated and will be removed in v2.10. "
            "Please use return_aux=AuxRequest(lse=True) instead.",
            FutureWarning,
        )
    _check_options(kernel_options, return_aux)
    if _C.is_grad_enabled() and block_mask is not None and block_mask.q_indices is None:
        if query.requires_grad or key.requires_grad or value.requires_grad:
            raise RuntimeError(
                "BlockMask q_indices is None. Backward pass requires q_indices to be computed. "
                "Please create the BlockMask with compute_q_blocks=True"
            )
    factor = 1 / math.sqrt(query.size(-1)) if scale is None else scale
    mod = None if score_mod is _identity else score_mod
    query, key, value = _autocast(query, key, value)
    if key.size(0) != query.size(0):
        key, value = (x.expand(query.size(0), *x.shape[1:]) for x in (key, value))
    tops = return_aux is not None and return_aux.max_scores
    attend = _attend if _C.current_region() is None else _attend_at_once
    out, lse, top = attend(query, key, value, mod, lists, factor, tops)
    if return_aux is not None:
        return out, AuxOutput(lse if return_aux.lse else None, top.detach() if tops else None)
    return (out, lse) if return_lse else out


@gives_number  # PyTorch's graphs hold it
@flushing
def _attend(
    query: Tensor, key: Tensor, value: Tensor, score_mod: Any, lists: BlockMask, scale: float,
    tops: bool,
) -> Any:  # fmt: skip
    """The result, the log of each row's sum and its largest score: by a kernel, if one can be."""
    try:
        return _flex.fused(query, key, value, score_mod, lists, scale, tops)
    except NotWritable:
        functions = _flex.mapped(score_mod, lists.mask_mod)
        out, lse, top = _flex.composed(query, key, value, functions, lists, scale)
        return _laid_out(out, query), lse, top


# In a compiled function: what waits is computed first, and no operator inside is recorded.
_attend_at_once = Gate(_attend, "flex_attention", "flex_attention", __name__)


def _autocast(*tensors: Tensor) -> tuple[Tensor, ...]:
    kind = tensors[0].device.type
    if not is_autocast_available(kind) or not is_autocast_enabled(kind):
        return tensors
    return tuple(_cast(list(tensors), kind, get_autocast_dtype(kind)))
