"""Masks of data that zero the blocks with the smallest norms."""

from __future__ import annotations

import math
from typing import Any

import tritorch
from tritorch import Tensor
from tritorch.ao.pruning._experimental.data_sparsifier.base_data_sparsifier import (
    BaseDataSparsifier,
)
from tritorch.nn import functional

__all__ = ["DataNormSparsifier"]


class DataNormSparsifier(BaseDataSparsifier):
    """Zeroes the blocks, or elements of blocks, with the smallest L1 or L2 norms.

    `sparsity_level` is the part of the blocks that is zeroed, `sparse_block_shape` a block's rows
    and columns, `zeros_per_block` how many elements of such a block are zeroed (default: all).
    """

    def __init__(
        self,
        data_list: list[tuple[str, Any]] | None = None,
        sparsity_level: float = 0.5,
        sparse_block_shape: tuple[int, int] = (1, 4),
        zeros_per_block: int | None = None,
        norm: str = "L1",
    ) -> None:
        if norm not in ["L1", "L2"]:
            raise AssertionError("only L1 and L2 norm supported at the moment")
        self.norm = norm
        if zeros_per_block is None:
            zeros_per_block = math.prod(sparse_block_shape)
        super().__init__(
            data_list=data_list,
            sparsity_level=sparsity_level,
            sparse_block_shape=sparse_block_shape,
            zeros_per_block=zeros_per_block,
        )

    def update_mask(  # type: ignore[override]
        self,
        name: str,
        data: Tensor,
        sparsity_level: float,
        sparse_block_shape: tuple[int, int],
        zeros_per_block: int,
        **kwargs: Any,
    ) -> None:
        """Zeroes the smallest elements of the smallest blocks."""
        values = math.prod(sparse_block_shape)
        if zeros_per_block > values:
            raise ValueError(
                "Number of zeros per block cannot be more than "
                "the total number of elements in that block."
            )
        if zeros_per_block < 0:
            raise ValueError("Number of zeros per block should be positive.")
        norms = (data.abs() if self.norm == "L1" else data * data).squeeze()
        if norms.dim() > 2:
            raise ValueError("only supports 2-D at the moment")
        if norms.dim() == 1:
            norms = norms[None, :]
        kept_blocks = _block_mask(norms, sparsity_level, sparse_block_shape)
        kept_elements = _element_mask(norms, sparse_block_shape, zeros_per_block)
        mask = self.get_mask(name)
        mask.data = tritorch.where(kept_blocks == 1, kept_blocks, kept_elements)


def _folded(unfolded: Tensor, dim: int, zeros: Tensor, norms: Tensor, block: Any) -> Tensor:
    """Ones with zeros at indices of unfolded blocks, folded to the plane of the norms."""
    height, width = norms.shape
    rows, columns = block
    padded = (-(-height // rows) * rows, -(-width // columns) * columns)
    mask = tritorch.ones_like(unfolded).scatter_(dim, zeros, 0)
    plane = functional.fold(
        mask, output_size=padded, kernel_size=block, stride=block, dilation=1, padding=0
    )
    return plane.to(tritorch.int8).squeeze(0).squeeze(0)[:height, :width].contiguous()


def _block_mask(norms: Tensor, sparsity_level: float, block: tuple[int, int]) -> Tensor:
    """Zeroes the part `sparsity_level` of the blocks, whole."""
    means = functional.avg_pool2d(
        norms[None, None, :], kernel_size=block, stride=block, ceil_mode=True
    ).flatten()
    zeroed = round(sparsity_level * len(means))
    means = means.repeat(1, math.prod(block), 1)
    smallest = tritorch.sort(means, dim=2).indices[:, :, :zeroed]
    return _folded(means, 2, smallest, norms, block)


def _element_mask(norms: Tensor, block: tuple[int, int], zeros_per_block: int) -> Tensor:
    """Zeroes the smallest elements of every block; padding is NaN, which is never smallest."""
    if math.prod(block) == zeros_per_block:
        return tritorch.zeros_like(norms, dtype=tritorch.int8)
    (height, width), (rows, columns) = norms.shape, block
    plane = functional.pad(norms, (0, -width % columns, 0, -height % rows), value=math.nan)
    blocks = functional.unfold(
        plane[None, None, :], kernel_size=block, stride=block, dilation=1, padding=0
    )
    smallest = tritorch.sort(blocks, dim=1).indices[:, :zeros_per_block, :]
    return _folded(blocks, 1, smallest, norms, block)
