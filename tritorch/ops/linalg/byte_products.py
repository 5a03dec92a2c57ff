"""Products of matrices of bytes, summed in int32 (_int_mm)."""

from __future__ import annotations

from typing import Any

from tritorch.core.dtype import int8, int32, uint8
from tritorch.core.tensor import Tensor
from tritorch.host.linalg import matmul as cpu
from tritorch.ops.record.groups import Rules
from tritorch.ops.record.operator import Operator
from tritorch.ops.record.outputs import cpp_name
from tritorch.ops.record.publishing import public, write_out

_int_mm_record = Operator(
    "int_mm",
    "a b",
    schema="_int_mm(a, b)",
    cpu=cpu.int_mm,
    gpu="matmul.int_mm",
    rules=Rules(infer=lambda a, b: a.new((a.shape[0], b.shape[1]), int32), axes="mk,kn->mn"),
)


def _expect(truth: bool, text: str) -> None:
    if not truth:
        raise RuntimeError(f"int_mm_out_cpu: Expected {text}")


@public(method=False)
def _int_mm(self: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of two matrices of bytes (mat2's are signed), in int32."""
    _expect(self.ndim == 2, f"self to be of dimension 2 but got {self.ndim}")
    _expect(mat2.ndim == 2, f"mat2 to be of dimension 2 but got {mat2.ndim}")
    if self.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"int_mm_out_cpu: self.size(1) needs to match mat2.size(0) but got {self.shape[1]} and "
            f"{mat2.shape[0]}"
        )
    kinds = cpp_name(self.dtype), cpp_name(mat2.dtype)
    _expect(self.dtype in (int8, uint8), f"self dtype to be int8 or uint8 but got {kinds[0]}")
    _expect(mat2.dtype is int8, f"mat2 dtype to be of type int8 but got {kinds[1]}")
    if out is not None:
        kind = cpp_name(out.dtype)
        _expect(out.dtype is int32, f"result dtype to be of type kInt but got {kind}")
        _expect(out.ndim == 2, f"result to be of dimension 2 but got {out.ndim}")
        for dim, n in enumerate((self.shape[0], mat2.shape[1])):
            _expect(out.shape[dim] == n, f"result.size({dim}) to be {n} but got {out.shape[dim]}")
    result: Any = _int_mm_record.call((self, mat2), ())
    return result if out is None else write_out(result, out, "_int_mm")
