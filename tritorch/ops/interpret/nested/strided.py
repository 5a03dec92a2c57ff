"""Shapes of strided nested tensors: views, parts, joining."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tritorch.arrays.nested import NestedInt, Ragged, Shape
from tritorch.core import published
from tritorch.core.dims import wrap_dim
from tritorch.core.gates import GATES
from tritorch.core.layout import contiguous_format, preserve_format
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.nested.functions import strided
from tritorch.ops.interpret.nested.record import (
    cannot_run,
    is_nested,
    made,
    nested_view,
    of_parts,
    part_of,
    parts_of,
    structure_of,
    values_of,
)
from tritorch.ops.record.checks import sizes

Plain = Any


def require_contiguous(x: Tensor, message: str) -> Ragged:
    """The structure of a tensor whose components lie dense."""
    structure: Ragged = structure_of(x)
    if not structure.is_contiguous():
        raise RuntimeError(message)
    return structure


def _viewed(x: Tensor, change: Callable[[Shape, Shape, int], tuple[Shape, Shape, int]]) -> Tensor:
    """A view: each component's size, strides and start changed."""
    structure: Ragged = structure_of(x)
    found = [change(*each) for each in zip(structure.sizes, structure.steps, structure.starts)]
    sizes_, steps, starts = zip(*found) if found else ((), (), ())
    return nested_view(values_of(x), Ragged(sizes_, steps, starts))


# ---- what it is ----------------------------------------------------------------------------------


@strided("size")
def size(plain: Plain, self: Tensor, dim: int | None = None) -> Any:
    """The size of a dim in which components do not differ."""
    if dim is None:
        raise RuntimeError(
            "Internal error: NestedTensorImpl doesn't support sizes. Please file an issue."
        )
    at = wrap_dim(dim, self.ndim)
    found = self._array.shape[at]
    if type(found) is not int:
        raise RuntimeError(f"Given dimension {at} is irregular and does not have a size.")
    return found


@strided("stride")
def stride(plain: Plain, self: Tensor, dim: int | None = None) -> Any:
    """Refused: components have strides of their own."""
    raise RuntimeError(
        "Internal error: NestedTensorImpl doesn't support strides. Please file an issue."
    )


@strided("is_same_size")
def is_same_size(plain: Plain, self: Tensor, other: Tensor) -> bool:
    """Whether components have the same sizes."""
    if not (is_nested(self) and is_nested(other)):
        kinds = [("" if is_nested(t) else "not ") + "nested" for t in (self, other)]
        raise RuntimeError(
            f"Expected both self and other to be nested tensors. Self is {kinds[0]}. While Other "
            f"is {kinds[1]}."
        )
    return structure_of(self).sizes == structure_of(other).sizes


# ---- shapes --------------------------------------------------------------------------------------


def _reshaped(size: Shape, proposed: Sequence[int]) -> Shape:
    """A component's new size; -1 keeps an old one."""
    shape, inferred = list(proposed[1:]), False
    old = min(len(size), len(shape))
    for k, n in enumerate(shape):
        if n < -1:
            raise RuntimeError(f"invalid shape dimension {n}")
        if n == -1:
            if inferred:
                raise RuntimeError("only one dimension can be inferred")
            if k >= old:
                raise RuntimeError("nested tensor does not infer shape")
            shape[k], inferred = size[k], True
    if math.prod(shape) != math.prod(size):
        raise RuntimeError(
            f"shape '{list(proposed)}' is invalid for input of size {math.prod(size)}"
        )
    return tuple(shape)


def _numbers(x: Tensor, shape: Sequence[Any]) -> list[list[int]]:
    """A shape for each component: a nested int of the tensor's own is the size that it has."""
    own = x._array.shape
    at = {n: k for k, n in enumerate(own) if isinstance(n, NestedInt)}
    sizes_ = structure_of(x).sizes
    return [[size[at[n] - 1] if n in at else n for n in shape] for size in sizes_]


