"""The shape of blocks in which weights are sparse."""

from __future__ import annotations

from typing import Any

from tritorch.core import locks
from tritorch.core.scopes import Scope, set_back, sets

__all__ = ["LinearBlockSparsePattern"]


def _is_valid_linear_block_sparse_pattern(row_block_size: int, col_block_size: int) -> bool:
    """Tells if kernels have blocks of this shape."""
    return (row_block_size, col_block_size) in ((1, 4), (8, 1))


class LinearBlockSparsePattern(Scope):
    """Sets the shape of blocks while a model is converted; other threads wait until it is left."""

    rlock = locks.rlock()
    row_block_size: int = 1
    col_block_size: int = 4
    prev_row_block_size: int = 1
    prev_col_block_size: int = 4

    def __init__(self, row_block_size: int = 1, col_block_size: int = 4) -> None:
        if not _is_valid_linear_block_sparse_pattern(row_block_size, col_block_size):
            raise AssertionError(
                f"Invalid linear block sparse pattern: row_block_size={row_block_size}, "
                f"col_block_size={col_block_size}"
            )
        self._sizes = row_block_size, col_block_size

    def changes(self) -> Any:
        """The lock, and the sizes with those before."""
        shared = LinearBlockSparsePattern
        rows, columns = shared.block_size()
        return (
            set_back(shared.rlock.release), sets(shared.rlock.acquire),
            (shared, "prev_row_block_size", rows), (shared, "prev_col_block_size", columns),
            (shared, "row_block_size", self._sizes[0]), (shared, "col_block_size", self._sizes[1]),
        )  # fmt: skip

    @staticmethod
    def block_size() -> tuple[int, int]:
        """Rows and columns of blocks."""
        shared = LinearBlockSparsePattern
        return shared.row_block_size, shared.col_block_size
