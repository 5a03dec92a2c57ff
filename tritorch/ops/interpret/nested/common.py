"""Functions that do the same with nested tensors of both layouts: mostly, on their values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from tritorch import _C
from tritorch.arrays.nested import Jagged, NestedArray, Ragged, nested_int_of, share_nested_int
from tritorch.autograd.graph import check_inplace
from tritorch.core import published, scopes
from tritorch.core.layout import contiguous_format, preserve_format
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.nested.functions import both, jagged
from tritorch.ops.interpret.nested.padding import jagged_values, to_padded_tensor as padded
from tritorch.ops.interpret.nested.pointwise import write
from tritorch.ops.interpret.nested.record import (
    cannot_run,
    is_nested,
    made,
    parts_of,
    rule,
    sizes_of,
    structure_of,
    values_of,
)

Plain = Any


def moved(structure: Any, device: Any) -> Any:
    """A structure on another device, with the same nested int."""
    if type(structure) is Ragged or structure.offsets.device == device:
        return structure
    offsets = structure.offsets.to(device)
    lengths = None if structure.lengths is None else structure.lengths.to(device)
    found = Jagged(offsets, lengths, structure.ragged, structure.cache)
    share_nested_int(found.source, nested_int_of(structure.source))
    return found


@rule("to_copy")
def to_copy(op: Any, x: Tensor, kind: Any, device: Any, non_blocking: bool) -> Tensor:
    """A copy of another dtype or on another device."""
    values = op.call((values_of(x),), (kind, device, non_blocking))
    return made(values, moved(structure_of(x), values.device))


# ---- memory --------------------------------------------------------------------------------------


@both("zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like",
      "randint_like")  # fmt: skip
def like(plain: Plain, input: Tensor, *args: Any, **options: Any) -> Tensor:
    """Of a nested tensor's components."""
    format = options.pop("memory_format", None)
    if format not in (None, preserve_format, contiguous_format):
        raise RuntimeError(
            "memory format option is only supported by strided tensors without components"
        )
    wants = options.pop("requires_grad", False)
    options.pop("layout", None)
    structure = structure_of(input)
    values = input._array.values
    if type(structure) is Ragged and not structure.is_contiguous():
        if format is contiguous_format:
            structure = Ragged(structure.sizes)
            values = values.new_empty(structure.numel())
    out = made(plain(values, *args, **options), structure)
    if out.device != input.device:
        out = _C.wrap(NestedArray(out._array.values, moved(structure, out.device)))
    out._leaf = wants
    return out


@both("is_contiguous")
def is_contiguous(plain: Plain, self: Tensor, memory_format: Any = contiguous_format) -> bool:
    """Whether components lie dense, in their order."""
    if memory_format is preserve_format:
        return True
    if memory_format is not contiguous_format:
        return False
    return self._array.is_contiguous()


@both("contiguous")
def contiguous(plain: Plain, self: Tensor, memory_format: Any = contiguous_format) -> Tensor:
    """The tensor itself if its components lie dense, else a copy in which they do."""
    if self._array.is_contiguous():
        return self
    return self.clone(memory_format=memory_format)


@both("resize_", "resize_as_", "set_", "as_strided_", "t_", "transpose_", "swapaxes_", "swapdims_",
      "squeeze_", "unsqueeze_", "__dlpack__")  # fmt: skip
def unchanged(plain: Plain, self: Tensor, *args: Any, **options: Any) -> NoReturn:
    """Refused: a nested tensor keeps its components, and is no single array."""
    raise cannot_run(plain.__name__, self)


@both("numpy", "tolist", "__array__")
def refuses(plain: Plain, self: Tensor, *args: Any, **options: Any) -> NoReturn:
    """Refused: components differ."""
    name = plain.__name__
    raise RuntimeError(
        f".{name}() is not supported for tensor subclasses"
        + ("." if name == "numpy" else f", got {type(self).__name__}")
        if type(structure_of(self)) is Jagged
        else "Internal error: NestedTensorImpl doesn't support sizes. Please file an issue."
    )


@both("pin_memory")
def pin_memory(plain: Plain, self: Tensor, device: Any = None) -> Tensor:
    """With values in page-locked memory."""
    return made(values_of(self).pin_memory(), structure_of(self))


@both("is_pinned", "is_shared")
def asks_values(plain: Plain, self: Tensor, *args: Any) -> bool:
    """What is so of the values."""
    return plain(self._array.values, *args)


@both("share_memory_", "record_stream")
def each_tensor(plain: Plain, self: Tensor, *args: Any) -> Tensor:
    """Done to the values, and to what says where components are."""
    structure = structure_of(self)
    tensors = [self._array.values]
    if type(structure) is Jagged:
        tensors += [t for t in (structure.offsets, structure.lengths) if t is not None]
    for tensor in tensors:
        plain(tensor, *args)
    return self


@both("untyped_storage", "storage", "_typed_storage")
def storage(plain: Plain, self: Tensor) -> Any:
    """The memory of the values."""
    return plain(self._array.values)


@both("values", "_nested_get_values")
def values(plain: Plain, self: Tensor) -> Tensor:
    """All elements: of a strided tensor flat, of a jagged one along the ragged dim."""
    return values_of(self)


@both("to_padded_tensor")
def to_padded_tensor(
    plain: Plain, self: Tensor, padding: float, output_size: Any = None, **rest: Any
) -> Tensor:
    """The components in one dense tensor, filled up."""
    structure = structure_of(self)
    if type(structure) is Ragged and not structure.is_contiguous():
        raise RuntimeError("for now to_padded_tensor only supports contiguous nested tensor")
    return padded(self, padding, output_size)