def _new_sizes(name: str, x: Tensor, shape: Sequence[int]) -> list[Shape]:
    structure: Ragged = structure_of(x)
    if not shape:
        raise RuntimeError("shape '[]' is invalid for a nested tensor")
    if not structure.count:
        raise RuntimeError("empty nested tensor cannot be reshaped")
    if shape[0] != structure.count:
        raise RuntimeError(
            f"{name}: For now nested {name} cannot change or infer the implicit batch dimension"
        )
    return [_reshaped(*each) for each in zip(structure.sizes, _numbers(x, shape))]


@strided("view", "reshape")
def view(plain: Plain, self: Tensor, *shape: Any, **named: Any) -> Tensor:
    """Other dims after the batch; -1 is the size that a component has there."""
    name = plain.__name__.strip("_")
    wanted = sizes(shape or (named["size" if name == "view" else "shape"],))
    new = _new_sizes(name, self, wanted)
    values, structure = values_of(self), structure_of(self)
    views = []
    offset = values.storage_offset()
    parts = zip(structure.sizes, structure.steps, structure.starts)
    for (old, steps, start), shape_ in zip(parts, new):
        part = values.detach().as_strided(old, steps, offset + start)
        try:
            seen = part.view(shape_)
        except RuntimeError:
            if name == "view":
                raise RuntimeError(
                    "view size is not compatible with input tensor's size and stride (at least one "
                    "dimension spans across two contiguous subspaces). Use .reshape(...) instead."
                ) from None
            return of_parts([p.reshape(s) for p, s in zip(parts_of(self), new)])
        views.append((shape_, tuple(seen.stride()), start))
    return nested_view(values, Ragged(*map(tuple, zip(*views))))


@strided("view_as", "reshape_as")
def view_as(plain: Plain, self: Tensor, other: Tensor) -> Tensor:
    """In another tensor's shape."""
    way = GATES["tritorch.Tensor"][plain.__name__.removesuffix("_as")]
    return view(way, self, tuple(other._array.shape))


