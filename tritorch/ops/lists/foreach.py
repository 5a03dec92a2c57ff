"""torch._foreach_*: an operator on lists of tensors.

Each is an operator's function on one tensor after the other; on a GPU, for dense floats that want
no gradient, its record's scalar function in one launch for each dtype (gpu/lists/foreach.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.autograd.graph import check_inplace
from tritorch.core.arguments import Number
from tritorch.core.published import PUBLIC
from tritorch.core.tensor import Tensor
from tritorch.ops.linalg.matmul import mm
from tritorch.ops.pointwise import arithmetic, pointwise
from tritorch.ops.pointwise.arithmetic import lerp, mul
from tritorch.ops.record.backends import backend
from tritorch.ops.record.operator import OPERATORS
from tritorch.ops.record.publishing import in_place_of
from tritorch.ops.reduce import reduction
from tritorch.ops.reduce.reduction import vector_norm

List = Sequence[Tensor]
Row = tuple[Any, ...]
_NUMBERS = (int, float)


# ---- arguments -----------------------------------------------------------------------------------


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _refuse(name: str, *arguments: Any) -> TypeError:
    got = ", ".join(type(x).__name__ for x in arguments)
    return TypeError(
        f"{name}() received an invalid combination of arguments - got ({got}), but expected lists "
        f"of tensors, and lists, numbers or tensors"
    )


def _tensors(name: str, value: Any, *others: Any) -> list[Tensor]:
    """A list of tensors, at least one."""
    if not _is_list(value):
        raise _refuse(name, value, *others)
    for i, item in enumerate(value):
        if not isinstance(item, Tensor):
            raise TypeError(
                f"expected Tensor as element {i} in argument 0, but got {type(item).__name__}"
            )
    if not value:
        raise RuntimeError("Tensor list must have at least one tensor.")
    return list(value)


def _same_length(tensors: List, other: Sequence[Any]) -> None:
    if len(tensors) == len(other):
        return
    if other and isinstance(other[0], Tensor):
        raise RuntimeError(
            f"Tensor lists must have the same number of tensors, got {len(tensors)} and "
            f"{len(other)}"
        )
    raise RuntimeError("Tensor list must have same number of elements as scalar list.")


def _other(name: str, tensors: List, other: Any, one_tensor: bool = False) -> list[Any]:
    """For each tensor its operand: of a list its own, else the one for all."""
    if _is_list(other):
        _same_length(tensors, other)
        return list(other)
    if isinstance(other, Tensor) and one_tensor:
        if other.ndim:
            raise RuntimeError(
                f"scalar tensor expected to be 0 dim but it has {other.ndim} dimensions and "
                f"{other.numel()} elements."
            )
    elif isinstance(other, Tensor) and not (other.ndim or other.requires_grad):
        other = other.item()
    elif not isinstance(other, (int, float, complex)):
        raise _refuse(name, tensors, other)
    return [other] * len(tensors)


def _packed(tensors: List, value: Any) -> list[Any]:
    """The numbers of addcmul and addcdiv: one, one for each, or as many in a tensor."""
    if isinstance(value, Tensor):
        if value.ndim != 1:
            raise RuntimeError(
                f"Expected packed scalar Tensor to be of dimension 1. Got {value.ndim} instead."
            )
        if value.shape[0] != len(tensors):
            raise RuntimeError(
                f"Expected length of scalars to match input of length {len(tensors)} but got "
                f"{value.shape[0]} instead."
            )
        value = value.tolist()
    if _is_list(value):
        _same_length(tensors, value)
        return list(value)
    return [value] * len(tensors)


# ---- one launch ----------------------------------------------------------------------------------


def _array(value: Any) -> Any:
    """A dense array of floats on a GPU that no gradient is recorded for; else None."""
    array = getattr(value, "_a", None)
    if type(array) is not _C.Array or not array.dtype.is_floating_point:
        return None
    if (value._requires_grad and _C.is_grad_enabled()) or not array.is_contiguous():
        return None
    return array


def _launchable(row: Row) -> tuple[Any, ...] | None:
    """A row as arrays and numbers if a launch may take it."""
    first = next((_array(x) for x in row if isinstance(x, Tensor)), None)
    if first is None:
        return None
    out: list[Any] = []
    for value in row:
        if isinstance(value, Tensor):
            array = _array(value)
            number = getattr(value, "_a", None)
            if type(number) is np.ndarray and not number.ndim and not value._requires_grad:
                out.append(number.item())  # it may meet a GPU's tensors
                continue
            if array is None or array.shape != first.shape or array.dtype is not first.dtype:
                return None
            if array.device_index != first.device_index:
                return None
            out.append(array)
        else:
            out.append(value)
    numbers = [x for x in out if type(x) is not _C.Array]
    return tuple(out) if len(numbers) < 2 and all(type(x) in _NUMBERS for x in numbers) else None


def _run(record: str, one: Callable[..., Tensor], rows: list[Row], inplace: bool) -> list[Tensor]:
    """one(*row) for each row; together those that a launch of the record may take."""
    op: Any = OPERATORS[record]
    results: list[Any] = [None] * len(rows)
    together: dict[Any, list[int]] = defaultdict(list)
    arrays: dict[int, tuple[Any, ...]] = {}
    for i, row in enumerate(rows):
        found = _launchable(row)
        if found is None:
            continue
        array = next(x for x in found if type(x) is _C.Array)
        if array.dtype in op.plans and (not inplace or op.plans[array.dtype][1] is array.dtype):
            arrays[i] = found
            together[array.device_index, array.dtype].append(i)
    for (index, kind), places in together.items():
        compute, result = op.plans[kind]
        outs = []
        for i in places:
            first = next(x for x in arrays[i] if type(x) is _C.Array)
            if inplace:
                check_inplace(rows[i][0])
            outs.append(first if inplace else _C.empty(first.shape, result, index))
        if inplace and _overlap([arrays[i] for i in places]):
            continue
        backend("gpu", "foreach").apply(op.gpu_name, [arrays[i] for i in places], outs, compute)
        for i, out in zip(places, outs):
            if inplace:
                _C.bump_version(rows[i][0])
                results[i] = rows[i][0]
            else:
                results[i] = _C.wrap(out)
    return [one(*row) if found is None else found for found, row in zip(results, rows)]


def _overlap(rows: list[Row]) -> bool:
    """Whether a row's target is read or written in another row."""
    targets: dict[int, int] = {}
    for i, row in enumerate(rows):
        if targets.setdefault(row[0].data_ptr(), i) != i:
            return True
    return any(
        targets.get(x.data_ptr(), i) != i
        for i, row in enumerate(rows)
        for x in row
        if type(x) is _C.Array
    )


