"""Products with weights of 4 and 8 bits that are kept packed: `aten::_weight_int4pack_mm` ...

A packed weight of 4 bits has two columns in a byte, the even one in the low half; on the GPU eight
in an int32.  PyTorch's order of the bytes is its processor's; here it is that of the rows.
"""

from __future__ import annotations

from tritorch.core.dtype import int32, uint8
from tritorch.core.tensor import Tensor
from tritorch.ops.pointwise.arithmetic import where
from tritorch.ops.quantized.common import aten
from tritorch.ops.shape.joining import cat, stack


def _paired(q: Tensor) -> Tensor:
    """Rows of 4-bit integers as bytes."""
    parts = q.to(uint8).reshape(q.shape[0], -1, 2)
    return parts[..., 0] | (parts[..., 1] << 4)


def _unpaired(packed: Tensor, rows: int) -> Tensor:
    """Bytes as rows of 4-bit integers."""
    flat = packed.contiguous().view(uint8).reshape(rows, -1)
    return stack([flat & 15, flat >> 4], -1).reshape(rows, -1)


@aten
def _convert_weight_to_int4pack_for_cpu(input: Tensor, innerKTiles: int) -> Tensor:
    """A weight of int32 values below 16, packed: two a byte."""
    if input.ndim != 2:
        raise RuntimeError("_convert_weight_to_int4pack_cpu : expect weight to be 2D tensor.")
    if input.dtype is not int32:
        raise RuntimeError("_convert_weight_to_int4pack_cpu : expect weight to be kInt.")
    _check_tiles(innerKTiles)
    return _paired(input)


def _check_tiles(innerKTiles: int) -> None:
    if innerKTiles not in (2, 4, 8):
        raise RuntimeError("_convert_weight_to_int4pack: innerKTiles need to be 2, 4, or 8")


@aten
def _convert_weight_to_int4pack(input: Tensor, innerKTiles: int) -> Tensor:
    """A weight of bytes with two values each (the even one high), packed for the GPU."""
    if input.ndim != 2:
        raise RuntimeError("_convert_weight_to_int4pack: expected a 2D weight")
    if input.dtype is not uint8:
        raise RuntimeError("_convert_weight_to_int4pack: expected a weight of dtype uint8")
    _check_tiles(innerKTiles)
    rows, columns = input.shape[0], input.shape[1] * 2
    if rows % 8 or columns % (innerKTiles * 16):
        raise RuntimeError(
            f"_convert_weight_to_int4pack: {rows} rows need to be a multiple of 8 and {columns} "
            f"columns of {innerKTiles * 16}"
        )
    packed = _paired(stack([input >> 4, input & 15], -1).reshape(rows, columns))
    return packed.view(int32).reshape(
        rows // 8, columns // (innerKTiles * 16), 32, innerKTiles // 2
    )


def _int4_product(x: Tensor, q: Tensor, group: int, scale: Tensor, zero: Tensor) -> Tensor:
    """x W', where W = (q - 8) scale + zero; of scale and zero a row for each group of columns."""
    if x.shape[-1] != q.shape[1]:
        raise RuntimeError(
            f"_weight_int4pack_mm: a has {x.shape[-1]} columns, the weight {q.shape[1]}"
        )
    if group not in (32, 64, 128, 256):
        raise RuntimeError(
            f"_weight_int4pack_mm: expect qGroupSize to be 32, 64, 128 or 256, got {group}"
        )
    grouped = (q.float() - 8).reshape(q.shape[0], -1, group)
    weight = grouped * scale.float().t().unsqueeze(-1) + zero.float().t().unsqueeze(-1)
    return (x.float() @ weight.reshape(q.shape).t()).to(x.dtype)


@aten
def _weight_int4pack_mm_for_cpu(
    input: Tensor, mat2: Tensor, qGroupSize: int, qScaleAndZeros: Tensor
) -> Tensor:
    """A product with a packed weight of 4 bits, by groups of columns."""
    q = _unpaired(mat2, qScaleAndZeros.shape[1])
    return _int4_product(input, q, qGroupSize, qScaleAndZeros[..., 0], qScaleAndZeros[..., 1])


@aten
def _weight_int4pack_mm(
    input: Tensor, mat2: Tensor, qGroupSize: int, qScaleAndZeros: Tensor
) -> Tensor:
    """A product with a weight packed for the GPU."""
    return _weight_int4pack_mm_for_cpu(input, mat2, qGroupSize, qScaleAndZeros)


@aten
def _weight_int4pack_mm_with_scales_and_zeros(
    input: Tensor, mat2: Tensor, qGroupSize: int, qScale: Tensor, qZeros: Tensor
) -> Tensor:
    """A product with a packed weight, its scales and zeros apart."""
    return _int4_product(input, _unpaired(mat2, qScale.shape[1]), qGroupSize, qScale, qZeros)


@aten
def _weight_int8pack_mm(input: Tensor, mat2: Tensor, scales: Tensor) -> Tensor:
    """A product with an int8 weight, a scale for each row of it."""
    if mat2.dtype.name != "int8":
        raise RuntimeError("_weight_int8pack_mm : expect B to be int8 tensor.")
    if scales.ndim != 1 or scales.shape[0] != mat2.shape[0]:
        raise RuntimeError(
            f"_weight_int8pack_mm : expect scales to be 1d tensor with size {mat2.shape[0]}"
        )
    wide = input.float() @ mat2.float().t() * scales.float()
    return wide.to(input.dtype)


# ---- inputs quantized on the way -----------------------------------------------------------------


@aten
def _dyn_quant_pack_4bit_weight(
    weights: Tensor, scales_zeros: Tensor, bias: Tensor | None, block_size: int,
    in_features: int, out_features: int,
) -> Tensor:  # fmt: skip
    """A weight of bytes with two values each, its scales and the bias, in one tensor."""
    parts = [weights.reshape(-1).float(), scales_zeros.reshape(-1).float()]
    return cat(parts if bias is None else [*parts, bias.reshape(-1).float()])


@aten
def _dyn_quant_matmul_4bit(
    inp: Tensor, packed_weights: Tensor, block_size: int, in_features: int, out_features: int
) -> Tensor:
    """A product with a packed weight of 4 bits; each row of the input is quantized to 8."""
    pairs, blocks = out_features * in_features // 2, in_features // block_size
    flat = packed_weights.reshape(-1)
    nibbles = _unpaired(flat[:pairs].to(uint8), out_features).float() - 8
    scales = flat[pairs : pairs + out_features * blocks].reshape(out_features, blocks, 1)
    weight = (nibbles.reshape(out_features, blocks, block_size) * scales).reshape(nibbles.shape)
    rows = inp.detach().reshape(-1, in_features).float()
    out = _by_row(rows) @ weight.t()
    if flat.numel() > pairs + out_features * blocks:
        out = out + flat[pairs + out_features * blocks :]
    return out.reshape(*inp.shape[:-1], out_features).to(inp.dtype)


def _by_row(rows: Tensor) -> Tensor:
    """Rows rounded to 256 levels between their least and largest values."""
    low, high = rows.amin(1, keepdim=True).clamp(max=0), rows.amax(1, keepdim=True).clamp(min=0)
    span = high - low
    levels = where(span == 0, 1.0, 255.0 / span)
    bottom, top = low * levels, high * levels
    zero = where(bottom + top - 1 > 0, -128 - bottom, 127 - top).clamp(-128, 127).round()
    return (((rows * levels).round() + zero).clamp(-128, 127) - zero) / levels
