"""What `out=` may be, where PyTorch asks for more than a dtype that results can be cast to.

By the names that PyTorch publishes: which operators want the result's own dtype (and how they say
so), and which an output that shares no memory with an input.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tritorch._C import Array
from tritorch.core.dtype import dtype as Dtype
from tritorch.core.promotion import result_type, scalar_name
from tritorch.core.tensor import Tensor
from tritorch.gpu.layout import is_dense
from tritorch.ops.checks import require_castable

# {result}, {out}: dtypes by their names in C++; {Result}, {Out}: by PyTorch's.
_STRUCTURED = "Expected out tensor to have dtype {result}, but got {out} instead"
_WORDS = {
    _STRUCTURED: """
        addmm addmv aminmax alias_copy argmax argmin as_strided_copy avg_pool2d avg_pool3d baddbmm
        bmm cholesky_ex cross det diag diagonal_copy eigh eigvalsh expand_copy gather index_add
        index_copy index_reduce inv inv_ex isin ldl_factor ldl_factor_ex ldl_solve linear
        log_softmax lu lu_factor lu_factor_ex lu_solve lu_unpack max.dim min.dim mm msort norm
        permute_copy qr
        renorm scatter scatter_add scatter_reduce slice_scatter slogdet softmax solve solve_ex sort
        split_with_sizes_copy squeeze_copy svd svdvals t_copy take_along_dim topk transpose_copy
        triangular_solve tril triu unbind_copy unfold_copy unsqueeze_copy vector_norm view_copy
        """,
    "Found dtype {Out} but expected {Result}": """
        abs absolute bitwise_not ceil conj_physical floor frac gelu hardshrink neg negative round
        sgn sign softplus softshrink trunc fix
        """,
    "expected scalar_type {Result} but found {Out}": "cummax cummin diff logcumsumexp",
    "expected scalar type {Result} but found {Out}": "logsigmoid solve_triangular",
    "result dtype {Out} does not match input dtype {Result}": "dot vdot matmul",
    "Expected the dtype for input and out to match, but got {Result} for input's dtype and {Out} "
    "for out's dtype.": "amax amin",
    "take(): self and out expected to have the same dtype, but got self.dtype = {Result} and "
    "out.dtype = {Out}": "take",
    "tensordot: Expected the output tensor to have dtype {Result}, but got an output tensor with "
    "dtype {Out}": "inner tensordot",
    "masked_select(): self and result must have the same scalar type": "masked_select",
    "index_select(): self and result must have the same scalar type": "index_select",
    "output values must be of same type as input": "kthvalue",
    "{name} does not support non-boolean outputs.": "isneginf isposinf signbit",
    "multinomial expects Long tensor out, got: {Out}": "multinomial",
    "Expected object of scalar type {result} but got scalar type {out} for argument 'out'": "polar",
    "expected scalar type '{Result}' but got '{Out}' for values output": "mode",
    "linalg.vecdot: Expected out of dtype{Result} but found {Out}": "vecdot",
    "linalg.{name} expected out tensor dtype {Result} but got: {Out}": "matrix_norm",
    "multi_dot(): expected out tensor to have dtype {result} but got {out}": "multi_dot",
    "nan_to_num: dtype of out: {Out} should be same as input: {Result}": "nan_to_num",
    "nonzero: Expected out tensor to have scalar type {Result} but got scalar type{Out}": "nonzero",
}
_EXACT = {name: words for words, names in _WORDS.items() for name in names.split()}
_JOINING = ("cat", "column_stack", "dstack", "hstack", "stack", "vstack")
_ALONE = (*_JOINING, "gather", "index_select", "masked_select", "take", "take_along_dim")
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
    return f"{name}.dim" if f"{name}.dim" in _EXACT else name


def require_own_shape(name: str, result: Tensor, self: Tensor) -> None:
    """Whether the result of an operator fits self, which it is to replace."""
    if result._array.shape == self._array.shape:
        return
    if _EXACT.get(name) == _STRUCTURED:
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
    words = _EXACT.get(name)
    if words is not None:
        in_cpp = {"result": cpp_name(result), "out": cpp_name(out)}
        names = {"Result": scalar_name(result), "Out": scalar_name(out)}
        raise RuntimeError(words.format(name=name, **in_cpp, **names))
    try:
        require_castable(result, out)
    except RuntimeError:
        if name not in _JOINING:
            raise
        raise TypeError(
            f"torch.cat(): input types can't be cast to the desired output type {scalar_name(out)}"
        ) from None


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
        if name in _ALONE and any(x is out for x in several):
            raise RuntimeError(_SHARED)
        require_separate(out, several, name in _ALONE)


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
