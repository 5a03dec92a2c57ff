"""Masks that zero the blocks of a weight with the smallest norms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import tritorch
from tritorch import Tensor
from tritorch.ao.pruning.sparsifier.base_sparsifier import BaseSparsifier
from tritorch.nn import Module, functional

__all__ = ["WeightNormSparsifier"]


def _flat_idx_to_2d(idx: Any, shape: Sequence[int]) -> tuple[Any, Any]:
    return idx // shape[1], idx % shape[1]


def _padded(shape: Sequence[int], block: Sequence[int]) -> tuple[int, int]:
    """Height and width rounded up to whole blocks."""
    (height, width), (rows, columns) = shape[-2:], block
    return -(-height // rows) * rows, -(-width // columns) * columns


class WeightNormSparsifier(BaseSparsifier):
    """Zeroes the blocks, or elements of blocks, with the smallest norms.

    `sparsity_level` is the part of the blocks that is zeroed, `sparse_block_shape` a block's rows
    and columns, `zeros_per_block` how many elements of such a block are zeroed (default: all),
    `norm` 1, 2 (default) or a function of tensors.
    """

    def __init__(
        self,
        sparsity_level: float = 0.5,
        sparse_block_shape: tuple[int, int] = (1, 4),
        zeros_per_block: int | None = None,
        norm: Callable[[Tensor], Tensor] | int | None = None,
    ) -> None:
        if zeros_per_block is None:
            zeros_per_block = math.prod(sparse_block_shape)
        if norm is None:
            norm = 2
        if callable(norm):
            self.norm_fn = norm
        elif norm == 1:
            self.norm_fn = lambda T: T.abs()
        elif norm == 2:
            self.norm_fn = lambda T: T * T
        else:
            raise NotImplementedError(f"L-{norm} is not yet implemented.")
        super().__init__(
            defaults={
                "sparsity_level": sparsity_level,
                "sparse_block_shape": sparse_block_shape,
                "zeros_per_block": zeros_per_block,
            }
        )

    def _scatter_fold_block_mask(
        self,
        output_shape: Sequence[int],
        dim: int,
        indices: Tensor,
        block_shape: tuple[int, int],
        mask: Tensor | None = None,
        input_shape: Sequence[int] | None = None,
        device: Any = None,
    ) -> Tensor:
        """Zeros at the indices of unfolded blocks, folded back to the plane."""
        if mask is None:
            if input_shape is None:
                raise AssertionError("input_shape must be provided when mask is None")
            mask = tritorch.ones(input_shape, device=device)
        mask.scatter_(dim=dim, index=indices, value=0)
        mask.data = functional.fold(
            mask,
            output_size=output_shape,
            kernel_size=block_shape,
            stride=block_shape,
            dilation=1,
            padding=0,
        )
        return mask

    def _make_tensor_mask(
        self,
        data: Tensor,
        input_shape: Sequence[int],
        sparsity_level: float,
        sparse_block_shape: tuple[int, int],
        mask: Tensor | None = None,
    ) -> Tensor:
        """A mask that zeroes the part `sparsity_level` of all blocks, whole."""
        height, width = data.shape[-2:]
        padded = _padded(data.shape, sparse_block_shape)
        if mask is None:
            mask = tritorch.ones(padded, device=data.device)
        if sparsity_level >= 1.0 or sparsity_level <= 0.0:
            mask.data = tritorch.full_like(mask, 0.0 if sparsity_level >= 1.0 else 1.0)
            return mask
        values = math.prod(sparse_block_shape)
        if values > 1:
            data = functional.avg_pool2d(
                data[None, None, :],
                kernel_size=sparse_block_shape,
                stride=sparse_block_shape,
                ceil_mode=True,
            )
        norms = data.flatten()
        zeroed = max(0, min(len(norms) - 1, round(sparsity_level * len(norms))))
        norms = norms.repeat(1, values, 1)
        smallest = tritorch.topk(norms, k=zeroed, dim=2, largest=False).indices
        unfolded = mask.reshape(norms.shape)
        self._scatter_fold_block_mask(
            dim=2,
            output_shape=padded,
            indices=smallest,
            block_shape=sparse_block_shape,
            mask=unfolded,
        )
        mask.data = unfolded.squeeze().reshape(mask.shape)[:height, :width].contiguous()
        return mask

    def _make_block_mask(
        self,
        data: Tensor,
        sparse_block_shape: tuple[int, int],
        zeros_per_block: int,
        mask: Tensor | None = None,
    ) -> Tensor:
        """A mask that zeroes the smallest `zeros_per_block` elements of every block."""
        height, width = data.shape[-2:]
        padded = _padded(data.shape, sparse_block_shape)
        if mask is None:
            mask = tritorch.ones(padded, device=data.device)
        if math.prod(sparse_block_shape) == zeros_per_block:
            mask.data = tritorch.zeros_like(mask)
            return mask
        plane = tritorch.full(padded, math.nan, dtype=data.dtype, device=data.device)
        plane[:height, :width] = data
        blocks = functional.unfold(
            plane[None, None, :],
            kernel_size=sparse_block_shape,
            stride=sparse_block_shape,
            dilation=1,
            padding=0,
        )
        unfolded = mask.reshape(blocks.shape)
        self._scatter_fold_block_mask(
            dim=1,
            indices=tritorch.topk(blocks, k=zeros_per_block, dim=1, largest=False).indices,
            output_shape=plane.shape,
            block_shape=sparse_block_shape,
            mask=unfolded,
        )
        mask.data = unfolded.squeeze().reshape(mask.shape).contiguous()
        return mask

    def update_mask(  # type: ignore[override]
        self,
        module: Module,
        tensor_name: str,
        sparsity_level: float,
        sparse_block_shape: tuple[int, int],
        zeros_per_block: int,
        **kwargs: Any,
    ) -> None:
        """Zeroes elements that both the mask of blocks and that of elements zero."""
        values = math.prod(sparse_block_shape)
        if zeros_per_block > values:
            raise ValueError(
                "Number of zeros per block cannot be more than the total number of elements "
                "in that block."
            )
        if zeros_per_block < 0:
            raise ValueError("Number of zeros per block should be positive.")
        mask = getattr(module.parametrizations, tensor_name)[0].mask
        if sparsity_level <= 0 or zeros_per_block == 0:
            mask.data = tritorch.ones_like(mask)
        elif sparsity_level >= 1.0 and zeros_per_block == values:
            mask.data = tritorch.zeros_like(mask)
        else:
            norms = self.norm_fn(getattr(module, tensor_name))
            kept = self._make_tensor_mask(norms, norms.shape, sparsity_level, sparse_block_shape)
            if values != zeros_per_block:
                kept = tritorch.logical_or(
                    kept, self._make_block_mask(norms, sparse_block_shape, zeros_per_block)
                )
            mask.data = kept
