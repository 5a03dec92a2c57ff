"""What a nested tensor holds: the elements of tensors of different sizes, in one buffer.

# Note [Nested tensors]
A nested tensor is a batch of tensors, its components, whose sizes differ.  It is a `Tensor` whose
array is a `NestedArray`: `values`, a dense tensor without history, and a structure that says where
the components are in it.

    Jagged(offsets, lengths, ragged)   layout=torch.jagged: sizes differ in one dim, along which
                                       components lie one after the other in `values`
    Ragged(sizes, strides, starts)     layout=torch.strided: any sizes; `values` is flat

As with sparse tensors, fast paths see a type that is no dense array's and hand over to
`ops/record/door.py`: dense tensors pay nothing for nested ones.  Gradients flow through the two
operators that take values out of a nested tensor and put them into one
(`ops/interpret/nested/record.py`); all else is composed of these and of dense operators on values.

# Note [Nested ints]
The size of a dim in which components differ is a `NestedInt`: no number, but equal to itself.
Jagged tensors with the same offsets (the same tensor, not an equal one) have the same, and so have
strided ones whose components have the same sizes in a dim.
"""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Sequence
from typing import Any, NoReturn

from tritorch import _C
from tritorch.arrays.strides import contiguous_strides
from tritorch.arrays.symbolic import SymInt
from tritorch.core import layout as layouts

Shape = tuple[int, ...]


