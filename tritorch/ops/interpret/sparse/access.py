"""What a sparse tensor is made of, and methods that change that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from tritorch import _C
from tritorch.arrays.sparse import BY_ROW, COMPRESSED, SHOWN, SparseArray
from tritorch.core import layout as layouts
from tritorch.core.dtype import int64
from tritorch.core.published import PUBLIC
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.sparse.record import (
    cannot_run,
    coalesced,
    is_sparse,
    layout_of,
    values_of,
)
from tritorch.ops.record.publishing import with_out


def _array(x: Tensor, name: str, kinds: Sequence[Any], family: str) -> SparseArray:
    if layout_of(x) not in kinds:
        raise RuntimeError(
            f"{name} expected sparse {family} tensor layout but got {SHOWN[layout_of(x)]}"
        )
    return x._array


def _coo_array(x: Tensor, name: str) -> SparseArray:
    return _array(x, name, (layouts.sparse_coo,), "coordinate")


def coalesce(self: Tensor) -> Tensor:
    """Entries in order, each place once: what occurs twice is added."""
    _coo_array(self, "coalesce")
    return coalesced(self)


def is_coalesced(self: Tensor) -> bool:
    """Whether each place occurs once, in order, as far as is known."""
    return _coo_array(self, "is_coalesced").coalesced


def _check_coalesced(array: SparseArray, what: str) -> None:
    if not array.coalesced:
        raise RuntimeError(
            f"Cannot get {what} on an uncoalesced tensor, please call .coalesce() first"
        )


def indices(self: Tensor) -> Tensor:
    """The places of a coalesced COO tensor, one column each."""
    array = _coo_array(self, "indices")
    _check_coalesced(array, "indices")
    return _C.alias(array.indices)


def values(self: Tensor) -> Tensor:
    """The values of the entries."""
    if not is_sparse(self):
        raise RuntimeError("values expected sparse tensor layout but got Strided")
    if self._array.plain is None:
        _check_coalesced(self._array, "values")
    return values_of(self)


def _indices(self: Tensor) -> Tensor:
    """The places of a COO tensor as they are."""
    if layout_of(self) is not layouts.sparse_coo:
        raise cannot_run("_indices", self)
    return _C.alias(self._array.indices)


def _values(self: Tensor) -> Tensor:
    """The values of a COO tensor as they are, without history."""
    if layout_of(self) is not layouts.sparse_coo:
        raise cannot_run("_values", self)
    return _C.alias(self._array.values)


def _nnz(self: Tensor) -> int:
    """How many entries there are."""
    if not is_sparse(self):
        raise cannot_run("_nnz", self)
    return self._array.nnz


def _coalesced_(self: Tensor, coalesced: bool) -> Tensor:
    """Says that the tensor is coalesced, or that it need not be."""
    _coo_array(self, "_coalesced_").coalesced = coalesced
    return self


def _copying(name: str, part: Any) -> None:
    def function(input: Tensor) -> Tensor:
        return part(input).clone()

    function.__name__ = function.__qualname__ = f"{name}_copy"
    function.__doc__ = f"{name}, in other memory."
    PUBLIC[function.__name__] = with_out(function)


def _part(name: str, by_row: bool, compressed: bool) -> None:
    kinds = [kind for kind in COMPRESSED if (kind in BY_ROW) is by_row]
    family = f"{'row' if by_row else 'column'} compressed"

    def method(self: Tensor) -> Tensor:
        array = _array(self, name, kinds, family)
        return _C.alias(array.indices if compressed else array.plain)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = (
        f"Where each {'row' if by_row else 'column'} begins among the entries, and the end."
        if compressed
        else f"The {'column' if by_row else 'row'} of each entry."
    )
    setattr(Tensor, name, method)
    _copying(name, method)


_part("crow_indices", True, True)
_part("col_indices", True, False)
_part("ccol_indices", False, True)
_part("row_indices", False, False)
_copying("indices", indices)
_copying("values", values)


def sparse_dim(self: Tensor) -> int:
    """How many dims are indexed; 0 for dense tensors."""
    return self._array.sparse_dims if is_sparse(self) else 0


def dense_dim(self: Tensor) -> int:
    """How many dims each value has; all for dense tensors."""
    return self._array.dense_dims if is_sparse(self) else self.ndim


# ---- in place ------------------------------------------------------------------------------------


def _check_resize(name: str, x: Tensor, size: Sequence[int], sparse: int, dense: int) -> None:
    if layout_of(x) is not layouts.sparse_coo:
        raise cannot_run(name, x)
    if x._requires_grad:
        raise RuntimeError(f"cannot call {name} on a tensor that requires grad")
    if sparse + dense != len(size):
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, "
            f"sparse_dim = {sparse}, dense_dim = {dense}"
        )


def _refuse(what: str, verb: str, old: Sequence[int], new: Sequence[int]) -> NoReturn:
    raise RuntimeError(
        f"{verb} the {what} (from {list(old)} to {list(new)}) on a non-empty sparse tensor is not "
        f"supported. Take an empty one, x = torch.sparse_coo_tensor(size), or drop the entries "
        f"first by x.sparse_resize_and_clear_."
    )


def sparse_resize_(self: Tensor, size: Sequence[int], sparse_dim: int, dense_dim: int) -> Tensor:
    """Another size, which the entries must fit into."""
    size = tuple(int(n) for n in size)
    _check_resize("sparse_resize_", self, size, sparse_dim, dense_dim)
    array = self._array
    if array.nnz:
        old, k = array.shape, array.sparse_dims
        if sparse_dim != k:
            raise RuntimeError(
                f"changing the number of sparse dimensions (from {k} to {sparse_dim}) on a "
                f"non-empty sparse tensor is not supported."
            )
        if dense_dim != array.dense_dims:
            raise RuntimeError(
                f"changing the number of dense dimensions (from {array.dense_dims} to "
                f"{dense_dim}) on a non-empty sparse tensor is not supported."
            )
        if any(n < m for n, m in zip(size[:k], old[:k])):
            _refuse("size of sparse dimensions", "shrinking", old[:k], size[:k])
        if any(n < m for n, m in zip(size[k:], old[k:])):
            _refuse("size of dense dimensions", "shrinking", old[k:], size[k:])
        if size[k:] != old[k:]:
            grown = array.values.new_zeros((array.nnz, *size[k:]))
            grown[tuple(slice(0, n) for n in array.values.shape)] = array.values
            array.values = grown
        array.shape = size
        return self
    return _clear(self, size, sparse_dim)


def _clear(x: Tensor, size: tuple[int, ...], sparse_dim: int) -> Tensor:
    array = x._array
    array.indices = array.indices.new_zeros((sparse_dim, 0), dtype=int64)
    array.values = array.values.new_zeros((0, *size[sparse_dim:]))
    array.shape, array.coalesced = size, True
    _C.bump_version(x)
    return x


def sparse_resize_and_clear_(
    self: Tensor, size: Sequence[int], sparse_dim: int, dense_dim: int
) -> Tensor:
    """Another size, with no entries."""
    size = tuple(int(n) for n in size)
    _check_resize("sparse_resize_and_clear_", self, size, sparse_dim, dense_dim)
    return _clear(self, size, sparse_dim)


def resize_as_sparse_(self: Tensor, the_template: Tensor) -> Tensor:
    """Another tensor's size."""
    like = the_template._array
    if not is_sparse(the_template):
        raise cannot_run("resize_as_sparse_", the_template)
    if like.plain is not None:
        self._array.take(like.copy())
        return self
    return sparse_resize_(self, like.shape, like.sparse_dims, like.dense_dims)


PUBLIC["resize_as_sparse_"] = resize_as_sparse_


def _dimI(self: Tensor) -> int:
    """sparse_dim, by an old name."""
    return sparse_dim(self)


def _dimV(self: Tensor) -> int:
    """dense_dim, by an old name."""
    return dense_dim(self)


for _method in (
    coalesce, is_coalesced, indices, values, _indices, _values, _nnz, _coalesced_, sparse_dim,
    dense_dim, sparse_resize_, sparse_resize_and_clear_, resize_as_sparse_, _dimI, _dimV,
):  # fmt: skip
    setattr(Tensor, _method.__name__, _method)
