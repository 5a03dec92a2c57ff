"""Scaled dot-product attention."""

from __future__ import annotations

import math
import sys
from typing import Any

from tritorch import _C
from tritorch.arrays.sym_functions import sym_max, sym_sqrt
from tritorch.core import defaults, published
from tritorch.core.dtype import bool_
from tritorch.core.promotion import category, scalar_name
from tritorch.core.published import autocast
from tritorch.core.scopes import ABOUT_TO_CHANGE, Giving, Scope
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.vmap import active
from tritorch.ops.random.random import reserve
from tritorch.ops.record.backends import backend
from tritorch.ops.record.checks import broadcast_shapes
from tritorch.ops.record.groups import Gradient, Rules
from tritorch.ops.record.infer import computed
from tritorch.ops.record.operator import FLOATS, Operator, ndarray
from tritorch.ops.record.outputs import cpp_name
from tritorch.ops.record.publishing import functional
from tritorch.ops.reduce.softmax import softmax
from tritorch.ops.shape.factory import ones
from tritorch.ops.shape.shape import expand, reshape

# By PyTorch's numbers: 0 the composed definition, 1 to 3 the fused kernel.
_MATH, _FUSED = 0, frozenset((1, 2, 3))
_allowed: tuple[int, ...] = (0, 1, 2, 3, 4)
_ordered = False


def allowed() -> tuple[int, ...]:
    """The implementations that may be used."""
    return _allowed


def allow(backends: tuple[int, ...], ordered: bool) -> Any:
    """Allows these only (ordered: the first that can); returns what `allow` undoes it with."""
    global _allowed, _ordered
    _C.ambient_changes()
    before = _allowed, _ordered
    _allowed, _ordered = tuple(backends), ordered
    return before


def allowing(backends: tuple[int, ...], ordered: bool) -> Scope:
    """Inside, only these are allowed (ordered: the first that can)."""
    here = sys.modules[__name__]
    return Giving(
        {}, ABOUT_TO_CHANGE, (here, "_allowed", tuple(backends)), (here, "_ordered", ordered)
    )


def _is_fused(can: Any, why: str) -> bool:
    """Whether the fused kernel runs: what is allowed, and what the kernel can."""
    fused, math_too = not _FUSED.isdisjoint(_allowed), _MATH in _allowed
    if not fused and not math_too:
        raise RuntimeError(
            "No viable backend for scaled_dot_product_attention was found. This is likely due to "
            "turning off both the math kernel and the fused kernels."
        )
    if fused and can and not (_ordered and math_too and _allowed[0] == _MATH):
        return True
    if not math_too:
        defaults.warn(f"Fused attention is not used because {why}.", stacklevel=4)
        raise RuntimeError("No available kernel.  Aborting execution.")
    return False


