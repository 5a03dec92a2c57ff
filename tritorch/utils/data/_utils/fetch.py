"""How a batch is taken from a dataset, in the loader's process or in a worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.core.tensor import Tensor
from tritorch.utils.data._utils import transport
from tritorch.utils.data._utils.collate import (
    collate_tensor_fn,
    default_collate,
    default_collate_fn_map,
)
from tritorch.utils.data.dataset import Subset, TensorDataset


class _BaseDatasetFetcher:
    def __init__(
        self, dataset: Any, auto_collation: bool, collate_fn: Callable[..., Any], drop_last: bool
    ) -> None:
        self.dataset = dataset
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self.drop_last = drop_last

    def fetch(self, possibly_batched_index: Any) -> Any:
        """The batch for an index, or for a list of them."""
        raise NotImplementedError


class _IterableDatasetFetcher(_BaseDatasetFetcher):
    def __init__(
        self, dataset: Any, auto_collation: bool, collate_fn: Callable[..., Any], drop_last: bool
    ) -> None:
        super().__init__(dataset, auto_collation, collate_fn, drop_last)
        self.dataset_iter = iter(dataset)
        self.ended = False

    def fetch(self, possibly_batched_index: Any) -> Any:
        """The next items; StopIteration where there are none."""
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self.dataset_iter))
        data = []
        for _ in possibly_batched_index:
            try:
                data.append(next(self.dataset_iter))
            except StopIteration:
                self.ended = True
                break
        if not data or (self.drop_last and len(data) < len(possibly_batched_index)):
            raise StopIteration
        return self.collate_fn(data)


class _MapDatasetFetcher(_BaseDatasetFetcher):
    def fetch(self, possibly_batched_index: Any) -> Any:
        """The items of an index, or of a list."""
        index, dataset = possibly_batched_index, self.dataset
        if not self.auto_collation:
            return self.collate_fn(dataset[index])
        if self.collate_fn is default_collate:
            rows = _rows(dataset, index)
            if rows is not None:
                return rows
        if getattr(dataset, "__getitems__", None):
            return self.collate_fn(dataset.__getitems__(index))
        return self.collate_fn([dataset[i] for i in index])


def _rows(dataset: Any, index: Any) -> list[Tensor] | None:
    """A batch of a TensorDataset, or of a subset of one, by one gather for each tensor.

    The same as collating its items. None where it might not be, down to the error for a bad index.
    """
    while type(dataset) is Subset and type(index) is list:
        indices = dataset.indices
        dataset, index = dataset.dataset, [indices[i] for i in index]
    if type(dataset) is not TensorDataset or type(index) is not list or not index:
        return None
    if default_collate_fn_map.get(Tensor) is not collate_tensor_fn:
        return None
    where = np.asarray(index)
    if where.dtype != np.int64 or where.ndim != 1:
        return None
    low, high = where.min(), where.max()
    out = []
    for tensor in dataset.tensors:
        if type(tensor) is not Tensor or tensor.requires_grad:
            return None
        array = tensor._array
        if type(array) is not np.ndarray or not array.ndim or low < 0 or high >= len(array):
            return None
        rows = transport.empty((len(index), *array.shape[1:]), array.dtype)
        np.take(array, where, 0, out=rows, mode="clip")  # "raise" would go through a copy
        out.append(_C.wrap(rows))
    return out
