"""`DataLoader`: batches of a dataset, prepared by worker processes or threads."""

from __future__ import annotations

import functools
import math
import multiprocessing as python_multiprocessing
import os
import warnings
from collections.abc import Callable, Iterable
from multiprocessing.context import BaseContext
from typing import Any, Generic, TypeVar

from tritorch.utils.data._utils.collate import default_collate, default_convert
from tritorch.utils.data._utils.fetch import _IterableDatasetFetcher, _MapDatasetFetcher
from tritorch.utils.data._utils.iterators import (
    _BaseDataLoaderIter,
    _get_distributed_settings as _get_distributed_settings,
    _MultiProcessingDataLoaderIter,
    _share_dist_seed as _share_dist_seed,
    _SingleProcessDataLoaderIter,
)
from tritorch.utils.data._utils.worker import get_worker_info
from tritorch.utils.data.dataset import Dataset, IterableDataset
from tritorch.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

T_co = TypeVar("T_co", covariant=True)
_T, _T_co = TypeVar("_T"), TypeVar("_T_co", covariant=True)
_collate_fn_t = Callable[[list[Any]], Any]
_worker_init_fn_t = Callable[[int], None]


class _DatasetKind:
    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(
        kind: int, dataset: Any, auto_collation: bool, collate_fn: _collate_fn_t, drop_last: bool
    ) -> Any:
        """What takes batches from a dataset of a kind."""
        fetcher = _MapDatasetFetcher if kind == _DatasetKind.Map else _IterableDatasetFetcher
        return fetcher(dataset, auto_collation, collate_fn, drop_last)


class _InfiniteConstantSampler(Sampler[None]):
    """For iterable datasets: no index, as often as asked."""

    def __iter__(self) -> Any:
        while True:
            yield None


_PROTECTED = (
    "batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers",
)  # fmt: skip


