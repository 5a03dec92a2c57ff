"""How values become nested tensors and back: the two operators that gradients flow through."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from tritorch import _C
from tritorch.arrays.nested import Jagged, NestedArray, Ragged, Shape
from tritorch.core import published
from tritorch.core.tensor import Tensor
from tritorch.ops.record.groups import Gradient
from tritorch.ops.record.operator import Operator

RULES: dict[str, Callable[..., Any]] = {}  # by the dense record's name


def rule(*names: str) -> Callable[[Any], Any]:
    """Registers what dense records do with nested operands, where it does not follow from their
    kind or axes: rule(op, *tensors, *params)."""

    def register(function: Any) -> Any:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def is_nested(x: Any) -> bool:
    """Whether a value is a nested tensor."""
    return isinstance(x, Tensor) and type(x._array) is NestedArray


def is_jagged(x: Any) -> bool:
    """Whether a value is a nested tensor of the jagged layout."""
    return is_nested(x) and type(x._array.structure) is Jagged


def structure_of(x: Tensor) -> Any:
    """Where the components of a nested tensor are."""
    return x._array.structure


def cannot_run(name: str, x: Tensor) -> NotImplementedError:
    """PyTorch's complaint about an operator that nested tensors lack."""
    return NotImplementedError(
        f"Could not run 'aten::{name}' with arguments from the "
        f"'NestedTensor{x.device.type.upper()}' backend."
    )


# ---- the two operators ---------------------------------------------------------------------------


class NestedOperator(Operator):
    """A view from values to a nested tensor, or back."""

    def __init__(self, name: str, inputs: str, params: str, **options: Any) -> None:
        self._function = options.pop("cpu")
        super().__init__(
            name, inputs, params, cpu=self._function, kind="nested", view=True, **options
        )

    def call(self, tensors: Sequence[Any], params: tuple[Any, ...] = ()) -> Any:
        """The view, recorded as one."""
        (x,) = tensors
        if x._tangent is not None:
            return self._careful(tensors, params)
        out = self.finish_view(self._made(x, params), params, x)
        if x._base is None and x._created is not None:
            out._created = x._created
        return out

    def fresh(self, x: Any, params: tuple[Any, ...]) -> Any:
        """The same of what nobody else has: no view."""
        if x._tangent is not None:
            return self._careful((x,), params)
        return self.finish_with(self._made(x, params), params, x)

    def _made(self, x: Any, params: tuple[Any, ...]) -> Any:
        array = x._array
        return self._function(array if type(array) is NestedArray else _C.alias(x), *params)

    def renamed(self, title: str) -> NestedOperator:
        """The same, whose node has another name."""
        name = f"{self.name}_{title.rpartition('::')[2]}"
        return NestedOperator(
            name, " ".join(self.inputs), " ".join(self.params),
            schema=self.declared_schema, cpu=self._function,
            grad=self.gradient._replace(node=title),
        )  # fmt: skip


# The structure is a parameter of its own: a gradient is laid out by what it was.
_values = NestedOperator(
    "nested_values", "x", "structure",
    schema="(Tensor x, Any structure) -> Tensor", cpu=lambda a, structure: a.values._array,
    grad=Gradient(lambda g, structure: made(g, structure), node="NestedGetValues"),
)  # fmt: skip
_nested = NestedOperator(
    "nested_of_values", "values", "structure",
    schema="(Tensor values, Any structure) -> Tensor",
    cpu=lambda values, structure: NestedArray(values, structure),
    grad=Gradient(
        lambda g, values_shape, structure: laid(g, structure, values_shape),
        node="NestedViewFromJagged",
    ),
)  # fmt: skip


def values_of(x: Tensor) -> Tensor:
    """The values of a nested tensor, of which they are a view."""
    return _values.call((x,), (structure_of(x),))


def nested_view(values: Tensor, structure: Jagged | Ragged) -> Tensor:
    """A nested tensor on the memory of values, of which it is a view."""
    return _nested.call((values,), (structure,))


@functools.cache
def _named(title: str) -> NestedOperator:
    return _nested.renamed(title)


def made(values: Tensor, structure: Jagged | Ragged, title: str = "") -> Tensor:
    """A nested tensor of values that nobody else has; title: its node's name."""
    return (_named(title) if title else _nested).fresh(values, (structure,))


def title_of(op: Any) -> str:
    """The name of a record's node, as `made` wants it."""
    return op.backward_name.replace("Backward0", "").replace("Backward", "")


# ---- components ----------------------------------------------------------------------------------


def lengths_of(structure: Jagged) -> list[int]:
    """How long the components are in the ragged dim, as numbers: asked for once, and again when
    somebody has written into what says it."""
    version = structure.source._shared.version
    if structure.counted.get("version") != version:
        if structure.lengths is not None:
            found = structure.lengths.tolist()
        else:
            found = [b - a for a, b in itertools.pairwise(structure.offsets.tolist())]
        structure.counted.update(version=version, lengths=found)
    return structure.counted["lengths"]