class NestedInt(SymInt):
    """The size of a dim in which the components of a nested tensor differ, times a number."""

    __slots__ = ("__weakref__", "coefficient", "number")
    __module__ = "tritorch"

    def __init__(self, number: int, coefficient: int = 1) -> None:
        self.number, self.coefficient = number, coefficient

    def __str__(self) -> str:
        return f"{'' if self.coefficient == 1 else f'{self.coefficient}*'}j{self.number}"

    __repr__ = __str__

    def __hash__(self) -> int:
        return hash((self.number, self.coefficient))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a nested int belongs to its offsets: it can't be pickled")

    @property
    def node(self) -> Any:
        """Which nested int it is."""
        return NestedIntNode(self.number, self.coefficient)

    def __deepcopy__(self, memo: Any) -> NestedInt:
        return self

    def _refuse(self, *others: Any) -> NoReturn:
        raise RuntimeError(
            f"Trying to extract a concrete int out of a symbolic int: {self} is a nested int, the "
            f"size of a dim in which the components of a nested tensor differ"
        )

    __int__ = __index__ = __float__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __neg__ = __pow__ = _refuse
    __truediv__ = __rtruediv__ = __mod__ = __rmod__ = _refuse

    def __bool__(self) -> bool:
        return True

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, NestedInt) or not hasattr(other, "__index__"):
            raise ValueError(f"unsupported: {type(other)}")
        return NestedInt(self.number, self.coefficient * int(other))

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        if isinstance(other, NestedInt) and other.number == self.number:
            if self.coefficient % other.coefficient == 0:
                return self.coefficient // other.coefficient
        elif type(other) is int and other and self.coefficient % other == 0:
            return NestedInt(self.number, self.coefficient // other)
        return self._refuse()

    def __eq__(self, other: object) -> Any:
        return (
            isinstance(other, NestedInt)
            and other.number == self.number
            and other.coefficient == self.coefficient
        )

    def __ne__(self, other: object) -> Any:
        return not self == other

    def _at_least(self, other: Any) -> bool:
        if isinstance(other, NestedInt):
            if other.number == self.number:
                return self.coefficient >= other.coefficient
        elif other <= 2:
            return True
        raise ValueError("ge: relation is indeterminate")

    def _at_most(self, other: Any) -> bool:
        if isinstance(other, NestedInt):
            return other._at_least(self)
        if other < 2:
            return False
        raise ValueError("ge: relation is indeterminate")

    def __ge__(self, other: Any) -> Any:
        return self._at_least(other)

    def __lt__(self, other: Any) -> Any:
        return not self._at_least(other)

    def __le__(self, other: Any) -> Any:
        return self._at_most(other)

    def __gt__(self, other: Any) -> Any:
        return not self._at_most(other)


class NestedIntNode:
    """What programs ask of a nested int behind `SymInt.node`."""

    def __init__(self, t_id: int, coeff: int) -> None:
        self.t_id, self.coeff = t_id, coeff

    def is_nested_int(self) -> bool:
        """True: it is none of a tracer's."""
        return True

    def nested_int(self) -> int:
        """Which offsets it belongs to."""
        return self.t_id

    def nested_int_coeff(self) -> int:
        """What it is multiplied by."""
        return self.coeff

    def is_symbolic(self) -> bool:
        """False: no tracer has it open."""
        return False

    def is_constant(self) -> bool:
        """False: it is no number."""
        return False

    def maybe_as_int(self) -> None:
        """None: it is no number."""

    def __str__(self) -> str:
        return str(NestedInt(self.t_id, self.coeff))

    __repr__ = __str__


_numbers = itertools.count()
_OF_OFFSETS: dict[int, tuple[Any, NestedInt]] = {}  # by the tensor's id
_OF_SIZES: weakref.WeakValueDictionary[Shape, NestedInt] = weakref.WeakValueDictionary()


def nested_int_of(offsets: Any) -> NestedInt:
    """The nested int of offsets (or lengths): always the same of the same tensor."""
    found = _OF_OFFSETS.get(id(offsets))
    if found is not None:
        return found[1]
    made = NestedInt(next(_numbers))
    share_nested_int(offsets, made)
    return made


def share_nested_int(offsets: Any, number: NestedInt) -> None:
    """Gives offsets a nested int that others have: those of the same components elsewhere."""
    key = id(offsets)
    forget = lambda reference: _OF_OFFSETS.pop(key, None)
    _OF_OFFSETS[key] = weakref.ref(offsets, forget), number


def nested_int_of_sizes(sizes: Shape) -> NestedInt:
    """The nested int of the components' sizes in one dim, where they are known as numbers."""
    found = _OF_SIZES.get(sizes)
    if found is None:
        found = _OF_SIZES[sizes] = NestedInt(next(_numbers))
    return found


class Jagged:
    """Components that differ in one dim, `ragged`, and lie one after the other along it.

    offsets: where each starts, and where the last one ends.  lengths: how long they are, where
    there are holes between them.  cache: the extreme lengths, once a program asked for them, as the
    sizes of tensors (as PyTorch keeps them: padded results are as long, so nobody else may put them
    there).  counted: the lengths as numbers, once they were needed."""

    __slots__ = ("cache", "counted", "lengths", "offsets", "ragged")
    layout = layouts.jagged

    def __init__(
        self, offsets: Any, lengths: Any = None, ragged: int = 1, cache: Any = None,
        counted: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.offsets, self.lengths, self.ragged = offsets, lengths, ragged
        self.cache: dict[str, Any] = {} if cache is None else cache
        self.counted: dict[str, Any] = {} if counted is None else counted

    @property
    def source(self) -> Any:
        """What says how long components are."""
        return self.offsets if self.lengths is None else self.lengths

    @property
    def count(self) -> int:
        """How many components there are."""
        return self.offsets.shape[0] - 1

    def shape(self, values: Shape) -> tuple[Any, ...]:
        """The nested shape for that of values."""
        k = self.ragged - 1
        return (self.count, *values[:k], nested_int_of(self.source), *values[k + 1 :])

    def strides(self, values: Shape) -> tuple[Any, ...]:
        """The nested strides for those of values."""
        return (nested_int_of(self.source) * values[self.ragged - 1], *values)

    def numel(self, values: Any) -> int:
        """How many elements the components have."""
        if self.lengths is None:
            return values.size if hasattr(values, "flags") else values.numel()
        k = self.ragged - 1
        return int(self.lengths.sum()) * math.prod((*values.shape[:k], *values.shape[k + 1 :]))

    def is_contiguous(self, values: Any) -> bool:
        """Whether components lie dense, in their order."""
        return self.lengths is None and values.is_contiguous()

    def with_ragged(self, ragged: int) -> Jagged:
        """The same components, whose ragged dim is another one."""
        return Jagged(self.offsets, self.lengths, ragged, self.cache, self.counted)

    def same(self, other: Any) -> bool:
        """Whether values are those of the same components in the same places."""
        if self is other:
            return True
        return (
            type(other) is Jagged
            and self.ragged == other.ragged
            and nested_int_of(self.source) == nested_int_of(other.source)
        )


class Ragged:
    """Components of any sizes in a flat buffer: their sizes, strides and first elements' places.

    sent: the same as tensors, once they were sent to a process, which opens their memory later."""

    __slots__ = ("_shape", "sent", "sizes", "starts", "steps")
    layout = layouts.strided
    lengths = None

    def __init__(
        self, sizes: Sequence[Shape], steps: Sequence[Shape] | None = None,
        starts: Sequence[int] | None = None,
    ) -> None:  # fmt: skip
        self.sizes = tuple(sizes)
        dense = steps is None or starts is None
        self.steps = tuple(map(contiguous_strides, self.sizes)) if dense else tuple(steps or ())
        self.starts = self._dense_starts() if dense else tuple(starts or ())
        self._shape: tuple[Any, ...] | None = None
        self.sent: tuple[Any, ...] | None = None

    def _dense_starts(self) -> Shape:
        return (0, *itertools.accumulate(map(math.prod, self.sizes)))[: len(self.sizes)]

    @property
    def count(self) -> int:
        """How many components there are."""
        return len(self.sizes)

    def shape(self, values: Any = None) -> tuple[Any, ...]:
        """The shape, with nested ints where sizes differ."""
        if self._shape is None:
            columns = zip(*self.sizes)
            own = (c[0] if len(set(c)) == 1 else nested_int_of_sizes(c) for c in columns)
            self._shape = (len(self.sizes), *own)
        return self._shape

    def strides(self, values: Any = None) -> Shape:
        """There are none of the whole: zeros."""
        return (0,) * len(self.shape())

    def numel(self, values: Any = None) -> int:
        """How many elements the components have."""
        return sum(map(math.prod, self.sizes))

    def is_contiguous(self, values: Any = None) -> bool:
        """Whether components lie dense, in their order."""
        return self.starts == self._dense_starts() and all(
            all(s == e for n, s, e in zip(size, steps, contiguous_strides(size)) if n != 1)
            for size, steps in zip(self.sizes, self.steps)
        )

    def same(self, other: Any) -> bool:
        """Whether values are those of the same components in the same places."""
        return self is other or (
            type(other) is Ragged
            and self.sizes == other.sizes
            and self.starts == other.starts
            and self.steps == other.steps
        )


class NestedArray:
    """A nested tensor's values, and where its components are in them."""

    __slots__ = ("structure", "values")
    strided_class: type  # Tensor
    jagged_class: type  # ops/interpret/nested/tensor.py has it

    def __init__(self, values: Any, structure: Jagged | Ragged) -> None:
        self.values, self.structure = values, structure

    @property
    def tensor_class(self) -> type:
        """The class of a tensor that has this array."""
        jagged = type(self.structure) is Jagged
        return NestedArray.jagged_class if jagged else NestedArray.strided_class

    @property
    def layout(self) -> layouts.layout:
        """`jagged` or `strided`."""
        return self.structure.layout

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes, some of which are nested ints."""
        return self.structure.shape(self.values._array.shape)

    @property
    def ndim(self) -> int:
        """How many dims there are, the batch among them."""
        structure = self.structure
        if isinstance(structure, Jagged):
            return self.values.ndim + 1
        return len(structure.sizes[0]) + 1 if structure.count else 1

    @property
    def size(self) -> int:
        """How many elements there are."""
        return self.numel()

    def numel(self) -> int:
        """How many elements there are."""
        return self.structure.numel(self.values._array)

    @property
    def dtype(self) -> Any:
        """The element type."""
        return self.values._array.dtype

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.values._array.itemsize

    @property
    def device(self) -> Any:
        """Where the elements are."""
        return self.values.device

    @property
    def device_index(self) -> int:
        """Which GPU the elements are on."""
        return self.values._array.device_index

    @property
    def strides(self) -> tuple[Any, ...]:
        """The strides; of components that have strides of their own, zeros."""
        return self.structure.strides(self.values.stride())

    def is_contiguous(self) -> bool:
        """Whether components lie dense, in their order."""
        return self.structure.is_contiguous(self.values)

    def data_ptr(self) -> int:
        """The address of the values."""
        return self.values.data_ptr()

    def storage_offset(self) -> int:
        """Where the values begin in their storage."""
        return self.values.storage_offset()

    def numpy(self) -> NoReturn:
        """Refused: components differ."""
        raise RuntimeError("numpy() is not supported for nested tensors; see unbind()")

    def with_values(self, values: Any) -> NestedArray:
        """The same components with other values."""
        return NestedArray(values, self.structure)

    def copy(self) -> NestedArray:
        """The same in other memory."""
        return self.with_values(self.values.clone())


_C.register_part("classed", NestedArray)