def _publish(name: str, function: Callable[..., Any], doc: str) -> None:
    function.__name__ = function.__qualname__ = f"_foreach_{name}"
    function.__doc__ = doc
    PUBLIC[function.__name__] = function


# ---- of one list ---------------------------------------------------------------------------------


def _unary(name: str) -> None:
    plain, change = PUBLIC[name], getattr(Tensor, f"{name}_")

    def function(self: List) -> tuple[Tensor, ...]:
        rows = [(x,) for x in _tensors(f"_foreach_{name}", self)]
        return tuple(_run(name, plain, rows, False))

    def function_(self: List) -> List:
        _run(name, change, [(x,) for x in _tensors(f"_foreach_{name}_", self)], True)
        return self

    _publish(name, function, f"{name} of each tensor.")
    _publish(f"{name}_", function_, f"{name} of each tensor, in place.")


# ---- of two --------------------------------------------------------------------------------------


def _binary(name: str, record: str = "", alpha: bool = False, one_tensor: bool = False) -> None:
    """record: another operator where the other operand is a number."""
    pairs: dict[bool, Any] = {False: (PUBLIC[name], getattr(Tensor, f"{name}_", None))}
    pairs[True] = (PUBLIC[record or name], getattr(Tensor, f"{record or name}_"))
    if pairs[False][1] is None:
        pairs[False] = (pairs[False][0], in_place_of(pairs[False][0], f"{name}_"))

    def run(where: str, tensors: Any, other: Any, factor: Any, inplace: bool) -> list[Tensor]:
        tensors = _tensors(where, tensors, other)
        others = _other(where, tensors, other, one_tensor)
        number = not isinstance(others[0], Tensor)
        if factor != 1 and all(_array(y) is not None for y in others):
            others = _run("mul", mul, [(y, factor) for y in others], False)
        elif factor != 1:
            one = lambda x, y: pairs[number][inplace](x, y, alpha=factor)
            return [one(x, y) for x, y in zip(tensors, others)]
        return _run(record if number and record else name, pairs[number][inplace],
                    list(zip(tensors, others)), inplace)  # fmt: skip

    if alpha:

        def function(self: List, other: Any, *, alpha: Any = 1) -> tuple[Tensor, ...]:
            return tuple(run(f"_foreach_{name}", self, other, alpha, False))

        def function_(self: List, other: Any, *, alpha: Any = 1) -> List:
            run(f"_foreach_{name}_", self, other, alpha, True)
            return self

    else:

        def function(self: List, other: Any) -> tuple[Tensor, ...]:  # type: ignore[misc]
            return tuple(run(f"_foreach_{name}", self, other, 1, False))

        def function_(self: List, other: Any) -> List:  # type: ignore[misc]
            run(f"_foreach_{name}_", self, other, 1, True)
            return self

    _publish(name, function, f"{name} of each tensor and its operand.")
    _publish(f"{name}_", function_, f"{name} of each tensor and its operand, in place.")


