"""What indices and values of a sparse tensor must satisfy, and whether that is looked at."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from typing import Any

from tritorch.arrays.sparse import BLOCKED, BY_ROW
from tritorch.core.promotion import scalar_name
from tritorch.core.scopes import Scope
from tritorch.core.tensor import Tensor
from tritorch.core.thread_state import carried
from tritorch.ops.interpret.sparse.record import arange, flat_keys


class _State(threading.local):
    enabled = False


_state = carried(_State())


class check_sparse_tensor_invariants(Scope):
    """Whether constructors of sparse tensors look at all indices; off unless switched on.

    A context manager, a decorator, and three static methods: is_enabled, enable, disable.
    """

    def __init__(self, enable: bool = True) -> None:
        self.state = enable
        self.saved_state: bool | None = None

    @staticmethod
    def is_enabled() -> bool:
        """Whether invariants are checked."""
        return _state.enabled

    @staticmethod
    def enable() -> None:
        """Checks invariants from now on."""
        _state.enabled = True

    @staticmethod
    def disable() -> None:
        """Stops checking invariants."""
        _state.enabled = False

    def changes(self) -> Any:
        if self.saved_state is not None:
            raise RuntimeError(
                "This context manager instance is already activated. Use a different context "
                "manager instance for context nesting."
            )
        return (self, "saved_state", _state.enabled), (_state, "enabled", self.state)

    def __call__(self, mth: Any) -> Any:
        @functools.wraps(mth)
        def checked(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.state):
                return mth(*args, **kwargs)

        return checked


# ---- COO -----------------------------------------------------------------------------------------


def check_coo(indices: Tensor, values: Tensor, shape: Sequence[int]) -> None:
    """The cheap part, which is always done: numbers of dims and of entries."""
    sparse, dense = indices.shape[0] if indices.ndim else 0, values.ndim - 1
    if len(shape) != sparse + dense:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(shape)}, "
            f"sparse_dim = {sparse}, dense_dim = {dense}"
        )
    if indices.ndim != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(indices.shape)}")
    if indices.shape[1] != values.shape[0]:
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: "
            f"{indices.shape[1]}, nnz from values: {values.shape[0]}"
        )
    expected = [values.shape[0], *shape[sparse:]]
    if list(values.shape) != expected:
        raise RuntimeError(
            f"values has incorrect size, expected {expected}, got {list(values.shape)}"
        )


def check_places(indices: Tensor, shape: Sequence[int], coalesced: Any) -> None:
    """All indices of a COO tensor."""
    if not indices.numel():
        return
    low, high = indices.amin(1).tolist(), indices.amax(1).tolist()
    for dim, (least, most) in enumerate(zip(low, high)):
        if least < 0:
            raise RuntimeError(f"found negative index {least} for dim {dim}")
        if most >= shape[dim]:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {dim}, size is {shape[dim]} but found "
                f"index {most}"
            )
    if coalesced:
        keys = flat_keys(indices, shape)
        if bool((keys[1:] <= keys[:-1]).any()):
            raise RuntimeError(
                "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor"
            )


# ---- compressed ----------------------------------------------------------------------------------


def names_of(layout: Any) -> tuple[str, str, str, str]:
    """What compressed and plain indices are called, and what they count."""
    if layout in BY_ROW:
        return "crow_indices", "col_indices", "row", "column"
    return "ccol_indices", "row_indices", "column", "row"


def check_compressed(
    layout: Any, compressed: Tensor, plain: Tensor, values: Tensor, shape: Sequence[int]
) -> None:
    """Every invariant of a compressed layout; raises for the first that does not hold."""
    c_name, p_name, major, _ = names_of(layout)
    batch = compressed.ndim - 1
    block_dims = 2 if layout in BLOCKED else 0
    if compressed.ndim != plain.ndim:
        raise RuntimeError(
            f"{c_name} and {p_name} dimensionalities must be equal but got {compressed.ndim} and "
            f"{plain.ndim}, respectively"
        )
    if values.ndim <= batch + block_dims:
        raise RuntimeError(
            f"values must have dimensionality > sum of batch and block dimensionalities "
            f"(={batch} + {block_dims}) but got {values.ndim}"
        )
    dense = values.ndim - batch - block_dims - 1
    if len(shape) != batch + 2 + dense:
        raise RuntimeError(
            f"tensor dimensionality must be sum of batch, base, and dense dimensionalities "
            f"(={batch} + 2 + {dense}) but got {len(shape)}"
        )
    block = tuple(values.shape[batch + 1 : batch + 1 + block_dims]) or (1, 1)
    for i in range(2):
        if shape[batch + i] % block[i]:
            raise RuntimeError(
                f"tensor shape[{batch + i}] (={shape[batch + i]}) must be divisible with "
                f"blocksize[{i}] (={block[i]}) as defined by values shape"
            )
    rows, cols = shape[batch] // block[0], shape[batch + 1] // block[1]
    n_major, n_minor = (rows, cols) if layout in BY_ROW else (cols, rows)
    _check_batches(layout, compressed, plain, values, shape, batch)
    if compressed.shape[-1] != n_major + 1:
        raise RuntimeError(
            f"{c_name}.shape[-1] must be equal to the number of {major}s + 1 (={n_major + 1}), but "
            f"got {compressed.shape[-1]}"
        )
    nnz = values.shape[batch]
    if plain.shape[-1] != nnz:
        raise RuntimeError(
            f"{p_name}.shape[-1] must be equal to nnz (={nnz}) as defined by "
            f"values.shape[{batch}], but got {plain.shape[-1]}"
        )
    for indices in (compressed, plain):
        if indices.dtype.name not in ("int32", "int64"):
            raise RuntimeError(
                f"{c_name} and {p_name} dtype must be Int or Long, but got "
                f"{scalar_name(indices.dtype)}"
            )
    if compressed.dtype is not plain.dtype:
        raise RuntimeError(
            f"{c_name} and {p_name} must have the same dtype, bot got "
            f"{scalar_name(compressed.dtype)} and {scalar_name(plain.dtype)}, respectively"
        )
    _check_indices(layout, compressed, plain, nnz, n_minor)


def _check_batches(
    layout: Any, compressed: Tensor, plain: Tensor, values: Tensor, shape: Sequence[int], n: int
) -> None:
    c_name, p_name, _, _ = names_of(layout)
    for name, x in ((c_name, compressed), (p_name, plain), ("values", values)):
        if list(x.shape[:n]) != list(shape[:n]):
            raise RuntimeError(
                f"all batch dimensions of {name} (={list(x.shape[:n])}) must be equal to those of "
                f"the tensor (={list(shape[:n])})"
            )


def _check_indices(layout: Any, compressed: Tensor, plain: Tensor, nnz: int, n_minor: int) -> None:
    c_name, p_name, major, minor = names_of(layout)
    short = {"row": "nrows", "column": "ncols"}
    if not bool((compressed[..., 0] == 0).all()):
        raise RuntimeError(f"`{c_name}[..., 0] == 0` is not satisfied.")
    if not bool((compressed[..., -1] == nnz).all()):
        raise RuntimeError(f"`{c_name}[..., -1] == nnz` is not satisfied.")
    steps = compressed[..., 1:] - compressed[..., :-1]
    if not bool(((steps >= 0) & (steps <= n_minor)).all()):
        raise RuntimeError(
            f"`0 <= {c_name}[..., 1:] - {c_name}[..., :-1] <= {short[minor]}` is not satisfied."
        )
    if not bool(((plain >= 0) & (plain < n_minor)).all()):
        raise RuntimeError(f"`0 <= {p_name} < {short[minor]}` is not satisfied.")
    if nnz < 2:
        return
    first = plain.new_zeros(plain.shape, dtype=compressed.dtype)
    flat, starts = first.reshape(-1, nnz), compressed[..., :-1].reshape(-1, steps.shape[-1]).long()
    rows = nnz * arange(flat.shape[0], flat).unsqueeze(1)
    flat.view(-1)[(starts + rows)[starts < nnz]] = 1
    rises = (plain[..., 1:] > plain[..., :-1]) | (flat.reshape(plain.shape)[..., 1:] == 1)
    if not bool(rises.all()):
        raise RuntimeError(
            f"`{p_name}[..., {c_name}[..., i - 1]:{c_name}[..., i]] for all i = 1, ..., "
            f"{short[major]} are sorted and distinct along the last dimension values` is not "
            f"satisfied."
        )
