"""Checks of arguments that operators share, with PyTorch's exceptions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.arrays.batched import BatchedArray
from tritorch.arrays.meta import MetaArray
from tritorch.arrays.sparse import SparseArray
from tritorch.arrays.symbolic import as_size, known
from tritorch.core import defaults, layout as layouts
from tritorch.core.arguments import type_name
from tritorch.core.device import device as Device
from tritorch.core.dispatching import entered, unnoted, watching
from tritorch.core.dtype import all_dtypes, as_dtype, complex32, dtype as Dtype
from tritorch.core.info import finfo, iinfo
from tritorch.core.promotion import can_cast, category, not_implemented, number_dtype, scalar_name
from tritorch.core.tensor import Tensor

TOO_MANY = 1 << 60  # elements: their bytes cannot be counted, or at least never be had


def require_storage(shape: Sequence[int], strides: Sequence[int] | None = None) -> None:
    """Whether there can be memory for a tensor of these sizes, and strides in elements."""
    if any(known(n == 0) for n in shape):
        if strides is None and known(math.prod(n for n in shape if known(n != 0)) >= 1 << 63):
            raise RuntimeError("Stride calculation overflowed")
        return
    if strides is None:
        count, how = math.prod(shape), ""
    else:
        count = 1 + sum((n - 1) * s for n, s in zip(shape, strides))
        how = f" and strides={list(strides)}"
    if known(count >= TOO_MANY):
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(shape)}{how}")


def require_tensor(value: Any, name: str, argument: str, position: int) -> Tensor:
    """The value if it is a tensor; PyTorch's TypeError otherwise."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{name}(): argument '{argument}' (position {position}) must be Tensor, not "
            f"{type(value).__name__}"
        )
    return value


def require_scalar_type(wanted: Tensor, *found: Tensor | None) -> None:
    """All of one dtype, as PyTorch's kernels ask for their operands' memory."""
    for tensor in found:
        if tensor is not None and tensor.dtype is not wanted.dtype:
            raise RuntimeError(
                f"expected scalar type {scalar_name(wanted.dtype)} but found "
                f"{scalar_name(tensor.dtype)}"
            )


def require_castable(result: Dtype, target: Dtype) -> None:
    """Whether a result may be written into an output of another dtype."""
    if not can_cast(result, target):
        raise RuntimeError(
            f"result type {scalar_name(result)} can't be cast to the desired output type "
            f"{scalar_name(target)}"
        )


def require_distinct_elements(tensor: Tensor) -> None:
    """Refuses to write where one place in memory is several elements: expanded tensors."""
    array = tensor._array
    if 0 in array.strides and any(
        n > 1 and stride == 0 for n, stride in zip(array.shape, array.strides)
    ):
        if 0 not in array.shape and type(array) is not SparseArray:
            raise RuntimeError(OVERLAP)


OVERLAP = (
    "unsupported operation: more than one element of the written-to tensor refers to a single "
    "memory location. Please clone() the tensor before performing the operation."
)


def warn_of_overload(name: str, former: str, better: str) -> None:
    """PyTorch's warning that a form of a call, given by its parameters, is deprecated."""
    defaults.warn_once(
        f"This overload of {name} is deprecated:\n\t{name}({former}, *, Tensor out = None)\n"
        f"Consider using one of the following signatures instead:\n"
        f"\t{name}({better}, Tensor out = None)",
        stacklevel=5,
        of="a deprecated overload",
    )


def former_order(name: str, args: Sequence[Any], a: str, b: str) -> tuple[Any, ...]:
    """Three tensors, beta and alpha, of PyTorch's deprecated forms: f(beta, input, alpha, a, b),
    f(beta, input, a, b), f(input, value, a, b), and with a method's self in front.

    a, b: the names of the second and third tensor."""
    tensors = [x for x in args if isinstance(x, Tensor)]
    numbers = [x for x in args if not isinstance(x, Tensor)]
    if len(tensors) != 3 or len(numbers) > 2:
        raise TypeError(f"{name}() takes 3 positional arguments but {len(args)} were given")
    tensor_names = f"Tensor {a}, Tensor {b}"
    if name.startswith("addc"):
        former, better = f"Tensor input, Number value, {tensor_names}", "Number value = 1"
    else:
        alpha = "Number alpha, " if len(numbers) == 2 else ""
        former = f"Number beta, Tensor input, {alpha}{tensor_names}"
        better = "Number beta = 1, Number alpha = 1"
    warn_of_overload(name, former, f"Tensor input, {tensor_names}, *, {better}")
    return (*tensors, *numbers, *(1,) * (2 - len(numbers)))