def _foreach_pow(self: Any, exponent: Any) -> tuple[Tensor, ...]:
    if isinstance(self, (int, float, complex)):
        rows = [(self, x) for x in _tensors("_foreach_pow", exponent)]
    else:
        tensors = _tensors("_foreach_pow", self, exponent)
        rows = list(zip(tensors, _other("_foreach_pow", tensors, exponent)))  # type: ignore[arg-type]
    return tuple(_run("pow", arithmetic.pow, rows, False))


def _foreach_pow_(self: List, exponent: Any) -> List:
    tensors = _tensors("_foreach_pow_", self, exponent)
    rows: list[Row] = list(zip(tensors, _other("_foreach_pow_", tensors, exponent)))
    _run("pow", Tensor.pow_, rows, True)
    return self


# ---- of three ------------------------------------------------------------------------------------


def _fused(name: str) -> None:
    plain, change = PUBLIC[name], getattr(Tensor, f"{name}_")

    def run(where: str, lists: Sequence[Any], numbers: Any, inplace: bool) -> list[Tensor]:
        tensors, first, second = (_tensors(where, each) for each in lists)
        for each in (first, second):
            _same_length(tensors, each)
        one = change if inplace else plain
        rows = list(zip(tensors, first, second, _packed(tensors, numbers)))
        return _run(name, lambda x, a, b, value: one(x, a, b, value=value), rows, inplace)

    def function(
        self: List, tensor1: List, tensor2: List, value: Any = 1, *, scalars: Any = None
    ) -> tuple[Tensor, ...]:
        numbers = value if scalars is None else scalars
        return tuple(run(f"_foreach_{name}", (self, tensor1, tensor2), numbers, False))

    def function_(
        self: List, tensor1: List, tensor2: List, value: Any = 1, *, scalars: Any = None
    ) -> List:
        numbers = value if scalars is None else scalars
        run(f"_foreach_{name}_", (self, tensor1, tensor2), numbers, True)
        return self

    _publish(name, function, f"{name} of each three tensors.")
    _publish(f"{name}_", function_, f"{name} of each three tensors, in place.")