# ---- in place ------------------------------------------------------------------------------------


def _writes_values(plain: Plain, self: Tensor, *args: Any, **options: Any) -> Tensor:
    """Done to the values, whatever components there are."""
    check_inplace(self)
    with scopes.unrecorded:
        plain(self._array.values, *args, **options)
    if self._node is not None and _C.is_grad_enabled():  # what it was does not matter any more
        return write(self, self.detach() * 0 + self.detach())
    return self


both("fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_", "cauchy_",
     "geometric_", "log_normal_", "apply_")(_writes_values)  # fmt: skip


@both("__setitem__")
def set_item(plain: Plain, self: Tensor, key: Any, value: Any) -> None:
    """Writes where an index looks: a component, or a part of one."""
    part = self[key]
    part.copy_(value) if isinstance(value, Tensor) and value.ndim else part.fill_(value)


@both("copy_")
def copy_(plain: Plain, self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Writes the elements of a nested tensor whose components have the same sizes."""
    if not (is_nested(self) and is_nested(src)):
        raise RuntimeError(
            f"copy_ only supports Nested tensors for both self and src. Found self is "
            f"{'' if is_nested(self) else 'not '}nested and src is "
            f"{'' if is_nested(src) else 'not '}nested"
        )
    if sizes_of(self) != sizes_of(src):
        if type(structure_of(self)) is Jagged:
            raise RuntimeError(
                f"copy_(): expected compatible input and src shapes, but got: {self.shape} and "
                f"{src.shape}"
            )
        raise RuntimeError(
            "copy_ only supports tensors that are the same size for Nested implementations"
        )
    return write(self, src.to(device=self.device, dtype=self.dtype))


@both("dropout", "alpha_dropout", "feature_alpha_dropout")
def dropout(
    plain: Plain, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False,
    *rest: Any, train: bool | None = None,
) -> Tensor:  # fmt: skip
    """Of the values; the same numbers are drawn whatever the components are."""
    out = plain(values_of(input), p, training if train is None else train, False)
    result = made(out, structure_of(input))
    return write(input, result) if inplace else result


@both("native_dropout")
def native_dropout(plain: Plain, input: Tensor, p: float, train: Any) -> tuple[Tensor, Tensor]:
    """Of the values, and what was kept."""
    out, kept = plain(values_of(input), p, train)
    return made(out, structure_of(input)), made(kept, structure_of(input))


@both("equal")
def equal(plain: Plain, input: Tensor, other: Tensor) -> bool:
    """Whether components have the same sizes and elements."""
    if not (is_nested(input) and is_nested(other)) or sizes_of(input) != sizes_of(other):
        return False
    return all(plain(a, b) for a, b in zip(parts_of(input), parts_of(other)))


@both("allclose")
def allclose(plain: Plain, input: Tensor, other: Tensor, *args: Any, **options: Any) -> bool:
    """Whether components have the same sizes, and elements that are close."""
    pairs = zip(parts_of(input), parts_of(other))
    return all(plain(a, b, *args, **options) for a, b in pairs)


@both("argmax", "argmin")
def extreme_place(plain: Plain, input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Where the extreme is: of all values, or along a dim."""
    if dim is None:
        return plain(values_of(input.contiguous()))
    return plain.__wrapped__(input, dim, keepdim)


@jagged("index_put", "index_put_")
def index_put(
    plain: Plain, self: Tensor, indices: Sequence[Any], values: Tensor, accumulate: bool = False
) -> Tensor:
    """Elements written at places, which are counted in each component."""
    structure = structure_of(self)
    ragged, own = structure.ragged, values_of(self)
    if len(indices) > self.ndim:
        raise AssertionError(
            f"Too many indices: got {len(indices)} but tensor has {self.ndim} dimensions"
        )
    if len(indices) > ragged:
        inside = structure.source.diff() if structure.lengths is None else structure.lengths
        batch, place = indices[0], indices[ragged]
        if bool((place >= inside[batch]).any()):
            raise RuntimeError("Some indices in the ragged dimension are out of bounds!")
        flat = structure.offsets[batch] + place
        key = (*indices[1:ragged], flat, *indices[ragged + 1 :])
        new = own.index_put(key, values, accumulate)
    elif not self._array.is_contiguous():
        raise RuntimeError(
            "index_put(): If ragged dimension is not part of indices, this only works on "
            "contiguous NJTs"
        )
    else:
        rows = self.to_padded_tensor(0)
        written = rows.index_put(tuple(indices), values, accumulate)
        new = jagged_values(written, structure.offsets, ragged, own.shape[ragged - 1])
    result = made(new, structure)
    return write(self, result) if plain.__name__ == "index_put_" else result


@jagged("masked_select")
def masked_select(plain: Plain, input: Tensor, mask: Tensor) -> Tensor:
    """The elements where a mask of the same raggedness is true, as components."""
    if input.ndim > 2:
        raise RuntimeError("masked_select only support 2-D selections currently")
    if tuple(input._array.shape) != tuple(mask._array.shape):
        raise RuntimeError(
            f"Mask with shape {mask.shape} is not compatible with input's shape {input.shape}"
        )
    kept = values_of(mask)
    counts = published.public.cat([kept.new_zeros(1, dtype=structure_of(input).offsets.dtype),
                            kept.cumsum(0)])  # fmt: skip
    offsets = counts[structure_of(input).offsets]
    return made(plain(values_of(input), kept), Jagged(offsets))