def _composed(
    q: Tensor, k: Tensor, v: Tensor, mask: Any, causal: bool, scale: float, seed: int = 0,
    offset: int = 0, p: float = 0.0, dropout: float = 0.0,
) -> Tensor:  # fmt: skip
    """seed, offset, p: of a fused call's dropout, which drops the same weights here."""
    groups = q.shape[-3] // max(k.shape[-3], 1) if q.ndim > 2 and k.ndim > 2 else 1
    if groups > 1:
        k, v = (x.repeat_interleave(groups, -3) for x in (k, v))
    scores = (q * scale) @ k.transpose(-2, -1)
    if causal:
        visible = ones(scores.shape[-2:], dtype=bool_, device=q.device).tril()
        scores = scores.masked_fill(~visible, -math.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype is bool_ else scores + mask
    weights = softmax(scores, -1)
    if mask is not None or causal:  # rows that see nothing are 0, not NaN
        weights = weights.masked_fill((scores == -math.inf).all(-1, keepdim=True), 0)
    if dropout:
        weights = published.functional.dropout(weights, dropout)
    elif p:
        drop, shape = (seed, offset, p), tuple(weights.shape)
        kept = backend("gpu", "attention").dropout_mask(shape, drop, q.device.index)
        weights = weights * (_C.wrap(kept).to(weights.dtype) / (1 - p))
    return weights @ v


def _attention_grad(
    g: Any, q: Any, k: Any, v: Any, mask: Any, out: Any, causal: bool, scale: float, seed: int,
    offset: int, p: float,
) -> Any:  # fmt: skip
    if mask is not None and mask._requires_grad:
        return NotImplemented  # by the composed definition
    inputs = (g[0], q, k, v, mask, out[0].detach(), out[1])
    return (*_attention_back.call(inputs, (causal, scale, seed, offset, p)), None)


def _like(x: Any, shape: tuple[int, ...]) -> Any:
    """What a result looks like that lies as x does: on the GPU with heads and places in its order
    (`gpu.attention.like`)."""
    if x.device.type == "cuda" and len(shape) == 4 and x.shape[1] > 1:
        if x.strides[1] < x.strides[2]:
            batch, heads, length, width = shape
            return x.new((batch, length, heads, width)).transpose(1, 2)
    return x.new(shape)


# With dropout (p) on the GPU only, where kernels draw the numbers again from a seed's offset.
_attention = Operator(
    "scaled_dot_product_attention", "q k v mask", "causal scale seed offset p",
    schema="(Tensor q, Tensor k, Tensor v, Tensor? mask, bool causal, float scale, int seed, "
        "int offset, float p) -> (Tensor, Tensor)",
    cpu="attention.attention", composed=_composed,
    grad=Gradient(
        joint=_attention_grad,
        node="_scaled_dot_product_flash_attention{'_for_cpu' if p == 0 else ''}(q, k, v, 0.0, "
            "causal, attn_mask=mask, scale=scale)",
        outputs=0b01,
    ),
    layout="copy",
    rules=Rules(
        infer=lambda q, k, v, *rest: (
            _like(q, (*q.shape[:-1], v.shape[-1])), q.new(q.shape[:-1], computed(q))
        ),
        axes="...ld,...sd,...sv,?->...lv,...l", batch="attention",
        cost=lambda outs, q, k, v, *rest: 2 * (q.numel() + outs[0].numel()) * k.shape[-2],
    ),
)  # fmt: skip
_attention_back = Operator(
    "attention_backward", "y q k v mask out_ lse", "causal scale seed offset p",
    schema="(Tensor y, Tensor q, Tensor k, Tensor v, Tensor? mask, Tensor out_, Tensor lse, "
        "bool causal, float scale, int seed, int offset, float p) -> (Tensor, Tensor, Tensor)",
    kind="internal", cpu="attention.attention_backward", grad=Gradient(outputs=0b111),
    rules=Rules(
        infer=lambda y, q, k, v, *rest: (_like(q, q.shape), _like(k, k.shape), _like(v, v.shape)),
        axes="...lv,...ld*,...sd,...sv,?,...lv,...l->...ld,...sd,...sv", batch="attention",
        cost=lambda outs, y, q, k, v, *rest: (6 * q.numel() + 4 * y.numel()) * k.shape[-2],
    ),
)  # fmt: skip


def _plain(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether these are floats on the CPU, (B, H, L, E), with as many heads each."""
    try:
        a, b, c = q._a, k._a, v._a
        if type(a) is not ndarray or type(b) is not ndarray or type(c) is not ndarray:
            return False
    except AttributeError:
        return False
    kind, shape = a.dtype, a.shape
    return (
        kind in FLOATS
        and b.dtype is kind
        and c.dtype is kind
        and len(shape) == 4
        and b.shape == c.shape
        and len(b.shape) == 4
        and shape[:2] == b.shape[:2]
        and shape[3] == b.shape[3]
        and a.size > 0
        and b.size > 0
    )


@functional
@autocast("lower")
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(q k^T * scale + mask) v."""
    if attn_mask is None and dropout_p == 0 and _plain(query, key, value) and _is_fused(True, ""):
        factor = 1 / math.sqrt(query._a.shape[3]) if scale is None else scale
        return _run_fused(query, key, value, None, is_causal, factor, enable_gqa, True)
    for x in (key, value):
        if x.dtype is not query.dtype:
            raise RuntimeError(
                f"Expected query, key, and value to have the same dtype, but got query.dtype: "
                f"{query.dtype} key.dtype: {key.dtype} and value.dtype: {value.dtype} instead."
            )
        if x.device != query.device:
            raise RuntimeError(
                f"Expected query, key, and value to have the same device type, but got "
                f"query.device: "
                f"{query.device} key.device: {key.device} and value.device: {value.device} instead."
            )
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise RuntimeError(
            f"Expected query, key, and value to all be  at least 2 dimensional, but got "
            f"query.dim(): "
            f"{query.ndim}, key.dim(): {key.ndim} and value.dim(): {value.ndim} instead."
        )
    if category(query.dtype) < 2:
        raise RuntimeError(
            f"expected scalar type Float but found {scalar_name(query.dtype)}"
            if query.ndim > 2
            else f"expected m1 and m2 to have the same dtype, but got: float != "
            f"{cpp_name(query.dtype)}"
        )
    if attn_mask is not None:
        if is_causal:
            raise RuntimeError(
                "_scaled_dot_product_attention: Explicit attn_mask should not be set when "
                "is_causal=True"
            )
        if attn_mask.dtype is not bool_ and attn_mask.dtype is not query.dtype:
            raise RuntimeError(
                f"Expected attn_mask dtype to be bool or float or to match query dtype, but got "
                f"attn_mask.dtype: {attn_mask.dtype} and  query.dtype: {query.dtype} instead."
            )
    factor = 1 / sym_sqrt(sym_max(query.shape[-1], 1)) if scale is None else scale
    drops = dropout_p == 0 or _can_drop(query, key, value, dropout_p)
    fused = drops and query.numel() and key.numel() and value.shape[-1] == query.shape[-1]
    # What does not fit together is refused by the products that attention is composed of.
    fused = fused and key.shape[-1] == query.shape[-1] and key.shape[-2] == value.shape[-2]
    why = "it has dropout, is empty or complex, or values are of another size than keys"
    if not _is_fused(fused and not query.is_complex(), why):
        return _composed(query, key, value, attn_mask, is_causal, factor, dropout=dropout_p)
    return _run_fused(query, key, value, attn_mask, is_causal, factor, enable_gqa, False, dropout_p)


def _can_drop(q: Tensor, k: Tensor, v: Tensor, p: float) -> bool:
    """Whether the fused kernel drops weights: on the GPU, outside vmap and forward mode."""
    tangents = any(x._tangent is not None for x in (q, k, v))
    return q.device.type == "cuda" and 0 < p < 1 and not active.levels and not tangents


def _run_fused(
    q: Tensor, k: Tensor, v: Tensor, mask: Any, causal: bool, scale: float, gqa: bool,
    plain: bool = False, dropout: float = 0.0,
) -> Tensor:  # fmt: skip
    if plain:
        return _attention.call((q, k, v, mask), (causal, float(scale), 0, 0, 0.0))[0]
    lead = lambda x: tuple(x.shape[:-3])
    heads = lambda x: x.shape[-3] if x.ndim > 2 else 1
    batch = broadcast_shapes(lead(q), lead(k), lead(v))
    n = math.prod(batch)
    q_heads = max(heads(q), heads(k)) if not gqa else heads(q)

    if not gqa and heads(k) not in (1, heads(q)) and heads(q) != 1:
        raise RuntimeError(
            f"The size of tensor a ({heads(q)}) must match the size of tensor b ({heads(k)}) at "
            f"non-singleton dimension {q.ndim - 3}"
        )

    def four(x: Tensor, wanted: int) -> Tensor:
        if x.ndim == 4 and tuple(x.shape)[:2] == (*batch, wanted):
            return x
        return reshape(expand(x, (*batch, wanted, *x.shape[-2:])), (n, wanted, *x.shape[-2:]))

    kv_heads = heads(k) if gqa else q_heads
    if gqa and q_heads % kv_heads:
        raise RuntimeError(
            "Number of heads in key and value must divide the number of heads in query"
        )
    if q.ndim != 4 or (mask is not None and mask._requires_grad):
        q = q.contiguous()  # PyTorch's result is one of products here, which are row-major
    out_shape = (*batch, *((q_heads,) if max(q.ndim, k.ndim) > 2 else ()), q.shape[-2], v.shape[-1])
    if mask is not None:
        mask = reshape(
            expand(mask, (*batch, q_heads, q.shape[-2], k.shape[-2])),
            (n, q_heads, q.shape[-2], k.shape[-2]),
        )
    seed, offset = 0, 0
    if dropout:  # one counter gives four numbers, and no counter serves two rows
        count = n * q_heads * q.shape[-2] * -(-k.shape[-2] // 4) * 4
        seed, offset = reserve(q.device, count)
    out, _ = _attention.call(
        (four(q, q_heads), four(k, kv_heads), four(v, kv_heads), mask),
        (causal, float(scale), seed, offset, float(dropout)),
    )
    return out if tuple(out.shape) == out_shape else reshape(out, out_shape)