@strided("transpose", "swapaxes", "swapdims")
def transpose(plain: Plain, input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dims of the components swapped."""
    a, b = wrap_dim(dim0, input.ndim), wrap_dim(dim1, input.ndim)
    if a == b:
        return input
    if 0 in (a, b):
        raise RuntimeError("Nested tensor dimension 0 cannot be transposed")

    def swap(size: Shape, steps: Shape, start: int) -> tuple[Shape, Shape, int]:
        order = list(range(len(size)))
        order[a - 1], order[b - 1] = order[b - 1], order[a - 1]
        return tuple(size[k] for k in order), tuple(steps[k] for k in order), start

    return _viewed(input, swap)


@strided("squeeze")
def squeeze(plain: Plain, input: Tensor, dim: Any = None) -> Tensor:
    """Without a dim of one."""
    if dim is None:
        raise RuntimeError("For nested tensors, squeeze without the dim argument is not supported")
    named = [wrap_dim(d, input.ndim) for d in (dim if isinstance(dim, (tuple, list)) else (dim,))]
    if 0 in named:
        raise RuntimeError(
            "For nested tensors, squeezing dimension 0 is not supported at the moment if you need "
            "this feature, please open an issue on github describing your use case."
        )
    structure: Ragged = structure_of(input)
    gone = [d - 1 for d in named if all(size[d - 1] == 1 for size in structure.sizes)]
    if gone and len(structure.sizes[0]) == len(gone):
        raise RuntimeError(
            "For nested tensors, squeezing a nested tensor of singleton tensors is not supported "
            "at the moment, if you need this feature, please open an issue on github describing "
            "your use case."
        )
    keep = lambda sizes_: tuple(n for k, n in enumerate(sizes_) if k not in gone)
    return _viewed(input, lambda size, steps, start: (keep(size), keep(steps), start))


@strided("unsqueeze")
def unsqueeze(plain: Plain, input: Tensor, dim: int) -> Tensor:
    """With a new dim of one, after the batch."""
    at = wrap_dim(dim, input.ndim + 1)
    if at == 0:
        raise RuntimeError(
            "unsqueeze(): For nested tensors, unsqueezing dimension 0 is not supported at the "
            "moment if you need this feature, please open an issue on github describing your use "
            "case."
        )

    def insert(size: Shape, steps: Shape, start: int) -> tuple[Shape, Shape, int]:
        step = size[at - 1] * steps[at - 1] if at - 1 < len(size) else 1
        return (
            (*size[: at - 1], 1, *size[at - 1 :]),
            (*steps[: at - 1], step, *steps[at - 1 :]),
            start,
        )

    return _viewed(input, insert)


@strided("expand_as")
def expand_as(plain: Plain, self: Tensor, other: Tensor) -> Tensor:
    """Refused where nested, as in PyTorch."""
    raise cannot_run("expand", other if is_nested(other) else self)


# ---- parts ---------------------------------------------------------------------------------------


@strided("unbind")
def unbind(plain: Plain, input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The components."""
    if wrap_dim(dim, input.ndim) != 0:
        raise RuntimeError(
            f"NestedTensor can only be unbound along dimension 0 got dimension {dim} instead."
        )
    return tuple(parts_of(input))


@strided("select")
def select(plain: Plain, input: Tensor, dim: int, index: int) -> Tensor:
    """A component, or the slice of each at an index of one of their dims."""
    at, k = wrap_dim(dim, input.ndim), int(index)
    structure: Ragged = structure_of(input)
    if at == 0:
        if not structure.count:
            raise IndexError("You can only select when the NT is not empty.")
        if not -structure.count <= k < structure.count:
            raise IndexError(
                f"index {k} is out of bounds for dimension 0 with size {structure.count}"
            )
        return part_of(input, k % structure.count)

    def cut(size: Shape, steps: Shape, start: int) -> tuple[Shape, Shape, int]:
        n = size[at - 1]
        if not -n <= k < n:
            raise IndexError(f"index {k} is out of bounds for dimension {at} with size {n}")
        rest = lambda sizes_: (*sizes_[: at - 1], *sizes_[at:])
        return rest(size), rest(steps), start + (k % n) * steps[at - 1]

    return _viewed(input, cut)


@strided("narrow")
def narrow(plain: Plain, input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """Some of the components."""
    if wrap_dim(dim, input.ndim) != 0:
        raise RuntimeError("narrow(): only dim=0 supported for nested tensors, but got: "
                           f"{wrap_dim(dim, input.ndim)}")  # fmt: skip
    structure = require_contiguous(input, "narrow(): only contiguous nested tensors supported")
    first, end = int(start), int(start) + length
    if length < 0 or not 0 <= first <= end <= structure.count:
        raise RuntimeError(
            f"start ({first}) + length ({length}) exceeds dimension size ({structure.count})."
        )
    some = slice(first, end)
    view = Ragged(structure.sizes[some], structure.steps[some], structure.starts[some])
    return nested_view(values_of(input), view)


def _require_last(name: str, x: Tensor, dim: int, words: str) -> Ragged:
    if wrap_dim(dim, x.ndim) != x.ndim - 1:
        raise RuntimeError(
            f"{words} for nested tensors is currently only supported for the last dimension."
        )
    return require_contiguous(x, f"{name} expects `self` to be contiguous.")


def _parted(x: Tensor, lengths: Sequence[int]) -> tuple[Tensor, ...]:
    out, begin = [], 0
    for n in lengths:
        cut = lambda size, steps, start, n=n, begin=begin: (
            (*size[:-1], n), steps, start + begin * steps[-1],
        )  # fmt: skip
        out.append(_viewed(x, cut))
        begin += n
    return tuple(out)


@strided("chunk")
def chunk(plain: Plain, input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of the last dim."""
    structure = _require_last("chunk", input, dim, "Chunk")
    last = {size[-1] for size in structure.sizes}
    if len(last) != 1 or next(iter(last)) % chunks:
        raise RuntimeError(
            "Chunk for nested tensors is only supported for nested tensors with trailing dimension "
            f"divisible by chunks. Got: {sorted(last)[0] if last else 0} % {chunks} != 0"
        )
    return _parted(input, [last.pop() // chunks] * chunks)


@strided("split_with_sizes", "split")
def split_with_sizes(plain: Plain, input: Tensor, split_sizes: Any, dim: int = 0) -> Any:
    """Parts of given sizes of the last dim."""
    structure = _require_last("split_with_sizes", input, dim, "split_with_sizes")
    last = {size[-1] for size in structure.sizes}
    total = last.pop() if len(last) == 1 else -1
    if hasattr(split_sizes, "__index__"):
        part = int(split_sizes)
        split_sizes = [min(part, total - k) for k in range(0, total, part)]
    if sum(split_sizes) != total:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {total} (input tensor's size "
            f"at dimension {wrap_dim(dim, input.ndim)}), but got split_sizes={list(split_sizes)}"
        )
    return _parted(input, split_sizes)


@strided("__getitem__")
def get_item(plain: Plain, self: Tensor, key: Any) -> Any:
    """A component, and what an index picks of it."""
    if key is Ellipsis:
        return self
    keys = key if isinstance(key, tuple) else (key,)
    first = keys[0] if keys else slice(None)
    if not hasattr(first, "__index__") or isinstance(first, bool):
        raise cannot_run("slice.Tensor", self)
    part = self.select(0, int(first))
    return part[keys[1:]] if len(keys) > 1 else part


@strided("cat", "concat", "concatenate")
def cat(plain: Plain, tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Batches one after the other, or components joined along one of their dims."""
    for t in tensors:
        if not is_nested(t):
            raise RuntimeError("cat(): expected each tensor in given list to be nested")
        if not structure_of(t).is_contiguous():
            raise RuntimeError("cat(): only contiguous nested tensors are supported")
    first = tensors[0]
    at = wrap_dim(dim, first.ndim)
    if at == 0:
        return of_parts([part for t in tensors for part in parts_of(t)])
    rest = lambda t: [(size[: at - 1], size[at:]) for size in structure_of(t).sizes]
    for t in tensors:
        differing = [k for k, n in enumerate(t._array.shape) if type(n) is not int]
        if differing and differing != [1]:
            raise RuntimeError(
                "cat(): only nested tensors with a single ragged dim next to the batch dim are "
                "supported"
            )
        if t.ndim != first.ndim or rest(t) != rest(first):
            raise RuntimeError(
                "cat(): expected all nested tensors to have matching ragged structures outside of "
                "the concatenated dim"
            )
    return of_parts(
        [published.public.cat(column, at - 1) for column in zip(*map(parts_of, tensors))]
    )


# ---- memory --------------------------------------------------------------------------------------


@strided("clone")
def clone(plain: Plain, input: Tensor, *, memory_format: Any = preserve_format) -> Tensor:
    """A copy: of the whole buffer, or of the components alone where these are to lie dense."""
    if memory_format not in (None, preserve_format, contiguous_format):
        name = "".join(word.title() for word in memory_format.name.split("_"))
        raise RuntimeError(
            f"Nested tensor clone supports Preserve and Contiguous memory formats, called clone "
            f"with memory format: {name}"
        )
    structure: Ragged = structure_of(input)
    if structure.is_contiguous() or memory_format is not contiguous_format:
        return made(values_of(input).clone(), structure)
    return of_parts(parts_of(input))


@strided("div", "divide", "true_divide")
def div(plain: Plain, input: Any, other: Any, **options: Any) -> Tensor:
    """Components divided by others, which lie alike."""
    if is_nested(input) and is_nested(other):
        a, b = structure_of(input), structure_of(other)
        if a.sizes == b.sizes and a.steps != b.steps:
            raise RuntimeError("div requires strides to match when given NestedTensors")
        if a.sizes == b.sizes and a.starts != b.starts:
            raise RuntimeError("div requires offsets to match when given NestedTensors")
    return plain.__wrapped__(input, other, **options)