_CATEGORIES = ("bool", "int", "float", "complex")
_HALF = ("float16", "bfloat16")


@functools.cache
def dtypes_of(words: str) -> frozenset[Dtype]:
    """The dtypes that are named, or of a category that is: "bool", "int", "half", "complex"."""
    named = words.split()
    return frozenset(
        kind
        for kind in all_dtypes
        if kind.name in named
        or _CATEGORIES[category(kind)] in named
        or (kind.name in _HALF and "half" in named)
    )


def require_kernel(kernel: str, x: Tensor, without: str) -> None:
    """Refuses dtypes of which PyTorch has no kernel, for what is no record here."""
    if x.dtype in dtypes_of(without):
        raise not_implemented(kernel, x.dtype)


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that all broadcast to."""
    if not shapes:
        return ()
    first = tuple(shapes[0])
    for shape in shapes[1:]:
        if len(shape) != len(first) or tuple(shape) != first:  # open sizes: the fewer questions
            break
    else:
        return first
    ndim = max(map(len, shapes))
    out = [1] * ndim
    for position, shape in enumerate(shapes):
        for i, size in zip(range(ndim - 1, -1, -1), reversed(shape)):  # the last mismatch is told
            if size == 1 or size == out[i]:
                continue
            if out[i] != 1:
                names = ("a", "b") if len(shapes) == 2 else (str(position - 1), str(position))
                raise RuntimeError(
                    f"The size of tensor {names[0]} ({out[i]}) must match the size of tensor "
                    f"{names[1]} ({size}) at non-singleton dimension {i}"
                )
            out[i] = size
    return tuple(out)


def int_list(value: Any, n: int, name: str, argument: str) -> tuple[int, ...]:
    """n ints, given as n ints or one."""
    if isinstance(value, Tensor) or hasattr(value, "__index__"):
        return (int(value),) * n
    values = tuple(int(item) for item in value)
    if len(values) == 1:
        return values * n
    if len(values) != n:
        raise RuntimeError(f"{name}: {argument} must be a single int or {n} ints, got {values}")
    return values


def require_known(name: str, named: dict[str, Any], *known: str) -> None:
    """Refuses keywords that an operator does not know."""
    for key in named:
        if key not in known:
            raise TypeError(f"{name}() got an unexpected keyword argument '{key}'")


def one_of(name: str, args: tuple[Any, ...], named: dict[str, Any], key: str) -> tuple[Any, ...]:
    """What is given as arguments, or as one by keyword."""
    if not named:
        if not args:
            raise TypeError(f'{name}() missing 1 required positional arguments: "{key}"')
        return args
    require_known(name, named, key)
    if args:
        raise TypeError(f"{name}() got multiple values for argument '{key}'")
    return (named[key],)


def warn_of_half() -> None:
    """A tensor of complex32 is made."""
    defaults.warn_once(
        "ComplexHalf support is experimental and many operators don't support it yet.",
        stacklevel=4,
    )


def require_out(name: str, out: Any, dtype: Any, layout: Any, device: Any) -> None:
    """TypeError or RuntimeError unless a factory's other options are those of `out`."""
    if not isinstance(out, Tensor):
        raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type_name(out)}")
    if dtype is not None and as_dtype(dtype) is not out.dtype:
        raise RuntimeError(
            f"dtype {scalar_name(as_dtype(dtype))} does not match dtype of out parameter "
            f"({scalar_name(out.dtype)})"
        )
    if layout is not None and layout is not out.layout:
        theirs, ours = (_LAYOUTS.get(x.name, x.name.title()) for x in (layout, out.layout))
        raise RuntimeError(f"layout {theirs} does not match layout of out parameter ({ours})")
    # An output on a GPU takes what is made on the CPU; what has no values is taken nowhere.
    if device is not None and (kind := Device(device).type) != out.device.type == "cpu":
        raise RuntimeError(
            f"device type {kind} does not match device type of out parameter ({out.device.type})"
        )


