"""What `out=` may be, where PyTorch asks for more than a dtype that results can be cast to.

Declarations say which operators want the result's own dtype (and in which words), and which an
output that shares no memory with an input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from tritorch._C import Array
from tritorch.core.dtype import dtype as Dtype
from tritorch.core.promotion import result_type, scalar_name
from tritorch.core.tensor import Tensor
from tritorch.gpu.pointwise.layout import is_dense
from tritorch.ops.record.checks import require_castable

Function = TypeVar("Function", bound=Callable[..., Any])

# How an output of another dtype than the result's is refused.  {result}, {out}: dtypes by their
# names in C++; {Result}, {Out}: by PyTorch's.
_WORDS = {
    "structured": "Expected out tensor to have dtype {result}, but got {out} instead",
    "found": "Found dtype {Out} but expected {Result}",
    "scalar_type": "expected scalar_type {Result} but found {Out}",
    "scalar type": "expected scalar type {Result} but found {Out}",
    "input": "result dtype {Out} does not match input dtype {Result}",
    "match": "Expected the dtype for input and out to match, but got {Result} for input's dtype "
    "and {Out} for out's dtype.",
}
EXACT: dict[str, str] = {}  # what is said, by the operator's name; a key of `_WORDS`, or a sentence
_apart: set[str] = set()
_joining: set[str] = set()


def exact_out(words: str, *names: str) -> Callable[[Function], Function]:
    """Says that a function's `out=` must have the result's dtype, and how it is refused else.

    names: what the function is called in errors, if not by its own name."""

    def decorate(function: Function) -> Function:
        EXACT.update(dict.fromkeys(names or (function.__name__,), words))
        return function

    return decorate


def apart_from_out(function: Function) -> Function:
    """Says that a function's `out=` must share no memory with an input."""
    _apart.add(function.__name__)
    return function


def joins(function: Function) -> Function:
    """Says that a function joins tensors as `cat` does, whose errors of `out=` it has."""
    _joining.add(function.__name__)
    return apart_from_out(function)


_IN_CPP = {
    "float32": "float", "float64": "double", "int64": "long int", "int32": "int",
    "int16": "short int", "int8": "signed char", "uint8": "unsigned char", "bool": "bool",
    "float16": "c10::Half", "bfloat16": "c10::BFloat16", "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}  # fmt: skip


def cpp_name(kind: Dtype) -> str:
    """A dtype as PyTorch's C++ calls it."""
    return _IN_CPP.get(kind.name, scalar_name(kind))


def overload(name: str) -> str:
    """The name under which several results of an operator are looked up: max.dim of max."""
    return f"{name}.dim" if f"{name}.dim" in EXACT else name


def require_own_shape(name: str, result: Tensor, self: Tensor) -> None:
    """Whether the result of an operator fits self, which it is to replace."""
    if result._array.shape == self._array.shape:
        return
    if EXACT.get(name) == "structured":
        raise RuntimeError(
            f"Bad in-place call: input tensor size {list(self.shape)} and output tensor size "
            f"{list(result.shape)} should match"
        )
    raise RuntimeError(
        f"output with shape {list(self.shape)} doesn't match the broadcast shape "
        f"{list(result.shape)}"
    )


def require_dtype(name: str, result: Dtype, out: Dtype) -> None:
    """Whether results of an operator may be written into an output of a dtype."""
    if result is out:
        return
    words = EXACT.get(name)
    if words is not None:
        words = _WORDS.get(words, words)
        in_cpp = {"result": cpp_name(result), "out": cpp_name(out)}
        names = {"Result": scalar_name(result), "Out": scalar_name(out)}
        raise RuntimeError(words.format(name=name, **in_cpp, **names))
    try:
        require_castable(result, out)
    except RuntimeError:
        if name not in _joining:
            raise
        raise TypeError(
            f"torch.cat(): input types can't be cast to the desired output type {scalar_name(out)}"
        ) from None


def require_device(inputs: Iterable[Any], out: Tensor) -> None:
    """Refuses an output on another device than the inputs, but for numbers on the CPU."""
    where = out.device
    for x in inputs:
        if (
            not isinstance(x, Tensor)
            or x.device == where
            or (x.device.type == "cpu" and not x.ndim)
        ):
            continue
        if "meta" in (x.device.type, where.type):
            raise RuntimeError(
                f"Attempting to copy from device {x.device} to device {where}, but cross-device "
                "copies are not allowed!"
            )
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, "
            f"{x.device} and {where}!"
        )


def require_common_dtype(name: str, inputs: Iterable[Any], out: Any, surely: bool) -> None:
    """Whether what the inputs promote to may be written into an output, for an operator without a
    kernel for it.

    surely: its result has that dtype; else outputs of int64 and bool pass, which may be for places
    or truths."""
    if isinstance(out, Tensor) and (surely or out.dtype.name not in ("int64", "bool")):
        tensors = [x for x in inputs if isinstance(x, Tensor)]
        require_dtype(name, result_type(*tensors), out.dtype)


def require_own_memory(name: str, inputs: Iterable[Any], out: Any) -> None:
    """Refuses an output that shares memory with an input: some of it, or, where it must have its
    own, any."""
    if not isinstance(out, Tensor):
        return
    for value in inputs:
        several = value if isinstance(value, (list, tuple)) else (value,)
        if name in _apart and any(x is out for x in several):
            raise RuntimeError(_SHARED)
        require_separate(out, several, name in _apart)


_SHARED = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a "
    "single memory location. Please clone() the tensor before performing the operation."
)


def require_separate(written: Tensor, inputs: Iterable[Any], wholly: bool = False) -> None:
    """Refuses to write a tensor of which an input shares some elements; `wholly`: or all."""
    array = written._array
    for x in inputs:
        if x is written and wholly:
            raise RuntimeError(_SHARED)
        if x is written or not isinstance(x, Tensor) or _have_apart(array, x._array):
            continue
        place, other = _extent(written), _extent(x)
        if _meet(place, other) and (
            wholly or place != other or x.stride() != written.stride() or x.shape != written.shape
        ):
            raise RuntimeError(_SHARED)


def _have_apart(a: Any, b: Any) -> bool:
    """Whether two arrays lie in different memory, as far as a look at their owners tells."""
    if type(a) is not type(b):
        return True
    if type(a) is np.ndarray:
        return a is not b and (a.base is None is b.base or not np.may_share_memory(a, b))
    return type(a) is Array and not a.shares_storage(b)


def _extent(x: Tensor) -> tuple[int, int] | None:
    """The first address and the one past the last; None for what is empty or has gaps."""
    if type(x._array) not in (np.ndarray, Array) or not x.numel():
        return None
    if not is_dense(x.shape, x.stride()):
        return None
    start = x.data_ptr()
    return start, start + x.numel() * x.dtype.itemsize


def _meet(a: tuple[int, int] | None, b: tuple[int, int] | None) -> bool:
    return a is not None and b is not None and a[0] < b[1] and b[0] < a[1]
