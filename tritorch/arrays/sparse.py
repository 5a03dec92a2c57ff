"""What a sparse tensor holds: indices and values, in one of the sparse layouts.

# Note [Sparse tensors]
A sparse tensor is a plain `Tensor` whose array is a `SparseArray`.  As with the arrays of `vmap`,
fast paths see a type that is neither an ndarray's nor a GPU array's and hand over to
`ops/record/door.py`, which asks the rules of `ops/interpret/sparse` by the operator's name:
dense tensors pay nothing for sparse ones.

Indices and values are tensors without history.  Gradients flow through the operators that take
values out of a sparse tensor and put them into one (`ops/interpret/sparse/record.py`); all else is
composed of these and of dense operators on values, so it runs wherever those run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

from tritorch.core import layout as layouts

COMPRESSED = (layouts.sparse_csr, layouts.sparse_csc, layouts.sparse_bsr, layouts.sparse_bsc)
BLOCKED = (layouts.sparse_bsr, layouts.sparse_bsc)
BY_ROW = (layouts.sparse_csr, layouts.sparse_bsr)
SHOWN = {
    layouts.strided: "Strided", layouts.sparse_coo: "Sparse", layouts.sparse_csr: "SparseCsr",
    layouts.sparse_csc: "SparseCsc", layouts.sparse_bsr: "SparseBsr",
    layouts.sparse_bsc: "SparseBsc",
}  # fmt: skip


class SparseArray:
    """A sparse tensor's parts.

    COO: `indices` (sparse dims x entries), `values` (entries x dense dims).  Compressed: `indices`
    are the compressed ones (rows' for CSR and BSR), `plain` the others.
    """

    __slots__ = ("coalesced", "indices", "layout", "plain", "shape", "values")

    def __init__(
        self,
        layout: layouts.layout,
        shape: Sequence[int],
        indices: Any,
        values: Any,
        plain: Any = None,
        coalesced: bool = False,
    ) -> None:
        self.layout = layout
        self.shape = tuple(shape)
        self.indices = indices
        self.values = values
        self.plain = plain
        self.coalesced = coalesced

    # ---- what every array answers ----------------------------------------------------------------

    @property
    def ndim(self) -> int:
        """How many dims there are."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements the dense tensor has."""
        return math.prod(self.shape)

    def numel(self) -> int:
        """How many elements the dense tensor has."""
        return self.size

    @property
    def dtype(self) -> Any:
        """The values' element type."""
        return self.values._array.dtype

    @property
    def itemsize(self) -> int:
        """Bytes of one value."""
        return self.values._array.itemsize

    @property
    def device(self) -> Any:
        """Where the values are."""
        return self.values.device

    @property
    def device_index(self) -> int:
        """Which GPU the values are on."""
        return self.values._array.device_index

    @property
    def strides(self) -> tuple[int, ...]:
        """There are none: zeros."""
        return (0,) * self.ndim

    def is_contiguous(self) -> bool:
        """Never."""
        return False

    def data_ptr(self) -> NoReturn:
        """Refused: there is no single memory."""
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")

    def numpy(self) -> NoReturn:
        """Refused: there is no single memory."""
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")

    # ---- geometry --------------------------------------------------------------------------------

    @property
    def nnz(self) -> int:
        """How many entries (blocks, for blocked layouts) there are; per matrix of a batch."""
        last = self.plain if self.plain is not None else self.indices
        return last.shape[-1]

    @property
    def batch_dims(self) -> int:
        """Leading dims of a batch of compressed matrices."""
        return self.indices.ndim - 1 if self.plain is not None else 0

    @property
    def sparse_dims(self) -> int:
        """The dims that are indexed."""
        return self.indices.shape[0] if self.plain is None else 2

    @property
    def dense_dims(self) -> int:
        """The dims of each value."""
        return self.ndim - self.batch_dims - self.sparse_dims

    @property
    def block(self) -> tuple[int, int] | None:
        """The blocks' size, for blocked layouts."""
        if self.layout not in BLOCKED:
            return None
        start = self.batch_dims + 1
        return tuple(self.values.shape[start : start + 2])

    # ---- writing ---------------------------------------------------------------------------------

    def take(self, other: SparseArray) -> None:
        """Becomes what another one is."""
        self.layout, self.shape, self.indices = other.layout, other.shape, other.indices
        self.values, self.plain, self.coalesced = other.values, other.plain, other.coalesced

    def with_values(self, values: Any) -> SparseArray:
        """The same places with other values."""
        return SparseArray(
            self.layout, self.shape, self.indices, values, self.plain, self.coalesced
        )

    def copy(self) -> SparseArray:
        """The same in other memory."""
        plain = None if self.plain is None else self.plain.clone()
        return SparseArray(
            self.layout, self.shape, self.indices.clone(), self.values.clone(), plain,
            self.coalesced,
        )  # fmt: skip

    def copy_(self, source: SparseArray) -> None:
        """Becomes a copy of a sparse array, in its own dtype and on its own device."""
        if source.layout is not self.layout:
            raise RuntimeError(
                f"torch.copy_: copy of sparse compressed tensors having different layouts is not "
                f"supported. self layout is {SHOWN[self.layout]} and src layout is "
                f"{SHOWN[source.layout]}"
            )
        kind, where = self.values.dtype, self.device
        self.take(source.copy())
        self.values = self.values.to(device=where, dtype=kind)
        self.indices = self.indices.to(where)
        if self.plain is not None:
            self.plain = self.plain.to(where)

    def filled(self, value: Any) -> SparseArray:
        """The same without entries, for 0; refuses other numbers."""
        if value != 0:
            kind = "Sparse" if self.plain is None else "SparseCsr"
            raise NotImplementedError(
                f"Could not run 'aten::fill_.Scalar' with arguments from the "
                f"'{kind}{self.device.type.upper()}' backend."
            )
        if self.plain is None:
            none = self.indices[:, :0]
            return SparseArray(self.layout, self.shape, none, self.values[:0], None, True)
        lead = (slice(None),) * self.batch_dims
        none, plain = self.values[(*lead, slice(0, 0))], self.plain[..., :0]
        return SparseArray(self.layout, self.shape, self.indices * 0, none, plain)