def _lerps(where: str, self: Any, tensors1: Any, weight: Any) -> list[Row]:
    tensors, ends = _tensors(where, self), _tensors(where, tensors1)
    _same_length(tensors, ends)
    return list(zip(tensors, ends, _other(where, tensors, weight)))


def _foreach_lerp(self: List, tensors1: List, weight: Number) -> tuple[Tensor, ...]:
    rows = _lerps("_foreach_lerp", self, tensors1, weight)
    return tuple(_run("lerp", lerp, rows, False))


def _foreach_lerp_(self: List, tensors1: List, weight: Number) -> List:
    rows = _lerps("_foreach_lerp_", self, tensors1, weight)
    _run("lerp", Tensor.lerp_, rows, True)
    return self


# ---- others --------------------------------------------------------------------------------------


def _foreach_norm(self: List, ord: float = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    return tuple(vector_norm(x, ord, dtype=dtype) for x in _tensors("_foreach_norm", self))


def _foreach_powsum(self: List, ord: float = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    tensors = _tensors("_foreach_powsum", self)
    return tuple(
        reduction.sum(pointwise.abs(x if dtype is None else x.to(dtype)).pow(ord)) for x in tensors
    )


def _foreach_max(self: List) -> tuple[Tensor, ...]:
    tensors = _tensors("_foreach_max", self)
    if not all(x.numel() for x in tensors):
        raise RuntimeError(
            "_foreach_max cannot compute the maximum of an empty tensor; max over zero elements is "
            "undefined."
        )
    return tuple(x.max() for x in tensors)


def _foreach_mm(self: List, mat2: List) -> tuple[Tensor, ...]:
    tensors, others = _tensors("_foreach_mm", self), _tensors("_foreach_mm", mat2)
    _same_length(tensors, others)
    return tuple(mm(x, y) for x, y in zip(tensors, others))


def _foreach_clone(self: List, *, memory_format: Any = None) -> tuple[Tensor, ...]:
    options = {} if memory_format is None else {"memory_format": memory_format}
    return tuple(x.clone(**options) for x in _tensors("_foreach_clone", self))


def _foreach_copy_(self: List, src: List, non_blocking: bool = False) -> List:
    tensors, sources = _tensors("_foreach_copy_", self), _tensors("_foreach_copy_", src)
    _same_length(tensors, sources)
    for x, y in zip(tensors, sources):
        x.copy_(y, non_blocking)
    return self


def _foreach_zero_(self: List) -> List:
    for x in _tensors("_foreach_zero_", self):
        x.zero_()
    return self


_UNARY = """
    abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg
    reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc
    """


def publish() -> None:
    """Declares all of them; called when the operators are declared."""
    for name in _UNARY.split():
        _unary(name)
    _binary("add", alpha=True, one_tensor=True)
    _binary("sub", alpha=True)
    _binary("mul", one_tensor=True)
    _binary("div", one_tensor=True)
    _binary("clamp_min")
    _binary("clamp_max")
    _binary("maximum", "clamp_min")
    _binary("minimum", "clamp_max")
    _publish("pow", _foreach_pow, "Each tensor to the power of its exponent.")
    _publish("pow_", _foreach_pow_, "Each tensor to the power of its exponent, in place.")
    _fused("addcmul")
    _fused("addcdiv")
    _publish("lerp", _foreach_lerp, "Each tensor, moved towards another by a weight.")
    _publish("lerp_", _foreach_lerp_, "Each tensor, moved towards another by a weight, in place.")
    _publish("norm", _foreach_norm, "The vector norm of each tensor.")
    _publish("powsum", _foreach_powsum, "The sum of each tensor's magnitudes to a power.")
    _publish("max", _foreach_max, "The maximum of each tensor.")
    _publish("mm", _foreach_mm, "The product of each two matrices.")
    _publish("clone", _foreach_clone, "A copy of each tensor.")
    _publish("copy_", _foreach_copy_, "Copies each tensor's source into it.")
    _publish("zero_", _foreach_zero_, "Sets each tensor to 0.")