class DataLoader(Generic[T_co]):
    """Iterates over batches of a dataset.

    Arguments and behaviour are PyTorch's.  What is tritorch's own:

    - ``multiprocessing_context="thread"`` runs the workers as threads of this process.  They share
      the dataset, and start at once; they help where the dataset's code gives up the interpreter
      lock (NumPy on large arrays, files, most decoders).  The process's random generators are left
      alone: a worker draws from ``get_worker_info().rng``.
    - A batch that takes longer than ``timeout`` raises an error with the Python stack of the worker
      that is waited for; without a timeout a warning shows it after two minutes
      (``TRITORCH_LOADER_STALL_SECONDS``).
    - Tensors from worker processes lie in shared memory which is used again when they are gone;
      those below 16 KiB are copied instead.
    """

    dataset: Dataset[T_co]
    batch_size: int | None
    num_workers: int
    pin_memory: bool
    drop_last: bool
    timeout: float
    sampler: Any
    pin_memory_device: str
    prefetch_factor: int | None
    _iterator: _BaseDataLoaderIter | None
    __initialized = False

    def __init__(
        self, dataset: Dataset[T_co], batch_size: int | None = 1, shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
        num_workers: int = 0, collate_fn: _collate_fn_t | None = None, pin_memory: bool = False,
        drop_last: bool = False, timeout: float = 0,
        worker_init_fn: _worker_init_fn_t | None = None, multiprocessing_context: Any = None,
        generator: Any = None, *, prefetch_factor: int | None = None,
        persistent_workers: bool = False, pin_memory_device: str = "", in_order: bool = True,
    ) -> None:  # fmt: skip
        if num_workers < 0:
            raise ValueError(
                "num_workers option should be non-negative; use num_workers=0 to disable "
                "multiprocessing."
            )
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError(
                "prefetch_factor option could only be specified in multiprocessing."
                "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to "
                "None."
            )
        if num_workers > 0 and prefetch_factor is None:
            prefetch_factor = 2
        elif prefetch_factor is not None and prefetch_factor < 0:
            raise ValueError("prefetch_factor option should be non-negative")
        if persistent_workers and num_workers == 0:
            raise ValueError("persistent_workers option needs num_workers > 0")

        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order

        self._iterable = isinstance(dataset, IterableDataset)
        self._dataset_kind = _DatasetKind.Iterable if self._iterable else _DatasetKind.Map
        if self._iterable:
            _check_iterable_options(shuffle, sampler, batch_sampler)
        shuffle = bool(shuffle)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, "
                    "and drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError(
                "batch_size=None option disables auto-batching and is mutually exclusive with "
                "drop_last"
            )
        if sampler is None:
            if self._iterable:
                sampler = _InfiniteConstantSampler()
            elif shuffle:
                sampler = RandomSampler(dataset, generator=generator)  # type: ignore[arg-type]
            else:
                sampler = SequentialSampler(dataset)  # type: ignore[arg-type]
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)

        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self.persistent_workers = persistent_workers
        self.__initialized = True
        self._IterableDataset_len_called: int | None = None
        self._iterator = None
        self.check_worker_number_rationality()

    def _get_iterator(self) -> _BaseDataLoaderIter:
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        self.check_worker_number_rationality()
        return _MultiProcessingDataLoaderIter(self)

    @property
    def _make_fetcher(self) -> Callable[[Any], Any]:
        return functools.partial(
            _fetcher, self._dataset_kind, self._auto_collation, self.collate_fn, self.drop_last
        )

    @property
    def multiprocessing_context(self) -> Any:
        """How workers are started: a context of `multiprocessing`, "thread", or None (default)."""
        return self.__multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, multiprocessing_context: Any) -> None:
        if multiprocessing_context is not None:
            if self.num_workers == 0:
                raise ValueError(
                    f"multiprocessing_context can only be used with multi-process loading "
                    f"(num_workers > 0), but got num_workers={self.num_workers}"
                )
            if isinstance(multiprocessing_context, str):
                valid = [*python_multiprocessing.get_all_start_methods(), "thread"]
                if multiprocessing_context not in valid:
                    raise ValueError(
                        f"multiprocessing_context option should specify a valid start method in "
                        f"{valid!r}, but got {multiprocessing_context=}"
                    )
                if multiprocessing_context != "thread":
                    multiprocessing_context = python_multiprocessing.get_context(
                        multiprocessing_context
                    )
            elif not isinstance(multiprocessing_context, BaseContext):
                raise TypeError(
                    f"multiprocessing_context option should be a valid context object or a string "
                    f"specifying the start method, but got {multiprocessing_context=}"
                )
        self.__multiprocessing_context = multiprocessing_context

    def __setattr__(self, attr: str, val: Any) -> None:
        if self.__initialized and attr in _PROTECTED:
            raise ValueError(
                f"{attr} attribute should not be set after {type(self).__name__} is initialized"
            )
        super().__setattr__(attr, val)

    def __iter__(self) -> Any:
        if not self.persistent_workers or self.num_workers == 0:
            return self._get_iterator()
        iterator = self._iterator
        if iterator is None or iterator._is_closed:  # type: ignore[attr-defined]
            self._iterator = iterator = self._get_iterator()
        else:
            iterator._reset(self)
        return iterator

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def __len__(self) -> int:
        if not self._iterable:
            return len(self._index_sampler)
        # What the dataset says; a warning comes when it yields more.
        length = self._IterableDataset_len_called = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is not None:
            whole = length / self.batch_size
            length = math.floor(whole) if self.drop_last else math.ceil(whole)
        return length

    def check_worker_number_rationality(self) -> None:
        """Warns of more workers than processors."""
        if not self.num_workers or self.multiprocessing_context == "thread":
            return
        try:
            processors: int | None = len(os.sched_getaffinity(0))
        except (AttributeError, OSError):
            processors = os.cpu_count()
        if processors is not None and self.num_workers > processors:
            warnings.warn(
                f"This DataLoader will create {self.num_workers} worker processes in total. Our "
                f"suggested max number of worker in current system is {processors}, which is "
                f"smaller than what this DataLoader is going to create. Loading gets slower, not "
                f"faster, by more workers than there are processors.",
                stacklevel=3,
            )


def _check_iterable_options(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    given = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got "
                f"{name}={value}"
            )


def _fetcher(kind: int, auto_collation: bool, collate: Any, drop_last: bool, dataset: Any) -> Any:
    return _DatasetKind.create_fetcher(kind, dataset, auto_collation, collate, drop_last)