_LAYOUTS = {"sparse_coo": "Sparse", "sparse_csr": "SparseCsr", "sparse_csc": "SparseCsc",
            "sparse_bsr": "SparseBsr", "sparse_bsc": "SparseBsc"}  # fmt: skip


def require_int(name: str, argument: str, position: int, value: Any) -> None:
    """TypeError unless a factory's argument is an integer."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(
            f"{name}(): argument '{argument}' (position {position}) must be int, not "
            f"{type_name(value)}"
        )


def require_float_kind(kind: Any) -> None:
    """RuntimeError where a factory's result of this dtype shall require gradients and cannot."""
    if not (kind.is_floating_point or kind.is_complex):
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")


def require_options(
    name: str, dtype: Any, layout: Any, requires_grad: Any, pin_memory: Any, format: Any = None
) -> None:
    """The types of a factory's options."""
    if layout is None is format and requires_grad is False is pin_memory:
        if dtype is None or (type(dtype) is Dtype and dtype is not complex32):
            return
    if dtype is complex32:
        warn_of_half()
    given = (
        ("dtype", dtype, Dtype, "torch.dtype"),
        ("layout", layout, layouts.layout, "torch.layout"),
        ("memory_format", format, layouts.memory_format, "torch.memory_format"),
        ("requires_grad", requires_grad, bool, "bool"),
        ("pin_memory", pin_memory, bool, "bool"),
    )
    for argument, value, kind, words in given:
        if value is not None and not isinstance(value, kind):
            raise TypeError(
                f"{name}(): argument '{argument}' must be {words}, not {type_name(value)}"
            )


_INT = frozenset((int,))


def sizes(args: tuple[Any, ...], name: str = "") -> tuple[int, ...]:
    """Sizes given as ints or as one sequence.

    name: the function whose argument `size` they are."""
    if name and len(args) == 1 and not _INT.issuperset(map(type, args)):
        if not isinstance(args[0], (Tensor, tuple, list)) and not hasattr(args[0], "__index__"):
            raise TypeError(
                f"{name}(): argument 'size' (position 1) must be tuple of ints, not "
                f"{type_name(args[0])}"
            )
    if len(args) == 1 and isinstance(args[0], (tuple, list)):
        args = tuple(args[0])
    if _INT.issuperset(map(type, args)):
        return args
    if (len(args) == 1 and not hasattr(args[0], "__index__")) or (
        len(args) == 1 and isinstance(args[0], Tensor) and args[0].ndim
    ):
        args = tuple(args[0])
    return tuple(_size(arg, i) for i, arg in enumerate(args))


def _size(value: Any, place: int) -> int:
    if isinstance(value, Tensor) and not value.ndim and category(value.dtype) < 2:
        value = value.item()
    elif isinstance(value, (bool, Tensor)) or not hasattr(value, "__index__"):
        raise TypeError(
            f"argument 'size' must be tuple of ints, but found element of type "
            f"{type(value).__name__} at pos {place}"
        )
    return as_size(value)


def convert_number(value: Any, kind: Dtype) -> Any:
    """A Python number as an element of a dtype; RuntimeError when it loses its category."""
    given = number_dtype(value)
    if kind.name == "bool":
        return bool(value)
    if kind.is_floating_point and category(given) < 3 and -_SMALL < value < _SMALL:
        return value
    loses = given.is_complex and not kind.is_complex and value.imag != 0
    if not loses and category(kind) == 1 and not given.is_complex:
        limits = iinfo(kind)
        loses = value != value or not limits.min <= value <= limits.max
        if loses and not kind.is_signed and -limits.max <= value < 0:
            loses = isinstance(value, (float, np.floating))
            if not loses:
                value += limits.max + 1  # an integer wraps
    if kind.is_floating_point and not given.is_complex:
        loses = abs(value) > finfo(kind).max and abs(value) != math.inf
    if loses:
        raise RuntimeError(
            f"value cannot be converted to type {_C_TYPES.get(kind.name, kind.name)} without "
            f"overflow"
        )
    return value.real if given.is_complex and not kind.is_complex else value


_SMALL = 1024  # less than the largest number of any type
_C_TYPES = {"float16": "c10::Half", "bfloat16": "c10::BFloat16", "int8": "int8_t",
            "uint8": "uint8_t", "int16": "int16_t", "int32": "int", "int64": "int64_t",
            "float32": "float", "float64": "double"}  # fmt: skip