def sizes_of(x: Tensor) -> tuple[Shape, ...]:
    """The components' sizes."""
    structure = structure_of(x)
    if type(structure) is Ragged:
        return structure.sizes
    k, shape = structure.ragged - 1, x._array.values.shape
    return tuple((*shape[:k], n, *shape[k + 1 :]) for n in lengths_of(structure))


def parts_of(x: Tensor) -> list[Tensor]:
    """The components, as views."""
    structure = structure_of(x)
    values = values_of(x)
    if type(structure) is Jagged:
        k = structure.ragged - 1
        if k < 0:
            raise RuntimeError("unbind(): nested tensor ragged_idx out of bounds (should be >= 1)")
        lengths = lengths_of(structure)
        starts = [int(n) for n in structure.offsets.tolist()][: len(lengths)]
        _require_inside(starts, lengths, values.shape[k])
        if structure.lengths is None and starts[:1] == [0] and sum(lengths) == values.shape[k]:
            return list(values.split(lengths, k))
        return [values.narrow(k, start, n) for start, n in zip(starts, lengths)]
    if structure.is_contiguous() and structure.count:
        numels = [math.prod(size) for size in structure.sizes]
        if sum(numels) == values.shape[0]:
            flat = values.split(numels)
            return [part.view(size) for part, size in zip(flat, structure.sizes)]
    offset = values.storage_offset()
    return [
        values.as_strided(size, steps, offset + start)
        for size, steps, start in zip(structure.sizes, structure.steps, structure.starts)
    ]


def part_of(x: Tensor, k: int) -> Tensor:
    """One component, as a view that may be written."""
    structure = structure_of(x)
    values = values_of(x)
    if type(structure) is Jagged:
        at, n = structure.ragged - 1, lengths_of(structure)[k]
        start = int(structure.offsets[k])
        _require_inside([start], [n], values.shape[at])
        return values.narrow(at, start, n)
    size, start = structure.sizes[k], structure.starts[k]
    if structure.is_contiguous():
        return values.narrow(0, start, math.prod(size)).view(size)
    return values.as_strided(size, structure.steps[k], values.storage_offset() + start)


def _require_inside(starts: list[int], lengths: list[int], total: int) -> None:
    if any(start + n > total for start, n in zip(starts, lengths)):
        raise RuntimeError(
            "unbind(): nested tensor offsets and lengths do not match ragged_idx dimension"
        )


def of_parts(parts: Sequence[Tensor], title: str = "") -> Tensor:
    """A strided nested tensor of components, which are copied."""
    structure = Ragged([tuple(part.shape) for part in parts])
    if len(parts) == 1:
        return made(parts[0].reshape(-1).clone(), structure, title)
    return made(published.public.cat([part.reshape(-1) for part in parts]), structure, title)


def like_parts(parts: Sequence[Tensor], structure: Jagged | Ragged, title: str = "") -> Tensor:
    """A nested tensor of components, as long as those of a structure where that is jagged."""
    if isinstance(structure, Ragged):
        return of_parts(parts, title)
    if structure.lengths is None:
        return made(published.public.cat(parts, structure.ragged - 1), structure, title)
    zero = structure.offsets.new_zeros(1)
    dense = Jagged(
        published.public.cat([zero, structure.lengths.cumsum(0)]), None, structure.ragged
    )
    return made(published.public.cat(parts, structure.ragged - 1), dense, title)


def places_of(structure: Ragged, like: Tensor) -> Tensor:
    """Where in the buffer each element of the components is, in their order."""
    total = max(
        (
            start + sum((n - 1) * s for n, s in zip(size, steps)) + 1
            for size, steps, start in zip(structure.sizes, structure.steps, structure.starts)
            if math.prod(size)
        ),
        default=0,
    )
    numbers = published.public.arange(total, device=like.device)
    found = [
        numbers.as_strided(size, steps, start).reshape(-1)
        for size, steps, start in zip(structure.sizes, structure.steps, structure.starts)
        if math.prod(size)
    ]
    return published.public.cat(found) if found else numbers


def laid(x: Tensor, structure: Jagged | Ragged, shape: Shape | None = None) -> Tensor:
    """The values of a nested tensor, where another structure has them.

    shape: that of the structure's values."""
    own = structure_of(x)
    if own.same(structure):
        return values_of(x)
    if isinstance(structure, Jagged):
        if type(own) is Jagged and own.lengths is None is structure.lengths:
            if own.ragged == structure.ragged:
                return values_of(x)
        return published.public.cat(parts_of(x), structure.ragged - 1)
    flat = published.public.cat([part.reshape(-1) for part in parts_of(x)])
    if structure.is_contiguous() and (shape is None or shape[0] == flat.shape[0]):
        return flat
    n = flat.shape[0] if shape is None else shape[0]
    return flat.new_zeros(n).index_put((places_of(structure, flat),), flat, accumulate=True)
