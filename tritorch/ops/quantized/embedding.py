"""Tables of embeddings whose rows have 8, 4 or 2 bits, each row with its scale and offset.

A packed row is its integers, and after them scale and least value: float32 of 8 bits, else float16.

    value = integer * scale + least
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritorch.core.dtype import float16, float32, int64, uint8
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.quantized import QuantizedTensor, integers_of
from tritorch.ops.nn.fake_quantize import choose_qparams_optimized
from tritorch.ops.pointwise.arithmetic import where
from tritorch.ops.quantized.common import operator
from tritorch.ops.quantized.packed import EmbeddingParams, ScriptObject, packed_of
from tritorch.ops.shape.joining import cat, stack
from tritorch.ops.shape.ranges import arange

_LEAST_RANGE = 1e-8
_WORDS = {8: "byte", 4: "4bit", 2: "2bit"}


@operator()
def embedding_bag_prepack(weight: Any) -> ScriptObject:
    """The parameters of a table that is quantized by rows, with zero points in floats."""
    if not isinstance(weight, QuantizedTensor):
        raise NotImplementedError("Could not run 'quantized::embedding_bag_prepack': not quantized")
    name = weight.dtype.name
    if name not in ("quint8", "quint4x2"):
        raise RuntimeError(
            f"Expect embedding_bag weights to be quantized in quint8 or quint4x2, got {name}"
        )
    by = weight._quantizer
    if by.axis is None or by.scheme._name != "per_channel_affine_float_qparams":
        raise RuntimeError(
            "Expect embedding_bag weights to be quantized using kPerChannelAffineFloatQParams"
        )
    if weight.ndim != 2:
        raise RuntimeError(f"quantized::embedding_bag_prepack weight tensor rank should be 2, got "
                           f"{weight.ndim}")  # fmt: skip
    return ScriptObject(EmbeddingParams(weight))


@operator()
def embedding_bag_unpack(W_prepack: ScriptObject) -> Any:
    """The table."""
    return packed_of(W_prepack, EmbeddingParams, "quantized::embedding_bag_unpack").unpack()


# ---- tables as tensors of bytes ------------------------------------------------------------------


def _ends(weight: Tensor, bits: int, optimized: bool, nbins: int, ratio: float) -> Any:
    if not optimized:
        return weight.amin(-1), weight.amax(-1)
    rows = weight.reshape(-1, weight.shape[-1])
    pairs = [choose_qparams_optimized(row, row.numel(), nbins, ratio, bits) for row in rows]
    shape = weight.shape[:-1]
    return (stack([low for _, low in pairs]).reshape(shape),
            stack([high for high, _ in pairs]).reshape(shape))  # fmt: skip


def _pack_bytes(weight: Tensor, low: Tensor, high: Tensor) -> Tensor:
    span = (high - low).unsqueeze(-1)
    q = ((weight - low.unsqueeze(-1)) * (255.0 / (span + _LEAST_RANGE))).round()
    header = cat([span / 255.0, low.unsqueeze(-1)], -1).float()
    return cat([q.clamp(0, 255).to(uint8), header.contiguous().view(uint8)], -1)


def _pack_bits(weight: Tensor, low: Tensor, high: Tensor, bits: int) -> Tensor:
    top, each = (1 << bits) - 1, 8 // bits
    low = low.to(float16)
    span = high - low.float()
    scale = where(span == 0, 1.0, span / top).to(float16)
    inverse = 1 / scale.float()
    dead = (scale == 0) | inverse.isinf()
    scale = where(dead, scale.new_ones(()), scale)
    inverse = where(dead, inverse.new_ones(()), inverse)
    q = ((weight - low.float().unsqueeze(-1)) * inverse.unsqueeze(-1)).round().clamp(0, top)
    columns = -(-q.shape[-1] // each) * each
    if columns != q.shape[-1]:
        q = cat([q, q.new_zeros((*q.shape[:-1], columns - q.shape[-1]))], -1)
    parts = q.to(uint8).reshape(*q.shape[:-1], -1, each)
    packed = parts[..., 0]
    for i in range(1, each):
        packed = packed | (parts[..., i] << (bits * i))
    header = stack([scale, low], -1).contiguous().view(uint8)
    return cat([packed, header], -1)


def _unpack_rows(rows: Tensor, bits: int) -> Tensor:
    """Rows of bytes as floats."""
    kind = float32 if bits == 8 else float16
    tail = 2 * kind.itemsize
    header = rows[..., -tail:].clone().view(kind).float()
    q = rows[..., :-tail]
    if bits < 8:
        mask = (1 << bits) - 1
        q = stack([(q >> (bits * i)) & mask for i in range(8 // bits)], -1).flatten(-2)
    return q.float() * header[..., :1] + header[..., 1:]


def _tables(bits: int) -> None:
    word = _WORDS[bits]

    def prepack(
        weight: Tensor, optimized_qparams: bool = False, nbins: int = 200, ratio: float = 0.16
    ) -> Tensor:
        x = weight.detach().float()
        low, high = _ends(x, bits, optimized_qparams and bits < 8, nbins, ratio)
        return _pack_bytes(x, low, high) if bits == 8 else _pack_bits(x, low, high, bits)

    def with_ends(
        weight: Tensor, rowwise_min_max: Tensor, optimized_qparams: bool = False,
        nbins: int = 200, ratio: float = 0.16,
    ) -> Tensor:  # fmt: skip
        x, low, high = weight.detach().float(), rowwise_min_max[..., 0], rowwise_min_max[..., 1]
        return _pack_bytes(x, low, high) if bits == 8 else _pack_bits(x, low, high, bits)

    def unpack(weight: Tensor) -> Tensor:
        return _unpack_rows(weight, bits)

    def bag(
        weight: Tensor, indices: Tensor, offsets: Tensor | None = None,
        scale_grad_by_freq: bool = False, mode: int = 0, pruned_weights: bool = False,
        per_sample_weights: Tensor | None = None,
        compressed_indices_mapping: Tensor | None = None, include_last_offset: bool = False,
    ) -> Tensor:  # fmt: skip
        return _bags(
            lambda i: _unpack_rows(weight.index_select(0, i), bits), indices, offsets,
            pruned_weights, per_sample_weights, compressed_indices_mapping, include_last_offset,
            f"embedding_bag_{word}", weight.shape[0],
        )  # fmt: skip

    def bag_of_packed(
        weight: ScriptObject, indices: Tensor, offsets: Tensor | None = None,
        scale_grad_by_freq: bool = False, mode: int = 0, pruned_weights: bool = False,
        per_sample_weights: Tensor | None = None,
        compressed_indices_mapping: Tensor | None = None, include_last_offset: bool = False,
    ) -> Tensor:  # fmt: skip
        table = packed_of(weight, EmbeddingParams, f"quantized::embedding_bag_{word}").weight
        return _bags(
            lambda i: _rows(table, i), indices, offsets, pruned_weights, per_sample_weights,
            compressed_indices_mapping, include_last_offset, f"embedding_bag_{word}",
            table.shape[0],
        )  # fmt: skip

    def lookup(weight: ScriptObject, indices: Tensor, pruned_weights: bool = False) -> Tensor:
        table = packed_of(weight, EmbeddingParams, f"quantized::embedding_{word}").weight
        _check_indices(indices, table.shape[0], f"embedding_{word}")
        return _rows(table, indices.reshape(-1)).reshape(*indices.shape, table.shape[1])

    names: dict[Callable[..., Any], str] = {
        prepack: f"embedding_bag_{word}_prepack",
        with_ends: f"embedding_bag_{word}_prepack_with_rowwise_min_max",
        unpack: f"embedding_bag_{word}_unpack",
        bag: f"embedding_bag_{word}_rowwise_offsets",
    }
    if bits > 2:
        names |= {bag_of_packed: f"embedding_bag_{word}", lookup: f"embedding_{word}"}
    for function, name in names.items():
        function.__name__, function.__doc__ = name, f"{name.replace('_', ' ')}."
        operator(name)(function)


def _rows(table: Any, indices: Tensor) -> Tensor:
    """Rows of a table as floats."""
    by, indices = table._quantizer, indices.to(int64)
    scale = by.scale.float().index_select(0, indices).unsqueeze(1)
    least = scale * -by.zero_point.float().index_select(0, indices).unsqueeze(1)
    if table.dtype.name == "quint4x2":  # packed beside the integers in half precision
        scale, least = scale.to(float16).float(), least.to(float16).float()
    return integers_of(table).index_select(0, indices).float() * scale + least


def _check_indices(indices: Tensor, rows: int, name: str) -> None:
    if indices.dtype.name not in ("int32", "int64"):
        raise RuntimeError(f"Expected 32-bit or 64-bit integers as indices of {name}")
    if indices.numel():
        low, high = indices.aminmax()
        if int(low) < 0 or int(high) >= rows:
            raise RuntimeError(f"{name}: an index is out of the table's {rows} rows")


def _bags(
    rows_at: Any, indices: Tensor, offsets: Tensor | None, pruned: bool, weights: Any,
    mapping: Any, has_last: bool, name: str, n_rows: int,
) -> Tensor:  # fmt: skip
    """Sums of rows, bag by bag."""
    if indices.ndim == 2:
        if offsets is not None:
            raise RuntimeError(
                f"{name} operator: input is 2D, then offsets has to be None, as input is treated "
                "is a mini-batch of fixed length sequences."
            )
        offsets = arange(0, indices.numel(), indices.shape[1], device=indices.device)
        indices, has_last = indices.reshape(-1), False
    elif offsets is None:
        raise RuntimeError(f"{name} operator expects offsets to be set for 1D indices.")
    if weights is not None:
        weights = weights.reshape(-1)
    ends = offsets.tolist() + ([] if has_last else [indices.numel()])
    counts = [high - low for low, high in zip(ends, ends[1:])]
    bag_of = arange(len(counts), device=indices.device).repeat_interleave(
        offsets.new_tensor(counts, dtype=int64)
    )
    indices = indices[ends[0] : ends[-1]] if ends else indices
    if pruned and mapping is not None and mapping.numel() > 1:
        indices = mapping.index_select(0, indices.to(int64))
        kept = indices >= 0
        indices, bag_of = indices[kept], bag_of[kept]
        weights = None if weights is None else weights[kept]
    _check_indices(indices, n_rows, name)
    rows = rows_at(indices.to(int64))
    if weights is not None:
        rows = rows * weights.unsqueeze(1)
    out = rows.new_zeros((len(counts), rows.shape[1]))
    return out.index_add(0, bag_of, rows)


for _bits in _WORDS:
    _tables(_bits)