def shape_error(shape: Sequence[int], broadcast: Sequence[int]) -> RuntimeError:
    """Results of one shape do not fit a tensor of another."""
    return RuntimeError(
        f"output with shape {list(shape)} doesn't match the broadcast shape {list(broadcast)}"
    )


def any_true(condition: Tensor) -> bool:
    """Whether a condition holds anywhere; nowhere in what has no memory."""
    array = _unbatched(condition._array)
    return type(array) is not MetaArray and bool(_C.wrap(array).any())


# ---- values --------------------------------------------------------------------------------------


class ValueCheck:
    """A look at values that may raise, as whoever notes calls is told of it."""

    name, kind, is_view = "check", "internal", False

    def __init__(self, function: Callable[..., None]) -> None:
        self.function = function

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ValueCheck) and self.function == other.function

    def __hash__(self) -> int:
        return hash(self.function)


# # Note [Looks at values]
# A function that raises because of values does so in one of two ways, and a compiled program does
# the same as eager code in both.
# - `values(check, tensors, ...)` calls a check that is registered by `looks_at_values`.  Programs
#   call it again each time, in its place among the other calls.
# - A backend function raises while it computes (integer division by zero).  Programs call that
#   function, or one that looks too.
# Code that reads values to decide what to do next reads them by `host_values`: a segment that is
# recorded meanwhile gets no program, and its calls are made each time.
# tests/compile/dynamic/test_value_checks.py holds that no other way is in use.


class _Look:
    """Stands for a record where code reads values and decides by them."""

    name, kind, is_view, flushes = "values", "internal", False, True


_LOOK = _Look()
LOOKING: dict[str, Callable[..., Any]] = {}  # checks of values, by their names
_CPU_ONLY: set[Callable[..., Any]] = set()  # those that a GPU's tensors need not pass


def looks_at_values(
    function: Callable[..., Any] | None = None, *, cpu_only: bool = False
) -> Callable[..., Any]:
    """Registers a check for `values` or `refuse_where`, under its name in files of plans.

    cpu_only: tensors of a GPU are not checked: a kernel looks at them, or nobody waits for them."""
    if function is None:
        return functools.partial(looks_at_values, cpu_only=cpu_only)
    LOOKING[f"{function.__module__}.{function.__name__}"] = function
    if cpu_only:
        _CPU_ONLY.add(function)
    return function


def values(function: Callable[..., None], tensors: Sequence[Tensor], *params: Any) -> None:
    """Calls function(*arrays, *params), a check that raises where values are no valid arguments.

    Compiled programs call it again.  Nothing is checked on the meta device."""
    cpu_only = function in _CPU_ONLY
    if cpu_only and tensors[0].is_cuda:
        return
    if watching and entered.note is not None:
        entered.note("check", ValueCheck(function), tensors, params, ())
    arrays = [_unbatched(x._array) for x in tensors]
    for array in arrays:
        if type(array) is MetaArray or (cpu_only and type(array) is not np.ndarray):
            return  # sparse and nested tensors have plain ones, which are checked
    _C.call_seen(function, *arrays, *params)


def host_values(x: Tensor) -> Any:
    """The values of a tensor as an ndarray, for code that decides by them: Note [Looks at values].

    Under vmap those of all examples; none of a tensor without memory."""
    _C.unrecordable("it looks at values")
    if watching and entered.note is not None:
        entered.note("look", _LOOK, (x,), (), ())
    array = _unbatched(x._array)
    return np.empty(0) if type(array) is MetaArray else on_host(array)


def on_host(array: Any) -> Any:
    """An array's values as an ndarray: a copy if they are on a GPU."""
    return array.numpy() if type(array) is _C.Array else np.asarray(array)


def _unbatched(array: Any) -> Any:
    while type(array) is BatchedArray:
        array = array.array
    return array


def refuse_where(
    condition: Callable[..., Tensor], tensors: Sequence[Tensor], error: type[Exception], text: str
) -> None:
    """Raises where a condition of tensors' values holds anywhere; it is a module's function."""
    values(_refuse_where, tensors, condition, error, text)


@looks_at_values
def _refuse_where(*given: Any) -> None:
    *found, condition, error, text = given
    with unnoted():
        if any_true(condition(*map(_C.wrap, found))):
            raise error(text)
